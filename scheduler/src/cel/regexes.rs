//! Patterns: `matches`, `find` and `findAll`.
//!
//! What a pattern is, [`translated`] decides. One that needs more room than [`PATTERN_MAX`], or is
//! nested more than [`NEST_MAX`] deep (groups, classes, repetitions and rows of parts are a level
//! each; Go takes a thousand), is not used, and the bound is named as the reason.
//!
//! Cost: a pattern is paid for once in an evaluation, by the states that it is compiled to, and
//! each use by these and by the text. Patterns that were compiled lately are kept, which changes no
//! cost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::{Error, Regex, RegexBuilder};

use super::Fault;
use super::eval::Scope;
use super::pattern::translated;
use super::value::Value;

/// Bytes that a compiled pattern may take.
const PATTERN_MAX: usize = 1 << 20;

/// How deep a pattern may be nested: what compiles it looks into it by calls within calls.
const NEST_MAX: u32 = 250;

/// Characters of a pattern that are shown.
const SHOWN_MAX: usize = 60;

/// What a use of a pattern costs, in steps.
const USE_COST: usize = 10;

/// What a pattern costs to compile, in steps, beside its states.
const PATTERN_COST: usize = 100;

/// What a state of a pattern costs to compile, in steps.
const STATE_COST: usize = 16;

/// States of what stands for any character: it has ways for each length of one.
const ANY_STATES: usize = 20;

/// States of the letters of scripts.
const SCRIPT_STATES: usize = 300;

/// Compiled patterns that are kept, in each thread.
const KEPT_MAX: usize = 32;

thread_local! {
    static KEPT: RefCell<BTreeMap<Arc<str>, Result<Regex, Fault>>> = RefCell::default();
}

/// Patterns that an evaluation has paid for.
#[derive(Default)]
pub(super) struct Patterns(BTreeSet<Arc<str>>);

/// Whether something is a pattern.
pub(super) fn check(pattern: &str) -> Result<(), Fault> {
    translated(pattern).map(|_| ()).ok_or_else(|| no_pattern(pattern))
}

/// A pattern.
fn compile(pattern: &str) -> Result<Regex, Fault> {
    let made = translated(pattern).ok_or_else(|| no_pattern(pattern))?;
    let built = RegexBuilder::new(&made).size_limit(PATTERN_MAX).nest_limit(NEST_MAX).build();
    built.map_err(|error| match error {
        Error::CompiledTooBig(_) => Fault::new(format!(
            "the pattern {} needs more than {PATTERN_MAX} bytes, which is the most here",
            shown(pattern)
        )),
        // What is made is a pattern in all else.
        error if error.to_string().contains("maximum number of nested") => Fault::new(format!(
            "the pattern {} is nested more than {NEST_MAX} deep, which is the most here",
            shown(pattern)
        )),
        _ => no_pattern(pattern),
    })
}

fn no_pattern(pattern: &str) -> Fault {
    Fault::new(format!("{} is no pattern", shown(pattern)))
}

/// A pattern, or how it begins.
fn shown(pattern: &str) -> String {
    match pattern.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}...", &pattern[..end]),
        None => format!("{pattern:?}"),
    }
}

/// A pattern, paid for.
pub(super) fn paid(scope: &mut Scope, text: &str, pattern: &str) -> Result<Regex, Fault> {
    let states = states(pattern);
    let width = pattern.len().max(states / 2);
    let steps = text.len().saturating_mul(1 + width / 4) / 10;
    scope.spend(steps.saturating_add(USE_COST))?;
    if !scope.patterns.0.contains(pattern) {
        scope.spend(states.saturating_mul(STATE_COST).saturating_add(PATTERN_COST))?;
        scope.patterns.0.insert(pattern.into());
    }
    kept(pattern)
}

/// A pattern, compiled now or lately.
fn kept(pattern: &str) -> Result<Regex, Fault> {
    let known = KEPT.with_borrow(|kept| kept.get(pattern).cloned());
    if let Some(known) = known {
        return known;
    }
    let made = compile(pattern);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(pattern.into(), made.clone());
    });
    made
}

/// About how many states a pattern is compiled to: its characters, as often as they are repeated.
fn states(pattern: &str) -> usize {
    // What the groups around have come to, and of each what stood last.
    let mut outer: Vec<usize> = Vec::new();
    let (mut sum, mut last) = (0_usize, 0_usize);
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let mut taken = next.len_utf8();
        match next {
            '(' => {
                outer.push(sum);
                (sum, last) = (0, 0);
            }
            ')' => {
                last = sum;
                sum = outer.pop().unwrap_or(0).saturating_add(last);
            }
            '{' => {
                if let Some(most) = repeats(rest) {
                    // Without an end, what is repeated stands once more.
                    let times = usize::try_from(most).unwrap_or(usize::MAX).max(1);
                    let more = last.saturating_mul(times);
                    sum = sum.saturating_add(more);
                    last = last.saturating_add(more);
                    taken = rest.find('}').map_or(taken, |end| end + 1);
                }
            }
            '*' | '+' | '?' | '|' | '^' | '$' => {}
            _ => {
                (taken, last) = character(rest);
                sum = sum.saturating_add(last);
            }
        }
        rest = rest.get(taken..).unwrap_or("");
    }
    outer.into_iter().fold(sum, usize::saturating_add)
}

/// How long a character, an escape or a class is, and how many states it needs.
fn character(rest: &str) -> (usize, usize) {
    let wide = |wide: bool| if wide { ANY_STATES } else { 1 };
    let length = |text: &str| text.chars().next().map_or(0, char::len_utf8);
    match rest.as_bytes()[0] {
        b'\\' => {
            let states = match rest.as_bytes().get(1) {
                Some(b'p' | b'P') => SCRIPT_STATES,
                sign => wide(matches!(sign, Some(b'D' | b'S' | b'W'))),
            };
            (1 + length(&rest[1..]), states)
        }
        b'[' => {
            let inner = rest[1..].strip_prefix('^').unwrap_or(&rest[1..]);
            let begins = rest.len() - inner.len();
            // A `]` at its beginning is a character.
            let first = length(inner);
            let mut end = begins + first;
            while let Some(next) = rest.get(end..).and_then(|rest| rest.chars().next()) {
                end += next.len_utf8();
                match next {
                    '\\' => end += length(rest.get(end..).unwrap_or("")),
                    ']' => break,
                    _ => {}
                }
            }
            let class = &rest[..end.min(rest.len())];
            let script = class.contains("\\p") || class.contains("\\P");
            let many = begins > 1 || !class.is_ascii() || class.contains('\\');
            (end, if script { SCRIPT_STATES } else { wide(many) })
        }
        b'.' => (1, wide(true)),
        _ => (length(rest), wide(!rest.is_char_boundary(1))),
    }
}

/// Whether a pattern is found in a text.
pub(super) fn matches(scope: &mut Scope, text: &str, pattern: &str) -> Result<Value, Fault> {
    Ok(Value::Bool(paid(scope, text, pattern)?.is_match(text)))
}

/// All that fits a pattern, or so many; below zero: all.
pub(super) fn all(scope: &mut Scope, text: &str, pattern: &str, most: i64) -> Result<Value, Fault> {
    let pattern = paid(scope, text, pattern)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    for found in pattern.find_iter(text).take(most) {
        // To find the next one, it may look at all that is left, for each anew.
        scope.spend(1 + (text.len() - found.end()) / 10)?;
        all.push(Value::Text(found.as_str().into()));
    }
    Ok(Value::List(Arc::new(all)))
}

/// How often `{..}` repeats something, at most; `None`: it is a character like others.
fn repeats(rest: &str) -> Option<u64> {
    let (inner, _) = rest[1..].split_once('}')?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let known = !least.is_empty() && digits(least) && digits(most);
    let count = |text: &str| if text.is_empty() { 0 } else { text.parse().unwrap_or(u64::MAX) };
    known.then(|| count(least).max(count(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_about_as_many_as_are_compiled() {
        let expected = [
            ("", 0),
            ("abc", 3),
            ("[a-z0-9]+", 1),
            ("a{3}b", 5),
            ("(ab){2,4}", 10),
            (".", ANY_STATES),
            ("(?:.{0,30}){0,30}", 31 * 31 * ANY_STATES + 31),
            ("[^a]é", 2 * ANY_STATES),
            ("[]a]b", 2),
            ("a{,2}", 4),
            (")", 0),
            ("(((a", 1),
            ("[", 1),
            ("\\", 1),
        ];
        for (pattern, count) in expected {
            assert_eq!(states(pattern), count, "{pattern}");
        }
        assert_eq!(states("((a{1000}){1000}){1000}{1000}{1000}{1000}{1000}"), usize::MAX);
    }

    #[test]
    fn patterns_are_those_of_re2() {
        let is = |pattern: &str, text: &str| compile(pattern).expect(pattern).is_match(text);
        assert!(is(r"^\d+$", "12") && !is(r"^\d$", "\u{663}"));
        assert!(is(r"^[\w-]+$", "a-b_1") && !is(r"^\w$", "é") && is(r"^\W$", "é"));
        assert!(is("^[[]$", "[") && is("^[]a]+$", "]a") && is("^[^]]$", "x") && !is("^[^]]$", "]"));
        assert!(is("^[a&&b]+$", "a&b") && is("^[[:alpha:]_]+$", "ab_") && is(r"^\[x\]$", "[x]"));
        assert!(is(r"\bgpu\b", "a gpu b") && is(r"^[^\D]$", "1") && is(r"^\101$", "A"));
        assert!(is(r"^\Qa.b\E+$", "a.bb") && is("(?i)^A(?P<x>b)$", "ab"));
        assert!(is("^{a{,2}}$", "{a{,2}}") && is("^a{2,3}b{1}$", "aab"));
        assert!(is("^a*?b+?c??d{2}?$", "aabdd") && is("^(?:a*)*[*+]+$", "aa+*"));
        for odd in ["a**", "a+*", "a*??", "a{2}{3}", "a{2}*"] {
            assert!(compile(odd).is_err(), "{odd}");
        }
        for odd in ["(", "[a", "a{1001}", "(?x)a", r"(a)\1", "a(?=b)", "\\"] {
            assert!(compile(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_is_beyond_a_bound_says_so_and_is_not_called_no_pattern() {
        let around = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
        assert!(compile(&around(200)).expect("a pattern").is_match("a"));
        let said = |pattern: &str| compile(pattern).expect_err(pattern).to_string();
        let deep = said(&around(300));
        let begins = format!("{:?}...", "(".repeat(SHOWN_MAX));
        let bound = "is nested more than 250 deep, which is the most here";
        assert_eq!(deep, format!("the pattern {begins} {bound}"));
        let large = said(r"(?:\pL{30}){30}");
        assert!(
            large.ends_with("needs more than 1048576 bytes, which is the most here"),
            "{large}"
        );
        assert_eq!(said("("), "\"(\" is no pattern");
        assert_eq!(said(&"é(".repeat(40)), format!("{:?}... is no pattern", "é(".repeat(30)));
    }
}
