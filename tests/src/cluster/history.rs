//! What became of every pod of a cluster, as a watch on the API showed it, to be looked at
//! afterwards state by state.
//!
//! One watch of one kind shows each change once and in the order in which it happened, so a
//! replay passes through every state that the API ever had. When a watch breaks (the API server
//! is stopped, its history compacted) the pods are listed anew: what nobody could see is not in
//! it. Nothing here comes from Capstan.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::plane::ControlPlane;
use super::trouble::Result;

/// How soon pods are listed again when the API server does not answer.
const AGAIN: Duration = Duration::from_millis(50);
/// The label by which a Job's pods name it.
const JOB: &str = "batch.kubernetes.io/job-name";
/// The label by which bare pods name their gang.
const GANG: &str = "capstan.sh/gang";

/// A pod at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The Job that it belongs to, else the gang that it names; empty: neither.
    pub gang: String,
    /// Who places it.
    pub scheduler: String,
    /// Where it was bound.
    pub node: Option<String>,
    /// Its phase.
    pub phase: String,
    /// GPUs that it asks.
    pub gpus: i64,
    /// What it says of its waiting.
    pub waits: Option<String>,
}

impl Seen {
    /// Whether it holds what it asks: bound, and not ended.
    pub fn holds(&self) -> bool {
        self.node.is_some() && !["Succeeded", "Failed"].contains(&self.phase.as_str())
    }

    fn of(pod: &Pod) -> Seen {
        let labels = pod.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|all| all.get(key)).cloned();
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let containers = spec.iter().flat_map(|spec| &spec.containers);
        let gpus = containers.filter_map(|it| {
            let asked = it.resources.as_ref()?.limits.as_ref()?.get("nvidia.com/gpu")?;
            asked.0.parse::<i64>().ok()
        });
        let conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
        let mut scheduled = conditions.filter(|it| it.type_ == "PodScheduled");
        Seen {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            gang: label(JOB).or_else(|| label(GANG)).unwrap_or_default(),
            scheduler: spec.and_then(|it| it.scheduler_name.clone()).unwrap_or_default(),
            node: spec.and_then(|it| it.node_name.clone()),
            phase: status.and_then(|it| it.phase.clone()).unwrap_or_default(),
            gpus: gpus.sum(),
            waits: scheduled.next().and_then(|it| it.message.clone()),
        }
    }
}

/// All pods of a moment, by uid.
pub type Pods = BTreeMap<String, Seen>;

/// What became of one pod from a state to the next: what it was, and what it is.
pub type Became<'a> = (&'a str, Option<&'a Seen>, Option<&'a Seen>);

/// What became of the pods from a state to another.
pub fn between<'a>(before: &'a Pods, after: &'a Pods) -> Vec<Became<'a>> {
    let is = after.iter().map(|(uid, seen)| (&**uid, before.get(uid), Some(seen)));
    let gone = before.iter().filter(|(uid, _)| !after.contains_key(*uid));
    let all = is.chain(gone.map(|(uid, seen)| (&**uid, Some(seen), None)));
    all.filter(|(_, before, after)| before != after).collect()
}

#[derive(Debug)]
enum Change {
    Is(String, Seen),
    Gone(String),
    /// A list: what is not in it is gone.
    Listed(Pods),
}

impl Change {
    fn apply(&self, pods: &mut Pods) {
        match self {
            Change::Is(uid, seen) => drop(pods.insert(uid.clone(), seen.clone())),
            Change::Gone(uid) => drop(pods.remove(uid)),
            Change::Listed(all) => pods.clone_from(all),
        }
    }
}

/// All that was seen, and what it comes to, kept so that looking at it is cheap.
#[derive(Debug, Default)]
struct Past {
    changes: Vec<(Instant, Change)>,
    newest: Pods,
}

type Shared = Arc<Mutex<Past>>;

/// The watch, and all that it showed; it ends when this is dropped.
#[derive(Debug)]
pub struct History {
    begun: Instant,
    past: Shared,
    task: JoinHandle<()>,
}

impl History {
    /// Shows every state from the first list on, with its time since then.
    pub fn replay(&self, mut look: impl FnMut(Duration, &Pods)) {
        let mut pods = Pods::new();
        for (at, change) in &self.past().changes {
            change.apply(&mut pods);
            look(at.duration_since(self.begun), &pods);
        }
    }

    /// Shows what becomes of pods from each state to the next, with the time of that: what takes in
    /// a change need not look at all pods.
    pub fn replay_changes(&self, mut look: impl FnMut(Duration, &[Became<'_>])) {
        let mut pods = Pods::new();
        for (at, change) in &self.past().changes {
            let at = at.duration_since(self.begun);
            match change {
                Change::Is(uid, seen) => look(at, &[(uid, pods.get(uid), Some(seen))]),
                Change::Gone(uid) => look(at, &[(uid, pods.get(uid), None)]),
                Change::Listed(all) => look(at, &between(&pods, all)),
            }
            change.apply(&mut pods);
        }
    }

    /// Looks at the newest state.
    pub fn look<T>(&self, look: impl FnOnce(&Pods) -> T) -> T {
        look(&self.past().newest)
    }

    /// The newest state.
    pub fn now(&self) -> Pods {
        self.look(Pods::clone)
    }

    /// What time it is for a replay.
    pub fn time(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How many changes were seen.
    pub fn len(&self) -> usize {
        self.past().changes.len()
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().expect("nobody panics with it")
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ControlPlane {
    /// Watches all pods from now on.
    pub fn watch_pods(&self) -> Result<History> {
        let client = self.client()?;
        let (begun, past) = (Instant::now(), Shared::default());
        let task = self.spawn_task(watch(client, Arc::clone(&past)));
        Ok(History { begun, past, task })
    }
}

async fn watch(client: Client, past: Shared) {
    let api: Api<Pod> = Api::all(client);
    let note = |change: Change| {
        let mut past = past.lock().expect("nobody panics with it");
        change.apply(&mut past.newest);
        past.changes.push((Instant::now(), change));
    };
    loop {
        let Ok(listed) = api.list(&ListParams::default()).await else {
            sleep(AGAIN).await;
            continue;
        };
        let mut version = listed.metadata.resource_version.clone().unwrap_or_default();
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        note(Change::Listed(listed.iter().map(|pod| (uid(pod), Seen::of(pod))).collect()));
        // Watches end every few minutes without anything being lost.
        while let Ok(events) = api.watch(&WatchParams::default(), &version).await {
            pin_mut!(events);
            let mut whole = true;
            while let Some(event) = events.next().await {
                match event {
                    Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => {
                        version = pod.metadata.resource_version.clone().unwrap_or(version);
                        note(Change::Is(uid(&pod), Seen::of(&pod)));
                    }
                    Ok(WatchEvent::Deleted(pod)) => {
                        version = pod.metadata.resource_version.clone().unwrap_or(version);
                        note(Change::Gone(uid(&pod)));
                    }
                    Ok(WatchEvent::Bookmark(mark)) => version = mark.metadata.resource_version,
                    Ok(WatchEvent::Error(_)) | Err(_) => whole = false,
                }
            }
            if !whole {
                break;
            }
        }
    }
}
