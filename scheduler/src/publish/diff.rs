//! JSON merge patches (RFC 7386): what to send so that one value becomes another.

use serde::Serialize;
use serde_json::{Map, Value};

/// A value of ours as JSON.
pub fn value<T: Serialize>(of: &T) -> Value {
    serde_json::to_value(of).expect("types of the API have string keys and plain values")
}

/// The patch that makes `after` of `before`; `None`: they are equal.
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut patch = Map::new();
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            for (key, after) in after {
                let changed = match before.get(key) {
                    Some(before) => merge_patch(before, after),
                    None => Some(after.clone()),
                };
                if let Some(changed) = changed {
                    patch.insert(key.clone(), changed);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ if before == after => None,
        _ => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2], "f": "x"});
        let after = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1], "g": true});
        let want = json!({"b": {"d": 4}, "e": [1], "f": null, "g": true});
        assert_eq!(merge_patch(&before, &after), Some(want));
        assert_eq!(merge_patch(&after, &after), None);
    }
}
