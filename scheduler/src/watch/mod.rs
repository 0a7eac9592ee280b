//! Watches: what the API server shows, kind by kind, as [`Seen`].
//!
//! Problem: a watch ends whenever it likes; the server may have forgotten where it stood (410), be
//! down, be a different one, refuse us, or not know the kind at all, today or from tomorrow on.
//!
//! Wanted: one task for a kind, none of which can stop another; nothing is lost: whatever cannot
//! be resumed is listed anew, and a list replaces what was known ([`crate::live`]); a kind that is
//! not served is said to be [`Seen::Absent`] and asked for again, so that it is picked up when it
//! appears; a version that the server knows and cannot give (whatever converts to it is gone) gives
//! way to the next; an error is said once, not once a second; an object that cannot be read hides
//! no other (`lenient`).
//!
//! Phases of one task: list (streamed where the server can) -> follow -> on an error say so, wait
//! (longer each time), go on from where it stood or list again. `kube`'s watcher does the protocol
//! (bookmarks, resuming, 410); this decides about errors and absence.
//!
//! Cost: one connection and one decoding task a kind; objects are decoded into slim types, so that
//! what nobody reads is never allocated.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Config as Watch, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use crate::api::budget::PodDisruptionBudget;
use crate::api::classes::{Namespace, PriorityClass, RuntimeClass};
use crate::api::devices::{
    DeviceClass, DeviceObject, ResourceClaim, ResourceClaimTemplate, ResourceSlice,
};
use crate::api::job::Job;
use crate::api::limits::LimitRange;
use crate::api::meta::OnlyMeta;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::api::storage::{
    Attachment, Claim, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume,
};
use crate::client;
use crate::live::{Kind, Object, Seen, Stored};
use crate::read::kinds::{DeviceKind, Origin, Queueing, StorageKind};

pub(crate) mod kinds;
pub(crate) mod lenient;

use kinds::{MetaOf, Raw};
use lenient::Lenient;

/// First wait after an error, doubled with each further one.
const WAIT_FIRST: Duration = Duration::from_millis(100);

/// Longest wait after an error; also how soon a kind that appears is picked up.
const WAIT_MOST: Duration = Duration::from_secs(5);

/// The same for kinds of other projects: there are many, and few clusters have more than one.
const WAIT_GANGS: Duration = Duration::from_secs(30);

/// Answers in a row that are no list, after which a kind is read in another version, if it has
/// one: enough for a server that just starts, and less than two seconds.
const TRIES: u32 = 5;

/// Errors that are not said again while nothing else comes.
const TOLD_MAX: usize = 4;

/// Workloads that may not run.
const INACTIVE: &str = "spec.active=false";

/// Seconds after which the server ends a watch, and after which the client gives one up on which
/// nothing came; it is resumed where it stood. A connection that died in silence is noticed sooner
/// where it is HTTP/2 ([`crate::client`]); where it is not, nobody is blind for longer than this.
/// It is not shorter because a list that is streamed has so long, too, and one that took longer
/// would begin anew for ever.
pub const WATCH_SECONDS: u32 = 150;

/// Starts a task for each of these kinds. They end when the receiver is dropped.
pub fn start(client: &Client, kinds: &[Kind], to: &Sender<Seen>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for kind in kinds.iter().copied() {
        let (client, to) = (client.clone(), to.clone());
        match kind {
            // Those that ended as well: some of them count, and that one ended shows in the same
            // event as how. Selected by another watch, it would be gone for a moment.
            Kind::Pod => {
                let object = |pod: Pod| Object::Pod(Box::new(pod));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::Node => {
                let object = |node: Node| Object::Node(Box::new(node));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::Job => {
                let object = |job: Job| Object::Job(Box::new(job));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::PriorityClass => {
                let object = |class: PriorityClass| Object::PriorityClass(Box::new(class));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::RuntimeClass => {
                let object = |class: RuntimeClass| Object::RuntimeClass(Box::new(class));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::LimitRange => {
                let object = |range: LimitRange| Object::LimitRange(Box::new(range));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::Budget => {
                let object = |one: PodDisruptionBudget| Object::Budget(Box::new(one));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::Namespace => {
                let object = move |one: Namespace| Object::Meta(kind, Box::new(one));
                tasks.spawn(typed(client, kind, plain(), object, to));
            }
            Kind::ReplicaSet => drop(tasks.spawn(meta::<ReplicaSet>(client, kind, to))),
            Kind::StatefulSet => drop(tasks.spawn(meta::<StatefulSet>(client, kind, to))),
            Kind::Deployment => drop(tasks.spawn(meta::<Deployment>(client, kind, to))),
            Kind::Storage(of) => storage(&mut tasks, client, of, to),
            Kind::Devices(of) => devices(&mut tasks, client, (kind, of), to),
            Kind::Queueing(what, _) => {
                let watch = match what {
                    // That it is active again shows as its deletion.
                    Queueing::Workload => plain().fields(INACTIVE),
                    _ => plain(),
                };
                let versions = kinds::versions(kind).into_iter();
                let object = move |origin: Origin, value| Object::Queueing(what, origin, value);
                let versions = versions.map(|(origin, of)| (of, move |it| object(origin, it)));
                tasks.spawn(versioned(client, (kind, watch), WAIT_MOST, versions.collect(), to));
            }
            Kind::Gang(what) => {
                let versions = kinds::of_gangs(what).into_iter().map(|of| {
                    let served = of.api_version.clone();
                    (of, move |value| kinds::gang_object(what, &served, value))
                });
                tasks.spawn(versioned(client, (kind, plain()), WAIT_GANGS, versions.collect(), to));
            }
        };
    }
    tasks
}

/// Starts the task of a kind of storage.
fn storage(tasks: &mut JoinSet<()>, client: Client, kind: StorageKind, to: Sender<Seen>) {
    match kind {
        StorageKind::Claim => drop(tasks.spawn(stored::<Claim>(client, kind, to))),
        StorageKind::Volume => drop(tasks.spawn(stored::<Volume>(client, kind, to))),
        StorageKind::Class => drop(tasks.spawn(stored::<StorageClass>(client, kind, to))),
        StorageKind::Driver => drop(tasks.spawn(stored::<CsiDriver>(client, kind, to))),
        StorageKind::Node => drop(tasks.spawn(stored::<CsiNode>(client, kind, to))),
        StorageKind::Capacity => drop(tasks.spawn(stored::<StorageCapacity>(client, kind, to))),
        StorageKind::Attachment => drop(tasks.spawn(stored::<Attachment>(client, kind, to))),
    }
}

async fn stored<K>(client: Client, kind: StorageKind, to: Sender<Seen>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Stored + 'static,
{
    let object = |one: K| {
        let meta = OnlyMeta { metadata: one.meta().clone() };
        Object::Storage(kind, Box::new(meta), Box::new(one))
    };
    typed(client, Kind::Storage(kind), plain(), object, to).await;
}

/// Devices, and what claims them.
fn devices(
    tasks: &mut JoinSet<()>,
    client: Client,
    (kind, of): (Kind, DeviceKind),
    to: Sender<Seen>,
) {
    let made = |object| Object::Devices(Box::new(object));
    match of {
        DeviceKind::Slice => {
            let object = move |one: ResourceSlice| made(DeviceObject::Slice(one));
            tasks.spawn(typed(client, kind, plain(), object, to));
        }
        DeviceKind::Class => {
            let object = move |one: DeviceClass| made(DeviceObject::Class(one));
            tasks.spawn(typed(client, kind, plain(), object, to));
        }
        DeviceKind::Claim => {
            let object = move |one: ResourceClaim| made(DeviceObject::Claim(one));
            tasks.spawn(typed(client, kind, plain(), object, to));
        }
        DeviceKind::Template => {
            let object = move |one: ResourceClaimTemplate| made(DeviceObject::Template(one));
            tasks.spawn(typed(client, kind, plain(), object, to));
        }
        DeviceKind::TaintRule => {
            let object = |value: Box<Value>| kinds::taint_rule(*value);
            let versions = kinds::of_taint_rules().into_iter().map(|of| (of, object));
            tasks.spawn(versioned(client, (kind, plain()), WAIT_MOST, versions.collect(), to));
        }
    }
}

/// Whether lists are asked for as such, and not streamed.
fn lists(watch: &Watch) -> bool {
    matches!(watch.initial_list_strategy, watcher::InitialListStrategy::ListWatch)
}

fn plain() -> Watch {
    Watch::default().timeout(WATCH_SECONDS).streaming_lists()
}

async fn typed<K>(
    client: Client,
    kind: Kind,
    watch: Watch,
    object: impl Fn(K) -> Object,
    to: Sender<Seen>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (mut follower, mut wait) = (Follower::new(kind, to), WAIT_FIRST);
    let object = |one| match one {
        Lenient::Read(one) => object(one),
        Lenient::Broken(meta, path, problem) => Object::Broken(kind, meta, path, problem),
    };
    loop {
        let api = Api::<Lenient<K>>::all(client.clone());
        match follower.follow(api, watch.clone(), &object, u32::MAX).await {
            Ended::NobodyListens => return,
            // There is no other version of it.
            Ended::NotGiven { .. } => {}
            Ended::NotServed { listed } => {
                if follower.to.send(Seen::Absent(kind)).await.is_err() {
                    return;
                }
                wait = if listed { WAIT_FIRST } else { (wait * 2).min(WAIT_MOST) };
                tokio::time::sleep(wait).await;
            }
        }
    }
}

async fn meta<K>(client: Client, kind: Kind, to: Sender<Seen>)
where
    K: Resource<DynamicType = ()> + 'static,
{
    let object = |one: MetaOf<K>| Object::Meta(kind, Box::new(one.into()));
    typed(client, kind, plain(), object, to).await;
}

/// Undecoded objects, in whichever version is served and given. They are absent once no version is
/// served: between two tries nobody must take a cluster with queues for one without, nor because
/// what is there cannot be given in any version.
async fn versioned(
    client: Client,
    (kind, watch): (Kind, Watch),
    wait_most: Duration,
    versions: Vec<(ApiResource, impl Fn(Box<Value>) -> Object)>,
    to: Sender<Seen>,
) {
    let (mut follower, mut wait) = (Follower::new(kind, to), WAIT_FIRST);
    let (mut in_vain, mut passed) = (0, 0);
    let tries = if versions.len() > 1 { TRIES } else { u32::MAX };
    for (resource, object) in versions.iter().cycle() {
        let api = Api::<Raw>::all_with(client.clone(), resource);
        let object = |raw: Raw| object(Box::new(raw.value));
        match follower.follow(api, watch.clone(), &object, tries).await {
            Ended::NobodyListens => return,
            Ended::NotGiven { listed } => {
                // It is served, so that its kind is not absent.
                in_vain = 0;
                passed = if listed { 1 } else { passed + 1 };
                if passed <= versions.len() {
                    let (name, version) = (kind.name(), &resource.api_version);
                    tracing::warn!(
                        name,
                        version,
                        "watch: not given in this version, on to the next"
                    );
                }
            }
            Ended::NotServed { listed } => {
                (in_vain, wait) = if listed { (1, WAIT_FIRST) } else { (in_vain + 1, wait) };
                if in_vain < versions.len() {
                    continue;
                }
                if follower.to.send(Seen::Absent(kind)).await.is_err() {
                    return;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(wait_most);
            }
        }
    }
}

/// One task's way of following one kind.
struct Follower {
    kind: Kind,
    to: Sender<Seen>,
    /// What was said to be wrong, until nothing is.
    told: VecDeque<String>,
    /// How long it waits after the next error; as long in the next version.
    wait: Duration,
}

/// Why a kind is not followed any more.
enum Ended {
    /// Nobody listens.
    NobodyListens,
    /// It is not served; before that it was listed, or not.
    NotServed { listed: bool },
    /// It is served, and was not given in so many tries; before that it was listed, or not.
    NotGiven { listed: bool },
}

impl Follower {
    fn new(kind: Kind, to: Sender<Seen>) -> Follower {
        Follower { kind, to, told: VecDeque::new(), wait: WAIT_FIRST }
    }

    /// Follows a kind through all errors but its absence, and answers that are none so many times
    /// in a row.
    async fn follow<K>(
        &mut self,
        api: Api<K>,
        mut watch: Watch,
        object: &impl Fn(K) -> Object,
        tries: u32,
    ) -> Ended
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (mut tried, mut listed) = (0, false);
        'again: loop {
            let mut events = watcher::watcher(api.clone(), watch.clone()).boxed();
            while let Some(event) = events.next().await {
                let error = match event {
                    Ok(event) => {
                        if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_)) {
                            (tried, listed) = (0, true);
                            self.wait = WAIT_FIRST;
                            self.told.clear();
                        }
                        if self.to.send(self.seen(event, object)).await.is_err() {
                            return Ended::NobodyListens;
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                let answer = self.answer(&error, &watch);
                let news = self.say(answer, &error, api.resource_url());
                let forbidden = news && answer == Answer::Forbidden;
                if forbidden
                    && self.to.send(Seen::Forbidden(self.kind, explain(&error))).await.is_err()
                {
                    return Ended::NobodyListens;
                }
                if answer == Answer::NotServed {
                    return Ended::NotServed { listed };
                }
                let troubled = answer == Answer::Trouble && answered(&error).is_some();
                tried = if troubled { tried + 1 } else { 0 };
                if tried >= tries {
                    return Ended::NotGiven { listed };
                }
                tokio::time::sleep(self.wait).await;
                self.wait = (self.wait * 2).min(WAIT_MOST);
                match answer {
                    Answer::NotSelected => {
                        watch = plain();
                        continue 'again;
                    }
                    Answer::NoStreaming => {
                        watch.initial_list_strategy = watcher::InitialListStrategy::ListWatch;
                        continue 'again;
                    }
                    // Said by a status, not by an event: `kube` would ask for the same for ever.
                    Answer::Expired => continue 'again,
                    _ => {}
                }
            }
        }
    }

    fn seen<K>(&self, event: Event<K>, object: &impl Fn(K) -> Object) -> Seen {
        match event {
            Event::Init => Seen::Listing(self.kind),
            Event::InitApply(one) => Seen::Listed(object(one)),
            Event::InitDone => Seen::Complete(self.kind),
            Event::Apply(one) => Seen::Applied(object(one)),
            Event::Delete(one) => Seen::Deleted(object(one)),
        }
    }

    /// What an error of a watch means for this kind.
    fn answer(&self, error: &watcher::Error, watch: &Watch) -> Answer {
        match Answer::of(error) {
            // Older definitions of ours let nobody select by what is selected here, and older
            // servers know of no such thing.
            Answer::NoStreaming if lists(watch) && watch.field_selector.is_some() => {
                Answer::NotSelected
            }
            // Every API server serves it: what stands before it said so, and all that is there
            // would be taken for gone.
            Answer::NotServed if self.kind.is_always_served() => Answer::Trouble,
            answer => answer,
        }
    }

    /// Says what is wrong with what is at a path, once for each thing that is; whether it did.
    fn say(&mut self, answer: Answer, error: &watcher::Error, path: &str) -> bool {
        let text = match answer {
            Answer::NotServed => "not served; it is read once it is".to_owned(),
            Answer::NotSelected => {
                let says = explain(error);
                format!("{says}; all of them are read: apply the CRDs of this version")
            }
            // Who is not known (401) lacks no right.
            Answer::Forbidden if answered(error) == Some(403) => {
                let says = explain(error);
                format!("{says}; grant get, list and watch on it to the service account")
            }
            _ => explain(error),
        };
        if self.told.contains(&text) {
            return false;
        }
        let (kind, group) = (self.kind.name(), self.kind.group());
        match answer {
            Answer::NotServed | Answer::Expired => {
                tracing::info!(kind, group, path, "watch: {text}");
            }
            _ => tracing::warn!(kind, group, path, "watch: {text}"),
        }
        self.told.push_back(text);
        if self.told.len() > TOLD_MAX {
            self.told.pop_front();
        }
        true
    }
}

/// What an error of a watch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The kind, or its API group, is not there.
    NotServed,
    /// The server does not know the field by which objects are selected.
    NotSelected,
    /// Where the watch stood is forgotten; it is listed anew.
    Expired,
    /// We may not.
    Forbidden,
    /// The server cannot stream a list.
    NoStreaming,
    /// The server is not there, or has trouble.
    Trouble,
}

impl Answer {
    fn of(error: &watcher::Error) -> Answer {
        let initial = matches!(
            error,
            watcher::Error::InitialListFailed(_) | watcher::Error::WatchStartFailed(_)
        );
        match answered(error) {
            Some(404) => Answer::NotServed,
            Some(410) => Answer::Expired,
            Some(401 | 403) => Answer::Forbidden,
            Some(400 | 422) if initial => Answer::NoStreaming,
            _ => Answer::Trouble,
        }
    }
}

/// What an error says to people, in the server's words where there are any.
fn explain(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => client::explain(error),
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// The code of what the server answered; `None`: it did not.
pub(crate) fn answered(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => client::code(error),
        watcher::Error::WatchError(status) => Some(status.code),
        watcher::Error::NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests;
