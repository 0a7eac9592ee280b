//! The one mutable state of the engine.
//!
//! Facts come in through [`crate::model::apply`]; decisions change it only through a
//! [`Txn`](super::txn::Txn). Whatever is counted incrementally can be counted from scratch by
//! [`ClusterState::recount`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::{LedgerUndo, NodeIdx, ResourceIdx};

use crate::explain::reason::StorageRefusal;
use crate::model::between::Ended;
use crate::model::bills::{self, Bills};
use crate::model::budgets::Budgets;
use crate::model::claim::Claims;
use crate::model::facts::QueueFacts;
use crate::model::held::Held;
use crate::model::ids::{
    Arena, ClassIdx, FlavorIdx, FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx,
};
use crate::model::input::{EvictionNote, OwnerFacts, PodShape, PodVolumes, Text};
use crate::model::lookup::Lookup;
use crate::model::pod::{Binding, Pod};
use crate::model::podless::Podless;
use crate::model::room::Room;
use crate::model::txn::UndoBuffer;
use crate::model::vacancy::Charges;
use crate::model::volumes::Choices;
use crate::model::workload::{Assignment, SetAssignment, Workload, WorkloadId};
use crate::money::MicroUsd;
use crate::place::classes::{ClassKey, Classes, Scoring};
use crate::plan::State;
use crate::policy::Policy;
use crate::quota::build::QuotaState;
use crate::quota::history::History;
use crate::quota::spending::Spending;
use crate::resources;
use crate::rules::Question;
use crate::rules::dynamic_resources::ways::DeviceWay;
use crate::rules::dynamic_resources::{self, PodHold};
use crate::rules::neighbours::Tenancy;
use crate::score;
use crate::time::{Span, Time};
use crate::victims::lasting::Lasting;
use crate::victims::turns::Turns;

/// What prices are for, in milliseconds.
const MILLIS_OF_AN_HOUR: i64 = 3_600_000;

/// Everything that the engine knows.
#[derive(Debug, Default)]
pub struct ClusterState {
    /// Nodes and what is free on them.
    pub room: Room,
    /// Pod classes and their indexes.
    pub classes: Classes,
    /// The class that was asked for last: a head asks for its own again and again.
    last_class: Option<ClassIdx>,
    /// PodDisruptionBudgets.
    pub budgets: Budgets,
    /// Quota tree, queues and flavors.
    pub quota: QuotaState,
    /// Queue objects as fed.
    pub facts: QueueFacts,
    /// Pods, ours and others'.
    pub pods: Arena<Pod>,
    /// Pods by uid.
    pub pod_by_uid: Lookup<Text, PodIdx>,
    /// Workloads.
    pub workloads: Arena<Workload>,
    /// Workloads by identity.
    pub workload_by_id: Lookup<WorkloadId, WorkloadIdx>,
    /// Workloads by namespace and name.
    pub workload_by_name: Lookup<(Text, Text), WorkloadIdx>,
    /// Queues that work, by the namespace and name of a LocalQueue through which work was found to
    /// be in them since queue objects changed: at most one entry for each of those.
    pub(super) found_queues: Lookup<(Text, Text), QueueIdx>,
    /// Owners that go on and have no pods for now.
    pub podless: Podless,
    /// Names that workloads gave up for others since this was last looked at.
    pub vacated: Vec<(Text, Text)>,
    /// Workloads that have another name since this was last looked at.
    pub renamed: Vec<WorkloadIdx>,
    /// Owners by uid.
    pub owners: Lookup<Text, Arc<OwnerFacts>>,
    /// Pods of ours that are not bound and have a claim for extended resources all the same: of a
    /// try that is under way, or that came to nothing.
    pub left_claims: BTreeSet<PodIdx>,
    /// Pods of other schedulers that hold a node for which they are only nominated, by priority.
    pub(super) nominated: BTreeSet<(i32, PodIdx)>,
    /// Pods of ours that wait and that their status nominates for a node, with its name.
    pub(super) nominations: BTreeMap<PodIdx, Text>,
    /// The last run of which pods were seen, of owners that were resumed.
    pub came: Lookup<Text, u32>,
    /// Owners that were admitted later than that was seen first, as they say: when, and when it was
    /// seen.
    pub(super) ahead: Lookup<Text, (Time, Time)>,
    /// Claims of reserved work.
    pub claims: Claims,
    /// Gangs that have places, but fewer than their minimum, with when that was first so; `None`:
    /// so long ago that what could be done about it has been done.
    pub in_part: BTreeMap<WorkloadIdx, Option<Time>>,
    /// Whether it is decided here what facts leave open: who stands by follows its leader.
    pub(crate) decides: bool,
    /// Where members of owners were that ended while others of their gang have places.
    pub(super) ended: BTreeMap<WorkloadIdx, Vec<Ended>>,
    /// Quota that gangs keep for members that they lack.
    pub vacancies: BTreeMap<WorkloadIdx, Charges>,
    /// What placed members charge of money.
    pub bills: Bills,
    /// Quota kept back for blocked heads, within one round.
    pub held: Vec<Held>,
    /// What a transaction charges a queue for work that it only proposes; empty between them.
    pub(super) proposed: Vec<(QueueIdx, FrIdx, i64)>,
    /// Room that a transaction keeps for work that it only proposes; empty between them.
    pub(super) proposed_room: Vec<(NodeIdx, ResourceIdx, i64)>,
    /// Unqueued work that holds nodes: victims for room.
    pub unqueued_holding: BTreeSet<WorkloadIdx>,
    /// Workloads whose members use something of their queue's that no flavor was found for.
    pub uncharged: BTreeSet<WorkloadIdx>,
    /// Victims of an engine before this one that are leaving, with what their marks tell: for
    /// whom they leave, and why.
    pub inherited: BTreeMap<WorkloadIdx, EvictionNote>,
    /// How often work that stops others to borrow was itself stopped of late.
    pub turns: Turns,
    /// Work that no share stops, because others waited for its start.
    pub lasting: Lasting,
    /// What LocalQueues used of late, while that decides.
    pub history: History,
    /// What queues with budgets spend.
    pub spending: Spending,
    /// Configuration.
    pub policy: Arc<Policy>,
    /// Log memory for the next transaction.
    pub undo_buffer: UndoBuffer,
    /// When this is, as the last step or question said: what has run costs more as it goes on.
    pub now: Time,
    /// Shapes of pods that found places, and that others may have waited for.
    pub helpers: BTreeSet<ShapeIdx>,
    /// Changes committed since everything was last counted again.
    pub unchecked: usize,
}

impl ClusterState {
    /// The ledger's part of placing or removing a pod.
    pub(super) fn change_ledger(&mut self, pod: PodIdx, node: NodeIdx, place: bool) -> LedgerUndo {
        self.room.touch(node);
        let holds = self.pods[pod].holds;
        match place {
            true => self.room.ledger.take(node, holds),
            false => self.room.ledger.give(node, holds),
        }
    }

    /// NodePorts' part; `false`: the pod has no host ports.
    pub(super) fn change_ports(&mut self, pod: PodIdx, node: NodeIdx, place: bool) -> bool {
        let shape = self.room.shape(self.pods[pod].shape).facts.clone();
        match place {
            true => self.room.ports.place(node, &shape.ports),
            false => self.room.ports.remove(node, &shape.ports),
        }
        !shape.ports.is_empty()
    }

    /// The part of those who are around; `false`: nobody asks for it.
    pub(super) fn change_neighbours(&mut self, pod: PodIdx, node: NodeIdx, place: bool) -> bool {
        let pod = &self.pods[pod];
        self.change_tenants((pod.shape, pod.tenancy()), node, place)
    }

    /// The same for a shape.
    pub(super) fn change_tenants(
        &mut self,
        (shape, tenancy): (ShapeIdx, Tenancy),
        node: NodeIdx,
        place: bool,
    ) -> bool {
        if self.room.shape(shape).facts.kin.is_none() {
            return false;
        }
        match place {
            true => self.room.neighbourhood.place(node, shape, tenancy),
            false => self.room.neighbourhood.remove(node, shape, tenancy),
        }
        true
    }

    /// A pod has a place: notes if others may have waited for that.
    pub(super) fn note_help(&mut self, pod: PodIdx) {
        let shape = self.pods[pod].shape;
        if self.room.helps(shape) {
            self.helpers.insert(shape);
        }
    }

    /// Volumes that a pod has, if they have a say in where it runs.
    pub(crate) fn volumes_of(&self, pod: PodIdx) -> Option<Arc<PodVolumes>> {
        self.room.shape(self.pods[pod].shape).facts.volumes.clone()
    }

    /// Chooses for claims of a pod that are open, and that nobody chose for, with its node.
    pub(crate) fn choose_volumes(
        &mut self,
        wanted: &PodVolumes,
        node: NodeIdx,
    ) -> Result<Choices, StorageRefusal> {
        let Some(facts) = self.room.node(node).facts.clone() else { return Ok(Choices::new()) };
        self.room.volumes.choose(&facts, wanted)
    }

    /// DynamicResources' part of placing or removing a pod: what it gave up, or nothing if it got
    /// some; `None`: nothing changed. What the API was told of stays as it is, wherever the pod is
    /// taken to be.
    pub(super) fn change_devices(
        &mut self,
        pod: PodIdx,
        node: NodeIdx,
        place: bool,
        way: Option<&DeviceWay>,
    ) -> Option<PodHold> {
        let entry = &self.pods[pod];
        let shape = &self.room.shape(entry.shape).facts;
        let told = matches!(entry.binding, Binding::InFlight(_) | Binding::Bound);
        if shape.claims.is_empty() || told {
            return None;
        }
        if !place {
            return Some(self.room.drop_devices(pod)).filter(|hold| !hold.is_empty());
        }
        let facts = self.room.facts(node)?;
        let names = entry.claims.as_ref().map(|names| names.as_slice());
        let names = (&entry.namespace, names);
        let hold = dynamic_resources::choose(&self.room.devices, shape, names, facts, way);
        if hold.is_empty() {
            return None;
        }
        self.room.hold_devices(pod, hold);
        Some(PodHold::default())
    }

    /// The shape of a pod, if it has claims on devices.
    fn claiming(&self, pod: PodIdx) -> Option<Arc<PodShape>> {
        let shape = &self.room.shape(self.pods[pod].shape).facts;
        (!shape.claims.is_empty()).then(|| shape.clone())
    }

    /// The part of those who use claims; `false`: the pod has none. One to which the API has given
    /// them goes, and comes back; others have a place, or none.
    pub(super) fn change_users(&mut self, pod: PodIdx, place: bool) -> bool {
        let entry = &self.pods[pod];
        let Some(shape) = self.claiming(pod) else { return false };
        let told = matches!(entry.binding, Binding::InFlight(_) | Binding::Bound);
        match (told, place) {
            (false, uses) => self.room.use_claims(pod, &shape, uses),
            (true, back) => {
                let namespace = entry.namespace.clone();
                let names = entry.claims.clone().unwrap_or_default();
                let names = names.iter().filter(|name| !name.is_empty()).cloned();
                self.room.go(pod, names.map(|name| (namespace.clone(), name)), back);
            }
        }
        true
    }

    /// What a pod charges to its queue: calls back with each amount.
    pub(super) fn each_charge(
        &mut self,
        pod: PodIdx,
        mut charge: impl FnMut(&mut QuotaState, QueueIdx, FrIdx, i64),
    ) {
        let entry = &self.pods[pod];
        let Some(workload) = entry.workload else { return };
        let Some(assignment) = &self.workloads[workload].assignment else { return };
        let (Some(queue), Some(set)) = (assignment.queue, assignment.set(entry.shape)) else {
            return;
        };
        for &(fr, amount) in &set.charge {
            charge(&mut self.quota, queue, fr, bills::charged(&self.bills, pod, amount));
        }
    }

    /// Sets what a workload holds quota with and keeps the sets of holders; returns the old one.
    pub(super) fn set_assignment(
        &mut self,
        workload: WorkloadIdx,
        assignment: Option<Arc<Assignment>>,
    ) -> Option<Arc<Assignment>> {
        let old = std::mem::replace(&mut self.workloads[workload].assignment, assignment.clone());
        if let Some(old) = &old {
            match old.queue {
                Some(queue) => self.quota.queue_mut(queue).holding.remove(&workload),
                None => self.unqueued_holding.remove(&workload),
            };
        }
        if let Some(new) = &assignment {
            match new.queue {
                Some(queue) => self.quota.queue_mut(queue).holding.insert(workload),
                None => self.unqueued_holding.insert(workload),
            };
        }
        old
    }

    /// Accounts a pod on a node outside of any decision: a fact.
    pub fn settle(&mut self, pod: PodIdx, node: NodeIdx) {
        self.change_ledger(pod, node, true);
        self.change_ports(pod, node, true);
        self.change_neighbours(pod, node, true);
        match self.pods[pod].nominated {
            true => _ = self.nominated.insert((self.pods[pod].priority, pod)),
            false => self.note_help(pod),
        }
        if let Some(wanted) = self.volumes_of(pod) {
            self.room.volumes.hold(node, &wanted);
            if self.pods[pod].nominated {
                self.room.volumes.nominate(&wanted);
            }
        }
        if let Some(shape) = self.claiming(pod) {
            self.room.devices.join(pod, &shape);
        }
        match self.room.devices.taken_off(pod, node) {
            Some(hold) => self.room.hold_devices(pod, hold),
            None => _ = self.change_devices(pod, node, true, None),
        }
        self.bill(pod, node);
        self.each_charge(pod, |quota, queue, fr, amount| quota.change(queue, fr, amount));
        let old = self.pods[pod].place.replace(node);
        assert!(old.is_none(), "a pod is settled once");
    }

    /// Takes a pod's holdings back outside of any decision: a fact. What was chosen for claims
    /// that nobody uses any more goes with it, and comes back here.
    pub fn unsettle(&mut self, pod: PodIdx) -> Choices {
        let Some(node) = self.pods[pod].place.take() else { return Choices::new() };
        self.nominated.remove(&(self.pods[pod].priority, pod));
        self.change_ledger(pod, node, false);
        self.change_ports(pod, node, false);
        self.change_neighbours(pod, node, false);
        let hold = self.room.drop_devices(pod);
        self.room.devices.take_off(pod, node, hold);
        if let Some(shape) = self.claiming(pod) {
            self.room.devices.leave(pod, &shape);
        }
        self.each_charge(pod, |quota, queue, fr, amount| quota.change(queue, fr, -amount));
        match self.volumes_of(pod) {
            Some(wanted) => {
                if self.pods[pod].nominated {
                    self.room.volumes.withdraw(&wanted);
                }
                self.room.volumes.let_go(node, &wanted)
            }
            None => Choices::new(),
        }
    }

    /// The class of a shape with flavors, whose nodes are compared so.
    pub fn class(&mut self, shape: ShapeIdx, flavors: &[FlavorIdx], scoring: Scoring) -> ClassIdx {
        if let Some(last) = self.last_class.filter(|last| last.at() < self.classes.len()) {
            let key = &self.classes.class(last).key;
            if key.shape == shape && key.scoring == scoring && key.flavors == flavors {
                return last;
            }
        }
        let key = ClassKey { shape, flavors: flavors.to_vec(), scoring };
        let quota = &self.quota;
        let facts = || quota.facts_by_name(flavors);
        let weights = self.policy.weights(scoring.profile);
        let class = self.classes.intern(key, facts, weights);
        self.last_class = Some(class);
        class
    }

    /// What the run time of a workload's members cost until then, each since it was bound; `None`:
    /// nobody has a place, or some price is unknown.
    pub fn spent(&self, workload: WorkloadIdx, now: Time) -> Option<MicroUsd> {
        let mut total = None;
        for pod in self.placed(workload) {
            let at = self.pods[pod].bound_at;
            let worked = at.map_or_else(Default::default, |at| now.since(at));
            let cost = self.price(pod)?.times(worked.0, MILLIS_OF_AN_HOUR);
            total = Some(total.unwrap_or(MicroUsd(0)).plus(cost));
        }
        total
    }

    /// How long a workload's members have run until then, all together, each counted by the share
    /// of its node that it uses: what they would cost if all nodes cost the same.
    pub fn worked(&self, workload: WorkloadIdx, now: Time) -> Span {
        let of_member = |pod: PodIdx| {
            let pod = &self.pods[pod];
            let (worked, node) = (now.since(pod.bound_at?).0, pod.place?);
            self.room.facts(node)?;
            let (used, of) = self.room.share_taken(self.room.shape(pod.shape), node);
            let shared = i128::from(worked) * i128::from(used) / i128::from(of);
            Some(i64::try_from(shared).unwrap_or(i64::MAX))
        };
        Span(resources::total(self.placed(workload).filter_map(of_member)))
    }

    /// Price per hour of what a workload holds, as far as it is known; `None`: of nothing.
    pub fn hourly(&self, workload: WorkloadIdx) -> Option<MicroUsd> {
        let priced = self.placed(workload).filter_map(|pod| self.price(pod));
        priced.reduce(MicroUsd::plus)
    }

    /// Members of a workload with a place whose price is not known.
    pub fn unpriced(&self, workload: WorkloadIdx) -> u32 {
        let unknown = |pod: &PodIdx| self.price(*pod).is_none();
        self.placed(workload).filter(unknown).count() as u32
    }

    /// Price per hour of the share of its node that a placed pod holds, as prices are now; `None`:
    /// not placed, or unknown.
    pub fn pod_hourly(&self, pod: &Pod) -> Option<MicroUsd> {
        self.hourly_on(pod.shape, pod.place?)
    }

    /// Price per hour of the share of a node that a pod of a shape would hold there; `None`:
    /// unknown.
    pub fn hourly_on(&self, shape: ShapeIdx, node: NodeIdx) -> Option<MicroUsd> {
        self.room.facts(node)?;
        let (room, shape) = (&self.room, self.room.shape(shape));
        let (beside, pays) = (0, false);
        let (flavors, neighbours, volumes) = (&[], None, None);
        score::hourly(&Question { room, shape, flavors, node, beside, pays, neighbours, volumes })
    }

    /// Members of a workload that are placed.
    pub fn placed(&self, workload: WorkloadIdx) -> impl Iterator<Item = PodIdx> + '_ {
        let members = self.workloads[workload].members.iter().copied();
        members.filter(|pod| self.pods[*pod].place.is_some())
    }

    /// Whether a workload is on its way out already: stopped by us, or all that it holds is being
    /// deleted. Counting on it costs nobody anything more.
    pub fn leaving(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        entry.state == State::Evicting
            || (entry.assignment.is_some()
                && self.placed(workload).all(|pod| self.pods[pod].terminating))
    }

    /// Chosen flavors by pod set and resource, by name.
    pub fn flavors_by_set(&self, workload: WorkloadIdx) -> BTreeMap<Text, BTreeMap<Text, Text>> {
        let entry = &self.workloads[workload];
        let Some(assignment) = &entry.assignment else { return BTreeMap::new() };
        let named = |set: &crate::model::workload::PodSet| {
            let chosen = &assignment.set(set.shape)?.flavors;
            let named = chosen.iter().map(|(resource, flavor)| {
                let resource = self.room.resources.name(*resource).clone();
                (resource, self.quota.flavor_name(*flavor).clone())
            });
            Some((set.name.clone(), named.collect()))
        };
        entry.sets.iter().filter_map(named).collect()
    }

    /// Members of a workload without a place.
    pub fn unplaced(&self, workload: WorkloadIdx) -> impl Iterator<Item = PodIdx> + '_ {
        let members = self.workloads[workload].members.iter().copied();
        members.filter(|pod| self.pods[*pod].place.is_none())
    }

    /// Compares every incremental number with one counted from scratch.
    ///
    /// # Panics
    /// When any differs: that is our own error.
    pub fn recount(&self) {
        let placed = || self.pods.iter().filter_map(|(index, p)| Some((index, p, p.place?)));
        self.room.ledger.recount(placed().map(|(_, pod, node)| (node, pod.holds)));
        self.recount_claims();
        self.recount_claimed();
        self.recount_vacancies();
        self.recount_ended();
        self.recount_nominations();
        self.recount_bills();
        self.recount_holds();
        let shape = |pod: &Pod| &*self.room.shape(pod.shape).facts;
        let ports = placed().map(|(_, pod, node)| (node, &*shape(pod).ports));
        self.room.ports.recount(ports.chain(self.claims.ports()));
        let around = placed().filter(|(_, pod, _)| shape(pod).kin.is_some());
        let around = around.map(|(_, pod, node)| (node, pod.shape, pod.tenancy()));
        self.room.neighbourhood.recount(around.chain(self.claims.around()));
        let with = |(_, pod, node): (_, &Pod, _)| {
            let volumes = self.room.shape(pod.shape).facts.volumes.as_deref();
            Some((node, volumes?, pod.nominated))
        };
        self.room.volumes.recount(placed().filter_map(with));
        self.room.devices.recount(placed().map(|(index, pod, _)| (index, shape(pod))));
        self.recount_reserved();
        self.classes.recount(&self.room);
        self.recount_used();
        for (index, workload) in self.workloads.iter() {
            let queue = workload.assignment.as_ref().map(|assignment| assignment.queue);
            let holding = |q: QueueIdx| self.quota.queue(q).holding.contains(&index);
            if let Some(Some(queue)) = queue {
                assert!(holding(queue), "{} is missing from its queue", workload.full_name);
            }
            let lacks = workload.assignment.iter().any(|assignment| {
                let of_placed = |set: &&SetAssignment| {
                    self.placed(index).any(|pod| self.pods[pod].shape == set.shape)
                };
                let mut sets = assignment.sets.iter().filter(of_placed);
                sets.any(|set| !self.lacking(assignment.queue, set).is_empty())
            });
            let known = self.uncharged.contains(&index);
            assert_eq!(known, lacks, "{} holds too little quota unseen", workload.full_name);
            if !workload.dirty && !workload.unordered {
                let members = workload.members.iter().map(|pod| &self.pods[*pod]);
                let real = members.filter(|pod| !pod.kept());
                let in_order = real.is_sorted_by(|a, b| a.order(b).is_le());
                assert!(in_order, "members of {} are out of order", workload.full_name);
            }
            let unqueued = self.unqueued_holding.contains(&index);
            assert_eq!(unqueued, queue == Some(None), "{} unqueued", workload.full_name);
        }
        let in_queue = |(_, workload): &(WorkloadIdx, &Workload)| {
            workload.assignment.as_ref().is_some_and(|assignment| assignment.queue.is_some())
        };
        let holders = self.workloads.iter().filter(in_queue).count();
        assert_eq!(self.quota.holders(), holders, "some queue knows holders that are none");
        for workload in self.unqueued_holding.iter().chain(&self.uncharged) {
            assert!(self.workloads.get(*workload).is_some(), "a holder is known that is gone");
        }
    }

    /// Compares what quota tree and ledger count for claims with what they should, in the middle of
    /// a transaction, too.
    ///
    /// # Panics
    /// When they differ: that is our own error.
    pub fn recount_claimed(&self) {
        let claims = self.claims_anew();
        let room = claims.iter().flat_map(|(_, (_, room))| room.iter().copied());
        self.room.ledger.recount_claims(room.chain(self.proposed_room.iter().copied()));
        let placed = self.pods.iter().filter(|(_, pod)| pod.place.is_some());
        let charges = placed.flat_map(|(index, _)| self.charges_of(index));
        let claimed = claims.iter().flat_map(|(_, (quota, _))| quota.iter().copied());
        let held = self.held.iter().map(|held| (held.queue, held.fr, held.amount));
        let kept = self.vacancies.values().flatten().copied();
        let proposed = self.proposed.iter().copied();
        self.quota.recount(charges.chain(claimed).chain(held).chain(kept).chain(proposed));
    }

    /// What a placed pod charges its queue.
    pub fn charges_of(&self, pod: PodIdx) -> impl Iterator<Item = (QueueIdx, FrIdx, i64)> + '_ {
        let entry = &self.pods[pod];
        let assignment = entry.workload.and_then(|w| self.workloads[w].assignment.as_ref());
        let set = assignment.and_then(|a| Some((a.queue?, a.set(entry.shape)?)));
        let charges = set.map(|(queue, set)| {
            let charge = move |&(fr, amount): &(FrIdx, i64)| {
                (queue, fr, bills::charged(&self.bills, pod, amount))
            };
            set.charge.iter().map(charge)
        });
        charges.into_iter().flatten()
    }
}
