//! One event after the other: what each changes, and what it does not.

use capstan_core::Input;
use capstan_core::model::input::{GangKey, PodFacts};
use capstan_core::time::Time;
use serde_json::{Value, json};

mod classes;
mod ended;
mod grouped;
mod groups;
mod joining;
mod large;
mod later;
mod named;
mod others;
mod queues;
mod ranges;
mod ray;
mod sources;
mod stopped;
mod unscheduled;

use super::{Group, Kind, Live, Object, Seen};
use crate::config::{Config, PriceEntry, QuotaApi};
use crate::read::kinds::{Origin, Queueing};

const NOW: Time = Time(7_000);

fn live() -> Live {
    Live::new(&Config::default())
}

/// One that has seen an empty cluster, and told of it.
fn synced(config: &Config) -> Live {
    let mut live = Live::new(config);
    for kind in Kind::all(config) {
        live.take(Seen::Listing(kind));
        live.take(Seen::Complete(kind));
    }
    live.drain(NOW);
    live
}

fn meta(name: &str, uid: &str) -> Value {
    json!({ "name": name, "namespace": "ns", "uid": uid,
        "creationTimestamp": "2026-01-01T00:00:00Z" })
}

fn pod_value(name: &str, uid: &str) -> Value {
    json!({ "metadata": meta(name, uid),
        "spec": { "schedulerName": "capstan", "containers": [{}] } })
}

fn pod(value: Value) -> Object {
    Object::Pod(serde_json::from_value(value).expect("pod"))
}

fn job_value(name: &str, uid: &str) -> Value {
    let template = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    json!({ "metadata": meta(name, uid), "spec": { "parallelism": 4, "template": template } })
}

fn job(value: Value) -> Object {
    Object::Job(serde_json::from_value(value).expect("job"))
}

fn owned(mut value: Value, kind: &str, name: &str, uid: &str) -> Value {
    let api = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": api, "kind": kind,
        "name": name, "uid": uid, "controller": true }]);
    value
}

fn owner(kind: Kind, value: Value) -> Object {
    Object::Meta(kind, serde_json::from_value(value).expect("meta"))
}

fn class(name: &str, value: i32) -> Object {
    let class = json!({ "metadata": { "name": name, "uid": name }, "value": value });
    Object::PriorityClass(serde_json::from_value(class).expect("class"))
}

fn queueing(kind: Queueing, origin: Origin, name: &str, spec: Value) -> Object {
    let mut value = json!({ "metadata": { "name": name, "uid": format!("{origin:?} {name}") },
        "spec": spec });
    if kind == Queueing::LocalQueue {
        value["metadata"]["namespace"] = "ns".into();
    }
    Object::Queueing(kind, origin, Box::new(value))
}

fn told(live: &mut Live) -> Vec<Input> {
    live.drain(NOW).inputs
}

fn said(live: &mut Live) -> Vec<String> {
    live.drain(NOW).notices.iter().map(ToString::to_string).collect()
}

/// The pods among inputs, by name.
fn pods(inputs: &[Input]) -> Vec<&PodFacts> {
    inputs
        .iter()
        .filter_map(|input| match input {
            Input::Pod(pod) => Some(pod),
            _ => None,
        })
        .collect()
}

fn the_pod(inputs: &[Input]) -> &PodFacts {
    let pods = pods(inputs);
    assert_eq!(pods.len(), 1, "{inputs:?}");
    pods[0]
}

#[test]
fn queue_objects_are_watched_in_the_groups_that_are_configured() {
    let both = Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() };
    let cluster_queue = |group| Kind::Queueing(Queueing::ClusterQueue, group);
    let kinds = Kind::all(&Config::default());
    assert!(kinds.contains(&cluster_queue(Group::Capstan)) && kinds.contains(&Kind::Pod));
    assert!(!kinds.contains(&cluster_queue(Group::Kueue)));
    assert_eq!(Kind::all(&both).len(), kinds.len() + 6);
    assert!(kinds.contains(&Kind::Queueing(Queueing::Workload, Group::Capstan)));
    assert!(!Kind::all(&both).contains(&Kind::Queueing(Queueing::Workload, Group::Kueue)));
}

#[test]
fn it_waits_for_every_kind_until_listed_or_absent() {
    let mut live = live();
    assert_eq!(live.waiting_for().len(), Kind::all(&Config::default()).len());
    for kind in Kind::all(&Config::default()) {
        assert!(!live.synced());
        match kind {
            Kind::Queueing(..) => live.take(Seen::Absent(kind)),
            _ => {
                live.take(Seen::Listing(kind));
                assert!(live.waiting_for().contains(&kind));
                live.take(Seen::Complete(kind));
            }
        }
    }
    assert!(live.synced());
}

#[test]
fn an_object_is_taken_before_any_list_and_its_end_without_it() {
    let mut live = live();
    live.take(Seen::Deleted(pod(pod_value("q", "q1"))));
    live.take(Seen::Applied(pod(pod_value("p", "p1"))));
    let inputs = told(&mut live);
    assert_eq!(the_pod(&inputs).gang.key, GangKey::Pod("p1".into()));
    let names = |input: &Input| matches!(input, Input::Namespace { .. });
    assert_eq!(inputs.iter().filter(|input| names(input)).count(), 2);
    assert!(told(&mut live).is_empty());
}

#[test]
fn a_pod_hears_of_its_job_when_that_comes_changes_and_goes() {
    let mut live = live();
    let member = owned(pod_value("p", "p1"), "Job", "j", "j1");
    live.take(Seen::Applied(pod(member)));
    assert_eq!(the_pod(&told(&mut live)).gang.min_member, None);
    let mut value = job_value("j", "j1");
    value["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    live.take(Seen::Applied(job(value.clone())));
    let inputs = told(&mut live);
    let facts = the_pod(&inputs);
    assert_eq!((facts.gang.min_member, facts.wishes.queue.as_deref()), (Some(4), Some("q")));
    // What pods do not look at does not concern them, and what nobody looks at nobody.
    value["status"] = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    live.take(Seen::Applied(job(value.clone())));
    assert!(matches!(&told(&mut live)[..], [Input::Owner(owner)] if owner.finished.is_some()));
    value["status"]["active"] = 3.into();
    value["metadata"]["resourceVersion"] = "9".into();
    live.take(Seen::Applied(job(value.clone())));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Deleted(job(value)));
    let inputs = told(&mut live);
    assert_eq!(inputs[0], Input::OwnerGone("j1".into()));
    assert_eq!(the_pod(&inputs).wishes.queue, None);
}

#[test]
fn a_job_of_the_same_name_is_not_the_one_that_made_the_pod() {
    let mut live = live();
    live.take(Seen::Applied(pod(owned(pod_value("p", "p1"), "Job", "j", "j1"))));
    live.take(Seen::Applied(job(job_value("j", "j2"))));
    let inputs = told(&mut live);
    let facts = the_pod(&inputs);
    assert_eq!((&facts.gang.key, facts.gang.min_member), (&GangKey::Owner("j1".into(), 0), None));
}

#[test]
fn labels_pass_through_every_owner() {
    let mut live = live();
    live.take(Seen::Applied(pod(owned(pod_value("p", "p1"), "ReplicaSet", "r", "r1"))));
    let set = owned(json!({ "metadata": meta("r", "r1") }), "Deployment", "d", "d1");
    live.take(Seen::Applied(owner(Kind::ReplicaSet, set)));
    told(&mut live);
    let mut deployment = json!({ "metadata": meta("d", "d1") });
    deployment["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    live.take(Seen::Applied(owner(Kind::Deployment, deployment)));
    assert_eq!(the_pod(&told(&mut live)).wishes.queue.as_deref(), Some("q"));
}

#[test]
fn objects_are_counted_by_kind() {
    let mut live = live();
    live.take(Seen::Applied(pod(owned(pod_value("p", "p1"), "Job", "j", "j1"))));
    live.take(Seen::Applied(job(owned(job_value("j", "j1"), "CronJob", "c", "c1"))));
    assert_eq!((live.count(Kind::Pod), live.count(Kind::Job), live.count(Kind::Node)), (1, 1, 0));
}

#[test]
fn a_pod_of_the_same_name_comes_after_the_end_of_the_other() {
    let mut live = live();
    live.take(Seen::Applied(pod(pod_value("p", "p1"))));
    told(&mut live);
    live.take(Seen::Applied(pod(pod_value("p", "p2"))));
    let inputs = told(&mut live);
    assert_eq!(inputs[0], Input::PodGone("p1".into()));
    assert_eq!(&*the_pod(&inputs).uid, "p2");
    // The end of the first comes late.
    live.take(Seen::Deleted(pod(pod_value("p", "p1"))));
    assert!(told(&mut live).is_empty());
}

#[test]
fn what_comes_and_goes_between_two_looks_was_never_there() {
    let mut live = live();
    told(&mut live);
    live.take(Seen::Applied(pod(pod_value("p", "p1"))));
    live.take(Seen::Deleted(pod(pod_value("p", "p1"))));
    live.take(Seen::Applied(job(job_value("j", "j1"))));
    live.take(Seen::Deleted(job(job_value("j", "j1"))));
    assert!(told(&mut live).is_empty());
}

#[test]
fn pods_of_others_count_once_they_hold_something() {
    let mut live = live();
    let mut value = pod_value("p", "p1");
    value["spec"]["schedulerName"] = "other".into();
    live.take(Seen::Applied(pod(value.clone())));
    assert!(pods(&told(&mut live)).is_empty());
    assert!(pods(&live.everything(NOW)).is_empty());
    value["spec"]["nodeName"] = "n".into();
    live.take(Seen::Applied(pod(value.clone())));
    assert!(!the_pod(&told(&mut live)).ours);
    value["status"] = json!({ "phase": "Succeeded" });
    live.take(Seen::Applied(pod(value.clone())));
    assert_eq!(told(&mut live), [Input::PodGone("p1".into()), Input::NamespaceGone("ns".into())]);
    live.take(Seen::Deleted(pod(value)));
    assert!(told(&mut live).is_empty());
}

#[test]
fn another_scheduler_name_makes_other_pods_ours() {
    let mut live = live();
    let mut other = pod_value("q", "q1");
    other["spec"]["schedulerName"] = "other".into();
    let mut bound = pod_value("b", "b1");
    bound["spec"]["nodeName"] = "n".into();
    for value in [pod_value("p", "p1"), other, bound] {
        live.take(Seen::Applied(pod(value)));
    }
    live.take(Seen::Applied(job(job_value("j", "j1"))));
    told(&mut live);
    live.reconfigure(&Config::default());
    assert!(told(&mut live).is_empty());
    live.reconfigure(&Config { scheduler_name: "other".into(), ..Config::default() });
    let inputs = told(&mut live);
    assert_eq!(inputs[0], Input::PodGone("p1".into()));
    assert!(matches!(&inputs[1], Input::Owner(owner) if !owner.ours));
    let ours: Vec<(&str, bool)> = pods(&inputs).iter().map(|pod| (&*pod.uid, pod.ours)).collect();
    assert_eq!(ours, [("b1", false), ("q1", true)]);
}

#[test]
fn other_prices_concern_the_nodes_that_they_change() {
    let mut live = live();
    for (name, annotations) in [("a", json!({})), ("b", json!({ "capstan.sh/price": "1" }))] {
        let node = json!({ "metadata": { "name": name, "annotations": annotations } });
        live.take(Seen::Applied(Object::Node(serde_json::from_value(node).expect("node"))));
    }
    told(&mut live);
    let mut config = Config::default();
    config
        .prices
        .entries
        .push(PriceEntry { per_hour: capstan_core::money::MicroUsd(5), ..PriceEntry::default() });
    live.reconfigure(&config);
    let inputs = told(&mut live);
    assert!(matches!(&inputs[..], [Input::Node(node)] if &*node.name == "a"), "{inputs:?}");
}

#[test]
fn a_group_that_is_not_configured_any_more_has_no_queues() {
    let both = Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() };
    let mut live = synced(&both);
    let kueues =
        || queueing(Queueing::ClusterQueue, Origin::KueueV1Beta1, "q", json!({ "cohort": "c" }));
    live.take(Seen::Applied(kueues()));
    let inputs = told(&mut live);
    let [Input::ClusterQueue(queue)] = &inputs[..] else { panic!("{inputs:?}") };
    assert_eq!(queue.cohort.as_deref(), Some("c"));
    live.reconfigure(&Config::default());
    assert_eq!(told(&mut live), [Input::ClusterQueueGone("q".into())]);
    live.take(Seen::Applied(kueues()));
    assert!(told(&mut live).is_empty() && live.synced());
}

#[test]
fn a_default_queue_concerns_the_jobs_that_name_none() {
    let mut live = synced(&Config::default());
    let mut named = job_value("named", "n1");
    named["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    live.take(Seen::Applied(job(named)));
    live.take(Seen::Applied(job(job_value("j", "j1"))));
    live.take(Seen::Applied(pod(owned(pod_value("p", "p1"), "Job", "j", "j1"))));
    live.take(Seen::Applied(pod(owned(pod_value("q", "q1"), "Job", "named", "n1"))));
    live.take(Seen::Applied(pod(pod_value("lone", "l1"))));
    told(&mut live);
    let queue = || queueing(Queueing::LocalQueue, Origin::Capstan, "default", json!({}));
    live.take(Seen::Applied(queue()));
    // A look at everything in between takes nothing from what is told next.
    live.everything(NOW);
    let inputs = told(&mut live);
    assert!(matches!(&inputs[0], Input::LocalQueue(_)));
    assert!(matches!(&inputs[1], Input::Owner(owner) if owner.min_member == 4));
    assert_eq!((inputs.len(), the_pod(&inputs).gang.min_member), (3, Some(4)));
    live.take(Seen::Deleted(queue()));
    let inputs = told(&mut live);
    assert_eq!((inputs.len(), the_pod(&inputs).gang.min_member), (3, Some(1)));
}

#[test]
fn a_priority_class_concerns_the_pods_that_have_no_priority_yet() {
    let mut live = synced(&Config::default());
    let mut open = pod_value("open", "o1");
    open["spec"]["priorityClassName"] = "high".into();
    let mut settled = pod_value("settled", "s1");
    settled["spec"]["priority"] = 3.into();
    settled["spec"]["preemptionPolicy"] = "Never".into();
    settled["spec"]["priorityClassName"] = "high".into();
    live.take(Seen::Applied(pod(open)));
    live.take(Seen::Applied(pod(settled)));
    let missing =
        "PriorityClass high is not in the cluster (one object names it); priority 0 was taken";
    assert_eq!(said(&mut live), [missing]);
    live.take(Seen::Applied(class("high", 9)));
    assert_eq!(the_pod(&told(&mut live)).priority, 9);
    live.take(Seen::Applied(class("high", 9)));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Deleted(class("high", 9)));
    assert_eq!(said(&mut live), [missing]);
}

#[test]
fn a_runtime_class_concerns_the_templates_that_name_it() {
    let mut live = synced(&Config::default());
    let mut sandboxed = job_value("j", "j1");
    sandboxed["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    sandboxed["spec"]["template"]["spec"]["runtimeClassName"] = "kata".into();
    live.take(Seen::Applied(job(sandboxed)));
    live.take(Seen::Applied(job(job_value("other", "j2"))));
    let missing =
        "RuntimeClass kata is not in the cluster (one object names it); nothing was added for it";
    assert_eq!(said(&mut live), [missing]);
    let class = |cpu: u32| {
        let overhead = json!({ "podFixed": { "cpu": cpu } });
        let class = json!({ "metadata": meta("kata", "k1"), "overhead": overhead });
        Object::RuntimeClass(serde_json::from_value(class).expect("class"))
    };
    let cpu = |inputs: &[Input]| match inputs {
        [Input::Owner(owner)] => owner.pod_sets[0].shape.requests.get("cpu").copied(),
        other => panic!("one Job, not {other:?}"),
    };
    live.take(Seen::Applied(class(2)));
    assert_eq!(cpu(&told(&mut live)), Some(2_000));
    live.take(Seen::Applied(class(2)));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Deleted(class(2)));
    assert_eq!(said(&mut live), [missing]);
}

#[test]
fn twins_in_both_groups_are_inactive_until_one_goes() {
    let config =
        Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() };
    let mut live = synced(&config);
    let spec = json!({ "clusterQueue": "q" });
    let queue = |origin| queueing(Queueing::LocalQueue, origin, "l", spec.clone());
    live.take(Seen::Applied(queue(Origin::Capstan)));
    told(&mut live);
    live.take(Seen::Applied(queue(Origin::KueueV1Beta2)));
    let drained = live.drain(NOW);
    let [Input::LocalQueue(both)] = &drained.inputs[..] else { panic!("{drained:?}") };
    assert!(both.broken[0].starts_with("DuplicateQueue"));
    assert_eq!(drained.notices.len(), 1);
    live.take(Seen::Deleted(queue(Origin::Capstan)));
    let inputs = told(&mut live);
    assert!(matches!(&inputs[..], [Input::LocalQueue(queue)] if queue.broken.is_empty()));
}

#[test]
fn a_queue_that_breaks_rules_stays_inactive_with_its_reason() {
    let mut live = synced(&Config::default());
    let quota = json!({ "name": "cpu", "nominalQuota": 1, "lendingLimit": 2 });
    let spec = json!({ "resourceGroups": [{ "coveredResources": ["cpu"],
        "flavors": [{ "name": "f", "resources": [quota] }] }], "colour": "red" });
    live.take(Seen::Applied(queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec)));
    let drained = live.drain(NOW);
    let [Input::ClusterQueue(queue)] = &drained.inputs[..] else { panic!("{drained:?}") };
    assert_eq!(queue.broken.len(), 2);
    let notices: Vec<String> = drained.notices.iter().map(ToString::to_string).collect();
    assert_eq!(notices.len(), 3, "{notices:?}");
    let colour = "spec.colour: unknown field; it was ignored";
    for problem in [colour, &*queue.broken[0], &*queue.broken[1]] {
        assert!(notices.contains(&format!("ClusterQueue q: {problem}")), "{notices:?}");
    }
}

#[test]
fn a_queue_that_cannot_be_read_is_named_and_its_last_good_version_stays() {
    let mut live = synced(&Config::default());
    let queue = |spec| queueing(Queueing::ClusterQueue, Origin::Capstan, "q", spec);
    live.take(Seen::Applied(queue(json!({ "cohortName": "c" }))));
    told(&mut live);
    let bad = json!({ "cohortName": 7, "stopPolicy": "Never" });
    live.take(Seen::Applied(queue(bad.clone())));
    let drained = live.drain(NOW);
    assert!(drained.inputs.is_empty());
    let notices: Vec<String> = drained.notices.iter().map(ToString::to_string).collect();
    let text = "ClusterQueue q: spec.cohortName: 7, where a text is needed; write it in quotes";
    let word = r#"ClusterQueue q: spec.stopPolicy: "Never" is none of None, Hold, HoldAndDrain"#;
    assert_eq!(notices, [text, word]);
    // The same fault is no news; half of it mended, neither; mended and back again, it is.
    live.take(Seen::Applied(queue(bad.clone())));
    live.take(Seen::Applied(queue(json!({ "cohortName": 7 }))));
    assert_eq!(said(&mut live), Vec::<String>::new());
    live.take(Seen::Applied(queue(json!({ "cohortName": "d" }))));
    let inputs = told(&mut live);
    assert!(
        matches!(&inputs[..], [Input::ClusterQueue(queue)] if queue.cohort.as_deref() == Some("d"))
    );
    live.take(Seen::Applied(queue(bad)));
    assert_eq!(said(&mut live).len(), 2);
    live.take(Seen::Deleted(queue(json!({}))));
    assert_eq!(told(&mut live), [Input::ClusterQueueGone("q".into())]);
}

#[test]
fn a_pod_that_no_api_server_takes_is_named_and_its_last_good_version_stays() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(pod(pod_value("p", "p1"))));
    told(&mut live);
    let mut bad = pod_value("p", "p1");
    bad["spec"]["containers"] = json!([]);
    live.take(Seen::Applied(pod(bad.clone())));
    let drained = live.drain(NOW);
    assert!(drained.inputs.is_empty());
    let notice = "Pod ns/p: spec.containers: empty; it needs at least one container";
    assert_eq!(drained.notices[0].to_string(), notice);
    // The same where not even that much of it can be read.
    let left = serde_json::from_value(bad.clone()).expect("metadata");
    let (path, problem) = ("spec.priority".to_owned(), "cannot be read: a map".to_owned());
    live.take(Seen::Applied(Object::Broken(Kind::Pod, Box::new(left), path, problem)));
    let drained = live.drain(NOW);
    assert!(drained.inputs.is_empty());
    let notice = "Pod ns/p: spec.priority: cannot be read: a map";
    assert_eq!(drained.notices[0].to_string(), notice);
    // Another one under its name is not that pod, whatever is wrong with it.
    bad["metadata"]["uid"] = "p2".into();
    live.take(Seen::Applied(pod(bad)));
    assert_eq!(told(&mut live)[0], Input::PodGone("p1".into()));
}

#[test]
fn remarks_wait_until_everything_was_seen_and_are_made_once() {
    let config = Config::default();
    let mut live = Live::new(&config);
    let mut value = job_value("j", "j1");
    value["spec"]["suspend"] = true.into();
    value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": "some" });
    live.take(Seen::Applied(job(value.clone())));
    live.take(Seen::Applied(pod(owned(pod_value("p", "p1"), "Job", "j", "j1"))));
    assert_eq!(said(&mut live), Vec::<String>::new());
    for kind in Kind::all(&config) {
        if !matches!(kind, Kind::Job | Kind::Pod) {
            live.take(Seen::Listing(kind));
        }
        live.take(Seen::Complete(kind));
    }
    let count =
        r#"Job ns/j: capstan.sh/min-member: "some" is not a count above zero; it is ignored"#;
    let alone = "Job ns/j: is suspended and names no queue: left alone (label capstan.sh/queue; \
                 a default LocalQueue does not take suspended Jobs)";
    assert_eq!(said(&mut live), [count, alone]);
    value["metadata"]["annotations"]["capstan.sh/suspended"] = "0".into();
    live.take(Seen::Applied(job(value.clone())));
    live.take(Seen::Applied(pod(owned(pod_value("q", "q1"), "Job", "j", "j1"))));
    assert_eq!(said(&mut live), Vec::<String>::new());
    live.take(Seen::Deleted(job(value)));
    told(&mut live);
    live.take(Seen::Applied(job(job_value("j", "j2"))));
    assert_eq!(said(&mut live), Vec::<String>::new());
}

#[test]
fn members_of_a_gang_that_ask_for_different_things_are_noticed_across_time() {
    let mut live = synced(&Config::default());
    for (name, queue, level) in [("p", "one", "a"), ("q", "one", "a"), ("r", "two", "b")] {
        let mut value = pod_value(name, name);
        value["metadata"]["labels"] = json!({ "capstan.sh/gang": "g", "capstan.sh/queue": queue });
        value["metadata"]["annotations"] = json!({ "capstan.sh/required-topology": level });
        live.take(Seen::Applied(pod(value)));
        let notices = said(&mut live);
        let queues = "gang ns/g: its pods name different queues (one, two); name the same on all";
        let levels = "gang ns/g: its pods ask for different topology levels or slices; those of \
                      the first hold for all, as capstan.sh annotations are of the whole gang";
        let want = if name == "r" { vec![queues, levels] } else { Vec::new() };
        assert_eq!(notices, want);
    }
}

#[test]
fn work_without_a_creation_time_began_when_it_was_told_first() {
    let mut live = live();
    let mut value = pod_value("p", "p1");
    value["metadata"]["creationTimestamp"] = Value::Null;
    live.take(Seen::Applied(pod(value.clone())));
    assert_eq!(the_pod(&live.drain(Time(5)).inputs).created, Time(5));
    value["spec"]["nodeName"] = "n".into();
    live.take(Seen::Applied(pod(value)));
    assert_eq!(the_pod(&live.drain(Time(9)).inputs).created, Time(5));
    assert_eq!(the_pod(&live.everything(Time(9))).created, Time(5));
}

#[test]
fn texts_of_objects_that_are_gone_are_forgotten() {
    let mut live = live();
    for index in 0..20_000 {
        let mut value = pod_value("p", &format!("u{index}"));
        value["metadata"]["labels"] = json!({ "capstan.sh/gang": format!("g{index}") });
        live.take(Seen::Applied(pod(value)));
        live.drain(NOW);
    }
    assert!(live.shared.len() < 6_000, "{}", live.shared.len());
    assert!(live.firsts.len() < 6_000, "{}", live.firsts.len());
}

#[test]
fn pods_wait_while_nobody_knows_their_owner() {
    let mut live = synced(&Config::default());
    let alone = |live: &mut Live| {
        let inputs = told(live);
        the_pod(&inputs).gang.unknown_owner.clone()
    };
    // Watches are apart: a pod may be seen before its Job, and after the Job is gone.
    live.take(Seen::Applied(pod(owned(pod_value("j-0", "p1"), "Job", "j", "u-j"))));
    assert_eq!(alone(&mut live).as_deref(), Some("Job j"));
    live.take(Seen::Applied(job(job_value("j", "u-j"))));
    assert_eq!(alone(&mut live), None);
    live.take(Seen::Deleted(job(job_value("j", "u-j"))));
    live.take(Seen::Applied(job(job_value("j", "another"))));
    assert_eq!(alone(&mut live).as_deref(), Some("Job j"), "it is another Job's name now");
    // What is above the owner counts as well.
    let set = owned(json!({ "metadata": meta("r", "u-r") }), "Deployment", "d", "u-d");
    live.take(Seen::Applied(owner(Kind::ReplicaSet, set)));
    live.take(Seen::Applied(pod(owned(pod_value("r-0", "p2"), "ReplicaSet", "r", "u-r"))));
    assert_eq!(alone(&mut live).as_deref(), Some("Deployment d"));
    let deployment = json!({ "metadata": meta("d", "u-d") });
    live.take(Seen::Applied(owner(Kind::Deployment, deployment)));
    assert_eq!(alone(&mut live), None);
}

#[test]
fn owners_of_kinds_that_nobody_reads_are_not_waited_for() {
    let mut live = synced(&Config::default());
    let of_group = |group: &str| {
        let mut value = owned(pod_value("v-0", "p1"), "Job", "v", "u-v");
        value["metadata"]["ownerReferences"][0]["apiVersion"] = format!("{group}/v1").into();
        pod(value)
    };
    live.take(Seen::Applied(of_group("batch.example.com")));
    let inputs = told(&mut live);
    assert_eq!(the_pod(&inputs).gang.unknown_owner, None);
    // Volcano's Jobs are read.
    live.take(Seen::Applied(of_group("batch.volcano.sh")));
    let inputs = told(&mut live);
    let volcanos = the_pod(&inputs).gang.unknown_owner.as_deref();
    assert_eq!(volcanos, Some("Job.batch.volcano.sh v"));
    live.take(Seen::Applied(pod(owned(pod_value("w-0", "p2"), "RayCluster", "w", "u-w"))));
    let inputs = told(&mut live);
    assert_eq!(the_pod(&inputs).gang.unknown_owner, None);
}
