//! A budget that is spent, as a reason.

use crate::calendar::Period;
use crate::model::input::Text;
use crate::quota::spending::Over;
use crate::time::Time;

/// What a queue has spent of its budget, and until when nothing new begins there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overspent {
    /// ClusterQueue.
    pub cluster_queue: Text,
    /// What may be spent, and what was.
    pub over: Over,
    /// In which period.
    pub period: Period,
    /// When the next one begins.
    pub until: Time,
}
