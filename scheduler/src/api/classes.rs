//! Slim views of PriorityClass, RuntimeClass and Namespace, and our WorkloadPriorityClass.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meta::{OnlyMeta, SlimMeta, slim};
use super::resource_like;
use crate::quantity::Quantity;

/// A PriorityClass.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriorityClass {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Value.
    pub value: i32,
    /// Holds for pods that name none.
    #[serde(default)]
    pub global_default: bool,
    /// `Never` or `PreemptLowerPriority`.
    pub preemption_policy: Option<String>,
}

resource_like!(PriorityClass, k8s_openapi::api::scheduling::v1::PriorityClass);

/// A RuntimeClass.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct RuntimeClass {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// What its pods take beside their containers.
    #[serde(default)]
    pub overhead: Overhead,
    /// On which nodes its pods run.
    #[serde(default)]
    pub scheduling: RuntimeScheduling,
}

/// What pods of a RuntimeClass take beside their containers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overhead {
    /// The same for each.
    #[serde(default)]
    pub pod_fixed: BTreeMap<String, Quantity>,
}

/// What a RuntimeClass adds to its pods' wishes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeScheduling {
    /// Labels that a node must have.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
}

resource_like!(RuntimeClass, k8s_openapi::api::node::v1::RuntimeClass);

/// A Namespace.
pub type Namespace = OnlyMeta;

resource_like!(Namespace, k8s_openapi::api::core::v1::Namespace);

/// Priority of workloads in queues, apart from that of their pods.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadPriorityClass {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Value; higher goes first.
    pub value: i32,
    /// For people.
    #[serde(default)]
    #[schemars(length(max = 2048))]
    pub description: String,
}

impl kube::Resource for WorkloadPriorityClass {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        "WorkloadPriorityClass".into()
    }

    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        super::GROUP.into()
    }

    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        "workloadpriorityclasses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
