//! The finalizer that keeps a ClusterQueue while work holds quota in it.

use capstan_core::explain::reason::Inactive;

use super::*;
use crate::api::keys::IN_USE;
use crate::publish::in_use::ShownQueue;

/// What a ClusterQueue shows. One of which only a status is given bears our finalizer already.
pub(super) fn shown(mut object: Value) -> ShownQueue {
    if object["metadata"].is_null() {
        object["metadata"] = json!({ "finalizers": [IN_USE] });
    }
    ShownQueue::of(serde_json::from_value(object).expect("an object")).expect("ours")
}

fn key() -> Key {
    Key::ClusterQueue("q".into())
}

/// A queue with these finalizers, of which nothing was written yet.
fn bearing(finalizers: &[&str]) -> Value {
    let meta = json!({"uid": "u", "resourceVersion": "7", "finalizers": finalizers});
    json!({ "metadata": meta, "status": {} })
}

fn terminating(admitted: u32) -> QueueView {
    let why = Inactive::Terminating;
    let inactive = Some(Reason::Inactive { cluster_queue: "q".into(), why });
    QueueView { inactive, admitted, ..queue_view() }
}

/// Patches of the object itself.
fn patches(api: &Api) -> Vec<Value> {
    let of = |write: &Write| match write {
        Write::Object(patch) => Some(patch["metadata"].clone()),
        _ => None,
    };
    api.writes.iter().filter_map(|(_, write)| of(write)).collect()
}

fn reason(api: &Api) -> &Value {
    &api.objects[&key()]["status"]["conditions"][0]["reason"]
}

#[test]
fn a_queue_is_kept_from_its_first_look_on_and_others_finalizers_stay() {
    let (mut plan, mut api) = ready();
    api.objects.insert(key(), bearing(&["a.example/b"]));
    plan.cluster_queues(at(0), vec![queue_view()]);
    assert_eq!(api.work(&mut plan, at(0)), 2, "read, and kept before anything is said");
    let want = json!({"uid": "u", "resourceVersion": "7", "finalizers": ["a.example/b", IN_USE]});
    assert_eq!(patches(&api), [want]);
    assert_eq!(count(&mut plan, What::QueueFinalizer), 1);
    assert_eq!(api.work(&mut plan, at(999)), 0, "one write a second");
    assert_eq!(api.work(&mut plan, at(1_000)), 1);
    assert_eq!(*reason(&api), "Ready");
    // Somebody takes it off by hand: the next answer shows that, and it is put on again.
    api.objects.get_mut(&key()).expect("there")["metadata"]["finalizers"] = json!([]);
    plan.cluster_queues(at(5_000), vec![QueueView { pending: 9, ..queue_view() }]);
    api.work(&mut plan, at(5_000));
    api.work(&mut plan, at(6_000));
    assert_eq!(patches(&api)[1]["finalizers"], json!([IN_USE]));
    plan.cluster_queues(at(9_000), vec![QueueView { pending: 9, ..queue_view() }]);
    assert_eq!((api.work(&mut plan, at(9_000)), patches(&api).len()), (0, 2), "nothing changed");
}

#[test]
fn one_that_is_deleted_says_so_and_goes_once_nobody_holds_quota_in_it() {
    let (mut plan, mut api) = ready();
    api.objects.insert(key(), bearing(&[IN_USE, "a.example/b"]));
    plan.cluster_queues(at(0), vec![queue_view()]);
    api.work(&mut plan, at(0));
    let meta = &mut api.objects.get_mut(&key()).expect("there")["metadata"];
    (meta["deletionTimestamp"], meta["resourceVersion"]) =
        (json!("2026-01-01T00:00:00Z"), json!("9"));
    for second in [5, 10] {
        plan.cluster_queues(at(second * 1_000), vec![terminating(1)]);
        api.work(&mut plan, at(second * 1_000));
        assert_eq!(*reason(&api), "Terminating");
        assert_eq!(patches(&api), [json!(null); 0], "one still holds quota");
    }
    plan.cluster_queues(at(15_000), vec![terminating(0)]);
    api.work(&mut plan, at(15_000));
    let want = json!({"uid": "u", "resourceVersion": "9", "finalizers": ["a.example/b"]});
    assert_eq!(patches(&api), [want]);
    // What else keeps it is not ours; it shows its numbers for as long.
    api.work(&mut plan, at(16_000));
    plan.cluster_queues(at(20_000), vec![terminating(0)]);
    assert_eq!(api.work(&mut plan, at(20_000)), 0);
    assert_eq!(api.objects[&key()]["status"]["admittedWorkloads"], 0);
}

#[test]
fn what_is_known_of_before_its_deletion_is_read_again_and_nothing_is_written_to_who_is_gone() {
    let (mut plan, mut api) = ready();
    api.objects.insert(key(), bearing(&[IN_USE]));
    plan.cluster_queues(at(0), vec![queue_view()]);
    api.work(&mut plan, at(0));
    let reads = |api: &Api| api.writes.iter().filter(|(_, it)| *it == Write::Read).count();
    assert_eq!(reads(&api), 1);
    // The engine heard of the deletion; the object does not show it yet.
    for ms in [5_000, 5_400, 5_800] {
        plan.cluster_queues(at(ms), vec![terminating(0)]);
        api.work(&mut plan, at(ms));
    }
    assert_eq!((reads(&api), patches(&api).len()), (2, 0), "it is asked for once a second");
    api.objects.get_mut(&key()).expect("there")["metadata"]["deletionTimestamp"] =
        json!("2026-01-01T00:00:00Z");
    plan.cluster_queues(at(6_500), vec![terminating(0)]);
    api.work(&mut plan, at(6_500));
    assert_eq!((reads(&api), patches(&api).len()), (3, 1), "released at once");
    let before = api.writes.len();
    plan.cluster_queues(at(9_000), vec![terminating(0)]);
    assert_eq!((api.work(&mut plan, at(9_000)), api.writes.len()), (0, before));
}

#[test]
fn one_whose_status_cannot_be_read_goes_all_the_same() {
    let (mut plan, mut api) = ready();
    let mut object = bearing(&[IN_USE]);
    object["status"] = json!({ "pendingWorkloads": "many" });
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.objects.insert(key(), object);
    plan.cluster_queues(at(0), vec![terminating(0)]);
    api.work(&mut plan, at(0));
    let want = json!({"uid": "u", "resourceVersion": "7", "finalizers": []});
    assert_eq!(patches(&api), [want]);
}

#[test]
fn one_that_is_being_deleted_is_given_no_finalizer() {
    let (mut plan, mut api) = ready();
    let mut object = bearing(&["a.example/b"]);
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.objects.insert(key(), object);
    // The engine has not heard of it yet, and then has.
    for (second, view) in [(0, queue_view()), (5, terminating(2)), (10, terminating(0))] {
        plan.cluster_queues(at(second * 1_000), vec![view]);
        api.work(&mut plan, at(second * 1_000));
    }
    assert_eq!(patches(&api), [json!(null); 0]);
    assert_eq!(*reason(&api), "Terminating");
}

#[test]
fn a_finalizer_that_is_refused_keeps_no_status_back() {
    let (mut plan, mut api) = ready();
    api.objects.insert(key(), bearing(&[]));
    plan.cluster_queues(at(0), vec![queue_view()]);
    let mut refused = 0;
    for second in 0..20 {
        let now = at(second * 1_000);
        while let Some((key, write)) = plan.next(now) {
            let answer = match write {
                Write::Object(_) => Answer::Failed,
                _ => api.carry_out(&key, &write),
            };
            refused += u32::from(answer == Answer::Failed);
            plan.answered(now, &key, answer);
        }
    }
    assert_eq!(*reason(&api), "Ready");
    assert!((3..=6).contains(&refused), "ever less often: {refused}");
}
