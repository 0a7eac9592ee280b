//! Victims chosen by where they stand, when those taken in order leave room in the wrong places.
//!
//! Problem: what a queue borrows is a budget. Taken in the usual order, from the latest admitted
//! on, it may be spent on nodes that hold nobody even then: half of each of two nodes, where one
//! of them whole was wanted. All candidates together would do, and the owner would wait for what
//! it lent.
//!
//! Wanted: room where less harm is done, and nobody who makes none. A node costs the budgets that
//! are broken there, then the highest priority that leaves it, then how many leave it, for the
//! first member more that it holds.
//!
//! Phases, inside one required domain after the other (the roomiest first), else anywhere: what
//! each node would cost, then nodes in that order, each as far as it comes to hold more members:
//! in the usual order, else some set that does; who makes no difference there stays. Then victims
//! for quota as usual, and at the end everyone goes back who turns out not to be needed. Only
//! kinds of members that lack room count. One node may give what the cheapest few do not: the
//! budget is spent again from each of the first [`STARTS_MAX`] nodes on.
//!
//! Cost: one look at each node that candidates stand on, without any change; then removals, at
//! most [`REMOVALS_MAX`] in one search, on the nodes that lack least first. Where [`FAILURES_MAX`]
//! of those come to nothing, what may be taken is too little, and others lack more. Only for a
//! preemptor that would wait otherwise. Nothing survives a restart.

use std::collections::BTreeMap;

use capstan_topology::{DomainIdx, NodeIdx};

use super::{Attempt, For, Removed, Search, Taken};
use crate::model::ids::{ClassIdx, FrIdx, PodIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::{Checkpoint, Txn};
use crate::place::coupled;
use crate::resources;
use crate::victims::candidates::{Candidate, Kind};

/// Removals in one search, at most: the nodes of a gang of 256 with eight victims each.
const REMOVALS_MAX: u32 = 2_048;

/// Nodes of a scope that come to nothing before the others are left alone.
const FAILURES_MAX: u32 = 16;

/// Removals in one look for a set on one node, at most: every set of five.
const SETS_MAX: u32 = 32;

/// Nodes that are cleared first, one after the other, until it does.
const STARTS_MAX: usize = 8;

/// Domains of a required level that are looked at, at most.
const DOMAINS_MAX: usize = 16;

/// Candidates on a node that would hold a member more if all of them left.
struct Stand<'c> {
    position: usize,
    /// What the node lacks for it now: the largest share of what is asked, in millionths.
    lacks: i128,
    /// In the order in which they are taken.
    in_order: Vec<&'c Candidate>,
    /// Those that hold least first.
    by_size: Vec<&'c Candidate>,
}

/// A search under way.
struct Focus<'s, 'a, 'c> {
    search: &'s Search<'a>,
    attempt: Attempt,
    stands: Vec<Stand<'c>>,
    removed: Removed<'c>,
    /// Where all members must come together.
    scope: DomainIdx,
    /// Kinds of members that lack room there.
    short: Vec<ClassIdx>,
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
        attempt: Attempt,
        start: Checkpoint,
    ) -> Option<Removed<'c>> {
        // Where nothing is a budget, all that are allowed were gone before it failed.
        if !list.iter().any(|candidate| candidate.room && candidate.kind.elsewhere()) {
            return None;
        }
        let scopes = self.scopes(txn);
        let scope = *scopes.first()?;
        let short = self.short(txn, scope);
        let mut focus = Focus {
            search: self,
            attempt,
            stands: self.stands(txn, list, &short),
            removed: Removed::default(),
            scope,
            short,
            removals: REMOVALS_MAX,
        };
        for scope in scopes {
            focus.scope = scope;
            if focus.clear(txn, list) {
                return Some(focus.removed);
            }
            focus.undo(txn, start, 0);
            if focus.removals == 0 {
                break;
            }
        }
        None
    }

    /// Nodes that some wanted class could use, with those who may leave them; those that lack
    /// least come first.
    fn stands<'c>(
        &self,
        txn: &Txn<'_>,
        list: &'c [Candidate],
        short: &[ClassIdx],
    ) -> Vec<Stand<'c>> {
        let state = txn.state();
        let mut order: Vec<&Candidate> = list.iter().filter(|candidate| candidate.room).collect();
        order.sort_by_key(|candidate| candidate.kind != Kind::Unqueued);
        let mut by_node: BTreeMap<NodeIdx, (Vec<&Candidate>, Vec<PodIdx>)> = BTreeMap::new();
        for candidate in order {
            for pod in state.placed(candidate.workload) {
                let Some(node) = state.pods[pod].place else { continue };
                let (all, pods) = by_node.entry(node).or_default();
                if all.last().is_none_or(|last| last.workload != candidate.workload) {
                    all.push(candidate);
                }
                pods.push(pod);
            }
        }
        let stand = |(node, (in_order, pods)): (NodeIdx, (Vec<&'c Candidate>, Vec<PodIdx>))| {
            let position = state.room.tree.position(node)?;
            let useful = short.iter().copied();
            let useful = useful.filter(|class| state.classes.accepts(&state.room, *class, node));
            let lacks = useful.filter_map(|class| lacks(state, class, node, &pods)).min()?;
            let mut by_size = in_order.clone();
            by_size.sort_by_cached_key(|candidate| self.share_held(txn, candidate.workload));
            Some(Stand { position, lacks, in_order, by_size })
        };
        let mut stands: Vec<Stand<'_>> = by_node.into_iter().filter_map(stand).collect();
        stands.sort_by_key(|stand| (stand.lacks, stand.position));
        stands
    }

    /// How much a workload holds of what is asked, in millionths of that.
    fn share_held(&self, txn: &Txn<'_>, workload: WorkloadIdx) -> i128 {
        let state = txn.state();
        let asked = |fr: FrIdx| {
            let resource = state.quota.fr(fr).1;
            let mut usage = self.need.usage.iter();
            usage.find(|(of, _)| state.quota.fr(*of).1 == resource).map(|(_, amount)| *amount)
        };
        let charges = state.placed(workload).flat_map(|pod| state.charges_of(pod));
        let charges = charges.chain(state.kept_for(workload).iter().copied());
        let share = |(_, fr, held): (_, FrIdx, i64)| {
            asked(fr).map_or(0, |asked| i128::from(held) * 1_000_000 / i128::from(asked.max(1)))
        };
        charges.map(share).sum()
    }

    /// Where all members must come together, the roomiest first.
    fn scopes(&self, txn: &mut Txn<'_>) -> Vec<DomainIdx> {
        self.need.asks.iter().for_each(|(class, _)| txn.fresh(*class));
        let state = txn.state();
        let tree = &state.room.tree;
        let Some(level) = self.need.topology.required.filter(|_| !self.need.topology.per_set)
        else {
            return vec![tree.root()];
        };
        let mut domains = tree.domains_at(level).to_vec();
        domains.sort_by_key(|domain| {
            let classes = self.need.asks.iter().map(|(class, _)| state.classes.fit(*class));
            let slots: u64 = classes.map(|index| index.slots(*domain)).sum();
            (std::cmp::Reverse(slots), tree.domain(*domain).start)
        });
        domains.truncate(DOMAINS_MAX);
        domains
    }

    /// Kinds of members that find too little room in a domain; where each finds enough by itself,
    /// all of them.
    fn short(&self, txn: &mut Txn<'_>, scope: DomainIdx) -> Vec<ClassIdx> {
        let mut short = Vec::new();
        for (class, count) in &self.need.asks {
            txn.fresh(*class);
            let state = txn.state();
            let domain = state.room.tree.domain(scope);
            let slots = match self.open.contains(class) {
                true => coupled::free_in(state, *class, domain.start..domain.end),
                false => state.classes.fit(*class).slots(scope),
            };
            if slots < u64::from(*count) {
                short.push(*class);
            }
        }
        if short.is_empty() {
            short.extend(self.need.asks.iter().map(|(class, _)| *class));
        }
        short
    }
}

/// What a node lacks for a member more of a class, as the largest share of what that asks, in
/// millionths; `None`: it would not hold one even if all of these pods left.
fn lacks(state: &ClusterState, class: ClassIdx, node: NodeIdx, pods: &[PodIdx]) -> Option<i128> {
    let shape = state.classes.class(class).key.shape;
    let ledger = &state.room.ledger;
    let mut most = 0;
    for &(resource, asked) in ledger.request(state.room.shape(shape).request).entries() {
        let free = ledger.free(node, resource);
        let held = |pod: &PodIdx| ledger.request(state.pods[*pod].holds).get(resource);
        let leave = resources::total(pods.iter().map(held));
        if free.saturating_add(leave) < asked && !state.room.args.ignores_any() {
            return None;
        }
        let lacking = i128::from(asked.saturating_sub(free).max(0));
        most = most.max(lacking * 1_000_000 / i128::from(asked.max(1)));
    }
    Some(most)
}

impl<'c> Focus<'_, '_, 'c> {
    /// Clears nodes of the scope, those of least cost first, until everyone has room and quota.
    fn clear(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate]) -> bool {
        self.short = self.search.short(txn, self.scope);
        let costs = self.costs(txn);
        for start in 0..costs.len().min(STARTS_MAX) {
            let (point, before) = (txn.checkpoint(), self.removed.taken.len());
            let others = (0..costs.len()).filter(|at| *at != start);
            let mut order = std::iter::once(start).chain(others).map(|at| costs[at]);
            if order.any(|at| self.clear_node(txn, at)) && self.free_quota(txn, list) {
                return true;
            }
            self.undo(txn, point, before);
            self.short = self.search.short(txn, self.scope);
        }
        false
    }

    /// Clears a node as far as that brings more room; whether everyone has room then.
    fn clear_node(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        while self.more_room(txn, at) {
            if self.search.room_fits(txn, self.attempt) {
                return true;
            }
            self.short = self.search.short(txn, self.scope);
        }
        false
    }

    /// Nodes of the scope that would come to hold more, those of least cost first.
    fn costs(&mut self, txn: &mut Txn<'_>) -> Vec<usize> {
        let domain = txn.state().room.tree.domain(self.scope);
        let scope = domain.start..domain.end;
        let mut costs = Vec::new();
        let mut failures = 0;
        for at in 0..self.stands.len() {
            let position = self.stands[at].position;
            if !scope.contains(&position) {
                continue;
            }
            if failures == FAILURES_MAX {
                break;
            }
            let (point, before) = (txn.checkpoint(), self.removed.taken.len());
            if self.more_room(txn, at) {
                // Who leaves already costs nothing more.
                let taken = self.removed.taken[before..].iter();
                let taken = || taken.clone().filter(|taken| !taken.candidate.kind.leaves());
                let priority =
                    |taken: &Taken<'_>| txn.state().workloads[taken.candidate.workload].priority;
                let highest = taken().map(priority).max();
                let breaks = taken().filter(|taken| taken.candidate.breaks_budget).count();
                costs.push((breaks, highest, taken().count(), position, at));
            } else {
                failures += 1;
            }
            self.undo(txn, point, before);
        }
        costs.sort_unstable();
        costs.into_iter().map(|(.., at)| at).collect()
    }

    /// How many members of the kinds that lack room a node holds.
    fn slots(&self, txn: &mut Txn<'_>, position: usize) -> u64 {
        slots_of(txn, self.search, &self.short, position)
    }

    /// Takes candidates of a node until it holds more members; who makes no difference to that
    /// goes back. `false`: it comes to hold no more, and nobody was taken.
    fn more_room(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        let position = self.stands[at].position;
        let (point, before) = (txn.checkpoint(), self.removed.taken.len());
        let slots = self.slots(txn, position);
        for which in 0..self.stands[at].in_order.len() {
            let candidate = self.stands[at].in_order[which];
            if self.take(txn, candidate) && self.slots(txn, position) > slots {
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
            let (point, before) = (txn.checkpoint(), self.removed.taken.len());
            let candidate = self.stands[at].by_size[which];
            if !self.take(txn, candidate) {
                continue;
            }
            if self.slots(txn, self.stands[at].position) > slots
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
            && !self.removed.contains(candidate)
            && self.search.usable(txn, candidate, self.attempt, For::Room);
        if usable {
            self.removals -= 1;
            self.removed.take(txn, candidate);
        }
        usable
    }

    /// Of those taken since `from`, all but the last go back if the node holds more all the same.
    fn give_back(&mut self, txn: &mut Txn<'_>, from: usize, position: usize, slots: u64) {
        for at in (from..self.removed.taken.len() - 1).rev() {
            let (search, short) = (self.search, &self.short);
            let fits = |txn: &mut Txn<'_>| slots_of(txn, search, short, position) > slots;
            self.removed.give_back(txn, at, fits);
        }
    }

    fn undo(&mut self, txn: &mut Txn<'_>, point: Checkpoint, before: usize) {
        self.removed.truncate(before);
        txn.rollback_to(point);
    }

    /// Takes others for quota, as usual.
    fn free_quota(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate]) -> bool {
        self.search.take_for_quota(txn, list, self.attempt, &mut self.removed)
    }
}

/// How many members of these kinds a node holds.
fn slots_of(txn: &mut Txn<'_>, of: &Search<'_>, kinds: &[ClassIdx], position: usize) -> u64 {
    let mut slots = 0;
    for class in kinds {
        txn.fresh(*class);
        let state = txn.state();
        slots += u64::from(match of.open.contains(class) {
            true => coupled::free_on(state, *class, position),
            false => state.classes.fit(*class).spot(position).slots,
        });
    }
    slots
}
