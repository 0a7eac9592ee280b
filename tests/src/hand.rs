//! An engine fed and answered by hand: what tests of single steps share.

use capstan_core::Engine;
use capstan_core::explain::view::WorkloadView;
use capstan_core::model::input::{Input, PodFacts, PodPhase, PreemptWithin, PreemptionPolicy};
use capstan_core::plan::{Action, Effect, EffectResult, StepOutput};

use crate::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, local_queue, namespace, node, nominal, text,
};

/// What is known of a workload of this name.
pub fn view(engine: &Engine, name: &str) -> WorkloadView {
    let views = engine.workloads();
    views.into_iter().find(|view| &*view.name == name).expect("a workload of this name")
}

/// Whether an effect binds a pod.
pub fn is_bind(effect: &&Effect) -> bool {
    matches!(effect.action, Action::Bind { .. })
}

/// Names of pods that a step binds, each with its node.
pub fn binds(output: &StepOutput) -> Vec<(String, String)> {
    let bound = |effect: &Effect| match &effect.action {
        Action::Bind { pod, node, .. } => Some((pod.name.to_string(), node.to_string())),
        _ => None,
    };
    let mut bound: Vec<_> = output.effects.iter().filter_map(bound).collect();
    bound.sort();
    bound
}

/// The outcome of an effect.
pub fn answer(effect: &Effect, result: EffectResult) -> Input {
    Input::Outcome { effect: effect.id, result }
}

/// The pod as the API shows it after a bind.
pub fn bound(pod: &PodFacts, node: &str) -> Input {
    let mut pod = pod.clone();
    (pod.node, pod.phase) = (Some(text(node)), PodPhase::Running);
    Input::Pod(pod)
}

/// A node with so many GPUs.
pub fn gpu_node(name: &str, gpus: i64) -> Input {
    Input::Node(node(name, &[("cpu", 64_000), (GPU, gpus)]).into())
}

/// One queue of some GPUs that preempts lower priorities of its own.
pub fn one_queue(gpus: i64) -> Vec<Input> {
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(gpus))])]));
    queue.preemption =
        PreemptionPolicy { within_cluster_queue: PreemptWithin::LowerPriority, ..queue.preemption };
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
    ]
}

/// Names of pods that are stopped, in order.
pub fn evicted(output: &StepOutput) -> Vec<String> {
    let evicted = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::Evict { pod, .. } => Some(pod.name.to_string()),
        _ => None,
    });
    let mut evicted: Vec<String> = evicted.collect();
    evicted.sort();
    evicted
}
