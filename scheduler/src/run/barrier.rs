//! What a new leader waits for before it decides: that its watches show what the leader before it
//! did last.
//!
//! Problem: a leader that is asked to end gives the lease back when its last bind was answered. A
//! standby has the lease a moment later, but its watches may be behind: a node or quota that seems
//! free was just given away, and would be given again.
//!
//! Wanted: nothing is decided on what is known to be old; a take-over stays far below a second;
//! a watch in which nothing happens (it shows no version to compare) holds up nobody for long.
//!
//! Phases: with the lease in hand, the API server is asked once for each kind that counts (pods
//! for nodes and quota, Jobs and other owners for who is resumed or suspended, claims on devices,
//! and what they are given from, where these are served) which version it is at. That is a
//! consistent read: whatever was answered before it has a lower version, and a server that answers
//! it from its cache has that in its cache by then. Versions of a server can be compared as
//! numbers. Then a kind has caught up as soon as
//!
//! - its watch showed that version or a later one: watches show changes in order; or
//! - its watch showed nothing for [`QUIET`]: the server had everything to send when it answered, so
//!   that a silent watch has nothing that it owes us. What is late arrives, and begins the wait
//!   anew.
//!
//! The silence of a watch says nothing where its connection died in silence. So the server is asked
//! on that same connection ([`crate::client`]): its answer shows that this is alive, and comes
//! after all that was sent on it before. Who gets none waits until the connection is given up, and
//! the watch resumed on another, for [`ANSWER_MAX`] in all; silence then counts from there on. A
//! server without HTTP/2 has a connection for each request, which shows less.
//!
//! After [`MOST`] the leader goes on all the same and says so: a bind that is wrong then is refused
//! by the API server where the pod is bound already, and waits of a second would be felt.
//!
//! A leader that gives the lease back writes down for how long it had changed nothing
//! (`capstan.sh/idle`): the silence of a watch counts from its last change on, so that the next
//! one goes on at once after a leader that was idle, as most are when they are updated. One that
//! was killed gives nothing back; its lease runs out seconds after its last write.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout_at};

use crate::client;
use crate::gangs::kinds::Kind as Owner;
use crate::live::{Kind, Object, Seen};
use crate::read::kinds::DeviceKind;
use crate::watch;

/// A watch that shows nothing for so long has nothing to show: on a busy server, watches were
/// tens of milliseconds behind.
pub const QUIET: Duration = Duration::from_millis(200);
/// Longest wait.
pub const MOST: Duration = Duration::from_millis(500);

/// How long the API server has to say where it is: longer than it takes until a dead connection of
/// a watch is known as such. An answer usually takes milliseconds.
const ANSWER_MAX: Duration = Duration::from_secs(25);
/// The same for kinds of other projects: webhooks of theirs, which may hang, convert what is asked.
const OTHERS_MAX: Duration = Duration::from_secs(1);
/// How long after its connection failed a server is asked again: its watch is resumed by then.
const AGAIN: Duration = Duration::from_millis(500);

/// Kinds in which a leader's effects show and that others could be decided wrongly by: pods that
/// were bound, owners that were resumed or suspended, claims that were allocated. What claims are
/// allocated from counts too: a claim may have a device of a slice that was not seen.
pub const COUNTED: [Kind; 15] = [
    Kind::Pod,
    Kind::Job,
    Kind::Devices(DeviceKind::Claim),
    Kind::Devices(DeviceKind::Slice),
    Kind::Devices(DeviceKind::Class),
    Kind::Gang(Owner::TrainJob),
    Kind::Gang(Owner::JobSet),
    Kind::Gang(Owner::PyTorchJob),
    Kind::Gang(Owner::TfJob),
    Kind::Gang(Owner::XgBoostJob),
    Kind::Gang(Owner::PaddleJob),
    Kind::Gang(Owner::JaxJob),
    Kind::Gang(Owner::MpiJob),
    Kind::Gang(Owner::RayJob),
    Kind::Gang(Owner::RayCluster),
];

/// The version at which the server is with each kind; `None`: the kind is not served, so that there
/// is nothing to see.
pub type Marks = BTreeMap<Kind, Option<u64>>;

/// How far the watches of the counted kinds are.
#[derive(Debug, Default)]
pub struct Progress {
    kinds: BTreeMap<Kind, Shown>,
}

#[derive(Debug)]
struct Shown {
    /// All changes up to this version were seen.
    version: u64,
    /// The newest of a list that is not complete: others of it may be missing still.
    listed: u64,
    /// When something was seen last.
    at: Instant,
}

impl Progress {
    /// Notes what an event says about how far its watch is.
    pub fn note(&mut self, seen: &Seen, now: Instant) {
        let kind = match seen {
            Seen::Listing(kind)
            | Seen::Complete(kind)
            | Seen::Absent(kind)
            | Seen::Forbidden(kind, _) => *kind,
            Seen::Listed(object) | Seen::Applied(object) | Seen::Deleted(object) => object.kind(),
        };
        if !COUNTED.contains(&kind) {
            return;
        }
        let shown = self.kinds.entry(kind).or_insert(Shown { version: 0, listed: 0, at: now });
        shown.at = now;
        match seen {
            Seen::Listing(_) => shown.listed = 0,
            Seen::Listed(object) => shown.listed = shown.listed.max(version(object)),
            Seen::Complete(_) => shown.version = shown.version.max(shown.listed),
            Seen::Applied(object) | Seen::Deleted(object) => {
                shown.version = shown.version.max(version(object));
            }
            Seen::Absent(_) | Seen::Forbidden(..) => {}
        }
    }
}

fn version(object: &Object) -> u64 {
    let meta: Option<&ObjectMeta> = match object {
        Object::Pod(pod) => Some(&pod.metadata),
        Object::Job(job) => Some(&job.metadata),
        Object::Devices(object) => Some(object.metadata()),
        Object::Broken(_, object, ..) => Some(&object.metadata),
        _ => None,
    };
    let text = match object {
        Object::Gang(_, owner) => owner["metadata"]["resourceVersion"].as_str(),
        _ => meta.and_then(|meta| meta.resource_version.as_deref()),
    };
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The versions at which the server was when the lease was ours.
#[derive(Debug)]
pub struct Barrier {
    begun: Instant,
    /// When the leader before us changed something last, at the latest.
    changed: Instant,
    marks: Marks,
}

/// What a new leader has to see after one that had changed nothing for so long, and how much of
/// that counts: nothing, if watches may have been resumed only now.
pub async fn asked(client: &Client, idle: Duration) -> (Marks, Duration) {
    let begun = tokio::time::Instant::now();
    let marks = marks(client).await;
    (marks, if begun.elapsed() < AGAIN { idle } else { Duration::ZERO })
}

/// Asks the API server which versions it is at; a kind of which it does not say has none.
async fn marks(client: &Client) -> Marks {
    let asked = COUNTED.into_iter().map(|kind| async move { (kind, mark(client, kind).await) });
    let mut marks = Marks::new();
    for (kind, mark) in join_all(asked).await {
        match mark {
            Ok(version) => drop(marks.insert(kind, version)),
            Err(why) => {
                let kind = kind.name();
                tracing::warn!(kind, why, "not known how far the watch has to come");
            }
        }
    }
    marks
}

/// The version at which the server is with a kind, in the first version of that which it serves.
async fn mark(client: &Client, kind: Kind) -> Result<Option<u64>, String> {
    let all = client.clone();
    let most = Most { within: ANSWER_MAX, always: kind.is_always_served() };
    match kind {
        Kind::Pod => latest::<Pod>(Api::all(all), most).await,
        Kind::Job => latest::<Job>(Api::all(all), most).await,
        Kind::Devices(DeviceKind::Claim) => latest::<ResourceClaim>(Api::all(all), most).await,
        Kind::Devices(DeviceKind::Slice) => latest::<ResourceSlice>(Api::all(all), most).await,
        Kind::Devices(DeviceKind::Class) => latest::<DeviceClass>(Api::all(all), most).await,
        Kind::Gang(owner) => {
            let most = Most { within: OTHERS_MAX, ..most };
            for served in watch::kinds::of_gangs(owner) {
                let api = Api::<DynamicObject>::all_with(all.clone(), &served);
                if let Some(mark) = latest(api, most).await? {
                    return Ok(Some(mark));
                }
            }
            Ok(None)
        }
        other => unreachable!("{} is not counted", other.name()),
    }
}

/// How a server is asked for its version.
#[derive(Clone, Copy)]
struct Most {
    /// For how long at most.
    within: Duration,
    /// Every server serves the kind: one that says otherwise is none, and asked again.
    always: bool,
}

/// The version of a consistent list; its one object is not looked at. `None`: no such kind is
/// served. It is asked for until the server answers, whatever that is.
async fn latest<K>(api: Api<K>, most: Most) -> Result<Option<u64>, String>
where
    K: Clone + DeserializeOwned + Debug,
{
    let one = ListParams::default().limit(1);
    let end = tokio::time::Instant::now() + most.within;
    let listed = loop {
        let listed = timeout_at(end, api.list_metadata(&one)).await;
        match listed.map_err(|_| "no answer in time".to_owned())? {
            Ok(listed) => break listed,
            Err(error) => match client::code(&error) {
                Some(404) if !most.always => return Ok(None),
                Some(404) | None => sleep(AGAIN).await,
                Some(_) => return Err(client::explain(&error)),
            },
        }
    };
    let version = listed.metadata.resource_version.unwrap_or_default();
    version.parse().map(Some).map_err(|_| format!("version {version:?} is no number"))
}

/// Whether a leader may decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Everything was seen.
    Free,
    /// Not before this moment, unless something is seen.
    Until(Instant),
    /// It was waited for long enough: watches of these kinds are still behind.
    Late(Vec<Kind>),
}

impl Barrier {
    /// From now on, after a leader that had changed nothing for so long. Kinds without a mark (the
    /// server did not say) are waited for until they are silent.
    pub fn new(marks: Marks, idle: Duration, now: Instant) -> Barrier {
        // More than it takes says no more; a clock need not go back further than that.
        let changed = now.checked_sub(idle.min(QUIET)).unwrap_or(now);
        Barrier { begun: now, changed, marks }
    }

    /// Whether the way is free.
    pub fn passage(&self, progress: &Progress, now: Instant) -> Passage {
        let most = self.begun + MOST;
        let waits = |kind: &Kind| {
            let shown = progress.kinds.get(kind);
            let mark = match self.marks.get(kind) {
                Some(mark) => (*mark)?,
                None => u64::MAX,
            };
            if shown.is_some_and(|shown| shown.version >= mark) {
                return None;
            }
            let since = shown.map_or(self.changed, |shown| shown.at.max(self.changed));
            Some(since + QUIET).filter(|until| *until > now)
        };
        let behind: Vec<(Kind, Instant)> =
            COUNTED.iter().filter_map(|kind| Some((*kind, waits(kind)?))).collect();
        match behind.iter().map(|(_, until)| *until).max() {
            None => Passage::Free,
            Some(_) if now >= most => {
                Passage::Late(behind.into_iter().map(|(kind, _)| kind).collect())
            }
            Some(until) => Passage::Until(until.min(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use std::collections::BTreeSet;

    use super::*;
    use crate::api::devices::DeviceObject;
    use crate::gangs;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    fn pod(version: u64) -> Object {
        let meta = json!({ "name": "p", "uid": "u", "resourceVersion": version.to_string() });
        let pod = json!({ "metadata": meta, "spec": { "containers": [{}] } });
        Object::Pod(serde_json::from_value(pod).expect("a pod"))
    }

    fn job(version: u64) -> Object {
        let meta = json!({ "name": "j", "uid": "v", "resourceVersion": version.to_string() });
        let template = json!({ "spec": { "containers": [{}] } });
        let job = json!({ "metadata": meta, "spec": { "template": template } });
        Object::Job(serde_json::from_value(job).expect("a Job"))
    }

    fn claim(version: u64) -> Object {
        let meta = json!({ "name": "c", "uid": "w", "resourceVersion": version.to_string() });
        let claim = json!({ "metadata": meta, "spec": {} });
        let claim = serde_json::from_value(claim).expect("a claim");
        Object::Devices(Box::new(DeviceObject::Claim(claim)))
    }

    /// Of a server that serves no kinds of devices.
    fn marks_of_old() -> Marks {
        let served = |kind: &Kind| matches!(kind, Kind::Pod | Kind::Job);
        COUNTED.into_iter().map(|kind| (kind, served(&kind).then_some(100))).collect()
    }

    fn barrier(now: Instant) -> Barrier {
        Barrier::new(marks_of_old(), Duration::ZERO, now)
    }

    /// Pods and Jobs were seen beyond their marks.
    fn caught_up(now: Instant) -> Progress {
        let mut progress = Progress::default();
        progress.note(&Seen::Applied(pod(105)), now);
        progress.note(&Seen::Applied(job(105)), now);
        progress
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_has_seen_the_version_of_the_server_goes_on_at_once() {
        let now = Instant::now();
        let mut progress = Progress::default();
        progress.note(&Seen::Applied(pod(99)), now);
        progress.note(&Seen::Deleted(job(100)), now);
        assert_eq!(barrier(now).passage(&progress, now), Passage::Until(now + QUIET));
        progress.note(&Seen::Applied(pod(105)), now);
        assert_eq!(barrier(now).passage(&progress, now), Passage::Free);
    }

    #[test]
    fn claims_slices_and_classes_are_waited_for_where_they_are_served() {
        let now = Instant::now();
        for of in [DeviceKind::Claim, DeviceKind::Slice, DeviceKind::Class] {
            let progress = caught_up(now);
            assert_eq!(barrier(now).passage(&progress, now), Passage::Free, "not served");
            let mut marks = marks_of_old();
            marks.insert(Kind::Devices(of), Some(100));
            let barrier = Barrier::new(marks, Duration::ZERO, now);
            assert_eq!(barrier.passage(&progress, now), Passage::Until(now + QUIET), "{of:?}");
        }
        let mut marks = marks_of_old();
        marks.insert(Kind::Devices(DeviceKind::Claim), Some(100));
        let barrier = Barrier::new(marks, Duration::ZERO, now);
        let mut progress = caught_up(now);
        progress.note(&Seen::Applied(claim(99)), now);
        assert_eq!(barrier.passage(&progress, now), Passage::Until(now + QUIET));
        progress.note(&Seen::Applied(claim(100)), now);
        assert_eq!(barrier.passage(&progress, now), Passage::Free);
    }

    #[test]
    fn owners_that_can_be_resumed_are_waited_for_where_they_are_served() {
        let rows = gangs::kinds::TABLE.iter().filter(|row| row.suspend.is_some());
        let suspended: BTreeSet<Kind> = rows.map(|row| Kind::Gang(row.kind)).collect();
        let counted = COUNTED.into_iter().filter(|kind| matches!(kind, Kind::Gang(_)));
        assert_eq!(counted.collect::<BTreeSet<_>>(), suspended);
        let now = Instant::now();
        let mut marks = marks_of_old();
        marks.insert(Kind::Gang(Owner::JobSet), Some(100));
        let barrier = Barrier::new(marks, Duration::ZERO, now);
        let mut progress = caught_up(now);
        let owner = |version: u64| {
            let meta = json!({ "name": "s", "resourceVersion": version.to_string() });
            Object::Gang(Owner::JobSet, Box::new(json!({ "metadata": meta })))
        };
        progress.note(&Seen::Applied(owner(99)), now);
        assert_eq!(barrier.passage(&progress, now), Passage::Until(now + QUIET));
        progress.note(&Seen::Applied(owner(100)), now);
        assert_eq!(barrier.passage(&progress, now), Passage::Free);
    }

    #[test]
    fn silent_watches_owe_nothing_and_late_ones_are_waited_for_anew() {
        let now = Instant::now();
        let mut progress = Progress::default();
        let barrier = barrier(now);
        assert_eq!(barrier.passage(&progress, now), Passage::Until(now + QUIET));
        let late = now + QUIET - MS;
        progress.note(&Seen::Applied(pod(98)), late);
        assert_eq!(barrier.passage(&progress, now + QUIET), Passage::Until(late + QUIET));
        assert_eq!(barrier.passage(&progress, late + QUIET), Passage::Free);
    }

    #[test]
    fn silence_counts_from_the_last_change_of_a_leader_that_said_when_it_was() {
        let now = Instant::now() + MOST;
        let after = |idle| Barrier::new(marks_of_old(), idle, now);
        let mut progress = Progress::default();
        assert_eq!(after(QUIET).passage(&progress, now), Passage::Free);
        assert_eq!(after(Duration::MAX).passage(&progress, now), Passage::Free);
        let half = QUIET / 2;
        assert_eq!(after(half).passage(&progress, now), Passage::Until(now + half));
        // A watch that has just shown something may have more on its way.
        progress.note(&Seen::Applied(pod(99)), now - MS);
        assert_eq!(after(QUIET).passage(&progress, now), Passage::Until(now - MS + QUIET));
    }

    #[test]
    fn watches_that_stay_behind_are_named_after_the_longest_wait() {
        let now = Instant::now();
        let mut progress = Progress::default();
        let barrier = barrier(now);
        let last = now + MOST - MS;
        progress.note(&Seen::Applied(pod(99)), last);
        assert_eq!(barrier.passage(&progress, last), Passage::Until(now + MOST));
        assert_eq!(barrier.passage(&progress, now + MOST), Passage::Late(vec![Kind::Pod]));
    }

    #[test]
    fn half_of_a_list_proves_nothing() {
        let now = Instant::now();
        let mut progress = Progress::default();
        progress.note(&Seen::Applied(job(100)), now);
        progress.note(&Seen::Listing(Kind::Pod), now);
        progress.note(&Seen::Listed(pod(120)), now);
        assert_ne!(barrier(now).passage(&progress, now), Passage::Free);
        // The connection broke: the list begins anew, and what it named before does not count.
        progress.note(&Seen::Listing(Kind::Pod), now);
        progress.note(&Seen::Complete(Kind::Pod), now);
        assert_ne!(barrier(now).passage(&progress, now), Passage::Free);
        progress.note(&Seen::Listed(pod(120)), now);
        progress.note(&Seen::Complete(Kind::Pod), now);
        assert_eq!(barrier(now).passage(&progress, now), Passage::Free);
    }

    #[test]
    fn a_server_that_does_not_say_is_waited_for_until_it_is_silent() {
        let now = Instant::now();
        let mut progress = Progress::default();
        progress.note(&Seen::Applied(pod(7)), now);
        let barrier = Barrier::new(BTreeMap::new(), Duration::ZERO, now);
        assert_eq!(barrier.passage(&progress, now), Passage::Until(now + QUIET));
        assert_eq!(barrier.passage(&progress, now + QUIET), Passage::Free);
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_is_asked_for_one_object_of_each_kind_and_not_for_long() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            assert!(query.contains("limit=1"), "{query}");
            assert!(!query.contains("resourceVersion"), "what is newest: {query}");
            if path.ends_with("/jobs") {
                std::future::pending::<()>().await;
            }
            let older = path == "/apis/kubeflow.org/v2beta1/mpijobs";
            if older || path.ends_with("/deviceclasses") || path.ends_with("/rayjobs") {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": 404, "reason": "NotFound", "message": "no such resource" });
                let body = Body::from(status.to_string().into_bytes());
                return Ok::<_, BoxError>(Response::builder().status(404).body(body)?);
            }
            let list = json!({ "kind": "PartialObjectMetadataList", "apiVersion":
                "meta.k8s.io/v1", "metadata": { "resourceVersion": "4711" }, "items": [] });
            let body = Body::from(list.to_string().into_bytes());
            Ok::<_, BoxError>(Response::builder().status(200).body(body)?)
        });
        let client = Client::new(service, "default");
        let begun = tokio::time::Instant::now();
        let says = |kind: &Kind| match kind {
            Kind::Devices(DeviceKind::Class) | Kind::Gang(Owner::RayJob) => None,
            _ => Some(4711),
        };
        let wanted = COUNTED.into_iter().map(|kind| (kind, says(&kind)));
        let wanted: Marks = wanted.filter(|(kind, _)| *kind != Kind::Job).collect();
        assert_eq!(marks(&client).await, wanted);
        assert!(begun.elapsed() <= ANSWER_MAX + MS, "{:?}", begun.elapsed());
    }

    /// A server that answers with lists where it does not fail, and how often it was asked.
    fn server(fails: impl Fn(usize) -> Fails + Send + 'static) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let kept = asked.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let fails = fails(kept.fetch_add(1, Ordering::Relaxed));
            async move {
                let list = json!({ "kind": "PartialObjectMetadataList", "apiVersion":
                    "meta.k8s.io/v1", "metadata": { "resourceVersion": "4711" }, "items": [] });
                let refused = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": 403, "reason": "Forbidden", "message": "not you" });
                let (code, says) = match fails {
                    Fails::Not => (200, list),
                    Fails::ToConnect => return Err::<_, BoxError>("no connection".into()),
                    Fails::For(long) => {
                        sleep(long).await;
                        (200, list)
                    }
                    Fails::Us => (403, refused),
                };
                let body = Body::from(says.to_string().into_bytes());
                Ok(Response::builder().status(code).body(body)?)
            }
        });
        (Client::new(service, "default"), asked)
    }

    /// How a server fails.
    enum Fails {
        Not,
        ToConnect,
        For(Duration),
        Us,
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_answered_at_once_goes_by_what_the_leader_before_said() {
        let (client, asked_for) = server(|_| Fails::Not);
        let (marks, idle) = asked(&client, QUIET).await;
        assert_eq!((marks.len(), idle), (COUNTED.len(), QUIET));
        assert_eq!(asked_for.load(Ordering::Relaxed), COUNTED.len());
        // Who may not ask is answered, too.
        let (client, asked_for) = server(|_| Fails::Us);
        assert_eq!(asked(&client, QUIET).await, (Marks::new(), QUIET));
        assert_eq!(asked_for.load(Ordering::Relaxed), COUNTED.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_fails_proves_nothing_and_the_server_is_asked_on_another() {
        let (client, _) = server(|at| if at == 0 { Fails::ToConnect } else { Fails::Not });
        let begun = tokio::time::Instant::now();
        let (marks, idle) = asked(&client, QUIET).await;
        let wanted: Marks = COUNTED.map(|kind| (kind, Some(4711))).into();
        assert_eq!(marks, wanted);
        assert_eq!(idle, Duration::ZERO, "the watch was resumed a moment ago");
        let took = begun.elapsed();
        assert!(took >= AGAIN && took < AGAIN * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_comes_is_waited_for() {
        let long = Duration::from_secs(20);
        let (client, _) = server(move |at| if at == 2 { Fails::For(long) } else { Fails::Not });
        let begun = tokio::time::Instant::now();
        let (marks, idle) = asked(&client, QUIET).await;
        assert_eq!((marks.len(), idle), (COUNTED.len(), Duration::ZERO));
        assert!(begun.elapsed() >= long, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_of_other_projects_that_are_not_given_are_not_waited_for_as_long() {
        let long = Duration::from_secs(20);
        let (client, _) = server(move |at| if at >= 5 { Fails::For(long) } else { Fails::Not });
        let begun = tokio::time::Instant::now();
        let (marks, _) = asked(&client, QUIET).await;
        assert!(marks.keys().all(|kind| !matches!(kind, Kind::Gang(_))) && marks.len() == 5);
        assert!(begun.elapsed() <= OTHERS_MAX + MS, "{:?}", begun.elapsed());
    }
}
