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
//! stead, or the queue has none. Wherever starts are played each is played beside what those heads
//! of strict queues keep back that are settled before it: so it is found, so it is kept, and so it
//! is told whom somebody would delay. How much that is, is reckoned by what their queues use then.
//! What others keep back is nothing that lasts, as they are parked. A start that does not come
//! because of what is kept back is put off to the first that does; where there is none it is given
//! up, and none is forecast. Whoever may have one again is looked at when what it lacks comes free,
//! as always. Who fits but for what heads of strict queues keep back is refused like anybody else,
//! and has a start reserved.
//!
//! Who is settled before whom is told by the order of ranks, and for who had a turn by who kept
//! something back then: where shares are compared a round may settle them otherwise. A head that
//! keeps nothing yet, as its queue could not have what it lacks, is not foreseen to keep something
//! later: it goes before those whose starts it puts off then.
//!
//! Restart: nothing is kept. Cost: for each play a look at what is kept back, for each start in it
//! what is kept from it counted and taken away again; nothing where no head of a strict queue keeps
//! anything.

use std::collections::BTreeSet;

use super::ranks::{Standing, Starter};
use super::timetable::Slot;
use crate::cycle::Entry;
use crate::engine::Engine;
use crate::model::held::Held;
use crate::model::ids::{QueueIdx, WorkloadIdx};
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

    /// A head that would start finds its quota kept back. Where heads of strict queues alone keep
    /// it, it may be so for long, and it is as if it were refused. Where others do it has its turn
    /// again in the next round.
    pub(crate) fn note_kept_out(&mut self, entry: &Entry) {
        let strict = self.kept_by_strict_heads();
        if strict.is_empty() {
            return;
        }
        let held = self.state.hold_instead(strict);
        let lasts = !self.quota_still_fits(entry);
        self.state.hold_again(held);
        if lasts {
            self.reserve(entry, true);
        }
    }

    /// A head with a reserved start has its turn: heads of strict queues that keep something back
    /// now were settled before it. Whether they are others than at its last turn.
    pub(super) fn note_keepers(&mut self, workload: WorkloadIdx) -> bool {
        let now = self.settled_keepers();
        let before = match now.is_empty() {
            true => self.reservations.keepers.remove(&workload),
            false => self.reservations.keepers.insert(workload, now.clone()),
        };
        before.unwrap_or_default() != now
    }

    /// Heads of strict queues that keep something back in this round.
    fn settled_keepers(&self) -> BTreeSet<WorkloadIdx> {
        let held = self.state.held.iter();
        held.filter(|held| self.strict(Some(held.queue))).map(|held| held.by).collect()
    }

    /// What each of these reserved starts, in order, finds kept back by heads of strict queues that
    /// are settled before it: by those that stand before it, or were before it at its last turn.
    /// `who` is to start among them. Nothing at all: nobody keeps anything.
    pub(super) fn kept_for_starts(&self, slots: &[Slot], who: Option<&Starter>) -> Vec<Vec<Held>> {
        let kept = self.kept_by_strict_heads();
        if kept.is_empty() {
            return Vec::new();
        }
        let keepers: Vec<(Starter, &[Held])> = self.keepers(&kept).collect();
        let standings = keepers.iter().map(|(keeper, _)| self.standing_of(keeper));
        let standings: Vec<Standing<'_>> = standings.collect();
        let in_turn = who.filter(|who| who.in_turn).map(|who| who.workload);
        let settled = in_turn.map_or_else(BTreeSet::new, |_| self.settled_keepers());
        let root = |queue: Option<QueueIdx>| self.state.quota.root(queue?);
        let of_slot = |slot: &Slot| {
            let starts = who.filter(|who| who.workload == slot.workload).cloned();
            let own = starts.unwrap_or_else(|| self.starter_at(slot));
            let standing = self.standing_of(&own);
            let noted = self.reservations.keepers.get(&slot.workload);
            let before = |by: WorkloadIdx, its: &Standing<'_>| {
                *its < standing
                    || noted.is_some_and(|noted| noted.contains(&by))
                    || in_turn == Some(slot.workload) && settled.contains(&by)
            };
            let all = keepers.iter().zip(&standings).filter(|((keeper, _), its)| {
                let (by, tree) = (keeper.workload, root(keeper.queue));
                by != slot.workload && tree == root(slot.queue) && before(by, its)
            });
            all.flat_map(|((_, kept), _)| kept.iter().copied()).collect()
        };
        slots.iter().map(of_slot).collect()
    }

    /// Who keeps each of these back, as those who would start, with what each keeps.
    fn keepers<'a>(&self, kept: &'a [Held]) -> impl Iterator<Item = (Starter, &'a [Held])> {
        let fair = self.state.quota.shares_fairly();
        kept.chunk_by(|one, next| one.by == next.by).map(move |kept| {
            let Held { queue, by, borrowing, .. } = kept[0];
            let asks = kept.iter().filter(|_| fair).map(|held| (held.fr, held.amount));
            (Starter::of(Some(queue), by, borrowing, asks.collect()), kept)
        })
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

    /// What heads of strict queues keep back in this round, and what those did in the last one that
    /// had no turn in this one yet. It may be nothing now, where their queues use all they may, and
    /// more once less is used. One that has a start reserved keeps nothing.
    pub(super) fn kept_by_strict_heads(&self) -> Vec<Held> {
        let held = self.state.held.iter().copied();
        let settled: BTreeSet<WorkloadIdx> = held.clone().map(|held| held.by).collect();
        let before = self.standing(None).filter(|held| !settled.contains(&held.by));
        let lasts =
            |held: &Held| self.strict(Some(held.queue)) && self.reservations.of(held.by).is_none();
        held.chain(before).filter(lasts).collect()
    }
}
