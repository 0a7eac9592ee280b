//! The search for places of members that depend on each other that goes through all of them.
//!
//! It takes one member after the other, of any ask, to any node that would have it as things are,
//! with any volumes and devices that it could take there ([`ways`](crate::place::ways)), and goes
//! back where that leads nowhere. Where nobody opens nodes for others, by being there or by what it
//! takes, the order does not matter, and those who find the fewest go first.
//! States that were reached in another order are looked at once, and nodes that look the same to
//! all members are tried once; those that take nobody are not looked at
//! ([`candidates`](crate::place::candidates)). Where levels or slices hold for sets of members, it
//! keeps to them ([`Confines`](super::Confines)). Who of an elastic gang goes nowhere is left out
//! ([`Fewer`](super::Fewer)).

use std::collections::BTreeSet;

use capstan_topology::NodeIdx;

use super::{NODES_MAX, Place, STEPS_FEWER, STEPS_MAX, Search};
use crate::model::txn::Txn;
use crate::place::candidates::Candidates;
use crate::place::search::{MEMBERS_MAX, SEEN_MAX};
use crate::place::{at_once, budget, exact, ways};
use crate::rules::{self, Question};

impl Search {
    /// Every choice, until one leads to the end.
    pub(super) fn everything(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.are_too_many() || !self.look_out(txn) {
            return false;
        }
        let fewer = self.confines.is_some() || self.choosing.is_some();
        let bound = if fewer { STEPS_FEWER } else { STEPS_MAX };
        let bound = self.leaving.as_ref().map_or(bound, |leaving| leaving.steps(bound));
        let nodes = self.nodes.as_deref().unwrap_or_default();
        let all_look = self.choosing.is_some() || self.leaving.is_some();
        let kinds = if all_look { self.asks.len() } else { 0 };
        let looks = kinds.saturating_mul(nodes.len());
        if self.choosing.is_some() {
            txn.focus(nodes);
        }
        let allowed = budget::allow(txn, bound, self.members(), looks);
        self.most = allowed.most;
        let found = self.go_on(txn);
        txn.unfocus();
        allowed.spend(txn, self.steps);
        found || self.steps > self.most && self.fill_exactly(txn)
    }

    /// Members that fill their nodes go where amounts say ([`exact`]), if everything else lets
    /// them: who wants others near comes after those.
    fn fill_exactly(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.choosing.is_some() || self.confines.is_some() || self.leaving.is_some() {
            return false;
        }
        let nodes = self.nodes.clone().unwrap_or_default();
        let Some(mut open) = exact::find(txn, &self.counts(), &nodes) else { return false };
        let (mark, left) = (txn.checkpoint(), self.left.clone());
        loop {
            let before = open.len();
            open.retain(|place| !self.goes(txn, place));
            if open.is_empty() {
                return true;
            }
            if open.len() == before {
                self.back_to(txn, mark, left);
                return false;
            }
        }
    }

    /// Puts a member to its place, if that takes it as things are.
    fn goes(&mut self, txn: &mut Txn<'_>, place: &Place) -> bool {
        txn.fresh(self.asks[place.ask]);
        let state = txn.state();
        let position = state.room.tree.position(place.node).expect("an offered node");
        let fits = state.classes.fit(self.asks[place.ask]).spot(position).slots > 0;
        if fits {
            self.put(txn, place.ask, place.node);
        }
        fits
    }

    /// Finds out which nodes are looked at; `false`: none need be, or they are too many.
    fn look_out(&mut self, txn: &mut Txn<'_>) -> bool {
        self.asks.iter().for_each(|class| txn.fresh(*class));
        self.nodes = None;
        let counts = self.counts();
        let Some(found) = Candidates::of(txn, &counts, self.range.clone()) else { return false };
        if let Some(choosing) = &mut self.choosing {
            choosing.leave_out(found.plain());
        }
        self.refused.clear();
        self.nodes = found.unlike(self.members(), |position| {
            self.see_refused(txn, position);
            self.looks(txn, position)
        });
        for position in self.nodes.clone().into_iter().flatten() {
            self.see_refused(txn, position);
        }
        // In a small domain that was looked at before.
        let least = self.least();
        self.nodes.as_ref().is_some_and(|nodes| {
            self.range.len() <= NODES_MAX || at_once::may_hold_some(txn, &counts, nodes, least)
        })
    }

    /// Notes by which rules a position refuses those for whom others may open it: what they find
    /// there now does not tell it from one that nobody can open for them.
    fn see_refused(&mut self, txn: &Txn<'_>, position: usize) {
        let state = txn.state();
        let node = state.room.tree.order()[position];
        let by = |at: usize| {
            let class = state.classes.class(self.asks[at]);
            let opens = self.opened[at] || class.outlook().opens();
            let closed = opens && state.classes.fit(self.asks[at]).spot(position).slots == 0;
            if closed { rules::refusing(&class.question(&state.room, node)) } else { 0 }
        };
        let refused: Vec<u32> = (0..self.asks.len()).map(by).collect();
        self.refused.insert(position, refused);
    }

    pub(super) fn members(&self) -> usize {
        self.left.iter().map(|left| *left as usize).sum()
    }

    /// Whether more members are left than everything is tried for.
    pub(super) fn are_too_many(&self) -> bool {
        self.members() > MEMBERS_MAX
    }

    pub(super) fn go_on(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.leaving.is_some() {
            return self.go_on_leaving(txn);
        }
        self.left.iter().all(|left| *left == 0)
            || self.next(txn).into_iter().any(|at| self.try_nodes(txn, at))
    }

    /// Whose turn it is: anybody's, or where the order does not matter, theirs who find the fewest
    /// nodes.
    pub(super) fn next(&self, txn: &mut Txn<'_>) -> Vec<usize> {
        let left = (0..self.asks.len()).filter(|at| self.left[*at] > 0);
        if !self.in_any_order {
            return left.collect();
        }
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let fewest = left.min_by_key(|at| (self.spots(txn, *at).len(), *at));
        fewest.into_iter().collect()
    }

    /// A member of an ask to one node after the other, and all that are left after it.
    pub(super) fn try_nodes(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
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
    pub(super) fn spots(&self, txn: &Txn<'_>, at: usize) -> Vec<(u32, usize)> {
        let index = txn.state().classes.fit(self.asks[at]);
        let nodes = self.nodes.iter().flatten().copied();
        let slots = nodes.map(|position| (index.spot(position).slots, position));
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
    pub(super) fn is_new(&mut self, taken: (u16, NodeIdx, u32)) -> bool {
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
            let class = state.classes.class(*class);
            class.outlook().looks(&state.room, node, &mut looks);
            looks.push(u32::from(is_taken(&class.question(&state.room, node))));
        }
        looks.extend(self.refused.get(&position).into_iter().flatten());
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

/// Whether others on a node have a host port or a disk that members of a class would need there:
/// who finds no slots for other reasons, too, minds that only once others opened the node.
fn is_taken(question: &Question<'_>) -> bool {
    let mut found = Vec::new();
    rules::node_ports::check(question, &mut found);
    rules::volume_restrictions::check(question, &mut found);
    !found.is_empty()
}
