//! The dominant resource share: how far a queue or cohort uses more than it owns, by its weight.
//!
//! Problem: several queues borrow from one cohort, and who came first has it all. To tell who uses
//! most of what is shared, whatever its kind, one number for each node of the quota tree is
//! compared (spec/quota.md section 9.1, Kueue's). Of each resource, what the node uses beyond its
//! subtree quota, over all flavors, is divided by what its parent could lend at most; the largest
//! of these ratios over the node's weight is its share. A root has none. Who borrows at weight
//! zero has more than anybody of another weight; two of them are compared by their ratios.
//!
//! Wanted: exact order. Shares stay fractions of whole numbers and are compared by products of 192
//! bits; nothing is rounded but the figure that people see.
//!
//! Kept: what each cohort could lend, by resource. It depends on quotas alone, and is found anew
//! with the tree; [`Shares::recount`] compares it with the walk of each queue. Usage is read where
//! the tree keeps it, so a share has nothing that could go stale, and nothing survives a restart.
//!
//! Cost: a share takes one look at the cells of its node, and for each resource that it borrows
//! another one. Nothing of this exists while fair sharing is off.

use std::cmp::Ordering;

use capstan_topology::ResourceIdx;

use crate::model::ids::{FrIdx, QuotaIdx};
use crate::model::input::Weight;
use crate::quota::tree::QuotaTree;

/// Thousandths in a share that is shown.
const SHOWN: u128 = 1_000;

/// Share of a node, as a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of its dominant resource, what it uses beyond its own.
    borrowed: u64,
    /// What could be lent of that; above zero.
    lendable: u64,
    /// Weight of the node, in billionths.
    weight: u64,
    /// It uses more than its own of anything, be it of what nobody lends.
    borrows: bool,
}

impl Share {
    /// Of who borrows nothing, whatever its weight.
    pub const NONE: Share = Share { borrowed: 0, lendable: 1, weight: 1, borrows: false };

    /// Whether the node uses more than its own of anything.
    pub fn borrows(self) -> bool {
        self.borrows
    }

    /// Whether it is larger than any of a weight above zero.
    fn infinite(self) -> bool {
        self.borrows && self.weight == 0
    }

    /// In thousandths, rounded up; the largest number for infinity (spec/quota.md 9.1).
    pub fn shown(self) -> i64 {
        if self.infinite() {
            return i64::MAX;
        }
        let above = u128::from(self.borrowed) * SHOWN * u128::from(Weight::ONE.0);
        let below = u128::from(self.lendable) * u128::from(self.weight);
        i64::try_from(above.div_ceil(below)).unwrap_or(i64::MAX)
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        let (weight, other_weight) = match (self.infinite(), other.infinite()) {
            (true, true) => (1, 1),
            (false, false) => (self.weight, other.weight),
            (infinite, _) => return if infinite { Ordering::Greater } else { Ordering::Less },
        };
        let one = wide(u128::from(self.borrowed) * u128::from(other_weight), other.lendable);
        one.cmp(&wide(u128::from(other.borrowed) * u128::from(weight), self.lendable))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

/// A product of up to 192 bits: the upper 128, and the lower 64.
pub(super) fn wide(one: u128, other: u64) -> (u128, u64) {
    let low = u128::from(one as u64) * u128::from(other);
    ((one >> 64) * u128::from(other) + (low >> 64), low as u64)
}

/// What shares are reckoned from beside usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By node.
    weights: Vec<Weight>,
    /// By node: what it could lend each of its children, by resource; nothing at queues.
    lendable: Vec<Vec<(ResourceIdx, u64)>>,
}

impl Shares {
    /// Of a finished tree. `resource`: of a flavor and resource.
    pub fn new(
        tree: &QuotaTree,
        weights: Vec<Weight>,
        resource: impl Fn(FrIdx) -> ResourceIdx,
    ) -> Shares {
        assert_eq!(weights.len(), tree.len(), "each node has a weight");
        Shares { weights, lendable: lendable(tree, resource) }
    }

    /// Quotas of the tree changed, and nothing else.
    pub fn follow(&mut self, tree: &QuotaTree, resource: impl Fn(FrIdx) -> ResourceIdx) {
        self.lendable = lendable(tree, resource);
    }

    /// Whether a node, or a cohort around it that has one, has no weight: whatever it borrows, its
    /// share is larger than any other.
    pub fn weightless(&self, tree: &QuotaTree, node: QuotaIdx) -> bool {
        let mut around = std::iter::successors(Some(node), |node| tree.parent(*node));
        around.any(|node| tree.parent(node).is_some() && self.weights[node.at()].0 == 0)
    }

    /// Share of a node as if it used so much more than it does.
    pub fn of(
        &self,
        tree: &QuotaTree,
        (node, more): (QuotaIdx, &[(FrIdx, i64)]),
        resource: impl Fn(FrIdx) -> ResourceIdx,
    ) -> Share {
        let Some(parent) = tree.parent(node) else { return Share::NONE };
        if tree.borrowed_with(node, more).next().is_none() {
            return Share::NONE;
        }
        let mut share = Share { weight: self.weights[node.at()].0, borrows: true, ..Share::NONE };
        for &(of, lendable) in &self.lendable[parent.at()] {
            let of_it = tree.borrowed_with(node, more).filter(|(fr, _)| resource(*fr) == of);
            let borrowed = saturated(of_it.map(|(_, amount)| amount).sum());
            let more =
                wide(borrowed.into(), share.lendable) > wide(share.borrowed.into(), lendable);
            if more {
                (share.borrowed, share.lendable) = (borrowed, lendable);
            }
        }
        share
    }

    /// Compares what is kept with what each queue and cohort could use by its own walk.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, tree: &QuotaTree, resource: impl Fn(FrIdx) -> ResourceIdx) {
        assert_eq!(self.weights.len(), tree.len(), "weights of quota nodes");
        for (at, kept) in self.lendable.iter().enumerate() {
            let node = QuotaIdx(at as u32);
            for &(of, lendable) in kept {
                let frs = tree.covered(tree.root(node)).filter(|fr| resource(*fr) == of);
                let counted: i128 = frs.map(|fr| i128::from(tree.potential(node, fr))).sum();
                assert_eq!(lendable, saturated(counted), "what quota node {at} lends of {of:?}");
            }
        }
    }
}

fn saturated(amount: i128) -> u64 {
    amount.clamp(0, i64::MAX.into()) as u64
}

/// What each cohort could lend its children, by resource: the most that it could ever use itself
/// of any flavor that is known at its root.
fn lendable(
    tree: &QuotaTree,
    resource: impl Fn(FrIdx) -> ResourceIdx,
) -> Vec<Vec<(ResourceIdx, u64)>> {
    // By node, in the order of its root's cells: the most that it could ever use.
    let mut reach: Vec<Vec<i128>> = Vec::with_capacity(tree.len());
    let mut lendable = Vec::with_capacity(tree.len());
    for node in (0..tree.len()).map(|at| QuotaIdx(at as u32)) {
        let (mut most, mut lends) = (Vec::new(), Vec::<(ResourceIdx, i128)>::new());
        if !tree.children(node).is_empty() {
            let above = tree.parent(node).map(|parent| &reach[parent.at()]);
            for (at, fr) in tree.covered(tree.root(node)).enumerate() {
                let amount = tree.reach(node, fr, above.map(|above| above[at]));
                let of = resource(fr);
                match lends.iter_mut().find(|(known, _)| *known == of) {
                    Some((_, sum)) => *sum += amount,
                    None => lends.push((of, amount)),
                }
                most.push(amount);
            }
        }
        lends.retain(|(_, amount)| *amount > 0);
        lends.sort_unstable();
        reach.push(most);
        lendable.push(lends.into_iter().map(|(of, amount)| (of, saturated(amount))).collect());
    }
    lendable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::Quota;

    const CPU: FrIdx = FrIdx(0);
    const GPU: FrIdx = FrIdx(1);
    const SPOT_CPU: FrIdx = FrIdx(2);

    /// `SPOT_CPU` is cpu of another flavor.
    fn resource(fr: FrIdx) -> ResourceIdx {
        ResourceIdx((fr.0 % 2) as u16)
    }

    fn nominal(quotas: &[(FrIdx, i64)]) -> Vec<(FrIdx, Quota)> {
        let quota = |nominal| Quota { nominal, ..Quota::default() };
        quotas.iter().map(|(fr, nominal)| (*fr, quota(*nominal))).collect()
    }

    /// A cohort with its own quotas, and queues with theirs, each of a weight.
    fn flat(
        own: &[(FrIdx, i64)],
        queues: &[(&[(FrIdx, i64)], Weight)],
    ) -> (QuotaTree, Shares, Vec<QuotaIdx>) {
        let mut tree = QuotaTree::default();
        let cohort = tree.add(None, &nominal(own));
        let mut weights = vec![Weight::ONE];
        let mut nodes = Vec::new();
        for (quotas, weight) in queues {
            nodes.push(tree.add(Some(cohort), &nominal(quotas)));
            weights.push(*weight);
        }
        tree.finish();
        let shares = Shares::new(&tree, weights, resource);
        shares.recount(&tree, resource);
        (tree, shares, nodes)
    }

    const HALF: Weight = Weight(Weight::ONE.0 / 2);
    const TWO: Weight = Weight(Weight::ONE.0 * 2);
    const ZERO: Weight = Weight(0);

    #[test]
    fn the_example_of_the_spec() {
        let billionths = (Weight(2), 111_111_111_112);
        for (weight, shown) in
            [(Weight::ONE, 223), (TWO, 112), (HALF, 445), (ZERO, i64::MAX), billionths]
        {
            let three: &[_] = &[(CPU, 3)];
            let (mut tree, shares, nodes) =
                flat(&[], &[(three, Weight::ONE), (three, weight), (three, Weight::ONE)]);
            tree.charge(nodes[0], CPU, 3);
            tree.charge(nodes[1], CPU, 5);
            let of = |node: QuotaIdx| shares.of(&tree, (node, &[]), resource);
            // 1000 * 2 / 9 = 222.2, rounded up where it is shown.
            assert_eq!(of(nodes[1]).shown(), shown, "weight {weight:?}");
            assert_eq!((of(nodes[0]).shown(), of(nodes[0]).borrows()), (0, false));
            assert_eq!(of(tree.root(nodes[0])), Share::NONE, "a root has no share");
        }
    }

    #[test]
    fn the_dominant_resource_counts_over_all_flavors() {
        let none: &[_] = &[(CPU, 0), (GPU, 0), (SPOT_CPU, 0)];
        let own = [(CPU, 10), (GPU, 4), (SPOT_CPU, 10)];
        let (mut tree, shares, nodes) = flat(&own, &[(none, Weight::ONE)]);
        tree.charge(nodes[0], CPU, 3);
        tree.charge(nodes[0], SPOT_CPU, 4);
        assert_eq!(shares.of(&tree, (nodes[0], &[]), resource).shown(), 350, "7 of 20 cpu");
        tree.charge(nodes[0], GPU, 2);
        assert_eq!(shares.of(&tree, (nodes[0], &[]), resource).shown(), 500, "2 of 4 gpus");
    }

    #[test]
    fn unused_quota_of_one_flavor_hides_no_borrowing_of_another() {
        let quotas: &[_] = &[(CPU, 8), (SPOT_CPU, 0)];
        let (mut tree, shares, nodes) = flat(&[(SPOT_CPU, 2)], &[(quotas, Weight::ONE)]);
        tree.charge(nodes[0], SPOT_CPU, 1);
        assert_eq!(shares.of(&tree, (nodes[0], &[]), resource).shown(), 100, "1 of 8 + 2");
    }

    #[test]
    fn what_nobody_lends_is_borrowed_and_no_share() {
        let none: &[_] = &[(CPU, 0)];
        let (mut tree, shares, nodes) = flat(&[], &[(none, Weight::ONE), (none, ZERO)]);
        tree.charge(nodes[0], CPU, 1);
        tree.charge(nodes[1], CPU, 1);
        let [one, other] = [nodes[0], nodes[1]].map(|node| shares.of(&tree, (node, &[]), resource));
        assert_eq!((one.borrows(), one.shown()), (true, 0));
        assert_eq!((one, one.cmp(&other)), (Share::NONE, Ordering::Less));
    }

    #[test]
    fn infinities_are_compared_by_their_ratios() {
        let none: &[_] = &[(CPU, 0)];
        let all = [(none, ZERO), (none, ZERO), (none, Weight(1))];
        let (mut tree, shares, nodes) = flat(&[(CPU, 100)], &all);
        for (node, used) in nodes.iter().zip([2, 1, 97]) {
            tree.charge(*node, CPU, used);
        }
        let of = |at: usize| shares.of(&tree, (nodes[at], &[]), resource);
        assert!(of(0) > of(1) && of(1) > of(2) && of(2) > Share::NONE);
        assert_eq!(of(0).shown(), of(1).shown());
    }

    #[test]
    fn a_share_as_if_it_used_more_is_that_of_who_does() {
        let own: &[_] = &[(CPU, 2), (SPOT_CPU, 0)];
        let all = [(own, TWO), (own, Weight::ONE), (own, Weight(0))];
        let (mut tree, shares, nodes) = flat(&[(CPU, 4), (SPOT_CPU, 6)], &all);
        tree.charge(nodes[1], CPU, 1);
        for more in [&[][..], &[(CPU, 1)], &[(CPU, 3)], &[(CPU, 2), (SPOT_CPU, 3), (CPU, 1)]] {
            for node in &nodes {
                let as_if = shares.of(&tree, (*node, more), resource);
                more.iter().for_each(|(fr, amount)| tree.charge(*node, *fr, *amount));
                let then = shares.of(&tree, (*node, &[]), resource);
                more.iter().for_each(|(fr, amount)| tree.discharge(*node, *fr, *amount));
                assert_eq!((as_if, as_if.borrows()), (then, then.borrows()), "{node:?} {more:?}");
            }
        }
    }

    /// Of a cohort, what its subtree borrows from outside counts, over what the root could lend.
    #[test]
    fn cohorts_have_shares_of_what_is_above_them() {
        let mut tree = QuotaTree::default();
        let root = tree.add(None, &nominal(&[(CPU, 4)]));
        let limited = [(CPU, Quota { nominal: 6, borrowing: Some(5), lending: Some(2) })];
        let left = tree.add(Some(root), &limited);
        let right = tree.add(Some(root), &nominal(&[(CPU, 10)]));
        let queue = tree.add(Some(left), &nominal(&[(CPU, 2)]));
        tree.finish();
        let weights = vec![Weight::ONE, HALF, Weight::ONE, TWO];
        let shares = Shares::new(&tree, weights, resource);
        shares.recount(&tree, resource);
        // left owns 8 and lends 2 of it: the root has 4 + 2 + 10.
        tree.charge(queue, CPU, 12);
        let of = |node: QuotaIdx| shares.of(&tree, (node, &[]), resource).shown();
        assert_eq!(of(left), 500, "4 of 16 at half the weight");
        assert_eq!(of(queue), 385, "10 of min(6 + 16, 8 + 5) at twice the weight");
        assert_eq!(of(right), 0);
    }

    #[test]
    fn amounts_beyond_64_bits_are_compared_without_overflow() {
        let most = i64::MAX;
        let none: &[_] = &[(CPU, 0), (SPOT_CPU, 0)];
        let heavy = Weight(u64::MAX);
        let all = [(none, heavy), (none, heavy), (none, Weight(u64::MAX - 1))];
        let (mut tree, shares, nodes) = flat(&[(CPU, most), (SPOT_CPU, most)], &all);
        for (node, used) in nodes.iter().zip([most, most - 1, most]) {
            tree.charge(*node, CPU, used);
            tree.charge(*node, SPOT_CPU, used);
        }
        let of = |at: usize| shares.of(&tree, (nodes[at], &[]), resource);
        // Sums saturate as a single amount does: the first two are equal.
        assert_eq!(of(0), of(1));
        assert!(of(2) > of(0));
        assert_eq!(of(0).shown(), 1, "a heavy weight makes a small share");
    }
}
