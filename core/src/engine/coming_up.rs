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
//! A member has started when it runs and does not say that it is not ready: one that fails its
//! readiness probe, or whose node does not answer, has not. Members that ended well and that nobody
//! makes again are not waited for.
//!
//! Deactivation is written on the Workload object first. That its work may not run is a fact then,
//! and stops it as it does where people wrote it. What is refused, a stop or a write, is tried
//! again after [`AGAIN`]. A pod of its own has no such object and comes back by nobody: it is
//! stopped.
//!
//! Restart: the patch that suspends an owner says when that was, how often in a row its pods did
//! not come up, and how long it ran; when work took its quota is on its pods. What was admitted
//! longer ago than it had to start, and of which some member has started or was made later, must
//! have started: it has its time to recover anew. What lost members sooner than that, or all of
//! them, looks as if it had never started, and is stopped when it had to.
//! Members without an owner are deleted; who makes them all anew makes other work, whose count
//! begins anew.
//!
//! Cost: one look at each workload that changes; what is due is looked up in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::engine::overdue::Deadlines;
use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::{PodPhase, RequeueNote, StopKind, Text};
use crate::model::workload::QueueRef;
use crate::plan::{Action, Preemption, PreemptionReason, State};
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
    /// When a stop was asked for last, of those that hold quota still.
    asked: BTreeMap<WorkloadIdx, Time>,
    /// Whose object is to be deactivated: why, and when that was asked for last.
    deactivated: BTreeMap<WorkloadIdx, (PreemptionReason, Time)>,
}

impl ComingUp {
    /// Whether nothing is waited for.
    fn is_idle(&self) -> bool {
        let timed = !self.starts.is_empty() || !self.ends.is_empty();
        !timed && self.unready.is_empty() && self.asked.is_empty() && self.deactivated.is_empty()
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
        let ready = self.state.policy.pods_ready;
        let bounded = self.state.workloads[workload].wishes.max_runtime.is_some();
        if ready.is_none() && !bounded && self.coming_up.is_idle() {
            return;
        }
        self.infer_that_it_came_up(now, workload);
        let entry = &self.state.workloads[workload];
        let stays = !entry.pending() && !self.state.leaving(workload);
        let held = entry.assignment.as_ref().filter(|_| stays).map(|held| (held.at, held.queue));
        let queued = held.is_some_and(|(_, queue)| queue.is_some());
        let unready = ready.is_some() && queued && !entry.up && entry.state != State::Finished;
        let starts = ready.zip(held).filter(|_| unready).and_then(|(ready, (at, _))| {
            match entry.requeue.down_since() {
                Some(since) => ready.recovery.map(|recovery| since.plus(recovery)),
                None => Some(at.plus(ready.timeout)),
            }
        });
        let asked = self.coming_up.asked.get(&workload).map(|at| at.plus(AGAIN));
        let starts = starts.map(|due| due.max(asked.unwrap_or(due)));
        let most = entry.wishes.max_runtime;
        let left = most.map(|most| Span((most.0 - entry.requeue.ran().0).max(0)));
        let ends = held.zip(left).map(|((at, _), left)| at.plus(left));
        let gone = entry.assignment.is_none();
        let holds = |why: &PreemptionReason| match why {
            PreemptionReason::RequeuingLimitExceeded { .. } => starts.is_some(),
            _ => ends.is_some(),
        };
        let up = &mut self.coming_up;
        if up.deactivated.get(&workload).is_some_and(|(why, _)| !holds(why)) {
            up.deactivated.remove(&workload);
        }
        if gone {
            up.asked.remove(&workload);
        }
        let asked = up.deactivated.contains_key(&workload);
        up.starts.set(workload, starts.filter(|_| !asked));
        up.ends.set(workload, ends.filter(|_| !asked));
        match unready {
            true => _ = up.unready.insert(workload),
            false => self.came_up(workload),
        }
    }

    /// What an engine before this one admitted longer ago than it had to start, and of which some
    /// member has started, had started, or it would have been stopped: it has its time to recover
    /// from now on. So does what has members that were made after it had to start. Nobody may have
    /// been there to stop what has neither: it is due.
    fn infer_that_it_came_up(&mut self, now: Time, workload: WorkloadIdx) {
        let Some(ready) = self.state.policy.pods_ready else { return };
        let entry = &self.state.workloads[workload];
        let due = entry.assignment.as_ref().map(|held| held.at.plus(ready.timeout));
        let Some(due) = due.filter(|due| *due <= now) else { return };
        let known = self.coming_up.starts.of(workload).is_some();
        let found = entry.found_running && !known && !entry.came_up && !entry.pending();
        let tells = |pod: &PodIdx| {
            let pod = &self.state.pods[*pod];
            pod.phase != PodPhase::Pending || pod.created > due
        };
        if found && entry.members.iter().any(tells) {
            let entry = &mut self.state.workloads[workload];
            entry.came_up = true;
            entry.requeue.came_up();
            entry.requeue.fell(now);
        }
    }

    /// A workload has started, or holds nothing: others may be admitted that waited for it.
    fn came_up(&mut self, workload: WorkloadIdx) {
        let blocks = self.state.policy.pods_ready.is_some_and(|ready| ready.blocks_admission);
        let last = self.coming_up.unready.remove(&workload) && self.coming_up.unready.is_empty();
        if last && blocks {
            self.waiting.wake(|_| true, |_| true);
        }
    }

    /// A workload is gone.
    pub(super) fn gave_up_coming(&mut self, workload: WorkloadIdx) {
        self.came_up(workload);
        self.coming_up.starts.set(workload, None);
        self.coming_up.ends.set(workload, None);
        self.coming_up.asked.remove(&workload);
        self.coming_up.deactivated.remove(&workload);
    }

    /// Why queued work is not admitted while other work has not started. An owner that was resumed
    /// before this engine decided anything was.
    pub(crate) fn kept_out(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> Option<Reason> {
        let first = self.keeps_out(queue, workload).min()?;
        Some(Reason::AwaitsOthers { workload: first.clone() })
    }

    /// Who all has to start before queued work is admitted, by name.
    pub(super) fn names_of_unready(&self, workload: WorkloadIdx) -> Vec<Text> {
        let queue = match self.state.workloads[workload].queue {
            QueueRef::Queue(queue) => Some(queue),
            _ => None,
        };
        let mut names: Vec<Text> = self.keeps_out(queue, workload).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Work that was admitted and keeps other work out until it has started. In a try that takes
    /// some of it away that has places, the rest.
    fn keeps_out(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> impl Iterator<Item = &Text> {
        let blocks = self.state.policy.pods_ready.is_some_and(|ready| ready.blocks_admission);
        let kept = blocks && queue.is_some() && !self.resumed_before.contains(&workload);
        let others = kept.then(|| self.coming_up.unready.iter()).into_iter().flatten();
        let stays = move |other: &&WorkloadIdx| {
            let state = self.state.workloads[**other].state;
            let settled = matches!(state, State::Running | State::Binding);
            let there = !settled || self.state.placed(**other).next().is_some();
            there && **other != workload
        };
        others.filter(stays).map(move |other| &self.state.workloads[*other].full_name)
    }

    /// Whether work that did not come up again is to be held, rather than to queue again.
    pub(super) fn spent(&self, workload: WorkloadIdx) -> Option<PreemptionReason> {
        let limit = self.state.policy.pods_ready?.requeuing.limit?;
        let stops = self.state.workloads[workload].requeue.unready();
        (stops >= limit).then_some(PreemptionReason::RequeuingLimitExceeded { stops })
    }

    /// Stops what did not come up, and asks for the end of what ran as long as it may.
    pub(super) fn stop_what_is_due(&mut self, now: Time, changes: &mut Changes) {
        let mut late = self.coming_up.starts.take_due(now);
        self.state.in_queue_order(&mut late);
        for workload in late {
            self.stop_unready(now, workload, changes);
        }
        let mut over = self.coming_up.ends.take_due(now);
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
        if self.state.leaving(workload) || self.state.workloads[workload].up {
            return;
        }
        if let Some(why) = self.spent(workload) {
            return self.deactivate(now, workload, why, changes);
        }
        let entry = &self.state.workloads[workload];
        let runs = |pod: &&_| self.state.pods[**pod].phase == PodPhase::Running;
        let ready = entry.members.iter().filter(runs).count() as u32;
        let (need, since) = (entry.min_member, entry.requeue.down_since());
        let held = entry.assignment.as_ref().map_or(now, |held| held.at);
        let waited = now.since(since.unwrap_or(held));
        let fell = since.is_some();
        let why = PreemptionReason::PodsNotReady { ready, need, waited, fell };
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
        if self.state.leaving(workload) {
            self.coming_up.deactivated.remove(&workload);
            return;
        }
        if self.state.workloads[workload].lone() {
            return self.stop_now(now, workload, why, changes);
        }
        self.coming_up.deactivated.insert(workload, (why, now));
        self.ask_to_deactivate(now, workload);
    }

    /// Has it written on the object of a workload that it may not run.
    pub(super) fn ask_to_deactivate(&mut self, now: Time, workload: WorkloadIdx) {
        let entry = &self.state.workloads[workload];
        let (namespace, name) = (entry.id.namespace.clone(), entry.name.clone());
        self.effect(now, workload, None, Action::Deactivate { namespace, name });
    }

    fn stop_now(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        why: PreemptionReason,
        changes: &mut Changes,
    ) {
        self.coming_up.asked.insert(workload, now);
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
        let before = entry.requeue.unready();
        let stops = entry.requeue.stopped_for().with(StopKind::of(stop.reason));
        let note = RequeueNote { at: now, unready: before, ran, stops, ..RequeueNote::default() };
        let unready = before.saturating_add(1);
        let waits = |pause: Span| {
            let (unready_at, not_before) = (Some(now), Some(now.plus(pause)));
            RequeueNote { unready, unready_at, not_before, ..note }
        };
        match (stop.reason, self.state.policy.pods_ready) {
            (PodsNotReady { .. } | PodsReadyTimeout { .. }, Some(ready)) => {
                waits(ready.requeuing.wait(unready))
            }
            // None of them could be made: as with all that fails, that is tried again later.
            (PodsReadyTimeout { have: 0, .. }, None) => waits(self.pause_after(before)),
            // Whoever activates it again wants all of it anew.
            (
                Deactivated | RequeuingLimitExceeded { .. } | MaximumExecutionTimeExceeded { .. },
                _,
            ) => RequeueNote { unready: 0, ran: Span(0), ..note },
            // It returns to the place that it had before any stop.
            _ => note,
        }
    }
}
