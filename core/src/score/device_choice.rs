//! `deviceChoice`: how much a pod would rather have the devices that it would get on a node.
//!
//! A request of a claim may say several things that would meet it, best first (`firstAvailable`).
//! kube-scheduler prefers nodes that have what comes first, too. It scales by the best node of the
//! moment; here the scale is the list itself, and several requests count alike.

use crate::rules::Question;
use crate::rules::dynamic_resources::alternatives;

use super::FULL;

/// Its value; `None`: no claim that is to get devices has alternatives.
pub fn value(question: &Question<'_>) -> Option<u32> {
    let met = alternatives(&question.room.devices, &question.shape.facts, question.facts());
    let worth = |(at, of): &(usize, usize)| FULL * (of - 1 - at) as u32 / (of - 1) as u32;
    let sum: u32 = met.iter().map(worth).sum();
    sum.checked_div(met.len() as u32)
}
