//! Search of the earliest start of a head: behind whom, and how far its queue borrows then.
//!
//! Problem: behind whom a start is looked for depends on how far the queue borrows for it then,
//! which is known once the start is.
//!
//! Decides: it is looked for where the head stands as things are, borrowing as far as it takes, and
//! then where it stands with what came out. Where nothing comes out it is looked for where it
//! stands if it borrows less than it would now: an owner whose queue is full would borrow, and
//! borrows nothing once work of its queue has ended. It goes before borrowers then, of whom one
//! that says no end would leave it no start at all.
//!
//! Restart: reads facts only. Cost: up to three searches of a dozen plays, and one for each cohort
//! above the queue where the first is in vain.

use std::cmp::Ordering;

use super::timetable::Slot;
use super::{Asks, Starter};
use crate::engine::Engine;
use crate::explain::view::Unreserved;
use crate::model::ids::WorkloadIdx;

/// A start that was searched.
pub(super) struct Found {
    pub slot: Slot,
    /// What it asks of quota.
    pub asks: Asks,
    /// Others stand behind it, who give way.
    pub behind: bool,
}

impl Engine {
    /// The earliest start of somebody who does not delay those that go before it, and whether there
    /// are others, who give way; else what was left out of account. How far it borrows then is
    /// known once the start is, and says in turn behind whom that is looked for.
    pub(super) fn find_start(
        &mut self,
        who: &Starter,
        instead: Option<WorkloadIdx>,
    ) -> Result<Found, Option<Unreserved>> {
        let borrowing = who.borrowing;
        let first = match self.search(who, u32::MAX, instead) {
            Ok(first) => first,
            Err(why) => return self.further_in_front(who, instead).ok_or(why),
        };
        let (then, soonest) = (first.slot.borrowing, first.slot.start);
        // Further behind it is found no sooner, nor further in front where it may not borrow.
        let tried: &[u32] = match then.cmp(&borrowing) {
            Ordering::Equal => return Ok(first),
            Ordering::Less => &[then],
            Ordering::Greater => &[then, borrowing],
        };
        // What was found first was found before some who go before it: that is put right.
        let (mut found, fallback) = match then < borrowing {
            true => (Some(first), None),
            false => (None, Some(Found { behind: true, ..first })),
        };
        for &most in tried {
            let least = found.as_ref().map(|known| known.slot.start);
            if then > borrowing && least == Some(soonest) {
                break;
            }
            let stands = Starter { borrowing: most, ..who.clone() };
            let other = self.search(&stands, most, instead);
            let better = |it: &Found| least.is_none_or(|at| it.slot.start < at);
            found = other.ok().filter(better).or(found);
        }
        Ok(found.or(fallback).expect("one of the two is what was found first"))
    }

    /// The earliest start at which it borrows less than it would now, found where it stands then.
    /// Of those at one time that at which it borrows furthest: it goes behind fewer there.
    fn further_in_front(&mut self, who: &Starter, instead: Option<WorkloadIdx>) -> Option<Found> {
        let mut soonest: Option<Found> = None;
        for most in (0..who.borrowing).rev() {
            let stands = Starter { borrowing: most, ..who.clone() };
            let Ok(found) = self.search(&stands, most, instead) else { continue };
            if soonest.as_ref().is_none_or(|known| found.slot.start < known.slot.start) {
                soonest = Some(found);
            }
        }
        soonest
    }

    /// The earliest start behind those that somebody does not go before, borrowing no further than
    /// `most`, and whether there are others.
    fn search(
        &mut self,
        who: &Starter,
        most: u32,
        instead: Option<WorkloadIdx>,
    ) -> Result<Found, Option<Unreserved>> {
        let (queue, workload) = (who.queue, who.workload);
        let (slots, behind) = self.slots_before(who, instead);
        let concerned = slots.iter().map(|slot| slot.workload).chain([workload]);
        let (ends, left_out) = self.ends_for(concerned);
        let times = self.times(&ends, &slots, queue);
        let within = Starter { most, ..who.clone() };
        let Some((start, terms)) = self.earliest(&ends, &slots, &within, &times) else {
            let looked_at = ends.len() as u32;
            return Err((left_out > 0).then_some(Unreserved::Ends { looked_at, left_out }));
        };
        let slot = Slot { workload, queue, start, borrowing: terms.borrowing };
        let then = Starter { asks: terms.asks.clone(), ..who.clone() };
        // With other flavors than it was refused with it may stand elsewhere: that is put right.
        let behind = behind || self.rank(&then) != self.rank(who);
        Ok(Found { slot, asks: terms.asks, behind })
    }
}
