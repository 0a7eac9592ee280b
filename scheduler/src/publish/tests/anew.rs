//! Work that begins anew: all pods of its group had failed, and some were made in their place; or
//! its Job was deleted and made again.

use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::GangSource;
use capstan_core::plan::State;

use super::{Api, Limits, OURS, Plan, at, gang, ready, room, waits};
use crate::publish::conditions::{api_time, holds};
use crate::publish::entry::Write;
use crate::render::fixture;

/// The Job of this name, made again.
fn made_again() -> WorkloadDetails {
    let mut again = waits(gang(State::Queued), room(1), &[]);
    again.owner.as_mut().expect("a Job").uid = "uid-again".into();
    (again.suspended, again.view.created, again.view.waits_since) = (true, at(5_000), at(5_000));
    again
}

/// What is said of it, and of nothing before it, by this plan.
fn begins_afresh(plan: &mut Plan, api: &mut Api) {
    while plan.next_event(at(5_000)).is_some() {}
    plan.workload(at(5_000), made_again());
    api.work(plan, at(5_000));
    let (_, write) = api.writes.last().expect("one");
    assert_eq!(*write, Write::Delete(Some("made".to_owned())), "the one of the Job before");
    api.work(plan, at(6_000));
    let owners = api.workload("g").metadata.owner_references.expect("its Job");
    assert_eq!(owners[0].uid, "uid-again");
    let status = api.status("g");
    for of in ["Evicted", "Preempted", "Requeued"] {
        assert!(status.conditions.iter().all(|it| it.type_ != of), "{of}: {status:?}");
    }
    assert_eq!((status.preemptor, status.waiting_since), (None, Some(api_time(at(5_000)))));
    let mut told = Vec::new();
    while let Some(one) = plan.next_event(at(6_000)) {
        told.push((one.regarding.kind.to_string(), one.reason));
    }
    let of = |kind: &str| (kind.to_owned(), "FailedScheduling".to_owned());
    assert_eq!(told, [of("Job"), of("Workload")]);
}

#[test]
fn a_job_that_is_made_again_under_its_name_begins_afresh() {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    runs.placed = 3;
    plan.workload(at(0), runs);
    api.work(&mut plan, at(0));
    let mut stopped = gang(State::Evicting);
    stopped.view.preempted = Some(fixture::preemption());
    plan.workload(at(2_000), stopped);
    api.work(&mut plan, at(2_000));
    assert!(holds(&api.status("g").conditions, "Evicted").is_some());
    let (listed, objects) = (api.listed("g"), api.objects.clone());
    begins_afresh(&mut plan, &mut api);
    // By another leader as well, which knows the one before from the API only.
    let mut next = Plan::new(Limits::default(), OURS.into());
    next.listed(at(4_000), [listed]);
    begins_afresh(&mut next, &mut Api { objects, ..Api::default() });
}

#[test]
fn what_waits_anew_is_neither_finished_nor_admitted() {
    let (mut plan, mut api) = ready();
    let of_group = |state: State| {
        let mut details = gang(state);
        (details.owner, details.source) = (None, GangSource::KueueGroup);
        details
    };
    let mut runs = of_group(State::Running);
    (runs.placed, runs.started, runs.up) = (3, true, true);
    plan.workload(at(0), runs.clone());
    api.work(&mut plan, at(0));
    let mut failed = of_group(State::Finished);
    failed.failed = true;
    plan.workload(at(5_000), failed.clone());
    api.work(&mut plan, at(5_000));
    let finished = api.status("g").conditions;
    assert_eq!(holds(&finished, "Finished").expect("it is").reason, "Failed");
    assert!(holds(&finished, "QuotaReserved").is_some(), "as when it ended");

    let mut gathers = of_group(State::Gathering);
    gathers.view.reason = Some(Reason::Gathering { have: 1, need: 3 });
    plan.workload(at(10_000), gathers);
    api.work(&mut plan, at(10_000));
    let status = api.status("g");
    for of in ["Finished", "QuotaReserved", "Admitted", "PodsReady"] {
        assert!(holds(&status.conditions, of).is_none(), "{of}: {status:?}");
    }
    let quota = status.conditions.iter().find(|it| it.type_ == "QuotaReserved").expect("said");
    assert_eq!(quota.message, "1 of 3 pods exist");
    assert!(status.conditions.iter().all(|it| it.type_ != "Finished"), "{status:?}");

    // It may end well after all.
    plan.workload(at(15_000), runs);
    api.work(&mut plan, at(15_000));
    assert!(holds(&api.status("g").conditions, "Admitted").is_some());
    failed.failed = false;
    plan.workload(at(20_000), failed);
    api.work(&mut plan, at(20_000));
    let finished = api.status("g").conditions;
    assert_eq!(holds(&finished, "Finished").expect("it is").reason, "Succeeded");
}
