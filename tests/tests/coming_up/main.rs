//! Work that is admitted and does not come up, and work that may run for so long only: stopped,
//! queued again later each time, and deactivated in the end. Facts are fed by hand and the clock
//! is moved.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    BindingNote, DeactivatedFacts, Input, LocalQueueFacts, OwnerFacts, PodFacts, PodPhase,
    PreemptWithin, Rank, RequeueNote, StopKind, Wishes,
};
use capstan_core::plan::{
    Action, Effect, EffectResult, Preemption, PreemptionReason, State, StepOutput,
};
use capstan_core::policy::{PodsReady, Policy, Requeuing};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, job, local_queue, namespace,
    nominal, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, gpu_node, one_queue, view};

mod behind;
mod followed;
mod found;
mod leaving;
mod remedies;
mod runtime;

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// Five minutes to start, two to recover, a minute and then twice as long to wait, and two stops.
fn ready() -> PodsReady {
    PodsReady {
        timeout: Span::minutes(5),
        recovery: Some(Span::minutes(2)),
        blocks_admission: false,
        requeuing: Requeuing {
            behind: true,
            base: Span::seconds(60),
            longest: Span::seconds(3_600),
            limit: Some(2),
        },
    }
}

fn policy(ready: PodsReady) -> Input {
    // As a file sets both.
    let recovery_timeout = ready.recovery;
    let policy = Policy { pods_ready: Some(ready), recovery_timeout, ..Policy::default() };
    Input::Policy(policy.into())
}

fn train(name: &str, pods: u32) -> OwnerFacts {
    job(name, pods, &shape(&[(GPU, 1)]), &in_queue(Some("main")))
}

/// Of work that may run for ten minutes.
fn ten_minutes() -> Arc<Wishes> {
    let wishes = Wishes::clone(&in_queue(Some("main")));
    Wishes { max_runtime: Some(Span::minutes(10)), ..wishes }.into()
}

fn ground(ready: PodsReady, gpus: i64) -> Vec<Input> {
    let mut facts = one_queue(gpus);
    facts.extend([policy(ready), gpu_node("n", gpus)]);
    facts
}

fn resumes(output: &StepOutput) -> Vec<(String, BindingNote)> {
    let resumed = |effect: &Effect| match &effect.action {
        Action::ResumeOwner { owner, note } => Some((owner.name.to_string(), note.clone())),
        _ => None,
    };
    output.effects.iter().filter_map(resumed).collect()
}

fn suspends(output: &StepOutput) -> Vec<(Preemption, RequeueNote)> {
    let suspended = |effect: &Effect| match &effect.action {
        Action::SuspendOwner { preemption, requeue, .. } => Some((preemption.clone(), **requeue)),
        _ => None,
    };
    output.effects.iter().filter_map(suspended).collect()
}

fn deactivates(output: &StepOutput) -> Vec<String> {
    let deactivated = |effect: &Effect| match &effect.action {
        Action::Deactivate { name, .. } => Some(name.to_string()),
        _ => None,
    };
    output.effects.iter().filter_map(deactivated).collect()
}

fn done(output: &StepOutput) -> Vec<Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
}

/// Its owner is resumed by this step, its pods come, and are bound; they stay in this phase. What
/// a step says that only shows them.
fn comes_up(
    engine: &mut Engine,
    at: Time,
    owner: &mut OwnerFacts,
    output: &StepOutput,
    phase: PodPhase,
) -> StepOutput {
    let (name, note) = resumes(output).pop().expect("it is resumed");
    assert_eq!(name, *owner.name);
    (owner.suspended, owner.admitted) = (false, Some(note));
    let pods = pods_of(owner).into_iter().map(Input::Pod);
    let facts = done(output).into_iter().chain([Input::Owner(owner.clone())]).chain(pods);
    let bound = engine.step(at, facts.collect());
    assert_eq!(binds(&bound).len(), owner.min_member as usize);
    let facts = shown(owner, &bound, phase).into_iter().map(Input::Pod);
    engine.step(at, done(&bound).into_iter().chain(facts).collect())
}

/// Its pods as they are shown after these binds.
fn shown(owner: &OwnerFacts, output: &StepOutput, phase: PodPhase) -> Vec<PodFacts> {
    let bound = |pod: PodFacts| {
        let bind = output.effects.iter().find_map(|effect| match &effect.action {
            Action::Bind { pod: of, node, note } if of.uid == pod.uid => Some((node, note)),
            _ => None,
        });
        let (node, note) = bind.expect("it is bound");
        PodFacts { node: Some(node.clone()), binding: Some(note.clone().into()), phase, ..pod }
    };
    pods_of(owner).into_iter().map(bound).collect()
}

/// The owner is suspended as the step asked, and its pods are gone.
fn stopped(owner: &mut OwnerFacts, output: &StepOutput) -> Vec<Input> {
    let gone: Vec<Input> = pods_of(owner).into_iter().map(|pod| Input::PodGone(pod.uid)).collect();
    let (_, requeue) = suspends(output).pop().expect("it is suspended");
    (owner.suspended, owner.admitted) = (true, None);
    (owner.requeued, owner.incarnation) = (Some(requeue.into()), owner.incarnation + 1);
    done(output).into_iter().chain([Input::Owner(owner.clone())]).chain(gone).collect()
}

fn inactive(name: &str) -> Input {
    let owners = Vec::new();
    Input::Deactivated(DeactivatedFacts { namespace: text(TEAM), name: text(name), owners })
}

/// Its image is not there: it is stopped and tried again, later each time, and in the end held.
#[test]
fn what_never_starts_is_stopped_waits_longer_each_time_and_is_deactivated() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let facts = ground(ready(), 4).into_iter().chain([Input::Owner(owner.clone())]);
    let mut output = engine.step(NOW, facts.collect());
    let mut at = NOW;
    for (stops, wait) in [(1, 60), (2, 120)] {
        let up = comes_up(&mut engine, at, &mut owner, &output, PodPhase::Pending);
        assert_eq!(up.next_wake, Some(at.plus(Span::minutes(5))));
        let early = engine.step(at.plus(Span::seconds(299)), vec![]);
        assert!(suspends(&early).is_empty(), "not before its time");
        at = at.plus(Span::minutes(5));
        let late = engine.step(at, vec![]);
        let (why, note) = suspends(&late).pop().expect("it is stopped");
        assert_eq!(why.because(), "none of the 2 pods that it needs became ready in 5m");
        assert_eq!((why.reason.as_str(), why.for_another()), ("PodsReadyTimeout", false));
        let until = at.plus(Span::seconds(wait));
        let ran = Span::minutes(5 * i64::from(stops));
        assert_eq!((note.at, note.not_before), (at, Some(until)), "stop {stops}");
        assert_eq!((note.unready, note.unready_at, note.ran), (stops, Some(at), ran));
        assert_eq!(late.report.stopped, [why]);
        let facts = stopped(&mut owner, &late);
        let waits = engine.step(at, facts);
        assert!(resumes(&waits).is_empty(), "it waits");
        let shown = view(&engine, "train");
        assert_eq!((shown.state, shown.waits_since), (State::Queued, at));
        let Some(Reason::Backoff { until: shown, .. }) = shown.reason else {
            panic!("{:?}", shown.reason)
        };
        assert_eq!((shown, waits.next_wake), (until, Some(until)));
        engine.recount();
        at = until;
        output = engine.step(at, vec![]);
    }
    comes_up(&mut engine, at, &mut owner, &output, PodPhase::Pending);
    at = at.plus(Span::minutes(5));
    let over = engine.step(at, vec![]);
    assert_eq!((deactivates(&over), suspends(&over).len()), (vec!["train".to_owned()], 0));
    // Nobody saw it, and whoever was to write it said nothing: it is asked for again.
    assert_eq!(over.next_wake, Some(at.plus(Span::seconds(10))));
    at = at.plus(Span::seconds(10));
    let again = engine.step(at, vec![]);
    assert_eq!(deactivates(&again), ["train"]);
    let held = engine.step(at, done(&again).into_iter().chain([inactive("train")]).collect());
    let (why, note) = suspends(&held).pop().expect("it is stopped");
    assert_eq!(why.reason, PreemptionReason::RequeuingLimitExceeded { stops: 2 });
    let anew = RequeueNote { at, stops: note.stops, ..RequeueNote::default() };
    assert_eq!(note, anew, "all begins anew but for what it was ever stopped for");
    let kinds: Vec<StopKind> = note.stops.iter().collect();
    assert_eq!(kinds, [StopKind::NeverReady, StopKind::RequeuingLimitExceeded]);
    let facts = stopped(&mut owner, &held);
    let waits = engine.step(at, facts);
    assert_eq!(waits.next_wake, None, "it waits for people");
    let reason = view(&engine, "train").reason;
    assert!(matches!(reason, Some(Reason::Deactivated { .. })), "{reason:?}");
    // Whoever reads what is shown learns why.
    let shown = view(&engine, "train").preempted.expect("it was stopped");
    assert_eq!(shown.reason, why.reason);
    let active = engine.step(at, vec![Input::Reactivated(text(TEAM), text("train"))]);
    assert_eq!(resumes(&active).len(), 1, "at once");
    engine.recount();
}

/// Each goes to the place that is kept for its number, in whatever order they come: neighbours are
/// near each other.
#[test]
fn pods_of_a_resumed_owner_have_the_places_of_their_numbers() {
    let mut engine = Engine::new();
    let mut owner = train("train", 4);
    let mut facts = one_queue(4);
    facts.extend([gpu_node("a", 2), gpu_node("b", 2), Input::Owner(owner.clone())]);
    let resumed = engine.step(NOW, facts);
    let (_, note) = resumes(&resumed).pop().expect("it is resumed");
    (owner.suspended, owner.admitted) = (false, Some(note));
    let shown = done(&resumed).into_iter().chain([Input::Owner(owner.clone())]);
    let mut output = engine.step(NOW, shown.collect());
    let (pods, mut nodes) = (pods_of(&owner), vec![String::new(); 4]);
    for at in [3, 0, 2, 1] {
        let pod = PodFacts { rank: Rank::Number(at as u32), ..pods[at].clone() };
        let facts = done(&output).into_iter().chain([Input::Pod(pod)]);
        output = engine.step(NOW, facts.collect());
        nodes[at] = binds(&output).into_iter().map(|(_, node)| node).collect();
        engine.recount();
    }
    assert_eq!((&nodes[0], &nodes[2]), (&nodes[1], &nodes[3]), "{nodes:?}");
    assert_ne!(nodes[0], nodes[2]);
}

/// How often it was stopped is forgotten once it started; from then on it has its time to recover.
#[test]
fn what_started_may_fall_for_a_while() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let not_before = Some(after(-1));
    owner.requeued = Some(
        RequeueNote {
            at: after(-60),
            unready: 2,
            unready_at: Some(after(-60)),
            not_before,
            ran: Span::minutes(1),
            ..RequeueNote::default()
        }
        .into(),
    );
    let facts = ground(ready(), 4).into_iter().chain([Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    let up = comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Running);
    assert_eq!(up.next_wake, None);
    assert_eq!(suspends(&engine.step(after(3_600), vec![])), []);
    let fell = Input::PodGone(pods_of(&owner)[0].uid.clone());
    let fallen = engine.step(after(4_000), vec![fell]);
    assert_eq!(fallen.next_wake, Some(after(4_120)));
    assert_eq!(suspends(&engine.step(after(4_119), vec![])), []);
    let late = engine.step(after(4_120), vec![]);
    let (why, note) = suspends(&late).pop().expect("it is stopped");
    assert_eq!(why.because(), "only 1 of the 2 pods that it needs was ready for 2m");
    assert_eq!((note.unready, note.ran), (1, Span::seconds(4_180)));
}

/// Pods that run and do not answer their probes have not come up; and what had come up and does not
/// answer any more has its time to recover.
#[test]
fn what_runs_and_is_not_ready_is_stopped_in_time() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let facts = ground(ready(), 4).into_iter().chain([Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    let starts = comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Unready);
    assert_eq!(starts.next_wake, Some(after(300)), "it runs, and is not ready");
    assert_eq!(view(&engine, "train").state, State::Running);
    let pods = pods_of(&owner);
    let shown = |engine: &mut Engine, at: Time, phases: [PodPhase; 2]| {
        let of = |(pod, phase): (&PodFacts, PodPhase)| {
            Input::Pod(PodFacts { node: Some(text("n")), phase, ..pod.clone() })
        };
        engine.step(at, pods.iter().zip(phases).map(of).collect())
    };
    let (ready, unready) = (PodPhase::Running, PodPhase::Unready);
    assert_eq!(shown(&mut engine, after(100), [ready, unready]).next_wake, Some(after(300)));
    assert_eq!(shown(&mut engine, after(200), [ready, ready]).next_wake, None);
    assert_eq!(suspends(&engine.step(after(1_000), vec![])), []);
    assert_eq!(shown(&mut engine, after(1_000), [unready, ready]).next_wake, Some(after(1_120)));
    assert_eq!(shown(&mut engine, after(1_100), [ready, ready]).next_wake, None, "it recovered");
    shown(&mut engine, after(2_000), [unready, unready]);
    let late = engine.step(after(2_120), vec![]);
    let (why, _) = suspends(&late).pop().expect("it is stopped");
    assert_eq!(why.because(), "none of the 2 pods that it needs was ready for 2m");
    engine.recount();
}

/// Recovery may take any time; or work is in no queue, whose quota nobody else waits for.
#[test]
fn nobody_is_stopped_whom_it_does_not_concern() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let patient = PodsReady { recovery: None, ..ready() };
    let facts = ground(patient, 4).into_iter().chain([Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Running);
    let fell = Input::PodGone(pods_of(&owner)[0].uid.clone());
    let mut stray = pod("stray", &shape(&[(GPU, 1)]), &in_queue(None));
    let output = engine.step(after(10), vec![fell, Input::Pod(stray.clone())]);
    assert_eq!(binds(&output).len(), 1);
    stray.node = Some(text("n"));
    let stays =
        engine.step(after(10), done(&output).into_iter().chain([stray].map(Input::Pod)).collect());
    assert_eq!(stays.next_wake, None);
    assert_eq!(suspends(&engine.step(after(9_999), vec![])), []);
}

/// One at a time: whoever is first starts before the next one is admitted, in any queue.
#[test]
fn nothing_is_admitted_while_something_has_not_started() {
    let mut engine = Engine::new();
    let one_at_a_time = PodsReady { blocks_admission: true, ..ready() };
    let (mut first, second) = (train("first", 2), train("second", 1));
    let owners = [&first, &second].map(|owner| Input::Owner(owner.clone()));
    let facts = ground(one_at_a_time, 8).into_iter().chain(owners);
    let output = engine.step(NOW, facts.collect());
    assert_eq!(resumes(&output).len(), 1);
    let waits = Reason::AwaitsOthers { workload: text("team/first") };
    assert_eq!(waits.code(), "WaitingForPodsReady");
    assert_eq!(view(&engine, "second").reason, Some(waits));
    let up = comes_up(&mut engine, NOW, &mut first, &output, PodPhase::Pending);
    assert!(resumes(&up).is_empty());
    let mut pods = pods_of(&first);
    for pod in &mut pods {
        (pod.node, pod.phase) = (Some(text("n")), PodPhase::Running);
    }
    let last = pods.pop().expect("two");
    let half = engine.step(after(1), pods.into_iter().map(Input::Pod).collect());
    assert!(resumes(&half).is_empty(), "one of two has started");
    let started = engine.step(after(2), vec![Input::Pod(last)]);
    assert_eq!(resumes(&started).len(), 1, "at once");
    engine.recount();
}

/// What a new engine finds on the owner holds: who waits, how often it was stopped, and where it
/// stands in its queue.
#[test]
fn a_new_engine_knows_who_was_stopped_and_waits() {
    let mut owner = train("train", 2);
    let note = RequeueNote {
        at: NOW,
        unready: 1,
        unready_at: Some(NOW),
        not_before: Some(after(60)),
        ran: Span::minutes(5),
        ..RequeueNote::default()
    };
    (owner.requeued, owner.incarnation) = (Some(note.into()), 1);
    // It was made later, and goes before.
    let rival = OwnerFacts { created: Time(5), ..train("rival", 2) };
    for (behind, first) in [(true, "rival"), (false, "train")] {
        let mut engine = Engine::new();
        let requeuing = Requeuing { behind, ..ready().requeuing };
        let owners = [&owner, &rival].map(|owner| Input::Owner(owner.clone()));
        let facts =
            ground(PodsReady { requeuing, ..ready() }, 2).into_iter().chain([owners[0].clone()]);
        let waits = engine.step(after(1), facts.collect());
        assert!(resumes(&waits).is_empty(), "its time has not come");
        assert_eq!(waits.next_wake, Some(after(60)));
        let turn = engine.step(after(60), owners.to_vec());
        let turn: Vec<String> = resumes(&turn).into_iter().map(|(name, _)| name).collect();
        assert_eq!(turn, [first], "behind: {behind}");
        engine.recount();
    }
}

/// A new engine does not know whether what it finds had started: it has its time anew.
#[test]
fn a_new_engine_stops_late_and_never_early() {
    let members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let note = BindingNote { admitted_at: Some(after(-3_600)), ..BindingNote::default() };
    let found = |phase: PodPhase| {
        let bound = move |pod: PodFacts| {
            let binding = Some(note.clone().into());
            Input::Pod(PodFacts { node: Some(text("n")), phase, binding, ..pod })
        };
        members.clone().into_iter().map(bound)
    };
    let mut engine = Engine::new();
    let facts = ground(ready(), 4).into_iter().chain(found(PodPhase::Pending));
    let begun = engine.step(NOW, facts.collect());
    assert_eq!(begun.next_wake, Some(after(120)));
    let again = engine.step(after(60), vec![gpu_node("other", 1)]);
    assert_eq!(again.next_wake, Some(after(120)), "not anew each time");
    let late = engine.step(after(120), vec![]);
    let evicted = late.effects.iter().filter(|it| matches!(it.action, Action::Evict { .. }));
    assert_eq!(evicted.count(), 2);
    engine.recount();
}

/// What the first of two queues without a cohort holds blocks the second one's work, for as long as
/// it is there and may start.
#[test]
fn who_waits_for_others_is_looked_at_when_those_are_gone_or_leave() {
    let one_at_a_time = PodsReady { blocks_admission: true, ..ready() };
    let other = cluster_queue("other", None, group(&[(DEFAULT, &[(GPU, nominal(4))])]));
    let queue = LocalQueueFacts { name: text("other"), ..local_queue("other") };
    let [first, second] = [("x", "main"), ("y", "other")]
        .map(|(name, queue)| pod(name, &shape(&[(GPU, 1)]), &in_queue(Some(queue))));
    let starting = PodFacts { node: Some(text("n")), created: NOW, ..first.clone() };
    let leaving = PodFacts { terminating: true, ..starting.clone() };
    for over in [Input::PodGone(first.uid.clone()), Input::Pod(leaving)] {
        let mut engine = Engine::new();
        let mut facts = ground(one_at_a_time, 4);
        facts.extend([Input::ClusterQueue(other.clone()), Input::LocalQueue(queue.clone())]);
        facts.push(Input::Pod(starting.clone()));
        engine.step(NOW, facts);
        let waits = engine.step(after(1), vec![Input::Pod(second.clone())]);
        assert!(binds(&waits).is_empty());
        let waits = Reason::AwaitsOthers { workload: text("team/x") };
        assert_eq!(view(&engine, "y").reason, Some(waits));
        assert_eq!(binds(&engine.step(after(2), vec![over])).len(), 1);
        engine.recount();
    }
}

/// Two heads have victims in one round: the second one keeps its claim until the first has started.
#[test]
fn who_has_victims_waits_for_others_too() {
    let mut engine = Engine::new();
    let one_at_a_time = PodsReady { blocks_admission: true, ..ready() };
    let mut facts = vec![policy(one_at_a_time), namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    let job = |name: &str, queue: &str| pod(name, &shape(&[(GPU, 2)]), &in_queue(Some(queue)));
    for name in ["a", "b"] {
        let mut queue = cluster_queue(name, None, group(&[(DEFAULT, &[(GPU, nominal(2))])]));
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        facts.extend([Input::ClusterQueue(queue), gpu_node(name, 2)]);
        facts.push(Input::LocalQueue(LocalQueueFacts { name: text(name), ..local_queue(name) }));
        facts.push(bound(&job(&format!("low-{name}"), name), name));
    }
    engine.step(NOW, facts);
    let high =
        ["a", "b"].map(|name| PodFacts { priority: 9, ..job(&format!("high-{name}"), name) });
    engine.step(after(1), high.clone().map(Input::Pod).into());
    let gone = ["low-a", "low-b"].map(|low| Input::PodGone(job(low, "a").uid));
    let first = engine.step(after(2), gone.into());
    let [(name, node)] = &binds(&first)[..] else { panic!("one: {:?}", binds(&first)) };
    let runs = high.iter().find(|pod| *pod.name == **name).expect("one of them");
    let next = done(&first).into_iter().chain([bound(runs, node)]);
    assert_eq!(binds(&engine.step(after(3), next.collect())).len(), 1, "now the other one");
    engine.recount();
}

/// A Job that works a queue off makes no pod in the stead of one that ended well.
#[test]
fn members_that_nobody_makes_again_are_not_waited_for() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let facts = ground(ready(), 4).into_iter().chain([Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Running);
    (owner.ended, owner.left) = (1, None);
    let ended = PodFacts {
        phase: PodPhase::Succeeded,
        node: Some(text("n")),
        ..pods_of(&owner)[0].clone()
    };
    engine.step(after(10), vec![Input::Pod(ended), Input::Owner(owner)]);
    assert_eq!(suspends(&engine.step(after(130), vec![])), []);
    assert_eq!(suspends(&engine.step(after(3_600), vec![])), []);
    engine.recount();
}

/// A webhook refuses the stop: it is asked for again, not at once, and counts when it comes about.
#[test]
fn a_refused_stop_is_tried_again_later_and_counts_once() {
    let mut engine = Engine::new();
    let members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let facts = ground(ready(), 4).into_iter().chain(members.iter().cloned().map(Input::Pod));
    let output = engine.step(NOW, facts.collect());
    let shown = members.iter().map(|pod| PodFacts { node: Some(text("n")), ..pod.clone() });
    let shown = shown.map(Input::Pod);
    engine.step(NOW, done(&output).into_iter().chain(shown).collect());
    let evicts = |output: &StepOutput| {
        let evicts = |effect: &&Effect| matches!(effect.action, Action::Evict { .. });
        output.effects.iter().filter(evicts).count()
    };
    let mut at = 300;
    for _ in 0..4 {
        let late = engine.step(after(at), vec![]);
        assert_eq!((evicts(&late), deactivates(&late).len()), (2, 0));
        let refused = |effect: &Effect| answer(effect, EffectResult::Refused(text("no")));
        let refused = late.effects.iter().map(refused).collect();
        let again = engine.step(after(at), refused);
        assert_eq!((evicts(&again), again.next_wake), (0, Some(after(at + 10))));
        at += 10;
    }
    let late = engine.step(after(at), vec![]);
    let gone = members.iter().map(|pod| Input::PodGone(pod.uid.clone()));
    let made = members.iter().map(|pod| {
        let uid = text(format!("{}-anew", pod.uid));
        Input::Pod(PodFacts { uid, created: after(at), ..pod.clone() })
    });
    // Whoever makes them does so before the old ones are gone.
    let last = done(&late).into_iter().chain(made).chain(gone);
    let waits = engine.step(after(at), last.collect());
    assert_eq!((binds(&waits).len(), waits.next_wake), (0, Some(after(at + 60))), "one stop");
    engine.recount();
}

/// Every way of not coming up counts: it had started once, and then lost a member for too long.
#[test]
fn a_member_that_is_lost_again_and_again_counts_too() {
    let mut engine = Engine::new();
    let mut owner = train("train", 2);
    let no_stops =
        PodsReady { requeuing: Requeuing { limit: Some(0), ..ready().requeuing }, ..ready() };
    let facts = ground(no_stops, 4).into_iter().chain([Input::Owner(owner.clone())]);
    let output = engine.step(NOW, facts.collect());
    comes_up(&mut engine, NOW, &mut owner, &output, PodPhase::Running);
    let lost = Input::PodGone(pods_of(&owner)[0].uid.clone());
    engine.step(after(10), vec![lost]);
    let late = engine.step(after(130), vec![]);
    assert_eq!((suspends(&late).len(), deactivates(&late)), (0, vec!["train".to_owned()]));
    // It comes up before anybody wrote that: it goes on.
    let again = PodFacts {
        uid: text("another"),
        node: Some(text("n")),
        phase: PodPhase::Running,
        ..pods_of(&owner)[0].clone()
    };
    let whole = engine.step(after(131), vec![Input::Pod(again)]);
    assert_eq!(whole.next_wake, None);
    assert!(deactivates(&engine.step(after(200), vec![])).is_empty());
    engine.recount();
}

/// Long after its admission a gang had come up, whatever its owner bears of earlier runs: what it
/// lacks now it may recover, for any time where no time is set.
#[test]
fn a_new_engine_takes_what_is_old_for_what_came_up() {
    let mut owner = train("train", 2);
    let note = RequeueNote { at: after(-9_000), unready: 2, ..RequeueNote::default() };
    (owner.requeued, owner.incarnation, owner.suspended) = (Some(note.into()), 1, false);
    let written = BindingNote { admitted_at: Some(after(-3_600)), ..BindingNote::default() };
    owner.admitted = Some(written.clone());
    let pods = pods_of(&owner).into_iter().zip([PodPhase::Running, PodPhase::Pending]);
    let found = pods.map(|(pod, phase)| {
        let binding = Some(written.clone().into());
        Input::Pod(PodFacts { node: Some(text("n")), phase, binding, ..pod })
    });
    let found: Vec<Input> = found.chain([Input::Owner(owner.clone())]).collect();
    for recovery in [None, Some(Span::minutes(2))] {
        let mut engine = Engine::new();
        let facts = ground(PodsReady { recovery, ..ready() }, 4).into_iter();
        let begun = engine.step(NOW, facts.chain(found.clone()).collect());
        assert_eq!(begun.next_wake, recovery.map(|span| NOW.plus(span)));
        let late = engine.step(after(120), vec![]);
        let stops: Vec<u32> = suspends(&late).iter().map(|(_, note)| note.unready).collect();
        assert_eq!(stops, if recovery.is_some() { vec![1] } else { vec![] });
        assert!(deactivates(&late).is_empty());
        engine.recount();
    }
}

/// One that was stopped for another queues where it was made; one that is activated again begins
/// anew.
#[test]
fn who_was_preempted_keeps_its_place_and_who_is_activated_begins_anew() {
    let mut owner = train("train", 2);
    let preempted = RequeueNote { at: NOW, ..RequeueNote::default() };
    (owner.requeued, owner.incarnation) = (Some(preempted.into()), 1);
    let rival = OwnerFacts { created: Time(5), ..train("rival", 2) };
    let mut engine = Engine::new();
    let owners = [&owner, &rival].map(|owner| Input::Owner(owner.clone()));
    let output = engine.step(after(1), ground(ready(), 2).into_iter().chain(owners).collect());
    assert_eq!(resumes(&output)[0].0, "train");

    let not_before = Some(after(600));
    let waits = RequeueNote { at: NOW, unready: 2, unready_at: Some(NOW), not_before, ..preempted };
    owner.requeued = Some(waits.into());
    let mut engine = Engine::new();
    let facts = ground(ready(), 2).into_iter().chain([Input::Owner(owner), inactive("train")]);
    assert!(resumes(&engine.step(after(1), facts.collect())).is_empty());
    let active = engine.step(after(2), vec![Input::Reactivated(text(TEAM), text("train"))]);
    assert_eq!(resumes(&active).len(), 1, "it does not wait any longer");
    engine.recount();
}
