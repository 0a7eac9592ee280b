//! Whose equals stand for it: a look at one of them is a look at all.

use crate::engine::waiting::Waiting;
use crate::model::ids::WorkloadIdx;

impl Waiting {
    /// Whether two wait as equals.
    pub fn are_equal(&self, a: WorkloadIdx, b: WorkloadIdx) -> bool {
        let place = |of: WorkloadIdx| self.filed.get(of).map(|(queue, group, _)| (queue, group));
        place(a).is_some_and(|at| place(b) == Some(at))
    }
}
