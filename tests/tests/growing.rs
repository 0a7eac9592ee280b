//! Members that join a gang that runs, gangs that may start with fewer than all of their members,
//! and what wakes work that was refused. Each test feeds facts by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::{FlavorProblem, Inactive, Reason};
use capstan_core::model::input::{
    BindingNote, ClusterQueueFacts, HostPort, Input, OwnerFacts, PodFacts, PodPhase,
    PreemptReclaim, PreemptWithin, QueueingStrategy, StopPolicy,
};
use capstan_core::plan::{Action, Effect, StepOutput};
use capstan_core::policy::Policy;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, job, labels, local_queue,
    namespace, node, nominal, pod, pods_of, shape, text,
};

const NOW: Time = Time(1_000_000);

fn binds(output: &StepOutput) -> Vec<String> {
    let bound = |action: &Action| match action {
        Action::Bind { pod, node, .. } => Some(format!("{} {node}", pod.name)),
        _ => None,
    };
    let mut all: Vec<String> = output.effects.iter().filter_map(|e| bound(&e.action)).collect();
    all.sort();
    all
}

/// The pod as the API shows it after a bind, with the flavors that were written on it.
fn bound(pod: &PodFacts, node: &str, flavors: &[(&str, &str)]) -> Input {
    let mut pod = pod.clone();
    (pod.node, pod.phase) = (Some(text(node)), PodPhase::Running);
    if !flavors.is_empty() {
        let flavors: BTreeMap<_, _> = flavors.iter().map(|(r, f)| (text(r), text(f))).collect();
        let (admitted_at, price, workload) = (Some(Time(1)), None, Some(text("g")));
        let flavors = Arc::new(flavors);
        let note = BindingNote { flavors, admitted_at, price, workload, ..BindingNote::default() };
        pod.binding = Some(Arc::new(note));
    }
    Input::Pod(pod)
}

fn reason(engine: &Engine, name: &str) -> Option<Reason> {
    let views = engine.workloads();
    views.into_iter().find(|view| &*view.name == name).expect("a workload of this name").reason
}

fn said(engine: &Engine, name: &str) -> String {
    reason(engine, name).map(|reason| reason.to_string()).unwrap_or_default()
}

fn queue(nominal_gpus: i64) -> ClusterQueueFacts {
    cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(nominal_gpus))])]))
}

fn ground(queue: ClusterQueueFacts) -> Vec<Input> {
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::Flavor(flavor("old", &[])),
        Input::LocalQueue(local_queue("main")),
        Input::ClusterQueue(queue),
        Input::Node(node("n", &[("cpu", 64_000), (GPU, 8)]).into()),
    ]
}

/// `main` lists the default flavor only; `lender`, of the same cohort, owns what is of `old`.
fn beside_a_lender() -> Vec<Input> {
    let mut facts = ground(ClusterQueueFacts { cohort: Some(text("all")), ..queue(4) });
    let lent = group(&[("old", &[(GPU, nominal(8))])]);
    facts.push(Input::ClusterQueue(cluster_queue("lender", Some("all"), lent)));
    facts
}

#[test]
fn extras_do_not_follow_to_a_flavor_that_the_queue_does_not_list() {
    for min in [1, 2] {
        let members = gang("g", 2, Some(min), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        let mut facts = beside_a_lender();
        facts.push(bound(&members[0], "n", &[(GPU, "old")]));
        facts.push(Input::Pod(members[1].clone()));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!(binds(&output), [""; 0], "minimum {min}");
        let said = said(&engine, "g");
        let want = "main does not list flavor old, which those that run have for nvidia.com/gpu";
        assert!(said.contains(want), "minimum {min}: {said}");
        // Listed again, it is theirs.
        let mut edited = queue(4);
        edited.groups = vec![group(&[("old", &[(GPU, nominal(4))])])];
        let output = engine.step(NOW, vec![Input::ClusterQueue(edited)]);
        assert_eq!(binds(&output), ["g-1 n"], "minimum {min}");
        engine.recount();
    }
}

#[test]
fn a_gang_that_was_begun_before_is_to_be_whole_before_others_begin() {
    let of =
        |name: &str, min| gang(name, 3, Some(min), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let (begun, elastic, new) = (of("begun", 2), of("elastic", 1), of("new", 3));
    let mut facts = ground(queue(8));
    facts.push(bound(&begun[0], "n", &[(GPU, DEFAULT)]));
    facts.push(bound(&elastic[0], "n", &[(GPU, DEFAULT)]));
    let others = [&new[..], &begun[1..2], &elastic[1..2]].concat();
    facts.extend(others.into_iter().map(Input::Pod));
    let output = Engine::new().step(NOW, facts);
    assert_eq!(binds(&output), ["begun-1 n", "elastic-1 n", "new-0 n", "new-1 n", "new-2 n"]);
    let completes: Vec<&str> =
        output.effects.iter().filter(|e| e.completes).map(|e| &*e.workload).collect();
    assert_eq!(completes, ["team/begun"]);
}

/// A Job counts a member that ended well a while after that. Whoever waits is all that is to come,
/// unless the Job makes another one in its stead.
#[test]
fn a_job_that_was_begun_is_whole_first_though_it_has_not_counted_who_ended() {
    for (left, whole) in [(Some(4), true), (None, true), (Some(10), false)] {
        let wishes = in_queue(Some("main"));
        let begun = job("begun", 4, &shape(&[(GPU, 1)]), &wishes);
        let begun = OwnerFacts { suspended: false, left, ..begun };
        let new = gang("new", 3, Some(3), &shape(&[(GPU, 1)]), &wishes);
        let (mut facts, pods) = (ground(queue(8)), pods_of(&begun));
        facts.push(Input::Owner(begun));
        let Input::Pod(ran) = bound(&pods[0], "n", &[(GPU, DEFAULT)]) else {
            unreachable!("it is a pod")
        };
        facts.push(Input::Pod(PodFacts { phase: PodPhase::Succeeded, ..ran }));
        facts.push(bound(&pods[1], "n", &[(GPU, DEFAULT)]));
        facts.extend([&pods[2..], &new[..]].concat().into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        let rest = ["begun-2 n", "begun-3 n"].into_iter().filter(|_| whole);
        let want: Vec<&str> = rest.chain(["new-0 n", "new-1 n", "new-2 n"]).collect();
        assert_eq!(binds(&output), want, "{left:?} to do");
        let completing = output.effects.iter().filter(|effect| effect.completes).count();
        assert_eq!(completing, if whole { 2 } else { 0 }, "{left:?} to do");
        engine.recount();
    }
}

#[test]
fn extras_wait_for_a_resource_that_the_queue_covers_no_more() {
    for min in [1, 2] {
        let asks = shape(&[(GPU, 1), ("cpu", 1_000)]);
        let members = gang("g", 2, Some(min), &asks, &in_queue(Some("main")));
        let mut facts = ground(queue(4));
        facts.push(bound(&members[0], "n", &[(GPU, DEFAULT)]));
        facts.push(Input::Pod(members[1].clone()));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!(binds(&output), [""; 0], "minimum {min}");
        let said = said(&engine, "g");
        let want = "ClusterQueue main has no quota for cpu, 1 asked";
        assert!(said.contains(want), "minimum {min}: {said}");
    }
}

#[test]
fn a_member_of_a_new_shape_says_what_its_flavors_lack() {
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut wide = members[1].clone();
    wide.shape = shape(&[(GPU, 5)]);
    let mut facts = ground(queue(4));
    facts.push(bound(&members[0], "n", &[(GPU, DEFAULT)]));
    facts.push(Input::Pod(wide));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let said = said(&engine, "g");
    assert!(said.contains("main can never have more than 4 GPUs, 5 asked"), "{said}");
}

#[test]
fn a_member_of_a_new_shape_waits_while_the_queue_lacks_its_flavor() {
    for min in [1, 2] {
        let members = gang("g", 2, Some(min), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
        let mut wide = members[1].clone();
        wide.shape = shape(&[(GPU, 2)]);
        for stop in [StopPolicy::None, StopPolicy::Hold] {
            let mut facts = ground(ClusterQueueFacts { stop, ..queue(4) });
            facts.push(Input::FlavorGone(text(DEFAULT)));
            facts.push(bound(&members[0], "n", &[(GPU, DEFAULT)]));
            facts.push(Input::Pod(wide.clone()));
            let mut engine = Engine::new();
            assert_eq!(binds(&engine.step(NOW, facts)), [""; 0]);
            engine.step(NOW, vec![Input::Pod(members[1].clone())]);
            let bound = binds(&engine.step(NOW, Vec::new()));
            assert_eq!(bound, [""; 0], "nothing says which nodes are of it");
        }
    }
}

#[test]
fn extras_that_find_no_room_say_so_until_they_do() {
    let members = gang("g", 3, Some(1), &shape(&[(GPU, 4)]), &in_queue(None));
    let mut engine = Engine::new();
    let mut facts = vec![Input::Node(node("n", &[("cpu", 64_000), (GPU, 8)]).into())];
    facts.push(bound(&members[0], "n", &[]));
    facts.extend(members[1..].iter().cloned().map(Input::Pod));
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output), ["g-1 n"]);
    engine.step(NOW, vec![bound(&members[1], "n", &[])]);
    let said_now = said(&engine, "g");
    assert!(said_now.starts_with("1 extra member waits: "), "{said_now}");
    let more = Input::Node(node("m", &[("cpu", 64_000), (GPU, 8)]).into());
    let output = engine.step(NOW, vec![more]);
    assert_eq!(binds(&output), ["g-2 m"]);
    assert_eq!(reason(&engine, "g"), None);
    engine.step(NOW, vec![bound(&members[2], "m", &[])]);
    assert_eq!(reason(&engine, "g"), None);
}

#[test]
fn extras_that_are_gone_leave_no_reason() {
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 8)]), &in_queue(None));
    let mut engine = Engine::new();
    let facts = vec![
        Input::Node(node("n", &[("cpu", 64_000), (GPU, 8)]).into()),
        bound(&members[0], "n", &[]),
        Input::Pod(members[1].clone()),
    ];
    engine.step(NOW, facts);
    assert!(matches!(reason(&engine, "g"), Some(Reason::Extras { waiting: 1, .. })));
    engine.step(NOW, vec![Input::PodGone(text("g-1"))]);
    assert_eq!(reason(&engine, "g"), None);
}

#[test]
fn extras_behind_a_strict_head_name_it() {
    let strict = ClusterQueueFacts { strategy: QueueingStrategy::StrictFifo, ..queue(4) };
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let head = pod("head", &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = ground(strict);
    facts.push(bound(&members[0], "n", &[(GPU, DEFAULT)]));
    facts.push(Input::Pod(members[1].clone()));
    facts.push(Input::Pod(head));
    let mut engine = Engine::new();
    assert_eq!(binds(&engine.step(NOW, facts)), [""; 0]);
    let want = "1 extra member waits: team/head is before it in StrictFIFO queue main";
    assert_eq!(said(&engine, "g"), want);
    let output = engine.step(NOW, vec![Input::PodGone(text("head"))]);
    assert_eq!(binds(&output), ["g-1 n"]);
    assert_eq!(reason(&engine, "g"), None);
}

#[test]
fn extras_of_a_stopped_queue_name_the_stop() {
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = ground(ClusterQueueFacts { stop: StopPolicy::Hold, ..queue(4) });
    facts.push(bound(&members[0], "n", &[(GPU, DEFAULT)]));
    facts.push(Input::Pod(members[1].clone()));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let Some(Reason::Extras { waiting: 1, then: Some(then) }) = reason(&engine, "g") else {
        panic!("{:?}", reason(&engine, "g"));
    };
    assert!(matches!(*then, Reason::Inactive { why: Inactive::Stopped, .. }), "{then}");
}

#[test]
fn an_elastic_gang_speaks_of_its_minimum() {
    let members = gang("g", 8, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = ground(queue(4));
    let runs = pod("runs", &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    facts.push(bound(&runs, "n", &[(GPU, DEFAULT)]));
    facts.extend(members.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    // Four are more than enough for the minimum: "can never have more than 4" would be wrong.
    let said = said(&engine, "g");
    assert!(said.contains("queue main has 2 GPUs left, 3 asked"), "{said}");
}

#[test]
fn an_elastic_gang_whose_minimum_lacks_room_hears_of_room() {
    let members = gang("g", 8, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let mut facts = ground(queue(4));
    let other = pod("other", &shape(&[(GPU, 7)]), &in_queue(None));
    facts.push(bound(&other, "n", &[]));
    facts.extend(members.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    assert_eq!(binds(&engine.step(NOW, facts)), [""; 0]);
    let output =
        engine.step(NOW, vec![Input::Node(node("m", &[("cpu", 64_000), (GPU, 8)]).into())]);
    assert_eq!(binds(&output).len(), 4, "{}", said(&engine, "g"));
}

/// Eight GPUs that a cohort would lend to `main` are asked with a minimum of other shapes, of
/// which one lacks quota and the other room.
#[test]
fn room_for_any_shape_wakes_a_gang_whose_first_shape_lacks_quota() {
    let wishes = in_queue(Some("main"));
    let mut members = gang("g", 2, Some(1), &shape(&[(GPU, 6)]), &wishes);
    members[1].shape = shape(&[(GPU, 2)]);
    let mut facts = ground(queue(4));
    let other = pod("other", &shape(&[(GPU, 7)]), &in_queue(None));
    facts.push(bound(&other, "n", &[]));
    facts.extend(members.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    assert_eq!(binds(&engine.step(NOW, facts)), [""; 0]);
    let output =
        engine.step(NOW, vec![Input::Node(node("m", &[("cpu", 64_000), (GPU, 8)]).into())]);
    assert_eq!(binds(&output), ["g-1 m"], "{}", said(&engine, "g"));
}

/// Victims would free the quota, but the preemptor had no node to go to: a node changes that.
#[test]
fn room_wakes_who_would_have_preempted_for_quota() {
    let mut preempting = queue(4);
    preempting.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let low = pod("low", &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut wants = shape(&[(GPU, 4)]);
    Arc::make_mut(&mut wants).node_selector = labels(&[("pool", "new")]);
    let mut high = pod("high", &wants, &in_queue(Some("main")));
    high.priority = 100;
    let mut facts = ground(preempting);
    facts.push(bound(&low, "n", &[(GPU, DEFAULT)]));
    facts.push(Input::Pod(high));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let Some(Reason::Flavors { tried, .. }) = reason(&engine, "high") else {
        panic!("{}", said(&engine, "high"));
    };
    assert!(matches!(tried[0].why, FlavorProblem::Nodes(_)));
    let mut new = node("m", &[("cpu", 64_000), (GPU, 8)]);
    new.labels.extend(labels(&[("pool", "new")]));
    let output = engine.step(NOW, vec![Input::Node(new.into())]);
    let evicted = output.effects.iter().any(|e| matches!(e.action, Action::Evict { .. }));
    assert!(evicted, "{}", said(&engine, "high"));
}

#[test]
fn a_step_that_was_cut_short_goes_on_at_once() {
    let mut engine = Engine::new();
    let pods: Vec<PodFacts> =
        (0..5).map(|at| pod(&format!("p{at}"), &shape(&[(GPU, 1)]), &in_queue(None))).collect();
    let mut facts = vec![Input::Policy(Arc::new(Policy { rounds_max: 3, ..Policy::default() }))];
    facts.push(Input::Node(node("n", &[("cpu", 64_000), (GPU, 8)]).into()));
    facts.extend(pods.iter().cloned().map(Input::Pod));
    let first = engine.step(NOW, facts);
    assert_eq!((binds(&first).len(), first.report.quiet), (3, false));
    assert_eq!(first.next_wake, Some(NOW), "two wait for nothing but the next step");
    let second = engine.step(NOW, Vec::new());
    assert_eq!((binds(&second).len(), second.report.quiet), (2, true));
    assert_eq!(second.next_wake, None);
}

/// Two queues of a cohort on node `a`: `main` owns so many GPUs, `owner` 4 and takes back what is
/// lent.
fn lender_and(main: i64) -> Vec<Input> {
    let queue = |name: &str, gpus: i64| {
        cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, nominal(gpus))])]))
    };
    let mut owner = queue("owner", 4);
    owner.preemption.reclaim = PreemptReclaim::Any;
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    for queue in [queue("main", main), owner] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    facts.push(Input::Node(node("a", &[("cpu", 64_000), (GPU, 2)]).into()));
    facts
}

/// Work that starts takes its queue over its own quota: from then on what has less priority there
/// may be reclaimed, and who waited for that is looked at again.
#[test]
fn who_begins_to_borrow_wakes_those_who_may_reclaim() {
    let mut facts = lender_and(1);
    facts.push(bound(
        &pod("small", &shape(&[(GPU, 1)]), &in_queue(Some("main"))),
        "a",
        &[(GPU, DEFAULT)],
    ));
    let mut large = pod("large", &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    large.priority = 1;
    facts.push(Input::Pod(large));
    let waits = gang("waits", 4, None, &shape(&[(GPU, 1)]), &in_queue(Some("owner")));
    facts.extend(waits.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output), [""; 0]);
    let output =
        engine.step(NOW, vec![Input::Node(node("b", &[("cpu", 64_000), (GPU, 2)]).into())]);
    let evicts = |effect: &&Effect| matches!(effect.action, Action::Evict { .. });
    assert_eq!(binds(&output), ["large b"]);
    assert_eq!(output.effects.iter().filter(evicts).count(), 2, "both make room");
    let said = said(&engine, "waits");
    assert!(said.starts_with("waits for 2 preempted workloads to leave"), "{said}");
    engine.recount();
}

/// Extra members take no queue over its own quota while a head waits that could then stop all of
/// their gang; when it waits no more, they join.
#[test]
fn extra_members_put_no_gang_within_reach_of_a_head_that_waits() {
    let mut facts = lender_and(3);
    let grows = gang("grows", 5, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    facts.push(bound(&grows[0], "a", &[(GPU, DEFAULT)]));
    facts.extend(grows[1..].iter().cloned().map(Input::Pod));
    let waits = gang("waits", 4, None, &shape(&[(GPU, 1)]), &in_queue(Some("owner")));
    facts.extend(waits.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output), ["grows-1 a"], "within its quota");
    let room = Input::Node(node("b", &[("cpu", 64_000), (GPU, 3)]).into());
    let output = engine.step(NOW, vec![bound(&grows[1], "a", &[(GPU, DEFAULT)]), room]);
    assert_eq!(binds(&output), ["grows-2 b"], "the last within its quota");
    engine.step(NOW, vec![bound(&grows[2], "b", &[(GPU, DEFAULT)])]);
    let waiting = "2 extra members wait: with one more, main would borrow 1 GPU (flavor default), \
                   and team/waits, which waits in owner, could reclaim it and the gang with it";
    assert_eq!(said(&engine, "grows"), waiting);
    engine.renew_reasons();
    assert_eq!(said(&engine, "grows"), waiting, "with the numbers of now, too");
    let gone = waits.iter().map(|pod| Input::PodGone(pod.uid.clone())).collect();
    let output = engine.step(NOW, gone);
    assert_eq!(binds(&output), ["grows-3 b", "grows-4 b"]);
    engine.recount();
}

/// The same of members that a gang lacks that runs: only where they would stop the other gang.
#[test]
fn extra_members_put_no_gang_within_reach_of_what_another_one_lacks() {
    let with_port = |gpus| {
        let mut asks = shape(&[(GPU, gpus)]);
        let (protocol, ip) = (text("TCP"), text("0.0.0.0"));
        Arc::make_mut(&mut asks).ports = vec![HostPort { port: 80, protocol, ip }];
        asks
    };
    for (port, joins) in [(true, false), (false, true)] {
        let of = |gpus| if port { with_port(gpus) } else { shape(&[(GPU, gpus)]) };
        let mut facts = lender_and(1);
        facts.push(Input::Node(node("b", &[("cpu", 64_000), (GPU, 4)]).into()));
        let mut grows = gang("grows", 2, Some(1), &of(1), &in_queue(Some("main")));
        grows[1].shape = shape(&[(GPU, 1)]);
        let lacks = gang("lacks", 2, Some(2), &of(1), &in_queue(Some("owner")));
        facts.push(bound(&grows[0], "a", &[(GPU, DEFAULT)]));
        facts.push(bound(&lacks[0], "b", &[(GPU, DEFAULT)]));
        facts.extend([&grows[1], &lacks[1]].map(|pod| Input::Pod(pod.clone())));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert!(!output.effects.iter().any(|it| matches!(it.action, Action::Evict { .. })));
        let bound: &[&str] = if joins { &["grows-1 a", "lacks-1 b"] } else { &[] };
        assert_eq!(binds(&output), bound, "{}", said(&engine, "grows"));
        if !joins {
            let waiting = "1 extra member waits: with one more, main would borrow 1 GPU (flavor \
                           default), and team/lacks, members of which wait in owner, could \
                           reclaim it and the gang with it";
            assert_eq!(said(&engine, "grows"), waiting);
            let output = engine.step(NOW, vec![Input::PodGone(lacks[1].uid.clone())]);
            assert_eq!(binds(&output), ["grows-1 a"], "{}", said(&engine, "grows"));
        }
        engine.recount();
    }
}

/// Extra members take nothing that a head keeps back, and join when it waits no more.
#[test]
fn extra_members_wait_for_what_a_head_keeps_back() {
    let mut facts = lender_and(0);
    let mut strict = cluster_queue("owner", Some("all"), group(&[(DEFAULT, &[(GPU, nominal(4))])]));
    strict.strategy = QueueingStrategy::StrictFifo;
    strict.preemption.reclaim = PreemptReclaim::LowerPriority;
    let runs = cluster_queue("runs", Some("all"), group(&[(DEFAULT, &[(GPU, nominal(4))])]));
    facts.extend([strict, runs].map(Input::ClusterQueue));
    facts.push(Input::LocalQueue(local_queue("runs")));
    facts.push(Input::Node(node("b", &[("cpu", 64_000), (GPU, 8)]).into()));
    let mut running = pod("running", &shape(&[(GPU, 5)]), &in_queue(Some("runs")));
    running.priority = 10;
    facts.push(bound(&running, "b", &[(GPU, DEFAULT)]));
    let grows = gang("grows", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    facts.push(bound(&grows[0], "a", &[(GPU, DEFAULT)]));
    facts.push(Input::Pod(grows[1].clone()));
    let holder = pod("holder", &shape(&[(GPU, 4)]), &in_queue(Some("owner")));
    facts.push(Input::Pod(holder.clone()));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output), [""; 0]);
    let waiting = "1 extra member waits: team/holder, first in owner, keeps 4 GPUs back until it \
                   starts; 0 left beside that, 1 asked (flavor default)";
    assert_eq!(said(&engine, "grows"), waiting);
    engine.renew_reasons();
    assert_eq!(said(&engine, "grows"), waiting, "with the numbers of now, too");
    let output = engine.step(NOW, vec![Input::PodGone(holder.uid)]);
    assert_eq!(binds(&output), ["grows-1 a"]);
    engine.recount();
}

/// What a claim kept for a member that is gone is for extras, too.
#[test]
fn a_claim_that_is_given_up_wakes_extras() {
    let unqueued = in_queue(None);
    let mut victim = pod("victim", &shape(&[(GPU, 4)]), &unqueued);
    victim.priority = 0;
    let mut urgent = gang("urgent", 2, Some(1), &shape(&[(GPU, 4)]), &unqueued);
    urgent.iter_mut().for_each(|pod| pod.priority = 100);
    urgent[1].shape = shape(&[(GPU, 2)]);
    urgent.iter_mut().for_each(|pod| pod.gang.min_member = Some(2));
    let grows = gang("grows", 2, Some(1), &shape(&[(GPU, 2)]), &unqueued);
    let mut facts = vec![namespace()];
    for (name, gpus) in [("a", 4), ("b", 2), ("c", 2)] {
        facts.push(Input::Node(node(name, &[("cpu", 64_000), (GPU, gpus)]).into()));
    }
    facts.extend([bound(&victim, "a", &[]), bound(&grows[0], "c", &[])]);
    facts.extend(urgent.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let output = engine.step(NOW, vec![Input::Pod(grows[1].clone())]);
    assert_eq!(binds(&output), [""; 0], "b is promised");
    let output = engine.step(NOW, vec![Input::PodGone(urgent[1].uid.clone())]);
    assert_eq!(binds(&output), ["grows-1 b"]);
    engine.recount();
}

/// A member with a place that is being deleted.
fn leaves(pod: &PodFacts) -> Input {
    let Input::Pod(pod) = bound(pod, "n", &[(GPU, DEFAULT)]) else { unreachable!("it is a pod") };
    Input::Pod(PodFacts { terminating: true, ..pod })
}

#[test]
fn who_replaces_members_that_leave_joins_with_enough_others_or_waits() {
    let members = gang("g", 6, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    for (leaving, came) in [(3, 1), (3, 2), (1, 2)] {
        let mut engine = Engine::new();
        let old = &members[..leaving];
        let new = &members[leaving..leaving + came];
        let facts = ground(queue(8)).into_iter().chain(old.iter().map(leaves));
        let output = engine.step(NOW, facts.chain(new.iter().cloned().map(Input::Pod)).collect());
        assert_eq!(binds(&output), [""; 0], "{leaving} leave, {came} came");
        let want = format!("0 of 3 members run; {came} of 3 exist");
        assert_eq!(said(&engine, "g"), want, "{leaving} leave");
        engine.recount();
        let gone = old.iter().map(|pod| Input::PodGone(pod.uid.clone()));
        assert_eq!(binds(&engine.step(NOW, gone.collect())), [""; 0]);
        assert_eq!(said(&engine, "g"), format!("{came} of 3 pods exist"));
        engine.recount();
    }
    // All of them are there: they begin beside those that leave.
    let mut engine = Engine::new();
    let facts = ground(queue(8)).into_iter().chain(members[..3].iter().map(leaves));
    let output =
        engine.step(NOW, facts.chain(members[3..].iter().cloned().map(Input::Pod)).collect());
    assert_eq!(binds(&output), ["g-3 n", "g-4 n", "g-5 n"]);
    engine.recount();
}

#[test]
fn a_gang_of_which_enough_stay_goes_on_while_others_leave() {
    let members = gang("g", 5, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    let stays = |pod: &PodFacts| bound(pod, "n", &[(GPU, DEFAULT)]);
    // Three stay of four; two of three, of whom one alone makes three again.
    for stay in [3, 2] {
        let mut engine = Engine::new();
        let mut facts = ground(queue(8));
        facts.extend(members[..stay].iter().map(stays));
        facts.extend([leaves(&members[stay]), Input::Pod(members[4].clone())]);
        assert_eq!(binds(&engine.step(NOW, facts)), ["g-4 n"], "{stay} stay");
        engine.recount();
    }
    // One of three: a second one is of use once the third is there.
    let mut engine = Engine::new();
    let mut facts = ground(queue(8));
    facts.extend([stays(&members[0]), leaves(&members[1]), leaves(&members[2])]);
    facts.push(Input::Pod(members[3].clone()));
    assert_eq!(binds(&engine.step(NOW, facts)), [""; 0]);
    assert_eq!(said(&engine, "g"), "1 of 3 members run; 2 of 3 exist");
    let output = engine.step(NOW, vec![Input::Pod(members[4].clone())]);
    assert_eq!(binds(&output), ["g-3 n", "g-4 n"]);
    engine.recount();
}

#[test]
fn who_replaces_members_that_leave_waits_for_room_for_all() {
    let members = gang("g", 6, Some(3), &shape(&[(GPU, 2)]), &in_queue(Some("main")));
    let mut engine = Engine::new();
    let facts = ground(queue(16)).into_iter().chain(members[..3].iter().map(leaves));
    let output =
        engine.step(NOW, facts.chain(members[3..].iter().cloned().map(Input::Pod)).collect());
    assert_eq!(binds(&output), [""; 0], "there is room for one");
    let told = said(&engine, "g");
    assert!(told.starts_with("0 of 3 members run; for the others "), "{told}");
    let gone = |pod: &PodFacts| Input::PodGone(pod.uid.clone());
    let output = engine.step(NOW, members[..2].iter().map(gone).collect());
    assert_eq!(binds(&output), ["g-3 n", "g-4 n", "g-5 n"], "though one has still to leave");
    engine.recount();
}
