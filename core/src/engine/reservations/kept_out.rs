//! Starts that heads of strict queues keep others from.
//!
//! Problem: a start is found from what ends. It does not come if somebody stands before the head in
//! a strict queue, which starts nobody else, or if the head of a strict queue, of which nobody can
//! tell when it starts, keeps back quota until then. Everybody else would be held for it, for ever.
//!
//! Wanted: nothing is kept for such a start; it is as if there were no reservations.
//!
//! Phases: of a strict queue only the head has a start reserved. Who comes to stand before it, and
//! starts at once, takes nothing of that; who is refused takes it: it has a start reserved in its
//! stead, or the queue has none. When a start is searched, or looked at again in the turn of its
//! head, it is played beside what heads of strict queues that were settled before keep back in this
//! round; what others keep back is nothing that lasts, as they are parked. A start that does not
//! come because of that is put off to the first that does; where there is none it is given up, and
//! none is forecast. Whoever may have one again is looked at when what it lacks comes free, as
//! always.
//!
//! Restart: nothing is kept. Cost: a play or two more for each start that is looked at while the
//! head of a strict queue keeps something back.

use super::{Slot, Starter};
use crate::cycle::Entry;
use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::state::Held;
use crate::model::workload::QueueRef;
use crate::plan::State;

impl Engine {
    /// Whether a workload still waits in the queue in which its start was reserved, and may begin
    /// there: while the budget of that queue is spent nothing is kept for it.
    pub(super) fn still_waits(&self, slot: Slot) -> bool {
        let Some(entry) = self.state.workloads.get(slot.workload) else { return false };
        let same = match entry.queue {
            QueueRef::Queue(queue) => slot.queue == Some(queue),
            QueueRef::Unqueued => slot.queue.is_none(),
            QueueRef::Broken(_) => false,
        };
        let waits = entry.state == State::Queued && self.waiting.contains(slot.workload);
        same && waits && self.overspent_for(slot.queue, slot.workload).is_none()
    }

    /// A head of a strict queue is refused, and has no start reserved: whoever stands behind it in
    /// that queue has none either.
    pub(super) fn give_up_behind(&mut self, entry: &Entry) {
        if !self.strict(entry.queue) || self.reservations.of(entry.workload).is_some() {
            return;
        }
        let kept = self.reservations.iter().map(|kept| kept.slot);
        let mut of_queue = kept.filter(|slot| slot.queue == entry.queue);
        let behind = of_queue.next().map(|slot| slot.workload);
        drop(of_queue);
        if let Some(behind) = behind {
            self.reservations.give_up(behind);
            self.mark(behind);
        }
    }

    /// A head that would start finds its quota kept back. Where it is by others than heads of
    /// strict queues it has its turn again in the next round.
    pub(crate) fn note_kept_out(&mut self, entry: &Entry) {
        if !self.kept_by_strict_heads().is_empty() {
            self.put_off_kept_out(entry.workload);
            self.give_up_behind(entry);
        }
    }

    /// A head whose turn it is finds its quota kept back, maybe by heads of strict queues: where
    /// its start does not come because of that it is put off to one that does, or else given up.
    pub(super) fn put_off_kept_out(&mut self, workload: WorkloadIdx) {
        let Some(slot) = self.reservations.slot_of(workload) else { return };
        if self.kept_by_strict_heads().is_empty() {
            return;
        }
        let start = slot.start.max(self.state.now);
        let freely = self.starter_at(&slot);
        let (others, _) = self.slots_before(&freely, None);
        let ends = self.believed_for(&others, Some(workload));
        let who = Starter { beside: true, ..freely.clone() };
        let comes = self.fits_at(&ends, &others, &who, start).is_some();
        if comes || self.fits_at(&ends, &others, &freely, start).is_none() {
            return;
        }
        let times = self.times(&ends, &others, slot.queue);
        let later = &times[times.partition_point(|time| *time <= start)..];
        let anyhow = Starter { borrowing: u32::MAX, ..who.clone() };
        let found = self.earliest(&ends, &others, &who, later);
        let found = found.or_else(|| self.earliest(&ends, &others, &anyhow, later));
        match found {
            Some((at, terms)) => {
                // Where it borrows further it stands elsewhere.
                self.reservations.doubtful |= terms.borrowing > slot.borrowing;
                self.put_at(workload, (at, terms.borrowing));
            }
            None => {
                self.reservations.give_up(workload);
                self.mark(workload);
            }
        }
    }

    /// What heads of strict queues kept back in the last round from those who wait in another
    /// queue, whenever they have their turn, but for those who borrow nothing: what heads keep that
    /// borrow nothing themselves.
    pub(super) fn kept_by_owners(&self, queue: Option<QueueIdx>) -> Vec<Held> {
        let quota = &self.state.quota;
        let owns = |held: &Held| {
            quota.queue(held.queue).node.is_some_and(|node| {
                let used = quota.tree.usage(node, held.fr);
                used.saturating_add(held.amount) <= quota.tree.nominal(node, held.fr)
            })
        };
        let strict = |held: &Held| Some(held.queue) != queue && self.strict(Some(held.queue));
        self.standing(None).filter(|held| strict(held) && owns(held)).collect()
    }

    /// What heads of strict queues keep back in this round.
    pub(super) fn kept_by_strict_heads(&self) -> Vec<Held> {
        let held = self.state.held.iter().copied();
        held.filter(|held| held.amount > 0 && self.strict(Some(held.queue))).collect()
    }
}
