//! A slim view of pods: a twentieth of the full type in memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, PodAffinityTerm, PreferredSchedulingTerm, Toleration, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::meta::{SlimMeta, slim};
use super::resource_like;
use super::storage::PodVolume;
use crate::quantity::Quantity;

/// A pod, as far as scheduling looks at it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Pod {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: PodSpec,
    /// Status.
    #[serde(default)]
    pub status: PodStatus,
}

resource_like!(Pod, k8s_openapi::api::core::v1::Pod);

/// Template of the pods of an owner.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct PodTemplate {
    /// Labels and annotations of the pods.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec of the pods.
    pub spec: PodSpec,
}

/// Spec of a pod.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Who schedules it.
    pub scheduler_name: Option<String>,
    /// Node it is bound to, or was written for.
    pub node_name: Option<String>,
    /// Priority, once admission resolved it.
    pub priority: Option<i32>,
    /// Name of its PriorityClass.
    pub priority_class_name: Option<String>,
    /// `Never` or `PreemptLowerPriority`.
    pub preemption_policy: Option<String>,
    /// Node labels wanted.
    #[serde(default)]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity.
    #[serde(default)]
    pub affinity: Affinity,
    /// Tolerations.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// Containers.
    #[schemars(length(min = 1))]
    pub containers: Vec<Container>,
    /// Init containers.
    #[serde(default)]
    pub init_containers: Vec<Container>,
    /// Pod-level resources.
    pub resources: Option<Resources>,
    /// Name of its RuntimeClass.
    pub runtime_class_name: Option<String>,
    /// Overhead of its runtime class.
    #[serde(default)]
    pub overhead: BTreeMap<String, Quantity>,
    /// Container ports are host ports.
    #[serde(default)]
    pub host_network: bool,
    /// `false`: in a user namespace of its own.
    pub host_users: Option<bool>,
    /// How evenly it is spread.
    #[serde(default)]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Gates that hold it back.
    #[serde(default)]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Volumes.
    #[serde(default)]
    pub volumes: Vec<PodVolume>,
    /// Claims on devices.
    #[serde(default)]
    pub resource_claims: Vec<PodResourceClaim>,
    /// The group that it starts with.
    pub scheduling_group: Option<SchedulingGroup>,
    /// The same as Kubernetes 1.35 had it, which is gone since.
    pub workload_ref: Option<WorkloadRef>,
}

impl PodSpec {
    /// Claims on devices; one that is named under two entries is one claim all the same.
    pub fn claims_once(&self) -> impl Iterator<Item = &PodResourceClaim> {
        let all = &self.resource_claims;
        all.iter().enumerate().filter_map(|(at, claim)| {
            let same = |before: &PodResourceClaim| {
                claim.resource_claim_name.is_some()
                    && before.resource_claim_name == claim.resource_claim_name
            };
            (!all[..at].iter().any(same)).then_some(claim)
        })
    }
}

/// A claim on devices, as a pod names it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// Its name in the pod.
    #[serde(default)]
    pub name: String,
    /// The claim itself.
    pub resource_claim_name: Option<String>,
    /// What it is made from.
    pub resource_claim_template_name: Option<String>,
}

/// The group that a pod starts with.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingGroup {
    /// PodGroup in its namespace.
    pub pod_group_name: Option<String>,
}

/// A group of a Workload of `scheduling.k8s.io/v1alpha1`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Workload in its namespace.
    #[serde(default)]
    pub name: String,
}

/// Affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Affinity to nodes.
    #[serde(default)]
    pub node_affinity: NodeAffinity,
    /// Affinity to pods.
    #[serde(default)]
    pub pod_affinity: PodAffinity,
    /// The contrary.
    #[serde(default)]
    pub pod_anti_affinity: PodAffinity,
}

/// Affinity to pods, or the contrary.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinity {
    /// Pods that must be near (away).
    #[serde(default)]
    pub required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    /// Pods that had better be.
    #[serde(default)]
    pub preferred_during_scheduling_ignored_during_execution: Vec<WeightedPodAffinityTerm>,
}

/// Affinity to nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAffinity {
    /// What a node must have.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// What a node had better have.
    #[serde(default)]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredSchedulingTerm>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Image.
    pub image: Option<String>,
    /// Requests and limits.
    #[serde(default)]
    pub resources: Resources,
    /// Ports.
    #[serde(default)]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
    /// What follows from how it exits.
    #[serde(default)]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Where it mounts volumes.
    #[serde(default)]
    pub volume_mounts: Vec<VolumeMount>,
}

/// Where a container mounts a volume.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// Options that not every kubelet knows.
    #[serde(default)]
    pub bind_mount_options: Vec<String>,
}

/// What follows from how a container exits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct RestartRule {
    /// `Restart` or `RestartAllContainers`.
    #[serde(default)]
    pub action: String,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Resources {
    /// Requests.
    #[serde(default, deserialize_with = "asked")]
    pub requests: BTreeMap<String, Quantity>,
    /// Limits.
    #[serde(default, deserialize_with = "asked")]
    pub limits: BTreeMap<String, Quantity>,
}

/// Amounts that a container asks: extended resources whole, as the API server has it.
fn asked<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Quantity>, D::Error> {
    let all = BTreeMap::<String, Quantity>::deserialize(from)?;
    match all.iter().find_map(|(resource, quantity)| quantity.part_of_a_device(resource)) {
        Some(complaint) => Err(D::Error::custom(complaint)),
        None => Ok(all),
    }
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// Port in the container.
    #[serde(default)]
    #[schemars(range(min = 0, max = 65535))]
    pub container_port: i32,
    /// Port on the host; zero or absent: none.
    #[schemars(range(min = 0, max = 65535))]
    pub host_port: Option<i32>,
    /// Protocol; absent: TCP.
    pub protocol: Option<String>,
    /// Address on the host; absent: all.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
}

/// A scheduling gate.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct SchedulingGate {
    /// Name.
    #[serde(default)]
    pub name: String,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Life cycle.
    pub phase: Option<String>,
    /// When the kubelet took it on.
    pub start_time: Option<Time>,
    /// Where its scheduler makes room for it.
    pub nominated_node_name: Option<String>,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Statuses of containers.
    #[serde(default)]
    pub container_statuses: Vec<ContainerStatus>,
    /// Statuses of init containers.
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Pod-level resources in force.
    pub resources: Option<Resources>,
    /// Pod-level resources set aside.
    #[serde(default)]
    pub allocated_resources: BTreeMap<String, Quantity>,
    /// Claims that were made from templates.
    #[serde(default)]
    pub resource_claim_statuses: Vec<PodClaimStatus>,
    /// The claim that a scheduler made for its extended resources.
    pub extended_resource_claim_status: Option<ExtendedClaimStatus>,
}

/// The claim for a pod's extended resources.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedClaimStatus {
    /// Its name.
    #[serde(default)]
    pub resource_claim_name: String,
}

/// A claim that was made from a template.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodClaimStatus {
    /// Its name in the pod.
    #[serde(default)]
    pub name: String,
    /// The claim; absent: none is needed.
    pub resource_claim_name: Option<String>,
}

/// A condition.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Reason.
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// When the status changed.
    pub last_transition_time: Option<Time>,
}

/// Status of one container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// What became of it.
    pub state: Option<ContainerState>,
    /// Resources in force.
    pub resources: Option<Resources>,
    /// Resources set aside.
    #[serde(default)]
    pub allocated_resources: BTreeMap<String, Quantity>,
}

/// What became of a container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerState {
    /// It has ended.
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    /// When.
    pub finished_at: Option<Time>,
}

/// Whether a condition of this type is true; its entry.
pub fn is_true<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
}
