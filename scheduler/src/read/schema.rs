//! Checks a value against the schema of its type and finds everything that is wrong at once.
//!
//! Decoding stops at the first mistake; this walk does not. The schema is the one that the
//! CRDs are made of, so a file is judged as the API server would judge it. Assumes schemas with
//! their parts inlined, as [`of`] makes them.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::api::duration;
use crate::quantity::{self, Quantity};

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Field.
    pub path: String,
    /// What is wrong and what to do.
    pub problem: String,
    /// The field itself is unknown; everything else about the value is unaffected.
    pub unknown: bool,
}

/// The schema of a type, its parts inlined; made once.
pub fn of<T: JsonSchema + 'static>() -> Arc<Value> {
    static MADE: Mutex<BTreeMap<TypeId, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let make = || {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        Arc::new(settings.into_generator().into_root_schema_for::<T>().to_value())
    };
    MADE.lock().entry(TypeId::of::<T>()).or_insert_with(make).clone()
}

/// Everything that is wrong with a value; unknown fields are among it.
pub fn check(schema: &Value, value: &Value, path: &str) -> Vec<Finding> {
    let mut walk = Walk { found: Vec::new() };
    walk.value(schema, value, path);
    walk.found
}

/// Takes the fields at these paths out of a value at a path.
pub fn prune(value: &mut Value, path: &str, fields: &[&str]) {
    match value {
        Value::Object(all) => {
            all.retain(|key, _| !fields.contains(&field(path, key).as_str()));
            for (key, value) in all {
                prune(value, &field(path, key), fields);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                prune(item, &format!("{path}[{at}]"), fields);
            }
        }
        _ => {}
    }
}

/// `path.key`, with brackets where the key itself has dots or slashes.
pub fn field(path: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

struct Walk {
    found: Vec<Finding>,
}

impl Walk {
    fn complain(&mut self, path: &str, problem: String) {
        self.found.push(Finding { path: path.to_owned(), problem, unknown: false });
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) {
        for part in list(schema, "allOf") {
            self.value(part, value, path);
        }
        let alternatives = if schema["anyOf"].is_array() { "anyOf" } else { "oneOf" };
        let mut alternatives =
            list(schema, alternatives).iter().filter(|one| one["type"] != "null").peekable();
        if alternatives.peek().is_some() {
            let choices: Vec<&Value> = alternatives.clone().flat_map(choices).collect();
            match alternatives.next() {
                Some(_) if !choices.is_empty() => self.choice(&choices, value, path),
                Some(only) => self.value(only, value, path),
                None => {}
            }
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            self.quantity(value, path);
            return;
        }
        let choices = choices(schema);
        if !choices.is_empty() {
            self.choice(&choices, value, path);
            return;
        }
        if !self.kind(schema, value, path) {
            return;
        }
        match value {
            Value::Object(_) => self.object(schema, value, path),
            Value::Array(_) => self.array(schema, value, path),
            Value::String(text) => self.text(schema, text, path),
            Value::Number(_) => self.number(schema, value, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn choice(&mut self, choices: &[&Value], value: &Value, path: &str) {
        if choices.contains(&value) {
            return;
        }
        let known: Vec<&str> = choices.iter().filter_map(|choice| choice.as_str()).collect();
        self.complain(path, format!("{} is none of {}", shown(value), known.join(", ")));
    }

    /// Whether the value has the type that the schema names.
    fn kind(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let wanted: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        let fits = wanted.iter().any(|kind| match *kind {
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            "array" => value.is_array(),
            _ => value.is_null(),
        });
        if !fits {
            let first = wanted.iter().find(|kind| **kind != "null").copied().unwrap_or("null");
            self.complain(path, mistyped(first, value));
        }
        fits
    }

    fn object(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(fields) = value.as_object() else { return };
        self.count(schema, "maxProperties", fields.len(), path);
        for required in list(schema, "required").iter().filter_map(Value::as_str) {
            if !fields.contains_key(required) {
                self.complain(&field(path, required), "missing".to_owned());
            }
        }
        let properties = schema["properties"].as_object();
        let rest = &schema["additionalProperties"];
        for (key, inner) in fields {
            let at = field(path, key);
            match properties.and_then(|known| known.get(key)) {
                Some(known) => self.value(known, inner, &at),
                None if rest.is_object() => {
                    self.value(rest, inner, &at);
                    if let Some((_, list)) = path.rsplit_once('.') {
                        self.amount(list, key, inner, &at);
                    }
                }
                None => {
                    let Some(known) = properties.filter(|known| !known.is_empty()) else {
                        continue;
                    };
                    let mut problem = "unknown field".to_owned();
                    if let Some(near) = nearest(key, known.keys().map(String::as_str)) {
                        let _ = write!(problem, " (did you mean {near}?)");
                    }
                    self.found.push(Finding { path: at, problem, unknown: true });
                }
            }
        }
    }

    fn array(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(items) = value.as_array() else { return };
        let count = items.len() as u64;
        if schema["minItems"].as_u64().is_some_and(|least| count < least) {
            self.complain(path, "empty; it needs at least one entry".to_owned());
        }
        self.count(schema, "maxItems", items.len(), path);
        for (index, item) in items.iter().enumerate() {
            self.value(&schema["items"], item, &format!("{path}[{index}]"));
        }
    }

    /// Complains of more entries than a schema allows.
    fn count(&mut self, schema: &Value, limit: &str, count: usize, path: &str) {
        if let Some(most) = schema[limit].as_u64().filter(|most| count as u64 > *most) {
            self.complain(path, format!("{count} entries, at most {most} are allowed"));
        }
    }

    fn text(&mut self, schema: &Value, text: &str, path: &str) {
        match schema["format"].as_str() {
            Some("date-time") if text.parse::<Timestamp>().is_err() => {
                let shown = shown(&Value::String(text.to_owned()));
                self.complain(path, format!("{shown} is no time (try 2026-01-31T10:00:00Z)"));
            }
            Some(duration::FORMAT) if duration::parse(text).is_none() => {
                self.complain(path, duration::complaint(text));
            }
            _ => {}
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, path: &str) {
        let Some(number) = value.as_i64() else {
            if value.is_u64() {
                self.complain(path, format!("{value} is too large"));
            }
            return;
        };
        let int32 = schema["format"] == "int32";
        let least = schema["minimum"].as_i64().or(int32.then_some(i64::from(i32::MIN)));
        let most = schema["maximum"].as_i64().or(int32.then_some(i64::from(i32::MAX)));
        if let Some(least) = least.filter(|least| number < *least) {
            let complaint = match least {
                0 => format!("{number} is below zero; write 0 or more"),
                least => format!("{number} is below {least}"),
            };
            self.complain(path, complaint);
        }
        if let Some(most) = most.filter(|most| number > *most) {
            self.complain(path, format!("{number} is above {most}"));
        }
    }

    /// An amount in a list of resources: none is below zero, and extended resources are asked
    /// whole, as the API server has it.
    fn amount(&mut self, list: &str, resource: &str, value: &Value, path: &str) {
        let asked = matches!(list, "requests" | "limits");
        if !asked && !matches!(list, "overhead" | "allocatable" | "capacity") {
            return;
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let Some(quantity) = Quantity::parse(&text) else { return };
        if quantity.is_negative() {
            self.complain(path, quantity::below_zero(quantity));
        }
        if let Some(complaint) = quantity.part_of_a_device(resource).filter(|_| asked) {
            self.complain(path, complaint);
        }
    }

    fn quantity(&mut self, value: &Value, path: &str) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => {
                let problem =
                    format!("{}, where a quantity is needed (try 16, 2.5, 64Gi)", named(other));
                return self.complain(path, problem);
            }
        };
        if Quantity::parse(&text).is_none() {
            self.complain(path, quantity::complaint(&text));
        }
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema[key].as_array().map_or(&[], Vec::as_slice)
}

/// The values that a schema allows, if it lists them.
fn choices(schema: &Value) -> Vec<&Value> {
    match schema.get("const") {
        Some(only) => vec![only],
        None => list(schema, "enum").iter().filter(|choice| !choice.is_null()).collect(),
    }
}

/// What a value is, for people.
pub fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let cut: String = text.chars().take(57).collect();
    format!("{cut}...")
}

/// What is said of a value of the wrong type.
pub fn mistyped(wanted: &str, value: &Value) -> String {
    let (wanted, hint) = match (wanted, value) {
        ("boolean", Value::String(word)) if matches!(&**word, "yes" | "on" | "no" | "off") => {
            ("true or false", "; write one of these")
        }
        ("string", Value::Number(_) | Value::Bool(_)) => ("a text", "; write it in quotes"),
        ("boolean", Value::String(word)) if matches!(&**word, "true" | "false") => {
            ("true or false", "; leave the quotes out")
        }
        ("integer" | "number", Value::String(word)) if word.parse::<f64>().is_ok() => {
            ("a number", "; leave the quotes out")
        }
        ("string", _) => ("a text", ""),
        ("integer", Value::Number(_)) => ("a whole number", ""),
        ("integer" | "number", _) => ("a number", ""),
        ("boolean", _) => ("true or false", ""),
        ("array", _) => ("a list", ""),
        ("object", _) => ("an object", ""),
        _ => ("nothing", ""),
    };
    let scalar = !value.is_array() && !value.is_object();
    let what = if scalar { shown(value) } else { named(value).to_owned() };
    format!("{what}, where {wanted} is needed{hint}")
}

/// The known name that a mistyped one probably stands for.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let rank = |candidate: &'a str| {
        let other = candidate.to_lowercase();
        let edits = edits(&lower, &other);
        let begins = other.starts_with(&lower) || lower.starts_with(&other);
        let near = edits <= 1 + name.chars().count() / 5 || (begins && lower.len() > 3);
        near.then_some((edits, candidate))
    };
    known.filter_map(rank).min().map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().take(80).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().take(80).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cluster_queue::ClusterQueueSpec;
    use crate::api::flavor::ResourceFlavorSpec;
    use crate::api::pod::Pod;
    use serde_json::json;

    fn found<T: JsonSchema + 'static>(value: Value) -> Vec<String> {
        let findings = check(&of::<T>(), &value, "");
        findings.iter().map(|one| format!("{}: {}", one.path, one.problem)).collect()
    }

    #[test]
    fn all_mistakes_are_found_at_once() {
        let spec = json!({
            "queueingStrategy": "FIFO",
            "cohort": "a",
            "stopPolicy": 3,
            "resourceGroups": [{
                "coveredResources": "cpu",
                "flavors": [{
                    "name": "f",
                    "resources": [
                        { "name": "cpu", "nominalQuota": "16 GPUs" },
                        { "name": "memory" },
                        { "name": 7, "nominalQuota": true },
                    ],
                }],
            }],
            "preemption": { "minRuntime": "soon", "borrowWithinCohort":
                { "maxPriorityThreshold": 3_000_000_000u64 } },
        });
        let resources = "resourceGroups[0].flavors[0].resources";
        let mut want = vec![
            "cohort: unknown field (did you mean cohortName?)".to_owned(),
            "preemption.borrowWithinCohort.maxPriorityThreshold: 3000000000 is above 2147483647"
                .to_owned(),
            r#"preemption.minRuntime: "soon" is no duration (try 600s, 10m, 1h30m)"#.to_owned(),
            r#"queueingStrategy: "FIFO" is none of StrictFIFO, BestEffortFIFO"#.to_owned(),
            r#"resourceGroups[0].coveredResources: "cpu", where a list is needed"#.to_owned(),
            format!(r#"{resources}[0].nominalQuota: "16 GPUs" is no quantity (try 16, 2.5, 64Gi)"#),
            format!("{resources}[1].nominalQuota: missing"),
            format!("{resources}[2].name: 7, where a text is needed; write it in quotes"),
            format!(
                "{resources}[2].nominalQuota: true or false, where a quantity is needed \
                 (try 16, 2.5, 64Gi)"
            ),
            "stopPolicy: 3 is none of None, Hold, HoldAndDrain".to_owned(),
        ];
        let mut found = found::<ClusterQueueSpec>(spec);
        found.sort();
        want.sort();
        assert_eq!(found, want);
    }

    #[test]
    fn what_is_right_passes() {
        let spec = json!({
            "namespaceSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
            "resourceGroups": [],
            "budget": { "usd": 100.5, "period": "Week" },
            "fairSharing": { "weight": "100m" },
        });
        assert_eq!(found::<ClusterQueueSpec>(spec), Vec::<String>::new());
        let flavor = json!({
            "nodeLabels": { "a/b": "c" },
            "nodeTaints": [{ "key": "k", "effect": "NoSchedule" }],
            "tolerations": [{ "operator": "Exists" }],
        });
        assert_eq!(found::<ResourceFlavorSpec>(flavor), Vec::<String>::new());
    }

    #[test]
    fn keys_with_dots_stand_in_brackets() {
        let pod = json!({
            "metadata": { "labels": { "kubernetes.io/x": 1 }, "creationTimestamp": "today" },
            "spec": { "containers": [] },
        });
        let found = found::<Pod>(pod);
        let want = [
            r#"metadata.creationTimestamp: "today" is no time (try 2026-01-31T10:00:00Z)"#,
            r#"metadata.labels["kubernetes.io/x"]: 1, where a text is needed; write it in quotes"#,
            "spec.containers: empty; it needs at least one entry",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn near_names_are_suggested() {
        let known = ["cohortName", "queueingStrategy", "preemption"];
        assert_eq!(nearest("queuingStrategy", known.into_iter()), Some("queueingStrategy"));
        assert_eq!(nearest("preemptoin", known.into_iter()), Some("preemption"));
        assert_eq!(nearest("colour", known.into_iter()), None);
    }
}
