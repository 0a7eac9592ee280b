//! Queue objects that come, go, and are on their way out.

use capstan_core::model::input::ClusterQueueFacts;

use super::*;

#[test]
fn queue_objects_that_come_or_go_are_told_even_if_they_are_back_at_once() {
    let mut live = synced(&Config::default());
    let bare = || queueing(Queueing::ClusterQueue, Origin::Capstan, "q", json!({}));
    let queue = || {
        let mut object = bare();
        if let Object::Queueing(.., value) = &mut object {
            value["metadata"]["finalizers"] = json!(["capstan.sh/in-use"]);
        }
        object
    };
    let told = (Kind::Queueing(Queueing::ClusterQueue, Group::Capstan), ("".into(), "q".into()));
    live.take(Seen::Applied(queue()));
    assert_eq!(live.drain(NOW).queues_anew, std::slice::from_ref(&told));
    live.take(Seen::Applied(queue()));
    assert!(live.drain(NOW).queues_anew.is_empty(), "it is the same");
    live.take(Seen::Deleted(queue()));
    live.take(Seen::Applied(queue()));
    assert_eq!(live.drain(NOW).queues_anew, [told.clone(), told.clone()], "it went, and came");
    // Somebody replaced it by a manifest that does not name what keeps it: it is put back.
    live.take(Seen::Applied(bare()));
    assert_eq!(live.drain(NOW).queues_anew, [told]);
}

#[test]
fn the_version_of_a_queue_object_is_that_which_was_read_last() {
    let mut live = synced(&Config::default());
    let of = |generation: i64, spec: Value| {
        let mut object = queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec);
        if let Object::Queueing(.., value) = &mut object {
            value["metadata"]["generation"] = json!(generation);
        }
        object
    };
    let unreadable = json!({"cohortName": 7});
    for (generation, spec, want) in [(1, json!({}), 1), (2, json!({}), 2), (3, unreadable, 2)] {
        live.take(Seen::Applied(of(generation, spec)));
        let all: Vec<i64> = live.generations().map(|(.., generation)| generation).collect();
        assert_eq!(all, [want]);
    }
    live.take(Seen::Deleted(of(3, json!({}))));
    assert_eq!(live.generations().count(), 0);
}

/// Kueue counts its own work, and we ours: what it writes later does not replace what we know.
#[test]
fn what_kueues_local_queues_used_is_read_once() {
    let apis = [(QuotaApi::Capstan, Origin::Capstan), (QuotaApi::Kueue, Origin::KueueV1Beta2)];
    for (api, origin) in apis {
        let mut live = synced(&Config { quota_apis: vec![api], ..Config::default() });
        let of = |minute: u32| {
            let spec = json!({ "clusterQueue": "q" });
            let mut object = queueing(Queueing::LocalQueue, origin, "l", spec);
            if let Object::Queueing(.., value) = &mut object {
                let used = json!({ "consumedResources": { "cpu": minute },
                    "lastUpdate": format!("2026-01-01T00:{minute:02}:00Z") });
                value["status"] = json!({ "fairSharing":
                    { "weightedShare": 0, "admissionFairSharingStatus": used } });
            }
            object
        };
        let mut used = |object: Object| {
            live.take(Seen::Applied(object));
            let told = told(&mut live);
            told.iter().filter(|input| matches!(input, Input::LocalQueueUsed(_))).count()
        };
        let again = usize::from(origin == Origin::Capstan);
        assert_eq!([used(of(10)), used(of(15)), used(of(15))], [1, again, 0], "{origin:?}");
        // One of that name that is made anew is another.
        live.take(Seen::Deleted(of(15)));
        live.take(Seen::Applied(of(20)));
        let inputs = told(&mut live);
        let used = inputs.iter().filter(|input| matches!(input, Input::LocalQueueUsed(_)));
        assert_eq!(used.count(), 1, "{origin:?}: {inputs:?}");
    }
}

/// A ClusterQueue that somebody deletes and that something keeps there.
fn terminating(origin: Origin, spec: Value) -> Object {
    let Object::Queueing(kind, origin, mut value) =
        queueing(Queueing::ClusterQueue, origin, "q", spec)
    else {
        unreachable!("it is one");
    };
    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:05Z");
    Object::Queueing(kind, origin, value)
}

fn the_queue(live: &mut Live) -> ClusterQueueFacts {
    let inputs = told(live);
    let [Input::ClusterQueue(queue)] = &inputs[..] else { panic!("{inputs:?}") };
    queue.clone()
}

#[test]
fn a_cluster_queue_of_either_group_is_told_as_being_deleted_until_it_is_gone() {
    let apis = [(QuotaApi::Capstan, Origin::Capstan), (QuotaApi::Kueue, Origin::KueueV1Beta2)];
    for (api, origin) in apis {
        let mut live = synced(&Config { quota_apis: vec![api], ..Config::default() });
        live.take(Seen::Applied(queueing(Queueing::ClusterQueue, origin, "q", json!({}))));
        assert_eq!(the_queue(&mut live).deleted, None);
        let ends = || terminating(origin, json!({}));
        live.take(Seen::Applied(ends()));
        let queue = the_queue(&mut live);
        assert_eq!(queue.deleted, Some(Time(1_767_225_605_000)));
        assert!(queue.broken.is_empty(), "that breaks no rule");
        live.take(Seen::Deleted(ends()));
        assert_eq!(told(&mut live), [Input::ClusterQueueGone("q".into())]);
    }
}

fn unread(live: &Live) -> Vec<String> {
    live.unread_queues().map(ToString::to_string).collect()
}

/// The engine never hears of one that is being deleted when it is first seen, and may bear our
/// finalizer since it could be read.
#[test]
fn one_that_never_could_be_read_is_known_once_it_is_being_deleted() {
    let mut live = synced(&Config::default());
    let bad = || json!({ "cohortName": 7 });
    let applied = |spec| queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec);
    live.take(Seen::Applied(applied(bad())));
    assert_eq!(unread(&live), [""; 0], "nobody deletes it");
    live.take(Seen::Applied(terminating(Origin::Capstan, bad())));
    assert_eq!(unread(&live), [""; 0], "the engine knows it as inactive");
    assert!(the_queue(&mut live).deleted.is_some());
    live.take(Seen::Deleted(terminating(Origin::Capstan, bad())));
    told(&mut live);
    live.take(Seen::Applied(terminating(Origin::Capstan, bad())));
    assert_eq!(unread(&live), ["q"]);
    live.take(Seen::Applied(terminating(Origin::KueueV1Beta2, bad())));
    assert_eq!(unread(&live), ["q"], "Kueue's are given no finalizer of ours");
    assert!(!told(&mut live).iter().any(|input| matches!(input, Input::ClusterQueue(_))));
    // Somebody puts it right while it is on its way out: it is told as any other.
    live.take(Seen::Applied(terminating(Origin::Capstan, json!({}))));
    assert_eq!(unread(&live), [""; 0]);
    assert!(the_queue(&mut live).deleted.is_some());

    let mut live = synced(&Config::default());
    live.take(Seen::Applied(terminating(Origin::Capstan, bad())));
    live.take(Seen::Deleted(terminating(Origin::Capstan, bad())));
    assert_eq!(unread(&live), [""; 0], "it is gone");
}

#[test]
fn one_that_cannot_be_read_any_more_is_being_deleted_all_the_same() {
    let mut live = synced(&Config::default());
    let spec = json!({ "cohortName": "c" });
    live.take(Seen::Applied(queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec)));
    told(&mut live);
    live.take(Seen::Applied(terminating(Origin::Capstan, json!({ "cohortName": 7 }))));
    let queue = the_queue(&mut live);
    assert_eq!((queue.cohort.as_deref(), queue.deleted.is_some()), (Some("c"), true));
}

#[test]
fn work_is_held_by_workloads_of_ours_and_of_nobody() {
    for (whose, held) in [(None, true), (Some("capstan"), true), (Some("capstan-dev"), false)] {
        let mut live = synced(&Config::default());
        let hold = json!({"active": false});
        let mut object = queueing(Queueing::Workload, Origin::Capstan, "g", hold);
        if let (Object::Queueing(.., value), Some(whose)) = (&mut object, whose) {
            value["metadata"]["labels"] = json!({"capstan.sh/scheduler-name": whose});
        }
        live.take(Seen::Applied(object.clone()));
        let is_hold = |input: &Input| matches!(input, Input::Deactivated(it) if &*it.name == "g");
        assert_eq!(told(&mut live).iter().any(is_hold), held, "{whose:?}");
        // That somebody takes it over and holds it on changes nothing.
        if let Object::Queueing(.., value) = &mut object {
            value["metadata"]["labels"] = json!({"capstan.sh/scheduler-name": "capstan"});
        }
        live.take(Seen::Applied(object));
        let changed = told(&mut live);
        assert_eq!(changed.iter().any(is_hold), !held, "{whose:?}: {changed:?}");
        let freed = |input: &Input| matches!(input, Input::Reactivated(..));
        assert!(!changed.iter().any(freed), "{changed:?}");
    }
}

/// A newer version of the API may say what we cannot read: such a queue is there, and inactive for
/// that; what could be read once holds.
#[test]
fn a_queue_of_which_some_could_never_be_read_is_inactive() {
    let mut live = synced(&Config::default());
    let good = json!({"cohortName": "c", "stopPolicy": "None"});
    let odd = json!({"cohortName": "c", "stopPolicy": "Bogus"});
    let mut seen = |spec: &Value| -> Option<ClusterQueueFacts> {
        let spec = spec.clone();
        live.take(Seen::Applied(queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec)));
        let mut queues = told(&mut live).into_iter().filter_map(|input| match input {
            Input::ClusterQueue(queue) => Some(queue),
            _ => None,
        });
        queues.next()
    };
    let queue = seen(&odd).expect("it is told");
    assert!(queue.cohort.is_none() && queue.broken.len() == 1, "{queue:?}");
    assert!(queue.broken[0].starts_with("spec.stopPolicy: "), "{:?}", queue.broken);
    let worse = json!({"cohortName": 7, "stopPolicy": "Bogus"});
    assert_eq!(seen(&worse).map(|queue| queue.broken.len()), Some(2));
    let queue = seen(&good).expect("it is told");
    assert!(queue.cohort.is_some() && queue.broken.is_empty(), "{queue:?}");
    assert_eq!(seen(&odd), None);
}

/// Two of one name are none: who deletes ours leaves all to Kueue's, and nothing is kept for ours.
#[test]
fn a_twin_that_is_deleted_leaves_its_name_to_the_other() {
    let quota_apis = vec![QuotaApi::Capstan, QuotaApi::Kueue];
    let mut live = synced(&Config { quota_apis, ..Config::default() });
    for origin in [Origin::KueueV1Beta2, Origin::Capstan] {
        live.take(Seen::Applied(queueing(Queueing::ClusterQueue, origin, "q", json!({}))));
    }
    assert!(!the_queue(&mut live).broken.is_empty(), "which of them is meant?");
    let replaced =
        |live: &Live| -> Vec<String> { live.replaced_queues().map(ToString::to_string).collect() };
    assert_eq!(replaced(&live), [""; 0]);
    live.take(Seen::Applied(terminating(Origin::Capstan, json!({}))));
    let queue = the_queue(&mut live);
    assert!(queue.broken.is_empty() && queue.deleted.is_none(), "{queue:?}");
    assert_eq!(replaced(&live), ["q"]);
    live.take(Seen::Applied(terminating(Origin::KueueV1Beta2, json!({}))));
    assert!(the_queue(&mut live).deleted.is_some(), "both go");
    assert_eq!(replaced(&live), [""; 0]);
}
