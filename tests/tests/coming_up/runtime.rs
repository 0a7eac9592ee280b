//! Work that may run for so long only.

use super::*;

/// It may run for so long, all its runs together.
#[test]
fn what_ran_as_long_as_it_may_is_deactivated() {
    let mut engine = Engine::new();
    let mut owner = train("train", 1);
    owner.wishes = ten_minutes();
    let ran = Span::minutes(4);
    let note = RequeueNote { at: after(-60), ran, ..RequeueNote::default() };
    owner.requeued = Some(note.into());
    // Without any word of pods that must come up.
    let facts = one_queue(4).into_iter().chain([gpu_node("n", 4), Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    let up = comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Running);
    assert_eq!(up.next_wake, Some(after(360)));
    let over = engine.step(after(360), vec![]);
    assert_eq!(deactivates(&over), ["train"]);
    let held =
        engine.step(after(360), done(&over).into_iter().chain([inactive("train")]).collect());
    let (why, note) = suspends(&held).pop().expect("it is stopped");
    assert_eq!(why.because(), "it ran for 10m, as long as it may; it waits for spec.active: true");
    assert_eq!(note.ran, Span(0));
    let facts = stopped(&mut owner, &held);
    assert_eq!(engine.step(after(360), facts).next_wake, None);
    engine.recount();
}

/// A pod of its own has no Workload that could be deactivated: it is stopped.
#[test]
fn a_pod_of_its_own_that_ran_as_long_as_it_may_is_stopped() {
    let mut engine = Engine::new();
    let wishes = ten_minutes();
    let lone = pod("lone", &shape(&[(GPU, 1)]), &wishes);
    let facts = one_queue(4).into_iter().chain([gpu_node("n", 4), Input::Pod(lone.clone())]);
    let output = engine.step(NOW, facts.collect());
    let bound = PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..lone };
    engine.step(NOW, done(&output).into_iter().chain([Input::Pod(bound)]).collect());
    let over = engine.step(after(600), vec![]);
    let evicted = over.effects.iter().filter(|it| matches!(it.action, Action::Evict { .. }));
    assert_eq!((evicted.count(), deactivates(&over).len()), (1, 0));
}

/// A pod that fails and is made again begins no new hour.
#[test]
fn runs_that_fail_count_for_how_long_it_may_run() {
    let mut engine = Engine::new();
    let wishes = ten_minutes();
    let members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &wishes);
    let facts = one_queue(4).into_iter().chain([gpu_node("n", 4)]);
    let facts = facts.chain(members.iter().cloned().map(Input::Pod));
    let output = engine.step(NOW, facts.collect());
    let runs = members.iter().map(|pod| bound(pod, "n"));
    engine.step(NOW, done(&output).into_iter().chain(runs).collect());
    let failed = members.iter().map(|pod| {
        let (node, phase) = (Some(text("n")), PodPhase::Failed);
        Input::Pod(PodFacts { node, phase, ..pod.clone() })
    });
    let anew: Vec<PodFacts> = members
        .iter()
        .map(|pod| PodFacts { uid: text(format!("{}-2", pod.uid)), ..pod.clone() })
        .collect();
    let again = failed.chain(anew.iter().cloned().map(Input::Pod));
    let second = engine.step(after(540), again.collect());
    assert_eq!(binds(&second).len(), 2);
    let runs = anew.iter().map(|pod| bound(pod, "n"));
    let shown = engine.step(after(540), done(&second).into_iter().chain(runs).collect());
    assert_eq!(shown.next_wake, Some(after(600)), "nine minutes of ten are over");
    engine.recount();
}
