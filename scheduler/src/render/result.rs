//! What a simulation hands to whoever prints it: plain views, no engine.
//!
//! Filled by the virtual cluster, read by [`super::text`], [`super::json`] and [`super::html`].
//! Everything is in a stable order already (views by namespace and name), so equal simulations
//! print the same bytes, `elapsed` apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capstan_core::explain::view::{NodeView, QueueView, WorkloadView};
use capstan_core::model::input::Text;
use capstan_core::plan::{Preemption, State};
use capstan_core::time::Time;

use super::state::full_name;

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
    /// Pods and Jobs of the input whose spec names our scheduler.
    pub ours: usize,
    /// What that scheduler is called.
    pub scheduler: String,
    /// The input states no time at all: times are counted from the start.
    pub timeless: bool,
    /// What the reader warned of, ready to print.
    pub warnings: Vec<String>,
    /// What happened when, in order; shown where a clock was played.
    pub timeline: Vec<Moment>,
    /// The files as the user named them, for the next command.
    pub files: Vec<String>,
}

impl SimulationResult {
    /// Adds a view of every victim that is gone for good: the engine forgets it, people who look
    /// for it do not. Keeps the order by namespace and name.
    pub fn keep_lost(&mut self) {
        let known: BTreeSet<String> = self.workloads.iter().map(full_name).collect();
        let mut lost: BTreeMap<&str, &Preemption> = BTreeMap::new();
        for preemption in self.preempted.iter().filter(|p| !known.contains(&*p.victim)) {
            lost.insert(&preemption.victim, preemption);
        }
        let views: Vec<WorkloadView> = lost.into_values().map(lost_view).collect();
        self.workloads.extend(views);
        self.workloads.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    }
}

/// What is still known of a workload whose pods are gone.
pub fn lost_view(preemption: &Preemption) -> WorkloadView {
    let (namespace, name) = preemption.victim.split_once('/').unwrap_or(("", &preemption.victim));
    WorkloadView {
        namespace: namespace.into(),
        name: name.into(),
        local_queue: None,
        cluster_queue: None,
        priority: preemption.victim_priority,
        state: State::Evicting,
        found_running: false,
        stays: None,
        preempted: Some(preemption.clone()),
        pod_sets: Vec::new(),
        pods: Vec::new(),
        min_member: 0,
        borrowed: false,
        per_hour: None,
        unpriced: 0,
        reserved: None,
        unreserved: None,
        reason: None,
        uncharged: None,
        created: Time::default(),
        waits_since: Time::default(),
        admitted_at: None,
        gpus: 0,
    }
}

/// Something that happened to a workload while a clock was played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// `namespace/name`.
    pub workload: String,
    /// What.
    pub what: Happening,
}

/// The kinds of moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It appeared.
    Arrived,
    /// It was admitted.
    Admitted,
    /// It is being stopped for another, `namespace/name`.
    Preempted(String),
    /// It is being stopped for nobody else's sake, and why.
    Stopped(String),
    /// Its owner was unsuspended.
    Resumed,
    /// All its members have ended.
    Finished,
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
    /// What the reader warned of, ready to print.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn victims_that_are_gone_are_kept_once() {
        let mut result = fixture::result();
        let mut gone = fixture::preemption();
        gone.victim = "a/bare".into();
        result.preempted.extend([gone.clone(), gone]);
        let before = result.workloads.len();
        result.keep_lost();
        assert_eq!(result.workloads.len(), before + 1);
        assert_eq!(
            (&*result.workloads[0].name, result.workloads[0].state),
            ("bare", State::Evicting)
        );
        result.keep_lost();
        assert_eq!(result.workloads.len(), before + 1);
    }
}
