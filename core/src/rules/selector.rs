//! Matching of label requirements and node selectors, as Kubernetes does it.

use crate::model::input::{
    LabelSelector, Labels, NodeSelector, NodeSelectorTerm, Operator, Requirement,
};

/// Whether all requirements of a label selector hold; an empty one matches everything.
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.iter().all(|requirement| holds(requirement, labels.get(&requirement.key)))
}

/// Whether any term matches. No terms, or only empty ones, match nothing. Without a name, where
/// labels alone are looked at, what is asked of the name holds.
pub fn node_matches(selector: &NodeSelector, labels: &Labels, name: &str) -> bool {
    selector.terms.iter().any(|term| term_matches(term, labels, name))
}

/// Whether a term matches; one without requirements matches nothing.
pub fn term_matches(term: &NodeSelectorTerm, labels: &Labels, name: &str) -> bool {
    if term.labels.is_empty() && term.fields.is_empty() {
        return false;
    }
    term.labels.iter().all(|requirement| holds(requirement, labels.get(&requirement.key)))
        && term.fields.iter().all(|requirement| field_holds(requirement, name))
}

fn field_holds(requirement: &Requirement, name: &str) -> bool {
    let one_value = requirement.values.len() == 1;
    &*requirement.key == "metadata.name"
        && one_value
        && match requirement.operator {
            Operator::In => name.is_empty() || &*requirement.values[0] == name,
            Operator::NotIn => &*requirement.values[0] != name,
            _ => false,
        }
}

/// Whether one requirement holds for a value (absent: `None`).
pub fn holds<T: AsRef<str>>(requirement: &Requirement, value: Option<&T>) -> bool {
    requirement.holds(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| (*value).into()).collect();
        Requirement { key: "k".into(), operator, values }
    }

    #[test]
    fn operators_follow_kubernetes() {
        let held = |operator, values: &[&str], value: Option<&str>| {
            holds(&requirement(operator, values), value.as_ref())
        };
        assert!(held(Operator::In, &["a", "b"], Some("b")));
        assert!(!held(Operator::In, &["a"], None));
        assert!(held(Operator::NotIn, &["a"], None));
        assert!(!held(Operator::NotIn, &["a"], Some("a")));
        assert!(held(Operator::Exists, &[], Some("")));
        assert!(held(Operator::DoesNotExist, &[], None));
        assert!(held(Operator::Gt, &["5"], Some("6")));
        assert!(!held(Operator::Gt, &["5"], Some("five")));
        assert!(!held(Operator::Lt, &["5", "6"], Some("4")));
        assert!(!held(Operator::Unknown, &[], Some("a")));
    }

    #[test]
    fn empty_terms_match_nothing() {
        let labels = Labels::new();
        assert!(!node_matches(&NodeSelector { terms: vec![] }, &labels, "n"));
        let empty = NodeSelector { terms: vec![NodeSelectorTerm::default()] };
        assert!(!node_matches(&empty, &labels, "n"));
    }

    #[test]
    fn fields_know_only_the_name() {
        let field = |key: &str, operator, value: &str| NodeSelector {
            terms: vec![NodeSelectorTerm {
                labels: vec![],
                fields: vec![Requirement { key: key.into(), operator, values: vec![value.into()] }],
            }],
        };
        let labels = Labels::new();
        assert!(node_matches(&field("metadata.name", Operator::In, "n"), &labels, "n"));
        assert!(node_matches(&field("metadata.name", Operator::NotIn, "m"), &labels, "n"));
        assert!(node_matches(&field("metadata.name", Operator::In, "m"), &labels, ""));
        assert!(!node_matches(&field("metadata.name", Operator::Exists, "m"), &labels, ""));
        assert!(!node_matches(&field("spec.unschedulable", Operator::In, "n"), &labels, "n"));
    }
}
