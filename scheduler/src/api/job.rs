//! A slim view of batch/v1 Jobs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Deserialize;

use super::meta::{SlimMeta, slim};
use super::pod::{Condition, PodTemplate};
use super::resource_like;

/// A Job, as far as scheduling looks at it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Job {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: JobSpec,
    /// Status.
    #[serde(default)]
    pub status: JobStatus,
}

resource_like!(Job, k8s_openapi::api::batch::v1::Job);

/// Spec of a Job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// Pods at a time; absent: 1.
    #[schemars(range(min = 0))]
    pub parallelism: Option<i32>,
    /// Successes wanted; absent: any one.
    #[schemars(range(min = 0))]
    pub completions: Option<i32>,
    /// `Indexed` or `NonIndexed`.
    pub completion_mode: Option<String>,
    /// No pods while this is set.
    #[serde(default)]
    pub suspend: bool,
    /// Who makes its pods; absent: Kubernetes itself.
    pub managed_by: Option<String>,
    /// Its pods.
    pub template: PodTemplate,
}

/// Status of a Job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct JobStatus {
    /// Pods that run or wait.
    #[serde(default)]
    pub active: i32,
    /// Pods that are being deleted.
    #[serde(default)]
    pub terminating: i32,
    /// Pods that ended well.
    #[serde(default)]
    pub succeeded: i32,
    /// Indexes that failed for good, as numbers and ranges: `1,3-5`.
    #[serde(default, rename = "failedIndexes")]
    pub failed_indexes: Option<String>,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
