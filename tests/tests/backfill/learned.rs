//! Run times that are learned from runs before.

use capstan_core::explain::view::{Change, Remedy};
use capstan_core::model::input::PodPhase;

use super::*;

/// A stage that learns.
fn learning(nodes: &[&str]) -> Stage {
    let mut stage = stage(nodes);
    let reservations = Some(Reserving { learns: true, ..Reserving::default() });
    stage.add([Input::Policy(Policy { reservations, ..Policy::default() }.into())]);
    stage
}

/// A lone pod has done its work, and is deleted.
fn end(stage: &mut Stage, name: &str) {
    end_as(stage, name, PodPhase::Succeeded);
}

fn end_as(stage: &mut Stage, name: &str, phase: PodPhase) {
    let mut done = stage.pods[name].clone();
    done.phase = phase;
    stage.add([Input::Pod(done)]);
    stage.settle(|_| {});
    stage.drop_pod(&name.into());
    stage.settle(|_| {});
}

#[test]
fn run_times_are_learned_where_the_configuration_asks_for_it() {
    let mut stage = learning(&["a", "b"]);
    for run in 0..8 {
        let name = format!("run-{run}");
        submit(&mut stage, work(&name, (1, 8), None));
        stage.now = stage.now.plus(Span(10 * MINUTE));
        end(&mut stage, &name);
    }
    submit(&mut stage, work("long", (1, 8), None));
    submit(&mut stage, work("big", (2, 8), None));
    assert_eq!(reserved(&stage, "big"), Some(90));
    let told = forecast(&mut stage, "big").expect("it was learned when long ends");
    assert!(told.assumes.learned, "{told}");
    let explained = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it waits");
    let waits = |remedy: &&Remedy| matches!(remedy.change, Change::WaitFor { .. });
    let wait = explained.remedies.iter().find(waits).expect("long ends");
    let Change::WaitFor { at, learned, .. } = wait.change else { unreachable!() };
    assert_eq!((at, learned), (Some(told.start), true), "as its forecast has it");
    submit(&mut stage, work("declares", (1, 8), Some(11)));
    assert_eq!(held_for(&stage, "declares"), Some(("team/big".into(), 90)));
}

/// What crashed after a minute says nothing of how long such work runs: else others that declare
/// nothing would pass a reserved start.
#[test]
fn nothing_is_learned_of_runs_that_failed() {
    let mut stage = learning(&["a", "b"]);
    for run in 0..8 {
        let name = format!("run-{run}");
        submit(&mut stage, work(&name, (1, 8), None));
        stage.now = stage.now.plus(Span(MINUTE));
        end_as(&mut stage, &name, PodPhase::Failed);
    }
    submit(&mut stage, work("long", (1, 8), Some(60)));
    submit(&mut stage, work("big", (2, 8), Some(60)));
    submit(&mut stage, work("says-nothing", (1, 8), None));
    assert_eq!(reserved(&stage, "big"), Some(68));
    assert_eq!(held_for(&stage, "says-nothing"), Some(("team/big".into(), 68)));
}

/// Runs count from when they began, whoever led then.
#[test]
fn a_new_leader_learns_whole_runs() {
    let mut stage = learning(&["a", "b"]);
    let names: Vec<String> = (0..8).map(|run| format!("run-{run}")).collect();
    names.iter().for_each(|name| submit(&mut stage, work(name, (1, 1), None)));
    stage.now = stage.now.plus(Span(50 * MINUTE));
    stage.settle(|_| {});
    let mut led_anew = stage.restarted();
    for stage in [&mut stage, &mut led_anew] {
        stage.settle(|_| {});
        stage.now = stage.now.plus(Span(10 * MINUTE));
        names.iter().for_each(|name| end(stage, name));
        submit(stage, work("long", (1, 8), None));
        submit(stage, work("big", (2, 8), None));
        assert_eq!(reserved(stage, "big"), Some(120), "after an hour, as those before");
        assert_eq!(starts(stage, "big"), Some(120));
    }
}
