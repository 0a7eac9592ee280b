//! Of which version of an object its conditions say that they are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::{at, gang, name, queue_view, ready, room, waits};
use crate::publish::entry::Key;

fn seen(conditions: &[Condition]) -> Vec<Option<i64>> {
    conditions.iter().map(|it| it.observed_generation).collect()
}

#[test]
fn conditions_of_a_queue_are_of_the_version_that_was_read() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    api.objects.insert(key.clone(), json!({"status": {}}));
    let conditions = |api: &super::Api| -> Vec<Condition> {
        serde_json::from_value(api.objects[&key]["status"]["conditions"].clone()).expect("some")
    };
    plan.cluster_queues(at(0), vec![queue_view()]);
    plan.observed(&key, 3);
    api.work(&mut plan, at(0));
    let first = conditions(&api);
    assert_eq!(seen(&first), [Some(3)]);
    // Its spec is edited, and nothing else comes of that.
    plan.cluster_queues(at(5_000), vec![queue_view()]);
    plan.observed(&key, 4);
    assert_eq!(api.work(&mut plan, at(5_000)), 1);
    let second = conditions(&api);
    assert_eq!(seen(&second), [Some(4)]);
    assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
    plan.cluster_queues(at(9_000), vec![queue_view()]);
    assert_eq!(api.work(&mut plan, at(9_000)), 0);
    // Another one under its name has versions of its own.
    api.objects.insert(key.clone(), json!({"status": {}}));
    plan.anew(&key);
    plan.cluster_queues(at(10_000), vec![queue_view()]);
    api.work(&mut plan, at(10_000));
    assert_eq!(seen(&conditions(&api)), [None]);
}

#[test]
fn conditions_of_a_workload_are_of_the_version_that_is_shown() {
    let (mut plan, mut api) = ready();
    let key = Key::Workload(name("g"));
    let waiting = || waits(gang(capstan_core::plan::State::Queued), room(1), &[]);
    plan.workload(at(0), waiting());
    api.work(&mut plan, at(0));
    let count = api.status("g").conditions.len();
    for generation in [1, 2] {
        let now = at(generation * 2_000);
        api.objects.get_mut(&key).expect("made")["metadata"]["generation"] = json!(generation);
        plan.listed(now, [api.listed("g")]);
        plan.workload(now, waiting());
        assert_eq!(api.work(&mut plan, now), 1);
        assert_eq!(seen(&api.status("g").conditions), vec![Some(generation); count]);
    }
}
