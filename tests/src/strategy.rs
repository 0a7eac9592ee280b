//! proptest strategies: small clusters with little room, so that everything collides.
//!
//! Sizes are kept so small that a failure can be read: at most 5 nodes, 4 queues, 8 workloads.

use std::sync::Arc;

use capstan_core::model::input::{
    BorrowThreshold, HostPort, Input, PodFacts, PodShape, PreemptReclaim, PreemptWithin,
    QueueingStrategy, Quota,
};
use capstan_core::time::Time;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::facts::{
    DEFAULT, GPU, cluster_queue, cohort, flavor, gang, group, in_queue, job, labels, local_queue,
    namespace, node, nominal, shape, text,
};

/// Queues that exist in a generated cluster.
const QUEUES: [&str; 4] = ["q0", "q1", "q2", "q3"];
/// Cohorts: two below a root, or none at all.
const COHORTS: [Option<&str>; 3] = [Some("left"), Some("right"), None];

/// A whole cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Nodes, flavors, queues: what is there before work arrives.
    pub ground: Vec<Input>,
    /// Work, one entry for each workload.
    pub work: Vec<Vec<Input>>,
}

impl Cluster {
    /// All facts in one list.
    pub fn facts(&self) -> Vec<Input> {
        self.ground.iter().cloned().chain(self.work.iter().flatten().cloned()).collect()
    }
}

/// A cluster with queues in cohorts, flavors with limits, preemption of all kinds, and gangs,
/// lone pods and Jobs, some without a queue.
pub fn cluster() -> impl Strategy<Value = Cluster> {
    let two_flavors = any::<bool>();
    (two_flavors, nodes(), vec(queue(), QUEUES.len()), vec(workload(), 1..8)).prop_map(
        |(two_flavors, mut ground, queues, work)| {
            ground.extend(flavors(two_flavors));
            ground.push(namespace());
            for (name, seed) in QUEUES.iter().zip(queues) {
                ground.push(Input::ClusterQueue(seed.facts(name, two_flavors)));
                ground.push(Input::LocalQueue(local_queue(name)));
            }
            let tree = [cohort("left", Some("root")), cohort("right", Some("root"))];
            ground.extend(tree.into_iter().map(Input::Cohort));
            let work = work.into_iter().enumerate().map(|(at, seed)| seed.facts(at, true));
            Cluster { ground, work: work.collect() }
        },
    )
}

/// Nodes alone and one gang: nothing else competes.
pub fn lone_gang() -> impl Strategy<Value = Cluster> {
    (nodes(), workload())
        .prop_map(|(ground, seed)| Cluster { ground, work: vec![seed.facts(0, false)] })
}

/// Nodes, one queue without a cohort, and one gang in it.
pub fn lone_queued_gang() -> impl Strategy<Value = Cluster> {
    (nodes(), workload(), quota()).prop_map(|(mut ground, mut seed, quota)| {
        (seed.queue, seed.port) = (0, false);
        let quota = Quota { borrowing: None, lending: None, ..quota };
        let quotas = [(GPU, quota), ("cpu", quota)];
        ground.extend([namespace(), Input::Flavor(flavor(DEFAULT, &[]))]);
        let queue = cluster_queue(QUEUES[0], None, group(&[(DEFAULT, &quotas)]));
        ground.extend([Input::ClusterQueue(queue), Input::LocalQueue(local_queue(QUEUES[0]))]);
        Cluster { ground, work: vec![seed.facts(0, true)] }
    })
}

/// One to five nodes of up to 4 GPUs in two racks; half of them are of flavor `first`.
pub fn nodes() -> impl Strategy<Value = Vec<Input>> {
    let one = (0..=4_i64, 0..2_usize, any::<bool>());
    vec(one, 1..=5).prop_map(|seeds| {
        let make = |(at, (gpus, rack, first)): (usize, (i64, usize, bool))| {
            let name = format!("n{at}");
            let mut facts = node(&name, &[("cpu", 8), (GPU, gpus)]);
            let kind = if first { "first" } else { "second" };
            facts.labels.extend(labels(&[("rack", ["r0", "r1"][rack]), ("kind", kind)]));
            Input::Node(facts.into())
        };
        seeds.into_iter().enumerate().map(make).collect()
    })
}

fn flavors(two: bool) -> Vec<Input> {
    let list = if two {
        vec![flavor("first", &[("kind", "first")]), flavor("second", &[("kind", "second")])]
    } else {
        vec![flavor(DEFAULT, &[])]
    };
    list.into_iter().map(Input::Flavor).collect()
}

#[derive(Clone, Debug)]
struct QueueSeed {
    cohort: usize,
    quotas: [Quota; 2],
    cpu: i64,
    strict: bool,
    within: usize,
    reclaim: usize,
    while_borrowing: Option<Option<i32>>,
    next_when: [bool; 2],
}

impl QueueSeed {
    fn facts(&self, name: &str, two: bool) -> capstan_core::model::input::ClusterQueueFacts {
        let cohort = COHORTS[self.cohort];
        let limited = |at: usize| match cohort {
            Some(_) => self.quotas[at],
            None => Quota { borrowing: None, lending: None, ..self.quotas[at] },
        };
        let cpu = ("cpu", nominal(self.cpu));
        let (first, second) = ([(GPU, limited(0)), cpu], [(GPU, limited(1)), cpu]);
        let groups = match two {
            true => group(&[("first", &first), ("second", &second)]),
            false => group(&[(DEFAULT, &first)]),
        };
        let mut facts = cluster_queue(name, cohort, groups);
        if self.strict {
            facts.strategy = QueueingStrategy::StrictFifo;
        }
        facts.preemption.within_cluster_queue =
            [PreemptWithin::Never, PreemptWithin::LowerPriority, PreemptWithin::LowerOrNewerEqual]
                [self.within];
        facts.preemption.reclaim =
            [PreemptReclaim::Never, PreemptReclaim::LowerPriority, PreemptReclaim::Any]
                [self.reclaim];
        if facts.preemption.reclaim != PreemptReclaim::Never {
            let threshold = |max_priority| BorrowThreshold { max_priority };
            facts.preemption.while_borrowing = self.while_borrowing.map(threshold);
        }
        facts.fungibility.next_when_borrowing = self.next_when[0];
        facts.fungibility.next_when_preempting = self.next_when[1];
        facts
    }
}

fn queue() -> impl Strategy<Value = QueueSeed> {
    let shape = (0..COHORTS.len(), [quota(), quota()], 2..20_i64, any::<bool>());
    let policy = (0..3_usize, 0..3_usize, option::of(option::of(0..3_i32)));
    (shape, policy, any::<[bool; 2]>()).prop_map(
        |((cohort, quotas, cpu, strict), (within, reclaim, while_borrowing), next_when)| {
            QueueSeed { cohort, quotas, cpu, strict, within, reclaim, while_borrowing, next_when }
        },
    )
}

fn quota() -> impl Strategy<Value = Quota> {
    (0..6_i64, option::of(0..4_i64), option::of(0..6_i64)).prop_map(
        |(nominal, borrowing, lending)| Quota {
            nominal,
            borrowing,
            lending: lending.map(|l| l.min(nominal)),
        },
    )
}

#[derive(Clone, Debug)]
struct WorkSeed {
    kind: usize,
    pods: u32,
    gpus: i64,
    cpu: i64,
    /// Every other pod asks one CPU more.
    mixed: bool,
    /// All pods ask for the same port of their node.
    port: bool,
    min: Option<u32>,
    priority: i32,
    created: i64,
    queue: usize,
    /// Topology: none, preferred or required.
    rack: usize,
}

impl WorkSeed {
    fn facts(&self, at: usize, queues: bool) -> Vec<Input> {
        let name = format!("w{at}");
        let shape = self.shape(0);
        let queue = QUEUES.get(self.queue).copied().filter(|_| queues);
        let mut wishes = in_queue(queue);
        let topology = &mut Arc::make_mut(&mut wishes).topology;
        match self.rack {
            0 => {}
            1 => topology.preferred = Some(text("rack")),
            _ => topology.required = Some(text("rack")),
        }
        let dress = |mut pod: PodFacts| {
            pod.priority = self.priority;
            pod.created = Time(self.created);
            Input::Pod(pod)
        };
        // A Job without a queue that is suspended is nobody's: only queued ones are made.
        if self.kind == 0 && queue.is_some() {
            let mut facts = job(&name, self.pods, &shape, &wishes);
            facts.priority = self.priority;
            facts.created = Time(self.created);
            return vec![Input::Owner(facts)];
        }
        let pods = if self.kind == 1 { 1 } else { self.pods };
        let min = self.min.map(|min| min.min(pods));
        let mut members = gang(&name, pods, min, &shape, &wishes);
        if self.mixed {
            members.iter_mut().step_by(2).for_each(|pod| pod.shape = self.shape(1));
        }
        members.into_iter().map(dress).collect()
    }

    fn shape(&self, more: i64) -> Arc<PodShape> {
        let mut shape = shape(&[(GPU, self.gpus), ("cpu", self.cpu + more)]);
        if self.port {
            let port = HostPort { port: 80, protocol: text("TCP"), ip: text("0.0.0.0") };
            Arc::make_mut(&mut shape).ports.push(port);
        }
        shape
    }
}

fn workload() -> impl Strategy<Value = WorkSeed> {
    let size = (0..4_usize, 1..=5_u32, 0..=3_i64, option::of(1..=5_u32));
    // One queue index more than there are: work without a queue.
    let rank = (0..4_i32, 0..3_i64, 0..=QUEUES.len(), 0..3_usize);
    let kind = (0..3_i64, any::<bool>(), 0..8_usize);
    (size, rank, kind).prop_map(
        |((kind, pods, gpus, min), (priority, created, queue, rack), (cpu, mixed, port))| {
            let created = created * 1_000;
            let port = port == 0;
            WorkSeed { kind, pods, gpus, cpu, mixed, port, min, priority, created, queue, rack }
        },
    )
}
