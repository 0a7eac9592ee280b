//! `podAffinity` and `topologySpread`: how much of what a pod prefers of the pods around it holds.
//!
//! A preferred term holds where its domain has such a pod (or none, for anti-affinity), however
//! many there are, and a ScheduleAnyway constraint where its skew stays within bounds. So a score
//! changes when an answer turns and not with every pod, which is what lets it be kept.

use crate::rules::Question;

use super::FULL;

/// Preferred pod affinity and anti-affinity; `None`: the pod prefers nothing.
pub fn affinity(question: &Question<'_>) -> Option<u32> {
    let (held, all) = question.neighbours?.preferred(question)?;
    Some(part(held, all))
}

/// ScheduleAnyway constraints; `None`: the pod has none.
pub fn spread(question: &Question<'_>) -> Option<u32> {
    let (kept, all) = question.neighbours?.spread_out(question)?;
    Some(part(kept, all))
}

fn part(held: u32, all: u32) -> u32 {
    let value = u64::from(held) * u64::from(FULL) / u64::from(all);
    u32::try_from(value).unwrap_or(FULL)
}
