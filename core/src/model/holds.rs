//! Who may not run: work whose Workload object is inactive, and work of queues that are drained.
//!
//! A Workload object speaks of work by its name, and of no other's: an owner that was made anew
//! under the same name has another uid, and starts active. An owner is held by any object that
//! names its uid, whatever that is called: of several with one name the first has it plain, and who
//! that is may be another once some of them are gone. A group is whoever names it: who comes in
//! place of a member is held as that one was, for as long as the object is there. Names are known
//! only once all workloads are derived, so this comes after them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::WorkloadIdx;
use crate::model::input::{GangKey, StopPolicy, Text};
use crate::model::state::ClusterState;
use crate::model::workload::{QueueRef, WorkloadId};
use crate::plan::{PreemptionReason, State};

impl ClusterState {
    /// Notes that the Workload object of this name is inactive, with its owners, or that it is
    /// not.
    pub(super) fn deactivate(
        &mut self,
        name: (Text, Text),
        owners: Option<Arc<[Text]>>,
        changes: &mut Changes,
    ) {
        let held = self.facts.deactivated.remove(&name);
        for uid in held.iter().flat_map(|owners| owners.iter()) {
            if let Some(objects) = self.facts.deactivated_owners.get_mut(uid) {
                objects.remove(&name);
                if objects.is_empty() {
                    self.facts.deactivated_owners.remove(uid);
                }
            }
        }
        let of = owners.iter().chain(&held).flat_map(|owners| owners.iter());
        let mut concerned: BTreeSet<WorkloadIdx> =
            of.filter_map(|uid| self.work_of(&name.0, uid)).collect();
        concerned.extend(self.workload_by_name.get(&name));
        concerned.retain(|workload| self.workloads.get(*workload).is_some());
        changes.dirty.extend(&concerned);
        if let Some(owners) = owners {
            for uid in owners.iter() {
                let objects = self.facts.deactivated_owners.entry(uid.clone()).or_default();
                objects.insert(name.clone());
            }
            self.facts.deactivated.insert(name, owners);
        } else if held.is_some() {
            for workload in concerned {
                self.workloads[workload].requeue.begin_anew();
            }
        }
    }

    /// Compares which objects hold which owners with what those objects name.
    ///
    /// # Panics
    /// When they differ: that is our own error.
    pub(super) fn recount_holds(&self) {
        let mut anew: BTreeMap<&Text, BTreeSet<&(Text, Text)>> = BTreeMap::new();
        for (name, owners) in &self.facts.deactivated {
            for uid in owners.iter() {
                anew.entry(uid).or_default().insert(name);
            }
        }
        let kept = &self.facts.deactivated_owners;
        assert_eq!(kept.len(), anew.len(), "owners that are held");
        for (uid, objects) in kept {
            let same = anew.get(uid).is_some_and(|named| named.iter().copied().eq(objects));
            assert!(same, "{uid} is held by {objects:?}");
        }
    }

    /// The work of an owner, as it is now.
    fn work_of(&self, namespace: &Text, uid: &Text) -> Option<WorkloadIdx> {
        let key = GangKey::Owner(uid.clone(), self.owners.get(uid)?.incarnation);
        self.workload_by_id.get(&WorkloadId { namespace: namespace.clone(), key }).copied()
    }

    /// Takes work out of its queue that may not run. Who got another name is looked at anew.
    pub(super) fn hold_inactive(&mut self, dirty: &[WorkloadIdx], changes: &mut Changes) {
        if self.facts.deactivated.is_empty() {
            return;
        }
        for workload in self.renamed.clone() {
            if self.workloads.get(workload).is_some() && changes.dirty.insert(workload) {
                self.derive_queue(workload, changes);
                self.hold_if_inactive(workload);
            }
        }
        for &workload in dirty {
            self.hold_if_inactive(workload);
        }
    }

    fn hold_if_inactive(&mut self, workload: WorkloadIdx) {
        if let Some((namespace, name)) = self.held_by(workload) {
            let workload_object = format!("{namespace}/{name}").into();
            let reason = Reason::Deactivated { workload: workload_object };
            self.workloads[workload].queue = QueueRef::Broken(reason);
        }
    }

    /// The Workload object that says that a workload may not run: its own, or one of its owner
    /// under another name.
    fn held_by(&self, workload: WorkloadIdx) -> Option<(Text, Text)> {
        let entry = &self.workloads[workload];
        let name = (entry.id.namespace.clone(), entry.name.clone());
        if let Some(owners) = self.facts.deactivated.get(&name) {
            let is_owner = |uid: &Text| owners.contains(uid);
            let held = owners.is_empty()
                || matches!(entry.id.key, GangKey::Group(..))
                || self.owner_of(workload).is_some_and(|owner| is_owner(&owner.uid))
                || entry.members.iter().any(|pod| is_owner(&self.pods[*pod].uid));
            if held {
                return Some(name);
            }
        }
        let others = self.facts.deactivated_owners.get(&self.owner_of(workload)?.uid)?;
        others.iter().find(|(namespace, _)| *namespace == entry.id.namespace).cloned()
    }

    /// Whether some Workload object says that a workload may not run.
    pub(crate) fn is_held(&self, workload: WorkloadIdx) -> bool {
        !self.facts.deactivated.is_empty() && self.held_by(workload).is_some()
    }

    /// Why a workload that holds quota or nodes has to give them back for nobody's sake.
    pub(crate) fn must_stop(&self, workload: WorkloadIdx) -> Option<PreemptionReason> {
        let entry = &self.workloads[workload];
        let holds = matches!(
            entry.state,
            State::Resuming | State::Preparing | State::Binding | State::Running
        );
        // A queue that stops anybody is none to be in.
        let queued = matches!(entry.queue, QueueRef::Queue(_));
        let none = self.facts.deactivated.is_empty();
        if !holds || queued && none || self.leaving(workload) {
            return None;
        }
        if self.is_held(workload) {
            return Some(PreemptionReason::Deactivated);
        }
        if queued {
            return None;
        }
        let named = entry.wishes.queue.as_ref();
        let local = self.facts.local_queue(&entry.id.namespace, named);
        if local.is_some_and(|local| local.stop == StopPolicy::HoldAndDrain) {
            return Some(PreemptionReason::LocalQueueStopped);
        }
        // With its LocalQueue gone it holds the quota of the ClusterQueue all the same.
        let name = match local {
            Some(local) => &local.cluster_queue,
            None => &self.quota.queue(entry.assignment.as_ref()?.queue?).name,
        };
        let queue = self.facts.cluster_queues.get(name)?;
        let drains = queue.stop == StopPolicy::HoldAndDrain;
        drains.then_some(PreemptionReason::ClusterQueueStopped)
    }
}
