//! The value of an expression.
//!
//! Decides the order in which parts are looked at: `&&` and `||` forgive a fault on one side if
//! the other settles the answer, as CEL has it.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;

use super::parse::{Each, Expr, Loop, Program};
use super::regexes::Patterns;
use super::value::{Key, Map, Value};
use super::{Fault, costs, functions, lists, methods, types};

/// The most that one evaluation may cost: what Kubernetes allows a device selector.
pub const COST_MAX: u64 = 1_000_000;

/// The value of an expression, with one variable.
#[cfg(test)]
pub fn evaluate(program: &Program, name: &str, value: Value) -> Result<Value, Fault> {
    weigh(program, name, value).0
}

/// The value of an expression, with one variable; and what it cost to find it.
pub fn weigh(program: &Program, name: &str, value: Value) -> (Result<Value, Fault>, u64) {
    let outcome = program.go_through(|expression| {
        let variables = vec![(name.into(), Ok(value))];
        let mut scope = Scope { variables, left: COST_MAX, patterns: Patterns::default() };
        let outcome = scope.value(expression);
        (outcome, COST_MAX - scope.left)
    });
    let (outcome, cost) = outcome.unwrap_or_else(|fault| (Err(fault), 0));
    (outcome, cost + program.entry())
}

/// Variables, and what may still be spent.
pub(super) struct Scope {
    variables: Vec<(Arc<str>, Outcome)>,
    left: u64,
    /// Patterns that were paid for.
    pub(super) patterns: Patterns,
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

    /// Spends what it costs to compare each of some values with each of others, beyond one step
    /// for each pair: a tenth of all that is in the smaller of two, and of what is looked through
    /// to see how large they are.
    pub fn spend_pairs(&mut self, some: &[Value], others: &[Value]) -> Result<(), Fault> {
        if some.iter().all(Value::is_one) {
            return Ok(());
        }
        let (some, others) = (self.extents(some)?, self.extents(others)?);
        let mut sum = 0_usize;
        for one in some.iter().filter(|one| **one > 0) {
            let with_all = others.iter().map(|other| one.min(other));
            sum = with_all.fold(sum, |sum, extent| sum.saturating_add(*extent));
        }
        self.spend(sum / 10)
    }

    fn extents(&mut self, values: &[Value]) -> Result<Vec<usize>, Fault> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_mul(10);
        let (mut all, mut sum) = (Vec::with_capacity(values.len()), 0_usize);
        for value in values {
            let extent = value.extent(most.saturating_sub(sum));
            sum = sum.saturating_add(extent);
            if sum > most {
                break;
            }
            all.push(extent);
        }
        self.spend(sum.div_ceil(10))?;
        Ok(all)
    }

    fn value(&mut self, expression: &Expr) -> Outcome {
        self.spend(costs::node(expression))?;
        match expression {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Variable(name) => self.variable(name),
            Expr::Field(base, name, optional) => {
                let base = self.value(base)?;
                self.element(base, &Value::Text(name.clone()), *optional)
            }
            Expr::Has(base, name) => self.has(base, name),
            Expr::Index(base, index, optional) => {
                let base = self.value(base)?;
                if matches!(base, Value::Optional(None)) {
                    return Ok(base);
                }
                let index = self.value(index)?;
                self.element(base, &index, *optional)
            }
            Expr::Call(base, name, args) => self.call(base.as_deref(), name, args),
            Expr::List(parts) => self.list(parts),
            Expr::Map(parts) => self.map(parts),
            Expr::Unary(operator, of) => {
                let value = self.value(of)?;
                functions::unary(operator, &value)
            }
            Expr::Binary("&&", left, right) => self.both(left, right, false),
            Expr::Binary("||", left, right) => self.both(left, right, true),
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.spend(costs::operator(operator, &left, &right))?;
                match (*operator, &right) {
                    // What texts cost to compare is known at once.
                    ("==" | "!=", Value::Text(_) | Value::Bytes(_)) => {}
                    ("==" | "!=", _) if !matches!(left, Value::Text(_) | Value::Bytes(_)) => {
                        self.spend_pairs(from_ref(&left), from_ref(&right))?;
                    }
                    ("in", Value::List(list)) => self.spend_pairs(from_ref(&left), list)?,
                    _ => {}
                }
                functions::binary(operator, &left, &right)
            }
            Expr::Choice(condition, yes, no) => match self.value(condition)? {
                Value::Bool(true) => self.value(yes),
                Value::Bool(false) => self.value(no),
                other => Err(Fault::new(format!("a choice by {}, not by bool", other.kind()))),
            },
            Expr::Each(each) => self.each(each),
            Expr::Bind(name, value, body) => {
                // A fault of what nobody looks at is none.
                let value = self.value(value);
                self.with([(name, value)], body)
            }
            Expr::OptMap(base, name, body, flat) => match self.value(base)? {
                Value::Optional(Some(value)) => {
                    let made = self.with([(name, Ok((*value).clone()))], body)?;
                    Ok(if *flat { made } else { Value::Optional(Some(Arc::new(made))) })
                }
                none @ Value::Optional(None) => Ok(none),
                other => Err(Fault::new(format!("optMap() of a {}", other.kind()))),
            },
        }
    }

    fn variable(&self, name: &Arc<str>) -> Outcome {
        let known = self.variables.iter().rev().find(|(known, _)| known == name);
        match (known, types::NAMES.into_iter().find(|known| *known == &**name)) {
            (Some((_, value)), _) => value.clone(),
            (None, Some(name)) => Ok(Value::Type(name)),
            (None, None) => Err(Fault::new(format!("{name} is not known"))),
        }
    }

    fn with<'a>(
        &mut self,
        names: impl IntoIterator<Item = (&'a Arc<str>, Outcome)>,
        body: &Expr,
    ) -> Outcome {
        let before = self.variables.len();
        self.variables.extend(names.into_iter().map(|(name, value)| (name.clone(), value)));
        let outcome = self.value(body);
        self.variables.truncate(before);
        outcome
    }

    fn has(&mut self, base: &Expr, name: &Arc<str>) -> Outcome {
        let base = match self.value(base)? {
            Value::Optional(None) => return Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => (*inner).clone(),
            base => base,
        };
        match base {
            Value::Map(map) => Ok(Value::Bool(map.get(&Key::Text(name.clone())).is_some())),
            other => Err(Fault::new(format!("has() on a {}", other.kind()))),
        }
    }

    /// An element of a map or list.
    fn element(&mut self, base: Value, index: &Value, optional: bool) -> Outcome {
        let (base, optional) = match base {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            base => (base, optional),
        };
        let key = Key::sought(index);
        let key = key.ok_or_else(|| Fault::new(format!("index by {}", index.kind())))?;
        let found = match (&base, &key) {
            (Value::Map(map), key) => map.get(key),
            (Value::List(list), Key::Int(at)) => at.place().and_then(|at| list.get(at)).cloned(),
            (other, _) => {
                return Err(Fault::new(format!("a {} has no such elements", other.kind())));
            }
        };
        match (found, optional) {
            (found, true) => Ok(Value::Optional(found.map(Arc::new))),
            (Some(found), false) => Ok(found),
            (None, false) => Err(Fault::new(match key {
                Key::Text(name) => format!("no such key: {name}"),
                Key::Int(at) => format!("no such element: {}", at.number()),
                Key::Bool(value) => format!("no such key: {value}"),
            })),
        }
    }

    fn list(&mut self, parts: &[(Expr, bool)]) -> Outcome {
        let mut list = Vec::with_capacity(parts.len());
        for (part, optional) in parts {
            let value = self.value(part)?;
            list.extend(if *optional { given(value)? } else { Some(value) });
        }
        Ok(Value::List(Arc::new(list)))
    }

    fn map(&mut self, parts: &[(Expr, Expr, bool)]) -> Outcome {
        let mut entries = BTreeMap::new();
        for (key, value, optional) in parts {
            let (key, value) = (self.value(key)?, self.value(value)?);
            if let Some(value) = if *optional { given(value)? } else { Some(value) } {
                // What is written last holds.
                entries.insert(made_key(&key)?, value);
            }
        }
        Ok(Value::Map(Arc::new(Map { entries, open: false })))
    }

    /// `&&` and `||`: whichever side is `settles` decides, whatever the other does.
    fn both(&mut self, left: &Expr, right: &Expr, settles: bool) -> Outcome {
        let first = self.value(left);
        if matches!(first, Ok(Value::Bool(value)) if value == settles) {
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

    fn each(&mut self, each: &Loop) -> Outcome {
        let range = self.value(&each.range)?;
        let (first, second) = (&each.names.0, each.names.1.as_ref());
        let index = |at: usize| Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
        // What the first name stands for, and the second one or else the same.
        // One after the other, each when its turn is paid.
        let elements: Box<dyn Iterator<Item = (Value, Value)> + '_> = match (&range, second) {
            (Value::List(list), None) => Box::new(list.iter().map(|it| (it.clone(), Value::Null))),
            (Value::List(list), Some(_)) => {
                Box::new(list.iter().enumerate().map(|(at, it)| (index(at), it.clone())))
            }
            (Value::Map(map), _) => {
                Box::new(map.entries.iter().map(|(key, value)| (key.value(), value.clone())))
            }
            (other, _) => return Err(Fault::new(format!("a {} has no elements", other.kind()))),
        };
        let mut made = Made::default();
        for (key, value) in elements {
            self.spend(costs::turn(each.each))?;
            let names = || {
                let more = second.map(|second| (second, Ok(value.clone())));
                std::iter::once((first, Ok(key.clone()))).chain(more)
            };
            if let Some(filter) = &each.filter
                && !truth(self.with(names(), filter)?)?
            {
                continue;
            }
            let body = self.with(names(), &each.body);
            if let Some(answer) = made.add(self, each.each, key, body)? {
                return Ok(answer);
            }
        }
        made.finish(self, each.each, &range)
    }

    fn call(&mut self, base: Option<&Expr>, name: &str, args: &[Expr]) -> Outcome {
        let target = base.map(|base| self.value(base)).transpose()?;
        // What takes the place of nothing is only looked at where there is nothing.
        match (&target, name, args) {
            (Some(Value::Optional(Some(value))), "orValue", [_]) => return Ok((**value).clone()),
            (Some(Value::Optional(Some(_))), "or", [_]) => {
                return Ok(target.unwrap_or(Value::Null));
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.value(arg)?);
        }
        self.spend(costs::call(name, target.as_ref(), &values))?;
        match target {
            Some(target) => methods::call(self, &target, name, &values),
            None => functions::call(self, name, &values),
        }
    }
}

/// What a loop has come to.
#[derive(Default)]
struct Made {
    list: Vec<Value>,
    entries: BTreeMap<Key, Value>,
    count: usize,
    fault: Option<Fault>,
}

impl Made {
    /// One more element; an answer: the others decide nothing.
    fn add(
        &mut self,
        scope: &mut Scope,
        each: Each,
        key: Value,
        body: Outcome,
    ) -> Result<Option<Value>, Fault> {
        match each {
            Each::Map | Each::SortBy => self.list.push(body?),
            Each::Filter => self.list.extend(truth(body?)?.then_some(key)),
            Each::ExistsOne => self.count += usize::from(truth(body?)?),
            Each::Entries => insert(&mut self.entries, &key, body?)?,
            Each::Merge => match body? {
                Value::Map(map) => {
                    scope.spend(map.entries.len())?;
                    for (key, value) in &map.entries {
                        insert(&mut self.entries, &key.value(), value.clone())?;
                    }
                }
                other => return Err(Fault::new(format!("a {} that is no map", other.kind()))),
            },
            Each::All | Each::Exists => {
                let settles = each == Each::Exists;
                match body.and_then(truth) {
                    Ok(value) if value == settles => return Ok(Some(Value::Bool(settles))),
                    Ok(_) => {}
                    Err(new) => self.fault = self.fault.take().or(Some(new)),
                }
            }
        }
        Ok(None)
    }

    fn finish(self, scope: &mut Scope, each: Each, range: &Value) -> Outcome {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match each {
            Each::All => Ok(Value::Bool(true)),
            Each::Exists => Ok(Value::Bool(false)),
            Each::ExistsOne => Ok(Value::Bool(self.count == 1)),
            Each::Map | Each::Filter => Ok(Value::List(Arc::new(self.list))),
            Each::Entries | Each::Merge => {
                Ok(Value::Map(Arc::new(Map { entries: self.entries, open: false })))
            }
            Each::SortBy => match range {
                Value::List(list) => lists::sorted(scope, list, &self.list),
                other => Err(Fault::new(format!("sortBy() of a {}", other.kind()))),
            },
        }
    }
}

fn insert(entries: &mut BTreeMap<Key, Value>, key: &Value, value: Value) -> Result<(), Fault> {
    match entries.insert(made_key(key)?, value) {
        Some(_) => Err(Fault::new("a map has a key twice")),
        None => Ok(()),
    }
}

fn made_key(key: &Value) -> Result<Key, Fault> {
    Key::of(key).ok_or_else(|| Fault::new(format!("a {} as a key", key.kind())))
}

/// What is in an optional element.
fn given(value: Value) -> Result<Option<Value>, Fault> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
        other => Err(Fault::new(format!("a {} where an optional is needed", other.kind()))),
    }
}

fn truth(value: Value) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(value),
        other => Err(Fault::new(format!("a {} where a bool is needed", other.kind()))),
    }
}
