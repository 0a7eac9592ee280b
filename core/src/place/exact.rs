//! Members that fill their nodes to what is hardly to spare.
//!
//! Problem: a search that puts down one member after the other sees only in the end that a node
//! has room left which nobody can use. Twenty members of as many sizes that exactly fill five nodes
//! have more such ends than can be tried.
//!
//! Node after node, the smallest first, is given members, the largest first, so that no more is
//! left over on it than all nodes together have to spare: where that is little, few ways are left.
//! Of members of one kind only the number counts.
//!
//! Only amounts are looked at, and who may go where as things are; whether all go there has to be
//! tried. It is asked where other searches ended at their bounds; its own is a count, too, of steps
//! that take a few numbers each.

use std::cmp::Reverse;

use capstan_topology::{NodeIdx, ResourceIdx};

use super::at_once::Most;
use super::budget;
use super::coupled::{Count, Place};
use super::search::resources;
use crate::model::ids::ClassIdx;
use crate::model::txn::Txn;

/// Choices that are looked at: of sixty-four members of as many sizes on sixteen nodes that they
/// fill, half of these.
const STEPS_MAX: usize = 65_536;

/// Kinds of members times nodes that are looked at: it goes one call deeper for each.
const PAIRS_MAX: usize = 1_024;

/// Where all of these go as far as amounts say, on these positions; `None`: it was not found.
pub(super) fn find(txn: &mut Txn<'_>, asks: &[Count], positions: &[usize]) -> Option<Vec<Place>> {
    let pairs = asks.len().saturating_mul(positions.len());
    if txn.state().room.args.ignores_any() || pairs > PAIRS_MAX || !budget::look(txn, STEPS_MAX) {
        return None;
    }
    asks.iter().for_each(|(class, _)| txn.fresh(*class));
    let resources = resources(txn, asks.iter().map(|(class, _)| *class));
    let state = txn.state();
    let (room, most) = (&state.room, Most::of(state, asks));
    let nodes: Vec<NodeIdx> =
        positions.iter().map(|position| room.tree.order()[*position]).collect();
    let asked = |class: ClassIdx| -> Vec<i64> {
        let shape = room.shape(state.classes.class(class).key.shape);
        let entries = room.ledger.request(shape.request).entries();
        let amount = |resource: &ResourceIdx| -> i64 {
            let own = entries.iter().filter(|(of, _)| of == resource);
            own.map(|(_, amount)| *amount).sum()
        };
        resources.iter().map(amount).collect()
    };
    let free = |node: &NodeIdx| -> Vec<i64> {
        resources.iter().map(|of| room.ledger.free(*node, *of).max(0)).collect()
    };
    let takes = |ask: usize| -> Vec<bool> {
        positions.iter().map(|position| most.at(ask, *position) > 0).collect()
    };
    let kinds = Kinds {
        asked: asks.iter().map(|(class, _)| asked(*class)).collect(),
        takes: (0..asks.len()).map(takes).collect(),
    };
    let counts = asks.iter().map(|(_, count)| *count).collect();
    let there = fill(&kinds, counts, nodes.iter().map(free).collect())?;
    let mut places = Vec::new();
    for (node, counts) in nodes.into_iter().zip(there) {
        for (ask, count) in counts.into_iter().enumerate() {
            places.extend((0..count).map(|_| Place { ask, node, way: None }));
        }
    }
    Some(places)
}

/// Kinds of members.
struct Kinds {
    /// What one asks of each resource.
    asked: Vec<Vec<i64>>,
    /// Nodes that take some.
    takes: Vec<Vec<bool>>,
}

/// How many of each kind go to each node, by node; `free` is what nodes have of each resource, no
/// less than nothing.
fn fill(kinds: &Kinds, left: Vec<u32>, free: Vec<Vec<i64>>) -> Option<Vec<Vec<u32>>> {
    let resources = free.first()?.len();
    let all = |of: usize| free.iter().fold(0_i64, |sum, free| sum.saturating_add(free[of]));
    let asked = |of: usize| {
        let each = kinds.asked.iter().zip(&left);
        let each = each.map(|(asked, left)| asked[of].saturating_mul(i64::from(*left)));
        each.fold(0_i64, i64::saturating_add)
    };
    let totals: Vec<i64> = (0..resources).map(all).collect();
    let spare: Vec<i64> =
        totals.iter().enumerate().map(|(of, all)| all.saturating_sub(asked(of))).collect();
    if spare.iter().any(|spare| *spare < 0) {
        return None;
    }
    // That of which the least part can be spared.
    let part = |of: usize, by: usize| i128::from(spare[of]) * i128::from(totals[by].max(1));
    let scarce = (0..resources).min_by(|a, b| part(*a, *b).cmp(&part(*b, *a)))?;
    let mut order: Vec<usize> = (0..left.len()).collect();
    order.sort_by_key(|kind| Reverse(kinds.asked[*kind][scarce]));
    let mut nodes: Vec<usize> = (0..free.len()).collect();
    nodes.sort_by_key(|node| free[*node][scarce]);
    let there = vec![vec![0; left.len()]; free.len()];
    let mut filling = Filling { kinds, order, nodes, left, free, spare, there, steps: 0 };
    filling.node(0).then_some(filling.there)
}

/// What has been given to nodes.
struct Filling<'a> {
    kinds: &'a Kinds,
    /// Kinds, the largest first.
    order: Vec<usize>,
    /// Nodes, the smallest first.
    nodes: Vec<usize>,
    /// Members of each kind that have no node.
    left: Vec<u32>,
    /// What nodes have free.
    free: Vec<Vec<i64>>,
    /// What may be left over of each resource, on all nodes that are still to be filled.
    spare: Vec<i64>,
    /// How many of each kind are where, by node.
    there: Vec<Vec<u32>>,
    steps: usize,
}

impl Filling<'_> {
    /// Fills a node, by its place in the order, and all after it.
    fn node(&mut self, at: usize) -> bool {
        if self.left.iter().all(|left| *left == 0) {
            return true;
        }
        let Some(&node) = self.nodes.get(at) else { return false };
        let takes = |kind: &usize| self.left[*kind] > 0 && self.kinds.takes[*kind][node];
        let kinds: Vec<usize> = self.order.iter().copied().filter(takes).collect();
        let rests = self.rests(&kinds);
        self.pick(at, 0, (&kinds, &rests))
    }

    /// What all members ask of each resource that are left of these kinds, from each kind on.
    fn rests(&self, kinds: &[usize]) -> Vec<Vec<i64>> {
        let mut sums = vec![0_i64; self.spare.len()];
        let mut rests = vec![sums.clone()];
        for kind in kinds.iter().rev() {
            for (sum, asked) in sums.iter_mut().zip(&self.kinds.asked[*kind]) {
                *sum = sum.saturating_add(asked.saturating_mul(i64::from(self.left[*kind])));
            }
            rests.push(sums.clone());
        }
        rests.reverse();
        rests
    }

    /// Members of the kinds from one on, as many of each as lead to the end.
    fn pick(&mut self, at: usize, from: usize, (kinds, rests): (&[usize], &[Vec<i64>])) -> bool {
        self.steps += 1;
        let node = self.nodes[at];
        let mut over = self.free[node].iter().zip(&rests[from]).zip(&self.spare);
        let wastes = over.any(|((free, rest), spare)| free.saturating_sub(*rest) > *spare);
        if wastes || self.steps > STEPS_MAX {
            return false;
        }
        let Some(&kind) = kinds.get(from) else { return self.leave(at) };
        for count in (0..=self.most(kind, node)).rev() {
            self.give(kind, node, i64::from(count));
            self.left[kind] -= count;
            self.there[node][kind] = count;
            if self.pick(at, from + 1, (kinds, rests)) {
                return true;
            }
            self.there[node][kind] = 0;
            self.left[kind] += count;
            self.give(kind, node, -i64::from(count));
        }
        false
    }

    /// What is left over on a node is spared, and the next one is filled.
    fn leave(&mut self, at: usize) -> bool {
        let node = self.nodes[at];
        let spared = std::mem::take(&mut self.free[node]);
        self.spare.iter_mut().zip(&spared).for_each(|(spare, over)| *spare -= over);
        let filled = self.node(at + 1);
        self.spare.iter_mut().zip(&spared).for_each(|(spare, over)| *spare += over);
        self.free[node] = spared;
        filled
    }

    /// So many of a kind have what they ask of a node.
    fn give(&mut self, kind: usize, node: usize, count: i64) {
        let asked = self.kinds.asked[kind].iter();
        self.free[node].iter_mut().zip(asked).for_each(|(free, asked)| *free -= asked * count);
    }

    /// Most of a kind that are left and find what they ask on a node.
    fn most(&self, kind: usize, node: usize) -> u32 {
        let asked = self.kinds.asked[kind].iter().zip(&self.free[node]);
        let fit = asked.filter(|(asked, _)| **asked > 0).map(|(asked, free)| free / asked);
        let left = self.left[kind];
        u32::try_from(fit.fold(i64::from(left), i64::min)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members that may go anywhere.
    fn anywhere(asked: Vec<Vec<i64>>, nodes: usize) -> Kinds {
        Kinds { takes: vec![vec![true; nodes]; asked.len()], asked }
    }

    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn twenty_sizes_fill_their_nodes() {
        for (nodes, each, seed) in [(5, 4, 1), (5, 4, 2), (4, 5, 3), (10, 2, 4), (8, 4, 5)] {
            let mut next = numbers(0x9e37_79b9 + seed);
            let mut member = || vec![100 + next(900) as i64, 1 + next(99) as i64, 1];
            let asked: Vec<Vec<i64>> = (0..nodes * each).map(|_| member()).collect();
            let sum = |members: &[Vec<i64>]| -> Vec<i64> {
                (0..3).map(|of| members.iter().map(|member| member[of]).sum::<i64>()).collect()
            };
            let free: Vec<Vec<i64>> = asked.chunks(each).map(sum).collect();
            let mut mixed = asked.clone();
            mixed.sort_by_key(|member| member[0] % 7);
            let found = fill(&anywhere(mixed.clone(), nodes), vec![1; nodes * each], free.clone());
            let found = found.expect("they come from there");
            for (there, free) in found.iter().zip(&free) {
                let here = there.iter().zip(&mixed).filter(|(count, _)| **count > 0);
                let here: Vec<Vec<i64>> = here.map(|(_, member)| member.clone()).collect();
                assert_eq!(sum(&here), *free, "{nodes} nodes, {seed}");
            }
        }
    }

    /// Every way, member by member.
    fn goes(kinds: &Kinds, left: &mut [u32], free: &mut [Vec<i64>]) -> bool {
        let Some(kind) = left.iter().position(|left| *left > 0) else { return true };
        for node in 0..free.len() {
            let asked = &kinds.asked[kind];
            let fits = free[node].iter().zip(asked).all(|(free, asked)| free >= asked);
            if !fits || !kinds.takes[kind][node] {
                continue;
            }
            left[kind] -= 1;
            free[node].iter_mut().zip(asked).for_each(|(free, asked)| *free -= asked);
            let all = goes(kinds, left, free);
            free[node].iter_mut().zip(asked).for_each(|(free, asked)| *free += asked);
            left[kind] += 1;
            if all {
                return true;
            }
        }
        false
    }

    #[test]
    fn it_finds_what_trying_every_way_finds() {
        let mut next = numbers(12_345);
        let mut found = [0, 0];
        for _ in 0..3_000 {
            let (kinds, nodes) = (1 + next(4) as usize, 1 + next(3) as usize);
            let mut asked = || vec![next(5) as i64, next(3) as i64];
            let asked: Vec<Vec<i64>> = (0..kinds).map(|_| asked()).collect();
            let mut takes = || -> Vec<bool> { (0..nodes).map(|_| next(4) > 0).collect() };
            let kinds = Kinds { takes: (0..kinds).map(|_| takes()).collect(), asked };
            let mut left: Vec<u32> = kinds.asked.iter().map(|_| next(3) as u32).collect();
            let mut room = || vec![next(9) as i64, next(6) as i64];
            let mut free: Vec<Vec<i64>> = (0..nodes).map(|_| room()).collect();
            let input = format!("{:?} {:?} {left:?} {free:?}", kinds.asked, kinds.takes);
            let told = fill(&kinds, left.clone(), free.clone()).is_some();
            assert_eq!(told, goes(&kinds, &mut left, &mut free), "{input}");
            found[usize::from(told)] += 1;
        }
        assert!(found[0] > 300 && found[1] > 300, "{found:?}");
    }
}
