//! Work that was admitted and does not come up, and work that ran as long as it may.
//!
//! Problem: quota that is held by pods which never start (their image is not there, their node
//! never gets ready) is lost to everybody, and nothing fails: a kubelet tries for ever.
//!
//! Wanted, as Kueue's `waitForPodsReady` promises: queued work of which too few members have
//! started `timeout` after its admission is stopped and queues again, later each time; so is work
//! that had started and has not been whole for `recovery`. After `limit` such stops in a row its
//! Workload object is deactivated, and it waits for people. Nothing else is admitted in the
//! meantime where `blocks_admission` says so. Work whose runs together held quota for as long as
//! it asked for (`max_runtime`) is deactivated as well.
//!
//! Deactivation is written on the Workload object first. That its work may not run is a fact then,
//! and stops it as it does where people wrote it. A write that is refused is tried again after
//! [`AGAIN`]. A pod of its own has no such object and comes back by nobody: it is stopped.
//!
//! Restart: the patch that suspends an owner says when that was, how often in a row its pods did
//! not come up, and how long it ran; when work took its quota is on its pods. What was whole once
//! and is not any more looks like what never was: it has the whole time anew, so a new engine
//! stops late and never early. Members without an owner are deleted; who makes them all anew makes
//! other work, whose count begins anew.
//!
//! Cost: one look at each workload that changes; what is due is looked up in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::cycle::Entry;
use crate::engine::Engine;
use crate::engine::overdue::Deadlines;
use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::WorkloadIdx;
use crate::model::input::{PodPhase, RequeueNote};
use crate::plan::{Action, Preemption, PreemptionReason, State};
use crate::policy::PodsReady;
use crate::time::{Span, Time};

/// How long after a write that came to nothing the next one is tried.
const AGAIN: Span = Span::seconds(10);

/// Who has to come up, or to end, by when.
#[derive(Debug, Default)]
pub(super) struct ComingUp {
    /// When too few members of admitted work may not have started any more.
    starts: Deadlines,
    /// When work will have run as long as it may.
    ends: Deadlines,
    /// Queued work that holds quota and has not started.
    unready: BTreeSet<WorkloadIdx>,
    /// Whose object is to be deactivated: why, and when that was asked for last.
    deactivated: BTreeMap<WorkloadIdx, (PreemptionReason, Time)>,
}

impl ComingUp {
    /// A workload is gone.
    pub fn forget(&mut self, workload: WorkloadIdx) {
        self.starts.set(workload, None);
        self.ends.set(workload, None);
        self.unready.remove(&workload);
        self.deactivated.remove(&workload);
    }

    /// When time alone will change something.
    pub fn due(&self) -> Option<Time> {
        let first = |deadlines: &Deadlines| deadlines.first().map(|(at, _)| at);
        let again = self.deactivated.values().map(|(_, at)| at.plus(AGAIN)).min();
        first(&self.starts).into_iter().chain(first(&self.ends)).chain(again).min()
    }

    /// Why a workload was deactivated by us.
    pub fn why(&self, workload: WorkloadIdx) -> Option<PreemptionReason> {
        self.deactivated.get(&workload).map(|(why, _)| *why)
    }
}

impl Engine {
    /// Notes by when a workload that changed has to come up, or to end.
    pub(super) fn file_coming_up(&mut self, now: Time, workload: WorkloadIdx) {
        let entry = &self.state.workloads[workload];
        let ready = self.state.policy.pods_ready;
        let held = entry.assignment.as_ref().filter(|_| !entry.pending());
        let queued = held.is_some_and(|held| held.queue.is_some());
        let unready = ready.is_some() && queued && !entry.started;
        let stays = held.filter(|_| entry.state != State::Evicting).map(|held| held.at);
        let starts = ready.zip(stays).filter(|_| unready);
        let starts = starts.and_then(|(ready, at)| self.must_start_by(now, workload, ready, at));
        let left =
            entry.wishes.max_runtime.map(|most| Span((most.0 - entry.requeue.ran().0).max(0)));
        let ends = stays.zip(left).map(|(at, left)| at.plus(left));
        let asked = self.coming_up.deactivated.contains_key(&workload);
        self.coming_up.starts.set(workload, starts.filter(|_| !asked));
        self.coming_up.ends.set(workload, ends.filter(|_| !asked));
        if stays.is_none() {
            self.coming_up.deactivated.remove(&workload);
        }
        match unready {
            true => _ = self.coming_up.unready.insert(workload),
            false => self.came_up(workload),
        }
    }

    /// When a workload that has not started must have, of those that hold quota since `at`.
    fn must_start_by(
        &self,
        now: Time,
        workload: WorkloadIdx,
        ready: PodsReady,
        at: Time,
    ) -> Option<Time> {
        let entry = &self.state.workloads[workload];
        if let Some(since) = entry.requeue.down_since() {
            return ready.recovery.map(|recovery| since.plus(recovery));
        }
        let due = at.plus(ready.timeout);
        // Whether it had started before is not known.
        let anew = || now.plus(ready.recovery.unwrap_or(ready.timeout)).max(due);
        match entry.found_running {
            true => Some(self.coming_up.starts.of(workload).unwrap_or_else(anew)),
            false => Some(due),
        }
    }

    /// A workload has started, or holds nothing: others may be admitted that waited for it.
    fn came_up(&mut self, workload: WorkloadIdx) {
        let blocks = self.state.policy.pods_ready.is_some_and(|ready| ready.blocks_admission);
        if self.coming_up.unready.remove(&workload) && blocks && self.coming_up.unready.is_empty() {
            self.waiting.wake(|_| true, |_| true);
        }
    }

    /// Why queued work is not admitted while other work has not started. An owner that was resumed
    /// before this engine decided anything was.
    pub(crate) fn kept_out(&self, head: &Entry) -> Option<Reason> {
        self.state.policy.pods_ready.filter(|ready| ready.blocks_admission)?;
        let resumed = self.resumed_before.contains(&head.workload);
        head.queue.filter(|_| !resumed)?;
        let others = self.coming_up.unready.iter().filter(|other| **other != head.workload);
        let name = |other: &WorkloadIdx| self.state.workloads[*other].full_name.clone();
        let first = others.map(name).min()?;
        Some(Reason::AwaitsOthers { workload: first })
    }

    /// Stops what did not come up, and asks for the end of what ran as long as it may.
    pub(super) fn stop_what_is_due(&mut self, now: Time, changes: &mut Changes) {
        let mut late = Vec::new();
        while let Some((_, due)) = self.coming_up.starts.first().filter(|(at, _)| *at <= now) {
            self.coming_up.starts.set(due, None);
            late.push(due);
        }
        self.state.in_queue_order(&mut late);
        for workload in late {
            self.stop_unready(now, workload, changes);
        }
        let mut over = Vec::new();
        while let Some((_, due)) = self.coming_up.ends.first().filter(|(at, _)| *at <= now) {
            self.coming_up.ends.set(due, None);
            over.push(due);
        }
        self.state.in_queue_order(&mut over);
        for workload in over {
            if let Some(limit) = self.state.workloads[workload].wishes.max_runtime {
                let why = PreemptionReason::MaximumExecutionTimeExceeded { limit };
                self.deactivate(now, workload, why, changes);
            }
        }
        let again = self.coming_up.deactivated.iter();
        let again = again.filter(|(_, (_, at))| at.plus(AGAIN) <= now);
        let again: Vec<_> = again.map(|(workload, (why, _))| (*workload, *why)).collect();
        for (workload, why) in again {
            self.deactivate(now, workload, why, changes);
        }
    }

    fn stop_unready(&mut self, now: Time, workload: WorkloadIdx, changes: &mut Changes) {
        let Some(ready) = self.state.policy.pods_ready else { return };
        if self.state.leaving(workload) {
            return;
        }
        let entry = &self.state.workloads[workload];
        let stops = entry.requeue.unready();
        if ready.requeuing.limit.is_some_and(|limit| stops >= limit) {
            let why = PreemptionReason::RequeuingLimitExceeded { stops };
            return self.deactivate(now, workload, why, changes);
        }
        let runs = |pod: &&_| self.state.pods[**pod].phase == PodPhase::Running;
        let started = entry.members.iter().filter(runs).count() as u32;
        let (need, since) = (entry.min_member, entry.requeue.down_since());
        let held = entry.assignment.as_ref().map_or(now, |held| held.at);
        let waited = now.since(since.unwrap_or(held));
        let fell = since.is_some();
        let why = PreemptionReason::PodsNotReady { started, need, waited, fell };
        self.stop_now(now, workload, why, changes);
    }

    /// Has the object of a workload deactivated; a pod of its own is stopped at once.
    fn deactivate(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        why: PreemptionReason,
        changes: &mut Changes,
    ) {
        let entry = &self.state.workloads[workload];
        if self.state.leaving(workload) {
            return;
        }
        if entry.lone() {
            return self.stop_now(now, workload, why, changes);
        }
        let (namespace, name) = (entry.id.namespace.clone(), entry.name.clone());
        self.coming_up.deactivated.insert(workload, (why, now));
        self.effect(now, workload, None, Action::Deactivate { namespace, name });
    }

    fn stop_now(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        why: PreemptionReason,
        changes: &mut Changes,
    ) {
        changes.dirty.insert(workload);
        let stop = self.stop_for_nobody(now, workload, why);
        self.stopped.extend(stop.clone());
        stop.into_iter().for_each(|stop| self.evict(now, workload, stop));
    }

    /// What the next run of a workload has to know that is being stopped.
    pub(crate) fn requeue_note(
        &self,
        now: Time,
        workload: WorkloadIdx,
        stop: &Preemption,
    ) -> RequeueNote {
        use PreemptionReason::{
            Deactivated, MaximumExecutionTimeExceeded, PodsNotReady, PodsReadyTimeout,
            RequeuingLimitExceeded,
        };
        let entry = &self.state.workloads[workload];
        let held = entry.assignment.as_ref().map(|held| now.since(held.at).0.max(0));
        let ran = Span(entry.requeue.ran().0.saturating_add(held.unwrap_or(0)));
        let note = RequeueNote { at: now, unready: entry.requeue.unready(), not_before: None, ran };
        match (stop.reason, self.state.policy.pods_ready) {
            (PodsNotReady { .. } | PodsReadyTimeout { .. }, Some(ready)) => {
                let unready = note.unready.saturating_add(1);
                let not_before = Some(now.plus(ready.requeuing.wait(unready)));
                RequeueNote { unready, not_before, ..note }
            }
            // Whoever activates it again wants all of it anew.
            (
                Deactivated | RequeuingLimitExceeded { .. } | MaximumExecutionTimeExceeded { .. },
                _,
            ) => RequeueNote { unready: 0, ran: Span(0), ..note },
            _ => note,
        }
    }
}
