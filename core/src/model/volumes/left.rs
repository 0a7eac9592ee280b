//! What volumes that would be made for a pod take of what is left of storage.
//!
//! Drivers that count what they can still make say it for each class, place by place. Where a node
//! reaches several places that would do, the one with most left counts.

use std::collections::BTreeMap;

use super::demand::{Making, Need, Wanted};
use super::{Demand, Volumes};
use crate::model::input::{ClaimKey, NodeFacts, Text, VolumeFacts};

/// What new volumes of one class take on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes that they ask.
    pub asked: i64,
    /// Bytes that are left for them.
    pub left: i64,
}

impl Demand {
    /// What new volumes take on a node, class by class of those that somebody counts; empty, where
    /// it needs none of these. `None`: nobody counts, or the node does not suit the pod.
    pub fn storage_on(&self, node: &NodeFacts, volumes: &Volumes) -> Option<Vec<Storage>> {
        let counted = |wanted: &Wanted| wanted.need.making().is_some_and(Making::counts);
        if !self.claims.iter().chain(&self.to_be_made).any(counted) {
            return None;
        }
        let chosen = self.on(node, volumes).ok()?;
        let is_made = |claim: &ClaimKey| {
            chosen.iter().any(|(of, choice)| of == claim && choice.volume.is_none())
        };
        let own = self.claims.iter().filter(|wanted| is_made(&wanted.claim));
        let later = self.to_be_made.iter().filter(|wanted| takes_none(wanted, node, volumes));
        let mut by_class: BTreeMap<&Text, Storage> = BTreeMap::new();
        let makings = own.chain(later).filter_map(|wanted| wanted.need.making());
        for (class, Storage { asked, left }) in makings.filter_map(|making| making.left_on(node)) {
            let sum = by_class.entry(class).or_default();
            *sum = Storage { asked: sum.asked.saturating_add(asked), left };
        }
        Some(by_class.into_values().collect())
    }
}

/// Whether a claim that is made with its pod finds no volume on a node that is there already.
fn takes_none(wanted: &Wanted, node: &NodeFacts, volumes: &Volumes) -> bool {
    let Need::Open(candidates, _) = &wanted.need else { return false };
    let free = |volume: &VolumeFacts| volumes.is_free(volume, &wanted.claim);
    candidates.first(node, free).is_none()
}
