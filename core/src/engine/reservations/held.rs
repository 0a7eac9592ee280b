//! Who is held for reserved starts: how many are looked at in a step, and when anew.
//!
//! Problem: whether somebody would delay a reserved start is found out by playing all of them. With
//! thousands of different shapes that are held, each of them at each end, that is all the engine
//! would do.
//!
//! Wanted: a step plays at most [`PLAYS_MAX`] timetables for this. Who is not looked at stays held
//! with the reason that it has, or the first reserved start that it would run into, and has its
//! turn in a later step, which follows at once: nobody is left behind. Who is held is looked at
//! again only if a reserved start was put off or given up, nodes or queues are others, it came to
//! stand before a reserved start (`forward`), or more is free beside what reserved starts need than
//! there was when it was looked at, where one of those who are held could fit: what somebody leaves
//! for whom a start is reserved is nothing to others.
//!
//! Phases: what wakes others stirs those who are held -> if amounts came free, what is free beside
//! reserved starts is compared with the least of it that anybody was held at ([`Free`]) -> who came
//! forward has its turn at once -> more somewhere: all others line up (`waiting/in_turn`) -> each
//! step looks at the first [`TURNS_MAX`], until the line has ended or what came free was taken.
//! Heads of strict queues and gangs that grow are never parked for this; those passed over come
//! first in the next step.
//!
//! Restart: all are looked at. Cost: a play and a look at all nodes in a step in which somebody is
//! held, or stirred while others are; nothing where nobody is held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capstan_topology::ResourceIdx;

use crate::cycle::Late;
use crate::engine::Engine;
use crate::engine::waiting::in_turn::Stir;
use crate::model::ids::{FrIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::time::Time;

/// As of which decision somebody is held, and how.
type Known = (u64, Late);

/// Plays in a step to find out who would delay a reserved start, but for a few of the last one that
/// is looked at: some milliseconds, in which nothing else is decided.
const PLAYS_MAX: u64 = 512;

/// The same as far as it is nobody's turn: some are left for those whose it is.
const PLAYS_OF_NEWCOMERS: u64 = 256;

/// Groups whose turn it is in a step, and others that were passed over: each takes two plays, or a
/// few more.
const TURNS_MAX: usize = 64;

/// Who is held in this step, and what is free beside reserved starts.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Plays in this step.
    plays: u64,
    /// Groups whose turn it was in this step.
    invited: usize,
    /// Who was passed over in the last step and is not parked.
    favoured: BTreeSet<WorkloadIdx>,
    /// Who was passed over in this one.
    passed: VecDeque<WorkloadIdx>,
    /// Heads of strict queues that were held in this step.
    strict: BTreeMap<WorkloadIdx, Known>,
    /// Somebody was held in this step.
    held: bool,
    /// Nobody was held with less free than this, those in line apart.
    least: Option<Free>,
    /// The line is being looked at.
    pass: Option<Pass>,
}

/// A line that is being looked at.
#[derive(Debug)]
struct Pass {
    /// All of it is, whatever is free.
    surely: bool,
    /// The least that was free since it began.
    least: Option<Free>,
}

/// What is free beside what reserved starts need.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Free {
    /// For nodes of this tree.
    tree: u64,
    /// Amounts on all nodes, in order; none on nodes where nobody fits who is held.
    on_nodes: Vec<i64>,
    /// Of quota, for each queue in which somebody waits.
    of_quota: BTreeMap<(QueueIdx, FrIdx), i64>,
}

impl Free {
    /// For work in these queues of which each pod asks at least so much.
    fn of(state: &ClusterState, queues: &[QueueIdx], least: &[(ResourceIdx, i64)]) -> Free {
        let (room, quota) = (&state.room, &state.quota);
        let amounts = room.tree.order().iter().flat_map(|node| {
            let free = move |resource| room.ledger.free(*node, resource);
            let fits = least.iter().all(|(resource, amount)| free(*resource) >= *amount);
            let has = room.ledger.capacity(*node).entries();
            has.map(move |(resource, _)| if fits { free(resource) } else { i64::MIN })
        });
        let left = queues.iter().filter_map(|queue| Some((*queue, quota.queue(*queue).node?)));
        let left = left.flat_map(|(queue, node)| {
            let covered = quota.tree.covered(node);
            covered.map(move |fr| ((queue, fr), quota.tree.available(node, fr)))
        });
        Free { tree: room.tree_epoch(), on_nodes: amounts.collect(), of_quota: left.collect() }
    }

    fn same_nodes(&self, other: &Free) -> bool {
        (self.tree, self.on_nodes.len()) == (other.tree, other.on_nodes.len())
    }

    /// Whether there is more anywhere than at another time.
    fn exceeds(&self, other: &Free) -> bool {
        let on_nodes = || self.on_nodes.iter().zip(&other.on_nodes).any(|(now, then)| now > then);
        let mut of_quota = self.of_quota.iter();
        // In a queue that is not in the other nobody was held.
        let more = |(key, now): (_, &i64)| other.of_quota.get(key).is_some_and(|then| now > then);
        !self.same_nodes(other) || on_nodes() || of_quota.any(more)
    }

    /// Notes that there was less.
    fn lower(&mut self, to: &Free) {
        if !self.same_nodes(to) {
            *self = to.clone();
            return;
        }
        let both = self.on_nodes.iter_mut().zip(&to.on_nodes);
        both.for_each(|(least, now)| *least = (*least).min(*now));
        for (key, now) in &to.of_quota {
            let least = self.of_quota.entry(*key).or_insert(*now);
            *least = (*least).min(*now);
        }
    }
}

impl Turns {
    /// A timetable is played for somebody who would start.
    pub fn count_play(&mut self) {
        self.plays += 1;
    }

    /// Somebody who is not parked is passed over: it comes first in the next step.
    pub fn pass_over(&mut self, workload: WorkloadIdx) {
        if !self.passed.contains(&workload) {
            self.passed.push_back(workload);
        }
    }

    /// Somebody is held, or stands in line without a look: then nobody leaves the line without.
    pub fn note_held(&mut self, looked_at: bool) {
        self.held |= looked_at;
        if !looked_at {
            let pass = self.pass.get_or_insert(Pass { surely: true, least: None });
            pass.surely = true;
        }
    }

    /// The head of a strict queue is held as of a decision.
    pub fn keep(&mut self, workload: WorkloadIdx, decided: u64, late: Late) {
        self.strict.insert(workload, (decided, late));
    }

    /// Reserved starts were put off: heads of strict queues may be held no longer. Whether any was.
    pub fn forget_known(&mut self) -> bool {
        !std::mem::take(&mut self.strict).is_empty()
    }

    /// How the head of a strict queue is held, if nothing was decided since.
    pub fn known(&self, workload: WorkloadIdx, decided: u64) -> Option<Late> {
        let known = self.strict.get(&workload).filter(|(as_of, _)| *as_of == decided);
        known.map(|(_, late)| late.clone())
    }

    /// Whether somebody was passed over who is not parked.
    pub fn passed_any(&self) -> bool {
        !self.passed.is_empty()
    }
}

impl Engine {
    /// A step begins: whoever was passed over has its turn, then those in line.
    pub(in crate::engine) fn begin_turns(&mut self) {
        let turns = &mut self.reservations.turns;
        (turns.plays, turns.invited, turns.held) = (0, 0, false);
        turns.strict.clear();
        let most = turns.passed.len().min(TURNS_MAX);
        turns.favoured = turns.passed.drain(..most).collect();
        for workload in &turns.favoured {
            if self.growth_parked.remove(workload) {
                self.growth.insert(*workload);
            }
        }
        self.take_turns();
    }

    /// Files those whose turn it is among those to look at; whether there are any.
    pub(crate) fn take_turns(&mut self) -> bool {
        if !self.waiting.has_line() {
            return false;
        }
        let stir = self.waiting.take_stir();
        if self.reservations.is_empty() {
            self.reservations.turns.pass = None;
            self.waiting.line_up();
            return self.waiting.invite(usize::MAX) > 0;
        }
        let stirs = match stir {
            None => false,
            Some(Stir::Surely) => true,
            Some(Stir::Perhaps) => self.more_is_free(),
        };
        let came = stir.map_or(0, |_| self.invite_who_came_forward());
        if stirs {
            self.waiting.line_up();
            let surely = stir == Some(Stir::Surely);
            let turns = &mut self.reservations.turns;
            let surely = surely || turns.pass.as_ref().is_some_and(|pass| pass.surely);
            turns.pass = Some(Pass { surely, least: None });
        }
        let turns = &mut self.reservations.turns;
        turns.invited += came;
        let invited = self.waiting.invite(TURNS_MAX.saturating_sub(turns.invited));
        turns.invited += invited;
        came + invited > 0
    }

    /// Whether more is free beside reserved starts than when those who are held were looked at, or
    /// nobody knows.
    fn more_is_free(&mut self) -> bool {
        let turns = &self.reservations.turns;
        let of_pass = turns.pass.as_ref().and_then(|pass| pass.least.clone());
        let Some(least) = of_pass.or_else(|| turns.least.clone()) else { return true };
        self.free_beside().is_none_or(|free| free.exceeds(&least))
    }

    /// A step ends: what is free is noted. Whether some are still to be looked at.
    pub(in crate::engine) fn end_turns(&mut self) -> bool {
        self.counts.plays = self.reservations.turns.plays;
        if self.reservations.is_empty() {
            let rest = self.waiting.has_line();
            self.reservations.turns = Turns::default();
            return rest;
        }
        let (held, line) = (self.reservations.turns.held, self.waiting.anybody_in_line());
        if held || line || self.reservations.turns.pass.is_some() {
            let free = self.free_beside();
            let turns = &mut self.reservations.turns;
            match (&mut turns.pass, free) {
                (_, None) => turns.least = None,
                (Some(pass), Some(free)) => {
                    pass.least.get_or_insert_with(|| free.clone()).lower(&free);
                    let in_vain = turns.least.as_ref().is_some_and(|least| !free.exceeds(least));
                    if in_vain && !pass.surely {
                        self.waiting.dismiss();
                    }
                    // Those who are still in line were held before it began.
                    if let (true, Some(before)) = (in_vain, &turns.least) {
                        pass.least.as_mut().expect("just noted").lower(before);
                    }
                }
                (None, Some(free)) => {
                    if let Some(least) = &mut turns.least {
                        least.lower(&free);
                    }
                }
            }
            self.end_pass();
        }
        self.waiting.has_line() || self.reservations.turns.passed_any()
    }

    /// Nobody stands in line any more: from now on what was free while they were looked at counts.
    fn end_pass(&mut self) {
        if self.waiting.anybody_in_line() {
            return;
        }
        let turns = &mut self.reservations.turns;
        if let Some(pass) = turns.pass.take() {
            turns.least = pass.least;
        }
    }

    /// What is free beside what reserved starts need and heads of strict queues keep back; `None`:
    /// some do not hold.
    fn free_beside(&mut self) -> Option<Free> {
        let slots = self.slots(None);
        let ends = self.believed_for(&slots, None);
        let started = self.play(&ends, &slots).ok()?;
        let kept = self.kept_for(&ends, &slots, &started);
        let queues: Vec<QueueIdx> = self.waiting.lines().flatten().collect();
        let least = self.least_asked();
        let strict = self.kept_by_strict_heads();
        let held = self.state.let_go();
        let mut txn = Txn::begin(&mut self.state);
        strict.iter().for_each(|kept| txn.propose(kept.queue, kept.fr, kept.amount, true));
        kept.count(&mut txn, true);
        let free = Free::of(txn.state(), &queues, &least);
        drop(txn);
        self.state.hold_again(held);
        Some(free)
    }

    /// What each pod of those who are held asks at least.
    fn least_asked(&self) -> Vec<(ResourceIdx, i64)> {
        let room = &self.state.room;
        let request = |shape| room.ledger.request(room.shape(shape).request);
        let mut requests = self.waiting.held_shapes().map(request);
        let first = requests.next().map_or(&[][..], |request| request.entries());
        let mut least: Vec<(ResourceIdx, i64)> = first.to_vec();
        for request in requests {
            least.retain_mut(|(resource, amount)| {
                *amount = (*amount).min(request.get(*resource));
                *amount > 0
            });
        }
        least
    }

    /// Whether it may still be found out in this step whom a workload would delay.
    pub(crate) fn may_play(&self, workload: WorkloadIdx) -> bool {
        let turns = &self.reservations.turns;
        if self.reservations.of(workload).is_some() {
            return true;
        }
        let its_turn = turns.favoured.contains(&workload) || self.waiting.is_invited(workload);
        turns.plays < if its_turn { PLAYS_MAX } else { PLAYS_OF_NEWCOMERS }
    }

    /// A head starts at another time: who is held for it says so.
    pub(super) fn restate(&mut self, head: WorkloadIdx, start: Time) {
        let name = self.state.workloads[head].full_name.clone();
        for (workload, reason) in self.waiting.restate(&name, start) {
            let reason = self.of_itself(workload, reason);
            self.set_reason(workload, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(on_nodes: &[i64]) -> Free {
        Free { tree: 1, on_nodes: on_nodes.to_vec(), of_quota: BTreeMap::new() }
    }

    #[test]
    fn what_is_free_is_compared_with_the_least_that_there_was() {
        let mut least = free(&[4, 2]);
        assert!(!free(&[4, 2]).exceeds(&least) && free(&[0, 3]).exceeds(&least));
        least.lower(&free(&[1, 9]));
        assert_eq!(least, free(&[1, 2]));
        let other = Free { tree: 2, ..free(&[0, 0]) };
        assert!(other.exceeds(&least), "other nodes");
        least.lower(&other);
        assert_eq!(least, other);
    }
}
