//! Devices that have to be made ready: nobody of a gang is bound before all of them are.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, Input, PodClaim, PodFacts, Readiness, ReadyWhen,
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
    let again = engine.step(third.next_wake.expect("a pause"), Vec::new());
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
