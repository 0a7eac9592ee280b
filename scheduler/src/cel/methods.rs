//! Functions of a value: `text.contains(..)`, `quantity.isGreaterThan(..)` and their like.

use std::cmp::Ordering;
use std::sync::Arc;

use regex::RegexBuilder;

use super::Fault;
use super::eval::Scope;
use super::functions::{binary, extreme};
use super::net;
use super::value::Value;
use crate::quantity::Quantity;

/// Bytes that a compiled pattern may take.
const PATTERN_MAX: usize = 1 << 20;

/// What a pattern costs to compile, in steps.
const PATTERN_COST: usize = 100;

/// `target.name(args)`.
pub(super) fn call(
    scope: &mut Scope,
    target: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Fault> {
    let found = match target {
        Value::Text(text) => of_text(scope, text, name, args)?,
        Value::List(list) => of_list(scope, list, name, args)?,
        Value::Map(_) if name == "size" && args.is_empty() => Some(size(target)?),
        Value::Quantity(quantity) => of_quantity(*quantity, name, args)?,
        Value::Semver(version) => match (name, args) {
            ("major", []) => Some(number(version.numbers[0])),
            ("minor", []) => Some(number(version.numbers[1])),
            ("patch", []) => Some(number(version.numbers[2])),
            (_, [other @ Value::Semver(_)]) => compared(target, name, other),
            _ => None,
        },
        Value::Ip(address) => net::of_address(*address, name, args),
        Value::Cidr(cidr) => net::of_network(*cidr, name, args)?,
        Value::Optional(value) => of_optional(value.as_ref(), name, args)?,
        _ => None,
    };
    // An attribute that is one value is a list of it, for whoever asks whether it is there.
    match (found, name, args) {
        (Some(value), ..) => Ok(value),
        (None, "includes", [one]) => Ok(Value::Bool(target == one)),
        _ => {
            let kinds: Vec<&str> = args.iter().map(Value::kind).collect();
            let (of, kinds) = (target.kind(), kinds.join(", "));
            Err(Fault::new(format!("{name}({kinds}) of a {of} is not supported")))
        }
    }
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn count(value: usize) -> Value {
    number(value as u64)
}

/// How long a value is.
pub(super) fn size(of: &Value) -> Result<Value, Fault> {
    match of {
        Value::Text(text) => Ok(count(text.chars().count())),
        Value::List(list) => Ok(count(list.len())),
        Value::Map(map) => Ok(count(map.entries.len())),
        other => Err(Fault::new(format!("size() of a {}", other.kind()))),
    }
}

/// Whether a pattern is found in a text. The time that takes grows with the text only.
pub(super) fn matches(scope: &mut Scope, text: &str, pattern: &str) -> Result<Value, Fault> {
    let found = compiled(scope, text, pattern)?.is_match(text);
    Ok(Value::Bool(found))
}

fn compiled(scope: &mut Scope, text: &str, pattern: &str) -> Result<regex::Regex, Fault> {
    let steps = (text.len() / 10).saturating_mul(1 + pattern.len() / 4);
    scope.spend(steps.saturating_add(PATTERN_COST))?;
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_MAX).build();
    built.map_err(|_| Fault::new(format!("{pattern:?} is no pattern")))
}

fn compared(target: &Value, name: &str, other: &Value) -> Option<Value> {
    let order = target.compare(other)?;
    match name {
        "compareTo" => Some(Value::Int(order as i64)),
        "isGreaterThan" => Some(Value::Bool(order == Ordering::Greater)),
        "isLessThan" => Some(Value::Bool(order == Ordering::Less)),
        _ => None,
    }
}

fn of_quantity(quantity: Quantity, name: &str, args: &[Value]) -> Result<Option<Value>, Fault> {
    let target = Value::Quantity(quantity);
    Ok(match (name, args) {
        (_, [other @ Value::Quantity(_)]) if compared(&target, name, other).is_some() => {
            compared(&target, name, other)
        }
        ("sign", []) => Some(Value::Int(quantity.nano().signum() as i64)),
        ("isInteger", []) => Some(Value::Bool(quantity.whole().is_some())),
        ("asInteger", []) => match quantity.whole() {
            Some(whole) => Some(Value::Int(whole)),
            None => return Err(Fault::new("a quantity that is no whole number")),
        },
        ("asApproximateFloat", []) => Some(Value::Double(quantity.nano() as f64 / 1e9)),
        ("add" | "sub", [other]) => {
            let other = match other {
                Value::Quantity(other) => *other,
                Value::Int(other) => Quantity::of_nano(i128::from(*other) * 1_000_000_000),
                _ => return Ok(None),
            };
            let sign = if name == "add" { 1 } else { -1 };
            let sum = quantity.nano().saturating_add(other.nano().saturating_mul(sign));
            Some(Value::Quantity(Quantity::of_nano(sum)))
        }
        _ => None,
    })
}

fn of_optional(
    value: Option<&Arc<Value>>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    let inner = value.map(|value| (**value).clone());
    Ok(match (name, args) {
        ("hasValue", []) => Some(Value::Bool(inner.is_some())),
        ("value", []) => match inner {
            Some(value) => Some(value),
            None => return Err(Fault::new("value() of an optional that has none")),
        },
        ("orValue", [other]) => Some(inner.unwrap_or_else(|| other.clone())),
        ("or", [other @ Value::Optional(_)]) => Some(match value {
            Some(value) => Value::Optional(Some(value.clone())),
            None => other.clone(),
        }),
        _ => None,
    })
}

fn of_list(
    scope: &mut Scope,
    list: &Arc<Vec<Value>>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    let none = || Value::Int(-1);
    Ok(match (name, args) {
        ("size", []) => Some(count(list.len())),
        ("includes" | "contains", [one]) => Some(Value::Bool(list.contains(one))),
        ("indexOf", [one]) => {
            Some(list.iter().position(|known| known == one).map_or_else(none, count))
        }
        ("lastIndexOf", [one]) => {
            Some(list.iter().rposition(|known| known == one).map_or_else(none, count))
        }
        ("min", []) => Some(extreme(list, false)?),
        ("max", []) => Some(extreme(list, true)?),
        ("sum", []) => {
            let mut sum = match list.first() {
                Some(Value::Double(_)) => Value::Double(0.0),
                Some(Value::Uint(_)) => Value::Uint(0),
                _ => Value::Int(0),
            };
            for value in list.iter() {
                sum = binary("+", &sum, value)?;
            }
            Some(sum)
        }
        ("isSorted", []) => {
            let ordered = |pair: &[Value]| pair[0].compare(&pair[1]).is_some_and(Ordering::is_le);
            Some(Value::Bool(list.windows(2).all(ordered)))
        }
        ("join", [] | [Value::Text(_)]) => {
            let between = args.first().map_or("", |arg| match arg {
                Value::Text(text) => text,
                _ => "",
            });
            let texts = list.iter().map(|value| match value {
                Value::Text(text) => Ok(&**text),
                other => Err(Fault::new(format!("join() of a {}", other.kind()))),
            });
            let joined = texts.collect::<Result<Vec<&str>, Fault>>()?.join(between);
            scope.spend(joined.len() / 10)?;
            Some(Value::Text(joined.into()))
        }
        _ => None,
    })
}

fn of_text(
    scope: &mut Scope,
    text: &Arc<str>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    use Value::{Bool, Int, Text};
    let made = |text: &str| Some(Text(text.into()));
    Ok(match (name, args) {
        ("size", []) => Some(count(text.chars().count())),
        ("contains", [Text(part)]) => Some(Bool(text.contains(&**part))),
        ("startsWith", [Text(part)]) => Some(Bool(text.starts_with(&**part))),
        ("endsWith", [Text(part)]) => Some(Bool(text.ends_with(&**part))),
        ("matches", [Text(pattern)]) => Some(matches(scope, text, pattern)?),
        ("lowerAscii", []) => made(&text.to_ascii_lowercase()),
        ("upperAscii", []) => made(&text.to_ascii_uppercase()),
        ("trim", []) => made(text.trim()),
        ("split", [Text(by)]) => Some(split(text, by, -1)),
        ("split", [Text(by), Int(most)]) => Some(split(text, by, *most)),
        ("replace", [Text(from), Text(to)]) => Some(replaced(scope, text, from, to, -1)?),
        ("replace", [Text(from), Text(to), Int(most)]) => {
            Some(replaced(scope, text, from, to, *most)?)
        }
        ("substring", [Int(from)]) => Some(substring(text, *from, None)?),
        ("substring", [Int(from), Int(to)]) => Some(substring(text, *from, Some(*to))?),
        ("charAt", [Int(at)]) => Some(substring(text, *at, Some(at.saturating_add(1)))?),
        ("indexOf", [Text(part)]) => Some(place(text, text.find(&**part))),
        ("lastIndexOf", [Text(part)]) => Some(place(text, text.rfind(&**part))),
        ("find", [Text(pattern)]) => {
            let found = compiled(scope, text, pattern)?;
            made(found.find(text).map_or("", |found| found.as_str()))
        }
        ("findAll", [Text(pattern)]) => {
            let pattern = compiled(scope, text, pattern)?;
            let found = pattern.find_iter(text).map(|found| Text(found.as_str().into()));
            Some(Value::List(Arc::new(found.collect())))
        }
        _ => None,
    })
}

/// The place of a byte, in characters; -1: nowhere.
fn place(text: &str, byte: Option<usize>) -> Value {
    byte.map_or(Value::Int(-1), |byte| count(text[..byte].chars().count()))
}

fn split(text: &str, by: &str, most: i64) -> Value {
    let texts: Vec<Value> = match (usize::try_from(most), by) {
        (Ok(0), _) => Vec::new(),
        (Ok(most), "") => {
            let cut = text.char_indices().nth(most - 1).map_or(text.len(), |(at, _)| at);
            let ones = text[..cut].chars().map(|one| Value::Text(one.to_string().into()));
            ones.chain((cut < text.len()).then(|| Value::Text(text[cut..].into()))).collect()
        }
        (Ok(most), by) => text.splitn(most, by).map(|part| Value::Text(part.into())).collect(),
        (Err(_), "") => text.chars().map(|one| Value::Text(one.to_string().into())).collect(),
        (Err(_), by) => text.split(by).map(|part| Value::Text(part.into())).collect(),
    };
    Value::List(Arc::new(texts))
}

fn replaced(
    scope: &mut Scope,
    text: &str,
    from: &str,
    to: &str,
    most: i64,
) -> Result<Value, Fault> {
    // What it may grow to is paid before it does.
    let places = if from.is_empty() { text.len() + 1 } else { text.len() / from.len() };
    scope.spend(places.saturating_mul(1 + to.len() / 10))?;
    let made = match usize::try_from(most) {
        Ok(most) => text.replacen(from, to, most),
        Err(_) => text.replace(from, to),
    };
    Ok(Value::Text(made.into()))
}

fn substring(text: &str, from: i64, to: Option<i64>) -> Result<Value, Fault> {
    let length = text.chars().count() as i64;
    let to = to.unwrap_or(length);
    if from < 0 || to < from || to > length {
        return Err(Fault::new(format!("characters {from} to {to} of a text of {length}")));
    }
    let part = text.chars().skip(from as usize).take((to - from) as usize);
    Ok(Value::Text(part.collect::<String>().into()))
}
