//! Where a workload stands in its queue, as its status says it: for the first of each queue.
//!
//! Decides what of that is shown, and how often: work that does not wait stands nowhere; the first
//! time it is shown at once, with the status that is written anyway if there is one, and after
//! that, where nothing else differs, only every [`PLACES_EVERY`]. Before anything is known of
//! positions (a leader that has just begun), what is shown stays.

use std::collections::BTreeMap;

use capstan_core::explain::view::WorkloadDetails;
use capstan_core::plan::State;
use capstan_core::time::{Span, Time};
use serde_json::Value;

use super::conditions::api_time;
use super::entry::Write;
use super::plan::Name;
use crate::api::workload::WorkloadStatus;

/// Time between two writes of one object that say no more than where it stands.
pub const PLACES_EVERY: Span = Span::seconds(30);

/// Fields of a status that say it.
const FIELDS: [&str; 3] = ["queuePosition", "forecastStart", "forecastAssumption"];

/// Where a workload stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its place in its queue, from 1.
    pub position: i32,
    /// When it may start, and what is assumed for that; no words: nothing is.
    pub forecast: Option<(Time, String)>,
}

/// Where everybody stands who is shown; `None`: nobody knows yet.
pub(super) type Standings = Option<BTreeMap<Name, Standing>>;

/// Says in a status where a workload stands.
pub(super) fn say(
    status: &mut WorkloadStatus,
    details: &WorkloadDetails,
    name: &Name,
    standings: &Standings,
) {
    let waits = matches!(details.view.state, State::Queued | State::Reserved);
    if waits && standings.is_none() {
        return;
    }
    let known = standings.as_ref().filter(|_| waits).and_then(|all| all.get(name));
    status.queue_position = known.map(|standing| standing.position);
    let forecast = known.and_then(|standing| standing.forecast.as_ref());
    status.forecast_start = forecast.map(|(at, _)| api_time(*at));
    let assumed = forecast.map(|(_, assumed)| assumed).filter(|assumed| !assumed.is_empty());
    status.forecast_assumption = assumed.cloned();
}

/// Whether changes of a status say nothing else.
pub(super) fn only(changes: &Value) -> bool {
    let fields = changes.as_object();
    fields.is_some_and(|fields| fields.keys().all(|field| FIELDS.contains(&field.as_str())))
}

/// Whether a request says where a workload stands.
pub(super) fn told_by(write: &Write) -> bool {
    matches!(write, Write::Status(patch) if FIELDS.iter().any(|of| !patch["status"][of].is_null()))
}

/// Who stands elsewhere in one than in the other.
pub(super) fn moved(before: &Standings, after: &BTreeMap<Name, Standing>) -> Vec<Name> {
    let none = BTreeMap::new();
    let before = before.as_ref().unwrap_or(&none);
    let left = before.keys().filter(|name| !after.contains_key(*name));
    let came = after.iter().filter(|(name, standing)| before.get(*name) != Some(*standing));
    left.chain(came.map(|(name, _)| name)).cloned().collect()
}
