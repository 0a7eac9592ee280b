//! Texts made of values: `"..".format([..])`, `strings.quote(..)` and numbers as texts.
//!
//! As the version of CEL's string functions that Kubernetes has writes them: `%f` groups digits
//! and `%e` writes powers of ten, as people in the US read them.

use super::Fault;
use super::eval::Scope;
use super::value::{Key, Map, Value};

/// Digits behind the point, where nothing is said.
const PRECISION: usize = 6;

/// No number has more digits behind its point; what is asked beyond them is zeros.
const DIGITS_MAX: usize = 1_100;

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// What is written as it is.
    Text(&'a str),
    /// A value, by what stands behind `%`; and how many digits behind its point.
    Clause(char, usize),
}

/// The parts of a format.
pub(super) fn pieces(format: &str) -> Result<Vec<Piece<'_>>, Fault> {
    let (mut all, mut rest) = (Vec::new(), format);
    while let Some(at) = rest.find('%') {
        all.push(Piece::Text(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            all.push(Piece::Text("%"));
            rest = behind;
            continue;
        }
        let mut precision = PRECISION;
        if let Some(behind) = rest.strip_prefix('.') {
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            let digits = behind[..end].parse();
            precision = digits.map_err(|_| Fault::new("a precision in a format"))?;
            rest = &behind[end..];
        }
        let Some(clause) = rest.chars().next() else {
            return Err(Fault::new("a format that ends within a clause"));
        };
        if !matches!(clause, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(Fault::new(format!("unrecognized clause %{clause} in a format")));
        }
        all.push(Piece::Clause(clause, precision));
        rest = &rest[1..];
    }
    all.push(Piece::Text(rest));
    Ok(all)
}

/// Whether a clause can write values of a type, as [`Value::kind`] names it.
pub(super) fn takes(clause: char, kind: &str) -> bool {
    match clause {
        'd' | 'o' => matches!(kind, "int" | "uint"),
        'f' | 'e' => matches!(kind, "double" | "string"),
        'b' => matches!(kind, "int" | "uint" | "bool"),
        'x' | 'X' => matches!(kind, "int" | "uint" | "string" | "bytes"),
        _ => !matches!(
            kind,
            "quantity" | "semver" | "IP" | "IP address" | "CIDR" | "URL" | "format" | "optional"
        ),
    }
}

/// `format.format(args)`.
pub(super) fn format(scope: &mut Scope, format: &str, args: &[Value]) -> Result<Value, Fault> {
    let (mut made, mut next) = (String::new(), args.iter());
    for piece in pieces(format)? {
        let before = made.len();
        match piece {
            Piece::Text(text) => made.push_str(text),
            Piece::Clause(clause, precision) => {
                let missing = || Fault::new("a format has fewer values than clauses");
                let value = next.next().ok_or_else(missing)?;
                if !takes(clause, value.kind()) {
                    return Err(Fault::new(format!("%{clause} in a format of a {}", value.kind())));
                }
                if matches!(clause, 'f' | 'e') {
                    scope.spend(precision / 10)?;
                }
                written(scope, &mut made, clause, precision, value)?;
            }
        }
        scope.spend((made.len() - before) / 10)?;
    }
    Ok(Value::Text(made.into()))
}

fn written(
    scope: &mut Scope,
    made: &mut String,
    clause: char,
    precision: usize,
    value: &Value,
) -> Result<(), Fault> {
    let whole = match value {
        Value::Int(value) => Some((*value < 0, value.unsigned_abs())),
        Value::Uint(value) => Some((false, *value)),
        Value::Bool(value) => Some((false, (*value).into())),
        _ => None,
    };
    match (clause, whole, value) {
        ('s', ..) => plain(scope, made, value)?,
        ('f' | 'e', ..) => {
            let number = match value {
                Value::Double(number) => *number,
                Value::Text(text) if &**text == "NaN" => f64::NAN,
                Value::Text(text) if &**text == "Infinity" => f64::INFINITY,
                Value::Text(text) if &**text == "-Infinity" => f64::NEG_INFINITY,
                other => return Err(Fault::new(format!("%{clause} of a {}", other.kind()))),
            };
            match clause {
                'f' => fixed(made, number, precision),
                _ => scientific(made, number, precision),
            }
        }
        (_, Some((negative, size)), _) => {
            made.push_str(if negative { "-" } else { "" });
            made.push_str(&match clause {
                'd' => format!("{size}"),
                'b' => format!("{size:b}"),
                'o' => format!("{size:o}"),
                'x' => format!("{size:x}"),
                _ => format!("{size:X}"),
            });
        }
        (_, None, Value::Text(text)) => hex(scope, made, text.as_bytes(), clause)?,
        (_, None, Value::Bytes(bytes)) => hex(scope, made, bytes, clause)?,
        (_, None, _) => {}
    }
    Ok(())
}

fn hex(scope: &mut Scope, made: &mut String, bytes: &[u8], clause: char) -> Result<(), Fault> {
    scope.spend(bytes.len() / 5)?;
    for byte in bytes {
        made.push_str(&if clause == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
    }
    Ok(())
}

/// What is no number has a sign of its own.
fn special(number: f64) -> Option<&'static str> {
    match number {
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => number.is_nan().then_some("NaN"),
    }
}

/// `1234.5` as `1,234.500000`.
fn fixed(made: &mut String, number: f64, precision: usize) {
    if let Some(sign) = special(number) {
        return made.push_str(sign);
    }
    let text = format!("{:.*}", precision.min(DIGITS_MAX), number.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    made.push_str(if number < 0.0 { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            made.push(',');
        }
        made.push(digit);
    }
    if precision > 0 {
        made.push('.');
        made.push_str(fraction);
        made.extend(std::iter::repeat_n('0', precision - fraction.len()));
    }
}

/// `1234.5` as `1.234500×10⁰³`. What is written as a precision is how wide it is at least.
fn scientific(made: &mut String, number: f64, width: usize) {
    let text = special(number).map_or_else(|| power_of_ten(number), str::to_owned);
    made.extend(std::iter::repeat_n(' ', width.saturating_sub(text.chars().count())));
    made.push_str(&text);
}

fn power_of_ten(number: f64) -> String {
    let number = if number == 0.0 { 0.0 } else { number };
    let text = format!("{number:.PRECISION$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent = format!("{exponent:0>2}");
    let exponent = exponent.bytes().map(|digit| raised[usize::from(digit - b'0') % 10]);
    format!("{digits}×10{sign}{}", exponent.collect::<String>())
}

/// A value as `%s` writes it.
fn plain(scope: &mut Scope, made: &mut String, value: &Value) -> Result<(), Fault> {
    match value {
        Value::List(list) => {
            made.push('[');
            for (at, value) in list.iter().enumerate() {
                made.push_str(if at > 0 { ", " } else { "" });
                inner(scope, made, value)?;
            }
            made.push(']');
        }
        Value::Map(map) => entries(scope, made, map)?,
        Value::Null => made.push_str("null"),
        Value::Text(text) => made.push_str(text),
        other => made.push_str(&text_of(other)?),
    }
    Ok(())
}

/// A value within a list or map, as it is written in an expression.
fn inner(scope: &mut Scope, made: &mut String, value: &Value) -> Result<(), Fault> {
    scope.spend(1 + value.length())?;
    match value {
        Value::Text(text) => quoted(made, text),
        Value::Bytes(_) => {
            made.push('b');
            quoted(made, &text_of(value)?);
        }
        Value::Time(time) => made.push_str(&format!("timestamp(\"{time}\")")),
        Value::Duration(duration) => made.push_str(&format!("duration(\"{duration}\")")),
        Value::Double(number) if number.is_finite() => made.push_str(&format!("{number:.6}")),
        Value::Double(number) => quoted(made, &general(*number)),
        value if takes('s', value.kind()) => plain(scope, made, value)?,
        other => return Err(Fault::new(format!("%s in a format of a {}", other.kind()))),
    }
    Ok(())
}

fn entries(scope: &mut Scope, made: &mut String, map: &Map) -> Result<(), Fault> {
    let mut texts = Vec::with_capacity(map.entries.len());
    for (key, value) in &map.entries {
        let (mut before, mut behind) = (String::new(), String::new());
        match key {
            Key::Text(text) => quoted(&mut before, text),
            key => plain(scope, &mut before, &key.value())?,
        }
        inner(scope, &mut behind, value)?;
        texts.push((before, behind));
    }
    texts.sort();
    let texts: Vec<String> =
        texts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    made.push('{');
    made.push_str(&texts.join(", "));
    made.push('}');
    Ok(())
}

/// `string(value)` of what has a text.
pub(super) fn text_of(value: &Value) -> Result<String, Fault> {
    Ok(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => general(*value),
        Value::Text(text) => text.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Fault::new("bytes that are no UTF-8")),
        },
        Value::Time(time) => time.to_string(),
        Value::Duration(duration) => duration.to_string(),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(network) => network.to_string(),
        other => return Err(Fault::new(format!("a {} that is no string", other.kind()))),
    })
}

/// The shortest text that means a number: with an exponent from a million on, and below 0.0001.
fn general(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match !(-4..6).contains(&exponent) {
        true => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        false => format!("{number}"),
    }
}

/// A text in quotes as Go writes it.
fn quoted(made: &mut String, text: &str) {
    made.push('"');
    for c in text.chars() {
        match escaped(c) {
            Some(escaped) => made.push_str(escaped),
            None if c.is_ascii_control() => made.push_str(&format!("\\x{:02x}", u32::from(c))),
            None if is_hidden(c) => made.push_str(&match u32::from(c) {
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
            None => made.push(c),
        }
    }
    made.push('"');
}

/// Whether a character shows nothing of its own.
fn is_hidden(c: char) -> bool {
    // A mark that stands above a letter is seen.
    let escaped = || ['a', c].iter().collect::<String>().escape_debug().count() > 2;
    !c.is_ascii() && (c.is_whitespace() || escaped())
}

/// `strings.quote(text)`.
pub(super) fn quote(text: &str) -> String {
    let mut made = String::with_capacity(text.len() + 2);
    made.push('"');
    for c in text.chars() {
        match escaped(c) {
            Some(escaped) => made.push_str(escaped),
            None => made.push(c),
        }
    }
    made.push('"');
    made
}

fn escaped(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        '\\' => "\\\\",
        '"' => "\\\"",
        _ => return None,
    })
}
