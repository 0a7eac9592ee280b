//! `imageLocality`: how much of a pod's images is on a node already and need not be pulled.
//!
//! Bytes are valued as kube-scheduler does: a few are worth nothing, and beyond a gigabyte for
//! each container more is not worth more. It also counts how many nodes have an image; here a
//! term says something about one node.

use crate::rules::Question;

use super::FULL;

/// Bytes that are worth nothing.
const LEAST: i64 = 23 << 20;
/// Bytes that count, for each container.
const MOST: i64 = 1_000 << 20;

/// Its value; `None`: the pod names no images.
pub fn value(question: &Question<'_>) -> Option<u32> {
    let wanted = &question.shape.facts.images;
    let there = &question.facts().images;
    if wanted.is_empty() {
        return None;
    }
    let bytes = wanted.iter().filter_map(|image| there.get(image).copied());
    let bytes = bytes.fold(0_i64, i64::saturating_add);
    let most = MOST.saturating_mul(i64::try_from(wanted.len()).unwrap_or(i64::MAX));
    let over = i128::from(bytes.clamp(LEAST, most) - LEAST);
    u32::try_from(over * i128::from(FULL) / i128::from(most - LEAST)).ok()
}
