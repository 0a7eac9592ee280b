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

/// A pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, Fault> {
    let built = RegexBuilder::new(&translated(pattern)).size_limit(PATTERN_MAX).octal(true).build();
    built.map_err(|_| Fault::new(format!("{pattern:?} is no pattern")))
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

fn translated(pattern: &str) -> String {
    let mut made = String::with_capacity(pattern.len());
    let mut rest = pattern;
    // How far into a class it is: its `[` and a `]` directly behind that are characters.
    let mut class: Option<usize> = None;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        let escaped = rest[length..].chars().next().filter(|_| next == '\\');
        let ascii = match (escaped, class) {
            (Some('d'), None) => "[0-9]",
            (Some('d'), Some(_)) => "0-9",
            (Some('D'), _) => "[^0-9]",
            (Some('s'), None) => "[\\t\\n\\f\\r ]",
            (Some('s'), Some(_)) => "\\t\\n\\f\\r ",
            (Some('S'), _) => "[^\\t\\n\\f\\r ]",
            (Some('w'), None) => "[0-9A-Za-z_]",
            (Some('w'), Some(_)) => "0-9A-Za-z_",
            (Some('W'), _) => "[^0-9A-Za-z_]",
            (Some('b'), None) => "(?-u:\\b)",
            (Some('B'), None) => "(?-u:\\B)",
            _ => "",
        };
        if let Some(escaped) = escaped {
            length += escaped.len_utf8();
        }
        match (ascii, next, class) {
            ("", '[', None) => {
                made.push('[');
                class = Some(0);
                let negated = rest[1..].starts_with('^');
                if negated {
                    made.push('^');
                    length += 1;
                }
                rest = &rest[length..];
                continue;
            }
            ("", '[', Some(_)) if rest.starts_with("[:") => {
                let end = rest.find(":]").map_or(length, |end| end + 2);
                made.push_str(&rest[..end]);
                length = end;
            }
            ("", '[' | '&' | '~', Some(_)) => {
                made.push('\\');
                made.push(next);
            }
            ("", ']', Some(0)) => made.push_str("\\]"),
            ("", ']', Some(_)) => {
                made.push(']');
                rest = &rest[length..];
                class = None;
                continue;
            }
            ("", ..) => made.push_str(&rest[..length]),
            (ascii, ..) => made.push_str(ascii),
        }
        class = class.map(|place| place + 1);
        rest = &rest[length..];
    }
    made
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
        assert!(compile("(").is_err() && compile("[a").is_err());
    }
}
