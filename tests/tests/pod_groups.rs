//! Kueue's pod groups, which say how many pods they have: who takes the part of who failed, who is
//! made once others run, and who is too many. Fed by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    GangKey, GangSource, Held, Input, OwnerFacts, OwnerPodSet, PodFacts, PodPhase, ToCome,
};
use capstan_core::plan::{Action, Effect, State, StepOutput};
use capstan_core::time::Time;
use capstan_tests::facts::{GPU, gang, in_queue, job, pod, shape, text};
use capstan_tests::hand::{binds, bound, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

/// So many pods of group `g`, made one after the other, which says that it has `total`.
fn members(pods: u32, total: u32) -> Vec<PodFacts> {
    let mut members = gang("g", pods, Some(total), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    for (at, member) in members.iter_mut().enumerate() {
        member.created = Time(at as i64);
        member.gang.key = GangKey::Group(GangSource::KueueGroup, text("g"));
        (member.gang.source, member.gang.total) = (GangSource::KueueGroup, Some(total));
    }
    members
}

fn ended(pod: &PodFacts, phase: PodPhase) -> Input {
    Input::Pod(PodFacts { phase, node: Some(text("n")), ..pod.clone() })
}

/// One that ended well at a second, as the API shows it.
fn done(pod: &PodFacts, at: i64) -> Input {
    let (phase, ended_at) = (PodPhase::Succeeded, Some(Time(at * 1_000)));
    Input::Pod(PodFacts { phase, ended_at, node: Some(text("n")), ..pod.clone() })
}

/// One queue and one node of eight GPUs.
fn engine(facts: impl IntoIterator<Item = Input>) -> (Engine, StepOutput) {
    let mut engine = Engine::new();
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 8)]);
    let output = engine.step(NOW, ground.chain(facts).collect());
    engine.recount();
    (engine, output)
}

fn used(engine: &Engine) -> i64 {
    engine.queues()[0].quotas[0].used
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

fn said(engine: &Engine) -> String {
    view(engine, "g").reason.expect("somebody waits").to_string()
}

#[test]
fn a_replacement_of_who_failed_starts_beside_what_is_done() {
    let pods = members(3, 2);
    let (mut engine, output) = engine([
        ended(&pods[0], PodPhase::Failed),
        ended(&pods[1], PodPhase::Succeeded),
        Input::Pod(pods[2].clone()),
    ]);
    assert_eq!(names(&output), ["g-2"]);
    engine.step(NOW, vec![bound(&pods[2], "n")]);
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 1));
    assert_eq!(view(&engine, "g").reason, None);
}

#[test]
fn a_replacement_joins_what_runs_and_is_charged_once() {
    let pods = members(3, 2);
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed)]);
    assert_eq!(used(&engine), 2, "what it held is kept for another");
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), used(&engine)), (vec!["g-2".to_owned()], 2));
    engine.recount();
}

#[test]
fn who_is_too_many_waits_and_says_so() {
    let pods = members(4, 2);
    let (mut engine, output) = engine(pods.iter().cloned().map(Input::Pod));
    assert_eq!(names(&output), ["g-0", "g-1"], "the first made");
    engine.step(NOW, vec![bound(&pods[0], "n"), bound(&pods[1], "n")]);
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 2));
    let want = "2 extra members wait: pod group g has all of its pod-group-total-count of 2; \
                delete the 2 other pods, or raise the number on all its pods";
    assert_eq!(said(&engine), want);
    let waiting = engine.details(&text("team"), &text("g")).expect("it runs").waiting;
    let waiting: Vec<&str> = waiting.iter().map(|pod| &*pod.name).collect();
    assert_eq!(waiting, ["g-2", "g-3"], "their conditions say it");

    // One of them takes the part of who failed, and no more.
    let output = engine.step(NOW, vec![ended(&pods[1], PodPhase::Failed)]);
    assert_eq!(names(&output), ["g-2"]);
    engine.step(NOW, vec![bound(&pods[2], "n")]);
    // What is done counts.
    let output = engine.step(NOW, vec![ended(&pods[0], PodPhase::Succeeded)]);
    assert_eq!((names(&output), used(&engine)), (Vec::new(), 1));
    let want = "1 extra member waits: pod group g has all of its pod-group-total-count of 2, 1 of \
                which succeeded; delete the 1 other pod, or raise the number on all its pods";
    assert_eq!(said(&engine), want);
    // With nobody running it is too many still, and does not begin a run of its own.
    let output = engine.step(NOW, vec![ended(&pods[2], PodPhase::Succeeded)]);
    assert_eq!((names(&output), used(&engine)), (Vec::new(), 0));
    assert_eq!(view(&engine, "g").state, State::Gathering);
    engine.recount();
    // Somebody does what it says.
    let output = engine.step(NOW, vec![Input::PodGone(text("g-3"))]);
    assert_eq!((names(&output), view(&engine, "g").state), (Vec::new(), State::Finished));
}

/// All that it says it has ended well in the end: who failed before does not count.
#[test]
fn a_group_whose_replacement_ended_well_did_not_fail() {
    let pods = members(3, 2);
    let failed =
        |engine: &Engine| engine.details(&text("team"), &text("g")).expect("it is there").failed;
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed)]);
    assert!(failed(&engine), "so far");
    engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    engine.step(NOW, vec![bound(&pods[2], "n")]);
    engine.step(NOW, vec![ended(&pods[1], PodPhase::Succeeded)]);
    assert!(failed(&engine), "one of two ended well");
    engine.step(NOW, vec![ended(&pods[2], PodPhase::Succeeded)]);
    assert_eq!((view(&engine, "g").state, failed(&engine)), (State::Finished, false));
}

/// Who was deleted did not end, and what is done is not all that there was to do.
#[test]
fn a_group_of_which_one_was_deleted_did_not_end_well() {
    let pods = members(2, 2);
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Succeeded)]);
    let failed = |engine: &Engine| {
        let details = engine.details(&text("team"), &text("g")).expect("it is there");
        (details.view.state, details.failed)
    };
    assert_eq!(failed(&engine), (State::Running, false));
    engine.step(NOW, vec![Input::PodGone(text("g-1"))]);
    assert_eq!(failed(&engine), (State::Finished, true));
}

/// Three members of gang `g`, which needs three, made one after the other from a second on, and
/// bound three seconds later.
fn three(name: &str, made: i64) -> Vec<PodFacts> {
    let at = |seconds: i64| Time(seconds * 1_000);
    let mut pods = gang("g", 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    for (index, pod) in pods.iter_mut().enumerate() {
        let name = text(format!("{name}{index}"));
        (pod.uid, pod.name) = (name.clone(), name);
        (pod.created, pod.bound_at) = (at(made + index as i64), Some(at(made + 3)));
    }
    pods
}

fn needed(engine: &Engine) -> (State, u32) {
    let details = engine.details(&text("team"), &text("g")).expect("it is there");
    (details.view.state, details.needed)
}

/// A gang that says how many it needs is made pod by pod and begins whole. Names are used again.
#[test]
fn who_is_done_in_this_run_needs_no_place_whenever_it_was_made() {
    let (one, two) = (three("one-", 0), three("two-", 20));
    let (mut engine, _) = engine(one.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, vec![done(&one[0], 9)]);
    assert_eq!(needed(&engine), (State::Running, 2), "the first made is the first to end");
    engine.step(NOW, vec![done(&one[1], 9), done(&one[2], 9)]);
    assert_eq!(needed(&engine).0, State::Finished);
    engine.step(NOW, two.iter().map(|pod| bound(pod, "n")).collect());
    assert_eq!(needed(&engine), (State::Running, 3));
    engine.step(NOW, vec![done(&two[0], 29)]);
    assert_eq!(needed(&engine), (State::Running, 2), "who ended before is of another run");
    engine.recount();
}

/// One that was made in place of another goes on after those beside which it ran.
#[test]
fn who_ended_beside_a_replacement_is_done() {
    let pods = three("g-", 0);
    let mut other = three("other-", 30).remove(0);
    let (mut engine, _) = engine(pods.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed), bound(&other, "n")]);
    // The one ended after the other had begun, the second one beside the first.
    engine.step(NOW, vec![done(&pods[1], 40)]);
    assert_eq!(needed(&engine), (State::Running, 2));
    engine.step(NOW, vec![done(&pods[2], 20)]);
    assert_eq!(needed(&engine), (State::Running, 1));
    engine.recount();
    // Of one that began after all of them had ended they are another run.
    other.bound_at = Some(Time(50_000));
    engine.step(NOW, vec![Input::PodGone(other.uid.clone())]);
    engine.step(NOW, vec![bound(&other, "n")]);
    assert_eq!(needed(&engine).1, 3);
    engine.recount();
}

/// The Job that makes members of gang `g`: others in place of so many that end well, and so many
/// did as far as it has counted them.
fn maker(replaces: u32, ended: u32) -> Input {
    let made = job("j", 2, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let member_of = Some(three("g-", 0).remove(0).gang);
    Input::Owner(OwnerFacts { suspended: false, member_of, replaces, ended, ..made })
}

/// Members that it makes, of which two must run together: the others each ten seconds later than
/// the one before, and bound three seconds after that.
fn of_job(pods: usize) -> Vec<PodFacts> {
    let mut made = gang("g", pods as u32, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    for (at, pod) in made.iter_mut().enumerate() {
        let seconds = at.saturating_sub(1) as i64 * 10;
        pod.created = Time(seconds * 1_000);
        pod.bound_at = Some(Time((seconds + 3) * 1_000));
        pod.of_job = Some(text("job-j"));
    }
    made
}

/// It brings four to a good end, two at a time.
#[test]
fn those_in_whose_place_a_job_makes_others_are_not_done() {
    let pods = of_job(4);
    let (mut engine, _) = engine([maker(2, 0), bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![done(&pods[0], 9)]);
    assert_eq!((needed(&engine).1, used(&engine)), (2, 2), "quota is kept for the next");
    engine.step(NOW, vec![bound(&pods[2], "n")]);
    engine.step(NOW, vec![done(&pods[1], 19), bound(&pods[3], "n")]);
    assert_eq!(needed(&engine), (State::Running, 2));
    // The Job has not counted it yet.
    engine.step(NOW, vec![done(&pods[2], 40)]);
    assert_eq!((needed(&engine), used(&engine)), ((State::Running, 1), 1));
    // The first are deleted, and known by its count alone.
    let gone = |pod: &PodFacts| Input::PodGone(pod.uid.clone());
    engine.step(NOW, vec![gone(&pods[0]), gone(&pods[1])]);
    assert_eq!(needed(&engine).1, 2);
    engine.step(NOW, vec![maker(2, 3)]);
    assert_eq!(needed(&engine), (State::Running, 1));
    engine.recount();
}

/// One of two is done; the other was preempted, and is made again after that had ended.
#[test]
fn what_a_job_has_done_is_done_however_often_it_is_stopped() {
    for by_job in [true, false] {
        let mut pods = of_job(3);
        pods[2].bound_at = None;
        if !by_job {
            pods.iter_mut().for_each(|pod| pod.of_job = None);
        }
        let (mut engine, _) = engine([maker(0, 0), bound(&pods[0], "n"), bound(&pods[1], "n")]);
        engine.step(NOW, vec![done(&pods[0], 5)]);
        engine.step(NOW, vec![Input::PodGone(pods[1].uid.clone())]);
        let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
        let want: &[&str] = if by_job { &["g-2"] } else { &[] };
        assert_eq!(names(&output), want, "by a Job: {by_job}");
        engine.recount();
    }
}

#[test]
fn what_a_job_made_again_and_ended_well_did_not_fail() {
    let pods = of_job(3);
    let failed =
        |engine: &Engine| engine.details(&text("team"), &text("g")).expect("it is there").failed;
    let (mut engine, _) = engine([maker(0, 0), bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed), bound(&pods[2], "n")]);
    engine.step(NOW, vec![done(&pods[1], 40)]);
    assert!(failed(&engine), "one of two ended well");
    engine.step(NOW, vec![done(&pods[2], 40)]);
    assert_eq!((view(&engine, "g").state, failed(&engine)), (State::Finished, false));
}

#[test]
fn whoever_a_job_makes_in_place_of_one_that_ended_is_not_too_many() {
    let mut pods = members(3, 2);
    pods.iter_mut().for_each(|pod| pod.of_job = Some(text("job-j")));
    let (mut engine, _) = engine([maker(4, 0), bound(&pods[0], "n"), bound(&pods[1], "n")]);
    let output = engine.step(NOW, vec![done(&pods[0], 9), Input::Pod(pods[2].clone())]);
    assert_eq!(names(&output), ["g-2"]);
    engine.step(NOW, vec![bound(&pods[2], "n")]);
    assert_eq!(view(&engine, "g").reason, None);
    engine.recount();
}

#[test]
fn a_raised_number_lets_others_in() {
    let pods = members(3, 2);
    let (mut engine, _) =
        engine([bound(&pods[0], "n"), bound(&pods[1], "n"), Input::Pod(pods[2].clone())]);
    assert!(matches!(view(&engine, "g").reason, Some(Reason::Extras { waiting: 1, .. })));
    let raised = members(3, 3);
    let facts = [bound(&raised[0], "n"), bound(&raised[1], "n"), Input::Pod(raised[2].clone())];
    let output = engine.step(NOW, facts.to_vec());
    assert_eq!((names(&output), used(&engine)), (vec!["g-2".to_owned()], 3));
}

#[test]
fn who_replaces_a_pod_that_is_being_deleted_waits_for_it() {
    let pods = members(3, 2);
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    let Input::Pod(mut leaving) = bound(&pods[0], "n") else { unreachable!("it is a pod") };
    leaving.terminating = true;
    let output = engine.step(NOW, vec![Input::Pod(leaving), Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), used(&engine)), (Vec::new(), 2));
    let want = "1 extra member waits: pod group g has all of its pod-group-total-count of 2, 1 of \
                which is being deleted: waits until it has gone";
    assert_eq!(said(&engine), want);
    let output = engine.step(NOW, vec![Input::PodGone(text("g-0"))]);
    assert_eq!((names(&output), used(&engine)), (vec!["g-2".to_owned()], 2));
}

/// Whoever uses a name again once all of a group is done begins a new run, whole.
#[test]
fn another_run_of_a_group_that_is_done_is_whole() {
    let pods = members(5, 2);
    let (mut engine, output) = engine([
        ended(&pods[0], PodPhase::Succeeded),
        ended(&pods[1], PodPhase::Succeeded),
        Input::Pod(pods[2].clone()),
    ]);
    assert_eq!((names(&output), view(&engine, "g").state), (Vec::new(), State::Gathering));
    let output = engine.step(NOW, vec![Input::Pod(pods[3].clone())]);
    assert_eq!(names(&output), ["g-2", "g-3"]);
    // Of the second run one is done and one failed: its replacement starts.
    let facts = [ended(&pods[2], PodPhase::Succeeded), ended(&pods[3], PodPhase::Failed)];
    engine.step(NOW, facts.to_vec());
    let output = engine.step(NOW, vec![Input::Pod(pods[4].clone())]);
    assert_eq!(names(&output), ["g-4"]);
    engine.recount();
}

/// A run that a script made twice is no second run: its pods were there before the first was over.
#[test]
fn who_was_too_many_in_a_run_begins_no_other() {
    let mut pods = members(6, 2);
    (pods[4].created, pods[5].created) = (Time(20_000), Time(21_000));
    let early = pods[2..4].iter().cloned().map(Input::Pod);
    let (mut engine, output) =
        engine([done(&pods[0], 10), done(&pods[1], 20)].into_iter().chain(early));
    assert_eq!((names(&output), view(&engine, "g").state), (Vec::new(), State::Gathering));
    let want = "pod group g has all of its pod-group-total-count of 2, 2 of which succeeded; \
                delete the 2 other pods, or raise the number on all its pods";
    assert_eq!(said(&engine), want);
    let waiting = engine.details(&text("team"), &text("g")).expect("it is there").waiting;
    let waiting: Vec<&str> = waiting.iter().map(|pod| &*pod.name).collect();
    assert_eq!(waiting, ["g-2", "g-3"], "their conditions say it");
    // What is made after that is another run, whole.
    let output = engine.step(NOW, vec![Input::Pod(pods[4].clone())]);
    assert_eq!((names(&output), said(&engine)), (Vec::new(), "1 of 2 pods exist".to_owned()));
    let output = engine.step(NOW, vec![Input::Pod(pods[5].clone())]);
    assert_eq!(names(&output), ["g-4", "g-5"]);
    engine.step(NOW, vec![bound(&pods[4], "n"), bound(&pods[5], "n")]);
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 2));
    let want = "2 extra members wait: pod group g has all of its pod-group-total-count of 2; \
                delete the 2 other pods, or raise the number on all its pods";
    assert_eq!(said(&engine), want);
    engine.recount();
}

/// What failed in the second run is replaced, although as many ended well before as a run has.
#[test]
fn who_failed_in_a_later_run_is_replaced() {
    let mut pods = members(5, 2);
    (pods[2].created, pods[3].created) = (Time(20_000), Time(20_000));
    pods[4].created = Time(30_000);
    let (mut engine, output) = engine([
        done(&pods[0], 10),
        done(&pods[1], 20),
        ended(&pods[2], PodPhase::Failed),
        bound(&pods[3], "n"),
        Input::Pod(pods[4].clone()),
    ]);
    assert_eq!(names(&output), ["g-4"]);
    engine.step(NOW, vec![bound(&pods[4], "n")]);
    assert_eq!((view(&engine, "g").reason, used(&engine)), (None, 2));
}

/// Nobody lifts a group over others with a pod that will never run.
#[test]
fn who_is_too_many_says_nothing_of_its_group() {
    let mut pods = members(3, 2);
    (pods[2].priority, pods[2].shape) = (100, shape(&[(GPU, 2)]));
    for found in [bound(&pods[0], "n"), Input::Pod(pods[0].clone())] {
        let facts = [Input::Pod(pods[2].clone()), found, Input::Pod(pods[1].clone())];
        let (engine, output) = engine(facts);
        assert!(!names(&output).contains(&"g-2".to_owned()));
        let shown = view(&engine, "g");
        let sets: Vec<u32> = shown.pod_sets.iter().map(|set| set.count).collect();
        assert_eq!((shown.priority, sets), (0, vec![2]));
        let details = engine.details(&text("team"), &text("g")).expect("it is there");
        assert_eq!(details.members, 2);
    }
    // Nobody of a higher priority is kept from what the group holds.
    let runs = pods[..2].iter().map(|pod| bound(pod, "n")).chain([Input::Pod(pods[2].clone())]);
    let (mut engine, _) = engine(runs);
    let urgent = pod("urgent", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    let output = engine.step(NOW, vec![Input::Pod(PodFacts { priority: 50, ..urgent })]);
    let stopped = |effect: &&Effect| matches!(effect.action, Action::Evict { .. });
    let stopped = output.effects.iter().filter(stopped).count();
    assert_eq!(stopped, 3, "all of its pods go, and the one too many with them");
}

/// A launcher and a worker, of which the launcher failed.
#[test]
fn a_replacement_has_the_role_of_who_failed() {
    let mut pods = members(4, 2);
    (pods[0].shape, pods[3].shape) = (shape(&[(GPU, 2)]), shape(&[(GPU, 2)]));
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed)]);
    assert_eq!(used(&engine), 3, "what it held is kept for another");
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), used(&engine)), (Vec::new(), 3), "a worker is none");
    let details = engine.details(&text("team"), &text("g")).expect("it is there");
    assert_eq!((details.members, details.needed), (1, 2));
    let output = engine.step(NOW, vec![Input::Pod(pods[3].clone())]);
    assert_eq!((names(&output), used(&engine)), (vec!["g-3".to_owned()], 3));
    engine.step(NOW, vec![bound(&pods[3], "n")]);
    let want = "1 extra member waits: pod group g has all of its pod-group-total-count of 2; \
                delete the 1 other pod, or raise the number on all its pods";
    assert_eq!((view(&engine, "g").state, said(&engine)), (State::Running, want.to_owned()));
    engine.recount();

    // A new engine finds the same, all at once.
    let again = [
        bound(&pods[1], "n"),
        Input::Pod(pods[2].clone()),
        Input::Pod(pods[3].clone()),
        ended(&pods[0], PodPhase::Failed),
    ];
    let (_, output) = self::engine(again);
    assert_eq!(names(&output), ["g-3"]);
}

/// Whoever mends what failed may make it ask more, or less.
#[test]
fn a_replacement_may_ask_something_else() {
    let mut pods = members(3, 2);
    (pods[0].shape, pods[2].shape) = (shape(&[(GPU, 2)]), shape(&[(GPU, 3)]));
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    engine.step(NOW, vec![ended(&pods[0], PodPhase::Failed)]);
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), used(&engine)), (vec!["g-2".to_owned()], 4));
}

/// Pods of a group that name another scheduler are waited for as long as it lacks some.
#[test]
fn who_names_another_scheduler_beyond_the_number_holds_nobody_up() {
    let mut pods = members(3, 2);
    for pod in &mut pods {
        (pod.gang.min_member, pod.gang.held) = (Some(1), Some(Held::ForeignMembers(1)));
    }
    let (mut engine, output) = engine([Input::Pod(pods[0].clone())]);
    let says = "1 pod names another scheduler".to_owned();
    assert_eq!((names(&output), said(&engine)), (Vec::new(), says));
    let output = engine.step(NOW, vec![Input::Pod(pods[1].clone())]);
    assert_eq!(names(&output), ["g-0", "g-1"], "whole, and not one by one");
    engine.step(NOW, vec![bound(&pods[0], "n"), bound(&pods[1], "n")]);
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 2));
    // What is done counts: a replacement waits for nobody either.
    let facts = [ended(&pods[0], PodPhase::Succeeded), ended(&pods[1], PodPhase::Failed)];
    engine.step(NOW, facts.to_vec());
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), used(&engine)), (vec!["g-2".to_owned()], 1));
    engine.recount();
}

/// Of several pods too many it is first the one of another queue, whenever it was made.
#[test]
fn who_names_another_queue_than_its_group_is_too_many_first() {
    let mut pods = members(3, 2);
    pods[0].wishes = in_queue(Some("elsewhere"));
    let waiting = |engine: &Engine| -> Vec<String> {
        let details = engine.details(&text("team"), &text("g")).expect("it is there");
        details.waiting.iter().map(|pod| pod.name.to_string()).collect()
    };
    let (mut engine, output) = engine(pods.iter().cloned().map(Input::Pod));
    assert_eq!(names(&output), ["g-1", "g-2"]);
    engine.step(NOW, vec![bound(&pods[1], "n"), bound(&pods[2], "n")]);
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 2));
    assert_eq!(waiting(&engine), ["g-0"]);
    engine.recount();
    // So it is where another of the group has its place already.
    let found = [bound(&pods[1], "n"), Input::Pod(pods[0].clone()), Input::Pod(pods[2].clone())];
    let (_, output) = self::engine(found);
    assert_eq!(names(&output), ["g-2"]);
}

/// Once all pods of a group have failed it is finished, and its quota is free; who is made in their
/// place begins it anew, whole.
#[test]
fn a_group_of_which_all_failed_is_finished_until_all_are_replaced() {
    let pods = members(4, 2);
    let (mut engine, _) = engine([bound(&pods[0], "n"), bound(&pods[1], "n")]);
    let failed = [0, 1].map(|at| ended(&pods[at], PodPhase::Failed));
    engine.step(NOW, failed.to_vec());
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Finished, 0));
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output), said(&engine)), (Vec::new(), "1 of 2 pods exist".to_owned()));
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Gathering, 0));
    let output = engine.step(NOW, vec![Input::Pod(pods[3].clone())]);
    assert_eq!(names(&output), ["g-2", "g-3"]);
    engine.recount();
    // A new engine finds the same.
    let found = failed.into_iter().chain([Input::Pod(pods[2].clone())]);
    let (engine, output) = self::engine(found);
    assert_eq!((names(&output), said(&engine)), (Vec::new(), "1 of 2 pods exist".to_owned()));
}

/// Three workers, and the launcher that is made once they run, of a group that says it has `total`.
fn with_late_launcher(total: u32) -> Vec<PodFacts> {
    let mut pods = members(4, total);
    let (name, shape) = (text("launcher"), shape(&[(GPU, 1)]));
    let set = OwnerPodSet { name, count: 1, before: 0, shape, roles: None, late: Some(0) };
    for (at, pod) in pods.iter_mut().enumerate() {
        let last = at == 3;
        let known = ToCome {
            maker: text("mpi"),
            own: Some(text(if last { "launcher" } else { "worker" })),
            sets: if last { Vec::new() } else { vec![set.clone()] },
            stated: Some(total),
            counted: Some(total),
            unplaced: u32::from(last),
            ..ToCome::default()
        };
        (pod.gang.min_member, pod.gang.by_itself) = (Some(3), last);
        pod.gang.to_come = Some(Arc::new(known));
    }
    pods
}

fn run(pods: &[PodFacts]) -> Vec<Input> {
    pods.iter().map(|pod| bound(pod, "n")).collect()
}

#[test]
fn a_place_for_who_is_made_last_is_one_of_the_number() {
    let pods = with_late_launcher(4);
    let (mut engine, output) = engine(pods[..3].iter().cloned().map(Input::Pod));
    assert_eq!((names(&output).len(), used(&engine)), (3, 4));
    engine.step(NOW, run(&pods[..3]));
    // One more than it says takes no place that is kept.
    let mut more = pods[2].clone();
    (more.uid, more.name, more.created) = (text("more"), text("more"), Time(10));
    let output = engine.step(NOW, vec![Input::Pod(more)]);
    assert_eq!(names(&output), Vec::<String>::new());
    let want = "1 extra member waits: pod group g has all of its pod-group-total-count of 4; \
                delete the 1 other pod, or raise the number on all its pods";
    assert_eq!(said(&engine), want);
    engine.step(NOW, vec![Input::PodGone(text("more"))]);
    let output = engine.step(NOW, vec![Input::Pod(pods[3].clone())]);
    assert_eq!(names(&output), ["g-3"]);
    engine.step(NOW, run(&pods[3..]));
    let shown = view(&engine, "g");
    assert_eq!((shown.state, shown.reason, shown.min_member), (State::Running, None, 4));
    engine.recount();
    // It is done, and the others go on.
    engine.step(NOW, vec![done(&pods[3], 2_000)]);
    let shown = view(&engine, "g");
    assert_eq!((shown.state, shown.min_member, used(&engine)), (State::Running, 3, 3));
    engine.recount();
}

#[test]
fn a_new_engine_lets_who_is_made_last_in() {
    let pods = with_late_launcher(4);
    let mut more = pods[2].clone();
    (more.uid, more.name) = (text("more"), text("more"));
    let found = run(&pods[..3]).into_iter();
    let (mut engine, output) = engine(found.clone().chain([Input::Pod(more)]));
    assert_eq!((names(&output), used(&engine)), (Vec::new(), 4), "its place is no other's");
    let output = engine.step(NOW, vec![Input::Pod(pods[3].clone())]);
    assert_eq!(names(&output), ["g-3"]);
    // It may be there already.
    let (mut engine, output) = self::engine(found.chain([Input::Pod(pods[3].clone())]));
    assert_eq!(names(&output), ["g-3"]);
    engine.step(NOW, run(&pods[3..]));
    assert_eq!((view(&engine, "g").state, used(&engine)), (State::Running, 4));
    engine.recount();
}

/// Who wrote the number did not count the launcher: nobody waits for it, and no place is kept.
#[test]
fn no_place_is_kept_beyond_the_number() {
    let pods = with_late_launcher(3);
    let (mut engine, output) = engine(pods[..2].iter().cloned().map(Input::Pod));
    assert_eq!(names(&output), Vec::<String>::new());
    let output = engine.step(NOW, vec![Input::Pod(pods[2].clone())]);
    assert_eq!((names(&output).len(), used(&engine)), (3, 3));
    engine.recount();
}
