//! TaintToleration: hard taints (NoSchedule, NoExecute) keep pods away that do not tolerate them.
//!
//! Tolerations of the chosen flavors count as the pod's. PreferNoSchedule is a score term.

use super::Question;
use crate::explain::reason::NodeRefusal;
use crate::model::input::{Taint, TaintEffect, Toleration, TolerationOperator};

/// Refuses a node with an untolerated hard taint; names the first.
pub fn check(question: &Question<'_>, refusals: &mut Vec<NodeRefusal>) {
    let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let untolerated =
        question.facts().taints.iter().filter(hard).find(|taint| !tolerated(question, taint));
    if let Some(taint) = untolerated {
        refusals.push(NodeRefusal::Taint { key: taint.key.clone(), value: taint.value.clone() });
    }
}

/// Whether the pod, or a flavor for it, tolerates a taint.
pub fn tolerated(question: &Question<'_>, taint: &Taint) -> bool {
    let compare = question.room.args.toleration_comparison;
    let own = &question.shape.facts.tolerations;
    tolerates(own, taint, compare)
        || question.flavors.iter().any(|(_, f)| tolerates(&f.tolerations, taint, compare))
}

/// Whether any of these tolerations matches a taint. `compare` is the feature gate
/// TaintTolerationComparisonOperators: without it `Gt` and `Lt` tolerate nothing.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint, compare: bool) -> bool {
    tolerations.iter().any(|toleration| matches(toleration, taint, compare))
}

fn matches(toleration: &Toleration, taint: &Taint, compare: bool) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    let any_key = toleration.key.is_empty() && toleration.operator == TolerationOperator::Exists;
    if !any_key && toleration.key != taint.key {
        return false;
    }
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Gt => compare && ordered(&taint.value, &toleration.value),
        TolerationOperator::Lt => compare && ordered(&toleration.value, &taint.value),
        TolerationOperator::Unknown => false,
    }
}

/// Whether both are canonical decimal integers and the first is the greater.
fn ordered(greater: &str, lesser: &str) -> bool {
    match (canonical(greater), canonical(lesser)) {
        (Some(greater), Some(lesser)) => greater > lesser,
        _ => false,
    }
}

/// A 64-bit integer written the one canonical way: no sign `+`, no leading zero, no `-0`.
fn canonical(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaintEffect::{NoExecute, NoSchedule};
    use TolerationOperator::{Equal, Exists, Gt, Lt};

    fn toleration(
        key: &str,
        operator: TolerationOperator,
        value: &str,
        effect: Option<TaintEffect>,
    ) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect }
    }

    fn ok(toleration: Toleration, key: &str, value: &str, effect: TaintEffect) -> bool {
        tolerates(&[toleration], &Taint { key: key.into(), value: value.into(), effect }, true)
    }

    #[test]
    fn key_value_and_effect_must_match() {
        assert!(ok(toleration("k", Equal, "v", None), "k", "v", NoExecute));
        assert!(ok(toleration("k", Equal, "v", Some(NoSchedule)), "k", "v", NoSchedule));
        assert!(!ok(toleration("k", Equal, "v", Some(NoSchedule)), "k", "v", NoExecute));
        assert!(!ok(toleration("k", Equal, "w", None), "k", "v", NoSchedule));
        assert!(ok(toleration("k", Exists, "", None), "k", "v", NoSchedule));
        assert!(ok(toleration("", Exists, "", None), "k", "v", NoSchedule));
        assert!(!ok(toleration("", Equal, "v", None), "k", "v", NoSchedule));
    }

    #[test]
    fn comparison_needs_canonical_integers_and_the_gate() {
        assert!(ok(toleration("sla", Gt, "900", None), "sla", "950", NoSchedule));
        assert!(!ok(toleration("sla", Gt, "900", None), "sla", "900", NoSchedule));
        assert!(ok(toleration("sla", Lt, "900", None), "sla", "899", NoSchedule));
        assert!(!ok(toleration("sla", Gt, "0900", None), "sla", "950", NoSchedule));
        let gated = toleration("sla", Gt, "900", None);
        let taint = Taint { key: "sla".into(), value: "950".into(), effect: NoSchedule };
        assert!(!tolerates(&[gated], &taint, false));
    }
}
