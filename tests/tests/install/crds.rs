//! Every rule of the CRDs, evaluated by the one who evaluates them: an API server refuses each
//! object of `tests/crds/invalid/` with what the file says, and takes its twin.

use std::collections::BTreeMap;
use std::fs;

use capstan::api::crds;
use capstan_tests::cluster::{ControlPlane, Options};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::response::StatusCause;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};

use crate::setup::{path, root};

/// Files of a folder by name, and their text.
fn files(folder: &str) -> BTreeMap<String, String> {
    let folder = root().join("tests/crds").join(folder);
    let listed = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let text = |path| fs::read_to_string(path).expect("text");
    let name = |name: std::ffi::OsString| name.into_string().expect("a plain name");
    listed.map(|entry| (name(entry.file_name()), text(entry.path()))).collect()
}

/// The objects of a folder as kubectl reads them: one of a name, or one before and one after a
/// change. Files are named like their objects.
fn objects(cluster: &ControlPlane, folder: &str) -> BTreeMap<String, Vec<DynamicObject>> {
    let folder = path(&format!("tests/crds/{folder}"));
    let words = ["create", "--dry-run=client", "--validate=false", "-o", "json", "-f", &folder];
    let read = cluster.kubectl(&words).expect("kubectl reads all of them");
    let mut all: BTreeMap<String, Vec<DynamicObject>> = BTreeMap::new();
    for object in serde_json::Deserializer::from_str(&read).into_iter() {
        let object: DynamicObject = object.expect("an object");
        let name = object.metadata.name.clone().expect("a name");
        all.entry(format!("{name}.yaml")).or_default().push(object);
    }
    all
}

/// Where objects like this one live.
fn api(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().expect("an object has a kind");
    let (group, version) = types.api_version.split_once('/').expect("group and version");
    let gvk = GroupVersionKind::gvk(group, version, &types.kind);
    let known = crds::all().into_iter().find(|crd| crd.spec.names.kind == types.kind);
    let plural = known.expect("a kind of ours").spec.names.plural;
    let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
    match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Makes the first object and changes it into the others; the first refusal, by its causes.
async fn submit(client: &Client, objects: &[DynamicObject]) -> Result<(), Vec<StatusCause>> {
    let (mut version, plain) = (None, PostParams::default());
    let mut last = Ok(());
    for object in objects {
        let mut object = object.clone();
        let (api, name) = (api(client, &object), object.metadata.name.clone().expect("a name"));
        object.metadata.resource_version.clone_from(&version);
        let sent = match version {
            None => api.create(&plain, &object).await,
            Some(_) => api.replace(&name, &plain, &object).await,
        };
        match sent {
            Ok(stored) => version = stored.metadata.resource_version,
            Err(kube::Error::Api(status)) if status.code == 422 => {
                last = Err(status.details.map(|details| details.causes).unwrap_or_default());
                break;
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
    if let (Some(_), Some(object)) = (version, objects.first()) {
        let name = object.metadata.name.as_deref().expect("a name");
        api(client, object).delete(name, &DeleteParams::default()).await.expect("deleted");
    }
    last
}

/// What is wrong with a refusal, if anything: one of its causes has to be what the file says.
fn judged(text: &str, refused: &[StatusCause]) -> Option<String> {
    let expected = text.lines().next().and_then(|line| line.strip_prefix("# => "));
    let (field, says) = expected.and_then(|line| line.split_once(": ")).expect("field: message");
    let told = refused.iter().any(|cause| cause.field == field && cause.message.contains(says));
    let not = text.lines().filter_map(|line| line.strip_prefix("# not: "));
    let beside = not.filter(|not| refused.iter().any(|cause| cause.message.contains(not)));
    match beside.collect::<Vec<_>>().as_slice() {
        _ if !told => Some(format!("expected {field}: {says}\n     got {refused:?}")),
        [] => None,
        also => Some(format!("told {also:?}, too")),
    }
}

#[test]
fn an_api_server_refuses_what_breaks_a_rule_and_takes_what_keeps_it() {
    let cluster = ControlPlane::start(Options::bare()).expect("a control plane");
    cluster.kubectl(&["apply", "-f", &path("manifests/crds")]).expect("applied");
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&wait).expect("established");
    let client = cluster.client().expect("a client");
    let mut wrong = Vec::new();
    let (broken, whole) = (objects(&cluster, "invalid"), objects(&cluster, "valid"));
    let (invalid, valid) = (files("invalid"), files("valid"));
    for (name, text) in &invalid {
        match cluster.block_on(submit(&client, &broken[name])) {
            Ok(()) => wrong.push(format!("invalid/{name}: it was taken")),
            Err(causes) => {
                wrong.extend(judged(text, &causes).map(|says| format!("invalid/{name}: {says}")));
            }
        }
    }
    for name in valid.keys() {
        let taken = cluster.block_on(submit(&client, &whole[name]));
        wrong.extend(taken.err().map(|causes| format!("valid/{name}: {causes:?}")));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), invalid.len(), wrong.join("\n"));

    // What kubectl shows of a refusal, and of a field that is misspelled.
    let file = path("tests/crds/invalid/clusterqueue-budget-usd.yaml");
    let says = cluster.kubectl(&["apply", "-f", &file]).unwrap_err().to_string();
    assert!(says.contains("below zero; use 0 or more"), "{says}");
    let misspelled = "apiVersion: capstan.sh/v1alpha1\nkind: LocalQueue\nmetadata: {name: a}\n\
                      spec: {clusterQueue: b, stopPolice: Hold}\n";
    let says = cluster.apply(misspelled).unwrap_err().to_string();
    assert!(says.contains("unknown field \"spec.stopPolice\""), "{says}");
}
