//! Effects against an API server in memory, with every fault that a connection has.

mod bind;
mod bounds;
mod claims;
mod evict;
mod outlive;
mod owner;
mod random;
mod rates;
mod server;
mod special;
mod tolerate;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::input::{BindingNote, RequeueNote, Text};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{
    Action, Effect, EffectId, EffectResult, OwnerRef, PodRef, Precondition, Preemption,
    PreemptionReason,
};
use capstan_core::time::{Span, Time};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Answer, Executor, Limits, Means};
use crate::client::bucket::Bucket;
use crate::clock::Clock;
use crate::lease::Leadership;
use server::{Fault, Server};

/// An executor and everything around it.
struct Bench {
    executor: Executor,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Bench {
    fn new(server: &Server, leadership: Leadership, limits: Limits) -> Bench {
        Bench::at(server, leadership, limits, Bucket::unlimited())
    }

    /// One that keeps to a rate.
    fn at(server: &Server, leadership: Leadership, limits: Limits, rate: Bucket) -> Bench {
        let answers: Arc<Mutex<Vec<Answer>>> = Arc::default();
        let kept = answers.clone();
        let means = Means {
            writes: server.client(),
            rate,
            leadership,
            answers: Arc::new(move |answer| kept.lock().push(answer)),
            clock: Clock::start(),
        };
        Bench { executor: Executor::new(means, limits), answers }
    }

    fn alone(server: &Server) -> Bench {
        Bench::new(server, Leadership::alone(), Limits::default())
    }

    /// Waits for all answers, in the order in which they came.
    async fn answers(&self) -> Vec<Answer> {
        assert_eq!(self.executor.drain(Duration::from_secs(3_600)).await, 0);
        self.answers.lock().clone()
    }
}

/// Carries one effect out; its one answer.
async fn carry(server: &Server, action: Action) -> EffectResult {
    carry_by(server, Leadership::alone(), action).await
}

async fn carry_by(server: &Server, leadership: Leadership, action: Action) -> EffectResult {
    let bench = Bench::new(server, leadership, Limits::default());
    bench.executor.dispatch(vec![effect(1, action)]);
    let answers = bench.answers().await;
    assert_eq!(answers.len(), 1, "exactly one answer: {answers:?}");
    answers[0].result.clone()
}

/// An effect with the engine's own time limit.
fn effect(id: u64, action: Action) -> Effect {
    Effect {
        id: EffectId(id),
        workload: "a/w".into(),
        decided: Time(0),
        patience: Span::seconds(30),
        precondition: Precondition::Uid(uid(&action)),
        completes: false,
        action,
    }
}

fn uid(action: &Action) -> Text {
    match action {
        Action::Bind { pod, .. } | Action::Evict { pod, .. } => pod.uid.clone(),
        Action::SuspendOwner { owner, .. } | Action::ResumeOwner { owner, .. } => owner.uid.clone(),
        Action::AddTolerations { pod, .. }
        | Action::SelectVolumes { pod, .. }
        | Action::AllocateClaims { pod, .. }
        | Action::ReleaseClaims { pod, .. } => pod.uid.clone(),
        // It is known by its name alone.
        Action::Deactivate { name, .. } => name.clone(),
        other => panic!("no uid in {other:?}"),
    }
}

fn pod(name: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": { "namespace": "a", "name": name, "uid": format!("uid-{name}") },
        "spec": { "containers": [{}] },
    })
}

fn pod_ref(name: &str) -> PodRef {
    PodRef { namespace: "a".into(), name: name.into(), uid: format!("uid-{name}").into() }
}

fn job(name: &str, suspended: bool) -> Value {
    json!({
        "kind": "Job",
        "metadata": { "namespace": "a", "name": name, "uid": format!("uid-{name}") },
        "spec": { "suspend": suspended, "template": { "spec": { "containers": [{}] } } },
    })
}

fn owner_ref(name: &str) -> OwnerRef {
    OwnerRef {
        kind: "Job".into(),
        namespace: "a".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    }
}

fn note() -> BindingNote {
    BindingNote {
        flavors: std::collections::BTreeMap::from([("cpu".into(), "spot".into())]).into(),
        admitted_at: Some(Time(1_767_268_800_000)),
        price: Some(MicroUsd(12_250_000)),
        workload: Some("w".into()),
        queue: Some("q".into()),
        began_with: None,
    }
}

fn preemption() -> Preemption {
    Preemption {
        victim: "a/victim".into(),
        preemptor: "b/winner".into(),
        reason: PreemptionReason::InCohortReclamation,
        victim_priority: 1,
        preemptor_priority: 2,
        frees: Vec::new(),
        lost: Span(0),
        lost_cost: None,
        cohort: None,
        overspent: None,
        bars: None,
    }
}

/// The stop of who makes room for nobody.
fn stop() -> Preemption {
    let waited = Span::minutes(5);
    let reason = PreemptionReason::PodsReadyTimeout { have: 1, need: 2, waited };
    Preemption { preemptor: "a/victim".into(), reason, ..preemption() }
}

fn requeue() -> Box<RequeueNote> {
    Box::new(RequeueNote { at: Time(1_767_268_800_000), unready: 1, ..RequeueNote::default() })
}

fn bind(name: &str) -> Action {
    Action::Bind { pod: pod_ref(name), node: "n1".into(), note: note() }
}

fn evict(name: &str) -> Action {
    Action::Evict { pod: pod_ref(name), preemption: preemption(), alone: false }
}

fn suspend(name: &str) -> Action {
    Action::SuspendOwner { owner: owner_ref(name), preemption: preemption(), requeue: requeue() }
}

fn resume(name: &str) -> Action {
    Action::ResumeOwner { owner: owner_ref(name), note: note() }
}

/// The words of a refusal or a conflict.
fn words(result: &EffectResult) -> (&'static str, &str) {
    match result {
        EffectResult::Refused(why) => ("refused", why),
        EffectResult::Conflict(why) => ("conflict", why),
        other => panic!("{other:?}"),
    }
}
