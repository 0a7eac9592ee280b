//! Places of a gang whose last members ended, kept until its owner makes others.
//!
//! Problem: a Job whose pods follow each other (more completions than run at once), or that makes a
//! pod anew which failed, has none for a moment, or for the pause before it tries again. Without a
//! place it holds no quota, and what waits in its queue would have it in the middle of its work.
//!
//! Wanted: it keeps quota, and the nodes where its pods were, for those that it makes next, if
//! these are as many as must run together: else it waits anew, and begins whole. So does only work
//! of a queue whose owner has pods left to make, is not suspended, and is not being stopped by us.
//! It is kept for as long as pods of a resumed owner are waited for; who comes later queues, where
//! its gang stood. A node that gave the room to others meanwhile, or takes the pod no more when
//! it comes, is not kept.
//!
//! Phases: a member ends, and where it was is noted ([`ClusterState::note_ended`]) -> while others
//! of its gang have places vacancies keep quota for it (`vacancy`) -> the last one ends: places are
//! settled where the notes say, before pods that wait take them over -> pods come, as to a resumed
//! owner, or nobody does in time.
//!
//! What a kubelet refused goes elsewhere, so a pod that failed before it ran leaves no note; nor
//! does one that claims devices, which go with it.
//!
//! Restart: notes and places are not known to a new leader: who comes then queues anew. Cost: a
//! note for each member of an owner that ends, as many as the owner has at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::{NodeIdx, RequestIdx, ResourceIdx};

use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, OwnerFacts, PodPhase};
use crate::model::state::ClusterState;
use crate::plan::State;
use crate::resources;

impl ClusterState {
    /// A member that had a place ends, and has none any more: where that was is noted.
    pub(super) fn note_ended(&mut self, pod: PodIdx, had: Option<NodeIdx>, now: PodPhase) {
        let entry = &self.pods[pod];
        let Some((node, workload)) = had.zip(entry.workload).filter(|_| now.terminal()) else {
            return;
        };
        let ran = now == PodPhase::Succeeded || entry.phase.runs();
        let gang = &self.workloads[workload];
        let owned = matches!(gang.id.key, GangKey::Owner(..));
        let queued = gang.assignment.as_ref().is_some_and(|held| held.queue.is_some());
        let simple = self.room.shape(entry.shape).facts.claims.is_empty();
        if ran && owned && queued && simple {
            self.ended.entry(workload).or_default().push((pod, node));
        }
    }

    /// Keeps places of a gang whose last members ended, if it is to have more. Notes stand while
    /// others of it have places.
    pub(super) fn keep_between(
        &mut self,
        workload: WorkloadIdx,
        real: &[PodIdx],
        kept: &mut Vec<PodIdx>,
        changes: &Changes,
    ) {
        let Some(mut ended) = self.ended.remove(&workload) else { return };
        let still = |(pod, _): &(PodIdx, NodeIdx)| {
            self.pods.get(*pod).is_some_and(|it| it.workload == Some(workload) && !it.active())
        };
        ended.retain(still);
        let owner = self.owner_of(workload).cloned();
        let goes_on =
            |owner: &Arc<OwnerFacts>| owner.ours && owner.finished.is_none() && !owner.suspended;
        let Some(owner) = owner.filter(goes_on).filter(|_| !ended.is_empty()) else { return };
        let stands =
            |pod: &PodIdx| self.pods[*pod].place.is_some() || changes.to_settle.contains_key(pod);
        if real.iter().chain(kept.iter()).any(stands) {
            let first = ended.len().saturating_sub(owner.pods() as usize);
            self.ended.insert(workload, ended.split_off(first));
            return;
        }
        if !kept.is_empty() || self.is_being_stopped(workload, real) {
            return;
        }
        *kept = self.places_between((workload, &owner), real, &ended, changes);
        if !kept.is_empty() {
            let until = self.now.plus(self.policy.resume_timeout);
            let entry = &mut self.workloads[workload];
            (entry.kept_until, entry.between) = (Some(until), true);
            self.came.insert(owner.uid.clone(), owner.incarnation);
        }
    }

    /// Whether a gang with these pods goes because we stop it.
    fn is_being_stopped(&self, workload: WorkloadIdx, real: &[PodIdx]) -> bool {
        let entry = &self.workloads[workload];
        let marked = || real.iter().any(|pod| self.pods[*pod].eviction.is_some());
        entry.state == State::Evicting
            || entry.stop_asked
            || self.eviction_of(workload)
            || entry.stop_refused.is_none() && marked()
    }

    /// Places for the pods that an owner makes next, where those were that ended last; none, if
    /// these are not enough.
    fn places_between(
        &mut self,
        (workload, owner): (WorkloadIdx, &Arc<OwnerFacts>),
        real: &[PodIdx],
        ended: &[(PodIdx, NodeIdx)],
        changes: &Changes,
    ) -> Vec<PodIdx> {
        let most = owner.pods().min(self.still_to_end(real, owner).unwrap_or(0));
        let least = owner.min_member.min(most) as usize;
        let mut taken: BTreeMap<NodeIdx, Vec<RequestIdx>> = BTreeMap::new();
        for (pod, node) in &changes.to_settle {
            taken.entry(*node).or_default().push(self.pods[*pod].holds);
        }
        let mut found: Vec<(PodIdx, NodeIdx)> = Vec::new();
        for &(pod, node) in ended.iter().rev() {
            let request = self.room.shape(self.pods[pod].shape).request;
            let on_node = taken.entry(node).or_default();
            if found.len() < most as usize && self.has_room(node, request, on_node) {
                on_node.push(request);
                found.push((pod, node));
            }
        }
        if found.len() < least {
            return Vec::new();
        }
        found.reverse();
        let mut places = Vec::with_capacity(found.len());
        for (at, (pod, node)) in found.into_iter().enumerate() {
            let entry = &self.pods[pod];
            let (shape, rank, roles) = (entry.shape, entry.rank, entry.gang.roles.clone());
            let gang = self.kept_gang(workload, owner, roles);
            let uid = format!("{}/{}/next-{at}", owner.uid, owner.incarnation);
            let names = (uid.into(), format!("{}-{at}", owner.name).into());
            let place = self.place_of((workload, owner), names, (shape, rank), gang);
            self.settle(place, node);
            places.push(place);
        }
        places
    }

    /// How many members an owner has still to bring to a good end, those that run included, when
    /// these pods are its own; `None`: it makes no more. Without a number of its own it makes all
    /// anew as long as none ended well.
    fn still_to_end(&self, pods: &[PodIdx], owner: &OwnerFacts) -> Option<u32> {
        let (ended, uncounted) = self.ended_of(pods, owner);
        match owner.left {
            Some(left) => Some(left.saturating_sub(uncounted)),
            None => (ended == 0).then_some(u32::MAX),
        }
    }

    /// Whether a node that is there holds one more beside others that are about to be accounted.
    fn has_room(&self, node: NodeIdx, request: RequestIdx, others: &[RequestIdx]) -> bool {
        let ledger = &self.room.ledger;
        let mut asked: BTreeMap<ResourceIdx, i64> = BTreeMap::new();
        for &(resource, amount) in
            others.iter().chain([&request]).flat_map(|of| ledger.request(*of).entries())
        {
            resources::add(asked.entry(resource).or_default(), amount);
        }
        self.room.facts(node).is_some()
            && asked.iter().all(|(resource, amount)| ledger.free(node, *resource) >= *amount)
    }

    /// Asserts that notes are of members that ended.
    ///
    /// # Panics
    /// When one is of anybody else: that is our own error.
    pub(super) fn recount_ended(&self) {
        for (workload, ended) in &self.ended {
            let name = &self.workloads.get(*workload).expect("notes of a gang that is gone").id;
            for (pod, _) in ended {
                let pod = self.pods.get(*pod).unwrap_or_else(|| panic!("{name:?} lost a member"));
                let ended = pod.workload == Some(*workload) && !pod.active();
                assert!(ended, "{} of {name:?} did not end", pod.name);
            }
        }
    }
}
