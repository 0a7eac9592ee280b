//! Why the members of a gang find no nodes together, although each of its sets may find some.

use capstan_topology::LevelIdx;

use super::reason::Reason;
use super::verdict;
use crate::model::ids::ShapeIdx;
use crate::model::input::Text;
use crate::model::txn::Txn;
use crate::place::coupled::{self, Count};
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::place::partial;

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
        let why = by_itself(txn, asks, at, &together, topology);
        return Reason::Together { pod_set: names[at].clone(), beside: 0, then: Box::new(why) };
    }
    let start = txn.checkpoint();
    let whole = !topology.per_set && topology.slices.is_none();
    let reason = match topology.required.filter(|_| whole) {
        Some(level) => no_domain(txn, asks, level),
        None => beside(txn, asks, names, topology),
    };
    txn.rollback_to(start);
    match txn.ended(&counts_of(asks)) {
        Some(bound) => reason.with_ended(bound),
        None => reason,
    }
}

/// Why these find no places beside those of their gang that run, although nodes have room for as
/// many by themselves.
pub fn not_beside(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> Reason {
    let counts = counts_of(asks);
    let (class, count) = counts[0];
    let reason = match topology.of_class(txn.state(), class).slices {
        Some(of) => {
            let all = total(&counts);
            Reason::Topology(Box::new(verdict::in_slices(txn, &counts, all, of)))
        }
        None => verdict::next_short(txn, class, (count, count)),
    };
    match txn.ended(&counts) {
        Some(bound) => reason.with_ended(bound),
        None => reason,
    }
}

/// Why members of one set find no room whoever of the others is placed: those may open nodes for
/// them.
fn by_itself(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    at: usize,
    together: &[ShapeIdx],
    topology: TopologyAsk,
) -> Reason {
    let mut counts = counts_of(asks);
    counts[..=at].rotate_right(1);
    let (class, count) = counts[0];
    match coupled::waits_for(txn, class, together) {
        true => verdict::unqueued(verdict::beside_others(txn, &counts, topology)),
        false => verdict::unqueued_shortage(txn, class, count, topology),
    }
}

/// No domain of the level takes all members: which takes most.
fn no_domain(txn: &mut Txn<'_>, asks: &[Ask], level: LevelIdx) -> Reason {
    let counts = counts_of(asks);
    if coupled::are_coupled(txn, &counts) {
        return Reason::Topology(Box::new(verdict::in_domains(txn, &counts, level)));
    }
    let take = |txn: &mut Txn<'_>, domain| partial::take_in(txn, asks, domain);
    let best = match partial::fullest(txn, &counts, level, take) {
        Some((holds, domain)) => (verdict::name_of(txn.state(), level, domain), holds),
        None => (None, 0),
    };
    Reason::Topology(Box::new(verdict::in_one(txn, &counts, level, best)))
}

/// Each finds room by itself: which does not beside those that go first.
fn beside(txn: &mut Txn<'_>, asks: &[Ask], names: &[&Text], topology: TopologyAsk) -> Reason {
    let short = partial::first_short(txn, asks, topology);
    let (class, count) = counts_of(asks)[short.at];
    let why = match (short.holds, topology.slices) {
        (0, _) => verdict::unqueued_shortage(txn, class, count, topology),
        (holds, Some(of)) if holds >= count => {
            let all = counts_of(asks);
            return Reason::Topology(Box::new(verdict::in_slices(txn, &all, total(&all), of)));
        }
        (holds, _) => verdict::next_short(txn, class, (count, holds)),
    };
    let pod_set = names[short.at].clone();
    Reason::Together { pod_set, beside: short.beside, then: Box::new(why) }
}

fn counts_of(asks: &[Ask]) -> Vec<Count> {
    asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect()
}

fn total(counts: &[Count]) -> u32 {
    counts.iter().map(|(_, count)| *count).sum()
}
