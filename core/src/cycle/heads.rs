//! Whose turn it is in a round: the first of every queue.
//!
//! Work that room is being made for stands in no line any more. It is the head of its queue all the
//! same until it starts: of a strict queue nobody who stands behind it passes it, as in Kueue,
//! which looks at such a head again in every cycle; who stands before it does. In other queues the
//! next has its turn.
//!
//! Nothing survives a round. Cost: a look at each queue with something to look at, and at the
//! claims of those that are strict.

use std::cmp::Reverse;

use crate::cycle::Entry;
use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::time::Time;

/// The first of a queue, or of work without one.
pub(crate) type Head = (Option<QueueIdx>, WorkloadIdx);

impl Engine {
    /// The first workload of every queue that has one to look at.
    pub(super) fn heads(&self) -> impl Iterator<Item = Head> + '_ {
        let queues = self.waiting.active().map(Some);
        let heads = queues.filter_map(|queue| Some((queue, self.waiting.head(queue)?)));
        heads.filter(|(queue, head)| self.preemptor_before(*queue, *head).is_none())
    }

    /// The heads now, that of work without a queue among them, which were not looked at.
    /// `looked_at` stands in order of queues.
    pub(super) fn still_ahead(&self, looked_at: &[Head]) -> impl Iterator<Item = Head> {
        let stray = self.waiting.head(None).map(|head| (None, head));
        self.heads().chain(stray).filter(|head| looked_at.binary_search(head).is_err())
    }

    /// For whom of a strict queue room is being made who stands before some work that waits in it.
    pub(crate) fn preemptor_before(
        &self,
        queue: Option<QueueIdx>,
        waits: WorkloadIdx,
    ) -> Option<WorkloadIdx> {
        if self.state.claims.is_empty() || !self.strict(queue) {
            return None;
        }
        let order = |workload: &WorkloadIdx| self.head_order(queue, *workload);
        let claimants = self.state.claims.of_queue(queue);
        // Who runs stands in no line, though room is being made for more of it.
        let claimants = claimants.filter(|claimant| !self.state.claims_to_join(*claimant));
        let first = claimants.min_by(|a, b| order(a).cmp(&order(b)))?;
        (order(&first) < order(&waits)).then_some(first)
    }

    /// Who is settled first: less borrowing, higher priority, earlier, uid.
    pub(super) fn settling_order(&self, entry: &Entry) -> (u32, (Reverse<i32>, Time, &Text)) {
        (entry.choice.borrowing, self.state.queue_order(entry.workload))
    }
}
