//! The tree as it would be with another quota at one node: what a remedy is tried with.
//!
//! A look: the tree itself stays as it is. Cost: a copy of it, and a walk to the root.

use crate::model::ids::{FrIdx, QuotaIdx};
use crate::quota::tree::{Cell, QuotaTree, cell_of};

impl QuotaTree {
    /// The same tree with more own quota at a node, as if its object had been edited.
    pub fn raised(&self, node: QuotaIdx, fr: FrIdx, by: i64) -> QuotaTree {
        self.edited(node, fr, |cell| {
            cell.nominal += i128::from(by);
            cell.subtree += i128::from(by);
        })
    }

    /// The same where a node may borrow so much more, if it has a limit.
    pub fn borrowing_more(&self, node: QuotaIdx, fr: FrIdx, by: i64) -> QuotaTree {
        let more = |limit: i128| limit + i128::from(by);
        self.edited(node, fr, |cell| cell.borrowing = cell.borrowing.map(more))
    }

    /// The same where a node lends so much more, if it has a limit.
    pub fn lending_more(&self, node: QuotaIdx, fr: FrIdx, by: i64) -> QuotaTree {
        let more = |limit: i128| limit + i128::from(by);
        self.edited(node, fr, |cell| cell.lending = cell.lending.map(more))
    }

    fn edited(&self, node: QuotaIdx, fr: FrIdx, edit: impl FnOnce(&mut Cell)) -> QuotaTree {
        let mut tree = self.clone();
        // What a node lends and what it uses beyond its local part count at its parent.
        let shown = |cell: Cell| (cell.subtree - cell.local(), (cell.usage - cell.local()).max(0));
        let entry = &mut tree.nodes[node.at()];
        let cell = cell_of(&mut entry.cells, fr);
        let before = shown(*cell);
        edit(cell);
        let after = shown(*cell);
        let (mut at, mut subtree, mut usage) =
            (entry.parent, after.0 - before.0, after.1 - before.1);
        tree.borrows_of[node.at()] = entry.borrows_of();
        while let Some(node) = at {
            let entry = &mut tree.nodes[node.at()];
            let cell = cell_of(&mut entry.cells, fr);
            let before = shown(*cell);
            cell.subtree += subtree;
            cell.usage += usage;
            let after = shown(*cell);
            (subtree, usage) = (after.0 - before.0, after.1 - before.1);
            at = entry.parent;
            tree.borrows_of[node.at()] = entry.borrows_of();
        }
        tree
    }
}
