//! From a derived schema to one that an API server takes as it is meant.
//!
//! Decides what every schema has in common: null is no value, an empty default is none, a
//! quantity and a duration are what Kubernetes calls so. A path leads from the root of a schema
//! to a part of it: fields are joined by dots, `[]` is an entry of a list, `{}` a value of a map.

use serde_json::{Map, Value, json};

use crate::api::duration;
use crate::quantity;

/// What a quantity looks like, as a text.
const QUANTITY: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// What a duration looks like; none of ours may be negative.
const DURATION: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$";

/// Characters of a quantity or duration; no sensible one is longer.
const SCALAR_MAX: u32 = 32;

/// Makes a derived schema structural.
pub fn structural(schema: &mut Value) {
    if let Some(status) = schema.pointer_mut("/properties/status") {
        without_defaults(status);
    }
    if let Some(spec) = schema.pointer("/properties/spec/description").cloned() {
        schema["description"] = spec;
    }
    walk(schema, &mut |part| {
        part.remove("nullable");
        if part.get("default").is_some_and(empty) {
            part.remove("default");
        }
        let format = part.get("format").and_then(Value::as_str).unwrap_or_default();
        let patch = match format {
            quantity::FORMAT => json!({
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "maxLength": SCALAR_MAX,
                "pattern": QUANTITY,
            }),
            duration::FORMAT => json!({ "maxLength": SCALAR_MAX, "pattern": DURATION }),
            _ => return,
        };
        part.remove("format");
        merge(part, patch);
    });
}

/// A status is written whole by us: nothing in it is defaulted.
fn without_defaults(schema: &mut Value) {
    walk(schema, &mut |part| {
        part.remove("default");
    });
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Calls `edit` with every part of a schema, outer parts first.
fn walk(schema: &mut Value, edit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Some(part) = schema.as_object_mut() else { return };
    edit(part);
    if let Some(properties) = part.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|inner| walk(inner, edit));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = part.get_mut(key) {
            walk(inner, edit);
        }
    }
}

/// Adds the fields of `patch`, in place of those that are there.
pub fn merge(part: &mut Map<String, Value>, patch: Value) {
    let Value::Object(fields) = patch else { return };
    part.extend(fields);
}

/// The part of a schema that a path leads to.
pub fn at<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut part = schema;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let field = name.trim_end_matches("[]").trim_end_matches("{}");
        part = part.get_mut("properties")?.get_mut(field)?;
        let inner = match &name[field.len()..] {
            "" => continue,
            "[]" => "items",
            "{}" => "additionalProperties",
            _ => return None,
        };
        part = part.get_mut(inner)?;
    }
    part.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_through_fields_lists_and_maps() {
        let mut schema = json!({ "properties": { "a": { "items": { "properties": {
            "b": { "additionalProperties": { "type": "string" } } } } } } });
        let found = at(&mut schema, "a[].b{}").expect("it is there");
        assert_eq!(Value::Object(found.clone()), json!({ "type": "string" }));
        for wrong in ["a.b", "a[].c", "a{}", "a[].b[]", "b"] {
            assert!(at(&mut schema, wrong).is_none(), "{wrong}");
        }
        assert!(at(&mut schema, "").is_some());
    }

    #[test]
    fn nulls_and_empty_defaults_go_and_others_stay() {
        let mut schema = json!({ "properties": {
            "spec": { "properties": {
                "list": { "items": { "nullable": true }, "default": [] },
                "word": { "type": "string", "default": "Never", "nullable": true },
            } },
            "status": { "default": { "n": 0 }, "properties": { "n": { "default": 0 } } },
        } });
        structural(&mut schema);
        let want = json!({ "properties": {
            "spec": { "properties": {
                "list": { "items": {} },
                "word": { "type": "string", "default": "Never" },
            } },
            "status": { "properties": { "n": {} } },
        } });
        assert_eq!(schema, want);
    }
}
