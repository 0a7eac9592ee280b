//! Modes in which time stands still: rounds, effects between them, and when they stop.

use capstan_core::plan::{Outcome, State, WorkloadOutcome, WorkloadStatus};

use super::slots::Slots;
use super::*;
use crate::progress::Progress;
use crate::world::run::{Played, play};
use crate::world::{Ending, Mode, Moment, ROUNDS_MAX, Scenario, StartTimes, What};

fn scenario(inputs: Vec<Input>, mode: Mode) -> Scenario {
    let start = StartTimes { latest: at(60), earliest: at(0) };
    Scenario { inputs, policy: Policy::default(), start, mode }
}

fn played(
    inputs: Vec<Input>,
    mode: Mode,
    step: &mut dyn FnMut(Time, Vec<Input>) -> StepOutput,
) -> Played {
    play(scenario(inputs, mode), &Progress::default(), step)
}

fn names(list: &[Text]) -> Vec<&str> {
    list.iter().map(|name| &**name).collect()
}

#[test]
fn the_first_step_sees_everything_at_the_latest_time_one_round_a_step() {
    let late = PodFacts { created: at(50), ..pod("late", None) };
    let mut calls = Vec::new();
    let policy = Policy { rounds_max: 77, unqueued: unqueued_hold(), ..Policy::default() };
    let inputs = vec![Input::Pod(late.clone()), Input::Policy(Arc::new(Policy::default()))];
    let run = Scenario { policy, ..scenario(inputs, Mode::Cycles(2)) };
    let played = play(run, &Progress::default(), &mut |now, inputs| {
        calls.push((now, inputs));
        quiet()
    });
    let expected = Policy { rounds_max: 1, unqueued: unqueued_hold(), ..Policy::default() };
    let first = vec![Input::Policy(Arc::new(expected)), Input::Pod(late)];
    assert_eq!(calls, [(at(60), first), (at(60), vec![])]);
    assert_eq!((played.rounds, played.ending, played.now), (2, Ending::Settled, at(60)));
}

fn unqueued_hold() -> capstan_core::policy::UnqueuedWorkloads {
    capstan_core::policy::UnqueuedWorkloads::Hold
}

#[test]
fn cycles_run_as_asked_and_say_when_more_would_change_something() {
    let inputs = || vec![Input::Pod(pod("a", None)), Input::Pod(pod("b", None))];
    let mut engine = Slots::new(5);
    let run = played(inputs(), Mode::Cycles(1), &mut |now, inputs| engine.step(now, inputs));
    assert_eq!((run.rounds, run.ending), (1, Ending::Cycles));
    assert_eq!(names(&run.ledger.admitted), ["ns/a"]);
    assert!(found(&run.world, "a").node.is_some());
    let mut engine = Slots::new(5);
    let run = played(inputs(), Mode::Cycles(4), &mut |now, inputs| engine.step(now, inputs));
    assert_eq!((run.rounds, run.ending), (4, Ending::Settled));
    let run = played(inputs(), Mode::Cycles(0), &mut |_, _| panic!("no round was asked for"));
    assert_eq!((run.rounds, run.ending), (0, Ending::Cycles));
}

#[test]
fn stable_means_a_round_that_changed_nothing() {
    let inputs = vec![Input::Pod(pod("a", None)), Input::Pod(pod("b", None))];
    let mut engine = Slots::new(1);
    let run = played(inputs, Mode::UntilStable, &mut |now, inputs| engine.step(now, inputs));
    assert_eq!((run.rounds, run.ending), (2, Ending::Settled));
    assert_eq!(names(&run.ledger.admitted), ["ns/a"]);
    // The bound pod and the answer to its bind.
    assert_eq!(engine.calls[1], (at(60), 2));
}

#[test]
fn victims_are_gone_before_the_next_round_and_a_stopped_job_waits_again() {
    let low = job("low", 1);
    let high = OwnerFacts { priority: 9, created: at(1), ..job("high", 1) };
    let mut low_pod = pod_of(&low, "low-x");
    (low_pod.node, low_pod.phase) = (Some("n1".into()), PodPhase::Running);
    let inputs = vec![Input::Owner(low.clone()), Input::Owner(high), Input::Pod(low_pod)];
    let mut engine = Slots::new(1);
    let run = played(inputs, Mode::UntilStable, &mut |now, inputs| engine.step(now, inputs));
    assert_eq!(run.ending, Ending::Settled);
    assert_eq!(names(&run.ledger.admitted), ["ns/high"]);
    assert_eq!(run.ledger.preempted.len(), 1);
    assert_eq!(uids(&run.world), ["pod/ns/high-0"]);
    assert!(owner(&run.world, &low).suspended);
    let expected =
        [("ns/low", What::Preempted { by: "ns/high".into() }), ("ns/high", What::Admitted)];
    let expected =
        expected.map(|(workload, what)| Moment { at: at(60), workload: workload.into(), what });
    assert_eq!(run.ledger.timeline, expected);
}

#[test]
fn waking_by_time_never_happens_where_time_stands_still() {
    let mut engine = Slots::new(1);
    engine.wakes = vec![at(100)];
    let run = played(vec![], Mode::UntilStable, &mut |now, inputs| engine.step(now, inputs));
    assert_eq!((run.rounds, run.ending, engine.calls.len()), (1, Ending::Settled, 1));
}

#[test]
fn reports_alone_keep_nothing_going() {
    let mut calls = 0;
    let run = played(vec![], Mode::UntilStable, &mut |_, _| {
        calls += 1;
        let status = WorkloadStatus {
            namespace: "ns".into(),
            name: "a".into(),
            state: State::Queued,
            reason: None,
        };
        let mut output = quiet();
        output.effects.push(effect(calls, "ns/a", "", Action::Status(Box::new(status))));
        output.effects[0].precondition = Precondition::None;
        output
    });
    assert_eq!((run.rounds, run.ending), (1, Ending::Settled));
}

#[test]
fn going_in_circles_is_cut_and_said() {
    let restless = StepOutput::default();
    let run = played(vec![], Mode::UntilStable, &mut |_, _| restless.clone());
    assert_eq!((run.rounds, run.ending), (ROUNDS_MAX, Ending::RoundsSpent));
}

#[test]
fn a_stop_from_outside_ends_the_run_at_the_next_round() {
    for mode in [Mode::UntilStable, Mode::Cycles(9)] {
        let stopping = Progress::default();
        let run = play(scenario(vec![], mode), &stopping, &mut |_, _| {
            stopping.stop();
            StepOutput::default()
        });
        assert_eq!((run.rounds, run.ending), (1, Ending::Interrupted));
    }
}

#[test]
fn progress_shows_rounds_and_workloads() {
    let inputs = vec![Input::Pod(pod("a", None)), Input::Pod(pod("b", None))];
    let (progress, mut engine) = (Progress::default(), Slots::new(1));
    play(scenario(inputs, Mode::UntilStable), &progress, &mut |now, inputs| {
        engine.step(now, inputs)
    });
    let seen = progress.snapshot();
    assert_eq!((seen.rounds, seen.admitted, seen.pending, seen.now), (2, 1, 1, None));
}

#[test]
fn each_admission_and_each_stop_is_listed_once() {
    let stop = |victim: &str, by: &str| Outcome::Preempting(vec![preemption(victim, by)]);
    let script = [
        ("ns/a", Outcome::Admitted),
        ("ns/b", stop("v", "b")),
        // Waiting for the same victim, and another that counts on it too.
        ("ns/b", stop("v", "b")),
        ("ns/c", stop("v", "c")),
        ("ns/v", Outcome::Admitted),
        ("ns/c", stop("v", "c")),
        ("ns/v", Outcome::Admitted),
    ];
    let mut script = script.into_iter();
    let run = played(vec![], Mode::Cycles(7), &mut |_, _| {
        let (workload, outcome) = script.next().expect("seven rounds");
        let mut output = quiet();
        let workload = workload.into();
        output.report.counts.considered = 2;
        output.report.outcomes.push(WorkloadOutcome { round: 1, workload, outcome });
        output
    });
    assert_eq!(names(&run.ledger.admitted), ["ns/a", "ns/v"]);
    let stops: Vec<&str> = run.ledger.preempted.iter().map(|stop| &*stop.preemptor).collect();
    assert_eq!(stops, ["ns/b", "ns/c"]);
    assert_eq!(run.ledger.timeline.len(), 5);
    assert_eq!(run.ledger.counts.considered, 14);
}

#[test]
fn the_real_seam_runs_an_engine_and_shows_each_report() {
    let (mut reports, progress) = (0, Progress::default());
    let run =
        crate::world::run_watched(scenario(vec![], Mode::Cycles(3)), &progress, &mut |_, _| {
            reports += 1
        });
    assert_eq!((run.rounds, reports), (3, 3));
    assert_eq!(run.settled, run.ending == Ending::Settled);
    // The run is done on another thread than the one that prints it.
    fn travels<T: Send>(_: &T) {}
    travels(&run);
}
