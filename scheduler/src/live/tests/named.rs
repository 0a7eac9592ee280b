//! Who hears of the others in a gang that is named for its pods, before there are any and as those
//! of another scheduler come and end.

use capstan_core::model::input::{GangSource, Held};

use super::groups::{gang, of_pod, owner_named};
use super::*;
use crate::gangs::kinds::Kind as Of;

/// A Job without pods is held as its pods would be, whoever else names the gang that it, its
/// template or its owner names for them.
#[test]
fn a_job_hears_of_who_else_is_in_the_gang_that_is_named_for_its_pods() {
    let label = json!({ "capstan.sh/gang": "x" });
    let group = json!({ "scheduling.x-k8s.io/pod-group": "x" });
    let alone = || {
        let mut value = job_value("j", "j");
        value["spec"]["template"]["spec"]["schedulerName"] = "capstan".into();
        value
    };
    let mut own = alone();
    own["metadata"]["annotations"] = label.clone();
    let mut of_template = alone();
    of_template["spec"]["template"]["metadata"] = json!({ "labels": label });
    let by_owner = owned(alone(), "Job", "top", "top");
    let mut of_group = alone();
    of_group["spec"]["template"]["metadata"] = json!({ "labels": group });
    for (names, value) in
        [(&label, own), (&label, of_template), (&label, by_owner), (&group, of_group)]
    {
        let member = |name: &str, scheduler: &str| {
            let mut value = pod_value(name, name);
            value["metadata"]["labels"] = names.clone();
            value["spec"]["schedulerName"] = scheduler.into();
            pod(value)
        };
        let mut live = synced(&Config::default());
        let held = |live: &mut Live| {
            let inputs = told(live);
            let owner = owner_named(&inputs, "j").expect("told").clone();
            owner.member_of.and_then(|gang| gang.held)
        };
        let mut top = job_value("top", "top");
        top["metadata"]["annotations"] = label.clone();
        live.take(Seen::Applied(gang(Of::PluginsGroup, "x", json!({ "minMember": 2 }), json!({}))));
        live.take(Seen::Applied(job(value.clone())));
        live.take(Seen::Applied(job(top.clone())));
        assert_eq!(held(&mut live), None, "{value}");
        live.take(Seen::Applied(member("p", "capstan")));
        live.take(Seen::Applied(member("q", "other")));
        assert_eq!(held(&mut live), Some(Held::ForeignMembers(1)), "{value}");
        live.take(Seen::Deleted(member("q", "other")));
        assert_eq!(held(&mut live), None, "{value}");
        live.take(Seen::Deleted(job(value)));
        told(&mut live);
        live.take(Seen::Deleted(job(top)));
        let of = ("capstan.sh/gang".into(), "ns".into(), "x".into());
        assert!(live.below.all(&of).owners.is_empty());
    }
}

/// What another scheduler's part of an owner has done is nobody any more for whom the rest waits.
#[test]
fn a_member_hears_how_far_the_part_for_another_scheduler_is() {
    let set = |done: u32| {
        let jobs = |name: &str, scheduler: &str| {
            let pods = json!({ "spec": { "schedulerName": scheduler, "containers": [{}] } });
            json!({ "name": name, "replicas": 2,
                "template": { "spec": { "parallelism": 1, "template": pods } } })
        };
        let mut meta = meta("s", "u-s");
        meta["annotations"] = json!({ "capstan.sh/gang": "x" });
        let spec = json!({ "replicatedJobs": [jobs("w", "capstan"), jobs("v", "other")] });
        let status = json!({ "replicatedJobsStatus": [{ "name": "v", "succeeded": done }] });
        let value = json!({ "metadata": meta, "spec": spec, "status": status });
        Object::Gang(Of::JobSet, Box::new(value))
    };
    let mut member = pod_value("p", "p");
    member["metadata"]["ownerReferences"] = json!([{ "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet", "name": "s", "uid": "u-s", "controller": true }]);
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(set(0)));
    live.take(Seen::Applied(pod(member)));
    assert_eq!(of_pod(&mut live, "p").held, Some(Held::ForeignMembers(2)));
    live.take(Seen::Applied(set(1)));
    assert_eq!(of_pod(&mut live, "p").held, Some(Held::ForeignMembers(1)));
    live.take(Seen::Applied(set(2)));
    assert_eq!(of_pod(&mut live, "p").held, None);
}

/// A webhook may give pods their scheduler: templates that name nobody hold none of them.
#[test]
fn templates_that_name_nobody_hold_no_pods_that_are_ours() {
    for scheduler in [Value::Null, json!("default-scheduler")] {
        let pods = json!({ "spec": { "schedulerName": scheduler, "containers": [{}] } });
        let roles = json!({ "Worker": { "replicas": 2, "template": pods } });
        let spec = json!({ "pytorchReplicaSpecs": roles });
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::PyTorchJob, "t", spec, json!({}))));
        let mut value = pod_value("p", "p");
        value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob", "name": "t", "uid": "u-t", "controller": true }]);
        live.take(Seen::Applied(pod(value)));
        let of = of_pod(&mut live, "p");
        assert_eq!((of.min_member, of.held), (Some(2), None));
    }
}

/// Whoever suspended it for want of room has to resume it.
#[test]
fn a_job_that_we_suspended_is_ours_though_its_template_names_nobody() {
    let ours = |scheduler: &str, marks: Value| {
        let mut value = job_value("j", "j");
        value["metadata"]["annotations"] = marks;
        value["spec"]["suspend"] = true.into();
        value["spec"]["template"]["spec"]["schedulerName"] = scheduler.into();
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(job(value)));
        owner_named(&told(&mut live), "j").map(|owner| owner.ours)
    };
    let marked = || json!({ "capstan.sh/suspended": "1" });
    assert_eq!(ours("default-scheduler", marked()), Some(true));
    assert_eq!(ours("default-scheduler", json!({})), Some(false));
    assert_eq!(ours("other", marked()), Some(false));
}

/// Pods may be ours whatever their templates say; who is not resumed must not be suspended.
#[test]
fn who_names_another_scheduler_is_not_to_be_suspended() {
    let template =
        |scheduler: &str| json!({ "spec": { "schedulerName": scheduler, "containers": [{}] } });
    for (scheduler, suspended) in [("capstan", true), ("default-scheduler", true), ("other", false)]
    {
        let mut live = synced(&Config::default());
        let mut value = job_value("j", "j");
        value["spec"]["template"] = template(scheduler);
        live.take(Seen::Applied(job(value)));
        let roles = json!({ "Worker": { "replicas": 2, "template": template(scheduler) } });
        let spec = json!({ "pytorchReplicaSpecs": roles });
        live.take(Seen::Applied(gang(Of::PyTorchJob, "t", spec, json!({}))));
        let inputs = told(&mut live);
        for name in ["j", "t"] {
            let owner = owner_named(&inputs, name).expect("told");
            assert_eq!(owner.may_be_suspended(), suspended, "{scheduler} {name}");
        }
    }
}

/// Whose pods the roles of an owner of another project are is asked again under another name.
#[test]
fn another_scheduler_name_is_heard_by_owners_of_other_projects() {
    let pods = json!({ "spec": { "schedulerName": "other", "containers": [{}] } });
    let jobs = json!([{ "name": "w", "replicas": 1,
        "template": { "spec": { "parallelism": 1, "template": pods } } }]);
    let spec = json!({ "replicatedJobs": jobs });
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::JobSet, "s", spec, json!({}))));
    let ours = |live: &mut Live| {
        let inputs = told(live);
        owner_named(&inputs, "s").map(|owner| owner.ours)
    };
    assert_ne!(ours(&mut live), Some(true));
    live.reconfigure(&Config { scheduler_name: "other".into(), ..Config::default() });
    assert_eq!(ours(&mut live), Some(true));
    live.reconfigure(&Config::default());
    assert_ne!(ours(&mut live), Some(true));
}

/// Where a group has all that it says it has without those of another scheduler, that is said once;
/// the engine decides what follows.
#[test]
fn pods_of_another_scheduler_beyond_the_number_of_their_group_are_told() {
    let member = |name: &str, scheduler: &str| {
        let mut value = pod_value(name, name);
        value["metadata"]["labels"] = json!({ "kueue.x-k8s.io/pod-group-name": "g" });
        value["metadata"]["annotations"] = json!({ "kueue.x-k8s.io/pod-group-total-count": "2" });
        value["spec"]["schedulerName"] = scheduler.into();
        pod(value)
    };
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(member("a", "capstan")));
    live.take(Seen::Applied(member("x", "other")));
    assert_eq!(said(&mut live), Vec::<String>::new(), "it may be the other one");
    live.take(Seen::Applied(member("b", "capstan")));
    let one = "gang ns/g: 1 pod beyond its pod-group-total-count of 2 names another scheduler: \
               left alone, and not waited for";
    assert_eq!(said(&mut live), [one]);
    live.take(Seen::Applied(member("b", "capstan")));
    assert_eq!(said(&mut live), Vec::<String>::new(), "once");
    live.take(Seen::Applied(member("y", "other")));
    let two = "gang ns/g: 2 pods beyond its pod-group-total-count of 2 name another scheduler: \
               left alone, and not waited for";
    assert_eq!(said(&mut live), [two]);
}

/// A running pod of the group `x`, whoever made it.
fn in_group(made_by: Option<&str>, annotations: Value) -> Object {
    let mut value = pod_value("p", "p1");
    if let Some(kind) = made_by {
        value = owned(value, kind, "o", "o1");
    }
    value["metadata"]["annotations"] = annotations;
    value["spec"]["schedulingGroup"] = json!({ "podGroupName": "x" });
    value["spec"]["nodeName"] = "n".into();
    pod(value)
}

/// Jobs count pods that are deleted; what operators make they make for all.
#[test]
fn members_may_leave_singly_unless_their_group_or_their_owner_minds() {
    let basic = json!({ "basic": {} });
    for (mode, made_by, annotations, singly) in [
        (Value::Null, None, json!({}), true),
        (json!({ "single": {} }), None, json!({}), true),
        (json!({ "all": {} }), None, json!({}), false),
        (json!("Pod"), None, json!({}), true),
        (json!("PodGroup"), None, json!({}), false),
        (Value::Null, Some("ReplicaSet"), json!({}), true),
        (Value::Null, Some("StatefulSet"), json!({}), true),
        (Value::Null, Some("Job"), json!({}), false),
        (Value::Null, Some("Thing"), json!({}), false),
        (Value::Null, None, json!({ "spark-role": "driver" }), false),
    ] {
        let mut live = synced(&Config::default());
        let spec = json!({ "schedulingPolicy": basic, "disruptionMode": mode });
        live.take(Seen::Applied(gang(Of::UpstreamGroup, "x", spec, json!({}))));
        live.take(Seen::Applied(in_group(made_by, annotations.clone())));
        let told = of_pod(&mut live, "p");
        assert_eq!(told.singly, singly, "{mode} {made_by:?} {annotations}");
        assert!(told.by_itself, "who is in no gang stops others by itself");
    }
    // Of a group that nobody knows nobody knows what it needs.
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(in_group(None, json!({}))));
    assert!(!of_pod(&mut live, "p").singly);
}

#[test]
fn who_leaves_its_group_by_itself_is_a_pod_of_its_own_while_it_bears_the_mark() {
    let mut live = synced(&Config::default());
    let spec = json!({ "schedulingPolicy": { "gang": { "minCount": 2 } } });
    live.take(Seen::Applied(gang(Of::UpstreamGroup, "x", spec, json!({}))));
    let leaves = |annotations: Value| {
        let mut object = in_group(None, annotations);
        if let Object::Pod(pod) = &mut object {
            pod.metadata.deletion_timestamp = pod.metadata.creation_timestamp.clone();
        }
        object
    };
    let by = json!({ "capstan.sh/preempted-by": "ns/hi" });
    let alone = json!({ "capstan.sh/preempted-by": "ns/hi", "capstan.sh/preempted-alone": "true" });
    let member = (GangSource::SchedulingGroup, Some(2));
    for (object, want) in [
        (in_group(None, json!({})), member),
        // With all others, or so it says.
        (leaves(by), member),
        (leaves(alone.clone()), (GangSource::Pod, Some(1))),
        // Nobody stopped it: what it says was there before, or is old.
        (in_group(None, alone), member),
    ] {
        live.take(Seen::Applied(object));
        let told = of_pod(&mut live, "p");
        assert_eq!((told.source, told.min_member), want);
    }
}
