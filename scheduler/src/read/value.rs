//! Documents as plain values, without what is never read.
//!
//! Decides that `null` is the same as absent (as it is to the API server), that a field which
//! stands twice is a mistake, that `managedFields` is never kept, how large a value may get however
//! few bytes describe it, and that a List is handed over item by item while it is still being read.

use std::cell::{Cell, RefCell};
use std::fmt;

use capstan_core::model::input::Text;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::schema;

/// Bytes that one object may take once it is expanded: far more than an API server stores.
pub const OBJECT_BYTES_MAX: usize = 128 << 20;

/// What a node of a value weighs beside its text.
const NODE_BYTES: usize = 32;

/// Items kept back while their List has not said its kind yet.
const KEPT_BACK_MAX: usize = 10_000;

/// Takes objects one at a time.
pub trait Sink {
    /// A new document or item begins: limits on size start anew.
    fn begin(&mut self);

    /// An object (or what stands in its place), and whether it is an item of a List.
    fn object(&mut self, value: Value, item: bool);

    /// Something is wrong with the List itself.
    fn complain(&mut self, problem: &str);

    /// A field of the next object stands twice in its mapping; `item`: as in [`Sink::object`].
    fn twice(&mut self, object: Option<Text>, path: String, item: bool);
}

/// Fields that stand twice and are told of one object.
const TWICE_MAX: usize = 100;

/// Where in an object something stands.
#[derive(Clone, Copy)]
pub struct Trail<'a> {
    above: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl Trail<'_> {
    fn path(self) -> String {
        let above = self.above.map_or_else(String::new, |above| above.path());
        match self.step {
            Step::Field(key) => schema::field(&above, key),
            Step::Item(at) => format!("{above}[{at}]"),
        }
    }
}

/// What a List says of its items.
#[derive(Clone, Debug, Default)]
pub struct ListKind {
    api_version: Option<String>,
    kind: Option<String>,
}

impl ListKind {
    /// From the fields of a List beside its items.
    pub fn of(fields: &Map<String, Value>) -> ListKind {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        ListKind { api_version: text("apiVersion"), kind: text("kind") }
    }

    /// Whether this is a `v1` List of anything, whose items name their own kinds.
    fn item_kind(&self) -> Option<&str> {
        self.kind.as_deref()?.strip_suffix("List").filter(|kind| !kind.is_empty())
    }

    /// Gives an item of a typed List (`PodList`) the kind that it leaves out.
    pub fn complete(&self, item: &mut Value) {
        let (Some(kind), Value::Object(fields)) = (self.item_kind(), item) else { return };
        if fields.contains_key("kind") {
            return;
        }
        fields.insert("kind".into(), kind.into());
        if let Some(api_version) = &self.api_version {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone().into());
        }
    }
}

/// Hands over an object that is already whole; a List item by item.
pub fn hand_over(value: Value, item: bool, sink: &mut dyn Sink) {
    match value {
        Value::Array(items) => {
            for inner in items {
                hand_over(inner, true, sink);
            }
        }
        Value::Object(mut fields) => match fields.remove("items") {
            Some(Value::Array(items)) => {
                let list = ListKind::of(&fields);
                for mut inner in items {
                    list.complete(&mut inner);
                    hand_over(inner, true, sink);
                }
            }
            Some(other) => {
                fields.insert("items".into(), other);
                sink.object(Value::Object(fields), item);
            }
            // A List of nothing has no `items` at all once nulls are gone.
            None if is_list(&fields) => {}
            None => sink.object(Value::Object(fields), item),
        },
        other => sink.object(other, item),
    }
}

fn is_list(fields: &Map<String, Value>) -> bool {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    text("kind") == Some("List") && text("apiVersion") == Some("v1")
}

/// Reads one value, pruned.
pub struct Pruned<'a> {
    /// Bytes that it may still take.
    pub left: &'a Cell<usize>,
    /// Fields that stood twice in one mapping, by path.
    pub twice: &'a RefCell<Vec<String>>,
    /// Where this value stands.
    pub at: Option<&'a Trail<'a>>,
}

/// Reads a document and hands its objects over as they come.
pub struct Streamed<'a> {
    /// Who takes them.
    pub sink: &'a mut dyn Sink,
    /// Whether this stands in a List.
    pub item: bool,
}

fn spend<E: Error>(left: &Cell<usize>, bytes: usize) -> Result<(), E> {
    match left.get().checked_sub(bytes + NODE_BYTES) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => Err(E::custom("expands to more than 128 MiB")),
    }
}

/// Adds a field; `null` is the same as absent.
fn put(fields: &mut Map<String, Value>, key: String, value: Value) {
    if !value.is_null() {
        fields.insert(key, value);
    }
}

/// Notes a field that its mapping has already.
fn note_twice(fields: &Map<String, Value>, trail: &Trail<'_>, twice: &RefCell<Vec<String>>) {
    let known = matches!(trail.step, Step::Field(key) if fields.contains_key(key));
    tell_twice(known, trail, twice);
}

/// Notes a field that is known already, once, as long as there are not too many.
fn tell_twice(known: bool, trail: &Trail<'_>, twice: &RefCell<Vec<String>>) {
    let mut twice = twice.borrow_mut();
    if known && twice.len() < TWICE_MAX {
        let path = trail.path();
        if !twice.contains(&path) {
            twice.push(path);
        }
    }
}

/// Kind and name of an object, as far as it says them.
fn named(object: &Map<String, Value>) -> Option<Text> {
    let kind = object.get("kind").and_then(Value::as_str);
    let name = object.get("metadata").and_then(|it| it.get("name")).and_then(Value::as_str);
    let words: Vec<&str> = [kind, name].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" ").into())
}

/// Visits of scalars, the same in both visitors.
macro_rules! scalars {
    ($wrap:expr) => {
        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("a value")
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
            $wrap(self, Value::Bool(value))
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            $wrap(self, value.into())
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            $wrap(self, value.into())
        }

        fn visit_i128<E: Error>(self, value: i128) -> Result<Self::Value, E> {
            self.visit_f64(value as f64)
        }

        fn visit_u128<E: Error>(self, value: u128) -> Result<Self::Value, E> {
            self.visit_f64(value as f64)
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            let number = Number::from_f64(value).ok_or_else(|| E::custom("not a number"))?;
            $wrap(self, Value::Number(number))
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            $wrap(self, Value::String(value.to_owned()))
        }

        fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
            $wrap(self, Value::String(value))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            $wrap(self, Value::Null)
        }

        fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
            $wrap(self, Value::Null)
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
            inner.deserialize_any(self)
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            inner: D,
        ) -> Result<Self::Value, D::Error> {
            inner.deserialize_any(self)
        }
    };
}

impl<'de> DeserializeSeed<'de> for Pruned<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Pruned<'_> {
    fn scalar<E: Error>(self, value: Value) -> Result<Value, E> {
        spend(self.left, value.as_str().map_or(0, str::len))?;
        Ok(value)
    }
}

impl<'de> Visitor<'de> for Pruned<'_> {
    type Value = Value;

    scalars!(Pruned::scalar);

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        spend(self.left, 0)?;
        let mut list = Vec::new();
        loop {
            let step = Step::Item(list.len());
            let trail = Trail { above: self.at, step };
            match items.next_element_seed(Pruned { at: Some(&trail), ..self })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        spend(self.left, 0)?;
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if key == "managedFields" {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            spend(self.left, key.len())?;
            let trail = Trail { above: self.at, step: Step::Field(&key) };
            let value = entries.next_value_seed(Pruned { at: Some(&trail), ..self })?;
            note_twice(&fields, &trail, self.twice);
            put(&mut fields, key, value);
        }
        Ok(Value::Object(fields))
    }
}

impl<'de> DeserializeSeed<'de> for Streamed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Streamed<'_> {
    fn scalar<E: Error>(self, value: Value) -> Result<(), E> {
        self.sink.object(value, self.item);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Streamed<'_> {
    type Value = ();

    scalars!(Streamed::scalar);

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            self.sink.begin();
            let next = Streamed { sink: &mut *self.sink, item: true };
            if items.next_element_seed(next)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Streamed { sink, item } = self;
        let (left, twice) = (Cell::new(OBJECT_BYTES_MAX), RefCell::new(Vec::new()));
        let mut fields = Map::new();
        let mut kept_back: Option<Vec<Value>> = None;
        while let Some(key) = entries.next_key::<String>()? {
            if key != "items" {
                let trail = Trail { above: None, step: Step::Field(&key) };
                let pruned = Pruned { left: &left, twice: &twice, at: Some(&trail) };
                let value = entries.next_value_seed(pruned)?;
                note_twice(&fields, &trail, &twice);
                put(&mut fields, key, value);
                continue;
            }
            let known = kept_back.is_some() || fields.contains_key(&key);
            tell_twice(known, &Trail { above: None, step: Step::Field(&key) }, &twice);
            let list = ListKind::of(&fields);
            match entries.next_value_seed(Items { sink: &mut *sink, list })? {
                Taken::Items(kept) => kept_back = Some(kept),
                Taken::Other(value) => {
                    fields.insert(key, value);
                }
            }
        }
        for path in twice.into_inner() {
            sink.twice(named(&fields), path, item);
        }
        let Some(kept) = kept_back else {
            hand_over(Value::Object(fields), item, sink);
            return Ok(());
        };
        let list = ListKind::of(&fields);
        for mut inner in kept {
            list.complete(&mut inner);
            sink.object(inner, true);
        }
        Ok(())
    }
}

/// Reads the `items` of what is probably a List.
struct Items<'a> {
    sink: &'a mut dyn Sink,
    list: ListKind,
}

/// What stood under `items`.
enum Taken {
    /// A list; those that wait for their List to say its kind.
    Items(Vec<Value>),
    /// Something else.
    Other(Value),
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Taken, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Items<'_> {
    fn scalar<E: Error>(self, value: Value) -> Result<Taken, E> {
        Ok(if value.is_null() { Taken::Items(Vec::new()) } else { Taken::Other(value) })
    }
}

/// Between a List and the sink: completes items, keeps back those without a kind.
struct Completing<'a> {
    sink: &'a mut dyn Sink,
    list: &'a ListKind,
    kept: &'a mut Vec<Value>,
}

impl Sink for Completing<'_> {
    fn begin(&mut self) {
        self.sink.begin();
    }

    fn object(&mut self, mut value: Value, item: bool) {
        self.list.complete(&mut value);
        let nameless = value.as_object().is_some_and(|fields| !fields.contains_key("kind"));
        if !nameless || self.list.kind.is_some() {
            return self.sink.object(value, item);
        }
        if self.kept.len() == KEPT_BACK_MAX {
            return self.sink.complain(
                "items without a kind, in a List that has not said its kind yet; \
                 write kind before items",
            );
        }
        self.kept.push(value);
    }

    fn complain(&mut self, problem: &str) {
        self.sink.complain(problem);
    }

    fn twice(&mut self, object: Option<Text>, path: String, item: bool) {
        self.sink.twice(object, path, item);
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Taken;

    scalars!(Items::scalar);

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Taken, A::Error> {
        let mut kept = Vec::new();
        let mut completing = Completing { sink: self.sink, list: &self.list, kept: &mut kept };
        Streamed { sink: &mut completing, item: true }.visit_seq(items)?;
        Ok(Taken::Items(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Taken, A::Error> {
        let (left, twice) = (Cell::new(OBJECT_BYTES_MAX), RefCell::new(Vec::new()));
        let trail = Trail { above: None, step: Step::Field("items") };
        let pruned = Pruned { left: &left, twice: &twice, at: Some(&trail) };
        let other = pruned.visit_map(entries)?;
        for path in twice.into_inner() {
            self.sink.twice(None, path, false);
        }
        Ok(Taken::Other(other))
    }
}
