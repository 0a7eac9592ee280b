//! Members of gangs that run, and that would take back what extra members of another one borrow.
//!
//! Problem: not only heads stop others. What a gang that runs lacks may do so too, and members of
//! it that are work of their own ([`joining`](super::joining)). Where extra members of another gang
//! have its queue borrow beside one of those, what is in that queue comes within reach, and this
//! gang or another one is stopped whole one round later.
//!
//! Decides, with extra members in their places: whether the members of some other gang that look
//! for room would stop anybody of their queue. That is searched, not told from what a queue owns as
//! it is for heads: two gangs whose members both wait, in queues that other work fills, would else
//! wait for each other while there is quota to borrow. Of what would really be stopped no two gangs
//! wait for each other: members with which their queue ends within its own quota wait for nobody,
//! those that take back while it borrows stop none but lower priorities, and those that do so by
//! shares none but queues whose share is higher.
//!
//! Who waits for that is looked at again in each round that decides something: who would be stopped
//! depends on what is used.
//!
//! Restart: which gangs may stop others is known for one batch of facts at most. Cost: a pass over
//! gangs that run and have members that wait, once in a round; for each gang that would borrow a
//! look at one of each kind of them (who ask the same, in the same flavors, with the same priority,
//! and beside the same nodes where that matters); and for each member, or replica, that would
//! borrow a search for victims for those kinds that could own what they ask, of which at most so
//! many are looked at.

use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use crate::cycle::Head;
use crate::cycle::joining::Room;
use crate::engine::Engine;
use crate::model::ids::{QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::SetLevels;
use crate::plan::State;
use crate::quota::flavors::SetDemand;
use crate::victims::candidates;

/// Kinds of gangs that one gang is compared with, the first in queue order.
pub(super) const KINDS_MAX: usize = 16;

/// Gangs that run and whose members may stop others, once looked up; those of a kind together.
#[derive(Debug, Default)]
pub(crate) struct Reclaimers(Option<Vec<Vec<WorkloadIdx>>>);

impl Reclaimers {
    /// Which gangs they are is looked up anew.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

impl Engine {
    /// Of each kind of gang whose members wait in other queues the first, in queue order, where
    /// they could own what they ask and take back what a queue borrows.
    pub(super) fn reclaim_for_members(&mut self, from: QueueIdx) -> Vec<(QueueIdx, WorkloadIdx)> {
        let mut found = Vec::new();
        for (queue, gang) in self.first_joiners() {
            let Some(queue) = queue.filter(|queue| *queue != from) else { continue };
            if candidates::could_reclaim(&self.state, gang, queue, from)
                && self.members_could_own((queue, gang), from)
            {
                found.push((queue, gang));
            }
            if found.len() == KINDS_MAX {
                break;
            }
        }
        found
    }

    /// Of each kind of gang whose members wait and may stop others the first, in queue order.
    pub(super) fn first_joiners(&mut self) -> Vec<Head> {
        let kinds = match self.reclaimers.0.take() {
            Some(kinds) => kinds,
            None => self.kinds_of_joiners(),
        };
        let first = |kind: &Vec<WorkloadIdx>| {
            kind.iter().find_map(|gang| Some((self.makes_room(*gang)?, *gang)))
        };
        let firsts = kinds.iter().filter_map(first).collect();
        self.reclaimers.0 = Some(kinds);
        firsts
    }

    /// Gangs that run and have members without a place that may stop others: those alike together,
    /// in queue order.
    fn kinds_of_joiners(&self) -> Vec<Vec<WorkloadIdx>> {
        let growing = self.growth.iter().chain(&self.growth_parked).copied();
        let mut gangs: Vec<WorkloadIdx> =
            growing.filter(|gang| self.makes_room(*gang).is_some()).collect();
        self.state.in_queue_order(&mut gangs);
        let mut kinds: Vec<Vec<WorkloadIdx>> = Vec::new();
        let mut known = BTreeMap::new();
        for gang in gangs {
            let entry = &self.state.workloads[gang];
            let asks = self.needy_by_shape(gang).into_iter().map(|group| {
                let shape = self.state.pods[group[0]].shape;
                let set = entry.assignment.as_ref().and_then(|held| held.set(shape));
                (shape, group.len(), set.map(|set| set.nodes_of.clone()))
            });
            let asks: Vec<_> = asks.collect();
            let beside = asks.iter().any(|(shape, ..)| self.looks_at_others(gang, *shape));
            let mut near: Vec<NodeIdx> = self
                .state
                .placed(gang)
                .filter(|_| beside)
                .filter_map(|pod| self.state.pods[pod].place)
                .collect();
            near.sort_unstable();
            let kind = (self.makes_room(gang), entry.priority, self.missing(gang), asks, near);
            let at = *known.entry(kind).or_insert(kinds.len());
            if at == kinds.len() {
                kinds.push(Vec::new());
            }
            kinds[at].push(gang);
        }
        kinds
    }

    /// Whether where members of a shape may go depends on where others of their gang are.
    fn looks_at_others(&self, gang: WorkloadIdx, shape: ShapeIdx) -> bool {
        let entry = &self.state.workloads[gang];
        let facts = &self.state.room.shape(shape).facts;
        let needs = |own: &SetLevels| own.needed().next().is_some();
        let topology = entry.topology();
        topology.required.is_some()
            || topology.slices.is_some()
            || entry.own_levels(&self.state.room).any(needs)
            || facts.neighbours.is_some()
            || !facts.ports.is_empty()
            || facts.volumes.is_some()
            || !facts.claims.is_empty()
    }

    /// The queue in which members of a gang that runs may stop others, if they wait for that. One
    /// without a queue takes nothing back: it is one of these while somebody leaves for others.
    fn makes_room(&self, gang: WorkloadIdx) -> Option<Option<QueueIdx>> {
        let state = self.state.workloads.get(gang)?.state;
        if !matches!(state, State::Running | State::Binding) || self.state.claims_to_join(gang) {
            return None;
        }
        let queue = self.stops_others_in(gang)?;
        if queue.is_none() && self.state.claims.is_empty() {
            return None;
        }
        let waiting = self.needy(gang);
        let waits = match self.missing(gang) {
            0 => {
                waiting.iter().any(self.stops_by_itself(gang)) && self.holds_extras(gang).is_none()
            }
            missing => waiting.len() >= missing as usize && self.queueless(gang).is_none(),
        };
        let may = waits && self.lacks_anew(gang).is_none() && !self.gives_back(gang);
        may.then_some(queue)
    }

    /// Whether what its queue may claim as its own, beside what the gang holds, is enough for what
    /// it lacks, or for some member that is work of its own.
    fn members_could_own(
        &mut self,
        (queue, gang): (QueueIdx, WorkloadIdx),
        other: QueueIdx,
    ) -> bool {
        let missing = self.missing(gang);
        if missing > 0 {
            let sets = self.demands_of(gang, missing);
            return self.could_own((queue, gang), &sets, other);
        }
        let own = self.stops_by_itself(gang);
        let waiting = self.needy(gang).into_iter().filter(|pod| own(pod));
        let mut shapes: Vec<ShapeIdx> = waiting.map(|pod| self.state.pods[pod].shape).collect();
        drop(own);
        shapes.sort_unstable();
        shapes.dedup();
        shapes.into_iter().any(|shape| {
            let one = SetDemand { shape, name: "main".into(), count: 1 };
            self.could_own((queue, gang), &[one], other)
        })
    }

    /// Whether the members of a gang that wait would stop anybody of another queue as things are.
    pub(super) fn would_stop(&mut self, gang: WorkloadIdx, of: QueueIdx) -> bool {
        self.stopped_for_members(gang).into_iter().any(|victim| {
            let held = self.state.workloads[victim].assignment.as_ref();
            held.is_some_and(|held| held.queue == Some(of))
        })
    }

    /// Whom the members of a gang that wait would stop as things are.
    pub(super) fn stopped_for_members(&mut self, gang: WorkloadIdx) -> Vec<WorkloadIdx> {
        let mut groups = self.needy_by_shape(gang);
        let missing = self.missing(gang) as usize;
        let rooms: Vec<Room> = match missing {
            0 => {
                let by_itself = self.stops_by_itself(gang);
                groups.iter_mut().for_each(|group| group.retain(&by_itself));
                drop(by_itself);
                groups.retain(|group| !group.is_empty());
                groups.iter().map(|group| self.room_for_most(gang, group)).collect()
            }
            _ => vec![self.room_for_missing(gang, &groups, missing)],
        };
        let victims = rooms.iter().flatten().flat_map(|room| &room.victims);
        victims.map(|victim| victim.workload).collect()
    }
}
