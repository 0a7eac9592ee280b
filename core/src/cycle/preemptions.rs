//! What is told of preemptions: what each victim held, what of it was borrowed, what is lost.

use std::collections::BTreeMap;

use capstan_topology::ResourceIdx;

use crate::engine::Engine;
use crate::explain::quantity::USD_PER_HOUR;
use crate::model::ids::{FrIdx, QueueIdx, WorkloadIdx};
use crate::plan::{Freed, Preemption, PreemptionReason};
use crate::resources;
use crate::time::Time;
use crate::victims::Victim;

/// What queues borrow beyond what was told of victims so far.
type Borrowed = BTreeMap<(QueueIdx, FrIdx), i64>;

/// Whether it is not for work of its own queue that one leaves.
pub(super) fn is_elsewhere(reason: PreemptionReason) -> bool {
    !matches!(reason, PreemptionReason::InClusterQueue | PreemptionReason::Priority)
}

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
            frees.push(Freed {
                resource: state.room.resources.name(resource).clone(),
                amount,
                borrowed,
            });
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
