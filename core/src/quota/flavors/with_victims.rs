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
//! Cost: nothing where nobody may be stopped; else [`Demand::combinations`] combinations, and
//! [`LOOKS_MAX`] searches for victims: who waits because there are more is told so. Nothing
//! survives a restart.

use capstan_topology::ResourceIdx;

use super::combinations::{Seeker, Walk, height_of, quota_for, with};
use super::unit::{self, Part};
use super::{Choice, Demand, Mode, better, covered, lacking, may_preempt, mode_of, stops, viable};
use crate::explain::reason::SearchBound;
use crate::model::ids::{FlavorIdx, FrIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::victims::Victim;

/// Combinations for which victims are looked for.
const LOOKS_MAX: u32 = 32;

struct Last<'a, 'd, F, H> {
    demand: &'a Demand<'d>,
    /// The flavors found part by part.
    apart: &'a Choice,
    victims: F,
    hold: H,
    parts: &'a [Part],
    looks: u32,
    /// One was left out because there are no looks left.
    cut: bool,
    best: Option<(Mode, Choice)>,
}

/// Flavors of one set.
type Flavors = Vec<(ResourceIdx, FlavorIdx)>;

/// Other flavors than those found part by part; `alone`: of one part by itself only placing its
/// members tells whether a flavor does. `victims`: who leaves for a choice, so that all
/// fits; they stay removed. `hold`: whether all find nodes together, with these flavors.
/// `Err`: there are none, or the search ended here before it had looked at all.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (apart, alone): (&Choice, bool),
    victims: impl FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>,
    hold: impl FnMut(&mut Txn<'_>, &[Flavors]) -> bool,
) -> Result<Choice, Option<SearchBound>> {
    if !may_stop_any(txn.state(), demand) {
        return Err(None);
    }
    let parts = unit::parts(txn, demand, &unit::units(txn.state(), demand));
    if parts.is_empty() || parts.len() == 1 && !alone {
        return Err(None);
    }
    if demand.sets.iter().any(|set| covered(txn, demand, set).is_err()) {
        return Err(None);
    }
    let most = LOOKS_MAX.min(demand.combinations);
    let (parts, looks, best) = (&parts[..], most, None);
    let mut last = Last { demand, apart, victims, hold, parts, looks, cut: false, best };
    let before = Choice::without_queue(demand.sets.len());
    let cut = Walk::new(parts, demand.combinations).run(txn, &mut last, &before);
    let Some((mode, found)) = last.best else {
        let bound = if last.cut { Some(most) } else { cut.then_some(demand.combinations) };
        return Err(bound.map(SearchBound::Choices));
    };
    let (room, reason) = (apart.room, apart.reason.clone());
    Ok(Choice { mode, room, reason, ..found })
}

/// Whether anybody might be stopped for it at all.
fn may_stop_any(state: &ClusterState, demand: &Demand<'_>) -> bool {
    let own = &state.workloads[demand.workload];
    let lower = |other: &WorkloadIdx| state.workloads[*other].priority < own.priority;
    let promised = || state.inherited.values().any(|note| note.preemptor == own.full_name);
    let outside = || !own.never_preempts && state.unqueued_holding.iter().any(lower);
    may_preempt(state, demand) || outside() || promised()
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
        let asks = unit::asks(txn, self.demand, part, flavor, choice);
        let anywhere = asks.iter().all(|(class, _)| lacking::some_node_accepts(txn, *class));
        anywhere.then(|| with(txn, self.demand, part, candidate, choice))
    }

    fn judge(&mut self, txn: &mut Txn<'_>, _: FlavorIdx, mut choice: Choice) -> bool {
        // What was found part by part was judged, unless some part of it could not be had at all.
        if choice.sets == self.apart.sets && self.apart.mode > Mode::NoFit {
            return false;
        }
        if self.looks == 0 {
            self.cut = true;
            return true;
        }
        self.looks -= 1;
        let (demand, queue) = (self.demand, self.demand.queue);
        let found = (self.apart, &choice);
        let ways = ways_back(txn, demand, self.parts, found, &choice.contested);
        let start = txn.checkpoint();
        let found = (self.victims)(txn, &choice).filter(|victims| !victims.is_empty());
        let height = height_of(txn, demand, &choice.usage, &choice.contested);
        let astray = found.is_some() && ways.iter().any(|way| self.goes(txn, &choice, way));
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
    fn goes(&mut self, txn: &mut Txn<'_>, choice: &Choice, way: &Way<'_>) -> bool {
        let state = txn.state();
        let node = state.quota.queue(self.demand.queue).node;
        let node = node.expect("only existing queues have heads");
        let has_quota = way.part.asked.iter().all(|&(resource, amount)| {
            let fr = state.quota.listed_fr(way.own, resource);
            let beside = choice.usage.iter().find(|(known, _)| *known == fr);
            let all = beside.map_or(0, |(_, n)| *n).saturating_add(amount);
            state.quota.tree.available(node, fr) >= all
        });
        has_quota && (self.hold)(txn, &way.sets)
    }
}

/// A flavor that a part could go back to.
pub(super) struct Way<'a> {
    part: &'a Part,
    /// The flavor that the part finds by itself.
    own: FlavorIdx,
    /// All flavors of every set, with that one.
    sets: Vec<Flavors>,
}

/// For each of these parts that has a flavor which is `short` of quota, where it finds another one
/// by itself (`apart`) that nodes would take, as things are, beside the flavors of its unit's other
/// parts: that one. Quota alone is no reason to take another.
pub(super) fn ways_back<'p>(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    parts: &'p [Part],
    (apart, choice): (&Choice, &Choice),
    short: &[FrIdx],
) -> Vec<Way<'p>> {
    let mut ways = Vec::new();
    for part in parts {
        let by_itself = apart.parts.iter().find(|(key, _)| *key == part.key());
        if by_itself.is_none_or(|(_, (mode, _))| !viable(*mode)) {
            continue;
        }
        let quota = &txn.state().quota;
        let covered = &quota.queue(demand.queue).groups[part.group].covered;
        let of = |chosen: &Choice| {
            let mut flavors = chosen.sets[part.key().0].iter();
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
        let mut back = choice.clone();
        for (at, _) in &part.sets {
            let of_group = back.sets[*at].iter_mut().filter(|(of, _)| covered.contains(of));
            of_group.for_each(|(_, flavor)| *flavor = own);
        }
        let sets: Vec<usize> = part.sets.iter().map(|(at, _)| *at).collect();
        let asks = unit::asks_of(txn, demand, &sets, &back);
        if unit::without_room(txn, demand, &asks).is_none() {
            ways.push(Way { part, own, sets: back.sets });
        }
    }
    ways
}
