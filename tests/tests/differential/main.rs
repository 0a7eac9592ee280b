//! Capstan's decisions against kube-scheduler's own, pair by pair, on real control planes.
//!
//! A pair is a pod and a node of a random cluster. It is tried as a copy that asks for an extended
//! resource which this node alone offers (`pin.capstan.sh/<node>`): that changes no domain of a
//! spread and no term of an affinity, as a selector would. kube-scheduler gets a copy, and once it
//! has decided the copy is deleted and all that was written for it put back; then Capstan gets
//! one, on the same state. What counts is whether the node takes the pod, not in which words it
//! does not. Each cluster has a Capstan of its own. A pair on which both differ is tried again when
//! nothing moves any more, since each sees changes in its own time; one on which they still differ
//! is printed as a scenario file.
//!
//! The clusters are the same in every run: what is in one is made from its number. Some control
//! planes run side by side, each with one cluster at a time, since most of the time goes by
//! waiting: Capstan says of a pod that it waits after a second.
//!
//! `CAPSTAN_SEED=7` plays one cluster again, `CAPSTAN_SEED=1000..1100` some others.

mod case;
mod generate;
mod objects;
mod tally;
mod tries;
mod verdict;

use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use capstan_tests::cluster::{ControlPlane, Options, Result, Trouble};
use kube::Client;

use tally::Tally;
use tries::Tries;

/// Clusters of a run.
const CASES: Range<u64> = 0..50;
/// Pairs that a run has at least.
const PAIRS: usize = 2_000;
/// How often each rule has to take and to refuse a pod for its agreement to mean anything.
const EACH: usize = 4;
/// Control planes side by side.
const PLANES: usize = 8;
/// Disagreements that are printed.
const SHOWN: usize = 5;
/// Nobody has to wait for a lease.
const ALONE: &str = "leaderElection: {leaderElect: false}\n";

/// Clusters that are still to be played.
type Queue = Mutex<Range<u64>>;

#[test]
fn capstan_takes_and_refuses_what_kube_scheduler_does() {
    let wanted = std::env::var("CAPSTAN_SEED").ok().map(|text| numbers(&text));
    let cases = wanted.clone().unwrap_or(CASES);
    let planes = PLANES.min((cases.end - cases.start) as usize);
    let queue = Mutex::new(cases);
    let done: Vec<Result<Tally>> = thread::scope(|scope| {
        let works: Vec<_> = (0..planes).map(|_| scope.spawn(|| work(&queue))).collect();
        works.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    let mut tally = Tally::default();
    done.into_iter().for_each(|one| tally.join(one.expect("played")));
    say(&tally.to_string());
    let count = tally.disagreements.len();
    let shown: Vec<String> = tally.disagreements.iter().take(SHOWN).cloned().collect();
    assert!(count == 0, "{count} disagreements, the first of them:\n{}", shown.join("\n"));
    if wanted.is_none() {
        assert!(tally.pairs >= PAIRS, "{} pairs", tally.pairs);
        let thin = tally.thin(EACH);
        assert!(thin.is_empty(), "asked too seldom: {}\n{tally}", thin.join(", "));
    }
}

/// `7`, or `1000..1100`.
fn numbers(text: &str) -> Range<u64> {
    let number = |text: &str| text.parse().expect("CAPSTAN_SEED is a number, or a range of them");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(text)..number(text) + 1,
    }
}

/// Plays clusters on a control plane of its own until there are none left.
fn work(queue: &Queue) -> Result<Tally> {
    let parts = Options { scheduler: true, decisions: true, ..Options::bare() };
    let mut plane = ControlPlane::start(parts)?;
    let played = play(&plane, queue);
    if !played.as_ref().is_ok_and(|tally| tally.disagreements.is_empty()) {
        plane.keep_logs();
    }
    played
}

fn play(plane: &ControlPlane, queue: &Queue) -> Result<Tally> {
    plane.install_crds()?;
    let client = plane.client()?;
    let mut tries = plane.block_on(Tries::begin(client))?;
    let mut tally = Tally::default();
    loop {
        let next = queue.lock().expect("nobody panics with it").next();
        let Some(number) = next else { return Ok(tally) };
        let begun = Instant::now();
        if let Err(trouble) = play_one(plane, number, &mut tries, &mut tally) {
            tally.disagreements.push(format!("case {number} was not played: {trouble}"));
        }
        let (pairs, differ) = (tally.pairs, tally.disagreements.len());
        let took = begun.elapsed().as_secs();
        say(&format!("case {number}: {took} s; so far {pairs} pairs, {differ} disagreements"));
    }
}

/// A Capstan of its own for each cluster: what it learnt of one before decides nothing here, and
/// a number plays the same alone.
fn play_one(plane: &ControlPlane, number: u64, tries: &mut Tries, tally: &mut Tally) -> Result<()> {
    let mut capstan = plane.capstan("capstan-0", ALONE)?;
    capstan.wait_until(plane, "leading")?;
    let url = capstan.url().parse().map_err(|e| Trouble::new(format!("{}: {e}", capstan.url())))?;
    let play = async {
        let account = Client::try_from(kube::Config::new(url))?;
        tries.play(&generate::case(number), account, tally).await
    };
    plane.block_on(play)
}

#[allow(clippy::print_stdout, reason = "the harness shows it when the test fails")]
fn say(what: &str) {
    println!("{what}");
}
