//! Who holds what is borrowed below a common cohort, from the leaves up.
//!
//! Cohorts may be as deep as anybody writes them: one is gone through after the other. Cost: the
//! nodes that borrow, and those who hold something in their queues.

use capstan_topology::ResourceIdx;

use super::Need;
use super::candidates::{borrowed_of, borrows_asked, borrows_contested, charges, holds_contested};
use crate::model::ids::{QuotaIdx, WorkloadIdx};
use crate::model::state::ClusterState;

/// What is looked for below a common cohort.
pub(super) struct Within<'a> {
    /// The cohort.
    pub common: QuotaIdx,
    /// Resources that members ask of nodes.
    pub asked: &'a [ResourceIdx],
    /// What must fit.
    pub need: &'a Need,
}

impl Within<'_> {
    /// Calls back with every holder in the borrowing queues of a subtree, and whether it may leave
    /// for quota (it, and every cohort above it, borrows what is short) and for room.
    pub fn holders(
        &self,
        state: &ClusterState,
        (node, for_quota): (QuotaIdx, bool),
        each: &mut dyn FnMut(WorkloadIdx, (bool, bool)),
    ) {
        let tree = &state.quota.tree;
        let (mut open, mut borrow) = (vec![(node, for_quota)], Vec::new());
        while let Some((node, for_quota)) = open.pop() {
            if !tree.borrows_any(node) {
                continue;
            }
            let for_quota = for_quota && borrows_contested(state, node, self.need);
            if for_quota || borrows_asked(state, node, self.asked) {
                open.extend(tree.children(node).iter().map(|child| (*child, for_quota)));
                borrow.push((node, for_quota));
            }
        }
        // Who is below comes before whom it is below.
        for (node, for_quota) in borrow.into_iter().rev() {
            self.holders_of(state, (node, for_quota), each);
        }
    }

    /// Those in the queue of a node, if it is one.
    fn holders_of(
        &self,
        state: &ClusterState,
        (node, for_quota): (QuotaIdx, bool),
        each: &mut dyn FnMut(WorkloadIdx, (bool, bool)),
    ) {
        let Some(queue) = state.quota.queue_at(node) else { return };
        let slot = state.quota.queue(queue);
        if slot.inactive.is_some() || slot.holding.is_empty() {
            return;
        }
        let borrowed = borrowed_of(state, node, self.common, self.asked);
        for &workload in &slot.holding {
            let quota = for_quota && holds_contested(state, workload, self.need);
            let room = charges(state, workload).any(|fr| borrowed.contains(&fr));
            if quota || room {
                each(workload, (quota, room));
            }
        }
    }
}
