//! Property: nobody leaves in a round for what comes free anyway.
//!
//! Several heads of one round may stop work of the same queues, and victims are mostly larger than
//! what they are stopped for. Of every victim it is tried whether whom it was stopped for would fit
//! without it, beside all who leave for the heads before it: then it leaves for nothing. Heads stop
//! work of other queues only, so nothing but quota says who is needed.

use std::collections::BTreeSet;

use capstan_core::Engine;
use capstan_core::explain::milestone::{Passage, Recomputation};
use capstan_core::model::input::{
    BorrowThreshold, Input, PodFacts, PreemptReclaim, PreemptionPolicy, Text,
};
use capstan_core::plan::{Outcome, State, StepOutput};
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, local_queue, namespace, nominal,
    pod, shape, text,
};
use capstan_tests::hand::{bound, gpu_node, view};
use capstan_tests::model::{Pair, QuotaModel};
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Time = Time(1_000_000);
const HEADS: [&str; 3] = ["a", "b", "c"];
const GUESTS: [&str; 2] = ["g", "h"];
/// The policy that takes back from lower priorities only.
const KEEPS_BACK: usize = 2;

/// A queue with a head: GPUs that it owns, and uses, its policy, what the head asks, its priority.
type HeadSeed = (i64, i64, usize, i64, i32);

#[derive(Clone, Debug)]
struct World {
    fair: Option<FairSharing>,
    heads: Vec<HeadSeed>,
    /// GPUs that each queue of guests owns.
    owned: Vec<i64>,
    /// What runs there: queue, GPUs, priority, when it was admitted.
    guests: Vec<(usize, i64, i32, i64)>,
}

impl World {
    fn quotas(&self) -> Vec<Input> {
        let quota = |gpus: i64| group(&[(DEFAULT, &[(GPU, nominal(gpus))])]);
        let mut facts = Vec::new();
        for (name, (owned, _, policy, ..)) in HEADS.iter().zip(&self.heads) {
            let mut queue = cluster_queue(name, Some("all"), quota(*owned));
            let borrows = Some(BorrowThreshold { max_priority: None });
            let (reclaim, while_borrowing) = [
                (PreemptReclaim::Any, None),
                (PreemptReclaim::Any, borrows),
                (PreemptReclaim::LowerPriority, borrows),
            ][*policy];
            queue.preemption = PreemptionPolicy { reclaim, while_borrowing, ..queue.preemption };
            facts.push(Input::ClusterQueue(queue));
        }
        for (name, owned) in GUESTS.iter().zip(&self.owned) {
            facts.push(Input::ClusterQueue(cluster_queue(name, Some("all"), quota(*owned))));
        }
        facts
    }

    fn ground(&self) -> Vec<Input> {
        let policy = Policy { fair_sharing: self.fair, rounds_max: 1, ..Policy::default() };
        let mut facts = vec![Input::Policy(policy.into()), namespace()];
        facts.extend([Input::Flavor(flavor(DEFAULT, &[])), gpu_node("n", 1_000)]);
        facts.extend(self.quotas());
        let all = HEADS.iter().take(self.heads.len()).chain(&GUESTS);
        facts.extend(all.map(|name| Input::LocalQueue(local_queue(name))));
        facts.extend(self.running().iter().map(|pod| bound(pod, "n")));
        facts
    }

    /// What runs, while quota covers it.
    fn running(&self) -> Vec<PodFacts> {
        let own = HEADS.iter().zip(&self.heads).map(|(name, (_, used, ..))| (*name, *used, 100, 0));
        let guests = self.guests.iter().map(|(queue, gpus, priority, at)| {
            (GUESTS[*queue % GUESTS.len()], *gpus, *priority, *at)
        });
        let mut left: i64 = self.heads.iter().map(|(owned, ..)| owned).sum();
        left += self.owned.iter().sum::<i64>();
        let mut pods = Vec::new();
        for (queue, gpus, priority, at) in own.chain(guests).filter(|(_, gpus, ..)| *gpus > 0) {
            if gpus > left {
                continue;
            }
            left -= gpus;
            let name = format!("r{}", pods.len());
            let one = pod(&name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)));
            pods.push(PodFacts { priority, bound_at: Some(Time(at)), ..one });
        }
        pods
    }

    fn waiting(&self) -> Vec<PodFacts> {
        let head = |(name, (.., asks, priority)): (&&str, &HeadSeed)| {
            let one = pod(&format!("w{name}"), &shape(&[(GPU, *asks)]), &in_queue(Some(name)));
            PodFacts { priority: *priority, ..one }
        };
        HEADS.iter().zip(&self.heads).map(head).collect()
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let fair = prop_oneof![
        2 => Just(None),
        1 => Just(Some(FairSharing::FinalThenInitial)),
        1 => Just(Some(FairSharing::FinalShare)),
        1 => Just(Some(FairSharing::InitialShare)),
    ];
    let head = (0..8_i64, 0..3_i64, 0..3_usize, 1..6_i64, 1..4_i32);
    let heads = vec(head, 2..=HEADS.len());
    let guests = vec((0..GUESTS.len(), 1..8_i64, 0..3_i32, 0..100_i64), 1..8);
    (fair, heads, vec(0..5_i64, GUESTS.len()), guests)
        .prop_map(|(fair, heads, owned, guests)| World { fair, heads, owned, guests })
}

/// Whom each head waits for, in the order in which heads were decided.
fn promises(output: &StepOutput) -> Vec<(Text, Vec<Text>)> {
    let told = output.report.outcomes.iter().filter_map(|told| match &told.outcome {
        Outcome::Preempting(list) => {
            let names = list.iter().map(|victim| victim.victim.clone()).collect();
            Some((told.workload.clone(), names))
        }
        _ => None,
    });
    told.collect()
}

/// One step of one round; how many stop somebody, or wait for whom others stop.
fn check(world: &World) -> Result<(usize, usize), TestCaseError> {
    let mut engine = Engine::new();
    engine.observe(NOW, world.ground());
    let waiting = world.waiting();
    let output = engine.step(NOW, waiting.iter().cloned().map(Input::Pod).collect());
    engine.recount();
    // What a head that nobody makes room for keeps back counts for those after it as if it ran.
    let keeps = |(pod, (_, _, policy, ..)): (&PodFacts, &HeadSeed)| {
        *policy == KEEPS_BACK && view(&engine, &pod.name).state == State::Queued
    };
    if waiting.iter().zip(&world.heads).any(keeps) {
        return Ok((0, 0));
    }
    let pair: Pair = (text(DEFAULT), text(GPU));
    let running = world.running();
    let full = |pod: &PodFacts| text(format!("{TEAM}/{}", pod.name));
    let gpus = |pod: &PodFacts| pod.shape.requests[GPU];
    let queue = |pod: &PodFacts| pod.wishes.queue.clone().expect("all name one");
    // With who was admitted, and who is promised its place, once these have left.
    let usage = |promised: &[&PodFacts], gone: &BTreeSet<Text>| {
        let mut model = QuotaModel::new(&world.quotas());
        let stays = running.iter().filter(|pod| !gone.contains(&full(pod)));
        for pod in stays.chain(promised.iter().copied()) {
            model.charge(&queue(pod), &pair.0, &pair.1, gpus(pod));
        }
        model
    };
    let promises = promises(&output);
    let named = |name: &Text| promises.iter().position(|(head, _)| head == name);
    let admitted = |pod: &&PodFacts| {
        named(&full(pod)).is_none() && view(&engine, &pod.name).state != State::Queued
    };
    let mut runs: Vec<&PodFacts> = waiting.iter().filter(admitted).collect();
    let mut gone: BTreeSet<Text> = BTreeSet::new();
    let mut shares = 0;
    for (head, victims) in &promises {
        let pod = waiting.iter().find(|pod| full(pod) == *head).expect("it is a head");
        let before = gone.clone();
        gone.extend(victims.iter().cloned());
        let own: Vec<&Text> = victims.iter().filter(|name| !before.contains(*name)).collect();
        shares += usize::from(own.len() < victims.len());
        let fits = |gone: &BTreeSet<Text>| gpus(pod) <= usage(&runs, gone).room(&queue(pod), &pair);
        prop_assert!(fits(&gone), "{head} does not fit with {gone:?} gone");
        for victim in own {
            let mut without = gone.clone();
            without.remove(victim);
            prop_assert!(!fits(&without), "{victim} leaves for {head} for nothing: {promises:?}");
        }
        runs.push(pod);
    }
    Ok((promises.len(), shares))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_leaves_for_what_comes_free_anyway(world in worlds()) {
        check(&world)?;
    }
}

/// Two heads of three GPUs count on the one guest of six: it leaves for the first, and is enough.
#[test]
fn who_waits_for_victims_of_others_is_told_as_such() {
    let head = (4, 0, 0, 3, 1);
    let world =
        World { fair: None, heads: vec![head; 2], owned: vec![0; 2], guests: vec![(0, 6, 0, 0)] };
    let mut engine = Engine::new();
    engine.observe(NOW, world.ground());
    let output = engine.step(NOW, world.waiting().into_iter().map(Input::Pod).collect());
    let told = output.report.milestones.iter().map(|milestone| &milestone.what);
    let anew: Vec<_> = told.filter(|what| matches!(what, Passage::Recomputed(_))).collect();
    assert_eq!(anew, [&Passage::Recomputed(Recomputation::DeferredFit)]);
    engine.recount();
}

/// The worlds are such that heads do count on the same victims.
#[test]
fn heads_do_overlap() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut several, mut shared) = (0, 0);
    for _ in 0..500 {
        let world = worlds().new_tree(&mut runner).expect("a world").current();
        let (promised, shares) = check(&world).expect("nobody leaves for nothing");
        several += usize::from(promised > 1);
        shared += usize::from(shares > 0);
    }
    assert!(several > 50 && shared > 20, "{several} with several, {shared} share victims");
}
