//! Other flavors for a gang of several pod sets, when those found first do not do for all.
//!
//! Problem: flavors are chosen set by set. What an earlier set took may be the only flavor that a
//! later one can have; and where each set fits on the nodes of its own, all members may still not
//! find places together, in one domain if they ask for that. Another combination may hold them:
//! both sets on the dearer flavor, in one rack; the set that may go anywhere on the last flavor.
//!
//! Every combination in which each set fits by quota and on nodes is tried in the queue's order of
//! flavors, the first set's flavor changing last: as many combinations as the caller allows, and
//! [`STEPS`] flavors looked at for each. The first that holds all is taken; a queue that tries
//! further flavors before it borrows takes the one that borrows least. Only what fits as things
//! are is looked for: who would have to leave is asked for the flavors found first.

use std::ops::Range;

use capstan_topology::ResourceIdx;

use super::{
    Candidate, Choice, Demand, Mode, asked_of, better, class_with, covered, fungibility, shortage,
    stops, take, viable,
};
use crate::model::ids::{FlavorIdx, QueueIdx};
use crate::model::txn::Txn;
use crate::place::gang;
use crate::quota::eligible;

/// Flavors looked at for a combination that is tried: with 64 of them, all combinations of four
/// sets and four flavors.
pub(super) const STEPS: u32 = 8;

/// One set's part of one group of its queue.
pub(super) struct Part {
    pub set: usize,
    pub asked: Vec<(ResourceIdx, i64)>,
    pub flavors: Vec<FlavorIdx>,
}

struct Search<'a, 'd, F> {
    demand: &'a Demand<'d>,
    parts: Vec<Part>,
    /// How far what is found may borrow.
    most: u32,
    /// Flavors that may still be looked at.
    steps: u32,
    /// Combinations that may still be tried.
    tries: u32,
    holds: F,
    /// The best so far.
    best: Option<Choice>,
    /// No other combination is looked at.
    stopped: bool,
    /// Something lacked nothing but room on nodes, or was not looked at.
    room: bool,
}

/// The best combination of flavors for all sets that fits by quota, borrows no further than
/// `most`, and fits set by set on nodes, and together as `holds` says; and whether some combination
/// lacked nothing but room on nodes, or was not looked at.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    most: u32,
    holds: impl FnMut(&mut Txn<'_>, &Choice) -> bool,
) -> (Option<Choice>, bool) {
    if demand.sets.iter().any(|set| covered(txn, demand, set).is_err()) {
        return (None, false);
    }
    let parts = parts(txn, demand, 0..demand.sets.len());
    let tries = demand.combinations;
    let (steps, best, stopped, room) = (STEPS * tries, None, false, false);
    let mut search = Search { demand, parts, most, steps, tries, holds, best, stopped, room };
    search.from(txn, 0, &Choice::without_queue(demand.sets.len()));
    (search.best, search.room)
}

/// How far another choice may borrow where this one would preempt: a queue may prefer that.
pub fn most_borrowing(txn: &Txn<'_>, queue: QueueIdx, instead_of: &Choice) -> u32 {
    let prefers = fungibility(txn, queue).prefer_preemption_over_borrowing;
    match prefers && viable(instead_of.mode) {
        true => instead_of.borrowing,
        false => u32::MAX,
    }
}

/// What some sets ask of each group of their queue.
pub(super) fn parts(txn: &Txn<'_>, demand: &Demand<'_>, sets: Range<usize>) -> Vec<Part> {
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
    fn from(&mut self, txn: &mut Txn<'_>, at: usize, choice: &Choice) {
        if at == self.parts.len() {
            return self.judge(txn, choice);
        }
        for flavor in 0..self.parts[at].flavors.len() {
            if self.steps == 0 || self.tries == 0 || self.stopped {
                self.room |= !self.stopped;
                return;
            }
            self.steps -= 1;
            let part = &self.parts[at];
            let Some(candidate) =
                within_quota(txn, self.demand, part, part.flavors[flavor], choice)
            else {
                continue;
            };
            let set = &self.demand.sets[part.set];
            let chosen = &choice.sets[part.set];
            let class = class_with(txn, self.demand, set.shape, chosen, part.flavors[flavor]);
            if !gang::holds(txn, class, set.count, self.demand.topology) {
                self.room = true;
                continue;
            }
            let mut next = choice.clone();
            take(txn, self.demand, part.set, &part.asked, Some(candidate), Vec::new(), &mut next);
            self.from(txn, at + 1, &next);
        }
    }

    fn judge(&mut self, txn: &mut Txn<'_>, choice: &Choice) {
        self.tries -= 1;
        let (queue, stands) = (self.demand.queue, (Mode::Fit, choice.borrowing));
        let beats = |best: &Choice| better(txn, queue, stands, (Mode::Fit, best.borrowing));
        if choice.borrowing > self.most || !self.best.as_ref().is_none_or(beats) {
            return;
        }
        if !(self.holds)(txn, choice) {
            self.room = true;
            return;
        }
        self.stopped = stops(txn, queue, stands);
        self.best = Some(choice.clone());
    }
}

/// A flavor for one part, if its quota does as things are.
fn within_quota(
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
    Some(Candidate { flavor, mode: Mode::Fit, borrowing, contested: Vec::new() })
}
