//! Where pods may go while everything around them changes: labels of pods, nodes and namespaces,
//! taints, pods and nodes that go and come back.
//!
//! Counts of pods around nodes are brought up to date with each change. What they say is compared
//! with the definition, which looks at everything anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{Input, Labels, NodeFacts, PodShape};
use capstan_core::rules::neighbours::Tenancy;
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed, sized};
use capstan_tests::facts::{in_queue, labels, namespace, pod, text};
use capstan_tests::hand::binds;
use capstan_tests::kinds::{OTHER, ZONE, labels_of_other, odd_nodes, picky, picky_resident, taint};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

/// Who is there, on which node, and how.
type Resident = (Arc<PodShape>, usize, Tenancy);

/// What changes. Pods and nodes are named by a number, which counts round.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A pod has another label, or none.
    App(usize, Option<&'static str>),
    /// A pod begins to leave; one that was only nominated comes.
    Tenancy(usize),
    /// A pod is gone, or there again.
    Pod(usize),
    /// A node is gone, or there again.
    Node(usize),
    /// A node is in another zone, or in none.
    Zone(usize, Option<&'static str>),
    /// Pods are kept off a node, or not any more.
    Taint(usize),
    /// The other namespace has lost its label, or has it again.
    Namespace,
}

fn change() -> impl Strategy<Value = Change> {
    let app = option::of(prop_oneof![Just("a"), Just("b")]);
    let zone = option::weighted(0.8, prop_oneof![Just("x"), Just("y"), Just("z")]);
    let at = || 0..8_usize;
    prop_oneof![
        3 => (at(), app).prop_map(|(at, app)| Change::App(at, app)),
        2 => at().prop_map(Change::Tenancy),
        2 => at().prop_map(Change::Pod),
        2 => at().prop_map(Change::Node),
        2 => (at(), zone).prop_map(|(at, zone)| Change::Zone(at, zone)),
        2 => at().prop_map(Change::Taint),
        1 => Just(Change::Namespace),
    ]
}

/// Nodes and pods, and whether they are there.
struct World {
    nodes: Vec<(NodeFacts, bool)>,
    pods: Vec<(Resident, bool)>,
    /// The other namespace has its label.
    labelled: bool,
}

impl World {
    fn new(nodes: Vec<NodeFacts>, pods: Vec<Resident>) -> World {
        let nodes = nodes.into_iter().map(|node| (node, true)).collect();
        let pods = pods.into_iter().map(|pod| (pod, true)).collect();
        World { nodes, pods, labelled: true }
    }

    fn ground(&self) -> Vec<Input> {
        let mut all = vec![namespace(), self.namespace()];
        all.extend((0..self.nodes.len()).map(|at| self.node(at)));
        all.extend((0..self.pods.len()).map(|at| self.pod(at)));
        all
    }

    fn labels(&self) -> Labels {
        if self.labelled { labels_of_other() } else { Labels::new() }
    }

    fn namespace(&self) -> Input {
        Input::Namespace { name: text(OTHER), labels: self.labels() }
    }

    fn node(&self, at: usize) -> Input {
        match &self.nodes[at] {
            (facts, true) => Input::Node(facts.clone().into()),
            (facts, false) => Input::NodeGone(facts.name.clone()),
        }
    }

    /// The node of a pod.
    fn node_of(&self, at: usize) -> usize {
        let ((_, node, _), _) = &self.pods[at];
        node % self.nodes.len()
    }

    fn pod(&self, at: usize) -> Input {
        let ((shape, _, tenancy), there) = &self.pods[at];
        let name = format!("there-{at}");
        if !*there {
            return Input::PodGone(text(name));
        }
        let node = self.node_of(at);
        let placed = Placed { node, shape: shape.clone(), tenancy: *tenancy };
        let mut facts = pod(&name, shape, &in_queue(None));
        placed.describe(&mut facts, &self.nodes[node].0.name);
        Input::Pod(facts)
    }

    /// Something changes: what is fed of it, if it is of anything.
    fn change(&mut self, change: Change) -> Option<Input> {
        match change {
            Change::Namespace => {
                self.labelled = !self.labelled;
                Some(self.namespace())
            }
            Change::App(at, _) | Change::Tenancy(at) | Change::Pod(at) => {
                let at = at.checked_rem(self.pods.len())?;
                self.change_pod(at, change);
                Some(self.pod(at))
            }
            Change::Node(at) | Change::Zone(at, _) | Change::Taint(at) => {
                let at = at % self.nodes.len();
                self.change_node(at, change);
                Some(self.node(at))
            }
        }
    }

    fn change_pod(&mut self, at: usize, change: Change) {
        let ((shape, _, tenancy), there) = &mut self.pods[at];
        match change {
            Change::App(_, app) => *shape = relabelled(shape, app),
            Change::Tenancy(_) if *tenancy == Tenancy::Nominated => *tenancy = Tenancy::Staying,
            Change::Tenancy(_) => *tenancy = Tenancy::Leaving,
            _ if *there => *there = false,
            _ => (*there, *tenancy) = (true, Tenancy::Staying),
        }
    }

    fn change_node(&mut self, at: usize, change: Change) {
        let (facts, there) = &mut self.nodes[at];
        match change {
            Change::Zone(_, Some(zone)) => drop(facts.labels.insert(text(ZONE), text(zone))),
            Change::Zone(_, None) => drop(facts.labels.remove(ZONE)),
            Change::Taint(_) if facts.taints.is_empty() => facts.taints.push(taint()),
            Change::Taint(_) => facts.taints.clear(),
            _ => *there = !*there,
        }
    }

    /// All of it as it is.
    fn model(&self) -> Cluster {
        let offered: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].1).collect();
        let there = (0..self.pods.len()).filter(|at| self.pods[*at].1);
        let placed = there.filter_map(|at| {
            let ((shape, _, tenancy), _) = &self.pods[at];
            let node = offered.iter().position(|node| *node == self.node_of(at))?;
            Some(Placed { node, shape: sized(shape), tenancy: *tenancy })
        });
        Cluster {
            nodes: offered.iter().map(|at| self.nodes[*at].0.clone()).collect(),
            namespaces: BTreeMap::from([(text(OTHER), self.labels())]),
            placed: placed.collect(),
            linked: BTreeMap::new(),
        }
    }
}

fn relabelled(shape: &PodShape, app: Option<&str>) -> Arc<PodShape> {
    let mut own = PodShape::clone(shape);
    if let Some(kin) = &mut own.kin {
        Arc::make_mut(kin).labels = app.map(|app| labels(&[("app", app)])).unwrap_or_default();
    }
    Arc::new(own)
}

/// A pod comes, is where it may be or waits if it may be nowhere, and goes.
fn comes_and_goes(
    engine: &mut Engine,
    world: &World,
    (name, kind): (&str, &Arc<PodShape>),
) -> Result<(), TestCaseError> {
    let output = engine.step(NOW, vec![Input::Pod(pod(name, kind, &in_queue(None)))]);
    engine.recount();
    let (model, own) = (world.model(), sized(kind));
    let takes = (0..model.nodes.len()).filter(|at| model.takes(*at, &own));
    let may: Vec<String> = takes.map(|at| model.nodes[at].name.to_string()).collect();
    let found = binds(&output).into_iter().find(|(bound, _)| bound == name);
    if let Some((_, node)) = found {
        prop_assert!(may.contains(&node), "{name} is on {node} and may be on {may:?}");
    } else {
        prop_assert!(may.is_empty(), "{name} waits and may be on {may:?}");
    }
    engine.step(NOW, vec![Input::PodGone(text(name))]);
    engine.recount();
    Ok(())
}

proptest! {
    #![proptest_config(config(2_000))]

    /// Pods go where they may, whatever changed since others of their kind came.
    #[test]
    fn pods_go_where_they_may_whatever_changed(
        nodes in odd_nodes(),
        there in vec(picky_resident(), 0..5),
        kinds in vec(picky(), 1..3),
        changes in vec(change(), 1..8),
    ) {
        let (mut engine, mut world) = (Engine::new(), World::new(nodes, there));
        engine.step(NOW, world.ground());
        let changes = [None].into_iter().chain(changes.into_iter().map(Some));
        for (at, change) in changes.enumerate() {
            let news = change.and_then(|change| world.change(change));
            engine.step(NOW, news.into_iter().collect());
            engine.recount();
            for (of, kind) in kinds.iter().enumerate() {
                let name = format!("p{at}-{of}");
                comes_and_goes(&mut engine, &world, (name.as_str(), kind))?;
            }
        }
    }
}
