//! What the Workload of finished work goes on saying of how that ran.
//!
//! Problem: the engine lets go of members as they end. Said from what it knows then, work that is
//! over would have had no pod sets, no flavors and no nodes, and the priority of nobody; and it
//! would cost one more write of the spec to say so.
//!
//! Decides: what was said last of such work stays, as far as the engine does not know more. All of
//! that stands in the object: who leads next keeps it as well, and nothing of it is kept here.
//! What is no longer so is not kept: nothing of it runs, and it costs nothing. Work that waited
//! again when it ended, or never began, said by then that it has neither flavors nor nodes.
//!
//! Members mostly end one after the other: the spec goes on naming those that ended while others
//! run, and the status tells of these. Of work that was over before anybody wrote of it, its owner
//! or pods that are there still tell how many there were, what they asked, and the flavors.

use capstan_core::explain::view::WorkloadDetails;
use capstan_core::plan::State;

use crate::api::workload::{PodSet, WorkloadSpec, WorkloadStatus};

/// Whether the spec stands as it is shown: of those that it is of nobody is left, or some leave.
pub(super) fn stands(shown: &WorkloadSpec, details: &WorkloadDetails) -> bool {
    let said = members(shown);
    let over = details.view.state == State::Finished && said > 0;
    over && (details.members == 0 || told(details) <= said)
}

/// Pod sets that stand as they are shown: all that they lack is members that ended.
pub(super) fn sets(shown: Option<&WorkloadSpec>, details: &WorkloadDetails) -> Option<Vec<PodSet>> {
    let shown = shown.filter(|_| matches!(details.view.state, State::Binding | State::Running))?;
    let (said, told) = (members(shown), told(details));
    let lacks = told < said && said <= told.saturating_add(details.ended.into());
    lacks.then(|| shown.pod_sets.clone())
}

/// Has the status that should be shown go on saying what the one before did of such work, whose
/// spec is shown.
pub(super) fn keep(
    before: &WorkloadStatus,
    spec: &WorkloadSpec,
    after: &mut WorkloadStatus,
    details: &WorkloadDetails,
) {
    let view = &details.view;
    if view.state != State::Finished {
        return;
    }
    let all = before.pods.split_once('/').and_then(|(_, all)| all.parse::<u64>().ok());
    let there = details.members.max(details.placed);
    let all = all.unwrap_or(0).max(members(spec)).max(there.into());
    after.pods = format!("{}/{all}", details.placed);
    // GPUs of some are not those of all.
    let of_all = told(details) == members(spec) || before.gpus == 0;
    after.gpus = if of_all { view.gpus.max(before.gpus) } else { before.gpus };
    if after.flavors.len() <= before.flavors.len() {
        after.flavors.clone_from(&before.flavors);
    }
    if after.nodes.len() <= before.nodes.len() {
        after.nodes.clone_from(&before.nodes);
        after.nodes_summary.clone_from(&before.nodes_summary);
    }
    if after.cluster_queue.is_none() {
        after.cluster_queue.clone_from(&before.cluster_queue);
    }
}

/// Pods of a spec.
fn members(spec: &WorkloadSpec) -> u64 {
    spec.pod_sets.iter().map(|set| u64::try_from(set.count).unwrap_or(0)).sum()
}

/// Pods that the engine tells of.
fn told(details: &WorkloadDetails) -> u64 {
    details.view.pod_sets.iter().map(|set| u64::from(set.count)).sum()
}
