//! Topology levels by name, which of them hold for a pod set, and how close together nodes are by
//! them.

use capstan_topology::{LevelIdx, NodeIdx};

use super::gang::Ask;
use super::slices::Slices;
use crate::model::ids::{ClassIdx, ShapeIdx};
use crate::model::input::{SliceWish, Text};
use crate::model::room::Room;
use crate::model::state::ClusterState;

/// Topology asked of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopologyAsk {
    /// Everything within one domain of this level.
    pub required: Option<LevelIdx>,
    /// Within one domain of this level if possible.
    pub preferred: Option<LevelIdx>,
    /// The levels hold for each pod set by itself.
    pub per_set: bool,
    /// Some pod sets have levels and slices of their own: [`TopologyAsk::of_set`] tells which.
    pub own_levels: bool,
    /// Levels that pod sets prefer by themselves do not count.
    pub gives_way: bool,
    /// Slices of each pod set within one domain of an inner level.
    pub slices: Option<Slices>,
    /// Some pod set has members of several shapes, and levels or slices hold for pod sets: what one
    /// shape finds by itself says little then.
    pub mixed: bool,
    /// Closeness does not matter (profile weight 0), or not as much as that members had rather be
    /// apart: take the best nodes wherever they are.
    pub anywhere: bool,
}

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

/// Slices within domains of a level, of what is all within one domain of `required`. Where that is
/// no outer level its parts are within one domain of the slices' level anyhow.
pub fn slices_within(
    wish: &SliceWish,
    level: LevelIdx,
    required: Option<LevelIdx>,
) -> Option<Slices> {
    let slices = Slices { level, size: wish.size.max(1) };
    Some(slices).filter(|slices| required.is_none_or(|outer| outer < slices.level))
}

impl TopologyAsk {
    /// What holds for the pod set of a shape. The levels that shapes name are known.
    pub fn of_set(self, room: &Room, shape: ShapeIdx) -> TopologyAsk {
        let own = room.shape(shape).facts.levels.as_ref().filter(|_| self.own_levels);
        let Some(own) = own else { return self };
        let level = |name: &Text| level_named(room, name);
        let required = own.required.as_ref().and_then(level);
        let slices = own.slices.as_ref();
        TopologyAsk {
            required,
            preferred: own.preferred.as_ref().filter(|_| !self.gives_way).and_then(level),
            slices: slices.and_then(|wish| slices_within(wish, level(&wish.level)?, required)),
            ..self
        }
    }

    /// The same for the pod set of a class.
    pub fn of_class(self, state: &ClusterState, class: ClassIdx) -> TopologyAsk {
        self.of_set(&state.room, state.classes.class(class).key.shape)
    }

    /// The same for asks that are of one pod set; of several it is what holds for all.
    pub fn of_asks(self, state: &ClusterState, asks: &[Ask]) -> TopologyAsk {
        match asks {
            [first, rest @ ..] if rest.is_empty() || !self.per_set => {
                self.of_class(state, first.class)
            }
            _ => self,
        }
    }
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
