//! Flavor: a pod runs only on nodes that carry the labels of every flavor chosen for it.

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::model::input::FlavorFacts;

/// Refuses a node that is not of a chosen flavor; names the first such flavor.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let labels = &question.facts().labels;
    let of_flavor = |flavor: &FlavorFacts| {
        flavor.node_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let other = question.flavors.iter().find(|(_, flavor)| !of_flavor(flavor));
    if let Some((_, flavor)) = other {
        refusals.push(NodeRefusal::Flavor { flavor: flavor.name.clone() });
    }
}
