//! How many of what, by queue: for metrics, counted when somebody looks.
//!
//! Cost: one look at every workload, a little more at those that wait, and one at each cell of the
//! quota tree.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::explain::census::{Census, CohortQuota, CohortTally, Limits, QueueShape, Tally};
use crate::explain::reason::Reason;
use crate::model::ids::{FrIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::plan::State;

/// The word for what nobody has looked at yet.
const UNSEEN: &str = "PendingEvaluation";
/// The word for what holds quota and waits for nodes that are built.
const NODES: &str = "PendingTopology";

impl Engine {
    /// Numbers of now; what work that waits asks only where that is wanted.
    pub fn census(&self, asked: bool) -> Census {
        let mut census = Census { cohorts: self.cohort_tallies(), ..Census::default() };
        census.shapes = self.queue_shapes(&census.cohorts);
        census.queues =
            census.shapes.iter().map(|it| (it.name.clone(), Tally::default())).collect();
        census.queues.insert(Text::from(""), Tally::default());
        for name in self.state.facts.local_queues.keys() {
            census.local_queues.insert(name.clone(), Tally::default());
        }
        for (index, entry) in self.state.workloads.iter() {
            let queue = entry.cluster_queue.map(|queue| &self.state.quota.queue(queue).name);
            let name = queue.cloned().unwrap_or_default();
            // A queue that is gone may still have work.
            self.tally(index, asked, census.queues.entry(name).or_default());
            let named = entry.wishes.queue.as_ref();
            let local = self.state.facts.local_queue(&entry.id.namespace, named);
            let name = local.map(|facts| (facts.namespace.clone(), facts.name.clone()));
            if let Some(tally) = name.and_then(|name| census.local_queues.get_mut(&name)) {
                self.tally(index, false, tally);
            }
        }
        census
    }

    /// Counts one workload.
    fn tally(&self, index: WorkloadIdx, asked: bool, tally: &mut Tally) {
        let entry = &self.state.workloads[index];
        match entry.state {
            _ if entry.pending() && self.state.follows_a_run(index) => {}
            State::Gathering | State::Queued | State::Reserved => {
                *tally.why.entry(self.word_of(index)).or_default() += 1;
                if !entry.competes() {
                    return;
                }
                let looked_at = self.waiting.to_look_at(index).is_some();
                match looked_at || entry.state == State::Reserved {
                    true => tally.active += 1,
                    false => tally.inadmissible += 1,
                }
                if asked {
                    self.add_asked(index, &mut tally.asked);
                }
            }
            State::Provisioning => *tally.why.entry(NODES).or_default() += 1,
            State::Resuming
            | State::Preparing
            | State::Binding
            | State::Running
            | State::Evicting => tally.admitted += 1,
            State::Finished => tally.finished += 1,
        }
    }

    /// Why a workload waits, in one word, without putting words together.
    fn word_of(&self, index: WorkloadIdx) -> &'static str {
        if self.behind_head(index).is_some() {
            return UNSEEN;
        }
        let why = self.waiting.why(index).or(self.state.workloads[index].reason.as_ref());
        why.map_or(UNSEEN, Reason::code)
    }

    /// Adds what a workload asks of what its queue has quota for.
    fn add_asked(&self, index: WorkloadIdx, asked: &mut BTreeMap<Text, i64>) {
        let (room, entry) = (&self.state.room, &self.state.workloads[index]);
        let Some(queue) = entry.cluster_queue.map(|queue| self.state.quota.queue(queue)) else {
            return;
        };
        for set in &entry.sets {
            for (resource, amount) in room.counted(set.shape).entries() {
                if !queue.groups.iter().any(|group| group.covered.contains(resource)) {
                    continue;
                }
                let sum = asked.entry(room.resources.name(*resource).clone()).or_default();
                *sum = sum.saturating_add(amount.saturating_mul(set.count.into()));
            }
        }
    }

    fn cohort_tallies(&self) -> Vec<CohortTally> {
        let quota = &self.state.quota;
        let names: BTreeMap<QuotaIdx, &Text> =
            quota.cohorts().map(|(name, node)| (node, name)).collect();
        let mut found: BTreeMap<QuotaIdx, CohortTally> = BTreeMap::new();
        let mut reserved: BTreeMap<(QuotaIdx, FrIdx), i64> = BTreeMap::new();
        for (name, node) in quota.cohorts() {
            let parent = quota.tree.parent(node).and_then(|parent| names.get(&parent));
            let root = names.get(&quota.tree.root(node)).unwrap_or(&name);
            found.insert(
                node,
                CohortTally {
                    name: name.clone(),
                    parent: parent.map(|parent| Text::clone(parent)),
                    root: Text::clone(root),
                    share: quota.cohort_share(name),
                    admitted: 0,
                    quotas: Vec::new(),
                },
            );
        }
        for (_, queue) in quota.existing() {
            let Some(node) = queue.node else { continue };
            let mut above = quota.tree.parent(node);
            while let Some(cohort) = above {
                if let Some(tally) = found.get_mut(&cohort) {
                    tally.admitted += queue.holding.len() as u32;
                }
                for fr in quota.tree.covered(node) {
                    let sum = reserved.entry((cohort, fr)).or_default();
                    *sum = sum.saturating_add(quota.tree.usage(node, fr));
                }
                above = quota.tree.parent(cohort);
            }
        }
        for (node, tally) in &mut found {
            let line = |fr: FrIdx| {
                let (flavor, resource) = quota.fr(fr);
                CohortQuota {
                    flavor: quota.flavor_name(flavor).clone(),
                    resource: self.state.room.resources.name(resource).clone(),
                    quota: quota.tree.owned(*node, fr),
                    reserved: reserved.get(&(*node, fr)).copied().unwrap_or(0),
                }
            };
            tally.quotas = quota.tree.covered(*node).map(line).collect();
        }
        let mut all: Vec<CohortTally> = found.into_values().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn queue_shapes(&self, cohorts: &[CohortTally]) -> Vec<QueueShape> {
        let quota = &self.state.quota;
        let parents: BTreeMap<&Text, Option<&Text>> =
            cohorts.iter().map(|it| (&it.name, it.parent.as_ref())).collect();
        let shape = |queue: &crate::quota::build::Queue| {
            let node = queue.node?;
            let own = queue.facts.as_ref().and_then(|facts| facts.cohort.as_ref());
            let own = own.filter(|name| parents.contains_key(name));
            let above = |name: &&Text| parents.get(*name).copied().flatten();
            let cohorts = std::iter::successors(own, above).cloned().collect();
            let limit = |fr: FrIdx| {
                let (flavor, resource) = quota.fr(fr);
                Limits {
                    flavor: quota.flavor_name(flavor).clone(),
                    resource: self.state.room.resources.name(resource).clone(),
                    borrowing: quota.tree.borrowing_limit(node, fr),
                    lending: quota.tree.lending_limit(node, fr),
                    reserved: quota.tree.usage(node, fr),
                }
            };
            let limits = quota.tree.covered(node).map(limit).collect();
            Some(QueueShape { name: queue.name.clone(), cohorts, limits })
        };
        quota.existing().filter_map(|(_, queue)| shape(queue)).collect()
    }
}
