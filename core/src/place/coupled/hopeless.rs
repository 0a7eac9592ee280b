//! Members that go nowhere in a domain whoever else is placed: what need not be searched for.

use std::collections::BTreeSet;

use capstan_topology::ResourceIdx;

use super::{NODES_MAX, Search};
use crate::model::txn::Txn;
use crate::place::{at_once, common_claims};

impl Search {
    /// Whether some ask has more members than go there whoever else is placed, and where: what
    /// need not be searched for. Others make room only for those who want somebody near, or spread.
    pub(super) fn is_hopeless(&self, txn: &mut Txn<'_>) -> bool {
        self.asks.iter().for_each(|class| txn.fresh(*class));
        (0..self.asks.len()).any(|at| self.upper(txn, at) < u64::from(self.left[at]))
            || self.lacks_in_all(txn)
            || self.choosing.is_some()
                && !common_claims::fit_one_node(txn.state(), &self.counts(), self.range.clone())
            || self.range.len() <= NODES_MAX
                && !at_once::may_hold(txn, &self.counts(), &self.range.clone().collect::<Vec<_>>())
    }

    /// No more members of an ask than this go into the range.
    pub(super) fn upper(&self, txn: &Txn<'_>, at: usize) -> u64 {
        let (state, class) = (txn.state(), self.asks[at]);
        let (room, index) = (&state.room, state.classes.fit(class));
        let outlook = state.classes.class(class).outlook();
        let nodes = || self.range.clone().map(|position| (position, room.tree.order()[position]));
        if at_once::are_let_in(state, (class, self.left[at]), self.opened[at]) {
            let most = |at: usize| u64::from(common_claims::most_on(state, class, at));
            return self.range.clone().map(most).fold(0, u64::saturating_add);
        }
        let slots = |position: usize| u64::from(index.spot(position).slots);
        let all = nodes().map(|(position, _)| slots(position)).fold(0, u64::saturating_add);
        let keys = outlook.keys_apart(self.shapes[at]);
        let apart = keys.map(|key| {
            let table = room.neighbourhood.keys.table(key);
            let mut domains = BTreeSet::new();
            let free = nodes().filter(|(position, _)| slots(*position) > 0);
            let lacking = free.filter_map(|(position, node)| match table.domain(node) {
                Some(domain) => domains.insert(domain).then_some(1),
                None => Some(slots(position)),
            });
            lacking.fold(0, u64::saturating_add)
        });
        apart.fold(all, u64::min)
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
