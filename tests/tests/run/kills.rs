//! Capstan is killed, or paused past its lease, at any moment while it binds gangs in a queue:
//! no gang stays in part, no pod is bound twice, no job is lost, and the quota always holds.
//!
//! Moments are drawn from a seed, which is printed; `CAPSTAN_SEED` plays them again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capstan_tests::cluster::{
    Capstan, ControlPlane, GpuNodes, History, Options, Order, eventually, is_true,
};
use capstan_tests::seed::Seed;
use serde_json::Value;

use crate::judge::{self, Begun};
use crate::scene::{Job, SOON, cluster_with, names, submit, wait_for};

/// One queue with less quota than there is room.
const QUEUE: &str = include_str!("one-queue.yaml");
/// GPUs of its quota.
const QUOTA: i64 = 320;
/// GPUs of a node; there are 60 of them.
const GPUS: i64 = 8;
/// Members of a gang.
const SIZE: usize = 4;
/// No gang may be in part for longer than this, on a busy machine.
const IN_PART: Duration = Duration::from_secs(60);
/// By then the writes of who was killed have arrived, on a busy machine too.
const ARRIVED: Duration = Duration::from_secs(3);
/// How long all of it may take.
const DONE: Duration = Duration::from_secs(240);
/// Nobody has to wait for a lease.
const ALONE: &str = "leaderElection: {leaderElect: false}\n";
/// A lease that runs out while a test can wait for it.
const SHORT_LEASE: &str =
    "leaderElection: {leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}\n";
/// Longer than that.
const PAST_THE_LEASE: Duration = Duration::from_secs(5);

/// The seed of this run, printed for who wants it again.
#[allow(clippy::print_stdout, reason = "the harness shows it when the test fails")]
fn seed() -> Seed {
    let given = std::env::var("CAPSTAN_SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = given.unwrap_or(now.as_nanos() as u64);
    println!("CAPSTAN_SEED={seed}");
    Seed::new(seed)
}

/// A cluster whose every request is written down, and jobs whose pods are there already.
fn cluster(jobs: usize, runs_for: &'static str) -> (ControlPlane, History) {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 60));
    cluster.apply(QUEUE).expect("applied");
    let history = cluster.watch_pods().expect("a watch");
    submitted(&cluster, &history, 0..jobs, runs_for);
    (cluster, history)
}

/// Submits the jobs of these numbers, and waits for the pods of all up to the last.
fn submitted(
    cluster: &ControlPlane,
    history: &History,
    numbers: Range<usize>,
    runs_for: &'static str,
) {
    let job = |at: usize| Job {
        queue: Some("gpus"),
        runs_for: Some(runs_for),
        ..Job::of("default", &format!("job-{at}"), SIZE as u32)
    };
    let pods = numbers.end * SIZE;
    submit(cluster, &numbers.map(job).collect::<Vec<_>>());
    eventually("all pods are there", SOON, || match history.now().len() {
        found if found == pods => Ok(()),
        found => Err(format!("{found} of {pods}")),
    })
    .expect("created");
}

/// Whether all of so many jobs are complete.
fn complete(jobs: &[Value], wanted: usize) -> bool {
    names(jobs, |job| is_true(job, "Complete").is_some()).len() == wanted
}

/// What must hold at the end and must have held at every moment.
fn judged(cluster: &ControlPlane, history: &History, jobs: usize) {
    let failed = |job: &Value| is_true(job, "Failed").is_some();
    let left = cluster.list("jobs").expect("jobs");
    assert_eq!((names(&left, failed).len(), complete(&left, jobs)), (0, true));
    judge::never_over(history, "the queue", QUOTA, |_| true);
    judge::binds_are_sound(history, GPUS);
    let gangs = judge::gangs(history, SIZE);
    assert_eq!(gangs.len(), jobs, "every gang ran");
    judge::become_whole(&gangs, IN_PART);
    bound_once(cluster);
    wait_for(cluster, "clusterqueues.capstan.sh", "nothing is in use any more", |queues| {
        let says = &queues[0]["status"];
        says["gpus"] == format!("0/{QUOTA}") && says["pendingWorkloads"] == 0
    });
}

/// No pod was bound by two requests. Who is killed hears of some binds nothing any more.
fn bound_once(cluster: &ControlPlane) {
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for asked in cluster.audited().expect("the audit log") {
        if asked.resource == "pods/binding" && asked.code < 300 {
            *done.entry(asked.name).or_default() += 1;
        }
    }
    assert!(!done.is_empty());
    let twice: Vec<&String> = done.iter().filter(|(_, times)| **times > 1).map(|it| it.0).collect();
    assert_eq!(twice, [""; 0]);
}

#[test]
fn killed_at_any_moment_it_goes_on_where_it_was() {
    // It meets more gangs than the quota holds at once each time, so that work never runs out
    // before the kill, however much is bound between two looks on a slow machine.
    const AHEAD: usize = 100;
    let mut seed = seed();
    let mut jobs = 200;
    let (cluster, history) = cluster(jobs, "15s");
    for kill in 0..12 {
        let wanted = bound(&history) / SIZE + AHEAD;
        if wanted > jobs {
            submitted(&cluster, &history, jobs..wanted, "15s");
            jobs = wanted;
        }
        // Every second time all that was sent before the kill has arrived when it starts.
        let settled = kill % 2 == 1;
        thread::sleep(if settled { ARRIVED } else { Duration::ZERO });
        let mut capstan = cluster.capstan(&format!("capstan-{kill}"), ALONE).expect("started");
        capstan.wait_until(&cluster, "leading").expect("it read the cluster");
        let before = judge::gangs(&history, SIZE);
        let from = bound(&history);
        // It binds so many before it is killed, however busy the machine is.
        let binds = seed.between(1, 60) as usize;
        eventually("it binds", SOON, || match bound(&history) {
            now if now >= from + binds => Ok(()),
            now => Err(format!("{now} bound, {from} before it began")),
        })
        .expect("it goes on");
        capstan.process.kill();
        let gangs = judge::gangs(&history, SIZE);
        assert!(gangs.len() < jobs, "killed while it worked: all {jobs} gangs were begun");
        if settled {
            begun_before_come_first(&before, &gangs);
        }
    }
    let _last = cluster.capstan("capstan-last", ALONE).expect("started");
    all_complete(&cluster, jobs);
    judged(&cluster, &history, jobs);
}

/// How many pods were ever bound.
fn bound(history: &History) -> usize {
    history.now().values().filter(|pod| pod.node.is_some()).count()
}

/// Gangs that were in part when it began are whole before any other begins.
fn begun_before_come_first(before: &BTreeMap<String, Begun>, after: &BTreeMap<String, Begun>) {
    let new = after.iter().filter(|(gang, _)| !before.contains_key(*gang));
    let Some((new, first)) = new.min_by_key(|(_, begun)| begun.first) else { return };
    for (gang, begun) in before.iter().filter(|(_, begun)| begun.whole.is_none()) {
        let whole = after[gang].whole;
        let in_time = whole.is_some_and(|whole| whole <= first.first);
        assert!(in_time, "{gang} was begun before ({begun:?}), whole {whole:?}: {new} {first:?}");
    }
}

/// Waits for the end of all of so many jobs.
fn all_complete(cluster: &ControlPlane, jobs: usize) {
    eventually("all jobs complete", DONE, || {
        let listed = cluster.list("jobs").map_err(|e| e.to_string())?;
        let done = names(&listed, |job| is_true(job, "Complete").is_some()).len();
        if done == jobs { Ok(()) } else { Err(format!("{done} of {jobs}")) }
    })
    .expect("complete");
}

/// Two replicas; who leads is struck, and replaced.
struct Pair<'a> {
    cluster: &'a ControlPlane,
    replicas: BTreeMap<String, Capstan>,
    made: usize,
}

impl<'a> Pair<'a> {
    fn start(cluster: &'a ControlPlane) -> Pair<'a> {
        let mut pair = Pair { cluster, replicas: BTreeMap::new(), made: 0 };
        pair.fill();
        pair
    }

    fn fill(&mut self) {
        while self.replicas.len() < 2 {
            let name = format!("capstan-{}", self.made);
            self.made += 1;
            let replica = self.cluster.capstan(&name, SHORT_LEASE).expect("started");
            self.replicas.insert(name, replica);
        }
    }

    /// Waits until one of ours leads, and takes it out.
    fn leader(&mut self) -> Capstan {
        let words = ["get", "lease", "capstan", "-o", "jsonpath={.spec.holderIdentity}"];
        let name = eventually("one leads", SOON, || {
            let holder = self.cluster.kubectl(&words).unwrap_or_default();
            let name = holder.split('_').next().unwrap_or_default().to_owned();
            self.replicas.contains_key(&name).then_some(name).ok_or(holder)
        });
        self.replicas.remove(&name.expect("a leader")).expect("just found")
    }
}

#[test]
fn a_leader_that_is_killed_or_paused_past_its_lease_does_no_harm() {
    const JOBS: usize = 120;
    let mut seed = seed();
    let (cluster, history) = cluster(JOBS, "6s");
    let mut pair = Pair::start(&cluster);
    for strike in 0..4 {
        let mut leader = pair.leader();
        thread::sleep(Duration::from_millis(seed.between(0, 1_500) as u64));
        if strike % 2 == 0 {
            leader.process.order(Order::Pause);
            thread::sleep(PAST_THE_LEASE);
            leader.process.order(Order::Resume);
            let ended = leader.process.wait(SOON).expect("watched");
            assert_eq!(ended, Some(1), "who slept through its lease is deposed");
        } else {
            leader.process.kill();
        }
        pair.fill();
    }
    all_complete(&cluster, JOBS);
    judged(&cluster, &history, JOBS);
}
