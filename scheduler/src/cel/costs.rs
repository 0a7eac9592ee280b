//! What steps cost, beside what functions themselves spend for what they make.
//!
//! As Kubernetes counts: what is written out is free, a list that is made costs ten and a map
//! thirty, a turn of a loop what its macro stands for, a function or an operator what it looks
//! through. Otherwise than there, what copies a list, or makes a long one of what is written out,
//! is paid for by a part of its length, and so is what counts a very long text: there such steps
//! cost the same however long they take. `&&`, `||` and choices cost a step.

use super::parse::{Each, Expr};
use super::value::Value;

/// Elements that are copied for one step.
pub(super) const COPIED: usize = 2;

/// Elements that are written out for one step.
const WRITTEN: usize = 10;

/// Bytes whose characters are counted for one step.
const COUNTED: usize = 1_000;

/// A part of an expression, without what is in it.
pub(super) fn node(expression: &Expr) -> usize {
    match expression {
        Expr::Literal(_) => 0,
        Expr::List(parts) => 10 + parts.len() / WRITTEN,
        Expr::Map(parts) => 30 + parts.len() / WRITTEN,
        _ => 1,
    }
}

/// A turn of a loop.
pub(super) fn turn(each: Each) -> usize {
    match each {
        // Whether it goes on, and what there was so far.
        Each::All => 3,
        Each::Exists => 4,
        // A list of one is made, and put to the others.
        Each::Map => 12,
        _ => 1,
    }
}

/// An operator, but for what is in the elements that it compares.
pub(super) fn operator(operator: &str, left: &Value, right: &Value) -> usize {
    let (length, other) = (left.length(), right.length());
    match (operator, right) {
        ("in", Value::List(list)) => list.len(),
        ("in", _) => 0,
        ("+", Value::List(_)) => length.saturating_add(other) / COPIED,
        // No more is looked at than is in both; of lists, a tenth is.
        ("==" | "!=", Value::List(_) | Value::Map(_)) => length.min(other) / 10,
        ("==" | "!=" | "<" | "<=" | ">" | ">=", _) => length.min(other),
        _ => length.saturating_add(other),
    }
}

/// A function.
pub(super) fn call(name: &str, target: Option<&Value>, args: &[Value]) -> usize {
    let all = args.iter().chain(target);
    match name {
        "size" => all.map(counted).sum(),
        "startsWith" | "endsWith" => args.iter().map(Value::length).sum(),
        "dyn" | "type" | "first" | "last" | "optional.of" | "optional.ofNonZeroValue" => 0,
        // It pays for what it takes.
        "slice" => 0,
        _ => all.map(Value::length).fold(0, usize::saturating_add),
    }
}

fn counted(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() / COUNTED,
        _ => 0,
    }
}
