//! What changes about what work asks while it runs and waits: configuration that says which
//! resources count against quota, and as what; LimitRanges that keep it out. What is used is what a
//! new engine would count.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Breach, ClusterQueueFacts, Input, OutOfRange, PodShape, PreemptWithin,
};
use capstan_core::plan::{Action, Effect, State, StepOutput};
use capstan_core::policy::{Policy, QuotaArgs, Transformation};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, job, local_queue, namespace, nominal,
    pod, shape, text,
};
use capstan_tests::hand::{bound, gpu_node, is_bind, one_queue, view};

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

/// What runs keeps its quota where it has it when the LocalQueue that led there is deleted, and an
/// engine that begins anew reads that on its pod.
#[test]
fn what_runs_counts_once_its_local_queue_is_gone() {
    let mut engine = Engine::new();
    let mut facts = one_queue(8);
    facts.push(gpu_node("n", 8));
    let runs = pod("runs", &shape(&[(GPU, 5)]), &in_queue(Some("main")));
    facts.push(Input::Pod(runs.clone()));
    let output = engine.step(NOW, facts);
    let mut binds = output.effects.iter().filter_map(|effect| match &effect.action {
        Action::Bind { note, .. } => Some(note.clone()),
        _ => None,
    });
    let note = binds.next().expect("it is bound");
    assert_eq!(note.queue, Some(text("main")));
    let gone = || Input::LocalQueueGone { namespace: text("team"), name: text("main") };
    engine.step(NOW, vec![gone()]);
    engine.recount();
    assert_eq!(used(&engine).1, Some(5));

    let mut bound = runs;
    (bound.node, bound.binding) = (Some(text("n")), Some(Arc::new(note)));
    let mut anew = Engine::new();
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), Input::Pod(bound.clone()), gone()]);
    anew.step(NOW, facts);
    anew.recount();
    assert_eq!(used(&anew).1, Some(5));
    anew.step(NOW, vec![Input::PodGone(bound.uid)]);
    anew.recount();
    assert_eq!(used(&anew).1, Some(0));
}

#[test]
fn what_no_longer_counts_is_given_back_and_what_counts_again_is_charged() {
    let mut engine = Engine::new();
    let quotas = [("cpu", nominal(16_000)), (GPU, nominal(8))];
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &quotas)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let asked = shape(&[("cpu", 12_000), (GPU, 8)]);
    let low = pod("low", &asked, &in_queue(Some("main")));
    let mut facts = ground(queue);
    facts.push(Input::Pod(low.clone()));
    let first = engine.step(NOW, facts);
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

/// A queue, and a node of eight GPUs.
fn ground(queue: ClusterQueueFacts) -> Vec<Input> {
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        Input::ClusterQueue(queue),
        Input::LocalQueue(local_queue("main")),
        gpu_node("n", 8),
    ]
}

#[test]
fn what_counts_as_something_else_is_charged_as_a_new_engine_would() {
    let mut engine = Engine::new();
    let quotas = [(CREDITS, nominal(1_000)), (GPU, nominal(16))];
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &quotas)]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let asked = shape(&[(GPU, 8)]);
    let low = pod("low", &asked, &in_queue(Some("main")));
    let mut facts = ground(queue);
    facts.push(Input::Pod(low.clone()));
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

/// Pods bound, and owners resumed.
fn started(output: &StepOutput) -> (usize, usize) {
    let resumes = |effect: &&Effect| matches!(effect.action, Action::ResumeOwner { .. });
    let count = |of: &dyn Fn(&&Effect) -> bool| output.effects.iter().filter(of).count();
    (count(&|effect| is_bind(effect)), count(&resumes))
}

#[test]
fn what_a_limit_range_keeps_out_starts_once_it_may_and_what_runs_stays() {
    let mut engine = Engine::new();
    let fine = shape(&[(GPU, 2)]);
    let breach = Breach::RequestAboveMax { request: 2, max: 1 };
    let (range, container) = (text("small"), text("c"));
    let out = OutOfRange { range, container, resource: text(GPU), breach };
    let out_of_range = Some(Arc::new(out));
    let out = Arc::new(PodShape { out_of_range, ..PodShape::clone(&fine) });
    let queued = in_queue(Some("main"));
    let runs = pod("runs", &fine, &queued);
    let (lone, free) = (pod("lone", &out, &queued), pod("free", &out, &queued));
    let template = job("train", 1, &out, &queued);
    let mut facts = one_queue(8);
    facts.extend([gpu_node("n", 8), bound(&runs, "n"), Input::Owner(template.clone())]);
    facts.push(Input::Pod(lone.clone()));
    assert_eq!(started(&engine.step(NOW, facts)), (0, 0));
    for waits in ["lone", "train"] {
        let reason = view(&engine, waits).reason.expect("it waits");
        assert_eq!(reason.code(), "Misconfigured");
        assert!(reason.to_string().contains("above the max of 1 in LimitRange small"), "{reason}");
    }
    // Somebody else put such a pod on a node; and what runs may be of a shape that would not do.
    let mut now_out = runs.clone();
    now_out.shape = out.clone();
    let output = engine.step(NOW, vec![bound(&now_out, "n"), bound(&free, "n")]);
    engine.recount();
    assert_eq!(started(&output), (0, 0));
    assert!(!output.effects.iter().any(|it| matches!(it.action, Action::Evict { .. })));
    let states = ["runs", "free"].map(|name| view(&engine, name).state);
    assert_eq!(states, [State::Running; 2]);
    let mut lone = lone;
    lone.shape = fine.clone();
    let template = job("train", 1, &fine, &queued);
    let output = engine.step(NOW, vec![Input::Pod(lone), Input::Owner(template)]);
    assert_eq!(started(&output), (1, 1));
}

#[test]
fn a_promise_that_lacks_a_flavor_is_made_anew() {
    let mut engine = Engine::new();
    let mut queue = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(8))])]));
    queue.groups.push(group(&[(DEFAULT, &[(CREDITS, nominal(50))])]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let asked = shape(&[(GPU, 8)]);
    let low = pod("low", &asked, &in_queue(Some("main")));
    let mut high = pod("high", &asked, &in_queue(Some("main")));
    high.priority = 10;
    let mut facts = ground(queue);
    facts.extend([bound(&low, "n"), Input::Pod(high)]);
    engine.step(NOW, facts);
    assert_eq!(view(&engine, "high").state, State::Reserved);
    // Credits are of a group of their own: what runs is charged by its node, what waits is looked
    // at again.
    engine.step(NOW, vec![counting_credits(5, false)]);
    engine.recount();
    assert_eq!(used_credits(&engine), (40, 8));
    engine.step(NOW, vec![Input::PodGone(text("low"))]);
    engine.recount();
    assert_eq!(view(&engine, "high").state, State::Binding);
    assert_eq!(used_credits(&engine), (40, 8));
}
