//! Pod sets that an owner makes once others of it run: their places are found with the others',
//! and kept until they come. Facts are fed by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    GangKey, GangSource, Held, Input, OwnerFacts, OwnerPodSet, PodFacts, PodPhase, PodShape, Rank,
    Roles, SliceWish, ToCome, Wishes,
};
use capstan_core::plan::{Action, Effect, EffectResult, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    GPU, TEAM, gang, in_queue, job, namespace, node, pod, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, evicted, gpu_node, one_queue, view};

mod gates;
mod makers;
mod runs;

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// One set of so many pods with a GPU each, that comes late or with the others.
fn set(name: &str, count: u32, late: Option<u32>) -> OwnerPodSet {
    let shape = PodShape { pod_set: Some(text(name)), ..PodShape::clone(&shape(&[(GPU, 1)])) };
    let (name, shape) = (text(name), Arc::new(shape));
    OwnerPodSet { name, count, before: 0, shape, roles: None, late }
}

/// A suspended owner of so many workers, and a launcher that comes once they run.
fn mpi(name: &str, workers: u32) -> OwnerFacts {
    let all = workers + 1;
    let made = job(name, all, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let pod_sets = vec![set("worker", workers, None), set("launcher", 1, Some(0))];
    OwnerFacts { kind: text("MPIJob"), pod_sets, min_member: all, left: Some(all), ..made }
}

/// The same, and nobody ever suspended it.
fn running(name: &str, workers: u32) -> OwnerFacts {
    OwnerFacts { suspended: false, ..mpi(name, workers) }
}

fn engine(gpus: i64, quota: i64) -> Engine {
    let mut engine = Engine::new();
    engine.step(NOW, one_queue(quota).into_iter().chain([gpu_node("n", gpus)]).collect());
    engine
}

/// Feeds an owner and pods, and answers all that comes of it.
fn fed(engine: &mut Engine, now: Time, owner: &OwnerFacts, pods: &[PodFacts]) -> StepOutput {
    let owner = Input::Owner(owner.clone());
    let facts = std::iter::once(owner).chain(pods.iter().cloned().map(Input::Pod));
    let output = engine.step(now, facts.collect());
    settle(engine, now, &output);
    output
}

/// Every effect is carried out, and seen.
fn settle(engine: &mut Engine, now: Time, output: &StepOutput) {
    let done = output.effects.iter().map(|effect| answer(effect, EffectResult::Done)).collect();
    engine.step(now, done);
    engine.recount();
}

fn resumed(output: &StepOutput, owner: &OwnerFacts) -> Option<OwnerFacts> {
    let note = output.effects.iter().find_map(|effect| match &effect.action {
        Action::ResumeOwner { note, .. } => Some(note.clone()),
        _ => None,
    });
    Some(OwnerFacts { suspended: false, admitted: Some(note?), ..owner.clone() })
}

fn rival(name: &str) -> Input {
    Input::Pod(pod(name, &shape(&[(GPU, 1)]), &in_queue(None)))
}

#[test]
fn who_comes_late_counts_when_the_others_start() {
    // (GPUs of the node, quota, whether the workers start)
    for (gpus, quota, starts) in [(4, 8, false), (8, 4, false), (5, 5, true)] {
        let mut engine = engine(gpus, quota);
        let owner = running("m", 4);
        let pods = pods_of(&owner);
        let output = fed(&mut engine, NOW, &owner, &pods[..4]);
        assert_eq!(binds(&output).len(), if starts { 4 } else { 0 }, "{gpus} and {quota}");
        assert!(resumed(&output, &owner).is_none(), "nobody suspended it");
        let suspended = mpi("s", 4);
        let mut engine = self::engine(gpus, quota);
        let output = fed(&mut engine, NOW, &suspended, &[]);
        assert_eq!(resumed(&output, &suspended).is_some(), starts, "{gpus} and {quota}");
    }
}

#[test]
fn a_place_is_kept_for_who_comes_late_however_late() {
    let mut engine = engine(5, 8);
    let owner = running("m", 4);
    let pods = pods_of(&owner);
    let first = fed(&mut engine, NOW, &owner, &pods[..4]);
    assert_eq!(binds(&first).len(), 4);
    let runs = pods[..4].iter().map(|pod| bound(pod, "n"));
    engine.step(after(1), runs.collect());
    assert_eq!(view(&engine, "m").state, State::Running);
    for hours in [1, 20] {
        let later = engine.step(after(hours * 3_600), vec![rival(&format!("r{hours}"))]);
        assert_eq!(binds(&later), []);
        assert!(evicted(&later).is_empty(), "nobody stops it");
    }
    let came = fed(&mut engine, after(80_000), &owner, &pods[4..]);
    assert_eq!(binds(&came), [("m-4".to_owned(), "n".to_owned())]);
    assert_eq!(view(&engine, "m").pod_sets.iter().map(|set| set.count).sum::<u32>(), 5);
}

#[test]
fn of_two_whose_last_pods_come_late_one_runs_to_its_end() {
    let mut engine = engine(8, 16);
    let owners = ["a", "b"].map(|name| running(name, 4));
    let pods = owners.clone().map(|owner| pods_of(&owner));
    let facts = owners.iter().cloned().map(Input::Owner);
    let facts = facts.chain(pods.iter().flat_map(|pods| &pods[..4]).cloned().map(Input::Pod));
    let first = engine.step(NOW, facts.collect());
    assert_eq!(binds(&first).len(), 4);
    settle(&mut engine, NOW, &first);
    let came = fed(&mut engine, after(60), &owners[0], &pods[0][4..]);
    assert_eq!(binds(&came), [("a-4".to_owned(), "n".to_owned())]);
}

#[test]
fn steps_of_a_resumed_owner_have_their_places_until_they_come() {
    let mut engine = engine(3, 3);
    let made = job("s", 3, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let pod_sets = vec![set("init", 1, None), set("node", 2, Some(0))];
    let owner = OwnerFacts { kind: text("JobSet"), pod_sets, ..made };
    let first = fed(&mut engine, NOW, &owner, &[]);
    let owner = resumed(&first, &owner).expect("there is room for all of it");
    let pods = pods_of(&owner);
    let begun = fed(&mut engine, after(1), &owner, &pods[..1]);
    assert_eq!(binds(&begun), [("s-0".to_owned(), "n".to_owned())]);
    engine.step(after(2), vec![bound(&pods[0], "n"), rival("r")]);
    // Its pods had a minute to appear, and what prepares the data takes hours.
    let later = engine.step(after(7_200), vec![]);
    assert!(later.effects.is_empty(), "{:?}", later.effects);
    let ended = PodFacts { phase: PodPhase::Succeeded, node: Some(text("n")), ..pods[0].clone() };
    let ended = engine.step(after(7_201), vec![Input::Pod(ended)]);
    assert_eq!(binds(&ended), [("r".to_owned(), "n".to_owned())], "what ended is free again");
    settle(&mut engine, after(7_201), &ended);
    let counted = OwnerFacts { ended: 1, left: Some(2), min_member: 2, ..owner };
    let next = fed(&mut engine, after(7_202), &counted, &pods[1..]);
    let places = ["s-1", "s-2"].map(|pod| (pod.to_owned(), "n".to_owned()));
    assert_eq!(binds(&next), places);
}

#[test]
fn a_new_engine_keeps_the_same_places_before_it_starts_others() {
    let owner = running("m", 4);
    let pods = pods_of(&owner);
    let mut engine = Engine::new();
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 5), Input::Owner(owner.clone())]);
    let runs = pods[..4].iter().map(|pod| bound(pod, "n"));
    let first = engine.step(NOW, ground.chain(runs).chain([rival("r")]).collect());
    assert_eq!(binds(&first), [], "the last place is the launcher's");
    engine.recount();
    let came = fed(&mut engine, after(60), &owner, &pods[4..]);
    assert_eq!(binds(&came), [("m-4".to_owned(), "n".to_owned())]);
}

#[test]
fn who_failed_has_its_place_until_it_is_made_again() {
    let mut engine = engine(3, 8);
    let owner = running("m", 2);
    let pods = pods_of(&owner);
    let all = fed(&mut engine, NOW, &owner, &pods);
    assert_eq!(binds(&all).len(), 3);
    let runs = pods.iter().map(|pod| bound(pod, "n"));
    engine.step(after(1), runs.collect());
    let failed = PodFacts { phase: PodPhase::Failed, node: Some(text("n")), ..pods[2].clone() };
    let output = engine.step(after(2), vec![Input::Pod(failed), rival("r")]);
    assert_eq!(binds(&output), []);
    engine.recount();
    let again = PodFacts { uid: text("again"), name: text("m-5"), ..pods[2].clone() };
    let output = fed(&mut engine, after(3), &owner, &[again]);
    assert_eq!(binds(&output), [("m-5".to_owned(), "n".to_owned())]);
}

#[test]
fn an_owner_of_whom_another_scheduler_has_a_part_is_held() {
    let mut engine = engine(8, 8);
    let held = Some(Held::ForeignMembers(1));
    let owner = OwnerFacts { held, min_member: 1, ..mpi("m", 2) };
    let output = fed(&mut engine, NOW, &owner, &[]);
    assert!(resumed(&output, &owner).is_none());
    let view = view(&engine, "m");
    let why = Some(Reason::ForeignMembers { pods: 1 });
    assert_eq!((view.state, view.reason), (State::Queued, why));
    // Nobody else has a part of it any more.
    let owner = mpi("m", 2);
    assert!(resumed(&fed(&mut engine, after(1), &owner, &[]), &owner).is_some());
}

/// Pods of a group: so many workers, and the launcher that comes once they run, the last of them.
/// No owner is the gang: its members know that.
fn grouped(name: &str, workers: u32) -> Vec<PodFacts> {
    let of = |set: &str, sets: Vec<OwnerPodSet>| {
        let maker = text(format!("mpi-{name}"));
        Some(Arc::new(ToCome { maker, own: Some(text(set)), sets, ..ToCome::default() }))
    };
    let (wishes, sets) = (in_queue(Some("main")), vec![set("launcher", 1, Some(0))]);
    let mut pods = gang(name, workers, Some(workers), &set("worker", 1, None).shape, &wishes);
    pods.iter_mut().for_each(|pod| pod.gang.to_come = of("worker", sets.clone()));
    let last = format!("{name}-launcher");
    let mut launcher = PodFacts { uid: text(&last), name: text(&last), ..pods[0].clone() };
    launcher.shape = sets[0].shape.clone();
    (launcher.gang.to_come, launcher.gang.by_itself) = (of("launcher", Vec::new()), true);
    pods.push(launcher);
    pods
}

/// Feeds pods, and carries out all that comes of it.
fn seen(engine: &mut Engine, now: Time, pods: &[PodFacts]) -> StepOutput {
    let output = engine.step(now, pods.iter().cloned().map(Input::Pod).collect());
    settle(engine, now, &output);
    output
}

#[test]
fn who_comes_late_to_a_group_counts_when_the_others_start() {
    // (GPUs of the node, quota, whether the workers start)
    for (gpus, quota, starts) in [(4, 8, false), (8, 4, false), (5, 5, true)] {
        let mut engine = engine(gpus, quota);
        let pods = grouped("m", 4);
        let output = seen(&mut engine, NOW, &pods[..4]);
        assert_eq!(binds(&output).len(), if starts { 4 } else { 0 }, "{gpus} and {quota}");
        assert_eq!(view(&engine, "m").min_member, 5, "{gpus} and {quota}");
    }
}

#[test]
fn of_two_groups_whose_last_pods_come_late_one_runs_to_its_end() {
    let mut engine = engine(8, 16);
    let groups = ["a", "b"].map(|name| grouped(name, 4));
    let first: Vec<PodFacts> = groups.iter().flat_map(|pods| &pods[..4]).cloned().collect();
    assert_eq!(binds(&seen(&mut engine, NOW, &first)).len(), 4);
    let runs = groups[0][..4].iter().map(|pod| bound(pod, "n"));
    engine.step(after(1), runs.collect());
    assert_eq!(view(&engine, "a").state, State::Running);
    let both = [groups[0][4].clone(), groups[1][4].clone()];
    let came = seen(&mut engine, after(72_000), &both);
    assert_eq!(binds(&came), [("a-launcher".to_owned(), "n".to_owned())]);
    // It ends, and nobody is waited for any more.
    let ended = PodFacts { phase: PodPhase::Succeeded, node: Some(text("n")), ..both[0].clone() };
    seen(&mut engine, after(72_001), &[ended]);
    let view = view(&engine, "a");
    assert_eq!((view.state, view.min_member), (State::Running, 4));
}

#[test]
fn a_new_engine_keeps_a_place_in_a_group_before_it_starts_others() {
    let mut engine = Engine::new();
    let pods = grouped("m", 4);
    let ground = one_queue(8).into_iter().chain([gpu_node("n", 5)]);
    let runs = pods[..4].iter().map(|pod| bound(pod, "n"));
    let first = engine.step(NOW, ground.chain(runs).chain([rival("r")]).collect());
    assert_eq!(binds(&first), [], "the last place is the launcher's");
    engine.recount();
    let came = seen(&mut engine, after(60), &pods[4..]);
    assert_eq!(binds(&came), [("m-launcher".to_owned(), "n".to_owned())]);
    // Who failed has its place until it is made again.
    let failed = PodFacts { phase: PodPhase::Failed, node: Some(text("n")), ..pods[4].clone() };
    assert_eq!(binds(&seen(&mut engine, after(61), &[failed])), []);
    let again = PodFacts { uid: text("again"), name: text("again"), ..pods[4].clone() };
    let output = seen(&mut engine, after(62), &[again]);
    assert_eq!(binds(&output), [("again".to_owned(), "n".to_owned())]);
}

#[test]
fn who_is_still_to_come_is_not_counted_as_if_it_were_there() {
    let pods = grouped("m", 4);
    // (GPUs of the node, what four that run are, and why)
    let short = "4 of 5 members run; for the others needs 1 nvidia.com/gpu";
    for (gpus, state, why) in [(5, State::Running, None), (4, State::Binding, Some(short))] {
        let mut engine = Engine::new();
        let ground = one_queue(8).into_iter().chain([gpu_node("n", gpus)]);
        let runs = pods[..4].iter().map(|pod| bound(pod, "n"));
        engine.step(NOW, ground.chain(runs).collect());
        let told = engine.details(&text(TEAM), &text("m")).expect("it is there");
        assert_eq!((told.placed, told.needed), (4, 5), "{gpus}");
        let reason = told.view.reason.map(|reason| reason.to_string());
        let said = reason.as_deref().and_then(|reason| reason.split(',').next());
        assert_eq!((told.view.state, said), (state, why), "{gpus}");
        assert_eq!(told.view.pods.len(), if gpus == 5 { 5 } else { 4 }, "{gpus}");
    }
}

#[test]
fn places_go_with_those_who_know_that_they_are_needed() {
    let mut engine = engine(5, 8);
    let pods = grouped("m", 4);
    seen(&mut engine, NOW, &pods[..4]);
    engine.step(after(1), pods[..4].iter().map(|pod| bound(pod, "n")).collect());
    assert_eq!(binds(&engine.step(after(2), vec![rival("r")])), []);
    let gone = pods[..4].iter().map(|pod| Input::PodGone(pod.uid.clone()));
    let output = engine.step(after(3), gone.collect());
    assert_eq!(binds(&output), [("r".to_owned(), "n".to_owned())]);
    settle(&mut engine, after(3), &output);
}

/// A pod that another scheduler nominated is in the way of all of them, the place among those.
#[test]
fn a_place_in_a_group_is_worth_what_those_are_who_wait_for_it() {
    let mut engine = engine(5, 8);
    let theirs = pod("theirs", &shape(&[(GPU, 5)]), &in_queue(None));
    let theirs = PodFacts { ours: false, nominated: true, priority: 2, ..theirs };
    engine.step(NOW, vec![Input::Pod(PodFacts { node: Some(text("n")), ..theirs })]);
    let mut pods = grouped("m", 4);
    for (priority, begin) in [(1, 0), (3, 4)] {
        pods.iter_mut().for_each(|pod| pod.priority = priority);
        let output = seen(&mut engine, after(i64::from(priority)), &pods[..4]);
        assert_eq!(binds(&output).len(), begin, "{priority}");
    }
}

/// The group needs three of four, the launcher among them.
#[test]
fn others_do_not_begin_in_the_stead_of_who_is_to_come() {
    let mut engine = engine(3, 8);
    let mut pods = grouped("m", 3);
    let least = Arc::new(BTreeMap::from([(text("launcher"), 1)]));
    let roles = Roles { own: Some(text("launcher")), least, replica: None };
    for pod in &mut pods[..3] {
        let known = pod.gang.to_come.as_deref().expect("it was said").clone();
        let mut known = ToCome { least: Some(3), ..known };
        known.sets[0].roles = Some(Arc::new(roles.clone()));
        pod.gang.to_come = Some(Arc::new(known));
    }
    let first = seen(&mut engine, NOW, &pods[..3]);
    assert_eq!((binds(&first).len(), view(&engine, "m").min_member), (2, 3));
    let came = seen(&mut engine, after(60), &pods[3..]);
    assert_eq!(binds(&came), [("m-launcher".to_owned(), "n".to_owned())]);
}

/// The group needs three of five, and with the place of the launcher four.
#[test]
fn once_all_of_a_group_are_there_it_needs_what_is_stated() {
    for (pods, least, begin) in [(4, 4, 0), (5, 3, 3)] {
        let mut engine = engine(3, 8);
        let mut all = grouped("m", 4);
        for pod in &mut all {
            pod.gang.min_member = Some(3);
            let known = pod.gang.to_come.as_deref().expect("it was said").clone();
            pod.gang.to_come = Some(Arc::new(ToCome { stated: Some(3), ..known }));
        }
        let output = seen(&mut engine, NOW, &all[..pods]);
        assert_eq!((view(&engine, "m").min_member, binds(&output).len()), (least, begin));
    }
}

/// Two make members of a gang, and will each make one more of the same name: people tell the places
/// for those apart, and a new engine calls them the same.
#[test]
fn places_are_called_after_who_makes_their_pods() {
    let mut pods = gang("g", 2, Some(2), &set("worker", 1, None).shape, &in_queue(Some("main")));
    for (pod, name) in pods.iter_mut().zip(["b", "a"]) {
        let (maker, sets) = (text(format!("mpi-{name}")), vec![set("launcher", 1, Some(0))]);
        let (name, least) = (Some(text(name)), Some(4));
        pod.gang.to_come = Some(Arc::new(ToCome { maker, name, least, sets, ..ToCome::default() }));
    }
    let names = |engine: &Engine| -> Vec<String> {
        view(engine, "g").pods.iter().map(|place| place.pod.to_string()).collect()
    };
    let want = ["a-launcher-0", "b-launcher-0", "g-0", "g-1"];
    let mut first = engine(4, 8);
    seen(&mut first, NOW, &pods);
    assert_eq!(names(&first), want);
    let mut next = engine(4, 8);
    next.step(after(1), pods.iter().rev().map(|pod| bound(pod, "n")).collect());
    next.recount();
    assert_eq!(names(&next), want);
}

/// Nobody asked for the level: it is where those that come will be pinned to.
#[test]
fn of_a_level_that_follows_from_the_first_nothing_is_told() {
    for (level, events) in [(None, 1), (Some("rack"), 0)] {
        let mut engine = engine(3, 8);
        let mut wishes = Wishes::clone(&in_queue(Some("main")));
        wishes.topology.preferred = Some(text("rack"));
        let mut pods = gang("g", 1, Some(1), &shape(&[(GPU, 1)]), &Arc::new(wishes));
        let known = ToCome { maker: text("l"), level: level.map(text), ..ToCome::default() };
        pods[0].gang.to_come = Some(Arc::new(known));
        let output = seen(&mut engine, NOW, &pods);
        let told = |effect: &&Effect| matches!(effect.action, Action::Event { .. });
        assert_eq!(output.effects.iter().filter(told).count(), events, "{level:?}");
    }
}

/// Neighbours stand near each other: a leader has the number 0, and the first worker goes to the
/// place beside it.
#[test]
fn who_comes_has_the_place_of_its_number() {
    let mut engine = engine(2, 8);
    engine.step(NOW, vec![gpu_node("o", 2)]);
    let known = |own: Option<&str>, sets: Vec<OwnerPodSet>| {
        Some(Arc::new(ToCome { maker: text("l"), own: own.map(text), sets, ..ToCome::default() }))
    };
    let workers = OwnerPodSet { before: 1, ..set("worker", 3, Some(0)) };
    let mut pods = gang("g", 4, Some(1), &workers.shape, &in_queue(Some("main")));
    for (pod, number) in pods.iter_mut().zip(0..) {
        pod.rank = Rank::Number(number);
        pod.gang.to_come = known(Some("worker"), Vec::new());
    }
    pods[0].gang.to_come = known(None, vec![workers]);
    let leader = binds(&seen(&mut engine, NOW, &pods[..1]));
    let workers = binds(&seen(&mut engine, after(60), &pods[1..]));
    let node = |at: usize| &workers[at].1;
    assert_eq!((leader.len(), workers.len()), (1, 3));
    assert_eq!((node(0) == &leader[0].1, node(1) == node(2)), (true, true), "{workers:?}");
}

/// A node with so many GPUs, alone in its rack.
fn rack(name: &str, gpus: i64) -> Input {
    let mut facts = node(name, &[("cpu", 64_000), (GPU, gpus)]);
    facts.labels.insert(text("topology.kubernetes.io/zone"), text("z"));
    facts.labels.insert(text("topology.kubernetes.io/rack"), text(name));
    Input::Node(facts.into())
}

/// A leader that asks three GPUs, and workers that are made once it runs, one GPU each, every two
/// of which want a rack: their numbers begin with 1.
fn sliced(workers: u32) -> Vec<PodFacts> {
    let set = OwnerPodSet { before: 1, ..set("worker", workers, Some(0)) };
    let known = |own: Option<&str>, sets: Vec<OwnerPodSet>| {
        Some(Arc::new(ToCome { maker: text("l"), own: own.map(text), sets, ..ToCome::default() }))
    };
    let mut wishes = Wishes::clone(&in_queue(None));
    let level = text("topology.kubernetes.io/rack");
    wishes.topology.slices = Some(SliceWish { level, size: 2 });
    let mut pods = gang("g", workers + 1, Some(1), &set.shape, &Arc::new(wishes));
    for (pod, number) in pods.iter_mut().zip(0..) {
        pod.rank = Rank::Number(number);
        pod.gang.to_come = known(Some("worker"), Vec::new());
    }
    pods[0].shape = shape(&[(GPU, 3)]);
    pods[0].gang.to_come = known(None, vec![set]);
    pods
}

fn pairs(binds: &[(&str, &str)]) -> Vec<(String, String)> {
    binds.iter().map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned())).collect()
}

/// A new engine finds a leader with the first and the last of its workers, and looks for places
/// between those: slices are cut by number, whoever comes first.
#[test]
fn who_is_missing_between_others_has_the_place_of_its_number() {
    let pods = sliced(4);
    let mut engine = Engine::new();
    let ground = [namespace(), rack("o", 3), rack("a", 2), rack("b", 2)];
    let runs = [bound(&pods[0], "o"), bound(&pods[1], "b"), bound(&pods[4], "a")];
    engine.step(NOW, ground.into_iter().chain(runs).collect());
    engine.recount();
    let third = seen(&mut engine, after(60), &pods[3..4]);
    assert_eq!(binds(&third), pairs(&[("g-3", "a")]));
    let second = seen(&mut engine, after(61), &pods[2..3]);
    assert_eq!(binds(&second), pairs(&[("g-2", "b")]));
}

/// The first worker comes while there is a node for none: the others' places stay theirs.
#[test]
fn places_are_for_those_who_are_not_there_yet() {
    let pods = sliced(3);
    let mut engine = Engine::new();
    engine.step(NOW, vec![namespace(), rack("o", 3), bound(&pods[0], "o")]);
    assert_eq!(binds(&seen(&mut engine, after(1), &pods[1..2])), []);
    let first = engine.step(after(2), vec![rack("a", 2), rack("b", 1)]);
    assert_eq!(binds(&first), pairs(&[("g-1", "a")]));
    settle(&mut engine, after(2), &first);
    let others = seen(&mut engine, after(60), &pods[2..]);
    assert_eq!(binds(&others), pairs(&[("g-2", "a"), ("g-3", "b")]));
}

/// Of four that are to be made three have places, and the last one comes first.
#[test]
fn who_has_no_place_of_its_own_takes_no_others() {
    let mut engine = engine(3, 8);
    let made = job("j", 4, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let owner = OwnerFacts { min_member: 2, min_stated: true, ..made };
    let first = fed(&mut engine, NOW, &owner, &[]);
    let owner = resumed(&first, &owner).expect("two of them would be enough");
    let mut pods = pods_of(&owner);
    for (pod, number) in pods.iter_mut().zip(0..) {
        pod.rank = Rank::Number(number);
    }
    assert_eq!(binds(&fed(&mut engine, after(1), &owner, &pods[3..])), []);
    let others = fed(&mut engine, after(2), &owner, &pods[..3]);
    assert_eq!(binds(&others), pairs(&[("j-0", "n"), ("j-1", "n"), ("j-2", "n")]));
}

/// Of a group whose minimum is two one ended well, and two wait where one has room.
#[test]
fn who_ended_is_taken_off_the_minimum_only_if_that_counts_it() {
    for (uncounted, starts) in [(false, 1), (true, 0)] {
        let mut engine = engine(1, 8);
        let mut pods = gang("g", 3, Some(2), &shape(&[(GPU, 1)]), &in_queue(None));
        pods[0].gang.by_itself = uncounted;
        (pods[0].phase, pods[0].node) = (PodPhase::Succeeded, Some(text("n")));
        let output = engine.step(NOW, pods.into_iter().map(Input::Pod).collect());
        assert_eq!(binds(&output).len(), starts, "{uncounted}");
        engine.recount();
    }
}
