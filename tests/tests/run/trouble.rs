//! What breaks around Capstan: the API server and its history, other schedulers, nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{
    ControlPlane, GpuNodes, History, Options, Part, Pods, eventually, is_true, name_of,
};
use capstan_tests::seed::Seed;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::judge::{self, Came};
use crate::scene::{
    Job, SOON, bare_gang, cluster, cluster_with, names, running, says, submit, wait_for,
    wait_within,
};

const QUEUE: &str = include_str!("one-queue.yaml");
/// Members of a gang.
const SIZE: usize = 8;
/// No gang may be in part for longer than this while somebody can act and all of its members are
/// there. A watch or a write that failed is tried again after 5 s at most, and a lease after 2 s;
/// four of those on a busy machine.
const IN_PART: Duration = Duration::from_secs(30);
/// What a watch may lag behind on a busy machine.
const LAG: Duration = Duration::from_secs(10);
/// So few writes a second that a burst is still under way whenever a test looks, however fast the
/// machine is and however slow.
const SLOWLY: &str = "clientConnection: {qps: 20, burst: 1}\n";
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
    let mut capstan = cluster.capstan("capstan-0", SLOWLY).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let (mut away, mut shown) = (Vec::new(), BTreeMap::new());
    for round in 0..3 {
        let prefix = format!("round-{round}");
        submit(&cluster, &gangs(&prefix, 10));
        // In the middle of it: some are bound, more are to come.
        let ours = |pods: &Pods| {
            let ours = pods.values().filter(|pod| pod.gang.starts_with(&prefix));
            ours.filter(|pod| pod.node.is_some()).count()
        };
        let bound = eventually("some are bound", SOON, || match history.look(ours) {
            0 => Err("none"),
            bound => Ok(bound),
        });
        cluster.kill(Part::ApiServer).expect("killed");
        let left = history.time();
        let (bound, then) = (bound.expect("it binds"), history.look(ours));
        assert!(then < 10 * SIZE, "{bound} were bound, and all {then} when it was killed");
        cluster.compact().expect("forgotten");
        cluster.start_again(Part::ApiServer).expect("started");
        away.push(left..history.time());
        run_within(&cluster, &prefix, 10 * SIZE, OTHERS_RETURN);
        assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
        // Lists that begin anew show Workloads that came since: none is made twice.
        let all =
            wait_within(OTHERS_RETURN, &cluster, "workloads.capstan.sh", "are shown", |all| {
                all.len() == 10 * (round + 1)
            });
        let of = |it: &Value| (name_of(it).to_owned(), it["metadata"]["uid"].clone());
        let now: BTreeMap<String, Value> = all.iter().map(of).collect();
        assert!(shown.iter().all(|(name, uid)| now.get(name) == Some(uid)), "{shown:?} {now:?}");
        shown = now;
    }
    judge::binds_are_sound(&history, 8);
    judge::are_bound(&judge::gangs(&history, SIZE), IN_PART, &away);
    // It could not reach it, and what it had read last was forgotten.
    says(&capstan, &["watch: Error reading events stream: ServiceError", "(410)"]);

    // Away for longer than a lease may be uncertain: it ends, and whoever comes next goes on.
    cluster.stop(Part::ApiServer).expect("stopped");
    let left = history.time();
    assert_eq!(capstan.process.wait(SOON).expect("watched"), Some(1));
    says(&capstan, &["deposed"]);
    cluster.start_again(Part::ApiServer).expect("started");
    let mut next = cluster.capstan("capstan-1", "").expect("started");
    next.wait_until(&cluster, "leading").expect("it leads");
    away.push(left..history.time());
    submit(&cluster, &gangs("last", 10));
    run_within(&cluster, "last", 10 * SIZE, OTHERS_RETURN);
    run(&cluster, "round", 30 * SIZE);
    judge::are_bound(&judge::gangs(&history, SIZE), IN_PART, &away);
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
    // One node is taken all the time.
    let first = thieves(99, "h100-5").to_string();
    cluster.kubectl_with(&["create", "-f", "-"], &first).expect("created");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut seed = Seed::new(7);
    for round in 0..8 {
        let node = format!("h100-{}", seed.below(5));
        let stolen = thieves(round, &node).to_string();
        thread::scope(|scope| {
            let thief = scope.spawn(|| cluster.kubectl_with(&["create", "-f", "-"], &stolen));
            let job = Job { runs_for: Some("5s"), ..Job::of("default", "", SIZE as u32) };
            let jobs = [0, 1].map(|at| Job { name: format!("ours-{round}-{at}"), ..job.clone() });
            submit(&cluster, &jobs);
            thief.join().expect("no panic").expect("stolen");
        });
        if round >= 2 {
            let leave = (0..SIZE).map(|at| format!("thief-{}-{at}", round - 2));
            let leave: Vec<String> = leave.collect();
            let words = ["delete", "pods", "--wait=false"].into_iter();
            let words: Vec<&str> = words.chain(leave.iter().map(String::as_str)).collect();
            cluster.kubectl(&words).expect("they leave");
        }
    }
    let words = ["delete", "pods", "--wait=false"].into_iter();
    let last = [6, 7].into_iter().flat_map(|round| (0..SIZE).map(move |at| (round, at)));
    let last: Vec<String> = last.map(|(round, at)| format!("thief-{round}-{at}")).collect();
    let words: Vec<&str> = words.chain(last.iter().map(String::as_str)).collect();
    cluster.kubectl(&words).expect("they leave");
    wait_for(&cluster, "jobs", "all of ours complete", |jobs| {
        names(jobs, |job| is_true(job, "Complete").is_some()).len() == 16
    });
    let mut thieves = BTreeSet::new();
    history.replay(|_, pods| {
        let held = pods.values().filter(|pod| pod.holds() && pod.name.starts_with("thief-"));
        thieves.extend(held.map(|pod| pod.name.clone()));
    });
    assert_eq!(thieves.len(), 9 * SIZE, "all of them held a node: {thieves:?}");
    judge::become_whole(&judge::gangs(&history, SIZE), IN_PART, &[]);
    let judged = judge::what_stands_is_respected(&history, 8, LAG);
    assert!(judged > 0, "nothing of ours was bound while others stood");
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

/// Somebody binds a member of a gang that Capstan is binding to a node that has room; its name.
fn steals(cluster: &ControlPlane, history: &History, gang: &str) -> String {
    let thief = cluster.kubeconfig_of("thief").expect("a user");
    let pods: Api<Pod> = Api::default_namespaced(cluster.client_of(&thief).expect("a client"));
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        let (free, node, bound) = history.look(|all| {
            let ours: Vec<_> = all.values().filter(|pod| pod.gang == gang).collect();
            // The last one is the last to be bound.
            let mut free: Vec<_> = ours.iter().filter(|pod| pod.node.is_none()).collect();
            free.sort_by_key(|pod| &pod.name);
            let used = |node: &str| all.values().any(|pod| pod.node.as_deref() == Some(node));
            let node = (0..6).map(|at| format!("h100-{at}")).find(|node| !used(node));
            let bound = ours.len() - free.len();
            (free.last().map(|pod| pod.name.clone()), node.expect("an empty node"), bound)
        });
        if let (Some(name), 1..) = (free, bound) {
            let body = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let plain = PostParams::default();
            let asked = pods.create_subresource::<_, Value>("binding", &name, &plain, &body);
            if cluster.block_on(asked).is_ok() {
                return name;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing of {gang} was to be had")
}

#[test]
fn members_that_somebody_else_binds_meanwhile_are_where_they_were_put() {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let parts = parts.user("capstan", &["system:masters"]).user("thief", &["system:masters"]);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 6));
    let history = cluster.watch_pods().expect("a watch");
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    // A gang takes seconds, in which its last member is decided on and not yet bound.
    let slowly = "clientConnection: {qps: 2, burst: 1}\n";
    let mut capstan = cluster.capstan_as("capstan-0", slowly, &own).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    let mut stolen = Vec::new();
    for round in 0..3 {
        let gang = format!("gang-{round}");
        submit(&cluster, &[Job::of("default", &gang, SIZE as u32)]);
        stolen.push(steals(&cluster, &history, &gang));
        run(&cluster, &gang, SIZE);
    }
    let asked = cluster.audited().expect("the audit log");
    let bindings = || asked.iter().filter(|it| it.resource == "pods/binding");
    let by_thief = bindings().filter(|it| it.user == "thief" && it.is_done());
    let by_thief: Vec<&str> = by_thief.map(|it| it.name.as_str()).collect();
    assert_eq!(by_thief, stolen);
    // It had decided otherwise, was told so, and undid it.
    let lost = bindings().filter(|it| it.user == "capstan" && it.code == 409);
    let lost: BTreeSet<&str> = lost.map(|it| it.name.as_str()).collect();
    assert!(
        !lost.is_empty() && lost.iter().all(|it| stolen.iter().any(|one| one == it)),
        "{lost:?}"
    );
    says(&capstan, &["already bound to"]);
    let begun = judge::gangs(&history, SIZE);
    assert_eq!(begun.len(), 3);
    judge::become_whole(&begun, IN_PART, &[]);
    judge::binds_are_sound(&history, 8);
    // What was undone is not held twice: the rest of the room is to be had.
    submit(&cluster, &gangs("rest", 3));
    run(&cluster, "rest", 3 * SIZE);
    judge::binds_are_sound(&history, 8);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn gangs_whose_nodes_are_deleted_are_made_whole_elsewhere() {
    // Two members on a node: the Job controller waits twice as long for each that it lost.
    let mut nodes = GpuNodes::new("h100", 10);
    nodes.gpus = 2;
    let cluster = cluster(&nodes);
    let history = cluster.watch_pods().expect("a watch");
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
    let struck = pods.iter().filter(|pod| gone.iter().any(|it| pod["spec"]["nodeName"] == **it));
    let struck = struck.map(|pod| pod["metadata"]["labels"]["job-name"].as_str().expect("a Job"));
    let struck: BTreeSet<&str> = struck.collect();
    let left = history.time();
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
    for node in gone {
        says(&capstan, &[&format!("a node is gone node={node}")]);
    }
    judge::binds_are_sound(&history, 2);
    let begun = judge::gangs(&history, 4);
    judge::are_bound(&begun, IN_PART, &[]);
    let again = begun.iter().filter(|(_, begun)| {
        let mut lost = begun.in_part.iter().filter(|it| it.since >= left);
        lost.any(|it| it.ended.is_some_and(|(_, came)| came == Came::Whole))
    });
    let again: BTreeSet<&str> = again.map(|(gang, _)| gang.as_str()).collect();
    assert_eq!(again, struck, "who lost members, and nobody else, was in part and is whole");
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
    // Who waits for quota is nothing that an autoscaler should build a node for.
    wait_for(&cluster, "pods", "its pod says for what", |pods| {
        let other = pods.iter().find(|pod| name_of(pod).starts_with("other-"));
        let all = other.and_then(|pod| pod["status"]["conditions"].as_array());
        all.is_some_and(|all| {
            let scheduled = all.iter().find(|it| it["type"] == "PodScheduled");
            scheduled.is_some_and(|it| it["status"] == "False" && it["reason"] == "WaitingForQuota")
        })
    });

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
