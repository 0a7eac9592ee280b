//! Manifests for the property of this folder: small objects of every kind that differ in what
//! matters, each made of the bits of one number.

use serde_json::{Value, json};

use super::{Group, Kind};
use crate::gangs::kinds as gangs;
use crate::read::kinds::{DeviceKind, Queueing};

/// Choices made of the bits of one number.
struct Looks(u32);

impl Looks {
    fn of(&mut self, count: u32) -> u32 {
        let choice = self.0 % count;
        self.0 /= count;
        choice
    }

    fn one_of(&mut self, choices: &[Value]) -> Value {
        choices[self.of(choices.len() as u32) as usize].clone()
    }

    fn flag(&mut self) -> bool {
        self.of(2) == 1
    }
}

/// An object of a kind, made of the bits of one number.
pub fn manifest(kind: Kind, namespace: &str, name: &str, age: u32, looks: u32) -> Value {
    let mut looks = Looks(looks);
    let mut object = match kind {
        Kind::Namespace => json!({}),
        Kind::PriorityClass => json!({
            "value": looks.of(3) * 10,
            "globalDefault": looks.flag(),
            "preemptionPolicy": looks.one_of(&[Value::Null, json!("Never")]),
        }),
        Kind::RuntimeClass => runtime_class(&mut looks),
        Kind::LimitRange => limit_range(&mut looks),
        Kind::Budget => json!({
            "spec": { "selector": looks.one_of(&[
                Value::Null,
                json!({}),
                json!({ "matchLabels": { "dept": "x" } }),
                json!({ "matchExpressions": [{ "key": "dept", "operator": "DoesNotExist" }] }),
            ]) },
            "status": { "disruptionsAllowed": looks.of(2) },
        }),
        Kind::Node => node(&mut looks),
        Kind::Job => job(&mut looks),
        Kind::Pod => pod(&mut looks),
        Kind::Queueing(kind, _) => queueing(kind, &mut looks),
        Kind::Gang(kind) => gang(kind, &mut looks),
        Kind::Storage(_) => stored(&mut looks),
        Kind::Devices(kind) => device(kind, &mut looks),
        _ => json!({}),
    };
    object["metadata"] = meta(kind, (namespace, name), age, &mut looks);
    object["kind"] = kind.name().into();
    if let Kind::Gang(kind) = kind {
        object["apiVersion"] = kind.row().api_version().into();
        without_nulls(&mut object);
        return object;
    }
    object["apiVersion"] = match kind {
        Kind::Pod | Kind::Node | Kind::Namespace | Kind::Storage(_) | Kind::LimitRange => "v1",
        Kind::Devices(_) => "resource.k8s.io/v1",
        Kind::PriorityClass => "scheduling.k8s.io/v1",
        Kind::RuntimeClass => "node.k8s.io/v1",
        Kind::Job => "batch/v1",
        Kind::Budget => "policy/v1",
        Kind::ReplicaSet | Kind::StatefulSet | Kind::Deployment => "apps/v1",
        Kind::Queueing(_, Group::Capstan) => "capstan.sh/v1alpha1",
        Kind::Queueing(..) if looks.flag() => "kueue.x-k8s.io/v1beta1",
        Kind::Queueing(..) | Kind::Gang(_) => "kueue.x-k8s.io/v1beta2",
    }
    .into();
    without_nulls(&mut object);
    object
}

/// Metadata: whose it is, what it says of itself, whether it is going.
fn meta(kind: Kind, (namespace, name): (&str, &str), age: u32, looks: &mut Looks) -> Value {
    let uid = format!("{}-{namespace}-{name}-{age}", kind.name());
    let mut meta = json!({ "name": name, "uid": uid,
        "creationTimestamp": "2026-01-01T00:00:00Z" });
    if kind.namespaced() {
        meta["namespace"] = namespace.into();
    }
    meta["labels"] = looks.one_of(&[
        json!({}),
        json!({ "capstan.sh/queue": "lq" }),
        json!({ "capstan.sh/gang": "g", "dept": "x" }),
        json!({}),
        json!({ "scheduling.x-k8s.io/pod-group": "g" }),
        json!({ "leaderworkerset.sigs.k8s.io/name": "l",
            "leaderworkerset.sigs.k8s.io/group-index": "0" }),
        json!({ "jobset.sigs.k8s.io/replicatedjob-name": "w",
            "jobset.sigs.k8s.io/restart-attempt": "1" }),
    ]);
    meta["annotations"] = looks.one_of(&[
        json!({}),
        json!({ "capstan.sh/min-member": "2" }),
        json!({ "capstan.sh/capacity-types": "spot" }),
        json!({ "capstan.sh/price": "2.5", "capstan.sh/suspended": "1" }),
        json!({ "capstan.sh/admitted": r#"{"admittedAt":"2026-01-02T00:00:00Z"}"# }),
        json!({ "scheduling.k8s.io/group-name": "g" }),
    ]);
    let by = looks.one_of(&[
        Value::Null,
        json!(["Job", "j"]),
        json!(["Job", "j"]),
        json!(["ReplicaSet", "r"]),
        json!(["Deployment", "d"]),
        json!(["JobSet", "s"]),
        json!(["TrainJob", "s"]),
        json!(["Job", "s-w-0"]),
    ]);
    if kind.namespaced() && by.is_array() && !matches!(kind, Kind::Queueing(..)) {
        let (owner, own) = (by[0].as_str().expect("kind"), by[1].as_str().expect("name"));
        let uid = format!("{owner}-{namespace}-{own}-{}", looks.of(2));
        let ours = match owner {
            "Job" => "batch/v1",
            "JobSet" => "jobset.x-k8s.io/v1alpha2",
            "TrainJob" => "trainer.kubeflow.org/v1alpha1",
            _ => "apps/v1",
        };
        // Others have Jobs, too.
        let api = if looks.of(5) == 0 { "x/v1" } else { ours };
        meta["ownerReferences"] = json!([{ "apiVersion": api, "kind": owner, "name": own,
            "uid": uid, "controller": true }]);
    }
    if matches!(kind, Kind::Pod | Kind::Job) && looks.of(6) == 0 {
        meta["deletionTimestamp"] = "2026-01-03T00:00:00Z".into();
    }
    meta
}

/// As an API server shows objects.
fn without_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

fn node(looks: &mut Looks) -> Value {
    json!({
        "spec": { "unschedulable": looks.flag() },
        "status": { "allocatable": { "cpu": looks.of(4), "pods": 10 } },
    })
}

fn spec(looks: &mut Looks) -> Value {
    json!({
        "schedulerName": looks.one_of(&[json!("capstan"), json!("other")]),
        "priority": looks.one_of(&[Value::Null, json!(5)]),
        "priorityClassName": looks.one_of(&[Value::Null, json!("high")]),
        "runtimeClassName": looks.one_of(&[Value::Null, json!("kata")]),
        "preemptionPolicy": looks.one_of(&[Value::Null, json!("Never")]),
        "containers": [{ "resources": { "requests": { "cpu": looks.of(2) } } }],
    })
}

fn runtime_class(looks: &mut Looks) -> Value {
    json!({
        "overhead": { "podFixed": { "cpu": looks.of(3) } },
        "scheduling": { "nodeSelector": looks.one_of(&[json!({}), json!({ "pool": "x" })]) },
    })
}

fn limit_range(looks: &mut Looks) -> Value {
    let max = looks.one_of(&[json!({}), json!({ "cpu": 0 }), json!({ "cpu": 1 })]);
    json!({
        "spec": { "limits": [
            { "type": "Container", "default": { "cpu": 1, "memory": looks.of(3) }, "max": max },
            { "type": "Pod", "min": looks.one_of(&[json!({}), json!({ "memory": 1 })]) },
        ] },
    })
}

fn pod(looks: &mut Looks) -> Value {
    let mut spec = spec(looks);
    spec["nodeName"] = looks.one_of(&[Value::Null, json!("n")]);
    json!({
        "spec": spec,
        "status": {
            "phase": looks.one_of(&[json!("Pending"), json!("Running"), json!("Failed")]),
            "nominatedNodeName": looks.one_of(&[Value::Null, json!("n")]),
        },
    })
}

fn job(looks: &mut Looks) -> Value {
    json!({
        "spec": {
            "parallelism": 1 + looks.of(3),
            "completions": 3,
            "completionMode": looks.one_of(&[Value::Null, json!("Indexed")]),
            "suspend": looks.flag(),
            "template": { "spec": spec(looks) },
        },
        "status": { "succeeded": looks.of(3), "active": looks.of(2) },
    })
}

fn stored(looks: &mut Looks) -> Value {
    json!({
        "spec": {
            "storageClassName": looks.one_of(&[Value::Null, json!("fast")]),
            "volumeName": looks.one_of(&[Value::Null, json!("v")]),
            "accessModes": looks.one_of(&[json!(["ReadWriteOnce"]), json!(["ReadWriteOncePod"])]),
        },
        "status": { "phase": looks.one_of(&[json!("Available"), json!("Bound"), json!("Lost")]) },
    })
}

fn gang(kind: gangs::Kind, looks: &mut Looks) -> Value {
    let roles = json!([{
        "name": "w",
        "replicas": 1 + looks.of(2),
        "dependsOn": looks.one_of(&[Value::Null, json!([{ "name": "v" }])]),
        "template": { "spec": { "parallelism": 2, "template": { "spec": spec(looks) } } },
    }]);
    let spec = match kind {
        gangs::Kind::JobSet => json!({ "replicatedJobs": roles, "suspend": looks.flag() }),
        gangs::Kind::TrainJob => json!({ "suspend": looks.flag() }),
        gangs::Kind::LeaderWorkerSet => json!({
            "leaderWorkerTemplate": { "size": 2, "workerTemplate": { "spec": spec(looks) } },
            "startupPolicy": looks.one_of(&[Value::Null, json!("LeaderReady")]),
        }),
        _ => json!({
            "minMember": looks.one_of(&[json!(2), json!("x")]),
            "priorityClassName": looks.one_of(&[Value::Null, json!("high")]),
        }),
    };
    json!({ "spec": spec, "status": { "restarts": looks.of(2) } })
}

fn queueing(kind: Queueing, looks: &mut Looks) -> Value {
    let quota = json!({ "name": "cpu", "nominalQuota": looks.of(3),
        "lendingLimit": looks.one_of(&[Value::Null, json!(1)]) });
    let groups = json!([{ "coveredResources": ["cpu"],
        "flavors": [{ "name": "f", "resources": [quota] }] }]);
    let spec = match kind {
        Queueing::ClusterQueue => json!({ "resourceGroups": groups,
            "cohortName": looks.one_of(&[Value::Null, json!("co")]) }),
        Queueing::Cohort => json!({ "resourceGroups": groups }),
        Queueing::LocalQueue => json!({ "clusterQueue": "cq",
            "stopPolicy": looks.one_of(&[Value::Null, json!("Hold")]) }),
        Queueing::ResourceFlavor => json!({ "nodeLabels":
            looks.one_of(&[json!({}), json!({ "pool": "x" })]) }),
        Queueing::Topology => json!({ "levels": [{ "nodeLabel":
            looks.one_of(&[json!("rack"), json!("zone")]) }] }),
        Queueing::WorkloadPriorityClass => return json!({ "value": looks.of(3) }),
        Queueing::Workload => json!({ "active": looks.flag() }),
    };
    json!({ "spec": spec })
}

/// Devices, what taints them, and what has them.
fn device(kind: DeviceKind, looks: &mut Looks) -> Value {
    match kind {
        DeviceKind::Slice => json!({ "spec": {
            "driver": "d", "nodeName": "n",
            "pool": { "name": "n", "generation": looks.of(2), "resourceSliceCount": 1 },
            "devices": looks.one_of(&[
                json!([]),
                json!([{ "name": "x" }, { "name": "y" }]),
                json!([{ "name": "x", "bindingConditions": ["Attached"] }]),
            ]),
        } }),
        DeviceKind::TaintRule => json!({ "spec": {
            "deviceSelector": looks.one_of(&[
                Value::Null,
                json!({}),
                json!({ "driver": "d", "device": "x" }),
                json!({ "pool": "other" }),
            ]),
            "taint": { "key": "k", "effect": looks.one_of(&[json!("NoSchedule"), json!("None")]) },
        } }),
        DeviceKind::Claim => {
            let given = json!({ "devices": { "results": [{ "request": "r", "driver": "d",
                "pool": "n", "device": "x", "bindingConditions": ["Attached"] }] } });
            let said = json!([{ "driver": "d", "pool": "n", "device": "x",
                "conditions": [{ "type": "Attached", "status": "True" }] }]);
            let status = [
                json!({}),
                json!({ "allocation": given }),
                json!({ "allocation": given, "devices": said }),
            ];
            json!({ "status": looks.one_of(&status) })
        }
        DeviceKind::Class | DeviceKind::Template => json!({}),
    }
}
