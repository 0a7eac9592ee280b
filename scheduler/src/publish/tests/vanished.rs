//! Objects, and members, that somebody deletes.

use std::collections::BTreeSet;

use capstan_core::explain::reason::Reason;
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::GangSource;
use capstan_core::plan::{Preemption, PreemptionReason, State};
use serde_json::{Value, json};

use super::{Api, EVER, OURS, at, gang, name, pod, ready};
use crate::publish::entry::{Answer, Key, Shown, Write};
use crate::publish::plan::EVERY;
use crate::publish::shown::Compared;
use crate::publish::workload;
use crate::render::fixture;

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
    assert_eq!((api.work(&mut plan, at(60_000)), plan.backlog(EVER)), (0, 0), "nor deleted again");
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

/// A gang without an owner, of these pods.
fn bare(pods: &[&str]) -> WorkloadDetails {
    let mut details = gang(State::Queued);
    (details.owner, details.source) = (None, GangSource::KueueGroup);
    details.group = Some("g".into());
    details.first_pods = pods.iter().map(|name| pod(name)).collect();
    details
}

fn uids(pods: &[&str]) -> Vec<String> {
    pods.iter().map(|name| format!("uid-{name}")).collect()
}

/// Who an object that names these pods, active or not, is to name instead.
fn named_anew(active: bool, shown: &[&str], details: &WorkloadDetails) -> Option<Vec<String>> {
    let mut spec = workload::spec(None, details);
    spec.active = active;
    let shown = Compared { owners: uids(shown), spec, ..Compared::default() };
    let patch = workload::object_patch(None, &shown, details, OURS).unwrap_or_default();
    assert!(patch["spec"].is_null(), "who held it meant whoever is in it: {patch}");
    let said = patch["metadata"].get("ownerReferences")?;
    let uid = |owner: &Value| owner["uid"].as_str().expect("a uid").to_owned();
    Some(said.as_array().into_iter().flatten().map(uid).collect())
}

#[test]
fn a_bare_gang_goes_with_the_last_of_its_pods_and_what_holds_it_with_nobody() {
    let object = workload::object(&bare(&["a", "b", "c"]), OURS);
    let owners = object.metadata.owner_references.expect("its pods");
    let named: Vec<String> = owners.iter().map(|owner| owner.uid.clone()).collect();
    assert_eq!(named, uids(&["a", "b", "c"]));
    assert!(owners.iter().all(|it| it.kind == "Pod" && it.controller.is_none()), "{owners:?}");

    // Whether it is active, who is named, who is there, and who is named anew.
    type Row<'a> = (bool, &'a [&'a str], &'a [&'a str], Option<&'a [&'a str]>);
    let rows: [Row<'_>; 9] = [
        (true, &[], &["a"], Some(&["a"])),
        (true, &["a"], &["a", "b", "c", "d"], Some(&["a", "b", "c", "d"])),
        (true, &["a", "b"], &["b"], None),
        (true, &["a", "b"], &["b", "c"], Some(&["b", "c"])),
        (true, &["a", "b", "c"], &["b", "c", "d"], None),
        (false, &["a", "b", "c"], &["a", "b", "c"], Some(&[])),
        (false, &["a", "b", "c"], &["c", "d", "e"], Some(&[])),
        (false, &["a"], &[], Some(&[])),
        (false, &[], &["c", "d", "e"], None),
    ];
    for (active, shown, there, want) in rows {
        let said = named_anew(active, shown, &bare(there));
        assert_eq!(said, want.map(uids), "{active} {shown:?}: {there:?}");
    }
    // A pod of its own that is made anew is not the one that was held.
    let mut alone = bare(&["b"]);
    (alone.lone, alone.group, alone.source) = (true, None, GangSource::Pod);
    assert_eq!(named_anew(false, &["a"], &alone), Some(uids(&["b"])));
}

#[test]
fn what_holds_a_bare_gang_goes_with_nobody_before_its_pods_are_stopped() {
    let mut waits = bare(&["a", "b"]);
    waits.view.reason = Some(Reason::Deactivated { workload: "ns/g".into() });
    assert_eq!(named_anew(true, &["a", "b"], &waits), Some(Vec::new()));
    let stopped = |reason| {
        let mut stopped = bare(&["a", "b"]);
        stopped.view.state = State::Evicting;
        stopped.view.preempted = Some(Preemption { reason, ..fixture::preemption() });
        named_anew(true, &["a", "b"], &stopped)
    };
    assert_eq!(stopped(PreemptionReason::Deactivated), Some(Vec::new()));
    assert_eq!(stopped(PreemptionReason::Priority), None);
}

/// Whatever is told of it: while it is stopped for others, or gathers, no reason says so.
#[test]
fn what_holds_a_bare_gang_goes_with_nobody_whatever_state_that_is_in() {
    for state in [State::Gathering, State::Running, State::Evicting] {
        let mut of = bare(&["a", "b"]);
        of.view.state = state;
        assert_eq!(named_anew(true, &["a", "b"], &of), None, "{state:?}");
        assert!(!workload::lets_go(&of));
        of.held = true;
        assert_eq!(named_anew(true, &["a", "b"], &of), Some(Vec::new()), "{state:?}");
        assert_eq!(workload::lets_go(&of), state == State::Evicting);
        // One of an owner, or a pod of its own, goes with that.
        of.group = None;
        assert_eq!(named_anew(true, &["a", "b"], &of), None, "{state:?}");
        assert!(!workload::lets_go(&of));
    }
}

#[test]
fn a_bare_gang_whose_pods_all_vanish_together_stays_held() {
    let (mut plan, mut api) = ready();
    let key = Key::Workload(name("g"));
    plan.workload(at(0), bare(&["a", "b"]));
    api.work(&mut plan, at(0));
    let owners = |api: &Api| api.workload("g").metadata.owner_references.unwrap_or_default().len();
    assert_eq!(owners(&api), 2);
    api.objects.get_mut(&key).expect("it was made")["spec"]["active"] = json!(false);
    let held = |pods: &[&str]| {
        let mut held = bare(pods);
        held.view.reason = Some(Reason::Deactivated { workload: "ns/g".into() });
        held
    };
    plan.workload(at(2_000), held(&["a", "b"]));
    api.work(&mut plan, at(2_000));
    assert_eq!(owners(&api), 0, "it goes with nobody");
    plan.gone(at(4_000), &name("g"));
    assert_eq!(api.work(&mut plan, at(5_000)), 0);
    plan.standing(at(5_500), BTreeSet::new());
    assert_eq!(api.work(&mut plan, at(5_500)), 0, "nor because all names are compared now");
    plan.workload(at(6_000), held(&["c", "d"]));
    api.work(&mut plan, at(20_000));
    assert!(!api.workload("g").spec.active && owners(&api) == 0);
    // Without a hold it goes with those that are there; without work it goes.
    api.objects.get_mut(&key).expect("it is there")["spec"]["active"] = json!(true);
    plan.listed(at(30_000), [api.listed("g")]);
    plan.workload(at(30_000), bare(&["c", "d"]));
    api.work(&mut plan, at(30_000));
    assert_eq!(owners(&api), 2);
    plan.gone(at(40_000), &name("g"));
    api.work(&mut plan, at(50_000));
    assert!(api.objects.is_empty());
}
