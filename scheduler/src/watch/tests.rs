//! What errors of watches mean, and what becomes of a kind through them, on servers by hand.

use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use kube::core::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{Instant, timeout};
use tower::BoxError;

use super::*;
use crate::live::Group;
use crate::read::kinds::Queueing;

fn status(code: u16) -> Box<Status> {
    // What a proxy says has no reason, so that the code has to be enough.
    Status::failure("so it is", "").with_code(code).boxed()
}

fn api(code: u16) -> kube::Error {
    kube::Error::Api(status(code))
}

#[test]
fn the_code_says_what_an_error_means_wherever_it_comes_from() {
    let table = [
        (404, Answer::NotServed),
        (410, Answer::Expired),
        (401, Answer::Forbidden),
        (403, Answer::Forbidden),
        (429, Answer::Trouble),
        (500, Answer::Trouble),
        (503, Answer::Trouble),
        (504, Answer::Trouble),
    ];
    for (code, means) in table {
        let errors = [
            watcher::Error::InitialListFailed(api(code)),
            watcher::Error::WatchStartFailed(api(code)),
            watcher::Error::WatchFailed(api(code)),
            watcher::Error::WatchError(status(code)),
        ];
        for error in errors {
            assert_eq!(Answer::of(&error), means, "{code}: {error:?}");
            assert_eq!(explain(&error), format!("so it is ({code})"));
        }
    }
}

#[test]
fn who_may_not_look_is_told_what_to_grant_and_who_is_not_known_is_not() {
    let says = |code| {
        let mut follower = Follower::new(Kind::Pod, mpsc::channel(1).0);
        let error = watcher::Error::InitialListFailed(api(code));
        assert!(follower.say(Answer::of(&error), &error, "/api/v1/pods"), "once");
        follower.told.pop_back().expect("it was said")
    };
    assert!(says(403).ends_with("; grant get, list and watch on it to the service account"));
    assert_eq!(says(401), "so it is (401)");
}

#[test]
fn only_who_is_asked_for_a_list_can_be_unable_to_stream_one() {
    for code in [400, 422] {
        let start = watcher::Error::WatchStartFailed(api(code));
        assert_eq!(Answer::of(&start), Answer::NoStreaming);
        let list = watcher::Error::InitialListFailed(api(code));
        assert_eq!(Answer::of(&list), Answer::NoStreaming);
        assert_eq!(Answer::of(&watcher::Error::WatchFailed(api(code))), Answer::Trouble);
        assert_eq!(Answer::of(&watcher::Error::WatchError(status(code))), Answer::Trouble);
    }
    let unanswered = kube::Error::LinesCodecMaxLineLengthExceeded;
    assert_eq!(Answer::of(&watcher::Error::WatchFailed(unanswered)), Answer::Trouble);
    assert_eq!(Answer::of(&watcher::Error::NoResourceVersion), Answer::Trouble);
}

/// What a server does with a request.
enum Does {
    /// Answers.
    Says(u16, Value),
    /// Begins an answer that never ends: a watch in which nothing happens.
    Watches,
}

/// A server that does as it is told for each request; and all that it was asked.
fn server(does: impl Fn(&str, usize) -> Does + Send + Sync + 'static) -> (Client, Asked) {
    let (does, asked) = (Arc::new(does), Asked::default());
    let kept = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let number = kept.lock().len();
        kept.lock().push(uri.clone());
        let done = does(&uri, number);
        async move {
            let (code, body) = match done {
                Does::Says(code, body) => (code, Body::from(body.to_string().into_bytes())),
                Does::Watches => std::future::pending().await,
            };
            Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
        }
    });
    (Client::new(service, "default"), asked)
}

type Asked = Arc<Mutex<Vec<String>>>;

fn refusal(code: u16) -> Does {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "so it is", "code": code });
    Does::Says(code, status)
}

/// A list of one Namespace.
fn list() -> Does {
    let one = json!({ "metadata": { "name": "team", "uid": "u", "resourceVersion": "7" } });
    Does::Says(
        200,
        json!({ "kind": "NamespaceList", "apiVersion": "v1",
            "metadata": { "resourceVersion": "9" }, "items": [one] }),
    )
}

fn follow(client: &Client, kind: Kind) -> (JoinSet<()>, Receiver<Seen>) {
    let (to, from) = mpsc::channel(16);
    (start(client, &[kind], &to), from)
}

/// What comes next, in a word.
async fn next(from: &mut Receiver<Seen>) -> String {
    let seen = timeout(Duration::from_secs(60), from.recv()).await.expect("in time");
    match seen.expect("the task lives") {
        Seen::Listing(kind) => format!("listing {kind}"),
        Seen::Listed(object) => format!("listed {}", object.kind()),
        Seen::Complete(kind) => format!("complete {kind}"),
        Seen::Absent(kind) => format!("absent {kind}"),
        Seen::Forbidden(kind, _) => format!("forbidden {kind}"),
        other => format!("{other:?}"),
    }
}

const STREAMED: &str = "sendInitialEvents=true";

async fn is_listed(from: &mut Receiver<Seen>) {
    for word in ["listing", "listed", "complete"] {
        assert_eq!(next(from).await, format!("{word} Namespace"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_stream_lists_is_asked_for_plain_ones() {
    for code in [400, 422] {
        let (client, asked) = server(move |uri, _| match uri {
            uri if uri.contains(STREAMED) => refusal(code),
            uri if uri.contains("watch=true") => Does::Watches,
            _ => list(),
        });
        let (_tasks, mut from) = follow(&client, Kind::Namespace);
        is_listed(&mut from).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = asked.lock().clone();
        let streamed: Vec<bool> = asked.iter().map(|uri| uri.contains(STREAMED)).collect();
        assert_eq!(streamed, [true, false, false], "asked for once, then list and watch");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_asked_again_and_ever_less_often() {
    for code in [400, 403, 404, 429, 500, 503] {
        let (client, asked) = server(move |_, _| refusal(code));
        let (_tasks, from) = follow(&client, Kind::Namespace);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let times = asked.lock().len();
        assert!((10..=25).contains(&times), "{code}: {times} times in a minute");
        drop(from);
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_says_nothing_of_what_there_is_and_passes() {
    for code in [403, 404, 429, 500] {
        let (client, _) = server(move |uri, number| match uri {
            _ if number < 3 => refusal(code),
            uri if uri.contains(STREAMED) => refusal(422),
            uri if uri.contains("watch=true") => Does::Watches,
            _ => list(),
        });
        let (_tasks, mut from) = follow(&client, Kind::Namespace);
        let mut seen = Vec::new();
        while seen.last().is_none_or(|word: &String| !word.starts_with("complete")) {
            seen.push(next(&mut from).await);
        }
        assert!(!seen.iter().any(|word| word.starts_with("absent")), "{code}: {seen:?}");
        let forbidden = seen.iter().filter(|word| word.starts_with("forbidden")).count();
        assert_eq!(forbidden, usize::from(code == 403), "said once: {seen:?}");
        assert_eq!(seen.iter().filter(|word| word.starts_with("listed")).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_not_served_is_absent_after_every_version_was_tried() {
    let kind = Kind::Queueing(Queueing::Cohort, Group::Kueue);
    let (client, asked) = server(|_, _| refusal(404));
    let (_tasks, mut from) = follow(&client, kind);
    let begun = Instant::now();
    while next(&mut from).await != "absent Cohort (kueue.x-k8s.io)" {}
    let versions = ["v1beta2", "v1beta1"];
    let tried = asked.lock().clone();
    for version in versions {
        let path = format!("/apis/kueue.x-k8s.io/{version}/cohorts");
        assert!(tried.iter().any(|uri| uri.contains(&path)), "{version} in {tried:?}");
    }
    // It is said again at each try: who asks never takes it for good.
    while next(&mut from).await != "absent Cohort (kueue.x-k8s.io)" {}
    assert!(begun.elapsed() <= 2 * WAIT_MOST, "{:?}", begun.elapsed());
}

/// As DeviceTaintRules are on a cluster of 1.36, or of 1.34.
#[tokio::test(start_paused = true)]
async fn rules_for_taints_are_read_in_the_version_that_is_served() {
    let kind = Kind::Devices(DeviceKind::TaintRule);
    for served in ["v1", "v1beta2", "v1alpha3"] {
        let (client, _) = server(move |uri, _| match uri {
            uri if !uri.contains(&format!("/apis/resource.k8s.io/{served}/devicetaintrules")) => {
                refusal(404)
            }
            uri if uri.contains(STREAMED) => refusal(422),
            uri if uri.contains("watch=true") => Does::Watches,
            _ => Does::Says(
                200,
                json!({ "kind": "DeviceTaintRuleList",
                    "apiVersion": format!("resource.k8s.io/{served}"),
                    "metadata": { "resourceVersion": "9" }, "items": [
                        taint_rule("one", &json!({ "driver": "gpu.example.com" })),
                        taint_rule("two", &json!({ "deviceClassName": "gpu" })),
                        taint_rule("three", &json!({ "driver": 3 })),
                    ] }),
            ),
        });
        let (_tasks, mut from) = follow(&client, kind);
        let mut listed = Vec::new();
        loop {
            let seen = timeout(Duration::from_secs(60), from.recv()).await.expect("in time");
            match seen.expect("the task lives") {
                Seen::Listing(_) => {}
                Seen::Listed(object) => listed.push(object),
                Seen::Complete(of) if of == kind => break,
                other => panic!("{served}: {other:?}"),
            }
        }
        let [one, two, three] = &listed[..] else { panic!("{served}: {listed:?}") };
        let Object::Devices(one) = one else { panic!("{one:?}") };
        assert_eq!(one.metadata().name.as_deref(), Some("one"));
        let broken = |object: &Object| match object {
            Object::Broken(of, meta, path, _) if *of == kind => {
                (meta.metadata.name.clone().unwrap_or_default(), path.clone())
            }
            other => panic!("{other:?}"),
        };
        let path = |field: &str| format!("spec.deviceSelector.{field}");
        assert_eq!(broken(two), ("two".to_owned(), path("deviceClassName")));
        assert_eq!(broken(three), ("three".to_owned(), path("driver")));
    }
}

fn taint_rule(name: &str, selector: &Value) -> Value {
    json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "7" },
        "spec": { "deviceSelector": selector, "taint": { "key": "k", "effect": "NoSchedule" } } })
}

/// As where what converts to the newest version is scaled down.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_served_and_not_given_gives_way_to_the_next() {
    let kind = Kind::Queueing(Queueing::Cohort, Group::Kueue);
    for code in [429, 500, 503] {
        let (client, asked) = server(move |uri, _| match uri {
            uri if uri.contains("v1beta2") => refusal(code),
            uri if uri.contains(STREAMED) => refusal(422),
            uri if uri.contains("watch=true") => Does::Watches,
            _ => list(),
        });
        let (_tasks, mut from) = follow(&client, kind);
        let begun = Instant::now();
        for word in ["listing", "listed", "complete"] {
            assert_eq!(next(&mut from).await, format!("{word} Cohort (kueue.x-k8s.io)"));
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let newest = asked.lock().iter().filter(|uri| uri.contains("v1beta2")).count();
        assert_eq!(newest, TRIES as usize, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_served_and_not_given_in_any_version_is_awaited_and_never_absent() {
    let kind = Kind::Queueing(Queueing::Cohort, Group::Kueue);
    for other in [404, 500] {
        let (client, asked) = server(move |uri, _| match uri {
            uri if uri.contains("v1beta2") => refusal(500),
            _ => refusal(other),
        });
        let (_tasks, mut from) = follow(&client, kind);
        let seen = timeout(Duration::from_secs(60), from.recv()).await;
        assert!(seen.is_err(), "{other}: {seen:?}");
        let times = asked.lock().len();
        assert!((10..=40).contains(&times), "{other}: {times} times in a minute");
    }
}

/// The next version would be listed anew, and there is nobody to ask for it.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_there_is_asked_for_the_same_version_again() {
    let kind = Kind::Queueing(Queueing::Cohort, Group::Kueue);
    let asked = Asked::default();
    let kept = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        kept.lock().push(request.uri().to_string());
        async move { Err::<Response<Body>, BoxError>("no connection".into()) }
    });
    let (_tasks, _from) = follow(&Client::new(service, "default"), kind);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = asked.lock();
    assert!(asked.len() > TRIES as usize, "{asked:?}");
    assert!(asked.iter().all(|uri| uri.contains("v1beta2")), "{asked:?}");
}

/// As with a definition of Workloads from before they could be selected by `spec.active`.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_selected_is_read_whole() {
    let kind = Kind::Queueing(Queueing::Workload, Group::Capstan);
    let (client, asked) = server(|uri, _| match uri {
        uri if uri.contains("fieldSelector=spec.active") => refusal(400),
        uri if uri.contains(STREAMED) => refusal(422),
        uri if uri.contains("watch=true") => Does::Watches,
        _ => list(),
    });
    let (_tasks, mut from) = follow(&client, kind);
    while !next(&mut from).await.starts_with("complete") {}
    let tried = asked.lock().clone();
    assert!(tried[0].contains("fieldSelector=spec.active"), "{tried:?}");
    let selected = tried.iter().filter(|uri| uri.contains("fieldSelector")).count();
    assert_eq!(selected, 2, "streamed and listed, and then no more: {tried:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_listed_anew() {
    let (client, asked) = server(|uri, number| match uri {
        uri if uri.contains(STREAMED) => refusal(422),
        // The first watch begins where the server remembers nothing any more.
        uri if uri.contains("watch=true") && number <= 2 => refusal(410),
        uri if uri.contains("watch=true") => Does::Watches,
        _ => list(),
    });
    let (_tasks, mut from) = follow(&client, Kind::Namespace);
    is_listed(&mut from).await;
    is_listed(&mut from).await;
    let lists = asked.lock().iter().filter(|uri| !uri.contains("watch=true")).count();
    assert_eq!(lists, 2);
}
