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
//! Restart: notes and places are not known to a new leader, nor kept by who stands by: who comes
//! then queues anew. Cost: a
//! note for each member of an owner that ends, as many as the owner has at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::{NodeIdx, RequestIdx, ResourceIdx};

use crate::model::apply::Changes;
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{GangKey, OwnerFacts, PodPhase, Rank, Roles, Text};
use crate::model::state::ClusterState;
use crate::plan::State;
use crate::resources;

/// Where a member was that ended, and what who follows it is like.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Where it was.
    pub node: NodeIdx,
    /// What it asked.
    pub shape: ShapeIdx,
    /// Its number.
    rank: Rank,
    /// What it said of roles.
    roles: Option<Arc<Roles>>,
}

impl ClusterState {
    /// A pod ended, and nobody asks for it any more: what it did well its owner counts a while
    /// after this.
    pub(super) fn end_pod(&mut self, uid: &Text, well: bool, changes: &mut Changes) {
        let Some(&index) = self.pod_by_uid.get(uid) else { return };
        let pod = &self.pods[index];
        let had = pod.place.or_else(|| changes.to_settle.get(&index).copied());
        let counts = |workload: &WorkloadIdx| {
            well && self.owner_of(*workload).is_some_and(|owner| owner.counts_late())
        };
        if let Some(workload) = pod.workload.filter(counts) {
            let uncounted = &mut self.workloads[workload].uncounted;
            *uncounted = uncounted.saturating_add(1);
        }
        self.note_ended(index, had, if well { PodPhase::Succeeded } else { PodPhase::Failed });
        self.remove_pod(uid, changes);
    }

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
        // Whom we stop is marked.
        if ran && owned && queued && simple && entry.eviction.is_none() {
            let (shape, rank, roles) = (entry.shape, entry.rank, entry.gang.roles.clone());
            let note = Ended { node, shape, rank, roles };
            self.ended.entry(workload).or_default().push(note);
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
        let owner = self.owner_of(workload).cloned();
        let goes_on =
            |owner: &Arc<OwnerFacts>| owner.ours && owner.finished.is_none() && !owner.suspended;
        let Some(owner) = owner.filter(goes_on) else { return };
        let stands =
            |pod: &PodIdx| self.pods[*pod].place.is_some() || changes.to_settle.contains_key(pod);
        if real.iter().chain(kept.iter()).any(stands) {
            let first = ended.len().saturating_sub(owner.pods() as usize);
            let latest = ended.split_off(first);
            if !latest.is_empty() {
                self.ended.insert(workload, latest);
            }
            return;
        }
        if !self.decides || !kept.is_empty() || self.is_being_stopped(workload, real) {
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
    pub(super) fn is_being_stopped(&self, workload: WorkloadIdx, real: &[PodIdx]) -> bool {
        let entry = &self.workloads[workload];
        let marked = || real.iter().any(|pod| self.pods[*pod].eviction.is_some());
        entry.state == State::Evicting
            || entry.stop_asked
            || self.eviction_of(workload)
            || entry.stop_refused.is_none() && marked()
    }

    /// Places for the pods that an owner makes next, where those were that ended last and as far as
    /// its queue may use that; none, if these are not enough.
    fn places_between(
        &mut self,
        (workload, owner): (WorkloadIdx, &Arc<OwnerFacts>),
        real: &[PodIdx],
        ended: &[Ended],
        changes: &Changes,
    ) -> Vec<PodIdx> {
        let most = owner.pods().min(self.still_to_end((workload, real), owner).unwrap_or(0));
        let least = owner.min_member.min(most) as usize;
        // What it keeps for members that it lacks is for these.
        self.drop_vacancies(workload);
        let mut others: BTreeMap<NodeIdx, Vec<RequestIdx>> = BTreeMap::new();
        for (pod, node) in &changes.to_settle {
            others.entry(*node).or_default().push(self.pods[*pod].holds);
        }
        // Who took a place over in this batch is accounted once all workloads are derived.
        let due = changes.to_settle.keys().flat_map(|pod| self.charges_of(*pod));
        let due: Vec<(QueueIdx, FrIdx, i64)> = due.collect();
        due.iter().for_each(|(queue, fr, amount)| self.quota.change(*queue, *fr, *amount));
        let mut places = Vec::new();
        for note in ended.iter().rev() {
            let request = self.room.shape(note.shape).request;
            let beside = others.get(&note.node).map_or(&[][..], Vec::as_slice);
            if places.len() < most as usize && self.has_room(note.node, request, beside) {
                places.extend(self.place_again((workload, owner), places.len(), note));
            }
        }
        if places.len() < least {
            for place in places.drain(..) {
                self.take_place(place);
            }
        }
        due.iter().for_each(|(queue, fr, amount)| self.quota.change(*queue, *fr, -amount));
        places.reverse();
        places
    }

    /// A place where a member was, if its queue may use what that charges.
    fn place_again(
        &mut self,
        (workload, owner): (WorkloadIdx, &Arc<OwnerFacts>),
        at: usize,
        note: &Ended,
    ) -> Option<PodIdx> {
        let held = self.workloads[workload].assignment.clone()?;
        let queue = self.quota.queue(held.queue?).node?;
        let left = |fr: FrIdx| (fr, self.quota.tree.available(queue, fr));
        let left: BTreeMap<FrIdx, i64> =
            held.set(note.shape)?.charge.iter().map(|(fr, _)| left(*fr)).collect();
        let gang = self.kept_gang(workload, owner, note.roles.clone());
        let uid = format!("{}/{}/next-{at}", owner.uid, owner.incarnation);
        let names = (uid.into(), format!("{}-{at}", owner.name).into());
        let place = self.place_of((workload, owner), names, (note.shape, note.rank), gang);
        self.settle(place, note.node);
        let within = |(_, fr, amount): (_, FrIdx, i64)| {
            amount <= 0 || left.get(&fr).is_some_and(|left| amount <= *left)
        };
        if self.charges_of(place).all(within) {
            return Some(place);
        }
        self.take_place(place);
        None
    }

    fn take_place(&mut self, place: PodIdx) {
        _ = self.unsettle(place);
        self.forget_bill(place);
        self.pods.remove(place);
    }

    /// How many members an owner has still to bring to a good end, those that run included, when
    /// these pods are all that it has; `None`: it makes no more. Without a number of its own it
    /// makes all anew as long as none ended well.
    fn still_to_end(
        &self,
        (workload, pods): (WorkloadIdx, &[PodIdx]),
        owner: &OwnerFacts,
    ) -> Option<u32> {
        let (ended, uncounted) = self.ended_among(workload, pods, owner);
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

    /// Asserts that notes are of gangs that are there and have members with places.
    ///
    /// # Panics
    /// When one is not: that is our own error.
    pub(super) fn recount_ended(&self) {
        for (workload, ended) in &self.ended {
            let gang = self.workloads.get(*workload).expect("notes of a gang that is gone");
            let stands = !ended.is_empty() && self.placed(*workload).next().is_some();
            assert!(stands, "{} keeps notes of who ended, and nobody stands", gang.full_name);
        }
    }
}
