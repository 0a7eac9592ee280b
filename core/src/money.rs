//! Money as integers: micro-USD, and the share of a node's price that a pod uses.

use std::fmt;

/// Millionths of a US dollar; per hour where the name says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(pub i64);

impl MicroUsd {
    /// `self * numerator / denominator`, rounded half up, without overflow.
    pub fn times(self, numerator: i64, denominator: i64) -> MicroUsd {
        assert!(denominator > 0, "a share of nothing");
        let scaled = i128::from(self.0) * i128::from(numerator);
        let half = i128::from(denominator) / 2;
        let value = (scaled + half).div_euclid(i128::from(denominator));
        MicroUsd(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// The sum, saturating.
    pub fn plus(self, other: MicroUsd) -> MicroUsd {
        MicroUsd(self.0.saturating_add(other.0))
    }

    /// Two decimals, the next larger such number; below a cent exactly: `10.47`, `0.00005`.
    pub fn rounded_up(self) -> String {
        if (1..10_000).contains(&self.0) {
            return format!("0.{:06}", self.0).trim_end_matches('0').to_owned();
        }
        let rest = self.0.rem_euclid(10_000);
        let more = if rest > 0 { 10_000 - rest } else { 0 };
        MicroUsd(self.0.saturating_add(more)).to_string()
    }

    /// Whole cents, rounded half up.
    pub fn cents(self) -> i64 {
        self.0.saturating_add(5_000).div_euclid(10_000)
    }
}

impl fmt::Display for MicroUsd {
    /// Two decimals, rounded: `36.75`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.cents();
        let sign = if cents < 0 { "-" } else { "" };
        write!(out, "{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_half_up_and_never_overflow() {
        assert_eq!(MicroUsd(10).times(1, 4), MicroUsd(3));
        assert_eq!(MicroUsd(i64::MAX).times(3, 3), MicroUsd(i64::MAX));
        assert_eq!(MicroUsd(i64::MAX).times(3, 2), MicroUsd(i64::MAX));
    }

    #[test]
    fn dollars_have_two_decimals() {
        assert_eq!(MicroUsd(36_750_000).to_string(), "36.75");
        assert_eq!(MicroUsd(-1_005_000).to_string(), "-1.00");
        assert_eq!(MicroUsd(4_999).to_string(), "0.00");
        assert_eq!(MicroUsd(i64::MAX).to_string(), "9223372036854.77");
    }

    #[test]
    fn what_is_rounded_up_is_never_less() {
        let rows = [
            (0, "0.00"),
            (1, "0.000001"),
            (9_990, "0.00999"),
            (10_000, "0.01"),
            (10_001, "0.02"),
            (-10_001, "-0.01"),
            (i64::MAX, "9223372036854.77"),
        ];
        for (micro, words) in rows {
            assert_eq!(MicroUsd(micro).rounded_up(), words);
        }
    }
}
