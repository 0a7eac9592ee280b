//! Run times that are learned from runs before.

use capstan_core::explain::view::{Change, Remedy};
use capstan_core::model::input::{OwnerEnd, PodPhase};

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

/// What is learned is of whole runs: work that made a pod in place of one that ended is to end when
/// such work did before, reckoned from when the first of it began.
#[test]
fn what_is_learned_of_work_that_makes_pods_in_turn_is_of_all_of_them() {
    let mut stage = learning(&["a"]);
    for run in 0..8 {
        let before = job(&format!("past-{run}"), 1, &shape(&[(GPU, 1)]), &wishes(None, None));
        stage.add([Input::Owner(before.clone())]);
        stage.settle(|_| {});
        stage.now = stage.now.plus(Span(40 * MINUTE));
        let over = stage.owners[&before.uid].clone();
        let pod = stage.pods.values().find(|pod| pod.name.starts_with(&*before.name));
        let pod = PodFacts { phase: PodPhase::Succeeded, ..pod.expect("it runs").clone() };
        let over = OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..over };
        stage.add([Input::Pod(pod), Input::Owner(over)]);
        stage.settle(|_| {});
    }
    submit_rolling(&mut stage, 8, None);
    stage.now = stage.now.plus(Span(20 * MINUTE));
    let first = stage.pods.values().find(|pod| &*pod.name == "rolls-0").expect("it runs").clone();
    let next = PodFacts {
        uid: "next".into(),
        name: "rolls-next".into(),
        node: None,
        binding: None,
        bound_at: None,
        phase: PodPhase::Pending,
        created: stage.now,
        ..first.clone()
    };
    let first = PodFacts { phase: PodPhase::Succeeded, ..first };
    let owner = OwnerFacts { left: Some(7), ended: 1, ..stage.owners["job-rolls"].clone() };
    stage.add([Input::Pod(first), Input::Pod(next), Input::Owner(owner)]);
    stage.settle(|_| {});
    submit(&mut stage, work("big", (1, 8), None));
    assert_eq!((runs(&stage, "rolls"), reserved(&stage, "big")), (true, Some(8 * 40 + 40)));
}
