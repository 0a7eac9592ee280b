//! When work that waits may start.
//!
//! What is assumed is part of the answer: work that runs ends when its declared run time is over,
//! nobody before it in its queue takes the room first, and nothing else comes. With less said
//! there is no forecast: not where any of those that must end declares no end, or is overdue; nor
//! for work that waits for anything but room or quota, or that would start now.
//!
//! Cost: a dozen nominations for one workload; where nobody declares a run time, one look at what
//! runs for all that are asked for together.

use crate::engine::Engine;
use crate::engine::remedies::ends::Ending;
use crate::explain::view::Forecast;
use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
use crate::time::Time;

impl Engine {
    /// When these workloads, by namespace and name, may start; the only place that reckons it for
    /// what people look at.
    pub fn forecasts(&mut self, now: Time, names: &[(Text, Text)]) -> Vec<Option<Forecast>> {
        self.state.now = now;
        let declared = self.declared();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let index = self.state.workload_by_name.get(name).copied();
            let index = index.filter(|index| self.state.workloads.get(*index).is_some());
            found.push(index.and_then(|index| self.forecast_with(now, index, &declared)));
        }
        found
    }

    /// When a workload may start.
    pub(in crate::engine) fn forecast_of(
        &mut self,
        now: Time,
        index: WorkloadIdx,
    ) -> Option<Forecast> {
        let declared = self.declared();
        self.forecast_with(now, index, &declared)
    }

    fn forecast_with(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        declared: &[Ending],
    ) -> Option<Forecast> {
        if declared.is_empty() || !self.waits_for_room(index) || self.start(now, index).is_some() {
            return None;
        }
        // The shortest front that is enough: what ends later need not.
        self.start_without(now, index, &[], declared)?;
        let (mut low, mut high) = (0, declared.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.start_without(now, index, &[], &declared[..middle]) {
                Some(_) => high = middle,
                None => low = middle + 1,
            }
        }
        let ended = &declared[..high];
        let at = ended.last()?.at?;
        // Who should have ended and has not makes every date a guess.
        let overdue = ended.iter().any(|ending| ending.at.is_none_or(|end| end <= now));
        let ahead = self.position_of(index).map_or(0, |position| position.in_cluster_queue);
        (!overdue).then_some(Forecast { at, ended: ended.len() as u32, ahead })
    }
}
