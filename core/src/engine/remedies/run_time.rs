//! Work that fits and is held because it would delay starts that are reserved for others: how long
//! it may say that it runs, and when it delays nobody any more.
//!
//! It delays those who are to start before it ends. So of all run times only those matter that end
//! at the time of a reserved start, and they are tried, shortest first, as if its members declared
//! them; what they declare is put back. When it delays nobody is its forecast, which is played.
//! Cost: a few plays of the timetable for each reserved start, [`RUNS_MAX`] at most; on request.

use std::sync::Arc;

use crate::engine::Engine;
use crate::explain::view::{Awaited, Change, Remedy};
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Wishes;
use crate::time::{Span, Time};

/// Run times that are tried: of many reserved starts those that come first.
const RUNS_MAX: usize = 32;

impl Engine {
    /// Ways for work that is only held for others whose start is reserved: a shorter run time, its
    /// turn, and the end of somebody who does not say when that is. Whose end is known is part of
    /// when its turn comes: some end after a reserved start has nothing to do with it.
    pub(super) fn after_reserved(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let mut found = self.endings(now, index);
        found.retain(|remedy| match &remedy.change {
            Change::WaitFor { at: None, with, .. } => with.is_empty(),
            _ => false,
        });
        found.extend(self.shorter_run(now, index));
        found.extend(self.its_turn(now, index, |_| Awaited::Turn));
        found
    }

    /// The longest run time with which, as with all shorter ones, it would start.
    fn shorter_run(&mut self, now: Time, index: WorkloadIdx) -> Option<Remedy> {
        let runs = self.run_time(index);
        let mut bounds: Vec<Time> =
            self.slots(Some(index)).into_iter().map(|slot| slot.start).collect();
        bounds.dedup();
        let declared = |pod: &PodIdx| (*pod, self.state.pods[*pod].wishes.clone());
        let members = self.state.workloads[index].members.iter();
        let before: Vec<(PodIdx, Arc<Wishes>)> = members.map(declared).collect();
        let mut longest = None;
        for by in bounds.into_iter().take(RUNS_MAX) {
            // Part of a second is not enough.
            let at_most = Span(by.since(now).0 / 1_000 * 1_000);
            if at_most == Span(0) {
                continue;
            }
            // It says already that it runs no longer.
            if runs.is_some_and(|runs| runs <= at_most) {
                break;
            }
            for (pod, wishes) in &before {
                let expected_runtime = Some(at_most);
                let wishes = Wishes { expected_runtime, ..(**wishes).clone() };
                self.state.pods[*pod].wishes = Arc::new(wishes);
            }
            let Some(start) = self.start(now, index) else { break };
            longest = Some(start.by(Change::DeclareRunTime { at_most, by }));
        }
        for (pod, wishes) in before {
            self.state.pods[pod].wishes = wishes;
        }
        longest
    }

    /// Waiting until it delays nobody, or until a budget begins anew and there is room, as far as
    /// that can be told; and what it `awaits`. What it costs depends on which nodes are free then.
    pub(super) fn its_turn(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        awaits: impl FnOnce(Time) -> Awaited,
    ) -> Option<Remedy> {
        let at = self.forecast_of(index)?.start;
        (at > now).then(|| Remedy {
            change: Change::WaitUntil { at, awaits: awaits(at) },
            first: None,
            per_hour: None,
            preempts: Vec::new(),
            loses: None,
            after: self.names_of_unready(index),
            unless: None,
        })
    }
}
