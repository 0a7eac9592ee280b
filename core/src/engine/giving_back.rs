//! Claims that were found with devices, and that are given back so that their pods can be placed.
//!
//! Problem: what an engine before this one, or somebody else, allocated may be of no use to the pod
//! that needs it: its devices will not be ready (`engine/readiness.rs`), or they are where the pod
//! does not fit (`cycle/idle_claims.rs`). It stays so until somebody takes the devices back.
//!
//! Wanted: only claims that nobody but members that wait has reserved, and that no pod with a place
//! uses, go back; each once, for the first of these members that is looked at in vain. A write that
//! fails is tried again after a pause.
//!
//! Where pods with a place use a claim, a pod that waits has no need to have reserved it too: that
//! was for a bind that did not come. It keeps the claim from coming free once they have left, for
//! that pod and for others. Looked at in vain it gives its reservation back, if without that, and
//! without those pods, the claim would be free, and one of them has reserved it: so the claim keeps
//! what it has until then.
//!
//! From then on until the claim shows it, nobody may begin to use a claim that loses its devices by
//! this: whoever is sent to where they are finds none when it comes for them.
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
use crate::model::input::{
    Allocation, PodClaim, Readiness, ResourceClaimFacts, ResourceClaimKey, Text,
};
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
    /// Each with what it was seen to have.
    claims: Vec<Noted>,
    /// Why, for people.
    why: &'static str,
}

/// A member without a place, and the claims that it gives back.
pub(crate) type Due = (PodIdx, Vec<ResourceClaimFacts>);

impl Engine {
    /// Claims of these members that `wanted` accepts with what they have, and that are not on their
    /// way back yet, by the member that gives them back: each that has reserved a claim does so,
    /// and the first where nobody has. Not those that anybody else has reserved, or that a pod with
    /// a place uses.
    pub(crate) fn to_give_back(
        &self,
        workload: WorkloadIdx,
        wanted: impl Fn(&ResourceClaimFacts, &Allocation) -> bool,
    ) -> Vec<Due> {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let devices = &room.devices;
        let members = self.state.unplaced(workload).filter(|pod| pods[*pod].needs_place());
        let members: Vec<PodIdx> = members.collect();
        let uids: BTreeSet<&Text> = members.iter().map(|pod| &pods[*pod].uid).collect();
        let mut first: BTreeSet<&ResourceClaimKey> = BTreeSet::new();
        let mut all = Vec::new();
        for pod in members {
            let entry = &pods[pod];
            let mut due = Vec::new();
            for claim in &room.shape(entry.shape).facts.claims {
                let PodClaim::Named(key) = claim else { continue };
                let Some(claim) = devices.claim(key) else { continue };
                let Some(has) = &claim.allocation else { continue };
                let may = has.reserved.iter().all(|by| uids.contains(by))
                    && !devices.in_use(key)
                    && !self.goes_back(key)
                    && wanted(claim, has);
                let mine = match has.reserved.is_empty() {
                    true => may && first.insert(key),
                    false => has.reserved.contains(&entry.uid),
                };
                if may && mine {
                    due.push(claim.clone());
                }
            }
            if !due.is_empty() {
                all.push((pod, due));
            }
        }
        all
    }

    /// Claims that are on their way back, each with the uid of a pod that gives it back.
    fn on_their_way(&self) -> impl Iterator<Item = (&Text, &ResourceClaimKey)> {
        let all = self.giving_back.values();
        let all = all.flat_map(|going| going.claims.iter().map(move |noted| (&going.by, noted)));
        all.filter(move |(by, noted)| self.shows(by, noted)).map(|(by, (key, _))| (by, key))
    }

    /// Whether a claim is on its way back.
    fn goes_back(&self, key: &ResourceClaimKey) -> bool {
        self.on_their_way().any(|(_, going)| going == key)
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
        if self.state.room.devices.any_reserved() {
            let due = self.reserved_beside_users(workload);
            self.give_claims_back(now, workload, due, |has| Seen::Idle(has.clone()));
        }
    }

    /// What members that wait have reserved, beside pods with a place alone that use it.
    fn reserved_beside_users(&self, workload: WorkloadIdx) -> Vec<Due> {
        let (pods, devices) = (&self.state.pods, &self.state.room.devices);
        let members = self.state.unplaced(workload).filter(|pod| pods[*pod].needs_place());
        let members: BTreeSet<PodIdx> = members.collect();
        let mut all = Vec::new();
        for &pod in &members {
            let keys = devices.reserved_beside_users(pod, |by| members.contains(&by));
            let open = keys.iter().filter(|key| !self.goes_back(key));
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
        for (pod, claims) in due {
            let reference = self.state.pods[pod].reference();
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
            let why = match grants.first().and_then(|grant| grant.seen.as_ref()) {
                Some(Seen::Idle(_)) if grants.iter().any(used) => "are used by others",
                Some(Seen::Idle(_)) => "are where it does not fit",
                Some(Seen::Unready(_)) | None => "are not ready",
            };
            let action = Action::ReleaseClaims { pod: reference, claims: grants };
            let effect = self.effect(now, workload, Some(uid.clone()), action);
            // Until this is answered nobody may be sent to where the claim still is.
            self.owed.note(effect, &uid);
            let claims = claims.into_iter().map(|(key, _, has)| (key, has)).collect();
            self.giving_back.insert(effect, Going { by: uid, claims, why });
        }
        self.note_losing();
    }

    /// Whether a claim of some member is on its way back.
    pub(crate) fn gives_back(&self, workload: WorkloadIdx) -> bool {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let needs = |pod: PodIdx, key: &ResourceClaimKey| {
            named(&room.shape(pods[pod].shape).facts).any(|it| it == key)
        };
        let of_some =
            |key: &ResourceClaimKey| self.state.unplaced(workload).any(|pod| needs(pod, key));
        self.on_their_way().any(|(_, key)| of_some(key))
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

    /// A write by which claims are given back failed, or nobody knows: its pod waits a while.
    pub(super) fn not_given_back(
        &mut self,
        now: Time,
        effect: EffectId,
        uid: &Text,
        why: &Text,
        changes: &mut Changes,
    ) {
        let Some(Going { claims, why: reason, .. }) = self.giving_back.remove(&effect) else {
            return;
        };
        let Some(&pod) = self.state.pod_by_uid.get(uid) else { return };
        let waits = &self.state.pods[pod];
        if let Some(workload) = waits.workload.filter(|_| waits.place.is_none()) {
            let names: Vec<&str> = claims.iter().map(|(key, _)| &*key.1).collect();
            let names = names.join(", ");
            let failure = format!("devices of {names} {reason}, nor given back: {why}");
            self.back_off(now, workload, failure.into(), changes);
        }
    }
}
