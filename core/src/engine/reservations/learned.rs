//! Run times learned from runs that came to an end, where the configuration asks for it.
//!
//! Of each kind of owner in each queue the last [`RUNS_MAX`] runs are kept. Once there are
//! [`RUNS_MIN`], work that says nothing is taken to run as long as nine of ten of them did at most:
//! too short an estimate makes somebody late, too long a one only keeps a little room idle. Runs
//! that were stopped, failed or were deleted say nothing. A run begins when the first of its
//! members was bound, as pods show it, whenever this engine saw that: a new leader does not take
//! the rest of a run for all of it.
//!
//! Restart: what was learned is forgotten, and learned anew, from whole runs. Cost: an entry for
//! each workload that runs, and a few hundred bytes for each kind and queue, of which at most
//! [`KEYS_MAX`] are kept.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::Engine;
use crate::model::ids::WorkloadIdx;
use crate::model::input::{OwnerEnd, Text};
use crate::plan::State;
use crate::time::{Span, Time};

/// Runs of a kind and queue that are kept: enough for nine of ten to mean something.
const RUNS_MAX: usize = 32;
/// Runs before they are believed.
const RUNS_MIN: usize = 8;
/// Kinds and queues of which runs are kept; of further ones nothing is learned.
const KEYS_MAX: usize = 1_024;

/// Kind of the owner, and ClusterQueue if any.
type Key = (Text, Option<Text>);

/// What was learned.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    runs: BTreeMap<Key, VecDeque<Span>>,
    /// Since when work runs.
    begun: BTreeMap<WorkloadIdx, Time>,
}

impl Learned {
    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.begun.is_empty()
    }

    fn add(&mut self, key: Key, run: Span) {
        if self.runs.len() >= KEYS_MAX && !self.runs.contains_key(&key) {
            return;
        }
        let runs = self.runs.entry(key).or_default();
        if runs.len() == RUNS_MAX {
            runs.pop_front();
        }
        runs.push_back(run);
    }

    /// Since when work runs, as far as that was seen.
    pub(super) fn begun(&self, workload: WorkloadIdx) -> Option<Time> {
        self.begun.get(&workload).copied()
    }

    /// What nine of ten runs took at most.
    fn estimate(&self, key: &Key) -> Option<Span> {
        let runs = self.runs.get(key).filter(|runs| runs.len() >= RUNS_MIN)?;
        let mut sorted: Vec<Span> = runs.iter().copied().collect();
        sorted.sort_unstable();
        Some(sorted[(sorted.len() * 9).div_ceil(10) - 1])
    }
}

impl Engine {
    /// Whether run times are learned.
    fn learns(&self) -> bool {
        self.state.policy.reservations.is_some_and(|args| args.learns)
    }

    /// Notes that a workload runs, or learns from its end.
    pub(super) fn learn_from(&mut self, workload: WorkloadIdx) {
        if !self.learns() {
            if !self.learned.is_empty() {
                self.learned = Learned::default();
            }
            return;
        }
        let state = self.state.workloads.get(workload).map(|entry| entry.state);
        match state {
            Some(State::Running) => {
                let shown = self.shown_to_run_since(workload);
                let begun = self.learned.begun.entry(workload).or_insert(shown);
                *begun = shown.min(*begun);
            }
            // What is not whole goes on.
            Some(State::Binding) => {}
            Some(State::Finished) => {
                let begun = self.learned.begun.remove(&workload);
                if let Some(begun) = begun.filter(|_| self.is_done(workload)) {
                    let run = self.state.now.since(begun);
                    self.learned.add(self.key_of(workload), run);
                }
            }
            _ => _ = self.learned.begun.remove(&workload),
        }
    }

    /// Whether work that has ended did all of it: what failed, or is being deleted, might have run
    /// for longer.
    fn is_done(&self, workload: WorkloadIdx) -> bool {
        let owner = self.state.owner_of(workload);
        match owner.and_then(|owner| owner.finished.as_ref()) {
            Some(end) => *end == OwnerEnd::Succeeded,
            None => !self.state.failed(workload),
        }
    }

    /// Since when work runs, as its pods show it, or when it was admitted: no later than now.
    fn shown_to_run_since(&self, workload: WorkloadIdx) -> Time {
        let state = &self.state;
        let bound = state.placed(workload).filter_map(|pod| state.pods[pod].bound_at).min();
        let held = state.workloads[workload].assignment.as_ref().map(|held| held.at);
        bound.or(held).map_or(state.now, |shown| shown.min(state.now))
    }

    /// How long such work ran before.
    pub(super) fn learned_run(&self, workload: WorkloadIdx) -> Option<Span> {
        if self.learned.runs.is_empty() {
            return None;
        }
        self.learned.estimate(&self.key_of(workload))
    }

    fn key_of(&self, workload: WorkloadIdx) -> Key {
        let owner = self.state.owner_of(workload).map(|owner| owner.kind.clone());
        let queue = self.state.workloads[workload].cluster_queue;
        let queue = queue.map(|queue| self.state.quota.queue(queue).name.clone());
        (owner.unwrap_or_else(|| "Pod".into()), queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_runs_are_believed_once_there_are_enough() {
        let (mut learned, key): (_, Key) = (Learned::default(), ("Job".into(), None));
        for run in 1..RUNS_MIN as i64 {
            learned.add(key.clone(), Span::seconds(run));
        }
        assert_eq!(learned.estimate(&key), None, "too few");
        for run in RUNS_MIN as i64..=20 {
            learned.add(key.clone(), Span::seconds(run));
        }
        assert_eq!(learned.estimate(&key), Some(Span::seconds(18)), "of twenty, two ran longer");
        assert_eq!(learned.estimate(&("Job".into(), Some("q".into()))), None, "another queue");
        for _ in 0..RUNS_MAX {
            learned.add(key.clone(), Span::seconds(5));
        }
        assert_eq!(learned.estimate(&key), Some(Span::seconds(5)), "old runs are forgotten");
    }
}
