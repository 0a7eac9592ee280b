//! When work starts whose queue has spent its budget: in the next period, if that one is not spent
//! by then, too.

use capstan_core::calendar::Period;
use capstan_core::explain::view::{Awaited, Change, Remedy};
use capstan_core::model::input::{Enforcement, OwnerFacts, PreemptWithin, SpendingLimit};
use capstan_tests::seed::Seed;

use super::*;

/// The first midnight, in minutes.
const MIDNIGHT: i64 = 1_440 - 1_000;

/// Two nodes, and a queue with so many GPU-hours a day, all of which what runs has used at some
/// time.
fn with_budget(hours: i64) -> Stage {
    budget_on(&["a", "b"], hours)
}

fn budget_on(nodes: &[&str], hours: i64) -> Stage {
    let mut stage = stage(nodes);
    add_queue(&mut stage, main_queue(nodes.len(), hours));
    stage
}

/// A queue with the GPUs of so many nodes, and so many GPU-hours a day.
fn main_queue(nodes: usize, hours: i64) -> ClusterQueueFacts {
    let (period, enforcement) = (Period::Day, Enforcement::Hard);
    let spending =
        Some(SpendingLimit { usd: None, gpu_seconds: Some(hours * 3_600), period, enforcement });
    ClusterQueueFacts { spending, ..queue("main", None, nominal(8 * nodes as i64)) }
}

/// The same whose work of higher priority stops that of a lower one.
fn main_that_stops(nodes: usize, hours: i64) -> ClusterQueueFacts {
    let mut facts = main_queue(nodes, hours);
    facts.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    facts
}

#[test]
fn a_budget_that_is_spent_begins_anew_with_the_next_period() {
    let mut stage = with_budget(16);
    submit(&mut stage, work_in("first", (1, 8), Some(240), Some("main")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), None, "after two hours it is spent");
    assert_eq!(starts(&mut stage, "big"), Some(MIDNIGHT), "which is known before");
    let told = forecast(&mut stage, "big").expect("it was just told").assumes.to_string();
    assert_eq!(told, "if team/first ends as declared, once the budget of main begins anew");
    at(&mut stage, 130);
    assert_eq!(starts(&mut stage, "big"), Some(MIDNIGHT));
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let [wait] = &explained.remedies[..] else { panic!("{:?}", explained.remedies) };
    let then = Time((1_000 + MIDNIGHT) * MINUTE);
    let awaits = Awaited::Period { budget_of: "main".into() };
    assert_eq!(wait.change, Change::WaitUntil { at: then, awaits }, "there is room by then");
    at(&mut stage, 250);
    assert_eq!((runs(&stage, "big"), starts(&mut stage, "big")), (false, Some(MIDNIGHT)));
    at(&mut stage, MIDNIGHT);
    assert!(runs(&stage, "big"));
}

#[test]
fn what_runs_on_may_spend_the_next_period_too() {
    let mut stage = with_budget(16);
    submit(&mut stage, work_in("first", (1, 8), Some(MIDNIGHT + 160), Some("main")));
    at(&mut stage, 130);
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    submit(&mut stage, work_in("small", (1, 8), None, Some("main")));
    assert_eq!(starts(&mut stage, "big"), None, "first has spent it once more before it ends");
    assert_eq!(starts(&mut stage, "small"), Some(MIDNIGHT));
    at(&mut stage, MIDNIGHT);
    assert!(runs(&stage, "small"));
}

#[test]
fn a_budget_that_is_not_spent_yet_may_be_in_the_next_period() {
    let mut stage = with_budget(16);
    submit(&mut stage, work_in("first", (1, 8), Some(MIDNIGHT + 160), Some("main")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (None, None));
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let waits = |remedy: &Remedy| matches!(remedy.change, Change::WaitFor { .. });
    assert!(!explained.remedies.iter().any(waits), "{:?}", explained.remedies);
}

#[test]
fn who_starts_before_it_in_its_queue_spends_the_budget_too() {
    let mut stage = budget_on(&["a"], 16);
    submit(&mut stage, work_in("first", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("next", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("third", (1, 8), Some(30), Some("main")));
    assert_eq!(starts(&mut stage, "next"), Some(60));
    assert_eq!(starts(&mut stage, "third"), Some(MIDNIGHT));
    at(&mut stage, 60);
    assert_eq!((runs(&stage, "next"), starts(&mut stage, "third")), (true, Some(MIDNIGHT)));
    at(&mut stage, 120);
    assert!(!runs(&stage, "third"), "both have used eight hours");
    at(&mut stage, MIDNIGHT);
    assert!(runs(&stage, "third"));
}

#[test]
fn what_ends_before_spends_no_more() {
    let mut stage = with_budget(16);
    add_queue(&mut stage, queue("side", None, nominal(8)));
    submit(&mut stage, work_in("first", (1, 8), Some(60), Some("main")));
    submit(&mut stage, work_in("other", (1, 8), Some(200), Some("side")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    // Eight hours are spent by then, and not twenty-six.
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (Some(200), Some(200)));
    let told = forecast(&mut stage, "big").expect("it was just told");
    assert_eq!(told.assumes.budget_of, None);
    at(&mut stage, 60);
    at(&mut stage, 200);
    assert!(runs(&stage, "big"));
}

/// At most times it is spent, and not when there is room first.
#[test]
fn a_start_before_a_budget_is_spent_is_found_among_later_ends() {
    let mut stage = budget_on(&["a", "b", "c", "d", "e"], 16);
    add_queue(&mut stage, queue("side", None, nominal(32)));
    submit(&mut stage, work_in("first", (1, 8), Some(MIDNIGHT + 160), Some("main")));
    for (name, minutes) in [("one", 60), ("two", 90), ("three", 150), ("four", 200)] {
        submit(&mut stage, work_in(name, (1, 8), Some(minutes), Some("side")));
    }
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!((reserved(&stage, "big"), starts(&mut stage, "big")), (Some(90), Some(90)));
}

/// What ends while the budget is spent leaves its room all the same.
#[test]
fn ends_on_both_sides_of_a_midnight_are_waited_for_together() {
    let mut stage = with_budget(16);
    add_queue(&mut stage, queue("side", None, nominal(8)));
    submit(&mut stage, work_in("first", (1, 8), Some(MIDNIGHT + 60), Some("main")));
    submit(&mut stage, work_in("other", (1, 8), Some(200), Some("side")));
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(MIDNIGHT + 60), "spent from 120 until midnight");
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let waits = |remedy: &&Remedy| matches!(remedy.change, Change::WaitFor { .. });
    let wait = explained.remedies.iter().find(waits).expect("both end");
    let Change::WaitFor { workload, with, at, .. } = &wait.change else { unreachable!() };
    let with: Vec<&str> = with.iter().map(|name| &**name).collect();
    assert_eq!((&**workload, with), ("team/first", vec!["team/other"]));
    let then = Time((1_000 + MIDNIGHT + 60) * MINUTE);
    assert_eq!(*at, Some(then));
    // Once it is spent both are waited for, and said.
    super::at(&mut stage, 130);
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let [wait] = &explained.remedies[..] else { panic!("{:?}", explained.remedies) };
    let awaits = Awaited::RoomInPeriod { budget_of: "main".into() };
    assert_eq!(wait.change, Change::WaitUntil { at: then, awaits });
}

/// Who has ended by then may have spent what a reserved start of its queue needs.
#[test]
fn nobody_spends_what_a_reserved_start_of_its_queue_needs() {
    let mut stage = budget_on(&["a", "b", "c"], 16);
    add_queue(&mut stage, queue("side", None, nominal(8)));
    submit(&mut stage, work_in("first", (1, 8), Some(90), Some("main")));
    submit(&mut stage, work_in("other", (1, 8), Some(90), Some("side")));
    submit(&mut stage, work_in("big", (3, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(90), "twelve hours are spent then");
    submit(&mut stage, work_in("small", (1, 8), Some(60), Some("main")));
    assert_eq!(held_for(&stage, "small"), Some(("team/big".to_owned(), 90)));
    submit(&mut stage, work_in("quick", (1, 8), Some(20), Some("main")));
    assert!(runs(&stage, "quick"), "it leaves more than an hour");
    at(&mut stage, 20);
    assert_eq!(held_for(&stage, "small"), Some(("team/big".to_owned(), 90)));
    at(&mut stage, 90);
    assert!(runs(&stage, "big"));
}

/// Its end has passed and may come any moment: until now it has cost all the same.
#[test]
fn what_runs_late_has_spent_until_now() {
    let mut stage = budget_on(&["a", "b", "c", "d"], 16);
    add_queue(&mut stage, queue("side", None, nominal(8)));
    submit(&mut stage, work_in("first", (1, 8), Some(110), Some("main")));
    submit(&mut stage, work_in("other", (1, 8), Some(200), Some("side")));
    submit(&mut stage, work_in("big", (4, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(200), "fourteen hours and two thirds are spent then");
    stage.now = Time((1_000 + 119) * MINUTE);
    end_due(&mut stage, &["first"]);
    submit(&mut stage, work_in("small", (1, 8), Some(8), Some("main")));
    assert_eq!(held_for(&stage, "small"), Some(("team/big".to_owned(), 200)));
}

/// A node for whoever is small, and one that belongs to another queue: both are needed at 90, when
/// twelve of so many hours are spent.
fn big_needs_the_rest(hours: i64) -> Stage {
    let mut stage = budget_on(&["a", "b", "c", "d"], hours);
    add_queue(&mut stage, queue("side", None, nominal(8)));
    submit(&mut stage, work_in("first", (1, 8), Some(90), Some("main")));
    submit(&mut stage, work_in("other", (1, 8), Some(90), Some("side")));
    submit(&mut stage, work_in("big", (4, 8), Some(30), Some("main")));
    assert_eq!(reserved(&stage, "big"), Some(90));
    stage
}

/// Each alone would leave enough of the budget, both do not.
#[test]
fn who_begins_in_one_step_does_not_spend_the_same_rest() {
    let mut stage = big_needs_the_rest(16);
    let mut both = work_in("one", (1, 8), Some(20), Some("main"));
    both.extend(work_in("two", (1, 8), Some(20), Some("main")));
    submit(&mut stage, both);
    assert_eq!((runs(&stage, "one"), runs(&stage, "two")), (true, false));
    assert_eq!(held_for(&stage, "two"), Some(("team/big".to_owned(), 90)));
    at(&mut stage, 20);
    assert!(!runs(&stage, "two"), "it is spent for good");
    at(&mut stage, 90);
    assert!(runs(&stage, "big"));
}

/// What is resumed will cost as soon as its pods come.
#[test]
fn who_has_still_to_be_bound_spends_too() {
    let mut stage = big_needs_the_rest(16);
    at(&mut stage, 1);
    let created = stage.now;
    let owner = |name: &str| {
        let wishes = wishes(Some(20), Some("main"));
        Input::Owner(OwnerFacts { created, ..job(name, 1, &shape(&[(GPU, 8)]), &wishes) })
    };
    stage.add([owner("one"), owner("two")]);
    stage.settle(|_| {});
    stage.engine.recount();
    let running = ["one", "two"].into_iter().filter(|name| runs(&stage, name)).count();
    assert_eq!((running, reserved(&stage, "big")), (1, Some(90)));
}

/// Whom somebody stops in its own queue spends no more from then on.
#[test]
fn who_stops_another_of_its_queue_spends_in_its_place() {
    for (minutes, starts) in [(60, true), (119, true), (121, false)] {
        let mut stage = stage(&["a", "b"]);
        add_queue(&mut stage, main_that_stops(2, 16));
        add_queue(&mut stage, queue("side", None, nominal(8)));
        submit(&mut stage, work_in("low", (1, 8), Some(90), Some("main")));
        submit(&mut stage, work_in("other", (1, 8), Some(130), Some("side")));
        submit(&mut stage, of_priority(work_in("big", (2, 8), Some(30), Some("main")), 5));
        assert_eq!(reserved(&stage, "big"), Some(130), "low has spent twelve of sixteen hours");
        submit(&mut stage, of_priority(work_in("mid", (1, 8), Some(minutes), Some("main")), 1));
        assert_eq!(runs(&stage, "mid"), starts, "{minutes}: {:?}", view(&stage, "mid").reason);
        assert_eq!(reserved(&stage, "big"), Some(130));
        let mut ends = [minutes, 90, 130];
        ends.sort_unstable();
        ends.into_iter().for_each(|end| at(&mut stage, end));
        assert!(runs(&stage, "big"));
    }
}

/// What was promised the room of victims begins, though the budget was spent while they left: so it
/// does if a new engine sees them leave.
#[test]
fn what_was_promised_begins_though_the_budget_is_spent_by_then() {
    for restarts in [false, true] {
        let mut stage = stage(&["a"]);
        add_queue(&mut stage, main_that_stops(1, 16));
        submit(&mut stage, work_in("low", (1, 8), None, Some("main")));
        at(&mut stage, 119);
        stage.lingers = Some(Seed::new(leaving::LINGERS));
        let created = stage.now;
        let high = of_priority(work_in("high", (1, 8), None, Some("main")), 5);
        stage.add(high.into_iter().map(|pod| Input::Pod(PodFacts { created, ..pod })));
        stage.step();
        assert_eq!(view(&stage, "high").state, State::Reserved);
        stage.now = Time((1_000 + 121) * MINUTE);
        if restarts {
            stage = stage.restarted();
        }
        stage.settle(|_| {});
        stage.engine.recount();
        let high = view(&stage, "high");
        assert_eq!(high.state, State::Running, "{restarts}: {:?}", high.reason);
        // What comes new waits all the same.
        submit(&mut stage, work_in("new", (1, 8), None, Some("main")));
        let reason = view(&stage, "new").reason.expect("it waits");
        assert_eq!(reason.code(), "BudgetExhausted");
    }
}

/// Members above a minimum are no less new than other work.
#[test]
fn extra_members_spend_no_budget_that_a_reserved_start_needs() {
    let mut stage = big_needs_the_rest(16);
    let (shape, wishes) = (shape(&[(GPU, 1)]), wishes(Some(60), Some("main")));
    submit(&mut stage, gang("elastic", 1, Some(1), &shape, &wishes));
    submit(&mut stage, gang("elastic", 5, Some(1), &shape, &wishes).split_off(1));
    let view = view(&stage, "elastic");
    let placed = view.pods.iter().filter(|place| place.node.is_some()).count();
    assert_eq!(placed, 3, "the fourth hour would be the sixteenth");
    let Some(Reason::Extras { waiting, then: Some(why) }) = &view.reason else {
        panic!("{:?}", view.reason)
    };
    assert_eq!((*waiting, why.code()), (2, "HeldForReservation"));
    assert_eq!(reserved(&stage, "big"), Some(90));
}

#[test]
fn a_budget_of_nothing_never_begins_anew() {
    let mut stage = with_budget(0);
    submit(&mut stage, work_in("big", (2, 8), Some(30), Some("main")));
    let reason = view(&stage, "big").reason.expect("it waits");
    assert_eq!(reason.code(), "BudgetExhausted");
    assert_eq!(reason.to_string(), "budget of main is 0 GPU-hours a day: it admits nothing");
    assert_eq!(starts(&mut stage, "big"), None);
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let waits = |remedy: &Remedy| matches!(remedy.change, Change::WaitUntil { .. });
    assert!(!explained.remedies.iter().any(waits), "{:?}", explained.remedies);
    assert!(!explained.remedies.is_empty(), "more of it would help");
}
