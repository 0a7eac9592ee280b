//! Go durations: `10m`, `600s`, `1h30m`, `1.5h`.
//!
//! Decides what a duration in an annotation or in the configuration means, in whole
//! milliseconds, rounded up. Leaves to its callers whether zero or less makes sense.

use std::borrow::Cow;

use capstan_core::time::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// A duration in Go's notation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Span);

/// Name of the schema format by which the reader knows a duration.
pub const FORMAT: &str = "go-duration";

/// Nanoseconds of each unit, longest name first where one begins another.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads a Go duration; `None`: it is none, or longer than 290 million years.
pub fn parse(text: &str) -> Option<Span> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(Span(0));
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(number);
        let (name, unit) = UNITS.iter().find(|(name, _)| tail.starts_with(name))?;
        total = total.checked_add(part(digits, *unit)?)?;
        rest = &tail[name.len()..];
    }
    let milli = total.div_euclid(1_000_000) + i128::from(total % 1_000_000 != 0);
    let milli = i64::try_from(milli).ok()?;
    Some(Span(if negative { -milli } else { milli }))
}

/// `digits` of a unit in nanoseconds; a fraction finer than that is dropped.
fn part(digits: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        value = value.checked_add(i128::from(digit - b'0') * place)?;
    }
    Some(value)
}

/// What is said of a text that is no duration.
pub fn complaint(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("{shown:?} is no duration (try 600s, 10m, 1h30m)")
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GoDuration, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        parse(&text).map(GoDuration).ok_or_else(|| de::Error::custom(complaint(&text)))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", self.0.0))
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": FORMAT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, want) in [
            ("0", 0),
            ("600s", 600_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("100ms", 100),
            ("1us", 1),
            ("1µs", 1),
            ("999ns", 1),
            (".5s", 500),
            ("1.s", 1_000),
            ("-1s", -1_000),
            ("+2s", 2_000),
            ("1s1s", 2_000),
        ] {
            assert_eq!(parse(text), Some(Span(want)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in ["", "-", "10", "m", "1 h", "1d", "ten minutes", "1.2.3s", ".s", "1h-1m", "1x"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{}h", "9".repeat(60))), None);
        assert_eq!(parse("99999999999999999999h"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?([0-9.]{0,40}(h|ms?|s|us|µs|ns|d| )){0,4}") {
            let _ = parse(&text);
        }
    }
}
