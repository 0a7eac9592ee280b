//! Topology levels by name, which of them hold for a pod set, and how close together nodes are by
//! them.

use capstan_topology::{LevelIdx, NodeIdx};

use super::gang::Ask;
use super::pod_sets;
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
            [] => self,
            [only] => self.of_class(state, only.class),
            _ if self.per_set => self,
            _ => self.of_members(&state.room, &members_of(state, asks)),
        }
    }

    /// What holds for members of one pod set: so many of each shape. Where sets of one group name
    /// ask for different levels, those of most members hold, as in Kueue, and of as many the first;
    /// who asks for none has no say.
    pub fn of_members(self, room: &Room, members: &[(ShapeIdx, usize)]) -> TopologyAsk {
        if !self.own_levels {
            return self;
        }
        let levels = |shape: ShapeIdx| room.shape(shape).facts.levels.as_ref();
        let mut asked: Vec<(ShapeIdx, usize)> = Vec::new();
        for &(shape, count) in members.iter().filter(|(shape, _)| levels(*shape).is_some()) {
            match asked.iter_mut().find(|(known, _)| levels(*known) == levels(shape)) {
                Some((_, sum)) => *sum += count,
                None => asked.push((shape, count)),
            }
        }
        let most = asked.iter().rev().max_by_key(|(_, count)| *count);
        most.map_or(self, |(shape, _)| self.of_set(room, *shape))
    }

    /// What holds for members of one pod set that join a gang which runs: for them and for those of
    /// their set who have places. It is theirs for good, whoever of them is looked at.
    pub fn beside(
        self,
        room: &Room,
        joining: &[(ShapeIdx, usize)],
        peers: &[(ShapeIdx, NodeIdx)],
    ) -> TopologyAsk {
        let mut members = joining.to_vec();
        if let Some((first, _)) = joining.first().filter(|_| self.own_levels && self.mixed) {
            let own = peers.iter().filter(|(of, _)| pod_sets::alike(room, *of, *first));
            members.extend(own.map(|(of, _)| (*of, 1)));
        }
        TopologyAsk { own_levels: false, ..self.of_members(room, &members) }
    }
}

/// How many members of each shape asks have.
pub fn members_of<'a>(
    state: &ClusterState,
    asks: impl IntoIterator<Item = &'a Ask>,
) -> Vec<(ShapeIdx, usize)> {
    let of = |ask: &Ask| (state.classes.class(ask.class).key.shape, ask.pods.len());
    asks.into_iter().map(of).collect()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::apply::Changes;
    use crate::model::input::{CapacityType, Input, NodeFacts, PodShape, SetLevels};
    use crate::model::txn::Txn;
    use crate::place::classes::Scoring;
    use crate::place::gang;

    const ZONE: &str = "topology.kubernetes.io/zone";
    const RACK: &str = "topology.kubernetes.io/rack";

    /// Nodes of one zone by their racks, with so many cpus.
    fn state(nodes: &[(&str, i64)]) -> ClusterState {
        let node = |(at, (rack, cpu)): (usize, &(&str, i64))| {
            let labels = [(ZONE, "z"), (RACK, rack)];
            let facts = NodeFacts {
                name: format!("n{at}").into(),
                labels: labels.into_iter().map(|(key, of)| (key.into(), of.into())).collect(),
                taints: Vec::new(),
                unschedulable: false,
                allocatable: [("cpu".into(), *cpu), ("pods".into(), 9)].into(),
                features: Vec::new(),
                images: Arc::default(),
                capacity_type: CapacityType::Unknown,
                price: None,
            };
            Input::Node(facts.into())
        };
        let (mut state, mut changes) = (ClusterState::default(), Changes::default());
        nodes.iter().enumerate().for_each(|it| state.apply(node(it), &mut changes));
        state.derive(&mut changes);
        state
    }

    /// Members that ask one cpu, of a set that asks this.
    fn asking(levels: Option<SetLevels>) -> Arc<PodShape> {
        let (requests, levels) = ([("cpu".into(), 1)].into(), levels.map(Arc::new));
        Arc::new(PodShape { requests, levels, ..PodShape::default() })
    }

    fn within(level: &str) -> SetLevels {
        SetLevels { required: Some(level.into()), ..SetLevels::default() }
    }

    fn sliced(level: &str, size: u32) -> SetLevels {
        let slices = Some(SliceWish { level: level.into(), size });
        SetLevels { slices, ..SetLevels::default() }
    }

    fn preferring(level: &str) -> SetLevels {
        SetLevels { preferred: Some(level.into()), ..SetLevels::default() }
    }

    /// What is asked of a gang whose sets ask for different things.
    const EACH: TopologyAsk = TopologyAsk {
        required: None,
        preferred: None,
        per_set: true,
        own_levels: true,
        gives_way: false,
        slices: None,
        mixed: false,
        anywhere: false,
    };

    #[test]
    fn each_set_is_asked_its_own() {
        let mut state = state(&[("a", 3)]);
        let mut asked = |gang: TopologyAsk, levels: Option<SetLevels>| {
            let shape = state.room.intern_shape(&asking(levels));
            gang.of_set(&state.room, shape)
        };
        let rack = asked(EACH, Some(within("rack")));
        assert!(rack.required.is_some() && rack.per_set);
        assert_eq!(asked(rack, Some(within(RACK))), rack, "asked again");
        assert_eq!(asked(EACH, None), EACH);
        let whole = TopologyAsk { own_levels: false, ..rack };
        assert_eq!(asked(whole, Some(within(ZONE))), whole, "it holds for all");
        let near = asked(EACH, Some(preferring(RACK)));
        assert_eq!((near.preferred, near.required), (rack.required, None));
        let anyhow = TopologyAsk { gives_way: true, ..EACH };
        assert_eq!(asked(anyhow, Some(preferring(RACK))), anyhow);
        let zone = asked(EACH, Some(within(ZONE))).required;
        for (required, level, counts) in
            [(None, RACK, true), (Some(ZONE), RACK, true), (Some(RACK), ZONE, false)]
        {
            let required = required.map(Into::into);
            let own = asked(EACH, Some(SetLevels { required, ..sliced(level, 2) }));
            let slices = Slices { level: rack.required.expect("known"), size: 2 };
            assert_eq!(own.slices, Some(slices).filter(|_| counts), "{level}");
        }
        assert!(zone.is_some() && zone < rack.required, "outermost first");
    }

    #[test]
    fn sets_of_one_name_have_the_levels_of_most_of_their_members() {
        let mut state = state(&[("a", 3)]);
        let levels = [Some(within(RACK)), Some(preferring(RACK)), None];
        let [within, near, none] = levels.map(|own| state.room.intern_shape(&asking(own)));
        let of = |members: &[(ShapeIdx, usize)]| EACH.of_members(&state.room, members);
        let [rack, preferred] = [within, near].map(|shape| EACH.of_set(&state.room, shape));
        assert_eq!(of(&[(near, 1), (within, 2)]), rack);
        assert_eq!(of(&[(within, 1), (near, 2)]), preferred);
        assert_eq!(of(&[(within, 1), (near, 1)]), rack, "the first of equals");
        assert_eq!(of(&[(near, 1), (within, 1)]), preferred, "the first of equals");
        assert_eq!(of(&[(none, 9), (within, 1)]), rack, "who asks for none has no say");
        assert_eq!([of(&[(none, 9)]), of(&[])], [EACH; 2]);
        let whole = TopologyAsk { own_levels: false, ..EACH };
        assert_eq!(whole.of_members(&state.room, &[(within, 1)]), whole);
    }

    #[test]
    fn a_set_fits_as_its_own_levels_allow() {
        let mut state = state(&[("a", 1), ("a", 2), ("b", 3)]);
        let rows = [
            (None, 6, true),
            (Some(within(RACK)), 3, true),
            (Some(within(RACK)), 4, false),
            (Some(within(ZONE)), 6, true),
            (Some(preferring(RACK)), 6, true),
            (Some(sliced(RACK, 2)), 4, true),
            (Some(sliced(RACK, 2)), 6, false),
            (Some(SetLevels { required: Some(RACK.into()), ..sliced(RACK, 2) }), 3, true),
        ];
        for (levels, count, fits) in rows {
            let said = format!("{count} of {levels:?}");
            let shape = state.room.intern_shape(&asking(levels));
            let mut txn = Txn::begin(&mut state);
            let class = txn.class(shape, &[], Scoring::default());
            assert_eq!(gang::holds(&mut txn, class, count, EACH), fits, "{said}");
            assert_eq!(gang::may_hold(&mut txn, (class, count), &[shape], EACH), fits, "{said}");
        }
    }
}
