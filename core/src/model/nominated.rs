//! Pods of other schedulers that are only nominated for a node.
//!
//! Another scheduler made room for such a pod and comes for it, or changes its mind. It holds what
//! it asks as if it were there, from work of its own priority and lower. Work of higher priority
//! goes before it, as in kube-scheduler: while that is decided on, the pod is off the accounts.
//! Afterwards both may hold more of a node than it has. Of a gang all members go before it or none
//! does. What pods around make of one is [`crate::rules::neighbours`]' to know, and what its claims
//! mean for others, [`crate::rules::volume_restrictions`]'.
//!
//! Cost: nothing where nobody is nominated; else, for each head, its node's accounts for each pod
//! that the head goes before. Restart: derived from pods.

use capstan_topology::NodeIdx;

use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::volumes::Choices;

/// Nominated pods that are off the accounts, with their nodes, and what was chosen for volumes that
/// nobody else uses.
#[derive(Debug)]
#[must_use]
pub struct Passed(Vec<(PodIdx, NodeIdx, Choices)>);

impl ClusterState {
    /// Takes the nominated pods off the accounts before which all members of a workload go, until
    /// [`ClusterState::restore_nominated`].
    pub(crate) fn pass_nominated(&mut self, workload: WorkloadIdx) -> Passed {
        if self.nominated.is_empty() {
            return Passed(Vec::new());
        }
        let lowest = self.workloads[workload].lowest_priority;
        let lower = self.nominated.range(..(lowest, PodIdx::FIRST)).map(|(_, pod)| *pod);
        let lower: Vec<PodIdx> = lower.collect();
        let pass = |pod: PodIdx| {
            let node = self.pods[pod].place.expect("it holds a node");
            (pod, node, self.unsettle(pod))
        };
        Passed(lower.into_iter().map(pass).collect())
    }

    /// Takes them onto the accounts again, whoever is on their nodes now.
    pub(crate) fn restore_nominated(&mut self, passed: Passed) {
        for (pod, node, chosen) in passed.0.into_iter().rev() {
            self.settle(pod, node);
            // Of ours who was the last to use them may be gone in a try that is undone later.
            self.room.volumes.restore_used(chosen);
        }
    }
}
