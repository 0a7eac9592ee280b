//! Where the members of a gang go, all of them or none.
//!
//! Problem: choose a node for every member so that the gang is as close together as the cluster
//! allows, and within that as good as the scores say. Members of one shape are interchangeable,
//! so what matters is how many slots each domain has.
//!
//! Phases: the best single node that holds the whole gang; else, from the innermost level
//! outwards, the best domain that holds it; else the whole cluster. Inside a domain the gang
//! again goes to the fewest children. A gang of several shapes must find its domain for all of
//! them together: candidates pass a slot count for each shape and are then tried inside the
//! transaction, the best first ([`domains`]), at most [`TRIES_MAX`] per level, in several orders of
//! the shapes.
//!
//! Members that join a gang that runs (lost ones replaced, extras) go as near to it as they can,
//! and never out of the domain of a required level.
//!
//! Where slices of the gang were asked for, [`slices`] decides which domains they go to.
//!
//! Cost: a gang of one shape is placed without any try that fails; the search over domains reads
//! two numbers per domain.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use capstan_topology::{DomainIdx, LevelIdx, NodeIdx, Tree};

use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx};
use crate::model::txn::{Checkpoint, Txn};
use crate::place::coupled::{self, Found, Place};
pub use crate::place::levels::TopologyAsk;
use crate::place::{at_once, common_claims, domains, pod_sets, search, slices, turns, ways};

/// Members of one class to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Class.
    pub class: ClassIdx,
    /// Members, in order.
    pub pods: Vec<PodIdx>,
}

/// Candidate domains of one level that are tried for a gang of several shapes. Slot counts per
/// shape are necessary but not sufficient; 32 tries reach past fragmented domains on clusters of a
/// thousand racks and bound the work for a gang that fits nowhere.
pub const TRIES_MAX: usize = 32;

/// Places every member of every ask, or nothing and answers `false`.
pub fn place(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let start = txn.checkpoint();
    let topology = topology.of_asks(txn.state(), asks);
    let numbered = slices::numbered(txn.state(), asks);
    let asks = numbered.as_deref().unwrap_or(asks);
    let placed = match (asks, topology.slices) {
        ([], _) => true,
        (sharing, _) if !claims_fit(txn, sharing, topology) => false,
        (several, _) if topology.per_set && several.len() > 1 => {
            pod_sets::place(txn, several, topology) || place_in_turns(txn, asks, topology, start)
        }
        (all, Some(of)) => {
            slices::place(txn, all, topology, of) || place_in_turns(txn, asks, topology, start)
        }
        (coupled, None) if are_coupled(txn, coupled) => place_coupled(txn, coupled, topology),
        ([one], None) => place_one(txn, one, topology) || place_sharing(txn, asks, topology, start),
        (several, None) => {
            place_several(txn, several, topology) || place_sharing(txn, asks, topology, start)
        }
    };
    if !placed {
        txn.rollback_to(start);
    }
    placed
}

/// Whether a member that is placed may turn the answer for others on other nodes.
pub fn are_coupled(txn: &mut Txn<'_>, asks: &[Ask]) -> bool {
    let members: usize = asks.iter().map(|ask| ask.pods.len()).sum();
    members > 1 && coupled::are_coupled(txn, &counts_of(asks))
}

pub(super) fn counts_of<'a>(asks: impl IntoIterator<Item = &'a Ask>) -> Vec<coupled::Count> {
    asks.into_iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect()
}

/// Whether nodes have room for all who share a claim that one node alone can use, as far as that
/// can be told without placing anybody.
fn claims_fit(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let some = asks.iter().any(|ask| common_claims::any(txn.state(), ask.class));
    !some || common_claims::fit_some_node(txn, &counts_of(asks), topology)
}

/// Members that share claims, or of which not the first devices will do, whom no domain took as it
/// takes others.
fn place_sharing(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    start: Checkpoint,
) -> bool {
    txn.rollback_to(start);
    share(txn, asks) && place_coupled(txn, asks, topology)
}

/// Whether it matters who of these goes first, or what each takes of claims, volumes and devices.
fn share(txn: &mut Txn<'_>, asks: &[Ask]) -> bool {
    asks.iter().for_each(|ask| txn.fresh(ask.class));
    let (state, counts) = (txn.state(), counts_of(asks));
    asks.iter().any(|ask| common_claims::any(state, ask.class))
        || counts.iter().any(|count| common_claims::take_from_others(state, *count))
        || ways::any_opened(state, &counts)
}

/// Sets or slices whose members depend on each other, which were not found one after the other.
fn place_in_turns(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    start: Checkpoint,
) -> bool {
    txn.rollback_to(start);
    turns::place(txn, asks, topology)
}

fn place_coupled(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let found = coupled::find(txn, &counts_of(asks), topology);
    put(txn, asks, found)
}

/// Puts the members of asks where places were found for them, in the order in which that goes.
fn put(txn: &mut Txn<'_>, asks: &[Ask], found: Found) -> bool {
    let Found::Places(places) = found else { return false };
    let pods = turns::in_slices(txn, asks, &places, &[]);
    put_all(txn, asks, places.into_iter().zip(pods))
}

/// Puts members to places, in the order in which that goes. `false`: claims that some of them have
/// by name leave less than the search for places took.
pub(crate) fn put_all(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    mut places: impl Iterator<Item = (Place, PodIdx)>,
) -> bool {
    places.all(|(Place { ask, node, way }, pod)| {
        txn.fresh(asks[ask].class);
        let state = txn.state();
        let position = state.room.tree.position(node).expect("an offered node");
        let fits = state.classes.fit(asks[ask].class).spot(position).slots > 0
            && way.as_ref().is_none_or(|way| way.is_open(state));
        if fits {
            txn.place_in(pod, node, way.as_deref());
        }
        fits
    })
}

/// Places more members of a gang that runs already, as close to its placed members (`peers`: shape
/// and node) as can be, or nothing and answers `false`. A required level keeps them in its domain.
pub fn place_beside(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    peers: &[(ShapeIdx, NodeIdx)],
) -> bool {
    let start = txn.checkpoint();
    let in_turns = |txn: &mut Txn<'_>| {
        txn.rollback_to(start);
        turns::place_beside(txn, asks, topology, peers)
    };
    let placed = match topology.slices {
        _ if topology.per_set => {
            pod_sets::place_beside(txn, asks, topology, peers) || in_turns(txn)
        }
        Some(of) => slices::place_beside(txn, asks, topology, of, peers) || in_turns(txn),
        None => {
            let all: Vec<NodeIdx> = peers.iter().map(|(_, node)| *node).collect();
            place_near(txn, asks, topology, &all)
        }
    };
    if !placed {
        txn.rollback_to(start);
    }
    placed
}

pub(super) fn place_near(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    peers: &[NodeIdx],
) -> bool {
    if !peers.iter().any(|node| txn.state().room.tree.position(*node).is_some()) {
        return place(txn, asks, topology);
    }
    let order: Vec<&Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).collect();
    let mut peers = peers.to_vec();
    if let Some(level) = topology.required {
        // Those that others put outside of the domain where most are draw nobody there.
        let tree = &txn.state().room.tree;
        let Some(domain) = home(tree, level, &peers) else { return place(txn, asks, topology) };
        let inside = |position| tree.domain_of(level, position) == Some(domain);
        peers.retain(|node| tree.position(*node).is_some_and(inside));
    }
    let peers = peers.as_slice();
    let counts = order.iter().map(|ask| (ask.class, ask.pods.len() as u32)).collect::<Vec<_>>();
    let near = |txn: &mut Txn<'_>| {
        let found = coupled::near(txn, &counts_of(asks), topology, peers, None);
        put(txn, asks, found)
    };
    if coupled::are_coupled(txn, &counts) {
        return near(txn);
    }
    for level in levels_to_try(&txn.state().room.tree, topology).rev() {
        for domain in domains_of(txn, &order, LevelIdx(level as u8), peers) {
            if try_domain(txn, &order, domain, topology.anywhere) {
                return true;
            }
        }
    }
    match topology.required {
        Some(level) => home(&txn.state().room.tree, level, peers).is_some_and(|domain| {
            search_domain(txn, &order, domain) || share(txn, asks) && near(txn)
        }),
        None => place(txn, asks, topology),
    }
}

/// The domain of a level where most of these nodes are, the first of equals.
pub fn home(tree: &Tree, level: LevelIdx, peers: &[NodeIdx]) -> Option<DomainIdx> {
    let counts = counts(tree, level, peers).into_iter();
    counts.max_by_key(|(domain, count)| (*count, Reverse(*domain))).map(|(domain, _)| domain)
}

/// The domains of a level where any of these nodes is, and how many.
fn counts(tree: &Tree, level: LevelIdx, peers: &[NodeIdx]) -> BTreeMap<DomainIdx, usize> {
    let mut counts = BTreeMap::new();
    for position in peers.iter().filter_map(|node| tree.position(*node)) {
        if let Some(domain) = tree.domain_of(level, position) {
            *counts.entry(domain).or_default() += 1;
        }
    }
    counts
}

/// The domains of a level where peers are that have slots enough for each ask by itself, those
/// with most peers first; at most [`TRIES_MAX`].
fn domains_of(
    txn: &mut Txn<'_>,
    asks: &[&Ask],
    level: LevelIdx,
    peers: &[NodeIdx],
) -> Vec<DomainIdx> {
    for ask in asks {
        txn.fresh(ask.class);
    }
    let state = txn.state();
    let slots = |ask: &Ask, domain| state.classes.fit(ask.class).slots(domain);
    let holds = |domain| asks.iter().all(|ask| slots(ask, domain) >= ask.pods.len() as u64);
    let counts = counts(&state.room.tree, level, peers).into_iter();
    let mut found: Vec<(DomainIdx, usize)> = counts.filter(|(domain, _)| holds(*domain)).collect();
    found.sort_by_key(|(domain, count)| (Reverse(*count), *domain));
    found.into_iter().map(|(domain, _)| domain).take(TRIES_MAX).collect()
}

/// Whether members of one class fit as things are, without placing them. Exact for one ask, unless
/// [`wants_trial`].
pub fn holds(txn: &mut Txn<'_>, class: ClassIdx, count: u32, topology: TopologyAsk) -> bool {
    let topology = topology.of_class(txn.state(), class);
    if let Some(of) = topology.slices.filter(|_| !topology.mixed) {
        return slices::holds(txn, class, count, topology, of)
            || turns::holds(txn, class, count, topology);
    }
    if coupled::are_coupled(txn, &[(class, count)]) {
        let found = coupled::find(txn, &[(class, count)], topology);
        return matches!(found, Found::Places(_));
    }
    let counts = [(class, count)];
    let slots = has_slots(txn, class, count, topology);
    slots && (count < 2 || common_claims::fit_some_node(txn, &counts, topology))
        || (common_claims::are_choosy(txn.state(), class, count)
            || ways::any_opened(txn.state(), &counts))
            && matches!(coupled::find(txn, &counts, topology), Found::Places(_))
}

/// Whether a domain has slots for so many of a class.
fn has_slots(txn: &mut Txn<'_>, class: ClassIdx, count: u32, topology: TopologyAsk) -> bool {
    txn.fresh(class);
    let index = txn.state().classes.fit(class);
    let tree = &txn.state().room.tree;
    let holds = |domain: &DomainIdx| index.slots(*domain) >= u64::from(count);
    match topology.required {
        None => holds(&tree.root()),
        Some(level) => tree.domains_at(level).iter().any(holds),
    }
}

/// Whether members of one class may fit as things are, beside all shapes that come `together`:
/// where those may open nodes for them, only the whole gang tells.
pub fn may_hold(
    txn: &mut Txn<'_>,
    (class, count): (ClassIdx, u32),
    together: &[ShapeIdx],
    topology: TopologyAsk,
) -> bool {
    let topology = topology.of_class(txn.state(), class);
    match coupled::waits_for(txn, class, together) {
        true => coupled::has_room(txn, class, count, topology),
        false => holds(txn, class, count, topology),
    }
}

fn place_one(txn: &mut Txn<'_>, ask: &Ask, topology: TopologyAsk) -> bool {
    let need = ask.pods.len() as u32;
    if need == 0 {
        return true;
    }
    if !has_slots(txn, ask.class, need, topology) || !holds(txn, ask.class, need, topology) {
        return false;
    }
    match one_node(txn, ask.class, need, topology) {
        Some(node) => {
            ask.pods.iter().for_each(|pod| txn.place(*pod, node));
            true
        }
        None if coupled(txn, ask.class) => place_several(txn, std::slice::from_ref(ask), topology),
        None => {
            let start = txn.checkpoint();
            let domain = choose_domain(txn, ask.class, need, topology);
            fill(txn, ask.class, &ask.pods, domain, topology.anywhere) || {
                txn.rollback_to(start);
                // Slots of a domain may count devices that several nodes reach on each of them.
                match common_claims::contend(txn.state(), ask.class, need) {
                    true => place_several(txn, std::slice::from_ref(ask), topology),
                    false => search_domain(txn, &[ask], domain),
                }
            }
        }
    }
}

/// The best single node that holds all members, when closeness matters.
fn one_node(txn: &Txn<'_>, class: ClassIdx, need: u32, topology: TopologyAsk) -> Option<NodeIdx> {
    let state = txn.state();
    let tree = &state.room.tree;
    if topology.anywhere && need > 1 {
        return None;
    }
    let position = state.classes.fit(class).best_holding(0..tree.order().len(), need)?;
    let inside = |level| tree.domain_of(level, position).is_some();
    topology.required.is_none_or(inside).then(|| tree.order()[position])
}

/// The domain for members of one class; some domain holds them.
fn choose_domain(txn: &Txn<'_>, class: ClassIdx, need: u32, topology: TopologyAsk) -> DomainIdx {
    let state = txn.state();
    let (index, tree) = (state.classes.fit(class), &state.room.tree);
    let inside = |domain: &DomainIdx| {
        let start = tree.domain(*domain).start;
        topology.required.is_none_or(|level| tree.domain_of(level, start).is_some())
    };
    for level in levels_to_try(tree, topology).rev() {
        let level = LevelIdx(level as u8);
        let domains = tree.domains_at(level);
        // Single nodes were looked at already, where closeness matters.
        let single_nodes = domains.len() == tree.order().len() && !topology.anywhere;
        if single_nodes && topology.required != Some(level) {
            continue;
        }
        let domains = domains.iter().copied().filter(inside);
        let found = match state.classes.class(class).key.scoring.is_thrifty() {
            true => index.worthiest(tree, domains, need),
            false => index.best_domain(tree, domains, need),
        };
        if let Some(domain) = found {
            return domain;
        }
    }
    tree.root()
}

/// Levels whose domains are tried, innermost last. Where closeness does not matter, only a level
/// that was asked for confines the choice.
pub(super) fn levels_to_try(tree: &Tree, topology: TopologyAsk) -> Range<usize> {
    let outermost = topology.required.map_or(0, LevelIdx::at);
    let innermost = match topology.anywhere {
        true => topology.required.max(topology.preferred).map_or(0, |level| level.at() + 1),
        false => tree.levels(),
    };
    outermost..innermost
}

/// Whether members of a class share volumes or a claim that has no devices yet, so that each that
/// is placed changes where the next can go.
pub fn coupled(txn: &Txn<'_>, class: ClassIdx) -> bool {
    txn.state().classes.class(class).coupled() || common_claims::any(txn.state(), class)
}

/// Whether only placing members of one class tells if they fit: they choose volumes or devices and
/// depend on each other's places, too, or on each other's choice; or go in slices and do.
pub fn wants_trial(txn: &mut Txn<'_>, class: ClassIdx, count: u32, topology: TopologyAsk) -> bool {
    // What its volumes mean is known once they were looked at.
    txn.fresh(class);
    let topology = topology.of_class(txn.state(), class);
    let shape = txn.state().classes.class(class).key.shape;
    let claims = !txn.state().room.shape(shape).facts.claims.is_empty();
    coupled(txn, class)
        || topology.mixed
        || common_claims::contend(txn.state(), class, count)
        || (claims || topology.slices.is_some()) && coupled::are_coupled(txn, &[(class, count)])
}

/// Puts members of one class into a domain that holds them, in as few children as possible.
/// `false`: those placed took from each other what slots promised, as only those do that have
/// volumes or claims on devices.
pub(super) fn fill(
    txn: &mut Txn<'_>,
    class: ClassIdx,
    pods: &[PodIdx],
    domain: DomainIdx,
    anywhere: bool,
) -> bool {
    let mut left = pods;
    while !left.is_empty() {
        let need = left.len() as u32;
        txn.fresh(class);
        let state = txn.state();
        let (index, tree) = (state.classes.fit(class), &state.room.tree);
        let range = tree.domain(domain).start..tree.domain(domain).end;
        let children = if anywhere { Vec::new() } else { tree.children(domain) };
        let single_nodes = children.len() >= range.len();
        let node_holding = index.best_holding(range.clone(), if anywhere { 1 } else { need });
        let wide = !children.is_empty() && !single_nodes && node_holding.is_none();
        if wide && let Some((child, slots)) = child_for(txn, class, &children, need) {
            let taken = slots.min(u64::from(need)) as usize;
            if !fill(txn, class, &left[..taken], child, anywhere) {
                return false;
            }
            left = &left[taken..];
            continue;
        }
        let position = node_holding.or_else(|| {
            let most = index.most_slots(range.clone());
            index.best_holding(range, most.max(1))
        });
        let Some(position) = position else { return false };
        let slots = index.spot(position).slots;
        let node: NodeIdx = tree.order()[position];
        // Without closeness every member takes the best node anew.
        let taken = if anywhere { 1 } else { slots.min(need) as usize };
        for pod in &left[..taken] {
            txn.place(*pod, node);
        }
        left = &left[taken..];
    }
    true
}

/// The child that holds everything best, else the one with the most room; `None`: no child has
/// any (what is left lies outside of every child).
fn child_for(
    txn: &Txn<'_>,
    class: ClassIdx,
    children: &[DomainIdx],
    need: u32,
) -> Option<(DomainIdx, u64)> {
    let state = txn.state();
    let index = state.classes.fit(class);
    let best = index.best_domain(&state.room.tree, children.iter().copied(), need);
    let most = best.map(|best| (best, u64::from(need))).or_else(|| index.most_room(children));
    most.filter(|(_, slots)| *slots > 0)
}

fn place_several(txn: &mut Txn<'_>, asks: &[Ask], topology: TopologyAsk) -> bool {
    let order: Vec<&Ask> = asks.iter().filter(|ask| !ask.pods.is_empty()).collect();
    for ask in &order {
        txn.fresh(ask.class);
    }
    for level in levels_to_try(&txn.state().room.tree, topology).rev() {
        // A level has a budget of its own: tight domains inside must not hide roomy ones outside.
        let found = domains::holding(txn, &order, LevelIdx(level as u8), topology.required);
        for domain in domains::to_try(txn, &order, found) {
            if at_once::may_fill(txn, &order, domain)
                && try_domain(txn, &order, domain, topology.anywhere)
            {
                return true;
            }
        }
    }
    let tree = &txn.state().room.tree;
    let mut last_resort: Vec<DomainIdx> = match topology.required {
        None => vec![tree.root()],
        Some(level) => domains::holding(txn, &order, level, Some(level)),
    };
    // Those that may hold everybody, roomiest first.
    if !are_thrifty(txn, &order) {
        domains::roomiest_first(txn, &order, &mut last_resort);
    }
    last_resort.retain(|domain| at_once::may_fill(txn, &order, *domain));
    let left_out = last_resort.len() > TRIES_MAX;
    last_resort.truncate(TRIES_MAX);
    let found = last_resort.into_iter().any(|domain| {
        (topology.required.is_none() && try_domain(txn, &order, domain, topology.anywhere))
            || search_domain(txn, &order, domain)
    });
    if !found && left_out {
        txn.note_end(&counts_of(asks), SearchBound::Domains(TRIES_MAX as u32));
    }
    found
}

/// Searches a domain with second thoughts, largest members first.
fn search_domain(txn: &mut Txn<'_>, asks: &[&Ask], domain: DomainIdx) -> bool {
    let mut order = asks.to_vec();
    order.sort_by_key(|ask| Reverse(size(txn, ask)));
    let domain = txn.state().room.tree.domain(domain);
    let range = domain.start..domain.end;
    search::place(txn, &order, range)
}

/// Whether nothing but prices counts for where members go.
pub(super) fn are_thrifty(txn: &Txn<'_>, asks: &[&Ask]) -> bool {
    let classes = &txn.state().classes;
    asks.iter().any(|ask| classes.class(ask.class).key.scoring.is_thrifty())
}

/// Tries to place all asks in one domain, in several orders: those with the least to spare
/// first, then larger members first; after a failure the ask that found no place goes first.
pub(super) fn try_domain(
    txn: &mut Txn<'_>,
    asks: &[&Ask],
    domain: DomainIdx,
    anywhere: bool,
) -> bool {
    let spare = |txn: &Txn<'_>, ask: &Ask| {
        let slots = txn.state().classes.fit(ask.class).slots(domain);
        slots.saturating_sub(ask.pods.len() as u64)
    };
    let mut order: Vec<&Ask> = asks.to_vec();
    for ask in &order {
        txn.fresh(ask.class);
    }
    order.sort_by_key(|ask| (spare(txn, ask), Reverse(size(txn, ask))));
    let mut by_size = asks.to_vec();
    by_size.sort_by_key(|ask| Reverse(size(txn, ask)));
    let fill = |txn: &mut Txn<'_>, ask: &Ask| fill_one(txn, ask, domain, anywhere);
    [order, by_size].into_iter().any(|order| pod_sets::in_some_order(txn, order, fill))
}

/// Places an ask in a domain that has slots for it; `false`: some of its members may be placed.
pub(super) fn fill_one(txn: &mut Txn<'_>, ask: &Ask, domain: DomainIdx, anywhere: bool) -> bool {
    txn.fresh(ask.class);
    txn.state().classes.fit(ask.class).slots(domain) >= ask.pods.len() as u64
        && fill(txn, ask.class, &ask.pods, domain, anywhere)
}

/// How large one member of an ask is, then how many there are.
pub(super) fn size(txn: &Txn<'_>, ask: &Ask) -> ((i64, i64, i64), usize) {
    let shape = txn.state().classes.class(ask.class).key.shape;
    (txn.state().room.size(shape), ask.pods.len())
}
