//! What would start work that waits while nothing is admitted until other work has started.

use capstan_core::explain::view::{Change, Remedy, WorkloadExplanation};

use super::*;

/// `first` was admitted, holds three GPUs of so many and has not started; `second` asks four.
fn one_at_a_time(owned: i64) -> (Engine, PodFacts) {
    let mut facts = one_queue(owned);
    let one_at_a_time = PodsReady { blocks_admission: true, ..ready() };
    facts.extend([policy(one_at_a_time), gpu_node("n", 64)]);
    let work = |name, gpus| pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some("main")));
    let starting = PodFacts { node: Some(text("n")), created: NOW, ..work("first", 3) };
    facts.push(Input::Pod(starting.clone()));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let output = engine.step(after(1), vec![Input::Pod(work("second", 4))]);
    assert!(binds(&output).is_empty());
    (engine, starting)
}

fn explained(engine: &mut Engine) -> WorkloadExplanation {
    let found = engine.explain_workload(after(2), TEAM, "second").expect("it exists");
    engine.recount();
    found
}

fn words(found: &[Remedy]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn more_quota_starts_it_once_others_have_started() {
    let raise = "raise nominalQuota of main by 6 GPUs (flavor default)";
    let (mut engine, first) = one_at_a_time(1);
    let found = explained(&mut engine);
    assert_eq!(words(&found.remedies), [format!("{raise}, once team/first has started")]);
    let waits = Reason::AwaitsOthers { workload: text("team/first") };
    assert_eq!(found.in_the_way.len(), 2);
    assert_eq!(found.in_the_way[1].reason, waits);
    // With that it waits for first alone.
    let (mut raised, _) = one_at_a_time(7);
    assert_eq!(view(&raised, "second").reason, Some(waits));
    assert_eq!(explained(&mut raised).remedies, []);
    let started = bound(&first, "n");
    assert_eq!(binds(&raised.step(after(3), vec![started.clone()])).len(), 1);
    // And now it starts at once.
    engine.step(after(3), vec![started]);
    let found = explained(&mut engine);
    assert_eq!(words(&found.remedies), [raise]);
    assert_eq!(found.in_the_way.len(), 1);
}

#[test]
fn whose_end_is_waited_for_does_not_have_to_start() {
    let (mut engine, _) = one_at_a_time(4);
    let found = explained(&mut engine).remedies;
    let waits = |remedy: &&Remedy| matches!(remedy.change, Change::WaitFor { .. });
    let end = found.iter().find(waits).expect("its end leaves enough");
    assert_eq!(end.to_string(), "wait for team/first to end");
    let others = found.iter().filter(|remedy| !waits(remedy));
    let after: Vec<_> = others.map(|remedy| remedy.after.clone()).collect();
    assert_eq!(after, [[text("team/first")]]);
}

/// Quota that was there when it was looked at last is short now: that is told as well.
#[test]
fn what_is_short_since_is_told_beside_who_has_to_start() {
    let (mut engine, _) = one_at_a_time(7);
    let waits = Reason::AwaitsOthers { workload: text("team/first") };
    assert_eq!(view(&engine, "second").reason, Some(waits.clone()));
    let urgent = pod("urgent", &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    engine.step(after(2), vec![bound(&urgent, "n")]);
    let found = explained(&mut engine);
    assert_eq!(found.in_the_way.last().map(|it| &it.reason), Some(&waits));
    assert!(found.in_the_way.len() > 1, "{:?}", found.in_the_way);
    assert!(!found.remedies.is_empty());
}

/// A forecast takes for granted that who keeps it out has started by then, if that does not end.
#[test]
fn a_forecast_says_who_has_to_start_before() {
    let work = |name, gpus, hours: i64| {
        let wishes = Wishes::clone(&in_queue(Some("main")));
        let wishes = Wishes { expected_runtime: Some(Span::minutes(60 * hours)), ..wishes };
        pod(name, &shape(&[(GPU, gpus)]), &Arc::new(wishes))
    };
    for (gpus, said) in [
        (4, "if team/runs ends as declared, once team/first has started"),
        (7, "if 2 workloads end as declared, team/first last"),
    ] {
        let mut facts = one_queue(7);
        let one_at_a_time = PodsReady { blocks_admission: true, ..ready() };
        facts.extend([policy(one_at_a_time), gpu_node("n", 64)]);
        let starting = PodFacts { node: Some(text("n")), created: NOW, ..work("first", 3, 2) };
        let runs = PodFacts { bound_at: Some(NOW), ..work("runs", 4, 1) };
        facts.push(Input::Pod(PodFacts { bound_at: Some(NOW), ..starting }));
        facts.push(bound(&runs, "n"));
        let mut engine = Engine::new();
        engine.step(NOW, facts);
        let output = engine.step(after(1), vec![Input::Pod(work("second", gpus, 1))]);
        assert!(binds(&output).is_empty());
        let found = engine.forecast(after(2), TEAM, "second").expect("all ends are known");
        assert_eq!(found.assumes.to_string(), said);
        engine.recount();
    }
}
