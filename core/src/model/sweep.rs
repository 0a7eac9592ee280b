//! What the state still uses, and forgetting the rest.
//!
//! A shape, request, node slot or queue name is in use while something that is alive holds its
//! handle. Handles are held in few places, all of which [`ClusterState::used`] walks: pods (shape,
//! request, node), workloads (shapes of their sets, queues, assignments), claims (assignments,
//! planned nodes), notes of where members ended (shapes, nodes), the quota tree (flavors and
//! resources of its cells), classes (flavors), and what the caller names besides (work that waits,
//! what heads kept back). Whoever stores a handle anywhere else adds it here;
//! [`ClusterState::recount`] notices a handle whose slot was given away.

use capstan_topology::{NodeIdx, RequestIdx};

use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, QuotaIdx, ShapeIdx};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, QueueRef};

/// For every slot of every table whether it is in use.
#[derive(Debug)]
pub struct Used {
    /// Pod shapes.
    pub shapes: Vec<bool>,
    /// Requests.
    pub requests: Vec<bool>,
    /// Node slots.
    pub nodes: Vec<bool>,
    /// ClusterQueue names.
    pub queues: Vec<bool>,
    /// ResourceFlavor names.
    pub flavors: Vec<bool>,
    /// Pairs of flavor and resource.
    pub frs: Vec<bool>,
}

impl Used {
    fn nothing(state: &ClusterState) -> Used {
        let (room, quota) = (&state.room, &state.quota);
        Used {
            shapes: vec![false; room.shapes().slots()],
            requests: vec![false; room.ledger.requests().slots()],
            nodes: vec![false; room.slots()],
            queues: vec![false; quota.queue_names().slots()],
            flavors: vec![false; quota.flavor_names().slots()],
            frs: vec![false; quota.frs().slots()],
        }
    }

    /// A shape is in use.
    pub fn shape(&mut self, shape: ShapeIdx) {
        self.shapes[shape.at()] = true;
    }

    /// A queue is in use.
    pub fn queue(&mut self, queue: QueueIdx) {
        self.queues[queue.at()] = true;
    }

    fn request(&mut self, request: RequestIdx) {
        self.requests[request.at()] = true;
    }

    fn node(&mut self, node: NodeIdx) {
        self.nodes[node.at()] = true;
    }

    fn flavor(&mut self, flavor: FlavorIdx) {
        self.flavors[flavor.at()] = true;
    }

    /// A pair of flavor and resource is in use.
    pub fn fr(&mut self, fr: FrIdx) {
        self.frs[fr.at()] = true;
    }

    fn assignment(&mut self, assignment: &Assignment) {
        assignment.queue.into_iter().for_each(|queue| self.queue(queue));
        for set in &assignment.sets {
            self.shape(set.shape);
            set.flavors.iter().for_each(|(_, flavor)| self.flavor(*flavor));
            set.nodes_of.iter().for_each(|flavor| self.flavor(*flavor));
            set.charge.iter().for_each(|(fr, _)| self.fr(*fr));
        }
    }
}

impl ClusterState {
    /// Everything that the state holds a handle of.
    pub fn used(&self) -> Used {
        let mut used = Used::nothing(self);
        for (node, _) in self.room.nodes_by_name() {
            used.node(node);
        }
        for (_, pod) in self.pods.iter() {
            used.shape(pod.shape);
            used.request(pod.holds);
            pod.place.into_iter().for_each(|node| used.node(node));
        }
        for (_, workload) in self.workloads.iter() {
            workload.sets.iter().for_each(|set| used.shape(set.shape));
            workload.assignment.iter().for_each(|assignment| used.assignment(assignment));
            workload.cluster_queue.into_iter().for_each(|queue| used.queue(queue));
            if let QueueRef::Queue(queue) = workload.queue {
                used.queue(queue);
            }
        }
        for note in self.ended.values().flatten() {
            used.shape(note.shape);
            used.node(note.node);
        }
        for claim in self.claims.iter() {
            used.assignment(&claim.assignment);
            claim.places.members.iter().for_each(|(_, node)| used.node(*node));
        }
        self.mark_quota(&mut used);
        used
    }

    fn mark_quota(&self, used: &mut Used) {
        let quota = &self.quota;
        for (index, queue) in quota.existing() {
            used.queue(index);
            let flavors = queue.groups.iter().flat_map(|group| &group.flavors);
            flavors.for_each(|flavor| used.flavor(*flavor));
        }
        for at in 0..quota.tree.len() {
            quota.tree.covered(QuotaIdx(at as u32)).for_each(|fr| used.fr(fr));
        }
        self.classes.flavors().for_each(|flavor| used.flavor(flavor));
        let flavors = quota.flavor_names().iter().map(|(_, at)| FlavorIdx(at));
        flavors.filter(|flavor| quota.flavor(*flavor).is_some()).for_each(|f| used.flavor(f));
        for (&(flavor, _), at) in quota.frs().iter() {
            if used.frs[at as usize] {
                used.flavor(flavor);
            }
        }
    }

    /// Forgets what is not in use. No transaction may be open and no batch half applied: handles
    /// on the way are not seen.
    pub fn sweep(&mut self, mut used: Used) {
        for (_, at) in self.room.shapes().iter() {
            if used.shapes[at as usize] {
                let shape = self.room.shape(ShapeIdx(at));
                used.request(shape.request);
                used.request(shape.counted);
            }
        }
        self.classes.sweep(&used);
        self.room.sweep(&used);
        self.quota.sweep(&used);
    }

    /// Asserts that everything that is held a handle of is there.
    ///
    /// # Panics
    /// When a slot that is in use has no value.
    pub(super) fn recount_used(&self) {
        self.room.recount();
        self.quota.recount_names();
        let used = self.used();
        let check = |what: &str, used: &[bool], given: Vec<bool>| {
            let lost = used.iter().zip(given).position(|(used, given)| *used && !given);
            assert_eq!(lost, None, "a {what} in use was forgotten");
        };
        check("shape", &used.shapes, self.room.shapes().given());
        check("request", &used.requests, self.room.ledger.requests().given());
        check("node", &used.nodes, self.room.names().given());
        check("queue", &used.queues, self.quota.queue_names().given());
        check("flavor", &used.flavors, self.quota.flavor_names().given());
        check("flavor and resource", &used.frs, self.quota.frs().given());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::apply::Changes;
    use crate::model::input::{CapacityType, Input, Labels, NodeFacts, PodShape, Text};
    use crate::place::classes::Scoring;

    fn node(name: &str, cpu: i64) -> Input {
        let labels = Labels::from([("kubernetes.io/hostname".into(), Text::from(name))]);
        Input::Node(
            NodeFacts {
                features: Vec::new(),
                images: Arc::default(),
                name: name.into(),
                labels,
                taints: Vec::new(),
                unschedulable: false,
                allocatable: [("cpu".into(), cpu), ("pods".into(), 10)].into(),
                capacity_type: CapacityType::Unknown,
                price: None,
            }
            .into(),
        )
    }

    fn feed(state: &mut ClusterState, inputs: impl IntoIterator<Item = Input>) {
        let mut changes = Changes::default();
        inputs.into_iter().for_each(|input| state.apply(input, &mut changes));
        state.derive(&mut changes);
        state.recount();
    }

    fn sweep(state: &mut ClusterState) {
        state.sweep(state.used());
        state.recount();
    }

    fn asking(cpu: i64) -> Arc<PodShape> {
        Arc::new(PodShape { requests: [("cpu".into(), cpu)].into(), ..PodShape::default() })
    }

    #[test]
    fn a_node_that_takes_over_a_slot_is_looked_at_anew() {
        let mut state = ClusterState::default();
        feed(&mut state, [node("gone", 4)]);
        let shape = state.room.intern_shape(&asking(2));
        let class = state.class(shape, &[], Scoring::default());
        assert_eq!(state.classes.fresh(&state.room, class).spot(0).slots, 2);
        let version = state.room.node(NodeIdx(0)).version;
        feed(&mut state, [Input::NodeGone("gone".into())]);
        let mut used = state.used();
        used.shape(shape);
        state.sweep(used);
        assert_eq!((state.room.slots(), state.room.find_node("gone")), (0, None));
        feed(&mut state, [node("new", 6)]);
        assert_eq!(state.room.find_node("new"), Some(NodeIdx(0)));
        assert!(state.room.node(NodeIdx(0)).version > version, "no verdict of the old one holds");
        assert_eq!(state.classes.fresh(&state.room, class).spot(0).slots, 3);
        state.recount();
    }

    #[test]
    fn a_shape_that_nothing_has_goes_with_its_request_and_its_classes() {
        let mut state = ClusterState::default();
        feed(&mut state, [node("n", 4)]);
        let (kept, gone) = (asking(1), asking(2));
        let gone = state.room.intern_shape(&gone);
        let index = state.room.intern_shape(&kept);
        for shape in [gone, index] {
            let class = state.class(shape, &[], Scoring::default());
            state.classes.fresh(&state.room, class);
        }
        let mut used = state.used();
        used.shape(index);
        state.sweep(used);
        let counts = (state.room.shapes().len(), state.room.ledger.requests().len());
        assert_eq!((counts, state.classes.len(), state.classes.indexed()), ((1, 1), 1, 1));
        assert_eq!(state.room.intern_shape(&kept), index, "what stays keeps its handle");
        assert_eq!(state.room.intern_shape(&asking(3)), gone, "and the free one is given again");
        state.recount();
        sweep(&mut state);
        assert!(state.room.shapes().is_empty() && state.classes.is_empty());
    }
}
