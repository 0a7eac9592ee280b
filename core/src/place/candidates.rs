//! Nodes that a search for places looks at.
//!
//! Problem: each step of a search looks at its nodes again, so that one of a large domain is either
//! short or long. Most nodes of a large domain say nothing to a gang: none of its members may go
//! there, or they are like so many others. A gang that has to be searched for on ten nodes has to
//! be found amid five thousand of those, too.
//!
//! Decides which nodes are left: those that may take some member, whoever else is placed; and of
//! those that look the same to all members as many as there are members, the first ones. A search
//! tries the first of nodes that look the same, so that it finds with these what it finds with all.
//!
//! Cost: a look at each node of the domain, once for a search; a large domain's counts as steps
//! ([`budget`](super::budget)).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::at_once::Most;
use super::coupled::Count;
use super::{budget, ways};
use crate::model::txn::Txn;

/// Where more nodes than this are left is not searched: slot counts leave little to find there, and
/// each step looks at every node.
pub(super) const NODES_MAX: usize = 256;

/// Positions that may take some member.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    positions: Vec<usize>,
    /// Those of them where nobody may go who chooses volumes or devices.
    plain: BTreeSet<usize>,
}

impl Candidates {
    /// Those of a range; `None`: it would take too long to look. Classes are up to date.
    pub fn of(txn: &mut Txn<'_>, asks: &[Count], range: Range<usize>) -> Option<Candidates> {
        let looks = asks.len().saturating_mul(range.len());
        if range.len() > NODES_MAX && !budget::look(txn, looks) {
            return None;
        }
        let state = txn.state();
        let most = Most::of(state, asks);
        let chooses: Vec<bool> =
            asks.iter().map(|(class, _)| ways::chooses(state, *class)).collect();
        let mut found = Candidates::default();
        for position in range {
            let takes = |ask: &usize| most.at(*ask, position) > 0;
            let mut takers = (0..asks.len()).filter(takes);
            let Some(first) = takers.next() else { continue };
            found.positions.push(position);
            if !chooses[first] && !takers.any(|ask| chooses[ask]) {
                found.plain.insert(position);
            }
        }
        Some(found)
    }

    /// All of them, in order.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Those where nobody may go who chooses anything.
    pub fn plain(&self) -> BTreeSet<usize> {
        self.plain.clone()
    }

    /// Of those that look the same no more than there are members; `None`: too many are left.
    pub fn unlike<L: Ord>(
        self,
        members: usize,
        mut looks: impl FnMut(usize) -> L,
    ) -> Option<Vec<usize>> {
        if self.positions.len() <= members.min(NODES_MAX) {
            return Some(self.positions);
        }
        let mut alike: BTreeMap<L, usize> = BTreeMap::new();
        let mut left = Vec::new();
        for position in self.positions {
            let before = alike.entry(looks(position)).or_default();
            if *before == members {
                continue;
            }
            *before += 1;
            left.push(position);
            if left.len() > NODES_MAX {
                return None;
            }
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlike(looks: &[u8], members: usize) -> Option<Vec<usize>> {
        let (positions, plain) = ((0..looks.len()).collect(), BTreeSet::new());
        Candidates { positions, plain }.unlike(members, |at| looks[at])
    }

    #[test]
    fn of_nodes_that_look_the_same_as_many_are_left_as_there_are_members() {
        assert_eq!(unlike(&[1, 1, 2, 1, 1, 2], 2), Some(vec![0, 1, 2, 5]));
        assert_eq!(unlike(&[1, 1, 1], 3), Some(vec![0, 1, 2]));
        assert_eq!(unlike(&[7; 5_000], 256).map(|left| left.len()), Some(256));
        assert_eq!(unlike(&[7; 5_000], 257), None);
    }
}
