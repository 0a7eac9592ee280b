//! InterPodAffinity: near to the pods that a pod requires, away from those that it or they do not
//! want together.
//!
//! Anti-affinity holds in both directions, affinity does not. What is counted where is
//! [`super::neighbours`]' to know.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses a node whose domains lack who must be there, or have who must not.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let Some(outlook) = question.neighbours.filter(|outlook| !outlook.is_empty()) else { return };
    let (room, node) = (question.room, question.node);
    if !outlook.is_near(room, node) {
        refusals.push(NodeRefusal::PodAffinity);
        return;
    }
    let beside = match question.beside > 0 && outlook.repels_own(question) {
        true => question.beside,
        false => 0,
    };
    let unwanted = outlook.unwanted(room, node).saturating_add(beside);
    if unwanted > 0 {
        refusals.push(NodeRefusal::PodAntiAffinity { pods: unwanted });
        return;
    }
    let repelling = outlook.repelling(room, node);
    if repelling > 0 {
        refusals.push(NodeRefusal::ExistingAntiAffinity { pods: repelling });
    }
}

/// None where it refuses, one where pods of the kind keep each other away.
pub fn slots(question: &Question<'_>) -> u32 {
    let Some(outlook) = question.neighbours.filter(|outlook| !outlook.is_empty()) else {
        return u32::MAX;
    };
    let (room, node) = (question.room, question.node);
    let refused = !outlook.is_near(room, node)
        || outlook.unwanted(room, node) > 0
        || outlook.repelling(room, node) > 0;
    match (refused, outlook.repels_own(question)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => u32::MAX,
    }
}
