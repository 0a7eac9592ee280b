//! Fields of objects of other projects, read one by one.
//!
//! Decides that a value which cannot be read is as if it were not there, and is named once: no
//! odd field of somebody else's object stops scheduling.

use capstan_core::model::input::Text;
use serde_json::Value;

use crate::convert::Refusal;
use crate::read::schema;

/// What was odd, so far.
#[derive(Debug)]
pub struct Fields {
    /// The namespace of the object.
    pub namespace: Text,
    /// Values that were ignored.
    pub odd: Vec<Refusal>,
}

/// An object, or a part of one, and where that is.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The value.
    pub value: &'a Value,
    /// Its path; empty: the whole object.
    pub path: &'a str,
}

impl<'a> Part<'a> {
    /// The whole object.
    pub fn whole(value: &'a Value) -> Part<'a> {
        Part { value, path: "" }
    }

    /// The value at a dotted path; `null` where there is none.
    pub fn at(self, path: &str) -> &'a Value {
        path.split('.').fold(self.value, |value, key| &value[key])
    }

    /// The path of a field.
    pub fn path_of(self, path: &str) -> String {
        if self.path.is_empty() { path.to_owned() } else { format!("{}.{path}", self.path) }
    }
}

/// Whether some text in a value, or some key of it, is such.
pub(super) fn any_text(value: &Value, is: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(own) => is(own),
        Value::Array(items) => items.iter().any(|item| any_text(item, is)),
        Value::Object(map) => map.iter().any(|(key, item)| is(key) || any_text(item, is)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl Fields {
    /// A count of zero or more.
    pub fn count(&mut self, part: Part<'_>, path: &str) -> Option<u32> {
        self.count_of(part.at(path), part.path_of(path))
    }

    /// A value that is a count of zero or more.
    pub fn count_of(&mut self, value: &Value, path: String) -> Option<u32> {
        if value.is_null() {
            return None;
        }
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        if count.is_none() {
            self.name(path, value, "a count of zero or more");
        }
        count
    }

    /// A count above zero.
    pub fn above_zero(&mut self, part: Part<'_>, path: &str) -> Option<u32> {
        let count = self.count(part, path)?;
        if count == 0 {
            self.ignore(part, path, part.at(path), "a count above zero");
            return None;
        }
        Some(count)
    }

    /// A text that is not empty.
    pub fn text<'a>(&mut self, part: Part<'a>, path: &str) -> Option<&'a str> {
        match part.at(path) {
            Value::Null => None,
            Value::String(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            other => {
                self.ignore(part, path, other, "a text");
                None
            }
        }
    }

    /// A flag; absent: `false`.
    pub fn flag(&mut self, part: Part<'_>, path: &str) -> bool {
        match part.at(path) {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            other => {
                self.ignore(part, path, other, "true or false");
                false
            }
        }
    }

    /// The items of a list, each with its path.
    pub fn list<'a>(&mut self, part: Part<'a>, path: &str) -> Vec<(&'a Value, String)> {
        let at = part.path_of(path);
        match part.at(path) {
            Value::Null => Vec::new(),
            Value::Array(items) => {
                let item = |(index, item): (usize, &'a Value)| (item, format!("{at}[{index}]"));
                items.iter().enumerate().map(item).collect()
            }
            other => {
                self.ignore(part, path, other, "a list");
                Vec::new()
            }
        }
    }

    /// The entries of a map, each with its path.
    pub fn map<'a>(&mut self, part: Part<'a>, path: &str) -> Vec<(&'a str, &'a Value, String)> {
        let at = part.path_of(path);
        match part.at(path) {
            Value::Null => Vec::new(),
            Value::Object(map) => {
                let entry = |(key, value): (&'a String, &'a Value)| {
                    (key.as_str(), value, schema::field(&at, key))
                };
                map.iter().map(entry).collect()
            }
            other => {
                self.ignore(part, path, other, "a map");
                Vec::new()
            }
        }
    }

    /// Names a field that changes nothing here, if it is there.
    pub fn unread(&mut self, part: Part<'_>, path: &str, instead: &str) {
        if !part.at(path).is_null() {
            let problem = format!("has no effect here: {instead}");
            self.odd.push(Refusal { path: part.path_of(path), problem });
        }
    }

    /// Names a value that is left out.
    pub fn ignore(&mut self, part: Part<'_>, path: &str, value: &Value, wanted: &str) {
        self.name(part.path_of(path), value, wanted);
    }

    fn name(&mut self, path: String, value: &Value, wanted: &str) {
        let mut shown = value.to_string();
        if shown.chars().count() > 60 {
            shown = shown.chars().take(57).chain("...".chars()).collect();
        }
        let problem = format!("{shown} is not {wanted}; it is ignored");
        self.odd.push(Refusal { path, problem });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_odd_is_left_out_and_named() {
        let value = json!({ "spec": { "n": 3, "zero": 0, "m": -1, "t": 5, "f": "no", "l": {} } });
        let mut fields = Fields { namespace: "ns".into(), odd: Vec::new() };
        let part = Part::whole(&value);
        assert_eq!(fields.count(part, "spec.n"), Some(3));
        assert_eq!(fields.count(part, "spec.none.deeper"), None);
        assert_eq!(fields.odd, []);
        assert_eq!(fields.count(part, "spec.m"), None);
        assert_eq!(fields.above_zero(part, "spec.zero"), None);
        assert_eq!(fields.text(part, "spec.t"), None);
        assert!(!fields.flag(part, "spec.f"));
        assert!(fields.list(part, "spec.l").is_empty() && fields.map(part, "spec.t").is_empty());
        fields.unread(part, "spec.none", "it is not there");
        fields.unread(part, "spec.n", "nobody counts it");
        let said: Vec<String> =
            fields.odd.iter().map(|odd| format!("{}: {}", odd.path, odd.problem)).collect();
        assert_eq!(
            said,
            [
                "spec.m: -1 is not a count of zero or more; it is ignored",
                "spec.zero: 0 is not a count above zero; it is ignored",
                "spec.t: 5 is not a text; it is ignored",
                "spec.f: \"no\" is not true or false; it is ignored",
                "spec.l: {} is not a list; it is ignored",
                "spec.t: 5 is not a map; it is ignored",
                "spec.n: has no effect here: nobody counts it",
            ]
        );
    }
}
