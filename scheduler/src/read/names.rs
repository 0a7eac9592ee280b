//! Names of objects, as an API server takes them.
//!
//! Decides what is said of a name that is missing, of the wrong type, or that no cluster could
//! hold. Lengths and letters are those of DNS: a subdomain for objects, a label for namespaces.
//! Capitals pass, though no API server takes them: sketches of clusters have nodes called `nA`,
//! and nothing here depends on case.

use serde_json::Value;

use super::kinds::Known;
use super::schema;

/// Letters of a DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;

/// Letters of a DNS label.
const LABEL_MAX: usize = 63;

/// What is wrong with the name and the namespace of an object, by field.
pub fn problems(meta: &Value, known: Known, namespace: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let name = match &meta["name"] {
        Value::String(name) if !name.is_empty() => match known {
            Known::Namespace => label(name),
            _ => subdomain(name),
        },
        Value::Null | Value::String(_) => Some("missing".to_owned()),
        other => Some(schema::mistyped("string", other)),
    };
    found.extend(name.map(|problem| ("metadata.name", problem)));
    if known.namespaced() {
        found.extend(label(namespace).map(|problem| ("metadata.namespace", problem)));
    }
    found
}

/// What the name of an object begins with that leaves the rest of it to an API server.
pub fn to_be_generated(meta: &Value) -> Option<&str> {
    let text = |key: &str| meta[key].as_str().filter(|text| !text.is_empty());
    let unnamed = meta["name"].is_null() || meta["name"] == "";
    text("generateName").filter(|_| unnamed)
}

/// What is wrong with a DNS-1123 subdomain, if anything.
pub fn subdomain(name: &str) -> Option<String> {
    let good = name.len() <= SUBDOMAIN_MAX && name.split('.').all(is_label);
    let rule = "letters, digits, '-' and '.', letters or digits at both ends, at most";
    (!good).then(|| format!("{} is no name ({rule} {SUBDOMAIN_MAX})", shown(name)))
}

/// Whether an API server takes an object of this name.
pub fn is_object_name(name: &str) -> bool {
    subdomain(name).is_none() && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// What is wrong with a DNS-1123 label, if anything.
pub fn label(name: &str) -> Option<String> {
    let good = name.len() <= LABEL_MAX && is_label(name);
    let rule = "letters, digits and '-', letters or digits at both ends, at most";
    (!good).then(|| format!("{} is no namespace ({rule} {LABEL_MAX})", shown(name)))
}

/// Letters, digits and dashes, with letters or digits at both ends.
fn is_label(part: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    let bytes = part.as_bytes();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

/// The name in quotes; a long one is cut and measured.
fn shown(name: &str) -> String {
    let count = name.chars().count();
    if count <= 60 {
        return format!("{name:?}");
    }
    let cut: String = name.chars().take(40).collect();
    format!("{cut:?}... of {count} characters")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_dns_subdomains() {
        for good in ["a", "0", "a-b.c-1", "gke-pool-1.internal", "nA", &"a".repeat(253)] {
            assert_eq!(subdomain(good), None, "{good}");
        }
        for bad in ["a_b", "-a", "a-", "a..b", ".a", "a.", "a b", "é", "a/b", &"a".repeat(254)] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        let long = subdomain(&"a".repeat(300)).expect("too long");
        assert!(long.starts_with(&format!("{:?}... of 300 characters", "a".repeat(40))), "{long}");
    }

    #[test]
    fn a_name_is_generated_only_where_there_is_none() {
        for (meta, want) in [
            (json!({ "generateName": "a-" }), Some("a-")),
            (json!({ "generateName": "a-", "name": "" }), Some("a-")),
            (json!({ "generateName": "a-", "name": "b" }), None),
            (json!({ "generateName": "a-", "name": 5 }), None),
            (json!({ "generateName": "" }), None),
            (json!({ "generateName": 5 }), None),
            (json!("a-"), None),
            (json!(null), None),
        ] {
            assert_eq!(to_be_generated(&meta), want, "{meta}");
        }
    }

    #[test]
    fn names_and_namespaces_are_judged_together() {
        let meta = json!({ "name": 5 });
        let found = problems(&meta, Known::Pod, "te_am");
        assert_eq!(found[0].1, "5, where a text is needed; write it in quotes");
        assert!(found[1].1.starts_with("\"te_am\" is no namespace"), "{found:?}");
        let meta = json!({ "name": "a.b" });
        assert_eq!(problems(&meta, Known::Node, ""), []);
        assert_eq!(problems(&meta, Known::Namespace, "").len(), 1);
    }
}
