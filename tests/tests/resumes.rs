//! Owners that are resumed or suspended, by us and by somebody else at the same time, and answers
//! that are not what was counted on. Each test feeds facts by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    BindingNote, Held, Input, OwnerFacts, PodFacts, PodPhase, Taint, TaintEffect, Toleration,
    TolerationOperator,
};
use capstan_core::plan::{Action, Effect, EffectResult, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, flavor, gang, in_queue, job, node, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, gpu_node, is_bind, one_queue, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// A suspended Job of two pods with one GPU each, in a queue of two.
fn train() -> OwnerFacts {
    job("train", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")))
}

/// One pod of higher priority that needs all that there is.
fn rival() -> PodFacts {
    let rival = pod("rival", &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    PodFacts { priority: 9, ..rival }
}

/// The Job has its places on the only node, and its resume is on its way.
fn begun() -> (Engine, StepOutput) {
    let mut engine = Engine::new();
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(train())]);
    let first = engine.step(NOW, facts);
    (engine, first)
}

/// How the one effect of its kind is answered.
fn answered(output: &StepOutput, kind: fn(&Action) -> bool, result: EffectResult) -> Input {
    let mut effects = output.effects.iter().filter(|effect| kind(&effect.action));
    answer(effects.next().expect("an effect of this kind"), result)
}

fn resumes(action: &Action) -> bool {
    matches!(action, Action::ResumeOwner { .. })
}

fn suspends(action: &Action) -> bool {
    matches!(action, Action::SuspendOwner { .. })
}

/// The Job as it is once it was resumed.
fn resumed(output: &StepOutput) -> OwnerFacts {
    let note = output.effects.iter().find_map(|effect| match &effect.action {
        Action::ResumeOwner { note, .. } => Some(note.clone()),
        _ => None,
    });
    OwnerFacts { suspended: false, admitted: Some(note.expect("it is resumed")), ..train() }
}

fn done(output: &StepOutput) -> Vec<Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
}

fn fed(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter().cloned().map(Input::Pod)
}

fn run(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter()
        .cloned()
        .map(|pod| Input::Pod(PodFacts { node: Some(text("n")), phase: PodPhase::Running, ..pod }))
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

fn used(engine: &Engine) -> i64 {
    engine.queues()[0].quotas[0].used
}

/// The rival has ended: the Job is resumed again, and its pods are bound.
fn begins_again(mut engine: Engine, at: i64) {
    let again = engine.step(after(at), vec![Input::PodGone(rival().uid)]);
    let pods = pods_of(&train());
    let came = [Input::Owner(resumed(&again))].into_iter().chain(fed(&pods));
    let came = engine.step(after(at + 1), done(&again).into_iter().chain(came).collect());
    assert_eq!(names(&came), ["train-0", "train-1"]);
    engine.step(after(at + 2), done(&came).into_iter().chain(run(&pods)).collect());
    assert_eq!((view(&engine, "train").state, used(&engine)), (State::Running, 2));
    engine.recount();
}

/// Somebody suspended the Job, which ran, just before that was done for the rival: its run is the
/// same after that. The rival runs.
fn suspended_by_somebody() -> Engine {
    let (mut engine, first) = begun();
    let pods = pods_of(&train());
    let came = [Input::Owner(resumed(&first))].into_iter().chain(fed(&pods));
    let came = engine.step(NOW, done(&first).into_iter().chain(came).collect());
    engine.step(NOW, done(&came).into_iter().chain(run(&pods)).collect());
    let stops = engine.step(after(10), vec![Input::Pod(rival())]);
    let mut facts = vec![answered(&stops, suspends, EffectResult::Done)];
    facts.push(Input::Owner(OwnerFacts { suspended: true, ..resumed(&first) }));
    facts.extend(pods.iter().map(|pod| Input::PodGone(pod.uid.clone())));
    let next = engine.step(after(11), facts);
    assert_eq!(names(&next), ["rival"]);
    engine.step(after(12), done(&next).into_iter().chain(run(&[rival()])).collect());
    engine
}

#[test]
fn a_job_that_somebody_else_suspended_first_begins_again() {
    begins_again(suspended_by_somebody(), 20);
}

/// That its pods were there before says nothing of whether they come now.
#[test]
fn a_job_that_begins_again_without_pods_is_suspended_again() {
    let mut engine = suspended_by_somebody();
    let again = engine.step(after(20), vec![Input::PodGone(rival().uid)]);
    let shown = [Input::Owner(resumed(&again))];
    engine.step(after(21), done(&again).into_iter().chain(shown).collect());
    assert_eq!(used(&engine), 2);
    let late = engine.step(after(80), vec![]);
    assert_eq!(late.effects.iter().filter(|effect| suspends(&effect.action)).count(), 1);
    assert_eq!(used(&engine), 0);
    engine.recount();
}

/// Whoever makes pods makes them one after the other: while some come, others may.
#[test]
fn places_are_kept_for_a_minute_from_the_last_pod_that_came() {
    let (mut engine, first) = begun();
    let shown = [Input::Owner(resumed(&first))];
    engine.step(after(1), done(&first).into_iter().chain(shown).collect());
    let pods = pods_of(&train());
    let came = engine.step(after(50), fed(&pods[..1]).collect());
    assert_eq!(names(&came), ["train-0"]);
    engine.step(after(51), done(&came).into_iter().chain(run(&pods[..1])).collect());
    engine.step(after(70), vec![]);
    let other = pod("other", &shape(&[(GPU, 1)]), &in_queue(None));
    let kept = engine.step(after(71), vec![Input::Pod(other)]);
    assert_eq!(names(&kept), [""; 0], "the other pod may still come");
    let free = engine.step(after(111), vec![]);
    assert_eq!(names(&free), ["other"]);
    engine.recount();
}

/// The same of a Job whose pods are made after those of others.
#[test]
fn a_job_is_not_suspended_again_while_pods_of_those_before_it_come() {
    let next = job("next", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut engine = Engine::new();
    let mut facts = one_queue(4);
    facts.extend([gpu_node("n", 4), Input::Owner(train()), Input::Owner(next.clone())]);
    let first = engine.step(NOW, facts);
    assert_eq!(first.effects.iter().filter(|effect| resumes(&effect.action)).count(), 2);
    let train = resumed(&first);
    let next = OwnerFacts { suspended: false, admitted: train.admitted.clone(), ..next };
    let shown = [train.clone(), next].map(Input::Owner);
    engine.step(after(1), done(&first).into_iter().chain(shown).collect());
    engine.step(after(50), fed(&pods_of(&train)).collect());
    let stops = |output: &StepOutput| output.effects.iter().any(|it| suspends(&it.action));
    assert!(!stops(&engine.step(after(70), vec![])));
    assert_eq!(used(&engine), 4);
    assert!(stops(&engine.step(after(111), vec![])));
    assert_eq!(used(&engine), 2);
    engine.recount();
}

/// What comes of others does not take its own minute from a Job that was resumed late.
#[test]
fn a_job_whose_resume_was_answered_late_has_its_minute_from_then() {
    let next = job("next", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut engine = Engine::new();
    let mut facts = one_queue(4);
    facts.extend([gpu_node("n", 4), Input::Owner(train()), Input::Owner(next.clone())]);
    let first = engine.step(NOW, facts);
    let (ours, others): (Vec<&Effect>, Vec<&Effect>) =
        first.effects.iter().partition(|effect| effect.workload.ends_with("next"));
    let train = resumed(&first);
    let next = OwnerFacts { suspended: false, admitted: train.admitted.clone(), ..next };
    let all_done = |effects: &[&Effect]| -> Vec<Input> {
        effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect()
    };
    let mut facts = all_done(&others);
    facts.push(Input::Owner(train.clone()));
    engine.step(after(1), facts);
    engine.step(after(10), fed(&pods_of(&train)).collect());
    engine.step(after(60), vec![]);
    let mut facts = all_done(&ours);
    facts.push(Input::Owner(next));
    engine.step(after(66), facts);
    let stops = |output: &StepOutput| output.effects.iter().any(|it| suspends(&it.action));
    assert!(!stops(&engine.step(after(110), vec![])));
    assert_eq!(used(&engine), 4);
    assert!(stops(&engine.step(after(127), vec![])));
    engine.recount();
}

/// A Job is stopped for another before it was resumed, which comes to nothing: it is suspended as
/// it was, and begins again.
#[test]
fn a_job_that_was_stopped_and_never_resumed_begins_again() {
    let (mut engine, first) = begun();
    let stops = engine.step(after(10), vec![Input::Pod(rival())]);
    let refused = EffectResult::Refused("a webhook says no".into());
    let next = engine.step(after(11), vec![answered(&first, resumes, refused)]);
    assert_eq!(names(&next), ["rival"]);
    let suspended = answered(&stops, suspends, EffectResult::Done);
    engine.step(after(12), run(&[rival()]).chain([suspended]).collect());
    begins_again(engine, 600);
}

/// Somebody resumes a Job while we are refused to: its pods keep the places that they took over.
#[test]
fn pods_of_a_job_that_somebody_else_resumed_keep_their_places() {
    let (mut engine, first) = begun();
    let pods = pods_of(&train());
    let resumed = Input::Owner(OwnerFacts { suspended: false, ..train() });
    let came = engine.step(after(1), [resumed].into_iter().chain(fed(&pods)).collect());
    assert_eq!(names(&came), ["train-0", "train-1"]);
    engine.step(after(2), done(&came).into_iter().chain(run(&pods)).collect());
    let refused = EffectResult::Refused("a webhook says no".into());
    let after_all = engine.step(after(3), vec![answered(&first, resumes, refused)]);
    assert_eq!((names(&after_all), used(&engine)), (vec![], 2));
    assert_eq!(view(&engine, "train").state, State::Running);
    engine.recount();
}

/// Somebody raises the parallelism of a Job after its resume was decided, and before it has pods.
#[test]
fn a_job_that_is_to_have_more_pods_does_not_begin_with_half_of_them() {
    let (mut engine, first) = begun();
    let larger = job("train", 4, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    engine.step(after(1), vec![Input::Owner(larger.clone())]);
    assert_eq!((view(&engine, "train").state, used(&engine)), (State::Queued, 0));
    let pods = pods_of(&larger);
    let shown = OwnerFacts { admitted: resumed(&first).admitted, suspended: false, ..larger };
    let came = [Input::Owner(shown)].into_iter().chain(fed(&pods));
    let came = engine.step(after(2), done(&first).into_iter().chain(came).collect());
    assert_eq!((names(&came), used(&engine)), (vec![], 0));
    engine.recount();
    let room = one_queue(4).into_iter().chain([gpu_node("m", 2)]);
    let all = engine.step(after(3), room.collect());
    assert_eq!((names(&all).len(), used(&engine)), (4, 4));
    engine.recount();
}

/// A gang of two whose members need a toleration that only their flavor has, and all that there is.
fn tolerating() -> (Vec<Input>, Vec<PodFacts>) {
    let (key, value, effect) = (text("spot"), text(""), TaintEffect::NoExecute);
    let mut spot = flavor(DEFAULT, &[]);
    let operator = TolerationOperator::Exists;
    let (of, any) = (key.clone(), value.clone());
    spot.tolerations = vec![Toleration { key: of, operator, value: any, effect: None }];
    let mut tainted = node("n", &[("cpu", 64_000), (GPU, 2)]);
    tainted.taints = vec![Taint { key, value, effect }];
    let mut facts = one_queue(2);
    facts.extend([Input::Flavor(spot), Input::Node(tainted.into())]);
    let members = gang("g", 2, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    facts.extend(fed(&members));
    (facts, members)
}

/// Answers to all effects of a kind, in their order.
fn each(output: &StepOutput, kind: fn(&Action) -> bool, results: [EffectResult; 2]) -> Vec<Input> {
    let effects = output.effects.iter().filter(|effect| kind(&effect.action));
    let answers: Vec<Input> = effects.zip(results).map(|(of, result)| answer(of, result)).collect();
    assert_eq!(answers.len(), 2);
    answers
}

fn patches(action: &Action) -> bool {
    matches!(action, Action::AddTolerations { .. })
}

fn evicts(action: &Action) -> bool {
    matches!(action, Action::Evict { .. })
}

/// One of a gang is prepared, the other cannot be: neither keeps its place, in whatever order that
/// is answered.
#[test]
fn a_gang_of_which_one_cannot_be_prepared_gives_all_its_places_up() {
    let (facts, _) = tolerating();
    for done_first in [true, false] {
        let mut engine = Engine::new();
        let first = engine.step(NOW, facts.clone());
        let refused = EffectResult::Refused("a webhook says no".into());
        let mut answers = each(&first, patches, [EffectResult::Done, refused]);
        assert_eq!(used(&engine), 2);
        if !done_first {
            answers.reverse();
        }
        for answer in answers {
            assert_eq!(names(&engine.step(NOW, vec![answer])), [""; 0]);
        }
        assert_eq!((view(&engine, "g").state, used(&engine)), (State::Queued, 0));
        engine.recount();
    }
}

/// A gang is stopped while it is prepared: one member is deleted, the API refuses to delete the
/// other, which does not begin alone.
#[test]
fn a_gang_of_which_one_was_deleted_before_it_began_is_not_begun() {
    let (facts, members) = tolerating();
    let mut engine = Engine::new();
    let first = engine.step(NOW, facts);
    let stops = engine.step(NOW, vec![Input::Pod(rival())]);
    let done = [EffectResult::Done, EffectResult::Done];
    let prepared = engine.step(NOW, each(&first, patches, done));
    assert_eq!(names(&prepared), [""; 0]);
    let refused = EffectResult::Refused("a webhook says no".into());
    let mut answers = each(&stops, evicts, [EffectResult::Done, refused]);
    answers.push(Input::PodGone(members[0].uid.clone()));
    let after_all = engine.step(NOW, answers);
    assert_eq!((names(&after_all), used(&engine)), (vec![], 0));
    assert_eq!(view(&engine, "g").state, State::Gathering);
    engine.recount();
}

/// One of two was bound by an engine before this one, the other is prepared before its bind: that
/// completes the gang all the same.
#[test]
fn a_gang_that_was_begun_is_whole_first_though_a_member_is_prepared_before() {
    let (mut facts, members) = tolerating();
    let note = BindingNote {
        flavors: Arc::new(BTreeMap::from([(text(GPU), text(DEFAULT))])),
        admitted_at: Some(Time(1)),
        workload: Some(text("g")),
        ..BindingNote::default()
    };
    facts.extend(run(&[PodFacts { binding: Some(Arc::new(note)), ..members[0].clone() }]));
    let mut engine = Engine::new();
    let first = engine.step(NOW, facts);
    assert_eq!((names(&first), used(&engine)), (vec![], 2));
    let then = engine.step(NOW, vec![answered(&first, patches, EffectResult::Done)]);
    assert_eq!(names(&then), ["g-1"]);
    assert!(then.effects.iter().filter(is_bind).all(|bind| bind.completes));
    engine.recount();
}

/// The Job as somebody resumed it who wrote on it that it was admitted then.
fn said_to_be_admitted(at: Time) -> Input {
    let note = BindingNote { admitted_at: Some(at), ..BindingNote::default() };
    Input::Owner(OwnerFacts { suspended: false, admitted: Some(note), ..train() })
}

/// The Job that is said to be admitted then, and a pod that wants the node for itself.
fn seen_with_another(admitted: Time) -> (Engine, StepOutput) {
    let other = pod("other", &shape(&[(GPU, 2)]), &in_queue(None));
    let mut engine = Engine::new();
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), said_to_be_admitted(admitted), Input::Pod(other)]);
    let first = engine.step(NOW, facts);
    (engine, first)
}

fn keeps_nothing(engine: &Engine) -> bool {
    engine.workloads().iter().all(|view| &*view.name != "train") && used(engine) == 0
}

/// Nobody of ours writes a time that is still to come.
#[test]
fn nothing_is_kept_for_a_job_that_is_said_to_be_admitted_long_after_now() {
    let ahead = after(61);
    let (mut engine, first) = seen_with_another(ahead);
    assert_eq!(names(&first), ["other"]);
    assert!(keeps_nothing(&engine));
    // What was not believed is not, once that time has come.
    let next = pod("next", &shape(&[(GPU, 2)]), &in_queue(None));
    engine.step(after(1), done(&first));
    let facts = [Input::PodGone(text("other")), said_to_be_admitted(ahead), Input::Pod(next)];
    let then = engine.step(ahead, facts.into());
    assert_eq!(names(&then), ["next"]);
    assert!(keeps_nothing(&engine));
    engine.recount();
}

/// The clock of who resumed it may have been ahead of ours: it has its minute, once.
#[test]
fn places_of_a_job_that_is_said_to_be_admitted_a_moment_after_now_are_kept_for_a_minute() {
    let ahead = after(30);
    let (mut engine, first) = seen_with_another(ahead);
    assert_eq!((names(&first), used(&engine)), (vec![], 2));
    engine.step(after(50), vec![said_to_be_admitted(ahead)]);
    assert_eq!(used(&engine), 2);
    let late = engine.step(after(60), vec![]);
    assert_eq!(names(&late), ["other"]);
    engine.step(after(61), vec![said_to_be_admitted(ahead)]);
    assert!(keeps_nothing(&engine));
    engine.recount();
}

/// Since when work runs decides who leaves, and until when it must have started.
#[test]
fn a_pod_that_is_said_to_be_admitted_long_after_now_runs_from_its_bind() {
    for (ahead, since) in [(60, 60), (61, -5)] {
        let note = BindingNote { admitted_at: Some(after(ahead)), ..BindingNote::default() };
        let found = PodFacts {
            node: Some(text("n")),
            phase: PodPhase::Running,
            bound_at: Some(after(-5)),
            binding: Some(Arc::new(note)),
            ..pod("found", &shape(&[(GPU, 1)]), &in_queue(Some("main")))
        };
        let mut engine = Engine::new();
        let mut facts = one_queue(2);
        facts.extend([gpu_node("n", 2), Input::Pod(found)]);
        engine.step(NOW, facts);
        assert_eq!(view(&engine, "found").admitted_at, Some(after(since)));
        engine.recount();
    }
}

/// One pod stands for all of one that is too many; its places are planned once it is not.
#[test]
fn a_job_that_is_one_too_many_in_its_namespace_waits_until_others_are_gone() {
    let (before, most) = (5, 6);
    let one = OwnerFacts {
        held: Some(Held::Crowded { before, most }),
        ..job("train", 1, &shape(&[(GPU, 1)]), &in_queue(Some("main")))
    };
    let mut engine = Engine::new();
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(one)]);
    let begins = |output: &StepOutput| output.effects.iter().any(|it| resumes(&it.action));
    assert!(!begins(&engine.step(NOW, facts)));
    let known = view(&engine, "train");
    let why = Some(Reason::Crowded { before, most });
    assert_eq!((known.state, known.reason), (State::Queued, why));
    assert!(begins(&engine.step(after(1), vec![Input::Owner(train())])));
    assert_eq!(used(&engine), 2);
    engine.recount();
}

/// It is told as such, and has its time from then.
#[test]
fn what_an_engine_before_resumed_was_admitted_then() {
    let (_, first) = begun();
    let mut engine = Engine::new();
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), Input::Owner(resumed(&first))]);
    assert_eq!(
        engine.step(after(30), facts).effects.iter().filter(|it| resumes(&it.action)).count(),
        0
    );
    let known = view(&engine, "train");
    assert_eq!((known.state, known.admitted_at), (State::Resuming, Some(NOW)));
    assert!(known.found_running && !begun().0.workloads()[0].found_running);
    engine.recount();
    // Stopped once its minute is over, and begun again, it is admitted anew.
    let stops = engine.step(after(60), vec![]);
    let note = stops.effects.iter().find_map(|effect| match &effect.action {
        Action::SuspendOwner { requeue, .. } => Some(requeue.ran),
        _ => None,
    });
    assert_eq!(note, Some(Span::seconds(60)));
}
