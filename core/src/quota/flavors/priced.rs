//! What a unit of pod sets asks of a queue's quota of money in one flavor, and how that stands.
//!
//! It asks what its members would cost where they would go now ([`money`]): as the scores say if
//! that can be paid, else on the cheapest nodes. Where they find no room, or cost too much, they
//! ask at least so often the price of the cheapest node that takes one: less it can never be,
//! whoever leaves, and that is what victims are looked for with, and what can never be had is
//! compared with. Of several sets each asks no more than that, or one would spend what others need
//! on better nodes than it must have: what all of them cost is known when all are placed together.
//!
//! What is told as asked where it is too much is what it costs where there is room now, with the
//! sets before, if there is: people can do something about that.

use std::borrow::Cow;

use capstan_topology::ResourceIdx;

use super::standing::{Quota, beyond, quota_of};
use super::unit::{self, Part};
use super::{Choice, Demand, SetDemand, Total, shortage};
use crate::explain::reason::{FlavorProblem, Reason};
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx, QueueIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::gang::Ask;
use crate::quota::money::{self, Costs, Purse, Unplaced};
use crate::resources::{self, USD};

/// What a part asks, money included.
pub(super) struct Priced<'a> {
    /// Amounts, that of money filled in.
    pub asked: Cow<'a, [(ResourceIdx, i64)]>,
    /// How quota of money stands, if the part is charged any.
    pub money: Option<Quota>,
}

impl Priced<'_> {
    /// What it asks of money.
    pub fn amount(&self) -> i64 {
        self.asked.iter().find(|(of, _)| *of == USD).map_or(0, |(_, amount)| *amount)
    }

    /// How quota stands for a resource; of the total, `own` is the set's.
    pub fn quota(
        &self,
        state: &ClusterState,
        demand: &Demand<'_>,
        resource: ResourceIdx,
        (fr, total, own): (FrIdx, i64, i64),
    ) -> Quota {
        match &self.money {
            Some(quota) if resource == USD => quota.clone(),
            _ => quota_of(state, demand, fr, total, own),
        }
    }

    /// That more is asked of a resource than could ever be had.
    pub fn beyond(
        &self,
        state: &ClusterState,
        queue: QueueIdx,
        resource: ResourceIdx,
        (fr, total, own): Total,
    ) -> Option<FlavorProblem> {
        match &self.money {
            Some(Quota::Never(_, why @ FlavorProblem::ExceedsMax { .. })) if resource == USD => {
                Some(why.clone())
            }
            Some(_) if resource == USD => None,
            _ => beyond(state, queue, fr, (total, own)),
        }
    }
}

impl Choice {
    /// All members together cost this: it is what they ask.
    pub fn pay(&mut self, costs: &Costs) {
        for (fr, cost) in costs {
            if let Some((_, amount)) = self.usage.iter_mut().find(|(known, _)| known == fr) {
                *amount = *cost;
            }
        }
    }
}

/// That members cost more than is left, told of the first pod set that has the flavor.
pub fn too_dear(
    state: &ClusterState,
    queue: QueueIdx,
    sets: &[SetDemand],
    choice: &Choice,
) -> Option<Reason> {
    let mut money = choice.usage.iter().filter(|(fr, _)| state.quota.is_money(*fr));
    let (fr, short) = money.find_map(|&(fr, n)| Some((fr, shortage(state, queue, fr, n)?)))?;
    let chosen = (USD, state.quota.fr(fr).0);
    let at = choice.sets.iter().position(|set| set.contains(&chosen)).unwrap_or(0);
    Some(Reason::Flavors {
        cluster_queue: state.quota.queue(queue).name.clone(),
        pod_set: sets[at].name.clone(),
        tried: vec![short],
    })
}

/// Members that are asked for, of each kind.
type Members<'a> = &'a [(ClassIdx, u32)];

/// What a part asks with a flavor that makes its members these `asks`, and beside what was `chosen`
/// for parts before it.
pub(super) fn of_part<'a>(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    part: &'a Part,
    flavor: FlavorIdx,
    (asks, chosen): (Members<'_>, &Choice),
) -> Priced<'a> {
    let asked = &part.asked[..];
    let Some(money) = asked.iter().position(|(of, _)| *of == USD) else {
        return Priced { asked: Cow::Borrowed(asked), money: None };
    };
    let queue = demand.queue;
    let state = txn.state();
    let fr = state.quota.listed_fr(flavor, USD);
    let earlier = chosen.usage.iter().find(|(known, _)| *known == fr).map_or(0, |(_, n)| *n);
    let node = state.quota.queue(queue).node.expect("only existing queues have heads");
    let left = state.quota.tree.available(node, fr).saturating_sub(earlier);
    let purse = Purse::with(state, Some(queue), asks.iter().map(|(class, _)| *class), |_| left);
    let placed = members(state, demand, asks);
    let found = money::trial(txn, &placed, demand.topology, &purse);
    let sum = |costs: &Costs| resources::total(costs.iter().map(|(_, cost)| *cost));
    let now = match &found {
        Ok(costs) => Some(sum(costs)),
        Err(Unplaced::TooDear(costs)) => Some(sum(costs)),
        Err(Unplaced::NoRoom) => None,
    };
    let state = txn.state();
    let alone = demand.sets.len() == 1;
    let amount = match now.filter(|_| alone && found.is_ok()) {
        Some(now) => now,
        None => {
            let least = |&(class, count): &(ClassIdx, u32)| {
                money::least(state, class).unwrap_or(0).saturating_mul(count.into())
            };
            resources::total(asks.iter().map(least))
        }
    };
    let all = earlier.saturating_add(amount);
    let quota = quota_of(state, demand, fr, all, amount);
    let cost = now.map(|now| earlier.saturating_add(now));
    let short = cost.and_then(|cost| shortage(state, queue, fr, cost));
    let mut quota = match (quota, short) {
        (Quota::Fits(_) | Quota::Short(_), Some(short)) => Quota::Short(short.why),
        (quota, _) => quota,
    };
    if let Quota::Short(why) | Quota::Never(_, why) = &mut quota
        && let Some(cost) = cost
    {
        let together = with_earlier(txn, demand, (chosen, fr), placed);
        why.asks_at_least(together.unwrap_or(0).max(cost));
    }
    let mut filled = asked.to_vec();
    filled[money].1 = amount;
    Priced { asked: Cow::Owned(filled), money: Some(quota) }
}

/// The members of these classes that need a place.
fn members(state: &ClusterState, demand: &Demand<'_>, asks: Members<'_>) -> Vec<Ask> {
    let members = |&(class, count): &(ClassIdx, u32)| {
        let shape = state.classes.class(class).key.shape;
        Ask { class, pods: money::members(state, demand.workload, shape, count) }
    };
    asks.iter().map(members).collect()
}

/// What members cost where there is room now for them and those of the sets before that are
/// charged the same money; `None`: there are no such sets, or there is no room for all.
fn with_earlier(
    txn: &mut Txn<'_>,
    demand: &Demand<'_>,
    (chosen, fr): (&Choice, FrIdx),
    asks: Vec<Ask>,
) -> Option<i64> {
    let paid = (USD, txn.state().quota.fr(fr).0);
    let earlier = (0..chosen.sets.len()).filter(|at| chosen.sets[*at].contains(&paid));
    let earlier: Vec<usize> = earlier.collect();
    if earlier.is_empty() {
        return None;
    }
    let earlier = unit::asks_of(txn, demand, &earlier, chosen);
    let mut all = members(txn.state(), demand, &earlier);
    all.extend(asks);
    let costs = money::cost_now(txn, demand.queue, &all, demand.topology)?;
    costs.iter().find(|(of, _)| *of == fr).map(|(_, cost)| *cost)
}
