//! What is told of preemptions: what each victim held, what of it was borrowed, what is lost; and
//! where it is not what one holds that is needed, which rule lets nobody in beside it. And whether
//! they let their preemptor borrow, which is noted so that no round goes on for ever.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::engine::Engine;
use crate::explain::quantity::USD_PER_HOUR;
use crate::explain::reason::NodeRefusal;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;
use crate::plan::{Bars, Freed, Preemption, PreemptionReason};
use crate::resources;
use crate::rules;
use crate::time::Time;
use crate::victims::Victim;

/// Victims of one preemptor of which it is looked at what rule they are in the way by, at most, and
/// its members that are looked at for that: both are read by people.
const LOOKS_MAX: usize = 16;

/// What queues borrow beyond what was told of victims so far.
type Borrowed = BTreeMap<(QueueIdx, FrIdx), i64>;

/// Whether it is not for work of its own queue that one leaves.
pub(super) fn is_elsewhere(reason: PreemptionReason) -> bool {
    !matches!(reason, PreemptionReason::InClusterQueue | PreemptionReason::Priority)
}

/// Quota that a preemptor asks, and where its members go.
type Needs<'a> = (&'a [(FrIdx, i64)], &'a [(PodIdx, NodeIdx)]);

impl Engine {
    /// What stopping these for a preemptor is, with its cost, for effects and reports. They are
    /// told of in order: what one gives back is not borrowed by the next.
    pub(crate) fn preemptions(
        &self,
        now: Time,
        preemptor: WorkloadIdx,
        victims: &[Victim],
        usage: &[(FrIdx, i64)],
    ) -> Vec<Preemption> {
        let wanted: Vec<_> = usage.iter().map(|(fr, _)| self.state.quota.fr(*fr).1).collect();
        let mut borrowed = Borrowed::new();
        let told = victims.iter().map(|victim| {
            let reclaimed = is_elsewhere(victim.reason) && victim.reason.for_another();
            let given_back = match reclaimed {
                true => self.given_back(victim.workload, &mut borrowed),
                false => BTreeMap::new(),
            };
            self.preemption(now, preemptor, victim, &wanted, &given_back)
        });
        told.collect()
    }

    /// The same, where members of the preemptor go to these places once the victims have left.
    pub(super) fn preemptions_for(
        &mut self,
        now: Time,
        preemptor: WorkloadIdx,
        victims: &[Victim],
        (usage, places): Needs<'_>,
    ) -> Vec<Preemption> {
        let mut told = self.preemptions(now, preemptor, victims, usage);
        let bare =
            |told: &Preemption| told.reason == PreemptionReason::Priority && told.bars.is_none();
        if victims.len() > LOOKS_MAX || !told.iter().any(bare) {
            return told;
        }
        let short = self.short_of_amounts(places);
        let is_short = |node: NodeIdx| short.contains(&node);
        for (at, told) in told.iter_mut().enumerate().filter(|(_, told)| bare(told)) {
            let (state, victim) = (&self.state, victims[at].workload);
            let stands = |pod: PodIdx| state.pods[pod].place.is_some_and(is_short);
            if !state.placed(victim).any(stands) {
                told.bars = self.barred(victims, at, places).map(Box::new);
            }
        }
        told
    }

    /// Notes that a preemptor stops these, if it does so to borrow, which a rest forbids
    /// (`victims/turns.rs`): its queue will hold more than it owns of something that it asks.
    pub(super) fn note_taking(
        &mut self,
        now: Time,
        preemptor: WorkloadIdx,
        victims: &[Victim],
        usage: &[(FrIdx, i64)],
    ) {
        let state = &self.state;
        let QueueRef::Queue(queue) = state.workloads[preemptor].queue else { return };
        let Some(node) = state.quota.queue(queue).node else { return };
        let name = &state.workloads[preemptor].full_name;
        let rests = state.turns.spent(name, now).is_some();
        if rests || victims.iter().all(|victim| state.leaving(victim.workload)) {
            return;
        }
        let mut more: BTreeMap<FrIdx, i64> = usage.iter().copied().collect();
        for victim in victims {
            let charges = state.placed(victim.workload).flat_map(|pod| state.charges_of(pod));
            for (of, fr, amount) in charges.chain(state.kept_for(victim.workload).iter().copied()) {
                if let Some(more) = more.get_mut(&fr).filter(|_| of == queue) {
                    *more = more.saturating_sub(amount);
                }
            }
        }
        // How much money it will be is known once its members have places.
        let borrows = |(fr, more): (&FrIdx, &i64)| {
            state.quota.is_money(*fr) || state.quota.tree.borrows(node, *fr, *more)
        };
        if more.iter().any(borrows) {
            let name = name.clone();
            self.state.turns.takes(&name, now);
        }
    }

    /// Nodes where members with these places find too little free; how many pods there are is no
    /// amount.
    fn short_of_amounts(&self, places: &[(PodIdx, NodeIdx)]) -> BTreeSet<NodeIdx> {
        let room = &self.state.room;
        let mut asked: BTreeMap<(NodeIdx, ResourceIdx), i64> = BTreeMap::new();
        for &(pod, node) in places {
            let shape = room.shape(self.state.pods[pod].shape);
            let request = room.ledger.request(shape.request).entries().iter();
            for &(resource, amount) in request.filter(|(of, _)| *of != resources::PODS) {
                resources::add(asked.entry((node, resource)).or_default(), amount);
            }
        }
        let short = asked
            .into_iter()
            .filter(|((node, resource), amount)| room.ledger.free(*node, *resource) < *amount);
        short.map(|((node, _), _)| node).collect()
    }

    /// What keeps a preemptor from its places while one victim runs and the others have left;
    /// `None`: amounts, or nothing by itself.
    fn barred(
        &mut self,
        victims: &[Victim],
        at: usize,
        places: &[(PodIdx, NodeIdx)],
    ) -> Option<Bars> {
        let profile = self.profile(None);
        let mut txn = Txn::begin(&mut self.state);
        for (_, other) in victims.iter().enumerate().filter(|(other, _)| *other != at) {
            txn.remove_workload(other.workload);
        }
        let mut refusals = Vec::new();
        for &(pod, node) in places.iter().take(LOOKS_MAX) {
            let shape = txn.state().pods[pod].shape;
            // That its facts admit the pod is known: it goes there.
            let class = txn.class(shape, &[], profile);
            txn.fresh(class);
            let state = txn.state();
            let question = state.classes.class(class).question(&state.room, node);
            rules::refusals(&question, true, &mut refusals);
            match refusals.drain(..).next() {
                None => {}
                Some(NodeRefusal::Insufficient { .. }) => return None,
                Some(by) => return Some(Bars { node: state.room.node(node).name.clone(), by }),
            }
        }
        None
    }

    fn preemption(
        &self,
        now: Time,
        preemptor: WorkloadIdx,
        victim: &Victim,
        wanted: &[ResourceIdx],
        given_back: &BTreeMap<ResourceIdx, i64>,
    ) -> Preemption {
        let state = &self.state;
        let (gone, gains) = (&state.workloads[victim.workload], &state.workloads[preemptor]);
        if let Some(marked) = &gone.evicting {
            return Preemption { preemptor: gains.full_name.clone(), ..(**marked).clone() };
        }
        // How many pods there are says little, unless they alone are taken back.
        let only_pods = given_back.keys().eq([&resources::PODS]);
        let mut held: BTreeMap<ResourceIdx, i64> = BTreeMap::new();
        let mut since: Option<Time> = None;
        for index in state.placed(victim.workload) {
            let pod = &state.pods[index];
            since = since.into_iter().chain(pod.bound_at).min();
            let holds = state.room.ledger.request(pod.holds);
            let concerned = |of: &ResourceIdx| {
                let told = *of != resources::PODS || only_pods;
                told && (wanted.contains(of) || given_back.contains_key(of))
            };
            // What something counts as is told beside what is held; only quota knows it.
            let counted = state.room.counted(pod.shape).entries().iter();
            let counted = counted.filter(|(of, _)| holds.get(*of) == 0 && concerned(of));
            let all = wanted.is_empty();
            let named = |of: &ResourceIdx| concerned(of) || (all && *of != resources::PODS);
            let holds = holds.entries().iter().filter(|(of, _)| named(of));
            for &(resource, amount) in holds.chain(counted) {
                resources::add(held.entry(resource).or_default(), amount);
            }
            if concerned(&resources::USD) {
                resources::add(held.entry(resources::USD).or_default(), state.bills.amount(index));
            }
        }
        let mut frees: Vec<Freed> = Vec::new();
        for (resource, amount) in held {
            let borrowed = given_back.get(&resource).map_or(0, |borrowed| amount.min(*borrowed));
            let resource = state.room.resources.name(resource).clone();
            frees.push(Freed { resource, amount, borrowed });
        }
        let money = |freed: &Freed| &*freed.resource == USD_PER_HOUR;
        frees.sort_by(|one, other| {
            (money(one), &one.resource).cmp(&(money(other), &other.resource))
        });
        let lost = since.map_or_else(Default::default, |since| now.since(since));
        let queue = gone.assignment.as_ref().and_then(|assignment| assignment.queue);
        let facts = queue.and_then(|queue| state.quota.queue(queue).facts.as_ref());
        let elsewhere = is_elsewhere(victim.reason);
        let goes_first = |queue: &QueueIdx| elsewhere && state.spending.goes_first(*queue);
        let overspent = queue.filter(goes_first).and_then(|queue| self.spent_budget(queue));
        Preemption {
            victim: gone.full_name.clone(),
            preemptor: gains.full_name.clone(),
            reason: victim.reason,
            victim_priority: gone.priority,
            preemptor_priority: gains.priority,
            frees,
            lost,
            lost_cost: state.spent(victim.workload, now),
            cohort: facts.and_then(|facts| facts.cohort.clone()),
            overspent,
            bars: None,
        }
    }

    /// What a victim's queue borrows of what it charges, beyond what those before it gave back.
    fn given_back(
        &self,
        victim: WorkloadIdx,
        borrowed: &mut Borrowed,
    ) -> BTreeMap<ResourceIdx, i64> {
        let (state, mut given) = (&self.state, BTreeMap::new());
        let mut charged: Borrowed = BTreeMap::new();
        let charges = state.placed(victim).flat_map(|pod| state.charges_of(pod));
        for (queue, fr, amount) in charges.chain(state.kept_for(victim).iter().copied()) {
            resources::add(charged.entry((queue, fr)).or_default(), amount);
        }
        for ((queue, fr), amount) in charged {
            let tree = &state.quota.tree;
            let left = borrowed.entry((queue, fr)).or_insert_with(|| {
                let node = state.quota.queue(queue).node;
                node.map_or(0, |node| tree.usage(node, fr).saturating_sub(tree.nominal(node, fr)))
            });
            let back = amount.min(*left).max(0);
            *left = left.saturating_sub(amount);
            if back > 0 {
                resources::add(given.entry(state.quota.fr(fr).1).or_default(), back);
            }
        }
        given
    }
}
