//! NodeDeclaredFeatures: what a pod needs of a kubelet has to be declared by its node.
//!
//! Which fields of a pod need which feature is the shell's knowledge; nodes of a kubelet that
//! declares nothing have none.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses a node that lacks a feature; names all that it lacks.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let needed = question.shape.facts.features.iter();
    let declared = &question.facts().features;
    let missing = needed.filter(|feature| declared.binary_search(feature).is_err());
    let missing: Vec<&str> = missing.map(|feature| &**feature).collect();
    if !missing.is_empty() {
        refusals.push(NodeRefusal::Features { missing: missing.join(", ").into() });
    }
}
