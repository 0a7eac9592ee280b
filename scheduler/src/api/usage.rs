//! What the status of several kinds shows alike: usage by flavor, and the place in fair sharing.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// Usage of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlavorUsage {
    /// Flavor.
    pub name: String,
    /// Its resources.
    #[serde(default)]
    pub resources: Vec<ResourceUsage>,
}

/// Usage of one resource of a flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceUsage {
    /// Resource.
    pub name: String,
    /// All that is used.
    #[serde(default)]
    pub total: Quantity,
    /// What of it is borrowed; a LocalQueue does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowed: Option<Quantity>,
}

/// Place of a ClusterQueue or Cohort in fair sharing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FairSharingStatus {
    /// Largest share of what can be borrowed that it borrows, in thousandths, over its weight.
    pub weighted_share: i64,
}

/// Place of a LocalQueue in fair sharing, and what that is reckoned from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalQueueFairSharingStatus {
    /// Its share, in thousandths, over its weight.
    pub weighted_share: i64,
    /// What it used, as far as that still counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission_fair_sharing_status: Option<AdmissionFairSharingStatus>,
}

/// What a LocalQueue used, as far as that still counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionFairSharingStatus {
    /// Decayed usage by resource, as of `lastUpdate`.
    pub consumed_resources: BTreeMap<String, Quantity>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<Time>,
}
