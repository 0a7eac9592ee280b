//! The life of replicas: who leads, who takes over, what a changed file does.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use capstan_tests::cluster::{
    Capstan, ControlPlane, GpuNodes, Options, Seen, capstan_config, eventually,
};
use capstan_tests::exercise::{KINDS_OF_KUEUE, QUEUES};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::scene::{self, Job, SOON, running, submit, wait_for};

/// A lease that runs out while a test can wait for it, and that a busy machine can keep.
const SHORT_LEASE: &str =
    "leaderElection: {leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 500ms}\n";
/// A lease that does not run out while a test waits.
const LONG_LEASE: &str =
    "leaderElection: {leaseDuration: 120s, renewDeadline: 90s, retryPeriod: 500ms}\n";
/// Far less than that, and enough for any machine.
const GIVEN_BACK: Duration = Duration::from_secs(60);
/// One queue of Kueue's.
const KUEUES: &str = include_str!("kueues.yaml");
/// An account that may not read it.
const ROBOT: &str = include_str!("robot.yaml");

/// A control plane with eight GPUs, without kube-scheduler.
fn cluster() -> ControlPlane {
    scene::cluster(&GpuNodes::new("h100", 1))
}

fn replica(cluster: &ControlPlane, name: &str, lease: &str) -> Capstan {
    cluster.capstan(name, lease).expect("started")
}

/// Submits a Job and waits until it runs.
fn runs(cluster: &ControlPlane, name: &str) {
    runs_in(cluster, name, None);
}

fn runs_in(cluster: &ControlPlane, name: &str, queue: Option<&'static str>) {
    submit(cluster, &[Job { queue, ..Job::new("default", name) }]);
    let prefix = format!("{name}-");
    let pods = |pods: &[Value]| running(pods, |pod| pod.starts_with(&prefix)) == 1;
    wait_for(cluster, "pods", &format!("{name} runs"), pods);
}

/// A field of the lease's spec; absent: nothing.
fn lease(cluster: &ControlPlane, field: &str) -> String {
    let path = format!("jsonpath={{.spec.{field}}}");
    cluster.kubectl(&["get", "lease", "capstan", "-o", &path]).expect("a lease")
}

fn holder(cluster: &ControlPlane) -> String {
    lease(cluster, "holderIdentity")
}

#[test]
fn a_leader_that_ends_gives_the_lease_to_who_stands_by() {
    let cluster = cluster();
    let mut first = replica(&cluster, "first", LONG_LEASE);
    first.wait_until(&cluster, "leading").expect("it leads");
    let mut second = replica(&cluster, "second", LONG_LEASE);
    second.wait_until(&cluster, "standing by").expect("it waits");
    runs(&cluster, "one");
    assert!(holder(&cluster).starts_with("first_"));

    let asked = Instant::now();
    assert_eq!(first.process.end(SOON).expect("it ends"), 0);
    second.wait_until(&cluster, "leading").expect("it leads");
    let took = asked.elapsed();
    assert!(took < GIVEN_BACK, "the lease was not given back: {took:?}");
    assert!(holder(&cluster).starts_with("second_"));
    runs(&cluster, "two");
    assert_eq!(running(&cluster.list("pods").expect("pods"), |_| true), 2, "the first goes on");
}

#[test]
fn a_standby_takes_over_from_a_leader_that_was_killed() {
    let cluster = cluster();
    let mut first = replica(&cluster, "first", SHORT_LEASE);
    first.wait_until(&cluster, "leading").expect("it leads");
    runs(&cluster, "one");
    let mut second = replica(&cluster, "second", SHORT_LEASE);
    second.wait_until(&cluster, "standing by").expect("it waits");
    first.process.kill();
    // Nobody leads; what comes now is for the next one.
    submit(&cluster, &[Job::new("default", "two")]);
    second.wait_until(&cluster, "leading").expect("it leads");
    let pods = |pods: &[Value]| running(pods, |pod| pod.starts_with("two-")) == 1;
    let pods = wait_for(&cluster, "pods", "two runs", pods);
    assert_eq!(running(&pods, |_| true), 2, "the first goes on");
}

/// Pods that wait when the lease comes free.
const WAITING: usize = 300;
/// A new leader has bound the first of them by then.
const AT_ONCE: Duration = Duration::from_secs(1);
/// A machine that stands still for a moment says nothing of take-overs; twice it would.
const OFTEN: usize = 2;

/// A lease that somebody holds who does nothing with it.
fn held_by_nobody_of_us(cluster: &ControlPlane) {
    // With the six digits that the API takes.
    let now = format!("{:.6}", Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "capstan", "namespace": "default"},
        "spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 3_600,
                 "acquireTime": now, "renewTime": now},
    });
    cluster.apply(&lease.to_string()).expect("applied");
}

/// From the lease, as its new holder wrote it, to the first bind, as a watch of the API showed it.
fn take_over(cluster: &ControlPlane, name: &str) -> Duration {
    held_by_nobody_of_us(cluster);
    let mut standby = replica(cluster, name, LONG_LEASE);
    standby.wait_until(cluster, "standing by").expect("it waits");
    let (clock, history) = (SystemTime::now(), cluster.watch_pods().expect("a watch"));
    let template = Job::new("default", name).manifest()["spec"]["template"].take();
    let pod = |at: usize| {
        let metadata = json!({"name": format!("{name}-{at}"), "namespace": "default"});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    };
    let pods: Vec<Value> = (0..WAITING).map(pod).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
    let ours = |pod: &&Seen| pod.name.starts_with(&format!("{name}-"));
    let all = |what: &str, holds: bool| {
        let found = eventually(what, SOON, || {
            let now = history.now();
            let found = now.values().filter(ours).filter(|pod| pod.holds() == holds).count();
            if found == WAITING { Ok(()) } else { Err(format!("{found} of {WAITING}")) }
        });
        found.unwrap_or_else(|trouble| panic!("{}", standby.process.trouble(&trouble.to_string())));
    };
    all("pods that wait", false);

    // As a leader gives it back.
    let back = "--patch={\"spec\": {\"holderIdentity\": null, \"leaseDurationSeconds\": 1}}";
    cluster.kubectl(&["patch", "lease", "capstan", "--type=merge", back]).expect("given back");
    all("pods that were bound", true);
    let mut first = None;
    history.replay(|at, pods| {
        if first.is_none() && pods.values().filter(ours).any(|pod| pod.holds()) {
            first = Some(clock + at);
        }
    });
    let acquired = lease(cluster, "acquireTime").parse::<Timestamp>().expect("a time");
    let acquired = u64::try_from(acquired.as_microsecond()).expect("after 1970");
    let acquired = UNIX_EPOCH + Duration::from_micros(acquired);
    let took = first.expect("the first bind").duration_since(acquired);
    assert_eq!(standby.process.end(SOON).expect("it ends"), 0);
    took.expect("nothing is bound before the lease is had")
}

#[test]
fn a_take_over_binds_within_a_second_of_the_lease() {
    let cluster = scene::cluster_with(Options::bare(), &GpuNodes::new("h100", 1_000));
    let (mut soon, mut late) = (Vec::new(), Vec::new());
    while soon.len() < OFTEN {
        let took = take_over(&cluster, &format!("try-{}", soon.len() + late.len()));
        if took < AT_ONCE {
            soon.push(took)
        } else {
            late.push(took)
        }
        assert!(late.len() < OFTEN, "{late:?} from the lease to the first bind, and {soon:?}");
    }
}

#[test]
fn a_deposed_leader_ends_at_once() {
    let cluster = cluster();
    let mut first = replica(&cluster, "first", SHORT_LEASE);
    first.wait_until(&cluster, "leading").expect("it leads");
    let words = [
        "patch",
        "lease",
        "capstan",
        "--type=merge",
        "--patch={\"spec\": {\"holderIdentity\": \"somebody-else\"}}",
    ];
    cluster.kubectl(&words).expect("patched");
    assert_eq!(first.process.wait(SOON).expect("watched"), Some(1));
    assert_eq!(holder(&cluster), "somebody-else");
}

#[test]
fn another_configuration_holds_without_a_restart_and_a_broken_one_does_not() {
    let cluster = cluster();
    cluster.apply(QUEUES).expect("applied");
    let hold = format!("{SHORT_LEASE}unqueuedWorkloads: Hold\n");
    let mut capstan = cluster.capstan("capstan", &hold).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    submit(&cluster, &[Job::new("default", "unqueued")]);
    let why = |pods: &[Value]| {
        let said = pods.iter().filter_map(|pod| pod["status"]["conditions"][0]["message"].as_str());
        said.into_iter().any(|says| says.contains("queue"))
    };
    wait_for(&cluster, "pods", "it waits and says why", why);

    let log = || fs::read_to_string(capstan.process.log()).expect("its log");
    let path = capstan.config().to_owned();
    let broken = format!("{SHORT_LEASE}unqueuedWorkload: Allow\n");
    fs::write(&path, capstan_config(&broken)).expect("written");
    eventually("the broken file is said", SOON, || {
        let log = log();
        let said = log.contains("unqueuedWorkload") && log.contains("still holds");
        if said { Ok(()) } else { Err(log) }
    })
    .expect("said");
    assert_eq!(running(&cluster.list("pods").expect("pods"), |_| true), 0);

    let allow = format!("{SHORT_LEASE}unqueuedWorkloads: Allow\n");
    fs::write(&path, capstan_config(&allow)).expect("written");
    wait_for(&cluster, "pods", "it runs", |pods| running(pods, |_| true) == 1);
    assert!(capstan.get(&cluster, "/readyz").expect("ready").contains("leading"));
    let metrics = capstan.get(&cluster, "/metrics").expect("metrics");
    assert!(metrics.contains("capstan_leader 1"), "{metrics}");
    let counted = [
        "capstan_pods_bound_total 1",
        "capstan_effects_total{action=\"bind\",result=\"done\"} 1",
        "capstan_config_reloads_total{result=\"refused\"} 1",
        "capstan_config_reloads_total{result=\"taken\"} 1",
    ];
    for line in counted {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }

    // Kueue's objects count from the next change on.
    kueue(&cluster);
    fs::write(&path, capstan_config(&format!("{allow}{BOTH}"))).expect("written");
    runs_in(&cluster, "queued", Some("kueues"));
    let metrics = capstan.get(&cluster, "/metrics").expect("metrics");
    for line in ["capstan_kinds_unread 0", "capstan_config_reloads_total{result=\"taken\"} 2"] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
}

/// What the configuration says to have Kueue's objects read as well.
const BOTH: &str = "quotaApis: [capstan.sh, kueue.x-k8s.io]\n";

/// Kueue's kinds, and a queue of them.
fn kueue(cluster: &ControlPlane) {
    cluster.apply(KINDS_OF_KUEUE).expect("applied");
    let words = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&words).expect("served");
    cluster.apply(KUEUES).expect("applied");
}

/// Waits until a replica's `/readyz` says, or says not, all of this.
fn says(cluster: &ControlPlane, capstan: &Capstan, words: &[&str], not: &str) {
    let said = eventually(&format!("/readyz says {words:?}"), SOON, || {
        // What is not ready answers with an error that has the same words.
        let said = capstan.get(cluster, "/readyz").unwrap_or_else(|trouble| trouble.to_string());
        let all = words.iter().all(|word| said.contains(word)) && !said.contains(not);
        if all { Ok(()) } else { Err(said) }
    });
    said.unwrap_or_else(|trouble| panic!("{}", capstan.process.trouble(&trouble.to_string())));
}

#[test]
fn kinds_that_may_not_be_read_stop_no_leader_and_no_start_passes_them_over() {
    let options = Options { controller_manager: true, kwok: true, ..Options::bare() };
    let cluster = scene::cluster_with(options.user("robot", &[]), &GpuNodes::new("h100", 1));
    kueue(&cluster);
    cluster.apply(ROBOT).expect("applied");
    let robot = cluster.kubeconfig_of("robot").expect("known");
    let leader = cluster.capstan_as("leader", SHORT_LEASE, &robot);
    let mut leader = leader.expect("started");
    leader.wait_until(&cluster, "leading").expect("it leads");

    let both = format!("{SHORT_LEASE}{BOTH}");
    fs::write(leader.config(), capstan_config(&both)).expect("written");
    let unread = ["not read yet: ", "ClusterQueue (kueue.x-k8s.io)"];
    says(&cluster, &leader, &[&["ok: leading"], &unread[..]].concat(), "not ready");
    runs(&cluster, "meanwhile");
    let metrics = leader.get(&cluster, "/metrics").expect("metrics");
    assert!(metrics.contains("capstan_kinds_unread 6"), "{metrics}");
    let log = fs::read_to_string(leader.process.log()).expect("its log");
    let said = log.lines().filter(|line| line.contains("is forbidden"));
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 6, "once for each kind: {log}");
    assert!(said.iter().all(|line| line.contains("grant get, list and watch")), "{log}");
    // Who begins with such a file has never known what there is.
    let started = cluster.capstan_as("started", &both, &robot).expect("started");
    says(&cluster, &started, &[&["not ready"], &unread[..]].concat(), "ok: ");

    let group = "capstan.sh]";
    assert!(ROBOT.contains(group));
    cluster.apply(&ROBOT.replace(group, "capstan.sh, kueue.x-k8s.io]")).expect("applied");
    says(&cluster, &leader, &["ok: leading"], "not read yet");
    says(&cluster, &started, &["ok: standing by"], "not read yet");
    runs_in(&cluster, "queued", Some("kueues"));
}
