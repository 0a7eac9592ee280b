//! Money as quota: places that cost no more than a queue's quota of money leaves.
//!
//! Problem: a queue may have a quota of `capstan.sh/usd-per-hour`. Nobody asks for an amount of
//! it: what a member charges is the price of its share of the node where it goes, which is known
//! once it is placed. Nodes that the scores prefer may cost more than is left, where others would
//! do.
//!
//! Wanted: what is left caps the placement. Members go where they would go without such a quota if
//! that can be paid; else to the cheapest nodes; else they wait, and it is said what those cost.
//! A lone pod that could be paid for on any node waits on no other's account. Nodes whose price is
//! not known are left out ([`crate::rules::price`]).
//!
//! Phases: the limit is read ([`Purse`]), members are placed as the scores say, what that costs is
//! added up; if it is too much that is rolled back, and they are placed once more with the cheapest
//! nodes first, wherever these are within a domain that is required, the cheapest of those. What is
//! preferred holds if that can be paid. Members of one kind then cost the least that they can; of
//! several kinds that compete for nodes, and of such as depend on each other's places, little, but
//! not always the least.
//!
//! Which flavor's money is charged follows from the flavors that were chosen: a flavor is in one
//! resource group. Costs: nothing where no flavor's money is charged, else one more placement.

use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::quota::build::{Group, QuotaState};
use crate::resources::{self, USD};

/// Micro-USD an hour, of each flavor.
pub type Costs = Vec<(FrIdx, i64)>;

/// Why members have no places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unplaced {
    /// Nodes do not hold them.
    NoRoom,
    /// They do, and cost so much where that is least.
    TooDear(Costs),
}

/// The most that may be charged of each flavor's money.
#[derive(Clone, Debug, Default)]
pub struct Purse {
    queue: Option<QueueIdx>,
    most: Costs,
}

impl QuotaState {
    /// The group of a queue that covers money.
    pub fn money_group(&self, queue: QueueIdx) -> Option<&Group> {
        self.queue(queue).groups.iter().find(|group| group.covered.contains(&USD))
    }

    /// Whether an amount is one of money.
    pub fn is_money(&self, fr: FrIdx) -> bool {
        self.fr(fr).1 == USD
    }

    /// The money that members with these flavors are charged in a queue.
    pub fn money_of(&self, queue: QueueIdx, flavors: &[FlavorIdx]) -> Option<FrIdx> {
        let group = self.money_group(queue)?;
        let flavor = flavors.iter().find(|flavor| group.flavors.contains(flavor))?;
        self.find_fr(*flavor, USD)
    }
}

impl Purse {
    /// All that quota rules leave a queue of the money that these members are charged.
    pub fn of(state: &ClusterState, queue: Option<QueueIdx>, asks: &[Ask]) -> Purse {
        let classes = asks.iter().map(|ask| ask.class);
        let node = queue.and_then(|queue| state.quota.queue(queue).node);
        Purse::with(state, queue, classes, |fr| {
            node.map_or(0, |node| state.quota.tree.available(node, fr))
        })
    }

    /// So much of the money that members of these classes are charged.
    pub fn with(
        state: &ClusterState,
        queue: Option<QueueIdx>,
        classes: impl Iterator<Item = ClassIdx>,
        most: impl Fn(FrIdx) -> i64,
    ) -> Purse {
        let mut purse = Purse { queue, most: Costs::new() };
        let Some(queue) = queue.filter(|queue| state.quota.money_group(*queue).is_some()) else {
            return purse;
        };
        for class in classes {
            let flavors = &state.classes.class(class).key.flavors;
            if let Some(fr) = state.quota.money_of(queue, flavors)
                && purse.most.iter().all(|(known, _)| *known != fr)
            {
                purse.most.push((fr, most(fr)));
            }
        }
        purse
    }

    /// Whether nobody is charged any money.
    pub fn is_empty(&self) -> bool {
        self.most.is_empty()
    }

    fn pays(&self, costs: &Costs) -> bool {
        costs.iter().all(|(fr, cost)| self.most.iter().any(|(of, n)| of == fr && cost <= n))
    }

    /// What members that are placed cost.
    fn costs(&self, state: &ClusterState, asks: &[Ask]) -> Costs {
        let mut costs: BTreeMap<FrIdx, i64> = BTreeMap::new();
        for ask in asks {
            let flavors = &state.classes.class(ask.class).key.flavors;
            let fr = self.queue.and_then(|queue| state.quota.money_of(queue, flavors));
            let Some(fr) = fr else { continue };
            for pod in &ask.pods {
                let node = state.pods[*pod].place.expect("it was placed");
                let price = state.price_on(*pod, node).unwrap_or_default();
                resources::add(costs.entry(fr).or_default(), price.0);
            }
        }
        costs.into_iter().collect()
    }
}

/// Places every member of every ask for no more than a purse holds, or nothing; what they cost.
pub fn place(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    purse: &Purse,
) -> Result<Costs, Unplaced> {
    let start = txn.checkpoint();
    if !gang::place(txn, asks, topology) {
        return Err(Unplaced::NoRoom);
    }
    if purse.is_empty() {
        return Ok(Costs::new());
    }
    let as_scored = purse.costs(txn.state(), asks);
    if purse.pays(&as_scored) {
        return Ok(as_scored);
    }
    txn.rollback_to(start);
    let (cheapest, mut least) = (cheapest(txn, asks), as_scored);
    for topology in thrifty(topology) {
        if !gang::place(txn, &cheapest, topology) {
            continue;
        }
        let costs = purse.costs(txn.state(), asks);
        if purse.pays(&costs) {
            return Ok(costs);
        }
        txn.rollback_to(start);
        least = costs;
    }
    Err(Unplaced::TooDear(least))
}

/// The topology asked of members that are to cost little: with what is preferred, and without.
pub fn thrifty(topology: TopologyAsk) -> impl Iterator<Item = TopologyAsk> {
    let near = TopologyAsk { anywhere: true, ..topology };
    let prefers = near.preferred.is_some() || near.own_levels;
    let wide = prefers.then_some(TopologyAsk { preferred: None, gives_way: true, ..near });
    std::iter::once(near).chain(wide)
}

/// What places would cost, as [`place`] finds them; nobody is placed.
pub fn trial(
    txn: &mut Txn<'_>,
    asks: &[Ask],
    topology: TopologyAsk,
    purse: &Purse,
) -> Result<Costs, Unplaced> {
    let start = txn.checkpoint();
    let found = place(txn, asks, topology, purse);
    txn.rollback_to(start);
    found
}

/// What members cost at least where there is room for them now, of each flavor's money of a queue;
/// `None`: there is none.
pub fn cost_now(
    txn: &mut Txn<'_>,
    queue: QueueIdx,
    asks: &[Ask],
    topology: TopologyAsk,
) -> Option<Costs> {
    // Who can pay for nothing is told what is cheapest.
    let classes = asks.iter().map(|ask| ask.class);
    let purse = Purse::with(txn.state(), Some(queue), classes, |_| 0);
    match trial(txn, asks, topology, &purse) {
        Ok(costs) | Err(Unplaced::TooDear(costs)) => Some(costs),
        Err(Unplaced::NoRoom) => None,
    }
}

/// The same members, for whom the cheapest nodes are best.
pub fn cheapest(txn: &mut Txn<'_>, asks: &[Ask]) -> Vec<Ask> {
    let cheapest = |ask: &Ask| {
        let key = txn.state().classes.class(ask.class).key.clone();
        let class = txn.class(key.shape, &key.flavors, key.scoring.cheapest());
        Ask { class, pods: ask.pods.clone() }
    };
    asks.iter().map(cheapest).collect()
}

/// What one member of a class costs on the cheapest node that admits it and is large enough,
/// whatever is free there; `None`: there is none.
pub fn least(state: &ClusterState, class: ClassIdx) -> Option<i64> {
    let (room, shape) = (&state.room, state.classes.class(class).key.shape);
    let request = room.ledger.request(room.shape(shape).request);
    let holds = |node: NodeIdx| {
        let mut asked = request.entries().iter();
        room.args.ignores_any() || asked.all(|(of, n)| room.ledger.allocatable(node, *of) >= *n)
    };
    let nodes = room.tree.order().iter().copied();
    let admitted = nodes.filter(|node| holds(*node) && state.classes.accepts(room, class, *node));
    admitted.filter_map(|node| state.hourly_on(shape, node)).map(|price| price.0).min()
}

/// Puts the least that members can cost in the place of what they cost now: whoever leaves, it is
/// no less.
pub fn put_least(state: &ClusterState, queue: QueueIdx, asks: &[Ask], usage: &mut [(FrIdx, i64)]) {
    for (fr, amount) in usage.iter_mut().filter(|(fr, _)| state.quota.is_money(*fr)) {
        let pays = |ask: &&Ask| {
            let flavors = &state.classes.class(ask.class).key.flavors;
            state.quota.money_of(queue, flavors) == Some(*fr)
        };
        let of_ask = |ask: &Ask| {
            let each = least(state, ask.class).unwrap_or(0);
            each.saturating_mul(ask.pods.len() as i64)
        };
        *amount = resources::total(asks.iter().filter(pays).map(of_ask));
    }
}

/// The first members of a shape that need a place.
pub fn members(
    state: &ClusterState,
    workload: WorkloadIdx,
    shape: ShapeIdx,
    count: u32,
) -> Vec<PodIdx> {
    let needy = |pod: &PodIdx| state.pods[*pod].needs_place();
    let members = state.workloads[workload].members_of(shape, &state.pods);
    members.filter(needy).take(count as usize).collect()
}
