//! Claims: what is promised to a preemptor between its decision and the end of its victims. Each
//! test feeds facts and outcomes by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::{NodeRefusal, Reason};
use capstan_core::model::input::{
    HostPort, Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts, PodShape,
    PreemptReclaim, PreemptWithin, PreemptionPolicy, QueueingStrategy, Quota, Requirement,
};
use capstan_core::plan::{Action, Effect, EffectResult, State};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, gang, group, in_queue, labels, local_queue,
    namespace, node, nominal, pod, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

/// The only node and all quota are taken by `low`, which may be preempted.
fn taken() -> Engine {
    let mut engine = Engine::new();
    let low = pod("low", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), bound(&low, "n")]);
    engine.step(NOW, facts);
    engine
}

#[test]
fn freed_room_is_held_for_the_preemptor() {
    let mut engine = Engine::new();
    let (small, whole) = (shape(&[(GPU, 4)]), shape(&[(GPU, 8)]));
    let queue = in_queue(Some("main"));
    let low = [pod("low-a", &small, &queue), pod("low-b", &small, &queue)];
    let mut facts = one_queue(8);
    facts.push(gpu_node("n", 8));
    facts.extend(low.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    let mut high = pod("high", &whole, &queue);
    high.priority = 100;
    let asked = engine.step(NOW, vec![Input::Pod(high)]);
    let evicted = asked.effects.iter().filter(|e| matches!(e.action, Action::Evict { .. }));
    assert_eq!(evicted.count(), 2);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    // One victim left; a newcomer of equal priority may not take its place.
    let mut thief = pod("thief", &small, &queue);
    thief.priority = 100;
    let between = engine.step(NOW, vec![Input::PodGone(text("low-a")), Input::Pod(thief)]);
    assert!(binds(&between).is_empty(), "{:?}", binds(&between));
    let quota = &engine.queues()[0].quotas[0];
    assert_eq!((quota.used, quota.available), (4, 0), "the claim counts, and is no usage");
    let last = engine.step(NOW, vec![Input::PodGone(text("low-b"))]);
    assert_eq!(binds(&last), [("high".to_owned(), "n".to_owned())]);
    engine.recount();
}

#[test]
fn a_host_port_is_held_for_the_preemptor_too() {
    let queue = in_queue(Some("main"));
    let mut engine = taken();
    let port = HostPort { port: 80, protocol: text("TCP"), ip: text("0.0.0.0") };
    let with_port = |gpus| {
        let mut shape = shape(&[(GPU, gpus)]);
        Arc::make_mut(&mut shape).ports.push(port.clone());
        shape
    };
    let mut high = pod("high", &with_port(8), &queue);
    high.priority = 100;
    engine.step(NOW, vec![Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    // Room for it there is, and quota it needs none.
    let thief = pod("thief", &with_port(0), &in_queue(None));
    let between = engine.step(NOW, vec![Input::Pod(thief)]);
    assert!(binds(&between).is_empty(), "{:?}", binds(&between));
    let Some(Reason::Nodes(short)) = view(&engine, "thief").reason else {
        panic!("it waits for the port, not for {:?}", view(&engine, "thief").reason);
    };
    assert!(matches!(short.refusals[..], [(NodeRefusal::Port { port: 80, .. }, 1)]));
    engine.recount();
    let freed = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&freed), [("high".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// What pods of an app are that may mind those of another one on their node.
fn of_app(gpus: i64, app: &str, minds: Option<&str>) -> Arc<PodShape> {
    let mut shape = shape(&[(GPU, gpus)]);
    let facts = Arc::make_mut(&mut shape);
    facts.kin = Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("app", app)]) }));
    facts.neighbours = minds.map(|other| {
        let (key, operator, values) = (text("app"), Operator::In, vec![text(other)]);
        let labels = Some(vec![Requirement { key, operator, values }]);
        let peers = PeerSelector { namespaces: vec![text(TEAM)], namespace_selector: None, labels };
        let anti_affinity = vec![PeerTerm { key: text("kubernetes.io/hostname"), peers }];
        Arc::new(Neighbours { anti_affinity, ..Neighbours::default() })
    });
    shape
}

/// There is room for one more beside what is promised: it would be in the preemptor's way once the
/// victim has left.
#[test]
fn whom_a_preemptor_minds_stays_away_unless_it_goes_before_it() {
    let queue = in_queue(None);
    for (priority, comes) in [(100, false), (101, true)] {
        let mut engine = Engine::new();
        let low = pod("low", &shape(&[(GPU, 6)]), &queue);
        engine.step(NOW, vec![gpu_node("n", 8), bound(&low, "n")]);
        let mut hermit = pod("hermit", &of_app(4, "calm", Some("noisy")), &queue);
        hermit.priority = 100;
        engine.step(NOW, vec![Input::Pod(hermit)]);
        assert_eq!(view(&engine, "hermit").state, State::Reserved);
        let mut noisy = pod("noisy", &of_app(2, "noisy", None), &queue);
        noisy.priority = priority;
        let between = engine.step(NOW, vec![Input::Pod(noisy)]);
        assert_eq!(!binds(&between).is_empty(), comes, "noisy comes at priority {priority}");
        engine.recount();
        let freed = engine.step(NOW, vec![Input::PodGone(text("low"))]);
        assert_eq!(binds(&freed).is_empty(), comes, "hermit waits beside priority {priority}");
        engine.recount();
    }
}

#[test]
fn a_preemptor_that_goes_away_gives_its_claim_up() {
    let mut engine = Engine::new();
    let whole = shape(&[(GPU, 8)]);
    let queue = in_queue(Some("main"));
    let low = pod("low", &whole, &queue);
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), bound(&low, "n")]);
    engine.step(NOW, facts);
    let mut high = pod("high", &whole, &queue);
    high.priority = 100;
    let next = pod("next", &whole, &queue);
    engine.step(NOW, vec![Input::Pod(high), Input::Pod(next)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    let gone = vec![Input::PodGone(text("high")), Input::PodGone(text("low"))];
    let freed = engine.step(NOW, gone);
    assert_eq!(binds(&freed), [("next".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// A gang is promised what its victim leaves. One of its members goes, is being deleted, or more
/// have to run together than there are: it does not begin without the others.
#[test]
fn a_promise_is_for_no_fewer_than_must_run_together() {
    let gone = |pods: &[PodFacts]| vec![Input::PodGone(pods[1].uid.clone())];
    let leaves = |pods: &[PodFacts]| {
        let leaving = PodFacts { terminating: true, ..pods[1].clone() };
        vec![Input::Pod(leaving)]
    };
    let raised = |pods: &[PodFacts]| -> Vec<Input> {
        let mut pods = pods.to_vec();
        pods.iter_mut().for_each(|pod| pod.gang.min_member = Some(3));
        pods.into_iter().map(Input::Pod).collect()
    };
    type Change = fn(&[PodFacts]) -> Vec<Input>;
    for change in [gone as Change, leaves, raised] {
        let mut engine = taken();
        let mut pods = gang("g", 2, Some(2), &shape(&[(GPU, 4)]), &in_queue(Some("main")));
        pods.iter_mut().for_each(|pod| pod.priority = 100);
        engine.step(NOW, pods.iter().cloned().map(Input::Pod).collect());
        assert_eq!(view(&engine, "g").state, State::Reserved);
        let mut facts = change(&pods);
        facts.push(Input::PodGone(text("low")));
        let freed = engine.step(NOW, facts);
        assert_eq!((binds(&freed), view(&engine, "g").state), (vec![], State::Gathering));
        engine.recount();
    }
}

#[test]
fn a_queue_that_shrank_admits_no_preemptor_it_promised() {
    let queue = in_queue(Some("main"));
    let mut engine = taken();
    let mut high = pod("high", &shape(&[(GPU, 8)]), &queue);
    high.priority = 100;
    engine.step(NOW, vec![Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    // The quota goes while the victim does: there is room on the node, and no leave to use it.
    let mut facts = one_queue(4);
    facts.push(Input::PodGone(text("low")));
    let shrunk = engine.step(NOW, facts);
    assert!(binds(&shrunk).is_empty());
    assert_eq!(view(&engine, "high").state, State::Queued);
    assert_eq!(engine.queues()[0].quotas[0].used, 0);
    engine.recount();
    let grown = engine.step(NOW, one_queue(8));
    assert_eq!(binds(&grown), [("high".to_owned(), "n".to_owned())]);
}

/// That its cohort could lend the flavor makes no difference.
#[test]
fn a_flavor_that_its_queue_lists_no_more_is_not_taken_as_promised() {
    let queue = |name: &str, of: &str| {
        let mut queue = cluster_queue(name, Some("all"), group(&[(of, &[(GPU, nominal(8))])]));
        let within_cluster_queue = PreemptWithin::LowerPriority;
        queue.preemption = PreemptionPolicy { within_cluster_queue, ..queue.preemption };
        Input::ClusterQueue(queue)
    };
    let (whole, wishes) = (shape(&[(GPU, 8)]), in_queue(Some("main")));
    let mut engine = Engine::new();
    let facts = vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::Flavor(flavor("other", &[("kind", "other")])),
        queue("main", DEFAULT),
        Input::LocalQueue(local_queue("main")),
        gpu_node("n", 8),
        bound(&pod("low", &whole, &wishes), "n"),
    ];
    engine.step(NOW, facts);
    let mut high = pod("high", &whole, &wishes);
    high.priority = 100;
    engine.step(NOW, vec![Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    let edited = vec![queue("main", "other"), queue("guest", DEFAULT), Input::PodGone(text("low"))];
    let without = engine.step(NOW, edited);
    assert!(binds(&without).is_empty(), "{:?}", binds(&without));
    assert_eq!(view(&engine, "high").state, State::Queued);
    engine.recount();
    let mut listed = node("m", &[("cpu", 64_000), (GPU, 8)]);
    listed.labels.insert(text("kind"), text("other"));
    let anew = engine.step(NOW, vec![Input::Node(listed.into())]);
    assert_eq!(binds(&anew), [("high".to_owned(), "m".to_owned())]);
    engine.recount();
}

/// Quota was promised in the queue that it was in. In another one it has none, and takes nothing.
#[test]
fn who_goes_to_another_queue_takes_no_promise_along() {
    let mut engine = taken();
    let none = cluster_queue("none", None, group(&[(DEFAULT, &[(GPU, nominal(0))])]));
    let mut high = pod("high", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    high.priority = 100;
    let queues = vec![Input::ClusterQueue(none), Input::LocalQueue(local_queue("none"))];
    engine.step(NOW, queues);
    engine.step(NOW, vec![Input::Pod(high.clone())]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    high.wishes = in_queue(Some("none"));
    engine.step(NOW, vec![Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Queued);
    let freed = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert!(binds(&freed).is_empty(), "{:?}", binds(&freed));
    engine.recount();
}

/// What a queue claims elsewhere counts against its own limits while the victim leaves.
#[test]
fn a_claim_counts_in_the_queue_that_will_use_it() {
    let mut engine = Engine::new();
    let limited = Quota { nominal: 4, borrowing: Some(0), lending: None };
    let mut own = cluster_queue("own", Some("all"), group(&[(DEFAULT, &[(GPU, limited)])]));
    own.preemption = PreemptionPolicy { reclaim: PreemptReclaim::Any, ..own.preemption };
    let idle = cluster_queue("idle", Some("all"), group(&[(DEFAULT, &[(GPU, nominal(4))])]));
    let guest = cluster_queue("guest", Some("all"), group(&[(DEFAULT, &[(GPU, nominal(0))])]));
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[])), gpu_node("n", 64)];
    for queue in [own, idle, guest] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    let mut other = pod("other", &shape(&[(GPU, 2)]), &in_queue(Some("guest")));
    other.priority = 5;
    let borrower = pod("borrower", &shape(&[(GPU, 4)]), &in_queue(Some("guest")));
    facts.extend([bound(&borrower, "n"), bound(&other, "n")]);
    engine.step(NOW, facts);
    engine.step(NOW, vec![Input::Pod(pod("owner", &shape(&[(GPU, 4)]), &in_queue(Some("own"))))]);
    assert_eq!(view(&engine, "owner").state, State::Reserved);
    let late = pod("zlate", &shape(&[(GPU, 2)]), &in_queue(Some("own")));
    let between = engine.step(NOW, vec![Input::Pod(late)]);
    assert_eq!(binds(&between), [], "own has 4, all of them claimed");
    let used = |name: &str| {
        let queues = engine.queues();
        queues.iter().find(|queue| &*queue.name == name).expect("a queue").quotas[0].used
    };
    assert_eq!((used("own"), used("guest")), (0, 6), "a claim is no usage");
    engine.recount();
    let last = engine.step(NOW, vec![Input::PodGone(text("borrower"))]);
    assert_eq!(binds(&last), [("owner".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// An engine with one queue, a node of some GPUs and pods that run on it.
fn running(gpus: i64, pods: &[(&str, i64)]) -> Engine {
    let mut engine = Engine::new();
    let mut facts = one_queue(100);
    facts.push(gpu_node("n", gpus));
    let run = |(name, gpus): &(&str, i64)| {
        bound(&pod(name, &shape(&[(GPU, *gpus)]), &in_queue(Some("main"))), "n")
    };
    facts.extend(pods.iter().map(run));
    engine.step(NOW, facts);
    engine
}

/// Lone pods that wait: name, GPUs, priority.
fn arrive(engine: &mut Engine, pods: &[(&str, i64, i32)]) -> Vec<(String, String)> {
    let mut bound = Vec::new();
    for (name, gpus, priority) in pods {
        let mut pod = pod(name, &shape(&[(GPU, *gpus)]), &in_queue(Some("main")));
        pod.priority = *priority;
        bound.extend(binds(&engine.step(NOW, vec![Input::Pod(pod)])));
        engine.recount();
    }
    bound
}

fn leave(engine: &mut Engine, pod: &str) -> Vec<(String, String)> {
    let output = engine.step(NOW, vec![Input::PodGone(text(pod))]);
    engine.recount();
    binds(&output)
}

fn on_n(pods: &[&str]) -> Vec<(String, String)> {
    pods.iter().map(|pod| ((*pod).to_owned(), "n".to_owned())).collect()
}

#[test]
fn one_victim_of_two_claims_is_given_once() {
    let mut engine = running(10, &[("victim", 8)]);
    arrive(&mut engine, &[("first", 5, 3), ("second", 5, 2)]);
    for name in ["first", "second"] {
        assert_eq!(view(&engine, name).state, State::Reserved);
    }
    let slipped_in = arrive(&mut engine, &[("small", 1, 1)]);
    assert_eq!(slipped_in, [], "8 that leave and 2 that are free are promised");
    assert_eq!(leave(&mut engine, "victim"), on_n(&["first", "second"]));
}

#[test]
fn what_a_claim_gives_up_is_for_the_other_that_names_the_victim() {
    let mut engine = running(10, &[("victim", 8)]);
    arrive(&mut engine, &[("first", 5, 3), ("second", 5, 2), ("small", 2, 1)]);
    assert_eq!(view(&engine, "small").state, State::Queued);
    // Without the first, all of the second comes from the victim: what is free is free.
    assert_eq!(leave(&mut engine, "first"), on_n(&["small"]));
    assert_eq!(leave(&mut engine, "victim"), on_n(&["second"]));
}

/// Whoever has a victim of its own draws on that one first.
#[test]
fn a_shared_victim_is_kept_for_those_that_have_no_other() {
    let mut engine = running(12, &[("victim", 5), ("own", 5)]);
    // `wide` needs both victims, and leaves 2 of one to `late`, which takes one more that is free.
    arrive(&mut engine, &[("wide", 8, 3), ("late", 3, 2)]);
    assert_eq!(view(&engine, "late").state, State::Reserved);
    assert_eq!(arrive(&mut engine, &[("small", 1, 1)]), on_n(&["small"]), "12 - 8 - 3 is free");
    assert_eq!(leave(&mut engine, "victim"), on_n(&["late"]));
    assert_eq!(leave(&mut engine, "own"), on_n(&["wide"]));
}

/// Who is leaving for others that were promised all of it has nothing to give.
#[test]
fn a_victim_that_is_spent_is_nobodys_any_more() {
    let mut engine = running(10, &[("first", 5), ("second", 5)]);
    arrive(&mut engine, &[("high", 5, 9), ("next", 5, 8)]);
    assert_eq!(leave(&mut engine, "second"), on_n(&["next"]));
    assert_eq!(leave(&mut engine, "first"), on_n(&["high"]));
}

/// A gang whose pods are made again before the last old one left (a ReplicaSet's) is a workload
/// all the time; what its old pods held is free nevertheless.
#[test]
fn a_victim_has_left_when_nothing_of_it_is_placed() {
    let mut engine = Engine::new();
    let members = gang("low", 2, None, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let mut facts = one_queue(8);
    facts.push(gpu_node("n", 8));
    facts.extend(members.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    arrive(&mut engine, &[("high", 8, 9)]);
    for (at, old) in members.iter().enumerate() {
        let mut new = old.clone();
        (new.uid, new.name) = (text(format!("new-{at}")), text(format!("new-{at}")));
        engine.step(NOW, vec![Input::Pod(new)]);
        assert_eq!(view(&engine, "high").state, State::Reserved);
        let bound = leave(&mut engine, &old.uid);
        assert_eq!(bound.is_empty(), at == 0, "{bound:?}");
    }
    assert_eq!(view(&engine, "low").state, State::Queued);
}

/// A victim that starts again elsewhere has left: nobody waits for it a second time.
#[test]
fn a_victim_that_starts_again_elsewhere_has_left() {
    let mut engine = Engine::new();
    let mut facts = one_queue(100);
    facts.push(gpu_node("n", 8));
    let one = gang("one", 1, None, &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    let two = pod("two", &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    facts.extend([bound(&one[0], "n"), bound(&two, "n")]);
    engine.step(NOW, facts);
    arrive(&mut engine, &[("high", 8, 9)]);
    let mut again = one[0].clone();
    (again.uid, again.name) = (text("again"), text("again"));
    engine.step(NOW, vec![Input::Pod(again)]);
    assert_eq!(leave(&mut engine, &one[0].uid), []);
    let elsewhere = engine.step(NOW, vec![gpu_node("other", 4)]);
    assert_eq!(binds(&elsewhere), [("again".to_owned(), "other".to_owned())]);
    assert_eq!(leave(&mut engine, "two"), on_n(&["high"]));
}

/// What victims give back counts for their preemptor at once, and for others of their queue only
/// when they have left: a queue never uses more than its limits, not even meanwhile.
#[test]
fn quota_that_victims_still_hold_is_nobodys() {
    let mut engine = Engine::new();
    let limited = Quota { nominal: 2, borrowing: Some(2), lending: None };
    let guest = cluster_queue("guest", Some("all"), group(&[(DEFAULT, &[(GPU, limited)])]));
    let mut own = cluster_queue("own", Some("all"), group(&[(DEFAULT, &[(GPU, nominal(4))])]));
    own.preemption = PreemptionPolicy { reclaim: PreemptReclaim::Any, ..own.preemption };
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    facts.extend([gpu_node("n", 4), gpu_node("other", 2)]);
    for queue in [own, guest] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    let low = gang("low", 4, None, &shape(&[(GPU, 1)]), &in_queue(Some("guest")));
    facts.extend(low.iter().map(|pod| bound(pod, "n")));
    engine.step(NOW, facts);
    let owner = pod("owner", &shape(&[(GPU, 4)]), &in_queue(Some("own")));
    engine.step(NOW, vec![Input::Pod(owner)]);
    assert_eq!(view(&engine, "owner").state, State::Reserved);
    let next = pod("next", &shape(&[(GPU, 2)]), &in_queue(Some("guest")));
    let early = engine.step(NOW, vec![Input::Pod(next)]);
    assert_eq!(binds(&early), [], "guest holds 4 of at most 4");
    let still_held = |engine: &Engine| match view(engine, "next").reason {
        Some(Reason::StillHeld { asked, left, .. }) => (asked, left),
        other => panic!("waits for another reason: {other:?}"),
    };
    assert_eq!(still_held(&engine), (2, 0));
    assert_eq!(leave(&mut engine, &low[0].uid), []);
    assert_eq!(still_held(&engine), (2, 1));
    let there = [("next".to_owned(), "other".to_owned())];
    assert_eq!(leave(&mut engine, &low[1].uid), there, "before the last victim left");
    assert_eq!(leave(&mut engine, &low[2].uid), []);
    assert_eq!(leave(&mut engine, &low[3].uid), on_n(&["owner"]));
}

/// A gang that is being stopped takes no further members, even where there is room for them.
#[test]
fn a_victim_does_not_grow() {
    let mut engine = Engine::new();
    let mut facts = one_queue(100);
    facts.extend([gpu_node("n", 8), gpu_node("other", 4)]);
    let low = gang("low", 2, Some(1), &shape(&[(GPU, 4)]), &in_queue(Some("main")));
    facts.push(bound(&low[0], "n"));
    engine.step(NOW, facts);
    let mut high = pod("high", &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    high.priority = 9;
    let output = engine.step(NOW, vec![Input::Pod(high), Input::Pod(low[1].clone())]);
    engine.recount();
    assert_eq!(view(&engine, "high").state, State::Reserved);
    assert_eq!(binds(&output), [], "low is being stopped");
    assert!(leave(&mut engine, &low[0].uid).contains(&on_n(&["high"])[0]));
}

/// Two nodes that are full, one with work that `high` stops and that does not go.
fn stops_what_hangs(high: &PodFacts) -> Engine {
    let (whole, queue) = (shape(&[(GPU, 8)]), in_queue(Some("main")));
    let mut engine = Engine::new();
    let mut other = pod("other", &whole, &queue);
    other.priority = 300;
    let mut facts = one_queue(16);
    facts.extend([gpu_node("n", 8), gpu_node("m", 8)]);
    facts.extend([bound(&pod("hangs", &whole, &queue), "n"), bound(&other, "m")]);
    engine.step(NOW, facts);
    let asked = engine.step(NOW, vec![Input::Pod(high.clone())]);
    let evicts = |effect: &&Effect| matches!(effect.action, Action::Evict { .. });
    for effect in asked.effects.iter().filter(evicts) {
        engine.step(NOW, vec![answer(effect, EffectResult::Done)]);
    }
    assert_eq!(view(&engine, &high.name).state, State::Reserved);
    engine
}

fn whole(name: &str, priority: i32) -> PodFacts {
    let mut pod = pod(name, &shape(&[(GPU, 8)]), &in_queue(Some("main")));
    pod.priority = priority;
    pod
}

fn on(pod: &str, node: &str) -> [(String, String); 1] {
    [(pod.to_owned(), node.to_owned())]
}

#[test]
fn who_waits_for_a_victim_that_hangs_starts_where_room_comes_free() {
    let mut engine = stops_what_hangs(&whole("high", 100));
    let thief = whole("thief", 50);
    let freed = engine.step(NOW, vec![Input::PodGone(text("other")), Input::Pod(thief)]);
    assert_eq!(binds(&freed), on("high", "m"));
    engine.recount();
    assert_eq!(view(&engine, "hangs").state, State::Evicting, "a stop is not taken back");
    let left = engine.step(NOW, vec![Input::PodGone(text("hangs"))]);
    assert_eq!(binds(&left), on("thief", "n"), "what it leaves is for the next");
    engine.recount();
}

#[test]
fn who_goes_before_a_preemptor_chooses_first() {
    let mut engine = stops_what_hangs(&whole("high", 100));
    let (urgent, gone) = (whole("urgent", 200), Input::PodGone(text("other")));
    let freed = engine.step(NOW, vec![gone, Input::Pod(urgent)]);
    assert_eq!(binds(&freed), on("urgent", "m"));
    assert_eq!(view(&engine, "high").state, State::Reserved);
    engine.recount();
    let left = engine.step(NOW, vec![Input::PodGone(text("hangs"))]);
    assert_eq!(binds(&left), on("high", "n"));
    engine.recount();
}

/// Without a queue it is the same, behind those in queues.
#[test]
fn who_preempts_without_a_queue_starts_where_room_comes_free() {
    let lone = |name: &str, priority| {
        let mut pod = pod(name, &shape(&[(GPU, 8)]), &in_queue(None));
        pod.priority = priority;
        pod
    };
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), gpu_node("m", 8)]);
    facts.extend([bound(&lone("hangs", 0), "n"), bound(&lone("other", 300), "m")]);
    engine.step(NOW, facts);
    engine.step(NOW, vec![Input::Pod(lone("high", 100))]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    let freed = vec![Input::PodGone(text("other")), Input::Pod(lone("thief", 50))];
    let freed = engine.step(NOW, freed);
    assert_eq!(binds(&freed), on("high", "m"));
    engine.recount();
}

/// Its victim leaves for the least that it can run with.
#[test]
fn an_elastic_preemptor_starts_with_all_members_that_fit() {
    let (small, queue) = (shape(&[(GPU, 4)]), in_queue(Some("main")));
    let mut engine = Engine::new();
    let mut high = gang("high", 4, Some(1), &small, &queue);
    high.iter_mut().for_each(|pod| pod.priority = 100);
    let mut facts = one_queue(16);
    facts.extend([gpu_node("n", 8), gpu_node("m", 8)]);
    facts.extend([bound(&whole("hangs", 0), "n"), bound(&whole("other", 300), "m")]);
    engine.step(NOW, facts);
    engine.step(NOW, high.into_iter().map(Input::Pod).collect());
    assert_eq!(view(&engine, "high").state, State::Reserved);
    let freed = engine.step(NOW, vec![Input::PodGone(text("other"))]);
    let nodes: Vec<String> = binds(&freed).into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes, ["m", "m"]);
    engine.recount();
}

/// One node with room for the head's victim's place, and a little beside.
fn strict() -> Engine {
    let mut engine = Engine::new();
    let mut facts = one_queue(12);
    for fact in &mut facts {
        if let Input::ClusterQueue(queue) = fact {
            queue.strategy = QueueingStrategy::StrictFifo;
        }
    }
    facts.extend([gpu_node("n", 12), bound(&whole("low", 0), "n")]);
    engine.step(NOW, facts);
    engine.step(NOW, vec![Input::Pod(whole("head", 100))]);
    assert_eq!(view(&engine, "head").state, State::Reserved);
    engine
}

#[test]
fn nobody_passes_the_head_of_a_strict_queue_that_waits_for_its_victims() {
    let mut engine = strict();
    let small = |name: &str, priority| {
        let mut pod = pod(name, &shape(&[(GPU, 2)]), &in_queue(Some("main")));
        pod.priority = priority;
        pod
    };
    let passed = engine.step(NOW, vec![Input::Pod(small("next", 50))]);
    assert_eq!(binds(&passed), []);
    let told = view(&engine, "next").reason.expect("it waits").to_string();
    assert_eq!(told, "team/head is before it in StrictFIFO queue main");
    // Who stands before it is not held up.
    let before = engine.step(NOW, vec![Input::Pod(small("before", 200))]);
    assert_eq!(binds(&before), on("before", "n"));
    engine.recount();
    let left = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&left), on_n(&["head", "next"]));
    engine.recount();
}
