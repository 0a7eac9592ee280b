//! Patterns: `matches`, `find` and `findAll`.
//!
//! Kubernetes has those of RE2; ours are read from them: its classes are of ASCII, and what is a
//! sign between classes here is a character there.
//!
//! Cost: a pattern is paid for once in an evaluation, by the states that it is compiled to, and
//! each use by these and by the text. Patterns that were compiled lately are kept, which changes no
//! cost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::Fault;
use super::eval::Scope;
use super::value::Value;

/// Bytes that a compiled pattern may take.
const PATTERN_MAX: usize = 1 << 20;

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

/// Most often that RE2 repeats something.
const REPEATS_MAX: u64 = 1_000;

/// A pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, Fault> {
    let built = translated(pattern).and_then(|pattern| {
        RegexBuilder::new(&pattern).size_limit(PATTERN_MAX).octal(true).build().ok()
    });
    built.ok_or_else(|| Fault::new(format!("{pattern:?} is no pattern")))
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

/// A pattern of RE2 as one of ours; `None`: it is none of RE2.
fn translated(pattern: &str) -> Option<String> {
    let mut made = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // How far into a class it is: a `]` at its beginning is a character.
    let mut class: Option<usize> = None;
    let (mut repeated, mut opened) = (false, false);
    while let Some(next) = rest.chars().next() {
        let length = next.len_utf8();
        // What stands behind a bracket that opens says how its group is read.
        let begins = std::mem::replace(&mut opened, (next, class) == ('(', None));
        if let Some(length) = quantifier(rest).filter(|_| class.is_none() && !begins) {
            let too_often = next == '{' && repeats(rest).is_none_or(|most| most > REPEATS_MAX);
            // RE2 repeats nothing that is repeated already.
            if too_often || std::mem::replace(&mut repeated, true) {
                return None;
            }
            made.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        repeated = false;
        let taken = match (next, class) {
            ('\\', class) => escape(rest, class.is_some(), &mut made)?,
            ('[', None) => {
                let negated = rest[1..].starts_with('^');
                made.push_str(if negated { "[^" } else { "[" });
                rest = &rest[1 + usize::from(negated)..];
                class = Some(0);
                continue;
            }
            ('[', Some(_)) if rest.starts_with("[:") => {
                let end = rest.find(":]").map_or(length, |end| end + 2);
                made.push_str(&rest[..end]);
                end
            }
            (']', Some(1..)) => {
                made.push(']');
                rest = &rest[1..];
                class = None;
                continue;
            }
            ('[' | ']' | '&' | '~', Some(_)) => {
                made.push('\\');
                made.push(next);
                length
            }
            ('(', None) if !known_flags(rest) => return None,
            ('{', None) => {
                made.push_str("\\{");
                length
            }
            _ => {
                made.push(next);
                length
            }
        };
        class = class.map(|place| place + 1);
        rest = &rest[taken..];
    }
    Some(made)
}

/// How long a sign is that repeats what stands before it; `None`: there is none.
fn quantifier(rest: &str) -> Option<usize> {
    let length = match rest.as_bytes().first()? {
        b'*' | b'+' | b'?' => 1,
        b'{' => repeats(rest).and_then(|_| rest.find('}'))? + 1,
        _ => return None,
    };
    Some(length + usize::from(rest[length..].starts_with('?')))
}

/// Writes what begins with a backslash; how long it is.
fn escape(rest: &str, in_class: bool, made: &mut String) -> Option<usize> {
    let next = rest[1..].chars().next()?;
    let ascii = match (next, in_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('D', _) => "[^0-9]",
        ('s', false) => "[\\t\\n\\f\\r ]",
        ('s', true) => "\\t\\n\\f\\r ",
        ('S', _) => "[^\\t\\n\\f\\r ]",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('W', _) => "[^0-9A-Za-z_]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?-u:\\B)",
        // What looks like a group of before; RE2 has none.
        ('1'..='7', _) if !rest[2..].starts_with(|c: char| c.is_digit(8)) => return None,
        ('8' | '9' | '<' | '>', _) => return None,
        ('Q', false) => {
            let text = &rest[2..];
            let (text, taken) = match text.find("\\E") {
                Some(end) => (&text[..end], end + 4),
                None => (text, rest.len()),
            };
            made.push_str(&regex::escape(text));
            return Some(taken);
        }
        // `\p{Greek}` and `\x{3b1}`.
        ('p' | 'P' | 'x', _) if rest[2..].starts_with('{') => {
            let end = rest.find('}')? + 1;
            made.push_str(&rest[..end]);
            return Some(end);
        }
        _ => {
            made.push('\\');
            made.push(next);
            return Some(1 + next.len_utf8());
        }
    };
    made.push_str(ascii);
    Some(2)
}

/// Whether a group that says how it is read says so in letters that RE2 knows.
fn known_flags(rest: &str) -> bool {
    let Some(flags) = rest.strip_prefix("(?") else { return true };
    let end = flags.find([':', ')', 'P', '<']).unwrap_or(flags.len());
    flags[..end].bytes().all(|flag| b"imsU-".contains(&flag))
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
}
