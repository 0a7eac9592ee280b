//! The words for preemptions, what they cost, and for what would start a waiting workload.

use std::fmt;

use crate::explain::quantity::amount;
use crate::explain::view::Change;
use crate::plan::{Preemption, PreemptionReason};

impl fmt::Display for PreemptionReason {
    /// The word of the API.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Preemption {
    /// Why this victim: `reclaims 8 borrowed GPUs for cohort research; 100 < 1000`.
    pub fn because(&self) -> String {
        let held = self.held();
        let priorities = self.priorities();
        match self.reason {
            PreemptionReason::InClusterQueue => {
                format!("takes {held} within the queue; {priorities}")
            }
            PreemptionReason::InCohortReclamation => match &self.cohort {
                Some(cohort) => {
                    format!("reclaims {held} borrowed from {cohort}; {priorities}")
                }
                None => format!("reclaims {held} borrowed; {priorities}"),
            },
            PreemptionReason::InCohortReclaimWhileBorrowing => {
                format!("takes {held} while borrowing itself; {priorities}")
            }
            PreemptionReason::InCohortFairSharing => {
                format!("takes {held} from the larger share; {priorities}")
            }
            PreemptionReason::Priority => format!("needs its room, {held}; {priorities}"),
        }
    }

    /// What the victim loses: `12m of work, $2.40`.
    pub fn loses(&self) -> String {
        match self.lost_cost {
            Some(cost) => format!("{} of work, ${cost}", self.lost),
            None => format!("{} of work", self.lost),
        }
    }

    fn held(&self) -> String {
        if self.frees.is_empty() {
            return "its place".to_owned();
        }
        let parts: Vec<String> =
            self.frees.iter().map(|(resource, held)| amount(resource, *held)).collect();
        parts.join(", ")
    }

    fn priorities(&self) -> String {
        let (victim, preemptor) = (self.victim_priority, self.preemptor_priority);
        match victim.cmp(&preemptor) {
            std::cmp::Ordering::Less => format!("priority {victim} < {preemptor}"),
            std::cmp::Ordering::Equal => format!("both priority {victim}"),
            std::cmp::Ordering::Greater => format!("priority {victim} > {preemptor}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::WaitFor { workload, .. } => write!(out, "wait for {workload} to end"),
            Change::FewerPods { pods: 1 } => {
                out.write_str("start with 1 pod (capstan.sh/min-member: \"1\")")
            }
            Change::FewerPods { pods } => {
                write!(out, "start with {pods} pods (capstan.sh/min-member: \"{pods}\")")
            }
            Change::AllowCapacity { types } => {
                let list: Vec<String> = types.iter().map(ToString::to_string).collect();
                let added = list.last().map_or("any capacity type", String::as_str);
                write!(out, "allow {added} (capstan.sh/capacity-types: {})", list.join(","))
            }
            Change::RaiseQuota { cluster_queue, flavor, resource, by } => write!(
                out,
                "raise nominalQuota of {cluster_queue} by {} (flavor {flavor})",
                amount(resource, *by)
            ),
        }
    }
}
