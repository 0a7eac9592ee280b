//! GPU-hours of budgets, whatever GPUs are called: partitions, replicas of a shared one, devices of
//! drivers. Facts are fed by hand and the clock is moved.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::calendar::Period;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, BindingNote, ClaimSpec, ClusterQueueFacts, Enforcement,
    ExtendedClaim, Input, PodClaim, PodFacts, PodPhase, PodShape, ResourceClaimFacts,
    SpendingLimit,
};
use capstan_core::quota::spending::Account;
use capstan_core::time::{Span, Time};
use capstan_tests::devices::{claim, key, spec};
use capstan_tests::facts::{
    DEFAULT, GPU, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue,
    namespace, node, nominal, pod, shape, text,
};
use capstan_tests::hand::{binds, view};

/// 26 November 2026, a Thursday, midnight UTC.
const MIDNIGHT: Time = Time(1_795_651_200_000);
const SLICE: &str = "nvidia.com/mig-1g.10gb";
const SHARED: &str = "nvidia.com/gpu.shared";

fn at(minutes: i64) -> Time {
    MIDNIGHT.plus(Span::minutes(minutes))
}

/// A queue of much of a resource, and of two GPU-hours a day.
fn queue(resource: &str) -> ClusterQueueFacts {
    let spending = Some(SpendingLimit {
        usd: None,
        gpu_seconds: Some(2 * 3_600),
        period: Period::Day,
        enforcement: Enforcement::Hard,
    });
    let quota = group(&[(DEFAULT, &[(resource, nominal(1_000_000))])]);
    ClusterQueueFacts { spending, ..cluster_queue("main", None, quota) }
}

/// The node `n`, with much of a resource.
fn node_with(resource: &str, more: &[(&str, &str)]) -> Input {
    let mut node = node("n", &[(resource, 64_000)]);
    node.labels.extend(labels(more));
    Input::Node(node.into())
}

fn ground(resource: &str, more: &[(&str, &str)]) -> Vec<Input> {
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue(resource)),
        Input::LocalQueue(local_queue("main")),
        node_with(resource, more),
    ]
}

/// A pod as the API shows it once it was bound.
fn runs(mut pod: PodFacts, resource: &str, since: Time) -> Input {
    (pod.node, pod.phase, pod.bound_at) = (Some(text("n")), PodPhase::Running, Some(since));
    pod.binding = Some(Arc::new(BindingNote {
        flavors: Arc::new([(text(resource), text(DEFAULT))].into()),
        admitted_at: Some(since),
        price: None,
        workload: None,
        queue: None,
        began_with: None,
    }));
    Input::Pod(pod)
}

fn asks(name: &str, resource: &str, amount: i64) -> PodFacts {
    pod(name, &shape(&[(resource, amount)]), &in_queue(Some("main")))
}

fn account(engine: &Engine) -> Account {
    engine.recount();
    let view = engine.queues().into_iter().next().expect("the one queue");
    *view.spending.expect("it has a budget")
}

/// Thousandths of GPUs that count for the queue.
fn milli(engine: &Engine) -> i64 {
    account(engine).rate().milli_gpus
}

#[test]
fn partitions_spend_their_part_of_gpu_hours() {
    let mut engine = Engine::new();
    let mut facts = ground(SLICE, &[]);
    facts.push(runs(asks("first", SLICE, 14), SLICE, at(0)));
    engine.step(at(0), facts);
    assert_eq!(milli(&engine), 2_000);
    assert_eq!(account(&engine).runs_out(), Some(at(60)), "two GPUs for one hour");
    let output = engine.step(at(60), vec![Input::Pod(asks("second", SLICE, 1))]);
    assert_eq!(binds(&output), []);
    let reason = view(&engine, "second").reason.expect("it waits");
    assert_eq!(reason.code(), "BudgetExhausted");
    assert!(reason.to_string().contains("2 GPU-hours a day, is spent (2)"), "{reason}");
}

#[test]
fn gpus_of_all_makers_count() {
    for name in [GPU, "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron"] {
        let mut engine = Engine::new();
        let mut facts = ground(name, &[]);
        facts.push(runs(asks("first", name, 3), name, at(0)));
        engine.step(at(0), facts);
        assert_eq!(milli(&engine), 3_000, "{name}");
    }
    let mut engine = Engine::new();
    let mut facts = ground("example.com/dongle", &[]);
    facts.push(runs(asks("first", "example.com/dongle", 3), "example.com/dongle", at(0)));
    engine.step(at(0), facts);
    assert_eq!(milli(&engine), 0);
}

#[test]
fn replicas_count_as_their_node_says_it_now() {
    let replicas = |count: &str| node_with(SHARED, &[("nvidia.com/gpu.replicas", count)]);
    let mut engine = Engine::new();
    let mut facts = ground(SHARED, &[("nvidia.com/gpu.replicas", "4")]);
    facts.push(runs(asks("first", SHARED, 2), SHARED, at(0)));
    engine.step(at(0), facts);
    assert_eq!(milli(&engine), 500);
    engine.step(at(60), vec![replicas("2")]);
    assert_eq!((milli(&engine), account(&engine).gpu_seconds()), (1_000, 1_800));
    engine.step(at(90), vec![node_with(SHARED, &[("zone", "z")])]);
    assert_eq!((milli(&engine), account(&engine).gpu_seconds()), (2_000, 3_600));
    engine.step(at(90), vec![replicas("8")]);
    engine.step(at(90), vec![Input::NodeGone(text("n"))]);
    assert_eq!(milli(&engine), 2_000, "nobody says that it is shared");
}

/// The claim `c` with devices of a driver.
fn given(driver: &str, devices: &[&str]) -> Input {
    let has = devices.iter().map(|name| AllocatedDevice {
        id: (text(driver), text("n"), text(name)),
        share: false,
        consumed: [].into(),
    });
    let allocation = Allocation { devices: has.collect(), ..Allocation::default() };
    let allocation = Some(Arc::new(allocation));
    Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim("c", false, spec(1)) })
}

#[test]
fn devices_of_claims_count_once_in_a_workload() {
    let (requests, claims) = (amounts(&[("cpu", 1_000)]), vec![PodClaim::Named(key("c"))]);
    let shape = Arc::new(PodShape { requests, claims, ..PodShape::default() });
    let mut engine = Engine::new();
    let mut facts = ground("cpu", &[]);
    facts.push(given("gpu.nvidia.com", &["g0", "g1"]));
    for mut member in gang("g", 2, Some(2), &shape, &in_queue(Some("main"))) {
        member.claims = Some(Arc::new(vec![text("c")]));
        facts.push(runs(member, "cpu", at(0)));
    }
    engine.step(at(0), facts);
    assert_eq!(milli(&engine), 2_000);
    assert_eq!(account(&engine).runs_out(), Some(at(60)));
    engine.step(at(30), vec![given("gpu.nvidia.com", &["g0"])]);
    assert_eq!((milli(&engine), account(&engine).gpu_seconds()), (1_000, 3_600));
    engine.step(at(30), vec![given("nic.example.com", &["g0"])]);
    assert_eq!(milli(&engine), 0, "no GPU");
    engine.step(at(30), vec![given("gaudi.intel.com", &["g0"])]);
    assert_eq!(milli(&engine), 1_000);
    engine.step(at(30), vec![Input::ResourceClaimGone(key("c"))]);
    assert_eq!(milli(&engine), 0);
}

#[test]
fn devices_of_a_pods_own_claim_count_for_an_engine_that_did_not_give_them() {
    let claims = vec![PodClaim::Own { name: text("r"), spec: spec(2) }];
    let shape = PodShape { requests: amounts(&[("cpu", 1_000)]), claims, ..PodShape::default() };
    let mut asks = pod("first", &Arc::new(shape), &in_queue(Some("main")));
    asks.claims = Some(Arc::new(vec![text("c")]));
    let mut facts = ground("cpu", &[]);
    facts.extend([given("gpu.nvidia.com", &["g0", "g1"]), runs(asks, "cpu", at(0))]);
    let mut engine = Engine::new();
    engine.step(at(0), facts);
    assert_eq!(milli(&engine), 2_000);
}

#[test]
fn devices_for_extended_resources_count_where_no_name_tells_them() {
    for (resource, want) in [("deviceclass.resource.kubernetes.io/gpu", 1_000), (GPU, 2_000)] {
        let claim = ExtendedClaim {
            spec: ClaimSpec::clone(&spec(2)),
            resources: vec![text(resource)],
            classes: vec![text("gpu")],
            ..ExtendedClaim::default()
        };
        let claims = vec![PodClaim::Extended { claim: Arc::new(claim), left: false }];
        let shape = PodShape { requests: amounts(&[(resource, 2)]), claims, ..PodShape::default() };
        let mut asks = pod("first", &Arc::new(shape), &in_queue(Some("main")));
        asks.claims = Some(Arc::new(vec![text("c")]));
        let mut facts = ground(resource, &[]);
        facts.extend([given("gpu.nvidia.com", &["g0"]), runs(asks, resource, at(0))]);
        let mut engine = Engine::new();
        engine.step(at(0), facts);
        assert_eq!(milli(&engine), want, "{resource}");
    }
}
