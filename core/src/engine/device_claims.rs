//! Claims on devices around a bind: allocated for all members of a gang before any of them is
//! bound, and given back when nothing comes of it.
//!
//! What a member got in the transaction that placed it is written by one effect a member, last of
//! all that is prepared. If one of them fails (somebody else was first), no member that waits for
//! its bind keeps its place: what was written is released, and the gang goes back to its queue.
//! What a new engine has to know stands in the claims themselves.
//!
//! The claim for a pod's extended resources is made with its allocation, and deleted when that is
//! given back. One that is found with a pod that is not on its way anywhere was left by a try that
//! nobody knows the end of (an engine before this one began it): it is deleted, as kube-scheduler
//! does, and the pod waits until it is gone.
//!
//! A release may be late, and so may an allocation that was given up: what the next try writes
//! would be taken back, or be what an earlier one wrote. No member is tried again before all that
//! is owed of its claims is answered; executors answer everything, be it as unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::inflight::InFlight;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{ExtendedClaim, PodClaim, ResourceClaimKey, Text};
use crate::model::pod::Binding;
use crate::plan::{Action, Chosen, ClaimGrant, EffectId, SpecialClaim, SpecialRequest};
use crate::time::Time;

/// Effects by which claims of pods are given back, and allocations that were given up, until each
/// is answered. Cost: a look-up for each member of what is filed, while there are any.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Uid of the pod that each is for.
    of: BTreeMap<EffectId, Text>,
    /// The same by pod.
    by_pod: BTreeSet<(Text, EffectId)>,
}

impl Owed {
    pub(super) fn note(&mut self, effect: EffectId, pod: &Text) {
        self.of.insert(effect, pod.clone());
        self.by_pod.insert((pod.clone(), effect));
    }

    /// Whether anything is owed of a pod.
    fn owes(&self, pod: &Text) -> bool {
        let from = (pod.clone(), EffectId(0));
        self.by_pod.range(from..).next().is_some_and(|(first, _)| first == pod)
    }

    /// An effect is answered; the pod of which nothing is owed now, if it was the last.
    fn settle(&mut self, effect: EffectId) -> Option<Text> {
        let pod = self.of.remove(&effect)?;
        self.by_pod.remove(&(pod.clone(), effect));
        (!self.owes(&pod)).then_some(pod)
    }
}

impl Engine {
    /// Whether answers are owed of what earlier tries did with claims of a member.
    pub(crate) fn owes_claims(&self, workload: WorkloadIdx) -> bool {
        let owed = |pod: &PodIdx| self.owed.owes(&self.state.pods[*pod].uid);
        !self.owed.of.is_empty() && self.state.unplaced(workload).any(|pod| owed(&pod))
    }

    /// Keeps work out of every round while claims of its members are on their way back.
    pub(crate) fn keep_out_while_owed(&mut self, now: Time, workload: WorkloadIdx) {
        if self.owes_claims(workload) {
            self.refile(workload, now);
        }
    }

    /// An effect is answered: a pod of which nothing more is owed may be tried again.
    pub(super) fn settle_owed(&mut self, effect: EffectId, changes: &mut Changes) {
        let Some(uid) = self.owed.settle(effect) else { return };
        let pod = self.state.pod_by_uid.get(&uid);
        changes.dirty.extend(pod.and_then(|pod| self.state.pods[*pod].workload));
    }

    /// Allocates and reserves the claims of a member; `false`: it has none, or that is done.
    pub(crate) fn allocate_claims(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        pod: PodIdx,
    ) -> bool {
        if self.allocated.contains(&pod) {
            return false;
        }
        let claims = self.grants(pod);
        if claims.is_empty() {
            return false;
        }
        let entry = &self.state.pods[pod];
        let node = entry.place.expect("only placed pods are prepared");
        let node = self.state.room.node(node).name.clone();
        let reference = entry.reference();
        let uid = reference.uid.clone();
        let action = Action::AllocateClaims { pod: reference, node, claims };
        let effect = self.effect(now, workload, Some(uid), action);
        self.state.pods[pod].binding = Binding::InFlight(effect);
        true
    }

    /// Members of which all else is prepared get their claims; those that need none, or have them.
    pub(super) fn allocate_prepared(&mut self, now: Time, prepared: &[PodIdx]) -> Vec<PodIdx> {
        let mut ready = prepared.to_vec();
        ready.retain(|&pod| {
            let workload = self.state.pods[pod].workload;
            let placed = self.state.pods[pod].place.is_some();
            let waits = workload.filter(|_| placed);
            !waits.is_some_and(|workload| self.allocate_claims(now, workload, pod))
        });
        ready
    }

    /// What is to be written of the claims that a pod has, those that exist.
    fn grants(&self, pod: PodIdx) -> Vec<ClaimGrant> {
        let entry = &self.state.pods[pod];
        let shape = &self.state.room.shape(entry.shape).facts;
        let Some(names) = entry.claims.as_ref().filter(|_| !shape.claims.is_empty()) else {
            return Vec::new();
        };
        let devices = &self.state.room.devices;
        let hold = devices.held_by(pod);
        let grant = |(at, claim): (usize, &PodClaim)| {
            let name = names.get(at).filter(|name| !name.is_empty())?;
            let key: ResourceClaimKey = (entry.namespace.clone(), name.clone());
            if let PodClaim::Extended { claim, .. } = claim {
                let chosen = hold?.own(at)?;
                let special = Some(Arc::new(special(claim, chosen)));
                return Some(ClaimGrant {
                    key,
                    uid: Text::default(),
                    chosen: Some(chosen.clone()),
                    special,
                    seen: None,
                });
            }
            let facts = devices.claim(&key)?;
            let chosen = match claim {
                _ if facts.allocation.is_some() => None,
                PodClaim::Named(_) => hold.and_then(|hold| hold.shared(&key)),
                _ => hold.and_then(|hold| hold.own(at)),
            };
            let (uid, chosen) = (facts.uid.clone(), chosen.cloned());
            Some(ClaimGrant { uid, key, chosen, special: None, seen: None })
        };
        shape.claims.iter().enumerate().filter_map(grant).collect()
    }

    /// A member's claims could not be allocated: who waits for its bind with it gives its place
    /// up, and what was written for it.
    pub(super) fn claims_lost(
        &mut self,
        now: Time,
        pod: PodIdx,
        failure: Text,
        changes: &mut Changes,
    ) {
        let Some(workload) = self.state.pods[pod].workload else {
            return self.give_back(now, pod, changes);
        };
        let preparing = |engine: &Engine, pod: &PodIdx| match engine.state.pods[*pod].binding {
            Binding::None => true,
            Binding::InFlight(effect) => {
                !matches!(engine.inflight.get(&effect), Some(InFlight::Bind(_)))
            }
            Binding::Kept | Binding::Bound => false,
        };
        let mut placed: Vec<PodIdx> = self.state.placed(workload).collect();
        placed.retain(|member| preparing(self, member));
        for member in placed {
            self.give_back(now, member, changes);
        }
        self.back_off(now, workload, failure, changes);
    }

    /// A place that a member was to have is free again, and so is what was written for it.
    pub(super) fn give_back(&mut self, now: Time, pod: PodIdx, changes: &mut Changes) {
        self.release_claims(now, pod);
        self.give_up_place(pod, changes);
    }

    /// Takes back what was, or may have been, written of a member's claims.
    pub(super) fn release_claims(&mut self, now: Time, pod: PodIdx) {
        let in_flight = match self.state.pods[pod].binding {
            Binding::InFlight(effect) => match self.inflight.get(&effect) {
                Some(InFlight::Allocate(uid)) => {
                    self.owed.note(effect, uid);
                    true
                }
                None => true,
                Some(_) => false,
            },
            _ => false,
        };
        let written = self.allocated.remove(&pod) || in_flight;
        let Some(workload) = self.state.pods[pod].workload.filter(|_| written) else { return };
        let claims = self.releases(pod);
        if claims.is_empty() {
            return;
        }
        if claims.iter().any(|claim| claim.special.is_some()) {
            self.releasing.insert(pod);
        }
        let reference = self.state.pods[pod].reference();
        let uid = reference.uid.clone();
        let action = Action::ReleaseClaims { pod: reference, claims };
        let effect = self.effect(now, workload, Some(uid.clone()), action);
        self.owed.note(effect, &uid);
    }

    /// Claims were allocated for a member that has given its place up meanwhile.
    pub(super) fn allocated_in_vain(&mut self, now: Time, uid: &Text) {
        let Some(&pod) = self.state.pod_by_uid.get(uid) else { return };
        if self.state.pods[pod].place.is_none() {
            self.allocated.insert(pod);
            self.release_claims(now, pod);
        }
    }

    /// Deletes claims for extended resources that earlier tries left.
    pub(super) fn release_left(&mut self, now: Time) {
        if self.state.left_claims.is_empty() && self.releasing.is_empty() {
            return;
        }
        let left = &self.state.left_claims;
        self.releasing.retain(|pod| left.contains(pod));
        let (pods, workloads) = (&self.state.pods, &self.state.workloads);
        let pauses = |workload: WorkloadIdx| {
            workloads[workload].requeue.not_before.is_some_and(|until| until > now)
        };
        let idle = |pod: &PodIdx| {
            let entry = &pods[*pod];
            entry.place.is_none()
                && entry.binding == Binding::None
                && !entry.terminating
                && !entry.workload.is_some_and(pauses)
        };
        let due = left.difference(&self.releasing).copied().filter(idle);
        let mut due: Vec<PodIdx> = due.collect();
        due.sort_by(|a, b| pods[*a].uid.cmp(&pods[*b].uid));
        for pod in due {
            self.allocated.insert(pod);
            self.release_claims(now, pod);
            if let Some(workload) = self.state.pods[pod].workload {
                self.refile(workload, now);
            }
        }
    }

    /// Nobody knows whether a claim that was left is gone: it is tried again, if it still shows.
    pub(super) fn release_unknown(&mut self, uid: &Text) {
        if let Some(pod) = self.state.pod_by_uid.get(uid) {
            self.releasing.remove(pod);
        }
    }

    /// A claim that was left could not be deleted: that is tried again when its pod has waited.
    pub(super) fn not_deleted(&mut self, now: Time, uid: &Text, why: &Text, changes: &mut Changes) {
        let Some(&pod) = self.state.pod_by_uid.get(uid) else { return };
        let entry = &self.state.pods[pod];
        let waits = entry.workload.filter(|_| entry.place.is_none());
        let failure = format!("the claim of {} from before is not deleted: {why}", entry.name);
        if let Some(workload) = waits.filter(|_| self.releasing.remove(&pod)) {
            self.back_off(now, workload, failure.into(), changes);
        }
    }

    /// Claims of a pod as they are to be given back: with what was chosen for them here.
    fn releases(&self, pod: PodIdx) -> Vec<ClaimGrant> {
        let entry = &self.state.pods[pod];
        let devices = &self.state.room.devices;
        let shape = &self.state.room.shape(entry.shape).facts;
        let hold = devices.held_by(pod);
        let names = entry.claims.iter().flat_map(|names| names.iter()).enumerate();
        let named = names.filter(|(_, name)| !name.is_empty());
        let release = |(at, name): (usize, &Text)| {
            let key = (entry.namespace.clone(), name.clone());
            let uid = devices.claim(&key).map(|claim| claim.uid.clone());
            let chosen = hold.and_then(|hold| hold.own(at).or_else(|| hold.shared(&key)));
            let chosen = chosen.cloned();
            if let Some(PodClaim::Extended { .. }) = shape.claims.get(at) {
                // It may exist before it is seen.
                let may_exist = uid.is_some() || chosen.is_some();
                let (uid, special) = (uid.unwrap_or_default(), Some(Arc::default()));
                let seen = None;
                return may_exist.then_some(ClaimGrant { key, uid, chosen, special, seen });
            }
            Some(ClaimGrant { key, uid: uid?, chosen, special: None, seen: None })
        };
        named.filter_map(release).collect()
    }

    /// Whoever is bound, or gone, needs no memory of what was prepared.
    pub(super) fn forget_allocated(&mut self) {
        let pods = &self.state.pods;
        let waits = |pod: &PodIdx| {
            pods.get(*pod).is_some_and(|pod| pod.place.is_some() && pod.binding != Binding::Bound)
        };
        self.allocated.retain(waits);
    }
}

/// The claim for extended resources as it is made: with the requests that got devices, which are
/// those for what the node does not have itself.
fn special(claim: &ExtendedClaim, chosen: &Chosen) -> SpecialClaim {
    let count = |name: &Text| chosen.devices.iter().filter(|one| one.request == *name).count();
    let requests = claim.spec.requests.iter().zip(&claim.classes).map(|(request, class)| {
        let (name, class) = (request.name.clone(), class.clone());
        SpecialRequest { count: count(&name) as u64, name, class }
    });
    let requests: Vec<_> = requests.filter(|request| request.count > 0).collect();
    let made = |name: &Text| requests.iter().any(|request| request.name == *name);
    let mappings = claim.mappings.iter().filter(|one| made(&one.request)).cloned().collect();
    SpecialClaim { requests, mappings }
}
