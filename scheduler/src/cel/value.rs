//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Fault;
use super::amount::Amount;
use super::named::Named;
use super::net::Cidr;
use super::semver::Semver;
use super::time::{Duration, Time};
use super::url::Url;

/// The most levels of values within values that are compared.
const DEPTH_MAX: usize = 300;

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
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map.
    Map(Arc<Map>),
    /// A point in time.
    Time(Time),
    /// A length of time.
    Duration(Duration),
    /// The type of a value, by its name.
    Type(&'static str),
    /// An amount as Kubernetes writes it.
    Quantity(Arc<Amount>),
    /// A version.
    Semver(Arc<Semver>),
    /// An address.
    Ip(IpAddr),
    /// A network.
    Cidr(Cidr),
    /// A URL.
    Url(Arc<Url>),
    /// A format that texts may have.
    Format(Named),
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
    Int(Whole),
    /// A text.
    Text(Arc<str>),
}

/// A whole number as a key: one number is one key, whatever type it has.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    number: i128,
    unsigned: bool,
}

impl Whole {
    /// Its place in a list.
    pub fn place(self) -> Option<usize> {
        usize::try_from(self.number).ok()
    }

    /// The number.
    pub fn number(self) -> i128 {
        self.number
    }
}

impl PartialEq for Whole {
    fn eq(&self, other: &Whole) -> bool {
        self.number == other.number
    }
}

impl Eq for Whole {}

impl PartialOrd for Whole {
    fn partial_cmp(&self, other: &Whole) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Whole {
    fn cmp(&self, other: &Whole) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl Key {
    /// The key that a value makes, in a map that is written.
    pub fn of(value: &Value) -> Option<Key> {
        let whole = |number, unsigned| Key::Int(Whole { number, unsigned });
        match value {
            Value::Bool(value) => Some(Key::Bool(*value)),
            Value::Int(value) => Some(whole((*value).into(), false)),
            Value::Uint(value) => Some(whole((*value).into(), true)),
            Value::Text(value) => Some(Key::Text(value.clone())),
            _ => None,
        }
    }

    /// The key that a value looks up: numbers with a fraction of zero look up whole ones.
    pub fn sought(value: &Value) -> Option<Key> {
        match value {
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 2e19 => {
                Some(Key::Int(Whole { number: *value as i128, unsigned: false }))
            }
            value => Key::of(value),
        }
    }

    /// The value of a key.
    pub fn value(&self) -> Value {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(Whole { number, unsigned: true }) => {
                Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX))
            }
            Key::Int(Whole { number, unsigned: false }) => {
                Value::Int(i64::try_from(*number).unwrap_or(i64::MAX))
            }
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

/// Whether two values are surely the same.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.equals(other) == Ok(true)
    }
}

impl Value {
    /// `==`. What Kubernetes adds to CEL can only be compared with its like; inside of lists and
    /// maps, such a comparison that cannot be made does not tell them apart.
    pub fn equals(&self, other: &Value) -> Result<bool, Fault> {
        use Value::*;
        let like = |same: bool| if same { Ok(true) } else { Err(self.unlike("==", other)) };
        Ok(match (self, other) {
            (Null, Null) => true,
            (Null, _) | (_, Null) => false,
            (Quantity(_), _) => like(matches!(other, Quantity(_)))? && self.same_order(other),
            (Semver(_), _) => like(matches!(other, Semver(_)))? && self.same_order(other),
            (Ip(a), Ip(b)) => a == b,
            (Cidr(a), Cidr(b)) => a == b,
            (Url(a), Url(b)) => a == b,
            (Format(a), Format(b)) => a == b,
            (Ip(_) | Cidr(_) | Url(_) | Format(_), _) => like(false)?,
            (Text(a), Text(b)) => a == b,
            (Bytes(a), Bytes(b)) => a == b,
            (Type(a), Type(b)) => a == b,
            (Optional(Some(a)), Optional(Some(b))) => a.equals(b)?,
            (Optional(a), Optional(b)) => a.is_none() && b.is_none(),
            (List(a), List(b)) => {
                let mut pairs = a.iter().zip(b.iter());
                a.len() == b.len() && pairs.all(|(a, b)| a.equals(b) != Ok(false))
            }
            (Map(a), Map(b)) => {
                let (a, b) = (&a.entries, &b.entries);
                let same = |(key, value): (&Key, &Value)| {
                    b.get(key).is_some_and(|other| value.equals(other) != Ok(false))
                };
                a.len() == b.len() && a.iter().all(same)
            }
            _ => self.same_order(other),
        })
    }

    fn same_order(&self, other: &Value) -> bool {
        self.compare(other) == Some(Ordering::Equal)
    }

    /// Two values for which an operator is not defined.
    pub fn unlike(&self, operator: &str, other: &Value) -> Fault {
        Fault::new(format!("no such overload: {} {operator} {}", self.kind(), other.kind()))
    }

    /// What kind of value it is, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Time(_) => "timestamp",
            Value::Duration(_) => "duration",
            Value::Type(_) => "type",
            Value::Quantity(_) => "quantity",
            Value::Semver(_) => "semver",
            Value::Ip(_) => "IP address",
            Value::Cidr(_) => "CIDR",
            Value::Url(_) => "URL",
            Value::Format(_) => "format",
            Value::Optional(_) => "optional",
        }
    }

    /// The name of its type, as `type()` has it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Time(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Optional(_) => "optional_type",
            plain => plain.kind(),
        }
    }

    /// Which goes first; `None`: they cannot be compared.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value::*;
        match (self, other) {
            (Bool(a), Bool(b)) => Some(a.cmp(b)),
            (Text(a), Text(b)) => Some(a.cmp(b)),
            (Bytes(a), Bytes(b)) => Some(a.cmp(b)),
            (Time(a), Time(b)) => Some(a.cmp(b)),
            (Duration(a), Duration(b)) => Some(a.cmp(b)),
            (Quantity(a), Quantity(b)) => Some(a.compare(**b)),
            (Semver(a), Semver(b)) => Some(a.precedence(b)),
            (Double(a), _) => a.partial_cmp(&other.double()?),
            (_, Double(b)) => self.double()?.partial_cmp(b),
            _ => Some(self.whole()?.cmp(&other.whole()?)),
        }
    }

    /// Whether values of its type can be put in order.
    pub fn has_order(&self) -> bool {
        use Value::*;
        let number = matches!(self, Int(_) | Uint(_) | Double(_));
        number || matches!(self, Bool(_) | Text(_) | Bytes(_) | Time(_) | Duration(_))
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
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Text(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.entries.is_empty(),
            Value::Int(_) | Value::Uint(_) | Value::Double(_) => *self == Value::Int(0),
            Value::Duration(duration) => duration.nanos == 0,
            Value::Time(time) => time.is_zero(),
            _ => false,
        }
    }

    /// Whether it is compared in one step.
    pub fn is_one(&self) -> bool {
        use Value::*;
        !matches!(self, Text(_) | Bytes(_) | List(_) | Map(_) | Optional(_))
    }

    /// How many values and bytes are in it, all the way down, counted up to so many: few values
    /// may stand for very many, as the same list may be in a list more than once.
    pub fn extent(&self, most: usize) -> usize {
        self.extent_below(0, most)
    }

    fn extent_below(&self, depth: usize, most: usize) -> usize {
        // Whoever looks through all of it goes as deep.
        if depth > DEPTH_MAX {
            return most.saturating_add(1);
        }
        let mut count = 0_usize;
        let mut add = |value: &Value| {
            let inner = value.extent_below(depth + 1, most.saturating_sub(count));
            count = count.saturating_add(inner).saturating_add(1);
            count <= most
        };
        match self {
            Value::Text(text) => return text.len(),
            Value::Bytes(bytes) => return bytes.len(),
            Value::List(list) => _ = list.iter().all(&mut add),
            Value::Map(map) => _ = map.entries.values().all(&mut add),
            Value::Optional(Some(value)) => _ = add(value),
            _ => {}
        }
        count
    }

    /// What it costs to look at all of it, but for what is in its elements.
    pub fn length(&self) -> usize {
        match self {
            Value::Text(text) => text.len() / 10,
            Value::Bytes(bytes) => bytes.len() / 10,
            Value::List(list) => list.len(),
            Value::Map(map) => map.entries.len(),
            _ => 0,
        }
    }
}
