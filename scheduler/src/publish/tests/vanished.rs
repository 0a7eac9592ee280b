//! Objects, and members, that somebody deletes.

use capstan_core::model::input::GangSource;
use capstan_core::plan::State;
use serde_json::json;

use super::{Api, OURS, at, gang, name, pod, ready};
use crate::publish::entry::{Answer, Key, Shown, Write};
use crate::publish::plan::EVERY;
use crate::publish::shown::Compared;
use crate::publish::workload;

#[test]
fn a_workload_that_somebody_deleted_is_made_again() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), gang(State::Running));
    assert_eq!(api.work(&mut plan, at(0)), 2);
    api.objects.remove(&Key::Workload(name("g")));
    plan.workload_vanished(at(5_000), name("g"), "somebody else's");
    plan.workload(at(5_000), gang(State::Running));
    assert_eq!(api.work(&mut plan, at(5_000)), 0, "of another uid");
    plan.workload_vanished(at(6_000), name("g"), "made");
    // The next look finds it.
    plan.workload(at(7_000), gang(State::Running));
    assert_eq!(api.work(&mut plan, at(7_000)), 2);
    assert_eq!(api.status("g").state, "Running");
}

#[test]
fn what_went_with_its_job_is_not_made_again() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), gang(State::Queued));
    api.work(&mut plan, at(0));
    plan.workload_vanished(at(2_000), name("g"), "made");
    let mut orphans = gang(State::Queued);
    (orphans.owner, orphans.source) = (None, GangSource::Job);
    plan.workload(at(3_000), orphans);
    assert_eq!(api.work(&mut plan, at(3_000)), 0);
    plan.gone(at(4_000), &name("g"));
    assert_eq!((api.work(&mut plan, at(60_000)), plan.backlog()), (0, 0), "nor deleted again");
}

#[test]
fn a_queue_that_is_replaced_shows_its_numbers_again() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    let view = super::queue_view();
    api.objects.insert(key.clone(), json!({"status": {}}));
    plan.cluster_queues(at(0), vec![view.clone()]);
    api.work(&mut plan, at(0));
    assert_eq!(api.objects[&key]["status"]["gpus"], "24/16");
    // Another one under the same name, with nothing written on it.
    api.objects.insert(key.clone(), json!({"status": {}}));
    plan.anew(&key);
    plan.cluster_queues(at(1_000), vec![view.clone()]);
    api.work(&mut plan, at(1_000));
    assert_eq!(api.objects[&key]["status"]["gpus"], "24/16");
    // While a request was on its way: its answer is of the one before.
    let busy = capstan_core::explain::view::QueueView { pending: 9, ..view };
    plan.cluster_queues(at(9_000), vec![busy.clone()]);
    let (on_its_way, write) = plan.next(at(9_000)).expect("numbers changed");
    let answer = api.carry_out(&on_its_way, &write);
    assert!(matches!(&answer, Answer::Shows(Shown::ClusterQueue(_))));
    api.objects.insert(key.clone(), json!({"status": {}}));
    plan.anew(&key);
    plan.answered(at(9_500), &on_its_way, answer);
    plan.cluster_queues(at(9_500).plus(EVERY), vec![busy]);
    let reads = |api: &Api| api.writes.iter().filter(|(_, it)| *it == Write::Read).count();
    let before = reads(&api);
    api.work(&mut plan, at(9_500).plus(EVERY));
    assert_eq!(reads(&api), before + 1, "nothing is believed");
    assert_eq!(api.objects[&key]["status"]["pendingWorkloads"], 9);
}

#[test]
fn a_queue_that_was_asked_for_while_it_was_away_is_asked_for_when_it_comes() {
    let (mut plan, mut api) = ready();
    let key = Key::ClusterQueue("q".into());
    let view = super::queue_view();
    plan.cluster_queues(at(0), vec![view.clone()]);
    assert_eq!(api.work(&mut plan, at(0)), 1, "it is not there");
    plan.cluster_queues(at(1_000), vec![view.clone()]);
    assert_eq!(api.work(&mut plan, at(1_000)), 0, "nor asked for soon");
    api.objects.insert(key.clone(), json!({"status": {}}));
    plan.anew(&key);
    plan.cluster_queues(at(2_000), vec![view]);
    assert_eq!(api.work(&mut plan, at(2_000)), 2);
    assert_eq!(api.objects[&key]["status"]["gpus"], "24/16");
}

#[test]
fn members_that_are_lacking_are_counted() {
    let (mut plan, mut api) = ready();
    let mut details = gang(State::Binding);
    (details.members, details.placed) = (2, 2);
    plan.workload(at(0), details);
    api.work(&mut plan, at(0));
    assert_eq!(api.status("g").pods, "2/3", "of three that must run together");
}

#[test]
fn a_bare_gang_goes_with_the_last_of_its_pods() {
    let bare = |pods: &[&str]| {
        let mut details = gang(State::Queued);
        (details.owner, details.source) = (None, GangSource::KueueGroup);
        details.first_pods = pods.iter().map(|name| pod(name)).collect();
        details
    };
    let uids = |pods: &[&str]| pods.iter().map(|name| format!("uid-{name}")).collect::<Vec<_>>();
    let object = workload::object(&bare(&["a", "b", "c"]), OURS);
    let owners = object.metadata.owner_references.expect("its pods");
    let named: Vec<String> = owners.iter().map(|owner| owner.uid.clone()).collect();
    assert_eq!(named, uids(&["a", "b", "c"]));
    assert!(owners.iter().all(|it| it.kind == "Pod" && it.controller.is_none()), "{owners:?}");

    // Whether it is held, who is named, who is there, and whether that is said anew.
    let rows: [(bool, &[&str], &[&str], bool); 9] = [
        (false, &[], &["a"], true),
        (false, &["a"], &["a", "b", "c", "d"], true),
        (false, &["a", "b"], &["b"], false),
        (false, &["a", "b"], &["b", "c"], true),
        (false, &["a", "b", "c"], &["b", "c", "d"], false),
        (true, &["a", "b", "c"], &["b", "c", "d"], true),
        (true, &["a", "b", "c"], &["b", "c"], false),
        (true, &["a", "b", "c"], &["c", "d", "e"], true),
        (true, &["a"], &[], false),
    ];
    for (held, shown, there, anew) in rows {
        let details = bare(there);
        let mut spec = workload::spec(None, &details);
        spec.active = !held;
        let shown = Compared { owners: uids(shown), spec, ..Compared::default() };
        let patch = workload::object_patch(None, &shown, &details, OURS).unwrap_or_default();
        let said = patch["metadata"]["ownerReferences"].as_array();
        let said = said.map(|all| all.iter().map(|it| it["uid"].clone()).collect::<Vec<_>>());
        let want = anew.then(|| uids(there).into_iter().map(|uid| json!(uid)).collect::<Vec<_>>());
        assert_eq!(said, want, "{shown:?}: {there:?}");
        assert!(patch["spec"].is_null(), "who held it meant whoever is in it: {patch}");
    }
}
