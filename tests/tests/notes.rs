//! What is written on pods when they are bound, and that whoever may edit pods can write as well:
//! what of it is believed. Each test feeds facts by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{BindingNote, Input, Operator, PodFacts, PodPhase, Requirement};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, labels, local_queue, node, nominal,
    pod, shape, text,
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

/// A queue of these flavors with eight GPUs each, nodes of two flavors, and a flavor of all nodes.
fn of_flavors(listed: &[&str]) -> Vec<Input> {
    let quotas: &[_] = &[(GPU, nominal(8))];
    let listed: Vec<_> = listed.iter().map(|flavor| (*flavor, quotas)).collect();
    let nodes = ["a", "b"].map(|kind| {
        let mut facts = node(kind, &[(GPU, 8)]);
        facts.labels = labels(&[("kind", kind)]);
        Input::Node(facts.into())
    });
    let mut facts = vec![
        namespace(&[]),
        Input::Flavor(flavor("a", &[("kind", "a")])),
        Input::Flavor(flavor("b", &[("kind", "b")])),
        Input::Flavor(flavor("any", &[])),
        Input::ClusterQueue(cluster_queue("main", None, group(&listed))),
        Input::LocalQueue(local_queue("main")),
    ];
    facts.extend(nodes);
    facts
}

/// The flavor by which a pod on a node is charged that bears one.
fn charged(listed: &[&str], on: &str, written: &str) -> String {
    let flavors = BTreeMap::from([(text(GPU), text(written))]);
    let note = BindingNote { flavors: Arc::new(flavors), ..BindingNote::default() };
    let Input::Pod(found) = bears(Some("main"), note) else { unreachable!("it is a pod") };
    let mut engine = Engine::new();
    let mut facts = of_flavors(listed);
    facts.push(Input::Pod(PodFacts { node: Some(text(on)), ..found }));
    engine.step(NOW, facts);
    engine.recount();
    view(&engine, "found").pod_sets[0].flavors[&text(GPU)].to_string()
}

/// What was written may be of a queue that lists it no more, or of somebody who makes it up.
#[test]
fn a_flavor_that_its_queue_does_not_list_counts_where_the_node_is_of_none_that_it_lists() {
    for (listed, on, written, counts) in [
        (&["a", "b"][..], "a", "a", "a"),
        // It was placed there by that flavor; labels of nodes change.
        (&["a", "b"][..], "b", "a", "a"),
        (&["a"][..], "a", "any", "a"),
        (&["a"][..], "a", "b", "a"),
        (&["a"][..], "a", "unheard-of", "a"),
        (&["b"][..], "a", "a", "a"),
        (&["b"][..], "a", "any", "any"),
    ] {
        assert_eq!(charged(listed, on, written), counts, "{listed:?} on {on}: {written}");
    }
}
