//! Where the members of a gang go whose places depend on each other: pods that want each other
//! near, that spread, or that keep each other away from more than a node.
//!
//! Problem: slots of nodes say nothing here. A member that is placed opens or closes nodes for the
//! next one, so the order counts, too: whoever wants another near comes after it. As kube-scheduler
//! does, every member must fit as things are when it is placed; a gang is placed if some order and
//! some choice of nodes get all of it in.
//!
//! Phases, in each domain that the wished topology allows: no, where there are more members than
//! could go whoever else is placed; everybody to the best node that will have them, round after
//! round until nobody moves; the same with the first of those who are wanted near put into each
//! domain of that key in turn, the roomiest first, or with the first of those who share a claim
//! ([`common_claims`]) put onto each node that has room for more of them; then a search over all
//! members and nodes that takes choices back ([`everything`]).
//!
//! Bounds are counts: what is not found within them is told as such ([`Found::Bound`]).
//!
//! Cost: a pass looks up the best node once for each member. Nothing is kept.

mod confines;
mod everything;
mod fewer;
mod hopeless;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use capstan_topology::{DomainIdx, LevelIdx, NodeIdx, ResourceIdx, Tree};

use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, ShapeIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::attached::{self, Attached};
use crate::place::candidates::NODES_MAX;
use crate::place::gang::{self, TRIES_MAX, TopologyAsk};
use crate::place::ways::{self, Choosing, Way};
use crate::place::{common_claims, domains, search as places};
use crate::rules::neighbours::keys::KeyIdx;
use crate::rules::resources_fit;

/// Placements that the search for one gang tries: all of a gang of six on six nodes, several times
/// over. All searches of one decision share what they may try ([`budget`](super::budget)).
const STEPS_MAX: u32 = 16_384;

/// The same where sets or slices take turns, which leaves fewer ways, and where members choose
/// volumes or devices, which takes longer to look at.
const STEPS_FEWER: u32 = 4_096;

pub(super) use confines::{Confines, Part};
pub use fewer::{Fewer, Ways, some, some_within};

/// What came of looking for places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nodes for all members, in an order that goes.
    Places(Vec<Place>),
    /// There are none.
    None,
    /// None were found within this bound of the search.
    Bound(SearchBound),
}

/// Where a member goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its ask, by position.
    pub ask: usize,
    /// The node.
    pub node: NodeIdx,
    /// What it takes there; `None`: what will do first.
    pub way: Option<Box<Way>>,
}

/// How many members of a class are to be placed.
pub type Count = (ClassIdx, u32);

/// Whether a member that is placed may turn the answer for others on other nodes.
pub fn are_coupled(txn: &mut Txn<'_>, asks: &[Count]) -> bool {
    if asks.iter().map(|(_, count)| *count).sum::<u32>() < 2 || !any_kin(txn, asks) {
        return false;
    }
    let shapes = prepare(txn, asks);
    let state = txn.state();
    asks.iter().any(|(class, _)| {
        let outlook = state.classes.class(*class).outlook();
        !outlook.is_empty() && shapes.iter().any(|shape| outlook.reaches(&state.room, *shape))
    })
}

fn any_kin(txn: &Txn<'_>, asks: &[Count]) -> bool {
    let state = txn.state();
    asks.iter().any(|(class, _)| {
        let shape = state.classes.class(*class).key.shape;
        state.room.shape(shape).facts.kin.is_some()
    })
}

/// Brings all classes up to date, and lets each know what the others mean for it.
fn prepare(txn: &mut Txn<'_>, asks: &[Count]) -> Vec<ShapeIdx> {
    let state = txn.state();
    let shapes: Vec<ShapeIdx> =
        asks.iter().map(|(class, _)| state.classes.class(*class).key.shape).collect();
    for (class, _) in asks {
        txn.learn(*class, &shapes);
    }
    shapes
}

/// Shapes that come together, if what some of them find may depend on others; else none.
pub fn together(txn: &Txn<'_>, shapes: impl Iterator<Item = ShapeIdx> + Clone) -> Vec<ShapeIdx> {
    let room = &txn.state().room;
    let looks = |shape: ShapeIdx| room.shape(shape).facts.neighbours.is_some();
    let opened = || ways::are_opened(room, shapes.clone().map(|it| (it, 1))).contains(&true);
    if shapes.clone().nth(1).is_some() && (shapes.clone().any(looks) || opened()) {
        return shapes.collect();
    }
    Vec::new()
}

/// Whether others that come with a class may open nodes for it: it wants some of those near, or
/// spreads among them, or they take what opens some ([`ways::are_opened`]). What its members find
/// without the others says nothing then.
pub fn waits_for(txn: &mut Txn<'_>, class: ClassIdx, together: &[ShapeIdx]) -> bool {
    let state = txn.state();
    let own = state.classes.class(class).key.shape;
    let facts = &state.room.shape(own).facts;
    if together.len() < 2 {
        return false;
    }
    if facts.volumes.is_some() || !facts.claims.is_empty() {
        let opened = ways::are_opened(&state.room, together.iter().map(|it| (*it, 1)));
        if together.iter().zip(opened).any(|(shape, opened)| *shape == own && opened) {
            return true;
        }
    }
    if facts.neighbours.is_none() {
        return false;
    }
    txn.learn(class, together);
    let outlook = txn.state().classes.class(class).outlook();
    together.iter().any(|other| *other != own && outlook.is_opened_by(*other))
}

/// Whether nodes that admit a class have so much free for members of it, whoever is around them:
/// what others cannot bring about.
pub fn has_room(txn: &Txn<'_>, class: ClassIdx, count: u32, topology: TopologyAsk) -> bool {
    let tree = &txn.state().room.tree;
    let holds = |domain: &DomainIdx| {
        let domain = tree.domain(*domain);
        free_in(txn.state(), class, domain.start..domain.end) >= u64::from(count)
    };
    match topology.required {
        None => holds(&tree.root()),
        Some(level) => tree.domains_at(level).iter().any(holds),
    }
}

/// How many members of a class find what they ask free in a range of positions, on nodes that
/// admit it.
pub fn free_in(state: &ClusterState, class: ClassIdx, range: Range<usize>) -> u64 {
    let slots = range.map(|position| u64::from(free_on(state, class, position)));
    slots.fold(0, u64::saturating_add)
}

/// The same for one node.
pub fn free_on(state: &ClusterState, class: ClassIdx, position: usize) -> u32 {
    let node = state.room.tree.order()[position];
    if !state.classes.accepts(&state.room, class, node) {
        return 0;
    }
    resources_fit::slots(&state.classes.class(class).question(&state.room, node))
}

/// Places for all members, which levels hold for together; the transaction is left as it was.
pub fn find(txn: &mut Txn<'_>, asks: &[Count], topology: TopologyAsk) -> Found {
    find_confined(txn, asks, topology, None)
}

/// The same where levels or slices hold for sets of asks: what places all of one set, and then all
/// of the next, did not find.
pub(super) fn find_confined(
    txn: &mut Txn<'_>,
    asks: &[Count],
    topology: TopologyAsk,
    confines: Option<&Confines>,
) -> Found {
    let mut bound = None;
    for domains in to_look_in(txn, asks, topology) {
        // What is looked at next has all of these in it, and a budget of its own.
        let mut tries = 0;
        bound = None;
        for domain in domains {
            let domain = txn.state().room.tree.domain(domain);
            let range = domain.start..domain.end;
            let Some(search) = Search::begin(txn, asks, range) else { continue };
            tries += 1;
            if tries > TRIES_MAX {
                bound = Some(SearchBound::Domains(TRIES_MAX as u32));
                break;
            }
            match search.run(txn, confines) {
                Found::None => {}
                Found::Bound(at) => bound = Some(at),
                found => return found,
            }
        }
    }
    let Some(bound) = bound else { return Found::None };
    txn.note_end(asks, bound);
    Found::Bound(bound)
}

/// Domains in which to look, in order, level by level: those of a preferred one first, then of
/// those around it, as far as a required one or everywhere; of a level the roomiest first, and of
/// equals the best. Closeness is not looked for beyond what was asked: members that keep away from
/// each other or spread have other wishes.
fn to_look_in(txn: &mut Txn<'_>, asks: &[Count], topology: TopologyAsk) -> Vec<Vec<DomainIdx>> {
    asks.iter().for_each(|(class, _)| txn.fresh(*class));
    let tree = &txn.state().room.tree;
    let lies = |domain: &DomainIdx| {
        let start = tree.domain(*domain).start;
        topology.required.is_none_or(|level| tree.domain_of(level, start).is_some())
    };
    let of_level = |level: LevelIdx| {
        let mut found: Vec<DomainIdx> =
            tree.domains_at(level).iter().copied().filter(lies).collect();
        found.sort_by_cached_key(|domain| {
            let value = domains::value(txn.state(), asks.iter().copied(), *domain);
            (Reverse(room_in(txn, asks, *domain)), Reverse(value), *domain)
        });
        found
    };
    let mut found: Vec<Vec<DomainIdx>> = asked_levels(tree, topology).map(of_level).collect();
    if topology.required.is_none() {
        found.push(vec![tree.root()]);
    }
    found
}

/// Members for which a domain has room as things are.
fn room_in(txn: &Txn<'_>, asks: &[Count], domain: DomainIdx) -> u64 {
    let fit = |class: ClassIdx| txn.state().classes.fit(class).slots(domain);
    asks.iter().map(|(class, count)| fit(*class).min(u64::from(*count))).sum()
}

/// Levels that were asked for, innermost first: a preferred one and those around it, as far as a
/// required one.
fn asked_levels(tree: &Tree, topology: TopologyAsk) -> impl Iterator<Item = LevelIdx> {
    let asked = TopologyAsk { anywhere: true, ..topology };
    gang::levels_to_try(tree, asked).rev().map(|level| LevelIdx(level as u8))
}

/// Places for all members beside peers, who are in one domain of a required level: in the domain
/// where most of those are of each level that was asked for, one after the other. Levels may hold
/// for sets of asks.
pub(super) fn near(
    txn: &mut Txn<'_>,
    asks: &[Count],
    topology: TopologyAsk,
    peers: &[NodeIdx],
    confines: Option<&Confines>,
) -> Found {
    let tree = &txn.state().room.tree;
    let homes = asked_levels(tree, topology).filter_map(|level| gang::home(tree, level, peers));
    let everywhere = topology.required.is_none().then(|| tree.root());
    let domains: Vec<DomainIdx> = homes.chain(everywhere).collect();
    let mut bound = None;
    for domain in domains {
        let domain = txn.state().room.tree.domain(domain);
        let range = domain.start..domain.end;
        let search = Search::begin(txn, asks, range);
        match search.map_or(Found::None, |search| search.run(txn, confines)) {
            // What is looked at next has this one in it.
            Found::None => bound = None,
            Found::Bound(at) => bound = Some(at),
            found => return found,
        }
    }
    let Some(bound) = bound else { return Found::None };
    txn.note_end(asks, bound);
    Found::Bound(bound)
}

/// Puts as many members as go onto the best nodes of a range, and leaves them there; how many of
/// each ask.
pub fn fill(txn: &mut Txn<'_>, asks: &[Count], range: Range<usize>) -> Vec<u32> {
    let shapes = prepare(txn, asks);
    let mut search = Search::new(txn, asks, shapes, range);
    search.advance(txn);
    let placed = |(count, left): (&Count, &u32)| count.1 - left;
    asks.iter().zip(&search.left).map(placed).collect()
}

/// Whether others want members of an ask near, by ask.
pub fn are_wanted(txn: &mut Txn<'_>, asks: &[Count]) -> Vec<bool> {
    let shapes = prepare(txn, asks);
    let classes = &txn.state().classes;
    let wants = |class: ClassIdx, shape: ShapeIdx| {
        classes.class(class).outlook().wants_near(shape).is_some()
    };
    shapes.iter().map(|shape| asks.iter().any(|(class, _)| wants(*class, *shape))).collect()
}

/// Whether members of an ask may open nodes for others that look different, by ask.
pub fn are_helpers(txn: &mut Txn<'_>, asks: &[Count]) -> Vec<bool> {
    let shapes = prepare(txn, asks);
    let classes = &txn.state().classes;
    let opened = |class: ClassIdx, by: ShapeIdx| {
        let class = classes.class(class);
        class.key.shape != by && class.outlook().is_opened_by(by)
    };
    shapes.iter().map(|shape| asks.iter().any(|(class, _)| opened(*class, *shape))).collect()
}

/// Whether a member that is placed may open nodes for others. Classes know the shapes.
fn any_opens(txn: &Txn<'_>, classes: &[ClassIdx], shapes: &[ShapeIdx]) -> bool {
    classes.iter().any(|class| {
        let outlook = txn.state().classes.class(*class).outlook();
        shapes.iter().any(|shape| outlook.is_opened_by(*shape))
    })
}

/// A search for places in one domain.
struct Search {
    asks: Vec<ClassIdx>,
    shapes: Vec<ShapeIdx>,
    resources: Vec<ResourceIdx>,
    /// Members still to place, by ask.
    left: Vec<u32>,
    /// Where members went, one after the other.
    places: Vec<Place>,
    /// Who is where, and the number of what it took, while everything is looked at.
    state: Vec<(u16, NodeIdx, u32)>,
    /// The same in states that led nowhere.
    seen: BTreeSet<Vec<(u16, NodeIdx, u32)>>,
    range: Range<usize>,
    /// Positions that are looked at while everything is; `None`: too many.
    nodes: Option<Vec<usize>>,
    /// By position and ask: rules that refused those for whom others may open nodes, at the begin.
    refused: BTreeMap<usize, Vec<u32>>,
    /// Volumes and devices that members choose where they go; `None`: nobody does.
    choosing: Option<Choosing>,
    /// Volumes of members that drivers count; `None`: there are none.
    attached: Option<Attached>,
    /// Where sets may go; `None`: anywhere.
    confines: Option<Confines>,
    /// Who may be left out; `None`: nobody.
    leaving: Option<Box<fewer::Leaving>>,
    /// For whom others may open nodes by what they take, by ask.
    opened: Vec<bool>,
    /// Nobody opens a node for anybody: whoever fits with all others fits in any order.
    in_any_order: bool,
    steps: u32,
    /// Steps that it may take.
    most: u32,
}

impl Search {
    /// `None`: some members go nowhere in the range whoever else is placed.
    fn begin(txn: &mut Txn<'_>, asks: &[Count], range: Range<usize>) -> Option<Search> {
        let shapes = prepare(txn, asks);
        let search = Search::new(txn, asks, shapes, range);
        (!search.is_hopeless(txn)).then_some(search)
    }

    /// Looks for places; the transaction is left as it was.
    fn run(mut self, txn: &mut Txn<'_>, confines: Option<&Confines>) -> Found {
        let start = txn.checkpoint();
        self.confines = confines.cloned();
        let found = confines.is_none()
            && (self.greedy(txn) || self.anchored(txn) || self.sharing(txn))
            || self.everything(txn);
        txn.rollback_to(start);
        match (found, self.bound()) {
            (true, _) => Found::Places(self.places),
            (false, Some(bound)) => Found::Bound(bound),
            (false, None) => Found::None,
        }
    }

    fn new(txn: &Txn<'_>, asks: &[Count], shapes: Vec<ShapeIdx>, range: Range<usize>) -> Search {
        let classes: Vec<ClassIdx> = asks.iter().map(|(class, _)| *class).collect();
        let members = shapes.iter().zip(asks).map(|(shape, (_, count))| (*shape, *count));
        let room = &txn.state().room;
        let opened = ways::are_opened(room, members);
        let in_order = any_opens(txn, &classes, &shapes)
            || opened.contains(&true)
            || attached::need_order(room, shapes.iter().copied());
        Search {
            resources: places::resources(txn, classes.iter().copied()),
            choosing: Choosing::of(txn.state(), &classes),
            attached: Attached::of(txn.state(), &classes),
            left: asks.iter().map(|(_, count)| *count).collect(),
            places: Vec::new(),
            state: Vec::new(),
            seen: BTreeSet::new(),
            confines: None,
            leaving: None,
            in_any_order: !in_order,
            opened,
            nodes: Some(Vec::new()),
            refused: BTreeMap::new(),
            range,
            asks: classes,
            shapes,
            steps: 0,
            most: STEPS_MAX,
        }
    }

    /// Where it ended before it had looked at everything.
    fn bound(&self) -> Option<SearchBound> {
        let cut = self.choosing.as_ref().is_some_and(Choosing::was_cut);
        match (&self.nodes, self.are_too_many()) {
            (None, _) => Some(SearchBound::Nodes(NODES_MAX as u32)),
            (_, true) => Some(SearchBound::Members(places::MEMBERS_MAX as u32)),
            _ => (cut || self.steps > self.most).then_some(SearchBound::Tries(self.most)),
        }
    }

    /// Members still to place, with their classes.
    fn counts(&self) -> Vec<Count> {
        self.asks.iter().copied().zip(self.left.iter().copied()).collect()
    }

    /// Everybody to the best node, those first who others want near, then the larger ones.
    fn greedy(&mut self, txn: &mut Txn<'_>) -> bool {
        let (mark, left) = (txn.checkpoint(), self.left.clone());
        let done = self.advance(txn);
        if !done {
            self.back_to(txn, mark, left);
        }
        done
    }

    /// Round after round until all have places, or nobody moves.
    fn advance(&mut self, txn: &mut Txn<'_>) -> bool {
        let order = self.order(txn);
        loop {
            let before: u32 = self.left.iter().sum();
            for &at in &order {
                while self.left[at] > 0 && self.step(txn, at) {}
            }
            match self.left.iter().sum::<u32>() {
                0 => return true,
                left if left == before => return false,
                _ => {}
            }
        }
    }

    fn order(&self, txn: &Txn<'_>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.asks.len()).collect();
        let wanted = |at: usize| {
            let by = |other: &ClassIdx| {
                txn.state().classes.class(*other).outlook().wants_near(self.shapes[at]).is_some()
            };
            self.asks.iter().any(by)
        };
        let size = |at: usize| txn.state().room.size(self.shapes[at]);
        order.sort_by_key(|at| (!wanted(*at), Reverse(size(*at)), *at));
        order
    }

    /// Places one member on the best node.
    fn step(&mut self, txn: &mut Txn<'_>, at: usize) -> bool {
        txn.fresh(self.asks[at]);
        let index = txn.state().classes.fit(self.asks[at]);
        let Some(position) = index.best_holding(self.range.clone(), 1) else { return false };
        let node = txn.state().room.tree.order()[position];
        self.put(txn, at, node);
        true
    }

    fn put(&mut self, txn: &mut Txn<'_>, at: usize, node: NodeIdx) {
        self.put_in(txn, at, node, None);
    }

    fn put_in(&mut self, txn: &mut Txn<'_>, at: usize, node: NodeIdx, way: Option<Way>) {
        txn.occupy_in(self.shapes[at], node, way.as_ref());
        self.places.push(Place { ask: at, node, way: way.map(Box::new) });
        self.left[at] -= 1;
    }

    fn back_to(&mut self, txn: &mut Txn<'_>, mark: crate::model::txn::Checkpoint, left: Vec<u32>) {
        let placed: u32 = left.iter().sum::<u32>() - self.left.iter().sum::<u32>();
        self.places.truncate(self.places.len() - placed as usize);
        self.left = left;
        txn.rollback_to(mark);
    }

    /// The first of those who others want near into each domain of that key in turn.
    fn anchored(&mut self, txn: &mut Txn<'_>) -> bool {
        let Some((anchor, key)) = self.anchor(txn) else { return false };
        self.asks.iter().for_each(|class| txn.fresh(*class));
        let mut domains = self.domains_of(txn, key);
        let all = self.gatherings(txn.state());
        if let Some(of) = all.iter().find(|of| of.key == key && of.asks.contains(&anchor)) {
            let common: BTreeSet<usize> = self.domains_for(txn.state(), of).collect();
            domains.retain(|(_, domain)| common.contains(domain));
        }
        domains.sort_by_key(|(room, at)| (Reverse(*room), *at));
        for (_, domain) in domains.into_iter().take(TRIES_MAX) {
            let (mark, left) = (txn.checkpoint(), self.left.clone());
            let Some(node) = self.best_in(txn, anchor, key, domain) else { continue };
            self.put(txn, anchor, node);
            if self.greedy(txn) {
                return true;
            }
            self.back_to(txn, mark, left);
        }
        false
    }

    /// The first of those who share a claim onto each node that could hold them, and the others of
    /// them after it.
    fn sharing(&mut self, txn: &mut Txn<'_>) -> bool {
        if self.choosing.is_none() {
            return false;
        }
        let all = self.counts();
        for shared in common_claims::claims(txn.state(), &all) {
            self.asks.iter().for_each(|class| txn.fresh(*class));
            let positions =
                common_claims::positions(txn.state(), &shared, &all, self.range.clone());
            for position in positions.into_iter().take(TRIES_MAX) {
                let (mark, left) = (txn.checkpoint(), self.left.clone());
                let node = txn.state().room.tree.order()[position];
                if self.share_from(txn, node, shared.asks()) && self.greedy(txn) {
                    return true;
                }
                self.back_to(txn, mark, left);
            }
        }
        false
    }

    /// The first that a node takes of these, then all others; `false`: it takes none.
    fn share_from(&mut self, txn: &mut Txn<'_>, node: NodeIdx, asks: &[usize]) -> bool {
        let first = asks.iter().copied().find(|at| {
            txn.fresh(self.asks[*at]);
            let state = txn.state();
            let position = state.room.tree.position(node).expect("an offered node");
            state.classes.fit(self.asks[*at]).spot(position).slots > 0
        });
        let Some(first) = first else { return false };
        self.put(txn, first, node);
        for &at in asks {
            while self.left[at] > 0 && self.step(txn, at) {}
        }
        true
    }

    /// The first ask whose members others want near, and within what.
    fn anchor(&self, txn: &Txn<'_>) -> Option<(usize, KeyIdx)> {
        self.order(txn).into_iter().find_map(|at| {
            let mut classes = self.asks.iter();
            let near = |class: &ClassIdx| {
                txn.state().classes.class(*class).outlook().wants_near(self.shapes[at])
            };
            classes.find_map(near).map(|key| (at, key))
        })
    }

    /// Domains of a key, and how many members each holds by the resources of its nodes.
    fn domains_of(&self, txn: &Txn<'_>, key: KeyIdx) -> Vec<(u64, usize)> {
        let state = txn.state();
        let room = &state.room;
        let table = room.neighbourhood.keys.table(key);
        let inside = |node: &NodeIdx| {
            room.tree.position(*node).is_some_and(|position| self.range.contains(&position))
        };
        let slots = |node: &NodeIdx| -> u64 {
            let of_shape =
                |shape: &ShapeIdx| u64::from(room.ledger.slots(*node, room.shape(*shape).request));
            self.shapes.iter().map(of_shape).sum()
        };
        let domains = (0..table.domains()).map(|at| {
            let nodes = table.nodes(at).iter().filter(|node| inside(node));
            (nodes.map(slots).fold(0_u64, u64::saturating_add), at)
        });
        domains.filter(|(slots, _)| *slots > 0).collect()
    }

    fn best_in(&self, txn: &mut Txn<'_>, at: usize, key: KeyIdx, domain: usize) -> Option<NodeIdx> {
        txn.fresh(self.asks[at]);
        let state = txn.state();
        let index = state.classes.fit(self.asks[at]);
        let nodes = state.room.neighbourhood.keys.table(key).nodes(domain).iter();
        let fits = nodes.filter_map(|node| {
            let position = state.room.tree.position(*node)?;
            let spot = self.range.contains(&position).then(|| index.spot(position))?;
            (spot.slots > 0).then_some((spot.key, *node))
        });
        fits.max_by_key(|(key, _)| *key).map(|(_, node)| node)
    }
}
