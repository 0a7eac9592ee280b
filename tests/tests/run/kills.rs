//! Capstan is killed, or paused past its lease, at any moment while it binds gangs in a queue:
//! no gang stays in part, no pod is bound twice, no job is lost, and the quota always holds.
//!
//! Moments are drawn from a seed, which is printed; `CAPSTAN_SEED` plays them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use capstan_tests::cluster::{
    Audited, Capstan, ControlPlane, GpuNodes, History, Options, Order, Pods, Seen, eventually,
    is_true,
};
use capstan_tests::seed::Seed;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::judge::{self, Away};
use crate::scene::{Job, SOON, cluster_with, names, submit, wait_for};

/// One queue with less quota than there is room.
const QUEUE: &str = include_str!("one-queue.yaml");
/// GPUs of its quota.
const QUOTA: i64 = 320;
/// GPUs of a node; there are 60 of them.
const GPUS: i64 = 8;
/// Members of a gang.
const SIZE: usize = 4;
/// No gang may be in part for longer than this while somebody leads: what a leader left in part is
/// bound first by the next one, in less than a second, and a busy machine makes ten of that.
const IN_PART: Duration = Duration::from_secs(15);
/// When nothing was bound for so long, the writes of who was killed have arrived.
const ARRIVED: Duration = Duration::from_secs(3);
/// Binds that Capstan has on their way at most: so many may arrive after the next one's list.
const IN_FLIGHT: usize = 256;
/// Gangs that wait beyond those that were begun when there is a new leader: more than the quota
/// holds at once.
const AHEAD: usize = 150;
/// How long all of it may take.
const DONE: Duration = Duration::from_secs(240);
/// Nobody has to wait for a lease.
const ALONE: &str = "leaderElection: {leaderElect: false}\n";
/// A lease that runs out while a test can wait for it, and that a busy machine can keep.
const SHORT_LEASE: &str =
    "leaderElection: {leaseDuration: 8s, renewDeadline: 6s, retryPeriod: 500ms}\n";
/// How often leaders are struck.
const STRIKES: usize = 6;
/// How many may lose the lease unstruck: a machine that is too busy to answer a renewal in time
/// deposes who asked, and that is no harm either.
const LAPSES: usize = 4;
/// How often it is looked for the moment of a strike.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The seed of this run, printed for who wants it again.
fn seed() -> Seed {
    let given = std::env::var("CAPSTAN_SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = given.unwrap_or(now.as_nanos() as u64);
    say(&format!("CAPSTAN_SEED={seed}"));
    Seed::new(seed)
}

#[allow(clippy::print_stdout, reason = "the harness shows it when the test fails")]
pub fn say(what: &str) {
    println!("{what}");
}

/// A cluster whose every request is written down, with a user for each replica, and jobs whose
/// pods are there already.
fn cluster(jobs: usize, runs_for: &'static str) -> (ControlPlane, History) {
    let parts = Options { controller_manager: true, kwok: true, audit: true, ..Options::bare() };
    let user = |parts: Options, at| parts.user(&replica(at), &["system:masters"]);
    let parts = (0..STRIKES + LAPSES + 2).fold(parts, user);
    let cluster = cluster_with(parts, &GpuNodes::new("h100", 60));
    cluster.apply(QUEUE).expect("applied");
    let history = cluster.watch_pods().expect("a watch");
    submitted(&cluster, &history, 0..jobs, runs_for);
    (cluster, history)
}

/// A replica and its user.
fn replica(at: usize) -> String {
    format!("capstan-{at}")
}

/// The jobs of a test: gangs always wait that were not begun, however fast those are that lead.
struct Work<'a> {
    cluster: &'a ControlPlane,
    history: &'a History,
    jobs: usize,
    runs_for: &'static str,
}

impl Work<'_> {
    /// Submits jobs until enough gangs wait, and waits for the pods of all.
    fn top_up(&mut self) {
        let more = self.more();
        submitted(self.cluster, self.history, more, self.runs_for);
    }

    /// The numbers of the jobs that are missing for as many gangs to wait as should.
    fn more(&mut self) -> Range<usize> {
        let begun = self.history.look(|pods| begun(pods.values()));
        let wanted = (begun + AHEAD).max(self.jobs);
        std::mem::replace(&mut self.jobs, wanted)..wanted
    }

    /// Waits until at least so many pods were bound, for a moment at which there is work for
    /// whoever leads: gangs wait that were not begun, and the quota has room. So it comes however
    /// fast it binds, and however slowly this looks. Something else can be seen to meanwhile.
    fn until_at_work(&mut self, wanted: usize, mut meanwhile: impl FnMut()) {
        let since = Instant::now();
        loop {
            meanwhile();
            let (bound, begun, held) = self.history.look(|pods| {
                (bound(pods.values()), begun(pods.values()), judge::held(pods, |_| true))
            });
            if bound >= wanted && held < QUOTA && begun < self.jobs {
                return;
            }
            let state = format!("{bound} of {wanted} bound, {held} GPUs held");
            assert!(since.elapsed() < SOON, "it is never at work: {state}");
            if self.jobs - begun < AHEAD / 2 {
                // Their pods come one after the other: who leads may have bound all that are there
                // by the time that the last one is, on a machine on which they come slowly.
                let more = self.more();
                submit_numbered(self.cluster, more, self.runs_for);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// How many of the pods were ever bound.
fn bound<'a>(pods: impl Iterator<Item = &'a Seen>) -> usize {
    pods.filter(|pod| pod.node.is_some()).count()
}

/// How many gangs have a pod that was ever bound.
fn begun<'a>(pods: impl Iterator<Item = &'a Seen>) -> usize {
    let begun = pods.filter(|pod| pod.node.is_some()).map(|pod| &*pod.gang);
    begun.collect::<BTreeSet<&str>>().len()
}

/// Waits until nothing was bound for a while.
fn until_still(history: &History) {
    let mut last = (history.look(|pods| bound(pods.values())), Instant::now());
    while last.1.elapsed() < ARRIVED {
        thread::sleep(Duration::from_millis(50));
        let now = history.look(|pods| bound(pods.values()));
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
}

/// Submits the jobs of these numbers.
fn submit_numbered(cluster: &ControlPlane, numbers: Range<usize>, runs_for: &'static str) {
    let job = |at: usize| Job {
        queue: Some("gpus"),
        runs_for: Some(runs_for),
        ..Job::of("default", &format!("job-{at}"), SIZE as u32)
    };
    if !numbers.is_empty() {
        submit(cluster, &numbers.map(job).collect::<Vec<_>>());
    }
}

/// Submits the jobs of these numbers, and waits for the pods of all up to the last.
fn submitted(
    cluster: &ControlPlane,
    history: &History,
    numbers: Range<usize>,
    runs_for: &'static str,
) {
    let pods = numbers.end * SIZE;
    submit_numbered(cluster, numbers, runs_for);
    // That is up to the Job controller, and to what else the machine does.
    eventually("all pods are there", SOON * 3, || match history.now().len() {
        found if found == pods => Ok(()),
        found => Err(format!("{found} of {pods}")),
    })
    .expect("created");
}

/// Whether all of so many jobs are complete.
fn complete(jobs: &[Value], wanted: usize) -> bool {
    names(jobs, |job| is_true(job, "Complete").is_some()).len() == wanted
}

/// What must hold at the end and must have held at every moment, but for times when nobody led.
fn judged(cluster: &ControlPlane, history: &History, jobs: usize, away: &Away) {
    let failed = |job: &Value| is_true(job, "Failed").is_some();
    let left = cluster.list("jobs").expect("jobs");
    assert_eq!((names(&left, failed).len(), complete(&left, jobs)), (0, true));
    judge::never_over(history, "the queue", QUOTA, |_| true);
    judge::binds_are_sound(history, GPUS);
    let gangs = judge::gangs(history, SIZE);
    assert_eq!(gangs.len(), jobs, "every gang ran");
    judge::become_whole(&gangs, IN_PART, away);
    wait_for(cluster, "clusterqueues.capstan.sh", "nothing is in use any more", |queues| {
        let says = &queues[0]["status"];
        says["gpus"] == format!("0/{QUOTA}") && says["pendingWorkloads"] == 0
    });
}

/// No pod was bound by two requests: the API server refuses a second one. It has to refuse only
/// what somebody wrote who did not know that the bind of one who is no more had arrived: of each
/// of those what was on its way, and each bind once.
pub fn bound_once(asked: &[Audited], replaced: usize) {
    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    for one in asked.iter().filter(|it| it.resource == "pods/binding") {
        let counted = match one.code {
            409 => &mut refused,
            _ if one.is_done() => &mut done,
            _ => continue,
        };
        *counted.entry(&one.name).or_default() += 1;
    }
    assert!(!done.is_empty());
    let twice = |all: &BTreeMap<&str, usize>| -> Vec<String> {
        all.iter().filter(|(_, times)| **times > 1).map(|it| (*it.0).to_owned()).collect()
    };
    assert_eq!((twice(&done), twice(&refused)), (Vec::new(), Vec::new()));
    let most = replaced * IN_FLIGHT;
    assert!(refused.len() <= most, "{} second binds, {most} at most", refused.len());
    say(&format!("{} binds, {} were refused as second ones", done.len(), refused.len()));
}

#[test]
fn killed_at_any_moment_it_goes_on_where_it_was() {
    let mut seed = seed();
    let (cluster, history) = cluster(200, "15s");
    let mut work = Work { cluster: &cluster, history: &history, jobs: 200, runs_for: "15s" };
    let (mut left, mut away) = (Duration::ZERO, Vec::new());
    for kill in 0..12 {
        work.top_up();
        // Every second time all that was sent before the kill has arrived when it starts.
        let settled = kill % 2 == 1;
        if settled {
            until_still(&history);
        }
        let before = history.now();
        let from = history.look(|pods| bound(pods.values()));
        let mut capstan = cluster.capstan(&format!("killed-{kill}"), ALONE).expect("started");
        capstan.wait_until(&cluster, "leading").expect("it read the cluster");
        away.push(left..history.time());
        // It binds so many before it is killed, however busy the machine is.
        work.until_at_work(from + seed.between(1, 60) as usize, || {});
        capstan.process.kill();
        left = history.time();
        if settled && let Err(early) = begun_before_come_first(&before, &history) {
            let led = away.last().expect("noted above");
            let binds = binds_of(&cluster, &[&early.late, &early.first]);
            panic!("{early}; nobody led {led:?}; the binds of both:\n{binds}");
        }
    }
    let mut last = cluster.capstan("capstan-last", ALONE).expect("started");
    last.wait_until(&cluster, "leading").expect("it read the cluster");
    away.push(left..history.time());
    all_complete(&cluster, work.jobs);
    judged(&cluster, &history, work.jobs, &away);
    // Six of them start at once after one that was killed.
    bound_once(&cluster.audited().expect("the audit log"), 6);
}

/// When the first gang begins that was not begun before, none is in part of which any runs that was
/// bound before. Not so where all that was bound of it had ended by then: nothing of it runs any
/// more, and what is left waits in the queue with everybody else.
fn begun_before_come_first(before: &Pods, history: &History) -> Result<(), Early> {
    let begun: BTreeSet<&str> = bound_of(before).map(|(_, pod)| &*pod.gang).collect();
    let (mut others, mut early) = (false, None);
    history.replay(|at, pods| {
        let mut new = bound_of(pods).filter(|(_, pod)| !begun.contains(&*pod.gang));
        let Some((_, first)) = new.next().filter(|_| !others) else { return };
        others = true;
        let stands = |uid: &str| bound_of(before).any(|(known, _)| known == uid);
        for (_, pod) in bound_of(pods).filter(|(uid, pod)| pod.holds() && stands(uid)) {
            let bound = of(pods, &pod.gang).count();
            if bound < SIZE {
                let (first, late) = (first.gang.clone(), pod.gang.clone());
                let ended = of(pods, &late).filter(|pod| !pod.holds()).count();
                early = Some(Early { at, first, late, bound, ended });
            }
        }
    });
    early.map_or(Ok(()), Err)
}

/// A gang that begins before another is whole, of which so many were bound, and so many ended.
struct Early {
    at: Duration,
    first: String,
    late: String,
    bound: usize,
    ended: usize,
}

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Early { at, first, late, bound, ended } = self;
        write!(f, "{bound} of {late} are bound, {ended} ended, as {first} begins after {at:?}")
    }
}

/// The binds of members of these gangs, as the API server received and answered them.
fn binds_of(cluster: &ControlPlane, gangs: &[&str]) -> String {
    let asked = cluster.audited().expect("the audit log");
    let of = |one: &&Audited| {
        let mut gangs = gangs.iter();
        one.resource == "pods/binding"
            && gangs.any(|gang| one.name.starts_with(&format!("{gang}-")))
    };
    let line = |one: &Audited| format!("{} {} {}", one.received, one.name, one.code);
    asked.iter().filter(of).map(line).collect::<Vec<_>>().join("\n")
}

/// Those of a gang.
fn of<'a>(pods: &'a Pods, gang: &'a str) -> impl Iterator<Item = &'a Seen> {
    bound_of(pods).map(|(_, pod)| pod).filter(move |pod| pod.gang == gang)
}

/// Pods that were ever bound, by uid.
fn bound_of(pods: &Pods) -> impl Iterator<Item = (&str, &Seen)> {
    pods.iter().filter(|(_, pod)| pod.node.is_some()).map(|(uid, pod)| (&**uid, pod))
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

/// Two replicas, each a user of its own; who leads is struck, and replaced.
struct Pair<'a> {
    cluster: &'a ControlPlane,
    replicas: BTreeMap<String, Capstan>,
    made: usize,
    /// How many lost the lease unstruck.
    lapsed: usize,
}

impl<'a> Pair<'a> {
    fn start(cluster: &'a ControlPlane) -> Pair<'a> {
        let mut pair = Pair { cluster, replicas: BTreeMap::new(), made: 0, lapsed: 0 };
        pair.fill();
        pair
    }

    fn fill(&mut self) {
        while self.replicas.len() < 2 {
            let name = replica(self.made);
            self.made += 1;
            let user = self.cluster.kubeconfig_of(&name).expect("a user");
            let replica = self.cluster.capstan_as(&name, SHORT_LEASE, &user).expect("started");
            self.replicas.insert(name, replica);
        }
    }

    /// Replaces who lost the lease unstruck: nobody ends for another reason.
    fn replace_lapsed(&mut self) {
        let ended = self.replicas.extract_if(.., |_, replica| !replica.process.runs());
        for (name, mut replica) in ended.collect::<Vec<_>>() {
            let code = replica.process.wait(SOON).expect("watched");
            self.lapse(&name, code);
        }
        self.fill();
    }

    /// One lost the lease unstruck, and ended so.
    fn lapse(&mut self, name: &str, code: Option<i32>) {
        assert_eq!(code, Some(DEPOSED), "{name} was not struck");
        self.lapsed += 1;
        say(&format!("{name} could not keep its lease"));
        assert!(self.lapsed <= LAPSES, "{} leaders lost the lease unstruck", self.lapsed);
    }

    /// Waits until one of ours leads; its name, and since when.
    fn leads(&mut self) -> (String, Timestamp) {
        let says = "jsonpath={.spec.holderIdentity} {.spec.acquireTime}";
        let words = ["get", "lease", "capstan", "-o", says];
        let found = eventually("one leads", SOON, || {
            self.replace_lapsed();
            let said = self.cluster.kubectl(&words).unwrap_or_default();
            let (holder, since) = said.split_once(' ').unwrap_or_default();
            let name = holder.split('_').next().unwrap_or_default().to_owned();
            let since = since.parse().ok().filter(|_| self.replicas.contains_key(&name));
            since.map(|since| (name, since)).ok_or(said)
        });
        found.expect("a leader")
    }

    /// Waits until one of ours has led until so many pods were bound, and takes it out.
    fn at_work(&mut self, work: &mut Work<'_>, more: usize) -> (String, Capstan) {
        loop {
            let name = self.leads().0;
            let from = work.history.look(|pods| bound(pods.values()));
            work.until_at_work(from + more, || self.replace_lapsed());
            if let Some(replica) = self.replicas.remove(&name) {
                return (name, replica);
            }
        }
    }
}

/// The exit code of who led and may not any more.
const DEPOSED: i32 = 1;

/// What strikes a leader.
#[derive(Clone, Copy, Debug)]
enum Strike {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT when another one leads and binds.
    Pause,
    /// SIGTERM.
    End,
}

#[test]
fn a_leader_that_is_struck_while_it_binds_does_no_harm() {
    let mut seed = seed();
    let (cluster, history) = cluster(AHEAD, "6s");
    let mut work = Work { cluster: &cluster, history: &history, jobs: AHEAD, runs_for: "6s" };
    let mut pair = Pair::start(&cluster);
    let (mut struck, mut away) = (Vec::new(), vec![Duration::ZERO..history.time()]);
    let mut strikes = [Strike::Pause, Strike::Kill, Strike::End].into_iter().cycle();
    while struck.len() < STRIKES {
        let strike = strikes.next().expect("they go on");
        let (name, mut leader) = pair.at_work(&mut work, seed.between(1, 60) as usize);
        let left = history.time();
        let ended = match strike {
            Strike::Pause => {
                leader.process.order(Order::Pause);
                None
            }
            Strike::Kill => {
                leader.process.kill();
                None
            }
            Strike::End => Some(leader.process.end(SOON).expect("it ends")),
        };
        // While nobody leads.
        work.top_up();
        let (_, since) = pair.leads();
        away.push(left..history.time());
        if let Strike::Pause = strike {
            let now = history.look(|pods| bound(pods.values()));
            work.until_at_work(now + SIZE, || pair.replace_lapsed());
            leader.process.order(Order::Resume);
            let ended = leader.process.wait(SOON).expect("watched");
            assert_eq!(ended, Some(DEPOSED), "who slept through its lease is deposed");
        }
        match ended {
            None | Some(0) => struck.push((name, strike, since)),
            // It could not keep the lease until it had ended.
            code => pair.lapse(&name, code),
        }
        pair.fill();
    }
    all_complete(&cluster, work.jobs);
    judged(&cluster, &history, work.jobs, &away);
    let asked = cluster.audited().expect("the audit log");
    bound_once(&asked, struck.len() + pair.lapsed);
    for (name, strike, since) in struck {
        wrote_nothing_later(&asked, &name, strike, since);
    }
}

/// Who was struck had bound something, and changed nothing once another one led: what a sleeper
/// had not yet given to its kernel when it fell asleep, it does not send when it wakes. It may ask
/// for its lease, and is not given it.
fn wrote_nothing_later(asked: &[Audited], name: &str, strike: Strike, since: Timestamp) {
    let writes: Vec<&Audited> = asked.iter().filter(|it| it.user == name && it.writes()).collect();
    let binds = writes.iter().filter(|it| it.resource == "pods/binding" && it.is_done()).count();
    assert!(binds > 0, "{name} led and bound nothing before it was struck ({strike:?})");
    let later = writes.iter().filter(|it| it.received > since && it.is_done());
    let later: Vec<String> =
        later.map(|it| format!("{} {} {}: {}", it.received, it.verb, it.uri, it.code)).collect();
    assert_eq!(later, [""; 0], "{name} wrote after {strike:?}, another one led since {since}");
}
