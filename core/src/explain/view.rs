//! What people look at: plain copies of the state, in a stable order, for tables and JSON.
//!
//! Views are made on request and hold names, never handles.

use std::collections::BTreeMap;

pub use super::forecast::{Assumptions, Awaited, Forecast, Unreserved};
use super::reason::{Inactive, NodeRefusal, Reason};
use crate::model::input::{Amounts, CapacityType, GangSource, OwnerEnd, Price, Stays, Text};
use crate::money::MicroUsd;
use crate::plan::{OwnerRef, PodRef, Preemption, State};
use crate::time::{Span, Time};

pub use crate::quota::rate::Rate;
pub use crate::quota::spending::{Account, Amount};

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadView {
    /// Namespace.
    pub namespace: Text,
    /// Name, unique in its namespace.
    pub name: Text,
    /// LocalQueue named or defaulted, if any.
    pub local_queue: Option<Text>,
    /// ClusterQueue behind it, if both exist.
    pub cluster_queue: Option<Text>,
    /// Priority that decides its order.
    pub priority: i32,
    /// State.
    pub state: State,
    /// Its pods were bound before this engine's first step.
    pub found_running: bool,
    /// Why nobody stops it for others, if nobody does.
    pub stays: Option<Stays>,
    /// It was preempted, and has not been admitted since.
    pub preempted: Option<Preemption>,
    /// Pod sets.
    pub pod_sets: Vec<PodSetView>,
    /// Members: name and node, by name; those of an owner without pods are not listed.
    pub pods: Vec<PodPlace>,
    /// Members that must run together.
    pub min_member: u32,
    /// Amounts borrowed by its queue that it is part of: it holds a borrowed resource.
    pub borrowed: bool,
    /// Price per hour of what it holds, as far as it is known; `None`: of nothing.
    pub per_hour: Option<MicroUsd>,
    /// Members on nodes whose price is not known.
    pub unpriced: u32,
    /// The start that is reserved for it while it waits.
    pub reserved: Option<Time>,
    /// Why none is, if a bound is the reason.
    pub unreserved: Option<Unreserved>,
    /// Why it waits, when it waits.
    pub reason: Option<Reason>,
    /// Members that hold no quota although they are in a queue.
    pub uncharged: Option<Uncharged>,
    /// Creation of its first member.
    pub created: Time,
    /// Since when it waits, if it does: its creation, or its last stop.
    pub waits_since: Time,
    /// When it took quota.
    pub admitted_at: Option<Time>,
    /// GPUs asked by all members.
    pub gpus: i64,
}

/// Members that [`WorkloadDetails::first_pods`] names of work without an owner.
pub const FIRST_PODS: usize = 16;

/// All of a workload that its object in the API shows.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadDetails {
    /// What tables show of it; of finished work what it was like as well, as far as that is told.
    pub view: WorkloadView,
    /// Where membership was found.
    pub source: GangSource,
    /// The group that its members name, if they name one.
    pub group: Option<Text>,
    /// Owner that can be suspended and resumed.
    pub owner: Option<OwnerRef>,
    /// Its first members: one where it has an owner, else up to [`FIRST_PODS`]; those that are
    /// being deleted only where there is nobody else.
    pub first_pods: Vec<PodRef>,
    /// It is a pod of its own, without an owner that we know.
    pub lone: bool,
    /// WorkloadPriorityClass that its work names.
    pub priority_class: Option<Text>,
    /// PriorityClass that ranks its pods.
    pub pod_class: Option<Text>,
    /// Members that count: not ended, those included that are still to be made.
    pub members: u32,
    /// Members of this run that ended and are followed by nobody.
    pub ended: u32,
    /// Members that must run together, whether or not they exist.
    pub needed: u32,
    /// Members that exist and have a node.
    pub placed: u32,
    /// Members that run.
    pub running: u32,
    /// Enough members have started to run.
    pub started: bool,
    /// Members that run and are ready.
    pub ready: u32,
    /// Enough members are ready, or all that will ever come.
    pub up: bool,
    /// How its owner's work ended, once it has.
    pub owner_end: Option<OwnerEnd>,
    /// Its owner is suspended.
    pub suspended: bool,
    /// A member ended badly, as far as it is still shown, or none goes on, and too few ended well.
    pub failed: bool,
    /// Members that wait for a node and that nothing of their own keeps from one, in order.
    pub waiting: Vec<PodRef>,
    /// Nodes on which room is made for members, by their uid.
    pub planned: BTreeMap<Text, Text>,
    /// Workloads whose room it waits for, `namespace/name`.
    pub victims: Vec<Text>,
    /// Its stop was asked for, and may still be refused.
    pub stop_asked: bool,
    /// A Workload object says that it may not run.
    pub held: bool,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried again after the last one.
    pub retry_at: Option<Time>,
}

/// Members that run in a queue and hold none of its quota for something that they use.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncharged {
    /// ClusterQueue.
    pub cluster_queue: Text,
    /// How many members.
    pub pods: u32,
    /// Their nodes, by name.
    pub nodes: Vec<Text>,
    /// What they use of the queue's resources without holding quota for it.
    pub amounts: Amounts,
    /// Flavors of the queue that were tried, in its order: none has these nodes and takes the pods.
    pub flavors: Vec<Text>,
}

/// How much the engine keeps, by table; when what is forgotten says its module on sweeping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Pods, ours and others', places kept for pods of suspended owners included.
    pub pods: usize,
    /// Workloads.
    pub workloads: usize,
    /// Owners.
    pub owners: usize,
    /// Nodes, those that only pods name included.
    pub nodes: usize,
    /// Node slots, free ones included.
    pub node_slots: usize,
    /// Kinds of pods.
    pub shapes: usize,
    /// Different requests.
    pub requests: usize,
    /// Names of resources; these are never forgotten.
    pub resources: usize,
    /// Pod classes: a shape with the flavors tried for it.
    pub classes: usize,
    /// Classes with an index over all nodes, the largest things of all.
    pub indexes: usize,
    /// Groups of equal work that waits, or did.
    pub groups: usize,
    /// Names of ClusterQueues.
    pub queues: usize,
    /// Names of flavors.
    pub flavors: usize,
    /// Pairs of a flavor and a resource.
    pub flavor_resources: usize,
    /// Preemptions remembered until their victims run again.
    pub preemptions: usize,
    /// Effects without an answer.
    pub effects_in_flight: usize,
    /// How often what nothing uses was forgotten.
    pub sweeps: u64,
}

/// A pod set of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSetView {
    /// Name.
    pub name: Text,
    /// Members.
    pub count: u32,
    /// Of these, those that have a place.
    pub placed: u32,
    /// What one member asks.
    pub requests: Amounts,
    /// Resource to flavor, once admitted.
    pub flavors: BTreeMap<Text, Text>,
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPlace {
    /// Pod name.
    pub pod: Text,
    /// Node, when bound or being bound.
    pub node: Option<Text>,
}

/// A ClusterQueue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueView {
    /// Name.
    pub name: Text,
    /// Cohort.
    pub cohort: Option<Text>,
    /// Why it admits nothing, if so.
    pub inactive: Option<Reason>,
    /// One line for each flavor and resource.
    pub quotas: Vec<QuotaView>,
    /// Workloads that wait in it; what was stopped waits once it has left.
    pub pending: u32,
    /// Workloads that hold quota in it.
    pub admitted: u32,
    /// Price of all that runs in it per hour, as far as known; `None`: nothing of it is.
    pub per_hour: Option<MicroUsd>,
    /// Workloads that run in it on some node without a known price: not in the sum.
    pub unpriced: u32,
    /// Its dominant resource share in thousandths, what is promised counted; the largest number
    /// for infinity. `None`: fair sharing is off.
    pub share: Option<i64>,
    /// What it spent of its budget, as of the last step; it goes on by itself.
    pub spending: Option<Box<Account>>,
}

impl QueueView {
    /// Brings what goes on by itself, what is spent of a budget, to a time.
    pub fn advance(&mut self, now: Time) {
        if let Some(account) = &mut self.spending {
            **account = account.on(now);
        }
    }
}

/// A Cohort object.
#[derive(Clone, Debug, PartialEq)]
pub struct CohortView {
    /// Name.
    pub name: Text,
    /// Why queues below it admit nothing, if so.
    pub inactive: Option<Inactive>,
    /// Its dominant resource share, as that of a queue.
    pub share: Option<i64>,
}

/// A LocalQueue.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalQueueView {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// ClusterQueue that it points to.
    pub cluster_queue: Text,
    /// Why work in it waits whatever is free, if so.
    pub inactive: Option<Reason>,
    /// Workloads that wait in it.
    pub pending: u32,
    /// Workloads from it that hold quota.
    pub admitted: u32,
    /// Quota that they hold, by flavor and resource; every pair of its ClusterQueue is named.
    pub used: BTreeMap<(Text, Text), i64>,
    /// Used of late by resource, in thousandths of amounts, and as of when, if that decides turns.
    pub consumed: Option<(BTreeMap<Text, i64>, Time)>,
    /// By which it goes first then: that, over its weight, in thousandths; `i64::MAX`: no weight.
    pub usage: Option<i64>,
    /// Price of all that runs from it per hour, as far as known; `None`: nothing of it is.
    pub per_hour: Option<MicroUsd>,
    /// Workloads that run from it on some node without a known price: not in the sum.
    pub unpriced: u32,
}

/// One flavor and resource of a ClusterQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaView {
    /// Flavor.
    pub flavor: Text,
    /// Resource.
    pub resource: Text,
    /// Own quota.
    pub nominal: i64,
    /// In use.
    pub used: i64,
    /// Used beyond the own quota.
    pub borrowed: i64,
    /// Own quota that others of the cohort use now: with lent + own use never above nominal.
    pub lent: i64,
    /// What could still be used now, borrowing included.
    pub available: i64,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Name.
    pub name: Text,
    /// What it has.
    pub allocatable: Amounts,
    /// What pods hold.
    pub used: Amounts,
    /// Pods on it.
    pub pods: u32,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// Its price.
    pub price: Option<Price>,
    /// What the shares of all its pods cost an hour, as far as known; of other schedulers' too.
    pub used_per_hour: MicroUsd,
}

/// Why a pod may or may not run, node by node.
#[derive(Clone, Debug, PartialEq)]
pub struct PodExplanation {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Namespace and name of its workload; `None`: another scheduler's pod.
    pub workload: Option<Text>,
    /// Others of its gang have places: to be near them may count for more than the score.
    pub beside: bool,
    /// What its workload waits for, if the pod has no place: nodes are not all that it takes.
    pub waits: Option<Reason>,
    /// One per node, by name.
    pub nodes: Vec<NodeVerdict>,
}

/// One node's verdict on a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeVerdict {
    /// Node.
    pub node: Text,
    /// Refusals, in rule order; empty: it fits.
    pub refusals: Vec<NodeRefusal>,
    /// Score, when it fits.
    pub score: Option<ScoreView>,
}

/// A score, term by term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreView {
    /// Weighted mean of the terms, 0..=1000.
    pub total: u32,
    /// Terms by name, each 0..=1000, with its weight.
    pub terms: Vec<TermView>,
    /// The node's price is unknown; the cost term is neutral.
    pub price_unknown: bool,
}

/// One term of a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermView {
    /// Name as in configuration.
    pub name: &'static str,
    /// 0..=1000.
    pub value: u32,
    /// Weight in the profile.
    pub weight: u32,
}

/// Why a workload waits or runs, and what would start it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadExplanation {
    /// The workload.
    pub workload: WorkloadView,
    /// How many of its queue are considered before it.
    pub ahead: Option<u32>,
    /// Where it stands in its queue, if it stands in one.
    pub position: Option<Position>,
    /// What stands in the way: the quota levels and nodes, asked against left.
    pub in_the_way: Vec<Obstacle>,
    /// When it is to start, if that can be told.
    pub forecast: Option<Forecast>,
    /// So many of a queue have forecasts, and all of those go before it; `None`: that is not why
    /// it has none.
    pub beyond: Option<u32>,
    /// What would start it, each tried on the engine itself.
    pub remedies: Vec<Remedy>,
    /// The pod set that the node verdicts are of: the one that its reason names, else the first
    /// with a member that has no node; `None`: it has only one.
    pub nodes_of: Option<Text>,
    /// Node verdicts for a member that has no node yet; for one of those placed where all are.
    pub nodes: Vec<NodeVerdict>,
    /// The placed member that the verdicts are of: with it taken out, others where they are.
    pub nodes_as: Option<Text>,
}

/// Where work that waits stands: how many go before it. What that means is said where it is
/// reckoned, in the engine's module on positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// In its ClusterQueue, from 0; without one, among all work without a queue.
    pub in_cluster_queue: u32,
    /// In its LocalQueue, from 0; `None`: it has none.
    pub in_local_queue: Option<u32>,
}

/// A workload with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Namespace.
    pub namespace: Text,
    /// Name, unique in its namespace.
    pub name: Text,
    /// LocalQueue that it came by, if any.
    pub local_queue: Option<Text>,
    /// Priority.
    pub priority: i32,
    /// Creation of its first member.
    pub created: Time,
    /// Where it stands.
    pub position: Position,
}

/// One thing in the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Obstacle {
    /// The reason.
    pub reason: Reason,
    /// Amount asked, if it is an amount.
    pub asked: Option<i64>,
    /// Amount left.
    pub left: Option<i64>,
    /// Where quota is what is short: whose limit it is.
    pub binding: Option<Binding>,
}

/// The limit in the quota tree that leaves a queue no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whose it is.
    pub holder: Holder,
    /// Which.
    pub limit: Limit,
    /// Flavor.
    pub flavor: Text,
    /// Resource.
    pub resource: Text,
    /// How much it is.
    pub amount: i64,
    /// What of it is used, or borrowed.
    pub used: i64,
    /// Queues that use most of it, with how much, the largest first.
    pub by: Vec<(Text, i64)>,
    /// How many others use some, and how much all of these.
    pub others: Option<(u32, i64)>,
    /// When enough of it has come back, if what runs ends when its declared run time is over;
    /// `None`: nobody knows, or what is asked is more than all of it.
    pub until: Option<Time>,
}

/// Whose quota, or limit, something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A ClusterQueue's.
    Queue(Text),
    /// A cohort's.
    Cohort(Text),
}

/// Kinds of limits in the quota tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All that the holder, and who is below it, owns and lends.
    Quota,
    /// What the holder may borrow.
    Borrowing,
    /// What the holder lends.
    Lending,
}

/// One way to start a waiting workload; it was tried and works.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// What to do.
    pub change: Change,
    /// Members that it starts with, where those are not all that wait: others follow if they fit.
    pub first: Option<u32>,
    /// Hourly price of the members that it starts with, where known.
    pub per_hour: Option<MicroUsd>,
    /// Workloads that would be preempted for it, `namespace/name`; empty: it starts at once.
    pub preempts: Vec<Text>,
    /// Lost work of victims, where it has some and what all of it cost is known.
    pub loses: Option<MicroUsd>,
    /// Admitted work, `namespace/name`, that has to start before anything else is admitted.
    pub after: Vec<Text>,
    /// Who goes first, `namespace/name`, and takes what the change makes room for; `None`: nobody.
    pub unless: Option<Text>,
}

/// A change that would start a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Wait for a workload to end, declared for that time if known.
    WaitFor {
        /// `namespace/name`.
        workload: Text,
        /// Others that must have ended too, in the order in which they are due.
        with: Vec<Text>,
        /// When it is due.
        at: Option<Time>,
        /// Some say nothing, and are due when such work ended before.
        learned: bool,
    },
    /// Wait until then.
    WaitUntil {
        /// When that is.
        at: Time,
        /// What it waits for.
        awaits: Awaited,
    },
    /// Say how long it runs, so that it delays nobody whose start is reserved.
    DeclareRunTime {
        /// At most so long.
        at_most: Span,
        /// Then it has ended by this time.
        by: Time,
    },
    /// Raise what its queue may spend.
    RaiseBudget {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Field of `spec.budget`.
        field: &'static str,
        /// It has to be more than that.
        above: Amount,
    },
    /// Start with fewer members.
    FewerPods {
        /// Members.
        pods: u32,
    },
    /// Have a Job run fewer pods at a time.
    LowerParallelism {
        /// Pods.
        pods: u32,
    },
    /// Allow more capacity types.
    AllowCapacity {
        /// The list to write.
        types: Vec<CapacityType>,
        /// So many, the last, are new; none: some members allow all of them already.
        added: usize,
    },
    /// Raise a quota.
    RaiseQuota {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Flavor.
        flavor: Text,
        /// Resource.
        resource: Text,
        /// By how much.
        by: i64,
        /// Other resources of the flavor that are short as well, and by how much.
        with: Vec<(Text, i64)>,
        /// The same of other flavors, each by name.
        beside: Vec<(Text, Text, i64)>,
    },
    /// Raise what may be borrowed, or is lent.
    RaiseLimit {
        /// Whose limit.
        holder: Holder,
        /// Which.
        limit: Limit,
        /// Flavor.
        flavor: Text,
        /// Resource.
        resource: Text,
        /// By how much.
        by: i64,
    },
    /// Let it go to a flavor that its pods exclude.
    AnotherFlavor {
        /// Flavor.
        flavor: Text,
        /// Taints to tolerate, key and value.
        tolerate: Vec<(Text, Text)>,
        /// Labels to select by in `nodeSelector`, instead of the values that it has for them.
        select: Vec<(Text, Text)>,
    },
    /// Allow the ClusterQueue to preempt.
    AllowPreemption {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Field of `spec.preemption`.
        field: &'static str,
        /// Value to write.
        value: &'static str,
        /// Who would be preempted then, `namespace/name`.
        victims: Vec<Text>,
    },
}
