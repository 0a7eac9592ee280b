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
//! of its own choice, quota and nodes ([`strays`]).
//!
//! Not so yet: `strays` asks whether nodes take the set alone, not beside the other sets; what is
//! short counts as not borrowed; and a scan that goes on after this round may find victims for
//! flavors that this would have passed over. Two resources of one group get no last look.
//!
//! Every combination in the queue's order of flavors, but the one that was found, is judged as a
//! whole. The rules of when to stop and what is better are those of one part. Only for work that
//! would wait otherwise, when its scan of flavors ends.
//!
//! Cost: [`Demand::combinations`] combinations, and [`LOOKS_MAX`] searches for victims. Nothing
//! survives a restart.

use super::combinations::{Part, Seeker, Walk, parts, quota_for};
use super::{Choice, Demand, Mode, better, class_with, lacking, mode_of, stops, take, viable};
use crate::model::ids::{FlavorIdx, FrIdx};
use crate::model::txn::Txn;
use crate::place::gang;
use crate::victims::Victim;

/// Combinations for which victims are looked for.
const LOOKS_MAX: u32 = 16;

struct Last<'a, 'd, F> {
    demand: &'a Demand<'d>,
    /// The flavors found part by part.
    apart: &'a Choice,
    /// Who would leave for flavors.
    victims: F,
    looks: u32,
    best: Option<(Mode, Choice)>,
}

/// Other flavors than those found part by part for which `victims` finds somebody to stop, so that
/// all fits then; where parts stand so that each could be had.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    apart: &Choice,
    victims: impl FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>,
) -> Option<Choice> {
    let parts = parts(txn, demand, 0..demand.sets.len());
    let could = apart.parts.len() == parts.len() && apart.parts.iter().all(|(_, it)| viable(it.0));
    if parts.len() < 2 || !could {
        return None;
    }
    let looks = LOOKS_MAX.min(demand.combinations);
    let mut last = Last { demand, apart, victims, looks, best: None };
    let before = Choice::without_queue(demand.sets.len());
    Walk::new(&parts, demand.combinations).run(txn, &mut last, &before);
    let (mode, found) = last.best?;
    let (next, room, reason) = (apart.next.clone(), apart.room, apart.reason.clone());
    Some(Choice { mode, next, room, reason, ..found })
}

impl<F: FnMut(&mut Txn<'_>, &Choice) -> Option<Vec<Victim>>> Seeker for Last<'_, '_, F> {
    type Chosen = Choice;

    fn with(
        &mut self,
        txn: &mut Txn<'_>,
        part: &Part,
        flavor: FlavorIdx,
        choice: &Choice,
    ) -> Option<Choice> {
        let (candidate, _) = quota_for(txn, self.demand, part, flavor, choice).ok()?;
        let set = &self.demand.sets[part.set];
        let class = class_with(txn, self.demand, set.shape, &choice.sets[part.set], flavor);
        if !lacking::some_node_accepts(txn, class) {
            return None;
        }
        let mut next = choice.clone();
        let part = ((part.set, part.group), &part.asked[..]);
        take(txn, self.demand, part, Some(candidate), Vec::new(), &mut next);
        Some(next)
    }

    fn judge(&mut self, txn: &mut Txn<'_>, _: FlavorIdx, choice: Choice) -> bool {
        let (queue, sets) = (self.demand.queue, 0..self.demand.sets.len());
        let astray = |set| strays(txn, self.demand, set, self.apart, &choice, &choice.contested);
        if choice.sets == self.apart.sets || sets.into_iter().any(astray) {
            return false;
        }
        if self.looks == 0 {
            return true;
        }
        self.looks -= 1;
        let Some(found) = (self.victims)(txn, &choice) else { return false };
        let stands = (mode_of(txn, queue, &found), choice.borrowing);
        let beats = |(mode, of): &(Mode, Choice)| better(txn, queue, stands, (*mode, of.borrowing));
        let stop = stops(txn, queue, stands);
        if stop || self.best.as_ref().is_none_or(beats) {
            self.best = Some((stands.0, choice));
        }
        stop
    }
}

/// Whether some group of a set has a flavor that is `short` of quota, where it finds another one
/// by itself that nodes would take, as things are, beside the flavors of the others: quota alone
/// is no reason to take another one.
pub(super) fn strays(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    at: usize,
    apart: &Choice,
    choice: &Choice,
    short: &[FrIdx],
) -> bool {
    let set = &demand.sets[at];
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    (0..groups).any(|group| {
        let by_itself = apart.parts.iter().find(|(part, _)| *part == (at, group));
        if by_itself.is_none_or(|(_, (mode, _))| !viable(*mode)) {
            return false;
        }
        let quota = &txn.state().quota;
        let covered = &quota.queue(demand.queue).groups[group].covered;
        let of = |chosen: &Choice| {
            let mut flavors = chosen.sets[at].iter();
            flavors.find(|(resource, _)| covered.contains(resource)).map(|(_, of)| *of)
        };
        let (Some(own), Some(other)) = (of(apart), of(choice)) else { return false };
        let lacks = |fr: &FrIdx| {
            let (flavor, resource) = quota.fr(*fr);
            flavor == other && covered.contains(&resource)
        };
        if own == other || !short.iter().any(lacks) {
            return false;
        }
        let others = choice.sets[at].iter().filter(|(resource, _)| !covered.contains(resource));
        let others: Vec<_> = others.copied().collect();
        let class = class_with(txn, demand, set.shape, &others, own);
        gang::holds(txn, class, set.count, demand.topology)
    })
}
