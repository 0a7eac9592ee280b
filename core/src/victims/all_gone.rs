//! What there would be once all had left who may be stopped for a preemptor, whether or not fewer
//! would do: for whoever chooses among members, and wants to know which of them could go at all.

use std::collections::BTreeSet;

use super::candidates::{self, Candidate};
use super::{For, Need, Removed, Search};
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;
use crate::place::coupled::Count;

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
        need.look_around(txn);
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

/// What `tell` says once everybody has left who may be stopped, be it for room or for any quota of
/// the preemptor's queue; `None`: nobody may be. More leave than ever do together, so nobody could
/// be stopped for who finds too little even then. Nothing stays removed.
pub fn once_anybody_left<R>(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    asks: &[Count],
    tell: impl FnOnce(&mut Txn<'_>) -> R,
) -> Option<R> {
    let state = txn.state();
    let entry = &state.workloads[preemptor];
    if entry.never_preempts {
        return None;
    }
    let queue = match entry.queue {
        QueueRef::Queue(queue) => Some(queue),
        _ => None,
    };
    let node = queue.and_then(|queue| state.quota.queue(queue).node);
    let contested = node.map_or_else(Vec::new, |node| state.quota.tree.covered(node).collect());
    let need = Need { asks: asks.to_vec(), contested, ..Need::default() };
    need.look_around(txn);
    let state = txn.state();
    let asked = need.asked(state);
    let list = candidates::collect(state, preemptor, queue, (&need, &asked[..], true));
    let list = list.any_order();
    if list.is_empty() {
        return None;
    }
    let gives = |it: &&Candidate| it.quota || need.could_free(state, it.workload);
    let leave: BTreeSet<WorkloadIdx> = list.iter().filter(gives).map(|it| it.workload).collect();
    let start = txn.checkpoint();
    txn.remove_workloads(leave);
    let told = tell(txn);
    txn.rollback_to(start);
    Some(told)
}
