//! Effects in flight: what is owed an answer, and what each answer means.
//!
//! A placement decided by us is assumed at once and confirmed by the API; a refusal gives the
//! room back and requeues the member after a growing pause. While an answer is unknown nothing is
//! freed: the API will show what happened.
//!
//! There is no clock for what was handed over. Whoever carries effects out answers each one, after
//! it was tried for its time at most or when it may not act any more; how long it waits for its
//! turn there is no failure of a gang whose other members were bound meanwhile. So a place that is
//! assumed is kept until then, and the time of pods that are to come begins when their owner was
//! resumed.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::pod::{Binding, Takeover};
use crate::plan::{Action, EffectId, EffectResult, State};
use crate::time::{Span, Time};

/// What an effect in flight was for.
#[derive(Debug)]
pub(crate) enum InFlight {
    /// Binding a pod: most answers are to that, so it needs no look-up.
    Bind(PodIdx),
    /// Settling something of a pod before its gang is bound.
    Prepare(Text),
    /// Allocating claims of a pod before its gang is bound.
    Allocate(Text),
    /// Giving claims of a pod back.
    Release(Text),
    /// Resuming an owner; whether the time of its pods was over before that was answered.
    Resume(WorkloadIdx, bool),
    /// Stopping a victim.
    Stop(WorkloadIdx),
}

impl Engine {
    /// Remembers an effect whose answer matters.
    pub(crate) fn note_inflight(&mut self, id: EffectId, of: WorkloadIdx, action: &Action) {
        let kind = match action {
            // Who sends it says of which member it is.
            Action::Bind { .. } => return,
            Action::AddTolerations { pod, .. } | Action::SelectVolumes { pod, .. } => {
                InFlight::Prepare(pod.uid.clone())
            }
            Action::AllocateClaims { pod, .. } => InFlight::Allocate(pod.uid.clone()),
            Action::ResumeOwner { .. } => InFlight::Resume(of, false),
            Action::SuspendOwner { .. } | Action::Evict { .. } => InFlight::Stop(of),
            Action::ReleaseClaims { pod, .. } => InFlight::Release(pod.uid.clone()),
            // What it changes is seen, and it is asked for again until then.
            Action::Deactivate { .. } | Action::Status(_) | Action::Event { .. } => return,
        };
        self.inflight.insert(id, kind);
    }

    /// Remembers that a member is being bound.
    pub(crate) fn note_bind(&mut self, id: EffectId, pod: PodIdx) {
        self.inflight.insert(id, InFlight::Bind(pod));
    }

    /// Takes an answer in; a pod of which something is settled now.
    pub(crate) fn take_outcome(
        &mut self,
        now: Time,
        effect: EffectId,
        result: EffectResult,
        changes: &mut Changes,
    ) -> Option<PodIdx> {
        self.settle_owed(effect, changes);
        // Unknown is no answer: what happened will show in the API, or in a later outcome.
        if result == EffectResult::TimedOut {
            self.stays_unknown(now, effect, changes);
            return None;
        }
        let kind = self.inflight.remove(&effect)?;
        let pod = match &kind {
            InFlight::Bind(pod) => self.flies(*pod, effect).then_some(*pod),
            InFlight::Prepare(uid) | InFlight::Allocate(uid) => self.flying(uid, effect),
            InFlight::Release(_) | InFlight::Resume(..) | InFlight::Stop(_) => None,
        };
        let done = result == EffectResult::Done;
        match (kind, pod) {
            (InFlight::Bind(_), Some(pod)) if done => {
                self.state.pods[pod].binding = Binding::Bound;
                changes.dirty.extend(self.state.pods[pod].workload);
            }
            (InFlight::Prepare(_), Some(pod)) if done => {
                changes.dirty.extend(self.state.pods[pod].workload);
                // What was written of claims is bound by others.
                return (!self.settling.contains_key(&pod)).then_some(pod);
            }
            (InFlight::Prepare(_), Some(pod)) => {
                self.not_prepared(now, pod, describe(&result), changes);
            }
            (InFlight::Allocate(_), Some(pod)) if done => {
                self.allocated.insert(pod);
                changes.dirty.extend(self.state.pods[pod].workload);
                return (!self.must_get_ready(now, pod, effect)).then_some(pod);
            }
            (InFlight::Allocate(_), Some(pod)) => {
                self.claims_lost(now, pod, describe(&result), changes);
            }
            (InFlight::Bind(_), Some(pod)) => {
                self.release_claims(now, pod);
                self.unassume(now, pod, describe(&result), changes);
            }
            (InFlight::Allocate(uid), None) if done => self.allocated_in_vain(now, &uid),
            (InFlight::Bind(_) | InFlight::Prepare(_) | InFlight::Allocate(_), None) => {}
            (InFlight::Release(_), _) if done => {}
            (InFlight::Release(uid), _) => {
                self.not_deleted(now, &uid, &describe(&result), changes);
                self.not_given_back(now, effect, &uid, &describe(&result), changes);
            }
            (InFlight::Resume(workload, _) | InFlight::Stop(workload), _)
                if self.state.workloads.get(workload).is_none() => {}
            (InFlight::Resume(workload, late), _) if done => {
                if late && self.comes_up_by(workload, effect) {
                    self.keep_on(now, workload);
                }
            }
            (InFlight::Resume(workload, _), _) => {
                self.unresume(now, workload, describe(&result), changes);
            }
            (InFlight::Stop(workload), _) => {
                self.stop_answered(now, (workload, effect), &result, changes);
            }
        }
        None
    }

    /// A member could not be prepared. Others that are not bound give their places up with it where
    /// its volumes were lost, or where the gang is not begun: it would not begin with them alone.
    fn not_prepared(&mut self, now: Time, pod: PodIdx, why: Text, changes: &mut Changes) {
        let workload = self.state.pods[pod].workload.expect("ours are in workloads");
        let begun = |pod: PodIdx| match self.state.pods[pod].binding {
            Binding::Bound => true,
            Binding::InFlight(_) => !self.is_preparing(pod),
            Binding::None | Binding::Kept => false,
        };
        if self.settling.contains_key(&pod) || !self.state.placed(workload).any(begun) {
            return self.send_back(now, workload, why, changes);
        }
        self.release_claims(now, pod);
        self.unassume(now, pod, why, changes);
    }

    /// Nobody will say what became of an effect.
    fn stays_unknown(&mut self, now: Time, effect: EffectId, changes: &mut Changes) {
        match self.inflight.get(&effect) {
            Some(InFlight::Release(uid)) => {
                let uid = uid.clone();
                self.inflight.remove(&effect);
                self.release_unknown(&uid);
                let why = describe(&EffectResult::TimedOut);
                self.not_given_back(now, effect, &uid, &why, changes);
            }
            // Its pods have the time that they have.
            Some(&InFlight::Resume(workload, _)) if self.comes_up_by(workload, effect) => {
                self.state.workloads[workload].owner_effect = None;
            }
            _ => {}
        }
    }

    /// Whether places are kept for pods of an owner that this effect resumes.
    fn comes_up_by(&self, workload: WorkloadIdx, effect: EffectId) -> bool {
        let entry = self.state.workloads.get(workload);
        entry.is_some_and(|it| it.owner_effect == Some(effect) && it.kept_until.is_some())
    }

    fn flying(&self, uid: &Text, effect: EffectId) -> Option<PodIdx> {
        let pod = *self.state.pod_by_uid.get(uid)?;
        self.flies(pod, effect).then_some(pod)
    }

    /// Whether a pod is there still, and waits for this.
    fn flies(&self, pod: PodIdx, effect: EffectId) -> bool {
        let pod = self.state.pods.get(pod);
        pod.is_some_and(|pod| pod.binding == Binding::InFlight(effect))
    }

    /// These members are prepared; where none is left to prepare, the whole gang is bound, be it
    /// that the last one is gone. Who came for a kept place in the same step is still to be
    /// prepared. Members that were seen changed in it have their places again by now.
    pub(crate) fn bind_prepared(&mut self, now: Time, prepared: &[PodIdx], arrived: &[PodIdx]) {
        if prepared.is_empty() && self.preparing.is_empty() {
            return;
        }
        for &pod in prepared {
            self.state.pods[pod].binding = Binding::None;
        }
        let ready = self.allocate_prepared(now, prepared);
        let of = ready.into_iter().filter_map(|pod| self.state.pods[pod].workload);
        let mut workloads: Vec<WorkloadIdx> = of.collect();
        let mut others: Vec<WorkloadIdx> = self.preparing.iter().copied().collect();
        others.retain(|workload| self.state.workloads.get(*workload).is_some());
        others.sort_by(|a, b| self.state.workloads[*a].id.cmp(&self.state.workloads[*b].id));
        workloads.extend(others);
        let arrived: BTreeSet<PodIdx> = arrived.iter().copied().collect();
        for workload in workloads {
            if self.state.workloads.get(workload).is_some() {
                self.bind_once_prepared(now, workload, &arrived);
            }
        }
    }

    /// Binds members of a gang of which none is being prepared any more.
    fn bind_once_prepared(&mut self, now: Time, workload: WorkloadIdx, arrived: &BTreeSet<PodIdx>) {
        if self.state.placed(workload).any(|pod| self.is_preparing(pod)) {
            return;
        }
        self.preparing.remove(&workload);
        let completes = self.completing.remove(&workload);
        let mut members = self.unsent(workload);
        members.retain(|pod| !arrived.contains(pod));
        if members.is_empty() {
            return;
        }
        match self.state.leaving(workload) {
            true => _ = self.unsent_while_stopped.insert(workload),
            false if self.fell_apart(workload) => {
                self.send_back_at_once(now, workload, "members are gone".into());
            }
            false => match self.first_refused(&members) {
                Some(failure) => self.send_back_at_once(now, workload, failure),
                None => {
                    let before = self.effects.len();
                    self.send_prepared(now, workload, members);
                    if completes {
                        self.complete_a_gang(before);
                    }
                }
            },
        }
    }

    /// Whether something is still settled before a member is bound. One whose bind is on its way
    /// holds nobody up: no answer to that would send the others.
    fn is_preparing(&self, pod: PodIdx) -> bool {
        match self.state.pods[pod].binding {
            Binding::InFlight(effect) => {
                !matches!(self.inflight.get(&effect), Some(InFlight::Bind(_)))
            }
            Binding::None | Binding::Kept | Binding::Bound => false,
        }
    }

    /// Whether fewer members than must run together are left, and none of them is bound: nothing is
    /// begun then. Who is being deleted is not left, though it has a place.
    pub(super) fn fell_apart(&self, workload: WorkloadIdx) -> bool {
        let placed = self.state.placed(workload).map(|pod| &self.state.pods[pod]);
        let stay: Vec<_> = placed.filter(|pod| pod.stays()).collect();
        let least = self.state.workloads[workload].min_member as usize;
        stay.len() < least && !stay.iter().any(|pod| pod.binding == Binding::Bound)
    }

    /// A placement that failed: the room is free again and the member waits a while.
    fn unassume(&mut self, now: Time, pod: PodIdx, failure: Text, changes: &mut Changes) {
        self.give_up_place(pod, changes);
        if let Some(workload) = self.state.pods[pod].workload {
            self.back_off(now, workload, failure, changes);
        }
    }

    /// A place that a pod was to have is free again: it waits for another as any member does.
    pub(super) fn give_up_place(&mut self, pod: PodIdx, changes: &mut Changes) {
        self.state.release(pod, changes);
        self.state.pods[pod].binding = Binding::None;
        self.state.pods[pod].bound_at = None;
        self.state.pods[pod].note = None;
        self.state.pods[pod].takeover = Takeover::Over;
    }

    /// A resumed owner did not come up: the places that are kept for its pods are free again. Pods
    /// of it that are there all the same, because somebody else resumed it, have theirs.
    pub(super) fn unresume(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        failure: Text,
        changes: &mut Changes,
    ) {
        let mut kept: Vec<PodIdx> = self.state.placed(workload).collect();
        kept.retain(|pod| self.state.pods[*pod].kept());
        for pod in kept {
            self.state.release(pod, changes);
        }
        self.deadlines.set(workload, None);
        let entry = &mut self.state.workloads[workload];
        (entry.state, entry.kept_until) = (State::Queued, None);
        self.back_off(now, workload, failure, changes);
    }

    /// Notes a failure: the workload waits, longer each time.
    pub(super) fn back_off(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        failure: Text,
        changes: &mut Changes,
    ) {
        let until = now.plus(self.pause_after(self.state.workloads[workload].requeue.failures));
        let entry = &mut self.state.workloads[workload];
        entry.requeue.failures += 1;
        entry.requeue.not_before = Some(until);
        self.delayed.set(workload, Some(until));
        self.set_reason(workload, Reason::Backoff { until, failure });
        changes.dirty.insert(workload);
    }

    /// How long work waits that fails and had failed so often before.
    pub(super) fn pause_after(&self, failures: u32) -> Span {
        let (first, most) = (self.state.policy.backoff_first, self.state.policy.backoff_max);
        let doubled = first.0.saturating_mul(1_i64 << failures.min(20));
        Span(doubled.min(most.0))
    }
}

fn describe(result: &EffectResult) -> Text {
    match result {
        EffectResult::Done => "done".into(),
        EffectResult::Conflict(why) | EffectResult::Refused(why) => why.clone(),
        EffectResult::Gone => "the object is gone".into(),
        EffectResult::TimedOut => "no answer in time".into(),
    }
}
