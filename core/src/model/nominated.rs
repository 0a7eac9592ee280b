//! Pods of other schedulers that are only nominated for a node.
//!
//! Another scheduler made room for such a pod and comes for it, or changes its mind. It holds what
//! it asks as if it were there, from work of its own priority and lower. Work of higher priority
//! goes before it, as in kube-scheduler: while that is decided on, the pod is off the accounts.
//! What pods around make of one is [`crate::rules::neighbours`]' to know.
//!
//! Cost: nothing where nobody is nominated. Restart: derived from pods.

use capstan_topology::NodeIdx;

use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::state::ClusterState;

/// Nominated pods that are off the accounts, with their nodes.
#[derive(Debug)]
#[must_use]
pub struct Passed(Vec<(PodIdx, NodeIdx)>);

impl ClusterState {
    /// Takes the nominated pods off the accounts before which all members of a workload go, until
    /// [`ClusterState::restore_nominated`].
    pub(crate) fn pass_nominated(&mut self, workload: WorkloadIdx) -> Passed {
        if self.nominated.is_empty() {
            return Passed(Vec::new());
        }
        let entry = &self.workloads[workload];
        let members = entry.members.iter().filter(|pod| self.pods[**pod].active());
        let lowest = members.map(|pod| self.pods[*pod].priority).min();
        let lowest = lowest.unwrap_or(entry.priority);
        let lower = self.nominated.iter().filter(|pod| self.pods[**pod].priority < lowest);
        let passed = lower.map(|pod| (*pod, self.pods[*pod].place.expect("it holds a node")));
        let passed: Vec<_> = passed.collect();
        for (pod, _) in &passed {
            // Nothing was chosen for volumes of a pod that is not ours.
            _ = self.unsettle(*pod);
        }
        Passed(passed)
    }

    /// Takes them onto the accounts again, whoever is on their nodes now.
    pub(crate) fn restore_nominated(&mut self, passed: Passed) {
        passed.0.into_iter().for_each(|(pod, node)| self.settle(pod, node));
    }
}
