//! Why nodes do not hold a gang: the verdicts of all nodes, counted by kind.
//!
//! Made when a workload is refused for room; the count over all nodes is its class's
//! ([`crate::place::refusals`]).

use capstan_topology::{DomainIdx, LevelIdx};

use super::reason::{FlavorProblem, NodeRefusal, NodeShortage, Reason};
use crate::model::ids::ClassIdx;
use crate::model::input::Text;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::common_claims;
use crate::place::coupled;
use crate::place::gang::TopologyAsk;
use crate::place::slices;
use crate::quota::flavors::lacking;

/// Why a class of members does not fit, as a flavor's problem.
pub fn flavor_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> FlavorProblem {
    txn.fresh(class);
    if coupled::are_coupled(txn, &[(class, asked)]) {
        return coupled_shortage(txn, class, asked);
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
        let level = txn.state().room.levels[of.level.at()].clone();
        let (slice, ended) = (Some(of.size), txn.ended(&[(class, asked)]));
        return FlavorProblem::Topology { level, asked, best: None, holds, slice, gone: 0, ended };
    }
    // Slots of nodes do not add up where they are for the same volumes.
    let share = asked > 1 && txn.state().classes.class(class).coupled();
    if let Some(level) = topology.required
        && room_for(txn.state(), class) >= u64::from(asked)
    {
        let (best, holds) = fullest(txn.state(), class, level);
        if holds < asked || !share {
            let level = txn.state().room.levels[level.at()].clone();
            let ended = txn.ended(&[(class, asked)]);
            let slice = None;
            return FlavorProblem::Topology { level, asked, best, holds, slice, gone: 0, ended };
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

/// Members whose places depend on each other: what refuses the next once as many as go have places.
fn coupled_shortage(txn: &mut Txn<'_>, class: ClassIdx, asked: u32) -> FlavorProblem {
    let start = txn.checkpoint();
    let all = 0..txn.state().room.tree.order().len();
    let holds = coupled::fill(txn, &[(class, asked)], all).iter().sum();
    let short = nodes_short(txn, class, (asked, holds));
    txn.rollback_to(start);
    short
}

/// Why members of the first of these find too little free, for whom the others may open nodes: once
/// as many of all as go have places.
pub fn beside_others(
    txn: &mut Txn<'_>,
    asks: &[(ClassIdx, u32)],
    topology: TopologyAsk,
) -> FlavorProblem {
    let (class, asked) = asks[0];
    let all = 0..txn.state().room.tree.order().len();
    if let Some(level) = topology.required
        && coupled::free_in(txn.state(), class, all.clone()) >= u64::from(asked)
    {
        let (best, holds) = freest(txn.state(), class, level);
        let level = txn.state().room.levels[level.at()].clone();
        let (slice, ended) = (None, None);
        return FlavorProblem::Topology { level, asked, best, holds, slice, gone: 0, ended };
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
    FlavorProblem::Nodes(Box::new(NodeShortage {
        nodes: found.nodes,
        asked,
        holds,
        refusals: found.kinds.clone(),
        nearest: found.nearest.clone(),
        unwanted: found.unwanted.clone(),
        gone: 0,
        ended: txn.ended(&[(class, asked)]),
    }))
}

/// Why a class of members does not fit, for work without a queue.
pub fn unqueued_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> Reason {
    match flavor_shortage(txn, class, asked, topology) {
        FlavorProblem::Topology { level, asked, best, holds, slice, gone, ended } => {
            Reason::Topology { level, asked, best, holds, slice, gone, ended }
        }
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
