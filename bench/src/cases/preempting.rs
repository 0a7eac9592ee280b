//! Cases where others have to leave: a cluster full of lone pods of one GPU each.

use std::sync::Arc;

use capstan_core::model::input::{Input, PodFacts, Wishes};
use capstan_tests::facts::in_queue;
use capstan_tests::large::{self, GPUS, floor, gangs, gpu_shape, singles};

use super::{Case, Flow, Outcome, Scene};

/// All of them, in order.
pub fn all() -> Vec<Case> {
    let sizes = [1_000, 2_000, 4_000];
    let kinds = [preemption, near_their_own, owner_in_vain];
    kinds.iter().flat_map(|kind| sizes.map(kind)).collect()
}

/// Lone pods that hold all GPUs.
fn full(nodes: u32, wishes: &Arc<Wishes>) -> impl Iterator<Item = Input> {
    let low = singles(0, nodes * GPUS as u32, &gpu_shape(1), wishes).into_iter();
    low.enumerate().map(|(at, mut pod)| {
        pod.node = Some(large::floor_name(at as u32 / GPUS as u32));
        Input::Pod(pod)
    })
}

/// Gangs of 64 of high priority on a cluster full of lone pods of low priority, in one queue.
fn preemption(nodes: u32) -> Case {
    let (count, size) = (20, 64);
    let build = move || {
        let queue = large::queue_name(0);
        let wishes = in_queue(Some(&queue));
        let mut ground = floor(nodes);
        ground.extend(large::queues(1, i64::from(nodes) * GPUS));
        ground.extend(full(nodes, &wishes));
        let mut work = gangs(0, count, size, &gpu_shape(1), Some(&queue));
        work.iter_mut().for_each(|pod| pod.priority = 100);
        Scene { ground, work, gangs: count, outcome: Outcome::Evicted((count * size).into()) }
    };
    let build = Box::new(build);
    Case { family: "preempt-64", nodes, pending: None, flow: Flow::Burst, build, target: None }
}

/// An owner of whole nodes on a cluster full of lone pods of a queue that borrows less than one
/// node: wherever they stand, those that may leave make no room.
fn owner_in_vain(nodes: u32) -> Case {
    let build = move || {
        let mut ground = floor(nodes);
        ground.extend(large::queues(3, i64::from(nodes) * GPUS - GPUS / 2));
        let guest = in_queue(Some(&large::queue_name(1)));
        ground.extend(full(nodes, &guest));
        let work = gangs(0, 1, 1, &gpu_shape(GPUS), Some(&large::queue_name(0)));
        Scene { ground, work, gangs: 1, outcome: Outcome::Waits }
    };
    let build = Box::new(build);
    Case { family: "owner-in-vain", nodes, pending: None, flow: Flow::Burst, build, target: None }
}

/// Gangs whose members want each other in one rack, half of one each, of high priority: who leaves
/// is found by searches for places.
fn near_their_own(nodes: u32) -> Case {
    let (count, size, each) = (20, 16, 4);
    let build = move || {
        let mut ground = floor(nodes);
        ground.extend(full(nodes, &in_queue(None)));
        let gang = |at: u32| {
            let shape = large::near(&gpu_shape(each), large::RACK_KEY, &at.to_string());
            gangs(at, 1, size, &shape, None)
        };
        let mut work: Vec<PodFacts> = (0..count).flat_map(gang).collect();
        work.iter_mut().for_each(|pod| pod.priority = 100);
        let leave = u64::from(count * size) * each as u64;
        Scene { ground, work, gangs: count, outcome: Outcome::Evicted(leave) }
    };
    let build = Box::new(build);
    Case { family: "preempt-near", nodes, pending: None, flow: Flow::Burst, build, target: None }
}
