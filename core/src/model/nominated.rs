//! Pods of other schedulers that are only nominated for a node, and where our own are to go.
//!
//! Another scheduler made room for such a pod and comes for it, or changes its mind. It holds what
//! it asks as if it were there, from work of its own priority and lower. Work of higher priority
//! goes before it, as in kube-scheduler: while that is decided on, the pod is off the accounts.
//! Afterwards both may hold more of a node than it has. Of members that are placed together all go
//! before it or none does: each node has one account, which is the same for all of them. Members
//! that have places have no say in it. What pods around make of one is
//! [`crate::rules::neighbours`]' to know, and what its claims mean for others,
//! [`crate::rules::volume_restrictions`]'.
//!
//! A pod of ours that its status nominates for a node, be it an autoscaler that made that node or
//! us who made room there, goes there where it fits, before all preferences. It holds nothing
//! there, and whether it fits anywhere is not for its nomination to say: work that is alike is
//! refused alike. Where it is to go is looked up once it has its flavors, for a pod that is no gang
//! and whose queue has no quota of money.
//!
//! Cost: nothing where nobody is nominated; else, for each head, its node's accounts for each pod
//! that the head goes before. Restart: derived from pods.

use capstan_topology::NodeIdx;

use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, Text};
use crate::model::state::ClusterState;
use crate::model::volumes::Choices;

/// Who is passed over.
#[derive(Debug, Default)]
#[must_use]
pub struct Passed {
    /// Nominated pods that are off the accounts, with their nodes, and what was chosen for volumes
    /// that nobody else uses.
    pods: Vec<(PodIdx, NodeIdx, Choices)>,
    /// Whose claims keep nobody away by who their members are.
    claims: Vec<WorkloadIdx>,
}

impl ClusterState {
    /// Notes for which node the status of a pod of ours that waits nominates it.
    pub(super) fn note_nomination(&mut self, pod: PodIdx, node: Option<Text>) {
        match node {
            Some(node) => drop(self.nominations.insert(pod, node)),
            None => drop(self.nominations.remove(&pod)),
        }
    }

    /// The node for which its status nominates a pod of ours that is no gang.
    pub(crate) fn nomination_of(&self, pod: PodIdx) -> Option<NodeIdx> {
        let node = self.nominations.get(&pod)?;
        let workload = self.pods[pod].workload?;
        let alone = matches!(self.workloads[workload].id.key, GangKey::Pod(_));
        self.room.find_node(node).filter(|_| alone)
    }

    /// Compares nominations with those who may have them.
    ///
    /// # Panics
    /// When somebody has one who is gone, has ended, or is none of ours: that is our own error.
    pub(super) fn recount_nominations(&self) {
        for pod in self.nominations.keys() {
            let pod = self.pods.get(*pod).expect("a pod is nominated that is gone");
            assert!(pod.ours && pod.active(), "{} is nominated, and goes nowhere", pod.name);
        }
    }

    /// Takes the nominated pods off the accounts before which all members of a workload go that
    /// have no place yet, until [`ClusterState::restore_nominated`]. Of our own who claims room
    /// holds it all the same, and keeps no work of higher priority away otherwise.
    pub(crate) fn pass_nominated(&mut self, workload: WorkloadIdx) -> Passed {
        let priority = self.workloads[workload].priority;
        let claims = self.pass_claims(priority, Some(workload));
        if self.nominated.is_empty() {
            return Passed { pods: Vec::new(), claims };
        }
        let surplus = self.surplus(workload);
        let waiting = self.unplaced(workload).filter(|pod| !surplus.contains(pod));
        let waiting = waiting.map(|pod| &self.pods[pod]).filter(|pod| pod.active());
        let lowest = waiting.map(|pod| pod.priority).min();
        let lowest = lowest.unwrap_or(self.workloads[workload].lowest_priority);
        Passed { pods: self.pass_below(lowest), claims }
    }

    /// The same for some pods.
    pub(crate) fn pass_nominated_for(&mut self, pods: &[PodIdx]) -> Passed {
        let lowest = pods.iter().map(|pod| self.pods[*pod].priority).min();
        let (Some(lowest), Some(first)) = (lowest, pods.first()) else { return Passed::default() };
        let workload = self.pods[*first].workload;
        let priority = workload.map_or(lowest, |workload| self.workloads[workload].priority);
        let claims = self.pass_claims(priority, None);
        Passed { pods: self.pass_below(lowest), claims }
    }

    /// The same for whoever has a priority.
    fn pass_below(&mut self, lowest: i32) -> Vec<(PodIdx, NodeIdx, Choices)> {
        let lower = self.nominated.range(..(lowest, PodIdx::FIRST)).map(|(_, pod)| *pod);
        let lower: Vec<PodIdx> = lower.collect();
        let pass = |pod: PodIdx| {
            let node = self.pods[pod].place.expect("it holds a node");
            (pod, node, self.unsettle(pod))
        };
        lower.into_iter().map(pass).collect()
    }

    /// Takes them onto the accounts again, whoever is on their nodes now.
    pub(crate) fn restore_nominated(&mut self, passed: Passed) {
        for (pod, node, chosen) in passed.pods.into_iter().rev() {
            self.settle(pod, node);
            // Of ours who was the last to use them may be gone in a try that is undone later.
            self.room.volumes.restore_used(chosen);
        }
        self.restore_claims(passed.claims);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::apply::Changes;
    use crate::model::input::{
        CapacityType, GangRef, GangSource, Input, Labels, NodeFacts, PodFacts, PodPhase, PodShape,
        Rank, Wishes,
    };
    use crate::resources::CPU;
    use crate::time::Time;

    fn node() -> Input {
        Input::Node(Arc::new(NodeFacts {
            name: "n".into(),
            labels: Labels::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: [("cpu".into(), 9), ("pods".into(), 9)].into(),
            features: Vec::new(),
            images: Arc::default(),
            capacity_type: CapacityType::Unknown,
            price: None,
        }))
    }

    /// A pod of a priority that asks for one.
    fn pod(name: &str, priority: i32, gang: &str) -> PodFacts {
        let requests = [("cpu".into(), 1)].into();
        PodFacts {
            uid: name.into(),
            namespace: "team".into(),
            name: name.into(),
            shape: Arc::new(PodShape { requests, ..PodShape::default() }),
            holds: None,
            ours: true,
            node: None,
            nominated: false,
            goes_to: None,
            phase: PodPhase::Pending,
            terminating: false,
            gated: false,
            rank: Rank::None,
            created: Time(0),
            bound_at: None,
            ended_at: None,
            priority,
            never_preempts: false,
            stays: None,
            gang: GangRef {
                key: GangKey::Group(GangSource::CapstanGang, gang.into()),
                name: gang.into(),
                source: GangSource::CapstanGang,
                min_member: Some(1),
                total: None,
                roles: None,
                by_itself: false,
                singly: false,
                unknown_owner: None,
                held: None,
                to_come: None,
            },
            of_job: None,
            wishes: Arc::new(Wishes::default()),
            binding: None,
            eviction: None,
            claims: None,
        }
    }

    /// A node for which pods of priorities 5 and 7 are nominated, and a gang whose members have
    /// priorities 4, 6 and 8; the first of them has a place if so said.
    fn state(runs: bool) -> ClusterState {
        let nominated = |priority: i32| {
            let facts = pod(&format!("theirs-{priority}"), priority, "theirs");
            PodFacts { ours: false, nominated: true, node: Some("n".into()), ..facts }
        };
        let mut members = [4, 6, 8].map(|priority| pod(&format!("p{priority}"), priority, "g"));
        if runs {
            (members[0].node, members[0].phase) = (Some("n".into()), PodPhase::Running);
        }
        let pods = [nominated(5), nominated(7)].into_iter().chain(members).map(Input::Pod);
        let (mut state, mut changes) = (ClusterState::default(), Changes::default());
        [node()].into_iter().chain(pods).for_each(|fact| state.apply(fact, &mut changes));
        state.derive(&mut changes);
        state.recount();
        state
    }

    fn named(state: &ClusterState, name: &str) -> PodIdx {
        state.pods.iter().find(|(_, pod)| &*pod.name == name).expect("it is there").0
    }

    /// What is free while these are decided on.
    fn free(state: &mut ClusterState, pass: impl FnOnce(&mut ClusterState) -> Passed) -> i64 {
        let passed = pass(state);
        let free = state.room.ledger.free(NodeIdx(0), CPU);
        state.restore_nominated(passed);
        state.recount();
        free
    }

    #[test]
    fn members_that_are_placed_together_pass_whom_all_of_them_pass() {
        let mut state = state(false);
        let workload = state.pods[named(&state, "p4")].workload.expect("its gang");
        assert_eq!(free(&mut state, |state| state.pass_nominated(workload)), 7);
        let two = ["p6", "p8"].map(|name| named(&state, name));
        assert_eq!(free(&mut state, |state| state.pass_nominated_for(&two)), 8);
    }

    #[test]
    fn who_has_a_place_has_no_say_in_whom_others_pass() {
        let mut state = state(true);
        let workload = state.pods[named(&state, "p4")].workload.expect("its gang");
        assert_eq!(free(&mut state, |state| state.pass_nominated(workload)), 7);
    }

    #[test]
    fn a_pod_by_itself_passes_whoever_stands_lower_than_itself() {
        let mut state = state(false);
        for (name, left) in [("p4", 7), ("p6", 8), ("p8", 9)] {
            let one = [named(&state, name)];
            assert_eq!(free(&mut state, |state| state.pass_nominated_for(&one)), left, "{name}");
        }
    }
}
