//! Limits and quotas that `explain` says to raise where somebody would leave: the least that does.
//!
//! Each test takes what the engine offers, does exactly that to the facts, and a little less.

use capstan_core::explain::view::{Change, Remedy};
use capstan_core::model::input::{Input, PodFacts, PreemptReclaim, PreemptWithin, Quota};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, cluster_queue, flavor, group, in_queue, labels, local_queue, namespace,
    node, nominal, pod, shape,
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

/// What a queue owns of a flavor of each kind: of cores (in thousandths), or of GPUs.
type Owned = [(&'static str, i64); 2];

/// `big` asks four cores and four GPUs, each the quota of a group of flavors, of two nodes of which
/// one is of the flavors amd and a100, and the other of intel and h100.
fn in_two_groups(cpus: Owned, gpus: Owned, runs: Option<Input>) -> Stage {
    let kinds = [("n1", "amd", "a100"), ("n2", "intel", "h100")];
    let mut stage = Stage::new(Time(3_600_000));
    stage.add([namespace()]);
    for (name, cpu, gpu) in kinds {
        let mut facts = node(name, &[(GPU, 8), ("cpu", 16_000)]);
        facts.labels.extend(labels(&[("cpu", cpu), ("gpu", gpu)]));
        stage.add([Input::Node(facts.into())]);
        stage.add([Input::Flavor(flavor(cpu, &[("cpu", cpu)]))]);
        stage.add([Input::Flavor(flavor(gpu, &[("gpu", gpu)]))]);
    }
    let of = |resource: &'static str, [(one, first), (other, second)]: Owned| {
        let (one_has, other_has) = ([(resource, nominal(first))], [(resource, nominal(second))]);
        group(&[(one, &one_has), (other, &other_has)])
    };
    let mut facts = cluster_queue("q", None, of("cpu", cpus));
    facts.groups.push(of(GPU, gpus));
    stage.add([Input::LocalQueue(local_queue("q")), Input::ClusterQueue(facts)]);
    stage.add(runs);
    stage.settle(|_| {});
    let asks = shape(&[("cpu", 4_000), (GPU, 4)]);
    stage.add([Input::Pod(pod("big", &asks, &in_queue(Some("q"))))]);
    stage.settle(|_| {});
    stage
}

/// The first remedy in words.
fn first(stage: &mut Stage) -> Option<String> {
    remedies(stage).first().map(|remedy| remedy.change.to_string())
}

#[test]
fn quotas_of_several_groups_are_raised_that_have_nodes_in_common() {
    // Both are short of both, and the first of one group has no node with the first of the other.
    let waits = |cpus, gpus| in_two_groups(cpus, gpus, None);
    let (cpus, gpus) = ([("amd", 2_000), ("intel", 2_000)], [("h100", 2), ("a100", 2)]);
    let words = "raise nominalQuota of q by 2 GPUs (flavor a100) and by 2 cpu (flavor amd)";
    assert_eq!(first(&mut waits(cpus, gpus)).as_deref(), Some(words));
    for (milli, count, enough) in [(4_000, 4, true), (3_999, 4, false), (4_000, 3, false)] {
        let (cpus, gpus) = ([("amd", milli), cpus[1]], [gpus[0], ("a100", count)]);
        assert_eq!(starts(&waits(cpus, gpus)), enough, "with {milli} and {count}");
    }
}

#[test]
fn quotas_of_several_groups_are_raised_where_there_is_room() {
    // The first node is full of what the queue runs.
    let waits = |cpus, gpus| {
        let asks = shape(&[("cpu", 16_000), (GPU, 8)]);
        let runs = Input::Pod(pod("runs", &asks, &in_queue(Some("q"))));
        in_two_groups(cpus, gpus, Some(runs))
    };
    let (cpus, gpus) = ([("amd", 16_000), ("intel", 2_000)], [("a100", 8), ("h100", 2)]);
    let words = "raise nominalQuota of q by 2 GPUs (flavor h100) and by 2 cpu (flavor intel)";
    assert_eq!(first(&mut waits(cpus, gpus)).as_deref(), Some(words));
    for (milli, count, enough) in [(4_000, 4, true), (3_999, 4, false), (4_000, 3, false)] {
        let (cpus, gpus) = ([cpus[0], ("intel", milli)], [gpus[0], ("h100", count)]);
        assert_eq!(starts(&waits(cpus, gpus)), enough, "with {milli} and {count}");
    }
}
