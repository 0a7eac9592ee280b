//! The real control plane as a test part: it starts, does its work, and goes without a trace.
//!
//! These tests need Go the first time they run on a machine, or KUBEBUILDER_ASSETS. Some run
//! this very program again, as somebody would run it with too little installed, or to kill it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{
    ControlPlane, GpuNodes, Options, Order, Part, Process, RUNS_FOR, eventually, parts,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Long enough for a busy machine, and no test waits for it that passes.
const SOON: Duration = Duration::from_secs(60);
/// The test that is run again by others: it has every part.
const JOB_TEST: &str = "a_job_runs_for_as_long_as_its_annotation_says";

#[test]
fn two_clusters_run_side_by_side() {
    let clusters = [Options::bare(), Options::bare()].map(|options| {
        let started = ControlPlane::start(options);
        started.expect("a control plane")
    });
    let [one, two] = &clusters;
    assert_ne!(one.server_url(), two.server_url());
    let version = one.kubectl(&["version", "--output", "json"]).expect("both versions");
    let version: Value = serde_json::from_str(&version).expect("JSON");
    for side in ["clientVersion", "serverVersion"] {
        let says = version[side]["gitVersion"].as_str().unwrap_or_default();
        assert!(says.starts_with("v1."), "{side}: {version}");
    }
    one.create_nodes(&GpuNodes::new("h100", 3)).expect("nodes");
    let words = ["get", "nodes", "--no-headers", "--label-columns", "topology.kubernetes.io/rack"];
    let nodes = one.kubectl(&words).expect("nodes");
    let names: Vec<&str> = nodes.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(names, ["h100-0", "h100-1", "h100-2"], "{nodes}");
    assert!(nodes.lines().all(|line| line.contains(" Ready ")), "{nodes}");
    assert!(nodes.lines().all(|line| line.ends_with("h100-rack-0")), "{nodes}");
    assert_eq!(two.kubectl(&["get", "nodes", "--no-headers"]).expect("no nodes"), "");
    let folders = clusters.map(|cluster| cluster.folder());
    assert!(folders.iter().all(|folder| !folder.exists()), "they go with their clusters");
}

#[test]
fn a_job_runs_for_as_long_as_its_annotation_says() {
    let cluster = ControlPlane::start(Options::full()).expect("a control plane");
    let mut nodes = GpuNodes::new("h100", 2);
    nodes.tainted = true;
    cluster.create_nodes(&nodes).expect("nodes");
    cluster.create_namespace("team").expect("a namespace");
    let pods: Api<Pod> = Api::namespaced(cluster.client().expect("a client"), "team");
    let jobs: Api<Job> = Api::namespaced(cluster.client().expect("a client"), "team");
    let create = |name: &str, annotations: Value| {
        let job: Job = serde_json::from_value(job(name, annotations)).expect("a Job");
        cluster.block_on(jobs.create(&PostParams::default(), &job)).expect("created");
    };
    let phases = || -> Vec<String> {
        let listed = cluster.block_on(pods.list(&ListParams::default())).expect("pods");
        listed.iter().filter_map(|pod| pod.status.clone()?.phase).collect()
    };
    create("forever", json!({}));
    create("short", json!({RUNS_FOR: "4s"}));
    let started = Instant::now();
    eventually("four pods run", SOON, || {
        let phases = phases();
        let running = phases.iter().filter(|phase| *phase == "Running").count();
        if running == 4 { Ok(()) } else { Err(format!("{phases:?}")) }
    })
    .expect("all at once: nothing of it ends before 4 s are over");
    let job = eventually("the short Job is complete", SOON, || {
        let job = cluster.block_on(jobs.get("short")).map_err(|e| e.to_string())?;
        let status = job.status.clone().unwrap_or_default();
        if status.completion_time.is_some() { Ok(job) } else { Err(format!("{status:?}")) }
    })
    .expect("complete");
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(4), "it took {took:?}");
    assert_eq!(job.status.and_then(|status| status.succeeded), Some(2));
    let mut phases = phases();
    phases.sort();
    assert_eq!(phases, ["Running", "Running", "Succeeded", "Succeeded"]);
    cluster.kubectl(&["-n", "team", "delete", "job", "forever"]).expect("deleted");
}

/// Two pods with a GPU each.
fn job(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "initContainers": [{"name": "fetch", "image": "example/fetch"}],
                    "containers": [{
                        "name": "main",
                        "image": "example/main",
                        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}},
                    }],
                },
            },
        },
    })
}

#[test]
fn parts_stop_and_start_again_with_their_data() {
    let mut cluster = ControlPlane::start(Options::bare()).expect("a control plane");
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().expect("a client"));
    let url = cluster.server_url();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("kept".to_owned());
    map.data = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    let made = cluster.block_on(maps.create(&PostParams::default(), &map)).expect("created");
    let old = made.metadata.resource_version.expect("a version");

    cluster.stop(Part::ApiServer).expect("stopped");
    assert!(cluster.kubectl(&["get", "nodes"]).is_err(), "nobody answers");
    cluster.start_again(Part::ApiServer).expect("started");
    assert_eq!(cluster.server_url(), url);
    let found = cluster.block_on(maps.get("kept")).expect("the client of before works");
    assert_eq!(found.data, map.data);

    for part in [Part::Etcd, Part::ApiServer] {
        let pid = cluster.process(part).expect("it runs").pid();
        cluster.kill(part).expect("killed");
        assert!(cluster.process(part).is_err());
        cluster.start_again(part).expect("started");
        assert_ne!(cluster.process(part).expect("it runs").pid(), pid);
    }
    let found = cluster.block_on(maps.get("kept")).expect("still there");
    assert_eq!(found.metadata.resource_version.as_deref(), Some(old.as_str()));

    cluster.kubectl(&["create", "configmap", "later"]).expect("created");
    let revision = cluster.compact().expect("compacted");
    assert!(revision > old.parse::<i64>().expect("a number"));
    cluster.restart(Part::ApiServer).expect("restarted");
    let path = format!(
        "/api/v1/configmaps?watch=true&timeoutSeconds=5&resourceVersion={old}&\
         allowWatchBookmarks=true"
    );
    let says = cluster.kubectl(&["get", "--raw", &path]);
    let says = says.unwrap_or_else(|trouble| trouble.to_string());
    assert!(says.contains("410") || says.contains("too old resource version"), "{says}");
}

#[test]
fn a_restart_waits_for_a_port_that_is_taken() {
    let mut cluster = ControlPlane::start(Options::bare()).expect("a control plane");
    let port = cluster.server_url().rsplit_once(':').expect("a port").1.to_owned();
    cluster.stop(Part::ApiServer).expect("stopped");
    let thief = TcpListener::bind(format!("127.0.0.1:{port}")).expect("the port is free");
    thread::scope(|scope| {
        let log = cluster.logs().join("kube-apiserver.log");
        scope.spawn(move || {
            let refused = eventually("a refusal", SOON, || {
                let text = fs::read_to_string(&log).map_err(|e| e.to_string())?;
                let taken = text.contains("address already in use");
                if taken { Ok(()) } else { Err("none".to_owned()) }
            });
            drop(thief);
            refused.expect("the port was taken");
        });
        cluster.start_again(Part::ApiServer).expect("started when the port was free");
    });
}

#[test]
fn users_may_do_what_their_roles_say() {
    let options = Options::bare().user("ann", &["readers"]);
    let cluster = ControlPlane::start(options).expect("a control plane");
    let role = ["create", "clusterrole", "reader", "--verb=list", "--resource=nodes"];
    cluster.kubectl(&role).expect("a role");
    let bind = |subject: &str| {
        let name = subject.replace(['=', ':', '-'], "");
        let words = ["create", "clusterrolebinding", &name, "--clusterrole=reader", subject];
        cluster.kubectl(&words).expect("a binding");
    };
    bind("--group=readers");
    bind("--serviceaccount=default:robot");
    cluster.kubectl(&["create", "serviceaccount", "robot"]).expect("an account");
    cluster.kubectl(&["create", "serviceaccount", "stranger"]).expect("an account");
    let may = |kubeconfig: &Path, words: &str| {
        let kubeconfig = kubeconfig.to_str().expect("UTF-8");
        let mut all = vec!["--kubeconfig", kubeconfig, "auth", "can-i"];
        all.extend(words.split(' '));
        cluster.kubectl(&all).is_ok()
    };
    let ann = cluster.kubeconfig_of("ann").expect("known");
    let robot = cluster.kubeconfig_of_service_account("default", "robot").expect("a token");
    let stranger = cluster.kubeconfig_of_service_account("default", "stranger").expect("a token");
    for (who, list) in [(&ann, true), (&robot, true), (&stranger, false)] {
        assert_eq!(may(who, "list nodes"), list, "{}", who.display());
        assert!(!may(who, "delete nodes"), "{}", who.display());
    }
    let who = ["--kubeconfig", robot.to_str().expect("UTF-8"), "auth", "whoami"];
    let says = cluster.kubectl(&who).expect("who");
    assert!(says.contains("system:serviceaccount:default:robot"), "{says}");
    assert!(cluster.kubeconfig_of("bob").is_err());
    let missing = cluster.kubeconfig_of_service_account("default", "nobody");
    let says = missing.unwrap_err().to_string();
    assert!(says.contains("\"nobody\" not found (404)"), "{says}");
}

#[test]
fn upstream_gangs_are_there_when_asked_for() {
    let options = Options { upstream_gangs: true, scheduler: true, ..Options::bare() };
    let mut cluster = ControlPlane::start(options).expect("a control plane");
    let list = ["get", "podgroups.v1beta1.scheduling.k8s.io", "--all-namespaces", "-o", "name"];
    assert_eq!(cluster.kubectl(&list).expect("served"), "");
    let scheduler = cluster.process(Part::Scheduler).expect("it runs");
    assert!(scheduler.runs());
    let plain = ControlPlane::start(Options::bare()).expect("a control plane");
    assert!(plain.kubectl(&list).is_err(), "not served unless asked for");
}

#[test]
fn helm_comes_from_a_module_of_its_own() {
    let helm = parts::helm().expect("helm is given or built");
    let said = Command::new(helm).args(["version", "--short"]).output().expect("it runs");
    let said = String::from_utf8(said.stdout).expect("text");
    assert!(said.starts_with("v4."), "{said}");
}

#[test]
fn processes_are_paused_resumed_and_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let start = |script: &str| {
        let mut call = Command::new("sh");
        call.args(["-c", script]);
        Process::start("a script", &call, &log).expect("it starts")
    };
    let says = |word: &str| {
        eventually(word, SOON, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains(word) { Ok(()) } else { Err(text) }
        })
        .expect("it is said");
    };
    let mut polite = start("trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.1; done");
    says("hello");
    polite.order(Order::Pause);
    polite.order(Order::End);
    assert_eq!(polite.wait(Duration::from_millis(500)).expect("watched"), None, "it is paused");
    polite.order(Order::Resume);
    assert_eq!(polite.wait(SOON).expect("watched"), Some(3));
    says("bye");
    let mut stubborn = start("trap '' TERM; echo deaf; while :; do sleep 0.1; done");
    says("deaf");
    let trouble = stubborn.end(Duration::from_millis(300)).unwrap_err().to_string();
    assert!(trouble.starts_with("a script did not end within 0 s and was killed"), "{trouble}");
    assert!(!stubborn.runs());
    let mut missing = Process::start("nothing", &Command::new("/no/such/program"), &log)
        .expect("its warden starts");
    assert_eq!(missing.wait(SOON).expect("watched"), Some(127));
    says("/no/such/program cannot be started: No such file or directory");
}

/// Who is killed with SIGKILL, and when.
#[derive(Debug)]
enum Kill {
    /// The test, while its first process starts.
    TestWhileStarting,
    /// The test, when everything runs.
    Test,
    /// The test and all wardens: only the kernel is left to end the parts.
    TestAndWardens,
}

#[test]
fn a_killed_test_leaves_no_process() {
    // On a fresh machine that takes longer than anything below may.
    parts::Parts::find(&[Part::Etcd]).expect("the parts, built");
    let mut kinds = vec![Kill::TestWhileStarting, Kill::Test];
    if cfg!(target_os = "linux") {
        kinds.push(Kill::TestAndWardens);
    }
    for kill in kinds {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().to_str().expect("UTF-8").to_owned();
        let output = fs::File::create(folder.path().join("output")).expect("a file");
        let mut test = again(JOB_TEST)
            .env("TMPDIR", folder.path())
            .stderr(output.try_clone().expect("a file"))
            .stdout(output)
            .spawn()
            .expect("this program runs again");
        let enough = match kill {
            Kill::TestWhileStarting => 1,
            // Five parts with their wardens.
            Kill::Test | Kill::TestAndWardens => 10,
        };
        let found = eventually("its processes", SOON * 10, || {
            let ended = test.try_wait().expect("watched");
            assert!(ended.is_none(), "{}", read(&folder.path().join("output")));
            let found = processes(&mark);
            if found.len() >= enough { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .expect("they run");
        test.kill().expect("killed");
        if matches!(kill, Kill::TestAndWardens) {
            for (pid, _) in found.iter().filter(|(_, line)| line.contains("warden-keep")) {
                kill_process(Pid::from_raw(*pid).expect("a pid"), Signal::KILL).expect("killed");
            }
        }
        test.wait().expect("it is gone");
        eventually("no process", Duration::from_secs(10), || {
            let left = processes(&mark);
            if left.is_empty() { Ok(()) } else { Err(format!("{kill:?}: {left:?}")) }
        })
        .expect("all are gone");
    }
}

/// Processes with this word in their command lines.
fn processes(word: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    if let Ok(listed) = fs::read_dir("/proc") {
        for entry in listed.filter_map(|entry| entry.ok()) {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            // One that ends meanwhile has no command line any more.
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            found.extend(pid.map(|pid| (pid, line)));
        }
    } else {
        let said = Command::new("ps").args(["-axww", "-o", "pid=,command="]).output();
        let said = String::from_utf8(said.expect("ps runs").stdout).expect("text");
        let rows = said.lines().filter_map(|line| line.trim().split_once(' '));
        found.extend(rows.filter_map(|(pid, line)| Some((pid.parse().ok()?, line.to_owned()))));
    }
    found.retain(|(_, line)| line.contains(word));
    found
}

#[test]
fn a_missing_part_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for part in ["etcd", "kube-apiserver", "kubectl", "kube-scheduler"] {
        fs::write(folder.path().join(part), "").expect("a file");
    }
    let says = failure(again(JOB_TEST).env("KUBEBUILDER_ASSETS", folder.path()));
    let missing = "there is no kube-controller-manager and no kwok there: add it, or unset \
                   KUBEBUILDER_ASSETS";
    assert!(says.contains(missing), "{says}");
}

#[test]
fn parts_that_are_there_need_no_toolchain() {
    let etcd = parts::Parts::find(&[Part::Etcd]).expect("the parts, built");
    let folder = etcd.path(Part::Etcd).parent().expect("a folder").to_owned();
    let ran = again(JOB_TEST).env("KUBEBUILDER_ASSETS", folder).env("PATH", "").output();
    let ran = ran.expect("this program runs again");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("test result: ok. 1 passed"), "{said}");
}

#[test]
fn a_missing_toolchain_is_an_error_that_says_what_to_install() {
    let says = failure(again(JOB_TEST).env_remove("KUBEBUILDER_ASSETS").env("PATH", ""));
    for part in [
        "control plane needs the Go toolchain, 1.26.0 or newer",
        "`go` cannot be run",
        "Install Go and have `go` on PATH",
        "or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver",
    ] {
        assert!(says.contains(part), "no {part:?} in:\n{says}");
    }
}

/// This program, to run one of its tests again.
fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).stdin(Stdio::null());
    command
}

/// What a test that has to fail says.
fn failure(command: &mut Command) -> String {
    let said = command.output().expect("this program runs again");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let says = format!("{}{}", text(said.stdout), text(said.stderr));
    assert!(!said.status.success() && says.contains("test result: FAILED. 0 passed"), "{says}");
    says
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
