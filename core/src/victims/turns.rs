//! Work that was stopped again and again, which stops others only within its queue's own quota.
//!
//! Problem: every victim has its reason, and yet steps can go round. With classical preemption work
//! of high priority stops, while it borrows, another queue's work; a third takes back from it what
//! its own queue owns, whatever the priorities; and the one stopped first stops that one, of its
//! own queue, and borrows again. By shares a small Job takes a share that a large one of its own
//! queue gives up, the large one takes the small one's place, and the one that was stopped first
//! comes back. Kueue knows such rounds too (spec/quota.md 18.7 and 18.10).
//!
//! Wanted: rounds end, and who has its right by quota keeps it. Work that was stopped
//! [`TURNS_MAX`] times *rests*: it stops nobody to borrow, of its own queue or of others, and
//! starts where something comes free. What is taken within the own quota is taken back by nobody
//! who borrows, and in the own queue only by higher priority or age, so that such steps come to an
//! end.
//!
//! A rest is over once both are true: an hour has passed since the last stop, and something really
//! changed since, so that another outcome is possible (work came, ended or was deleted, or got
//! another priority or queue; queues, nodes or configuration were edited). Where nothing changes
//! nobody's rest ends: each stops others to borrow until it was stopped twice, and then all is
//! quiet, for good. Where changes never cease a round may begin anew after a rest; then each rest
//! is twice as long as the one before, up to [`REST_MAX`]. A stop while work rests is no turn of
//! its own and makes the rest no longer. Who was not stopped for as long again as its rest was, and
//! whoever ended or was deleted, is forgotten.
//!
//! What our own stops lead to is no change: work that is on its way out and goes, and its next
//! run, which bears a name that is remembered. Bare pods that a controller makes anew under other
//! names are new work.
//!
//! Restart: forgotten, as backoff is; a round may go round as often again. Cost: one entry for
//! each victim until it is forgotten, found by name, looked at in order of time; of those whose
//! hour is over while nothing changed, a set that the first change empties.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::input::Text;
use crate::time::{Span, Time};

/// Stops after which work stops nobody to borrow: it came back once, and once more.
const TURNS_MAX: u32 = 2;

/// A first rest lasts so long after the last stop; so long a single stop is remembered.
const REST: Span = Span::minutes(60);

/// No rest is longer, if something changes.
const REST_MAX: Span = Span::minutes(30 * 24 * 60);

/// How often work was stopped for others of late, by full name.
#[derive(Debug, Default)]
pub struct Turns {
    stops: BTreeMap<Text, Stops>,
    /// When each is forgotten, or looked at again where nothing changed by then.
    ends: BTreeSet<(Time, Text)>,
    /// Of these, those that may not stop others to borrow until then at least.
    rests: BTreeSet<(Time, Text)>,
    /// Of these, those whose time is over: they wait for a change.
    still: BTreeSet<Text>,
    /// Real changes so far.
    changes: u64,
}

/// Stops of one workload.
#[derive(Clone, Copy, Debug)]
struct Stops {
    times: u32,
    last: Time,
    /// How long it rests since the last, at least.
    rest: Span,
    /// Changes before the last.
    seen: u64,
    /// When to forget it, if something changed.
    end: Time,
}

impl Stops {
    /// When its rest is over, if something changed by then.
    fn rested(&self) -> Time {
        self.last.plus(self.rest)
    }

    fn rests(&self, now: Time, changes: u64) -> bool {
        self.times >= TURNS_MAX && (self.rested() > now || self.seen == changes)
    }

    fn is_over(&self, now: Time, changes: u64) -> bool {
        self.end <= now && self.seen < changes
    }
}

/// A rest: until when it lasts at least, and how many changes came before it.
pub type Rest = (Time, u64);

impl Turns {
    /// Something changed that may end what went round: work came or ended, queues or nodes were
    /// edited.
    pub fn change(&mut self) {
        self.changes += 1;
    }

    /// Work ended, or was deleted without us: nobody's stops are remembered for it.
    pub fn ended(&mut self, name: &Text) {
        self.drop_times(name);
        self.stops.remove(name);
        self.change();
    }

    /// Work that was not there before: a change, unless it is the next run of what was stopped.
    pub fn arrived(&mut self, name: &Text) {
        if !self.stops.contains_key(name) {
            self.change();
        }
    }

    /// Work is stopped for another.
    pub fn note(&mut self, name: &Text, now: Time) {
        let changes = self.changes;
        self.drop_times(name);
        let known = self.stops.get(name).filter(|stops| !stops.is_over(now, changes));
        let (before, rest) = match known {
            None => (0, REST),
            Some(one) if one.times < TURNS_MAX || one.rests(now, changes) => (one.times, one.rest),
            Some(one) => (one.times, Span(one.rest.0.saturating_mul(2)).min(REST_MAX)),
        };
        let times = before.saturating_add(1);
        let rested = now.plus(rest);
        let end = if times >= TURNS_MAX { rested.plus(rest) } else { rested };
        self.stops.insert(name.clone(), Stops { times, last: now, rest, seen: changes, end });
        self.ends.insert((end, name.clone()));
        if times >= TURNS_MAX {
            self.rests.insert((rested, name.clone()));
        }
    }

    /// Takes a workload out of what is kept in order of time.
    fn drop_times(&mut self, name: &Text) {
        let Some(stops) = self.stops.get(name) else { return };
        self.ends.remove(&(stops.end, name.clone()));
        self.rests.remove(&(stops.rested(), name.clone()));
        self.still.remove(name);
    }

    /// How often work was stopped, if that is too often to stop others and borrow.
    pub fn spent(&self, name: &Text, now: Time) -> Option<u32> {
        let stops = self.stops.get(name)?;
        stops.rests(now, self.changes).then_some(stops.times)
    }

    /// The rest of work that was stopped too often.
    pub fn rests(&self, name: &Text, now: Time) -> Option<Rest> {
        self.spent(name, now)?;
        self.stops.get(name).map(|stops| (stops.rested(), stops.seen))
    }

    /// Forgets what was long ago, if something changed since; whether anybody's rest is over.
    pub fn forget(&mut self, now: Time) -> bool {
        while let Some((_, name)) = self.rests.first().filter(|(end, _)| *end <= now).cloned() {
            self.rests.pop_first();
            self.still.insert(name);
        }
        let (stops, changes) = (&self.stops, self.changes);
        let waiting = self.still.len();
        self.still.retain(|name| stops.get(name).is_some_and(|one| one.rests(now, changes)));
        let over = self.still.len() < waiting;
        while let Some((_, name)) = self.ends.first().filter(|(end, _)| *end <= now).cloned() {
            self.ends.pop_first();
            let stops = self.stops.get_mut(&name).expect("its end is filed with it");
            if stops.is_over(now, changes) {
                self.stops.remove(&name);
            } else {
                stops.end = now.plus(REST);
                self.ends.insert((stops.end, name));
            }
        }
        over
    }

    /// When somebody may stop others again, if something changes by then.
    pub fn due(&self) -> Option<Time> {
        let changed = |name: &Text| self.stops.get(name).filter(|one| one.seen < self.changes);
        let over = self.still.iter().filter_map(changed).map(Stops::rested);
        over.chain(self.rests.first().map(|(end, _)| *end)).min()
    }

    /// Compares what is known by time with what is known by name.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self) {
        let ends = self.stops.iter().map(|(name, one)| (one.end, name.clone()));
        assert_eq!(self.ends, ends.collect(), "turns by time");
        let spent = |(end, name): &(Time, Text)| {
            self.stops.get(name).is_some_and(|one| one.times >= TURNS_MAX && one.rested() == *end)
        };
        assert!(self.rests.iter().all(spent), "rests by time");
        let waits = |name: &Text| {
            let of = self.stops.get(name).filter(|one| one.times >= TURNS_MAX);
            of.is_some_and(|one| !self.rests.contains(&(one.rested(), name.clone())))
        };
        assert!(self.still.iter().all(waits), "rests whose time is over");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60;

    fn at(minutes: i64) -> Time {
        Time(minutes * 60_000)
    }

    #[test]
    fn turns_are_spent_and_come_back_after_a_rest_and_a_change() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turns.note(&name, at(0));
        assert_eq!(turns.spent(&name, at(1)), None);
        assert!(turns.due().is_none() && !turns.forget(at(10)), "one stop tires nobody");
        turns.note(&name, at(30));
        assert_eq!(turns.spent(&name, at(31)), Some(2));
        assert_eq!(turns.spent(&"team/other".into(), at(31)), None);
        assert_eq!(turns.rests(&name, at(31)), Some((at(90), 0)));
        assert_eq!(turns.due(), Some(at(90)));
        turns.change();
        assert!(!turns.forget(at(89)) && turns.spent(&name, at(89)).is_some());
        assert!(turns.forget(at(90)) && turns.spent(&name, at(90)).is_none());
        assert!(!turns.forget(at(91)) && turns.due().is_none());
        turns.recount();
    }

    #[test]
    fn where_nothing_changes_no_rest_ends_and_nothing_is_forgotten() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turns.note(&name, at(0));
        assert!(!turns.forget(at(50 * HOUR)));
        turns.note(&name, at(50 * HOUR));
        let late = at(5_000 * HOUR);
        assert!(!turns.forget(late), "its hour is over, and nothing changed");
        assert_eq!((turns.spent(&name, late), turns.due()), (Some(2), None));
        turns.recount();
        // Its own next run is no change; that of others is.
        turns.arrived(&name);
        assert!(!turns.forget(late) && turns.spent(&name, late).is_some());
        turns.arrived(&"team/other".into());
        assert_eq!((turns.spent(&name, late), turns.due()), (None, Some(at(51 * HOUR))));
        assert!(turns.forget(late) && !turns.forget(late), "once");
        turns.recount();
        // In order of time: looked at within the hour, and forgotten then.
        turns.forget(at(5_001 * HOUR));
        assert!(turns.stops.is_empty(), "{turns:?}");
        turns.recount();
    }

    #[test]
    fn rests_double_where_changes_never_cease() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turns.note(&name, at(0));
        let (mut now, mut rest, mut stops) = (at(0), REST, 1);
        for _ in 0..20 {
            // Two stops, the second of which comes while it rests already.
            for _ in 0..2 {
                turns.note(&name, now);
                stops += 1;
                turns.change();
            }
            assert_eq!(turns.spent(&name, now), Some(stops));
            assert_eq!(turns.due(), Some(now.plus(rest)), "after {stops} stops");
            turns.recount();
            now = now.plus(rest);
            assert!(turns.forget(now) && turns.spent(&name, now).is_none());
            rest = Span(rest.0 * 2).min(REST_MAX);
        }
        assert_eq!(rest, REST_MAX);
        // As long again without a stop, and it is as if it had never been.
        now = now.plus(rest);
        turns.forget(now);
        assert!(turns.stops.is_empty(), "{turns:?}");
        turns.note(&name, now);
        assert_eq!(turns.spent(&name, now), None);
        turns.recount();
    }

    #[test]
    fn what_ended_is_forgotten_and_lets_others_begin_anew() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        let other = Text::from("team/other");
        for one in [&name, &other, &name, &other] {
            turns.note(one, at(0));
        }
        assert!(!turns.forget(at(HOUR)));
        turns.ended(&name);
        turns.recount();
        assert_eq!(turns.spent(&name, at(1)), None);
        assert_eq!((turns.spent(&other, at(1)), turns.spent(&other, at(HOUR))), (Some(2), None));
        assert!(turns.forget(at(HOUR)));
        turns.note(&name, at(HOUR));
        assert_eq!(turns.spent(&name, at(HOUR)), None);
        turns.recount();
    }
}
