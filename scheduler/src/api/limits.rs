//! A slim view of LimitRange.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Deserialize;

use super::meta::{SlimMeta, slim};
use super::resource_like;
use crate::quantity::Quantity;

/// A LimitRange.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct LimitRange {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: LimitRangeSpec,
}

resource_like!(LimitRange, k8s_openapi::api::core::v1::LimitRange);

/// Limits of pods and containers of its namespace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct LimitRangeSpec {
    /// Each for a type of things.
    #[serde(default)]
    pub limits: Vec<LimitRangeItem>,
}

/// Limits of a type of things.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRangeItem {
    /// `Container`, `Pod`, or what is no matter here.
    #[serde(rename = "type", default)]
    pub of: String,
    /// Limits of those that state none.
    #[serde(default)]
    pub default: BTreeMap<String, Quantity>,
    /// Requests of those that state none.
    #[serde(default)]
    pub default_request: BTreeMap<String, Quantity>,
    /// The least.
    #[serde(default)]
    pub min: BTreeMap<String, Quantity>,
    /// The most.
    #[serde(default)]
    pub max: BTreeMap<String, Quantity>,
    /// How many times its request a limit may be.
    #[serde(default)]
    pub max_limit_request_ratio: BTreeMap<String, Quantity>,
}
