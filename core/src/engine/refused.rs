//! Whether the nodes of members that are about to be bound take them.
//!
//! Problem: between a decision and its bind time passes. Pods of a resumed owner come when their
//! controller makes them, and may be others than their template said; claims are bound and devices
//! made ready. Meanwhile a node is cordoned, gets a taint, loses a label, or somebody else fills
//! it.
//!
//! Wanted: nobody is bound to a node that refuses it. Who came for a kept place gives it up, and is
//! placed anew beside the others of its gang, with the quota that this holds; a gang that was
//! prepared goes back whole. What a rule said of the pods around holds as it was found, in whatever
//! order they were placed; only who came in the stead of another kind of pod is asked about that.
//! Volumes and devices are seen to where they are settled.
//!
//! Restart: nothing is kept. Cost: one node for each bind that was decided before this step.

use crate::engine::Engine;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::pod::Takeover;
use crate::plan::State;
use crate::rules;
use crate::time::Time;

impl Engine {
    /// Members that came for kept places whose nodes refuse them have none any more; `false`:
    /// nobody is left to be bound.
    pub(super) fn let_refused_go(&mut self, now: Time, workload: WorkloadIdx) -> bool {
        let mut changes = Changes::default();
        for pod in self.unsent(workload) {
            match self.refused(pod) {
                Some(_) => self.give_back(now, pod, &mut changes),
                None => self.state.pods[pod].takeover = Takeover::Open,
            }
        }
        if changes.dirty.is_empty() {
            return true;
        }
        // The others are bound now, and who gave a place up joins them.
        let entry = &mut self.state.workloads[workload];
        if entry.state == State::Resuming {
            entry.state = State::Binding;
        }
        self.take_in_changes(now, changes);
        !self.unsent(workload).is_empty()
    }

    /// Why the first of these members, which are to be bound now, cannot be, with its node.
    pub(super) fn first_refused(&mut self, members: &[PodIdx]) -> Option<Text> {
        members.iter().find_map(|pod| self.refused(*pod))
    }

    /// Why its node does not take a member that has a place.
    fn refused(&mut self, pod: PodIdx) -> Option<Text> {
        let entry = &self.state.pods[pod];
        let (shape, node) = (entry.shape, entry.place?);
        if self.state.room.facts(node).is_none() {
            return Some(self.node_is_gone(node));
        }
        let around = entry.takeover == Takeover::Unlike;
        let held = entry.workload.and_then(|of| self.state.workloads[of].assignment.clone());
        let flavors = held.as_ref().and_then(|held| held.set(shape));
        let flavors = flavors.map_or_else(Vec::new, |set| set.nodes_of.clone());
        let profile = self.profile(held.and_then(|held| held.queue));
        let helpers = std::mem::take(&mut self.state.helpers);
        let chosen = self.state.unsettle(pod);
        let passed = self.state.pass_nominated_for(&[pod]);
        let class = self.state.class(shape, &flavors, profile);
        if around {
            self.state.classes.fresh(&self.state.room, class);
        }
        let question = self.state.classes.class(class).question(&self.state.room, node);
        let found = rules::on_bind(&question, around);
        self.state.restore_nominated(passed);
        self.state.settle(pod, node);
        self.state.room.volumes.restore(&chosen);
        // It was there before.
        self.state.helpers = helpers;
        let node = &self.state.room.node(node).name;
        found.first().map(|refusal| format!("on {node}: {refusal}").into())
    }
}
