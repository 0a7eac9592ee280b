//! Patterns: `matches`, `find` and `findAll`.
//!
//! Kubernetes has those of RE2; ours are read from them: its classes are of ASCII, and what is a
//! sign between classes here is a character there.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::Fault;
use super::eval::Scope;
use super::value::Value;

/// Bytes that a compiled pattern may take.
const PATTERN_MAX: usize = 1 << 20;

/// What a pattern costs to compile, in steps.
const PATTERN_COST: usize = 100;

/// Most often that RE2 repeats something.
const REPEATS_MAX: u64 = 1_000;

/// A pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, Fault> {
    let built = translated(pattern).and_then(|pattern| {
        RegexBuilder::new(&pattern).size_limit(PATTERN_MAX).octal(true).build().ok()
    });
    built.ok_or_else(|| Fault::new(format!("{pattern:?} is no pattern")))
}

/// A pattern, paid for: the time it takes grows with the text only.
pub(super) fn paid(scope: &mut Scope, text: &str, pattern: &str) -> Result<Regex, Fault> {
    let steps = (text.len() / 10).saturating_mul(1 + pattern.len() / 4);
    scope.spend(steps.saturating_add(PATTERN_COST))?;
    compile(pattern)
}

/// Whether a pattern is found in a text.
pub(super) fn matches(scope: &mut Scope, text: &str, pattern: &str) -> Result<Value, Fault> {
    Ok(Value::Bool(paid(scope, text, pattern)?.is_match(text)))
}

/// All that fits a pattern, or so many; below zero: all.
pub(super) fn all(scope: &mut Scope, text: &str, pattern: &str, most: i64) -> Result<Value, Fault> {
    let pattern = paid(scope, text, pattern)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = pattern.find_iter(text).take(most);
    let found: Vec<Value> = found.map(|found| Value::Text(found.as_str().into())).collect();
    scope.spend(found.len())?;
    Ok(Value::List(Arc::new(found)))
}

/// A pattern of RE2 as one of ours; `None`: it is none of RE2.
fn translated(pattern: &str) -> Option<String> {
    let mut made = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // How far into a class it is: a `]` at its beginning is a character.
    let mut class: Option<usize> = None;
    while let Some(next) = rest.chars().next() {
        let length = next.len_utf8();
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
                match repeats(rest) {
                    None => made.push_str("\\{"),
                    Some(most) if most > REPEATS_MAX => return None,
                    Some(_) => made.push('{'),
                }
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
    fn patterns_are_those_of_re2() {
        let is = |pattern: &str, text: &str| compile(pattern).expect(pattern).is_match(text);
        assert!(is(r"^\d+$", "12") && !is(r"^\d$", "\u{663}"));
        assert!(is(r"^[\w-]+$", "a-b_1") && !is(r"^\w$", "é") && is(r"^\W$", "é"));
        assert!(is("^[[]$", "[") && is("^[]a]+$", "]a") && is("^[^]]$", "x") && !is("^[^]]$", "]"));
        assert!(is("^[a&&b]+$", "a&b") && is("^[[:alpha:]_]+$", "ab_") && is(r"^\[x\]$", "[x]"));
        assert!(is(r"\bgpu\b", "a gpu b") && is(r"^[^\D]$", "1") && is(r"^\101$", "A"));
        assert!(is(r"^\Qa.b\E+$", "a.bb") && is("(?i)^A(?P<x>b)$", "ab"));
        assert!(is("^{a{,2}}$", "{a{,2}}") && is("^a{2,3}b{1}$", "aab"));
        for odd in ["(", "[a", "a{1001}", "(?x)a", r"(a)\1", "a(?=b)", "\\"] {
            assert!(compile(odd).is_err(), "{odd}");
        }
    }
}
