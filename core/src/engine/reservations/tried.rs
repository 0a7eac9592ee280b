//! Reserved starts while something is tried, on request: a change lets some heads start sooner, and
//! some at all, and others are held for that start from then on.
//!
//! A head that is refused at its turn in what is tried looks for its start as in a round: what it
//! finds takes the place of what is kept until that is put back, and nothing is noted. Cost: a play
//! or two of the timetable for a start that moves to no other time, a dozen or more for others, up
//! to the bound of plays of a step.

use std::collections::BTreeMap;

use super::search::Found;
use super::timetable::Slot;
use super::{Asks, FORECASTS_MAX, Reservation, Starter};
use crate::cycle::Entry;
use crate::engine::Engine;
use crate::model::ids::WorkloadIdx;

/// What is kept, while others stand in its place.
#[derive(Debug)]
pub(in crate::engine) struct KeptStarts {
    kept: Vec<Reservation>,
    asked: BTreeMap<WorkloadIdx, Asks>,
}

impl Engine {
    /// What is kept, to be put back.
    pub(in crate::engine) fn kept_starts(&self) -> KeptStarts {
        let (kept, asked) = (self.reservations.kept.clone(), self.reservations.asked.clone());
        KeptStarts { kept, asked }
    }

    /// Puts back what was kept before something was tried.
    pub(in crate::engine) fn put_back_starts(&mut self, before: KeptStarts) {
        let tried = std::mem::replace(&mut self.reservations.kept, before.kept);
        self.reservations.asked = before.asked;
        for slot in tried.into_iter().map(|kept| kept.slot) {
            if self.reservations.of(slot.workload).is_none() {
                self.reservations.forget_pool(slot.workload);
            }
        }
    }

    /// A head is refused in what is tried, or `held` because it would delay another: whether a
    /// start is kept for it from then on that was not.
    pub(in crate::engine) fn reserve_in_try(&mut self, entry: &Entry, held: bool) -> bool {
        if self.counts.forecasts >= FORECASTS_MAX {
            return false;
        }
        match self.reservations.slot_of(entry.workload) {
            Some(slot) => self.is_sooner_in_try(slot),
            None => self.is_found_in_try(entry, held),
        }
    }

    fn is_sooner_in_try(&mut self, slot: Slot) -> bool {
        let who = Starter { in_turn: true, ..self.starter_at(&slot) };
        let (others, _) = self.slots_before(&who, None);
        let start = slot.start.max(self.state.now);
        let Some((start, borrowing)) = self.sooner(&who, &others, start) else { return false };
        for kept in &mut self.reservations.kept {
            if kept.slot.workload == slot.workload {
                kept.slot = Slot { start, borrowing, ..slot };
            }
        }
        self.sort_reservations();
        true
    }

    fn is_found_in_try(&mut self, entry: &Entry, held: bool) -> bool {
        let most = self.most_reserved().filter(|_| self.may_be_reserved(entry, held));
        let Some(most) = most else { return false };
        let who = Starter { in_turn: true, ..self.starter(entry) };
        let Ok(instead) = self.instead_of_whom(&who, most as usize) else { return false };
        let Ok(Found { slot, asks, .. }) = self.find_start(&who, instead) else { return false };
        if let Some(instead) = instead {
            self.reservations.kept.retain(|kept| kept.slot.workload != instead);
            self.reservations.asked.remove(&instead);
        }
        self.reservations.kept.push(Reservation { slot, looked_at: true });
        self.reservations.asked.insert(entry.workload, asks);
        self.sort_reservations();
        true
    }
}
