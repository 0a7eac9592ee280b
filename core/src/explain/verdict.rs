//! Why nodes do not hold a gang: the verdicts of all nodes, counted by kind.
//!
//! Made when a workload is refused for room; the count over all nodes is its class's
//! ([`crate::place::refusals`]).

use capstan_topology::{DomainIdx, LevelIdx};

use super::reason::{DomainShortage, FlavorProblem, NodeRefusal, NodeShortage, Reason};
use crate::model::ids::ClassIdx;
use crate::model::input::Text;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::common_claims;
use crate::place::coupled::{self, Count};
use crate::place::gang::TopologyAsk;
use crate::place::partial;
use crate::place::refusals::{self, Refusals};
use crate::place::slices::{self, Slices};
use crate::quota::flavors::lacking;

/// Why a class of members does not fit, as a flavor's problem.
pub fn flavor_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> FlavorProblem {
    txn.fresh(class);
    let topology = topology.of_class(txn.state(), class);
    if coupled::are_coupled(txn, &[(class, asked)]) {
        return coupled_shortage(txn, class, asked, topology);
    }
    if common_claims::contend(txn.state(), class, asked) {
        return common_claims::shortage(txn, (class, asked), topology, |txn, holds| {
            nodes_short(txn, class, (asked, holds))
        });
    }
    if let Some(of) = topology.slices.filter(|_| !topology.mixed)
        && room_for(txn.state(), class) >= u64::from(asked)
    {
        let holds = slices::most(txn.state(), class, asked, topology);
        return FlavorProblem::Topology(Box::new(in_slices(txn, &[(class, asked)], holds, of)));
    }
    // Slots of nodes do not add up where they are for the same volumes.
    let share = asked > 1 && txn.state().classes.class(class).coupled();
    if let Some(level) = topology.required
        && room_for(txn.state(), class) >= u64::from(asked)
    {
        let (best, holds) = fullest(txn.state(), class, level);
        if holds < asked || !share {
            let short = in_one(txn, &[(class, asked)], level, (best, holds));
            return FlavorProblem::Topology(Box::new(short));
        }
    }
    if share {
        return common_claims::shortage(txn, (class, asked), topology, |txn, holds| {
            nodes_short(txn, class, (asked, holds))
        });
    }
    let holds = u32::try_from(room_for(txn.state(), class)).unwrap_or(u32::MAX);
    nodes_short(txn, class, (asked, holds))
}

/// Members whose places depend on each other: what refuses the next once as many as go have places,
/// in the domain of a required level that takes most of them.
fn coupled_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> FlavorProblem {
    let (start, asks) = (txn.checkpoint(), [(class, asked)]);
    let all = 0..txn.state().room.tree.order().len();
    let holds: u32 = coupled::fill(txn, &asks, all).iter().sum();
    let anywhere = nodes_short(txn, class, (asked, holds));
    txn.rollback_to(start);
    if holds > 0
        && let Some(level) = topology.required
    {
        let short = in_domains(txn, &asks, level);
        if short.holds < asked {
            return FlavorProblem::Topology(Box::new(short));
        }
    }
    match topology.slices {
        Some(of) if holds >= asked => {
            FlavorProblem::Topology(Box::new(in_slices(txn, &asks, holds, of)))
        }
        _ => anywhere,
    }
}

/// Why no domain of a level holds all of these, whose places depend on each other: how many go to
/// the one that takes most, and what keeps the next of them out of it.
pub(super) fn in_domains(txn: &mut Txn<'_>, asks: &[Count], level: LevelIdx) -> DomainShortage {
    let fill = |txn: &mut Txn<'_>, domain: DomainIdx| {
        let domain = txn.state().room.tree.domain(domain);
        let range = domain.start..domain.end;
        coupled::fill(txn, asks, range)
    };
    let most = partial::fullest(txn, asks, level, |txn, domain| fill(txn, domain).iter().sum());
    let Some((holds, domain)) = most.filter(|(holds, _)| *holds > 0) else {
        return in_one(txn, asks, level, (None, 0));
    };
    let best = name_of(txn.state(), level, domain);
    let mut short = in_one(txn, asks, level, (best, holds));
    let start = txn.checkpoint();
    let placed = fill(txn, domain);
    let next = asks.iter().zip(&placed).find(|(ask, placed)| **placed < ask.1);
    if let Some((&(class, _), _)) = next {
        txn.fresh(class);
        let state = txn.state();
        let domain = state.room.tree.domain(domain);
        let nodes = &state.room.tree.order()[domain.start..domain.end];
        let found = refusals::count(&state.room, state.classes.class(class), nodes);
        short.next = Some(Box::new(counted(&found, (short.asked, holds))));
    }
    txn.rollback_to(start);
    short
}

/// That no domain of a level holds all of these: the best, and how many it holds.
pub(super) fn in_one(
    txn: &Txn<'_>,
    asks: &[Count],
    level: LevelIdx,
    (best, holds): (Option<Text>, u32),
) -> DomainShortage {
    let asked = asks.iter().map(|(_, count)| *count).sum();
    let level = txn.state().room.levels[level.at()].clone();
    let (next, slice, ended) = (None, None, txn.ended(asks));
    DomainShortage { level, asked, best, holds, next, slice, gone: 0, ended }
}

/// That no more of these than so many go in slices.
pub(super) fn in_slices(txn: &Txn<'_>, asks: &[Count], holds: u32, of: Slices) -> DomainShortage {
    DomainShortage { slice: Some(of.size), ..in_one(txn, asks, of.level, (None, holds)) }
}

/// Why members of the first of these find too little free, for whom the others may open nodes: once
/// as many of all as go have places.
pub fn beside_others(
    txn: &mut Txn<'_>,
    asks: &[(ClassIdx, u32)],
    topology: TopologyAsk,
) -> FlavorProblem {
    let (class, asked) = asks[0];
    let topology = topology.of_class(txn.state(), class);
    let all = 0..txn.state().room.tree.order().len();
    if let Some(level) = topology.required
        && coupled::free_in(txn.state(), class, all.clone()) >= u64::from(asked)
    {
        let (best, holds) = freest(txn.state(), class, level);
        if holds < asked {
            let short = in_one(txn, &asks[..1], level, (best, holds));
            return FlavorProblem::Topology(Box::new(short));
        }
        if !topology.per_set {
            return FlavorProblem::Topology(Box::new(in_domains(txn, asks, level)));
        }
    }
    let start = txn.checkpoint();
    let holds = coupled::fill(txn, asks, all)[0];
    let short = nodes_short(txn, class, (asked, holds));
    txn.rollback_to(start);
    short
}

/// The domain of a level where most members of a class find what they ask free, by name.
fn freest(state: &ClusterState, class: ClassIdx, level: LevelIdx) -> (Option<Text>, u32) {
    let tree = &state.room.tree;
    let free = |at: DomainIdx| {
        let domain = tree.domain(at);
        (coupled::free_in(state, class, domain.start..domain.end), std::cmp::Reverse(at))
    };
    let most = tree.domains_at(level).iter().map(|domain| free(*domain)).max();
    let Some((free, std::cmp::Reverse(domain))) = most else { return (None, 0) };
    (name_of(state, level, domain), u32::try_from(free).unwrap_or(u32::MAX))
}

fn nodes_short(txn: &mut Txn<'_>, class: ClassIdx, (asked, holds): (u32, u32)) -> FlavorProblem {
    let found = txn.refusals(class);
    let unpriced = found.kinds.iter().find(|(why, _)| *why == NodeRefusal::PriceUnknown);
    if let Some(&(_, nodes)) = unpriced
        && !lacking::some_node_accepts(txn, class)
    {
        return FlavorProblem::PriceUnknown { nodes };
    }
    let ended = txn.ended(&[(class, asked)]);
    FlavorProblem::Nodes(Box::new(NodeShortage { ended, ..counted(&found, (asked, holds)) }))
}

/// What nodes said, to members of whom they hold so many.
fn counted(found: &Refusals, (asked, holds): (u32, u32)) -> NodeShortage {
    NodeShortage {
        nodes: found.nodes,
        asked,
        holds,
        refusals: found.kinds.clone(),
        nearest: found.nearest.clone(),
        unwanted: found.unwanted.clone(),
        gone: 0,
        ended: None,
    }
}

/// What refuses the next member of a class beside those that have places, so many of its own among
/// them.
pub(super) fn next_short(txn: &mut Txn<'_>, class: ClassIdx, of: (u32, u32)) -> Reason {
    unqueued(nodes_short(txn, class, of))
}

/// Why a class of members does not fit, for work without a queue.
pub fn unqueued_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> Reason {
    unqueued(flavor_shortage(txn, class, asked, topology))
}

/// A shortage of nodes of whatever flavor.
pub(super) fn unqueued(why: FlavorProblem) -> Reason {
    match why {
        FlavorProblem::Topology(shortage) => Reason::Topology(shortage),
        FlavorProblem::Nodes(shortage) => Reason::Nodes(shortage),
        FlavorProblem::PriceUnknown { nodes } => Reason::PriceUnknown { nodes },
        _ => unreachable!("a shortage is one of these"),
    }
}

/// Why members find no room in the domain of their gang's other members; `None`: they do.
pub fn shortage_beside(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    (level, home): (LevelIdx, DomainIdx),
) -> Option<Reason> {
    txn.fresh(class);
    let state = txn.state();
    let slots = state.classes.fit(class).slots(home);
    (slots < u64::from(asked)).then(|| Reason::NoRoomBeside {
        level: state.room.levels[level.at()].clone(),
        domain: name_of(state, level, home),
        asked,
        holds: slots as u32,
        ended: None,
    })
}

/// The label value of a domain.
pub(crate) fn name_of(state: &ClusterState, level: LevelIdx, domain: DomainIdx) -> Option<Text> {
    let tree = &state.room.tree;
    let node = tree.order()[tree.domain(domain).start];
    state.room.facts(node)?.labels.get(&state.room.levels[level.at()]).cloned()
}

fn room_for(state: &ClusterState, class: ClassIdx) -> u64 {
    state.classes.fit(class).slots(state.room.tree.root())
}

/// The domain of a level with the most slots, by name.
fn fullest(state: &ClusterState, class: ClassIdx, level: LevelIdx) -> (Option<Text>, u32) {
    let tree = &state.room.tree;
    let domains = tree.domains_at(level);
    let Some((domain, slots)) = state.classes.fit(class).most_room(domains) else {
        return (None, 0);
    };
    (name_of(state, level, domain), u32::try_from(slots).unwrap_or(u32::MAX))
}
