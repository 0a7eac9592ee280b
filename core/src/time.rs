//! Points in time and lengths of time, in whole milliseconds.
//!
//! The engine never reads a clock: every `Time` comes in through [`crate::Engine::step`] or
//! through an input. Ordering and arithmetic are integer arithmetic.

use std::fmt;

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A length of time in milliseconds; never negative in a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Time {
    /// The earliest time there is; sorts before every real one.
    pub const MIN: Time = Time(i64::MIN);

    /// `self + span`, saturating.
    pub fn plus(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// How long after `earlier` this is; zero when it is not after.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0).max(0))
    }
}

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: i64) -> Span {
        Span(seconds * 1_000)
    }

    /// A span of whole minutes.
    pub const fn minutes(minutes: i64) -> Span {
        Span(minutes * 60_000)
    }
}

impl fmt::Display for Span {
    /// Two leading units at most, as kubectl prints ages: `45s`, `12m`, `2h5m`, `3d4h`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000;
        let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
        let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(out, "{rest}s"),
            (0, 0, m) if rest == 0 => write!(out, "{m}m"),
            (0, 0, m) => write!(out, "{m}m{rest}s"),
            (0, h, 0) => write!(out, "{h}h"),
            (0, h, m) => write!(out, "{h}h{m}m"),
            (d, 0, _) => write!(out, "{d}d"),
            (d, h, _) => write!(out, "{d}d{h}h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_like_kubectl_ages() {
        let shown: Vec<String> = [0, 45_000, 90_000, 720_000, 7_500_000, 100_000_000]
            .iter()
            .map(|ms| Span(*ms).to_string())
            .collect();
        assert_eq!(shown, ["0s", "45s", "1m30s", "12m", "2h5m", "1d3h"]);
    }

    #[test]
    fn since_is_never_negative() {
        assert_eq!(Time(5).since(Time(9)), Span(0));
        assert_eq!(Time(9).since(Time(5)), Span(4));
    }
}
