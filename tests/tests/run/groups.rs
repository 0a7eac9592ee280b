//! Gangs of Kubernetes itself and of other projects, on an API server that serves them.

use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, Options, RUNS_FOR, name_of};
use serde_json::{Value, json};

use crate::scene::{Job, SOON, bare_gang, cluster_with, end, names, running, wait_for};

/// Members of a gang, one GPU each.
const SIZE: usize = 4;
/// Longer than a gang may stay in part there.
const BEYOND: Duration = Duration::from_secs(8);

fn cluster() -> ControlPlane {
    let parts =
        Options { controller_manager: true, kwok: true, upstream_gangs: true, ..Options::bare() };
    cluster_with(parts, &GpuNodes::new("h100", 1))
}

/// The pods of a gang, each changed in this way.
fn members(name: &str, change: impl Fn(&mut Value)) -> Vec<Value> {
    let template = Job::new("default", name).manifest()["spec"]["template"].take();
    let member = |at: usize| {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("{name}-{at}"), "namespace": "default"},
            "spec": template["spec"],
        });
        change(&mut pod);
        pod
    };
    (0..SIZE).map(member).collect()
}

fn create(cluster: &ControlPlane, items: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
}

/// Waits until a workload says this.
fn waits(cluster: &ControlPlane, name: &str, why: &str) {
    wait_for(cluster, "workloads.capstan.sh", why, |all| {
        let own = all.iter().find(|it| name_of(it) == name);
        own.is_some_and(|it| it["status"].to_string().contains(why))
    });
    let pods = cluster.list("pods").expect("pods");
    let bound = names(&pods, |pod| pod["spec"]["nodeName"].is_string());
    assert!(!bound.iter().any(|pod| pod.starts_with(name)), "{bound:?}");
}

fn run(cluster: &ControlPlane, name: &str, count: usize) {
    wait_for(cluster, "pods", &format!("{count} of {name} run"), |pods| {
        running(pods, |pod| pod.starts_with(name)) == count
    });
}

#[test]
fn a_gang_of_kubernetes_itself_waits_for_its_group_and_starts_whole() {
    let cluster = cluster();
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut pods = members("train", |pod| {
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    });
    let last = pods.pop().expect("several");
    create(&cluster, &pods);
    waits(&cluster, "train", "waits for PodGroup train (scheduling.k8s.io), which does not exist");
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    });
    create(&cluster, &[group]);
    waits(&cluster, "train", "3 of 4 pods");
    create(&cluster, &[last]);
    run(&cluster, "train", SIZE);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn kinds_of_other_projects_are_read_once_they_are_served() {
    let cluster = cluster();
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads, whatever is not served");
    create(
        &cluster,
        &members("plugins", |pod| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "plugins"});
        }),
    );
    let why = "waits for PodGroup plugins (scheduling.x-k8s.io), which does not exist";
    waits(&cluster, "plugins", why);
    cluster.install_crds_of_others().expect("installed");
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "plugins", "namespace": "default"},
        "spec": {"minMember": SIZE},
    });
    create(&cluster, &[group]);
    run(&cluster, "plugins", SIZE);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

/// A cluster with all kinds of groups, on whose one node there is room for half of a gang, and
/// Capstan.
fn crowded() -> (ControlPlane, Capstan) {
    let cluster = cluster();
    cluster.install_crds_of_others().expect("installed");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    create(&cluster, &bare_gang("crowd", 8 - SIZE / 2));
    run(&cluster, "crowd", 8 - SIZE / 2);
    (cluster, capstan)
}

/// There is room for a gang.
fn make_room(cluster: &ControlPlane) {
    let pods = (0..8 - SIZE / 2).map(|at| format!("crowd-{at}"));
    let pods: Vec<String> = pods.collect();
    let mut words = vec!["delete", "pods", "--namespace", "default"];
    words.extend(pods.iter().map(String::as_str));
    cluster.kubectl(&words).expect("deleted");
}

/// Waits until the status of a group is as it should be; it comes back.
fn told(
    cluster: &ControlPlane,
    (kind, name): (&str, &str),
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Value {
    let of = |all: &[Value]| all.iter().find(|it| name_of(it) == name).cloned();
    let all = wait_for(cluster, kind, what, |all| of(all).is_some_and(|it| is(&it["status"])));
    of(&all).expect("it was seen")["status"].take()
}

/// A condition of a status.
fn condition(status: &Value, of: &str) -> Value {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["type"] == of).unwrap_or_default()
}

#[test]
fn a_group_of_kubernetes_itself_shows_that_its_gang_waits_and_then_that_it_has_its_nodes() {
    let (cluster, mut capstan) = crowded();
    let kind = ("podgroups.scheduling.k8s.io", "train");
    let of = "PodGroupInitiallyScheduled";
    create(
        &cluster,
        &[json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
        })],
    );
    create(
        &cluster,
        &members("train", |pod| {
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
        }),
    );
    let status = told(&cluster, kind, "it waits", |it| condition(it, of)["status"] == "False");
    let waits = condition(&status, of);
    assert_eq!(waits["reason"], "Unschedulable", "{waits}");
    let message = waits["message"].as_str().unwrap_or_default();
    assert!(message.contains("Insufficient nvidia.com/gpu"), "{waits}");
    make_room(&cluster);
    run(&cluster, "train", SIZE);
    let status = told(&cluster, kind, "it has nodes", |it| condition(it, of)["status"] == "True");
    assert_eq!(condition(&status, of)["reason"], "Scheduled", "{status}");
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn a_group_of_scheduler_plugins_goes_from_pending_to_finished() {
    let (cluster, mut capstan) = crowded();
    let kind = ("podgroups.scheduling.x-k8s.io", "plugins");
    create(
        &cluster,
        &[json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "plugins", "namespace": "default"},
            "spec": {"minMember": SIZE},
        })],
    );
    create(
        &cluster,
        &members("plugins", |pod| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "plugins"});
            pod["metadata"]["annotations"] = json!({RUNS_FOR: "20s"});
        }),
    );
    let status = told(&cluster, kind, "it waits", |it| it["phase"] == "Pending");
    assert!(status["running"].as_u64().unwrap_or(0) == 0, "{status}");
    make_room(&cluster);
    let status = told(&cluster, kind, "it runs", |it| it["phase"] == "Running");
    assert!(status["scheduleStartTime"].is_string(), "{status}");
    told(&cluster, kind, "all of it runs", |it| it["running"] == SIZE);
    let status = told(&cluster, kind, "it is done", |it| it["phase"] == "Finished");
    assert_eq!((&status["succeeded"], &status["running"]), (&json!(SIZE), &json!(0)), "{status}");
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

/// Three members of a group of three run, and a fourth asks for more than there is.
fn three_and_one_that_waits(cluster: &ControlPlane) {
    let mut pods = members("plugins", |pod| {
        pod["metadata"]["labels"] = json!({
            "capstan.sh/queue": "gpus",
            "scheduling.x-k8s.io/pod-group": "plugins",
        });
    });
    let mut fourth = pods.pop().expect("several");
    for part in ["requests", "limits"] {
        fourth["spec"]["containers"][0]["resources"][part]["nvidia.com/gpu"] = json!(2);
    }
    let group = json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "plugins", "namespace": "default"},
        "spec": {"minMember": SIZE - 1},
    });
    create(cluster, &[group]);
    create(cluster, &bare_gang("crowd", 8 - SIZE + 1));
    run(cluster, "crowd", 8 - SIZE + 1);
    create(cluster, &pods);
    run(cluster, "plugins", SIZE - 1);
    create(cluster, &[fourth]);
    wait_for(cluster, "pods", "the fourth waits", |pods| {
        let fourth = pods.iter().find(|pod| name_of(pod) == "plugins-3");
        fourth.is_some_and(|pod| condition(&pod["status"], "PodScheduled")["status"] == "False")
    });
}

/// A member that ended well is not lost: nobody is stopped for another in its stead, nor because
/// there is none, and a new leader counts the same.
#[test]
fn a_member_that_ended_well_is_not_missed() {
    let cluster = cluster();
    cluster.install_crds_of_others().expect("installed");
    cluster.apply(include_str!("one-queue.yaml")).expect("applied");
    let config = "waitForPodsReady: {recoveryTimeout: 5s}\n";
    let mut first = cluster.capstan("first", config).expect("started");
    first.wait_until(&cluster, "leading").expect("it leads");
    three_and_one_that_waits(&cluster);
    let kind = ("podgroups.scheduling.x-k8s.io", "plugins");
    end(&cluster, "default", |name| name == "plugins-0");
    let one_is_done = |it: &Value| {
        it["phase"] == "Running" && (&it["succeeded"], &it["running"]) == (&json!(1), &json!(2))
    };
    told(&cluster, kind, "one is done", one_is_done);
    let all_go_on = || {
        thread::sleep(BEYOND);
        let pods = cluster.list("pods").expect("pods");
        let run = running(&pods, |name| name.starts_with("plugins"));
        assert_eq!((run, running(&pods, |name| name.starts_with("crowd"))), (2, 8 - SIZE + 1));
        let said = wait_for(&cluster, "workloads.capstan.sh", "it runs", |all| {
            all.iter().any(|it| name_of(it) == "plugins" && it["status"]["state"] == "Running")
        });
        let said = said.iter().find(|it| name_of(it) == "plugins").expect("just seen");
        assert_eq!(condition(&said["status"], "Evicted"), Value::Null, "{said}");
    };
    all_go_on();
    assert_eq!(first.process.end(SOON).expect("it ends"), 0);
    let mut second = cluster.capstan("second", config).expect("started");
    second.wait_until(&cluster, "leading").expect("it leads");
    all_go_on();
    told(&cluster, kind, "one is done", one_is_done);

    // With all of it done it is finished, as long as its pods are there.
    cluster.kubectl(&["delete", "pod", "plugins-3"]).expect("deleted");
    end(&cluster, "default", |name| name.starts_with("plugins"));
    told(&cluster, kind, "all are done", |it| it["phase"] == "Finished" && it["succeeded"] == 3);
    wait_for(&cluster, "workloads.capstan.sh", "it says so", |all| {
        let own = all.iter().find(|it| name_of(it) == "plugins");
        own.is_some_and(|it| condition(&it["status"], "Finished")["reason"] == "Succeeded")
    });
    cluster.kubectl(&["delete", "pod", "plugins-0", "plugins-1", "plugins-2"]).expect("deleted");
    wait_for(&cluster, "workloads.capstan.sh", "it goes with them", |all| {
        !all.iter().any(|it| name_of(it) == "plugins")
    });
    told(&cluster, kind, "it is finished", |it| it["phase"] == "Finished" && it["succeeded"] == 3);
    assert!(second.process.runs(), "{}", second.process.trouble("ended"));
}

#[test]
fn a_group_of_volcano_is_let_in_before_it_has_pods_and_only_if_those_will_be_ours() {
    let (cluster, mut capstan) = crowded();
    let kind = ("podgroups.scheduling.volcano.sh", "ours");
    for (name, scheduler) in [("theirs", "volcano"), ("ours", "capstan")] {
        let job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": scheduler},
        });
        create(&cluster, &[job]);
        let jobs = cluster.list("jobs.batch.volcano.sh").expect("jobs");
        let job = jobs.iter().find(|it| name_of(it) == name).expect("it was made");
        create(
            &cluster,
            &[json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "ownerReferences": [{
                        "apiVersion": "batch.volcano.sh/v1alpha1",
                        "kind": "Job",
                        "name": name,
                        "uid": job["metadata"]["uid"],
                        "controller": true,
                    }],
                },
                "spec": {"minMember": SIZE, "minResources": {"nvidia.com/gpu": "64"}},
                "status": {"phase": "Pending"},
            })],
        );
    }
    told(&cluster, kind, "its pods may be made", |it| it["phase"] == "Inqueue");
    create(
        &cluster,
        &members("ours", |pod| {
            pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "ours"});
        }),
    );
    let status = told(&cluster, kind, "it waits", |it| {
        condition(it, "Unschedulable")["reason"] == "NotEnoughResources"
    });
    assert_eq!(status["phase"], "Inqueue", "{status}");
    make_room(&cluster);
    let status = told(&cluster, kind, "all of it runs", |it| {
        it["phase"] == "Running" && it["running"] == SIZE
    });
    assert_eq!(condition(&status, "Scheduled")["status"], "True", "{status}");
    assert!(condition(&status, "Unschedulable").is_null(), "{status}");
    let theirs = told(&cluster, (kind.0, "theirs"), "it is as it was", |_| true);
    assert_eq!(theirs, json!({"phase": "Pending"}), "it is another scheduler's");
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
