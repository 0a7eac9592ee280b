//! Memory per pod: resident memory before and after 150,000 pods on 15,000 nodes.
//!
//! Pods are fed in small batches, so that building the facts leaves nothing behind; gangs of ten
//! fill the nodes' CPU, in a hundred queues. Measured once while they wait and once when all are
//! bound, effects taken away by the caller. Resident memory is read from `/proc`; elsewhere the
//! line says so.

use capstan_core::Engine;
use capstan_core::model::input::Input;
use capstan_tests::facts::shape;
use capstan_tests::large::{floor, gangs, queue_name, queues};
use serde_json::{Value, json};

use crate::measure::{NOW, decide, patient};

const NODES: u32 = 15_000;
const PODS: u32 = 150_000;
const GANG: u32 = 10;
const QUEUES: u32 = 100;
/// Gangs fed in one step.
const BATCH: u32 = 100;
/// Bytes of a page where the kernel counts in pages, as on every machine that runs this.
const PAGE: u64 = 4_096;

/// The line of this case.
pub fn line() -> Value {
    let Some(before) = resident() else {
        return json!({"case": "memory", "unsupported": "no /proc/self/statm"});
    };
    let mut engine = Engine::new();
    let ground = [patient()].into_iter().chain(queues(QUEUES, 20_000)).chain(floor(NODES));
    engine.step(NOW, ground.collect());
    let empty = resident().unwrap_or(before);
    let shape = shape(&[("cpu", 9_000), ("memory", 1 << 34)]);
    for first in (0..PODS / GANG).step_by(BATCH as usize) {
        let queue = queue_name(first / BATCH % QUEUES);
        let batch = gangs(first, BATCH, GANG, &shape, Some(&queue)).into_iter().map(Input::Pod);
        engine.step(NOW, batch.collect());
    }
    let waiting = resident().unwrap_or(before);
    let outputs = decide(&mut engine);
    let bound: u64 = outputs.iter().map(|output| output.report.counts.bound).sum();
    drop(outputs);
    assert_eq!(bound, u64::from(PODS), "all pods fit");
    let running = resident().unwrap_or(before);
    json!({
        "case": "memory",
        "nodes": NODES,
        "pods": PODS,
        "bytes_per_node": empty.saturating_sub(before) / u64::from(NODES),
        "bytes_per_pod_waiting": waiting.saturating_sub(empty) / u64::from(PODS),
        "bytes_per_pod_bound": running.saturating_sub(empty) / u64::from(PODS),
        "resident_mib": running >> 20,
    })
}

/// Resident memory of this process in bytes.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}
