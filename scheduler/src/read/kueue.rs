//! What differs in Kueue's own group.
//!
//! Decides how v1beta1 becomes v1beta2 (Kueue's own webhook does the same), what is said of fields
//! that Kueue has and we do not, and which of its Workloads hold their work.

use serde_json::{Map, Value};

use super::kinds::Origin;
use super::schema::Finding;

/// Whether a Workload of Kueue says that its work may not run, and that has not ended.
pub fn is_deactivated(workload: &Value) -> bool {
    let conditions = workload["status"]["conditions"].as_array();
    let is_end = |one: &Value| one["type"] == "Finished" && one["status"] == "True";
    let ended = conditions.into_iter().flatten().any(is_end);
    workload["spec"]["active"] == false && !ended
}

/// What is said of an object of a kind that Kueue has and we have nothing for, if it is such.
pub fn without_equal(kind: &str, value: &Value) -> Option<String> {
    let problem = match kind {
        "AdmissionCheck" => {
            let by = value["spec"]["controllerName"].as_str().unwrap_or("a controller");
            return Some(format!(
                "has no equal: nothing here waits for what {by} says of a workload, which starts \
                 once it has quota and nodes"
            ));
        }
        "MultiKueueConfig" | "MultiKueueCluster" => {
            "has no equal: Capstan schedules the cluster that it runs in, and sends no work to \
             others"
        }
        "ProvisioningRequestConfig" => {
            "has no equal: no nodes are asked for by ProvisioningRequest"
        }
        _ => return None,
    };
    Some(problem.to_owned())
}

/// Turns an object of v1beta1 into one of v1beta2.
pub fn upgrade(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    // Each version knows one of the two names: what is foreign to the one is to the other too.
    let (cohort, foreign) = (spec.remove("cohort"), spec.remove("cohortName"));
    for (name, value) in [("cohortName", cohort), ("cohort", foreign)] {
        if let Some(value) = value {
            spec.insert(name.to_owned(), value);
        }
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

/// What is said of a field that is not read, and where it stands in the object that was written.
pub fn unknown(finding: Finding, origin: Origin) -> (String, String) {
    if let Some((path, problem)) = renamed(&finding.path, origin) {
        return (path.to_owned(), format!("{problem}; it was ignored"));
    }
    let name = finding.path.rsplit('.').next().unwrap_or_default();
    let problem = match name {
        "admissionChecks" | "admissionChecksStrategy" => {
            "has no equal, work starts without waiting for any check; it was ignored".to_owned()
        }
        "concurrentAdmissionPolicy" => "is not supported; it was ignored".to_owned(),
        _ => format!("{}; it was ignored", finding.problem),
    };
    (finding.path, problem)
}

/// That a field is another version's: where it stands, and what this one calls it.
pub fn renamed(path: &str, origin: Origin) -> Option<(&'static str, &'static str)> {
    match origin {
        _ if path != "spec.cohort" => None,
        Origin::KueueV1Beta1 => Some(("spec.cohortName", "is of v1beta2 (did you mean cohort?)")),
        _ if origin.is_kueue() => Some(("spec.cohort", "is of v1beta1 (did you mean cohortName?)")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_of_another_version_counts_for_nothing() {
        let mut queue = json!({ "spec": { "cohort": "c", "cohortName": "d" } });
        upgrade(&mut queue);
        assert_eq!(queue, json!({ "spec": { "cohortName": "c", "cohort": "d" } }));
        let mut foreign = json!({ "spec": { "cohortName": "d" } });
        upgrade(&mut foreign);
        assert_eq!(foreign["spec"]["cohortName"], Value::Null);
        for (origin, path, now) in [
            (Origin::KueueV1Beta1, "spec.cohortName", "is of v1beta2 (did you mean cohort?)"),
            (Origin::KueueV1Beta2, "spec.cohort", "is of v1beta1 (did you mean cohortName?)"),
        ] {
            let problem = "unknown field".to_owned();
            let finding = Finding { path: "spec.cohort".to_owned(), problem, unknown: true };
            let want = (path.to_owned(), format!("{now}; it was ignored"));
            assert_eq!(unknown(finding, origin), want);
        }
    }

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
