//! An API server in memory for what people are shown.
//!
//! Answers as a real one does: with the whole object, and with what it adds to it, above all who
//! wrote which field. Knows only what was made since it last forgot, so that its own memory is not
//! taken for that of who is measured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    made: usize,
}

/// The server; clones share it.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<State>>);

impl Answers {
    /// A client of it; needs a runtime.
    pub fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "team")
    }

    /// Workloads that were made.
    pub fn made(&self) -> usize {
        self.state().made
    }

    /// Forgets all objects.
    pub fn forget(&self) {
        self.state().objects.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (code, answer) = self.answer(&parts.method, parts.uri.path(), body);
        let answer = Body::from(answer.to_string().into_bytes());
        Ok(Response::builder().status(code).body(answer)?)
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut state = self.state();
        if *method == Method::POST && path.ends_with("/events") {
            return (201, body);
        }
        if *method == Method::POST {
            state.made += 1;
            let object = made(body, state.made);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            state.objects.insert(format!("{path}/{name}"), object.clone());
            return (201, object);
        }
        if *method == Method::GET && path.ends_with("/workloads") {
            let list = json!({"kind": "WorkloadList", "apiVersion": "capstan.sh/v1alpha1",
                "metadata": {"resourceVersion": "1"}, "items": []});
            return (200, list);
        }
        let path = path.trim_end_matches("/status").to_owned();
        if *method == Method::GET && path.contains("queues/") {
            // It is there, and nothing was ever written to its status.
            let name = path.rsplit('/').next().unwrap_or_default();
            let queue = json!({"metadata": {"name": name}, "spec": {"clusterQueue": "any"}});
            return (200, state.objects.entry(path.clone()).or_insert(queue).clone());
        }
        match state.objects.get_mut(&path) {
            Some(object) => {
                merge(object, &body);
                (200, object.clone())
            }
            None => (
                404,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "not found", "reason": "NotFound", "code": 404}),
            ),
        }
    }
}

/// An object as it is once it was made.
fn made(mut object: Value, number: usize) -> Value {
    let meta = &mut object["metadata"];
    meta["uid"] = json!(format!("{number:08x}-1b2c-4d3e-0007-000000000000"));
    meta["resourceVersion"] = json!((1_000_000 + number).to_string());
    meta["creationTimestamp"] = json!("2026-01-01T00:00:02Z");
    meta["generation"] = json!(1);
    let managed = |subresource: &str| {
        let field = |at: usize| (format!("f:field-number-{at}"), json!({}));
        let fields: serde_json::Map<String, Value> = (0..30).map(field).collect();
        json!({"manager": "capstan", "operation": "Update", "apiVersion": "capstan.sh/v1alpha1",
            "time": "2026-01-01T00:00:02Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:part": fields}, "subresource": subresource})
    };
    meta["managedFields"] = json!([managed(""), managed("status")]);
    object
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("made one");
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            value => merge(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}
