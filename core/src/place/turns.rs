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

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{DomainIdx, NodeIdx};

use super::coupled::{self, Confines, Count, Found, Part, Place};
use super::gang::{self, Ask, TopologyAsk};
use super::slices::{self, Slices};
use super::{common_claims, levels, pod_sets, ways};
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx};
use crate::model::txn::Txn;

/// Whether [`place`], [`place_beside`], and [`holds`] look for places of these.
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
    let parts = parts(&sets, &asked, |members, of| slices::cut(txn, members, of));
    let (asks, parts): (Vec<Ask>, Vec<Part>) = parts.into_iter().unzip();
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

/// Places more members of a gang that runs (`peers`: shape and node of those) that are of several
/// sets or go in slices, or nothing and answers `false`: a set that chooses its domains may have to
/// choose those where another one is, and slices that were begun are completed where they are.
pub(super) fn place_beside(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    peers: &[(ShapeIdx, NodeIdx)],
) -> bool {
    let asks: Vec<Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).cloned().collect();
    let sets = pod_sets::sets(txn, asks.iter(), topology.mixed);
    let of_set = |set: &Vec<&Ask>| {
        let joining = levels::members_of(txn.state(), set.iter().copied());
        topology.beside(&txn.state().room, &joining, peers)
    };
    let asked: Vec<TopologyAsk> = sets.iter().map(of_set).collect();
    let alone = sets.len() < 2 && asked.iter().all(|asked| asked.slices.is_none());
    let all = gang::counts_of(&asks);
    if alone || !are_searched(txn, &all) {
        return false;
    }
    // Near those who are there if that goes, else anywhere: sets with levels have those.
    let preferred = asked.iter().filter_map(|asked| asked.required).max();
    let by_set = TopologyAsk { required: None, preferred, ..topology };
    let topology = if topology.per_set { by_set } else { topology };
    let mut near: Vec<NodeIdx> = peers.iter().map(|(_, node)| *node).collect();
    let Some(outer) = slices::outer_of(txn, topology, &near) else { return false };
    let tree = &txn.state().room.tree;
    let range = tree.domain(outer).start..tree.domain(outer).end;
    near.retain(|node| tree.position(*node).is_some_and(|position| range.contains(&position)));
    let (parts, confines) = joining(txn, (&sets, &asked), outer, peers);
    let slices_of = |part: &Part| asked[part.set].slices.filter(|_| part.slice.is_none());
    let slices: Vec<Option<Slices>> = parts.iter().map(|(_, part)| slices_of(part)).collect();
    let mut asks: Vec<Ask> = parts.into_iter().map(|(ask, _)| ask).collect();
    let counts = gang::counts_of(&asks);
    match coupled::near(txn, &counts, topology, &near, Some(&confines)) {
        Found::Places(places) => {
            to_begun_slices(txn, &mut asks, &places, &slices);
            let pods = in_slices(txn, &asks, &places, &[]);
            gang::put_all(txn, &asks, places.into_iter().zip(pods))
        }
        Found::Bound(bound) => {
            txn.note_end(&all, bound);
            false
        }
        Found::None => false,
    }
}

/// Members that join, with what they are part of, and where that lets them go beside those of their
/// sets that have places: all of them in `outer`, where levels do not hold for sets.
fn joining(
    txn: &Txn<'_>,
    (sets, asked): (&[Vec<&Ask>], &[TopologyAsk]),
    outer: DomainIdx,
    peers: &[(ShapeIdx, NodeIdx)],
) -> (Vec<(Ask, Part)>, Confines) {
    let mut begun: Vec<BTreeSet<DomainIdx>> = Vec::new();
    let parts = parts(sets, asked, |members, of| {
        let (cut, there): (Vec<_>, Vec<_>) =
            slices::cut_beside(txn, members, of).into_iter().unzip();
        begun.extend(there);
        cut
    });
    let mut confines = Confines::new(parts.iter().map(|(_, part)| *part).collect(), asked);
    for (at, (set, asked)) in sets.iter().zip(asked).enumerate() {
        let own = pod_sets::peers_of(txn, set[0], peers);
        let outer = match asked.per_set {
            true => slices::outer_of(txn, *asked, &own),
            false => Some(outer),
        };
        // Who is in no domain of the level draws nobody anywhere.
        let Some(outer) = outer else { continue };
        if asked.per_set && asked.required.is_some() {
            confines.settle(at, outer);
        }
        if let Some(of) = asked.slices {
            confines.join(at, slices::counts(txn.state(), &own, of, outer));
        }
    }
    for (slice, domains) in begun.into_iter().enumerate() {
        confines.join_slice(slice, domains);
    }
    (parts, confines)
}

/// Puts members of each ask into the order in which they get places from domain to domain: those
/// first whose slice is in the first of these. Slices are those of each ask.
fn to_begun_slices(txn: &Txn<'_>, asks: &mut [Ask], places: &[Place], slices: &[Option<Slices>]) {
    let tree = &txn.state().room.tree;
    for (at, (ask, of)) in asks.iter_mut().zip(slices).enumerate() {
        let Some(of) = *of else { continue };
        let here = places.iter().filter(|place| place.ask == at);
        let mut positions: Vec<usize> =
            here.filter_map(|place| tree.position(place.node)).collect();
        positions.sort_unstable();
        let mut shares: Vec<(DomainIdx, u64)> = Vec::new();
        for position in positions {
            let domain = tree.domain_of(of.level, position).expect("slices are in domains");
            match shares.last_mut().filter(|(last, _)| *last == domain) {
                Some((_, count)) => *count += 1,
                None => shares.push((domain, 1)),
            }
        }
        let members: Vec<_> = ask.pods.iter().map(|pod| (ask.class, *pod)).collect();
        let parts = slices::to_their_slices(txn.state(), &members, &shares, of);
        ask.pods = parts.into_iter().flatten().map(|(_, pod)| pod).collect();
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
/// where those are of certain members, as `cut` has them.
fn parts(
    sets: &[Vec<&Ask>],
    asked: &[TopologyAsk],
    mut cut: impl FnMut(&[&Ask], Slices) -> Vec<Vec<Ask>>,
) -> Vec<(Ask, Part)> {
    let (mut all, mut slice) = (Vec::new(), 0);
    for (set, members) in sets.iter().enumerate() {
        let mut add = |ask: &Ask, slice| {
            let count = ask.pods.len() as u32;
            all.push((ask.clone(), Part { set, slice, count }));
        };
        match (asked[set].slices, members.as_slice()) {
            (Some(of), [_, _, ..]) => {
                for asks in cut(members, of) {
                    asks.iter().for_each(|ask| add(ask, Some(slice)));
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
