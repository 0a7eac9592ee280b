//! Workloads of owners that go on and have no pods for now.

use capstan_core::money::MicroUsd;

use super::*;

#[test]
fn the_object_of_an_owner_stays_while_it_has_no_pods_and_says_so() {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    (runs.placed, runs.started, runs.up) = (3, true, true);
    runs.view.per_hour = Some(MicroUsd(3_600_000_000));
    runs.view.admitted_at = Some(at(0));
    plan.workload(at(0), runs.clone());
    api.work(&mut plan, at(0));
    plan.podless(at(10_000), &name("g"));
    assert_eq!(api.work(&mut plan, at(14_999)), 0, "others may come at once");
    assert_eq!(api.work(&mut plan, at(15_000)), 1);
    let status = api.status("g");
    assert_eq!((status.state.as_str(), status.pods.as_str()), ("Gathering", "0/3"));
    assert_eq!(status.reason, "its owner has no pods for now");
    assert!(status.nodes.is_empty() && status.accruing.is_none());
    assert_eq!(status.accrued_micro_usd, Some(10_000_000), "ten seconds at a dollar each");
    for of in ["QuotaReserved", "Admitted", "PodsReady"] {
        assert!(holds(&status.conditions, of).is_none(), "{of}: {:?}", status.conditions);
    }
    assert_eq!(api.work(&mut plan, at(60_000)), 0, "nothing differs");
    assert_eq!(plan.backlog(EVER), 0);
    // Its controller makes others.
    runs.view.admitted_at = Some(at(90_000));
    plan.workload(at(90_000), runs);
    api.work(&mut plan, at(90_000));
    let status = api.status("g");
    assert!(holds(&status.conditions, "Admitted").is_some());
    assert_eq!(status.accrued_micro_usd, Some(10_000_000), "what it cost before stands");
    // It is deleted: so is what it had.
    plan.podless(at(100_000), &name("g"));
    plan.gone(at(101_000), &name("g"));
    api.work(&mut plan, at(106_000));
    assert_eq!(api.writes.last().expect("one").1, Write::Delete(Some("made".to_owned())));
}

#[test]
fn what_the_api_does_not_show_is_not_made_for_an_owner_without_pods() {
    let (mut plan, mut api) = ready();
    plan.podless(at(0), &name("g"));
    assert_eq!((api.work(&mut plan, at(9_000)), plan.backlog(EVER)), (0, 0));
}
