//! Devices that have to be made ready before a pod that uses them is bound (binding conditions,
//! KEP-5007).
//!
//! Problem: a device may be attached to its node, or set up, only once a claim has it. Its driver
//! says on the claim when that is done, or that it will never be. A pod that is bound before then
//! fails on its node, and a gang of which one member waits would be a gang in part.
//!
//! Phases: claims of all members are allocated; each member whose devices are not ready stays
//! `Preparing` until conditions on its claims say that they are; then the whole gang is bound.
//! Where one fails, or time runs out, no member that waits for its bind keeps its place: claims are
//! given back, as kube-scheduler does, and the gang waits a while before it tries again.
//!
//! A claim that has such devices and was not allocated here (by an engine before this one, by
//! another scheduler) keeps its pods from every node (`rules/dynamic_resources/unready.rs`). Where
//! nobody but pods of ours that wait has reserved it, it is given back (`engine/giving_back.rs`).
//! Whoever else has reserved it is waited for. What is allocated anew and fails again is followed
//! by the growing pauses of any failure: there is no circle without them.
//!
//! Restart: claims show what they have, since when, and what was said of it. A gang that was being
//! prepared goes where its claims are and goes on waiting; the time that it has is reckoned from
//! when they were allocated. Cost: members that wait for devices, at every step; claims that will
//! not be ready are looked for only while there are any.

use crate::engine::Engine;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{Readiness, ResourceClaimKey, Text};
use crate::model::pod::Binding;
use crate::plan::{Chosen, EffectId, GivenAt, Seen};
use crate::time::Time;

/// A member whose devices are being made ready.
#[derive(Debug)]
pub(crate) struct Readying {
    /// The effect by which they were allocated.
    effect: EffectId,
    /// Until when they must be ready.
    until: Time,
}

impl Engine {
    /// Whether a member that has its claims now must wait for devices: it is kept in mind then.
    pub(super) fn must_get_ready(&mut self, now: Time, pod: PodIdx, effect: EffectId) -> bool {
        let (readiness, since) = self.readiness(pod);
        if readiness == Readiness::Ready {
            return false;
        }
        let until = since.unwrap_or(now).plus(self.state.policy.device_timeout);
        self.readying.insert(pod, Readying { effect, until });
        true
    }

    /// Members whose devices are ready now; gangs of which some device will not be go back.
    pub(super) fn look_at_devices(&mut self, now: Time, changes: &mut Changes) -> Vec<PodIdx> {
        let (mut ready, mut failed) = (Vec::new(), Vec::new());
        for pod in self.getting_ready() {
            match self.readiness(pod).0 {
                Readiness::Ready => ready.push(pod),
                Readiness::Waits(_) => {}
                Readiness::Failed(why) => failed.push((pod, why)),
            }
        }
        ready.iter().for_each(|pod| _ = self.readying.remove(pod));
        let any_failed = !failed.is_empty();
        for (pod, why) in failed {
            self.devices_lost(now, pod, why, changes);
        }
        if any_failed {
            self.state.derive(changes);
        }
        ready.retain(|pod| matches!(self.state.pods[*pod].binding, Binding::InFlight(_)));
        ready
    }

    /// Gangs whose devices were not ready in time go back.
    pub(super) fn give_up_on_devices(&mut self, now: Time, changes: &mut Changes) {
        let mut due = self.getting_ready();
        due.retain(|pod| self.readying[pod].until <= now);
        for pod in due {
            let why = match self.readiness(pod).0 {
                Readiness::Waits(what) => format!("not ready in time: {what}").into(),
                Readiness::Failed(why) => why,
                Readiness::Ready => continue,
            };
            self.devices_lost(now, pod, why, changes);
        }
    }

    /// When the first devices must be ready.
    pub(super) fn devices_due(&self) -> Option<Time> {
        self.readying.values().map(|readying| readying.until).min()
    }

    fn devices_lost(&mut self, now: Time, pod: PodIdx, why: Text, changes: &mut Changes) {
        // Another member of its gang may have given all places up already.
        if self.readying.remove(&pod).is_some_and(|it| self.awaits(pod, it.effect)) {
            self.claims_lost(now, pod, why, changes);
        }
    }

    /// Members that still wait for devices, in order; others are forgotten.
    fn getting_ready(&mut self) -> Vec<PodIdx> {
        let mut pods: Vec<PodIdx> = self.readying.keys().copied().collect();
        pods.retain(|pod| {
            let awaits = self.awaits(*pod, self.readying[pod].effect);
            if !awaits {
                self.readying.remove(pod);
            }
            awaits
        });
        pods.sort_by(|a, b| self.state.pods[*a].uid.cmp(&self.state.pods[*b].uid));
        pods
    }

    fn awaits(&self, pod: PodIdx, effect: EffectId) -> bool {
        let entry = self.state.pods.get(pod);
        entry.is_some_and(|pod| pod.binding == Binding::InFlight(effect))
    }

    /// Whether all devices of a member are ready, and when the first that are not were allocated,
    /// where that is known.
    pub(super) fn readiness(&self, pod: PodIdx) -> (Readiness, Option<Time>) {
        let entry = &self.state.pods[pod];
        let devices = &self.state.room.devices;
        let hold = devices.held_by(pod);
        let (mut waits, mut since) = (None, None);
        let names = entry.claims.iter().flat_map(|names| names.iter()).enumerate();
        for (at, name) in names.filter(|(_, name)| !name.is_empty()) {
            let key: ResourceClaimKey = (entry.namespace.clone(), name.clone());
            let of_claim = |what: &Text| Text::from(format!("claim {name}: {what}"));
            let shown = devices.claim(&key).and_then(|claim| claim.allocation.as_ref());
            let Some(shown) = shown else {
                // It was given to the claim, which was not seen since.
                let chosen = hold.and_then(|hold| hold.own(at).or_else(|| hold.shared(&key)));
                if let Some(Readiness::Waits(what)) = chosen.map(|chosen| unsaid(chosen)) {
                    waits = waits.or(Some(of_claim(&what)));
                }
                continue;
            };
            match &shown.readiness {
                Readiness::Ready => {}
                Readiness::Failed(why) => return (Readiness::Failed(of_claim(why)), shown.at),
                Readiness::Waits(what) => {
                    waits = waits.or(Some(of_claim(what)));
                    since = since.into_iter().chain(shown.at).min();
                }
            }
        }
        (waits.map_or(Readiness::Ready, Readiness::Waits), since)
    }

    /// Work was looked at in vain: gives the claims of its members back that no node will do for,
    /// because their devices will not be ready, unless others than these members need them.
    pub(crate) fn give_back_unready(&mut self, now: Time, workload: WorkloadIdx) {
        let devices = &self.state.room.devices;
        if !devices.any_unready() {
            return;
        }
        let due = self.to_give_back(workload, |claim, _| devices.unready(claim).is_some());
        self.give_claims_back(now, workload, due, |has| Seen::Unready(GivenAt(has.at)));
    }
}

/// Whether devices are ready of which nothing has been said.
fn unsaid(chosen: &Chosen) -> Readiness {
    let waits = chosen.devices.iter().find_map(|one| {
        let conditions = &one.ready_when.as_ref()?.conditions;
        Some(Readiness::waits_for(&one.device.id.2, conditions.iter().map(|name| &**name)))
    });
    waits.unwrap_or_default()
}
