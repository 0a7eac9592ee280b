//! What a workload asks for and is scheduled without.
//!
//! Decides which wishes of a workload come to nothing although it goes on: values that could not
//! be read, a WorkloadPriorityClass that does not exist, a preferred topology level that no node
//! has. Each is told once, as an event on the workload; a wish that holds it up (a required level)
//! is its reason to wait instead.

use crate::engine::Engine;
use crate::model::ids::WorkloadIdx;
use crate::model::workload::QueueRef;
use crate::place::gang;
use crate::plan::{Action, Unmet};
use crate::time::Time;

impl Engine {
    /// Whether anything of that kind is to be said of a workload, and was not.
    pub(super) fn asks_in_vain(&self, workload: WorkloadIdx) -> bool {
        let told = |kind: &Unmet| self.told.contains(&(workload, *kind));
        let mut untold = Unmet::ALL.into_iter().filter(|kind| !told(kind));
        untold.any(|kind| self.asked_in_vain(workload, kind).is_some())
    }

    /// Says what a workload asks for in vain: each kind once.
    pub(super) fn tell_unmet(&mut self, now: Time, workload: WorkloadIdx) {
        for kind in Unmet::ALL {
            let Some(message) = self.asked_in_vain(workload, kind) else { continue };
            if !self.told.insert((workload, kind)) {
                continue;
            }
            let about = self.state.workloads[workload].full_name.clone();
            let action =
                Action::Event { about, reason: kind.as_str().into(), message: message.into() };
            self.effect(now, workload, None, action);
        }
    }

    /// Forgets what was told of a workload that is gone.
    pub(super) fn forget_told(&mut self, workload: WorkloadIdx) {
        for kind in Unmet::ALL {
            self.told.remove(&(workload, kind));
        }
    }

    fn asked_in_vain(&self, workload: WorkloadIdx, kind: Unmet) -> Option<String> {
        let entry = &self.state.workloads[workload];
        match kind {
            Unmet::InvalidAnnotation => {
                let ignored = &entry.wishes.ignored;
                (!ignored.is_empty()).then(|| ignored.join("; "))
            }
            Unmet::PriorityClassNotFound => {
                let name = entry.wishes.priority_class.as_ref()?;
                let counts = !matches!(entry.queue, QueueRef::Unqueued);
                let vain = counts && !self.state.facts.priorities.contains_key(name);
                vain.then(|| {
                    let own = entry.priority;
                    format!("WorkloadPriorityClass {name} does not exist; priority {own} was taken")
                })
            }
            Unmet::UnknownTopologyLevel => {
                let level = entry.topology().preferred.as_ref()?;
                let vain = gang::level_named(&self.state.room, level).is_none();
                vain.then(|| format!("preferred {}", self.unknown_level(level)))
            }
        }
    }
}
