//! What people and machines read of a running Capstan: explanations asked for through kubectl and
//! of the leader itself, and logs as JSON.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, capstan_config, name_of};
use serde_json::Value;

use crate::scene::{Job, bare_gang, cluster, cluster_with, create, running, submit, wait_for};

/// How long a cluster may take to be read before that is given up.
const READ_MAX: Duration = Duration::from_secs(60);
/// A queue for all.
const QUEUE: &str = include_str!("one-queue.yaml");

/// Calls kubectl where `kubectl-capstan` is installed; its exit code and what it said.
fn kubectl_capstan(cluster: &ControlPlane, words: &[&str]) -> (i32, String) {
    let folder = cluster.folder().join("plugins");
    fs::create_dir_all(&folder).expect("a folder for plugins");
    let plugin = folder.join("kubectl-capstan");
    if !plugin.exists() {
        symlink(cluster.capstan_program().expect("it is built"), &plugin).expect("installed");
    }
    let mut call = cluster.kubectl_program().expect("kubectl");
    call.env("PATH", &folder).args(words);
    let said = call.output().expect("kubectl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (said.status.code().unwrap_or(-1), text(&said.stdout) + &text(&said.stderr))
}

/// What may be read by who sees nodes and pods and nothing else.
const SOME: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: some}
rules:
- {apiGroups: [''], resources: [nodes, pods], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: some}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: some}
subjects: [{kind: User, name: viewer, apiGroup: rbac.authorization.k8s.io}]
";

#[test]
fn who_may_not_read_a_cluster_is_told_so_at_once() {
    let options = Options { controller_manager: true, ..Options::bare() };
    let cluster = cluster_with(options.user("viewer", &[]), &GpuNodes::new("h100", 1));
    create(&cluster, bare_gang("g", 1));
    let viewer = cluster.kubeconfig_of("viewer").expect("known");
    let viewer = viewer.to_str().expect("a path").to_owned();
    let explain = |kubeconfig: &str| {
        let words = ["explain", "pod/g-0", "--kubeconfig", kubeconfig];
        cluster.capstan_says(&words).expect("it runs")
    };
    let begun = Instant::now();
    let (code, _, errors) = explain(&viewer);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("is forbidden") && errors.contains("--server"), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");

    // Nobody listens there.
    let text = fs::read_to_string(&viewer).expect("a kubeconfig");
    let dead = cluster.folder().join("dead");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    fs::write(&dead, config.to_string()).expect("written");
    let (code, _, errors) = explain(dead.to_str().expect("a path"));
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("https://127.0.0.1:1") && errors.contains("refused"), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert!(begun.elapsed() < READ_MAX, "{:?}", begun.elapsed());

    cluster.apply(SOME).expect("applied");
    let (code, said, errors) = explain(&viewer);
    assert_eq!(code, 0, "{said}{errors}");
    assert!(errors.contains("may not be read, and is left out: "), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

/// An explanation but for the line that says how long it waits.
fn timeless(said: &str) -> Vec<&str> {
    said.lines().filter(|line| !line.contains(", waiting ")).collect()
}

#[test]
fn a_running_capstan_is_asked_through_kubectl_and_logs_as_json() {
    let cluster = cluster(&GpuNodes::new("h100", 1));
    cluster.apply(QUEUE).expect("applied");
    let file = cluster.folder().join("asked.yaml");
    fs::write(&file, capstan_config("")).expect("written");
    let mut call = Command::new(cluster.capstan_program().expect("it is built"));
    call.args(["run", "--log-format", "json", "--config"]).arg(&file);
    call.arg("--kubeconfig").arg(cluster.kubeconfig());
    let mut capstan = cluster.capstan_called("asked", call, &file).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");

    let job = |name, pods| Job { queue: Some("gpus"), ..Job::of("default", name, pods) };
    submit(&cluster, &[job("fits", 8)]);
    wait_for(&cluster, "pods", "the first job runs", |pods| {
        running(pods, |name| name.starts_with("fits-")) == 8
    });
    submit(&cluster, &[job("waits", 4)]);
    wait_for(&cluster, "workloads.capstan.sh", "the second one is seen to wait", |all| {
        let waits = |it: &&Value| it["metadata"]["name"] == "waits";
        all.iter().find(waits).is_some_and(|it| it["status"]["state"] == "Queued")
    });

    // 1 is a no, as of `capstan explain` itself; the words are the same wherever they are asked.
    let (code, said) = kubectl_capstan(&cluster, &["capstan", "explain", "workload/waits"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("default/waits") && said.contains("h100-0 has 0 free"), "{said}");
    let server = capstan.url();
    let words = ["capstan", "explain", "workload/waits", "--server", &server];
    let (code, of_leader) = kubectl_capstan(&cluster, &words);
    assert_eq!((code, timeless(&of_leader)), (1, timeless(&said)));
    let (code, said) = kubectl_capstan(&cluster, &["capstan", "explain", "workload/fits"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = kubectl_capstan(&cluster, &["capstan", "explain", "workload/nobody"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("nobody"), "{said}");

    pods_are_explained(&cluster, &server);
    assert_eq!(capstan.get(&cluster, "/healthz").expect("it lives"), "ok\n");

    let log = fs::read_to_string(capstan.process.log()).expect("a log");
    let parsed = log.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = parsed.collect::<Result<_, _>>().expect("every line is JSON");
    let in_cycle = |line: &&Value| line["span"]["name"] == "cycle";
    let cycle = lines.iter().find(in_cycle).unwrap_or_else(|| panic!("no cycle in\n{log}"));
    assert!(cycle["timestamp"].is_string() && cycle["level"].is_string(), "{cycle}");
}

/// Why a pod of the Job that waits may not run, and that one of the other does: the same words
/// from the cluster and from the leader.
fn pods_are_explained(cluster: &ControlPlane, server: &str) {
    let pods = cluster.list("pods").expect("pods");
    let pod = |job: &str| {
        let of = |it: &&Value| it["metadata"]["labels"]["job-name"] == job;
        let found = pods.iter().find(of).unwrap_or_else(|| panic!("a pod of {job}"));
        format!("pod/{}", name_of(found))
    };
    for (job, no, words) in [("waits", 1, "h100-0"), ("fits", 0, "fits 1 of 1 nodes")] {
        let pod = pod(job);
        let (code, said) = kubectl_capstan(cluster, &["capstan", "explain", &pod]);
        let (own, of_leader) =
            kubectl_capstan(cluster, &["capstan", "explain", &pod, "--server", server]);
        assert!(said.contains(&format!("default/{}", &pod[4..])) && said.contains(words), "{said}");
        assert_eq!((code, own, timeless(&of_leader)), (no, no, timeless(&said)));
    }
    let (code, said) = kubectl_capstan(cluster, &["capstan", "explain", "pod/nobody"]);
    assert_eq!((code, said.contains("nobody")), (2, true), "{said}");
    let words = ["capstan", "explain", "pod/nobody", "--server", server];
    let (code, said) = kubectl_capstan(cluster, &words);
    assert_eq!((code, said.contains("no pod nobody in namespace default")), (2, true), "{said}");
}
