//! Members that leave a gang which goes on.
//!
//! Problem: a gang may run with more members than it needs. Where room for less than all of it is
//! wanted, it need not end.
//!
//! Decides who may leave a gang by itself, and how many together: members of a group of which as
//! many stay as its minimum, where nothing tells one of them from the other (no roles, replicas or
//! slices, nobody for whom the others wait), and whose source allows it ([`GangRef::singly`]). Not
//! pods of Jobs, and not those of operators: a pod that is deleted is a failure there, which counts
//! for all of them. Those are stopped whole, as is a gang that is in the middle of anything, that
//! leaves, or for which others do.
//!
//! Who leaves is a workload of its own from then on, which holds what it held, with the flavors of
//! its gang: whatever becomes of it (claims on it, its mark, its end, a refusal) is what becomes of
//! any pod of its own, and its gang has one member less. What the API says of its gang counts no
//! more. Where it does not leave after all (`engine/stops.rs`) it is a member again once facts say
//! of which gang.
//!
//! Restart: the mark on such a pod says that it leaves by itself, and who reads that feeds a pod of
//! its own. Cost: a look at each member of a group that is to be stopped.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::apply::Changes;
use crate::model::budgets::Allowance;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, GangRef, GangSource, PodFacts, Text};
use crate::model::pod::Binding;
use crate::model::state::ClusterState;
use crate::model::workload::Assignment;
use crate::plan::State;

impl GangRef {
    /// A pod of its own: a gang of one.
    pub fn of_one(uid: &Text, name: &Text) -> GangRef {
        GangRef {
            key: GangKey::Pod(uid.clone()),
            name: name.clone(),
            source: GangSource::Pod,
            min_member: Some(1),
            total: None,
            roles: None,
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: None,
        }
    }

    /// The same once a member leaves by itself: what is said of it stays.
    pub fn apart(&self, uid: &Text, name: &Text) -> GangRef {
        GangRef {
            unknown_owner: self.unknown_owner.clone(),
            held: self.held.clone(),
            to_come: None,
            ..GangRef::of_one(uid, name)
        }
    }
}

impl ClusterState {
    /// Members of a gang that may leave by themselves, and how many of them together. Who stays
    /// longest comes first: whose leaving breaks a PodDisruptionBudget, then by priority, then who
    /// was made first.
    pub(crate) fn may_leave_singly(&self, workload: WorkloadIdx) -> (Vec<PodIdx>, usize) {
        let entry = &self.workloads[workload];
        let whole = !matches!(entry.id.key, GangKey::Group(..))
            || entry.state != State::Running
            || entry.in_slices(&self.room)
            || self.uncharged.contains(&workload)
            || self.claims.get(workload).is_some()
            || !self.claims.naming(workload).is_empty();
        let of_role = |pod: PodIdx| self.pods[pod].gang.roles.is_some();
        let by_itself = |pod: PodIdx| self.pods[pod].gang.by_itself;
        let placed = || self.placed(workload);
        // For one of them the others wait, unless none waits for any.
        let differ = placed().any(of_role) || placed().any(by_itself) && !placed().all(by_itself);
        if whole || differ {
            return (Vec::new(), 0);
        }
        let stays = |pod: &PodIdx| {
            let pod = &self.pods[*pod];
            pod.binding == Binding::Bound && !pod.terminating
        };
        let staying: Vec<PodIdx> = self.placed(workload).filter(stays).collect();
        let spare = staying.len().saturating_sub(entry.min_member as usize);
        let mut singly = staying;
        singly.retain(|pod| self.pods[*pod].gang.singly);
        let guarded = self.break_budgets(&singly);
        let rank = |pod: &PodIdx| (!guarded.contains(pod), Reverse(self.pods[*pod].priority));
        singly
            .sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| self.pods[*a].made(&self.pods[*b])));
        (singly, spare)
    }

    /// Which of these pods break a PodDisruptionBudget, if they leave one after the other: those of
    /// the lowest priority first, of equals who was made last.
    pub(crate) fn break_budgets(&self, pods: &[PodIdx]) -> BTreeSet<PodIdx> {
        if self.budgets.is_empty() {
            return BTreeSet::new();
        }
        let mut in_turn = pods.to_vec();
        in_turn.sort_by(|a, b| {
            let (a, b) = (&self.pods[*a], &self.pods[*b]);
            a.priority.cmp(&b.priority).then_with(|| b.made(a))
        });
        let mut allowance = Allowance::new(self);
        in_turn.retain(|pod| allowance.take(std::iter::once(*pod)) > 0);
        in_turn.into_iter().collect()
    }

    /// These members of a gang leave by themselves: the workloads that they are from now on.
    pub(crate) fn set_apart(&mut self, gang: WorkloadIdx, members: &[PodIdx]) -> Vec<WorkloadIdx> {
        let mut apart = Vec::with_capacity(members.len());
        for &member in members {
            apart.push(self.set_one_apart(gang, member));
        }
        self.workloads[gang].members.retain(|member| !members.contains(member));
        let all = || apart.iter().copied().chain([gang]);
        // What they hold is what they held: nothing comes free.
        let mut changes = Changes::default();
        for workload in all() {
            self.derive_identity(workload);
            self.derive_queue(workload, &mut changes);
        }
        self.derive_names(&apart);
        for &workload in &apart {
            self.turns.arrived(&self.workloads[workload].full_name);
        }
        for workload in all() {
            self.derive_began(workload);
            self.derive_roles(workload);
            self.derive_state(workload);
        }
        apart
    }

    /// A workload of its own for a member of a gang, with what its gang holds for it. Nothing is
    /// charged anew: it is the same amounts of the same queue.
    fn set_one_apart(&mut self, gang: WorkloadIdx, member: PodIdx) -> WorkloadIdx {
        let pod = &self.pods[member];
        let (namespace, shape) = (pod.namespace.clone(), pod.shape);
        let one = pod.gang.apart(&pod.uid, &pod.name);
        let own = self.workload_of(&namespace, &one.key);
        let (class, found) =
            (self.workloads[gang].class.clone(), self.workloads[gang].found_running);
        let held = self.workloads[gang].assignment.as_ref().map(|held| {
            let sets = held.sets.iter().filter(|set| set.shape == shape).cloned().collect();
            Arc::new(Assignment { queue: held.queue, sets, at: held.at })
        });
        self.set_assignment(own, held);
        let entry = &mut self.workloads[own];
        (entry.members, entry.class, entry.found_running) = (vec![member], class, found);
        (entry.dirty, entry.unordered) = (false, false);
        let pod = &mut self.pods[member];
        (pod.apart, pod.gang, pod.workload) = (true, Arc::new(one), Some(own));
        own
    }

    /// The pod that is spoken of, if it is known. What is said of one that leaves by itself is
    /// made what counts: it is in no gang.
    pub(super) fn known_as_it_leaves(&self, facts: &mut PodFacts) -> Option<PodIdx> {
        let known = self.pod_by_uid.get(&facts.uid).copied();
        if known.is_some_and(|pod| self.pods[pod].apart) {
            facts.gang = facts.gang.apart(&facts.uid, &facts.name);
        }
        known
    }

    /// The stop of a workload came to nothing: what facts say next of the gang of its members
    /// counts again.
    pub(crate) fn no_more_apart(&mut self, workload: WorkloadIdx) {
        for at in 0..self.workloads[workload].members.len() {
            let pod = self.workloads[workload].members[at];
            self.pods[pod].apart = false;
        }
    }
}
