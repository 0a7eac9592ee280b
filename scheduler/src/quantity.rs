//! Kubernetes quantities and decimal money, read exactly.
//!
//! Decides what `500m`, `1.5Gi` or `1e3` amount to, in whole numbers only: nano-units in an
//! `i128`, rounded away from zero below that as the API server does, saturating above. What a
//! resource is measured in (CPU in milli-units, money in micro-USD, all else in units) is decided
//! here too.

use std::borrow::Cow;
use std::fmt;

use capstan_core::explain::quantity::{USD_PER_HOUR, per_unit};
use capstan_core::money::MicroUsd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// An amount of a resource, exact to a billionth of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nano: i128,
}

/// Name of the schema format by which the reader knows a quantity.
pub const FORMAT: &str = "quantity";

/// Nano-units of one unit.
const UNIT: i128 = 1_000_000_000;

/// Decimal digits that surely fit an `i128`.
const DIGITS_MAX: usize = 38;

impl Quantity {
    /// The least above zero: a billionth of a unit.
    pub const SMALLEST: Quantity = Quantity { nano: 1 };

    /// Reads the grammar of Kubernetes: a signed decimal and one suffix of `n u m k M G T P E`,
    /// `Ki Mi Gi Ti Pi Ei`, or an exponent. `None`: it is no quantity.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (whole, fraction) = rest[..number].split_once('.').unwrap_or((&rest[..number], ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (exponent, shift) = suffix(&rest[number..])?;
        let digits = format!("{whole}{fraction}");
        let scale = exponent.saturating_sub(fraction.len() as i64).saturating_add(9);
        let nano = nano(&digits, scale, shift);
        // An API server caps what is written in powers of two, and nothing else.
        let nano = if shift > 0 { nano.min(i128::from(i64::MAX) * UNIT) } else { nano };
        Some(Quantity { nano: if negative { -nano } else { nano } })
    }

    /// So many billionths of a unit.
    pub fn of_nano(nano: i128) -> Quantity {
        Quantity { nano }
    }

    /// Billionths of a unit.
    pub fn nano(self) -> i128 {
        self.nano
    }

    /// Whole units, rounded up, saturating.
    pub fn units(self) -> i64 {
        self.per(UNIT)
    }

    /// Milli-units, rounded up, saturating.
    pub fn milli(self) -> i64 {
        self.per(UNIT / 1_000)
    }

    /// In what the engine counts this resource in: CPU in milli-units, money in micro-USD, all else
    /// in units.
    pub fn amount_of(self, resource: &str) -> i64 {
        match resource {
            "cpu" => self.milli(),
            USD_PER_HOUR => self.dollars().0,
            _ => self.units(),
        }
    }

    /// So much of a resource, in what the engine counts it in.
    pub fn of_amount(resource: &str, amount: i64) -> Quantity {
        let nano = UNIT / i128::from(per_unit(resource));
        Quantity { nano: i128::from(amount) * nano }
    }

    /// As US dollars, in millionths, rounded half up, saturating.
    pub fn dollars(self) -> MicroUsd {
        let up = i128::from(self.nano.rem_euclid(1_000) >= 500);
        let micro = self.nano.div_euclid(1_000) + up;
        MicroUsd(i64::try_from(micro).unwrap_or(if micro < 0 { i64::MIN } else { i64::MAX }))
    }

    /// What is said of a part of an extended resource, which is asked in whole units.
    pub fn part_of_a_device(self, resource: &str) -> Option<String> {
        let extended = resource.contains('/') && !resource.contains("kubernetes.io/");
        let part = extended && self.nano % UNIT != 0;
        part.then(|| format!("{self} is no whole number; {resource} is asked in whole units"))
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    fn per(self, step: i128) -> i64 {
        let up = i128::from(self.nano.rem_euclid(step) != 0);
        let whole = self.nano.div_euclid(step) + up;
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

/// Decimal exponent and binary shift of a suffix.
fn suffix(text: &str) -> Option<(i64, u32)> {
    Some(match text {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let exponent = text.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Beyond a million every value is zero or saturated anyway.
            let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1_000_000);
            (if exponent.starts_with('-') { -size } else { size }, 0)
        }
    })
}

/// `digits * 10^scale * 2^shift`, rounded up, saturating.
fn nano(digits: &str, scale: i64, shift: u32) -> i128 {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return 0;
    }
    let kept = &significant[..significant.len().min(DIGITS_MAX)];
    let dropped = &significant[kept.len()..];
    let mut scale = scale.saturating_add(dropped.len() as i64);
    let mut value: i128 = kept.parse().unwrap_or(i128::MAX);
    value = value.saturating_add(i128::from(dropped.bytes().any(|b| b != b'0')));
    while scale < 0 && value.checked_mul(1 << shift).is_none() {
        value = value.div_euclid(10) + i128::from(value % 10 != 0);
        scale += 1;
    }
    value = value.saturating_mul(1 << shift);
    if scale >= 0 {
        return u32::try_from(scale)
            .ok()
            .and_then(|s| 10i128.checked_pow(s))
            .map_or(i128::MAX, |power| value.saturating_mul(power));
    }
    match u32::try_from(-scale).ok().and_then(|s| 10i128.checked_pow(s)) {
        Some(power) => value.div_euclid(power) + i128::from(value % power != 0),
        None => 1,
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a quantity such as 16, 2.5 or 64Gi")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text).ok_or_else(|| E::custom(complaint(text)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Quantity, E> {
        // The shortest decimal that means this float is what was written.
        self.visit_str(&value.to_string())
    }
}

/// What is said of a text that is no quantity.
pub fn complaint(text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("{shown:?} is no quantity (try 16, 2.5, 64Gi)")
}

/// What is said of an amount below zero.
pub fn below_zero(amount: Quantity) -> String {
    format!("{amount} is below zero; an amount is 0 or more")
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Quantity {
    /// The largest of units, milli-units and nano-units that shows it exactly; whole mebibytes as
    /// such, or larger: nothing but memory is counted in millions.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = ["Ei", "Pi", "Ti", "Gi", "Mi"].into_iter().find_map(|unit| {
            let size = UNIT << suffix(unit)?.1;
            (self.nano != 0 && self.nano % size == 0).then(|| format!("{}{unit}", self.nano / size))
        });
        if let Some(binary) = binary {
            return out.write_str(&binary);
        }
        match self.nano {
            n if n % UNIT == 0 => write!(out, "{}", n / UNIT),
            n if n % (UNIT / 1_000) == 0 => write!(out, "{}m", n / (UNIT / 1_000)),
            n => write!(out, "{n}n"),
        }
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "format": FORMAT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn milli(text: &str) -> i64 {
        Quantity::parse(text).expect(text).milli()
    }

    fn units(text: &str) -> i64 {
        Quantity::parse(text).expect(text).units()
    }

    #[test]
    fn every_suffix_has_its_weight() {
        for (text, want) in [
            ("16", 16),
            ("+16", 16),
            ("2k", 2_000),
            ("3M", 3_000_000),
            ("4G", 4_000_000_000),
            ("5T", 5_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ki", 1 << 10),
            ("1Mi", 1 << 20),
            ("1Gi", 1 << 30),
            ("1Ti", 1 << 40),
            ("1Pi", 1 << 50),
            ("1Ei", 1 << 60),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("12E-1", 2),
            ("1.5Gi", 3 << 29),
            (".5k", 500),
            ("5.", 5),
            ("-2", -2),
        ] {
            assert_eq!(units(text), want, "{text}");
        }
    }

    #[test]
    fn parts_round_up() {
        assert_eq!(milli("1500u"), 2);
        assert_eq!(milli("1n"), 1);
        assert_eq!(milli("100m"), 100);
        assert_eq!(milli("0.1"), 100);
        assert_eq!(units("100m"), 1);
        assert_eq!(units("0.1Ki"), 103);
        assert_eq!(units("1e-30"), 1);
        assert_eq!(units("0e-30"), 0);
    }

    #[test]
    fn each_resource_is_counted_in_parts_of_its_own() {
        let rows = [
            ("cpu", "1.5", 1_500, "1500m"),
            ("memory", "1Gi", 1 << 30, "1Gi"),
            (USD_PER_HOUR, "12.50", 12_500_000, "12500m"),
            (USD_PER_HOUR, "100", 100_000_000, "100"),
            (USD_PER_HOUR, "0.0000014", 1, "1000n"),
        ];
        for (resource, text, amount, shown) in rows {
            let read = Quantity::parse(text).expect(text);
            assert_eq!(read.amount_of(resource), amount, "{text} of {resource}");
            assert_eq!(Quantity::of_amount(resource, amount).to_string(), shown, "{resource}");
        }
        let absurd = Quantity::parse("1e40").expect("a quantity");
        assert_eq!(absurd.amount_of(USD_PER_HOUR), i64::MAX);
    }

    #[test]
    fn large_ones_saturate() {
        assert_eq!(units("9223372036854775807"), i64::MAX);
        assert_eq!(units("9223372036854775808"), i64::MAX);
        assert_eq!(units("100Ei"), i64::MAX);
        assert_eq!(units("1e999999999999"), i64::MAX);
        assert_eq!(units(&"9".repeat(500)), i64::MAX);
        assert_eq!(units(&format!("-{}", "9".repeat(500))), i64::MIN);
        assert_eq!(units(&format!("0.{}1", "0".repeat(500))), 1);
        assert_eq!(units("0.123456789012345678901234567890123456789Ei"), 142_335_986_942_043_634);
    }

    #[test]
    fn other_texts_are_no_quantities() {
        for text in [
            "", " ", "16 GPUs", "Gi", "1 Gi", "1ki", "1K", "1e", "1e+", "1.2.3", ".", "-", "--1",
            "0x10", "1_000", "NaN", "inf", "１６", "1Gii", "1mm", "1e1.5",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_and_strings_are_both_read() {
        let all: Vec<Quantity> = serde_json::from_str(r#"[8, "8", 0.5, 1e3, -1]"#).expect("json");
        let shown: Vec<String> = all.iter().map(Quantity::to_string).collect();
        assert_eq!(shown, ["8", "8", "500m", "1000", "-1"]);
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }

    #[test]
    fn memory_is_shown_in_its_own_units() {
        for (text, shown) in [
            ("17179869184", "16Gi"),
            ("1536Mi", "1536Mi"),
            ("-1Gi", "-1Gi"),
            ("1048577", "1048577"),
            ("2048", "2048"),
            ("0", "0"),
        ] {
            assert_eq!(Quantity::parse(text).expect(text).to_string(), shown);
        }
    }

    #[test]
    fn dollars_are_exact_to_a_millionth() {
        assert_eq!(Quantity::parse("1.2121").map(Quantity::dollars), Some(MicroUsd(1_212_100)));
        assert_eq!(Quantity::parse("0.0000005").map(Quantity::dollars), Some(MicroUsd(1)));
        assert_eq!(Quantity::parse("-0.0000005").map(Quantity::dollars), Some(MicroUsd(0)));
        assert_eq!(Quantity::parse("1e99").map(Quantity::dollars), Some(MicroUsd(i64::MAX)));
        assert_eq!(Quantity::parse("-1e99").map(Quantity::dollars), Some(MicroUsd(i64::MIN)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn near_misses_never_panic(text in "[-+]?[0-9.]{0,60}[eEnumkMGTPKi]{0,3}[-+]?[0-9]{0,25}") {
            if let Some(quantity) = Quantity::parse(&text) {
                prop_assert!(quantity.units() <= quantity.milli() || quantity.is_negative());
            }
        }

        #[test]
        fn whole_numbers_mean_themselves(value in any::<i64>()) {
            prop_assert_eq!(units(&value.to_string()), value);
        }

        #[test]
        fn decimals_round_up(whole in 0..1_000_000i64, part in 0..1_000_000i64) {
            let text = format!("{whole}.{part:06}");
            let want = whole * 1_000 + (part + 999) / 1_000;
            prop_assert_eq!(milli(&text), want);
        }

        #[test]
        fn what_is_shown_reads_back(text in "-?[0-9]{1,12}(\\.[0-9]{1,9})?(m|k|Ki|Gi|)") {
            let quantity = Quantity::parse(&text).expect("grammar");
            prop_assert_eq!(Quantity::parse(&quantity.to_string()), Some(quantity));
        }
    }
}
