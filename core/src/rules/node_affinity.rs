//! NodeAffinity: nodeSelector, required node affinity, and the affinity that configuration adds.

use super::Question;
use super::selector::node_matches;
use crate::explain::reason::NodeRefusal;
use crate::model::input::{Labels, PodShape};

/// Refuses a node that the pod's selectors or the configured ones do not match.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let node = question.facts();
    if let Some(added) = &question.room.args.added_affinity
        && !node_matches(added, &node.labels, &node.name)
    {
        refusals.push(NodeRefusal::EnforcedAffinity);
        return;
    }
    if !wanted(question) {
        refusals.push(NodeRefusal::Affinity);
    }
}

/// Whether the pod's own selector and affinity match a node.
pub fn wanted(question: &Question<'_>) -> bool {
    let node = question.facts();
    matches(&question.shape.facts, &node.labels, &node.name)
}

/// Whether nodeSelector and required node affinity both match.
fn matches(pod: &PodShape, labels: &Labels, name: &str) -> bool {
    pod.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && pod.node_affinity.as_ref().is_none_or(|affinity| node_matches(affinity, labels, name))
}
