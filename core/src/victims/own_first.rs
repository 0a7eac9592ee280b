//! Victims for one that must end within what its queue owns, where its own queue holds that.
//!
//! Problem: own work comes after all that others borrow. Who borrows nothing, and finds work of
//! lower priority in its own quota, therefore takes everybody elsewhere before the first who makes
//! it fit, and gives nearly all of them back: hundreds, to find a few.
//!
//! Wanted: the same victims, with own work taken first. Two facts make it so. What a queue borrows
//! depends on its own work alone: before enough of that has left nothing fits, whoever else has,
//! and it goes back only while the queue borrows nothing without it. And of the others those stay
//! taken who come first in order until it fits, since those behind them would all go back.
//!
//! Not where something else than the order decides who goes back (budgets), where own work that
//! leaves already stands before others, or where others may claim what own work leaves. Nothing
//! survives a search. Cost: those who are found, and the few who go back.

use super::candidates::{self, Candidate, Kind};
use super::order::Candidates;
use super::removed::{Extent, Removed};
use super::{Attempt, For, Search, Victim};
use crate::model::txn::Txn;

impl Search<'_> {
    /// Victims where own work must leave, in the order in which they are taken; `None`: those are
    /// found otherwise.
    pub(super) fn attempt_own_first(
        &self,
        txn: &mut Txn<'_>,
        list: &Candidates,
        attempt: Attempt,
    ) -> Option<Result<Vec<Victim>, For>> {
        if attempt != Attempt::Within || self.owns_enough(txn) || !self.may_go_first(txn, list) {
            return None;
        }
        let is_own = |candidate: &&Candidate| candidate.kind == Kind::WithinQueue;
        let those = |own: bool| {
            let all = list.any_order().iter().filter(|it| it.quota && is_own(it) == own);
            Candidates::new(all.cloned().collect())
        };
        let (mut own, mut others) = (those(true), those(false));
        let start = txn.checkpoint();
        let mut leave = Removed::of_quota();
        for candidate in own.ordered(txn.state(), self.need) {
            if self.owns_enough(txn) {
                break;
            }
            leave.take(txn, candidate);
        }
        if !self.owns_enough(txn) {
            txn.rollback_to(start);
            return Some(Err(For::Quota));
        }
        for at in (0..leave.taken.len().saturating_sub(1)).rev() {
            leave.give_back(txn, at, |txn| self.owns_enough(txn));
        }
        let mut found = self.first_of_others(txn, &mut others, attempt);
        if let Some(found) = &mut found {
            found.extend(self.victims(&leave));
        }
        if found.is_none() || self.extent == Extent::Whole {
            txn.rollback_to(start);
            let names = found.iter().flatten().map(|victim| victim.workload);
            names.for_each(|name| drop(txn.remove_workload(name)));
        }
        found.map(Ok)
    }

    /// Who of other queues leaves beside own work, and nobody more.
    fn first_of_others(
        &self,
        txn: &mut Txn<'_>,
        others: &mut Candidates,
        attempt: Attempt,
    ) -> Option<Vec<Victim>> {
        loop {
            let mut leave = Removed::of_quota();
            if self.free_quota(txn, others.in_order(), attempt, &mut leave).is_ok() {
                self.give_back(txn, attempt, &mut leave);
                return Some(self.victims(&leave));
            }
            if !others.partly() {
                return None;
            }
            others.more(txn.state(), self.need);
        }
    }

    /// Whether its queue would borrow nothing with it.
    fn owns_enough(&self, txn: &Txn<'_>) -> bool {
        let quota = &txn.state().quota;
        let node = self.queue.and_then(|queue| quota.queue(queue).node);
        let owns = |node| {
            let mut usage = self.need.usage.iter();
            usage.all(|(fr, amount)| !quota.tree.borrows(node, *fr, *amount))
        };
        node.is_none_or(owns)
    }

    /// Whether only the order says who leaves, and own work has a place behind all others.
    fn may_go_first(&self, txn: &Txn<'_>, list: &Candidates) -> bool {
        let state = txn.state();
        let by_rank = state.budgets.is_empty() && state.policy.usage_sharing.is_none();
        let own = self.queue.and_then(|queue| state.quota.queue(queue).node);
        let elsewhere = |it: &Candidate| candidates::node_of(state, it.workload) != own;
        let plain = |it: &Candidate| {
            (it.kind == Kind::WithinQueue || elsewhere(it)) && !state.claims_to_join(it.workload)
        };
        by_rank && list.any_order().iter().filter(|it| it.quota).all(plain)
    }
}
