//! Budgets of ClusterQueues. Facts are fed by hand and the clock is moved.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::calendar::Period;
use capstan_core::explain::view::{Change, Remedy};
use capstan_core::model::input::{
    BindingNote, BorrowThreshold, CapacityType, ClusterQueueFacts, Enforcement, Input, PodFacts,
    PodPhase, PreemptReclaim, PreemptionPolicy, Price, PriceSource, QueueingStrategy,
    SpendingLimit, SpentFacts, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Action, Effect, EffectResult, StepOutput};
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::quota::spending::Account;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, local_queue, namespace, node,
    nominal, pod, shape, text,
};
use capstan_tests::hand::{answer, binds, view};

mod at_random;
mod moved;

/// 26 November 2026, a Thursday, midnight UTC.
const MIDNIGHT: Time = Time(1_795_651_200_000);
const DAY: i64 = 24 * 60;
/// Of a GPU an hour, in dollars.
const PRICE: i64 = 2;

fn at(minutes: i64) -> Time {
    MIDNIGHT.plus(Span::minutes(minutes))
}

fn dollars(amount: i64) -> MicroUsd {
    MicroUsd(amount * 1_000_000)
}

fn usd(amount: i64) -> SpendingLimit {
    SpendingLimit {
        usd: Some(dollars(amount)),
        gpu_seconds: None,
        period: Period::Day,
        enforcement: Enforcement::Hard,
    }
}

fn soft(amount: i64) -> SpendingLimit {
    SpendingLimit { enforcement: Enforcement::Soft, ..usd(amount) }
}

/// A node whose price is that of its GPUs.
fn priced(name: &str, gpus: i64) -> Input {
    let mut node = node(name, &[(GPU, gpus)]);
    node.capacity_type = CapacityType::OnDemand;
    node.price = Some(Price { per_hour: dollars(PRICE * gpus), source: PriceSource::Annotation });
    Input::Node(node.into())
}

fn queue(name: &str, gpus: i64, spending: Option<SpendingLimit>) -> ClusterQueueFacts {
    let quota = group(&[(DEFAULT, &[(GPU, nominal(gpus))])]);
    ClusterQueueFacts { spending, ..cluster_queue(name, Some("all"), quota) }
}

fn ground(queues: &[ClusterQueueFacts], gpus: i64) -> Vec<Input> {
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[])), priced("n", gpus)];
    for queue in queues {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue.clone()));
    }
    facts
}

fn job(name: &str, queue: &str, gpus: i64) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)))
}

/// What the API shows of a pod that was bound.
fn runs(pod: &PodFacts, since: Time) -> PodFacts {
    let mut pod = pod.clone();
    (pod.node, pod.phase, pod.bound_at) = (Some(text("n")), PodPhase::Running, Some(since));
    let gpus = pod.shape.requests.get(GPU).copied().unwrap_or(0);
    pod.binding = Some(Arc::new(BindingNote {
        flavors: Arc::new([(text(GPU), text(DEFAULT))].into()),
        admitted_at: Some(since),
        price: Some(dollars(PRICE * gpus)),
        workload: None,
        queue: None,
        began_with: None,
    }));
    pod
}

/// A step whose binds succeed, and are seen in the next step at the same time.
fn play(engine: &mut Engine, now: Time, facts: Vec<Input>, pods: &[PodFacts]) -> Vec<String> {
    let output = engine.step(now, facts);
    let names: Vec<String> = binds(&output).into_iter().map(|(name, _)| name).collect();
    let named = |name: &String| pods.iter().find(|pod| *pod.name == **name).expect("known");
    let shown = names.iter().map(|name| Input::Pod(runs(named(name), now)));
    let answers = output.effects.iter().map(|effect| answer(effect, EffectResult::Done));
    let echo = answers.chain(shown).collect();
    let more = engine.step(now, echo);
    assert!(binds(&more).is_empty(), "all of it in one step");
    engine.recount();
    names
}

fn gone(pod: &PodFacts) -> Input {
    Input::PodGone(pod.uid.clone())
}

fn account(engine: &Engine, queue: &str, now: Time) -> Account {
    let views = engine.queues();
    let mut view = views.into_iter().find(|it| &*it.name == queue).expect("there");
    view.advance(now);
    *view.spending.expect("it has a budget")
}

/// What is written of an account, as it is read back.
fn written(engine: &Engine, queue: &str, now: Time) -> Input {
    let account = account(engine, queue, now);
    Input::Spent(SpentFacts {
        cluster_queue: text(queue),
        period_start: account.period().0,
        usd: account.usd(),
        gpu_seconds: account.gpu_seconds(),
        as_of: account.as_of(),
    })
}

fn reason(engine: &Engine, name: &str) -> (String, String) {
    let reason = view(engine, name).reason.expect("it waits");
    (reason.code().to_owned(), reason.to_string())
}

fn evicted(output: &StepOutput) -> Vec<String> {
    let victim = |effect: &Effect| match &effect.action {
        Action::Evict { pod, .. } => Some(pod.name.to_string()),
        _ => None,
    };
    output.effects.iter().filter_map(victim).collect()
}

#[test]
fn a_hard_budget_stops_what_is_new_until_the_next_day() {
    let mut engine = Engine::new();
    let (first, second) = (job("first", "main", 4), job("second", "main", 1));
    let mut facts = ground(&[queue("main", 8, Some(usd(20)))], 8);
    facts.push(Input::Pod(first.clone()));
    // $8 an hour since half past nine.
    assert_eq!(play(&mut engine, at(570), facts, std::slice::from_ref(&first)), ["first"]);
    let spends = account(&engine, "main", at(570));
    assert_eq!((spends.rate().per_hour, spends.rate().milli_gpus), (dollars(8), 4_000));
    assert_eq!(spends.runs_out(), Some(at(570 + 150)));
    assert_eq!(engine.step(at(570), vec![]).next_wake, None, "nobody waits for its end");

    let output = engine.step(at(720), vec![Input::Pod(second.clone())]);
    assert!(binds(&output).is_empty() && evicted(&output).is_empty(), "what runs goes on");
    let (code, words) = reason(&engine, "second");
    assert_eq!(code, "BudgetExhausted");
    let says = "budget of main, $20.00 a day, is spent ($20.00); admits again 2026-11-27T00:00:00Z";
    assert_eq!(words, says);
    assert_eq!(output.next_wake, Some(at(DAY)));
    // Facts that change nothing about it do not help.
    let output = engine.step(at(800), vec![priced("other", 8)]);
    assert!(binds(&output).is_empty());
    assert_eq!(account(&engine, "main", at(800)).usd(), MicroUsd(30_666_666));

    let output = engine.step(at(DAY), vec![]);
    assert_eq!(binds(&output).len(), 1, "{:?}", reason(&engine, "second"));
    let today = account(&engine, "main", at(DAY + 60));
    assert_eq!(today.usd(), dollars(10), "what ran on counts from midnight");
    engine.recount();
}

#[test]
fn gpu_hours_count_where_no_price_is_known() {
    let mut engine = Engine::new();
    let gpu_seconds = Some(3_600);
    let limit = SpendingLimit { usd: Some(dollars(1)), gpu_seconds, ..usd(0) };
    let mut facts = ground(&[queue("main", 8, Some(limit))], 8);
    facts.push(Input::Node(node("n", &[(GPU, 8)]).into()));
    let first = job("first", "main", 2);
    facts.push(Input::Pod(first));
    assert_eq!(binds(&engine.step(at(0), facts)).len(), 1);
    let spends = account(&engine, "main", at(20));
    assert_eq!((spends.usd(), spends.gpu_seconds()), (MicroUsd(0), 2_400));
    assert_eq!((spends.rate().unpriced, spends.over()), (1, None));
    let output = engine.step(at(30), vec![Input::Pod(job("second", "main", 1))]);
    assert!(binds(&output).is_empty());
    let (_, words) = reason(&engine, "second");
    assert!(words.starts_with("budget of main, 1 GPU-hours a day, is spent (1);"), "{words}");
    engine.recount();
}

#[test]
fn who_waits_wakes_at_the_end_of_a_budget_and_learns_of_it() {
    let mut engine = Engine::new();
    let (first, second) = (job("first", "main", 8), job("second", "main", 1));
    let mut facts = ground(&[queue("main", 8, Some(usd(16)))], 8);
    facts.extend([&first, &second].map(|pod| Input::Pod(pod.clone())));
    play(&mut engine, at(0), facts, std::slice::from_ref(&first));
    assert_eq!(reason(&engine, "second").0, "WaitingForQuota");
    let output = engine.step(at(10), vec![]);
    assert_eq!(output.next_wake, Some(at(60)));
    let output = engine.step(at(60), vec![]);
    assert_eq!(reason(&engine, "second").0, "BudgetExhausted");
    assert_eq!(output.next_wake, Some(at(DAY)));
    // Room alone does not help.
    assert!(binds(&engine.step(at(61), vec![gone(&first)])).is_empty());
    assert_eq!(account(&engine, "main", at(900)).usd(), MicroUsd(16_266_666));
    assert_eq!(binds(&engine.step(at(DAY), vec![])).len(), 1);
    engine.recount();
}

#[test]
fn edits_count_what_was_spent_and_take_hold_at_once() {
    let mut engine = Engine::new();
    let (first, second) = (job("first", "main", 4), job("second", "main", 1));
    let pods = [first.clone(), second.clone()];
    let edit = |limit| Input::ClusterQueue(queue("main", 8, limit));
    // No budget yet: what runs counts from the begin of the day once there is one.
    let mut facts = ground(&[queue("main", 8, None)], 8);
    facts.push(Input::Pod(first.clone()));
    play(&mut engine, at(-60), facts, &pods);
    assert!(engine.queues()[0].spending.is_none());
    engine.step(at(60), vec![edit(Some(usd(20)))]);
    assert_eq!(account(&engine, "main", at(60)).usd(), dollars(8));
    // The same once more is nothing new; less is at its end at once.
    engine.step(at(90), vec![edit(Some(usd(20))), edit(Some(usd(12)))]);
    let output = engine.step(at(91), vec![Input::Pod(second.clone())]);
    assert!(binds(&output).is_empty());
    assert!(reason(&engine, "second").1.contains("is spent ($12.13)"));
    // A week has all of that and, as far as is known, no more.
    let week = SpendingLimit { period: Period::Week, ..usd(12) };
    engine.step(at(120), vec![edit(Some(week))]);
    let spent = account(&engine, "main", at(120));
    assert_eq!((spent.usd(), spent.period().0), (dollars(16), at(-3 * DAY)));
    // Of a week nobody knows what of it was today: what runs counts from midnight.
    engine.step(at(150), vec![edit(Some(usd(12)))]);
    assert_eq!(account(&engine, "main", at(150)).usd(), dollars(20));
    let names = play(&mut engine, at(180), vec![edit(Some(usd(100)))], &pods);
    assert_eq!(names, ["second"], "raised");
    engine.step(at(190), vec![edit(None)]);
    assert!(engine.queues()[0].spending.is_none());
    assert_eq!(engine.step(at(200), vec![Input::ClusterQueueGone(text("main"))]).next_wake, None);
    engine.recount();
}

#[test]
fn a_new_engine_goes_on_with_what_the_status_shows() {
    let mut engine = Engine::new();
    let (first, second) = (job("first", "main", 4), job("second", "main", 3));
    let pods = [first.clone(), second.clone()];
    let queues = [queue("main", 8, Some(usd(100)))];
    let mut facts = ground(&queues, 8);
    facts.push(Input::Pod(first.clone()));
    play(&mut engine, at(0), facts, &pods);
    play(&mut engine, Time(at(7).0 + 345), vec![Input::Pod(second.clone())], &pods);
    play(&mut engine, at(31), vec![gone(&first)], &pods);
    // Written half a minute later, read an hour after that.
    let status = written(&engine, "main", Time(at(31).0 + 30_999));
    let then = at(92);
    let old = account(&engine, "main", then);
    let mut facts = ground(&queues, 8);
    // The API has whole seconds.
    facts.extend([status, Input::Pod(runs(&second, at(7)))]);
    let mut fresh = Engine::new();
    fresh.observe(then, facts);
    assert!(fresh.queues()[0].spending.is_none(), "nothing is counted before it decides");
    fresh.step(then, vec![]);
    let new = account(&fresh, "main", then);
    assert_eq!(new.gpu_seconds(), old.gpu_seconds());
    assert!(old.usd().0 - new.usd().0 <= 1, "{} and {}", old.usd(), new.usd());
    assert_eq!((new.rate(), new.period()), (old.rate(), old.period()));
    // What comes back of it later is older than what it knows.
    fresh.step(then, vec![written(&engine, "main", at(40))]);
    assert_eq!(account(&fresh, "main", then), new);
    fresh.recount();
}

#[test]
fn a_strict_head_waits_and_others_of_the_cohort_do_not() {
    let mut engine = Engine::new();
    let spent = ClusterQueueFacts {
        strategy: QueueingStrategy::StrictFifo,
        ..queue("main", 4, Some(usd(0)))
    };
    let mut facts = ground(&[spent, queue("other", 4, None)], 8);
    let pods = [job("mine", "main", 1), job("theirs", "other", 8)];
    facts.extend(pods.iter().cloned().map(Input::Pod));
    // What the queue does not use may be borrowed: its head keeps nothing back.
    assert_eq!(play(&mut engine, at(0), facts, &pods), ["theirs"]);
    let (code, words) = reason(&engine, "mine");
    assert_eq!(code, "BudgetExhausted");
    assert!(words.contains("$0.00 a day: it admits nothing"), "{words}");
}

/// Work that runs for ten hours at $8 an hour, and behind it one that waits for its end; what
/// comes next.
fn ten_hours(budget: SpendingLimit) -> (Engine, [PodFacts; 3], Input) {
    let mut engine = Engine::new();
    let mut first = job("first", "main", 4);
    let expected_runtime = Some(Span::minutes(600));
    first.wishes = Arc::new(Wishes { expected_runtime, ..(*first.wishes).clone() });
    let pods = [first, job("big", "main", 8), job("small", "other", 4)];
    let [first, big, small] = pods.clone().map(Input::Pod);
    let mut facts = ground(&[queue("main", 8, Some(budget)), queue("other", 4, None)], 8);
    facts.push(first);
    assert_eq!(play(&mut engine, at(0), facts, &pods), ["first"]);
    assert!(binds(&engine.step(at(10), vec![big])).is_empty());
    (engine, pods, small)
}

/// Nothing is kept for work that may not begin: who was held for its sake starts.
#[test]
fn no_start_is_reserved_where_a_budget_is_spent() {
    let (mut engine, pods, small) = ten_hours(usd(100));
    assert_eq!(view(&engine, "big").reserved, Some(at(600)));
    assert!(binds(&engine.step(at(12), vec![small])).is_empty());
    assert_eq!(reason(&engine, "small").0, "HeldForReservation");
    // With that much less nothing begins there after two hours.
    let less = Input::ClusterQueue(queue("main", 8, Some(usd(16))));
    assert_eq!(play(&mut engine, at(15), vec![less], &pods), ["small"]);
    assert_eq!(view(&engine, "big").reserved, None);
    assert!(play(&mut engine, at(120), vec![], &pods).is_empty());
    assert_eq!(reason(&engine, "big").0, "BudgetExhausted");
    assert_eq!(view(&engine, "big").reserved, None);
    assert_eq!(engine.forecast(at(121), TEAM, "big"), None, "small goes on");
    engine.recount();
}

/// Nor where it will be spent by then: nobody waits for a start that cannot come, and who asks is
/// told of the next period.
#[test]
fn no_start_is_reserved_where_a_budget_will_be_spent_by_then() {
    let (mut engine, pods, small) = ten_hours(usd(16));
    let forecast = engine.forecast(at(11), TEAM, "big").map(|forecast| forecast.start);
    assert_eq!((view(&engine, "big").reserved, forecast), (None, Some(at(DAY))));
    let explained = engine.explain_workload(at(11), TEAM, "big").expect("it waits");
    let waits = |remedy: &Remedy| matches!(remedy.change, Change::WaitFor { .. });
    assert!(!explained.remedies.iter().any(waits), "{:?}", explained.remedies);
    assert_eq!(play(&mut engine, at(20), vec![small], &pods), ["small"]);
}

/// What would start it is tried: the next period, and more of the budget.
#[test]
fn remedies_of_a_spent_budget_are_to_wait_or_to_raise_it() {
    let mut engine = Engine::new();
    let (first, second) = (job("first", "main", 4), job("second", "main", 4));
    let pods = [first.clone(), second.clone()];
    let mut facts = ground(&[queue("main", 8, Some(usd(8)))], 8);
    facts.push(Input::Pod(first.clone()));
    play(&mut engine, at(0), facts, &pods);
    engine.step(at(70), vec![Input::Pod(second)]);
    let found = |engine: &mut Engine, now| -> Vec<Remedy> {
        engine.explain_workload(now, TEAM, "second").expect("there").remedies
    };
    let changes: Vec<Change> =
        found(&mut engine, at(75)).into_iter().map(|remedy| remedy.change).collect();
    let [Change::RaiseBudget { field, .. }, Change::WaitUntil { at: until, .. }] = &changes[..]
    else {
        panic!("{changes:?}")
    };
    assert_eq!((*field, *until), ("usd", at(DAY)));
    assert_eq!(changes[0].to_string(), "raise spec.budget.usd of main above $10.00");
    assert_eq!(changes[1].to_string(), "wait for the next period of the budget of main");
    // With the numbers of now, not of when it was refused.
    assert!(reason(&engine, "second").1.contains("($9.33)"));
    let explained = engine.explain_workload(at(75), TEAM, "second").expect("there");
    let words = explained.workload.reason.expect("it waits").to_string();
    assert!(words.contains("($10.00)"), "{words}");
    // Where there is no room either, the budget is not what keeps it.
    engine.step(at(80), vec![Input::Node(node("n", &[(GPU, 4)]).into())]);
    assert!(found(&mut engine, at(80)).is_empty());
    engine.recount();
}

/// Two queues that borrow the same; one has spent a soft budget. Whose work leaves, by priority.
fn reclaimed(fair: bool, priorities: (i32, i32), limit: Option<SpendingLimit>) -> Vec<String> {
    let mut engine = Engine::new();
    let mut owner = queue("owner", 8, None);
    owner.preemption = PreemptionPolicy {
        reclaim: PreemptReclaim::Any,
        while_borrowing: Some(BorrowThreshold { max_priority: None }),
        ..owner.preemption
    };
    let queues = [owner, queue("frugal", 0, None), queue("lavish", 0, limit)];
    let mut facts = ground(&queues, 8);
    let fair_sharing = fair.then_some(FairSharing::FinalShare);
    facts.push(Input::Policy(Policy { fair_sharing, ..Policy::default() }.into()));
    let (frugal, lavish) = (job("frugal-1", "frugal", 4), job("lavish-1", "lavish", 4));
    let pods = [
        PodFacts { priority: priorities.0, ..frugal },
        PodFacts { priority: priorities.1, ..lavish },
    ];
    facts.extend(pods.iter().cloned().map(Input::Pod));
    assert_eq!(play(&mut engine, at(0), facts, &pods).len(), 2);
    let head = PodFacts { priority: 9, ..job("own", "owner", 4) };
    let output = engine.step(at(60), vec![Input::Pod(head)]);
    engine.recount();
    evicted(&output)
}

#[test]
fn who_has_spent_a_soft_budget_is_reclaimed_from_first() {
    for fair in [false, true] {
        // Equal shares and the same time: priority decides, and a budget before that.
        assert_eq!(reclaimed(fair, (0, 5), None), ["frugal-1"], "fair sharing {fair}");
        assert_eq!(reclaimed(fair, (0, 5), Some(soft(9))), ["frugal-1"], "not spent");
        assert_eq!(reclaimed(fair, (0, 5), Some(soft(8))), ["lavish-1"], "fair sharing {fair}");
        assert_eq!(reclaimed(fair, (0, 5), Some(usd(8))), ["frugal-1"], "a hard one");
    }
}

#[test]
fn a_soft_budget_stops_nobody_and_gives_nobody_up_whom_the_rules_keep() {
    let mut engine = Engine::new();
    let pods = [job("a", "main", 2), job("b", "main", 2), job("c", "other", 1)];
    let mut other = queue("other", 0, None);
    other.preemption.reclaim = PreemptReclaim::Any;
    let mut facts = ground(&[queue("main", 4, Some(soft(0))), other], 4);
    facts.extend(pods[..2].iter().cloned().map(Input::Pod));
    assert_eq!(play(&mut engine, at(0), facts, &pods), ["a", "b"], "it admits");
    let output = engine.step(at(60), vec![Input::Pod(pods[2].clone())]);
    assert!(evicted(&output).is_empty(), "what is its own nobody takes back");
}

/// What was written when it was placed is its price, whatever the node costs later.
#[test]
fn the_price_of_the_time_of_placement_counts() {
    let mut engine = Engine::new();
    let first = job("first", "main", 4);
    let mut facts = ground(&[queue("main", 8, Some(usd(100)))], 8);
    facts.push(Input::Pod(first.clone()));
    play(&mut engine, at(0), facts, std::slice::from_ref(&first));
    let Input::Node(mut dearer) = priced("n", 8) else { unreachable!("a node") };
    Arc::make_mut(&mut dearer).price =
        Some(Price { per_hour: dollars(800), source: PriceSource::Annotation });
    let second = job("second", "main", 1);
    let facts = vec![Input::Node(dearer), Input::Pod(second.clone())];
    let output = engine.step(at(60), facts);
    assert_eq!(binds(&output).len(), 1);
    let rate = account(&engine, "main", at(60)).rate();
    assert_eq!(rate.per_hour, dollars(4 * PRICE + 100), "a hundred for what comes now");
    assert_eq!(account(&engine, "main", at(60)).usd(), dollars(8));
    engine.recount();
}

#[test]
fn extras_wait_for_the_next_period_and_members_that_die_are_replaced() {
    let mut engine = Engine::new();
    let members = gang("g", 4, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = ground(&[queue("main", 8, Some(usd(4)))], 8);
    facts.extend(members[..2].iter().cloned().map(Input::Pod));
    assert_eq!(play(&mut engine, at(0), facts, &members).len(), 2);
    let output = engine.step(at(60), vec![Input::Pod(members[2].clone())]);
    assert!(binds(&output).is_empty());
    let (code, words) = reason(&engine, "g");
    assert_eq!(code, "BudgetExhausted");
    assert!(words.starts_with("1 extra member waits: budget of main, $4.00 a day"), "{words}");
    assert_eq!(output.next_wake, Some(at(DAY)));
    // One of the two that it needs dies: the third is needed now.
    let names = play(&mut engine, at(70), vec![gone(&members[0])], &members);
    assert_eq!(names, ["g-2"]);
    let output = engine.step(at(80), vec![Input::Pod(members[3].clone())]);
    assert!(binds(&output).is_empty());
    assert_eq!(binds(&engine.step(at(DAY), vec![])).len(), 1, "a new day");
    engine.recount();
}
