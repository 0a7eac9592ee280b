//! Sets and slices whose members have to take turns.
//!
//! Problem: where levels or slices hold for pod sets, sets are placed one after the other, and
//! slices of a set, too. Members may depend on each other across those: each of two sets wants some
//! of the other near, or a spread constraint lets no domain get ahead. They have to be placed in
//! turns, or a set has to look for its domain knowing who comes after it; and so it is where one
//! set takes the room that another can only use.
//!
//! Decides which gangs, and members that join one, are searched for that way once the other one
//! found nothing, and who of a set goes to which of the places that were found: slices are of
//! members in their order. Of a set whose members are of several shapes a slice is of certain ones,
//! which stay together.
//!
//! Cost: nothing for one set whose members do not depend on each other, and for sets that are found
//! one after the other; else a search ([`coupled`]) that is bounded by counts and says so.

use std::collections::BTreeMap;

use capstan_topology::{DomainIdx, NodeIdx};

use super::coupled::{self, Confines, Count, Found, Part, Place};
use super::gang::{self, Ask, TopologyAsk};
use super::slices::{self, Slices};
use super::{common_claims, levels, pod_sets, ways};
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx};
use crate::model::txn::Txn;

/// Whether [`place`] and [`holds`] look for places of these.
pub(super) fn are_searched(txn: &mut Txn<'_>, asks: &[Count]) -> bool {
    asks.iter().for_each(|(class, _)| txn.fresh(*class));
    let state = txn.state();
    asks.len() > 1
        || asks.iter().any(|count| common_claims::take_from_others(state, *count))
        || ways::any_opened(state, asks)
        || coupled::are_coupled(txn, asks)
}

/// Places all members, in any order, or nothing and answers `false`.
pub(super) fn place(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let asks: Vec<Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).cloned().collect();
    let counts = gang::counts_of(&asks);
    if !are_searched(txn, &counts) || some_alone_lacks_room(txn, &counts, topology) {
        return false;
    }
    let sets = pod_sets::sets(txn, asks.iter(), topology.mixed);
    let of_set = |set: &Vec<&Ask>| {
        let members = levels::members_of(txn.state(), set.iter().copied());
        topology.of_members(&txn.state().room, &members)
    };
    let asked: Vec<TopologyAsk> = sets.iter().map(of_set).collect();
    let (asks, parts): (Vec<Ask>, Vec<Part>) = parts(txn, &sets, &asked).into_iter().unzip();
    let slices: Vec<Option<Slices>> = parts.iter().map(|part| asked[part.set].slices).collect();
    let confines = Confines::new(parts, &asked);
    // Levels of each set by itself are for the search, which looks everywhere.
    let everywhere = TopologyAsk { required: None, preferred: None, ..topology };
    let topology = if topology.per_set { everywhere } else { topology };
    match coupled::find_confined(txn, &gang::counts_of(&asks), topology, Some(&confines)) {
        Found::Places(places) => {
            let pods = in_slices(txn, &asks, &places, &slices);
            gang::put_all(txn, &asks, places.into_iter().zip(pods))
        }
        Found::Bound(bound) => {
            txn.note_end(&counts, bound);
            false
        }
        Found::None => false,
    }
}

/// Places more members of several sets of a gang that runs (`peers`: shape and node of those), for
/// each of which levels hold by itself, or nothing and answers `false`: a set that chooses its
/// domain may have to choose that where another one is already. Sets that go in slices are not
/// looked for: which of those are begun is told by who is in them.
pub(super) fn place_beside(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    peers: &[(ShapeIdx, NodeIdx)],
) -> bool {
    let asks: Vec<Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).cloned().collect();
    let sets = pod_sets::sets(txn, asks.iter(), topology.mixed);
    if sets.len() < 2 || !coupled::are_coupled(txn, &gang::counts_of(&asks)) {
        return false;
    }
    let of_set = |set: &Vec<&Ask>| {
        let joining = levels::members_of(txn.state(), set.iter().copied());
        topology.beside(&txn.state().room, &joining, peers)
    };
    let asked: Vec<TopologyAsk> = sets.iter().map(of_set).collect();
    if asked.iter().any(|asked| asked.slices.is_some()) {
        return false;
    }
    let (asks, parts): (Vec<Ask>, Vec<Part>) = parts(txn, &sets, &asked).into_iter().unzip();
    let mut confines = Confines::new(parts, &asked);
    for (at, set) in sets.iter().enumerate() {
        let own = pod_sets::peers_of(txn, set[0], peers);
        let tree = &txn.state().room.tree;
        let home = asked[at].required.and_then(|level| gang::home(tree, level, &own));
        home.into_iter().for_each(|home| confines.settle(at, home));
    }
    // Near those who are there if that goes, else anywhere: the sets have their levels.
    let preferred = asked.iter().filter_map(|asked| asked.required).max();
    let topology = TopologyAsk { required: None, preferred, ..topology };
    let all: Vec<NodeIdx> = peers.iter().map(|(_, node)| *node).collect();
    let counts = gang::counts_of(&asks);
    match coupled::near(txn, &counts, topology, &all, Some(&confines)) {
        Found::Places(places) => {
            let pods = in_slices(txn, &asks, &places, &[]);
            gang::put_all(txn, &asks, places.into_iter().zip(pods))
        }
        Found::None | Found::Bound(_) => false,
    }
}

/// Whether some of these find no places by themselves, and nobody can open any for them.
fn some_alone_lacks_room(txn: &mut Txn<'_>, asks: &[Count], topology: TopologyAsk) -> bool {
    let alone = TopologyAsk { per_set: false, ..topology };
    asks.len() > 1
        && !coupled::are_coupled(txn, asks)
        && !ways::any_opened(txn.state(), asks)
        && !asks.iter().all(|(class, count)| gang::holds(txn, *class, *count, alone))
}

/// Whether members of one class that take turns find places in slices.
pub(super) fn holds(txn: &mut Txn<'_>, class: ClassIdx, count: u32, topology: TopologyAsk) -> bool {
    let counts = [(class, count)];
    let topology = TopologyAsk { per_set: false, ..topology };
    if !are_searched(txn, &counts) {
        return false;
    }
    let confines = Confines::new(vec![Part { set: 0, slice: None, count }], &[topology]);
    let found = coupled::find_confined(txn, &counts, topology, Some(&confines));
    matches!(found, Found::Places(_))
}

/// Asks of sets, for each of which this is asked, with what they are part of; one for each slice
/// where those are of certain members.
fn parts(txn: &Txn<'_>, sets: &[Vec<&Ask>], asked: &[TopologyAsk]) -> Vec<(Ask, Part)> {
    let (mut all, mut slice) = (Vec::new(), 0);
    for (set, members) in sets.iter().enumerate() {
        let mut add = |ask: &Ask, slice| {
            let count = ask.pods.len() as u32;
            all.push((ask.clone(), Part { set, slice, count }));
        };
        match (asked[set].slices, members.as_slice()) {
            (Some(of), [_, _, ..]) => {
                for cut in slices::cut(txn, members, of) {
                    cut.iter().for_each(|ask| add(ask, Some(slice)));
                    slice += 1;
                }
            }
            _ => members.iter().for_each(|ask| add(ask, None)),
        }
    }
    all
}

/// Who goes to each place: members of an ask in their order to one domain of the slices' level
/// after the other, to that with what is left over last; and from node to node as these lie, since
/// neighbours are to be near each other. Slices are those of each ask; none: of no ask.
pub(super) fn in_slices(
    txn: &Txn<'_>,
    asks: &[Ask],
    places: &[Place],
    slices: &[Option<Slices>],
) -> Vec<PodIdx> {
    let tree = &txn.state().room.tree;
    let of = |place: &Place| slices.get(place.ask).copied().flatten();
    let domain = |place: &Place| -> Option<DomainIdx> {
        tree.domain_of(of(place)?.level, tree.position(place.node)?)
    };
    let mut counts: BTreeMap<(usize, Option<DomainIdx>), u32> = BTreeMap::new();
    for place in places {
        *counts.entry((place.ask, domain(place))).or_default() += 1;
    }
    let odd = |place: &Place| {
        of(place).is_some_and(|of| !counts[&(place.ask, domain(place))].is_multiple_of(of.size))
    };
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| {
        let place = &places[*at];
        (odd(place), domain(place), tree.position(place.node), *at)
    });
    let mut members: Vec<_> = asks.iter().map(|ask| ask.pods.iter()).collect();
    let mut of_place: BTreeMap<usize, PodIdx> = BTreeMap::new();
    for at in order {
        let pod = members[places[at].ask].next().expect("a place for each member");
        of_place.insert(at, *pod);
    }
    of_place.into_values().collect()
}
