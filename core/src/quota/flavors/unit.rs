//! Units of assignment: pod sets that get their flavors together, and what they ask.
//!
//! A unit is one pod set (its members may be told apart by PodDisruptionBudgets), or all sets of a
//! gang with one group name ([`crate::model::input::PodShape::set_group`]), wherever they stand
//! among the others. A part is what a unit asks of one resource group of its queue: amounts of all
//! its sets added up, for which one flavor is found that lets every set of the unit onto its nodes.
//! A set gets that flavor for what it asks itself; what it does not ask ties it to no nodes.
//!
//! Members that join a gang that runs get the flavors of those of their group name that run
//! ([`Demand::kept`]).
//!
//! Cost: a look at each set of a gang for each of its units.

use std::collections::BTreeMap;

use capstan_topology::ResourceIdx;

use super::{Choice, Demand, class_with};
use crate::explain::reason::FlavorProblem;
use crate::model::ids::{ClassIdx, FlavorIdx};
use crate::model::input::PodShape;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang;
use crate::quota::eligible;
use crate::resources::USD;

/// What a unit asks of one group of its queue.
pub(super) struct Part {
    /// The sets that ask something of the group, by number, each with the resources it asks.
    pub sets: Vec<(usize, Vec<ResourceIdx>)>,
    /// All sets of the unit.
    pub unit: Vec<usize>,
    pub group: usize,
    /// What all of them ask together.
    pub asked: Vec<(ResourceIdx, i64)>,
    pub flavors: Vec<FlavorIdx>,
}

impl Part {
    /// What it is remembered by: its first set, and the group.
    pub fn key(&self) -> (usize, usize) {
        (self.sets[0].0, self.group)
    }
}

/// The units of what is asked for, in the order of their first sets. Members of one template that a
/// PodDisruptionBudget tells apart are of one unit.
pub(super) fn units(state: &ClusterState, demand: &Demand<'_>) -> Vec<Vec<usize>> {
    if demand.sets.len() == 1 {
        return vec![vec![0]];
    }
    let mut known: BTreeMap<PodShape, usize> = BTreeMap::new();
    let mut units: Vec<Vec<usize>> = Vec::new();
    for (at, set) in demand.sets.iter().enumerate() {
        let facts = &state.room.shape(set.shape).facts;
        let unit = *known.entry(template(facts)).or_insert(units.len());
        match units.get_mut(unit) {
            Some(unit) => unit.push(at),
            None => units.push(vec![at]),
        }
    }
    units
}

/// What the members of a unit have in common.
fn template(shape: &PodShape) -> PodShape {
    match &shape.set_group {
        Some(_) => PodShape { set_group: shape.set_group.clone(), ..PodShape::default() },
        None => PodShape { budgets: Vec::new(), ..shape.clone() },
    }
}

/// The set that is named when a unit lacks something: the one that asks most devices, of equals
/// the one with most members, the first.
pub(super) fn spokesman(state: &ClusterState, demand: &Demand<'_>, unit: &[usize]) -> usize {
    let weight = |at: usize| {
        let set = &demand.sets[at];
        let counted = state.room.counted(set.shape).entries();
        let devices = counted.iter().filter(|(of, _)| state.room.resources.name(*of).contains('/'));
        let each = devices.map(|(_, amount)| *amount).max().unwrap_or(0);
        (each.saturating_mul(set.count.into()), set.count)
    };
    let heaviest = unit.iter().copied().rev().max_by_key(|at| weight(*at));
    heaviest.expect("a unit has sets")
}

/// What the sets of a unit ask of a group of their queue; `None`: nothing.
pub(super) fn part(
    txn: &Txn<'_>,
    demand: &Demand<'_>,
    unit: &[usize],
    group: usize,
) -> Option<Part> {
    let mut sets = Vec::new();
    let mut asked: Vec<(ResourceIdx, i64)> = Vec::new();
    for &at in unit {
        let own = asked_by(txn, demand, at, group);
        for &(resource, amount) in &own {
            match asked.iter_mut().find(|(known, _)| *known == resource) {
                Some((_, all)) => *all = all.saturating_add(amount),
                None => asked.push((resource, amount)),
            }
        }
        if !own.is_empty() {
            sets.push((at, own.into_iter().map(|(resource, _)| resource).collect()));
        }
    }
    if sets.is_empty() {
        return None;
    }
    sort(txn.state(), &mut asked);
    let flavors = flavors_for(txn.state(), demand, unit, group);
    Some(Part { sets, unit: unit.to_vec(), group, asked, flavors })
}

/// What some units ask of each group of their queue.
pub(super) fn parts(txn: &Txn<'_>, demand: &Demand<'_>, units: &[Vec<usize>]) -> Vec<Part> {
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    let every = units.iter().flat_map(|unit| (0..groups).map(move |group| (unit, group)));
    every.filter_map(|(unit, group)| part(txn, demand, unit, group)).collect()
}

/// What a set asks of a group of its queue, all members together; devices first.
fn asked_by(
    txn: &Txn<'_>,
    demand: &Demand<'_>,
    at: usize,
    group: usize,
) -> Vec<(ResourceIdx, i64)> {
    let set = &demand.sets[at];
    let state = txn.state();
    let covered = &state.quota.queue(demand.queue).groups[group].covered;
    let mut asked: Vec<(ResourceIdx, i64)> = state
        .room
        .counted(set.shape)
        .entries()
        .iter()
        .filter(|(resource, _)| covered.contains(resource))
        .map(|(resource, amount)| (*resource, amount.saturating_mul(set.count.into())))
        .collect();
    // How much depends on the flavor.
    asked.extend(covered.contains(&USD).then_some((USD, 0)));
    sort(state, &mut asked);
    asked
}

/// Of several shortages the one of devices tells most, so they are looked at first.
fn sort(state: &ClusterState, asked: &mut [(ResourceIdx, i64)]) {
    let named = |resource: &ResourceIdx| {
        let name = state.room.resources.name(*resource);
        (!name.contains('/'), *resource == USD, name)
    };
    asked.sort_by(|(one, _), (other, _)| named(one).cmp(&named(other)));
}

/// The flavors of a group that a unit may have: those that its like have already, if any run.
fn flavors_for(
    state: &ClusterState,
    demand: &Demand<'_>,
    unit: &[usize],
    group: usize,
) -> Vec<FlavorIdx> {
    let listed = &state.quota.queue(demand.queue).groups[group].flavors;
    let name = &state.room.shape(demand.sets[unit[0]].shape).facts.set_group;
    let is_kept = |flavor: &&FlavorIdx| {
        demand.kept.iter().any(|(of, kept)| name.as_ref() == Some(of) && kept == *flavor)
    };
    let kept: Vec<FlavorIdx> = listed.iter().filter(is_kept).copied().collect();
    if kept.is_empty() { listed.clone() } else { kept }
}

/// Whether a flavor lets all sets of a part's unit onto its nodes, as far as it says itself.
pub(super) fn check(
    state: &ClusterState,
    demand: &Demand<'_>,
    part: &Part,
    flavor: FlavorIdx,
) -> Result<(), FlavorProblem> {
    let facts = state.quota.flavor(flavor).expect("active queues name existing flavors");
    for &at in &part.unit {
        let shape = &state.room.shape(demand.sets[at].shape).facts;
        eligible::check(shape, facts, state.room.args.toleration_comparison)?;
    }
    part.unit.iter().try_for_each(|at| {
        let asked = demand.topology.of_set(&state.room, demand.sets[*at].shape);
        eligible::check_levels(&state.room, facts, asked)
    })
}

/// The classes of the members that ask for a part, with a flavor for it beside those chosen, and
/// how many they are.
pub(super) fn asks(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    flavor: FlavorIdx,
    chosen: &Choice,
) -> Vec<(ClassIdx, u32)> {
    let asks = part.sets.iter().map(|&(at, _)| {
        let set = &demand.sets[at];
        (class_with(txn, demand, set.shape, &chosen.sets[at], Some(flavor)), set.count)
    });
    asks.collect()
}

/// The classes of members of some sets with the flavors chosen for them, and how many they are.
pub(super) fn asks_of(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    sets: &[usize],
    chosen: &Choice,
) -> Vec<(ClassIdx, u32)> {
    let asks = sets.iter().map(|&at| {
        let set = &demand.sets[at];
        (class_with(txn, demand, set.shape, &chosen.sets[at], None), set.count)
    });
    asks.collect()
}

/// The first of these that may find no nodes as things are; `None`: each by itself may.
pub(super) fn without_room(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    asks: &[(ClassIdx, u32)],
) -> Option<(ClassIdx, u32)> {
    let together = demand.together(txn);
    let mut asks = asks.iter().copied();
    asks.find(|ask| !gang::may_hold(txn, *ask, &together, demand.topology))
}
