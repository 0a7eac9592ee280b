//! Kept scores follow the shares of nodes that have a class's images.
//!
//! Such a share changes with other nodes than the one that is scored. A class remembers with which
//! shares its scores were made: where those are others now, what that makes is added to what is
//! kept, and no rule is asked again. A class whose images nobody has, or that has none, compares
//! one number for each change.

use capstan_topology::NodeIdx;

use super::{Class, Paying};
use crate::model::room::Room;
use crate::score;

/// Shares of nodes that have the images of a class, and what else its scores are measured by.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// As of this revision of all counts.
    revision: u64,
    /// By image; empty: they are nothing.
    pub(super) shares: Vec<u32>,
    /// The most that any node has of what the class prefers of nodes.
    pub(super) wished: u64,
}

impl Class {
    /// Gives nodes the scores that they have since images came to nodes or went, or nodes did.
    pub(super) fn look_at_images(&mut self, room: &Room, shifts: &mut Vec<(usize, i64)>) {
        let revision = room.images.revision();
        if self.images.revision == revision {
            return;
        }
        let wanted = &room.shape(self.key.shape).facts.images;
        let (shares, wished) = (room.images.shares(wanted), self.images.wished);
        let now = Seen { revision, shares, wished };
        let was = std::mem::replace(&mut self.images, now).shares;
        let weight = self.weights.image_locality;
        if was == self.images.shares || weight == 0 {
            return;
        }
        shifts.clear();
        let scored = self.key.scoring.paying != Paying::Cheapest;
        let indexed = scored && self.epoch == room.tree_epoch();
        for (kept, at) in self.verdicts.iter_mut().zip(0..).take(room.slots()) {
            let node = NodeIdx(at);
            let stands = kept.stands(room, node);
            let (true, Some(facts), Some(sum)) = (stands, room.facts(node), kept.score) else {
                continue;
            };
            let worth = |shares: &[u32]| score::worth_of_images(&facts.images, wanted, shares);
            let (had, has) = (worth(&was), worth(&self.images.shares));
            if had == has {
                continue;
            }
            kept.score = Some(sum - weight * had + weight * has);
            let by = i64::from(weight) * (i64::from(has) - i64::from(had));
            let position = room.tree.position(node).filter(|_| indexed);
            shifts.extend(position.map(|position| (position, by)));
        }
        self.index.shift(&room.tree, shifts);
    }

    /// Compares kept scores with those made anew.
    ///
    /// # Panics
    /// When they differ.
    pub(super) fn recount_images(&self, room: &Room) {
        let shares = room.images.shares(&room.shape(self.key.shape).facts.images);
        assert_eq!(self.images.shares, shares, "shares of nodes that have images");
        assert_eq!(self.images.wished, self.most_wished(room), "what nodes have of wishes");
        let seen = (&*shares, self.images.wished);
        for &node in room.tree.order() {
            let kept = self.verdicts.get(node.at()).filter(|kept| kept.stands(room, node));
            let Some(score) = kept.and_then(|kept| kept.score) else { continue };
            let anew = score::fact_terms(&self.question(room, node), &self.weights, seen);
            assert_eq!(score, anew, "the score of node slot {}, as far as facts go", node.at());
        }
    }
}
