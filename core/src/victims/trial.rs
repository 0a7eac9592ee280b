//! Where the members of a preemptor went when all of them fitted last, while victims go back.
//!
//! Problem: where members depend on each other each look for places is a search, which is bounded.
//! Hundreds may have left before all fit, most of them for nothing. Each who goes back asks whether
//! members fit without it, and where a search ends at its bound the answer is no: hundreds leave
//! for good whom nobody needs. A search that finds nothing costs most.
//!
//! So the places that were found are kept. As long as each of them takes its member, one after the
//! other, all fit, and nobody searches. Only who stands where one of them goes asks for a search,
//! and if that finds others, those are kept.
//!
//! In the end whoever places the members searches once more: that it finds places is made sure of,
//! or else victims go back by searches alone.
//!
//! Cost: one look at a node for each member. Nothing survives a search for victims.

use std::collections::BTreeMap;

use super::{Attempt, Search};
use crate::model::ids::PodIdx;
use crate::model::txn::{Checkpoint, Txn};
use crate::place::coupled::Place;
use crate::place::gang;

/// Places that held all members.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// In the order in which that goes.
    places: Vec<(Place, PodIdx)>,
    /// They were the only reason for an answer.
    pub(super) believed: bool,
    /// They are not to be.
    pub(super) doubted: bool,
}

impl Search<'_> {
    /// Whether places of members are kept: where each look for them is a search, and they are all
    /// that matters. Volumes and devices that members choose, and what they cost, are not kept.
    pub(super) fn keeps_places(&self, txn: &Txn<'_>) -> bool {
        let room = &txn.state().room;
        let plain = |pod: &PodIdx| {
            let facts = &room.shape(txn.state().pods[*pod].shape).facts;
            facts.volumes.is_none() && facts.claims.is_empty()
        };
        self.coupled
            && self.payers.is_empty()
            && self.members.iter().filter_map(|ask| ask.pods.first()).all(plain)
    }

    /// Whether nodes hold all members, where they can be paid for: where they went last, or
    /// anywhere.
    pub(super) fn room_found(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        trial: &mut Trial,
    ) -> bool {
        if !self.keeps_places(txn) {
            return self.room_fits(txn, attempt);
        }
        let start = txn.checkpoint();
        if !trial.doubted && !trial.places.is_empty() {
            let fits = gang::put_all(txn, self.members, trial.places.iter().cloned());
            txn.rollback_to(start);
            if fits {
                trial.believed = true;
                return true;
            }
        }
        let fits = self.place_members(txn);
        if fits {
            trial.places = self.places_since(txn, start);
        }
        txn.rollback_to(start);
        fits
    }

    /// Where members were placed since a checkpoint, in that order.
    fn places_since(&self, txn: &Txn<'_>, start: Checkpoint) -> Vec<(Place, PodIdx)> {
        let asks = self.members.iter().enumerate();
        let ask_of: BTreeMap<PodIdx, usize> =
            asks.flat_map(|(at, ask)| ask.pods.iter().map(move |pod| (*pod, at))).collect();
        let placed = txn.placed_since(start);
        placed.map(|(pod, node)| (Place { ask: ask_of[&pod], node, way: None }, pod)).collect()
    }
}
