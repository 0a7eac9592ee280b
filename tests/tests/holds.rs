//! Work that is stopped, above all since it may not run: its Workload is inactive, or its queue is
//! drained. Fed by hand, for what becomes of stops that are refused, come about or come twice.

use capstan_core::Engine;
use capstan_core::explain::milestone::Passage;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    BorrowThreshold, DeactivatedFacts, EvictionNote, Held, Input, OwnerFacts, PodFacts,
    PreemptReclaim, StopPolicy,
};
use capstan_core::plan::{Action, Effect, EffectResult, PreemptionReason, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, job, local_queue, namespace,
    nominal, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, gpu_node, is_bind, one_queue, view};

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
fn a_late_refusal_of_one_stop_is_none_of_the_next() {
    let mut engine = running();
    let first = engine.step(NOW, vec![deactivated()]);
    let refused = || EffectResult::Refused(text("a webhook says no"));
    let all = stops(&first);
    engine.step(after(1), vec![answer(all[0].0, refused())]);
    let second = engine.step(NOW.plus(AGAIN), Vec::new());
    assert_eq!(stops(&second).len(), 2);
    engine.step(NOW.plus(AGAIN), vec![answer(all[1].0, refused())]);
    assert_eq!(view(&engine, "g").state, State::Evicting, "the second is under way");
    engine.step(NOW.plus(AGAIN), vec![answer(stops(&second)[0].0, refused())]);
    assert_eq!(view(&engine, "g").state, State::Running);
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

/// Its object has to outlive its pods then, though no reason of a victim says that it is held.
#[test]
fn who_is_held_while_it_leaves_for_another_is_known_to_be() {
    let mut engine = running();
    let held = |engine: &Engine| engine.details(&text(TEAM), &text("g")).expect("it is there").held;
    let mut boss = pod("boss", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    boss.priority = 10;
    let stopped = stops(&engine.step(NOW, vec![Input::Pod(boss)])).len();
    assert_eq!((stopped, view(&engine, "g").state, held(&engine)), (2, State::Evicting, false));
    assert!(stops(&engine.step(after(1), vec![deactivated()])).is_empty(), "it leaves already");
    assert_eq!((view(&engine, "g").state, held(&engine)), (State::Evicting, true));
    engine.step(after(2), vec![active()]);
    assert!(!held(&engine));
    engine.recount();
}

/// A group is whoever names it; an owner that was made anew is other work.
#[test]
fn who_comes_in_place_of_a_member_is_held_as_that_one_was() {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    let owner = job("made-anew", 1, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    facts.extend([gpu_node("n", 8), Input::Owner(owner)]);
    let members = members();
    facts.extend(members[..2].iter().cloned().map(Input::Pod));
    for name in ["g", "made-anew"] {
        let (namespace, name) = (text(TEAM), text(name));
        let owners = vec![members[0].uid.clone(), text("who is gone")];
        facts.push(Input::Deactivated(DeactivatedFacts { namespace, name, owners }));
    }
    engine.step(NOW, facts);
    assert_ne!(view(&engine, "made-anew").state, State::Queued, "it is not who was held");
    // Neither of those who were there is any more, before the object says so.
    let mut facts: Vec<Input> = members[2..].iter().cloned().map(Input::Pod).collect();
    facts.extend(members[..2].iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let held = engine.step(after(1), facts);
    assert!(!held.effects.iter().any(|effect| is_bind(&effect)), "it is held");
    assert!(matches!(view(&engine, "g").reason, Some(Reason::Deactivated { .. })));
    assert_eq!(engine.step(after(2), vec![active()]).effects.iter().filter(is_bind).count(), 2);
    engine.recount();
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
fn a_drained_queue_stops_what_runs_whose_local_queue_is_gone() {
    let mut engine = running();
    let gone = Input::LocalQueueGone { namespace: text(TEAM), name: text("main") };
    assert!(stops(&engine.step(after(1), vec![gone])).is_empty());
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(8))])]));
    queue.stop = StopPolicy::HoldAndDrain;
    let drained = engine.step(after(2), vec![Input::ClusterQueue(queue)]);
    let whys: Vec<_> = stops(&drained).iter().map(|it| it.1).collect();
    assert_eq!(whys, [PreemptionReason::ClusterQueueStopped; 2]);
    engine.recount();
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

/// Work of high priority that wants all of a node with two GPUs.
fn boss() -> Input {
    let mut boss = pod("boss", &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    boss.priority = 10;
    Input::Pod(boss)
}

/// The API refuses every stop of a step.
fn refuse(output: &StepOutput) -> Vec<Input> {
    let refused = EffectResult::Refused(text("a policy says no"));
    let stops = output.effects.iter().filter(|effect| is_stop(effect));
    stops.map(|effect| answer(effect, refused.clone())).collect()
}

/// The API does what it is asked.
fn obey(output: &StepOutput) -> Vec<Input> {
    let stops = output.effects.iter().filter(|effect| is_stop(effect));
    stops.map(|effect| answer(effect, EffectResult::Done)).collect()
}

fn is_stop(effect: &Effect) -> bool {
    matches!(effect.action, Action::Evict { .. } | Action::SuspendOwner { .. })
}

/// Stops that are asked for.
fn asked(output: &StepOutput) -> usize {
    output.effects.iter().filter(|effect| is_stop(effect)).count()
}

/// Stops that are counted.
fn counted(output: &StepOutput) -> usize {
    let stop = |what: &Passage| matches!(what, Passage::Evicted(_));
    output.report.milestones.iter().filter(|milestone| stop(&milestone.what)).count()
}

/// Until when the boss waits out a failure, and what failed.
fn pause(engine: &Engine) -> (Time, String) {
    match view(engine, "boss").reason {
        Some(Reason::Backoff { until, failure }) => (until, failure.to_string()),
        other => panic!("{other:?}"),
    }
}

/// The API refuses to delete pods after they were marked; when marks are seen, and that they are
/// taken off again, is anybody's guess.
#[test]
fn victims_that_may_not_be_deleted_keep_nobody_waiting_for_them_for_ever() {
    let lows =
        ["low-0", "low-1"].map(|name| pod(name, &shape(&[(GPU, 1)]), &in_queue(Some("main"))));
    let preemptor = text("team/boss");
    let note = EvictionNote { preemptor, reason: PreemptionReason::InClusterQueue };
    let run = |note: Option<&EvictionNote>| -> Vec<Input> {
        let shown = lows.iter().map(|pod| PodFacts { eviction: note.cloned(), ..pod.clone() });
        shown.map(|pod| bound(&pod, "n")).collect()
    };
    for late in [false, true] {
        let mut engine = Engine::new();
        let facts = one_queue(2).into_iter().chain([gpu_node("n", 2), boss()]).chain(run(None));
        let first = engine.step(NOW, facts.collect());
        assert_eq!((asked(&first), counted(&first)), (2, 0), "nobody is stopped yet");
        let marked = if late { Vec::new() } else { run(Some(&note)) };
        engine.step(NOW, marked);
        let second = engine.step(NOW, refuse(&first));
        assert_eq!((asked(&second), second.next_wake), (0, Some(after(1))));
        let (until, failure) = pause(&engine);
        assert_eq!(until, after(1));
        assert!(failure.starts_with("could not stop team/low-"), "{failure}");
        assert!(failure.ends_with(": a policy says no"), "{failure}");
        for shown in [run(Some(&note)), run(None)] {
            let seen = engine.step(NOW, shown);
            assert_eq!((asked(&seen), seen.next_wake), (0, Some(after(1))));
            for low in &lows {
                let low = view(&engine, &low.name);
                assert_eq!((low.state, low.preempted), (State::Running, None));
            }
            engine.recount();
        }
        let again = engine.step(after(1), Vec::new());
        assert_eq!(asked(&again), 2);
        let waits = engine.step(after(1), refuse(&again));
        assert_eq!((asked(&waits), waits.next_wake), (0, Some(after(3))), "longer each time");
        // The policy is gone.
        let last = engine.step(after(3), Vec::new());
        assert_eq!((asked(&last), counted(&last)), (2, 0));
        let gone = lows.iter().map(|pod| Input::PodGone(pod.uid.clone()));
        let free = engine.step(after(4), obey(&last).into_iter().chain(gone).collect());
        assert_eq!(binds(&free), [("boss".to_owned(), "n".to_owned())]);
        assert_eq!(counted(&free), 2, "now they are");
        engine.recount();
    }
}

/// A Job that may not be suspended: it is asked for again after a pause, counts once, and is not
/// said to be stopped before it is.
#[test]
fn a_job_that_may_not_be_suspended_is_asked_for_after_pauses_and_counts_once() {
    let mut engine = Engine::new();
    let owner = job("low", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let owner = OwnerFacts { suspended: false, ..owner };
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(owner.clone())]);
    facts.extend(pods_of(&owner).iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    let unsure = |engine: &Engine| {
        engine.details(&text(TEAM), &text("low")).expect("it is there").stop_asked
    };
    let mut ask = engine.step(NOW, vec![boss()]);
    let mut now = NOW;
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!((asked(&ask), counted(&ask), unsure(&engine)), (1, 0, true));
        let waits = engine.step(now, refuse(&ask));
        now = now.plus(Span::seconds(wait));
        assert_eq!((asked(&waits), counted(&waits), waits.next_wake), (0, 0, Some(now)));
        let failure = "could not stop team/low: a policy says no".to_owned();
        assert_eq!((pause(&engine), unsure(&engine)), ((now, failure), false));
        let low = view(&engine, "low");
        assert_eq!((low.state, low.preempted), (State::Running, None));
        engine.recount();
        ask = engine.step(now, Vec::new());
    }
    let mut facts = obey(&ask);
    let stopped = OwnerFacts { suspended: true, incarnation: 1, ..owner.clone() };
    facts.push(Input::Owner(stopped));
    facts.extend(pods_of(&owner).iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let free = engine.step(now, facts);
    assert_eq!((counted(&free), binds(&free).len()), (1, 1));
    engine.recount();
}

/// A webhook may give pods to us whose template names another scheduler: nobody would resume their
/// Job, so it is they who are stopped, and those that it makes in their stead wait.
#[test]
fn pods_are_stopped_of_a_job_that_nobody_would_resume() {
    let mut engine = Engine::new();
    let owner = job("low", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let held = Some(Held::ForeignMembers(2));
    let owner = OwnerFacts { suspended: false, ours: false, held, ..owner };
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(owner.clone())]);
    facts.extend(pods_of(&owner).iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    let stops = engine.step(NOW, vec![boss()]);
    let pods = |effect: &&Effect| matches!(effect.action, Action::Evict { .. });
    assert_eq!((asked(&stops), stops.effects.iter().filter(pods).count()), (2, 2));
    let mut facts = obey(&stops);
    facts.extend(pods_of(&owner).iter().map(|pod| Input::PodGone(pod.uid.clone())));
    facts.extend(pods_of(&owner).into_iter().map(|pod| {
        let (uid, name) = (format!("{}-again", pod.uid), format!("{}-again", pod.name));
        Input::Pod(PodFacts { uid: text(uid), name: text(name), ..pod })
    }));
    let free = engine.step(after(1), facts);
    assert_eq!(binds(&free), [("boss".to_owned(), "n".to_owned())]);
    let done = free.effects.iter().map(|effect| answer(effect, EffectResult::Done));
    let waits = engine.step(after(2), done.collect());
    assert_eq!((asked(&waits), view(&engine, "low").state), (0, State::Queued));
    engine.recount();
}

/// An answer that comes after what it brought about is seen, or never, changes no count.
#[test]
fn a_stop_that_is_seen_before_it_is_answered_counts_once() {
    let mut engine = running();
    let first = engine.step(NOW, vec![deactivated()]);
    assert_eq!((asked(&first), counted(&first)), (2, 0));
    let leave = |pod: &PodFacts| PodFacts { terminating: true, ..pod.clone() };
    let leaving = members()[..2].iter().map(|pod| bound(&leave(pod), "n")).collect();
    assert_eq!(counted(&engine.step(after(1), leaving)), 1);
    assert_eq!(counted(&engine.step(after(2), obey(&first))), 0);
}

/// An engine before this one stopped a Job, whose pods stay when somebody takes the mark off it:
/// who was to have their room looks again.
#[test]
fn who_counts_on_what_an_engine_before_marked_looks_again_when_that_stays() {
    let mut engine = Engine::new();
    let mut owner = job("low", 1, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    let stays = pods_of(&owner).remove(0);
    let preemptor = text("team/boss");
    owner.eviction = Some(EvictionNote { preemptor, reason: PreemptionReason::InClusterQueue });
    owner.incarnation = 1;
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(owner.clone()), bound(&stays, "n"), boss()]);
    let first = engine.step(NOW, facts);
    assert_eq!((asked(&first), view(&engine, "boss").state), (0, State::Reserved));
    owner.eviction = None;
    let second = engine.step(after(1), vec![Input::Owner(owner)]);
    assert_eq!(asked(&second), 1, "it is stopped now");
    engine.recount();
}

/// Work that could not be stopped has not come back so often that it may stop nobody any more.
#[test]
fn stops_that_are_refused_tire_nobody() {
    let queue = |name: &str, gpus: i64| {
        let quota = group(&[(DEFAULT, &[(GPU, nominal(gpus))])]);
        let mut queue = cluster_queue(name, Some("all"), quota);
        queue.preemption.reclaim = PreemptReclaim::Any;
        queue.preemption.while_borrowing = Some(BorrowThreshold { max_priority: None });
        [Input::ClusterQueue(queue), Input::LocalQueue(local_queue(name))]
    };
    let pods = |name: &str, queue: &str, priority: i32| {
        let pod = pod(name, &shape(&[(GPU, 2)]), &in_queue(Some(queue)));
        PodFacts { priority, ..pod }
    };
    let (boss, low) = (pods("boss", "main", 0), pods("low", "borrower", 5));
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[])), gpu_node("n", 2)];
    facts.extend([queue("main", 2), queue("borrower", 0), queue("poor", 0)].concat());
    facts.extend([bound(&low, "n"), Input::Pod(boss.clone())]);
    let mut engine = Engine::new();
    let mut ask = engine.step(NOW, facts);
    let mut now = NOW;
    for _ in 0..3 {
        assert_eq!(asked(&ask), 1);
        engine.step(now, refuse(&ask));
        now = now.plus(Span::seconds(10));
        ask = engine.step(now, Vec::new());
    }
    assert_eq!(asked(&ask), 1);
    let gone = obey(&ask).into_iter().chain([Input::PodGone(low.uid.clone())]).collect();
    assert_eq!(binds(&engine.step(now, gone)).len(), 1);
    // The boss is done, small work borrows what it had, and the one that was stopped comes back.
    let small = pods("small", "poor", 0);
    engine.step(now, vec![bound(&boss, "n")]);
    let next = engine.step(now, vec![Input::PodGone(boss.uid), Input::Pod(small.clone())]);
    assert_eq!(binds(&next), [("small".to_owned(), "n".to_owned())]);
    engine.step(now, vec![bound(&small, "n")]);
    let back = engine.step(now, vec![Input::Pod(low)]);
    assert_eq!(asked(&back), 1, "{:?}", view(&engine, "low").reason);
}

/// Of several Jobs that bore one name in turn the last one's object has another; whoever leads next
/// knows only that one, by the plain name.
#[test]
fn an_owner_is_held_by_whatever_object_names_it() {
    let owner = job("train", 1, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let object = |owners: Vec<_>| {
        let name = text("train-job");
        Input::Deactivated(DeactivatedFacts { namespace: text(TEAM), name, owners })
    };
    for (uids, held) in [(vec![owner.uid.clone()], true), (vec![text("another")], false)] {
        let mut engine = Engine::new();
        let mut facts = one_queue(8);
        facts.extend([gpu_node("n", 8), Input::Owner(owner.clone()), object(uids)]);
        engine.step(NOW, facts);
        let reason = view(&engine, "train").reason;
        assert_eq!(matches!(reason, Some(Reason::Deactivated { .. })), held, "{reason:?}");
        if held {
            let words = reason.expect("it waits").to_string();
            assert!(words.contains("team/train-job has spec.active: false"), "{words}");
            engine.step(after(1), vec![Input::Reactivated(text(TEAM), text("train-job"))]);
        }
        assert_eq!(view(&engine, "train").state, State::Resuming);
    }
}
