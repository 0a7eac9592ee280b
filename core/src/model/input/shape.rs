//! What pods of one kind have in common, as far as it decides where they run and what they use.

use std::sync::Arc;

use super::{
    AboveLimit, Amounts, CapacityType, Kin, Labels, Malformed, Neighbours, NodeSelector,
    OutOfRange, PodClaim, PodVolumes, PreferredNodes, Text, Toleration,
};

/// A host port that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Port number, above zero.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// Address; `0.0.0.0` is every address.
    pub ip: Text,
}

/// All that decides where a pod may run and what it uses. Pods of equal shape are one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodShape {
    /// Effective request (spec of the whole pod; see [`crate::requests`]), the `pods` slot apart.
    pub requests: Amounts,
    /// `spec.nodeName` as the user wrote it (a pod that we bound has none here).
    pub node_name: Option<Text>,
    /// `spec.nodeSelector`.
    pub node_selector: Labels,
    /// Required node affinity.
    pub node_affinity: Option<NodeSelector>,
    /// Preferred node affinity; a score, never a refusal.
    pub preferred_nodes: Vec<PreferredNodes>,
    /// Images of its containers and volumes, one for each, as nodes name them; sorted.
    pub images: Vec<Text>,
    /// Features that a node has to declare for it; sorted.
    pub features: Vec<Text>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Host ports.
    pub ports: Vec<HostPort>,
    /// Ordered allow-list of capacity types; empty allows all.
    pub capacity_types: Vec<CapacityType>,
    /// A request above its own limit: no API server takes such a pod, so it waits.
    pub above_limit: Option<AboveLimit>,
    /// What a LimitRange does not allow: work in queues waits, as no API server takes such a pod.
    pub out_of_range: Option<Arc<OutOfRange>>,
    /// A selector that cannot be read, so that nobody knows where it may run: it waits.
    pub malformed: Option<Malformed>,
    /// What it is to pods that want something of the pods around them; `None`: nobody does.
    pub kin: Option<Arc<Kin>>,
    /// What it wants of the pods around it.
    pub neighbours: Option<Arc<Neighbours>>,
    /// Volumes that have a say in where it may run; `None`: it has none of these.
    pub volumes: Option<Arc<PodVolumes>>,
    /// Claims on devices.
    pub claims: Vec<PodClaim>,
    /// Pod sets of its gang with this name get their flavors together, and count as one where
    /// levels and slices hold for pod sets.
    pub set_group: Option<Text>,
    /// The pod set of its owner, where sets are told apart that may be equal in all else: levels
    /// hold for each by itself, or some are made later than others.
    pub pod_set: Option<Text>,
}
