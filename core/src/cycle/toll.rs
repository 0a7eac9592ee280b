//! What it costs others that some leave, and not others.
//!
//! Problem: a gang may begin, or be completed, with one or another of its members, and different
//! work has to leave for each choice of them. And members that gangs can do without may leave in
//! the stead of victims (`instead`).
//!
//! Wanted: the choice for which others pay least, as kube-scheduler compares nodes and `victims`
//! the nodes of one pod: the fewest PodDisruptionBudgets that are broken, then the lowest of the
//! highest priorities that leave, then the least sum of all priorities, pod by pod, which mostly is
//! the number of pods. Of a gang that goes on with fewer members only those count who leave, with
//! the priority of their gang. Who leaves already pays nothing more; of choices that are equal but
//! for such that one is better which waits for fewer. Of equals the first one stays.
//!
//! Who leaves in the end (`parts`) is found out for the first [`PARTED_MAX`] choices of a head of
//! whose victims one can do without members; with the others all members count. For members that
//! join a gang which runs all victims leave whole.
//!
//! Cost: a look at each pod of each victim, and where gangs could go on in part what it costs to
//! find that out. Restart: nothing is kept.

use std::collections::BTreeMap;

use crate::cycle::parts::Leaves;
use crate::cycle::{Entry, Verdict};
use crate::engine::Engine;
use crate::model::budgets::Allowance;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::victims::Victim;

/// Choices of one head of which it is found out who leaves in the end: the orders in which shapes
/// are filled, or those who stand first in their roles and three others.
pub(super) const PARTED_MAX: u32 = 4;

/// Of victims that leave only in part: with which members.
pub(super) type Parts = BTreeMap<WorkloadIdx, Vec<PodIdx>>;

/// What others pay; the lower, the better. What comes first decides first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Toll {
    /// Pods whose leaving breaks a PodDisruptionBudget.
    breaks: u32,
    /// The highest priority that is stopped; `None`: nobody is.
    highest: Option<i32>,
    /// The priorities of all pods that are stopped, each counted from the lowest there is.
    sum: u64,
    /// Workloads that leave, and members that leave theirs by themselves; those among them that do
    /// so already.
    leave: usize,
}

impl Toll {
    /// Whether somebody of such a priority could leave for less.
    pub(super) fn is_above(&self, priority: i32) -> bool {
        self.breaks > 0 || Some(priority) <= self.highest
    }

    /// So many pods of one priority are stopped, too.
    fn add(&mut self, priority: i32, pods: usize) {
        let above_least = u64::from(priority.abs_diff(i32::MIN));
        self.highest = self.highest.max(Some(priority));
        self.sum = self.sum.saturating_add(above_least.saturating_mul(pods as u64));
    }
}

impl Engine {
    /// What victims pay that leave whole.
    pub(super) fn toll(&self, victims: &[Victim]) -> Toll {
        self.toll_in_part(victims, &Parts::new())
    }

    /// What victims pay, of whom some leave only in part. Work is stopped as well that has no pods
    /// yet: it counts as one.
    pub(super) fn toll_in_part(&self, victims: &[Victim], parts: &Parts) -> Toll {
        let state = &self.state;
        let (mut toll, mut allowance) = (Toll::default(), Allowance::new(state));
        for victim in victims {
            let part = parts.get(&victim.workload);
            toll.leave += part.map_or(1, Vec::len);
            if state.leaving(victim.workload) {
                continue;
            }
            let (pods, breaks) = match part {
                Some(members) => (members.len(), allowance.take(members.iter().copied())),
                None => {
                    let pods = state.placed(victim.workload).count();
                    (pods.max(1), allowance.breaks(victim.workload))
                }
            };
            toll.breaks += breaks;
            toll.add(state.workloads[victim.workload].priority, pods);
        }
        toll
    }

    /// What members pay that leave their gangs by themselves.
    pub(super) fn toll_of_members(&self, members: &[PodIdx]) -> Toll {
        let state = &self.state;
        let breaks = Allowance::new(state).take(members.iter().copied());
        let mut toll = Toll { breaks, leave: members.len(), ..Toll::default() };
        for &member in members {
            let gang = state.pods[member].workload.expect("it is a member of a gang");
            toll.add(state.workloads[gang].priority, 1);
        }
        toll
    }

    /// What others pay for what was found for a head as if those had left who are `gone`: nothing
    /// where it fits, or nothing was found. Of so many choices it is found out who leaves.
    pub(super) fn toll_of(&mut self, entry: &Entry, gone: &[WorkloadIdx], looks: &mut u32) -> Toll {
        let Verdict::Preempt(victims) = &entry.verdict else { return Toll::default() };
        let spares = |victim: &Victim| {
            let (members, spare) = self.state.may_leave_singly(victim.workload);
            spare > 0 && !members.is_empty()
        };
        if *looks == 0 || !victims.iter().any(spares) {
            return self.toll(victims);
        }
        *looks -= 1;
        let later = entry.later.as_ref();
        let before = later.map(|later| self.state.begin_without(entry.workload, later));
        let paid = self.toll_in_the_end(entry, victims, gone);
        if let Some(before) = before {
            self.state.begin_without(entry.workload, &before);
        }
        paid.unwrap_or_else(|| self.toll(victims))
    }

    /// What victims pay of whom only those leave who have to. `None`: without them the head, as it
    /// is placed then, does not fit.
    fn toll_in_the_end(
        &mut self,
        entry: &Entry,
        victims: &[Victim],
        gone: &[WorkloadIdx],
    ) -> Option<Toll> {
        let now = self.state.now;
        let assignment = self.assignment_for(entry, now);
        let names = victims.iter().map(|victim| victim.workload);
        let names: Vec<WorkloadIdx> = names.chain(gone.iter().copied()).collect();
        let places = self.plan_after(entry, assignment.clone(), &names)?;
        let (_, leaves) =
            self.leaves_in_the_end(now, entry, &assignment, victims, (places, &names[..]));
        Some(match leaves {
            Leaves::Victims(parts) => self.toll_in_part(victims, &parts),
            Leaves::Members(members) => self.toll_of_members(&members),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_compared_as_kube_scheduler_compares_nodes() {
        let toll = |breaks, priorities: &[i32]| {
            let mut toll = Toll { breaks, leave: priorities.len(), ..Toll::default() };
            priorities.iter().for_each(|priority| toll.add(*priority, 1));
            toll
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

    #[test]
    fn whoever_could_leave_for_less_is_no_more_important() {
        let mut toll = Toll::default();
        assert!(!toll.is_above(i32::MIN), "nobody pays anything");
        toll.add(3, 2);
        assert!(toll.is_above(3) && !toll.is_above(4));
        toll.breaks = 1;
        assert!(toll.is_above(4), "a budget that is broken is worse");
    }
}
