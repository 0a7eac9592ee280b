//! Victims chosen by where they stand, when those taken in order leave room in the wrong places.
//!
//! Problem: what a queue borrows is a budget. Taken in the usual order, from the latest admitted
//! on, it may be spent on nodes that hold nobody even then: half of each of two nodes, where one
//! of them whole was wanted. All candidates together would do, and the owner would wait for what
//! it lent.
//!
//! Wanted: room where less harm is done, and nobody who makes none. A node costs the highest
//! priority that leaves it, then how many leave it, for the first member more that it holds.
//!
//! Phases, inside one required domain after the other (the roomiest first), else anywhere: what
//! each node would cost, then nodes in that order, each as far as it comes to hold more members:
//! in the usual order, else some set that does; who makes no difference there stays. Then victims
//! for quota as usual, and at the end everyone goes back who turns out not to be needed.
//!
//! Cost: at most [`REMOVALS_MAX`] removals in one search, each with the nodes of the one removed
//! looked at again; only for a preemptor that would wait otherwise. Nothing survives a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use capstan_topology::NodeIdx;

use super::{For, Search, Taken, remove};
use crate::model::ids::{FrIdx, WorkloadIdx};
use crate::model::txn::{Checkpoint, Txn};
use crate::victims::candidates::{Candidate, Kind};

/// Removals in one search, at most: a thousand nodes of eight victims.
const REMOVALS_MAX: u32 = 8_192;

/// Removals in one look for a set on one node, at most: every set of six.
const SETS_MAX: u32 = 64;

/// Domains of a required level that are looked at, at most.
const DOMAINS_MAX: usize = 16;

/// Candidates on a node.
struct Stand<'c> {
    position: usize,
    /// In the order in which they are taken.
    in_order: Vec<&'c Candidate>,
    /// Those that hold least first.
    by_size: Vec<&'c Candidate>,
}

/// A search under way.
struct Focus<'s, 'a, 'c> {
    search: &'s Search<'a>,
    borrowing: bool,
    stands: Vec<Stand<'c>>,
    taken: Vec<Taken<'c>>,
    seen: BTreeSet<WorkloadIdx>,
    /// Removals left.
    removals: u32,
}

impl Search<'_> {
    /// Takes victims where they stand together; `None`: that does not do either, and nothing was
    /// removed.
    pub(super) fn attempt_by_place<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        borrowing: bool,
        start: Checkpoint,
    ) -> Option<Vec<Taken<'c>>> {
        // Where nothing is a budget, all that are allowed were gone before it failed.
        if !list.iter().any(|candidate| candidate.room && candidate.kind.elsewhere()) {
            return None;
        }
        let mut focus = Focus {
            search: self,
            borrowing,
            stands: self.stands(txn, list),
            taken: Vec::new(),
            seen: BTreeSet::new(),
            removals: REMOVALS_MAX,
        };
        for scope in self.scopes(txn) {
            if focus.clear(txn, &scope) && focus.free_quota(txn, list) {
                return Some(focus.taken);
            }
            txn.rollback_to(start);
            focus.taken.clear();
            focus.seen.clear();
            if focus.removals == 0 {
                break;
            }
        }
        None
    }

    /// Nodes that some wanted class may use, with those who may leave them.
    fn stands<'c>(&self, txn: &Txn<'_>, list: &'c [Candidate]) -> Vec<Stand<'c>> {
        let state = txn.state();
        let mut order: Vec<&Candidate> = list.iter().filter(|candidate| candidate.room).collect();
        order.sort_by_key(|candidate| candidate.kind != Kind::Unqueued);
        let mut by_node: BTreeMap<NodeIdx, Vec<&Candidate>> = BTreeMap::new();
        for candidate in order {
            for pod in state.placed(candidate.workload) {
                let Some(node) = state.pods[pod].place else { continue };
                let all = by_node.entry(node).or_default();
                if all.last().is_none_or(|last| last.workload != candidate.workload) {
                    all.push(candidate);
                }
            }
        }
        let stand = |(node, candidates): (NodeIdx, Vec<&'c Candidate>)| {
            let position = state.room.tree.position(node)?;
            let mut classes = self.need.asks.iter().map(|(class, _)| *class);
            let useful = classes.any(|class| state.classes.accepts(&state.room, class, node));
            let mut by_size = candidates.clone();
            by_size.sort_by_cached_key(|candidate| self.share_held(txn, candidate.workload));
            useful.then_some(Stand { position, in_order: candidates, by_size })
        };
        by_node.into_iter().filter_map(stand).collect()
    }

    /// How much a workload holds of what is asked, in millionths of that.
    fn share_held(&self, txn: &Txn<'_>, workload: WorkloadIdx) -> i128 {
        let state = txn.state();
        let asked = |fr: FrIdx| {
            let resource = state.quota.fr(fr).1;
            let mut usage = self.need.usage.iter();
            usage.find(|(of, _)| state.quota.fr(*of).1 == resource).map(|(_, amount)| *amount)
        };
        let charges = state.placed(workload).flat_map(|pod| state.charges_of(&state.pods[pod]));
        let share = |(_, fr, held): (_, FrIdx, i64)| {
            asked(fr).map_or(0, |asked| i128::from(held) * 1_000_000 / i128::from(asked.max(1)))
        };
        charges.map(share).sum()
    }

    /// Where all members must come together: ranges of positions, the roomiest first.
    fn scopes(&self, txn: &mut Txn<'_>) -> Vec<Range<usize>> {
        self.need.asks.iter().for_each(|(class, _)| txn.fresh(*class));
        let state = txn.state();
        let tree = &state.room.tree;
        let Some(level) = self.need.topology.required.filter(|_| !self.need.topology.per_set)
        else {
            return std::iter::once(0..tree.order().len()).collect();
        };
        let mut domains = tree.domains_at(level).to_vec();
        domains.sort_by_key(|domain| {
            let classes = self.need.asks.iter().map(|(class, _)| state.classes.fit(*class));
            let slots: u64 = classes.map(|index| index.slots(*domain)).sum();
            (std::cmp::Reverse(slots), tree.domain(*domain).start)
        });
        let range = |domain| tree.domain(domain).start..tree.domain(domain).end;
        domains.into_iter().take(DOMAINS_MAX).map(range).collect()
    }

    /// How many members of any wanted class a node holds.
    fn slots(&self, txn: &mut Txn<'_>, position: usize) -> u64 {
        let mut slots = 0;
        for (class, _) in &self.need.asks {
            txn.fresh(*class);
            slots += u64::from(txn.state().classes.fit(*class).spot(position).slots);
        }
        slots
    }
}

impl<'c> Focus<'_, '_, 'c> {
    /// Clears nodes of a scope, those of least cost first, until everyone has room.
    fn clear(&mut self, txn: &mut Txn<'_>, scope: &Range<usize>) -> bool {
        let mut costs = Vec::new();
        for at in 0..self.stands.len() {
            let position = self.stands[at].position;
            if !scope.contains(&position) {
                continue;
            }
            let (point, before) = (txn.checkpoint(), self.taken.len());
            if self.more_room(txn, at) {
                let taken = &self.taken[before..];
                let priority =
                    |taken: &Taken<'_>| txn.state().workloads[taken.candidate.workload].priority;
                let highest = taken.iter().map(priority).max();
                costs.push((highest, taken.len(), position, at));
            }
            self.undo(txn, point, before);
        }
        costs.sort_unstable();
        for (.., at) in costs {
            while self.more_room(txn, at) {
                if self.search.room_fits(txn) {
                    return true;
                }
            }
        }
        false
    }

    /// Takes candidates of a node until it holds more members; who makes no difference to that
    /// goes back. `false`: it comes to hold no more, and nobody was taken.
    fn more_room(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        let position = self.stands[at].position;
        let (point, before) = (txn.checkpoint(), self.taken.len());
        let slots = self.search.slots(txn, position);
        for which in 0..self.stands[at].in_order.len() {
            let candidate = self.stands[at].in_order[which];
            if self.take(txn, candidate) && self.search.slots(txn, position) > slots {
                self.give_back(txn, before, position, slots);
                return true;
            }
        }
        self.undo(txn, point, before);
        let least = self.removals.saturating_sub(SETS_MAX);
        if !self.some_set(txn, (at, 0), slots, least) {
            return false;
        }
        self.give_back(txn, before, position, slots);
        true
    }

    /// Takes the first set of a node's candidates, from one on, that lets it hold more. Sets are
    /// tried by size: the last one taken may hold more than what is still borrowed.
    fn some_set(
        &mut self,
        txn: &mut Txn<'_>,
        (at, from): (usize, usize),
        slots: u64,
        least: u32,
    ) -> bool {
        for which in from..self.stands[at].by_size.len() {
            if self.removals <= least {
                return false;
            }
            let (point, before) = (txn.checkpoint(), self.taken.len());
            let candidate = self.stands[at].by_size[which];
            if !self.take(txn, candidate) {
                continue;
            }
            if self.search.slots(txn, self.stands[at].position) > slots
                || self.some_set(txn, (at, which + 1), slots, least)
            {
                return true;
            }
            self.undo(txn, point, before);
        }
        false
    }

    /// Takes one, if that is allowed now.
    fn take(&mut self, txn: &mut Txn<'_>, candidate: &'c Candidate) -> bool {
        let usable = self.removals > 0
            && !self.seen.contains(&candidate.workload)
            && self.search.usable(txn, candidate, self.borrowing, For::Room);
        if usable {
            self.removals -= 1;
            self.seen.insert(candidate.workload);
            self.taken.push(remove(txn, candidate));
        }
        usable
    }

    /// Of those taken since `from`, all but the last go back if the node holds more all the same.
    fn give_back(&mut self, txn: &mut Txn<'_>, from: usize, position: usize, slots: u64) {
        for at in (from..self.taken.len() - 1).rev() {
            let point = txn.checkpoint();
            let taken = &self.taken[at];
            txn.return_workload(taken.candidate.workload, &taken.placed);
            if self.search.slots(txn, position) > slots {
                let back = self.taken.remove(at);
                self.seen.remove(&back.candidate.workload);
            } else {
                txn.rollback_to(point);
            }
        }
    }

    fn undo(&mut self, txn: &mut Txn<'_>, point: Checkpoint, before: usize) {
        for back in self.taken.drain(before..) {
            self.seen.remove(&back.candidate.workload);
        }
        txn.rollback_to(point);
    }

    /// Takes others for quota, as usual.
    fn free_quota(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate]) -> bool {
        let (search, borrowing) = (self.search, self.borrowing);
        search.take_for_quota(txn, list, borrowing, &mut self.seen, &mut self.taken)
    }
}
