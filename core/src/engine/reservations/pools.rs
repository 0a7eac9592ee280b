//! What a head competes for: nodes that its pods may run on, and quota of its tree for flavors of
//! which there are such nodes.
//!
//! Two heads compete if some node would do for both, or some such quota. How many starts
//! are reserved is limited among those who compete, so that heads that wait for one pool of nodes
//! take none from a head of another; and only ends that leave something of a pool count for it.
//! Whom somebody could delay is looked for among those with whom it competes, and those with whom
//! they do.
//!
//! Cost: a look at all nodes for each head and kind of its pods, kept until nodes or queues change;
//! only where more starts are reserved, or more ends known, than one pool may have.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::model::ids::{ClassIdx, FlavorIdx, FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::workload::QueueRef;

/// Nodes and quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    /// A bit for each node.
    nodes: Vec<u64>,
    /// Roots of trees with flavors.
    quota: BTreeSet<(QuotaIdx, FlavorIdx)>,
}

impl Pool {
    fn add(&mut self, node: NodeIdx) {
        let (word, bit) = (node.at() / 64, node.at() % 64);
        if self.nodes.len() <= word {
            self.nodes.resize(word + 1, 0);
        }
        self.nodes[word] |= 1 << bit;
    }

    /// Whether a node is of it.
    fn has(&self, node: NodeIdx) -> bool {
        let word = self.nodes.get(node.at() / 64);
        word.is_some_and(|word| word & (1 << (node.at() % 64)) != 0)
    }

    /// Whether who wants this and who wants that compete.
    fn overlaps(&self, other: &Pool) -> bool {
        let mut nodes = self.nodes.iter().zip(&other.nodes);
        nodes.any(|(one, other)| one & other != 0) || !self.quota.is_disjoint(&other.quota)
    }

    /// Both.
    fn join(&mut self, other: &Pool) {
        if self.nodes.len() < other.nodes.len() {
            self.nodes.resize(other.nodes.len(), 0);
        }
        self.nodes.iter_mut().zip(&other.nodes).for_each(|(one, other)| *one |= other);
        self.quota.extend(&other.quota);
    }
}

/// Pools of heads, as far as anybody asked.
#[derive(Debug, Default)]
pub(crate) struct Pools(BTreeMap<WorkloadIdx, Pool>);

impl Pools {
    /// It may want something else.
    pub fn forget(&mut self, workload: WorkloadIdx) {
        self.0.remove(&workload);
    }

    /// Nodes or queues changed.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Engine {
    /// Reserved starts but its own that somebody could delay, in order: of heads with whom it
    /// competes, of those with whom they do, and of that of its queue, if they share a budget.
    pub(crate) fn slots_near(&mut self, workload: WorkloadIdx) -> Vec<Slot> {
        let mut slots = self.slots(Some(workload));
        if self.few_reservations() {
            return slots;
        }
        let near = self.who_is_near(workload);
        let queue = match self.state.workloads[workload].queue {
            QueueRef::Queue(queue) => Some(queue),
            QueueRef::Unqueued | QueueRef::Broken(_) => None,
        };
        // A budget is of a queue, wherever its work runs.
        let shares = self.hard_account(queue).is_some();
        slots.retain(|slot| near.contains(&slot.workload) || shares && slot.queue == queue);
        slots
    }

    /// Whether all reserved starts, and all ends, could be of one pool: then it is not looked for
    /// others.
    pub(super) fn few_reservations(&self) -> bool {
        let most = self.state.policy.reservations.map_or(0, |args| args.most as usize);
        self.reservations.len() <= most && !self.ends.are_many()
    }

    /// The same for any of some workloads, none of theirs excepted.
    pub(super) fn slots_near_any(&mut self, workloads: &[WorkloadIdx]) -> Vec<Slot> {
        let mut slots = self.slots(None);
        if !self.few_reservations() {
            let near = workloads.iter().flat_map(|workload| self.who_is_near(*workload));
            let near: BTreeSet<WorkloadIdx> = near.collect();
            slots.retain(|slot| near.contains(&slot.workload));
        }
        slots
    }

    fn who_is_near(&mut self, workload: WorkloadIdx) -> BTreeSet<WorkloadIdx> {
        let mut rest: Vec<(WorkloadIdx, Pool)> = self.reserved_pools();
        let (mut pool, mut near) = (self.pool_of(workload), BTreeSet::new());
        loop {
            let (hit, missed): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, other)| other.overlaps(&pool));
            if hit.is_empty() {
                return near;
            }
            for (other, its) in hit {
                pool.join(&its);
                near.insert(other);
            }
            rest = missed;
        }
    }

    fn reserved_pools(&mut self) -> Vec<(WorkloadIdx, Pool)> {
        let heads: Vec<WorkloadIdx> = self.reservations.iter().map(|it| it.slot.workload).collect();
        heads.into_iter().map(|head| (head, self.pool_of(head))).collect()
    }

    /// Those of some heads with a reservation who compete with a workload.
    pub(super) fn rivals(&mut self, workload: WorkloadIdx) -> Vec<WorkloadIdx> {
        let own = self.pool_of(workload);
        let others = self.reserved_pools().into_iter();
        let rivals = others.filter(|(other, pool)| *other != workload && pool.overlaps(&own));
        rivals.map(|(other, _)| other).collect()
    }

    /// Of slots in order those that are too many among those who compete.
    pub(super) fn too_many(&mut self, slots: &[Slot], most: usize) -> Vec<WorkloadIdx> {
        if slots.len() <= most {
            return Vec::new();
        }
        let (mut kept, mut gone): (Vec<Pool>, Vec<WorkloadIdx>) = (Vec::new(), Vec::new());
        for slot in slots {
            let pool = self.pool_of(slot.workload);
            match kept.iter().filter(|other| other.overlaps(&pool)).count() < most {
                true => kept.push(pool),
                false => gone.push(slot.workload),
            }
        }
        gone
    }

    /// What all of these could use together.
    pub(super) fn pool_of_all(&mut self, workloads: impl Iterator<Item = WorkloadIdx>) -> Pool {
        let mut all = Pool::default();
        for workload in workloads {
            let pool = self.pool_of(workload);
            all.join(&pool);
        }
        all
    }

    /// Whether what work holds that runs, or claims that waits for its victims, is of a pool.
    pub(super) fn leaves_some_of(&self, pool: &Pool, workload: WorkloadIdx) -> bool {
        let state = &self.state;
        let charges = |pod| state.charges_of(pod);
        let of_it = |(queue, fr, _): (QueueIdx, FrIdx, i64)| {
            let root = state.quota.root(queue);
            root.is_some_and(|root| pool.quota.contains(&(root, state.quota.fr(fr).0)))
        };
        let (quota, room) = state.claims_at_last(workload);
        if quota.into_iter().any(of_it) || room.iter().any(|(node, ..)| pool.has(*node)) {
            return true;
        }
        state.placed(workload).any(|pod| {
            let node = state.pods[pod].place;
            node.is_some_and(|node| pool.has(node)) || charges(pod).any(of_it)
        })
    }

    /// What a workload could use.
    fn pool_of(&mut self, workload: WorkloadIdx) -> Pool {
        if let Some(known) = self.reservations.pools.0.get(&workload) {
            return known.clone();
        }
        let pool = self.find_pool(workload);
        // Of others it is asked once, or a few times.
        if self.reservations.of(workload).is_some() {
            self.reservations.pools.0.insert(workload, pool.clone());
        }
        pool
    }

    fn find_pool(&mut self, workload: WorkloadIdx) -> Pool {
        let mut pool = Pool::default();
        let Some(entry) = self.state.workloads.get(workload) else { return pool };
        let queue = match entry.queue {
            QueueRef::Queue(queue) => Some(queue),
            QueueRef::Unqueued | QueueRef::Broken(_) => None,
        };
        let mut shapes: Vec<_> = entry.sets.iter().map(|set| set.shape).collect();
        shapes.sort_unstable();
        shapes.dedup();
        let profile = self.profile(queue);
        let groups = queue.map(|queue| &self.state.quota.queue(queue).groups);
        let offered = groups.into_iter().flatten().flat_map(|group| &group.flavors);
        let offered: BTreeSet<FlavorIdx> = offered.copied().collect();
        let root = queue.and_then(|queue| self.state.quota.root(queue));
        let mut classes: Vec<(ClassIdx, Option<FlavorIdx>)> = Vec::new();
        for shape in shapes {
            let mut class = |flavors: &[FlavorIdx]| self.state.class(shape, flavors, profile);
            classes.extend(offered.iter().map(|flavor| (class(&[*flavor]), Some(*flavor))));
            if offered.is_empty() {
                classes.push((class(&[]), None));
            }
        }
        let state = &mut self.state;
        for (class, flavor) in classes {
            // What its volumes mean is known from then on.
            state.classes.fresh(&state.room, class);
            let accepts = |node: &&NodeIdx| state.classes.accepts(&state.room, class, **node);
            let mut any = false;
            for node in state.room.tree.order().iter().filter(accepts) {
                any = true;
                pool.add(*node);
            }
            pool.quota.extend(root.zip(flavor).filter(|_| any));
        }
        pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_overlap_where_some_node_is_of_both() {
        let pool = |nodes: &[u32]| {
            let mut pool = Pool::default();
            nodes.iter().for_each(|node| pool.add(NodeIdx(*node)));
            pool
        };
        let (one, other) = (pool(&[1, 64]), pool(&[2, 700]));
        assert!(one.has(NodeIdx(64)) && !one.has(NodeIdx(700)) && !one.overlaps(&other));
        assert!(one.overlaps(&pool(&[3, 64])) && !Pool::default().overlaps(&one));
        let mut both = one.clone();
        both.join(&other);
        assert!(both.overlaps(&one) && both.overlaps(&other) && both.has(NodeIdx(700)));
    }
}
