//! PodDisruptionBudgets: whose leaving would break one.
//!
//! Problem: a budget lets so many of its pods be disturbed. Preemption prefers victims that stay
//! within all budgets (a preference, as it is kube-scheduler's: quota that was lent comes back
//! whatever budgets say).
//!
//! Decides, for those who may leave in the order in which they are taken, whose pods go beyond what
//! is allowed once those before them have left. Pods that leave already were counted by whoever
//! wrote the budget.
//!
//! Restart: nothing is kept but the objects. Cost: nothing without budgets in the namespaces of
//! those who may leave; else one comparison of labels for each kind of pod and budget, and one
//! count for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ids::{ShapeIdx, WorkloadIdx};
use crate::model::input::{BudgetFacts, Text};
use crate::model::state::ClusterState;
use crate::rules::selector;

/// Budgets by namespace and name.
#[derive(Debug, Default)]
pub struct Budgets {
    all: BTreeMap<Text, BTreeMap<Text, Arc<BudgetFacts>>>,
}

/// What budgets still allow, as victims are taken.
pub struct Allowance<'a> {
    state: &'a ClusterState,
    /// Budgets that mean pods of a shape, by namespace and shape.
    meant: BTreeMap<(&'a Text, ShapeIdx), Vec<&'a Arc<BudgetFacts>>>,
    /// How many more may go, by namespace and name.
    left: BTreeMap<(&'a Text, &'a Text), u32>,
}

impl Budgets {
    /// One exists, or changed.
    pub fn put(&mut self, facts: Arc<BudgetFacts>) {
        let here = self.all.entry(facts.namespace.clone()).or_default();
        here.insert(facts.name.clone(), facts);
    }

    /// One is gone.
    pub fn remove(&mut self, namespace: &Text, name: &Text) {
        if let Some(here) = self.all.get_mut(namespace) {
            here.remove(name);
            if here.is_empty() {
                self.all.remove(namespace);
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl<'a> Allowance<'a> {
    /// What all budgets allow now.
    pub fn new(state: &'a ClusterState) -> Allowance<'a> {
        Allowance { state, meant: BTreeMap::new(), left: BTreeMap::new() }
    }

    /// All that budgets allow may be taken anew.
    pub fn renew(&mut self) {
        self.left.clear();
    }

    /// Takes a workload's pods out of what is allowed; whether that is more than was left.
    pub fn breaks(&mut self, workload: WorkloadIdx) -> bool {
        let state = self.state;
        if state.leaving(workload) {
            return false;
        }
        let mut breaks = false;
        for pod in state.placed(workload) {
            let pod = &state.pods[pod];
            let Some(here) = state.budgets.all.get(&pod.namespace) else { continue };
            let means = |budget: &&Arc<BudgetFacts>| means(state, budget, pod.shape);
            let meant = self.meant.entry((&pod.namespace, pod.shape));
            let meant = meant.or_insert_with(|| here.values().filter(means).collect());
            let meant = meant.iter().copied();
            for budget in meant.filter(|budget| !budget.disturbed.contains(&pod.name)) {
                let key = (&budget.namespace, &budget.name);
                let left = self.left.entry(key).or_insert(budget.allowed);
                breaks |= *left == 0;
                *left = left.saturating_sub(1);
            }
        }
        breaks
    }
}

/// Whether a budget means pods of a shape in its namespace.
fn means(state: &ClusterState, budget: &BudgetFacts, shape: ShapeIdx) -> bool {
    let labels = budget.labels.as_ref().filter(|labels| !labels.is_empty());
    let kin = state.room.shape(shape).facts.kin.as_deref();
    labels.zip(kin).is_some_and(|(labels, kin)| selector::selects(labels, &kin.labels))
}
