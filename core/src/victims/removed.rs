//! Candidates that were removed inside a transaction, and their way back one by one.

use std::collections::BTreeSet;
use std::ops::Range;

use super::candidates::Candidate;
use super::{Attempt, Search, guarded};
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::model::vacancy::Holding;
use crate::victims::trial::Trial;

/// How often those who are not needed are looked for, where one who goes back may make room.
const PASSES_MAX: usize = 4;

/// What of a candidate is gone once it is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// What it is charged: where only quota is looked at.
    Quota,
}

/// A candidate that was removed, and what it held.
#[derive(Clone)]
pub(super) struct Taken<'c> {
    pub(super) candidate: &'c Candidate,
    pub(super) held: Holding,
}

/// The candidates removed so far, in order.
#[derive(Clone, Default)]
pub(super) struct Removed<'c> {
    pub(super) taken: Vec<Taken<'c>>,
    pub(super) names: BTreeSet<WorkloadIdx>,
    /// They stay, whatever is short.
    spared: BTreeSet<WorkloadIdx>,
    /// What of them is gone.
    pub(super) extent: Extent,
    /// They were taken by where they stand: until that node would do, whatever else would.
    pub(super) by_place: bool,
    /// Where members went when all fitted last.
    pub(super) trial: Trial,
}

impl<'c> Removed<'c> {
    /// Nobody yet; of those to come only what they are charged.
    pub(super) fn of_quota() -> Removed<'c> {
        Removed { extent: Extent::Quota, ..Removed::default() }
    }

    /// Nobody yet, and of those to come none of these.
    pub(super) fn sparing(spared: BTreeSet<WorkloadIdx>) -> Removed<'c> {
        Removed { spared, ..Removed::default() }
    }

    /// Whether one is not to be taken: it was removed already, or stays whatever is short.
    pub(super) fn passes_over(&self, candidate: &Candidate) -> bool {
        self.names.contains(&candidate.workload) || self.spared.contains(&candidate.workload)
    }

    pub(super) fn take(&mut self, txn: &mut Txn<'_>, candidate: &'c Candidate) {
        let held = match self.extent {
            Extent::Whole => {
                self.names.insert(candidate.workload);
                txn.remove_workload(candidate.workload)
            }
            // Each comes once where quota alone is looked at.
            Extent::Quota => txn.discharge_workload(candidate.workload),
        };
        self.taken.push(Taken { candidate, held });
    }

    /// Returns one if `fits` accepts the state after that; whether it does.
    pub(super) fn give_back(
        &mut self,
        txn: &mut Txn<'_>,
        at: usize,
        fits: impl FnOnce(&mut Txn<'_>) -> bool,
    ) -> bool {
        self.give_all_back(txn, &[at], fits)
    }

    /// Returns several, in the order in which they were taken, if `fits` accepts the state after
    /// that; whether it does.
    fn give_all_back(
        &mut self,
        txn: &mut Txn<'_>,
        all: &[usize],
        fits: impl FnOnce(&mut Txn<'_>) -> bool,
    ) -> bool {
        let point = txn.checkpoint();
        for &at in all {
            let Taken { candidate, held } = &self.taken[at];
            match self.extent {
                Extent::Whole => txn.return_workload(candidate.workload, held),
                Extent::Quota => txn.recharge_workload(candidate.workload, held),
            }
        }
        let returns = fits(txn);
        if returns {
            for &at in all.iter().rev() {
                let back = self.taken.remove(at);
                self.names.remove(&back.candidate.workload);
            }
        } else {
            txn.rollback_to(point);
        }
        returns
    }

    /// Forgets all but the first `count`, whose removal was rolled back.
    pub(super) fn truncate(&mut self, count: usize) {
        for back in self.taken.drain(count..) {
            self.names.remove(&back.candidate.workload);
        }
    }
}

impl Search<'_> {
    /// Everyone but the last taken goes back if the need fits all the same: first who draws on a
    /// budget that is broken, then whose leaving breaks one after those before it, and then the
    /// others, the last taken first. For members that depend on each other, or on who is around
    /// them, the last one, too, and again as long as anyone does. The last one, too, of those who
    /// were taken to clear a node: somebody before it may have kept members away from others, one
    /// of which will do. Who leaves already saves nothing by that: it counts as gone, and in the
    /// end it is left to others who could do with it. By shares the caller says when that is.
    ///
    /// Whoever places the members finds places then as well: where only kept ones were looked at,
    /// a search makes sure of that, or else everyone goes back by searches.
    pub(super) fn give_back(&self, txn: &mut Txn<'_>, attempt: Attempt, removed: &mut Removed<'_>) {
        let kept = self.keeps_places(txn).then(|| (txn.checkpoint(), removed.clone()));
        self.give_back_in_turn(txn, attempt, removed);
        if let Some((start, before)) = kept
            && removed.trial.believed
            && !self.room_fits(txn, attempt)
        {
            txn.rollback_to(start);
            *removed = before;
            removed.trial.doubted = true;
            self.give_back_in_turn(txn, attempt, removed);
        }
    }

    fn give_back_in_turn(&self, txn: &mut Txn<'_>, attempt: Attempt, removed: &mut Removed<'_>) {
        let passes = if self.depends() { PASSES_MAX } else { 1 };
        for _ in 0..passes {
            let before = removed.taken.len();
            self.give_back_to_budgets(txn, attempt, removed);
            for guarded in [true, false] {
                let stays = |it: &Candidate| !it.kind.leaves() && (it.breaks > 0) == guarded;
                self.give_back_of(txn, attempt, removed, stays);
            }
            if removed.taken.len() == before {
                break;
            }
        }
        if attempt != Attempt::Sharing {
            self.count_on_fewer(txn, attempt, removed);
        }
    }

    /// Of those who leave already only who is needed is counted on.
    pub(super) fn count_on_fewer(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        removed: &mut Removed<'_>,
    ) {
        self.give_back_of(txn, attempt, removed, |candidate| candidate.kind.leaves());
    }

    /// Of such candidates everyone goes back, the last taken first, without whom the need fits.
    ///
    /// As long as they do go back, twice as many go together the next time; where they do not, half
    /// as many, down to one, who is needed. Who may go back together may one by one as well, so
    /// that the same ones stay: of thousands who were taken for the sake of a few nodes most are
    /// not looked at by themselves, each of which may cost a search for places.
    fn give_back_of(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        removed: &mut Removed<'_>,
        of: impl Fn(&Candidate) -> bool,
    ) {
        let those = self.all_but_kept(removed).filter(|at| of(removed.taken[*at].candidate));
        let mut those: Vec<usize> = those.collect();
        let mut together = 1;
        while !those.is_empty() {
            let from = those.len().saturating_sub(together);
            let some = those.len() - from;
            let back = self.give_some_back(txn, attempt, removed, &those[from..]);
            together = match back {
                true => some * 2,
                false => (some / 2).max(1),
            };
            if back || some == 1 {
                those.truncate(from);
            }
        }
    }

    /// Of those who draw on a broken budget everyone goes back, the last taken first, without whom
    /// the need fits, until it is broken no more.
    fn give_back_to_budgets(&self, txn: &mut Txn<'_>, attempt: Attempt, removed: &mut Removed<'_>) {
        if txn.state().budgets.is_empty() {
            return;
        }
        let mut draws = guarded::draws(txn.state(), &removed.taken);
        for at in self.all_but_kept(removed).rev() {
            if draws.overdraws(at) && self.give_back_one(txn, attempt, removed, at) {
                draws.remove(at);
            }
        }
    }

    /// Those who may go back at all.
    fn all_but_kept(&self, removed: &Removed<'_>) -> Range<usize> {
        let kept = usize::from(!self.depends() && !removed.by_place);
        0..removed.taken.len().saturating_sub(kept)
    }

    /// One goes back, if the need fits without it; whether it does.
    fn give_back_one(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        removed: &mut Removed<'_>,
        at: usize,
    ) -> bool {
        self.give_some_back(txn, attempt, removed, &[at])
    }

    /// The same of several together.
    fn give_some_back(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        removed: &mut Removed<'_>,
        some: &[usize],
    ) -> bool {
        let whole = removed.extent == Extent::Whole;
        let mut trial = std::mem::take(&mut removed.trial);
        let fits = |txn: &mut Txn<'_>| {
            let amounts = self.amounts_fit(txn, attempt);
            amounts && (!whole || self.room_found(txn, attempt, &mut trial))
        };
        let fits = removed.give_all_back(txn, some, fits);
        removed.trial = trial;
        fits
    }

    /// Whether who goes back may make even the last one's leaving needless.
    fn depends(&self) -> bool {
        self.coupled || self.looks
    }
}
