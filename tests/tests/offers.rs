//! Ways to start work that is held for others, or forbidden to stop any: what `explain` offers is
//! what the engine does.
//!
//! Each test takes what the engine offers, does exactly that to the facts, and a little less.

use std::sync::Arc;

use capstan_core::explain::view::{Awaited, Change, Remedy};
use capstan_core::model::input::{
    ClusterQueueFacts, Input, OwnerFacts, PodFacts, PreemptReclaim, PreemptWithin,
    QueueingStrategy, Wishes,
};
use capstan_core::plan::State;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, job, local_queue, namespace,
    node, nominal, pod, shape,
};
use capstan_tests::play::Stage;

const HOUR: i64 = 3_600_000;

/// A queue in cohort `all` that owns GPUs.
fn queue(name: &str, gpus: i64) -> ClusterQueueFacts {
    cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, nominal(gpus))])]))
}

/// A pod of a queue that asks so many GPUs, of this priority.
fn work(queue: &str, name: &str, gpus: i64, priority: i32) -> PodFacts {
    let facts = pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)));
    PodFacts { priority, ..facts }
}

/// The same, and it says for how long it runs.
fn runs(facts: PodFacts, span: Option<Span>) -> PodFacts {
    let wishes = Wishes { expected_runtime: span, ..(*facts.wishes).clone() };
    PodFacts { wishes: Arc::new(wishes), ..facts }
}

/// Queues and nodes, with so many GPUs each.
fn stage<const N: usize>(nodes: [(&str, i64); N], queues: Vec<ClusterQueueFacts>) -> Stage {
    let mut stage = Stage::new(Time(HOUR));
    stage.add([namespace(), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add(nodes.map(|(name, gpus)| Input::Node(node(name, &[(GPU, gpus)]).into())));
    for queue in queues {
        stage.add([Input::LocalQueue(local_queue(&queue.name)), Input::ClusterQueue(queue)]);
    }
    stage.settle(|_| {});
    stage
}

/// Adds work, and lets the engine decide.
fn submit(stage: &mut Stage, pods: impl IntoIterator<Item = PodFacts>) {
    stage.add(pods.into_iter().map(Input::Pod));
    stage.settle(|_| {});
    stage.engine.recount();
}

fn starts(stage: &Stage, name: &str) -> bool {
    let views = stage.engine.workloads();
    let found = views.iter().find(|view| &*view.name == name).expect("it exists");
    found.state == State::Running
}

fn remedies(stage: &mut Stage, name: &str) -> Vec<Remedy> {
    let found = stage.engine.explain_workload(stage.now, TEAM, name).expect("it exists");
    stage.engine.recount();
    found.remedies
}

fn words(found: &[Remedy]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

fn reason(stage: &mut Stage, name: &str) -> String {
    let found = stage.engine.explain_workload(stage.now, TEAM, name).expect("it exists");
    found.workload.reason.expect("it waits").to_string()
}

/// Two nodes, one of them taken for two hours. `big` needs both then, and `small` would take a part
/// of one.
fn held(small: Option<Span>) -> Stage {
    let mut stage = stage([("a", 8), ("b", 8)], vec![queue("q", 16)]);
    let hours = |hours: i64| Some(Span(hours * HOUR));
    submit(&mut stage, [runs(work("q", "holder", 8, 0), hours(2))]);
    let big = gang("big", 2, None, &shape(&[(GPU, 8)]), &in_queue(Some("q")));
    submit(&mut stage, big.into_iter().map(|pod| runs(pod, hours(1))));
    submit(&mut stage, [runs(work("q", "small", 1, 0), small)]);
    stage
}

#[test]
fn the_longest_run_time_that_delays_no_reserved_start_is_told() {
    let mut waits = held(None);
    assert!(!starts(&waits, "small") && !starts(&waits, "big"));
    let found = remedies(&mut waits, "small");
    let [declare, wait] = &found[..] else { panic!("{found:#?}") };
    let longest = Span(2 * HOUR);
    let by = Time(3 * HOUR);
    assert_eq!(declare.change, Change::DeclareRunTime { at_most: longest, by });
    assert!(declare.preempts.is_empty() && declare.unless.is_none(), "{declare:?}");
    // Big runs for an hour then.
    assert_eq!(wait.change, Change::WaitUntil { at: Time(4 * HOUR), awaits: Awaited::Turn });
    for (run, started) in [(longest, true), (Span(longest.0 + 1_000), false), (Span(1), true)] {
        assert_eq!(starts(&held(Some(run)), "small"), started, "with {run}");
    }
}

#[test]
fn who_declares_too_long_a_run_time_is_told_a_shorter_one() {
    let mut waits = held(Some(Span(5 * HOUR)));
    let found = remedies(&mut waits, "small");
    let at_most = Span(2 * HOUR);
    let by = Time(3 * HOUR);
    assert_eq!(found[0].change, Change::DeclareRunTime { at_most, by });
    // Asking changed nothing of what it declares.
    submit(&mut waits, []);
    assert!(!starts(&waits, "small"));
    assert!(reason(&mut waits, "small").starts_with("runs for 5h"));
}

#[test]
fn what_only_waits_until_it_delays_nobody_is_not_told_of_ends_that_have_nothing_to_do_with_it() {
    let mut stage = stage([("a", 8), ("b", 8), ("c", 8)], vec![queue("q", 24)]);
    let hours = |hours: i64| Some(Span(hours * HOUR));
    submit(&mut stage, [runs(work("q", "holder", 8, 0), hours(2))]);
    submit(&mut stage, [runs(work("q", "long", 8, 0), hours(9))]);
    let big = gang("big", 2, None, &shape(&[(GPU, 8)]), &in_queue(Some("q")));
    submit(&mut stage, big.into_iter().map(|pod| runs(pod, hours(1))));
    submit(&mut stage, [work("q", "small", 1, 0)]);
    assert!(!starts(&stage, "small") && !starts(&stage, "big"));
    let found = remedies(&mut stage, "small");
    assert!(!found.iter().any(|it| matches!(it.change, Change::WaitFor { .. })), "{found:#?}");
    let turn = Change::WaitUntil { at: Time(4 * HOUR), awaits: Awaited::Turn };
    assert!(found.iter().any(|it| it.change == turn), "{found:#?}");
}

/// `head`, first of a strict queue, keeps back what it owns and `holder` borrows in part.
fn kept_back(own: i64) -> Stage {
    let mut strict = queue("a", 4);
    strict.strategy = QueueingStrategy::StrictFifo;
    strict.preemption.reclaim = PreemptReclaim::LowerPriority;
    let mut stage = stage([("n", 64)], vec![strict, queue("b", own)]);
    submit(&mut stage, [work("b", "holder", 6, 5)]);
    submit(&mut stage, [work("a", "head", 4, 0), work("b", "small", 1, 0)]);
    stage
}

#[test]
fn quota_is_raised_beside_what_a_head_keeps_back() {
    let mut waits = kept_back(4);
    assert!(!starts(&waits, "small") && !starts(&waits, "head"));
    assert!(reason(&mut waits, "small").contains("keeps 4 GPUs back"));
    let found = remedies(&mut waits, "small");
    let expected =
        ["raise nominalQuota of b by 3 GPUs (flavor default)", "wait for team/holder to end"];
    assert_eq!(words(&found), expected);
    assert_eq!(found[0].unless, None);
    for (own, started) in [(5, false), (6, false), (7, true)] {
        assert_eq!(starts(&kept_back(own), "small"), started, "with {own}");
    }
}

/// `big` asks five of a queue that may stop its own work of lower priority.
fn above(own: i64) -> Stage {
    let mut asks = queue("a", own);
    asks.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut stage = stage([("n", 64)], vec![asks, queue("b", 4)]);
    submit(&mut stage, [work("a", "low", 4, -1), work("b", "other", 4, 0)]);
    submit(&mut stage, [work("a", "big", 5, 5)]);
    stage
}

#[test]
fn the_least_raise_with_which_its_queue_may_preempt_is_told_beside_one_that_stops_nobody() {
    let mut waits = above(4);
    assert!(!starts(&waits, "big"));
    let words_of = reason(&mut waits, "big");
    let why = "its queue owns 4 GPUs, and who asks more preempts nobody";
    assert!(words_of.contains(why), "{words_of}");
    let found = remedies(&mut waits, "big");
    let expected = [
        "raise nominalQuota of a by 5 GPUs (flavor default)",
        "raise nominalQuota of a by 1 GPU (flavor default) and preempt team/low",
        "wait for team/low and team/other to end",
    ];
    assert_eq!(words(&found), expected);
    let raised = above(5);
    assert!(starts(&raised, "big") && starts(&raised, "other"));
    // Nobody is stopped with the larger one.
    let raised = above(9);
    assert!(starts(&raised, "big") && starts(&raised, "low") && starts(&raised, "other"));
}

/// `big` asks two more than the three that its queue uses, and may take back what others borrow.
fn reclaiming(own: i64) -> Stage {
    let mut asks = queue("a", own);
    asks.preemption.reclaim = PreemptReclaim::Any;
    let mut stage = stage([("n", 64)], vec![asks, queue("b", 4)]);
    submit(&mut stage, [work("a", "own", 3, 0), work("b", "guest", 5, 0)]);
    submit(&mut stage, [work("a", "big", 2, 0)]);
    stage
}

#[test]
fn the_least_raise_with_which_its_queue_may_reclaim_is_told_as_well() {
    let mut waits = reclaiming(4);
    assert!(!starts(&waits, "big"));
    let found = remedies(&mut waits, "big");
    let raises = [
        "raise nominalQuota of a by 2 GPUs (flavor default)",
        "raise nominalQuota of a by 1 GPU (flavor default) and preempt team/guest",
    ];
    assert_eq!(&words(&found)[..2], raises);
    assert!(starts(&reclaiming(5), "big") && starts(&reclaiming(6), "guest"));
}

#[test]
fn who_may_stop_nobody_at_all_is_not_told_that_it_asks_more_than_its_queue_owns() {
    let mut stage = stage([("n", 64)], vec![queue("a", 4), queue("b", 4)]);
    submit(&mut stage, [work("a", "low", 4, -1), work("b", "other", 4, 0)]);
    submit(&mut stage, [work("a", "big", 5, 5)]);
    let words_of = reason(&mut stage, "big");
    assert!(!words_of.contains("owns"), "{words_of}");
    let found = remedies(&mut stage, "big");
    let raises = found.iter().filter(|it| matches!(it.change, Change::RaiseQuota { .. }));
    assert_eq!(raises.count(), 1, "{found:#?}");
}

/// A Job in a queue of eight GPUs, four of which work of lower priority uses.
fn wide(pods: u32) -> Stage {
    wide_of(pods, None)
}

/// The same that states its minimum.
fn wide_of(pods: u32, stated: Option<u32>) -> Stage {
    let mut small = queue("q", 8);
    small.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut stage = stage([("n", 64)], vec![small]);
    submit(&mut stage, [work("q", "low", 4, 0)]);
    let facts = job("wide", pods, &shape(&[(GPU, 1)]), &in_queue(Some("q")));
    let (min_member, min_stated) = (stated.unwrap_or(pods), stated.is_some());
    stage.add([Input::Owner(OwnerFacts { priority: 10, min_member, min_stated, ..facts })]);
    submit(&mut stage, []);
    stage
}

#[test]
fn fewer_pods_that_stop_nobody_are_told_beside_more_that_do() {
    let mut waits = wide(10);
    assert!(!starts(&waits, "wide"));
    let found = remedies(&mut waits, "wide");
    let lower = &found[0];
    assert_eq!(lower.change, Change::LowerParallelism { pods: 4 }, "{found:#?}");
    assert!(lower.preempts.is_empty() && lower.first.is_none(), "{lower:?}");
    let fewer = found.iter().find(|it| it.change == Change::FewerPods { pods: 8 });
    assert_eq!(fewer.map(|fewer| fewer.preempts.len()), Some(1), "{found:#?}");
    for (pods, stays) in [(4, true), (5, false)] {
        let smaller = wide(pods);
        let low = smaller.pods.contains_key("low");
        assert_eq!((starts(&smaller, "wide"), low), (true, stays), "with {pods}");
    }
}

#[test]
fn no_fewer_pods_are_told_than_the_minimum_that_a_job_states() {
    let lowers = |stage: &mut Stage| {
        let found = remedies(stage, "wide");
        found.iter().any(|remedy| matches!(remedy.change, Change::LowerParallelism { .. }))
    };
    assert!(lowers(&mut wide_of(10, None)));
    for stated in [9, 10] {
        assert!(!lowers(&mut wide_of(10, Some(stated))), "{stated} must run together");
        assert!(!starts(&wide_of(4, Some(stated)), "wide"), "four are too few");
    }
}
