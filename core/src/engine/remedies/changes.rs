//! Changes that people could make: to the workload, and to its ClusterQueue.
//!
//! Each edits the one field that the change is about, asks for a start, and puts the field back;
//! nothing that is waiting or placed is touched meanwhile. Shapes made for a try stay known until
//! the engine sweeps, which nobody can see.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::remedies::Start;
use crate::engine::remedies::amounts::{Asked, Cost, money_told};
use crate::engine::remedies::least::least;
use crate::explain::reason::{FlavorProblem, FlavorRefusal, Reason};
use crate::explain::view::{Change, Remedy};
use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, QuotaIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    BorrowThreshold, CapacityType, GangSource, PodShape, PreemptReclaim, PreemptWithin,
    PreemptionPolicy, Text,
};
use crate::model::workload::QueueRef;
use crate::quota::tree::QuotaTree;
use crate::time::Time;

/// Flavors whose quota is tried to be raised: queues rarely list more for one kind of node.
const FLAVORS_MAX: usize = 4;

/// Times that a raise is topped up: debt and borrowing limits hide a part of what is short.
const TOP_UPS_MAX: usize = 3;

/// How much quota of something a queue is left, debt below zero.
pub(super) type Left = fn(&QuotaTree, QuotaIdx, FrIdx) -> i64;

/// Quotas of a queue that are raised together.
#[derive(Clone, Copy, Debug)]
struct Raised<'a> {
    node: QuotaIdx,
    /// What is asked of each.
    asked: &'a [(FrIdx, i64)],
    /// The tree before.
    tree: &'a QuotaTree,
    /// Only what does whoever else waits will do.
    sure: bool,
}

/// How much a quota is raised at first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raise {
    /// Until as much is left as is asked.
    Until(Left),
    /// The same beside what heads keep back.
    Beside,
    /// By all that is asked, at least: what others will need stays theirs.
    Wholly,
    /// Until its queue borrows nothing, at least: then who borrows goes after it.
    Within,
    /// Until its queue owns all that is asked, and perhaps what it uses: who may preempt often may
    /// only for so much.
    Owning {
        /// What it uses stays.
        used: bool,
    },
}

/// Capacity types that a workload may allow.
const TYPES: [CapacityType; 3] =
    [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];

impl Engine {
    /// The most members that would start, where people may say how many are enough: as things are,
    /// or where others would be stopped for as many of an owner's. Of a Job also how many would if
    /// it had no more, and nobody were stopped.
    pub(super) fn fewer_pods(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let entry = &mut self.state.workloads[index];
        let read = matches!(entry.source, GangSource::CapstanGang | GangSource::Job);
        if entry.min_member < 2 || !read {
            return Vec::new();
        }
        let min_member = std::mem::replace(&mut entry.min_member, 1);
        let start = match self.starts_in_part(index) {
            true => self.start(now, index),
            false => self.start_freely_among(now, index, now),
        };
        self.state.workloads[index].min_member = min_member;
        let Some(start) = start else { return Vec::new() };
        let pods = start.members;
        let freely = match start.victims.is_empty() {
            true => None,
            false => self.smaller_job(now, index, pods),
        };
        freely.into_iter().chain([start.by(Change::FewerPods { pods })]).collect()
    }

    /// The most pods below so many with which a Job would start, had it no more, and stop nobody.
    /// With fewer than a minimum that people state it would wait for more; with as many it would
    /// start as it is.
    fn smaller_job(&mut self, now: Time, index: WorkloadIdx, below: u32) -> Option<Remedy> {
        let entry = &self.state.workloads[index];
        let [set] = &entry.sets[..] else { return None };
        let stated = self.state.owner_of(index).is_some_and(|owner| owner.min_stated);
        if entry.source != GangSource::Job || entry.assignment.is_some() || stated {
            return None;
        }
        let before = (set.ready, entry.min_member);
        let (mut does, mut too_many, mut found) = (0, below, None);
        while too_many - does > 1 {
            let pods = does + (too_many - does) / 2;
            let entry = &mut self.state.workloads[index];
            (entry.sets[0].ready, entry.min_member) = (pods, pods);
            match self.start_freely_among(now, index, now) {
                Some(start) => (does, found) = (pods, Some(start)),
                None => too_many = pods,
            }
        }
        let entry = &mut self.state.workloads[index];
        (entry.sets[0].ready, entry.min_member) = before;
        Some(found?.by(Change::LowerParallelism { pods: does }))
    }

    /// The allow-list of capacity types with one type more, or with all of them. Where sets have
    /// lists of their own, each gets what all of them allow: that is one annotation to write.
    pub(super) fn more_capacity(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let sets = self.state.workloads[index].sets.iter();
        let mut list: Vec<CapacityType> = Vec::new();
        for kind in sets.flat_map(|s| &self.state.room.shape(s.shape).facts.capacity_types) {
            if !list.contains(kind) {
                list.push(*kind);
            }
        }
        if list.is_empty() {
            return Vec::new();
        }
        let missing: Vec<CapacityType> =
            TYPES.into_iter().filter(|kind| !list.contains(kind)).collect();
        // What some sets allow may be enough for all.
        let mut sets = self.state.workloads[index].sets.iter();
        let of = |shape| self.state.room.shape(shape).facts.capacity_types.len();
        let uneven = sets.any(|set| (1..list.len()).contains(&of(set.shape)));
        let mut tries: Vec<Vec<CapacityType>> = vec![Vec::new(); usize::from(uneven)];
        tries.extend(missing.iter().map(|kind| vec![*kind]));
        if missing.len() > 1 {
            tries.push(missing);
        }
        let (mut found, mut uneven_is_enough) = (Vec::new(), false);
        for more in tries {
            // All of them only where no single one is enough, one only where none is needed.
            if !found.is_empty() && (uneven_is_enough || more.len() > 1) {
                break;
            }
            let types: Vec<CapacityType> = list.iter().chain(&more).copied().collect();
            if let Some(start) = self.start_allowing(now, index, &types) {
                uneven_is_enough |= more.is_empty();
                found.push(start.by(Change::AllowCapacity { types, added: more.len() }));
            }
        }
        found
    }

    fn start_allowing(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        types: &[CapacityType],
    ) -> Option<Start> {
        let old: Vec<ShapeIdx> =
            self.state.workloads[index].sets.iter().map(|set| set.shape).collect();
        let new: Vec<ShapeIdx> =
            old.iter().map(|shape| self.shape_allowing(*shape, types)).collect();
        self.start_reshaped(now, index, &old, &new)
    }

    /// A start as if the members of each set were of another shape.
    pub(super) fn start_reshaped(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        old: &[ShapeIdx],
        new: &[ShapeIdx],
    ) -> Option<Start> {
        // Sets that differ in nothing else would become one; that is another workload.
        let distinct: BTreeSet<ShapeIdx> = new.iter().copied().collect();
        if distinct.len() < new.len() {
            return None;
        }
        self.reshape(index, old, new);
        let start = self.start(now, index);
        self.reshape(index, new, old);
        start
    }

    fn shape_allowing(&mut self, shape: ShapeIdx, types: &[CapacityType]) -> ShapeIdx {
        let facts = self.state.room.shape(shape).facts.clone();
        if facts.capacity_types.is_empty() {
            return shape;
        }
        let wider = PodShape { capacity_types: types.to_vec(), ..(*facts).clone() };
        self.state.room.intern_shape(&Arc::new(wider))
    }

    /// Gives the members of a waiting workload other shapes, set by set.
    fn reshape(&mut self, index: WorkloadIdx, from: &[ShapeIdx], to: &[ShapeIdx]) {
        let changed = |shape: ShapeIdx| {
            let at = from.iter().position(|old| *old == shape);
            at.map_or(shape, |at| to[at])
        };
        let entry = &mut self.state.workloads[index];
        for set in &mut entry.sets {
            set.shape = changed(set.shape);
        }
        for member in &entry.members {
            let pod = &mut self.state.pods[*member];
            if pod.place.is_none() {
                pod.shape = changed(pod.shape);
            }
        }
    }

    /// More quota of a flavor that is short, exactly as much as is missing: only what could never
    /// be had where others may be preempted for the rest, else all; of a gang of several sets only
    /// what those ask that cannot go elsewhere. Where it would start and is held for others whose
    /// start is reserved, or beside what heads keep back, as much more as leaves them theirs; where
    /// heads of other queues would go first and take it, as much more as lets it go before them. Of
    /// money also what it costs where there is room now, where that is more than the least.
    /// Where nobody is stopped for that, also what is enough if somebody is.
    pub(super) fn more_quota(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let QueueRef::Queue(queue) = self.state.workloads[index].queue else { return Vec::new() };
        let flavors = self.flavors_to_raise(now, index);
        let beside = (!self.kept_by_others(index).is_empty()).then_some(Raise::Beside);
        let wholly = (!self.reservations.is_empty()).then_some(Raise::Wholly);
        let more: Vec<Raise> = beside.into_iter().chain(wholly).chain([Raise::Within]).collect();
        let owning = [false, true].map(|used| Raise::Owning { used });
        let mut found = Vec::new();
        for &(flavor, told) in &flavors {
            let dear = self.asked_of(index, queue, flavor, Cost::Now { told });
            let cheap = self.asked_of(index, queue, flavor, Cost::Least);
            let mut raise = |(how, asked): (Raise, &Vec<Asked>), sure: bool| {
                let mut asked = asked.iter();
                asked.find_map(|asked| self.raise_for(now, index, queue, (&asked[..], (how, sure))))
            };
            let stops = |remedy: &Remedy| !remedy.preempts.is_empty();
            let mut hows = in_turn(&cheap, &dear);
            hows.extend(more.iter().map(|how| (*how, &dear)));
            let mut least = hows.iter().find_map(|how| raise(*how, true));
            least = least.or_else(|| hows.iter().find_map(|how| raise(*how, false)));
            if !least.as_ref().is_some_and(stops) {
                let less = (cheap != dear).then_some(&cheap);
                let of =
                    |how: Raise| less.into_iter().chain([&dear]).map(move |asked| (how, asked));
                let mut owning = owning.into_iter().flat_map(of);
                found.extend(owning.find_map(|how| raise(how, true).filter(stops)));
            }
            found.extend(least);
        }
        if found.is_empty() {
            found.extend(self.raise_together(now, index, queue, &flavors));
        }
        found
    }

    /// Flavors whose quota is short, with what members were told to cost. Where none is, and heads
    /// keep back what is there or have their start reserved, those that it would get.
    fn flavors_to_raise(&mut self, now: Time, index: WorkloadIdx) -> Vec<(FlavorIdx, i64)> {
        let choice = self.nominate_afresh(index).choice;
        let mut flavors: Vec<(FlavorIdx, i64)> = match &choice.reason {
            Some(Reason::Flavors { tried, .. }) => {
                let short = tried.iter().filter(|refusal| {
                    let why = &refusal.why;
                    matches!(why, FlavorProblem::Short { .. } | FlavorProblem::ExceedsMax { .. })
                });
                let of_flavor = |refusal: &FlavorRefusal| {
                    Some((self.state.quota.find_flavor(&refusal.flavor)?, money_told(refusal)))
                };
                short.filter_map(of_flavor).collect()
            }
            Some(_) => Vec::new(),
            // It only has to wait for its turn.
            None if self.start(now, index).is_some_and(|start| start.unless.is_none()) => {
                Vec::new()
            }
            None => {
                let taken = choice.usage.iter().map(|(fr, _)| (self.state.quota.fr(*fr).0, 0));
                let mut taken: Vec<(FlavorIdx, i64)> = taken.collect();
                taken.sort_unstable();
                taken.dedup();
                taken
            }
        };
        flavors.truncate(FLAVORS_MAX);
        flavors
    }

    /// Raises for what is asked.
    pub(super) fn raise_for(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        queue: QueueIdx,
        (asked, (how, sure)): (&[(FrIdx, i64)], (Raise, bool)),
    ) -> Option<Remedy> {
        let node = self.state.quota.queue(queue).node?;
        let tree = self.state.quota.tree.clone();
        let left: Left = if let Raise::Until(left) = how { left } else { QuotaTree::left };
        let least = self.short_by(node, asked, left);
        // What victims free need not be raised, too.
        let ever = self.short_by(node, asked, QuotaTree::potential);
        let mut raised = match how {
            Raise::Beside => self.short_beside(index, node, asked),
            _ => least.clone(),
        };
        for (by, (fr, asked)) in raised.iter_mut().zip(asked) {
            let (used, owned) = (tree.usage(node, *fr), tree.owned(node, *fr));
            let within = asked.saturating_add(used).saturating_sub(owned);
            *by = match how {
                Raise::Until(_) | Raise::Beside => *by,
                Raise::Wholly => (*by).max(*asked),
                Raise::Within => (*by).max(within),
                Raise::Owning { used: true } => within.max(0),
                Raise::Owning { used: false } => asked.saturating_sub(owned).max(0),
            };
        }
        let tried = Raised { node, asked, tree: &tree, sure };
        let any = raised.iter().any(|by| *by > 0);
        let mut start = any.then(|| self.start_raised(now, index, &tried, &raised)).flatten();
        if let Some(start) = &mut start {
            let floors = if start.victims.is_empty() { least } else { ever };
            for (at, floor) in floors.into_iter().enumerate() {
                self.lessen(now, index, &tried, (&mut raised, at, floor), start);
            }
        }
        self.state.quota.replace_tree(tree);
        let start = start?;
        let quota = &self.state.quota;
        let named = |((fr, _), by): (&(FrIdx, i64), i64)| {
            let (flavor, resource) = quota.fr(*fr);
            let resource = self.state.room.resources.name(resource).clone();
            (quota.flavor_name(flavor).clone(), resource, by)
        };
        let by = asked.iter().zip(raised).filter(|(_, by)| *by > 0);
        let mut by: Vec<(Text, Text, i64)> = by.map(named).collect();
        devices_first(&mut by);
        let (flavor, resource, first) = by.remove(0);
        let (with, beside): (Vec<_>, Vec<_>) = by.into_iter().partition(|(of, ..)| *of == flavor);
        Some(start.by(Change::RaiseQuota {
            cluster_queue: quota.queue(queue).name.clone(),
            flavor,
            resource,
            by: first,
            with: with.into_iter().map(|(_, resource, by)| (resource, by)).collect(),
            beside,
        }))
    }

    /// How much is missing of each of what is asked until so much is `left`.
    fn short_by(&self, node: QuotaIdx, asked: &[(FrIdx, i64)], left: Left) -> Vec<i64> {
        let mut tree = self.state.quota.tree.clone();
        let mut raised: Vec<i64> = vec![0; asked.len()];
        for _ in 0..TOP_UPS_MAX {
            for ((fr, amount), by) in asked.iter().zip(&mut raised) {
                let short = amount.saturating_sub(left(&tree, node, *fr)).max(0);
                *by = by.saturating_add(short);
                tree = tree.raised(node, *fr, short);
            }
        }
        raised
    }

    /// How much is missing of each of what is asked beside what heads keep back.
    fn short_beside(
        &mut self,
        index: WorkloadIdx,
        node: QuotaIdx,
        asked: &[(FrIdx, i64)],
    ) -> Vec<i64> {
        let kept = self.kept_by_others(index);
        let held = self.state.hold_instead(kept);
        let short = self.short_by(node, asked, QuotaTree::left);
        self.state.hold_again(held);
        short
    }

    /// A start with so much more quota; the tree is left raised.
    fn start_raised(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        of: &Raised<'_>,
        by: &[i64],
    ) -> Option<Start> {
        let amounts = of.asked.iter().zip(by).filter(|(_, by)| **by > 0);
        let raise =
            |tree: QuotaTree, ((fr, _), by): (&(FrIdx, i64), &i64)| tree.raised(of.node, *fr, *by);
        let tree = amounts.fold(of.tree.clone(), raise);
        self.state.quota.replace_tree(tree);
        self.start(now, index).filter(|start| !of.sure || start.unless.is_none())
    }

    /// The smallest raise of one resource with which it starts, no less than the `floor`.
    fn lessen(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        of: &Raised<'_>,
        (raised, at, floor): (&mut [i64], usize, i64),
        start: &mut Start,
    ) {
        let (most, (fr, asked)) = (raised[at], of.asked[at]);
        if floor >= most {
            return;
        }
        let mut tried = |engine: &mut Engine, by: i64| {
            raised[at] = by;
            let any = raised.iter().any(|by| *by > 0);
            any.then(|| engine.start_raised(now, index, of, raised)).flatten()
        };
        let found = match tried(self, floor) {
            Some(found) => Some((floor, found)),
            None => {
                let units = self.units_of(fr, asked);
                least(self, (floor, most), units, &mut tried)
            }
        };
        raised[at] = most;
        if let Some((by, found)) = found {
            (raised[at], *start) = (by, found);
        }
    }

    /// The mildest preemption that its ClusterQueue could allow and that would start it.
    pub(super) fn more_preemption(&mut self, now: Time, index: WorkloadIdx) -> Option<Remedy> {
        let QueueRef::Queue(queue) = self.state.workloads[index].queue else { return None };
        let facts = self.state.quota.queue(queue).facts.clone()?;
        for (field, value, preemption) in milder_first(facts.preemption) {
            let mut edited = (*facts).clone();
            edited.preemption = preemption;
            self.state.quota.queue_mut(queue).facts = Some(Arc::new(edited));
            let start = self.start(now, index);
            self.state.quota.queue_mut(queue).facts = Some(facts.clone());
            if let Some(start) = start {
                let victims = start.victim_names();
                let cluster_queue = facts.name.clone();
                return Some(start.by(Change::AllowPreemption {
                    cluster_queue,
                    field,
                    value,
                    victims,
                }));
            }
        }
        None
    }
}

/// How quotas are raised first, and for what: for the least that members can cost, where others may
/// be preempted who hold the cheapest nodes, and for what they cost now.
pub(super) fn in_turn<'a, T: PartialEq>(least: &'a T, now: &'a T) -> Vec<(Raise, &'a T)> {
    let [ever, all] = [Raise::Until(QuotaTree::potential), Raise::Until(QuotaTree::left)];
    let less = (least != now).then_some(least);
    let first = less.map(|least| (ever, least)).into_iter();
    let last = less.map(|least| (all, least));
    first.chain([(ever, now), (all, now)]).chain(last).collect()
}

/// Devices are what people wait for: they are named before CPU and memory.
fn devices_first(amounts: &mut [(Text, Text, i64)]) {
    amounts.sort_by_key(|(_, resource, _)| !resource.contains('/'));
}

/// Every single field of a preemption policy that could be widened.
fn milder_first(
    policy: PreemptionPolicy,
) -> impl Iterator<Item = (&'static str, &'static str, PreemptionPolicy)> {
    let within = (policy.within_cluster_queue == PreemptWithin::Never).then_some((
        "withinClusterQueue",
        "LowerPriority",
        PreemptionPolicy { within_cluster_queue: PreemptWithin::LowerPriority, ..policy },
    ));
    let lower = (policy.reclaim == PreemptReclaim::Never).then_some((
        "reclaimWithinCohort",
        "LowerPriority",
        PreemptionPolicy { reclaim: PreemptReclaim::LowerPriority, ..policy },
    ));
    let any = (policy.reclaim != PreemptReclaim::Any).then_some((
        "reclaimWithinCohort",
        "Any",
        PreemptionPolicy { reclaim: PreemptReclaim::Any, ..policy },
    ));
    let threshold = Some(BorrowThreshold { max_priority: None });
    let reclaims = policy.reclaim != PreemptReclaim::Never;
    let borrowing = (policy.while_borrowing.is_none() && reclaims).then_some((
        "borrowWithinCohort.policy",
        "LowerPriority",
        PreemptionPolicy { while_borrowing: threshold, ..policy },
    ));
    [within, lower, any, borrowing].into_iter().flatten()
}
