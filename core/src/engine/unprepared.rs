//! What a gang that has its places still waits for: volumes of its members, or their devices.
//!
//! Shown only. Of several members the first in order speaks for all.

use crate::engine::Engine;
use crate::explain::reason::{Reason, Unprepared};
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Readiness;

impl Engine {
    /// What members of a workload wait for before they are bound; `None`: for nothing.
    pub(super) fn unprepared(&self, workload: WorkloadIdx) -> Option<Reason> {
        if self.settling.is_empty() && self.readying.is_empty() {
            return None;
        }
        let members = self.state.workloads[workload].members.iter();
        let mut waiting = members.filter_map(|pod| self.waits_for(*pod));
        let what = waiting.next()?;
        Some(Reason::Preparing { pods: 1 + waiting.count() as u32, what })
    }

    fn waits_for(&self, pod: PodIdx) -> Option<Unprepared> {
        if let Some(claim) = self.unbound_claim(pod) {
            return Some(Unprepared::Volume(claim));
        }
        self.readying.get(&pod)?;
        match self.readiness(pod).0 {
            Readiness::Waits(what) => Some(Unprepared::Device(what)),
            Readiness::Ready | Readiness::Failed(_) => None,
        }
    }
}
