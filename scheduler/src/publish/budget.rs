//! What a ClusterQueue spent of its budget, in its status.
//!
//! Wanted: people see what was spent within a minute, and at once that nothing is left; another
//! replica finds what it cannot know (what ended). Where nothing runs nothing is written.

use capstan_core::explain::view::Account;
use capstan_core::explain::wording::spending::{spent_of, standing};
use capstan_core::time::{Span, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::{Says, api_time, engine_time, set};
use crate::api::cluster_queue::BudgetStatus;

/// How often what was spent is written, at most.
const EVERY: Span = Span::minutes(1);

/// The condition of queues with a budget.
const WITHIN: &str = "WithinBudget";

/// What should be shown, given what is.
pub fn status(
    shown: Option<&BudgetStatus>,
    account: Option<&Account>,
    now: Time,
) -> Option<BudgetStatus> {
    let account = account?.on(now);
    let (start, end) = account.period();
    let fresh = BudgetStatus {
        period_start: Some(api_time(start)),
        spent_micro_usd: account.usd().0,
        spent_gpu_seconds: account.gpu_seconds(),
        as_of: Some(api_time(account.as_of())),
        spent: spent_of(&account),
        exhausted: account.over().is_some(),
        period_end: Some(api_time(end)),
        runs_out: account.runs_out().filter(|at| *at < end).map(api_time),
    };
    match shown {
        Some(shown) if !is_due(shown, &fresh, now) => Some(shown.clone()),
        _ => Some(fresh),
    }
}

/// Whether what is shown is to be replaced now.
fn is_due(shown: &BudgetStatus, fresh: &BudgetStatus, now: Time) -> bool {
    let limit = |status: &BudgetStatus| {
        let words = status.spent.split(", ").filter_map(|part| part.split_once('/'));
        words.map(|(_, limit)| limit.to_owned()).collect::<Vec<_>>()
    };
    if (&shown.period_start, shown.exhausted) != (&fresh.period_start, fresh.exhausted)
        || shown.period_end != fresh.period_end
        || limit(shown) != limit(fresh)
    {
        return true;
    }
    let same = BudgetStatus { as_of: shown.as_of.clone(), ..fresh.clone() } == *shown;
    let written = shown.as_of.as_ref().map(engine_time);
    !same && written.is_none_or(|at| at.plus(EVERY) <= now || at > now)
}

/// Says whether anything of the budget is left.
pub fn tell(conditions: &mut Vec<Condition>, account: Option<&Account>, now: Time) {
    let Some(account) = account.map(|account| account.on(now)) else {
        return conditions.retain(|condition| condition.type_ != WITHIN);
    };
    let left = account.over().is_none();
    let reason = if left { WITHIN } else { "BudgetExhausted" };
    set(conditions, Says { of: WITHIN, status: left, reason, message: standing(&account) }, now);
}
