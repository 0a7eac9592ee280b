//! Functions of a value: `text.contains(..)`, `quantity.isGreaterThan(..)` and their like.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Fault;
use super::amount::Amount;
use super::eval::Scope;
use super::value::Value;
use super::{lists, net, texts};

/// `target.name(args)`.
pub(super) fn call(
    scope: &mut Scope,
    target: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Fault> {
    let found = match target {
        Value::Text(text) => texts::call(scope, text, name, args)?,
        Value::List(list) => lists::call(scope, list, name, args)?,
        Value::Map(_) | Value::Bytes(_) if name == "size" && args.is_empty() => {
            Some(lists::size(target)?)
        }
        Value::Time(time) => time.call(name, args)?,
        Value::Duration(duration) if args.is_empty() => duration.call(name),
        Value::Quantity(quantity) => of_quantity(target, **quantity, name, args)?,
        Value::Semver(version) => match (name, args) {
            ("major", []) => Some(number(version.numbers[0])),
            ("minor", []) => Some(number(version.numbers[1])),
            ("patch", []) => Some(number(version.numbers[2])),
            (_, [other @ Value::Semver(_)]) => compared(target, name, other),
            _ => None,
        },
        Value::Ip(address) => net::of_address(*address, name, args),
        Value::Cidr(cidr) => net::of_network(*cidr, name, args)?,
        Value::Url(url) if args.is_empty() => url.call(name),
        Value::Format(format) => match (name, args) {
            ("validate", [Value::Text(text)]) => {
                scope.spend(text.len())?;
                Some(format.validate(text))
            }
            _ => None,
        },
        Value::Optional(value) => of_optional(value.as_ref(), name, args)?,
        _ => None,
    };
    // An attribute that is one value is a list of it, for whoever asks whether it is there.
    match (found, name, args) {
        (Some(value), ..) => Ok(value),
        (None, "includes", [one]) => {
            scope.spend_pairs(args, std::slice::from_ref(target))?;
            Ok(Value::Bool(target == one))
        }
        _ => {
            let kinds: Vec<&str> = args.iter().map(Value::kind).collect();
            let (of, kinds) = (target.kind(), kinds.join(", "));
            Err(Fault::new(format!("no such overload: {of}.{name}({kinds})")))
        }
    }
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
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

fn of_quantity(
    target: &Value,
    amount: Amount,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    Ok(match (name, args) {
        (_, [other @ Value::Quantity(_)]) if compared(target, name, other).is_some() => {
            compared(target, name, other)
        }
        ("isInteger", []) => Some(Value::Bool(amount.whole().is_some())),
        ("asInteger", []) => match amount.whole() {
            Some(whole) => Some(Value::Int(whole)),
            None => return Err(Fault::new("a quantity that is no whole number")),
        },
        ("asApproximateFloat", []) => Some(Value::Double(amount.double())),
        ("add" | "sub", [other]) => {
            let other = match other {
                Value::Quantity(other) => **other,
                Value::Int(other) => Amount::of_whole(*other),
                _ => return Ok(None),
            };
            Some(Value::Quantity(Arc::new(amount.plus(other, name == "sub"))))
        }
        _ => None,
    })
}

/// All but what stands for a value that is there, which is decided before this is looked at.
fn of_optional(
    value: Option<&Arc<Value>>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    Ok(match (name, args) {
        ("hasValue", []) => Some(Value::Bool(value.is_some())),
        ("value", []) => match value {
            Some(value) => Some((**value).clone()),
            None => return Err(Fault::new("value() of an optional that has none")),
        },
        ("orValue", [other]) | ("or", [other @ Value::Optional(_)]) => Some(other.clone()),
        _ => None,
    })
}
