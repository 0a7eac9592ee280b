//! Work that waits for room while others take the quota that it would have had.
//!
//! Problem: who is refused for want of room is not looked at again when others start: they can only
//! have taken more. But they may have taken its quota, too, and then more nodes would not help:
//! what it says would have autoscalers build some for nothing.
//!
//! Decides nothing but that such work is looked at once more, when nothing else is left to decide,
//! so that it says what it waits for now. For each group that waits for room is kept of which
//! flavors it lacked nodes, if quota of them was left; where quota grew scarce in its tree it is
//! compared whether what a set asks is left in any of them. Members that join no gang that runs
//! have their flavors: what they say is found out anew where a member's quota is not left.
//!
//! Restart: nothing is kept; all work is looked at. Cost: a comparison of a few numbers for each
//! group that waits for room, in trees where something started, and a look for room for each of
//! [`GANGS_MAX`] gangs with members that have no quota left.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::waiting::{Line, Waiting};
use crate::explain::obstacles;
use crate::explain::reason::{FlavorProblem, Reason};
use crate::model::ids::{FlavorIdx, FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};

/// Gangs that run and have members without quota, of which is found out anew what these wait for
/// each time when others started.
const GANGS_MAX: usize = 16;

impl Waiting {
    /// Of these flavors the group of a parked workload lacks nodes.
    fn lacks_nodes_of(&mut self, index: WorkloadIdx, flavors: Vec<FlavorIdx>) {
        let Some((queue, group, _)) = self.filed.get(index) else { return };
        let line = self.lines.get_mut(queue).expect("filed under a line");
        if let Some(parked) = &mut line.groups[*group].parked {
            parked.nodes_of = Some(flavors);
        }
    }

    /// The first of each group that lacks nodes of some flavors, of some queues.
    fn lacking_nodes(
        &self,
        queues: impl Fn(QueueIdx) -> bool,
    ) -> impl Iterator<Item = (WorkloadIdx, &[FlavorIdx])> {
        let those = self.lines.iter().filter(move |(queue, _)| queue.is_some_and(&queues));
        those.flat_map(|(_, line)| &line.groups).filter_map(|group| {
            let flavors = group.parked.as_ref()?.nodes_of.as_ref()?;
            let (first, _) = group.members.values().next()?;
            Some((*first, &flavors[..]))
        })
    }

    /// The group of a workload is to be looked at.
    pub(crate) fn wake_group_of(&mut self, index: WorkloadIdx) {
        let Some(&(queue, group, _)) = self.filed.get(index) else { return };
        let line: &mut Line = self.lines.get_mut(&queue).expect("filed under a line");
        if let Some(parked) = &mut line.groups[group].parked {
            parked.nodes_of = None;
        }
        line.wake_group(group, |_| true);
        line.note_active(queue, &mut self.active);
    }
}

impl Engine {
    /// Notes of which flavors a workload lacks nodes, which is parked now for this reason.
    pub(crate) fn note_lack_of_nodes(&mut self, index: WorkloadIdx, reason: &Reason) {
        if reason.kind() != "nodes" {
            return;
        }
        let flavors = match obstacles::told(reason) {
            Reason::Flavors { tried, .. } => {
                let of_nodes = |why: &FlavorProblem| matches!(why, FlavorProblem::Nodes(_));
                let short = tried.iter().filter(|refusal| of_nodes(&refusal.why));
                let quota = &self.state.quota;
                short.filter_map(|refusal| quota.find_flavor(&refusal.flavor)).collect()
            }
            _ => Vec::new(),
        };
        if !self.is_out_of_quota(index, &flavors) {
            self.waiting.lacks_nodes_of(index, flavors);
        }
    }

    /// Whether somebody is to be looked at again who says that he waits for nodes, and has no quota
    /// left since these queues gained.
    pub(crate) fn wake_out_of_quota(&mut self) -> bool {
        let gained = std::mem::take(&mut self.crossings.gained);
        if gained.is_empty() {
            return false;
        }
        let quota = &self.state.quota;
        let in_tree = |queue| quota.root(queue).is_some_and(|root| gained.contains(&root));
        let those = self.waiting.lacking_nodes(in_tree);
        let out = those.filter(|(first, flavors)| self.is_out_of_quota(*first, flavors));
        let out: Vec<WorkloadIdx> = out.map(|(first, _)| first).collect();
        out.iter().for_each(|first| self.waiting.wake_group_of(*first));
        let mut incomplete: Vec<WorkloadIdx> = self.growth_parked.iter().copied().collect();
        incomplete.retain(|gang| self.joins_without_quota(*gang, &gained));
        self.state.in_queue_order(&mut incomplete);
        for gang in incomplete.into_iter().take(GANGS_MAX) {
            if let Some(reason) = self.joins_not(gang) {
                self.set_reason(gang, reason);
            }
        }
        !out.is_empty()
    }

    /// Whether members that join no gang that runs say that they wait for nodes, and have no quota
    /// left in one of these trees, whatever set they are of.
    fn joins_without_quota(&self, gang: WorkloadIdx, gained: &BTreeSet<QuotaIdx>) -> bool {
        let (entry, quota) = (&self.state.workloads[gang], &self.state.quota);
        let held = entry.assignment.as_ref().and_then(|held| Some((held, held.queue?)));
        let Some((held, queue)) =
            held.filter(|(_, queue)| quota.root(*queue).is_some_and(|root| gained.contains(&root)))
        else {
            return false;
        };
        let Some(node) = quota.queue(queue).node else { return false };
        let short = |(fr, asked): &(FrIdx, i64)| *asked > quota.tree.available(node, *fr);
        entry.reason.as_ref().is_some_and(|reason| reason.kind() == "nodes")
            && held.sets.iter().all(|set| set.charge.iter().any(short))
    }

    /// Whether no flavor among these, or any where none is named, has quota left for what some set
    /// of a workload asks of a group of resources at least.
    fn is_out_of_quota(&self, index: WorkloadIdx, among: &[FlavorIdx]) -> bool {
        let tree = &self.state.quota.tree;
        !self.has_flavors(index, among, |node, fr, asked| asked <= tree.available(node, fr))
    }
}
