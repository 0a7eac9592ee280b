//! Pods of a group beyond the number that it says it has.
//!
//! Problem: one of Kueue's groups says how many pods it has in all. A script that ran twice, or a
//! replacement for what has not failed yet, makes more of them; all would run, and be charged.
//!
//! Wanted: of a group never more hold places, or have ended well, than it says. Whoever is too
//! many waits and says so: who has a place stays, of the others the first made go first, and one
//! that was made for another that failed takes its part. Nobody is deleted: whose pods they are
//! decides that.
//!
//! A name may be used again once a group is done: runs are told apart by the number, so many pods
//! that ended well being one of them.
//!
//! Cost: groups that say no number nothing; others a look at each member.

use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, GangSource, PodPhase};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;

impl ClusterState {
    /// Members of this run of a gang that ended well: they need no place any more. Those that ended
    /// before any other was made belong to an earlier run of the same name; in a group that says
    /// how many it has, those of runs that are whole.
    pub(super) fn ended_well(&self, workload: WorkloadIdx) -> Vec<&Pod> {
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let (mut ended, active): (Vec<&Pod>, Vec<&Pod>) = members.partition(|pod| !pod.active());
        let first = active.iter().map(|pod| pod.created).min();
        let last = ended.iter().map(|pod| pod.created).max();
        let beside = first <= last;
        ended.retain(|pod| pod.phase == PodPhase::Succeeded);
        let Some(size) = self.group_size(workload) else {
            ended.retain(|_| beside);
            return ended;
        };
        let (all, size) = (ended.len(), size as usize);
        let of_this = match all % size {
            0 if beside && all > 0 => size,
            begun => begun,
        };
        ended.split_off(all - of_this)
    }

    /// How many pods a group says that it has, by whichever of them says most.
    fn group_size(&self, workload: WorkloadIdx) -> Option<u32> {
        let entry = &self.workloads[workload];
        if !matches!(entry.id.key, GangKey::Group(GangSource::KueueGroup, _)) {
            return None;
        }
        let totals = entry.members.iter().filter_map(|pod| self.pods[*pod].gang.total);
        totals.max().map(|total| total.max(1))
    }

    /// Members that wait though their group has all that it says it has: the last made.
    pub(crate) fn surplus(&self, workload: WorkloadIdx) -> Vec<PodIdx> {
        let Some(size) = self.group_size(workload) else { return Vec::new() };
        let placed = self.placed(workload).count() as u32;
        let left = size.saturating_sub(self.done(workload)).saturating_sub(placed);
        let waiting = self.unplaced(workload).filter(|pod| self.pods[*pod].counts());
        waiting.skip(left as usize).collect()
    }

    /// How many members nothing but their number keeps from a place, and why those wait if their
    /// group runs.
    pub(super) fn surplus_told(&self, workload: WorkloadIdx) -> (u32, Option<Reason>) {
        let surplus = self.surplus(workload);
        let free = surplus.iter().filter(|pod| !self.pods[**pod].gated).count() as u32;
        let waiting = surplus.len() as u32;
        let why = || Some(Box::new(self.why_surplus(workload, waiting)));
        (free, (waiting > 0).then(|| Reason::Extras { waiting, then: why() }))
    }

    /// Why none of a group waits for more members, of which so many exist: all are too many.
    pub(super) fn all_surplus(&self, workload: WorkloadIdx, exist: u32) -> Option<Reason> {
        let surplus = self.surplus(workload).len() as u32;
        (surplus > 0 && surplus == exist).then(|| self.why_surplus(workload, surplus))
    }

    /// Why so many members wait of a group that has all that it says it has.
    fn why_surplus(&self, workload: WorkloadIdx, pods: u32) -> Reason {
        let leaving = self.placed(workload).filter(|pod| self.pods[*pod].terminating);
        let leaving = leaving.count() as u32;
        let group = match &self.workloads[workload].id.key {
            GangKey::Group(_, name) => name.clone(),
            GangKey::Owner(..) | GangKey::Pod(_) => self.workloads[workload].name.clone(),
        };
        let (total, done) = (self.group_size(workload).unwrap_or(0), self.done(workload));
        Reason::Surplus { group, total, done, leaving, pods }
    }
}
