//! Whether a preemptor fits as things are in a search: by amounts of quota, on nodes, and by what
//! it costs there.
//!
//! What a queue with a quota of money is charged is known once members have nodes. Amounts are
//! checked with the least that they could cost, and wherever nodes hold all of them now they are
//! placed for a try, which must be paid for. Who owns the least that it could cost, and takes that
//! back from others, may not borrow what it costs more: they would take it back in turn.

use super::candidates::Candidate;
use super::{Attempt, Need, Removed, Search};
use crate::model::ids::{ClassIdx, FrIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask};
use crate::quota::money::{self, Purse, Unplaced};

/// The members of a preemptor, if their queue is charged money for them.
pub(super) fn payers(state: &ClusterState, preemptor: WorkloadIdx, need: &Need) -> Vec<Ask> {
    if !need.usage.iter().any(|(fr, _)| state.quota.is_money(*fr)) {
        return Vec::new();
    }
    let of = |&(class, count): &(ClassIdx, u32)| {
        let shape = state.classes.class(class).key.shape;
        Ask { class, pods: money::members(state, preemptor, shape, count) }
    };
    need.asks.iter().map(of).collect()
}

impl Search<'_> {
    /// Whether quota covers what is asked, and what members cost where they find nodes now.
    pub(super) fn quota_fits(&self, txn: &mut Txn<'_>, attempt: Attempt) -> bool {
        self.amounts_fit(txn, attempt)
            && !matches!(self.can_pay(txn, attempt), Err(Unplaced::TooDear(_)))
    }

    pub(super) fn amounts_fit(&self, txn: &Txn<'_>, attempt: Attempt) -> bool {
        let Some(queue) = self.queue else { return true };
        let state = txn.state();
        let node = state.quota.queue(queue).node.expect("the queue exists");
        let tree = &state.quota.tree;
        if attempt == Attempt::Sharing {
            return self.charged_fits(state, node);
        }
        let borrowing = attempt == Attempt::Borrowing;
        self.need.usage.iter().all(|&(fr, amount)| {
            (borrowing || !tree.borrows(node, fr, amount)) && amount <= tree.available(node, fr)
        })
    }

    /// Whether nodes hold all members, where they can be paid for.
    pub(super) fn room_fits(&self, txn: &mut Txn<'_>, attempt: Attempt) -> bool {
        self.nodes_fit(txn) && self.can_pay(txn, attempt).is_ok()
    }

    pub(super) fn nodes_fit(&self, txn: &mut Txn<'_>) -> bool {
        let Need { asks, together, topology, peers, .. } = self.need;
        let (topology, start) = (*topology, txn.checkpoint());
        if !peers.is_empty() {
            // What others find anywhere says nothing of those who must be near them.
            let fits = self.place_members(txn);
            txn.rollback_to(start);
            return fits;
        }
        if !asks.iter().all(|ask| gang::may_hold(txn, *ask, together, topology)) {
            return false;
        }
        let shared = self
            .members
            .iter()
            .any(|ask| gang::wants_trial(txn, ask.class, ask.pods.len() as u32, topology));
        if self.members.len() < 2 && !shared {
            return true;
        }
        let fits = self.place_members(txn);
        txn.rollback_to(start);
        fits
    }

    /// Places all members, or nobody and answers `false`.
    pub(super) fn place_members(&self, txn: &mut Txn<'_>) -> bool {
        let Need { topology, peers, .. } = self.need;
        match peers.is_empty() {
            true => gang::place(txn, self.members, *topology),
            false => gang::place_beside(txn, self.members, *topology, peers),
        }
    }

    /// Whether members that find nodes now cost no more there than their queue may spend.
    fn can_pay(&self, txn: &mut Txn<'_>, attempt: Attempt) -> Result<(), Unplaced> {
        match attempt {
            Attempt::Borrowing | Attempt::Sharing => self.pays(txn, attempt, false),
            Attempt::Within | Attempt::RoomOnly => self.pays(txn, attempt, true),
        }
    }

    /// The same; `own`: out of the quota of their queue, and of what is below it.
    fn pays(&self, txn: &mut Txn<'_>, attempt: Attempt, own: bool) -> Result<(), Unplaced> {
        if self.payers.is_empty() {
            return Ok(());
        }
        let state = txn.state();
        let node = self.queue.and_then(|queue| state.quota.queue(queue).node);
        let node = node.expect("who pays has a queue");
        let tree = &state.quota.tree;
        let most = |fr: FrIdx| {
            let owned = tree.owned(node, fr).saturating_sub(tree.usage(node, fr));
            let left = tree.available(node, fr);
            let left = if own { left.min(owned) } else { left };
            left.saturating_add(self.charged(attempt, fr))
        };
        let classes = self.payers.iter().map(|ask| ask.class);
        let purse = Purse::with(state, self.queue, classes, most);
        money::trial(txn, &self.payers, self.need.topology, &purse).map(drop)
    }

    /// What is charged of an amount before anybody is placed.
    fn charged(&self, attempt: Attempt, fr: FrIdx) -> i64 {
        let asked = self.need.usage.iter().find(|(known, _)| *known == fr);
        let asked = asked.filter(|_| attempt == Attempt::Sharing);
        asked.map_or(0, |(_, amount)| *amount)
    }

    /// Whether it takes back from other queues, because it owns the least that it could cost, and
    /// would borrow what it costs.
    pub(super) fn overreaches(
        &self,
        txn: &mut Txn<'_>,
        attempt: Attempt,
        removed: &Removed<'_>,
    ) -> bool {
        let elsewhere = |candidate: &Candidate| candidate.kind.elsewhere();
        if self.payers.is_empty() || !removed.taken.iter().any(|it| elsewhere(it.candidate)) {
            return false;
        }
        let quota = &txn.state().quota;
        let node = self.queue.and_then(|queue| quota.queue(queue).node);
        let node = node.expect("who pays has a queue");
        let borrows = |&(fr, least): &(FrIdx, i64)| {
            let more = least.saturating_sub(self.charged(attempt, fr));
            quota.is_money(fr) && quota.tree.borrows(node, fr, more)
        };
        !self.need.usage.iter().any(borrows) && self.pays(txn, attempt, true).is_err()
    }

    /// Nodes hold all, and there they cost more than was taken for the least that they could.
    pub(super) fn free_money<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        removed: &mut Removed<'c>,
    ) -> bool {
        !self.payers.is_empty()
            && self.take_for_quota(txn, list, attempt, removed)
            && self.room_fits(txn, attempt)
    }
}
