//! PodDisruptionBudgets into facts, and which pods they mean.
//!
//! What its controller did not say yet allows nothing, as with kube-scheduler.
//!
//! Which budgets mean a pod is found out where its labels are: the engine is told their names.
//! Values of labels would make a kind of pods of each pod where one selector reads a label that
//! every pod has a value of its own of, and a budget can be written by whoever may do anything in
//! one namespace. With names there are no more kinds than budgets tell apart, and no others in
//! other namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{BudgetFacts, LabelSelector, PodShape, Requirement, Text};

use super::marks;
use super::neighbours::label_selector;
use super::sharing::{Pairs, Shared};
use crate::api::budget::PodDisruptionBudget;

/// Budgets that are told of a pod at most, the first by name. An API server evicts no pod that two
/// budgets mean, so nobody has use for many.
const BUDGETS_MAX: usize = 16;

/// A budget as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetDraft {
    /// What the engine is told of it.
    pub facts: Arc<BudgetFacts>,
    /// Which pods of its namespace it means.
    pub labels: Option<LabelSelector>,
}

/// The draft of a budget.
pub fn draft(budget: &PodDisruptionBudget, shared: &mut Shared) -> BudgetDraft {
    let status = &budget.status;
    let facts = BudgetFacts {
        namespace: shared.texts.text(marks::namespace(&budget.metadata)),
        name: marks::name(&budget.metadata).into(),
        allowed: u32::try_from(status.disruptions_allowed).unwrap_or(0),
        disturbed: status.disrupted_pods.keys().map(|name| name.as_str().into()).collect(),
    };
    let labels = budget.spec.selector.as_ref().map(label_selector);
    BudgetDraft { facts: Arc::new(facts), labels }
}

/// Which pods budgets mean.
#[derive(Debug, Default)]
pub struct Guards {
    /// Selectors with requirements, by namespace and name.
    all: BTreeMap<Text, BTreeMap<Text, LabelSelector>>,
    /// Namespaces where other pods may be meant than when that was asked last.
    anew: BTreeSet<Text>,
}

impl Guards {
    /// Which pods a budget means now. Without a selector, or with one without requirements, it
    /// means none, as it does to kube-scheduler; nor does one that is gone.
    pub fn put(&mut self, namespace: &Text, name: &Text, labels: Option<LabelSelector>) {
        let labels = labels.filter(|labels| !labels.is_empty());
        let known = self.all.get(namespace).and_then(|here| here.get(name));
        if known == labels.as_ref() {
            return;
        }
        self.anew.insert(namespace.clone());
        let here = self.all.entry(namespace.clone()).or_default();
        match labels {
            Some(labels) => _ = here.insert(name.clone(), labels),
            None => _ = here.remove(name),
        }
        if here.is_empty() {
            self.all.remove(namespace);
        }
    }

    /// Namespaces where other pods may be meant than when this was asked last.
    pub fn take_anew(&mut self) -> BTreeSet<Text> {
        std::mem::take(&mut self.anew)
    }

    /// A shape with the names of those that mean a pod; nobody asks of pods that are not ours.
    pub fn applied(
        &self,
        shape: Arc<PodShape>,
        (namespace, labels): (&Text, &Pairs),
        ours: bool,
        shared: &mut Shared,
    ) -> Arc<PodShape> {
        let Some(here) = self.all.get(namespace).filter(|_| ours) else { return shape };
        let own = |key: &Text| labels.iter().find(|(own, _)| own == key).map(|(_, value)| value);
        let holds = |term: &Requirement| term.holds(own(&term.key));
        let meant = here.iter().filter(|(_, selector)| selector.iter().all(holds));
        let budgets: Vec<Text> = meant.map(|(name, _)| name.clone()).take(BUDGETS_MAX).collect();
        if budgets.is_empty() {
            return shape;
        }
        shared.shapes.of(PodShape { budgets, ..PodShape::clone(&shape) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(name: &str, selector: &serde_json::Value) -> PodDisruptionBudget {
        let budget = serde_json::json!({
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"minAvailable": 2, "selector": selector},
            "status": {"disruptionsAllowed": 3, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
        });
        serde_json::from_value(budget).expect("a budget")
    }

    #[test]
    fn what_its_controller_says_is_told() {
        let budget = budget("guard", &serde_json::json!({"matchLabels": {"app": "x"}}));
        let BudgetDraft { facts, labels } = draft(&budget, &mut Shared::default());
        assert_eq!((&*facts.namespace, &*facts.name, facts.allowed), ("ns", "guard", 3));
        assert_eq!(labels.map(|labels| labels.len()), Some(1));
        assert!(facts.disturbed.contains("p"));
    }

    #[test]
    fn before_its_controller_spoke_nothing_is_allowed() {
        let budget = PodDisruptionBudget::default();
        let BudgetDraft { facts, labels } = draft(&budget, &mut Shared::default());
        assert_eq!((facts.allowed, labels.is_none()), (0, true));
    }

    /// A shape for pods of a namespace with a label that has this value.
    fn seen(guards: &Guards, namespace: &str, index: &str, shared: &mut Shared) -> Arc<PodShape> {
        let labels: Pairs = [("index".into(), index.into())].into();
        guards.applied(Arc::default(), (&namespace.into(), &labels), true, shared)
    }

    #[test]
    fn pods_that_the_same_budgets_mean_are_of_one_kind() {
        let (mut guards, mut shared) = (Guards::default(), Shared::default());
        let mut put = |guards: &mut Guards, name: &str, selector: serde_json::Value| {
            let BudgetDraft { facts, labels } = draft(&budget(name, &selector), &mut shared);
            guards.put(&facts.namespace, &facts.name, labels);
            guards.take_anew().len()
        };
        let term = |operator: &str, values: &[&str]| {
            let term = serde_json::json!({"key": "index", "operator": operator, "values": values});
            serde_json::json!({"matchExpressions": [term]})
        };
        assert_eq!(put(&mut guards, "all", term("Exists", &[])), 1);
        assert_eq!(put(&mut guards, "all", term("Exists", &[])), 0, "it means the same pods");
        assert_eq!(put(&mut guards, "one", term("In", &["7"])), 1);
        assert_eq!(put(&mut guards, "none", serde_json::json!({})), 0);
        let names = |shape: &PodShape| -> Vec<String> {
            shape.budgets.iter().map(ToString::to_string).collect()
        };
        let here = |index, shared: &mut Shared| seen(&guards, "ns", index, shared);
        let [first, next, seventh] = ["0", "1", "7"].map(|index| here(index, &mut shared));
        assert_eq!((&first, &first.kin), (&next, &None));
        let told = [names(&first), names(&seventh)];
        assert_eq!(told, [vec!["all".to_owned()], vec!["all".to_owned(), "one".to_owned()]]);
        assert!(seen(&guards, "other", "0", &mut shared).budgets.is_empty());
        for name in ["all", "one"] {
            guards.put(&"ns".into(), &name.into(), None);
        }
        assert_eq!(guards.take_anew().len(), 1);
        assert!(seen(&guards, "ns", "7", &mut shared).budgets.is_empty());
    }
}
