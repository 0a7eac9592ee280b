//! Why nodes do not hold a gang: the verdicts of all nodes, counted by kind.
//!
//! Made when a workload is refused for room (once per class and number of members, since equal
//! work is parked together) and on request. One pass over the nodes.

use std::collections::BTreeMap;

use capstan_topology::{LevelIdx, NodeIdx};

use super::reason::{FlavorProblem, Nearest, NodeRefusal, NodeShortage, Reason};
use crate::model::ids::ClassIdx;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang::TopologyAsk;
use crate::rules;

/// Why a class of members does not fit, as a flavor's problem.
pub fn flavor_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> FlavorProblem {
    txn.fresh(class);
    if let Some(level) = topology.required
        && let Some((best, holds)) = fullest(txn.state(), class, level)
        && room_for(txn.state(), class) >= u64::from(asked)
    {
        let level = txn.state().room.levels[level.at()].clone();
        return FlavorProblem::Topology { level, asked, best, holds };
    }
    FlavorProblem::Nodes(Box::new(shortage(txn.state(), class, asked)))
}

/// Why a class of members does not fit, for work without a queue.
pub fn unqueued_shortage(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    asked: u32,
    topology: TopologyAsk,
) -> Reason {
    match flavor_shortage(txn, class, asked, topology) {
        FlavorProblem::Topology { level, asked, best, holds } => {
            Reason::Topology { level, asked, best, holds }
        }
        FlavorProblem::Nodes(shortage) => Reason::Nodes(shortage),
        _ => unreachable!("a shortage is one of the two"),
    }
}

fn room_for(state: &ClusterState, class: ClassIdx) -> u64 {
    state.classes.fit(class).slots(state.room.tree.root())
}

/// The domain of a level with the most slots, by name.
fn fullest(
    state: &ClusterState,
    class: ClassIdx,
    level: LevelIdx,
) -> Option<(Option<crate::model::input::Text>, u32)> {
    let tree = &state.room.tree;
    let domains = tree.domains_at(level);
    let Some((domain, slots)) = state.classes.fit(class).most_room(domains) else {
        return Some((None, 0));
    };
    let node = tree.order()[tree.domain(domain).start];
    let key = &state.room.levels[level.at()];
    let name = state.room.facts(node).and_then(|facts| facts.labels.get(key).cloned());
    Some((name, u32::try_from(slots).unwrap_or(u32::MAX)))
}

/// Counts refusals over all nodes and finds the one that comes closest.
pub fn shortage(state: &ClusterState, class: ClassIdx, asked: u32) -> NodeShortage {
    let mut counted: BTreeMap<NodeRefusal, u32> = BTreeMap::new();
    let mut nearest: Option<(i128, i128, NodeIdx, Nearest)> = None;
    let kept = state.classes.class(class);
    let mut nodes = 0;
    for (node, facts) in state.room.nodes_by_name() {
        nodes += 1;
        for refusal in rules::verdict(&kept.question(&state.room, node)) {
            if let NodeRefusal::Insufficient { resource, asked, free, .. } = &refusal {
                // Closest: the largest share of what is asked; devices before anything else.
                let share = i128::from(*free) * 1_000_000 / i128::from(*asked);
                let device = i128::from(resource.contains('/'));
                let closer = nearest.as_ref().is_none_or(|n| (device, share) > (n.0, n.1));
                if closer {
                    let near = Nearest {
                        node: facts.name.clone(),
                        resource: resource.clone(),
                        asked: *asked,
                        free: *free,
                    };
                    nearest = Some((device, share, node, near));
                }
            }
            *counted.entry(kind_of(refusal)).or_default() += 1;
        }
    }
    NodeShortage {
        nodes,
        asked,
        holds: u32::try_from(room_for(state, class)).unwrap_or(u32::MAX),
        refusals: counted.into_iter().collect(),
        nearest: nearest.map(|(_, _, _, near)| near),
    }
}

/// The refusal without what differs from node to node, so that equal kinds are counted together.
fn kind_of(refusal: NodeRefusal) -> NodeRefusal {
    match refusal {
        NodeRefusal::Insufficient { resource, asked, .. } => {
            NodeRefusal::Insufficient { resource, asked, free: 0, beyond_node: false }
        }
        NodeRefusal::TooManyPods { .. } => NodeRefusal::TooManyPods { limit: 0 },
        other => other,
    }
}
