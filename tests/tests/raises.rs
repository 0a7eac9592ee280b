//! Limits and quotas that `explain` says to raise where somebody would leave: the least that does.
//!
//! Each test takes what the engine offers, does exactly that to the facts, and a little less.

use capstan_core::explain::view::{Change, Remedy};
use capstan_core::model::input::{Input, PodFacts, PreemptReclaim, PreemptWithin, Quota};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, local_queue, namespace, node,
    nominal, pod, shape,
};
use capstan_tests::play::Stage;

/// A queue in cohort `all` whose work of higher priority stops others of its own, and what is
/// borrowed of what it owns.
fn queue(name: &str, resource: &str, quota: Quota) -> Input {
    let groups = group(&[(DEFAULT, &[(resource, quota)])]);
    let mut facts = cluster_queue(name, Some("all"), groups);
    facts.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    facts.preemption.reclaim = PreemptReclaim::Any;
    Input::ClusterQueue(facts)
}

/// A pod of a queue that asks this, of this priority.
fn work(queue: &str, name: &str, asks: (&str, i64), priority: i32) -> Input {
    let facts = pod(name, &shape(&[asks]), &in_queue(Some(queue)));
    Input::Pod(PodFacts { priority, ..facts })
}

/// What runs in these queues on a node of 64 GPUs and 40 cores, and what waits then.
fn stage<const Q: usize, const R: usize>(
    queues: [(&str, &str, Quota); Q],
    runs: [Input; R],
    waits: Input,
) -> Stage {
    let mut stage = Stage::new(Time(3_600_000));
    let node = node("n", &[(GPU, 64), ("cpu", 40_000)]);
    stage.add([namespace(), Input::Node(node.into()), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add(queues.map(|(name, ..)| Input::LocalQueue(local_queue(name))));
    stage.add(queues.map(|(name, resource, quota)| queue(name, resource, quota)));
    stage.add(runs);
    stage.settle(|_| {});
    stage.add([waits]);
    stage.settle(|_| {});
    stage
}

fn starts(stage: &Stage) -> bool {
    let views = stage.engine.workloads();
    let big = views.iter().find(|view| &*view.name == "big").expect("it exists");
    big.state == State::Running
}

fn remedies(stage: &mut Stage) -> Vec<Remedy> {
    let found = stage.engine.explain_workload(stage.now, TEAM, "big").expect("it exists");
    stage.engine.recount();
    found.remedies
}

#[test]
fn a_limit_is_raised_by_no_more_than_its_victims_leave_short() {
    // Three are left once `low` has gone, and one more can be borrowed.
    let limited = |most| {
        let q = Quota { nominal: 4, borrowing: Some(most), lending: None };
        let runs = [work("q", "high", (GPU, 1), 9), work("q", "low", (GPU, 2), 0)];
        let queues = [("q", GPU, q), ("lender", GPU, nominal(2))];
        stage(queues, runs, work("q", "big", (GPU, 4), 5))
    };
    let found = remedies(&mut limited(0));
    let is_limit = |remedy: &&Remedy| matches!(remedy.change, Change::RaiseLimit { .. });
    let raise = found.iter().find(is_limit).unwrap_or_else(|| panic!("{found:#?}"));
    let words = "raise borrowingLimit of q by 1 GPU (flavor default)";
    assert_eq!((&*raise.change.to_string(), &*raise.preempts), (words, &["team/low".into()][..]));
    assert!(!starts(&limited(0)) && starts(&limited(1)));
}

#[test]
fn quota_is_raised_by_no_more_than_its_victims_leave_short() {
    // All who run must leave for room on the node, which nobody does for one that borrows.
    let owning = |milli| {
        let guest = work("guest", "guest", ("cpu", 16_000), 0);
        let runs = [guest, work("q", "low", ("cpu", 6_000), 0)];
        let [q, guest, lender] = [milli, 0, 20_000].map(nominal);
        let queues = [("q", "cpu", q), ("guest", "cpu", guest), ("lender", "cpu", lender)];
        stage(queues, runs, work("q", "big", ("cpu", 30_000), 5))
    };
    let found = remedies(&mut owning(4_000));
    let is_quota = |remedy: &&Remedy| matches!(remedy.change, Change::RaiseQuota { .. });
    let raise = found.iter().find(is_quota).unwrap_or_else(|| panic!("{found:#?}"));
    let words = "raise nominalQuota of q by 26 cpu (flavor default)";
    assert_eq!((&*raise.change.to_string(), raise.preempts.len()), (words, 2), "{raise:?}");
    assert!(!starts(&owning(29_999)) && starts(&owning(30_000)));
}
