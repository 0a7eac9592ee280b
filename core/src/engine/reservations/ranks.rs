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
//! By shares whoever comes may stand before a head of a larger one, and put off its start, and the
//! next may again, while others are held for it: it would never come. So a start is put off like
//! that only until the first time that was promised has passed. From then on its head goes before
//! all that borrow: of several the one whose time passed first. What then begins at last is stopped
//! by no share, or those who were held for it would do that at once; and where a share did stop it
//! before that time it still counts. Then it is the others' turn, and work of a queue without
//! weight never goes before them for that (`victims/lasting.rs`). A restart forgets that time.
//!
//! A round compares shares as if each head ran, and at a tie of cohorts the heads that lead there;
//! what stays within its own has to lead in its cohort, too. In a cohort that holds queues alone
//! starts to come are compared as if they ran now: else a start is promised to one that the same
//! round stops for the next. Where cohorts are compared, or a queue with cohorts, that is by the
//! shares of now: as if they ran one cohort would stand differently with each of its heads, and
//! three heads could go before each other in a circle. A tie goes on to what is below. So each head
//! has a row of numbers of its own, rows are compared from the left, and that is one order of all.
//! And who takes no more than its own is not held for who borrows.
//!
//! What stands behind a head of its own queue goes before nobody that the head does not go before:
//! where it may put off the start of another, that of its own head, which was found behind that
//! other, would be put off with it. Of starts as good as its head's, those that come after it where
//! ties end were found behind it: for its sake nobody is held for them. So those that somebody may
//! not delay are always all reserved starts up to some place in the order, and none of them was
//! found beside one that is left out.
//!
//! How far a head borrows is part of its reserved start: one that would borrow further does not
//! hold ([`timetable`]), as others go before it there; it is found anew in the place that it has
//! then. Nor does a head take a sooner start in exchange at which it borrows further: it may begin
//! there if nobody minds, and else has its own. What it asks of quota is kept as it was when its
//! start was found: with other flavors it stands where it did. Nothing else is kept. Cost: a look
//! at each of them.
//!
//! [`timetable`]: super::timetable

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cycle::Entry;
use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::engine::reservations::{FORECASTS_MAX, TRIED_MAX};
use crate::explain::view::Unreserved;
use crate::model::ids::{FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::quota::build::QuotaState;
use crate::quota::share::Share;
use crate::time::Time;

/// What work that would start asks of quota, where shares are compared as if it ran.
pub(crate) type Asks = Arc<[(FrIdx, i64)]>;

/// Somebody who would start.
#[derive(Clone, Debug)]
pub(crate) struct Starter {
    /// Its queue.
    pub queue: Option<QueueIdx>,
    /// The work itself.
    pub workload: WorkloadIdx,
    /// How far the queue borrows for it.
    pub borrowing: u32,
    /// What it asks; nothing of what counts already.
    pub asks: Asks,
    /// How far it may borrow where a start is searched.
    pub most: u32,
    /// It is its turn: whatever heads of strict queues keep back in this round is kept from it.
    pub in_turn: bool,
}

impl Starter {
    /// Somebody who borrows no further than that, and whose turn it is not.
    pub fn of(
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        borrowing: u32,
        asks: Asks,
    ) -> Starter {
        Starter { queue, workload, borrowing, asks, most: borrowing, in_turn: false }
    }
}

/// Where work stands among that of other queues; smaller goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    unqueued: bool,
    /// How far its queue borrows; with fair sharing, whether it does.
    borrows: u32,
    /// Where shares decide: when it was to start, if that has passed; else the end of all time.
    overdue: Time,
    /// How those around it stand, where that decides.
    around: Around,
    priority: Reverse<i32>,
}

/// Of each cohort around a queue but for the root, outer ones first, and of the queue, whether it
/// borrows, and its share: of the queue at last as if the work ran, and before as it is where it is
/// compared with cohorts. Below that everything stands as that does, so that how deep queues are
/// decides nothing.
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
    /// An entry as one that would start.
    pub(crate) fn starter(&self, entry: &Entry) -> Starter {
        let asks = self.asks_of(entry);
        Starter::of(entry.queue, entry.workload, entry.choice.borrowing, asks)
    }

    /// What an entry asks of quota, if that is compared.
    pub(super) fn asks_of(&self, entry: &Entry) -> Asks {
        match self.state.quota.shares_fairly() {
            true => entry.choice.usage.as_slice().into(),
            false => Asks::default(),
        }
    }

    /// A head with a reserved start, as it will start.
    pub(super) fn starter_at(&self, slot: &Slot) -> Starter {
        let &Slot { queue, workload, borrowing, .. } = slot;
        Starter::of(queue, workload, borrowing, self.reservations.asks(workload))
    }

    /// Where somebody stands who would start.
    pub(super) fn rank(&self, who: &Starter) -> Rank {
        self.rank_with((who.queue, who.workload), who.borrowing, &who.asks)
    }

    /// The same of work of a queue that borrows so far for it, and of what it asks.
    pub(super) fn rank_with(
        &self,
        (queue, workload): (Option<QueueIdx>, WorkloadIdx),
        borrowing: u32,
        asks: &[(FrIdx, i64)],
    ) -> Rank {
        let quota = &self.state.quota;
        let by_share = quota.shares_fairly() && borrowing > 0;
        let node = queue.filter(|_| by_share).and_then(|queue| quota.queue(queue).node);
        // What is claimed counts already.
        let claims = self.state.claims.get(workload).is_some();
        let asks = if claims { &[][..] } else { asks };
        let around = node.map(|node| Around::of(quota, node, borrowing, asks));
        Rank {
            unqueued: queue.is_none(),
            borrows: if by_share { 1 } else { borrowing },
            overdue: queue
                .filter(|_| by_share)
                .and_then(|queue| self.overdue(queue, workload))
                .unwrap_or(Time(i64::MAX)),
            around: around.unwrap_or_default(),
            priority: Reverse(self.state.workloads[workload].priority),
        }
    }

    /// When work that waits was to start first, if that has passed, and it is not the turn of other
    /// queues.
    fn overdue(&self, queue: QueueIdx, workload: WorkloadIdx) -> Option<Time> {
        let (quota, lasting, now) = (&self.state.quota, &self.state.lasting, self.state.now);
        let promised = self.reservations.promised.get(&workload).copied();
        let owed = lasting.owed(&self.state.workloads[workload].full_name);
        let first = promised.into_iter().chain(owed).min().filter(|first| *first < now)?;
        let rests = quota.weightless(queue) || lasting.rests(&quota.queue(queue).name, now);
        (!rests).then_some(first)
    }

    /// The same with ties ended.
    pub(super) fn standing_of(&self, who: &Starter) -> Standing<'_> {
        (self.rank(who), self.state.queue_order(who.workload))
    }

    /// Whether a head with a reserved start goes before somebody who would start.
    pub(crate) fn ranks_before(&self, slot: &Slot, who: &Starter) -> bool {
        self.rank(&self.starter_at(slot)) < self.rank(who)
    }

    /// Of reserved starts, in order, those of others that somebody may not delay.
    pub(crate) fn may_not_delay(&self, who: &Starter, slots: &[Slot]) -> Vec<Slot> {
        let order = |workload| self.head_order(who.queue, workload);
        let own = self.own_head(who, slots);
        let first = own.is_none_or(|own| order(who.workload) < order(own));
        self.up_to(who, self.rank(who), first, slots)
    }

    /// The same of members above the minimum of a gang that runs. They go before nobody of the same
    /// or a higher priority, however little their queue borrows, and of their own queue pass only
    /// who has a lower one.
    pub(crate) fn extras_may_not_delay(&self, who: &Starter, slots: &[Slot]) -> Vec<Slot> {
        let own = self.rank(who);
        let above = self.standings(slots).into_iter().map(|(rank, _)| rank);
        let above = above.filter(|rank| rank.priority <= own.priority);
        let limit = above.fold(own.clone(), Rank::max);
        let priority = |workload: WorkloadIdx| self.state.workloads[workload].priority;
        let head = self.own_head(who, slots);
        let first = head.is_none_or(|head| priority(head) < priority(who.workload));
        self.up_to(who, limit, first, slots)
    }

    /// The head of the same queue that has a reserved start.
    fn own_head(&self, who: &Starter, slots: &[Slot]) -> Option<WorkloadIdx> {
        let own = |slot: &&Slot| slot.queue == who.queue && slot.workload != who.workload;
        slots.iter().find(own).map(|own| own.workload)
    }

    /// No start is searched for a head in this step, since that was in vain for too many before it
    /// in its queue, or since no more is played. The first of its queue says so: for others there
    /// would be none beside its own.
    pub(super) fn note_behind(&mut self, workload: WorkloadIdx, queue: Option<QueueIdx>) {
        let has_one = self.reservations.kept.iter().any(|kept| kept.slot.queue == queue);
        let tried = self.reservations.tried.entry(queue).or_default();
        // One that has several flavors is tried more than once.
        if tried.contains(&workload) {
            return;
        }
        let why = close(tried, workload).filter(|_| !has_one);
        self.note_without(workload, queue, why);
    }

    /// Where heads with reserved starts stand.
    pub(super) fn standings(&self, slots: &[Slot]) -> Vec<Standing<'_>> {
        slots.iter().map(|slot| self.standing_of(&self.starter_at(slot))).collect()
    }

    /// All reserved starts but somebody's own up to a place in the order, ties included, or up to
    /// that of the head of its own queue, ties ended, if it does not go first there. If it does,
    /// that head is passed unless one was found behind it that is among them.
    fn up_to(&self, who: &Starter, limit: Rank, first: bool, slots: &[Slot]) -> Vec<Slot> {
        let own = self.own_head(who, slots);
        let all: Vec<(&Slot, Standing<'_>)> = slots.iter().zip(self.standings(slots)).collect();
        let of_own = all.iter().find(|(slot, _)| Some(slot.workload) == own);
        let of_own = of_own.map(|(_, standing)| standing);
        let stays = |(slot, standing): &&(&Slot, Standing<'_>)| {
            let other = slot.workload != who.workload && Some(slot.workload) != own;
            let before_own = || !first && of_own.is_some_and(|own| standing < own);
            other && (standing.0 <= limit || before_own())
        };
        let behind = |own: &Standing<'_>| all.iter().filter(stays).any(|(_, other)| own < other);
        let own = own.filter(|_| !first || of_own.is_some_and(behind));
        let kept = all.iter().filter(|it| stays(it) || Some(it.0.workload) == own);
        kept.map(|(slot, _)| **slot).collect()
    }
}

/// Closes the list of those of a queue for whom a start was searched in vain with the first for
/// whom none is searched any more: why. All who wait may be refused in one step: no more of them
/// are listed, nor told.
fn close<T: Copy + Ord>(tried: &mut Vec<T>, first: T) -> Option<Unreserved> {
    if tried.len() > TRIED_MAX {
        return None;
    }
    let others: BTreeSet<T> = tried.iter().copied().collect();
    let why = match tried.len() {
        TRIED_MAX => Unreserved::Behind { others: others.len() as u32 },
        _ => Unreserved::Plays { most: FORECASTS_MAX as u32 },
    };
    tried.resize(TRIED_MAX + 1, first);
    Some(why)
}

impl Around {
    /// As it will be once work that asks this has started in a queue for which that borrows so far,
    /// by the usage of now.
    fn of(quota: &QuotaState, queue: QuotaIdx, borrowing: u32, asks: &[(FrIdx, i64)]) -> Around {
        let tree = &quota.tree;
        let Some(parent) = tree.parent(queue) else { return Around::default() };
        let up = std::iter::successors(Some(queue), |node| tree.parent(*node));
        let below_root = up.take_while(|node| tree.parent(*node).is_some());
        // Where all around are queues, as it runs; where some are cohorts, as it is before that.
        let first = usize::from(tree.height(parent) == 1);
        let stand = |node: QuotaIdx| {
            let share = quota.share(node);
            (tree.height(node) < borrowing || share.borrows(), share)
        };
        let runs = (borrowing > 0, quota.share_with(queue, asks));
        let mut around: Vec<(bool, Share)> = vec![runs];
        around.extend(below_root.skip(first).map(stand));
        around.reverse();
        Around(around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_for_whom_no_start_is_searched_the_first_is_told_and_no_other_is_listed() {
        let behind = Unreserved::Behind { others: 3 };
        let plays = Unreserved::Plays { most: FORECASTS_MAX as u32 };
        let rows = [(vec![1, 2, 2, 3], behind), (vec![1], plays), (Vec::new(), plays)];
        for (mut tried, why) in rows {
            let told = (10..10_010).filter_map(|who| close(&mut tried, who));
            assert_eq!(told.collect::<Vec<Unreserved>>(), [why]);
            assert_eq!(tried.len(), TRIED_MAX + 1);
        }
    }

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
