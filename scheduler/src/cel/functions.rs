//! Operators, and functions that stand by themselves.

use std::cmp::Ordering;
use std::sync::Arc;

use super::amount::Amount;
use super::eval::Scope;
use super::named::Named;
use super::semver::Semver;
use super::time::{Duration, Time};
use super::url::{self, Url};
use super::value::{Key, Value};
use super::{Fault, format, lists, net, regexes, time};

/// Functions that make a value of one type from others.
pub(super) const CONVERSIONS: [&str; 8] =
    ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];

/// `left operator right`, all but `&&` and `||`.
pub(super) fn binary(operator: &str, left: &Value, right: &Value) -> Result<Value, Fault> {
    match operator {
        "==" => return left.equals(right).map(Value::Bool),
        // What cannot be compared is not the same.
        "!=" => return Ok(Value::Bool(left != right)),
        "in" => return contains(right, left).map(Value::Bool),
        _ => {}
    }
    let by_order = |fits: fn(Ordering) -> bool| {
        let order = left.compare(right).filter(|_| comparable(left, right));
        order.map(|order| Value::Bool(fits(order))).ok_or_else(|| left.unlike(operator, right))
    };
    match operator {
        "<" => by_order(Ordering::is_lt),
        "<=" => by_order(Ordering::is_le),
        ">" => by_order(Ordering::is_gt),
        ">=" => by_order(Ordering::is_ge),
        _ => arithmetic(operator, left, right),
    }
}

/// `!value` and `-value`.
pub(super) fn unary(operator: &str, value: &Value) -> Result<Value, Fault> {
    match (operator, value) {
        ("!", Value::Bool(value)) => Ok(Value::Bool(!value)),
        ("-", Value::Int(value)) => {
            value.checked_neg().map(Value::Int).ok_or_else(|| Fault::new("a number too large"))
        }
        ("-", Value::Double(value)) => Ok(Value::Double(-value)),
        (operator, other) => Err(Fault::new(format!("{operator} on a {}", other.kind()))),
    }
}

/// Quantities and versions are compared by methods only.
fn comparable(left: &Value, right: &Value) -> bool {
    let by_method = |value: &Value| matches!(value, Value::Quantity(_) | Value::Semver(_));
    !by_method(left) && !by_method(right)
}

fn arithmetic(operator: &str, left: &Value, right: &Value) -> Result<Value, Fault> {
    use Value::{Bytes, Double, Int, List, Text, Uint};
    let too_large = || Fault::new("a number too large");
    let divides = |zero: bool| match zero && matches!(operator, "/" | "%") {
        true => Err(Fault::new("division by zero")),
        false => Ok(()),
    };
    if let Some(made) = time::arithmetic(operator, left, right) {
        return made;
    }
    match (operator, left, right) {
        ("+", Text(a), Text(b)) => Ok(Text(format!("{a}{b}").into())),
        ("+", Bytes(a), Bytes(b)) => Ok(Bytes([&**a, &**b].concat().into())),
        ("+", List(a), List(b)) => Ok(List(Arc::new(a.iter().chain(b.iter()).cloned().collect()))),
        (_, Int(a), Int(b)) => {
            divides(*b == 0)?;
            let result = match operator {
                "+" => a.checked_add(*b),
                "-" => a.checked_sub(*b),
                "*" => a.checked_mul(*b),
                "/" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            result.map(Int).ok_or_else(too_large)
        }
        (_, Uint(a), Uint(b)) => {
            divides(*b == 0)?;
            let result = match operator {
                "+" => a.checked_add(*b),
                "-" => a.checked_sub(*b),
                "*" => a.checked_mul(*b),
                "/" => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            result.map(Uint).ok_or_else(too_large)
        }
        ("+", Double(a), Double(b)) => Ok(Double(a + b)),
        ("-", Double(a), Double(b)) => Ok(Double(a - b)),
        ("*", Double(a), Double(b)) => Ok(Double(a * b)),
        ("/", Double(a), Double(b)) => Ok(Double(a / b)),
        _ => Err(left.unlike(operator, right)),
    }
}

fn contains(all: &Value, one: &Value) -> Result<bool, Fault> {
    match all {
        Value::List(list) => Ok(list.iter().any(|other| one == other)),
        Value::Map(map) => Ok(Key::sought(one).is_some_and(|key| map.entries.contains_key(&key))),
        other => Err(one.unlike("in", other)),
    }
}

/// `name(args)`; the name may have a dot.
pub(super) fn call(scope: &mut Scope, name: &str, args: &[Value]) -> Result<Value, Fault> {
    use Value::{Bool, Int, List, Optional, Text};
    match (name, args) {
        ("size", [of]) => lists::size(of),
        ("dyn", [of]) => Ok(of.clone()),
        ("type", [of]) => Ok(Value::Type(of.type_name())),
        (name, [of]) if CONVERSIONS.contains(&name) => convert(name, of),
        ("matches", [Text(text), Text(pattern)]) => regexes::matches(scope, text, pattern),
        ("quantity", [Text(text)]) => {
            let quantity = Amount::parse(text).map(|amount| Value::Quantity(Arc::new(amount)));
            quantity.ok_or_else(|| Fault::new(format!("{text:?} is no quantity")))
        }
        ("isQuantity", [Text(text)]) => Ok(Bool(Amount::parse(text).is_some())),
        ("sign", [Value::Quantity(quantity)]) => Ok(Int(quantity.nano().signum() as i64)),
        ("semver", [Text(text)]) => semver(text, false),
        ("semver", [Text(text), Bool(lenient)]) => semver(text, *lenient),
        ("isSemver", [Text(text)]) => Ok(Bool(Semver::parse(text, false).is_some())),
        ("isSemver", [Text(text), Bool(lenient)]) => {
            Ok(Bool(Semver::parse(text, *lenient).is_some()))
        }
        ("ip", [Text(text)]) => net::parse_address(text),
        ("isIP", [Text(text)]) => Ok(Bool(net::address(text).is_some())),
        ("ip.isCanonical", [Text(text)]) => match net::address(text) {
            Some(address) => Ok(Bool(address.to_string() == **text)),
            None => net::parse_address(text),
        },
        ("cidr", [Text(text)]) => net::parse_network(text),
        ("isCIDR", [Text(text)]) => Ok(Bool(net::network(text).is_some())),
        ("url", [Text(text)]) => url::parse(text),
        ("isURL", [Text(text)]) => Ok(Bool(Url::is(text))),
        ("optional.none", []) => Ok(Optional(None)),
        ("optional.of", [of]) => Ok(Optional(Some(Arc::new(of.clone())))),
        ("optional.ofNonZeroValue", [of]) => {
            Ok(Optional((!of.is_zero()).then(|| Arc::new(of.clone()))))
        }
        ("optional.unwrap", [List(list)]) => lists::unwrapped(list),
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [List(a), List(b)]) => {
            scope.spend(a.len().saturating_mul(b.len()))?;
            scope.spend_pairs(a, b)?;
            let within = |a: &[Value], b: &[Value]| a.iter().all(|one| b.contains(one));
            Ok(Bool(match name {
                "sets.contains" => within(b, a),
                "sets.intersects" => b.iter().any(|one| a.contains(one)),
                _ => within(a, b) && within(b, a),
            }))
        }
        ("lists.range", [Int(count)]) => lists::range(scope, *count),
        ("strings.quote", [Text(text)]) => Ok(Text(format::quote(text).into())),
        ("format.named", [Text(name)]) => {
            Ok(Optional(Named::of(name).map(|named| Arc::new(Value::Format(named)))))
        }
        (name, []) if name.starts_with("format.") => {
            let named = name.strip_prefix("format.").and_then(Named::of);
            named.map(Value::Format).ok_or_else(|| unknown(name, args))
        }
        _ => Err(unknown(name, args)),
    }
}

fn unknown(name: &str, args: &[Value]) -> Fault {
    let kinds: Vec<&str> = args.iter().map(Value::kind).collect();
    Fault::new(format!("no such overload: {name}({})", kinds.join(", ")))
}

fn semver(text: &str, lenient: bool) -> Result<Value, Fault> {
    let version = Semver::parse(text, lenient).map(|version| Value::Semver(Arc::new(version)));
    version.ok_or_else(|| Fault::new(format!("{text:?} is no semantic version")))
}

/// `to(of)`, of one of the [`CONVERSIONS`].
pub(super) fn convert(to: &str, of: &Value) -> Result<Value, Fault> {
    use Value::{Bool, Bytes, Double, Int, Text, Uint};
    let bad = || Fault::new(format!("a {} that is no {to}", of.kind()));
    let read = |made: Option<Value>| made.ok_or_else(bad);
    if to == of.kind() {
        return Ok(of.clone());
    }
    match (to, of) {
        ("bool", Text(text)) => match &**text {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(Bool(true)),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(Bool(false)),
            _ => Err(Fault::new(format!("{text:?} is no bool"))),
        },
        ("bytes", Text(text)) => Ok(Bytes(text.as_bytes().into())),
        ("int", Uint(value)) => read(i64::try_from(*value).ok().map(Int)),
        ("int", Text(text)) => read(text.parse().ok().map(Int)),
        ("int", Double(value)) => {
            // Either end of the range is out of it, as a number with a fraction may be rounded.
            let within = *value > i64::MIN as f64 && *value < i64::MAX as f64;
            read(within.then_some(Int(*value as i64)))
        }
        ("int", Value::Time(time)) => Ok(Int(time.seconds())),
        ("int", Value::Duration(duration)) => Ok(Int(duration.nanos)),
        ("uint", Int(value)) => read(u64::try_from(*value).ok().map(Uint)),
        ("uint", Text(text)) => {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            read(text.parse().ok().filter(|_| digits).map(Uint))
        }
        ("uint", Double(value)) => {
            let within = *value >= 0.0 && *value < u64::MAX as f64;
            read(within.then_some(Uint(*value as u64)))
        }
        ("double", Int(value)) => Ok(Double(*value as f64)),
        ("double", Uint(value)) => Ok(Double(*value as f64)),
        ("double", Text(text)) => read(number(text).map(Double)),
        ("timestamp", Int(seconds)) => Time::of_seconds(*seconds).map(Value::Time),
        ("timestamp", Text(text)) => match Time::parse(text) {
            Some(time) => Ok(Value::Time(time)),
            None => Err(Fault::new(format!("{text:?} is no timestamp"))),
        },
        ("duration", Text(text)) => match Duration::parse(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => Err(Fault::new(format!("{text:?} is no duration"))),
        },
        ("string", Value::Type(_)) => Err(bad()),
        ("string", of) => format::text_of(of).map(|text| Text(text.into())),
        _ => Err(bad()),
    }
}

fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let named = !text.bytes().any(|byte| byte.is_ascii_digit());
    (number.is_finite() || named).then_some(number)
}
