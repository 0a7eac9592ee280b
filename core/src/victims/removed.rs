//! Candidates that were removed inside a transaction, and their way back one by one.

use std::collections::BTreeSet;

use super::candidates::Candidate;
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::model::vacancy::Holding;

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
pub(super) struct Taken<'c> {
    pub(super) candidate: &'c Candidate,
    pub(super) held: Holding,
}

/// The candidates removed so far, in order.
#[derive(Default)]
pub(super) struct Removed<'c> {
    pub(super) taken: Vec<Taken<'c>>,
    pub(super) names: BTreeSet<WorkloadIdx>,
    /// What of them is gone.
    pub(super) extent: Extent,
}

impl<'c> Removed<'c> {
    /// Nobody yet; of those to come only what they are charged.
    pub(super) fn of_quota() -> Removed<'c> {
        Removed { extent: Extent::Quota, ..Removed::default() }
    }

    pub(super) fn contains(&self, candidate: &Candidate) -> bool {
        self.names.contains(&candidate.workload)
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

    /// Returns one if `fits` accepts the state after that.
    pub(super) fn give_back(
        &mut self,
        txn: &mut Txn<'_>,
        at: usize,
        fits: impl FnOnce(&mut Txn<'_>) -> bool,
    ) {
        let point = txn.checkpoint();
        let Taken { candidate, held } = &self.taken[at];
        match self.extent {
            Extent::Whole => txn.return_workload(candidate.workload, held),
            Extent::Quota => txn.recharge_workload(candidate.workload, held),
        }
        if fits(txn) {
            let back = self.taken.remove(at);
            self.names.remove(&back.candidate.workload);
        } else {
            txn.rollback_to(point);
        }
    }

    /// Forgets all but the first `count`, whose removal was rolled back.
    pub(super) fn truncate(&mut self, count: usize) {
        for back in self.taken.drain(count..) {
            self.names.remove(&back.candidate.workload);
        }
    }
}
