//! Workloads from pods and owners: members, pod sets, minimum, queue.
//!
//! Problem: pods arrive one by one, in any order, before or after their owner and their queue;
//! the engine must see whole gangs. Every batch of facts marks the workloads that it touches, and
//! each is derived here once, from facts alone. What only the engine knows (binds in flight,
//! claims, backoff) is kept; what a new engine must know is on pods and owners.
//! What state it is in is found out by [`super::lifecycle`].

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    EvictionNote, GangKey, GangRef, GangSource, OwnerFacts, OwnerPodSet, Rank, Roles, Stays, Text,
    Wishes,
};
use crate::model::late::{Maker, least_with};
use crate::model::lookup::Lookup;
use crate::model::pod::{Pod, Takeover, by_number};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, PodSet, QueueRef, Requeue, Run, Workload, WorkloadId};
use crate::plan::State;
use crate::time::Time;

/// Name of the only pod set of a workload whose owner names none.
static MAIN: LazyLock<Text> = LazyLock::new(|| "main".into());
/// What is not known yet.
static NONE: LazyLock<Text> = LazyLock::new(|| "".into());
/// What nobody is known to have asked yet.
static NOTHING: LazyLock<Arc<Wishes>> = LazyLock::new(Arc::default);

/// What members say of their workload.
#[derive(Default)]
struct Heard<'a> {
    /// How many they are.
    count: u32,
    /// Who was made first.
    first: Option<&'a Pod>,
    /// When that was.
    created: Option<Time>,
    /// Some may not preempt.
    never_preempts: bool,
    /// Why nobody stops them for others, if that is so of all: as the first says.
    stays: Option<Stays>,
}

impl ClusterState {
    /// Makes an empty workload; it is derived with the rest of its batch.
    pub(super) fn new_workload(&mut self, id: WorkloadId) -> WorkloadIdx {
        let empty = NONE.clone();
        // The next run of an owner is the same work.
        let class = self.run_before(&id).and_then(|run| self.workloads[run].class.clone());
        let index = self.workloads.insert(Workload {
            id: id.clone(),
            name: empty.clone(),
            full_name: empty.clone(),
            source: GangSource::Pod,
            owner: None,
            members: Vec::new(),
            sets: Vec::new(),
            min_member: 0,
            began: None,
            priority: 0,
            lowest_priority: 0,
            never_preempts: false,
            stays: None,
            created: Time::MIN,
            uid: empty,
            wishes: NOTHING.clone(),
            class,
            queue: QueueRef::Unqueued,
            cluster_queue: None,
            state: State::Gathering,
            assignment: None,
            requeue: Requeue::default(),
            reason: None,
            found_running: false,
            evicting: None,
            stop_asked: false,
            stop_refused: None,
            stop_from: None,
            owner_effect: None,
            kept_until: None,
            late: false,
            gates: false,
            uncounted: 0,
            between: false,
            dirty: true,
            unordered: true,
            started: false,
            up: false,
            came_up: false,
            told: None,
            news: false,
            run: Run::default(),
        });
        self.workload_by_id.insert(id, index);
        index
    }

    /// The owner behind a workload, if it is the owner's current run.
    pub fn owner_of(&self, workload: WorkloadIdx) -> Option<&Arc<OwnerFacts>> {
        let GangKey::Owner(uid, incarnation) = &self.workloads[workload].id.key else {
            return None;
        };
        self.owners.get(uid).filter(|owner| owner.incarnation == *incarnation)
    }

    /// What is marked on the owner of a workload that we stopped. The patch that marks an owner
    /// counts its runs too: the mark is of the run before the one that it waits for.
    pub fn owner_mark(&self, workload: WorkloadIdx) -> Option<&EvictionNote> {
        let GangKey::Owner(uid, run) = &self.workloads[workload].id.key else { return None };
        let owner = self.owners.get(uid)?;
        let of_this = owner.incarnation.saturating_sub(1) == *run;
        owner.eviction.as_ref().filter(|_| of_this)
    }

    /// Derives every workload of a batch, then accounts its pods on nodes.
    pub fn derive(&mut self, changes: &mut Changes) {
        self.room.devices.refresh();
        if std::mem::take(&mut changes.devices) {
            self.rebill_all(changes);
        }
        if changes.rebuild || self.room.levels.is_empty() {
            self.room.set_levels(self.facts.levels(self.policy.levels.as_deref()));
        }
        let rebuilt = std::mem::take(&mut changes.rebuild);
        if rebuilt {
            self.rebuild_quota(std::mem::take(&mut changes.recharge));
            changes.dirty.extend(self.workloads.iter().map(|(index, _)| index));
        }
        let mut dirty: Vec<WorkloadIdx> = changes.dirty.iter().copied().collect();
        dirty.retain(|workload| self.workloads.get(*workload).is_some());
        let mut new = Vec::new();
        dirty.retain(|&workload| {
            self.derive_members(workload, changes);
            if self.drop_if_empty(workload, changes) {
                return false;
            }
            self.forget_podless(workload);
            new.extend(self.workloads[workload].name.is_empty().then_some(workload));
            match self.derive_identity(workload) || rebuilt {
                true => self.derive_queue(workload, changes),
                false => self.derive_same_queue(workload, changes),
            }
            true
        });
        self.derive_names(&dirty);
        for workload in new {
            self.turns.arrived(&self.workloads[workload].full_name);
        }
        self.hold_inactive(&dirty, changes);
        for &workload in &dirty {
            self.adopt_assignment(workload, changes);
        }
        for (pod, node) in std::mem::take(&mut changes.to_settle) {
            if self.pods.get(pod).is_some_and(|pod| pod.place.is_none()) {
                self.settle(pod, node);
            }
        }
        self.room.volumes.restore_used(std::mem::take(&mut changes.chosen));
        for &workload in &dirty {
            self.derive_began(workload);
            self.derive_roles(workload);
            let was = self.workloads[workload].state;
            self.derive_state(workload);
            self.note_began(workload);
            self.note_end(workload, was);
            self.note_claims_on(workload, &mut changes.claims);
        }
        self.count_claims_anew(std::mem::take(&mut changes.claims));
        self.keep_vacancies(changes);
        self.room.devices.forget_taken_off();
        self.room.refresh_tree();
    }

    /// Builds queues and tree from their objects, and charges usage again; `recharge`: what
    /// counts is taken anew too.
    fn rebuild_quota(&mut self, recharge: bool) {
        self.classes.clear();
        self.found_queues = Lookup::default();
        // All workloads are derived again: each keeps then what it may by the new rules.
        self.vacancies.clear();
        self.quota.rebuild(&self.facts, &self.policy, &mut self.room.resources);
        if recharge {
            self.recharge();
        }
        let placed = self.pods.iter().filter(|(_, pod)| pod.place.is_some());
        let placed: Vec<PodIdx> = placed.map(|(index, _)| index).collect();
        for pod in placed {
            if let Some(node) = self.pods[pod].place {
                self.bill(pod, node);
            }
            self.each_charge(pod, |quota, queue, fr, amount| quota.change(queue, fr, amount));
        }
        for (queue, fr, amount) in self.claims.quota().collect::<Vec<_>>() {
            self.quota.change(queue, fr, amount);
        }
    }

    /// Assignments charge what counts now. Claims count what theirs charge when they are next
    /// counted, which is before anything is decided.
    fn recharge(&mut self) {
        let workloads: Vec<WorkloadIdx> = self.workloads.iter().map(|(index, _)| index).collect();
        for workload in workloads {
            if let Some(held) = self.workloads[workload].assignment.clone() {
                self.workloads[workload].assignment = Some(self.charged_anew(&held));
            }
            if let Some(claim) = self.claims.get(workload) {
                let promised = claim.assignment.clone();
                let promised = self.charged_anew(&promised);
                self.claims.promise(workload, promised);
            }
        }
    }

    /// The same flavors with what counts now; what did not count before has that of its group.
    fn charged_anew(&mut self, assignment: &Assignment) -> Arc<Assignment> {
        let mut anew = Assignment::clone(assignment);
        for set in &mut anew.sets {
            let mut flavors = std::mem::take(&mut set.flavors);
            if let Some(queue) = anew.queue {
                self.share_flavors(queue, set.shape, &mut flavors);
            }
            *set = self.set_assignment_of(set.shape, flavors);
        }
        Arc::new(anew)
    }

    /// Members in order; places kept for an owner's pods are made, taken over, or dropped.
    fn derive_members(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        let members = std::mem::take(&mut self.workloads[workload].members);
        self.workloads[workload].dirty = false;
        let is_kept = |pod: &PodIdx| self.pods[*pod].kept();
        let (mut kept, mut real): (Vec<PodIdx>, Vec<PodIdx>) = match members.iter().any(is_kept) {
            true => members.into_iter().partition(is_kept),
            false => (Vec::new(), members),
        };
        kept.sort_by(|a, b| by_number(&self.pods[*a].name, &self.pods[*b].name));
        // Each bind of a large gang comes here: who only got a node stands where it did.
        if std::mem::take(&mut self.workloads[workload].unordered) {
            real.sort_by(|a, b| self.pods[*a].order(&self.pods[*b]));
        }
        self.keep_between(workload, &real, &mut kept, changes);
        if !kept.is_empty() {
            self.take_over(workload, &mut kept, &real, changes);
        }
        let owner = self.owner_of(workload).cloned();
        let owner = owner.filter(|owner| owner.ours && owner.finished.is_none());
        if owner.as_ref().is_some_and(|owner| self.stopped_by_somebody(workload, owner)) {
            self.drop_all_but(0, &mut kept, changes);
        }
        if let Some(owner) = &owner {
            self.renew_places(&kept, &Maker::of(owner));
        }
        let anew = owner.as_ref().and_then(|owner| self.comes_up(owner));
        match owner {
            Some(owner) if self.workloads[workload].kept_until.is_some() && !kept.is_empty() => {
                let missing = self.not_made_yet(&owner, &real, changes);
                self.drop_made((&owner, missing), &real, &mut kept, changes);
            }
            Some(owner) if owner.suspended && real.is_empty() => {
                self.workloads[workload].kept_until = None;
                // Somebody suspended it whose pods had come: they come anew.
                self.came.remove(&owner.uid);
                self.keep_places(workload, &owner, owner.pods() as usize, &mut kept);
            }
            Some(owner) if anew.is_some() => {
                self.workloads[workload].kept_until = anew;
                let missing = self.not_made_yet(&owner, &real, changes);
                self.keep_places(workload, &owner, missing, &mut kept);
            }
            Some(owner) => self.keep_late(workload, &owner, &real, &mut kept, changes),
            None => self.keep_to_come(workload, &real, &mut kept, changes),
        }
        self.note_that_pods_came(workload, &real);
        if kept.is_empty() {
            let entry = &mut self.workloads[workload];
            (entry.kept_until, entry.between) = (None, false);
        }
        self.note_late(workload, &kept);
        self.note_gated(&real, &kept);
        real.extend(kept);
        self.workloads[workload].members = real;
    }

    /// Pods that an owner still has to make: those beyond the ones that exist and do not end. What
    /// has a gate has no place, and the one that is kept for it stays.
    pub(super) fn not_made_yet(
        &self,
        owner: &OwnerFacts,
        real: &[PodIdx],
        changes: &Changes,
    ) -> usize {
        let made = real.iter().filter(|pod| self.is_made(**pod, changes));
        (owner.pods() as usize).saturating_sub(made.count())
    }

    /// Whether a pod has a place, or could have one.
    pub(super) fn is_made(&self, pod: PodIdx, changes: &Changes) -> bool {
        let (entry, settles) = (&self.pods[pod], changes.to_settle.contains_key(&pod));
        entry.place.is_some() || settles || entry.needs_place()
    }

    /// Gives places up that are kept for pods which will not come: those that are none yet first.
    pub(super) fn drop_all_but(
        &mut self,
        most: usize,
        kept: &mut Vec<PodIdx>,
        changes: &mut Changes,
    ) {
        self.drop_beyond((most, &BTreeSet::new()), kept, changes);
    }

    /// The same; of those that are none yet, and of the others, those for numbers of pods that are
    /// there go before those whose pods may still come.
    pub(super) fn drop_beyond(
        &mut self,
        (most, there): (usize, &BTreeSet<u32>),
        kept: &mut Vec<PodIdx>,
        changes: &mut Changes,
    ) {
        if kept.len() <= most {
            return;
        }
        let mut stay = kept.clone();
        stay.sort_by_key(|pod| {
            let pod = &self.pods[*pod];
            (pod.place.is_none(), pod.number().is_some_and(|number| there.contains(&number)))
        });
        let gone = stay.split_off(most);
        let stay: BTreeSet<PodIdx> = stay.into_iter().collect();
        kept.retain(|pod| stay.contains(pod));
        for pod in gone.into_iter().rev() {
            self.drop_kept(pod, changes);
        }
    }

    /// Pods of a resumed owner take over the places kept for them. A pod that was made to ask
    /// something else gets no place for it; it queues as it is.
    fn take_over(
        &mut self,
        workload: WorkloadIdx,
        kept: &mut Vec<PodIdx>,
        real: &[PodIdx],
        changes: &mut Changes,
    ) {
        for &pod in real {
            let waits = self.pods[pod].needs_place() && self.pods[pod].takeover != Takeover::Over;
            if kept.is_empty() || !waits || changes.to_settle.contains_key(&pod) {
                continue;
            }
            let Some(at) = self.kept_for_one(pod, kept) else { continue };
            let held = kept.remove(at);
            let node = self.pods[held].place.expect("only such are found");
            let (shape, planned) = (self.pods[pod].shape, self.pods[held].shape);
            self.charge_alike(workload, planned, shape);
            changes.chosen.extend(self.unsettle(held));
            self.hand_bill(held, pod);
            self.drop_kept(held, changes);
            let facts = |shape: ShapeIdx| &self.room.shape(shape).facts;
            let alike = shape == planned || facts(shape).stands_as(facts(planned));
            let again = self.workloads[workload].between;
            let open = alike && !again;
            self.pods[pod].takeover = if open { Takeover::Open } else { Takeover::Unlike };
            changes.to_settle.insert(pod, node);
            changes.arrived.push(pod);
            let entry = &self.workloads[workload];
            let comes = entry.kept_until.is_some() && !again;
            let admitted = entry.assignment.as_ref().filter(|_| comes);
            changes.came.extend(admitted.map(|held| held.at));
        }
    }

    /// Members of one shape hold quota with the flavors that another was admitted with.
    fn charge_alike(&mut self, workload: WorkloadIdx, admitted: ShapeIdx, shape: ShapeIdx) {
        let Some(known) = self.workloads[workload].assignment.clone() else { return };
        let Some(set) = known.set(admitted).filter(|_| known.set(shape).is_none()) else { return };
        let mut assignment = (*known).clone();
        assignment.sets.push(self.set_assignment_of(shape, set.flavors.clone()));
        assignment.sets.sort_by_key(|set| set.shape);
        self.set_assignment(workload, Some(Arc::new(assignment)));
    }

    /// Gives one of them up.
    fn drop_kept(&mut self, pod: PodIdx, changes: &mut Changes) {
        self.release(pod, changes);
        self.forget_bill(pod);
        self.pods.remove(pod);
    }

    /// One kept place for each pod that an owner has still to make: the last so many of all, each
    /// for the pod of its number.
    fn keep_places(
        &mut self,
        workload: WorkloadIdx,
        owner: &Arc<OwnerFacts>,
        count: usize,
        kept: &mut Vec<PodIdx>,
    ) {
        let sets = owner.pod_sets.iter();
        let numbers = |set: &OwnerPodSet| set.before..set.before.saturating_add(set.count);
        let all = sets.flat_map(|set| numbers(set).map(move |number| (set, number)));
        let mut sets: Vec<(&OwnerPodSet, u32)> = all.rev().take(count).collect();
        sets.reverse();
        let shapes: Vec<ShapeIdx> =
            sets.iter().map(|(set, _)| self.room.intern_shape(&set.shape)).collect();
        let same = kept.len() == shapes.len()
            && kept.iter().zip(&shapes).all(|(pod, shape)| self.pods[*pod].shape == *shape);
        if same {
            for (pod, (set, number)) in kept.iter().zip(sets) {
                self.pods[*pod].rank = Rank::Number(number);
                let gang = &mut self.pods[*pod].gang;
                if gang.roles != set.roles {
                    Arc::make_mut(gang).roles.clone_from(&set.roles);
                }
                if gang.held != owner.held {
                    Arc::make_mut(gang).held.clone_from(&owner.held);
                }
            }
            return;
        }
        for pod in kept.drain(..) {
            _ = self.unsettle(pod);
            self.forget_bill(pod);
            self.pods.remove(pod);
        }
        let mut gang = self.kept_gang(workload, owner, None);
        for (at, (shape, (set, number))) in shapes.into_iter().zip(sets).enumerate() {
            if gang.roles != set.roles {
                gang = self.kept_gang(workload, owner, set.roles.clone());
            }
            let uid = format!("{}/{}/{at}", owner.uid, owner.incarnation);
            let names = (uid.into(), format!("{}-{at}", owner.name).into());
            let number = Rank::Number(number);
            kept.push(self.place_of((workload, owner), names, (shape, number), gang.clone()));
        }
    }

    /// What stands on a kept place of its gang, where its pods say this of roles.
    pub(super) fn kept_gang(
        &self,
        workload: WorkloadIdx,
        owner: &OwnerFacts,
        roles: Option<Arc<Roles>>,
    ) -> Arc<GangRef> {
        Arc::new(GangRef {
            key: self.workloads[workload].id.key.clone(),
            name: owner.name.clone(),
            source: owner.source,
            min_member: Some(owner.min_member),
            total: None,
            roles,
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: owner.held.clone(),
            to_come: None,
        })
    }

    /// Whether a workload has nothing left; then it is removed.
    fn drop_if_empty(&mut self, workload: WorkloadIdx, changes: &mut Changes) -> bool {
        let done = |owner: &Arc<OwnerFacts>| owner.ours && owner.finished.is_some();
        let stays = !self.workloads[workload].members.is_empty();
        if stays || self.owner_of(workload).is_some_and(done) {
            return false;
        }
        self.note_claims_on(workload, &mut changes.claims);
        self.drop_vacancies(workload);
        self.in_part.remove(&workload);
        changes.everything |= self.drop_claim(workload).is_some();
        self.set_assignment(workload, None);
        self.uncharged.remove(&workload);
        let gone = self.workloads.remove(workload);
        // Else it ended before, goes because we stopped it, or is a run before the owner's last.
        let told = matches!(gone.state, State::Evicting | State::Finished);
        if !told && !self.goes_on(&gone.id.key) {
            self.turns.ended(&gone.full_name);
        }
        self.workload_by_id.remove(&gone.id);
        self.note_podless(&gone.id, &gone.name);
        let name = (gone.id.namespace, gone.name);
        self.workload_by_name.remove_if(&name, |named| *named == workload);
        changes.gone.push((workload, name.0, name.1));
        true
    }

    /// Everything that comes from the members and the owner by themselves; whether it asks for
    /// another queue than before.
    pub(super) fn derive_identity(&mut self, workload: WorkloadIdx) -> bool {
        let owner = self.owner_of(workload).cloned();
        let mut sets = std::mem::take(&mut self.workloads[workload].sets);
        let heard = self.heard_of(workload, &mut sets);
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let first = heard.first.or_else(|| members.min_by(|one, other| one.made(other)));
        let total = self.least_by_total(workload);
        let stated = match &owner {
            Some(owner) => Some(least_with(owner, total)),
            None => self.least_said(workload).max(total).max(self.least_to_come(workload)),
        };
        let source = first.map(|pod| pod.gang.source);
        let set_names = owner.as_ref().map(|owner| &owner.pod_sets);
        let several = sets.len() > 1;
        let named = several || set_names.is_some();
        for (at, set) in sets.iter_mut().enumerate().filter(|_| named) {
            let shape = &self.room.shape(set.shape).facts;
            let named = set_names.and_then(|sets| sets.iter().find(|s| s.shape == *shape));
            set.name = match named {
                Some(named) => named.name.clone(),
                None if several => format!("set-{at}").into(),
                None => MAIN.clone(),
            };
        }
        let uid = match (&owner, first) {
            (Some(owner), _) => owner.uid.clone(),
            (None, Some(pod)) => pod.uid.clone(),
            (None, None) => NONE.clone(),
        };
        let created = match &owner {
            Some(owner) => owner.created,
            None => heard.created.unwrap_or_default(),
        };
        let wishes = match (&owner, first) {
            (Some(owner), _) => owner.wishes.clone(),
            (None, Some(pod)) => pod.wishes.clone(),
            (None, None) => NOTHING.clone(),
        };
        let of_template = owner.as_ref().filter(|owner| owner.never_preempts);
        let to_come = of_template.is_some_and(|owner| !self.all_made(workload, owner));
        let never = heard.never_preempts || to_come;
        let stays = heard.stays;
        let requeued = owner.as_ref().and_then(|owner| owner.requeued.clone());
        let counts_ended = owner.is_none() && stated.is_some();
        let done = if counts_ended { self.done_of_least(workload) } else { 0 };
        let min = stated.map_or(heard.count, |stated| stated.saturating_sub(done)).max(1);
        let owner = owner.filter(|owner| owner.may_be_suspended()).map(|owner| owner.uid.clone());
        let entry = &mut self.workloads[workload];
        let asks_anew = entry.wishes.queue != wishes.queue;
        entry.source = source.unwrap_or(GangSource::Job);
        (entry.sets, entry.uid, entry.created, entry.wishes) = (sets, uid, created, wishes);
        (entry.never_preempts, entry.stays) = (never, stays);
        (entry.min_member, entry.owner) = (min, owner);
        requeued.iter().for_each(|note| entry.requeue.adopt(note));
        asks_anew
    }

    /// What those members say of their workload that say what it is, in one look; their pod sets
    /// stand in `sets` then, without names.
    fn heard_of(&self, workload: WorkloadIdx, sets: &mut Vec<PodSet>) -> Heard<'_> {
        sets.clear();
        let mut heard = Heard::default();
        for pod in self.heard(workload) {
            heard.count += 1;
            if heard.first.is_none_or(|first| pod.made(first).is_lt()) {
                heard.first = Some(pod);
            }
            heard.created = Some(heard.created.map_or(pod.created, |at| at.min(pod.created)));
            // Of who is still to be made the template tells.
            heard.never_preempts |= pod.never_preempts && !pod.kept();
            // With one that leaves for good the others have to leave as well: a gang is whole.
            heard.stays = match heard.count {
                1 => pod.stays,
                _ => heard.stays.filter(|_| pod.stays.is_some()),
            };
            let ready = u32::from(pod.ready());
            match sets.iter_mut().find(|set| set.shape == pod.shape) {
                Some(set) => (set.count, set.ready) = (set.count + 1, set.ready + ready),
                None => {
                    sets.push(PodSet { name: MAIN.clone(), shape: pod.shape, count: 1, ready });
                }
            }
        }
        heard
    }

    /// Members of this run of a gang that ended well: they need no place any more.
    pub(super) fn done(&self, workload: WorkloadIdx) -> u32 {
        self.ended_well(workload).len() as u32
    }
}
