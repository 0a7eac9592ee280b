//! Slim views of dynamic resource allocation: `resource.k8s.io`, v1.
//!
//! What drivers configure is left out: who allocates a claim copies it from the objects themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::meta::{SlimMeta, slim};
use super::resource_like;
use crate::quantity::Quantity;

/// An object of one of the five kinds.
#[derive(Clone, Debug)]
pub enum DeviceObject {
    /// Devices that a driver offers.
    Slice(ResourceSlice),
    /// A kind of devices.
    Class(DeviceClass),
    /// A claim on devices.
    Claim(ResourceClaim),
    /// What claims are made from.
    Template(ResourceClaimTemplate),
    /// A taint on devices that somebody else than their driver wants.
    TaintRule(DeviceTaintRule),
}

impl DeviceObject {
    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            DeviceObject::Slice(object) => &object.metadata,
            DeviceObject::Class(object) => &object.metadata,
            DeviceObject::Claim(object) => &object.metadata,
            DeviceObject::Template(object) => &object.metadata,
            DeviceObject::TaintRule(object) => &object.metadata,
        }
    }
}

/// Devices that a driver offers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ResourceSlice {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: SliceSpec,
}

resource_like!(ResourceSlice, k8s_openapi::api::resource::v1::ResourceSlice);

/// What a slice offers, and where.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SliceSpec {
    /// Driver.
    pub driver: String,
    /// Pool that it is a part of.
    pub pool: Pool,
    /// The one node that reaches its devices.
    pub node_name: Option<String>,
    /// Nodes that reach them.
    pub node_selector: Option<NodeSelector>,
    /// Every node reaches them.
    pub all_nodes: Option<bool>,
    /// Each device says it for itself.
    pub per_device_node_selection: Option<bool>,
    /// Devices.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// What devices of the pool share.
    #[serde(default)]
    pub shared_counters: Vec<CounterSet>,
}

/// The pool of a slice.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Name.
    pub name: String,
    /// Generation.
    #[serde(default)]
    pub generation: i64,
    /// Slices of this generation.
    pub resource_slice_count: i64,
}

/// Counters that devices share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CounterSet {
    /// Name.
    pub name: String,
    /// Counters by name.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

/// An amount of a counter.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Counter {
    /// How much.
    pub value: Quantity,
}

/// What a device takes of a counter set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Consumption {
    /// Name of the set.
    pub counter_set: String,
    /// Amounts by counter.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
}

/// A device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Name.
    pub name: String,
    /// Attributes by name.
    #[serde(default)]
    pub attributes: BTreeMap<String, Attribute>,
    /// Capacities by name.
    #[serde(default)]
    pub capacity: BTreeMap<String, Capacity>,
    /// What it takes of counters.
    #[serde(default)]
    pub consumes_counters: Vec<Consumption>,
    /// The one node that reaches it.
    pub node_name: Option<String>,
    /// Nodes that reach it.
    pub node_selector: Option<NodeSelector>,
    /// Every node reaches it.
    pub all_nodes: Option<bool>,
    /// Taints.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Once allocated, it is used from that node only.
    #[serde(default)]
    pub binds_to_node: bool,
    /// Conditions that must be true of it before a pod that uses it is bound.
    #[serde(default)]
    pub binding_conditions: Vec<String>,
    /// Conditions of which one says that it will not be.
    #[serde(default)]
    pub binding_failure_conditions: Vec<String>,
    /// Several claims may have a share.
    pub allow_multiple_allocations: Option<bool>,
}

/// Value of an attribute, or several values; one of these.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Attribute {
    /// A whole number.
    pub int: Option<i64>,
    /// Yes or no.
    pub bool: Option<bool>,
    /// A text.
    pub string: Option<String>,
    /// A semantic version.
    pub version: Option<String>,
    /// Whole numbers.
    #[serde(default)]
    pub ints: Vec<i64>,
    /// Each yes or no.
    #[serde(default)]
    pub bools: Vec<bool>,
    /// Texts.
    #[serde(default)]
    pub strings: Vec<String>,
    /// Semantic versions.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// A capacity of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// How much.
    pub value: Quantity,
    /// Which shares of it may be had.
    pub request_policy: Option<RequestPolicy>,
}

/// Which shares of a capacity may be had.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestPolicy {
    /// Where nothing is asked.
    pub default: Option<Quantity>,
    /// The only amounts.
    #[serde(default)]
    pub valid_values: Vec<Quantity>,
    /// A range of amounts.
    pub valid_range: Option<ValidRange>,
}

/// A range of shares.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ValidRange {
    /// Least.
    pub min: Quantity,
    /// Most.
    pub max: Option<Quantity>,
    /// Step.
    pub step: Option<Quantity>,
}

/// A taint of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(default)]
    pub value: String,
    /// Effect.
    #[serde(default)]
    pub effect: String,
}

/// A taint on devices that somebody else than their driver wants.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct DeviceTaintRule {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: TaintRuleSpec,
}

resource_like!(DeviceTaintRule, k8s_openapi::api::resource::v1::DeviceTaintRule);

/// Which devices, and which taint.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaintRuleSpec {
    /// Which devices; absent: none, empty: all.
    pub device_selector: Option<TaintSelector>,
    /// The taint.
    pub taint: Taint,
}

/// Devices that a rule is for: those of which all this is true.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct TaintSelector {
    /// Their driver.
    pub driver: Option<String>,
    /// Their pool.
    pub pool: Option<String>,
    /// Their name in it.
    pub device: Option<String>,
}

/// A kind of devices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct DeviceClass {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClassSpec,
}

resource_like!(DeviceClass, k8s_openapi::api::resource::v1::DeviceClass);

/// What a class selects.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassSpec {
    /// All must match.
    #[serde(default)]
    pub selectors: Vec<Selector>,
    /// The extended resource that its devices back.
    pub extended_resource_name: Option<String>,
}

/// A selector of devices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Selector {
    /// An expression.
    pub cel: Option<Cel>,
}

/// An expression.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Cel {
    /// Its text.
    pub expression: String,
}

/// A claim on devices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ResourceClaim {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: ClaimStatus,
}

resource_like!(ResourceClaim, k8s_openapi::api::resource::v1::ResourceClaim);

/// What claims are made from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ResourceClaimTemplate {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: TemplateSpec,
}

resource_like!(ResourceClaimTemplate, k8s_openapi::api::resource::v1::ResourceClaimTemplate);

/// The claim that a template makes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct TemplateSpec {
    /// Its spec.
    #[serde(default)]
    pub spec: ClaimSpec,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimSpec {
    /// Devices.
    #[serde(default)]
    pub devices: ClaimDevices,
}

/// Devices that a claim asks for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimDevices {
    /// Requests.
    #[serde(default)]
    pub requests: Vec<Request>,
    /// What devices have in common, or not.
    #[serde(default)]
    pub constraints: Vec<Constraint>,
}

/// One request.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Name.
    pub name: String,
    /// Just this.
    pub exactly: Option<Exactly>,
    /// The first of these that can be had.
    #[serde(default)]
    pub first_available: Vec<Exactly>,
}

/// Devices of one class.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exactly {
    /// Name, where it is one of several.
    #[serde(default)]
    pub name: String,
    /// Class.
    #[serde(default)]
    pub device_class_name: String,
    /// Further selectors.
    #[serde(default)]
    pub selectors: Vec<Selector>,
    /// `ExactCount` (also where nothing is said) or `All`.
    pub allocation_mode: Option<String>,
    /// How many; absent: one.
    pub count: Option<i64>,
    /// For administration.
    pub admin_access: Option<bool>,
    /// Taints tolerated.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// What it asks of capacities.
    pub capacity: Option<CapacityRequests>,
}

/// What is asked of capacities.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CapacityRequests {
    /// Amounts by name.
    #[serde(default)]
    pub requests: BTreeMap<String, Quantity>,
}

/// A toleration of device taints.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Toleration {
    /// Key; absent: every key.
    #[serde(default)]
    pub key: String,
    /// `Equal` (also where nothing is said) or `Exists`.
    #[serde(default)]
    pub operator: String,
    /// Value.
    #[serde(default)]
    pub value: String,
    /// Effect; absent: every effect.
    #[serde(default)]
    pub effect: String,
}

/// A constraint.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// Requests that it is for; empty: all.
    #[serde(default)]
    pub requests: Vec<String>,
    /// Values of this attribute must be equal.
    pub match_attribute: Option<String>,
    /// Values of this attribute must differ.
    pub distinct_attribute: Option<String>,
}

/// Status of a claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimStatus {
    /// What it has been given.
    pub allocation: Option<Allocation>,
    /// What drivers say of the devices that it has.
    #[serde(default)]
    pub devices: Vec<DeviceStatus>,
    /// Who has reserved it.
    #[serde(default)]
    pub reserved_for: Vec<Consumer>,
}

/// Who has reserved a claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Consumer {
    /// Unique id of the pod, or whatever it is.
    pub uid: String,
}

/// What a driver says of a device that a claim has.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    /// Driver.
    pub driver: String,
    /// Pool.
    pub pool: String,
    /// Device.
    pub device: String,
    /// Which share of it.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    /// Conditions.
    #[serde(default)]
    pub conditions: Vec<DeviceCondition>,
}

/// A condition of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCondition {
    /// Which.
    #[serde(rename = "type")]
    pub of: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
    /// Since when it has this status.
    pub last_transition_time: Option<Time>,
}

/// What a claim has been given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// Devices.
    #[serde(default)]
    pub devices: AllocatedDevices,
    /// Nodes that can use it; absent: all.
    pub node_selector: Option<NodeSelector>,
    /// When it was given.
    pub allocation_timestamp: Option<Time>,
}

/// Devices of a claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct AllocatedDevices {
    /// One by one.
    #[serde(default)]
    pub results: Vec<AllocatedDevice>,
}

/// A device of a claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedDevice {
    /// Driver.
    pub driver: String,
    /// Pool.
    pub pool: String,
    /// Device.
    pub device: String,
    /// For administration.
    pub admin_access: Option<bool>,
    /// Which share of it.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    /// What the share takes.
    #[serde(default)]
    pub consumed_capacity: BTreeMap<String, Quantity>,
    /// Conditions that must be true of it before its pod is bound.
    #[serde(default)]
    pub binding_conditions: Vec<String>,
    /// Conditions of which one says that it will not be.
    #[serde(default)]
    pub binding_failure_conditions: Vec<String>,
}
