//! PodDisruptionBudgets into facts.
//!
//! What its controller did not say yet allows nothing, as with kube-scheduler.

use std::sync::Arc;

use capstan_core::model::input::BudgetFacts;

use super::marks;
use super::neighbours::label_selector;
use super::sharing::Shared;
use crate::api::budget::PodDisruptionBudget;

/// The facts of a budget.
pub fn facts(budget: &PodDisruptionBudget, shared: &mut Shared) -> Arc<BudgetFacts> {
    let status = &budget.status;
    Arc::new(BudgetFacts {
        namespace: shared.texts.text(marks::namespace(&budget.metadata)),
        name: marks::name(&budget.metadata).into(),
        labels: budget.spec.selector.as_ref().map(label_selector),
        allowed: u32::try_from(status.disruptions_allowed).unwrap_or(0),
        disturbed: status.disrupted_pods.keys().map(|name| name.as_str().into()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_controller_says_is_told() {
        let budget = serde_json::json!({
            "metadata": {"namespace": "ns", "name": "guard"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": 3, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        });
        let budget: PodDisruptionBudget = serde_json::from_value(budget).expect("a budget");
        let facts = facts(&budget, &mut Shared::default());
        assert_eq!((&*facts.namespace, &*facts.name, facts.allowed), ("ns", "guard", 3));
        assert_eq!(facts.labels.as_ref().map(Vec::len), Some(1));
        assert!(facts.disturbed.contains("p"));
    }

    #[test]
    fn before_its_controller_spoke_nothing_is_allowed() {
        let budget = PodDisruptionBudget::default();
        let facts = facts(&budget, &mut Shared::default());
        assert_eq!((facts.allowed, facts.labels.is_none()), (0, true));
    }
}
