//! What an owner bears of its last stop, for whoever tells people of it.
//!
//! Decides whether marks are of the last thing that happened to it: whoever resumes it for us
//! writes others.

use capstan_core::model::input::EvictionNote;
use capstan_core::plan::OwnerRef;
use capstan_core::time::Time;

use super::cluster::Live;
use crate::api::keys;
use crate::convert::directory::Owner;
use crate::convert::note;

/// The last stop of an owner, as our marks on it have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// When it was.
    pub at: Time,
    /// For whom, if for anybody.
    pub by: Option<EvictionNote>,
    /// Its pods had not come up in time.
    pub unready: bool,
}

impl Live {
    /// The stop of an owner that we suspended and did not resume since.
    pub fn stopped(&self, owner: &OwnerRef) -> Option<Stopped> {
        let key = (owner.kind.clone(), owner.namespace.clone(), owner.name.clone());
        let found = self.directory.owners.get(&key).filter(|found| *found.uid() == owner.uid)?;
        let (suspended, last) = match found {
            Owner::Job(job) => (job.suspended, job.requeued.as_deref()),
            Owner::Gang(gang) => (gang.says.suspended, gang.requeued.as_deref()),
            Owner::Group(_) | Owner::Other(_) => return None,
        };
        let resumed = found.marks().annotations.contains_key(keys::ADMITTED);
        let last = last.filter(|_| suspended && !resumed)?;
        let by = note::eviction(found.marks(), &mut Vec::new());
        Some(Stopped { at: last.at, by, unready: last.unready_at == Some(last.at) })
    }
}
