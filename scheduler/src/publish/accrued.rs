//! What work has cost, in the status of its Workload.
//!
//! Problem: people ask what a job cost, over all its runs and whoever led meanwhile; and a number
//! that grows by itself would be a write for each Workload again and again.
//!
//! Decides how much was spent up to a time, from what was written last: so much until then, and so
//! much an hour since. It is reckoned anew whenever a status is written for another reason, which
//! is so when work begins, ends, is stopped, or holds more or less. In between whoever reads it
//! does the sum: `accruedMicroUsd` and what `accruing` says, from `since` on.
//!
//! Restart: all of it stands in the status. Where nobody led while one run ended and the next
//! began, the first is taken to have ended when the work began to wait.

use capstan_core::explain::view::WorkloadView;
use capstan_core::time::Time;

use super::conditions::{api_time, engine_time};
use crate::api::workload::{Accruing, WorkloadStatus};

const MILLIS_OF_AN_HOUR: i128 = 3_600_000;

/// Says what was spent until now, given what was said of it last.
pub(super) fn reckon(
    before: &WorkloadStatus,
    after: &mut WorkloadStatus,
    view: &WorkloadView,
    now: Time,
) {
    // Times of the API have whole seconds: what is cut off now is counted the next time.
    let whole = |at: Time| engine_time(&api_time(at));
    let now = whole(now);
    let admitted = view.admitted_at.map_or(now, whole).min(now);
    let mut from = admitted;
    let mut spent = before.accrued_micro_usd;
    if let Some(accruing) = &before.accruing {
        let since = engine_time(&accruing.since);
        let until = if admitted > since && view.admitted_at.is_some() {
            whole(view.waits_since).min(now)
        } else {
            from = now;
            now
        };
        spent = Some(with(spent, accruing, until));
    }
    after.accruing =
        view.per_hour.map(|rate| Accruing { since: api_time(from), micro_usd_per_hour: rate.0 });
    after.accrued_micro_usd = spent.or(after.accruing.as_ref().map(|_| 0));
}

/// Says what was spent until then, when the last of it went, given what was said of it last.
pub(super) fn end(before: &WorkloadStatus, after: &mut WorkloadStatus, until: Time) {
    let more =
        before.accruing.as_ref().map(|accruing| with(before.accrued_micro_usd, accruing, until));
    (after.accruing, after.accrued_micro_usd) = (None, more.or(before.accrued_micro_usd));
}

/// So much, and what has accrued until then.
fn with(spent: Option<i64>, accruing: &Accruing, until: Time) -> i64 {
    let millis = i128::from(until.since(engine_time(&accruing.since)).0.max(0));
    let more = i128::from(accruing.micro_usd_per_hour) * millis / MILLIS_OF_AN_HOUR;
    i64::try_from(i128::from(spent.unwrap_or(0)) + more).unwrap_or(i64::MAX)
}
