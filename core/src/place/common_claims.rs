//! Claims on devices that members of a gang share by name and that have none yet.
//!
//! Problem: nodes count a claim each for itself: where there are devices for it, any number of its
//! users fits, as far as that goes. It gets devices once, with the first who needs it, and all
//! others have to go where those can be used; most often that is one node.
//!
//! Decides whether some node has room for all who share a claim that one node alone can use, which
//! is exact for members of one class; and in which order nodes are tried for such a claim. Whether
//! everybody finds a place only placing them tells ([`super::gang`]).
//!
//! Cost: nothing for members without claims; else a few numbers for each node. Nothing is kept.

use std::cmp::Reverse;
use std::ops::Range;

use capstan_topology::ResourceIdx;

use super::coupled::{self, Count};
use super::gang::TopologyAsk;
use super::ways;
use crate::explain::reason::FlavorProblem;
use crate::model::ids::ClassIdx;
use crate::model::input::{PodClaim, ResourceClaimKey};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::resources;
use crate::rules::dynamic_resources::is_of_one_node;
use crate::rules::dynamic_resources::ways::{are_choosy as are_choosy_claims, most as most_pods};

/// Nodes on which a claim is tried to see how many of its users go beside the first.
const LOOKS_MAX: usize = 8;

/// A claim that has no devices yet, and those who need it: positions of their asks.
pub(super) struct Shared {
    key: ResourceClaimKey,
    asks: Vec<usize>,
}

/// Claims that a class names and that have no devices yet.
fn untaken(state: &ClusterState, class: ClassIdx) -> impl Iterator<Item = &ResourceClaimKey> {
    let shape = state.room.shape(state.classes.class(class).key.shape);
    shape.facts.claims.iter().filter_map(|claim| match claim {
        PodClaim::Named(key) if state.room.devices.is_untaken(key) => Some(key),
        _ => None,
    })
}

/// Whether members of a class name a claim that has no devices yet.
pub fn any(state: &ClusterState, class: ClassIdx) -> bool {
    untaken(state, class).next().is_some()
}

/// Whether slots of several nodes need not add up for members of a class, as what one of them gets
/// may be missing for the next elsewhere: a claim that they share, or devices that several nodes
/// can use.
pub fn contend(state: &ClusterState, class: ClassIdx, count: u32) -> bool {
    let shape = state.room.shape(state.classes.class(class).key.shape);
    count > 1
        && !shape.facts.claims.is_empty()
        && (state.room.devices.any_wide() || any(state, class))
}

/// Whether a node may have devices for more members of a class than it has slots, which count those
/// who take the first that will do, one after the other: their claims ask for several things, or
/// devices exclude each other. The class is up to date.
pub fn are_choosy(state: &ClusterState, class: ClassIdx, count: u32) -> bool {
    let index = state.classes.fit(class);
    let more = |at: usize| most_on(state, class, at) > index.spot(at).slots;
    count > 1 && choose_each(state, class) && (0..state.room.tree.order().len()).any(more)
}

/// Whether it matters which devices members of a class take, or on which nodes they are, as others
/// of the class may find none then.
pub(super) fn take_from_others(state: &ClusterState, (class, count): Count) -> bool {
    contend(state, class, count) || are_choosy(state, class, count)
}

/// Whether claims of a class are such that this may be.
pub(super) fn choose_each(state: &ClusterState, class: ClassIdx) -> bool {
    let shape = state.room.shape(state.classes.class(class).key.shape);
    are_choosy_claims(&state.room.devices, &shape.facts)
}

/// No more members of a class than this go to a position, whoever else is placed and whatever they
/// take.
pub(super) fn most_on(state: &ClusterState, class: ClassIdx, position: usize) -> u32 {
    let free = coupled::free_on(state, class, position);
    if free == 0 || !choose_each(state, class) {
        return free;
    }
    let shape = state.room.shape(state.classes.class(class).key.shape);
    let node = state.room.facts(state.room.tree.order()[position]);
    free.min(node.map_or(0, |node| most_pods(&state.room.devices, &shape.facts, node)))
}

/// Claims that two or more of these need.
pub(super) fn claims(state: &ClusterState, asks: &[Count]) -> Vec<Shared> {
    let mut found: Vec<Shared> = Vec::new();
    for (at, (class, _)) in asks.iter().enumerate().filter(|(_, (_, count))| *count > 0) {
        for key in untaken(state, *class) {
            match found.iter_mut().find(|known| known.key == *key) {
                Some(known) => known.asks.push(at),
                None => found.push(Shared { key: key.clone(), asks: vec![at] }),
            }
        }
    }
    let users = |shared: &Shared| shared.asks.iter().map(|at| asks[*at].1).sum::<u32>();
    found.retain(|shared| users(shared) > 1);
    found
}

/// Whether every claim that some of these share and that one node alone can use has a node in the
/// range with room for all of those. Classes are up to date.
pub(super) fn fit_one_node(state: &ClusterState, asks: &[Count], range: Range<usize>) -> bool {
    let mut claims = claims(state, asks);
    claims.retain(|shared| is_of_one_node(&state.room.devices, &shared.key));
    let opened = !claims.is_empty() && ways::any_opened(state, asks);
    claims.iter().all(|shared| {
        let users = Users::of(state, shared, asks, opened);
        range.clone().any(|position| users.fit(state, position))
    })
}

/// The same in some domain of a required level.
pub(super) fn fit_some_node(txn: &mut Txn<'_>, asks: &[Count], topology: TopologyAsk) -> bool {
    if !asks.iter().any(|(class, _)| any(txn.state(), *class)) {
        return true;
    }
    asks.iter().for_each(|(class, _)| txn.fresh(*class));
    let state = txn.state();
    let tree = &state.room.tree;
    // Sets that have domains of their own may have nodes in several.
    match topology.required.filter(|_| !topology.per_set) {
        None => fit_one_node(state, asks, 0..tree.order().len()),
        Some(level) => tree.domains_at(level).iter().any(|domain| {
            let domain = tree.domain(*domain);
            fit_one_node(state, asks, domain.start..domain.end)
        }),
    }
}

/// Members that share a claim.
struct Users {
    counts: Vec<Count>,
    /// What all of them ask of a node, `pods` among it.
    all: Vec<(ResourceIdx, i64)>,
    /// Others may open nodes for some.
    opened: bool,
}

impl Users {
    fn of(state: &ClusterState, shared: &Shared, asks: &[Count], opened: bool) -> Users {
        let counts: Vec<Count> = shared.asks.iter().map(|at| asks[*at]).collect();
        Users { all: total(state, &counts), counts, opened }
    }

    /// Whether a node has room for all of them.
    fn fit(&self, state: &ClusterState, position: usize) -> bool {
        let (room, node) = (&state.room, state.room.tree.order()[position]);
        let slots = |class: ClassIdx| self.slots(state, class, position);
        self.counts.iter().all(|(class, count)| slots(*class) >= *count)
            && (room.args.ignores_any()
                || self.all.iter().all(|(of, sum)| room.ledger.free(node, *of) >= *sum))
    }

    /// How many of a class a node has room for, whoever may still open it, and whatever they take.
    fn slots(&self, state: &ClusterState, class: ClassIdx, position: usize) -> u32 {
        let of = state.classes.class(class);
        let opens = self.opened || of.outlook().opens();
        match opens || of.coupled() || choose_each(state, class) {
            true => most_on(state, class, position),
            false => state.classes.fit(class).spot(position).slots,
        }
    }
}

/// What all of these ask of a node.
fn total(state: &ClusterState, users: &[Count]) -> Vec<(ResourceIdx, i64)> {
    let mut all: Vec<(ResourceIdx, i64)> = Vec::new();
    for (class, count) in users {
        let shape = state.room.shape(state.classes.class(*class).key.shape);
        for &(resource, each) in state.room.ledger.request(shape.request).entries() {
            let amount = each.saturating_mul((*count).into());
            match all.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, sum)) => resources::add(sum, amount),
                None => all.push((resource, amount)),
            }
        }
    }
    all
}

/// Positions where the first who need a claim are tried, those with room for most of them first.
pub(super) fn positions(
    state: &ClusterState,
    shared: &Shared,
    asks: &[Count],
    range: Range<usize>,
) -> Vec<usize> {
    let users = Users::of(state, shared, asks, ways::any_opened(state, asks));
    let room = |position: usize| -> (bool, u32) {
        let slots = |(class, count): &Count| users.slots(state, *class, position).min(*count);
        (users.fit(state, position), users.counts.iter().map(slots).sum())
    };
    let rooms = range.map(|position| (Reverse(room(position)), position));
    let mut rooms: Vec<_> = rooms.filter(|(Reverse((_, sum)), _)| *sum > 0).collect();
    rooms.sort_unstable();
    rooms.into_iter().map(|(_, position)| position).collect()
}

impl Shared {
    /// Positions of the asks whose members need it.
    pub fn asks(&self) -> &[usize] {
        &self.asks
    }
}

/// Why members of a class that contend for claims, volumes or devices find no places, although
/// nodes by themselves would hold them: what refuses the next once as many as go have places. Not
/// all of them do, whatever is found here.
pub fn shortage(
    txn: &mut Txn<'_>,
    (class, asked): Count,
    topology: TopologyAsk,
    tell: impl FnOnce(&mut Txn<'_>, u32) -> FlavorProblem,
) -> FlavorProblem {
    let start = txn.checkpoint();
    txn.fresh(class);
    let index = txn.state().classes.fit(class);
    let order = 0..txn.state().room.tree.order().len();
    let mut roomy: Vec<_> = order.map(|at| (Reverse(index.spot(at).slots), at)).collect();
    roomy.sort_unstable();
    roomy.retain(|(Reverse(slots), _)| *slots > 0);
    let mut best = (0, 0);
    // Without a claim that all need, it matters little where the first one is.
    let (state, others) = (txn.state(), asked.saturating_sub(1));
    let share = any(state, class) || state.classes.class(class).coupled();
    let looks = if share { LOOKS_MAX } else { 1 };
    for (_, position) in roomy.into_iter().take(looks) {
        let placed = fill(txn, (class, others), position, topology);
        txn.rollback_to(start);
        if placed > best.0 {
            best = (placed, position);
        }
    }
    let holds = if best.0 > 0 { fill(txn, (class, best.0), best.1, topology) } else { 0 };
    let told = tell(txn, holds);
    txn.rollback_to(start);
    told
}

/// Puts the first member of a class on a node, and as many others as go where they have to.
fn fill(txn: &mut Txn<'_>, (class, count): Count, position: usize, topology: TopologyAsk) -> u32 {
    let shape = txn.state().classes.class(class).key.shape;
    let tree = &txn.state().room.tree;
    let domain = topology.required.and_then(|level| tree.domain_of(level, position));
    let domain = tree.domain(domain.unwrap_or(tree.root()));
    let (range, mut at) = (domain.start..domain.end, Some(position));
    let mut placed = 0;
    while placed < count {
        txn.fresh(class);
        let state = txn.state();
        let index = state.classes.fit(class);
        let most = || index.best_holding(range.clone(), index.most_slots(range.clone()).max(1));
        let Some(position) = at.take().or_else(most) else { break };
        let node = state.room.tree.order()[position];
        let here = index.spot(position).slots.min(count - placed);
        // What one gets may be all that there is for the others.
        let here = if placed == 0 { here.min(1) } else { here };
        if here == 0 {
            break;
        }
        (0..here).for_each(|_| txn.occupy(shape, node));
        placed += here;
    }
    placed
}
