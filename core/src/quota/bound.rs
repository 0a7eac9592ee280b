//! Whose limit it is that leaves a queue no more of something.
//!
//! What is left for a queue is the least of several numbers on its way to the root: at each node
//! that borrows what its borrowing limit lets through, at the root what its whole tree has. The
//! least one is the one to talk about; of equal ones the nearest, because that is reached first.

use crate::model::ids::{FrIdx, QuotaIdx};
use crate::quota::tree::QuotaTree;

/// The limit that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Whose it is.
    pub node: QuotaIdx,
    /// It is a borrowing limit; else all that the tree below the node owns and lends.
    pub borrowing: bool,
    /// How much that is.
    pub amount: i64,
    /// What of it is used, or borrowed.
    pub used: i64,
}

impl QuotaTree {
    /// The limit that leaves a queue what it has available now.
    pub fn bound(&self, queue: QuotaIdx, fr: FrIdx) -> Bound {
        self.least(queue, fr, false)
    }

    /// The limit that leaves a queue what it could have at most, everybody else idle.
    pub fn bound_ever(&self, queue: QuotaIdx, fr: FrIdx) -> Bound {
        self.least(queue, fr, true)
    }

    /// What queues below a node use of what it has, or it does itself if it is one. What a queue,
    /// or a cohort on the way, owns and never lends is not of that; where several use a cohort's,
    /// each uses its part.
    pub fn users_of(&self, top: QuotaIdx, fr: FrIdx) -> Vec<(QuotaIdx, i64)> {
        let mut found = Vec::new();
        let mut open = vec![(top, self.usage(top, fr))];
        while let Some((node, amount)) = open.pop() {
            if amount <= 0 {
                continue;
            }
            let users = self.children(node).iter().map(|child| (*child, self.shown(*child, fr)));
            let users: Vec<(QuotaIdx, i64)> = users.filter(|(_, used)| *used > 0).collect();
            if users.is_empty() {
                found.push((node, amount));
            }
            // Parts of what all below use, so that nothing is lost by rounding.
            let (all, mut before) = (self.usage(node, fr), 0_i64);
            for (child, used) in users {
                let after = before.saturating_add(used).min(all);
                open.push((child, part(after, amount, all) - part(before, amount, all)));
                before = after;
            }
        }
        found.sort_unstable();
        found
    }

    /// What a node uses of what the one above it has: beyond what it owns and never lends.
    fn shown(&self, node: QuotaIdx, fr: FrIdx) -> i64 {
        let kept = self
            .lending_limit(node, fr)
            .map_or(0, |lending| self.owned(node, fr).saturating_sub(lending).max(0));
        self.usage(node, fr).saturating_sub(kept).max(0)
    }

    fn least(&self, queue: QuotaIdx, fr: FrIdx, ever: bool) -> Bound {
        let (mut at, mut sum) = (queue, 0_i128);
        let mut least: Option<(i128, Bound)> = None;
        loop {
            let (owned, usage) = (self.owned(at, fr), self.usage(at, fr));
            let (wide, used) = (i128::from(owned), i128::from(usage));
            let Some(parent) = self.parent(at) else {
                let left = sum + if ever { wide } else { wide - used };
                let root = Bound { node: at, borrowing: false, amount: owned, used: usage };
                return least.filter(|(most, _)| *most <= left).map_or(root, |(_, bound)| bound);
            };
            let lending = self.lending_limit(at, fr).map(i128::from);
            let local = lending.map_or(0, |lending| (wide - lending).max(0));
            let free = if ever { local } else { (local - used).max(0) };
            if let Some(limit) = self.borrowing_limit(at, fr) {
                let own = if ever { wide } else { free + wide - local - (used - local).max(0) };
                let left = sum + own + i128::from(limit);
                let borrowed = usage.saturating_sub(owned).max(0);
                let bound = Bound { node: at, borrowing: true, amount: limit, used: borrowed };
                if least.is_none_or(|(most, _)| left < most) {
                    least = Some((left, bound));
                }
            }
            sum += free;
            at = parent;
        }
    }
}

/// As much of an amount as something is of all, which is more than nothing.
fn part(of: i64, amount: i64, all: i64) -> i64 {
    let part = i128::from(of) * i128::from(amount) / i128::from(all);
    i64::try_from(part).unwrap_or(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::Quota;

    const FR: FrIdx = FrIdx(0);

    fn quota(nominal: i64, borrowing: Option<i64>) -> [(FrIdx, Quota); 1] {
        [(FR, Quota { nominal, borrowing, lending: None })]
    }

    #[test]
    fn the_least_limit_on_the_way_to_the_root_binds() {
        // spec/quota.md section 7, example C.
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(10, Some(5)));
        let right = tree.add(Some(root), &quota(10, None));
        let first = tree.add(Some(left), &quota(10, None));
        let second = tree.add(Some(left), &quota(10, Some(5)));
        let third = tree.add(Some(right), &quota(10, None));
        tree.finish();
        let cohort = Bound { node: left, borrowing: true, amount: 5, used: 0 };
        assert_eq!((tree.available(first, FR), tree.bound(first, FR)), (35, cohort));
        let own = Bound { node: second, borrowing: true, amount: 5, used: 0 };
        assert_eq!((tree.available(second, FR), tree.bound(second, FR)), (15, own));
        let all = Bound { node: root, borrowing: false, amount: 50, used: 0 };
        assert_eq!((tree.available(third, FR), tree.bound(third, FR)), (50, all));
        assert_eq!((tree.potential(first, FR), tree.bound_ever(first, FR)), (35, cohort));
        // The others use so much that the whole is what is short.
        tree.charge(third, FR, 40);
        let all = Bound { node: root, borrowing: false, amount: 50, used: 40 };
        assert_eq!((tree.available(first, FR), tree.bound(first, FR)), (10, all));
        assert_eq!(tree.bound_ever(first, FR), cohort, "as ever");
    }

    #[test]
    fn who_uses_only_what_it_never_lends_uses_nothing_of_the_whole() {
        // spec/quota.md section 7: a cohort is used by what its children use beyond their own.
        let lends =
            |nominal, lending| [(FR, Quota { nominal, borrowing: None, lending: Some(lending) })];
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &quota(3, None));
        let inner = tree.add(Some(root), &lends(0, 2));
        let keeps = tree.add(Some(root), &lends(10, 2));
        let lent = tree.add(Some(root), &quota(3, None));
        let one = tree.add(Some(inner), &quota(5, None));
        let two = tree.add(Some(inner), &quota(5, None));
        tree.finish();
        tree.charge(keeps, FR, 8);
        tree.charge(lent, FR, 5);
        assert_eq!((tree.usage(root, FR), tree.users_of(root, FR)), (5, vec![(lent, 5)]));
        tree.charge(keeps, FR, 1);
        assert_eq!(tree.users_of(root, FR), [(keeps, 1), (lent, 5)]);
        // The inner cohort keeps eight of its ten.
        tree.charge(one, FR, 3);
        tree.charge(two, FR, 5);
        assert_eq!(tree.users_of(root, FR), [(keeps, 1), (lent, 5)]);
        assert_eq!(tree.users_of(inner, FR), [(one, 3), (two, 5)]);
        tree.charge(one, FR, 4);
        assert_eq!(tree.usage(root, FR), 10);
        assert_eq!(tree.users_of(root, FR), [(keeps, 1), (lent, 5), (one, 2), (two, 2)]);
        assert_eq!(tree.users_of(one, FR), [(one, 7)], "a queue by itself");
    }

    #[test]
    fn users_of_amounts_beyond_64_bits_do_not_overflow() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let queues = [1, 2, 3].map(|_| tree.add(Some(root), &quota(1, None)));
        tree.finish();
        queues.into_iter().for_each(|queue| tree.charge(queue, FR, i64::MAX));
        assert_eq!(tree.users_of(root, FR), [(queues[0], i64::MAX)]);
    }

    #[test]
    fn a_queue_by_itself_is_bound_by_its_own_quota() {
        let mut tree = QuotaTree::default();
        let alone = tree.add(None, &quota(8, None));
        tree.finish();
        tree.charge(alone, FR, 6);
        let own = Bound { node: alone, borrowing: false, amount: 8, used: 6 };
        assert_eq!(tree.bound(alone, FR), own);
    }
}
