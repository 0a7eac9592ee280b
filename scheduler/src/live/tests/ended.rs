//! Pods that ended: who of them is there still, and who is gone.

use capstan_core::Input;
use capstan_core::model::input::PodPhase;
use serde_json::{Value, json};

use super::{NOW, job, job_value, owned, pod, pod_value, pods, synced, the_pod, told};
use crate::config::Config;
use crate::gangs::kinds::Kind as Of;
use crate::live::{Kind, Live, Object, Seen};

/// What pods say to be in a gang.
fn gangs() -> [(&'static str, Value); 5] {
    [
        ("of Kubernetes", json!({ "spec": { "schedulingGroup": { "podGroupName": "g" } } })),
        ("of scheduler-plugins", labels(json!({ "scheduling.x-k8s.io/pod-group": "g" }))),
        (
            "of Volcano",
            json!({ "metadata": { "annotations": { "scheduling.k8s.io/group-name": "g" } } }),
        ),
        ("our own", labels(json!({ "capstan.sh/gang": "g" }))),
        ("of Kueue", labels(json!({ "kueue.x-k8s.io/pod-group-name": "g" }))),
    ]
}

fn labels(labels: Value) -> Value {
    json!({ "metadata": { "labels": labels } })
}

/// A pod that says this of itself, in a phase.
fn member(name: &str, says: &Value, phase: &str) -> Value {
    let mut value = pod_value(name, name);
    for (part, fields) in says.as_object().expect("fields") {
        for (field, said) in fields.as_object().expect("fields") {
            value[part][field] = said.clone();
        }
    }
    value["spec"]["nodeName"] = "n".into();
    value["status"] = json!({ "phase": phase });
    value
}

fn of_job(value: Value) -> Value {
    owned(value, "Job", "j", "j1")
}

fn gone(uid: &str) -> Input {
    Input::PodGone(uid.into())
}

fn ended(uid: &str, well: bool) -> Input {
    Input::PodEnded { pod: uid.into(), well }
}

/// What is told of a pod that ran, once it looks like this.
fn after(live: &mut Live, runs: Value, ended: Value) -> Vec<Input> {
    live.take(Seen::Applied(pod(runs)));
    told(live);
    live.take(Seen::Applied(pod(ended)));
    told(live)
}

#[test]
fn members_that_ended_stay_until_they_are_deleted() {
    for (which, says) in gangs() {
        for (phase, ended) in [("Succeeded", PodPhase::Succeeded), ("Failed", PodPhase::Failed)] {
            let mut live = synced(&Config::default());
            let value = member("p", &says, phase);
            let inputs = after(&mut live, member("p", &says, "Running"), value.clone());
            assert_eq!(the_pod(&inputs).phase, ended, "{which}");
            let mut deleted = value.clone();
            deleted["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z".into();
            live.take(Seen::Applied(pod(deleted.clone())));
            assert_eq!(told(&mut live)[0], gone("p"), "{which}");
            live.take(Seen::Deleted(pod(deleted)));
            assert!(told(&mut live).is_empty(), "{which}");
        }
    }
}

#[test]
fn who_is_stopped_and_fails_for_a_moment_is_gone() {
    let (_, says) = &gangs()[1];
    let mut live = synced(&Config::default());
    let mut value = member("p", says, "Failed");
    value["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z".into();
    let inputs = after(&mut live, member("p", says, "Running"), value);
    assert_eq!(inputs[0], gone("p"));
}

#[test]
fn who_ended_while_it_was_marked_is_stopped_by_nobody() {
    let (_, says) = &gangs()[0];
    let marked = |phase| {
        let mut value = member("p", says, phase);
        value["metadata"]["annotations"] = json!({ "capstan.sh/preempted-by": "ns/w" });
        value["status"]["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler" }]);
        value
    };
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(pod(marked("Running"))));
    assert!(the_pod(&told(&mut live)).eviction.is_some());
    live.take(Seen::Applied(pod(marked("Succeeded"))));
    let inputs = told(&mut live);
    let facts = the_pod(&inputs);
    assert_eq!((facts.phase, &facts.eviction), (PodPhase::Succeeded, &None));
}

#[test]
fn members_that_ended_stay_whoever_made_them_but_what_is_made_again_in_any_case() {
    for (at, (which, says)) in gangs().into_iter().enumerate() {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(job(job_value("j", "j1"))));
        let runs = of_job(member("p", &says, "Running"));
        let inputs = after(&mut live, runs, of_job(member("p", &says, "Succeeded")));
        let facts = the_pod(&inputs);
        let seen = (facts.phase, facts.of_job.as_deref());
        assert_eq!(seen, (PodPhase::Succeeded, Some("j1")), "{which}");

        let mut live = synced(&Config::default());
        let serves = |phase| owned(member("p", &says, phase), "ReplicaSet", "r", "r1");
        let inputs = after(&mut live, serves("Running"), serves("Succeeded"));
        let stays = !pods(&inputs).is_empty();
        assert_eq!(stays, at < 3, "{which}: {inputs:?}");
        assert_eq!(inputs.contains(&ended("p", true)), !stays, "{which}");
    }
    // The Job says itself of its own gang how much of it is done, a while after this.
    let own = |phase| of_job(member("p", &json!({}), phase));
    for (phase, well) in [("Succeeded", true), ("Failed", false)] {
        let mut live = synced(&Config::default());
        assert_eq!(after(&mut live, own("Running"), own(phase))[0], ended("p", well));
        // Its object goes, which says nothing more.
        live.take(Seen::Deleted(pod(own(phase))));
        assert!(told(&mut live).is_empty());
        // Who is stopped ends because of that.
        let mut live = synced(&Config::default());
        let mut stopped = own(phase);
        stopped["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z".into();
        assert_eq!(after(&mut live, own("Running"), stopped)[0], gone("p"));
    }
    // Of one that is not read nothing is known.
    let (_, says) = &gangs()[3];
    let flow = |phase| owned(member("p", says, phase), "Workflow", "w", "w1");
    let mut live = synced(&Config::default());
    assert_eq!(
        the_pod(&after(&mut live, flow("Running"), flow("Succeeded"))).phase,
        PodPhase::Succeeded
    );
}

#[test]
fn pods_of_their_own_and_those_of_others_are_gone_once_they_ended() {
    let mut live = synced(&Config::default());
    let alone = |phase| member("p", &json!({}), phase);
    assert_eq!(after(&mut live, alone("Running"), alone("Succeeded"))[0], gone("p"));
    for (which, says) in gangs() {
        let others = |phase| {
            let mut value = member("q", &says, phase);
            value["spec"]["schedulerName"] = "other".into();
            value
        };
        let inputs = after(&mut live, others("Running"), others("Succeeded"));
        assert_eq!(inputs[0], gone("q"), "{which}");
    }
    assert_eq!(live.count(Kind::Pod), 0, "nothing is kept");
    assert!(live.directory.cast.is_empty());
}

/// Whichever of them is seen first, as after a restart.
#[test]
fn a_job_is_known_to_its_members_that_ended_once_it_is_seen() {
    let (_, says) = &gangs()[3];
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(pod(of_job(member("p", says, "Succeeded")))));
    assert_eq!(the_pod(&told(&mut live)).of_job, None);
    live.take(Seen::Applied(job(job_value("j", "j1"))));
    assert_eq!(the_pod(&told(&mut live)).of_job.as_deref(), Some("j1"));
}

/// A list names all of them, in whichever order pods under one name came and went.
#[test]
fn a_list_shows_who_ended_and_counts_the_same() {
    let (_, says) = &gangs()[3];
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(pod(member("b", &json!({}), "Running"))));
    live.take(Seen::Applied(pod(member("c", says, "Running"))));
    told(&mut live);
    live.take(Seen::Listing(Kind::Pod));
    for value in [member("a", says, "Succeeded"), member("c", says, "Running")] {
        live.take(Seen::Listed(pod(value)));
    }
    // Another one under its name, that ended before anybody saw it.
    let mut again = member("b", &json!({}), "Succeeded");
    again["metadata"]["uid"] = "b2".into();
    live.take(Seen::Listed(pod(again)));
    live.take(Seen::Complete(Kind::Pod));
    let inputs = told(&mut live);
    assert_eq!(inputs[0], gone("b"));
    assert_eq!(the_pod(&inputs).phase, PodPhase::Succeeded, "a ended");
    let all = live.everything(NOW);
    let mut all: Vec<(&str, bool)> =
        pods(&all).iter().map(|pod| (&*pod.name, pod.phase.terminal())).collect();
    all.sort_unstable();
    assert_eq!(all, [("a", true), ("c", false)]);
}

#[test]
fn who_ended_is_nobodys_under_another_scheduler_name() {
    let (_, says) = &gangs()[0];
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(pod(member("p", says, "Succeeded"))));
    assert_eq!(the_pod(&told(&mut live)).phase, PodPhase::Succeeded);
    live.reconfigure(&Config { scheduler_name: "other".into(), ..Config::default() });
    assert_eq!(told(&mut live)[0], gone("p"));
    assert_eq!(live.count(Kind::Pod), 0);
}

/// A PodGroup of Volcano's, owned by a Job of ours.
fn volcano(live: &mut Live, uid: &str, phase: &str) {
    let of = "batch.volcano.sh/v1alpha1";
    let by = json!([{ "apiVersion": of, "kind": "Job", "name": "v", "uid": "v1",
        "controller": true }]);
    let job = json!({ "metadata": { "name": "v", "namespace": "ns", "uid": "v1" },
        "spec": { "schedulerName": "capstan" } });
    let group = json!({
        "metadata": { "name": "g", "namespace": "ns", "uid": uid, "ownerReferences": by },
        "spec": { "minMember": 2 },
        "status": { "phase": phase },
    });
    live.take(Seen::Applied(Object::Gang(Of::VolcanoJob, Box::new(job))));
    live.take(Seen::Applied(Object::Gang(Of::VolcanoGroup, Box::new(group))));
}

#[test]
fn a_group_that_is_made_again_beside_pods_that_ended_is_let_in() {
    let (_, says) = &gangs()[2];
    let shut = |live: &Live| -> Vec<String> {
        live.shut_groups().map(|group| group.uid.to_string()).collect()
    };
    let mut live = synced(&Config::default());
    volcano(&mut live, "g1", "Pending");
    assert_eq!(shut(&live), ["g1"]);
    live.take(Seen::Applied(pod(member("p", says, "Running"))));
    assert_eq!(shut(&live), [""; 0]);
    live.take(Seen::Applied(pod(member("p", says, "Succeeded"))));
    volcano(&mut live, "g2", "Pending");
    assert_eq!(shut(&live), ["g2"]);
    let group = live.group(Of::VolcanoGroup, &"ns".into(), &"g".into()).expect("seen");
    assert_eq!(live.ended_in(&crate::gangs::groups::key_of(group)), (1, 0));
}
