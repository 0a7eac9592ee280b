//! Work that waits anew after it was finished: all pods of its group had failed, and some were made
//! in their place.

use capstan_core::explain::reason::Reason;
use capstan_core::model::input::GangSource;
use capstan_core::plan::State;

use super::{at, gang, ready};
use crate::publish::conditions::holds;

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
