//! What members hold that were bound without this engine having decided it.
//!
//! Each resource that the queue covers gets the flavor that was written on a member when it was
//! bound; else the first flavor of the queue whose labels a member's node has and whose taints
//! the pods tolerate. Where there is none, the members hold no quota for it: they stand in
//! `uncharged`, are shown, and are tried again when a node or a queue changes.

use std::sync::Arc;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::model::apply::Changes;
use crate::model::ids::{FlavorIdx, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, SetAssignment};
use crate::quota::eligible;
use crate::rules::flavor::is_of;

impl ClusterState {
    /// Completes what a workload holds quota with by its members that are bound, or about to be
    /// settled.
    pub(super) fn adopt_assignment(&mut self, workload: WorkloadIdx, changes: &mut Changes) {
        self.uncharged.remove(&workload);
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
        let whole = |set: &SetAssignment| self.lacking(queue, set).is_empty();
        let is_whole = |shape: &ShapeIdx, kept: &Assignment| kept.set(*shape).is_some_and(whole);
        if kept.as_ref().is_some_and(|kept| shapes.iter().all(|shape| is_whole(shape, kept))) {
            return;
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
            if !self.lacking(queue, &set).is_empty() {
                self.uncharged.insert(workload);
            }
            sets.push(set);
        }
        sets.sort_by_key(|set| set.shape);
        let of_pod = || {
            let pod = &self.pods[first];
            let note = pod.note.as_ref().and_then(|note| note.admitted_at);
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

    /// Adds to the flavors that a set had what its members show.
    fn adopt_set(
        &mut self,
        shape: ShapeIdx,
        members: &[(PodIdx, NodeIdx)],
        queue: Option<QueueIdx>,
        mut flavors: Vec<(ResourceIdx, FlavorIdx)>,
    ) -> SetAssignment {
        if let Some(queue) = queue {
            let groups = &self.quota.queue(queue).groups;
            for resource in self.asked(shape) {
                if flavors.iter().any(|(known, _)| *known == resource) {
                    continue;
                }
                let noted = members.iter().find_map(|(pod, _)| self.noted(*pod, resource));
                let group = groups.iter().find(|group| group.covered.contains(&resource));
                let by_node = |flavors: &[FlavorIdx]| {
                    members.iter().find_map(|(_, node)| self.flavor_of_node(flavors, shape, *node))
                };
                if let Some(flavor) = noted.or_else(|| by_node(&group?.flavors)) {
                    flavors.push((resource, flavor));
                }
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
                is_of(labels, flavor) && eligible::untolerated(pod, flavor, compare).is_none()
            })
        };
        flavors.iter().find(of).copied()
    }

    /// Resources that a set asks and its queue covers, and for which it has no flavor.
    pub fn lacking(&self, queue: Option<QueueIdx>, set: &SetAssignment) -> Vec<ResourceIdx> {
        let Some(queue) = queue else { return Vec::new() };
        let groups = &self.quota.queue(queue).groups;
        let mut asked = self.asked(set.shape);
        asked.retain(|resource| {
            groups.iter().any(|group| group.covered.contains(resource))
                && set.flavors.iter().all(|(known, _)| known != resource)
        });
        asked
    }
}
