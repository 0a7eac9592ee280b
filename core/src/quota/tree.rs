//! Quota arithmetic in hierarchical cohorts (Kueue's, per flavor and resource).
//!
//! Nodes are ClusterQueues (leaves) and cohorts. `subtree` is what a node and all below it own;
//! `local` is the part that it never lends; `usage` of a cohort is what its children use beyond
//! their local part. Availability walks to the root. Usage changes by [`QuotaTree::charge`] and
//! its exact inverse; [`QuotaTree::recount`] recomputes everything from the leaves. Amounts are
//! 128 bits inside so that no sum of 64-bit amounts can overflow.

use crate::model::ids::{FrIdx, QuotaIdx};
use crate::model::input::Quota;

mod edited;

/// The tree of ClusterQueues and cohorts.
#[derive(Clone, Debug, Default)]
pub struct QuotaTree {
    nodes: Vec<QuotaNode>,
    /// Of how many flavors and resources each node uses more than its subtree owns: searches for
    /// victims pass over most nodes, and look at nothing else of them.
    borrows_of: Vec<u32>,
}

#[derive(Clone, Debug)]
struct QuotaNode {
    parent: Option<QuotaIdx>,
    root: QuotaIdx,
    /// 0 for a queue; a cohort stands one above its highest child.
    height: u32,
    children: Vec<QuotaIdx>,
    cells: Vec<(FrIdx, Cell)>,
}

/// Numbers of one node for one flavor and resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    nominal: i128,
    borrowing: Option<i128>,
    lending: Option<i128>,
    subtree: i128,
    usage: i128,
}

impl Cell {
    fn local(self) -> i128 {
        self.lending.map_or(0, |lending| (self.subtree - lending).max(0))
    }

    fn local_available(self) -> i128 {
        (self.local() - self.usage).max(0)
    }

    fn borrows(self) -> bool {
        self.usage > self.subtree
    }
}

impl QuotaNode {
    fn borrows_of(&self) -> u32 {
        self.cells.iter().filter(|(_, cell)| cell.borrows()).count() as u32
    }
}

fn clamp(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount > 0 { i64::MAX } else { i64::MIN })
}

impl QuotaTree {
    /// Adds a node. Parents come before children; quotas need not be sorted.
    pub fn add(&mut self, parent: Option<QuotaIdx>, quotas: &[(FrIdx, Quota)]) -> QuotaIdx {
        let index = QuotaIdx(self.nodes.len() as u32);
        let root = parent.map_or(index, |parent| self.nodes[parent.at()].root);
        if let Some(parent) = parent {
            assert!(parent < index, "parents come first");
            self.nodes[parent.at()].children.push(index);
        }
        let mut node =
            QuotaNode { parent, root, height: 0, children: Vec::new(), cells: Vec::new() };
        for (fr, quota) in quotas {
            let cell = cell_of(&mut node.cells, *fr);
            cell.nominal = quota.nominal.into();
            cell.borrowing = quota.borrowing.map(i128::from);
            cell.lending = quota.lending.map(i128::from);
        }
        self.nodes.push(node);
        self.borrows_of.push(0);
        index
    }

    /// Computes heights and subtree quotas once all nodes are there.
    pub fn finish(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            for (_, cell) in &mut self.nodes[at].cells {
                cell.subtree += cell.nominal;
            }
            let node = self.nodes[at].clone();
            let Some(parent) = node.parent else { continue };
            let above = &mut self.nodes[parent.at()];
            above.height = above.height.max(node.height + 1);
            for (fr, cell) in &node.cells {
                cell_of(&mut above.cells, *fr).subtree += cell.subtree - cell.local();
            }
        }
    }

    fn cell(&self, node: QuotaIdx, fr: FrIdx) -> Cell {
        let cells = &self.nodes[node.at()].cells;
        match cells.binary_search_by_key(&fr, |entry| entry.0) {
            Ok(at) => cells[at].1,
            Err(_) => Cell::default(),
        }
    }

    /// Adds usage at a queue; negative amounts are [`QuotaTree::discharge`]'s.
    pub fn charge(&mut self, queue: QuotaIdx, fr: FrIdx, amount: i64) {
        let (mut at, mut left) = (Some(queue), i128::from(amount));
        while let Some(node) = at {
            let entry = &mut self.nodes[node.at()];
            let cell = cell_of(&mut entry.cells, fr);
            let beyond = left - cell.local_available();
            let borrowed = cell.borrows();
            cell.usage += left;
            self.borrows_of[node.at()] += u32::from(cell.borrows() && !borrowed);
            if beyond <= 0 {
                return;
            }
            left = beyond;
            at = entry.parent;
        }
    }

    /// Takes usage away at a queue: the exact inverse of [`QuotaTree::charge`].
    pub fn discharge(&mut self, queue: QuotaIdx, fr: FrIdx, amount: i64) {
        let (mut at, mut left) = (Some(queue), i128::from(amount));
        while let Some(node) = at {
            let entry = &mut self.nodes[node.at()];
            let cell = cell_of(&mut entry.cells, fr);
            let stored_above = cell.usage - cell.local();
            let borrowed = cell.borrows();
            cell.usage -= left;
            self.borrows_of[node.at()] -= u32::from(borrowed && !cell.borrows());
            if stored_above <= 0 {
                return;
            }
            left = left.min(stored_above);
            at = entry.parent;
        }
    }

    /// What a node leaves of what the one above it has room for, up to the root: each node adds
    /// something to that, and bounds it (`step`); the root says what it has. Sums of such steps
    /// are a sum and a bound again, so that a tree of any depth takes one walk.
    fn climb(
        &self,
        node: QuotaIdx,
        fr: FrIdx,
        step: impl Fn(Cell) -> (i128, Option<i128>),
        root: impl Fn(Cell) -> i128,
    ) -> i128 {
        let (mut at, mut sum, mut bound) = (node, 0, i128::MAX);
        loop {
            let cell = self.cell(at, fr);
            let Some(parent) = self.nodes[at.at()].parent else {
                return bound.min(sum + root(cell));
            };
            let (adds, most) = step(cell);
            bound = most.map_or(bound, |most| bound.min(sum + most));
            sum += adds;
            at = parent;
        }
    }

    fn room(&self, node: QuotaIdx, fr: FrIdx) -> i128 {
        let step = |cell: Cell| {
            let (local, free) = (cell.local(), cell.local_available());
            let lent_out = cell.subtree - local - (cell.usage - local).max(0);
            (free, cell.borrowing.map(|borrowing| free + lent_out + borrowing))
        };
        self.climb(node, fr, step, |root| root.subtree - root.usage)
    }

    /// What a queue could still use now; never below zero.
    pub fn available(&self, queue: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.room(queue, fr).max(0))
    }

    /// The same, below zero by as much as is used beyond what the rules leave it.
    pub fn left(&self, queue: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.room(queue, fr))
    }

    /// Whether a queue uses more than the rules leave it: its availability is below zero.
    pub fn overdrawn(&self, queue: QuotaIdx, fr: FrIdx) -> bool {
        self.room(queue, fr) < 0
    }

    fn most(&self, node: QuotaIdx, fr: FrIdx) -> i128 {
        let step =
            |cell: Cell| (cell.local(), cell.borrowing.map(|borrowing| cell.subtree + borrowing));
        self.climb(node, fr, step, |root| root.subtree)
    }

    /// The most that a node could ever use, given the most that the one above it could.
    pub(super) fn reach(&self, node: QuotaIdx, fr: FrIdx, above: Option<i128>) -> i128 {
        let cell = self.cell(node, fr);
        let Some(above) = above else { return cell.subtree };
        let bound = cell.borrowing.map_or(i128::MAX, |borrowing| cell.subtree + borrowing);
        bound.min(cell.local() + above)
    }

    /// What a node uses beyond its subtree quota, of each flavor and resource of which it does.
    pub fn borrowed(&self, node: QuotaIdx) -> impl Iterator<Item = (FrIdx, i128)> + '_ {
        self.borrowed_with(node, &[])
    }

    /// The same as if it used so much more.
    pub fn borrowed_with<'a>(
        &'a self,
        node: QuotaIdx,
        more: &'a [(FrIdx, i64)],
    ) -> impl Iterator<Item = (FrIdx, i128)> + 'a {
        let more = |fr: FrIdx| {
            let of_it = more.iter().filter(move |(of, _)| *of == fr);
            of_it.map(|(_, amount)| i128::from(*amount)).sum::<i128>()
        };
        let cells = self.nodes[node.at()].cells.iter();
        let beyond = cells.map(move |(fr, cell)| (*fr, cell.usage + more(*fr) - cell.subtree));
        beyond.filter(|(_, amount)| *amount > 0)
    }

    /// The most that a queue could ever use, everybody else idle.
    pub fn potential(&self, queue: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.most(queue, fr))
    }

    /// Own quota of a node.
    pub fn nominal(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.cell(node, fr).nominal)
    }

    /// Own quota of a node and of all that is below it, as far as that lends.
    pub fn owned(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.cell(node, fr).subtree)
    }

    /// What of that it lends to nobody: for itself and what is below it alone.
    pub fn unlent(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.cell(node, fr).local())
    }

    /// Borrowing limit of a node.
    pub fn borrowing_limit(&self, node: QuotaIdx, fr: FrIdx) -> Option<i64> {
        self.cell(node, fr).borrowing.map(clamp)
    }

    /// Lending limit of a node.
    pub fn lending_limit(&self, node: QuotaIdx, fr: FrIdx) -> Option<i64> {
        self.cell(node, fr).lending.map(clamp)
    }

    /// Usage of a node, claims and holds included.
    pub fn usage(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.cell(node, fr).usage)
    }

    /// What a node uses beyond its subtree quota; below zero: what it leaves of that.
    pub(super) fn beyond(&self, node: QuotaIdx, fr: FrIdx) -> i128 {
        let cell = self.cell(node, fr);
        cell.usage - cell.subtree
    }

    /// Subtree quota that a node would lend and that nobody uses.
    pub(super) fn spare(&self, node: QuotaIdx, fr: FrIdx) -> i128 {
        let cell = self.cell(node, fr);
        (cell.subtree - cell.usage).min(cell.subtree - cell.local()).max(0)
    }

    /// Own quota of a queue that it does not use.
    pub fn unused(&self, queue: QuotaIdx, fr: FrIdx) -> i64 {
        let cell = self.cell(queue, fr);
        clamp((cell.nominal - cell.usage).max(0))
    }

    /// By how much the whole tree of a queue is over-committed; zero when it is not.
    pub fn debt(&self, queue: QuotaIdx, fr: FrIdx) -> i64 {
        let cell = self.cell(self.root(queue), fr);
        clamp((cell.usage - cell.subtree).max(0))
    }

    /// Whether a node uses more than its subtree owns, of anything.
    pub fn borrows_any(&self, node: QuotaIdx) -> bool {
        self.borrows_of[node.at()] > 0
    }

    /// Whether a node uses (or with `extra` would use) more than its subtree owns.
    pub fn borrows(&self, node: QuotaIdx, fr: FrIdx, extra: i64) -> bool {
        let cell = self.cell(node, fr);
        cell.usage + i128::from(extra) > cell.subtree
    }

    /// Height of the lowest subtree around a queue that holds `amount` on top of its usage, and
    /// whether that subtree is not the whole tree (so that its quota could be reclaimed).
    pub fn borrow_height(&self, queue: QuotaIdx, fr: FrIdx, amount: i64) -> (u32, bool) {
        let parent = self.nodes[queue.at()].parent;
        if !self.borrows(queue, fr, amount) || parent.is_none() {
            return (0, parent.is_some());
        }
        let mut left = i128::from(amount) - self.cell(queue, fr).local_available();
        let mut at = parent;
        let mut height = 0;
        while let Some(node) = at {
            let cell = self.cell(node, fr);
            let entry = &self.nodes[node.at()];
            height = entry.height;
            if cell.usage + left <= cell.subtree {
                return (height, entry.parent.is_some());
            }
            left -= cell.local_available();
            at = entry.parent;
        }
        (height, false)
    }

    /// Whether `left` more fits into a cohort's own subtree, and what then remains for the one
    /// above it.
    pub fn fits_subtree(&self, node: QuotaIdx, fr: FrIdx, left: i64) -> (bool, i64) {
        let cell = self.cell(node, fr);
        let fits = cell.usage + i128::from(left) <= cell.subtree;
        (fits, clamp((i128::from(left) - cell.local_available()).max(0)))
    }

    /// What a node uses beyond its subtree quota can pass through unused local quota.
    pub fn local_available(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        clamp(self.cell(node, fr).local_available())
    }

    /// Parent cohort.
    pub fn parent(&self, node: QuotaIdx) -> Option<QuotaIdx> {
        self.nodes[node.at()].parent
    }

    /// How far a node stands above queues: 0 for a queue.
    pub fn height(&self, node: QuotaIdx) -> u32 {
        self.nodes[node.at()].height
    }

    /// Root of the tree that a node is in.
    pub fn root(&self, node: QuotaIdx) -> QuotaIdx {
        self.nodes[node.at()].root
    }

    /// Nodes directly below.
    pub fn children(&self, node: QuotaIdx) -> &[QuotaIdx] {
        &self.nodes[node.at()].children
    }

    /// Flavors and resources that a node has numbers for.
    pub fn covered(&self, node: QuotaIdx) -> impl Iterator<Item = FrIdx> + '_ {
        self.nodes[node.at()].cells.iter().map(|(fr, _)| *fr)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Compares usage everywhere with the charges of queues, added up from scratch.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, charges: impl Iterator<Item = (QuotaIdx, FrIdx, i64)>) {
        let mut fresh = self.clone();
        for node in &mut fresh.nodes {
            node.cells.iter_mut().for_each(|(_, cell)| cell.usage = 0);
        }
        for (queue, fr, amount) in charges {
            cell_of(&mut fresh.nodes[queue.at()].cells, fr).usage += i128::from(amount);
        }
        for at in (0..fresh.nodes.len()).rev() {
            let Some(parent) = fresh.nodes[at].parent else { continue };
            for (fr, cell) in fresh.nodes[at].cells.clone() {
                let beyond = (cell.usage - cell.local()).max(0);
                cell_of(&mut fresh.nodes[parent.at()].cells, fr).usage += beyond;
            }
        }
        for (at, (kept, counted)) in self.nodes.iter().zip(&fresh.nodes).enumerate() {
            for (fr, cell) in &counted.cells {
                let kept = self.cell(QuotaIdx(at as u32), *fr);
                assert_eq!(kept.usage, cell.usage, "usage of quota node {at}, {fr:?}");
            }
            assert!(kept.cells.len() <= counted.cells.len(), "cells of quota node {at}");
            assert_eq!(self.borrows_of[at], kept.borrows_of(), "what quota node {at} borrows");
        }
    }
}

fn cell_of(cells: &mut Vec<(FrIdx, Cell)>, fr: FrIdx) -> &mut Cell {
    let at = match cells.binary_search_by_key(&fr, |entry| entry.0) {
        Ok(at) => at,
        Err(at) => {
            cells.insert(at, (fr, Cell::default()));
            at
        }
    };
    &mut cells[at].1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: FrIdx = FrIdx(0);

    fn quota(nominal: i64, borrowing: Option<i64>, lending: Option<i64>) -> [(FrIdx, Quota); 1] {
        [(GPU, Quota { nominal, borrowing, lending })]
    }

    #[test]
    fn raised_quota_counts_as_if_it_had_been_there() {
        for lending in [None, Some(0), Some(3), Some(20)] {
            let built = |nominal| {
                let mut tree = QuotaTree::default();
                let root = tree.add(None, &quota(2, None, None));
                let cohort = tree.add(Some(root), &quota(4, Some(6), Some(1)));
                let one = tree.add(Some(cohort), &quota(nominal, Some(5), lending));
                let two = tree.add(Some(cohort), &quota(10, None, None));
                tree.finish();
                tree.charge(one, GPU, 7);
                tree.charge(two, GPU, 9);
                (tree, one, two)
            };
            let ((small, one, two), (large, ..)) = (built(4), built(13));
            let raised = small.raised(one, GPU, 9);
            raised.recount([(one, GPU, 7), (two, GPU, 9)].into_iter());
            for queue in [one, two] {
                let numbers =
                    |tree: &QuotaTree| (tree.available(queue, GPU), tree.potential(queue, GPU));
                assert_eq!(numbers(&raised), numbers(&large), "lending {lending:?}");
            }
        }
    }

    #[test]
    fn a_flat_cohort_shares_what_members_lend() {
        let mut tree = QuotaTree::default();
        let cohort = tree.add(None, &quota(10, None, None));
        let one = tree.add(Some(cohort), &quota(10, None, None));
        let two = tree.add(Some(cohort), &quota(10, Some(2), None));
        let three = tree.add(Some(cohort), &quota(10, None, Some(5)));
        tree.finish();
        assert_eq!(
            [one, two, three].map(|queue| tree.potential(queue, GPU)),
            [35, 12, 40],
            "the most each could use"
        );
        for (queue, used) in [(one, 20), (two, 10), (three, 6)] {
            tree.charge(queue, GPU, used);
        }
        assert_eq!(tree.usage(cohort, GPU), 31);
        assert_eq!([one, two, three].map(|queue| tree.available(queue, GPU)), [4, 2, 4]);
        tree.recount([(one, GPU, 20), (two, GPU, 10), (three, GPU, 6)].into_iter());
    }

    #[test]
    fn two_levels_with_a_queue_that_lends_nothing() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(10, None, None));
        let right = tree.add(Some(root), &quota(10, None, None));
        let one = tree.add(Some(left), &quota(10, None, None));
        let two = tree.add(Some(right), &quota(10, None, Some(0)));
        tree.finish();
        tree.charge(one, GPU, 10);
        tree.charge(two, GPU, 5);
        assert_eq!([one, two].map(|queue| tree.available(queue, GPU)), [20, 25]);
    }

    #[test]
    fn a_cohort_limits_what_its_subtree_borrows() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(10, Some(5), None));
        let right = tree.add(Some(root), &quota(10, None, None));
        let one = tree.add(Some(left), &quota(10, None, None));
        let two = tree.add(Some(left), &quota(10, Some(5), None));
        let three = tree.add(Some(right), &quota(10, None, None));
        tree.finish();
        assert_eq!([one, two, three].map(|queue| tree.available(queue, GPU)), [35, 15, 50]);
    }

    #[test]
    fn a_cohort_limits_what_its_subtree_lends() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(0, None, Some(5)));
        let other = tree.add(Some(root), &quota(0, None, None));
        let one = tree.add(Some(left), &quota(10, None, Some(5)));
        let two = tree.add(Some(left), &quota(10, None, None));
        tree.finish();
        assert_eq!([one, two, other].map(|queue| tree.available(queue, GPU)), [20, 15, 5]);
    }

    #[test]
    fn debt_spills_and_guarantees_hold() {
        let mut tree = QuotaTree::default();
        let cohort = tree.add(None, &quota(10, None, None));
        let one = tree.add(Some(cohort), &quota(10, None, None));
        let two = tree.add(Some(cohort), &quota(10, Some(0), Some(0)));
        tree.finish();
        tree.charge(one, GPU, 31);
        assert_eq!(tree.available(two, GPU), 0, "over-committed trees give nothing");
        assert_eq!(tree.left(two, GPU), -1, "what is used beyond all that there is");

        let mut tree = QuotaTree::default();
        let cohort = tree.add(None, &[]);
        let lender = tree.add(Some(cohort), &quota(10, None, Some(4)));
        let borrower = tree.add(Some(cohort), &quota(10, None, None));
        tree.finish();
        tree.charge(borrower, GPU, 14);
        assert_eq!((tree.available(lender, GPU), tree.available(borrower, GPU)), (6, 0));
        assert!(tree.borrows(borrower, GPU, 0) && !tree.borrows(lender, GPU, 6));
    }

    #[test]
    fn discharge_is_the_inverse_of_charge() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &quota(3, None, None));
        let cohort = tree.add(Some(root), &quota(4, Some(9), Some(2)));
        let queue = tree.add(Some(cohort), &quota(10, None, Some(6)));
        tree.finish();
        let mut charged = Vec::new();
        for amount in [1, 2, 5, 9, 30, 1] {
            let before = format!("{tree:?}");
            tree.charge(queue, GPU, amount);
            tree.discharge(queue, GPU, amount);
            assert_eq!(format!("{tree:?}"), before);
            tree.charge(queue, GPU, amount);
            charged.push((queue, GPU, amount));
            tree.recount(charged.iter().copied());
        }
    }

    #[test]
    fn the_borrow_height_names_the_lowest_subtree_that_holds_it() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &quota(100, None, None));
        let cohort = tree.add(Some(root), &quota(5, None, None));
        let queue = tree.add(Some(cohort), &quota(10, None, None));
        tree.finish();
        let heights = [10, 15, 16, 500].map(|amount| tree.borrow_height(queue, GPU, amount));
        assert_eq!(heights, [(0, true), (1, true), (2, false), (2, false)]);
    }

    #[test]
    fn a_tree_of_any_depth_takes_one_walk() {
        let mut tree = QuotaTree::default();
        let mut above = tree.add(None, &quota(7, None, None));
        for _ in 0..200_000 {
            above = tree.add(Some(above), &[]);
        }
        let limited = tree.add(Some(above), &quota(2, Some(4), Some(1)));
        let free = tree.add(Some(above), &quota(0, None, None));
        tree.finish();
        assert_eq!((tree.available(limited, GPU), tree.potential(limited, GPU)), (6, 6));
        assert_eq!((tree.available(free, GPU), tree.potential(free, GPU)), (8, 8));
        tree.charge(limited, GPU, 5);
        assert_eq!((tree.available(limited, GPU), tree.available(free, GPU)), (1, 4));
    }

    #[test]
    fn amounts_beyond_64_bits_do_not_overflow() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &quota(i64::MAX, None, None));
        let queue = tree.add(Some(root), &quota(i64::MAX, Some(i64::MAX), None));
        tree.finish();
        tree.charge(queue, GPU, i64::MAX);
        tree.charge(queue, GPU, i64::MAX);
        assert_eq!(tree.available(queue, GPU), 0);
        assert_eq!(tree.potential(queue, GPU), i64::MAX);
    }
}
