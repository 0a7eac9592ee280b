//! Evictions that an engine before this one began.
//!
//! A victim is marked, then deleted, in two requests. Whoever is killed between the two leaves
//! pods that bear the mark and stay: the next engine takes them for leaving, and would wait for
//! ever. Whether the second request was sent shows in the API; where it does not, it is asked for
//! again, once. Owners are marked and suspended in one request, so nothing is left of theirs.

use crate::engine::Engine;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::plan::{Preemption, State};
use crate::time::{Span, Time};

impl Engine {
    /// Looks whether a workload bears marks that nobody here made.
    pub(crate) fn file_eviction(&mut self, workload: WorkloadIdx) {
        let half = self.state.workloads.get(workload).is_some_and(|entry| {
            let stays = |pod: &PodIdx| {
                let pod = &self.state.pods[*pod];
                pod.eviction.is_some() && pod.active() && !pod.terminating
            };
            entry.state == State::Evicting
                && !entry.stop_asked
                && entry.owner.is_none()
                && entry.members.iter().any(stays)
        });
        match half {
            true => self.half_evicted.insert(workload),
            false => self.half_evicted.remove(&workload),
        };
    }

    /// Evicts again what is marked and stays.
    pub(crate) fn finish_evictions(&mut self, now: Time) {
        for workload in std::mem::take(&mut self.half_evicted) {
            let Some(preemption) = self.marked(workload) else { continue };
            let entry = &mut self.state.workloads[workload];
            entry.stop_asked = true;
            entry.evicting = Some(Box::new(preemption.clone()));
            self.evict_members(now, workload, &preemption);
        }
    }

    /// The preemption that the marks of a workload tell of.
    fn marked(&self, workload: WorkloadIdx) -> Option<Preemption> {
        let state = &self.state;
        let entry = state.workloads.get(workload)?;
        let note = entry.members.iter().find_map(|pod| state.pods[*pod].eviction.clone())?;
        let preemptor = note.preemptor.split_once('/').and_then(|(namespace, name)| {
            let index = *state.workload_by_name.get(&(namespace.into(), name.into()))?;
            state.workloads.get(index)
        });
        Some(Preemption {
            victim: entry.full_name.clone(),
            preemptor: note.preemptor.clone(),
            reason: note.reason,
            victim_priority: entry.priority,
            preemptor_priority: preemptor.map_or(entry.priority, |found| found.priority),
            frees: Vec::new(),
            lost: Span(0),
            lost_cost: None,
            cohort: None,
        })
    }
}
