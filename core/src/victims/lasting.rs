//! Starts that last: work that nobody stops by its share, because others waited for its start.
//!
//! Problem: others are held for a start that is reserved, and by then a share of theirs may be the
//! smaller one. Once it has come each of them might stop it by that (`reclaimWithinCohort`), in the
//! same second, and the next one when it starts anew. They waited for nothing, it never gets
//! anywhere, and everybody would be better off if nothing had been reserved. So it is where those
//! with a smaller share come later, one after the other, if each of its starts is a new promise.
//!
//! Wanted: nobody is held for a start that cannot last, and big work comes to its end. While fair
//! sharing is on a start *lasts* if
//!
//! - others of its tree, in queues that may take back from it, were held for it; or
//! - it came later than was promised first, since then all that borrow are held for it
//!   (`engine/reservations/ranks.rs`); or
//! - a share has stopped the work before, on a start that it had been promised and that did not
//!   last: then that promise is still *owed*, and counts as the first one.
//!
//! Turns: work that is late goes before all that borrow, and if one queue's did so each time, those
//! with long run times would get what shares are to divide, whatever its weight. So after a start
//! that lasts, work of the same queue counts as late only once the others that waited had their
//! part: the length of that run, by their weights over its own (those of queues; how cohorts weigh
//! is left out). Until then its starts last only if others were held for them. Work of a queue
//! without weight, which is to give way to all, is never late, and no start of it lasts.
//!
//! Until the work should have ended, and for as long as ends are believed to be late, nobody stops
//! it by its share, with either strategy. Who says no run time has an hour ([`UNKNOWN`]). Who stays
//! within its own quota of what is short takes that back as ever (`InCohortReclamation`), and in
//! its own queue the policy decides. Any other start is as if nothing were reserved: who started at
//! once, or in time and with nobody held for it, gives way to a smaller share. So where run times
//! are declared and kept a share stops work at most once that was promised a start.
//!
//! What is owed is known by name, because the next run of an owner is other work. Nothing is owed
//! any more once that starts, or the API refused the stop, or no work of that name is left.
//!
//! Restart: forgotten, as the first promises are, and whose turn it is; a share may stop each of
//! them once more. Cost: an entry for each that runs and was promised a start, until it has ended
//! or should have, and one for each queue while it is the turn of others, however early its start
//! ended or was stopped.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
use crate::time::{Span, Time};

/// So long a start lasts where nobody says how long the work runs.
pub const UNKNOWN: Span = Span::minutes(60);

/// Work that runs on a start that it was promised.
#[derive(Debug, Default)]
pub struct Lasting {
    runs: BTreeMap<WorkloadIdx, Run>,
    /// By full name, of work that a share stopped: when it was to start first.
    owed: BTreeMap<Text, Time>,
    /// By name of a ClusterQueue: until when it is the others' turn.
    rests: BTreeMap<Text, Time>,
}

/// One that runs.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// It should have ended by then, and ends are not believed to be later.
    until: Time,
    /// What is owed if a share stops it before; `None`: no share does.
    owes: Option<Time>,
}

/// A start.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// When it is.
    pub at: Time,
    /// When it was to be first, if it was promised.
    pub promised: Option<Time>,
    /// Others were held for it that might take back from it.
    pub waited: bool,
    /// The work should have ended by then, and ends are not believed to be later.
    pub until: Time,
    /// If it lasts others of its tree have their turn until then.
    pub rests: Time,
}

/// When others that waited for a start have had their part, by weights in billionths: theirs in
/// sum, and that of the queue that starts.
pub fn rest_after(at: Time, runs: Span, (others, own): (u128, u64)) -> Time {
    let (runs, own) = (runs.0.max(0).unsigned_abs(), u128::from(own.max(1)));
    let rest = u128::from(runs).saturating_mul(others) / own;
    let whole = rest.saturating_add(runs.into());
    Time(at.0.saturating_add(i64::try_from(whole).unwrap_or(i64::MAX)))
}

impl Lasting {
    /// Work of a name starts, of a queue of a name.
    pub fn begin(&mut self, (workload, name, queue): (WorkloadIdx, &Text, &Text), start: Start) {
        self.runs.remove(&workload);
        self.rests.retain(|_, until| start.at < *until);
        let owed = self.owed.remove(name);
        let first = start.promised.into_iter().chain(owed).min();
        let late = owed.is_some() || first.is_some_and(|first| first < start.at);
        let lasts = start.waited || late && !self.rests(queue, start.at);
        let owes = first.filter(|_| !lasts);
        if lasts {
            self.rests.insert(queue.clone(), start.rests);
        }
        if lasts || owes.is_some() {
            self.runs.insert(workload, Run { until: start.until, owes });
        }
    }

    /// Whether it is the turn of others than a queue.
    pub fn rests(&self, queue: &Text, now: Time) -> bool {
        self.rests.get(queue).is_some_and(|until| now < *until)
    }

    /// Work of a name is stopped, or is about to be, perhaps by a share.
    pub fn stop(&mut self, (workload, name): (WorkloadIdx, &Text), by_share: bool, now: Time) {
        let run = self.runs.remove(&workload).filter(|run| by_share && now < run.until);
        if let Some(promised) = run.and_then(|run| run.owes) {
            self.owed.insert(name.clone(), promised);
        }
    }

    /// Nothing is owed any more to work of a name: it was not stopped after all, or is gone, or
    /// starts while shares decide nothing.
    pub fn owes_no_more(&mut self, name: &Text) {
        self.owed.remove(name);
    }

    /// Work has ended, or is gone.
    pub fn forget(&mut self, workload: WorkloadIdx) {
        self.runs.remove(&workload);
    }

    /// Until when no share stops work; `None`: any may.
    pub fn until(&self, workload: WorkloadIdx, now: Time) -> Option<Time> {
        let run = self.runs.get(&workload)?;
        (run.owes.is_none() && now < run.until).then_some(run.until)
    }

    /// All work that no share stops, each with until when.
    pub fn all(&self, now: Time) -> impl Iterator<Item = (WorkloadIdx, Time)> + '_ {
        self.runs.keys().filter_map(move |it| Some((*it, self.until(*it, now)?)))
    }

    /// When work of a name was to start first that a share has stopped since.
    pub fn owed(&self, name: &Text) -> Option<Time> {
        self.owed.get(name).copied()
    }

    /// Names of work to which a start is owed.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.owed.keys()
    }

    /// Keeps what is owed to work of these names.
    pub fn keep(&mut self, names: &BTreeSet<Text>) {
        self.owed.retain(|name, _| names.contains(name));
    }

    /// Forgets those that should have ended; who of them any share may stop now.
    pub fn expire(&mut self, now: Time) -> Vec<WorkloadIdx> {
        let over = self.runs.extract_if(.., |_, run| run.until <= now);
        over.filter(|(_, run)| run.owes.is_none()).map(|(workload, _)| workload).collect()
    }

    /// When the next may be stopped by a share.
    pub fn due(&self) -> Option<Time> {
        let lasting = self.runs.values().filter(|run| run.owes.is_none());
        lasting.map(|run| run.until).min()
    }

    /// Compares who is known to run with those that there are.
    ///
    /// # Panics
    /// When one is known that is gone.
    pub fn recount(&self, there: impl Fn(WorkloadIdx) -> bool) {
        assert!(self.runs.keys().all(|it| there(*it)), "a start of what is gone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: WorkloadIdx = WorkloadIdx::FIRST;

    /// Starts at a time, promised for another one, and is to end at 100.
    fn begin(lasting: &mut Lasting, at: i64, promised: Option<i64>, waited: bool) {
        let (at, promised) = (Time(at), promised.map(Time));
        let start = Start { at, promised, waited, until: Time(100), rests: Time(200) };
        lasting.begin((WORK, &"team/big".into(), &"q".into()), start);
    }

    #[test]
    fn a_start_lasts_that_was_late_or_that_others_waited_for() {
        let rows = [
            (20, Some(10), false, true),
            (20, Some(20), true, true),
            (20, None, true, true),
            (20, Some(20), false, false),
            (20, Some(30), false, false),
            (20, None, false, false),
        ];
        for (at, promised, waited, lasts) in rows {
            let mut lasting = Lasting::default();
            begin(&mut lasting, at, promised, waited);
            let until = lasts.then_some(Time(100));
            assert_eq!(lasting.until(WORK, Time(at)), until, "{at} {promised:?} {waited}");
            let all = lasting.all(Time(at)).count();
            assert_eq!((lasting.due(), all), (until, usize::from(lasts)));
            assert_eq!(lasting.until(WORK, Time(100)), None, "it should have ended");
            assert!(lasting.expire(Time(99)).is_empty());
            assert_eq!(lasting.expire(Time(100)).len(), usize::from(lasts));
            assert!(lasting.due().is_none() && lasting.runs.is_empty());
        }
    }

    #[test]
    fn a_share_stops_a_start_that_came_in_time_once() {
        let (mut lasting, name) = (Lasting::default(), Text::from("team/big"));
        begin(&mut lasting, 10, Some(10), false);
        lasting.stop((WORK, &name), true, Time(30));
        assert_eq!((lasting.owed(&name), lasting.runs.len()), (Some(Time(10)), 0));
        // It starts in time again.
        begin(&mut lasting, 40, Some(40), false);
        assert_eq!((lasting.owed(&name), lasting.until(WORK, Time(40))), (None, Some(Time(100))));
        // An owner takes back from it all the same.
        lasting.stop((WORK, &name), false, Time(50));
        assert!(lasting.owed(&name).is_none() && lasting.runs.is_empty());
    }

    #[test]
    fn nothing_is_owed_to_who_was_stopped_otherwise_or_should_have_ended() {
        let name = Text::from("team/big");
        for (by_share, now) in [(false, 30), (true, 100)] {
            let mut lasting = Lasting::default();
            begin(&mut lasting, 10, Some(10), false);
            lasting.stop((WORK, &name), by_share, Time(now));
            assert_eq!(lasting.owed(&name), None, "{by_share} {now}");
        }
        let mut lasting = Lasting::default();
        begin(&mut lasting, 10, None, false);
        lasting.stop((WORK, &name), true, Time(30));
        assert_eq!(lasting.owed(&name), None, "it was promised nothing");
    }

    #[test]
    fn after_a_start_that_lasts_it_is_the_turn_of_others() {
        let (mut lasting, queue) = (Lasting::default(), Text::from("q"));
        begin(&mut lasting, 20, Some(10), false);
        assert!(lasting.rests(&queue, Time(199)) && !lasting.rests(&queue, Time(200)));
        assert!(!lasting.rests(&"other".into(), Time(20)));
        // The next is late, and does not last, unless others were held for it.
        begin(&mut lasting, 60, Some(50), false);
        assert_eq!((lasting.until(WORK, Time(60)), lasting.all(Time(60)).count()), (None, 0));
        lasting.stop((WORK, &"team/big".into()), true, Time(70));
        assert_eq!(lasting.owed(&"team/big".into()), Some(Time(50)));
        begin(&mut lasting, 80, Some(80), true);
        assert_eq!(lasting.until(WORK, Time(80)), Some(Time(100)));
        // Each start that does not last leaves the turn as it is.
        let mut lasting = Lasting::default();
        begin(&mut lasting, 20, Some(20), false);
        assert!(!lasting.rests(&queue, Time(21)));
    }

    #[test]
    fn others_have_their_part_by_weight() {
        let hour = Span::minutes(60);
        let one = 1_000_000_000;
        for (others, own, rest) in [(one, one, 60), (3 * one, one, 180), (one, 2 * one, 30)] {
            let until = rest_after(Time(0), hour, (u128::from(others), own));
            assert_eq!(until, Time(0).plus(Span::minutes(60 + rest)), "{others} {own}");
        }
        assert_eq!(rest_after(Time(5), hour, (0, one)), Time(5).plus(hour));
        assert_eq!(rest_after(Time(5), hour, (u128::MAX, 0)), Time(i64::MAX), "no overflow");
    }

    #[test]
    fn what_is_owed_goes_with_the_name() {
        let (mut lasting, name) = (Lasting::default(), Text::from("team/big"));
        for known in [true, false] {
            begin(&mut lasting, 10, Some(10), false);
            lasting.stop((WORK, &name), true, Time(30));
            let names = if known { BTreeSet::from([name.clone()]) } else { BTreeSet::new() };
            lasting.keep(&names);
            assert_eq!(lasting.names().len(), usize::from(known));
            lasting.owes_no_more(&name);
        }
        begin(&mut lasting, 20, Some(10), false);
        lasting.recount(|it| it == WORK);
        lasting.forget(WORK);
        lasting.recount(|_| false);
    }
}
