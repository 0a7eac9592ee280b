//! Who of a ClusterQueue's LocalQueues goes first, where that is by what they used of late
//! ([`crate::quota::history`]): when usage is looked at, and what each admission adds.
//!
//! A queue's ranks are reckoned anew when any of its LocalQueues was looked at or had work
//! admitted; between that, order within a queue costs one look-up for each group that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::{LocalQueueFacts, Text};
use crate::policy::UsageSharing;
use crate::quota::history::{Amounts, QueueName, Usage};
use crate::time::{Span, Time};

/// After work has ended usage is looked at anew, at most so often in an interval.
const PARTS: i64 = 10;

/// When usage is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Next.
    due: Option<Time>,
    /// At once: queues, or what is known of them, changed.
    stale: bool,
    /// Queues of which work has ended since.
    left: BTreeSet<QueueIdx>,
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

    /// Work of these queues has ended.
    pub fn left(&mut self, queues: &BTreeSet<QueueIdx>) {
        self.left.extend(queues);
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
    /// work runs, or what was used decays. Where work has ended it is looked sooner, if that was
    /// not done a moment ago.
    pub(super) fn look_at_usage(&mut self, now: Time) {
        let stale = std::mem::take(&mut self.looks.stale);
        let left = std::mem::take(&mut self.looks.left);
        let due = self.looks.due.is_some_and(|due| due <= now);
        if !stale && !due && left.is_empty() {
            return;
        }
        let Some(sharing) = self.state.policy.usage_sharing.clone() else {
            self.looks.due = None;
            return self.waiting.rank(BTreeMap::new());
        };
        self.looks.due = None;
        let mut ranks = BTreeMap::new();
        for (queue, local_queues) in self.ranked_queues() {
            let names: Vec<QueueName> = local_queues.iter().map(|facts| name(facts)).collect();
            let history = &self.state.history;
            let passed = |at: Option<Time>, span: Span| at.is_none_or(|at| at.plus(span) <= now);
            let due = names.iter().any(|name| passed(history.looked_at(name), sharing.interval));
            let moment = Span(sharing.interval.0 / PARTS);
            let soon = names.iter().all(|name| passed(history.reckoned_at(name), moment));
            let ended = left.contains(&queue);
            if due || ended && soon {
                self.look_at(now, &sharing, (queue, &names), due);
            } else if ended {
                self.looks.left.insert(queue);
                self.looks.due = Some(now.plus(moment)).into_iter().chain(self.looks.due).min();
            }
            let runs = !self.state.quota.queue(queue).holding.is_empty();
            let history = &self.state.history;
            let moving = names.iter().filter(|name| runs || history.moves(name));
            let next = moving.filter_map(|name| history.looked_at(name));
            let next = next.map(|at| at.plus(sharing.interval));
            self.looks.due = next.chain(self.looks.due).min();
            ranks.insert(queue, self.ranks(&sharing, &local_queues));
        }
        self.waiting.rank(ranks);
    }

    fn look_at(
        &mut self,
        now: Time,
        sharing: &UsageSharing,
        (queue, names): (QueueIdx, &[QueueName]),
        due: bool,
    ) {
        let (uses, none) = (self.uses(queue), Amounts::new());
        for name in names {
            let uses = uses.get(name).unwrap_or(&none);
            self.state.history.look(now, sharing, name, (uses, due));
        }
    }

    /// What the work that a queue holds uses, by LocalQueue.
    fn uses(&self, queue: QueueIdx) -> BTreeMap<QueueName, Amounts> {
        let mut uses: BTreeMap<QueueName, Amounts> = BTreeMap::new();
        for &workload in &self.state.quota.queue(queue).holding {
            if let Some(facts) = self.local_queue_facts(workload) {
                add(uses.entry(name(facts)).or_default(), &self.held_by(workload));
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
        let local_queues = self.ranked_queues().remove(&queue).unwrap_or_default();
        let ranks = self.ranks(&sharing, &local_queues);
        self.waiting.rank_queue(queue, ranks);
        self.looks.due.get_or_insert(now.plus(sharing.interval));
    }

    /// Places of LocalQueues, those that used least first; who used the same shares a place.
    fn ranks(
        &self,
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
        let usage =
            |facts: &Arc<LocalQueueFacts>| state.history.usage(&name(facts), facts.weight, rate);
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
