//! NodeUnschedulable: a cordoned node takes only pods that tolerate being there.
//!
//! Cordoning stands for the taint `node.kubernetes.io/unschedulable:NoSchedule` with an empty
//! value, so every toleration that matches that taint lets a pod pass.

use super::{Question, taints};
use crate::explain::reason::NodeRefusal;
use crate::model::input::{Taint, TaintEffect};

/// Refuses a cordoned node.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if !question.facts().unschedulable {
        return;
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    if !taints::tolerated(question, &taint) {
        refusals.push(NodeRefusal::Unschedulable);
    }
}
