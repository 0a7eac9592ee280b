//! What time itself changes: places kept for the pods of resumed owners, and gangs that stay in
//! part. Each test feeds facts by hand and moves the clock.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    Input, OwnerFacts, PodFacts, PodPhase, PreemptWithin, RequeueNote,
};
use capstan_core::plan::{Action, EffectResult, PreemptionReason, State, StepOutput};
use capstan_core::policy::Policy;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, TEAM, gang, in_queue, job, pod, pods_of, shape, text};
use capstan_tests::hand::{answer, binds, evicted, gpu_node, is_bind, one_queue, view};
use capstan_tests::play::deeds;

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// A Job of so many pods with one GPU each, in a queue.
fn train(pods: u32) -> OwnerFacts {
    job("train", pods, &shape(&[(GPU, 1)]), &in_queue(Some("main")))
}

/// A pod that runs where the step bound it.
fn ran(pod: &PodFacts, output: &StepOutput) -> Input {
    let bound = output.effects.iter().find_map(|effect| match &effect.action {
        Action::Bind { pod: of, node, note } if of.uid == pod.uid => Some((node, note)),
        _ => None,
    });
    let (node, note) = bound.unwrap_or_else(|| panic!("{} is not bound", pod.name));
    let (node, phase) = (Some(node.clone()), PodPhase::Running);
    let binding = Some(Arc::new(note.clone()));
    Input::Pod(PodFacts { node, phase, binding, ..pod.clone() })
}

/// Every answer that a step is owed.
fn done(output: &StepOutput) -> Vec<Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
}

fn resumed(output: &StepOutput, job: &OwnerFacts) -> OwnerFacts {
    let note = output.effects.iter().find_map(|effect| match &effect.action {
        Action::ResumeOwner { note, .. } => Some(note.clone()),
        _ => None,
    });
    let admitted = Some(note.expect("it is resumed"));
    OwnerFacts { suspended: false, admitted, ..job.clone() }
}

fn suspends(output: &StepOutput) -> Vec<String> {
    let suspended = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::SuspendOwner { owner, preemption, .. } => {
            assert!(matches!(preemption.reason, PreemptionReason::PodsReadyTimeout { .. }));
            assert!(output.report.stopped.contains(preemption), "it is told");
            Some(owner.name.to_string())
        }
        _ => None,
    });
    suspended.collect()
}

/// What the owner bears that the step suspends.
fn requeued(output: &StepOutput) -> RequeueNote {
    let noted = output.effects.iter().find_map(|effect| match &effect.action {
        Action::SuspendOwner { requeue, .. } => Some(**requeue),
        _ => None,
    });
    noted.expect("it is suspended")
}

fn acts(output: &StepOutput) -> Vec<Action> {
    deeds(std::slice::from_ref(output)).into_iter().map(|(_, action)| action).collect()
}

fn used(engine: &Engine) -> i64 {
    engine.queues()[0].quotas[0].used
}

/// A controller makes pods one after the other, and others want their nodes in between.
#[test]
fn places_are_kept_until_the_last_pod_of_a_resumed_owner_is_there() {
    let mut engine = Engine::new();
    let job = train(4);
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 4), Input::Owner(job.clone())]);
    let first = engine.step(NOW, facts.collect());
    let job = resumed(&first, &job);
    engine.step(NOW, done(&first).into_iter().chain([Input::Owner(job.clone())]).collect());
    let rival =
        |at: usize| Input::Pod(pod(&format!("r{at}"), &shape(&[(GPU, 1)]), &in_queue(None)));
    for (at, member) in pods_of(&job).iter().enumerate() {
        let came = engine.step(after(at as i64), vec![Input::Pod(member.clone()), rival(at)]);
        assert_eq!(binds(&came), [(member.name.to_string(), "n".to_owned())], "pod {at}");
        let facts = done(&came).into_iter().chain([ran(member, &came)]);
        let seen = engine.step(after(at as i64), facts.collect());
        assert_eq!(binds(&seen), [], "nobody else while pods are missing");
        let state = view(&engine, "train").state;
        assert_eq!(state, if at < 3 { State::Binding } else { State::Running });
        assert_eq!(used(&engine), 4);
        engine.recount();
    }
    let late = engine.step(after(600), vec![]);
    assert_eq!((suspends(&late), binds(&late)), (vec![], vec![]), "it is whole");
}

/// Several are due at once: who is suspended first does not tell who was fed first.
#[test]
fn owners_whose_pods_never_come_are_suspended_in_queue_order() {
    for names in [["a", "b"], ["b", "a"]] {
        let mut engine = Engine::new();
        let of = |name| job(name, 1, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        let facts = one_queue(2).into_iter().chain([gpu_node("n", 2)]);
        let facts = facts.chain(names.map(|name| Input::Owner(of(name))));
        let first = engine.step(NOW, facts.collect());
        engine.step(NOW, done(&first));
        assert_eq!(suspends(&engine.step(after(60), vec![])), ["a", "b"]);
        engine.recount();
    }
}

/// Whoever makes its pods may not, whatever we do: it is tried again after a pause, longer each
/// time, which its owner bears.
#[test]
fn an_owner_whose_pods_never_come_is_tried_again_later_each_time() {
    let (mut engine, mut job, mut at) = (Engine::new(), train(4), NOW);
    let facts = one_queue(4).into_iter().chain([gpu_node("n", 4), Input::Owner(job.clone())]);
    let mut output = engine.step(at, facts.collect());
    for (stops, pause) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10)] {
        job = resumed(&output, &job);
        let shown = done(&output).into_iter().chain([Input::Owner(job.clone())]);
        engine.step(at, shown.collect());
        at = at.plus(Span::seconds(60));
        let late = engine.step(at, vec![]);
        assert_eq!((suspends(&late), acts(&late).len()), (vec!["train".to_owned()], 1));
        let until = at.plus(Span::seconds(pause));
        let note = requeued(&late);
        assert_eq!((note.unready, note.not_before), (stops, Some(until)));
        let requeued = Some(Box::new(note));
        job = OwnerFacts { suspended: true, admitted: None, requeued, incarnation: stops, ..job };
        let shown = done(&late).into_iter().chain([Input::Owner(job.clone())]);
        let waits = engine.step(at, shown.collect());
        assert_eq!((acts(&waits), waits.next_wake), (vec![], Some(until)), "stop {stops}");
        let known = view(&engine, "train");
        let why = known.preempted.map(|stop| stop.because());
        assert_eq!(why.as_deref(), Some("none of its 4 pods came within 1m"));
        let pauses = matches!(known.reason, Some(Reason::Backoff { until: of, .. }) if of == until);
        assert!(known.state == State::Queued && pauses, "{:?}", known.reason);
        at = until;
        output = engine.step(at, vec![]);
        let known = view(&engine, "train");
        let again = Reason::TriedAgain { stops };
        assert_eq!((known.state, known.reason), (State::Resuming, Some(again)));
        engine.recount();
    }
    // They come after all, and run: it begins anew.
    job = resumed(&output, &job);
    let pods = pods_of(&job);
    let came = pods.iter().cloned().map(Input::Pod).chain([Input::Owner(job)]);
    let came = engine.step(at, done(&output).into_iter().chain(came).collect());
    let ran = pods.iter().map(|pod| ran(pod, &came));
    engine.step(at, done(&came).into_iter().chain(ran).collect());
    let known = engine.details(&text(TEAM), &text("train")).expect("it is there");
    assert_eq!((known.view.state, known.failures), (State::Running, 0));
    engine.recount();
}

/// What the others were to take is free after a minute; what came stays if it is enough.
#[test]
fn places_of_pods_that_never_come_are_free_in_time() {
    let mut engine = Engine::new();
    let job = OwnerFacts { min_member: 2, ..train(4) };
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 4), Input::Owner(job.clone())]);
    let first = engine.step(NOW, facts.collect());
    let job = resumed(&first, &job);
    let pods = pods_of(&job);
    let came = pods[..2].iter().cloned().map(Input::Pod).chain([Input::Owner(job)]);
    let came = engine.step(NOW, done(&first).into_iter().chain(came).collect());
    let ran: Vec<Input> = pods[..2].iter().map(|pod| ran(pod, &came)).collect();
    let rival = Input::Pod(pod("rival", &shape(&[(GPU, 2)]), &in_queue(None)));
    let facts = done(&came).into_iter().chain(ran).chain([rival]).collect();
    let waits = engine.step(after(1), facts);
    assert_eq!((binds(&waits), used(&engine)), (vec![], 4));
    assert_eq!(waits.next_wake, Some(after(60)));
    let late = engine.step(after(60), vec![]);
    assert_eq!(suspends(&late), [""; 0]);
    assert_eq!(binds(&late), [("rival".to_owned(), "n".to_owned())]);
    assert_eq!((view(&engine, "train").state, used(&engine)), (State::Running, 2));
    engine.recount();
}

/// A pod with a gate comes, and one that asks something else: the first keeps its place.
#[test]
fn a_gate_keeps_its_place_and_another_size_has_none() {
    let mut engine = Engine::new();
    let job = train(2);
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 2), Input::Owner(job.clone())]);
    let first = engine.step(NOW, facts.collect());
    let job = resumed(&first, &job);
    let mut pods = pods_of(&job);
    pods[0].gated = true;
    pods[1].shape = shape(&[(GPU, 2)]);
    let rival = Input::Pod(pod("rival", &shape(&[(GPU, 1)]), &in_queue(None)));
    let came = pods.iter().cloned().map(Input::Pod).chain([Input::Owner(job), rival]);
    let came = engine.step(NOW, done(&first).into_iter().chain(came).collect());
    assert_eq!(binds(&came), [("rival".to_owned(), "n".to_owned())]);
    pods[0].gated = false;
    let open =
        engine.step(NOW, done(&came).into_iter().chain([Input::Pod(pods[0].clone())]).collect());
    assert_eq!(binds(&open), [("train-0".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// The engine dies between the resumption and the pods: the next one keeps nodes for them, before
/// anybody else gets them, and suspends the owner again if they do not come.
#[test]
fn a_new_engine_keeps_places_for_an_owner_that_was_just_resumed() {
    let ground = || one_queue(4).into_iter().chain([gpu_node("n", 4)]);
    let job = train(4);
    let facts = ground().chain([Input::Owner(job.clone())]);
    let first = Engine::new().step(NOW, facts.collect());
    let job = resumed(&first, &job);
    // It would be the first of its queue.
    let rival = pod("rival", &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let rival = PodFacts { created: Time(-1), ..rival };
    let facts = ground().chain([Input::Owner(job.clone()), Input::Pod(rival.clone())]);
    let facts: Vec<Input> = facts.collect();
    for comes in [true, false] {
        let mut engine = Engine::new();
        let begun = engine.step(after(10), facts.clone());
        assert_eq!(acts(&begun), [], "it is resumed already, and the rival waits");
        assert_eq!((view(&engine, "train").state, used(&engine)), (State::Resuming, 4));
        assert_eq!(begun.next_wake, Some(after(60)), "from when it was resumed");
        engine.recount();
        if !comes {
            let late = engine.step(after(60), vec![]);
            assert_eq!(suspends(&late), ["train"]);
            let why = late.report.stopped[0].because();
            assert_eq!(why, "none of its 4 pods came within 1m");
            assert_eq!(binds(&late).len(), 1, "the rival has its turn");
            continue;
        }
        for (at, member) in pods_of(&job).iter().enumerate() {
            let came = engine.step(after(20), vec![Input::Pod(member.clone())]);
            assert_eq!(binds(&came).len(), 1, "pod {at}");
            engine.step(after(20), done(&came).into_iter().chain([ran(member, &came)]).collect());
        }
        assert_eq!(view(&engine, "train").state, State::Running);
        engine.recount();
    }
    // Long after, pods that are missing were lost: whoever made them makes others.
    let mut engine = Engine::new();
    let later = engine.step(after(60), facts);
    assert_eq!(binds(&later).len(), 1);
}

/// It dies when some pods are bound: the next one keeps nodes for the others.
#[test]
fn a_new_engine_keeps_places_for_the_pods_that_are_still_missing() {
    let ground = || one_queue(8).into_iter().chain([gpu_node("n", 4)]);
    let job = train(4);
    let mut old = Engine::new();
    let first = old.step(NOW, ground().chain([Input::Owner(job.clone())]).collect());
    let job = resumed(&first, &job);
    let pods = pods_of(&job);
    let came = pods[..3].iter().cloned().map(Input::Pod).chain([Input::Owner(job.clone())]);
    let came = old.step(NOW, done(&first).into_iter().chain(came).collect());
    let rival = pod("rival", &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let rival = Input::Pod(PodFacts { created: Time(-1), ..rival });
    let shown = pods[..3].iter().map(|pod| ran(pod, &came)).chain([Input::Owner(job), rival]);
    let mut new = Engine::new();
    let begun = new.step(after(5), ground().chain(shown).collect());
    assert_eq!(acts(&begun), [], "no room is left");
    assert_eq!(used(&new), 4);
    new.recount();
}

/// It dies between two binds of a gang: the next one binds the rest before it looks at who could
/// stop the gang, and would only take the room of what is missing.
#[test]
fn a_gang_that_was_being_bound_is_bound_whole_by_the_next_engine() {
    let ground = || {
        let mut facts = one_queue(4);
        facts.push(gpu_node("n", 4));
        if let Some(Input::ClusterQueue(queue)) =
            facts.iter_mut().find(|fact| matches!(fact, Input::ClusterQueue(_)))
        {
            queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        }
        facts
    };
    let members = gang("g", 4, Some(4), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let pods = members.iter().cloned().map(Input::Pod);
    let first = Engine::new().step(NOW, ground().into_iter().chain(pods).collect());
    assert_eq!(binds(&first).len(), 4);
    let urgent = pod("urgent", &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let urgent = Input::Pod(PodFacts { priority: 9, ..urgent });
    let bound = members[..3].iter().map(|pod| ran(pod, &first));
    let shown = bound.chain([Input::Pod(members[3].clone()), urgent]);
    let mut new = Engine::new();
    let begun = new.step(after(5), ground().into_iter().chain(shown).collect());
    assert!(binds(&begun).iter().any(|(pod, _)| pod == "g-3"), "{:?}", binds(&begun));
    assert!(binds(&begun).iter().all(|(pod, _)| pod != "urgent"), "{:?}", binds(&begun));
    assert_eq!(evicted(&begun).len(), 4, "it is stopped whole, if at all");
    new.recount();
}

/// Its pods are there, and end or fail within the minute: nothing is kept in their stead, it is not
/// admitted twice, and a Job that makes another one later is left to do so.
#[test]
fn nothing_is_kept_for_pods_that_were_there() {
    let ground = || one_queue(4).into_iter().chain([gpu_node("n", 4)]);
    let job = train(2);
    let mut engine = Engine::new();
    let first = engine.step(NOW, ground().chain([Input::Owner(job.clone())]).collect());
    let job = OwnerFacts { left: None, ..resumed(&first, &job) };
    let pods = pods_of(&job);
    let came = pods.iter().cloned().map(Input::Pod).chain([Input::Owner(job.clone())]);
    let came = engine.step(NOW, done(&first).into_iter().chain(came).collect());
    let ran: Vec<Input> = pods.iter().map(|pod| ran(pod, &came)).collect();
    engine.step(NOW, done(&came).into_iter().chain(ran).collect());
    // One ended well, the other failed; an API client that looks away from ended pods sees both go.
    let gone = |pod: &PodFacts| Input::PodGone(pod.uid.clone());
    let rival = |name| Input::Pod(pod(name, &shape(&[(GPU, 4)]), &in_queue(None)));
    let ends = engine.step(after(10), vec![gone(&pods[0]), gone(&pods[1]), rival("rival")]);
    assert_eq!(binds(&ends), [("rival".to_owned(), "n".to_owned())]);
    assert_eq!((used(&engine), ends.next_wake), (0, None));
    let told = engine.step(after(11), vec![Input::Owner(OwnerFacts { ended: 1, ..job.clone() })]);
    assert_eq!((acts(&told), told.report.counts.admitted), (vec![], 0));
    let late = engine.step(after(70), vec![]);
    assert_eq!(suspends(&late), [""; 0], "its pods came");
    engine.recount();
}

/// Somebody suspends a Job while its pods are awaited: what was kept for them is free at once.
#[test]
fn who_suspends_an_owner_that_comes_up_gets_its_places_back() {
    let mut engine = Engine::new();
    let job = train(4);
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 4), Input::Owner(job.clone())]);
    let first = engine.step(NOW, facts.collect());
    let job = resumed(&first, &job);
    engine.step(NOW, done(&first).into_iter().chain([Input::Owner(job.clone())]).collect());
    // No queue asks for it any more: whoever suspended it says when it goes on.
    let stopped = OwnerFacts { suspended: true, ours: false, ..job.clone() };
    let rival = Input::Pod(pod("rival", &shape(&[(GPU, 4)]), &in_queue(None)));
    let output = engine.step(after(5), vec![Input::Owner(stopped), rival]);
    assert_eq!(binds(&output), [("rival".to_owned(), "n".to_owned())]);
    assert_eq!(used(&engine), 0);
    assert_eq!(suspends(&engine.step(after(60), vec![])), [""; 0]);
    engine.recount();

    // In a queue it queues again.
    let mut engine = Engine::new();
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 4), Input::Owner(train(4))]);
    let first = engine.step(NOW, facts.collect());
    engine.step(NOW, done(&first).into_iter().chain([Input::Owner(job.clone())]).collect());
    let stopped = OwnerFacts { suspended: true, ..job };
    let again = engine.step(after(5), vec![Input::Owner(stopped)]);
    let resumes = |action: &Action| matches!(action, Action::ResumeOwner { .. });
    assert!(acts(&again).iter().all(resumes) && acts(&again).len() == 1, "{:?}", acts(&again));
    assert_eq!(again.next_wake, Some(after(65)));
    engine.recount();
}

/// Nobody keeps nodes where there are none: who comes later queues as a gang.
#[test]
fn a_resumed_owner_without_room_queues_its_pods() {
    let ground = || one_queue(4).into_iter();
    let job = train(4);
    let facts = ground().chain([gpu_node("n", 4), Input::Owner(job.clone())]);
    let first = Engine::new().step(NOW, facts.collect());
    let job = resumed(&first, &job);
    let mut engine = Engine::new();
    let facts = ground().chain([gpu_node("n", 3), Input::Owner(job.clone())]);
    let begun = engine.step(after(1), facts.collect());
    assert_eq!((acts(&begun), view(&engine, "train").state), (vec![], State::Queued));
    let pods = pods_of(&job);
    let some = engine.step(after(2), pods[..2].iter().cloned().map(Input::Pod).collect());
    assert_eq!(binds(&some), []);
    // There is room for all: those that are there are bound, for the others it is kept.
    let more = engine.step(after(3), vec![gpu_node("m", 1)]);
    assert_eq!((binds(&more).len(), used(&engine)), (2, 4));
    let rest = pods[2..].iter().cloned().map(Input::Pod);
    let rest = engine.step(after(4), done(&more).into_iter().chain(rest).collect());
    assert_eq!(binds(&rest).len(), 2);
    engine.recount();
}

/// Two Jobs run on all that there is, each loses a node, and neither can have the other's.
fn two_in_part(policy: Policy) -> (Engine, Vec<OwnerFacts>, Vec<Input>) {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.push(Input::Policy(Arc::new(policy)));
    facts.extend((0..4).map(|at| gpu_node(&format!("n{at}"), 2)));
    let jobs: Vec<OwnerFacts> = ["a", "b"]
        .map(|name| job(name, 4, &shape(&[(GPU, 1)]), &in_queue(Some("main"))))
        .into_iter()
        .map(|job| OwnerFacts { suspended: false, ..job })
        .collect();
    let pods: Vec<Vec<PodFacts>> = jobs.iter().map(pods_of).collect();
    facts.extend(jobs.iter().cloned().map(Input::Owner));
    for (of, pods) in pods.iter().enumerate() {
        for (at, pod) in pods.iter().enumerate() {
            let node = Some(text(format!("n{}", of * 2 + at / 2)));
            facts.push(Input::Pod(PodFacts { node, phase: PodPhase::Running, ..pod.clone() }));
        }
    }
    engine.step(NOW, facts);
    // A node of each goes, with its pods; the Jobs make others.
    let mut lost: Vec<Input> = ["n1", "n3"].map(|node| Input::NodeGone(text(node))).into();
    for pods in &pods {
        for pod in &pods[2..] {
            lost.push(Input::PodGone(pod.uid.clone()));
            let uid = text(format!("{}+", pod.uid));
            lost.push(Input::Pod(PodFacts { uid, ..pod.clone() }));
        }
    }
    let output = engine.step(after(1), lost);
    assert_eq!(
        output.effects.iter().filter(|e| matches!(e.action, Action::Bind { .. })).count(),
        0
    );
    (engine, jobs, pods.concat().into_iter().map(|pod| Input::PodGone(pod.uid)).collect())
}

#[test]
fn gangs_that_stay_in_part_are_stopped_whole_and_queue() {
    let (mut engine, jobs, _) = two_in_part(Policy::default());
    assert_eq!((view(&engine, "a").state, used(&engine)), (State::Binding, 8));
    assert_eq!(engine.step(after(300), vec![]).effects.len(), 0, "not yet");
    let due = engine.step(after(301), vec![]);
    assert_eq!(suspends(&due), ["b"], "a needs no more than b leaves");
    let why = due.report.stopped[0].because();
    assert_eq!(why, "only 2 of the 4 members that it needs had a place for 5m");
    let states = ["a", "b"].map(|job| view(&engine, job).state);
    assert_eq!(states, [State::Binding, State::Evicting]);
    assert_eq!(due.next_wake, Some(after(601)), "it has its time anew");
    engine.recount();
    // What it leaves is for a; b queues.
    let job = &jobs[1];
    let (incarnation, suspended) = (1, true);
    let mut gone = done(&due);
    gone.push(Input::Owner(OwnerFacts { incarnation, suspended, ..job.clone() }));
    gone.extend(pods_of(job).iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let new = pods_of(job).into_iter().skip(2);
    gone.extend(new.map(|pod| Input::PodGone(text(format!("{}+", pod.uid)))));
    let next = engine.step(after(302), gone);
    assert_eq!(binds(&next).len(), 2);
    engine.step(after(303), done(&next));
    assert_eq!(view(&engine, "b").state, State::Queued);
    assert_eq!(suspends(&engine.step(after(1_000), vec![])), [""; 0]);
    engine.recount();
}

#[test]
fn it_is_counted_from_when_a_gang_was_last_whole_and_not_where_it_is_switched_off() {
    let (mut engine, ..) = two_in_part(Policy::default());
    let more = engine.step(after(200), vec![gpu_node("m", 4)]);
    assert_eq!(binds(&more).len(), 4, "both are whole again");
    engine.step(after(200), done(&more));
    assert_eq!(engine.step(after(1_000), vec![]).effects.len(), 0);

    let (mut engine, ..) = two_in_part(Policy { recovery_timeout: None, ..Policy::default() });
    let late = engine.step(after(100_000), vec![]);
    assert_eq!((late.effects.len(), late.next_wake), (0, None));
}

/// An engine that could not stop it tries again later.
#[test]
fn a_stop_that_is_refused_is_tried_again() {
    let (mut engine, ..) = two_in_part(Policy::default());
    let due = engine.step(after(301), vec![]);
    let refused = EffectResult::Refused("a webhook says no".into());
    let answers = due.effects.iter().map(|effect| answer(effect, refused.clone())).collect();
    let after_refusal = engine.step(after(302), answers);
    // Whom it was for waits for nobody any more, and has its time from then on, too.
    assert!(after_refusal.next_wake.is_some_and(|at| at <= after(602)));
    assert_eq!(suspends(&engine.step(after(601), vec![])), [""; 0]);
    assert_eq!(suspends(&engine.step(after(602), vec![])), ["b"]);
    engine.recount();
}

/// Members of a gang without an owner that wait for a node: all of it leaves. If none waits nobody
/// makes any: what runs is left to run, and quota is kept no more for what is gone.
#[test]
fn a_gang_of_bare_pods_in_part() {
    for waits in [true, false] {
        let mut engine = Engine::new();
        let members = gang("g", 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        let mut facts = one_queue(3);
        facts.push(gpu_node("n", 3));
        facts.extend(members.iter().cloned().map(|pod| {
            Input::Pod(PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..pod })
        }));
        engine.step(NOW, facts);
        let mut lost = vec![Input::PodGone(members[2].uid.clone())];
        if waits {
            let (uid, name) = (text("again"), text("g-again"));
            let gates = PodFacts { uid, name, shape: shape(&[(GPU, 2)]), ..members[2].clone() };
            lost.push(Input::Pod(gates));
        }
        engine.step(after(1), lost);
        let why = view(&engine, "g").reason;
        assert!(matches!(why, Some(Reason::Incomplete { have: 2, need: 3, .. })), "{why:?}");
        assert_eq!(used(&engine), if waits { 2 } else { 3 });
        let due = engine.step(after(301), vec![]);
        let all = if waits { vec!["g-0", "g-1", "g-again"] } else { vec![] };
        assert_eq!(
            (evicted(&due), due.next_wake),
            (all.iter().map(|it| it.to_string()).collect(), None)
        );
        assert_eq!(used(&engine), 2);
        engine.recount();
        if !waits {
            // One comes after all, and finds no room: its time begins now.
            let (uid, name) = (text("late"), text("g-late"));
            let late = PodFacts { uid, name, shape: shape(&[(GPU, 2)]), ..members[2].clone() };
            let came = engine.step(after(400), vec![Input::Pod(late)]);
            assert_eq!(came.next_wake, Some(after(700)));
            let due = engine.step(after(700), vec![]);
            assert_eq!(evicted(&due), ["g-0", "g-1", "g-late"]);
        }
    }
}

/// Whoever carries effects out has thousands before these: what was decided stands until it is
/// answered, however long that takes.
#[test]
fn a_gang_whose_binds_wait_for_their_turn_keeps_its_places() {
    let mut engine = Engine::new();
    let members = gang("g", 4, Some(4), &shape(&[(GPU, 1)]), &in_queue(None));
    let facts = members.iter().cloned().map(Input::Pod).chain([gpu_node("n", 4)]);
    let first = engine.step(NOW, facts.collect());
    let sent = first.effects.iter().filter(is_bind);
    let sent: Vec<Input> = sent.map(|effect| answer(effect, EffectResult::Done)).collect();
    assert_eq!(sent.len(), 4);
    let rival = gang("rival", 4, Some(4), &shape(&[(GPU, 1)]), &in_queue(None));
    let mut came: Vec<Input> = rival.into_iter().map(Input::Pod).collect();
    // Two were bound before the others had their turn.
    came.extend(sent[..2].iter().cloned());
    came.extend(members[..2].iter().map(|member| ran(member, &first)));
    let waits = engine.step(after(31), came);
    assert_eq!((acts(&waits), engine.nodes()[0].used.get(GPU).copied()), (vec![], Some(4)));
    for late in [60, 600, 6_000] {
        let later = engine.step(after(late), vec![]);
        assert_eq!(acts(&later), [], "after {late} s");
        assert_eq!(engine.nodes()[0].used.get(GPU).copied(), Some(4));
    }
    let mut rest: Vec<Input> = sent[2..].to_vec();
    rest.extend(members[2..].iter().map(|member| ran(member, &first)));
    let whole = engine.step(after(6_001), rest);
    assert_eq!((acts(&whole), view(&engine, "g").state), (vec![], State::Running));
    engine.recount();
}

/// The time of its pods begins when an owner was resumed, not when that was decided.
#[test]
fn a_resume_that_waits_for_its_turn_keeps_its_places_too() {
    for unknown in [false, true] {
        let mut engine = Engine::new();
        let job = train(4);
        let facts = one_queue(4).into_iter().chain([gpu_node("n", 4), Input::Owner(job)]);
        let first = engine.step(NOW, facts.collect());
        let resume = first.effects.iter().find(|e| matches!(e.action, Action::ResumeOwner { .. }));
        let resume = resume.expect("it fits");
        for late in [60, 120] {
            let later = engine.step(after(late), vec![]);
            assert_eq!((suspends(&later), used(&engine)), (vec![], 4), "after {late} s");
            assert_eq!(later.next_wake, Some(after(late + 60)));
        }
        let result = if unknown { EffectResult::TimedOut } else { EffectResult::Done };
        let answered = engine.step(after(150), vec![answer(resume, result)]);
        let until = if unknown { after(180) } else { after(210) };
        assert_eq!((suspends(&answered), answered.next_wake), (vec![], Some(until)));
        let over = engine.step(until, vec![]);
        assert_eq!((suspends(&over), used(&engine)), (vec!["train".to_owned()], 0));
        engine.recount();
    }
}
