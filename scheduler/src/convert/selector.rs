//! Selectors, taints and tolerations, from Kubernetes' types to the engine's.
//!
//! Decides how values that no API server would accept are kept harmless: an operator nobody
//! knows matches (or tolerates) nothing, a taint with an unknown effect does nothing. That a pod
//! with such a selector waits, and why, is said by [`super::malformed`].

use std::collections::BTreeMap;

use capstan_core::model::input::{
    self, Labels, NodeSelector, NodeSelectorTerm, Operator, PreferredNodes, Requirement,
    TaintEffect, Text, Toleration, TolerationOperator,
};
use k8s_openapi::api::core::v1 as full;

use super::malformed;
use crate::api::cluster_queue::LabelSelector;

/// The operator of this name.
pub fn operator(name: &str) -> Operator {
    match name {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => Operator::Unknown,
    }
}

/// A required node affinity. Terms that cannot be read match nothing, whatever their operators.
pub fn node_selector(selector: &full::NodeSelector) -> NodeSelector {
    let terms = selector.node_selector_terms.iter();
    NodeSelector { terms: terms.filter(|term| malformed::can_be_read(term)).map(term).collect() }
}

fn term(term: &full::NodeSelectorTerm) -> NodeSelectorTerm {
    NodeSelectorTerm {
        labels: requirements(term.match_expressions.as_deref()),
        fields: requirements(term.match_fields.as_deref()),
    }
}

/// A preferred node affinity; what has no weight, or names no nodes, is no preference.
pub fn preferred(terms: &[full::PreferredSchedulingTerm]) -> Vec<PreferredNodes> {
    let one = |preferred: &full::PreferredSchedulingTerm| PreferredNodes {
        weight: u32::try_from(preferred.weight).unwrap_or(0).min(WEIGHT_MAX),
        term: term(&preferred.preference),
    };
    let says = |preferred: &PreferredNodes| {
        let named = !preferred.term.labels.is_empty() || !preferred.term.fields.is_empty();
        preferred.weight > 0 && named
    };
    terms.iter().map(one).filter(says).collect()
}

fn requirements(list: Option<&[full::NodeSelectorRequirement]>) -> Vec<Requirement> {
    let one = |requirement: &full::NodeSelectorRequirement| Requirement {
        key: requirement.key.as_str().into(),
        operator: operator(&requirement.operator),
        values: texts(requirement.values.as_deref().unwrap_or_default()),
    };
    list.unwrap_or_default().iter().map(one).collect()
}

fn texts(list: &[String]) -> Vec<Text> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// `nodeSelector` of a pod, or other plain label pairs.
pub fn pairs(map: &BTreeMap<String, String>) -> Labels {
    map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// Largest weight of a preference that an API server takes.
const WEIGHT_MAX: u32 = 100;

/// Longest name in a label key, and longest value of a label.
const LABEL_MAX: usize = 63;

/// Longest domain of a label key.
const DOMAIN_MAX: usize = 253;

/// Whether a text can be the key of a label: a name, with or without a domain before it.
pub fn is_label_key(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let domain_fits = domain.is_none_or(|domain| {
        let part = |part: &str| is_word(part, b"-");
        domain.len() <= DOMAIN_MAX && domain.split('.').all(part)
    });
    domain_fits && name.len() <= LABEL_MAX && is_word(name, b"-_.")
}

/// Whether a text can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= LABEL_MAX && is_word(text, b"-_."))
}

/// Letters and digits at both ends, and between them these bytes too.
fn is_word(text: &str, inside: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || inside.contains(byte))
}

/// The effect of this name.
pub fn effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// Taints; those whose effect nobody knows do nothing.
pub fn taints(list: &[full::Taint]) -> Vec<input::Taint> {
    let one = |taint: &full::Taint| {
        Some(input::Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_deref().unwrap_or_default().into(),
            effect: effect(&taint.effect)?,
        })
    };
    list.iter().filter_map(one).collect()
}

/// Tolerations, in their order.
pub fn tolerations(list: &[full::Toleration]) -> Vec<Toleration> {
    list.iter().map(toleration).collect()
}

/// Taints that every pod tolerates for a while.
const FOR_A_WHILE: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds what an API server gives to pods that say nothing of it: some time on nodes that stop
/// answering. Templates have it not, and neither has what no API server has seen. (Its
/// DefaultTolerationSeconds admission.)
pub fn add_default_tolerations(list: &mut Vec<Toleration>) {
    for key in FOR_A_WHILE {
        let of = |known: &Toleration| {
            (known.key.is_empty() || &*known.key == key)
                && known.effect.is_none_or(|effect| effect == TaintEffect::NoExecute)
        };
        if !list.iter().any(of) {
            list.push(Toleration {
                key: key.into(),
                operator: TolerationOperator::Exists,
                value: "".into(),
                effect: Some(TaintEffect::NoExecute),
            });
        }
    }
}

fn toleration(toleration: &full::Toleration) -> Toleration {
    let named = toleration.effect.as_deref().filter(|name| !name.is_empty());
    let known = named.and_then(effect);
    let operator = match toleration.operator.as_deref().unwrap_or_default() {
        // An effect nobody knows equals no taint's.
        _ if named.is_some() && known.is_none() => TolerationOperator::Unknown,
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        "Gt" => TolerationOperator::Gt,
        "Lt" => TolerationOperator::Lt,
        _ => TolerationOperator::Unknown,
    };
    Toleration {
        key: toleration.key.as_deref().unwrap_or_default().into(),
        operator,
        value: toleration.value.as_deref().unwrap_or_default().into(),
        effect: known,
    }
}

/// That a text is no label key, if it is none: nothing could have it.
pub fn wrong_key(at: &str, key: &str) -> Option<String> {
    let wrong = || format!("{at}: {key:?} is no label key; write name or domain/name");
    (!is_label_key(key)).then(wrong)
}

/// That a text is no value of a label, if it is none.
pub fn wrong_value(at: &str, value: &str) -> Option<String> {
    (!is_label_value(value)).then(|| format!("{at}: {value:?} is no value of a label"))
}

/// A queue's namespace selector, and what is wrong with it.
pub fn label_selector(selector: &LabelSelector, path: &str) -> (Vec<Requirement>, Vec<String>) {
    let mut all: Vec<Requirement> = selector
        .match_labels
        .iter()
        .map(|(key, value)| Requirement {
            key: key.as_str().into(),
            operator: Operator::In,
            values: vec![value.as_str().into()],
        })
        .collect();
    let mut broken = Vec::new();
    for (key, value) in &selector.match_labels {
        let at = format!("{path}.matchLabels");
        broken.extend(wrong_key(&at, key));
        broken.extend(wrong_value(&at, value));
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        let operator = operator(&requirement.operator);
        broken.extend(wrong_key(&format!("{at}.key"), &requirement.key));
        let values = requirement.values.iter();
        broken.extend(values.filter_map(|value| wrong_value(&format!("{at}.values"), value)));
        match (operator, requirement.values.is_empty()) {
            (Operator::In | Operator::NotIn, true) => {
                broken.push(format!("{at}.values: empty; {} needs one", requirement.operator));
            }
            (Operator::Exists | Operator::DoesNotExist, false) => {
                broken.push(format!("{at}.values: {} takes none", requirement.operator));
            }
            (Operator::Gt | Operator::Lt | Operator::Unknown, _) => broken.push(format!(
                "{at}.operator: {:?} is none of In, NotIn, Exists, DoesNotExist",
                requirement.operator
            )),
            _ => {}
        }
        all.push(Requirement {
            key: requirement.key.as_str().into(),
            operator,
            values: texts(&requirement.values),
        });
    }
    (all, broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cluster_queue::SelectorRequirement;

    #[test]
    fn tolerations_default_to_equal_and_every_effect() {
        let plain = full::Toleration { key: Some("k".into()), ..Default::default() };
        let read = toleration(&plain);
        assert_eq!((read.operator, read.effect), (TolerationOperator::Equal, None));
        let empty = full::Toleration { effect: Some(String::new()), ..plain.clone() };
        assert_eq!(toleration(&empty).effect, None);
        let odd = full::Toleration { effect: Some("Sometimes".into()), ..plain.clone() };
        assert_eq!(toleration(&odd).operator, TolerationOperator::Unknown);
        let odd = full::Toleration { operator: Some("Like".into()), ..plain };
        assert_eq!(toleration(&odd).operator, TolerationOperator::Unknown);
    }

    #[test]
    fn pods_get_time_on_nodes_that_stop_answering_unless_they_say_otherwise() {
        let with = |given: serde_json::Value| {
            let given: Vec<full::Toleration> = serde_json::from_value(given).expect("a list");
            let mut list = tolerations(&given);
            add_default_tolerations(&mut list);
            let added = list.iter().skip(given.len());
            added.map(|toleration| toleration.key.to_string()).collect::<Vec<String>>()
        };
        assert_eq!(with(serde_json::json!([])), FOR_A_WHILE);
        let other = serde_json::json!([{"key": "spot", "operator": "Exists"}]);
        assert_eq!(with(other), FOR_A_WHILE);
        let one = serde_json::json!([{"key": FOR_A_WHILE[0], "operator": "Exists"}]);
        assert_eq!(with(one), FOR_A_WHILE[1..]);
        let all = serde_json::json!([{"operator": "Exists"}]);
        assert_eq!(with(all), [""; 0]);
        let on_schedule = serde_json::json!([{"operator": "Exists", "effect": "NoSchedule"}]);
        assert_eq!(with(on_schedule), FOR_A_WHILE);
    }

    #[test]
    fn terms_that_cannot_be_read_match_nothing() {
        let term = |operator: &str, value: &str| full::NodeSelectorTerm {
            match_expressions: Some(vec![full::NodeSelectorRequirement {
                key: "disk".into(),
                operator: operator.into(),
                values: Some(vec![value.into()]),
            }]),
            match_fields: None,
        };
        let read = |terms: Vec<full::NodeSelectorTerm>| {
            node_selector(&full::NodeSelector { node_selector_terms: terms }).terms.len()
        };
        // No value of a label has a blank in it, or begins with a sign.
        let unreadable = [("NotIn", "a b"), ("Gt", "-4"), ("Lt", "many"), ("Like", "a")];
        for (operator, value) in unreadable {
            assert_eq!(read(vec![term(operator, value)]), 0, "{operator} {value}");
            assert_eq!(read(vec![term(operator, value), term("In", "zz")]), 1);
        }
        assert_eq!(read(vec![term("NotIn", "a"), term("Gt", "4")]), 2);
    }

    #[test]
    fn a_taint_with_an_unknown_effect_does_nothing() {
        let taint = full::Taint { effect: "Sometimes".into(), ..Default::default() };
        assert_eq!(taints(&[taint]), []);
    }

    #[test]
    fn selectors_say_what_is_wrong_with_them() {
        let requirement = |operator: &str, values: &[&str]| SelectorRequirement {
            key: "team".into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let selector = LabelSelector {
            match_labels: BTreeMap::from([
                ("a".into(), "b".into()),
                ("x".into(), "a b".into()),
                ("-".into(), "".into()),
            ]),
            match_expressions: vec![
                requirement("In", &["x"]),
                requirement("Like", &["x"]),
                requirement("NotIn", &[]),
                requirement("Exists", &["x"]),
                requirement("In", &["x", "a,b"]),
            ],
        };
        let (all, broken) = label_selector(&selector, "s");
        assert_eq!(all.len(), 8);
        let want = [
            r#"s.matchLabels: "-" is no label key; write name or domain/name"#,
            r#"s.matchLabels: "a b" is no value of a label"#,
            r#"s.matchExpressions[1].operator: "Like" is none of In, NotIn, Exists, DoesNotExist"#,
            "s.matchExpressions[2].values: empty; NotIn needs one",
            "s.matchExpressions[3].values: Exists takes none",
            r#"s.matchExpressions[4].values: "a,b" is no value of a label"#,
        ];
        assert_eq!(broken, want);
    }
}
