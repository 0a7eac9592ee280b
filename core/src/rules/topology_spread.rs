//! PodTopologySpread: no domain gets further ahead of the emptiest one than a pod allows.
//!
//! Only `DoNotSchedule` refuses; `ScheduleAnyway` is a score term. What is counted where is
//! [`super::neighbours`]' to know.

use super::Question;
use crate::explain::reason::NodeRefusal;

/// Refuses a node without a key of a constraint, or whose domain is ahead already.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let Some(outlook) = question.neighbours else { return };
    refusals.extend(outlook.skewed(question).map(|skewed| match skewed {
        Err(key) => NodeRefusal::SpreadKey { key: key.clone() },
        Ok(skew) => NodeRefusal::Spread {
            key: skew.key.clone(),
            count: skew.count,
            least: skew.least,
            max_skew: skew.max_skew,
        },
    }));
}

/// None where it refuses; else as many as there is room for: one by one they are asked again.
pub fn slots(question: &Question<'_>) -> u32 {
    match question.neighbours {
        Some(outlook) if outlook.skewed(question).is_some() => 0,
        _ => u32::MAX,
    }
}
