//! The search for places of members that depend on each other that goes through all of them.
//!
//! It takes one member after the other, of any ask, to any node that would have it as things are,
//! with any volumes and devices that it could take there ([`ways`](crate::place::ways)), and goes
//! back where that leads nowhere. Where nobody opens nodes for others, by being there or by what it
//! takes, the order does not matter, and those who find the fewest go first.
//! States that were reached in another order are looked at once, and nodes that look the same to
//! all members are tried once. Where levels or slices hold for sets of members, it keeps to them
//! ([`Confines`](super::Confines)).

use std::collections::BTreeSet;

use capstan_topology::NodeIdx;

use super::{NODES_MAX, STEPS_FEWER, STEPS_MAX, Search};
use crate::model::txn::Txn;
use crate::place::budget;
use crate::place::search::{MEMBERS_MAX, SEEN_MAX};
use crate::place::ways;

impl Search {
    /// Every choice, until one leads to the end.
    pub(super) fn everything(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.range.len() > NODES_MAX || self.are_too_many() {
            return false;
        }
        let fewer = self.confines.is_some() || self.choosing.is_some();
        let bound = if fewer { STEPS_FEWER } else { STEPS_MAX };
        let members = self.left.iter().map(|left| *left as usize).sum();
        let kinds = self.choosing.as_ref().map(|_| self.asks.len());
        let allowed = budget::allow(txn, bound, members, kinds);
        self.most = allowed.most;
        let found = self.go_on(txn);
        allowed.spend(txn, self.steps);
        found
    }

    /// Whether more members are left than everything is tried for.
    pub(super) fn are_too_many(&self) -> bool {
        self.left.iter().map(|left| *left as usize).sum::<usize>() > MEMBERS_MAX
    }

    fn go_on(&mut self, txn: &mut Txn<'_>) -> bool {
        self.left.iter().all(|left| *left == 0)
            || self.next(txn).into_iter().any(|at| self.try_nodes(txn, at))
    }

    /// Whose turn it is: anybody's, or where the order does not matter, theirs who find the fewest
    /// nodes.
    fn next(&self, txn: &mut Txn<'_>) -> Vec<usize> {
        let left = (0..self.asks.len()).filter(|at| self.left[*at] > 0);
        if !self.in_any_order {
            return left.collect();
        }
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let fewest = left.min_by_key(|at| (self.spots(txn, *at).len(), *at));
        fewest.into_iter().collect()
    }

    /// A member of an ask to one node after the other, and all that are left after it.
    fn try_nodes(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let mut spots = self.spots(txn, at);
        spots.sort_unstable();
        let mut tried: BTreeSet<(Vec<u32>, Vec<i64>)> = BTreeSet::new();
        for (_, position) in spots {
            let node = txn.state().room.tree.order()[position];
            self.asks.iter().for_each(|class| txn.fresh(*class));
            if !tried.insert(self.looks(txn, position)) {
                continue;
            }
            for (number, way) in ways::ways(&mut self.choosing, txn, self.asks[at], node) {
                let taken = (at as u16, node, number);
                if !self.is_new(taken) {
                    continue;
                }
                self.steps += 1;
                if self.steps > self.most {
                    return false;
                }
                let mark = txn.checkpoint();
                self.put_in(txn, at, node, way);
                self.state.push(taken);
                self.confine(txn, at, position, true);
                if self.go_on(txn) {
                    return true;
                }
                txn.rollback_to(mark);
                self.confine(txn, at, position, false);
                self.state.pop();
                self.places.pop();
                self.left[at] += 1;
            }
        }
        false
    }

    /// Nodes that would have one, the tightest first.
    fn spots(&self, txn: &Txn<'_>, at: usize) -> Vec<(u32, usize)> {
        let index = txn.state().classes.fit(self.asks[at]);
        let slots = self.range.clone().map(|position| (index.spot(position).slots, position));
        let tree = &txn.state().room.tree;
        let allowed = |position: usize| {
            self.confines.as_ref().is_none_or(|confines| confines.allow(tree, at, position))
        };
        slots.filter(|(slots, position)| *slots > 0 && allowed(*position)).collect()
    }

    /// A member is at a position, or no more.
    fn confine(&mut self, txn: &Txn<'_>, at: usize, position: usize, there: bool) {
        let tree = &txn.state().room.tree;
        match &mut self.confines {
            None => {}
            Some(confines) if there => confines.put(tree, at, position),
            Some(confines) => confines.take_back(tree, at, position),
        }
    }

    /// Whether the state with one more member was not looked at yet.
    fn is_new(&mut self, taken: (u16, NodeIdx, u32)) -> bool {
        if self.state.len() >= SEEN_MAX {
            return true;
        }
        let mut state = self.state.clone();
        state.push(taken);
        state.sort_unstable();
        self.seen.insert(state)
    }

    /// All that members can tell of a node.
    fn looks(&mut self, txn: &Txn<'_>, position: usize) -> (Vec<u32>, Vec<i64>) {
        let state = txn.state();
        let node = state.room.tree.order()[position];
        let mut looks: Vec<u32> = Vec::new();
        for class in &self.asks {
            looks.push(state.classes.fit(*class).spot(position).slots);
            state.classes.class(*class).outlook().looks(&state.room, node, &mut looks);
        }
        if let Some(choosing) = &mut self.choosing {
            choosing.looks(txn, position, &mut looks);
        }
        if let Some(attached) = &self.attached {
            attached.looks(state, position, &mut looks);
        }
        if let Some(confines) = &self.confines {
            confines.looks(&state.room.tree, position, &mut looks);
        }
        let free = |resource| state.room.ledger.free(node, resource);
        (looks, self.resources.iter().map(|resource| free(*resource)).collect())
    }
}
