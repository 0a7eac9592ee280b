//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::net::Cidr;
use super::semver::Semver;
use crate::quantity::Quantity;

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number without sign.
    Uint(u64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(Arc<str>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map.
    Map(Arc<Map>),
    /// An amount as Kubernetes writes it.
    Quantity(Quantity),
    /// A version.
    Semver(Arc<Semver>),
    /// An address.
    Ip(IpAddr),
    /// A network.
    Cidr(Cidr),
    /// A value or none.
    Optional(Option<Arc<Value>>),
}

/// A map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    /// What it has.
    pub entries: BTreeMap<Key, Value>,
    /// What is not there is an empty map: domains of attributes.
    pub open: bool,
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A text.
    Text(Arc<str>),
}

impl Key {
    /// The key that a value makes.
    pub fn of(value: &Value) -> Option<Key> {
        match value {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(Key::Int((*value).into())),
            Value::Uint(value) => Some(Key::Int((*value).into())),
            Value::Text(value) => Some(Key::Text(value.clone())),
            _ => None,
        }
    }

    /// The value of a key.
    pub fn value(&self) -> Value {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => match i64::try_from(*value) {
                Ok(value) => Value::Int(value),
                Err(_) => Value::Uint(u64::try_from(*value).unwrap_or(u64::MAX)),
            },
            Key::Text(value) => Value::Text(value.clone()),
        }
    }
}

impl Map {
    /// The value of a key.
    pub fn get(&self, key: &Key) -> Option<Value> {
        let open = || self.open.then(|| Value::Map(Arc::default()));
        self.entries.get(key).cloned().or_else(open)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        use Value::*;
        match (self, other) {
            (Null, Null) => true,
            (Bool(a), Bool(b)) => a == b,
            (Text(a), Text(b)) => a == b,
            (List(a), List(b)) => a == b,
            (Map(a), Map(b)) => a.entries == b.entries,
            (Optional(a), Optional(b)) => a == b,
            (Ip(a), Ip(b)) => a == b,
            (Cidr(a), Cidr(b)) => a == b,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl Value {
    /// What kind of value it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Quantity(_) => "quantity",
            Value::Semver(_) => "semver",
            Value::Ip(_) => "IP address",
            Value::Cidr(_) => "CIDR",
            Value::Optional(_) => "optional",
        }
    }

    /// Which goes first; `None`: they cannot be compared.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value::*;
        match (self, other) {
            (Bool(a), Bool(b)) => Some(a.cmp(b)),
            (Text(a), Text(b)) => Some(a.cmp(b)),
            (Quantity(a), Quantity(b)) => Some(a.cmp(b)),
            (Semver(a), Semver(b)) => Some(a.precedence(b)),
            (Double(a), _) => a.partial_cmp(&other.double()?),
            (_, Double(b)) => self.double()?.partial_cmp(b),
            _ => Some(self.whole()?.cmp(&other.whole()?)),
        }
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Value::Int(value) => Some((*value).into()),
            Value::Uint(value) => Some((*value).into()),
            _ => None,
        }
    }

    fn double(&self) -> Option<f64> {
        match self {
            Value::Double(value) => Some(*value),
            Value::Int(value) => Some(*value as f64),
            Value::Uint(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// Whether it is what a value of its kind is where nothing is said.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null | Value::Optional(None) => true,
            Value::Bool(value) => !value,
            Value::Text(text) => text.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.entries.is_empty(),
            Value::Int(_) | Value::Uint(_) | Value::Double(_) => *self == Value::Int(0),
            _ => false,
        }
    }
}
