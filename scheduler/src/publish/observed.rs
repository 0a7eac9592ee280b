//! Of which version of an object's spec (`metadata.generation`) its conditions are.
//!
//! Tools that wait for a condition take no notice of one that is of an older spec than they see.
//! Of queues and cohorts it is the version that the engine was told of last; of a Workload, whose
//! spec we write ourselves, the one that the API showed last. Conditions of others are theirs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::entry::Key;
use super::plan::Plan;

/// Conditions that queues and cohorts have from us.
pub const OF_QUEUES: [&str; 2] = ["Active", "WithinBudget"];
/// Conditions that Workloads have from us.
pub const OF_WORKLOADS: [&str; 8] = [
    "QuotaReserved",
    "Admitted",
    "PodsReady",
    "Evicted",
    "Preempted",
    "Requeued",
    "Finished",
    "WaitingForReplacementPods",
];

/// Says of these conditions of which version they are, where that is known.
pub fn observe(conditions: &mut [Condition], ours: &[&str], generation: Option<i64>) {
    let Some(generation) = generation else { return };
    for known in conditions.iter_mut().filter(|known| ours.contains(&known.type_.as_str())) {
        known.observed_generation = Some(generation);
    }
}

impl Plan {
    /// What is told of an object that is written is of this version of it.
    pub fn observed(&mut self, key: &Key, generation: i64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.generation = Some(generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use capstan_core::time::Time;

    use super::super::conditions::{Says, set};
    use super::*;

    #[test]
    fn conditions_of_others_and_what_nobody_knows_stay() {
        let mut all = Vec::new();
        for of in ["Active", "Theirs"] {
            set(&mut all, Says { of, status: true, reason: "R", message: String::new() }, Time(0));
        }
        let seen = |all: &[Condition]| [all[0].observed_generation, all[1].observed_generation];
        observe(&mut all, &OF_QUEUES, Some(3));
        assert_eq!(seen(&all), [Some(3), None]);
        observe(&mut all, &OF_QUEUES, None);
        assert_eq!(seen(&all), [Some(3), None]);
    }
}
