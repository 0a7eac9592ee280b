//! Gangs in slices: every so many members of a pod set together within one domain, wherever the
//! other slices are.
//!
//! Problem: a model that is split over eight GPUs of one rack wants each eight of its workers in
//! one rack, and as many racks as it takes. The members of a set are cut into slices of the wished
//! size in their order (that of their indices, where they have some; places for those that are
//! still to come stand where these will); what is left over is a smaller slice of its own.
//!
//! Wanted: whoever fits is found (for members that do not depend on each other), in few domains
//! that are close together, within the required level of the whole gang if there is one. A slice
//! that lost members gets them back where the others of it are. Where nothing but prices counts,
//! since others are too dear, slices go to the cheapest domains instead.
//!
//! Phases: outer domains, the innermost first, that have slots for all slices of each set by
//! itself; in each the sets one after the other, in several orders; a set's slices go to the fewest
//! inner domains (the last one to where it fits best) and there go as every gang goes. What that
//! does not find, where members or sets depend on each other, [`turns`] looks for. Members that
//! join a gang which runs complete its slices ([`beside`]).
//!
//! Restart: nothing is kept; who is where says which slices lack members. Cost: a few numbers for
//! each domain of the two levels.

mod beside;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use capstan_topology::{DomainIdx, LevelIdx};

use super::gang::{self, Ask, TRIES_MAX, TopologyAsk};
use super::{coupled, domains, pod_sets, turns};
use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;

pub use beside::place_beside;
pub(super) use beside::{counts, cut_beside, outer_of, to_their_slices};

/// Slices asked of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Each within one domain of this level.
    pub level: LevelIdx,
    /// Members of a slice; at least one.
    pub size: u32,
}

/// An inner domain, and how much of a set goes there.
struct Share {
    domain: DomainIdx,
    slots: u64,
    /// Members that go there.
    taken: u64,
}

impl Share {
    fn whole(&self, size: u64) -> u64 {
        (self.slots - self.taken) / size
    }
}

/// Whether the slices of a set of one class find domains, as things are. Exact for members that do
/// not depend on each other.
pub fn holds(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    count: u32,
    topology: TopologyAsk,
    of: Slices,
) -> bool {
    txn.fresh(class);
    let state = txn.state();
    let fits = |outer: &DomainIdx| most_in(state, class, count, of, *outer) == count;
    match topology.required {
        None => fits(&state.room.tree.root()),
        Some(level) => state.room.tree.domains_at(level).iter().any(fits),
    }
}

/// How many members of a set find places in whole slices (and what is left over), in the outer
/// domain that takes most.
pub fn most(state: &ClusterState, class: ClassIdx, count: u32, topology: TopologyAsk) -> u32 {
    let Some(of) = topology.slices else { return 0 };
    let tree = &state.room.tree;
    let most = |outer: &DomainIdx| most_in(state, class, count, of, *outer);
    match topology.required {
        None => most(&tree.root()),
        Some(level) => tree.domains_at(level).iter().map(most).max().unwrap_or(0),
    }
}

/// Places every member of every ask, or answers `false` and leaves what it placed to the caller.
pub fn place(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk, of: Slices) -> bool {
    let asks: Vec<&Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).collect();
    if asks.is_empty() {
        return true;
    }
    let counts: Vec<_> = asks.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect();
    let step_by_step = topology.anywhere || coupled::are_coupled(txn, &counts);
    let mut sets = pod_sets::sets(txn, asks.iter().copied(), topology.mixed);
    sets.sort_by_key(|set| Reverse(gang::size(txn, set[0])));
    let mut tries = 0;
    for outer in outer_domains(txn, &sets, topology, of) {
        tries += 1;
        let order = sets.iter().map(Vec::as_slice).collect();
        let place = |txn: &mut Txn<'_>, set: &[&Ask]| place_set(txn, set, outer, of, step_by_step);
        if pod_sets::in_some_order(txn, order, place) {
            return true;
        }
    }
    // For these, slots of domains are no proof, and not every way was tried.
    if tries > 0 && !turns::are_searched(txn, &counts) {
        txn.note_end(&counts, SearchBound::Domains(tries));
    }
    false
}

/// Outer domains that have slots for the slices of each set by itself, the innermost first; of one
/// level the best, and of equals the tightest; the cheapest where nothing but that counts.
fn outer_domains(
    txn: &mut Txn<'_>,
    sets: &[Vec<&Ask>],
    topology: TopologyAsk,
    of: Slices,
) -> Vec<DomainIdx> {
    let asks = || sets.iter().flatten();
    asks().for_each(|ask| txn.fresh(ask.class));
    let thrifty = gang::are_thrifty(txn, &sets.concat());
    let state = txn.state();
    let tree = &state.room.tree;
    let within = |outer: DomainIdx| {
        let start = tree.domain(outer).start;
        topology.required.is_none_or(|level| tree.domain_of(level, start).is_some())
    };
    let slots_of = |ask: &Ask, outer: DomainIdx| state.classes.fit(ask.class).slots(outer);
    let holds = |outer: &DomainIdx| {
        let all = |set: &Vec<&Ask>| match set.as_slice() {
            [ask] => {
                let count = ask.pods.len() as u32;
                most_in(state, ask.class, count, of, *outer) == count
            }
            mixed => mixed.iter().all(|ask| slots_of(ask, *outer) >= ask.pods.len() as u64),
        };
        within(*outer) && sets.iter().all(all)
    };
    let slots = |outer: DomainIdx| -> u64 { asks().map(|ask| slots_of(ask, outer)).sum() };
    let mut found = Vec::new();
    for level in levels(tree.levels(), topology, of).rev() {
        let domains = tree.domains_at(level).iter().copied();
        let mut here: Vec<DomainIdx> = domains.filter(holds).collect();
        if thrifty {
            here.sort_by_cached_key(|outer| (Reverse(worth_in(state, sets, of, *outer)), *outer));
        } else {
            here.sort_by_cached_key(|outer| {
                let counts = asks().map(|ask| (ask.class, ask.pods.len() as u32));
                (Reverse(domains::value(state, counts, *outer)), slots(*outer), *outer)
            });
        }
        here.truncate(TRIES_MAX);
        found.extend(here);
    }
    if topology.required.is_none() && holds(&tree.root()) {
        found.push(tree.root());
    }
    found
}

/// What the places are worth that sets would have in an outer domain.
fn worth_in(state: &ClusterState, sets: &[Vec<&Ask>], of: Slices, outer: DomainIdx) -> u64 {
    let tree = &state.room.tree;
    let worth = |ask: &Ask, domain: DomainIdx, members: u32| -> u64 {
        state.classes.fit(ask.class).worth(tree, domain, members)
    };
    let of_set = |set: &Vec<&Ask>| -> u64 {
        let all = |ask: &Ask| ask.pods.len() as u32;
        match set.as_slice() {
            [ask] => {
                let shares = shares(state, ask.class, all(ask), of, outer).unwrap_or_default();
                let part = |(domain, taken): &(DomainIdx, u64)| worth(ask, *domain, *taken as u32);
                shares.iter().map(part).sum()
            }
            mixed => mixed.iter().map(|ask| worth(ask, outer, all(ask))).sum(),
        }
    };
    sets.iter().map(of_set).sum()
}

/// Levels of outer domains, outermost first: from the required one to that of the slices; where
/// closeness does not matter, no further in than was asked for.
fn levels(
    known: usize,
    topology: TopologyAsk,
    of: Slices,
) -> impl DoubleEndedIterator<Item = LevelIdx> {
    let (required, preferred) = (topology.required, topology.preferred);
    let first = required.map_or(0, LevelIdx::at);
    let asked =
        move |level: &LevelIdx| !topology.anywhere || required.max(preferred) >= Some(*level);
    let last = (of.level.at() + 1).min(known);
    (first..last.max(first)).map(|level| LevelIdx(level as u8)).filter(asked)
}

/// Places the members of one set, slice by slice; `false`: some of them may be placed.
fn place_set(
    txn: &mut Txn<'_>,
    set: &[&Ask],
    outer: DomainIdx,
    of: Slices,
    step_by_step: bool,
) -> bool {
    let &[ask] = set else { return place_mixed(txn, set, outer, of, step_by_step) };
    txn.fresh(ask.class);
    let count = ask.pods.len() as u32;
    let shares = shares(txn.state(), ask.class, count, of, outer);
    fill_shares(txn, ask, shares, step_by_step)
}

/// Puts so many members of an ask into each of these inner domains, in their order, if there are
/// any for all of them.
fn fill_shares(
    txn: &mut Txn<'_>,
    ask: &Ask,
    shares: Option<Vec<(DomainIdx, u64)>>,
    step_by_step: bool,
) -> bool {
    let mut left = &ask.pods[..];
    shares.into_iter().flatten().all(|(domain, count)| {
        let (here, rest) = left.split_at(count as usize);
        left = rest;
        gang::fill(txn, ask.class, here, domain, step_by_step)
    }) && left.is_empty()
}

/// Places a set whose members have several shapes: slices in the order of members, each in the
/// tightest inner domain that takes it; in the cheapest where nothing but that counts.
fn place_mixed(
    txn: &mut Txn<'_>,
    set: &[&Ask],
    outer: DomainIdx,
    of: Slices,
    step_by_step: bool,
) -> bool {
    let slices = cut(txn, set, of);
    let thrifty = gang::are_thrifty(txn, set);
    let place = |txn: &mut Txn<'_>, slice: &[Ask]| {
        let asks: Vec<&Ask> = slice.iter().collect();
        asks.iter().for_each(|ask| txn.fresh(ask.class));
        let state = txn.state();
        let slots = |ask: &Ask, domain| state.classes.fit(ask.class).slots(domain);
        let holds = |ask: &&Ask, domain| slots(ask, domain) >= ask.pods.len() as u64;
        let mut domains: Vec<DomainIdx> = inner_domains(state, of, outer).collect();
        domains.retain(|domain| asks.iter().all(|ask| holds(ask, *domain)));
        let spare = |domain: DomainIdx| asks.iter().map(|ask| slots(ask, domain)).min();
        domains.sort_by_cached_key(|domain| {
            let worth = |ask: &&Ask| {
                let index = state.classes.fit(ask.class);
                index.worth(&state.room.tree, *domain, ask.pods.len() as u32)
            };
            let worth: u64 = if thrifty { asks.iter().map(worth).sum() } else { 0 };
            (Reverse(worth), spare(*domain), *domain)
        });
        domains.truncate(TRIES_MAX);
        domains.into_iter().any(|domain| gang::try_domain(txn, &asks, domain, step_by_step))
    };
    pod_sets::in_some_order(txn, slices.iter().map(Vec::as_slice).collect(), place)
}

/// The slices of a set whose members have several shapes: its members in their order.
pub(super) fn cut(txn: &Txn<'_>, set: &[&Ask], of: Slices) -> Vec<Vec<Ask>> {
    in_order(txn, set).chunks(of.size as usize).map(by_class).collect()
}

/// Asks whose members stand in the order of their numbers, where places are among them; `None`: as
/// they are.
pub(super) fn numbered(state: &ClusterState, asks: &[Ask]) -> Option<Vec<Ask>> {
    let kept = |pod: Option<&PodIdx>| pod.is_some_and(|pod| state.pods[*pod].kept());
    let mixed = |ask: &Ask| !kept(ask.pods.first()) && kept(ask.pods.last());
    if !asks.iter().any(mixed) {
        return None;
    }
    let mut asks = asks.to_vec();
    for ask in &mut asks {
        by_number(&mut ask.pods, |pod| state.pods[*pod].kept(), |pod| state.pods[*pod].number());
    }
    Some(asks)
}

/// Puts members of a set into the order of their numbers, if each has one of its own: places, which
/// are kept for those that are still to come, stand behind all who are there.
fn by_number<T>(members: &mut [T], kept: impl Fn(&T) -> bool, number: impl Fn(&T) -> Option<u32>) {
    if !members.last().is_some_and(kept) {
        return;
    }
    let Some(mut numbers) = members.iter().map(&number).collect::<Option<Vec<u32>>>() else {
        return;
    };
    numbers.sort_unstable();
    if numbers.windows(2).all(|two| two[0] < two[1]) {
        members.sort_by_key(number);
    }
}

/// Members of a set in the order that they have in their gang, each with its class.
fn in_order(txn: &Txn<'_>, set: &[&Ask]) -> Vec<(ClassIdx, PodIdx)> {
    let state = txn.state();
    let mut all: Vec<(ClassIdx, PodIdx)> =
        set.iter().flat_map(|ask| ask.pods.iter().map(|pod| (ask.class, *pod))).collect();
    let workload = all.first().and_then(|(_, pod)| state.pods[*pod].workload);
    let members = workload.map_or(&[][..], |workload| &state.workloads[workload].members);
    let at: BTreeMap<PodIdx, usize> = members.iter().copied().zip(0..).collect();
    all.sort_by_key(|(_, pod)| at.get(pod).copied());
    by_number(&mut all, |(_, pod)| state.pods[*pod].kept(), |(_, pod)| state.pods[*pod].number());
    all
}

/// Members as asks, one for each class.
fn by_class(members: &[(ClassIdx, PodIdx)]) -> Vec<Ask> {
    let mut asks: Vec<Ask> = Vec::new();
    for &(class, pod) in members {
        match asks.iter_mut().find(|ask| ask.class == class) {
            Some(ask) => ask.pods.push(pod),
            None => asks.push(Ask { class, pods: vec![pod] }),
        }
    }
    asks
}

/// Inner domains of an outer one.
fn inner_domains(
    state: &ClusterState,
    of: Slices,
    outer: DomainIdx,
) -> impl Iterator<Item = DomainIdx> + '_ {
    let tree = &state.room.tree;
    let Range { start, end } = tree.domain(outer).start..tree.domain(outer).end;
    let inside = move |domain: &DomainIdx| {
        let inner = tree.domain(*domain);
        inner.start >= start && inner.end <= end
    };
    tree.domains_at(of.level).iter().copied().filter(inside)
}

/// Inner domains of an outer one, with slots for the class.
fn inner(state: &ClusterState, class: ClassIdx, of: Slices, outer: DomainIdx) -> Vec<Share> {
    let index = state.classes.fit(class);
    let share = |domain: DomainIdx| Share { domain, slots: index.slots(domain), taken: 0 };
    let domains = inner_domains(state, of, outer);
    domains.map(share).filter(|share| share.slots > 0).collect()
}

/// How many members of a set find places within an outer domain.
fn most_in(state: &ClusterState, class: ClassIdx, count: u32, of: Slices, outer: DomainIdx) -> u32 {
    let size = u64::from(of.size);
    let (mut whole, mut longest) = (0_u64, 0);
    for share in inner(state, class, of, outer) {
        whole = whole.saturating_add(share.slots / size);
        longest = longest.max(share.slots % size);
    }
    let (wanted, rest) = (u64::from(count) / size, u64::from(count) % size);
    let rest_fits = rest > 0 && (whole > wanted || longest >= rest);
    let held = whole.min(wanted) * size + if rest_fits { rest } else { 0 };
    u32::try_from(held).unwrap_or(u32::MAX)
}

/// How many members of a set go to which inner domains, in their order; `None`: not all of them.
fn shares(
    state: &ClusterState,
    class: ClassIdx,
    count: u32,
    of: Slices,
    outer: DomainIdx,
) -> Option<Vec<(DomainIdx, u64)>> {
    let size = u64::from(of.size);
    let mut all = inner(state, class, of, outer);
    let (wanted, rest) = (u64::from(count) / size, u64::from(count) % size);
    let thrifty = state.classes.class(class).key.scoring.is_thrifty();
    let gain = |share: &Share, more: u64| match thrifty {
        true => more_worth(state, class, share, more),
        false => 0,
    };
    match thrifty {
        true => take_worthiest(&mut all, (wanted, size), &gain)?,
        false => take_fewest(&mut all, (wanted, size))?,
    }
    if rest > 0 {
        // Beside the others if it can be, and there where least is left.
        let holds = all.iter_mut().filter(|share| share.slots - share.taken >= rest);
        let share = holds.min_by_key(|it| {
            (Reverse(gain(it, rest)), it.taken == 0, it.slots - it.taken, it.domain)
        })?;
        share.taken += rest;
    }
    let taken = all.into_iter().filter(|share| share.taken > 0);
    let mut taken: Vec<_> = taken.map(|share| (share.domain, share.taken)).collect();
    // Members go there in their order, and what is left over are the last ones.
    taken.sort_by_key(|(_, count)| !count.is_multiple_of(size));
    Some(taken)
}

/// Takes so many whole slices from the fewest domains; `None`: there are not so many.
fn take_fewest(all: &mut [Share], (mut wanted, size): (u64, u64)) -> Option<()> {
    while wanted > 0 {
        // The tightest that takes all that is left, else the one that takes most.
        let enough = all.iter_mut().filter(|share| share.whole(size) >= wanted);
        let share = match enough.min_by_key(|share| (share.slots - share.taken, share.domain)) {
            Some(share) => share,
            None => all.iter_mut().max_by_key(|it| (it.whole(size), Reverse(it.domain)))?,
        };
        let slices = share.whole(size).min(wanted);
        if slices == 0 {
            return None;
        }
        share.taken += slices * size;
        wanted -= slices;
    }
    Some(())
}

/// Takes so many whole slices where each more is worth most, since the next of a domain is worth no
/// more than the one before; of equals where others go, and as from the fewest. `None`: there are
/// not so many.
fn take_worthiest(
    all: &mut [Share],
    (wanted, size): (u64, u64),
    gain: &impl Fn(&Share, u64) -> u64,
) -> Option<()> {
    let next = |share: &Share| (share.whole(size) > 0).then(|| gain(share, size));
    let mut worth: Vec<Option<u64>> = all.iter().map(next).collect();
    for left in (1..=wanted).rev() {
        let rank = |at: &usize| {
            let (share, enough) = (&all[*at], all[*at].whole(size) >= left);
            let free = share.slots - share.taken;
            let tight = if enough { u64::MAX - free } else { free };
            (worth[*at], share.taken > 0, enough, tight, Reverse(share.domain))
        };
        let best = (0..all.len()).max_by_key(rank).filter(|at| worth[*at].is_some())?;
        all[best].taken += size;
        worth[best] = next(&all[best]);
    }
    Some(())
}

/// What so many members more are worth in a domain.
fn more_worth(state: &ClusterState, class: ClassIdx, share: &Share, more: u64) -> u64 {
    let (index, tree) = (state.classes.fit(class), &state.room.tree);
    let worth = |members: u64| index.worth(tree, share.domain, members as u32);
    worth(share.taken + more) - worth(share.taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stand_where_those_will_that_they_are_for() {
        // (number, it is a place)
        let order = |members: &[(Option<u32>, bool)]| {
            let mut members = members.to_vec();
            by_number(&mut members, |(_, kept)| *kept, |(number, _)| *number);
            members.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        let (there, place) = (|n| (Some(n), false), |n| (Some(n), true));
        let all = [there(1), there(3), place(2), place(4)];
        assert_eq!(order(&all), [1, 2, 3, 4].map(Some));
        // Whose names say otherwise stand as they are named.
        assert_eq!(order(&[there(3), there(1)]), [3, 1].map(Some));
        // Numbers of several sets are no numbers of all, and some say none.
        assert_eq!(order(&[there(1), there(0), place(1)]), [1, 0, 1].map(Some));
        assert_eq!(order(&[(None, false), place(1), place(0)]), [None, Some(1), Some(0)]);
    }
}
