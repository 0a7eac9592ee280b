//! Devices that have to be made ready: nobody of a gang is bound before all of them are, and claims
//! of which some will not be are given back.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, Input, NodeSelector, PodClaim, PodFacts, Readiness, ReadyWhen,
    ResourceClaimFacts, SliceFacts,
};
use capstan_core::plan::{Action, ClaimGrant, Effect, EffectResult, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::devices::{self, key, slice};
use capstan_tests::facts::{namespace, text};
use capstan_tests::hand::{answer, binds, gpu_node, view};

/// The slice of a node, whose devices are to be attached first.
fn attachable(node: &str, names: &[&str]) -> Input {
    let Input::Slice(facts) = slice(node, names) else { panic!("a slice") };
    let (conditions, failures) = (vec![text("Attached")], vec![text("Broken")]);
    let when = Arc::new(ReadyWhen { conditions, failures });
    let mut facts = SliceFacts::clone(&facts);
    facts.devices.iter_mut().for_each(|device| device.ready_when = Some(when.clone()));
    Input::Slice(Arc::new(facts))
}

fn claim(pod: &str) -> ResourceClaimFacts {
    devices::claim(&format!("{pod}-claim"), true, devices::spec(1))
}

fn member(pod: &str, of: u32) -> PodFacts {
    let needs = PodClaim::Own { name: text("gpu"), spec: devices::spec(1) };
    devices::member(pod, of, needs, &format!("{pod}-claim"))
}

/// The claim of a pod with what it was given, and how far that is.
fn given(pod: &str, grant: &ClaimGrant, readiness: Readiness, at: Time) -> Input {
    let chosen = grant.chosen.as_ref().expect("chosen here");
    let devices: Vec<AllocatedDevice> =
        chosen.devices.iter().map(|one| one.device.clone()).collect();
    let (nodes, at, reserved) = (chosen.nodes.clone(), Some(at), Vec::new());
    let allocation = Allocation { nodes, devices, readiness, at, reserved };
    Input::ResourceClaim(ResourceClaimFacts {
        allocation: Some(Arc::new(allocation)),
        ..claim(pod)
    })
}

fn waits() -> Readiness {
    Readiness::waits_for("x", ["Attached"].into_iter())
}

/// A gang of two, on two nodes of which only the first has a device that is to be attached.
fn begun() -> (Engine, StepOutput) {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0), gpu_node("b", 0)];
    inputs.extend([attachable("a", &["x"]), slice("b", &["x"])]);
    inputs.extend(["p", "q"].map(|pod| Input::ResourceClaim(claim(pod))));
    inputs.extend(["p", "q"].map(|pod| Input::Pod(member(pod, 2))));
    let first = engine.step(Time(1_000), inputs);
    (engine, first)
}

fn allocations(output: &StepOutput) -> Vec<(&Effect, &ClaimGrant, &str)> {
    let of = |effect: &'_ Effect| matches!(effect.action, Action::AllocateClaims { .. });
    let all = output.effects.iter().filter(|effect| of(effect));
    all.map(|effect| match &effect.action {
        Action::AllocateClaims { pod, claims, .. } => (effect, &claims[0], &*pod.name),
        _ => unreachable!("others were left out"),
    })
    .collect()
}

fn done(output: &StepOutput) -> Vec<Input> {
    let all = allocations(output);
    all.into_iter().map(|(effect, ..)| answer(effect, EffectResult::Done)).collect()
}

/// Claims are given back: nothing of them is tried anew before that is known.
fn released(output: &StepOutput) -> Vec<Input> {
    let release = |effect: &&Effect| matches!(effect.action, Action::ReleaseClaims { .. });
    let all = output.effects.iter().filter(release);
    all.map(|effect| answer(effect, EffectResult::Done)).collect()
}

/// The member whose device is to be attached, with what it gets.
fn slow(output: &StepOutput) -> (String, ClaimGrant) {
    let all = allocations(output);
    let found = all.into_iter().find(|(_, grant, _)| {
        let chosen = grant.chosen.as_ref().expect("chosen here");
        chosen.devices[0].ready_when.is_some()
    });
    let (_, grant, pod) = found.expect("one of them");
    (pod.to_owned(), grant.clone())
}

fn releases(output: &StepOutput) -> usize {
    let gives = |effect: &&Effect| matches!(effect.action, Action::ReleaseClaims { .. });
    output.effects.iter().filter(gives).count()
}

#[test]
fn nobody_of_a_gang_is_bound_before_all_devices_are_ready() {
    let (mut engine, first) = begun();
    assert_eq!(allocations(&first).len(), 2);
    let (pod, grant) = slow(&first);
    let second = engine.step(Time(2_000), done(&first));
    assert_eq!(binds(&second), [], "its claim was not seen yet");
    let third = engine.step(Time(3_000), vec![given(&pod, &grant, waits(), Time(2_000))]);
    assert_eq!(binds(&third), [], "it is not attached yet");
    let said = view(&engine, "g").reason.map(|reason| reason.to_string());
    let words = format!("not ready yet: claim {pod}-claim: device x is not Attached");
    assert_eq!(said, Some(words));
    engine.recount();
    let ready = given(&pod, &grant, Readiness::Ready, Time(2_000));
    let last = engine.step(Time(4_000), vec![ready]);
    assert_eq!(binds(&last).len(), 2);
    engine.recount();
}

#[test]
fn a_device_that_fails_sends_the_whole_gang_back_and_frees_what_it_had() {
    let (mut engine, first) = begun();
    let (pod, grant) = slow(&first);
    engine.step(Time(2_000), done(&first));
    let failed = Readiness::Failed(text("device x failed: Broken, reason Cable: loose"));
    let third = engine.step(Time(3_000), vec![given(&pod, &grant, failed, Time(2_000))]);
    assert_eq!((binds(&third).len(), releases(&third)), (0, 2));
    let reason = view(&engine, "g").reason.expect("it says why it waits").to_string();
    assert!(reason.contains(&format!("claim {pod}-claim: device x failed: Broken")), "{reason}");
    engine.recount();
    // Once it is free again, it is tried again.
    let freed = Input::ResourceClaim(claim(&pod));
    engine.step(Time(3_100), vec![freed]);
    let paused = third.next_wake.expect("a pause");
    let unanswered = engine.step(paused, Vec::new());
    assert_eq!(allocations(&unanswered).len(), 0, "not before it is known to be given back");
    let again = engine.step(paused.plus(Span(1)), released(&third));
    assert_eq!(allocations(&again).len(), 2);
}

#[test]
fn what_is_not_ready_in_time_goes_back_reckoned_from_when_it_was_allocated() {
    let (mut engine, first) = begun();
    let (pod, grant) = slow(&first);
    // It had them before this engine began.
    let before = Time(-500_000);
    let shown = given(&pod, &grant, waits(), before);
    let mut inputs = vec![shown];
    inputs.extend(done(&first));
    let second = engine.step(Time(2_000), inputs);
    let until = before.plus(Span::seconds(600));
    assert_eq!((binds(&second).len(), second.next_wake), (0, Some(until)));
    let last = engine.step(until, Vec::new());
    assert_eq!((binds(&last).len(), releases(&last)), (0, 2));
    let reason = view(&engine, "g").reason.expect("it says why it waits").to_string();
    let says = "not ready in time: claim";
    assert!(reason.contains(says) && reason.contains("device x is not Attached"), "{reason}");
    engine.recount();
}

#[test]
fn devices_that_need_not_be_made_ready_are_tried_first() {
    let mut engine = Engine::new();
    let mut inputs = vec![namespace(), gpu_node("a", 0)];
    // Two pools of one node: in order of names the slow one is first.
    let Input::Slice(of_a) = attachable("a", &["x"]) else { panic!("a slice") };
    let mut plain = SliceFacts::clone(&of_a);
    (plain.name, plain.pool) = (text("z"), text("z"));
    plain.devices.iter_mut().for_each(|device| device.ready_when = None);
    inputs.extend([Input::Slice(of_a), Input::Slice(Arc::new(plain))]);
    inputs.extend([Input::ResourceClaim(claim("p")), Input::Pod(member("p", 1))]);
    let output = engine.step(Time(1_000), inputs);
    let chosen = allocations(&output)[0].1.chosen.clone().expect("chosen here");
    assert_eq!(&*chosen.devices[0].device.id.1, "z");
    assert_eq!(key("p-claim"), allocations(&output)[0].1.key);
}

#[test]
fn a_new_engine_goes_on_waiting_and_then_binds() {
    let (_, first) = begun();
    let (pod, grant) = slow(&first);
    // The one before wrote this, and ended: its pod names the claim now, as others would.
    let of = |readiness| given(&pod, &grant, readiness, Time(2_000));
    let named = devices::member(&pod, 1, PodClaim::Named(grant.key.clone()), &grant.key.1);
    let mut engine = Engine::new();
    let nodes = vec![namespace(), gpu_node("a", 0), gpu_node("b", 0), attachable("a", &["x"])];
    let inputs = [nodes, vec![of(waits()), Input::Pod(named)]].concat();
    let again = engine.step(Time(5_000), inputs);
    assert!(allocations(&again)[0].1.chosen.is_none(), "it has its devices");
    let second = engine.step(Time(6_000), done(&again));
    let until = Time(2_000).plus(Span::seconds(600));
    assert_eq!((binds(&second).len(), second.next_wake), (0, Some(until)));
    let ready = engine.step(Time(7_000), vec![of(Readiness::Ready)]);
    assert_eq!(binds(&ready).len(), 1);
    engine.recount();
}

/// A claim that several may use, with a device of the node `a`, and how far that is.
fn has(name: &str, readiness: Readiness, at: Option<Time>, reserved: &[&str]) -> Input {
    let device = AllocatedDevice {
        id: (text("d"), text("a"), text("x")),
        share: false,
        consumed: Default::default(),
    };
    let reserved = reserved.iter().map(text).collect();
    let allocation = Allocation { nodes: None, devices: vec![device], readiness, at, reserved };
    let allocation = Some(Arc::new(allocation));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..shared(name) })
}

fn shared(name: &str) -> ResourceClaimFacts {
    devices::claim(name, false, devices::spec(1))
}

fn user(pod: &str, of: u32, claim: &str) -> Input {
    Input::Pod(devices::member(pod, of, PodClaim::Named(key(claim)), claim))
}

fn failed() -> Readiness {
    Readiness::Failed(text("device x failed: Broken, reason Cable: loose"))
}

/// One node with one device.
fn one_device() -> Vec<Input> {
    vec![namespace(), gpu_node("a", 0), slice("a", &["x"])]
}

/// Claims that are given back because they will not be ready: the effect, its pod and their names.
fn given_back(output: &StepOutput) -> Vec<(Effect, String, Vec<String>)> {
    let of = |effect: &Effect| match &effect.action {
        Action::ReleaseClaims { pod, claims } if claims.iter().all(|it| it.seen.is_some()) => {
            let names = claims.iter().map(|it| it.key.1.to_string()).collect();
            Some((effect.clone(), pod.name.to_string(), names))
        }
        _ => None,
    };
    output.effects.iter().filter_map(of).collect()
}

/// Effects that have to do with claims.
fn devices_in(output: &StepOutput) -> usize {
    allocations(output).len() + releases(output)
}

fn why(engine: &Engine) -> String {
    view(engine, "g").reason.map(|reason| reason.to_string()).unwrap_or_default()
}

#[test]
fn a_claim_that_failed_keeps_its_pod_from_every_node_and_is_given_back_once() {
    for reserved in [&[][..], &["p"]] {
        let mut engine = Engine::new();
        let facts = vec![has("c", failed(), Some(Time(0)), reserved), user("p", 1, "c")];
        let first = engine.step(Time(1_000), [one_device(), facts].concat());
        assert_eq!(allocations(&first).len(), 0);
        let back = given_back(&first);
        assert_eq!(back.len(), 1);
        assert_eq!((&*back[0].1, &back[0].2[..]), ("p", &["c".to_owned()][..]));
        let says = "claim c: device x failed: Broken, reason Cable: loose";
        assert!(why(&engine).contains(says), "{}", why(&engine));
        engine.recount();
        // What wakes it in between, and the answer, change nothing before the claim does.
        let second = engine.step(Time(2_000), vec![gpu_node("b", 0)]);
        let done = vec![answer(&back[0].0, EffectResult::Done), gpu_node("c", 0)];
        let third = engine.step(Time(3_000), done);
        assert_eq!((devices_in(&second), devices_in(&third)), (0, 0));
        let last = engine.step(Time(4_000), vec![Input::ResourceClaim(shared("c"))]);
        let anew = allocations(&last);
        assert_eq!(anew.len(), 1, "it gets devices anew");
        assert!(anew[0].1.chosen.is_some());
        engine.recount();
    }
}

#[test]
fn what_others_use_is_waited_for() {
    let mut engine = Engine::new();
    let facts = vec![has("c", failed(), Some(Time(0)), &["other"]), user("p", 1, "c")];
    let first = engine.step(Time(1_000), [one_device(), facts].concat());
    assert_eq!((devices_in(&first), first.next_wake), (0, None));
    assert!(why(&engine).contains("claim c: device x failed"), "{}", why(&engine));
    // Once nobody has reserved it any more it may be given back.
    let second = engine.step(Time(2_000), vec![has("c", failed(), Some(Time(0)), &[])]);
    assert_eq!(given_back(&second).len(), 1);
    engine.recount();
    // It is ready after all, and so it was left alone.
    let ready = has("c", Readiness::Ready, Some(Time(0)), &[]);
    let third = engine.step(Time(3_000), [vec![ready], released(&second)].concat());
    assert!(allocations(&third)[0].1.chosen.is_none(), "it has its devices");
    engine.recount();
}

#[test]
fn members_that_have_reserved_a_claim_together_give_it_back_together() {
    let mut engine = Engine::new();
    let facts = vec![
        has("c", failed(), Some(Time(0)), &["p", "q"]),
        has("d", failed(), Some(Time(0)), &[]),
        user("p", 4, "c"),
        user("q", 4, "c"),
        user("r", 4, "d"),
        user("s", 4, "d"),
    ];
    let first = engine.step(Time(1_000), [one_device(), facts].concat());
    let back: Vec<_> =
        given_back(&first).into_iter().map(|(_, pod, claims)| (pod, claims)).collect();
    let of = |pod: &str, claim: &str| (pod.to_owned(), vec![claim.to_owned()]);
    assert_eq!(back, [of("p", "c"), of("q", "c"), of("r", "d")]);
    engine.recount();
}

#[test]
fn a_claim_that_is_overdue_wakes_its_pod_when_its_time_is_over() {
    let (mut engine, at) = (Engine::new(), Time(5_000));
    let until = at.plus(Span::seconds(600));
    // Its device is on a node that is not there.
    let late = |reserved: &[&str]| {
        let Input::ResourceClaim(mut facts) = has("c", waits(), Some(at), reserved) else {
            panic!("a claim")
        };
        let has = Arc::make_mut(facts.allocation.as_mut().expect("it has one"));
        has.nodes = Some(NodeSelector { terms: Vec::new() });
        Input::ResourceClaim(facts)
    };
    let first =
        engine.step(Time(6_000), [one_device(), vec![late(&[]), user("p", 1, "c")]].concat());
    assert_eq!((devices_in(&first), first.next_wake), (0, Some(until)));
    let early = engine.step(Time(until.0 - 1), Vec::new());
    assert_eq!((devices_in(&early), early.next_wake), (0, Some(until)));
    let over = engine.step(until, Vec::new());
    assert_eq!((given_back(&over).len(), over.next_wake), (1, None));
    let says = "claim c: device x is not Attached, overdue since 1970-01-01 00:10 UTC";
    assert!(why(&engine).contains(says), "{}", why(&engine));
    engine.recount();
    let freed = [vec![Input::ResourceClaim(shared("c"))], released(&over)].concat();
    let freed = engine.step(Time(until.0 + 1), freed);
    assert_eq!(allocations(&freed).len(), 1);
    engine.recount();
}

#[test]
fn a_claim_that_cannot_be_given_back_is_tried_again_after_growing_pauses() {
    let mut engine = Engine::new();
    let facts = vec![has("c", failed(), None, &[]), user("p", 1, "c")];
    let mut output = engine.step(Time(0), [one_device(), facts].concat());
    let (mut now, mut pauses) = (Time(0), Vec::new());
    let refused = EffectResult::Refused(text("forbidden"));
    for result in [refused.clone(), EffectResult::TimedOut, refused] {
        let back = given_back(&output);
        assert_eq!(back.len(), 1);
        let waits = engine.step(now, vec![answer(&back[0].0, result)]);
        assert_eq!(given_back(&waits).len(), 0, "not at once");
        let says = "devices of c are not ready, nor given back: ";
        assert!(why(&engine).contains(says), "{}", why(&engine));
        let next = waits.next_wake.expect("it is tried again");
        pauses.push(next.since(now));
        now = next;
        output = engine.step(now, Vec::new());
    }
    assert_eq!(pauses, [1, 2, 4].map(Span::seconds));
    engine.recount();
}

#[test]
fn devices_that_fail_again_and_again_are_tried_with_growing_pauses() {
    let mut engine = Engine::new();
    let facts = vec![Input::ResourceClaim(shared("c")), user("p", 1, "c")];
    let inputs = vec![namespace(), gpu_node("a", 0), attachable("a", &["x"])];
    let mut output = engine.step(Time(0), [inputs, facts].concat());
    let (mut now, mut pauses) = (Time(0), Vec::new());
    for _ in 0..4 {
        assert_eq!(allocations(&output).len(), 1);
        engine.step(now, done(&output));
        let lost = engine.step(now, vec![has("c", failed(), Some(now), &["p"])]);
        assert_eq!(releases(&lost), 1);
        // The claim is free before the pause is over.
        let mut inputs = released(&lost);
        inputs.push(Input::ResourceClaim(shared("c")));
        let freed = engine.step(now, inputs);
        assert_eq!(devices_in(&freed), 0, "not at once");
        let next = freed.next_wake.expect("it is tried again");
        pauses.push(next.since(now));
        now = next;
        output = engine.step(now, Vec::new());
    }
    assert_eq!(pauses, [1, 2, 4, 8].map(Span::seconds));
    engine.recount();
}

#[test]
fn a_member_that_a_running_gang_lacks_gives_its_claim_back_too() {
    let mut engine = Engine::new();
    let mut runs = devices::member("p", 1, PodClaim::Named(key("c")), "c");
    runs.claims = None;
    let mut shape = (*runs.shape).clone();
    shape.claims.clear();
    (runs.shape, runs.node) = (Arc::new(shape), Some(text("a")));
    runs.phase = capstan_core::model::input::PodPhase::Running;
    let facts = vec![has("c", failed(), None, &[]), Input::Pod(runs), user("q", 1, "c")];
    let first = engine.step(Time(0), [one_device(), facts].concat());
    let back = given_back(&first);
    assert_eq!(back.iter().map(|(_, pod, _)| &**pod).collect::<Vec<_>>(), ["q"]);
    engine.recount();
    let freed = [vec![Input::ResourceClaim(shared("c"))], released(&first)].concat();
    let freed = engine.step(Time(1), freed);
    assert_eq!(allocations(&freed).len(), 1);
    engine.recount();
}
