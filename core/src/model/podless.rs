//! Owners that go on and have no pods for now.
//!
//! Problem: a workload is its pods, and what is kept for them. When the last pod of a Job failed
//! and its controller waits before it makes the next, or all its pods were lost with a node, and
//! nothing is kept for it (any more), then nothing of the workload is left. Its object in the API
//! stays all the same, for as long as its owner goes on: what the work has cost so far stands
//! there, and people hold work by it. So whoever deletes objects is told which are of such owners.
//!
//! Restart: an owner without pods is met as such again. Cost: an entry for each such owner.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::WorkloadIdx;
use crate::model::input::{GangKey, OwnerFacts, Text};
use crate::model::state::ClusterState;
use crate::model::workload::WorkloadId;

/// Namespace and name of a workload.
type Name = (Text, Text);

/// Owners that go on without pods.
#[derive(Debug, Default)]
pub struct Podless {
    /// What their workloads are called, by the uid of the owner.
    by_owner: BTreeMap<Text, Name>,
    /// Of those, the ones that became so since this was last asked.
    news: BTreeSet<Name>,
}

impl Podless {
    /// What workloads of such owners are called.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.by_owner.values()
    }

    /// Those that became so since this was last asked.
    pub fn take_news(&mut self) -> BTreeSet<Name> {
        std::mem::take(&mut self.news)
    }

    fn forget(&mut self, owner: &Text) -> Option<Name> {
        let name = self.by_owner.remove(owner)?;
        self.news.remove(&name);
        Some(name)
    }
}

/// Whether an owner makes pods, or will.
fn goes_on(owner: &OwnerFacts) -> bool {
    owner.ours && owner.member_of.is_none() && !owner.suspended && owner.finished.is_none()
}

impl ClusterState {
    /// A workload of this name has no pods left.
    pub(super) fn note_podless(&mut self, id: &WorkloadId, name: &Text) {
        let GangKey::Owner(uid, run) = &id.key else { return };
        let Some(owner) = self.owners.get(uid).filter(|owner| owner.incarnation == *run) else {
            return;
        };
        if !goes_on(owner) {
            return;
        }
        let known = self.podless.by_owner.get(uid).map(|(_, name)| name);
        let name = match name.is_empty() {
            // It was not named, since nothing of it was there.
            true => known.unwrap_or(&owner.name).clone(),
            false => name.clone(),
        };
        let name = (id.namespace.clone(), name);
        if self.podless.by_owner.insert(uid.clone(), name.clone()).as_ref() != Some(&name) {
            self.podless.news.insert(name);
        }
    }

    /// A workload has pods, or is what is left of an owner that ended.
    pub(super) fn forget_podless(&mut self, workload: WorkloadIdx) {
        if let GangKey::Owner(uid, _) = &self.workloads[workload].id.key {
            self.podless.forget(uid);
        }
    }

    /// An owner changed, or is gone (`None`): without pods its workload may be gone with it.
    pub(super) fn look_at_podless(&mut self, uid: &Text, owner: Option<&OwnerFacts>) {
        if owner.is_none_or(|owner| !goes_on(owner)) {
            self.vacated.extend(self.podless.forget(uid));
        }
    }
}
