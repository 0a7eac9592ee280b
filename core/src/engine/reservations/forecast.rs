//! Forecasts, on request: when work that waits will start, and what that takes for granted.
//!
//! A queue is played in order from now on: what runs ends when it says, reserved starts come when
//! they are due, and whoever is next starts as soon as it fits and delays none of them that it
//! would be held for, nobody of its queue before those who stand before it. Work that fits at no
//! time that was tried is passed over, unless the queue is strict. Gangs that run take what they
//! lack before all of these (`cycle/lacking.rs`). What waits in other queues without a reservation
//! is taken to go on waiting.
//!
//! Where a queue is not strict, who fits passes those before it that do not, and starts sooner than
//! that: a forecast after others says so. That is not played: whoever starts sooner delays those
//! before it for whom nothing is reserved, so everybody who waits would have to be tried at every
//! end, where a dozen tries do now.
//!
//! A queue whose budget is spent, or will be, admits again from its next period on, unless that one
//! will be spent by then, too, by what runs now and who starts before in the queue: what says when
//! it ends spends until then. That a start waits for that is part of what it takes for granted.
//!
//! While work that was admitted keeps everything else out until it has started, a start waits for
//! that as well, unless it ends before: nobody knows when that will be, so it is told, not played.
//!
//! Cost: for each workload of the queue a dozen nominations before each of the first
//! [`WINDOWS_MAX`] reserved starts, as often taking away what ends before it, and up to two plays
//! of the reserved starts after it: where those show no time there is no forecast. Nothing if
//! nobody says how long it runs, and no budget is spent. Nothing is kept.

use crate::cycle::Lacking;
use crate::engine::Engine;
use crate::engine::reservations::timetable::{self, Slot, Started};
use crate::engine::reservations::{Asks, Starter};
use crate::engine::spending::Ahead;
use crate::explain::view::{Assumptions, Forecast};
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::{QueueingStrategy, Text};
use crate::model::txn::{Checkpoint, SetAside, Txn};
use crate::model::workload::QueueRef;
use crate::plan::State;
use crate::time::Time;

/// Work that is played before the one that is asked for: further behind, nobody can tell.
const LINE_MAX: usize = 64;

/// Names of what ends last that are told.
const NAMED_MAX: usize = 3;

/// Reserved starts between which times are looked for one by one: after so many, the first with
/// room and the last.
const WINDOWS_MAX: usize = 8;

/// What is made of a try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    /// Only whether there is room and quota.
    Room,
    /// It is kept, if no reserved start comes late for it.
    Keep,
}

/// How far a queue was played.
#[derive(Clone)]
struct Cursor {
    /// All ends, in order, those of what was started among them.
    ends: Vec<(Time, WorkloadIdx)>,
    /// The next of them.
    at: usize,
    /// Reserved starts, in order.
    slots: Vec<Slot>,
    /// The next of them.
    next: usize,
    /// Until when it was played.
    time: Time,
    /// Whose reserved start did not come.
    late: Vec<WorkloadIdx>,
    /// Gangs that take what they lack before.
    lacking: Lacking,
}

impl Cursor {
    fn will_end(&mut self, end: Time, workload: WorkloadIdx) {
        timetable::will_end(&mut self.ends, self.at, (end, workload));
    }
}

impl Engine {
    /// When a waiting workload is to start, and what that takes for granted; `None`: it does not
    /// wait for quota or room, or an end that it waits for is not known, or too many go before it.
    pub fn forecast(&mut self, now: Time, namespace: &str, name: &str) -> Option<Forecast> {
        let key: (Text, Text) = (namespace.into(), name.into());
        let workload = *self.state.workload_by_name.get(&key)?;
        self.state.now = now;
        self.forecast_of(workload)
    }

    /// The same for the first `most` of a ClusterQueue, or of work without a queue, in order:
    /// `namespace/name` of each and its forecast. Costs one pass over them.
    pub fn forecasts(
        &mut self,
        now: Time,
        cluster_queue: Option<&str>,
        most: usize,
    ) -> Vec<(Text, Option<Forecast>)> {
        self.state.now = now;
        let queue = match cluster_queue {
            None => None,
            Some(name) => match self.state.quota.find_queue(name) {
                None => return Vec::new(),
                found => found,
            },
        };
        let line = self.waiting.in_order(queue, most.min(LINE_MAX));
        let found = self.play_line(queue, &line);
        let name = |workload: &WorkloadIdx| self.state.workloads[*workload].full_name.clone();
        line.iter().map(name).zip(found).collect()
    }

    /// The same for each of these workloads, by namespace and name, one at a time: what status
    /// fields say of the first of every queue. Costs a pass for each name.
    pub fn forecasts_of(&mut self, now: Time, names: &[(Text, Text)]) -> Vec<Option<Forecast>> {
        self.state.now = now;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let workload = self.state.workload_by_name.get(name).copied();
            found.push(workload.and_then(|workload| self.forecast_of(workload)));
        }
        found
    }

    pub(in crate::engine) fn forecast_of(&mut self, workload: WorkloadIdx) -> Option<Forecast> {
        let queue = self.played_queue(workload)?;
        let line = self.waiting.in_order(queue, LINE_MAX);
        let own = line.iter().position(|other| *other == workload)?;
        self.play_line(queue, &line[..=own]).pop()?
    }

    /// How many of its queue are played, if that many go before a workload, which therefore has no
    /// forecast.
    pub(in crate::engine) fn beyond_line(&self, workload: WorkloadIdx) -> Option<u32> {
        self.played_queue(workload)?;
        let ahead = self.waiting.ahead(workload)?;
        (ahead >= LINE_MAX).then_some(LINE_MAX as u32)
    }

    /// The queue of a workload that waits, if playing it may tell when that starts.
    fn played_queue(&self, workload: WorkloadIdx) -> Option<Option<QueueIdx>> {
        let entry = &self.state.workloads[workload];
        let queue = match entry.queue {
            QueueRef::Queue(queue) => Some(queue),
            QueueRef::Unqueued => None,
            QueueRef::Broken(_) => return None,
        };
        let waits = entry.state == State::Queued && self.waiting.contains(workload);
        let told = waits && (!self.ends.is_empty() || self.is_spent(queue));
        told.then_some(queue)
    }

    fn play_line(
        &mut self,
        queue: Option<QueueIdx>,
        line: &[WorkloadIdx],
    ) -> Vec<Option<Forecast>> {
        if self.ends.is_empty() && self.reservations.is_empty() && !self.is_spent(queue) {
            return vec![None; line.len()];
        }
        let facts = queue.and_then(|queue| self.state.quota.queue(queue).facts.as_ref());
        let strict = facts.is_some_and(|it| it.strategy == QueueingStrategy::StrictFifo);
        let kept = self.kept_by_owners(queue);
        let held = self.state.hold_instead(kept);
        let now = self.state.now;
        let slots = self.slots_near_any(line);
        let concerned = slots.iter().map(|slot| slot.workload).chain(line.iter().copied());
        let ends = self.ends_for(concerned).0;
        let heads = slots.iter().map(|slot| (slot.queue, slot.workload));
        let lacking = self.lacking(heads.chain(line.iter().map(|workload| (queue, *workload))));
        let late = Vec::new();
        let mut cursor = Cursor { ends, at: 0, slots, next: 0, time: now, late, lacking };
        let mut spending = self.spending_ahead(queue);
        let mut aside = Txn::begin(&mut self.state).set_aside();
        let (mut found, mut ahead) = (Vec::with_capacity(line.len()), 0);
        for &workload in line {
            let start;
            let budget = spending.as_ref();
            (aside, start) = self.next_start(aside, &mut cursor, (queue, workload), budget);
            let anew = budget.and_then(Ahead::begins_anew);
            let told = |start: Time| {
                let period = queue.filter(|_| anew.is_some_and(|anew| start >= anew));
                let budget_of = period.map(|queue| self.state.quota.queue(queue).name.clone());
                self.told(&cursor, workload, start, (budget_of, ahead, !strict))
            };
            found.push(start.map(told));
            if start.is_none() && strict {
                break;
            }
            if let Some((start, queue)) = start.zip(queue) {
                let rate = self.not_counted_yet(queue, workload);
                let end = self.run_time(workload).map(|runs| start.plus(runs));
                spending = spending.map(|before| before.with(rate, start, end));
            }
            ahead += u32::from(start.is_some());
        }
        drop(Txn::take_up(&mut self.state, aside));
        self.state.hold_again(held);
        found.resize(line.len(), None);
        if cfg!(debug_assertions) && self.state.small() {
            self.state.recount();
        }
        found
    }

    /// When the next of a queue starts, by what it will have spent of its budget; it is started
    /// then.
    fn next_start(
        &mut self,
        aside: SetAside,
        cursor: &mut Cursor,
        (queue, workload): (Option<QueueIdx>, WorkloadIdx),
        budget: Option<&Ahead>,
    ) -> (SetAside, Option<Time>) {
        if let Some(start) = self.reservations.of(workload) {
            let start = start.max(self.state.now);
            let until = start.max(cursor.time);
            return (self.advance(aside, cursor, until), Some(start));
        }
        let of_slot = |slot: &Slot| Some(slot.start.plus(self.run_time(slot.workload)?));
        let slots = cursor.slots[cursor.next..].iter().filter_map(of_slot);
        let whole = self.ends_once_whole(&cursor.ends[cursor.at..]);
        let ends = cursor.ends[cursor.at..].iter().map(|(end, _)| *end);
        // From then on the budget is another.
        let period = budget.and_then(Ahead::begins_anew).filter(|end| *end > cursor.time);
        let now = [cursor.time];
        let mut times: Vec<Time> =
            ends.chain(slots).chain(whole).chain(now).chain(period).collect();
        times.sort_unstable();
        times.dedup();
        times.retain(|time| !budget.is_some_and(|budget| budget.is_over_at(*time)));
        // Between two reserved starts more and more is free; each of them takes some of it.
        let mut bounds: Vec<Time> = cursor.slots[cursor.next..].iter().map(|it| it.start).collect();
        bounds.dedup();
        bounds.truncate(WINDOWS_MAX);
        let ends = bounds.iter().map(|bound| times.partition_point(|time| time < bound));
        let ends: Vec<usize> = ends.chain([times.len()]).collect();
        let (mut aside, mut from) = (aside, 0);
        for end in ends {
            let window = &times[from..end];
            from = end;
            let first;
            (aside, first) = self.first_with_room(aside, cursor, (queue, workload), window);
            // Later it ends later; but what ends meanwhile may leave it other nodes.
            let tried = first.into_iter().chain(window.last().copied().filter(|_| first.is_some()));
            for time in tried {
                let fits;
                (aside, fits) = self.try_at(aside, cursor, (queue, workload), time, Try::Keep);
                if fits {
                    return (aside, Some(time));
                }
            }
        }
        (aside, None)
    }

    /// The first of some times at which there is room and quota for a workload.
    fn first_with_room(
        &mut self,
        mut aside: SetAside,
        cursor: &mut Cursor,
        who: (Option<QueueIdx>, WorkloadIdx),
        times: &[Time],
    ) -> (SetAside, Option<Time>) {
        // Reaching out from the front, then in between.
        let (mut low, mut high, mut reach) = (0, times.len(), 1);
        while low < high {
            let gallops = high == times.len();
            let step = if gallops { reach - 1 } else { (high - low) / 2 };
            let tried = (low + step).min(times.len() - 1);
            let fits;
            (aside, fits) = self.try_at(aside, cursor, who, times[tried], Try::Room);
            match fits {
                true => high = tried,
                false => low = tried + 1,
            }
            reach *= 2;
        }
        (aside, times.get(high).copied())
    }

    /// Whether a workload fits at a time; with [`Try::Keep`] whether it delays no reserved start
    /// either: then it is kept.
    fn try_at(
        &mut self,
        aside: SetAside,
        cursor: &mut Cursor,
        (queue, workload): (Option<QueueIdx>, WorkloadIdx),
        time: Time,
        how: Try,
    ) -> (SetAside, bool) {
        let spent = queue.filter(|_| self.is_spent(queue));
        let (aside, before) = self.checkpoint(aside);
        let mut later = cursor.clone();
        let aside = self.advance(aside, &mut later, time);
        let lifted = spent.map(|queue| self.state.spending.lift(Some(queue)));
        let (mut aside, started) = self.start_in(aside, queue, workload);
        if let Some(lifted) = lifted {
            self.state.spending.lift(lifted);
        }
        let (Some(started), Try::Keep) = (&started, how) else {
            return (self.back_to(aside, before), started.is_some());
        };
        if let Some(runs) = self.run_time(workload) {
            later.will_end(time.plus(runs), workload);
        }
        // It has started in this play: what it asks counts.
        let who = Starter::of(queue, workload, started.borrowing, Asks::default());
        let in_time;
        (aside, in_time) = self.delays_nobody(aside, &later, &who, time);
        if !in_time {
            return (self.back_to(aside, before), false);
        }
        *cursor = later;
        (aside, true)
    }

    /// Whether the budget of a queue is spent, and nothing begins there.
    fn is_spent(&self, queue: Option<QueueIdx>) -> bool {
        queue.is_some_and(|queue| self.state.spending.stops(queue))
    }

    /// Whether reserved starts come in time for which a workload would be held, if it starts.
    fn delays_nobody(
        &mut self,
        aside: SetAside,
        cursor: &Cursor,
        who: &Starter,
        time: Time,
    ) -> (SetAside, bool) {
        let end = self.run_time(who.workload).map(|runs| time.plus(runs));
        let mut slots = self.may_not_delay(who, &cursor.slots[cursor.next..]);
        slots.retain(|slot| end.is_none_or(|end| end > slot.start));
        let Some(last) = slots.last() else { return (aside, true) };
        let mut then = Cursor { late: Vec::new(), ..cursor.clone() };
        let (aside, before) = self.checkpoint(aside);
        let aside = self.advance(aside, &mut then, last.start);
        let late = slots.iter().any(|slot| then.late.contains(&slot.workload));
        (self.back_to(aside, before), !late)
    }

    /// Plays what ends and starts until a time.
    fn advance(&mut self, mut aside: SetAside, cursor: &mut Cursor, to: Time) -> SetAside {
        loop {
            let end = cursor.ends.get(cursor.at).filter(|(end, _)| *end <= to).copied();
            let slot = cursor.slots.get(cursor.next).filter(|slot| slot.start <= to).copied();
            match (end, slot) {
                (Some((end, ended)), slot) if slot.is_none_or(|slot| end <= slot.start) => {
                    let mut txn = Txn::take_up(&mut self.state, aside);
                    txn.end_workload(ended);
                    aside = txn.set_aside();
                    cursor.at += 1;
                    let next = cursor.ends.get(cursor.at);
                    if !cursor.lacking.is_empty() && next.is_none_or(|(next, _)| *next > end) {
                        let whole;
                        (aside, whole) = self.complete_first(aside, &mut cursor.lacking, end);
                        timetable::will_end_whole(&mut cursor.ends, cursor.at, whole);
                    }
                }
                (_, Some(slot)) => {
                    let (before, started): (Checkpoint, Option<Started>);
                    (aside, before) = self.checkpoint(aside);
                    (aside, started) = self.start_reserved(aside, slot);
                    let started = started.filter(|it| it.borrowing <= slot.borrowing);
                    cursor.next += 1;
                    match (started, self.run_time(slot.workload)) {
                        (None, _) => {
                            cursor.late.push(slot.workload);
                            aside = self.back_to(aside, before);
                        }
                        (Some(_), Some(runs)) => {
                            cursor.will_end(slot.start.plus(runs), slot.workload);
                        }
                        (Some(_), None) => {}
                    }
                }
                _ => break,
            }
        }
        cursor.time = cursor.time.max(to);
        aside
    }

    /// Starts whose start is reserved, beside what heads of strict queues keep from it.
    fn start_reserved(&mut self, aside: SetAside, slot: Slot) -> (SetAside, Option<Started>) {
        let kept = self.kept_for_starts(&[slot], None);
        let held = self.state.let_go();
        kept.into_iter().flatten().for_each(|kept| self.state.hold_anew(kept));
        let (aside, started) = self.start_in(aside, slot.queue, slot.workload);
        self.state.hold_again(held);
        (aside, started)
    }

    fn checkpoint(&mut self, aside: SetAside) -> (SetAside, Checkpoint) {
        let txn = Txn::take_up(&mut self.state, aside);
        let here = txn.checkpoint();
        (txn.set_aside(), here)
    }

    fn back_to(&mut self, aside: SetAside, before: Checkpoint) -> SetAside {
        let mut txn = Txn::take_up(&mut self.state, aside);
        txn.rollback_to(before);
        txn.set_aside()
    }

    fn told(
        &self,
        cursor: &Cursor,
        workload: WorkloadIdx,
        start: Time,
        (budget_of, ahead, passes): (Option<Text>, u32, bool),
    ) -> Forecast {
        let ends = |of: &WorkloadIdx| {
            // Who is being stopped ends anyway.
            *of != workload && self.state.workloads[*of].state != State::Evicting
        };
        let by_then = cursor.ends.iter().filter(|(end, of)| *end <= start && ends(of));
        let by_then: Vec<(Time, WorkloadIdx)> = by_then.copied().collect();
        let latest = by_then.last().map(|(end, _)| *end);
        let last = by_then.iter().filter(|(end, _)| Some(*end) == latest);
        let name = |(_, of): &(Time, WorkloadIdx)| self.state.workloads[*of].full_name.clone();
        let mut last: Vec<Text> = last.map(name).collect();
        last.sort_unstable();
        last.truncate(NAMED_MAX);
        let learned = by_then.iter().any(|(_, of)| self.is_learned(*of));
        let ends = by_then.len() as u32;
        // Who ends before holds nothing then, and is waited for no more.
        let after = self.names_of_unready(workload);
        Forecast {
            start,
            reserved: self.reservations.of(workload).is_some(),
            assumes: Assumptions { ends, last, learned, after, budget_of, ahead, passes },
        }
    }
}
