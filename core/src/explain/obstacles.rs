//! What stands in a workload's way, as a list with asked against left.

use super::reason::{FlavorProblem, Reason};
use super::view::{Obstacle, WorkloadView};

/// Every obstacle named by a workload's reason: one for each flavor that refused it.
pub fn of(workload: &WorkloadView) -> Vec<Obstacle> {
    let Some(reason) = &workload.reason else { return Vec::new() };
    let reason = match reason {
        Reason::LostRace { then } => then,
        reason => reason,
    };
    match reason {
        Reason::Flavors { cluster_queue, pod_set, tried } => {
            let one = |refusal: &super::reason::FlavorRefusal| {
                let (asked, left) = numbers(&refusal.why);
                let reason = Reason::Flavors {
                    cluster_queue: cluster_queue.clone(),
                    pod_set: pod_set.clone(),
                    tried: vec![refusal.clone()],
                };
                Obstacle { reason, asked, left }
            };
            tried.iter().map(one).collect()
        }
        Reason::Nodes(short) => vec![Obstacle {
            reason: reason.clone(),
            asked: Some(short.asked.into()),
            left: Some(short.holds.into()),
        }],
        Reason::Topology { asked, holds, .. } => vec![Obstacle {
            reason: reason.clone(),
            asked: Some((*asked).into()),
            left: Some((*holds).into()),
        }],
        Reason::Gathering { have, need } => vec![Obstacle {
            reason: reason.clone(),
            asked: Some((*need).into()),
            left: Some((*have).into()),
        }],
        other => vec![Obstacle { reason: other.clone(), asked: None, left: None }],
    }
}

fn numbers(why: &FlavorProblem) -> (Option<i64>, Option<i64>) {
    match why {
        FlavorProblem::ExceedsMax { asked, most, .. } => (Some(*asked), Some(*most)),
        FlavorProblem::Short { asked, left, .. } => (Some(*asked), Some(*left)),
        FlavorProblem::Nodes(short) => (Some(short.asked.into()), Some(short.holds.into())),
        FlavorProblem::Topology { asked, holds, .. } => {
            (Some((*asked).into()), Some((*holds).into()))
        }
        FlavorProblem::Taint { .. } | FlavorProblem::Affinity => (None, None),
    }
}
