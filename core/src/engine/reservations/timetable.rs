//! Timetables: who starts when, played on the engine itself.
//!
//! A timetable names waiting workloads, each with the time at which it is to start. It is played on
//! the state as it is (what runs ends when it says, each starts at its time where it then finds
//! quota and nodes, and ends when it says), inside a transaction that is rolled back. Who waits for
//! its victims counts as if they had left and it ran in the places that it claims. Nobody finds at
//! its time what heads of strict queues keep back that are settled before it (`kept_out`), nor what
//! gangs that run lack, and take before any head has its turn (`cycle/lacking.rs`). So whether all
//! come in time is found out with every rule of quota and placement, and nothing is estimated but
//! the ends.
//!
//! Cost: one nomination and one placement for each start, and taking away what ends before the
//! last of them.

use std::sync::Arc;

use crate::cycle::{Lacking, Verdict, place_in};
use crate::engine::Engine;
use crate::engine::reservations::ranks::{Asks, Starter};
use crate::model::claim::Places;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::txn::{SetAside, Txn};
use crate::model::workload::Assignment;
use crate::time::Time;

/// One line of a timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Who starts.
    pub workload: WorkloadIdx,
    /// Its queue.
    pub queue: Option<QueueIdx>,
    /// When.
    pub start: Time,
    /// How far its queue may borrow for it then.
    pub borrowing: u32,
}

/// Where a line of a timetable starts, and with what.
#[derive(Debug)]
pub(crate) struct Started {
    /// Where its members go.
    pub places: Places,
    /// What it holds quota with.
    pub assignment: Arc<Assignment>,
    /// How far its queue borrows.
    pub borrowing: u32,
    /// What it asks of quota.
    pub asks: Asks,
}

/// On what terms somebody starts at some time.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// How far its queue borrows.
    pub borrowing: u32,
    /// What it asks of quota.
    pub asks: Asks,
}

impl Engine {
    /// Plays a timetable, given in order of starts: where each goes, or the first that finds no
    /// place at its time, or would borrow further for it than it may.
    pub(crate) fn play(
        &mut self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
    ) -> Result<Vec<Started>, usize> {
        self.play_with(ends, slots, None)
    }

    /// The same with a start of somebody among them that is not reserved, or not yet.
    fn play_with(
        &mut self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
        who: Option<&Starter>,
    ) -> Result<Vec<Started>, usize> {
        let kept = self.kept_for_starts(slots, who);
        // What others keep back in this round is nothing that lasts.
        let held = self.state.let_go();
        let mut aside = Txn::begin(&mut self.state).set_aside();
        let mut lacking = self.lacking(slots.iter().map(|slot| (slot.queue, slot.workload)));
        let mut ends = ends.to_vec();
        if !lacking.is_empty() {
            // The round to come completes them with what is free already.
            let whole;
            (aside, whole) = self.complete_first(aside, &mut lacking, self.state.now);
            will_end_whole(&mut ends, 0, whole);
        }
        let (mut at, mut found, mut late) = (0, Vec::with_capacity(slots.len()), None);
        for (slot, number) in slots.iter().zip(0..) {
            aside = self.end_until(aside, (&mut ends, &mut at), &mut lacking, slot.start);
            let kept = kept.get(number).into_iter().flatten();
            kept.for_each(|kept| self.state.hold_anew(*kept));
            let started;
            (aside, started) = self.start_in(aside, slot.queue, slot.workload);
            self.state.let_go();
            let Some(started) = started.filter(|it| it.borrowing <= slot.borrowing) else {
                late = Some(number);
                break;
            };
            found.push(started);
            if let Some(runs) = self.run_time(slot.workload) {
                will_end(&mut ends, at, (slot.start.plus(runs), slot.workload));
            }
        }
        drop(Txn::take_up(&mut self.state, aside));
        self.state.hold_again(held);
        late.map_or(Ok(found), Err)
    }

    /// Plays what ends until a time, in a transaction that is set aside; gangs take what they lack
    /// as soon as something has ended.
    fn end_until(
        &mut self,
        mut aside: SetAside,
        (ends, at): (&mut Vec<(Time, WorkloadIdx)>, &mut usize),
        lacking: &mut Lacking,
        time: Time,
    ) -> SetAside {
        while let Some((first, _)) = ends.get(*at).copied().filter(|(end, _)| *end <= time) {
            let until = if lacking.is_empty() { time } else { first };
            let mut txn = Txn::take_up(&mut self.state, aside);
            while let Some((_, ended)) = ends.get(*at).filter(|(end, _)| *end <= until) {
                txn.end_workload(*ended);
                *at += 1;
            }
            aside = txn.set_aside();
            if !lacking.is_empty() {
                let whole;
                (aside, whole) = self.complete_first(aside, lacking, first);
                will_end_whole(ends, *at, whole);
            }
        }
        aside
    }

    /// Starts a workload in a transaction that is set aside; `None`: it does not fit freely, and
    /// some of it may be placed.
    pub(super) fn start_in(
        &mut self,
        aside: SetAside,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> (SetAside, Option<Started>) {
        let entry = self.nominate_afresh(workload);
        if entry.verdict != Verdict::Fit {
            return (aside, None);
        }
        let assignment = self.assignment_for(&entry, self.state.now);
        let Ok(topology) = self.topology_ask(queue, workload) else { return (aside, None) };
        let profile = self.profile(queue);
        let mut txn = Txn::take_up(&mut self.state, aside);
        let places = place_in(&mut txn, &entry, assignment.clone(), profile, topology).ok();
        let (aside, borrowing) = (txn.set_aside(), entry.choice.borrowing);
        let asks = self.asks_of(&entry);
        (aside, places.map(|places| Started { places, assignment, borrowing, asks }))
    }

    /// The first of some times, given in order, at which a workload fits into a timetable without
    /// making anybody in it late, its queue borrowing no further than it may, and on what terms.
    /// `None`: at none of them.
    ///
    /// Later times are taken to be no worse than earlier ones. Where that is not so the time found
    /// still holds, and an earlier one may have been missed.
    pub(super) fn earliest(
        &mut self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
        who: &Starter,
        times: &[Time],
    ) -> Option<(Time, Terms)> {
        // The search reaches out from the front: it costs what has to end, not what could.
        let (mut low, mut reach) = (0, 1);
        let (mut high, mut terms) = loop {
            let at = (low + reach - 1).min(times.len().checked_sub(1)?);
            if let Some(terms) = self.fits_at(ends, slots, who, times[at]) {
                break (at, terms);
            }
            low = at + 1;
            if low >= times.len() {
                return None;
            }
            reach *= 2;
        };
        while low < high {
            let middle = low + (high - low) / 2;
            match self.fits_at(ends, slots, who, times[middle]) {
                Some(then) => (high, terms) = (middle, then),
                None => low = middle + 1,
            }
        }
        Some((times[high], terms))
    }

    /// On what terms a workload starts at a time, and everybody in a timetable at theirs. `None`:
    /// not all of them can, or its queue would borrow further than it may.
    pub(super) fn fits_at(
        &mut self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
        who: &Starter,
        start: Time,
    ) -> Option<Terms> {
        let &Starter { queue, workload, most, .. } = who;
        if self.budget_is_out_by(queue, start) {
            return None;
        }
        let mut slots = slots.to_vec();
        self.put_in(&mut slots, Slot { workload, queue, start, borrowing: most });
        self.counts.forecasts += 1;
        let mut started = self.play_with(ends, &slots, Some(who)).ok()?;
        let own = slots.iter().position(|slot| slot.workload == workload)?;
        let Started { borrowing, asks, .. } = started.swap_remove(own);
        Some(Terms { borrowing, asks })
    }

    /// Puts a line into a timetable where it is played once it is kept: of those that start at one
    /// time whoever was to start first, then by uid. In another order they might not all fit.
    pub(crate) fn put_in(&self, slots: &mut Vec<Slot>, slot: Slot) {
        let now = self.state.now;
        let key = |slot: &Slot| {
            let kept = self.reservations.of(slot.workload);
            let kept = kept.filter(|kept| (*kept).max(now) == slot.start).unwrap_or(slot.start);
            (slot.start, kept, &self.state.workloads[slot.workload].uid)
        };
        let at = slots.partition_point(|other| key(other) < key(&slot));
        slots.insert(at, slot);
    }

    /// Whether the budget of a queue, by what runs now and when that ends, will be spent at a time.
    pub(in crate::engine) fn budget_is_out_by(&self, queue: Option<QueueIdx>, time: Time) -> bool {
        self.spending_ahead(queue).is_some_and(|ahead| ahead.is_over_at(time))
    }

    /// Times at which something ends, in order: what runs, and what a timetable starts. Left out
    /// are those at which the budget of a queue will be spent: a search that reaches out takes what
    /// comes before them for as bad.
    pub(super) fn times(
        &self,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
        queue: Option<QueueIdx>,
    ) -> Vec<Time> {
        let of_slot = |slot: &Slot| Some(slot.start.plus(self.run_time(slot.workload)?));
        let whole = self.ends_once_whole(ends);
        let ends = ends.iter().map(|(end, _)| *end);
        let slots = slots.iter().filter_map(of_slot);
        let mut times: Vec<Time> = ends.chain(slots).chain(whole).collect();
        times.sort_unstable();
        times.dedup();
        if let Some(ahead) = self.spending_ahead(queue) {
            times.retain(|time| !ahead.is_over_at(*time));
        }
        times
    }
}

/// One more end among those of which the first so many have passed.
pub(super) fn will_end(
    ends: &mut Vec<(Time, WorkloadIdx)>,
    passed: usize,
    (end, workload): (Time, WorkloadIdx),
) {
    let place = passed + ends[passed..].partition_point(|(other, _)| *other <= end);
    ends.insert(place, (end, workload));
}

/// The same of gangs that have what they lacked: they end with those who join.
pub(super) fn will_end_whole(
    ends: &mut Vec<(Time, WorkloadIdx)>,
    passed: usize,
    whole: Vec<(Time, WorkloadIdx)>,
) {
    for (end, gang) in whole {
        if let Some(known) = ends[passed..].iter().position(|(_, other)| *other == gang) {
            ends.remove(passed + known);
        }
        will_end(ends, passed, (end, gang));
    }
}
