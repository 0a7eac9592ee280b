//! What a simulation hands to whoever prints it: plain views, no engine.
//!
//! Filled by the virtual cluster, read by [`super::text`], [`super::json`] and [`super::html`].
//! Everything is in a stable order already (views by namespace and name), so equal simulations
//! print the same bytes, `elapsed` apart.

use std::collections::BTreeMap;
use std::time::Duration;

use capstan_core::explain::view::{NodeView, QueueView, WorkloadView};
use capstan_core::model::input::Text;
use capstan_core::plan::Preemption;
use capstan_core::time::Time;

/// The end of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulationResult {
    /// Rounds run (`"cycles"` in JSON).
    pub rounds: u32,
    /// The last round changed nothing.
    pub settled: bool,
    /// The clock was played until this time (`--until`).
    pub until: Option<Time>,
    /// Time it took, for people; not part of the answer.
    pub elapsed: Duration,
    /// The virtual clock at the end.
    pub now: Time,
    /// All workloads. One that was evicted and is gone for good stays, as last seen, with state
    /// `Evicting`.
    pub workloads: Vec<WorkloadView>,
    /// All ClusterQueues.
    pub queues: Vec<QueueView>,
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// Node name to its GPU model ([`crate::prices::gpu_model`]), where known.
    pub gpu_models: BTreeMap<Text, String>,
    /// Workloads that this run newly admitted, `namespace/name`, in the order of admission.
    pub admitted: Vec<String>,
    /// Every victim that the plan counts on, those already leaving included.
    pub preempted: Vec<Preemption>,
    /// Kinds that nobody here knows, with how many objects were ignored.
    pub ignored_kinds: BTreeMap<String, u32>,
    /// What the reader warned of, ready to print.
    pub warnings: Vec<String>,
    /// The files as the user named them, for the next command.
    pub files: Vec<String>,
}

/// An explanation of a workload or a pod, with what printing it needs besides.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained<E> {
    /// The explanation.
    pub explanation: E,
    /// The virtual clock.
    pub now: Time,
    /// The files as the user named them, for the next command; empty on a live cluster.
    pub files: Vec<String>,
}
