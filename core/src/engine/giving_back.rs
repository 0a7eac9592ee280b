//! Claims that were found with devices, and that are given back so that their pods can be placed.
//!
//! Problem: what an engine before this one, or somebody else, allocated may be of no use to the pod
//! that needs it: its devices will not be ready (`engine/readiness.rs`), or they are where the pod
//! does not fit (`cycle/idle_claims.rs`), and others would (`cycle/idle_of_others.rs`). It stays so
//! until somebody takes the devices back.
//!
//! Wanted: only claims go back that no pod with a place uses and that nobody has reserved but pods
//! of ours that wait. Each of these takes itself off the claim when it is looked at in vain, once;
//! with the last of them the devices go. (kube-scheduler gives back what its pod alone has
//! reserved: two such pods wait for each other for ever.) Some would wait in vain to be looked at,
//! or to be helped: who was looked at before may fit nowhere at all, a look at its equal stands for
//! a pod, and who stands behind in a strict queue has no turn. They are taken off with the one for
//! which it helps, if that makes all of them. Not one for which others leave, and which is to use
//! the claim then. Pods of other schedulers are never taken off. A write that fails is tried again
//! after a pause.
//!
//! Where pods with a place use a claim, a pod that waits has no need to have reserved it too: that
//! was for a bind that did not come. It keeps the claim from coming free once they have left, for
//! that pod and for others. Looked at in vain it gives its reservation back, if without those of
//! pods that wait, and without those pods, the claim would be free, and one of them has reserved
//! it: so the claim keeps what it has until then. Nobody leaves for work that has still to give
//! such a reservation back: with it more might have to leave than without.
//!
//! There is no circle: what a pod gave back it reserves again only when it has a place.
//!
//! Phases: work is looked at in vain -> an effect for each pod that gives something back; none of
//! them is tried again before its effect is answered, and nobody may begin to use a claim that
//! loses its devices by this: whoever is sent to where they are finds none when it comes for them
//! -> the claim shows it, and whoever needs it is looked at again.
//!
//! An effect names the allocation that was seen, and leaves any other alone: it may come late. What
//! is being given back is forgotten once the claim shows anything else. Others who reserve the
//! claim meanwhile, or no longer do, change nothing for who has reserved it.
//!
//! Restart: claims show what is left of it. An effect of an engine before may come late: what it
//! takes is found missing, and looked for again. Cost: members of work that is looked at in vain,
//! while there are claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::Engine;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{Allocation, Readiness, ResourceClaimFacts, ResourceClaimKey, Text};
use crate::model::workload::QueueRef;
use crate::plan::{Action, ClaimGrant, EffectId, Seen};
use crate::rules::dynamic_resources::named;
use crate::time::Time;

/// Claims that are being given back, by the effects that do so.
pub(super) type GivingBack = BTreeMap<EffectId, Going>;

/// A claim, and what it was seen to have.
type Noted = (ResourceClaimKey, Arc<Allocation>);

/// Claims that one pod gives back.
#[derive(Debug)]
pub(super) struct Going {
    /// Uid of the pod.
    by: Text,
    /// Work that was looked at in vain, for which it does.
    asks: WorkloadIdx,
    /// Each with what it was seen to have.
    claims: Vec<Noted>,
    /// Why, for people.
    why: &'static str,
}

/// A pod without a place, and the claims that it gives back.
pub(crate) type Due = (PodIdx, Vec<ResourceClaimFacts>);

impl Engine {
    /// Claims that members of work name, that no pod with a place uses, and that `wanted` accepts
    /// with what they have; by the pods that give them back.
    pub(crate) fn to_give_back(
        &self,
        workload: WorkloadIdx,
        wanted: impl Fn(&ResourceClaimFacts, &Allocation) -> bool,
    ) -> Vec<Due> {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let mut known: BTreeSet<&ResourceClaimKey> = BTreeSet::new();
        let mut at: BTreeMap<PodIdx, usize> = BTreeMap::new();
        let mut all: Vec<Due> = Vec::new();
        for pod in self.state.unplaced(workload).filter(|pod| pods[*pod].needs_place()) {
            for key in named(&room.shape(pods[pod].shape).facts) {
                if !known.insert(key) || room.devices.in_use(key) {
                    continue;
                }
                let Some(claim) = room.devices.claim(key) else { continue };
                let Some(has) = &claim.allocation else { continue };
                if !wanted(claim, has) {
                    continue;
                }
                for by in self.givers((workload, pod), key, has) {
                    let place = *at.entry(by).or_insert(all.len());
                    if place == all.len() {
                        all.push((by, Vec::new()));
                    }
                    all[place].1.push(claim.clone());
                }
            }
        }
        all
    }

    /// Who gives back a claim that nobody uses, for a member that needs it: that one, where nobody
    /// has reserved it; else members that have, and others if those are all. Nobody, where it is
    /// for somebody else to do.
    fn givers(
        &self,
        (workload, member): (WorkloadIdx, PodIdx),
        key: &ResourceClaimKey,
        has: &Allocation,
    ) -> Vec<PodIdx> {
        let (pods, devices) = (&self.state.pods, &self.state.room.devices);
        if has.reserved.is_empty() {
            return if self.goes_back(key, None) { Vec::new() } else { vec![member] };
        }
        if !devices.reserved_by_such(key, |by| self.waits_here(by)) {
            return Vec::new();
        }
        let own = |by: PodIdx| pods[by].workload == Some(workload);
        let stays = |by: &PodIdx| !self.goes_back(key, Some(&pods[*by].uid));
        let mut givers: Vec<PodIdx> = devices.reservers(key).filter(stays).collect();
        if !givers.iter().all(|by| own(*by) || self.waits_in_vain(*by, workload)) {
            givers.retain(|by| own(*by));
        }
        givers.sort_by(|a, b| pods[*a].uid.cmp(&pods[*b].uid));
        givers
    }

    /// Whether a pod is one of ours that waits for a place.
    pub(crate) fn waits_here(&self, pod: PodIdx) -> bool {
        let pod = &self.state.pods[pod];
        pod.ours && pod.needs_place()
    }

    /// Whether a pod of other work was looked at in vain, or stands behind this work.
    fn waits_in_vain(&self, pod: PodIdx, before: WorkloadIdx) -> bool {
        let state = &self.state;
        let looked_at = |workload: WorkloadIdx| {
            let parked = self.waiting.why(workload).is_some();
            parked || state.workloads[workload].reason.is_some()
        };
        let waits = self.unpromised(pod).is_some_and(looked_at);
        waits || self.stands_behind(pod, before)
    }

    /// Whether a pod is of work that waits behind other work.
    fn stands_behind(&self, pod: PodIdx, before: WorkloadIdx) -> bool {
        self.unpromised(pod).is_some_and(|workload| self.waits_behind(workload, before))
    }

    /// Whether work is not looked at itself while other work is looked at in vain: a look at its
    /// equal stands for it, or its queue is strict.
    pub(crate) fn waits_behind(&self, workload: WorkloadIdx, before: WorkloadIdx) -> bool {
        let queue = |of: WorkloadIdx| match &self.state.workloads[of].queue {
            QueueRef::Queue(queue) => Some(*queue),
            QueueRef::Unqueued | QueueRef::Broken(_) => None,
        };
        let strict = queue(workload).filter(|queue| self.strict(Some(*queue)));
        let in_line = strict.is_some() && strict == queue(before);
        self.waiting.are_equal(workload, before) || in_line && self.waiting.contains(workload)
    }

    /// The work that a pod is of, if nobody leaves for that.
    fn unpromised(&self, pod: PodIdx) -> Option<WorkloadIdx> {
        let claims = &self.state.claims;
        self.state.pods[pod].workload.filter(|workload| claims.get(*workload).is_none())
    }

    /// Claims that are on their way back, each with the uid of a pod that gives it back.
    fn on_their_way(&self) -> impl Iterator<Item = (&Text, &ResourceClaimKey)> {
        let all = self.giving_back.values();
        let all = all.flat_map(|going| going.claims.iter().map(move |noted| (&going.by, noted)));
        all.filter(move |(by, noted)| self.shows(by, noted)).map(|(by, (key, _))| (by, key))
    }

    /// Whether the pod of a uid gives a claim back already; or, where none is named, anybody does.
    pub(crate) fn goes_back(&self, key: &ResourceClaimKey, by: Option<&Text>) -> bool {
        self.on_their_way().any(|(of, going)| going == key && by.is_none_or(|by| by == of))
    }

    /// Claims that lose their devices before long: all who have reserved them give them back.
    fn losing(&self) -> BTreeSet<ResourceClaimKey> {
        let (pods, devices) = (&self.state.pods, &self.state.room.devices);
        let mut givers: BTreeMap<&ResourceClaimKey, BTreeSet<&Text>> = BTreeMap::new();
        for (by, key) in self.on_their_way() {
            givers.entry(key).or_default().insert(by);
        }
        let lost = |key: &ResourceClaimKey, by: &BTreeSet<&Text>| {
            devices.reserved_by_such(key, |pod| by.contains(&pods[pod].uid))
        };
        let losing = givers.iter().filter(|(key, by)| lost(key, by));
        losing.map(|(key, _)| (*key).clone()).collect()
    }

    /// Tells which claims lose their devices now. Returns whether one does not any more that did
    /// before.
    fn note_losing(&mut self) -> bool {
        let losing = self.losing();
        self.state.room.set_losing(losing)
    }

    /// Work was looked at in vain: gives back what its members have of claims, and is of no use to
    /// them.
    pub(crate) fn give_back_useless(&mut self, now: Time, workload: WorkloadIdx) {
        self.give_back_unready(now, workload);
        self.give_back_beside_users(now, workload);
    }

    /// Work was looked at in vain, or others would have to leave for it: gives back what its
    /// members have reserved of claims that pods with a place use.
    pub(crate) fn give_back_beside_users(&mut self, now: Time, workload: WorkloadIdx) {
        if self.state.room.devices.any_reserved() {
            let due = self.reserved_beside_users(workload);
            self.give_claims_back(now, workload, due, |has| Seen::Idle(has.clone()));
        }
    }

    /// What members that wait, and those who stand behind them, have reserved of claims that these
    /// members name, beside pods with a place that use it and others that wait.
    fn reserved_beside_users(&self, workload: WorkloadIdx) -> Vec<Due> {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let devices = &room.devices;
        let gives = |by: &PodIdx| {
            let own = pods[*by].workload == Some(workload);
            self.waits_here(*by) && (own || self.stands_behind(*by, workload))
        };
        let mut givers: BTreeSet<PodIdx> = BTreeSet::new();
        for pod in self.state.unplaced(workload).filter(|pod| pods[*pod].needs_place()) {
            for key in named(&room.shape(pods[pod].shape).facts) {
                givers.extend(devices.reservers(key).filter(gives));
            }
        }
        let mut all = Vec::new();
        for pod in givers {
            let uid = &pods[pod].uid;
            let keys = devices.reserved_beside_users(pod, |by| self.waits_here(by));
            let open = keys.iter().filter(|key| !self.goes_back(key, Some(uid)));
            let ready = |claim: &&ResourceClaimFacts| {
                let has = claim.allocation.as_ref();
                has.is_some_and(|has| has.readiness == Readiness::Ready)
            };
            let due = open.filter_map(|key| devices.claim(key)).filter(ready);
            let due: Vec<ResourceClaimFacts> = due.cloned().collect();
            if !due.is_empty() {
                all.push((pod, due));
            }
        }
        all.sort_by(|(a, _), (b, _)| pods[*a].uid.cmp(&pods[*b].uid));
        all
    }

    /// Gives these claims back, each for what `seen` says of what it has.
    pub(crate) fn give_claims_back(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        due: Vec<Due>,
        seen: impl Fn(&Arc<Allocation>) -> Seen,
    ) {
        if due.is_empty() {
            return;
        }
        let mut others: Vec<WorkloadIdx> = Vec::new();
        for (pod, claims) in due {
            let entry = &self.state.pods[pod];
            let (reference, of) = (entry.reference(), entry.workload.unwrap_or(workload));
            others.extend((of != workload).then_some(of));
            let uid = reference.uid.clone();
            let with = |claim: ResourceClaimFacts| Some((claim.key, claim.uid, claim.allocation?));
            let claims: Vec<_> = claims.into_iter().filter_map(with).collect();
            let grant = |(key, uid, has): &(ResourceClaimKey, Text, Arc<Allocation>)| {
                let (key, uid, seen) = (key.clone(), uid.clone(), Some(seen(has)));
                ClaimGrant { key, uid, chosen: None, special: None, seen }
            };
            let grants: Vec<ClaimGrant> = claims.iter().map(grant).collect();
            let devices = &self.state.room.devices;
            let used = |grant: &ClaimGrant| devices.in_use(&grant.key);
            let own = |grant: &ClaimGrant| self.names_claim(workload, &grant.key);
            let why = match grants.first().and_then(|grant| grant.seen.as_ref()) {
                Some(Seen::Idle(_)) if grants.iter().any(used) => "are used by others",
                Some(Seen::Idle(_)) if !grants.iter().any(own) => "are kept by who fits nowhere",
                Some(Seen::Idle(_)) => "are where it does not fit",
                Some(Seen::Unready(_)) | None => "are not ready",
            };
            let action = Action::ReleaseClaims { pod: reference, claims: grants };
            let effect = self.effect(now, of, Some(uid.clone()), action);
            // Until this is answered nobody may be sent to where the claim still is.
            self.owed.note(effect, &uid);
            let claims = claims.into_iter().map(|(key, _, has)| (key, has)).collect();
            self.giving_back.insert(effect, Going { by: uid, asks: workload, claims, why });
        }
        self.note_losing();
        others.into_iter().for_each(|other| self.keep_out_while_owed(now, other));
    }

    /// Whether a claim is on its way back that some member names, or that goes back for this work.
    pub(crate) fn gives_back(&self, workload: WorkloadIdx) -> bool {
        let shown = |going: &Going| going.claims.iter().any(|noted| self.shows(&going.by, noted));
        let mut going = self.giving_back.values();
        going.any(|going| going.asks == workload && shown(going))
            || self.on_their_way().any(|(_, key)| self.names_claim(workload, key))
    }

    /// Whether some member that has no place names a claim.
    fn names_claim(&self, workload: WorkloadIdx, key: &ResourceClaimKey) -> bool {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let mut waiting = self.state.unplaced(workload);
        waiting.any(|pod| named(&room.shape(pods[pod].shape).facts).any(|it| it == key))
    }

    /// Whether a claim still has what it was seen to have, and the pod has reserved it as then.
    fn shows(&self, by: &Text, (key, seen): &Noted) -> bool {
        let claim = self.state.room.devices.claim(key);
        let Some(has) = claim.and_then(|claim| claim.allocation.as_ref()) else { return false };
        let reserved = match seen.reserved.contains(by) {
            true => has.reserved.contains(by),
            false => has.reserved == seen.reserved,
        };
        reserved
            && (&has.nodes, &has.devices, has.at) == (&seen.nodes, &seen.devices, seen.at)
            && has.readiness == seen.readiness
    }

    /// What shows something else by now is given back, or is another matter: whom it kept out is
    /// looked at again.
    pub(super) fn forget_given_back(&mut self, changes: &mut Changes) {
        if self.giving_back.is_empty() && self.state.room.devices.losing().is_empty() {
            return;
        }
        let mut gone: Vec<EffectId> = Vec::new();
        for (effect, going) in &self.giving_back {
            if !going.claims.iter().any(|noted| self.shows(&going.by, noted)) {
                gone.push(*effect);
            }
        }
        gone.iter().for_each(|effect| _ = self.giving_back.remove(effect));
        changes.devices_free |= self.note_losing();
    }

    /// A write by which claims are given back failed, or nobody knows: the work for which that was
    /// done waits a while.
    pub(super) fn not_given_back(
        &mut self,
        now: Time,
        effect: EffectId,
        uid: &Text,
        why: &Text,
        changes: &mut Changes,
    ) {
        let Some(going) = self.giving_back.remove(&effect) else { return };
        let state = &self.state;
        let pod = state.pod_by_uid.get(uid).map(|pod| &state.pods[*pod]);
        let there = state.workloads.get(going.asks).is_some();
        let waits = there && state.unplaced(going.asks).next().is_some();
        if waits && pod.is_some_and(|pod| pod.place.is_none()) {
            let names: Vec<&str> = going.claims.iter().map(|(key, _)| &*key.1).collect();
            let (names, reason) = (names.join(", "), going.why);
            let failure = format!("devices of {names} {reason}, nor given back: {why}");
            self.back_off(now, going.asks, failure.into(), changes);
        }
    }
}
