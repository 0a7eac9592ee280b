//! Operators, and functions that stand by themselves.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Fault;
use super::eval::Scope;
use super::methods::{matches, size};
use super::net;
use super::semver::Semver;
use super::value::{Key, Value};
use crate::quantity::Quantity;

/// Names before the dot of a function.
pub(super) const LIBRARIES: [&str; 4] = ["ip", "math", "optional", "sets"];

/// `left operator right`, all but `&&` and `||`.
pub(super) fn binary(operator: &str, left: &Value, right: &Value) -> Result<Value, Fault> {
    match operator {
        "==" => return Ok(Value::Bool(left == right)),
        "!=" => return Ok(Value::Bool(left != right)),
        "in" => return contains(right, left).map(Value::Bool),
        _ => {}
    }
    let by_order = |fits: fn(Ordering) -> bool| {
        let order = left.compare(right).filter(|_| comparable(left, right));
        order
            .map(|order| Value::Bool(fits(order)))
            .ok_or_else(|| no_overload(operator, left, right))
    };
    match operator {
        "<" => by_order(Ordering::is_lt),
        "<=" => by_order(Ordering::is_le),
        ">" => by_order(Ordering::is_gt),
        ">=" => by_order(Ordering::is_ge),
        _ => arithmetic(operator, left, right),
    }
}

/// Quantities and versions are compared by methods only.
fn comparable(left: &Value, right: &Value) -> bool {
    let by_method = |value: &Value| matches!(value, Value::Quantity(_) | Value::Semver(_));
    !by_method(left) && !by_method(right)
}

fn no_overload(operator: &str, left: &Value, right: &Value) -> Fault {
    Fault::new(format!("no such overload: {} {operator} {}", left.kind(), right.kind()))
}

fn arithmetic(operator: &str, left: &Value, right: &Value) -> Result<Value, Fault> {
    use Value::{Double, Int, List, Text, Uint};
    let too_large = || Fault::new("a number too large");
    let divides = |zero: bool| match zero {
        true => Err(Fault::new("division by zero")),
        false => Ok(()),
    };
    match (operator, left, right) {
        ("+", Text(a), Text(b)) => Ok(Text(format!("{a}{b}").into())),
        ("+", List(a), List(b)) => Ok(List(Arc::new(a.iter().chain(b.iter()).cloned().collect()))),
        (_, Int(a), Int(b)) => {
            if matches!(operator, "/" | "%") {
                divides(*b == 0)?;
            }
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
            if matches!(operator, "/" | "%") {
                divides(*b == 0)?;
            }
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
        _ => Err(no_overload(operator, left, right)),
    }
}

fn contains(all: &Value, one: &Value) -> Result<bool, Fault> {
    match all {
        Value::List(list) => Ok(list.contains(one)),
        Value::Map(map) => Ok(Key::of(one).is_some_and(|key| map.entries.contains_key(&key))),
        other => Err(no_overload("in", one, other)),
    }
}

/// `name(args)`, or `library.name(args)`.
pub(super) fn call(
    scope: &mut Scope,
    library: Option<&str>,
    name: &str,
    args: &[Value],
) -> Result<Value, Fault> {
    use Value::{Bool, Double, Int, List, Optional, Text, Uint};
    match (library, name, args) {
        (None, "size", [of]) => size(of),
        (None, "dyn", [of]) => Ok(of.clone()),
        (None, "matches", [Text(text), Text(pattern)]) => matches(scope, text, pattern),
        (None, "quantity", [Text(text)]) => {
            let quantity = Quantity::parse(text).map(Value::Quantity);
            quantity.ok_or_else(|| Fault::new(format!("{text:?} is no quantity")))
        }
        (None, "isQuantity", [Text(text)]) => Ok(Bool(Quantity::parse(text).is_some())),
        (None, "semver", [Text(text)]) => semver(text, false),
        (None, "semver", [Text(text), Bool(lenient)]) => semver(text, *lenient),
        (None, "isSemver", [Text(text)]) => Ok(Bool(Semver::parse(text, false).is_some())),
        (None, "isSemver", [Text(text), Bool(lenient)]) => {
            Ok(Bool(Semver::parse(text, *lenient).is_some()))
        }
        (None, "ip", [Text(text)]) => net::parse_address(text),
        (None, "isIP", [Text(text)]) => Ok(Bool(net::address(text).is_some())),
        (Some("ip"), "isCanonical", [Text(text)]) => match net::address(text) {
            Some(address) => Ok(Bool(address.to_string() == **text)),
            None => net::parse_address(text),
        },
        (None, "cidr", [Text(text)]) => net::parse_network(text),
        (None, "isCIDR", [Text(text)]) => Ok(Bool(net::network(text).is_some())),
        (None, "bool", [Bool(value)]) => Ok(Bool(*value)),
        (None, "bool", [Text(text)]) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Bool(false)),
            _ => Err(Fault::new(format!("{text:?} is no bool"))),
        },
        (None, "int" | "uint" | "double" | "string", [of]) => convert(name, of),
        (Some("optional"), "none", []) => Ok(Optional(None)),
        (Some("optional"), "of", [of]) => Ok(Optional(Some(Arc::new(of.clone())))),
        (Some("optional"), "ofNonZeroValue", [of]) => {
            Ok(Optional((!of.is_zero()).then(|| Arc::new(of.clone()))))
        }
        (Some("math"), "greatest" | "least", args) => {
            let all = match args {
                [List(list)] => list.as_slice(),
                args => args,
            };
            extreme(all, name == "greatest")
        }
        (Some("math"), "abs", [Int(value)]) => {
            value.checked_abs().map(Int).ok_or_else(|| Fault::new("a number too large"))
        }
        (Some("math"), "abs", [Double(value)]) => Ok(Double(value.abs())),
        (Some("math"), "abs", [Uint(value)]) => Ok(Uint(*value)),
        (Some("sets"), _, [List(a), List(b)]) => {
            scope.spend(a.len().saturating_mul(b.len()))?;
            match name {
                "contains" => Ok(Bool(b.iter().all(|one| a.contains(one)))),
                "intersects" => Ok(Bool(b.iter().any(|one| a.contains(one)))),
                "equivalent" => {
                    let within = |a: &[Value], b: &[Value]| a.iter().all(|one| b.contains(one));
                    Ok(Bool(within(a, b) && within(b, a)))
                }
                _ => Err(unknown(Some("sets"), name, args)),
            }
        }
        _ => Err(unknown(library, name, args)),
    }
}

fn unknown(library: Option<&str>, name: &str, args: &[Value]) -> Fault {
    let kinds: Vec<&str> = args.iter().map(Value::kind).collect();
    let before = library.map(|library| format!("{library}.")).unwrap_or_default();
    Fault::new(format!("{before}{name}({}) is not supported", kinds.join(", ")))
}

fn semver(text: &str, lenient: bool) -> Result<Value, Fault> {
    let version = Semver::parse(text, lenient).map(|version| Value::Semver(Arc::new(version)));
    version.ok_or_else(|| Fault::new(format!("{text:?} is no semantic version")))
}

/// The greatest or least of some values.
pub(super) fn extreme(all: &[Value], greatest: bool) -> Result<Value, Fault> {
    let mut best: Option<&Value> = None;
    for value in all {
        let Some(known) = best else {
            best = Some(value);
            continue;
        };
        let order = value.compare(known).ok_or_else(|| no_overload("<", value, known))?;
        if (greatest && order.is_gt()) || (!greatest && order.is_lt()) {
            best = Some(value);
        }
    }
    best.cloned().ok_or_else(|| Fault::new("the greatest or least of nothing"))
}

fn convert(to: &str, of: &Value) -> Result<Value, Fault> {
    use Value::{Bool, Double, Int, Text, Uint};
    let bad = || Fault::new(format!("a {} that is no {to}", of.kind()));
    let whole = |value: f64| -> Option<i128> {
        (value.is_finite() && value.abs() < 1e19).then_some(value.trunc() as i128)
    };
    match (to, of) {
        ("int", Int(_)) | ("uint", Uint(_)) | ("double", Double(_)) | ("string", Text(_)) => {
            Ok(of.clone())
        }
        ("int", Uint(value)) => i64::try_from(*value).map(Int).map_err(|_| bad()),
        ("int", Text(text)) => text.parse().map(Int).map_err(|_| bad()),
        ("int", Double(value)) => {
            whole(*value).and_then(|value| value.try_into().ok()).map(Int).ok_or_else(bad)
        }
        ("uint", Int(value)) => u64::try_from(*value).map(Uint).map_err(|_| bad()),
        ("uint", Text(text)) => text.parse().map(Uint).map_err(|_| bad()),
        ("uint", Double(value)) => {
            whole(*value).and_then(|value| value.try_into().ok()).map(Uint).ok_or_else(bad)
        }
        ("double", Int(value)) => Ok(Double(*value as f64)),
        ("double", Uint(value)) => Ok(Double(*value as f64)),
        ("double", Text(text)) => text.parse().map(Double).map_err(|_| bad()),
        ("string", Int(value)) => Ok(Text(value.to_string().into())),
        ("string", Uint(value)) => Ok(Text(value.to_string().into())),
        ("string", Double(value)) => Ok(Text(value.to_string().into())),
        ("string", Bool(value)) => Ok(Text(value.to_string().into())),
        ("string", Value::Ip(value)) => Ok(Text(value.to_string().into())),
        ("string", Value::Cidr(value)) => Ok(Text(value.to_string().into())),
        _ => Err(bad()),
    }
}
