//! VolumeZone: a volume that is labelled with zone or region is used there only.
//!
//! Volumes of today say so in their node affinity, which VolumeBinding reads; these labels are
//! older. A node with none of them is in no zone, and takes all.

use super::Question;
use crate::explain::reason::{NodeRefusal, StorageRefusal};
use crate::model::input::{Labels, NodeFacts};
use crate::model::volumes::Need;

/// Labels of zones and regions, each older one with the one that stands for it on newer nodes.
const LABELS: [(&str, Option<&str>); 4] = [
    ("failure-domain.beta.kubernetes.io/region", Some("topology.kubernetes.io/region")),
    ("failure-domain.beta.kubernetes.io/zone", Some("topology.kubernetes.io/zone")),
    ("topology.kubernetes.io/region", None),
    ("topology.kubernetes.io/zone", None),
];

/// What separates the zones of a volume that is in several.
const SEPARATOR: &str = "__";

/// Refuses a node that is in none of the zones of some volume.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let Some(demand) = question.volumes else { return };
    let node = question.facts();
    if !LABELS.iter().any(|(label, _)| node.labels.contains_key(*label)) {
        return;
    }
    for wanted in demand.claims.iter().filter(|wanted| !wanted.ephemeral) {
        if let Need::Bound(volume) = &wanted.need
            && !in_zone(node, &volume.labels)
        {
            let refusal = StorageRefusal::VolumeZone { volume: volume.name.clone() };
            refusals.push(NodeRefusal::Storage(refusal));
            return;
        }
    }
}

/// Whether a node is in one of the zones that a volume is labelled with.
fn in_zone(node: &NodeFacts, volume: &Labels) -> bool {
    LABELS.iter().all(|(label, newer)| {
        let Some(zones) = volume.get(*label) else { return true };
        if zones.split(SEPARATOR).any(|zone| zone.trim().is_empty()) {
            return true;
        }
        let of_node = node.labels.get(*label);
        let of_node = of_node.or_else(|| newer.and_then(|newer| node.labels.get(newer)));
        of_node.is_some_and(|zone| zones.split(SEPARATOR).any(|one| one.trim() == &**zone))
    })
}
