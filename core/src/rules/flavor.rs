//! Flavor: a pod runs only on nodes that carry the labels of every flavor chosen for it, and one
//! for each level of its Topology.

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::model::input::{FlavorFacts, Labels, Text};

/// Refuses a node that is not of a chosen flavor; names the first such flavor.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let labels = &question.facts().labels;
    let other = question.flavors.iter().find(|(_, flavor)| !is_of(labels, flavor));
    if let Some((_, flavor)) = other {
        let lacks = missing(labels, flavor).filter(|_| is_labelled(labels, flavor)).cloned();
        refusals.push(NodeRefusal::Flavor { flavor: flavor.name.clone(), lacks });
    }
}

/// Whether the node is one of every chosen flavor.
pub fn is_of_all(question: &Question<'_>) -> bool {
    let labels = &question.facts().labels;
    question.flavors.iter().all(|(_, flavor)| is_of(labels, flavor))
}

/// Whether a flavor offers a node with these labels.
pub fn is_of(labels: &Labels, flavor: &FlavorFacts) -> bool {
    is_labelled(labels, flavor) && missing(labels, flavor).is_none()
}

/// Whether a node with these labels is one of the flavor's, be it in no domain of its Topology.
pub fn is_labelled(labels: &Labels, flavor: &FlavorFacts) -> bool {
    flavor.node_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The first level of the flavor's Topology that a node with these labels lacks.
fn missing<'a>(labels: &Labels, flavor: &'a FlavorFacts) -> Option<&'a Text> {
    flavor.levels.iter().find(|level| !labels.contains_key(*level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(list: &[(&str, &str)]) -> Labels {
        list.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn a_node_without_a_level_of_the_topology_is_not_offered() {
        let flavor = FlavorFacts {
            name: "f".into(),
            node_labels: labels(&[("pool", "a")]),
            taints: vec![],
            tolerations: vec![],
            topology: Some("t".into()),
            levels: vec!["zone".into(), "rack".into()],
            broken: vec![],
        };
        let whole = labels(&[("pool", "a"), ("zone", ""), ("rack", "r")]);
        assert!(is_of(&whole, &flavor));
        let bare = labels(&[("pool", "a"), ("zone", "z")]);
        assert!(!is_of(&bare, &flavor) && is_labelled(&bare, &flavor));
        assert_eq!(missing(&bare, &flavor).map(|level| &**level), Some("rack"));
        let other = labels(&[("pool", "b"), ("zone", "z"), ("rack", "r")]);
        assert!(!is_of(&other, &flavor) && !is_labelled(&other, &flavor));
    }
}
