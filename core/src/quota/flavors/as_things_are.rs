//! Other flavors for a gang of several pod sets, when those found first do not do for all.
//!
//! Problem: flavors are chosen set by set. What an earlier set took may be the only flavor that a
//! later one can have; and where each set fits on the nodes of its own, all members may still not
//! find places together, in one domain if they ask for that. Another combination may hold them:
//! both sets on the dearer flavor, in one rack; the set that may go anywhere on the last flavor.
//!
//! Every combination in which each set fits by quota and on nodes is tried in the queue's order of
//! flavors, as many as the caller allows. The first that holds all is taken; a queue that tries
//! further flavors before it borrows takes the one that borrows least. Only what fits as things
//! are is looked for: who would have to leave is asked for the flavors found first, and then, in
//! the last look of all, for others ([`super::with_victims`]).
//!
//! One set may be in the same case: how a flavor stands is how the worst of its resources does, and
//! where victims were found for each of them nobody need leave for all.

use super::combinations::{Seeker, Walk, quota_for, with};
use super::unit::{self, Part};
use super::{Choice, Demand, Mode, better, covered, fungibility, stops, viable};
use crate::model::ids::{FlavorIdx, QueueIdx};
use crate::model::txn::Txn;

/// How far each part of what is found may borrow; `None`: as far as limits allow.
pub struct Most(Option<Vec<((usize, usize), u32)>>);

impl Most {
    /// No bound but limits.
    pub const ANY: Most = Most(None);

    /// Whether there is none.
    pub fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a part may borrow so far.
    pub(super) fn allows(&self, part: &Part, borrowing: u32) -> bool {
        let bounds = self.0.iter().flatten();
        let mut bound = bounds.filter(|(of, _)| *of == part.key());
        bound.all(|(_, most)| borrowing <= *most)
    }
}

struct Search<'a, 'd, F> {
    demand: &'a Demand<'d>,
    most: &'a Most,
    holds: F,
    /// The best so far.
    best: Option<Choice>,
    /// Something lacked nothing but room on nodes.
    room: bool,
}

/// The best combination of flavors for all sets that fits by quota, borrows no further in any part
/// than `most`, and fits set by set on nodes, and together as `holds` says; whether some
/// combination lacked nothing but room on nodes, and whether some was not looked at.
pub fn find(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    most: &Most,
    holds: impl FnMut(&mut Txn<'_>, &Choice) -> bool,
) -> (Option<Choice>, bool, bool) {
    if demand.sets.iter().any(|set| covered(txn, demand, set).is_err()) {
        return (None, false, false);
    }
    let parts = unit::parts(txn, demand, &unit::units(txn.state(), demand));
    let mut search = Search { demand, most, holds, best: None, room: false };
    let before = Choice::without_queue(demand.sets.len());
    let cut = Walk::new(&parts, demand.combinations).run(txn, &mut search, &before);
    (search.best, search.room, cut)
}

/// How far another choice may borrow where this one would preempt: a queue may prefer that. Part by
/// part: what one has to borrow anyway is no leave for the others.
pub fn most_borrowing(txn: &Txn<'_>, queue: QueueIdx, instead_of: &Choice) -> Most {
    let prefers = fungibility(txn, queue).prefer_preemption_over_borrowing;
    let bounds = instead_of.parts.iter().map(|(part, (_, borrowing))| (*part, *borrowing));
    Most((prefers && viable(instead_of.mode)).then(|| bounds.collect()))
}

impl<F: FnMut(&mut Txn<'_>, &Choice) -> bool> Seeker for Search<'_, '_, F> {
    type Chosen = Choice;

    fn with(
        &mut self,
        txn: &mut Txn<'_>,
        part: &Part,
        flavor: FlavorIdx,
        choice: &Choice,
    ) -> Option<Choice> {
        let (candidate, short) = quota_for(txn, self.demand, part, flavor, choice).ok()?;
        if short.is_some() || !self.most.allows(part, candidate.borrowing) {
            return None;
        }
        let asks = unit::asks(txn, self.demand, part, flavor, choice);
        let holds = unit::without_room(txn, self.demand, &asks).is_none();
        self.room |= !holds;
        holds.then(|| with(txn, self.demand, part, candidate, choice))
    }

    fn judge(&mut self, txn: &mut Txn<'_>, _: FlavorIdx, choice: Choice) -> bool {
        let (queue, stands) = (self.demand.queue, (Mode::Fit, choice.borrowing));
        let beats = |best: &Choice| better(txn, queue, stands, (Mode::Fit, best.borrowing));
        if !self.best.as_ref().is_none_or(beats) {
            return false;
        }
        if !(self.holds)(txn, &choice) {
            self.room = true;
            return false;
        }
        self.best = Some(choice);
        stops(txn, queue, stands)
    }
}
