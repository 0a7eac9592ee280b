//! The configuration file, field by field.
//!
//! The comment of a field is its documentation. Fields that Kueue or kube-scheduler have too
//! bear their names and mean the same. Absent fields have the defaults named here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, PreferredSchedulingTerm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::GoDuration;
use crate::quantity::Quantity;

/// `apiVersion: capstan.sh/v1alpha1`, `kind: CapstanConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CapstanConfiguration {
    /// `capstan.sh/v1alpha1`.
    pub api_version: String,
    /// `CapstanConfiguration`.
    pub kind: String,
    /// Ignored.
    #[serde(skip_serializing)]
    pub metadata: BTreeMap<String, Value>,
    /// Pods that name this scheduler are ours, and so are Workloads that bear it as a label.
    /// Several in one cluster need names and queues of their own. Default `capstan`.
    pub scheduler_name: Option<String>,
    /// API groups whose queue objects are read. Default `[capstan.sh]`.
    pub quota_apis: Option<Vec<QuotaApiName>>,
    /// What becomes of work without a queue once queues exist. Default `Allow`.
    pub unqueued_workloads: Option<UnqueuedWorkloads>,
    /// Weights of score terms by profile; a ClusterQueue names one, else `default` holds.
    pub profiles: BTreeMap<String, Profile>,
    /// Prices of nodes; the first entry that matches holds.
    pub prices: Vec<PriceItem>,
    /// How capacity is bought, beyond the well-known labels.
    pub capacity_types: CapacityTypes,
    /// Topology levels, where no Topology object says.
    pub topology: Topology,
    /// Arguments of placement rules, by plugin name.
    pub rules: Rules,
    /// Feature gates of kube-scheduler.
    pub feature_gates: BTreeMap<String, bool>,
    /// Fair sharing between queues of a cohort; absent: off.
    pub fair_sharing: Option<FairSharing>,
    /// Fair sharing between LocalQueues by what they used; absent: off.
    pub admission_fair_sharing: Option<AdmissionFairSharing>,
    /// Which resources count against quota, and as what.
    pub resources: Resources,
    /// Eviction of workloads whose pods do not become ready; absent: off.
    pub wait_for_pods_ready: Option<WaitForPodsReady>,
    /// Starts that are kept for big work while small work passes it.
    pub reservations: Reservations,
    /// An autoscaler builds nodes for what has quota but no room; absent: none does.
    pub autoscaler: Option<Autoscaler>,
    /// Which metrics are shown, where there may be many series.
    pub metrics: Metrics,
    /// Leader election between replicas.
    pub leader_election: LeaderElection,
    /// The connection to the API server.
    pub client_connection: ClientConnection,
    /// First wait after a failed bind, in seconds. Default 1.
    #[schemars(range(min = 1, max = 3600))]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// Longest wait after failed binds, in seconds. Default 10.
    #[schemars(range(min = 1, max = 3600))]
    pub pod_max_backoff_seconds: Option<i64>,
}

/// An API group of queue objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuotaApiName {
    /// Our own.
    #[serde(rename = "capstan.sh")]
    Capstan,
    /// Kueue's, for clusters that move from it.
    #[serde(rename = "kueue.x-k8s.io")]
    Kueue,
}

/// What becomes of work without a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnqueuedWorkloads {
    /// It runs, with the lowest standing.
    Allow,
    /// It waits until somebody gives it a queue.
    Hold,
}

/// Weights of score terms, 0 to 100; 0 switches a term off, absent keeps the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    /// Price of the share of the node used.
    #[schemars(range(min = 0, max = 100))]
    pub cost: Option<u32>,
    /// Capacity type against the workload's list.
    #[schemars(range(min = 0, max = 100))]
    pub capacity: Option<u32>,
    /// How close together a gang is.
    #[schemars(range(min = 0, max = 100))]
    pub locality: Option<u32>,
    /// Fill used nodes first, keep whole nodes free.
    #[schemars(range(min = 0, max = 100))]
    pub packing: Option<u32>,
    /// Do not break a fuller node than needed.
    #[schemars(range(min = 0, max = 100))]
    pub gpu_fit: Option<u32>,
    /// PreferNoSchedule taints.
    #[schemars(range(min = 0, max = 100))]
    pub soft_taints: Option<u32>,
    /// Preferred node affinity.
    #[schemars(range(min = 0, max = 100))]
    pub node_affinity: Option<u32>,
    /// Preferred pod affinity and anti-affinity.
    #[schemars(range(min = 0, max = 100))]
    pub pod_affinity: Option<u32>,
    /// ScheduleAnyway spread constraints.
    #[schemars(range(min = 0, max = 100))]
    pub topology_spread: Option<u32>,
    /// Images that a node has already.
    #[schemars(range(min = 0, max = 100))]
    pub image_locality: Option<u32>,
    /// What claims on devices list first.
    #[schemars(range(min = 0, max = 100))]
    pub device_choice: Option<u32>,
    /// Storage that is left where volumes are made for a pod.
    #[schemars(range(min = 0, max = 100))]
    pub storage_capacity: Option<u32>,
}

/// One price; what is absent matches every node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceItem {
    /// Instance type (label `node.kubernetes.io/instance-type`).
    pub instance_type: Option<String>,
    /// Region (label `topology.kubernetes.io/region`).
    pub region: Option<String>,
    /// Zone (label `topology.kubernetes.io/zone`).
    pub zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: Option<CapacityTypeName>,
    /// Node labels that must be equal.
    #[serde(default)]
    pub node_labels: BTreeMap<String, String>,
    /// Price of the whole node, US dollars per hour.
    pub usd_per_hour: Quantity,
}

/// A capacity type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityTypeName {
    /// May be taken back at short notice.
    Spot,
    /// Paid by the hour.
    OnDemand,
    /// Already paid.
    Reserved,
}

/// How capacity is bought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityTypes {
    /// Further node labels that say so, looked at before the well-known ones.
    pub labels: Vec<CapacityLabelItem>,
    /// Price of a reserved node per hour where `prices` does not say. Default 0.
    pub reserved_usd_per_hour: Option<Quantity>,
}

/// A node label that says how a node is bought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityLabelItem {
    /// Label.
    pub key: String,
    /// Capacity type by label value.
    pub values: BTreeMap<String, CapacityTypeName>,
}

/// Topology of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topology {
    /// Node label keys, outermost first; absent: Topology objects, else the well-known labels.
    pub levels: Option<Vec<String>>,
}

/// Arguments of placement rules, as kube-scheduler's plugins take them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// Node affinity.
    pub node_affinity: NodeAffinityArgs,
    /// Room on nodes.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Accepted; without effect.
    pub node_name: Option<Value>,
    /// Accepted; without effect.
    pub node_unschedulable: Option<Value>,
    /// Accepted; without effect.
    pub taint_toleration: Option<Value>,
    /// Accepted; without effect.
    pub node_ports: Option<Value>,
    /// Accepted; without effect.
    pub volume_restrictions: Option<Value>,
    /// Accepted; without effect.
    pub node_volume_limits: Option<Value>,
    /// Arguments of VolumeBinding.
    pub volume_binding: VolumeBindingArgs,
    /// Accepted; without effect.
    pub volume_zone: Option<Value>,
    /// Accepted; for the spread rule.
    pub pod_topology_spread: Option<Value>,
    /// Accepted; for the affinity rule.
    pub inter_pod_affinity: Option<Value>,
    /// Arguments of DynamicResources.
    pub dynamic_resources: DynamicResourcesArgs,
    /// Accepted; for the feature rule.
    pub node_declared_features: Option<Value>,
    /// Accepted; without effect.
    pub node_resources_balanced_allocation: Option<Value>,
    /// Accepted; without effect.
    pub image_locality: Option<Value>,
    /// Accepted; without effect.
    pub default_preemption: Option<Value>,
    /// Accepted; without effect.
    pub gang_scheduling: Option<Value>,
    /// Accepted; without effect.
    pub scheduling_gates: Option<Value>,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeBindingArgs {
    /// Accepted; without effect.
    pub api_version: Option<Value>,
    /// Accepted; without effect.
    pub kind: Option<Value>,
    /// Seconds that claims of a gang may take to be bound; 0 or absent: 600.
    pub bind_timeout_seconds: Option<i64>,
    /// Accepted; without effect.
    pub shape: Option<Value>,
}

/// `DynamicResourcesArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicResourcesArgs {
    /// Accepted; without effect.
    pub api_version: Option<Value>,
    /// Accepted; without effect.
    pub kind: Option<Value>,
    /// Accepted; without effect: a search on one node ends after a count of tries.
    pub filter_timeout: Option<Value>,
    /// Time that devices of a gang may take to be made ready; 0 or absent: 600s.
    pub binding_timeout: Option<GoDuration>,
}

/// `NodeAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinityArgs {
    /// Ignored.
    pub api_version: Option<String>,
    /// Ignored.
    pub kind: Option<String>,
    /// Affinity that every pod has on top of its own.
    pub added_affinity: Option<AddedAffinity>,
}

/// Affinity that every pod has on top of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddedAffinity {
    /// What a node must have.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    /// What a node had better have.
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredSchedulingTerm>,
}

/// `NodeResourcesFitArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourcesFitArgs {
    /// Ignored.
    pub api_version: Option<String>,
    /// Ignored.
    pub kind: Option<String>,
    /// Extended resources that are not checked.
    pub ignored_resources: Vec<String>,
    /// Domains of extended resources that are not checked.
    pub ignored_resource_groups: Vec<String>,
    /// Accepted; scores are weighted by `profiles`.
    pub scoring_strategy: Option<Value>,
}

/// Fair sharing between queues of a cohort.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FairSharing {
    /// Default true once `fairSharing` is present.
    pub enable: Option<bool>,
    /// When a victim's share allows its preemption, in the order tried. Default both.
    pub preemption_strategies: Vec<PreemptionStrategy>,
}

/// When a victim's share allows its preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionStrategy {
    /// The preemptor's share is at most the victim's afterwards.
    LessThanOrEqualToFinalShare,
    /// The preemptor's share is below the victim's before.
    LessThanInitialShare,
}

/// Fair sharing between LocalQueues by what they used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionFairSharing {
    /// After this long, half of what was used is forgotten.
    pub usage_half_life_time: Option<GoDuration>,
    /// How often usage is looked at. Default 5m.
    pub usage_sampling_interval: Option<GoDuration>,
    /// Weights of resources. Default 1 each.
    pub resource_weights: BTreeMap<String, Quantity>,
}

/// Which resources count against quota, and as what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// Resources with these prefixes are left out of quota.
    pub exclude_resource_prefixes: Vec<String>,
    /// Resources that count as others.
    pub transformations: Vec<Transformation>,
    /// What a resource that no group covers means. Default `BlockUndeclared`.
    pub quota_check_strategy: Option<QuotaCheckStrategy>,
    /// Names for devices of resource claims.
    pub device_class_mappings: Vec<DeviceClassMapping>,
}

/// A resource that counts as others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transformation {
    /// Resource.
    pub input: String,
    /// Whether it still counts itself. Default `Retain`.
    pub strategy: Option<TransformationStrategy>,
    /// A resource whose quantity multiplies the outputs, where it is asked.
    pub multiply_by: Option<String>,
    /// Amounts for one of the input, also below zero: an allowance, which takes away from what
    /// others make of the same resource.
    #[serde(default)]
    pub outputs: BTreeMap<String, Quantity>,
}

/// Whether the input of a transformation still counts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TransformationStrategy {
    /// It does.
    Retain,
    /// It does not.
    Replace,
}

/// What a resource that no group covers means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuotaCheckStrategy {
    /// The workload cannot be admitted.
    BlockUndeclared,
    /// The same: what it was called here before.
    Required,
    /// It is left out.
    IgnoreUndeclared,
}

/// Names for devices of resource claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClassMapping {
    /// Resource that quota names.
    pub name: String,
    /// Device classes that count as it.
    pub device_class_names: Vec<String>,
}

/// A start in time is kept for the first of a queue that waits, where run times tell when it can
/// start; smaller work passes it only where that does not make it later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservations {
    /// Default true. It changes nothing while no work says how long it runs
    /// (`capstan.sh/expected-runtime`, `capstan.sh/max-runtime`).
    pub enable: Option<bool>,
    /// Starts kept at a time for those who compete for the same nodes or quota, first by priority
    /// and age; what is admitted beside them is tried against each. Default 16.
    #[schemars(range(min = 1, max = 256))]
    pub max_reserved: Option<u32>,
    /// Work that says nothing is taken to run as long as work of the same kind in the same queue
    /// did before. For clusters whose jobs are alike. Default false.
    pub learn_run_times: Option<bool>,
}

/// Eviction of workloads whose pods do not come up. A pod counts while it is running and ready; one
/// that runs and of whose readiness nothing is known counts as well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitForPodsReady {
    /// Default true once `waitForPodsReady` is present.
    pub enable: Option<bool>,
    /// Time until enough pods are ready. Default 5m.
    pub timeout: Option<GoDuration>,
    /// How long a gang that runs may lack members of its minimum, or have them unready, before it
    /// is stopped whole and queues again. Default `timeout`, and 5m without either; 0s: any time.
    pub recovery_timeout: Option<GoDuration>,
    /// One workload at a time until it has started. Default false.
    pub block_admission: Option<bool>,
    /// How it queues again.
    pub requeuing_strategy: RequeuingStrategy,
}

/// How an evicted workload queues again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequeuingStrategy {
    /// Which time orders it. Default `Eviction`.
    pub timestamp: Option<RequeuingTimestamp>,
    /// Tries before it is held. Default: no limit.
    #[schemars(range(min = 0))]
    pub backoff_limit_count: Option<i32>,
    /// First wait in seconds. Default 60.
    #[schemars(range(min = 0))]
    pub backoff_base_seconds: Option<i32>,
    /// Longest wait in seconds. Default 3600.
    #[schemars(range(min = 0))]
    pub backoff_max_seconds: Option<i32>,
}

/// Which time orders a workload that queues again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RequeuingTimestamp {
    /// When it was evicted.
    Eviction,
    /// When it was created.
    Creation,
}

/// An autoscaler that builds nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Autoscaler {
    /// How long quota is held without nodes. Default 10m.
    pub provisioning_timeout: Option<GoDuration>,
    /// Class of the ProvisioningRequests to write; absent: pods alone are the request.
    pub provisioning_class_name: Option<String>,
}

/// Which metrics are shown, where there may be many series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Metrics {
    /// Amounts by ClusterQueue (or cohort), flavor and resource: `true` shows all, `false` none.
    /// Absent: own quota, and what is used, borrowed and lent.
    pub enable_cluster_queue_resources: Option<bool>,
    /// Metrics by LocalQueue; absent: none.
    pub local_queue_metrics: Option<LocalQueueMetrics>,
}

/// Metrics by LocalQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalQueueMetrics {
    /// Whether they are shown. Default `true`.
    pub enable: Option<bool>,
}

/// Leader election between replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// Default true. `false` is for a single replica; at its start it lets writes of the one before
    /// it arrive for two seconds, since it has no lease to wait for.
    pub leader_elect: Option<bool>,
    /// How long a lease holds. Default 15s.
    pub lease_duration: Option<GoDuration>,
    /// How long the leader tries to renew it. Default 10s.
    pub renew_deadline: Option<GoDuration>,
    /// How long between tries. Default 2s.
    pub retry_period: Option<GoDuration>,
    /// `leases`.
    pub resource_lock: Option<String>,
    /// Name of the lease. Default the scheduler's name.
    pub resource_name: Option<String>,
    /// Namespace of the lease. Default that of our own pod; outside a cluster `capstan-system`
    /// where there is such a namespace, else that of the kubeconfig.
    pub resource_namespace: Option<String>,
}

/// The connection to the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// Path of a kubeconfig; absent: the cluster we run in.
    pub kubeconfig: Option<String>,
    /// Requests a second; absent: no limit of our own.
    pub qps: Option<Quantity>,
    /// Requests at once beyond that.
    #[schemars(range(min = 0))]
    pub burst: Option<i32>,
    /// Accepted; JSON is spoken.
    pub content_type: Option<String>,
    /// Accepted; JSON is spoken.
    pub accept_content_types: Option<String>,
}
