//! Whose equals stand for it: a look at one of them is a look at all. And who waits with members of
//! some kind.

use crate::engine::waiting::{GroupKey, Waiting};
use crate::model::ids::{ShapeIdx, WorkloadIdx};

impl Waiting {
    /// Whether two wait as equals.
    pub fn are_equal(&self, a: WorkloadIdx, b: WorkloadIdx) -> bool {
        let place = |of: WorkloadIdx| self.filed.get(of).map(|(queue, group, _)| (queue, group));
        place(a).is_some_and(|at| place(b) == Some(at))
    }

    /// All that wait, parked or not, with members of such shapes, in no order.
    pub fn with_shapes(&self, concerned: impl Fn(ShapeIdx) -> bool) -> Vec<WorkloadIdx> {
        let mut found = Vec::new();
        for line in self.lines.values() {
            let of = |key: &GroupKey| key.sets.iter().any(|(shape, _)| concerned(*shape));
            for (_, group) in line.known.iter().filter(|(key, _)| of(key)) {
                let members = line.groups[group as usize].members.values();
                found.extend(members.map(|(workload, _)| *workload));
            }
        }
        found
    }
}
