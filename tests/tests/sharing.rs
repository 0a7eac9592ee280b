//! Properties of fair sharing: queues that borrow from one another come to rest with shares as
//! even as their work allows.
//!
//! Each plays Jobs, which come back after they were stopped, in a random tree of cohorts with
//! weights, zero among them. Shares are those of the slow model, by definition. A failure prints
//! the smallest cluster that shows it; keep it as a named case below.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{
    BorrowThreshold, Input, OwnerFacts, PreemptReclaim, PreemptWithin, Quota, Text, Weight,
};
use capstan_core::plan::{Outcome, State, StepOutput, WorkloadOutcome};
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::time::{Span, Time};
use capstan_core::{Engine, Input as Fact};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, cohort, flavor, group, in_queue, job, local_queue, namespace,
    node, shape, text,
};
use capstan_tests::invariants::{broken, charged};
use capstan_tests::play::{Stage, deeds};
use capstan_tests::seed::Seed;
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Time = Time(3_600_000);

/// Cohorts of a generated tree, below `root`; each may be the parent of those after it.
const COHORTS: [&str; 3] = ["c0", "c1", "c2"];
const QUEUES: [&str; 4] = ["q0", "q1", "q2", "q3"];

/// Weights: the usual one, a heavier and a lighter one, and none.
const WEIGHTS: [Weight; 4] =
    [Weight::ONE, Weight(2 * Weight::ONE.0), Weight(Weight::ONE.0 / 3), Weight(0)];

fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }
}

/// A queue or cohort: parent among those above, weight, and quotas of GPU and cpu.
type NodeSeed = (usize, usize, [i64; 2]);

#[derive(Clone, Debug)]
struct World {
    /// `None`: no fair sharing; who borrows may stop lower priorities then.
    strategies: Option<FairSharing>,
    cohorts: Vec<NodeSeed>,
    queues: Vec<NodeSeed>,
    /// By queue: within the queue, and from others.
    policies: Vec<(usize, usize)>,
    /// Queue, GPUs, cpu, priority.
    jobs: Vec<(usize, i64, i64, i32)>,
    /// GPUs of each of two nodes; above all that can be asked: only quota is short.
    node: i64,
}

impl World {
    fn ground(&self) -> Vec<Fact> {
        let policy = Policy { fair_sharing: self.strategies, ..Policy::default() };
        let mut facts = vec![Input::Policy(policy.into()), namespace()];
        facts.push(Input::Flavor(flavor(DEFAULT, &[])));
        for name in ["n0", "n1"] {
            facts.push(Input::Node(node(name, &[("cpu", 1_000), (GPU, self.node)]).into()));
        }
        let parent = |at: usize| if at == 0 { "root" } else { COHORTS[at - 1] };
        let quotas = |[gpus, cpu]: [i64; 2]| {
            let nominal = |nominal| Quota { nominal, ..Quota::default() };
            group(&[(DEFAULT, &[(GPU, nominal(gpus)), ("cpu", nominal(cpu))])])
        };
        for (at, (above, weight, owned)) in self.cohorts.iter().enumerate() {
            let mut facts_of = cohort(COHORTS[at], Some(parent(above % (at + 1))));
            facts_of.weight = WEIGHTS[*weight];
            facts_of.groups = vec![quotas(*owned)];
            facts.push(Input::Cohort(facts_of));
        }
        for (at, (above, weight, owned)) in self.queues.iter().enumerate() {
            let above = parent(above % (self.cohorts.len() + 1));
            let mut queue = cluster_queue(QUEUES[at], Some(above), quotas(*owned));
            queue.weight = WEIGHTS[*weight];
            let (within, reclaim) = self.policies[at];
            queue.preemption.within_cluster_queue = [
                PreemptWithin::Never,
                PreemptWithin::LowerPriority,
                PreemptWithin::LowerOrNewerEqual,
            ][within];
            queue.preemption.reclaim =
                [PreemptReclaim::Any, PreemptReclaim::LowerPriority, PreemptReclaim::Never]
                    [reclaim];
            queue.preemption.while_borrowing =
                self.strategies.is_none().then_some(BorrowThreshold { max_priority: None });
            facts.push(Input::ClusterQueue(queue));
            facts.push(Input::LocalQueue(local_queue(QUEUES[at])));
        }
        facts
    }

    fn job(&self, at: usize) -> OwnerFacts {
        let (queue, gpus, cpu, priority) = self.jobs[at];
        let asks = shape(&[(GPU, gpus), ("cpu", cpu)]);
        let wishes = in_queue(Some(QUEUES[queue % self.queues.len()]));
        let created = Time(NOW.0 - 1_000 * (self.jobs.len() - at) as i64);
        OwnerFacts { created, priority, ..job(&format!("j{at}"), 1, &asks, &wishes) }
    }

    /// Plays all to the end, in steps of so many Jobs that come together.
    fn play(&self, together: usize, lingers: Option<Seed>) -> Result<Played, TestCaseError> {
        let mut stage = Stage::new(NOW);
        stage.lingers = lingers;
        stage.add(self.ground());
        let (mut promised, mut evictions, mut wrong) = (BTreeMap::new(), 0, Vec::new());
        let mut stopped: BTreeMap<Text, u32> = BTreeMap::new();
        for first in (0..self.jobs.len()).step_by(together) {
            stage.now = Time(stage.now.0 + 10_000);
            let last = self.jobs.len().min(first + together);
            stage.add((first..last).map(|at| Input::Owner(self.job(at))));
            for _ in 0..STEPS_MAX {
                let output = stage.step();
                wrong.extend(broken(&stage));
                for told in &output.report.outcomes {
                    match &told.outcome {
                        Outcome::Preempting(victims) => {
                            evictions += victims.len();
                            for victim in victims {
                                *stopped.entry(victim.victim.clone()).or_default() += 1;
                            }
                            let reasons: Vec<_> = victims.iter().map(|it| it.reason).collect();
                            promised.insert(told.workload.clone(), reasons);
                        }
                        Outcome::Admitted => drop(promised.remove(&told.workload)),
                        Outcome::Waiting(_) => {}
                    }
                }
                if output.effects.is_empty() && stage.caught_up() && output.report.quiet {
                    break;
                }
            }
            prop_assert!(stage.caught_up(), "not at rest after {} evictions", evictions);
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        prop_assert!(promised.is_empty(), "never admitted: {:?}", promised);
        Ok(Played { stage, evictions, stopped })
    }
}

/// Steps until Jobs that came together must have settled.
const STEPS_MAX: usize = 600;

struct Played {
    stage: Stage,
    evictions: usize,
    /// How often each was stopped.
    stopped: BTreeMap<Text, u32>,
}

/// Hours of a day after which nobody is stopped any more.
const QUIET: usize = 12;

/// Nobody comes or goes for a day: how many are stopped in each hour.
fn day(stage: &mut Stage) -> Vec<usize> {
    let mut hours = Vec::new();
    for _ in 0..24 {
        stage.now = stage.now.plus(Span::minutes(60));
        hours.push(evicted(&stage.settle(|_| {})));
    }
    hours
}

/// How many are stopped for others.
fn evicted(outputs: &[StepOutput]) -> usize {
    let outcomes = outputs.iter().flat_map(|output| &output.report.outcomes);
    let victims = |told: &WorkloadOutcome| match &told.outcome {
        Outcome::Preempting(victims) => victims.len(),
        _ => 0,
    };
    outcomes.map(victims).sum()
}

fn strategies() -> impl Strategy<Value = FairSharing> {
    prop_oneof![
        Just(FairSharing::FinalThenInitial),
        Just(FairSharing::FinalShare),
        Just(FairSharing::InitialShare),
    ]
}

fn node_seed(owned: i64) -> impl Strategy<Value = NodeSeed> {
    let cpu = prop_oneof![3 => Just(100), 1 => 0..=owned];
    (0..4_usize, 0..WEIGHTS.len(), (0..=owned, cpu))
        .prop_map(|(above, weight, (gpus, cpu))| (above, weight, [gpus, cpu]))
}

/// Any tree, any policies, Jobs of any size.
fn worlds() -> impl Strategy<Value = World> {
    let jobs = vec((0..QUEUES.len(), 1..5_i64, 1..4_i64, 0..3_i32), 1..12);
    let room = prop_oneof![2 => Just(1_000), 1 => 3..8_i64];
    (
        strategies(),
        vec(node_seed(4), 0..=COHORTS.len()),
        vec(node_seed(4), 2..=QUEUES.len()),
        vec((0..3_usize, prop_oneof![3 => Just(0), 1 => 1..3_usize]), QUEUES.len()),
        jobs,
        room,
    )
        .prop_map(|(strategies, cohorts, queues, policies, jobs, node)| World {
            strategies: Some(strategies),
            cohorts,
            queues,
            policies,
            jobs,
            node,
        })
}

/// Jobs of one GPU and one priority, in queues that may all stop others; quota alone is short.
fn units() -> impl Strategy<Value = World> {
    worlds().prop_map(|world| {
        let plain = |(above, weight, [gpus, _]): NodeSeed| (above, weight, [gpus, 1_000]);
        World {
            strategies: Some(FairSharing::FinalThenInitial),
            cohorts: world.cohorts.into_iter().map(plain).collect(),
            queues: world.queues.into_iter().map(plain).collect(),
            policies: vec![(0, 0); QUEUES.len()],
            jobs: world.jobs.into_iter().map(|(queue, ..)| (queue, 1, 1, 0)).collect(),
            node: 1_000,
        }
    })
}

/// More evictions than this are a loop: each Job may be stopped by each other one, and again.
fn evictions_max(world: &World) -> usize {
    2 * world.jobs.len() * world.jobs.len()
}

proptest! {
    #![proptest_config(config())]

    /// No two queues take turns: evictions are few and come to an end for good, whoever is stopped
    /// makes room for somebody who is admitted, and usage and shares stay what the model says.
    #[test]
    fn shares_come_to_rest(world in worlds(), together in 1..12_usize) {
        let mut played = world.play(together, None)?;
        let hours = day(&mut played.stage);
        let (all, most) = (played.evictions + hours.iter().sum::<usize>(), evictions_max(&world));
        prop_assert!(all <= most, "{all} evictions");
        prop_assert!(hours[QUIET..].iter().all(|stops| *stops == 0), "no quiet: {hours:?}");
    }

    /// The same without shares, where priorities borrow and owners reclaim.
    #[test]
    fn priorities_come_to_rest(world in worlds()) {
        let world = World { strategies: None, ..world };
        let mut stage = Stage::new(NOW);
        stage.add(world.ground());
        stage.add((0..world.jobs.len()).map(|at| Input::Owner(world.job(at))));
        let first = evicted(&stage.settle(|_| {}));
        let hours = day(&mut stage);
        let (all, most) = (first + hours.iter().sum::<usize>(), evictions_max(&world));
        prop_assert!(all <= most, "{all} evictions");
        prop_assert!(hours[QUIET..].iter().all(|stops| *stops == 0), "no quiet: {hours:?}");
    }

    /// The same while victims linger and others come meanwhile.
    #[test]
    fn promises_by_share_are_kept(world in worlds(), together in 1..4_usize, seed: u64) {
        world.play(together, Some(Seed::new(seed)))?;
    }

    /// Nobody sleeps while somebody else's share rises: a new engine finds nothing left to do,
    /// unless the old one knows who had too many turns.
    #[test]
    fn a_new_engine_finds_shares_at_rest(world in worlds(), together in 1..12_usize) {
        let Played { mut stage, stopped, .. } = world.play(together, None)?;
        prop_assume!(stopped.values().all(|times| *times < 2));
        prop_assert!(stage.step().effects.is_empty());
        let fresh = Engine::new().step(stage.now, stage.shown());
        let acts = deeds(&[fresh]);
        prop_assert!(acts.is_empty(), "a new engine would act: {acts:?}");
    }

    /// Once at rest no queue that waits would have less, with one Job more, than one that borrows
    /// has: below the lowest cohort of both, shares differ by less than one Job.
    #[test]
    fn shares_differ_by_less_than_one_job(world in units(), together in 1..12_usize) {
        let Played { stage, .. } = world.play(together, None)?;
        let model = charged(&stage);
        let views = stage.engine.workloads();
        let pair = (text(DEFAULT), text(GPU));
        let waits: BTreeSet<Text> = views
            .iter()
            .filter(|view| view.state == State::Queued)
            .filter_map(|view| view.cluster_queue.clone())
            .collect();
        for queue in &waits {
            let mut with = charged(&stage);
            with.charge(queue, &pair.0, &pair.1, 1);
            for other in model.queues() {
                let borrows = model.used(&other, &pair) > model.nominal_of(&other, &pair);
                if other == *queue || !borrows {
                    continue;
                }
                let Some((own, theirs)) = with.sides(queue, &other) else { continue };
                // What no cohort around it borrows is no longer shared with the others.
                let protected = theirs.iter().any(|node| !model.share(node).borrows);
                let level = |path: &[Text]| path.last().expect("it has a side").clone();
                let (mine, its) = (with.share(&level(&own)), model.share(&level(&theirs)));
                prop_assert!(
                    protected || mine >= its,
                    "{queue} waits with {mine:?}, {other} borrows with {its:?}"
                );
            }
        }
    }
}

/// Found failures.
fn world(
    queues: &[NodeSeed],
    policies: &[(usize, usize)],
    jobs: &[(usize, i64, i64, i32)],
) -> World {
    World {
        strategies: Some(FairSharing::FinalThenInitial),
        cohorts: Vec::new(),
        queues: queues.to_vec(),
        policies: policies.to_vec(),
        jobs: jobs.to_vec(),
        node: 1_000,
    }
}

/// However many of its Jobs come together, it comes to rest with so many evictions at most.
fn rests(world: &World, most: usize) {
    for together in 1..=world.jobs.len() {
        let mut played = world.play(together, None).expect("it comes to rest");
        let hours = day(&mut played.stage);
        let all = played.evictions + hours.iter().sum::<usize>();
        assert!(all <= most, "{} evictions, then {hours:?}", played.evictions);
    }
}

/// A small Job takes part of the share that a large one of its queue was stopped for, and makes
/// place for it: each step is fair, and all together would go round for ever.
#[test]
fn older_work_of_a_queue_takes_no_endless_turns() {
    let queues = [(0, 0, [3, 100]), (0, 0, [2, 100]), (0, 1, [0, 100])];
    let policies = [(1, 0), (0, 0), (2, 0)];
    let jobs = [(2, 3, 1, 0), (2, 1, 1, 0), (0, 1, 1, 1), (0, 3, 1, 0), (1, 1, 1, 0)];
    let world = world(&queues, &policies, &jobs);
    rests(&world, evictions_max(&world));
}

/// Three that stop one another: by priority in their queue, by share, and as an owner. Once an hour
/// had passed they went round again, for ever.
#[test]
fn rounds_do_not_begin_anew_each_hour() {
    let queues = [(0, 3, [3, 100]), (0, 0, [1, 100])];
    let jobs = [(0, 3, 1, 0), (0, 4, 1, 1), (1, 4, 1, 1)];
    let world = world(&queues, &[(1, 0), (0, 0)], &jobs);
    rests(&world, evictions_max(&world));
}

/// No share decides here: an owner reclaims, and who is higher or older in its queue takes its
/// place there and borrows, to be reclaimed from.
#[test]
fn owners_and_higher_priorities_take_no_endless_turns() {
    let queues = [(0, 0, [1, 100]), (0, 0, [2, 100])];
    let jobs = [(1, 3, 1, 0), (2, 1, 1, 0), (1, 1, 1, 0), (2, 3, 1, 1)];
    let world = world(&queues, &[(1, 0), (2, 0)], &jobs);
    rests(&world, evictions_max(&world));
}

/// A queue of weight zero that borrows cpu loses no GPUs of its own by that: it would only take
/// them back.
#[test]
fn what_is_owned_is_not_taken_for_the_sake_of_another_resource() {
    let queues = [(0, 0, [3, 100]), (0, 3, [2, 0])];
    let jobs = [(1, 2, 1, 0), (1, 2, 1, 0), (0, 4, 1, 0)];
    let world = world(&queues, &[(0, 0), (0, 0)], &jobs);
    rests(&world, 1);
}

/// A head that finds its room kept back is told so, whoever it counts on is leaving for others.
#[test]
fn what_heads_keep_back_is_looked_at_beside_claims() {
    let queues = [(0, 0, [2, 100]), (0, 0, [0, 100]), (0, 3, [2, 100]), (0, 0, [2, 100])];
    let policies = [(0, 0), (0, 1), (1, 0), (1, 0)];
    let jobs = [(2, 1, 1, 0), (3, 3, 1, 0), (0, 2, 1, 0), (1, 1, 1, 0), (2, 2, 1, 1), (3, 2, 1, 1)];
    let world = world(&queues, &policies, &jobs);
    world.play(1, None).expect("it comes to rest");
}
