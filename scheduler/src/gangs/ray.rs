//! RayClusters, and RayJobs, which make one.
//!
//! The head and all workers start together; with Ray's own autoscaler on, the head and the least
//! workers of each group do, and no worker makes up for another group's or for the head. The pods
//! of one replica of a group with several hosts (`numOfHosts`) are of use only together: beyond the
//! minimum whole replicas join. Which pods are one replica a label says, where KubeRay sets it (its
//! gate `RayMultiHostIndexing`); else any so many of the group are. What `capstan.sh/min-member`
//! asks goes before the minimums of groups, but never without the head.
//!
//! The pod that submits a RayJob, of a Job of its name, is made when the cluster is up, unless
//! something else submits it (`submissionMode`). Its place is kept from the start: a cluster that
//! leaves no room for it would run for nothing. One that another scheduler places is no part of it.
//! Without a template of its own it asks what KubeRay gives it, and is taken to be placed by who
//! places the head until it is there.
//!
//! KubeRay puts containers beside the head's own: that of the autoscaler where Ray scales the
//! cluster, and what submits a RayJob with `SidecarMode`. The head's place has room for those too.
//!
//! Where pods are in a PodGroup, what that says goes before all of this, as of any owner's pods:
//! its number starts, whichever of them those are, and one by one beyond it. KubeRay makes such
//! groups for schedulers that know nothing else, with all pods that are desired for a number, or
//! for Volcano the head and the least workers where Ray scales them, and no minimums of tasks. What
//! submits a RayJob is in no such group, and waits for none that is.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{Replica, Roles, Text};
use serde_json::{Value, json};

use super::fields::{Fields, Part};
use super::kinds::Kind;
use super::owner::Gang;
use super::{Member, finished};
use crate::api::keys;
use crate::convert::Refusal;
use crate::convert::gang::{GangDraft, Quorum, Role, Says};
use crate::convert::sharing::Shared;

/// The role of the head.
const HEAD: &str = "head";
/// What KubeRay calls its group.
const HEAD_GROUP: &str = "headgroup";
/// The role of what submits a RayJob, as Kueue calls it.
const SUBMITTER: &str = "submitter";

/// What a RayCluster or RayJob says.
pub fn read(
    kind: Kind,
    part: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Says, Vec<Refusal>> {
    let (spec, status) = match kind {
        Kind::RayJob => ("spec.rayClusterSpec", "status.rayClusterStatus"),
        _ => ("spec", "status"),
    };
    let workers = fields.count(part, &format!("{status}.availableWorkerReplicas"));
    // The cluster of a RayJob is called what its controller thinks of.
    let name = match kind {
        Kind::RayJob => "status.rayClusterName",
        _ => "metadata.name",
    };
    let name = part.at(name).as_str().unwrap_or_default();
    let cluster = Part { value: part.at(spec), path: spec };
    let beside = kind == Kind::RayJob && part.at("spec.submissionMode") == "SidecarMode";
    let beside = beside.then(submitting);
    let mut roles = roles(name, (cluster, beside), fields, shared)?;
    let minimums = minimums(&roles);
    if let Some(head) = roles.first().filter(|_| kind == Kind::RayJob) {
        let submitter = submitter(part, head, fields, shared)?;
        roles.extend(submitter);
    }
    Ok(Says {
        minimums,
        roles,
        suspended: fields.flag(part, "spec.suspend"),
        finished: finished(kind, part),
        active: workers.is_some_and(|count| count > 0),
        ..Says::default()
    })
}

/// Head, with what submits a RayJob from beside it, and groups of workers; nothing where a RayJob
/// uses a cluster that is there.
fn roles(
    called: &str,
    (cluster, submits): (Part<'_>, Option<Value>),
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Vec<Role>, Vec<Refusal>> {
    if cluster.at("headGroupSpec").is_null() {
        return Ok(Vec::new());
    }
    let at = cluster.path_of("headGroupSpec.template");
    let scales = fields.flag(cluster, "enableInTreeAutoscaling");
    let beside = submits.into_iter().chain(scales.then(|| autoscaler(cluster)));
    let mut template = cluster.at("headGroupSpec.template").clone();
    let containers = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    if let Some(containers) = containers {
        containers.extend(beside);
    }
    let head = Part { value: &template, path: &at };
    let added = labels(called, HEAD, HEAD_GROUP);
    let added: Vec<(&str, &str)> = added.iter().map(|(key, value)| (*key, &**value)).collect();
    let mut roles = vec![Role::of(HEAD, (head, &fields.namespace, &added[..]), 1, shared)?];
    for (value, path) in fields.list(cluster, "workerGroupSpecs") {
        let group = Part { value, path: &path };
        if fields.flag(group, "suspend") {
            continue;
        }
        let name = fields.text(group, "groupName").unwrap_or("workers");
        let least = fields.count(group, "minReplicas").unwrap_or(0);
        let most = fields.count(group, "maxReplicas").unwrap_or(u32::MAX);
        // As KubeRay has it: within the bounds, and where those cross, the most.
        let replicas = fields.count(group, "replicas").unwrap_or(least).max(least).min(most);
        let hosts = fields.above_zero(group, "numOfHosts").unwrap_or(1);
        let at = group.path_of("template");
        let template = Part { value: group.at("template"), path: &at };
        let added = labels(called, "worker", name);
        let added: Vec<(&str, &str)> = added.iter().map(|(key, value)| (*key, &**value)).collect();
        let mut role = Role::of(name, (template, &fields.namespace, &added[..]), hosts, shared)?;
        role.jobs = replicas;
        role.least = if scales { least.min(replicas) } else { replicas }.saturating_mul(hosts);
        roles.push(role);
    }
    Ok(roles)
}

/// Labels that KubeRay gives to the pods of a group, those that it numbers apart; empty: unknown.
fn labels(cluster: &str, node_type: &str, group: &str) -> [(&'static str, String); 7] {
    let identifier = match cluster {
        "" => String::new(),
        cluster => format!("{cluster}-{node_type}"),
    };
    [
        (keys::RAY_NODE, "yes".to_owned()),
        (keys::RAY_CLUSTER, cluster.to_owned()),
        (keys::RAY_NODE_TYPE, node_type.to_owned()),
        (keys::RAY_GROUP, group.to_owned()),
        (keys::RAY_IDENTIFIER, identifier),
        ("app.kubernetes.io/name", "kuberay".to_owned()),
        ("app.kubernetes.io/created-by", "kuberay-operator".to_owned()),
    ]
}

/// The container in which Ray's autoscaler runs: what KubeRay asks for it, unless the cluster says
/// otherwise (BuildAutoscalerContainer).
fn autoscaler(cluster: Part<'_>) -> Value {
    let stated = cluster.at("autoscalerOptions.resources");
    let asked = json!({ "cpu": "500m", "memory": "512Mi" });
    let resources = match stated.is_object() {
        true => stated.clone(),
        false => json!({ "requests": asked, "limits": asked }),
    };
    json!({ "name": "autoscaler", "resources": resources })
}

/// The container that submits a RayJob: what KubeRay asks for it (GetDefaultSubmitterContainer).
fn submitting() -> Value {
    json!({
        "name": "ray-job-submitter",
        "resources": {
            "requests": { "cpu": "500m", "memory": "200Mi" },
            "limits": { "cpu": "1", "memory": "1Gi" },
        },
    })
}

/// What submits a RayJob whose head is this, if that is a pod that the same scheduler places.
fn submitter(
    job: Part<'_>,
    head: &Role,
    fields: &Fields,
    shared: &mut Shared,
) -> Result<Option<Role>, Vec<Refusal>> {
    let mode = job.at("spec.submissionMode").as_str();
    if mode.is_some_and(|mode| !mode.is_empty() && mode != "K8sJobMode") {
        return Ok(None);
    }
    let path = "spec.submitterPodTemplate";
    let given = Some(job.at(path)).filter(|template| !template.is_null());
    let default = json!({ "spec": {
        "schedulerName": head.scheduler.as_deref(), "containers": [submitting()],
    } });
    let template = Part { value: given.unwrap_or(&default), path };
    let role = Role::of(SUBMITTER, (template, &fields.namespace, &[]), 1, shared)?;
    let ours = role.scheduler == head.scheduler;
    Ok(ours.then_some(Role { quorum: Quorum::Late, ..role }))
}

/// Whether the Job of this name submits a RayJob.
pub(super) fn submits(job: &GangDraft, name: &Text) -> bool {
    let late = |role: &Role| role.quorum == Quorum::Late;
    job.kind == Kind::RayJob && job.name == *name && job.says.roles.iter().any(late)
}

/// How many of each role must run together; `None`: there are no roles.
fn minimums(roles: &[Role]) -> Option<Arc<BTreeMap<Text, u32>>> {
    let mut minimums: BTreeMap<Text, u32> = BTreeMap::new();
    for role in roles.iter().filter(|role| role.least > 0) {
        let least = minimums.entry(role.name.clone()).or_default();
        *least = least.saturating_add(role.least);
    }
    (!minimums.is_empty()).then(|| Arc::new(minimums))
}

/// What a pod says of its role in a cluster of which so many must run together.
pub(super) fn roles_of(member: &Member<'_>, gang: &Gang<'_>, least: u32) -> Option<Arc<Roles>> {
    let labels = &member.chain.first()?.labels;
    let head = labels.get(keys::RAY_NODE_TYPE).is_some_and(|kind| **kind == *HEAD);
    let own = if head { Some(Text::from(HEAD)) } else { labels.get(keys::RAY_GROUP).cloned() };
    let replica = labels.get(keys::RAY_REPLICA).filter(|name| !name.is_empty());
    in_role(gang, least, (own?, replica.cloned()))
}

/// What members of a role, and of a replica in it, say of the roles of an owner; `None`: it knows
/// no minimums of roles, or none of its members can be left out. Who is in another gang counts in
/// that.
pub fn in_role(
    gang: &Gang<'_>,
    least: u32,
    (own, replica): (Text, Option<Text>),
) -> Option<Arc<Roles>> {
    let (of, stated) = (gang.of, gang.of.says.minimums.as_ref()?);
    let together = gang.together();
    let all = together.iter().fold(0_u32, |sum, role| sum.saturating_add(role.count()));
    if least >= all {
        return None;
    }
    let here = |name: &Text| together.iter().any(|role| role.name == *name);
    let stated = match stated.keys().all(here) {
        true => stated.clone(),
        false => {
            let kept = stated.iter().filter(|(name, _)| here(name));
            Arc::new(kept.map(|(name, least)| (name.clone(), *least)).collect())
        }
    };
    let sum = stated.values().fold(0_u32, |sum, least| sum.saturating_add(*least));
    let stated = match sum <= least {
        true => stated,
        false => Arc::new(
            stated.get_key_value(HEAD).map(|(name, _)| (name.clone(), 1)).into_iter().collect(),
        ),
    };
    let role = of.says.roles.iter().find(|role| role.name == own);
    let hosts = role.map_or(1, |role| role.pods);
    let replica = (hosts > 1).then_some(Replica { name: replica, size: hosts });
    Some(Arc::new(Roles { own: Some(own), least: stated, replica }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_room_for_what_is_put_beside_its_own_container() {
        let cpu = |kind: Kind, mut cluster: Value, mode: &str| {
            let template = json!({ "spec": { "containers": [
                { "name": "c", "resources": { "requests": { "cpu": "2" } } },
            ] } });
            cluster["headGroupSpec"] = json!({ "template": template });
            let spec = match kind {
                Kind::RayJob => json!({ "submissionMode": mode, "rayClusterSpec": cluster }),
                _ => cluster,
            };
            let object = json!({ "metadata": { "name": "r" }, "spec": spec });
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let says = read(kind, Part::whole(&object), &mut fields, &mut Shared::default());
            says.expect("read").roles[0].shape.requests.get("cpu").copied()
        };
        let scales = json!({ "enableInTreeAutoscaling": true });
        let asks = |resources: Value| {
            json!({ "enableInTreeAutoscaling": true,
                "autoscalerOptions": { "resources": resources } })
        };
        for (kind, cluster, mode, want) in [
            (Kind::RayCluster, json!({}), "", 2000),
            (Kind::RayCluster, json!({ "enableInTreeAutoscaling": false }), "", 2000),
            (Kind::RayCluster, scales.clone(), "", 2500),
            (Kind::RayCluster, asks(json!({ "requests": { "cpu": "1" } })), "", 3000),
            (Kind::RayCluster, asks(json!({})), "", 2000),
            (Kind::RayCluster, asks(Value::Null), "", 2500),
            (Kind::RayJob, json!({}), "K8sJobMode", 2000),
            (Kind::RayJob, json!({}), "SidecarMode", 2500),
            (Kind::RayJob, scales, "SidecarMode", 3000),
        ] {
            let said = format!("{kind:?} {cluster} {mode}");
            assert_eq!(cpu(kind, cluster, mode), Some(want), "{said}");
        }
    }

    #[test]
    fn groups_have_the_labels_that_their_pods_will_have() {
        let template = |labels: Value| {
            json!({ "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c" }] } })
        };
        let spec = json!({
            "headGroupSpec": { "template": template(json!({ "app.kubernetes.io/name": "own" })) },
            "workerGroupSpecs": [{ "groupName": "gpus", "template": template(json!({})) }],
        });
        let read = |kind: Kind, object: &Value| {
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let says = read(kind, Part::whole(object), &mut fields, &mut Shared::default());
            says.expect("read").roles
        };
        let has = |role: &Role, key: &str| {
            let found = role.labels.iter().find(|(known, _)| **known == *key);
            found.map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        let cluster = json!({ "metadata": { "name": "r" }, "spec": spec });
        let roles = read(Kind::RayCluster, &cluster);
        for (key, head, workers) in [
            (keys::RAY_NODE, "yes", "yes"),
            (keys::RAY_CLUSTER, "r", "r"),
            (keys::RAY_NODE_TYPE, "head", "worker"),
            (keys::RAY_GROUP, "headgroup", "gpus"),
            (keys::RAY_IDENTIFIER, "r-head", "r-worker"),
            ("app.kubernetes.io/name", "own", "kuberay"),
        ] {
            assert_eq!([has(&roles[0], key), has(&roles[1], key)], [head, workers], "{key}");
        }
        let job = json!({ "metadata": { "name": "j" }, "spec": { "rayClusterSpec": spec } });
        let roles = read(Kind::RayJob, &job);
        let known = [keys::RAY_CLUSTER, keys::RAY_GROUP].map(|key| has(&roles[1], key));
        assert_eq!(known, ["", "gpus"], "it is not called anything yet");
    }
}
