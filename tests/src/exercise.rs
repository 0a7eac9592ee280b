//! The founding exercise as manifests: four jobs fill the quota of two teams, a more important
//! one takes the place of one of them. Tests and the playground play it.

use crate::cluster::RUNS_FOR;

/// Four spot nodes with a GPU each.
pub const NODES: &str = include_str!("../exercise/nodes.yaml");
/// Namespaces, priorities, and the queues as objects of `capstan.sh`.
pub const QUEUES: &str = include_str!("../exercise/queues.yaml");
/// The same, the queues as objects of Kueue.
pub const QUEUES_OF_KUEUE: &str = include_str!("../exercise/queues-kueue.yaml");
/// Kueue's kinds, without schemas.
pub const KINDS_OF_KUEUE: &str = include_str!("../exercise/kueue-crds.yaml");
/// Pods of kube-scheduler, and a node for them.
pub const NEIGHBOURS: &str = include_str!("../exercise/neighbours.yaml");
/// A job that goes on.
pub const TRAIN: &str = include_str!("../exercise/train.yaml");
/// One that waits for it.
pub const SWEEP: &str = include_str!("../exercise/sweep.yaml");

/// The four low jobs, whose pods run until somebody ends them.
pub const LOW: &str = include_str!("../exercise/jobs-low.yaml");
/// The high job, whose pod does.
pub const HIGH: &str = include_str!("../exercise/job-high.yaml");

/// The four low jobs, each of whose pods runs for that long, as a Go duration.
pub fn low_jobs(run_for: &str) -> String {
    ending(LOW, run_for)
}

/// The high job, whose pod runs for that long.
pub fn high_job(run_for: &str) -> String {
    ending(HIGH, run_for)
}

/// Fake nodes run no `sleep`: how long it takes is said to them by an annotation.
fn ending(jobs: &str, run_for: &str) -> String {
    let (bare, begins) = ("  template:\n    spec:", "    spec:");
    assert!(jobs.contains(bare), "the annotation has its place");
    let annotated =
        format!("  template:\n    metadata: {{annotations: {{{RUNS_FOR}: {run_for}}}}}\n{begins}");
    jobs.replace(bare, &annotated)
}
