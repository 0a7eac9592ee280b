//! Kept scores follow the most that any node has of what a class prefers of nodes, by which the
//! term is measured.
//!
//! Labels and names of nodes alone decide that, and with others of those there is another tree: so
//! it is found when an index is built anew. Where it is another one than before, nothing that facts
//! made of scores is kept.

use super::Class;
use crate::model::room::Room;
use crate::score;

impl Class {
    /// Finds it out anew, before nodes are looked at.
    pub(super) fn look_at_wishes(&mut self, room: &Room) {
        let now = self.most_wished(room);
        if std::mem::replace(&mut self.images.wished, now) != now {
            self.verdicts.clear();
        }
    }

    pub(super) fn most_wished(&self, room: &Room) -> u64 {
        let nodes = room.tree.order().iter();
        nodes.map(|node| score::wishes_met(&self.bare(room, *node))).max().unwrap_or(0)
    }

    /// The most that any node has of what it prefers of nodes, as of the last look.
    pub fn wished(&self) -> u64 {
        self.images.wished
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::model::apply::Changes;
    use crate::model::ids::ShapeIdx;
    use crate::model::input::{
        CapacityType, Input, NodeFacts, NodeSelectorTerm, Operator, PodShape, PreferredNodes,
        Requirement,
    };
    use crate::model::state::ClusterState;
    use crate::model::txn::Txn;
    use crate::place::classes::Scoring;

    fn of_kind(name: &str, kind: &str) -> Input {
        let facts = NodeFacts {
            name: name.into(),
            labels: [("kind".into(), kind.into())].into(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: [("cpu".into(), 8), ("pods".into(), 9)].into(),
            features: Vec::new(),
            images: Arc::default(),
            capacity_type: CapacityType::Unknown,
            price: None,
        };
        Input::Node(facts.into())
    }

    fn preferring(kinds: &[(&str, u32)]) -> Arc<PodShape> {
        let prefers = |(kind, weight): &(&str, u32)| {
            let (key, operator) = ("kind".into(), Operator::In);
            let labels = vec![Requirement { key, operator, values: vec![(*kind).into()] }];
            let term = NodeSelectorTerm { labels, fields: Vec::new() };
            PreferredNodes { weight: *weight, term }
        };
        let preferred_nodes = kinds.iter().map(prefers).collect();
        let requests = [("cpu".into(), 1)].into();
        Arc::new(PodShape { requests, preferred_nodes, ..PodShape::default() })
    }

    /// The most that nodes have, and scores that are those that are made anew.
    fn measured(state: &mut ClusterState, shape: ShapeIdx) -> u64 {
        let mut txn = Txn::begin(state);
        let class = txn.class(shape, &[], Scoring::default());
        txn.fresh(class);
        let state = txn.state();
        state.classes.recount(&state.room);
        state.classes.class(class).wished()
    }

    fn feed(state: &mut ClusterState, nodes: &[(&str, &str)]) {
        let mut changes = Changes::default();
        nodes.iter().for_each(|(name, kind)| state.apply(of_kind(name, kind), &mut changes));
        state.derive(&mut changes);
    }

    #[test]
    fn with_other_labels_of_some_nodes_all_are_measured_by_another_best() {
        let mut state = ClusterState::default();
        feed(&mut state, &[("a", "fast"), ("b", "good")]);
        let wishes = [("fast", 100), ("good", 50), ("fair", 10)];
        let shape = state.room.intern_shape(&preferring(&wishes));
        assert_eq!(measured(&mut state, shape), 100);
        for (kind, most) in [("good", 50), ("fast", 100), ("fair", 50)] {
            feed(&mut state, &[("a", kind)]);
            assert_eq!(measured(&mut state, shape), most, "{kind}");
        }
        feed(&mut state, &[("b", "none")]);
        assert_eq!(measured(&mut state, shape), 10);
    }
}
