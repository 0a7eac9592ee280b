//! The raw binder: Capstan's executors with nothing in front of them.
//!
//! A process of its own, as the others are. It lists pods that wait for it and nodes, stands by
//! for its lease as the others do, binds pod after pod to node after node, and stays until it is
//! killed, so that its processor time can be read. What it reaches is what the client, the API
//! server and the machine allow.
//!
//! Whoever decides has to watch, and each watch costs the server and the client their part of
//! every change. So there are two of it: one watches nothing; the other keeps the watches that
//! Capstan has, decodes what they bring, and throws it away.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use capstan::act::{Answer, Executor, Limits, Means};
use capstan::api::node::Node;
use capstan::api::pod::Pod;
use capstan::client::{Clients, Target};
use capstan::clock::Clock;
use capstan::config::Config;
use capstan::config::file::ClientConnection;
use capstan::lease::{Elector, Leadership, LeaseEvent, Settings};
use capstan::live::{Kind, Seen};
use capstan::watch;
use capstan_core::model::input::BindingNote;
use capstan_core::plan::{Action, Effect, EffectId, EffectResult, PodRef, Precondition};
use capstan_core::time::Span;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::gate;

/// The name by which pods wait for it.
pub const NAME: &str = "raw";
/// Events of watches on their way.
const SEEN_MAX: usize = 1_024;
/// How long all of it may take, in milliseconds.
const WITHIN: Span = Span(120_000);

/// Binds everything that waits, beside Capstan's watches or none; only comes back when something
/// failed.
pub async fn bind_all(kubeconfig: PathBuf, watching: bool) -> Result<(), String> {
    let target = Target { kubeconfig: Some(kubeconfig), context: None };
    let clients = Clients::connect(&target, &ClientConnection::default()).await?;
    let says = |error: kube::Error| error.to_string();
    if watching {
        watch_all(&clients).await?;
    }
    let nodes: Api<Node> = Api::all(clients.watches.clone());
    let nodes = nodes.list(&ListParams::default()).await.map_err(says)?;
    let nodes: Vec<Arc<str>> = nodes.iter().map(|node| node.name_any().into()).collect();
    let pods: Api<Pod> = Api::all(clients.watches.clone());
    // Whoever has a node already would be refused, and end it before others are counted.
    let mine = format!("spec.schedulerName={NAME},spec.nodeName=");
    let mine = ListParams::default().fields(&mine);
    let pods = pods.list(&mine).await.map_err(says)?;

    let leadership = lead(&clients).await?;

    let (clock, failed) = (Clock::start(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&failed);
    let answers = move |answer: Answer| {
        if answer.result != EffectResult::Done {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let means = Means {
        writes: clients.writes.clone(),
        rate: clients.rate.clone(),
        leadership,
        answers: Arc::new(answers),
        clock,
    };
    let executor = Executor::new(means, Limits::default());
    let effect = |(at, pod): (usize, &Pod)| Effect {
        id: EffectId(at as u64),
        workload: pod.name_any().into(),
        decided: clock.now(),
        patience: WITHIN,
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

/// Waits for the lease, as everybody does.
async fn lead(clients: &Clients) -> Result<Leadership, String> {
    let settings = Settings {
        namespace: gate::NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        identity: format!("{NAME}-{}", std::process::id()),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let (mut elector, leadership) = Elector::new(clients.lease.clone(), settings);
    let (leads, led) = tokio::sync::oneshot::channel();
    let mut leads = Some(leads);
    tokio::spawn(async move {
        let told = |event| {
            if matches!(event, LeaseEvent::Leading { .. }) {
                leads.take().map(|leads| leads.send(()));
            }
        };
        elector.run(told).await;
    });
    led.await.map_err(|_| "the election ended".to_owned())?;
    Ok(leadership)
}

/// Keeps the watches that Capstan has; comes back once everything was read.
async fn watch_all(clients: &Clients) -> Result<(), String> {
    let kinds: Vec<Kind> = Kind::all(&Config::default()).into_iter().collect();
    let (to, mut from) = tokio::sync::mpsc::channel(SEEN_MAX);
    let watches = watch::start(&clients.watches, &kinds, &to);
    let mut unread: BTreeSet<Kind> = kinds.into_iter().collect();
    while !unread.is_empty() {
        match from.recv().await.ok_or("the watches ended")? {
            Seen::Complete(kind) | Seen::Absent(kind) => unread.remove(&kind),
            _ => false,
        };
    }
    tokio::spawn(async move {
        let _watches = watches;
        while from.recv().await.is_some() {}
    });
    Ok(())
}
