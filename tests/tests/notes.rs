//! What is written on pods when they are bound, and that whoever may edit pods can write as well:
//! what of it is believed. Each test feeds facts by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{BindingNote, Input, Operator, PodFacts, PodPhase, Requirement};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, labels, nominal, pod, shape, text,
};
use capstan_tests::hand::{gpu_node, view};

const NOW: Time = Time(1_000_000);

/// The namespace with these labels.
fn namespace(list: &[(&str, &str)]) -> Input {
    Input::Namespace { name: text(TEAM), labels: labels(list) }
}

/// A pod of two GPUs that runs and bears this.
fn bears(queue: Option<&str>, note: BindingNote) -> Input {
    Input::Pod(PodFacts {
        node: Some(text("n")),
        phase: PodPhase::Running,
        binding: Some(Arc::new(note)),
        ..pod("found", &shape(&[(GPU, 2)]), &in_queue(queue))
    })
}

/// A queue of eight GPUs for namespaces of one team, to which no LocalQueue leads.
fn of_one_team() -> Vec<Input> {
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(8))])]));
    let team = Requirement { key: text("team"), operator: Operator::In, values: vec![text("a")] };
    queue.namespaces = Some(vec![team]);
    vec![Input::Flavor(flavor(DEFAULT, &[])), Input::ClusterQueue(queue), gpu_node("n", 8)]
}

#[test]
fn a_pod_counts_for_a_queue_that_it_names_if_that_selects_its_namespace() {
    for (team, used) in [("a", 2), ("b", 0)] {
        let mut engine = Engine::new();
        let note = BindingNote { queue: Some(text("main")), ..BindingNote::default() };
        let mut facts = of_one_team();
        facts.extend([namespace(&[("team", team)]), bears(None, note)]);
        engine.step(NOW, facts);
        assert_eq!(engine.queues()[0].quotas[0].used, used, "{team}");
        assert_eq!(view(&engine, "found").state, State::Running);
        engine.recount();
    }
}
