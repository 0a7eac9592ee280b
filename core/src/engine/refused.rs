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
//! order they were placed; only who came in the stead of another kind of pod is asked about that:
//! where it has to be near others one after the other, in whatever order passes, without those who
//! came so as well and were not asked yet. Two of which neither is where it has to be are no reason
//! for each other.
//! Volumes and devices are seen to where they are settled.
//!
//! Restart: nothing is kept. Cost: one node for each bind that was decided before this step; of who
//! has to be near others once more for each that has to go first.

use std::collections::BTreeSet;

use capstan_topology::NodeIdx;

use crate::engine::Engine;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::pod::Takeover;
use crate::model::volumes::Choices;
use crate::plan::State;
use crate::rules;
use crate::time::Time;

impl Engine {
    /// Members that came for kept places whose nodes refuse them have none any more; `false`:
    /// nobody is left to be bound.
    pub(super) fn let_refused_go(&mut self, now: Time, workload: WorkloadIdx) -> bool {
        let mut changes = Changes::default();
        let (near, others): (Vec<PodIdx>, Vec<PodIdx>) =
            self.unsent(workload).into_iter().partition(|pod| self.came_to_be_near(*pod));
        for pod in others {
            match self.refused(pod) {
                Some(_) => self.give_back(now, pod, &mut changes),
                None => self.state.pods[pod].takeover = Takeover::Open,
            }
        }
        let refused = self.refused_in_turn(&near);
        for pod in near {
            match refused.contains(&pod) {
                true => self.give_back(now, pod, &mut changes),
                false => self.state.pods[pod].takeover = Takeover::Open,
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

    /// Whether a member came in the stead of another kind of pod, to a node that is there, and has
    /// to be near others.
    fn came_to_be_near(&self, pod: PodIdx) -> bool {
        let entry = &self.state.pods[pod];
        let there = entry.place.is_some_and(|node| self.state.room.facts(node).is_some());
        let wants = &self.state.room.shape(entry.shape).facts.neighbours;
        let near = wants.as_ref().is_some_and(|wants| !wants.affinity.is_empty());
        entry.takeover == Takeover::Unlike && there && near
    }

    /// Those of these members whose nodes do not take them, in whatever order they are bound.
    fn refused_in_turn(&mut self, members: &[PodIdx]) -> BTreeSet<PodIdx> {
        let helpers = std::mem::take(&mut self.state.helpers);
        let mut left: Vec<TakenOff> =
            members.iter().filter_map(|pod| self.take_off(*pod)).collect();
        loop {
            let before = left.len();
            for held in std::mem::take(&mut left) {
                match self.refused_at(held.pod, held.node) {
                    Some(_) => left.push(held),
                    None => self.put_back(&held),
                }
            }
            if left.len() == before {
                break;
            }
        }
        for held in &left {
            self.put_back(held);
        }
        self.state.helpers = helpers;
        left.into_iter().map(|held| held.pod).collect()
    }

    /// Why its node does not take a member that has a place.
    fn refused(&mut self, pod: PodIdx) -> Option<Text> {
        let node = self.state.pods[pod].place?;
        if self.state.room.facts(node).is_none() {
            return Some(self.node_is_gone(node));
        }
        let helpers = std::mem::take(&mut self.state.helpers);
        let held = self.take_off(pod)?;
        let found = self.refused_at(pod, node);
        self.put_back(&held);
        // It was there before.
        self.state.helpers = helpers;
        found
    }

    /// Takes a member off its node, to be put back.
    fn take_off(&mut self, pod: PodIdx) -> Option<TakenOff> {
        let node = self.state.pods[pod].place?;
        Some(TakenOff { pod, node, chosen: self.state.unsettle(pod) })
    }

    fn put_back(&mut self, held: &TakenOff) {
        self.state.settle(held.pod, held.node);
        self.state.room.volumes.restore(&held.chosen);
    }

    /// Why a node does not take a member that is on none.
    fn refused_at(&mut self, pod: PodIdx, node: NodeIdx) -> Option<Text> {
        let entry = &self.state.pods[pod];
        let (shape, around) = (entry.shape, entry.takeover == Takeover::Unlike);
        let held = entry.workload.and_then(|of| self.state.workloads[of].assignment.clone());
        let flavors = held.as_ref().and_then(|held| held.set(shape));
        let flavors = flavors.map_or_else(Vec::new, |set| set.nodes_of.clone());
        let profile = self.profile(held.and_then(|held| held.queue));
        let passed = self.state.pass_nominated_for(&[pod]);
        let class = self.state.class(shape, &flavors, profile);
        if around {
            self.state.classes.fresh(&self.state.room, class);
        }
        let question = self.state.classes.class(class).question(&self.state.room, node);
        let found = rules::on_bind(&question, around);
        self.state.restore_nominated(passed);
        let node = &self.state.room.node(node).name;
        found.first().map(|refusal| format!("on {node}: {refusal}").into())
    }
}

/// A member that was taken off its node for a question.
struct TakenOff {
    pod: PodIdx,
    node: NodeIdx,
    /// What was chosen for its claims.
    chosen: Choices,
}
