//! What reserved starts need of what is free until then, which others leave alone.
//!
//! Decides, of starts that were played (`engine/reservations/timetable.rs`), what of their room and
//! quota nobody leaves by then who ends: the most at any time. Whoever starts beside it takes none
//! of that. It may delay one all the same, by rules that are no amounts, which is found out by
//! playing them again.
//!
//! Restart: nothing is kept. Cost: for each start the members of those that run beside it, and what
//! ends before it.

use std::collections::BTreeMap;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::engine::Engine;
use crate::engine::reservations::timetable::{Slot, Started};
use crate::model::ids::{FrIdx, QueueIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::model::workload::BY_NODE;
use crate::resources;
use crate::time::Time;

/// Amounts on nodes.
type OnNodes = BTreeMap<(NodeIdx, ResourceIdx), i64>;

/// Amounts of quota.
type OfQuota = BTreeMap<(QueueIdx, FrIdx), i64>;

/// Of each victim that leaves, what no claim draws, of quota and on nodes.
type Undrawn =
    BTreeMap<WorkloadIdx, (Vec<(QueueIdx, FrIdx, i64)>, Vec<(NodeIdx, ResourceIdx, i64)>)>;

/// Room and quota that somebody who is placed leaves alone.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    room: Vec<(NodeIdx, ResourceIdx, i64)>,
    quota: Vec<(QueueIdx, FrIdx, i64)>,
}

impl Kept {
    /// Whether it is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.room.is_empty() && self.quota.is_empty()
    }

    /// Counts it, or counts it no more. It is no claim: those are counted anew while it counts.
    pub(crate) fn count(&self, txn: &mut Txn<'_>, counts: bool) {
        if counts {
            self.room.iter().for_each(|(node, of, n)| txn.propose_room(*node, *of, *n, true));
            self.quota.iter().for_each(|(queue, fr, n)| txn.propose(*queue, *fr, *n, true));
            return;
        }
        // What was counted last is found first.
        self.quota.iter().rev().for_each(|(queue, fr, n)| txn.propose(*queue, *fr, *n, false));
        self.room.iter().rev().for_each(|(node, of, n)| txn.propose_room(*node, *of, *n, false));
    }
}

impl Engine {
    /// What reserved starts need and nobody leaves by then, on nodes and of quota: the most at any
    /// time, of those who run then.
    pub(crate) fn kept_for(
        &self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
        started: &[Started],
    ) -> Kept {
        let (mut room, mut quota) = (OnNodes::new(), OfQuota::new());
        let undrawn = self.state.undrawn();
        for slot in slots {
            let runs = |other: &Slot| {
                let end = self.run_time(other.workload).map(|runs| other.start.plus(runs));
                other.start <= slot.start && end.is_none_or(|end| end > slot.start)
            };
            let (mut on_nodes, mut charged) = (OnNodes::new(), OfQuota::new());
            for (_, started) in slots.iter().zip(started).filter(|(other, _)| runs(other)) {
                self.add_wanted(started, &mut on_nodes, &mut charged);
            }
            let by_then = ends.iter().take_while(|(end, _)| *end <= slot.start);
            for (_, ended) in by_then {
                self.take_left((*ended, &undrawn), &mut on_nodes, &mut charged);
            }
            for (key, amount) in on_nodes {
                let most = room.entry(key).or_insert(0);
                *most = amount.max(*most);
            }
            for (key, amount) in charged {
                let most = quota.entry(key).or_insert(0);
                *most = amount.max(*most);
            }
        }
        let room = room.into_iter().filter(|(_, amount)| *amount > 0);
        let quota = quota.into_iter().filter(|(_, amount)| *amount > 0);
        Kept {
            room: room.map(|((node, resource), amount)| (node, resource, amount)).collect(),
            quota: quota.map(|((queue, fr), amount)| (queue, fr, amount)).collect(),
        }
    }

    /// Adds what somebody needs who starts.
    fn add_wanted(&self, started: &Started, on_nodes: &mut OnNodes, charged: &mut OfQuota) {
        let state = &self.state;
        let prices = started.places.prices.iter().copied().chain(std::iter::repeat(0));
        for (&(pod, node), price) in started.places.members.iter().zip(prices) {
            let pod = &state.pods[pod];
            for &(resource, amount) in state.room.ledger.request(pod.holds).entries() {
                resources::add(on_nodes.entry((node, resource)).or_default(), amount);
            }
            let Some(queue) = started.assignment.queue else { continue };
            let set = started.assignment.set(pod.shape);
            for &(fr, amount) in set.into_iter().flat_map(|set| &set.charge) {
                let amount = if amount == BY_NODE { price } else { amount };
                resources::add(charged.entry((queue, fr)).or_default(), amount);
            }
        }
    }

    /// Takes away what somebody leaves who ends: from one queue of its tree after the other. Of
    /// what a victim leaves that is what no claim draws (`undrawn`); the rest is left by who claims
    /// it once that has ended.
    fn take_left(
        &self,
        (ended, undrawn): (WorkloadIdx, &Undrawn),
        on_nodes: &mut OnNodes,
        charged: &mut OfQuota,
    ) {
        let state = &self.state;
        let mut leave_room = |(node, resource, amount): (NodeIdx, ResourceIdx, i64)| {
            if let Some(wanted) = on_nodes.get_mut(&(node, resource)) {
                *wanted = wanted.saturating_sub(amount);
            }
        };
        let mut leave_quota = |(queue, fr, amount): (QueueIdx, FrIdx, i64)| {
            let (root, mut left) = (state.quota.root(queue), amount);
            let alike = |key: &(QueueIdx, FrIdx)| key.1 == fr && state.quota.root(key.0) == root;
            for (_, wanted) in charged.iter_mut().filter(|(key, _)| alike(key)) {
                let taken = left.min(*wanted).max(0);
                *wanted -= taken;
                left -= taken;
            }
        };
        let promised = undrawn.get(&ended);
        for index in state.placed(ended).filter(|_| promised.is_none()) {
            let pod = &state.pods[index];
            let node = pod.place.expect("it is placed");
            for &(resource, amount) in state.room.ledger.request(pod.holds).entries() {
                leave_room((node, resource, amount));
            }
            state.charges_of(index).for_each(&mut leave_quota);
        }
        let (mut quota, mut room) = state.claims_at_last(ended);
        if let Some((more_quota, more_room)) = promised {
            quota.extend(more_quota);
            room.extend(more_room);
        }
        quota.into_iter().for_each(leave_quota);
        room.into_iter().for_each(leave_room);
    }
}
