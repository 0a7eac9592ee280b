//! Gangs whose members want each other near, away, or spread: against every order and every choice
//! of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Amounts, Input, Kin, LabelSelector, Neighbours, NodeFacts, Operator, PeerSelector, PeerTerm,
    PodClaim, PodFacts, PodPhase, PodShape, Requirement, Spread, Text,
};
use capstan_core::plan::{Action, Effect, EffectResult};
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed};
use capstan_tests::devices;
use capstan_tests::facts::{TEAM, amounts, gang, in_queue, labels, namespace, node, pod, text};
use capstan_tests::hand::{answer, binds};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const ZONE: &str = "zone";
const HOST: &str = "kubernetes.io/hostname";

/// Gangs that are compared with brute force in one run.
const INSTANCES: u32 = 12_000;

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

/// A cluster, who is there, and a gang that comes.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<NodeFacts>,
    there: Vec<(Arc<PodShape>, usize, bool)>,
    members: Vec<Arc<PodShape>>,
    /// What members ask of `cpu` they claim as devices, of which a node has what is left of it.
    devices: bool,
}

impl Case {
    fn model(&self) -> Cluster {
        let placed = self.there.iter().map(|(shape, node, leaving)| Placed {
            node: node % self.nodes.len(),
            shape: shape.clone(),
            leaving: *leaving,
        });
        Cluster { nodes: self.nodes.clone(), namespaces: BTreeMap::new(), placed: placed.collect() }
    }

    fn ground(&self) -> Vec<Input> {
        let mut all = vec![namespace()];
        all.extend(self.nodes.iter().cloned().map(Input::Node));
        all.extend((0..self.nodes.len()).filter(|_| self.devices).map(|at| self.slice(at)));
        for (at, placed) in self.model().placed.iter().enumerate() {
            let mut facts = pod(&format!("there-{at}"), &placed.shape, &in_queue(None));
            facts.ours = false;
            facts.node = Some(self.nodes[placed.node].name.clone());
            (facts.phase, facts.terminating) = (PodPhase::Running, placed.leaving);
            all.push(Input::Pod(facts));
        }
        all
    }

    fn gang(&self) -> Vec<PodFacts> {
        let count = self.members.len() as u32;
        let mut pods = gang("g", count, Some(count), &self.members[0], &in_queue(None));
        for (pod, shape) in pods.iter_mut().zip(&self.members) {
            pod.shape = shape.clone();
        }
        pods
    }

    /// A device for each `cpu` that a node has left.
    fn slice(&self, at: usize) -> Input {
        let cpu = |amounts: &Amounts| amounts.get("cpu").copied().unwrap_or(0);
        let here = self.there.iter().filter(|(_, on, _)| on % self.nodes.len() == at);
        let used: i64 = here.map(|(shape, ..)| cpu(&shape.requests)).sum();
        let free = cpu(&self.nodes[at].allocatable) - used;
        let names: Vec<String> = (0..free).map(|device| format!("d{device}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        devices::slice(&self.nodes[at].name, &names)
    }

    /// What a member asks of `cpu` as a claim of its own, and that claim.
    fn claiming(&self, pod: &mut PodFacts) -> Option<Input> {
        let mut shape = PodShape::clone(&pod.shape);
        let asked = shape.requests.remove("cpu").filter(|asked| *asked > 0 && self.devices)?;
        let (name, spec) = (format!("{}-claim", pod.name), devices::spec(asked as u64));
        shape.claims = vec![PodClaim::Own { name: text("d"), spec: spec.clone() }];
        (pod.shape, pod.claims) = (Arc::new(shape), Some(Arc::new(vec![text(&name)])));
        Some(Input::ResourceClaim(devices::claim(&name, true, spec)))
    }

    /// Where the gang's members go, by the engine.
    fn decided(&self) -> Vec<(Arc<PodShape>, usize)> {
        let mut engine = Engine::new();
        let pods = self.gang();
        let mut facts = self.ground();
        for mut pod in pods.iter().cloned() {
            facts.extend(self.claiming(&mut pod));
            facts.push(Input::Pod(pod));
        }
        let mut output = engine.step(NOW, facts);
        engine.recount();
        let gives = |effect: &&Effect| matches!(effect.action, Action::AllocateClaims { .. });
        let given: Vec<Input> = output.effects.iter().filter(gives).map(done).collect();
        if !given.is_empty() {
            output.effects.extend(engine.step(NOW, given).effects);
            engine.recount();
        }
        let placed = binds(&output).into_iter().map(|(name, node)| {
            let shape = pods.iter().find(|pod| *pod.name == *name).map(|pod| pod.shape.clone());
            let at = self.nodes.iter().position(|it| *it.name == *node);
            (shape.expect("a member"), at.expect("a node"))
        });
        placed.collect()
    }
}

fn done(effect: &Effect) -> Input {
    answer(effect, EffectResult::Done)
}

fn selector() -> impl Strategy<Value = Option<LabelSelector>> {
    let one = |value: &str| Requirement {
        key: text("app"),
        operator: Operator::In,
        values: vec![text(value)],
    };
    let any = Requirement { key: text("app"), operator: Operator::Exists, values: vec![] };
    prop_oneof![
        4 => Just(Some(vec![one("a")])),
        4 => Just(Some(vec![one("b")])),
        2 => Just(Some(vec![any])),
        1 => Just(Some(vec![])),
        1 => Just(None),
    ]
}

fn key() -> impl Strategy<Value = Text> {
    prop_oneof![Just(text(ZONE)), Just(text(HOST))]
}

fn term() -> impl Strategy<Value = PeerTerm> {
    (key(), selector()).prop_map(|(key, labels)| {
        let namespaces = vec![text(TEAM)];
        PeerTerm { key, peers: PeerSelector { namespaces, namespace_selector: None, labels } }
    })
}

fn spread() -> impl Strategy<Value = Spread> {
    (key(), selector(), 1..3_u32, 1..4_u32, any::<bool>()).prop_map(
        |(key, labels, max_skew, min_domains, honors_affinity)| Spread {
            key,
            max_skew,
            min_domains,
            labels,
            required: true,
            honors_affinity,
            honors_taints: false,
        },
    )
}

fn wants() -> impl Strategy<Value = Neighbours> {
    let affinity = prop_oneof![2 => vec(term(), 0..1), 2 => vec(term(), 1..2), 1 => vec(term(), 2)];
    let anti_affinity = prop_oneof![2 => vec(term(), 0..1), 1 => vec(term(), 1..2)];
    let spread = prop_oneof![2 => vec(spread(), 0..1), 1 => vec(spread(), 1..3)];
    (affinity, anti_affinity, spread).prop_map(|(affinity, anti_affinity, spread)| Neighbours {
        affinity,
        anti_affinity,
        preferred: Vec::new(),
        spread,
    })
}

fn kind() -> impl Strategy<Value = Arc<PodShape>> {
    let app = option::of(prop_oneof![Just("a"), Just("b")]);
    let zone = option::weighted(0.15, prop_oneof![Just("x"), Just("y")]);
    (app, 0..3_i64, option::weighted(0.8, wants()), zone).prop_map(|(app, cpu, wants, zone)| {
        let labels = app.map(|app| labels(&[("app", app)])).unwrap_or_default();
        let kin = Kin { namespace: text(TEAM), labels };
        let wants = wants.filter(|wants| *wants != Neighbours::default());
        Arc::new(PodShape {
            requests: amounts(&[("cpu", cpu)]),
            node_selector: zone.map(|zone| self::labels(&[(ZONE, zone)])).unwrap_or_default(),
            kin: Some(Arc::new(kin)),
            neighbours: wants.map(Arc::new),
            ..PodShape::default()
        })
    })
}

fn some_node() -> impl Strategy<Value = (i64, i64, Option<&'static str>)> {
    let zone = option::weighted(0.9, prop_oneof![Just("x"), Just("y"), Just("z")]);
    (0..4_i64, 1..5_i64, zone)
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = vec(some_node(), 1..5);
    let there = vec((kind(), 0..8_usize, prop::bool::weighted(0.2)), 0..4);
    let kinds = vec((kind(), 1..4_usize), 1..4);
    (nodes, there, kinds).prop_map(|(nodes, there, kinds)| {
        let node = |(at, (cpu, pods, zone)): (usize, &(i64, i64, Option<&str>))| {
            let mut facts = node(&format!("n{at}"), &[("cpu", *cpu), ("pods", *pods)]);
            facts.labels.extend(zone.map(|zone| (text(ZONE), text(zone))));
            facts
        };
        let nodes: Vec<NodeFacts> = nodes.iter().enumerate().map(node).collect();
        let all = kinds.into_iter().flat_map(|(kind, count)| vec![kind; count]);
        // With what a node slot counts for, so that the model needs to know of one resource only.
        let sized = |shape: Arc<PodShape>| {
            let mut own = PodShape::clone(&shape);
            own.requests.remove("pods");
            Arc::new(own)
        };
        Case { nodes, there, members: all.take(5).map(sized).collect(), devices: false }
    })
}

/// The model counts pods of a node as one more resource.
fn with_slots(model: &mut Cluster, members: &[Arc<PodShape>]) -> Vec<Arc<PodShape>> {
    let sized = |shape: &Arc<PodShape>| {
        let mut own = PodShape::clone(shape);
        own.requests.insert(text("pods"), 1);
        Arc::new(own)
    };
    for placed in &mut model.placed {
        placed.shape = sized(&placed.shape);
    }
    members.iter().map(sized).collect()
}

/// A gang of five who want each other in one zone, on zones of four nodes with room for one each.
fn too_near(zones: usize, members: usize) -> Case {
    let any = Requirement { key: text("app"), operator: Operator::Exists, values: vec![] };
    let near = PeerTerm {
        key: text(ZONE),
        peers: PeerSelector {
            namespaces: vec![text(TEAM)],
            namespace_selector: None,
            labels: Some(vec![any]),
        },
    };
    let member = Arc::new(PodShape {
        requests: amounts(&[("cpu", 1)]),
        kin: Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("app", "a")]) })),
        neighbours: Some(Arc::new(Neighbours { affinity: vec![near], ..Neighbours::default() })),
        ..PodShape::default()
    });
    let nodes = (0..zones * 4).map(|at| {
        let mut facts = node(&format!("n{at:04}"), &[("cpu", 1)]);
        facts.labels.insert(text(ZONE), text(at / 4));
        facts
    });
    let (nodes, members) = (nodes.collect(), vec![member; members]);
    Case { nodes, there: Vec::new(), members, devices: false }
}

fn told(case: &Case) -> String {
    let mut engine = Engine::new();
    let mut facts = case.ground();
    facts.extend(case.gang().into_iter().map(Input::Pod));
    engine.step(NOW, facts);
    let views = engine.workloads();
    let reason = views.iter().find_map(|view| view.reason.as_ref());
    reason.expect("it waits").to_string()
}

/// On more nodes than are searched, and no sum says no: it is told that the search ended.
#[test]
fn the_bound_of_the_search_says_so() {
    let says = told(&too_near(80, 5));
    assert!(says.contains("on up to 256 nodes"), "{says}");
}

/// Where everything was looked at, or more members came than there is room for, the cluster says
/// no.
#[test]
fn the_cluster_says_no_by_itself() {
    for case in [too_near(2, 5), too_near(80, 321)] {
        let says = told(&case);
        assert!(!says.contains("earch"), "{says}");
    }
}

/// Found by the property below: nodes that lack the key keep nobody away, and hold as many as have
/// room.
#[test]
fn nodes_without_the_key_keep_nobody_away() {
    let own = [Requirement { key: text("app"), operator: Operator::In, values: vec![text("a")] }];
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(own.to_vec()),
    };
    let apart = PeerTerm { key: text(ZONE), peers };
    let member = Arc::new(PodShape {
        kin: Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("app", "a")]) })),
        neighbours: Some(Arc::new(Neighbours {
            anti_affinity: vec![apart],
            ..Neighbours::default()
        })),
        ..PodShape::default()
    });
    let nodes = vec![node("n0", &[("pods", 1)]), node("n1", &[("pods", 4)])];
    let members = vec![member; 5];
    let case = Case { nodes, there: Vec::new(), members, devices: false };
    assert_eq!(case.decided().len(), 5);
}

/// A gang is placed if and only if some order and some nodes get it in, and then so that it could
/// have come about pod by pod.
fn placed_if_it_can_be(case: &Case) -> Result<(), TestCaseError> {
    let decided = case.decided();
    let mut model = case.model();
    let members = with_slots(&mut model, &case.members);
    if decided.is_empty() {
        prop_assert!(!model.takes_all(&members), "it could have been placed");
    } else {
        prop_assert_eq!(decided.len(), members.len(), "all or none");
        let (shapes, nodes): (Vec<_>, Vec<_>) = decided.into_iter().unzip();
        let sized = with_slots(&mut model.clone(), &shapes);
        let places: Vec<_> = sized.into_iter().zip(nodes).collect();
        prop_assert!(model.comes_about(&places), "it breaks a rule: {places:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(INSTANCES))]

    /// Members that want each other near, away, or spread.
    #[test]
    fn a_gang_that_can_be_placed_is_placed(case in case()) {
        placed_if_it_can_be(&case)?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// The same where what is scarce are devices.
    #[test]
    fn a_gang_that_finds_its_devices_is_placed(case in case()) {
        placed_if_it_can_be(&Case { devices: true, ..case })?;
    }
}

proptest! {
    #![proptest_config(config(512))]

    /// Pods that come one after the other, and go again, go where they may, and wait only where
    /// they may nowhere; what is counted stays right.
    #[test]
    fn pods_that_come_and_go_are_where_they_may_be(
        case in case(),
        gone in vec(0..8_usize, 0..4),
    ) {
        let mut engine = Engine::new();
        let mut model = case.model();
        let members = with_slots(&mut model, &case.members);
        engine.step(NOW, case.ground());
        for (at, (shape, sized)) in case.members.iter().zip(&members).enumerate() {
            let lone = pod(&format!("p{at}"), shape, &in_queue(None));
            let output = engine.step(NOW, vec![Input::Pod(lone.clone())]);
            engine.recount();
            // One that waited may go with it, then.
            let Some((_, node)) = binds(&output).into_iter().find(|(name, _)| **name == *lone.name)
            else {
                let anywhere = (0..case.nodes.len()).any(|node| model.takes(node, sized));
                prop_assert!(!anywhere, "{} waits and may go somewhere", lone.name);
                break;
            };
            let node = case.nodes.iter().position(|it| *it.name == *node).expect("a node");
            prop_assert!(model.takes(node, sized), "{} may not be there", lone.name);
            model.placed.push(Placed { node, shape: sized.clone(), leaving: false });
        }
        for at in gone {
            engine.step(NOW, vec![Input::PodGone(text(format!("there-{at}")))]);
            engine.recount();
        }
    }
}
