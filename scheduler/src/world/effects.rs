//! Effects carried out as the API server and the kubelet would, and their answers.
//!
//! Each effect changes facts, or finds that its precondition no longer holds, and is answered
//! once. Binding starts a pod and evicting ends it at the same instant: there is no grace here.
//! Claims of volumes and of devices are bound at once.

use std::sync::Arc;

use capstan_core::model::input::{
    BindingNote, DeactivatedFacts, EvictionNote, Input, OwnerFacts, PodFacts, PodPhase, PodShape,
    RequeueNote, Text, Toleration,
};
use capstan_core::plan::{
    Action, Effect, EffectResult, OwnerRef, PodRef, Precondition, Preemption,
};
use capstan_core::time::Time;

use super::{Moment, What, World};

/// How many effects of each kind were carried out, those that were refused included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Pods bound.
    pub binds: u64,
    /// Pods evicted.
    pub evictions: u64,
    /// Owners suspended.
    pub suspensions: u64,
    /// Owners resumed.
    pub resumes: u64,
    /// Volumes, claims and tolerations settled.
    pub preparations: u64,
    /// Statuses written.
    pub statuses: u64,
    /// Events emitted.
    pub events: u64,
}

impl World {
    /// Carries an effect out and answers it with the next step's inputs.
    pub fn carry_out(&mut self, now: Time, effect: Effect) {
        let Effect { id, workload, precondition, action, .. } = effect;
        let report = matches!(action, Action::Status(_) | Action::Event { .. });
        let result = match action {
            Action::Bind { pod, node, note } => {
                self.carried.binds += 1;
                self.checked(&precondition, &pod.uid, |world| {
                    world.bind(now, &workload, &pod, node, note)
                })
            }
            Action::Evict { pod, preemption, .. } => {
                self.carried.evictions += 1;
                self.checked(&precondition, &pod.uid, |world| world.evict(&pod, &preemption))
            }
            Action::SuspendOwner { owner, requeue, .. } => {
                self.carried.suspensions += 1;
                self.checked(&precondition, &owner.uid, |world| {
                    world.suspend_owner(&owner, requeue)
                })
            }
            Action::ResumeOwner { owner, note } => {
                self.carried.resumes += 1;
                self.checked(&precondition, &owner.uid, |world| {
                    world.resume_owner(now, &workload, &owner, note)
                })
            }
            Action::AddTolerations { pod, tolerations } => {
                self.carried.preparations += 1;
                self.checked(&precondition, &pod.uid, |world| world.tolerate(&pod, tolerations))
            }
            Action::SelectVolumes { pod, settings } => {
                self.carried.preparations += 1;
                self.checked(&precondition, &pod.uid, |world| world.bind_claims(&settings))
            }
            Action::AllocateClaims { pod, claims, .. } => {
                self.carried.preparations += 1;
                self.checked(&precondition, &pod.uid, |world| world.allocate(&pod, &claims))
            }
            Action::ReleaseClaims { pod, claims } => {
                self.carried.preparations += 1;
                self.checked(&precondition, &pod.uid, |world| world.release(&pod, &claims))
            }
            Action::Deactivate { namespace, name } => {
                let facts = DeactivatedFacts { namespace, name, owners: Vec::new() };
                self.tell(Input::Deactivated(facts));
                EffectResult::Done
            }
            Action::Status(status) => {
                self.carried.statuses += 1;
                let name = format!("{}/{}", status.namespace, status.name);
                self.statuses.insert(name.into(), *status);
                EffectResult::Done
            }
            Action::Event { about, reason, message } => {
                self.carried.events += 1;
                self.events.add(about, reason, message);
                EffectResult::Done
            }
        };
        self.changes.push(Input::Outcome { effect: id, result });
        // An answer to a report alone is no reason for another round.
        self.stirred |= !report;
    }

    fn checked(
        &mut self,
        precondition: &Precondition,
        uid: &Text,
        act: impl FnOnce(&mut World) -> EffectResult,
    ) -> EffectResult {
        match precondition {
            Precondition::Uid(wanted) if wanted != uid => {
                EffectResult::Conflict(format!("the uid is {uid}, not {wanted}").into())
            }
            Precondition::Uid(_) | Precondition::None => act(self),
        }
    }

    fn bind(
        &mut self,
        now: Time,
        workload: &Text,
        pod: &PodRef,
        node: Text,
        note: BindingNote,
    ) -> EffectResult {
        let Some(found) = self.pods.get(&pod.uid) else { return EffectResult::Gone };
        match &found.node {
            Some(at) if *at == node => return EffectResult::Done,
            Some(at) => return EffectResult::Conflict(format!("already bound to {at}").into()),
            None => {}
        }
        if found.terminating || found.phase.terminal() {
            return EffectResult::Conflict("the pod is ending".into());
        }
        if found.gated {
            return EffectResult::Refused("the pod has scheduling gates".into());
        }
        self.put_pod(PodFacts {
            node: Some(node),
            binding: Some(Arc::new(note)),
            bound_at: Some(now),
            phase: PodPhase::Running,
            ..found.clone()
        });
        self.gangs.call(&self.pods[&pod.uid], workload);
        self.run_pod(&pod.uid);
        EffectResult::Done
    }

    fn evict(&mut self, pod: &PodRef, preemption: &Preemption) -> EffectResult {
        let Some(found) = self.pods.get(&pod.uid) else { return EffectResult::Gone };
        // The mark comes before the end, as on a cluster: whoever watches learns why.
        let eviction = preemption.for_another().then(|| EvictionNote {
            preemptor: preemption.preemptor.clone(),
            reason: preemption.reason,
        });
        let marked = PodFacts { eviction, terminating: true, ..found.clone() };
        self.put_pod(marked);
        self.drop_pod(&pod.uid);
        EffectResult::Done
    }

    fn suspend_owner(&mut self, owner: &OwnerRef, requeue: Box<RequeueNote>) -> EffectResult {
        let Some(found) = self.owners.get(&owner.uid) else { return EffectResult::Gone };
        if found.finished.is_some() {
            return EffectResult::Conflict("it has finished".into());
        }
        if !found.suspended {
            self.suspend(&owner.uid, requeue);
        }
        EffectResult::Done
    }

    fn resume_owner(
        &mut self,
        now: Time,
        workload: &Text,
        owner: &OwnerRef,
        note: BindingNote,
    ) -> EffectResult {
        let Some(found) = self.owners.get(&owner.uid) else { return EffectResult::Gone };
        if found.finished.is_some() {
            return EffectResult::Conflict("it has finished".into());
        }
        if !found.suspended {
            return EffectResult::Done;
        }
        let resumed = OwnerFacts { suspended: false, admitted: Some(note), ..found.clone() };
        self.put_owner(resumed);
        self.stop_or_make(&owner.uid, now);
        let workload = workload.clone();
        self.moments.push(Moment { at: now, workload, what: What::Resumed });
        EffectResult::Done
    }

    fn tolerate(&mut self, pod: &PodRef, tolerations: Vec<Toleration>) -> EffectResult {
        let Some(found) = self.pods.get(&pod.uid).cloned() else { return EffectResult::Gone };
        let shape = match &self.tolerated {
            Some((from, added, to)) if Arc::ptr_eq(from, &found.shape) && *added == tolerations => {
                to.clone()
            }
            _ => {
                let to = Arc::new(with_tolerations(&found.shape, &tolerations));
                self.tolerated = Some((found.shape.clone(), tolerations, to.clone()));
                to
            }
        };
        self.put_pod(PodFacts { shape, ..found });
        EffectResult::Done
    }
}

/// The shape with tolerations that it lacks.
fn with_tolerations(shape: &PodShape, tolerations: &[Toleration]) -> PodShape {
    let mut wider = shape.clone();
    for toleration in tolerations {
        if !wider.tolerations.contains(toleration) {
            wider.tolerations.push(toleration.clone());
        }
    }
    wider
}
