//! The reasons a workload waits, or a node is refused, with the numbers that show it.
//!
//! A check returns `Ok` or one of these, never a bare `false`. Wording is in
//! [`super::wording`] only.

use std::sync::Arc;

pub use super::flavors::{FlavorProblem, FlavorRefusal, Strait};
pub use super::overspent::Overspent;
pub use super::refusal::NodeRefusal;
pub use super::shortage::{DomainShortage, Nearest, NodeShortage, SearchBound};
pub use super::storage::StorageRefusal;
use crate::model::input::{AboveLimit, Malformed, OutOfRange, Text};
use crate::time::{Span, Time};

/// Why a workload waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Fewer members exist than must run together.
    Gathering {
        /// Members that exist and are not terminal.
        have: u32,
        /// Members needed.
        need: u32,
    },
    /// Fewer members of a role exist than must run together.
    RoleGathering {
        /// The role.
        role: Text,
        /// Members of it that exist and are not terminal.
        have: u32,
        /// Members of it needed.
        need: u32,
    },
    /// Some members run, fewer than must run together, and the others find no place.
    Incomplete {
        /// Members placed.
        have: u32,
        /// Members needed.
        need: u32,
        /// What stands in the way on nodes, or that some do not exist; `None`: quota.
        then: Option<Box<Reason>>,
    },
    /// It runs; members above its minimum find no place.
    Extras {
        /// How many.
        waiting: u32,
        /// What stands in the way; `None`: quota, of several shapes together.
        then: Option<Box<Reason>>,
    },
    /// What its pods belong to is gone, or was not seen yet.
    OwnerUnknown {
        /// Kind and name, `Job train`.
        owner: Text,
    },
    /// The object that says how many must run together does not exist.
    GroupMissing {
        /// Kind, name and API group, `PodGroup train (scheduling.x-k8s.io)`.
        group: Text,
    },
    /// Its PodGroup is part of a tree of groups, and trees are not started.
    OfTree {
        /// The group above it, `CompositePodGroup train`.
        parent: Text,
    },
    /// Members have scheduling gates.
    Gated {
        /// How many.
        pods: u32,
    },
    /// Their group has as many pods as it says that it has, without them.
    Surplus {
        /// The group.
        group: Text,
        /// Pods that it says it has.
        total: u32,
        /// Of these, how many ended well.
        done: u32,
        /// Of these, how many are being deleted and not gone.
        leaving: u32,
        /// How many it has beyond.
        pods: u32,
    },
    /// Some members are not ours to schedule.
    ForeignMembers {
        /// How many name another scheduler.
        pods: u32,
    },
    /// More members that must run together use one claim than a claim can have users.
    ClaimOfTooMany {
        /// The claim, by name.
        claim: Text,
        /// How many use it.
        pods: u32,
    },
    /// A member has another priority than its PodGroup, though all must have the same.
    OtherPriority {
        /// Its name.
        pod: Text,
        /// Its priority.
        own: i32,
        /// That of its group.
        group: i32,
    },
    /// A member never preempts others and its PodGroup does, or the other way round, though all
    /// must be the same.
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
    /// The LocalQueue that it names does not exist.
    LocalQueueMissing {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// The LocalQueue points to a ClusterQueue that does not exist.
    ClusterQueueMissing {
        /// LocalQueue, `namespace/name`.
        local_queue: Text,
        /// ClusterQueue.
        name: Text,
    },
    /// The LocalQueue is stopped.
    LocalQueueStopped {
        /// LocalQueue, `namespace/name`.
        local_queue: Text,
    },
    /// It has its places, and what its members use there is being made ready.
    Preparing {
        /// Members that wait for that.
        pods: u32,
        /// What one of them waits for.
        what: Unprepared,
    },
    /// Nothing is admitted until this one, which was, has started (`waitForPodsReady` with
    /// `blockAdmission`).
    AwaitsOthers {
        /// The one, `namespace/name`.
        workload: Text,
    },
    /// Its Workload object says that it may not run.
    Deactivated {
        /// The object, `namespace/name`.
        workload: Text,
    },
    /// The LocalQueue breaks rules.
    LocalQueueBroken {
        /// LocalQueue, `namespace/name`.
        local_queue: Text,
        /// The first one.
        rule: Text,
    },
    /// The ClusterQueue admits nothing.
    Inactive {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Why.
        why: Inactive,
    },
    /// The ClusterQueue's namespaceSelector does not match.
    NamespaceNotSelected {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Namespace.
        namespace: Text,
        /// The selector is absent, which selects nothing.
        selector_absent: bool,
    },
    /// It has no queue, and the configuration holds such work.
    Unqueued,
    /// A resource that it asks for is in no resource group of the ClusterQueue.
    NotCovered {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Resource.
        resource: Text,
        /// Amount asked.
        asked: i64,
    },
    /// No flavor took it; one entry for each flavor looked at.
    Flavors {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Pod set that found none.
        pod_set: Text,
        /// What stood in the way, in the order tried; never empty.
        tried: Vec<FlavorRefusal>,
    },
    /// Running members are on nodes of no flavor of the ClusterQueue, so the others, which share
    /// their flavor, have none.
    NoFlavorYet {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Resource that no flavor was found for.
        resource: Text,
        /// Members that run.
        pods: u32,
        /// Amount of it that one more member asks.
        asked: i64,
    },
    /// Running members have a flavor that the ClusterQueue does not list, so the others, which
    /// share it, have none.
    FlavorNotListed {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Flavor of those that run.
        flavor: Text,
        /// Resource that they have it for.
        resource: Text,
    },
    /// Quota would do, nodes do not.
    Nodes(Box<NodeShortage>),
    /// Its queue has a quota of money, and nobody knows what the nodes cost that would take it.
    PriceUnknown {
        /// How many.
        nodes: u32,
    },
    /// The topology level asked for is not a level of this cluster, or no node has its label.
    UnknownLevel {
        /// Level asked for.
        level: Text,
        /// It is a level; nodes lack the label.
        is_level: bool,
        /// Levels known, outermost first.
        known: Vec<Text>,
    },
    /// A container requests more than its own limit, which no API server takes in a pod.
    AboveLimit {
        /// Pod set.
        pod_set: Text,
        /// Which container, and by how much.
        excess: AboveLimit,
    },
    /// A container, or a pod, is not as a LimitRange of its namespace wants it.
    OutOfRange {
        /// Pod set.
        pod_set: Text,
        /// Which container, LimitRange and bound, and by how much.
        what: Arc<OutOfRange>,
    },
    /// A selector of its pods cannot be read: nobody knows where they may run.
    Malformed {
        /// Pod set.
        pod_set: Text,
        /// Which, and what is wrong with it.
        what: Malformed,
    },
    /// It fitted when the round began, and others of the round took the room. What it lacks is
    /// known in the next round, which follows at once.
    RoomTaken,
    /// No single domain of the required level holds the gang.
    Topology(Box<DomainShortage>),
    /// The budget of its queue is spent.
    BudgetExhausted(Box<Overspent>),
    /// Its quota would do, if a head that waits did not keep some of it back.
    HeldBack {
        /// Namespace and name of that head.
        head: Text,
        /// Its ClusterQueue.
        queue: Text,
        /// Flavor.
        flavor: Text,
        /// Resource.
        resource: Text,
        /// What it keeps.
        kept: i64,
        /// What is asked.
        asked: i64,
        /// What is left beside what it keeps.
        left: i64,
    },
    /// It would fit, and with it a head that waits would start later than was reserved for it.
    Reserved {
        /// Namespace and name of that head.
        head: Text,
        /// Its ClusterQueue, if it has one.
        queue: Option<Text>,
        /// When that is to start.
        start: Time,
        /// How long this one says that it runs.
        runs: Option<Span>,
    },
    /// With one more extra member its queue would borrow, and work that waits owns what it asks and
    /// could take that back, with all of the gang.
    Exposes {
        /// Namespace and name of that work.
        head: Text,
        /// Its ClusterQueue.
        head_queue: Text,
        /// The queue that would borrow.
        cluster_queue: Text,
        /// Flavor.
        flavor: Text,
        /// Resource.
        resource: Text,
        /// What it would borrow.
        borrowed: i64,
        /// What of that work waits.
        waits: Waits,
    },
    /// Beside one more extra member, work that waits and goes before their gang would stop work
    /// without a queue once others have left.
    InTheWay {
        /// Namespace and name of that work.
        head: Text,
        /// Its ClusterQueue, if it has one.
        queue: Option<Text>,
        /// Preempted workloads that have not left.
        leaving: u32,
        /// What of that work waits.
        waits: Waits,
    },
    /// The pod set of a gang that finds no nodes: by itself, or not beside others of the gang.
    Together {
        /// The pod set.
        pod_set: Text,
        /// Members of other sets that go first; 0: it finds none by itself.
        beside: u32,
        /// What it lacks beside them.
        then: Box<Reason>,
    },
    /// The other members run in a domain that they may not leave, and there is no room there.
    NoRoomBeside {
        /// Level.
        level: Text,
        /// The domain.
        domain: Option<Text>,
        /// Pods asked.
        asked: u32,
        /// How many more the domain holds.
        holds: u32,
        /// The search for places ended before it had looked at all of them.
        ended: Option<SearchBound>,
    },
    /// Victims are leaving; their room is claimed for it.
    WaitingForVictims {
        /// Victims not gone yet.
        victims: u32,
    },
    /// Its victims are gone; devices that they had are still to come free.
    WaitingForDevices {
        /// A claim that has them, as `namespace/name`.
        claim: Text,
        /// Further such claims.
        more: u32,
    },
    /// What it asks is free once work that is being stopped for others has left, and not before.
    StillHeld {
        /// ClusterQueue.
        cluster_queue: Text,
        /// Flavor.
        flavor: Text,
        /// Resource.
        resource: Text,
        /// Amount asked.
        asked: i64,
        /// What is left until then.
        left: i64,
    },
    /// Another workload of the same round took what it needed.
    LostRace {
        /// ClusterQueue or node pool, in words of the quota reason that held afterwards.
        then: Box<Reason>,
    },
    /// Waiting out a failure.
    Backoff {
        /// Until then.
        until: Time,
        /// What failed.
        failure: Text,
    },
    /// It is being started again after its pods did not come up.
    TriedAgain {
        /// How often in a row it was stopped for that.
        stops: u32,
    },
    /// Was preempted for another and cannot come back by itself (bare pods).
    Preempted {
        /// Preemptor, `namespace/name`.
        preemptor: Text,
    },
    /// Nothing of a strict queue passes its head, which waits.
    BehindHead {
        /// The head, `namespace/name`.
        head: Text,
        /// The queue.
        queue: Text,
    },
    /// Not looked at yet: others of its queue go first.
    Behind {
        /// How many are before it.
        ahead: u32,
        /// The queue.
        queue: Text,
    },
}

/// What waits of somebody for whose sake extra members wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// All of it, in its queue.
    Whole,
    /// Members, beside those that run.
    Members,
    /// Nothing yet: it is being stopped, and queues again.
    OnceStopped,
}

/// What a member waits for before it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprepared {
    /// A claim that is being bound to a volume, or for which one is being made.
    Volume(Text),
    /// A device, and what is not said of it yet.
    Device(Text),
}

/// Why a ClusterQueue admits nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inactive {
    /// It is being deleted.
    Terminating,
    /// `stopPolicy`.
    Stopped,
    /// A flavor that it names does not exist.
    FlavorMissing(Text),
    /// A flavor that it names breaks rules; all of them.
    FlavorBroken(Text, Text),
    /// A flavor that it names is of a Topology that does not exist.
    TopologyMissing {
        /// Flavor.
        flavor: Text,
        /// Topology.
        topology: Text,
    },
    /// Its cohort's parents form a cycle; one member of it.
    CohortCycle(Text),
    /// Its cohort breaks rules; all of them.
    CohortBroken(Text, Text),
    /// Its own spec breaks rules; all of them.
    Broken(Text),
}

/// Why nobody leaves for who lacks quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoVictims {
    /// It may preempt nobody, or was not tried with victims.
    NotAsked,
    /// No allowed victims free enough.
    TooFew,
    /// Those that could be reclaimed from stay: it would borrow itself.
    WouldBorrow {
        /// What it would borrow.
        resource: Text,
        /// How much of it.
        amount: i64,
    },
    /// It asks more than its queue owns, and so may preempt nobody, whom its queue may preempt.
    AboveNominal {
        /// What it asks more of.
        resource: Text,
        /// What its queue owns of it.
        nominal: i64,
    },
    /// Nobody that could be reclaimed from has a larger share than it would have itself.
    Share {
        /// Its own, in thousandths.
        own: i64,
        /// Who has the largest.
        queue: Text,
        /// That share, in thousandths.
        most: i64,
    },
    /// Somebody of a larger share has what would do, and no share stops it for now: others were
    /// held for its start, or that came later than it was promised.
    Lasts {
        /// Who that is.
        holder: Text,
        /// Until when, if it goes on for so long.
        until: Time,
    },
    /// It took so many turns of late, of stopping others to borrow and being stopped itself, that
    /// it takes only what its queue owns.
    Turns {
        /// How often.
        times: u32,
    },
    /// The search for whom to stop ended here before it had looked at all choices.
    Ended(SearchBound),
}

impl Reason {
    /// Whether members are waited for that do not exist.
    pub fn gathers(&self) -> bool {
        matches!(self, Reason::Gathering { .. } | Reason::RoleGathering { .. })
    }
}
