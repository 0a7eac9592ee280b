//! Price: in a queue with a quota of money a pod runs only where it is known what it costs.

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::score;

/// Refuses a node whose price is not known, or that does not say what share of it a pod takes, to
/// a pod whose queue is charged for it.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    if question.pays && score::hourly(question).is_none() {
        refusals.push(NodeRefusal::PriceUnknown);
    }
}
