//! PodDisruptionBudgets: which pods had rather not be disturbed, and how many may be now.

use std::collections::BTreeSet;

use super::Text;

/// A PodDisruptionBudget. Preemption heeds it where it has a choice. Pods that it means say so
/// themselves: see [`PodShape::budgets`](super::PodShape::budgets).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// How many of them may be disturbed now, by its controller (`status.disruptionsAllowed`).
    pub allowed: u32,
    /// Pods, by name, that are counted as disturbed already.
    pub disturbed: BTreeSet<Text>,
}
