//! Limits that people could raise: what a queue or a cohort may borrow, and what others lend.
//!
//! Tried where such a limit is what binds: a borrowing limit on the way to the root that leaves
//! least, or lending limits of those who have unused quota that they keep for themselves. Of the
//! latter one is raised at a time, who keeps most first.

use std::cmp::Reverse;

use crate::engine::Engine;
use crate::engine::binding::Short;
use crate::explain::view::{Change, Limit, Remedy};
use crate::model::ids::{QuotaIdx, WorkloadIdx};
use crate::time::Time;

/// Who keeps quota for itself and is asked to lend: those who keep most.
const LENDERS_MAX: usize = 4;
/// Raises tried of one borrowing limit: beyond it another one may bind.
const RAISES_MAX: usize = 2;

impl Engine {
    /// The limits that would start it, raised by exactly as much as is missing.
    pub(super) fn higher_limits(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let Some(reason) = self.nominate_afresh(index).choice.reason else { return Vec::new() };
        let Some(short) = self.short_of(&reason) else { return Vec::new() };
        let Some(bound) = self.bound_of(&short) else { return Vec::new() };
        match bound.borrowing {
            true => self.borrow_more(now, index, &short, bound.node).into_iter().collect(),
            false => self.lend_more(now, index, &short, bound.node).into_iter().collect(),
        }
    }

    fn borrow_more(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        short: &Short,
        at: QuotaIdx,
    ) -> Option<Remedy> {
        let queue = self.state.quota.queue(short.queue).node?;
        let tree = self.state.quota.tree.clone();
        let mut by = 0_i64;
        for _ in 0..RAISES_MAX {
            let quota = &mut self.state.quota;
            let left = match short.ever {
                true => quota.tree.potential(queue, short.fr),
                false => quota.tree.left(queue, short.fr),
            };
            by = by.saturating_add(short.asked.saturating_sub(left).max(0));
            quota.replace_tree(tree.borrowing_more(at, short.fr, by));
        }
        let start = self.start(now, index);
        self.state.quota.replace_tree(tree);
        let change = self.raised(at, Limit::Borrowing, short, by)?;
        start.map(|start| start.by(change))
    }

    /// Others keep quota that they do not use.
    fn lend_more(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        short: &Short,
        root: QuotaIdx,
    ) -> Option<Remedy> {
        let queue = self.state.quota.queue(short.queue).node?;
        let tree = self.state.quota.tree.clone();
        let left = match short.ever {
            true => tree.potential(queue, short.fr),
            false => tree.left(queue, short.fr),
        };
        let by = short.asked.saturating_sub(left);
        let nodes = (0..tree.len()).map(|at| QuotaIdx(at as u32));
        let keeps = nodes.filter(|node| *node != queue && tree.root(*node) == root);
        let mut keeps: Vec<(Reverse<i64>, QuotaIdx)> = keeps
            .filter(|node| tree.lending_limit(*node, short.fr).is_some())
            .map(|node| (Reverse(tree.local_available(node, short.fr)), node))
            .filter(|(Reverse(kept), _)| *kept >= by && by > 0)
            .collect();
        let named = |node: QuotaIdx| self.state.quota.name_of(node).map(|(name, _)| name.clone());
        keeps.sort_by_cached_key(|(kept, node)| (*kept, named(*node)));
        for (_, node) in keeps.into_iter().take(LENDERS_MAX) {
            self.state.quota.replace_tree(tree.lending_more(node, short.fr, by));
            let start = self.start(now, index);
            self.state.quota.replace_tree(tree.clone());
            let change = self.raised(node, Limit::Lending, short, by);
            if let Some((start, change)) = start.zip(change) {
                return Some(start.by(change));
            }
        }
        None
    }

    fn raised(&self, node: QuotaIdx, limit: Limit, short: &Short, by: i64) -> Option<Change> {
        let (flavor, resource) = self.state.quota.fr(short.fr);
        let change = Change::RaiseLimit {
            holder: self.holder(node)?,
            limit,
            flavor: self.state.quota.flavor_name(flavor).clone(),
            resource: self.state.room.resources.name(resource).clone(),
            by,
        };
        (by > 0).then_some(change)
    }
}
