//! Places for pods of which the first members of a gang know that they are still to come.
//!
//! Problem: as in [`late`](super::late), where no owner is the gang: it is a group that the pods of
//! an MPIJob name, or a leader with workers of a set that makes many such groups, or the tasks of a
//! job of Volcano's. Those that are made first start, and hold what others need, though there is no
//! room for those that they wait for.
//!
//! Decides that what members say of pods which are made after them ([`ToCome`]) counts as their
//! gang begins, of quota and of nodes, and is kept until those come: as many of each set as are
//! neither there nor ended well. A pod that fails has its place until it is made anew, and one that
//! comes with a gate until that is taken away. Nothing is kept once nobody is left who says so: who
//! waits for a leader that is deleted comes with the next one; nor while the gang is being stopped,
//! nor for an owner that is done or suspended.
//!
//! A minimum that counts fewer than all is more with those that are to come, who are not among
//! those that it counts. Once they are there it is what is stated.
//!
//! One that counts pods of several makers, or others beside them, is what is stated as well, for
//! places are members as those are: less those alone of which no places are kept, as far as their
//! makers have still to make them. Nobody could wait for these. A group that says how many it has
//! in all has room for no more places than it lacks members.
//!
//! Each place has the number of the pod that it is for: that of nobody who is there. Where there
//! are too many, those go first whose pods are there. It is called after who makes that pod: of one
//! gang several may make some.
//!
//! Places stand behind all members: who is there says what the gang is. They are worth what the
//! first member is worth that says so, as that is now. Minimums of roles count them, so that no
//! others of the gang begin in their stead.
//!
//! Restart: from facts alone, as those of owners. Cost: a look at each member of a gang; where some
//! say so another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangRef, OwnerPodSet, PodPhase, Rank, Text, ToCome};
use crate::model::late::Maker;
use crate::model::pod::Pod;
use crate::model::state::ClusterState;
use crate::time::Span;

/// Who makes a pod set of its members, and which that is.
type Part<'a> = (&'a Text, &'a Text);

/// A pod set that is still to come, or a part of it.
struct Due {
    /// What says so.
    said: Arc<ToCome>,
    /// Which of its sets.
    at: usize,
    /// The first member that says so.
    by: PodIdx,
    /// How many are missing.
    lacks: usize,
}

/// Pods of a set that are there, and that ended well.
#[derive(Clone, Copy, Default)]
struct Seen {
    there: u32,
    ended: u32,
}

impl Pod {
    /// The pod set that it is of, where some of its gang come after others.
    pub(super) fn part(&self) -> Option<(&Text, &Text)> {
        let known = self.gang.to_come.as_deref()?;
        Some((&known.maker, known.own.as_ref()?))
    }

    /// Who makes it and others that come after it, where a minimum that is stated of its gang may
    /// count those.
    pub(super) fn maker_counted(&self) -> Option<&Text> {
        let known = self.gang.to_come.as_deref()?;
        known.counted.map(|_| &known.maker)
    }

    /// Whether what it says of others counts: it goes on.
    fn tells(&self) -> bool {
        !self.kept() && self.counts() && !self.terminating
    }
}

impl ClusterState {
    /// Keeps one place for each pod that members say is still to come, and no others.
    pub(super) fn keep_to_come(
        &mut self,
        workload: WorkloadIdx,
        real: &[PodIdx],
        kept: &mut Vec<PodIdx>,
        changes: &mut Changes,
    ) {
        // Without those that they are for they wait in their queue.
        if kept.iter().any(|pod| self.pods[*pod].place.is_some()) && !self.stand(real, changes) {
            self.drop_all_but(0, kept, changes);
        }
        let mut stay = Vec::new();
        for due in self.due(workload, real, changes) {
            let set = &due.said.sets[due.at];
            let shape = self.room.intern_shape(&set.shape);
            let part = Some((&due.said.maker, &set.name));
            let is_own = |pod: &PodIdx| {
                let pod = &self.pods[*pod];
                pod.shape == shape && pod.part() == part
            };
            let (mut own, others): (Vec<PodIdx>, Vec<PodIdx>) = kept.drain(..).partition(is_own);
            *kept = others;
            let there = match own.len() == due.lacks {
                true => BTreeSet::new(),
                false => self.numbers_of(real, changes, |pod| pod.part() == part),
            };
            self.drop_beyond((due.lacks, &there), &mut own, changes);
            self.add_to_come(workload, (&due, &there), real, &mut own);
            stay.append(&mut own);
        }
        self.drop_all_but(0, kept, changes);
        *kept = stay;
    }

    /// Members that must run together by what those say who know of others that are to come: these
    /// included, without those that ended and that no minimum counts.
    pub(super) fn least_to_come(&self, workload: WorkloadIdx) -> Option<u32> {
        let members = || self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let mut gangs: Vec<&Arc<GangRef>> = Vec::new();
        for pod in members().filter(|pod| pod.tells()) {
            let says = pod.gang.to_come.as_ref().is_some_and(|known| !known.sets.is_empty());
            if says && gangs.last().is_none_or(|last| !Arc::ptr_eq(last, &pod.gang)) {
                gangs.push(&pod.gang);
            }
        }
        if gangs.is_empty() {
            return None;
        }
        let over = self.over(workload);
        let waited_for = members().any(Pod::kept);
        let least = |gang: &Arc<GangRef>| {
            let (stated, known) = (gang.min_member?, gang.to_come.as_deref()?);
            let sum = |of: &dyn Fn(&OwnerPodSet) -> u32| {
                known.sets.iter().map(of).fold(0, u32::saturating_add)
            };
            let ended = sum(&|set| over_of(set, &known.maker, &over));
            let all = known.least.unwrap_or_else(|| stated.saturating_add(sum(&|set| set.count)));
            let most = known.stated.filter(|_| !waited_for).unwrap_or(u32::MAX);
            Some(all.min(most).saturating_sub(ended))
        };
        gangs.into_iter().filter_map(least).max()
    }

    /// Members that must run together by what each of them says of that: the most that one says,
    /// and what is stated of all as far as these can be there, or have places, before others run.
    pub(super) fn least_said(&self, workload: WorkloadIdx) -> Option<u32> {
        let (mut own, mut of_all): (Option<u32>, Option<u32>) = (None, None);
        let mut counted: Option<u32> = None;
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        for gang in members.filter(|pod| pod.counts()).map(|pod| &pod.gang) {
            match gang.to_come.as_ref().and_then(|known| known.counted) {
                Some(all) => (own, counted) = (own.max(gang.min_member), counted.max(Some(all))),
                // It is made whoever runs, and says all that is stated.
                None => of_all = of_all.max(gang.min_member),
            }
        }
        if counted.is_none() {
            return of_all;
        }
        let all = counted.max(of_all)?;
        own.max(Some(all.saturating_sub(self.without_places(workload))))
    }

    /// Pods that a stated minimum may count and that nobody waits for: those of which no places are
    /// kept, and those that came last and have ended. Of one maker those who were made last know
    /// best, of whom the fewest are still to come.
    fn without_places(&self, workload: WorkloadIdx) -> u32 {
        let over = self.over(workload);
        let mut of_makers: BTreeMap<&Text, u32> = BTreeMap::new();
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        for pod in members.filter(|pod| pod.counts()) {
            let known = pod.gang.to_come.as_ref();
            let Some(known) = known.filter(|known| known.counted.is_some()) else { continue };
            let keeps = known.sets.is_empty() || pod.tells() && self.still_makes(&known.maker);
            let without = known.sets.iter().map(|set| match keeps {
                true => over_of(set, &known.maker, &over),
                false => set.count,
            });
            let without = without.fold(known.unplaced, u32::saturating_add);
            let fewest = of_makers.entry(&known.maker).or_insert(without);
            *fewest = without.min(*fewest);
        }
        of_makers.into_values().fold(0, u32::saturating_add)
    }

    /// Of each set those that ended well and that no minimum counts.
    fn over(&self, workload: WorkloadIdx) -> BTreeMap<Part<'_>, u32> {
        let mut over: BTreeMap<Part<'_>, u32> = BTreeMap::new();
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let ended = |pod: &&Pod| pod.phase == PodPhase::Succeeded && pod.gang.by_itself;
        for part in members.filter(ended).filter_map(Pod::part) {
            *over.entry(part).or_default() += 1;
        }
        over
    }

    /// What members say that is to come, as far as it is not there; in order of who makes it, by
    /// name.
    fn due(&self, workload: WorkloadIdx, real: &[PodIdx], changes: &Changes) -> Vec<Due> {
        let mut said: BTreeMap<Part<'_>, (&Arc<ToCome>, usize, PodIdx)> = BTreeMap::new();
        let mut last: Option<&Arc<ToCome>> = None;
        for &pod in real {
            let Some(known) = self.pods[pod].gang.to_come.as_ref() else { continue };
            let again = last.is_some_and(|last| Arc::ptr_eq(last, known));
            if again || known.sets.is_empty() || !self.pods[pod].tells() {
                continue;
            }
            last = Some(known);
            for (at, set) in known.sets.iter().enumerate() {
                said.entry((&known.maker, &set.name)).or_insert((known, at, pod));
            }
        }
        said.retain(|(maker, _), _| self.still_makes(maker));
        if said.is_empty() || self.goes(workload, real, changes) {
            return Vec::new();
        }
        let mut seen: BTreeMap<Part<'_>, Seen> = BTreeMap::new();
        for &pod in real {
            let entry = &self.pods[pod];
            let Some(part) = entry.part().filter(|part| said.contains_key(part)) else { continue };
            let of_set = seen.entry(part).or_default();
            of_set.ended += u32::from(entry.phase == PodPhase::Succeeded);
            of_set.there += u32::from(self.is_there(pod, changes));
        }
        let mut left = self.left_in_group(workload, real, changes).unwrap_or(usize::MAX);
        let due = |(part, (said, at, by)): (Part<'_>, (&Arc<ToCome>, usize, PodIdx))| {
            let set = &said.sets[at];
            let Seen { there, ended } = seen.get(&part).copied().unwrap_or_default();
            let ended = ended.max(set.late.unwrap_or(0));
            let lacks = set.count.saturating_sub(ended).saturating_sub(there) as usize;
            let lacks = lacks.min(left);
            left -= lacks;
            Due { said: said.clone(), at, by, lacks }
        };
        said.into_iter().map(due).collect()
    }

    /// Whether an owner still makes pods, as far as anything is known of it.
    fn still_makes(&self, maker: &Text) -> bool {
        let owner = self.owners.get(maker);
        owner.is_none_or(|owner| owner.finished.is_none() && !owner.suspended)
    }

    /// Whether some of these have a node.
    fn stand(&self, real: &[PodIdx], changes: &Changes) -> bool {
        let stands =
            |pod: &PodIdx| self.pods[*pod].place.is_some() || changes.to_settle.contains_key(pod);
        real.iter().any(stands)
    }

    /// Whether members that have places are being stopped. Once the last of them has gone the gang
    /// begins anew.
    fn goes(&self, workload: WorkloadIdx, real: &[PodIdx], changes: &Changes) -> bool {
        self.stand(real, changes) && self.is_being_stopped(workload, real)
    }

    /// Adds places for pods of a set, as far as those that there are do not suffice: each for the
    /// pod of a number that is not there, so that slices, which are cut by number, stay whole.
    fn add_to_come(
        &mut self,
        workload: WorkloadIdx,
        (due, there): (&Due, &BTreeSet<u32>),
        real: &[PodIdx],
        own: &mut Vec<PodIdx>,
    ) {
        let set = &due.said.sets[due.at];
        let maker = self.maker_of(due.by, real);
        self.renew_places(own, &maker);
        for pod in own.iter() {
            let gang = &mut self.pods[*pod].gang;
            if gang.roles != set.roles {
                Arc::make_mut(gang).roles.clone_from(&set.roles);
            }
        }
        if own.len() >= due.lacks {
            return;
        }
        let gang = Arc::new(self.gang_to_come(workload, due, set));
        let shape = self.room.intern_shape(&set.shape);
        let maker_name = due.said.name.as_ref().unwrap_or(&gang.name);
        let taken: BTreeSet<Text> = own.iter().map(|pod| self.pods[*pod].name.clone()).collect();
        let mut number = set.before;
        while own.len() < due.lacks {
            let name = Text::from(format!("{maker_name}-{}-{number}", set.name));
            let (rank, is_there) = (Rank::Number(number), there.contains(&number));
            number += 1;
            if is_there || taken.contains(&name) {
                continue;
            }
            let uid = format!("{}/{name}", due.said.maker).into();
            let place = (workload, &maker);
            own.push(self.place_made(place, (uid, name), (shape, rank), gang.clone()));
        }
        own.sort_by_key(|pod| self.pods[*pod].number());
    }

    /// What stands on a place for a pod that is to come.
    fn gang_to_come(&self, workload: WorkloadIdx, due: &Due, set: &OwnerPodSet) -> GangRef {
        let (maker, own) = (due.said.maker.clone(), Some(set.name.clone()));
        GangRef {
            key: self.workloads[workload].id.key.clone(),
            total: None,
            roles: set.roles.clone(),
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: Some(Arc::new(ToCome { maker, own, ..ToCome::default() })),
            ..GangRef::clone(&self.pods[due.by].gang)
        }
    }

    /// Who makes pods like a member, after all that are there.
    fn maker_of(&self, by: PodIdx, real: &[PodIdx]) -> Maker {
        let first = &self.pods[by];
        let last = real.iter().map(|pod| self.pods[*pod].created).max();
        Maker {
            namespace: first.namespace.clone(),
            created: last.unwrap_or(first.created).plus(Span(1)),
            priority: first.priority,
            never_preempts: first.never_preempts,
            stays: first.stays,
            wishes: first.wishes.clone(),
        }
    }
}

/// Of a set, how many ended well and are counted by no minimum.
fn over_of(set: &OwnerPodSet, maker: &Text, over: &BTreeMap<Part<'_>, u32>) -> u32 {
    let seen = over.get(&(maker, &set.name)).copied().unwrap_or(0);
    set.count.min(seen.max(set.late.unwrap_or(0)))
}
