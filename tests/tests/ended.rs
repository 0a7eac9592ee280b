//! What is told of work that ended: how many its members were, and what they asked, as far as its
//! owner says so still, or pods that are there. Fed by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    BindingNote, Input, OwnerEnd, OwnerFacts, OwnerPodSet, PodFacts, PodPhase,
};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{DEFAULT, GPU, TEAM, gang, in_queue, job, pods_of, shape, text};
use capstan_tests::hand::{bound, gpu_node, one_queue};

const NOW: Time = Time(1_000_000);

/// One queue and one node of eight GPUs.
fn engine(facts: impl IntoIterator<Item = Input>) -> Engine {
    let mut engine = Engine::new();
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 8)]);
    engine.step(NOW, ground.chain(facts).collect());
    engine
}

/// Names and sizes of its pod sets, its GPUs, and how many of its members ended.
fn told(engine: &Engine, name: &str) -> (Vec<(String, u32)>, i64, u32) {
    let details = engine.details(&text(TEAM), &text(name)).expect("it is there");
    let sets = details.view.pod_sets.iter().map(|set| (set.name.to_string(), set.count));
    (sets.collect(), details.view.gpus, details.ended)
}

fn main_set(count: u32) -> Vec<(String, u32)> {
    vec![("main".to_owned(), count)]
}

/// A Job of two pods with four GPUs each, of which so many ended, as it counts them.
fn two(ended: u32) -> OwnerFacts {
    let left = 2 - ended;
    let all = job("j", 2, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let pod_sets = vec![OwnerPodSet { count: left, ..all.pod_sets[0].clone() }];
    OwnerFacts {
        suspended: false,
        pod_sets,
        min_member: left.max(1),
        ended,
        left: Some(left),
        finished: (left == 0).then_some(OwnerEnd::Succeeded),
        ..all
    }
}

#[test]
fn a_job_tells_how_many_of_its_pods_ended_and_how_large_it_was() {
    let pods = pods_of(&two(0));
    let facts = pods.iter().map(|pod| bound(pod, "n"));
    let mut engine = engine(facts.chain([Input::Owner(two(0))]));
    assert_eq!(told(&engine, "j"), (main_set(2), 8, 0));
    let ends = |at: usize| Input::PodEnded { pod: pods[at].uid.clone(), well: true };
    engine.step(NOW, vec![ends(0)]);
    assert_eq!(told(&engine, "j"), (main_set(1), 4, 1), "before the Job counts it");
    engine.step(NOW, vec![Input::Owner(two(1))]);
    assert_eq!(told(&engine, "j"), (main_set(1), 4, 1), "and after");
    engine.step(NOW, vec![ends(1), Input::Owner(two(2))]);
    assert_eq!(told(&engine, "j"), (main_set(2), 8, 2));
    engine.recount();
    // Who leads next has never seen a pod of it.
    let next = self::engine([Input::Owner(two(2))]);
    assert_eq!(told(&next, "j"), (main_set(2), 8, 2));
    // One whose pods follow each other had as many as run at once.
    let many = OwnerFacts { ended: 100, replaces: 98, ..two(2) };
    assert_eq!(told(&self::engine([Input::Owner(many)]), "j"), (main_set(2), 8, 2));
}

/// Three members of gang `g`, made one after the other and bound at once, with two GPUs each.
fn three() -> Vec<PodFacts> {
    let mut pods = gang("g", 3, Some(3), &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    let flavors = Arc::new([(text(GPU), text(DEFAULT))].into());
    let note = Arc::new(BindingNote { flavors, ..BindingNote::default() });
    for (at, pod) in pods.iter_mut().enumerate() {
        (pod.created, pod.bound_at) = (Time(at as i64 * 1_000), Some(Time(3_000)));
        (pod.priority, pod.binding) = (7, Some(note.clone()));
    }
    pods
}

/// One that ended at a second, as the API shows it.
fn ended(pod: &PodFacts, phase: PodPhase, at: i64) -> Input {
    let (node, ended_at) = (Some(text("n")), Some(Time(at * 1_000)));
    Input::Pod(PodFacts { phase, node, ended_at, ..pod.clone() })
}

#[test]
fn pods_that_ended_tell_what_their_gang_was_like() {
    use PodPhase::{Failed, Succeeded};
    let pods = three();
    let all = |phases: [PodPhase; 3]| -> Vec<Input> {
        pods.iter().zip(phases).map(|(pod, phase)| ended(pod, phase, 9)).collect()
    };
    let mut one = engine(pods.iter().map(|pod| bound(pod, "n")));
    assert_eq!(told(&one, "g"), (main_set(3), 6, 0));
    one.step(NOW, vec![ended(&pods[0], Succeeded, 9)]);
    assert_eq!(told(&one, "g"), (main_set(2), 4, 1));
    one.step(NOW, all([Succeeded; 3]));
    one.recount();
    // So says who leads next and saw nothing run, however it ended.
    for engine in [one, engine(all([Succeeded; 3])), engine(all([Failed, Succeeded, Failed]))] {
        assert_eq!(told(&engine, "g"), (main_set(3), 6, 3));
        let view = engine.details(&text(TEAM), &text("g")).expect("it is there").view;
        assert_eq!((view.state, view.priority, view.min_member), (State::Finished, 7, 3));
        assert_eq!(&*view.pod_sets[0].flavors[GPU], DEFAULT);
    }
}
