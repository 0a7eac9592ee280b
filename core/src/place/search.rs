//! The last resort for a gang of several shapes: a search that goes back on its choices.
//!
//! Filling shape by shape can take the only nodes that another shape could use, or break a node
//! that fitted exactly. Here members are placed one by one, largest first, on the tightest node
//! first; a choice that leads nowhere is taken back, and so is the choice of volumes and devices
//! ([`ways`](super::ways)). Nodes that look the same to every member are tried once, and those that
//! take nobody not at all ([`candidates`](super::candidates)). For a lone gang the search is
//! exhaustive up to its bounds, which are counts; where it ends at them, who fills nodes to what is
//! hardly to spare is looked for in another way ([`exact`]).

use std::collections::BTreeSet;
use std::ops::Range;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx};
use crate::model::txn::Txn;
use crate::place::attached::Attached;
use crate::place::candidates::{Candidates, NODES_MAX};
use crate::place::gang::{self, Ask};
use crate::place::ways::{self, Choosing};
use crate::place::{at_once, budget, exact, turns};
use crate::rules::neighbours::keys::KeyIdx;

/// Placements that one search tries. Far more than a gang of a dozen members on a few racks
/// needs; it bounds what a gang costs that fits nowhere. All searches of one decision share what
/// they may try ([`budget`]).
const STEPS_MAX: u32 = 4_096;

/// Gangs of more members than this are not searched for: a search goes one call deeper for each,
/// on whatever stack it is asked on, and so few steps seldom help so many.
pub(super) const MEMBERS_MAX: usize = 512;

/// States of more members than this are not remembered: a search of so few steps seldom comes back
/// to one, and each takes memory by the member.
pub(super) const SEEN_MAX: usize = 128;

/// Places every member somewhere in a range of positions, or nothing and answers `false`.
pub fn place(txn: &mut Txn<'_>, asks: &[&Ask], range: Range<usize>) -> bool {
    let members = asks.iter().flat_map(|ask| ask.pods.iter().map(|pod| (ask.class, *pod)));
    if members.clone().count() > MEMBERS_MAX {
        note_end(txn, asks, SearchBound::Members(MEMBERS_MAX as u32));
        return false;
    }
    let classes: Vec<ClassIdx> = asks.iter().map(|ask| ask.class).collect();
    classes.iter().for_each(|class| txn.fresh(*class));
    let counts = gang::counts_of(asks.iter().copied());
    let mut search = Search {
        members: members.collect(),
        choosing: Choosing::of(txn.state(), &classes),
        attached: Attached::of(txn.state(), &classes),
        apart: keys_apart(txn, &classes),
        classes,
        resources: resources(txn, asks.iter().map(|ask| ask.class)),
        nodes: Vec::new(),
        placed: Vec::new(),
        seen: BTreeSet::new(),
        steps: 0,
        most: 0,
    };
    let found = Candidates::of(txn, &counts, range);
    let few = found.as_ref().is_some_and(|found| found.positions().len() <= NODES_MAX);
    if let Some(found) = found.as_ref().filter(|_| few)
        && !at_once::may_hold(txn, &counts, found.positions())
    {
        return false;
    }
    if !found.is_some_and(|found| search.look_out(txn, found)) {
        note_end(txn, asks, SearchBound::Nodes(NODES_MAX as u32));
        return false;
    }
    if !few && !at_once::may_hold(txn, &counts, &search.nodes) {
        return false;
    }
    let placed = search.run(txn);
    let cut = search.choosing.as_ref().is_some_and(Choosing::was_cut);
    if placed || !(search.steps > search.most || cut) {
        return placed;
    }
    if search.choosing.is_none() && fill_exactly(txn, asks, &search.nodes) {
        return true;
    }
    note_end(txn, asks, SearchBound::Tries(search.most));
    false
}

/// Members that fill their nodes go where amounts say, if everything else lets them.
fn fill_exactly(txn: &mut Txn<'_>, asks: &[&Ask], positions: &[usize]) -> bool {
    let counts = gang::counts_of(asks.iter().copied());
    let Some(places) = exact::find(txn, &counts, positions) else { return false };
    let asks: Vec<Ask> = asks.iter().copied().cloned().collect();
    let start = txn.checkpoint();
    let pods = turns::in_slices(txn, &asks, &places, &[]);
    let placed = gang::put_all(txn, &asks, places.into_iter().zip(pods));
    if !placed {
        txn.rollback_to(start);
    }
    placed
}

fn note_end(txn: &mut Txn<'_>, asks: &[&Ask], bound: SearchBound) {
    let counts = asks.iter().map(|ask| (ask.class, ask.pods.len() as u32));
    txn.note_end(&counts.collect::<Vec<_>>(), bound);
}

/// Where a member of a class is, and the number of what it took.
type Taken = (ClassIdx, NodeIdx, u32);

struct Search {
    members: Vec<(ClassIdx, PodIdx)>,
    classes: Vec<ClassIdx>,
    /// What members choose; `None`: nothing.
    choosing: Option<Choosing>,
    /// Volumes of members that drivers count; `None`: there are none.
    attached: Option<Attached>,
    /// Keys by which members keep each other away from a node that has them.
    apart: Vec<KeyIdx>,
    resources: Vec<ResourceIdx>,
    /// Positions that are looked at.
    nodes: Vec<usize>,
    /// Where members are, and what they took.
    placed: Vec<Taken>,
    /// The same in states that led nowhere.
    seen: BTreeSet<Vec<Taken>>,
    steps: u32,
    /// Steps that it may take.
    most: u32,
}

/// All that members can tell of a node: who may use it, by which keys they keep each other off it,
/// what they can choose there, what it attaches, and what is free.
type Looks = (Vec<u32>, Vec<i64>);

impl Search {
    /// Finds out which nodes are looked at; `false`: they are too many.
    fn look_out(&mut self, txn: &Txn<'_>, found: Candidates) -> bool {
        if let Some(choosing) = &mut self.choosing {
            choosing.leave_out(found.plain());
        }
        let left = found.unlike(self.members.len(), |position| self.looks(txn, position));
        let few = left.is_some();
        self.nodes = left.unwrap_or_default();
        few
    }

    /// Places all members, if it finds how.
    fn run(&mut self, txn: &mut Txn<'_>) -> bool {
        let kinds = self.choosing.as_ref().map_or(0, |_| self.classes.len());
        let looks = kinds.saturating_mul(self.nodes.len());
        let allowed = budget::allow(txn, STEPS_MAX, self.members.len(), looks);
        self.most = allowed.most;
        if self.choosing.is_some() {
            txn.focus(&self.nodes);
        }
        let placed = self.from(txn, 0);
        txn.unfocus();
        allowed.spend(txn, self.steps);
        placed
    }

    /// Places members from one on.
    fn from(&mut self, txn: &mut Txn<'_>, member: usize) -> bool {
        let Some(&(class, pod)) = self.members.get(member) else { return true };
        self.classes.iter().for_each(|class| txn.fresh(*class));
        let mut spots: Vec<(u32, usize)> = self
            .nodes
            .iter()
            .map(|&position| (txn.state().classes.fit(class).spot(position).slots, position))
            .filter(|(slots, _)| *slots > 0)
            .collect();
        spots.sort_unstable();
        let mut tried: Vec<Looks> = Vec::new();
        for (_, position) in spots {
            let looks = self.looks(txn, position);
            if tried.contains(&looks) {
                continue;
            }
            tried.push(looks);
            let node: NodeIdx = txn.state().room.tree.order()[position];
            for (number, way) in ways::ways(&mut self.choosing, txn, class, node) {
                let taken = (class, node, number);
                if !self.is_new(taken) {
                    continue;
                }
                self.steps += 1;
                if self.steps > self.most {
                    return false;
                }
                let mark = txn.checkpoint();
                self.placed.push(taken);
                txn.place_in(pod, node, way.as_ref());
                if self.from(txn, member + 1) {
                    return true;
                }
                txn.rollback_to(mark);
                self.placed.pop();
            }
            // What was tried is taken back.
            self.classes.iter().for_each(|class| txn.fresh(*class));
        }
        false
    }

    /// Whether the state with one more member there was not looked at yet: members of one class
    /// come to the same one in another order.
    fn is_new(&mut self, taken: Taken) -> bool {
        if self.placed.len() >= SEEN_MAX {
            return true;
        }
        let mut state = self.placed.clone();
        state.push(taken);
        state.sort_unstable();
        self.seen.insert(state)
    }

    fn looks(&mut self, txn: &Txn<'_>, position: usize) -> Looks {
        let state = txn.state();
        let node = state.room.tree.order()[position];
        let slots = |class: &ClassIdx| state.classes.fit(*class).spot(position).slots;
        let free = |resource: &ResourceIdx| state.room.ledger.free(node, *resource);
        let mut looks: Vec<u32> = self.classes.iter().map(slots).collect();
        let tables = self.apart.iter().map(|key| state.room.neighbourhood.keys.table(*key));
        looks.extend(tables.map(|table| u32::from(table.domain(node).is_some())));
        if let Some(choosing) = &mut self.choosing {
            choosing.looks(txn, position, &mut looks);
        }
        if let Some(attached) = &self.attached {
            attached.looks(state, position, &mut looks);
        }
        (looks, self.resources.iter().map(free).collect())
    }
}

/// Keys by which members of these classes keep each other away: a node that lacks one holds them
/// together. (Keys with domains of several nodes are [`coupled`](super::coupled)'s to look at.)
fn keys_apart(txn: &mut Txn<'_>, classes: &[ClassIdx]) -> Vec<KeyIdx> {
    let state = txn.state();
    let shape = |class: ClassIdx| state.classes.class(class).key.shape;
    let is_seen = |class: &ClassIdx| state.room.shape(shape(*class)).facts.kin.is_some();
    let seen: Vec<ClassIdx> = classes.iter().copied().filter(is_seen).collect();
    let shapes: Vec<ShapeIdx> = seen.iter().map(|class| shape(*class)).collect();
    let mut keys = BTreeSet::new();
    for class in seen {
        txn.learn(class, &shapes);
        let outlook = txn.state().classes.class(class).outlook();
        keys.extend(shapes.iter().flat_map(|shape| outlook.keys_apart(*shape)));
    }
    keys.into_iter().collect()
}

/// Every resource that a member of some class asks.
pub(super) fn resources(
    txn: &Txn<'_>,
    classes: impl Iterator<Item = ClassIdx>,
) -> Vec<ResourceIdx> {
    let state = txn.state();
    let mut all: Vec<ResourceIdx> = Vec::new();
    for class in classes {
        let shape = state.classes.class(class).key.shape;
        let request = state.room.ledger.request(state.room.shape(shape).request);
        all.extend(request.entries().iter().map(|(resource, _)| *resource));
    }
    all.sort_unstable();
    all.dedup();
    all
}
