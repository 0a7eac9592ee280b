//! Who goes before whom, of work in different queues: one order for all that is reserved, and for
//! all that is settled beside it.
//!
//! Problem: a start is reserved behind those that go before it, and whoever starts now is held for
//! those that it does not go before. If these are two orders then what may pass is judged against
//! another timetable than the one that the start was found in: it passes, the timetable is put
//! right, the start moves, and again.
//!
//! Wanted: the order is that in which a round settles heads: work in queues before work without
//! one, less borrowing first, then higher priority. With fair sharing who borrows nothing goes
//! first; of others, as in the tournament of a round, the children of the outermost cohort are
//! compared first: who borrows nothing, then who has the smaller share, and only of those below one
//! cohort what is in that, down to the queues. Whoever is as good as a head with a reserved start
//! does not go before it, whoever came first: what was promised is kept. Among reserved starts ties
//! end as in a round, at the earlier, then the uid.
//!
//! A round compares shares as if each head ran, and at a tie of cohorts the heads that lead there;
//! what stays within its own has to lead in its cohort, too. Starts to come are compared by the
//! shares of now, and a tie goes on to what is below: one order of all, in which no three go before
//! each other in a circle. And who takes no more than its own is not held for who borrows.
//!
//! What stands behind a head of its own queue goes before nobody that the head does not go before:
//! where it may put off the start of another, that of its own head, which was found behind that
//! other, would be put off with it. So those that somebody may not delay are always all reserved
//! starts up to some place in the order, and none of them was found beside one that is left out.
//!
//! How far a head borrows is part of its reserved start: one that would borrow further does not
//! hold ([`timetable`]), as others go before it there; it is found anew in the place that it has
//! then. Nor does a head take a sooner start in exchange at which it borrows further: it may begin
//! there if nobody minds, and else has its own. Nothing else is kept. Cost: a look at each of them.
//!
//! [`timetable`]: super::timetable

use std::cmp::{Ordering, Reverse};

use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::model::ids::{QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::quota::build::QuotaState;
use crate::quota::share::Share;
use crate::time::Time;

/// Somebody who would start: its queue, the work itself, and how far the queue borrows for it.
pub(crate) type Starter = (Option<QueueIdx>, WorkloadIdx, u32);

/// Where work stands among that of other queues; smaller goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    unqueued: bool,
    /// How far its queue borrows; with fair sharing, whether it does.
    borrows: u32,
    /// How those around it stand, where that decides.
    around: Around,
    priority: Reverse<i32>,
}

/// Of each cohort around a queue but for the root, outer ones first, and of the queue, whether it
/// borrows, and its share. Below its queue everything stands as that does, so that how deep queues
/// are decides nothing.
#[derive(Clone, Debug, Default)]
struct Around(Vec<(bool, Share)>);

impl Ord for Around {
    fn cmp(&self, other: &Around) -> Ordering {
        let at = |of: &Around, level: usize| of.0.get(level).or(of.0.last()).copied();
        let mut levels = 0..self.0.len().max(other.0.len());
        let differs = levels.find(|level| at(self, *level) != at(other, *level));
        differs.map_or(Ordering::Equal, |level| at(self, level).cmp(&at(other, level)))
    }
}

impl PartialOrd for Around {
    fn partial_cmp(&self, other: &Around) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Around {
    fn eq(&self, other: &Around) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Around {}

/// Where a head with a reserved start stands, ties ended.
pub(super) type Standing<'a> = (Rank, (Reverse<i32>, Time, &'a Text));

impl Engine {
    /// Where somebody stands who would start.
    pub(super) fn rank(&self, (queue, workload, borrowing): Starter) -> Rank {
        let quota = &self.state.quota;
        let by_share = quota.shares_fairly() && borrowing > 0;
        let node = queue.filter(|_| by_share).and_then(|queue| quota.queue(queue).node);
        Rank {
            unqueued: queue.is_none(),
            borrows: if by_share { 1 } else { borrowing },
            around: node.map(|node| Around::of(quota, node, borrowing)).unwrap_or_default(),
            priority: Reverse(self.state.workloads[workload].priority),
        }
    }

    /// The same with ties ended.
    pub(super) fn standing_of(&self, who: Starter) -> Standing<'_> {
        (self.rank(who), self.state.queue_order(who.1))
    }

    /// Whether a head with a reserved start goes before somebody who would start.
    pub(crate) fn ranks_before(&self, slot: &Slot, who: Starter) -> bool {
        self.rank(slot.starter()) < self.rank(who)
    }

    /// Of reserved starts, in order, those of others that somebody may not delay.
    pub(crate) fn may_not_delay(&self, who: Starter, slots: &[Slot]) -> Vec<Slot> {
        let (queue, workload, _) = who;
        let order = |workload| self.head_order(queue, workload);
        let first = self.own_head(who, slots).is_none_or(|own| order(workload) < order(own));
        self.up_to(who, self.rank(who), first, slots)
    }

    /// The same of members above the minimum of a gang that runs. They go before nobody of the same
    /// or a higher priority, however little their queue borrows, and of their own queue pass only
    /// who has a lower one.
    pub(crate) fn extras_may_not_delay(&self, who: Starter, slots: &[Slot]) -> Vec<Slot> {
        let own = self.rank(who);
        let above = self.standings(slots).into_iter().map(|(rank, _)| rank);
        let above = above.filter(|rank| rank.priority <= own.priority);
        let limit = above.fold(own.clone(), Rank::max);
        let priority = |workload: WorkloadIdx| self.state.workloads[workload].priority;
        let first = self.own_head(who, slots).is_none_or(|head| priority(head) < priority(who.1));
        self.up_to(who, limit, first, slots)
    }

    /// The head of the same queue that has a reserved start.
    fn own_head(&self, (queue, workload, _): Starter, slots: &[Slot]) -> Option<WorkloadIdx> {
        let own = slots.iter().find(|slot| slot.queue == queue && slot.workload != workload);
        own.map(|own| own.workload)
    }

    /// Where heads with reserved starts stand.
    fn standings(&self, slots: &[Slot]) -> Vec<Standing<'_>> {
        slots.iter().map(|slot| self.standing_of(slot.starter())).collect()
    }

    /// All reserved starts but somebody's own up to a place in the order, or up to that of the head
    /// of its own queue, if it does not go first there. If it does that head is passed, unless one
    /// was found behind it that is among them.
    fn up_to(&self, who: Starter, limit: Rank, first: bool, slots: &[Slot]) -> Vec<Slot> {
        let own = self.own_head(who, slots);
        let all: Vec<(&Slot, Standing<'_>)> = slots.iter().zip(self.standings(slots)).collect();
        let of_own = all.iter().find(|(slot, _)| Some(slot.workload) == own);
        let of_own = of_own.map(|(_, standing)| standing.clone());
        let limit = match &of_own {
            Some((rank, _)) if !first => limit.max(rank.clone()),
            _ => limit,
        };
        let stays = |(slot, standing): &&(&Slot, Standing<'_>)| {
            let other = slot.workload != who.1 && Some(slot.workload) != own;
            other && standing.0 <= limit
        };
        let behind = |own: Standing<'_>| all.iter().filter(stays).any(|(_, other)| own < *other);
        let own = own.filter(|_| !first || of_own.is_some_and(behind));
        let kept = all.iter().filter(|it| stays(it) || Some(it.0.workload) == own);
        kept.map(|(slot, _)| **slot).collect()
    }
}

impl Around {
    /// As it will be once work has started in a queue for which that borrows so far, by the shares
    /// of now.
    fn of(quota: &QuotaState, queue: QuotaIdx, borrowing: u32) -> Around {
        let up = std::iter::successors(Some(queue), |node| quota.tree.parent(*node));
        let below_root = up.take_while(|node| quota.tree.parent(*node).is_some());
        let stand = |node: QuotaIdx| {
            let share = quota.share(node);
            (quota.tree.height(node) < borrowing || share.borrows(), share)
        };
        let mut around: Vec<(bool, Share)> = below_root.map(stand).collect();
        around.reverse();
        Around(around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_compared_first_decides_and_depth_does_not() {
        let around = |borrows: &[bool]| {
            let stand = |borrows: &bool| (*borrows, Share::NONE);
            Around(borrows.iter().map(stand).collect())
        };
        let rows: [(&[bool], &[bool], Ordering); 6] = [
            (&[true], &[true, true], Ordering::Equal),
            (&[true], &[true, false, true], Ordering::Greater),
            (&[false, true], &[true], Ordering::Less),
            (&[false, true], &[true, false], Ordering::Less),
            (&[true, false], &[true, false, false], Ordering::Equal),
            (&[], &[false], Ordering::Less),
        ];
        for (one, other, order) in rows {
            let (one, other) = (around(one), around(other));
            assert_eq!((one.cmp(&other), other.cmp(&one)), (order, order.reverse()));
            assert_eq!(one == other, order.is_eq());
        }
    }
}
