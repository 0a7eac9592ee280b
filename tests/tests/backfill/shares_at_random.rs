//! Big work beside streams of small work that never cease, of queues that borrow from one cohort by
//! random shares and may take back from each other. All declare how long they run, and keep to it.
//!
//! However long small work comes, big work comes to its end: a share may stop it once before it was
//! promised a start, and once on a start that it was promised, and then no more.

use capstan_core::model::input::{OwnerEnd, PodPhase, PreemptReclaim, Weight};
use capstan_core::plan::{Outcome, StepOutput};
use capstan_tests::facts::cohort;
use capstan_tests::seed::Seed;

use super::shares::{reclaiming, share_fairly};
use super::*;

/// Small work comes until then, in minutes.
const LAST: i64 = 960;
/// When big work comes.
const COMES: i64 = 65;
/// It has ended so long after that.
const WITHIN: i64 = 600;
/// Nothing happens in between.
const STEP: i64 = 5;
const SEEDS: u64 = 16;

/// Small work of one queue.
#[derive(Debug)]
struct Stream {
    queue: String,
    gpus: i64,
    minutes: i64,
    first: i64,
    every: i64,
}

impl Stream {
    fn of(number: i64, seed: &mut Seed) -> Stream {
        Stream {
            queue: format!("small-{number}"),
            gpus: seed.between(1, 3),
            minutes: *seed.pick(&[20, 60]),
            first: STEP * seed.between(0, 5),
            every: *seed.pick(&[20, 30]),
        }
    }
}

/// A cohort.
#[derive(Debug)]
struct World {
    lent: i64,
    owned: i64,
    /// What the big Job asks, and for how long.
    big: (i64, i64),
    /// Weights of the queues, that of the Job first; whether those of small work are in a cohort of
    /// their own.
    weights: Vec<u64>,
    apart: bool,
    streams: Vec<Stream>,
}

impl World {
    fn of(seed: &mut Seed, apart: bool) -> World {
        let (lent, owned) = (*seed.pick(&[4, 6, 8]), *seed.pick(&[0, 2, 4]));
        let big = (owned + seed.between(lent / 2, lent), *seed.pick(&[30, 60]));
        let small = seed.between(1, 3);
        let streams = (0..small).map(|at| Stream::of(at, seed)).collect();
        let weights = (0..=small).map(|_| seed.between(1, 3) as u64).collect();
        World { lent, owned, big, weights, apart, streams }
    }

    fn stage(&self) -> Stage {
        let mut stage = stage(&["a", "b", "c", "d"]);
        share_fairly(&mut stage);
        stage.add([Input::Cohort(cohort("apart", Some("all")))]);
        let above = if self.apart { "apart" } else { "all" };
        let of_small = self.streams.iter().map(|stream| (&*stream.queue, above, 0));
        let all = [("large", "all", self.owned)].into_iter().chain(of_small);
        for ((name, above, gpus), weight) in all.zip(&self.weights) {
            let facts = reclaiming(queue(name, Some(above), nominal(gpus)), PreemptReclaim::Any);
            let weight = Weight(Weight::ONE.0 * weight);
            add_queue(&mut stage, ClusterQueueFacts { weight, ..facts });
        }
        add_queue(&mut stage, queue("bank", Some("all"), nominal(self.lent)));
        stage
    }

    /// Plays it until the big Job has ended: when, and how often a share stopped it.
    fn play(&self) -> (i64, usize) {
        let (mut stage, mut stops) = (self.stage(), 0);
        for minute in (0..LAST).step_by(STEP as usize) {
            stage.now = Time((1_000 + minute) * MINUTE);
            if end_big(&mut stage) {
                return (minute, stops);
            }
            end_due(&mut stage, &["big"]);
            stops += stops_of_big(&stage.settle(|_| {}));
            if minute == COMES {
                let (gpus, runs) = self.big;
                let wishes = wishes(Some(runs), Some("large"));
                let owner = job("big", gpus as u32, &shape(&[(GPU, 1)]), &wishes);
                let created = stage.now;
                stage.add([Input::Owner(OwnerFacts { created, ..owner })]);
            }
            for stream in &self.streams {
                let since = minute - stream.first;
                if since >= 0 && since % stream.every == 0 {
                    let name = format!("{}-{minute}", stream.queue);
                    let size = (1, stream.gpus);
                    let mut pods = work_in(&name, size, Some(stream.minutes), Some(&stream.queue));
                    pods.iter_mut().for_each(|pod| pod.created = stage.now);
                    stage.add(pods.into_iter().map(Input::Pod));
                }
            }
            stops += stops_of_big(&stage.settle(|_| {}));
            stage.engine.recount();
        }
        (LAST, stops)
    }
}

/// How often a share stopped the big Job.
fn stops_of_big(outputs: &[StepOutput]) -> usize {
    let outcomes = outputs.iter().flat_map(|output| &output.report.outcomes);
    let victims = outcomes.flat_map(|told| match &told.outcome {
        Outcome::Preempting(victims) => &victims[..],
        _ => &[],
    });
    victims.filter(|victim| &*victim.victim == "team/big").count()
}

/// Ends the big Job if it is due; whether it is.
fn end_big(stage: &mut Stage) -> bool {
    let of_big = stage.pods.values().filter(|pod| pod.name.starts_with("big-"));
    let pods: Vec<PodFacts> = of_big.cloned().collect();
    let due = |pod: &PodFacts| {
        let end = pod.bound_at.zip(pod.wishes.expected_runtime).map(|(at, runs)| at.plus(runs));
        end.is_some_and(|end| end <= stage.now)
    };
    if pods.is_empty() || !pods.iter().all(due) {
        return false;
    }
    let owner = stage.owners["job-big"].clone();
    let ended = pods.into_iter().map(|pod| PodFacts { phase: PodPhase::Succeeded, ..pod });
    stage.add(ended.map(Input::Pod));
    stage.add([Input::Owner(OwnerFacts { finished: Some(OwnerEnd::Succeeded), ..owner })]);
    true
}

fn comes_to_its_end(apart: bool) {
    let mut stopped = 0;
    for number in 0..SEEDS {
        let world = World::of(&mut Seed::new(number), apart);
        let (ended, stops) = world.play();
        stopped += stops;
        assert!(stops <= 2, "seed {number}: {stops} stops, {world:?}");
        assert!(ended <= COMES + WITHIN, "seed {number}: it ended at {ended}, {world:?}");
    }
    assert!(stopped > 0, "no share stops it");
}

#[test]
fn big_work_comes_to_its_end_beside_smaller_shares() {
    comes_to_its_end(false);
}

#[test]
fn big_work_comes_to_its_end_beside_a_cohort_of_smaller_shares() {
    comes_to_its_end(true);
}
