//! Workload: what people look at. It reports; placements are rebuilt from pods.
//!
//! Its lists are bounded, so that an object stays small however large the gang is: whoever writes
//! one keeps to the bounds below.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their keys")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pod sets that a Workload lists, the first by name.
pub const POD_SETS_MAX: usize = 64;

/// Letters of a pod set's name.
pub const POD_SET_MAX: usize = 253;

/// Nodes, and victims, that its status lists, the first by name.
pub const NAMES_MAX: usize = 256;

/// One gang, as its owner sees it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "Workload",
    plural = "workloads",
    namespaced,
    status = "WorkloadStatus",
    derive = "PartialEq",
    shortname = "wl",
    category = "capstan",
    selectable = ".spec.active",
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queueName"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Pods", type_ = "string", json_path = ".status.pods"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".status.gpus"),
    printcolumn(name = "$/h", type_ = "string", json_path = ".status.usdPerHour"),
    printcolumn(name = "Wait", type_ = "date", json_path = ".status.waitingSince"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(
        name = "ClusterQueue",
        type_ = "string",
        json_path = ".status.clusterQueue",
        priority = 1
    ),
    printcolumn(
        name = "Position",
        type_ = "integer",
        json_path = ".status.queuePosition",
        priority = 1
    ),
    printcolumn(
        name = "Forecast",
        type_ = "string",
        json_path = ".status.forecastStart",
        priority = 1
    ),
    printcolumn(name = "Waited", type_ = "string", json_path = ".status.waited", priority = 1),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodesSummary",
        priority = 1
    ),
    printcolumn(
        name = "Preemptor",
        type_ = "string",
        json_path = ".status.preemptor",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// LocalQueue.
    #[serde(default)]
    pub queue_name: String,
    /// Priority that decides its order.
    #[serde(default)]
    pub priority: i32,
    /// Where that priority comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_ref: Option<PriorityClassRef>,
    /// Whether it may run. While it is `false` the work is held: what waits does not start, what
    /// runs is stopped as a victim of preemption is.
    #[serde(default = "active")]
    pub active: bool,
    /// Its pod sets.
    #[serde(default)]
    pub pod_sets: Vec<PodSet>,
}

fn active() -> bool {
    true
}

/// The class that gives a workload its priority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriorityClassRef {
    /// `capstan.sh`, `kueue.x-k8s.io` or `scheduling.k8s.io`.
    pub group: String,
    /// `WorkloadPriorityClass` or `PriorityClass`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// A pod set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// Name.
    pub name: String,
    /// Pods.
    pub count: i32,
    /// Pods that must run together; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<i32>,
}

/// Status of a Workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    /// State.
    pub state: String,
    /// Why it waits, in one clause; the conditions say it in full.
    pub reason: String,
    /// `running/all`.
    pub pods: String,
    /// GPUs asked by all members.
    pub gpus: i64,
    /// Hourly price of what it holds, in US dollars; empty: not known.
    pub usd_per_hour: String,
    /// Since when it waits; absent while it does not. The column Wait is its age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// How long it waited before it was last admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<i64>,
    /// How long it waited before it was last admitted, as kubectl writes ages.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waited: String,
    /// ClusterQueue whose quota it waits for or holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// What it cost until `accruing` says, and in all its runs before, in millionths of a US
    /// dollar; absent while no price was ever known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accrued_micro_usd: Option<i64>,
    /// What it costs since then, while it holds anything of which the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accruing: Option<Accruing>,
    /// Flavors by pod set and resource; of finished work the last.
    pub flavors: BTreeMap<String, BTreeMap<String, String>>,
    /// Nodes of its members, at most 256; of finished work the last.
    pub nodes: Vec<String>,
    /// The same for people, in a few words; the first three are named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nodes_summary: String,
    /// Workload that took its room, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<String>,
    /// Workloads whose room it takes, as `namespace/name`, at most 256.
    pub victims: Vec<String>,
    /// Place in its ClusterQueue, from 1, while it waits; of the first 20 of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<i32>,
    /// When it may start, if `forecastAssumption` holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast_start: Option<Time>,
    /// What is assumed for `forecastStart`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast_assumption: Option<String>,
    /// Failures so far and when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue_state: Option<RequeueState>,
    /// QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Finished.
    pub conditions: Vec<Condition>,
}

/// What work costs from a time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accruing {
    /// From then on.
    pub since: Time,
    /// Hourly price of what it holds, in millionths of a US dollar.
    pub micro_usd_per_hour: i64,
}

/// Failures so far and when it is tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequeueState {
    /// Failures.
    pub count: i32,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue_at: Option<Time>,
}
