//! What the engine decided, as data: effects to carry out and one outcome per workload.
//!
//! Nothing here acts. The shell (or the virtual cluster) carries effects out and answers each
//! with an [`Input::Outcome`](crate::model::input::Input::Outcome).

use std::sync::Arc;

use crate::explain::milestone::Milestone;
use crate::explain::reason::{NodeRefusal, Overspent, Reason};
use crate::model::input::{
    AllocatedDevice, Allocation, BindingNote, ClaimKey, NodeSelector, Readiness, ReadyWhen,
    RequestMapping, RequeueNote, ResourceClaimKey, Text, Toleration,
};
use crate::money::MicroUsd;
use crate::time::{Span, Time};

/// Identity of an effect, unique within one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// What one [`Engine::step`](crate::Engine::step) gives back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// What to do, in order.
    pub effects: Vec<Effect>,
    /// What was decided and why.
    pub report: Report,
    /// When to call `step` again even if nothing arrives; `None`: only on input.
    pub next_wake: Option<Time>,
}

/// Something to do in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Identity; outcomes name it.
    pub id: EffectId,
    /// The workload it serves, `namespace/name`.
    pub workload: Text,
    /// When it was decided.
    pub decided: Time,
    /// For how long it is tried from when it is begun. How long it waits for that, behind others,
    /// does not count: an answer is owed all the same, and until then it may come about.
    pub patience: Span,
    /// What must still hold when it is carried out.
    pub precondition: Precondition,
    /// It completes a gang that was begun before, below its minimum: nobody else begins first.
    pub completes: bool,
    /// What to do.
    pub action: Action,
}

/// What must still hold in the API when an effect is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The object still has this uid.
    Uid(Text),
    /// Nothing: the effect only reports.
    None,
}

/// Names a pod in the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Unique id.
    pub uid: Text,
}

/// Names an owner in the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerRef {
    /// `Job`, ...
    pub kind: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Unique id.
    pub uid: Text,
}

/// What is to be written of a claim so that others bind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSetting {
    /// The claim.
    pub claim: ClaimKey,
    /// Its uid.
    pub uid: Text,
    /// The node that its user goes to.
    pub node: Text,
    /// The volume that it gets; `None`: one is made for the node.
    pub volume: Option<Text>,
}

/// Devices chosen for a claim that is not allocated yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The devices, in order.
    pub devices: Vec<ChosenDevice>,
    /// The nodes that can use them; `None`: all.
    pub nodes: Option<NodeSelector>,
}

/// One device chosen for a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenDevice {
    /// Request, or `request/option`, that it is for.
    pub request: Text,
    /// The device, and what is taken of it.
    pub device: AllocatedDevice,
    /// For administration: it stays free for others.
    pub admin: bool,
    /// What must be said of it before its pod is bound.
    pub ready_when: Option<Arc<ReadyWhen>>,
}

/// A claim on devices for a pod that is to be bound.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimGrant {
    /// Namespace and name.
    pub key: ResourceClaimKey,
    /// Unique id.
    pub uid: Text,
    /// What it gets; `None`: it has devices already.
    pub chosen: Option<Arc<Chosen>>,
    /// Set where it is the pod's claim for extended resources, which is made when it is allocated
    /// and deleted when it is given back. Its uid may be unknown then, and is empty.
    pub special: Option<Arc<SpecialClaim>>,
    /// Set where an allocation that no try of this engine has made is given back: what was seen.
    pub seen: Option<Seen>,
}

/// Why an allocation is given back that was found, and what it was seen to be. A claim that shows
/// something else by then, or that others have reserved, is left alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Its devices will not be ready. It may have become ready after all.
    Unready(GivenAt),
    /// Nobody uses it, and it keeps its pod from where that fits.
    Idle(Arc<Allocation>),
}

impl Seen {
    /// Whether an allocation is what was seen, whoever has reserved the claim.
    pub fn is(&self, has: &Allocation) -> bool {
        match self {
            Seen::Unready(GivenAt(at)) => has.readiness != Readiness::Ready && has.at == *at,
            Seen::Idle(seen) => {
                (&has.nodes, &has.devices, has.at) == (&seen.nodes, &seen.devices, seen.at)
            }
        }
    }
}

/// When an allocation was made, where it says so: what tells it from a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenAt(pub Option<Time>);

/// The claim for a pod's extended resources on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialClaim {
    /// What it asks for, in the order of names.
    pub requests: Vec<SpecialRequest>,
    /// Which container uses which of them.
    pub mappings: Vec<RequestMapping>,
}

/// A request of a claim for extended resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialRequest {
    /// Its name.
    pub name: Text,
    /// The DeviceClass.
    pub class: Text,
    /// Devices.
    pub count: u64,
}

/// The kinds of effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write what was chosen for a pod's claims that are not bound yet, before it is bound.
    SelectVolumes {
        /// The pod.
        pod: PodRef,
        /// For each claim what was chosen.
        settings: Vec<VolumeSetting>,
    },
    /// Allocate and reserve resource claims for a pod before it is bound.
    AllocateClaims {
        /// The pod.
        pod: PodRef,
        /// The node that was chosen.
        node: Text,
        /// For each claim what was chosen.
        claims: Vec<ClaimGrant>,
    },
    /// Give back claims of a pod that will not be bound.
    ReleaseClaims {
        /// The pod.
        pod: PodRef,
        /// Which, and what was chosen for them.
        claims: Vec<ClaimGrant>,
    },
    /// Patch tolerations that only the flavor has onto the pod before it is bound.
    AddTolerations {
        /// The pod.
        pod: PodRef,
        /// What to add.
        tolerations: Vec<Toleration>,
    },
    /// Unsuspend an owner; the same patch writes the note.
    ResumeOwner {
        /// The owner.
        owner: OwnerRef,
        /// What it was admitted with.
        note: BindingNote,
    },
    /// Suspend an owner and mark who wants its room.
    SuspendOwner {
        /// The owner.
        owner: OwnerRef,
        /// Why.
        preemption: Preemption,
        /// What its next run has to know; apart, for of a hundred thousand effects few have one.
        requeue: Box<RequeueNote>,
    },
    /// Write on the Workload object that its work may not run, until somebody says it may.
    Deactivate {
        /// Namespace of the object.
        namespace: Text,
        /// Its name.
        name: Text,
    },
    /// Bind a pod to a node; the note travels as annotations.
    Bind {
        /// The pod.
        pod: PodRef,
        /// The node.
        node: Text,
        /// What the next engine needs to know.
        note: BindingNote,
    },
    /// Mark and delete a pod.
    Evict {
        /// The pod.
        pod: PodRef,
        /// Why.
        preemption: Preemption,
        /// It leaves by itself a gang that goes on.
        alone: bool,
    },
    /// Write the status of a workload.
    Status(Box<WorkloadStatus>),
    /// Emit an event.
    Event {
        /// `namespace/name` of the workload it is about.
        about: Text,
        /// Machine-readable reason.
        reason: Text,
        /// For people.
        message: Text,
    },
}

/// A wish of a workload that comes to nothing although the workload goes on; the reason of its
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmet {
    /// A value that could not be read was ignored.
    InvalidAnnotation,
    /// Its WorkloadPriorityClass does not exist.
    PriorityClassNotFound,
    /// No node has the topology level that it prefers.
    UnknownTopologyLevel,
}

impl Unmet {
    /// All of them.
    pub const ALL: [Unmet; 3] =
        [Unmet::InvalidAnnotation, Unmet::PriorityClassNotFound, Unmet::UnknownTopologyLevel];

    /// The word that events carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Unmet::InvalidAnnotation => "InvalidAnnotation",
            Unmet::PriorityClassNotFound => "PriorityClassNotFound",
            Unmet::UnknownTopologyLevel => "UnknownTopologyLevel",
        }
    }
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectResult {
    /// Done (or found done already).
    Done,
    /// The precondition no longer holds: somebody else was first.
    Conflict(Text),
    /// The object is gone.
    Gone,
    /// Refused for good, with the server's words.
    Refused(Text),
    /// Unknown: nobody is left who could say whether it was done.
    TimedOut,
}

/// News of a workload, at most one in a step. What else people want to see of it is asked for by
/// name ([`Engine::details`](crate::Engine::details)) when it is written, not before.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadStatus {
    /// Namespace.
    pub namespace: Text,
    /// Name, unique in its namespace.
    pub name: Text,
    /// State.
    pub state: State,
    /// Why it waits.
    pub reason: Option<Reason>,
}

/// States of a workload; design.md section 3 says what each is rebuilt from after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Fewer members than the minimum exist.
    Gathering,
    /// Waiting for quota or capacity.
    Queued,
    /// Holds quota while an autoscaler builds nodes.
    Provisioning,
    /// Placed; waiting for victims to leave.
    Reserved,
    /// Its owner is being resumed; nodes are held until the pods appear.
    Resuming,
    /// Volumes, claims and tolerations are being settled.
    Preparing,
    /// Binds are in flight.
    Binding,
    /// At least the minimum is bound.
    Running,
    /// Being stopped; still holds quota and nodes.
    Evicting,
    /// All members are terminal.
    Finished,
}

/// What a step decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Rounds run in this step.
    pub rounds: u32,
    /// The last round changed nothing.
    pub quiet: bool,
    /// Exactly one per workload considered in a round, in the order considered.
    pub outcomes: Vec<WorkloadOutcome>,
    /// Who was stopped for nobody else's sake, or for work that started without in that round.
    pub stopped: Vec<Preemption>,
    /// What work went through, in the order in which it happened.
    pub milestones: Vec<Milestone>,
    /// Numbers for metrics.
    pub counts: Counts,
    /// Namespaces and names of workloads that are gone, where no other bears the name now.
    pub gone: Vec<(Text, Text)>,
    /// Those of workloads that are gone, too, but whose owner goes on, and makes other pods.
    pub podless: Vec<(Text, Text)>,
    /// ClusterQueues that are being deleted and in which nobody holds quota (any more): they may
    /// go. Told with every step until they are gone.
    pub unused: Vec<Text>,
}

impl Report {
    /// Whether the step ended at its bound of rounds while something still changed; the next one
    /// goes on. (A simulation steps one round at a time, which is no bound.)
    pub fn cut_short(&self) -> bool {
        !self.quiet && self.rounds > 1
    }
}

/// One workload, one round, one outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOutcome {
    /// Round within the step, from 1.
    pub round: u32,
    /// `namespace/name`.
    pub workload: Text,
    /// What was decided.
    pub outcome: Outcome,
}

/// What a round decided about one workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Quota taken, members placed.
    Admitted,
    /// Victims are being stopped; the room is claimed.
    Preempting(Vec<Preemption>),
    /// It waits.
    Waiting(Reason),
}

/// One victim of one preemptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    /// `namespace/name` of the victim workload.
    pub victim: Text,
    /// `namespace/name` of the preemptor.
    pub preemptor: Text,
    /// Reason in Kueue's words.
    pub reason: PreemptionReason,
    /// Priority of the victim.
    pub victim_priority: i32,
    /// Priority of the preemptor.
    pub preemptor_priority: i32,
    /// What it held of the resources that the preemptor asks.
    pub frees: Vec<Freed>,
    /// Run time lost, in milliseconds, since the first of its members was bound.
    pub lost: Span,
    /// What the run time of all members cost, each since it was bound, where the prices are known.
    pub lost_cost: Option<MicroUsd>,
    /// The cohort reclaimed from, when that is the reason.
    pub cohort: Option<Text>,
    /// The soft budget that its queue has spent, for which it goes before others, when that is so.
    pub overspent: Option<Box<Overspent>>,
    /// What it is stopped for where that is not what it holds.
    pub bars: Option<Box<Bars>>,
}

/// A node that a preemptor cannot use while a victim runs, there or elsewhere, whatever is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bars {
    /// The node.
    pub node: Text,
    /// Why it refuses the preemptor.
    pub by: NodeRefusal,
}

/// What a victim held of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Resource.
    pub resource: Text,
    /// All of it; `cpu` in thousandths.
    pub amount: i64,
    /// What of it its queue borrowed, once those that leave before it are gone.
    pub borrowed: i64,
}

/// Why a victim was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionReason {
    /// Lower priority in the same ClusterQueue.
    InClusterQueue,
    /// Borrowed quota taken back.
    InCohortReclamation,
    /// Lower priority in the cohort, while the preemptor borrows.
    InCohortReclaimWhileBorrowing,
    /// Larger share in the cohort.
    InCohortFairSharing,
    /// Unqueued work of lower priority in the way on nodes.
    Priority,
    /// Nobody's victim: too few of its members had a place for too long.
    PodsReadyTimeout {
        /// Members that had one.
        have: u32,
        /// Members that it needs.
        need: u32,
        /// For how long.
        waited: Span,
    },
    /// Nobody's victim: too few of its members were ready for too long.
    PodsNotReady {
        /// Members that are.
        ready: u32,
        /// Members that it needs.
        need: u32,
        /// For how long.
        waited: Span,
        /// Enough of them were, before that.
        fell: bool,
    },
    /// Nobody's victim: its Workload object says that it may not run.
    Deactivated,
    /// The same, because its pods did not come up so often.
    RequeuingLimitExceeded {
        /// How often it was stopped for that.
        stops: u32,
    },
    /// The same, because it ran as long as it was to run at most.
    MaximumExecutionTimeExceeded {
        /// How long.
        limit: Span,
    },
    /// Nobody's victim: its LocalQueue is drained.
    LocalQueueStopped,
    /// Nobody's victim: its ClusterQueue is drained.
    ClusterQueueStopped,
}

impl Preemption {
    /// Whether it makes room for another.
    pub fn for_another(&self) -> bool {
        self.reason.for_another()
    }
}

impl PreemptionReason {
    /// Whether it makes room for another.
    pub fn for_another(self) -> bool {
        use PreemptionReason::{
            InClusterQueue, InCohortFairSharing, InCohortReclaimWhileBorrowing,
            InCohortReclamation, Priority,
        };
        let in_cohort = matches!(
            self,
            InCohortReclamation | InCohortReclaimWhileBorrowing | InCohortFairSharing
        );
        in_cohort || matches!(self, InClusterQueue | Priority)
    }

    /// The word used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            PreemptionReason::InClusterQueue => "InClusterQueue",
            PreemptionReason::InCohortReclamation => "InCohortReclamation",
            PreemptionReason::InCohortReclaimWhileBorrowing => "InCohortReclaimWhileBorrowing",
            PreemptionReason::InCohortFairSharing => "InCohortFairSharing",
            PreemptionReason::Priority => "Priority",
            PreemptionReason::PodsReadyTimeout { .. } | PreemptionReason::PodsNotReady { .. } => {
                "PodsReadyTimeout"
            }
            PreemptionReason::Deactivated
            | PreemptionReason::RequeuingLimitExceeded { .. }
            | PreemptionReason::MaximumExecutionTimeExceeded { .. } => "Deactivated",
            PreemptionReason::LocalQueueStopped => "LocalQueueStopped",
            PreemptionReason::ClusterQueueStopped => "ClusterQueueStopped",
        }
    }
}

/// Numbers of one step, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads considered (each head of each round).
    pub considered: u64,
    /// Workloads admitted.
    pub admitted: u64,
    /// Pods bound.
    pub bound: u64,
    /// Victims chosen.
    pub preempted: u64,
    /// Nodes whose score was computed.
    pub nodes_scored: u64,
    /// Timetables played to find when work could start.
    pub forecasts: u64,
    /// The same to find whose reserved starts work would delay that would start now.
    pub plays: u64,
}
