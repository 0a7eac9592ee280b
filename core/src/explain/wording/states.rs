//! Words for states: why a queue is inactive, what a node's capacity is, where a workload stands.

use std::fmt;

use crate::explain::reason::Inactive;
use crate::model::input::CapacityType;
use crate::plan::State;

impl fmt::Display for Inactive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inactive::Stopped => out.write_str("stopped (stopPolicy)"),
            Inactive::FlavorMissing(flavor) => write!(out, "flavor {flavor} does not exist"),
            Inactive::FlavorBroken(flavor, rule) => write!(out, "flavor {flavor}: {rule}"),
            Inactive::CohortCycle(cohort) => {
                write!(out, "cohort {cohort} is its own ancestor")
            }
            Inactive::CohortBroken(cohort, rule) => write!(out, "cohort {cohort}: {rule}"),
            Inactive::Broken(rule) => out.write_str(rule),
        }
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
