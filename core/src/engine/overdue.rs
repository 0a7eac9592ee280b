//! What time itself changes: pauses that end, owners that did not come up, gangs that stay in part.
//!
//! Problem: an effect can succeed and come to nothing. A Job is resumed and makes no pods (a quota
//! or a webhook forbids them); a gang loses a member whose replacement fits nowhere, and holds what
//! it has for as long as it runs in part. Two such gangs can wait for each other for ever.
//!
//! Wanted: places are kept for the pods of a resumed owner for `resume_timeout`, or as long as
//! queued work has to start where that is longer. It does not end while the resume itself still
//! waits for its turn among other effects, nor while pods of the owner's earlier run are still
//! there, and begins anew with each pod that takes its place, its own or one of who was resumed
//! before it: whoever makes pods makes twenty a second if nobody configured it, in turn, and a
//! thousand take a minute. If none came by then the owner is suspended again and queues after a
//! pause, longer each time, which the owner bears: its next run is another workload. If some came,
//! what the others need is free again.
//! A gang that has been below its minimum for `recovery_timeout` is stopped whole and queues, but
//! not while others leave for what it lacks. While all that it lacks are members with gates that
//! time does not run: they could not run anywhere, and it begins once one of them could. Of several
//! no more are stopped than it takes: who can be completed with what those leave who stand behind
//! it goes on. One without an owner is stopped only while members of it wait: of others nobody
//! makes any more, and what runs is left to run; no quota is kept for what it lacks from then on.
//!
//! Restart: places are kept until what was written on the owner says, as far as that is believed
//! (`admitted` of [`crate::model`]), and who came before is forgotten; how long a gang has been in
//! part is counted anew, so it is stopped late and never early. Cost: what is due is looked up in
//! order; gangs in part are few. Where some are due, a look for places for each of those in part
//! after each stop.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::engine::inflight::InFlight;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::GangKey;
use crate::model::workload::WorkloadId;
use crate::plan::{Action, Preemption, PreemptionReason, State};
use crate::time::{Span, Time};

/// When something is due (the pods of a resumed owner, the end of a pause): one time for each
/// workload.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    of: BTreeMap<WorkloadIdx, Time>,
    in_order: BTreeSet<(Time, WorkloadIdx)>,
}

/// When pods of resumed owners took their places last, by when those owners were admitted.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    last: BTreeMap<Time, Time>,
}

impl Arrivals {
    /// One came of who was admitted then.
    pub fn note(&mut self, admitted: Time, now: Time) {
        self.last.insert(admitted, now);
    }

    /// When the last came of who was admitted then or before.
    pub fn last_of(&self, admitted: Time) -> Option<Time> {
        self.last.range(..=admitted).map(|(_, came)| *came).max()
    }

    /// What is longer ago does not matter any more.
    pub fn forget(&mut self, now: Time, span: Span) {
        self.last.retain(|_, came| came.plus(span) > now);
    }
}

impl Deadlines {
    /// The time of a workload is another, or none any more.
    pub fn set(&mut self, workload: WorkloadIdx, until: Option<Time>) {
        let before = match until {
            Some(until) => self.of.insert(workload, until),
            None => self.of.remove(&workload),
        };
        if let Some(before) = before {
            self.in_order.remove(&(before, workload));
        }
        self.in_order.extend(until.map(|until| (until, workload)));
    }

    /// The time of a workload.
    pub fn of(&self, workload: WorkloadIdx) -> Option<Time> {
        self.of.get(&workload).copied()
    }

    /// Takes out who is due, the longest due first.
    pub fn take_due(&mut self, now: Time) -> Vec<WorkloadIdx> {
        let mut due = Vec::new();
        while let Some((_, workload)) = self.first().filter(|(at, _)| *at <= now) {
            self.set(workload, None);
            due.push(workload);
        }
        due
    }

    /// Whether nobody has a time.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// All that have a time, the first due first.
    pub fn in_order(&self) -> impl Iterator<Item = WorkloadIdx> {
        self.in_order.iter().map(|(_, workload)| *workload)
    }

    /// Who is due first.
    pub fn first(&self) -> Option<(Time, WorkloadIdx)> {
        self.in_order.first().copied()
    }
}

impl Engine {
    /// When time alone will change something.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let delayed = self.delayed.first().map(|(at, _)| at);
        let deadline = self.deadlines.first().map(|(at, _)| at);
        let timeout = self.state.policy.recovery_timeout;
        let in_part = self.state.in_part.keys();
        let since = in_part.filter_map(|workload| self.state.in_part_since(*workload)).min();
        let overdue = timeout.and_then(|timeout| Some(since?.plus(timeout)));
        let prepared = self.volumes_due().into_iter().chain(self.devices_due());
        let prepared = prepared.chain(self.state.room.devices.next_lapse());
        let again = self.holds_due();
        let up = self.coming_up.due().into_iter().chain(self.reservations_due());
        let due = delayed.into_iter().chain(deadline).chain(overdue).chain(prepared);
        let (rested, spent) = (self.state.turns.due(), self.spending_due());
        let due = due.chain(again).chain(up).chain(rested).chain(spent);
        let due = due.chain(self.state.lasting.due());
        due.chain(self.looks.due()).min()
    }

    /// Carries out what is due.
    pub(super) fn wake_in_time(&mut self, now: Time) {
        for workload in self.delayed.take_due(now) {
            let entry = self.state.workloads.get(workload);
            if entry.is_some_and(|it| it.requeue.not_before.is_none_or(|until| until <= now)) {
                self.state.workloads[workload].requeue.not_before = None;
                self.refile(workload, now);
            }
        }
        if self.state.turns.forget(now) {
            self.waiting.wake(|_| true, |wake| wake.quota);
        }
        self.expose_overrun(now);
        self.arrivals.forget(now, self.state.policy.resume_timeout);
        let mut changes = Changes::default();
        let mut due = self.deadlines.take_due(now);
        due.retain(|workload| self.state.workloads.get(*workload).is_some());
        self.state.in_queue_order(&mut due);
        for workload in due {
            self.stop_keeping(now, workload, &mut changes);
        }
        self.give_up_on_volumes(now, &mut changes);
        self.give_up_on_devices(now, &mut changes);
        self.stop_what_stays_in_part(now, &mut changes);
        self.stop_what_is_due(now, &mut changes);
        if !changes.dirty.is_empty() {
            self.take_in_changes(now, changes);
        }
    }

    /// Derives and files what was changed outside of a batch of facts.
    pub(super) fn take_in_changes(&mut self, now: Time, mut changes: Changes) {
        self.state.derive(&mut changes);
        for gone in std::mem::take(&mut changes.gone) {
            self.forget(gone);
        }
        for workload in std::mem::take(&mut changes.dirty) {
            if self.state.workloads.get(workload).is_some() {
                self.refile(workload, now);
            }
        }
        // Who took a kept place over by that is bound with the next facts.
        let came = changes.arrived.iter().filter_map(|pod| self.state.pods.get(*pod)?.workload);
        self.unsent_while_stopped.extend(came);
        self.waiting.wake(|_| true, |wake| wake.room);
        self.wake_queues(&changes.queues);
    }

    /// Keeps places no longer for pods of a resumed owner that did not come.
    fn stop_keeping(&mut self, now: Time, workload: WorkloadIdx, changes: &mut Changes) {
        let entry = &self.state.workloads[workload];
        if entry.kept_until.is_none_or(|until| until > now) || entry.state == State::Evicting {
            return;
        }
        let held = entry.assignment.as_ref().map(|held| held.at);
        let came = self.state.pods_came(workload);
        if !came && (self.still_resumes(workload) || self.its_pods_leave(workload)) {
            return self.keep_on(now, workload);
        }
        if let Some(last) = held.and_then(|at| self.arrivals.last_of(at)) {
            return self.keep_since(last, workload);
        }
        if !came {
            return self.suspend_again(now, workload, changes);
        }
        self.state.workloads[workload].kept_until = None;
        changes.dirty.insert(workload);
    }

    /// Whether it is still to be resumed: that waits for its turn, or for its answer. The time of
    /// its pods begins with that.
    fn still_resumes(&mut self, workload: WorkloadIdx) -> bool {
        let suspended = self.state.owner_of(workload).is_some_and(|owner| owner.suspended);
        let effect = self.state.workloads[workload].owner_effect.filter(|_| suspended);
        let Some(effect) = effect else { return false };
        let Some(InFlight::Resume(_, late)) = self.inflight.get_mut(&effect) else { return false };
        *late = true;
        true
    }

    /// Whether pods of an earlier run of an owner are still there: some owners make no others
    /// before those have gone (a Job's `podReplacementPolicy: Failed`).
    fn its_pods_leave(&self, workload: WorkloadIdx) -> bool {
        let id = &self.state.workloads[workload].id;
        let GangKey::Owner(uid, run) = &id.key else { return false };
        let of = |run: u32| {
            let key = GangKey::Owner(uid.clone(), run);
            let id = WorkloadId { namespace: id.namespace.clone(), key };
            self.state.workload_by_id.get(&id)
        };
        let earlier = (0..*run).rev().filter_map(of);
        let mut pods = earlier.flat_map(|workload| &self.state.workloads[*workload].members);
        pods.any(|pod| {
            let pod = &self.state.pods[*pod];
            !pod.kept() && !pod.phase.terminal()
        })
    }

    /// Places are kept for the pods of a resumed owner from now on.
    pub(super) fn keep_on(&mut self, now: Time, workload: WorkloadIdx) {
        self.keep_since(now, workload);
    }

    fn keep_since(&mut self, begin: Time, workload: WorkloadIdx) {
        let until = begin.plus(self.state.time_to_appear(workload));
        self.state.workloads[workload].kept_until = Some(until);
        self.deadlines.set(workload, Some(until));
    }

    /// Whether work that is in part is looked after by what looks whether pods come up.
    fn must_come_up(&self, workload: WorkloadIdx) -> bool {
        let held = self.state.workloads[workload].assignment.as_ref();
        self.state.policy.pods_ready.is_some() && held.is_some_and(|held| held.queue.is_some())
    }

    fn suspend_again(&mut self, now: Time, workload: WorkloadIdx, changes: &mut Changes) {
        let waited = self.state.time_to_appear(workload);
        let preemption = self.stopped_for_nobody(now, workload, waited);
        if let Some((owner, preemption)) = self.owner_ref(workload).zip(preemption) {
            self.preemptions.insert(preemption.victim.clone(), preemption.clone());
            self.stopped.push(preemption.clone());
            self.note_stop(now, workload, &preemption);
            let uid = owner.uid.clone();
            let requeue = Box::new(self.requeue_note(now, workload, &preemption));
            let action = Action::SuspendOwner { owner, preemption, requeue };
            self.effect(now, workload, Some(uid), action);
            // Suspended it waits at least for its pause, and by then it is known that it is held.
            if self.spent(workload).is_some() {
                self.ask_to_deactivate(now, workload);
            }
        }
        // Runs before this one failed, too: each pause is longer than the one before.
        let requeue = &mut self.state.workloads[workload].requeue;
        requeue.failures = requeue.failures.max(requeue.unready());
        self.unresume(now, workload, "its pods did not appear in time".into(), changes);
    }

    /// Stops gangs whose missing members found no place for too long, one after the other, the last
    /// in queue order first. Others that can be completed with what those leave that were stopped
    /// before them have that kept for them, and their time begins anew.
    fn stop_what_stays_in_part(&mut self, now: Time, changes: &mut Changes) {
        let Some(timeout) = self.state.policy.recovery_timeout else { return };
        let due = |workload: &WorkloadIdx| {
            let since = self.state.in_part_since(*workload);
            since.is_some_and(|since| since.plus(timeout) <= now)
        };
        let mut overdue: Vec<WorkloadIdx> =
            self.state.in_part.keys().copied().filter(due).collect();
        if overdue.is_empty() {
            return;
        }
        self.state.in_queue_order(&mut overdue);
        changes.dirty.extend(overdue.iter().copied());
        overdue.retain(|workload| self.may_not_stay_in_part(now, *workload));
        // What was stopped for that before and has not left yet.
        let mut gone: Vec<WorkloadIdx> = self.state.in_part.keys().copied().collect();
        gone.retain(|workload| self.state.leaving(*workload));
        loop {
            for kept in self.complete_of_what_leaves(&gone) {
                self.state.in_part.insert(kept, Some(now));
                overdue.retain(|workload| *workload != kept);
            }
            let Some(workload) = overdue.pop() else { return };
            if let Some(preemption) = self.stopped_for_nobody(now, workload, timeout) {
                self.stopped.push(preemption.clone());
                self.evict(now, workload, preemption);
                gone.push(workload);
            }
        }
    }

    /// Whether a gang that was in part for too long is to be stopped; it is not looked at again.
    fn may_not_stay_in_part(&mut self, now: Time, workload: WorkloadIdx) -> bool {
        if self.state.claims.get(workload).is_some() {
            // Room is being made for what it lacks: its time begins once that comes to nothing.
            self.state.in_part.insert(workload, Some(now));
            return false;
        }
        self.state.in_part.insert(workload, None);
        let needs = |pod: PodIdx| self.state.pods[pod].needs_place();
        let waits = self.state.unplaced(workload).any(needs);
        let owned = self.state.owner_of(workload).is_some();
        let lacks = waits || owned && self.state.members_lacking(workload) > 0;
        lacks && !self.must_come_up(workload) && !self.state.leaving(workload)
    }

    /// What stopping a workload is whose members did not all come.
    fn stopped_for_nobody(
        &self,
        now: Time,
        workload: WorkloadIdx,
        waited: Span,
    ) -> Option<Preemption> {
        let placed = self.state.placed(workload).filter(|pod| !self.state.pods[*pod].kept());
        let (have, need) = (placed.count() as u32, self.state.workloads[workload].min_member);
        self.stop_for_nobody(
            now,
            workload,
            PreemptionReason::PodsReadyTimeout { have, need, waited },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_those_before_count_and_of_those_after_do_not() {
        let mut arrivals = Arrivals::default();
        for (of, at) in [(10, 100), (20, 110), (30, 105)] {
            arrivals.note(Time(of), Time(at));
        }
        let last = |arrivals: &Arrivals| [5, 10, 20, 40].map(|of| arrivals.last_of(Time(of)));
        let (first, second) = (Some(Time(100)), Some(Time(110)));
        assert_eq!(last(&arrivals), [None, first, second, second]);
        arrivals.forget(Time(160), Span(55));
        assert_eq!(last(&arrivals), [None, None, second, second]);
    }
}
