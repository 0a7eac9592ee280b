//! What work has cost so far, as its Workload says it.

use capstan_core::explain::view::WorkloadDetails;
use capstan_core::money::MicroUsd;
use capstan_core::plan::State;
use capstan_core::time::Time;

use super::{Limits, OURS, Plan, at, gang, ready, room, waits};
use crate::publish::conditions::api_time;

const HOUR: i64 = 3_600_000;

fn runs(since: Time, dollars: i64) -> WorkloadDetails {
    let mut details = gang(State::Running);
    (details.placed, details.started, details.up) = (3, true, true);
    details.view.admitted_at = Some(since);
    details.view.per_hour = Some(MicroUsd(dollars * 1_000_000));
    details
}

#[test]
fn what_was_spent_is_told_over_all_runs_and_leaders() {
    let (mut plan, mut api) = ready();
    let said = |api: &super::Api| {
        let status = api.status("g");
        let since = status.accruing.map(|it| (it.since, it.micro_usd_per_hour / 1_000_000));
        (status.accrued_micro_usd.map(|micro| micro / 1_000_000), since)
    };
    plan.workload(at(0), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(0));
    assert_eq!(said(&api), (None, None), "nothing is known of its price");
    // The status is written a while after it was admitted.
    plan.workload(at(5_000), runs(at(2_000), 10));
    api.work(&mut plan, at(5_000));
    assert_eq!(said(&api), (Some(0), Some((api_time(at(2_000)), 10))));
    assert_eq!(api.work(&mut plan, at(HOUR)), 0, "that time passes is no news");
    // It loses members after three hours, and costs less from then on.
    plan.workload(at(2_000 + 3 * HOUR), runs(at(2_000), 4));
    api.work(&mut plan, at(2_000 + 3 * HOUR));
    assert_eq!(said(&api), (Some(30), Some((api_time(at(2_000 + 3 * HOUR)), 4))));
    // Another leads as it is stopped.
    let mut plan = Plan::new(Limits::default(), OURS.into());
    plan.listed(at(4 * HOUR), [api.listed("g")]);
    plan.workload(at(2_000 + 5 * HOUR), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(2_000 + 5 * HOUR));
    assert_eq!(said(&api), (Some(38), None));
    // The next run counts from its own start.
    plan.workload(at(8 * HOUR), runs(at(7 * HOUR), 1));
    api.work(&mut plan, at(8 * HOUR));
    assert_eq!(said(&api), (Some(38), Some((api_time(at(7 * HOUR)), 1))));
    plan.workload(at(9 * HOUR), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(9 * HOUR));
    assert_eq!(said(&api), (Some(40), None));
}

#[test]
fn what_ended_while_nobody_led_cost_until_it_waited() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), runs(at(0), 10));
    api.work(&mut plan, at(0));
    let mut plan = Plan::new(Limits::default(), OURS.into());
    plan.listed(at(5 * HOUR), [api.listed("g")]);
    // It was stopped after two hours, and runs again since an hour ago.
    let mut again = runs(at(4 * HOUR), 10);
    again.view.waits_since = at(2 * HOUR);
    again.members = 4;
    plan.workload(at(5 * HOUR), again);
    api.work(&mut plan, at(5 * HOUR));
    let status = api.status("g");
    assert_eq!(status.accrued_micro_usd, Some(20_000_000));
    assert_eq!(status.accruing.map(|it| it.since), Some(api_time(at(4 * HOUR))));
}
