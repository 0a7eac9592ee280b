//! Objects on the API server as plain JSON, by kind.

use std::fmt::Display;

use capstan_tests::cluster::{Result, Trouble, name_of};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};

/// Kinds that clusters are made of: API version, plural, and whether they are in namespaces. What
/// is made first stands first.
pub const KINDS: [(&str, &str, &str, bool); 15] = [
    ("Namespace", "v1", "namespaces", false),
    ("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", false),
    ("Node", "v1", "nodes", false),
    ("StorageClass", "storage.k8s.io/v1", "storageclasses", false),
    ("CSIDriver", "storage.k8s.io/v1", "csidrivers", false),
    ("CSINode", "storage.k8s.io/v1", "csinodes", false),
    ("CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities", true),
    ("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", false),
    ("PersistentVolumeClaim", "v1", "persistentvolumeclaims", true),
    ("PersistentVolume", "v1", "persistentvolumes", false),
    ("DeviceClass", "resource.k8s.io/v1", "deviceclasses", false),
    ("ResourceSlice", "resource.k8s.io/v1", "resourceslices", false),
    ("ResourceClaim", "resource.k8s.io/v1", "resourceclaims", true),
    ("ResourceClaimTemplate", "resource.k8s.io/v1", "resourceclaimtemplates", true),
    ("Pod", "v1", "pods", true),
];

fn row(kind: &str) -> (&'static str, &'static str, &'static str, bool) {
    *KINDS.iter().find(|row| row.0 == kind).unwrap_or_else(|| panic!("no such kind: {kind}"))
}

/// Requests with the rights of a client.
#[derive(Clone)]
pub struct Objects(pub Client);

/// Kind, namespace and name of an object.
pub fn place(object: &Value) -> (&str, &str, &str) {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    (object["kind"].as_str().unwrap_or_default(), namespace, name_of(object))
}

fn requests(kind: &str, namespace: &str) -> Request {
    let (_, version, plural, namespaced) = row(kind);
    let group = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    Request::new(match namespaced && !namespace.is_empty() {
        true => format!("{group}/namespaces/{namespace}/{plural}"),
        false => format!("{group}/{plural}"),
    })
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

fn unasked(error: impl Display) -> Trouble {
    Trouble::new(format!("a request: {error}"))
}

fn refused(what: &str, object: &Value, error: kube::Error) -> Trouble {
    let ((kind, namespace, name), error) = (place(object), Trouble::from(error));
    Trouble::new(format!("{what} {kind} {namespace}/{name}: {error}\n{object:#}"))
}

impl Objects {
    /// Makes an object; what the API shows of it.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let (kind, namespace, _) = place(object);
        let request = requests(kind, namespace).create(&PostParams::default(), bytes(object));
        let made: kube::Result<Value> = self.0.request(request.map_err(unasked)?).await;
        let mut made = made.map_err(|e| refused("create", object, e))?;
        typed(&mut made, kind);
        Ok(made)
    }

    /// Replaces an object.
    pub async fn replace(&self, object: &Value) -> Result<Value> {
        let (kind, namespace, name) = place(object);
        let requests = requests(kind, namespace);
        let request = requests.replace(name, &PostParams::default(), bytes(object));
        let request = request.map_err(unasked)?;
        self.0.request(request).await.map_err(|e| refused("replace", object, e))
    }

    /// Replaces its status.
    pub async fn replace_status(&self, object: &Value) -> Result<Value> {
        let (kind, namespace, name) = place(object);
        let (requests, params) = (requests(kind, namespace), PostParams::default());
        let request = requests.replace_subresource("status", name, &params, bytes(object));
        let request = request.map_err(unasked)?;
        self.0.request(request).await.map_err(|e| refused("replace the status of", object, e))
    }

    /// Changes an object.
    pub async fn patch(&self, object: &Value, change: &Value) -> Result<Value> {
        let (kind, namespace, name) = place(object);
        let (requests, change) = (requests(kind, namespace), Patch::Merge(change));
        let request = requests.patch(name, &PatchParams::default(), &change);
        let request = request.map_err(unasked)?;
        self.0.request(request).await.map_err(|e| refused("patch", object, e))
    }

    /// Changes its status.
    pub async fn patch_status(&self, object: &Value, change: &Value) -> Result<Value> {
        let (kind, namespace, name) = place(object);
        let (requests, change) = (requests(kind, namespace), Patch::Merge(change));
        let params = PatchParams::default();
        let request = requests.patch_subresource("status", name, &params, &change);
        let request = request.map_err(unasked)?;
        self.0.request(request).await.map_err(|e| refused("patch the status of", object, e))
    }

    /// Deletes an object: at once, or as its kind does it.
    pub async fn delete(&self, object: &Value, at_once: bool) -> Result<()> {
        let (kind, namespace, name) = place(object);
        let request = requests(kind, namespace).delete(name, &deletion(at_once));
        let gone: kube::Result<Value> = self.0.request(request.map_err(unasked)?).await;
        gone.map(drop).map_err(|e| refused("delete", object, e))
    }

    /// Deletes all objects of a kind, in a namespace if it has any.
    pub async fn delete_all(&self, kind: &str, namespace: &str) -> Result<()> {
        let all = ListParams::default();
        let request = requests(kind, namespace).delete_collection(&deletion(true), &all);
        let gone: kube::Result<Value> = self.0.request(request.map_err(unasked)?).await;
        gone.map(drop).map_err(|e| refused("delete every", &json!({"kind": kind}), e))
    }

    /// All objects of a kind, each with its kind.
    pub async fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let request = requests(kind, "").list(&ListParams::default()).map_err(unasked)?;
        let list: kube::Result<Value> = self.0.request(request).await;
        let mut list = list.map_err(|e| refused("list", &json!({"kind": kind}), e))?;
        let mut items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        items.iter_mut().for_each(|item| typed(item, kind));
        Ok(items)
    }
}

/// Items of lists do not say what they are.
fn typed(object: &mut Value, kind: &str) {
    object["kind"] = kind.into();
    object["apiVersion"] = row(kind).1.into();
}

fn deletion(at_once: bool) -> DeleteParams {
    if at_once { DeleteParams::default().grace_period(0) } else { DeleteParams::default() }
}
