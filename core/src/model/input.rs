//! Every fact that reaches the engine from outside, as plain data.
//!
//! The shell turns API objects into these (it resolves labels, owners, prices and API defaults);
//! the engine never sees a Kubernetes type. A fact replaces the one before it with the same
//! identity, so feeding it twice, or in another order between objects, changes nothing.
//! Quantities are whole: CPU in milli-units, money in micro-USD, everything else in base units.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::{EffectId, EffectResult};
use crate::policy::Policy;
use crate::time::{Span, Time};

mod budgets;
mod deactivated;
mod devices;
mod limits;
mod malformed;
mod neighbours;
mod notes;
mod owners;
mod prices;
mod queues;
mod roles;
mod shape;
mod spending;
mod stops;
mod storage;
mod topology;

pub use budgets::BudgetFacts;
pub use deactivated::DeactivatedFacts;
pub use devices::{
    AllocatedDevice, Allocation, Answer, Attribute, Capacity, CapacityPolicy, CapacityRange,
    ClaimSpec, Constraint, DeviceAsk, DeviceCount, DeviceFacts, DeviceId, ExtendedClaim, Nano,
    PodClaim, Reach, Readiness, ReadyWhen, RequestMapping, RequestSpec, ResourceClaimFacts,
    ResourceClaimKey, SliceFacts,
};
pub use limits::{AboveLimit, Breach, OutOfRange};
pub use malformed::Malformed;
pub use neighbours::{Kin, Neighbours, PeerSelector, PeerTerm, PreferredPeers, Spread};
pub use notes::{BindingNote, EvictionNote, RequeueNote};
pub use owners::OwnerFacts;
pub use prices::{CapacityType, Price, PriceSource};
pub use queues::{
    BorrowThreshold, ClusterQueueFacts, CohortFacts, FlavorFacts, FlavorQuota, Fungibility,
    LocalQueueFacts, LocalQueueUsage, PreemptReclaim, PreemptWithin, PreemptionPolicy,
    QueueingStrategy, Quota, ResourceGroup, StopPolicy, Weight,
};
pub use roles::{OwnerPodSet, Rank, Replica, Roles, ToCome};
pub use shape::{HostPort, PodShape};
pub use spending::{Enforcement, Period, SpendingLimit, SpentFacts};
pub use stops::{StopKind, Stops};
pub use storage::{
    AccessModes, Attach, AttachmentFacts, CapacityFacts, ClaimFacts, ClaimKey, ClaimTemplate,
    ClaimUse, Disk, DiskKind, DriverFacts, PodVolumes, StorageClassFacts, StorageFact, StorageId,
    StorageKind, TakenOver, VolumeFacts,
};
pub use topology::{SetLevels, SliceWish, TopologyWish};

/// Shared, immutable text: names, uids, label keys and values.
pub type Text = Arc<str>;

/// Label keys and values.
pub type Labels = BTreeMap<Text, Text>;

/// Amounts by resource name; sorted, no zero amounts.
pub type Amounts = BTreeMap<Text, i64>;

/// An amount that is never used up (a node that states no allocatable at all).
pub const UNLIMITED: i64 = i64::MAX;

/// One fact from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A node exists, or changed.
    Node(Arc<NodeFacts>),
    /// The node of this name is gone.
    NodeGone(Text),
    /// A pod exists, or changed; pods of every scheduler are fed.
    Pod(PodFacts),
    /// The pod with this uid is gone.
    PodGone(Text),
    /// A pod ended, and is there for nobody any more: its owner says itself what is done.
    PodEnded {
        /// Its uid.
        pod: Text,
        /// It did what it was to do.
        well: bool,
    },
    /// An owner that runs as a gang (a batch/v1 Job) exists, or changed.
    Owner(OwnerFacts),
    /// The owner with this uid is gone.
    OwnerGone(Text),
    /// A ClusterQueue exists, or changed.
    ClusterQueue(ClusterQueueFacts),
    /// The ClusterQueue of this name is gone.
    ClusterQueueGone(Text),
    /// A LocalQueue exists, or changed.
    LocalQueue(LocalQueueFacts),
    /// The LocalQueue is gone.
    LocalQueueGone {
        /// Its namespace.
        namespace: Text,
        /// Its name.
        name: Text,
    },
    /// The status of a LocalQueue says what it used of late.
    LocalQueueUsed(LocalQueueUsage),
    /// The status of a ClusterQueue says what it spent of its budget.
    Spent(SpentFacts),
    /// A Workload object says that what it stands for may not run.
    Deactivated(DeactivatedFacts),
    /// It says so no more, or is gone: its namespace and name.
    Reactivated(Text, Text),
    /// A Cohort object exists, or changed.
    Cohort(CohortFacts),
    /// The Cohort object of this name is gone.
    CohortGone(Text),
    /// A ResourceFlavor exists, or changed.
    Flavor(FlavorFacts),
    /// The ResourceFlavor of this name is gone.
    FlavorGone(Text),
    /// A WorkloadPriorityClass exists, or changed.
    WorkloadPriorityClass {
        /// Its name.
        name: Text,
        /// Its value; higher goes first.
        value: i32,
    },
    /// The WorkloadPriorityClass of this name is gone.
    WorkloadPriorityClassGone(Text),
    /// A namespace exists, or its labels changed.
    Namespace {
        /// Its name.
        name: Text,
        /// Its labels.
        labels: Labels,
    },
    /// The namespace of this name is gone.
    NamespaceGone(Text),
    /// A PodDisruptionBudget exists, or changed.
    Budget(Arc<BudgetFacts>),
    /// The PodDisruptionBudget is gone.
    BudgetGone {
        /// Its namespace.
        namespace: Text,
        /// Its name.
        name: Text,
    },
    /// A Topology object: level keys, outermost first.
    Topology {
        /// Its name.
        name: Text,
        /// Node label keys, outermost first.
        levels: Vec<Text>,
    },
    /// The Topology object of this name is gone.
    TopologyGone(Text),
    /// Something about storage.
    Storage(StorageFact),
    /// A ResourceSlice exists, or changed.
    Slice(Arc<SliceFacts>),
    /// The ResourceSlice of this name is gone.
    SliceGone(Text),
    /// What the selectors of a query say of a slice's devices, in their order.
    Answers {
        /// The query.
        query: Text,
        /// The slice.
        slice: Text,
        /// One answer for each device.
        answers: Arc<[Answer]>,
    },
    /// No claim asks this query any more.
    QueryGone(Text),
    /// A ResourceClaim exists, or changed.
    ResourceClaim(ResourceClaimFacts),
    /// The ResourceClaim is gone.
    ResourceClaimGone(ResourceClaimKey),
    /// All extended resources that a DeviceClass backs.
    BackedResources(Arc<BTreeSet<Text>>),
    /// The whole validated configuration; replaces the one before.
    Policy(Arc<Policy>),
    /// What became of an effect, or that nobody will know.
    Outcome {
        /// The effect.
        effect: EffectId,
        /// What became of it.
        result: EffectResult,
    },
}

/// A node as scheduling sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFacts {
    /// Unique name.
    pub name: Text,
    /// Labels; topology levels and selectors read them.
    pub labels: Labels,
    /// Taints, hard and soft.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable` (cordoned).
    pub unschedulable: bool,
    /// What pods may use; [`UNLIMITED`] where nothing is stated at all.
    pub allocatable: Amounts,
    /// Features of its kubelet that pods can need, by kube-scheduler's names; sorted.
    pub features: Vec<Text>,
    /// Bytes of the images that are there, by every name that each has.
    pub images: Arc<Images>,
    /// How the node is bought.
    pub capacity_type: CapacityType,
    /// Price of the whole node per hour, `None` when nobody knows it.
    pub price: Option<Price>,
}

/// Bytes of images, by name.
pub type Images = BTreeMap<Text, i64>;

impl NodeFacts {
    /// Whether the same pods fit as on a node with these facts: images only score.
    pub fn admits_as(&self, other: &NodeFacts) -> bool {
        let NodeFacts { name, labels, taints, allocatable, features, price, .. } = self;
        let theirs = (&other.name, &other.labels, &other.taints, &other.allocatable);
        (name, labels, taints, allocatable) == theirs
            && (self.unschedulable, self.capacity_type)
                == (other.unschedulable, other.capacity_type)
            && (features, price) == (&other.features, &other.price)
    }
}

/// A node or flavor taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Text,
    /// Value, often empty.
    pub value: Text,
    /// Effect.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods had better stay away: a score, never a refusal.
    PreferNoSchedule,
    /// New pods stay away and running ones leave.
    NoExecute,
}

/// A pod's or flavor's toleration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// Key; empty matches every key (with `Exists`).
    pub key: Text,
    /// How `value` is compared.
    pub operator: TolerationOperator,
    /// Value.
    pub value: Text,
    /// Effect; `None` matches every effect.
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares values. An operator nobody knows tolerates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationOperator {
    /// Values are equal.
    Equal,
    /// The key is enough.
    Exists,
    /// The taint's value is greater (feature gate).
    Gt,
    /// The taint's value is less (feature gate).
    Lt,
    /// Not an operator of Kubernetes.
    Unknown,
}

/// Node selector: terms are ORed; no term at all matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelector {
    /// The alternatives.
    pub terms: Vec<NodeSelectorTerm>,
}

/// One alternative: all requirements must hold; a term without any matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub labels: Vec<Requirement>,
    /// Requirements on fields (only `metadata.name` exists).
    pub fields: Vec<Requirement>,
}

/// Nodes that a pod had rather be on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreferredNodes {
    /// How much it matters, 1 to 100.
    pub weight: u32,
    /// Which nodes.
    pub term: NodeSelectorTerm,
}

/// One requirement on a label or field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// Label key or field path.
    pub key: Text,
    /// Comparison.
    pub operator: Operator,
    /// Operands.
    pub values: Vec<Text>,
}

impl Requirement {
    /// Whether it holds for a value (absent: `None`). A malformed one (operands that the operator
    /// does not take) holds for nothing.
    pub fn holds<T: AsRef<str>>(&self, value: Option<&T>) -> bool {
        let value = value.map(AsRef::as_ref);
        let among = |value: &str| self.values.iter().any(|operand| &**operand == value);
        let operands = self.values.len();
        match self.operator {
            Operator::In => operands > 0 && value.is_some_and(among),
            Operator::NotIn => operands > 0 && !value.is_some_and(among),
            Operator::Exists => operands == 0 && value.is_some(),
            Operator::DoesNotExist => operands == 0 && value.is_none(),
            Operator::Gt => self.integers(value).is_some_and(|(v, operand)| v > operand),
            Operator::Lt => self.integers(value).is_some_and(|(v, operand)| v < operand),
            Operator::Unknown => false,
        }
    }

    fn integers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let [operand] = self.values.as_slice() else { return None };
        Some((value?.parse().ok()?, operand.parse().ok()?))
    }
}

/// Comparison of a selector requirement. An unknown one makes its term match nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// The value is among the operands.
    In,
    /// The value is not among them, or the key is absent.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is an integer greater than the operand.
    Gt,
    /// The value is an integer less than the operand.
    Lt,
    /// Not an operator of Kubernetes.
    Unknown,
}

/// Label selector of a queue's namespaces: all requirements must hold; empty matches all.
pub type LabelSelector = Vec<Requirement>;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Unique id; the identity.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Its class, shared between pods of one template.
    pub shape: Arc<PodShape>,
    /// What a bound pod holds when that differs from its shape (in-place resize).
    pub holds: Option<Arc<Amounts>>,
    /// Whether its `schedulerName` is ours; other pods are accounted and never touched.
    pub ours: bool,
    /// Node it is bound to.
    pub node: Option<Text>,
    /// It is not bound, and `node` is where another scheduler nominated it: room is kept for it
    /// there from work of its own priority and lower.
    pub nominated: bool,
    /// It is ours and waits, and its status nominates it for this node: a pod that is no gang goes
    /// there if it fits there, whoever said so.
    pub goes_to: Option<Text>,
    /// Life cycle.
    pub phase: PodPhase,
    /// `deletionTimestamp` is set; it holds what it holds until it is terminal or gone.
    pub terminating: bool,
    /// Has scheduling gates.
    pub gated: bool,
    /// Where it stands among its peers.
    pub rank: Rank,
    /// Creation time.
    pub created: Time,
    /// When it was bound, as far as the API shows it.
    pub bound_at: Option<Time>,
    /// When it ended, if it has, as far as the API shows it.
    pub ended_at: Option<Time>,
    /// `spec.priority`.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Why nobody stops it for others, if nobody does.
    pub stays: Option<Stays>,
    /// The gang it belongs to; a lone pod is a gang of one.
    pub gang: GangRef,
    /// The Job that made it, by uid, where its gang is no owner's: others may make members of that.
    pub of_job: Option<Text>,
    /// What people asked for the workload (queue, topology, times).
    pub wishes: Arc<Wishes>,
    /// What we wrote on it when we bound it.
    pub binding: Option<Arc<BindingNote>>,
    /// Set while it is being evicted by us.
    pub eviction: Option<EvictionNote>,
    /// Names of the claims that its shape has, in that order, where it has any.
    pub claims: Option<Arc<Vec<Text>>>,
}

/// Why nobody stops a pod for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// A kubelet runs it by itself; the API has but its mirror, whose end ends nothing.
    Static,
    /// A DaemonSet would make it again at once.
    Daemon,
}

/// Life cycle of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not started yet (bound or not).
    Pending,
    /// Started, and not known to be out of order.
    Running,
    /// Started, and it says itself, or its node does not say, that it cannot do its work now.
    Unready,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
}

impl PodPhase {
    /// Whether the pod has started and not ended.
    pub fn runs(self) -> bool {
        matches!(self, PodPhase::Running | PodPhase::Unready)
    }

    /// Whether the pod holds nothing any more.
    pub fn terminal(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}

/// Which gang a pod belongs to and what that gang's source says of its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangRef {
    /// Identity within the namespace.
    pub key: GangKey,
    /// What people call the gang.
    pub name: Text,
    /// Where the membership was found.
    pub source: GangSource,
    /// Members that must run together; `None`: as many as exist.
    pub min_member: Option<u32>,
    /// How many members the gang has in all: of a group of Kueue's its total count, more than which
    /// never run, and `min_member` says how many of them it waits for. Of others what members know
    /// that an owner makes once others of it have nodes: the gang is whole only with that many.
    pub total: Option<u32>,
    /// Minimums of its roles, where its source states any.
    pub roles: Option<Arc<Roles>>,
    /// The minimum does not count it, and it is work of its own, or the others do nothing without
    /// it: where it finds no room beside them others may be stopped for it. Or it ended, and those
    /// that come after it do not count it any more.
    pub by_itself: bool,
    /// It may be stopped while others of its gang go on, above the minimum: its source does not
    /// want all or none of them, and who made it takes that for no failure.
    pub singly: bool,
    /// The owner that has a say in all of this and that nobody knows, `Job train`: deleted before
    /// its pods, or not seen yet. Members that are not placed wait for it.
    pub unknown_owner: Option<Text>,
    /// Why members that are not placed wait, whatever else there is.
    pub held: Option<Held>,
    /// What this member knows of pods that are made once it has a node, where that is not for an
    /// owner to say which is the gang itself.
    pub to_come: Option<Arc<ToCome>>,
}

/// Why a gang is held by what its source says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// The object that says its minimum does not exist: its kind and name,
    /// `PodGroup train (scheduling.x-k8s.io)`.
    GroupMissing(Text),
    /// Its group is part of a tree of groups, which none of them may start without: the group
    /// above it, `CompositePodGroup train`.
    OfTree(Text),
    /// Members of the gang name another scheduler: how many do.
    ForeignMembers(u32),
    /// A member has another priority than its group, though all must have the same.
    OtherPriority {
        /// Its name.
        pod: Text,
        /// Its priority.
        own: i32,
        /// That of its group.
        group: i32,
    },
    /// A member never preempts others and its group does, or the other way round, though all must
    /// be the same.
    OtherPreemption {
        /// Its name.
        pod: Text,
        /// It never does.
        never: bool,
        /// Its group says the other; else others of its members do.
        of_group: bool,
    },
    /// Its namespace asks for places of more pods that do not exist than are planned for.
    Crowded {
        /// How many pods of others there come first.
        before: u32,
        /// How many are planned for.
        most: u32,
    },
}

/// Identity of a gang within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GangKey {
    /// Named by a label; a new incarnation starts once every earlier member is terminal or gone.
    Group(GangSource, Text),
    /// Made by an owner: its uid, and which of its runs.
    Owner(Text, u32),
    /// A lone pod: its uid.
    Pod(Text),
}

impl GangKey {
    /// Whether this is the work of an owner, and a pod of it names none any more.
    pub fn was_left_alone(&self, named: &GangKey) -> bool {
        matches!((self, named), (GangKey::Owner(..), GangKey::Pod(_)))
    }
}

/// Where gang membership was found; the order is the precedence of the resolvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GangSource {
    /// `spec.schedulingGroup`.
    SchedulingGroup,
    /// A PodGroup of scheduler-plugins.
    PodGroup,
    /// A PodGroup of Volcano.
    VolcanoGroup,
    /// `capstan.sh/gang`.
    CapstanGang,
    /// `kueue.x-k8s.io/pod-group-name`.
    KueueGroup,
    /// A batch/v1 Job.
    Job,
    /// Any other owner with a resolver.
    Owner,
    /// A pod of its own.
    Pod,
}

/// What people asked for a workload, read from the pod and its owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wishes {
    /// LocalQueue name; `None`: unlabelled.
    pub queue: Option<Text>,
    /// WorkloadPriorityClass name.
    pub priority_class: Option<Text>,
    /// PriorityClass that ranks its pods, by name; it is shown, and decides nothing.
    pub pod_class: Option<Text>,
    /// Topology wanted.
    pub topology: TopologyWish,
    /// Run time that its owner declares.
    pub expected_runtime: Option<Span>,
    /// It runs no longer than this, all its runs together.
    pub max_runtime: Option<Span>,
    /// Values that could not be read and were ignored, each with its key, for one event.
    pub ignored: Vec<Text>,
}

/// How the work of an owner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerEnd {
    /// It is done.
    Succeeded,
    /// It failed for good, with the owner's own reason, if it has one.
    Failed(Option<Text>),
    /// It is being deleted.
    Deleted,
}
