//! Topology levels by name, and how close together nodes are by them.

use capstan_topology::{LevelIdx, NodeIdx};

use crate::model::room::Room;

/// Level of a node label key, or of its plain name (`zone`, `block`, `rack`, `host`).
pub fn level_named(room: &Room, name: &str) -> Option<LevelIdx> {
    let exact = room.levels.iter().position(|key| &**key == name);
    let used = |at: &usize| !room.tree.domains_at(LevelIdx(*at as u8)).is_empty();
    let plain = || {
        let wanted = if name == "host" { "hostname" } else { name };
        let last = |key: &str| key.rsplit(['/', '-']).next().is_some_and(|last| last == wanted);
        (0..room.levels.len()).rev().filter(used).find(|at| last(&room.levels[*at]))
    };
    exact.filter(used).or_else(plain).map(|at| LevelIdx(at as u8))
}

/// How close together a placement is, 0..=1000: 1000 on one node, less for each level up, 0 when
/// nothing known is shared; 500 when the cluster has no levels at all.
pub fn locality(room: &Room, nodes: &[NodeIdx]) -> u32 {
    let positions: Vec<usize> = nodes.iter().filter_map(|node| room.tree.position(*node)).collect();
    let Some(&first) = positions.first() else { return crate::score::NEUTRAL };
    if positions.iter().all(|position| *position == first) {
        return crate::score::FULL;
    }
    let used: Vec<LevelIdx> = (0..room.tree.levels())
        .map(|level| LevelIdx(level as u8))
        .filter(|level| {
            let domains = room.tree.domains_at(*level);
            !domains.is_empty() && domains.len() < room.tree.order().len()
        })
        .collect();
    if used.is_empty() {
        return crate::score::NEUTRAL;
    }
    let shared = |level: &LevelIdx| {
        let of = |position: usize| room.tree.domain_of(*level, position);
        of(first).is_some() && positions.iter().all(|position| of(*position) == of(first))
    };
    let deepest = used.iter().rposition(shared).map_or(0, |at| at + 1);
    (crate::score::FULL as usize * deepest / (used.len() + 1)) as u32
}
