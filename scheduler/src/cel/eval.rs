//! The value of an expression.
//!
//! Decides the order in which parts are looked at: `&&` and `||` forgive a fault on one side if
//! the other settles the answer, as CEL has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::{Each, Expr};
use super::value::{Key, Map, Value};
use super::{Fault, functions, methods};

/// The most that one evaluation may cost: what Kubernetes allows a device selector.
pub const COST_MAX: u64 = 1_000_000;

/// The value of an expression, with one variable.
pub fn evaluate(expression: &Expr, name: &str, value: Value) -> Result<Value, Fault> {
    let mut scope = Scope { variables: vec![(name.into(), value)], left: COST_MAX };
    scope.value(expression)
}

/// Variables, and what may still be spent.
pub(super) struct Scope {
    variables: Vec<(Arc<str>, Value)>,
    left: u64,
}

/// The answer of an expression that has none of its own: a fault, told later or never.
type Outcome = Result<Value, Fault>;

impl Scope {
    /// Spends so much.
    pub fn spend(&mut self, cost: usize) -> Result<(), Fault> {
        let cost = cost as u64;
        if cost > self.left {
            self.left = 0;
            return Err(Fault::new(format!("it costs more than {COST_MAX} steps")));
        }
        self.left -= cost;
        Ok(())
    }

    fn value(&mut self, expression: &Expr) -> Outcome {
        self.spend(1)?;
        match expression {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Variable(name) => self.variable(name),
            Expr::Field(base, name, optional) => {
                let base = self.value(base)?;
                let key = Key::Text(name.clone());
                self.element(base, &key, *optional)
            }
            Expr::Has(base, name) => match self.value(base)? {
                Value::Map(map) => {
                    Ok(Value::Bool(map.entries.contains_key(&Key::Text(name.clone()))))
                }
                Value::Optional(None) => Ok(Value::Bool(false)),
                other => Err(Fault::new(format!("has() on a {}", other.kind()))),
            },
            Expr::Index(base, index, optional) => {
                let (base, index) = (self.value(base)?, self.value(index)?);
                let key = Key::of(&index);
                let key = key.ok_or_else(|| Fault::new(format!("index by {}", index.kind())))?;
                self.element(base, &key, *optional)
            }
            Expr::Call(base, name, args) => self.call(base.as_deref(), name, args),
            Expr::List(parts) => {
                let parts: Result<Vec<Value>, Fault> =
                    parts.iter().map(|part| self.value(part)).collect();
                Ok(Value::List(Arc::new(parts?)))
            }
            Expr::Map(parts) => self.map(parts),
            Expr::Unary(operator, of) => {
                let value = self.value(of)?;
                unary(operator, &value)
            }
            Expr::Binary("&&", left, right) => self.both(left, right, false),
            Expr::Binary("||", left, right) => self.both(left, right, true),
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.spend(length(&left) + length(&right))?;
                functions::binary(operator, &left, &right)
            }
            Expr::Choice(condition, yes, no) => match self.value(condition)? {
                Value::Bool(true) => self.value(yes),
                Value::Bool(false) => self.value(no),
                other => Err(Fault::new(format!("a choice by {}, not by bool", other.kind()))),
            },
            Expr::Each(each, range, name, filter, body) => {
                let range = self.value(range)?;
                self.each(*each, &range, name, filter.as_deref(), body)
            }
            Expr::Bind(name, value, body) => {
                let value = self.value(value)?;
                self.with(name, value, body)
            }
        }
    }

    fn variable(&self, name: &Arc<str>) -> Outcome {
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        known
            .map(|(_, value)| value.clone())
            .ok_or_else(|| Fault::new(format!("{name} is not known")))
    }

    fn with(&mut self, name: &Arc<str>, value: Value, body: &Expr) -> Outcome {
        self.variables.push((name.clone(), value));
        let outcome = self.value(body);
        self.variables.pop();
        outcome
    }

    /// An element of a map or list.
    fn element(&mut self, base: Value, key: &Key, optional: bool) -> Outcome {
        let (base, optional) = match base {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            base => (base, optional),
        };
        let found = match (&base, key) {
            (Value::Map(map), key) if optional => map.entries.get(key).cloned(),
            (Value::Map(map), key) => map.get(key),
            (Value::List(list), Key::Int(at)) => {
                usize::try_from(*at).ok().and_then(|at| list.get(at)).cloned()
            }
            (other, _) => {
                return Err(Fault::new(format!("a {} has no elements", other.kind())));
            }
        };
        match (found, optional) {
            (found, true) => Ok(Value::Optional(found.map(Arc::new))),
            (Some(found), false) => Ok(found),
            (None, false) => Err(Fault::new(match key {
                Key::Text(name) => format!("no such key: {name}"),
                Key::Int(at) => format!("no such element: {at}"),
                Key::Bool(value) => format!("no such key: {value}"),
            })),
        }
    }

    fn map(&mut self, parts: &[(Expr, Expr)]) -> Outcome {
        let mut entries = BTreeMap::new();
        for (key, value) in parts {
            let key = self.value(key)?;
            let made = Key::of(&key);
            let key = made.ok_or_else(|| Fault::new(format!("a {} as a key", key.kind())))?;
            if entries.insert(key, self.value(value)?).is_some() {
                return Err(Fault::new("a map has a key twice"));
            }
        }
        Ok(Value::Map(Arc::new(Map { entries, open: false })))
    }

    /// `&&` and `||`: whichever side is `settles` decides, whatever the other does.
    fn both(&mut self, left: &Expr, right: &Expr, settles: bool) -> Outcome {
        let first = self.value(left);
        if first == Ok(Value::Bool(settles)) {
            return first;
        }
        let second = self.value(right);
        match (first, second) {
            (_, Ok(Value::Bool(value))) if value == settles => Ok(Value::Bool(settles)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            (Err(fault), _) | (Ok(Value::Bool(_)), Err(fault)) => Err(fault),
            (Ok(Value::Bool(_)), Ok(other)) | (Ok(other), _) => {
                let sign = if settles { "||" } else { "&&" };
                Err(Fault::new(format!("{sign} with {}, not with bool", other.kind())))
            }
        }
    }

    fn each(
        &mut self,
        each: Each,
        range: &Value,
        name: &Arc<str>,
        filter: Option<&Expr>,
        body: &Expr,
    ) -> Outcome {
        let elements: Vec<Value> = match range {
            Value::List(list) => list.to_vec(),
            Value::Map(map) => map.entries.keys().map(Key::value).collect(),
            other => return Err(Fault::new(format!("a {} has no elements", other.kind()))),
        };
        let (mut kept, mut count, mut fault) = (Vec::new(), 0, None);
        for element in elements {
            self.spend(1)?;
            if let Some(filter) = filter
                && !truth(self.with(name, element.clone(), filter)?)?
            {
                continue;
            }
            let made = self.with(name, element.clone(), body);
            match each {
                Each::Map => kept.push(made?),
                Each::Filter => {
                    if truth(made?)? {
                        kept.push(element);
                    }
                }
                Each::ExistsOne => count += usize::from(truth(made?)?),
                Each::All | Each::Exists => {
                    let settles = each == Each::Exists;
                    match made.and_then(truth) {
                        Ok(value) if value == settles => return Ok(Value::Bool(settles)),
                        Ok(_) => {}
                        Err(new) => fault = fault.or(Some(new)),
                    }
                }
            }
        }
        match (each, fault) {
            (_, Some(fault)) => Err(fault),
            (Each::All, None) => Ok(Value::Bool(true)),
            (Each::Exists, None) => Ok(Value::Bool(false)),
            (Each::ExistsOne, None) => Ok(Value::Bool(count == 1)),
            (Each::Map | Each::Filter, None) => Ok(Value::List(Arc::new(kept))),
        }
    }

    fn call(&mut self, base: Option<&Expr>, name: &str, args: &[Expr]) -> Outcome {
        // `math.greatest(..)` and its like: a name that is no variable stands before the dot.
        let library = match base {
            Some(Expr::Variable(library)) if functions::LIBRARIES.contains(&&**library) => {
                Some(library.clone()).filter(|library| self.variable(library).is_err())
            }
            _ => None,
        };
        if let (Some(base), "optMap", [Expr::Variable(x), body]) = (base, name, args) {
            return match self.value(base)? {
                Value::Optional(Some(value)) => {
                    let made = self.with(x, (*value).clone(), body)?;
                    Ok(Value::Optional(Some(Arc::new(made))))
                }
                none => Ok(none),
            };
        }
        let target = match (base, &library) {
            (Some(base), None) => Some(self.value(base)?),
            _ => None,
        };
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.value(arg)?);
        }
        let lengths = values.iter().chain(&target).map(length).fold(0, usize::saturating_add);
        self.spend(lengths)?;
        match target {
            Some(target) => methods::call(self, &target, name, &values),
            None => functions::call(self, library.as_deref(), name, &values),
        }
    }
}

/// What it costs to look at all of a value.
fn length(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() / 10,
        Value::List(list) => list.len(),
        Value::Map(map) => map.entries.len(),
        _ => 0,
    }
}

fn truth(value: Value) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(value),
        other => Err(Fault::new(format!("a {} where a bool is needed", other.kind()))),
    }
}

fn unary(operator: &str, value: &Value) -> Outcome {
    match (operator, value) {
        ("!", Value::Bool(value)) => Ok(Value::Bool(!value)),
        ("-", Value::Int(value)) => {
            value.checked_neg().map(Value::Int).ok_or_else(|| Fault::new("a number too large"))
        }
        ("-", Value::Double(value)) => Ok(Value::Double(-value)),
        (operator, other) => Err(Fault::new(format!("{operator} on a {}", other.kind()))),
    }
}
