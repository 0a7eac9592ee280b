//! What the engine tells of what work goes through, and how many of what it counts.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::census::{CohortQuota, Limits, Tally};
use capstan_core::explain::milestone::{Passage, Stop};
use capstan_core::model::input::{
    Input, LocalQueueFacts, OwnerEnd, OwnerFacts, PodFacts, PodPhase, PreemptReclaim, Quota,
    StopPolicy, Wishes,
};
use capstan_core::plan::{PreemptionReason, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, cohort, flavor, gang, group, in_queue, job, local_queue,
    namespace, node, nominal, pod, pods_of, shape, text,
};
use capstan_tests::play::Stage;
use capstan_tests::seed::Seed;

/// A time of day, in seconds.
fn second(at: i64) -> Time {
    Time(at * 1_000)
}

/// Two queues of a cohort with four GPUs each, on one node; `own` takes back what it lent.
fn ground() -> Vec<Input> {
    let quota = |name| {
        let limit = Quota { borrowing: Some(4), lending: Some(3), ..nominal(4) };
        cluster_queue(name, Some("left"), group(&[(DEFAULT, &[(GPU, limit)])]))
    };
    let mut own = quota("own");
    own.preemption.reclaim = PreemptReclaim::Any;
    vec![
        namespace(),
        Input::Node(node("a", &[(GPU, 8), ("cpu", 64_000)]).into()),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::WorkloadPriorityClass { name: text("high"), value: 100 },
        Input::Cohort(cohort("left", Some("root"))),
        Input::ClusterQueue(own),
        Input::ClusterQueue(quota("guest")),
        Input::LocalQueue(local_queue("own")),
        Input::LocalQueue(local_queue("guest")),
    ]
}

fn stage() -> Stage {
    let mut stage = Stage::new(second(100));
    stage.add(ground());
    stage.settle(|_| {});
    stage
}

fn gpus(name: &str, count: i64, queue: &str) -> PodFacts {
    let mut pod = pod(name, &shape(&[(GPU, count)]), &in_queue(Some(queue)));
    pod.created = second(90);
    pod
}

fn of_class(mut pod: PodFacts, class: &str) -> PodFacts {
    let priority_class = Some(text(class));
    pod.wishes = Arc::new(Wishes { priority_class, ..(*pod.wishes).clone() });
    pod
}

/// Queue, class and what was passed, of all steps.
fn told(outputs: &[StepOutput]) -> Vec<(String, String, Passage)> {
    let all = outputs.iter().flat_map(|output| &output.report.milestones);
    let short = |it: &capstan_core::explain::milestone::Milestone| {
        let word = |name: &Option<_>| name.as_deref().unwrap_or("-").to_owned();
        assert_eq!(it.of.local_queue, it.of.cluster_queue, "they have the same names here");
        (word(&it.of.cluster_queue), word(&it.of.priority_class), it.what.clone())
    };
    all.map(short).collect()
}

fn play(stage: &mut Stage, at: i64, inputs: impl IntoIterator<Item = Input>) -> Vec<StepOutput> {
    stage.now = second(at);
    stage.add(inputs);
    stage.settle(|_| {})
}

fn passed(queue: &str, class: &str, what: Passage) -> (String, String, Passage) {
    (queue.to_owned(), class.to_owned(), what)
}

#[test]
fn work_is_admitted_gets_ready_and_ends_once_each() {
    let mut stage = stage();
    let work = of_class(gpus("p", 4, "own"), "high");
    let outputs = play(&mut stage, 100, [Input::Pod(work.clone())]);
    let waited = Span::seconds(10);
    let ready = Passage::Ready { waited, admitted: Span(0) };
    let expected = [Passage::Admitted { waited }, ready].map(|what| passed("own", "high", what));
    assert_eq!(told(&outputs), expected);
    assert_eq!(told(&play(&mut stage, 110, [])), []);
    let mut ended = stage.pods[&work.uid].clone();
    ended.phase = PodPhase::Succeeded;
    let outputs = play(&mut stage, 160, [Input::Pod(ended.clone())]);
    let ran = Span::seconds(60);
    assert_eq!(told(&outputs), [passed("own", "high", Passage::Finished { ran })]);
    assert_eq!(told(&play(&mut stage, 170, [Input::Pod(ended)])), []);
}

#[test]
fn a_class_that_nobody_made_names_no_series() {
    let mut stage = stage();
    let outputs = play(&mut stage, 100, [Input::Pod(of_class(gpus("p", 4, "own"), "hihg"))]);
    assert!(told(&outputs).iter().all(|(_, class, _)| class == "-"));
}

#[test]
fn work_without_a_class_of_its_own_has_that_of_its_pods() {
    let urgent = |mut pod: PodFacts| {
        let pod_class = Some(text("urgent"));
        pod.wishes = Arc::new(Wishes { pod_class, ..(*pod.wishes).clone() });
        pod
    };
    let rows = [
        (gpus("p", 4, "own"), "urgent"),
        (of_class(gpus("p", 4, "own"), "high"), "high"),
        (of_class(gpus("p", 4, "own"), "hihg"), "urgent"),
    ];
    for (pod, shown) in rows {
        let outputs = play(&mut stage(), 100, [Input::Pod(urgent(pod))]);
        let told = told(&outputs);
        assert!(!told.is_empty() && told.iter().all(|(_, class, _)| class == shown), "{told:?}");
    }
}

#[test]
fn a_stop_is_told_when_it_is_decided_and_when_all_is_free() {
    let mut stage = stage();
    play(&mut stage, 100, [Input::Pod(of_class(gpus("stays", 4, "guest"), "high"))]);
    // One GPU is left: what comes needs all that is lent, and starts when the last pod has left.
    let lent = job("lent", 3, &shape(&[(GPU, 1)]), &in_queue(Some("guest")));
    play(&mut stage, 110, [Input::Owner(lent)]);
    stage.lingers = Some(Seed::new(7));
    let outputs = play(&mut stage, 130, [Input::Pod(gpus("mine", 4, "own"))]);
    let told = told(&outputs);
    let reason = PreemptionReason::InCohortReclamation;
    let stop =
        |first| Passage::Evicted(Box::new(Stop { reason, preempting: Some(text("own")), first }));
    let evicted: Vec<_> = told.iter().filter(|it| matches!(it.2, Passage::Evicted(_))).collect();
    assert_eq!(evicted, [&passed("guest", "-", stop(true))], "{told:?}");
    let left = passed("guest", "-", Passage::Left { reason: reason.into(), took: Span(0) });
    assert_eq!(told.iter().filter(|it| **it == left).count(), 1, "{told:?}");
    let order = |what: &(String, String, Passage)| told.iter().position(|it| it == what);
    let admitted = passed("own", "-", Passage::Admitted { waited: Span::seconds(40) });
    assert!(order(evicted[0]) < order(&left) && order(&left) < order(&admitted), "{told:?}");
    assert!(!told.iter().any(|it| matches!(it.2, Passage::Finished { .. })), "{told:?}");
}

#[test]
fn the_second_stop_of_a_job_is_not_its_first_and_its_runs_add_up() {
    let mut stage = stage();
    let lent = job("lent", 3, &shape(&[(GPU, 2)]), &in_queue(Some("guest")));
    play(&mut stage, 100, [Input::Owner(lent.clone())]);
    let mut firsts = Vec::new();
    for (at, name) in [(110, "one"), (130, "two")] {
        let outputs = play(&mut stage, at, [Input::Pod(gpus(name, 4, "own"))]);
        firsts.extend(told(&outputs).into_iter().filter_map(|it| match it.2 {
            Passage::Evicted(stop) => Some(stop.first),
            _ => None,
        }));
        stage.pods.remove(&text(name));
        play(&mut stage, at + 10, [Input::PodGone(text(name))]);
    }
    assert_eq!(firsts, [true, false]);
    // It ran 10 s, 10 s, and 20 s more.
    let done =
        OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..stage.owners[&lent.uid].clone() };
    let outputs = play(&mut stage, 160, [Input::Owner(done)]);
    let ran = Span::seconds(40);
    assert_eq!(told(&outputs), [passed("guest", "-", Passage::Finished { ran })]);
}

/// Each reason has a first stop of its own, and a new leader knows which were.
#[test]
fn who_was_stopped_for_others_is_stopped_the_first_time_when_its_queue_is_drained() {
    let mut stage = stage();
    let lent = job("lent", 3, &shape(&[(GPU, 2)]), &in_queue(Some("guest")));
    play(&mut stage, 100, [Input::Owner(lent)]);
    let mut all = play(&mut stage, 110, [Input::Pod(gpus("one", 4, "own"))]);
    stage.pods.remove(&text("one"));
    play(&mut stage, 120, [Input::PodGone(text("one"))]);
    let mut next = stage.restarted();
    next.settle(|_| {});
    let drained = |stop| Input::LocalQueue(LocalQueueFacts { stop, ..local_queue("guest") });
    for (at, stop) in [(130, StopPolicy::HoldAndDrain), (140, StopPolicy::None)] {
        all.extend(play(&mut next, at, [drained(stop)]));
    }
    all.extend(play(&mut next, 150, [drained(StopPolicy::HoldAndDrain)]));
    let stops = told(&all).into_iter().filter_map(|it| match it.2 {
        Passage::Evicted(stop) => Some((stop.reason.as_str(), stop.first)),
        _ => None,
    });
    let stops: Vec<(&str, bool)> = stops.collect();
    let drained = "LocalQueueStopped";
    assert_eq!(stops, [("InCohortReclamation", true), (drained, true), (drained, false)]);
}

#[test]
fn an_engine_tells_nothing_of_what_the_one_before_it_saw_and_goes_on_from_there() {
    let mut stage = stage();
    let mut work = gpus("p", 4, "own");
    play(&mut stage, 100, [Input::Pod(work.clone())]);
    work = stage.pods[&work.uid].clone();
    let mut next = stage.restarted();
    next.now = second(150);
    assert_eq!(told(&next.settle(|_| {})), [], "it was admitted and ready before");
    work.phase = PodPhase::Failed;
    let outputs = play(&mut next, 200, [Input::Pod(work.clone())]);
    let ran = Span::seconds(100);
    assert_eq!(told(&outputs), [passed("own", "-", Passage::Finished { ran })]);
    // Who only observes tells nothing, nor later what it observed.
    let mut idle = Engine::new();
    idle.observe(second(300), stage.shown());
    idle.observe(second(301), vec![Input::Pod(work)]);
    let output = idle.step(second(302), Vec::new());
    assert_eq!(told(&[output]), []);
}

/// Its Job was resumed a moment ago: none of its pods has a node yet, and some are still to come.
#[test]
fn what_an_engine_before_this_one_resumed_is_not_admitted_twice() {
    let count = |outputs: &[StepOutput], which: fn(&Passage) -> bool| {
        told(outputs).iter().filter(|it| which(&it.2)).count()
    };
    let admitted: fn(&Passage) -> bool = |what| matches!(what, Passage::Admitted { .. });
    for lingers in [None, Some(Seed::new(7))] {
        let mut stage = stage();
        stage.lingers = lingers;
        let train = job("train", 2, &shape(&[(GPU, 1)]), &in_queue(Some("own")));
        stage.add([Input::Owner(train)]);
        assert_eq!(count(&[stage.step()], admitted), 1);
        let mut next = stage.restarted();
        next.now = second(110);
        let outputs = next.settle(|_| {});
        assert_eq!(count(&outputs, admitted), 0, "{:?}", told(&outputs));
        assert_eq!(count(&outputs, |what| matches!(what, Passage::Ready { .. })), 1);
    }
}

/// A pod of a Job fails, and the Job makes another: it is done when it says so.
#[test]
fn a_job_that_makes_a_pod_anew_is_admitted_and_finished_once() {
    let mut stage = stage();
    let train = job("train", 1, &shape(&[(GPU, 1)]), &in_queue(Some("own")));
    let mut all = play(&mut stage, 100, [Input::Owner(train.clone())]);
    let phase = PodPhase::Failed;
    let first = stage.pods.values().next().expect("it was made").clone();
    all.extend(play(&mut stage, 200, [Input::Pod(PodFacts { phase, ..first })]));
    let (name, created) = (text("next"), second(210));
    let next = PodFacts { uid: name.clone(), name, created, ..pods_of(&train)[0].clone() };
    all.extend(play(&mut stage, 210, [Input::Pod(next.clone())]));
    let next = stage.pods[&next.uid].clone();
    assert!(next.node.is_some(), "it runs");
    all.extend(play(&mut stage, 300, [Input::Pod(PodFacts { phase, ..next })]));
    let done =
        OwnerFacts { finished: Some(OwnerEnd::Failed(None)), ..stage.owners[&train.uid].clone() };
    all.extend(play(&mut stage, 310, [Input::Owner(done)]));
    let told = told(&all);
    let passed: Vec<&Passage> = told.iter().map(|it| &it.2).collect();
    // It held quota all the time, also while it had no pod.
    let [Passage::Admitted { .. }, Passage::Ready { .. }, Passage::Finished { ran }] = passed[..]
    else {
        panic!("{passed:?}");
    };
    assert_eq!(*ran, Span::seconds(210));
}

#[test]
fn everything_is_counted_by_queue_and_by_why() {
    let mut stage = stage();
    play(&mut stage, 100, [Input::Pod(gpus("runs", 4, "own"))]);
    let waits = [gpus("large", 8, "guest"), gpus("later", 7, "own")].map(Input::Pod);
    play(&mut stage, 110, waits);
    let part = gang("part", 2, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("own")));
    play(&mut stage, 110, part.into_iter().map(Input::Pod));
    let census = stage.engine.census(true);
    let own = Tally {
        active: 0,
        inadmissible: 2,
        admitted: 1,
        finished: 0,
        why: [("Gathering", 1), ("WaitingForQuota", 1)].into(),
        asked: [(text(GPU), 9)].into(),
    };
    assert_eq!(census.queues[&text("own")], own);
    let local = &census.local_queues[&(text("team"), text("own"))];
    assert_eq!(local, &Tally { asked: Default::default(), ..own });
    let guest = &census.queues[&text("guest")];
    assert_eq!((guest.inadmissible, guest.admitted), (1, 0));
    assert_eq!(guest.why, [("ExceedsMaxQuota", 1)].into(), "it may have seven at most");
    assert_eq!(census.queues[&text("")], Tally::default());
    assert_eq!(stage.engine.census(false).queues[&text("own")].asked, Default::default());
}

#[test]
fn the_quota_tree_is_told_with_its_limits_and_sums() {
    let mut stage = stage();
    play(&mut stage, 100, [gpus("a", 4, "own"), gpus("b", 3, "guest")].map(Input::Pod));
    let census = stage.engine.census(false);
    let names: Vec<&str> = census.cohorts.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["left", "root"], "one of them has no object");
    let [left, root] = &census.cohorts[..] else { unreachable!() };
    assert_eq!((left.parent.as_deref(), &*left.root), (Some("root"), "root"));
    assert_eq!((&root.parent, &*root.root), (&None, "root"));
    // Each lends three of its four.
    let amounts = CohortQuota { flavor: text(DEFAULT), resource: text(GPU), quota: 6, reserved: 7 };
    for tally in [left, root] {
        assert_eq!((tally.admitted, &tally.quotas[..]), (2, &[amounts.clone()][..]));
    }
    let shape = census.shapes.iter().find(|shape| &*shape.name == "guest").expect("it exists");
    assert_eq!(shape.cohorts, [text("left"), text("root")]);
    let limits = Limits {
        flavor: text(DEFAULT),
        resource: text(GPU),
        borrowing: Some(4),
        lending: Some(3),
        reserved: 3,
    };
    assert_eq!(shape.limits, [limits]);
}

#[test]
fn a_milestone_is_small_for_a_step_may_tell_thousands() {
    use capstan_core::explain::milestone::Milestone;
    assert!(size_of::<Milestone>() <= 32, "{}", size_of::<Milestone>());
}
