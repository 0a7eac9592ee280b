//! ClusterQueue and Cohort.
//!
//! Field names and values are those of Kueue's v1beta2, and so are the additions' style. What
//! Kueue's webhooks check is checked by the API server with the rules of [`super::crds`], and
//! again in [`crate::convert::quota`] for objects that no API server saw.

#![allow(clippy::duplicated_attributes, reason = "printer columns repeat their keys")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::usage::{FairSharingStatus, FlavorUsage};
use crate::quantity::Quantity;

/// Quota, and who may use it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "ClusterQueue",
    plural = "clusterqueues",
    status = "ClusterQueueStatus",
    shortname = "cq",
    category = "capstan",
    printcolumn(name = "Cohort", type_ = "string", json_path = ".spec.cohortName"),
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.queueingStrategy",
        priority = 1
    ),
    printcolumn(
        name = "Pending Workloads",
        type_ = "integer",
        json_path = ".status.pendingWorkloads"
    ),
    printcolumn(
        name = "Admitted Workloads",
        type_ = "integer",
        json_path = ".status.admittedWorkloads",
        priority = 1
    ),
    printcolumn(name = "GPUs", type_ = "string", json_path = ".status.gpus"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.memory", priority = 1),
    printcolumn(name = "$/h", type_ = "string", json_path = ".status.usdPerHour"),
    printcolumn(
        name = "Budget",
        type_ = "string",
        json_path = ".status.budget.spent",
        priority = 1
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQueueSpec {
    /// Flavors and quotas.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub resource_groups: Vec<ResourceGroup>,
    /// Cohort whose members lend each other unused quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort_name: Option<String>,
    /// Whether the head of the queue blocks those behind it.
    #[serde(default)]
    pub queueing_strategy: QueueingStrategy,
    /// Namespaces whose workloads may use it; absent here: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// When to look at the next flavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor_fungibility: Option<FlavorFungibility>,
    /// Whom it may preempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
    /// Whether it still admits anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_policy: Option<StopPolicy>,
    /// Its share of what the cohort lends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
    /// How its LocalQueues take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_scope: Option<AdmissionScope>,
    /// What it may spend in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Scoring profile of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_profile: Option<String>,
}

/// How the LocalQueues of a ClusterQueue take turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionScope {
    /// By what they used of late, or by priority and age alone.
    #[serde(default)]
    pub admission_mode: AdmissionMode,
}

/// By what LocalQueues of one ClusterQueue take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdmissionMode {
    /// By what each used of late, over its weight; then by priority and age. The configuration has
    /// to have `admissionFairSharing` too.
    UsageBasedAdmissionFairSharing,
    /// By priority and age.
    #[default]
    NoAdmissionFairSharing,
}

/// A tree of ClusterQueues that lend each other quota.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "capstan.sh",
    version = "v1alpha1",
    kind = "Cohort",
    plural = "cohorts",
    status = "CohortStatus",
    shortname = "co",
    category = "capstan",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parentName"),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].reason",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CohortSpec {
    /// Cohort above this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_name: Option<String>,
    /// Quota shared by its members, on top of their own.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub resource_groups: Vec<ResourceGroup>,
    /// Its share of what the parent lends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharing>,
}

/// Resources whose flavor is chosen together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceGroup {
    /// Resources covered.
    #[schemars(length(min = 1, max = 64))]
    pub covered_resources: Vec<String>,
    /// Flavors, in the order they are tried.
    #[schemars(length(min = 1, max = 64))]
    pub flavors: Vec<FlavorQuotas>,
}

/// Quota of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlavorQuotas {
    /// Flavor.
    pub name: String,
    /// One entry for each resource covered, in any order.
    #[schemars(length(min = 1, max = 64))]
    pub resources: Vec<ResourceQuota>,
}

/// Quota of one resource of one flavor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// Resource. `capstan.sh/usd-per-hour` is money: each pod takes the price of its share of the
    /// node where it goes, in US dollars an hour; nodes whose price is not known are not used.
    /// Parts of a dollar are written as text, `"12.50"`.
    pub name: String,
    /// Own quota.
    pub nominal_quota: Quantity,
    /// How much more may be borrowed; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrowing_limit: Option<Quantity>,
    /// How much of it may be lent; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lending_limit: Option<Quantity>,
}

/// Whether the head of a queue blocks those behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QueueingStrategy {
    /// The head blocks.
    StrictFIFO,
    /// What does not fit steps aside.
    #[default]
    BestEffortFIFO,
}

/// Which objects are meant, by their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be equal.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must hold.
    #[serde(default)]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectorRequirement {
    /// Label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Operands.
    #[serde(default)]
    pub values: Vec<String>,
}

/// When the flavor scan goes on although something was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlavorFungibility {
    /// When the flavor needs borrowing; absent: MayStopSearch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_can_borrow: Option<FungibilityPolicy>,
    /// When the flavor needs preemption; absent: TryNextFlavor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_can_preempt: Option<FungibilityPolicy>,
    /// What counts first once all were looked at; absent: BorrowingOverPreemption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<FungibilityPreference>,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FungibilityPolicy {
    /// Take it.
    MayStopSearch,
    /// Look further.
    TryNextFlavor,
}

/// What is better when both are needed somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FungibilityPreference {
    /// Rather borrow.
    BorrowingOverPreemption,
    /// Rather preempt.
    PreemptionOverBorrowing,
}

/// Whom a ClusterQueue may preempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// In its own queue.
    #[serde(default)]
    pub within_cluster_queue: WithinClusterQueue,
    /// Borrowers of its cohort.
    #[serde(default)]
    pub reclaim_within_cohort: ReclaimWithinCohort,
    /// Others of lower priority while itself borrowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow_within_cohort: Option<BorrowWithinCohort>,
    /// A workload is no victim before it ran this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_runtime: Option<GoDuration>,
    /// A workload preempts only after waiting this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<GoDuration>,
    /// Which victims go first; absent: LowestPriority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_order: Option<VictimOrder>,
}

/// `withinClusterQueue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WithinClusterQueue {
    /// Nobody.
    #[default]
    Never,
    /// Lower priority.
    LowerPriority,
    /// Lower priority, or equal and newer.
    LowerOrNewerEqualPriority,
}

/// `reclaimWithinCohort`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReclaimWithinCohort {
    /// Nobody.
    #[default]
    Never,
    /// Lower priority.
    LowerPriority,
    /// Anyone who borrows.
    Any,
}

/// `borrowWithinCohort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BorrowWithinCohort {
    /// Whether it is allowed.
    #[serde(default)]
    pub policy: BorrowWithinCohortPolicy,
    /// Only victims of at most this priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority_threshold: Option<i32>,
}

/// Whether a queue that borrows may preempt others of its cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BorrowWithinCohortPolicy {
    /// Never.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
}

/// Which victims go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VictimOrder {
    /// Kueue's order, with lost work as the last tie.
    LowestPriority,
    /// Lost work right after priority.
    LeastLostWork,
    /// What frees least beyond the need.
    BestFit,
}

/// Whether a queue still admits anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopPolicy {
    /// It does.
    None,
    /// Nothing new.
    Hold,
    /// Nothing new, and what runs is evicted.
    HoldAndDrain,
}

/// Share of what a cohort lends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FairSharing {
    /// Weight; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Quantity>,
}

/// What a queue may spend in a period. With both amounts the one that is reached first counts. What
/// runs at a price that is not known counts for nothing in dollars, and is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Quantity>,
    /// GPU-hours of all makers' GPUs; parts of them count as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_hours: Option<Quantity>,
    /// How long it must last.
    pub period: BudgetPeriod,
    /// What happens once it is spent; absent: Hard.
    #[serde(default)]
    pub enforcement: BudgetEnforcement,
}

/// Period of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BudgetPeriod {
    /// From midnight UTC.
    Day,
    /// From Monday, midnight UTC.
    Week,
    /// From the first, midnight UTC.
    #[default]
    Month,
}

/// What happens once a budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BudgetEnforcement {
    /// The queue admits as before, and its work is the first that others of the cohort take back.
    Soft,
    /// Nothing new is admitted until the next period; what runs goes on.
    #[default]
    Hard,
}

/// Status of a ClusterQueue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQueueStatus {
    /// Conditions; `Active` is the one that matters.
    pub conditions: Vec<Condition>,
    /// Workloads that wait.
    pub pending_workloads: i32,
    /// Workloads that hold quota.
    pub reserving_workloads: i32,
    /// Workloads that are admitted.
    pub admitted_workloads: i32,
    /// GPUs in use and own quota of them, as `used/nominal`.
    pub gpus: String,
    /// CPU in use and own quota of it, as `used/nominal`.
    pub cpu: String,
    /// Memory in use and own quota of it, as `used/nominal`.
    pub memory: String,
    /// Hourly price of all that runs in it, in US dollars, and behind it its own quota of money if
    /// it has one, as `used/nominal`; with a `+` where more runs at a price that is not known;
    /// empty: nothing of it is known.
    pub usd_per_hour: String,
    /// Quota held, by flavor.
    pub flavors_reservation: Vec<FlavorUsage>,
    /// Quota in use, by flavor.
    pub flavors_usage: Vec<FlavorUsage>,
    /// Its place in fair sharing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
    /// What was spent of the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
}

/// Status of a Cohort.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CohortStatus {
    /// Conditions; `Active` is the one that matters.
    pub conditions: Vec<Condition>,
    /// Its place in fair sharing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_sharing: Option<FairSharingStatus>,
}

/// What was spent of a budget, as far as it was written down: at most once a minute, and when it
/// ends. What runs goes on from there, also when another replica reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// Begin of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_start: Option<Time>,
    /// Spent by `asOf`, in millionths of a US dollar.
    pub spent_micro_usd: i64,
    /// Used by `asOf`, in GPU-seconds.
    pub spent_gpu_seconds: i64,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Time>,
    /// Spent and to be spent, as `$312.40/$500.00`; with a `+` where more runs at a price that is
    /// not known, with a `~` where pods are charged what their nodes cost because no price was
    /// recorded.
    pub spent: String,
    /// Nothing of it is left.
    pub exhausted: bool,
    /// When the next period begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_end: Option<Time>,
    /// When it will have been spent if all goes on as it does; absent: not within the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_out: Option<Time>,
}
