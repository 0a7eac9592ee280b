//! What differs in Kueue's own group.
//!
//! Decides how v1beta1 becomes v1beta2 (Kueue's own webhook does the same), and what is said of
//! fields that Kueue has and we do not.

use serde_json::{Map, Value};

use super::schema::Finding;

/// Fields of Kueue that are known and have no counterpart here.
const UNSUPPORTED: [&str; 3] =
    ["admissionChecks", "admissionChecksStrategy", "concurrentAdmissionPolicy"];

/// Turns an object of v1beta1 into one of v1beta2.
pub fn upgrade(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(cohort) = spec.remove("cohort") {
        spec.entry("cohortName").or_insert(cohort);
    }
    let fungibility = spec.get_mut("flavorFungibility").and_then(Value::as_object_mut);
    if let Some(fungibility) = fungibility {
        rename(fungibility, "whenCanBorrow", "Borrow");
        rename(fungibility, "whenCanPreempt", "Preempt");
    }
}

fn rename(fields: &mut Map<String, Value>, field: &str, old: &str) {
    if let Some(value) = fields.get_mut(field).filter(|value| value.as_str() == Some(old)) {
        *value = "MayStopSearch".into();
    }
}

/// What is said of a field that is not read.
pub fn unknown(finding: &Finding) -> String {
    let name = finding.path.rsplit('.').next().unwrap_or_default();
    if UNSUPPORTED.contains(&name) {
        return "is not supported; it was ignored".to_owned();
    }
    format!("{}; it was ignored", finding.problem)
}

/// What a field of v1beta1 is called since: it is unknown in an object of v1beta2.
pub fn renamed(path: &str) -> Option<&'static str> {
    (path == "spec.cohort").then_some("cohortName")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_names_become_new_ones() {
        let mut queue = json!({ "spec": { "cohort": "c", "flavorFungibility":
            { "whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt" } } });
        upgrade(&mut queue);
        let stop = "MayStopSearch";
        let want = json!({ "spec": { "cohortName": "c", "flavorFungibility":
            { "whenCanBorrow": stop, "whenCanPreempt": stop } } });
        assert_eq!(queue, want);
        let mut other = json!({ "spec": { "flavorFungibility":
            { "whenCanBorrow": "TryNextFlavor" } } });
        let before = other.clone();
        upgrade(&mut other);
        assert_eq!(other, before);
    }
}
