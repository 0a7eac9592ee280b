//! Which members a gang begins with, or is completed by, where others could be chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    BudgetFacts, Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts, PodShape,
    Replica, Requirement, Roles, Text,
};
use capstan_core::plan::StepOutput;
use capstan_core::time::Time;
use capstan_tests::facts::{
    TEAM, amounts, gang, in_queue, labels, namespace, node, pod, shape, text,
};
use capstan_tests::hand::{binds, bound, evicted, view};

const NOW: Time = Time(1_000_000);

/// Amounts of resources.
type Amounts<'a> = &'a [(&'a str, i64)];

/// A pod that runs: its name, node and priority, and what it asks.
type Run<'a> = (&'a str, &'a str, i32, Amounts<'a>);

/// Members of a gang that must have so many of each role, in no queue: of which role, and what
/// they ask.
fn crew(members: &[(&str, Amounts<'_>)], least: &[(&str, u32)]) -> Vec<PodFacts> {
    let sum = least.iter().map(|(_, least)| least).sum();
    let least: BTreeMap<Text, u32> =
        least.iter().map(|(role, least)| (text(*role), *least)).collect();
    let least = Arc::new(least);
    let count = members.len() as u32;
    let mut all = gang("g", count, Some(sum), &shape(&[]), &in_queue(None));
    for (member, (role, asks)) in all.iter_mut().zip(members) {
        let (own, least) = (Some(text(*role)), least.clone());
        member.gang.roles = Some(Arc::new(Roles { own, least, replica: None }));
        (member.shape, member.priority) = (shape(asks), 10);
    }
    all
}

/// An engine with these nodes, and pods that run there; a PodDisruptionBudget that allows nothing
/// guards those whose names begin with `guarded`.
fn cluster(nodes: &[(&str, Amounts<'_>)], run: &[Run<'_>]) -> Engine {
    let (name, disturbed) = (text("b"), BTreeSet::new());
    let budget = BudgetFacts { namespace: text(TEAM), name, allowed: 0, disturbed };
    let mut facts = vec![namespace(), Input::Budget(Arc::new(budget))];
    facts.extend(nodes.iter().map(|(name, has)| Input::Node(node(name, has).into())));
    for (name, node, priority, asks) in run {
        let mut shape = shape(asks);
        if name.starts_with("guarded") {
            Arc::make_mut(&mut shape).budgets = vec![text("b")];
        }
        let there = PodFacts { priority: *priority, ..pod(name, &shape, &in_queue(None)) };
        facts.push(bound(&there, node));
    }
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    engine
}

/// Members of this role want one of that role on their node.
fn wants(pods: &mut [PodFacts], role: &str, near: &str) {
    for pod in pods {
        let own = pod.gang.roles.as_ref().and_then(|roles| roles.own.clone());
        let own = own.expect("it has a role");
        let kin = Kin { namespace: text(TEAM), labels: labels(&[("role", &own)]) };
        let mut shape = PodShape { kin: Some(Arc::new(kin)), ..PodShape::clone(&pod.shape) };
        if *own == *role {
            let (operator, values) = (Operator::In, vec![text(near)]);
            let wanted = Requirement { key: text("role"), operator, values };
            let (namespaces, labels) = (vec![text(TEAM)], Some(vec![wanted]));
            let peers = PeerSelector { namespaces, namespace_selector: None, labels };
            let affinity = vec![PeerTerm { key: text("kubernetes.io/hostname"), peers }];
            let neighbours = Neighbours { affinity, ..Neighbours::default() };
            shape.neighbours = Some(Arc::new(neighbours));
        }
        pod.shape = Arc::new(shape);
    }
}

/// Who is bound, and where.
fn bindings(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, node)| format!("{pod} {node}")).collect()
}

/// Who is stopped once these come.
fn stopped(engine: &mut Engine, pods: &[PodFacts]) -> Vec<String> {
    let output = engine.step(NOW, pods.iter().cloned().map(Input::Pod).collect());
    engine.recount();
    evicted(&output)
}

/// Either of two members is enough, and each has a node of its own, where somebody stands.
#[test]
fn a_minimum_is_of_those_for_whom_others_pay_least() {
    let cases: [([(&str, i32); 2], &str); 5] = [
        ([("hi", 4), ("lo", 0)], "lo"),
        ([("lo", 0), ("hi", 4)], "lo"),
        ([("guarded", 0), ("free", 0)], "free"),
        ([("guarded", 0), ("free", 4)], "free"),
        ([("one", 1), ("two", 1)], "one"),
    ];
    for (there, leaves) in cases {
        let [(one, first), (two, second)] = there;
        let run: [Run<'_>; 2] = [(one, "nx", first, &[("x", 1)]), (two, "ny", second, &[("y", 1)])];
        for roles in [false, true] {
            let mut engine = cluster(&[("nx", &[("x", 1)]), ("ny", &[("y", 1)])], &run);
            let mut pods = crew(&[("a", &[("x", 1)]), ("a", &[("y", 1)])], &[("a", 1)]);
            if !roles {
                pods.iter_mut().for_each(|pod| pod.gang.roles = None);
            }
            assert_eq!(stopped(&mut engine, &pods), [leaves], "{there:?}, roles: {roles}");
        }
    }
}

/// Two pods are in the way of one member, and of the other all of a group that can do without one.
#[test]
fn of_a_group_that_goes_on_only_who_leaves_counts() {
    for roles in [false, true] {
        let run: [Run<'_>; 2] = [("one", "nx", 0, &[("x", 1)]), ("two", "nx", 0, &[("x", 1)])];
        let mut engine = cluster(&[("nx", &[("x", 2)]), ("ny", &[("y", 4)])], &run);
        let mut group = gang("e", 4, Some(3), &shape(&[("y", 1)]), &in_queue(None));
        for (at, member) in group.iter_mut().enumerate() {
            (member.created, member.gang.singly) = (Time(at as i64), true);
        }
        engine.step(NOW, group.iter().map(|member| bound(member, "ny")).collect());
        let mut pods = crew(&[("a", &[("x", 2)]), ("a", &[("y", 1)])], &[("a", 1)]);
        if !roles {
            pods.iter_mut().for_each(|pod| pod.gang.roles = None);
        }
        assert_eq!(stopped(&mut engine, &pods), ["e-3"], "roles: {roles}");
    }
}

/// Of a gang that lost one of two workers.
#[test]
fn what_a_role_lacks_is_made_up_by_whom_others_pay_least_for() {
    let cases: [(&[Run<'_>], &str); 3] = [
        (&[("hi", "nx", 4, &[("x", 1)]), ("lo", "ny", 0, &[("y", 1)])], "lo"),
        (&[("guarded", "nx", 0, &[("x", 1)]), ("free", "ny", 4, &[("y", 1)])], "free"),
        (&[("one", "nx", 1, &[("x", 1)]), ("two", "ny", 1, &[("y", 1)])], "one"),
    ];
    for (run, leaves) in cases {
        let nodes: [(&str, Amounts<'_>); 3] =
            [("nx", &[("x", 1)]), ("ny", &[("y", 1)]), ("nz", &[("z", 1)])];
        let mut engine = cluster(&nodes, run);
        let members: [(&str, Amounts<'_>); 3] =
            [("a", &[("z", 1)]), ("a", &[("x", 1)]), ("a", &[("y", 1)])];
        let pods = crew(&members, &[("a", 2)]);
        engine.step(NOW, vec![bound(&pods[0], "nz")]);
        assert_eq!(stopped(&mut engine, &pods[1..]), [leaves], "{run:?}");
        let output = engine.step(NOW, vec![Input::PodGone(text(leaves))]);
        let joined = if leaves == "one" { "g-1" } else { "g-2" };
        assert_eq!(binds(&output).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), [joined]);
        engine.recount();
    }
}

/// One of three workers runs on `nr`, and of those that wait no two look alike: so many large ones,
/// and behind them perhaps one that asks so much.
fn unlike(large: i64, small: Option<i64>) -> Vec<PodFacts> {
    let large: Vec<[(&str, i64); 2]> = (1..=large).map(|at| [("x", 6), ("z", at)]).collect();
    let small = small.map(|asks| [("x", asks)]);
    let mut members: Vec<(&str, Amounts<'_>)> = vec![("a", &[("r", 1)][..])];
    members.extend(large.iter().map(|asks| ("a", &asks[..])));
    members.extend(small.iter().map(|asks| ("a", &asks[..])));
    let mut pods = crew(&members, &[("a", 3)]);
    for (at, pod) in pods.iter_mut().enumerate() {
        (pod.uid, pod.name) = (text(format!("g-{at:02}")), text(format!("g-{at:02}")));
    }
    pods
}

/// Room for one large worker on `na` and none on `nb`, where others of this priority are.
fn for_one_large(priority: i32) -> Engine {
    let nodes: [(&str, Amounts<'_>); 3] =
        [("nr", &[("r", 1)]), ("na", &[("x", 7), ("z", 999)]), ("nb", &[("x", 5), ("z", 999)])];
    let run: [Run<'_>; 2] =
        [("there-a", "na", priority, &[("x", 7)]), ("there-b", "nb", priority, &[("x", 5)])];
    cluster(&nodes, &run)
}

/// No two large ones find places, whoever leaves; each of them does beside the small one, which is
/// in the seventeenth choice of two.
#[test]
fn others_leave_for_a_choice_behind_many_for_which_nobody_could() {
    for large in [15, 17, 20] {
        let mut engine = for_one_large(0);
        let pods = unlike(large, Some(5));
        engine.step(NOW, vec![bound(&pods[0], "nr")]);
        assert_eq!(stopped(&mut engine, &pods[1..]), ["there-a", "there-b"], "{large}");
        let gone = ["there-a", "there-b"].map(|name| Input::PodGone(text(name)));
        let output = engine.step(NOW, gone.to_vec());
        let small = format!("g-{:02} nb", large + 1);
        assert_eq!(bindings(&output), ["g-01 na".to_owned(), small], "{large}");
        engine.recount();
    }
}

/// Of six large ones there are fifteen choices of two, of seven 21. As things are all are looked
/// at; whom to stop is looked for with sixteen, if there is anybody.
#[test]
fn where_it_is_not_looked_whom_to_stop_for_every_choice_the_reason_says_so() {
    for (large, priority, ends) in [(6, 0, false), (7, 0, true), (7, 20, false)] {
        let mut engine = for_one_large(priority);
        let pods = unlike(large, None);
        engine.step(NOW, vec![bound(&pods[0], "nr")]);
        assert_eq!(stopped(&mut engine, &pods[1..]), [""; 0], "{large}, {priority}");
        let why = view(&engine, "g").reason.map(|why| why.to_string()).unwrap_or_default();
        let says = why.contains("The search ended after 16 choices of members");
        assert_eq!((says, why.contains("search")), (ends, ends), "{large}, {priority}: {why}");
    }
}

/// A master runs on a node that it fills, and one of these others is to be near a worker, which a
/// role lacks: the members, of whom the first runs.
fn near_a_master(masters: &[Amounts<'_>], worker: Amounts<'_>) -> Vec<PodFacts> {
    let mut members: Vec<(&str, Amounts<'_>)> = vec![("master", &[("x", 1)][..])];
    members.extend(masters.iter().map(|asks| ("master", *asks)));
    members.push(("worker", worker));
    let mut pods = crew(&members, &[("worker", 1)]);
    wants(&mut pods, "worker", "master");
    pods
}

/// No minimum counts the other master: it joins all the same, because the worker finds no place
/// without.
#[test]
fn whom_a_role_wants_near_joins_with_what_it_lacks() {
    let nodes: [(&str, Amounts<'_>); 2] = [("n0", &[("x", 1)]), ("n1", &[("x", 2)])];
    let mut engine = cluster(&nodes, &[]);
    let pods = near_a_master(&[&[("x", 1)]], &[("x", 1)]);
    engine.step(NOW, vec![bound(&pods[0], "n0")]);
    let output = engine.step(NOW, pods[1..].iter().cloned().map(Input::Pod).collect());
    engine.recount();
    assert_eq!(bindings(&output), ["g-1 n1", "g-2 n1"]);
}

/// The same where somebody has to leave for them: both have places in what that leaves, whatever is
/// told of them meanwhile.
#[test]
fn others_leave_for_whom_a_role_wants_near_and_what_it_lacks() {
    let nodes: [(&str, Amounts<'_>); 2] = [("n0", &[("x", 1)]), ("n1", &[("x", 2)])];
    let mut engine = cluster(&nodes, &[("low", "n1", 0, &[("x", 1)])]);
    let pods = near_a_master(&[&[("x", 1)]], &[("x", 1)]);
    engine.step(NOW, vec![bound(&pods[0], "n0")]);
    assert_eq!(stopped(&mut engine, &pods[1..]), ["low"]);
    let rival = pod("rival", &shape(&[("x", 1)]), &in_queue(None));
    let output = engine.step(NOW, vec![Input::Pod(pods[1].clone()), Input::Pod(rival)]);
    assert_eq!((bindings(&output), evicted(&output)), (vec![], vec![]));
    engine.recount();
    let output = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(bindings(&output), ["g-1 n1", "g-2 n1"]);
    engine.recount();
}

/// Any of seven masters could be near the worker, and so could any of them together: no node holds
/// the worker beside one of them.
#[test]
fn where_more_of_those_who_help_wait_than_are_tried_the_reason_says_so() {
    let nodes: [(&str, Amounts<'_>); 2] = [("n0", &[("x", 1)]), ("n1", &[("x", 40), ("y", 8)])];
    let mut engine = cluster(&nodes, &[]);
    let masters: [Amounts<'_>; 7] = [
        &[("x", 34)],
        &[("x", 35)],
        &[("x", 36)],
        &[("x", 37)],
        &[("x", 38)],
        &[("x", 39)],
        &[("x", 40)],
    ];
    let pods = near_a_master(&masters, &[("x", 7), ("y", 1)]);
    engine.step(NOW, vec![bound(&pods[0], "n0")]);
    engine.step(NOW, pods[1..].iter().cloned().map(Input::Pod).collect());
    let why = view(&engine, "g").reason.map(|why| why.to_string()).unwrap_or_default();
    assert!(why.contains("The search ended after 65 choices of members"), "{why}");
    engine.recount();
}

/// Minimums of roles.
type Least<'a> = &'a [(&'a str, u32)];

/// A head, which wants a worker near that is in no replica, that worker, and others in two replicas
/// of two whose members were made in turns.
fn head_and_replicas(least: &[(&str, u32)]) -> Vec<PodFacts> {
    let alone: [(&str, Amounts<'_>); 2] = [("head", &[("x", 1)]), ("worker", &[("x", 2)])];
    let of_two: [(&str, Amounts<'_>); 4] = [("tpu", &[("y", 1)]); 4];
    let mut pods = crew(&[&alone[..], &of_two[..]].concat(), least);
    for (pod, name) in pods[2..].iter_mut().zip(["a", "b", "a", "b"]) {
        let roles = pod.gang.roles.as_mut().expect("it has a role");
        Arc::make_mut(roles).replica = Some(Replica { name: Some(text(name)), size: 2 });
    }
    wants(&mut pods, "head", "worker");
    pods
}

/// Others begin and wait as they would without the head's wish, replica by replica.
#[test]
fn whom_a_head_wants_near_begins_with_it_beside_replicas() {
    let head = &[("head", 1)][..];
    let both = &[("head", 1), ("tpu", 2)][..];
    let cases: [(Least<'_>, i64, &[&str]); 4] = [
        (head, 1, &["g-0 n0", "g-1 n0"]),
        (head, 4, &["g-0 n0", "g-1 n0"]),
        (both, 3, &["g-0 n0", "g-1 n0", "g-2 n0", "g-4 n0"]),
        (both, 1, &[]),
    ];
    for (least, tpus, begins) in cases {
        let mut engine = cluster(&[("n0", &[("x", 3), ("y", tpus)])], &[]);
        let pods = head_and_replicas(least);
        let output = engine.step(NOW, pods.into_iter().map(Input::Pod).collect());
        engine.recount();
        assert_eq!(bindings(&output), begins, "{least:?} and room for {tpus}");
    }
}

/// Which of the workers begins that the head may have near is a choice, too.
#[test]
fn another_begins_beside_replicas_where_the_first_finds_no_place() {
    let mut engine = cluster(&[("n0", &[("x", 3), ("y", 2)])], &[]);
    let least = [("head", 1), ("tpu", 2), ("worker", 1)];
    let mut pods = head_and_replicas(&least);
    let mut large = PodFacts { uid: text("g-00"), name: text("g-00"), ..pods[1].clone() };
    Arc::make_mut(&mut large.shape).requests = amounts(&[("x", 9)]);
    pods.insert(0, large);
    let output = engine.step(NOW, pods.into_iter().map(Input::Pod).collect());
    engine.recount();
    assert_eq!(bindings(&output), ["g-0 n0", "g-1 n0", "g-2 n0", "g-4 n0"]);
}
