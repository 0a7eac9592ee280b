//! Victims chosen by where they stand.
//!
//! Problem: one pod needs one node, and who leaves another leaves for nothing. And what a queue
//! borrows is a budget. Taken in the usual order, from the latest admitted on, it may be spent on
//! nodes that hold nobody even then: half of each of two nodes, where one of them whole was wanted.
//! All candidates together would do, and the owner would wait for what it lent.
//!
//! Wanted: room where less harm is done ([`Cost`]; of equals where less is lost), and nobody who
//! makes none. What a node costs is told for the first member more that it holds.
//!
//! Phases, inside one required domain after the other (the roomiest first), else anywhere; where a
//! level holds for each of several pod sets, anywhere before that: what each node would cost, then
//! nodes in that order, each as far as it comes to hold more members: in the usual order, else
//! without somebody whom a member wants near, else some set that does; who makes no difference
//! there stays. Where all that leads nowhere, and members of several kinds open nodes for each
//! other, one whom they want near stays in turn. Then victims for quota as usual, and at the end
//! everyone goes back who turns out not to be needed, because another node will do by then, too.
//! Only kinds of members that lack room count. One node may give what the cheapest few do not: the
//! budget is spent again from each of the first [`STARTS_MAX`] nodes on.
//!
//! Cost: one look at each node that candidates stand on, without any change; then removals, half of
//! at most [`REMOVALS_MAX`] to learn what nodes cost. For one pod that is alone that ends once no
//! other node can cost less, or [`FOUND_MAX`] would do. For others nodes that lack least come
//! first, of equals those that fewest would have to leave, and where [`FAILURES_MAX`] of those come
//! to nothing, what may be taken is mostly too little, and others lack more: that is told as where
//! the search ended. Meanwhile only the node that is looked at is kept current. Nothing survives a
//! restart.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::DomainIdx;

use super::guarded::broken_by;
use super::stands::{Cost, Stand, Stander};
use super::{Attempt, For, Removed, Search};
use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::{Checkpoint, Txn};
use crate::money::MicroUsd;
use crate::place::gang::TopologyAsk;
use crate::place::{coupled, pod_sets};
use crate::resources;
use crate::time::Span;
use crate::victims::candidates::Candidate;

/// Removals in one search, at most: twice the nodes of a gang of 256 with eight victims each.
const REMOVALS_MAX: u32 = 4_096;

/// Nodes that would do for one pod and of which the best is taken: as many as kube-scheduler looks
/// for at least.
const FOUND_MAX: usize = 100;

/// Nodes of a scope that come to nothing before the others are left alone.
const FAILURES_MAX: u32 = 16;

/// Removals in one look for a set on one node, at most: every set of five.
const SETS_MAX: u32 = 32;

/// Candidates of one node of whom one is kept in turn, at most.
const KEPT_MAX: usize = 8;

/// Removals where one who is wanted near stays in turn, at most, in one scope.
const BESIDE_MAX: u32 = 512;

/// Nodes that are cleared first, one after the other, until it does.
const STARTS_MAX: usize = 8;

/// Domains of a required level that are looked at, at most.
const DOMAINS_MAX: usize = 16;

/// What is lost with those who leave a node: money, as far as all prices are known, and run time;
/// then who of them is taken first.
type Loss = (Option<MicroUsd>, Span, u32);

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
    /// Somebody who stays, because a member wants it near.
    kept: Option<WorkloadIdx>,
    /// Removals left.
    removals: u32,
    /// Some nodes were not looked at, because others took all removals that may be.
    ended: bool,
    /// Or because so many before them came to nothing.
    passed: bool,
}

impl Search<'_> {
    /// Takes victims where they stand together; `Err`: that does not do either, and nothing was
    /// removed; it may be because the search ended at its bound.
    pub(super) fn attempt_by_place<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, Option<SearchBound>> {
        let start = txn.checkpoint();
        let (scopes, cut) = self.scopes(txn, list);
        let Some(&scope) = scopes.first() else { return Err(None) };
        let mut focus = Focus {
            search: self,
            attempt,
            stands: Vec::new(),
            removed: Removed::default(),
            scope,
            short: Vec::new(),
            kept: None,
            removals: REMOVALS_MAX,
            ended: false,
            passed: false,
        };
        // Kinds for which `focus.stands` was reckoned: other domains may lack room for others.
        let mut known: Vec<ClassIdx> = Vec::new();
        for scope in scopes {
            let short = self.short(txn, scope);
            if short != known {
                focus.stands = self.stands(txn, list, &short);
                known.clone_from(&short);
            }
            (focus.scope, focus.short) = (scope, short);
            if focus.clear(txn, list) {
                focus.removed.by_place = true;
                return Ok(focus.removed);
            }
            focus.undo(txn, start, 0);
            if focus.removals == 0 {
                focus.ended = true;
                break;
            }
        }
        let cut = cut.then_some(SearchBound::Cleared(DOMAINS_MAX as u32));
        let tries = match focus.ended {
            true => Some(REMOVALS_MAX),
            false => focus.passed.then_some(REMOVALS_MAX - focus.removals),
        };
        Err(tries.map(SearchBound::Victims).or(cut))
    }

    /// Where all members must come together and somebody may leave, the roomiest first; where each
    /// of several pod sets may have a domain of its own, anywhere before that. Whether there are
    /// more of them than are looked at.
    fn scopes(&self, txn: &mut Txn<'_>, list: &[Candidate]) -> (Vec<DomainIdx>, bool) {
        if let Some(home) = self.need.home {
            return (vec![home], false);
        }
        self.need.asks.iter().for_each(|(class, _)| txn.fresh(*class));
        let state = txn.state();
        let tree = &state.room.tree;
        let Some(level) = self.confined(state).required else { return (vec![tree.root()], false) };
        let leave = list.iter().filter(|it| it.room).flat_map(|it| state.placed(it.workload));
        let positions = leave.filter_map(|pod| tree.position(state.pods[pod].place?));
        let there: BTreeSet<DomainIdx> =
            positions.filter_map(|position| tree.domain_of(level, position)).collect();
        let mut domains: Vec<DomainIdx> = there.into_iter().collect();
        domains.sort_by_key(|domain| {
            let classes = self.need.asks.iter().map(|(class, _)| state.classes.fit(*class));
            let slots: u64 = classes.map(|index| index.slots(*domain)).sum();
            (std::cmp::Reverse(slots), tree.domain(*domain).start)
        });
        let cut = domains.len() > DOMAINS_MAX;
        domains.truncate(DOMAINS_MAX);
        if self.need.topology.per_set {
            let at = if self.goes_together(state) { domains.len() } else { 0 };
            domains.insert(at, tree.root());
        }
        (domains, cut)
    }

    /// What is asked of topology: where pod sets have levels of their own, what the first of them
    /// asks that is confined to some.
    fn confined(&self, state: &ClusterState) -> TopologyAsk {
        let topology = self.need.topology;
        let mut sets = self.need.asks.iter().map(|(class, _)| topology.of_class(state, *class));
        let confined = |of: &TopologyAsk| of.required.is_some() || of.slices.is_some();
        sets.find(confined).unwrap_or(topology)
    }

    /// Whether there are several members, and all of them are of one pod set.
    fn goes_together(&self, state: &ClusterState) -> bool {
        let shape = |(class, _): &(ClassIdx, u32)| state.classes.class(*class).key.shape;
        let mut shapes = self.need.asks.iter().map(shape);
        let Some(first) = shapes.next() else { return false };
        shapes.all(|other| pod_sets::alike(&state.room, first, other))
            && !matches!(self.need.asks[..], [(_, 1)])
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

impl<'c> Focus<'_, '_, 'c> {
    /// Clears nodes of the scope, those of least cost first, until everyone has room and quota.
    fn clear(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate]) -> bool {
        let costs = self.costs(txn);
        let starts = costs.len().min(STARTS_MAX);
        let cleared = (0..starts).any(|start| self.clear_from(txn, list, &costs, start))
            || self.clear_beside(txn, list, &costs);
        self.passed |= !cleared && !self.search.alone && costs.len() > starts;
        cleared
    }

    /// The same where each of those in turn stays whom a member wants near. What others open for a
    /// member is not known before they are placed: on its node whoever leaves makes room for it, be
    /// it the one without whom it can be nowhere.
    fn clear_beside(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate], costs: &[usize]) -> bool {
        if self.search.open.is_empty() {
            return false;
        }
        let mut stay: Vec<(usize, WorkloadIdx)> = Vec::new();
        for (start, at) in costs.iter().enumerate().take(STARTS_MAX) {
            let wanted = self.wanted(txn, *at);
            stay.extend(wanted.into_iter().rev().map(|workload| (start, workload)));
        }
        let left = std::mem::replace(&mut self.removals, BESIDE_MAX);
        let found = stay.into_iter().take(KEPT_MAX).any(|(start, workload)| {
            self.kept = Some(workload);
            self.removals > 0 && self.clear_from(txn, list, costs, start)
        });
        (self.kept, self.removals) = (None, left);
        found
    }

    /// Clears one of these nodes first, and then the others in order, until everyone has room and
    /// quota; else nobody leaves.
    fn clear_from(
        &mut self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        costs: &[usize],
        start: usize,
    ) -> bool {
        let (point, before) = (txn.checkpoint(), self.removed.taken.len());
        let mut order = self.in_order_from(txn, costs, start).into_iter();
        if order.any(|at| self.clear_node(txn, at)) && self.free_quota(txn, list) {
            return true;
        }
        self.undo(txn, point, before);
        self.short = self.search.short(txn, self.scope);
        false
    }

    /// These nodes in order, but one of them first. Where slices are asked for, those of one domain
    /// after those of the other: half of each of two holds none.
    fn in_order_from(&self, txn: &Txn<'_>, costs: &[usize], start: usize) -> Vec<usize> {
        let mut order = costs.to_vec();
        order[..=start].rotate_right(1);
        if let Some(slices) = self.search.confined(txn.state()).slices {
            let tree = &txn.state().room.tree;
            let domain = |at: usize| tree.domain_of(slices.level, self.stands[at].position);
            let mut ranks: BTreeMap<Option<DomainIdx>, usize> = BTreeMap::new();
            for at in &order {
                let next = ranks.len();
                ranks.entry(domain(*at)).or_insert(next);
            }
            order.sort_by_key(|at| ranks[&domain(*at)]);
        }
        order
    }

    /// Clears a node as far as that brings more room; whether everyone has room then.
    fn clear_node(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        while self.more_room(txn, at) {
            if self.search.room_found(txn, self.attempt, &mut self.removed.trial) {
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
        let spare = self.removals / 2;
        let mut costs: Vec<(Cost, Loss, usize, usize)> = Vec::new();
        let mut best: Option<Cost> = None;
        let mut failures = 0;
        for at in 0..self.stands.len() {
            let Stand { position, least, .. } = self.stands[at];
            if !scope.contains(&position) {
                continue;
            }
            let settled = match self.search.alone {
                true => best.is_some_and(|best| best <= least) || costs.len() == FOUND_MAX,
                false => failures == FAILURES_MAX,
            };
            if settled {
                self.passed |= !self.search.alone;
                break;
            }
            if self.removals <= spare {
                self.ended = true;
                break;
            }
            let (point, before) = (txn.checkpoint(), self.removed.taken.len());
            txn.focus(&[position]);
            let cost = self.more_room(txn, at).then(|| self.cost(txn, at, before));
            let gone = self.removed.taken[before..].iter().map(|taken| taken.candidate);
            let gone: Vec<&Candidate> = gone.filter(|it| !it.kind.leaves()).collect();
            self.undo(txn, point, before);
            if let Some(cost) = cost {
                best = Some(best.map_or(cost, |best| best.min(cost)));
                costs.push((cost, loss(txn.state(), &gone), position, at));
            } else {
                failures += 1;
            }
        }
        txn.unfocus();
        costs.sort_unstable();
        costs.into_iter().map(|(.., at)| at).collect()
    }

    /// What it costs that those leave a node who were taken since `before`.
    fn cost(&self, txn: &Txn<'_>, at: usize, before: usize) -> Cost {
        let in_order = &self.stands[at].in_order;
        let (state, taken) = (txn.state(), &self.removed.taken[before..]);
        let there =
            |workload: WorkloadIdx| in_order.iter().find(|one| one.candidate.workload == workload);
        let gone = taken.iter().filter_map(|taken| there(taken.candidate.workload));
        let cost = Cost::of(state, gone.copied());
        if !self.search.alone {
            return cost;
        }
        cost.breaking(broken_by(state, taken))
    }

    /// How many members of the kinds that lack room a node holds.
    fn slots(&self, txn: &mut Txn<'_>, position: usize) -> u64 {
        slots_of(txn, self.search, &self.short, position)
    }

    /// Takes candidates of a node until it holds more members; who makes no difference to that
    /// goes back. `false`: it comes to hold no more, and nobody was taken.
    fn more_room(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        let position = self.stands[at].position;
        let slots = self.slots(txn, position);
        if self.take_in_order(txn, at, None, slots) {
            return true;
        }
        let wanted = self.wanted(txn, at);
        for kept in wanted.iter().rev().take(KEPT_MAX) {
            if self.take_in_order(txn, at, Some(*kept), slots) {
                return true;
            }
        }
        // Of one node any set does that is in one that does.
        if self.search.alone && wanted.is_empty() {
            return false;
        }
        let mut by_size: Vec<&'c Candidate> =
            self.stands[at].in_order.iter().map(|it| it.candidate).collect();
        by_size.sort_by_cached_key(|candidate| self.search.share_held(txn, candidate.workload));
        let (before, least) = (self.removed.taken.len(), self.removals.saturating_sub(SETS_MAX));
        let found = self.some_set(txn, position, &by_size, (slots, least));
        if found {
            self.give_back(txn, before, position, slots);
        }
        found
    }

    /// Takes all candidates of a node but one that is kept, in order, until it holds more members.
    fn take_in_order(
        &mut self,
        txn: &mut Txn<'_>,
        at: usize,
        kept: Option<WorkloadIdx>,
        slots: u64,
    ) -> bool {
        let position = self.stands[at].position;
        let (point, before) = (txn.checkpoint(), self.removed.taken.len());
        for which in 0..self.stands[at].in_order.len() {
            let Stander { candidate, .. } = self.stands[at].in_order[which];
            if kept != Some(candidate.workload)
                && self.take(txn, candidate)
                && self.slots(txn, position) > slots
            {
                self.give_back(txn, before, position, slots);
                return true;
            }
        }
        self.undo(txn, point, before);
        false
    }

    /// Candidates of a node whose leaving may do harm to the preemptor, in order: a member wants
    /// them near, or they are elsewhere too, where it may count on them.
    fn wanted(&self, txn: &mut Txn<'_>, at: usize) -> Vec<WorkloadIdx> {
        if !self.search.looks {
            return Vec::new();
        }
        // Made while all of them were gone it would know nothing of them.
        self.short.iter().for_each(|class| txn.fresh(*class));
        let state = txn.state();
        let node = state.room.tree.order()[self.stands[at].position];
        let wanted = |pod: PodIdx| {
            let pod = &state.pods[pod];
            let mut kinds = self.short.iter().map(|class| state.classes.class(*class).outlook());
            pod.place != Some(node) || kinds.any(|it| it.wants_near(pod.shape).is_some())
        };
        let all = self.stands[at].in_order.iter().map(|it| it.candidate.workload);
        all.filter(|workload| state.placed(*workload).any(wanted)).collect()
    }

    /// Takes the first set of these candidates of a node that lets it hold more. Sets are tried by
    /// size: the last one taken may hold more than what is still borrowed.
    fn some_set(
        &mut self,
        txn: &mut Txn<'_>,
        position: usize,
        of: &[&'c Candidate],
        (slots, least): (u64, u32),
    ) -> bool {
        for (which, &candidate) in of.iter().enumerate() {
            if self.removals <= least {
                return false;
            }
            let (point, before) = (txn.checkpoint(), self.removed.taken.len());
            if !self.take(txn, candidate) {
                continue;
            }
            if self.slots(txn, position) > slots
                || self.some_set(txn, position, &of[which + 1..], (slots, least))
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
            && self.kept != Some(candidate.workload)
            && !self.removed.passes_over(candidate)
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

    /// Takes others for quota, as usual; they must not be those near whom somebody wants to be.
    fn free_quota(&mut self, txn: &mut Txn<'_>, list: &'c [Candidate]) -> bool {
        let search = self.search;
        search.take_for_quota(txn, list, self.attempt, &mut self.removed)
            && (!search.looks || search.room_fits(txn, self.attempt))
    }
}

/// What is lost if these leave.
fn loss(state: &ClusterState, gone: &[&Candidate]) -> Loss {
    let spent = gone.iter().map(|it| state.spent(it.workload, state.now));
    let spent = spent.reduce(|one, other| Some(one?.plus(other?))).flatten();
    let worked = gone.iter().map(|it| state.worked(it.workload, state.now).0);
    let first = gone.iter().map(|it| it.turn).min().unwrap_or(0);
    (spent, Span(resources::total(worked)), first)
}

/// How many members of these kinds a node holds.
pub(super) fn slots_of(
    txn: &mut Txn<'_>,
    of: &Search<'_>,
    kinds: &[ClassIdx],
    position: usize,
) -> u64 {
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
