//! Quota of money on generated clusters: nodes with prices, known or not, and queues of which some
//! cover money, with limits, cohorts, preemption and gangs of all kinds.
//!
//! What must hold in every state is in `capstan_tests::invariants`, money included: no queue or
//! cohort uses more than its rules leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::quantity::USD_PER_HOUR;
use capstan_core::model::input::{
    CapacityType, ClusterQueueFacts, GangKey, Input, NodeFacts, PodFacts, Price, PriceSource,
    Quota, Text,
};
use capstan_core::money::MicroUsd;
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, node, nominal,
    pod, shape, text,
};
use capstan_tests::invariants::broken;
use capstan_tests::play::{Stage, deeds};
use capstan_tests::seed::Seed;
use capstan_tests::strategy::{Cluster, cluster};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(3_600_000);

fn config() -> Config {
    Config {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

fn price(micro: i64) -> Price {
    Price { per_hour: MicroUsd(micro), source: PriceSource::Annotation }
}

/// Money as a queue has it, if it has any.
type Money = Option<Quota>;

fn money() -> impl Strategy<Value = Money> {
    let limit = || option::of(0..=8_i64);
    option::weighted(0.8, (0..=12_i64, limit(), limit())).prop_map(|given| {
        given.map(|(nominal, borrowing, lending)| Quota { nominal, borrowing, lending })
    })
}

/// The generated cluster, its nodes priced and its queues with money. Prices are a few micro-USD
/// for a whole node, so that shares of them are rounded.
fn priced() -> impl Strategy<Value = Cluster> {
    let prices = vec(option::weighted(0.9, 0..=9_i64), 5);
    (cluster(), prices, vec(money(), 4)).prop_map(|(mut cluster, prices, moneys)| {
        let (mut nodes, mut queues) = (0, 0);
        for fact in &mut cluster.ground {
            match fact {
                Input::Node(node) => {
                    let node = Arc::make_mut(node);
                    node.price = prices[nodes].map(price);
                    node.capacity_type = CapacityType::OnDemand;
                    nodes += 1;
                }
                Input::ClusterQueue(queue) => {
                    cover(queue, moneys[queues]);
                    queues += 1;
                }
                _ => {}
            }
        }
        cluster
    })
}

/// Adds money to every flavor of a queue.
fn cover(queue: &mut ClusterQueueFacts, money: Money) {
    let Some(quota) = money else { return };
    let quota = match queue.cohort {
        Some(_) => quota,
        None => Quota { borrowing: None, lending: None, ..quota },
    };
    let group = &mut queue.groups[0];
    group.covered.push(text(USD_PER_HOUR));
    for flavor in &mut group.flavors {
        flavor.resources.insert(text(USD_PER_HOUR), quota);
    }
}

/// Nobody misses it.
fn is_lone(pod: &PodFacts) -> bool {
    matches!(pod.gang.key, GangKey::Pod(_))
}

fn settled(facts: impl IntoIterator<Item = Input>) -> Result<Stage, TestCaseError> {
    let mut stage = Stage::new(NOW);
    stage.add(facts);
    let mut wrong = Vec::new();
    stage.settle(|stage| wrong.extend(broken(stage)));
    prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(stage)
}

/// One queue with a quota of money and nothing else that could stand in the way, and lone pods.
#[derive(Clone, Debug)]
struct Lone {
    /// GPUs and price of each node.
    nodes: Vec<(i64, Option<i64>)>,
    money: i64,
    /// GPUs of each pod, and how many have come before it is looked.
    pods: Vec<i64>,
    ends: Vec<usize>,
}

fn lone() -> impl Strategy<Value = Lone> {
    let node = (1..=4_i64, option::weighted(0.9, 0..=40_i64));
    let (pods, ends) = (vec(1..=4_i64, 1..10), vec(0..10_usize, 0..4));
    (vec(node, 1..=5), 0..=60_i64, pods, ends).prop_map(|(nodes, money, pods, ends)| Lone {
        nodes,
        money,
        pods,
        ends,
    })
}

impl Lone {
    fn node(at: usize, (gpus, price_of): (i64, Option<i64>)) -> NodeFacts {
        NodeFacts { price: price_of.map(price), ..node(&format!("n{at}"), &[(GPU, gpus)]) }
    }

    fn ground(&self) -> Vec<Input> {
        let quota = [(GPU, nominal(1_000)), (USD_PER_HOUR, nominal(self.money))];
        let queue = cluster_queue("main", None, group(&[(DEFAULT, &quota)]));
        let policy = Policy { reservations: None, ..Policy::default() };
        let mut facts = vec![
            Input::Policy(policy.into()),
            namespace(),
            Input::Flavor(flavor(DEFAULT, &[])),
            Input::ClusterQueue(queue),
            Input::LocalQueue(local_queue("main")),
        ];
        let nodes = self.nodes.iter().enumerate();
        facts.extend(nodes.map(|(at, seed)| Input::Node(Lone::node(at, *seed).into())));
        facts
    }

    fn pod(at: usize, gpus: i64) -> PodFacts {
        pod(&format!("p{at}"), &shape(&[(GPU, gpus)]), &in_queue(Some("main")))
    }

    /// A pod that waits although some node has room for it at a price that is left.
    fn wronged(&self, stage: &Stage) -> Option<String> {
        let mut free: BTreeMap<Text, i64> = BTreeMap::new();
        for (at, (gpus, _)) in self.nodes.iter().enumerate() {
            free.insert(text(format!("n{at}")), *gpus);
        }
        let mut left = self.money;
        for pod in stage.pods.values() {
            if let Some(node) = &pod.node {
                *free.get_mut(node).expect("it exists") -= pod.shape.requests[GPU];
                left -= pod.binding.as_ref().and_then(|note| note.price).unwrap_or_default().0;
            }
        }
        let waits = stage.pods.values().filter(|pod| pod.node.is_none());
        for pod in waits {
            let asked = pod.shape.requests[GPU];
            for (at, (gpus, price)) in self.nodes.iter().enumerate() {
                let Some(price) = price else { continue };
                // Half a micro-USD is one.
                let cost = (2 * price * asked + gpus) / (2 * gpus);
                if free[&text(format!("n{at}"))] >= asked && cost <= left {
                    return Some(format!("{} waits: n{at} costs {cost}, {left} left", pod.name));
                }
            }
        }
        None
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_state_uses_more_money_than_there_is(cluster in priced()) {
        settled(cluster.facts())?;
    }

    #[test]
    fn nor_where_shares_decide(cluster in priced(), strategy in 0..3_usize) {
        let all =
            [FairSharing::FinalShare, FairSharing::InitialShare, FairSharing::FinalThenInitial];
        let policy = Policy { fair_sharing: Some(all[strategy]), ..Policy::default() };
        settled([Input::Policy(policy.into())].into_iter().chain(cluster.facts()))?;
    }

    /// Victims take their time, and an engine takes over in the middle of it.
    #[test]
    fn nor_while_victims_linger(cluster in priced(), seed: u64) {
        let mut stage = Stage::new(NOW);
        stage.lingers = Some(Seed::new(seed));
        stage.add(cluster.ground.clone());
        let mut wrong = Vec::new();
        for (at, work) in cluster.work.iter().enumerate() {
            stage.now = Time(stage.now.0 + 10_000);
            stage.add(work.iter().cloned());
            for _ in 0..2 {
                stage.step();
                wrong.extend(broken(&stage));
            }
            if at == cluster.work.len() / 2 {
                stage = stage.restarted();
            }
        }
        stage.settle(|stage| wrong.extend(broken(stage)));
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn nor_when_work_and_prices_come_and_go(cluster in priced(), seed: u64) {
        let mut stage = Stage::new(NOW);
        let mut seed = Seed::new(seed);
        stage.add(cluster.ground.clone());
        let mut wrong = Vec::new();
        for work in &cluster.work {
            stage.now = Time(stage.now.0 + 10_000);
            stage.add(work.iter().cloned());
            stage.settle(|stage| wrong.extend(broken(stage)));
            // A node costs something else from now on; what runs there does not.
            let nodes = cluster.ground.iter().filter_map(|fact| match fact {
                Input::Node(node) => Some(NodeFacts::clone(node)),
                _ => None,
            });
            let nodes: Vec<NodeFacts> = nodes.collect();
            let mut node = nodes[seed.below(nodes.len() as u64) as usize].clone();
            node.price = (seed.below(8) > 0).then(|| price(seed.below(10) as i64));
            stage.add([Input::Node(node.into())]);
            if seed.below(3) == 0
                && let Some(lone) = stage.pods.values().find(|pod| is_lone(pod)).cloned()
            {
                stage.drop_pod(&lone.uid);
            }
            stage.settle(|stage| wrong.extend(broken(stage)));
            stage.engine.recount();
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn shuffled_facts_give_an_equal_plan(cluster in priced(), seed: u64) {
        let facts = cluster.facts();
        let mut other = facts.clone();
        Seed::new(seed).shuffle(&mut other);
        let one = Engine::new().step(NOW, facts);
        prop_assert_eq!(one, Engine::new().step(NOW, other));
    }

    /// A new engine that is fed what the API shows charges the same, and finds nothing to do.
    #[test]
    fn a_restart_charges_the_same(cluster in priced()) {
        let stage = settled(cluster.facts())?;
        let mut again = stage.taken_over_by(Engine::new());
        let shown = again.shown();
        again.add(shown);
        let outputs = again.settle(|_| {});
        prop_assert_eq!(deeds(&outputs), vec![]);
        prop_assert_eq!(again.engine.queues(), stage.engine.queues());
    }

    /// Not even where prices changed meanwhile: what runs bears its own.
    #[test]
    fn a_lone_pod_that_can_be_paid_for_is_placed(lone in lone()) {
        let mut stage = Stage::new(NOW);
        stage.add(lone.ground());
        let mut wrong = Vec::new();
        for (at, gpus) in lone.pods.iter().enumerate() {
            stage.now = Time(stage.now.0 + 1_000);
            stage.add([Input::Pod(Lone::pod(at, *gpus))]);
            stage.settle(|stage| wrong.extend(broken(stage)));
            wrong.extend(lone.wronged(&stage));
        }
        for at in &lone.ends {
            stage.drop_pod(&text(format!("p{at}")));
            stage.settle(|stage| wrong.extend(broken(stage)));
            wrong.extend(lone.wronged(&stage));
        }
        prop_assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
