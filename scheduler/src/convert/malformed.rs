//! What a pod says that cannot be read: selectors, by the rules of kube-scheduler, and groups as
//! Kubernetes 1.35 had them (`spec.workloadRef`, in alpha there and gone in 1.36).
//!
//! Decides that such a pod waits and says which field it is, whether the selector is of something
//! required or preferred: what its author wanted is not known. Terms of a required node affinity
//! are alternatives, so that one which can be read is enough. An API server takes none of these;
//! one that validated less when a pod was made, or a file, may hold them.

use capstan_core::model::input::Malformed;
use k8s_openapi::api::core::v1 as full;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::selector::{is_label_key, is_label_value};
use crate::api::pod::PodSpec;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The field, and what is wrong with it.
type Fault = (String, String);

/// The first selector of a pod that cannot be read.
pub fn first(spec: &PodSpec) -> Option<Malformed> {
    let (near, apart) = (&spec.affinity.pod_affinity, &spec.affinity.pod_anti_affinity);
    let peers = [("podAffinity", near), ("podAntiAffinity", apart)];
    let found = of_nodes(spec).or_else(|| {
        peers.into_iter().find_map(|(key, terms)| {
            let at = format!("spec.affinity.{key}");
            let required = &terms.required_during_scheduling_ignored_during_execution;
            let required = required.iter().enumerate();
            let preferred = &terms.preferred_during_scheduling_ignored_during_execution;
            let preferred = preferred.iter().enumerate();
            let required = required.map(|(n, term)| (format!("{at}.{REQUIRED}[{n}]"), term));
            let preferred = preferred.map(|(n, it)| {
                (format!("{at}.{PREFERRED}[{n}].podAffinityTerm"), &it.pod_affinity_term)
            });
            required.chain(preferred).find_map(|(at, term)| of_peers(term, &at))
        })
    });
    let found = found.or_else(|| {
        let all = spec.topology_spread_constraints.iter().enumerate();
        all.filter_map(|(n, constraint)| Some((n, constraint.label_selector.as_ref()?))).find_map(
            |(n, selector)| {
                of_labels(selector, &format!("spec.topologySpreadConstraints[{n}].labelSelector"))
            },
        )
    });
    let found = found.or_else(|| of_workload(spec));
    found.map(|(field, problem)| Malformed { field: field.into(), problem: problem.into() })
}

/// Half of such a group must not start because nobody knows of the rest.
fn of_workload(spec: &PodSpec) -> Option<Fault> {
    let of = spec.workload_ref.as_ref().filter(|_| spec.scheduling_group.is_none())?;
    let problem = format!(
        "Workload {} of scheduling.k8s.io/v1alpha1 is not read (try spec.schedulingGroup, or the \
         label capstan.sh/gang)",
        of.name
    );
    Some(("spec.workloadRef".to_owned(), problem))
}

fn of_peers(term: &full::PodAffinityTerm, at: &str) -> Option<Fault> {
    let labels = term.label_selector.as_ref();
    let labels = labels.and_then(|it| of_labels(it, &format!("{at}.labelSelector")));
    let namespaces = || term.namespace_selector.as_ref();
    labels.or_else(|| of_labels(namespaces()?, &format!("{at}.namespaceSelector")))
}

/// What is wrong with a selector of labels.
fn of_labels(selector: &meta::LabelSelector, at: &str) -> Option<Fault> {
    let pairs = selector.match_labels.iter().flatten();
    let pairs = pairs.map(|(key, value)| {
        let at = format!("{at}.matchLabels");
        of_key(key, &at).or_else(|| of_value(value, &format!("{at}[{key}]")))
    });
    let expressions = selector.match_expressions.iter().flatten().enumerate();
    let expressions = expressions.map(|(n, it)| {
        let at = format!("{at}.matchExpressions[{n}]");
        let values = it.values.as_deref().unwrap_or_default();
        match it.operator.as_str() {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {
                of_requirement(&it.key, &it.operator, values, &at)
            }
            other => Some((
                format!("{at}.operator"),
                format!("{other:?} is none of In, NotIn, Exists, DoesNotExist"),
            )),
        }
    });
    pairs.chain(expressions).flatten().next()
}

/// What is wrong with the node affinity.
fn of_nodes(spec: &PodSpec) -> Option<Fault> {
    let affinity = &spec.affinity.node_affinity;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
    let at = |n: usize| format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{n}]");
    let faults: Vec<Option<Fault>> =
        terms.iter().enumerate().map(|(n, term)| of_term(term, &at(n))).collect();
    if faults.iter().all(Option::is_some)
        && let Some(first) = faults.into_iter().flatten().next()
    {
        return Some(first);
    }
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
    let at = |n: usize| format!("spec.affinity.nodeAffinity.{PREFERRED}[{n}].preference");
    preferred.enumerate().find_map(|(n, it)| of_term(&it.preference, &at(n)))
}

/// Whether a term of a node selector can be read; one that cannot matches nothing.
pub fn can_be_read(term: &full::NodeSelectorTerm) -> bool {
    of_term(term, "").is_none()
}

fn of_term(term: &full::NodeSelectorTerm, at: &str) -> Option<Fault> {
    let labels = term.match_expressions.iter().flatten().enumerate();
    let labels = labels.map(|(n, it)| {
        let at = format!("{at}.matchExpressions[{n}]");
        let values = it.values.as_deref().unwrap_or_default();
        match it.operator.as_str() {
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {
                of_requirement(&it.key, &it.operator, values, &at)
            }
            "Gt" | "Lt" => {
                let key = of_key(&it.key, &format!("{at}.key"));
                key.or_else(|| of_number(&it.operator, values, &at))
            }
            other => Some((
                format!("{at}.operator"),
                format!("{other:?} is none of In, NotIn, Exists, DoesNotExist, Gt, Lt"),
            )),
        }
    });
    let fields = term.match_fields.iter().flatten().enumerate();
    let fields = fields.map(|(n, it)| {
        let at = format!("{at}.matchFields[{n}]");
        let values = it.values.as_deref().unwrap_or_default();
        match it.operator.as_str() {
            "In" | "NotIn" if values.len() == 1 => None,
            "In" | "NotIn" => {
                Some((format!("{at}.values"), format!("{} of a field takes one", it.operator)))
            }
            other => Some((format!("{at}.operator"), format!("{other:?} is none of In, NotIn"))),
        }
    });
    labels.chain(fields).flatten().next()
}

/// What is wrong with a requirement whose operator is one of labels.
fn of_requirement(key: &str, operator: &str, values: &[String], at: &str) -> Option<Fault> {
    let listed = matches!(operator, "In" | "NotIn");
    let wrong = match (listed, values.is_empty()) {
        (true, true) => Some(format!("empty; {operator} needs one")),
        (false, false) => Some(format!("{operator} takes none")),
        _ => None,
    };
    let numbered = || values.iter().enumerate();
    of_key(key, &format!("{at}.key"))
        .or_else(|| wrong.map(|wrong| (format!("{at}.values"), wrong)))
        .or_else(|| numbered().find_map(|(n, it)| of_value(it, &format!("{at}.values[{n}]"))))
}

/// What is wrong with a number that values of labels are compared with.
fn of_number(operator: &str, values: &[String], at: &str) -> Option<Fault> {
    let at = format!("{at}.values");
    match values {
        // It is a value of a label first: no such one begins with a sign.
        [one] if one.parse::<i64>().is_ok() => of_value(one, &at),
        [one] => Some((at, format!("{} is no whole number, which {operator} needs", shown(one)))),
        _ => Some((at, format!("{operator} takes one"))),
    }
}

fn of_key(key: &str, at: &str) -> Option<Fault> {
    let problem = || format!("{} cannot be the key of a label", shown(key));
    (!is_label_key(key)).then(|| (at.to_owned(), problem()))
}

fn of_value(value: &str, at: &str) -> Option<Fault> {
    let problem = || format!("{} cannot be the value of a label", shown(value));
    (!is_label_value(value)).then(|| (at.to_owned(), problem()))
}

/// A text as it is quoted: not all of a long one.
fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}", format!("{}...", &text[..end])),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(mut spec: Value) -> Option<String> {
        spec["containers"] = json!([{}]);
        let spec: PodSpec = serde_json::from_value(spec).expect("a spec");
        first(&spec).map(|it| format!("{}: {}", it.field, it.problem))
    }

    fn expression(operator: &str, values: &[&str]) -> Value {
        json!({ "key": "app", "operator": operator, "values": values })
    }

    fn near(selector: Value) -> Value {
        let term = json!({ "topologyKey": "zone", "labelSelector": selector });
        json!({ "affinity": { "podAffinity": { REQUIRED: [term] } } })
    }

    #[test]
    fn what_can_be_read_is_not_named() {
        assert_eq!(found(json!({})), None);
        assert_eq!(found(near(json!({}))), None);
        let all = [
            expression("In", &["a", ""]),
            expression("NotIn", &["b"]),
            expression("Exists", &[]),
            expression("DoesNotExist", &[]),
        ];
        let labels = json!({ "matchLabels": { "example.com/a": "b" }, "matchExpressions": all });
        assert_eq!(found(near(labels.clone())), None);
        let spread = json!({ "maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels });
        assert_eq!(found(json!({ "topologySpreadConstraints": [spread] })), None);
        let numbers = [expression("Gt", &["1"]), expression("Lt", &["-7"])];
        let name = json!({ "key": "metadata.name", "operator": "In", "values": ["n"] });
        let terms = json!([{ "matchExpressions": numbers }, { "matchFields": [name] }, {}]);
        let required = json!({ "nodeSelectorTerms": terms });
        assert_eq!(found(json!({ "affinity": { "nodeAffinity": { REQUIRED: required } } })), None);
    }

    #[test]
    fn selectors_of_labels_are_named_with_what_is_wrong() {
        let at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
        let long = "x".repeat(64);
        let cut = format!("\"{}...\" cannot be the value of a label", "x".repeat(60));
        let rows = [
            (
                expression("Like", &["a"]),
                ".operator: \"Like\" is none of In, NotIn, Exists, DoesNotExist".to_owned(),
            ),
            (
                expression("Gt", &["1"]),
                ".operator: \"Gt\" is none of In, NotIn, Exists, DoesNotExist".to_owned(),
            ),
            (expression("In", &[]), ".values: empty; In needs one".to_owned()),
            (expression("Exists", &["a"]), ".values: Exists takes none".to_owned()),
            (
                expression("NotIn", &["a", "b c"]),
                ".values[1]: \"b c\" cannot be the value of a label".to_owned(),
            ),
            (expression("In", &[&long]), format!(".values[0]: {cut}")),
            (
                json!({ "key": "-", "operator": "Exists" }),
                ".key: \"-\" cannot be the key of a label".to_owned(),
            ),
        ];
        for (one, says) in rows {
            let all = json!({ "matchExpressions": [expression("Exists", &[]), one] });
            let want = format!("{at}.labelSelector.matchExpressions[1]{says}");
            assert_eq!(found(near(all)), Some(want));
        }
        let pairs = json!({ "matchLabels": { "a": "b c" } });
        let want =
            format!("{at}.labelSelector.matchLabels[a]: \"b c\" cannot be the value of a label");
        assert_eq!(found(near(pairs)), Some(want));
    }

    #[test]
    fn every_place_of_a_selector_has_its_path() {
        let like = json!({ "matchExpressions": [expression("Like", &["a"])] });
        let term = json!({ "topologyKey": "zone", "namespaceSelector": like });
        let weighted = json!({ "weight": 1, "podAffinityTerm": term });
        let spread = json!({ "maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": like });
        let bad = json!({ "matchExpressions": [expression("Like", &["a"])] });
        let good = json!({ "matchExpressions": [expression("Exists", &[])] });
        let number = json!({ "matchExpressions": [expression("Gt", &["x"])] });
        let field = json!({ "matchFields": [{ "key": "metadata.name", "operator": "Exists" }] });
        let nodes = |terms: Value| {
            let required = json!({ "nodeSelectorTerms": terms });
            json!({ "affinity": { "nodeAffinity": { REQUIRED: required } } })
        };
        let preferred = json!([{ "weight": 1, "preference": bad }]);
        let paths = [
            (
                json!({ "affinity": { "podAntiAffinity": { REQUIRED: [term] } } }),
                "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]\
                 .namespaceSelector.matchExpressions[0].operator",
            ),
            (
                json!({ "affinity": { "podAntiAffinity": { PREFERRED: [weighted] } } }),
                "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]\
                 .podAffinityTerm.namespaceSelector.matchExpressions[0].operator",
            ),
            (
                json!({ "topologySpreadConstraints": [spread] }),
                "topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator",
            ),
            (
                nodes(json!([bad])),
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution\
                 .nodeSelectorTerms[0].matchExpressions[0].operator",
            ),
            (
                nodes(json!([number])),
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution\
                 .nodeSelectorTerms[0].matchExpressions[0].values",
            ),
            (
                nodes(json!([field])),
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution\
                 .nodeSelectorTerms[0].matchFields[0].operator",
            ),
            (
                json!({ "affinity": { "nodeAffinity": { PREFERRED: preferred } } }),
                "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]\
                 .preference.matchExpressions[0].operator",
            ),
        ];
        for (spec, path) in paths {
            let says = found(spec).expect(path);
            assert!(says.starts_with(&format!("spec.{path}: ")), "{says}");
        }
        assert_eq!(found(nodes(json!([bad, good]))), None, "one term that can be read is enough");
    }
}
