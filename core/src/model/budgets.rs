//! PodDisruptionBudgets: whose leaving would break one.
//!
//! Problem: a budget lets so many of its pods be disturbed. Preemption prefers victims that stay
//! within all budgets (a preference, as it is kube-scheduler's: quota that was lent comes back
//! whatever budgets say).
//!
//! Decides, for those who may leave in the order in which they are taken, how many of their pods go
//! beyond what is allowed once those before them have left; and of those who leave, who draws on a
//! budget of which more goes than is allowed. Pods that leave already were counted by whoever wrote
//! the budget.
//!
//! Restart: nothing is kept but the objects. Cost: nothing without budgets in the namespaces of
//! those who may leave; else one look-up for each kind of pod and budget that means it, and one
//! count for each pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{BudgetFacts, Text};
use crate::model::state::ClusterState;

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
    /// How many go, by namespace and name.
    taken: BTreeMap<(&'a Text, &'a Text), u32>,
}

/// What several who go take out of budgets, and who of them could stay so that less is broken.
pub struct Draws {
    /// What each takes: the number of a budget for each pod that is counted there.
    of: Vec<Vec<usize>>,
    /// How many more each budget allows; below zero it is broken.
    left: Vec<i64>,
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
        Allowance { state, meant: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// All that budgets allow may be taken anew.
    pub fn renew(&mut self) {
        self.taken.clear();
    }

    /// Takes a workload's pods out of what is allowed; for how many of them nothing was left.
    pub fn breaks(&mut self, workload: WorkloadIdx) -> u32 {
        let state = self.state;
        match state.leaving(workload) {
            true => 0,
            false => self.take(state.placed(workload)),
        }
    }

    /// Takes pods out of what is allowed; for how many of them nothing was left.
    pub fn take(&mut self, pods: impl Iterator<Item = PodIdx>) -> u32 {
        let mut broken = 0;
        for pod in pods {
            let mut breaks = false;
            self.each(std::iter::once(pod), |taken, budget| {
                breaks |= *taken >= budget.allowed;
                *taken += 1;
            });
            broken += u32::from(breaks);
        }
        broken
    }

    /// Calls back for each budget of each pod, with how many of it were taken.
    fn each(
        &mut self,
        pods: impl Iterator<Item = PodIdx>,
        mut call: impl FnMut(&mut u32, &'a BudgetFacts),
    ) {
        let state = self.state;
        for pod in pods {
            let pod = &state.pods[pod];
            let Some(here) = state.budgets.all.get(&pod.namespace) else { continue };
            let names = &state.room.shape(pod.shape).facts.budgets;
            let meant = self.meant.entry((&pod.namespace, pod.shape));
            let known = || names.iter().filter_map(|name| here.get(name)).collect();
            let meant = meant.or_insert_with(known);
            let meant = meant.iter().copied();
            for budget in meant.filter(|budget| !budget.disturbed.contains(&pod.name)) {
                let key = (&budget.namespace, &budget.name);
                call(self.taken.entry(key).or_default(), budget);
            }
        }
    }
}

impl Draws {
    /// What the pods of each of these take.
    pub fn new(state: &ClusterState, all: impl Iterator<Item = Vec<PodIdx>>) -> Draws {
        let mut allowance = Allowance::new(state);
        let mut numbers: BTreeMap<(&Text, &Text), usize> = BTreeMap::new();
        let mut left: Vec<i64> = Vec::new();
        let draw = |pods: Vec<PodIdx>| {
            let mut drawn = Vec::new();
            allowance.each(pods.into_iter(), |_, budget| {
                let next = left.len();
                let at = *numbers.entry((&budget.namespace, &budget.name)).or_insert(next);
                if at == next {
                    left.push(i64::from(budget.allowed));
                }
                left[at] -= 1;
                drawn.push(at);
            });
            drawn
        };
        let of = all.map(draw).collect();
        Draws { of, left }
    }

    /// Whether more goes than is allowed of what the pods of one are counted for.
    pub fn overdraws(&self, at: usize) -> bool {
        self.of[at].iter().any(|budget| self.left[*budget] < 0)
    }

    /// One stays after all; those behind it move up.
    pub fn remove(&mut self, at: usize) {
        self.of.remove(at).into_iter().for_each(|budget| self.left[budget] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stays_gives_back_what_it_drew() {
        let of = vec![vec![0], vec![1], vec![0, 1], vec![], vec![0]];
        let mut draws = Draws { of, left: vec![-2, 0] };
        let broken = |draws: &Draws| -> Vec<bool> {
            (0..draws.of.len()).map(|at| draws.overdraws(at)).collect()
        };
        assert_eq!(broken(&draws), [true, false, true, false, true]);
        draws.remove(2);
        assert_eq!((broken(&draws), draws.left[1]), (vec![true, false, false, true], 1));
        draws.remove(3);
        assert_eq!(broken(&draws), [false; 3]);
    }
}
