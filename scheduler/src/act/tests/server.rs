//! An API server in memory: pods, Jobs, volumes, claims on both and on devices, with the faults
//! that a test asks for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};

use crate::gangs::kinds::Kind;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// This code instead of being done, with a `Retry-After` if not zero.
    Instead(u16, u64),
    /// Done, and answered with this code all the same.
    Despite(u16),
    /// The connection breaks before it is done.
    LostBefore,
    /// The connection breaks after it was done.
    LostAfter,
    /// Not done, and never answered.
    Hangs,
    /// Done, and never answered.
    HangsAfter,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    faults: VecDeque<Fault>,
    log: Vec<String>,
    bodies: Vec<Value>,
    under_way: usize,
    most: usize,
    delay: Duration,
    hook: Option<(usize, Hook)>,
}

type Hook = Box<dyn FnOnce() + Send>;

/// The server; clones share it.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

impl Server {
    /// A server with these objects; each has a `metadata` with namespace, name and uid.
    pub fn with(objects: &[Value]) -> Server {
        let server = Server::default();
        for object in objects {
            server.put(object.clone());
        }
        server
    }

    /// Creates or replaces an object.
    pub fn put(&self, mut object: Value) {
        let mut state = self.0.lock();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let name = path(&object);
        state.objects.insert(name, object);
    }

    /// The next requests meet these faults, one each; later ones none.
    pub fn faults(self, faults: &[Fault]) -> Server {
        self.0.lock().faults.extend(faults);
        self
    }

    /// Every answer takes this long.
    pub fn delay(self, delay: Duration) -> Server {
        self.0.lock().delay = delay;
        self
    }

    /// Runs something right before the request of this number (from 0) is looked at.
    pub fn before(&self, request: usize, hook: impl FnOnce() + Send + 'static) {
        self.0.lock().hook = Some((request, Box::new(hook)));
    }

    /// Requests so far: the method and the last part of the path.
    pub fn log(&self) -> Vec<String> {
        self.0.lock().log.clone()
    }

    /// The body of a request.
    pub fn body(&self, request: usize) -> Value {
        self.0.lock().bodies[request].clone()
    }

    /// Most requests that were under way at a time.
    pub fn most(&self) -> usize {
        self.0.lock().most
    }

    /// An object by `pods/NAME` or `jobs/NAME` in namespace `a`.
    pub fn get(&self, name: &str) -> Option<Value> {
        let state = self.0.lock();
        let found = state.objects.iter().find(|(path, _)| path.ends_with(&format!("/a/{name}")));
        found.map(|(_, object)| object.clone())
    }

    /// An object by the end of its path.
    pub fn find(&self, end: &str) -> Option<Value> {
        let state = self.0.lock();
        let found = state.objects.iter().find(|(path, _)| path.ends_with(end));
        found.map(|(_, object)| object.clone())
    }

    /// A client of this server that gives up after ten seconds.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| server.clone().serve(request));
        let timeout = TimeoutLayer::new(Duration::from_secs(10));
        Client::new(ServiceBuilder::new().layer(timeout).service(service), "a")
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        let (fault, delay, hook) = {
            let mut state = self.0.lock();
            let number = state.log.len();
            let last = path.rsplit('/').next().unwrap_or_default().to_owned();
            state.log.push(format!("{} {last}", parts.method));
            state.bodies.push(body.clone());
            state.under_way += 1;
            state.most = state.most.max(state.under_way);
            let hook = state.hook.take_if(|(at, _)| *at == number);
            (state.faults.pop_front().unwrap_or(Fault::None), state.delay, hook)
        };
        let _under_way = UnderWay(self.clone());
        if let Some((_, hook)) = hook {
            hook();
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match fault {
            Fault::Instead(code, seconds) => {
                let mut answer = answer(code, &json!({ "message": "a fault" }));
                if seconds > 0 {
                    answer.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
                }
                return Ok(answer);
            }
            Fault::LostBefore => return Err("connection lost".into()),
            Fault::Hangs => std::future::pending::<()>().await,
            Fault::None | Fault::Despite(_) | Fault::LostAfter | Fault::HangsAfter => {}
        };
        let (code, object) = self.0.lock().handle(parts.method.as_str(), &path, body);
        match fault {
            Fault::LostAfter => Err("connection lost".into()),
            Fault::HangsAfter => std::future::pending().await,
            Fault::Despite(code) => Ok(answer(code, &json!({ "message": "a fault" }))),
            _ => Ok(answer(code, &object)),
        }
    }
}

/// Counts a request out, however it ends.
struct UnderWay(Server);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.lock().under_way -= 1;
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let body = serde_json::to_vec(body).expect("JSON");
    Response::builder().status(code).body(Body::from(body)).expect("a response")
}

fn path(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().expect("named").to_owned();
    let (group, kinds) = match object["kind"].as_str() {
        Some("PersistentVolume") => return format!("/api/v1/persistentvolumes/{}", text("name")),
        Some("PersistentVolumeClaim") => ("api/v1".to_owned(), "persistentvolumeclaims"),
        Some("Job") => ("apis/batch/v1".to_owned(), "jobs"),
        Some("Workload") => ("apis/capstan.sh/v1alpha1".to_owned(), "workloads"),
        Some("ResourceClaim") => ("apis/resource.k8s.io/v1".to_owned(), "resourceclaims"),
        Some("DeviceClass") => {
            return format!("/apis/resource.k8s.io/v1/deviceclasses/{}", text("name"));
        }
        None | Some("Pod") => ("api/v1".to_owned(), "pods"),
        Some(other) => {
            let kind = Kind::of_key(other).expect("a kind of others");
            (format!("apis/{}", text_of(&object["apiVersion"])), kind.row().plural)
        }
    };
    format!("/{group}/namespaces/{}/{kinds}/{}", text("namespace"), text("name"))
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("a text")
}

impl State {
    fn handle(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let status = |code: u16, message: &str| (code, json!({ "message": message }));
        if method == "POST" && body["kind"] == "ResourceClaim" {
            let path = self::path(&body);
            if self.objects.contains_key(&path) {
                return status(409, "already exists");
            }
            return self.change(path, body, |claim| {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                claim["metadata"]["uid"] = json!(format!("uid-{name}"));
            });
        }
        let base = path.trim_end_matches("/binding").trim_end_matches("/status").to_owned();
        let Some(found) = self.objects.get(&base).cloned() else {
            return status(404, "not found");
        };
        match method {
            "GET" => (200, found),
            "DELETE" => {
                if body["preconditions"]["uid"] != found["metadata"]["uid"] {
                    return status(409, "the UID in the precondition does not match");
                }
                let kept = found["metadata"]["finalizers"].as_array();
                if found["kind"] == "ResourceClaim" && kept.is_none_or(Vec::is_empty) {
                    self.objects.remove(&base);
                    return (200, found);
                }
                self.change(base, found, |pod| {
                    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                })
            }
            "POST" => match binding_refused(&found, &body) {
                Some(why) => status(409, why),
                None => self.change(base, found, |pod| {
                    pod["spec"]["nodeName"] = body["target"]["name"].clone();
                    merge(&mut pod["metadata"]["annotations"], &body["metadata"]["annotations"]);
                }),
            },
            "PATCH" => {
                let stale = |key: &str| {
                    let wanted = &body["metadata"][key];
                    !wanted.is_null() && *wanted != found["metadata"][key]
                };
                if stale("resourceVersion") {
                    return status(409, "the object has been modified");
                }
                if stale("uid") {
                    return status(422, "metadata.uid: field is immutable");
                }
                self.change(base, found, |object| patch(object, &body))
            }
            other => panic!("{other} {path}"),
        }
    }

    fn change(
        &mut self,
        path: String,
        mut object: Value,
        how: impl FnOnce(&mut Value),
    ) -> (u16, Value) {
        how(&mut object);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path, object.clone());
        (200, object)
    }
}

fn binding_refused(pod: &Value, binding: &Value) -> Option<&'static str> {
    if binding["metadata"]["uid"] != pod["metadata"]["uid"] {
        return Some("Precondition failed: UID in precondition");
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Some("pod is being deleted, cannot be assigned to a host");
    }
    if !pod["spec"]["nodeName"].is_null() {
        return Some("pod is already assigned to node");
    }
    (!pod["spec"]["schedulingGates"].is_null()).then_some("non-empty .spec.schedulingGates")
}

/// A strategic merge as far as conditions go, a merge patch in everything else.
fn patch(object: &mut Value, body: &Value) {
    let mut rest = body.clone();
    let conditions = rest["status"]["conditions"].take();
    if let Some(status) = rest["status"].as_object_mut() {
        status.remove("conditions");
    }
    merge(object, &rest);
    for wanted in conditions.as_array().into_iter().flatten() {
        let all = &mut object["status"]["conditions"];
        let list = all.as_array().cloned().unwrap_or_default();
        let mut kept: Vec<Value> =
            list.into_iter().filter(|has| has["type"] != wanted["type"]).collect();
        if wanted["$patch"] != "delete" {
            kept.push(wanted.clone());
        }
        *all = Value::Array(kept);
    }
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let fields = object.as_object_mut().expect("made one above");
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
