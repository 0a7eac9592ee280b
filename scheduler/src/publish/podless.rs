//! What the Workload of an owner says that goes on and has no pods for now.
//!
//! Such an owner makes others in time: its pods failed and it waits before the next, or they were
//! lost with a node. The engine has nothing of it by then, so that all that is said here comes from
//! what was said last: it holds nothing, and waits for pods. What it has cost stays.

use capstan_core::plan::State;
use capstan_core::time::Time;

use super::accrued;
use super::conditions::{Says, api_time, set};
use crate::api::workload::WorkloadStatus;

const WAITS: &str = "its owner has no pods for now";

/// The status from then on, when its last pod was gone, given what was said of it.
pub fn status(before: &WorkloadStatus, since: Time) -> WorkloadStatus {
    let conditions = before.conditions.clone();
    let mut after = WorkloadStatus {
        state: State::Gathering.to_string(),
        reason: WAITS.to_owned(),
        pods: format!("0/{}", before.pods.split_once('/').map_or("0", |(_, all)| all)),
        gpus: before.gpus,
        waiting_since: before.waiting_since.clone().or_else(|| Some(api_time(since))),
        waited_seconds: before.waited_seconds,
        waited: before.waited.clone(),
        cluster_queue: before.cluster_queue.clone(),
        requeue_state: before.requeue_state.clone(),
        conditions,
        ..WorkloadStatus::default()
    };
    let held = ["QuotaReserved", "Admitted", "PodsReady"].map(|of| {
        let said = after.conditions.iter().any(|known| known.type_ == of);
        (of, said)
    });
    for (of, _) in held.into_iter().filter(|(_, said)| *said) {
        let (reason, message) = match of {
            "QuotaReserved" => ("Gathering", WAITS),
            "Admitted" => ("NoReservation", "the workload holds no quota"),
            _ => ("WaitForStart", WAITS),
        };
        set(
            &mut after.conditions,
            Says { of, status: false, reason, message: message.into() },
            since,
        );
    }
    accrued::end(before, &mut after, since);
    after
}
