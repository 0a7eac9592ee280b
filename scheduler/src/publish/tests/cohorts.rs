//! What Cohorts say.

use capstan_core::explain::reason::Inactive;
use capstan_core::explain::view::CohortView;

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
    assert_eq!((api.work(&mut plan, at(99_000)), plan.backlog()), (0, 0));
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
