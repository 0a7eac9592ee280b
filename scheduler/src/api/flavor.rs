//! ResourceFlavor and Topology.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their keys")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of nodes quota is for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "ResourceFlavor",
    plural = "resourceflavors",
    shortname = "flavor",
    shortname = "flavors",
    shortname = "rf",
    category = "capstan",
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.topologyName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFlavorSpec {
    /// Labels of the nodes of this flavor.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 8))]
    pub node_labels: BTreeMap<String, String>,
    /// Taints of the nodes of this flavor; workloads must tolerate them.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub node_taints: Vec<Taint>,
    /// Tolerations that admitted pods gain.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub tolerations: Vec<Toleration>,
    /// Topology of the nodes of this flavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
}

/// Levels of the cluster's network, outermost first.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "Topology",
    plural = "topologies",
    shortname = "topo",
    category = "capstan",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct TopologySpec {
    /// Levels, outermost first; `kubernetes.io/hostname` only as the last.
    #[schemars(length(min = 1, max = 16))]
    pub levels: Vec<TopologyLevel>,
}

/// One level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// Node label whose values name the domains of this level.
    pub node_label: String,
}
