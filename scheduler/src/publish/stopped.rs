//! Why work was stopped, where the leader that stopped it ended before it said so.
//!
//! A suspension and the status that says why are two writes. Who leads next knows of the first by
//! the marks on the owner only: for whom it was, or that pods had not come up; who was drained or
//! deactivated is still held for that. What it cost is known to nobody any more, and where none of
//! all that is to be seen nothing is said.

use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::plan::State;
use capstan_core::time::Time;

use super::conditions::{Says, engine_time, set};
use super::entry::Key;
use super::plan::{Name, Plan};
use crate::api::workload::WorkloadStatus;
use crate::live::{Live, Stopped};

const EVICTED: &str = "Evicted";

/// What the owner of a workload bears of its last stop, if this engine knows of none.
pub(super) fn of_owner(details: &WorkloadDetails, live: &Live) -> Option<Stopped> {
    let owner = details.owner.as_ref().filter(|_| details.view.preempted.is_none());
    live.stopped(owner?)
}

/// The status that is shown, with why the work was stopped where that was never said.
pub(super) fn said(
    mut status: WorkloadStatus,
    details: &WorkloadDetails,
    stopped: Option<&Stopped>,
) -> WorkloadStatus {
    let view = &details.view;
    let waits = matches!(view.state, State::Queued | State::Reserved) && view.preempted.is_none();
    let Some(stopped) = stopped.filter(|_| waits) else { return status };
    // Conditions have whole seconds.
    let at = Time(stopped.at.0.div_euclid(1_000) * 1_000);
    let known = status.conditions.iter().find(|it| it.type_ == EVICTED);
    if known.is_some_and(|it| it.status == "True" || engine_time(&it.last_transition_time) >= at) {
        return status;
    }
    let (reason, message) = match (&stopped.by, &view.reason) {
        (Some(by), _) => {
            let (preemptor, word) = (&by.preemptor, by.reason.as_str());
            let message = format!(
                "preempted by {preemptor}: {word}; who decided that ended before it said more"
            );
            let says = Says { of: "Preempted", status: true, reason: word, message };
            set(&mut status.conditions, says.clone(), at);
            status.preemptor = Some(preemptor.to_string());
            ("Preempted", says.message)
        }
        (None, _) if stopped.unready => {
            ("PodsReadyTimeout", "its pods did not become ready in time".to_owned())
        }
        (None, Some(why)) => match why {
            Reason::Deactivated { .. } => ("Deactivated", why.to_string()),
            Reason::LocalQueueStopped { .. } => ("LocalQueueStopped", why.to_string()),
            Reason::Inactive { why: Inactive::Stopped, .. } => {
                ("ClusterQueueStopped", why.to_string())
            }
            _ => return status,
        },
        (None, None) => return status,
    };
    set(&mut status.conditions, Says { of: EVICTED, status: true, reason, message }, at);
    status
}

impl Plan {
    /// What the owner of a workload bears of its last stop.
    pub fn stopped(&mut self, name: Name, stopped: Option<Stopped>) {
        if let Some(entry) = self.entries.get_mut(&Key::Workload(name)) {
            entry.stopped = stopped.map(Box::new);
        }
    }
}
