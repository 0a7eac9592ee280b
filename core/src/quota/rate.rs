//! What work costs while it runs, and by the prices of which nodes.
//!
//! Problem: the price of a member is fixed when it is placed, and written on it. One that bears
//! none is charged what its node costs, which changes while it runs.
//!
//! Kept: for work that has such members their nodes, and the same by node, so that a change of a
//! price touches whom it concerns. Cost: nothing where every member bears a price.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::model::ids::WorkloadIdx;
use crate::money::MicroUsd;
use crate::time::Time;

/// What something costs while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Hourly price of members whose price is known.
    pub per_hour: MicroUsd,
    /// Thousandths of GPUs.
    pub milli_gpus: i64,
    /// Members whose price is not known.
    pub unpriced: u32,
    /// Members whose price nobody recorded: that of their node counts, as it is now.
    pub assumed: u32,
}

/// What one member costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// How much.
    pub rate: Rate,
    /// Its bind, unless what it cost before now is counted.
    pub uncounted_since: Option<Time>,
    /// The node by whose price it is charged, where nobody recorded another.
    pub follows: Option<NodeIdx>,
}

impl Rate {
    /// The sum of both.
    pub fn plus(self, other: Rate) -> Rate {
        Rate {
            per_hour: self.per_hour.plus(other.per_hour),
            milli_gpus: self.milli_gpus.saturating_add(other.milli_gpus),
            unpriced: self.unpriced.saturating_add(other.unpriced),
            assumed: self.assumed.saturating_add(other.assumed),
        }
    }

    /// What is left without the other.
    pub fn minus(self, other: Rate) -> Rate {
        Rate {
            per_hour: MicroUsd(self.per_hour.0.saturating_sub(other.per_hour.0)),
            milli_gpus: self.milli_gpus.saturating_sub(other.milli_gpus),
            unpriced: self.unpriced.saturating_sub(other.unpriced),
            assumed: self.assumed.saturating_sub(other.assumed),
        }
    }

    /// What is more than the other.
    pub fn beyond(self, other: Rate) -> Rate {
        let left = self.minus(other);
        let per_hour = MicroUsd(left.per_hour.0.max(0));
        Rate { per_hour, milli_gpus: left.milli_gpus.max(0), ..left }
    }

    /// Whether nothing runs.
    pub fn is_nothing(self) -> bool {
        self == Rate::default()
    }
}

/// By the prices of which nodes members of work are charged that bear none.
#[derive(Debug, Default)]
pub struct Followed {
    nodes: BTreeMap<WorkloadIdx, BTreeSet<NodeIdx>>,
    by_node: BTreeSet<(NodeIdx, WorkloadIdx)>,
}

impl Followed {
    /// States what members of work cost.
    pub fn put(&mut self, workload: WorkloadIdx, members: &[Cost]) {
        let nodes: BTreeSet<NodeIdx> = members.iter().filter_map(|cost| cost.follows).collect();
        for node in self.nodes.remove(&workload).unwrap_or_default() {
            self.by_node.remove(&(node, workload));
        }
        if !nodes.is_empty() {
            self.by_node.extend(nodes.iter().map(|node| (*node, workload)));
            self.nodes.insert(workload, nodes);
        }
    }

    /// Work that is charged by the price of a node, or of any.
    pub fn by(&self, node: Option<NodeIdx>) -> Vec<WorkloadIdx> {
        let Some(node) = node else { return self.nodes.keys().copied().collect() };
        let from = self.by_node.range((node, WorkloadIdx::FIRST)..);
        from.take_while(|(of, _)| *of == node).map(|(_, workload)| *workload).collect()
    }

    /// Compares both ways to look it up, and looks for work of which all prices stand `fast`.
    ///
    /// # Panics
    /// When they differ, or such work is there.
    pub fn recount(&self, fast: impl Fn(WorkloadIdx) -> bool) {
        let mut pairs: BTreeSet<(NodeIdx, WorkloadIdx)> = BTreeSet::new();
        for (workload, nodes) in &self.nodes {
            pairs.extend(nodes.iter().map(|node| (*node, *workload)));
        }
        assert_eq!(self.by_node, pairs, "work by the nodes that it is charged by");
        let odd = self.nodes.keys().find(|workload| fast(**workload));
        assert!(odd.is_none(), "{odd:?} is charged by nodes, and its prices stand fast");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_found_by_the_nodes_that_it_is_charged_by_and_by_no_others() {
        let works = [0, 1].map(WorkloadIdx::stand_in);
        let cost = |node: Option<u32>| Cost {
            rate: Rate::default(),
            uncounted_since: None,
            follows: node.map(NodeIdx),
        };
        let mut followed = Followed::default();
        followed.put(works[0], &[cost(Some(1)), cost(Some(3)), cost(Some(1)), cost(None)]);
        followed.put(works[1], &[cost(Some(3))]);
        let by = |followed: &Followed, node: u32| followed.by(Some(NodeIdx(node)));
        assert_eq!((by(&followed, 1), by(&followed, 2)), (vec![works[0]], Vec::new()));
        assert_eq!((by(&followed, 3).len(), followed.by(None).len()), (2, 2));
        followed.put(works[0], &[cost(Some(2))]);
        assert_eq!((by(&followed, 1), by(&followed, 3)), (Vec::new(), vec![works[1]]));
        followed.put(works[0], &[]);
        assert_eq!((by(&followed, 2), followed.by(None)), (Vec::new(), vec![works[1]]));
        followed.recount(|work| work == works[0]);
    }
}
