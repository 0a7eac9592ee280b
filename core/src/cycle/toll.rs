//! What it costs others that a gang starts with some of its members and not with others.
//!
//! Problem: a gang may begin, or be completed, with one or another of its members, and different
//! work has to leave for each choice of them.
//!
//! Wanted: the choice for which others pay least, as kube-scheduler compares nodes and `victims`
//! the nodes of one pod: the fewest PodDisruptionBudgets that are broken, then the lowest of the
//! highest priorities that leave, then the least sum of all priorities, pod by pod, which mostly is
//! the number of pods. Who leaves already pays nothing more; of choices for which only such leave
//! that one is better which waits for fewer. Of equals the first one stays.
//!
//! Cost: a look at each pod of each victim. Restart: nothing is kept.

use crate::cycle::{Entry, Verdict};
use crate::engine::Engine;
use crate::model::budgets::Allowance;
use crate::victims::Victim;

/// What others pay; the lower, the better. What comes first decides first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toll {
    /// Pods whose leaving breaks a PodDisruptionBudget.
    breaks: u32,
    /// The highest priority that is stopped; `None`: nobody is.
    highest: Option<i32>,
    /// The priorities of all pods that are stopped, each counted from the lowest there is.
    sum: u64,
    /// Workloads that leave, those among them that do so already.
    leave: usize,
}

impl Engine {
    /// What these pay.
    pub(super) fn toll(&self, victims: &[Victim]) -> Toll {
        let state = &self.state;
        let mut toll = Toll { leave: victims.len(), ..Toll::default() };
        let mut allowance = Allowance::new(state);
        let stopped = victims.iter().map(|victim| victim.workload);
        for workload in stopped.filter(|workload| !state.leaving(*workload)) {
            let priority = state.workloads[workload].priority;
            let above_least = u64::from(priority.abs_diff(i32::MIN));
            let pods = state.placed(workload).count().max(1) as u64;
            toll.breaks += allowance.breaks(workload);
            toll.highest = toll.highest.max(Some(priority));
            toll.sum = toll.sum.saturating_add(above_least.saturating_mul(pods));
        }
        toll
    }

    /// What others pay for what was found for a head: nothing where it fits, or nothing was found.
    pub(super) fn toll_of(&self, verdict: &Verdict) -> Toll {
        match verdict {
            Verdict::Preempt(victims) => self.toll(victims),
            Verdict::Fit | Verdict::Blocked | Verdict::NoFit => Toll::default(),
        }
    }

    /// Whether others leave for one, and pay less than for another, for which nobody may do.
    pub(super) fn costs_less(&self, one: &Entry, other: &Entry) -> bool {
        match (&one.verdict, &other.verdict) {
            (Verdict::Preempt(one), Verdict::Preempt(other)) => self.toll(one) < self.toll(other),
            (Verdict::Preempt(_), _) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_compared_as_kube_scheduler_compares_nodes() {
        let toll = |breaks, priorities: &[i32]| Toll {
            breaks,
            highest: priorities.iter().copied().max(),
            sum: priorities.iter().map(|it| u64::from(it.abs_diff(i32::MIN))).sum(),
            leave: priorities.len(),
        };
        let in_order = [
            Toll::default(),
            Toll { leave: 1, ..Toll::default() },
            Toll { leave: 2, ..Toll::default() },
            toll(0, &[0]),
            toll(0, &[0, 0]),
            toll(0, &[1]),
            toll(0, &[1, -5]),
            toll(0, &[1, 0]),
            toll(1, &[-9]),
            toll(2, &[-9, -9]),
        ];
        assert!(in_order.is_sorted_by(|one, next| one < next));
    }
}
