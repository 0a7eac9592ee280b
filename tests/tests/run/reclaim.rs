//! Two teams of one cohort: idle quota is lent, taken back for its owner by stopping no more
//! than needed, and lent again. In no state of the API is any quota exceeded.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use capstan_tests::cluster::{ControlPlane, GpuNodes, eventually, is_true, name_of};
use serde_json::{Value, json};

use crate::judge;
use crate::scene::{Job, SOON, cluster, end, names, running, submit, wait_for};

/// Eight GPUs for each team; team a may borrow four.
const QUEUES: &str = include_str!("teams.yaml");
/// How often the quota is taken back.
const WAVES: usize = 3;

/// Keeps a pod that is being deleted.
const HOLD: &str = "tests.capstan.sh/hold";
/// How long.
const GRACE: Duration = Duration::from_secs(3);

/// A gang takes no longer than this from its first to its last bind, on a busy machine, and as
/// long to be stopped.
const IN_PART: Duration = Duration::from_secs(15);

fn job(team: &'static str, name: &str) -> Job {
    Job { queue: Some("gpus"), ..Job::of(team, name, 4) }
}

fn runs(pods: &[Value], prefix: &str) -> usize {
    running(pods, |name| name.starts_with(prefix))
}

/// Workloads that were ever preempted, by Capstan's own count.
fn counted(metrics: &str) -> usize {
    let lines = metrics.lines().filter(|it| it.starts_with("capstan_preempted_workloads_total{"));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok()).sum()
}

/// Keeps pods that are being deleted, as a long grace period does, or lets them go.
fn hold_all(cluster: &ControlPlane, hold: bool) {
    let pods = cluster.list("pods").expect("pods");
    for pod in pods.iter().filter(|pod| name_of(pod).starts_with("a-")) {
        let all = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut all: Vec<Value> = all.into_iter().filter(|it| *it != HOLD).collect();
        all.extend(hold.then(|| HOLD.into()));
        let patch = json!({"metadata": {"finalizers": all}}).to_string();
        let words = ["patch", "pod", name_of(pod), "-n", "team-a", "--type=merge", "-p", &patch];
        cluster.kubectl(&words).expect("patched");
    }
}

/// The borrower's pods take their time to end: until they have, the owner's wait.
fn nothing_before_they_are_gone(cluster: &ControlPlane, prefix: &str) {
    let leaving = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
    wait_for(cluster, "pods", "a job of team a leaves", |pods| {
        pods.iter().filter(leaving).count() == 4
    });
    thread::sleep(GRACE);
    let pods = cluster.list("pods").expect("pods");
    assert_eq!(pods.iter().filter(leaving).count(), 4, "they are there still");
    let bound =
        |pod: &Value| name_of(pod).starts_with(prefix) && pod["spec"]["nodeName"].is_string();
    // Four fit beside them, which is one of the owner's two jobs.
    assert!(names(&pods, bound).len() <= 4, "nobody has what they hold");
    hold_all(cluster, false);
}

#[test]
fn lent_quota_is_taken_back_and_no_quota_is_ever_exceeded() {
    let mut nodes = GpuNodes::new("h100", 4);
    nodes.tainted = true;
    let cluster = cluster(&nodes);
    cluster.apply(QUEUES).expect("applied");
    let history = cluster.watch_pods().expect("a watch");
    let mut capstan = cluster.capstan("capstan-0", "").expect("started");
    capstan.wait_until(&cluster, "leading").expect("it leads");

    let borrowers: Vec<Job> = (0..5).map(|at| job("team-a", &format!("a-{at}"))).collect();
    submit(&cluster, &borrowers);
    wait_for(&cluster, "pods", "team a borrows four", |pods| runs(pods, "a-") == 12);
    hold_all(&cluster, true);
    for wave in 0..WAVES {
        submit(&cluster, &[0, 1].map(|at| job("team-b", &format!("b-{wave}-{at}"))));
        let prefix = format!("b-{wave}-");
        if wave == 0 {
            nothing_before_they_are_gone(&cluster, &prefix);
        }
        wait_for(&cluster, "pods", "team b has its quota, team a the rest", |pods| {
            runs(pods, &prefix) == 8 && runs(pods, "a-") == 8
        });
        // Which of team a's jobs run, and so how many of them are suspended, is a matter of whose
        // pods came first; that each wave stops one, as the API showed it, is not.
        let stopped = eventually("a wave stops one job", SOON, || {
            let stopped = judge::stopped(&history);
            if stopped.len() >= 4 * (wave + 1) { Ok(stopped) } else { Err(stopped.len()) }
        });
        let stopped = stopped.expect("stopped");
        let last: BTreeSet<&str> = stopped[4 * wave..].iter().map(|it| &*it.gang).collect();
        assert_eq!((stopped.len(), last.len()), (4 * (wave + 1), 1), "no more than needed");
        assert!(last.iter().all(|gang| gang.starts_with("a-")), "{last:?}");
        end(&cluster, "team-b", |name| name.starts_with(&prefix));
        wait_for(&cluster, "jobs", "team b is done", |jobs| {
            let done = |job: &Value| is_true(job, "Complete").is_some();
            names(jobs, done).iter().filter(|name| name.starts_with(&prefix)).count() == 2
        });
        wait_for(&cluster, "pods", "team a borrows again", |pods| runs(pods, "a-") == 12);
    }
    assert_eq!(judge::stopped(&history).len(), 4 * WAVES, "nor later");
    let metrics = capstan.get(&cluster, "/metrics").expect("metrics");
    assert_eq!(counted(&metrics), WAVES, "it counts what it did");

    judge::never_over(&history, "the cohort", 16, |_| true);
    judge::never_over(&history, "team a with what it may borrow", 12, |pod| {
        pod.namespace == "team-a"
    });
    judge::binds_are_sound(&history, 8);
    judge::become_whole(&judge::gangs(&history, 4), IN_PART, &[]);
    let jobs = cluster.list("jobs").expect("jobs");
    assert_eq!(names(&jobs, |job| is_true(job, "Failed").is_some()), [""; 0]);
    wait_for(&cluster, "clusterqueues.capstan.sh", "the queues say so", |queues| {
        let says: Vec<&str> =
            queues.iter().filter_map(|it| it["status"]["gpus"].as_str()).collect();
        says == ["12/8", "0/8"]
    });
}
