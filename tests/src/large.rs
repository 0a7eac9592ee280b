//! Large clusters for benchmarks and long simulations: seeded, and the same on every machine.

use std::sync::Arc;

use capstan_core::model::input::{
    CapacityType, Input, Labels, NodeFacts, PodFacts, PodShape, PreemptReclaim, PreemptWithin,
    Price, PriceSource, Quota, Text, Wishes,
};
use capstan_core::money::MicroUsd;
use capstan_core::time::Time;

use crate::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, local_queue, namespace, node, pod,
    shape, text,
};
use crate::seed::Seed;

/// GPUs of a node.
pub const GPUS: i64 = 8;
const NODES_PER_RACK: u32 = 4;
const RACKS_PER_BLOCK: u32 = 8;
const BLOCKS_PER_ZONE: u32 = 16;

/// Label keys of the levels, outermost first.
pub const LEVELS: [&str; 3] = ["topology.kubernetes.io/zone", "block", "rack"];

/// Nodes of 8 GPUs in racks of 4, blocks of 8 racks and zones of 16 blocks, every other rack on
/// spot, with the Topology object that names the levels.
pub fn floor(nodes: u32) -> Vec<Input> {
    let mut facts: Vec<Input> = (0..nodes).map(|at| Input::Node(floor_node(at))).collect();
    let levels = LEVELS.iter().map(text).collect();
    facts.push(Input::Topology { name: text("floor"), levels });
    facts
}

fn floor_node(at: u32) -> NodeFacts {
    let rack = at / NODES_PER_RACK;
    let block = rack / RACKS_PER_BLOCK;
    let zone = block / BLOCKS_PER_ZONE;
    let name = format!("node-{at:06}");
    let mut facts = node(&name, &[("cpu", 96_000), ("memory", 1 << 40), (GPU, GPUS)]);
    let places = [format!("zone-{zone}"), format!("block-{block}"), format!("rack-{rack}")];
    facts.labels.extend(LEVELS.iter().map(text).zip(places.iter().map(text)));
    let spot = rack.is_multiple_of(2);
    facts.capacity_type = if spot { CapacityType::Spot } else { CapacityType::OnDemand };
    let per_hour = MicroUsd(if spot { 12_500_000 } else { 32_770_000 });
    facts.price = Some(Price { per_hour, source: PriceSource::Catalogue });
    facts
}

/// What a member asks: GPUs with their share of CPU and memory.
pub fn gpu_shape(gpus: i64) -> Arc<PodShape> {
    shape(&[("cpu", 11_000 * gpus), ("memory", gpus << 36), (GPU, gpus)])
}

/// `count` gangs of `pods` members with `gpus` each, in a queue or without one; they are created
/// one after the other from `first` on.
pub fn gangs(first: u32, count: u32, pods: u32, gpus: i64, queue: Option<&str>) -> Vec<Input> {
    let (shape, wishes) = (gpu_shape(gpus), in_queue(queue));
    let mut facts = Vec::with_capacity((count * pods) as usize);
    for at in first..first + count {
        for mut member in gang(&format!("gang-{at:06}"), pods, None, &shape, &wishes) {
            member.created = Time(i64::from(at));
            facts.push(Input::Pod(member));
        }
    }
    facts
}

/// `count` lone pods of one GPU.
pub fn singles(count: u32, queue: Option<&str>) -> Vec<Input> {
    let (shape, wishes) = (gpu_shape(1), in_queue(queue));
    let make = |at: u32| {
        let mut single = pod(&format!("single-{at:06}"), &shape, &wishes);
        single.created = Time(i64::from(at));
        Input::Pod(single)
    };
    (0..count).map(make).collect()
}

/// `count` queues of `gpus` each, ten to a cohort, that lend and borrow and reclaim; with their
/// LocalQueues, the flavor and the namespace. Names are [`queue_name`]'s.
pub fn queues(count: u32, gpus: i64) -> Vec<Input> {
    let mut facts = vec![Input::Flavor(flavor(DEFAULT, &[])), namespace()];
    for at in 0..count {
        let name = queue_name(at);
        let quota = |nominal| Quota { nominal, borrowing: Some(nominal), lending: None };
        let quotas =
            [("cpu", quota(gpus * 11_000)), ("memory", quota(gpus << 36)), (GPU, quota(gpus))];
        let cohort = format!("cohort-{}", at / 10);
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

/// `count` gangs of `pods` members of one GPU spread over `queues` queues, priorities 0 to 9,
/// by seed.
pub fn queued_gangs(seed: u64, count: u32, pods: u32, queues: u32) -> Vec<Input> {
    let mut seed = Seed::new(seed);
    let shape = gpu_shape(1);
    let wishes: Vec<Arc<Wishes>> = (0..queues).map(|at| in_queue(Some(&queue_name(at)))).collect();
    let mut facts = Vec::with_capacity((count * pods) as usize);
    for at in 0..count {
        let wishes = seed.pick(&wishes).clone();
        let priority = seed.between(0, 9) as i32;
        for mut member in gang(&format!("gang-{at:06}"), pods, None, &shape, &wishes) {
            member.priority = priority;
            member.created = Time(i64::from(at));
            facts.push(Input::Pod(member));
        }
    }
    facts
}

/// Runs `share` per mille of a floor's GPUs full of foreign single-GPU pods, by seed: fragments.
pub fn fragments(seed: u64, nodes: u32, share: u64) -> Vec<Input> {
    let mut seed = Seed::new(seed);
    let (shape, wishes) = (gpu_shape(1), in_queue(None));
    let mut facts = Vec::new();
    for node in 0..nodes {
        for slot in 0..GPUS {
            if seed.below(1_000) >= share {
                continue;
            }
            let mut single: PodFacts = pod(&format!("old-{node:06}-{slot}"), &shape, &wishes);
            single.ours = false;
            single.node = Some(text(format!("node-{node:06}")));
            facts.push(Input::Pod(single));
        }
    }
    facts
}

/// The label map of a floor node, for who wants to select by it.
pub fn floor_labels(at: u32) -> Labels {
    floor_node(at).labels
}

/// Name of a floor node.
pub fn floor_name(at: u32) -> Text {
    floor_node(at).name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_build_equal_clusters() {
        assert_eq!(queued_gangs(3, 20, 4, 5), queued_gangs(3, 20, 4, 5));
        assert_ne!(queued_gangs(3, 20, 4, 5), queued_gangs(4, 20, 4, 5));
        assert_eq!(fragments(1, 100, 0).len(), 0);
        assert_eq!(fragments(1, 100, 1_000).len(), 800);
    }

    #[test]
    fn domains_nest() {
        let zone = |at| floor_labels(at)[LEVELS[0]].clone();
        assert_eq!(zone(0), zone(511));
        assert_ne!(zone(511), zone(512));
        assert_eq!(floor(9).len(), 10);
        assert_eq!(&*floor_name(3), "node-000003");
    }
}
