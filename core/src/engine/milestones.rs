//! What work goes through: admitted, ready, stopped, gone, finished. Told with the report of the
//! step in which it happened, for metrics; nothing is decided by it.
//!
//! Wanted: each passage is told once, by the engine that saw it. What a new engine finds running
//! was told by the one before it: from then on it goes on from there, and what was begun before it
//! and cannot be dated (when a stop was asked for) is not told. An engine that only observes keeps
//! count of how far work is and tells nothing.
//!
//! Cost: a byte for each workload and one look when it changes; names are shared, and those who are
//! being stopped have an entry until they are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Engine;
use crate::explain::milestone::{Milestone, Passage, Recomputation, Stop, Whose};
use crate::model::ids::WorkloadIdx;
use crate::model::input::StopKind;
use crate::model::workload::Run;
use crate::plan::{Preemption, PreemptionReason, State};
use crate::time::{Span, Time};

/// What this step has seen, and who is on the way out.
#[derive(Debug, Default)]
pub(super) struct Milestones {
    passed: Vec<Milestone>,
    /// Who was stopped by this engine and still holds something: why, and since when.
    leaving: BTreeMap<WorkloadIdx, (Arc<Whose>, PreemptionReason, Time)>,
    /// Of whom all members ended and whose owner does not say that its work is done: what is told
    /// of them if they go without that.
    ended: BTreeMap<WorkloadIdx, (Arc<Whose>, Span)>,
    /// Whose work was told of last: that of the next one is often the same.
    last: Arc<Whose>,
}

impl Engine {
    /// What was passed since this was last taken.
    pub(super) fn take_milestones(&mut self) -> Vec<Milestone> {
        std::mem::take(&mut self.milestones.passed)
    }

    /// A workload was admitted. Of one whose owner runs because it was resumed that was told then,
    /// maybe by an engine before this one: it only gets its places anew. So does one that had begun
    /// and whose owner makes pods after those that ended.
    pub(crate) fn note_admission(&mut self, now: Time, workload: WorkloadIdx) {
        let owner = self.state.owner_of(workload);
        let resumed = owner.is_some_and(|owner| !owner.suspended && owner.admitted.is_some());
        let entry = &self.state.workloads[workload];
        let goes_on = entry.requeue.lost_at().is_some() && self.state.goes_on(&entry.id.key);
        if !resumed && !goes_on {
            let waited = now.since(entry.waits_since());
            self.pass(workload, Passage::Admitted { waited });
        }
        let run = if goes_on { Run::Ready } else { Run::Begun };
        self.state.workloads[workload].run = run;
    }

    /// When an engine before this one admitted what gets its places anew.
    pub(crate) fn admitted_before(&self, workload: WorkloadIdx) -> Option<Time> {
        let comes = self.resumed_before.contains(&workload);
        let owner = self.state.owner_of(workload).filter(|_| comes)?;
        owner.admitted.as_ref()?.admitted_at.filter(|at| *at <= self.state.now)
    }

    /// A workload is stopped.
    pub(super) fn note_stop(&mut self, now: Time, workload: WorkloadIdx, stop: &Preemption) {
        let told = self.stop_to_tell(workload, stop);
        self.pass_stop(workload, now, told);
    }

    /// What is to be told of a stop that is decided on now, and whose it is.
    pub(super) fn stop_to_tell(
        &mut self,
        workload: WorkloadIdx,
        stop: &Preemption,
    ) -> (Arc<Whose>, Stop) {
        let before = self.state.workloads[workload].requeue.stopped_for();
        let first = !before.has(StopKind::of(stop.reason));
        let by = stop.for_another().then(|| self.workload_named(&stop.preemptor)).flatten();
        let by = by.filter(|by| self.state.workloads.get(*by).is_some());
        let preempting = by.and_then(|by| self.queues_of(by).cluster_queue);
        (self.whose(workload), Stop { reason: stop.reason, preempting, first })
    }

    /// A stop came about that was decided on then.
    pub(super) fn pass_stop(
        &mut self,
        workload: WorkloadIdx,
        since: Time,
        (of, stop): (Arc<Whose>, Stop),
    ) {
        self.milestones.leaving.insert(workload, (of.clone(), stop.reason, since));
        self.milestones.passed.push(Milestone { of, what: Passage::Evicted(Box::new(stop)) });
    }

    /// A preemptor was passed over for what others of its round took.
    pub(crate) fn note_skip(&mut self, workload: WorkloadIdx) {
        self.pass(workload, Passage::Skipped);
    }

    /// A preemptor's victims were looked for anew.
    pub(crate) fn note_recomputed(&mut self, workload: WorkloadIdx, came: Recomputation) {
        self.pass(workload, Passage::Recomputed(came));
    }

    /// A workload changed.
    pub(super) fn note_passage(&mut self, now: Time, workload: WorkloadIdx) {
        let stopped = self.milestones.leaving.contains_key(&workload);
        if stopped {
            self.note_whether_left(now, workload);
        }
        let entry = &self.state.workloads[workload];
        let held = entry.assignment.as_ref().map(|held| now.since(held.at));
        let waited = now.since(entry.waits_since());
        let ran = Span(entry.requeue.ran().0.saturating_add(held.unwrap_or_default().0));
        // What was stopped, by whichever engine, has not ended by itself.
        let by_itself = || !stopped && !self.is_marked(workload);
        let goes_on = || self.state.goes_on(&entry.id.key);
        let next = match (entry.run, entry.state) {
            // It may make more pods, and says when its work is done.
            (run, State::Finished) if goes_on() && by_itself() => run,
            (_, State::Finished) => Run::Over,
            (_, State::Gathering | State::Queued | State::Reserved) => Run::Waits,
            (Run::Ready, _) => Run::Ready,
            _ if entry.up => Run::Ready,
            _ if held.is_some() => Run::Begun,
            (run, _) => run,
        };
        let passed = match (entry.run, next) {
            (Run::Begun, Run::Ready) => held.map(|admitted| Passage::Ready { waited, admitted }),
            (Run::Begun | Run::Ready, Run::Over) if by_itself() => Some(Passage::Finished { ran }),
            _ => None,
        };
        let ends = entry.state == State::Finished && matches!(next, Run::Begun | Run::Ready);
        let ends = ends && by_itself();
        self.milestones.ended.remove(&workload);
        if ends {
            let of = self.whose(workload);
            self.milestones.ended.insert(workload, (of, ran));
        }
        self.state.workloads[workload].run = next;
        if let Some(what) = passed {
            self.pass(workload, what);
        }
    }

    /// Who was stopped and holds nothing any more has left; whose stop was refused stays.
    fn note_whether_left(&mut self, now: Time, workload: WorkloadIdx) {
        let entry = &self.state.workloads[workload];
        let holds = entry.assignment.is_some();
        if holds && (entry.evicting.is_some() || entry.state == State::Evicting) {
            return;
        }
        let stopped = self.milestones.leaving.remove(&workload);
        if let Some((of, reason, since)) = stopped.filter(|_| !holds) {
            let what = Passage::Left { reason: Box::new(reason), took: now.since(since) };
            self.milestones.passed.push(Milestone { of, what });
        }
    }

    /// Whether the API shows that a workload was stopped by us.
    fn is_marked(&self, workload: WorkloadIdx) -> bool {
        self.state.marked_pod(workload) || self.state.owner_mark(workload).is_some()
    }

    /// A workload is gone: a stop that was not answered came about, and what had ended is done.
    pub(super) fn note_gone(&mut self, workload: WorkloadIdx) {
        self.stop_came_about(workload);
        if let Some((of, ran)) = self.milestones.ended.remove(&workload) {
            self.milestones.passed.push(Milestone { of, what: Passage::Finished { ran } });
        }
        if let Some((of, reason, since)) = self.milestones.leaving.remove(&workload) {
            let took = self.state.now.since(since);
            let what = Passage::Left { reason: Box::new(reason), took };
            self.milestones.passed.push(Milestone { of, what });
        }
    }

    fn pass(&mut self, workload: WorkloadIdx, what: Passage) {
        let of = self.whose(workload);
        self.milestones.passed.push(Milestone { of, what });
    }

    fn whose(&mut self, workload: WorkloadIdx) -> Arc<Whose> {
        let whose = self.queues_of(workload);
        if *self.milestones.last != whose {
            self.milestones.last = Arc::new(whose);
        }
        self.milestones.last.clone()
    }

    fn queues_of(&self, workload: WorkloadIdx) -> Whose {
        let entry = &self.state.workloads[workload];
        let (queue, class) = (entry.cluster_queue, entry.wishes.priority_class.as_ref());
        // What people misspell makes no series.
        let class = class.filter(|class| self.state.facts.priorities.contains_key(*class));
        let class = class.or(entry.wishes.pod_class.as_ref());
        Whose {
            namespace: entry.id.namespace.clone(),
            local_queue: self.local_queue_of(workload),
            cluster_queue: queue.map(|queue| self.state.quota.queue(queue).name.clone()),
            priority_class: class.cloned(),
        }
    }
}
