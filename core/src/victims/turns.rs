//! Work that stopped others and was stopped itself, again and again, which stops others only within
//! its queue's own quota.
//!
//! Problem: every victim has its reason, and yet steps can go round. With classical preemption work
//! of high priority stops, while it borrows, another queue's work; a third takes back from it what
//! its own queue owns, whatever the priorities; and the one stopped first stops that one, of its
//! own queue, and borrows again. By shares a small Job takes a share that a large one of its own
//! queue gives up, the large one takes the small one's place, and the one that was stopped first
//! comes back. Kueue knows such rounds too (spec/quota.md 18.7 and 18.10).
//!
//! Wanted: rounds end, and who has its right by quota keeps it, at once. It is a *turn* of work if
//! it is stopped for others after it stopped others to borrow. After [`TURNS_MAX`] turns it
//! *rests*: it stops nobody to borrow, of its own queue or of others, and starts where something
//! comes free. Who is stopped and stopped nobody, as a borrower from whom owners take back day by
//! day, or only took what its queue owns, has no part in any round: its stops are no turns.
//!
//! Why that ends every round: where nothing changes there are so many workloads and no more. If
//! others were stopped to borrow without end, one workload would do so without end. Between two
//! such times it must itself be stopped, a gang at least in part, and each of those stops is a
//! turn; after the last that it may have it stops nobody to borrow. So that ends. What is taken
//! within the own quota then is taken back by nobody who borrows, and in the own queue only by
//! higher priority or age, so that such steps come to an end, too. So who rests may still take
//! them, by shares or not: from other queues what its queue owns, and in its own the place of who
//! stands behind it.
//!
//! What it takes to borrow is told where victims are decided (`cycle/preemptions.rs`): once they
//! have left, its queue will hold more than it owns of something that it asks. Where money is
//! charged, whose amount is known later, it is taken for that. Nothing is noted of who counts on
//! those alone who leave already, nor while work rests. If the API refuses a stop the note stays:
//! by itself it does nothing.
//!
//! A rest is over once both are true: an hour has passed since the last turn, and something really
//! changed since, so that another outcome is possible (work came, ended or was deleted, or got
//! another priority or queue; queues, nodes or configuration were edited). Where nothing changes
//! nobody's rest ends, and all is quiet, for good. Where changes never cease a round may begin anew
//! after a rest; then a single turn begins the next rest, twice as long as the one before, up to
//! [`REST_MAX`]. So in a round that never ends by itself each of its workloads stops others to
//! borrow once a day in the long run, and nobody rests longer than that once a round is over.
//! Turns are forgotten when there was none for as long again as the rest was, a first one within
//! the hour; that work stopped others, or its name as one that was stopped, an hour later; and all
//! of it once the work ended or was deleted.
//!
//! What our own stops lead to is no change: work that is on its way out and goes, and its next
//! run, which bears a name that is remembered. Bare pods that a controller makes anew under other
//! names are new work.
//!
//! Restart: forgotten, as backoff is; a round may go round as often again. Cost: one entry for
//! each victim and each who stopped others to borrow until it is forgotten, found by name, looked
//! at in order of time; of those whose hour is over while nothing changed, a set that the first
//! change empties.

use std::collections::BTreeSet;

use crate::model::input::Text;
use crate::model::lookup::Lookup;
use crate::time::{Span, Time};

/// Turns after which work stops nobody to borrow: it came back once, and once more.
const TURNS_MAX: u32 = 2;

/// A first rest lasts so long after the last turn; so long other things are remembered.
const REST: Span = Span::minutes(60);

/// No rest is longer, if something changes.
const REST_MAX: Span = Span::minutes(24 * 60);

/// How often work that stopped others was stopped for others of late, by full name.
#[derive(Debug, Default)]
pub struct Turns {
    stops: Lookup<Text, Stops>,
    /// When each is forgotten, or looked at again where nothing changed by then.
    ends: BTreeSet<(Time, Text)>,
    /// Of these, those that may not stop others to borrow until then at least.
    rests: BTreeSet<(Time, Text)>,
    /// Of these, those whose time is over: they wait for a change.
    still: BTreeSet<Text>,
    /// Real changes so far.
    changes: u64,
}

/// What is remembered of one workload.
#[derive(Clone, Copy, Debug)]
struct Stops {
    /// Turns.
    times: u32,
    /// The last of them.
    last: Time,
    /// How long it rests since the last, at least.
    rest: Span,
    /// Changes before the last.
    seen: u64,
    /// It stopped others to borrow since then.
    took: bool,
    /// When it was last stopped, or stopped others to borrow; changes before that.
    heard: (Time, u64),
    /// When to forget it, if something changed.
    end: Time,
}

impl Stops {
    fn new(now: Time, changes: u64) -> Stops {
        let (times, rest, took) = (0, REST, false);
        Stops { times, last: now, rest, seen: changes, took, heard: (now, changes), end: now }
    }

    /// When its rest is over, if something changed by then.
    fn rested(&self) -> Time {
        self.last.plus(self.rest)
    }

    fn rests(&self, now: Time, changes: u64) -> bool {
        self.times >= TURNS_MAX && (self.rested() > now || self.seen == changes)
    }

    /// When its turns are forgotten, if something changed by then.
    fn turns_end(&self) -> Time {
        match self.times {
            0 => self.last,
            times if times >= TURNS_MAX => self.rested().plus(self.rest),
            _ => self.rested(),
        }
    }

    /// When anything else is forgotten, if something changed by then.
    fn heard_end(&self) -> Time {
        self.heard.0.plus(REST)
    }

    fn turns_are_over(&self, now: Time, changes: u64) -> bool {
        self.times == 0 || (self.turns_end() <= now && self.seen < changes)
    }

    fn was_heard_long_ago(&self, now: Time, changes: u64) -> bool {
        self.heard_end() <= now && self.heard.1 < changes
    }

    fn is_over(&self, now: Time, changes: u64) -> bool {
        self.turns_are_over(now, changes) && self.was_heard_long_ago(now, changes)
    }

    /// The same without what was too long ago.
    fn of_late(self, now: Time, changes: u64) -> Stops {
        let (times, rest) = match self.turns_are_over(now, changes) {
            true => (0, REST),
            false => (self.times, self.rest),
        };
        let took = self.took && !self.was_heard_long_ago(now, changes);
        Stops { times, rest, took, ..self }
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
        // Most were never stopped.
        if self.stops.contains_key(name) {
            self.drop_times(name);
            self.stops.remove(name);
        }
        self.change();
    }

    /// Work that was not there before: a change, unless it is the next run of what was stopped.
    pub fn arrived(&mut self, name: &Text) {
        if !self.stops.contains_key(name) {
            self.change();
        }
    }

    /// Work stops others to borrow.
    pub fn takes(&mut self, name: &Text, now: Time) {
        self.hear(name, now, |one, _| one.took = true);
    }

    /// Work is stopped for another.
    pub fn note(&mut self, name: &Text, now: Time) {
        self.hear(name, now, |one, changes| {
            if !std::mem::take(&mut one.took) {
                return;
            }
            if one.times >= TURNS_MAX && !one.rests(now, changes) {
                one.rest = Span(one.rest.0.saturating_mul(2)).min(REST_MAX);
            }
            one.times = one.times.saturating_add(1);
            (one.last, one.seen) = (now, changes);
        });
    }

    /// Something happens to a workload that is remembered.
    fn hear(&mut self, name: &Text, now: Time, what: impl FnOnce(&mut Stops, u64)) {
        let changes = self.changes;
        self.drop_times(name);
        let known = self.stops.get(name).map(|known| known.of_late(now, changes));
        let mut one = known.unwrap_or_else(|| Stops::new(now, changes));
        what(&mut one, changes);
        one.heard = (now, changes);
        one.end = one.heard_end().max(one.turns_end());
        self.stops.insert(name.clone(), one);
        self.ends.insert((one.end, name.clone()));
        if one.times >= TURNS_MAX && one.rested() > now {
            self.rests.insert((one.rested(), name.clone()));
        } else if one.rests(now, changes) {
            self.still.insert(name.clone());
        }
    }

    /// Takes a workload out of what is kept in order of time.
    fn drop_times(&mut self, name: &Text) {
        let Some(stops) = self.stops.get(name) else { return };
        self.ends.remove(&(stops.end, name.clone()));
        self.rests.remove(&(stops.rested(), name.clone()));
        self.still.remove(name);
    }

    /// How many turns work had, if those are too many to stop others and borrow.
    pub fn spent(&self, name: &Text, now: Time) -> Option<u32> {
        let stops = self.stops.get(name)?;
        stops.rests(now, self.changes).then_some(stops.times)
    }

    /// The rest of work that had too many.
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
        let known =
            |(end, name): &(Time, Text)| self.stops.get(name).is_some_and(|one| one.end == *end);
        assert!(self.ends.iter().all(known), "turns by time");
        assert_eq!(self.ends.len(), self.stops.len(), "turns by time");
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

    /// A turn: work stops others to borrow, and is stopped.
    fn turn(turns: &mut Turns, name: &Text, now: Time) {
        turns.takes(name, now);
        turns.note(name, now);
    }

    #[test]
    fn turns_are_spent_and_come_back_after_a_rest_and_a_change() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turn(&mut turns, &name, at(0));
        assert_eq!(turns.spent(&name, at(1)), None);
        assert!(turns.due().is_none() && !turns.forget(at(10)), "one turn tires nobody");
        turn(&mut turns, &name, at(30));
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
    fn who_stopped_nobody_may_be_stopped_any_number_of_times() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        for minute in 0..100 {
            turns.note(&name, at(minute));
            turns.recount();
        }
        assert_eq!((turns.spent(&name, at(100)), turns.due()), (None, None));
        // Its next run is known all the same, and changes nothing.
        let before = turns.changes;
        turns.arrived(&name);
        assert_eq!(turns.changes, before);
        // One stop of others makes one turn of those that follow, and two of its own a rest.
        turns.takes(&name, at(100));
        turns.takes(&name, at(101));
        (102..110).for_each(|minute| turns.note(&name, at(minute)));
        assert_eq!(turns.spent(&name, at(110)), None);
        turn(&mut turns, &name, at(110));
        assert_eq!(turns.spent(&name, at(110)), Some(2));
        turns.recount();
    }

    #[test]
    fn a_stop_that_is_no_turn_makes_no_rest_longer_or_begin_anew() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turn(&mut turns, &name, at(0));
        turn(&mut turns, &name, at(0));
        turns.change();
        turns.note(&name, at(50));
        assert_eq!(turns.rests(&name, at(50)), Some((at(HOUR), 0)));
        turns.recount();
        assert!(turns.forget(at(HOUR)));
        turns.note(&name, at(HOUR + 1));
        assert_eq!((turns.spent(&name, at(HOUR + 1)), turns.due()), (None, None));
        turns.recount();
        // It is remembered for an hour after that, its turns for as long again as it rested.
        turns.change();
        turns.forget(at(2 * HOUR));
        assert!(turns.stops.contains_key(&name));
        turn(&mut turns, &name, at(2 * HOUR));
        assert_eq!(turns.spent(&name, at(2 * HOUR)), None, "the first");
        turns.recount();
    }

    #[test]
    fn that_it_stopped_others_is_forgotten_an_hour_later_once_something_changed() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        for now in [0, 1] {
            turns.takes(&name, at(now * 50 * HOUR));
            assert!(!turns.forget(at((now * 50 + 40) * HOUR)), "nothing changed");
            turns.recount();
            turns.note(&name, at((now * 50 + 40) * HOUR));
        }
        assert_eq!(turns.spent(&name, at(90 * HOUR)), Some(2));
        let other = Text::from("team/other");
        for now in [0, 2, 4] {
            turns.takes(&other, at(now * HOUR));
            turns.change();
            turns.note(&other, at((now + 1) * HOUR));
        }
        assert_eq!(turns.spent(&other, at(5 * HOUR)), None);
        turns.takes(&other, at(6 * HOUR));
        turns.ended(&other);
        assert!(!turns.stops.contains_key(&other));
        turns.recount();
    }

    #[test]
    fn where_nothing_changes_no_rest_ends_and_nothing_is_forgotten() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        turn(&mut turns, &name, at(0));
        assert!(!turns.forget(at(50 * HOUR)));
        turn(&mut turns, &name, at(50 * HOUR));
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
        turn(&mut turns, &name, at(0));
        let (mut now, mut rest, mut times) = (at(0), REST, 1);
        for _ in 0..20 {
            // Two turns, the second of which comes while it rests already.
            for _ in 0..2 {
                turn(&mut turns, &name, now);
                times += 1;
                turns.change();
            }
            assert_eq!(turns.spent(&name, now), Some(times));
            assert_eq!(turns.due(), Some(now.plus(rest)), "after {times} turns");
            turns.recount();
            now = now.plus(rest);
            assert!(turns.forget(now) && turns.spent(&name, now).is_none());
            rest = Span(rest.0 * 2).min(REST_MAX);
        }
        assert_eq!(rest, REST_MAX);
        // As long again without a turn, and it is as if it had never been.
        now = now.plus(rest);
        turns.forget(now);
        assert!(turns.stops.is_empty(), "{turns:?}");
        turn(&mut turns, &name, now);
        assert_eq!(turns.spent(&name, now), None);
        turns.recount();
    }

    #[test]
    fn what_ended_is_forgotten_and_lets_others_begin_anew() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        let other = Text::from("team/other");
        for one in [&name, &other, &name, &other] {
            turn(&mut turns, one, at(0));
        }
        assert!(!turns.forget(at(HOUR)));
        turns.ended(&name);
        turns.recount();
        assert_eq!(turns.spent(&name, at(1)), None);
        assert_eq!((turns.spent(&other, at(1)), turns.spent(&other, at(HOUR))), (Some(2), None));
        assert!(turns.forget(at(HOUR)));
        turn(&mut turns, &name, at(HOUR));
        assert_eq!(turns.spent(&name, at(HOUR)), None);
        turns.recount();
    }
}
