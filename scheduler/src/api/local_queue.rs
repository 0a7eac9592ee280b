//! LocalQueue.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their keys")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_queue::{FairSharing, StopPolicy};
use super::usage::{FlavorUsage, LocalQueueFairSharingStatus};

/// Where the workloads of one namespace queue.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "LocalQueue",
    plural = "localqueues",
    namespaced,
    status = "LocalQueueStatus",
    shortname = "queue",
    shortname = "queues",
    shortname = "lq",
    category = "capstan",
    printcolumn(name = "ClusterQueue", type_ = "string", json_path = ".spec.clusterQueue"),
    printcolumn(
        name = "Pending Workloads",
        type_ = "integer",
        json_path = ".status.pendingWorkloads"
    ),
    printcolumn(
        name = "Admitted Workloads",
        type_ = "integer",
        json_path = ".status.admittedWorkloads"
    ),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".status.gpus"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.cpu"),
    printcolumn(name = "$/h", type_ = "string", json_path = ".status.usdPerHour"),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// ClusterQueue that it feeds.
    #[serde(default)]
    pub cluster_queue: String,
    /// Whether it still admits anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<StopPolicy>,
    /// Its share within the ClusterQueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// Status of a LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalQueueStatus {
    /// Conditions; `Active` is the one that matters.
    pub conditions: Vec<Condition>,
    /// Workloads that wait.
    pub pending_workloads: i32,
    /// Workloads that hold quota.
    pub reserving_workloads: i32,
    /// Workloads that are admitted.
    pub admitted_workloads: i32,
    /// GPUs in use.
    pub gpus: i64,
    /// CPU in use; empty: it has no quota of it.
    pub cpu: String,
    /// Hourly price of all that runs from it, in US dollars; with a `+` where more runs at a price
    /// that is not known; empty: nothing of it is known.
    pub usd_per_hour: String,
    /// Quota held, by flavor.
    pub flavors_reservation: Vec<FlavorUsage>,
    /// Quota in use, by flavor.
    pub flavors_usage: Vec<FlavorUsage>,
    /// Its place in fair sharing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<LocalQueueFairSharingStatus>,
}
