//! Remedies while heads of other queues wait: what `explain` says starts the workload whoever has a
//! turn before it, or it is said who must not go first.
//!
//! Each test takes what the engine offers, does exactly that to the facts, and a little less.

use std::sync::Arc;

use capstan_core::explain::view::Remedy;
use capstan_core::model::input::{
    ClusterQueueFacts, Input, PodFacts, PreemptReclaim, PreemptWithin, QueueingStrategy, Quota,
    Wishes,
};
use capstan_core::plan::State;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, local_queue, namespace, node,
    nominal, pod, shape,
};
use capstan_tests::play::Stage;

const HOUR: i64 = 3_600_000;

/// A queue in cohort `all` that owns GPUs.
fn queue(name: &str, gpus: Quota) -> ClusterQueueFacts {
    cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, gpus)])]))
}

/// A pod of a queue that asks so many GPUs, of this priority.
fn work(queue: &str, name: &str, gpus: i64, priority: i32) -> Input {
    let facts = pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)));
    Input::Pod(PodFacts { priority, ..facts })
}

/// The same of priority zero, and it says that it runs for so many hours.
fn lasting(queue: &str, name: &str, gpus: i64, hours: i64) -> Input {
    let expected_runtime = Some(Span(hours * HOUR));
    let wishes = Wishes { expected_runtime, ..(*in_queue(Some(queue))).clone() };
    Input::Pod(pod(name, &shape(&[(GPU, gpus)]), &Arc::new(wishes)))
}

/// The same for an hour.
fn brief(queue: &str, name: &str, gpus: i64) -> Input {
    lasting(queue, name, gpus, 1)
}

/// What runs in these queues on a node of 64 GPUs, and what waits then.
fn stage<const Q: usize, const R: usize, const W: usize>(
    queues: [ClusterQueueFacts; Q],
    runs: [Input; R],
    waits: [Input; W],
) -> Stage {
    let mut stage = Stage::new(Time(HOUR));
    let node = node("n", &[(GPU, 64)]);
    stage.add([namespace(), Input::Node(node.into()), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add(queues.each_ref().map(|queue| Input::LocalQueue(local_queue(&queue.name))));
    stage.add(queues.map(Input::ClusterQueue));
    stage.add(runs);
    stage.settle(|_| {});
    stage.add(waits);
    stage.settle(|_| {});
    stage
}

fn starts(stage: &Stage, name: &str) -> bool {
    let views = stage.engine.workloads();
    let found = views.iter().find(|view| &*view.name == name).expect("it exists");
    found.state == State::Running
}

fn remedies(stage: &mut Stage) -> Vec<Remedy> {
    let found = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it exists");
    stage.engine.recount();
    found.remedies
}

fn words(found: &[Remedy]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

/// `big` asks ten of a, which may borrow two. `other`, of b and of higher priority, asks four, and
/// one is left.
fn short(own: i64) -> Stage {
    short_beside(own, work("b", "b1", 3, 0))
}

/// The same while this runs in b.
fn short_beside(own: i64, runs: Input) -> Stage {
    let a = Quota { nominal: own, borrowing: Some(2), lending: None };
    let waits = [work("b", "other", 4, 9), work("a", "big", 10, 0)];
    stage([queue("a", a), queue("b", nominal(6))], [work("a", "a1", 2, 0), runs], waits)
}

#[test]
fn a_raise_is_enough_to_go_before_who_would_borrow_it() {
    let mut waits = short(0);
    assert!(!starts(&waits, "big") && !starts(&waits, "other"));
    let found = remedies(&mut waits);
    assert_eq!(words(&found), ["raise nominalQuota of a by 12 GPUs (flavor default)"]);
    assert_eq!(found[0].unless, None);
    // With less it borrows, and so does other, which has the higher priority.
    for (own, first) in [(10, false), (11, false), (12, true)] {
        let raised = short(own);
        let started = (starts(&raised, "big"), starts(&raised, "other"));
        assert_eq!(started, (first, !first), "with {own}");
    }
}

#[test]
fn who_has_its_start_reserved_may_take_a_raise_as_well() {
    // It starts once b1 ends: by then ten more would be enough for both, and now it borrows them.
    let waiting = |own| short_beside(own, brief("b", "b1", 3));
    let found = remedies(&mut waiting(0));
    assert_eq!(words(&found), ["raise nominalQuota of a by 12 GPUs (flavor default)"]);
    for (own, first) in [(10, false), (11, false), (12, true)] {
        let raised = waiting(own);
        let started = (starts(&raised, "big"), starts(&raised, "other"));
        assert_eq!(started, (first, !first), "with {own}");
    }
}

#[test]
fn who_stands_behind_another_in_its_queue_goes_after_the_heads_of_all_others() {
    // With twelve big would borrow nothing. But vast, which no quota here is enough for, has the
    // turn of a in the round in which other has that of b.
    let waiting = |own| {
        let a = Quota { nominal: own, borrowing: Some(2), lending: None };
        let runs = [work("a", "a1", 2, 0), work("b", "b1", 3, 0)];
        let waits = [work("a", "vast", 60, 5), work("b", "other", 4, 9), work("a", "big", 10, 0)];
        stage([queue("a", a), queue("b", nominal(6))], runs, waits)
    };
    let found = remedies(&mut waiting(0));
    let expected =
        "raise nominalQuota of a by 10 GPUs (flavor default), unless team/other goes first";
    assert_eq!(words(&found), [expected]);
    for own in [10, 12] {
        let raised = waiting(own);
        assert_eq!((starts(&raised, "big"), starts(&raised, "other")), (false, true), "with {own}");
    }
}

#[test]
fn who_takes_back_what_an_end_leaves_is_named() {
    let runs = || [work("a", "a1", 2, 0), work("b", "b1", 2, 0)];
    let waits = || [work("b", "another", 2, 0), work("a", "big", 2, 0)];
    let queues = |own| [queue("a", nominal(own)), queue("b", nominal(2))];
    let found = remedies(&mut stage(queues(2), runs(), waits()));
    let expected = [
        "raise nominalQuota of a by 2 GPUs (flavor default)",
        "wait for team/a1 to end",
        "wait for team/b1 to end, unless team/another goes first",
    ];
    assert_eq!(words(&found), expected, "the one that does not hold comes last");
    let unless: Vec<Option<&str>> = found.iter().map(|remedy| remedy.unless.as_deref()).collect();
    assert_eq!(unless, [None, None, Some("team/another")]);
    assert!(starts(&stage(queues(4), runs(), waits()), "big"), "with the raise");
    for (ended, first) in [("a1", true), ("b1", false)] {
        let mut stage = stage(queues(2), runs(), waits());
        stage.pods.remove(ended).expect("it runs");
        stage.add([Input::PodGone(ended.into())]);
        stage.settle(|_| {});
        let started = (starts(&stage, "big"), starts(&stage, "another"));
        assert_eq!(started, (first, !first), "without {ended}");
    }
}

#[test]
fn a_raise_is_found_that_leaves_alone_what_a_strict_head_keeps_back() {
    let waiting = |own| {
        let asks = Quota { nominal: own, borrowing: Some(2), lending: Some(0) };
        let mut strict = queue("strict", nominal(9));
        strict.strategy = QueueingStrategy::StrictFifo;
        let runs = [work("strict", "runs", 7, 0), work("asks", "own", 2, 0)];
        let waits = [work("strict", "head", 4, 9), work("asks", "big", 10, 0)];
        stage([queue("asks", asks), strict], runs, waits)
    };
    // With ten all would fit that it asks, and head, which goes before it, keeps four of them back:
    // both borrow then.
    let found = remedies(&mut waiting(0));
    assert_eq!(words(&found), ["raise nominalQuota of asks by 12 GPUs (flavor default)"]);
    for (own, first) in [(10, false), (11, false), (12, true)] {
        let raised = waiting(own);
        let started = (starts(&raised, "big"), starts(&raised, "head"));
        assert_eq!(started, (first, false), "with {own}");
    }
}

/// `ahead` asks five of b, and starts when b1 and b2 have ended, which leave six, while a borrows
/// two. `big` asks two more of a, and says not how long it runs.
fn held_for_a_start(own: i64) -> Stage {
    let runs = [lasting("b", "b1", 3, 3), lasting("b", "b2", 3, 4), work("a", "a1", 2, 0)];
    let waits = [brief("b", "ahead", 5), work("a", "big", 2, 0)];
    stage([queue("a", nominal(own)), queue("b", nominal(8))], runs, waits)
}

#[test]
fn a_start_that_is_sooner_with_a_raise_is_left_alone_too() {
    // With two more ahead borrows them once b1 has ended: big would have to leave them.
    let found = remedies(&mut held_for_a_start(0));
    let expected = [
        "raise nominalQuota of a by 4 GPUs (flavor default)",
        "wait for team/a1 to end, unless team/ahead goes first",
    ];
    assert_eq!(words(&found), expected);
    for (own, first) in [(2, false), (3, false), (4, true)] {
        let raised = held_for_a_start(own);
        let started = (starts(&raised, "big"), starts(&raised, "ahead"));
        assert_eq!(started, (first, false), "with {own}");
    }
    let mut stage = held_for_a_start(0);
    stage.pods.remove("a1").expect("it runs");
    stage.add([Input::PodGone("a1".into())]);
    stage.settle(|_| {});
    assert!(!starts(&stage, "big"), "without a1");
}

#[test]
fn a_start_that_only_a_raise_makes_possible_is_left_alone_too() {
    // All that b owns is what ahead asks, and a1, of which nobody knows when it ends, borrows two
    // of it. With two more ahead starts when b1 and b2 have ended, if big has not begun.
    let waiting = |own| {
        let runs = [lasting("b", "b1", 3, 3), lasting("b", "b2", 3, 4), work("a", "a1", 2, 0)];
        let waits = [brief("b", "ahead", 8), work("a", "big", 2, 0)];
        stage([queue("a", nominal(own)), queue("b", nominal(8))], runs, waits)
    };
    let found = remedies(&mut waiting(0));
    let raise = found.iter().find(|remedy| remedy.unless.is_none()).expect("there is one");
    let words = "raise nominalQuota of a by 4 GPUs (flavor default)";
    assert_eq!(raise.change.to_string(), words, "{found:?}");
    for (own, first) in [(2, false), (3, false), (4, true)] {
        assert_eq!(starts(&waiting(own), "big"), first, "with {own}");
    }
}

/// `kept` of c, which comes first, finds nobody to stop and keeps back for a round the GPU that it
/// may borrow. `big` of a asks eight; these wait, too.
fn kept_for_a_round<const W: usize>(own: i64, others: [Input; W]) -> Stage {
    let mut c = queue("c", Quota { nominal: 4, borrowing: Some(1), lending: None });
    c.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    c.preemption.reclaim = PreemptReclaim::LowerPriority;
    let runs = [work("b", "b1", 3, 9), work("c", "c1", 4, 9)];
    let waits = [work("c", "kept", 2, 9), work("a", "big", 8, 5)];
    let mut stage = stage([queue("a", nominal(own)), queue("b", nominal(4)), c], runs, []);
    stage.add(waits.into_iter().chain(others));
    stage.settle(|_| {});
    stage
}

#[test]
fn who_comes_behind_takes_a_raise_that_another_keeps_back_for_a_round() {
    let other = || [work("b", "other", 2, 0)];
    let found = remedies(&mut kept_for_a_round(0, other()));
    assert_eq!(words(&found)[0], "raise nominalQuota of a by 8 GPUs (flavor default)", "{found:?}");
    assert_eq!(found[0].unless, None);
    // With seven it would fit beside nobody but kept, which keeps one of them.
    for (own, first) in [(6, false), (7, false), (8, true)] {
        let raised = kept_for_a_round(own, other());
        let started = (starts(&raised, "big"), starts(&raised, "other"));
        assert_eq!(started, (first, !first), "with {own}");
    }
}

#[test]
fn a_raise_that_another_keeps_back_for_a_round_is_enough_for_the_next() {
    let found = remedies(&mut kept_for_a_round(0, []));
    assert_eq!(words(&found)[0], "raise nominalQuota of a by 7 GPUs (flavor default)", "{found:?}");
    assert_eq!(found[0].unless, None);
    for (own, first) in [(6, false), (7, true)] {
        assert_eq!(starts(&kept_for_a_round(own, []), "big"), first, "with {own}");
    }
}

/// Of the four GPUs that a and b lend three are in use, and `big` of a asks two. `above` of c
/// starts when c1 has ended, on the node that d1 and c1 share, and `ahead` of b once that has.
fn before_another(own: i64) -> Stage {
    let lends_none = Quota { nominal: 3, borrowing: None, lending: Some(0) };
    let queues = [
        queue("a", nominal(own)),
        queue("b", nominal(2)),
        queue("c", lends_none),
        queue("d", nominal(0)),
    ];
    let mut stage = Stage::new(Time(HOUR));
    stage.add([namespace(), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add(queues.each_ref().map(|queue| Input::LocalQueue(local_queue(&queue.name))));
    stage.add(queues.map(Input::ClusterQueue));
    stage.add([Input::Node(node("one", &[(GPU, 2)]).into()), lasting("a", "a1", 2, 3)]);
    stage.settle(|_| {});
    stage.add([Input::Node(node("two", &[(GPU, 4)]).into())]);
    stage.add([lasting("c", "c1", 1, 6), lasting("d", "d1", 1, 1)]);
    stage.settle(|_| {});
    let waits = [lasting("c", "above", 4, 6), lasting("b", "ahead", 3, 3)];
    stage.add(waits.into_iter().chain([lasting("a", "big", 2, 6)]));
    stage.settle(|_| {});
    stage
}

#[test]
fn a_start_that_a_raise_brings_forward_before_others_start_is_left_alone() {
    // With one more ahead starts once d1 has ended, and is through before above starts.
    let found = remedies(&mut before_another(2));
    let expected = [
        "raise nominalQuota of a by 2 GPUs (flavor default)",
        "wait for team/a1 to end",
        "raise lendingLimit of c by 1 GPU (flavor default), unless team/ahead goes first",
    ];
    assert_eq!(words(&found), expected);
    for (own, first) in [(2, false), (3, false), (4, true)] {
        let raised = before_another(own);
        let started = (starts(&raised, "big"), starts(&raised, "ahead"));
        assert_eq!(started, (first, false), "with {own}");
    }
}
