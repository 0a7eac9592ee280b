//! Why a node is refused, with the numbers that show it.

use super::storage::StorageRefusal;
use crate::model::input::{CapacityType, Text};
use crate::time::Time;

/// Why a node refuses a pod: a rule's verdict, with numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeRefusal {
    /// `spec.nodeName` names another node.
    NodeName {
        /// The node named.
        wanted: Text,
    },
    /// Cordoned.
    Unschedulable,
    /// A taint is not tolerated.
    Taint {
        /// Key.
        key: Text,
        /// Value.
        value: Text,
    },
    /// nodeSelector or required node affinity does not match.
    Affinity,
    /// The affinity that the configuration adds does not match.
    EnforcedAffinity,
    /// A host port is taken.
    Port {
        /// Port.
        port: u16,
        /// Protocol.
        protocol: Text,
    },
    /// The node's `pods` are used up.
    TooManyPods {
        /// Allocatable pods.
        limit: i64,
    },
    /// Not enough of a resource.
    Insufficient {
        /// Resource.
        resource: Text,
        /// Asked by one pod.
        asked: i64,
        /// Free (may be negative).
        free: i64,
        /// More than the node has in all: removing pods cannot help.
        beyond_node: bool,
    },
    /// Something about its volumes.
    Storage(StorageRefusal),
    /// The kubelet does not declare what the pod needs of it.
    Features {
        /// What is missing, by name.
        missing: Text,
    },
    /// It is in no domain of a topology spread constraint.
    SpreadKey {
        /// Node label that it lacks.
        key: Text,
    },
    /// Its domain would get too far ahead of the emptiest one.
    Spread {
        /// Node label whose value is the domain.
        key: Text,
        /// Pods in its domain, with this one.
        count: u32,
        /// Pods in the emptiest.
        least: u32,
        /// Largest difference.
        max_skew: u32,
    },
    /// Its domains lack pods that the pod requires near.
    PodAffinity,
    /// Its domains have pods that the pod wants to be away from.
    PodAntiAffinity {
        /// How many.
        pods: u32,
    },
    /// Its domains have pods that want to be away from the pod.
    ExistingAntiAffinity {
        /// How many.
        pods: u32,
    },
    /// The capacity type is not in the workload's allow-list.
    CapacityType {
        /// The node's type.
        node: CapacityType,
    },
    /// Its price is not known, and the pod's queue has a quota of money.
    PriceUnknown,
    /// The node's labels are not the chosen flavor's.
    Flavor {
        /// Flavor.
        flavor: Text,
        /// The level of the flavor's Topology that it has no label of, if that is all.
        lacks: Option<Text>,
    },
    /// A claim cannot be used as it is.
    ClaimUnusable {
        /// Why, with its name.
        problem: Text,
        /// That is the claim's own fault: no node is looked at for it.
        of_pod: bool,
    },
    /// A claim has devices that the node does not reach.
    ClaimElsewhere {
        /// The claim.
        claim: Text,
    },
    /// A claim has devices that will not be ready for use, wherever its pod would go.
    ClaimUnready {
        /// The claim.
        claim: Text,
        /// Which device, and which conditions.
        what: Text,
        /// Until when they had to be true; `None`: a driver says that it failed.
        until: Option<Time>,
    },
    /// The devices of a node do not meet a request beside all others.
    Devices {
        /// The claim, as the pod names it.
        claim: Text,
        /// The request at which the search ended.
        request: Text,
        /// Devices asked; `None`: all that match.
        asked: Option<u64>,
        /// Devices that match.
        matching: u32,
        /// Of these, free for it: in nobody's use, with taints that it tolerates.
        free: u32,
    },
    /// So many devices were tried, and it is not known whether others would do.
    DevicesTooLong {
        /// How many.
        tries: u32,
    },
    /// In no domain of a level whose one domain is to hold the gang.
    NoDomain {
        /// Level, as known or as asked.
        level: Text,
    },
    /// Outside of the domain where the members of its gang run, which must be together.
    AwayFromGang {
        /// Level.
        level: Text,
        /// Name of the domain, where it has one.
        domain: Option<Text>,
    },
}

impl NodeRefusal {
    /// Whether it is about the pod alone: no node takes it, whatever the node has.
    pub fn of_pod(&self) -> bool {
        match self {
            NodeRefusal::Storage(refusal) => refusal.of_pod(),
            NodeRefusal::ClaimUnusable { of_pod, .. } => *of_pod,
            _ => false,
        }
    }
}
