//! The last resort for a gang of several shapes: a search that goes back on its choices.
//!
//! Filling shape by shape can take the only nodes that another shape could use, or break a node
//! that fitted exactly. Here members are placed one by one, largest first, on the tightest node
//! first; a choice that leads nowhere is taken back. Nodes that look the same to every member are
//! tried once. For a lone gang the search is exhaustive up to its bounds, which are counts.

use std::ops::Range;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx};
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask};

/// Placements that one search tries. Far more than a gang of a dozen members on a few racks
/// needs; it bounds what a gang costs that fits nowhere.
const STEPS_MAX: u32 = 4_096;

/// Domains with more nodes than this are not searched: slot counts leave little to find there,
/// and each step looks at every node.
const NODES_MAX: usize = 256;

/// Places every member somewhere in a range of positions, or nothing and answers `false`.
pub fn place(txn: &mut Txn<'_>, asks: &[&Ask], range: Range<usize>) -> bool {
    if range.len() > NODES_MAX {
        note_end(txn, asks, SearchBound::Nodes(NODES_MAX as u32));
        return false;
    }
    let members = asks.iter().flat_map(|ask| ask.pods.iter().map(|pod| (ask.class, *pod)));
    let mut search = Search {
        members: members.collect(),
        classes: asks.iter().map(|ask| ask.class).collect(),
        resources: resources(txn, asks.iter().map(|ask| ask.class)),
        range,
        steps: 0,
    };
    let placed = search.from(txn, 0);
    if !placed && search.steps > STEPS_MAX {
        note_end(txn, asks, SearchBound::Tries(STEPS_MAX));
    }
    placed
}

fn note_end(txn: &mut Txn<'_>, asks: &[&Ask], bound: SearchBound) {
    let counts = asks.iter().map(|ask| (ask.class, ask.pods.len() as u32));
    txn.note_end(&counts.collect::<Vec<_>>(), bound);
}

struct Search {
    members: Vec<(ClassIdx, PodIdx)>,
    classes: Vec<ClassIdx>,
    resources: Vec<ResourceIdx>,
    range: Range<usize>,
    steps: u32,
}

/// All that members can tell of a node: who may use it, and what is free there; and which it is,
/// if any of them chooses volumes there, or what it shares with others, which no two nodes offer
/// alike.
type Looks = (Vec<u32>, Vec<i64>, Option<usize>);

impl Search {
    /// Places members from one on.
    fn from(&mut self, txn: &mut Txn<'_>, member: usize) -> bool {
        let Some(&(class, pod)) = self.members.get(member) else { return true };
        self.classes.iter().for_each(|class| txn.fresh(*class));
        let mut spots: Vec<(u32, usize)> = self
            .range
            .clone()
            .map(|position| (txn.state().classes.fit(class).spot(position).slots, position))
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
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return false;
            }
            let node: NodeIdx = txn.state().room.tree.order()[position];
            let mark = txn.checkpoint();
            txn.place(pod, node);
            if self.from(txn, member + 1) {
                return true;
            }
            txn.rollback_to(mark);
        }
        false
    }

    fn looks(&self, txn: &Txn<'_>, position: usize) -> Looks {
        let state = txn.state();
        let node = state.room.tree.order()[position];
        let slots = |class: &ClassIdx| state.classes.fit(*class).spot(position).slots;
        let free = |resource: &ResourceIdx| state.room.ledger.free(node, *resource);
        let chooses = self.classes.iter().any(|class| gang::coupled(txn, *class));
        let which = chooses.then_some(position);
        let slots = self.classes.iter().map(slots).collect();
        (slots, self.resources.iter().map(free).collect(), which)
    }
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
