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
//! [`TURNS_MAX`] times stops nobody to borrow, of its own queue or of others, until an hour has
//! passed since; it starts where something comes free. What is taken within the own quota is
//! taken back by nobody who borrows, and in the own queue only by higher priority or age, so that
//! such steps come to an end.
//!
//! Restart: forgotten, as backoff is; a round may go round as often again. Cost: one entry for
//! each victim of the last hour, found by name, forgotten in order of time.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::input::Text;
use crate::time::{Span, Time};

/// Stops after which work stops nobody to borrow: it came back once, and once more.
const TURNS_MAX: u32 = 2;

/// Since the last stop, after so long it may again.
const REST: Span = Span::minutes(60);

/// How often work was stopped for others of late, by full name.
#[derive(Debug, Default)]
pub struct Turns {
    stops: BTreeMap<Text, (u32, Time)>,
    /// When each is forgotten.
    ends: BTreeSet<(Time, Text)>,
    /// Of these, those that may not stop others to borrow until then.
    rests: BTreeSet<(Time, Text)>,
}

impl Turns {
    /// Work is stopped for another.
    pub fn note(&mut self, name: &Text, now: Time) {
        self.forget(now);
        let (stops, last) = self.stops.entry(name.clone()).or_insert((0, now));
        let before = (last.plus(REST), name.clone());
        (*stops, *last) = (stops.saturating_add(1), now);
        let after = (now.plus(REST), name.clone());
        let rests = *stops >= TURNS_MAX;
        self.ends.remove(&before);
        self.rests.remove(&before);
        self.ends.insert(after.clone());
        if rests {
            self.rests.insert(after);
        }
    }

    /// How often work was stopped, if that is too often to stop others and borrow.
    pub fn spent(&self, name: &Text, now: Time) -> Option<u32> {
        let (stops, last) = self.stops.get(name)?;
        (*stops >= TURNS_MAX && last.plus(REST) > now).then_some(*stops)
    }

    /// Until when work stops nobody to borrow, if it was stopped too often.
    pub fn rests(&self, name: &Text, now: Time) -> Option<Time> {
        self.spent(name, now)?;
        self.stops.get(name).map(|(_, last)| last.plus(REST))
    }

    /// Forgets what was an hour ago; whether anybody may stop others again.
    pub fn forget(&mut self, now: Time) -> bool {
        while let Some((_, name)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.stops.remove(name);
            self.ends.pop_first();
        }
        let resting = self.rests.len();
        while self.rests.first().is_some_and(|(end, _)| *end <= now) {
            self.rests.pop_first();
        }
        self.rests.len() < resting
    }

    /// When somebody may stop others again.
    pub fn due(&self) -> Option<Time> {
        self.rests.first().map(|(end, _)| *end)
    }

    /// Compares what is known by time with what is known by name.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self) {
        let all = |least: u32| -> BTreeSet<(Time, Text)> {
            let stops = self.stops.iter().filter(|(_, (stops, _))| *stops >= least);
            stops.map(|(name, (_, last))| (last.plus(REST), name.clone())).collect()
        };
        assert_eq!((&self.ends, &self.rests), (&all(0), &all(TURNS_MAX)), "turns by time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_spent_and_come_back_after_a_rest() {
        let (mut turns, name) = (Turns::default(), Text::from("team/job"));
        let at = |minutes: i64| Time(minutes * 60_000);
        turns.note(&name, at(0));
        assert_eq!(turns.spent(&name, at(1)), None);
        turns.note(&name, at(30));
        assert_eq!(turns.spent(&name, at(31)), Some(2));
        assert_eq!(turns.spent(&"team/other".into(), at(31)), None);
        assert_eq!((turns.spent(&name, at(89)), turns.spent(&name, at(90))), (Some(2), None));
        assert_eq!((turns.rests(&name, at(89)), turns.rests(&name, at(90))), (Some(at(90)), None));
        turns.note(&name, at(95));
        assert_eq!(turns.spent(&name, at(95)), None, "what was long ago does not count");
        turns.recount();
        assert!(turns.due().is_none() && !turns.forget(at(100)), "one stop tires nobody");
        turns.note(&name, at(100));
        assert_eq!(turns.due(), Some(at(160)));
        assert!(!turns.forget(at(159)) && turns.forget(at(160)) && !turns.forget(at(161)));
        turns.note(&"team/other".into(), at(300));
        turns.recount();
        assert_eq!(turns.stops.len(), 1, "nobody else is remembered");
    }
}
