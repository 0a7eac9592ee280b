//! PodGroups and owners of other projects that come, change and go while their pods are there.

use capstan_core::model::input::{GangRef, GangSource, Held, OwnerFacts};

use super::*;
use crate::gangs::kinds::Kind as Of;

pub(super) fn gang(of: Of, name: &str, spec: Value, status: Value) -> Object {
    let uid = format!("u-{name}");
    Object::Gang(
        of,
        Box::new(json!({ "metadata": meta(name, &uid), "spec": spec,
        "status": status })),
    )
}

fn group(least: Value) -> Object {
    gang(Of::PluginsGroup, "g", json!({ "minMember": least }), json!({}))
}

fn member(name: &str, scheduler: &str) -> Object {
    let mut value = pod_value(name, name);
    value["metadata"]["labels"] = json!({ "scheduling.x-k8s.io/pod-group": "g" });
    value["spec"]["schedulerName"] = scheduler.into();
    pod(value)
}

fn job_set(suspend: bool, status: Value) -> Object {
    let pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let jobs = json!({ "name": "w", "replicas": 2,
        "template": { "spec": { "parallelism": 2, "template": pods } } });
    let spec = json!({ "suspend": suspend, "replicatedJobs": [jobs] });
    gang(Of::JobSet, "s", spec, status)
}

/// A Job of the set, and what is above it.
fn of_set(number: u32, succeeded: u32) -> Object {
    let name = format!("s-w-{number}");
    let mut value = job_value(&name, &name);
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet", "name": "s", "uid": "u-s", "controller": true }]);
    value["status"] = json!({ "succeeded": succeeded });
    job(value)
}

fn gangs(inputs: &[Input]) -> Vec<&GangRef> {
    pods(inputs).into_iter().map(|pod| &pod.gang).collect()
}

pub(super) fn owner_named<'a>(inputs: &'a [Input], name: &str) -> Option<&'a OwnerFacts> {
    inputs.iter().find_map(|input| match input {
        Input::Owner(owner) if *owner.name == *name => Some(owner),
        _ => None,
    })
}

#[test]
fn members_hear_of_a_group_that_comes_changes_and_goes() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(member("p", "capstan")));
    let missing = Held::GroupMissing("PodGroup g (scheduling.x-k8s.io)".into());
    let inputs = told(&mut live);
    let first = gangs(&inputs)[0];
    assert_eq!((first.source, &first.held), (GangSource::PodGroup, &Some(missing.clone())));
    for least in [2, 3] {
        live.take(Seen::Applied(group(json!(least))));
        let inputs = told(&mut live);
        let told = gangs(&inputs)[0];
        assert_eq!((told.min_member, &told.held), (Some(least), &None));
    }
    live.take(Seen::Applied(group(json!(3))));
    assert!(told(&mut live).is_empty(), "nothing changed");
    live.take(Seen::Absent(Kind::Gang(Of::PluginsGroup)));
    let inputs = told(&mut live);
    let gone = gangs(&inputs)[0];
    assert_eq!((gone.min_member, &gone.held), (Some(1), &Some(missing)), "what runs goes on");
}

#[test]
fn what_is_odd_about_a_group_is_said_once() {
    let mut live = synced(&Config::default());
    let says = "PodGroup ns/g: spec.minMember: \"x\" is not a count of zero or more; it is ignored";
    live.take(Seen::Applied(group(json!("x"))));
    assert_eq!(said(&mut live), [says]);
    live.take(Seen::Applied(group(json!("x"))));
    assert_eq!(said(&mut live), [""; 0]);
}

#[test]
fn a_gang_is_held_while_a_member_names_another_scheduler() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(group(json!(2))));
    live.take(Seen::Applied(member("p", "capstan")));
    assert_eq!(gangs(&told(&mut live))[0].held, None);
    live.take(Seen::Applied(member("q", "other")));
    assert_eq!(gangs(&told(&mut live))[0].held, Some(Held::ForeignMembers(1)));
    live.take(Seen::Deleted(member("q", "other")));
    assert_eq!(gangs(&told(&mut live))[0].held, None);
}

#[test]
fn a_job_set_is_one_workload_and_its_jobs_are_none() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(of_set(0, 0)));
    live.take(Seen::Applied(job_set(false, json!({}))));
    let inputs = told(&mut live);
    let set = owner_named(&inputs, "s").expect("told");
    assert!(set.ours && set.min_member == 4 && set.left == Some(4));
    let job = owner_named(&inputs, "s-w-0").expect("told");
    assert!(job.member_of.is_some() && job.pod_sets[0].count == 0, "{job:?}");
    // What its Jobs have done counts for the set, and for nobody else.
    live.take(Seen::Applied(of_set(0, 1)));
    let inputs = told(&mut live);
    let set = owner_named(&inputs, "s").expect("told");
    assert_eq!((set.min_member, set.ended, set.left), (3, 1, Some(3)));
}

/// A set of two Jobs of two pods whose Jobs have domains to themselves, as written at one of two
/// places.
fn exclusive(place: &str, annotations: Value, suspend: bool) -> Object {
    let pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let mut spec = json!({ "suspend": suspend, "replicatedJobs": [{ "name": "w", "replicas": 2,
        "template": { "spec": { "parallelism": 2, "template": pods } } }] });
    if place == "job" {
        spec["replicatedJobs"][0]["template"]["metadata"] = json!({ "annotations": annotations });
        return gang(Of::JobSet, "s", spec, json!({}));
    }
    let mut set = gang(Of::JobSet, "s", spec, json!({}));
    if let Object::Gang(_, value) = &mut set {
        value["metadata"]["annotations"] = annotations;
    }
    set
}

#[test]
fn first_pods_that_choose_a_domain_do_not_wait_for_those_that_are_made_after_them() {
    let chooses = json!({ "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack" });
    let mut labelled = chooses.clone();
    labelled["alpha.jobset.sigs.k8s.io/node-selector"] = json!("true");
    for (place, annotations, suspend, least) in [
        ("set", &chooses, false, 2),
        ("job", &chooses, false, 2),
        // It starts when there is room for all that it will have.
        ("set", &chooses, true, 4),
        ("set", &labelled, false, 4),
        ("job", &json!({}), false, 4),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(of_set(0, 0)));
        live.take(Seen::Applied(exclusive(place, annotations.clone(), suspend)));
        live.take(Seen::Applied(pod(owned(pod_value("p", "p"), "Job", "s-w-0", "s-w-0"))));
        let inputs = told(&mut live);
        let set = owner_named(&inputs, "s").expect("told");
        let told = (set.min_member, gangs(&inputs)[0].min_member, set.left);
        assert_eq!(told, (least, Some(least), Some(4)), "{place} {annotations} {suspend}");
    }
}

#[test]
fn a_try_of_a_job_set_is_a_gang_of_its_own() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(job_set(false, json!({}))));
    live.take(Seen::Applied(of_set(0, 0)));
    let of_try = |name: &str, attempt: &str| {
        let mut value = owned(pod_value(name, name), "Job", "s-w-0", "s-w-0");
        value["metadata"]["labels"] = json!({ "jobset.sigs.k8s.io/restart-attempt": attempt });
        pod(value)
    };
    live.take(Seen::Applied(of_try("p", "0")));
    live.take(Seen::Applied(of_try("q", "1")));
    let inputs = told(&mut live);
    let keys: Vec<&GangKey> = gangs(&inputs).into_iter().map(|gang| &gang.key).collect();
    let key = |run| GangKey::Owner("u-s".into(), run);
    assert_eq!(keys, [&key(0), &key(1)]);
    let active = json!({ "restarts": 1, "replicatedJobsStatus": [{ "name": "w", "active": 1 }] });
    live.take(Seen::Applied(job_set(false, active)));
    assert_eq!(owner_named(&told(&mut live), "s").expect("told").incarnation, 1);
}

#[test]
fn how_far_an_owner_is_does_not_concern_its_pods() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(job_set(false, json!({}))));
    live.take(Seen::Applied(of_set(0, 0)));
    live.take(Seen::Applied(pod(owned(pod_value("p", "p"), "Job", "s-w-0", "s-w-0"))));
    told(&mut live);
    let status = json!({ "replicatedJobsStatus": [{ "name": "w", "active": 2, "ready": 1 }] });
    live.take(Seen::Applied(job_set(false, status)));
    let inputs = told(&mut live);
    assert!(pods(&inputs).is_empty() && owner_named(&inputs, "s").is_some());
    live.take(Seen::Applied(job_set(true, json!({}))));
    assert_eq!(pods(&told(&mut live)).len(), 1, "a run that ends concerns them");
}

fn volcano(name: &str, owner: Option<(&str, &str)>, status: Value) -> Object {
    let mut meta = meta(name, &format!("u-{name}"));
    if let Some((version, name)) = owner {
        let kind = if version.starts_with("kubeflow") { "PyTorchJob" } else { "Job" };
        meta["ownerReferences"] = json!([{ "apiVersion": version, "kind": kind, "name": name,
            "uid": format!("u-{name}"), "controller": true }]);
    }
    let tasks = json!({ "ps": 1, "worker": 2, "none": 0 });
    let spec = json!({ "minMember": 3, "minTaskMember": tasks });
    let value = json!({ "metadata": meta, "spec": spec, "status": status });
    Object::Gang(Of::VolcanoGroup, Box::new(value))
}

#[test]
fn groups_without_pods_are_let_in_if_their_owner_says_that_those_will_be_ours() {
    let mut live = synced(&Config::default());
    let of_volcano = "batch.volcano.sh/v1alpha1";
    let shut = |live: &Live| -> Vec<String> {
        live.shut_groups().map(|group| group.name.to_string()).collect()
    };
    live.take(Seen::Applied(volcano("ours", Some((of_volcano, "ours")), json!({}))));
    let pending = || json!({ "phase": "Pending" });
    live.take(Seen::Applied(volcano("theirs", Some((of_volcano, "theirs")), pending())));
    live.take(Seen::Applied(volcano("train", Some(("kubeflow.org/v1", "train")), pending())));
    live.take(Seen::Applied(volcano("nobodys", None, pending())));
    assert_eq!(shut(&live), [""; 0], "their owners are not known yet");
    let job = |name: &str, scheduler: &str| {
        gang(Of::VolcanoJob, name, json!({ "schedulerName": scheduler }), json!({}))
    };
    live.take(Seen::Applied(job("ours", "capstan")));
    live.take(Seen::Applied(job("theirs", "volcano")));
    let pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let roles = json!({ "pytorchReplicaSpecs": { "Worker": { "template": pods } } });
    live.take(Seen::Applied(gang(Of::PyTorchJob, "train", roles, json!({}))));
    assert_eq!(shut(&live), ["ours", "train"]);
    // With pods it is these that are told of, and with another phase nothing is to be done.
    let mut member = pod_value("p", "p");
    member["metadata"]["annotations"] = json!({ "scheduling.k8s.io/group-name": "train" });
    live.take(Seen::Applied(pod(member)));
    assert_eq!(shut(&live), ["ours"]);
    let inqueue = json!({ "phase": "Inqueue" });
    live.take(Seen::Applied(volcano("ours", Some((of_volcano, "ours")), inqueue)));
    assert_eq!(shut(&live), [""; 0]);
}

#[test]
fn members_are_told_their_role_and_no_phase() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(volcano("v", None, json!({}))));
    let mut member = pod_value("p", "p");
    member["metadata"]["annotations"] =
        json!({ "scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": "worker" });
    live.take(Seen::Applied(pod(member)));
    let inputs = told(&mut live);
    let roles = gangs(&inputs)[0].roles.as_deref().expect("it has minimums");
    assert_eq!(roles.own.as_deref(), Some("worker"));
    let least: Vec<(&str, u32)> = roles.least.iter().map(|(role, it)| (&**role, *it)).collect();
    assert_eq!((least, gangs(&inputs)[0].min_member), (vec![("ps", 1), ("worker", 2)], Some(3)));
    live.take(Seen::Applied(volcano("v", None, json!({ "phase": "Inqueue" }))));
    assert!(told(&mut live).is_empty(), "how far it is does not concern its members");
}

#[test]
fn later_jobs_raise_a_minimum_as_far_as_they_can_exist() {
    let mut live = synced(&Config::default());
    let set = |status: Value| {
        let pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let jobs = |name: &str, count: u32| {
            json!({ "name": name, "replicas": 1,
                "template": { "spec": { "parallelism": count, "template": pods } } })
        };
        let spec = json!({ "startupPolicy": { "startupPolicyOrder": "InOrder" },
            "replicatedJobs": [jobs("a", 1), jobs("b", 2), jobs("c", 3)] });
        gang(Of::JobSet, "s", spec, status)
    };
    let of = |role: &str| {
        let mut value = pod_value(role, role);
        value["metadata"]["labels"] = json!({ "scheduling.x-k8s.io/pod-group": "g",
            "jobset.sigs.k8s.io/replicatedjob-name": role });
        value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet", "name": "s", "uid": "u-s", "controller": true }]);
        pod(value)
    };
    live.take(Seen::Applied(group(json!(5))));
    live.take(Seen::Applied(set(json!({}))));
    for (role, least) in [("a", 1), ("b", 3), ("c", 5)] {
        live.take(Seen::Applied(of(role)));
        let inputs = told(&mut live);
        let made: Vec<_> = pods(&inputs).into_iter().filter(|pod| *pod.name == *role).collect();
        assert_eq!((made.len(), made[0].gang.min_member), (1, Some(least)), "{role}");
    }
    // Who has ended is there no more: those that come later need not wait for it.
    let ended = json!({ "replicatedJobsStatus": [{ "name": "a", "succeeded": 1 }] });
    live.take(Seen::Applied(set(ended)));
    let inputs = told(&mut live);
    let b = pods(&inputs).into_iter().find(|pod| *pod.name == *"b").expect("told anew");
    assert_eq!(b.gang.min_member, Some(2));
}

#[test]
fn a_gang_that_is_named_by_labels_is_held_while_one_names_another_scheduler() {
    let lws = "leaderworkerset.sigs.k8s.io";
    for labels in [
        json!({ "capstan.sh/gang": "x" }),
        json!({ "kueue.x-k8s.io/pod-group-name": "x" }),
        json!({ (format!("{lws}/name")): "l", (format!("{lws}/group-index")): "0" }),
    ] {
        let member = |name: &str, scheduler: &str, phase: &str| {
            let mut value = pod_value(name, name);
            value["metadata"]["labels"] = labels.clone();
            value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": "2",
                "kueue.x-k8s.io/pod-group-total-count": "2" });
            value["spec"]["schedulerName"] = scheduler.into();
            value["status"] = json!({ "phase": phase });
            pod(value)
        };
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(member("p", "capstan", "Pending")));
        let of_p = |live: &mut Live| {
            let inputs = told(live);
            let p = pods(&inputs).into_iter().find(|pod| *pod.name == *"p").expect("told");
            (p.gang.min_member, p.gang.total, p.gang.held.clone())
        };
        let alone = of_p(&mut live);
        assert_eq!((alone.0, &alone.2), (Some(2), &None), "{labels}");
        live.take(Seen::Applied(member("q", "other", "Pending")));
        let held = (Some(1), alone.1, Some(Held::ForeignMembers(1)));
        assert_eq!(of_p(&mut live), held, "{labels}");
        live.take(Seen::Applied(member("q", "other", "Succeeded")));
        assert_eq!(of_p(&mut live), alone, "{labels}: who ended holds nobody up");
    }
}

/// The first pods among facts told now of this name.
pub(super) fn of_pod(live: &mut Live, name: &str) -> GangRef {
    let inputs = told(live);
    let pod = pods(&inputs).into_iter().find(|pod| *pod.name == *name).expect("told");
    pod.gang.clone()
}

#[test]
fn a_leader_is_held_whose_workers_will_name_another_scheduler() {
    let lws = "leaderworkerset.sigs.k8s.io";
    let set = |policy: &str, leader: &str, worker: Value| {
        let template = |name: Value| {
            let mut template = json!({ "spec": { "containers": [{}] } });
            template["spec"]["schedulerName"] = name;
            template
        };
        let templates = json!({ "size": 3, "leaderTemplate": template(json!(leader)),
            "workerTemplate": template(worker) });
        let spec = json!({ "startupPolicy": policy, "leaderWorkerTemplate": templates });
        gang(Of::LeaderWorkerSet, "l", spec, json!({}))
    };
    let mut leader = pod_value("l-0", "l-0");
    leader["metadata"]["labels"] =
        json!({ (format!("{lws}/name")): "l", (format!("{lws}/group-index")): "0" });
    let foreign = Some(Held::ForeignMembers(2));
    for (policy, of_leader, of_worker, held) in [
        ("LeaderReady", "capstan", json!("other"), &foreign),
        ("LeaderReady", "capstan", Value::Null, &foreign),
        ("LeaderReady", "capstan", json!("capstan"), &None),
        // Somebody changes pods as they are made: what templates say counts for nothing.
        ("LeaderReady", "other", Value::Null, &None),
        // They are made at once, and are seen.
        ("LeaderCreated", "capstan", json!("other"), &None),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(pod(leader.clone())));
        live.take(Seen::Applied(set(policy, of_leader, of_worker.clone())));
        let told = of_pod(&mut live, "l-0");
        assert_eq!(&told.held, held, "{policy} {of_leader} {of_worker}");
    }
    // A set that is mended lets its leader go.
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(set("LeaderReady", "capstan", json!("other"))));
    live.take(Seen::Applied(pod(leader)));
    assert_eq!(of_pod(&mut live, "l-0").held, foreign);
    live.take(Seen::Applied(set("LeaderReady", "capstan", json!("capstan"))));
    let told = of_pod(&mut live, "l-0");
    assert_eq!((told.held, told.min_member), (None, Some(1)));
}

/// Members count by who schedules them also where their owners name the gang, whoever comes first,
/// and wherever they are while owners come, go and name another.
#[test]
fn a_gang_that_owners_name_is_held_while_a_member_names_another_scheduler() {
    let names = |name: &str, gang: &str| {
        let mut value = job_value(name, name);
        value["metadata"]["annotations"] = json!({ "capstan.sh/gang": gang });
        job(value)
    };
    let member = |name: &str, job: &str, scheduler: &str| {
        let mut value = owned(pod_value(name, name), "Job", job, job);
        value["spec"]["schedulerName"] = scheduler.into();
        pod(value)
    };
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(names("one", "x")));
    live.take(Seen::Applied(member("p", "one", "capstan")));
    live.take(Seen::Applied(member("q", "two", "other")));
    assert_eq!(of_pod(&mut live, "p").held, None, "nobody says what q is in");
    live.take(Seen::Applied(names("two", "x")));
    assert_eq!(of_pod(&mut live, "p").held, Some(Held::ForeignMembers(1)));
    live.take(Seen::Applied(names("two", "y")));
    assert_eq!(of_pod(&mut live, "p").held, None);
    live.take(Seen::Applied(names("two", "x")));
    assert_eq!(of_pod(&mut live, "p").held, Some(Held::ForeignMembers(1)));
    live.take(Seen::Deleted(names("two", "x")));
    assert_eq!(of_pod(&mut live, "p").held, None);
    live.take(Seen::Applied(names("two", "x")));
    assert_eq!(of_pod(&mut live, "p").held, Some(Held::ForeignMembers(1)));
    live.take(Seen::Deleted(member("q", "two", "other")));
    assert_eq!(of_pod(&mut live, "p").held, None);
    assert!(live.directory.named_above.len() == 1 && live.directory.cast.len() == 1);
}

/// A role that is made later, for another scheduler, is nobody that a PodGroup could wait for.
#[test]
fn a_group_is_held_whose_owner_has_a_role_for_another_scheduler() {
    let role = |scheduler: Value| {
        json!({ "replicas": 1, "template": { "spec": { "schedulerName": scheduler,
            "containers": [{}] } } })
    };
    let mpi = |launcher: Value| {
        let roles = json!({ "Worker": role(json!("capstan")), "Launcher": role(launcher) });
        let spec =
            json!({ "launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles });
        gang(Of::MpiJob, "m", spec, json!({}))
    };
    let api = "kubeflow.org/v2beta1";
    let by = json!([{ "apiVersion": api, "kind": "MPIJob", "name": "m", "uid": "u-m",
        "controller": true }]);
    let mut group = json!({ "metadata": meta("g", "u-g"), "spec": { "minMember": 2 } });
    group["metadata"]["ownerReferences"] = by.clone();
    let mut worker = pod_value("w", "w");
    worker["metadata"]["labels"] = json!({ "scheduling.x-k8s.io/pod-group": "g" });
    worker["metadata"]["ownerReferences"] = by;
    for (launcher, held) in [
        (json!("other"), Some(Held::ForeignMembers(1))),
        (json!("capstan"), None),
        // The operator fills in who schedules a group.
        (Value::Null, None),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(mpi(launcher.clone())));
        live.take(Seen::Applied(Object::Gang(Of::PluginsGroup, Box::new(group.clone()))));
        live.take(Seen::Applied(pod(worker.clone())));
        assert_eq!(of_pod(&mut live, "w").held, held, "{launcher}");
    }
}

/// Pods of a task that depends on others are made once those run: a minimum waits for them only
/// once they are there.
#[test]
fn tasks_that_depend_on_others_raise_a_minimum_as_far_as_they_can_exist() {
    let task = |name: &str, replicas: u32, after: Value| {
        let mut task = json!({ "name": name, "replicas": replicas });
        task["dependsOn"] = after;
        task
    };
    let of_volcano = "batch.volcano.sh/v1alpha1";
    let tasks = json!([
        task("ps", 1, Value::Null),
        task("worker", 2, json!({ "name": ["ps"] })),
        task("eval", 4, json!({ "name": ["worker", "ps"], "iteration": "any" })),
        task("last", 8, json!({ "name": ["worker"] }))
    ]);
    let spec = json!({ "schedulerName": "capstan", "tasks": tasks });
    let mut group = json!({ "metadata": meta("v", "u-g"), "spec": { "minMember": 15,
        "minTaskMember": { "ps": 1, "worker": 2, "eval": 4, "last": 8 } } });
    let by = json!([{ "apiVersion": of_volcano, "kind": "Job", "name": "v", "uid": "u-v",
        "controller": true }]);
    group["metadata"]["ownerReferences"] = by.clone();
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(Object::Gang(Of::VolcanoGroup, Box::new(group))));
    live.take(Seen::Applied(gang(Of::VolcanoJob, "v", spec, json!({}))));
    for (task, least, roles) in [
        ("ps", 1, vec![("ps", 1)]),
        ("worker", 3, vec![("ps", 1), ("worker", 2)]),
        ("eval", 5, vec![("eval", 4), ("ps", 1)]),
        ("last", 11, vec![("last", 8), ("ps", 1), ("worker", 2)]),
    ] {
        let mut value = pod_value(task, task);
        value["metadata"]["annotations"] =
            json!({ "scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": task });
        value["metadata"]["ownerReferences"] = by.clone();
        live.take(Seen::Applied(pod(value)));
        let told = of_pod(&mut live, task);
        let of_roles = told.roles.as_deref().expect("it has minimums");
        let of_roles: Vec<(&str, u32)> =
            of_roles.least.iter().map(|(role, it)| (&**role, *it)).collect();
        assert_eq!((told.min_member, of_roles), (Some(least), roles), "{task}");
    }
}

/// Tasks of a group may go by other names than the Jobs of its set, or by names that nobody knows.
#[test]
fn minimums_of_tasks_wait_for_no_later_job_by_whatever_name() {
    let mut live = synced(&Config::default());
    let job = |name: &str, task: Value| {
        let mut pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
        pods["metadata"] = json!({ "annotations": { "volcano.sh/task-spec": task } });
        json!({ "name": name, "replicas": 1,
            "template": { "spec": { "parallelism": 1, "template": pods } } })
    };
    let spec = json!({ "startupPolicy": { "startupPolicyOrder": "InOrder" },
        "replicatedJobs": [job("a", json!("one")), job("b", json!("two"))] });
    live.take(Seen::Applied(gang(Of::JobSet, "s", spec, json!({}))));
    let group = json!({ "metadata": meta("g", "u-g"), "spec": { "minMember": 3,
        "minTaskMember": { "one": 1, "two": 1, "else": 1 } } });
    live.take(Seen::Applied(Object::Gang(Of::VolcanoGroup, Box::new(group))));
    for (role, task, least, of) in
        [("a", "one", 1, vec!["one"]), ("b", "two", 2, vec!["one", "two"])]
    {
        let mut value = pod_value(role, role);
        value["metadata"]["labels"] = json!({ "jobset.sigs.k8s.io/replicatedjob-name": role });
        value["metadata"]["annotations"] =
            json!({ "scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": task });
        value["metadata"]["ownerReferences"] = json!([{ "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet", "name": "s", "uid": "u-s", "controller": true }]);
        live.take(Seen::Applied(pod(value)));
        let told = of_pod(&mut live, role);
        let roles = told.roles.as_deref().expect("it has minimums");
        let names: Vec<&str> = roles.least.keys().map(|name| &**name).collect();
        assert_eq!((told.min_member, names), (Some(least), of), "{role}");
    }
}

#[test]
fn members_of_another_priority_than_their_group_are_held() {
    let ranked = Held::OtherPriority { pod: "p".into(), own: 7, group: 5 };
    for (version, own, held) in [
        ("v1beta1", json!(7), Some(ranked)),
        ("v1beta1", json!(5), None),
        ("v1beta1", Value::Null, None),
        // There groups only rank their pods.
        ("v1alpha2", json!(7), None),
    ] {
        let mut live = synced(&Config::default());
        let mut group = gang(Of::UpstreamGroup, "u", json!({ "priority": 5 }), json!({}));
        if let Object::Gang(_, value) = &mut group {
            value["apiVersion"] = format!("scheduling.k8s.io/{version}").into();
        }
        let mut value = pod_value("p", "p");
        value["spec"]["schedulingGroup"] = json!({ "podGroupName": "u" });
        value["spec"]["priority"] = own;
        live.take(Seen::Applied(group));
        live.take(Seen::Applied(pod(value)));
        let inputs = told(&mut live);
        let told = the_pod(&inputs);
        assert_eq!((told.priority, &told.gang.held), (5, &held), "{version}");
    }
}

/// A member of the PodGroup `u` of Kubernetes, with these fields in its spec.
fn grouped(name: &str, fields: &[(&str, Value)]) -> Object {
    let mut value = pod_value(name, name);
    value["spec"]["schedulingGroup"] = json!({ "podGroupName": "u" });
    fields.iter().for_each(|(field, of)| value["spec"][*field] = of.clone());
    pod(value)
}

#[test]
fn a_group_without_a_priority_has_the_one_that_its_api_server_gives() {
    let held = |group| Some(Held::OtherPriority { pod: "p".into(), own: 7, group });
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::UpstreamGroup, "u", json!({}), json!({}))));
    let of_class = [("priorityClassName", json!("seven"))];
    let stated = [("priority", json!(7)), ("preemptionPolicy", json!("Never"))];
    live.take(Seen::Applied(class("seven", 7)));
    for fields in [&of_class[..], &stated] {
        live.take(Seen::Applied(grouped("p", fields)));
        assert_eq!(of_pod(&mut live, "p").held, held(0), "{fields:?}");
    }
    let meta = json!({ "name": "seven", "uid": "seven" });
    let default = json!({ "metadata": meta, "value": 7, "globalDefault": true });
    let default = serde_json::from_value(default).expect("class");
    live.take(Seen::Applied(Object::PriorityClass(default)));
    assert_eq!(of_pod(&mut live, "p").held, None, "it has the default class");
}

#[test]
fn members_of_a_group_preempt_others_all_or_none() {
    let held = |pod: &str, never, of_group| {
        Some(Held::OtherPreemption { pod: pod.into(), never, of_group })
    };
    let never = [("preemptionPolicy", json!("Never"))];
    let lower = [("preemptionPolicy", json!("PreemptLowerPriority"))];
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::UpstreamGroup, "u", json!({}), json!({}))));
    live.take(Seen::Applied(grouped("a", &never)));
    assert_eq!(of_pod(&mut live, "a").held, None);
    live.take(Seen::Applied(grouped("b", &lower)));
    let inputs = told(&mut live);
    let both: Vec<Option<Held>> = gangs(&inputs).into_iter().map(|it| it.held.clone()).collect();
    assert_eq!(both, [held("a", true, false), held("b", false, false)]);
    live.take(Seen::Deleted(grouped("b", &lower)));
    assert_eq!(of_pod(&mut live, "a").held, None);
    let says = json!({ "preemptionPolicy": "PreemptLowerPriority" });
    live.take(Seen::Applied(gang(Of::UpstreamGroup, "u", says, json!({}))));
    assert_eq!(of_pod(&mut live, "a").held, held("a", true, true));
    live.take(Seen::Deleted(grouped("a", &never)));
    told(&mut live);
    assert!(live.directory.preempting.is_empty());
}
