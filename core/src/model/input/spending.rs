//! What a ClusterQueue may spend in a period, and what its status says that it spent. (The budgets
//! of [`super::BudgetFacts`] are PodDisruptionBudgets, another thing.)

use super::Text;
use crate::money::MicroUsd;
use crate::time::Time;

pub use crate::calendar::Period;

/// `spec.budget` of a ClusterQueue: at least one of the amounts is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendingLimit {
    /// Money.
    pub usd: Option<MicroUsd>,
    /// GPU-seconds.
    pub gpu_seconds: Option<i64>,
    /// How long it must last.
    pub period: Period,
    /// What happens once either amount is reached.
    pub enforcement: Enforcement,
}

/// What happens once a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Nothing new is admitted until the next period; what runs goes on.
    Hard,
    /// Its work is the first that others of the cohort take back from.
    Soft,
}

/// What the status of a ClusterQueue says that it spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentFacts {
    /// The queue.
    pub cluster_queue: Text,
    /// When the period began that it is of.
    pub period_start: Time,
    /// Money.
    pub usd: MicroUsd,
    /// GPU-seconds.
    pub gpu_seconds: i64,
    /// Until then.
    pub as_of: Time,
}
