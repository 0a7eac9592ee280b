//! What members hold that were bound without this engine having decided it.
//!
//! They count for the queue that they are in. Where no queue object says which that is any more,
//! what was written on a member when it was bound does, if that ClusterQueue selects their
//! namespace: whoever may edit pods can write any name on them.
//!
//! Each resource that the queue covers gets the flavor that was written on a member when it was
//! bound; else the first flavor of the queue whose labels a member's node has and whose taints
//! the pods tolerate. Where there is none, the members hold no quota for it: they stand in
//! `uncharged`, are shown, and are tried again when a node or a queue changes.

use std::sync::Arc;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::model::apply::Changes;
use crate::model::ids::{FlavorIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Held, Text};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, QueueRef, SetAssignment};
use crate::quota::build::Group;
use crate::quota::eligible;
use crate::resources::USD;
use crate::rules::flavor::is_labelled;

impl ClusterState {
    /// Completes what a workload holds quota with by its members that are bound, or about to be
    /// settled.
    pub(super) fn adopt_assignment(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        self.uncharged.remove(&workload);
        if self.holds_all_flavors(workload, changes) {
            return;
        }
        let settling: Vec<(PodIdx, NodeIdx)> = self.workloads[workload]
            .members
            .iter()
            .filter_map(|pod| {
                let due = changes.to_settle.get(pod).copied();
                Some((*pod, due.or(self.pods[*pod].place)?))
            })
            .collect();
        let Some(&(first, _)) = settling.first() else { return };
        let queue = self.workloads[workload].cluster_queue;
        let known = self.workloads[workload].assignment.clone();
        let kept = known.clone().filter(|known| known.queue == queue);
        let mut shapes: Vec<ShapeIdx> = Vec::new();
        for &(pod, _) in &settling {
            let shape = self.pods[pod].shape;
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        let mut sets = kept.as_ref().map_or_else(Vec::new, |kept| kept.sets.clone());
        for shape in shapes {
            let members: Vec<(PodIdx, NodeIdx)> = settling
                .iter()
                .filter(|(pod, _)| self.pods[*pod].shape == shape)
                .copied()
                .collect();
            let at = sets.iter().position(|set| set.shape == shape);
            let had = at.map(|at| sets.swap_remove(at).flavors).unwrap_or_default();
            let set = self.adopt_set(shape, &members, queue, had);
            if !self.is_whole(queue, &set) {
                self.uncharged.insert(workload);
            }
            sets.push(set);
        }
        sets.sort_by_key(|set| set.shape);
        let of_pod = || {
            let pod = &self.pods[first];
            let note = pod.note.as_ref().and_then(|note| note.admitted_at);
            let note = note.filter(|at| self.may_be_ours(*at, self.now));
            note.or(pod.bound_at).unwrap_or(pod.created)
        };
        let at = kept.as_ref().map_or_else(of_pod, |kept| kept.at);
        let assignment = Assignment { queue, sets, at };
        if kept.is_some_and(|kept| *kept == assignment) {
            return;
        }
        // Charges change with the assignment, so nothing may be placed meanwhile.
        for &(pod, node) in &settling {
            if self.pods[pod].place.is_some() {
                changes.chosen.extend(self.unsettle(pod));
                changes.to_settle.insert(pod, node);
            }
        }
        if let Some(left) = known.as_ref().and_then(|known| known.queue)
            && Some(left) != queue
        {
            self.quota.advance(left);
            changes.queues.insert(left);
        }
        self.workloads[workload].found_running |= known.is_none();
        self.set_assignment(workload, Some(Arc::new(assignment)));
    }

    /// The queue whose quota a workload's placed members count against: the one that it was found
    /// to be in, or that it names, whether or not that admits anything now. An owner that was
    /// deleted takes the name of its queue with it, and a LocalQueue the way to it; what runs stays
    /// where it is charged, or where its pods say that they were, if they may have been there.
    pub(super) fn charged_queue(
        &mut self,
        workload: WorkloadIdx,
        found: &QueueRef,
        orphaned: bool,
    ) -> Option<QueueIdx> {
        let entry = &self.workloads[workload];
        let held = entry.assignment.as_ref().and_then(|held| held.queue);
        if orphaned {
            return held;
        }
        if let QueueRef::Queue(queue) = found {
            return Some(*queue);
        }
        let namespace = &entry.id.namespace;
        let exists = |name: &&Text| self.facts.cluster_queues.contains_key(*name);
        let local = self.facts.local_queue(namespace, entry.wishes.queue.as_ref());
        let named = local.map(|local| &local.cluster_queue).filter(exists);
        let held = held.map(|queue| &self.quota.queue(queue).name).filter(exists);
        let noted = || {
            let notes = entry.members.iter().filter_map(|pod| self.pods[*pod].note.as_ref());
            let open = |name: &&Text| {
                let queue = self.facts.cluster_queues.get(*name);
                queue.is_some_and(|queue| self.admits_from(queue, namespace))
            };
            notes.filter_map(|note| note.queue.as_ref()).find(open)
        };
        let name = named.or(held).or_else(noted)?.clone();
        Some(self.quota.intern_queue(&name))
    }

    /// Whether the owner of what runs, or its group, was deleted: it says no more in which queue
    /// the work is, nor with which priority.
    pub(super) fn is_orphaned(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let orphaned = |pod: PodIdx| {
            let gang = &self.pods[pod].gang;
            gang.unknown_owner.is_some()
                || matches!(gang.held, Some(Held::GroupMissing(_)))
                || entry.id.key.was_left_alone(&gang.key)
        };
        let assignment = entry.assignment.as_ref();
        let held = assignment.is_some_and(|held| held.queue.is_some());
        held && self.placed(workload).any(orphaned)
    }

    /// Whether nothing is to be completed: members that are bound, or about to be settled, have all
    /// flavors that they need from the queue that they are in, or there are none.
    fn holds_all_flavors(&self, workload: WorkloadIdx, changes: &Changes) -> bool {
        let entry = &self.workloads[workload];
        let holds =
            |pod: &PodIdx| self.pods[*pod].place.is_some() || changes.to_settle.contains_key(pod);
        let mut shapes =
            entry.members.iter().filter(|pod| holds(pod)).map(|pod| self.pods[*pod].shape);
        let queue = entry.cluster_queue;
        let Some(kept) = entry.assignment.as_ref().filter(|known| known.queue == queue) else {
            return shapes.next().is_none();
        };
        let mut last = None;
        shapes.all(|shape| {
            // Members of one shape mostly stand together.
            let known = last.replace(shape) == Some(shape);
            known || kept.set(shape).is_some_and(|set| self.is_whole(queue, set))
        })
    }

    /// Adds to the flavors that a set had what its members show.
    fn adopt_set(
        &mut self,
        shape: ShapeIdx,
        members: &[(PodIdx, NodeIdx)],
        queue: Option<QueueIdx>,
        mut flavors: Vec<(ResourceIdx, FlavorIdx)>,
    ) -> SetAssignment {
        if let Some(queue) = queue {
            let mut asked = self.asked(shape);
            asked.extend(self.counts_money().then_some(USD));
            asked.retain(|resource| flavors.iter().all(|(known, _)| known != resource));
            for resource in asked {
                let noted = members.iter().find_map(|(pod, _)| self.noted(*pod, resource));
                flavors.extend(noted.map(|flavor| (resource, flavor)));
            }
            self.share_flavors(queue, shape, &mut flavors);
            for (resource, group) in self.without_flavor(queue, shape, &flavors) {
                let on = |(_, node): &(PodIdx, NodeIdx)| {
                    self.flavor_of_node(&group.flavors, shape, *node)
                };
                let found = members.iter().find_map(on);
                flavors.extend(found.map(|flavor| (resource, flavor)));
            }
        }
        self.set_assignment_of(shape, flavors)
    }

    fn noted(&self, pod: PodIdx, resource: ResourceIdx) -> Option<FlavorIdx> {
        let note = self.pods[pod].note.as_ref()?;
        self.quota.find_flavor(note.flavors.get(self.room.resources.name(resource))?)
    }

    /// The first flavor that has a node, by its labels, and takes pods of this shape.
    fn flavor_of_node(
        &self,
        flavors: &[FlavorIdx],
        shape: ShapeIdx,
        node: NodeIdx,
    ) -> Option<FlavorIdx> {
        let labels = &self.room.facts(node)?.labels;
        let pod = &self.room.shape(shape).facts;
        let compare = self.room.args.toleration_comparison;
        let of = |flavor: &&FlavorIdx| {
            self.quota.flavor(**flavor).is_some_and(|flavor| {
                is_labelled(labels, flavor) && eligible::untolerated(pod, flavor, compare).is_none()
            })
        };
        flavors.iter().find(of).copied()
    }

    /// Gives what has no flavor that of others of its group, which have one together: it counts
    /// only since the configuration says so.
    pub(super) fn share_flavors(
        &self,
        queue: QueueIdx,
        shape: ShapeIdx,
        flavors: &mut Vec<(ResourceIdx, FlavorIdx)>,
    ) {
        for (resource, group) in self.without_flavor(queue, shape, flavors) {
            let of_group = |(known, flavor): &&(ResourceIdx, FlavorIdx)| {
                group.covered.contains(known) && group.flavors.contains(flavor)
            };
            let same = flavors.iter().find(of_group).map(|(_, flavor)| *flavor);
            flavors.extend(same.map(|flavor| (resource, flavor)));
        }
    }

    /// Resources that a shape counts, its queue covers and these flavors leave out, with their
    /// groups.
    fn without_flavor(
        &self,
        queue: QueueIdx,
        shape: ShapeIdx,
        flavors: &[(ResourceIdx, FlavorIdx)],
    ) -> Vec<(ResourceIdx, &Group)> {
        let groups = &self.quota.queue(queue).groups;
        let mut asked = self.asked(shape);
        asked.extend(self.quota.money_group(queue).map(|_| USD));
        asked.retain(|resource| flavors.iter().all(|(known, _)| known != resource));
        let covering = |of: ResourceIdx| groups.iter().find(|group| group.covered.contains(&of));
        asked.into_iter().filter_map(|of| Some((of, covering(of)?))).collect()
    }

    /// Whether a set has a flavor for all that it counts and its queue covers.
    pub fn is_whole(&self, queue: Option<QueueIdx>, set: &SetAssignment) -> bool {
        let Some(queue) = queue else { return true };
        let groups = &self.quota.queue(queue).groups;
        let counted = self.room.counted(set.shape).entries().iter().map(|(resource, _)| *resource);
        let mut asked = counted.chain(self.quota.money_group(queue).map(|_| USD));
        asked.all(|of| {
            set.flavors.iter().any(|(known, _)| *known == of)
                || !groups.iter().any(|group| group.covered.contains(&of))
        })
    }

    /// Resources that a set counts and its queue covers, and for which it has no flavor.
    pub fn lacking(&self, queue: Option<QueueIdx>, set: &SetAssignment) -> Vec<ResourceIdx> {
        let Some(queue) = queue else { return Vec::new() };
        let lacking = self.without_flavor(queue, set.shape, &set.flavors);
        lacking.into_iter().map(|(resource, _)| resource).collect()
    }
}
