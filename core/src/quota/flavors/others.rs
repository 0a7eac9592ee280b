//! Other flavors, when those found first do not do for all.
//!
//! Problem: flavors are chosen set by set, and for each set group by group. What an earlier set
//! took may be the only flavor that a later one can have; and where each set fits on the nodes of
//! its own, all members may still not find places together, in one domain if they ask for that.
//! The first group's flavor may fit and lead to nodes that are full whatever the second group has:
//! cpu on demand, and the free GPUs are on spot nodes. Another combination may hold them: both
//! sets on the dearer flavor, in one rack; the set that may go anywhere on the last flavor.
//!
//! Every combination in which each set fits by quota and on nodes is tried in the queue's order of
//! flavors, the first set's flavor changing last: as many combinations as the caller allows, and
//! [`STEPS`] flavors looked at for each. Only what fits as things are is looked for: who would
//! have to leave is asked for the flavors found first.

use std::ops::Range;

use capstan_topology::ResourceIdx;

use super::{
    Candidate, Choice, Demand, Mode, asked_of, class_with, covered, fungibility, shortage, take,
};
use crate::model::ids::{FlavorIdx, QueueIdx};
use crate::model::txn::Txn;
use crate::place::gang;
use crate::quota::eligible;

/// Flavors looked at for a combination that is tried: with 64 of them, all combinations of four
/// sets and four flavors.
const STEPS: u32 = 8;

/// One set's part of one group of its queue.
struct Part {
    set: usize,
    asked: Vec<(ResourceIdx, i64)>,
    flavors: Vec<FlavorIdx>,
}

struct Search<'a, 'd, F> {
    demand: &'a Demand<'d>,
    parts: Vec<Part>,
    /// Flavors that may still be looked at.
    steps: u32,
    /// Combinations that may still be tried.
    tries: u32,
    holds: F,
}

/// The first combination of flavors for all sets that fits by quota, set by set on nodes, and
/// together as `holds` says.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    holds: impl FnMut(&mut Txn<'_>, &Choice) -> bool,
) -> Option<Choice> {
    if demand.sets.iter().any(|set| covered(txn, demand, set).is_err()) {
        return None;
    }
    let parts = parts(txn, demand, 0..demand.sets.len());
    let tries = demand.combinations;
    let mut search = Search { demand, parts, steps: STEPS * tries, tries, holds };
    search.from(txn, 0, &Choice::without_queue(demand.sets.len()))
}

/// The same for one set, whose groups of resources found flavors one by one, beside what was
/// chosen for the sets before it.
pub(super) fn for_set(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    set: usize,
    before: &Choice,
    instead_of: &Choice,
) -> Option<Choice> {
    let parts = parts(txn, demand, set..set + 1);
    if parts.len() < 2 {
        return None;
    }
    let (tries, most) = (demand.combinations, most_borrowing(txn, demand.queue, instead_of));
    let holds = |_: &mut Txn<'_>, found: &Choice| found.borrowing <= most;
    let mut search = Search { demand, parts, steps: STEPS * tries, tries, holds };
    search.from(txn, 0, before)
}

/// How far another choice may borrow where this one would preempt: a queue may prefer that.
pub fn most_borrowing(txn: &Txn<'_>, queue: QueueIdx, instead_of: &Choice) -> u32 {
    let prefers = fungibility(txn, queue).prefer_preemption_over_borrowing;
    match prefers && instead_of.mode > Mode::NoCandidates {
        true => instead_of.borrowing,
        false => u32::MAX,
    }
}

/// What some sets ask of each group of their queue.
fn parts(txn: &Txn<'_>, demand: &Demand<'_>, sets: Range<usize>) -> Vec<Part> {
    let groups = &txn.state().quota.queue(demand.queue).groups;
    let every = sets.flat_map(|set| (0..groups.len()).map(move |group| (set, group)));
    let part = |(set, group)| Part {
        set,
        asked: asked_of(txn, demand, (set, group)),
        flavors: groups[group].flavors.clone(),
    };
    every.map(part).filter(|part| !part.asked.is_empty()).collect()
}

impl<F: FnMut(&mut Txn<'_>, &Choice) -> bool> Search<'_, '_, F> {
    /// Goes on with the parts from `at`, beside what was chosen for those before.
    fn from(&mut self, txn: &mut Txn<'_>, at: usize, choice: &Choice) -> Option<Choice> {
        let Some(part) = self.parts.get(at) else {
            self.tries -= 1;
            return (self.holds)(txn, choice).then(|| choice.clone());
        };
        let set = part.set;
        for flavor in 0..part.flavors.len() {
            if self.steps == 0 || self.tries == 0 {
                return None;
            }
            self.steps -= 1;
            let part = &self.parts[at];
            let Some(candidate) = fitting(txn, self.demand, part, part.flavors[flavor], choice)
            else {
                continue;
            };
            let mut next = choice.clone();
            take(txn, self.demand, set, &part.asked, Some(candidate), Vec::new(), &mut next);
            if let Some(found) = self.from(txn, at + 1, &next) {
                return Some(found);
            }
        }
        None
    }
}

/// A flavor for one part, if that fits as things are.
fn fitting(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &Part,
    flavor: FlavorIdx,
    choice: &Choice,
) -> Option<Candidate> {
    let set = &demand.sets[part.set];
    let state = txn.state();
    let facts = state.quota.flavor(flavor).expect("active queues name existing flavors");
    let shape = &state.room.shape(set.shape).facts;
    eligible::check(shape, facts, state.room.args.toleration_comparison).ok()?;
    let node = state.quota.queue(demand.queue).node.expect("only existing queues have heads");
    let mut borrowing = 0;
    for &(resource, amount) in &part.asked {
        let fr = state.quota.listed_fr(flavor, resource);
        let earlier = choice.usage.iter().find(|(known, _)| *known == fr).map_or(0, |(_, n)| *n);
        let total = earlier.saturating_add(amount);
        if shortage(state, demand.queue, fr, total).is_some() {
            return None;
        }
        borrowing = borrowing.max(state.quota.tree.borrow_height(node, fr, total).0);
    }
    let class = class_with(txn, demand, set.shape, &choice.sets[part.set], flavor);
    let holds = gang::holds(txn, class, set.count, demand.topology);
    holds.then(|| Candidate { flavor, mode: Mode::Fit, borrowing, contested: Vec::new() })
}
