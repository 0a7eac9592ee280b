//! Who is held for a reserved start and comes to stand before it.
//!
//! Problem: somebody is held because its queue would borrow, as the head does for whom the start is
//! reserved. Then work of its own queue ends, and it would borrow nothing, or its share is smaller:
//! it goes before that head now. What came free may be just what the head waits for, so that beside
//! reserved starts there is no more than before. If nobody looks at it the borrower starts on what
//! the other queue owns, and is stopped for it at once, or keeps it waiting until it has ended.
//!
//! Wanted: whoever comes to stand before a reserved start is looked at again, and has its turn
//! before that start is taken. A round takes one head of each queue, and others of its own queue
//! may stand before it: meanwhile heads that it goes before, and whose starts are reserved, let it
//! pass. They are looked at in the next round, of the same moment.
//!
//! Phases: somebody is held: where it stands is noted, with each flavor of its queue -> amounts
//! came free, or something changed (`held`): it is compared whether it goes before some reserved
//! start in a way in which it did not -> its group is filed among those to look at, and stands in
//! no line -> a head that would begin gives way while there are such groups that go before it. It
//! does so again only if others are first in their queues than when it did last ([`GaveWay`]), and
//! not for ever: who cannot have a turn keeps nobody waiting.
//!
//! Whoever would be held all the same, for who stands before the head of its own queue, is not
//! looked at for this. Where shares of others rise all are stirred already (`engine/crossings.rs`).
//!
//! Restart: nothing is kept; all work is looked at. Cost: when amounts came free a comparison of a
//! few numbers for each group that is held, each flavor of its queue and each reserved start; and a
//! look at those that came forward, none at those that only borrow less. Nothing where nobody is
//! held.

use std::collections::BTreeMap;

use crate::cycle::Entry;
use crate::engine::Engine;
use crate::engine::reservations::ranks::{Rank, Standing};
use crate::engine::reservations::timetable::Slot;
use crate::model::ids::{FlavorIdx, FrIdx, ShapeIdx, WorkloadIdx};
use crate::model::workload::QueueRef;
use crate::quota::build::Group;

/// Where somebody stood when it was held.
#[derive(Debug)]
pub struct Stood {
    /// So many members of each shape would have started.
    sets: Vec<(ShapeIdx, u32)>,
    /// Its place with each flavor.
    ranks: Vec<Rank>,
}

/// Rounds in which a head gives way, at most, until somebody else comes forward.
const TIMES_MAX: u32 = 64;

/// Heads with reserved starts that gave way.
#[derive(Debug, Default)]
pub(super) struct GaveWay(BTreeMap<WorkloadIdx, Given>);

/// When a head gave way.
#[derive(Debug)]
struct Given {
    /// The last round in which it did.
    round: u64,
    /// Who was first then in the queues of those that it let pass.
    firsts: Vec<WorkloadIdx>,
    /// In how many rounds it did.
    times: u32,
}

impl GaveWay {
    /// Whether a head gives way in a round in which these are first: not if they were when it did
    /// in a round before, as that led to nothing. Each head is asked for itself: of several that
    /// give way to each other none would ever begin.
    fn again(&mut self, head: WorkloadIdx, round: u64, firsts: Vec<WorkloadIdx>) -> bool {
        let first = Given { round, firsts: Vec::new(), times: 0 };
        let last = self.0.entry(head).or_insert(first);
        if last.times == 0 || last.round < round {
            if last.times == TIMES_MAX || last.firsts == firsts {
                return false;
            }
            *last = Given { round, firsts, times: last.times + 1 };
        }
        true
    }

    /// A head waits no more.
    pub(super) fn forget(&mut self, head: WorkloadIdx) {
        self.0.remove(&head);
    }
}

/// Whether somebody goes before a head in some way in which it did not.
fn passes<T: Ord>(then: &[T], now: &[T], head: &T) -> bool {
    then.iter().zip(now).any(|(then, now)| now < head && then >= head)
}

impl Engine {
    /// An entry is held: where it stands is noted, by what is used for longer than this round.
    pub(crate) fn note_stood(&mut self, entry: &Entry) {
        let sets: Vec<(ShapeIdx, u32)> =
            entry.sets.iter().map(|set| (set.shape, set.count)).collect();
        let kept_back = self.state.let_go();
        let ranks = self.ranks_by_flavor(entry.workload, &sets);
        self.state.hold_again(kept_back);
        if !ranks.is_empty() {
            self.waiting.note_stood(entry.workload, Stood { sets, ranks });
        }
    }

    /// Files groups that came to stand before a reserved start among those to look at; how many.
    pub(super) fn invite_who_came_forward(&mut self) -> usize {
        let those = self.who_came_forward();
        if !those.is_empty() {
            self.reservations.gave_way = GaveWay::default();
            self.waiting.bring_forward(&those);
        }
        those.len()
    }

    fn who_came_forward(&self) -> Vec<WorkloadIdx> {
        let slots = self.slots(None);
        let heads: Vec<(&Slot, Standing<'_>)> = slots.iter().zip(self.standings(&slots)).collect();
        let came = |(first, stood): &(WorkloadIdx, &Stood)| {
            let QueueRef::Queue(queue) = self.state.workloads[*first].queue else { return false };
            let (queue, now) = (Some(queue), self.ranks_by_flavor(*first, &stood.sets));
            let order = |workload: WorkloadIdx| self.head_order(queue, workload);
            // Behind that head it goes before nobody that the head does not go before.
            let own = heads.iter().find(|(slot, _)| slot.queue == queue);
            let own = own.filter(|(slot, _)| order(slot.workload) < order(*first));
            heads.iter().any(|(slot, standing)| {
                let behind_own = own.is_none_or(|(_, own)| own < standing);
                slot.queue != queue && behind_own && passes(&stood.ranks, &now, &standing.0)
            })
        };
        self.waiting.stood().filter(came).map(|(first, _)| first).collect()
    }

    /// Whether a head that would begin has its turn in a later round, because its start is reserved
    /// and somebody who came to stand before it was not looked at since.
    pub(crate) fn gives_way(&mut self, entry: &Entry) -> bool {
        if self.reservations.of(entry.workload).is_none() {
            return false;
        }
        let came = self.waiting.came_forward().filter(|(queue, _)| *queue != entry.queue);
        let came: Vec<_> = came.collect();
        if came.is_empty() {
            return false;
        }
        let kept_back = self.state.let_go();
        let own = self.rank(&self.starter(entry));
        let goes_before = |first: WorkloadIdx| {
            let sets = self.state.workloads[first].sets.iter();
            let sets: Vec<(ShapeIdx, u32)> = sets.map(|set| (set.shape, set.count)).collect();
            self.ranks_by_flavor(first, &sets).iter().any(|rank| *rank < own)
        };
        let those = came.into_iter().filter(|(_, first)| goes_before(*first));
        let firsts: Vec<WorkloadIdx> =
            those.filter_map(|(queue, _)| self.waiting.head(queue)).collect();
        self.state.hold_again(kept_back);
        let round = self.round_number;
        !firsts.is_empty() && self.reservations.gave_way.again(entry.workload, round, firsts)
    }

    /// Where work would stand that asks this of each flavor of its queue: with what all sets ask of
    /// it, and with what each of several does.
    fn ranks_by_flavor(&self, workload: WorkloadIdx, sets: &[(ShapeIdx, u32)]) -> Vec<Rank> {
        let quota = &self.state.quota;
        let QueueRef::Queue(queue) = self.state.workloads[workload].queue else {
            return Vec::new();
        };
        let Some(node) = quota.queue(queue).node else { return Vec::new() };
        let asked = |group: &Group, flavor: FlavorIdx, sets: &[(ShapeIdx, u32)]| {
            let asks = group.covered.iter().filter_map(|resource| {
                let of_set = |(shape, count): &(ShapeIdx, u32)| {
                    let each = self.state.room.counted(*shape).get(*resource);
                    each.saturating_mul((*count).into())
                };
                let amount = sets.iter().map(of_set).fold(0, i64::saturating_add);
                let fr = quota.find_fr(flavor, *resource)?;
                (amount > 0).then_some((fr, amount))
            });
            asks.collect::<Vec<(FrIdx, i64)>>()
        };
        let parts = sets.chunks(1).filter(|_| sets.len() > 1).chain([sets]);
        let mut ranks = Vec::new();
        for part in parts {
            for group in &quota.queue(queue).groups {
                let asks = group.flavors.iter().map(|flavor| asked(group, *flavor, part));
                for asks in asks.filter(|asks| !asks.is_empty()) {
                    let height = |(fr, n): &(FrIdx, i64)| quota.tree.borrow_height(node, *fr, *n).0;
                    let borrowing = asks.iter().map(height).max().unwrap_or(0);
                    ranks.push(self.rank_with((Some(queue), workload), borrowing, &asks));
                }
            }
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places with two flavors, then and now, and a head's; smaller goes first.
    #[test]
    fn who_goes_before_a_head_in_a_new_way_comes_forward() {
        let rows: [([u32; 2], [u32; 2], u32, bool); 7] = [
            ([2, 2], [2, 0], 1, true),
            // Whoever is as good as the head does not go before it.
            ([1, 1], [0, 1], 1, true),
            ([2, 2], [1, 2], 1, false),
            // It was before it that way already, and is held for something else.
            ([0, 2], [0, 2], 1, false),
            ([0, 1], [0, 0], 1, true),
            // It falls back.
            ([0, 2], [1, 2], 1, false),
            ([2, 2], [3, 3], 4, false),
        ];
        for (then, now, head, comes) in rows {
            assert_eq!(passes(&then, &now, &head), comes, "{then:?} {now:?} {head}");
        }
    }

    #[test]
    fn a_head_gives_way_until_that_leads_to_nothing() {
        let (head, other) = (WorkloadIdx::FIRST, WorkloadIdx::stand_in(0));
        let (one, two) = (vec![WorkloadIdx::FIRST], vec![other]);
        let mut gave_way = GaveWay::default();
        assert!(gave_way.again(head, 7, one.clone()) && gave_way.again(head, 7, one.clone()));
        // What another head does in between is its own matter.
        assert!(gave_way.again(other, 7, two.clone()));
        assert!(!gave_way.again(head, 8, one.clone()) && !gave_way.again(other, 8, two.clone()));
        assert!(gave_way.again(head, 9, two.clone()), "somebody else is first");
        assert!(gave_way.again(head, 10, one.clone()), "and again");
        gave_way.forget(head);
        let rounds = (11..).take_while(|round| {
            let firsts = if round % 2 == 0 { &one } else { &two };
            gave_way.again(head, *round, firsts.clone())
        });
        assert_eq!(rounds.count(), TIMES_MAX as usize, "not for ever");
    }
}
