//! Limits that people could raise: what a queue or a cohort may borrow, and what others lend.
//!
//! Tried, flavor by flavor, where such a limit is what binds: a borrowing limit on the way to the
//! root that leaves least, or lending limits of those who have unused quota that they keep for
//! themselves. Of the latter one is raised at a time, who keeps most first. Where others would
//! leave for it, the least that does is offered.

use std::cmp::Reverse;

use crate::engine::Engine;
use crate::engine::binding::Short;
use crate::engine::remedies::changes::Left;
use crate::engine::remedies::least::least;
use crate::explain::view::{Change, Limit, Remedy};
use crate::model::ids::{QuotaIdx, WorkloadIdx};
use crate::quota::tree::QuotaTree;
use crate::time::Time;

/// Flavors whose limits are tried to be raised: queues rarely list more for one kind of node.
const FLAVORS_MAX: usize = 4;

/// Who keeps quota for itself and is asked to lend: those who keep most.
const LENDERS_MAX: usize = 4;
/// Raises tried of one borrowing limit: beyond it another one may bind.
const RAISES_MAX: usize = 2;

impl Engine {
    /// The limits that would start it, raised by exactly as much as is missing: of each flavor the
    /// one that binds there.
    pub(super) fn higher_limits(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let Some(reason) = self.nominate_afresh(index).choice.reason else { return Vec::new() };
        let shorts = self.shorts_of(&reason);
        let raise = |short: &Short| {
            let bound = self.bound_of(short)?;
            match bound.borrowing {
                true => self.borrow_more(now, index, short, bound.node),
                false => self.lend_more(now, index, short, bound.node),
            }
        };
        shorts.iter().take(FLAVORS_MAX).filter_map(raise).collect()
    }

    /// As much as could never be had, where others may be preempted for the rest; else all.
    fn borrow_more(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        short: &Short,
        at: QuotaIdx,
    ) -> Option<Remedy> {
        let queue = self.state.quota.queue(short.queue).node?;
        let until: [Left; 2] = [QuotaTree::potential, QuotaTree::left];
        until.into_iter().find_map(|left| {
            let tree = &self.state.quota.tree;
            let mut by = 0_i64;
            for _ in 0..RAISES_MAX {
                let raised = tree.borrowing_more(at, short.fr, by);
                let lacks = short.asked.saturating_sub(left(&raised, queue, short.fr));
                by = by.saturating_add(lacks.max(0));
            }
            self.raise_limit(now, index, short, (at, Limit::Borrowing, by))
        })
    }

    /// A limit raised by so much; where somebody leaves for it then, by the least that does.
    fn raise_limit(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        short: &Short,
        (at, limit, by): (QuotaIdx, Limit, i64),
    ) -> Option<Remedy> {
        if by <= 0 {
            return None;
        }
        let tree = self.state.quota.tree.clone();
        let mut tried = |engine: &mut Engine, by: i64| {
            let raised = match limit {
                Limit::Lending => tree.lending_more(at, short.fr, by),
                _ => tree.borrowing_more(at, short.fr, by),
            };
            engine.state.quota.replace_tree(raised);
            engine.start(now, index)
        };
        let found = tried(self, by).map(|start| {
            let units = self.units_of(short.fr, short.asked);
            let fewer = match start.victims.is_empty() {
                true => None,
                false => least(self, (0, by), units, &mut tried),
            };
            fewer.unwrap_or((by, start))
        });
        self.state.quota.replace_tree(tree);
        let (by, start) = found?;
        Some(start.by(self.raised(at, limit, short, by)?))
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
            let found = self.raise_limit(now, index, short, (node, Limit::Lending, by));
            if found.is_some() {
                return found;
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
