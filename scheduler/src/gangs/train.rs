//! TrainJobs of Kubeflow's trainer: the JobSet that one makes says what its pods are.
//!
//! The TrainJob is what people see and what is stopped and started; it has the JobSet's name.

use super::fields::{Fields, Part};
use super::finished;
use super::kinds::Kind;
use crate::api::keys;
use crate::convert::directory::{Directory, OwnerKey};
use crate::convert::gang::{GangDraft, Says};

/// What a TrainJob says.
pub fn read(part: Part<'_>, fields: &mut Fields) -> Says {
    Says {
        suspended: fields.flag(part, "spec.suspend"),
        finished: finished(Kind::TrainJob, part),
        ..Says::default()
    }
}

/// The JobSet that this very TrainJob made: one that another of its name left behind says nothing
/// of it.
pub fn job_set<'a>(job: &GangDraft, directory: &'a Directory) -> Option<&'a GangDraft> {
    let key: OwnerKey = (Kind::JobSet.row().key.into(), job.namespace.clone(), job.name.clone());
    let found = directory.owners.get(&key)?.gang()?;
    let made = found
        .owner
        .as_ref()
        .is_some_and(|owner| &*owner.kind == Kind::TrainJob.row().key && owner.means(&job.uid));
    made.then_some(found)
}

/// Whether a TrainJob that is to be ours lacks the JobSet that says what its pods are: that says as
/// well who schedules those, so that only what the TrainJob asks of us tells whose it is.
pub fn unmade(job: &GangDraft, directory: &Directory) -> bool {
    let ours = job.marked || job.marks.any(keys::QUEUE).is_some();
    let lives = job.says.finished.is_none() && job.elsewhere.is_none();
    job.kind == Kind::TrainJob && ours && lives && job_set(job, directory).is_none()
}
