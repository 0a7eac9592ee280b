//! Work that another scheduler is to place: what is said of it to who asks for it by name.

use capstan_core::model::input::Text;

use super::directory::Owner;
use super::gang::GangDraft;
use super::job::JobDraft;
use super::pod::PodDraft;

/// What a pod is called here.
const POD: &str = "Pod";

/// An owner whose pods name another scheduler, or none, or such a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theirs {
    kind: &'static str,
    scheduler: Option<Text>,
}

impl Theirs {
    /// An owner, if its pods do not all name this scheduler.
    pub fn of(owner: &Owner, ours: &str) -> Option<Theirs> {
        match owner {
            Owner::Job(job) => Theirs::of_job(job, ours),
            Owner::Gang(gang) => Theirs::of_gang(gang, ours),
            Owner::Group(_) | Owner::Other(_) => None,
        }
    }

    /// A Job.
    pub fn of_job(job: &JobDraft, ours: &str) -> Option<Theirs> {
        (!job.ours(ours)).then(|| Theirs { kind: "Job", scheduler: job.scheduler.clone() })
    }

    /// An owner of another project.
    pub fn of_gang(gang: &GangDraft, ours: &str) -> Option<Theirs> {
        let mut roles = gang.says.roles.iter();
        let other = roles.find(|role| role.scheduler.as_deref() != Some(ours))?;
        Some(Theirs { kind: gang.kind.row().name, scheduler: other.scheduler.clone() })
    }

    /// A pod.
    pub fn of_pod(pod: &PodDraft, ours: &str) -> Option<Theirs> {
        (!pod.ours(ours)).then(|| Theirs { kind: POD, scheduler: pod.scheduler.clone() })
    }

    /// Why there is nothing of ours of this name, and what makes it that.
    pub fn told(&self, namespace: &str, name: &str, ours: &str) -> String {
        let (what, names, them, spec) = match self.kind {
            POD => ("pod", "it names", "it", "its spec"),
            _ => ("workload", "its pods name", "them", "the spec of its pods"),
        };
        let named = match self.scheduler.as_deref() {
            None | Some("") => format!("no scheduler, so that of Kubernetes places {them}"),
            Some(other) => format!("schedulerName: {other}"),
        };
        format!(
            "{} {name} in namespace {namespace} is no {what} of ours: {names} {named}; made anew \
             with schedulerName: {ours} in {spec}, it is one",
            self.kind
        )
    }
}
