//! Events: where each is said, and when.

use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{OwnerEnd, Text};
use capstan_core::plan::{Preemption, PreemptionReason};

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
    let evicted = of_it("EvictedDueToPreempted");
    let all = [of_it("Preempted"), said("Job", "uid-g", "Preempted"), evicted];
    assert_eq!(told(&mut plan, at(2_000)), all);
    api.work(&mut plan, at(2_000));
    assert_eq!(told(&mut plan, at(2_100)), [], "nothing is said twice");
}

/// News of a burst are told a few at a time, and binds are answered meanwhile.
#[test]
fn what_runs_before_anybody_looked_was_admitted_all_the_same() {
    for (found_running, count) in [(false, 2), (true, 0)] {
        let (mut plan, mut api) = ready();
        plan.workload(at(0), waits(gang(State::Queued), room(1), &[]));
        api.work(&mut plan, at(0));
        told(&mut plan, at(0));
        let mut runs = gang(State::Running);
        (runs.placed, runs.view.found_running) = (3, found_running);
        plan.workload(at(2_000), runs.clone());
        let both = told(&mut plan, at(2_000)).into_iter().filter(|it| it.2 == "Admitted").count();
        assert_eq!(both, count, "of it and of its owner, unless others bound it");
        plan.workload(at(4_000), runs);
        assert_eq!(told(&mut plan, at(4_000)), [], "once");
    }
}

/// It was admitted hours ago, by an engine before this one, and lost a member since.
#[test]
fn a_gang_in_part_that_is_found_is_not_said_to_be_admitted() {
    let (mut plan, _) = ready();
    let mut part = gang(State::Binding);
    (part.placed, part.view.found_running) = (2, true);
    let then = Some(Box::new(Reason::RoomTaken));
    part.view.reason = Some(Reason::Incomplete { have: 2, need: 3, then });
    plan.workload(at(0), part.clone());
    assert_eq!(told(&mut plan, at(0)), []);
    // It is whole again, which is no admission.
    (part.placed, part.view.state, part.view.reason) = (3, State::Running, None);
    plan.workload(at(2_000), part);
    assert_eq!(told(&mut plan, at(2_000)), []);
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
            notes.of_workload(now, &waits(details.clone(), room(round as u32), &[]), |_| None);
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

#[test]
fn a_preemption_is_said_of_who_takes_and_of_who_leaves() {
    let (mut plan, mut api) = ready();
    let mut victim = gang(State::Running);
    plan.workload(at(0), victim.clone());
    api.work(&mut plan, at(0));
    told(&mut plan, at(0));
    victim.view.state = State::Evicting;
    let mut why = fixture::preemption();
    (why.victim, why.preemptor) = ("ns/g".into(), "ns/taker".into());
    victim.view.preempted = Some(why);
    plan.workload(at(2_000), victim);
    let notes = |plan: &mut Plan, now| -> Vec<(String, String)> {
        std::iter::from_fn(|| plan.next_event(now)).map(|told| (told.reason, told.note)).collect()
    };
    let reasons: Vec<String> = notes(&mut plan, at(2_000)).into_iter().map(|it| it.0).collect();
    assert_eq!(reasons, ["Preempted", "Preempted", "EvictedDueToPreempted"]);
    // The preemptor's Workload comes later, and with it what is to be said of it.
    let mut taker = waits(gang(State::Queued), room(1), &[]);
    taker.view.name = "taker".into();
    plan.workload(at(3_000), taker);
    api.work(&mut plan, at(3_000));
    let all = notes(&mut plan, at(3_000));
    let taken = all.iter().find(|(reason, _)| reason == "PreemptedWorkload").expect("it is said");
    assert!(taken.1.starts_with("preempted ns/g: reclaims 8 borrowed GPUs"), "{}", taken.1);
}

/// Whether it is stopped is not known when that was only asked for.
#[test]
fn a_stop_is_said_once_it_came_about_and_never_where_it_was_refused() {
    let evicted = "EvictedDueToPreempted";
    let becomes = |then: Option<WorkloadDetails>| {
        let (mut plan, mut api) = ready();
        let mut runs = gang(State::Running);
        runs.view.admitted_at = Some(at(0));
        plan.workload(at(0), runs.clone());
        api.work(&mut plan, at(0));
        told(&mut plan, at(0));
        let mut asked = runs;
        (asked.view.state, asked.stop_asked) = (State::Evicting, true);
        asked.view.preempted = Some(fixture::preemption());
        plan.workload(at(2_000), asked);
        assert_eq!(told(&mut plan, at(2_000)), []);
        api.work(&mut plan, at(2_000));
        assert!(holds(&api.status("g").conditions, "Evicted").is_none(), "nor is it shown");
        match then {
            Some(then) => plan.workload(at(3_000), then),
            None => plan.gone(at(3_000), &name("g")),
        }
        let all = told(&mut plan, at(3_000)).into_iter().map(|(.., reason)| reason);
        all.filter(|reason| reason == evicted).count()
    };
    let mut stopped = gang(State::Evicting);
    stopped.view.preempted = Some(fixture::preemption());
    let mut again = gang(State::Resuming);
    again.view.admitted_at = Some(at(2_500));
    let mut stays = gang(State::Running);
    stays.view.admitted_at = Some(at(0));
    assert_eq!(becomes(Some(stays)), 0);
    assert_eq!(becomes(Some(stopped.clone())), 1);
    assert_eq!(becomes(Some(waits(stopped, room(1), &[]))), 1, "it has left already");
    assert_eq!(becomes(Some(again)), 1, "and runs again");
    assert_eq!(becomes(None), 1, "and is gone");
}

/// What keeps a workload that was stopped from its queue is said, and what ended that.
#[test]
fn who_was_stopped_says_whether_it_queues_again() {
    let (mut plan, mut api) = ready();
    let mut waits = gang(State::Queued);
    let stop = |reason| Preemption { reason, ..fixture::preemption() };
    let waited = Span::minutes(5);
    let unready = PreemptionReason::PodsNotReady { ready: 0, need: 3, waited, fell: false };
    let workload = || Text::from("ns/g");
    let mut requeued = |stop: Preemption, reason, now| {
        waits.view.preempted = Some(stop);
        waits.view.reason = Some(reason);
        plan.workload(at(now), waits.clone());
        api.work(&mut plan, at(now));
        let conditions = api.status("g").conditions;
        let said = conditions.into_iter().find(|it| it.type_ == "Requeued");
        said.map(|said| (said.status == "True", said.reason))
    };
    let backs_off = Reason::not_ready(at(60_000), 1);
    let said = |status, why: &str| Some((status, why.to_owned()));
    let first = requeued(fixture::preemption(), room(1), 0);
    assert_eq!(first, None, "a victim queues at once");
    let kept = requeued(stop(unready), backs_off, 10_000);
    assert_eq!(kept, said(false, "PodsReadyTimeout"));
    assert_eq!(requeued(stop(unready), room(1), 60_000), said(true, "BackoffFinished"));
    for (now, why, reason, kept, over) in [
        (
            100_000,
            PreemptionReason::RequeuingLimitExceeded { stops: 2 },
            Reason::Deactivated { workload: workload() },
            "DeactivatedDueToRequeuingLimitExceeded",
            "Reactivated",
        ),
        (
            200_000,
            PreemptionReason::LocalQueueStopped,
            Reason::LocalQueueStopped { local_queue: "ns/q".into() },
            "LocalQueueStopped",
            "LocalQueueRestarted",
        ),
    ] {
        assert_eq!(requeued(stop(why), reason, now), said(false, kept));
        assert_eq!(requeued(stop(why), room(1), now + 50_000), said(true, over));
    }
}

#[test]
fn a_group_made_by_hand_says_that_it_lacks_members_and_a_job_does_not() {
    let of = "WaitingForReplacementPods";
    for (source, says) in [(GangSource::KueueGroup, true), (GangSource::Job, false)] {
        let (mut plan, mut api) = ready();
        let mut details = gang(State::Binding);
        (details.source, details.placed, details.members) = (source, 2, 2);
        plan.workload(at(0), details.clone());
        api.work(&mut plan, at(0));
        let condition = holds(&api.status("g").conditions, of).cloned();
        let said = condition.map(|it| (it.reason, it.message));
        let words = "2 of 3 members exist; those that ended are missing".to_owned();
        assert_eq!(said, says.then(|| ("PodsFailed".to_owned(), words)));
        (details.members, details.placed, details.view.state) = (3, 3, State::Running);
        plan.workload(at(5_000), details);
        api.work(&mut plan, at(5_000));
        assert!(holds(&api.status("g").conditions, of).is_none(), "it has them all");
    }
}

/// A gang that stayed in part is nobody's victim.
#[test]
fn who_is_stopped_for_nobody_is_evicted_and_not_preempted() {
    let (mut plan, mut api) = ready();
    let mut stopped = gang(State::Running);
    plan.workload(at(0), stopped.clone());
    api.work(&mut plan, at(0));
    told(&mut plan, at(0));
    stopped.view.state = State::Evicting;
    let waited = Span::minutes(5);
    let mut why = fixture::preemption();
    why.reason = PreemptionReason::PodsReadyTimeout { have: 2, need: 3, waited };
    (why.victim, why.preemptor) = ("ns/g".into(), "ns/g".into());
    stopped.view.preempted = Some(why);
    plan.workload(at(2_000), stopped);
    let of_it = said("Workload", "made", "EvictedDueToPodsReadyTimeout");
    let all = [of_it, said("Job", "uid-g", "EvictedDueToPodsReadyTimeout")];
    assert_eq!(told(&mut plan, at(2_000)), all);
    api.work(&mut plan, at(2_000));
    let status = api.status("g");
    let condition = |of| holds(&status.conditions, of);
    let evicted = condition("Evicted").expect("it is said");
    assert_eq!(evicted.reason, "PodsReadyTimeout");
    let begins = "only 2 of the 3 members that it needs had a place for 5m; ";
    assert!(evicted.message.starts_with(begins), "{}", evicted.message);
    assert!(condition("Preempted").is_none() && status.preemptor.is_none());
}

/// Nothing of it has to leave, so it queues as soon as it is stopped: each minute, for the same.
#[test]
fn each_stop_of_work_whose_pods_never_come_is_said_as_its_condition_says_it() {
    let (mut plan, mut api) = ready();
    let mut it = gang(State::Resuming);
    let waited = Span::minutes(1);
    let mut why = fixture::preemption();
    why.reason = PreemptionReason::PodsReadyTimeout { have: 0, need: 3, waited };
    (why.victim, why.preemptor) = ("ns/g".into(), "ns/g".into());
    for begun in [0, 70_000, 140_000] {
        (it.view.state, it.view.preempted, it.view.reason) = (State::Resuming, None, None);
        plan.workload(at(begun), it.clone());
        api.work(&mut plan, at(begun));
        told(&mut plan, at(begun));
        (it.view.state, it.view.preempted) = (State::Queued, Some(why.clone()));
        it.view.reason = Some(Reason::not_ready(at(begun + 65_000), 1));
        for (after, times) in [(60_000, 2), (62_000, 0)] {
            let now = at(begun + after);
            plan.workload(now, it.clone());
            api.work(&mut plan, now);
            let all = std::iter::from_fn(|| plan.next_event(now));
            let stops = all.filter(|one| one.reason == "EvictedDueToPodsReadyTimeout");
            let notes: Vec<String> = stops.map(|one| one.note).collect();
            let status = api.status("g");
            let evicted = holds(&status.conditions, "Evicted").expect("it is said");
            assert!(evicted.message.starts_with("none of its 3 pods came within 1m; "));
            assert_eq!(notes, vec![evicted.message.clone(); times], "of it and of its owner");
        }
    }
}

/// A gang that lost a member for which there is no room says so, though it is admitted.
#[test]
fn a_gang_in_part_says_why_and_that_it_recovers() {
    let (mut plan, mut api) = ready();
    let mut it = gang(State::Running);
    (it.started, it.up, it.placed) = (true, true, 3);
    plan.workload(at(0), it.clone());
    api.work(&mut plan, at(0));
    told(&mut plan, at(0));
    (it.view.state, it.started, it.up, it.placed) = (State::Binding, false, false, 2);
    let then = Some(Box::new(Reason::RoomTaken));
    it.view.reason = Some(Reason::Incomplete { have: 2, need: 3, then });
    plan.workload(at(2_000), it.clone());
    let waits = |kind, uid| said(kind, uid, "PendingEvaluation");
    assert_eq!(told(&mut plan, at(2_000)), [waits("Workload", "made"), waits("Job", "uid-g")]);
    api.work(&mut plan, at(2_000));
    let status = api.status("g");
    assert!(status.reason.contains("2 of"), "{}", status.reason);
    let ready = status.conditions.iter().find(|it| it.type_ == "PodsReady").expect("said");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "WaitForRecovery"));
    assert!(holds(&status.conditions, "Admitted").is_some());
    // That it is written again changes nothing.
    it.view.reason = None;
    plan.workload(at(4_000), it);
    api.work(&mut plan, at(4_000));
    let status = api.status("g");
    let ready = status.conditions.iter().find(|it| it.type_ == "PodsReady").expect("said");
    assert_eq!((ready.reason.as_str(), status.reason.as_str()), ("WaitForRecovery", ""));
}

/// Who suspends a Job that runs is told that it starts again, and what holds it.
#[test]
fn a_job_that_somebody_suspends_says_how_to_hold_it() {
    for (suspended, preempted) in [(true, false), (false, false), (true, true)] {
        let (mut plan, mut api) = ready();
        let mut it = gang(State::Running);
        plan.workload(at(0), it.clone());
        api.work(&mut plan, at(0));
        told(&mut plan, at(0));
        (it.view.state, it.suspended) = (State::Queued, suspended);
        it.view.preempted = preempted.then(fixture::preemption);
        it.view.reason = Some(Reason::RoomTaken);
        plan.workload(at(2_000), it);
        let told = told(&mut plan, at(2_000));
        let by_hand = told.iter().filter(|one| one.2 == "Suspended").count();
        let both = if suspended && !preempted { 2 } else { 0 };
        assert_eq!(by_hand, both, "{told:?}");
    }
}

#[test]
fn what_has_finished_says_how_its_owner_says_that_it_ended() {
    let ends = [
        (Some(OwnerEnd::Succeeded), "Succeeded", "its Job is complete"),
        (Some(OwnerEnd::Failed(None)), "Failed", "its Job failed"),
        (
            Some(OwnerEnd::Failed(Some("BackoffLimitExceeded".into()))),
            "Failed",
            "its Job failed: BackoffLimitExceeded",
        ),
        (Some(OwnerEnd::Deleted), "Deleted", "its Job is being deleted"),
    ];
    for (owner_end, reason, message) in ends {
        let (mut plan, mut api) = ready();
        plan.workload(at(0), gang(State::Running));
        api.work(&mut plan, at(0));
        told(&mut plan, at(0));
        // Its pods have ended; its Job may make more, or say how it ended.
        let mut done = gang(State::Finished);
        (done.members, done.failed) = (0, true);
        plan.workload(at(2_000), done.clone());
        api.work(&mut plan, at(2_000));
        assert!(holds(&api.status("g").conditions, "Finished").is_none());
        assert_eq!(told(&mut plan, at(2_000)), []);
        done.owner_end = owner_end;
        plan.workload(at(4_000), done.clone());
        api.work(&mut plan, at(4_000));
        let status = api.status("g");
        let said_so = holds(&status.conditions, "Finished").expect("it says so");
        assert_eq!((said_so.reason.as_str(), said_so.message.as_str()), (reason, message));
        assert_eq!(told(&mut plan, at(4_000)), [said("Workload", "made", "Finished")]);
        plan.workload(at(99_000), done);
        assert_eq!(told(&mut plan, at(99_000)), [], "once");
    }
    for (source, failed, reason) in [
        (GangSource::CapstanGang, false, "Succeeded"),
        (GangSource::CapstanGang, true, "Failed"),
        (GangSource::Owner, false, "Deleted"),
    ] {
        let (mut plan, mut api) = ready();
        let mut bare = gang(State::Finished);
        (bare.owner, bare.source, bare.failed) = (None, source, failed);
        plan.workload(at(0), bare);
        api.work(&mut plan, at(0));
        assert_eq!(holds(&api.status("g").conditions, "Finished").expect("it is").reason, reason);
    }
}

/// The pods of a Job that completes go before it is done: nothing is left of its workload for a
/// moment.
#[test]
fn what_ends_after_its_pods_went_is_told_and_shown() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), gang(State::Running));
    api.work(&mut plan, at(0));
    told(&mut plan, at(0));
    plan.gone(at(1_000), &name("g"));
    let mut done = gang(State::Finished);
    (done.members, done.owner_end) = (0, Some(OwnerEnd::Failed(None)));
    plan.workload(at(1_500), done);
    api.work(&mut plan, at(1_500));
    assert_eq!(told(&mut plan, at(1_500)), [said("Workload", "made", "Finished")]);
    assert_eq!(api.status("g").reason, "its Job failed");
    // Deleted while it waited, it has not ended in any way.
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(0));
    told(&mut plan, at(0));
    plan.gone(at(1_000), &name("g"));
    let mut done = gang(State::Finished);
    (done.members, done.owner) = (0, None);
    plan.workload(at(1_500), done);
    api.work(&mut plan, at(1_500));
    assert_eq!(told(&mut plan, at(1_500)), []);
}

/// Pods that run and cannot do their work are not ready: at first nothing is said of it, then that
/// they recover.
#[test]
fn what_runs_and_is_not_ready_says_so() {
    let (mut plan, mut api) = ready();
    let mut it = gang(State::Running);
    (it.started, it.placed, it.running) = (true, 3, 3);
    plan.workload(at(0), it.clone());
    api.work(&mut plan, at(0));
    let of = |api: &Api| {
        let conditions = api.status("g").conditions;
        let ready = conditions.iter().find(|known| known.type_ == "PodsReady").cloned();
        ready.map(|known| (known.status, known.reason, known.message))
    };
    assert_eq!(of(&api), None);
    (it.up, it.ready) = (true, 3);
    plan.workload(at(5_000), it.clone());
    api.work(&mut plan, at(5_000));
    let says = |status: &str, reason: &str, message: &str| {
        Some((status.to_owned(), reason.to_owned(), message.to_owned()))
    };
    assert_eq!(of(&api), says("True", "Started", "enough pods are ready"));
    (it.up, it.ready) = (false, 1);
    plan.workload(at(10_000), it.clone());
    api.work(&mut plan, at(10_000));
    let message = "1 of the 3 pods that it needs are ready";
    assert_eq!(of(&api), says("False", "WaitForRecovery", message));
    (it.up, it.ready) = (true, 3);
    for second in [15, 20] {
        it.view.per_hour = Some(capstan_core::money::MicroUsd(second * 1_000_000));
        plan.workload(at(second * 1_000), it.clone());
        api.work(&mut plan, at(second * 1_000));
        assert_eq!(of(&api), says("True", "Recovered", "enough pods are ready"));
    }
    // The next run starts as the first did.
    plan.workload(at(25_000), waits(it.clone(), room(1), &[]));
    api.work(&mut plan, at(25_000));
    plan.workload(at(30_000), it);
    api.work(&mut plan, at(30_000));
    assert_eq!(of(&api), says("True", "Started", "enough pods are ready"));
}
