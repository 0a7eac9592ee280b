//! What a leader says of work that the one before it stopped, when that one said nothing.

use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::EvictionNote;
use capstan_core::plan::{PreemptionReason, State};

use super::{Api, Limits, OURS, Plan, at, gang, name, ready, room, waits};
use crate::live::Stopped;
use crate::publish::conditions::{api_time, holds};

/// A leader after one that showed this work as running, and the API.
fn after_a_kill() -> (Plan, Api) {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    (runs.placed, runs.started, runs.up) = (3, true, true);
    plan.workload(at(0), runs);
    api.work(&mut plan, at(0));
    let mut next = Plan::new(Limits::default(), OURS.into());
    next.listed(at(55_000), [api.listed("g")]);
    (next, api)
}

fn suspended(reason: Reason) -> WorkloadDetails {
    let mut details = waits(gang(State::Queued), reason, &[]);
    details.suspended = true;
    details
}

/// Type, reason and since when, of conditions that hold.
fn held(api: &Api, of: &str) -> Option<(String, bool)> {
    let conditions = api.status("g").conditions;
    let known = holds(&conditions, of)?;
    Some((known.reason.clone(), known.last_transition_time == api_time(at(50_000))))
}

#[test]
fn who_was_preempted_names_for_whom() {
    let (mut plan, mut api) = after_a_kill();
    let by = EvictionNote { preemptor: "ns/high".into(), reason: PreemptionReason::InClusterQueue };
    let stopped = Stopped { at: at(50_250), by: Some(by), unready: false };
    plan.workload(at(60_000), suspended(room(1)));
    plan.stopped(name("g"), Some(stopped.clone()));
    api.work(&mut plan, at(60_000));
    assert_eq!(held(&api, "Evicted"), Some(("Preempted".to_owned(), true)));
    assert_eq!(held(&api, "Preempted"), Some(("InClusterQueue".to_owned(), true)));
    let status = api.status("g");
    assert_eq!(status.preemptor.as_deref(), Some("ns/high"));
    assert_eq!(status.waiting_since, Some(api_time(at(50_000))));
    assert!(holds(&status.conditions, "Requeued").is_none(), "nothing but its turn keeps it");
    // It ran again, and people suspended it: that is no stop of ours.
    plan.workload(at(70_000), gang(State::Running));
    plan.stopped(name("g"), None);
    api.work(&mut plan, at(70_000));
    plan.workload(at(80_000), suspended(room(1)));
    plan.stopped(name("g"), Some(stopped));
    api.work(&mut plan, at(80_000));
    assert_eq!(held(&api, "Evicted"), None);
}

#[test]
fn who_was_stopped_for_nobody_says_why_as_far_as_that_is_to_be_seen() {
    let rows = [
        (true, Reason::not_ready(at(600_000), 1), Some("PodsReadyTimeout")),
        (false, Reason::Deactivated { workload: "ns/g".into() }, Some("Deactivated")),
        (false, room(1), None),
    ];
    for (unready, why, word) in rows {
        let (mut plan, mut api) = after_a_kill();
        plan.workload(at(60_000), suspended(why));
        plan.stopped(name("g"), Some(Stopped { at: at(50_000), by: None, unready }));
        api.work(&mut plan, at(60_000));
        assert_eq!(held(&api, "Evicted"), word.map(|word| (word.to_owned(), true)));
        let conditions = api.status("g").conditions;
        let requeued = conditions.iter().find(|it| it.type_ == "Requeued");
        let said = requeued.map(|it| (&*it.status, &*it.reason));
        assert_eq!(said, word.map(|word| ("False", word)));
    }
}
