//! The last look: other flavors for all parts at once, with victims for all that is asked.
//!
//! Problem: part by part (what one pod set asks of one resource group) something can be had, and
//! all together it cannot. A group passes over the flavor it owns because its nodes are full, and
//! borrows the next one; who borrows may not take the cpu back that filled those nodes. Two sets
//! each fit the first flavor, which holds one of them, and the second one's nodes are held by
//! lower work.
//!
//! Wanted: nothing waits where some combination of flavors would start it by the rules for
//! victims. Nobody is stopped for a flavor that is short of quota where the part has another one
//! of its own choice, quota and nodes ([`ways_back`]).
//!
//! Phases: every combination in the queue's order of flavors, but the one that was found, is
//! judged as a whole. The rules of when to stop and what is better are those of one part. First
//! those are passed over in which some set would find nodes in its own flavor; where nothing else
//! is found, only those in which it would find them beside the other sets.
//!
//! Only for work that would wait otherwise: when its scan of flavors ends, or as soon as each part
//! fits and all together do not; the scan, which goes on part by part, would move all of them.
//!
//! Not so: a scan that goes on after this may find victims for flavors that this would have passed
//! over. Two resources of one group get no last look.
//!
//! Cost: twice [`Demand::combinations`] combinations, and [`LOOKS_MAX`] searches for victims.
//! Nothing survives a restart.

use capstan_topology::ResourceIdx;

use super::combinations::{Part, Seeker, Walk, class_of, height_of, parts, quota_for, with};
use super::{Choice, Demand, Mode, better, class_with, lacking, mode_of, stops, viable};
use crate::model::ids::{FlavorIdx, FrIdx};
use crate::model::txn::Txn;
use crate::place::gang;
use crate::victims::Victim;

/// Combinations for which victims are looked for.
const LOOKS_MAX: u32 = 16;

struct Last<'a, 'd, F, H> {
    demand: &'a Demand<'d>,
    /// The flavors found part by part.
    apart: &'a Choice,
    victims: F,
    hold: H,
    looks: u32,
    /// Nodes count beside those of other sets.
    together: bool,
    /// Some combination was passed over for a way back.
    astray: bool,
    best: Option<(Mode, Choice)>,
}

/// Flavors of one set.
type Flavors = Vec<(ResourceIdx, FlavorIdx)>;

/// Other flavors than those found part by part, where parts stand so that each could be had.
/// `victims`: who leaves for a choice, so that all fits; they stay removed. `hold`: whether those
/// sets find nodes together, with these flavors, that find some by themselves.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    apart: &Choice,
    victims: impl FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>,
    hold: impl FnMut(&mut Txn<'_>, &[Flavors]) -> bool,
) -> Option<Choice> {
    let parts = parts(txn, demand, 0..demand.sets.len());
    let could = apart.parts.len() == parts.len() && apart.parts.iter().all(|(_, it)| viable(it.0));
    if parts.len() < 2 || !could {
        return None;
    }
    let looks = LOOKS_MAX.min(demand.combinations);
    let (together, astray, best) = (false, false, None);
    let mut last = Last { demand, apart, victims, hold, looks, together, astray, best };
    let before = Choice::without_queue(demand.sets.len());
    Walk::new(&parts, demand.combinations).run(txn, &mut last, &before);
    if last.best.is_none() && last.astray && demand.sets.len() > 1 {
        last.together = true;
        Walk::new(&parts, demand.combinations).run(txn, &mut last, &before);
    }
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
        if choice.sets == self.apart.sets {
            return false;
        }
        if self.has_way_back(txn, &choice) {
            self.astray = true;
            return false;
        }
        if self.looks == 0 {
            return true;
        }
        self.looks -= 1;
        let queue = self.demand.queue;
        let start = txn.checkpoint();
        let found = (self.victims)(txn, &choice);
        let height = height_of(txn, self.demand, &choice.usage, &choice.contested);
        txn.rollback_to(start);
        let Some(found) = found.filter(|victims| !victims.is_empty()) else { return false };
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
    /// Whether somebody would be stopped for quota where some part has a flavor of its own.
    fn has_way_back(&mut self, txn: &mut Txn<'_>, choice: &Choice) -> bool {
        let mut sets = choice.sets.clone();
        for at in 0..sets.len() {
            for back in ways_back(txn, self.demand, at, (self.apart, choice), &choice.contested) {
                sets[at] = back;
                if !self.together || (self.hold)(txn, &sets) {
                    return true;
                }
            }
            sets[at].clone_from(&choice.sets[at]);
        }
        false
    }
}

/// Flavors of a set, one group's changed that has a flavor which is `short` of quota, where it
/// finds another one by itself (`apart`) that nodes would take, as things are, beside the flavors
/// of its other groups: quota alone is no reason to take another one.
pub(super) fn ways_back(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    at: usize,
    (apart, choice): (&Choice, &Choice),
    short: &[FrIdx],
) -> Vec<Flavors> {
    let set = &demand.sets[at];
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    let mut ways = Vec::new();
    for group in 0..groups {
        let by_itself = apart.parts.iter().find(|(part, _)| *part == (at, group));
        if by_itself.is_none_or(|(_, (mode, _))| !viable(*mode)) {
            continue;
        }
        let quota = &txn.state().quota;
        let covered = &quota.queue(demand.queue).groups[group].covered;
        let of = |chosen: &Choice| {
            let mut flavors = chosen.sets[at].iter();
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
        let mut way = choice.sets[at].clone();
        let of_group = way.iter_mut().filter(|(resource, _)| covered.contains(resource));
        of_group.for_each(|(_, flavor)| *flavor = own);
        let class = class_with(txn, demand, set.shape, &way, own);
        if gang::holds(txn, class, set.count, demand.topology) {
            ways.push(way);
        }
    }
    ways
}
