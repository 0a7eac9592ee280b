//! What is written on pods when they are made or bound, and that whoever may edit pods can write as
//! well: what of it is believed. Each test feeds facts by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    BindingNote, Input, Operator, PodFacts, PodPhase, Requirement, Stays,
};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, labels, nominal, pod, shape,
    text,
};
use capstan_tests::hand::{bound, evicted, gpu_node, view};

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

/// One member that would be there again at once keeps no others where they are.
#[test]
fn a_gang_stays_where_it_is_if_all_of_its_members_do() {
    for (stay, gone) in [(&[0][..], 2), (&[1][..], 2), (&[0, 1][..], 0)] {
        let members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &in_queue(None));
        let mut engine = Engine::new();
        let mut facts = vec![gpu_node("n", 2)];
        for (at, member) in members.into_iter().enumerate() {
            let stays = stay.contains(&at).then_some(Stays::Daemon);
            facts.push(bound(&PodFacts { stays, ..member }, "n"));
        }
        engine.step(NOW, facts);
        assert_eq!(view(&engine, "g").stays.is_some(), gone == 0);
        let boss = pod("boss", &shape(&[(GPU, 1)]), &in_queue(None));
        let output = engine.step(NOW, vec![Input::Pod(PodFacts { priority: 9, ..boss })]);
        assert_eq!(evicted(&output).len(), gone, "{stay:?}");
        engine.recount();
    }
}
