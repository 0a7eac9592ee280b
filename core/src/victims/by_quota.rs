//! Victims where quota alone is short.
//!
//! Problem: quotas are mostly smaller than the cluster, and a search takes and gives back dozens to
//! find the few who must leave. With all that pods hold on nodes that is most of its time.
//!
//! Wanted: the same victims as with nodes looked at. That is so where nodes have room as things
//! are, and would have it with fewer on them: whoever leaves or stays, only quota says no. So for
//! members of one kind without volumes, claims on devices, or eyes for who is around them, which
//! are charged no money. In small states of debug builds both ways are gone and compared.
//!
//! Phases: nothing, if all candidates together hold too little; those of any attempt, with victims
//! who are charged nothing and stay where they are, first with the few that are taken first; in the
//! end they are removed, if the caller looks at nodes then. Nothing survives a restart. Cost: what
//! quota each holds, and a walk up the tree.

use super::removed::{Extent, Removed};
use super::{Attempt, For, Need, Search, Victim};
use crate::model::ids::{ClassIdx, FrIdx};
use crate::model::txn::Txn;
use crate::victims::candidates::{self, Candidate};
use crate::victims::order::Candidates;

impl Search<'_> {
    /// Whether all who may be stopped hold too little of what is short of quota. By shares their
    /// number says nothing yet, nor where what is charged depends on places.
    pub(super) fn in_vain(&self, txn: &Txn<'_>, list: &[Candidate]) -> bool {
        let says = self.sharing.is_none() && self.payers.is_empty();
        let Some(queue) = self.queue.filter(|_| says) else { return false };
        let state = txn.state();
        let node = state.quota.queue(queue).node.expect("the queue exists");
        let contested = |(fr, _): &&(FrIdx, i64)| self.need.contested.contains(fr);
        self.need.usage.iter().filter(contested).any(|&(fr, amount)| {
            let mut short = amount.saturating_sub(state.quota.tree.available(node, fr));
            list.iter().filter(|candidate| candidate.quota).all(|candidate| {
                short = short.saturating_sub(candidates::held(state, candidate.workload, fr));
                short > 0
            }) && short > 0
        })
    }

    /// An attempt; where quota alone is short, and no budget tells who goes, with no more
    /// candidates than it takes.
    pub(super) fn attempt_first(
        &self,
        txn: &mut Txn<'_>,
        list: &mut Candidates,
        attempt: Attempt,
    ) -> Result<Vec<Victim>, For> {
        let by_quota = attempt != Attempt::Sharing && self.lacks_quota_alone(txn);
        if !by_quota || self.budgets_tell(txn, list) {
            let all = list.ordered(txn.state(), self.need);
            return self.attempt_within_budgets(txn, all, attempt);
        }
        let start = txn.checkpoint();
        let found = self.attempt_with_few(txn, list.of_quota(txn.state()), attempt);
        if !(cfg!(debug_assertions) && txn.state().small()) {
            return found;
        }
        txn.rollback_to(start);
        let whole = self.attempt(txn, list.ordered(txn.state(), self.need), attempt);
        assert!(whole == found, "the first who hold quota do as well as all");
        whole
    }

    /// Whether a PodDisruptionBudget makes somebody go last.
    fn budgets_tell(&self, txn: &Txn<'_>, list: &mut Candidates) -> bool {
        let state = txn.state();
        if state.budgets.is_empty() {
            return false;
        }
        list.ordered(state, self.need).iter().any(|it| it.breaks > 0)
    }

    /// Takes victims where only quota is short from as few of those who are taken first as will
    /// do, else from all.
    fn attempt_with_few(
        &self,
        txn: &mut Txn<'_>,
        list: &mut Candidates,
        attempt: Attempt,
    ) -> Result<Vec<Victim>, For> {
        if let Some(found) = self.attempt_own_first(txn, list, attempt) {
            return found;
        }
        loop {
            if list.in_order().is_empty() {
                list.more(txn.state(), self.need);
            }
            if let Ok(found) = self.attempt_for_quota(txn, list.in_order(), attempt) {
                return Ok(self.victims(&found));
            }
            if !list.partly() {
                return Err(For::Quota);
            }
            list.more(txn.state(), self.need);
        }
    }

    /// Takes victims for an attempt whose usage is charged if it must be.
    pub(super) fn attempt_as_charged<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        if attempt == Attempt::Sharing || self.own_too || !self.lacks_quota_alone(txn) {
            return self.attempt_with_nodes(txn, list, attempt);
        }
        self.attempt_for_quota(txn, list, attempt)
    }

    /// Takes victims where only quota is short, and removes of them what the caller wants gone.
    fn attempt_for_quota<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        let start = txn.checkpoint();
        if cfg!(debug_assertions) && txn.state().small() {
            let slow = self.attempt_with_nodes(txn, list, attempt);
            let slow = slow.map(|removed| self.victims(&removed));
            txn.rollback_to(start);
            let fast = self.attempt_by_quota(txn, list, attempt);
            let fast = fast.map(|removed| self.victims(&removed));
            txn.rollback_to(start);
            assert!(fast == slow, "victims for quota alone are those found with nodes looked at");
        }
        let found = self.attempt_by_quota(txn, list, attempt)?;
        if self.extent == Extent::Quota {
            return Ok(found);
        }
        txn.rollback_to(start);
        let mut removed = Removed::default();
        found.taken.iter().for_each(|taken| removed.take(txn, taken.candidate));
        Ok(removed)
    }

    /// Whether the need is one member that nodes have room for anyway: who leaves room, and no
    /// quota, is of no use to it, and nobody else goes before others for what budgets allow.
    pub(super) fn wants_quota_alone(&self, txn: &mut Txn<'_>) -> bool {
        let Need { asks, topology, peers, .. } = self.need;
        let plain = topology.slices.is_none() && !topology.own_levels && peers.is_empty();
        matches!(asks[..], [(_, 1)])
            && plain
            && self.sharing.is_none()
            && txn.state().budgets.is_empty()
            && self.lacks_quota_alone(txn)
    }

    /// Whether nodes have room as things are, and would still have it with fewer on them: then
    /// quota alone says who leaves, and nodes need not be looked at for each.
    fn lacks_quota_alone(&self, txn: &mut Txn<'_>) -> bool {
        let depend = self.coupled || self.looks || !self.open.is_empty();
        if depend || !self.payers.is_empty() || self.members.len() > 1 {
            return false;
        }
        let state = txn.state();
        let plain = |&(class, _): &(ClassIdx, u32)| {
            let facts = &state.room.shape(state.classes.class(class).key.shape).facts;
            facts.claims.is_empty() && facts.volumes.is_none()
        };
        self.need.asks.iter().all(plain) && self.nodes_fit(txn)
    }

    /// Victims where only quota is short; of them what they are charged is gone.
    fn attempt_by_quota<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        let mut removed = Removed::of_quota();
        self.free_quota(txn, list, attempt, &mut removed)?;
        self.give_back(txn, attempt, &mut removed);
        Ok(removed)
    }
}
