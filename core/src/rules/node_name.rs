//! NodeName: a pod whose `spec.nodeName` is set runs there and nowhere else.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses every other node.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if let Some(wanted) = &question.shape.facts.node_name
        && *wanted != question.facts().name
    {
        refusals.push(NodeRefusal::NodeName { wanted: wanted.clone() });
    }
}
