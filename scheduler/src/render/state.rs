//! The states that people and tools see, from the states that the engine keeps.
//!
//! One mapping for text, JSON and HTML: `Pending`, `Admitted`, `Running`, `Preempted`,
//! `Finished`. Also the small answers about one workload that several printers need.

use capstan_core::explain::quantity::{is_gpu, is_whole_gpu, named, quantity};
use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::{PodExplanation, PodSetView, WorkloadExplanation, WorkloadView};
use capstan_core::model::input::{Amounts, Text};
use capstan_core::plan::State;

use super::table::Tone;

/// A workload's state as the command line and its JSON say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PublicState {
    /// Admitted in this run.
    Admitted,
    /// Its pods were bound before.
    Running,
    /// Waits.
    Pending,
    /// Being evicted, gone for good, or waiting again after an eviction.
    Preempted,
    /// All members are terminal.
    Finished,
}

impl PublicState {
    /// All of them, in the order of a table.
    pub const ALL: [PublicState; 5] = [
        PublicState::Admitted,
        PublicState::Running,
        PublicState::Pending,
        PublicState::Preempted,
        PublicState::Finished,
    ];

    /// The state of a workload.
    pub fn of(workload: &WorkloadView) -> PublicState {
        match workload.state {
            State::Evicting => PublicState::Preempted,
            State::Gathering | State::Queued | State::Provisioning | State::Reserved => {
                if workload.preempted.is_some() {
                    PublicState::Preempted
                } else {
                    PublicState::Pending
                }
            }
            State::Running | State::Binding if workload.found_running => PublicState::Running,
            State::Resuming | State::Preparing | State::Binding => PublicState::Admitted,
            State::Running => PublicState::Admitted,
            // What was left of it when it was preempted ended before; the rest never will.
            State::Finished if workload.preempted.is_some() => PublicState::Preempted,
            State::Finished => PublicState::Finished,
        }
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            PublicState::Admitted => "Admitted",
            PublicState::Running => "Running",
            PublicState::Pending => "Pending",
            PublicState::Preempted => "Preempted",
            PublicState::Finished => "Finished",
        }
    }

    /// How it is set apart.
    pub fn tone(self) -> Tone {
        match self {
            PublicState::Admitted | PublicState::Running => Tone::Runs,
            PublicState::Pending => Tone::Waits,
            PublicState::Preempted => Tone::Lost,
            PublicState::Finished => Tone::Plain,
        }
    }
}

/// Whether an explanation is a "no": what `explain` exits with 1 for.
pub trait Negative {
    /// A workload waits; a pod fits on no node.
    fn negative(&self) -> bool;
}

impl Negative for WorkloadExplanation {
    fn negative(&self) -> bool {
        is_pending(&self.workload)
    }
}

impl Negative for PodExplanation {
    fn negative(&self) -> bool {
        !self.nodes.iter().any(|verdict| verdict.refusals.is_empty())
    }
}

/// Whether it waits for quota or capacity and could still get it: preempted work that comes back
/// does, bare pods that nobody makes anew do not.
pub fn is_pending(workload: &WorkloadView) -> bool {
    let waits = match workload.state {
        State::Gathering | State::Queued | State::Provisioning | State::Reserved => true,
        State::Resuming
        | State::Preparing
        | State::Binding
        | State::Running
        | State::Evicting
        | State::Finished => false,
    };
    waits && !matches!(workload.reason, Some(Reason::Preempted { .. }))
}

/// `namespace/name`.
pub fn full_name(workload: &WorkloadView) -> String {
    format!("{}/{}", workload.namespace, workload.name)
}

/// The resource that matters most to people: GPUs, then CPU, then memory, then the first by name.
pub fn main_resource<'a>(resources: impl Iterator<Item = &'a Text>) -> Option<&'a Text> {
    let rank = |resource: &str| match resource {
        "nvidia.com/gpu" => 0,
        "amd.com/gpu" => 1,
        other if is_gpu(other) => 2,
        "cpu" => 3,
        "memory" => 4,
        _ => 5,
    };
    resources.min_by_key(|resource| (rank(resource), *resource))
}

/// GPUs among the amounts: whole ones, not slices of them.
pub fn whole_gpus(amounts: &Amounts) -> i64 {
    let whole = amounts.iter().filter(|(resource, _)| is_whole_gpu(resource));
    whole.fold(0, |sum: i64, (_, amount)| sum.saturating_add(*amount))
}

/// Nodes that hold its members, each once.
pub fn nodes_of(workload: &WorkloadView) -> Vec<&str> {
    let mut nodes: Vec<&str> =
        workload.pods.iter().filter_map(|place| place.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Members by pod set and what each asks most: `3×8` for GPUs, `3×4 cpu`, `3` without requests.
fn shape_of(workload: &WorkloadView) -> String {
    if workload.pod_sets.is_empty() {
        return "-".to_owned();
    }
    let sets: Vec<String> = workload.pod_sets.iter().map(shape_of_set).collect();
    sets.join(" + ")
}

/// The same for a table: where members wait that a gang began without, and its reason says so,
/// those that began.
pub fn shape_begun(workload: &WorkloadView) -> String {
    if !matches!(workload.reason, Some(Reason::Extras { .. })) {
        return shape_of(workload);
    }
    let begun = workload.pod_sets.iter().filter(|set| set.placed > 0);
    let begun = begun.map(|set| shape_of_set(&PodSetView { count: set.placed, ..set.clone() }));
    begun.collect::<Vec<String>>().join(" + ")
}

/// The same for a sentence, with its units: `1×2 + 2×4 GPUs`, `2×8 GPUs + 2×8 cpu`.
pub fn shape_in_words(workload: &WorkloadView) -> String {
    let sets = &workload.pod_sets;
    let of_gpus = |set: &PodSetView| asked_most(set).is_some_and(|name| is_said_as_gpus(name));
    if !sets.is_empty() && sets.iter().all(of_gpus) {
        return format!("{} GPUs", shape_of(workload));
    }
    let one = |set: &PodSetView| {
        let unit = if of_gpus(set) { " GPUs" } else { "" };
        format!("{}{unit}", shape_of_set(set))
    };
    if sets.is_empty() {
        shape_of(workload)
    } else {
        sets.iter().map(one).collect::<Vec<String>>().join(" + ")
    }
}

/// Whether amounts of it are said without its name, or as GPUs.
fn is_said_as_gpus(resource: &str) -> bool {
    matches!(resource, "nvidia.com/gpu" | "amd.com/gpu")
}

/// The resource that tells most of what a set asks.
fn asked_most(set: &PodSetView) -> Option<&Text> {
    let asked = set.requests.iter().filter(|(_, amount)| **amount > 0).map(|(name, _)| name);
    main_resource(asked.filter(|name| name.as_ref() != "pods"))
}

fn shape_of_set(set: &PodSetView) -> String {
    match asked_most(set) {
        Some(resource) => {
            let amount = set.requests.get(resource).copied().unwrap_or(0);
            let each = match is_said_as_gpus(resource) {
                true => quantity(resource, amount),
                false => named(resource, amount),
            };
            format!("{}×{each}", set.count)
        }
        None => set.count.to_string(),
    }
}

/// The flavors of its main resource, each once, in pod set order.
pub fn flavors_of(workload: &WorkloadView) -> Vec<&str> {
    let mut flavors: Vec<&str> = Vec::new();
    for set in &workload.pod_sets {
        let flavor = main_resource(set.flavors.keys()).and_then(|name| set.flavors.get(name));
        match flavor.map(AsRef::as_ref) {
            Some(flavor) if !flavors.contains(&flavor) => flavors.push(flavor),
            _ => {}
        }
    }
    flavors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture::workload;

    #[test]
    fn engine_states_become_public_ones() {
        let preemption = crate::render::fixture::preemption();
        let rows = [
            (State::Gathering, false, false, PublicState::Pending, true),
            (State::Queued, false, false, PublicState::Pending, true),
            (State::Queued, false, true, PublicState::Preempted, true),
            (State::Reserved, false, false, PublicState::Pending, true),
            (State::Resuming, false, false, PublicState::Admitted, false),
            (State::Binding, false, false, PublicState::Admitted, false),
            (State::Running, false, false, PublicState::Admitted, false),
            (State::Running, true, false, PublicState::Running, false),
            (State::Evicting, true, true, PublicState::Preempted, false),
            (State::Finished, true, false, PublicState::Finished, false),
            (State::Finished, true, true, PublicState::Preempted, false),
            (State::Binding, true, false, PublicState::Running, false),
        ];
        for (state, found_running, preempted, expected, pending) in rows {
            let mut view = workload("ns", "w");
            (view.state, view.found_running) = (state, found_running);
            view.preempted = preempted.then(|| preemption.clone());
            assert_eq!((PublicState::of(&view), is_pending(&view)), (expected, pending), "{state}");
        }
        let mut gone = workload("ns", "w");
        gone.preempted = Some(preemption);
        gone.reason = Some(Reason::Preempted { preemptor: "ns/other".into() });
        assert!(!is_pending(&gone), "a bare pod does not come back");
    }

    #[test]
    fn shapes_name_what_matters_most() {
        let mut view = workload("ns", "w");
        assert_eq!(shape_of(&view), "3×8");
        assert_eq!(shape_in_words(&view), "3×8 GPUs");
        view.pod_sets[0].requests = [("cpu".into(), 3_500), ("memory".into(), 1 << 30)].into();
        assert_eq!(shape_of(&view), "3×3.5 cpu");
        let mut second = view.pod_sets[0].clone();
        second.requests = Amounts::new();
        view.pod_sets.push(second);
        assert_eq!(shape_of(&view), "3×3.5 cpu + 3");
        assert_eq!(shape_in_words(&view), "3×3.5 cpu + 3");
        // Of several that could begin it the second set did.
        view.pod_sets[1].placed = 2;
        assert_eq!(shape_begun(&view), "3×3.5 cpu + 3");
        view.reason = Some(Reason::Extras { waiting: 4, then: None });
        assert_eq!(shape_begun(&view), "2");
        view.pod_sets.clear();
        assert_eq!(shape_of(&view), "-");
    }
}
