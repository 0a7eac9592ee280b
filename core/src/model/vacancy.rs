//! Vacancies: quota that a gang keeps for members that it lacks.
//!
//! Problem: a member of a gang that runs dies, and whoever made it makes another one a moment
//! later. In between its quota would go to whoever waits, and the gang would hold what it has, in
//! part, for as long as that one runs.
//!
//! Wanted: a gang that has places but fewer than its minimum charges its queue for those that it
//! lacks, as for those that it has, unless it is leaving or nobody makes members for it any more.
//! It is usage like any other: it is shown, it borrows, and it comes free with the gang. Nobody is
//! pushed over a limit by it: a gang whose minimum grows keeps only what its queue may still use.
//! Nodes are not kept; who joins goes near its peers. A gang that lost all its members waits anew.
//!
//! Phases: facts are applied, and what dead members charged is free -> workloads are derived ->
//! what each lacks is charged anew, in queue order ([`ClusterState::keep_vacancies`]) -> members
//! that join take it up in one transaction ([`Txn::vacate`]); so does, for the time of a
//! transaction, who looks for room without the gang.
//!
//! Restart: from facts alone, as above. Cost: nothing for gangs that have their minimum; else a
//! look at the members.
//!
//! [`Txn::vacate`]: crate::model::txn::Txn::vacate

use capstan_topology::NodeIdx;

use crate::model::apply::Changes;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::GangKey;
use crate::model::state::ClusterState;
use crate::plan::State;

/// Amounts charged to queues.
pub type Charges = Vec<(QueueIdx, FrIdx, i64)>;

impl ClusterState {
    /// Charges anew what these workloads lack.
    pub(super) fn keep_vacancies(&mut self, workloads: &mut [WorkloadIdx], changes: &mut Changes) {
        self.in_queue_order(workloads);
        let mut before = Charges::new();
        for workload in &*workloads {
            before.extend(self.drop_vacancies(*workload));
        }
        for workload in &*workloads {
            self.charge_vacancies(*workload);
        }
        let now = |of: &(QueueIdx, FrIdx, i64)| {
            let charges = workloads.iter().filter_map(|w| self.vacancies.get(w)).flatten();
            sum(charges, of)
        };
        let freed = before.iter().filter(|charge| now(charge) < sum(&before, charge));
        let freed: Vec<QueueIdx> = freed.map(|(queue, ..)| *queue).collect();
        for queue in freed {
            self.quota.advance(queue);
            changes.queues.insert(queue);
        }
    }

    /// A workload is on its way out, or gone: what it lacks is charged no more.
    pub fn drop_vacancies(&mut self, workload: WorkloadIdx) -> Charges {
        let charges = self.vacancies.remove(&workload).unwrap_or_default();
        for &(queue, fr, amount) in &charges {
            self.quota.change(queue, fr, -amount);
        }
        charges
    }

    /// The way back of [`ClusterState::drop_vacancies`].
    pub(super) fn restore_vacancies(&mut self, workload: WorkloadIdx, charges: Charges) {
        for &(queue, fr, amount) in &charges {
            self.quota.change(queue, fr, amount);
        }
        let old = self.vacancies.insert(workload, charges);
        assert!(old.is_none(), "vacancies are kept once");
    }

    /// Members that a workload which has places lacks for its minimum. Those that ended well are
    /// not asked for any more, whether or not their owner has counted them yet.
    pub(super) fn members_lacking(&self, workload: WorkloadIdx) -> u32 {
        let placed = self.placed(workload).count() as u32;
        let lacking = self.workloads[workload].min_member.saturating_sub(placed);
        match self.owner_of(workload) {
            _ if placed == 0 || lacking == 0 => 0,
            Some(owner) => lacking.saturating_sub(self.done(workload).saturating_sub(owner.ended)),
            None => lacking,
        }
    }

    /// Whether members that a workload lacks may still come.
    fn awaits_members(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let ownerless = matches!(entry.id.key, GangKey::Owner(..)) && entry.owner.is_none();
        matches!(entry.state, State::Binding | State::Running)
            && !ownerless
            && !self.leaving(workload)
    }

    /// Charges what a workload lacks, as far as its queue may use that.
    fn charge_vacancies(&mut self, workload: WorkloadIdx) {
        if !self.awaits_members(workload) {
            return;
        }
        let Some(assignment) = self.workloads[workload].assignment.clone() else { return };
        let Some(queue) = assignment.queue else { return };
        let Some(node) = self.quota.queue(queue).node else { return };
        let mut charges = Charges::new();
        for (shape, count) in self.lacking_by_shape(workload) {
            let Some(set) = assignment.set(shape) else { continue };
            let tree = &self.quota.tree;
            let each = set.charge.iter().filter(|(_, each)| *each > 0);
            let fit = each.map(|(fr, each)| tree.available(node, *fr).max(0) / each);
            let count = fit.fold(i64::from(count), i64::min);
            for &(fr, each) in set.charge.iter().filter(|(_, each)| *each > 0 && count > 0) {
                let amount = each.saturating_mul(count);
                self.quota.change(queue, fr, amount);
                charges.push((queue, fr, amount));
            }
        }
        if !charges.is_empty() {
            self.vacancies.insert(workload, charges);
        }
    }

    /// The shapes of what a workload lacks: those of members that wait, in their order; of members
    /// that do not exist again yet the shape of the first set that holds quota.
    fn lacking_by_shape(&self, workload: WorkloadIdx) -> Vec<(ShapeIdx, u32)> {
        let entry = &self.workloads[workload];
        let lacking = self.members_lacking(workload);
        let waiting = self.unplaced(workload).map(|pod| &self.pods[pod]);
        let waiting = waiting.filter(|pod| pod.counts()).map(|pod| pod.shape);
        let mut shapes: Vec<ShapeIdx> = waiting.take(lacking as usize).collect();
        let of_placed = self.placed(workload).map(|pod| self.pods[pod].shape);
        let mut of_sets = of_placed.filter(|shape| {
            entry.assignment.as_ref().is_some_and(|held| held.set(*shape).is_some())
        });
        if let Some(shape) = of_sets.next() {
            shapes.resize(lacking as usize, shape);
        }
        let mut by_shape: Vec<(ShapeIdx, u32)> = Vec::new();
        for shape in shapes {
            match by_shape.iter_mut().find(|(of, _)| *of == shape) {
                Some((_, count)) => *count += 1,
                None => by_shape.push((shape, 1)),
            }
        }
        by_shape
    }

    /// What is charged for members that a workload lacks.
    pub fn kept_for(&self, workload: WorkloadIdx) -> &[(QueueIdx, FrIdx, i64)] {
        self.vacancies.get(&workload).map_or(&[], Vec::as_slice)
    }

    /// Compares vacancies with those who may have them.
    ///
    /// # Panics
    /// When somebody keeps quota who lacks nothing or holds none: that is our own error.
    pub(super) fn recount_vacancies(&self) {
        for (workload, charges) in &self.vacancies {
            let entry = self.workloads.get(*workload).expect("a gang keeps quota that is gone");
            let name = &entry.full_name;
            let assignment = entry.assignment.as_ref();
            let assignment = assignment.unwrap_or_else(|| panic!("{name} keeps quota for nobody"));
            let each = |of: FrIdx| {
                let charges = assignment.sets.iter().flat_map(|set| &set.charge);
                charges.filter(|(fr, _)| *fr == of).map(|(_, each)| *each).max()
            };
            for &(queue, fr, amount) in charges {
                assert_eq!(assignment.queue, Some(queue), "{name} keeps quota of another queue");
                let most =
                    each(fr).unwrap_or(0).saturating_mul(self.members_lacking(*workload).into());
                assert!((1..=most).contains(&amount), "{name} keeps {amount}, lacks {most}");
            }
        }
    }
}

/// What charges have of the same queue, flavor and resource as another one.
fn sum<'a>(
    charges: impl IntoIterator<Item = &'a (QueueIdx, FrIdx, i64)>,
    of: &(QueueIdx, FrIdx, i64),
) -> i64 {
    let same = charges.into_iter().filter(|charge| (charge.0, charge.1) == (of.0, of.1));
    crate::resources::total(same.map(|charge| charge.2))
}

/// What a workload held, for its way back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holding {
    /// Where its members were.
    pub places: Vec<(PodIdx, NodeIdx)>,
    /// What it kept for members that it lacks.
    pub vacancies: Charges,
}
