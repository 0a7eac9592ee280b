//! What would start a waiting workload, each tried on the engine itself.

use crate::engine::Engine;
use crate::explain::view::Remedy;
use crate::model::ids::WorkloadIdx;
use crate::time::Time;

impl Engine {
    /// Ways to start a waiting workload; none for one that runs.
    pub(super) fn remedies(&mut self, _now: Time, _index: WorkloadIdx) -> Vec<Remedy> {
        Vec::new()
    }
}
