//! `podAffinity` and `topologySpread`: how well a node goes with what a pod and those around it
//! prefer of each other, and how empty its domains are.
//!
//! Every pod in the domain counts, as in kube-scheduler's scores; what is added up, and by what
//! it is measured, is [`preferences`](crate::rules::neighbours::preferences)' to know.

use capstan_topology::NodeIdx;

use super::Weights;
use crate::model::room::Room;
use crate::rules::neighbours::Outlook;

/// Preferred pod affinity and anti-affinity; `None`: neither the pod nor any around prefers any.
#[inline]
pub fn affinity(outlook: &Outlook, room: &Room, node: NodeIdx) -> Option<u32> {
    outlook.preferences().pull(room, node)
}

/// ScheduleAnyway constraints; `None`: the pod has none.
#[inline]
pub fn spread(outlook: &Outlook, room: &Room, node: NodeIdx) -> Option<u32> {
    outlook.preferences().spread(room, node)
}

/// Weighted sum of both.
#[inline]
pub fn terms(outlook: &Outlook, room: &Room, node: NodeIdx, weights: &Weights) -> u32 {
    if outlook.preferences().is_empty() {
        return 0;
    }
    weights.pod_affinity * affinity(outlook, room, node).unwrap_or(0)
        + weights.topology_spread * spread(outlook, room, node).unwrap_or(0)
}
