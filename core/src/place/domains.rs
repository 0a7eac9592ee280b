//! In which order domains are tried for members that have to be tried together.
//!
//! Problem: for members of one shape that go wherever there are slots, those and their scores tell
//! which domain is best. Members of several shapes take slots from each other, and those that
//! depend on each other's places open and close nodes: there the first domain that holds all of
//! them is the one, so that the order of tries is the choice.
//!
//! Decides that order: where the places are worth most to all members as things are, and of equals
//! the tightest; the cheapest where nothing but prices counts. Where more domains are left than are
//! tried, some are kept for their room.
//!
//! Cost: two numbers of each domain for each shape, and a look at the nodes of those to be tried.

use std::cmp::Reverse;

use capstan_topology::{DomainIdx, LevelIdx};

use super::coupled::Count;
use super::gang::{Ask, TRIES_MAX, are_thrifty};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;

/// Domains of a level that have slots enough for each shape by itself, those first whose best nodes
/// are best, of equals the tightest; the cheapest first where nothing but that counts.
pub(super) fn holding(
    txn: &mut Txn<'_>,
    asks: &[&Ask],
    level: LevelIdx,
    required: Option<LevelIdx>,
) -> Vec<DomainIdx> {
    for ask in asks {
        txn.fresh(ask.class);
    }
    let state = txn.state();
    let tree = &state.room.tree;
    let holds = |domain: &DomainIdx| {
        let all = |ask: &&Ask| slots(state, ask, *domain) >= ask.pods.len() as u64;
        asks.iter().all(all)
            && required.is_none_or(|r| tree.domain_of(r, tree.domain(*domain).start).is_some())
    };
    let mut found: Vec<DomainIdx> = tree.domains_at(level).iter().copied().filter(holds).collect();
    let of = |ask: &&Ask| (state.classes.fit(ask.class), ask.pods.len() as u32);
    if are_thrifty(txn, asks) {
        let worth = |domain: DomainIdx| -> u64 {
            asks.iter().map(of).map(|(index, need)| index.worth(tree, domain, need)).sum()
        };
        found.sort_by_cached_key(|domain| (Reverse(worth(*domain)), *domain));
    } else {
        let most = |domain: DomainIdx| -> u64 {
            asks.iter().map(of).map(|(index, need)| index.value_at_most(domain, need)).sum()
        };
        found.sort_by_cached_key(|domain| {
            (Reverse(most(*domain)), slots(state, asks[0], *domain), *domain)
        });
    }
    found
}

/// Of such domains at most [`TRIES_MAX`], the best first: the first half of so many, and the
/// roomiest of the others, which are the likeliest to hold what slot counts alone cannot prove.
pub(super) fn to_try(txn: &Txn<'_>, asks: &[&Ask], mut found: Vec<DomainIdx>) -> Vec<DomainIdx> {
    let half = TRIES_MAX / 2;
    if found.len() > TRIES_MAX {
        let mut others = found.split_off(half);
        roomiest_first(txn, asks, &mut others);
        others.truncate(half);
        found.extend(others.into_iter().rev());
    }
    if !are_thrifty(txn, asks) {
        let counts = || asks.iter().map(|ask| (ask.class, ask.pods.len() as u32));
        found.sort_by_cached_key(|domain| Reverse(value(txn.state(), counts(), *domain)));
    }
    found
}

/// Sorts domains by their slots for the first of the asks.
pub(super) fn roomiest_first(txn: &Txn<'_>, asks: &[&Ask], domains: &mut [DomainIdx]) {
    domains.sort_by_cached_key(|domain| Reverse((slots(txn.state(), asks[0], *domain), *domain)));
}

/// What places for so many members of these classes are worth in a domain, about. Classes are up to
/// date.
pub(super) fn value(
    state: &ClusterState,
    counts: impl Iterator<Item = Count>,
    domain: DomainIdx,
) -> u64 {
    let tree = &state.room.tree;
    counts.map(|(class, count)| state.classes.fit(class).value(tree, domain, count)).sum()
}

fn slots(state: &ClusterState, ask: &Ask, domain: DomainIdx) -> u64 {
    state.classes.fit(ask.class).slots(domain)
}
