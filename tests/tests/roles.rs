//! Gangs whose roles have minimums of their own, fed by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    Input, Kin, Neighbours, Operator, OwnerFacts, OwnerPodSet, PeerSelector, PeerTerm, PodFacts,
    PodShape, Replica, Requirement, Roles, Text,
};
use capstan_core::plan::{Action, Effect, EffectResult, State, StepOutput};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, gang, group, in_queue, job, labels, local_queue, node,
    nominal, pods_of, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, evicted, gpu_node, is_bind, one_queue, view};
use proptest::prelude::*;

const NOW: Time = Time(1_000_000);

/// Pods of a role, each with so many GPUs, of a gang with these minimums.
fn of_role(
    name: &str,
    (role, pods, gpus): (&str, u32, i64),
    least: &[(&str, u32)],
) -> Vec<PodFacts> {
    let sum = least.iter().map(|(_, least)| least).sum();
    let (shape, wishes) = (shape(&[(GPU, gpus)]), in_queue(Some("main")));
    let mut members = gang(name, pods, Some(sum), &shape, &wishes);
    let least = least.iter().map(|(role, least)| (text(*role), *least)).collect();
    let roles = Arc::new(Roles { own: Some(text(role)), least: Arc::new(least), replica: None });
    for (at, member) in members.iter_mut().enumerate() {
        let name: Text = text(format!("{name}-{role}-{at}"));
        (member.uid, member.name) = (name.clone(), name);
        member.gang.roles = Some(roles.clone());
    }
    members
}

/// A gang of workers, which stand first, and of one master.
fn crew(workers: u32) -> Vec<PodFacts> {
    let least = [("a-worker", 2), ("b-master", 1)];
    let mut members = of_role("g", ("a-worker", workers, 1), &least);
    members.extend(of_role("g", ("b-master", 1, 1), &least));
    members
}

fn engine(gpus: i64) -> Engine {
    let mut engine = Engine::new();
    engine.step(NOW, one_queue(64).into_iter().chain([gpu_node("n", gpus)]).collect());
    engine
}

fn fed(engine: &mut Engine, pods: &[PodFacts]) -> StepOutput {
    engine.step(NOW, pods.iter().cloned().map(Input::Pod).collect())
}

/// What was bound is there, and nothing else happens.
fn done(engine: &mut Engine, output: &StepOutput, pods: &[PodFacts]) -> StepOutput {
    let ended = output.effects.iter().filter(is_bind).map(|bind| answer(bind, EffectResult::Done));
    let named = binds(output);
    let there = pods.iter().filter(|pod| named.iter().any(|(name, _)| **name == *pod.name));
    engine.step(NOW, ended.chain(there.map(|pod| bound(pod, "n"))).collect())
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

#[test]
fn a_gang_begins_with_the_minimum_of_each_role() {
    let (mut engine, crew) = (engine(3), crew(4));
    let output = fed(&mut engine, &crew);
    assert_eq!(names(&output), ["g-a-worker-0", "g-a-worker-1", "g-b-master-0"]);
    engine.recount();
}

#[test]
fn others_join_once_it_runs() {
    let (mut engine, crew) = (engine(8), crew(4));
    let output = fed(&mut engine, &crew);
    assert_eq!(names(&output).len(), 3);
    let output = done(&mut engine, &output, &crew);
    assert_eq!(names(&output), ["g-a-worker-2", "g-a-worker-3"]);
    engine.recount();
}

#[test]
fn nothing_begins_while_one_role_lacks_pods() {
    let (mut engine, crew) = (engine(8), crew(4));
    let output = fed(&mut engine, &crew[..4]);
    assert_eq!(names(&output), [""; 0]);
    let waits = view(&engine, "g");
    let lacks = Reason::RoleGathering { role: text("b-master"), have: 0, need: 1 };
    assert_eq!((waits.state, waits.reason), (State::Gathering, Some(lacks)));
    let mut gated = crew[4].clone();
    gated.gated = true;
    fed(&mut engine, &[gated]);
    assert_eq!(view(&engine, "g").reason, Some(Reason::Gated { pods: 1 }));
    assert_eq!(names(&fed(&mut engine, &crew[4..])).len(), 3);
}

#[test]
fn a_gang_that_lost_a_role_is_below_its_minimum_whatever_else_runs() {
    let (mut engine, crew) = (engine(8), crew(4));
    let output = fed(&mut engine, &crew);
    let output = done(&mut engine, &output, &crew);
    done(&mut engine, &output, &crew);
    assert_eq!(view(&engine, "g").state, State::Running);
    engine.step(NOW, vec![Input::PodGone(text("g-b-master-0"))]);
    let lost = view(&engine, "g");
    assert_eq!((lost.state, lost.min_member), (State::Binding, 5));
    let why = lost.reason.map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("4 of 5 members run; 4 of 5 exist"));
    let mut another = crew[4].clone();
    (another.uid, another.name) = (text("g-b-master-x"), text("g-b-master-x"));
    let output = fed(&mut engine, &[another.clone()]);
    assert_eq!(names(&output), ["g-b-master-x"]);
    done(&mut engine, &output, &[another]);
    let whole = view(&engine, "g");
    assert_eq!((whole.state, whole.min_member, whole.reason), (State::Running, 3, None));
    engine.recount();
}

/// The first that stands in for a lost worker finds no place, the next one does; or it does once
/// somebody has left.
#[test]
fn what_a_role_lacks_is_whoever_of_it_finds_a_place() {
    for full in [false, true] {
        let (mut engine, crew) = (engine(3), crew(2));
        let output = fed(&mut engine, &crew);
        done(&mut engine, &output, &crew);
        let gone = Input::PodGone(text("g-a-worker-1"));
        let mut low = gang("low", 1, None, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        let mut low = low.remove(0);
        low.priority = -1;
        let taken = full.then(|| bound(&low, "n"));
        engine.step(NOW, [gone].into_iter().chain(taken).collect());
        let least = [("a-worker", 2), ("b-master", 1)];
        let named = |name: &str, gpus: i64| {
            let mut one = of_role("g", ("a-worker", 1, gpus), &least).remove(0);
            (one.uid, one.name) = (text(name), text(name));
            one
        };
        let small = named("g-a-worker-y", 1);
        let output = fed(&mut engine, &[named("g-a-worker-x", 8), small.clone()]);
        let leaves = if full { vec!["low-0".to_owned()] } else { Vec::new() };
        assert_eq!((evicted(&output), names(&output).len()), (leaves, usize::from(!full)));
        engine.recount();
        let left = Input::PodGone(text("low-0"));
        let output = if full { engine.step(NOW, vec![left]) } else { output };
        assert_eq!(names(&output), ["g-a-worker-y"]);
        done(&mut engine, &output, &[small]);
        assert_eq!(view(&engine, "g").state, State::Running);
        engine.recount();
    }
}

/// One of seven runs, and of those that were made in place of the others none fits anywhere. There
/// are more choices of six of them than are looked at.
#[test]
fn where_more_of_a_role_wait_than_are_tried_the_reason_says_so() {
    let mut engine = engine(8);
    let mut crew = of_role("g", ("a-worker", 13, 1), &[("a-worker", 7)]);
    for (at, pod) in crew.iter_mut().enumerate().skip(1) {
        pod.shape = shape(&[(GPU, 8 + at as i64)]);
    }
    let runs = bound(&crew.remove(0), "n");
    engine.step(NOW, [runs].into_iter().chain(crew.into_iter().map(Input::Pod)).collect());
    let why = view(&engine, "g").reason.map(|why| why.to_string()).unwrap_or_default();
    assert!(why.contains("The search ended after 256 choices of members"), "{why}");
    engine.recount();
}

#[test]
fn gangs_with_other_minimums_of_the_same_pods_are_looked_at_apart() {
    let mut engine = engine(4);
    let of = |name: &str, large: u32, small: u32| {
        let least = [("large", large), ("small", small)];
        let mut members = of_role(name, ("large", 2, 2), &least);
        members.extend(of_role(name, ("small", 2, 1), &least));
        members
    };
    let pods = [of("p", 2, 1), of("q", 1, 2)].concat();
    let output = fed(&mut engine, &pods);
    assert_eq!(names(&output), ["q-large-0", "q-small-0", "q-small-1"]);
    assert_eq!(view(&engine, "p").state, State::Queued);
}

/// The same members stand first in both. In one another of its role may begin in the stead of that
/// which finds no place.
#[test]
fn gangs_with_other_roles_of_the_same_pods_are_looked_at_apart() {
    let mut engine = engine(2);
    let least = [("a", 1)];
    let member = |gang: &str, role: &str, gpus: i64| {
        let mut member = of_role(gang, (role, 1, gpus), &least).remove(0);
        let name: Text = text(format!("{gang}-{}", if gpus > 2 { "first" } else { "second" }));
        (member.uid, member.name) = (name.clone(), name);
        member
    };
    let pods = [("p", "a", 4), ("p", "b", 1), ("q", "a", 4), ("q", "a", 1)];
    let output = fed(&mut engine, &pods.map(|(gang, role, gpus)| member(gang, role, gpus)));
    assert_eq!(names(&output), ["q-second"]);
    assert_eq!(view(&engine, "p").state, State::Queued);
    engine.recount();
}

/// A head, and workers in replicas of two of these names, of whom two must run.
fn cluster(replicas: &[Option<&str>]) -> Vec<PodFacts> {
    let least = [("head", 1), ("tpu", 2)];
    let mut members = of_role("g", ("head", 1, 1), &least);
    let mut workers = of_role("g", ("tpu", replicas.len() as u32, 1), &least);
    for (worker, name) in workers.iter_mut().zip(replicas) {
        let roles = worker.gang.roles.as_mut().expect("it has a role");
        Arc::make_mut(roles).replica = Some(Replica { name: name.map(text), size: 2 });
    }
    members.append(&mut workers);
    members
}

/// Whom a cluster begins with in so many GPUs, who joins then, and why others wait.
fn joins(gpus: i64, replicas: &[Option<&str>]) -> (Vec<String>, Vec<String>, Option<String>) {
    let (mut engine, pods) = (engine(gpus), cluster(replicas));
    let first = fed(&mut engine, &pods);
    let then = done(&mut engine, &first, &pods);
    if !names(&then).is_empty() {
        done(&mut engine, &then, &pods);
    }
    engine.recount();
    let why = view(&engine, "g").reason.map(|why| why.to_string());
    (names(&first), names(&then), why)
}

#[test]
fn replicas_start_whole() {
    // Their members were made in turns.
    let replicas = [Some("a"), Some("b"), Some("a"), Some("b")];
    let (first, then, why) = joins(5, &replicas);
    assert_eq!(first, ["g-head-0", "g-tpu-0", "g-tpu-2"]);
    assert_eq!(then, ["g-tpu-1", "g-tpu-3"]);
    assert_eq!(why, None);
    // One of the other replica would have a place.
    let (first, then, why) = joins(4, &replicas);
    assert_eq!(first, ["g-head-0", "g-tpu-0", "g-tpu-2"]);
    assert_eq!(then, [""; 0]);
    let why = why.expect("some wait");
    assert!(why.starts_with("2 extra members wait: ") && !why.contains("quota"), "{why}");
}

#[test]
fn any_so_many_are_a_replica_where_none_has_a_name() {
    let (first, then, why) = joins(8, &[None; 5]);
    assert_eq!(first, ["g-head-0", "g-tpu-0", "g-tpu-1"]);
    assert_eq!(then, ["g-tpu-2", "g-tpu-3"]);
    let lacks = "1 extra member waits: 5 of 6 pods of role tpu exist";
    assert_eq!(why.as_deref(), Some(lacks));
    assert_eq!(joins(4, &[None; 5]).1, [""; 0]);
}

#[test]
fn whose_replica_is_not_whole_waits() {
    let (mut engine, pods) = (engine(8), cluster(&[Some("a"), Some("a"), Some("b"), Some("b")]));
    let output = fed(&mut engine, &pods[..4]);
    assert_eq!(names(&output), ["g-head-0", "g-tpu-0", "g-tpu-1"]);
    assert_eq!(names(&done(&mut engine, &output, &pods)), [""; 0]);
    let lacks = Reason::RoleGathering { role: text("b"), have: 1, need: 2 };
    let waits = Reason::Extras { waiting: 1, then: Some(Box::new(lacks)) };
    assert_eq!(view(&engine, "g").reason, Some(waits));
    let output = fed(&mut engine, &pods[4..]);
    assert_eq!(names(&output), ["g-tpu-2", "g-tpu-3"]);
    done(&mut engine, &output, &pods);
    // Who stands in for a member that died makes its replica whole again.
    engine.step(NOW, vec![Input::PodGone(text("g-tpu-3"))]);
    let mut another = pods[4].clone();
    (another.uid, another.name) = (text("g-tpu-x"), text("g-tpu-x"));
    assert_eq!(names(&fed(&mut engine, &[another])), ["g-tpu-x"]);
    engine.recount();
}

/// A pod that is there and is being deleted.
fn leaves(pod: &PodFacts) -> Input {
    let Input::Pod(pod) = bound(pod, "n") else { unreachable!("it is a pod") };
    Input::Pod(PodFacts { terminating: true, ..pod })
}

/// Another pod like it, which stands in for it.
fn again(pod: &PodFacts) -> PodFacts {
    let name: Text = format!("{}-x", pod.name).into();
    PodFacts { uid: name.clone(), name, ..pod.clone() }
}

#[test]
fn roles_lack_whoever_is_being_deleted() {
    let (mut engine, crew) = (engine(6), crew(5));
    let (runs, master) = (&crew[..4], &crew[5]);
    let mut facts: Vec<Input> = runs.iter().map(|pod| bound(pod, "n")).collect();
    facts.push(leaves(master));
    // There is room for one more: not for a worker.
    facts.extend([Input::Pod(crew[4].clone()), Input::Pod(again(master))]);
    assert_eq!(names(&engine.step(NOW, facts)), ["g-b-master-0-x"]);
    engine.recount();
}

#[test]
fn who_stands_in_for_all_of_a_gang_that_leaves_starts_with_every_role() {
    let (mut engine, crew) = (engine(8), crew(2));
    // One of three has gone already.
    let mut facts: Vec<Input> = crew[1..].iter().map(leaves).collect();
    facts.extend(crew[..2].iter().map(again).map(Input::Pod));
    assert_eq!(names(&engine.step(NOW, facts)), [""; 0]);
    let output = fed(&mut engine, &[again(&crew[2])]);
    assert_eq!(names(&output), ["g-a-worker-0-x", "g-a-worker-1-x", "g-b-master-0-x"]);
    engine.recount();
}

#[test]
fn who_stands_in_for_a_replica_that_leaves_waits_for_all_of_it() {
    let (mut engine, pods) = (engine(8), cluster(&[Some("a"), Some("a"), Some("b"), Some("b")]));
    let mut facts: Vec<Input> = pods[..3].iter().map(|pod| bound(pod, "n")).collect();
    facts.extend(pods[3..].iter().map(leaves));
    facts.push(Input::Pod(again(&pods[3])));
    assert_eq!(names(&engine.step(NOW, facts)), [""; 0]);
    let lacks = Reason::RoleGathering { role: text("b"), have: 1, need: 2 };
    let waits = Reason::Extras { waiting: 1, then: Some(Box::new(lacks)) };
    assert_eq!(view(&engine, "g").reason, Some(waits));
    assert_eq!(names(&fed(&mut engine, &[again(&pods[4])])), ["g-tpu-2-x", "g-tpu-3-x"]);
    engine.recount();
}

#[test]
fn nothing_begins_with_replicas_that_are_not_whole() {
    let (mut engine, pods) = (engine(8), cluster(&[Some("a"), Some("b"), Some("a")]));
    assert_eq!(names(&fed(&mut engine, &pods[..3])), [""; 0]);
    let waits = view(&engine, "g");
    let lacks = Reason::RoleGathering { role: text("a"), have: 1, need: 2 };
    assert_eq!((waits.state, waits.reason), (State::Gathering, Some(lacks)));
    let mut gated = pods[3].clone();
    gated.gated = true;
    fed(&mut engine, &[gated]);
    assert_eq!(view(&engine, "g").reason, Some(Reason::Gated { pods: 1 }));
    assert_eq!(names(&fed(&mut engine, &pods[3..])), ["g-head-0", "g-tpu-0", "g-tpu-2"]);
}

/// A suspended owner of a head, which asks so many GPUs, and of four workers, two of whom must run.
fn owner(gpus: i64) -> OwnerFacts {
    let least = Arc::new(BTreeMap::from([(text("head"), 1), (text("tpu"), 2)]));
    let set = |name: &str, count: u32, gpus: i64| {
        let roles = Roles { own: Some(text(name)), least: least.clone(), replica: None };
        let shape = shape(&[(GPU, gpus)]);
        let (name, roles) = (text(name), Some(Arc::new(roles)));
        OwnerPodSet { name, count, before: 0, shape, roles, late: None }
    };
    let pod_sets = vec![set("head", 1, gpus), set("tpu", 4, 1)];
    let made = job("g", 5, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    OwnerFacts { pod_sets, min_member: 3, ..made }
}

/// What resumes an owner, if anything does.
fn resumes(output: &StepOutput) -> Option<&Effect> {
    output.effects.iter().find(|effect| matches!(effect.action, Action::ResumeOwner { .. }))
}

#[test]
fn an_owner_is_not_resumed_without_the_role_that_finds_no_room() {
    for (gpus, resumed) in [(9, false), (2, true)] {
        let mut engine = engine(8);
        let output = engine.step(NOW, vec![Input::Owner(owner(gpus))]);
        assert_eq!(resumes(&output).is_some(), resumed);
        engine.recount();
    }
}

#[test]
fn nobody_takes_the_place_that_is_kept_for_another_role() {
    let (mut engine, suspended) = (engine(3), owner(1));
    let output = engine.step(NOW, vec![Input::Owner(suspended.clone())]);
    let done = answer(resumes(&output).expect("it fits"), EffectResult::Done);
    engine.step(NOW, vec![done]);
    let owner = OwnerFacts { suspended: false, ..suspended };
    // More workers than have places come before the head does, which looks like them.
    let pods = pods_of(&owner);
    let mut facts = vec![Input::Owner(owner)];
    facts.extend(pods[1..].iter().cloned().map(Input::Pod));
    let mut bound = names(&engine.step(NOW, facts));
    bound.extend(names(&fed(&mut engine, &pods[..1])));
    bound.sort();
    assert_eq!(bound, ["g-0", "g-1", "g-2"]);
    engine.recount();
}

/// Resources that members of one role ask beside others that ask more of one.
const KINDS: [&str; 3] = ["x", "y", "z"];

/// Members of roles "a" and "b", one after the other: of which role, what, and how much of it.
fn mixed(
    members: &[(usize, usize, i64)],
    least: [u32; 2],
    more: u32,
    queue: Option<&str>,
) -> Vec<PodFacts> {
    let names = ["a", "b"];
    let of_roles: Arc<BTreeMap<Text, u32>> =
        Arc::new(names.iter().zip(least).map(|(name, least)| (text(*name), least)).collect());
    let member = |(at, (role, kind, amount)): (usize, &(usize, usize, i64))| {
        let shape = shape(&[(KINDS[*kind], *amount)]);
        let wishes = in_queue(queue);
        let mut member =
            gang("g", 1, Some(least.iter().sum::<u32>() + more), &shape, &wishes).remove(0);
        let name: Text = text(format!("g-{at}"));
        (member.uid, member.name) = (name.clone(), name);
        let (own, least) = (Some(text(names[*role])), of_roles.clone());
        member.gang.roles = Some(Arc::new(Roles { own, least, replica: None }));
        member
    };
    members.iter().enumerate().map(member).collect()
}

/// A node for each kind.
fn kinds(amounts: [i64; 3]) -> Engine {
    let mut engine = Engine::new();
    let nodes = KINDS.iter().zip(amounts).map(|(kind, amount)| {
        let (of_kind, pods) = ((*kind, amount), ("pods", 99));
        Input::Node(node(&format!("n-{kind}"), &[of_kind, pods]).into())
    });
    engine.step(NOW, nodes.collect());
    engine
}

#[test]
fn others_of_a_role_begin_where_the_first_find_no_place() {
    // The first worker asks what no node has, the second more than there is.
    let members = [(0, 2, 1), (0, 0, 3), (0, 0, 2), (0, 1, 1), (1, 1, 1)];
    let mut engine = kinds([2, 2, 0]);
    assert_eq!(names(&fed(&mut engine, &mixed(&members, [2, 1], 0, None))), ["g-2", "g-3", "g-4"]);
    engine.recount();
    // One more of whatever role: there is none.
    let mut engine = kinds([2, 2, 0]);
    assert_eq!(names(&fed(&mut engine, &mixed(&members, [2, 1], 1, None))), [""; 0]);
    let mut engine = kinds([2, 3, 1]);
    let output = fed(&mut engine, &mixed(&members, [2, 1], 1, None));
    assert_eq!(names(&output), ["g-0", "g-2", "g-3", "g-4"]);
    engine.recount();
}

#[test]
fn so_many_of_each_begin_as_there_is_room_for() {
    let members: Vec<_> =
        (0..80).map(|at| (0, usize::from(at >= 40), 1)).chain([(1, 0, 1)]).collect();
    let mut engine = kinds([24, 18, 0]);
    let output = fed(&mut engine, &mixed(&members, [41, 1], 0, None));
    let first = (0..23).chain(40..58).chain([80]).map(|at| format!("g-{at}"));
    let (mut expected, mut begun) = (first.collect::<Vec<_>>(), names(&output));
    expected.sort();
    begun.sort();
    assert_eq!(begun, expected);
    engine.recount();
}

#[test]
fn who_waits_for_victims_begins_with_whom_they_make_room_for() {
    let mut engine = Engine::new();
    let mut facts = one_queue(64);
    facts.extend([gpu_node("n", 2)]);
    engine.step(NOW, facts);
    let mut low = gang("low", 1, None, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    low[0].priority = -1;
    let runs = fed(&mut engine, &low);
    done(&mut engine, &runs, &low);
    // Three of a role, of whom two begin: the first asks more than any node has.
    let mut crew = of_role("g", ("a", 1, 4), &[("a", 2)]);
    let mut small = of_role("g", ("a", 2, 1), &[("a", 2)]);
    for (at, member) in small.iter_mut().enumerate() {
        let name: Text = text(format!("g-small-{at}"));
        (member.uid, member.name) = (name.clone(), name);
    }
    crew.append(&mut small);
    let output = fed(&mut engine, &crew);
    assert_eq!(evicted(&output).len(), 1, "{:?}", view(&engine, "g").reason);
    let output = engine.step(NOW, vec![Input::PodGone(low[0].uid.clone())]);
    assert_eq!(names(&output), ["g-small-0", "g-small-1"]);
    engine.recount();
}

/// Two workers, who want a master on their node, and two masters, whom no minimum counts.
fn near_a_master() -> Vec<PodFacts> {
    let kin = |role: &str| {
        let labels = labels(&[("role", role)]);
        Some(Arc::new(Kin { namespace: text(TEAM), labels }))
    };
    let (operator, values) = (Operator::In, vec![text("master")]);
    let master = Requirement { key: text("role"), operator, values };
    let (namespaces, labels) = (vec![text(TEAM)], Some(vec![master]));
    let peers = PeerSelector { namespaces, namespace_selector: None, labels };
    let affinity = vec![PeerTerm { key: text("kubernetes.io/hostname"), peers }];
    let neighbours = Some(Arc::new(Neighbours { affinity, ..Neighbours::default() }));
    let asks = PodShape::clone(&shape(&[(GPU, 1)]));
    let worker = Arc::new(PodShape { kin: kin("worker"), neighbours, ..asks.clone() });
    let master = Arc::new(PodShape { kin: kin("master"), ..asks });
    let least = [("a-worker", 2)];
    let mut members = of_role("g", ("a-worker", 2, 1), &least);
    members.iter_mut().for_each(|member| member.shape = worker.clone());
    let mut masters = of_role("g", ("b-master", 2, 1), &least);
    masters.iter_mut().for_each(|member| member.shape = master.clone());
    members.append(&mut masters);
    members.iter_mut().for_each(|member| (member.priority, member.created) = (10, NOW));
    members
}

/// Of three GPUs one is `low`'s, which leaves for two workers and a master.
fn waits_near_a_master() -> (Engine, Vec<PodFacts>) {
    let (mut engine, crew) = (engine(3), near_a_master());
    let quota = group(&[(DEFAULT, &[(GPU, nominal(2))])]);
    let other = Input::ClusterQueue(cluster_queue("other", None, quota));
    let mut low = gang("low", 1, None, &shape(&[(GPU, 1)]), &in_queue(Some("main"))).remove(0);
    low.priority = -1;
    engine.step(NOW, vec![other, Input::LocalQueue(local_queue("other")), bound(&low, "n")]);
    let output = fed(&mut engine, &crew);
    assert_eq!((evicted(&output), names(&output)), (vec!["low-0".to_owned()], vec![]));
    engine.recount();
    (engine, crew)
}

/// One of its members shows again, and who was made before it comes.
#[test]
fn whom_a_role_wants_near_has_a_place_in_what_victims_leave() {
    let (mut engine, crew) = waits_near_a_master();
    let mut rival = gang("rival", 1, None, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    rival[0].priority = 10;
    let output = fed(&mut engine, &[crew[0].clone(), rival.remove(0)]);
    assert_eq!(names(&output), [""; 0]);
    engine.recount();
    let output = engine.step(NOW, vec![Input::PodGone(text("low-0"))]);
    assert_eq!(names(&output), ["g-a-worker-0", "g-a-worker-1", "g-b-master-0"]);
    engine.recount();
}

/// In a queue of two GPUs a worker and the master would have room.
#[test]
fn who_gives_up_what_victims_leave_begins_with_every_role_all_the_same() {
    let (mut engine, mut crew) = waits_near_a_master();
    crew.iter_mut().for_each(|member| member.wishes = in_queue(Some("other")));
    assert_eq!(names(&fed(&mut engine, &crew)), [""; 0]);
    assert_eq!(view(&engine, "g").state, State::Queued);
    engine.recount();
}

proptest! {
    #[test]
    fn a_gang_with_roles_begins_wherever_some_of_its_members_can(
        members in prop::collection::vec((0..2_usize, 0..3_usize, 1..4_i64), 2..8),
        least in [0..3_u32, 0..3],
        more in 0..2_u32,
        amounts in [0..5_i64, 0..5, 0..5],
    ) {
        let all = mixed(&members, least, more, None);
        let number = least[0] + least[1] + more;
        let suits = |chosen: u32| {
            let of = |role: usize| {
                let chosen = members.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
                chosen.filter(|(_, member)| member.0 == role).count() as u32
            };
            let mut used = [0; 3];
            for (_, (_, kind, amount)) in
                members.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1)
            {
                used[*kind] += amount;
            }
            let fits = used.iter().zip(amounts).all(|(used, amount)| *used <= amount);
            chosen.count_ones() == number && of(0) >= least[0] && of(1) >= least[1] && fits
        };
        let possible = number > 0 && (0..1_u32 << members.len()).any(suits);
        let mut engine = kinds(amounts);
        let begun = names(&fed(&mut engine, &all));
        engine.recount();
        let chosen = begun.iter().map(|name| 1 << name[2..].parse::<u32>().expect("a number"));
        let chosen: u32 = chosen.sum();
        if number > 0 {
            prop_assert_eq!(possible, !begun.is_empty());
        }
        prop_assert!(begun.is_empty() || number == 0 || suits(chosen), "{:?}", begun);
    }
}
