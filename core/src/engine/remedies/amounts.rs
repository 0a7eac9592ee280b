//! What a waiting workload asks of a flavor's quota, to be raised by what is missing of it.
//!
//! Of most resources that is what its members ask. Of money it is what they cost: at least, on the
//! cheapest nodes that there are, which others may have to leave; or where there is room for them
//! now, with which they start and nobody leaves.

use capstan_topology::ResourceIdx;

use crate::engine::Engine;
use crate::explain::quantity::USD_PER_HOUR;
use crate::explain::reason::{FlavorProblem, FlavorRefusal};
use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::place::gang::Ask;
use crate::quota::flavors::SetDemand;
use crate::quota::money;
use crate::resources::{self, USD};

/// Sets of a gang that are looked at one by one; others stay together.
const SETS_APART_MAX: usize = 4;

/// How much is asked of each quota.
pub(super) type Asked = Vec<(FrIdx, i64)>;

/// What members are taken to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// The least that they ever can.
    Least,
    /// What they do where there is room for them now, if there is.
    Now {
        /// What all of them were told to cost; 0: nothing was told.
        told: i64,
    },
}

impl Engine {
    /// What the members that must start together ask of a flavor; where some sets could go to
    /// others, also what the rest asks. Least first, by resource, devices before others.
    pub(super) fn asked_of(
        &mut self,
        index: WorkloadIdx,
        queue: QueueIdx,
        flavor: FlavorIdx,
        cost: Cost,
    ) -> Vec<Asked> {
        let sets = self.least_demands(index);
        let groups = &self.state.quota.queue(queue).groups;
        let elsewhere = groups.iter().any(|group| group.flavors.len() > 1);
        let all = (1_u32 << sets.len().min(SETS_APART_MAX)) - 1;
        let smaller = if elsewhere { 1..all } else { all..all };
        let some = |apart: u32| -> Vec<&SetDemand> {
            let here = |at: usize| at >= SETS_APART_MAX || apart & (1 << at) != 0;
            sets.iter().enumerate().filter(|(at, _)| here(*at)).map(|(_, set)| set).collect()
        };
        let apart: Vec<Vec<&SetDemand>> = smaller.chain([all]).map(some).collect();
        let costs = self.costs_of(index, (queue, flavor), &apart, cost);
        let state = &self.state;
        let groups = &state.quota.queue(queue).groups;
        let covered = groups.iter().filter(|group| group.flavors.contains(&flavor));
        let mut named: Vec<ResourceIdx> =
            covered.flat_map(|group| group.covered.iter().copied()).collect();
        named.sort_by_key(|resource| !state.room.resources.name(*resource).contains('/'));
        let amounts = |(sets, cost): (&Vec<&SetDemand>, &i64)| -> Asked {
            let asked = named.iter().filter_map(|resource| {
                let of_set = |set: &&SetDemand| {
                    let counted = state.room.counted(set.shape);
                    counted.get(*resource).saturating_mul(set.count.into())
                };
                let fr = state.quota.find_fr(flavor, *resource)?;
                if *resource == USD {
                    return Some((fr, *cost));
                }
                Some((fr, resources::total(sets.iter().map(of_set))))
            });
            asked.collect()
        };
        // All have the same resources, those that are not asked included.
        let mut found: Vec<Asked> = apart.iter().zip(&costs).map(amounts).collect();
        found.sort_by(|one, other| one.iter().map(|(_, n)| n).cmp(other.iter().map(|(_, n)| n)));
        found.dedup();
        found.iter_mut().for_each(|asked| asked.retain(|(_, amount)| *amount > 0));
        found
    }

    /// What some of the sets cost with a flavor, for each such choice of them; the last are all.
    fn costs_of(
        &mut self,
        index: WorkloadIdx,
        (queue, flavor): (QueueIdx, FlavorIdx),
        apart: &[Vec<&SetDemand>],
        cost: Cost,
    ) -> Vec<i64> {
        if self.state.quota.money_of(queue, &[flavor]).is_none() {
            return vec![0; apart.len()];
        }
        let (profile, topology) =
            (self.profile(Some(queue)), self.topology_ask(Some(queue), index).ok());
        let mut txn = Txn::begin(&mut self.state);
        let cost_of = |sets: &Vec<&SetDemand>| {
            let (mut asks, mut least) = (Vec::new(), 0_i64);
            for set in sets {
                let class = txn.class(set.shape, &[flavor], profile);
                let each = money::least(txn.state(), class).unwrap_or(0);
                resources::add(&mut least, each.saturating_mul(set.count.into()));
                let pods = money::members(txn.state(), index, set.shape, set.count);
                asks.push(Ask { class, pods });
            }
            let Some(topology) = topology.filter(|_| cost != Cost::Least) else { return least };
            let costs = money::cost_now(&mut txn, queue, &asks, topology).unwrap_or_default();
            resources::total(costs.iter().map(|(_, cost)| *cost)).max(least)
        };
        let mut costs: Vec<i64> = apart.iter().map(cost_of).collect();
        if let (Cost::Now { told }, Some(all)) = (cost, costs.last_mut()) {
            // With the flavors of other groups nodes are fewer.
            *all = (*all).max(told);
        }
        costs
    }
}

/// What was told that members cost, if that was what was short.
pub(super) fn money_told(refusal: &FlavorRefusal) -> i64 {
    match &refusal.why {
        FlavorProblem::Short { resource, asked, .. }
        | FlavorProblem::ExceedsMax { resource, asked, .. }
            if &**resource == USD_PER_HOUR =>
        {
            *asked
        }
        _ => 0,
    }
}
