//! Whom new facts wake.
//!
//! Work that was looked at and found nothing is parked, and is looked at again only when something
//! changed that it waits for: a look costs as much as the first one did, and whoever is first in
//! its queue goes before those who have not been looked at. So each change wakes those alone whom
//! it may help: free quota the tree it is in, volumes and devices those who ask for such, and what
//! merely takes devices nobody but those who share the claim.
//!
//! Restart: nothing is kept; all work is looked at. Cost: a pass over groups of waiting work for
//! each kind of change in a batch of facts.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::explain::obstacles;
use crate::explain::reason::{Reason, Waits};
use crate::model::apply::Changes;
use crate::model::ids::{QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::workload::Workload;
use crate::rules::dynamic_resources;

impl Engine {
    /// Wakes whom a batch of facts may help, or what heads ask now.
    pub(super) fn wake_for(&mut self, changes: &Changes, heads_changed: bool) {
        let everything = std::mem::take(&mut self.claim_freed) || changes.everything;
        if everything {
            self.waiting.wake(|_| true, |_| true);
        }
        match changes.room {
            true if changes.facts => self.waiting.wake(|_| true, |wake| wake.room),
            true => self.waiting.wake_by_amounts(|_| true, |wake| wake.room),
            false => {}
        }
        self.wake_helped();
        self.wake_for_objects(changes);
        self.wake_queues(&changes.queues);
        if everything || changes.room || !changes.queues.is_empty() {
            self.growth.append(&mut self.growth_parked);
        } else if heads_changed {
            self.wake_those_behind_heads();
        }
    }

    /// Claims, volumes, classes or devices changed: work that has such is looked at again.
    fn wake_for_objects(&mut self, changes: &Changes) {
        let Changes { storage, devices_free, allocated, volume_claims, .. } = changes;
        let of_some = !allocated.is_empty() || !volume_claims.is_empty();
        if !storage && !devices_free && !of_some {
            return;
        }
        let room = &self.state.room;
        let concerned = |shape: ShapeIdx| {
            let facts = &room.shape(shape).facts;
            let mut used = facts.volumes.iter().flat_map(|volumes| &volumes.claims);
            *storage && facts.volumes.is_some()
                || *devices_free && !facts.claims.is_empty()
                || used.any(|using| volume_claims.contains(&using.claim))
                || dynamic_resources::named(facts).any(|claim| allocated.contains(claim))
        };
        self.waiting.wake_shapes(concerned);
        let workloads = &self.state.workloads;
        let grows = |workload: &WorkloadIdx| {
            workloads[*workload].sets.iter().any(|set| concerned(set.shape))
        };
        self.growth.extend(self.growth_parked.extract_if(.., grows));
    }

    /// Wakes work that waits for pods to come near, or to other domains, if such pods came; so are
    /// members that a gang lacks. Whoever waits for something else is none of them: many pods of a
    /// Deployment that is spread come one after the other.
    pub(crate) fn wake_helped(&mut self) {
        let helpers = std::mem::take(&mut self.state.helpers);
        if helpers.is_empty() {
            return;
        }
        let (workloads, room) = (&self.state.workloads, &self.state.room);
        let hopes = |shape: ShapeIdx| {
            let (own, around) = (&room.shape(shape).facts, &room.neighbourhood);
            let helps = |other: &ShapeIdx| around.hopes_for(own, &room.shape(*other).facts);
            own.neighbours.is_some() && helpers.iter().any(helps)
        };
        self.waiting.wake_shapes(hopes);
        let lacks =
            |workload: &WorkloadIdx| workloads[*workload].sets.iter().any(|set| hopes(set.shape));
        self.growth.extend(self.growth_parked.extract_if(.., lacks));
    }

    /// Extra members that wait for a head's sake are looked at again: it may be gone, or ask less.
    fn wake_those_behind_heads(&mut self) {
        let workloads = &self.state.workloads;
        let behind = |workload: &WorkloadIdx| head_before(&workloads[*workload]).is_some();
        self.growth.extend(self.growth_parked.extract_if(.., behind));
    }

    /// The same of those whose head started in this round, or waits no more; and of those whom
    /// members of other gangs would take back, or who are in somebody's way once others have left:
    /// that depends on who uses what.
    pub(crate) fn wake_those_whose_head_started(&mut self) {
        let state = &self.state;
        let waits = |head: &Text| {
            let (namespace, name) = head.split_once('/').unwrap_or_default();
            let known = state.workload_by_name.get_pair(&namespace.into(), &name.into());
            known.is_some_and(|head| self.waits(*head))
        };
        let free = |workload: &WorkloadIdx| {
            let gang = &state.workloads[*workload];
            let told = gang.reason.as_ref().map(obstacles::told);
            let anew = match told {
                Some(Reason::Exposes { waits, .. }) => *waits != Waits::Whole,
                Some(Reason::InTheWay { .. }) => true,
                _ => false,
            };
            anew || head_before(gang).is_some_and(|head| !waits(head))
        };
        let free: Vec<WorkloadIdx> = self.growth_parked.iter().copied().filter(free).collect();
        for workload in free {
            self.growth_parked.remove(&workload);
            self.growth.insert(workload);
        }
    }

    /// Whether work waits, or members of a gang that runs do.
    pub(super) fn waits(&self, workload: WorkloadIdx) -> bool {
        let growing = [&self.growth, &self.growth_parked];
        self.waiting.contains(workload) || growing.into_iter().any(|of| of.contains(&workload))
    }

    /// Wakes parked work of every queue that shares a tree with one of these.
    pub(crate) fn wake_queues(&mut self, freed: &BTreeSet<QueueIdx>) {
        if freed.is_empty() {
            return;
        }
        self.note_frees(freed);
        self.try_anew();
        let roots: BTreeSet<_> = freed.iter().filter_map(|q| self.state.quota.root(*q)).collect();
        let quota = &self.state.quota;
        let in_tree = |queue: Option<QueueIdx>| {
            queue.and_then(|queue| quota.root(queue)).is_some_and(|root| roots.contains(&root))
        };
        self.waiting.wake_by_amounts(in_tree, |wake| wake.quota);
    }
}

/// The head for whose sake members of a gang that runs wait: namespace and name.
fn head_before(gang: &Workload) -> Option<&Text> {
    match obstacles::told(gang.reason.as_ref()?) {
        Reason::Exposes { head, .. }
        | Reason::InTheWay { head, .. }
        | Reason::HeldBack { head, .. }
        | Reason::Reserved { head, .. } => Some(head),
        _ => None,
    }
}
