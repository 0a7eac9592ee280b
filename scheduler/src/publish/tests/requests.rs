//! What answers of an API server mean.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tower::BoxError;

use super::*;
use crate::api::cluster_queue::CohortStatus;
use crate::publish::requests::carry_out;

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

#[tokio::test]
async fn a_pod_that_was_made_again_is_not_told_what_another_waited_for() {
    let said = || Write::Condition(Arc::new(crate::publish::pods::condition(&room(1))));
    for code in [409, 422] {
        let client = server("another", code, false, Arc::default());
        assert_eq!(carry_out(&client, &Key::Pod(pod("p")), said()).await, Answer::Gone);
    }
    let client = server("another", 500, false, Arc::default());
    assert_eq!(carry_out(&client, &Key::Pod(pod("p")), said()).await, Answer::Failed);
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
