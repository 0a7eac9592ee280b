//! What the Job controller does: pods made from templates, stopped with their owner, and the
//! owner finished when all have done their work.
//!
//! One run of an owner is one wave of pods, as its pod sets count them; a run that was
//! interrupted starts again as a whole. Members that exist count and are not made twice, nor are
//! those that ended well and that nobody follows ([`OwnerFacts::over`]): who failed is made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    GangKey, GangRef, GangSource, Input, OwnerEnd, OwnerFacts, PodFacts, PodPhase, PodShape, Rank,
    RequeueNote, Text,
};
use capstan_core::time::Time;

use super::{Moment, What, World, named};

impl World {
    /// An owner of the input exists from now on. Whose time is played makes no pods in place of
    /// those that end, so that nobody waits for them.
    pub(super) fn appear(&mut self, owner: OwnerFacts) {
        let (uid, created) = (owner.uid.clone(), owner.created);
        let played = self.agenda.is_some() && owner.member_of.is_none();
        let replaces = if played { 0 } else { owner.replaces };
        self.put_owner(OwnerFacts { replaces, ..owner });
        self.stop_or_make(&uid, created);
    }

    /// Brings the pods of an owner to what its spec says.
    pub(super) fn stop_or_make(&mut self, uid: &Text, created: Time) {
        let Some(owner) = self.owners.get(uid).filter(|owner| owner.finished.is_none()) else {
            return;
        };
        if owner.suspended {
            self.stop_pods(uid);
        } else {
            self.make_pods(uid, created);
        }
    }

    /// Marks the pods of a suspended owner as leaving; once none is left, so is its mark.
    fn stop_pods(&mut self, uid: &Text) {
        let active: Vec<PodFacts> = self.active_pods(uid).cloned().collect();
        for pod in active.iter().filter(|pod| !pod.terminating) {
            self.put_pod(PodFacts { terminating: true, ..pod.clone() });
        }
        let owner = self.owners.get(uid).expect("the caller found it");
        if active.is_empty() && owner.eviction.is_some() {
            self.put_owner(OwnerFacts { eviction: None, ..owner.clone() });
        }
    }

    /// A pod of the input comes later: its owner makes none in its place.
    pub(super) fn announce(&mut self, pod: &PodFacts) {
        self.reserved.insert(pod.uid.clone());
        let GangKey::Owner(owner, run) = &pod.gang.key else { return };
        if !pod.phase.terminal() {
            *self.announced.entry(owner.clone()).or_default() += 1;
        } else if pod.phase == PodPhase::Succeeded {
            let ended = self.ended_later.entry(owner.clone()).or_default();
            ended.insert(pod.uid.clone(), (*run, pod.shape.clone()));
        }
    }

    /// It came.
    pub(super) fn has_come(&mut self, pod: &PodFacts) {
        self.reserved.remove(&pod.uid);
        let GangKey::Owner(owner, _) = &pod.gang.key else { return };
        if let Some(left) = self.announced.get_mut(owner)
            && !pod.phase.terminal()
        {
            *left = left.saturating_sub(1);
        }
        if let Some(ended) = self.ended_later.get_mut(owner) {
            ended.remove(&pod.uid);
        }
    }

    /// How many pods of each set an owner has that need no other in their place, without those
    /// that are still to come and go on.
    fn have(&self, owner: &OwnerFacts) -> Vec<u32> {
        let mut have = vec![0_u32; owner.pod_sets.len()];
        let mut ended: Vec<&Arc<PodShape>> = Vec::new();
        let run = GangKey::Owner(owner.uid.clone(), owner.incarnation);
        for uid in self.members.get(&owner.uid).into_iter().flatten() {
            let pod = &self.pods[uid];
            if pod.phase == PodPhase::Succeeded && pod.gang.key == run {
                ended.push(&pod.shape);
            } else if let Some(count) = have.get_mut(set_of(owner, &pod.shape))
                && !pod.phase.terminal()
            {
                *count += 1;
            }
        }
        let later = self.ended_later.get(&owner.uid).into_iter().flat_map(BTreeMap::values);
        let later = later.filter(|(run, _)| *run == owner.incarnation);
        ended.extend(later.map(|(_, shape)| shape));
        let over = owner.over(u32::try_from(ended.len()).unwrap_or(u32::MAX));
        if owner.left.is_none() && over > 0 {
            // One success is enough for all.
            return owner.pod_sets.iter().map(|set| set.count).collect();
        }
        for shape in ended.into_iter().take(over as usize) {
            if let Some(count) = have.get_mut(set_of(owner, shape)) {
                *count += 1;
            }
        }
        spread(owner, &mut have);
        have
    }

    /// Makes the pods that a running owner lacks.
    fn make_pods(&mut self, uid: &Text, created: Time) {
        let owner = self.owners.get(uid).expect("the caller found it").clone();
        let members = self.members.get(uid).into_iter().flatten();
        let taken: BTreeSet<Text> = members.map(|uid| self.pods[uid].name.clone()).collect();
        let have = self.have(&owner);
        let mut announced = self.announced.get(uid).copied().unwrap_or(0);
        let mut index = self.next_index.get(uid).copied().unwrap_or(0);
        for (number, set) in owner.pod_sets.iter().enumerate() {
            // When its controller makes what comes late is known of what was resumed as one.
            let made = set.late.is_none() || owner.admitted.is_some();
            let count = if made { set.count } else { 0 };
            let lacking = count.saturating_sub(have[number]);
            let coming = lacking.min(announced);
            announced -= coming;
            let mut made = 0;
            while made < lacking - coming {
                let name = Text::from(format!("{}-{index}", owner.name));
                index += 1;
                let pod = member(&owner, number, name, created);
                let known = self.pods.contains_key(&pod.uid) || self.reserved.contains(&pod.uid);
                if known || taken.contains(&pod.name) {
                    continue;
                }
                self.put_pod(pod);
                made += 1;
            }
        }
        self.next_index.insert(uid.clone(), index);
    }

    /// Members of an owner's run have done their work and so many are left: a minimum beyond those
    /// can be met by nobody (the Job controller makes no more pods than completions are missing).
    pub(super) fn near_the_end(&mut self, uid: &Text, left: u32) {
        let left = left.saturating_add(self.announced.get(uid).copied().unwrap_or(0));
        let Some(owner) = self.owners.get(uid).filter(|owner| owner.min_member > left) else {
            return;
        };
        let owner = OwnerFacts { min_member: left, left: Some(left), ..owner.clone() };
        self.minimums.entry(uid.clone()).or_insert(self.owners[uid].min_member);
        self.put_owner(owner);
    }

    /// An owner's last running pod has done its work.
    pub(super) fn finish_owner(&mut self, at: Time, uid: &Text, workload: Text) {
        let coming = self.announced.get(uid).is_some_and(|count| *count > 0);
        if coming || self.active_pods(uid).next().is_some() {
            return;
        }
        let Some(owner) = self.owners.get(uid) else { return };
        let (finished, ours) =
            (OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..owner.clone() }, owner.ours);
        self.put_owner(finished);
        if ours {
            self.moments.push(Moment { at, workload, what: What::Finished });
        }
    }

    /// Suspends an owner: its pods are gone at once and its next run is a new incarnation.
    /// Members that had ended go too, because the run starts again as a whole.
    pub(super) fn suspend(&mut self, uid: &Text, requeue: Box<RequeueNote>) {
        let Some(owner) = self.owners.get(uid).cloned() else { return };
        for pod in self.members.remove(uid).unwrap_or_default() {
            self.drop_pod(&pod);
        }
        self.announced.remove(uid);
        self.ended_later.remove(uid);
        self.next_index.remove(uid);
        let min_member = self.minimums.remove(uid).unwrap_or(owner.min_member);
        self.put_owner(OwnerFacts {
            suspended: true,
            min_member,
            incarnation: owner.incarnation.saturating_add(1),
            admitted: None,
            eviction: None,
            requeued: Some(requeue),
            ..owner
        });
    }

    pub(super) fn put_owner(&mut self, owner: OwnerFacts) {
        let was = self.owners.get(&owner.uid).is_some_and(waits);
        self.waiting_owners += u32::from(waits(&owner));
        self.waiting_owners -= u32::from(was);
        self.tell(Input::Owner(owner.clone()));
        self.owners.insert(owner.uid.clone(), owner);
    }

    /// An owner was deleted: its pods go with it.
    pub(super) fn drop_owner(&mut self, uid: &Text) {
        let Some(owner) = self.owners.remove(uid) else { return };
        self.minimums.remove(uid);
        self.waiting_owners -= u32::from(waits(&owner));
        for pod in self.members.remove(uid).unwrap_or_default() {
            self.drop_pod(&pod);
        }
        self.tell(Input::OwnerGone(uid.clone()));
    }

    fn active_pods(&self, uid: &Text) -> impl Iterator<Item = &PodFacts> {
        let members = self.members.get(uid).into_iter().flatten();
        members.map(|uid| &self.pods[uid]).filter(|pod| !pod.phase.terminal())
    }
}

/// Whether an owner is a workload without pods.
fn waits(owner: &OwnerFacts) -> bool {
    owner.ours && owner.suspended && owner.finished.is_none()
}

/// The pod set that a pod was made from: the one of its shape, else the first.
fn set_of(owner: &OwnerFacts, shape: &Arc<PodShape>) -> usize {
    if owner.pod_sets.len() < 2 {
        return 0;
    }
    owner.pod_sets.iter().position(|set| set.shape == *shape).unwrap_or(0)
}

/// More pods of a set than it makes are those of others: what an API server adds to pods makes
/// their shapes differ from their templates'.
fn spread(owner: &OwnerFacts, have: &mut [u32]) {
    let mut surplus = 0;
    for (count, set) in have.iter_mut().zip(&owner.pod_sets) {
        surplus += count.saturating_sub(set.count);
        *count = (*count).min(set.count);
    }
    for (count, set) in have.iter_mut().zip(&owner.pod_sets) {
        let taken = surplus.min(set.count - *count);
        (*count, surplus) = (*count + taken, surplus - taken);
    }
}

/// The Job that this owner is, by uid, where its pods are in a gang that is no owner's.
fn member_by_job(owner: &OwnerFacts) -> Option<Text> {
    let key = &owner.member_of.as_ref()?.key;
    let of_group = owner.source == GangSource::Job && matches!(key, GangKey::Group(..));
    of_group.then(|| owner.uid.clone())
}

/// A new member of the owner's present incarnation.
fn member(owner: &OwnerFacts, set: usize, name: Text, created: Time) -> PodFacts {
    let plain = format!("pod/{}", named(&owner.namespace, &name));
    let uid = match owner.incarnation {
        0 => plain.into(),
        incarnation => format!("{plain}#{incarnation}").into(),
    };
    PodFacts {
        uid,
        namespace: owner.namespace.clone(),
        name,
        shape: owner.pod_sets[set].shape.clone(),
        holds: None,
        ours: owner.ours,
        node: None,
        phase: PodPhase::Pending,
        nominated: false,
        goes_to: None,
        terminating: false,
        gated: false,
        rank: Rank::None,
        created,
        bound_at: None,
        ended_at: None,
        priority: owner.priority,
        never_preempts: owner.never_preempts,
        stays: None,
        gang: owner.member_of.clone().unwrap_or_else(|| GangRef {
            key: GangKey::Owner(owner.uid.clone(), owner.incarnation),
            name: owner.name.clone(),
            source: owner.source,
            min_member: Some(owner.min_member),
            total: None,
            roles: owner.pod_sets[set].roles.clone(),
            // A Job without a queue is no gang.
            by_itself: owner.source == GangSource::Job
                && owner.min_member == 1
                && owner.wishes.queue.is_none(),
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: None,
        }),
        of_job: member_by_job(owner),
        wishes: owner.wishes.clone(),
        binding: None,
        eviction: None,
        claims: None,
    }
}
