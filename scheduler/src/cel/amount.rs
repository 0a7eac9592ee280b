//! Quantities as expressions have them.
//!
//! Decides what depends on how a quantity is written: whether it is a whole number, and what it is
//! as a number with a fraction. Kubernetes keeps what is short in 64 bits with a power of ten, and
//! all else as a long decimal; whole is only what is short and has no part below the point, so
//! `2.0`, `1000m`, `1.5Gi` and `1Pi` are no whole numbers, and `0.5k` and `10Ti` are.
//!
//! What they amount to is exact to a billionth. Left out: a comparison with a long one makes a
//! long one of the other in Kubernetes, whichever evaluation looks at it next.

use std::cmp::Ordering;

use crate::quantity::Quantity;

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// `value * 10^scale`.
    Short {
        /// Its digits.
        value: i64,
        /// Its power of ten.
        scale: i32,
    },
    /// A decimal of any length.
    Long {
        /// Billionths of a unit.
        nano: i128,
        /// Its power of ten.
        scale: i32,
    },
}

/// Decimal digits that surely fit 64 bits.
const DIGITS_MAX: usize = 18;

/// Decimal digits that are kept short of what is written in powers of two.
const BINARY_DIGITS_MAX: usize = 14;

/// Billionths of a unit.
const UNIT: i128 = 1_000_000_000;

/// The power of ten of billionths.
const NANO: i32 = -9;

/// Suffixes with their power: of ten, or of two.
const SUFFIXES: [(&str, i32, bool); 16] = [
    ("n", -9, false),
    ("u", -6, false),
    ("m", -3, false),
    ("", 0, false),
    ("k", 3, false),
    ("M", 6, false),
    ("G", 9, false),
    ("T", 12, false),
    ("P", 15, false),
    ("E", 18, false),
    ("Ki", 10, true),
    ("Mi", 20, true),
    ("Gi", 30, true),
    ("Ti", 40, true),
    ("Pi", 50, true),
    ("Ei", 60, true),
];

impl Amount {
    /// Reads a quantity; `None`: it is none.
    pub fn parse(text: &str) -> Option<Amount> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let minus = text.starts_with('-');
        let digits = unsigned.trim_start_matches('0');
        if digits.is_empty() {
            // A sign alone is zero in Kubernetes, too.
            return (!text.is_empty()).then_some(Amount::Short { value: 0, scale: 0 });
        }
        let (whole, rest) = digits_of(digits);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits_of);
        let (exponent, binary) = power(suffix)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        if let Some((value, scale)) = short(whole, fraction, exponent, binary) {
            return Some(Amount::Short { value: if minus { -value } else { value }, scale });
        }
        // What is long needs a digit.
        unsigned.bytes().find(|byte| *byte != b'.').filter(u8::is_ascii_digit)?;
        let sign = if minus { "-" } else { "" };
        let suffix = if binary { suffix.to_owned() } else { format!("e{exponent}") };
        let nano = Quantity::parse(&format!("{sign}{whole}.{fraction}{suffix}"))?.nano();
        let capped = binary && nano.abs() >= i128::from(i64::MAX) * UNIT;
        Some(Amount::Long { nano, scale: if capped { 0 } else { NANO } })
    }

    /// A whole number.
    pub fn of_whole(value: i64) -> Amount {
        Amount::Short { value, scale: 0 }
    }

    /// An amount that an API server has kept: it writes each in one way, and which of two, powers
    /// of two or of ten, is taken to be the shorter one.
    pub fn kept(amount: Quantity) -> Amount {
        let nano = amount.nano();
        if nano == 0 {
            return Amount::of_whole(0);
        }
        let (mut value, mut scale) = (nano, NANO);
        while value % 1_000 == 0 {
            (value, scale) = (value / 1_000, scale + 3);
        }
        let digits = |value: i128| value.unsigned_abs().checked_ilog10().map_or(1, |it| it + 1);
        let (mut twos, mut power) = (nano / UNIT, 0);
        while twos != 0 && twos % 1_024 == 0 {
            (twos, power) = (twos / 1_024, power + 1);
        }
        let binary = nano % UNIT == 0 && power > 0 && digits(twos) < digits(value);
        let fits = match binary {
            true => digits(twos) as usize + 3 * power <= BINARY_DIGITS_MAX,
            false => digits(value) as usize <= DIGITS_MAX,
        };
        let short = match binary {
            true => i64::try_from(nano / UNIT).map(|value| (value, 0)),
            false => i64::try_from(value).map(|value| (value, scale)),
        };
        match short {
            Ok((value, scale)) if fits => Amount::Short { value, scale },
            _ => Amount::Long { nano, scale: NANO },
        }
    }

    /// Billionths of a unit.
    pub fn nano(self) -> i128 {
        match self {
            Amount::Short { value, scale } => scaled(value.into(), scale.saturating_sub(NANO)),
            Amount::Long { nano, .. } => nano,
        }
    }

    /// The whole number that it is, if it is one.
    pub fn whole(self) -> Option<i64> {
        let Amount::Short { value, scale: scale @ 0.. } = self else { return None };
        i64::try_from(scaled(value.into(), scale)).ok()
    }

    /// The number with a fraction that it is about.
    pub fn double(self) -> f64 {
        let (base, scale) = match self {
            Amount::Short { value, scale } => (value as f64, scale),
            Amount::Long { nano, scale } => {
                let unscaled = u32::try_from(scale.saturating_sub(NANO)).ok();
                let unscaled = unscaled.and_then(|power| 10_i128.checked_pow(power));
                (unscaled.map_or(0, |power| nano / power) as f64, scale)
            }
        };
        if scale == 0 { base } else { base * power_of_ten(scale) }
    }

    /// A sum, or with `less` a difference.
    pub fn plus(self, other: Amount, less: bool) -> Amount {
        let scale_of = |amount: Amount| match amount {
            Amount::Short { scale, .. } | Amount::Long { scale, .. } => scale,
        };
        if let (Amount::Short { value: a, scale }, Amount::Short { value: b, scale: below }) =
            (self, other)
        {
            let b = if less { b.wrapping_neg() } else { b };
            if let Some(sum) = sum((a, scale), (b, below)) {
                return Amount::Short { value: sum.0, scale: sum.1 };
            }
        }
        let (a, b) = (self.nano(), other.nano());
        let nano = if less { a.saturating_sub(b) } else { a.saturating_add(b) };
        Amount::Long { nano, scale: scale_of(self).min(scale_of(other)) }
    }

    /// Which is less.
    pub fn compare(self, other: Amount) -> Ordering {
        self.nano().cmp(&other.nano())
    }
}

/// The digits at the beginning of a text, and the rest.
fn digits_of(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The power that a suffix stands for, and whether it is one of two.
fn power(suffix: &str) -> Option<(i32, bool)> {
    let known = SUFFIXES.iter().find(|(known, ..)| *known == suffix);
    if let Some((_, power, binary)) = known {
        return Some((*power, *binary));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // It is cut off to 32 bits in Kubernetes.
    Some((exponent as i32, false))
}

/// Digits and their power of ten, of what is kept short.
fn short(whole: &str, fraction: &str, exponent: i32, binary: bool) -> Option<(i64, i32)> {
    let digits = whole.len() + fraction.len();
    if binary {
        let room = usize::try_from(exponent * 3 / 10).ok()?;
        let short = fraction.is_empty() && digits + room <= BINARY_DIGITS_MAX;
        let value: i64 = whole.parse().ok().filter(|_| short)?;
        return value.checked_mul(1 << exponent).map(|value| (value, 0));
    }
    let scale = exponent.wrapping_sub(i32::try_from(fraction.len()).ok()?);
    if digits > DIGITS_MAX || scale < NANO {
        return None;
    }
    format!("{whole}{fraction}").parse().ok().map(|value| (value, scale))
}

/// The sum of two numbers with their powers of ten, if it is short.
fn sum(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    match (a.0, b.0) {
        (_, 0) => return Some(a),
        (0, _) => return Some(b),
        _ => {}
    }
    let scale = a.1.min(b.1);
    let at = |(value, of): (i64, i32)| {
        i64::try_from(scaled(value.into(), of.saturating_sub(scale))).ok()
    };
    at(a)?.checked_add(at(b)?).map(|value| (value, scale))
}

/// `value * 10^scale`, saturating; the scale is not below zero.
fn scaled(value: i128, scale: i32) -> i128 {
    let power = u32::try_from(scale).ok().and_then(|scale| 10_i128.checked_pow(scale));
    match power {
        Some(power) => value.saturating_mul(power).max(-i128::MAX),
        None => value.signum().saturating_mul(i128::MAX),
    }
}

/// A power of ten as Go's `math.Pow10` has it: a product or quotient of two.
fn power_of_ten(power: i32) -> f64 {
    let of = |power: u32| format!("1e{power}").parse::<f64>().unwrap_or(f64::INFINITY);
    let size = power.unsigned_abs();
    let (large, small) = (size - size % 32, of(size % 32));
    match power {
        0..=308 => of(large) * small,
        309.. => f64::INFINITY,
        -323..0 => format!("1e-{large}").parse::<f64>().unwrap_or(0.0) / small,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Option<i64> {
        Amount::kept(Quantity::parse(text).expect(text)).whole()
    }

    #[test]
    fn what_an_api_server_kept_is_whole_where_what_it_writes_of_it_is() {
        let rows = [
            ("1.5Gi", Some(3 << 29)),
            ("2.0", Some(2)),
            ("2000m", Some(2)),
            ("1500m", None),
            ("0.5k", Some(500)),
            ("1000Ki", Some(1_024_000)),
            ("10Ti", Some(10 << 40)),
            ("100Ti", None),
            ("1Pi", None),
            ("1P", Some(1_000_000_000_000_000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("10E", None),
            ("9223372036854775807", None),
            ("9223372036854775000", Some(9_223_372_036_854_775_000)),
            ("0", Some(0)),
            ("-3", Some(-3)),
            ("-1Pi", None),
        ];
        for (text, whole) in rows {
            assert_eq!(kept(text), whole, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_whole_where_it_is_short_and_has_no_part() {
        let whole = "2 2. 0.5k=500 1.50k=1500 1e3=1000 1.5e1=15 1536Mi=1610612736 \
            10Ti=10995116277760 9E=9000000000000000000 -3 000=0 -=0 0Gi=0 \
            999999999999999999 -1.5k=-1500 0012=12";
        for row in whole.split_ascii_whitespace() {
            let (text, number) = row.split_once('=').unwrap_or((row, row.trim_end_matches('.')));
            let found = Amount::parse(text).expect(text).whole();
            assert_eq!(found, number.parse().ok(), "{text}");
        }
        for text in
            "2.0 0.0 1500m 2000m 10e-1 1.5Gi 100Ti 1Pi 0Pi 10E 1000000000000000000 1n 1.2345k"
                .split_ascii_whitespace()
        {
            assert_eq!(Amount::parse(text).expect(text).whole(), None, "{text}");
        }
        let half = Amount::parse("500m").expect("a quantity");
        assert_eq!(half.plus(half, false).whole(), None);
        let thousand = Amount::parse("1k").expect("a quantity");
        assert_eq!(thousand.plus(Amount::of_whole(1), true).whole(), Some(999));
        // Three times the tenth that a number with a fraction has is not its three tenths.
        assert_eq!(Amount::parse("0.3").expect("a quantity").double(), 3.0 * 0.1);
        assert_eq!(Amount::parse("1.5Gi").expect("a quantity").double(), 1_610_612_736.0);
    }

    #[test]
    fn texts_are_read_as_kubernetes_reads_them() {
        for text in ["", "1x", "1.2.3", "1e", "1e+", "1 ", "x", "Pi", ".Ei", "--1", "e1.5", "1i"] {
            assert!(Amount::parse(text).is_none(), "{text}");
        }
        for (text, nano) in [("-", 0), ("+", 0), (".", 0), ("k", 0), ("Gi", 0), ("1.", 1)] {
            let found = Amount::parse(text).map(Amount::nano);
            assert_eq!(found, Some(nano * 1_000_000_000), "{text}");
        }
        assert_eq!(Amount::parse("0.0000000001").map(Amount::nano), Some(1));
        assert_eq!(Amount::parse("-1.5Gi").map(Amount::nano), Some(-1_610_612_736_000_000_000));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_both_readings_amount_to_the_same(
            text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,20})?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?",
        ) {
            let (found, known) = (Amount::parse(&text), Quantity::parse(&text));
            if let (Some(found), Some(known)) = (found, known) {
                proptest::prop_assert_eq!(found.nano(), known.nano());
                let sum = found.plus(found, false).plus(found, true);
                let small = known.nano().abs() < i128::MAX / 2;
                proptest::prop_assert!(!small || sum.nano() == known.nano());
                _ = found.double();
                _ = Amount::kept(known).nano();
            }
        }
    }
}
