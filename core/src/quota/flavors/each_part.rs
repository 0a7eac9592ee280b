//! What each part of a workload lacks by itself, for people who ask.
//!
//! Problem: a decision ends at the first part (what one unit of pod sets asks of one resource
//! group) that finds no flavor whoever left, because all parts are needed. People who are told of
//! that one alone raise its quota, and are told of the next.
//!
//! Wanted: every part that finds no flavor is told, with what each flavor refused it for. A part is
//! looked at by the rules of the decision: with whom it may stop, and beside what the units before
//! it take of the same group. What a part would get once others have left is in nobody's way. Nor
//! is told here whom nodes alone refuse: where they do, quota is not what is to be raised.
//!
//! Cost: that of a decision in which no part is passed over. On request only.

use std::collections::BTreeSet;

use super::unit::{self, Part};
use super::{Choice, Demand, Mode, SetDemand, assign_part, viable};
use crate::explain::reason::{FlavorRefusal, Reason};
use crate::model::ids::FlavorIdx;
use crate::model::input::Text;
use crate::model::txn::Txn;

/// A part that finds no flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The pod set that speaks for its unit.
    pub pod_set: Text,
    /// What stood in the way, in the order tried; never empty.
    pub tried: Vec<FlavorRefusal>,
}

/// The parts of a workload that find no flavor, unit by unit, each in the order of its queue's
/// groups; none of a workload that has only one part, whose reason says all of it.
pub fn refused(txn: &mut Txn<'_>, demand: &Demand<'_>) -> Vec<Refused> {
    let units = unit::units(txn.state(), demand);
    let parts = unit::parts(txn, demand, &units);
    if parts.len() < 2 {
        return Vec::new();
    }
    // Groups share no quota, and which flavor another one gets is not known where it gets none.
    let groups = txn.state().quota.queue(demand.queue).groups.len();
    let mut chosen = vec![Choice::without_queue(demand.sets.len()); groups];
    let one = |part: &Part| by_itself(txn, demand, part, &mut chosen[part.group]);
    parts.iter().filter_map(one).collect()
}

/// Why a part finds no flavor beside what was chosen for the same group before. It is added to
/// that, with the flavor that it comes closest to.
fn by_itself(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    chosen: &mut Choice,
) -> Option<Refused> {
    assign_part(txn, demand, part, chosen);
    let (mode, reason) = (std::mem::replace(&mut chosen.mode, Mode::Fit), chosen.reason.take());
    let Some(Reason::Flavors { pod_set, tried, .. }) = reason.filter(|_| !viable(mode)) else {
        return None;
    };
    let short = tried.iter().any(|refusal| refusal.why.is_of_quota());
    let excluded = tried.iter().all(|refusal| refusal.why.excludes());
    (short || excluded).then_some(Refused { pod_set, tried })
}

/// The sets that a flavor may be for: it excludes nobody of their unit, and they ask something of a
/// group that lists it. All of them where there are none, as once the flavor was edited.
pub fn takers(txn: &Txn<'_>, demand: &Demand<'_>, flavor: FlavorIdx) -> Vec<SetDemand> {
    let quota = &txn.state().quota;
    if quota.flavor(flavor).is_none() {
        return demand.sets.to_vec();
    }
    let groups = quota.queue(demand.queue).groups.iter().enumerate();
    let listing = groups.filter(|(_, group)| group.flavors.contains(&flavor));
    let listing: Vec<usize> = listing.map(|(at, _)| at).collect();
    let mut takers: BTreeSet<usize> = BTreeSet::new();
    for unit in unit::units(txn.state(), demand) {
        let parts = listing.iter().filter_map(|group| unit::part(txn, demand, &unit, *group));
        let open = parts.filter(|part| unit::check(txn.state(), demand, part, flavor).is_ok());
        takers.extend(open.flat_map(|part| part.sets.into_iter().map(|(at, _)| at)));
    }
    if takers.is_empty() {
        return demand.sets.to_vec();
    }
    takers.into_iter().map(|at| demand.sets[at].clone()).collect()
}
