//! Who of a ClusterQueue's LocalQueues goes first, where that is by what they used of late
//! ([`crate::quota::history`]): when usage is looked at, and what each admission adds.
//!
//! A queue's ranks are reckoned anew when any of its LocalQueues was looked at, or had work
//! admitted, or work of it ended; between that, order within a queue costs one look-up for each
//! group that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::{LocalQueueFacts, Text};
use crate::policy::UsageSharing;
use crate::quota::history::{Amounts, QueueName, Usage};
use crate::time::Time;

/// When usage is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Next.
    due: Option<Time>,
    /// At once: queues, or what is known of them, changed.
    stale: bool,
    /// Work that counts: for which LocalQueue, and how much.
    counted: BTreeMap<WorkloadIdx, (QueueName, Amounts)>,
}

impl Looks {
    /// When time alone will change something.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Queues changed.
    pub fn anew(&mut self) {
        self.stale = true;
    }
}

impl Engine {
    /// Whether a ClusterQueue orders its work by what its LocalQueues used.
    fn by_usage(&self, queue: QueueIdx) -> Option<UsageSharing> {
        let facts = self.state.quota.queue(queue).facts.as_ref()?;
        self.state.policy.usage_sharing.clone().filter(|_| facts.usage_based)
    }

    /// What a LocalQueue of this queue used of late, if that decides who goes first.
    pub(super) fn consumed(
        &self,
        queue: QueueIdx,
        facts: &LocalQueueFacts,
    ) -> Option<(BTreeMap<Text, i64>, Time)> {
        self.by_usage(queue)?;
        let (amounts, at) = self.state.history.consumed(&name(facts))?;
        let resources = &self.state.room.resources;
        let named = amounts.into_iter().map(|(of, amount)| (resources.name(of).clone(), amount));
        Some((named.collect(), at))
    }

    /// The LocalQueue that a workload is ranked by, if it is.
    pub(super) fn ranked_by(&self, queue: Option<QueueIdx>, workload: WorkloadIdx) -> Option<Text> {
        self.by_usage(queue?)?;
        self.local_queue_facts(workload).map(|facts| full_name(facts))
    }

    fn local_queue_facts(&self, workload: WorkloadIdx) -> Option<&Arc<LocalQueueFacts>> {
        let entry = &self.state.workloads[workload];
        self.state.facts.local_queue(&entry.id.namespace, entry.wishes.queue.as_ref())
    }

    /// Queues that are ordered so, each with its LocalQueues.
    fn ranked_queues(&self) -> BTreeMap<QueueIdx, Vec<Arc<LocalQueueFacts>>> {
        let mut queues: BTreeMap<QueueIdx, Vec<Arc<LocalQueueFacts>>> = BTreeMap::new();
        if self.state.policy.usage_sharing.is_none() {
            return queues;
        }
        for facts in self.state.facts.local_queues.values() {
            let queue = self.state.quota.find_queue(&facts.cluster_queue);
            if let Some(queue) = queue.filter(|queue| self.by_usage(*queue).is_some()) {
                queues.entry(queue).or_default().push(facts.clone());
            }
        }
        queues
    }

    /// Looks at usage where it is time, and ranks anew; the next time is an interval later while
    /// work runs, or what was used decays.
    pub(super) fn look_at_usage(&mut self, now: Time) {
        let stale = std::mem::take(&mut self.looks.stale);
        if !stale && self.looks.due.is_none_or(|due| due > now) {
            return;
        }
        self.looks.due = None;
        let Some(sharing) = self.state.policy.usage_sharing.clone() else {
            self.looks.counted.clear();
            return self.waiting.rank(BTreeMap::new());
        };
        let mut ranks = BTreeMap::new();
        for (queue, local_queues) in self.ranked_queues() {
            let names: Vec<QueueName> = local_queues.iter().map(|facts| name(facts)).collect();
            let history = &self.state.history;
            let passed = |at: Time| at.plus(sharing.interval) <= now;
            let due = names.iter().filter_map(|name| history.looked_at(name)).any(passed);
            if due || names.iter().any(|name| !history.seen(name)) {
                let (uses, none) = (self.uses(queue), Amounts::new());
                for name in &names {
                    let uses = uses.get(name).unwrap_or(&none);
                    self.state.history.look(now, &sharing, name, (uses, due));
                }
            }
            let runs = !self.state.quota.queue(queue).holding.is_empty();
            let history = &self.state.history;
            let moving = names.iter().filter(|name| runs || history.moves(name));
            let next = moving.filter_map(|name| history.looked_at(name));
            let next = next.map(|at| at.plus(sharing.interval));
            self.looks.due = next.chain(self.looks.due).min();
            ranks.insert(queue, self.ranks(now, &sharing, &local_queues));
        }
        self.waiting.rank(ranks);
    }

    /// What the work that a queue holds uses, by LocalQueue; all of it counts from now on.
    fn uses(&mut self, queue: QueueIdx) -> BTreeMap<QueueName, Amounts> {
        let mut uses: BTreeMap<QueueName, Amounts> = BTreeMap::new();
        for workload in self.state.quota.queue(queue).holding.clone() {
            if let Some(name) = self.local_queue_facts(workload).map(|facts| name(facts)) {
                let held = self.held_by(workload);
                add(uses.entry(name.clone()).or_default(), &held);
                self.looks.counted.insert(workload, (name, held));
            }
        }
        uses
    }

    /// What the placed members of a workload are charged, over all flavors.
    fn held_by(&self, workload: WorkloadIdx) -> Amounts {
        let state = &self.state;
        let mut amounts = Amounts::new();
        let Some(assignment) = &state.workloads[workload].assignment else { return amounts };
        for pod in state.placed(workload) {
            let charge = assignment.set(state.pods[pod].shape).map(|set| &set.charge);
            for &(fr, amount) in charge.into_iter().flatten() {
                let sum = amounts.entry(state.quota.fr(fr).1).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        amounts
    }

    /// Work was admitted: it counts for its LocalQueue at once.
    pub(crate) fn count_admission(&mut self, now: Time, workload: WorkloadIdx) {
        let queue = self.state.workloads[workload].assignment.as_ref().and_then(|held| held.queue);
        let Some((queue, sharing)) = queue.and_then(|queue| Some((queue, self.by_usage(queue)?)))
        else {
            return;
        };
        let Some(name) = self.local_queue_facts(workload).map(|facts| name(facts)) else { return };
        let asks = self.held_by(workload);
        self.state.history.admitted(now, &sharing, &name, &asks);
        self.looks.counted.insert(workload, (name, asks));
        self.looks.due.get_or_insert(now.plus(sharing.interval));
        self.rank_anew(now, queue, &sharing);
    }

    /// A workload changed, or is gone: if it holds nothing any more, it counts no longer.
    pub(super) fn count_end(&mut self, now: Time, workload: WorkloadIdx) {
        let entry = self.state.workloads.get(workload);
        if self.looks.counted.is_empty() || entry.is_some_and(|entry| entry.assignment.is_some()) {
            return;
        }
        let Some((name, used)) = self.looks.counted.remove(&workload) else { return };
        let Some(sharing) = self.state.policy.usage_sharing.clone() else { return };
        self.state.history.ended(now, &sharing, &name, &used);
        let facts = self.state.facts.local_queues.get(&name);
        let queue = facts.and_then(|facts| self.state.quota.find_queue(&facts.cluster_queue));
        if let Some(queue) = queue.filter(|queue| self.by_usage(*queue).is_some()) {
            self.rank_anew(now, queue, &sharing);
        }
    }

    fn rank_anew(&mut self, now: Time, queue: QueueIdx, sharing: &UsageSharing) {
        let local_queues = self.ranked_queues().remove(&queue).unwrap_or_default();
        let ranks = self.ranks(now, sharing, &local_queues);
        self.waiting.rank_queue(queue, ranks);
    }

    /// Places of LocalQueues, those that used least first; who used the same shares a place.
    fn ranks(
        &self,
        now: Time,
        sharing: &UsageSharing,
        local_queues: &[Arc<LocalQueueFacts>],
    ) -> BTreeMap<Text, usize> {
        let state = &self.state;
        let rate = |resource| {
            let name = state.room.resources.name(resource);
            let weight = sharing.weights.get(name).copied().unwrap_or(UsageSharing::UNIT);
            // Amounts of cpu are in thousandths.
            if &**name == "cpu" { weight / 1_000 } else { weight }
        };
        let usage = |facts: &Arc<LocalQueueFacts>| {
            state.history.usage((now, sharing), &name(facts), facts.weight, rate)
        };
        let used: Vec<(Usage, Text)> =
            local_queues.iter().map(|facts| (usage(facts), full_name(facts))).collect();
        let places: BTreeSet<Usage> = used.iter().map(|(usage, _)| *usage).collect();
        let place = |usage: &Usage| places.range(..*usage).count();
        used.iter().map(|(usage, name)| (name.clone(), place(usage))).collect()
    }
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let known = sum.entry(*resource).or_default();
        *known = known.saturating_add(*amount);
    }
}

fn name(facts: &LocalQueueFacts) -> QueueName {
    (facts.namespace.clone(), facts.name.clone())
}

fn full_name(facts: &LocalQueueFacts) -> Text {
    format!("{}/{}", facts.namespace, facts.name).into()
}
