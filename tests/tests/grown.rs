//! Gangs that are to have more members than they began with: they go on with those that they have,
//! and the others join as room comes.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::WorkloadView;
use capstan_core::model::input::{
    BindingNote, GangKey, GangSource, Held, Input, OwnerFacts, PodFacts, PodPhase,
};
use capstan_core::plan::{Action, EffectResult, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, gang, in_queue, job, pods_of, shape, text};
use capstan_tests::hand::{answer, binds, bound, evicted, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// A gang of so many pods with one GPU each and no queue, that says this number.
fn crew(pods: u32, least: Option<u32>) -> Vec<PodFacts> {
    gang("g", pods, least, &shape(&[(GPU, 1)]), &in_queue(None))
}

/// The same of an owner that is none of those that can be stopped.
fn owned(pods: u32, least: u32) -> Vec<PodFacts> {
    let mut members = crew(pods, Some(least));
    for member in &mut members {
        member.gang.key = GangKey::Owner(text("set"), 0);
        member.gang.source = GangSource::Owner;
    }
    members
}

fn fed(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter().cloned().map(Input::Pod)
}

fn run(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter().map(|pod| bound(pod, "n"))
}

fn done(output: &StepOutput) -> impl Iterator<Item = Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done))
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

fn more_names(of: std::ops::Range<u32>) -> Vec<String> {
    of.map(|at| format!("g-{at}")).collect()
}

/// With how many members its gang began, by what is written on each pod that is bound.
fn began_with(output: &StepOutput) -> Vec<Option<u32>> {
    let note = |action: &Action| match action {
        Action::Bind { note, .. } => Some(note.began_with),
        _ => None,
    };
    output.effects.iter().filter_map(|effect| note(&effect.action)).collect()
}

fn waits(engine: &Engine) -> u32 {
    match view(engine, "g").reason {
        Some(Reason::Extras { waiting, .. }) => waiting,
        None => 0,
        other => panic!("{other:?}"),
    }
}

fn placed(of: &WorkloadView) -> usize {
    of.pods.iter().filter(|pod| pod.node.is_some()).count()
}

/// A gang of three on three GPUs that Capstan bound and that runs, and its members.
fn three() -> (Engine, Vec<PodFacts>) {
    let (mut engine, members) = (Engine::new(), crew(3, Some(3)));
    let begun = engine.step(NOW, fed(&members).chain([gpu_node("n", 3)]).collect());
    assert_eq!(began_with(&begun), [Some(3); 3]);
    engine.step(NOW, done(&begun).chain(run(&members)).collect());
    (engine, members)
}

#[test]
fn more_members_join_what_runs_as_room_comes() {
    let (mut engine, _) = three();
    let more = crew(6, Some(6));
    let raised = run(&more[..3]).chain(fed(&more[3..]));
    let raised = engine.step(after(1), raised.collect());
    assert_eq!((names(&raised), raised.next_wake), (vec![], None));
    assert_eq!((view(&engine, "g").state, waits(&engine)), (State::Running, 3));
    assert!(engine.step(after(600), vec![]).effects.is_empty(), "nobody stops it");
    let some = engine.step(after(601), vec![gpu_node("m", 2)]);
    assert_eq!((names(&some), began_with(&some)), (more_names(3..5), vec![Some(3); 2]));
    engine.recount();
    let seen = more[3..5].iter().map(|pod| bound(pod, "m"));
    engine.step(after(602), done(&some).chain(seen).collect());
    assert_eq!((view(&engine, "g").state, waits(&engine)), (State::Running, 1));
    let last = engine.step(after(603), vec![gpu_node("o", 1)]);
    assert_eq!((names(&last), began_with(&last)), (more_names(5..6), vec![Some(6)]));
    engine.recount();
}

/// It loses one of those that it began with: it has them all again in time, or is stopped whole.
#[test]
fn who_lost_members_that_it_began_with_is_in_part() {
    let (mut engine, members) = three();
    let more = crew(4, Some(4));
    engine.step(after(1), run(&more[..3]).chain(fed(&more[3..])).collect());
    let lost = vec![Input::PodGone(members[0].uid.clone()), gpu_node("n", 2)];
    engine.step(after(2), lost);
    let of = view(&engine, "g");
    assert_eq!((of.state, of.min_member, placed(&of)), (State::Binding, 3, 2));
    assert_eq!(evicted(&engine.step(after(302), vec![])), ["g-1", "g-2", "g-3"]);
    engine.recount();
}

/// Once all that it is to have were there, it has to have them.
#[test]
fn who_was_whole_with_more_has_to_have_more() {
    let (mut engine, _) = three();
    let more = crew(4, Some(4));
    let facts = run(&more[..3]).chain(fed(&more[3..])).chain([gpu_node("n", 4)]);
    let whole = engine.step(after(1), facts.collect());
    assert_eq!(names(&whole), ["g-3"]);
    engine.step(after(2), done(&whole).chain(run(&more[3..])).collect());
    engine.step(after(3), vec![Input::PodGone(more[3].uid.clone())]);
    let of = view(&engine, "g");
    assert_eq!((of.state, of.min_member, placed(&of)), (State::Binding, 4, 3));
    // What is asked for less is needed no more, and may wait when it is asked for again.
    engine.step(after(4), run(&saying(&more[..3], 3)).collect());
    assert_eq!(view(&engine, "g").state, State::Running);
    engine
        .step(after(5), run(&more[..3]).chain(fed(&more[3..])).chain([gpu_node("n", 3)]).collect());
    assert_eq!((view(&engine, "g").state, waits(&engine)), (State::Running, 1));
    engine.recount();
}

fn saying(pods: &[PodFacts], least: u32) -> Vec<PodFacts> {
    let says = |pod: &PodFacts| {
        let mut pod = pod.clone();
        pod.gang.min_member = Some(least);
        pod
    };
    pods.iter().map(says).collect()
}

/// By what is written on those that are bound; without that nobody knows that it was whole.
#[test]
fn a_new_engine_knows_with_how_many_it_began() {
    for (written, whole) in [(Some(3), true), (Some(6), false), (None, false)] {
        let (mut engine, members) = (Engine::new(), crew(6, Some(6)));
        let note = BindingNote { began_with: written, ..BindingNote::default() };
        let note = Some(Arc::new(note));
        let found = members[..3].iter().map(|pod| {
            let (node, phase) = (Some(text("n")), PodPhase::Running);
            Input::Pod(PodFacts { node, phase, binding: note.clone(), ..pod.clone() })
        });
        let facts = found.chain(fed(&members[3..])).chain([gpu_node("n", 3)]);
        engine.step(NOW, facts.collect());
        let state = if whole { State::Running } else { State::Binding };
        assert_eq!(view(&engine, "g").state, state, "{written:?}");
        let late = engine.step(after(300), vec![]);
        assert_eq!(evicted(&late).is_empty(), whole, "{written:?}");
        engine.recount();
    }
}

/// Who bound them knew what it did, where whoever waits was made later. Pods that say themselves
/// how many they are lack who waits.
#[test]
fn what_others_bound_is_whole_if_more_were_made_later() {
    for (mut members, later, whole) in
        [(owned(4, 4), true, true), (owned(4, 4), false, false), (crew(4, Some(4)), true, false)]
    {
        if later {
            members[3].created = after(0);
        }
        let mut engine = Engine::new();
        let facts = run(&members[..3]).chain(fed(&members[3..])).chain([gpu_node("n", 3)]);
        engine.step(after(1), facts.collect());
        let state = if whole { State::Running } else { State::Binding };
        assert_eq!(view(&engine, "g").state, state, "{later} {:?}", members[0].gang.key);
        engine.recount();
    }
}

/// One more pod of a gang that says no number, made once those before it run; not one that was made
/// with them.
#[test]
fn a_gang_that_says_no_number_goes_on_with_those_that_run() {
    let cases = [(PodPhase::Running, true), (PodPhase::Pending, true), (PodPhase::Running, false)];
    for (phase, later) in cases {
        let (mut engine, mut members) = (Engine::new(), crew(4, None));
        if later {
            members[3].created = after(1);
        }
        let begun = fed(&members[..3]).chain([gpu_node("n", 3)]);
        let begun = engine.step(NOW, begun.collect());
        assert_eq!(began_with(&begun), [Some(3); 3]);
        let seen = members[..3].iter().map(|pod| {
            let node = Some(text("n"));
            Input::Pod(PodFacts { node, phase, ..pod.clone() })
        });
        engine.step(NOW, done(&begun).chain(seen).collect());
        engine.step(after(1), fed(&members[3..]).collect());
        let grows = phase == PodPhase::Running && later;
        let state = if grows { State::Running } else { State::Binding };
        assert_eq!(view(&engine, "g").state, state, "{phase:?} {later}");
        engine.recount();
        // One of those that it began with is lost, and its stead is taken by one made later.
        let lost = Input::PodGone(members[0].uid.clone());
        engine.step(after(2), vec![lost, gpu_node("n", 2)]);
        assert_eq!(view(&engine, "g").state, State::Binding);
        engine.recount();
    }
}

/// Two more are made at once and there is room for one of them, which joins: the other waits, and
/// nobody is stopped for it, nor by a new engine.
#[test]
fn of_members_that_were_made_together_one_joins_and_the_other_waits() {
    let (mut engine, mut members) = (Engine::new(), crew(5, None));
    for member in &mut members[3..] {
        member.created = after(1);
    }
    let begun = engine.step(NOW, fed(&members[..3]).chain([gpu_node("n", 3)]).collect());
    engine.step(NOW, done(&begun).chain(run(&members[..3])).collect());
    let more = fed(&members[3..]).chain([gpu_node("n", 4)]);
    let joins = engine.step(after(2), more.collect());
    assert_eq!((names(&joins), began_with(&joins)), (more_names(3..4), vec![Some(3)]));
    // First it is there, later it runs.
    for facts in [done(&joins).collect::<Vec<_>>(), run(&members[3..4]).collect()] {
        engine.step(after(3), facts);
        assert_eq!((view(&engine, "g").state, waits(&engine)), (State::Running, 1));
        engine.recount();
    }
    assert_eq!(evicted(&engine.step(after(600), vec![])), [""; 0]);
    let mut engine = Engine::new();
    let facts = run(&members[..4]).chain(fed(&members[4..])).chain([gpu_node("n", 4)]);
    engine.step(after(4), facts.collect());
    assert_eq!((view(&engine, "g").state, waits(&engine)), (State::Running, 1));
    assert_eq!(evicted(&engine.step(after(600), vec![])), [""; 0]);
    engine.recount();
}

/// All that it began with leave: who comes in their stead begins it with all that it is to have.
#[test]
fn a_gang_whose_members_all_leave_begins_anew() {
    let (mut engine, _) = three();
    let more = crew(8, Some(5));
    let leaving = more[..3].iter().map(|pod| {
        let Input::Pod(pod) = bound(pod, "n") else { unreachable!("it is a pod") };
        Input::Pod(PodFacts { terminating: true, ..pod })
    });
    let facts = leaving.chain(fed(&more[3..])).chain([gpu_node("m", 3)]);
    let some = engine.step(after(1), facts.collect());
    assert_eq!(names(&some), [""; 0], "three would be fewer than it says");
    engine.recount();
    let all = engine.step(after(2), vec![gpu_node("o", 2)]);
    assert_eq!((names(&all), began_with(&all)), (more_names(3..8), vec![Some(5); 5]));
    engine.recount();
}

/// With how many its old gang began says nothing of the one that a member is in now.
#[test]
fn who_comes_from_another_gang_lowers_no_minimum() {
    let (mut engine, members) = three();
    let others = gang("h", 4, Some(5), &shape(&[(GPU, 1)]), &in_queue(None));
    let moved = PodFacts { gang: others[0].gang.clone(), ..members[0].clone() };
    let facts = [bound(&moved, "n"), gpu_node("m", 8)].into_iter().chain(fed(&others[1..]));
    let output = engine.step(after(1), facts.collect());
    assert_eq!(names(&output), [""; 0], "four of five are there");
    assert_eq!(view(&engine, "h").min_member, 5);
    engine.recount();
}

/// While its group is gone nobody knows how many it needs: with that back it is as many as before.
#[test]
fn a_group_that_comes_back_asks_for_as_many_as_it_began_with() {
    let (mut engine, members) = three();
    let without = |pod: &PodFacts| {
        let mut pod = pod.clone();
        pod.gang.min_member = Some(1);
        pod.gang.held = Some(Held::GroupMissing(text("PodGroup g")));
        bound(&pod, "n")
    };
    let lost = Input::PodGone(members[2].uid.clone());
    engine.step(after(1), members[..2].iter().map(without).chain([lost]).collect());
    assert_eq!(view(&engine, "g").state, State::Running, "what runs goes on");
    engine.step(after(2), run(&members[..2]).collect());
    let of = view(&engine, "g");
    assert_eq!((of.state, of.min_member), (State::Binding, 3));
    engine.recount();
}

/// Workers are made once their leader runs, which does not know of them: it lacks them.
#[test]
fn members_that_come_late_are_no_growth() {
    let mut members = owned(4, 4);
    members[0].gang.min_member = Some(1);
    let mut engine = Engine::new();
    let begun = engine.step(NOW, fed(&members[..1]).chain([gpu_node("n", 2)]).collect());
    assert_eq!(began_with(&begun), [Some(1)]);
    engine.step(NOW, done(&begun).chain(run(&members[..1])).collect());
    assert_eq!(view(&engine, "g").state, State::Running);
    engine.step(after(1), fed(&members[1..]).collect());
    let of = view(&engine, "g");
    assert_eq!((of.state, of.min_member), (State::Binding, 4));
    assert!(!engine.step(after(301), vec![]).effects.is_empty(), "it is stopped");
    engine.recount();
}

/// An owner in a queue asks for all that it says: it is stopped, and queues for more.
#[test]
fn an_owner_in_a_queue_is_stopped_for_what_it_is_to_have() {
    let made = |pods: u32| {
        let job = job("g", pods, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        OwnerFacts { suspended: false, ..job }
    };
    let mut engine = Engine::new();
    let pods = pods_of(&made(4));
    let facts = one_queue(8).into_iter().chain([gpu_node("n", 3), Input::Owner(made(3))]);
    engine.step(NOW, facts.chain(run(&pods[..3])).collect());
    assert_eq!(view(&engine, "g").state, State::Running);
    engine.step(after(1), [Input::Owner(made(4))].into_iter().chain(fed(&pods[3..])).collect());
    assert_eq!(view(&engine, "g").state, State::Binding);
    let due = engine.step(after(301), vec![]);
    let suspends = |action: &Action| matches!(action, Action::SuspendOwner { .. });
    assert_eq!(due.effects.iter().filter(|effect| suspends(&effect.action)).count(), 1);
    engine.recount();
}
