//! Events: where each is said, and when.

use super::*;
use crate::publish::events::{Notes, Told};

/// Kind, uid and reason of every event that may go now.
fn told(plan: &mut Plan, now: Time) -> Vec<(String, String, String)> {
    let one =
        |told: Told| (told.regarding.kind.to_string(), told.regarding.uid.to_string(), told.reason);
    std::iter::from_fn(|| plan.next_event(now)).map(one).collect()
}

fn said(kind: &str, uid: &str, reason: &str) -> (String, String, String) {
    (kind.to_owned(), uid.to_owned(), reason.to_owned())
}

#[test]
fn what_happens_is_said_of_the_workload_once_it_is_there_and_of_its_owner() {
    let (mut plan, mut api) = ready();
    let mut placed = gang(State::Binding);
    placed.view.cluster_queue = Some("team".into());
    plan.workload(at(0), placed);
    let of_owner = said("Job", "uid-g", "Admitted");
    assert_eq!(told(&mut plan, at(0)), [of_owner], "it has no uid yet");
    api.work(&mut plan, at(10));
    let of_it = |reason| said("Workload", "made", reason);
    assert_eq!(told(&mut plan, at(10)), [of_it("QuotaReserved"), of_it("Admitted")]);
    let mut stopped = gang(State::Evicting);
    stopped.view.preempted = Some(fixture::preemption());
    plan.workload(at(2_000), stopped);
    let of_both = [of_it("Preempted"), said("Job", "uid-g", "Preempted")];
    assert_eq!(told(&mut plan, at(2_000)), of_both);
    api.work(&mut plan, at(2_000));
    assert_eq!(told(&mut plan, at(2_100)), [], "nothing is said twice");
}

#[test]
fn what_waits_for_workloads_that_never_come_is_bounded() {
    let mut notes = Notes::new(10);
    let mut counted = 0;
    for n in 0..1_003 {
        let mut details = lone(State::Queued);
        details.view.name = format!("p{n}").into();
        for round in 0..6 {
            let now = at(i64::from(round) * 120_000);
            notes.of_workload(now, &waits(details.clone(), room(round as u32), &[]), None);
        }
        counted += notes.take_counts().get(&What::EventDropped).copied().unwrap_or(0);
    }
    assert_eq!(counted, 1_000 * 2 + 3 * 6, "four of each of a thousand are kept");
}

#[test]
fn nothing_is_kept_for_a_workload_that_is_gone_before_it_was_made() {
    let (mut plan, mut api) = ready();
    let mut placed = gang(State::Binding);
    placed.view.cluster_queue = Some("team".into());
    plan.workload(at(0), placed);
    plan.gone(at(1), &name("g"));
    plan.workload(at(10_000), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(10_000));
    let all = told(&mut plan, at(10_000));
    assert!(!all.contains(&said("Workload", "made", "QuotaReserved")), "{all:?}");
    assert!(all.contains(&said("Workload", "made", "FailedScheduling")), "{all:?}");
}
