//! Property: a queue with cpu by capacity type and GPUs by model starts its head exactly when some
//! node of both a type and a model that it lists can be had.
//!
//! Every node and every set of lower work that could leave it is tried by hand. Where nobody has
//! to leave, nobody does, unless the queue would rather preempt than try its next flavor. Quota
//! that is short is told of a flavor that has it. A gang of two sets starts whole or has a reason,
//! and with a group name its sets share flavors.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::{FlavorProblem, Reason};
use capstan_core::model::input::{
    CohortFacts, Fungibility, Input, PodShape, PreemptReclaim, PreemptWithin, PreemptionPolicy,
};
use capstan_core::plan::{Action, State};
use capstan_core::time::Time;
use capstan_tests::facts::{
    GPU, cluster_queue, cohort, flavor, gang, group, in_queue, labels, local_queue, namespace,
    node, nominal, pod, shape,
};
use capstan_tests::hand::{bound, view};
use proptest::prelude::*;

const NOW: Time = Time(1_000_000);
const TYPES: [&str; 2] = ["spot", "od"];
/// The last one is of no flavor.
const MODELS: [&str; 3] = ["a100", "h100", "t4"];
const LISTED: usize = 2;

#[derive(Clone, Debug)]
struct Node {
    kind: usize,
    model: usize,
    gpus: i64,
}

/// What runs: node, cpus and GPUs.
type Low = (usize, i64, i64);

#[derive(Clone, Debug)]
struct World {
    nodes: Vec<Node>,
    low: Vec<Low>,
    /// Quota by type.
    cpus: [i64; 2],
    /// Quota by listed model.
    gpus: [i64; LISTED],
    /// Cpus and GPUs of the head.
    asked: (i64, i64),
    /// It tries its next flavor before it preempts.
    goes_on: bool,
}

fn worlds() -> impl Strategy<Value = World> {
    let node = (0..TYPES.len(), 0..MODELS.len(), prop_oneof![Just(0), Just(4), Just(8)]);
    let node = node.prop_map(|(kind, model, gpus)| Node { kind, model, gpus });
    let low = (0..4_usize, prop_oneof![Just(2), Just(4)], prop_oneof![Just(2), Just(4), Just(8)]);
    let cpus = prop_oneof![Just(8), Just(64)];
    let gpus = prop_oneof![Just(4), Just(8), Just(16)];
    (
        proptest::collection::vec(node, 1..5),
        proptest::collection::vec(low, 0..6),
        [cpus.clone(), cpus],
        [gpus.clone(), gpus],
        (prop_oneof![Just(2), Just(8)], prop_oneof![Just(2), Just(4), Just(8)]),
        any::<bool>(),
    )
        .prop_map(|(nodes, low, cpus, gpus, asked, goes_on)| {
            let mut world = World { nodes, low: Vec::new(), cpus, gpus, asked, goes_on };
            for one in low {
                let of_flavors = world.nodes.get(one.0).is_some_and(|node| node.model < LISTED);
                if of_flavors && world.holds(&world.low, one) {
                    world.low.push(one);
                }
            }
            world
        })
}

impl World {
    /// Whether a node and the quota of its flavors hold one more beside these.
    fn holds(&self, beside: &[Low], (on, cpus, gpus): Low) -> bool {
        let Node { kind, model, gpus: all } = self.nodes[on];
        let sum = |on: &dyn Fn(usize) -> bool, of: fn(&Low) -> i64| {
            beside.iter().filter(|low| on(low.0)).map(of).sum::<i64>()
        };
        let same_kind = |at: usize| self.nodes[at].kind == kind;
        let same_model = |at: usize| self.nodes[at].model == model;
        model < LISTED
            && sum(&|at| at == on, |low| low.2) + gpus <= all
            && sum(&same_kind, |low| low.1) + cpus <= self.cpus[kind]
            && sum(&same_model, |low| low.2) + gpus <= self.gpus[model]
    }

    /// Whether some node holds the head once these have left.
    fn does(&self, gone: u32) -> bool {
        let stays: Vec<Low> =
            (0..self.low.len()).filter(|at| gone >> at & 1 == 0).map(|at| self.low[at]).collect();
        (0..self.nodes.len()).any(|on| self.holds(&stays, (on, self.asked.0, self.asked.1)))
    }

    fn engine(&self) -> Engine {
        let flavors = |names: &[&str], resource: &str, amounts: &[i64]| {
            let quotas: Vec<_> = amounts.iter().map(|n| [(resource, nominal(*n))]).collect();
            let listed: Vec<_> =
                names.iter().zip(&quotas).map(|(name, q)| (*name, &q[..])).collect();
            group(&listed)
        };
        let cpus = self.cpus.map(|cpus| cpus * 1_000);
        let mut queue = cluster_queue("team", None, flavors(&TYPES, "cpu", &cpus));
        queue.groups.push(flavors(&MODELS[..LISTED], GPU, &self.gpus));
        queue.preemption = PreemptionPolicy {
            within_cluster_queue: PreemptWithin::LowerPriority,
            ..queue.preemption
        };
        queue.fungibility.next_when_preempting = self.goes_on;
        let mut facts = vec![namespace(), Input::LocalQueue(local_queue("team"))];
        facts.extend(TYPES.map(|name| Input::Flavor(flavor(name, &[("type", name)]))));
        facts.extend(MODELS[..LISTED].iter().map(|m| Input::Flavor(flavor(m, &[("model", m)]))));
        facts.push(Input::ClusterQueue(queue));
        for (at, of) in self.nodes.iter().enumerate() {
            let mut facts_of = node(&format!("n{at}"), &[("cpu", 64_000), (GPU, of.gpus)]);
            facts_of.labels = labels(&[("type", TYPES[of.kind]), ("model", MODELS[of.model])]);
            facts.push(Input::Node(facts_of.into()));
        }
        for (at, (on, cpus, gpus)) in self.low.iter().enumerate() {
            let low = pod(&format!("low{at}"), &asks(*cpus, *gpus), &in_queue(Some("team")));
            facts.push(bound(&low, &format!("n{on}")));
        }
        let mut engine = Engine::new();
        engine.step(NOW, facts);
        engine
    }
}

fn asks(cpus: i64, gpus: i64) -> Arc<PodShape> {
    shape(&[("cpu", cpus * 1_000), (GPU, gpus)])
}

/// The same, of a pod set with a group name.
fn named(cpus: i64, gpus: i64) -> Arc<PodShape> {
    Arc::new(PodShape { set_group: Some("g".into()), ..PodShape::clone(&asks(cpus, gpus)) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_head_starts_where_flavors_of_both_groups_meet(world in worlds()) {
        let mut engine = world.engine();
        let mut head = pod("head", &asks(world.asked.0, world.asked.1), &in_queue(Some("team")));
        head.priority = 10;
        let output = engine.step(NOW, vec![Input::Pod(head)]);
        engine.recount();
        let evicted = |action: &Action| match action {
            Action::Evict { pod, .. } => Some(pod.name.to_string()),
            _ => None,
        };
        let gone: BTreeSet<String> =
            output.effects.iter().filter_map(|effect| evicted(&effect.action)).collect();
        let started = view(&engine, "head").state != State::Queued;
        let possible = (0..1_u32 << world.low.len()).any(|gone| world.does(gone));
        prop_assert_eq!(started, possible, "{:?} leave", gone);
        prop_assert!(gone.is_empty() || started, "{:?} leave for nobody", gone);
        if let Some(Reason::Flavors { tried, .. }) = view(&engine, "head").reason {
            for refusal in tried {
                let FlavorProblem::Short { resource, .. } = refusal.why else { continue };
                let of_cpu = TYPES.contains(&&*refusal.flavor);
                prop_assert_eq!(&*resource == "cpu", of_cpu, "{} of {}", resource, refusal.flavor);
            }
        }
        let needless = world.does(0) && world.goes_on;
        prop_assert!(gone.is_empty() || !needless, "{:?} leave for nothing", gone);
    }

    /// A launcher that asks cpus, perhaps of one type alone, beside workers with GPUs: started
    /// whole, or waiting with a reason, with or without those who may leave for it.
    #[test]
    fn a_gang_of_two_sets_starts_whole_or_has_a_reason(
        world in worlds(),
        launcher in prop_oneof![Just(2), Just(8), Just(64)],
        pinned in prop::option::of(0..TYPES.len()),
        workers in 1..3_usize,
        rounds in 1..4,
        first in any::<bool>(),
    ) {
        let mut engine = world.engine();
        let (shape, queued) = (asks(world.asked.0, world.asked.1), in_queue(Some("team")));
        let mut members = gang("g", 1 + workers as u32, None, &shape, &queued);
        let mut cpus = PodShape::clone(&asks(launcher, 0));
        if let Some(kind) = pinned {
            cpus.node_selector = labels(&[("type", TYPES[kind])]);
        }
        let at = if first { 0 } else { workers };
        members[at].shape = Arc::new(cpus);
        for member in &mut members {
            member.priority = 10;
        }
        let mut output = engine.step(NOW, members.into_iter().map(Input::Pod).collect());
        let mut gone = false;
        for _ in 0..rounds {
            gone |= output.effects.iter().any(|e| matches!(e.action, Action::Evict { .. }));
            engine.recount();
            output = engine.step(NOW, Vec::new());
        }
        let found = view(&engine, "g");
        prop_assert!(found.state != State::Queued || !gone, "some leave for nobody");
        prop_assert!(found.state != State::Queued || found.reason.is_some(), "no reason");
        let bound = found.pods.iter().filter(|pod| pod.node.is_some()).count();
        prop_assert!([0, 1 + workers].contains(&bound), "{bound} of {}", 1 + workers);
    }

    /// Two sets of one group name: they start together exactly when one type and one model hold the
    /// sum of what they ask, and all of them are on that type.
    #[test]
    fn sets_of_one_group_name_share_flavors(
        world in worlds(),
        launcher in prop_oneof![Just(2), Just(8)],
        workers in 1..3_usize,
        first in any::<bool>(),
    ) {
        let world = World { low: Vec::new(), ..world };
        let mut engine = world.engine();
        let shape = named(world.asked.0, world.asked.1);
        let mut members = gang("g", 1 + workers as u32, None, &shape, &in_queue(Some("team")));
        members[if first { 0 } else { workers }].shape = named(launcher, 0);
        engine.step(NOW, members.into_iter().map(Input::Pod).collect());
        engine.recount();
        let found = view(&engine, "g");
        let count = workers as i64;
        let possible = (0..TYPES.len()).any(|kind| (0..LISTED).any(|model| {
            let nodes = world.nodes.iter();
            let of_both = nodes.filter(|node| node.kind == kind && node.model == model);
            let slots: i64 = of_both.map(|node| node.gpus / world.asked.1).sum();
            slots >= count
                && world.cpus[kind] >= launcher + count * world.asked.0
                && world.gpus[model] >= count * world.asked.1
        }));
        prop_assert_eq!(found.state != State::Queued, possible, "{:?}", found.reason);
        let nodes = found.pods.iter().filter_map(|pod| pod.node.as_ref());
        let kinds: BTreeSet<usize> = nodes
            .map(|name| world.nodes[name[1..].parse::<usize>().expect("a number")].kind)
            .collect();
        prop_assert!(kinds.len() < 2, "types {:?}", kinds);
    }
}

/// Of its first flavor the head's queue could take GPUs back if it borrowed nothing, and it would
/// borrow cpus: nobody leaves for both. The second flavor stands no worse, borrows both, and is
/// free. By the rule of the queue the first one of equals is chosen, which is no reason to wait.
#[test]
fn who_gets_nothing_of_the_flavor_that_it_chose_takes_one_that_is_free() {
    let quotas = |first: (i64, i64), second: (i64, i64)| {
        let of = |(cpus, gpus)| [("cpu", nominal(cpus)), (GPU, nominal(gpus))];
        let (first, second) = (of(first), of(second));
        group(&[("first", &first), ("second", &second)])
    };
    let all = CohortFacts { groups: vec![quotas((1, 0), (3, 1))], ..cohort("all", None) };
    let mut facts = vec![namespace(), Input::Cohort(all)];
    for name in ["first", "second"] {
        let mut of = node(name, &[("cpu", 64_000), (GPU, 8)]);
        of.labels = labels(&[("k", name)]);
        facts.extend([Input::Node(of.into()), Input::Flavor(flavor(name, &[("k", name)]))]);
    }
    let mut main = cluster_queue("main", Some("all"), quotas((2, 2), (0, 1)));
    main.preemption = PreemptionPolicy { reclaim: PreemptReclaim::Any, ..main.preemption };
    main.fungibility = Fungibility {
        next_when_borrowing: true,
        next_when_preempting: true,
        prefer_preemption_over_borrowing: true,
    };
    for queue in [main, cluster_queue("other", Some("all"), quotas((0, 0), (0, 0)))] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    let guest = pod("guest", &shape(&[(GPU, 2)]), &in_queue(Some("other")));
    facts.push(bound(&guest, "first"));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let head = pod("head", &shape(&[("cpu", 3), (GPU, 2)]), &in_queue(Some("main")));
    engine.step(NOW, vec![Input::Pod(head)]);
    engine.recount();
    let nodes = |name: &str| view(&engine, name).pods[0].node.clone();
    let places = (nodes("guest"), nodes("head"));
    assert_eq!(places, (Some("first".into()), Some("second".into())));
}
