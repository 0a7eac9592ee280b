//! Words for states: why a queue is inactive, what a node's capacity is, where a workload stands.

use std::fmt;

use crate::explain::reason::{Inactive, Reason};
use crate::model::input::CapacityType;
use crate::plan::State;

impl fmt::Display for Inactive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inactive::Terminating => out.write_str("being deleted; what it admitted runs on"),
            Inactive::Stopped => out.write_str("stopped (stopPolicy)"),
            Inactive::FlavorMissing(flavor) => write!(out, "flavor {flavor} does not exist"),
            Inactive::FlavorBroken(flavor, rule) => write!(out, "flavor {flavor}: {rule}"),
            Inactive::TopologyMissing { flavor, topology } => write!(
                out,
                "flavor {flavor}: Topology {topology} (spec.topologyName) does not exist; create \
                 it, or list a flavor without it"
            ),
            Inactive::CohortCycle(cohort) => {
                write!(out, "cohort {cohort} is its own ancestor")
            }
            Inactive::CohortBroken(cohort, rule) => write!(out, "cohort {cohort}: {rule}"),
            Inactive::Broken(rule) => out.write_str(rule),
        }
    }
}

/// That a ClusterQueue admits nothing.
pub(super) fn write_inactive(
    out: &mut fmt::Formatter<'_>,
    queue: &str,
    why: &Inactive,
) -> fmt::Result {
    match why {
        Inactive::Stopped | Inactive::Terminating => {
            write!(out, "ClusterQueue {queue} is {why}")
        }
        _ => write!(out, "ClusterQueue {queue} is inactive: {why}"),
    }
}

/// That a ClusterQueue is not for a namespace.
pub(super) fn write_unselected(out: &mut fmt::Formatter<'_>, reason: &Reason) -> fmt::Result {
    let Reason::NamespaceNotSelected { cluster_queue: queue, namespace, selector_absent } = reason
    else {
        return Ok(());
    };
    if *selector_absent {
        write!(
            out,
            "ClusterQueue {queue} has no namespaceSelector, which selects no namespace (set \
             namespaceSelector: {{}})"
        )
    } else {
        write!(
            out,
            "namespaceSelector of ClusterQueue {queue} does not match namespace {namespace}"
        )
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            CapacityType::Reserved => "reserved",
            CapacityType::Spot => "spot",
            CapacityType::OnDemand => "on-demand",
            CapacityType::Unknown => "unknown",
        })
    }
}

impl fmt::Display for State {
    /// The word of the API.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            State::Gathering => "Gathering",
            State::Queued => "Queued",
            State::Provisioning => "Provisioning",
            State::Reserved => "Reserved",
            State::Resuming => "Resuming",
            State::Preparing => "Preparing",
            State::Binding => "Binding",
            State::Running => "Running",
            State::Evicting => "Evicting",
            State::Finished => "Finished",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::reason::Reason;

    #[test]
    fn a_topology_that_is_missing_is_named_with_its_flavor() {
        let why = Inactive::TopologyMissing { flavor: "f".into(), topology: "racks".into() };
        let want = "flavor f: Topology racks (spec.topologyName) does not exist; create it, or \
                    list a flavor without it";
        assert_eq!(why.to_string(), want);
    }

    #[test]
    fn a_queue_that_is_being_deleted_says_so() {
        let why = Inactive::Terminating;
        let reason = Reason::Inactive { cluster_queue: "team-a".into(), why };
        let want = "ClusterQueue team-a is being deleted; what it admitted runs on";
        assert_eq!((&*reason.to_string(), reason.code()), (want, "Suspended"));
    }
}
