//! Starts that heads of strict queues keep others from.
//!
//! Problem: a start is found from what ends. It does not come if somebody stands before the head in
//! a strict queue, which starts nobody else, or if the head of a strict queue, of which nobody can
//! tell when it starts, keeps back quota until then. Everybody else would be held for it, for ever.
//!
//! Wanted: nothing is kept for such a start; it is as if there were no reservations.
//!
//! Phases: of a strict queue only the head has a start reserved, and loses it to whoever comes to
//! stand before it. When a start is found, or looked at again in the turn of its head, it is played
//! beside what heads of strict queues that were settled before keep back in this round; what others
//! keep back is nothing that lasts, as they are parked. A start that is due and kept back is given
//! up, and none is forecast. Whoever may have it again is looked at when what it lacks comes free,
//! as always.
//!
//! Restart: nothing is kept. Cost: one play more for each start that is found or looked at while
//! somebody keeps something back.

use super::{Slot, Starter};
use crate::cycle::Entry;
use crate::engine::Engine;
use crate::explain::obstacles::told;
use crate::explain::reason::Reason;
use crate::model::ids::WorkloadIdx;
use crate::model::state::Held;
use crate::model::workload::QueueRef;
use crate::plan::State;
use crate::time::Time;

impl Engine {
    /// Whether a workload still waits in the queue in which its start was reserved, and may begin
    /// there: while the budget of that queue is spent, or others stand before it, nothing is.
    pub(super) fn still_waits(&self, slot: Slot) -> bool {
        let Some(entry) = self.state.workloads.get(slot.workload) else { return false };
        let same = match entry.queue {
            QueueRef::Queue(queue) => slot.queue == Some(queue),
            QueueRef::Unqueued => slot.queue.is_none(),
            QueueRef::Broken(_) => false,
        };
        let waits = entry.state == State::Queued && self.waiting.contains(slot.workload);
        let in_front = same && waits && self.stands_in_front(slot);
        in_front && self.overspent_for(slot.queue, slot.workload).is_none()
    }

    /// Whether nobody stands before a head whom it may not pass.
    fn stands_in_front(&self, slot: Slot) -> bool {
        let first = || self.waiting.head(slot.queue) == Some(slot.workload);
        !self.strict(slot.queue) || first()
    }

    /// Whether a start that was found for somebody whose turn it is does not come, because of what
    /// heads of strict queues that were settled before keep back.
    pub(super) fn is_kept_out(
        &mut self,
        who: &Starter,
        start: Time,
        instead: Option<WorkloadIdx>,
    ) -> bool {
        if self.kept_by_strict_heads().is_empty() {
            return false;
        }
        let &Starter { queue, workload, .. } = who;
        let (mut slots, _) = self.slots_before(who, instead);
        let ends = self.believed_for(&slots, Some(workload));
        self.put_in(&mut slots, Slot { workload, queue, start, borrowing: u32::MAX });
        self.counts.forecasts += 1;
        self.play_beside(&ends, &slots, Some(workload)).is_err() && self.play(&ends, &slots).is_ok()
    }

    /// A head finds its quota kept back by heads that were settled before it: if that lasts, its
    /// start is given up.
    pub(crate) fn give_up_kept_out(&mut self, entry: &Entry) {
        let Some(queue) = entry.queue else { return };
        if self.reservations.of(entry.workload).is_none() {
            return;
        }
        let lasting = self.kept_by_strict_heads();
        let all = self.state.let_go();
        lasting.into_iter().for_each(|held| self.state.hold(held));
        let quota = &self.state.quota;
        let node = quota.queue(queue).node.expect("only existing queues have heads");
        let mut usage = entry.choice.usage.iter();
        let kept_out = usage.any(|(fr, asked)| *asked > quota.tree.available(node, *fr));
        self.state.let_go();
        all.into_iter().for_each(|held| self.state.hold(held));
        if kept_out {
            self.reservations.give_up(entry.workload);
            self.mark(entry.workload);
        }
    }

    /// Whether the head of a strict queue keeps back what somebody lacks: until when nobody knows.
    pub(super) fn waits_for_a_strict_head(&self, workload: WorkloadIdx) -> bool {
        let Some(Reason::HeldBack { queue, .. }) = self.waiting.why(workload).map(told) else {
            return false;
        };
        self.strict(self.state.quota.find_queue(queue))
    }

    /// What heads of strict queues keep back in this round.
    pub(super) fn kept_by_strict_heads(&self) -> Vec<Held> {
        let held = self.state.held.iter().copied();
        held.filter(|held| held.amount > 0 && self.strict(Some(held.queue))).collect()
    }
}
