//! Work that was stopped again and again, which stops others only within its queue's own quota.
//!
//! Problem: every victim by shares has the larger share, and yet steps can go round in which work
//! of one queue makes place for older work of that queue between them: a small Job takes a share
//! that a large one of its own queue gives up, the large one takes the small one's place, and the
//! one that was stopped first comes back. Who stops its own queue's work and borrows then, and is
//! reclaimed from, does the same without shares. Kueue knows such rounds too (spec/quota.md 18.7
//! and 18.10).
//!
//! Wanted: rounds end, and who has its right by quota keeps it. Work that was stopped
//! [`TURNS_MAX`] times stops nobody to borrow, of its own queue or of others, until an hour has
//! passed since; it starts where something comes free. What is taken within the own quota is
//! taken back by nobody who borrows, and in the own queue only by higher priority or age, so that
//! such steps come to an end.
//!
//! Restart: forgotten, as backoff is; a round may go round as often again. Cost: one entry for
//! each victim of the last hour.

use std::collections::BTreeMap;

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
}

impl Turns {
    /// Work is stopped for another.
    pub fn note(&mut self, name: &Text, now: Time) {
        self.stops.retain(|_, (_, last)| last.plus(REST) > now);
        let (stops, last) = self.stops.entry(name.clone()).or_insert((0, now));
        (*stops, *last) = (stops.saturating_add(1), now);
    }

    /// How often work was stopped, if that is too often to stop others and borrow.
    pub fn spent(&self, name: &Text, now: Time) -> Option<u32> {
        let (stops, last) = self.stops.get(name)?;
        (*stops >= TURNS_MAX && last.plus(REST) > now).then_some(*stops)
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
        turns.note(&name, at(95));
        assert_eq!(turns.spent(&name, at(95)), None, "what was long ago does not count");
        turns.note(&"team/other".into(), at(300));
        assert_eq!(turns.stops.len(), 1, "nobody else is remembered");
    }
}
