//! Queues that begin to borrow.
//!
//! Problem: who holds more than its own may be reclaimed from, all its work included, not only what
//! came last. Work that was refused because nobody was there to preempt (it lacks quota, or room on
//! nodes) must be looked at again when a queue, or a cohort around it, crosses its own quota; so
//! must what a gang that runs lacks.
//!
//! Who borrowed before and borrows more may have more taken back, his older work, too: what was too
//! little may be enough. While fair sharing is on, work may also be let in because somebody else's
//! share rose, be it that he borrowed before, or that only a cohort around him borrows. The trees
//! where that happened are looked at once more, when nothing else is left to decide: one look for
//! all that gained. Without shares that is a look at the first [`WOKEN_MAX`] groups that own what
//! they ask, or may take back while they borrow, and whose queues may take back from others.
//!
//! Kept: for each node of the quota tree the flavors and resources that it is known to borrow.
//! Growth adds to it and wakes, frees take away from it, and a tree that is built anew begins with
//! none; to know too few wakes once too often, which costs a look and harms nothing. Nothing
//! survives a restart: then all work is looked at.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::model::ids::{FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::quota::build::QuotaState;

/// Groups that are looked at again because somebody borrows more, in the order of queues: to look
/// at thousands for each job that starts would leave no time for those who are new.
const WOKEN_MAX: usize = 64;

/// Nodes of the quota tree that borrow, with what.
#[derive(Debug, Default)]
pub(super) struct Crossings {
    known: BTreeSet<(QuotaIdx, FrIdx)>,
    /// Roots of trees in which somebody borrows more than before.
    risen: BTreeSet<QuotaIdx>,
    /// Roots of trees in which somebody uses more than before (`waiting/out_of_quota.rs`).
    pub(super) gained: BTreeSet<QuotaIdx>,
}

impl Engine {
    /// These queues hold more than before: wakes who may reclaim from those that borrow now.
    pub(crate) fn note_gains(&mut self, gained: &BTreeSet<QueueIdx>) {
        let mut crossed = BTreeSet::new();
        let quota = &self.state.quota;
        let roots = gained.iter().filter_map(|queue| quota.root(*queue));
        self.crossings.gained.extend(roots);
        for (node, fr) in gained.iter().flat_map(|queue| cells_around(quota, *queue)) {
            if quota.tree.borrows(node, fr, 0) && self.crossings.known.insert((node, fr)) {
                crossed.insert(quota.tree.root(node));
            }
        }
        self.note_rises(gained);
        if crossed.is_empty() {
            return;
        }
        let quota = &self.state.quota;
        let in_tree = |queue: Option<QueueIdx>| {
            queue.and_then(|queue| quota.root(queue)).is_some_and(|root| crossed.contains(&root))
        };
        self.waiting.wake(in_tree, |wake| wake.room);
        self.grow_in(&crossed, |_, _| true);
    }

    /// Work in these queues may be stopped by shares from now on: wakes whom that may help.
    pub(super) fn note_exposed(&mut self, queues: &BTreeSet<QueueIdx>) {
        let quota = &self.state.quota;
        let roots: BTreeSet<QuotaIdx> = queues.iter().filter_map(|it| quota.root(*it)).collect();
        if roots.is_empty() {
            return;
        }
        let in_tree = |queue: Option<QueueIdx>| {
            queue.and_then(|queue| quota.root(queue)).is_some_and(|root| roots.contains(&root))
        };
        self.waiting.wake(in_tree, |wake| wake.quota || wake.room);
        self.grow_in(&roots, |_, _| true);
    }

    /// Some of the gangs that run and lack members in these trees are looked at again; whether
    /// there are any.
    fn grow_in(
        &mut self,
        roots: &BTreeSet<QuotaIdx>,
        some: impl Fn(&ClusterState, &WorkloadIdx) -> bool,
    ) -> bool {
        let (workloads, quota) = (&self.state.workloads, &self.state.quota);
        let concerned = |workload: &WorkloadIdx| {
            let held = workloads[*workload].assignment.as_ref();
            let root = held.and_then(|held| quota.root(held.queue?));
            root.is_some_and(|root| roots.contains(&root)) && some(&self.state, workload)
        };
        let known = self.growth.len();
        self.growth.extend(self.growth_parked.extract_if(.., concerned));
        self.growth.len() > known
    }

    fn note_rises(&mut self, gained: &BTreeSet<QueueIdx>) {
        let (quota, tree) = (&self.state.quota, &self.state.quota.tree);
        let nodes = gained.iter().filter_map(|queue| quota.queue(*queue).node);
        // What a queue owns may be what its cohort borrows; from a root nobody lends.
        let borrows = |node: QuotaIdx| {
            let mut up = std::iter::successors(Some(node), |node| tree.parent(*node));
            up.any(|node| tree.parent(node).is_some() && tree.borrowed(node).next().is_some())
        };
        let risen = nodes.filter(|node| borrows(*node)).map(|node| tree.root(node));
        self.crossings.risen.extend(risen);
    }

    /// Whether somebody is to be looked at again because others borrow more.
    pub(crate) fn wake_by_borrowers(&mut self) -> bool {
        let risen = std::mem::take(&mut self.crossings.risen);
        if risen.is_empty() {
            return false;
        }
        if !self.state.quota.shares_fairly() {
            let mut might = self.might_take_back(&risen);
            self.state.in_queue_order(&mut might);
            might.truncate(WOKEN_MAX);
            might.iter().for_each(|first| self.waiting.wake_group_of(*first));
            // Members that a gang can do without stop nobody.
            return self.grow_in(&risen, |state, gang| state.in_part.contains_key(gang))
                || !might.is_empty();
        }
        let quota = &self.state.quota;
        let in_tree = |queue: Option<QueueIdx>| {
            queue.and_then(|queue| quota.root(queue)).is_some_and(|root| risen.contains(&root))
        };
        // Heads of strict queues are never parked.
        let head = |queue: Option<QueueIdx>| self.waiting.head(queue).is_some();
        let stands = self.waiting.active().any(|queue| in_tree(Some(queue)) && head(Some(queue)));
        let woken = self.waiting.wake_quota(in_tree);
        self.grow_in(&risen, |_, _| true) || woken || stands
    }

    /// These queues hold less than before.
    pub(super) fn note_frees(&mut self, freed: &BTreeSet<QueueIdx>) {
        let quota = &self.state.quota;
        for (node, fr) in freed.iter().flat_map(|queue| cells_around(quota, *queue)) {
            if !quota.tree.borrows(node, fr, 0) {
                self.crossings.known.remove(&(node, fr));
            }
        }
    }

    /// The quota tree was built anew.
    pub(super) fn forget_crossings(&mut self) {
        self.crossings.known.clear();
        self.crossings.risen.clear();
        self.crossings.gained.clear();
    }
}

/// Everything that a queue and the cohorts around it have numbers for.
fn cells_around(
    quota: &QuotaState,
    queue: QueueIdx,
) -> impl Iterator<Item = (QuotaIdx, FrIdx)> + '_ {
    let (own, tree) = (quota.queue(queue).node, &quota.tree);
    let path = std::iter::successors(own, move |node| tree.parent(*node));
    path.flat_map(move |node| tree.covered(node).map(move |fr| (node, fr)))
}
