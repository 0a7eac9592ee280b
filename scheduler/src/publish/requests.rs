//! The requests behind writes, and what their answers mean.
//!
//! Every answer ends in what the API shows now: a conflict is read back, a Workload that exists
//! already is taken as it is. A patch of a pod or of a Workload itself names the uid that it means,
//! so that a recreated object is never patched for another.

use std::fmt::Debug;
use std::sync::Arc;

use capstan_core::plan::PodRef;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    Preconditions,
};
use kube::core::GroupVersionKind;
use kube::{Client, Error, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::diff;
use super::entry::{Answer, Key, Shown, Write};
use super::groups::{self, Ends, GroupKey, ShownGroup};
use super::in_use::ShownQueue;
use super::plan::Name;
use super::pods::PodCondition;
use super::shown::ShownWorkload;
use crate::api::cluster_queue::{ClusterQueue, Cohort};
use crate::api::keys;
use crate::api::local_queue::LocalQueue;
use crate::api::pod::Pod as SlimPod;
use crate::api::workload::Workload;
use crate::gangs::kinds::Kind;
use crate::watch::lenient::Lenient;

/// Objects asked for at once.
const PAGE: u32 = 500;
/// Pods that have ended.
const ENDED: &str = "status.phase!=Pending,status.phase!=Running";

/// All Workloads, packed page by page; `None`: the API does not serve them. One that cannot be read
/// (older API servers hold nobody to the range of a number) hides no other.
pub(super) async fn list(client: &Client) -> Result<Option<Vec<(Name, ShownWorkload)>>, Error> {
    let api: Api<Lenient<Workload>> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(error) if code(&error) == Some(404) => return Ok(None),
            Err(error) => return Err(error),
        };
        let next = page.metadata.continue_.clone().filter(|next| !next.is_empty());
        all.extend(page.items.iter().filter_map(packed));
        match next {
            Some(next) => params.continue_token = Some(next),
            None => return Ok(Some(all)),
        }
    }
}

fn packed(found: &Lenient<Workload>) -> Option<(Name, ShownWorkload)> {
    match found {
        Lenient::Read(object) => ShownWorkload::named(object),
        Lenient::Broken(object, path, problem) => {
            let meta = &object.metadata;
            let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
            tracing::warn!(namespace, name, "a Workload is passed over: {path}: {problem}");
            None
        }
    }
}

/// Sends an event.
pub(super) async fn send(client: &Client, event: &Event) -> Result<(), Error> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), event).await.map(drop)
}

/// Carries a write out.
pub(super) async fn carry_out(client: &Client, key: &Key, write: Write) -> Answer {
    let answer = match key {
        Key::Workload((namespace, name)) => {
            let api: Api<Workload> = Api::namespaced(client.clone(), namespace);
            workload(&api, name, write).await
        }
        Key::ClusterQueue(name) => cluster_queue(client, name, write).await,
        Key::LocalQueue((namespace, name)) => {
            let status = status_of::<LocalQueue, _>(client, Some(namespace), name, write).await;
            status.map(|status| Answer::Shows(Shown::LocalQueue(status)))
        }
        Key::Cohort(name) => status_of::<Cohort, _>(client, None, name, write)
            .await
            .map(|status| Answer::Shows(Shown::Cohort(status))),
        Key::Group(of) => group(client, of, write).await,
        Key::Pod(pod) => {
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
            match write {
                Write::Condition(condition, seen) => {
                    let since = Some(jiff::Timestamp::now());
                    condition_of(&api, pod, condition, (since, seen)).await
                }
                Write::Reword(condition, seen) => {
                    condition_of(&api, pod, condition, (None, seen)).await
                }
                other => unreachable!("{other:?} of a pod"),
            }
        }
    };
    answer.unwrap_or_else(|error| match code(&error) {
        Some(404) => Answer::Gone,
        _ => {
            let error = crate::client::explain(&error);
            tracing::warn!(object = ?key, error, "status not written");
            Answer::Failed
        }
    })
}

/// Patches a status, or reads it. Such a patch names no uid, because the API server overlooks all
/// of it but the status: met another object under this name, it shows it in its answer, and the
/// next comparison puts that right.
async fn status<K>(api: &Api<K>, name: &str, write: Write) -> Result<K, Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    match write {
        Write::Status(patch) => {
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
        }
        _ => api.get(name).await,
    }
}

/// The status of an object of this kind after that; of the rest nothing is decoded, for it may be
/// written in ways that our types do not know (a Cohort has no spec unless somebody gives it one).
async fn status_of<K, S>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    write: Write,
) -> Result<Box<S>, Error>
where
    K: Resource<DynamicType = ()>,
    S: Default + DeserializeOwned,
{
    let (client, kind) = (client.clone(), ApiResource::erase::<K>(&()));
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    let mut object = status(&api, name, write).await?;
    match object.data.get_mut("status").map(Value::take) {
        Some(status) => serde_json::from_value(status).map(Box::new).map_err(Error::SerdeError),
        None => Ok(Box::default()),
    }
}

/// Reads a ClusterQueue, or patches its finalizers or its status.
async fn cluster_queue(client: &Client, name: &str, write: Write) -> Result<Answer, Error> {
    let kind = ApiResource::erase::<ClusterQueue>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let shows = |object| ShownQueue::of(object).map_err(Error::SerdeError);
    let patch = match write {
        Write::Object(patch) => patch,
        other => {
            let shown = shows(status(&api, name, other).await?)?;
            return Ok(Answer::Shows(Shown::ClusterQueue(Box::new(shown))));
        }
    };
    let shown = match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        // Another object, or another version of it: what is there is compared anew.
        Err(error) if meets_another(&error) => shows(api.get(name).await?)?,
        other => match shows(other?)? {
            shown if shown.took(&patch) => shown,
            _ => {
                tracing::warn!(%name, "the finalizers of a ClusterQueue are not taken");
                return Ok(Answer::Failed);
            }
        },
    };
    Ok(Answer::Shows(Shown::ClusterQueue(Box::new(shown))))
}

/// Reads a PodGroup, patches its status, or counts its pods. It is of another project: nothing of
/// it is decoded.
async fn group(client: &Client, of: &GroupKey, write: Write) -> Result<Answer, Error> {
    let (row, (namespace, name)) = (of.kind.row(), &of.name);
    let named = GroupVersionKind::gvk(row.group, &of.version, row.name);
    let kind = ApiResource::from_gvk_with_plural(&named, row.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let shows = |object: DynamicObject| {
        let shown = ShownGroup::of(&diff::value(&object));
        Answer::Shows(Shown::Group(Box::new(shown)))
    };
    let patch = match write {
        Write::Status(patch) => patch,
        Write::Count => return Ok(Answer::Counted(ends(client, of).await?)),
        _ => return api.get(name).await.map(shows),
    };
    let params = PatchParams::default();
    let patched = match of.kind {
        Kind::UpstreamGroup => api.patch_status(name, &params, &Patch::Strategic(&patch)).await,
        // Its status is a part of it like any other.
        Kind::VolcanoGroup => api.patch(name, &params, &Patch::Merge(&patch)).await,
        _ => api.patch_status(name, &params, &Patch::Merge(&patch)).await,
    };
    match patched {
        Ok(object) if groups::taken(&patch, &ShownGroup::of(&diff::value(&object))) => {
            Ok(shows(object))
        }
        // Its kind is served in a way that we do not know.
        Ok(_) => {
            tracing::warn!(%namespace, name = %name, "the status of a PodGroup is not taken");
            Ok(Answer::Failed)
        }
        // Another object, or another version of it: what is there is compared anew.
        Err(error) if meets_another(&error) => api.get(name).await.map(shows),
        Err(error) if code(&error) == Some(404) => api.get(name).await.map(|_| Answer::Failed),
        Err(error) => Err(error),
    }
}

/// How the pods of a PodGroup ended.
async fn ends(client: &Client, of: &GroupKey) -> Result<Ends, Error> {
    let (namespace, name) = &of.name;
    let api: Api<SlimPod> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().limit(PAGE).fields(ENDED);
    if of.kind == Kind::PluginsGroup {
        params = params.labels(&format!("{}={name}", keys::PLUGINS_GROUP));
    }
    let keys = [keys::VOLCANO_GROUP, keys::VOLCANO_GROUP_OWN];
    let member = |pod: &&SlimPod| {
        let marks = pod.metadata.annotations.as_ref();
        let named = keys.iter().any(|key| {
            marks.and_then(|marks| marks.get(*key)).is_some_and(|group| **group == **name)
        });
        of.kind == Kind::PluginsGroup || named
    };
    let mut ends = Ends::default();
    loop {
        let page = api.list(&params).await?;
        for pod in page.items.iter().filter(member) {
            match pod.status.phase.as_deref() {
                Some("Succeeded") => ends.succeeded += 1,
                Some("Failed") => ends.failed += 1,
                _ => {}
            }
        }
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => return Ok(ends),
        }
    }
}

async fn workload(api: &Api<Workload>, name: &str, write: Write) -> Result<Answer, Error> {
    let merge = PatchParams::default();
    let shown = match write {
        Write::Create(object) => match api.create(&PostParams::default(), &object).await {
            // Not served, or the namespace is going: no object to go on from.
            Err(error) if code(&error) == Some(404) => return Ok(Answer::Failed),
            Err(error) if code(&error) == Some(409) => api.get(name).await?,
            other => other?,
        },
        Write::Object(patch) => match api.patch(name, &merge, &Patch::Merge(&patch)).await {
            // The uid may be another's by now: what is there is compared anew.
            Err(error) if meets_another(&error) => {
                let found = api.get(name).await?;
                let meant = patch["metadata"]["uid"].as_str();
                if found.metadata.uid.as_deref() == meant {
                    return Err(error);
                }
                found
            }
            other => other?,
        },
        Write::Delete(uid) => {
            let preconditions =
                uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            return match api.delete(name, &params).await {
                Err(error) if code(&error) != Some(409) => Err(error),
                _ => Ok(Answer::Gone),
            };
        }
        write @ (Write::Status(_)
        | Write::Read
        | Write::Count
        | Write::Condition(..)
        | Write::Reword(..)) => status(api, name, write).await?,
    };
    Ok(Answer::Shows(Shown::Workload(ShownWorkload::of(&shown))))
}

/// Sets PodScheduled of a pod that waits. A bind that was faster is not talked over: where the
/// answer shows a node, the condition is put right at once. `since`: when it became so; `None`: it
/// was before. `seen`: of which version of the pod that is.
async fn condition_of(
    api: &Api<Pod>,
    PodRef { name, uid, .. }: &PodRef,
    condition: Arc<PodCondition>,
    (since, seen): (Option<jiff::Timestamp>, Option<i64>),
) -> Result<Answer, Error> {
    let body = condition_patch(uid, Some(&condition), (since, seen));
    let params = PatchParams::default();
    let pod = match api.patch_status(name, &params, &Patch::Strategic(body)).await {
        // The uid is another's: ours is gone.
        Err(error) if meets_another(&error) => return Ok(Answer::Gone),
        other => other?,
    };
    if pod.spec.is_some_and(|spec| spec.node_name.is_some()) {
        let body = condition_patch(uid, None, (Some(jiff::Timestamp::now()), seen));
        api.patch_status(name, &params, &Patch::Strategic(body)).await?;
        return Ok(Answer::Gone);
    }
    Ok(Answer::Shows(Shown::Pod(condition)))
}

/// What a pod says while it waits, or (`None`) once it has a node. Conditions are merged by type:
/// what is not said of one stays.
fn condition_patch(
    uid: &str,
    waits: Option<&PodCondition>,
    (since, seen): (Option<jiff::Timestamp>, Option<i64>),
) -> Value {
    let word = |text: fn(&PodCondition) -> &str| waits.map(text).filter(|text| !text.is_empty());
    let mut condition = json!({
        "type": "PodScheduled",
        "status": if waits.is_none() { "True" } else { "False" },
        "reason": word(|it| &it.reason),
        "message": word(|it| &it.message),
    });
    if let Some(since) = since {
        condition["lastTransitionTime"] = diff::value(&Time(since));
    }
    if let Some(seen) = seen {
        condition["observedGeneration"] = seen.into();
    }
    json!({
        "metadata": { "uid": uid },
        "status": {
            "nominatedNodeName": waits.and_then(|it| it.node.as_deref()),
            "conditions": [condition],
        },
    })
}

/// Whether the object under this name may be another than the one that was meant: for a patch that
/// names another uid the API server says that the field is immutable.
fn meets_another(error: &Error) -> bool {
    match error {
        Error::Api(status) if status.code == 422 => status.message.contains("metadata.uid"),
        error => code(error) == Some(409),
    }
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        _ => None,
    }
}
