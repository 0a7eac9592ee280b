//! A slim view of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Deserialize;

use super::meta::{SlimMeta, empty_if_null, slim};
use super::resource_like;
use crate::quantity::Quantity;

/// A node, as far as scheduling looks at it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Node {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: NodeSpec,
    /// Status.
    #[serde(default)]
    pub status: NodeStatus,
}

resource_like!(Node, k8s_openapi::api::core::v1::Node);

/// Spec of a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct NodeSpec {
    /// Cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// Taints.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

/// Status of a node. Conditions are not looked at: they reach schedulers as taints.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// What pods may use.
    #[serde(default)]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What there is in all.
    #[serde(default)]
    pub capacity: BTreeMap<String, Quantity>,
    /// What its kubelet can do that others cannot.
    #[serde(default)]
    pub declared_features: Vec<String>,
    /// Images that are there.
    #[serde(default)]
    pub images: Vec<ContainerImage>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerImage {
    /// Names, by tag and by digest; none of one that lost its last.
    #[serde(default, deserialize_with = "empty_if_null")]
    pub names: Vec<String>,
    /// Bytes.
    #[serde(default)]
    pub size_bytes: i64,
}
