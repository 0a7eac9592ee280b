//! What answers of an API server mean.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tower::BoxError;

use super::*;
use crate::api::cluster_queue::CohortStatus;
use crate::gangs::kinds::Kind;
use crate::publish::groups::GroupKey;
use crate::publish::requests::{carry_out, list};

/// A server that has one Workload, and refuses a patch of the object itself with this code where
/// the patch means another uid, or always.
fn server(uid: &'static str, code: u16, always: bool, log: Arc<Mutex<Vec<Method>>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            log.lock().push(parts.method.clone());
            let body: Value =
                serde_json::from_slice(&body.collect_bytes().await?).unwrap_or(Value::Null);
            let refused =
                parts.method == Method::PATCH && (always || body["metadata"]["uid"] != uid);
            let message = "metadata.uid: Invalid value: \"mine\": field is immutable";
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": message, "reason": "Invalid", "code": code});
            let object = json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "Workload",
                "metadata": {"name": "g", "namespace": "ns", "uid": uid},
                "spec": {"queueName": "found"}});
            let (code, answer) = if refused { (code, status) } else { (200, object) };
            let answer =
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, BoxError>(answer.expect("an answer"))
        }
    });
    Client::new(service, "ns")
}

#[tokio::test]
async fn a_patch_that_meets_another_object_is_not_done_and_shows_that_one() {
    let key = Key::Workload(name("g"));
    let patch = || Write::Object(json!({"metadata": {"uid": "mine"}, "spec": {"priority": 1}}));
    for code in [409, 422] {
        let log = Arc::default();
        let client = server("another", code, false, Arc::clone(&log));
        let Answer::Shows(Shown::Workload(shown)) = carry_out(&client, &key, patch()).await else {
            panic!("another object is there");
        };
        assert_eq!((shown.uid(), &*shown.unpack().spec.queue_name), (Some("another"), "found"));
        assert_eq!(*log.lock(), [Method::PATCH, Method::GET]);
        // The one that is meant, and refused for another cause: it is tried again later.
        let client = server("mine", code, true, Arc::default());
        assert_eq!(carry_out(&client, &key, patch()).await, Answer::Failed);
    }
    let client = server("mine", 409, false, Arc::default());
    assert!(matches!(carry_out(&client, &key, patch()).await, Answer::Shows(_)));
}

/// A number beyond its range: older API servers take it from whoever edits an object.
#[tokio::test]
async fn a_workload_that_cannot_be_read_hides_no_other() {
    let service = tower::service_fn(|_: Request<Body>| {
        let object = |name: &str, priority: i64| {
            json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "Workload",
                "metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"priority": priority}})
        };
        let list = json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "WorkloadList",
            "metadata": {"resourceVersion": "9"},
            "items": [object("odd", 3_000_000_000), object("g", 7)]});
        let body = Body::from(list.to_string().into_bytes());
        async move { Ok::<_, BoxError>(Response::new(body)) }
    });
    let found = list(&Client::new(service, "ns")).await.expect("a list").expect("served");
    let found: Vec<_> = found.iter().map(|(name, it)| (name, it.unpack().spec.priority)).collect();
    assert_eq!(found, [(&name("g"), 7)]);
}

#[tokio::test]
async fn a_pod_that_was_made_again_is_not_told_what_another_waited_for() {
    let said = || Write::Condition(Arc::new(crate::publish::pods::condition(&room(1))), None);
    for code in [409, 422] {
        let client = server("another", code, false, Arc::default());
        assert_eq!(carry_out(&client, &Key::Pod(pod("p")), said()).await, Answer::Gone);
    }
    let client = server("another", 500, false, Arc::default());
    assert_eq!(carry_out(&client, &Key::Pod(pod("p")), said()).await, Answer::Failed);
}

/// Who reads since when a pod waits looks at its condition's time.
#[tokio::test]
async fn a_pod_that_waits_for_something_else_waits_since_then() {
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&bodies);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let body = request.into_body().collect_bytes().await?;
            log.lock().push(serde_json::from_slice(&body).unwrap_or(Value::Null));
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p"},
                "spec": {"containers": []}});
            Ok::<_, BoxError>(Response::new(Body::from(pod.to_string().into_bytes())))
        }
    });
    let (client, key) = (Client::new(service, "ns"), Key::Pod(pod("p")));
    let says = |nodes| Arc::new(crate::publish::pods::condition(&room(nodes)));
    for write in [Write::Condition(says(1), Some(4)), Write::Reword(says(2), None)] {
        assert!(matches!(carry_out(&client, &key, write).await, Answer::Shows(Shown::Pod(_))));
    }
    let conditions: Vec<Value> =
        bodies.lock().iter().map(|body| body["status"]["conditions"][0].clone()).collect();
    let timed = |condition: &Value| condition.get("lastTransitionTime").is_some();
    assert_eq!(conditions.iter().map(timed).collect::<Vec<_>>(), [true, false], "{conditions:?}");
    assert!(conditions.iter().all(|it| it["type"] == "PodScheduled" && it["status"] == "False"));
    let seen: Vec<_> = conditions.iter().map(|it| it.get("observedGeneration").cloned()).collect();
    assert_eq!(seen, [Some(json!(4)), None], "of which version, where there are versions");
}

#[tokio::test]
async fn a_status_is_read_whatever_else_the_object_says() {
    let plain = |status: Value| {
        Client::new(
            tower::service_fn(move |_: Request<Body>| {
                let object = json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "Cohort",
                    "metadata": {"name": "all", "uid": "u"}, "status": status});
                let body = Body::from(object.to_string().into_bytes());
                async move { Ok::<_, BoxError>(Response::new(body)) }
            }),
            "ns",
        )
    };
    let key = Key::Cohort("all".into());
    let want = CohortStatus::default();
    for (status, write) in [(json!({}), Write::Read), (json!({}), Write::Status(json!({})))] {
        let answer = carry_out(&plain(status), &key, write).await;
        assert_eq!(answer, Answer::Shows(Shown::Cohort(Box::new(want.clone()))));
    }
    let share = json!({"fairSharing": {"weightedShare": 7}});
    let Answer::Shows(Shown::Cohort(shown)) = carry_out(&plain(share), &key, Write::Read).await
    else {
        panic!("it is there");
    };
    assert_eq!(shown.fair_sharing.map(|it| it.weighted_share), Some(7));
}

/// A server that has a PodGroup of this status; patches are answered with this code, and taken
/// or not. Pods that it lists have ended. It notes what it is asked.
fn with_group(code: u16, taken: bool, log: Arc<Mutex<Vec<String>>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            let form = parts.headers.get("content-type").and_then(|form| form.to_str().ok());
            let form = form.unwrap_or_default().replace("application/", "");
            log.lock().push(format!("{} {} {form}", parts.method, parts.uri).trim().to_owned());
            let body: Value =
                serde_json::from_slice(&body.collect_bytes().await?).unwrap_or(Value::Null);
            let mut object = json!({"apiVersion": "a/v1", "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "9"},
                "status": {"phase": "Pending"}});
            if parts.method == Method::PATCH && taken {
                merge(&mut object["status"], &body["status"]);
            }
            let pod = |phase: &str, group: &str| {
                json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": group}},
                    "spec": {"containers": []}, "status": {"phase": phase}})
            };
            let pods = [pod("Succeeded", "g"), pod("Failed", "g"), pod("Succeeded", "other")];
            let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {},
                "items": pods});
            let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "the object has been modified", "reason": "Conflict", "code": code});
            let (code, answer) = match () {
                () if parts.method == Method::PATCH && code != 200 => (code, refused),
                () if parts.uri.path().ends_with("/pods") => (200, list),
                () => (200, object),
            };
            let answer =
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, BoxError>(answer.expect("an answer"))
        }
    });
    Client::new(service, "ns")
}

fn group(kind: Kind) -> Key {
    let version = kind.row().versions[0].into();
    Key::Group(GroupKey { kind, version, name: name("g") })
}

#[tokio::test]
async fn the_status_of_a_group_is_written_where_its_project_has_it() {
    let patch = || Write::Status(json!({"metadata": {"uid": "u"}, "status": {"phase": "Running"}}));
    for (kind, asked) in [
        (
            Kind::UpstreamGroup,
            "PATCH /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g/status? \
             strategic-merge-patch+json",
        ),
        (
            Kind::PluginsGroup,
            "PATCH /apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/g/status? \
             merge-patch+json",
        ),
        (
            Kind::VolcanoGroup,
            "PATCH /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g? \
             merge-patch+json",
        ),
    ] {
        let log = Arc::default();
        let client = with_group(200, true, Arc::clone(&log));
        let answer = carry_out(&client, &group(kind), patch()).await;
        let Answer::Shows(Shown::Group(shown)) = answer else { panic!("{answer:?}") };
        assert_eq!((&shown.status["phase"], &*shown.resource_version), (&json!("Running"), "9"));
        assert_eq!(*log.lock(), [asked]);
    }
}

#[tokio::test]
async fn a_group_that_changed_is_read_and_one_that_takes_nothing_is_left_alone_for_a_while() {
    let patch = || Write::Status(json!({"metadata": {"uid": "u"}, "status": {"phase": "Running"}}));
    let key = group(Kind::VolcanoGroup);
    let client = with_group(409, true, Arc::default());
    let answer = carry_out(&client, &key, patch()).await;
    let Answer::Shows(Shown::Group(shown)) = answer else { panic!("{answer:?}") };
    assert_eq!(shown.status["phase"], "Pending", "what is there");
    for (code, taken) in [(404, true), (200, false), (500, true)] {
        let client = with_group(code, taken, Arc::default());
        assert_eq!(carry_out(&client, &key, patch()).await, Answer::Failed, "{code}");
    }
}

#[tokio::test]
async fn pods_that_ended_are_counted_by_their_group() {
    let log = Arc::default();
    let client = with_group(200, true, Arc::clone(&log));
    let of = async |kind: Kind| carry_out(&client, &group(kind), Write::Count).await;
    let own = Ends { succeeded: 1, failed: 1 };
    assert_eq!(of(Kind::VolcanoGroup).await, Answer::Counted(own));
    // The API server looks at labels; whatever it answers is of the group.
    let all = Ends { succeeded: 2, failed: 1 };
    assert_eq!(of(Kind::PluginsGroup).await, Answer::Counted(all));
    let asked = log.lock().join("\n");
    assert!(asked.contains("labelSelector=scheduling.x-k8s.io%2Fpod-group%3Dg"), "{asked}");
    assert_eq!(asked.matches("fieldSelector=status.phase").count(), 2, "{asked}");
}

/// A server that has a ClusterQueue of this version, whose finalizers it takes or overlooks.
fn with_queue(version: &'static str, takes: bool, log: Arc<Mutex<Vec<Method>>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            log.lock().push(parts.method.clone());
            let body: Value =
                serde_json::from_slice(&body.collect_bytes().await?).unwrap_or(Value::Null);
            let asked = &body["metadata"];
            let stale = parts.method == Method::PATCH && asked["resourceVersion"] != version;
            let mut object = json!({"apiVersion": "capstan.sh/v1alpha1", "kind": "ClusterQueue",
                "metadata": {"name": "q", "uid": "u", "resourceVersion": version,
                    "finalizers": ["a.example/b"]},
                "status": {"pendingWorkloads": 3}});
            if takes && parts.method == Method::PATCH {
                merge(&mut object["metadata"]["finalizers"], &asked["finalizers"]);
            }
            let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "the object has been modified", "reason": "Conflict", "code": 409});
            let (code, answer) = if stale { (409, conflict) } else { (200, object) };
            let answer =
                Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, BoxError>(answer.expect("an answer"))
        }
    });
    Client::new(service, "ns")
}

#[tokio::test]
async fn the_finalizer_of_a_queue_that_somebody_else_changed_is_compared_anew() {
    let key = Key::ClusterQueue("q".into());
    let all = json!(["a.example/b", crate::api::keys::IN_USE]);
    let patch = json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": all}});
    let ask = async |version, takes| {
        let log = Arc::default();
        let client = with_queue(version, takes, Arc::clone(&log));
        let answer = carry_out(&client, &key, Write::Object(patch.clone())).await;
        let asked = log.lock().clone();
        (answer, asked)
    };
    let (answer, asked) = ask("7", true).await;
    let Answer::Shows(Shown::ClusterQueue(shown)) = answer else { panic!("{answer:?}") };
    assert_eq!((shown.took(&patch), shown.status.pending_workloads), (true, 3));
    assert_eq!(asked, [Method::PATCH]);
    let (answer, asked) = ask("8", true).await;
    let Answer::Shows(Shown::ClusterQueue(shown)) = answer else { panic!("{answer:?}") };
    assert!(!shown.took(&patch), "what is there");
    assert_eq!(asked, [Method::PATCH, Method::GET]);
    assert_eq!(ask("7", false).await.0, Answer::Failed, "it is tried again later");
}
