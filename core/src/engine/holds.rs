//! Stopping work that may not run any more: its Workload object was deactivated, or its queue is
//! drained.
//!
//! Wanted: it is stopped as a victim is, whole and without killing its job, and waits with the
//! reason until it may run again; who is stopped for it is nobody. Facts say who that is, so a new
//! engine finds the same. A stop that is refused is tried again after [`AGAIN`], not at once.
//!
//! Cost: one look at each workload that changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::model::ids::WorkloadIdx;
use crate::plan::{Preemption, PreemptionReason};
use crate::time::{Span, Time};
use crate::victims::Victim;

/// How long after a stop that came to nothing the next one is tried.
const AGAIN: Span = Span::seconds(10);

/// Who is to be stopped.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Since facts say so, to be looked at in this step or when a new leader decides first.
    found: BTreeSet<WorkloadIdx>,
    /// When a stop was asked for last, of those that may still have to be stopped.
    asked: BTreeMap<WorkloadIdx, Time>,
}

impl Holds {
    /// A workload is gone.
    pub fn forget(&mut self, workload: WorkloadIdx) {
        self.found.remove(&workload);
        self.asked.remove(&workload);
    }
}

impl Engine {
    /// Notes a workload that changed if it has to be stopped.
    pub(super) fn file_hold(&mut self, workload: WorkloadIdx) {
        if self.state.workloads.get(workload).is_none() {
            return;
        }
        if self.state.must_stop(workload).is_some() {
            self.holds.found.insert(workload);
            return;
        }
        self.holds.found.remove(&workload);
        // A stop that came about is no reason to put off the next one.
        if !self.holds.asked.is_empty() && !self.state.leaving(workload) {
            self.holds.asked.remove(&workload);
        }
    }

    /// When a stop is to be tried again.
    pub(super) fn holds_due(&self) -> Option<Time> {
        let again = |workload| self.holds.asked.get(workload).map(|at| at.plus(AGAIN));
        self.holds.found.iter().filter_map(again).min()
    }

    /// Stops who may not run any more.
    pub(super) fn stop_what_may_not_run(&mut self, now: Time) {
        if self.holds.found.is_empty() {
            return;
        }
        let asked = &self.holds.asked;
        let due =
            |workload: &WorkloadIdx| asked.get(workload).is_none_or(|at| at.plus(AGAIN) <= now);
        let mut stopped: Vec<WorkloadIdx> = self.holds.found.iter().copied().filter(due).collect();
        self.state.in_queue_order(&mut stopped);
        for workload in stopped {
            self.holds.found.remove(&workload);
            let Some(reason) = self.state.must_stop(workload) else { continue };
            let ours = self.coming_up.why(workload);
            let ours = ours.filter(|_| reason == PreemptionReason::Deactivated);
            let reason = ours.unwrap_or(reason);
            let Some(preemption) = self.stop_for_nobody(now, workload, reason) else { continue };
            self.holds.asked.insert(workload, now);
            self.stopped.push(preemption.clone());
            self.evict(now, workload, preemption);
        }
    }

    /// What stopping a workload is that makes room for nobody else.
    pub(super) fn stop_for_nobody(
        &self,
        now: Time,
        workload: WorkloadIdx,
        reason: PreemptionReason,
    ) -> Option<Preemption> {
        self.preemptions(now, workload, &[Victim { workload, reason }], &[]).pop()
    }
}
