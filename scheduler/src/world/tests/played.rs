//! Time that is played: arrivals, ends, wake-ups, returns, and the deadline.

use capstan_core::model::input::PodPhase;

use super::slots::Slots;
use super::*;
use crate::progress::Progress;
use crate::world::run::{Played, play};
use crate::world::{Deadline, Ending, Mode, Scenario, StartTimes, WAKES_IDLE_MAX, What};

fn until(inputs: Vec<Input>, deadline: Deadline, engine: &mut Slots) -> Played {
    let start = StartTimes { latest: at(0), earliest: at(0) };
    let mode = Mode::Until(deadline);
    let scenario = Scenario { inputs, policy: Policy::default(), start, mode };
    play(scenario, &Progress::default(), &mut |now, inputs| engine.step(now, inputs))
}

fn hour() -> Deadline {
    Deadline::After(Span::minutes(60))
}

/// The timeline as `seconds workload what`.
fn lines(played: &Played) -> Vec<String> {
    let line = |moment: &crate::world::Moment| {
        let seconds = (moment.at.0 - TEN) / 1_000;
        let what = match &moment.what {
            What::Preempted { by } => format!("preempted by {by}"),
            other => format!("{other:?}").to_lowercase(),
        };
        format!("{seconds} {} {what}", moment.workload)
    };
    played.ledger.timeline.iter().map(line).collect()
}

#[test]
fn pods_arrive_when_created_and_end_when_their_run_time_is_over() {
    let a = PodFacts { created: at(0), ..pod("a", Some(10)) };
    let b = PodFacts { created: at(4), ..pod("b", Some(10)) };
    let mut engine = Slots::new(1);
    let run = until(vec![Input::Pod(b), Input::Pod(a)], hour(), &mut engine);
    let expected = [
        "0 ns/a arrived",
        "0 ns/a admitted",
        "4 ns/b arrived",
        "10 ns/a finished",
        "10 ns/b admitted",
        "20 ns/b finished",
    ];
    assert_eq!(lines(&run), expected);
    assert_eq!((run.ending, run.now), (Ending::Settled, at(20)));
    let a = found(&run.world, "a");
    assert_eq!((a.phase, a.ended_at), (PodPhase::Succeeded, Some(at(10))));
}

#[test]
fn what_has_no_creation_time_exists_from_the_start_and_without_run_time_never_ends() {
    let mut engine = Slots::new(1);
    let run = until(vec![Input::Pod(pod("a", None))], hour(), &mut engine);
    assert_eq!(lines(&run), ["0 ns/a admitted"]);
    assert_eq!((run.ending, run.now), (Ending::Settled, at(0)));
}

#[test]
fn bound_pods_arrive_at_their_binding_and_their_run_counts_from_it() {
    let mut a = PodFacts { created: at(0), bound_at: Some(at(5)), ..pod("a", Some(10)) };
    (a.node, a.phase) = (Some("n1".into()), PodPhase::Running);
    // Bound, but nobody says when: counted from its creation.
    let mut b = PodFacts { created: at(7), ..pod("b", Some(10)) };
    (b.node, b.phase) = (Some("n1".into()), PodPhase::Running);
    // Neither: counted from the start.
    let mut c = pod("c", Some(10));
    (c.node, c.phase) = (Some("n1".into()), PodPhase::Running);
    let mut engine = Slots::new(9);
    let inputs = vec![Input::Pod(a), Input::Pod(b), Input::Pod(c)];
    let run = until(inputs, hour(), &mut engine);
    let expected = [
        "5 ns/a arrived",
        "7 ns/b arrived",
        "10 ns/c finished",
        "15 ns/a finished",
        "17 ns/b finished",
    ];
    assert_eq!(lines(&run), expected);
}

#[test]
fn members_end_only_once_their_gang_runs() {
    let mut first = PodFacts { created: at(0), ..member("m0", "g") };
    let second = PodFacts { created: at(100), ..member("m1", "g") };
    first.node = Some("n1".into());
    let mut engine = Slots::new(9);
    let inputs = vec![Input::Pod(first), Input::Pod(second)];
    let run = until(inputs, hour(), &mut engine);
    // The first would have ended at 60, but it had nobody to work with until 100.
    let expected = ["0 ns/g arrived", "100 ns/g admitted", "160 ns/g finished"];
    assert_eq!(lines(&run), expected);
    assert!(run.world.pods().all(|pod| pod.phase == PodPhase::Succeeded));
}

#[test]
fn a_job_is_finished_once_all_its_pods_are() {
    let mut train = OwnerFacts { created: at(0), ..job("train", 3) };
    train.wishes = wishes(Some(30));
    let mut engine = Slots::new(3);
    let run = until(vec![Input::Owner(train.clone())], hour(), &mut engine);
    let expected = ["0 ns/train arrived", "0 ns/train admitted", "30 ns/train finished"];
    assert_eq!(lines(&run), expected);
    assert!(owner(&run.world, &train).finished.is_some());
}

#[test]
fn pods_of_a_job_that_arrive_later_are_not_made() {
    let mut train = OwnerFacts { created: at(0), ..job("train", 2) };
    train.wishes = wishes(Some(30));
    let later = PodFacts { created: at(3), ..pod_of(&train, "train-x") };
    let mut engine = Slots::new(2);
    let inputs = vec![Input::Owner(train), Input::Pod(later)];
    let run = until(inputs, hour(), &mut engine);
    assert_eq!(uids(&run.world), ["pod/ns/train-0", "train-x"]);
    assert_eq!(lines(&run).last().map(String::as_str), Some("33 ns/train finished"));
}

#[test]
fn a_preempted_job_returns_and_its_run_starts_again() {
    let mut inputs = Vec::new();
    for number in 1..=4 {
        let mut low = OwnerFacts { created: at(number), ..job(&format!("low-{number}"), 1) };
        low.wishes = wishes(Some(600));
        inputs.push(Input::Owner(low));
    }
    let mut high = OwnerFacts { created: at(300), priority: 9, ..job("high", 1) };
    high.wishes = wishes(Some(120));
    inputs.push(Input::Owner(high));
    let mut engine = Slots::new(4);
    let run = until(inputs, hour(), &mut engine);
    let told = lines(&run);
    let expected = [
        "300 ns/high arrived",
        "300 ns/low-4 preempted by ns/high",
        "300 ns/high admitted",
        "420 ns/high finished",
        "420 ns/low-4 admitted",
        "420 ns/low-4 resumed",
        "601 ns/low-1 finished",
        "602 ns/low-2 finished",
        "603 ns/low-3 finished",
        "1020 ns/low-4 finished",
    ];
    assert_eq!(told[8..], expected);
    assert_eq!(run.ledger.preempted.len(), 1);
    assert!(run.world.owners().all(|owner| owner.finished.is_some()));
    assert_eq!((run.ending, run.now), (Ending::Settled, at(1_020)));
    assert_eq!(run.ledger.admitted.len(), 5);
}

#[test]
fn a_pod_of_a_run_that_is_over_never_arrives() {
    let low = OwnerFacts { created: at(0), ..job("low", 2) };
    let late = PodFacts { created: at(50), ..pod_of(&low, "low-x") };
    let high = OwnerFacts { created: at(10), priority: 9, ..job("high", 2) };
    let mut engine = Slots::new(2);
    let inputs = vec![Input::Owner(low), Input::Pod(late), Input::Owner(high)];
    let run = until(inputs, hour(), &mut engine);
    assert_eq!(uids(&run.world), ["pod/ns/high-0", "pod/ns/high-1"]);
}

#[test]
fn the_deadline_is_inclusive_and_what_comes_after_it_does_not_happen() {
    let a = PodFacts { created: at(0), ..pod("a", Some(10)) };
    let b = PodFacts { created: at(11), ..pod("b", Some(10)) };
    let inputs = || vec![Input::Pod(a.clone()), Input::Pod(b.clone())];
    let run = until(inputs(), Deadline::After(Span::seconds(10)), &mut Slots::new(1));
    assert_eq!(lines(&run), ["0 ns/a arrived", "0 ns/a admitted", "10 ns/a finished"]);
    assert_eq!((run.ending, run.now), (Ending::Deadline, at(10)));
    let run = until(inputs(), Deadline::At(at(20)), &mut Slots::new(1));
    assert_eq!(lines(&run).len(), 5);
    assert_eq!((run.ending, run.now), (Ending::Deadline, at(20)));
}

#[test]
fn a_deadline_before_everything_shows_an_empty_cluster() {
    let a = PodFacts { created: at(0), ..pod("a", Some(10)) };
    let mut engine = Slots::new(1);
    let run = until(vec![Input::Pod(a)], Deadline::At(at(-100)), &mut engine);
    assert_eq!((run.rounds, run.now, uids(&run.world).len()), (1, at(-100), 0));
    assert_eq!(engine.calls[0].0, at(-100));
    assert_eq!(run.ending, Ending::Deadline);
}

#[test]
fn the_engine_is_woken_when_it_asks_and_not_otherwise() {
    let b = PodFacts { created: at(40), ..pod("b", Some(10)) };
    let mut engine = Slots::new(1);
    engine.wakes = vec![at(15), at(45)];
    let run = until(vec![Input::Pod(b)], hour(), &mut engine);
    let times: Vec<i64> = engine.calls.iter().map(|(now, _)| (now.0 - TEN) / 1_000).collect();
    // Forty twice: the binding is a change.
    assert_eq!(times, [0, 15, 40, 40, 45, 50]);
    assert_eq!(run.ending, Ending::Settled);
}

#[test]
fn wake_ups_that_never_bring_anything_end() {
    let start = StartTimes { latest: at(0), earliest: at(0) };
    let mode = Mode::Until(Deadline::After(Span::minutes(1_000_000)));
    let scenario = Scenario { inputs: vec![], policy: Policy::default(), start, mode };
    let run = play(scenario, &Progress::default(), &mut |now, _| {
        let mut output = quiet();
        output.next_wake = Some(now.plus(Span(1)));
        output
    });
    assert_eq!((run.ending, run.rounds), (Ending::RoundsSpent, WAKES_IDLE_MAX + 1));
}

#[test]
fn a_wake_up_in_the_past_is_not_waited_for() {
    let start = StartTimes { latest: at(0), earliest: at(0) };
    let scenario =
        Scenario { inputs: vec![], policy: Policy::default(), start, mode: Mode::Until(hour()) };
    let run = play(scenario, &Progress::default(), &mut |now, _| {
        let mut output = quiet();
        output.next_wake = Some(now);
        output
    });
    assert_eq!((run.ending, run.rounds), (Ending::Settled, 1));
}

#[test]
fn progress_shows_the_virtual_time() {
    let a = PodFacts { created: at(8), ..pod("a", Some(10)) };
    let start = StartTimes { latest: at(0), earliest: at(8) };
    let scenario = Scenario {
        inputs: vec![Input::Pod(a)],
        policy: Policy::default(),
        start,
        mode: Mode::Until(hour()),
    };
    let (progress, mut engine) = (Progress::default(), Slots::new(1));
    play(scenario, &progress, &mut |now, inputs| engine.step(now, inputs));
    assert_eq!(progress.snapshot().now, Some(at(18)));
}

#[test]
fn the_same_inputs_in_another_order_play_the_same() {
    let inputs = |turned: bool| {
        let mut inputs: Vec<Input> = (0..20)
            .map(|number| {
                let name = format!("p{number:02}");
                Input::Pod(PodFacts { created: at(number / 3), ..pod(&name, Some(7)) })
            })
            .collect();
        if turned {
            inputs.reverse();
        }
        inputs
    };
    let one = until(inputs(false), hour(), &mut Slots::new(3));
    let other = until(inputs(true), hour(), &mut Slots::new(3));
    assert_eq!(lines(&one), lines(&other));
    assert_eq!(one.world.facts(), other.world.facts());
}

#[test]
fn large_jobs_cost_what_changes() {
    // A quadratic walk over 20,000 members would take minutes here.
    let mut train = OwnerFacts { created: at(0), ..job("train", 20_000) };
    train.wishes = wishes(Some(60));
    let mut engine = Slots::new(20_000);
    let run = until(vec![Input::Owner(train)], hour(), &mut engine);
    assert!(run.world.owners().all(|owner| owner.finished.is_some()));
    assert_eq!((run.ending, run.world.carried().binds), (Ending::Settled, 20_000));
}
