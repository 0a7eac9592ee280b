//! What a pod wants of the pods around it, and what it is to others who want something.
//!
//! The shell resolves what depends on the pod alone (its own namespace, `matchLabelKeys`); which
//! namespaces a selector means changes with their labels, so that is left to the engine.

use super::{LabelSelector, Labels, Text};

/// A pod as selectors of others see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kin {
    /// Namespace.
    pub namespace: Text,
    /// Its labels, those that some selector in the cluster reads.
    pub labels: Labels,
}

/// Which pods a term means.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerSelector {
    /// In these namespaces; sorted.
    pub namespaces: Vec<Text>,
    /// And in those with such labels.
    pub namespace_selector: Option<LabelSelector>,
    /// With such labels; `None` means no pod at all.
    pub labels: Option<LabelSelector>,
}

/// Pods, within one domain of a node label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerTerm {
    /// Node label whose value is the domain.
    pub key: Text,
    /// Which pods.
    pub peers: PeerSelector,
}

/// Pods that a pod had rather be near to, or away from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreferredPeers {
    /// How much it matters, 1 to 100; below zero: to be away from them.
    pub weight: i32,
    /// Which pods, and how near.
    pub term: PeerTerm,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread {
    /// Node label whose value is the domain.
    pub key: Text,
    /// Largest difference to the domain with the fewest.
    pub max_skew: u32,
    /// With fewer domains than this, the fewest are none.
    pub min_domains: u32,
    /// Which pods of its namespace are counted; `None`: no pod at all.
    pub labels: Option<LabelSelector>,
    /// `DoNotSchedule`; else it is a score.
    pub required: bool,
    /// Only nodes that the pod's selector and affinity match make domains.
    pub honors_affinity: bool,
    /// Only nodes whose taints it tolerates make domains.
    pub honors_taints: bool,
}

/// All that a pod wants of the pods around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbours {
    /// Required pod affinity: one domain of each term has such pods.
    pub affinity: Vec<PeerTerm>,
    /// Required pod anti-affinity: its domain has no such pods. It holds for them, too.
    pub anti_affinity: Vec<PeerTerm>,
    /// Preferred pod affinity and anti-affinity.
    pub preferred: Vec<PreferredPeers>,
    /// Topology spread constraints.
    pub spread: Vec<Spread>,
}
