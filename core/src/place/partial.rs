//! How far a gang gets that is not placed: what is told of it.

use std::cmp::Reverse;

use capstan_topology::DomainIdx;

use super::coupled;
use super::gang::{
    Ask, TopologyAsk, are_coupled, counts_of, coupled as takes_along, fill, fill_one, place, size,
};
use crate::model::ids::PodIdx;
use crate::model::txn::Txn;

/// Places asks of a gang that is not placed together as the search for it begins, largest members
/// first (each by itself where levels hold for each shape), and answers with the position of the
/// first that finds no room and the number of members placed before it.
pub fn first_short(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> (usize, u32) {
    if !topology.per_set && are_coupled(txn, asks) {
        let range = 0..txn.state().room.tree.order().len();
        let placed = coupled::fill(txn, &counts_of(asks), range);
        let short =
            asks.iter().zip(&placed).position(|(ask, got)| (*got as usize) < ask.pods.len());
        // All of them one by one and not in the domains that were asked for: the last one, then,
        // beside the others.
        let all: u32 = placed.iter().sum();
        let last = asks.len() - 1;
        return short.map_or((last, all - placed[last]), |short| (short, all));
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
            return (at, placed);
        }
        placed += ask.pods.len() as u32;
    }
    // Found in this order and not by the search: only where choices of volumes or devices exclude
    // each other.
    let last = asks.iter().rposition(|ask| takes_along(txn, ask.class));
    let last = last.unwrap_or(asks.len() - 1);
    (last, placed - asks[last].pods.len() as u32)
}

/// Places as many members as a domain takes, largest first; their number.
pub fn take_in(txn: &mut Txn<'_>, asks: &[Ask], domain: DomainIdx) -> u32 {
    if are_coupled(txn, asks) {
        let domain = txn.state().room.tree.domain(domain);
        let range = domain.start..domain.end;
        return coupled::fill(txn, &counts_of(asks), range).iter().sum();
    }
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
