//! What time will bring: arrivals and ends, in order of (time, sequence).
//!
//! There is no fixed step: the clock of a run jumps from one entry to the next. Entries at one
//! instant come out in the order in which they were planned, so a run is the same every time.

use std::collections::BTreeMap;

use capstan_core::model::input::{OwnerFacts, PodFacts, Text};
use capstan_core::time::Time;

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Event {
    /// A pod of the input appears.
    Pod(Box<PodFacts>),
    /// An owner of the input appears.
    Owner(Box<OwnerFacts>),
    /// Somebody deletes the ClusterQueue of this name.
    QueueDeleted(Text),
    /// The pod with this uid has done its work, if it still exists.
    End(Text),
}

/// Events by time, first planned first.
#[derive(Debug)]
pub(super) struct Agenda {
    start: Time,
    sequence: u64,
    events: BTreeMap<(Time, u64), Event>,
}

impl Agenda {
    /// Nothing planned; the clock starts at `start`.
    pub(super) fn new(start: Time) -> Agenda {
        Agenda { start, sequence: 0, events: BTreeMap::new() }
    }

    /// When the clock started.
    pub(super) fn start(&self) -> Time {
        self.start
    }

    /// Plans an event; what should have happened before the start happens at the start.
    pub(super) fn plan(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.insert((at.max(self.start), self.sequence), event);
    }

    /// When the next event is due. Ends of pods that no longer live are dropped: what does not
    /// happen keeps no run going.
    pub(super) fn next(&mut self, lives: impl Fn(&Text) -> bool) -> Option<Time> {
        while let Some(entry) = self.events.first_entry() {
            match entry.get() {
                Event::End(uid) if !lives(uid) => drop(entry.remove()),
                Event::End(_) | Event::Pod(_) | Event::Owner(_) | Event::QueueDeleted(_) => {
                    return Some(entry.key().0);
                }
            }
        }
        None
    }

    /// When the first event is due, whatever becomes of it.
    pub(super) fn first(&self) -> Option<Time> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event that is due by `now`.
    pub(super) fn due(&mut self, now: Time) -> Option<(Time, Event)> {
        let entry = self.events.first_entry()?;
        let at = entry.key().0;
        (at <= now).then(|| (at, entry.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_planned() {
        let mut agenda = Agenda::new(Time(10));
        for (at, uid) in [(30, "late"), (20, "first"), (20, "second"), (5, "overdue")] {
            agenda.plan(Time(at), Event::End(uid.into()));
        }
        assert_eq!(agenda.next(|_| true), Some(Time(10)));
        let mut seen = Vec::new();
        while let Some((at, Event::End(uid))) = agenda.due(Time(25)) {
            seen.push((at.0, uid.to_string()));
        }
        let expected = [(10, "overdue"), (20, "first"), (20, "second")];
        assert_eq!(seen, expected.map(|(at, uid)| (at, uid.to_string())));
        assert_eq!(agenda.next(|_| true), Some(Time(30)));
        assert_eq!(agenda.next(|_| false), None);
    }
}
