//! Extra members of work without a queue, and who waits until others have left.
//!
//! Problem: extra members take what is idle. Where others are being stopped, work of higher
//! priority may wait for more of what those hold than was promised, their quota most of all. Nobody
//! keeps room for it until they have left. It may lack by then what extra members took, and stops
//! what has no queue for that: a gang that grew leaves whole a moment later.
//!
//! Decides, with extra members in their places and all those gone who leave for others, whether
//! anybody who goes before their gang would stop work without a queue: then they wait until those
//! have left and that work has started, or waits no more. Claims stay as they are: those leave for
//! them. Who is being stopped, queues again and goes before the gang might do so, too. Where that
//! will find room depends on who starts meanwhile, so it is not searched: they wait the seconds
//! until it has gone, and then it has its turn before them. What has a queue is asked what it
//! borrows ([`extras`](super::extras)). When what runs ends by itself nobody knows, so nobody waits
//! for that.
//!
//! Each who waits is asked by itself: of two who would start then, and not both beside the extra
//! members, nothing is said.
//!
//! Who waits for that is looked at again in each round that decides something, and whenever facts
//! change what waits or free anything: who leaves at last frees what it had.
//!
//! Restart: claims are made again before extra members are looked at. Cost: nothing while nobody
//! leaves for others, or nobody waits who goes before the gang; else for each gang a nomination of
//! each of [`KINDS_MAX`] kinds of work that waits and of gangs that lack members, the first in
//! queue order; then for each member, or replica, one for those of them that would start.

use crate::cycle::reclaimers::KINDS_MAX;
use crate::cycle::{Head, Verdict};
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;

impl Engine {
    /// For whom work without a queue would be stopped once those have left who leave for others,
    /// beside extra members of such a gang that have their places. `asked`: who may do that, once
    /// looked up.
    pub(super) fn stopped_once_gone(
        &mut self,
        gang: WorkloadIdx,
        asked: &mut Option<Vec<Head>>,
    ) -> Option<Reason> {
        let held = self.state.workloads[gang].assignment.as_ref()?;
        if held.queue.is_some() || self.state.claims.is_empty() {
            return None;
        }
        let gone = self.state.claims.victims();
        if gone.is_empty() {
            return None;
        }
        let mut waiting = match asked.take() {
            Some(waiting) => waiting,
            None => self.who_goes_before(gang),
        };
        let by = self.first_to_stop_once(&gone, &mut waiting);
        *asked = Some(waiting);
        let by = by.or_else(|| self.first_to_queue_again(gang, &gone));
        let (queue, head) = by?;
        Some(Reason::InTheWay {
            head: self.state.workloads[head].full_name.clone(),
            queue: queue.map(|queue| self.state.quota.queue(queue).name.clone()),
            leaving: gone.len() as u32,
            waits: self.waits_how(head),
        })
    }

    /// The first of those who leave that queues again and goes before a gang.
    fn first_to_queue_again(&self, gang: WorkloadIdx, gone: &[WorkloadIdx]) -> Option<Head> {
        let (state, priority) = (&self.state, self.state.workloads[gang].priority);
        let before = |victim: &WorkloadIdx| {
            let victim = &state.workloads[*victim];
            victim.priority > priority && !victim.never_preempts
        };
        let again = gone.iter().copied().filter(before).filter(|it| self.queues_again(*it));
        let first = again.min_by(|a, b| state.queue_order(*a).cmp(&state.queue_order(*b)))?;
        match state.workloads[first].queue {
            QueueRef::Queue(queue) => Some((Some(queue), first)),
            QueueRef::Unqueued => Some((None, first)),
            QueueRef::Broken(_) => None,
        }
    }

    /// Of each kind of work that waits, and of each kind of gang whose members do, the first, where
    /// it goes before a gang and may stop others, in queue order: of a strict queue its head only.
    fn who_goes_before(&mut self, gang: WorkloadIdx) -> Vec<Head> {
        let mut found = self.first_joiners();
        let state = &self.state;
        for (queue, mut firsts) in self.waiting.firsts() {
            let slot = queue.map(|queue| state.quota.queue(queue));
            if slot.is_some_and(|slot| slot.facts.is_none() || slot.inactive.is_some()) {
                continue;
            }
            state.in_queue_order(&mut firsts);
            if self.strict(queue) {
                firsts.truncate(1);
            }
            found.extend(firsts.into_iter().map(|head| (queue, head)));
        }
        let priority = state.workloads[gang].priority;
        found.retain(|(_, other)| {
            let other = &state.workloads[*other];
            other.priority > priority && !other.never_preempts
        });
        found.sort_by(|a, b| state.queue_order(a.1).cmp(&state.queue_order(b.1)));
        found.truncate(KINDS_MAX);
        found
    }

    /// The first of those who wait that would stop work without a queue once these have left. Who
    /// would not start then is asked no more.
    fn first_to_stop_once(
        &mut self,
        gone: &[WorkloadIdx],
        waiting: &mut Vec<Head>,
    ) -> Option<Head> {
        if waiting.is_empty() {
            return None;
        }
        // What heads keep back they keep for themselves.
        let kept = self.state.let_go();
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(gone.iter().copied());
        let aside = txn.set_aside();
        let mut by = None;
        waiting.retain(|head| {
            if by.is_some() {
                return true;
            }
            let stops = self.would_stop_unqueued(head.1);
            by = (stops == Some(true)).then_some(*head);
            stops.is_some()
        });
        drop(Txn::take_up(&mut self.state, aside));
        self.state.hold_again(kept);
        by
    }

    /// Whether work that waits, or members of a gang that runs, would stop work without a queue as
    /// things are; `None`: it would not start whoever leaves.
    fn would_stop_unqueued(&mut self, waits: WorkloadIdx) -> Option<bool> {
        let victims: Vec<WorkloadIdx> = match self.waiting.contains(waits) {
            false => self.stopped_for_members(waits),
            true => match self.nominate_afresh(waits).verdict {
                Verdict::Preempt(victims) => victims.iter().map(|it| it.workload).collect(),
                Verdict::Fit => Vec::new(),
                Verdict::Blocked | Verdict::NoFit => return None,
            },
        };
        let unqueued = |victim: &WorkloadIdx| {
            let held = self.state.workloads[*victim].assignment.as_ref();
            held.is_some_and(|held| held.queue.is_none()) && !self.state.leaving(*victim)
        };
        Some(victims.iter().any(unqueued))
    }
}
