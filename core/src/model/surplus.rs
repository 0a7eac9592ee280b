//! Pods of a group beyond the number that it says it has.
//!
//! Problem: one of Kueue's groups says how many pods it has in all. A script that ran twice, or a
//! replacement for what has not failed yet, makes more of them; all would run, and be charged.
//!
//! Wanted: of a group never more hold places, or have ended well, than it says. Whoever is too
//! many waits and says so: who has a place stays, of the others the first made go first, and one
//! that was made for another that failed takes its part. While others of the group run, that is
//! one that asks the same: a worker too many does not take the part of a launcher. Who is too many
//! says nothing of its group: not its priority, its age, its queue or its pod sets. Nobody is
//! deleted: whose pods they are decides that. A place that is kept for one who is made once others
//! run is one of the number (`to_come`).
//!
//! A name may be used again once a group is done: runs are told apart by the number, so many pods
//! that ended well being one of them, and by the time. Who was made before a run was over was too
//! many in that one, and does not begin another. Of a run whose other pods are deleted the last may
//! still be shown, such as a launcher: it is none of a later one that is whole without it.
//!
//! In gangs that say no number runs are told apart by times alone. One that is made in place of
//! another that failed, after all others of its gang ended well, looks as the first pod of another
//! run does, which must not start by itself: it waits, unless the Job that made it has members that
//! ended. Those are done, since a Job does its work once, however often it is stopped. Of those of
//! its pods that ended well it makes others in place of the first: the last alone are done.
//!
//! Restart: from facts alone. Where nothing says when a pod ended it did so as soon as it began.
//!
//! Cost: groups that say no number nothing but for Jobs in them; others a look at each member, and
//! putting those in order that ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::RequestIdx;

use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, GangSource, Held, OwnerEnd, PodPhase, Text};
use crate::model::pod::{Binding, Pod};
use crate::model::state::ClusterState;
use crate::time::{Span, Time};

/// Nodes say when pods ended, the API when they were made, both in whole seconds: so much earlier
/// the former may have been by the clock of the latter.
const CLOCKS: Span = Span::seconds(-1);

/// The present run of a group that says how many pods it has.
struct Run<'a> {
    /// When the one before it was over, if there was one.
    since: Option<Time>,
    /// Those of it that ended well.
    done: Vec<&'a Pod>,
}

impl Run<'_> {
    /// Whether a pod was not there yet when the run before was over.
    fn has(&self, pod: &Pod) -> bool {
        self.since.is_none_or(|since| pod.created >= since)
    }
}

impl ClusterState {
    /// Members of this run of a gang that ended well: they need no place any more. Those that began
    /// before any of who goes on was made belong to an earlier run of the same name, since a gang
    /// begins whole; unless they were still there when one of those began, as where that was made
    /// in place of another, or when one of this run did, or their Job has members that go on. In a
    /// group that says how many it has it is those of runs that are whole.
    pub(super) fn ended_well(&self, workload: WorkloadIdx) -> Vec<&Pod> {
        let members = &self.workloads[workload].members;
        if let Some(size) = self.group_size(workload) {
            return self.run_of(members, size).done;
        }
        let mut ended = self.ended_for_good(members);
        if ended.is_empty() {
            return ended;
        }
        let members = members.iter().map(|pod| &self.pods[*pod]);
        let active = members.filter(|pod| pod.active());
        let Some(first) = active.clone().map(|pod| pod.created).min() else { return ended };
        let jobs: BTreeSet<&Text> = active.clone().filter_map(Pod::of_job).collect();
        let going = active.filter(|pod| has_begun(pod));
        let goes_on = |pod: &Pod| pod.of_job().is_some_and(|job| jobs.contains(job));
        let own = ended.iter().copied().filter(|pod| begun_at(pod) >= first || goes_on(pod));
        let Some(mut since) = going.chain(own).map(begun_at).min() else { return Vec::new() };
        let mut last_first = ended.clone();
        last_first.sort_by_key(|pod| Reverse(over(pod)));
        for pod in last_first {
            if over(pod) > since {
                since = since.min(begun_at(pod));
            }
        }
        ended.retain(|pod| over(pod) > since);
        ended
    }

    /// Those of them whom the minimum counts, by what members say that go on: not who comes last of
    /// all, nor who was of a step that they come after.
    pub(super) fn ended_of_least(&self, workload: WorkloadIdx) -> Vec<&Pod> {
        let mut ended = self.ended_well(workload);
        ended.retain(|pod| !pod.gang.by_itself);
        ended
    }

    /// How many those are.
    pub(super) fn done_of_least(&self, workload: WorkloadIdx) -> u32 {
        self.ended_of_least(workload).len() as u32
    }

    /// Members that ended well, but for those in whose place their Job makes others: the first of
    /// its pods, of whom some may be deleted by now.
    fn ended_for_good(&self, members: &[PodIdx]) -> Vec<&Pod> {
        let members = members.iter().map(|pod| &self.pods[*pod]);
        let ended = members.filter(|pod| pod.phase == PodPhase::Succeeded);
        let mut ended: Vec<&Pod> = ended.collect();
        if ended.is_empty() {
            return ended;
        }
        let mut seen: BTreeMap<&Text, u32> = BTreeMap::new();
        for job in ended.iter().copied().filter_map(Pod::of_job) {
            *seen.entry(job).or_default() += 1;
        }
        let mut replaced: BTreeMap<&Text, u32> = BTreeMap::new();
        for (uid, seen) in seen {
            let Some(job) = self.owners.get(uid) else { continue };
            let deleted = job.ended.saturating_sub(seen);
            replaced.insert(uid, job.replaces.saturating_sub(deleted));
        }
        replaced.retain(|_, left| *left > 0);
        if replaced.is_empty() {
            return ended;
        }
        ended.sort_by(|a, b| over(a).cmp(&over(b)).then_with(|| a.made(b)));
        ended.retain(|pod| match pod.of_job().and_then(|job| replaced.get_mut(job)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        ended
    }

    /// How many pods a group says that it has, by whichever of them says most.
    fn group_size(&self, workload: WorkloadIdx) -> Option<u32> {
        self.size_by(workload, &self.workloads[workload].members)
    }

    /// The same where these are its members.
    fn size_by(&self, workload: WorkloadIdx, members: &[PodIdx]) -> Option<u32> {
        let key = &self.workloads[workload].id.key;
        if !matches!(key, GangKey::Group(GangSource::KueueGroup, _)) {
            return None;
        }
        let totals = members.iter().filter_map(|pod| self.pods[*pod].gang.total);
        totals.max().map(|total| total.max(1))
    }

    /// For how many pods that are still to be made a group that says its number has room beside
    /// those that are there: before it begins beside all of them, so that none of these waits for
    /// one that is made once it runs; later beside those alone that have places. Whoever waits then
    /// and has none of these to come into is there for one that failed, or too many.
    pub(super) fn left_in_group(
        &self,
        workload: WorkloadIdx,
        members: &[PodIdx],
        changes: &Changes,
    ) -> Option<usize> {
        let size = self.size_by(workload, members)?;
        let run = self.run_of(members, size);
        let here = members.iter().copied().filter(|pod| {
            let pod = &self.pods[*pod];
            pod.counts() && !pod.terminating && run.has(pod)
        });
        let placed = |pod: &PodIdx| stands(&self.pods[*pod]) || changes.to_settle.contains_key(pod);
        let (stand, wait): (Vec<PodIdx>, Vec<PodIdx>) = here.partition(placed);
        let there = if stand.is_empty() { wait.len() } else { stand.len() };
        Some((size as usize).saturating_sub(run.done.len()).saturating_sub(there))
    }

    /// Members that must run together where members say how many all are. Of a group of Kueue's
    /// they say apart from that how many it waits for; but none does that is held for pods of
    /// another scheduler, though it has all without them.
    pub(super) fn least_by_total(&self, workload: WorkloadIdx) -> Option<u32> {
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let mut gangs = members.filter(|pod| pod.counts()).map(|pod| &pod.gang);
        let total = gangs.clone().filter_map(|gang| gang.total).max()?;
        // Those of others will never be members here: it is not they who are waited for.
        if self.lacks_strangers(workload) {
            return None;
        }
        if self.group_size(workload).is_none() {
            return Some(total);
        }
        let uncounted = self.done(workload) - self.done_of_least(workload);
        let held = gangs.any(|gang| gang.held.is_some());
        held.then(|| total.saturating_sub(uncounted))
    }

    /// The present run of a group of so many. That of which all ended well is the present one while
    /// somebody has a place who was there before it was over, or until others are made after that.
    fn run_of(&self, members: &[PodIdx], size: u32) -> Run<'_> {
        let (all, size) = (members, size as usize);
        let members = || all.iter().map(|pod| &self.pods[*pod]);
        let mut done = self.ended_in_run(all, size);
        if done.len() < size {
            return Run { since: None, done };
        }
        done.sort_by(|a, b| over(a).cmp(&over(b)).then_with(|| a.made(b)));
        let end = |ended: usize| ended.checked_sub(1).map(|last| over(done[last]));
        let whole = done.len() - done.len() % size;
        let since = end(whole);
        let later = |pod: &Pod| since.is_none_or(|since| pod.created >= since);
        let stays = members().any(|pod| stands(pod) && !later(pod));
        let anew = members().any(|pod| pod.counts() && later(pod));
        let (before, since) = match whole == done.len() && (stays || !anew) {
            true => (whole - size, end(whole - size)),
            false => (whole, since),
        };
        Run { since, done: done.split_off(before) }
    }

    /// Members that ended well, without those of a run of which not all are shown any more: others
    /// made all who go on, later, and these are a whole group with those that they wait for.
    fn ended_in_run(&self, members: &[PodIdx], size: usize) -> Vec<&Pod> {
        let mut ended = self.ended_for_good(members);
        if !ended.iter().copied().any(|pod| maker(pod).is_some()) {
            return ended;
        }
        let real = || members.iter().map(|pod| &self.pods[*pod]).filter(|pod| !pod.kept());
        let going = || real().filter(|pod| pod.counts());
        let Some(first) = going().map(|pod| pod.created).min() else { return ended };
        let makers: BTreeSet<&Text> = going().filter_map(maker).collect();
        let earlier = |pod: &Pod| {
            over(pod) <= first && maker(pod).is_some_and(|maker| !makers.contains(maker))
        };
        let mut to_come: BTreeMap<(&Text, &Text), u32> = BTreeMap::new();
        for known in going().filter_map(|pod| pod.gang.to_come.as_deref()) {
            let sets = known.sets.iter().map(|set| ((&known.maker, &set.name), set.count));
            to_come.extend(sets);
        }
        let own = ended.iter().copied().filter(|pod| !earlier(pod));
        let there: Vec<&Pod> = going().filter(|pod| !pod.terminating).chain(own).collect();
        for part in there.iter().copied().filter_map(Pod::part) {
            if let Some(left) = to_come.get_mut(&part) {
                *left = left.saturating_sub(1);
            }
        }
        let to_come = to_come.into_values().fold(0, u32::saturating_add) as usize;
        // Who is made anew in the same run is fewer, for what ended of it was a part.
        if there.len().saturating_add(to_come) >= size {
            ended.retain(|pod| !earlier(pod));
        }
        ended
    }

    /// Members that wait though their group has all that it says it has, or who were too many in
    /// its run before: in their order.
    pub(crate) fn surplus(&self, workload: WorkloadIdx) -> Vec<PodIdx> {
        let Some(size) = self.group_size(workload) else { return Vec::new() };
        let members = &self.workloads[workload].members;
        let run = self.run_of(members, size);
        let placed = members.iter().filter(|pod| stands(&self.pods[**pod])).count();
        let left = (size as usize).saturating_sub(run.done.len()).saturating_sub(placed);
        let waiting = members.iter().copied().filter(|pod| waits(&self.pods[*pod]));
        // No more places are kept than there is room for.
        let (to_come, mut waiting): (Vec<PodIdx>, Vec<PodIdx>) =
            waiting.partition(|pod| self.pods[*pod].kept());
        let left = left.saturating_sub(to_come.len());
        waiting.sort_by(|a, b| self.pods[*a].made(&self.pods[*b]));
        let (mut waiting, mut surplus): (Vec<PodIdx>, Vec<PodIdx>) =
            waiting.into_iter().partition(|pod| run.has(&self.pods[*pod]));
        if waiting.len() > left {
            self.own_queue_first(workload, &mut waiting);
        }
        let open = match placed {
            0 => BTreeMap::new(),
            _ => self.parts_of_failed(workload, &run),
        };
        surplus.extend(self.without_part(waiting, open, left));
        surplus.sort_by(|a, b| self.pods[*a].made(&self.pods[*b]));
        surplus
    }

    /// Puts those of some members that wait first who name the queue of their group: the one that
    /// most name of those that have places, where any have, else of these; of as many the first.
    fn own_queue_first(&self, workload: WorkloadIdx, waiting: &mut [PodIdx]) {
        let named = |pod: &PodIdx| self.pods[*pod].wishes.queue.as_ref();
        let members = self.workloads[workload].members.iter().copied();
        let placed: Vec<PodIdx> = members.filter(|pod| stands(&self.pods[*pod])).collect();
        let of = if placed.is_empty() { &*waiting } else { &placed[..] };
        let mut names: BTreeMap<Option<&Text>, (usize, Reverse<usize>)> = BTreeMap::new();
        for (at, pod) in of.iter().enumerate() {
            names.entry(named(pod)).or_insert((0, Reverse(at))).0 += 1;
        }
        let own = names.into_iter().max_by_key(|(_, most)| *most).map(|(name, _)| name);
        waiting.sort_by_key(|pod| Some(named(pod)) != own);
    }

    /// By what they ask, of how many that failed nobody who began later took the part; with those
    /// of whom all are there.
    fn parts_of_failed(&self, workload: WorkloadIdx, run: &Run<'_>) -> BTreeMap<RequestIdx, usize> {
        let mut parts: BTreeMap<RequestIdx, (Vec<Time>, Vec<Time>)> = BTreeMap::new();
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let began = members.filter(|pod| run.has(pod) && (stands(pod) || !pod.active()));
        for pod in began {
            let (begun, failed) = parts.entry(self.asks(pod)).or_default();
            begun.push(begun_at(pod));
            failed.extend((pod.phase == PodPhase::Failed).then(|| over(pod)));
        }
        let open = |(mut begun, mut failed): (Vec<Time>, Vec<Time>)| {
            begun.sort_unstable();
            failed.sort_unstable();
            let mut replaced = 0;
            for at in begun {
                replaced += usize::from(failed.get(replaced).is_some_and(|end| *end <= at));
            }
            failed.len() - replaced
        };
        parts.into_iter().map(|(asks, times)| (asks, open(times))).collect()
    }

    /// Who of these that wait has no part in what is `left` of their group. First go those who ask
    /// what somebody asked that failed. What is then left of such parts is for none who asks what
    /// others of the group ask that are all there.
    fn without_part(
        &self,
        waiting: Vec<PodIdx>,
        mut open: BTreeMap<RequestIdx, usize>,
        mut left: usize,
    ) -> Vec<PodIdx> {
        let mut others = Vec::new();
        for pod in waiting {
            match open.get_mut(&self.asks(&self.pods[pod])).filter(|parts| **parts > 0) {
                Some(parts) if left > 0 => (*parts, left) = (*parts - 1, left - 1),
                _ => others.push(pod),
            }
        }
        let mut kept = open.values().sum::<usize>().min(left);
        let mut free = left - kept;
        others.retain(|pod| {
            let of_others = open.contains_key(&self.asks(&self.pods[*pod]));
            match () {
                () if free > 0 => free -= 1,
                // Whoever mends what failed may make it ask more.
                () if kept > 0 && !of_others => kept -= 1,
                () => return true,
            }
            false
        });
        others
    }

    fn asks(&self, pod: &Pod) -> RequestIdx {
        self.room.shape(pod.shape).request
    }

    /// Members that say what their workload is: those that count and are not too many. Where all
    /// are, they do. A place that is kept for one with a gate does so in its stead.
    pub(super) fn heard(&self, workload: WorkloadIdx) -> impl Iterator<Item = &Pod> {
        let members = &self.workloads[workload].members;
        let mut silent: BTreeSet<PodIdx> = self.surplus(workload).into_iter().collect();
        let counting = || members.iter().filter(|pod| self.pods[**pod].counts_itself()).count();
        if !silent.is_empty() && silent.len() == counting() {
            silent.clear();
        }
        let heard = members.iter().filter(move |pod| !silent.contains(*pod));
        heard.map(|pod| &self.pods[*pod]).filter(|pod| pod.counts_itself())
    }

    /// How many members there are who could run, those apart that are too many, and how many of
    /// them have gates, of whom those count as places that have one kept.
    pub(crate) fn there(&self, workload: WorkloadIdx) -> (u32, u32) {
        self.there_of(workload, Pod::counts_itself)
    }

    /// The same without places that are kept for pods which are still to be made.
    pub(super) fn made(&self, workload: WorkloadIdx) -> (u32, u32) {
        self.there_of(workload, |pod| pod.counts() && !pod.kept())
    }

    fn there_of(&self, workload: WorkloadIdx, counts: impl Fn(&Pod) -> bool) -> (u32, u32) {
        let surplus: BTreeSet<PodIdx> = self.surplus(workload).into_iter().collect();
        let members = self.workloads[workload].members.iter();
        let members = members.filter(|pod| !surplus.contains(*pod)).map(|pod| &self.pods[*pod]);
        members
            .filter(|pod| counts(pod))
            .fold((0, 0), |(exist, gated), pod| (exist + 1, gated + u32::from(pod.gated)))
    }

    /// How many members of this run ended and are followed by nobody, as far as that is known. Who
    /// failed counts where no owner makes others, as far as it is still shown.
    pub(crate) fn ended_so_far(&self, workload: WorkloadIdx) -> u32 {
        if let Some(owner) = self.owner_of(workload) {
            return self.ended_of(workload, owner).0.saturating_sub(owner.replaces);
        }
        let members = self.workloads[workload].members.iter();
        let failed = members.filter(|pod| self.pods[**pod].phase == PodPhase::Failed).count();
        self.done(workload).saturating_add(failed as u32)
    }

    /// Members of finished work, the first made first: who ended well in its last run, or all that
    /// ended where it failed.
    pub(crate) fn ended_last(&self, workload: WorkloadIdx) -> Vec<&Pod> {
        let mut ended = match self.failed(workload) {
            false => self.ended_well(workload),
            true => {
                let members = self.workloads[workload].members.iter();
                members.map(|pod| &self.pods[*pod]).filter(|pod| pod.phase.terminal()).collect()
            }
        };
        ended.sort_by(|a, b| a.made(b));
        ended
    }

    /// Whether a member ended badly, as far as it is still shown, or none goes on, and fewer ended
    /// well all the same than the group says that it has, or must run together. A name that no
    /// object stands behind may be used again: who ended well in another run makes up for nobody.
    /// What a Job lost it makes again: that is made good once enough ended well, or all of it did.
    pub(crate) fn failed(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let members = || entry.members.iter().map(|pod| &self.pods[*pod]);
        let over = !members().any(Pod::counts);
        let least = || members().filter_map(|pod| pod.gang.min_member).max();
        let size = self.group_size(workload).or_else(least);
        let lacks = size.map(|size| self.done(workload) < size);
        let made_good = |pod: &Pod| {
            let job = pod.of_job().and_then(|job| self.owners.get(job));
            job.is_some_and(|job| lacks == Some(false) || job.finished == Some(OwnerEnd::Succeeded))
        };
        let failed = members().any(|pod| pod.phase == PodPhase::Failed && !made_good(pod));
        match entry.source {
            GangSource::CapstanGang => failed || over && lacks == Some(true),
            _ => (failed || over) && lacks.unwrap_or(failed),
        }
    }

    /// Whether a group waits for pods of its that name another scheduler: not where it has as many
    /// without them as it says.
    pub(super) fn lacks_strangers(&self, workload: WorkloadIdx) -> bool {
        let held = |pod: &PodIdx| {
            let held = &self.pods[*pod].gang.held;
            matches!(held, Some(Held::ForeignMembers(_)))
        };
        let lacks = |size: u32| self.there(workload).0 + self.done(workload) < size;
        self.workloads[workload].members.iter().any(held)
            && self.group_size(workload).is_none_or(lacks)
    }

    /// Why those members wait that are too many, if their group runs.
    pub(super) fn surplus_told(&self, workload: WorkloadIdx) -> Option<Reason> {
        let waiting = self.surplus(workload).len() as u32;
        let why = || Some(Box::new(self.why_surplus(workload, waiting)));
        (waiting > 0).then(|| Reason::Extras { waiting, then: why() })
    }

    /// Why none of a group waits for more members: all that exist are too many.
    pub(super) fn all_surplus(&self, workload: WorkloadIdx) -> Option<Reason> {
        let surplus = self.surplus(workload).len() as u32;
        let none = surplus > 0 && self.there(workload).0 == 0;
        none.then(|| self.why_surplus(workload, surplus))
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

/// Who makes a pod and others of its gang at other times.
fn maker(pod: &Pod) -> Option<&Text> {
    pod.gang.to_come.as_deref().map(|known| &known.maker)
}

/// Whether a pod has a node, or is on its way to one.
fn stands(pod: &Pod) -> bool {
    pod.place.is_some() || pod.binding == Binding::Bound
}

/// Whether a pod waits for a node, or for what keeps it from one.
fn waits(pod: &Pod) -> bool {
    pod.counts_itself() && !stands(pod)
}

/// Whether a pod is bound, or being so.
fn has_begun(pod: &Pod) -> bool {
    matches!(pod.binding, Binding::InFlight(_) | Binding::Bound)
}

/// When a pod began, as far as is known.
fn begun_at(pod: &Pod) -> Time {
    pod.bound_at.map_or(pod.created, |at| at.max(pod.created))
}

/// When a pod that has ended did so, as far as is known and certain: after it began.
fn over(pod: &Pod) -> Time {
    let least = begun_at(pod).plus(Span(1));
    pod.ended_at().map_or(least, |at| at.plus(CLOCKS).max(least))
}
