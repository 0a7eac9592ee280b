//! Queue objects as facts: ClusterQueue, LocalQueue, Cohort, ResourceFlavor.
//!
//! Their rules are checked by the shell; what it found stands in `broken` and makes the queues
//! that depend on the object inactive.

use std::collections::BTreeMap;

use super::spending::SpendingLimit;
use super::{LabelSelector, Labels, Taint, Text, Toleration};
use crate::time::Time;

/// A ClusterQueue.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterQueueFacts {
    /// Unique name.
    pub name: Text,
    /// Cohort name, if any.
    pub cohort: Option<Text>,
    /// Flavors and quotas.
    pub groups: Vec<ResourceGroup>,
    /// Strict or best-effort first-in-first-out.
    pub strategy: QueueingStrategy,
    /// Namespaces that may use it; `None` selects none.
    pub namespaces: Option<LabelSelector>,
    /// When to look at the next flavor.
    pub fungibility: Fungibility,
    /// Whom it may preempt.
    pub preemption: PreemptionPolicy,
    /// Whether it admits anything, and what becomes of what it admitted.
    pub stop: StopPolicy,
    /// Scoring profile by name; `None`: the default one.
    pub profile: Option<Text>,
    /// `fairSharing.weight`.
    pub weight: Weight,
    /// Its LocalQueues take turns by what they used (`admissionScope`).
    pub usage_based: bool,
    /// What it may spend in a period.
    pub spending: Option<SpendingLimit>,
    /// Rules that its spec breaks (found by the shell's validation): such a queue is inactive.
    pub broken: Vec<Text>,
    /// Since when it is being deleted (`deletionTimestamp`): it admits nothing any more, and keeps
    /// its quota and its place until nobody holds quota in it.
    pub deleted: Option<Time>,
}

/// `stopPolicy` of a ClusterQueue or LocalQueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopPolicy {
    /// It admits.
    #[default]
    None,
    /// Nothing new is admitted; what runs goes on.
    Hold,
    /// Nothing new is admitted; what runs is stopped.
    HoldAndDrain,
}

/// Resources whose flavor is chosen together.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceGroup {
    /// Resources covered.
    pub covered: Vec<Text>,
    /// Flavors in the order they are tried.
    pub flavors: Vec<FlavorQuota>,
}

/// Quota of one flavor.
#[derive(Clone, Debug, PartialEq)]
pub struct FlavorQuota {
    /// Flavor name.
    pub flavor: Text,
    /// Quota by resource.
    pub resources: BTreeMap<Text, Quota>,
}

/// Quota of one flavor and resource at one ClusterQueue or Cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Own quota.
    pub nominal: i64,
    /// How much more may be borrowed; `None`: no limit.
    pub borrowing: Option<i64>,
    /// How much of it may be lent; `None`: all.
    pub lending: Option<i64>,
}

/// Weight of a queue or cohort in fair sharing, in billionths (spec/quota.md 1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(pub u64);

impl Weight {
    /// That of who names none.
    pub const ONE: Weight = Weight(1_000_000_000);
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

/// Whether the head of a queue blocks those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueingStrategy {
    /// The head blocks.
    StrictFifo,
    /// What does not fit steps aside.
    BestEffortFifo,
}

/// When the flavor scan goes on although something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fungibility {
    /// Go on when the flavor needs borrowing.
    pub next_when_borrowing: bool,
    /// Go on when the flavor needs preemption.
    pub next_when_preempting: bool,
    /// Compare borrowing before preemption.
    pub prefer_preemption_over_borrowing: bool,
}

/// Whom a ClusterQueue may preempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionPolicy {
    /// In its own queue.
    pub within_cluster_queue: PreemptWithin,
    /// Borrowers of its cohort.
    pub reclaim: PreemptReclaim,
    /// Others of lower priority while itself borrowing: `Some(threshold)` allows it.
    pub while_borrowing: Option<BorrowThreshold>,
}

/// `borrowWithinCohort` with policy LowerPriority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorrowThreshold {
    /// Only victims of at most this priority; `None`: any lower priority.
    pub max_priority: Option<i32>,
}

/// `withinClusterQueue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptWithin {
    /// Nobody.
    Never,
    /// Lower priority.
    LowerPriority,
    /// Lower priority, or equal and newer.
    LowerOrNewerEqual,
}

/// `reclaimWithinCohort`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptReclaim {
    /// Nobody.
    Never,
    /// Lower priority.
    LowerPriority,
    /// Anyone who borrows.
    Any,
}

/// A LocalQueue.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalQueueFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// ClusterQueue that it points to.
    pub cluster_queue: Text,
    /// Whether it admits anything, and what becomes of what it admitted.
    pub stop: StopPolicy,
    /// `fairSharing.weight`.
    pub weight: Weight,
    /// Rules that it breaks: work waits.
    pub broken: Vec<Text>,
}

/// What the status of a LocalQueue says that it used of late.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalQueueUsage {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Thousandths of amounts as of `at`, decayed; amounts of `cpu` are thousandths themselves.
    pub consumed: BTreeMap<Text, i64>,
    /// When that was.
    pub at: Time,
}

/// A Cohort object. Cohorts that are only named by queues exist without one.
#[derive(Clone, Debug, PartialEq)]
pub struct CohortFacts {
    /// Unique name.
    pub name: Text,
    /// Parent cohort.
    pub parent: Option<Text>,
    /// Quota of its own, shared by its members.
    pub groups: Vec<ResourceGroup>,
    /// `fairSharing.weight`.
    pub weight: Weight,
    /// Rules that its spec breaks: queues below it are inactive.
    pub broken: Vec<Text>,
}

/// A ResourceFlavor.
#[derive(Clone, Debug, PartialEq)]
pub struct FlavorFacts {
    /// Unique name.
    pub name: Text,
    /// Labels of its nodes.
    pub node_labels: Labels,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// Tolerations that admitted pods gain.
    pub tolerations: Vec<Toleration>,
    /// Topology of its nodes, by name.
    pub topology: Option<Text>,
    /// Levels of that Topology: labels that its nodes have, whatever their values. The engine
    /// fills them in, whatever is fed.
    pub levels: Vec<Text>,
    /// Rules that its spec breaks: queues that use it are inactive.
    pub broken: Vec<Text>,
}
