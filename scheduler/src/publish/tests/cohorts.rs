//! What Cohorts say, and queues of what they depend on.

use capstan_core::explain::reason::Inactive;
use capstan_core::explain::view::{CohortView, LocalQueueView};
use capstan_core::model::input::Text;

use super::*;

#[test]
fn a_cohort_says_whether_its_quota_counts_and_why_not() {
    let (mut plan, mut api) = ready();
    let key = Key::Cohort("all".into());
    api.objects.insert(key.clone(), json!({ "status": {} }));
    let steps = [
        (None, "True", "Ready"),
        (Some(Inactive::CohortCycle("left".into())), "False", "CohortCycle"),
        (Some(Inactive::CohortBroken("all".into(), "a rule".into())), "False", "CohortInvalid"),
        (None, "True", "Ready"),
    ];
    for (step, (inactive, status, reason)) in steps.into_iter().enumerate() {
        let now = at(step as i64 * 2_000);
        let view = CohortView { name: "all".into(), inactive, share: None };
        plan.cohorts(now, vec![view.clone()]);
        let requests = if step == 0 { 2 } else { 1 };
        assert_eq!(api.work(&mut plan, now), requests, "it is read before it is written");
        let shown = &api.objects[&key]["status"];
        let active = &shown["conditions"][0];
        assert_eq!((&active["type"], &active["status"]), (&json!("Active"), &json!(status)));
        assert_eq!((&active["reason"], &shown["fairSharing"]), (&json!(reason), &json!(null)));
        plan.cohorts(now.plus(EVERY), vec![view]);
        assert_eq!(api.work(&mut plan, now.plus(EVERY)), 0, "nothing changed");
    }
    // One that is gone is let alone; one that comes again is read again.
    plan.cohorts(at(20_000), Vec::new());
    assert_eq!((api.work(&mut plan, at(99_000)), plan.backlog(EVER)), (0, 0));
}

#[test]
fn a_queue_says_that_a_topology_is_not_there() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    api.objects.insert(key.clone(), json!({ "status": {} }));
    let why = Inactive::TopologyMissing { flavor: "spot".into(), topology: "racks".into() };
    let inactive = Some(Reason::Inactive { cluster_queue: "q".into(), why });
    plan.cluster_queues(at(0), vec![QueueView { inactive, ..queue_view() }]);
    api.work(&mut plan, at(0));
    let active = &api.objects[&key]["status"]["conditions"][0];
    assert_eq!(
        (&active["status"], &active["reason"]),
        (&json!("False"), &json!("TopologyNotFound"))
    );
    let said = active["message"].as_str().unwrap_or_default();
    assert!(said.contains("flavor spot: Topology racks") && said.contains("create it"), "{said}");
}

/// Who reads that a LocalQueue is stopped looks for its own stopPolicy.
#[test]
fn a_local_queue_says_whether_it_or_its_cluster_queue_is_inactive() {
    let of_queue = |why| Reason::Inactive { cluster_queue: "q".into(), why };
    let local_queue = || Text::from("ns/local");
    let rows = [
        (None, "Ready"),
        (Some(Reason::LocalQueueStopped { local_queue: local_queue() }), "Stopped"),
        (
            Some(Reason::ClusterQueueMissing { local_queue: local_queue(), name: "q".into() }),
            "ClusterQueueDoesNotExist",
        ),
        (Some(of_queue(Inactive::Stopped)), "ClusterQueueIsInactive"),
        (Some(of_queue(Inactive::FlavorMissing("spot".into()))), "ClusterQueueIsInactive"),
    ];
    for (inactive, reason) in rows {
        let says = inactive.as_ref().map(ToString::to_string);
        let view = LocalQueueView {
            namespace: "ns".into(),
            name: "local".into(),
            cluster_queue: "q".into(),
            inactive,
            pending: 0,
            admitted: 0,
            used: Default::default(),
            consumed: None,
            usage: None,
            per_hour: None,
            unpriced: 0,
        };
        let status = crate::publish::queues::local_queue(&Default::default(), &view, at(0));
        let active = &status.conditions[0];
        assert_eq!((&*active.type_, &*active.reason), ("Active", reason));
        assert_eq!(active.status, if says.is_none() { "True" } else { "False" });
        assert!(says.is_none_or(|says| active.message == says), "{}", active.message);
    }
}

#[test]
fn shares_are_shown_while_fair_sharing_is_on() {
    let (mut plan, mut api) = ready();
    let (queue, cohort) = (Key::ClusterQueue("q".into()), Key::Cohort("all".into()));
    for key in [&queue, &cohort] {
        api.objects.insert(key.clone(), json!({ "status": {} }));
    }
    // One that was shown before is not left there once fair sharing is off.
    let shares = [None, Some(223), Some(i64::MAX), Some(0), None];
    for (step, share) in shares.into_iter().enumerate() {
        let now = at(step as i64 * 5_000);
        plan.cluster_queues(now, vec![QueueView { share, ..queue_view() }]);
        plan.cohorts(now, vec![CohortView { name: "all".into(), inactive: None, share }]);
        api.work(&mut plan, now);
        for key in [&queue, &cohort] {
            let status = &api.objects[key]["status"];
            let shown = &status["fairSharing"]["weightedShare"];
            assert_eq!(*shown, json!(share), "{key:?}, step {step}");
        }
    }
}
