//! What ClusterQueues say of their budgets, and how often.

use capstan_core::explain::view::{Account, Rate};
use capstan_core::model::input::{Enforcement, Period, SpendingLimit};
use capstan_core::money::MicroUsd;

use super::*;

/// A dollar a second, of four GPUs.
const RATE: Rate =
    Rate { per_hour: MicroUsd(3_600_000_000), milli_gpus: 4_000, unpriced: 0, assumed: 0 };

fn limit(usd: i64, enforcement: Enforcement) -> SpendingLimit {
    let usd = Some(MicroUsd(usd * 1_000_000));
    SpendingLimit { usd, gpu_seconds: None, period: Period::Day, enforcement }
}

/// The queue with an account that was opened at the begin of time.
fn with_budget(usd: i64, rate: Rate) -> QueueView {
    let account = Account::begun(limit(usd, Enforcement::Hard), at(0), rate);
    QueueView { spending: Some(account.into()), ..queue_view() }
}

fn condition(status: &Value) -> Option<(String, String, String)> {
    let all = status["conditions"].as_array()?;
    let found = all.iter().find(|it| it["type"] == "WithinBudget")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

#[test]
fn what_was_spent_is_written_once_a_minute_and_its_end_at_once() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    api.objects.insert(key.clone(), json!({ "status": {} }));
    let mut written = Vec::new();
    for second in 0..=200 {
        let now = at(second * 1_000);
        let mut view = with_budget(150, RATE);
        view.advance(now);
        plan.cluster_queues(now, vec![view]);
        if api.work(&mut plan, now) > 0 {
            let budget = &api.objects[&key]["status"]["budget"];
            written.push((second, budget["spent"].as_str().expect("words").to_owned()));
        }
    }
    let seconds: Vec<i64> = written.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [0, 60, 120, 150], "and once it is spent a minute later: {written:?}");
    assert_eq!(written[1].1, "$60.00/$150.00");
    let status = &api.objects[&key]["status"];
    let (budget, (is, reason, message)) = (&status["budget"], condition(status).expect("said"));
    assert_eq!(budget["spentMicroUsd"], 150_000_000);
    assert_eq!((&budget["spentGpuSeconds"], &budget["exhausted"]), (&json!(600), &json!(true)));
    assert_eq!(budget["asOf"], "2023-11-14T22:15:50Z");
    assert_eq!(budget["periodStart"], "2023-11-14T00:00:00Z");
    assert_eq!(budget["periodEnd"], "2023-11-15T00:00:00Z");
    assert_eq!(budget["runsOut"], json!(null));
    assert_eq!((&*is, &*reason), ("False", "BudgetExhausted"));
    let says = "budget of $150.00 a day is spent; admits again 2023-11-15T00:00:00Z, what runs \
                goes on";
    assert_eq!(message, says);
    // More of it is shown at once; none is taken away with its condition.
    let steps = [(201, Some(500), json!("$201.00/$500.00")), (205, None, json!(null))];
    for (second, usd, spent) in steps {
        let now = at(second * 1_000);
        let mut view = usd.map_or_else(queue_view, |usd| with_budget(usd, RATE));
        view.advance(now);
        plan.cluster_queues(now, vec![view]);
        api.work(&mut plan, now);
        let status = &api.objects[&key]["status"];
        assert_eq!(status["budget"]["spent"], spent);
        let within = condition(status);
        let says =
            ("True".to_owned(), "WithinBudget".to_owned(), "may spend $500.00 a day".to_owned());
        assert_eq!(within, usd.map(|_| says));
    }
}

#[test]
fn where_nothing_runs_nothing_is_written() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    api.objects.insert(key.clone(), json!({ "status": {} }));
    let mut writes = 0;
    for minute in 0..60 {
        let now = at(minute * 60_000);
        let mut view = with_budget(150, Rate::default());
        view.advance(now);
        plan.cluster_queues(now, vec![view]);
        writes += api.work(&mut plan, now);
    }
    assert_eq!(writes, 2, "read and written once");
}

#[test]
fn a_soft_budget_that_is_spent_says_what_follows() {
    let account = Account::begun(limit(10, Enforcement::Soft), at(0), RATE).on(at(10_000));
    let view = QueueView { spending: Some(account.into()), ..queue_view() };
    let status = super::super::queues::cluster_queue(&Default::default(), &view, at(10_000));
    let status = serde_json::to_value(status).expect("a status");
    let message = condition(&status).expect("said").2;
    let says = "budget of $10.00 a day is spent; until 2023-11-15T00:00:00Z its work is reclaimed \
                first";
    assert_eq!(message, says);
}
