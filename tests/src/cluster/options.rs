//! What a cluster of a test has.

use super::access::User;
use super::parts::Part;

/// What a cluster has; etcd, the API server and kubectl always.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The controller manager: Jobs, garbage collection, taint eviction, disruption budgets.
    pub controller_manager: bool,
    /// The stock scheduler, for pods that name no other.
    pub scheduler: bool,
    /// kwok: nodes are Ready and pods run (`tests/controlplane/stages.yaml` says how).
    pub kwok: bool,
    /// The gangs of Kubernetes itself: `scheduling.k8s.io/v1beta1` and its feature gate.
    pub upstream_gangs: bool,
    /// For benchmarks: no bounds on requests in flight, and new nodes are ready at once.
    pub unbounded: bool,
    /// kube-scheduler waits for its lease before it schedules anything.
    pub elects: bool,
    /// For comparisons: kube-scheduler waits for no volume, so that what it chose is seen at once,
    /// and volumes and claims go when they are deleted, whoever uses them.
    pub decisions: bool,
    /// Every request is written down, with who sent it and what was answered.
    pub audit: bool,
    /// Who else may talk to it.
    pub users: Vec<User>,
}

impl Options {
    /// An API server and its store, nothing that acts.
    pub fn bare() -> Options {
        Options::default()
    }

    /// Everything that a real cluster has: Jobs run on fake nodes.
    pub fn full() -> Options {
        Options { controller_manager: true, scheduler: true, kwok: true, ..Options::default() }
    }

    /// With one more user.
    pub fn user(mut self, name: &str, groups: &[&str]) -> Options {
        self.users.push(User::new(name, groups));
        self
    }

    /// The parts that act on the API server, in the order in which they are started.
    pub(super) fn clients(&self) -> Vec<Part> {
        let table = [
            (self.controller_manager, Part::ControllerManager),
            (self.scheduler, Part::Scheduler),
            (self.kwok, Part::Kwok),
        ];
        table.into_iter().filter(|(wanted, _)| *wanted).map(|(_, part)| part).collect()
    }

    /// All parts that are needed.
    pub(super) fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Etcd, Part::ApiServer, Part::Kubectl];
        parts.extend(self.clients());
        parts
    }
}
