//! How far a gang gets that is not placed: what is told of it.

use std::cmp::Reverse;

use capstan_topology::{DomainIdx, LevelIdx};

use super::coupled::{self, Count};
use super::gang::{
    Ask, TRIES_MAX, TopologyAsk, are_coupled, counts_of, coupled as takes_along, fill, fill_one,
    place, size,
};
use crate::model::ids::PodIdx;
use crate::model::txn::Txn;

/// Who finds no room beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Position of the ask.
    pub at: usize,
    /// Members of it that have places.
    pub holds: u32,
    /// Members of others that have places.
    pub beside: u32,
}

/// Places asks of a gang that is not placed together as the search for it begins, largest members
/// first (each by itself where levels hold for each shape), and answers with the first that finds
/// no room.
pub fn first_short(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> Short {
    if !topology.per_set && are_coupled(txn, asks) {
        let range = 0..txn.state().room.tree.order().len();
        let placed = coupled::fill(txn, &counts_of(asks), range);
        let short =
            asks.iter().zip(&placed).position(|(ask, got)| (*got as usize) < ask.pods.len());
        // All of them one by one and not in the domains that were asked for: the last one, then,
        // beside the others.
        let at = short.unwrap_or(asks.len() - 1);
        let beside = placed.iter().sum::<u32>() - placed[at];
        return Short { at, holds: placed[at], beside };
    }
    let root = txn.state().room.tree.root();
    let mut order: Vec<usize> = (0..asks.len()).collect();
    let shapes = asks.iter().map(|ask| txn.state().classes.class(ask.class).key.shape);
    let together = coupled::together(txn, shapes);
    if !topology.per_set {
        order.sort_by_key(|at| Reverse(size(txn, &asks[*at])));
    } else if !together.is_empty() {
        // Those for whom others may open nodes come after these.
        order.sort_by_cached_key(|at| coupled::waits_for(txn, asks[*at].class, &together));
    }
    let mut placed = 0;
    for at in order {
        let ask = &asks[at];
        let done = match topology.per_set || topology.slices.is_some() {
            true => place(txn, std::slice::from_ref(ask), topology),
            false => fill_one(txn, ask, root, topology.anywhere),
        };
        if !done {
            return Short { at, holds: 0, beside: placed };
        }
        placed += ask.pods.len() as u32;
    }
    // Found in this order and not by the search: only where choices of volumes or devices exclude
    // each other.
    let last = asks.iter().rposition(|ask| takes_along(txn, ask.class));
    let at = last.unwrap_or(asks.len() - 1);
    Short { at, holds: 0, beside: placed - asks[at].pods.len() as u32 }
}

/// The domain of a level that takes most of these members, the first of equals, of those with most
/// room, and how many it takes; `None`: the level has none.
pub fn fullest(
    txn: &mut Txn<'_>,
    counts: &[Count],
    level: LevelIdx,
    mut take: impl FnMut(&mut Txn<'_>, DomainIdx) -> u32,
) -> Option<(u32, DomainIdx)> {
    counts.iter().for_each(|(class, _)| txn.fresh(*class));
    let opened = coupled::are_coupled(txn, counts);
    let state = txn.state();
    let slots = |(class, count): &Count, domain: DomainIdx| {
        state.classes.fit(*class).slots(domain).min(u64::from(*count))
    };
    let room = |domain: DomainIdx| -> u64 { counts.iter().map(|it| slots(it, domain)).sum() };
    let domains = state.room.tree.domains_at(level).iter().copied();
    let mut roomy: Vec<_> = domains.map(|domain| (Reverse(room(domain)), domain)).collect();
    roomy.sort_unstable();
    let all = counts.iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
    let start = txn.checkpoint();
    let mut best: Option<(u32, DomainIdx)> = None;
    for (Reverse(slots), domain) in roomy.into_iter().take(TRIES_MAX) {
        // Who opens nodes for others makes more of them than slots of now. No domain takes all.
        let most = if opened { all.saturating_sub(1) } else { slots };
        if best.is_some_and(|(holds, _)| u64::from(holds) >= most) {
            break;
        }
        let holds = take(txn, domain);
        txn.rollback_to(start);
        if best.is_none_or(|(most, _)| holds > most) {
            best = Some((holds, domain));
        }
    }
    best
}

/// Places as many members as a domain takes, largest first, of asks that do not depend on each
/// other's places; their number.
pub fn take_in(txn: &mut Txn<'_>, asks: &[Ask], domain: DomainIdx) -> u32 {
    let mut order: Vec<&Ask> = asks.iter().collect();
    order.sort_by_key(|ask| Reverse(size(txn, ask)));
    let mut taken = 0;
    for ask in order {
        txn.fresh(ask.class);
        let slots = txn.state().classes.fit(ask.class).slots(domain);
        let count = slots.min(ask.pods.len() as u64) as usize;
        // Coupled ones may be fewer than slots promised.
        let all = fill(txn, ask.class, &ask.pods[..count], domain, false);
        let placed = |pod: &&PodIdx| txn.state().pods[**pod].place.is_some();
        let placed = ask.pods[..count].iter().filter(placed).count();
        assert!(!all || placed == count, "members that were filled in have places");
        taken += placed as u32;
    }
    taken
}
