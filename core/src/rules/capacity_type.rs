//! CapacityType: a workload with an allow-list never leaves it.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses a node whose capacity type is not in the workload's list; an empty list allows all.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let allowed = &question.shape.facts.capacity_types;
    let node = question.facts().capacity_type;
    if !allowed.is_empty() && !allowed.contains(&node) {
        refusals.push(NodeRefusal::CapacityType { node });
    }
}
