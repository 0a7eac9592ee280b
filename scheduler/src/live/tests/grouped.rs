//! Owners of which some pods are in another gang: the others wait for none of those.

use capstan_core::model::input::Held;

use super::groups::{gang, of_pod};
use super::*;
use crate::gangs::kinds::Kind as Of;

/// The label that names a PodGroup of scheduler-plugins.
const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Metadata that puts a pod into a PodGroup, as the one or the other scheduler has it.
fn named(volcano: bool) -> Value {
    match volcano {
        true => json!({ "annotations": { "scheduling.k8s.io/group-name": "g" } }),
        false => json!({ "labels": { LABEL: "g" } }),
    }
}

/// An object with this owner, which is called as it is and has that for its uid.
fn made_by(mut value: Value, (api, kind, name): (&str, &str, &str)) -> Value {
    value["metadata"]["ownerReferences"] = json!([{ "apiVersion": api, "kind": kind,
        "name": name, "uid": format!("u-{name}"), "controller": true }]);
    value
}

/// A pod with these labels beside what its metadata says.
fn labelled(name: &str, metadata: &Value, labels: &[(&str, &str)]) -> Value {
    let mut value = pod_value(name, name);
    let given = metadata.as_object().into_iter().flatten();
    given.for_each(|(key, said)| value["metadata"][key] = said.clone());
    labels.iter().for_each(|(key, said)| value["metadata"]["labels"][*key] = (*said).into());
    value
}

/// A template with such metadata.
fn template(metadata: &Value) -> Value {
    json!({ "metadata": metadata, "spec": { "schedulerName": "capstan", "containers": [{}] } })
}

/// How many the owner of this uid asks for at least, and how many a pod does, as told now.
fn least(live: &mut Live, owner: &str, name: &str) -> (u32, Option<u32>) {
    let inputs = told(live);
    let owners = inputs.iter().find_map(|input| match input {
        Input::Owner(facts) if *facts.uid == *owner => Some(facts.min_member),
        _ => None,
    });
    let pod = pods(&inputs).into_iter().find(|pod| *pod.name == *name).expect("told");
    (owners.expect("told"), pod.gang.min_member)
}

/// The spec of a cluster of a head and a worker.
fn cluster(metadata: &Value) -> Value {
    let workers = json!({ "groupName": "w", "replicas": 1, "minReplicas": 1,
        "template": template(metadata) });
    json!({ "headGroupSpec": { "template": template(metadata) }, "workerGroupSpecs": [workers] })
}

/// A RayJob, its cluster, and what submits it.
fn ray_job(metadata: &Value) -> Vec<Object> {
    let spec = cluster(metadata);
    let job = gang(Of::RayJob, "r", json!({ "rayClusterSpec": spec }), json!({}));
    let made = json!({ "metadata": meta("c", "u-c"), "spec": spec });
    let made = made_by(made, ("ray.io/v1", "RayJob", "r"));
    let submits = made_by(job_value("r", "submits"), ("ray.io/v1", "RayJob", "r"));
    let submitter = owned(pod_value("s", "s"), "Job", "r", "submits");
    let cluster = Object::Gang(Of::RayCluster, Box::new(made));
    vec![job, cluster, self::job(submits), pod(submitter)]
}

/// The head of that cluster, and its worker.
fn nodes(metadata: &Value) -> [Object; 2] {
    [("h", "head", "headgroup"), ("w", "worker", "w")].map(|(name, kind, group)| {
        let labels = [("ray.io/node-type", kind), ("ray.io/group", group)];
        let value = labelled(name, metadata, &labels);
        pod(made_by(value, ("ray.io/v1", "RayCluster", "c")))
    })
}

#[test]
fn what_submits_a_ray_job_waits_for_no_pods_that_are_in_a_group() {
    for volcano in [false, true] {
        let group = if volcano { Of::VolcanoGroup } else { Of::PluginsGroup };
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(group, "g", json!({ "minMember": 2 }), json!({}))));
        ray_job(&json!({})).into_iter().for_each(|it| live.take(Seen::Applied(it)));
        assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)), "nobody says that they are");
        let [head, worker] = nodes(&named(volcano));
        live.take(Seen::Applied(head.clone()));
        assert_eq!(least(&mut live, "u-r", "s"), (2, Some(1)), "of the worker nothing is known");
        live.take(Seen::Applied(worker.clone()));
        assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)));
        assert_eq!(of_pod_in(&mut live, "h"), Some(2), "those wait for each other");
        live.take(Seen::Deleted(head));
        live.take(Seen::Deleted(worker));
        assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)));
        assert!(live.directory.grouped.roles(&"u-r".into()).is_none());
    }
}

/// What a pod waits for, of all that there is.
fn of_pod_in(live: &mut Live, name: &str) -> Option<u32> {
    let inputs = live.everything(NOW);
    let pod = pods(&inputs).into_iter().find(|pod| *pod.name == *name).expect("there");
    pod.gang.min_member
}

/// Pods may be seen before it is known whose they are.
#[test]
fn owners_that_come_after_their_pods_hear_of_the_group_of_those() {
    let mut live = synced(&Config::default());
    nodes(&named(false)).into_iter().for_each(|it| live.take(Seen::Applied(it)));
    told(&mut live);
    ray_job(&json!({})).into_iter().rev().for_each(|it| live.take(Seen::Applied(it)));
    assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)));
    // Without the cluster between nobody knows whose they are.
    let cluster = ray_job(&json!({})).swap_remove(1);
    live.take(Seen::Deleted(cluster));
    assert_eq!(least(&mut live, "u-r", "s"), (3, Some(2)));
}

#[test]
fn what_submits_a_ray_job_waits_for_none_whose_template_names_a_group() {
    for volcano in [false, true] {
        let mut live = synced(&Config::default());
        ray_job(&named(volcano)).into_iter().for_each(|it| live.take(Seen::Applied(it)));
        assert_eq!(least(&mut live, "u-r", "s"), (1, Some(1)), "{volcano}");
    }
}

/// A cluster that Ray scales may start with one of three workers, and the head, if that is its.
#[test]
fn roles_have_no_minimum_of_a_head_that_is_in_a_group() {
    for (grouped, want, least) in
        [(true, vec![("w", 1)], 1), (false, vec![("head", 1), ("w", 1)], 2)]
    {
        let metadata = if grouped { named(false) } else { json!({}) };
        let mut spec = cluster(&json!({}));
        spec["enableInTreeAutoscaling"] = true.into();
        spec["headGroupSpec"]["template"] = template(&metadata);
        spec["workerGroupSpecs"][0]["replicas"] = 3.into();
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::RayCluster, "c", spec, json!({}))));
        let [_, worker] = nodes(&json!({}));
        live.take(Seen::Applied(worker));
        let told = of_pod(&mut live, "w");
        let roles = told.roles.as_deref().expect("it has minimums");
        let roles: Vec<(&str, u32)> = roles.least.iter().map(|(role, it)| (&**role, *it)).collect();
        assert_eq!((roles, told.min_member), (want, Some(least)));
    }
}

/// A set of two roles of two pods each, the second of which is in a group.
fn half_grouped(suspend: bool, asked: Option<&str>) -> Object {
    let role = |name: &str, metadata: &Value| {
        json!({ "name": name, "template": { "spec": { "parallelism": 2,
            "template": template(metadata) } } })
    };
    let roles = json!([role("a", &json!({})), role("b", &named(false))]);
    let spec = json!({ "suspend": suspend, "replicatedJobs": roles });
    let mut set = gang(Of::JobSet, "s", spec, json!({}));
    if let (Object::Gang(_, value), Some(asked)) = (&mut set, asked) {
        value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": asked });
    }
    set
}

#[test]
fn a_role_of_a_job_set_waits_for_none_whose_template_names_a_group() {
    for (suspend, asked, wanted) in [
        (false, None, 2),
        // What is asked counts all of them.
        (false, Some("3"), 2),
        (false, Some("1"), 1),
        // It starts when there is room for all that it will have.
        (true, None, 4),
    ] {
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(half_grouped(suspend, asked)));
        let of_set = made_by(job_value("s-a-0", "a"), ("jobset.x-k8s.io/v1alpha2", "JobSet", "s"));
        live.take(Seen::Applied(job(of_set)));
        let labels = [("jobset.sigs.k8s.io/replicatedjob-name", "a")];
        let value = owned(labelled("p", &json!({}), &labels), "Job", "s-a-0", "a");
        live.take(Seen::Applied(pod(value)));
        let said = format!("{suspend} {asked:?}");
        assert_eq!(least(&mut live, "u-s", "p"), (wanted, Some(wanted)), "{said}");
    }
}

#[test]
fn workers_wait_for_no_master_that_is_in_a_group() {
    for asked in [Value::Null, json!(3)] {
        let role = |pods: u32| json!({ "replicas": pods, "template": template(&json!({})) });
        let mut spec = json!({ "pytorchReplicaSpecs": { "Master": role(1), "Worker": role(2) } });
        spec["runPolicy"] = json!({ "schedulingPolicy": { "minAvailable": asked } });
        let member = |name: &str, role: &str, metadata: &Value| {
            let labels = [("training.kubeflow.org/replica-type", role)];
            let value = labelled(name, metadata, &labels);
            pod(made_by(value, ("kubeflow.org/v1", "PyTorchJob", "t")))
        };
        let mut live = synced(&Config::default());
        live.take(Seen::Applied(gang(Of::PyTorchJob, "t", spec, json!({}))));
        live.take(Seen::Applied(member("p", "worker", &json!({}))));
        assert_eq!(least(&mut live, "u-t", "p"), (3, Some(3)), "{asked}");
        live.take(Seen::Applied(member("m", "master", &named(false))));
        assert_eq!(least(&mut live, "u-t", "p"), (2, Some(2)), "{asked}");
        // Of an owner all of whose roles are in a group none is left to be told from the others.
        live.take(Seen::Applied(member("q", "worker", &named(false))));
        assert_eq!(least(&mut live, "u-t", "p"), (3, Some(3)), "{asked}");
    }
}

#[test]
fn executors_wait_for_no_driver_that_is_in_a_group() {
    let member = |name: &str, role: &str, metadata: &Value| {
        pod(labelled(name, metadata, &[("spark-role", role), ("spark-app-selector", "a")]))
    };
    let asks = json!({ "annotations": { "capstan.sh/min-member": "3" } });
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(member("e", "executor", &asks)));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(3));
    live.take(Seen::Applied(member("d", "driver", &named(false))));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(2));
    live.take(Seen::Deleted(member("d", "driver", &named(false))));
    assert_eq!(of_pod(&mut live, "e").min_member, Some(3));
    live.take(Seen::Deleted(member("e", "executor", &asks)));
    let of = ("spark-app-selector".into(), "ns".into(), "a".into());
    assert!(live.below.of(&of).is_none());
}

/// The ways in which a pod, or a template, is put into a gang.
const WAYS: [&str; 5] = ["upstream", "plugins", "volcano", "kueue", "capstan"];

/// Puts a pod, or those of a template, into the gang `g` in one of those ways, if in any.
fn put(mut value: Value, way: Option<&str>) -> Value {
    match way {
        Some("upstream") => value["spec"]["schedulingGroup"] = json!({ "podGroupName": "g" }),
        Some("plugins") => value["metadata"]["labels"][LABEL] = "g".into(),
        Some("volcano") => {
            value["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g".into();
        }
        Some("kueue") => {
            value["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "g".into();
        }
        Some(_) => value["metadata"]["labels"]["capstan.sh/gang"] = "g".into(),
        None => {}
    }
    value
}

/// The PodGroup of that way, if it has any.
fn group_of(way: &str, least: u32) -> Option<Object> {
    let of = |kind: Of, spec: Value| Some(gang(kind, "g", spec, json!({})));
    let policy = json!({ "gang": { "minCount": least } });
    match way {
        "upstream" => of(Of::UpstreamGroup, json!({ "schedulingPolicy": policy })),
        "plugins" => of(Of::PluginsGroup, json!({ "minMember": least })),
        "volcano" => of(Of::VolcanoGroup, json!({ "minMember": least })),
        _ => None,
    }
}

/// A set of groups of three, whose templates put leaders and workers into a gang.
fn led(policy: &str, leader: Option<&str>, worker: Option<&str>) -> Value {
    let template = |way: Option<&str>| put(template(&json!({})), way);
    let templates = json!({ "size": 3, "leaderTemplate": template(leader),
        "workerTemplate": template(worker) });
    json!({ "metadata": meta("l", "u-l"),
        "spec": { "startupPolicy": policy, "leaderWorkerTemplate": templates } })
}

fn set(value: Value) -> Seen {
    Seen::Applied(Object::Gang(Of::LeaderWorkerSet, Box::new(value)))
}

/// A pod of the first group of that set: its leader, or a worker of `p`.
fn in_set(name: &str, leads: bool, way: Option<&str>) -> Object {
    let key = |name: &str| format!("leaderworkerset.sigs.k8s.io/{name}");
    let labels = [(key("name"), "l"), (key("group-index"), "0")];
    let labels = labels.each_ref().map(|(key, value)| (key.as_str(), *value));
    let mut value = labelled(name, &json!({}), &labels);
    if !leads {
        value["metadata"]["annotations"] = json!({ (key("leader-name")): "p" });
    }
    pod(put(value, way))
}

/// Whether a template tells it or whoever changes pods as they are made.
#[test]
fn workers_wait_for_no_leader_that_is_in_another_gang() {
    for way in WAYS {
        for (policy, named) in [
            ("LeaderCreated", None),
            ("LeaderCreated", Some(way)),
            ("LeaderReady", None),
            ("LeaderReady", Some(way)),
        ] {
            let said = format!("{way} {policy} {named:?}");
            let mut live = synced(&Config::default());
            live.take(set(led(policy, named, None)));
            live.take(Seen::Applied(in_set("w", false, None)));
            assert_eq!(of_pod(&mut live, "w").min_member, Some(3), "{said}: nobody leads");
            live.take(Seen::Applied(in_set("p", true, Some(way))));
            assert_eq!(of_pod(&mut live, "w").min_member, Some(2), "{said}");
            live.take(Seen::Deleted(in_set("p", true, Some(way))));
            assert_eq!(of_pod(&mut live, "w").min_member, Some(3), "{said}: it is gone");
            live.take(Seen::Applied(in_set("p", true, None)));
            assert_eq!(of_pod_in(&mut live, "w"), Some(3), "{said}: it is in their gang");
            live.take(Seen::Deleted(in_set("p", true, None)));
            live.take(Seen::Deleted(in_set("w", false, None)));
            assert!(live.directory.cast.is_empty() && live.directory.named_above.is_empty());
        }
    }
}

#[test]
fn a_leader_waits_for_no_workers_that_are_in_another_gang() {
    for way in WAYS {
        let least = |template: bool, there: &[(&str, bool)]| {
            let mut live = synced(&Config::default());
            live.take(set(led("LeaderCreated", None, Some(way).filter(|_| template))));
            live.take(Seen::Applied(in_set("p", true, None)));
            for (name, grouped) in there {
                let way = Some(way).filter(|_| *grouped);
                live.take(Seen::Applied(in_set(name, false, way)));
            }
            of_pod_in(&mut live, "p")
        };
        assert_eq!(least(false, &[]), Some(3), "{way}: nobody says that they are");
        assert_eq!(least(false, &[("w", true)]), Some(1), "{way}: of all one tells");
        assert_eq!(least(true, &[]), Some(1), "{way}: their template says it");
        assert_eq!(least(false, &[("w", false)]), Some(3), "{way}");
    }
}

/// What is asked counts all of them; where all are elsewhere none is left to be told from others.
#[test]
fn of_a_group_what_is_asked_counts_those_elsewhere() {
    for (asked, others, least) in [
        ("3", vec![("p", true)], 2),
        ("1", vec![("p", true)], 1),
        ("3", vec![("p", true), ("v", false)], 3),
    ] {
        let mut value = led("LeaderCreated", None, None);
        value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": asked });
        let mut live = synced(&Config::default());
        live.take(set(value));
        live.take(Seen::Applied(in_set("w", false, None)));
        for (name, leads) in &others {
            live.take(Seen::Applied(in_set(name, *leads, Some("plugins"))));
        }
        assert_eq!(of_pod_in(&mut live, "w"), Some(least), "{asked} {others:?}");
    }
}

#[test]
fn a_leader_keeps_places_for_workers_of_its_gang_alone() {
    for way in WAYS {
        // By templates, and by whoever changes pods.
        for (leader, worker, own, kept) in [
            (true, true, true, true),
            (true, false, true, false),
            (false, true, false, false),
            (false, false, false, true),
            // Who puts the leader there does so with the workers, unless their template says where.
            (false, false, true, true),
            (false, true, true, true),
        ] {
            let said = format!("{way} {leader} {worker} {own}");
            let named = |is: bool| Some(way).filter(|_| is);
            let mut live = synced(&Config::default());
            group_of(way, 1).into_iter().for_each(|it| live.take(Seen::Applied(it)));
            live.take(set(led("LeaderReady", named(leader), named(worker))));
            live.take(Seen::Applied(in_set("p", true, named(own))));
            let known = of_pod(&mut live, "p").to_come;
            let sets = known.as_ref().map_or(0, |known| known.sets.len());
            // A group of Kueue's says itself how many it is; here none does.
            let placed = kept && !(own && !worker && way == "kueue");
            assert_eq!(sets, usize::from(placed), "{said}");
            let name = known.as_ref().and_then(|known| known.name.as_deref());
            assert_eq!(name, kept.then_some("l-0"), "{said}");
        }
        // A worker shows it where no template does.
        let mut live = synced(&Config::default());
        live.take(set(led("LeaderReady", None, None)));
        live.take(Seen::Applied(in_set("p", true, None)));
        assert!(of_pod(&mut live, "p").to_come.is_some(), "{way}");
        live.take(Seen::Applied(in_set("w", false, Some(way))));
        assert!(of_pod(&mut live, "p").to_come.is_none(), "{way}");
    }
}

/// Two leaders of a group that needs two: nobody of it is made once the first of them runs.
#[test]
fn a_group_of_leaders_alone_needs_all_that_it_states() {
    for way in ["upstream", "plugins", "volcano"] {
        for (workers, least) in [(None, 2), (Some(way), 1)] {
            let mut live = synced(&Config::default());
            live.take(Seen::Applied(group_of(way, 2).expect("a PodGroup")));
            live.take(set(led("LeaderReady", Some(way), workers)));
            live.take(Seen::Applied(in_set("p", true, Some(way))));
            assert_eq!(of_pod(&mut live, "p").min_member, Some(least), "{way} {workers:?}");
        }
    }
}

/// What the set states is for a group of it, the parts of which are in different gangs.
#[test]
fn what_a_set_states_is_more_than_its_leaders_are() {
    for policy in ["LeaderCreated", "LeaderReady"] {
        let mut value = led(policy, Some("capstan"), None);
        value["metadata"]["annotations"] = json!({ "capstan.sh/min-member": "3" });
        let mut live = synced(&Config::default());
        live.take(set(value));
        live.take(Seen::Applied(in_set("p", true, Some("capstan"))));
        live.take(Seen::Applied(in_set("w", false, None)));
        let least = ["p", "w"].map(|name| of_pod_in(&mut live, name));
        assert_eq!(least, [Some(1), Some(2)], "{policy}");
    }
}

/// Workers that are in another gang may be another scheduler's: their leader waits for none.
#[test]
fn a_leader_is_not_held_for_workers_of_another_gang() {
    for (way, held) in [(None, Some(Held::ForeignMembers(2))), (Some("plugins"), None)] {
        let mut value = led("LeaderReady", None, way);
        let templates = &mut value["spec"]["leaderWorkerTemplate"];
        templates["workerTemplate"]["spec"]["schedulerName"] = "other".into();
        let mut live = synced(&Config::default());
        live.take(set(value));
        live.take(Seen::Applied(in_set("p", true, None)));
        assert_eq!(of_pod(&mut live, "p").held, held, "{way:?}");
    }
}
