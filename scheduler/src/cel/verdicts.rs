//! Expressions with the verdicts of Kubernetes 1.37.1 on them.
//!
//! A line of `verdicts.txt` is a verdict and an expression: what a device selector comes to on the
//! device below, `refused` if Kubernetes does not compile it, `fails` if it ends in a fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>, open: bool) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (Key::Text(key.into()), value));
    Value::Map(Arc::new(Map { entries: entries.collect::<BTreeMap<_, _>>(), open }))
}

fn device() -> Value {
    let version = Semver::parse("1.0.0", false).expect("a version");
    let memory = Amount::parse("8Gi").expect("a quantity");
    let attributes = [
        ("model", Value::Text("a".into())),
        ("size", Value::Int(2)),
        ("ok", Value::Bool(true)),
        ("ver", Value::Semver(Arc::new(version))),
    ];
    let others = map([("q", Value::Int(7))], false);
    let capacity = map([("memory", Value::Quantity(Arc::new(memory)))], false);
    let fields = [
        ("driver", Value::Text("d.x".into())),
        ("allowMultipleAllocations", Value::Bool(false)),
        ("attributes", map([("d.x", map(attributes, false)), ("other.io", others)], true)),
        ("capacity", map([("d.x", capacity)], true)),
    ];
    map(fields, false)
}

#[test]
fn verdicts_are_those_of_kubernetes() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in include_str!("verdicts.txt").lines() {
        let (verdict, text) = line.split_once(' ').expect("a verdict and an expression");
        let found = match parse(text) {
            Err(fault) => ("refused", fault.to_string()),
            Ok(expression) => match evaluate(&expression, "device", device()) {
                Ok(Value::Bool(true)) => ("true", String::new()),
                Ok(Value::Bool(false)) => ("false", String::new()),
                Ok(other) => ("fails", format!("a {}, not a bool", other.kind())),
                Err(fault) => ("fails", fault.to_string()),
            },
        };
        count += 1;
        if found.0 != verdict {
            wrong.push(format!("{verdict}: {text}: {found:?}"));
        }
    }
    assert!(count > 500, "{count} lines");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
