//! Pods of ours that their status nominates for a node: they go there where they fit there. Fed by
//! hand.

use capstan_core::Engine;
use capstan_core::model::input::{Input, PodFacts};
use capstan_core::time::Time;
use capstan_tests::facts::{GPU, gang, in_queue, pod, shape, text};
use capstan_tests::hand::{binds, bound, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

/// A pod that asks for some GPUs.
fn of(name: &str, gpus: i64, queue: Option<&str>) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &in_queue(queue))
}

fn nominated(pod: PodFacts, node: &str) -> PodFacts {
    PodFacts { goes_to: Some(text(node)), ..pod }
}

/// A node that is filled first, one where nothing runs, and one that is full.
fn ground() -> Vec<Input> {
    vec![
        gpu_node("first", 8),
        gpu_node("other", 8),
        gpu_node("full", 8),
        bound(&of("some", 4, None), "first"),
        bound(&of("much", 8, None), "full"),
    ]
}

fn at(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned())).collect()
}

#[test]
fn a_pod_goes_where_it_is_nominated_if_it_fits_there() {
    for queue in [None, Some("main")] {
        let mut engine = Engine::new();
        let mut facts = queue.map_or_else(Vec::new, |_| one_queue(16));
        facts.extend(ground());
        let pods = [
            nominated(of("p", 1, queue), "other"),
            nominated(of("q", 1, queue), "full"),
            nominated(of("r", 1, queue), "nowhere"),
            of("twin", 1, queue),
        ];
        facts.extend(pods.map(Input::Pod));
        let output = engine.step(NOW, facts);
        let want = [("p", "other"), ("q", "first"), ("r", "first"), ("twin", "first")];
        assert_eq!(binds(&output), at(&want), "{queue:?}");
        engine.recount();
    }
}

#[test]
fn a_nomination_that_was_taken_back_decides_nothing() {
    let mut engine = Engine::new();
    let mut facts = ground();
    let gated = PodFacts { gated: true, ..of("p", 1, None) };
    facts.push(Input::Pod(nominated(gated, "other")));
    assert_eq!(binds(&engine.step(NOW, facts)), at(&[]));
    let output = engine.step(NOW, vec![Input::Pod(of("p", 1, None))]);
    assert_eq!(binds(&output), at(&[("p", "first")]));
    engine.recount();
}

/// Where it is to go makes no pod fit and none unfit: one answer stands for all that are alike.
#[test]
fn alike_pods_wait_for_the_same_whoever_is_nominated() {
    let mut engine = Engine::new();
    let (p, twin) = (nominated(of("p", 8, None), "other"), of("twin", 8, None));
    let mut facts = ground();
    facts.push(bound(&of("little", 1, None), "other"));
    facts.extend([p, twin].map(Input::Pod));
    assert_eq!(binds(&engine.step(NOW, facts)), at(&[]));
    let why = |name| view(&engine, name).reason.expect("it waits");
    assert_eq!(why("p").code(), "WaitingForCapacity");
    let output = engine.step(NOW, vec![Input::PodGone(text("some"))]);
    assert_eq!(binds(&output), at(&[("p", "first")]), "there is no room where it is nominated");
    let output = engine.step(NOW, vec![Input::PodGone(text("little"))]);
    assert_eq!(binds(&output), at(&[("twin", "other")]));
    engine.recount();
}

#[test]
fn members_of_a_gang_stay_together_wherever_they_are_nominated() {
    let mut engine = Engine::new();
    let mut members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &in_queue(None));
    members[0].goes_to = Some(text("other"));
    let facts = ground().into_iter().chain(members.into_iter().map(Input::Pod));
    let output = engine.step(NOW, facts.collect());
    assert_eq!(binds(&output), at(&[("g-0", "first"), ("g-1", "first")]));
    engine.recount();
}
