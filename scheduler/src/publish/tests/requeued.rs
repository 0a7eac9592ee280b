//! What is said of work that was stopped, until it queues again.

use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::plan::{Preemption, PreemptionReason, State};
use capstan_core::time::Span;

use super::{Api, Limits, OURS, Plan, at, gang, ready, room, waits};
use crate::render::fixture;

/// Work that waits for this reason, and why it was stopped as far as that is known.
fn kept(reason: Reason, stop: Option<PreemptionReason>) -> WorkloadDetails {
    let mut details = waits(gang(State::Queued), reason, &[]);
    details.view.preempted = stop.map(|reason| Preemption { reason, ..fixture::preemption() });
    details
}

/// What its condition says.
fn requeued(api: &Api) -> Option<(bool, String)> {
    let conditions = api.status("g").conditions;
    let known = conditions.into_iter().find(|it| it.type_ == "Requeued");
    known.map(|it| (it.status == "True", it.reason))
}

fn said(status: bool, word: &str) -> Option<(bool, String)> {
    Some((status, word.to_owned()))
}

fn deactivated() -> Reason {
    Reason::Deactivated { workload: "ns/g".into() }
}

fn held_local_queue() -> Reason {
    Reason::LocalQueueStopped { local_queue: "ns/q".into() }
}

/// Why it was stopped only the engine knows that did it.
#[test]
fn another_leader_lets_nobody_queue_that_is_kept() {
    let waited = Span::minutes(5);
    let unready = PreemptionReason::PodsNotReady { ready: 0, need: 3, waited, fell: false };
    let limit = PreemptionReason::RequeuingLimitExceeded { stops: 2 };
    let of_limit = "DeactivatedDueToRequeuingLimitExceeded";
    let drained = PreemptionReason::LocalQueueStopped;
    for (stop, why, word, over) in [
        (unready, Reason::not_ready(at(600_000), 1), "PodsReadyTimeout", "BackoffFinished"),
        (limit, deactivated(), of_limit, "Reactivated"),
        (drained, held_local_queue(), "LocalQueueStopped", "LocalQueueRestarted"),
    ] {
        let (mut plan, mut api) = ready();
        plan.workload(at(0), kept(why.clone(), Some(stop)));
        api.work(&mut plan, at(0));
        assert_eq!(requeued(&api), said(false, word));
        let mut next = Plan::new(Limits::default(), OURS.into());
        next.listed(at(5_000), [api.listed("g")]);
        next.workload(at(5_000), kept(why, None));
        api.work(&mut next, at(5_000));
        assert_eq!(requeued(&api), said(false, word), "by whoever leads");
        next.workload(at(10_000), kept(room(1), None));
        api.work(&mut next, at(10_000));
        assert_eq!(requeued(&api), said(true, over));
    }
}

/// A victim of a preemption queues at once; what keeps it later is something else.
#[test]
fn what_keeps_who_was_stopped_is_said_and_what_ended_that() {
    let victim = Some(PreemptionReason::InClusterQueue);
    let stopped = Reason::Inactive { cluster_queue: "q".into(), why: Inactive::Stopped };
    for (why, word, over) in [
        (deactivated(), "Deactivated", "Reactivated"),
        (held_local_queue(), "LocalQueueStopped", "LocalQueueRestarted"),
        (stopped, "ClusterQueueStopped", "ClusterQueueRestarted"),
    ] {
        let (mut plan, mut api) = ready();
        plan.workload(at(0), kept(room(1), victim));
        api.work(&mut plan, at(0));
        assert_eq!(requeued(&api), None);
        plan.workload(at(5_000), kept(why.clone(), victim));
        api.work(&mut plan, at(5_000));
        assert_eq!(requeued(&api), said(false, word));
        // A member is made anew: that says nothing of what keeps it.
        let mut gathers = kept(Reason::Gathering { have: 2, need: 3 }, victim);
        gathers.view.state = State::Gathering;
        plan.workload(at(10_000), gathers);
        api.work(&mut plan, at(10_000));
        assert_eq!(requeued(&api), said(false, word));
        plan.workload(at(15_000), kept(room(1), victim));
        api.work(&mut plan, at(15_000));
        assert_eq!(requeued(&api), said(true, over));
    }
    // It was drained, and is deactivated beside that: each ends by itself.
    let drained = Some(PreemptionReason::LocalQueueStopped);
    let (mut plan, mut api) = ready();
    for (second, why, now) in [
        (0, held_local_queue(), said(false, "LocalQueueStopped")),
        (5, deactivated(), said(false, "Deactivated")),
        (10, held_local_queue(), said(false, "LocalQueueStopped")),
        (15, deactivated(), said(false, "Deactivated")),
        (20, room(1), said(true, "Reactivated")),
    ] {
        plan.workload(at(second * 1_000), kept(why, drained));
        api.work(&mut plan, at(second * 1_000));
        assert_eq!(requeued(&api), now);
    }
}

#[test]
fn failures_before_it_was_deactivated_are_shown_no_more() {
    let (mut plan, mut api) = ready();
    let mut fails = kept(Reason::not_ready(at(60_000), 2), None);
    (fails.failures, fails.retry_at) = (2, Some(at(60_000)));
    plan.workload(at(0), fails);
    api.work(&mut plan, at(0));
    assert_eq!(api.status("g").requeue_state.map(|state| state.count), Some(2));
    for (second, why) in [(5, deactivated()), (10, room(1))] {
        plan.workload(at(second * 1_000), kept(why, None));
        api.work(&mut plan, at(second * 1_000));
        assert_eq!(api.status("g").requeue_state, None, "it begins anew");
    }
}
