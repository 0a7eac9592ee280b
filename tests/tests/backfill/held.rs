//! Who is held: how much of it is found out in a step, and who is looked at again. Of whom a start
//! is reserved while many wait, elsewhere.

use capstan_core::calendar::Period;
use capstan_core::model::input::{Enforcement, NodeFacts, PodShape, SpendingLimit};
use capstan_core::plan::StepOutput;
use capstan_tests::facts::labels;

use super::*;

const CPU: &str = "cpu";
/// Different shapes that are held.
const SHAPES: i64 = 600;
/// No step may play more timetables than about this for them.
const PLAYS: u64 = 520;

/// Two nodes, one of them full until minute 120, and a gang that needs both; one GPU each is asked
/// by many others that say not how long they run, each with another amount of CPU.
fn crowd() -> (Stage, Vec<StepOutput>) {
    let mut stage = stage(&[]);
    stage.add(["a", "b"].map(|name| Input::Node(node(name, &[(GPU, 8), (CPU, 1 << 40)]).into())));
    for part in ["long-1", "long-2"] {
        submit(&mut stage, work(part, (1, 4), Some(120)));
    }
    submit(&mut stage, work("big", (2, 8), Some(30)));
    assert_eq!(reserved(&stage, "big"), Some(120));
    let wishes = wishes(None, None);
    let small = (0..SHAPES).map(|at| {
        let mut small =
            pod(&format!("small-{at:03}"), &shape(&[(GPU, 1), (CPU, needs(at))]), &wishes);
        small.created = stage.now.plus(Span(at));
        Input::Pod(small)
    });
    let small: Vec<Input> = small.collect();
    stage.add(small);
    let outputs = stage.settle(|_| {});
    stage.engine.recount();
    (stage, outputs)
}

/// Who comes later needs less.
fn needs(at: i64) -> i64 {
    2 * SHAPES - at
}

fn plays(outputs: &[StepOutput]) -> Vec<u64> {
    outputs.iter().map(|output| output.report.counts.plays).collect()
}

fn small_ones(stage: &Stage) -> Vec<WorkloadView> {
    let views = stage.engine.workloads();
    views.into_iter().filter(|view| view.name.starts_with("small")).collect()
}

fn held_until(stage: &Stage, minute: i64) -> usize {
    let is_held = |view: &WorkloadView| match &view.reason {
        Some(Reason::Reserved { head, start, .. }) => {
            &**head == "team/big" && start.0 / MINUTE - 1_000 == minute
        }
        _ => false,
    };
    small_ones(stage).iter().filter(|view| is_held(view)).count()
}

#[test]
fn a_step_plays_so_many_timetables_and_all_are_looked_at_in_turn() {
    let (_, outputs) = crowd();
    let plays = plays(&outputs);
    assert!(plays.iter().all(|plays| *plays <= PLAYS), "{plays:?}");
    assert!(plays.iter().sum::<u64>() >= SHAPES as u64, "each is looked at: {plays:?}");
    let (stage, _) = crowd();
    assert_eq!(held_until(&stage, 120), SHAPES as usize);
}

/// What somebody leaves for whom the room is kept is nothing to others; they are told when the head
/// starts sooner for it.
#[test]
fn an_end_that_leaves_nothing_to_them_plays_nothing_for_those_who_are_held() {
    let (mut stage, _) = crowd();
    stage.now = Time((1_000 + 10) * MINUTE);
    // What is free beside big is noted when all were looked at once.
    stage.pods.remove("long-1").expect("it runs");
    stage.add([Input::PodGone("long-1".into())]);
    stage.settle(|_| {});
    submit(&mut stage, work("short", (1, 4), Some(20)));
    assert!(runs(&stage, "short"), "it has ended by then");
    at(&mut stage, 15);
    stage.drop_pod(&"short".into());
    let outputs = stage.settle(|_| {});
    assert_eq!(plays(&outputs).iter().sum::<u64>(), 0, "{:?}", plays(&outputs));
    assert_eq!(held_until(&stage, 120), SHAPES as usize);
    stage.drop_pod(&"long-2".into());
    stage.settle(|_| {});
    assert!(runs(&stage, "big"));
    stage.engine.recount();
}

/// A node that only the last of them fits on: it has its turn.
#[test]
fn nobody_who_is_held_starves() {
    let (mut stage, _) = crowd();
    let last = node("c", &[(GPU, 4), (CPU, needs(SHAPES - 1))]);
    stage.add([Input::Node(last.into())]);
    let outputs = stage.settle(|_| {});
    assert!(plays(&outputs).iter().all(|plays| *plays <= PLAYS), "{:?}", plays(&outputs));
    assert!(runs(&stage, &format!("small-{:03}", SHAPES - 1)));
    assert_eq!(small_ones(&stage).iter().filter(|view| view.state == State::Running).count(), 1);
    assert_eq!(reserved(&stage, "big"), Some(120));
    // What looks at them bit by bit finds no end by itself.
    assert_eq!(plays(&stage.settle(|_| {})), [0]);
}

#[test]
fn who_is_held_is_told_of_a_start_that_is_sooner() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit(&mut stage, work("fits", (1, 4), Some(30)));
    submit(&mut stage, work("silent", (1, 4), None));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 120)));
    stage.drop_pod(&"long".into());
    at(&mut stage, 70);
    assert_eq!(reserved(&stage, "big"), Some(90), "as soon as fits ends");
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 90)));
}

/// Heads of strict queues are never parked.
#[test]
fn the_head_of_a_strict_queue_is_held_and_starts_in_its_time() {
    let mut stage = stage(&["a", "b"]);
    let strict = ClusterQueueFacts {
        strategy: QueueingStrategy::StrictFifo,
        ..queue("strict", None, nominal(16))
    };
    add_queue(&mut stage, strict);
    add_queue(&mut stage, queue("main", None, nominal(16)));
    submit(&mut stage, work_in("long", (1, 8), Some(120), Some("main")));
    submit(&mut stage, work_in("one", (2, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "one"), Some(120));
    at(&mut stage, 60);
    submit(&mut stage, work_in("held", (1, 4), Some(100), Some("strict")));
    assert_eq!(held_for(&stage, "held"), Some(("team/one".into(), 120)));
    for minute in [120, 150, 180] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "held"));
}

/// Of eight GPUs two are free. `head` borrows, and is to start at minute 10; once `ends` has ended
/// `small` would borrow nothing, and goes before it: then nobody has to be held for `head`, which
/// starts at 30 then, as soon as `short` has ended.
#[test]
fn the_head_of_a_strict_queue_is_looked_at_again_once_the_start_it_is_held_for_is_put_off() {
    let mut stage = stage(&["a", "b"]);
    for name in ["left", "right"] {
        let strategy = QueueingStrategy::StrictFifo;
        add_queue(
            &mut stage,
            ClusterQueueFacts { strategy, ..queue(name, Some("all"), nominal(4)) },
        );
    }
    submit(&mut stage, work_in("ends", (1, 2), Some(10), Some("left")));
    submit(&mut stage, work_in("short", (1, 1), Some(30), Some("left")));
    submit(&mut stage, work_in("long", (1, 1), Some(60), Some("left")));
    submit(&mut stage, work_in("other", (1, 2), Some(60), Some("right")));
    submit(&mut stage, work_in("head", (1, 3), Some(30), Some("right")));
    assert_eq!(reserved(&stage, "head"), Some(10));
    submit(&mut stage, work_in("small", (1, 2), None, Some("left")));
    assert_eq!((runs(&stage, "small"), reserved(&stage, "head")), (true, Some(30)));
}

/// Nodes of a pool, a flavor of it, and queues that have its GPUs.
fn pools(most: u32) -> Stage {
    let mut stage = stage(&[]);
    let reservations = Some(Reserving { most, ..Reserving::default() });
    stage.add([Input::Policy(Policy { reservations, ..Policy::default() }.into())]);
    for pool in ["left", "right"] {
        stage.add([Input::Flavor(flavor(pool, &[("pool", pool)]))]);
    }
    stage
}

fn pool_node(name: &str, pool: &str, amounts: &[(&str, i64)]) -> Input {
    let labels = labels(&[("kubernetes.io/hostname", name), ("pool", pool)]);
    Input::Node(NodeFacts { labels, ..node(name, amounts) }.into())
}

fn pool_queue(stage: &mut Stage, name: &str, pool: &str, resource: &str, has: i64) {
    let facts = cluster_queue(name, Some("all"), group(&[(pool, &[(resource, nominal(has))])]));
    stage.add([Input::LocalQueue(local_queue(name)), Input::ClusterQueue(facts)]);
}

#[test]
fn heads_of_another_pool_take_no_reservation() {
    let mut stage = pools(2);
    for (name, pool) in [("a", "left"), ("b", "right"), ("c", "right")] {
        stage.add([pool_node(name, pool, &[(GPU, 8)])]);
    }
    for (name, pool) in [("one", "right"), ("two", "right"), ("three", "right"), ("four", "left")] {
        pool_queue(&mut stage, name, pool, GPU, 64);
    }
    submit(&mut stage, work_in("y", (2, 8), Some(60), Some("one")));
    submit(&mut stage, work_in("x", (1, 8), Some(90), Some("four")));
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        at(&mut stage, 1 + number as i64);
        submit(&mut stage, work_in(&format!("head-{name}"), (2, 8), Some(30), Some(name)));
    }
    at(&mut stage, 10);
    submit(&mut stage, work_in("gang", (1, 8), Some(30), Some("four")));
    assert_eq!(reserved(&stage, "gang"), Some(90), "those of the other pool are no others of it");
    assert_eq!((reserved(&stage, "head-one"), reserved(&stage, "head-two")), (Some(60), Some(90)));
    let third = view(&stage, "head-three");
    assert_eq!((third.reserved, third.unreserved), (None, Some(Unreserved::Limit { most: 2 })));
    // It has one as soon as another of its pool has started.
    at(&mut stage, 60);
    assert!(runs(&stage, "head-one"));
    let third = view(&stage, "head-three");
    assert_eq!((reserved(&stage, "head-three"), third.unreserved), (Some(120), None));
    // Who would delay some of one pool only waits for none of the other.
    submit(&mut stage, work_in("silent", (1, 4), None, Some("four")));
    assert!(held_for(&stage, "silent").is_none() && !runs(&stage, "silent"), "there is no room");
    at(&mut stage, 90);
    assert!(runs(&stage, "gang") && runs(&stage, "head-two"));
    at(&mut stage, 120);
    assert!(runs(&stage, "head-three"));
}

fn in_pool(mut pods: Vec<PodFacts>, pool: &str) -> Vec<PodFacts> {
    for pod in &mut pods {
        let node_selector = labels(&[("pool", pool)]);
        pod.shape = PodShape { node_selector, ..(*pod.shape).clone() }.into();
    }
    pods
}

/// Its queue has one budget for all pools.
#[test]
fn nobody_spends_what_the_head_of_its_queue_needs_in_another_pool() {
    let mut stage = pools(1);
    for (name, pool) in [("a", "left"), ("b", "left"), ("c", "right"), ("d", "right")] {
        stage.add([pool_node(name, pool, &[(GPU, 8)])]);
    }
    let both = group(&[("left", &[(GPU, nominal(16))]), ("right", &[(GPU, nominal(16))])]);
    let (period, enforcement) = (Period::Day, Enforcement::Hard);
    let spending =
        Some(SpendingLimit { usd: None, gpu_seconds: Some(16 * 3_600), period, enforcement });
    let facts = ClusterQueueFacts { spending, ..cluster_queue("main", None, both) };
    stage.add([Input::LocalQueue(local_queue("main")), Input::ClusterQueue(facts)]);
    pool_queue(&mut stage, "other", "right", GPU, 64);
    submit(&mut stage, in_pool(work_in("first", (1, 8), Some(90), Some("main")), "left"));
    submit(&mut stage, in_pool(work_in("big", (2, 8), Some(30), Some("main")), "left"));
    submit(&mut stage, work_in("y", (1, 8), Some(60), Some("other")));
    submit(&mut stage, work_in("wide", (2, 8), Some(30), Some("other")));
    assert_eq!((reserved(&stage, "big"), reserved(&stage, "wide")), (Some(90), Some(60)));
    // Twelve hours are spent at 90, and six more would be.
    submit(&mut stage, in_pool(work_in("small", (1, 8), Some(45), Some("main")), "right"));
    assert_eq!(held_for(&stage, "small"), Some(("team/big".into(), 90)));
}

/// Ends of a pool that count; those of another do not.
const ENDS: i64 = 2_048;

#[test]
fn ends_elsewhere_do_not_hide_those_that_matter_and_a_head_says_what_was_left_out() {
    let mut stage = pools(16);
    let many = ENDS + 52;
    stage.add([pool_node("a", "left", &[(GPU, 8)])]);
    let huge = pool_node("z", "right", &[(CPU, many), ("pods", 2 * many)]);
    stage.add([huge]);
    pool_queue(&mut stage, "four", "left", GPU, 64);
    pool_queue(&mut stage, "many", "right", CPU, 2 * many);
    let tiny: Arc<PodShape> = shape(&[(CPU, 1)]);
    let wish = wishes(Some(10), Some("many"));
    let crowd: Vec<Input> = (0..many)
        .map(|at| {
            let mut tiny = pod(&format!("tiny-{at:04}"), &tiny, &wish);
            tiny.created = stage.now;
            Input::Pod(tiny)
        })
        .collect();
    stage.add(crowd);
    stage.settle(|_| {});
    submit(&mut stage, work_in("long", (1, 8), Some(120), Some("four")));
    submit(&mut stage, work_in("big", (1, 8), Some(30), Some("four")));
    assert_eq!(reserved(&stage, "big"), Some(120));
    assert_eq!(starts(&mut stage, "big"), Some(120));
    // One that needs all of the other pool needs more ends than are looked at.
    let all = pod("all", &shape(&[(CPU, many)]), &wishes(Some(10), Some("many")));
    submit(&mut stage, vec![all]);
    let all = view(&stage, "all");
    let left_out = Unreserved::Ends { looked_at: ENDS as u32, left_out: 52 };
    assert_eq!((all.reserved, all.unreserved), (None, Some(left_out)));
    let explained = stage.engine.explain_workload(stage.now, TEAM, "all").expect("it waits");
    assert_eq!((explained.workload.unreserved, explained.forecast), (Some(left_out), None));
}

/// The first may fit nowhere for long: of a queue so many are looked at in a step.
#[test]
fn who_stands_behind_too_many_without_a_start_says_so() {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("known", (1, 8), Some(60)));
    submit(&mut stage, work("unknown", (1, 8), None));
    let mut all = Vec::new();
    for gpus in 5..=8 {
        all.extend(work(&format!("big-{gpus}"), (2, gpus), Some(30)));
    }
    all.extend(work("small", (2, 4), Some(30)));
    submit(&mut stage, all);
    let small = view(&stage, "small");
    let behind = Some(Unreserved::Behind { others: 4 });
    assert_eq!((small.reserved, small.unreserved), (None, behind));
    assert_eq!(view(&stage, "big-8").unreserved, None);
}

/// So many timetables are played in a step: nobody has a start searched after that.
#[test]
fn who_comes_after_all_plays_of_a_step_says_so() {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("unknown", (1, 8), None));
    // So that a search takes several plays.
    for number in 0..8 {
        submit(&mut stage, work(&format!("known-{number}"), (1, 1), Some(60 + number)));
    }
    let mut all = Vec::new();
    for number in 0..64 {
        let name = format!("q{number:02}");
        add_queue(&mut stage, queue(&name, None, nominal(16)));
        for gpus in 5..=8 {
            all.extend(work_in(&format!("{name}-{gpus}"), (2, gpus), Some(30), Some(&name)));
        }
    }
    submit(&mut stage, all);
    assert_eq!(view(&stage, "q00-5").unreserved, None, "it was in vain");
    // Of a queue the first says so.
    let told = [5, 6, 7, 8].map(|gpus| view(&stage, &format!("q63-{gpus}")).unreserved);
    let told: Vec<Unreserved> = told.into_iter().flatten().collect();
    assert_eq!(told, [Unreserved::Plays { most: 512 }]);
}

/// A forecast knows that the work itself would be held.
#[test]
fn forecasts_delay_no_reserved_start() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("one", None, nominal(16)));
    add_queue(&mut stage, queue("two", None, nominal(16)));
    submit(&mut stage, work_in("short", (1, 8), Some(60), Some("one")));
    submit(&mut stage, work_in("long", (1, 8), Some(120), Some("one")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("one")));
    submit(&mut stage, work_in("quick", (1, 4), Some(60), Some("two")));
    submit(&mut stage, work_in("silent", (1, 4), None, Some("two")));
    assert_eq!(reserved(&stage, "big"), Some(120));
    assert_eq!(starts(&mut stage, "quick"), Some(60), "it has ended by then");
    assert_eq!(starts(&mut stage, "silent"), Some(150), "after big");
    for minute in [60, 120, 150] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "silent"));
    // Nobody knows when that ends: whoever could only start beside it has no forecast.
    submit(&mut stage, work_in("whole", (2, 8), Some(10), Some("two")));
    assert_eq!(starts(&mut stage, "whole"), None);
}

/// Only so many of a queue are played: who stands behind them is told that.
#[test]
fn who_stands_too_far_behind_for_a_forecast_is_told_so() {
    let mut stage = stage(&["a"]);
    add_queue(&mut stage, queue("one", None, nominal(8)));
    submit(&mut stage, work_in("runs", (1, 8), Some(60), Some("one")));
    let waiting = |n: u32| work_in(&format!("w{n:02}"), (1, 8), Some(10), Some("one"));
    submit(&mut stage, (0..66).flat_map(waiting).collect());
    let told = |stage: &mut Stage, name: &str| {
        let explained = stage.engine.explain_workload(stage.now, TEAM, name).expect("it exists");
        (explained.ahead, explained.forecast.is_some(), explained.beyond)
    };
    assert_eq!(told(&mut stage, "w00"), (Some(0), true, None));
    assert_eq!(told(&mut stage, "w63"), (Some(63), true, None));
    assert_eq!(told(&mut stage, "w64"), (Some(64), false, Some(64)));
    assert_eq!(told(&mut stage, "w65"), (Some(65), false, Some(64)));
    // Where no end is known nobody has a forecast, wherever it stands.
    let mut silent = self::stage(&["a"]);
    add_queue(&mut silent, queue("one", None, nominal(8)));
    submit(&mut silent, work_in("runs", (1, 8), None, Some("one")));
    submit(&mut silent, (0..66).flat_map(waiting).collect());
    assert_eq!(told(&mut silent, "w65"), (Some(65), false, None));
}

/// The end that both wait for does not come: nothing is reserved for anybody any more.
#[test]
fn a_bound_is_no_reason_where_no_start_can_be_reserved() {
    let mut stage = one_start_of_two();
    let told = |stage: &Stage| {
        let views = ["first", "second"].map(|name| view(stage, name));
        views.map(|view| (view.reserved.is_some(), view.unreserved))
    };
    assert_eq!(told(&stage), [(true, None), (false, Some(Unreserved::Limit { most: 1 }))]);
    for minute in [60, 66] {
        stage.now = Time((1_000 + minute) * MINUTE);
        end_due(&mut stage, &["long"]);
        stage.settle(|_| {});
        stage.engine.recount();
    }
    assert_eq!(told(&stage), [(false, None), (false, None)]);
}

/// The place that is kept for the pod of an owner that waits runs as long as the owner says now.
#[test]
fn an_owner_that_says_a_shorter_run_time_is_held_no_longer() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    let created = stage.now;
    let says = |minutes| {
        let owner = job("j", 1, &shape(&[(GPU, 4)]), &wishes(Some(minutes), None));
        Input::Owner(OwnerFacts { created, ..owner })
    };
    stage.add([says(61)]);
    stage.settle(|_| {});
    assert_eq!(held_for(&stage, "j"), Some(("team/big".into(), 120)));
    stage.add([says(60)]);
    stage.settle(|_| {});
    assert_eq!((runs(&stage, "j"), reserved(&stage, "big")), (true, Some(120)));
    stage.engine.recount();
}
