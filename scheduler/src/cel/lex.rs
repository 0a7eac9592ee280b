//! From the text of an expression to its words.

use std::fmt;
use std::sync::Arc;

use super::Fault;
use super::value::Value;

/// A word of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name or keyword.
    Word(Arc<str>),
    /// A number or text.
    Value(Value),
    /// An operator or bracket.
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => write!(out, "{word:?}"),
            Token::Value(value) => write!(out, "a {}", value.kind()),
            Token::Symbol(symbol) => write!(out, "{symbol:?}"),
        }
    }
}

/// All symbols, longer ones before those that they begin with.
const SYMBOLS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ",", ".",
    "(", ")", "[", "]", "{",
];

/// The words, each with its place.
pub fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Fault> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some((value, length)) = string(rest, at)? {
            found.push((Token::Value(Value::Text(value.into())), at));
            at += length;
        } else if first.is_ascii_digit() || is_fraction(rest) {
            let (value, length) = number(rest, at)?;
            found.push((Token::Value(value), at));
            at += length;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
            found.push((Token::Word(rest[..length].into()), at));
            at += length;
        } else {
            let known = SYMBOLS.iter().chain(&["}"]).find(|symbol| rest.starts_with(**symbol));
            let Some(symbol) = known else {
                return Err(Fault::new(format!("unexpected {first:?} at byte {at}")));
            };
            found.push((Token::Symbol(symbol), at));
            at += symbol.len();
        }
    }
    Ok(found)
}

fn is_fraction(rest: &str) -> bool {
    let mut bytes = rest.bytes();
    bytes.next() == Some(b'.') && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
}

/// A number and its length.
fn number(rest: &str, at: usize) -> Result<(Value, usize), Fault> {
    let bad = || Fault::new(format!("a number at byte {at} that cannot be read"));
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    if let Some(digits) = hex {
        let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let unsigned = digits[length..].starts_with(['u', 'U']);
        let value = u64::from_str_radix(&digits[..length], 16).map_err(|_| bad())?;
        let value = match unsigned {
            true => Value::Uint(value),
            false => Value::Int(i64::try_from(value).map_err(|_| bad())?),
        };
        return Ok((value, 2 + length + usize::from(unsigned)));
    }
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        let more = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit());
        from + more.count()
    };
    let mut end = digits(0);
    let mut whole = true;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        (whole, end) = (false, digits(end + 1));
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let from = end + 1 + usize::from(signed);
        if bytes.get(from).is_some_and(u8::is_ascii_digit) {
            (whole, end) = (false, digits(from));
        }
    }
    let text = &rest[..end];
    if !whole {
        return Ok((Value::Double(text.parse().map_err(|_| bad())?), end));
    }
    if matches!(bytes.get(end), Some(b'u' | b'U')) {
        return Ok((Value::Uint(text.parse().map_err(|_| bad())?), end + 1));
    }
    Ok((Value::Int(text.parse().map_err(|_| bad())?), end))
}

/// A text in quotes and its length; `None`: no quotes begin here.
fn string(rest: &str, at: usize) -> Result<Option<(String, usize)>, Fault> {
    let lower = rest.as_bytes()[0].to_ascii_lowercase();
    let quoted = |from: usize| {
        ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| rest.is_char_boundary(from) && rest[from..].starts_with(*quote))
    };
    let (prefix, quote) = match (quoted(0), lower) {
        (Some(quote), _) => (0, quote),
        (None, b'r') => match quoted(1) {
            Some(quote) => (1, quote),
            None => return Ok(None),
        },
        (None, b'b') if quoted(1).is_some() => {
            return Err(Fault::new(format!("bytes at byte {at}, which are not supported")));
        }
        _ => return Ok(None),
    };
    let mut text = String::new();
    let mut place = prefix + quote.len();
    loop {
        let left = &rest[place..];
        if left.starts_with(quote) {
            return Ok(Some((text, place + quote.len())));
        }
        let Some(next) = left.chars().next() else {
            return Err(Fault::new(format!("a text at byte {at} that does not end")));
        };
        if next == '\\' && prefix == 0 {
            let (escaped, length) = escape(&left[1..])
                .ok_or_else(|| Fault::new(format!("an escape in a text at byte {at}")))?;
            text.push(escaped);
            place += 1 + length;
        } else if next == '\n' && quote.len() == 1 {
            return Err(Fault::new(format!("a text at byte {at} that does not end on its line")));
        } else {
            text.push(next);
            place += next.len_utf8();
        }
    }
}

/// What stands behind a backslash, and its length.
fn escape(rest: &str) -> Option<(char, usize)> {
    let first = rest.chars().next()?;
    let code = |from: usize, digits: usize, radix: u32| {
        let text = rest.get(from..from + digits)?;
        let code = char::from_u32(u32::from_str_radix(text, radix).ok()?)?;
        Some((code, from + digits))
    };
    match first {
        'n' => Some(('\n', 1)),
        't' => Some(('\t', 1)),
        'r' => Some(('\r', 1)),
        'a' => Some(('\u{7}', 1)),
        'b' => Some(('\u{8}', 1)),
        'f' => Some(('\u{c}', 1)),
        'v' => Some(('\u{b}', 1)),
        '\\' | '"' | '\'' | '`' | '?' => Some((first, 1)),
        'x' | 'X' => code(1, 2, 16),
        'u' => code(1, 4, 16),
        'U' => code(1, 8, 16),
        '0'..='3' => code(0, 3, 8),
        _ => None,
    }
}
