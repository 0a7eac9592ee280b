//! Who of a ClusterQueue's LocalQueues goes first, where that is by what they used of late
//! ([`crate::quota::history`]): when usage is looked at, and what each admission adds.
//!
//! A queue's ranks are reckoned anew when any of its LocalQueues was looked at, or had work
//! admitted, or work of it ended; between that, order within a queue costs one look-up for each
//! group that waits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::{LocalQueueFacts, Text};
use crate::policy::UsageSharing;
use crate::quota::history::{Amounts, QueueName, Usage, name_of as name};
use crate::resources;
use crate::time::Time;

/// When usage is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Next.
    due: Option<Time>,
    /// At once: queues, or what is known of them, changed.
    stale: bool,
    /// Queues that are ordered by usage, each with its LocalQueues; found anew when any changes.
    queues: BTreeMap<QueueIdx, Arc<[Arc<LocalQueueFacts>]>>,
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
    /// What a LocalQueue of this queue used of late, if that decides who goes first.
    pub(super) fn consumed(
        &self,
        queue: QueueIdx,
        facts: &LocalQueueFacts,
    ) -> Option<(BTreeMap<Text, i64>, Time)> {
        self.state.by_usage(queue)?;
        let (amounts, at) = self.state.history.consumed(&name(facts))?;
        let resources = &self.state.room.resources;
        let named = amounts.into_iter().map(|(of, amount)| (resources.name(of).clone(), amount));
        Some((named.collect(), at))
    }

    /// By which number a LocalQueue of this queue goes first, if that decides.
    pub(super) fn usage_of(&self, queue: QueueIdx, facts: &LocalQueueFacts) -> Option<i64> {
        let sharing = self.state.by_usage(queue)?;
        Some(self.state.shown_use((self.state.now, sharing), facts))
    }

    /// The LocalQueue that a workload is ranked by, if it is.
    pub(super) fn ranked_by(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> Option<QueueName> {
        self.state.by_usage(queue?)?;
        self.local_queue_facts(workload).map(|facts| name(facts))
    }

    /// How a queue orders what waits in it when it takes its head: whose LocalQueue used less goes
    /// first, where that decides; else, and without a queue, whoever stands first.
    pub(crate) fn head_order(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> (usize, (Reverse<i32>, Time, &Text)) {
        let place = || {
            let local = self.ranked_by(queue, workload)?;
            self.waiting.ranks.get(&queue?)?.get(&local).copied()
        };
        (place().unwrap_or(0), self.state.queue_order(workload))
    }

    fn local_queue_facts(&self, workload: WorkloadIdx) -> Option<&Arc<LocalQueueFacts>> {
        let entry = &self.state.workloads[workload];
        self.state.facts.local_queue(&entry.id.namespace, entry.wishes.queue.as_ref())
    }

    fn find_ranked_queues(&mut self) {
        let mut queues: BTreeMap<QueueIdx, Vec<Arc<LocalQueueFacts>>> = BTreeMap::new();
        for facts in self.state.facts.local_queues.values() {
            let queue = self.state.quota.find_queue(&facts.cluster_queue);
            if let Some(queue) = queue.filter(|queue| self.state.by_usage(*queue).is_some()) {
                queues.entry(queue).or_default().push(facts.clone());
            }
        }
        let shared = |(queue, all): (QueueIdx, Vec<Arc<LocalQueueFacts>>)| (queue, all.into());
        self.looks.queues = queues.into_iter().map(shared).collect();
    }

    /// Looks at usage where it is time, and ranks anew; the next time is an interval later while
    /// work runs, or what was used decays.
    pub(super) fn look_at_usage(&mut self, now: Time) {
        let stale = std::mem::take(&mut self.looks.stale);
        if !stale && self.looks.due.is_none_or(|due| due > now) {
            return;
        }
        self.looks.due = None;
        let policy = self.state.policy.clone();
        let Some(sharing) = &policy.usage_sharing else {
            self.looks = Looks::default();
            return self.waiting.rank(BTreeMap::new());
        };
        if stale {
            self.find_ranked_queues();
        }
        let mut ranks = BTreeMap::new();
        for (queue, local_queues) in self.looks.queues.clone() {
            let names: Vec<QueueName> = local_queues.iter().map(|facts| name(facts)).collect();
            let history = &self.state.history;
            let passed = |at: Time| at.plus(sharing.interval) <= now;
            let due = names.iter().filter_map(|name| history.looked_at(name)).any(passed);
            if due || names.iter().any(|name| !history.seen(name)) {
                self.looks.counted.retain(|_, (of, _)| !names.contains(of));
                let (uses, none) = (self.uses(queue), Amounts::new());
                for name in &names {
                    let uses = uses.get(name).unwrap_or(&none);
                    self.state.history.look(now, sharing, name, (uses, due));
                }
            }
            let runs = !self.state.quota.queue(queue).holding.is_empty();
            let history = &self.state.history;
            let moving = names.iter().filter(|name| runs || history.moves(name));
            let next = moving.filter_map(|name| history.looked_at(name));
            let next = next.map(|at| at.plus(sharing.interval));
            self.looks.due = next.chain(self.looks.due).min();
            ranks.insert(queue, self.ranks(now, sharing, &local_queues));
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
        for (_, fr, amount) in state.placed(workload).flat_map(|pod| state.charges_of(pod)) {
            resources::add(amounts.entry(state.quota.fr(fr).1).or_default(), amount);
        }
        amounts
    }

    /// Work was admitted: it counts for its LocalQueue at once.
    pub(crate) fn count_admission(&mut self, now: Time, workload: WorkloadIdx) {
        let queue = self.state.workloads[workload].assignment.as_ref().and_then(|held| held.queue);
        let by_usage = |queue: &QueueIdx| self.state.by_usage(*queue).is_some();
        let Some(queue) = queue.filter(by_usage) else { return };
        let policy = self.state.policy.clone();
        let facts = self.local_queue_facts(workload);
        let (Some(sharing), Some(facts)) = (&policy.usage_sharing, facts) else { return };
        let (name, asks) = (name(facts), self.held_by(workload));
        self.state.history.admitted(now, sharing, &name, &asks);
        self.looks.counted.insert(workload, (name, asks));
        self.looks.due.get_or_insert(now.plus(sharing.interval));
        self.rank_anew(now, queue, sharing);
    }

    /// A workload changed, or is gone: if it holds nothing any more, it counts no longer.
    pub(super) fn count_end(&mut self, now: Time, workload: WorkloadIdx) {
        let entry = self.state.workloads.get(workload);
        if self.looks.counted.is_empty() || entry.is_some_and(|entry| entry.assignment.is_some()) {
            return;
        }
        let Some((name, used)) = self.looks.counted.remove(&workload) else { return };
        let policy = self.state.policy.clone();
        let Some(sharing) = &policy.usage_sharing else { return };
        self.state.history.ended(now, sharing, &name, &used);
        let facts = self.state.facts.local_queues.get(&name);
        let queue = facts.and_then(|facts| self.state.quota.find_queue(&facts.cluster_queue));
        if let Some(queue) = queue {
            self.rank_anew(now, queue, sharing);
        }
    }

    fn rank_anew(&mut self, now: Time, queue: QueueIdx, sharing: &UsageSharing) {
        let Some(local_queues) = self.looks.queues.get(&queue) else { return };
        let ranks = self.ranks(now, sharing, local_queues);
        self.waiting.rank_queue(queue, ranks);
    }

    /// Compares what counts for each LocalQueue with the work that it is made of.
    ///
    /// # Panics
    /// When they differ.
    pub(super) fn recount_usage(&self) {
        let mut counted: BTreeMap<&QueueName, Amounts> = BTreeMap::new();
        for (name, amounts) in self.looks.counted.values() {
            add(counted.entry(name).or_default(), amounts);
        }
        for facts in self.looks.queues.values().flat_map(|all| all.iter()) {
            let name = name(facts);
            let of_it = counted.remove(&name).unwrap_or_default();
            self.state.history.recount(&name, &of_it);
        }
    }

    /// Places of LocalQueues, those that used least first; who used the same shares a place.
    fn ranks(
        &self,
        now: Time,
        sharing: &UsageSharing,
        local_queues: &[Arc<LocalQueueFacts>],
    ) -> BTreeMap<QueueName, usize> {
        let how = (now, sharing);
        let usage = |facts: &Arc<LocalQueueFacts>| self.state.used_of_late(how, facts);
        let used: Vec<(Usage, QueueName)> =
            local_queues.iter().map(|facts| (usage(facts), name(facts))).collect();
        let mut places: Vec<Usage> = used.iter().map(|(usage, _)| *usage).collect();
        places.sort_unstable();
        places.dedup();
        let place = |usage: &Usage| places.partition_point(|other| other < usage);
        used.into_iter().map(|(usage, name)| (name, place(&usage))).collect()
    }
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let known = sum.entry(*resource).or_default();
        *known = known.saturating_add(*amount);
    }
}
