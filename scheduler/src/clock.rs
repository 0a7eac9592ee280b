//! The time of day for everything that decides or writes: it never jumps.
//!
//! The clock of a machine is set while we run; deadlines, pauses and waiting times must not move
//! with it. So the time of day is taken once, and goes on evenly from there. All parts of one
//! process use copies of one clock: a deadline that one sets means the same to the other.

use std::time::{Duration, Instant};

use capstan_core::time::{Span, Time};

/// Time that goes on evenly, from the time of day when the process began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Time,
    begun: Instant,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Clock {
        let base = Time(jiff::Timestamp::now().as_millisecond());
        Clock { base, begun: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Time {
        let gone = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.base.plus(Span(gone))
    }

    /// How long it is until then; nothing if that is over.
    pub fn until(&self, then: Time) -> Duration {
        let left = then.since(self.now()).0;
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_not_waited_for() {
        let clock = Clock::start();
        let now = clock.now();
        assert_eq!(clock.until(now.plus(Span(-5))), Duration::ZERO);
        let left = clock.until(now.plus(Span(60_000)));
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(50), "{left:?}");
    }
}
