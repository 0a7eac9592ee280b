//! CapacityType: a workload with an allow-list never leaves it.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses a node whose capacity type is not in the workload's list; an empty list allows all.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if !is_allowed(question) {
        refusals.push(NodeRefusal::CapacityType { node: question.facts().capacity_type });
    }
}

/// Whether the list has the node's capacity type, or is empty.
pub fn is_allowed(question: &Question<'_>) -> bool {
    let allowed = &question.shape.facts.capacity_types;
    allowed.is_empty() || allowed.contains(&question.facts().capacity_type)
}
