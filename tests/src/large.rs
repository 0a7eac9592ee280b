//! Large clusters for benchmarks and long simulations: seeded, and the same on every machine.
//!
//! A floor is what a training site looks like: nodes of 8 GPUs in racks of 16, blocks of 8 racks
//! and zones of 8 blocks, named by the well-known labels, in three kinds that differ in CPU,
//! capacity type and price. Texts that the shell shares between pods are shared here too.

use std::sync::Arc;

use capstan_core::model::input::{
    CapacityType, GangKey, GangRef, GangSource, Input, Kin, Neighbours, NodeFacts, Operator,
    PeerSelector, PeerTerm, PodFacts, PodPhase, PodShape, PreemptReclaim, PreemptWithin, Price,
    PriceSource, Quota, Requirement, Spread, Text, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::time::Time;

use crate::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, labels as labels_of, local_queue,
    namespace, node, pod, shape, text,
};
use crate::seed::Seed;

/// GPUs of a node.
pub const GPUS: i64 = 8;
/// Nodes of a rack.
pub const RACK: u32 = 16;
/// Nodes of a block.
pub const BLOCK: u32 = 8 * RACK;
/// Nodes of a zone.
pub const ZONE: u32 = 8 * BLOCK;
/// The label of zones.
const ZONE_KEY: &str = "topology.kubernetes.io/zone";
/// The label of racks.
pub const RACK_KEY: &str = "topology.kubernetes.io/rack";
/// Labels over whose domains pods keep apart, or spread.
pub type Keys = &'static [&'static str];
/// That of hosts.
pub const HOSTS: Keys = &["kubernetes.io/hostname"];
/// That of zones.
pub const ZONES: Keys = &[ZONE_KEY];
/// Those of zones and of hosts.
pub const BOTH: Keys = &[ZONE_KEY, "kubernetes.io/hostname"];
/// Queues of a cohort.
pub const COHORT: u32 = 10;
/// What one GPU's share of a node has of CPU, in milli-units, and of memory.
const SHARE: (i64, i64) = (11_000, 1 << 36);

/// Nodes of a floor.
pub fn floor(nodes: u32) -> Vec<Input> {
    (0..nodes).map(|at| Input::Node(floor_node(at).into())).collect()
}

/// Kinds of nodes alternate by rack: milli-CPU, how it is bought, micro-USD per hour.
const KINDS: [(i64, CapacityType, i64); 3] = [
    (96_000, CapacityType::Spot, 12_500_000),
    (128_000, CapacityType::OnDemand, 32_770_000),
    (112_000, CapacityType::Reserved, 0),
];

fn floor_node(at: u32) -> NodeFacts {
    let (cpu, capacity_type, per_hour) = KINDS[(at / RACK) as usize % KINDS.len()];
    let mut facts = node(&floor_name(at), &[("cpu", cpu), ("memory", 1 << 40), (GPU, GPUS)]);
    let labels = [
        (ZONE_KEY, format!("zone-{}", at / ZONE)),
        ("topology.kubernetes.io/block", format!("block-{}", at / BLOCK)),
        (RACK_KEY, format!("rack-{}", at / RACK)),
    ];
    facts.labels.extend(labels.into_iter().map(|(key, value)| (text(key), text(value))));
    facts.capacity_type = capacity_type;
    let per_hour = MicroUsd(per_hour);
    facts.price = Some(Price { per_hour, source: PriceSource::Catalogue });
    facts
}

/// Name of a floor node.
pub fn floor_name(at: u32) -> Text {
    format!("node-{at:06}").into()
}

/// What a member asks: GPUs with their share of CPU and memory.
pub fn gpu_shape(gpus: i64) -> Arc<PodShape> {
    shape(&[("cpu", SHARE.0 * gpus), ("memory", SHARE.1 * gpus), (GPU, gpus)])
}

/// The label that members of a set that keeps apart or spreads have.
const SET: &str = "set";

/// What pods of one set want of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// No two in one domain.
    Apart,
    /// As many in each domain as in any other.
    Spread,
    /// The same, if it can be had.
    Anyway,
}

/// A shape whose pods keep apart, or spread, over the domains of each of these node labels.
pub fn around(shape: &Arc<PodShape>, keys: &[&str], wish: Around) -> Arc<PodShape> {
    let mut wants = Neighbours::default();
    for key in keys {
        if wish == Around::Apart {
            wants.anti_affinity.push(set_within(key, "one"));
            continue;
        }
        wants.spread.push(Spread {
            key: text(key),
            max_skew: 1,
            min_domains: 1,
            labels: set_within(key, "one").peers.labels,
            required: wish == Around::Spread,
            honors_affinity: true,
            honors_taints: false,
        });
    }
    of_set(shape, "one", wants)
}

/// A shape whose pods want those of their set within one domain of a node label.
pub fn near(shape: &Arc<PodShape>, key: &str, set: &str) -> Arc<PodShape> {
    let affinity = vec![set_within(key, set)];
    of_set(shape, set, Neighbours { affinity, ..Neighbours::default() })
}

/// Pods of a set within a domain of a node label.
fn set_within(key: &str, set: &str) -> PeerTerm {
    let requirement =
        Requirement { key: text(SET), operator: Operator::In, values: vec![text(set)] };
    let (namespaces, labels) = (vec![text(TEAM)], Some(vec![requirement]));
    PeerTerm {
        key: text(key),
        peers: PeerSelector { namespaces, namespace_selector: None, labels },
    }
}

fn of_set(shape: &Arc<PodShape>, set: &str, wants: Neighbours) -> Arc<PodShape> {
    let kin = Kin { namespace: text(TEAM), labels: labels_of(&[(SET, set)]) };
    let (kin, neighbours) = (Some(Arc::new(kin)), Some(Arc::new(wants)));
    Arc::new(PodShape { kin, neighbours, ..PodShape::clone(shape) })
}

/// `count` gangs of `pods` members of one shape, created one after the other, numbered from
/// `first` on.
pub fn gangs(
    first: u32,
    count: u32,
    pods: u32,
    shape: &Arc<PodShape>,
    queue: Option<&str>,
) -> Vec<PodFacts> {
    let template = pod("template", shape, &in_queue(queue));
    let mut facts = Vec::with_capacity((count * pods) as usize);
    for at in first..first + count {
        let name: Text = format!("train-{at:06}").into();
        let gang = GangRef {
            key: GangKey::Group(GangSource::CapstanGang, name.clone()),
            name,
            source: GangSource::CapstanGang,
            min_member: Some(pods),
            total: None,
            roles: None,
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: None,
        };
        for member in 0..pods {
            facts.push(PodFacts {
                uid: uid(u64::from(at) << 32 | u64::from(member)),
                name: format!("{}-{member}", gang.name).into(),
                created: Time(i64::from(at)),
                gang: gang.clone(),
                ..template.clone()
            });
        }
    }
    facts
}

/// `count` lone pods of one shape, created one after the other, numbered from `first` on.
pub fn singles(
    first: u32,
    count: u32,
    shape: &Arc<PodShape>,
    wishes: &Arc<Wishes>,
) -> Vec<PodFacts> {
    let template = pod("template", shape, wishes);
    let make = |at: u32| {
        let (uid, name) = (uid(1 << 63 | u64::from(at)), text(format!("single-{at:06}")));
        let gang =
            GangRef { key: GangKey::Pod(uid.clone()), name: name.clone(), ..template.gang.clone() };
        PodFacts { uid, name, created: Time(i64::from(at)), gang, ..template.clone() }
    };
    (first..first + count).map(make).collect()
}

/// A uid as the API server makes them, from a number.
fn uid(number: u64) -> Text {
    let mut seed = Seed::new(number);
    let (high, low) = (seed.number(), seed.number());
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff).into()
}

/// Foreign pods that run on a floor: on each node as many single-GPU ones as `held` says.
pub fn held(nodes: u32, held: impl Fn(u32) -> i64) -> Vec<Input> {
    let (shape, wishes) = (gpu_shape(1), in_queue(None));
    let template = pod("template", &shape, &wishes);
    let mut facts = Vec::new();
    for node in 0..nodes {
        for slot in 0..held(node) {
            let name = text(format!("old-{node:06}-{slot}"));
            facts.push(Input::Pod(PodFacts {
                uid: name.clone(),
                name,
                ours: false,
                phase: PodPhase::Running,
                node: Some(floor_name(node)),
                ..template.clone()
            }));
        }
    }
    facts
}

/// `count` queues of `gpus` each, ten to a cohort, that lend all, borrow as much as they own and
/// reclaim; with their LocalQueues, the flavor and the namespace. Names are [`queue_name`]'s.
pub fn queues(count: u32, gpus: i64) -> Vec<Input> {
    let mut facts = vec![Input::Flavor(flavor(DEFAULT, &[])), namespace()];
    for at in 0..count {
        let name = queue_name(at);
        let quota = |nominal| Quota { nominal, borrowing: Some(nominal), lending: None };
        let quotas =
            [("cpu", quota(SHARE.0 * gpus)), ("memory", quota(SHARE.1 * gpus)), (GPU, quota(gpus))];
        let cohort = format!("cohort-{}", at / COHORT);
        let group = group(&[(DEFAULT, &quotas)]);
        let mut queue = cluster_queue(&name, Some(&cohort), group);
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        queue.preemption.reclaim = PreemptReclaim::Any;
        facts.push(Input::ClusterQueue(queue));
        facts.push(Input::LocalQueue(local_queue(&name)));
    }
    facts
}

/// Name of the queue with this number.
pub fn queue_name(at: u32) -> String {
    format!("queue-{at:04}")
}

/// Lone pods of one GPU for `queues` queues, `each` of them on average, priorities 0 to 9 by
/// seed. Odd queues get half as much again and even ones half as much, so that within a cohort
/// the one half borrows what the other leaves.
pub fn queued_singles(seed: u64, queues: u32, each: u32) -> Vec<PodFacts> {
    let mut seed = Seed::new(seed);
    let shape = gpu_shape(1);
    let mut facts = Vec::with_capacity((queues * each) as usize);
    for queue in 0..queues {
        let wishes = in_queue(Some(&queue_name(queue)));
        let count = if queue % 2 == 1 { each + each / 2 } else { each - each / 2 };
        for mut single in singles(facts.len() as u32, count, &shape, &wishes) {
            single.priority = seed.between(0, 9) as i32;
            facts.push(single);
        }
    }
    seed.shuffle(&mut facts);
    facts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_seeds_build_equal_clusters() {
        assert_eq!(queued_singles(3, 20, 4), queued_singles(3, 20, 4));
        assert_ne!(queued_singles(3, 20, 4), queued_singles(4, 20, 4));
        assert_eq!(held(100, |node| i64::from(node % 2)).len(), 50);
    }

    #[test]
    fn domains_nest() {
        let zone = |at| floor_node(at).labels["topology.kubernetes.io/zone"].clone();
        assert_eq!(zone(0), zone(ZONE - 1));
        assert_ne!(zone(0), zone(ZONE));
        assert_eq!(floor(9).len(), 9);
    }

    #[test]
    fn every_kind_of_node_holds_eight_shares() {
        for (cpu, ..) in KINDS {
            assert!(cpu >= GPUS * SHARE.0);
        }
    }

    #[test]
    fn uids_differ_and_look_like_the_api_servers() {
        let (one, wishes) = (gpu_shape(1), in_queue(None));
        let mut pods = gangs(0, 20, 50, &one, None);
        pods.extend(singles(0, 50, &one, &wishes));
        let uids: BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        assert_eq!((uids.len(), uids.iter().all(|uid| uid.len() == 36)), (1_050, true));
    }

    #[test]
    fn half_of_the_queues_ask_for_more_than_their_share() {
        let pods = queued_singles(1, 4, 10);
        let of = |queue: u32| {
            let name = Some(text(queue_name(queue)));
            pods.iter().filter(|pod| pod.wishes.queue == name).count()
        };
        assert_eq!([0, 1, 2, 3].map(of), [5, 15, 5, 15]);
    }
}
