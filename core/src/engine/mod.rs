//! `Engine::step`: the only way in and out.

use crate::explain::view::{
    NodeView, PodExplanation, QueueView, WorkloadExplanation, WorkloadView,
};
use crate::model::input::Input;
use crate::plan::StepOutput;
use crate::time::Time;

/// The engine: owns the whole state, decides in `step`.
#[derive(Debug, Default)]
pub struct Engine {}

impl Engine {
    /// An empty engine.
    pub fn new() -> Engine {
        Engine::default()
    }

    /// Applies facts, runs rounds, and returns what to do.
    pub fn step(&mut self, _now: Time, _inputs: Vec<Input>) -> StepOutput {
        StepOutput::default()
    }

    /// All workloads, by namespace and name.
    pub fn workloads(&self) -> Vec<WorkloadView> {
        Vec::new()
    }

    /// All ClusterQueues, by name.
    pub fn queues(&self) -> Vec<QueueView> {
        Vec::new()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeView> {
        Vec::new()
    }

    /// Why a pod may or may not run, node by node, as if it were not placed; `None`: no such pod.
    pub fn explain_pod(&mut self, _namespace: &str, _name: &str) -> Option<PodExplanation> {
        None
    }

    /// Why a workload waits or runs; `None`: no such workload.
    pub fn explain_workload(
        &mut self,
        _now: Time,
        _namespace: &str,
        _name: &str,
    ) -> Option<WorkloadExplanation> {
        None
    }
}
