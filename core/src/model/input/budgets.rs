//! PodDisruptionBudgets: which pods had rather not be disturbed, and how many may be now.

use std::collections::BTreeSet;

use super::{LabelSelector, Text};

/// A PodDisruptionBudget. Preemption heeds it where it has a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Which pods of its namespace; `None`, or one without requirements, means none, as it does to
    /// kube-scheduler.
    pub labels: Option<LabelSelector>,
    /// How many of them may be disturbed now, by its controller (`status.disruptionsAllowed`).
    pub allowed: u32,
    /// Pods, by name, that are counted as disturbed already.
    pub disturbed: BTreeSet<Text>,
}
