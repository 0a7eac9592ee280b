//! What PodGroups are told, and when.

use capstan_core::explain::reason::{NodeShortage, Reason};
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::GangSource;
use capstan_core::plan::State;
use serde_json::{Value, json};

use super::{Api, EVER, at, gang, name, ready, waits};
use crate::config::Config;
use crate::gangs::kinds::Kind;
use crate::live::{self, Live, Object, Seen};
use crate::publish::entry::{Key, Write};
use crate::publish::groups::{Ends, GroupKey, of_workload, opened};
use crate::publish::plan::{EVERY, Plan, WORDS_EVERY};

const KINDS: [(Kind, GangSource); 3] = [
    (Kind::UpstreamGroup, GangSource::SchedulingGroup),
    (Kind::PluginsGroup, GangSource::PodGroup),
    (Kind::VolcanoGroup, GangSource::VolcanoGroup),
];

/// A group of three as the API shows it.
fn group(kind: Kind, status: Value) -> Value {
    let spec = match kind {
        Kind::UpstreamGroup => json!({ "schedulingPolicy": { "gang": { "minCount": 3 } } }),
        _ => json!({ "minMember": 3 }),
    };
    json!({
        "apiVersion": kind.row().api_version(),
        "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "generation": 2 },
        "spec": spec,
        "status": status,
    })
}

/// A plan, an API with a group, and the cluster that was read from it.
struct Scene {
    plan: Plan,
    api: Api,
    live: Live,
    source: GangSource,
    key: GroupKey,
}

impl Scene {
    fn of(at: usize, status: Value) -> Scene {
        let (kind, source) = KINDS[at];
        Scene::seen(kind, source, group(kind, status))
    }

    fn seen(kind: Kind, source: GangSource, group: Value) -> Scene {
        let mut live = Live::new(&Config::default());
        live.take(Seen::Applied(Object::Gang(kind, Box::new(group.clone()))));
        let (plan, mut api) = ready();
        let draft = live.group(kind, &"ns".into(), &"g".into()).expect("it was seen");
        let key = opened(draft).0;
        api.objects.insert(Key::Group(key.clone()), group);
        Scene { plan, api, live, source, key }
    }

    /// Tells of the gang, and carries out what is due then; the status of the group.
    fn told(&mut self, ms: i64, details: WorkloadDetails) -> Value {
        let details = WorkloadDetails { source: self.source, group: Some("g".into()), ..details };
        if let Some(group) = of_workload(&details, &self.live) {
            self.plan.group(at(ms), Some(name("g")), group);
        }
        self.work(ms)
    }

    fn work(&mut self, ms: i64) -> Value {
        self.api.work(&mut self.plan, at(ms));
        self.api.objects[&Key::Group(self.key.clone())]["status"].clone()
    }

    fn requests(&self) -> usize {
        self.api.writes.len()
    }

    /// A member of the group, by its number.
    fn member(&self, at: usize, phase: &str) -> Object {
        let name = format!("p-{at}");
        let mut pod = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name },
            "spec": { "schedulerName": "capstan", "containers": [{}] },
            "status": { "phase": phase } });
        match self.key.kind {
            Kind::VolcanoGroup => {
                pod["metadata"]["annotations"] = json!({ "scheduling.k8s.io/group-name": "g" });
            }
            _ => {
                pod["metadata"]["labels"] = json!({ "scheduling.x-k8s.io/pod-group": "g" });
            }
        }
        Object::Pod(serde_json::from_value(pod).expect("a pod"))
    }

    /// Members of the group are seen to have ended so.
    fn ended(&mut self, phases: &[&str]) {
        for (at, phase) in phases.iter().enumerate() {
            let pod = self.member(at, phase);
            self.live.take(Seen::Applied(pod));
        }
    }
}

fn gathers() -> WorkloadDetails {
    let mut details = waits(gang(State::Gathering), Reason::Gathering { have: 1, need: 3 }, &[]);
    details.view.state = State::Gathering;
    details
}

/// It waits for room on one of so many nodes.
fn waits_for_room(nodes: u32) -> WorkloadDetails {
    let room = Reason::Nodes(Box::new(NodeShortage {
        nodes,
        asked: 3,
        holds: 0,
        refusals: Vec::new(),
        nearest: None,
        unwanted: None,
        gone: 0,
        ended: None,
    }));
    waits(gang(State::Queued), room, &[])
}

fn runs(running: u32) -> WorkloadDetails {
    let started = running == 3;
    WorkloadDetails { placed: 3, running, started, ..gang(State::Running) }
}

fn condition<'a>(status: &'a Value, of: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|it| it["type"] == of)
}

#[test]
fn kubernetes_groups_are_told_why_they_wait_and_once_that_they_have_nodes() {
    let mut scene = Scene::of(0, json!({}));
    assert_eq!(scene.told(0, gathers()), json!({}), "nothing was decided");
    let status = scene.told(1_000, waits_for_room(1));
    let of = "PodGroupInitiallyScheduled";
    let waits = condition(&status, of).expect("it was told").clone();
    assert_eq!((&waits["status"], &waits["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(waits["observedGeneration"], 2);
    assert!(waits["message"].as_str().is_some_and(|it| it.contains("0/1 nodes")), "{waits}");
    let status = scene.told(9_000, runs(0));
    let has = condition(&status, of).expect("it was told").clone();
    assert_eq!((&has["status"], &has["reason"]), (&json!("True"), &json!("Scheduled")));
    assert_ne!(has["lastTransitionTime"], waits["lastTransitionTime"]);
    // It is of the first success only.
    let before = scene.requests();
    assert_eq!(condition(&scene.told(19_000, waits_for_room(1)), of), Some(&has));
    scene.plan.gone(at(29_000), &name("g"));
    scene.work(60_000);
    assert_eq!(scene.requests(), before);
}

/// More nodes would not help it.
#[test]
fn kubernetes_groups_that_wait_for_quota_are_not_told_that_nodes_lack_room() {
    let mut scene = Scene::of(0, json!({}));
    let why = Reason::HeldBack {
        head: "ns/first".into(),
        queue: "q".into(),
        flavor: "f".into(),
        resource: "cpu".into(),
        asked: 2,
        left: 1,
        kept: 3,
    };
    let status = scene.told(1_000, waits(gang(State::Queued), why, &[]));
    let told = condition(&status, "PodGroupInitiallyScheduled").expect("it was told");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("WaitingForQuota")));
}

#[test]
fn the_condition_has_the_name_of_its_version() {
    for (version, of) in [
        ("v1alpha2", "PodGroupScheduled"),
        ("v1alpha3", "PodGroupInitiallyScheduled"),
        ("v1beta1", "PodGroupInitiallyScheduled"),
    ] {
        let (kind, source) = KINDS[0];
        let mut group = group(kind, json!({}));
        group["apiVersion"] = format!("scheduling.k8s.io/{version}").into();
        let mut scene = Scene::seen(kind, source, group);
        assert_eq!(&*scene.key.version, version);
        let status = scene.told(0, runs(3));
        assert_eq!(
            condition(&status, of).map(|it| &it["status"]),
            Some(&json!("True")),
            "{status}"
        );
    }
}

#[test]
fn what_its_author_has_to_change_is_an_error() {
    let mut scene = Scene::of(0, json!({}));
    let level = || Reason::UnknownLevel { level: "row".into(), is_level: false, known: vec![] };
    let status = scene.told(0, waits(gang(State::Queued), level(), &[]));
    let told = condition(&status, "PodGroupInitiallyScheduled").expect("it was told");
    assert_eq!(told["reason"], "SchedulerError");
    // Of members of others somebody else tells.
    let mut scene = Scene::of(0, json!({}));
    let foreign = waits(gang(State::Queued), Reason::ForeignMembers { pods: 1 }, &[]);
    assert_eq!((scene.told(0, foreign), scene.requests()), (json!({}), 0));
}

#[test]
fn groups_of_scheduler_plugins_go_through_their_phases() {
    let mut scene = Scene::of(1, json!({ "occupiedBy": "ns/first" }));
    let status = scene.told(0, gathers());
    assert_eq!(status, json!({ "occupiedBy": "ns/first", "phase": "Pending" }));
    let status = scene.told(2_000, waits_for_room(1));
    assert!(status["scheduleStartTime"].is_string(), "{status}");
    let begun = status["scheduleStartTime"].clone();
    let mut in_part = waits_for_room(1);
    (in_part.view.state, in_part.placed, in_part.running) = (State::Binding, 2, 2);
    let status = scene.told(4_000, in_part);
    assert_eq!((&status["phase"], &status["running"]), (&json!("Unknown"), &json!(2)));
    for (ms, running, phase) in [(6_000, 1, "Scheduling"), (8_000, 3, "Running")] {
        let status = scene.told(ms, runs(running));
        assert_eq!((&status["phase"], &status["running"]), (&json!(phase), &json!(running)));
        assert_eq!(status["scheduleStartTime"], begun);
    }
    for (ends, phase) in [
        (Ends { succeeded: 3, failed: 0 }, "Finished"),
        (Ends { succeeded: 3, failed: 1 }, "Finished"),
        (Ends { succeeded: 2, failed: 1 }, "Failed"),
        (Ends { succeeded: 2, failed: 0 }, "Running"),
    ] {
        let mut scene = Scene::of(1, json!({}));
        scene.told(0, runs(3));
        scene.api.ends = ends;
        scene.plan.gone(at(2_000), &name("g"));
        scene.work(2_000);
        let status = scene.work(4_000);
        assert_eq!((&status["phase"], &status["running"]), (&json!(phase), &json!(0)), "{ends:?}");
        let counts = (&status["succeeded"], status["failed"].as_u64().unwrap_or(0));
        assert_eq!(counts, (&json!(ends.succeeded), u64::from(ends.failed)));
    }
}

#[test]
fn members_that_ended_count_while_others_run_and_once_all_have() {
    for (index, ends, end) in [
        (1, ["Succeeded"; 3], "Finished"),
        (1, ["Succeeded", "Succeeded", "Failed"], "Failed"),
        (2, ["Succeeded"; 3], "Completed"),
        (2, ["Succeeded", "Failed", "Failed"], "Completed"),
    ] {
        let mut scene = Scene::of(index, json!({ "phase": "Running" }));
        scene.told(0, runs(3));
        // Nobody takes the part of who is done.
        scene.ended(&ends[..1]);
        let two = WorkloadDetails { needed: 2, placed: 2, running: 2, ..runs(3) };
        let status = scene.told(2_000, two);
        let counts = (&status["running"], &status["succeeded"]);
        assert_eq!((&status["phase"], counts), (&json!("Running"), (&json!(2), &json!(1))));
        scene.ended(&ends);
        let over = gang(State::Finished);
        let status = scene.told(4_000, over.clone());
        let well = ends.iter().filter(|phase| **phase == "Succeeded").count();
        let counts = (&status["running"], &status["succeeded"]);
        assert_eq!((&status["phase"], counts), (&json!(end), (&json!(0), &json!(well))));
        assert_eq!(status["failed"].as_u64().unwrap_or(0), (3 - well) as u64, "{ends:?}");
        // It is said once, and stays when they are deleted.
        let before = scene.requests();
        scene.told(20_000, over);
        scene.plan.gone(at(30_000), &name("g"));
        scene.work(40_000);
        assert_eq!(scene.requests(), before, "{ends:?}");
    }
}

#[test]
fn what_is_said_of_a_group_that_ended_stays_while_its_pods_are_deleted() {
    for (index, end, badly) in [(1, "Finished", "Failed"), (2, "Completed", "Completed")] {
        let mut scene = Scene::of(index, json!({ "phase": "Running" }));
        scene.ended(&["Succeeded", "Succeeded", "Failed", "Succeeded"]);
        let said = scene.told(0, gang(State::Finished));
        let counts = (&said["phase"], &said["succeeded"], &said["failed"]);
        assert_eq!(counts, (&json!(end), &json!(3), &json!(1)));
        let first = scene.member(0, "Succeeded");
        scene.live.take(Seen::Deleted(first));
        assert_eq!(scene.told(20_000, gang(State::Finished)), said);
        // Another one that leads by then sees no more than that.
        let mut next = Scene::of(index, said.clone());
        next.ended(&["Succeeded", "Failed"]);
        assert_eq!(next.told(0, gang(State::Finished)), said);
        assert_eq!(next.requests(), 1, "it is read, and not written");
        // Those of another run are told of.
        next.told(20_000, runs(3));
        let again = next.told(40_000, gang(State::Finished));
        assert_eq!((&again["phase"], &again["succeeded"]), (&json!(badly), &json!(1)));
    }
}

#[test]
fn a_group_that_is_not_let_in_is_told_nothing_of_who_ended_before_it() {
    let mut scene = Scene::of(2, json!({ "phase": "Pending" }));
    scene.ended(&["Succeeded"]);
    let status = scene.told(0, gang(State::Finished));
    assert_eq!((status, scene.requests()), (json!({ "phase": "Pending" }), 0));
}

#[test]
fn groups_of_volcano_are_let_in_and_never_shut_again() {
    let other = json!({ "type": "Theirs", "status": "True", "reason": "R" });
    let mut scene = Scene::of(2, json!({ "phase": "Pending", "conditions": [other] }));
    let draft = scene.live.group(Kind::VolcanoGroup, &"ns".into(), &"g".into()).expect("seen");
    let open = opened(draft);
    scene.plan.group(at(0), None, open);
    assert_eq!(scene.work(0)["phase"], "Inqueue");
    let status = scene.told(2_000, gathers());
    let told = condition(&status, "Unschedulable").expect("it was told");
    assert_eq!((&status["phase"], &told["reason"]), (&json!("Inqueue"), &json!("NotEnoughTasks")));
    let status = scene.told(4_000, waits_for_room(1));
    let told = condition(&status, "Unschedulable").expect("it was told");
    assert_eq!(told["reason"], "NotEnoughResources");
    let status = scene.told(6_000, runs(3));
    assert_eq!((&status["phase"], &status["running"]), (&json!("Running"), &json!(3)));
    assert_eq!(condition(&status, "Scheduled").map(|it| &it["status"]), Some(&json!("True")));
    assert!(condition(&status, "Unschedulable").is_none(), "{status}");
    assert!(condition(&status, "Theirs").is_some(), "what others say stays");
    let status = scene.told(8_000, waits_for_room(1));
    assert_eq!(status["phase"], "Inqueue", "its pods may be made again");
    assert!(condition(&status, "Scheduled").is_none(), "{status}");
    scene.told(10_000, runs(3));
    scene.api.ends = Ends { succeeded: 1, failed: 2 };
    scene.plan.gone(at(12_000), &name("g"));
    scene.work(12_000);
    let status = scene.work(14_000);
    assert_eq!((&status["phase"], &status["failed"]), (&json!("Completed"), &json!(2)));
}

#[test]
fn only_what_changes_is_written_and_new_numbers_seldom() {
    for (index, (kind, _)) in KINDS.into_iter().enumerate() {
        let mut scene = Scene::of(index, json!({}));
        scene.told(0, waits_for_room(1));
        assert_eq!(scene.requests(), 2, "{kind:?}: read, and written");
        scene.told(10_000, waits_for_room(1));
        assert_eq!(scene.requests(), 2, "{kind:?}: nothing changed");
        scene.told(20_000, waits_for_room(2));
        assert_eq!(scene.requests(), 2, "{kind:?}: nothing but a number");
        scene.work(20_000 + WORDS_EVERY.0);
        let words = if kind == Kind::PluginsGroup { 2 } else { 3 };
        assert_eq!(scene.requests(), words, "{kind:?}: it is said in the end");
        let patch = scene.api.writes.iter().find_map(|(_, write)| match write {
            Write::Status(patch) => Some(patch),
            _ => None,
        });
        let meta = &patch.expect("it was written")["metadata"];
        let version = if kind == Kind::UpstreamGroup { Value::Null } else { json!("7") };
        assert_eq!((&meta["uid"], &meta["resourceVersion"]), (&json!("u"), &version));
    }
}

#[test]
fn a_group_that_was_made_again_is_read_and_not_written_to_before_it_is_seen() {
    let mut scene = Scene::of(1, json!({}));
    let key = Key::Group(scene.key.clone());
    scene.api.objects.get_mut(&key).expect("it is there")["metadata"]["uid"] = json!("another");
    scene.told(0, waits_for_room(1));
    scene.work(500);
    assert_eq!(scene.requests(), 1, "not twice in a moment");
    scene.api.objects.get_mut(&key).expect("it is there")["metadata"]["uid"] = json!("u");
    scene.told(EVERY.0, waits_for_room(1));
    assert_eq!(scene.work(EVERY.0 * 2)["phase"], "Pending");
}

#[test]
fn a_group_is_its_last_workloads_and_is_forgotten_with_its_object() {
    let mut scene = Scene::of(1, json!({}));
    scene.told(0, runs(3));
    // The workload has another name by now.
    let details = WorkloadDetails { source: scene.source, group: Some("g".into()), ..runs(3) };
    let told = of_workload(&details, &scene.live).expect("it has a group");
    scene.plan.group(at(1_000), Some(name("g-2")), told);
    scene.plan.gone(at(2_000), &name("g"));
    scene.work(5_000);
    assert!(!scene.api.writes.iter().any(|(_, write)| *write == Write::Count));
    scene.live.take(Seen::Absent(live::Kind::Gang(Kind::PluginsGroup)));
    assert!(of_workload(&details, &scene.live).is_none());
    scene.plan.groups_there(|_| false);
    assert_eq!(scene.plan.backlog(EVER), 0);
}
