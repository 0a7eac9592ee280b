//! What there would be once all had left who may be stopped for a preemptor, whether or not fewer
//! would do: for whoever chooses among members, and wants to know which of them could go at all.

use super::candidates::{self, Candidate};
use super::{For, Need, Removed, Search};
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;

/// The first that `tell` says once all have left who may be stopped for room, as far as one way to
/// preempt allows, for one way after the other; nothing stays removed.
pub fn once_all_left<R>(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    mut tell: impl FnMut(&mut Txn<'_>) -> Option<R>,
) -> Option<R> {
    if txn.state().workloads[preemptor].never_preempts {
        return None;
    }
    let search = Search::new(txn, preemptor, need, &[]);
    let wanted = (need, &search.asked[..], true);
    let mut list = candidates::collect(txn.state(), preemptor, search.queue, wanted);
    let list = list.ordered(txn.state(), need);
    let start = txn.checkpoint();
    for attempt in search.attempts(txn, list) {
        let mut removed = Removed::default();
        for candidate in list.iter().filter(|candidate: &&Candidate| candidate.room) {
            let usable = !removed.passes_over(candidate)
                && search.usable(txn, candidate, *attempt, For::Room)
                && need.could_free(txn.state(), candidate.workload);
            if usable {
                removed.take(txn, candidate);
            }
        }
        let told = if removed.taken.is_empty() { None } else { tell(txn) };
        txn.rollback_to(start);
        if told.is_some() {
            return told;
        }
    }
    None
}
