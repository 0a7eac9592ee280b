//! Claims on devices step by step: what a gang is given, in which order it is written, and what
//! becomes of it when somebody else was first.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{
    Allocation, Answer, ClaimSpec, DeviceCount, Input, NodeSelector, NodeSelectorTerm, Operator,
    PodClaim, PodFacts, PodPhase, PodShape, PreemptWithin, Price, PriceSource, Reach, Requirement,
    ResourceClaimFacts, SliceFacts,
};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Action, ClaimGrant, Effect, EffectResult, State, StepOutput};
use capstan_core::time::Time;
use capstan_tests::devices::{self, key, slice};
use capstan_tests::facts::{
    self, cluster_queue, flavor, group, in_queue, labels, local_queue, namespace, nominal, shape,
    text,
};
use capstan_tests::hand::{answer, binds, gpu_node, is_bind, view};
use capstan_tests::kinds::ZONE;

fn spec() -> Arc<ClaimSpec> {
    devices::spec(1)
}

fn claim(name: &str, of_one_pod: bool) -> ResourceClaimFacts {
    devices::claim(name, of_one_pod, spec())
}

fn own(name: &str, of: u32) -> PodFacts {
    let needs = PodClaim::Own { name: text("gpu"), spec: spec() };
    devices::member(name, of, needs, &format!("{name}-claim"))
}

/// What each pod's claims are to get, by pod.
fn granted(output: &StepOutput) -> BTreeMap<String, Vec<ClaimGrant>> {
    let of = |effect: &Effect| match &effect.action {
        Action::AllocateClaims { pod, claims, .. } => Some((pod.name.to_string(), claims.clone())),
        _ => None,
    };
    output.effects.iter().filter_map(of).collect()
}

fn device(grant: &ClaimGrant) -> (String, String) {
    let chosen = grant.chosen.as_ref().expect("chosen here");
    let (_, pool, name) = &chosen.devices[0].device.id;
    (pool.to_string(), name.to_string())
}

/// The claim once the API shows what it was given.
fn given(name: &str, of_one_pod: bool, grant: &ClaimGrant) -> Input {
    let chosen = grant.chosen.as_ref().expect("chosen here");
    let devices = chosen.devices.iter().map(|one| one.device.clone()).collect();
    let allocation = Allocation { nodes: chosen.nodes.clone(), devices, ..Allocation::default() };
    let allocation = Some(Arc::new(allocation));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim(name, of_one_pod) })
}

/// Two members with a claim each, on two nodes with a device each.
fn two() -> (Engine, Vec<Input>) {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), gpu_node("b", 0)];
    inputs.extend([slice("a", &["x"]), slice("b", &["x"])]);
    inputs.extend(["p", "q"].map(|pod| Input::ResourceClaim(claim(&format!("{pod}-claim"), true))));
    inputs.extend(["p", "q"].map(|pod| Input::Pod(own(pod, 2))));
    let all = inputs.clone();
    engine.observe(Time(0), inputs);
    (engine, all)
}

fn answers(output: &StepOutput, result: &EffectResult) -> Vec<Input> {
    let owed = |effect: &&Effect| matches!(effect.action, Action::AllocateClaims { .. });
    output.effects.iter().filter(owed).map(|effect| answer(effect, result.clone())).collect()
}

/// Every release that is asked for, carried out.
fn released(output: &StepOutput) -> Vec<Input> {
    let owed = |effect: &&Effect| matches!(effect.action, Action::ReleaseClaims { .. });
    let owed = output.effects.iter().filter(owed);
    owed.map(|effect| answer(effect, EffectResult::Done)).collect()
}

#[test]
fn members_get_different_devices_and_all_of_them_before_any_is_bound() {
    let (mut engine, _) = two();
    let first = engine.step(Time(1), Vec::new());
    let grants = granted(&first);
    let mut devices: Vec<_> = grants.values().map(|claims| device(&claims[0])).collect();
    devices.sort();
    let both = [("a".to_owned(), "x".to_owned()), ("b".to_owned(), "x".to_owned())];
    assert_eq!(devices, both);
    assert_eq!(binds(&first), []);
    let mut done = answers(&first, &EffectResult::Done);
    let last = done.pop().expect("two answers");
    let half = engine.step(Time(2), done);
    assert_eq!(binds(&half), [], "one is not allocated yet");
    // The API shows the claims of the one before the answer for the other.
    let shown = given("p-claim", true, &grants["p"][0]);
    let last = engine.step(Time(3), vec![shown, last]);
    assert_eq!(binds(&last).len(), 2);
    engine.recount();
}

/// A pod of a Job that is deleted stays for a while, since its Job has still to count it.
#[test]
fn a_member_that_is_deleted_before_it_is_bound_takes_its_gang_back() {
    let (mut engine, _) = two();
    let first = engine.step(Time(1), Vec::new());
    let mut facts = vec![Input::Pod(PodFacts { terminating: true, ..own("q", 2) })];
    facts.extend(answers(&first, &EffectResult::Done));
    let second = engine.step(Time(2), facts);
    assert_eq!(binds(&second), [], "it would be one of two");
    assert_eq!(view(&engine, "g").state, State::Gathering);
    engine.recount();
}

#[test]
fn who_was_late_takes_the_whole_gang_back_and_what_was_written_with_it() {
    let (mut engine, _) = two();
    let first = engine.step(Time(1), Vec::new());
    let lost = EffectResult::Conflict("claim p-claim was allocated elsewhere".into());
    let (done, mut failed) = (answers(&first, &EffectResult::Done), answers(&first, &lost));
    let second = engine.step(Time(2), vec![done[0].clone(), failed.pop().expect("two")]);
    assert_eq!(second.effects.iter().filter(is_bind).count(), 0);
    assert!(view(&engine, "g").reason.is_some(), "it says why it waits");
    engine.recount();
    // After its pause it is tried again, with what is free then; but not before both releases are
    // answered: one that is late would take away what the next try writes.
    let later = engine.step(second.next_wake.expect("it is tried again"), Vec::new());
    assert_eq!(granted(&later).len(), 0);
    let mut freed = released(&second);
    assert_eq!(freed.len(), 2);
    let last = freed.pop().expect("two");
    let half = engine.step(Time(3_000), freed);
    assert_eq!(granted(&half).len(), 0);
    let again = engine.step(Time(4_000), vec![last]);
    assert_eq!(granted(&again).len(), 2);
    engine.recount();
}

#[test]
fn an_allocation_that_was_given_up_is_waited_for_before_the_next_try() {
    let (mut engine, _) = two();
    let first = engine.step(Time(1), Vec::new());
    let lost = EffectResult::Conflict("claim q-claim was allocated elsewhere".into());
    let (done, mut failed) = (answers(&first, &EffectResult::Done), answers(&first, &lost));
    let second = engine.step(Time(2), vec![failed.pop().expect("two")]);
    // The other one is still under way when its gang has given up, and all else is answered.
    let wake = second.next_wake.expect("it is tried again");
    let third = engine.step(wake, released(&second));
    assert_eq!(granted(&third).len(), 0);
    let fourth = engine.step(wake, vec![done[0].clone()]);
    assert_eq!(granted(&fourth).len(), 0);
    let late = released(&fourth);
    assert_eq!(late.len(), 1, "what was allocated in vain is given back");
    let fifth = engine.step(wake, late);
    assert_eq!(granted(&fifth).len(), 2);
    engine.recount();
}

#[test]
fn a_claim_that_members_share_gets_one_device_and_all_go_there() {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), gpu_node("b", 0), slice("b", &["x"])];
    inputs.push(Input::ResourceClaim(claim("c", false)));
    let sharing = |name: &str| devices::member(name, 3, PodClaim::Named(key("c")), "c");
    inputs.extend(["p", "q", "r"].map(|name| Input::Pod(sharing(name))));
    let first = engine.step(Time(1), inputs);
    let grants = granted(&first);
    assert_eq!(grants.len(), 3);
    let devices: Vec<_> = grants.values().map(|claims| device(&claims[0])).collect();
    assert!(devices.iter().all(|it| *it == ("b".to_owned(), "x".to_owned())), "{devices:?}");
    let second = engine.step(Time(2), answers(&first, &EffectResult::Done));
    let nodes: Vec<String> = binds(&second).into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes, ["b", "b", "b"]);
    engine.recount();
}

#[test]
fn a_shared_claim_that_no_node_has_room_beside_keeps_the_gang_waiting() {
    let mut engine = Engine::new();
    // The only device is on a node with room for one.
    let small = Input::Node(facts::node("b", &[("cpu", 1_000)]).into());
    let mut inputs = vec![namespace(), gpu_node("a", 0), small, slice("b", &["x"])];
    inputs.push(Input::ResourceClaim(claim("c", false)));
    let sharing = |name: &str| devices::member(name, 2, PodClaim::Named(key("c")), "c");
    inputs.extend(["p", "q"].map(|name| Input::Pod(sharing(name))));
    let output = engine.step(Time(1), inputs);
    assert_eq!((granted(&output).len(), binds(&output).len()), (0, 0));
    engine.recount();
}

/// A node with room for many users of these claims, and a device for each.
fn of_many(claims: &[&str]) -> Vec<Input> {
    let node = Input::Node(facts::node("b", &[("cpu", 1_000_000), ("pods", 1_000)]).into());
    let claims = claims.iter().map(|name| Input::ResourceClaim(claim(name, false)));
    [namespace(), node, slice("b", &["x", "y"])].into_iter().chain(claims).collect()
}

#[test]
fn more_users_than_a_claim_can_have_never_start_together() {
    // As many as there are, how many must run together, and how many wait because of that.
    let one = [(256, 256, 0), (257, 257, 257), (257, 256, 0), (300, 290, 300)];
    let of_two = [(600, 512, 0), (600, 513, 300)];
    let of_one = one.map(|case| (&["c"][..], case));
    for (claims, case) in of_one.into_iter().chain(of_two.map(|case| (&["c", "d"][..], case))) {
        let (made, least, too_many): (usize, u32, u32) = case;
        let mut engine = Engine::new();
        let one = |at| {
            let name = claims[at * claims.len() / made];
            devices::member(&format!("p{at}"), least, PodClaim::Named(key(name)), name)
        };
        let facts = of_many(claims).into_iter().chain((0..made).map(|at| Input::Pod(one(at))));
        let output = engine.step(Time(1), facts.collect());
        let reason = Reason::ClaimOfTooMany { claim: text("c"), pods: too_many };
        let told = view(&engine, "g").reason;
        assert_eq!(told == Some(reason), too_many > 0, "{made}, {least}: {told:?}");
        assert_eq!(granted(&output).is_empty(), too_many > 0, "{made}, {least}");
        engine.recount();
    }
}

/// Of an elastic gang no more start than can use its claim, and another one once one of them is
/// gone.
#[test]
fn an_elastic_gang_has_as_many_members_as_a_claim_can_have_users() {
    let mut engine = Engine::new();
    let one = |at| devices::member(&format!("p{at}"), 2, PodClaim::Named(key("c")), "c");
    let members: Vec<PodFacts> = (0..258).map(one).collect();
    let pods = members.iter().cloned().map(Input::Pod);
    let first = engine.step(Time(1), of_many(&["c"]).into_iter().chain(pods).collect());
    assert_eq!(granted(&first).len(), 256);
    let second = engine.step(Time(2), answers(&first, &EffectResult::Done));
    assert_eq!(binds(&second).len(), 256);
    let done = second.effects.iter().filter(is_bind);
    let done = done.map(|effect| answer(effect, EffectResult::Done)).collect();
    engine.step(Time(3), done);
    let then = Some(Box::new(Reason::ClaimOfTooMany { claim: text("c"), pods: 258 }));
    assert_eq!(view(&engine, "g").reason, Some(Reason::Extras { waiting: 2, then }));
    let gone = engine.step(Time(4), vec![Input::PodGone(members[0].uid.clone())]);
    assert_eq!(granted(&gone).into_keys().collect::<Vec<_>>(), ["p256"]);
    engine.recount();
}

/// A claim on devices that a query matches.
fn asking(query: &str, count: DeviceCount) -> Arc<ClaimSpec> {
    let mut spec = ClaimSpec::clone(&spec());
    let ask = &mut spec.requests[0].options[0];
    (ask.query, ask.count) = (text(query), count);
    Arc::new(spec)
}

fn nodes_of(engine: &mut Engine, first: &StepOutput) -> Vec<String> {
    let second = engine.step(Time(2), answers(first, &EffectResult::Done));
    engine.recount();
    let mut nodes: Vec<String> = binds(&second).into_iter().map(|(_, node)| node).collect();
    nodes.sort();
    nodes
}

#[test]
fn a_shared_claim_for_all_devices_lets_others_onto_nodes_that_could_not_meet_it() {
    let mut engine = Engine::new();
    let node = |name: &str, cpu: i64| Input::Node(facts::node(name, &[("cpu", cpu)]).into());
    // All nodes reach the device of the rack. Of b's devices somebody has one, so that nobody gets
    // all of them there; but who has all that a reaches can use it on b, too.
    let Input::Slice(mut rack) = slice("rack", &["x"]) else { unreachable!("a slice") };
    Arc::make_mut(&mut rack).nodes = Reach::Everywhere;
    let mut inputs = vec![namespace(), node("a", 1_000), node("b", 2_000)];
    inputs.extend([Input::Slice(rack), slice("b", &["y"])]);
    inputs.extend([holding("r-claim", "b", &["y"]), running("r", "b")]);
    let all = devices::claim("c", false, asking("", DeviceCount::All));
    inputs.push(Input::ResourceClaim(all));
    let sharing = |name: &str| devices::member(name, 2, PodClaim::Named(key("c")), "c");
    inputs.extend(["p", "q"].map(|name| Input::Pod(sharing(name))));
    let first = engine.step(Time(1), inputs);
    assert_eq!(granted(&first).len(), 2);
    assert_eq!(nodes_of(&mut engine, &first), ["a", "b"]);
}

#[test]
fn who_takes_a_device_that_a_selector_fails_on_opens_its_node_for_others() {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), slice("a", &["x", "y"])];
    let says = [Answer::Fails(text("no such key: model")), Answer::Yes];
    inputs.push(Input::Answers { query: text("q"), slice: text("a"), answers: says.into() });
    for (name, query) in [("p", "q"), ("q", "")] {
        let (claim, spec) = (format!("{name}-claim"), asking(query, DeviceCount::Exactly(1)));
        inputs.push(Input::ResourceClaim(devices::claim(&claim, true, spec.clone())));
        let needs = PodClaim::Own { name: text("gpu"), spec };
        inputs.push(Input::Pod(devices::member(name, 2, needs, &claim)));
    }
    let first = engine.step(Time(1), inputs);
    let grants = granted(&first);
    let taken: Vec<(String, String)> =
        grants.iter().map(|(pod, claims)| (pod.clone(), device(&claims[0]).1)).collect();
    let wanted = [("p", "y"), ("q", "x")].map(|(pod, device)| (pod.to_owned(), device.to_owned()));
    assert_eq!(taken, wanted);
    assert_eq!(nodes_of(&mut engine, &first), ["a", "a"]);
}

#[test]
fn a_new_engine_goes_on_with_what_the_api_shows() {
    let (mut engine, mut inputs) = two();
    let grants = granted(&engine.step(Time(1), Vec::new()));
    // The engine ends when one claim has its device; its pod is tied to that from now on.
    inputs.push(given("p-claim", true, &grants["p"][0]));
    let tied = devices::member("p", 2, PodClaim::Named(key("p-claim")), "p-claim");
    inputs.push(Input::Pod(tied));
    let mut next = Engine::new();
    let first = next.step(Time(2), inputs);
    let anew = granted(&first);
    assert!(anew["p"][0].chosen.is_none(), "it is reserved only");
    assert_ne!(device(&anew["q"][0]), device(&grants["p"][0]), "that one is taken");
    let second = next.step(Time(3), answers(&first, &EffectResult::Done));
    assert_eq!(binds(&second).len(), 2);
    next.recount();
}

#[test]
fn devices_come_free_when_the_api_says_so() {
    let mut engine = Engine::new();
    let given = Allocation {
        devices: vec![capstan_core::model::input::AllocatedDevice {
            id: (text("d"), text("a"), text("x")),
            share: false,
            consumed: BTreeMap::new(),
        }],
        ..Allocation::default()
    };
    let other = ResourceClaimFacts { allocation: Some(Arc::new(given)), ..claim("other", true) };
    let inputs = vec![
        namespace(),
        gpu_node("a", 0),
        slice("a", &["x"]),
        Input::ResourceClaim(other),
        Input::ResourceClaim(claim("p-claim", true)),
        Input::Pod(own("p", 1)),
    ];
    let waits = engine.step(Time(1), inputs);
    assert_eq!(granted(&waits).len(), 0);
    let freed = engine.step(Time(2), vec![Input::ResourceClaimGone(key("other"))]);
    assert_eq!(granted(&freed).len(), 1);
    engine.recount();
}

/// A claim that has these devices of a node.
fn holding(name: &str, node: &str, devices: &[&str]) -> Input {
    let device = |device: &&str| capstan_core::model::input::AllocatedDevice {
        id: (text("d"), text(node), text(device)),
        share: false,
        consumed: BTreeMap::new(),
    };
    let devices = devices.iter().map(device).collect();
    let allocation = Some(Arc::new(Allocation { devices, ..Allocation::default() }));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim(name, true) })
}

/// A pod by itself with one claim.
fn lone(name: &str, priority: i32, needs: PodClaim, claim: &str) -> PodFacts {
    let group = devices::member(name, 1, needs, claim);
    PodFacts { priority, gang: facts::pod(name, &group.shape, &group.wishes).gang, ..group }
}

fn alone(name: &str, priority: i32) -> PodFacts {
    let needs = PodClaim::Own { name: text("gpu"), spec: spec() };
    lone(name, priority, needs, &format!("{name}-claim"))
}

/// The same with a place and devices.
fn running(name: &str, node: &str) -> Input {
    let mut pod = alone(name, 0);
    pod.phase = PodPhase::Running;
    pod.node = Some(text(node));
    Input::Pod(pod)
}

fn gone(name: &str) -> Input {
    Input::PodGone(text(name))
}

fn evicted(output: &StepOutput) -> Vec<String> {
    let of = |effect: &Effect| match &effect.action {
        Action::Evict { pod, .. } => Some(pod.name.to_string()),
        _ => None,
    };
    output.effects.iter().filter_map(of).collect()
}

/// Two nodes with two devices each, all of them in use; whoever has one has both.
fn full() -> Engine {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), gpu_node("b", 0)];
    inputs.extend([slice("a", &["x", "y"]), slice("b", &["x", "y"])]);
    for (name, node) in [("low-a", "a"), ("low-b", "b")] {
        inputs.push(holding(&format!("{name}-claim"), node, &["x", "y"]));
        inputs.push(running(name, node));
    }
    engine.observe(Time(0), inputs);
    engine
}

fn comes(name: &str, priority: i32) -> Vec<Input> {
    let claim = Input::ResourceClaim(claim(&format!("{name}-claim"), true));
    vec![claim, Input::Pod(alone(name, priority))]
}

#[test]
fn a_victim_leaves_its_devices_to_whom_it_leaves_for() {
    let mut engine = full();
    let first = engine.step(Time(1), comes("high", 10));
    let victims = evicted(&first);
    assert_eq!(victims.len(), 1, "one node is enough");
    engine.recount();
    // The pod is gone, its claim is not: nobody else has to leave, and nothing is given yet.
    let second = engine.step(Time(2), vec![gone(&victims[0])]);
    assert_eq!((evicted(&second), granted(&second).len()), (Vec::new(), 0));
    let waits = format!("waits until the devices of claim team/{}-claim are free", victims[0]);
    let said = view(&engine, "high").reason.map(|reason| reason.to_string()).unwrap_or_default();
    assert!(said.starts_with(&waits), "{said}");
    engine.recount();
    let key = key(&format!("{}-claim", victims[0]));
    let third = engine.step(Time(3), vec![Input::ResourceClaimGone(key)]);
    assert_eq!((evicted(&third), granted(&third).len()), (Vec::new(), 1));
    engine.recount();
}

#[test]
fn it_leaves_what_this_engine_gave_it_too() {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), slice("a", &["x"])];
    inputs.extend(comes("low", 0));
    let first = engine.step(Time(1), inputs);
    let grant = granted(&first)["low"][0].clone();
    let second = engine.step(Time(2), answers(&first, &EffectResult::Done));
    assert_eq!(binds(&second).len(), 1);
    let bound = second.effects.iter().filter(is_bind);
    let mut shown: Vec<Input> = bound.map(|effect| answer(effect, EffectResult::Done)).collect();
    shown.extend([given("low-claim", true, &grant), running("low", "a")]);
    engine.step(Time(3), shown);
    assert_eq!(evicted(&engine.step(Time(4), comes("high", 10))), ["low"]);
    engine.recount();
    engine.step(Time(5), vec![gone("low")]);
    let last = engine.step(Time(6), vec![Input::ResourceClaimGone(key("low-claim"))]);
    assert_eq!(granted(&last).len(), 1);
    engine.recount();
}

#[test]
fn what_a_victim_leaves_is_promised_once() {
    let mut engine = full();
    let inputs: Vec<Input> = ["one", "two", "three"].iter().flat_map(|it| comes(it, 10)).collect();
    // Each victim leaves two devices: of three, one needs the second victim.
    let mut victims = Vec::new();
    for (at, input) in inputs.into_iter().enumerate() {
        victims.extend(evicted(&engine.step(Time(at as i64 + 1), vec![input])));
        engine.recount();
    }
    assert_eq!(victims.len(), 2, "{victims:?}");
    let left = victims.iter().map(|name| gone(name));
    assert_eq!(granted(&engine.step(Time(10), left.collect())).len(), 0);
    let keys = victims.iter().map(|name| Input::ResourceClaimGone(key(&format!("{name}-claim"))));
    let given = granted(&engine.step(Time(11), keys.collect()));
    let mut devices: Vec<_> = given.values().map(|claims| device(&claims[0])).collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 3, "each another one");
    engine.recount();
}

/// Somebody has a device of a node where the preemptor may not go, and leaves if that is in reach
/// of the preemptor's node, too.
#[test]
fn a_device_on_the_network_is_left_on_any_node() {
    for (wide, left) in [(true, vec!["low"]), (false, Vec::new())] {
        let mut engine = Engine::new();
        let Input::Slice(local) = slice("b", &["x"]) else { unreachable!() };
        let nodes = if wide { Reach::Everywhere } else { local.nodes.clone() };
        let inputs = vec![
            namespace(),
            gpu_node("a", 0),
            gpu_node("b", 0),
            Input::Slice(Arc::new(SliceFacts { nodes, ..SliceFacts::clone(&local) })),
            holding("low-claim", "b", &["x"]),
            running("low", "b"),
        ];
        engine.observe(Time(0), inputs);
        let mut high = alone("high", 10);
        let node_selector = labels(&[("kubernetes.io/hostname", "a")]);
        high.shape = Arc::new(PodShape { node_selector, ..PodShape::clone(&high.shape) });
        let inputs = vec![Input::ResourceClaim(claim("high-claim", true)), Input::Pod(high)];
        let stopped = evicted(&engine.step(Time(1), inputs));
        assert_eq!(stopped, left, "in reach of all nodes: {wide}");
        engine.recount();
    }
}

#[test]
fn a_claim_that_somebody_who_stays_uses_comes_not_free() {
    let mut engine = Engine::new();
    let shared = |name: &str, priority: i32| {
        let mut pod = lone(name, priority, PodClaim::Named(key("shared")), "shared");
        (pod.phase, pod.node) = (PodPhase::Running, Some(text("a")));
        Input::Pod(pod)
    };
    let Input::ResourceClaim(held) = holding("shared", "a", &["x"]) else { unreachable!() };
    let held = ResourceClaimFacts { of_one_pod: false, ..held };
    let mut inputs = vec![namespace(), gpu_node("a", 0), slice("a", &["x"])];
    inputs.push(Input::ResourceClaim(held));
    inputs.extend([shared("low", 0), shared("higher", 20)]);
    engine.observe(Time(0), inputs);
    // Both would have to go, and one of them may not.
    assert_eq!(evicted(&engine.step(Time(1), comes("middle", 10))), Vec::<String>::new());
    assert_eq!(evicted(&engine.step(Time(2), vec![gone("higher")])), ["low"]);
    engine.recount();
}

/// Found by a property of `around`: the first flavor has room by its nodes alone, and they do not
/// reach the device together that all members share; in the other one lower work leaves.
#[test]
fn lower_work_of_another_flavor_leaves_for_members_that_share_a_device() {
    let place = |name: &str, pool: &str, zone: &str, cpu: i64| {
        let mut node = facts::node(name, &[("cpu", cpu)]);
        node.labels.insert(text("pool"), text(pool));
        node.labels.insert(text(ZONE), text(zone));
        Input::Node(node.into())
    };
    let device = |zone: &str| {
        let Input::Slice(mut slice) = slice(zone, &["link"]) else { unreachable!("a slice") };
        let values = vec![text(zone)];
        let labels = vec![Requirement { key: text(ZONE), operator: Operator::In, values }];
        let terms = vec![NodeSelectorTerm { labels, fields: Vec::new() }];
        Arc::make_mut(&mut slice).nodes = Reach::Selected(NodeSelector { terms });
        Input::Slice(slice)
    };
    let quota = [("cpu", nominal(1_000_000))];
    let mut queue = cluster_queue("q", None, group(&[("f0", &quota), ("f1", &quota)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut inputs = vec![
        namespace(),
        place("a", "0", "x", 1_000),
        place("b", "1", "x", 2_000),
        place("c", "0", "y", 1_000),
        device("x"),
        device("y"),
        Input::ResourceClaim(claim("shared", false)),
        Input::Flavor(flavor("f0", &[("pool", "0")])),
        Input::Flavor(flavor("f1", &[("pool", "1")])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("q")),
    ];
    let small = shape(&[("cpu", 1_000)]);
    inputs.extend([("low-b", "b"), ("low-c", "c")].map(|(name, node)| {
        let low = facts::pod(name, &small, &in_queue(Some("q")));
        Input::Pod(PodFacts { phase: PodPhase::Running, node: Some(text(node)), ..low })
    }));
    let mut engine = Engine::new();
    engine.step(Time(1), inputs);
    let member = |name: &str| {
        let member = devices::member(name, 2, PodClaim::Named(key("shared")), "shared");
        Input::Pod(PodFacts { priority: 10, wishes: in_queue(Some("q")), ..member })
    };
    assert_eq!(evicted(&engine.step(Time(2), ["p", "q"].map(member).into())), ["low-b"]);
    engine.recount();
}

/// What a device costs is its part of its node: what was found for those that wait is of the
/// devices that the node had then.
#[test]
fn what_devices_cost_follows_the_slices_of_their_nodes() {
    let pods = ["p", "q", "r", "s"];
    let priced = |name: &str| {
        let mut node = facts::node(name, &[("cpu", 64_000)]);
        let (per_hour, source) = (MicroUsd(8_000_000), PriceSource::Annotation);
        node.price = Some(Price { per_hour, source });
        Input::Node(node.into())
    };
    let mut inputs = vec![namespace(), priced("a"), priced("b")];
    inputs.extend([slice("a", &["x"]), slice("b", &["x"])]);
    inputs.extend(pods.map(|pod| Input::ResourceClaim(claim(&format!("{pod}-claim"), true))));
    inputs.extend(pods.map(|pod| Input::Pod(own(pod, 4))));
    let mut engine = Engine::new();
    assert_eq!(granted(&engine.step(Time(1), inputs)).len(), 0, "two devices for four");
    engine.recount();
    let output = engine.step(Time(2), vec![slice("b", &["x", "y"])]);
    assert_eq!(granted(&output).len(), 0, "three");
    engine.recount();
    let output = engine.step(Time(3), vec![slice("b", &["x", "y", "z"])]);
    assert_eq!(granted(&output).len(), 4);
    engine.recount();
}
