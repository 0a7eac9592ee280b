//! Work that is stopped, above all since it may not run: its Workload is inactive, or its queue is
//! drained. Fed by hand, for what becomes of stops that are refused, come about or come twice.

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{DeactivatedFacts, Input, PodFacts, StopPolicy};
use capstan_core::plan::{Action, Effect, EffectResult, PreemptionReason, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, TEAM, gang, in_queue, local_queue, pod, shape, text};
use capstan_tests::hand::{answer, bound, gpu_node, is_bind, one_queue, view};

const NOW: Time = Time(1_000_000);
/// How long after a refusal nothing is tried.
const AGAIN: Span = Span::seconds(10);

fn members() -> Vec<PodFacts> {
    gang("g", 4, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")))
}

/// Two members run.
fn running() -> Engine {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.push(gpu_node("n", 8));
    facts.extend(members()[..2].iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    assert_eq!(view(&engine, "g").state, State::Running);
    engine
}

fn deactivated() -> Input {
    Input::Deactivated(DeactivatedFacts { namespace: text(TEAM), name: text("g"), owners: vec![] })
}

fn active() -> Input {
    Input::Reactivated(text(TEAM), text("g"))
}

/// What stops pods, and why.
fn stops(output: &StepOutput) -> Vec<(&Effect, PreemptionReason)> {
    let stop = |effect: &'_ Effect| match &effect.action {
        Action::Evict { preemption, .. } => Some(preemption.reason),
        _ => None,
    };
    output.effects.iter().filter_map(|effect| Some((effect, stop(effect)?))).collect()
}

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

#[test]
fn a_stop_that_is_refused_is_tried_again_and_not_at_once() {
    let mut engine = running();
    let first = engine.step(NOW, vec![deactivated()]);
    let all = stops(&first);
    assert_eq!(
        all.iter().map(|(_, why)| *why).collect::<Vec<_>>(),
        [PreemptionReason::Deactivated; 2]
    );
    let refused = || EffectResult::Refused(text("a webhook says no"));
    let answers = all.iter().map(|(effect, _)| answer(effect, refused())).collect();
    let second = engine.step(after(1), answers);
    assert!(stops(&second).is_empty(), "not at once");
    assert_eq!(second.next_wake, Some(NOW.plus(AGAIN)));
    assert!(stops(&engine.step(after(9), Vec::new())).is_empty());
    assert_eq!(stops(&engine.step(NOW.plus(AGAIN), Vec::new())).len(), 2);
    engine.recount();
}

#[test]
fn a_stop_that_came_about_puts_off_no_other() {
    let mut engine = running();
    let members = members();
    let first = engine.step(NOW, vec![deactivated()]);
    let done = stops(&first).iter().map(|(effect, _)| answer(effect, EffectResult::Done)).collect();
    engine.step(after(1), done);
    // Others take their places, so that it is the same work.
    let mut facts: Vec<Input> = members[2..].iter().cloned().map(Input::Pod).collect();
    facts.extend(members[..2].iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let held = engine.step(after(2), facts);
    assert!(!held.effects.iter().any(|effect| is_bind(&effect)), "it is held");
    assert!(matches!(view(&engine, "g").reason, Some(Reason::Deactivated { .. })));
    assert_eq!(engine.queues()[0].pending, 0, "what is held waits for nothing in its queue");
    let goes_on = engine.step(after(3), vec![active()]);
    assert_eq!(goes_on.effects.iter().filter(is_bind).count(), 2);
    engine.step(after(4), members[2..].iter().map(|pod| bound(pod, "n")).collect());
    assert_eq!(view(&engine, "g").state, State::Running);
    let last = engine.step(after(5), vec![deactivated()]);
    assert_eq!(stops(&last).len(), 2, "at once");
}

#[test]
fn a_new_engine_finds_who_is_to_be_stopped() {
    let mut facts = one_queue(8);
    facts.push(gpu_node("n", 8));
    facts.extend(members()[..2].iter().map(|pod| bound(pod, "n")));
    let mut queue = local_queue("main");
    queue.stop = StopPolicy::HoldAndDrain;
    facts.push(Input::LocalQueue(queue));
    let mut engine = Engine::new();
    engine.observe(NOW, facts);
    let whys: Vec<_> = stops(&engine.step(after(1), Vec::new())).iter().map(|it| it.1).collect();
    assert_eq!(whys, [PreemptionReason::LocalQueueStopped; 2]);
}

#[test]
fn a_gang_that_was_preempted_and_made_again_runs_and_is_not_on_its_way_out() {
    let mut engine = Engine::new();
    let mut facts = one_queue(2);
    facts.push(gpu_node("n", 2));
    let members = members();
    facts.extend(members[..2].iter().map(|pod| bound(pod, "n")));
    let mut high = pod("high", &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    high.priority = 10;
    facts.push(Input::Pod(high.clone()));
    let first = engine.step(NOW, facts);
    let done = stops(&first).iter().map(|(effect, _)| answer(effect, EffectResult::Done)).collect();
    engine.step(after(1), done);
    // One after the other is made again, so that it is the same gang all the time.
    for at in 0..2 {
        let new = Input::Pod(members[2 + at].clone());
        engine.step(after(2), vec![new, Input::PodGone(members[at].uid.clone())]);
    }
    engine.step(after(3), vec![bound(&high, "n")]);
    let freed = engine.step(after(4), vec![Input::PodGone(high.uid)]);
    assert_eq!(freed.effects.iter().filter(is_bind).count(), 2);
    engine.step(after(5), members[2..].iter().map(|pod| bound(pod, "n")).collect());
    let seen = view(&engine, "g");
    assert_eq!((seen.state, seen.preempted), (State::Running, None));
    engine.recount();
}
