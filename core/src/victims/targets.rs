//! From which queue the next victim comes while fair sharing is on.
//!
//! From the root down, the child with the largest share is entered (before others one that has
//! spent a soft budget, or has such a queue below it): a queue, or a cohort in which
//! the search goes on. Left out for good is who has no candidates any more, and who borrows
//! nothing; but not the preemptor's queue and the cohorts around it, where its own work may leave,
//! and where siblings may be out of balance though the cohort itself is not. Equal shares: a cohort
//! before a queue, then where the first candidate comes first (spec/quota.md 9.4).
//!
//! Shares are reckoned once and kept until something is taken below. Cost of a choice: the children
//! with candidates on the way down.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::ids::QuotaIdx;
use crate::model::state::ClusterState;
use crate::quota::share::Share;
use crate::victims::candidates::{self, Candidate};

/// Candidates by queue, and who of the tree is still asked.
pub(super) struct Targets<'c> {
    root: QuotaIdx,
    /// The preemptor's queue, and the cohorts around it.
    own: Vec<QuotaIdx>,
    /// By queue: its candidates in order, each with its position among all.
    waiting: BTreeMap<QuotaIdx, VecDeque<(usize, &'c Candidate)>>,
    /// By cohort: children that are still asked.
    below: BTreeMap<QuotaIdx, Vec<QuotaIdx>>,
    shares: BTreeMap<QuotaIdx, Share>,
}

impl<'c> Targets<'c> {
    /// Of a preemptor in the queue at `own`. Candidates that hold no quota are left out.
    pub(super) fn new(
        state: &ClusterState,
        own: QuotaIdx,
        candidates: impl Iterator<Item = &'c Candidate>,
    ) -> Targets<'c> {
        let tree = &state.quota.tree;
        let mut targets = Targets {
            root: tree.root(own),
            own: std::iter::successors(Some(own), |node| tree.parent(*node)).collect(),
            waiting: BTreeMap::new(),
            below: BTreeMap::new(),
            shares: BTreeMap::new(),
        };
        for entry @ (_, candidate) in candidates.enumerate() {
            let Some(queue) = candidates::node_of(state, candidate.workload) else { continue };
            targets.waiting.entry(queue).or_default().push_back(entry);
        }
        let mut linked = BTreeSet::new();
        for &queue in targets.waiting.keys() {
            let mut node = queue;
            while let Some(parent) = tree.parent(node).filter(|_| linked.insert(node)) {
                targets.below.entry(parent).or_default().push(node);
                node = parent;
            }
        }
        targets
    }

    /// The queue that is asked next; it has a candidate.
    pub(super) fn next(&mut self, state: &ClusterState) -> Option<QuotaIdx> {
        let mut at = self.root;
        loop {
            let children = self.below.get(&at).cloned().unwrap_or_default();
            let asked: Vec<QuotaIdx> =
                children.into_iter().filter(|child| self.is_asked(state, *child)).collect();
            let mut best = None;
            for &child in &asked {
                let cohort = !self.waiting.contains_key(&child);
                let rank = (self.overspends(state, child), self.shares[&child], cohort);
                let better = match best {
                    Some((most, _)) if rank != most => rank > most,
                    Some((_, other)) => self.first(state, child) < self.first(state, other),
                    None => true,
                };
                if better {
                    best = Some((rank, child));
                }
            }
            let best = best.map(|(_, child)| child);
            self.below.insert(at, asked);
            match best {
                Some(queue) if self.waiting.contains_key(&queue) => return Some(queue),
                Some(cohort) => at = cohort,
                None if at == self.root => return None,
                // All of its children are left out: so is the cohort.
                None => at = self.root,
            }
        }
    }

    /// Takes the next candidate of a queue, with its position among all.
    pub(super) fn pop(&mut self, queue: QuotaIdx) -> Option<(usize, &'c Candidate)> {
        self.waiting.get_mut(&queue)?.pop_front()
    }

    /// Asks a queue no more.
    pub(super) fn drop_queue(&mut self, queue: QuotaIdx) {
        self.waiting.insert(queue, VecDeque::new());
    }

    /// Something of a queue was taken.
    pub(super) fn changed(&mut self, state: &ClusterState, queue: QuotaIdx) {
        let tree = &state.quota.tree;
        for node in std::iter::successors(Some(queue), |node| tree.parent(*node)) {
            self.shares.remove(&node);
        }
    }

    /// Whether there may be candidates at or below a node; its share is known then.
    fn is_asked(&mut self, state: &ClusterState, node: QuotaIdx) -> bool {
        let some = match self.waiting.get(&node) {
            Some(candidates) => !candidates.is_empty(),
            None => !self.below.get(&node).is_none_or(Vec::is_empty),
        };
        if !some {
            return false;
        }
        let share = *self.shares.entry(node).or_insert_with(|| state.quota.share(node));
        share.borrows() || self.own.contains(&node)
    }

    /// Whether a queue at or below a node that has candidates has spent a soft budget.
    fn overspends(&self, state: &ClusterState, node: QuotaIdx) -> bool {
        if state.spending.is_empty() {
            return false;
        }
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            match self.waiting.get(&node) {
                Some(candidates) => {
                    let other = !candidates.is_empty() && self.own.first() != Some(&node);
                    let queue = state.quota.queue_at(node).filter(|_| other);
                    if queue.is_some_and(|queue| state.spending.goes_first(queue)) {
                        return true;
                    }
                }
                None => open.extend(self.below.get(&node).into_iter().flatten()),
            }
        }
        false
    }

    /// Position of the first candidate at or below a node, of those who are still asked.
    fn first(&mut self, state: &ClusterState, node: QuotaIdx) -> usize {
        if !self.is_asked(state, node) {
            return usize::MAX;
        }
        if let Some(candidates) = self.waiting.get(&node) {
            return candidates.front().map_or(usize::MAX, |(at, _)| *at);
        }
        let below = self.below.get(&node).cloned().unwrap_or_default();
        let firsts = below.into_iter().map(|child| self.first(state, child));
        firsts.min().unwrap_or(usize::MAX)
    }
}
