//! Why nodes refuse a class of pods: the verdicts of all nodes, counted by kind.
//!
//! A node that still holds some is counted by what refuses the next beside them: who asks has more
//! members than all such nodes hold together.
//!
//! One pass over the nodes. [`Classes`](super::classes::Classes) keeps the count of all until any
//! changes, so that a round in which a hundred queues wait with the same kind of work makes it
//! once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use crate::explain::reason::{Nearest, NodeRefusal, StorageRefusal};
use crate::model::room::Room;
use crate::place::classes::Class;
use crate::rules::{self, Question};

/// What nodes say to one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Nodes looked at.
    pub nodes: u32,
    /// Refusals by kind with the number of nodes, sorted by kind.
    pub kinds: Vec<(NodeRefusal, u32)>,
    /// The node that comes closest and what it lacks.
    pub nearest: Option<Nearest>,
    /// Where the pod's author excludes every node of its flavors: by what most of them, and how
    /// many, whatever else refuses those. The same where nodes lack amounts, and each of them, and
    /// of those that do not, refuses for something else, too: no amount would help.
    pub unwanted: Option<(NodeRefusal, u32)>,
}

/// How close a node comes: whether nothing but room keeps the pod away, whether it lacks amounts
/// only, whether it could hold one at all, the share that it has of what it lacks most, in
/// millionths, then the first by name.
type Closeness = (bool, bool, bool, i128, Reverse<u32>);

/// Counts refusals over these nodes and finds the one that comes closest.
pub fn count(room: &Room, class: &Class, of: &[NodeIdx]) -> Refusals {
    let mut nodes = 0;
    let mut kinds: BTreeMap<NodeRefusal, u32> = BTreeMap::new();
    let mut closest: Option<(Closeness, Nearest)> = None;
    let (mut refusals, mut wishes) = (Vec::new(), Some(Wishes::default()));
    let mut others = Others::default();
    for &node in of {
        nodes += 1;
        let mut question = class.question(room, node);
        let known = class.knows(room, node);
        if wishes.as_mut().is_some_and(|wishes| known || !wishes.exclude(&question)) {
            wishes = None;
        }
        rules::refusals(&question, known, &mut refusals);
        if refusals.is_empty() {
            question.beside = rules::slots(&question);
            rules::refusals(&question, true, &mut refusals);
        }
        let lacks = most_lacking(&refusals);
        let said = if known { &refusals[..] } else { &[] };
        let alone = !others.refuse(&question, lacks.is_some(), said);
        if let Some((at, could, share)) = lacks {
            let amounts = refusals.iter().all(is_amount);
            let closeness = (alone, amounts, could, share, Reverse(room.node(node).rank));
            if closest.as_ref().is_none_or(|(known, _)| closeness > *known)
                && let NodeRefusal::Insufficient { resource, asked, free, .. } = &refusals[at]
            {
                let (name, resource) = (room.node(node).name.clone(), resource.clone());
                let nearest = Nearest { node: name, resource, asked: *asked, free: *free };
                closest = Some((closeness, nearest));
            }
        }
        for refusal in refusals.drain(..) {
            let kind = kind_of(refusal);
            match kinds.get_mut(&kind) {
                Some(count) => *count += 1,
                None => drop(kinds.insert(kind, 1)),
            }
        }
    }
    // Where no node lacks room alone, none is near.
    let near = closest.as_ref().is_some_and(|((alone, ..), _)| *alone);
    let unwanted = wishes.and_then(Wishes::most);
    let unwanted = unwanted.or_else(|| most(others.kinds).filter(|_| closest.is_some() && !near));
    let nearest = closest.map(|(_, nearest)| nearest).filter(|_| near);
    Refusals { nodes, kinds: kinds.into_iter().collect(), nearest, unwanted }
}

/// What the pod's author excludes nodes by, as long as that is every node of its flavors.
#[derive(Default)]
struct Wishes {
    kinds: BTreeMap<NodeRefusal, u32>,
    scratch: Vec<NodeRefusal>,
}

impl Wishes {
    /// Whether a node is excluded, or of another flavor, which says nothing.
    fn exclude(&mut self, question: &Question<'_>) -> bool {
        if !rules::flavor::is_of_all(question) {
            return true;
        }
        if !rules::is_unwanted(question, &mut self.scratch) {
            return false;
        }
        *self.kinds.entry(self.scratch.swap_remove(0)).or_default() += 1;
        true
    }

    fn most(self) -> Option<(NodeRefusal, u32)> {
        most(self.kinds)
    }
}

/// By what most nodes are refused; the first among equals.
fn most(kinds: BTreeMap<NodeRefusal, u32>) -> Option<(NodeRefusal, u32)> {
    kinds.into_iter().min_by_key(|(_, count)| Reverse(*count))
}

/// What else than room refuses nodes whose facts admit the pod; looked for only where pods around
/// or volumes count.
#[derive(Default)]
struct Others {
    kinds: BTreeMap<NodeRefusal, u32>,
    scratch: Vec<NodeRefusal>,
}

impl Others {
    /// Notes what refuses a node beside its lack of amounts, or else what it `said`; `false`:
    /// nothing does.
    fn refuse(&mut self, question: &Question<'_>, lacks: bool, said: &[NodeRefusal]) -> bool {
        if question.neighbours.is_none() && question.volumes.is_none() {
            return false;
        }
        let other = match lacks {
            true => {
                rules::but_for_room(question, &mut self.scratch);
                self.scratch.drain(..).next()
            }
            false => said.first().cloned(),
        };
        let Some(other) = other else { return false };
        *self.kinds.entry(kind_of(other)).or_default() += 1;
        true
    }
}

fn is_amount(refusal: &NodeRefusal) -> bool {
    matches!(refusal, NodeRefusal::Insufficient { .. })
}

/// Which amount a node lacks most, devices first among equals; whether an empty node would hold
/// all of them; and the share that it has of that one. `None`: it lacks none.
fn most_lacking(refusals: &[NodeRefusal]) -> Option<(usize, bool, i128)> {
    let lacking = refusals.iter().enumerate().filter_map(|(at, refusal)| match refusal {
        NodeRefusal::Insufficient { resource, asked, free, beyond_node } => {
            Some((share(*free, *asked), !resource.contains('/'), *beyond_node, at))
        }
        _ => None,
    });
    let (share, _, _, at) =
        lacking.clone().min_by_key(|(share, host, _, at)| (*share, *host, *at))?;
    Some((at, lacking.into_iter().all(|(_, _, beyond, _)| !beyond), share))
}

/// Millionths of what is asked; 64 bits divide several times faster where they do.
fn share(free: i64, asked: i64) -> i128 {
    const PARTS: i64 = 1_000_000;
    match free.checked_mul(PARTS) {
        Some(parts) => (parts / asked).into(),
        None => i128::from(free) * i128::from(PARTS) / i128::from(asked),
    }
}

/// The refusal without what differs from node to node, so that equal kinds are counted together.
fn kind_of(refusal: NodeRefusal) -> NodeRefusal {
    match refusal {
        NodeRefusal::Insufficient { resource, asked, .. } => {
            NodeRefusal::Insufficient { resource, asked, free: 0, beyond_node: false }
        }
        NodeRefusal::TooManyPods { .. } => NodeRefusal::TooManyPods { limit: 0 },
        NodeRefusal::Spread { key, .. } => {
            NodeRefusal::Spread { key, count: 0, least: 0, max_skew: 0 }
        }
        NodeRefusal::PodAntiAffinity { .. } => NodeRefusal::PodAntiAffinity { pods: 0 },
        NodeRefusal::ExistingAntiAffinity { .. } => NodeRefusal::ExistingAntiAffinity { pods: 0 },
        NodeRefusal::Storage(StorageRefusal::TooManyVolumes { driver, .. }) => {
            NodeRefusal::Storage(StorageRefusal::TooManyVolumes { driver, limit: 0 })
        }
        NodeRefusal::Devices { claim, request, asked, .. } => {
            NodeRefusal::Devices { claim, request, asked, matching: 0, free: 0 }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_same_in_64_and_in_128_bits() {
        assert_eq!([share(3, 8), share(-3, 8), share(0, 8)], [375_000, -375_000, 0]);
        let large = i64::MAX / 2;
        assert_eq!(share(large, i64::MAX), 499_999);
        assert_eq!(share(-large, 1), i128::from(-large) * 1_000_000);
    }
}
