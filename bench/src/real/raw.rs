//! The raw binder: Capstan's executors with nothing in front of them.
//!
//! A process of its own, as the others are. It lists pods that wait for it and nodes, binds pod
//! after pod to node after node, and stays until it is killed, so that its processor time can be
//! read. What it reaches is what the client, the API server and the machine allow.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capstan::act::{Answer, Executor, Limits, Means};
use capstan::api::node::Node;
use capstan::api::pod::Pod;
use capstan::client::{Clients, Target};
use capstan::clock::Clock;
use capstan::config::file::ClientConnection;
use capstan::lease::Leadership;
use capstan_core::model::input::BindingNote;
use capstan_core::plan::{Action, Effect, EffectId, EffectResult, PodRef, Precondition};
use capstan_core::time::Span;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// The name by which pods wait for it.
pub const NAME: &str = "raw";
/// How long all of it may take, in milliseconds.
const WITHIN: Span = Span(120_000);

/// Binds everything that waits; only comes back when something failed.
pub async fn bind_all(kubeconfig: PathBuf) -> Result<(), String> {
    let target = Target { kubeconfig: Some(kubeconfig), context: None };
    let clients = Clients::connect(&target, &ClientConnection::default()).await?;
    let says = |error: kube::Error| error.to_string();
    let nodes: Api<Node> = Api::all(clients.watches.clone());
    let nodes = nodes.list(&ListParams::default()).await.map_err(says)?;
    let nodes: Vec<Arc<str>> = nodes.iter().map(|node| node.name_any().into()).collect();
    let pods: Api<Pod> = Api::all(clients.watches.clone());
    let mine = ListParams::default().fields(&format!("spec.schedulerName={NAME}"));
    let pods = pods.list(&mine).await.map_err(says)?;

    let (clock, failed) = (Clock::start(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&failed);
    let answers = move |answer: Answer| {
        if answer.result != EffectResult::Done {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let means = Means {
        writes: clients.writes.clone(),
        leadership: Leadership::alone(),
        answers: Arc::new(answers),
        clock,
    };
    let executor = Executor::new(means, Limits::default());
    let effect = |(at, pod): (usize, &Pod)| Effect {
        id: EffectId(at as u64),
        workload: pod.name_any().into(),
        deadline: clock.now().plus(WITHIN),
        precondition: Precondition::Uid(pod.uid().unwrap_or_default().into()),
        completes: false,
        action: Action::Bind {
            pod: PodRef {
                namespace: pod.namespace().unwrap_or_default().into(),
                name: pod.name_any().into(),
                uid: pod.uid().unwrap_or_default().into(),
            },
            node: Arc::clone(&nodes[at % nodes.len()]),
            note: BindingNote { workload: Some(pod.name_any().into()), ..Default::default() },
        },
    };
    executor.dispatch(pods.iter().enumerate().map(effect).collect());
    let left = executor.drain(Duration::from_millis(WITHIN.0.unsigned_abs())).await;
    match left + failed.load(Ordering::Relaxed) {
        0 => std::future::pending().await,
        failed => Err(format!("{failed} of {} pods were not bound", pods.items.len())),
    }
}
