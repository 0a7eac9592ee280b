//! Random work that declares how long it runs and keeps to it: nobody starts later than was first
//! reserved.

use std::collections::BTreeMap;

use capstan_tests::seed::Seed;

use super::*;

/// One workload of a random play.
#[derive(Debug)]
pub struct Job {
    pub arrives: i64,
    pub size: (u32, i64),
    pub minutes: i64,
    pub queue: Option<usize>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// When it became the first that waits in its queue.
    first: Option<i64>,
    /// The start that was reserved for it last, and first.
    pub reserved: Option<(i64, i64)>,
    pub started: Option<i64>,
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];
pub const QUEUES: [&str; 2] = ["left", "right"];

fn jobs(seed: &mut Seed, queues: bool) -> Vec<Job> {
    let job = |seed: &mut Seed| {
        let big = seed.below(4) == 0;
        let size = match big {
            true => (seed.between(2, 4) as u32, 8),
            false => (seed.between(1, 2) as u32, seed.between(1, 6)),
        };
        Job {
            arrives: seed.between(0, 90),
            size,
            minutes: seed.between(1, 40),
            queue: queues.then(|| seed.below(QUEUES.len() as u64) as usize),
        }
    };
    (0..40).map(|_| job(seed)).collect()
}

/// Plays all jobs to their end, minute by minute, with every run time declared and kept.
fn play(jobs: &[Job], reservations: Option<Reserving>) -> BTreeMap<usize, Fate> {
    let mut stage = stage(&NODES);
    stage.add([Input::Policy(Policy { reservations, ..Policy::default() }.into())]);
    for name in QUEUES {
        if jobs.iter().any(|job| job.queue.is_some()) {
            add_queue(&mut stage, queue(name, None, nominal(32)));
        }
    }
    follow(stage, jobs)
}

/// Plays all jobs on a stage, which has their queues.
pub fn follow(mut stage: Stage, jobs: &[Job]) -> BTreeMap<usize, Fate> {
    let mut fates: BTreeMap<usize, Fate> = BTreeMap::new();
    for minute in 0.. {
        at(&mut stage, minute);
        for (number, job) in jobs.iter().enumerate().filter(|(_, job)| job.arrives == minute) {
            let queue = job.queue.map(|queue| QUEUES[queue]);
            let name = format!("job-{number:02}");
            submit(&mut stage, work_in(&name, job.size, Some(job.minutes), queue));
            fates.insert(number, Fate::default());
        }
        for queue in [None, Some(QUEUES[0]), Some(QUEUES[1])] {
            let waits = stage.engine.forecasts(stage.now, queue, 1);
            if let Some(head) = waits.first().and_then(|(name, _)| name.rsplit('-').next()) {
                let fate = fates.get_mut(&head.parse().expect("a number")).expect("it arrived");
                fate.first.get_or_insert(minute);
            }
        }
        for view in stage.engine.workloads() {
            let number = view.name.rsplit('-').next().and_then(|it| it.parse().ok());
            let fate = fates.get_mut(&number.expect("a number")).expect("it arrived");
            if view.state == State::Running {
                fate.started.get_or_insert(minute);
            } else if let Some(start) = view.reserved {
                let start = start.0 / MINUTE - 1_000;
                let (before, first) = fate.reserved.unwrap_or((start, start));
                assert!(start <= before, "{} was promised {before}, now {start}", view.name);
                fate.reserved = Some((start, first));
            }
        }
        if fates.len() == jobs.len() && fates.values().all(|fate| fate.started.is_some()) {
            break;
        }
        assert!(minute < 3_000, "somebody starves: {fates:?}");
    }
    fates
}

/// With all run times declared and kept, nobody starts later than was first reserved for it, nor
/// later than the longest run after it became the first of its queue; where heads of two queues
/// wait for each other, twice that.
#[test]
fn nobody_starts_later_than_was_first_reserved() {
    let (mut reserved, mut passed) = (0, 0);
    for number in 0..24 {
        let mut seed = Seed::new(number);
        let jobs = jobs(&mut seed, number % 2 == 1);
        let fates = play(&jobs, Some(Reserving::default()));
        let longest = jobs.iter().map(|job| job.minutes).max().expect("there are jobs");
        let most = longest * if number % 2 == 1 { 2 } else { 1 };
        for (at, fate) in &fates {
            let started = fate.started.expect("all started");
            if let Some((_, first)) = fate.reserved {
                reserved += 1;
                assert!(started <= first, "seed {number}: job-{at:02} {fate:?}");
            }
            if let Some(first) = fate.first {
                assert!(started <= first + most, "seed {number}: job-{at:02} {fate:?}");
            }
            let overtaken =
                |other: &&Job| jobs[*at].arrives < other.arrives && jobs[*at].queue == other.queue;
            let later = jobs.iter().enumerate().filter(|(_, other)| overtaken(other));
            passed += later.filter(|(other, _)| fates[other].started < fate.started).count();
        }
    }
    assert!(reserved > 50, "big work waits often: {reserved}");
    assert!(passed > 50, "small work passes: {passed}");
}

/// Without reservations big work waits longer for its turn, and some of it much longer.
#[test]
fn reservations_bound_what_passing_would_not() {
    let waited = |reservations| {
        let mut worst = 0;
        for number in 0..12 {
            let jobs = jobs(&mut Seed::new(number), false);
            let fates = play(&jobs, reservations);
            let of_head = |fate: &Fate| Some(fate.started? - fate.first?);
            worst = worst.max(fates.values().filter_map(of_head).max().unwrap_or(0));
        }
        worst
    };
    let (with, without) = (waited(Some(Reserving::default())), waited(None));
    assert!(with <= 40, "the longest run: {with}");
    assert!(without > with, "{without} minutes without, {with} with");
}
