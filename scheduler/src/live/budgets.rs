//! PodDisruptionBudgets as they come, and whom they concern.
//!
//! Pods say by which budgets they are meant, so those of a namespace are looked at again where that
//! may be others. As with LimitRanges they are looked up once for all changes of a batch.

use super::Kind;
use super::cluster::Live;
use super::roster::Named;
use crate::api::budget::PodDisruptionBudget;
use crate::convert::budget::{self, BudgetDraft};

impl Live {
    pub(super) fn put_budget(&mut self, budget: &PodDisruptionBudget) {
        let named = self.enter(Kind::Budget, &budget.metadata);
        self.notes.faults(Kind::Budget, &named, []);
        let BudgetDraft { facts, labels } = budget::draft(budget, &mut self.shared);
        self.directory.guards.put(&named.0, &named.1, labels);
        if self.budgets.get(&named) == Some(&facts) {
            return;
        }
        self.dirty.budgets.insert(named.clone());
        self.budgets.insert(named, facts);
    }

    pub(super) fn remove_budget(&mut self, named: &Named) {
        self.directory.guards.put(&named.0, &named.1, None);
        self.budgets.remove(named);
        self.dirty.budgets.insert(named.clone());
    }

    /// Pods, and templates, of namespaces where other pods are meant have to be looked at again.
    pub(super) fn settle_budgets(&mut self) {
        let anew = self.directory.guards.take_anew();
        if anew.is_empty() {
            return;
        }
        let pods = self.pods.iter().filter(|(_, pod)| anew.contains(&pod.namespace));
        self.dirty.pods.extend(pods.map(|(uid, _)| uid.clone()));
        let owners = self.directory.owners.iter().filter(|(_, owner)| owner.runs());
        let owners = owners.filter(|((_, namespace, _), _)| anew.contains(namespace));
        self.dirty.owners.extend(owners.map(|(key, _)| key.clone()));
    }
}
