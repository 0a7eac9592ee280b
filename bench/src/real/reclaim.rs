//! Quota that is taken back: one team borrows everything, the other wants half of it.
//!
//! 800 Jobs of one GPU run on borrowed quota; then 50 Jobs of eight GPUs arrive whose team owns
//! it. The clock runs from the first submission to the last bound pod. What happened when, what
//! each server used and who wrote what is told beside, so that a slow run says where it was slow.
//!
//! The same is done by hand beside it, by a client that decides nothing: as many Jobs are suspended
//! at the moment at which the others are submitted; the raw binder is started once all pods of
//! those are made, and binds them. It is over when the last victim is gone and the last pod is
//! bound. What that takes is the Job controller's, kwok's and the API server's on this machine,
//! whoever schedules, and the binder's start: who binds pods while others are made may need less.

use std::thread;
use std::time::{Duration, Instant};

use capstan_tests::cluster::{Result, Trouble};

use super::contender::{Running, Who, seconds_of_servers, seconds_since};
use super::eye::{Eye, Noted};
use super::jobs::{self, BORROWER, GPUS, OWNER, SETTLE};
use super::scene::{Ask, Scene};
use super::writes::Writes;

/// GPUs that are lent.
pub const LENT: usize = 800;
/// GPUs that are taken back, in gangs of eight.
pub const TAKEN_BACK: usize = 400;
/// What is told of a run, each in seconds from the first submission.
pub const STAGES: [&str; 6] =
    ["last_pod_made", "first_stopped", "last_stopped", "last_gone", "first_bound", "last_bound"];

/// One run.
pub struct Reclaimed {
    /// From the first submission to the last bound pod.
    pub took: Duration,
    /// When what happened, as [`STAGES`].
    pub stages: [f64; STAGES.len()],
    /// Bound pods of the borrower that were stopped.
    pub victims: usize,
    /// Processor seconds of Capstan.
    pub processor: f64,
    /// Processor seconds of everybody else until the last pod was bound, by name.
    pub servers: Vec<(&'static str, f64)>,
    /// All writes of everybody until then.
    pub writes: Writes,
}

/// Runs it once, on a cluster of its own.
pub fn run() -> Result<Reclaimed> {
    let mut scene = jobs::scene(LENT / GPUS)?;
    let mut running = Who::Capstan.start(&mut scene)?;
    running.wait_until_ready(&scene)?;
    scene.ask(jobs::jobs(BORROWER, Who::Capstan, "a", LENT, 1))?;
    jobs::all_bound(&mut scene, &mut running, BORROWER, LENT)?;
    // What was to be said of the lent is said: nothing of it is left to be paid for later.
    jobs::said(&scene, LENT, jobs::WITHIN)?;
    thread::sleep(SETTLE);
    let before = running.processor_seconds(&mut scene)?;
    let (written, idle) = (scene.writes()?, seconds_of_servers(&mut scene)?);
    let begun = Instant::now();
    scene.ask(jobs::jobs(OWNER, Who::Capstan, "b", TAKEN_BACK / 8, 8))?;
    jobs::all_bound(&mut scene, &mut running, OWNER, TAKEN_BACK)?;
    let took = begun.elapsed();
    let (writes, servers) = (scene.writes()?.since(&written), seconds_since(&mut scene, &idle)?);
    thread::sleep(SETTLE);
    let processor = running.processor_seconds(&mut scene)? - before;
    let victims = scene.eye().stopped(BORROWER);
    let stages = stages(&scene, begun)?;
    running.stop(&mut scene)?;
    Ok(Reclaimed { took, stages, victims, processor, servers, writes })
}

/// What the same takes by hand, on a cluster of its own.
pub fn by_hand() -> Result<Duration> {
    let mut scene = jobs::scene(LENT / GPUS)?;
    scene.ask(jobs::jobs(BORROWER, Who::Raw, "a", LENT, 1))?;
    let lent = bound_by_hand(&mut scene, BORROWER, LENT)?;
    thread::sleep(SETTLE);
    lent.stop(&mut scene)?;
    let path = |at| format!("/apis/batch/v1/namespaces/{BORROWER}/jobs/a-{at}");
    let begun = Instant::now();
    let mut asks = jobs::jobs(OWNER, Who::Raw, "b", TAKEN_BACK / 8, 8);
    asks.extend((0..TAKEN_BACK).map(|at| Ask::Suspend(path(at))));
    scene.ask(asks)?;
    let taken = bound_by_hand(&mut scene, OWNER, TAKEN_BACK)?;
    let gone = |eye: &Eye| eye.there(BORROWER) == LENT - TAKEN_BACK;
    scene.until("those who were stopped are gone", gone)?;
    let took = begun.elapsed();
    taken.stop(&mut scene)?;
    Ok(took)
}

/// Waits until so many pods of a team are made, and has them bound.
fn bound_by_hand(scene: &mut Scene, team: &str, pods: usize) -> Result<Running> {
    scene.until("all pods are made", |eye| eye.there(team) == pods)?;
    // Who had the lease before was killed with it.
    Who::Raw.gate().close(scene)?;
    Who::Raw.gate().open(scene)?;
    let mut binder = Who::Raw.start(scene)?;
    jobs::all_bound(scene, &mut binder, team, pods)?;
    Ok(binder)
}

fn stages(scene: &Scene, begun: Instant) -> Result<[f64; STAGES.len()]> {
    scene.eye().look(|pods| {
        let of = |team: &'static str, when: fn(&Noted) -> Option<Instant>| {
            let pods = pods.values().filter(move |pod| pod.namespace == team);
            pods.filter_map(when).collect::<Vec<_>>()
        };
        let made = of(OWNER, |pod| Some(pod.made));
        let stopped = of(BORROWER, |pod| pod.bound.as_ref().and(pod.ending));
        let gone = of(BORROWER, |pod| pod.bound.as_ref().and(pod.gone));
        let bound = of(OWNER, |pod| pod.bound.as_ref().map(|bound| bound.1));
        let ends = [
            made.iter().max(),
            stopped.iter().min(),
            stopped.iter().max(),
            gone.iter().max(),
            bound.iter().min(),
            bound.iter().max(),
        ];
        let mut seconds = [0.0; STAGES.len()];
        for (at, end) in ends.into_iter().enumerate() {
            let end = end.ok_or_else(|| Trouble::new(format!("nothing was {}", STAGES[at])))?;
            seconds[at] = end.saturating_duration_since(begun).as_secs_f64();
        }
        Ok(seconds)
    })
}
