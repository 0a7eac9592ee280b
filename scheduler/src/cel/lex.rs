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
    /// A name of a field in backticks, which may have signs.
    Escaped(Arc<str>),
    /// A number, text or bytes.
    Value(Value),
    /// An operator or bracket.
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) | Token::Escaped(word) => write!(out, "{word:?}"),
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
        if matches!(first, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some((value, length)) = quoted(rest, at)? {
            found.push((Token::Value(value), at));
            at += length;
        } else if first.is_ascii_digit() || is_fraction(rest) {
            let (value, length) = number(rest, at, is_below(&found))?;
            found.push((Token::Value(value), at));
            at += length;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
            found.push((Token::Word(rest[..length].into()), at));
            at += length;
        } else if let Some(name) = escaped(rest) {
            found.push((Token::Escaped(name.into()), at));
            at += name.len() + 2;
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

/// A name in backticks.
fn escaped(rest: &str) -> Option<&str> {
    let name = rest.strip_prefix('`')?.split_once('`')?.0;
    let inside = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
    (!name.is_empty() && name.chars().all(inside)).then_some(name)
}

fn is_fraction(rest: &str) -> bool {
    let mut bytes = rest.bytes();
    bytes.next() == Some(b'.') && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
}

/// Whether the last word is a minus that belongs to the number behind it: not one between two
/// values, and not one of several.
fn is_below(found: &[(Token, usize)]) -> bool {
    let is_minus = |(token, _): &&(Token, usize)| *token == Token::Symbol("-");
    let minuses = found.iter().rev().take_while(is_minus).count();
    let between = match found[..found.len() - minuses].last().map(|(token, _)| token) {
        None => false,
        Some(Token::Symbol(symbol)) => matches!(*symbol, ")" | "]" | "}"),
        Some(Token::Word(word)) => &**word != "in",
        Some(Token::Value(_) | Token::Escaped(_)) => true,
    };
    minuses == 1 + usize::from(between)
}

/// A number and its length. `below`: a minus stands before it, so that it may be the least of all.
fn number(rest: &str, at: usize, below: bool) -> Result<(Value, usize), Fault> {
    let bad = || Fault::new(format!("a number at byte {at} that cannot be read"));
    let int = |value: u64| match i64::try_from(value) {
        Ok(value) => Ok(Value::Int(value)),
        Err(_) if below && value == i64::MIN.unsigned_abs() => Ok(Value::Int(i64::MIN)),
        Err(_) => Err(bad()),
    };
    if let Some(digits) = rest.strip_prefix("0x") {
        let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let unsigned = digits[length..].starts_with(['u', 'U']);
        let value = u64::from_str_radix(&digits[..length], 16).map_err(|_| bad())?;
        let value = if unsigned { Value::Uint(value) } else { int(value)? };
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
        let value: f64 = text.parse().map_err(|_| bad())?;
        return if value.is_finite() { Ok((Value::Double(value), end)) } else { Err(bad()) };
    }
    if matches!(bytes.get(end), Some(b'u' | b'U')) {
        return Ok((Value::Uint(text.parse().map_err(|_| bad())?), end + 1));
    }
    Ok((int(text.parse().map_err(|_| bad())?)?, end))
}

/// A text or bytes in quotes, and its length; `None`: no quotes begin here.
fn quoted(rest: &str, at: usize) -> Result<Option<(Value, usize)>, Fault> {
    let quote = |from: usize| {
        ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| rest.is_char_boundary(from) && rest[from..].starts_with(*quote))
    };
    // `b` before the quotes makes bytes, `r` keeps backslashes.
    let is = |at: usize, letter: u8| {
        rest.as_bytes().get(at).is_some_and(|byte| byte.eq_ignore_ascii_case(&letter))
    };
    let bytes = is(0, b'b');
    let raw = is(usize::from(bytes), b'r');
    let prefix = usize::from(bytes) + usize::from(raw);
    let Some(quote) = quote(prefix) else { return Ok(None) };
    let mut made = Vec::new();
    let mut place = prefix + quote.len();
    loop {
        let left = &rest[place..];
        if left.starts_with(quote) {
            break;
        }
        let Some(next) = left.chars().next() else {
            return Err(Fault::new(format!("a text at byte {at} that does not end")));
        };
        if next == '\\' && !raw {
            place += 1 + escape(&left[1..], bytes, &mut made)
                .ok_or_else(|| Fault::new(format!("an escape in a text at byte {at}")))?;
        } else if matches!(next, '\n' | '\r') && quote.len() == 1 {
            return Err(Fault::new(format!("a text at byte {at} that does not end on its line")));
        } else if next == '\r' {
            // Every end of a line is one `\n`.
            made.push(b'\n');
            place += if left.starts_with("\r\n") { 2 } else { 1 };
        } else {
            made.extend_from_slice(&left.as_bytes()[..next.len_utf8()]);
            place += next.len_utf8();
        }
    }
    let value = match bytes {
        true => Value::Bytes(made.into()),
        false => Value::Text(String::from_utf8_lossy(&made).into()),
    };
    Ok(Some((value, place + quote.len())))
}

/// Writes what stands behind a backslash; its length. Codes are bytes in bytes, and characters in
/// texts.
fn escape(rest: &str, bytes: bool, made: &mut Vec<u8>) -> Option<usize> {
    let first = rest.chars().next()?;
    let mut code = |from: usize, digits: usize, radix: u32| {
        let text = rest.get(from..from + digits)?;
        let all = text.bytes().all(|byte| char::from(byte).is_digit(radix));
        let code = u32::from_str_radix(text, radix).ok().filter(|_| all)?;
        match bytes {
            true => made.push(u8::try_from(code).ok()?),
            false => {
                let character = char::from_u32(code)?;
                made.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Some(from + digits)
    };
    let plain = match first {
        'x' | 'X' => return code(1, 2, 16),
        'u' if !bytes => return code(1, 4, 16),
        'U' if !bytes => return code(1, 8, 16),
        '0'..='3' => return code(0, 3, 8),
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '"' | '\'' | '`' | '?' => first,
        _ => return None,
    };
    made.push(plain as u8);
    Some(1)
}
