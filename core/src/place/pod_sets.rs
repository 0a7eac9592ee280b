//! Pod sets of a gang: whose members levels and slices hold for together.
//!
//! Members of one template may differ in what makes them other kinds of pods to the engine: each
//! has a volume of its own, or a label that some selector reads (an index, say). They are one pod
//! set all the same, and a slice of four is four of them whatever volumes they have. Alike are
//! therefore shapes that differ in nothing but volumes, names of claims on devices, and labels.
//! Templates of the same group name are one set too, whatever they ask: a leader with its workers.
//!
//! Decides which asks make a set, and in which order sets (or whatever goes one after the other)
//! are placed. Cost: a comparison of shapes for each ask, where levels or slices hold for sets.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use super::gang::{self, Ask, TopologyAsk};
use super::{coupled, levels, slices};
use crate::model::ids::ShapeIdx;
use crate::model::input::{PodClaim, PodShape, Text};
use crate::model::room::Room;
use crate::model::txn::Txn;
use crate::model::workload::PodSet;

/// Orders that are tried of each kind in one domain.
const ORDERS_MAX: usize = 16;

/// What members of one pod set have in common.
fn common(shape: &PodShape) -> PodShape {
    if shape.set_group.is_some() {
        return PodShape { set_group: shape.set_group.clone(), ..PodShape::default() };
    }
    let claims = vec![PodClaim::Unusable(Text::default()); shape.claims.len()];
    PodShape { budgets: Vec::new(), kin: None, volumes: None, claims, ..shape.clone() }
}

/// Whether members of two shapes may be of one pod set.
pub fn alike(room: &Room, one: ShapeIdx, other: ShapeIdx) -> bool {
    one == other || common(&room.shape(one).facts) == common(&room.shape(other).facts)
}

/// Whether some pod set has members of several of these shapes.
pub fn any_mixed(room: &Room, mut shapes: impl Iterator<Item = ShapeIdx>) -> bool {
    let mut known = BTreeSet::new();
    shapes.any(|shape| !known.insert(common(&room.shape(shape).facts)))
}

/// Whether some members had rather be away from others, or be spread among them. Then each takes
/// the best node after those before it, and closeness is not looked for beyond what was asked.
pub fn shun_each_other(room: &Room, sets: &[PodSet]) -> bool {
    let facts = |set: &PodSet| &room.shape(set.shape).facts;
    sets.iter().filter(|set| facts(set).neighbours.is_some()).any(|own| {
        let mut others = sets.iter().filter(|other| other.shape != own.shape || own.count > 1);
        others.any(|other| room.neighbourhood.shuns(facts(own), facts(other)))
    })
}

/// The asks of each pod set, in the order of their first ones.
pub(super) fn sets<'a>(
    txn: &Txn<'_>,
    asks: impl Iterator<Item = &'a Ask>,
    mixed: bool,
) -> Vec<Vec<&'a Ask>> {
    if !mixed {
        return asks.map(|ask| vec![ask]).collect();
    }
    let state = txn.state();
    let mut at: BTreeMap<PodShape, usize> = BTreeMap::new();
    let mut sets: Vec<Vec<&Ask>> = Vec::new();
    for ask in asks {
        let shape = state.classes.class(ask.class).key.shape;
        let known = *at.entry(common(&state.room.shape(shape).facts)).or_insert(sets.len());
        match sets.get_mut(known) {
            Some(set) => set.push(ask),
            None => sets.push(vec![ask]),
        }
    }
    sets
}

/// Where those of a gang are that are of the pod set of an ask.
pub fn peers_of(txn: &Txn<'_>, ask: &Ask, peers: &[(ShapeIdx, NodeIdx)]) -> Vec<NodeIdx> {
    let state = txn.state();
    let shape = state.classes.class(ask.class).key.shape;
    let own = peers.iter().filter(|(of, _)| alike(&state.room, *of, shape));
    own.map(|(_, node)| *node).collect()
}

/// The asks of each pod set; those for whom others of these may open nodes come after the others.
pub(super) fn sets_in_turn<'a>(
    txn: &mut Txn<'_>,
    asks: impl Iterator<Item = &'a Ask> + Clone,
    mixed: bool,
) -> Vec<Vec<&'a Ask>> {
    let mut sets = sets(txn, asks.clone(), mixed);
    let shapes = asks.map(|ask| txn.state().classes.class(ask.class).key.shape);
    let together = coupled::together(txn, shapes);
    if !together.is_empty() {
        let waits = |txn: &mut Txn<'_>, set: &[&Ask]| {
            set.iter().any(|ask| coupled::waits_for(txn, ask.class, &together))
        };
        sets.sort_by_cached_key(|set| waits(txn, set));
    }
    sets
}

/// Places pod sets for each of which the levels hold by itself.
pub(super) fn place(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let alone = TopologyAsk { per_set: false, ..topology };
    let sets = sets_in_turn(txn, asks.iter(), topology.mixed);
    let sets: Vec<Vec<Ask>> =
        sets.into_iter().map(|set| set.into_iter().cloned().collect()).collect();
    in_some_order(txn, sets.iter().collect(), |txn, set| gang::place(txn, set, alone))
}

/// Places more members of such sets of a gang that runs (`peers`: shape and node of those), one set
/// after the other. `false`: some of them may be placed.
pub(super) fn place_beside(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    peers: &[(ShapeIdx, NodeIdx)],
) -> bool {
    sets_in_turn(txn, asks.iter(), topology.mixed).into_iter().all(|set| {
        let own = peers_of(txn, set[0], peers);
        let joining = levels::members_of(txn.state(), set.iter().copied());
        let topology = topology.beside(&txn.state().room, &joining, peers);
        let set: Vec<Ask> = set.into_iter().cloned().collect();
        match topology.slices {
            Some(of) => slices::place_beside(txn, &set, topology, of, peers),
            None => {
                let alone = TopologyAsk { per_set: false, ..topology };
                gang::place_near(txn, &set, alone, &own)
            }
        }
    })
}

/// Places all of these, one after the other: who finds no place goes first in the next try.
/// `false`: none is placed.
pub(super) fn in_some_order<T: Copy>(
    txn: &mut Txn<'_>,
    mut order: Vec<T>,
    mut place: impl FnMut(&mut Txn<'_>, T) -> bool,
) -> bool {
    let start = txn.checkpoint();
    // A gang each of whose members has a claim of its own has as many shapes as members, and their
    // order says little of them.
    for _ in 0..order.len().min(ORDERS_MAX) {
        let Some(failed) = order.iter().position(|one| !place(txn, *one)) else { return true };
        txn.rollback_to(start);
        if failed == 0 {
            return false;
        }
        let one = order.remove(failed);
        order.insert(0, one);
    }
    false
}
