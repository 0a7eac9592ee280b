//! Combinations of flavors: one walk for all that look for the best of them.
//!
//! A combination has a flavor for every part (what one unit of pod sets asks of one group). They
//! come in the queue's order of flavors, the first part's changing last, and a walk is bounded
//! twice: by the combinations judged, and by [`STEPS`] flavors looked at for each of those.

use super::unit::{self, Part};
use super::{Candidate, Choice, Demand, Quota, priced, take};
use crate::explain::reason::FlavorProblem;
use crate::model::ids::{FlavorIdx, FrIdx};
use crate::model::txn::Txn;

/// Flavors looked at for a combination that is tried: with 64 of them, all combinations of four
/// sets and four flavors.
const STEPS: u32 = 8;

/// Whoever looks for a combination.
pub(super) trait Seeker {
    /// The flavors of the first parts.
    type Chosen;

    /// One flavor more beside those; `None`: not that one.
    fn with(
        &mut self,
        txn: &mut Txn<'_>,
        part: &Part,
        flavor: FlavorIdx,
        chosen: &Self::Chosen,
    ) -> Option<Self::Chosen>;

    /// A whole combination, whose last flavor is this; whether to look no further.
    fn judge(&mut self, txn: &mut Txn<'_>, flavor: FlavorIdx, chosen: Self::Chosen) -> bool;
}

/// A walk through the combinations of some parts.
pub(super) struct Walk<'a> {
    parts: &'a [Part],
    /// Combinations that may still be judged.
    tries: u32,
    /// Flavors that may still be looked at.
    steps: u32,
    stopped: bool,
    cut: bool,
}

impl<'a> Walk<'a> {
    /// A walk that judges so many combinations at most.
    pub fn new(parts: &'a [Part], tries: u32) -> Walk<'a> {
        Walk { parts, tries, steps: tries.saturating_mul(STEPS), stopped: false, cut: false }
    }

    /// Walks on from what was chosen before the parts; whether a bound left any out.
    pub fn run<S: Seeker>(mut self, txn: &mut Txn<'_>, seeker: &mut S, before: &S::Chosen) -> bool {
        self.from(txn, seeker, 0, before);
        self.cut
    }

    fn from<S: Seeker>(
        &mut self,
        txn: &mut Txn<'_>,
        seeker: &mut S,
        at: usize,
        chosen: &S::Chosen,
    ) {
        // Sets that ask nothing of any group have no other flavors.
        let Some(part) = self.parts.get(at) else { return };
        for &flavor in &part.flavors {
            if self.stopped {
                return;
            }
            if self.steps == 0 || self.tries == 0 {
                self.cut = true;
                return;
            }
            self.steps -= 1;
            let Some(next) = seeker.with(txn, part, flavor, chosen) else { continue };
            if at + 1 < self.parts.len() {
                self.from(txn, seeker, at + 1, &next);
            } else {
                self.tries -= 1;
                self.stopped = seeker.judge(txn, flavor, next);
            }
        }
    }
}

/// How quota stands for a part in a flavor beside what was chosen: a candidate that contests what
/// is short, and what of that tells most; `Err`: it is no choice, whoever left.
pub(super) fn quota_for(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    flavor: FlavorIdx,
    choice: &Choice,
) -> Result<(Candidate, Option<FlavorProblem>), FlavorProblem> {
    unit::check(txn.state(), demand, part, flavor)?;
    let asks = unit::asks(txn, demand, part, flavor, choice);
    let priced = priced::of_part(txn, demand, part, flavor, (&asks, choice));
    let state = txn.state();
    let mut candidate = Candidate::fitting(flavor, priced.amount());
    let mut problem = None;
    for &(resource, amount) in priced.asked.iter() {
        let fr = state.quota.listed_fr(flavor, resource);
        let earlier = choice.usage.iter().find(|(known, _)| *known == fr).map_or(0, |(_, n)| *n);
        let total = earlier.saturating_add(amount);
        match priced.quota(state, demand, resource, (fr, total, amount)) {
            Quota::Never(_, why) => return Err(why),
            Quota::Fits(height) => candidate.borrowing = candidate.borrowing.max(height),
            // How far it borrows is known when victims have left.
            Quota::Short(why) => {
                candidate.contested.push(fr);
                problem = problem.or(Some(why));
            }
        }
    }
    Ok((candidate, problem))
}

/// The flavors chosen, and one more for a part.
pub(super) fn with(
    txn: &Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    candidate: Candidate,
    chosen: &Choice,
) -> Choice {
    let mut next = chosen.clone();
    take(txn, demand, part, Some(candidate), Vec::new(), &mut next);
    next
}

/// How far what is `short` of a choice borrows, those having left who were found for it; 0: not.
pub(super) fn height_of(
    txn: &Txn<'_>,
    demand: &Demand<'_>,
    usage: &[(FrIdx, i64)],
    short: &[FrIdx],
) -> u32 {
    let quota = &txn.state().quota;
    let node = quota.queue(demand.queue).node.expect("only existing queues have heads");
    let charged = usage.iter().filter(|(fr, _)| short.contains(fr));
    let heights = charged.map(|(fr, n)| quota.tree.borrow_height(node, *fr, *n).0);
    heights.max().unwrap_or(0)
}
