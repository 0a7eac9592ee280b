//! The plan on a fake clock: what is written, when, and what never is.

mod accrued;
mod anew;
mod beside;
mod budgets;
mod cohorts;
mod finished;
mod found;
mod groups;
mod in_use;
mod listed;
mod money;
mod observed;
mod places;
mod podless;
mod pods;
mod refused;
mod requests;
mod requeued;
mod stopped;
mod strays;
mod told;
mod untaken;
mod vanished;
mod whose;

use std::collections::BTreeSet;

use capstan_core::explain::reason::{NodeShortage, Reason};
use capstan_core::explain::view::{QueueView, QuotaView, WorkloadDetails};
use capstan_core::model::input::GangSource;
use capstan_core::plan::{OwnerRef, PodRef, State};
use capstan_core::time::{Span, Time};
use serde_json::{Value, json};

use super::conditions::{api_time, holds};
use super::entry::{Answer, Key, Shown, Write};
use super::groups::{Ends, ShownGroup};
use super::plan::{EVERY, Name, PAUSE_MAX, Plan};
use super::rates::{Limits, What};
use super::shown::{Compared, ShownWorkload};
use super::workload::{self, LONE_PATIENCE};
use crate::api::workload::{Workload, WorkloadSpec, WorkloadStatus};
use crate::render::fixture;

const OURS: &str = "capstan";
const BORN: Time = Time(1_700_000_000_000);
const EVER: Time = Time(i64::MAX);

fn at(ms: i64) -> Time {
    BORN.plus(Span(ms))
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}").into() }
}

/// A Job of three pods in a queue.
fn gang(state: State) -> WorkloadDetails {
    let mut view = fixture::workload("ns", "g");
    (view.state, view.created, view.waits_since, view.reason) = (state, BORN, BORN, None);
    view.preempted = None;
    let owner = OwnerRef {
        kind: "Job".into(),
        namespace: "ns".into(),
        name: "g".into(),
        uid: "uid-g".into(),
    };
    WorkloadDetails {
        view,
        source: GangSource::Job,
        group: None,
        owner: Some(owner),
        first_pods: vec![pod("g-0")],
        lone: false,
        priority_class: None,
        pod_class: None,
        members: 3,
        ended: 0,
        needed: 3,
        placed: 0,
        running: 0,
        started: false,
        ready: 0,
        up: false,
        owner_end: None,
        suspended: false,
        failed: false,
        waiting: Vec::new(),
        planned: Default::default(),
        victims: Vec::new(),
        stop_asked: false,
        held: false,
        failures: 0,
        retry_at: None,
    }
}

/// A pod of its own that waits.
fn lone(state: State) -> WorkloadDetails {
    let mut details = gang(state);
    details.view.name = "p".into();
    (details.owner, details.lone, details.source) = (None, true, GangSource::Pod);
    (details.first_pods, details.members, details.needed) = (vec![pod("p")], 1, 1);
    details
}

fn room(free: u32) -> Reason {
    let refusals = Vec::new();
    Reason::Nodes(Box::new(NodeShortage {
        nodes: 4,
        asked: 1_000,
        holds: free,
        refusals,
        nearest: None,
        unwanted: None,
        gone: 0,
        ended: None,
    }))
}

fn waits(mut details: WorkloadDetails, reason: Reason, pods: &[&str]) -> WorkloadDetails {
    details.view.state = State::Queued;
    details.view.reason = Some(reason);
    details.waiting = pods.iter().map(|name| pod(name)).collect();
    details
}

fn name(of: &str) -> Name {
    ("ns".into(), of.into())
}

/// A cluster that does what is asked of it.
#[derive(Default)]
struct Api {
    objects: std::collections::BTreeMap<Key, Value>,
    writes: Vec<(Key, Write)>,
    /// How pods of PodGroups ended.
    ends: Ends,
}

impl Api {
    fn carry_out(&mut self, key: &Key, write: &Write) -> Answer {
        self.writes.push((key.clone(), write.clone()));
        match (key, write) {
            (_, Write::Create(object)) => {
                let mut object = super::diff::value(object);
                object["metadata"]["uid"] = json!("made");
                self.objects.insert(key.clone(), object);
            }
            (_, Write::Object(patch) | Write::Status(patch)) => {
                merge(self.objects.get_mut(key).expect("only what exists is patched"), patch);
            }
            (_, Write::Condition(condition, _) | Write::Reword(condition, _)) => {
                return Answer::Shows(Shown::Pod(condition.clone()));
            }
            (_, Write::Delete(_)) => {
                self.objects.remove(key);
                return Answer::Gone;
            }
            (_, Write::Count) => return Answer::Counted(self.ends),
            (_, Write::Read) => {}
        }
        let Some(object) = self.objects.get(key).cloned() else { return Answer::Gone };
        Answer::Shows(match key {
            Key::Workload(_) => {
                let object: Workload = serde_json::from_value(object).expect("ours");
                Shown::Workload(ShownWorkload::of(&object))
            }
            Key::Group(_) => Shown::Group(Box::new(ShownGroup::of(&object))),
            Key::Cohort(_) => {
                let status = serde_json::from_value(object["status"].clone()).expect("ours");
                Shown::Cohort(Box::new(status))
            }
            _ => Shown::ClusterQueue(Box::new(in_use::shown(object))),
        })
    }

    /// Carries out all that may go now; how many requests that were.
    fn work(&mut self, plan: &mut Plan, now: Time) -> usize {
        let before = self.writes.len();
        while let Some((key, write)) = plan.next(now) {
            let answer = self.carry_out(&key, &write);
            plan.answered(now, &key, answer);
        }
        self.writes.len() - before
    }

    fn workload(&self, of: &str) -> Workload {
        let object = self.objects.get(&Key::Workload(name(of))).expect("it was made");
        serde_json::from_value(object.clone()).expect("ours")
    }

    /// A Workload as a list shows it.
    fn listed(&self, of: &str) -> (Name, ShownWorkload) {
        ShownWorkload::named(&self.workload(of)).expect("it has a name")
    }

    fn status(&self, of: &str) -> WorkloadStatus {
        self.workload(of).status.expect("it was written")
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("made one");
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            value => merge(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

fn ready() -> (Plan, Api) {
    let mut plan = Plan::new(Limits::default(), OURS.into());
    plan.listed(BORN, []);
    (plan, Api::default())
}

fn count(plan: &mut Plan, what: What) -> u64 {
    plan.take_counts().get(&what).copied().unwrap_or(0)
}

#[test]
fn who_was_deactivated_stays_so_unless_its_owner_is_another() {
    let details = gang(State::Queued);
    let spec = WorkloadSpec { active: false, ..workload::spec(None, &details) };
    let cases = [(Some("uid-g"), None), (None, None), (Some("uid-of-one-before"), Some(true))];
    for (owner, active) in cases {
        let (queue, owners) = (None, owner.map(str::to_owned).into_iter().collect());
        let shown = Compared { queue, owners, spec: spec.clone(), ..Compared::default() };
        let patch = workload::object_patch(None, &shown, &details, OURS).unwrap_or_default();
        assert_eq!(patch["spec"]["active"].as_bool(), active, "{patch}");
    }
}

#[test]
fn a_class_that_is_named_no_more_goes_with_its_priority() {
    let mut details = gang(State::Queued);
    (details.priority_class, details.view.priority) = (Some("high".into()), 100);
    let shown = workload::spec(None, &details);
    assert_eq!(shown.priority_class_ref.as_ref().map(|class| &*class.name), Some("high"));
    (details.priority_class, details.view.priority) = (None, 0);
    assert_eq!(workload::spec(Some(&shown), &details).priority_class_ref, None);
}

#[test]
fn the_class_of_pods_is_shown_where_work_names_none_of_its_own() {
    let mut details = gang(State::Queued);
    details.pod_class = Some("urgent".into());
    let shown = |details: &WorkloadDetails| {
        let class = workload::spec(None, details).priority_class_ref.expect("a class");
        [class.group, class.kind, class.name]
    };
    assert_eq!(shown(&details), ["scheduling.k8s.io", "PriorityClass", "urgent"]);
    details.priority_class = Some("high".into());
    assert_eq!(shown(&details), ["capstan.sh", "WorkloadPriorityClass", "high"]);
}

#[test]
fn a_gang_costs_one_create_and_one_status_until_it_is_bound() {
    let (mut plan, mut api) = ready();
    plan.workload(at(100), gang(State::Gathering));
    assert_eq!(api.work(&mut plan, at(100)), 0, "it is not whole yet");
    plan.workload(at(200), gang(State::Binding));
    assert_eq!(api.work(&mut plan, at(200)), 2);
    let object = api.workload("g");
    let owner = &object.metadata.owner_references.as_ref().expect("it has one")[0];
    assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("Job", "batch/v1"));
    let status = api.status("g");
    assert!(holds(&status.conditions, "QuotaReserved").is_some());
    assert!(holds(&status.conditions, "Admitted").is_some());
    assert_eq!(status.state, "Binding");
    // It runs, and its pods start: both within a second are one write, counted apart.
    let mut runs = gang(State::Running);
    runs.placed = 3;
    plan.workload(at(300), runs.clone());
    assert_eq!(api.work(&mut plan, at(300)), 0, "once a second");
    (runs.started, runs.up) = (true, true);
    plan.workload(at(600), runs);
    assert_eq!(api.work(&mut plan, at(1_200)), 1);
    assert!(holds(&api.status("g").conditions, "PodsReady").is_some());
    let counts = plan.take_counts();
    let of = |what| counts.get(&what).copied().unwrap_or(0);
    assert_eq!((of(What::Created), of(What::StatusUntilBound), of(What::StatusLater)), (1, 1, 1));
    assert_eq!(api.work(&mut plan, at(9_000)), 0, "nothing differs");
}

#[test]
fn what_is_shown_already_is_not_written() {
    let (mut plan, mut api) = ready();
    let waiting = waits(gang(State::Queued), room(1), &[]);
    plan.workload(at(0), waiting.clone());
    assert_eq!(api.work(&mut plan, at(0)), 2);
    for second in 1..5 {
        plan.workload(at(second * 1_000), waiting.clone());
        assert_eq!(api.work(&mut plan, at(second * 1_000)), 0);
    }
    assert_eq!((plan.backlog(EVER), plan.wake()), (0, None));
    // A new engine over the same API writes nothing either.
    let mut again = Plan::new(Limits::default(), OURS.into());
    again.workload(at(6_000), waiting);
    assert_eq!(api.work(&mut again, at(6_000)), 0, "nothing before the list");
    again.listed(at(6_000), [api.listed("g")]);
    assert_eq!(api.work(&mut again, at(8_000)), 0);
}

#[test]
fn the_newest_wins_and_an_object_is_written_once_a_second() {
    let (mut plan, mut api) = ready();
    for step in 0..50 {
        plan.workload(at(step * 100), waits(gang(State::Queued), room(step as u32), &[]));
        api.work(&mut plan, at(step * 100));
    }
    api.work(&mut plan, at(6_000));
    let statuses = api.writes.iter().filter(|(_, write)| matches!(write, Write::Status(_))).count();
    assert!((5..=7).contains(&statuses), "one a second for five seconds: {statuses}");
    let said = &api.status("g").conditions[0];
    assert!(said.message.contains("49 of 1000"), "{}", said.message);
    assert_eq!(said.last_transition_time, api_time(BORN), "it never changed its status");
    assert!(count(&mut plan, What::Merged) > 40);
}

#[test]
fn a_rate_bounds_all_and_what_is_made_is_made_whole_before_more_is_made() {
    let mut plan = Plan::new(Limits { writes: 10, events: 1 }, OURS.into());
    plan.listed(BORN, []);
    let mut api = Api::default();
    for n in 0..30 {
        let mut details = waits(gang(State::Queued), room(1), &[]);
        details.view.name = format!("g{n}").into();
        plan.workload(at(0), details);
    }
    assert_eq!(api.work(&mut plan, at(0)), 10);
    for (at, (_, write)) in api.writes.iter().enumerate() {
        assert_eq!(matches!(write, Write::Create(_)), at % 2 == 0, "{at}: {write:?}");
    }
    assert_eq!(api.work(&mut plan, at(50)), 0);
    assert_eq!(api.work(&mut plan, at(1_050)), 10);
    for second in 2..6 {
        api.work(&mut plan, at(second * 1_000 + 100));
    }
    assert_eq!(api.writes.len(), 60, "in the end everything is written");
}

#[test]
fn a_pod_of_its_own_gets_an_object_when_it_waited_long_or_was_stopped() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(lone(State::Queued), room(0), &["p"]));
    let patient = LONE_PATIENCE.0;
    assert_eq!(api.work(&mut plan, at(500)), 0, "most are placed within a second");
    assert_eq!(api.work(&mut plan, at(1_000)), 1, "its condition only");
    assert_eq!(api.work(&mut plan, at(patient - 1)), 0);
    assert_eq!(api.work(&mut plan, at(patient)), 2);
    let owner = &api.workload("p").metadata.owner_references.expect("its pod")[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Pod", "uid-p"));
    // Another is placed before that: nobody hears of it.
    let mut quick = waits(lone(State::Queued), room(0), &["q"]);
    quick.view.name = "q".into();
    plan.workload(at(40_000), quick.clone());
    (quick.view.state, quick.view.reason, quick.waiting) = (State::Binding, None, Vec::new());
    quick.view.created = at(40_000);
    plan.workload(at(40_100), quick.clone());
    assert_eq!(api.work(&mut plan, at(99_000)), 0);
    // Unless it is stopped.
    quick.view.state = State::Evicting;
    quick.view.preempted = Some(fixture::preemption());
    plan.workload(at(99_000), quick);
    assert_eq!(api.work(&mut plan, at(99_000)), 2);
    let status = api.status("q");
    assert!(holds(&status.conditions, "Evicted").is_some());
    assert!(status.preemptor.is_some());
}

#[test]
fn eviction_and_return_leave_their_marks() {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    (runs.placed, runs.started, runs.up) = (3, true, true);
    runs.view.admitted_at = Some(at(2_000));
    plan.workload(at(5_000), runs.clone());
    api.work(&mut plan, at(5_000));
    assert_eq!((api.status("g").waited_seconds, &*api.status("g").waited), (Some(2), "2s"));
    // Conditions of others stay; who is stopped stands in no queue.
    let object = api.objects.get_mut(&Key::Workload(name("g"))).expect("made");
    object["status"]["queuePosition"] = json!(3);
    let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    object["status"]["conditions"].as_array_mut().expect("some").push(theirs);
    plan.listed(at(5_500), [api.listed("g")]);
    let mut stopped = runs.clone();
    stopped.view.state = State::Evicting;
    stopped.view.preempted = Some(fixture::preemption());
    plan.workload(at(10_000), stopped.clone());
    api.work(&mut plan, at(10_000));
    let status = api.status("g");
    let evicted = holds(&status.conditions, "Evicted").expect("it was stopped");
    assert_eq!(
        (evicted.reason.as_str(), &evicted.last_transition_time),
        ("Preempted", &api_time(at(10_000)))
    );
    let word = fixture::preemption().reason.as_str();
    assert_eq!(holds(&status.conditions, "Preempted").expect("that is why").reason, word);
    assert!(holds(&status.conditions, "Theirs").is_some() && status.queue_position.is_none());
    let mut waiting = waits(stopped, room(1), &[]);
    waiting.view.admitted_at = None;
    plan.workload(at(12_000), waiting);
    api.work(&mut plan, at(12_000));
    let status = api.status("g");
    assert_eq!(status.waiting_since, Some(api_time(at(10_000))), "it waits since it was stopped");
    assert!(holds(&status.conditions, "Admitted").is_none());
    runs.view.admitted_at = Some(at(15_000));
    plan.workload(at(15_000), runs);
    api.work(&mut plan, at(15_000));
    let status = api.status("g");
    assert!(holds(&status.conditions, "Evicted").is_none());
    assert!(holds(&status.conditions, "Admitted").is_some());
    assert_eq!((status.preemptor, status.waiting_since), (None, None));
    assert!(holds(&status.conditions, "Theirs").is_some());
}

#[test]
fn failures_pause_longer_each_time_and_an_object_that_vanished_is_made_again() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(gang(State::Queued), room(1), &[]));
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (key, write) = plan.next(now).expect("it is tried again");
        assert!(matches!(write, Write::Create(_)));
        plan.answered(now, &key, Answer::Failed);
        let again = plan.wake().expect("later");
        pauses.push(again.since(now));
        now = again;
    }
    assert_eq!((pauses[0], pauses[1], pauses[8]), (EVERY, Span(2_000), PAUSE_MAX));
    assert_eq!(count(&mut plan, What::Failed), 9);
    api.work(&mut plan, now);
    api.objects.clear();
    plan.workload(now.plus(EVERY), waits(gang(State::Queued), room(2), &[]));
    let (key, write) = plan.next(now.plus(EVERY)).expect("numbers changed");
    assert!(matches!(write, Write::Status(_)));
    plan.answered(now.plus(EVERY), &key, Answer::Gone);
    assert_eq!(api.work(&mut plan, now.plus(Span(2_000))), 2, "created and shown again");
    assert!(api.objects.contains_key(&key));
}

/// A queue that borrows.
fn queue_view() -> QueueView {
    let line = QuotaView {
        flavor: "spot".into(),
        resource: "nvidia.com/gpu".into(),
        nominal: 16,
        used: 24,
        borrowed: 8,
        lent: 0,
        available: 0,
    };
    QueueView {
        name: "q".into(),
        cohort: None,
        inactive: None,
        quotas: vec![line],
        pending: 1,
        admitted: 2,
        per_hour: None,
        unpriced: 0,
        share: None,
        spending: None,
    }
}

#[test]
fn columns_of_a_queue_show_what_it_has_quota_of_and_how_far_its_price_is_known() {
    let shown = |view: &QueueView| {
        let status = super::queues::cluster_queue(&Default::default(), view, at(0));
        [status.gpus, status.cpu, status.memory, status.usd_per_hour]
    };
    let mut view = queue_view();
    assert_eq!(shown(&view), ["24/16", "", "", ""]);
    let line = |resource: &str, used: i64, nominal: i64| QuotaView {
        resource: resource.into(),
        used,
        nominal,
        borrowed: 0,
        ..view.quotas[0].clone()
    };
    // Two flavors of CPU are one column.
    view.quotas = vec![
        line("cpu", 1_500, 8_000),
        line("memory", 3 << 30, 64 << 30),
        line("cpu", 2_000, 32_000),
    ];
    view.per_hour = Some(capstan_core::money::MicroUsd(36_750_000));
    assert_eq!(shown(&view), ["", "3.5/40", "3Gi/64Gi", "36.75"]);
    view.unpriced = 1;
    assert_eq!(shown(&view)[3], "36.75+");
    view.per_hour = None;
    assert_eq!(shown(&view)[3], "", "nothing of it is known");
}

#[test]
fn a_status_of_a_queue_is_read_before_it_is_written() {
    let (mut plan, mut api) = ready();
    let view = queue_view();
    let key = Key::ClusterQueue("q".into());
    let before = json!([{"type": "Active", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2023-11-14T00:00:00Z"}]);
    let before = json!({"budget": {"spentMicroUsd": 5}, "conditions": before});
    api.objects.insert(key.clone(), json!({ "status": before }));
    plan.cluster_queues(at(0), vec![view.clone()]);
    assert_eq!(api.work(&mut plan, at(0)), 2);
    assert_eq!(api.writes[0].1, Write::Read);
    let status = &api.objects[&key]["status"];
    assert_eq!(status["budget"], json!(null), "it has none any more");
    assert_eq!((&status["gpus"], &status["pendingWorkloads"]), (&json!("24/16"), &json!(1)));
    let want = json!([{"name": "spot", "resources": [
        {"name": "nvidia.com/gpu", "total": "24", "borrowed": "8"}]}]);
    assert_eq!(status["flavorsUsage"], want);
    assert_eq!(status["conditions"][0]["reason"], "Ready");
    plan.cluster_queues(at(5_000), vec![view.clone()]);
    assert_eq!(api.work(&mut plan, at(5_000)), 0, "nothing changed");
    let why = capstan_core::explain::reason::Inactive::FlavorMissing("spot".into());
    let inactive = Some(Reason::Inactive { cluster_queue: "q".into(), why });
    plan.cluster_queues(at(6_000), vec![QueueView { inactive, ..view.clone() }]);
    assert_eq!(api.work(&mut plan, at(6_000)), 1);
    let active = &api.objects[&key]["status"]["conditions"][0];
    assert_eq!((&active["status"], &active["reason"]), (&json!("False"), &json!("FlavorNotFound")));
    // A queue that is gone is let alone, and one that was never there is not asked for again soon.
    api.objects.clear();
    for second in 9..20 {
        let busy = QueueView { pending: second, ..view.clone() };
        plan.cluster_queues(at(i64::from(second) * 1_000), vec![busy]);
        let now = at(i64::from(second) * 1_000);
        while let Some((key, _)) = plan.next(now) {
            assert_eq!(second, 9);
            plan.answered(now, &key, Answer::Gone);
        }
    }
    plan.cluster_queues(at(30_000), Vec::new());
    assert_eq!((api.work(&mut plan, at(99_000)), plan.backlog(EVER)), (0, 0));
}

#[test]
fn what_a_later_list_does_not_show_is_made_again() {
    let (mut plan, mut api) = ready();
    let mut runs = gang(State::Running);
    (runs.placed, runs.started, runs.up) = (3, true, true);
    plan.workload(at(0), runs.clone());
    api.work(&mut plan, at(0));
    // Its kind is deleted and made again, and nothing changes of the work.
    api.objects.clear();
    plan.workload(at(5_000), runs.clone());
    assert_eq!(api.work(&mut plan, at(5_000)), 0, "nobody noticed");
    assert!(!plan.take_doubt());
    plan.doubt();
    assert!(plan.take_doubt() && !plan.take_doubt(), "listed once");
    plan.listed(at(6_000), []);
    plan.workload(at(7_000), runs);
    assert_eq!(api.work(&mut plan, at(7_000)), 2);
    assert_eq!(api.status("g").state, "Running");
}

#[test]
fn what_people_set_of_the_spec_stays() {
    let (mut plan, mut api) = ready();
    plan.workload(at(0), waits(gang(State::Queued), room(1), &[]));
    api.work(&mut plan, at(0));
    let object = api.objects.get_mut(&Key::Workload(name("g"))).expect("made");
    merge(object, &json!({"spec": {"active": false}}));
    plan.listed(at(1_000), [api.listed("g")]);
    let mut other = waits(gang(State::Queued), room(1), &[]);
    other.view.priority += 5;
    plan.workload(at(2_000), other.clone());
    api.work(&mut plan, at(2_000));
    let spec = api.workload("g").spec;
    assert_eq!((spec.active, spec.priority), (false, other.view.priority));
    let patches = api.writes.iter().filter_map(|(_, write)| match write {
        Write::Object(patch) => Some(patch.clone()),
        _ => None,
    });
    let patch = json!({"metadata": {"uid": "made"}, "spec": {"priority": spec.priority}});
    assert_eq!(patches.collect::<Vec<_>>(), [patch], "it names whom it means");
}
