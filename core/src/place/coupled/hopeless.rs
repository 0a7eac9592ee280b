//! Members that go nowhere in a domain whoever else is placed: what need not be searched for.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{NodeIdx, ResourceIdx};

use super::{NODES_MAX, Search};
use crate::model::ids::ShapeIdx;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::{at_once, common_claims};
use crate::rules::neighbours::keys::KeyIdx;

/// Asks whose members all go to one domain of a key.
pub(super) struct Gathering {
    /// The key.
    pub key: KeyIdx,
    /// The asks, by position.
    pub asks: Vec<usize>,
}

impl Search {
    /// Whether some ask has more members than go there whoever else is placed, and where: what
    /// need not be searched for. Others make room only for those who want somebody near, or spread.
    pub(super) fn is_hopeless(&self, txn: &mut Txn<'_>) -> bool {
        self.asks.iter().for_each(|class| txn.fresh(*class));
        (0..self.asks.len()).any(|at| self.upper(txn, at) < u64::from(self.left[at]))
            || self.lacks_in_all(txn)
            || self.lack_a_common_domain(txn.state())
            || self.choosing.is_some()
                && !common_claims::fit_one_node(txn.state(), &self.counts(), self.range.clone())
            || self.range.len() <= NODES_MAX
                && !at_once::may_hold(txn, &self.counts(), &self.range.clone().collect::<Vec<_>>())
    }

    /// No more members of an ask than this go into the range.
    pub(super) fn upper(&self, txn: &Txn<'_>, at: usize) -> u64 {
        let (state, class) = (txn.state(), self.asks[at]);
        let (room, most) = (&state.room, self.most(state, at));
        let nodes = self.range.clone().map(|position| (room.tree.order()[position], position));
        let nodes: Vec<(NodeIdx, u64)> =
            nodes.map(|(node, position)| (node, most(position))).collect();
        let all = nodes.iter().map(|(_, most)| *most).fold(0, u64::saturating_add);
        let outlook = state.classes.class(class).outlook();
        let coming: Vec<(ShapeIdx, u32)> =
            self.shapes.iter().copied().zip(self.left.iter().copied()).collect();
        let spread = outlook.spreads(self.shapes[at], &coming).map(|(key, more)| {
            let table = room.neighbourhood.keys.table(key);
            let mut domains = vec![0_u64; table.domains()];
            for (domain, most) in
                nodes.iter().filter_map(|(node, most)| Some((table.domain(*node)?, most)))
            {
                domains[domain] = domains[domain].saturating_add(*most);
            }
            let held = domains.into_iter().enumerate();
            held.map(|(domain, most)| most.min(more(domain))).fold(0, u64::saturating_add)
        });
        let all = spread.fold(all, u64::min);
        if at_once::are_let_in(state, (class, self.left[at]), self.opened[at]) {
            return all;
        }
        let apart = outlook.keys_apart(self.shapes[at]).map(|key| {
            let table = room.neighbourhood.keys.table(key);
            let mut domains = BTreeSet::new();
            let free = nodes.iter().filter(|(_, most)| *most > 0);
            let lacking = free.filter_map(|(node, most)| match table.domain(*node) {
                Some(domain) => domains.insert(domain).then_some(1),
                None => Some(*most),
            });
            lacking.fold(0, u64::saturating_add)
        });
        apart.fold(all, u64::min)
    }

    /// No more members of an ask than this go to a position, whoever else of them is placed.
    fn most<'s>(&'s self, state: &'s ClusterState, at: usize) -> impl Fn(usize) -> u64 + 's {
        let class = self.asks[at];
        let index = state.classes.fit(class);
        let outlook = state.classes.class(class).outlook();
        let let_in = at_once::are_let_in(state, (class, self.left[at]), self.opened[at]);
        move |position| {
            if !let_in {
                return u64::from(index.spot(position).slots);
            }
            // Nobody who comes with them takes away who keeps them off a node.
            let (room, node) = (&state.room, state.room.tree.order()[position]);
            match outlook.unwanted(room, node).max(outlook.repelling(room, node)) {
                0 => u64::from(common_claims::most_on(state, class, position)),
                _ => 0,
            }
        }
    }

    /// Whether all of some asks go to one domain of a key, and no domain may hold them.
    fn lack_a_common_domain(&self, state: &ClusterState) -> bool {
        self.gatherings(state).iter().any(|of| self.domains_for(state, of).next().is_none())
    }

    /// Asks that all go to one domain of a key: nobody whom they want near is anywhere, and each of
    /// them means the same members, those of all of them. Whoever of them is placed first has all
    /// others in its domain.
    pub(super) fn gatherings(&self, state: &ClusterState) -> Vec<Gathering> {
        let outlook = |at: usize| state.classes.class(self.asks[at]).outlook();
        let left = (0..self.asks.len()).filter(|at| self.left[*at] > 0);
        let left: Vec<usize> = left.collect();
        let means = |at: usize| -> Vec<usize> {
            let meant = |other: &usize| outlook(at).wants_near(self.shapes[*other]).is_some();
            left.iter().copied().filter(meant).collect()
        };
        let firsts = left.iter().filter(|at| outlook(**at).keys_of_first().next().is_some());
        let meant: BTreeMap<usize, Vec<usize>> = firsts.map(|at| (*at, means(*at))).collect();
        let mut found = Vec::new();
        for (at, asks) in &meant {
            // Once for all of them.
            if asks.first() != Some(at) || !asks.iter().all(|it| meant.get(it) == Some(asks)) {
                continue;
            }
            for key in outlook(*at).keys_of_first() {
                let has = |at: &usize| outlook(*at).keys_of_first().any(|of| of == key);
                if asks.iter().all(has) {
                    found.push(Gathering { key, asks: asks.clone() });
                }
            }
        }
        found
    }

    /// Domains that may hold all members who gather in one.
    pub(super) fn domains_for(
        &self,
        state: &ClusterState,
        Gathering { key, asks }: &Gathering,
    ) -> impl Iterator<Item = usize> {
        let (tree, table) = (&state.room.tree, state.room.neighbourhood.keys.table(*key));
        let holds = move |domain: usize, ask: usize| {
            let positions = table.nodes(domain).iter().filter_map(|node| tree.position(*node));
            let inside = positions.filter(|position| self.range.contains(position));
            let most = inside.map(self.most(state, ask)).fold(0, u64::saturating_add);
            most >= u64::from(self.left[ask])
        };
        (0..table.domains()).filter(move |domain| asks.iter().all(|ask| holds(*domain, *ask)))
    }

    /// Whether members together ask for more of something than all nodes of the range have free.
    fn lacks_in_all(&self, txn: &Txn<'_>) -> bool {
        let room = &txn.state().room;
        let asked = |resource: ResourceIdx| -> i64 {
            let all = self.shapes.iter().zip(&self.left).map(|(shape, left)| {
                let request = room.ledger.request(room.shape(*shape).request).entries().iter();
                let each = request.filter(|(of, _)| *of == resource).map(|(_, each)| *each);
                each.fold(0, i64::saturating_add).saturating_mul(i64::from(*left))
            });
            all.fold(0, i64::saturating_add)
        };
        let free = |resource: ResourceIdx| {
            let nodes = self.range.clone().map(|position| room.tree.order()[position]);
            let free = nodes.map(|node| room.ledger.free(node, resource).max(0));
            free.fold(0, i64::saturating_add)
        };
        !room.args.ignores_any()
            && self.resources.iter().any(|resource| asked(*resource) > free(*resource))
    }
}
