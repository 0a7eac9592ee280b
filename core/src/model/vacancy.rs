//! Vacancies: quota that a gang keeps for members that it lacks.
//!
//! Problem: a member of a gang that runs dies, and whoever made it makes another one a moment
//! later. In between its quota would go to whoever waits, and the gang would hold what it has, in
//! part, for as long as that one runs.
//!
//! Wanted: a gang that has places but fewer than its minimum charges its queue for those that it
//! lacks, as for those that it has, unless it is leaving or nobody makes members for it any more.
//! It is usage like any other: it is shown, it borrows, and it comes free with the gang. Nobody is
//! pushed over a limit by it: an owner that is to have more, or whose queue shrank, keeps quota for
//! all that it lacks or for nothing (two that each keep a part would wait for each other). Of money
//! it keeps what the dearest of those that run costs. Nodes are not kept; who joins goes near its
//! peers. What a gang keeps that lost all its members is decided elsewhere (`between`); else it
//! waits anew. How long this lasts is decided elsewhere (`engine/overdue.rs`).
//!
//! Phases: facts are applied, and what dead members charged is free -> workloads are derived ->
//! what each lacks is charged anew, in queue order ([`ClusterState::keep_vacancies`]) -> members
//! that join take it up in one transaction ([`Txn::vacate`]); so does, for the time of a
//! transaction, who looks for room without the gang.
//!
//! Who lends to the queue takes it back from the whole gang, as from any that borrows: without it
//! the gang would stay in part.
//!
//! Restart: from facts alone, as above. Cost: nothing for gangs that have their minimum; else a
//! look at the members of all gangs in part with each batch of facts.
//!
//! [`Txn::vacate`]: crate::model::txn::Txn::vacate

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::model::apply::Changes;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{GangKey, OwnerFacts, PodPhase};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, BY_NODE, SetAssignment};
use crate::plan::State;
use crate::resources;

/// Amounts charged to queues.
pub type Charges = Vec<(QueueIdx, FrIdx, i64)>;

impl ClusterState {
    /// Charges anew what gangs lack: whoever is first in queue order keeps it.
    pub(super) fn keep_vacancies(&mut self, changes: &mut Changes) {
        let keeping: Vec<WorkloadIdx> = self.vacancies.keys().copied().collect();
        let mut before = Charges::new();
        for workload in keeping {
            before.extend(self.drop_vacancies(workload));
        }
        let mut lacking: Vec<WorkloadIdx> = self.in_part.keys().copied().collect();
        self.in_queue_order(&mut lacking);
        for workload in lacking {
            self.charge_vacancies(workload);
        }
        if before.is_empty() {
            return;
        }
        let (before, now) = (sums(&before), sums(self.vacancies.values().flatten()));
        let kept = |of| now.get(of).copied().unwrap_or(0);
        let freed = before.iter().filter(|(of, amount)| kept(*of) < **amount);
        let freed: BTreeSet<QueueIdx> = freed.map(|((queue, _), _)| *queue).collect();
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

    /// Members that a workload which has places lacks for its minimum, as far as its owner still
    /// makes any: not in the stead of those that ended well and were the last of their kind,
    /// whether or not it has counted them yet.
    pub(crate) fn members_lacking(&self, workload: WorkloadIdx) -> u32 {
        let entry = &self.workloads[workload];
        let placed = self.placed(workload).count() as u32;
        if placed == 0 || placed >= entry.min_member {
            return 0;
        }
        let Some(owner) = self.owner_of(workload) else { return entry.min_member - placed };
        let (ended, uncounted) = self.ended_of(workload, owner);
        let still = match owner.left {
            Some(left) => left.saturating_sub(uncounted),
            None if ended > 0 => placed,
            None => u32::MAX,
        };
        entry.min_member.min(owner.pods()).min(still).saturating_sub(placed)
    }

    /// How many members a workload that has places lacks for its minimum, where so many wait. An
    /// owner counts who ended well a while after that: those that nobody stands in for are not
    /// waited for until then, by members that are all that is to come.
    pub(crate) fn lacks_for_minimum(&self, workload: WorkloadIdx, waiting: u32) -> u32 {
        let placed = self.placed(workload).count() as u32;
        let lacks = self.workloads[workload].min_member.saturating_sub(placed);
        let Some(owner) = self.owner_of(workload).filter(|_| lacks > 0) else { return lacks };
        let (ended, uncounted) = self.ended_of(workload, owner);
        let still = match owner.left {
            Some(left) if uncounted > 0 => left.saturating_sub(uncounted),
            None if ended > 0 => placed,
            _ => return lacks,
        };
        lacks.min(still.saturating_sub(placed).max(waiting))
    }

    /// How many pods a Job has still to make in place of those that end well, beside as many as run
    /// at once.
    pub(crate) fn stand_ins(&self, workload: WorkloadIdx, at_once: u32) -> u32 {
        let owner = self.owner_of(workload).filter(|owner| owner.replaces > 0);
        let Some((owner, left)) = owner.and_then(|owner| Some((owner, owner.left?))) else {
            return 0;
        };
        let (_, uncounted) = self.ended_of(workload, owner);
        left.saturating_sub(uncounted).saturating_sub(owner.pods().max(at_once))
    }

    /// How many members of an owner ended well, and how many of those it has not counted yet, as
    /// far as they were seen to end.
    pub(super) fn ended_of(&self, workload: WorkloadIdx, owner: &OwnerFacts) -> (u32, u32) {
        self.ended_among(workload, &self.workloads[workload].members, owner)
    }

    /// The same where these are its pods.
    pub(super) fn ended_among(
        &self,
        workload: WorkloadIdx,
        pods: &[PodIdx],
        owner: &OwnerFacts,
    ) -> (u32, u32) {
        let phases = pods.iter().map(|pod| self.pods[*pod].phase);
        let there = phases.filter(|phase| *phase == PodPhase::Succeeded).count() as u32;
        let gone = u32::try_from(self.workloads[workload].uncounted).unwrap_or(0);
        let ended = there.max(owner.ended.saturating_add(gone));
        (ended, ended.saturating_sub(owner.ended))
    }

    /// Whether members that a workload lacks may still come.
    fn awaits_members(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let made = match (&entry.id.key, self.owner_of(workload)) {
            (GangKey::Owner(..), owner) => owner.is_some_and(|owner| !owner.suspended),
            // Whether anybody makes members of it is not known; not for ever.
            _ => self.in_part.get(&workload).is_some_and(Option::is_some),
        };
        made && matches!(entry.state, State::Binding | State::Running) && !self.leaving(workload)
    }

    /// Charges what a workload lacks, if its queue may use all of it.
    fn charge_vacancies(&mut self, workload: WorkloadIdx) {
        // Where room is being made for what it lacks the claim counts that.
        if !self.awaits_members(workload) || self.claims.get(workload).is_some() {
            return;
        }
        let Some(assignment) = self.workloads[workload].assignment.clone() else { return };
        let Some(queue) = assignment.queue else { return };
        let Some(node) = self.quota.queue(queue).node else { return };
        let mut amounts: BTreeMap<FrIdx, i64> = BTreeMap::new();
        for (shape, count) in self.lacking_by_shape(workload) {
            // Of a shape that has no flavors yet nothing can be kept, and a part helps nobody.
            let Some(set) = self.set_alike(&assignment, shape) else { return };
            for &(fr, each) in &set.charge {
                let each = match each {
                    BY_NODE => self.dearest(workload, Some(shape)),
                    each => each,
                };
                resources::add(amounts.entry(fr).or_default(), each.saturating_mul(count.into()));
            }
        }
        amounts.retain(|_, amount| *amount > 0);
        let tree = &self.quota.tree;
        if amounts.iter().any(|(fr, amount)| tree.available(node, *fr) < *amount) {
            return;
        }
        let charges: Charges = amounts.iter().map(|(fr, amount)| (queue, *fr, *amount)).collect();
        for &(queue, fr, amount) in &charges {
            self.quota.change(queue, fr, amount);
        }
        if !charges.is_empty() {
            self.vacancies.insert(workload, charges);
        }
    }

    /// What members of a shape charge, or of one that asks the same.
    fn set_alike<'a>(&self, held: &'a Assignment, shape: ShapeIdx) -> Option<&'a SetAssignment> {
        let asks = |shape: ShapeIdx| self.room.shape(shape).request;
        held.set(shape).or_else(|| held.sets.iter().find(|set| asks(set.shape) == asks(shape)))
    }

    /// The shapes of what a workload lacks: those of members that wait, in their order; of members
    /// that do not exist again yet those of such as failed, then of sets of which nobody runs, then
    /// of who does.
    fn lacking_by_shape(&self, workload: WorkloadIdx) -> Vec<(ShapeIdx, u32)> {
        let entry = &self.workloads[workload];
        let members = || entry.members.iter().map(|pod| &self.pods[*pod]);
        let waiting = self.heard(workload).filter(|pod| pod.place.is_none());
        let failed = members().filter(|pod| pod.phase == PodPhase::Failed);
        let runs =
            |shape: &ShapeIdx| members().any(|pod| pod.place.is_some() && pod.shape == *shape);
        let sets = entry.assignment.iter().flat_map(|held| &held.sets).map(|set| set.shape);
        let idle = sets.filter(|shape| !runs(shape));
        let placed = members().filter(|pod| pod.place.is_some()).map(|pod| pod.shape);
        let known = waiting.chain(failed).map(|pod| pod.shape).chain(idle).chain(placed);
        let mut by_shape: Vec<(ShapeIdx, u32)> = Vec::new();
        let mut add = |shape: ShapeIdx, more: u32| {
            let known = by_shape.iter_mut().find(|(of, _)| *of == shape);
            match known {
                Some((_, count)) => *count += more,
                None => by_shape.push((shape, more)),
            }
        };
        let (mut left, mut last) = (self.members_lacking(workload), None);
        for shape in known.take(left as usize) {
            add(shape, 1);
            (left, last) = (left - 1, Some(shape));
        }
        // A number that was meant otherwise must not cost the memory of so many.
        if let Some(last) = last.filter(|_| left > 0) {
            add(last, left);
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
            assert!(self.in_part.contains_key(workload), "somebody keeps quota that lacks nothing");
            let entry = self.workloads.get(*workload).expect("a gang keeps quota that is gone");
            let name = &entry.full_name;
            let assignment = entry.assignment.as_ref();
            let assignment = assignment.unwrap_or_else(|| panic!("{name} keeps quota for nobody"));
            let each = |of: FrIdx| {
                let charges = assignment.sets.iter().flat_map(|set| &set.charge);
                let charges = charges.filter(|(fr, _)| *fr == of).map(|(_, each)| match *each {
                    BY_NODE => self.dearest(*workload, None),
                    each => each,
                });
                charges.max()
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

/// What charges come to, for each queue, flavor and resource.
fn sums<'a>(
    charges: impl IntoIterator<Item = &'a (QueueIdx, FrIdx, i64)>,
) -> BTreeMap<(QueueIdx, FrIdx), i64> {
    let mut sums = BTreeMap::new();
    for &(queue, fr, amount) in charges {
        resources::add(sums.entry((queue, fr)).or_default(), amount);
    }
    sums
}

/// What a workload held, for its way back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holding {
    /// Where its members were that left their places.
    pub places: Vec<(PodIdx, NodeIdx)>,
    /// What it kept for members that it lacks.
    pub vacancies: Charges,
    /// Whether claims drew on it until then.
    pub(super) drawn_on: bool,
    /// Whether it claimed room for members that join it until then.
    pub(super) claimed: bool,
}
