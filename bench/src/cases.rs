//! The cases: which cluster, which pending work, and what must come out.
//!
//! Everything is seeded, so two runs of one build decide the same; the expected numbers of bound
//! pods are exact and checked at every repeat.

mod preempting;

use std::sync::Arc;

use capstan_core::model::input::{
    Input, PodFacts, PodPhase, PodShape, PreemptReclaim, PreemptWithin, Quota, Wishes,
};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, node, pod, shape,
};
use capstan_tests::large::{
    self, Around, GPUS, floor, floor_name, gangs, gpu_shape, held, singles,
};

/// One benchmark.
pub struct Case {
    /// What it shows.
    pub family: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// Pods that wait, where that varies within the family.
    pub pending: Option<u32>,
    /// What is timed.
    pub flow: Flow,
    /// Makes its cluster and its work.
    pub build: Box<dyn Fn() -> Scene>,
    /// An absolute figure to reach.
    pub target: Option<Target>,
}

/// What is timed with a scene.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The work arrives in one batch, and all of it is decided.
    Burst,
    /// A new engine is fed the work as it runs already.
    Restart,
    /// The API shows that everything decided was done: outcomes, and the pods as bound.
    Echo,
    /// On a full cluster one gang ends and one arrives, again and again, a step each.
    Churn,
    /// All of it waits, and a step brings nothing new.
    Idle,
    /// All of it waits, and what runs ends, one by one, until a step is quiet each time.
    Ends,
    /// It arrives, runs and ends in virtual time.
    Lifetimes(Lifetimes),
}

/// Work of three sizes, as Kueue's performance runs have it: for each queue so many, one every so
/// many milliseconds, of so many CPUs and this priority, which run for so many milliseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Queues; those of a cohort stand together.
    pub queues: u32,
    /// Queues of a cohort.
    pub together: u32,
    /// The sizes.
    pub sizes: [Size; 3],
}

/// Work of one size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// In each queue.
    pub count: u32,
    /// Milliseconds between two.
    pub every: i64,
    /// Milliseconds that one runs.
    pub runs: i64,
    /// Priority.
    pub priority: i32,
    /// CPUs that one asks.
    pub cpus: i64,
}

/// A run that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it began, in milliseconds.
    pub from: i64,
    /// When it was stopped.
    pub to: i64,
    /// CPUs that it had.
    pub cpus: i64,
}

impl Run {
    /// CPUs times milliseconds that it had from a moment on.
    fn after(&self, moment: i64) -> i64 {
        (self.to - self.from.max(moment)).max(0) * self.cpus
    }
}

/// Own quota of a queue, in CPUs.
const OWN: i64 = 20;

impl Lifetimes {
    /// How long a pod runs.
    pub fn runs(&self, pod: &PodFacts) -> i64 {
        self.size(pod).runs
    }

    /// The least time that all can take, in milliseconds, beside runs that were stopped and began
    /// anew: from any moment on, what arrives then or later, and what ran in vain, take their time
    /// on a cohort's quota, and the last arrival takes its own.
    pub fn least(&self, in_vain: &[Run]) -> i64 {
        let from = |moment: i64| {
            let later = |size: &Size| {
                let before = (moment - 1) / size.every;
                (i64::from(size.count) - before).max(0) * size.runs * size.cpus
            };
            let lost: i64 = in_vain.iter().map(|run| run.after(moment)).sum();
            let work = self.sizes.iter().map(later).sum::<i64>();
            moment + (work + lost / i64::from(self.queues)) / OWN
        };
        let arrivals = |size: &Size| {
            let every = size.every;
            (1..=i64::from(size.count)).map(move |number| number * every)
        };
        let by_quota = self.sizes.iter().flat_map(arrivals).map(from).max();
        let last = |size: &Size| i64::from(size.count) * size.every + size.runs;
        by_quota.max(self.sizes.iter().map(last).max()).unwrap_or(0)
    }

    /// CPUs that a pod asks.
    pub fn cpus(&self, pod: &PodFacts) -> i64 {
        self.size(pod).cpus
    }

    fn size(&self, pod: &PodFacts) -> &Size {
        let cpu = pod.shape.requests.get("cpu").copied().unwrap_or(0);
        let size = self.sizes.iter().find(|size| size.cpus * 1_000 == cpu);
        size.expect("a pod of one of the sizes")
    }
}

/// A figure to reach on one thread of an ordinary machine.
#[derive(Clone, Copy)]
pub enum Target {
    /// At least this many decisions in a second, facts applied and all.
    PerSecond(f64),
    /// All of it within this time, facts applied and all.
    Milliseconds(f64),
}

/// A cluster and the work that arrives in one batch.
pub struct Scene {
    /// Fed before the clock starts.
    pub ground: Vec<Input>,
    /// Fed while it runs.
    pub work: Vec<PodFacts>,
    /// Gangs in the work.
    pub gangs: u32,
    /// What must come out.
    pub outcome: Outcome,
}

/// What a case must come to, exactly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// This many pods are bound.
    Bound(u64),
    /// Some pods are bound and some are not.
    Some,
    /// This many pods are evicted.
    Evicted(u64),
    /// No pod is bound and none evicted.
    Waits,
    /// No pod is bound, and the reason says how many members were asked for and how many fit.
    Short {
        /// Members asked for.
        asked: u32,
        /// Members that fit.
        holds: u32,
    },
}

impl Case {
    /// What `--only` selects by.
    pub fn name(&self) -> String {
        match self.pending {
            Some(pending) => format!("{}/{}-nodes/{pending}-pending", self.family, self.nodes),
            None => format!("{}/{}-nodes", self.family, self.nodes),
        }
    }
}

/// Sizes of clusters.
const NODES: [u32; 3] = [1_000, 5_000, 15_000];
/// The size that the figures of the issue are stated for.
const STATED: u32 = 5_000;
/// Pods that wait for a cluster of [`SMALL`] nodes, most of them in vain.
const PENDING: [u32; 3] = [10_000, 40_000, 100_000];
const SMALL: u32 = 1_000;
const QUEUES: u32 = 1_000;
const QUEUED: u32 = 50_000;

/// Every case, in order.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for nodes in NODES {
        cases.push(fill(nodes));
    }
    for (family, size) in [("gang-8", 8), ("gang-64", 64), ("gang-512", 512), ("gang-5000", 5_000)]
    {
        for nodes in NODES {
            cases.push(gang_fill(family, nodes, size));
        }
    }
    for (family, key, wish, size) in [
        ("spread-5000", large::HOSTS, Around::Spread, 1),
        ("apart-5000", large::HOSTS, Around::Apart, 1),
        ("anyway-5000", large::HOSTS, Around::Anyway, 1),
        ("anyway-zones-5000", large::ZONES, Around::Anyway, 1),
        ("anyway-both-5000", large::BOTH, Around::Anyway, 1),
        ("gang-apart-1000", large::HOSTS, Around::Apart, 1_000),
    ] {
        cases.extend(NODES.map(|nodes| around(family, nodes, (key, wish), size)));
    }
    for nodes in NODES {
        cases.push(one_gang(nodes));
    }
    for each in [1, GPUS] {
        cases.extend(NODES.map(|nodes| one_gpu_short(nodes, each)));
    }
    cases.push(queues());
    for pending in PENDING {
        cases.push(mostly_in_vain(pending, false));
    }
    for pending in PENDING {
        cases.push(mostly_in_vain(pending, true));
    }
    cases.push(strict_heads());
    cases.push(all_wait());
    cases.push(held_for_a_start("held-300", 300));
    cases.push(held_for_a_start("held-3000", 3_000));
    cases.push(lifetimes("kueue-baseline", BASELINE));
    cases.push(lifetimes("kueue-large-scale", LARGE_SCALE));
    cases.extend(preempting::all());
    for (family, flow) in [("restart", Flow::Restart), ("echo", Flow::Echo), ("churn", Flow::Churn)]
    {
        for nodes in NODES {
            cases.push(Case { family, flow, target: None, ..gang_fill(family, nodes, 8) });
        }
    }
    cases
}

/// Single GPUs fill a cluster to the last one.
fn fill(nodes: u32) -> Case {
    let pods = nodes * GPUS as u32;
    let build = move || Scene {
        ground: floor(nodes),
        work: singles(0, pods, &gpu_shape(1), &in_queue(None)),
        gangs: pods,
        outcome: Outcome::Bound(pods.into()),
    };
    Case {
        family: "fill-1-gpu",
        nodes,
        pending: None,
        flow: Flow::Burst,
        build: Box::new(build),
        target: None,
    }
}

/// Gangs of one size fill a cluster as far as they go.
fn gang_fill(family: &'static str, nodes: u32, size: u32) -> Case {
    let count = nodes * GPUS as u32 / size;
    let build = move || Scene {
        ground: floor(nodes),
        work: gangs(0, count, size, &gpu_shape(1), None),
        gangs: count,
        outcome: Outcome::Bound((count * size).into()),
    };
    let target = (nodes == STATED).then_some(Target::PerSecond(100_000.0));
    Case { family, nodes, pending: None, flow: Flow::Burst, build: Box::new(build), target }
}

/// Pods that keep apart, or spread, over domains: as many as there are nodes, at most 5,000.
fn around(family: &'static str, nodes: u32, wish: (large::Keys, Around), size: u32) -> Case {
    let pods = nodes.min(STATED);
    let build = move || {
        let shape = large::around(&gpu_shape(1), wish.0, wish.1);
        let work = match size {
            1 => singles(0, pods, &shape, &in_queue(None)),
            _ => gangs(0, pods / size, size, &shape, None),
        };
        let outcome = Outcome::Bound(pods.into());
        Scene { ground: floor(nodes), work, gangs: pods / size, outcome }
    };
    // The issue asks it of hosts. With zones each pod gives a thousand nodes or all another score.
    let least = if wish.0 == large::HOSTS { 20_000.0 } else { 10_000.0 };
    let target = (nodes == STATED).then_some(Target::PerSecond(least));
    Case { family, nodes, pending: None, flow: Flow::Burst, build: Box::new(build), target }
}

/// One gang of 5,000 on an empty cluster.
fn one_gang(nodes: u32) -> Case {
    let build = move || Scene {
        ground: floor(nodes),
        work: gangs(0, 1, 5_000, &gpu_shape(1), None),
        gangs: 1,
        outcome: Outcome::Bound(5_000),
    };
    let target = (nodes == STATED).then_some(Target::Milliseconds(150.0));
    Case {
        family: "one-gang-5000",
        nodes,
        pending: None,
        flow: Flow::Burst,
        build: Box::new(build),
        target,
    }
}

/// A gang of 80 GPUs where 79 are free: scattered single ones, or ten whole nodes less one GPU.
fn one_gpu_short(nodes: u32, each: i64) -> Case {
    let members = 80 / each as u32;
    let scattered = move |node: u32| match node * 79 / nodes != (node + 1) * 79 / nodes {
        true => GPUS - 1,
        false => GPUS,
    };
    let whole = move |node: u32| match node % (nodes / 10) {
        0 if node == 0 => 1,
        0 => 0,
        _ => GPUS - 1,
    };
    let build = move || Scene {
        ground: match each {
            1 => floor(nodes).into_iter().chain(held(nodes, scattered)).collect(),
            _ => floor(nodes).into_iter().chain(held(nodes, whole)).collect(),
        },
        work: gangs(0, 1, members, &gpu_shape(each), None),
        gangs: 1,
        outcome: Outcome::Short { asked: members, holds: members - 1 },
    };
    let family = if each == 1 { "one-gpu-short-80x1" } else { "one-gpu-short-10x8" };
    let target = (nodes == STATED).then_some(Target::Milliseconds(10.0));
    Case { family, nodes, pending: None, flow: Flow::Burst, build: Box::new(build), target }
}

/// Lone pods in a thousand queues of which half borrow from the others.
fn queues() -> Case {
    let nodes = QUEUED.div_ceil(GPUS as u32);
    let build = move || Scene {
        ground: large::queues(QUEUES, (QUEUED / QUEUES).into())
            .into_iter()
            .chain(floor(nodes))
            .collect(),
        work: large::queued_singles(7, QUEUES, QUEUED / QUEUES),
        gangs: QUEUED,
        outcome: Outcome::Bound(QUEUED.into()),
    };
    let target = Some(Target::PerSecond(50_000.0));
    Case {
        family: "queues-1000",
        nodes,
        pending: None,
        flow: Flow::Burst,
        build: Box::new(build),
        target,
    }
}

/// 50,000 pods in a thousand queues on a full cluster.
fn all_wait() -> Case {
    let build = move || Scene {
        ground: large::queues(QUEUES, (QUEUED / QUEUES).into())
            .into_iter()
            .chain(floor(SMALL))
            .chain(held(SMALL, |_| GPUS))
            .collect(),
        work: large::queued_singles(7, QUEUES, QUEUED / QUEUES),
        gangs: QUEUED,
        outcome: Outcome::Waits,
    };
    Case {
        family: "idle-50000",
        nodes: SMALL,
        pending: None,
        flow: Flow::Idle,
        build: Box::new(build),
        target: Some(Target::Milliseconds(1.0)),
    }
}

/// Lone pods of so many shapes, which say not how long they run, on a cluster that is half full and
/// that a gang waits for, whose start is reserved: when the last of those that run has ended.
fn held_for_a_start(family: &'static str, shapes: i64) -> Case {
    const NODES: u32 = 400;
    const RUNNING: i64 = 1_900;
    let runs_for = |seconds| {
        let expected_runtime = Some(Span::seconds(seconds));
        Arc::new(Wishes { expected_runtime, ..Wishes::default() })
    };
    let build = move || {
        let running = (0..RUNNING).map(|at| {
            let name = format!("runs-{at:04}");
            let mut pod = pod(&name, &gpu_shape(1), &runs_for(36_000 + at));
            pod.node = Some(floor_name((at % i64::from(NODES)) as u32));
            (pod.phase, pod.bound_at) = (PodPhase::Running, Some(Time(0)));
            Input::Pod(pod)
        });
        let mut work = gangs(0, 1, NODES, &gpu_shape(GPUS), None);
        work.iter_mut().for_each(|pod| pod.wishes = runs_for(600));
        for at in 0..shapes {
            let shape = shape(&[("cpu", 1_000), ("memory", (1 << 30) + at), (GPU, 1)]);
            let mut held = pod(&format!("held-{at:04}"), &shape, &in_queue(None));
            held.created = Time(1 + at);
            work.push(held);
        }
        let gangs = 1 + shapes as u32;
        let ground = floor(NODES).into_iter().chain(running).collect();
        Scene { ground, work, gangs, outcome: Outcome::Waits }
    };
    let (build, flow) = (Box::new(build), Flow::Ends);
    Case { family, nodes: NODES, pending: None, flow, build, target: None }
}

/// `test/performance/scheduler/configs/baseline` of Kueue: 15,000 workloads.
const BASELINE: Lifetimes = Lifetimes {
    queues: 30,
    together: 6,
    sizes: [
        Size { count: 350, every: 100, runs: 200, priority: 50, cpus: 1 },
        Size { count: 100, every: 500, runs: 500, priority: 100, cpus: 5 },
        Size { count: 50, every: 1_200, runs: 1_000, priority: 200, cpus: 20 },
    ],
};

/// `test/performance/scheduler/configs/large-scale` of Kueue: 50,000 workloads.
const LARGE_SCALE: Lifetimes = Lifetimes {
    queues: 1_000,
    together: 100,
    sizes: [
        Size { count: 35, every: 60, runs: 150, priority: 50, cpus: 1 },
        Size { count: 11, every: 300, runs: 350, priority: 100, cpus: 5 },
        Size { count: 4, every: 700, runs: 700, priority: 200, cpus: 20 },
    ],
};

/// What Kueue measures itself with.
fn lifetimes(family: &'static str, shapes: Lifetimes) -> Case {
    /// CPUs of a node; of these nodes there are enough that quota alone decides.
    const CPUS: i64 = 200;
    let nodes = shapes.queues * (2 * OWN) as u32 / CPUS as u32;
    let build = move || {
        let mut ground = vec![Input::Flavor(flavor(DEFAULT, &[])), namespace()];
        let quota = Quota { nominal: OWN * 1_000, borrowing: Some(100_000), lending: None };
        for at in 0..nodes {
            let name = format!("node-{at:04}");
            ground.push(Input::Node(node(&name, &[("cpu", CPUS * 1_000), ("pods", CPUS)]).into()));
        }
        let mut work = Vec::new();
        for at in 0..shapes.queues {
            let name = large::queue_name(at);
            let cohort = format!("cohort-{}", at / shapes.together);
            let group = group(&[(DEFAULT, &[("cpu", quota)])]);
            let mut queue = cluster_queue(&name, Some(&cohort), group);
            queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
            queue.preemption.reclaim = PreemptReclaim::Any;
            ground.push(Input::ClusterQueue(queue));
            ground.push(Input::LocalQueue(local_queue(&name)));
            for size in &shapes.sizes {
                let shape = shape(&[("cpu", size.cpus * 1_000)]);
                let first = work.len() as u32;
                let mut pods = singles(first, size.count, &shape, &in_queue(Some(&name)));
                for (number, pod) in (1..).zip(&mut pods) {
                    pod.created = Time(number * size.every);
                    pod.priority = size.priority;
                }
                work.extend(pods);
            }
        }
        let gangs = work.len() as u32;
        Scene { ground, work, gangs, outcome: Outcome::Some }
    };
    let target = Some(Target::PerSecond(50_000.0));
    let flow = Flow::Lifetimes(shapes);
    Case { family, nodes, pending: None, flow, build: Box::new(build), target }
}

/// Shapes of mixed work: four sizes with four shares of CPU each.
fn mixed_shapes() -> Vec<Arc<PodShape>> {
    let sizes = [1_i64, 2, 4, 8];
    let mixed = sizes.iter().flat_map(|gpus| (8..12_i64).map(move |share| (gpus, share)));
    let shape = |(gpus, share): (&i64, i64)| {
        shape(&[("cpu", 1_000 * share * gpus), ("memory", gpus << 36), ("nvidia.com/gpu", *gpus)])
    };
    mixed.map(shape).collect()
}

/// Gangs of four in sixteen shapes, far more than fit, without queues or in a hundred of them.
fn mostly_in_vain(pending: u32, queued: bool) -> Case {
    let build = move || {
        let shapes = mixed_shapes();
        let mut work = Vec::new();
        for at in 0..pending / 4 {
            let shape = &shapes[at as usize % shapes.len()];
            let queue = queued.then(|| large::queue_name(at / 16 % 100));
            work.extend(gangs(at, 1, 4, shape, queue.as_deref()));
        }
        let mut ground = floor(SMALL);
        if queued {
            ground.extend(large::queues(100, i64::from(SMALL) * GPUS / 100));
        }
        Scene { ground, work, gangs: pending / 4, outcome: Outcome::Some }
    };
    let family = if queued { "pending-queued" } else { "pending" };
    let pending = Some(pending);
    Case { family, nodes: SMALL, pending, flow: Flow::Burst, build: Box::new(build), target: None }
}

/// A hundred strict queues whose first gang fits nowhere, beside one queue that goes on.
fn strict_heads() -> Case {
    let build = || {
        let (heads, singles) = (100, 1_000);
        let mut ground = floor(SMALL);
        ground.extend(held(SMALL, |_| 1));
        for fact in large::queues(heads + 1, i64::from(SMALL) * GPUS) {
            ground.push(match fact {
                Input::ClusterQueue(mut queue) => {
                    queue.strategy = capstan_core::model::input::QueueingStrategy::StrictFifo;
                    Input::ClusterQueue(queue)
                }
                other => other,
            });
        }
        let mut work = Vec::new();
        for at in 0..heads {
            let queue = large::queue_name(at);
            work.extend(gangs(at, 1, 4, &gpu_shape(8), Some(&queue)));
        }
        let wishes = in_queue(Some(&large::queue_name(heads)));
        work.extend(large::singles(0, singles, &gpu_shape(1), &wishes));
        Scene { ground, work, gangs: heads + singles, outcome: Outcome::Bound(singles.into()) }
    };
    let family = "strict-heads-100";
    Case {
        family,
        nodes: SMALL,
        pending: None,
        flow: Flow::Burst,
        build: Box::new(build),
        target: None,
    }
}
