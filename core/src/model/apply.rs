//! Facts into state.
//!
//! Every fact replaces the one before it with the same identity. Order between objects does not
//! matter: pods and objects are stored first; queues, workloads and holdings that depend on
//! several of them are derived once at the end ([`ClusterState::derive`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::model::ids::{PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    ClaimKey, GangKey, GangRef, Input, LocalQueueUsage, OwnerEnd, OwnerFacts, PodFacts, PodShape,
    ResourceClaimKey, Text,
};
use crate::model::pod::{Binding, Pod, Rare, Takeover};
use crate::model::state::ClusterState;
use crate::model::volumes::{Choices, MayFit};
use crate::model::workload::{Assignment, SetAssignment, WorkloadId};
use crate::policy::Policy;
use crate::time::Time;

/// What a batch of facts changed, as far as waiting work must know.
#[derive(Debug, Default)]
pub struct Changes {
    /// Workloads to derive again.
    pub dirty: BTreeSet<WorkloadIdx>,
    /// Pods to account on nodes once their workloads are derived.
    pub to_settle: BTreeMap<PodIdx, NodeIdx>,
    /// Room came free, or nodes changed: work that waits for nodes may fit.
    pub room: bool,
    /// Nodes, devices or what backs resources changed, not only who runs where.
    pub facts: bool,
    /// Queue objects, priorities or configuration changed: everything may fit.
    pub everything: bool,
    /// Quota came free in these queues' trees.
    pub queues: BTreeSet<QueueIdx>,
    /// Pods of resumed owners that took over a kept place: to be bound now.
    pub arrived: Vec<PodIdx>,
    /// When those owners were admitted; not of who is made again, or later, beside others that run.
    pub came: BTreeSet<Time>,
    /// Workloads that are gone, with namespace and name.
    pub gone: Vec<(WorkloadIdx, Text, Text)>,
    /// Queues must be built again.
    pub rebuild: bool,
    /// Other resources count against quota than did.
    pub recharge: bool,
    /// Claims, volumes or what makes them changed: work that has volumes may fit.
    pub storage: bool,
    /// Claims on volumes that changed, for whose users alone that may be.
    pub volume_claims: BTreeSet<ClaimKey>,
    /// Devices or claims on them changed: what they cost may have.
    pub devices: bool,
    /// Devices came free, or changed: work that asks for devices may fit.
    pub devices_free: bool,
    /// Claims that merely have devices now: who shares them may fit.
    pub allocated: BTreeSet<ResourceClaimKey>,
    /// Workloads whose claims on what victims hold are to be counted anew.
    pub claims: BTreeSet<WorkloadIdx>,
    /// What was chosen for claims of pods that were taken off the accounts: it stands, if they are
    /// accounted again.
    pub chosen: Choices,
}

/// Where a pod is by facts that put it on a node, or on none, and how far its binding got.
fn stands(
    (known, had): (&Pod, Option<NodeIdx>),
    facts: &PodFacts,
    (workload, bound): (Option<WorkloadIdx>, Option<NodeIdx>),
) -> (Option<NodeIdx>, Binding) {
    match (facts.phase.terminal(), bound, known.binding) {
        (true, ..) => (None, Binding::None),
        (false, Some(node), _) => (Some(node), Binding::Bound),
        (false, None, Binding::InFlight(_)) => (had, known.binding),
        // It is prepared, and waits for others of its gang to be.
        (false, None, Binding::None) if !facts.terminating && known.workload == workload => {
            (had, Binding::None)
        }
        (false, None, _) => (None, Binding::None),
    }
}

impl ClusterState {
    /// Stores one fact. Outcomes of effects are the engine's, not the state's.
    pub fn apply(&mut self, input: Input, changes: &mut Changes) {
        match input {
            Input::Node(facts) => {
                let name = facts.name.clone();
                self.look_at_gpus(&name, Some(&facts));
                if self.room.upsert_node(facts) {
                    (changes.room, changes.facts) = (true, true);
                    self.turns.change();
                    // It may be of a flavor now.
                    changes.dirty.extend(&self.uncharged);
                    self.rebill(self.room.find_node(&name), changes);
                }
            }
            Input::NodeGone(name) => {
                self.look_at_gpus(&name, None);
                changes.room |= self.room.remove_node(&name);
                changes.facts = true;
                self.turns.change();
                self.rebill(self.room.find_node(&name), changes);
            }
            Input::Pod(facts) => self.apply_pod(facts, changes),
            Input::PodGone(uid) => self.remove_pod(&uid, changes),
            Input::PodEnded { pod, well } => self.end_pod(&pod, well, changes),
            Input::Owner(facts) => self.apply_owner(facts, changes),
            Input::OwnerGone(uid) => self.remove_owner(&uid, changes),
            Input::Policy(policy) => self.apply_policy(policy, changes),
            Input::Storage(fact) => match self.room.apply_storage(fact) {
                MayFit::Nobody => {}
                MayFit::Users(claim) => _ = changes.volume_claims.insert(claim),
                MayFit::WhoHasVolumes => changes.storage = true,
            },
            Input::Outcome { .. } => {}
            Input::Budget(facts) => self.budgets.put(facts),
            Input::BudgetGone { namespace, name } => self.budgets.remove(&namespace, &name),
            Input::Slice(_)
            | Input::SliceGone(_)
            | Input::Answers { .. }
            | Input::QueryGone(_)
            | Input::ResourceClaim(_)
            | Input::ResourceClaimGone(_) => self.apply_devices(input, changes),
            Input::Deactivated(facts) => {
                let name = (facts.namespace, facts.name);
                self.deactivate(name, Some(facts.owners.into()), changes);
            }
            Input::Reactivated(namespace, name) => {
                self.deactivate((namespace, name), None, changes)
            }
            Input::LocalQueueUsed(usage) => self.restore_usage(&usage),
            Input::Spent(spent) => self.spending.restore(&spent),
            Input::BackedResources(names) => {
                changes.room |= self.room.set_backed(&names);
                changes.facts = true;
                self.rebill_all(changes);
            }
            object => {
                match &object {
                    Input::Namespace { name, labels } => {
                        self.room.neighbourhood.set_namespace(name, Some(labels));
                    }
                    Input::NamespaceGone(name) => self.room.neighbourhood.set_namespace(name, None),
                    _ => {}
                }
                changes.rebuild = true;
                changes.everything = true;
                self.turns.change();
                self.apply_object(object);
            }
        }
    }

    /// What a LocalQueue used, as its status says it; by the next look it counts.
    fn restore_usage(&mut self, usage: &LocalQueueUsage) {
        let resources = &mut self.room.resources;
        let amounts = usage.consumed.iter();
        let amounts = amounts.map(|(name, amount)| (resources.intern(name), *amount)).collect();
        let name = (usage.namespace.clone(), usage.name.clone());
        self.history.restore(&name, &amounts, usage.at);
    }

    fn apply_object(&mut self, input: Input) {
        let facts = &mut self.facts;
        match input {
            Input::ClusterQueue(f) => drop(facts.cluster_queues.insert(f.name.clone(), f.into())),
            Input::ClusterQueueGone(name) => {
                self.spending.forget(&name);
                facts.cluster_queues.remove(&name);
            }
            Input::LocalQueue(f) => facts.put_local_queue(f.into()),
            Input::LocalQueueGone { namespace, name } => {
                let name = (namespace, name);
                self.history.forget(&name);
                facts.remove_local_queue(&name);
            }
            Input::Cohort(f) => drop(facts.cohorts.insert(f.name.clone(), f.into())),
            Input::CohortGone(name) => drop(facts.cohorts.remove(&name)),
            Input::Flavor(f) => drop(facts.flavors.insert(f.name.clone(), f.into())),
            Input::FlavorGone(name) => drop(facts.flavors.remove(&name)),
            Input::WorkloadPriorityClass { name, value } => {
                facts.priorities.insert(name, value);
            }
            Input::WorkloadPriorityClassGone(name) => drop(facts.priorities.remove(&name)),
            Input::Namespace { name, labels } => drop(facts.namespaces.insert(name, labels)),
            Input::NamespaceGone(name) => drop(facts.namespaces.remove(&name)),
            Input::Topology { name, levels } => drop(facts.topologies.insert(name, levels)),
            Input::TopologyGone(name) => drop(facts.topologies.remove(&name)),
            _ => unreachable!("the caller sends objects only"),
        }
    }

    fn apply_policy(&mut self, policy: Arc<Policy>, changes: &mut Changes) {
        if self.policy.decides_as(&policy) {
            self.policy = policy;
            return;
        }
        changes.recharge |= self.policy.quota != policy.quota;
        self.room.args = policy.rules.clone();
        self.room.count_by(&policy.quota);
        self.policy = policy;
        self.turns.change();
        changes.rebuild = true;
        changes.everything = true;
    }

    fn apply_pod(&mut self, mut facts: PodFacts, changes: &mut Changes) {
        let known = self.known_as_it_leaves(&mut facts);
        let workload = facts.ours.then(|| match self.still_in(known, &facts) {
            Some(known) => known,
            None => self.workload_of(&facts.namespace, &facts.gang.key),
        });
        let (shape, named_node) = self.class_shape(known, &facts);
        let gang = self.shared_gang(known, workload, &facts.gang);
        let index = known.unwrap_or_else(|| self.new_pod(&facts, shape, &gang));
        let holds = match &facts.holds {
            Some(amounts) => self.room.intern_amounts(amounts),
            None => self.room.shape(shape).request,
        };
        let bound = facts.node.as_ref().map(|name| self.node_of(index, name));
        let old = &self.pods[index];
        // Another fact of this batch may have taken it off the accounts for a moment.
        let had = old.place.or_else(|| changes.to_settle.get(&index).copied());
        let (place, binding) = stands((old, had), &facts, (workload, bound));
        let old_shape = old.shape;
        let was_in = old.workload;
        let moved = had != place
            || (old.shape, old.holds) != (shape, holds)
            || old.nominated != facts.nominated
            || (old.nominated && old.priority != facts.priority)
            || (old.terminating != facts.terminating && facts.shape.kin.is_some());
        if let Some(workload) = was_in.filter(|_| old_shape != shape) {
            self.carry_flavors(workload, old_shape, shape);
        }
        self.note_ended(index, had, facts.phase);
        if moved || was_in != workload {
            self.release(index, changes);
            if let Some(node) = place {
                changes.to_settle.insert(index, node);
            }
        }
        let old_workload = self.pods[index].workload;
        let stood = &self.pods[index];
        let moves = (stood.created, stood.rank) != (facts.created, facts.rank);
        if let Some(workload) = old_workload.filter(|_| moves) {
            self.workloads[workload].unordered = true;
        }
        let pod = &mut self.pods[index];
        (pod.shape, pod.holds, pod.binding, pod.workload) = (shape, holds, binding, workload);
        pod.ours = facts.ours;
        (pod.phase, pod.nominated) = (facts.phase, facts.nominated);
        pod.terminating = facts.terminating;
        (pod.gated, pod.rank) = (facts.gated, facts.rank);
        pod.bound_at = facts.bound_at.or(pod.bound_at);
        let rare = Rare { named_node, ended_at: facts.ended_at, of_job: facts.of_job };
        pod.rare = (rare != Rare::default()).then(|| Box::new(rare));
        pod.priority = facts.priority;
        (pod.never_preempts, pod.stays) = (facts.never_preempts, facts.stays);
        pod.created = facts.created;
        (pod.gang, pod.wishes) = (gang, facts.wishes);
        if facts.binding.is_some() && pod.note != facts.binding {
            pod.note = facts.binding;
        }
        pod.eviction = facts.eviction.map(Arc::new);
        pod.claims = facts.claims;
        let waits = facts.ours && facts.node.is_none() && !facts.phase.terminal();
        self.note_nomination(index, facts.goes_to.filter(|_| waits));
        if !self.is_billed_as_noted(index) {
            self.release(index, changes);
            changes.to_settle.extend(place.map(|node| (index, node)));
        }
        self.note_left_claim(index);
        self.note_reserver(index, facts.phase.terminal(), changes);
        self.move_membership(index, old_workload, workload, changes);
    }

    /// The node of a name: mostly the one where a pod has its place already.
    fn node_of(&mut self, pod: PodIdx, name: &Text) -> NodeIdx {
        let place = self.pods[pod].place;
        match place.filter(|node| self.room.node(*node).name == *name) {
            Some(node) => node,
            None => self.room.node_named(name),
        }
    }

    /// The workload that a pod was in, if it still is: it need not be looked up. Of a pod of an
    /// owner that was deleted it is the run that it was in, which the pod itself knows no more, be
    /// it that it names no owner any more: one that is deleted without its pods is taken off those.
    fn still_in(&self, known: Option<PodIdx>, facts: &PodFacts) -> Option<WorkloadIdx> {
        let (known, was_in) = (known?, self.pods[known?].workload?);
        let id = &self.workloads[was_in].id;
        // Without its owners it may seem to be of a nearer one, or of none at all.
        let orphaned = facts.gang.unknown_owner.is_some() && matches!(id.key, GangKey::Owner(..));
        let same = || id.namespace == facts.namespace && id.key == facts.gang.key;
        let left_alone = || match &id.key {
            GangKey::Owner(owner, _) if id.key.was_left_alone(&facts.gang.key) => {
                let owner = self.owners.get(owner).map(|owner| &owner.finished);
                let deleted = owner.is_none_or(|end| *end == Some(OwnerEnd::Deleted));
                deleted && self.pods[known].place.is_some() && facts.node.is_some()
            }
            _ => false,
        };
        (orphaned || same() || left_alone()).then_some(was_in)
    }

    /// A pod's gang as fed: one copy for all members that say the same.
    fn shared_gang(
        &self,
        pod: Option<PodIdx>,
        workload: Option<WorkloadIdx>,
        gang: &GangRef,
    ) -> Arc<GangRef> {
        let first = || self.workloads[workload?].members.first().copied();
        let of = |pod: PodIdx| &self.pods[pod].gang;
        let known = pod.into_iter().chain(first()).map(of).find(|known| ***known == *gang);
        known.cloned().unwrap_or_else(|| Arc::new(gang.clone()))
    }

    /// A member changed its shape while its workload holds quota (a toleration was patched onto
    /// it): it keeps its flavors, if it asks the same.
    fn carry_flavors(&mut self, workload: WorkloadIdx, old: ShapeIdx, new: ShapeIdx) {
        let same = self.room.shape(old).request == self.room.shape(new).request;
        let Some(assignment) = self.workloads[workload].assignment.clone().filter(|_| same) else {
            return;
        };
        if let (Some(set), None) = (assignment.set(old), assignment.set(new)) {
            let mut carried = Assignment::clone(&assignment);
            let members = &self.workloads[workload].members;
            carried.extend(SetAssignment { shape: new, ..set.clone() }, |shape| {
                members.iter().any(|pod| self.pods[*pod].shape == shape)
            });
            self.set_assignment(workload, Some(Arc::new(carried)));
        }
    }

    /// The shape that a pod shares with its peers. A bound pod has its node in its spec, whoever
    /// bound it; that says nothing about where its peers may go, so it is kept apart.
    fn class_shape(&mut self, known: Option<PodIdx>, facts: &PodFacts) -> (ShapeIdx, Option<Text>) {
        if let (Some(_), Some(named)) = (&facts.node, &facts.shape.node_name) {
            let free = PodShape { node_name: None, ..PodShape::clone(&facts.shape) };
            return (self.room.intern_shape(&Arc::new(free)), Some(named.clone()));
        }
        // Mostly it is what it was: one comparison, and none where both are one copy.
        let had = known.map(|pod| self.pods[pod].shape);
        let same = had.filter(|shape| self.room.shape(*shape).facts == facts.shape);
        (same.unwrap_or_else(|| self.room.intern_shape(&facts.shape)), None)
    }

    fn new_pod(&mut self, facts: &PodFacts, shape: ShapeIdx, gang: &Arc<GangRef>) -> PodIdx {
        let index = self.pods.insert(Pod {
            uid: facts.uid.clone(),
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            shape,
            holds: self.room.shape(shape).request,
            ours: facts.ours,
            phase: facts.phase,
            nominated: false,
            terminating: false,
            gated: false,
            later: false,
            place_kept: false,
            rank: facts.rank,
            created: facts.created,
            bound_at: None,
            counted: false,
            priority: 0,
            never_preempts: false,
            stays: None,
            gang: gang.clone(),
            wishes: facts.wishes.clone(),
            note: None,
            eviction: None,
            apart: false,
            workload: None,
            place: None,
            binding: Binding::None,
            takeover: Takeover::Open,
            claims: None,
            rare: None,
        });
        self.pod_by_uid.insert(facts.uid.clone(), index);
        index
    }

    fn move_membership(
        &mut self,
        pod: PodIdx,
        old: Option<WorkloadIdx>,
        new: Option<WorkloadIdx>,
        changes: &mut Changes,
    ) {
        if let Some(old) = old.filter(|old| Some(*old) != new) {
            self.workloads[old].members.retain(|member| *member != pod);
            changes.dirty.insert(old);
        }
        let Some(new) = new else { return };
        if old != Some(new) {
            self.workloads[new].members.push(pod);
            self.workloads[new].unordered = true;
        }
        changes.dirty.insert(new);
    }

    pub(super) fn remove_pod(&mut self, uid: &Text, changes: &mut Changes) {
        let Some(index) = self.pod_by_uid.remove(uid) else { return };
        self.left_claims.remove(&index);
        self.note_reserver(index, true, changes);
        self.note_nomination(index, None);
        self.release(index, changes);
        let workload = self.pods[index].workload;
        self.move_membership(index, workload, None, changes);
        self.pods.remove(index);
    }

    /// Takes a pod off the accounts and notes who may profit.
    pub(crate) fn release(&mut self, pod: PodIdx, changes: &mut Changes) {
        changes.to_settle.remove(&pod);
        if self.pods[pod].place.is_none() {
            self.room.drop_devices(pod);
            return;
        }
        let chosen = self.unsettle(pod);
        self.forget_bill(pod);
        changes.chosen.extend(chosen);
        changes.room = true;
        let Some(workload) = self.pods[pod].workload else { return };
        let assignment = self.workloads[workload].assignment.as_ref();
        if let Some(queue) = assignment.and_then(|assignment| assignment.queue) {
            self.quota.advance(queue);
            changes.queues.insert(queue);
        }
        changes.dirty.insert(workload);
    }

    /// The workload of a gang key, a new one if it was never met.
    pub(super) fn workload_of(&mut self, namespace: &Text, key: &GangKey) -> WorkloadIdx {
        let id = WorkloadId { namespace: namespace.clone(), key: key.clone() };
        match self.workload_by_id.get(&id) {
            Some(known) => *known,
            None => self.new_workload(id),
        }
    }

    fn apply_owner(&mut self, facts: OwnerFacts, changes: &mut Changes) {
        let old = self.owners.get(&facts.uid);
        let edited = |old: &Arc<OwnerFacts>| {
            let (then, now) = (&old.wishes, &facts.wishes);
            old.priority != facts.priority
                || (&then.queue, &then.priority_class) != (&now.queue, &now.priority_class)
        };
        if old.is_some_and(edited) {
            self.turns.change();
        }
        let same_run = |old: &&Arc<OwnerFacts>| old.incarnation == facts.incarnation;
        let grows = old.filter(same_run).is_some_and(|old| old.pods() < facts.pods());
        let counted_before = old.filter(same_run).map(|old| old.ended);
        let counts = |owner: &OwnerFacts| (owner.ended, owner.replaces, owner.finished.clone());
        let counted = old.is_some_and(|old| counts(old) == counts(&facts));
        let group = facts.member_of.as_ref().filter(|_| !counted).map(|gang| gang.key.clone());
        // The run before is the one that a mark is of.
        let known = old.map_or(facts.incarnation, |old| old.incarnation);
        let mut runs = [known, facts.incarnation, facts.incarnation.saturating_sub(1)];
        runs.sort_unstable();
        let (uid, namespace) = (facts.uid.clone(), facts.namespace.clone());
        let ours = facts.ours && facts.member_of.is_none();
        let (current, ended) = (facts.incarnation, facts.ended);
        self.note_admission(&facts);
        self.look_at_podless(&uid, Some(&facts));
        self.owners.insert(uid.clone(), Arc::new(facts));
        let mut last = None;
        for run in runs {
            if last.replace(run) == Some(run) {
                continue;
            }
            let key = GangKey::Owner(uid.clone(), run);
            let id = WorkloadId { namespace: namespace.clone(), key };
            let workload = match self.workload_by_id.get(&id) {
                Some(known) => *known,
                None if ours && run == current => self.new_workload(id),
                None => continue,
            };
            changes.dirty.insert(workload);
            if let Some(before) = counted_before.filter(|_| run == current) {
                self.workloads[workload].count_ended(before, ended);
            }
            if grows && run == current {
                self.keep_for_fewer_no_more(workload, changes);
            }
        }
        // Which of its pods that ended it makes others for is asked where they are members.
        let group = group.map(|key| WorkloadId { namespace, key });
        if let Some(workload) = group.and_then(|id| self.workload_by_id.get(&id)) {
            changes.dirty.insert(*workload);
        }
    }

    /// Places are kept for the pods of an owner that is being resumed, which is to have more now:
    /// while none is there it queues for all. With those places alone it would start by half.
    fn keep_for_fewer_no_more(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        let entry = &self.workloads[workload];
        let came = entry.members.iter().any(|pod| !self.pods[*pod].kept());
        if entry.kept_until.is_none() || entry.between || came {
            return;
        }
        for pod in entry.members.clone() {
            self.release(pod, changes);
        }
        self.workloads[workload].kept_until = None;
    }

    fn remove_owner(&mut self, uid: &Text, changes: &mut Changes) {
        self.came.remove(uid);
        self.ahead.remove(uid);
        self.look_at_podless(uid, None);
        let Some(owner) = self.owners.remove(uid) else { return };
        let key = GangKey::Owner(uid.clone(), owner.incarnation);
        let id = WorkloadId { namespace: owner.namespace.clone(), key };
        if let Some(workload) = self.workload_by_id.get(&id) {
            changes.dirty.insert(*workload);
        }
    }
}
