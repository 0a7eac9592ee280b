//! Why the members of a gang find no nodes together, although each of its sets may find some.

use capstan_topology::{DomainIdx, LevelIdx};

use super::reason::Reason;
use super::verdict;
use crate::model::ids::ClassIdx;
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::place::{coupled, partial};

/// Why these asks, one for each named set, are not placed together as things are.
///
/// The first set that finds no room by itself; else, with a required level for all of them, the
/// domain that takes most members; else the set that finds none beside those placed before it.
pub fn shortage(txn: &mut Txn<'_>, asks: &[Ask], names: &[&Text], topology: TopologyAsk) -> Reason {
    let count = |ask: &Ask| ask.pods.len() as u32;
    let shapes = asks.iter().map(|ask| txn.state().classes.class(ask.class).key.shape);
    let together = coupled::together(txn, shapes);
    let lacks = |ask: &Ask, txn: &mut Txn<'_>| {
        !gang::may_hold(txn, (ask.class, count(ask)), &together, topology)
    };
    let alone = asks.iter().position(|ask| lacks(ask, txn));
    if let [ask] = asks {
        return verdict::unqueued_shortage(txn, ask.class, count(ask), topology);
    }
    if let Some(at) = alone {
        let ask = &asks[at];
        let why = verdict::unqueued_shortage(txn, ask.class, count(ask), topology);
        return Reason::Together { pod_set: names[at].clone(), beside: 0, then: Box::new(why) };
    }
    let start = txn.checkpoint();
    let whole = !topology.per_set && topology.slices.is_none();
    let reason = match topology.required.filter(|_| whole) {
        Some(level) => no_domain(txn, asks, level),
        None => beside(txn, asks, names, topology),
    };
    txn.rollback_to(start);
    let counts: Vec<(ClassIdx, u32)> = asks.iter().map(|ask| (ask.class, count(ask))).collect();
    match txn.ended(&counts) {
        Some(bound) => reason.with_ended(bound),
        None => reason,
    }
}

/// No domain of the level takes all members: which takes most.
fn no_domain(txn: &mut Txn<'_>, asks: &[Ask], level: LevelIdx) -> Reason {
    let domains = txn.state().room.tree.domains_at(level).to_vec();
    let start = txn.checkpoint();
    // Set by set they would take at least as many: the roomiest by that sum is looked at.
    let most = |txn: &mut Txn<'_>, domain: DomainIdx| -> u64 {
        let slots = |ask: &Ask| {
            txn.fresh(ask.class);
            txn.state().classes.fit(ask.class).slots(domain).min(ask.pods.len() as u64)
        };
        asks.iter().map(slots).sum()
    };
    let mut roomy: Vec<(u64, DomainIdx)> =
        domains.iter().map(|domain| (most(txn, *domain), *domain)).collect();
    roomy.sort_by_key(|(slots, domain)| (std::cmp::Reverse(*slots), *domain));
    let mut best: Option<(u32, DomainIdx)> = None;
    for &(slots, domain) in roomy.iter().take(gang::TRIES_MAX) {
        if best.is_some_and(|(holds, _)| u64::from(holds) >= slots) {
            break;
        }
        let holds = partial::take_in(txn, asks, domain);
        txn.rollback_to(start);
        if best.is_none_or(|(most, _)| holds > most) {
            best = Some((holds, domain));
        }
    }
    let asked = asks.iter().map(|ask| ask.pods.len() as u32).sum();
    let (holds, name) = match best {
        Some((holds, domain)) => (holds, verdict::name_of(txn.state(), level, domain)),
        None => (0, None),
    };
    let level = txn.state().room.levels[level.at()].clone();
    Reason::Topology { level, asked, best: name, holds, slice: None, gone: 0, ended: None }
}

/// Each finds room by itself: which does not beside those that go first.
fn beside(txn: &mut Txn<'_>, asks: &[Ask], names: &[&Text], topology: TopologyAsk) -> Reason {
    let (at, placed) = partial::first_short(txn, asks, topology);
    let ask = &asks[at];
    let why = verdict::unqueued_shortage(txn, ask.class, ask.pods.len() as u32, topology);
    Reason::Together { pod_set: names[at].clone(), beside: placed, then: Box::new(why) }
}
