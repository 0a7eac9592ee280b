//! How amounts are written for people: CPU in cores, bytes in binary units, GPUs as GPUs.
//!
//! Two amounts that stand side by side never read the same when they differ: [`pair`] takes finer
//! units until they do not. Amounts are whole, as everywhere in the engine (CPU in milli-units,
//! money in micro-USD).

pub use crate::gpus::{is_gpu, is_whole_gpu};
use crate::model::input::UNLIMITED;
use crate::money::MicroUsd;

/// The pseudo-resource whose quota is money per hour, in micro-USD.
pub const USD_PER_HOUR: &str = "capstan.sh/usd-per-hour";

/// How much of what the engine counts a resource in makes one unit of it.
pub fn per_unit(resource: &str) -> i64 {
    match resource {
        "cpu" => 1_000,
        USD_PER_HOUR => 1_000_000,
        _ => 1,
    }
}

/// What people write quota of a resource in wholes of: a core, a gibibyte, a cent, a device.
pub fn whole(resource: &str) -> i64 {
    match resource {
        USD_PER_HOUR => 10_000,
        bytes if is_bytes(bytes) => 1 << 30,
        other => per_unit(other),
    }
}

/// Binary units, largest first.
const UNITS: [(&str, i64); 5] =
    [("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

/// Whether the resource is counted in bytes.
fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage" | "storage")
        || resource.starts_with("hugepages-")
}

/// The amount without the resource's name: `3.5`, `64Gi`, `8`, `$12.50/h`.
pub fn quantity(resource: &str, amount: i64) -> String {
    if amount == UNLIMITED {
        "unlimited".to_owned()
    } else if resource == "cpu" {
        cores(amount)
    } else if is_bytes(resource) {
        bytes(amount, 0)
    } else if resource == USD_PER_HOUR {
        format!("${}/h", MicroUsd(amount))
    } else {
        amount.to_string()
    }
}

/// An hourly price in dollars of which some may be unknown: `36.75`, `36.75+`.
pub fn price(per_hour: MicroUsd, unpriced: u32) -> String {
    format!("{per_hour}{}", if unpriced > 0 { "+" } else { "" })
}

/// Two amounts of one resource that are compared: written alike only when they are equal.
pub fn pair(resource: &str, one: i64, other: i64) -> (String, String) {
    let plain = (quantity(resource, one), quantity(resource, other));
    if one == other || plain.0 != plain.1 {
        return plain;
    }
    if resource == USD_PER_HOUR {
        return (format!("{one} micro-USD/h"), format!("{other} micro-USD/h"));
    }
    let finer = (1..=UNITS.len()).map(|skip| (bytes(one, skip), bytes(other, skip)));
    finer.into_iter().find(|(a, b)| a != b).unwrap_or(plain)
}

/// What the resource is called in front of people, agreeing with the amount: `1 GPU`, `8 GPUs`.
pub fn noun(resource: &str, amount: i64) -> &str {
    match resource {
        "nvidia.com/gpu" | "amd.com/gpu" if amount == 1 => "GPU",
        "nvidia.com/gpu" | "amd.com/gpu" => "GPUs",
        USD_PER_HOUR => "",
        other => other,
    }
}

/// Number and noun as quota speaks: `8 GPUs`, `3.5 cpu`, `64Gi memory`, `$12.50/h`.
pub fn amount(resource: &str, amount: i64) -> String {
    join(&quantity(resource, amount), noun(resource, amount))
}

/// The same of an amount that people are told to add: they are never told less than it is. Exact
/// where that takes few digits, else the next larger number that does: `2108Mi memory`,
/// `$10.47/h`.
pub fn at_least(resource: &str, amount: i64) -> String {
    let number = match resource {
        _ if amount == UNLIMITED || amount <= 0 => quantity(resource, amount),
        USD_PER_HOUR => format!("${}/h", MicroUsd(amount).rounded_up()),
        bytes if is_bytes(bytes) => bytes_up(amount),
        _ => quantity(resource, amount),
    };
    join(&number, noun(resource, amount))
}

/// Number and full name as nodes speak: `8 nvidia.com/gpu`.
pub fn named(resource: &str, amount: i64) -> String {
    join(&quantity(resource, amount), if resource == USD_PER_HOUR { "" } else { resource })
}

/// A count and its noun: `1 pod`, `3 pods`.
pub fn counted(count: i64, singular: &str) -> String {
    if count == 1 { format!("1 {singular}") } else { format!("{count} {singular}s") }
}

/// `1st`, `2nd`, `3rd`, `4th`, `11th`, `22nd`.
pub fn ordinal(number: u32) -> String {
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn join(number: &str, noun: &str) -> String {
    if noun.is_empty() { number.to_owned() } else { format!("{number} {noun}") }
}

/// Milli-CPU as cores: `250m` below one, `3.5` above.
fn cores(milli: i64) -> String {
    let (sign, size) = (if milli < 0 { "-" } else { "" }, milli.unsigned_abs());
    match (size / 1_000, size % 1_000) {
        (0, 0) => "0".to_owned(),
        (0, rest) => format!("{sign}{rest}m"),
        (whole, 0) => format!("{sign}{whole}"),
        (whole, rest) => format!("{sign}{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
    }
}

/// Bytes in the largest binary unit that leaves at least one, one decimal, rounded down;
/// `finer` goes that many units further down.
fn bytes(amount: i64, finer: usize) -> String {
    let (sign, size) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
    let largest = UNITS.iter().position(|(_, unit)| size >= unit.unsigned_abs());
    let Some((name, unit)) = largest.and_then(|at| UNITS.get(at + finer)) else {
        return format!("{sign}{size}");
    };
    let unit = unit.unsigned_abs();
    // `size % unit` is below 2^50, so ten times it cannot overflow.
    let tenth = size % unit * 10 / unit;
    if tenth == 0 {
        format!("{sign}{}{name}", size / unit)
    } else {
        format!("{sign}{}.{tenth}{name}", size / unit)
    }
}

/// Bytes in the largest binary unit that leaves at least one where that says it exactly, else in
/// the next smaller one, rounded up.
fn bytes_up(amount: i64) -> String {
    let Some(largest) = UNITS.iter().position(|(_, unit)| amount >= *unit) else {
        return amount.to_string();
    };
    let (_, unit) = UNITS[largest];
    if amount % unit * 10 % unit == 0 {
        return bytes(amount, 0);
    }
    match UNITS.get(largest + 1) {
        Some((name, finer)) => {
            format!("{}{name}", amount / finer + i64::from(amount % finer > 0))
        }
        None => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GI: i64 = 1 << 30;

    #[test]
    fn ordinals_follow_english() {
        let shown: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111].map(ordinal).into();
        assert_eq!(shown, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"]);
    }

    #[test]
    fn each_resource_reads_in_its_own_unit() {
        let rows = [
            ("cpu", 0, "0"),
            ("cpu", 250, "250m"),
            ("cpu", 3_500, "3.5"),
            ("cpu", -1_001, "-1.001"),
            ("cpu", 64_000, "64"),
            ("memory", 64 * GI, "64Gi"),
            ("memory", GI + GI / 2, "1.5Gi"),
            ("memory", 1_023, "1023"),
            ("memory", -2 * GI, "-2Gi"),
            ("hugepages-2Mi", 4 << 20, "4Mi"),
            ("ephemeral-storage", i64::MIN, "-8192Pi"),
            ("nvidia.com/gpu", 8, "8"),
            ("pods", UNLIMITED, "unlimited"),
            (USD_PER_HOUR, 12_500_000, "$12.50/h"),
        ];
        for (resource, amount, expected) in rows {
            assert_eq!(quantity(resource, amount), expected, "{amount} of {resource}");
        }
    }

    #[test]
    fn amounts_carry_their_noun() {
        assert_eq!(amount("nvidia.com/gpu", 1), "1 GPU");
        assert_eq!(amount("nvidia.com/gpu", 0), "0 GPUs");
        assert_eq!(amount("memory", 64 * GI), "64Gi memory");
        assert_eq!(amount(USD_PER_HOUR, 1_000_000), "$1.00/h");
        assert_eq!(named("nvidia.com/gpu", 8), "8 nvidia.com/gpu");
        assert_eq!(named("nvidia.com/mig-1g.5gb", 2), "2 nvidia.com/mig-1g.5gb");
        assert_eq!(counted(1, "pod"), "1 pod");
        assert_eq!(counted(0, "pod"), "0 pods");
    }

    #[test]
    fn amounts_to_add_are_never_told_too_small() {
        const MI: i64 = 1 << 20;
        let rows = [
            ("memory", 2_108 * MI, "2108Mi memory"),
            ("memory", 2 * GI, "2Gi memory"),
            ("memory", GI + GI / 2, "1.5Gi memory"),
            ("memory", 2 * GI + 1, "2049Mi memory"),
            ("memory", 5 * MI + 1, "5121Ki memory"),
            ("memory", 1_025, "1025 memory"),
            ("memory", 1, "1 memory"),
            ("ephemeral-storage", i64::MAX - 1, "8388608Ti ephemeral-storage"),
            ("memory", UNLIMITED, "unlimited memory"),
            ("cpu", 1_001, "1.001 cpu"),
            ("nvidia.com/gpu", 1, "1 GPU"),
            (USD_PER_HOUR, 10_460_001, "$10.47/h"),
            (USD_PER_HOUR, 10_460_000, "$10.46/h"),
            (USD_PER_HOUR, 50, "$0.00005/h"),
            (USD_PER_HOUR, 9_999, "$0.009999/h"),
        ];
        for (resource, amount, expected) in rows {
            assert_eq!(at_least(resource, amount), expected, "{amount} of {resource}");
        }
    }

    #[test]
    fn amounts_that_differ_never_read_the_same() {
        let read = |one, other| pair("memory", one, other);
        assert_eq!(read(64 * GI, 63 * GI), ("64Gi".into(), "63Gi".into()));
        assert_eq!(read(64 * GI, 64 * GI + 1), ("68719476736".into(), "68719476737".into()));
        assert_eq!(read(64 * GI, 64 * GI + (5 << 20)), ("65536Mi".into(), "65541Mi".into()));
        assert_eq!(read(GI, GI), ("1Gi".into(), "1Gi".into()));
        let money = pair(USD_PER_HOUR, 1_000_001, 1_000_002);
        assert_eq!(money, ("1000001 micro-USD/h".into(), "1000002 micro-USD/h".into()));
    }
}
