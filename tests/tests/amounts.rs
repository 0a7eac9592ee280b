//! Amounts so large that two of them have no sum in 64 bits, which an API server takes: every
//! scenario is played with some of its amounts made such, and ends with an answer.
//!
//! `AMOUNTS_ROUNDS` plays each so many times (2 where absent). What was found is a scenario:
//! `amounts-whose-sum-is-beyond-any.yaml` in `input`, `victims-that-hold-beyond-any-sum.yaml` in
//! `preemption`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use capstan_tests::scenario::{capstan, discover};
use capstan_tests::seed::Seed;

/// Keys whose values are amounts.
const KEYS: [&str; 9] = [
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "example.com/credits",
    "ephemeral-storage",
    "nominalQuota",
    "borrowingLimit",
    "lendingLimit",
];

/// What they become; the last two for CPU, which counts thousandths.
const LARGE: [&str; 6] = [
    "9223372036854775806",
    "6000000000000000000",
    "4611686018427387904",
    "3e18",
    "9223372036854775",
    "6000000000000000",
];

/// Where the digits of amounts stand in a text.
fn amounts(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for key in KEYS {
        for (at, _) in text.match_indices(key) {
            let rest = &text[at + key.len()..];
            let value = rest.trim_start_matches(['"', ' ', ':']);
            let from = text.len() - value.len();
            let digits = value.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 && rest.len() > value.len() {
                found.push((from, from + digits));
            }
        }
    }
    found.sort_unstable();
    found
}

/// The text with some of its amounts made large.
fn enlarged(text: &str, seed: &mut Seed) -> String {
    let mut text = text.to_owned();
    let share = 1 + seed.below(4);
    for (from, to) in amounts(&text).into_iter().rev() {
        if seed.below(4) < share {
            let large: &&str = seed.pick(&LARGE);
            text.replace_range(from..to, large);
        }
    }
    text
}

#[test]
fn amounts_of_any_size_end_with_an_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("large.yaml");
    let words = ["simulate", file.to_str().expect("a plain name"), "-o", "json"];
    let words = words.map(str::to_owned);
    let rounds = std::env::var("AMOUNTS_ROUNDS").map_or(2, |n| n.parse().expect("a number"));
    let (mut played, mut trouble) = (0, Vec::new());
    for path in discover(Path::new("scenarios")).expect("scenarios") {
        let text = fs::read_to_string(&path).expect("a scenario");
        let name = path.display();
        for round in 0..rounds {
            let mut seed = Seed::new(round ^ text.len() as u64);
            let large = enlarged(&text, &mut seed);
            fs::write(&file, &large).expect("writes");
            match catch_unwind(AssertUnwindSafe(|| capstan(&words))) {
                Ok(printed) if printed.code == 0 => played += 1,
                Ok(printed) if printed.code == 2 && !printed.err.is_empty() => {}
                Ok(printed) => trouble.push(format!("{name}, {round}: exit {}", printed.code)),
                Err(_) => trouble.push(format!("{name}, {round}: a panic")),
            }
        }
    }
    assert!(trouble.is_empty(), "{}", trouble.join("\n"));
    assert!(played > 100, "only {played} were played");
}

#[test]
fn amounts_are_found_with_and_without_quotes() {
    let text = r#"{cpu: "8", memory: 31Gi, "nvidia.com/gpu": 4, name: cpu}"#;
    let found = amounts(text);
    let digits: Vec<&str> = found.iter().map(|(from, to)| &text[*from..*to]).collect();
    assert_eq!(digits, ["8", "31", "4"]);
}
