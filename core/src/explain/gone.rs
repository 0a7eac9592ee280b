//! Reasons as they are told of a search: as if others had left, or where it ended.

use super::reason::{FlavorProblem, Reason};
use super::shortage::SearchBound;

impl Reason {
    /// The same as if so many workloads had left that may be preempted.
    pub fn with_gone(mut self, count: u32) -> Reason {
        match self.innermost() {
            Reason::Nodes(shortage) => shortage.gone = count,
            Reason::Topology { gone, .. } => *gone = count,
            _ => {}
        }
        self
    }

    /// The same where the search for places ended at its bound.
    pub fn with_ended(mut self, bound: SearchBound) -> Reason {
        match self.innermost() {
            Reason::Nodes(shortage) => shortage.ended = Some(bound),
            Reason::Topology { ended, .. } => *ended = Some(bound),
            _ => {}
        }
        self
    }

    /// What is said of one set, where it is said of a set beside others.
    fn innermost(&mut self) -> &mut Reason {
        match self {
            Reason::Together { then, .. } => then.innermost(),
            reason => reason,
        }
    }
}

impl FlavorProblem {
    /// The same as if so many workloads had left that may be preempted.
    pub fn with_gone(mut self, count: u32) -> FlavorProblem {
        match &mut self {
            FlavorProblem::Nodes(shortage) => shortage.gone = count,
            FlavorProblem::Topology { gone, .. } => *gone = count,
            _ => {}
        }
        self
    }
}
