//! Transactions: every speculative change of the state, and its way back.
//!
//! A `Txn` changes the state in place and logs one typed [`Undo`] per change. Dropping it takes
//! everything back; [`Txn::rollback_to`] goes back to a checkpoint; [`Txn::commit`] keeps it. No
//! copy of the state is ever made. In debug builds a commit asserts that every incremental number
//! equals a recount: always in small states; in larger ones as soon as as many changes were
//! committed as the recount looks at pods and nodes, so that checking costs a constant per change.

use std::sync::Arc;

use capstan_topology::{LedgerUndo, NodeIdx, ResourceIdx};

use crate::explain::reason::SearchBound;
use crate::model::bills::Bill;
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Allocation, PodVolumes, ResourceClaimKey};
use crate::model::state::ClusterState;
use crate::model::vacancy::Charges;
use crate::model::volumes::Choices;
use crate::model::workload::Assignment;
use crate::place::classes::Scoring;
use crate::place::refusals::Refusals;
use crate::place::ways::Way;
use crate::rules::dynamic_resources::PodHold;
use crate::rules::neighbours::Tenancy;
use crate::victims::Searched;

/// One change and how to take it back; one variant per stateful part.
#[derive(Debug)]
enum Undo {
    /// The hardware ledger.
    Ledger(LedgerUndo),
    /// NodePorts: the pod's ports were placed (true) or removed (false).
    Ports(PodIdx, NodeIdx, bool),
    /// Pods around nodes: the pod was placed (true) or removed (false).
    Neighbours(PodIdx, NodeIdx, bool),
    /// A pod that does not exist was taken to be on a node; what was chosen for its volumes.
    Occupied(ShapeIdx, NodeIdx, Option<Box<Choices>>),
    /// It holds devices.
    OccupiedDevices,
    /// Storage: the pod's volumes are held (true) or let go (false); what was chosen, or dropped,
    /// with that.
    Volumes(PodIdx, NodeIdx, bool, Option<Box<Choices>>),
    /// DynamicResources: the pod held this; nothing: it got what it holds.
    Devices(PodIdx, PodHold),
    /// Users of claims on devices: the pod was placed (true) or removed (false).
    Users(PodIdx, bool),
    /// A claim on devices had these.
    ClaimFreed(ResourceClaimKey, Arc<Allocation>),
    /// Quota: an amount was charged (negative: discharged).
    Quota(QueueIdx, FrIdx, i64),
    /// Quota: an amount was charged for work that is only proposed (true), or no more (false).
    Proposed(QueueIdx, FrIdx, i64, bool),
    /// The hardware ledger: room was kept for such work (true), or no more (false).
    ProposedRoom(NodeIdx, ResourceIdx, i64, bool),
    /// A pod's bill was something else.
    Bill(PodIdx, Option<Box<Bill>>),
    /// A pod's place was something else.
    Place(PodIdx, Option<NodeIdx>),
    /// A workload kept this for members that it lacks.
    Vacated(WorkloadIdx, Charges),
    /// A workload kept nothing for members that it lacks.
    Restored(WorkloadIdx),
    /// A workload's assignment was something else.
    Assignment(WorkloadIdx, Option<Arc<Assignment>>),
    /// What a workload claims counts no more (true), or again (false).
    Released(WorkloadIdx, bool),
    /// A victim left (true), or came back (false).
    Left(WorkloadIdx, bool),
}

/// A point to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint(usize);

/// A transaction whose changes are in place and that must be taken up again.
#[derive(Debug)]
#[must_use = "its changes stay until it is taken up again"]
pub struct SetAside(Vec<Undo>);

impl SetAside {
    /// The same with one that was set aside on top of it, which is taken back first.
    pub fn and(mut self, later: SetAside) -> SetAside {
        self.0.extend(later.0);
        self
    }
}

/// Members asked for, in whatever order they were given.
fn in_order(asks: &[(ClassIdx, u32)]) -> Vec<(ClassIdx, u32)> {
    let mut asks: Vec<_> = asks.iter().copied().filter(|(_, count)| *count > 0).collect();
    asks.sort_unstable();
    asks
}

/// States up to this many pods are recounted at every commit.
const SMALL: usize = 64;

/// A transaction on the state; dropping it without [`Txn::commit`] takes everything back.
#[derive(Debug)]
pub struct Txn<'a> {
    state: &'a mut ClusterState,
    log: Vec<Undo>,
    /// For whose places a search ended at its bound, and at which. Nothing is decided from it.
    ended: Vec<(Vec<(ClassIdx, u32)>, SearchBound)>,
    /// Steps that searches for places took.
    steps: u32,
    /// What the last search for victims found while nothing was changed.
    pub(crate) searched: Option<Box<Searched>>,
}

impl<'a> Txn<'a> {
    /// Begins a transaction: a decision that looks at indexes of classes.
    pub fn begin(state: &'a mut ClusterState) -> Txn<'a> {
        state.classes.trim();
        let log = std::mem::take(&mut state.undo_buffer).0;
        Txn { state, log, ended: Vec::new(), steps: 0, searched: None }
    }

    /// The state as changed so far.
    pub fn state(&self) -> &ClusterState {
        self.state
    }

    /// Brings a class index up to date with the changes so far.
    pub fn fresh(&mut self, class: ClassIdx) {
        self.state.classes.fresh(&self.state.room, class);
    }

    /// Until [`Txn::unfocus`] classes are brought up to date at these positions alone: for a search
    /// that reads no others, and looks at those again and again.
    pub fn focus(&mut self, positions: &[usize]) {
        let order = self.state.room.tree.order();
        let nodes = positions.iter().map(|position| order[*position]).collect();
        self.state.classes.focus(&self.state.room, nodes);
    }

    /// They are brought up to date everywhere again.
    pub fn unfocus(&mut self) {
        self.state.classes.unfocus();
    }

    /// Brings a class up to date, and tells it what pods of these shapes would mean for it.
    pub fn learn(&mut self, class: ClassIdx, shapes: &[ShapeIdx]) {
        self.fresh(class);
        self.state.classes.learn(&self.state.room, class, shapes);
    }

    /// What all nodes say to a class as things are.
    pub fn refusals(&mut self, class: ClassIdx) -> Arc<Refusals> {
        self.state.classes.refusals(&self.state.room, class)
    }

    /// The class of a shape with flavors; making one is no change that needs undoing.
    pub fn class(&mut self, shape: ShapeIdx, flavors: &[FlavorIdx], scoring: Scoring) -> ClassIdx {
        self.state.class(shape, flavors, scoring)
    }

    /// Notes that the search for places of these members ended at its bound.
    pub fn note_end(&mut self, asks: &[(ClassIdx, u32)], bound: SearchBound) {
        let asks = in_order(asks);
        if !self.ended.iter().any(|(known, _)| *known == asks) {
            self.ended.push((asks, bound));
        }
    }

    /// The bound at which a search for places of these members ended in this transaction.
    pub fn ended(&self, asks: &[(ClassIdx, u32)]) -> Option<SearchBound> {
        if self.ended.is_empty() {
            return None;
        }
        let asks = in_order(asks);
        self.ended.iter().find(|(known, _)| *known == asks).map(|(_, bound)| *bound)
    }

    /// A search for places took so many steps; all did so many together.
    pub fn count_steps(&mut self, more: u32) -> u32 {
        self.steps = self.steps.saturating_add(more);
        self.steps
    }

    /// Counts as if searches had taken so many steps until now; how many they took.
    pub(crate) fn replace_steps(&mut self, steps: u32) -> u32 {
        std::mem::replace(&mut self.steps, steps)
    }

    /// Whether nothing is changed.
    pub fn untouched(&self) -> bool {
        self.log.is_empty()
    }

    /// A point to roll back to.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.log.len())
    }

    /// Pods placed since a checkpoint, and where, one after the other; none of them was removed.
    pub fn placed_since(
        &self,
        checkpoint: Checkpoint,
    ) -> impl Iterator<Item = (PodIdx, NodeIdx)> + '_ {
        self.log[checkpoint.0..].iter().filter_map(|undo| match undo {
            Undo::Place(pod, None) => self.state.pods[*pod].place.map(|node| (*pod, node)),
            _ => None,
        })
    }

    /// Takes back everything since a checkpoint.
    pub fn rollback_to(&mut self, checkpoint: Checkpoint) {
        while self.log.len() > checkpoint.0 {
            let undo = self.log.pop().expect("longer than the checkpoint");
            self.state.undo(undo);
        }
    }

    /// Keeps everything.
    pub fn commit(mut self) {
        for at in 0..self.log.len() {
            if let Undo::Place(pod, None) = self.log[at] {
                self.state.note_help(pod);
            }
        }
        if cfg!(debug_assertions) {
            self.state.unchecked += self.log.len();
            if self.state.small() || self.state.unchecked >= self.state.checked_at_once() {
                self.state.unchecked = 0;
                self.state.recount();
            }
        }
        self.log.clear();
    }

    /// Leaves the changes in place and hands the way back out, so that a whole decision can be
    /// tried on top of them. Nothing else may change the state before [`Txn::take_up`].
    pub fn set_aside(mut self) -> SetAside {
        SetAside(std::mem::take(&mut self.log))
    }

    /// Takes up a transaction that was set aside.
    pub fn take_up(state: &'a mut ClusterState, aside: SetAside) -> Txn<'a> {
        Txn { state, log: aside.0, ended: Vec::new(), steps: 0, searched: None }
    }

    /// The workload holds (or no longer holds) flavors. No member of it may be placed.
    pub fn assign(&mut self, workload: WorkloadIdx, assignment: Option<Arc<Assignment>>) {
        let old = self.state.set_assignment(workload, assignment);
        self.log.push(Undo::Assignment(workload, old));
    }

    /// Places a pod: it takes what it holds, its ports, and its workload's quota for it.
    pub fn place(&mut self, pod: PodIdx, node: NodeIdx) {
        self.place_in(pod, node, None);
    }

    /// The same with volumes and devices other than the first that will do.
    pub fn place_in(&mut self, pod: PodIdx, node: NodeIdx, way: Option<&Way>) {
        self.log_holdings(pod, node, true, way);
        let old = self.state.pods[pod].place.replace(node);
        assert!(old.is_none(), "a pod is placed once");
        self.log.push(Undo::Place(pod, None));
    }

    /// Takes a pod of a shape to be on a node, which charges nobody: to see what fits beside it.
    /// Never kept.
    pub fn occupy(&mut self, shape: ShapeIdx, node: NodeIdx) {
        self.occupy_in(shape, node, None);
    }

    /// The same with volumes and devices other than the first that will do.
    pub fn occupy_in(&mut self, shape: ShapeIdx, node: NodeIdx, way: Option<&Way>) {
        let ledger = self.state.room.occupy(shape, node);
        self.log.push(Undo::Ledger(ledger));
        self.state.change_tenants((shape, Tenancy::Staying), node, true);
        let wanted = self.state.room.shape(shape).facts.volumes.clone();
        let chosen = wanted.map(|wanted| self.state.change_volumes(&wanted, node, true, way));
        let chosen = chosen.filter(|chosen| !chosen.is_empty()).map(Box::new);
        self.log.push(Undo::Occupied(shape, node, chosen));
        if self.state.room.occupy_devices(shape, node, way.and_then(Way::devices)) {
            self.log.push(Undo::OccupiedDevices);
        }
    }

    /// Takes a placed pod off its node, and its charge off its queue.
    pub fn remove(&mut self, pod: PodIdx) {
        let node = self.state.pods[pod].place.take().expect("only placed pods are removed");
        self.log.push(Undo::Place(pod, Some(node)));
        self.log_holdings(pod, node, false, None);
    }

    /// What a workload keeps for members that it lacks is free: they join, or it leaves.
    pub fn vacate(&mut self, workload: WorkloadIdx) -> Charges {
        let charges = self.state.drop_vacancies(workload);
        if !charges.is_empty() {
            self.log.push(Undo::Vacated(workload, charges.clone()));
        }
        charges
    }

    /// Takes [`Txn::vacate`] back for one workload among several.
    pub(super) fn restore_vacancies(&mut self, workload: WorkloadIdx, charges: &Charges) {
        if !charges.is_empty() {
            self.state.restore_vacancies(workload, charges.clone());
            self.log.push(Undo::Restored(workload));
        }
    }

    /// A claim with devices that nobody uses has none. Never kept: that is for the API to show.
    pub fn free_claim(&mut self, key: &ResourceClaimKey) {
        if let Some(had) = self.state.room.change_allocation(key, None) {
            self.log.push(Undo::ClaimFreed(key.clone(), had));
        }
    }

    /// What a workload claims counts no more, or again, amounts apart, which whoever calls takes
    /// away or adds. Never kept.
    pub(super) fn release(&mut self, workload: WorkloadIdx, released: bool) {
        self.state.change_released(workload, released);
        self.log.push(Undo::Released(workload, released));
    }

    /// Claims draw nothing from a victim that has left, or draw on it again; whether that is new.
    pub(super) fn leave(&mut self, victim: WorkloadIdx, leaves: bool) -> bool {
        let new = self.state.change_left(victim, leaves);
        if new {
            self.log.push(Undo::Left(victim, leaves));
        }
        new
    }

    fn log_holdings(&mut self, pod: PodIdx, node: NodeIdx, placed: bool, way: Option<&Way>) {
        let ledger = self.state.change_ledger(pod, node, placed);
        self.log.push(Undo::Ledger(ledger));
        if self.state.change_ports(pod, node, placed) {
            self.log.push(Undo::Ports(pod, node, placed));
        }
        if self.state.change_neighbours(pod, node, placed) {
            self.log.push(Undo::Neighbours(pod, node, placed));
        }
        if let Some(wanted) = self.state.volumes_of(pod) {
            let choices = self.state.change_volumes(&wanted, node, placed, way);
            let choices = (!choices.is_empty()).then(|| Box::new(choices));
            self.log.push(Undo::Volumes(pod, node, placed, choices));
        }
        // What a pod gets for claims that all others have left is known before it uses them.
        if !placed && self.state.change_users(pod, false) {
            self.log.push(Undo::Users(pod, false));
        }
        let devices = way.and_then(Way::devices);
        if let Some(held) = self.state.change_devices(pod, node, placed, devices) {
            self.log.push(Undo::Devices(pod, held));
        }
        if placed && self.state.change_users(pod, true) {
            self.log.push(Undo::Users(pod, true));
        }
        if placed && let Some(old) = self.state.bill(pod, node) {
            self.log.push(Undo::Bill(pod, old.map(Box::new)));
        }
        let (state, log) = (&mut *self.state, &mut self.log);
        state.each_charge(pod, |quota, queue, fr, amount| {
            let signed = if placed { amount } else { -amount };
            quota.change(queue, fr, signed);
            log.push(Undo::Quota(queue, fr, signed));
        });
    }

    /// Charges members that have places for what they hold, or takes that off their queue, and
    /// leaves them where they are.
    pub(super) fn charge_members(&mut self, workload: WorkloadIdx, charge: bool) {
        let (state, log) = (&mut *self.state, &mut self.log);
        for at in 0..state.workloads[workload].members.len() {
            let pod = state.workloads[workload].members[at];
            if state.pods[pod].place.is_none() {
                continue;
            }
            state.each_charge(pod, |quota, queue, fr, amount| {
                let signed = if charge { amount } else { -amount };
                quota.change(queue, fr, signed);
                log.push(Undo::Quota(queue, fr, signed));
            });
        }
    }

    /// A claim on quota grows (or shrinks).
    pub fn claim_quota(&mut self, queue: QueueIdx, fr: FrIdx, amount: i64) {
        self.state.quota.change(queue, fr, amount);
        self.log.push(Undo::Quota(queue, fr, amount));
    }

    /// A queue is charged as if work ran that is only proposed (or no more): what shares would be,
    /// and what is left beside it. Never kept.
    pub fn propose(&mut self, queue: QueueIdx, fr: FrIdx, amount: i64, runs: bool) {
        self.state.change_proposed((queue, fr, amount), runs);
        self.log.push(Undo::Proposed(queue, fr, amount, runs));
    }

    /// Room of a node is kept as if work ran that is only proposed (or no more). Never kept.
    pub fn propose_room(&mut self, node: NodeIdx, resource: ResourceIdx, amount: i64, runs: bool) {
        self.state.change_proposed_room((node, resource, amount), runs);
        self.log.push(Undo::ProposedRoom(node, resource, amount, runs));
    }

    /// A claim on a node grows (or shrinks).
    pub fn claim_room(&mut self, node: NodeIdx, resource: ResourceIdx, amount: i64) {
        let undo = self.state.room.ledger.claim(node, resource, amount);
        self.state.room.touch(node);
        self.log.push(Undo::Ledger(undo));
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        self.rollback_to(Checkpoint(0));
        self.state.undo_buffer = UndoBuffer(std::mem::take(&mut self.log));
    }
}

/// Memory of the last transaction's log, kept for the next.
#[derive(Debug, Default)]
pub struct UndoBuffer(Vec<Undo>);

impl ClusterState {
    /// Whether a recount at every step costs next to nothing.
    pub fn small(&self) -> bool {
        self.pods.len() <= SMALL
    }

    /// Pods and nodes that a recount looks at.
    fn checked_at_once(&self) -> usize {
        self.pods.len() + self.room.tree.order().len()
    }

    /// Storage's part of placing or removing a pod: what was chosen for it, or dropped with it. A
    /// node where some claim finds nothing is no error here: facts may have changed since.
    fn change_volumes(
        &mut self,
        wanted: &PodVolumes,
        node: NodeIdx,
        place: bool,
        way: Option<&Way>,
    ) -> Choices {
        if !place {
            return self.room.volumes.let_go(node, wanted);
        }
        let choices = match way {
            Some(way) => {
                self.room.volumes.restore(way.volumes());
                way.volumes().clone()
            }
            None => self.choose_volumes(wanted, node).unwrap_or_default(),
        };
        self.room.volumes.hold(node, wanted);
        choices
    }

    fn undo_volumes(&mut self, pod: PodIdx, node: NodeIdx, held: bool, choices: &Choices) {
        let wanted = self.volumes_of(pod).expect("a pod that had volumes");
        if held {
            self.let_go_of(&wanted, node, choices);
        } else {
            self.room.volumes.hold(node, &wanted);
            self.room.volumes.restore(choices);
        }
    }

    fn let_go_of(&mut self, wanted: &PodVolumes, node: NodeIdx, choices: &Choices) {
        let volumes = &mut self.room.volumes;
        volumes.take_back(choices);
        let dropped = volumes.let_go(node, wanted);
        assert!(dropped.is_empty(), "a choice that was there before its first user");
    }

    fn change_proposed(&mut self, charge: (QueueIdx, FrIdx, i64), runs: bool) {
        let (queue, fr, amount) = charge;
        if runs {
            self.proposed.push(charge);
        } else {
            let at = self.proposed.iter().rposition(|known| *known == charge);
            self.proposed.swap_remove(at.expect("what was proposed before"));
        }
        self.quota.change(queue, fr, if runs { amount } else { -amount });
    }

    fn change_proposed_room(&mut self, kept: (NodeIdx, ResourceIdx, i64), runs: bool) {
        let (node, resource, amount) = kept;
        if runs {
            self.proposed_room.push(kept);
        } else {
            let at = self.proposed_room.iter().rposition(|known| *known == kept);
            self.proposed_room.swap_remove(at.expect("what was proposed before"));
        }
        self.room.ledger.claim(node, resource, if runs { amount } else { -amount });
        self.room.touch(node);
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Ledger(undo) => {
                self.room.ledger.undo(undo);
                self.room.touch(undo.node());
            }
            Undo::Ports(pod, node, placed) => {
                self.change_ports(pod, node, !placed);
            }
            Undo::Neighbours(pod, node, placed) => {
                self.change_neighbours(pod, node, !placed);
            }
            Undo::Occupied(shape, node, chosen) => {
                self.room.leave(shape, node);
                self.change_tenants((shape, Tenancy::Staying), node, false);
                if let Some(wanted) = self.room.shape(shape).facts.volumes.clone() {
                    let chosen = chosen.map_or_else(Choices::new, |chosen| *chosen);
                    self.let_go_of(&wanted, node, &chosen);
                }
            }
            Undo::OccupiedDevices => self.room.leave_devices(),
            Undo::Volumes(pod, node, held, choices) => {
                let choices = choices.map_or_else(Choices::new, |choices| *choices);
                self.undo_volumes(pod, node, held, &choices);
            }
            Undo::Devices(pod, held) if held.is_empty() => drop(self.room.drop_devices(pod)),
            Undo::Devices(pod, held) => self.room.hold_devices(pod, held),
            Undo::ClaimFreed(key, had) => _ = self.room.change_allocation(&key, Some(had)),
            Undo::Users(pod, placed) => _ = self.change_users(pod, !placed),
            Undo::Quota(queue, fr, amount) => self.quota.change(queue, fr, -amount),
            Undo::Proposed(queue, fr, amount, ran) => {
                self.change_proposed((queue, fr, amount), !ran);
            }
            Undo::ProposedRoom(node, resource, amount, ran) => {
                self.change_proposed_room((node, resource, amount), !ran);
            }
            Undo::Vacated(workload, charges) => self.restore_vacancies(workload, charges),
            Undo::Restored(workload) => drop(self.drop_vacancies(workload)),
            Undo::Bill(pod, old) => self.unbill(pod, old.map(|old| *old)),
            Undo::Place(pod, place) => self.pods[pod].place = place,
            Undo::Assignment(workload, assignment) => {
                self.set_assignment(workload, assignment);
            }
            Undo::Released(workload, released) => self.change_released(workload, !released),
            Undo::Left(victim, left) => _ = self.change_left(victim, !left),
        }
    }
}
