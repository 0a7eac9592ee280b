//! The watcher: the same for every contender, and nothing here comes from any of them.
//!
//! One watch of pods with the slim type; each pod is noted once for each thing that happens to
//! it, with the time at which this process saw it. What the watch costs is the same for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use capstan::api::pod::Pod;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::task::JoinHandle;

/// What became of a pod, and when it was seen.
#[derive(Clone, Debug)]
pub struct Noted {
    /// Its namespace.
    pub namespace: String,
    /// When it was first seen.
    pub made: Instant,
    /// Where and when it was bound.
    pub bound: Option<(String, Instant)>,
    /// When it was seen to be ending, or gone.
    pub ending: Option<Instant>,
    /// When it was seen to be gone.
    pub gone: Option<Instant>,
}

/// All pods since the last [`Eye::forget`], by uid.
type Pods = HashMap<String, Noted>;

/// The watch; it ends when this is dropped.
pub struct Eye {
    pods: Arc<Mutex<Pods>>,
    task: JoinHandle<()>,
}

impl Eye {
    /// Watches all pods from now on. Needs a running tokio runtime.
    pub fn open(client: Client) -> Eye {
        let pods = Arc::new(Mutex::new(Pods::new()));
        let task = tokio::spawn(watch(client, Arc::clone(&pods)));
        Eye { pods, task }
    }

    /// Looks at all pods that were noted.
    pub fn look<T>(&self, look: impl FnOnce(&Pods) -> T) -> T {
        look(&self.pods.lock().expect("nobody panics with it"))
    }

    /// How many pods of a namespace are there.
    pub fn there(&self, namespace: &str) -> usize {
        self.count(|pod| pod.namespace == namespace && pod.gone.is_none())
    }

    /// How many pods of a namespace are there and bound.
    pub fn bound(&self, namespace: &str) -> usize {
        let holds = |pod: &Noted| pod.bound.is_some() && pod.ending.is_none();
        self.count(|pod| pod.namespace == namespace && holds(pod))
    }

    /// How many bound pods of a namespace were stopped.
    pub fn stopped(&self, namespace: &str) -> usize {
        let stopped = |pod: &Noted| pod.bound.is_some() && pod.ending.is_some();
        self.count(|pod| pod.namespace == namespace && stopped(pod))
    }

    fn count(&self, which: impl Fn(&Noted) -> bool) -> usize {
        self.look(|pods| pods.values().filter(|pod| which(pod)).count())
    }

    /// Forgets pods that are gone.
    pub fn forget(&self) {
        self.pods.lock().expect("nobody panics with it").retain(|_, pod| pod.gone.is_none());
    }
}

impl Drop for Eye {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(client: Client, pods: Arc<Mutex<Pods>>) {
    let api: Api<Pod> = Api::all(client);
    let events = watcher::watcher(api, watcher::Config::default());
    futures::pin_mut!(events);
    while let Some(event) = events.next().await {
        // An error is followed by another try: what it hid is listed then.
        let (pod, gone) = match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => (pod, false),
            Ok(Event::Delete(pod)) => (pod, true),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        note(&mut pods.lock().expect("nobody panics with it"), pod, gone);
    }
}

fn note(pods: &mut Pods, pod: Pod, gone: bool) {
    let now = Instant::now();
    let noted = pods.entry(pod.metadata.uid.unwrap_or_default()).or_insert_with(|| Noted {
        namespace: pod.metadata.namespace.unwrap_or_default(),
        made: now,
        bound: None,
        ending: None,
        gone: None,
    });
    let node = pod.spec.node_name.filter(|node| !node.is_empty());
    if let (None, Some(node)) = (&noted.bound, node) {
        noted.bound = Some((node, now));
    }
    if gone || pod.metadata.deletion_timestamp.is_some() {
        noted.ending.get_or_insert(now);
    }
    if gone {
        noted.gone.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some("u".to_owned());
        pod.metadata.namespace = Some("n".to_owned());
        pod.spec.node_name = Some(node.to_owned());
        pod
    }

    #[test]
    fn a_pod_is_bound_once_and_stopped_once() {
        let mut pods = Pods::new();
        note(&mut pods, pod(""), false);
        assert!(pods["u"].bound.is_none());
        note(&mut pods, pod("a"), false);
        let first = pods["u"].bound.clone();
        note(&mut pods, pod("b"), false);
        assert_eq!(pods["u"].bound, first);
        assert!(pods["u"].ending.is_none());
        note(&mut pods, pod("a"), true);
        assert!(pods["u"].gone.is_some() && pods["u"].ending.is_some());
    }
}
