//! Room: everything that decides where a pod fits, and nothing about who asks.
//!
//! Nodes, the ledger, host ports, shapes, the topology tree, and a log of changed nodes that lets
//! every pod class catch up with what changed since it last looked. A node that pods refer to
//! before it is fed (or after it is gone) is a ghost: it is accounted and never offered. Shapes and
//! nodes that nothing refers to any more are forgotten by [`Room::sweep`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};

use capstan_topology::{
    Interner, Ledger, LedgerUndo, NodeIdx, Place, Request, RequestIdx, ResourceIdx, ResourceVector,
    Tree, UNLIMITED,
};

use crate::model::ids::ShapeIdx;
use crate::model::images::ImageCounts;
use crate::model::input::{Amounts, NodeFacts, PodShape, StorageFact, Text};
use crate::model::sweep::Used;
use crate::model::volumes::{MayFit, Volumes};
use crate::policy::{QuotaArgs, RuleArgs};
use crate::quota::counted;
use crate::resources::{self, BEYOND, CPU, EPHEMERAL, MEMORY, PODS, Resources};
use crate::rules::dynamic_resources::{Devices, shares};
use crate::rules::neighbours::{self, Neighbourhood};
use crate::rules::node_ports::Ports;

/// Shapes that are found again without a look at what is in them.
const LAST_SHAPES: usize = 8;

/// All state that placement rules read.
#[derive(Debug, Default)]
pub struct Room {
    /// Resource names.
    pub resources: Resources,
    /// What is free.
    pub ledger: Ledger,
    /// Host ports in use.
    pub ports: Ports,
    /// Which pods are around which.
    pub neighbourhood: Neighbourhood,
    /// Devices of drivers, and claims on them.
    pub devices: Devices,
    /// Extended resources that a DeviceClass backs.
    backed: BTreeSet<ResourceIdx>,
    /// Arguments of rules.
    pub args: RuleArgs,
    /// What counts against quota, and as what.
    counting: QuotaArgs,
    /// Storage, and who uses what of it where.
    pub volumes: Volumes,
    /// Level keys of the tree, outermost first.
    pub levels: Vec<Text>,
    /// Topology over the nodes that may be offered.
    pub tree: Tree,
    /// How many of those nodes have which image.
    pub images: ImageCounts,
    nodes: Vec<Node>,
    by_name: Interner<Text>,
    /// Largest version that a forgotten node had: whoever gets its slot begins there.
    versions_gone: u32,
    shapes: Vec<Shape>,
    known_shapes: Interner<Arc<PodShape>>,
    /// The shapes met last: pods of a few templates come together, and share theirs.
    last_shapes: VecDeque<(Arc<PodShape>, ShapeIdx)>,
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
    /// Counts changes of `facts`, over all nodes that had this slot.
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
    /// What it counts against quota, one of `pods` included.
    pub counted: RequestIdx,
    /// Its own handle.
    pub index: ShapeIdx,
}

/// What stands in a slot that no shape has.
static NO_SHAPE: LazyLock<Arc<PodShape>> = LazyLock::new(Arc::default);
/// What stands in a slot that no node has.
static NO_NAME: LazyLock<Text> = LazyLock::new(|| "".into());

impl Shape {
    /// A free slot; its requests are nobody's, so that using them is noticed.
    fn free() -> Shape {
        let (nobody, index) = (RequestIdx(u32::MAX), ShapeIdx(u32::MAX));
        Shape { facts: NO_SHAPE.clone(), request: nobody, counted: nobody, index }
    }
}

impl Node {
    fn ghost(name: Text, version: u32) -> Node {
        Node { facts: None, name, version, rank: u32::MAX }
    }
}

/// Nodes that are offered, by slot.
fn offered_of(nodes: &[Node]) -> impl Iterator<Item = (NodeIdx, &NodeFacts)> {
    let slots = nodes.iter().zip(0..);
    slots.filter_map(|(node, at)| Some((NodeIdx(at), node.facts.as_deref()?)))
}

/// Which nodes changed since when.
#[derive(Debug, Default)]
struct ChangeLog {
    /// Sequence number of `entries[0]`.
    first: u64,
    entries: Vec<NodeIdx>,
    /// Before this one the numbers of all nodes are out of date.
    all: u64,
}

/// Changes kept; a class that fell behind further looks at every node again, which costs less.
const CHANGES_KEPT: usize = 1 << 16;

impl Room {
    /// How large a pod of a shape is, for ordering: GPUs, then milli-CPU, then bytes of memory.
    pub fn size(&self, shape: ShapeIdx) -> (i64, i64, i64) {
        let request = self.ledger.request(self.shape(shape).request);
        let gpus = resources::total(self.resources.gpus().iter().map(|gpu| request.get(*gpu)));
        (gpus, request.get(CPU), request.get(MEMORY))
    }

    /// The node of a name; a ghost is made for a name never met.
    pub fn node_named(&mut self, name: &Text) -> NodeIdx {
        if let Some(known) = self.by_name.find(name) {
            return NodeIdx(known);
        }
        let index = NodeIdx(self.by_name.add(name.clone()));
        self.nodes.resize_with(self.by_name.slots(), || Node::ghost(NO_NAME.clone(), 0));
        self.nodes[index.at()] = Node::ghost(name.clone(), self.versions_gone);
        self.ledger.set_allocatable(index, ResourceVector::default());
        self.tree_stale = true;
        index
    }

    /// The node of a name, if it was ever met.
    pub fn find_node(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.find(name).map(NodeIdx)
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
        let named = self.by_name.iter().map(|(_, index)| NodeIdx(index));
        named.filter_map(|index| Some((index, self.facts(index)?)))
    }

    /// Number of node slots, ghosts and free ones included.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// States what a node is. Returns whether anything changed that decides who fits there.
    pub fn upsert_node(&mut self, facts: Arc<NodeFacts>) -> bool {
        let index = self.node_named(&facts.name);
        let old = self.nodes[index.at()].facts.as_deref();
        if old == Some(&*facts) {
            return false;
        }
        let only_scored = old.is_some_and(|old| old.admits_as(&facts));
        if old.is_none_or(|old| old.labels != facts.labels) {
            self.tree_stale = true;
        }
        let allocatable = self.vector(&facts.allocatable);
        self.ledger.set_allocatable(index, allocatable);
        let node = &mut self.nodes[index.at()];
        let old = node.facts.replace(facts.clone());
        node.version += 1;
        self.images.change(old.as_ref().map(|old| &old.images), Some(&facts.images));
        self.touch(index);
        !only_scored
    }

    /// The node is gone; pods that are still on it keep a ghost accounted.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(index) = self.find_node(name) else { return false };
        let node = &mut self.nodes[index.at()];
        node.version += 1;
        let was = node.facts.take();
        if let Some(was) = &was {
            self.images.change(Some(&was.images), None);
        }
        self.ledger.set_allocatable(index, ResourceVector::default());
        self.tree_stale = true;
        self.touch(index);
        was.is_some()
    }

    /// Takes in what is known of storage; whether it is news.
    pub fn apply_storage(&mut self, fact: StorageFact) -> MayFit {
        let concerned = self.volumes.apply(fact);
        let named = concerned.named.and_then(|name| self.find_node(&name));
        for node in concerned.nodes.into_iter().chain(named) {
            self.touch(node);
        }
        concerned.may_fit
    }

    fn vector(&mut self, amounts: &Amounts) -> ResourceVector {
        let mut vector = ResourceVector::default();
        for (name, amount) in amounts {
            let resource = self.resources.intern(name);
            if resource != BEYOND {
                vector.set(resource, *amount);
            }
        }
        // Devices decide there: see `rules::dynamic_resources`.
        for &resource in self.backed.iter().filter(|of| vector.get(**of) == 0).collect::<Vec<_>>() {
            vector.set(resource, UNLIMITED);
        }
        vector
    }

    /// States which extended resources a DeviceClass backs: a node that has none of one itself
    /// offers whatever devices it has, so that the ledger has no say. Whether that is news.
    pub(super) fn set_backed(&mut self, names: &BTreeSet<Text>) -> bool {
        let backed = names.iter().map(|name| self.resources.intern(name));
        let backed: BTreeSet<ResourceIdx> = backed.filter(|of| *of != BEYOND).collect();
        if self.backed == backed {
            return false;
        }
        self.backed = backed;
        for index in (0..self.nodes.len() as u32).map(NodeIdx) {
            if let Some(facts) = self.nodes[index.at()].facts.clone() {
                let allocatable = self.vector(&facts.allocatable);
                self.ledger.set_allocatable(index, allocatable);
                // What was found out about the node's facts is found out again.
                self.nodes[index.at()].version += 1;
            }
        }
        self.touch_all();
        true
    }

    /// What people see of a node's amounts: nothing of a resource that only its devices back.
    pub fn is_shown(&self, node: NodeIdx, resource: ResourceIdx) -> bool {
        !(self.backed.contains(&resource) && self.ledger.allocatable(node, resource) == UNLIMITED)
    }

    /// The handle of a shape, the same for equal shapes.
    pub fn intern_shape(&mut self, facts: &Arc<PodShape>) -> ShapeIdx {
        let mut last = self.last_shapes.iter();
        if let Some((_, index)) = last.find(|(last, _)| Arc::ptr_eq(last, facts)) {
            return *index;
        }
        let index = self.shape_index(facts);
        self.last_shapes.truncate(LAST_SHAPES - 1);
        self.last_shapes.push_front((facts.clone(), index));
        index
    }

    fn shape_index(&mut self, facts: &Arc<PodShape>) -> ShapeIdx {
        if let Some(known) = self.known_shapes.find(facts) {
            return ShapeIdx(known);
        }
        let request = self.intern_amounts(&facts.requests);
        let counted = self.intern_counted(facts);
        let index = ShapeIdx(self.known_shapes.add(facts.clone()));
        self.shapes.resize_with(self.known_shapes.slots(), Shape::free);
        self.shapes[index.at()] = Shape { facts: facts.clone(), request, counted, index };
        self.neighbourhood.meet(index, facts);
        for key in neighbours::keys_of(facts) {
            self.neighbourhood.keys.add(key, offered_of(&self.nodes));
        }
        index
    }

    /// The shapes that are interned.
    pub fn shapes(&self) -> &Interner<Arc<PodShape>> {
        &self.known_shapes
    }

    /// The nodes that have a slot, ghosts included.
    pub fn names(&self) -> &Interner<Text> {
        &self.by_name
    }

    /// Forgets shapes, requests and nodes that nothing uses.
    pub fn sweep(&mut self, used: &Used) {
        self.last_shapes.retain(|(_, shape)| used.shapes[shape.at()]);
        self.known_shapes.sweep(&used.shapes, &mut self.shapes, |slot| *slot = Shape::free());
        self.ledger.sweep_requests(&used.requests);
        let (shapes, known) = (&self.shapes, &self.known_shapes);
        let alive = || known.iter().map(|(_, at)| &*shapes[at as usize].facts).collect();
        self.neighbourhood.sweep(&used.shapes, alive);
        for (_, index) in self.by_name.iter() {
            if !used.nodes[index as usize] {
                self.ledger.forget_node(NodeIdx(index));
                self.ports.forget_node(NodeIdx(index));
                self.neighbourhood.forget_node(NodeIdx(index));
                self.volumes.forget_node(NodeIdx(index));
            }
        }
        let versions = &mut self.versions_gone;
        self.by_name.sweep(&used.nodes, &mut self.nodes, |node| {
            *versions = node.version.max(*versions);
            *node = Node::ghost(NO_NAME.clone(), 0);
        });
        self.ledger.truncate_nodes(self.nodes.len());
        self.ports.truncate_nodes(self.nodes.len());
        self.neighbourhood.truncate_nodes(self.nodes.len());
        self.volumes.truncate_nodes(self.nodes.len());
    }

    /// Compares names and shapes with what stands in their slots.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self) {
        self.by_name.recount();
        for (name, index) in self.by_name.iter() {
            assert_eq!(self.nodes[index as usize].name, *name, "name of node slot {index}");
        }
        self.images.recount(offered_of(&self.nodes).map(|(_, facts)| facts));
        self.known_shapes.recount();
        let requests = self.ledger.requests().given();
        for (facts, index) in self.known_shapes.iter() {
            let slot = &self.shapes[index as usize];
            assert!(Arc::ptr_eq(&slot.facts, facts), "facts of shape {index}");
            assert!(requests[slot.request.at()], "request of shape {index}");
            let mut counted = counted::counted(&self.counting, &facts.requests);
            counted.retain(|_, amount| *amount > 0);
            let of_slot = self.ledger.request(slot.counted).entries().iter();
            let of_slot = of_slot.filter(|(resource, _)| *resource != PODS);
            let of_slot = of_slot.map(|(of, n)| (self.resources.name(*of).clone(), *n)).collect();
            assert_eq!(counted, of_slot, "what shape {index} counts");
            assert_eq!(slot.index, ShapeIdx(index), "handle of shape {index}");
        }
        if !self.tree_stale {
            self.neighbourhood.keys.recount(|| offered_of(&self.nodes));
        }
    }

    /// What a pod of a shape counts against quota, one of `pods` included.
    pub fn counted(&self, shape: ShapeIdx) -> &Request {
        self.ledger.request(self.shape(shape).counted)
    }

    /// States what counts against quota: every shape is counted anew.
    pub(super) fn count_by(&mut self, args: &QuotaArgs) {
        if self.counting == *args {
            return;
        }
        self.counting = args.clone();
        let shapes: Vec<u32> = self.known_shapes.iter().map(|(_, index)| index).collect();
        for at in shapes {
            let facts = self.shapes[at as usize].facts.clone();
            self.shapes[at as usize].counted = self.intern_counted(&facts);
        }
    }

    fn intern_counted(&mut self, facts: &PodShape) -> RequestIdx {
        let counted = counted::counted(&self.counting, &facts.requests);
        let request = self.resources.pod_request(&counted);
        let counts = |of: &ResourceIdx| *of != PODS || self.counting.counts("pods");
        let entries = request.entries().iter().filter(|(of, _)| counts(of)).copied();
        self.ledger.intern(Request::new(entries))
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

    /// Whether a pod of a shape that comes may help others that wait.
    pub(super) fn helps(&mut self, shape: ShapeIdx) -> bool {
        let shapes = &self.shapes;
        self.neighbourhood.helps(shape, |of| &*shapes[of.at()].facts)
    }

    /// The ledger's and the ports' part of a pod of a shape that is taken to be on a node.
    pub(super) fn occupy(&mut self, shape: ShapeIdx, node: NodeIdx) -> LedgerUndo {
        self.touch(node);
        let shape = &self.shapes[shape.at()];
        self.ports.place(node, &shape.facts.ports);
        self.ledger.take(node, shape.request)
    }

    /// Takes the ports' part of that back.
    pub(super) fn leave(&mut self, shape: ShapeIdx, node: NodeIdx) {
        self.ports.remove(node, &self.shapes[shape.at()].facts.ports);
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
        let nodes = &self.nodes;
        self.neighbourhood.keys.rebuild(|| offered_of(nodes));
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

    /// Notes that the numbers of every node may have changed.
    pub(super) fn touch_all(&mut self) {
        // Some node stands for all of them in the list: nobody has seen as much yet.
        self.touch(NodeIdx(0));
        self.changes.all = self.change_count();
    }

    /// Sequence number of the next change.
    #[inline]
    pub fn change_count(&self) -> u64 {
        self.changes.first + self.changes.entries.len() as u64
    }

    /// Nodes changed since a sequence number (repeats possible); `None`: all of them, or it is too
    /// long ago to tell.
    #[inline]
    pub fn changes_since(&self, sequence: u64) -> Option<&[NodeIdx]> {
        if sequence < self.changes.all { None } else { self.touched_since(sequence) }
    }

    /// Those of them that changed by themselves: whose pods are others, if any are.
    #[inline]
    pub fn touched_since(&self, sequence: u64) -> Option<&[NodeIdx]> {
        let skip = sequence.checked_sub(self.changes.first)?;
        self.changes.entries.get(skip as usize..)
    }

    /// Idle whole GPUs of a node (zero when overcommitted).
    pub fn idle_gpus(&self, node: NodeIdx) -> i64 {
        let gpus = self.resources.gpus().iter();
        resources::total(gpus.map(|gpu| match self.ledger.free(node, *gpu) {
            UNLIMITED => 0,
            free => free.max(0),
        }))
    }

    /// Whole GPUs of a node.
    pub fn total_gpus(&self, node: NodeIdx) -> i64 {
        let gpus = self.resources.gpus().iter();
        resources::total(gpus.map(|gpu| match self.ledger.allocatable(node, *gpu) {
            // Devices of drivers are not counted here.
            UNLIMITED => 0,
            has => has,
        }))
    }

    /// The largest share of a node that a pod of a shape takes, as a fraction: of what its request
    /// asks, or of the devices that its claims ask for.
    pub fn share_taken(&self, shape: &Shape, node: NodeIdx) -> (i64, i64) {
        let (used, of, _) = self.dominant_share(shape.request, node);
        // This is asked for each node that is compared: who has no claim does not pay for those.
        if shape.facts.claims.is_empty() {
            return (used, of);
        }
        let of_devices = |facts| shares::of_node(&self.devices, &shape.facts, facts);
        shares::larger((used, of), self.facts(node).map_or((0, 1), of_devices))
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
}
