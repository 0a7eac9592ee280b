//! Flavor: a pod runs only on nodes that carry the labels of every flavor chosen for it.

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::model::input::{FlavorFacts, Labels};

/// Refuses a node that is not of a chosen flavor; names the first such flavor.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let labels = &question.facts().labels;
    let other = question.flavors.iter().find(|(_, flavor)| !is_of(labels, flavor));
    if let Some((_, flavor)) = other {
        refusals.push(NodeRefusal::Flavor { flavor: flavor.name.clone() });
    }
}

/// Whether the node is one of every chosen flavor.
pub fn is_of_all(question: &Question<'_>) -> bool {
    let labels = &question.facts().labels;
    question.flavors.iter().all(|(_, flavor)| is_of(labels, flavor))
}

/// Whether a node with these labels is one of the flavor's.
pub fn is_of(labels: &Labels, flavor: &FlavorFacts) -> bool {
    flavor.node_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}
