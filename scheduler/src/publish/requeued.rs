//! Whether work that was stopped queues again, in Kueue's words: the condition `Requeued`, and how
//! often it failed.
//!
//! `Requeued` is false while something else than its turn keeps such work, with the word of that,
//! and true with what ended it. Why it was stopped only the engine knows that did it: another one
//! finds that it is kept, and goes on from what is shown (by [`super::stopped`], if need be).

use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::plan::State;
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::{Says, api_time, holds, set};
use super::workload::{evicted_for, number};
use crate::api::workload::{RequeueState, WorkloadStatus};

const REQUEUED: &str = "Requeued";
const DEACTIVATED: &str = "Deactivated";
const LOCAL_QUEUE_STOPPED: &str = "LocalQueueStopped";
const CLUSTER_QUEUE_STOPPED: &str = "ClusterQueueStopped";

/// Says whether one that was stopped may queue again yet. While its members are missing, or leave,
/// nothing is decided, and what is done queues no more.
pub(super) fn requeued(conditions: &mut Vec<Condition>, details: &WorkloadDetails, now: Time) {
    let view = &details.view;
    if matches!(view.state, State::Gathering | State::Evicting | State::Finished) {
        return;
    }
    let kept = conditions.iter().find(|it| it.type_ == REQUEUED && it.status == "False");
    let kept = kept.map(|it| it.reason.clone());
    let evicted = holds(conditions, "Evicted").map(|it| it.reason.clone());
    let last = view.preempted.as_ref().map(evicted_for).or(kept.as_deref()).or(evicted.as_deref());
    let why = view.reason.as_ref().filter(|_| view.state == State::Queued);
    if let (Some(last), Some(why)) = (last, why)
        && let Some(reason) = keeps(why, last)
    {
        let message = why.to_string();
        return set(conditions, Says { of: REQUEUED, status: false, reason, message }, now);
    }
    let over = match kept.as_deref() {
        None => return,
        Some(word) if word.starts_with(DEACTIVATED) => "Reactivated",
        Some(LOCAL_QUEUE_STOPPED) => "LocalQueueRestarted",
        Some(CLUSTER_QUEUE_STOPPED) => "ClusterQueueRestarted",
        Some(_) => "BackoffFinished",
    };
    let message = "it queues again".to_owned();
    set(conditions, Says { of: REQUEUED, status: true, reason: over, message }, now);
}

/// The word for what keeps work out of its queue; `last`: why it was stopped, or what kept it
/// before. `None`: nothing but its turn does.
fn keeps<'a>(why: &Reason, last: &'a str) -> Option<&'a str> {
    match why {
        // Why it was deactivated says more.
        Reason::Deactivated { .. } if last.starts_with(DEACTIVATED) => Some(last),
        Reason::Deactivated { .. } => Some(DEACTIVATED),
        Reason::LocalQueueStopped { .. } => Some(LOCAL_QUEUE_STOPPED),
        Reason::Inactive { why: Inactive::Stopped | Inactive::Terminating, .. } => {
            Some(CLUSTER_QUEUE_STOPPED)
        }
        Reason::Backoff { .. } | Reason::Unqueued => Some(last),
        _ => None,
    }
}

/// Failures as far as the engine knows of any; it forgets them when the work runs. Whoever
/// activates it again has it begin anew.
pub(super) fn failures(status: &mut WorkloadStatus, details: &WorkloadDetails) {
    let held = matches!(details.view.reason, Some(Reason::Deactivated { .. }));
    match details.failures {
        _ if held => status.requeue_state = None,
        0 if details.view.state == State::Running => status.requeue_state = None,
        0 => {}
        failures => {
            status.requeue_state = Some(RequeueState {
                count: number(failures),
                requeue_at: details.retry_at.map(api_time),
            });
        }
    }
}
