//! A slim view of PodDisruptionBudget.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::Deserialize;

use super::meta::{SlimMeta, slim};
use super::resource_like;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct PodDisruptionBudget {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: BudgetSpec,
    /// Status.
    #[serde(default)]
    pub status: BudgetStatus,
}

resource_like!(PodDisruptionBudget, k8s_openapi::api::policy::v1::PodDisruptionBudget);

/// Which pods it guards; how many of them have to be there only its controller reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct BudgetSpec {
    /// Which pods of its namespace.
    pub selector: Option<LabelSelector>,
}

/// What its controller says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// How many pods may be disturbed now.
    #[serde(default)]
    pub disruptions_allowed: i32,
    /// Pods that are counted as disturbed already, and since when.
    #[serde(default)]
    pub disrupted_pods: BTreeMap<String, serde_json::Value>,
}
