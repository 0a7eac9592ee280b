//! Objects as kubectl shows them, and what is read of them.

use serde_json::Value;

use super::plane::ControlPlane;
use super::trouble::{Result, Trouble};

impl ControlPlane {
    /// Objects of a kind in all namespaces.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let said = self.kubectl(&["get", kind, "--all-namespaces", "--output", "json"])?;
        let read: std::result::Result<Value, _> = serde_json::from_str(&said);
        let mut list = read.map_err(|e| Trouble::new(format!("{kind}: {e}")))?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(Trouble::new(format!("{kind} are no list: {said}"))),
        }
    }
}

/// An object's name.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A condition's reason, if the condition is true.
pub fn is_true<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|it| it["type"] == kind && it["status"] == "True")?;
    found["reason"].as_str()
}
