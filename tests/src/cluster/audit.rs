//! What was asked of the API server, by whom, and what it answered: from its audit log.

use std::fs;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::flags::AUDIT_LOG;
use super::plane::ControlPlane;
use super::trouble::{Result, Trouble};

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// Who asked.
    pub user: String,
    /// What for: get, list, watch, create, update, patch, delete.
    pub verb: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The resource, with its subresource: `pods/binding`. Empty for what is no object.
    pub resource: String,
    /// Namespace; empty for what has none.
    pub namespace: String,
    /// Name; empty for lists.
    pub name: String,
    /// The path with its query.
    pub uri: String,
    /// The HTTP code of the answer.
    pub code: u64,
    /// Whether the rights of the user were enough.
    pub allowed: bool,
    /// When the API server received it.
    pub received: Timestamp,
}

/// Verbs that write nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

impl Audited {
    /// Whether it was to write something.
    pub fn writes(&self) -> bool {
        !READS.contains(&self.verb.as_str())
    }

    /// Whether it was done.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.code)
    }

    fn read(line: &str) -> Option<Audited> {
        let event: Value = serde_json::from_str(line).ok()?;
        let text = |path: &str| {
            let found = event.pointer(path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let (resource, inner) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let separator = if inner.is_empty() { "" } else { "/" };
        Some(Audited {
            user: text("/user/username"),
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource: format!("{resource}{separator}{inner}"),
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            uri: text("/requestURI"),
            code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or(0),
            allowed: text("/annotations/authorization.k8s.io~1decision") == "allow",
            received: text("/requestReceivedTimestamp").parse().ok()?,
        })
    }
}

impl ControlPlane {
    /// Everything that was answered so far, watches that have ended included; for a cluster
    /// with `audit` in its options. Watches that go on are not in it.
    pub fn audited(&self) -> Result<Vec<Audited>> {
        let path = self.logs().join(AUDIT_LOG);
        let text = fs::read_to_string(&path).map_err(Trouble::at(&path))?;
        let mut all = Vec::new();
        // What stands behind the last end of a line is still being written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let read = Audited::read(line);
            all.push(read.ok_or_else(|| Trouble::new(format!("no audit event: {line}")))?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read() {
        let line = r#"{"verb": "create", "requestURI": "/api/v1/namespaces/n/pods/p/binding",
            "user": {"username": "ann"},
            "objectRef": {"resource": "pods", "namespace": "n", "name": "p", "apiVersion": "v1",
                          "subresource": "binding"},
            "responseStatus": {"code": 403},
            "requestReceivedTimestamp": "2026-01-31T10:00:00.123456Z",
            "annotations": {"authorization.k8s.io/decision": "forbid"}}"#;
        let read = Audited::read(line).expect("an event");
        assert_eq!((read.resource.as_str(), read.group.as_str()), ("pods/binding", ""));
        assert_eq!((read.code, read.allowed), (403, false));
        assert_eq!((read.user.as_str(), read.name.as_str()), ("ann", "p"));
        assert_eq!(read.received.to_string(), "2026-01-31T10:00:00.123456Z");
        assert!(read.writes() && !read.is_done());
        assert_eq!(Audited::read("{"), None);
    }
}
