//! What work went through in a step: said once, with times, for whoever counts.
//!
//! Times are reckoned where all of it is known; a number that a new engine cannot know (when a
//! stop began that an engine before it asked for) is not made up: such a milestone is not told.

use std::sync::Arc;

use crate::model::input::Text;
use crate::plan::PreemptionReason;
use crate::time::Span;

/// Something that happened to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// Whose work it is; shared by those that are told one after the other of the same queues.
    pub of: Arc<Whose>,
    /// What happened.
    pub what: Passage,
}

/// The queues that a workload was in when something happened to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Its namespace.
    pub namespace: Text,
    /// LocalQueue named or defaulted, if any.
    pub local_queue: Option<Text>,
    /// ClusterQueue behind it, if both exist.
    pub cluster_queue: Option<Text>,
    /// WorkloadPriorityClass that it names, or else the PriorityClass of its pods.
    pub priority_class: Option<Text>,
}

/// That a workload is being stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: PreemptionReason,
    /// The ClusterQueue of whom it makes room for, where that is in one.
    pub preempting: Option<Text>,
    /// It never was before for a reason of this kind, as far as its owner bears that.
    pub first: bool,
}

/// What became of victims that were looked for anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recomputation {
    /// Others leave for it.
    NewTargets,
    /// Nobody does: it waits for those of others, who leave enough.
    DeferredFit,
    /// It waits for the next round.
    Skipped,
}

impl Recomputation {
    /// Kueue's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Recomputation::NewTargets => "new_targets",
            Recomputation::DeferredFit => "deferred_fit",
            Recomputation::Skipped => "skipped",
        }
    }
}

/// The kinds of milestones. A step may admit thousands: what is rare is boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Quota was taken, members were placed.
    Admitted {
        /// Since its creation, or its last stop.
        waited: Span,
    },
    /// Enough members have started, the first time since it was admitted.
    Ready {
        /// Since its creation, or its last stop.
        waited: Span,
        /// Since it was admitted.
        admitted: Span,
    },
    /// It was stopped, and is on its way out.
    Evicted(Box<Stop>),
    /// All that it held is free again after that.
    Left {
        /// Why it was stopped.
        reason: Box<PreemptionReason>,
        /// Since the stop was decided.
        took: Span,
    },
    /// It would have stopped others, and who was decided on before it in the round took what it
    /// counted on.
    Skipped,
    /// Its victims were looked for anew, because who was decided on before it in the round had one.
    Recomputed(Recomputation),
    /// Its work is done, well or not.
    Finished {
        /// How long its runs held quota, all together.
        ran: Span,
    },
}
