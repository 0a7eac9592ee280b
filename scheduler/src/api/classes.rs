//! Slim views of PriorityClass and Namespace, and our WorkloadPriorityClass.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meta::{OnlyMeta, SlimMeta, slim};
use super::resource_like;

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
