//! What a ClusterQueue may spend, and what its status says that it spent.
//!
//! Amounts come in whole millionths of a dollar and whole GPU-seconds, rounded up. What was spent
//! is believed as far as it can be read; what cannot be is said, and that part counts as never
//! written.

use capstan_core::model::input::{Enforcement, Period, SpendingLimit, SpentFacts};
use capstan_core::money::MicroUsd;
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as ApiTime;
use serde_json::Value;

use crate::api::cluster_queue as api;
use crate::quantity::Quantity;

const UNIT: i128 = 1_000_000_000;
const SECONDS_OF_AN_HOUR: i128 = 3_600;

/// What a queue may spend; a budget without an amount is none (and breaks the rules).
pub fn limit(given: &api::Budget) -> Option<SpendingLimit> {
    let whole = |nano: i128| {
        let whole = nano.div_euclid(UNIT) + i128::from(nano.rem_euclid(UNIT) != 0);
        i64::try_from(whole).unwrap_or(i64::MAX).max(0)
    };
    let seconds = |hours: Quantity| whole(hours.nano().saturating_mul(SECONDS_OF_AN_HOUR));
    let micro = |dollars: Quantity| whole(dollars.nano().saturating_mul(1_000_000));
    let limit = SpendingLimit {
        usd: given.usd.map(|usd| MicroUsd(micro(usd))),
        gpu_seconds: given.gpu_hours.map(seconds),
        period: match given.period {
            api::BudgetPeriod::Day => Period::Day,
            api::BudgetPeriod::Week => Period::Week,
            api::BudgetPeriod::Month => Period::Month,
        },
        enforcement: match given.enforcement {
            api::BudgetEnforcement::Soft => Enforcement::Soft,
            api::BudgetEnforcement::Hard => Enforcement::Hard,
        },
    };
    (limit.usd.is_some() || limit.gpu_seconds.is_some()).then_some(limit)
}

/// What the status of a ClusterQueue says that it spent (`status.budget`); `Err`: why it cannot be
/// read.
pub fn spent(cluster_queue: &str, status: &Value) -> Result<Option<SpentFacts>, String> {
    let given: Option<api::BudgetStatus> =
        serde_json::from_value(status.clone()).map_err(|error| error.to_string())?;
    let Some(given) = given else { return Ok(None) };
    let (Some(start), Some(as_of)) = (&given.period_start, &given.as_of) else {
        return Err("periodStart and asOf are both needed".to_owned());
    };
    let time = |at: &ApiTime| Time(at.0.as_millisecond());
    let (period_start, as_of) = (time(start), time(as_of));
    if as_of < period_start {
        return Err("asOf is before periodStart".to_owned());
    }
    if given.spent_micro_usd < 0 || given.spent_gpu_seconds < 0 {
        return Err("what was spent is below zero".to_owned());
    }
    Ok(Some(SpentFacts {
        cluster_queue: cluster_queue.into(),
        period_start,
        usd: MicroUsd(given.spent_micro_usd),
        gpu_seconds: given.spent_gpu_seconds,
        as_of,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(given: Value) -> Option<SpendingLimit> {
        limit(&serde_json::from_value(given).expect("a budget"))
    }

    #[test]
    fn amounts_are_whole_and_rounded_up() {
        let both = json!({"usd": "500.0000001", "gpuHours": "0.5", "period": "Week"});
        let limit = SpendingLimit {
            usd: Some(MicroUsd(500_000_001)),
            gpu_seconds: Some(1_800),
            period: Period::Week,
            enforcement: Enforcement::Hard,
        };
        assert_eq!(budget(both), Some(limit));
        let soft = json!({"gpuHours": 100, "period": "Day", "enforcement": "Soft"});
        let soft = budget(soft).expect("an amount");
        assert_eq!((soft.usd, soft.gpu_seconds), (None, Some(360_000)));
        assert_eq!((soft.period, soft.enforcement), (Period::Day, Enforcement::Soft));
        assert_eq!(budget(json!({"period": "Month"})), None);
        let most = budget(json!({"usd": "9Ei", "period": "Month"})).expect("an amount");
        assert_eq!(most.usd, Some(MicroUsd(i64::MAX)));
    }

    #[test]
    fn what_was_spent_is_read_or_said_to_be_lost() {
        let whole = json!({"periodStart": "2026-11-26T00:00:00Z", "asOf": "2026-11-26T10:00:00Z",
            "spentMicroUsd": 12_500_000, "spentGpuSeconds": 3_600, "spent": "$12.50/$500.00"});
        let facts = spent("team", &whole).expect("read").expect("some");
        assert_eq!((facts.usd, facts.gpu_seconds), (MicroUsd(12_500_000), 3_600));
        assert_eq!(facts.as_of.since(facts.period_start).0, 36_000_000);
        assert_eq!(spent("team", &Value::Null), Ok(None));
        let edited = |field: &str, value: Value| {
            let mut other = whole.clone();
            other[field] = value;
            spent("team", &other).expect_err("refused")
        };
        let rows = [
            ("asOf", json!("2026-11-25T00:00:00Z"), "before periodStart"),
            ("asOf", Value::Null, "both needed"),
            ("asOf", json!("yesterday"), "failed to parse"),
            ("spentMicroUsd", json!(-1), "below zero"),
            ("spentMicroUsd", json!("12"), "invalid type"),
        ];
        for (field, value, says) in rows {
            let error = edited(field, value);
            assert!(error.contains(says), "{field}: {error}");
        }
    }
}
