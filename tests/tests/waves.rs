//! Jobs in waves beside each other: what one keeps between two waves is within what its queue has
//! left, whatever others do in the same moment. Each test feeds facts by hand.

use capstan_core::Engine;
use capstan_core::model::input::{Input, OwnerFacts, PodFacts};
use capstan_core::time::Time;
use capstan_tests::facts::{GPU, in_queue, job, pod, pods_of, shape, text};
use capstan_tests::hand::{binds, bound, gpu_node, one_queue};

const NOW: Time = Time(1_000_000);

/// A Job that runs, of so many at a time, as few as one, and ten in all.
fn waves(name: &str, at_once: u32) -> (OwnerFacts, Vec<PodFacts>) {
    let made = job(name, at_once, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let made = OwnerFacts { suspended: false, left: Some(10), replaces: 10 - at_once, ..made };
    let made = OwnerFacts { min_member: 1, min_stated: true, ..made };
    let pods = pods_of(&made);
    (made, pods)
}

fn over(pod: &PodFacts) -> Input {
    Input::PodEnded { pod: pod.uid.clone(), well: true }
}

fn next(pod: &PodFacts) -> PodFacts {
    let (uid, name) = (text(format!("{}-next", pod.uid)), text(format!("{}-next", pod.name)));
    PodFacts { uid, name, ..pod.clone() }
}

fn used(engine: &Engine) -> i64 {
    engine.queues().iter().map(|queue| queue.quotas[0].used).sum()
}

/// One takes its place over in the moment in which the last pods of the other end.
#[test]
fn two_jobs_keep_no_more_than_their_queue_has() {
    for names in [["a", "b"], ["b", "a"]] {
        let ((one, first), (two, pair)) = (waves(names[0], 1), waves(names[1], 2));
        let mut facts = one_queue(3);
        facts.extend([gpu_node("n", 8), Input::Owner(one), Input::Owner(two)]);
        facts.extend(first.iter().chain(&pair).map(|pod| bound(pod, "n")));
        let mut engine = Engine::new();
        engine.step(NOW, facts);
        // What the first of two leaves somebody else gets.
        let other = pod("other", &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        engine.step(NOW, vec![Input::Pod(other.clone())]);
        engine.step(NOW, vec![over(&pair[0])]);
        engine.step(NOW, vec![bound(&other, "n")]);
        engine.step(NOW, vec![over(&first[0])]);
        assert_eq!(used(&engine), 3);
        engine.step(NOW, vec![Input::Pod(next(&first[0])), over(&pair[1])]);
        assert_eq!(used(&engine), 3, "{names:?}");
        engine.recount();
    }
}

/// Who stands by binds nobody: what is kept its leader knows.
#[test]
fn who_stands_by_keeps_nothing() {
    let (made, pods) = waves("a", 1);
    let mut facts = one_queue(1);
    facts.extend([gpu_node("n", 8), Input::Owner(made), bound(&pods[0], "n")]);
    let mut engine = Engine::new();
    engine.observe(NOW, facts);
    engine.observe(NOW, vec![over(&pods[0])]);
    assert_eq!(used(&engine), 0);
    engine.observe(NOW, vec![Input::Pod(next(&pods[0]))]);
    assert_eq!(used(&engine), 0);
    let output = engine.step(NOW, vec![]);
    let came = ("a-0-next".to_owned(), "n".to_owned());
    assert_eq!(binds(&output), [came], "it leads now");
    engine.recount();
}
