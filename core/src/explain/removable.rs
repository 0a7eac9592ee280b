//! Which refusals of a node somebody who leaves could undo.

use super::reason::NodeRefusal;

impl NodeRefusal {
    /// Whether removing pods from the node could help (kube-scheduler's `Unschedulable` as
    /// against `UnschedulableAndUnresolvable`).
    pub fn removable(&self) -> bool {
        match self {
            NodeRefusal::Port { .. }
            | NodeRefusal::TooManyPods { .. }
            | NodeRefusal::Spread { .. }
            | NodeRefusal::PodAntiAffinity { .. }
            | NodeRefusal::ExistingAntiAffinity { .. } => true,
            NodeRefusal::Insufficient { beyond_node, .. } => !beyond_node,
            NodeRefusal::Storage(refusal) => refusal.removable(),
            NodeRefusal::NodeName { .. }
            | NodeRefusal::Unschedulable
            | NodeRefusal::Taint { .. }
            | NodeRefusal::Affinity
            | NodeRefusal::EnforcedAffinity
            | NodeRefusal::Features { .. }
            | NodeRefusal::SpreadKey { .. }
            | NodeRefusal::PodAffinity
            | NodeRefusal::CapacityType { .. }
            | NodeRefusal::PriceUnknown
            | NodeRefusal::Flavor { .. }
            | NodeRefusal::ClaimUnusable { .. }
            | NodeRefusal::ClaimElsewhere { .. }
            | NodeRefusal::ClaimUnready { .. }
            | NodeRefusal::Devices { .. }
            | NodeRefusal::DevicesTooLong { .. }
            | NodeRefusal::NoDomain { .. }
            | NodeRefusal::AwayFromGang { .. } => false,
        }
    }
}
