//! What objects of other projects say of gangs beside their minimums.

use capstan_core::model::input::{GangRef, Held, OwnerPodSet};

use super::groups::{gang, of_pod, owner_named};
use super::*;
use crate::gangs::kinds::Kind as Of;

#[test]
fn a_group_of_a_set_has_the_size_that_its_own_pods_bear() {
    let lws = "leaderworkerset.sigs.k8s.io";
    let of_group = |policy: &str, stated: Value, leads: bool| -> GangRef {
        let templates = json!({ "size": 4 });
        let spec = json!({ "startupPolicy": policy, "leaderWorkerTemplate": templates });
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] =
            json!({ (format!("{lws}/name")): "l", (format!("{lws}/group-index")): "0" });
        let mut annotations = json!({ (format!("{lws}/size")): stated });
        if !leads {
            annotations[format!("{lws}/leader-name")] = "l-0".into();
        }
        member["metadata"]["annotations"] = annotations;
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        of_pod(&mut live, "p")
    };
    for (policy, stated, leads, least) in [
        ("LeaderCreated", "2", true, 2),
        ("LeaderCreated", "6", false, 6),
        // What no controller writes counts for nothing.
        ("LeaderCreated", "0", true, 4),
        ("LeaderCreated", "many", true, 4),
        ("LeaderReady", "2", true, 1),
        ("LeaderReady", "2", false, 2),
    ] {
        let told = of_group(policy, stated.into(), leads);
        assert_eq!(told.min_member, Some(least), "{policy} {stated} {leads}");
    }
}

#[test]
fn members_of_a_group_that_is_part_of_a_tree_are_held() {
    for (parent, held) in [
        (json!("tree"), Some(Held::OfTree("CompositePodGroup tree".into()))),
        (json!(""), None),
        (Value::Null, None),
    ] {
        let policy = json!({ "gang": { "minCount": 2 } });
        let spec = json!({ "schedulingPolicy": policy, "parentCompositePodGroupName": parent });
        let least = if held.is_some() { 1 } else { 2 };
        let mut member = pod_value("p", "p");
        member["spec"]["schedulingGroup"] = json!({ "podGroupName": "u" });
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::UpstreamGroup, "u", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        let told = of_pod(&mut live, "p");
        assert_eq!((told.held, told.min_member), (held, Some(least)), "{parent}");
    }
}

#[test]
fn a_policy_for_subgroups_is_said_to_have_no_effect() {
    let mut live = synced(&Config::default());
    let policy = json!([{ "name": "s", "subGroupSize": 2, "minSubGroups": 2 }]);
    let spec = json!({ "minMember": 2, "subGroupPolicy": policy });
    live.take(Seen::Applied(gang(Of::VolcanoGroup, "v", spec, json!({}))));
    let said = said(&mut live);
    let says = "PodGroup ns/v: spec.subGroupPolicy: has no effect here: members count one by one";
    assert!(said.len() == 1 && said[0].starts_with(says), "{said:?}");
}

#[test]
fn a_train_job_without_its_job_set_is_named_once_everything_was_seen() {
    let config = Config::default();
    for (with_set, queue, count) in [(false, "q", 1), (true, "q", 0), (false, "", 0)] {
        let mut live = Live::new(&config);
        let mut value = json!({ "metadata": meta("t", "u-t"), "spec": { "suspend": true } });
        if !queue.is_empty() {
            value["metadata"]["labels"] = json!({ "capstan.sh/queue": queue });
        }
        live.take(Seen::Applied(Object::Gang(Of::TrainJob, Box::new(value))));
        if with_set {
            let pods = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
            let job = json!({ "name": "w", "template": { "spec": { "template": pods } } });
            let mut set = json!({ "metadata": meta("t", "u-s"),
                "spec": { "suspend": true, "replicatedJobs": [job] } });
            set["metadata"]["ownerReferences"] = json!([{ "kind": "TrainJob", "name": "t",
                "apiVersion": "trainer.kubeflow.org/v1alpha1", "uid": "u-t", "controller": true }]);
            live.take(Seen::Applied(Object::Gang(Of::JobSet, Box::new(set))));
        }
        assert_eq!(said(&mut live), Vec::<String>::new());
        for kind in Kind::all(&config) {
            live.take(Seen::Complete(kind));
        }
        let said = said(&mut live);
        let says = "TrainJob ns/t: has no JobSet yet";
        let named = said.iter().filter(|one| one.starts_with(says)).count();
        assert_eq!(named, count, "{with_set} {queue}: {said:?}");
    }
}

#[test]
fn a_set_is_whole_until_the_last_that_its_jobs_bring_to_a_good_end() {
    let template = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let spec = json!({ "parallelism": 2, "completions": 10, "template": template });
    let role = json!({ "name": "w", "template": { "spec": spec } });
    for (succeeded, failed, least) in [(0, "", 2), (5, "", 2), (8, "", 2), (9, "", 1), (8, "3", 1)]
    {
        let mut live = synced(&Config::default());
        let roles = json!({ "replicatedJobs": [role] });
        live.take(Seen::Applied(gang(Of::JobSet, "s", roles, json!({}))));
        let mut of_set = json!({ "metadata": meta("s-w-0", "s-w-0"), "spec": spec,
            "status": { "succeeded": succeeded, "failedIndexes": failed } });
        of_set["metadata"]["ownerReferences"] = json!([{ "kind": "JobSet", "name": "s",
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "uid": "u-s", "controller": true }]);
        live.take(Seen::Applied(job(of_set)));
        let inputs = told(&mut live);
        let set = owner_named(&inputs, "s").expect("told");
        let said = (set.min_member, set.ended, set.left);
        assert_eq!(said, (least, succeeded, Some(least)), "{succeeded} {failed}");
    }
}

#[test]
fn a_suspended_owner_whose_pods_are_in_a_group_is_named() {
    let label = "scheduling.x-k8s.io/pod-group";
    let told_of = |suspended: bool, grouped: bool, queue: &str| {
        let labels = if grouped { json!({ (label): "g" }) } else { json!({}) };
        let pods = json!({ "metadata": { "labels": labels },
            "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let spec = json!({ "suspend": suspended, "template": pods });
        let mut of_job = json!({ "metadata": meta("j", "j"), "spec": spec });
        let role = json!({ "name": "w", "template": { "spec": { "template": pods } } });
        let spec = json!({ "suspend": suspended, "replicatedJobs": [role] });
        let mut set = json!({ "metadata": meta("s", "u-s"), "spec": spec });
        if !queue.is_empty() {
            for owner in [&mut of_job, &mut set] {
                owner["metadata"]["labels"] = json!({ "capstan.sh/queue": queue });
            }
        }
        let mut below = of_job.clone();
        below["metadata"] = meta("s-w-0", "s-w-0");
        below["metadata"]["ownerReferences"] = json!([{ "kind": "JobSet", "name": "s",
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "uid": "u-s", "controller": true }]);
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(Object::Gang(Of::JobSet, Box::new(set))));
        live.take(Seen::Applied(job(of_job)));
        live.take(Seen::Applied(job(below)));
        let said = said(&mut live);
        let says = "is suspended, and its pods are members of group g,";
        let named = said.into_iter().filter(|one| one.contains(says));
        named.filter_map(|one| Some(one.split_once(':')?.0.to_owned())).collect::<Vec<String>>()
    };
    assert_eq!(told_of(true, true, "q"), ["Job ns/j", "JobSet ns/s"]);
    for (suspended, grouped, queue) in [(false, true, "q"), (true, false, "q"), (true, true, "")] {
        let named = told_of(suspended, grouped, queue);
        assert_eq!(named, Vec::<String>::new(), "{suspended} {grouped} {queue}");
    }
}

#[test]
fn what_a_template_names_waits_for_nobody_who_is_made_late() {
    let template = json!({ "metadata": { "labels": { "scheduling.x-k8s.io/pod-group": "g" } },
        "spec": { "schedulerName": "capstan", "containers": [{}] } });
    for (policy, least) in [("WaitForWorkersReady", 2), ("AtStartup", 3)] {
        let roles = json!({ "Launcher": { "template": template },
            "Worker": { "replicas": 2, "template": template } });
        let spec = json!({ "launcherCreationPolicy": policy, "mpiReplicaSpecs": roles });
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::PluginsGroup, "g", json!({ "minMember": 3 }), json!({}))));
        live.take(Seen::Applied(gang(Of::MpiJob, "m", spec, json!({}))));
        let inputs = told(&mut live);
        let group = owner_named(&inputs, "m").expect("told").member_of.as_ref().expect("a group");
        assert_eq!(group.min_member, Some(least), "{policy}");
    }
}

#[test]
fn a_leader_knows_of_the_workers_that_are_made_after_it() {
    let lws = "leaderworkerset.sigs.k8s.io";
    let template = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
    let of_size = |size: &str, policy: &str, template: &Value, who: (bool, Option<&str>)| {
        let (leads, least) = who;
        let templates = json!({ "size": 3, "workerTemplate": template });
        let spec = json!({ "startupPolicy": policy, "leaderWorkerTemplate": templates });
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] =
            json!({ (format!("{lws}/name")): "l", (format!("{lws}/group-index")): "0" });
        let mut annotations = json!({ (format!("{lws}/size")): size });
        if !leads {
            annotations[format!("{lws}/leader-name")] = "l-0".into();
        }
        if let Some(least) = least {
            annotations["capstan.sh/min-member"] = least.into();
        }
        member["metadata"]["annotations"] = annotations;
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        let known = of_pod(&mut live, "p").to_come?;
        let sets = known.sets.iter().map(|set| format!("{} {}", set.name, set.count));
        Some((known.own.as_deref().map(str::to_owned), sets.collect::<Vec<String>>()))
    };
    let known = |policy: &str, template: &Value, who: (bool, Option<&str>)| {
        of_size("4", policy, template, who)
    };
    let workers = |count: &str| Some((None, vec![format!("worker {count}")]));
    assert_eq!(known("LeaderReady", &template, (true, None)), workers("3"));
    assert_eq!(known("LeaderReady", &template, (true, Some("2"))), workers("1"));
    let worker = Some((Some("worker".to_owned()), Vec::new()));
    assert_eq!(known("LeaderReady", &template, (false, None)), worker);
    assert_eq!(known("LeaderCreated", &template, (true, None)), None);
    assert_eq!(known("LeaderReady", &Value::Null, (true, None)), None);
    // Where those may go depends on a label that is made with them.
    let keys = json!({ "matchLabelKeys": [format!("{lws}/group-key")], "topologyKey": "rack" });
    let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [keys] });
    let mut near = template.clone();
    near["spec"]["affinity"] = json!({ "podAffinity": terms });
    assert_eq!(known("LeaderReady", &near, (true, None)), None);
    // Nobody's number takes the memory of all.
    assert_eq!(of_size("4000000000", "LeaderReady", &template, (true, None)), None);
}

/// What workers of the groups before a change of the template are made of stands nowhere.
#[test]
fn a_leader_of_another_revision_than_its_set_knows_of_no_workers() {
    let key = |name: &str| format!("leaderworkerset.sigs.k8s.io/{name}");
    let knows = |own: Option<&str>, of_set: Option<&str>| {
        let template = json!({ "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let templates = json!({ "size": 3, "workerTemplate": template });
        let spec = json!({ "startupPolicy": "LeaderReady", "leaderWorkerTemplate": templates });
        let mut labels = json!({ (key("name")): "l", (key("group-index")): "0" });
        if let Some(own) = own {
            labels[key("template-revision-hash")] = own.into();
        }
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] = labels;
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
        if let Some(of_set) = of_set {
            let mut made_by = json!({ "metadata": meta("s", "u-s") });
            made_by["metadata"]["labels"] = json!({ (key("template-revision-hash")): of_set });
            live.take(Seen::Applied(owner(Kind::StatefulSet, made_by)));
            member["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1",
                "kind": "StatefulSet", "name": "s", "uid": "u-s", "controller": true }]);
        }
        live.take(Seen::Applied(pod(member)));
        of_pod(&mut live, "p").to_come.is_some_and(|known| !known.sets.is_empty())
    };
    assert!(knows(Some("new"), Some("new")));
    assert!(!knows(Some("old"), Some("new")));
    // Who writes a manifest by hand means the template that stands there.
    assert!(knows(Some("new"), None) && knows(None, Some("new")));
}

#[test]
fn pods_of_a_task_know_of_those_that_are_made_after_it() {
    let known = |task: &str, group: Value| {
        let of = |name: &str, replicas: u32, after: Value| {
            let template = json!({ "spec": { "containers": [{}] } });
            let mut task = json!({ "name": name, "replicas": replicas, "template": template });
            task["dependsOn"] = after;
            task
        };
        let tasks = json!([
            of("ps", 1, Value::Null),
            of("worker", 2, json!({ "name": ["ps"] })),
            of("last", 8, json!({ "name": ["worker"] }))
        ]);
        let spec = json!({ "schedulerName": "capstan", "tasks": tasks });
        let mut member = pod_value("p", "p");
        member["metadata"]["annotations"] =
            json!({ "scheduling.k8s.io/group-name": "v", "volcano.sh/task-spec": task });
        member["metadata"]["ownerReferences"] = json!([{ "kind": "Job", "name": "v", "uid": "u-v",
            "apiVersion": "batch.volcano.sh/v1alpha1", "controller": true }]);
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::VolcanoGroup, "v", group, json!({}))));
        live.take(Seen::Applied(gang(Of::VolcanoJob, "v", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        let known = of_pod(&mut live, "p").to_come.expect("it knows its own");
        let sets = known.sets.iter().map(|set| format!("{} {}", set.name, set.count));
        let sets = sets.collect::<Vec<String>>();
        // By a role that none of those bears that are there nobody is counted.
        let roles = |set: &OwnerPodSet| set.roles.as_ref().and_then(|roles| roles.own.clone());
        let roles = known.sets.iter().filter_map(roles).count();
        (known.own.as_deref() == Some(task), sets, known.least, roles)
    };
    let text = |sets: &[&str]| sets.iter().map(|set| (*set).to_owned()).collect::<Vec<String>>();
    let each = json!({ "minMember": 5, "minTaskMember": { "ps": 1, "worker": 1, "last": 3 } });
    let fewer = json!({ "minMember": 5, "minTaskMember": { "ps": 1, "worker": 2, "last": 8 } });
    for (task, group, sets, least, roles) in [
        ("ps", &each, text(&["worker 1", "last 3"]), Some(5), 2),
        ("worker", &each, text(&["last 3"]), Some(5), 1),
        ("last", &each, Vec::new(), None, 0),
        ("ps", &json!({ "minMember": 2 }), text(&["worker 1"]), Some(2), 0),
        ("ps", &json!({ "minMember": 5 }), text(&["worker 2", "last 2"]), Some(5), 0),
        ("ps", &fewer, text(&["worker 2", "last 2"]), Some(5), 0),
        ("worker", &json!({ "minMember": 3 }), Vec::new(), None, 0),
    ] {
        assert_eq!(known(task, group.clone()), (true, sets, least, roles), "{task} {group}");
    }
}

/// What is made later is known to those that are in one group with it.
#[test]
fn workers_know_of_a_late_launcher_that_will_be_in_their_group() {
    let label = "scheduling.x-k8s.io/pod-group";
    let known = |policy: &str, (named, owned): (bool, bool), role: &str| {
        let labels = if named { json!({ (label): "g" }) } else { json!({}) };
        let template = json!({ "metadata": { "labels": labels },
            "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let roles = json!({ "Launcher": { "template": template },
            "Worker": { "replicas": 2, "template": template } });
        let spec = json!({ "launcherCreationPolicy": policy, "mpiReplicaSpecs": roles });
        let by = json!([{ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "m",
            "uid": "u-m", "controller": true }]);
        let mut group = json!({ "metadata": meta("g", "u-g"), "spec": { "minMember": 3 } });
        if owned {
            group["metadata"]["ownerReferences"] = by.clone();
        }
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] =
            json!({ (label): "g", "training.kubeflow.org/job-role": role });
        member["metadata"]["ownerReferences"] = by;
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::MpiJob, "m", spec, json!({}))));
        live.take(Seen::Applied(Object::Gang(Of::PluginsGroup, Box::new(group))));
        live.take(Seen::Applied(pod(member)));
        let known = of_pod(&mut live, "p").to_come?;
        let sets = known.sets.iter().map(|set| format!("{} {}", set.name, set.count));
        Some((known.own.as_deref().map(str::to_owned), sets.collect::<Vec<String>>()))
    };
    let (waits, of) = ("WaitForWorkersReady", |role: &str| Some(role.to_owned()));
    let launcher = vec!["launcher 1".to_owned()];
    assert_eq!(known(waits, (true, false), "worker"), Some((of("worker"), launcher.clone())));
    assert_eq!(known(waits, (false, true), "worker"), Some((of("worker"), launcher)));
    // A place for who goes elsewhere would be kept in vain.
    assert_eq!(known(waits, (false, false), "worker"), Some((of("worker"), Vec::new())));
    assert_eq!(known(waits, (true, true), "launcher"), Some((of("launcher"), Vec::new())));
    assert_eq!(known("AtStartup", (true, true), "worker"), None);
}

/// What members say of how many their group has, for how many it waits, and of whom no places are
/// kept: minimum, total, places, what is stated, those without places.
type OfGroup = (Option<u32>, Option<u32>, u32, Option<u32>, u32);

fn of_group(live: &mut Live, pod: &str) -> OfGroup {
    let said = of_pod(live, pod);
    let known = said.to_come.expect("some are made once others run");
    let places = known.sets.iter().map(|set| set.count).sum();
    (said.min_member, said.total, places, known.counted, known.unplaced)
}

/// How many a group of Kueue's has is one thing, for how many of those it waits another.
#[test]
fn a_late_member_of_a_group_of_kueues_is_one_of_its_number() {
    let label = "kueue.x-k8s.io/pod-group-name";
    let said = |named: bool, role: &str| {
        let labels = if named { json!({ (label): "g" }) } else { json!({}) };
        let template = json!({ "metadata": { "labels": labels },
            "spec": { "schedulerName": "capstan", "containers": [{}] } });
        let roles = json!({ "Launcher": { "template": template },
            "Worker": { "replicas": 2, "template": template } });
        let spec = json!({ "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiReplicaSpecs": roles });
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] =
            json!({ (label): "g", "training.kubeflow.org/job-role": role });
        member["metadata"]["annotations"] = json!({ "kueue.x-k8s.io/pod-group-total-count": "3" });
        member["metadata"]["ownerReferences"] = json!([{ "kind": "MPIJob", "name": "m",
            "apiVersion": "kubeflow.org/v2beta1", "uid": "u-m", "controller": true }]);
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::MpiJob, "m", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        of_group(&mut live, "p")
    };
    assert_eq!(said(true, "worker"), (Some(2), Some(3), 1, Some(3), 0));
    // Where only pods name it its number tells that the launcher is one of them.
    assert_eq!(said(false, "worker"), (Some(2), Some(3), 1, Some(3), 0));
    assert_eq!(said(true, "launcher"), (Some(2), Some(3), 0, Some(3), 1));
}

/// Kueue labels pods as they are made, not their template: a group that is as large as that of the
/// set has the workers.
#[test]
fn a_leader_in_a_group_of_kueues_knows_of_its_workers_by_the_number() {
    let lws = "leaderworkerset.sigs.k8s.io";
    let said = |total: &str, template: Value, leads: bool| {
        let templates = json!({ "size": 3, "workerTemplate": template });
        let spec = json!({ "startupPolicy": "LeaderReady", "leaderWorkerTemplate": templates });
        let mut member = pod_value("p", "p");
        member["metadata"]["labels"] = json!({ (format!("{lws}/name")): "l",
            (format!("{lws}/group-index")): "0", "kueue.x-k8s.io/pod-group-name": "g" });
        member["metadata"]["annotations"] =
            json!({ "kueue.x-k8s.io/pod-group-total-count": total });
        if !leads {
            member["metadata"]["annotations"][format!("{lws}/leader-name")] = "l-0".into();
        }
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::LeaderWorkerSet, "l", spec, json!({}))));
        live.take(Seen::Applied(pod(member)));
        of_group(&mut live, "p")
    };
    let template = |labels: Value| {
        json!({ "metadata": { "labels": labels },
            "spec": { "schedulerName": "capstan", "containers": [{}] } })
    };
    let (plain, elsewhere) = (template(json!({})), template(json!({ "capstan.sh/gang": "h" })));
    assert_eq!(said("3", plain.clone(), true), (Some(1), Some(3), 2, Some(3), 0));
    assert_eq!(said("3", plain.clone(), false), (Some(3), Some(3), 0, Some(3), 0));
    // The workers are in no such group, or in another one, or nobody knows what they will be.
    for (total, of_all, template) in [("2", 2, plain), ("3", 3, elsewhere), ("3", 3, Value::Null)] {
        let want = (Some(1), Some(of_all), 0, Some(of_all), 2);
        assert_eq!(said(total, template, true), want);
    }
}

/// Executors are made once their driver runs, as many as nobody knows; what is beside them is not.
#[test]
fn members_of_a_group_say_what_it_states_beside_what_their_maker_can_make() {
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(gang(Of::PluginsGroup, "g", json!({ "minMember": 7 }), json!({}))));
    for (name, role) in [("p", Some("driver")), ("q", Some("executor")), ("r", None)] {
        let mut member = pod_value(name, name);
        let mut labels = json!({ "scheduling.x-k8s.io/pod-group": "g", "spark-app-selector": "s" });
        if let Some(role) = role {
            labels["spark-role"] = role.into();
        }
        member["metadata"]["labels"] = labels;
        live.take(Seen::Applied(pod(member)));
        match role {
            Some("driver") => {
                assert_eq!(of_group(&mut live, name), (Some(1), None, 0, Some(7), u32::MAX));
            }
            Some(_) => assert_eq!(of_group(&mut live, name), (Some(7), None, 0, Some(7), 0)),
            None => {
                let said = of_pod(&mut live, name);
                assert_eq!((said.min_member, said.to_come), (Some(7), None));
            }
        }
    }
}

#[test]
fn a_role_of_no_pods_does_not_rank_its_owner() {
    let role = |name: &str, pods: u32, scheduler: &str, priority: i32| {
        let spec = json!({ "schedulerName": scheduler, "priority": priority, "containers": [{}] });
        let job = json!({ "spec": { "template": { "spec": spec } } });
        json!({ "name": name, "replicas": pods, "template": job })
    };
    let told_of = |workers: u32, scheduler: &str, drivers: u32| {
        let roles = [role("w", workers, scheduler, 3), role("d", drivers, "capstan", 7)];
        let spec = json!({ "suspend": true, "replicatedJobs": roles });
        let mut set = json!({ "metadata": meta("s", "u-s"), "spec": spec });
        set["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(Object::Gang(Of::JobSet, Box::new(set))));
        let inputs = told(&mut live);
        let owner = owner_named(&inputs, "s").expect("told");
        (owner.ours, owner.priority)
    };
    assert_eq!(told_of(2, "capstan", 0), (true, 3));
    assert_eq!(told_of(2, "capstan", 1), (true, 7));
    assert_eq!(told_of(0, "capstan", 0), (true, 7));
    // What has pods is all another's; of the other it has a part only, which waits.
    assert!(!told_of(2, "other", 0).0);
    assert!(told_of(2, "other", 1).0);
}
