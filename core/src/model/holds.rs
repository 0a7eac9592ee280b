//! Who may not run: work whose Workload object is inactive, and work of queues that are drained.
//!
//! A Workload object speaks of work by its name, and of no other's: an owner that was made anew
//! under the same name has another uid, and starts active. A group is whoever names it: who comes
//! in place of a member is held as that one was, for as long as the object is there. Names are
//! known only once all workloads are derived, so this comes after them.

use std::sync::Arc;

use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::WorkloadIdx;
use crate::model::input::{GangKey, StopPolicy, Text};
use crate::model::state::ClusterState;
use crate::model::workload::QueueRef;
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
        let named = self.workload_by_name.get(&name).copied();
        changes.dirty.extend(named);
        match owners {
            Some(owners) => drop(self.facts.deactivated.insert(name, owners)),
            None => {
                let held = self.facts.deactivated.remove(&name).is_some();
                let known = named.filter(|named| self.workloads.get(*named).is_some());
                if let Some(workload) = known.filter(|_| held) {
                    self.workloads[workload].requeue.begin_anew();
                }
            }
        }
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
        if self.inactive(workload) {
            let workload_object = self.workloads[workload].full_name.clone();
            let reason = Reason::Deactivated { workload: workload_object };
            self.workloads[workload].queue = QueueRef::Broken(reason);
        }
    }

    /// Whether the Workload object of a workload says that it may not run.
    fn inactive(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let name = (entry.id.namespace.clone(), entry.name.clone());
        let Some(owners) = self.facts.deactivated.get(&name) else { return false };
        let is_owner = |uid: &Text| owners.contains(uid);
        owners.is_empty()
            || matches!(entry.id.key, GangKey::Group(..))
            || self.owner_of(workload).is_some_and(|owner| is_owner(&owner.uid))
            || entry.members.iter().any(|pod| is_owner(&self.pods[*pod].uid))
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
        if !none && self.inactive(workload) {
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
