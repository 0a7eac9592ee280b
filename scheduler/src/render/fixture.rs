//! A small cluster after a simulation, for the tests of what it looks like.

use std::time::Duration;

use capstan_core::explain::reason::{
    FlavorProblem, FlavorRefusal, Nearest, NoVictims, NodeRefusal, NodeShortage, Reason,
};
use capstan_core::explain::view::{
    Assumptions, Binding, Change, Forecast, Holder, Limit, NodeVerdict, NodeView, Obstacle,
    PodPlace, PodSetView, Position, QueueView, QuotaView, Remedy, ScoreView, TermView,
    WorkloadExplanation, WorkloadView,
};
use capstan_core::model::input::{CapacityType, Price, PriceSource, Text};
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Freed, Preemption, PreemptionReason, State};
use capstan_core::time::{Span, Time};

use super::result::SimulationResult;

/// 2026-08-01 14:00 UTC.
pub const NOW: Time = Time(1_785_592_800_000);

pub fn gpu() -> Text {
    "nvidia.com/gpu".into()
}

/// A running gang of three pods with eight GPUs each, without a queue.
pub fn workload(namespace: &str, name: &str) -> WorkloadView {
    WorkloadView {
        namespace: namespace.into(),
        name: name.into(),
        local_queue: None,
        cluster_queue: None,
        priority: 0,
        state: State::Queued,
        found_running: false,
        stays: None,
        preempted: None,
        pod_sets: vec![PodSetView {
            name: "main".into(),
            count: 3,
            placed: 0,
            requests: [(gpu(), 8), ("cpu".into(), 32_000)].into(),
            flavors: Default::default(),
        }],
        pods: (0..3)
            .map(|at| PodPlace { pod: format!("{name}-{at}").into(), node: None })
            .collect(),
        min_member: 3,
        borrowed: false,
        per_hour: None,
        unpriced: 0,
        reserved: None,
        unreserved: None,
        reason: None,
        uncharged: None,
        created: Time(NOW.0 - 720_000),
        waits_since: Time(NOW.0 - 720_000),
        admitted_at: None,
        gpus: 24,
    }
}

/// The same in a queue, with `count` pods of `gpus` each.
fn queued(namespace: &str, name: &str, queue: &str, count: u32, gpus: i64) -> WorkloadView {
    let mut view = workload(namespace, name);
    view.local_queue = Some("main".into());
    view.cluster_queue = Some(queue.into());
    view.pod_sets[0].count = count;
    view.pod_sets[0].requests = [(gpu(), gpus)].into();
    view.pods =
        (0..count).map(|at| PodPlace { pod: format!("{name}-{at}").into(), node: None }).collect();
    (view.min_member, view.gpus) = (count, gpus * i64::from(count));
    view
}

fn placed(mut view: WorkloadView, state: State, flavor: &str, nodes: &[&str]) -> WorkloadView {
    view.state = state;
    view.pod_sets[0].flavors = [(gpu(), flavor.into())].into();
    for (place, node) in view.pods.iter_mut().zip(nodes) {
        place.node = Some((*node).into());
    }
    view.admitted_at = Some(NOW);
    view
}

pub fn preemption() -> Preemption {
    Preemption {
        victim: "vision/sweep-7".into(),
        preemptor: "language/eval".into(),
        reason: PreemptionReason::InCohortReclamation,
        victim_priority: 100,
        preemptor_priority: 1000,
        frees: vec![Freed { resource: gpu(), amount: 8, borrowed: 8 }],
        lost: Span::minutes(12),
        lost_cost: Some(MicroUsd(2_400_000)),
        cohort: Some("research".into()),
        overspent: None,
        bars: None,
    }
}

pub fn node(name: &str, gpus: i64, bought: CapacityType, price: Option<i64>) -> NodeView {
    let price =
        price.map(|micro| Price { per_hour: MicroUsd(micro), source: PriceSource::Catalogue });
    NodeView {
        name: name.into(),
        allocatable: [(gpu(), gpus)].into(),
        used: [(gpu(), gpus)].into(),
        pods: 1,
        capacity_type: bought,
        price,
        used_per_hour: MicroUsd(0),
    }
}

fn quota(flavor: &str, nominal: i64, used: i64, borrowed: i64, lent: i64) -> QuotaView {
    let flavor = flavor.into();
    QuotaView { flavor, resource: gpu(), nominal, used, borrowed, lent, available: 0 }
}

fn queue(name: &str, cohort: Option<&str>, quotas: Vec<QuotaView>) -> QueueView {
    QueueView {
        name: name.into(),
        cohort: cohort.map(Text::from),
        inactive: None,
        quotas,
        pending: 0,
        admitted: 0,
        per_hour: None,
        unpriced: 0,
        share: None,
        spending: None,
    }
}

pub fn short(asked: i64, left: i64) -> Reason {
    Reason::Flavors {
        cluster_queue: "team-language".into(),
        pod_set: "main".into(),
        tried: vec![FlavorRefusal {
            flavor: "a100-spot".into(),
            why: FlavorProblem::Short {
                others: 0,
                resource: gpu(),
                asked,
                left,
                cohort: Some("research".into()),
                own: 0,
                strait: None,
                victims: NoVictims::TooFew,
            },
        }],
    }
}

pub fn no_room() -> Reason {
    Reason::Nodes(Box::new(NodeShortage {
        nodes: 6,
        asked: 4,
        holds: 3,
        refusals: vec![
            (NodeRefusal::Taint { key: "nvidia.com/mig".into(), value: "on".into() }, 2),
            (
                NodeRefusal::Insufficient {
                    resource: gpu(),
                    asked: 8,
                    free: 5,
                    beyond_node: false,
                },
                4,
            ),
        ],
        nearest: Some(Nearest { node: "a4".into(), resource: gpu(), asked: 8, free: 5 }),
        unwanted: None,
        gone: 0,
        ended: None,
    }))
}

/// Two teams that share, a gang that borrows, a victim, and three that wait.
pub fn result() -> SimulationResult {
    let mut train = placed(
        queued("vision", "train-resnet", "team-vision", 3, 8),
        State::Running,
        "a100-spot",
        &["a1", "a2", "a3"],
    );
    (train.borrowed, train.per_hour) = (true, Some(MicroUsd(36_750_000)));
    let mut eval = placed(
        queued("language", "eval", "team-language", 1, 8),
        State::Running,
        "a100-spot",
        &["a4"],
    );
    (eval.per_hour, eval.priority) = (Some(MicroUsd(12_500_000)), 1000);
    let mut serve =
        placed(queued("serving", "ranker-5d9c", "serving", 1, 4), State::Running, "t4", &["b1"]);
    (serve.found_running, serve.unpriced) = (true, 1);
    let mut sweep = queued("vision", "sweep-7", "team-vision", 1, 8);
    sweep.preempted = Some(preemption());
    sweep.reason = Some(short(8, 0));
    let mut finetune = queued("language", "finetune", "team-language", 4, 8);
    (finetune.reason, finetune.priority) = (Some(short(32, 24)), 1000);
    let mut adhoc = workload("default", "notebook-of-somebody-with-a-very-long-name");
    adhoc.reason = Some(no_room());

    let mut vision = queue("team-vision", Some("research"), vec![quota("a100-spot", 16, 24, 8, 0)]);
    (vision.per_hour, vision.pending, vision.admitted) = (Some(MicroUsd(36_750_000)), 1, 1);
    let mut language =
        queue("team-language", Some("research"), vec![quota("a100-spot", 16, 8, 0, 8)]);
    (language.per_hour, language.pending, language.admitted) = (Some(MicroUsd(12_500_000)), 1, 1);
    let mut serving = queue("serving", None, vec![quota("t4", 8, 4, 0, 0)]);
    serving.admitted = 1;

    let spot = Some(12_500_000);
    let mut nodes = vec![
        node("a1", 8, CapacityType::Spot, spot),
        node("a2", 8, CapacityType::Spot, spot),
        node("a3", 8, CapacityType::OnDemand, Some(32_770_000)),
        node("a4", 8, CapacityType::OnDemand, Some(32_770_000)),
        node("b1", 4, CapacityType::Spot, Some(1_580_000)),
        node("b2", 4, CapacityType::Spot, Some(1_580_000)),
    ];
    nodes[0].used_per_hour = MicroUsd(49_250_000);
    let models = nodes.iter().map(|node| {
        let model = if node.name.starts_with('a') { "A100" } else { "T4" };
        (node.name.clone(), model.to_owned())
    });
    SimulationResult {
        rounds: 3,
        settled: true,
        until: None,
        elapsed: Duration::from_micros(1_849),
        now: NOW,
        gpu_models: models.collect(),
        workloads: vec![adhoc, eval, finetune, serve, sweep, train],
        queues: vec![language, vision, serving],
        nodes,
        admitted: vec!["language/eval".to_owned(), "vision/train-resnet".to_owned()],
        preempted: vec![preemption()],
        ignored_kinds: [("Service".to_owned(), 2), ("ConfigMap".to_owned(), 1)].into(),
        warnings: vec![],
        timeline: vec![],
        ours: 9,
        scheduler: "capstan".to_owned(),
        timeless: false,
        files: vec!["manifests/examples/quickstart.yaml".to_owned()],
    }
}

fn score(total: u32, values: [u32; 4]) -> ScoreView {
    let names = [("cost", 3), ("capacity", 2), ("locality", 3), ("packing", 2)];
    let terms = names.iter().zip(values).map(|((name, weight), value)| TermView {
        name,
        value,
        weight: *weight,
    });
    ScoreView { total, terms: terms.collect(), price_unknown: false }
}

pub fn verdicts() -> Vec<NodeVerdict> {
    let taint = NodeRefusal::Taint { key: "nvidia.com/mig".into(), value: "on".into() };
    let full = NodeRefusal::Insufficient { resource: gpu(), asked: 8, free: 5, beyond_node: false };
    let verdict = |node: &str, refusals: Vec<NodeRefusal>, score: Option<ScoreView>| NodeVerdict {
        node: node.into(),
        refusals,
        score,
    };
    vec![
        verdict("a1", vec![], Some(score(640, [500, 1000, 900, 240]))),
        verdict("a2", vec![], Some(score(812, [700, 1000, 900, 640]))),
        verdict("a3", vec![NodeRefusal::Unschedulable], None),
        verdict("a4", vec![full], None),
        verdict("b1", vec![taint.clone()], None),
        verdict("b2", vec![taint], None),
    ]
}

/// Another team uses eight GPUs of the cohort for twenty minutes more.
fn binding() -> Binding {
    Binding {
        holder: Holder::Cohort("research".into()),
        limit: Limit::Quota,
        flavor: "a100-spot".into(),
        resource: gpu(),
        amount: 32,
        used: 8,
        by: vec![("team-vision".into(), 8)],
        others: None,
        until: Some(Time(NOW.0 + 20 * 60_000)),
    }
}

fn forecast() -> Forecast {
    let last = vec!["vision/train-resnet".into()];
    let assumes = Assumptions { ends: 1, last, ..Assumptions::default() };
    Forecast { start: Time(NOW.0 + 20 * 60_000), reserved: false, assumes }
}

fn remedies() -> Vec<Remedy> {
    vec![
        Remedy {
            change: Change::WaitFor {
                workload: "vision/train-resnet".into(),
                with: vec![],
                at: Some(Time(NOW.0 + 20 * 60_000)),
                learned: false,
            },
            first: None,
            per_hour: None,
            preempts: vec![],
            loses: None,
            after: vec![],
            unless: None,
        },
        Remedy {
            change: Change::FewerPods { pods: 3 },
            first: Some(3),
            per_hour: Some(MicroUsd(36_750_000)),
            preempts: vec![],
            loses: None,
            after: vec![],
            unless: None,
        },
        Remedy {
            change: Change::AllowCapacity {
                types: vec![CapacityType::Spot, CapacityType::OnDemand],
                added: 1,
            },
            first: None,
            per_hour: Some(MicroUsd(131_080_000)),
            preempts: vec![],
            loses: None,
            after: vec![],
            unless: None,
        },
        Remedy {
            change: Change::AllowPreemption {
                cluster_queue: "team-language".into(),
                field: "reclaimWithinCohort",
                value: "Any",
                victims: vec!["vision/sweep-7".into()],
            },
            first: None,
            per_hour: Some(MicroUsd(50_000_000)),
            preempts: vec!["vision/sweep-7".into()],
            loses: Some(MicroUsd(2_400_000)),
            after: vec![],
            unless: None,
        },
    ]
}

pub fn explanation() -> WorkloadExplanation {
    let simulated = result();
    let workload = simulated.workloads[2].clone();
    WorkloadExplanation {
        workload,
        ahead: Some(0),
        position: Some(Position { in_cluster_queue: 0, in_local_queue: Some(0) }),
        forecast: Some(forecast()),
        beyond: None,
        in_the_way: vec![
            Obstacle {
                reason: short(32, 24),
                asked: Some(32),
                left: Some(24),
                binding: Some(binding()),
            },
            Obstacle { reason: no_room(), asked: Some(8), left: Some(5), binding: None },
        ],
        remedies: remedies(),
        nodes_of: None,
        nodes_as: None,
        nodes: verdicts(),
    }
}
