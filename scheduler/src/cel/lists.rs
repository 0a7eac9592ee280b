//! Functions of lists: sums, order, parts, and what is in them.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::Fault;
use super::costs::COPIED;
use super::eval::Scope;
use super::functions::binary;
use super::time::Duration;
use super::value::Value;

/// A place or a number of elements.
pub(super) fn count(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn list(values: Vec<Value>) -> Value {
    Value::List(Arc::new(values))
}

/// How long a value is.
pub(super) fn size(of: &Value) -> Result<Value, Fault> {
    match of {
        Value::Text(text) => Ok(count(text.chars().count())),
        Value::Bytes(bytes) => Ok(count(bytes.len())),
        Value::List(list) => Ok(count(list.len())),
        Value::Map(map) => Ok(count(map.entries.len())),
        other => Err(Fault::new(format!("size() of a {}", other.kind()))),
    }
}

/// `list.name(args)`.
pub(super) fn call(
    scope: &mut Scope,
    of: &Arc<Vec<Value>>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    let none = || Value::Int(-1);
    let optional = |value: Option<&Value>| Value::Optional(value.cloned().map(Arc::new));
    if let ("includes" | "indexOf" | "lastIndexOf", [_]) = (name, args) {
        scope.spend_pairs(args, of)?;
    }
    Ok(Some(match (name, args) {
        ("size", []) => count(of.len()),
        ("includes", [one]) => Value::Bool(of.contains(one)),
        ("indexOf", [one]) => of.iter().position(|known| known == one).map_or_else(none, count),
        ("lastIndexOf", [one]) => {
            of.iter().rposition(|known| known == one).map_or_else(none, count)
        }
        ("min", []) => extreme(of, false)?,
        ("max", []) => extreme(of, true)?,
        ("sum", []) => sum(of)?,
        ("isSorted", []) => {
            let ordered = |pair: &[Value]| pair[0].compare(&pair[1]).is_none_or(Ordering::is_le);
            Value::Bool(of.windows(2).all(ordered))
        }
        ("join", []) => join(scope, of, "")?,
        ("join", [Value::Text(between)]) => join(scope, of, between)?,
        ("first", []) => optional(of.first()),
        ("last", []) => optional(of.last()),
        ("reverse", []) => list(of.iter().rev().cloned().collect()),
        ("sort", []) => sorted(scope, of, of)?,
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let place = |at: &i64| usize::try_from(*at).ok();
            let range = place(from).zip(place(to)).map(|(from, to)| from..to);
            let part = range.and_then(|range| of.get(range));
            let fault = || Fault::new(format!("elements {from} to {to} of a list of {}", of.len()));
            let part = part.ok_or_else(fault)?;
            scope.spend(part.len() / COPIED)?;
            list(part.to_vec())
        }
        ("distinct", []) => {
            scope.spend(of.len().saturating_mul(of.len()).saturating_mul(2))?;
            scope.spend_pairs(of, of)?;
            let mut kept: Vec<Value> = Vec::new();
            for value in of.iter() {
                if !kept.contains(value) {
                    kept.push(value.clone());
                }
            }
            list(kept)
        }
        ("flatten", []) => flatten(scope, of, 1)?,
        ("flatten", [Value::Int(depth)]) => flatten(scope, of, *depth)?,
        ("unwrapOpt", []) => unwrapped(of)?,
        _ => return Ok(None),
    }))
}

/// The greatest or least of some values.
fn extreme(all: &[Value], greatest: bool) -> Result<Value, Fault> {
    let mut best: Option<&Value> = None;
    for value in all {
        let Some(known) = best else {
            best = Some(value);
            continue;
        };
        let order = value.compare(known).ok_or_else(|| value.unlike("<", known))?;
        if (greatest && order.is_gt()) || (!greatest && order.is_lt()) {
            best = Some(value);
        }
    }
    best.cloned().ok_or_else(|| Fault::new("the greatest or least of nothing"))
}

fn sum(all: &[Value]) -> Result<Value, Fault> {
    let mut sum = match all.first() {
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Duration(_)) => Value::Duration(Duration { nanos: 0 }),
        _ => Value::Int(0),
    };
    for value in all {
        sum = binary("+", &sum, value)?;
    }
    Ok(sum)
}

fn join(scope: &mut Scope, all: &[Value], between: &str) -> Result<Value, Fault> {
    let texts = all.iter().map(|value| match value {
        Value::Text(text) => Ok(&**text),
        other => Err(Fault::new(format!("join() of a {}", other.kind()))),
    });
    let texts = texts.collect::<Result<Vec<&str>, Fault>>()?;
    // What it grows to is paid before it does.
    let length = texts.iter().map(|text| text.len() + between.len());
    scope.spend(length.fold(0, usize::saturating_add) / 10)?;
    Ok(Value::Text(texts.join(between).into()))
}

/// Some values in the order of their keys, which must be of one type that has an order.
pub(super) fn sorted(scope: &mut Scope, all: &[Value], keys: &[Value]) -> Result<Value, Fault> {
    scope.spend(all.len().saturating_mul(all.len()).saturating_mul(2))?;
    let Some(first) = keys.first() else { return Ok(list(Vec::new())) };
    let unlike = keys.iter().find(|key| key.kind() != first.kind());
    if let Some(other) = unlike {
        return Err(first.unlike("<", other));
    }
    if !first.has_order() {
        return Err(Fault::new(format!("a {} has no order", first.kind())));
    }
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(all).collect();
    // A sort may end in a panic where its order is none: numbers that are none come last.
    let is_none = |key: &Value| matches!(key, Value::Double(key) if key.is_nan());
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or_else(|| is_none(a).cmp(&is_none(b))));
    Ok(list(pairs.into_iter().map(|(_, value)| value.clone()).collect()))
}

/// `lists.range(count)`.
pub(super) fn range(scope: &mut Scope, count: i64) -> Result<Value, Fault> {
    let length = usize::try_from(count);
    let length = length.map_err(|_| Fault::new(format!("a list of {count} elements")))?;
    scope.spend(length)?;
    Ok(list((0..count).map(Value::Int).collect()))
}

/// What lists are in a list, in their place; so deep.
fn flatten(scope: &mut Scope, of: &[Value], depth: i64) -> Result<Value, Fault> {
    if depth < 0 {
        return Err(Fault::new("flatten() of a depth below zero"));
    }
    let mut made = Vec::new();
    let mut left: VecDeque<(&Value, i64)> = of.iter().map(|value| (value, depth)).collect();
    while let Some((value, depth)) = left.pop_front() {
        scope.spend(1)?;
        match value {
            Value::List(inner) if depth > 0 => {
                for value in inner.iter().rev() {
                    left.push_front((value, depth - 1));
                }
            }
            value => made.push(value.clone()),
        }
    }
    Ok(list(made))
}

/// What is in optional elements.
pub(super) fn unwrapped(of: &[Value]) -> Result<Value, Fault> {
    let mut made = Vec::new();
    for value in of {
        match value {
            Value::Optional(inner) => made.extend(inner.as_deref().cloned()),
            other => return Err(Fault::new(format!("a {} that is no optional", other.kind()))),
        }
    }
    Ok(list(made))
}
