//! Reserved starts and backfill: big work starts no later than was first reserved, small work
//! passes it only where that makes nobody late, and what declares no run time changes nothing.
//!
//! Time is moved by hand; work that declares a run time ends exactly then.

use std::sync::Arc;

use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::{Forecast, Unreserved, WorkloadView};
use capstan_core::model::input::{
    ClusterQueueFacts, Input, OwnerFacts, PodFacts, QueueingStrategy, Quota, Text, Wishes,
};
use capstan_core::plan::State;
use capstan_core::policy::{Policy, Reserving};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, job, local_queue, namespace,
    node, nominal, pod, pods_of, shape,
};
use capstan_tests::play::Stage;

mod beside_strict;
mod budgets;
mod flavors;
mod forward;
mod held;
mod kept_out;
mod lacking;
mod learned;
mod leaving;
mod queues_at_random;
mod random;
mod ranked;
mod shares;
mod shares_at_random;

const MINUTE: i64 = 60_000;

/// A stage of nodes with eight GPUs each.
fn stage(nodes: &[&str]) -> Stage {
    let mut stage = Stage::new(Time(1_000 * MINUTE));
    stage.add([namespace()]);
    stage.add(nodes.iter().map(|name| Input::Node(node(name, &[(GPU, 8)]).into())));
    stage.settle(|_| {});
    stage
}

fn queue(name: &str, cohort: Option<&str>, gpus: Quota) -> ClusterQueueFacts {
    cluster_queue(name, cohort, group(&[(DEFAULT, &[(GPU, gpus)])]))
}

fn add_queue(stage: &mut Stage, facts: ClusterQueueFacts) {
    stage.add([
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::LocalQueue(local_queue(&facts.name)),
        Input::ClusterQueue(facts),
    ]);
}

fn wishes(minutes: Option<i64>, queue: Option<&str>) -> Arc<Wishes> {
    let expected_runtime = minutes.map(|minutes| Span(minutes * MINUTE));
    Arc::new(Wishes { expected_runtime, ..(*in_queue(queue)).clone() })
}

/// A gang of pods with so many GPUs each, that runs for so many minutes if it says so.
fn work(name: &str, (pods, gpus): (u32, i64), minutes: Option<i64>) -> Vec<PodFacts> {
    work_in(name, (pods, gpus), minutes, None)
}

fn work_in(
    name: &str,
    (pods, gpus): (u32, i64),
    minutes: Option<i64>,
    queue: Option<&str>,
) -> Vec<PodFacts> {
    let (shape, wishes) = (shape(&[(GPU, gpus)]), wishes(minutes, queue));
    match pods {
        1 => vec![pod(name, &shape, &wishes)],
        pods => gang(name, pods, None, &shape, &wishes),
    }
}

fn of_priority(mut pods: Vec<PodFacts>, priority: i32) -> Vec<PodFacts> {
    pods.iter_mut().for_each(|pod| pod.priority = priority);
    pods
}

fn submit(stage: &mut Stage, mut pods: Vec<PodFacts>) {
    pods.iter_mut().for_each(|pod| pod.created = stage.now);
    stage.add(pods.into_iter().map(Input::Pod));
    stage.settle(|_| {});
    stage.engine.recount();
}

/// Two gangs of two queues wait for `long`, which needs all there is and ends at minute 60; no more
/// than one start is reserved.
fn one_start_of_two() -> Stage {
    let mut stage = stage(&["a", "b"]);
    let reservations = Some(Reserving { most: 1, ..Reserving::default() });
    stage.add([Input::Policy(Policy { reservations, ..Policy::default() }.into())]);
    add_queue(&mut stage, queue("one", None, nominal(16)));
    add_queue(&mut stage, queue("two", None, nominal(16)));
    submit(&mut stage, work_in("long", (2, 8), Some(60), Some("one")));
    submit(&mut stage, work_in("first", (2, 8), Some(30), Some("two")));
    submit(&mut stage, work_in("second", (2, 8), Some(30), Some("one")));
    stage
}

fn view(stage: &Stage, name: &str) -> WorkloadView {
    let views = stage.engine.workloads();
    views.into_iter().find(|view| &*view.name == name).expect("the workload exists")
}

fn runs(stage: &Stage, name: &str) -> bool {
    view(stage, name).state == State::Running
}

fn reserved(stage: &Stage, name: &str) -> Option<i64> {
    view(stage, name).reserved.map(|at| at.0 / MINUTE - 1_000)
}

/// For whom a workload waits, and until which minute.
fn held_for(stage: &Stage, name: &str) -> Option<(String, i64)> {
    match view(stage, name).reason {
        Some(Reason::Reserved { head, start, .. }) => {
            Some((head.to_string(), start.0 / MINUTE - 1_000))
        }
        _ => None,
    }
}

fn forecast(stage: &mut Stage, name: &str) -> Option<Forecast> {
    let found = stage.engine.forecast(stage.now, TEAM, name);
    stage.engine.recount();
    found
}

fn starts(stage: &mut Stage, name: &str) -> Option<i64> {
    forecast(stage, name).map(|found| found.start.0 / MINUTE - 1_000)
}

/// Work that declares a run time and is due ends.
fn end_due(stage: &mut Stage, lies: &[&str]) {
    let due = |pod: &&PodFacts| {
        let end = pod.bound_at.zip(pod.wishes.expected_runtime).map(|(at, runs)| at.plus(runs));
        let lies = lies.iter().any(|name| pod.name.starts_with(name));
        !lies && end.is_some_and(|end| end <= stage.now)
    };
    let due: Vec<Text> = stage.pods.values().filter(due).map(|pod| pod.uid.clone()).collect();
    for uid in due {
        stage.pods.remove(&uid);
        stage.add([Input::PodGone(uid)]);
    }
}

fn at(stage: &mut Stage, minute: i64) {
    stage.now = Time((1_000 + minute) * MINUTE);
    end_due(stage, &[]);
    stage.settle(|_| {});
    stage.engine.recount();
}

/// A Job is deleted: first it, then its pods one by one. Who waits for its end still does.
#[test]
fn who_goes_after_its_owner_ends_when_it_was_to() {
    let mut stage = stage(&["a"]);
    let owner = job("goes", 4, &shape(&[(GPU, 1)]), &wishes(Some(60), None));
    stage.add([Input::Owner(owner.clone())]);
    stage.settle(|_| {});
    submit(&mut stage, work("big", (1, 8), Some(30)));
    submit(&mut stage, work("other", (1, 4), Some(120)));
    assert_eq!((runs(&stage, "goes"), reserved(&stage, "big")), (true, Some(60)));
    assert_eq!(held_for(&stage, "other"), Some(("team/big".to_owned(), 60)));
    stage.owners.remove(&owner.uid);
    stage.feed(Input::OwnerGone(owner.uid.clone()));
    for member in pods_of(&owner) {
        stage.settle(|_| {});
        stage.engine.recount();
        assert!(!runs(&stage, "other"), "it would take what the gang leaves for big");
        stage.drop_pod(&member.uid);
    }
    stage.settle(|_| {});
    assert_eq!((runs(&stage, "big"), runs(&stage, "other")), (true, false));
}

/// Two full nodes, one until minute 60 and one until minute 120, and a gang that needs both.
fn big_waits() -> Stage {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("short", (1, 8), Some(60)));
    submit(&mut stage, work("long", (1, 8), Some(120)));
    submit(&mut stage, work("big", (2, 8), Some(30)));
    assert_eq!((runs(&stage, "big"), reserved(&stage, "big")), (false, Some(120)));
    stage
}

#[test]
fn small_work_passes_only_where_it_has_ended_by_then() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit(&mut stage, work("silent", (1, 4), None));
    submit(&mut stage, work("longer", (1, 4), Some(61)));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 120)));
    assert_eq!(held_for(&stage, "longer"), Some(("team/big".into(), 120)));
    submit(&mut stage, work("fits", (1, 4), Some(60)));
    assert!(runs(&stage, "fits"), "it has ended when big starts, whoever of its shape is held");
    at(&mut stage, 90);
    assert_eq!((runs(&stage, "longer"), reserved(&stage, "big")), (false, Some(120)));
    at(&mut stage, 120);
    assert!(runs(&stage, "big") && !runs(&stage, "silent") && !runs(&stage, "longer"));
    at(&mut stage, 150);
    assert!(runs(&stage, "silent") && runs(&stage, "longer"), "nobody is held any more");
}

/// A Job that runs two pods of four GPUs each at once, and so many in all, is there.
fn submit_rolling(stage: &mut Stage, pods: u32, minutes: Option<i64>) {
    let owner = job("rolls", 2, &shape(&[(GPU, 4)]), &wishes(minutes, None));
    let (created, left, replaces) = (stage.now, Some(pods), pods - 2);
    stage.add([Input::Owner(OwnerFacts { created, left, replaces, ..owner })]);
    stage.settle(|_| {});
    stage.engine.recount();
}

/// Once it has begun it goes on with those that it makes in place of its pods that end, whoever's
/// start is due: so all of them must have ended by then.
#[test]
fn a_job_that_makes_pods_in_turn_passes_only_where_all_have_ended_by_then() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit_rolling(&mut stage, 5, Some(30));
    assert_eq!(held_for(&stage, "rolls"), Some(("team/big".into(), 120)));
    submit_rolling(&mut stage, 4, Some(30));
    assert_eq!((runs(&stage, "rolls"), reserved(&stage, "big")), (true, Some(120)));
}

#[test]
fn a_job_that_makes_pods_in_turn_ends_with_the_last_of_them() {
    let mut stage = stage(&["a"]);
    submit_rolling(&mut stage, 7, Some(10));
    submit(&mut stage, work("big", (1, 8), Some(30)));
    assert_eq!((runs(&stage, "rolls"), reserved(&stage, "big")), (true, Some(40)));
    assert_eq!(starts(&mut stage, "big"), Some(40));
}

#[test]
fn what_leaves_the_room_of_a_reserved_start_is_not_held() {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("on-a", (1, 6), Some(60)));
    submit(&mut stage, work("on-b", (1, 6), None));
    submit(&mut stage, work("big", (1, 8), Some(30)));
    assert_eq!(reserved(&stage, "big"), Some(60));
    // One of the nodes has room that big will not need, whichever the scores like better.
    submit(&mut stage, work("small", (1, 2), None));
    assert!(runs(&stage, "small"));
    submit(&mut stage, work("next", (1, 2), None));
    assert_eq!(held_for(&stage, "next"), Some(("team/big".into(), 60)));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}

#[test]
fn without_run_times_nothing_is_reserved_and_small_work_passes() {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("one", (1, 8), None));
    submit(&mut stage, work("big", (2, 8), None));
    submit(&mut stage, work("small", (1, 8), None));
    assert!(runs(&stage, "small"));
    assert_eq!((reserved(&stage, "big"), forecast(&mut stage, "big")), (None, None));
    let output = stage.step();
    assert_eq!(output.report.counts.forecasts, 0);
}

#[test]
fn a_start_that_depends_on_an_unknown_end_is_not_reserved() {
    let mut stage = stage(&["a", "b"]);
    submit(&mut stage, work("known", (1, 8), Some(60)));
    submit(&mut stage, work("unknown", (1, 8), None));
    submit(&mut stage, work("big", (2, 8), Some(30)));
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (None, None));
    at(&mut stage, 60);
    submit(&mut stage, work("small", (1, 8), None));
    assert!(runs(&stage, "small"));
}

#[test]
fn switched_off_nothing_is_reserved() {
    let mut stage = stage(&["a", "b"]);
    let policy = Policy { reservations: None, ..Policy::default() };
    stage.add([Input::Policy(policy.into())]);
    submit(&mut stage, work("short", (1, 8), Some(60)));
    submit(&mut stage, work("long", (1, 8), Some(120)));
    submit(&mut stage, work("big", (2, 8), Some(30)));
    at(&mut stage, 60);
    submit(&mut stage, work("silent", (1, 4), None));
    assert!(runs(&stage, "silent") && reserved(&stage, "big").is_none());
    // Switched on again, the start is told as it is now.
    stage.add([Input::Policy(Policy::default().into())]);
    at(&mut stage, 61);
    assert_eq!(reserved(&stage, "big"), None, "silent never ends");
}

#[test]
fn an_end_that_does_not_come_holds_nobody_for_ever() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit(&mut stage, work("silent", (1, 8), None));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 120)));
    stage.now = Time((1_000 + 120) * MINUTE);
    end_due(&mut stage, &["long"]);
    let output = stage.settle(|_| {}).pop().expect("it settles");
    assert!(!runs(&stage, "big"), "long runs on");
    assert!(!runs(&stage, "silent"), "it may end any moment");
    // A tenth of its two hours later nobody believes it any more.
    let doubted = Time((1_000 + 132) * MINUTE);
    assert_eq!(output.next_wake, Some(doubted));
    stage.now = doubted;
    stage.settle(|_| {});
    assert!(runs(&stage, "silent") && reserved(&stage, "big").is_none());
    stage.engine.recount();
}

#[test]
fn a_start_comes_sooner_when_what_it_waits_for_does() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit(&mut stage, work("fits", (1, 8), Some(50)));
    assert!(runs(&stage, "fits"));
    stage.pods.remove("long").expect("it runs");
    stage.add([Input::PodGone("long".into())]);
    at(&mut stage, 70);
    assert_eq!(reserved(&stage, "big"), Some(110), "as soon as what passed it ends");
    at(&mut stage, 110);
    assert!(runs(&stage, "big"));
}

#[test]
fn higher_priority_goes_before_a_reserved_start() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    let mut urgent = work("urgent", (1, 8), None);
    urgent.iter_mut().for_each(|pod| pod.priority = 10);
    submit(&mut stage, urgent);
    assert!(runs(&stage, "urgent"));
    assert_eq!(reserved(&stage, "big"), None, "nobody knows when urgent ends");
}

#[test]
fn a_head_of_higher_priority_takes_the_start_of_one_in_another_queue() {
    let mut stage = stage(&["a", "b", "c"]);
    for name in ["one", "two", "three"] {
        add_queue(&mut stage, queue(name, Some("all"), nominal(100)));
    }
    for (name, minutes) in [("x", 120), ("y", 120), ("z", 30)] {
        submit(&mut stage, work_in(name, (1, 8), Some(minutes), Some("three")));
    }
    submit(&mut stage, work_in("low", (2, 8), Some(600), Some("one")));
    assert_eq!(reserved(&stage, "low"), Some(120));
    at(&mut stage, 1);
    let mut high = work_in("high", (3, 8), Some(60), Some("two"));
    high.iter_mut().for_each(|pod| pod.priority = 100);
    submit(&mut stage, high);
    assert_eq!((reserved(&stage, "high"), reserved(&stage, "low")), (Some(120), Some(180)));
    at(&mut stage, 2);
    submit(&mut stage, work_in("small", (1, 8), Some(540), Some("three")));
    at(&mut stage, 30);
    assert_eq!(held_for(&stage, "small"), Some((format!("{TEAM}/high"), 120)));
    at(&mut stage, 120);
    assert!(runs(&stage, "high"));
}

/// Work that runs late on other nodes says nothing of a start that does not wait for it.
#[test]
fn who_runs_late_elsewhere_breaks_no_start() {
    let mut stage = big_waits();
    stage.add(["c", "d", "e"].map(|name| Input::Node(node(name, &[(GPU, 4)]).into())));
    for late in 0..12 {
        submit(&mut stage, work(&format!("late-{late:02}"), (1, 1), Some(5 + late)));
        assert!(runs(&stage, &format!("late-{late:02}")));
    }
    for minute in (1..120).step_by(2).chain([120]) {
        assert_eq!(reserved(&stage, "big"), Some(120), "before minute {minute}");
        stage.now = Time((1_000 + minute) * MINUTE);
        end_due(&mut stage, &["late"]);
        stage.settle(|_| {});
        stage.engine.recount();
    }
    assert!(runs(&stage, "big"));
}

#[test]
fn quota_is_reserved_as_room_is() {
    let mut stage = stage(&["a", "b", "c"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(8)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(8)));
    submit(&mut stage, work_in("long", (1, 6), Some(60), Some("main")));
    submit(&mut stage, work_in("big", (2, 7), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(60));
    // There are nodes for it; of the quota of 16 big will need 14.
    submit(&mut stage, work_in("silent", (1, 4), None, Some("main")));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 60)));
    submit(&mut stage, work_in("small", (1, 2), None, Some("main")));
    assert!(runs(&stage, "small"));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}

#[test]
fn who_uses_its_own_quota_is_not_held_for_who_borrows() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(4)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(12)));
    submit(&mut stage, work_in("filler", (1, 8), Some(60), Some("other")));
    submit(&mut stage, work_in("long", (1, 4), Some(60), Some("main")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(60));
    submit(&mut stage, work_in("owner", (1, 4), None, Some("other")));
    assert!(runs(&stage, "owner"), "big would borrow");
}

#[test]
fn who_borrows_is_held_for_who_uses_its_own_quota() {
    let mut stage = stage(&["a", "b"]);
    add_queue(&mut stage, queue("main", Some("all"), nominal(16)));
    add_queue(&mut stage, queue("other", Some("all"), nominal(0)));
    submit(&mut stage, work_in("long", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    submit(&mut stage, work_in("silent", (1, 4), None, Some("other")));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 60)));
    submit(&mut stage, work_in("short", (1, 4), Some(60), Some("other")));
    assert!(runs(&stage, "short"));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}

#[test]
fn a_strict_head_has_its_start_reserved_against_other_queues() {
    let mut stage = stage(&["a", "b"]);
    let strict = ClusterQueueFacts {
        strategy: QueueingStrategy::StrictFifo,
        ..queue("main", None, nominal(16))
    };
    add_queue(&mut stage, strict);
    add_queue(&mut stage, queue("other", None, nominal(16)));
    submit(&mut stage, work_in("long", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    submit(&mut stage, work_in("tail", (1, 1), Some(1), Some("main")));
    submit(&mut stage, work_in("silent", (1, 4), None, Some("other")));
    assert!(!runs(&stage, "tail"), "nothing passes a strict head");
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 60)));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
    at(&mut stage, 90);
    assert!(runs(&stage, "tail") && runs(&stage, "silent"));
}

#[test]
fn as_many_starts_are_reserved_as_the_configuration_says() {
    let mut stage = one_start_of_two();
    assert_eq!((reserved(&stage, "first"), reserved(&stage, "second")), (Some(60), None));
    let limit = Some(Unreserved::Limit { most: 1 });
    assert_eq!(
        (view(&stage, "first").unreserved, view(&stage, "second").unreserved),
        (None, limit)
    );
    let mut urgent = work_in("urgent", (2, 8), Some(30), Some("one"));
    urgent.iter_mut().for_each(|pod| pod.priority = 10);
    submit(&mut stage, urgent);
    let kept = (reserved(&stage, "first"), reserved(&stage, "urgent"));
    assert_eq!(kept, (None, Some(60)), "who stands first has it");
}

#[test]
fn forecasts_follow_the_order_of_the_queue_and_say_what_they_assume() {
    let mut stage = big_waits();
    submit(&mut stage, work("next", (1, 8), Some(10)));
    submit(&mut stage, work("third", (2, 8), Some(10)));
    let big = forecast(&mut stage, "big").expect("all ends are known");
    let told = "starts about 1970-01-01 18:40 UTC (reserved) if 2 workloads end as declared, \
                team/long last";
    assert_eq!(big.to_string(), told);
    assert!(big.reserved && big.assumes.ends == 2 && big.assumes.ahead == 0);
    // big ends at 150: then next, and third once that has ended too.
    assert_eq!(starts(&mut stage, "next"), Some(150));
    let third = forecast(&mut stage, "third").expect("all ends are known");
    assert_eq!((third.start, third.assumes.ahead), (Time(1_160 * MINUTE), 2));
    assert!(third.to_string().ends_with("after 2 others of its queue unless it fits before"));
    let names: [(Text, Text); 2] = ["third", "nobody"].map(|name| (TEAM.into(), name.into()));
    assert_eq!(stage.engine.forecasts_of(stage.now, &names), [Some(third), None]);
    let all = stage.engine.forecasts(stage.now, None, 2);
    let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["team/big", "team/next"]);
    assert_eq!(all[1].1.as_ref().map(|found| found.start), Some(Time(1_150 * MINUTE)));
    assert_eq!(stage.engine.forecasts(stage.now, Some("nowhere"), 5), []);
}

#[test]
fn a_forecast_says_whether_its_queue_lets_others_pass() {
    let both = [(QueueingStrategy::BestEffortFifo, true), (QueueingStrategy::StrictFifo, false)];
    for (strategy, passes) in both {
        let mut stage = stage(&["a"]);
        add_queue(&mut stage, ClusterQueueFacts { strategy, ..queue("one", None, nominal(8)) });
        for (name, minutes) in [("runs", 60), ("first", 10), ("second", 10)] {
            submit(&mut stage, work_in(name, (1, 8), Some(minutes), Some("one")));
        }
        let told = forecast(&mut stage, "second").expect("all ends are known");
        let assumes = (told.assumes.ahead, told.assumes.passes);
        assert_eq!((told.start, assumes), (Time(1_070 * MINUTE), (1, passes)));
    }
}

#[test]
fn a_new_engine_reserves_the_same_start() {
    let mut stage = big_waits();
    at(&mut stage, 60);
    submit(&mut stage, work("silent", (1, 4), None));
    submit(&mut stage, work("fits", (1, 4), Some(40)));
    let mut restarted = stage.restarted();
    restarted.settle(|_| {});
    restarted.engine.recount();
    for name in ["big", "silent", "fits"] {
        let shown = |stage: &Stage| {
            let view = view(stage, name);
            (view.state, view.reserved, view.pods, held_for(stage, name))
        };
        assert_eq!(shown(&restarted), shown(&stage), "{name}");
    }
}

#[test]
fn extra_members_delay_no_reserved_start() {
    let mut stage = stage(&["a"]);
    submit(&mut stage, work("runs", (1, 6), Some(60)));
    let shape = shape(&[(GPU, 1)]);
    submit(&mut stage, gang("elastic", 1, Some(1), &shape, &wishes(None, None)));
    submit(&mut stage, work("big", (1, 7), Some(30)));
    assert_eq!(reserved(&stage, "big"), Some(60));
    submit(&mut stage, gang("elastic", 2, Some(1), &shape, &wishes(None, None)).split_off(1));
    let placed = |stage: &Stage| {
        view(stage, "elastic").pods.iter().filter(|place| place.node.is_some()).count()
    };
    assert_eq!(placed(&stage), 1, "the GPU that is free is needed at 60");
    at(&mut stage, 60);
    assert_eq!((runs(&stage, "big"), placed(&stage)), (true, 1));
    at(&mut stage, 90);
    assert_eq!(placed(&stage), 2);
}

#[test]
fn room_of_starts_that_follow_each_other_is_kept_once() {
    let mut stage = stage(&["a"]);
    submit(&mut stage, work("x", (1, 8), Some(60)));
    let more = [node("b", &[(GPU, 8)]), node("c", &[(GPU, 20)])];
    stage.add(more.map(|it| Input::Node(it.into())));
    for name in ["one", "two", "three"] {
        add_queue(&mut stage, queue(name, Some("all"), nominal(100)));
    }
    submit(&mut stage, work_in("first", (4, 8), Some(60), Some("one")));
    at(&mut stage, 1);
    submit(&mut stage, work_in("second", (4, 8), Some(60), Some("two")));
    assert_eq!((reserved(&stage, "first"), reserved(&stage, "second")), (Some(60), Some(120)));
    submit(&mut stage, work_in("small", (1, 4), Some(600), Some("three")));
    assert!(runs(&stage, "small"), "{:?}", held_for(&stage, "small"));
    for minute in [60, 120] {
        at(&mut stage, minute);
    }
    assert!(runs(&stage, "second"));
}

/// Not for a head that would be settled after their gang: that is who waits.
#[test]
fn extra_members_of_higher_priority_wait_for_nobody() {
    let mut stage = stage(&["a"]);
    submit(&mut stage, work("runs", (1, 6), Some(60)));
    let shape = shape(&[(GPU, 1)]);
    let mut elastic = gang("elastic", 2, Some(1), &shape, &wishes(None, None));
    elastic.iter_mut().for_each(|pod| pod.priority = 100);
    let extra = elastic.split_off(1);
    submit(&mut stage, elastic);
    submit(&mut stage, work("big", (1, 7), Some(30)));
    assert_eq!(reserved(&stage, "big"), Some(60));
    submit(&mut stage, extra);
    assert_eq!(view(&stage, "elastic").pods.iter().filter(|it| it.node.is_some()).count(), 2);
}

#[test]
fn who_is_held_is_told_of_the_head_that_it_would_delay() {
    let mut stage = stage(&["a"]);
    stage.add(["b", "c"].map(|name| Input::Node(node(name, &[("cpu", 8_000)]).into())));
    add_queue(&mut stage, queue("main", None, nominal(8)));
    submit(&mut stage, work("x", (1, 8), Some(60)));
    submit(&mut stage, work_in("elsewhere", (1, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "elsewhere"), Some(60));
    let cpu = shape(&[("cpu", 8_000)]);
    submit(&mut stage, vec![pod("y", &cpu, &wishes(Some(90), None))]);
    submit(&mut stage, gang("big", 2, None, &cpu, &wishes(Some(30), None)));
    assert_eq!(reserved(&stage, "big"), Some(90));
    submit(&mut stage, vec![pod("small", &cpu, &wishes(Some(600), None))]);
    assert_eq!(held_for(&stage, "small"), Some((format!("{TEAM}/big"), 90)));
}
