//! Why a flavor does not take a pod set, with the numbers that show it.

use super::quantity::USD_PER_HOUR;
use super::reason::{DomainShortage, NoVictims, NodeShortage};
use super::view::Holder;
use crate::model::input::Text;

/// Why one flavor did not take a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorRefusal {
    /// Flavor.
    pub flavor: Text,
    /// Why.
    pub why: FlavorProblem,
}

/// What is wrong with a flavor for a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlavorProblem {
    /// A taint of the flavor is not tolerated.
    Taint {
        /// Taint key.
        key: Text,
        /// Taint value.
        value: Text,
    },
    /// The pod's node selector or affinity excludes the flavor's labels.
    Affinity,
    /// A level that is required is of another Topology than its own.
    Level {
        /// Level.
        level: Text,
        /// The flavor's Topology.
        topology: Text,
        /// Levels that this has.
        known: Vec<Text>,
    },
    /// More than the queue could ever have.
    ExceedsMax {
        /// Resource.
        resource: Text,
        /// Amount asked, by other pod sets of the workload too. Of money what it costs where there
        /// is room now, if there is: the least that it could ever cost is too much as well.
        asked: i64,
        /// What those ask of it.
        others: i64,
        /// The most that queue and cohort could give.
        most: i64,
    },
    /// Not enough is left now.
    Short {
        /// Resource.
        resource: Text,
        /// Amount asked, by other pod sets of the workload too.
        asked: i64,
        /// What those ask of it.
        others: i64,
        /// Amount left.
        left: i64,
        /// Cohort whose room was counted, if any.
        cohort: Option<Text>,
        /// Own quota that is not used, what others borrow of it included.
        own: i64,
        /// What leaves no more; `None`: just that others use what there is.
        strait: Option<Box<Strait>>,
        /// Why nobody leaves for it.
        victims: NoVictims,
    },
    /// Quota would do; its nodes do not.
    Nodes(Box<NodeShortage>),
    /// Its queue has a quota of money, and nobody knows what the nodes cost that would take it.
    PriceUnknown {
        /// How many.
        nodes: u32,
    },
    /// Quota would do; no domain of the required level holds it.
    Topology(Box<DomainShortage>),
}

/// What leaves a queue no more, where it is not just that others use what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strait {
    /// The whole tree uses more than it has: what its root has does not do for what it lent.
    Debt {
        /// The cohort at the root, which the queue's own need not be.
        cohort: Text,
        /// By how much.
        over: i64,
    },
    /// Somebody borrows no more, whatever others leave.
    Borrowing {
        /// Whose limit it is.
        holder: Holder,
        /// How much that may borrow.
        limit: i64,
        /// How much it borrows.
        borrowed: i64,
    },
}

impl FlavorProblem {
    /// Says of amounts which part the pod set that is told asks itself, if it asks any.
    pub fn split(&mut self, of_set: impl Fn(&Text) -> i64) {
        if let FlavorProblem::ExceedsMax { resource, asked, others, .. }
        | FlavorProblem::Short { resource, asked, others, .. } = self
        {
            let own = of_set(resource);
            *others = if own > 0 { (*asked - own).max(0) } else { 0 };
        }
    }

    /// Whether it is quota that is short.
    pub fn is_of_quota(&self) -> bool {
        matches!(self, FlavorProblem::Short { .. } | FlavorProblem::ExceedsMax { .. })
    }

    /// Whether pods may not have the flavor, whatever is left of it.
    pub fn excludes(&self) -> bool {
        matches!(
            self,
            FlavorProblem::Taint { .. } | FlavorProblem::Affinity | FlavorProblem::Level { .. }
        )
    }

    /// No less is asked, as is known of money once it is known where members would go.
    pub fn asks_at_least(&mut self, amount: i64) {
        if let FlavorProblem::ExceedsMax { asked, .. } | FlavorProblem::Short { asked, .. } = self {
            *asked = (*asked).max(amount);
        }
    }

    /// Whether more room on nodes might help. Where victims were looked for, it might: nobody is
    /// stopped for a preemptor that would find no nodes.
    pub fn wants_room(&self) -> bool {
        match self {
            FlavorProblem::Nodes(_)
            | FlavorProblem::PriceUnknown { .. }
            | FlavorProblem::Topology(_) => true,
            // It may cost less on nodes that come free.
            FlavorProblem::Short { resource, victims, .. } => {
                let none = matches!(victims, NoVictims::NotAsked | NoVictims::AboveNominal { .. });
                !none || &**resource == USD_PER_HOUR
            }
            FlavorProblem::ExceedsMax { resource, .. } => &**resource == USD_PER_HOUR,
            FlavorProblem::Taint { .. } | FlavorProblem::Affinity | FlavorProblem::Level { .. } => {
                false
            }
        }
    }

    /// How far it is from a fit, nearest first: quota that is short now says more than nodes that
    /// never matched.
    pub fn remoteness(&self) -> u8 {
        match self {
            FlavorProblem::Short { .. } => 0,
            FlavorProblem::Nodes(shortage) if shortage.nearest.is_some() => 1,
            FlavorProblem::Topology(_) => 2,
            FlavorProblem::Nodes(_) | FlavorProblem::PriceUnknown { .. } => 3,
            FlavorProblem::ExceedsMax { .. } => 4,
            FlavorProblem::Taint { .. } | FlavorProblem::Affinity | FlavorProblem::Level { .. } => {
                5
            }
        }
    }
}
