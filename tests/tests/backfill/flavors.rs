//! Reserved starts over several flavors, with nodes and quota of their own: nobody starts later
//! than was first reserved.

use capstan_core::model::input::NodeFacts;
use capstan_tests::facts::labels;
use capstan_tests::seed::Seed;

use super::random::{Job, QUEUES, follow};
use super::*;

/// Flavors, in the order in which they are tried, each with its nodes.
const FLAVORS: [(&str, &[&str]); 3] =
    [("fast", &["a", "b"]), ("slow", &["c", "d", "e"]), ("spare", &["f"])];

/// A stage on which each queue has some of each flavor, or none, and more than there is together.
fn ground(seed: &mut Seed, flavors: usize) -> (Stage, i64) {
    let mut stage = stage(&[]);
    let (mut least, mut quotas) = (i64::MAX, vec![Vec::new(); QUEUES.len()]);
    for (name, nodes) in &FLAVORS[..flavors] {
        stage.add([Input::Flavor(flavor(name, &[("flavor", name)]))]);
        for node_name in *nodes {
            let labels = labels(&[("kubernetes.io/hostname", node_name), ("flavor", name)]);
            stage.add([Input::Node(NodeFacts { labels, ..node(node_name, &[(GPU, 8)]) }.into())]);
        }
        for quotas in &mut quotas {
            let all = 8 * nodes.len() as i64;
            quotas.push((*name, [(GPU, nominal(seed.between(all / 2, all)))]));
        }
    }
    for (name, quotas) in QUEUES.iter().zip(&quotas) {
        let most = quotas.iter().map(|(_, of)| of[0].1.nominal / 8 * 8).max().expect("flavors");
        least = least.min(most);
        let listed: Vec<(&str, &[(&str, Quota)])> =
            quotas.iter().map(|(name, of)| (*name, &of[..])).collect();
        let facts = cluster_queue(name, None, group(&listed));
        stage.add([Input::LocalQueue(local_queue(name)), Input::ClusterQueue(facts)]);
    }
    stage.settle(|_| {});
    (stage, least)
}

/// Work of which all fits into one flavor of its queue, when that is empty.
fn jobs(seed: &mut Seed, most: i64) -> Vec<Job> {
    let job = |seed: &mut Seed| {
        let size = match seed.below(4) {
            0 => (seed.between(1, (most / 8).max(1)) as u32, 8),
            _ => (seed.between(1, 2) as u32, seed.between(1, 4)),
        };
        let queue = Some(seed.below(QUEUES.len() as u64) as usize);
        Job { arrives: seed.between(0, 60), size, minutes: seed.between(1, 40), queue }
    };
    (0..36).map(|_| job(seed)).collect()
}

#[test]
fn nobody_starts_later_than_was_first_reserved_whichever_flavor_it_gets() {
    let mut reserved = 0;
    for number in 0..40 {
        let mut seed = Seed::new(7_000 + number);
        let (stage, most) = ground(&mut seed, 2 + number as usize % 2);
        let jobs = jobs(&mut seed, most);
        for (at, fate) in follow(stage, &jobs) {
            let started = fate.started.expect("all started");
            if let Some((_, first)) = fate.reserved {
                reserved += 1;
                assert!(started <= first, "seed {number}: job-{at:02} {fate:?}");
            }
        }
    }
    assert!(reserved > 50, "work waits often: {reserved}");
}
