//! Places for members that an owner makes once others of it run, or have ended.
//!
//! Problem: the launcher of an MPIJob that waits for its workers, the later Jobs of a JobSet that
//! starts in order, the pod that submits a RayJob. What runs meanwhile is of no use without them.
//! Two such gangs that start with the room of one each wait for their last pods for ever.
//!
//! Wanted: what they ask is known from the start, so they count in the decision whether the gang
//! starts, of quota and of nodes, and what is found for them is kept until they come, however long
//! that takes: a pod that prepares data may run for hours. So a gang that starts can end. A pod
//! that fails is made again, and has its place until then; so does a whole step.
//!
//! Decides how many of each late pod set are still to come: those that are there or ended well are
//! not. What a pod's owner calls its set tells; where it does not, pods beyond all that the others
//! make are of these. Who comes with a gate is not there yet: its place stays, and counts in its
//! stead. Nothing is kept before the first pod is there, unless we resumed the owner, and nothing
//! while it is suspended: then all its pods are still to be made.
//!
//! What a gang is worth, and whether it stops others, was settled for pods that exist when they
//! were made. While some are still to be made the template counts as well, for what it says now:
//! the gang has the higher priority of both, and stops nobody if either says so. Places are as
//! those pods will be, whatever the template said when they were kept. Once all exist it counts no
//! more.
//!
//! Where each Job of a JobSet has a domain to itself, the first pod of each is there before the
//! others, which are pinned to where it went. They say how many all are, and wait for each other.
//!
//! Restart: from facts alone; the places are looked for anew beside what runs, before any head.
//! Cost: owners without late sets a look at their sets; others one at all their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{GangRef, OwnerFacts, OwnerPodSet, PodPhase, Rank, Stays, Text, Wishes};
use crate::model::pod::{Binding, Pod, Takeover};
use crate::model::state::ClusterState;
use crate::time::Time;

/// What pods have of who makes them, as that is now.
pub(super) struct Maker {
    /// Namespace.
    pub namespace: Text,
    /// When it was made, or the last of its pods that there is.
    pub created: Time,
    /// Priority of its pods.
    pub priority: i32,
    /// They never preempt.
    pub never_preempts: bool,
    /// Why nobody stops them for others, if nobody does.
    pub stays: Option<Stays>,
    /// What people asked.
    pub wishes: Arc<Wishes>,
}

impl Maker {
    /// An owner, by its template.
    pub fn of(owner: &OwnerFacts) -> Maker {
        Maker {
            namespace: owner.namespace.clone(),
            created: owner.created,
            priority: owner.priority,
            never_preempts: owner.never_preempts,
            stays: None,
            wishes: owner.wishes.clone(),
        }
    }
}

/// Members of an owner's gang that must run together where some, which were made once others had
/// nodes, say how many all are: these, without those that ended.
pub(super) fn least_with(owner: &OwnerFacts, total: Option<u32>) -> u32 {
    let all = total.map_or(0, |total| total.min(owner.left.unwrap_or(u32::MAX)));
    owner.min_member.max(all)
}

impl ClusterState {
    /// Remembers of an owner that was resumed that pods of this run were there.
    pub(super) fn note_that_pods_came(&mut self, workload: WorkloadIdx, real: &[PodIdx]) {
        let keeps = self.workloads[workload].kept_until.is_some();
        let resumed = |owner: &&Arc<OwnerFacts>| keeps || owner.admitted.is_some();
        let Some(owner) = self.owner_of(workload).filter(resumed) else { return };
        if real.iter().any(|pod| self.pods[*pod].active()) {
            let (uid, run) = (owner.uid.clone(), owner.incarnation);
            self.came.insert(uid, run);
        }
    }

    /// Whether pods of the present run of its owner were ever seen.
    pub(crate) fn pods_came(&self, workload: WorkloadIdx) -> bool {
        let owner = self.owner_of(workload);
        owner.is_some_and(|owner| self.came.get(&owner.uid) == Some(&owner.incarnation))
    }

    /// The priority of an owner's gang; `None`: it has no such owner. That of pods that exist was
    /// settled when they were made, and stays whatever became of the class since. The template
    /// tells what those will have that are still to be made, places for them among those.
    pub(super) fn of_template(&self, workload: WorkloadIdx) -> Option<i32> {
        let owner = self.owner_of(workload)?;
        let exist = self.heard(workload).filter(|pod| !pod.kept());
        Some(match exist.map(|pod| pod.priority).max() {
            Some(highest) if self.all_made(workload, owner) => highest,
            Some(highest) => highest.max(owner.priority),
            None => owner.priority,
        })
    }

    /// Whether all pods exist that an owner makes, as things are.
    pub(super) fn all_made(&self, workload: WorkloadIdx, owner: &OwnerFacts) -> bool {
        let made = self.heard(workload).filter(|pod| !pod.kept()).count() as u64;
        made >= u64::from(owner.pods().min(owner.left.unwrap_or(u32::MAX)))
    }

    /// Keeps one place for each pod that comes late and is still to come, and no others.
    pub(super) fn keep_late(
        &mut self,
        workload: WorkloadIdx,
        owner: &Arc<OwnerFacts>,
        real: &[PodIdx],
        kept: &mut Vec<PodIdx>,
        changes: &mut Changes,
    ) {
        let begun = !real.is_empty() || owner.admitted.is_some();
        let none = owner.pod_sets.iter().all(|set| set.late.is_none());
        if none || !begun || owner.suspended {
            return self.drop_all_but(0, kept, changes);
        }
        let mut most = self.not_made_yet(owner, real, changes);
        let mut stay = Vec::new();
        for set in owner.pod_sets.iter().filter(|set| set.late.is_some()) {
            let lacks = self.still_to_come(set, real, changes).min(most);
            most -= lacks;
            let shape = self.room.intern_shape(&set.shape);
            let (mut own, others): (Vec<PodIdx>, Vec<PodIdx>) =
                kept.drain(..).partition(|pod| self.pods[*pod].shape == shape);
            *kept = others;
            let of_set =
                |pod: &Pod| self.room.shape(pod.shape).facts.pod_set.as_ref() == Some(&set.name);
            let there = self.numbers_of(real, changes, of_set);
            self.drop_beyond((lacks, &there), &mut own, changes);
            self.add_late((workload, owner), (set, shape), (lacks, &there), &mut own);
            stay.append(&mut own);
        }
        self.drop_all_but(0, kept, changes);
        *kept = stay;
    }

    /// Notes whether the places that are kept are for pods that come late: those of an owner that
    /// is being resumed are for all of its pods.
    pub(super) fn note_late(&mut self, workload: WorkloadIdx, kept: &[PodIdx]) {
        let suspended = self.owner_of(workload).is_some_and(|owner| owner.suspended);
        let entry = &mut self.workloads[workload];
        entry.late = !kept.is_empty() && !suspended && entry.kept_until.is_none();
    }

    /// Notes of members that have gates whether places are kept for them: of as many of each set as
    /// it has places.
    pub(super) fn note_gated(&mut self, real: &[PodIdx], kept: &[PodIdx]) {
        let kept_for = self.gated_with_places(real, kept);
        for pod in real {
            self.pods[*pod].place_kept = kept_for.contains(pod);
        }
    }

    fn gated_with_places(&self, real: &[PodIdx], kept: &[PodIdx]) -> BTreeSet<PodIdx> {
        let gated = |pod: &&PodIdx| {
            let pod = &self.pods[**pod];
            pod.gated && pod.place.is_none() && pod.counts()
        };
        let mut gated = real.iter().filter(gated).peekable();
        if kept.is_empty() || gated.peek().is_none() {
            return BTreeSet::new();
        }
        // What makes both tells of which set they are, or else what they ask.
        let set = |pod: &PodIdx| {
            let pod = &self.pods[*pod];
            let named = self.room.shape(pod.shape).facts.pod_set.as_ref();
            match (pod.part(), named) {
                (Some(part), _) => (Some(part), None, None),
                (None, Some(_)) => (None, named, None),
                (None, None) => (None, None, Some(pod.holds)),
            }
        };
        let mut places: BTreeMap<_, u32> = BTreeMap::new();
        kept.iter().for_each(|pod| *places.entry(set(pod)).or_default() += 1);
        let has = |pod: &&PodIdx| match places.get_mut(&set(pod)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        gated.filter(has).copied().collect()
    }

    /// Gives places up of an owner that was resumed, but for so many pods that it has still to
    /// make: where it makes one set of them, by their numbers.
    pub(super) fn drop_made(
        &mut self,
        (owner, missing): (&OwnerFacts, usize),
        real: &[PodIdx],
        kept: &mut Vec<PodIdx>,
        changes: &mut Changes,
    ) {
        let mut there = BTreeSet::new();
        if kept.len() > missing && owner.pod_sets.len() == 1 {
            let made = real.iter().filter(|pod| self.is_made(**pod, changes));
            there.extend(made.filter_map(|pod| self.pods[*pod].number()));
        }
        self.drop_beyond((missing, &there), kept, changes);
    }

    /// Which numbers of a set are those of pods that are there, or ended well.
    pub(super) fn numbers_of(
        &self,
        real: &[PodIdx],
        changes: &Changes,
        of_set: impl Fn(&Pod) -> bool,
    ) -> BTreeSet<u32> {
        let ended = |pod: &PodIdx| self.pods[*pod].phase == PodPhase::Succeeded;
        let there = real.iter().filter(|pod| ended(pod) || self.is_there(**pod, changes));
        let pods = there.map(|pod| &self.pods[*pod]).filter(|&pod| of_set(pod));
        pods.filter_map(Pod::number).collect()
    }

    /// Whether a pod has a place, or nothing of its own keeps it from one. No place is given away
    /// because of one that has a gate, or that is deleted before it had one: that is for it, or for
    /// who comes in its stead.
    pub(super) fn is_there(&self, pod: PodIdx, changes: &Changes) -> bool {
        let (entry, settles) = (&self.pods[pod], changes.to_settle.contains_key(&pod));
        entry.active() && (entry.place.is_some() || settles || entry.free())
    }

    /// Pods of a late set that are neither there nor ended well.
    fn still_to_come(&self, set: &OwnerPodSet, real: &[PodIdx], changes: &Changes) -> usize {
        let (mut there, mut ended) = (0_u32, 0_u32);
        for &pod in real {
            let entry = &self.pods[pod];
            if self.room.shape(entry.shape).facts.pod_set.as_ref() != Some(&set.name) {
                continue;
            }
            ended += u32::from(entry.phase == PodPhase::Succeeded);
            there += u32::from(self.is_there(pod, changes));
        }
        let ended = ended.max(set.late.unwrap_or(0));
        set.count.saturating_sub(ended).saturating_sub(there) as usize
    }

    /// Adds places for pods of a late set, as far as those that there are do not suffice.
    fn add_late(
        &mut self,
        (workload, owner): (WorkloadIdx, &Arc<OwnerFacts>),
        (set, shape): (&OwnerPodSet, ShapeIdx),
        (most, there): (usize, &BTreeSet<u32>),
        own: &mut Vec<PodIdx>,
    ) {
        for pod in own.iter() {
            let gang = &mut self.pods[*pod].gang;
            if gang.roles != set.roles {
                Arc::make_mut(gang).roles.clone_from(&set.roles);
            }
        }
        if own.len() >= most {
            return;
        }
        let gang = self.kept_gang(workload, owner, set.roles.clone());
        let taken: BTreeSet<Text> = own.iter().map(|pod| self.pods[*pod].name.clone()).collect();
        let mut number = set.before;
        while own.len() < most {
            let name = Text::from(format!("{}-{}-{number}", owner.name, set.name));
            let (rank, is_there) = (Rank::Number(number), there.contains(&number));
            number += 1;
            if is_there || taken.contains(&name) {
                continue;
            }
            let uid = format!("{}/{}/{name}", owner.uid, owner.incarnation).into();
            own.push(self.place_of((workload, owner), (uid, name), (shape, rank), gang.clone()));
        }
        own.sort_by_key(|pod| self.pods[*pod].number());
    }

    /// Which of the kept places is for a pod: of those that hold as much, and where roles have
    /// minimums are for its role, that of the shape which differs least from its own (a webhook
    /// may change pods, and templates say nothing of it); of these that of its number, in whatever
    /// order pods come, since neighbours are near each other. Where a node for that is still looked
    /// for it takes no other, which is for the pod of another number.
    pub(super) fn kept_for_one(&self, pod: PodIdx, kept: &[PodIdx]) -> Option<usize> {
        let pod = &self.pods[pod];
        let (role, own) = (pod.role(), &self.room.shape(pod.shape).facts);
        let mut last: Option<(ShapeIdx, u32)> = None;
        let mut best: Option<((u32, bool), usize)> = None;
        // How unlike the place of its number is that is on no node yet.
        let mut looked_for: Option<u32> = None;
        for (at, held) in kept.iter().enumerate() {
            let held = &self.pods[*held];
            let of = held.role();
            let alike = match (pod.part(), held.part()) {
                (Some(own), Some(of)) => own == of,
                _ => of.is_none() || role.is_none() || of == role,
            };
            if held.holds != pod.holds || !alike {
                continue;
            }
            let unlike = match last {
                Some((shape, known)) if shape == held.shape => known,
                _ => own.differences(&self.room.shape(held.shape).facts),
            };
            last = Some((held.shape, unlike));
            let numbered = matches!(pod.rank, Rank::Named | Rank::Number(_));
            let found = (unlike, numbered && held.rank != pod.rank);
            if held.place.is_none() {
                looked_for = looked_for.or((numbered && held.rank == pod.rank).then_some(unlike));
                continue;
            }
            if best.is_none_or(|(least, _)| found < least) {
                best = Some((found, at));
            }
            if found == (0, false) {
                break;
            }
        }
        let waits = |unlike: u32| looked_for.is_some_and(|least| least <= unlike);
        best.filter(|((unlike, other), _)| !*other || !waits(*unlike)).map(|(_, at)| at)
    }

    /// A place for a pod that an owner has still to make, not yet on any node.
    pub(super) fn place_of(
        &mut self,
        (workload, owner): (WorkloadIdx, &OwnerFacts),
        (uid, name): (Text, Text),
        (shape, rank): (ShapeIdx, Rank),
        gang: Arc<GangRef>,
    ) -> PodIdx {
        self.place_made((workload, &Maker::of(owner)), (uid, name), (shape, rank), gang)
    }

    /// The same, whoever makes it.
    pub(super) fn place_made(
        &mut self,
        (workload, maker): (WorkloadIdx, &Maker),
        (uid, name): (Text, Text),
        (shape, rank): (ShapeIdx, Rank),
        gang: Arc<GangRef>,
    ) -> PodIdx {
        self.pods.insert(Pod {
            uid,
            namespace: maker.namespace.clone(),
            name,
            shape,
            holds: self.room.shape(shape).request,
            ours: true,
            phase: PodPhase::Pending,
            nominated: false,
            terminating: false,
            gated: false,
            later: false,
            place_kept: false,
            rank,
            created: maker.created,
            bound_at: None,
            counted: false,
            priority: maker.priority,
            never_preempts: maker.never_preempts,
            stays: maker.stays,
            gang,
            wishes: maker.wishes.clone(),
            note: None,
            eviction: None,
            apart: false,
            workload: Some(workload),
            place: None,
            binding: Binding::Kept,
            takeover: Takeover::Open,
            claims: None,
            rare: None,
        })
    }

    /// Who makes the pods of these places may say something else of them than when the places were
    /// made: they are as those pods will be.
    pub(super) fn renew_places(&mut self, places: &[PodIdx], maker: &Maker) {
        for place in places {
            let pod = &mut self.pods[*place];
            (pod.priority, pod.never_preempts) = (maker.priority, maker.never_preempts);
            (pod.stays, pod.wishes) = (maker.stays, maker.wishes.clone());
        }
    }
}
