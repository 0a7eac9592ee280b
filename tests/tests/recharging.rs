//! Configuration that changes which resources count against quota, while work runs and waits for
//! victims: what is used is what a new engine would count.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{Input, PreemptWithin};
use capstan_core::plan::{Effect, State};
use capstan_core::policy::{Policy, QuotaArgs, Transformation};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, nominal, pod,
    shape, text,
};
use capstan_tests::hand::{bound, gpu_node, is_bind, view};

const NOW: Time = Time(1_000_000);

fn counting(excluded: &[&str]) -> Input {
    let excluded_prefixes = excluded.iter().map(|prefix| text(*prefix)).collect();
    let quota = QuotaArgs { excluded_prefixes, ..QuotaArgs::default() };
    Input::Policy(Arc::new(Policy { quota, ..Policy::default() }))
}

/// Each GPU counts as so many credits, beside itself or instead.
fn counting_credits(each: i128, replaces: bool) -> Input {
    let outputs = vec![(text(CREDITS), each * 1_000_000_000)];
    let of_gpus = Transformation { input: text(GPU), replaces, multiply_by: None, outputs };
    let quota = QuotaArgs { transformations: vec![of_gpus], ..QuotaArgs::default() };
    Input::Policy(Arc::new(Policy { quota, ..Policy::default() }))
}

const CREDITS: &str = "example.com/credits";

/// Used of credits and of GPUs.
fn used_credits(engine: &Engine) -> (i64, i64) {
    let queue = engine.queues().into_iter().next().expect("one queue");
    let of = |resource: &str| {
        let quotas = &queue.quotas;
        quotas.iter().find(|it| &*it.resource == resource).expect("covered").used
    };
    (of(CREDITS), of(GPU))
}

/// Used of cpu and of GPUs.
fn used(engine: &Engine) -> (Option<i64>, Option<i64>) {
    let queue = engine.queues().into_iter().next().expect("one queue");
    let of = |resource: &str| {
        let quotas = &queue.quotas;
        quotas.iter().find(|quota| &*quota.resource == resource).map(|quota| quota.used)
    };
    (of("cpu"), of(GPU))
}

#[test]
fn what_no_longer_counts_is_given_back_and_what_counts_again_is_charged() {
    let mut engine = Engine::new();
    let quotas = [("cpu", nominal(16_000)), (GPU, nominal(8))];
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &quotas)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let asked = shape(&[("cpu", 12_000), (GPU, 8)]);
    let low = pod("low", &asked, &in_queue(Some("main")));
    let first = engine.step(
        NOW,
        vec![
            namespace(),
            Input::Flavor(flavor(DEFAULT, &[])),
            Input::ClusterQueue(queue),
            Input::LocalQueue(local_queue("main")),
            gpu_node("n", 8),
            Input::Pod(low.clone()),
        ],
    );
    assert_eq!(first.effects.iter().filter(|effect: &&Effect| is_bind(effect)).count(), 1);
    let mut high = pod("high", &asked, &in_queue(Some("main")));
    high.priority = 10;
    engine.step(NOW, vec![bound(&low, "n"), Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    assert_eq!(used(&engine), (Some(12_000), Some(8)));
    // Each change is counted again with the running one's charge and the waiting one's claim.
    engine.step(NOW, vec![counting(&["cpu"])]);
    engine.recount();
    assert_eq!(used(&engine), (None, Some(8)));
    engine.step(NOW, vec![counting(&[])]);
    engine.recount();
    assert_eq!(used(&engine), (Some(12_000), Some(8)));
    engine.step(NOW, vec![counting(&["nvidia.com/"])]);
    engine.recount();
    assert_eq!(used(&engine), (Some(12_000), None));
    assert_eq!(view(&engine, "high").state, State::Reserved);
    engine.step(NOW, vec![Input::PodGone(text("low"))]);
    engine.recount();
    assert_eq!(view(&engine, "high").state, State::Binding);
    assert_eq!(used(&engine), (Some(12_000), None));
}

#[test]
fn what_counts_as_something_else_is_charged_as_a_new_engine_would() {
    let mut engine = Engine::new();
    let quotas = [(CREDITS, nominal(1_000)), (GPU, nominal(16))];
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &quotas)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let asked = shape(&[(GPU, 8)]);
    let low = pod("low", &asked, &in_queue(Some("main")));
    let facts = vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
        gpu_node("n", 8),
        Input::Pod(low.clone()),
    ];
    engine.step(NOW, facts);
    let mut high = pod("high", &asked, &in_queue(Some("main")));
    high.priority = 10;
    engine.step(NOW, vec![bound(&low, "n"), Input::Pod(high)]);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    assert_eq!(used_credits(&engine), (0, 8));
    for (each, replaces, want) in [(5, false, (40, 8)), (7, true, (56, 0)), (2, false, (16, 8))] {
        engine.step(NOW, vec![counting_credits(each, replaces)]);
        engine.recount();
        assert_eq!(used_credits(&engine), want);
        assert_eq!(view(&engine, "high").state, State::Reserved);
    }
    // Its nodes are the same: 16 credits are 8 GPUs there.
    engine.step(NOW, vec![Input::PodGone(text("low"))]);
    engine.recount();
    assert_eq!(view(&engine, "high").state, State::Binding);
    assert_eq!(used_credits(&engine), (16, 8));
    engine.step(NOW, vec![counting(&[])]);
    engine.recount();
    assert_eq!(used_credits(&engine), (0, 8));
}
