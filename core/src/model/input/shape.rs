//! What pods of one kind have in common, as far as it decides where they run and what they use.

use std::sync::Arc;

use super::{
    AboveLimit, Amounts, CapacityType, Kin, Labels, Malformed, Neighbours, NodeSelector,
    OutOfRange, PodClaim, PodVolumes, PreferredNodes, SetLevels, Text, Toleration,
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
    /// PodDisruptionBudgets of its namespace that mean it, by name; sorted. They have no say in
    /// where it may run.
    pub budgets: Vec<Text>,
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
    /// Levels and slices of its pod set, where sets of its gang ask for different ones; `None`:
    /// what its workload asks for each.
    pub levels: Option<Arc<SetLevels>>,
}

impl PodShape {
    /// In how many of its parts another shape differs.
    pub fn differences(&self, other: &PodShape) -> u32 {
        let differ = [
            self.requests != other.requests,
            self.node_name != other.node_name,
            self.node_selector != other.node_selector,
            self.node_affinity != other.node_affinity,
            self.preferred_nodes != other.preferred_nodes,
            self.images != other.images,
            self.features != other.features,
            self.tolerations != other.tolerations,
            self.ports != other.ports,
            self.capacity_types != other.capacity_types,
            self.above_limit != other.above_limit,
            self.out_of_range != other.out_of_range,
            self.malformed != other.malformed,
            self.kin != other.kin,
            self.neighbours != other.neighbours,
            self.volumes != other.volumes,
            self.claims != other.claims,
            self.set_group != other.set_group,
            self.levels != other.levels,
        ];
        differ.into_iter().filter(|differs| *differs).count() as u32
    }

    /// Whether nodes say the same to both, as far as volumes and devices have no say: what a
    /// template's pods have of these gets its names with them.
    pub fn stands_as(&self, other: &PodShape) -> bool {
        let images = self.images != other.images;
        let objects = [self.volumes != other.volumes, self.claims != other.claims];
        let of_no_say = objects.into_iter().chain([images]).filter(|differs| *differs);
        self.differences(other) == of_no_say.count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_compared_part_by_part() {
        let plain = PodShape::default();
        let picky = PodShape {
            node_selector: [("pool".into(), "x".into())].into(),
            images: vec!["i".into()],
            ..PodShape::default()
        };
        let pulls = PodShape { images: vec!["i".into()], ..PodShape::default() };
        assert_eq!((plain.differences(&plain), plain.differences(&picky)), (0, 2));
        assert_eq!([plain.stands_as(&pulls), plain.stands_as(&picky)], [true, false]);
        assert_eq!((picky.differences(&pulls), picky.stands_as(&pulls)), (1, false));
        let racks = SetLevels { required: Some("rack".into()), ..SetLevels::default() };
        let close = PodShape { levels: Some(racks.into()), ..PodShape::default() };
        assert_eq!((plain.differences(&close), plain.stands_as(&close)), (1, false));
    }
}
