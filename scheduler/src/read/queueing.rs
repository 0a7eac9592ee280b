//! One queue object, decoded: strictly in our group and tolerantly in Kueue's.
//!
//! Decides what of it is wrong, what is unknown and what is understood but changes nothing yet.
//! Whether an unknown field is a mistake is the caller's: in a file it is, in a cluster the
//! object stands there all the same.

use capstan_core::model::input::{SpentFacts, Text};
use capstan_core::time::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode;
use super::kinds::{Origin, Queueing};
use super::kueue;
use super::schema::{self, Finding};
use crate::api::GoDuration;
use crate::api::classes::WorkloadPriorityClass;
use crate::api::cluster_queue::{ClusterQueueSpec, CohortSpec, VictimOrder};
use crate::api::flavor::{ResourceFlavorSpec, TopologySpec};
use crate::api::keys;
use crate::api::local_queue::LocalQueueSpec;
use crate::api::meta::Object;
use crate::api::workload::WorkloadSpec;
use crate::convert::quota::{self, Draft};

/// What a queue object says.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Whose it is, in which version.
    pub origin: Origin,
    /// Its facts; `None`: it has none.
    pub draft: Option<Draft>,
    /// Fields that nobody knows.
    pub unknown: Vec<Finding>,
    /// What else is worth knowing, with the field if it is about one.
    pub remarks: Vec<(Option<String>, String)>,
}

impl Decoded {
    /// What is said of the object when it is taken in as it is.
    pub fn said(self) -> Vec<(Option<String>, String)> {
        let unknown = self.unknown.into_iter().map(|finding| {
            let (path, problem) = kueue::unknown(finding, self.origin);
            (Some(path), problem)
        });
        unknown.chain(self.remarks).collect()
    }
}

/// Makes an object of an older version one of the version that is read.
pub fn upgrade(value: &mut Value, origin: Origin) {
    if origin == Origin::KueueV1Beta1 {
        kueue::upgrade(value);
    }
}

/// Takes out what is `null`, which an API server may keep and which is the same as absent.
pub fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Since when an object is being deleted. One that does not say so legibly is, all the same.
pub fn deleted(value: &Value) -> Option<Time> {
    let since = Some(&value["metadata"]["deletionTimestamp"]).filter(|since| !since.is_null())?;
    let since = since.as_str().and_then(|since| since.parse::<Timestamp>().ok());
    Some(since.map_or(Time::MIN, |since| Time(since.as_millisecond())))
}

/// Whether nothing that was written of a queue object before counts: it is not `known`, or is a
/// ClusterQueue of ours that somebody replaced without what keeps it while it is used.
pub fn comes_anew(kind: Queueing, origin: Origin, value: &Value, known: bool) -> bool {
    let keeps = |all: &Vec<Value>| all.iter().any(|one| one == keys::IN_USE);
    let bare = || {
        kind == Queueing::ClusterQueue
            && !origin.is_kueue()
            && deleted(value).is_none()
            && !value["metadata"]["finalizers"].as_array().is_some_and(keeps)
    };
    kind != Queueing::Workload && (!known || bare())
}

/// Whether a Workload says that it is another scheduler's than this: it holds none of our work.
pub fn is_anothers(kind: Queueing, value: &Value, scheduler: &str) -> bool {
    let whose = value["metadata"]["labels"][keys::SCHEDULER_NAME].as_str().unwrap_or_default();
    kind == Queueing::Workload && !whose.is_empty() && whose != scheduler
}

/// Decodes a queue object of today's version.
pub fn decode(
    kind: Queueing,
    origin: Origin,
    (namespace, name): (&str, &str),
    value: &Value,
) -> Result<Decoded, Vec<Finding>> {
    let mut remarks = Vec::new();
    let (draft, unknown) = match kind {
        Queueing::ClusterQueue => {
            let (spec, unknown) = spec::<ClusterQueueSpec>(value, origin)?;
            remarks = without_effect(&spec);
            let mut facts = quota::cluster_queue(name, &spec, origin);
            remarks.extend(told(&facts.broken));
            facts.deleted = deleted(value);
            let spent = spent(name, origin, value, &mut remarks);
            (Some(Draft::ClusterQueue(facts, spent)), unknown)
        }
        Queueing::LocalQueue => {
            let (spec, unknown) = spec::<LocalQueueSpec>(value, origin)?;
            let facts = quota::local_queue(namespace.into(), name, &spec);
            remarks = told(&facts.broken);
            let shared = serde_json::from_value(value["status"]["fairSharing"].clone());
            let shared = shared.unwrap_or_else(|error| {
                let problem = format!("cannot be read, so what it used of late is lost: {error}");
                remarks.push((Some("status.fairSharing".to_owned()), problem));
                None
            });
            let usage = quota::local_queue_usage(namespace.into(), name, shared.as_ref());
            (Some(Draft::LocalQueue(facts, usage)), unknown)
        }
        Queueing::Cohort => {
            let (spec, unknown) = spec::<CohortSpec>(value, origin)?;
            let facts = quota::cohort(name, &spec);
            remarks = told(&facts.broken);
            (Some(Draft::Cohort(facts)), unknown)
        }
        Queueing::ResourceFlavor => {
            let (spec, unknown) = spec::<ResourceFlavorSpec>(value, origin)?;
            let facts = quota::flavor(name, &spec);
            remarks = told(&facts.broken);
            (Some(Draft::Flavor(facts)), unknown)
        }
        Queueing::Topology => {
            let (spec, unknown) = spec::<TopologySpec>(value, origin)?;
            let (levels, broken) = quota::topology(&spec);
            remarks = told(&broken);
            (Some(Draft::Topology(name.into(), levels)), unknown)
        }
        Queueing::WorkloadPriorityClass => {
            let (class, unknown) = whole::<WorkloadPriorityClass>(value, origin)?;
            (Some(Draft::PriorityClass(name.into(), class.value)), unknown)
        }
        // What else a Workload says is rebuilt from its pods.
        Queueing::Workload => {
            let (spec, unknown) = spec::<WorkloadSpec>(value, origin)?;
            let held = (!spec.active).then(|| {
                let facts = quota::deactivated(namespace.into(), name, owners(value));
                Draft::Deactivated(facts)
            });
            (held, unknown)
        }
    };
    Ok(Decoded { origin, draft, unknown, remarks })
}

/// What the status of a ClusterQueue says that it spent; Kueue's has nothing of the kind.
fn spent(
    name: &str,
    origin: Origin,
    value: &Value,
    remarks: &mut Vec<(Option<String>, String)>,
) -> Option<SpentFacts> {
    let status = (!origin.is_kueue()).then(|| &value["status"]["budget"])?;
    quota::budget::spent(name, status).unwrap_or_else(|error| {
        let problem = format!("cannot be read, so what was spent is lost: {error}");
        remarks.push((Some("status.budget".to_owned()), problem));
        None
    })
}

/// Uids of an object's owners.
fn owners(value: &Value) -> Vec<Text> {
    let owners = value["metadata"]["ownerReferences"].as_array();
    let uids = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str());
    uids.map(Text::from).collect()
}

/// What an object breaks, all of it.
fn told(broken: &[impl ToString]) -> Vec<(Option<String>, String)> {
    broken.iter().map(|problem| (None, problem.to_string())).collect()
}

fn spec<S>(value: &Value, origin: Origin) -> Result<(S, Vec<Finding>), Vec<Finding>>
where
    S: DeserializeOwned + JsonSchema + Default + 'static,
{
    let (object, unknown) = whole::<Object<S>>(value, origin)?;
    Ok((object.spec, unknown))
}

fn whole<T>(value: &Value, origin: Origin) -> Result<(T, Vec<Finding>), Vec<Finding>>
where
    T: DeserializeOwned + JsonSchema + 'static,
{
    let (object, unknown) = decode::tolerant::<T>(value).map_err(|wrong| {
        // What is unknown is said too: the object is refused as a whole.
        let all = schema::check(&schema::of::<T>(), value, "");
        let counts = |one: &Finding| !one.unknown || (counted(one) && !origin.is_kueue());
        let all: Vec<Finding> = all.into_iter().filter(counts).collect();
        if all.is_empty() { wrong } else { all }
    })?;
    Ok((object, unknown.into_iter().filter(counted).collect()))
}

/// Fields of metadata that say nothing here.
const OTHER_META: [&str; 6] = [
    "generateName",
    "generation",
    "managedFields",
    "finalizers",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// Whether an unknown field is anybody's business: the API server owns status, and what metadata
/// it knows.
fn counted(finding: &Finding) -> bool {
    let mut parts = finding.path.split(['.', '[']);
    match (parts.next().unwrap_or_default(), parts.next(), parts.next()) {
        ("metadata", Some(key), None) => !OTHER_META.contains(&key),
        (top, ..) => !matches!(top, "metadata" | "status" | "apiVersion" | "kind"),
    }
}

/// Fields that are understood but change nothing yet must not be trusted in silence.
fn without_effect(spec: &ClusterQueueSpec) -> Vec<(Option<String>, String)> {
    let preemption = spec.preemption.as_ref();
    let duration = |given: Option<Option<GoDuration>>| given.flatten().is_some();
    let set = [
        ("spec.preemption.minRuntime", duration(preemption.map(|it| it.min_runtime))),
        ("spec.preemption.delay", duration(preemption.map(|it| it.delay))),
        // The API server writes the default into every object, which is what happens anyway.
        (
            "spec.preemption.victimOrder",
            preemption
                .and_then(|preemption| preemption.victim_order)
                .is_some_and(|order| order != VictimOrder::LowestPriority),
        ),
    ];
    let set = set.iter().filter(|(_, set)| *set).map(|(path, _)| (*path).to_owned());
    set.map(|path| (Some(path), "has no effect in this version".to_owned())).collect()
}
