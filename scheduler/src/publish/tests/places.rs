//! Where work stands in its queue: what of it is written, and when.

use capstan_core::explain::view::Assumptions;

use super::super::places::{PLACES_EVERY, Standing};
use super::*;

fn standing(position: i32, forecast: Option<i64>) -> Standing {
    let last = vec!["ns/runs".into()];
    let assumes = Assumptions { ends: 1, last, ..Assumptions::default() }.to_string();
    Standing { position, forecast: forecast.map(|ms| (at(ms), assumes)) }
}

fn stand(plan: &mut Plan, position: i32, forecast: Option<i64>) -> Vec<Name> {
    plan.stand([(name("g"), standing(position, forecast))].into())
}

fn waiting() -> WorkloadDetails {
    waits(gang(State::Queued), room(1), &[])
}

#[test]
fn a_position_known_in_time_costs_no_write_of_its_own() {
    let (mut plan, mut api) = ready();
    assert_eq!(stand(&mut plan, 3, Some(60_000)), [name("g")]);
    plan.workload(at(0), waiting());
    assert_eq!(api.work(&mut plan, at(0)), 2, "a create and a status, as ever");
    let status = api.status("g");
    assert_eq!(
        (status.queue_position, status.forecast_start),
        (Some(3), Some(api_time(at(60_000))))
    );
    let assumed = "if ns/runs ends as declared";
    assert_eq!(status.forecast_assumption.as_deref(), Some(assumed));
    assert_eq!(count(&mut plan, What::StatusPlace), 0);
}

#[test]
fn a_forecast_that_takes_nothing_for_granted_says_no_more_than_when() {
    let (mut plan, mut api) = ready();
    let standing = Standing { position: 1, forecast: Some((at(60_000), String::new())) };
    plan.stand([(name("g"), standing)].into());
    plan.workload(at(0), waiting());
    api.work(&mut plan, at(0));
    let status = api.status("g");
    assert_eq!(status.forecast_start, Some(api_time(at(60_000))));
    assert_eq!(status.forecast_assumption, None);
}

#[test]
fn a_new_position_is_written_now_and_then_and_counted_apart() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waiting());
    assert_eq!(api.work(&mut plan, at(0)), 2);
    assert_eq!(api.status("g").queue_position, None);
    // The first time at once.
    assert_eq!(stand(&mut plan, 9, None), [name("g")]);
    plan.workload(at(2_000), waiting());
    assert_eq!(api.work(&mut plan, at(2_000)), 1);
    assert_eq!(api.status("g").queue_position, Some(9));
    // Then every half a minute, however often it moves.
    for second in 3..32 {
        let moved = stand(&mut plan, 20 - second as i32 / 2, None);
        moved.iter().for_each(|_| plan.workload(at(second * 1_000), waiting()));
        assert_eq!(api.work(&mut plan, at(second * 1_000)), 0, "after {second} s");
    }
    assert_eq!(api.work(&mut plan, at(2_000).plus(PLACES_EVERY)), 1);
    assert_eq!(api.status("g").queue_position, Some(5));
    let counts = plan.take_counts();
    let of = |what| counts.get(&what).copied().unwrap_or(0);
    assert_eq!((of(What::StatusUntilBound), of(What::StatusPlace)), (1, 2));
    assert_eq!(stand(&mut plan, 5, None), [] as [Name; 0], "it did not move");
}

#[test]
fn another_change_takes_the_position_along_and_who_starts_stands_nowhere() {
    let (mut plan, mut api) = ready();
    stand(&mut plan, 2, Some(60_000));
    plan.workload(at(0), waiting());
    api.work(&mut plan, at(0));
    stand(&mut plan, 1, None);
    plan.workload(at(1_000), waits(gang(State::Queued), room(2), &[]));
    assert_eq!(api.work(&mut plan, at(1_000)), 1, "its reason changed");
    let status = api.status("g");
    assert_eq!((status.queue_position, status.forecast_start), (Some(1), None));
    plan.workload(at(2_000), gang(State::Binding));
    assert_eq!(api.work(&mut plan, at(2_000)), 1);
    let status = api.status("g");
    assert_eq!((status.queue_position, status.forecast_assumption), (None, None));
}

#[test]
fn who_falls_out_of_the_first_of_its_queue_loses_its_position() {
    let (mut plan, mut api) = ready();
    stand(&mut plan, 2, None);
    plan.workload(at(0), waiting());
    api.work(&mut plan, at(0));
    assert_eq!(plan.stand(Default::default()), [name("g")]);
    plan.workload(at(1_000), waiting());
    assert_eq!(api.work(&mut plan, at(1_000)), 0, "that is no hurry");
    assert_eq!(api.work(&mut plan, at(0).plus(PLACES_EVERY)), 1);
    assert_eq!(api.status("g").queue_position, None);
}

#[test]
fn a_new_leader_leaves_a_position_until_it_knows_better() {
    let (mut plan, mut api) = ready();
    stand(&mut plan, 2, None);
    plan.workload(at(0), waiting());
    api.work(&mut plan, at(0));
    let mut again = Plan::new(Limits::default(), OURS.into());
    again.listed(at(40_000), [api.listed("g")]);
    again.workload(at(40_000), waiting());
    assert_eq!(api.work(&mut again, at(40_000)), 0);
    assert_eq!(stand(&mut again, 1, None), [name("g")]);
    again.workload(at(41_000), waiting());
    assert_eq!(api.work(&mut again, at(41_000)), 1);
    assert_eq!(api.status("g").queue_position, Some(1));
}
