//! `nodeAffinity`: how much of what a pod prefers of nodes, and of what the configuration prefers
//! for every pod, holds on this one.
//!
//! Preferences add up by their weights, as kube-scheduler's do. It scales by the best node that is
//! left in a try; here the scale is the best of all nodes that may have the pod by their labels,
//! full or not. So what no node has, and what none can have together (one kind of nodes, or else
//! another), makes what there is worth no less.

use crate::rules::selector::term_matches;
use crate::rules::{self, Question};

use super::FULL;

/// Its value, if `most` is the most that any node has ([`wishes_met`]); `None`: nobody prefers
/// anything.
pub fn value(question: &Question<'_>, most: u64) -> Option<u32> {
    let value = (held(question)? * u64::from(FULL)).checked_div(most).unwrap_or(0);
    Some(u32::try_from(value).unwrap_or(FULL).min(FULL))
}

/// How much of it a node has that may have the pod by its labels; nothing for others.
pub fn wishes_met(question: &Question<'_>) -> u64 {
    let Some(held) = held(question) else { return 0 };
    let mut refusals = Vec::new();
    rules::node_affinity::check(question, &mut refusals);
    match refusals.is_empty() && rules::flavor::is_of_all(question) {
        true => held,
        false => 0,
    }
}

/// Weights of what holds on the node; `None`: nobody prefers anything.
fn held(question: &Question<'_>) -> Option<u64> {
    let node = question.facts();
    let own = question.shape.facts.preferred_nodes.iter();
    let mut wished = own.chain(&question.room.args.added_preferences).peekable();
    wished.peek()?;
    let held = wished.filter(|it| term_matches(&it.term, &node.labels, &node.name));
    Some(held.map(|preferred| u64::from(preferred.weight)).sum())
}
