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
//! A start at which it borrows further than who stands where it was looked for is none: it would be
//! taken from those that go before it. Work that is refused for what its first flavor can never
//! give, or for nodes of that, borrows nothing there, and borrows another one where it will start.
//! Where nothing comes out where it stands then either, it is looked for where it stands if it
//! borrows further still, or less far; else it has none.
//!
//! Restart: reads facts only. Cost: up to three searches of a dozen plays, and one for each cohort
//! above the queue where those are in vain, up to the bound of plays of a step.

use std::cmp::Ordering;

use super::timetable::Slot;
use super::{Asks, FORECASTS_MAX, Starter};
use crate::engine::Engine;
use crate::explain::view::Unreserved;
use crate::model::ids::{QueueIdx, WorkloadIdx};

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
        let mut levels = self.levels(who.queue);
        let first = match self.search(who, u32::MAX, instead) {
            Ok(first) => first,
            Err(why) => {
                levels.retain(|most| *most < borrowing);
                return self.soonest_at(&levels, who, instead, why);
            }
        };
        let (then, soonest) = (first.slot.borrowing, first.slot.start);
        // Further behind it is found no sooner, nor further in front where it may not borrow.
        let tried: &[u32] = match then.cmp(&borrowing) {
            Ordering::Equal => return Ok(first),
            Ordering::Less => &[then],
            Ordering::Greater => &[then, borrowing],
        };
        // Where it borrows further it was found before some who go before it: that is no start.
        let (mut found, mut why) = ((then < borrowing).then_some(first), None);
        for &most in tried {
            let least = found.as_ref().map(|known| known.slot.start);
            if then > borrowing && least == Some(soonest) {
                break;
            }
            match self.search_at(most, who, instead) {
                Ok(other) if least.is_none_or(|at| other.slot.start < at) => found = Some(other),
                Ok(_) => {}
                Err(left_out) => why = why.or(left_out),
            }
        }
        if let Some(found) = found {
            return Ok(found);
        }
        levels.retain(|most| !tried.contains(most));
        self.soonest_at(&levels, who, instead, why)
    }

    /// How far a queue can borrow, furthest first: up to one of its cohorts, or not at all.
    fn levels(&self, queue: Option<QueueIdx>) -> Vec<u32> {
        let quota = &self.state.quota;
        let node = queue.and_then(|queue| quota.queue(queue).node);
        let up = std::iter::successors(node, |node| quota.tree.parent(*node));
        let mut levels: Vec<u32> = up.map(|node| quota.tree.height(node)).collect();
        levels.reverse();
        levels
    }

    /// The earliest start at which it borrows as far as one of these, furthest first, found where
    /// it stands then; else why there is none. Of those at one time that at which it borrows
    /// furthest: it goes before fewer there.
    fn soonest_at(
        &mut self,
        levels: &[u32],
        who: &Starter,
        instead: Option<WorkloadIdx>,
        mut why: Option<Unreserved>,
    ) -> Result<Found, Option<Unreserved>> {
        let mut soonest: Option<Found> = None;
        for &most in levels {
            if self.counts.forecasts >= FORECASTS_MAX {
                why = Some(Unreserved::Plays { most: FORECASTS_MAX as u32 });
                break;
            }
            let Ok(found) = self.search_at(most, who, instead) else { continue };
            if soonest.as_ref().is_none_or(|known| found.slot.start < known.slot.start) {
                soonest = Some(found);
            }
        }
        soonest.ok_or(why)
    }

    /// The earliest start where it stands if it borrows so far, and no further.
    fn search_at(
        &mut self,
        most: u32,
        who: &Starter,
        instead: Option<WorkloadIdx>,
    ) -> Result<Found, Option<Unreserved>> {
        let stands = Starter { borrowing: most, ..who.clone() };
        self.search(&stands, most, instead)
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
