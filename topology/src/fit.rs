//! What fits where: for one kind of pod, how many more every node holds and how good it is.
//!
//! Nodes stand in tree order. Over that order lies a segment tree with three values per range:
//! the sum of slots, the largest slots, and the best key. Changing one node costs O(log n);
//! "how many fit in this rack", "the best node here", and "does any rack hold eight" cost
//! O(log n), O(log n) and one pass over racks. Whoever owns the index keeps it current.

use std::cmp::Reverse;
use std::ops::Range;

use crate::ids::{DomainIdx, LevelIdx};
use crate::tree::Tree;

/// A node as one kind of pod sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Pods of this kind that still fit; 0: none.
    pub slots: u32,
    /// Larger is better: score, then least idle devices, then rank. 0 when nothing fits.
    pub key: u128,
}

impl Spot {
    /// A node that takes none.
    pub const FULL: Spot = Spot { slots: 0, key: 0 };

    /// A node with room: ties of the score end at least `idle` devices, then lowest `rank`.
    pub fn new(slots: u32, score: u32, idle: u32, rank: u32) -> Spot {
        assert!(slots > 0, "a spot without room is FULL");
        let tie = (u64::from(u32::MAX - idle) << 32) | u64::from(u32::MAX - rank);
        Spot { slots, key: (u128::from(score) + 1) << 64 | u128::from(tie) }
    }

    /// The same with so much more of a score, if it has room.
    fn shifted(self, by: i64) -> Spot {
        if self.slots == 0 {
            return self;
        }
        let key = self.key.checked_add_signed(i128::from(by) << 64);
        Spot { key: key.expect("no score falls below zero"), ..self }
    }

    /// The score in a key.
    pub fn score(key: u128) -> u32 {
        ((key >> 64) as u32).saturating_sub(1)
    }
}

/// Slots and keys of all nodes for one kind of pod.
#[derive(Clone, Debug, Default)]
pub struct FitIndex {
    width: usize,
    best: Vec<u128>,
    most: Vec<u32>,
    domains: Vec<DomainFit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DomainFit {
    slots: u64,
    best: u128,
}

/// Ranges up to this many nodes are valued exactly; wider ones by their best node. Sixty-four
/// covers a rack; above it the walk would cost more than the choice gains.
const EXACT_NODES_MAX: usize = 64;

/// So few nodes that get other scores are set one by one.
const SHIFTED_ALONE_MAX: usize = 4;

/// Where more than one node in so many gets another score, one pass over the whole index costs less
/// than finding what is above them.
const SHIFTED_SHARE: usize = 4;

impl FitIndex {
    /// Builds the index from the spots of all nodes, in tree order.
    pub fn build(tree: &Tree, spots: impl ExactSizeIterator<Item = Spot>) -> FitIndex {
        let width = spots.len().next_power_of_two();
        let mut index = FitIndex {
            width,
            best: vec![0; 2 * width],
            most: vec![0; 2 * width],
            domains: vec![DomainFit::default(); tree.domain_count()],
        };
        for (at, spot) in spots.enumerate() {
            index.best[width + at] = spot.key;
            index.most[width + at] = spot.slots;
            index.add_to_domains(tree, at, i64::from(spot.slots));
        }
        for at in (1..width).rev() {
            index.pull(at);
        }
        index.find_best_of_domains(tree);
        index
    }

    /// The spot of the node at a position.
    pub fn spot(&self, position: usize) -> Spot {
        let leaf = self.width + position;
        Spot { slots: self.most[leaf], key: self.best[leaf] }
    }

    /// Replaces the spot of the node at a position.
    pub fn set(&mut self, tree: &Tree, position: usize, spot: Spot) {
        let leaf = self.width + position;
        let old = self.spot(position);
        if old == spot {
            return;
        }
        self.best[leaf] = spot.key;
        self.most[leaf] = spot.slots;
        let mut at = leaf / 2;
        // What is above a range that is what it was is what it was, too.
        while at >= 1 && self.pull(at) {
            at /= 2;
        }
        self.add_to_domains(tree, position, i64::from(spot.slots) - i64::from(old.slots));
        self.refresh_best(tree, tree.root(), old.key, spot.key);
        for level in 0..tree.levels() {
            if let Some(domain) = tree.domain_of(LevelIdx(level as u8), position) {
                self.refresh_best(tree, domain, old.key, spot.key);
            }
        }
    }

    /// Adds to the scores of the nodes at these positions; how many pods each takes stays.
    pub fn shift(&mut self, tree: &Tree, shifts: &[(usize, i64)]) {
        if shifts.len() <= SHIFTED_ALONE_MAX {
            for &(position, by) in shifts {
                self.set(tree, position, self.spot(position).shifted(by));
            }
            return;
        }
        for &(position, by) in shifts {
            self.best[self.width + position] = self.spot(position).shifted(by).key;
        }
        if shifts.len() * SHIFTED_SHARE < self.width {
            return self.find_best_above(tree, shifts);
        }
        for at in (1..self.width).rev() {
            self.pull_best(at);
        }
        self.find_best_of_domains(tree);
    }

    /// Finds the best anew of every range and domain that some of these positions are in.
    fn find_best_above(&mut self, tree: &Tree, shifts: &[(usize, i64)]) {
        let above = shifts.iter().map(|(position, _)| (self.width + position) / 2);
        let mut above: Vec<usize> = above.collect();
        above.sort_unstable();
        above.dedup();
        // All of them are of one height, so those that are halved are again, up to the root.
        while above.first().is_some_and(|at| *at > 0) {
            for at in &mut above {
                self.pull_best(*at);
                *at /= 2;
            }
            above.dedup();
        }
        let mut domains = vec![tree.root()];
        for level in 0..tree.levels() {
            let of = |position| tree.domain_of(LevelIdx(level as u8), position);
            domains.extend(shifts.iter().filter_map(|(position, _)| of(*position)));
            domains.dedup();
        }
        domains.sort_unstable();
        domains.dedup();
        domains.into_iter().for_each(|domain| self.find_best_of(tree, domain));
    }

    fn find_best_of_domains(&mut self, tree: &Tree) {
        for at in 0..self.domains.len() {
            self.find_best_of(tree, DomainIdx(at as u32));
        }
    }

    fn find_best_of(&mut self, tree: &Tree, domain: DomainIdx) {
        let (start, end) = (tree.domain(domain).start, tree.domain(domain).end);
        self.domains[domain.at()].best = match end - start {
            1 => self.best[self.width + start],
            _ => self.best_key(start..end),
        };
    }

    /// Slots of a whole domain.
    #[inline]
    pub fn slots(&self, domain: DomainIdx) -> u64 {
        self.domains[domain.at()].slots
    }

    /// Key of the best node of a range; 0 when nothing fits.
    pub fn best_key(&self, range: Range<usize>) -> u128 {
        self.fold(range, &self.best)
    }

    /// Most slots that any one node of a range has.
    pub fn most_slots(&self, range: Range<usize>) -> u32 {
        self.fold(range, &self.most)
    }

    /// The best node of a range among those with at least `need` slots, `need` above zero.
    pub fn best_holding(&self, range: Range<usize>, need: u32) -> Option<usize> {
        assert!(need > 0, "every node holds nothing");
        let mut found = (0_u128, 0_usize);
        self.search(1, 0..self.width, &range, need, &mut found);
        (found.0 > 0).then_some(found.1)
    }

    /// The best of some domains that holds `need` pods: highest value of its best nodes, then
    /// the tightest, then first in the order given.
    pub fn best_domain(
        &self,
        tree: &Tree,
        domains: impl Iterator<Item = DomainIdx>,
        need: u32,
    ) -> Option<DomainIdx> {
        let mut chosen: Option<(u64, u64, DomainIdx)> = None;
        for domain in domains {
            let fit = self.domains[domain.at()];
            if fit.slots < u64::from(need) {
                continue;
            }
            let bound = self.value_at_most(domain, need);
            if let Some((value, slots, _)) = chosen
                && (bound < value || (bound == value && fit.slots >= slots))
            {
                continue;
            }
            let value = self.value(tree, domain, need);
            let better = match chosen {
                None => true,
                Some((best, slots, _)) => value > best || (value == best && fit.slots < slots),
            };
            if better {
                chosen = Some((value, fit.slots, domain));
            }
        }
        chosen.map(|(_, _, domain)| domain)
    }

    /// The same however wide domains are: each is valued by all of its nodes.
    pub fn worthiest(
        &self,
        tree: &Tree,
        domains: impl Iterator<Item = DomainIdx>,
        need: u32,
    ) -> Option<DomainIdx> {
        let holding = domains.filter(|domain| self.slots(*domain) >= u64::from(need));
        let rank =
            |domain: &DomainIdx| (Reverse(self.worth(tree, *domain, need)), self.slots(*domain));
        holding.min_by_key(rank)
    }

    /// Sum of the scores that the best `need` slots of a domain have now.
    pub fn worth(&self, tree: &Tree, domain: DomainIdx, need: u32) -> u64 {
        let (start, end) = (tree.domain(domain).start, tree.domain(domain).end);
        let leaves = self.width + start..self.width + end;
        let spots = leaves.map(|leaf| (Spot::score(self.best[leaf]), self.most[leaf]));
        sum_of_best(&mut spots.collect::<Vec<_>>(), need)
    }

    /// The domain with the most slots, first in path order; `None`: there is none.
    pub fn most_room(&self, domains: &[DomainIdx]) -> Option<(DomainIdx, u64)> {
        let slots = domains.iter().map(|domain| (*domain, self.slots(*domain)));
        slots.min_by_key(|(domain, slots)| (u64::MAX - slots, *domain))
    }

    /// What a domain is worth at most: as if `need` pods were all on its best node.
    #[inline]
    pub fn value_at_most(&self, domain: DomainIdx, need: u32) -> u64 {
        u64::from(Spot::score(self.domains[domain.at()].best)) * u64::from(need)
    }

    /// What a domain is worth, about: one of many nodes as much as it is at most.
    pub fn value(&self, tree: &Tree, domain: DomainIdx, need: u32) -> u64 {
        let (start, end) = (tree.domain(domain).start, tree.domain(domain).end);
        if end - start > EXACT_NODES_MAX {
            return self.value_at_most(domain, need);
        }
        let mut spots = [(0_u32, 0_u32); EXACT_NODES_MAX];
        let spots = &mut spots[..end - start];
        for (slot, leaf) in spots.iter_mut().zip(self.width + start..self.width + end) {
            *slot = (Spot::score(self.best[leaf]), self.most[leaf]);
        }
        sum_of_best(spots, need)
    }

    fn add_to_domains(&mut self, tree: &Tree, position: usize, slots: i64) {
        let grow = |fit: &mut DomainFit| {
            fit.slots = fit.slots.checked_add_signed(slots).expect("slots of a domain below zero");
        };
        grow(&mut self.domains[tree.root().at()]);
        for level in 0..tree.levels() {
            if let Some(domain) = tree.domain_of(LevelIdx(level as u8), position) {
                grow(&mut self.domains[domain.at()]);
            }
        }
    }

    fn refresh_best(&mut self, tree: &Tree, domain: DomainIdx, old: u128, new: u128) {
        let best = self.domains[domain.at()].best;
        if new >= best {
            self.domains[domain.at()].best = new;
        } else if old == best {
            let domain_range = tree.domain(domain).start..tree.domain(domain).end;
            self.domains[domain.at()].best = self.best_key(domain_range);
        }
    }

    /// Finds anew what a range has; whether that is another than it was.
    fn pull(&mut self, at: usize) -> bool {
        let before = (self.best[at], self.most[at]);
        self.pull_best(at);
        self.most[at] = self.most[2 * at].max(self.most[2 * at + 1]);
        (self.best[at], self.most[at]) != before
    }

    fn pull_best(&mut self, at: usize) {
        self.best[at] = self.best[2 * at].max(self.best[2 * at + 1]);
    }

    fn fold<V: Copy + Ord + Default>(&self, range: Range<usize>, values: &[V]) -> V {
        let (mut low, mut high) = (self.width + range.start, self.width + range.end);
        let mut max = V::default();
        while low < high {
            if low % 2 == 1 {
                max = max.max(values[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                max = max.max(values[high]);
            }
            low /= 2;
            high /= 2;
        }
        max
    }

    /// Depth-first, best child first, skipping ranges that cannot beat what was found.
    fn search(
        &self,
        at: usize,
        span: Range<usize>,
        range: &Range<usize>,
        need: u32,
        found: &mut (u128, usize),
    ) {
        let outside = span.end <= range.start || range.end <= span.start;
        if outside || self.best[at] <= found.0 || self.most[at] < need {
            return;
        }
        if at >= self.width {
            *found = (self.best[at], at - self.width);
            return;
        }
        let middle = (span.start + span.end) / 2;
        let (left, right) = (2 * at, 2 * at + 1);
        if self.best[left] >= self.best[right] {
            self.search(left, span.start..middle, range, need, found);
            self.search(right, middle..span.end, range, need, found);
        } else {
            self.search(right, middle..span.end, range, need, found);
            self.search(left, span.start..middle, range, need, found);
        }
    }

    /// Compares every kept number with one computed from the leaves.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, tree: &Tree) {
        let spots: Vec<Spot> = (0..tree.order().len()).map(|at| self.spot(at)).collect();
        let fresh = FitIndex::build(tree, spots.into_iter());
        assert_eq!(self.best, fresh.best, "best keys");
        assert_eq!(self.most, fresh.most, "most slots");
        assert_eq!(self.domains, fresh.domains, "domain sums");
    }
}

/// Sum of the best `need` of these scores, each of which is there so many times.
fn sum_of_best(spots: &mut [(u32, u32)], need: u32) -> u64 {
    spots.sort_unstable_by(|a, b| b.cmp(a));
    let (mut left, mut sum) = (need, 0_u64);
    for &(score, slots) in spots.iter() {
        let used = slots.min(left);
        sum += u64::from(score) * u64::from(used);
        left -= used;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeIdx;
    use crate::tree::Place;

    /// Two racks of three nodes.
    fn racks() -> Tree {
        let place = |n: u32| Place { values: vec![Some(n / 3)], rank: n, node: NodeIdx(n) };
        Tree::build(1, (0..6).map(place).collect())
    }

    fn index(tree: &Tree, spots: &[(u32, u32)]) -> FitIndex {
        let spot = |(at, &(slots, score)): (usize, &(u32, u32))| match slots {
            0 => Spot::FULL,
            _ => Spot::new(slots, score, 0, at as u32),
        };
        let spots: Vec<Spot> = spots.iter().enumerate().map(spot).collect();
        FitIndex::build(tree, spots.into_iter())
    }

    #[test]
    fn the_best_node_has_the_highest_score_then_the_lowest_rank() {
        let tree = racks();
        let index = index(&tree, &[(1, 5), (4, 9), (1, 9), (0, 0), (8, 7), (8, 7)]);
        assert_eq!(index.best_holding(0..6, 1), Some(1));
        assert_eq!(index.best_holding(0..6, 5), Some(4));
        assert_eq!(index.best_holding(3..4, 1), None);
        assert_eq!(index.best_holding(0..6, 9), None);
    }

    #[test]
    fn equal_scores_end_at_least_idle_devices() {
        let tree = racks();
        let mut index = index(&tree, &[(1, 5); 6]);
        index.set(&tree, 0, Spot::new(1, 5, 3, 0));
        index.set(&tree, 4, Spot::new(1, 5, 0, 4));
        index.set(&tree, 1, Spot::FULL);
        assert_eq!(index.best_holding(0..2, 1), Some(0));
        assert_eq!(index.best_holding(3..6, 1), Some(3));
        index.recount(&tree);
    }

    #[test]
    fn the_tightest_of_equal_domains_wins() {
        let tree = racks();
        let index = index(&tree, &[(2, 5), (2, 5), (2, 5), (2, 5), (2, 5), (0, 0)]);
        let racks = tree.domains_at(LevelIdx(0));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 4), Some(racks[1]));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 5), Some(racks[0]));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 7), None);
        assert_eq!(index.most_room(racks), Some((racks[0], 6)));
    }

    #[test]
    fn a_domain_is_worth_its_best_slots_not_its_single_best_node() {
        let tree = racks();
        let index = index(&tree, &[(1, 9), (2, 1), (2, 1), (1, 8), (1, 8), (1, 8)]);
        let racks = tree.domains_at(LevelIdx(0));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 3), Some(racks[1]));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 1), Some(racks[0]));
        assert_eq!(index.value(&tree, racks[0], 3), 9 + 1 + 1);
        assert_eq!(index.value_at_most(racks[0], 3), 3 * 9);
    }

    #[test]
    fn a_wide_domain_is_worth_its_best_slots_to_whom_that_matters() {
        let place = |n: u32| Place { values: vec![Some(n / 70)], rank: n, node: NodeIdx(n) };
        let tree = Tree::build(1, (0..140).map(place).collect());
        let score = |n: u32| match n {
            0 => 9,
            1..70 => 1,
            _ => 6,
        };
        let index = index(&tree, &(0..140).map(|n| (1, score(n))).collect::<Vec<_>>());
        let racks = tree.domains_at(LevelIdx(0));
        assert_eq!(index.best_domain(&tree, racks.iter().copied(), 2), Some(racks[0]));
        assert_eq!(index.worthiest(&tree, racks.iter().copied(), 2), Some(racks[1]));
        assert_eq!(index.worth(&tree, racks[0], 2), 10);
        assert_eq!(index.worthiest(&tree, racks.iter().copied(), 71), None);
    }

    #[test]
    fn shifts_of_many_and_of_few_come_to_what_setting_each_does() {
        // Wide enough that a few are few.
        let place = |n: u32| Place { values: vec![Some(n / 10)], rank: n, node: NodeIdx(n) };
        let tree = Tree::build(1, (0..40).map(place).collect());
        let spots: Vec<(u32, u32)> = (0..40).map(|at| (at % 4, 100 + at)).collect();
        let mut state = 7_u32;
        let mut shifted = index(&tree, &spots);
        // One by one, by what is above them, and all at once.
        for count in [0, 1, 2, 4, 5, 9, 15, 16, 20, 40] {
            let mut each = shifted.clone();
            let mut shifts = Vec::new();
            for position in 0..count {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let by = i64::from(state >> 16) % 30 - 15;
                shifts.push((39 - position, by));
                let Spot { slots, key } = each.spot(39 - position);
                let spot = match slots {
                    0 => Spot::FULL,
                    _ => {
                        let score = (i64::from(Spot::score(key)) + by) as u32;
                        Spot::new(slots, score, 0, 39 - position as u32)
                    }
                };
                each.set(&tree, 39 - position, spot);
            }
            shifted.shift(&tree, &shifts);
            shifted.recount(&tree);
            let spots = |index: &FitIndex| (0..40).map(|at| index.spot(at)).collect::<Vec<_>>();
            assert_eq!(spots(&shifted), spots(&each), "{count} nodes");
            assert_eq!(shifted.domains, each.domains, "{count} nodes");
        }
    }

    #[test]
    fn kept_numbers_equal_a_rebuild_after_many_changes() {
        let tree = racks();
        let mut index = index(&tree, &[(1, 5); 6]);
        let mut state = 7_u32;
        for _ in 0..500 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (at, slots) = ((state >> 8) as usize % 6, (state >> 16) % 4);
            let spot = match slots {
                0 => Spot::FULL,
                _ => Spot::new(slots, (state >> 20) % 8, (state >> 24) % 3, at as u32),
            };
            index.set(&tree, at, spot);
            index.recount(&tree);
        }
    }
}
