//! Pod classes: pods of one shape, one set of flavors and one scoring share every evaluation.
//!
//! A class keeps a [`FitIndex`] over all nodes. It is brought up to date from the room's log of
//! changed nodes, so a decision costs what changed since the class was last asked, not the size
//! of the cluster. Facts (labels, taints, prices) are evaluated once per node version. What other
//! pods mean for it is its [`Outlook`], kept with the index and by the same log. A class is
//! forgotten with its shape; nobody keeps a class from one step to the next.

mod images;
mod wishes;

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::{FitIndex, NodeIdx, Spot};

use crate::explain::reason::NodeRefusal;
use crate::model::ids::{ClassIdx, FlavorIdx, ShapeIdx};
use crate::model::input::FlavorFacts;
use crate::model::room::Room;
use crate::model::sweep::Used;
use crate::model::volumes::{Demand, Stamp};
use crate::place::refusals::{self, Refusals};
pub use crate::place::scoring::{Paying, Scoring};
use crate::rules::neighbours::Outlook;
use crate::rules::{self, Question};
use crate::score::{self, Weights};

/// All classes in use.
#[derive(Debug, Default)]
pub struct Classes {
    known: BTreeMap<ClassKey, ClassIdx>,
    list: Vec<Class>,
    uses: u64,
    indexed: usize,
    evaluations: u64,
    scratch: Scratch,
    focus: Option<Box<Focus>>,
}

/// Lists that are used again and again.
#[derive(Debug, Default)]
struct Scratch {
    refusals: Vec<NodeRefusal>,
    /// Positions whose scores are others, and by how much.
    shifts: Vec<(usize, i64)>,
}

/// The only nodes that are looked at for a while.
#[derive(Debug, Default)]
struct Focus {
    nodes: Vec<NodeIdx>,
    /// The same by node slot.
    within: Vec<bool>,
    /// Classes that were brought up to date there alone: up to which change they were everywhere,
    /// if all other nodes can still be caught up with from there.
    behind: BTreeMap<ClassIdx, Option<u64>>,
}

/// What makes two pods the same to placement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKey {
    /// Shape.
    pub shape: ShapeIdx,
    /// Flavors chosen, sorted.
    pub flavors: Vec<FlavorIdx>,
    /// How its nodes are compared.
    pub scoring: Scoring,
}

/// One class.
#[derive(Debug)]
pub struct Class {
    /// Identity.
    pub key: ClassKey,
    /// Facts of its flavors.
    pub flavors: Vec<(FlavorIdx, Arc<FlavorFacts>)>,
    /// Weights of its profile.
    pub weights: Weights,
    index: FitIndex,
    outlook: Outlook,
    /// What pods around add to the score of each node, by slot, as the index has it; empty where
    /// nobody prefers anything.
    around: Vec<u32>,
    /// What kept scores are of.
    images: images::Seen,
    /// What all nodes say, as of a change and a tree.
    refusals: Option<(u64, u64, Arc<Refusals>)>,
    verdicts: Vec<FactVerdict>,
    /// What its volumes mean, if it has any, as of a change of those.
    volumes: Option<Box<(Stamp, Demand)>>,
    epoch: u64,
    seen: u64,
    used: u64,
}

/// What facts say about a node: kept until the node's version changes, or anything of it where
/// devices have a price.
#[derive(Clone, Copy, Debug)]
struct FactVerdict {
    version: u32,
    /// Weighted fact terms; `None`: a rule refuses.
    score: Option<u32>,
}

impl FactVerdict {
    /// Whether the node is still what it was.
    fn stands(&self, room: &Room, node: NodeIdx) -> bool {
        self.version == room.node(node).version
    }
}

/// Classes whose index is kept between decisions. The least recently used gives its memory back:
/// 256 covers the shapes in flight on a large cluster, at about 100 bytes per node each.
const INDEXES_MAX: usize = 256;

impl Classes {
    /// The class of a key.
    pub fn intern(
        &mut self,
        key: ClassKey,
        flavors: impl FnOnce() -> Vec<(FlavorIdx, Arc<FlavorFacts>)>,
        weights: Weights,
    ) -> ClassIdx {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let index = ClassIdx(self.list.len() as u32);
        self.known.insert(key.clone(), index);
        self.list.push(Class {
            key,
            flavors: flavors(),
            weights,
            index: FitIndex::default(),
            outlook: Outlook::default(),
            around: Vec::new(),
            images: images::Seen::default(),
            refusals: None,
            verdicts: Vec::new(),
            volumes: None,
            epoch: 0,
            seen: 0,
            used: 0,
        });
        index
    }

    /// Forgets all classes: flavors, profiles or rule arguments changed.
    pub fn clear(&mut self) {
        self.known.clear();
        self.list.clear();
        self.indexed = 0;
    }

    /// Forgets the classes of shapes that nothing uses; the others move up. No decision may be
    /// under way: the handles that it holds would mean others.
    pub fn sweep(&mut self, used: &Used) {
        let before = self.list.len();
        self.list.iter_mut().for_each(|class| class.outlook.forget(&used.shapes));
        self.list.retain(|class| used.shapes[class.key.shape.at()]);
        if self.list.len() == before {
            return;
        }
        let numbered = self.list.iter().zip(0..);
        self.known = numbered.map(|(class, at)| (class.key.clone(), ClassIdx(at))).collect();
        self.indexed = self.count_indexed();
        self.list.shrink_to(2 * self.list.len());
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Number of classes that have an index.
    pub fn indexed(&self) -> usize {
        self.indexed
    }

    /// Flavors that classes were made for.
    pub fn flavors(&self) -> impl Iterator<Item = FlavorIdx> + '_ {
        self.list.iter().flat_map(|class| class.key.flavors.iter().copied())
    }

    fn count_indexed(&self) -> usize {
        self.list.iter().filter(|class| class.epoch > 0).count()
    }

    /// A class.
    #[inline]
    pub fn class(&self, class: ClassIdx) -> &Class {
        &self.list[class.at()]
    }

    /// Nodes evaluated so far, for metrics.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Brings the index of a class up to date and returns it.
    pub fn fresh(&mut self, room: &Room, class: ClassIdx) -> &FitIndex {
        self.uses += 1;
        let at = class.at();
        let entry = &mut self.list[at];
        entry.used = self.uses;
        entry.look_at_images(room, &mut self.scratch.shifts);
        let other_volumes = entry.look_at_volumes(room);
        if let Some(focus) = self.focus.as_deref_mut().filter(|_| entry.is_built(room))
            && let Some(changes) = room.touched_since(entry.seen)
        {
            let all = other_volumes || room.changes_since(entry.seen).is_none();
            let scratch = &mut self.scratch;
            self.evaluations += entry.catch_up_within(room, changes, focus, all, scratch);
            let seen = focus.behind.entry(class).or_insert(Some(entry.seen));
            if all || !entry.outlook.is_empty() {
                *seen = None;
            }
            self.list[at].seen = room.change_count();
            return &self.list[at].index;
        }
        let void = other_volumes || entry.outlook.is_void(room);
        let behind = match entry.epoch == room.tree_epoch() && !void {
            true => room.changes_since(entry.seen),
            false => None,
        };
        match behind {
            Some([]) => {}
            Some(changes) if changes.len() <= room.tree.order().len() => {
                self.evaluations += changes.len() as u64;
                entry.catch_up(room, changes, &mut self.scratch);
            }
            _ => {
                self.evaluations += room.tree.order().len() as u64;
                if entry.epoch == 0 {
                    self.indexed += 1;
                }
                entry.rebuild(room, &mut self.scratch);
            }
        }
        self.list[at].seen = room.change_count();
        &self.list[at].index
    }

    /// From now on indexes are brought up to date on these nodes alone, until [`Classes::unfocus`]:
    /// what they say of others, and of ranges and domains, is not to be read. Where others were in
    /// focus before, those are no longer.
    pub fn focus(&mut self, room: &Room, nodes: Vec<NodeIdx>) {
        let mut within = vec![false; room.slots()];
        nodes.iter().for_each(|node| within[node.at()] = true);
        let behind = self.focus.take().map(|before| before.behind).unwrap_or_default();
        for class in behind.keys() {
            // What changed around them meanwhile was not looked at there.
            self.list[class.at()].look_at(room, &nodes, &mut self.scratch);
            self.evaluations += nodes.len() as u64;
        }
        self.focus = Some(Box::new(Focus { nodes, within, behind }));
    }

    /// Indexes are brought up to date on all nodes again.
    pub fn unfocus(&mut self) {
        let Some(focus) = self.focus.take() else { return };
        for (class, seen) in focus.behind {
            self.list[class.at()].seen = seen.unwrap_or(u64::MAX);
        }
    }

    /// The index as it was last brought up to date.
    #[inline]
    pub fn fit(&self, class: ClassIdx) -> &FitIndex {
        &self.list[class.at()].index
    }

    /// What all nodes say to a class as things are; counted again only when any changed.
    pub fn refusals(&mut self, room: &Room, class: ClassIdx) -> Arc<Refusals> {
        self.fresh(room, class);
        let (changes, tree) = (room.change_count(), room.tree_epoch());
        let class = &mut self.list[class.at()];
        if class.look_at_volumes(room) {
            // The index is of the volumes as they were.
            (class.refusals, class.seen) = (None, u64::MAX);
        }
        match &class.refusals {
            Some((at, of, kept)) if (*at, *of) == (changes, tree) => kept.clone(),
            _ => {
                let counted = Arc::new(refusals::count(room, class, room.tree.order()));
                class.refusals = Some((changes, tree, counted.clone()));
                counted
            }
        }
    }

    /// Tells a class what pods of these shapes would mean for it.
    pub fn learn(&mut self, room: &Room, class: ClassIdx, shapes: &[ShapeIdx]) {
        self.list[class.at()].learn(room, shapes);
    }

    /// Whether the facts of a node admit a class, whatever is held there.
    pub fn accepts(&self, room: &Room, class: ClassIdx, node: NodeIdx) -> bool {
        let class = self.class(class);
        let known = class.verdicts.get(node.at()).filter(|kept| kept.stands(room, node));
        room.facts(node).is_some()
            && match known {
                Some(kept) => kept.score.is_some(),
                None => rules::facts_accept(&class.question(room, node), &mut Vec::new()),
            }
    }

    /// Forgets the indexes that were not used for longest, until few enough are kept. No decision
    /// may be under way: one reads the indexes of all its classes, however many they are.
    pub fn trim(&mut self) {
        let over = self.indexed.saturating_sub(INDEXES_MAX);
        if over == 0 {
            return;
        }
        let mut live: Vec<&mut Class> =
            self.list.iter_mut().filter(|class| class.epoch > 0).collect();
        live.sort_by_key(|class| class.used);
        for oldest in live.into_iter().take(over) {
            oldest.index = FitIndex::default();
            oldest.outlook = Outlook::default();
            oldest.around = Vec::new();
            oldest.verdicts = Vec::new();
            oldest.epoch = 0;
        }
        self.indexed -= over;
    }

    /// Compares every up-to-date index with one built from scratch, and counts classes again.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, room: &Room) {
        assert_eq!(self.indexed, self.count_indexed(), "classes that have an index");
        assert_eq!(self.known.len(), self.list.len(), "classes by key");
        let shapes = room.shapes().given();
        let mut refusals = Vec::new();
        for class in &self.list {
            assert!(shapes[class.key.shape.at()], "a class of a forgotten shape");
            let current = class.epoch == room.tree_epoch()
                && class.seen == room.change_count()
                && class.sees_volumes(room);
            if current {
                class.recount_images(room);
                class.index.recount(&room.tree);
                if !class.outlook.is_void(room) && !class.outlook.is_empty() {
                    class.outlook.recount(&class.bare(room, room.tree.order()[0]));
                }
                for (at, node) in room.tree.order().iter().enumerate() {
                    let (spot, _, around) = class.evaluate(room, *node, &mut refusals);
                    assert_eq!(class.index.spot(at), spot, "class index at position {at}");
                    let kept = class.around.get(node.at()).copied().unwrap_or(0);
                    assert_eq!(kept, around, "what pods around position {at} add");
                }
            }
        }
    }
}

impl Class {
    /// The question whether a pod of this class may run on a node.
    #[inline]
    pub fn question<'a>(&'a self, room: &'a Room, node: NodeIdx) -> Question<'a> {
        let neighbours = Some(&self.outlook).filter(|outlook| !outlook.is_empty());
        Question { neighbours, ..self.bare(room, node) }
    }

    /// The same without what pods around mean.
    fn bare<'a>(&'a self, room: &'a Room, node: NodeIdx) -> Question<'a> {
        let (shape, flavors) = (room.shape(self.key.shape), &self.flavors);
        let volumes = self.demand();
        let pays = self.key.scoring.paying != Paying::Free;
        Question { room, shape, flavors, node, beside: 0, pays, neighbours: None, volumes }
    }

    /// What pods around nodes mean for it, as of the last look.
    pub fn outlook(&self) -> &Outlook {
        &self.outlook
    }

    /// Learns what pods of these shapes would mean for it.
    fn learn(&mut self, room: &Room, shapes: &[ShapeIdx]) {
        let Some(node) = room.tree.order().first() else { return };
        let mut outlook = std::mem::take(&mut self.outlook);
        outlook.learn(&self.bare(room, *node), shapes.iter().copied());
        self.outlook = outlook;
    }

    /// Finds out anew what its volumes mean, if anything that they depend on changed.
    fn look_at_volumes(&mut self, room: &Room) -> bool {
        let Some(wanted) = &room.shape(self.key.shape).facts.volumes else { return false };
        let stamp = room.volumes.stamp(wanted);
        if let Some(kept) = self.volumes.as_deref_mut().filter(|kept| kept.0.facts == stamp.facts) {
            return std::mem::replace(&mut kept.0, stamp) != stamp;
        }
        self.volumes = Some(Box::new((stamp, room.volumes.demand(wanted))));
        true
    }

    /// Whether it knows what its volumes mean now.
    fn sees_volumes(&self, room: &Room) -> bool {
        let stamp = self.volumes.as_ref().map(|kept| kept.0);
        let wanted = room.shape(self.key.shape).facts.volumes.as_ref();
        wanted.is_none_or(|wanted| stamp == Some(room.volumes.stamp(wanted)))
    }

    /// What its volumes mean, if it has any, as of the last look.
    pub fn demand(&self) -> Option<&Demand> {
        self.volumes.as_ref().map(|kept| &kept.1)
    }

    /// Whether what one member gets may be missing for the next wherever that goes: then slots of
    /// several nodes do not add up.
    pub fn coupled(&self) -> bool {
        self.volumes.as_ref().is_some_and(|kept| kept.1.coupled)
    }

    /// Whether it is known that the facts of a node admit this class.
    #[inline]
    pub fn knows(&self, room: &Room, node: NodeIdx) -> bool {
        let kept = self.verdicts.get(node.at());
        kept.is_some_and(|kept| kept.stands(room, node) && kept.score.is_some())
    }

    /// What a node is to the class; what pods around add to its score beside it.
    fn evaluate(
        &self,
        room: &Room,
        node: NodeIdx,
        refusals: &mut Vec<NodeRefusal>,
    ) -> (Spot, FactVerdict, u32) {
        let question = self.question(room, node);
        let slot = room.node(node);
        // What its devices cost follows those, and no version of the node.
        let paid = !question.shape.facts.claims.is_empty() && question.facts().price.is_some();
        let mut verdict = match self.verdicts.get(node.at()).filter(|_| !paid) {
            Some(kept) if kept.version == slot.version => *kept,
            _ => {
                let accepted = rules::facts_accept(&question, refusals);
                let seen = (&*self.images.shares, self.images.wished);
                let score = accepted.then(|| score::fact_terms(&question, &self.weights, seen));
                FactVerdict { version: slot.version, score }
            }
        };
        verdict.version = slot.version;
        let around = self.terms_around(room, node);
        let Some(facts) = verdict.score else { return (Spot::FULL, verdict, around) };
        let slots = rules::slots(&question);
        if slots == 0 {
            return (Spot::FULL, verdict, around);
        }
        let total = match self.key.scoring.paying {
            Paying::Cheapest => score::thrift(&question),
            _ => facts + score::holding_terms(&question, &self.weights) + around,
        };
        let idle = u32::try_from(room.idle_gpus(node)).unwrap_or(u32::MAX);
        (Spot::new(slots, total, idle, slot.rank), verdict, around)
    }

    /// What pods around a node add to its score.
    fn terms_around(&self, room: &Room, node: NodeIdx) -> u32 {
        match self.key.scoring.paying {
            Paying::Cheapest => 0,
            _ => score::terms_around(&self.outlook, room, node, &self.weights),
        }
    }

    /// Gives nodes the scores that they have since pods around others changed.
    fn shift(&mut self, room: &Room, shifts: &mut Vec<(usize, i64)>) {
        let preferences = self.outlook.preferences();
        if preferences.is_empty() {
            return;
        }
        shifts.clear();
        let mut kept = std::mem::take(&mut self.around);
        kept.resize(room.slots(), 0);
        let mut now = 0;
        preferences.moved(room, |node, alike| {
            if !alike {
                now = self.terms_around(room, node);
            }
            let was = std::mem::replace(&mut kept[node.at()], now);
            let position = room.tree.position(node).filter(|_| was != now);
            shifts.extend(position.map(|at| (at, i64::from(now) - i64::from(was))));
        });
        self.around = kept;
        self.index.shift(&room.tree, shifts);
    }

    fn catch_up(&mut self, room: &Room, changes: &[NodeIdx], scratch: &mut Scratch) {
        if room.shape(self.key.shape).facts.kin.is_some() {
            let Some(turned) = self.look_around(room, changes, scratch) else {
                return self.look_everywhere(room, scratch);
            };
            self.look_at(room, &turned, scratch);
        }
        self.look_at(room, changes, scratch);
    }

    /// Whether its index is of the nodes as they are, and what it makes of pods around them is.
    fn is_built(&self, room: &Room) -> bool {
        self.epoch == room.tree_epoch() && !self.outlook.is_void(room)
    }

    /// Catches up on the nodes in focus alone, or looks at `all` of those; how many it looked at.
    fn catch_up_within(
        &mut self,
        room: &Room,
        changes: &[NodeIdx],
        focus: &Focus,
        all: bool,
        scratch: &mut Scratch,
    ) -> u64 {
        let around = room.shape(self.key.shape).facts.kin.is_some() && !changes.is_empty();
        let turned = match around {
            true => self.look_around(room, changes, scratch),
            false => Some(Vec::new()),
        };
        let Some(turned) = turned.filter(|_| !all) else {
            self.look_at(room, &focus.nodes, scratch);
            return focus.nodes.len() as u64;
        };
        let within = |node: &&NodeIdx| focus.within.get(node.at()).is_some_and(|within| *within);
        let some: Vec<NodeIdx> = turned.iter().chain(changes).filter(within).copied().collect();
        self.look_at(room, &some, scratch);
        some.len() as u64
    }

    /// Counts pods around changed nodes anew; the nodes that they turn the answer for. `None`: all.
    fn look_around(
        &mut self,
        room: &Room,
        changes: &[NodeIdx],
        scratch: &mut Scratch,
    ) -> Option<Vec<NodeIdx>> {
        let first = changes.first()?;
        let mut outlook = std::mem::take(&mut self.outlook);
        let other_facts = |node: NodeIdx| {
            let kept = self.verdicts.get(node.at());
            kept.is_none_or(|kept| kept.version != room.node(node).version)
        };
        let mut turned = Vec::new();
        let question = self.bare(room, *first);
        let told = outlook.catch_up(&question, changes, other_facts, &mut turned);
        self.outlook = outlook;
        self.shift(room, &mut scratch.shifts);
        told.then_some(turned)
    }

    fn look_at(&mut self, room: &Room, changes: &[NodeIdx], scratch: &mut Scratch) {
        let mut last = None;
        for &node in changes {
            if last == Some(node) {
                continue;
            }
            last = Some(node);
            let Some(position) = room.tree.position(node) else { continue };
            let spot = self.see(room, node, scratch);
            self.index.set(&room.tree, position, spot);
        }
    }

    /// Evaluates a node, and keeps what is kept of that.
    fn see(&mut self, room: &Room, node: NodeIdx, scratch: &mut Scratch) -> Spot {
        let (spot, verdict, around) = self.evaluate(room, node, &mut scratch.refusals);
        self.verdicts[node.at()] = verdict;
        if let Some(kept) = self.around.get_mut(node.at()) {
            *kept = around;
        }
        spot
    }

    fn rebuild(&mut self, room: &Room, scratch: &mut Scratch) {
        const NEVER: FactVerdict = FactVerdict { version: 0, score: None };
        self.look_at_wishes(room);
        self.verdicts.resize(room.slots(), NEVER);
        let mut outlook = Outlook::default();
        if let Some(first) = room.tree.order().first() {
            outlook.rebuild(&self.bare(room, *first));
        }
        self.outlook = outlook;
        let preferring = !self.outlook.preferences().is_empty();
        self.around = vec![0; if preferring { room.slots() } else { 0 }];
        self.look_everywhere(room, scratch);
        self.epoch = room.tree_epoch();
    }

    /// Evaluates all nodes, as what it makes of pods around them is.
    fn look_everywhere(&mut self, room: &Room, scratch: &mut Scratch) {
        let mut spots = Vec::with_capacity(room.tree.order().len());
        for &node in room.tree.order() {
            spots.push(self.see(room, node, scratch));
        }
        self.index = FitIndex::build(&room.tree, spots.into_iter());
    }
}
