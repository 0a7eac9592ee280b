//! Members that join a gang in slices.
//!
//! Wanted: a slice that lost members gets them back where the others of it are; what joins besides
//! begins slices of its own, within the domain of the required level where the gang is.
//!
//! Decides how many members go to which inner domains, by what these hold of the set already, and
//! who of them goes where. Exact for members that do not depend on each other.
//!
//! Cost: a few numbers for each inner domain, and a look at each member of the set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{DomainIdx, NodeIdx};

use super::{
    Share, Slices, by_class, by_number, in_order, inner, more_worth, take_fewest, take_worthiest,
};
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::place::pod_sets;

/// By number of a slice, the inner domains where some of it are.
type Begun = BTreeMap<usize, BTreeSet<DomainIdx>>;

/// Places more members of a gang that runs (`peers`: shape and node of those): into slices that
/// lack some, where the others of those are, then in slices of their own. `false`: some of them may
/// be placed.
pub fn place_beside(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    of: Slices,
    peers: &[(ShapeIdx, NodeIdx)],
) -> bool {
    let all: Vec<NodeIdx> = peers.iter().map(|(_, node)| *node).collect();
    if !topology.per_set && outer_of(txn, topology, &all).is_none() {
        return gang::place(txn, asks, topology);
    }
    let asks = asks.iter().filter(|ask| !ask.pods.is_empty());
    pod_sets::sets_in_turn(txn, asks, topology.mixed).into_iter().all(|set| {
        let own = pod_sets::peers_of(txn, set[0], peers);
        let near = if topology.per_set { &own } else { &all };
        match outer_of(txn, topology, near) {
            None => {
                let set: Vec<Ask> = set.into_iter().cloned().collect();
                gang::place(txn, &set, TopologyAsk { per_set: false, ..topology })
            }
            Some(outer) => place_more(txn, &set, &own, of, outer),
        }
    })
}

/// The domain of the required level where those are whom more members join; `None`: nobody of them
/// is in any.
pub(in crate::place) fn outer_of(
    txn: &Txn<'_>,
    topology: TopologyAsk,
    near: &[NodeIdx],
) -> Option<DomainIdx> {
    let tree = &txn.state().room.tree;
    match topology.required {
        None => Some(tree.root()),
        Some(level) => gang::home(tree, level, near),
    }
}

/// More members of one set; where they have several shapes, as if all were of one of these.
fn place_more(
    txn: &mut Txn<'_>,
    set: &[&Ask],
    own: &[NodeIdx],
    of: Slices,
    outer: DomainIdx,
) -> bool {
    let start = txn.checkpoint();
    let members = in_order(txn, set);
    let lacking = lacking(txn.state(), &members, of);
    set.iter().any(|like| {
        set.iter().for_each(|ask| txn.fresh(ask.class));
        let more = members.len() as u64;
        let shares = completed(txn.state(), (like.class, more), (own, &lacking), of, outer);
        let placed = shares.is_some_and(|shares| {
            let parts = to_their_slices(txn.state(), &members, &shares, of);
            shares.iter().zip(parts).all(|((domain, _), here)| {
                let asks = by_class(&here);
                gang::try_domain(txn, &asks.iter().collect::<Vec<_>>(), *domain, true)
            })
        });
        if !placed {
            txn.rollback_to(start);
        }
        placed
    })
}

/// How many of these members others of their slices wait for, by inner domain.
fn lacking(
    state: &ClusterState,
    members: &[(ClassIdx, PodIdx)],
    of: Slices,
) -> BTreeMap<DomainIdx, u64> {
    let (slices, there) = slices_of(state, members[0].1, of);
    let begun = members.iter().filter_map(|(_, pod)| there.get(slices.get(pod)?));
    let mut lacking = BTreeMap::new();
    for domain in begun.flatten() {
        *lacking.entry(*domain).or_default() += 1;
    }
    lacking
}

/// Which members of a set go to each of these inner domains, so many to each: those first whose
/// slice is there, those last whose slice is elsewhere.
pub(in crate::place) fn to_their_slices(
    state: &ClusterState,
    members: &[(ClassIdx, PodIdx)],
    shares: &[(DomainIdx, u64)],
    of: Slices,
) -> Vec<Vec<(ClassIdx, PodIdx)>> {
    let (slices, there) = slices_of(state, members[0].1, of);
    let mut left = members.to_vec();
    let part = |(domain, count): &(DomainIdx, u64)| {
        left.sort_by_cached_key(|(_, pod)| {
            let slice = slices.get(pod);
            let domains = slice.and_then(|slice| there.get(slice));
            let here = domains.is_some_and(|domains| domains.contains(domain));
            (!here, domains.is_some(), slice)
        });
        let rest = left.split_off(*count as usize);
        std::mem::replace(&mut left, rest)
    };
    shares.iter().map(part).collect()
}

/// The slices of a set whose members have several shapes, of those that join: who of each does, and
/// the inner domains where others of it are.
pub(in crate::place) fn cut_beside(
    txn: &Txn<'_>,
    set: &[&Ask],
    of: Slices,
) -> Vec<(Vec<Ask>, BTreeSet<DomainIdx>)> {
    let members = in_order(txn, set);
    let (slices, mut there) = slices_of(txn.state(), members[0].1, of);
    let mut joining: BTreeMap<Option<usize>, Vec<(ClassIdx, PodIdx)>> = BTreeMap::new();
    for member in members {
        joining.entry(slices.get(&member.1).copied()).or_default().push(member);
    }
    let mut begun = |slice: Option<usize>| there.remove(&slice?);
    let joining = joining.into_iter();
    joining.map(|(slice, all)| (by_class(&all), begun(slice).unwrap_or_default())).collect()
}

/// The slice of each member of a pod's set, by number, and which of those have begun.
fn slices_of(state: &ClusterState, pod: PodIdx, of: Slices) -> (BTreeMap<PodIdx, usize>, Begun) {
    let (mut slices, mut there) = (BTreeMap::new(), Begun::new());
    let Some(workload) = state.pods[pod].workload else { return (slices, there) };
    let (shape, tree) = (state.pods[pod].shape, &state.room.tree);
    let members = state.workloads[workload].members.iter().map(|pod| (*pod, &state.pods[*pod]));
    let stay = members.filter(|(_, member)| member.active() && !member.terminating);
    let set = stay.filter(|(_, member)| pod_sets::alike(&state.room, member.shape, shape));
    let mut set: Vec<(PodIdx, &Pod)> = set.collect();
    by_number(&mut set, |(_, member)| member.kept(), |(_, member)| member.number());
    for (at, (pod, member)) in set.into_iter().enumerate() {
        let slice = at / of.size as usize;
        slices.insert(pod, slice);
        let position = member.place.and_then(|node| tree.position(node));
        if let Some(domain) = position.and_then(|position| tree.domain_of(of.level, position)) {
            there.entry(slice).or_default().insert(domain);
        }
    }
    (slices, there)
}

/// How many more members of a set go to which inner domains, so that with those that are there all
/// are in whole slices, but for one that is what is left over; `None`: there is no such way. Where
/// others of their slices are as many go as are `lacking`, if they do.
fn completed(
    state: &ClusterState,
    (class, more): (ClassIdx, u64),
    (own, lacking): (&[NodeIdx], &BTreeMap<DomainIdx, u64>),
    of: Slices,
    outer: DomainIdx,
) -> Option<Vec<(DomainIdx, u64)>> {
    let size = u64::from(of.size);
    let there = counts(state, own, of, outer);
    let mut all = inner(state, class, of, outer);
    let known: Vec<DomainIdx> = all.iter().map(|share| share.domain).collect();
    let full = there.keys().filter(|domain| !known.contains(domain));
    all.extend(full.map(|domain| Share { domain: *domain, slots: 0, taken: 0 }));
    let count = |share: &Share| there.get(&share.domain).copied().unwrap_or(0);
    let lacks = |share: &Share| lacking.get(&share.domain).copied().unwrap_or(0);
    let rest = (there.values().sum::<u64>() + more) % size;
    let thrifty = state.classes.class(class).key.scoring.is_thrifty();
    let gain = |share: &Share, more: u64| match thrifty {
        true => more_worth(state, class, share, more),
        false => 0,
    };
    // What is left over stays where the fuller part of a slice is, or where slices lack most, else
    // where it could be made whole.
    all.sort_by_cached_key(|share| {
        let (part, gained) = (count(share) % size, gain(share, rest));
        let here = (Reverse(part), Reverse(lacks(share)), Reverse(gained));
        (here, share.slots < size, share.slots, share.domain)
    });
    let odd = (0..all.len()).map(Some).filter(|_| rest > 0).chain((rest == 0).then_some(None));
    odd.into_iter().find_map(|odd| {
        let mut left = more;
        for (at, share) in all.iter_mut().enumerate() {
            let wanted = if Some(at) == odd { rest } else { 0 };
            share.taken = (wanted + size - count(share) % size) % size;
            left = left.checked_sub(share.taken)?;
            if share.taken > share.slots {
                return None;
            }
        }
        let mut wanted = left / size;
        for share in &mut all {
            let begun = lacks(share).saturating_sub(share.taken).div_ceil(size);
            let slices = share.whole(size).min(begun).min(wanted);
            share.taken += slices * size;
            wanted -= slices;
        }
        match thrifty {
            true => take_worthiest(&mut all, (wanted, size), &gain)?,
            false => take_fewest(&mut all, (wanted, size))?,
        }
        let taken = all.iter().filter(|share| share.taken > 0);
        Some(taken.map(|share| (share.domain, share.taken)).collect())
    })
}

/// Members of a set by inner domain of an outer one: those that others put elsewhere are no part of
/// its slices.
pub(in crate::place) fn counts(
    state: &ClusterState,
    own: &[NodeIdx],
    of: Slices,
    outer: DomainIdx,
) -> BTreeMap<DomainIdx, u64> {
    let tree = &state.room.tree;
    let outer = tree.domain(outer).start..tree.domain(outer).end;
    let mut counts = BTreeMap::new();
    let positions = own.iter().filter_map(|node| tree.position(*node));
    for position in positions.filter(|position| outer.contains(position)) {
        if let Some(domain) = tree.domain_of(of.level, position) {
            *counts.entry(domain).or_default() += 1;
        }
    }
    counts
}
