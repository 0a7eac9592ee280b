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
//! Phases: those of any attempt, with victims who are charged nothing and stay where they are; in
//! the end they are removed, if the caller looks at nodes then. Nothing survives a restart. Cost:
//! what quota each holds, and a walk up the tree.

use super::removed::{Extent, Removed};
use super::{Attempt, For, Search};
use crate::model::ids::ClassIdx;
use crate::model::txn::Txn;
use crate::victims::candidates::Candidate;

impl Search<'_> {
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

    /// Victims where only quota is short.
    fn attempt_by_quota<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        let start = txn.checkpoint();
        let mut removed = Removed::of_quota();
        if !self.take_for_quota(txn, list, attempt, &mut removed) {
            txn.rollback_to(start);
            return Err(For::Quota);
        }
        self.give_back(txn, attempt, &mut removed);
        Ok(removed)
    }
}
