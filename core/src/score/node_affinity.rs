//! `nodeAffinity`: how much of what a pod prefers of nodes, and of what the configuration prefers
//! for every pod, holds on this one.
//!
//! Preferences add up by their weights, as kube-scheduler's do. It scales by the best node of the
//! moment; here the scale is all that was wished, so that a node's score says something by itself.

use crate::model::input::PreferredNodes;
use crate::rules::Question;
use crate::rules::selector::term_matches;

use super::FULL;

/// Its value; `None`: nobody prefers anything.
pub fn value(question: &Question<'_>) -> Option<u32> {
    let node = question.facts();
    let own = question.shape.facts.preferred_nodes.iter();
    let wished = || own.clone().chain(&question.room.args.added_preferences);
    let sum = |wished: &mut dyn Iterator<Item = &PreferredNodes>| -> u64 {
        wished.map(|preferred| u64::from(preferred.weight)).sum()
    };
    let all = sum(&mut wished());
    let held = sum(&mut wished().filter(|it| term_matches(&it.term, &node.labels, &node.name)));
    let value = (held * u64::from(FULL)).checked_div(all)?;
    Some(u32::try_from(value).unwrap_or(FULL))
}
