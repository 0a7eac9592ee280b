//! Room: everything that decides where a pod fits, and nothing about who asks.
//!
//! Nodes, the ledger, host ports, shapes, the topology tree, and a log of changed nodes that lets
//! every pod class catch up with what changed since it last looked. A node that pods refer to
//! before it is fed (or after it is gone) is a ghost: it is accounted and never offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::{
    Ledger, NodeIdx, Place, RequestIdx, ResourceIdx, ResourceVector, Tree, UNLIMITED,
};

use crate::model::ids::ShapeIdx;
use crate::model::input::{Amounts, NodeFacts, PodShape, Text};
use crate::policy::RuleArgs;
use crate::resources::{CPU, EPHEMERAL, MEMORY, PODS, Resources};
use crate::rules::node_ports::Ports;

/// All state that placement rules read.
#[derive(Debug, Default)]
pub struct Room {
    /// Resource names.
    pub resources: Resources,
    /// What is free.
    pub ledger: Ledger,
    /// Host ports in use.
    pub ports: Ports,
    /// Arguments of rules.
    pub args: RuleArgs,
    /// Level keys of the tree, outermost first.
    pub levels: Vec<Text>,
    /// Topology over the nodes that may be offered.
    pub tree: Tree,
    nodes: Vec<Node>,
    by_name: BTreeMap<Text, NodeIdx>,
    shapes: Vec<Shape>,
    known_shapes: BTreeMap<Arc<PodShape>, ShapeIdx>,
    /// The shape met last: pods of one template come together and share it.
    last_shape: Option<(Arc<PodShape>, ShapeIdx)>,
    changes: ChangeLog,
    tree_epoch: u64,
    tree_stale: bool,
}

/// A node slot.
#[derive(Debug)]
pub struct Node {
    /// What was fed; `None`: a ghost.
    pub facts: Option<Arc<NodeFacts>>,
    /// Name.
    pub name: Text,
    /// Counts changes of `facts`.
    pub version: u32,
    /// Position among all offered nodes by name; ties of placement end here.
    pub rank: u32,
}

/// An interned pod shape with its request.
#[derive(Debug)]
pub struct Shape {
    /// The shape.
    pub facts: Arc<PodShape>,
    /// Its request, one of `pods` included.
    pub request: RequestIdx,
}

/// Which nodes changed since when.
#[derive(Debug, Default)]
struct ChangeLog {
    /// Sequence number of `entries[0]`.
    first: u64,
    entries: Vec<NodeIdx>,
}

/// Changes kept; a class that fell behind further looks at every node again, which costs less.
const CHANGES_KEPT: usize = 1 << 16;

impl Room {
    /// How large a pod of a shape is, for ordering: GPUs, then milli-CPU, then bytes of memory.
    pub fn size(&self, shape: ShapeIdx) -> (i64, i64, i64) {
        let request = self.ledger.request(self.shape(shape).request);
        let gpus = self.resources.gpus().iter().map(|gpu| request.get(*gpu)).sum();
        (gpus, request.get(CPU), request.get(MEMORY))
    }

    /// The node of a name; a ghost is made for a name never met.
    pub fn node_named(&mut self, name: &Text) -> NodeIdx {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let index = NodeIdx(self.nodes.len() as u32);
        self.nodes.push(Node { facts: None, name: name.clone(), version: 0, rank: u32::MAX });
        self.by_name.insert(name.clone(), index);
        self.ledger.set_allocatable(index, ResourceVector::default());
        self.tree_stale = true;
        index
    }

    /// The node of a name, if it was ever met.
    pub fn find_node(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.get(name).copied()
    }

    /// A node slot.
    #[inline]
    pub fn node(&self, index: NodeIdx) -> &Node {
        &self.nodes[index.at()]
    }

    /// Facts of an offered node.
    #[inline]
    pub fn facts(&self, index: NodeIdx) -> Option<&NodeFacts> {
        self.nodes[index.at()].facts.as_deref()
    }

    /// Offered nodes by name.
    pub fn nodes_by_name(&self) -> impl Iterator<Item = (NodeIdx, &NodeFacts)> {
        self.by_name.values().filter_map(|index| Some((*index, self.facts(*index)?)))
    }

    /// Number of node slots, ghosts included.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// States what a node is. Returns whether anything that placement reads changed.
    pub fn upsert_node(&mut self, facts: NodeFacts) -> bool {
        let index = self.node_named(&facts.name);
        let old = self.nodes[index.at()].facts.as_deref();
        if old == Some(&facts) {
            return false;
        }
        if old.is_none_or(|old| old.labels != facts.labels) {
            self.tree_stale = true;
        }
        let allocatable = self.vector(&facts.allocatable);
        self.ledger.set_allocatable(index, allocatable);
        let node = &mut self.nodes[index.at()];
        node.facts = Some(Arc::new(facts));
        node.version += 1;
        self.touch(index);
        true
    }

    /// The node is gone; pods that are still on it keep a ghost accounted.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(index) = self.find_node(name) else { return false };
        let node = &mut self.nodes[index.at()];
        node.version += 1;
        let was_offered = node.facts.take().is_some();
        self.ledger.set_allocatable(index, ResourceVector::default());
        self.tree_stale = true;
        self.touch(index);
        was_offered
    }

    fn vector(&mut self, amounts: &Amounts) -> ResourceVector {
        let mut vector = ResourceVector::default();
        for (name, amount) in amounts {
            vector.set(self.resources.intern(name), *amount);
        }
        vector
    }

    /// The handle of a shape, the same for equal shapes.
    pub fn intern_shape(&mut self, facts: &Arc<PodShape>) -> ShapeIdx {
        if let Some((last, index)) = &self.last_shape
            && Arc::ptr_eq(last, facts)
        {
            return *index;
        }
        let index = self.shape_index(facts);
        self.last_shape = Some((facts.clone(), index));
        index
    }

    fn shape_index(&mut self, facts: &Arc<PodShape>) -> ShapeIdx {
        if let Some(known) = self.known_shapes.get(facts) {
            return *known;
        }
        let index = ShapeIdx(self.shapes.len() as u32);
        let request = self.intern_amounts(&facts.requests);
        self.shapes.push(Shape { facts: facts.clone(), request });
        self.known_shapes.insert(facts.clone(), index);
        index
    }

    /// The handle of a request by amounts, one of `pods` added.
    pub fn intern_amounts(&mut self, amounts: &Amounts) -> RequestIdx {
        let request = self.resources.pod_request(amounts);
        self.ledger.intern(request)
    }

    /// A shape.
    #[inline]
    pub fn shape(&self, index: ShapeIdx) -> &Shape {
        &self.shapes[index.at()]
    }

    /// Sets level keys; the tree is built again when they differ.
    pub fn set_levels(&mut self, levels: Vec<Text>) {
        if self.levels != levels {
            self.levels = levels;
            self.tree_stale = true;
        }
    }

    /// Builds the tree again if nodes came, went or moved.
    pub fn refresh_tree(&mut self) {
        if !self.tree_stale {
            return;
        }
        self.tree_stale = false;
        self.tree_epoch += 1;
        let values = self.level_values();
        let mut places = Vec::new();
        let offered: Vec<NodeIdx> = self.nodes_by_name().map(|(index, _)| index).collect();
        for (rank, index) in offered.into_iter().enumerate() {
            self.nodes[index.at()].rank = rank as u32;
            let facts = self.facts(index).expect("only offered nodes are listed");
            let path = self.levels.iter().zip(&values);
            let path = path.map(|(key, known)| known.get(facts.labels.get(key)?).copied());
            places.push(Place { values: path.collect(), rank: rank as u32, node: index });
        }
        self.tree = Tree::build(self.levels.len(), places);
    }

    /// For each level the values that occur, numbered in their own order.
    fn level_values(&self) -> Vec<BTreeMap<Text, u32>> {
        let number = |key: &Text| {
            let labels = self.nodes_by_name().filter_map(|(_, facts)| facts.labels.get(key));
            let mut values: Vec<Text> = labels.cloned().collect();
            values.sort_unstable();
            values.dedup();
            values.into_iter().zip(0..).collect()
        };
        self.levels.iter().map(number).collect()
    }

    /// Counts how often the tree was built.
    pub fn tree_epoch(&self) -> u64 {
        self.tree_epoch
    }

    /// Notes that a node's numbers or facts changed.
    #[inline]
    pub fn touch(&mut self, node: NodeIdx) {
        self.changes.entries.push(node);
        if self.changes.entries.len() > 2 * CHANGES_KEPT {
            self.changes.entries.drain(..CHANGES_KEPT);
            self.changes.first += CHANGES_KEPT as u64;
        }
    }

    /// Sequence number of the next change.
    #[inline]
    pub fn change_count(&self) -> u64 {
        self.changes.first + self.changes.entries.len() as u64
    }

    /// Nodes changed since a sequence number (repeats possible); `None`: too long ago to tell.
    #[inline]
    pub fn changes_since(&self, sequence: u64) -> Option<&[NodeIdx]> {
        let skip = sequence.checked_sub(self.changes.first)?;
        self.changes.entries.get(skip as usize..)
    }

    /// Idle whole GPUs of a node (zero when overcommitted).
    pub fn idle_gpus(&self, node: NodeIdx) -> i64 {
        let gpus = self.resources.gpus().iter();
        gpus.map(|gpu| self.ledger.free(node, *gpu).max(0)).sum()
    }

    /// Whole GPUs of a node.
    pub fn total_gpus(&self, node: NodeIdx) -> i64 {
        let gpus = self.resources.gpus().iter();
        gpus.map(|gpu| self.ledger.allocatable(node, *gpu)).sum()
    }

    /// The largest share of a node that a request takes, as a fraction; GPUs and other devices
    /// count like any resource, `pods` slots do not. Zero where nothing it asks is limited.
    pub fn dominant_share(&self, request: RequestIdx, node: NodeIdx) -> (i64, i64, ResourceIdx) {
        let mut dominant = (0, 1, CPU);
        for &(resource, asked) in self.ledger.request(request).entries() {
            let has = self.ledger.allocatable(node, resource);
            if resource == PODS || resource == EPHEMERAL || has <= 0 || has == UNLIMITED {
                continue;
            }
            let larger = i128::from(asked) * i128::from(dominant.1)
                > i128::from(dominant.0) * i128::from(has);
            if larger {
                dominant = (asked, has, resource);
            }
        }
        dominant
    }

    /// Names of the native resources that a node without any statement has without limit.
    pub fn native() -> [ResourceIdx; 4] {
        [CPU, MEMORY, EPHEMERAL, PODS]
    }
}
