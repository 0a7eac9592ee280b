//! A ClusterQueue that is being deleted: it admits nobody, is charged for what runs, and may go
//! once nobody holds quota in it. Fed by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::QueueView;
use capstan_core::model::input::{BindingNote, ClusterQueueFacts, Input, PodFacts, StopPolicy};
use capstan_core::plan::{Action, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, local_queue, namespace, nominal,
    pod, shape, text,
};
use capstan_tests::hand::{binds, bound, gpu_node, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

fn queue(name: &str, gpus: i64) -> ClusterQueueFacts {
    cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, nominal(gpus))])]))
}

fn deleted() -> ClusterQueueFacts {
    ClusterQueueFacts { deleted: Some(NOW), ..queue("main", 8) }
}

fn of(queue: &str, name: &str, gpus: i64) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)))
}

/// `main` of eight GPUs and `other` of four, in one cohort; half of `main` runs.
fn half_used(main: ClusterQueueFacts) -> Vec<Input> {
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(main),
        Input::ClusterQueue(queue("other", 4)),
        Input::LocalQueue(local_queue("main")),
        Input::LocalQueue(local_queue("other")),
        gpu_node("n", 16),
        bound(&of("main", "runs", 4), "n"),
    ]
}

fn main_of(engine: &Engine) -> QueueView {
    engine.queues().into_iter().find(|queue| &*queue.name == "main").expect("it is there")
}

fn evicts(output: &StepOutput) -> usize {
    output.effects.iter().filter(|it| matches!(it.action, Action::Evict { .. })).count()
}

fn names(bound: Vec<(String, String)>) -> Vec<String> {
    bound.into_iter().map(|(pod, _)| pod).collect()
}

#[test]
fn it_admits_nobody_and_what_runs_in_it_is_charged_until_it_ends() {
    // Told while it runs, or found so by a new engine: the same.
    for found in [false, true] {
        let mut engine = Engine::new();
        match found {
            false => {
                engine.step(NOW, half_used(queue("main", 8)));
                assert_eq!(main_of(&engine).inactive, None);
                engine.observe(after(1), vec![Input::ClusterQueue(deleted())]);
            }
            true => engine.observe(NOW, half_used(deleted())),
        }
        let work = [of("main", "late", 1), of("other", "fits", 8), of("other", "more", 1)];
        let output = engine.step(after(2), work.map(Input::Pod).to_vec());
        assert_eq!(names(binds(&output)), ["fits"], "only what nobody uses is lent");
        assert_eq!((evicts(&output), view(&engine, "runs").state), (0, State::Running));
        assert!(output.report.unused.is_empty());
        let late = view(&engine, "late").reason.expect("it waits");
        let want = "ClusterQueue main is being deleted; what it admitted runs on";
        assert_eq!((&*late.to_string(), late.code()), (want, "Suspended"));
        assert_eq!(view(&engine, "more").reason.expect("it waits").code(), "WaitingForQuota");
        let seen = main_of(&engine);
        assert_eq!((seen.admitted, seen.quotas[0].used, seen.quotas[0].nominal), (1, 4, 8));
        let why = seen.inactive.expect("it says so");
        assert!(matches!(why, Reason::Inactive { why: Inactive::Terminating, .. }), "{why}");
        engine.recount();

        let output = engine.step(after(3), vec![Input::PodGone(text("runs"))]);
        assert_eq!(output.report.unused, [text("main")], "it may go");
        assert_eq!(names(binds(&output)), ["more"], "its quota is lent for as long as it is there");
        assert_eq!(main_of(&engine).admitted, 0);
        let output = engine.step(after(4), Vec::new());
        assert_eq!(output.report.unused, [text("main")], "until it has gone");
        let output = engine.step(after(5), vec![Input::ClusterQueueGone(text("main"))]);
        assert!(output.report.unused.is_empty());
        let late = view(&engine, "late").reason.expect("it waits");
        assert!(matches!(late, Reason::ClusterQueueMissing { .. }), "{late}");
        engine.recount();
    }
}

#[test]
fn what_joins_a_gang_that_runs_in_it_waits() {
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut engine = Engine::new();
    let mut facts = half_used(deleted());
    facts.push(bound(&members[0], "n"));
    facts.push(Input::Pod(members[1].clone()));
    let output = engine.step(NOW, facts);
    assert_eq!(names(binds(&output)), [""; 0]);
    let Some(Reason::Extras { waiting: 1, then: Some(then) }) = view(&engine, "g").reason else {
        panic!("{:?}", view(&engine, "g").reason);
    };
    assert!(matches!(*then, Reason::Inactive { why: Inactive::Terminating, .. }), "{then}");
}

#[test]
fn one_that_is_drained_besides_stops_its_work_and_may_go() {
    let mut engine = Engine::new();
    engine.step(NOW, half_used(queue("main", 8)));
    let drained = ClusterQueueFacts { stop: StopPolicy::HoldAndDrain, ..deleted() };
    let output = engine.step(after(1), vec![Input::ClusterQueue(drained)]);
    assert_eq!((evicts(&output), output.report.unused.len()), (1, 0), "it holds until it is gone");
    let output = engine.step(after(2), vec![Input::PodGone(text("runs"))]);
    assert_eq!(output.report.unused, [text("main")]);
}

#[test]
fn one_that_is_not_deleted_after_all_is_another_and_admits() {
    let mut engine = Engine::new();
    let mut facts = half_used(deleted());
    facts.push(Input::Pod(of("main", "late", 1)));
    assert_eq!(names(binds(&engine.step(NOW, facts))), [""; 0]);
    // It was forced out, and made again under its name.
    let output = engine.step(after(1), vec![Input::ClusterQueue(queue("main", 8))]);
    assert_eq!(names(binds(&output)), ["late"]);
    assert_eq!(main_of(&engine).inactive, None);
    engine.recount();
}

/// What was admitted to it before this engine began runs on without a charge; it may go after that.
#[test]
fn one_of_which_nothing_can_be_read_is_used_by_what_it_admitted() {
    let mut engine = Engine::new();
    let unread = |engine: &Engine| engine.unread_queue(&text("main"));
    // One is in its LocalQueue; one says itself where it was admitted.
    let noted = of("gone", "noted", 1);
    let mut noted = match bound(&noted, "n") {
        Input::Pod(pod) => pod,
        other => unreachable!("{other:?}"),
    };
    let note = BindingNote { queue: Some(text("main")), ..BindingNote::default() };
    noted.binding = Some(Arc::new(note));
    let mut facts = half_used(queue("main", 8));
    facts.retain(|fact| !matches!(fact, Input::ClusterQueue(queue) if &*queue.name == "main"));
    facts.push(Input::Pod(noted));
    facts.push(bound(&of("other", "elsewhere", 1), "n"));
    engine.step(NOW, facts);
    assert_eq!(unread(&engine).admitted, 2);
    let why = unread(&engine).inactive;
    assert!(matches!(why, Some(Reason::Inactive { why: Inactive::Terminating, .. })), "{why:?}");
    engine.step(after(1), vec![Input::PodGone(text("runs"))]);
    assert_eq!(unread(&engine).admitted, 1);
    engine.step(after(2), vec![Input::PodGone(text("noted"))]);
    assert_eq!(unread(&engine).admitted, 0);
    engine.recount();
}
