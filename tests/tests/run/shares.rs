//! Who shares, and how: queues of a cohort by their weights, and LocalQueues of one queue that take
//! turns by what they used of late. Both as `kubectl` shows them.

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, is_true, name_of};
use serde_json::Value;

use crate::scene::{Job, cluster, names, running, submit, wait_for};

/// Only GPUs count; usage is looked at each second.
const CONFIG: &str = "fairSharing: {}\n\
                      resources: {quotaCheckStrategy: IgnoreUndeclared}\n\
                      admissionFairSharing: {usageHalfLifeTime: 10m, usageSamplingInterval: 1s}\n";

fn led(nodes: usize) -> (ControlPlane, Capstan) {
    let cluster = cluster(&GpuNodes::new("h100", nodes));
    cluster.apply(include_str!("shares.yaml")).expect("applied");
    let mut capstan = cluster.capstan("capstan-0", CONFIG).expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");
    (cluster, capstan)
}

fn jobs(team: &'static str, queue: &'static str, count: usize) -> Vec<Job> {
    let job = |at| Job { queue: Some(queue), ..Job::of(team, &format!("{team}-{queue}-{at}"), 1) };
    (0..count).map(job).collect()
}

#[test]
fn three_queues_share_by_their_weights() {
    let (cluster, mut capstan) = led(3);
    submit(&cluster, &jobs("team-a", "gpus", 24));
    let runs = |pods: &[Value], team: &str| running(pods, |name| name.starts_with(team));
    wait_for(&cluster, "pods", "team a has all of it", |pods| runs(pods, "team-a") == 24);
    submit(&cluster, &jobs("team-b", "gpus", 24));
    submit(&cluster, &jobs("team-c", "gpus", 24));
    wait_for(&cluster, "pods", "each has its share", |pods| {
        (runs(pods, "team-a"), runs(pods, "team-b"), runs(pods, "team-c")) == (6, 6, 12)
    });
    // 6 of 24 at weight 1, 12 of 24 at weight 2.
    wait_for(&cluster, "clusterqueues.capstan.sh", "each says its share", |queues| {
        let teams = queues.iter().filter(|it| name_of(it).starts_with("team-"));
        let shares = teams.map(|it| it["status"]["fairSharing"]["weightedShare"].as_i64());
        shares.eq([Some(250); 3])
    });
    let failed = |job: &Value| is_true(job, "Failed").is_some();
    assert_eq!(names(&cluster.list("jobs").expect("jobs"), failed), [""; 0]);
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}

#[test]
fn two_teams_take_turns_in_one_queue_whoever_came_first() {
    let (cluster, mut capstan) = led(1);
    let short = |job| Job { runs_for: Some("1s"), ..job };
    let both = ["team-a", "team-b"].map(|team| jobs(team, "turns", 8));
    submit(&cluster, &both.into_iter().flatten().map(short).collect::<Vec<_>>());
    let done = |job: &Value| is_true(job, "Complete").is_some();
    let all = wait_for(&cluster, "jobs", "all are done", |jobs| names(jobs, done).len() == 16);
    let mut order: Vec<(&str, &str)> = all
        .iter()
        .map(|job| (job["status"]["completionTime"].as_str().expect("done"), name_of(job)))
        .collect();
    order.sort_unstable();
    let early = order[..8].iter().filter(|(_, name)| name.starts_with("team-a")).count();
    assert!((3..=5).contains(&early), "{early} of team a among the first eight: {order:?}");
    let queues = cluster.list("localqueues.capstan.sh").expect("queues");
    let turns = queues.iter().filter(|queue| name_of(queue) == "turns");
    for queue in turns {
        let known = &queue["status"]["fairSharing"]["admissionFairSharingStatus"];
        assert!(known["lastUpdate"].is_string(), "{queue}");
        assert!(known["consumedResources"]["nvidia.com/gpu"].is_string(), "{queue}");
    }
    assert!(capstan.process.runs(), "{}", capstan.process.trouble("ended"));
}
