//! Random work beside a head of a strict queue that keeps quota back for ever: whose start was
//! reserved beside that starts no later.
//!
//! Queue `main` owns what its work asks, and may not borrow; `other` owns nothing. All are of one
//! priority, so nobody goes before the head of `main` but the head of `owner`, if it came first: it
//! waits for a licence that somebody has for ever. What is promised in `main` is kept by all.

use capstan_tests::seed::Seed;

use super::*;

/// Tables of work that are played.
const SEEDS: u64 = 300;
/// Work of `main`, and of `other`.
const JOBS: i64 = 9;
const LICENCE: &str = "example.com/licence";

/// One workload of `main`, or of `other`.
#[derive(Debug)]
struct Job {
    name: String,
    queue: &'static str,
    arrives: i64,
    gpus: i64,
    minutes: i64,
}

/// What is played: work, when the head of the strict queue comes, and whether `main` is strict.
fn table(seed: &mut Seed) -> (Vec<Job>, i64, bool) {
    let job = |seed: &mut Seed, (queue, number): (&'static str, i64)| Job {
        name: format!("{queue}-{number}"),
        queue,
        arrives: seed.between(1, 80),
        gpus: if queue == "main" { seed.between(2, 5) } else { seed.between(1, 5) },
        minutes: seed.between(1, 90),
    };
    let queues = ["main", "other"].into_iter();
    let all = queues.flat_map(|queue| (0..JOBS).map(move |number| (queue, number)));
    let jobs = all.map(|which| job(seed, which)).collect();
    (jobs, seed.between(0, 40), seed.below(2) == 0)
}

/// Queues that share GPUs and one licence, which `silent` has for ever.
fn ground(main_is_strict: bool) -> Stage {
    let mut stage = stage(&[]);
    let amounts = [(GPU, 8), (LICENCE, 2)];
    stage.add(["a", "b"].iter().map(|name| Input::Node(node(name, &amounts).into())));
    let (strict, best) = (QueueingStrategy::StrictFifo, QueueingStrategy::BestEffortFifo);
    let main = if main_is_strict { strict } else { best };
    let own = Quota { borrowing: Some(0), ..nominal(6) };
    for (name, gpus, licences, strategy) in
        [("owner", nominal(6), 1, strict), ("main", own, 0, main), ("other", nominal(0), 0, best)]
    {
        let quota = group(&[(DEFAULT, &[(GPU, gpus), (LICENCE, nominal(licences))])]);
        let facts = cluster_queue(name, Some("all"), quota);
        add_queue(&mut stage, ClusterQueueFacts { strategy, ..facts });
    }
    submit(&mut stage, vec![pod("silent", &shape(&[(LICENCE, 1)]), &wishes(None, Some("other")))]);
    stage
}

/// Plays a table until all have run; how many starts were promised.
fn keeps(seed: u64) -> u32 {
    let (jobs, keeper, strict) = table(&mut Seed::new(seed));
    let mut stage = ground(strict);
    let mut promised: Vec<Option<i64>> = vec![None; jobs.len()];
    let mut started: Vec<Option<i64>> = vec![None; jobs.len()];
    for minute in 0.. {
        at(&mut stage, minute);
        if minute == keeper {
            let asks = shape(&[(GPU, 6), (LICENCE, 1)]);
            submit(&mut stage, vec![pod("keeper", &asks, &wishes(Some(60), Some("owner")))]);
        }
        for job in jobs.iter().filter(|job| job.arrives == minute) {
            let work = work_in(&job.name, (1, job.gpus), Some(job.minutes), Some(job.queue));
            submit(&mut stage, work);
        }
        for view in stage.engine.workloads() {
            let Some(at) = jobs.iter().position(|job| *job.name == *view.name) else { continue };
            match view.state {
                State::Running => {
                    started[at].get_or_insert(minute);
                }
                _ if jobs[at].queue == "main" && promised[at].is_none() => {
                    promised[at] = view.reserved.map(|start| start.0 / MINUTE - 1_000);
                }
                _ => {}
            }
        }
        if started.iter().all(Option::is_some) {
            break;
        }
        assert!(minute < 2_500, "seed {seed}: somebody starves: {jobs:?} {started:?}");
    }
    assert!(!runs(&stage, "keeper"), "seed {seed}: silent has what it waits for");
    for (at, start) in promised.iter().enumerate().filter_map(|(at, it)| Some((at, (*it)?))) {
        let late = started[at].is_none_or(|started| started > start);
        assert!(!late, "seed {seed}, {start}: {:?} {:?}\n{jobs:?}", jobs[at], started[at]);
    }
    promised.iter().flatten().count() as u32
}

#[test]
fn nobody_starts_later_than_reserved_beside_what_a_strict_head_keeps() {
    let promised: u32 = (0..SEEDS).map(keeps).sum();
    assert!(promised > 1_000, "{promised}");
}
