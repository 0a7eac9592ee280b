//! What queues and cohorts lend now.
//!
//! Usage says how much is borrowed, not from whom. The rule: what a queue uses beyond its own quota
//! is found in the smallest subtree that has it. In each cohort, from the leaves up, what its
//! children use beyond theirs is taken from the cohort's own quota, then from what its children
//! leave unused and lend; only what these lack is taken from the cohort above, and only what these
//! leave, within the cohort's lending limit, is there for those outside. From the root down, what a
//! cohort's children give, to each other and to those outside, is shared out in proportion to
//! what each could give, in whole units: those that are left over go to children one by one in the
//! order of the tree (cohorts first, then queues by name).
//!
//! So what queues lend, and cohorts of their own, is what queues borrow, less what the whole tree
//! is over-committed by.

use std::collections::BTreeMap;

use crate::model::ids::{FrIdx, QuotaIdx};
use crate::quota::tree::QuotaTree;

impl QuotaTree {
    /// What others use of the unused quota of each queue, and of each cohort's subtree those
    /// outside it; nodes of which nobody does are left out.
    pub fn lent(&self) -> BTreeMap<(QuotaIdx, FrIdx), i128> {
        let mut lent: BTreeMap<(QuotaIdx, FrIdx), i128> = BTreeMap::new();
        for node in (0..self.len()).map(|at| QuotaIdx(at as u32)) {
            let children = self.children(node);
            for fr in self.covered(node) {
                let borrowed: i128 = children.iter().map(|it| self.beyond(*it, fr).max(0)).sum();
                let spare: Vec<i128> = children.iter().map(|it| self.spare(*it, fr)).collect();
                let all: i128 = spare.iter().sum();
                let own = i128::from(self.nominal(node, fr));
                let outside = lent.get(&(node, fr)).copied().unwrap_or(0);
                let given = (borrowed.min(own + all) + outside - own).clamp(0, all);
                let parts = children.iter().zip(parts(&spare, given, all));
                let parts = parts.filter(|(_, part)| *part > 0);
                lent.extend(parts.map(|(child, part)| ((*child, fr), part)));
            }
        }
        lent
    }
}

/// What each of several gives of an amount, by what it has; `all` is the sum of that.
fn parts(spare: &[i128], given: i128, all: i128) -> Vec<i128> {
    if given <= 0 {
        return Vec::new();
    }
    let mut parts: Vec<i128> = spare.iter().map(|spare| part_of(*spare, given, all)).collect();
    let mut rest = given - parts.iter().sum::<i128>();
    for (part, spare) in parts.iter_mut().zip(spare) {
        let extra = rest.min(*spare - *part).min(1);
        *part += extra;
        rest -= extra;
    }
    parts
}

/// How much of something above zero goes to one part of a whole, rounded down.
fn part_of(part: i128, of: i128, whole: i128) -> i128 {
    if let Some(product) = part.checked_mul(of) {
        return product / whole;
    }
    // Of shares of the largest amounts that there are: bit by bit, as by hand.
    let (mut quotient, mut rest) = (0, 0);
    for bit in (0..i128::BITS - 1).rev() {
        let more = if part >> bit & 1 == 1 { of } else { 0 };
        let sum = rest * 2 + more;
        (quotient, rest) = (quotient * 2 + sum / whole, sum % whole);
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::Quota;

    const GPU: FrIdx = FrIdx(0);

    fn quota(nominal: i64, lending: Option<i64>) -> [(FrIdx, Quota); 1] {
        [(GPU, Quota { nominal, borrowing: None, lending })]
    }

    /// What three queues lend when they use so much; what all queues lend and cohorts have
    /// themselves is enough for what they borrow, and no more is lent than that.
    fn lent(tree: &QuotaTree, queues: [QuotaIdx; 3], used: [i64; 3]) -> [i128; 3] {
        let mut tree = tree.clone();
        for (queue, used) in queues.into_iter().zip(used) {
            tree.charge(queue, GPU, used);
        }
        let lent = tree.lent();
        let of = |node: QuotaIdx| lent.get(&(node, GPU)).copied().unwrap_or(0);
        let nodes = || (0..tree.len()).map(|at| QuotaIdx(at as u32));
        let cohorts = nodes().filter(|node| !queues.contains(node));
        let own: i128 = cohorts.map(|node| i128::from(tree.nominal(node, GPU))).sum();
        let borrowed: i128 = queues.iter().map(|queue| tree.beyond(*queue, GPU).max(0)).sum();
        let debt: i128 = tree.beyond(QuotaIdx(0), GPU).max(0);
        let by_queues: i128 = queues.iter().map(|queue| of(*queue)).sum();
        let by_cohorts = borrowed - debt - by_queues;
        assert!((0..=own).contains(&by_cohorts), "{used:?}: {by_cohorts} of {own}");
        for node in nodes() {
            assert!(of(node) <= tree.spare(node, GPU), "{used:?}: more than node {node:?} leaves");
        }
        queues.map(of)
    }

    #[test]
    fn the_smallest_subtree_lends_first_and_in_it_what_the_cohort_owns() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(10, None));
        let right = tree.add(Some(root), &quota(10, None));
        let one = tree.add(Some(left), &quota(10, None));
        let two = tree.add(Some(left), &quota(10, None));
        let three = tree.add(Some(right), &quota(10, None));
        tree.finish();
        for (used, want) in [
            ([10, 0, 0], [0, 0, 0]),
            ([20, 0, 0], [0, 0, 0]),
            ([25, 0, 0], [0, 5, 0]),
            // 20 are in the left cohort; of the other 5 the right cohort owns 10.
            ([35, 0, 0], [0, 10, 0]),
            ([43, 0, 0], [0, 10, 3]),
            ([43, 4, 0], [0, 6, 7]),
            ([0, 0, 25], [0, 0, 0]),
            ([5, 0, 45], [5, 10, 0]),
            // 10 that left's queues give, of 5 and 10 that they have.
            ([5, 0, 40], [4, 6, 0]),
            // Each cohort is enough for itself.
            ([22, 6, 20], [0, 2, 0]),
            // Nobody has what is used beyond all quota.
            ([70, 0, 0], [0, 10, 10]),
        ] {
            assert_eq!(lent(&tree, [one, two, three], used), want, "used {used:?}");
        }
    }

    #[test]
    fn limits_of_queues_and_cohorts_bound_what_they_lend() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &[]);
        let left = tree.add(Some(root), &quota(0, Some(5)));
        let one = tree.add(Some(left), &quota(10, Some(5)));
        let two = tree.add(Some(left), &quota(10, None));
        let far = tree.add(Some(root), &quota(0, None));
        tree.finish();
        for (used, want) in [
            ([0, 0, 5], [2, 3, 0]),
            // 2 and 10 are unused, 5 of them go out.
            ([8, 0, 5], [1, 4, 0]),
            ([0, 14, 0], [4, 0, 0]),
            ([3, 11, 4], [5, 0, 0]),
            // More than the rules allow: what is lent stays within them.
            ([0, 0, 9], [2, 3, 0]),
        ] {
            assert_eq!(lent(&tree, [one, two, far], used), want, "used {used:?}");
        }
    }

    #[test]
    fn parts_of_the_largest_amounts_are_exact() {
        let most = i128::from(i64::MAX);
        for (part, of, whole, want) in [
            (3, 5, 8, 1),
            (8, 8, 8, 8),
            (most, most * 12, most * 12, most),
            (most, most * 6, most * 12, most / 2),
            (most, most * 12 - 1, most * 12, most - 1),
            (most - 1, most * 4, most * 12, (most - 1) / 3),
        ] {
            assert_eq!(part_of(part, of, whole), want, "{part} of {of} / {whole}");
        }
    }
}
