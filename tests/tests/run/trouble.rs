//! What breaks around Capstan: the API server and its history, other schedulers, nodes.

use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{ControlPlane, GpuNodes, Part, eventually, is_true, name_of};
use capstan_tests::seed::Seed;
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{Job, SOON, bare_gang, cluster, names, running, submit, wait_for, wait_within};

const QUEUE: &str = include_str!("one-queue.yaml");
/// Members of a gang.
const SIZE: usize = 8;
/// No gang may be in part for longer than this.
const IN_PART: Duration = Duration::from_secs(60);
/// After an outage others (who makes pods, who runs them) look again within 60 s: a reflector of
/// client-go backs off to 30 s and up to as much again by chance, and resets after two minutes.
const OTHERS_RETURN: Duration = Duration::from_secs(150);
/// An orphaned pod is let be for 40 s, and then it takes the Job a while to make another.
const NODES_GONE: Duration = Duration::from_secs(180);

fn gangs(prefix: &str, count: usize) -> Vec<Job> {
    (0..count).map(|at| Job::of("default", &format!("{prefix}-{at}"), SIZE as u32)).collect()
}

/// Waits until so many members run.
fn run(cluster: &ControlPlane, prefix: &str, members: usize) {
    run_within(cluster, prefix, members, SOON);
}

fn run_within(cluster: &ControlPlane, prefix: &str, members: usize, time: Duration) {
    wait_within(time, cluster, "pods", &format!("{members} of {prefix} run"), |pods| {
        running(pods, |name| name.starts_with(prefix)) == members
    });
}

#[test]
fn the_api_server_goes_and_comes_back_without_its_history() {
    let mut cluster = cluster(&GpuNodes::new("h100", 40));
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    for round in 0..3 {
        let prefix = format!("round-{round}");
        submit(&cluster, &gangs(&prefix, 10));
        // In the middle of it: some are bound, more are to come.
        eventually("some are bound", SOON, || {
            let begun = judge::gangs(&history, SIZE);
            let ours = begun.keys().filter(|gang| gang.starts_with(&prefix)).count();
            if ours > 0 { Ok(()) } else { Err("none") }
        })
        .expect("it binds");
        cluster.kill(Part::ApiServer).expect("killed");
        cluster.compact().expect("forgotten");
        cluster.start_again(Part::ApiServer).expect("started");
        run_within(&cluster, &prefix, 10 * SIZE, OTHERS_RETURN);
        assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
    }
    judge::binds_are_sound(&history, 8);
    judge::are_bound(&judge::gangs(&history, SIZE), IN_PART);

    // Away for longer than a lease may be uncertain: it ends, and whoever comes next goes on.
    cluster.stop(Part::ApiServer).expect("stopped");
    assert_eq!(capstan.process.wait(SOON).expect("watched"), Some(1));
    cluster.start_again(Part::ApiServer).expect("started");
    let _next = cluster.capstan("capstan-1", "").expect("started");
    submit(&cluster, &gangs("last", 10));
    run_within(&cluster, "last", 10 * SIZE, OTHERS_RETURN);
    run(&cluster, "round", 30 * SIZE);
    judge::are_bound(&judge::gangs(&history, SIZE), IN_PART);
    judge::binds_are_sound(&history, 8);
}

/// Pods of somebody else that are put on a node without asking anybody.
fn thieves(round: usize, node: &str) -> Value {
    let mut pods = bare_gang(&format!("thief-{round}"), SIZE);
    for pod in &mut pods {
        pod["metadata"]["labels"] = json!({});
        pod["spec"]["schedulerName"] = json!("somebody-else");
        pod["spec"]["nodeName"] = json!(node);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": pods})
}

#[test]
fn another_scheduler_that_takes_nodes_is_taken_into_account() {
    let cluster = cluster(&GpuNodes::new("h100", 6));
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut seed = Seed::new(7);
    for round in 0..8 {
        let node = format!("h100-{}", seed.below(6));
        let stolen = thieves(round, &node).to_string();
        thread::scope(|scope| {
            scope.spawn(|| cluster.kubectl_with(&["create", "-f", "-"], &stolen));
            let job = Job { runs_for: Some("5s"), ..Job::of("default", "", SIZE as u32) };
            let jobs = [0, 1].map(|at| Job { name: format!("ours-{round}-{at}"), ..job.clone() });
            submit(&cluster, &jobs);
        });
        if round >= 2 {
            let words = ["delete", "pods", "-l", "!batch.kubernetes.io/job-name", "--wait=false"];
            cluster.kubectl(&words).expect("they leave");
        }
    }
    let words = ["delete", "pods", "-l", "!batch.kubernetes.io/job-name", "--wait=false"];
    cluster.kubectl(&words).expect("they leave");
    wait_for(&cluster, "jobs", "all of ours complete", |jobs| {
        names(jobs, |job| is_true(job, "Complete").is_some()).len() == 16
    });
    judge::become_whole(&judge::gangs(&history, SIZE), IN_PART);
    judge::what_stands_is_respected(&history, 8, Duration::from_secs(2));
}

#[test]
fn gangs_whose_nodes_are_deleted_are_made_whole_elsewhere() {
    // Two members on a node: the Job controller waits twice as long for each that it lost.
    let mut nodes = GpuNodes::new("h100", 10);
    nodes.gpus = 2;
    let cluster = cluster(&nodes);
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let job = |at: usize| Job { undisrupted: true, ..Job::of("default", &format!("gang-{at}"), 4) };
    submit(&cluster, &(0..4).map(job).collect::<Vec<_>>());
    run(&cluster, "gang", 4 * 4);
    let pods = cluster.list("pods").expect("pods");
    let mut used: Vec<String> =
        pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned)).collect();
    used.sort_unstable();
    used.dedup();
    let gone = &used[..2];
    cluster.kubectl(&["delete", "node", &gone[0], &gone[1]]).expect("deleted");
    let whole = eventually("all are whole on other nodes", NODES_GONE, || {
        let pods = cluster.list("pods").map_err(|e| e.to_string())?;
        let stands = |pod: &&Value| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            pod["status"]["phase"] == "Running" && !gone.iter().any(|it| it == node)
        };
        let standing = pods.iter().filter(stands).count();
        if standing == 4 * 4 { Ok(()) } else { Err(format!("{standing} stand")) }
    });
    whole.unwrap_or_else(|trouble| {
        let seen = cluster.kubectl(&["get", "wl,jobs,pods,nodes", "-A"]).unwrap_or_default();
        panic!("{trouble}\n{seen}")
    });
    let jobs = cluster.list("jobs").expect("jobs");
    assert_eq!(names(&jobs, |job| is_true(job, "Failed").is_some()), [""; 0]);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn members_that_a_kubelet_refuses_free_their_room_and_are_made_again() {
    // Full to the last GPU: who comes again finds room only where the refused one held it.
    let cluster = cluster(&GpuNodes::new("h100", 1));
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let reasons = ["OutOfcpu", "UnexpectedAdmissionError"];
    let jobs = reasons.map(|reason| {
        let mut job = Job::of("default", &reason.to_lowercase(), 4).manifest();
        job["spec"]["backoffLimit"] = json!(3);
        job
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": jobs});
    cluster.kubectl_with(&["create", "-f", "-"], &list.to_string()).expect("created");
    let all_run = |what: &str| {
        wait_for(&cluster, "pods", what, |pods| running(pods, |_| true) == SIZE);
        wait_for(&cluster, "workloads.capstan.sh", "both gangs run", |all| {
            all.iter().filter(|it| it["status"]["state"] == "Running").count() == 2
        })
    };
    all_run("they run");
    let mut refused = Vec::new();
    for reason in reasons {
        let first = cluster.list("pods").expect("pods").into_iter();
        let mut first = first.map(|pod| pod["metadata"]["name"].as_str().unwrap_or("").to_owned());
        let pod = first.find(|name| name.starts_with(&reason.to_lowercase())).expect("a member");
        let status = json!({"phase": "Failed", "reason": reason, "message": "Node has too little"});
        let patch = json!({ "status": status }).to_string();
        let words = ["patch", "pod", &pod, "--subresource=status", "--type=merge", "-p", &patch];
        cluster.kubectl(&words).expect("refused");
        refused.push(pod);
    }
    all_run("others took their places");
    let pods = cluster.list("pods").expect("pods");
    let failed = names(&pods, |pod| pod["status"]["phase"] == "Failed");
    refused.sort();
    assert_eq!(failed, refused, "nobody else was stopped");
    judge::binds_are_sound(&history, 8);
    let jobs = cluster.list("jobs").expect("jobs");
    assert_eq!(names(&jobs, |job| is_true(job, "Failed").is_some()), [""; 0]);
}

#[test]
fn the_quota_of_a_member_that_died_waits_for_the_one_in_its_stead() {
    let cluster = cluster(&GpuNodes::new("h100", 2));
    let history = cluster.watch_pods().expect("a watch");
    let queue = QUEUE.replace("nominalQuota: 320", "nominalQuota: 8");
    cluster.kubectl_with(&["apply", "-f", "-"], &queue).expect("a queue of 8 GPUs");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let in_queue = |name: &str, pods: u32| {
        let job = Job { queue: Some("gpus"), ..Job::of("default", name, pods) };
        let mut job = job.manifest();
        job["spec"]["backoffLimit"] = json!(3);
        job
    };
    let create = |job: Value| {
        cluster.kubectl_with(&["create", "-f", "-"], &job.to_string()).expect("created");
    };
    create(in_queue("gang", SIZE as u32));
    run(&cluster, "gang", SIZE);
    create(in_queue("other", 1));
    let waits = |all: &[Value]| {
        all.iter().any(|it| is_true(it, "QuotaReserved").is_none() && name_of(it) == "other")
    };
    wait_for(&cluster, "workloads.capstan.sh", "the other one waits", waits);

    let pods = cluster.list("pods").expect("pods");
    let first = names(&pods, |pod| name_of(pod).starts_with("gang")).remove(0);
    let patch = json!({"status": {"phase": "Failed"}}).to_string();
    let words = ["patch", "pod", &first, "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl(&words).expect("it died");
    run(&cluster, "gang", SIZE);
    judge::never_over(&history, "the queue", 8, |_| true);
    let begun = judge::gangs(&history, SIZE);
    assert!(!begun.contains_key("other"), "it took the quota of the member that died");

    // It is free with the gang.
    cluster.kubectl(&["delete", "job", "gang", "--wait=false"]).expect("deleted");
    run(&cluster, "other", 1);
    judge::never_over(&history, "the queue", 8, |_| true);
}
