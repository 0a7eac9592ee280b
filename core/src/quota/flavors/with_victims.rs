//! The last look: other flavors for all parts at once, with victims for all that is asked.
//!
//! Problem: part by part (what one pod set asks of one resource group) something can be had, and
//! all together it cannot. A group passes over the flavor it owns because its nodes are full, and
//! borrows the next one; who borrows may not take the cpu back that filled those nodes. Two sets
//! each fit the first flavor, which holds one of them, and the second one's nodes are held by
//! lower work. Or one part finds a flavor by what its nodes hold, and its members do not go
//! together there (they share a device that its nodes do not reach together).
//!
//! Wanted: nothing waits where some combination of flavors would start it by the rules for
//! victims. Nobody is stopped for a flavor that is short of quota where the part has another one
//! of its own choice, quota and nodes ([`ways_back`]): with that one, too, all would fit beside
//! the other parts once those have left.
//!
//! Every combination in the queue's order of flavors, but the one that was found, is judged as a
//! whole. The rules of when to stop and what is better are those of one part. Only for work that
//! would wait otherwise, and before its scan goes on: that moves all parts that it can, for which
//! more may have to leave than for one.
//!
//! Not so: a scan that goes on after this may find victims for flavors that this passed over. Two
//! resources of one group get no last look.
//!
//! Cost: [`Demand::combinations`] combinations, and [`LOOKS_MAX`] searches for victims. Nothing
//! survives a restart.

use capstan_topology::ResourceIdx;

use super::combinations::{Part, Seeker, Walk, class_of, height_of, parts, quota_for, with};
use super::{
    Choice, Demand, Mode, asked_of, better, class_with, covered, lacking, mode_of, stops, viable,
};
use crate::model::ids::{FlavorIdx, FrIdx};
use crate::model::txn::Txn;
use crate::place::gang;
use crate::victims::Victim;

/// Combinations for which victims are looked for.
const LOOKS_MAX: u32 = 32;

struct Last<'a, 'd, F, H> {
    demand: &'a Demand<'d>,
    /// The flavors found part by part.
    apart: &'a Choice,
    victims: F,
    hold: H,
    looks: u32,
    best: Option<(Mode, Choice)>,
}

/// Flavors of one set.
type Flavors = Vec<(ResourceIdx, FlavorIdx)>;

/// Other flavors than those found part by part; `alone`: of one part by itself only placing its
/// members tells whether a flavor does. `victims`: who leaves for a choice, so that all
/// fits; they stay removed. `hold`: whether all find nodes together, with these flavors.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (apart, alone): (&Choice, bool),
    victims: impl FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>,
    hold: impl FnMut(&mut Txn<'_>, &[Flavors]) -> bool,
) -> Option<Choice> {
    let parts = parts(txn, demand, 0..demand.sets.len());
    if parts.is_empty() || parts.len() == 1 && !alone {
        return None;
    }
    if demand.sets.iter().any(|set| covered(txn, demand, set).is_err()) {
        return None;
    }
    let looks = LOOKS_MAX.min(demand.combinations);
    let mut last = Last { demand, apart, victims, hold, looks, best: None };
    let before = Choice::without_queue(demand.sets.len());
    Walk::new(&parts, demand.combinations).run(txn, &mut last, &before);
    let (mode, found) = last.best?;
    let (room, reason) = (apart.room, apart.reason.clone());
    Some(Choice { mode, room, reason, ..found })
}

impl<F, H> Seeker for Last<'_, '_, F, H>
where
    F: FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>,
    H: FnMut(&mut Txn<'_>, &[Flavors]) -> bool,
{
    type Chosen = Choice;

    fn with(
        &mut self,
        txn: &mut Txn<'_>,
        part: &Part,
        flavor: FlavorIdx,
        choice: &Choice,
    ) -> Option<Choice> {
        let (candidate, _) = quota_for(txn, self.demand, part, flavor, choice).ok()?;
        let class = class_of(txn, self.demand, part, flavor, choice);
        let anywhere = lacking::some_node_accepts(txn, class);
        anywhere.then(|| with(txn, self.demand, part, candidate, choice))
    }

    fn judge(&mut self, txn: &mut Txn<'_>, _: FlavorIdx, mut choice: Choice) -> bool {
        // What was found part by part was judged, unless some part of it could not be had at all.
        if choice.sets == self.apart.sets && self.apart.mode > Mode::NoFit {
            return false;
        }
        if self.looks == 0 {
            return true;
        }
        self.looks -= 1;
        let (demand, queue) = (self.demand, self.demand.queue);
        let ways = |at| ways_back(txn, demand, at, (self.apart, &choice), &choice.contested);
        let ways: Vec<Way> = (0..choice.sets.len()).flat_map(ways).collect();
        let start = txn.checkpoint();
        let found = (self.victims)(txn, &choice).filter(|victims| !victims.is_empty());
        let height = height_of(txn, demand, &choice.usage, &choice.contested);
        let astray = found.is_some() && ways.into_iter().any(|way| self.goes(txn, &choice, way));
        txn.rollback_to(start);
        let Some(found) = found.filter(|_| !astray) else { return false };
        choice.borrowing = choice.borrowing.max(height);
        let stands = (mode_of(txn, queue, &found), choice.borrowing);
        let beats = |(mode, of): &(Mode, Choice)| better(txn, queue, stands, (*mode, of.borrowing));
        let stop = stops(txn, queue, stands);
        if stop || self.best.as_ref().is_none_or(beats) {
            self.best = Some((stands.0, choice));
        }
        stop
    }
}

impl<F, H: FnMut(&mut Txn<'_>, &[Flavors]) -> bool> Last<'_, '_, F, H> {
    /// Whether all would fit with a way back taken, those having left who were found without it.
    fn goes(&mut self, txn: &mut Txn<'_>, choice: &Choice, way: Way) -> bool {
        let state = txn.state();
        let node = state.quota.queue(self.demand.queue).node;
        let node = node.expect("only existing queues have heads");
        let has_quota = asked_of(txn, self.demand, (way.set, way.group)).iter().all(|part| {
            let (resource, amount) = *part;
            let fr = state.quota.listed_fr(way.own, resource);
            let beside = choice.usage.iter().find(|(known, _)| *known == fr);
            let all = beside.map_or(0, |(_, n)| *n).saturating_add(amount);
            state.quota.tree.available(node, fr) >= all
        });
        let mut sets = choice.sets.clone();
        sets[way.set] = way.flavors;
        has_quota && (self.hold)(txn, &sets)
    }
}

/// A flavor that a part could go back to.
pub(super) struct Way {
    set: usize,
    group: usize,
    /// The flavor that the group finds by itself.
    own: FlavorIdx,
    /// All flavors of the set, with that one.
    flavors: Flavors,
}

/// For each group of a set that has a flavor which is `short` of quota, where it finds another one
/// by itself (`apart`) that nodes would take, as things are, beside the flavors of its other
/// groups: that one. Quota alone is no reason to take another.
pub(super) fn ways_back(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    set: usize,
    (apart, choice): (&Choice, &Choice),
    short: &[FrIdx],
) -> Vec<Way> {
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    let mut ways = Vec::new();
    for group in 0..groups {
        let by_itself = apart.parts.iter().find(|(part, _)| *part == (set, group));
        if by_itself.is_none_or(|(_, (mode, _))| !viable(*mode)) {
            continue;
        }
        let quota = &txn.state().quota;
        let covered = &quota.queue(demand.queue).groups[group].covered;
        let of = |chosen: &Choice| {
            let mut flavors = chosen.sets[set].iter();
            flavors.find(|(resource, _)| covered.contains(resource)).map(|(_, of)| *of)
        };
        let (Some(own), Some(other)) = (of(apart), of(choice)) else { continue };
        let lacks = |fr: &FrIdx| {
            let (flavor, resource) = quota.fr(*fr);
            flavor == other && covered.contains(&resource)
        };
        if own == other || !short.iter().any(lacks) {
            continue;
        }
        let mut flavors = choice.sets[set].clone();
        let of_group = flavors.iter_mut().filter(|(resource, _)| covered.contains(resource));
        of_group.for_each(|(_, flavor)| *flavor = own);
        let of_set = &demand.sets[set];
        let class = class_with(txn, demand, of_set.shape, &flavors, own);
        let together = demand.together(txn);
        if gang::may_hold(txn, (class, of_set.count), &together, demand.topology) {
            ways.push(Way { set, group, own, flavors });
        }
    }
    ways
}
