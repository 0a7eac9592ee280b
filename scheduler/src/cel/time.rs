//! Times and lengths of time: `timestamp(..)`, `duration(..)`, their arithmetic and their fields.
//!
//! A time keeps the offset it was written with, which only its text shows; fields are those of
//! UTC unless a zone is named: `+02:00`, or a name of the time zone database of the machine.

use std::cmp::Ordering;
use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::Fault;
use super::value::Value;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// The first second of the year 1 and the last one of the year 9999.
const BOUNDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Seconds since 1970, in UTC.
    seconds: i64,
    /// What is more, less than a second.
    nanos: i64,
    /// Seconds east of UTC, where it was written.
    offset: i64,
}

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// Nanoseconds.
    pub nanos: i64,
}

impl PartialEq for Time {
    fn eq(&self, other: &Time) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

fn too_large() -> Fault {
    Fault::new("a timestamp or duration out of range")
}

impl Time {
    /// So many seconds since 1970.
    pub fn of_seconds(seconds: i64) -> Result<Time, Fault> {
        Time::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: i64, offset: i64) -> Result<Time, Fault> {
        match BOUNDS.contains(&seconds) {
            true => Ok(Time { seconds, nanos, offset }),
            false => Err(too_large()),
        }
    }

    /// Reads a time as RFC 3339 writes it.
    pub fn parse(text: &str) -> Option<Time> {
        let (day, clock) = text.split_once('T')?;
        let day = date(day)?;
        // An hour may have one digit.
        let (hour, rest) = clock.split_once(':')?;
        let hour = digits(hour, 0, hour.len()).filter(|_| hour.len() <= 2)?;
        let (minute, second) = (digits(rest, 0, 2)?, digits(rest, 3, 2)?);
        let marks = rest.as_bytes()[2] == b':';
        if !marks || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = &rest[5..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            let nine = format!("{:0<9}", &fraction[..end.min(9)]);
            nanos = (end > 0).then(|| nine.parse().ok())??;
            rest = &fraction[end..];
        }
        let offset = match rest {
            "Z" => 0,
            _ => offset(rest)?,
        };
        let days = day.duration_since(Date::constant(1970, 1, 1)).as_secs();
        Time::new(days + hour * 3600 + minute * 60 + second - offset, nanos, offset).ok()
    }

    /// Whether it is the first moment of the year 1.
    pub fn is_zero(self) -> bool {
        self.seconds == *BOUNDS.start() && self.nanos == 0
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// So much later.
    pub fn plus(self, nanos: i128) -> Result<Time, Fault> {
        let all = i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanos) + nanos;
        let seconds = i64::try_from(all.div_euclid(SECOND.into())).map_err(|_| too_large())?;
        Time::new(seconds, all.rem_euclid(SECOND.into()) as i64, self.offset)
    }

    /// How much later it is than another.
    pub fn since(self, other: Time) -> Result<Duration, Fault> {
        let seconds = i128::from(self.seconds - other.seconds) * i128::from(SECOND);
        let nanos = seconds + i128::from(self.nanos - other.nanos);
        i64::try_from(nanos).map(|nanos| Duration { nanos }).map_err(|_| too_large())
    }

    /// What a clock so far east of UTC shows.
    fn clock(self, offset: i64) -> Result<DateTime, Fault> {
        let since = SignedDuration::from_secs(self.seconds + offset);
        let base = Date::constant(1970, 1, 1).at(0, 0, 0, 0);
        base.checked_add(since).map_err(|_| too_large())
    }

    /// `time.name(args)`.
    pub(super) fn call(self, name: &str, args: &[Value]) -> Result<Option<Value>, Fault> {
        let zone = match args {
            [] => 0,
            [Value::Text(zone)] => self.offset_of(zone)?,
            _ => return Ok(None),
        };
        let clock = self.clock(zone)?;
        let field = match name {
            "getFullYear" => i64::from(clock.year()),
            "getMonth" => i64::from(clock.month()) - 1,
            "getDate" => clock.day().into(),
            "getDayOfMonth" => i64::from(clock.day()) - 1,
            "getDayOfWeek" => clock.weekday().to_sunday_zero_offset().into(),
            "getDayOfYear" => i64::from(clock.day_of_year()) - 1,
            "getHours" => clock.hour().into(),
            "getMinutes" => clock.minute().into(),
            "getSeconds" => clock.second().into(),
            "getMilliseconds" => self.nanos / 1_000_000,
            _ => return Ok(None),
        };
        Ok(Some(Value::Int(field)))
    }

    /// Seconds east of UTC of a zone, at this time.
    fn offset_of(self, zone: &str) -> Result<i64, Fault> {
        let unknown = || Fault::new(format!("{zone:?} is no time zone"));
        if let Some((hours, minutes)) = zone.split_once(':') {
            let number = |text: &str| text.parse::<i32>().ok().filter(|it| it.abs() < 1_000);
            let (hours, minutes) = (number(hours), number(minutes));
            let (hours, minutes) = (hours.ok_or_else(unknown)?, minutes.ok_or_else(unknown)?);
            let minutes = if zone.starts_with('-') { -minutes } else { minutes };
            return Ok(i64::from(hours * 60 + minutes) * 60);
        }
        if matches!(zone, "" | "UTC") {
            return Ok(0);
        }
        let zone = TimeZone::get(zone).map_err(|_| unknown())?;
        let (least, most) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        let at = jiff::Timestamp::from_second(self.seconds.clamp(least, most));
        Ok(zone.to_offset(at.map_err(|_| too_large())?).seconds().into())
    }
}

fn digits(text: &str, from: usize, count: usize) -> Option<i64> {
    let part = text.get(from..from + count).filter(|part| !part.is_empty())?;
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
}

/// A day as `2026-01-31`.
pub(super) fn date(text: &str) -> Option<Date> {
    let (year, month, day) = (digits(text, 0, 4)?, digits(text, 5, 2)?, digits(text, 8, 2)?);
    let marks = text.len() == 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    Date::new(year as i16, month as i8, day as i8).ok().filter(|_| marks)
}

/// `+02:00` in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |part: &str| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<i64>().ok())?
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(clock) = self.clock(self.offset) else { return out.write_str("out of range") };
        let (date, time) = (clock.date(), clock.time());
        write!(out, "{date}T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(out, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return out.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60);
        write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl Duration {
    /// Reads a length of time as `1h30m`, `1.5s` or `-300ms`.
    pub fn parse(text: &str) -> Option<Duration> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Duration { nanos: 0 });
        }
        let mut nanos: i128 = 0;
        loop {
            let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (whole, fraction) = rest[..number].split_once('.').unwrap_or((&rest[..number], ""));
            if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
                return None;
            }
            let behind = &rest[number..];
            let name = behind.find(|c: char| c.is_ascii_digit() || c == '.');
            let (unit, left) = behind.split_at(name.unwrap_or(behind.len()));
            let unit: i128 = match unit {
                "ns" => 1,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            };
            let count: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            // Beyond eighteen digits a fraction of an hour is less than a nanosecond.
            let digits = &fraction[..fraction.len().min(18)];
            let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            let part = part * unit / 10i128.pow(digits.len() as u32);
            nanos = nanos.checked_add(count.checked_mul(unit)?)?.checked_add(part)?;
            if left.is_empty() {
                let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
                return Some(Duration { nanos });
            }
            rest = left;
        }
    }

    /// `duration.name()`.
    pub(super) fn call(self, name: &str) -> Option<Value> {
        let of = |unit: i64| Some(Value::Int(self.nanos / unit));
        match name {
            "getHours" => of(3600 * SECOND),
            "getMinutes" => of(60 * SECOND),
            "getSeconds" => of(SECOND),
            "getMilliseconds" => of(1_000_000),
            _ => None,
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = (self.nanos % SECOND) as f64 / 1e9;
        write!(out, "{}s", (self.nanos / SECOND) as f64 + fraction)
    }
}

/// `left operator right` of times and lengths of time; `None`: it is not defined.
pub(super) fn arithmetic(
    operator: &str,
    left: &Value,
    right: &Value,
) -> Option<Result<Value, Fault>> {
    use Value::{Duration as Length, Time};
    let sum =
        |nanos: Option<i64>| nanos.map(|nanos| Length(Duration { nanos })).ok_or_else(too_large);
    Some(match (operator, left, right) {
        ("+", Length(a), Length(b)) => sum(a.nanos.checked_add(b.nanos)),
        ("-", Length(a), Length(b)) => sum(a.nanos.checked_sub(b.nanos)),
        ("+", Time(time), Length(by)) | ("+", Length(by), Time(time)) => {
            time.plus(by.nanos.into()).map(Time)
        }
        ("-", Time(time), Length(by)) => time.plus(-i128::from(by.nanos)).map(Time),
        ("-", Time(a), Time(b)) => a.since(*b).map(Length),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let same = ["2026-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "2026-01-02T03:04:05.12+05:30"];
        for text in same {
            assert_eq!(Time::parse(text).expect(text).to_string(), text);
        }
        let odd = ["", "2026-01-02", "2026-13-02T03:04:05Z", "2026-02-29T03:04:05Z", "x"];
        let more = ["2026-01-02T24:04:05Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z", "é"];
        for text in odd.into_iter().chain(more).chain(["2026-01-02t03:04:05+2:00"]) {
            assert!(Time::parse(text).is_none(), "{text}");
        }
        let time = |text: &str| Time::parse(text).expect(text);
        assert_eq!(time("1970-01-01T02:00:00+02:00"), time("1970-01-01T00:00:00Z"));
        assert!(Time::parse("9999-12-31T23:59:59-01:00").is_none(), "after the last second");
    }

    #[test]
    fn lengths_of_time_are_read_and_written() {
        let nanos = |text: &str| Duration::parse(text).map(|duration| duration.nanos);
        assert_eq!(nanos("1h30m"), Some(5_400 * SECOND));
        assert_eq!(nanos("-1.5ms"), Some(-1_500_000));
        assert_eq!(nanos(".5s"), Some(SECOND / 2));
        assert_eq!(nanos("0"), Some(0));
        assert_eq!(nanos("1us2\u{b5}s3\u{3bc}s"), Some(6_000));
        for odd in ["", "1", "h", "1.2.3s", ".s", "-", "1d", "9999999999h", "1 s", "s1"] {
            assert_eq!(nanos(odd), None, "{odd}");
        }
        let text = |text: &str| Duration::parse(text).map(|duration| duration.to_string());
        assert_eq!(text("1h").as_deref(), Some("3600s"));
        assert_eq!(text("2ns").as_deref(), Some("0.000000002s"));
        assert_eq!(text("-90.5s").as_deref(), Some("-90.5s"));
    }
}
