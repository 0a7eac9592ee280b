//! Days, weeks and months in UTC, by whole numbers: which of them a time is in, and how a time is
//! written.
//!
//! The engine reads no clock, and no time zone either: a budget of a day begins at midnight UTC,
//! one of a week on Monday, one of a month on the first. Dates are those of the Gregorian calendar,
//! before it was in use too; there are no leap seconds, as in Unix time.

use std::fmt;

use crate::time::Time;

const DAY_MS: i64 = 86_400_000;
/// Days from 1 March 0000 to 1 January 1970.
const EPOCH: i64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;

/// A stretch of the calendar that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    /// From midnight.
    Day,
    /// From Monday.
    Week,
    /// From the first.
    Month,
}

impl Period {
    /// When the period around a time begins, and when the next one does.
    pub fn around(self, now: Time) -> (Time, Time) {
        let day = now.0.div_euclid(DAY_MS);
        let (first, next) = match self {
            Period::Day => (day, day + 1),
            Period::Week => {
                // The epoch was a Thursday.
                let monday = day - (day + 3).rem_euclid(7);
                (monday, monday + 7)
            }
            Period::Month => {
                let (year, month, _) = date(day);
                let (to_year, to) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
                (day_of(year, month, 1), day_of(to_year, to, 1))
            }
        };
        let midnight = |day: i64| Time(day.saturating_mul(DAY_MS));
        (midnight(first), midnight(next))
    }
}

/// Year, month (1 to 12) and day of the month of a day since 1970.
pub(crate) fn date(day: i64) -> (i64, i64, i64) {
    // Years that begin in March end with the leap day.
    let days = day + EPOCH;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The day since 1970 of a date.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}

/// A time as the API writes it, in whole seconds: `2026-11-27T00:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(pub Time);

impl fmt::Display for Stamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, rest) = (self.0.0.div_euclid(DAY_MS), self.0.0.rem_euclid(DAY_MS) / 1_000);
        let (year, month, day) = date(day);
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: i64, day: i64) -> Time {
        Time(day_of(year, month, day) * DAY_MS)
    }

    fn shown(period: Period, now: Time) -> (String, String) {
        let (from, to) = period.around(now);
        (Stamp(from).to_string(), Stamp(to).to_string())
    }

    #[test]
    fn dates_and_days_are_each_other_for_a_thousand_years() {
        let (mut last, first) = (date(day_of(1600, 1, 1) - 1), day_of(1600, 1, 1));
        for day in first..first + 1_000 * 366 {
            let (year, month, of_month) = date(day);
            assert_eq!(day_of(year, month, of_month), day);
            let follows = match of_month {
                1 => (year, month) != (last.0, last.1) && last.2 >= 28,
                _ => (year, month, of_month - 1) == last,
            };
            assert!(follows, "{year}-{month}-{of_month} after {last:?}");
            last = (year, month, of_month);
        }
        assert_eq!(date(0), (1970, 1, 1));
        // What anybody can look up.
        assert_eq!(date(day_of(2000, 2, 29)), (2000, 2, 29));
        assert_eq!(day_of(2026, 11, 26), 20_783);
        assert_eq!(day_of(1900, 3, 1) - day_of(1900, 2, 28), 1, "no leap year");
    }

    #[test]
    fn periods_begin_at_midnight_on_monday_and_on_the_first() {
        // A Thursday.
        let noon = Time(at(2026, 11, 26).0 + DAY_MS / 2 + 7);
        let both = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let day = both("2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z");
        assert_eq!(shown(Period::Day, noon), day);
        assert_eq!(shown(Period::Day, at(2026, 11, 26)), day, "its first moment");
        let week = both("2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z");
        assert_eq!(shown(Period::Week, noon), week);
        assert_eq!(shown(Period::Week, at(2026, 11, 23)), week);
        assert_eq!(shown(Period::Week, Time(at(2026, 11, 30).0 - 1)), week);
        let month = both("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
        assert_eq!(shown(Period::Month, noon), month);
        let december = both("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z");
        assert_eq!(shown(Period::Month, at(2026, 12, 31)), december);
        let leap = both("2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
        assert_eq!(shown(Period::Month, at(2028, 2, 29)), leap);
    }

    #[test]
    fn times_before_the_epoch_and_beyond_all_years_are_no_trouble() {
        assert_eq!(Stamp(Time(-1)).to_string(), "1969-12-31T23:59:59Z");
        for now in [Time::MIN, Time(i64::MAX), Time(-1)] {
            for period in [Period::Day, Period::Week, Period::Month] {
                let (from, to) = period.around(now);
                assert!(from <= now && now <= to, "{now:?}");
            }
        }
    }
}
