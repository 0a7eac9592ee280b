//! What no API server takes of a Workload: it is left out, and keeps nothing else back.

use super::*;
use crate::api::keys;

/// A gang that names this queue.
fn queued(queue: &str) -> WorkloadDetails {
    let name: capstan_core::model::input::Text = queue.into();
    let why = Reason::LocalQueueMissing { namespace: "ns".into(), name: name.clone() };
    let mut details = waits(gang(State::Queued), why, &[]);
    details.view.local_queue = Some(name);
    details
}

#[test]
fn names_that_no_object_can_have_are_in_no_spec_and_the_status_says_them() {
    let (long, longest) = ("q".repeat(70), "q".repeat(254));
    let rows = [
        ("gpus", "gpus", Some("gpus")),
        ("gpus.of-all", "gpus.of-all", Some("gpus.of-all")),
        // An object may have it, and a label may not.
        (&*long, &*long, None),
        ("GPUs_A", "", None),
        ("a b", "", None),
        ("-a", "", None),
        (&*longest, "", None),
    ];
    for (name, spec, label) in rows {
        let (mut plan, mut api) = ready();
        let mut details = queued(name);
        details.priority_class = Some(name.into());
        plan.workload(at(0), details);
        assert_eq!(api.work(&mut plan, at(0)), 2, "{name}: it is made and says why it waits");
        let object = api.workload("g");
        assert_eq!(object.spec.queue_name, spec);
        let class = object.spec.priority_class_ref.map(|class| class.name).unwrap_or_default();
        assert_eq!(class, spec, "a class is named as a queue is");
        let labels = object.metadata.labels.unwrap_or_default();
        assert_eq!(labels.get(keys::QUEUE).map(String::as_str), label, "{name}");
        let reason = api.status("g").reason;
        let begin = format!("LocalQueue ns/{}", &name[..name.len().min(60)]);
        assert!(reason.starts_with(&begin), "{reason}");
        // Compared with what the API shows, nothing is missing.
        plan.workload(at(9_000), queued(name));
        assert_eq!((api.work(&mut plan, at(9_000)), plan.backlog(EVER)), (0, 0), "{name}");
    }
}

#[test]
fn who_is_given_a_name_that_is_none_loses_the_one_before() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), queued("gpus"));
    api.work(&mut plan, at(0));
    plan.workload(at(5_000), queued("GPUs_A"));
    api.work(&mut plan, at(5_000));
    api.work(&mut plan, at(6_000));
    let object = api.workload("g");
    let left = [(keys::SCHEDULER_NAME.to_owned(), OURS.to_owned())].into();
    assert_eq!((object.spec.queue_name.as_str(), object.metadata.labels), ("", Some(left)));
    assert_eq!(api.status("g").reason, "LocalQueue ns/GPUs_A does not exist");
}

#[test]
fn pod_sets_without_a_name_that_fits_are_not_listed() {
    let mut details = gang(State::Queued);
    let mut odd = details.view.pod_sets[0].clone();
    odd.name = "r".repeat(254).into();
    details.view.pod_sets.push(odd);
    let sets = workload::spec(None, &details).pod_sets;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].name, &*details.view.pod_sets[0].name);
}

/// Answers what may go now; the object itself is never patched. What was asked, in order.
fn work(plan: &mut Plan, api: &mut Api, now: Time) -> Vec<&'static str> {
    let mut asked = Vec::new();
    while let Some((key, write)) = plan.next(now) {
        let answer = match &write {
            Write::Object(_) => {
                asked.push("object");
                Answer::Failed
            }
            _ => {
                asked.push("status");
                api.carry_out(&key, &write)
            }
        };
        plan.answered(now, &key, answer);
    }
    asked
}

#[test]
fn an_object_that_cannot_be_patched_keeps_no_status_back() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), queued("gpus"));
    api.work(&mut plan, at(0));
    let mut other = gang(State::Running);
    (other.view.priority, other.placed) = (other.view.priority + 1, 3);
    plan.workload(at(10_000), other.clone());
    assert_eq!(work(&mut plan, &mut api, at(10_000)), ["object"]);
    assert_eq!(api.status("g").state, "Queued", "once a second");
    // Both are due: it is the turn of the status.
    assert_eq!(work(&mut plan, &mut api, at(11_000)), ["status"]);
    assert_eq!(api.status("g").state, "Running");
    assert_eq!(work(&mut plan, &mut api, at(12_000)), ["object"]);
    // With longer and longer pauses, whatever else is written.
    let mut tries = Vec::new();
    for second in 13..300 {
        other.ready = second;
        (other.started, other.up) = (true, second % 2 == 0);
        plan.workload(at(i64::from(second) * 1_000), other.clone());
        let asked = work(&mut plan, &mut api, at(i64::from(second) * 1_000));
        if asked.contains(&"object") {
            tries.push(second);
        }
        let shown = holds(&api.status("g").conditions, "PodsReady").is_some();
        assert!(asked.contains(&"object") || shown == other.up, "at {second}: {asked:?}");
    }
    let pauses: Vec<u32> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [4, 8, 16, 32, 60, 60, 60]);
    // Nobody refuses it any more.
    while plan.backlog(EVER) > 0 {
        let now = plan.wake().expect("it is tried again");
        api.work(&mut plan, now);
    }
    assert_eq!(api.workload("g").spec.priority, other.view.priority);
}
