//! More quota of several flavors at once: one of each resource group of a ClusterQueue.
//!
//! Where more of one alone is not enough, combinations of flavors are raised that have nodes in
//! common: whichever flavor is short, members have to find a node that is of all of them. They are
//! tried in the queue's order, the flavor of the first group changing last. Of those that start the
//! workload the cheapest is told, of equals the first. Cost: one look at the facts of every node
//! for each flavor, and a few nominations for each of a bounded number of combinations.

use capstan_topology::NodeIdx;

use crate::engine::Engine;
use crate::engine::remedies::amounts::{Asked, Cost};
use crate::engine::remedies::changes::in_turn;
use crate::engine::remedies::order;
use crate::explain::view::Remedy;
use crate::model::ids::{FlavorIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::place::classes::Scoring;
use crate::time::Time;

/// Combinations that are raised: each costs a few nominations.
const COMBINATIONS_MAX: usize = 8;

/// Flavors looked at for those: all of two groups of a dozen and a half.
const LOOKS_MAX: u32 = 512;

/// A flavor of a group.
#[derive(Debug)]
struct Offer {
    flavor: FlavorIdx,
    /// Of each shape the nodes that admit it, sorted.
    nodes: Vec<Vec<NodeIdx>>,
}

/// A walk through the flavors of some groups.
struct Walk<'a> {
    groups: &'a [Vec<Offer>],
    /// Flavors that may still be looked at.
    looks: u32,
    found: Vec<Vec<FlavorIdx>>,
}

impl Walk<'_> {
    /// Walks on from the flavors that were chosen of the first groups, which have these nodes.
    fn go_on(&mut self, nodes: &[Vec<NodeIdx>], chosen: &mut Vec<FlavorIdx>) {
        let groups = self.groups;
        let Some(group) = groups.get(chosen.len()) else {
            self.found.push(chosen.clone());
            return;
        };
        for offer in group {
            if self.found.len() == COMBINATIONS_MAX || self.looks == 0 {
                return;
            }
            self.looks -= 1;
            let common = match chosen.is_empty() {
                true => offer.nodes.clone(),
                false => in_common(nodes, &offer.nodes),
            };
            if common.iter().any(|nodes| !nodes.is_empty()) {
                chosen.push(offer.flavor);
                self.go_on(&common, chosen);
                chosen.pop();
            }
        }
    }
}

/// Of each shape the nodes that are in both.
fn in_common(some: &[Vec<NodeIdx>], others: &[Vec<NodeIdx>]) -> Vec<Vec<NodeIdx>> {
    let both = |(some, others): (&Vec<NodeIdx>, &Vec<NodeIdx>)| {
        some.iter().copied().filter(|node| others.binary_search(node).is_ok()).collect()
    };
    some.iter().zip(others).map(both).collect()
}

impl Engine {
    /// More quota of a flavor of each resource group that it asks something of, where that of one
    /// alone is not enough; what members were told to cost with those that are `short`.
    pub(super) fn raise_together(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        queue: QueueIdx,
        short: &[(FlavorIdx, i64)],
    ) -> Option<Remedy> {
        if self.state.quota.queue(queue).groups.len() < 2 || short.is_empty() {
            return None;
        }
        let groups = self.offers_of(index, queue);
        let mut walk = Walk { groups: &groups, looks: LOOKS_MAX, found: Vec::new() };
        walk.go_on(&[], &mut Vec::new());
        let mut found: Vec<Remedy> = Vec::new();
        for flavors in walk.found {
            let told = |flavor: FlavorIdx| {
                let known = short.iter().find(|(known, _)| *known == flavor);
                (flavor, known.map_or(0, |(_, told)| *told))
            };
            let flavors: Vec<(FlavorIdx, i64)> = flavors.into_iter().map(told).collect();
            found.extend(self.raise_combined(now, index, queue, &flavors));
        }
        // Of equals that is the first.
        found.into_iter().min_by_key(|remedy| {
            let (unless, rank, at, lost, price, ..) = order(remedy);
            (unless, rank, at, lost, price)
        })
    }

    /// More quota of these flavors, with what members were told to cost.
    fn raise_combined(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        queue: QueueIdx,
        flavors: &[(FlavorIdx, i64)],
    ) -> Option<Remedy> {
        let (mut cheap, mut dear) = (Asked::new(), Asked::new());
        for &(flavor, told) in flavors {
            for (all, cost) in [(&mut cheap, Cost::Least), (&mut dear, Cost::Now { told })] {
                // What all sets ask comes last.
                let mut asked = self.asked_of(index, queue, flavor, cost);
                all.extend(asked.pop().unwrap_or_default());
            }
        }
        let mut tries = in_turn(&cheap, &dear).into_iter();
        tries.find_map(|(how, asked)| self.raise_for(now, index, queue, (&asked[..], (how, true))))
    }

    /// The flavors of each group that something is asked of, in their order.
    fn offers_of(&mut self, index: WorkloadIdx, queue: QueueIdx) -> Vec<Vec<Offer>> {
        let groups = self.state.quota.queue(queue).groups.iter();
        let groups: Vec<Vec<FlavorIdx>> = groups.map(|group| group.flavors.clone()).collect();
        let sets = self.least_demands(index);
        let shapes: Vec<ShapeIdx> = sets.iter().map(|set| set.shape).collect();
        let scoring = self.profile(Some(queue));
        let mut offers = Vec::with_capacity(groups.len());
        for flavors in groups {
            let asks = flavors.iter().any(|flavor| {
                let asked = self.asked_of(index, queue, *flavor, Cost::Least);
                asked.iter().any(|asked| !asked.is_empty())
            });
            if asks {
                let offer = |flavor: &FlavorIdx| Offer {
                    flavor: *flavor,
                    nodes: self.nodes_of(&shapes, *flavor, scoring),
                };
                offers.push(flavors.iter().map(offer).collect());
            }
        }
        offers
    }

    /// Of each shape the nodes of a flavor that admit it, whatever is free there.
    fn nodes_of(
        &mut self,
        shapes: &[ShapeIdx],
        flavor: FlavorIdx,
        scoring: Scoring,
    ) -> Vec<Vec<NodeIdx>> {
        let of_shape = |shape: &ShapeIdx| {
            let class = self.state.class(*shape, &[flavor], scoring);
            if self.state.room.shape(*shape).facts.volumes.is_some() {
                // What they mean is known from then on.
                self.state.classes.fresh(&self.state.room, class);
            }
            let (room, classes) = (&self.state.room, &self.state.classes);
            let nodes = room.tree.order().iter().copied();
            let admit = nodes.filter(|node| classes.accepts(room, class, *node));
            let mut admit: Vec<NodeIdx> = admit.collect();
            admit.sort_unstable();
            admit
        };
        shapes.iter().map(of_shape).collect()
    }
}
