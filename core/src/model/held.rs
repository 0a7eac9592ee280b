//! Quota that heads keep back from others of a round.
//!
//! Decides how much a head keeps of what it asks: what its queue owns of it and does not use, or
//! where it borrows, all that it may have. It counts as used by the queue while it is held.
//!
//! Restart: nothing is kept, the next round finds it again. Cost: a change of the tree for each
//! amount.

use crate::model::ids::{FrIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;

/// Quota that is kept back for somebody within a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its queue.
    pub queue: QueueIdx,
    /// Flavor and resource.
    pub fr: FrIdx,
    /// How much.
    pub amount: i64,
    /// Who keeps it.
    pub by: WorkloadIdx,
    /// How much that asks.
    pub asked: i64,
    /// How far the queue would borrow for it.
    pub borrowing: u32,
}

impl ClusterState {
    /// Keeps quota back within a round.
    pub fn hold(&mut self, held: Held) {
        self.quota.change(held.queue, held.fr, held.amount);
        self.held.push(held);
    }

    /// What a head keeps back that asks so much, by what its queue uses as things are: where it
    /// borrows all that it may, and else what the queue owns.
    pub fn keeps(&self, queue: QueueIdx, fr: FrIdx, (asked, borrowing): (i64, u32)) -> i64 {
        let tree = &self.quota.tree;
        let node = self.quota.queue(queue).node.expect("only existing queues have heads");
        let left = |most: i64| asked.min(most.saturating_sub(tree.usage(node, fr))).max(0);
        let nominal = tree.nominal(node, fr);
        match (borrowing, tree.borrowing_limit(node, fr)) {
            (0, _) => left(nominal),
            (_, None) => asked,
            (_, Some(limit)) => left(nominal.saturating_add(limit)),
        }
    }

    /// Keeps back what a head would that kept something back before, by what is used now.
    pub fn hold_anew(&mut self, held: Held) {
        let amount = self.keeps(held.queue, held.fr, (held.asked, held.borrowing));
        self.hold(Held { amount, ..held });
    }

    /// Frees all that is kept back, and returns it.
    pub fn let_go(&mut self) -> Vec<Held> {
        let held = std::mem::take(&mut self.held);
        for held in &held {
            self.quota.change(held.queue, held.fr, -held.amount);
        }
        held
    }

    /// Keeps this back in the stead of all that is, which it returns for [`Self::hold_again`].
    #[must_use]
    pub fn hold_instead(&mut self, others: impl IntoIterator<Item = Held>) -> Vec<Held> {
        let held = self.let_go();
        others.into_iter().for_each(|other| self.hold(other));
        held
    }

    /// Keeps back what was before, in the stead of all that is.
    pub fn hold_again(&mut self, before: Vec<Held>) {
        self.let_go();
        before.into_iter().for_each(|held| self.hold(held));
    }
}
