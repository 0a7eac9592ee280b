//! What pods prefer of the pods around them: the better node is kube-scheduler's, count by count.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, LabelSelector, Neighbours, NodeFacts, Operator, PeerSelector, PeerTerm, PodFacts,
    PodPhase, PodShape, PreferredPeers, Requirement, Spread, Taint, TaintEffect, Text,
};
use capstan_core::policy::Policy;
use capstan_core::rules::neighbours::Tenancy;
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed};
use capstan_tests::facts::{TEAM, amounts, gang, in_queue, labels, namespace, node, pod, text};
use capstan_tests::kinds::{RACK, ZONE, kind, resident, wishing};
use capstan_tests::play::Stage;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const HOST: &str = "kubernetes.io/hostname";
const NEAR: &str = "podAffinity";
const EVEN: &str = "topologySpread";
const PULLED: &str = "imageLocality";

fn app(name: &str) -> LabelSelector {
    vec![Requirement { key: text("app"), operator: Operator::In, values: vec![text(name)] }]
}

fn term(key: &str, of: &str) -> PeerTerm {
    let namespaces = vec![text(TEAM)];
    let peers = PeerSelector { namespaces, namespace_selector: None, labels: Some(app(of)) };
    PeerTerm { key: text(key), peers }
}

fn preferring(weight: i32, key: &str, of: &str) -> Neighbours {
    let preferred = vec![PreferredPeers { weight, term: term(key, of) }];
    Neighbours { preferred, ..Neighbours::default() }
}

fn requiring(key: &str, of: &str) -> Neighbours {
    Neighbours { affinity: vec![term(key, of)], ..Neighbours::default() }
}

fn spread(key: &str, of: &str) -> Spread {
    Spread {
        key: text(key),
        max_skew: 1,
        min_domains: 1,
        labels: Some(app(of)),
        required: false,
        honors_affinity: true,
        honors_taints: false,
    }
}

fn spreading(keys: &[&str], of: &str) -> Neighbours {
    let spread = keys.iter().map(|key| spread(key, of)).collect();
    Neighbours { spread, ..Neighbours::default() }
}

/// A pod of an app that asks for one `cpu`.
fn of_app(name: &str, wants: Neighbours) -> Arc<PodShape> {
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", name)]) };
    Arc::new(PodShape {
        requests: amounts(&[("cpu", 1)]),
        kin: Some(Arc::new(kin)),
        neighbours: (wants != Neighbours::default()).then(|| Arc::new(wants)),
        ..PodShape::default()
    })
}

fn plain(name: &str) -> Arc<PodShape> {
    of_app(name, Neighbours::default())
}

/// A node of ten `cpu` in a zone.
fn in_zone(name: &str, zone: &str) -> NodeFacts {
    let mut facts = node(name, &[("cpu", 10)]);
    facts.labels.insert(text(ZONE), text(zone));
    facts
}

fn tainted(mut facts: NodeFacts) -> NodeFacts {
    let (key, value) = (text("off"), text(""));
    facts.taints.push(Taint { key, value, effect: TaintEffect::NoSchedule });
    facts
}

fn there(name: &str, shape: &Arc<PodShape>, node: &str) -> PodFacts {
    let mut facts = pod(name, shape, &in_queue(None));
    (facts.node, facts.phase) = (Some(text(node)), PodPhase::Running);
    facts
}

/// An engine that knows these nodes and who is on them, by name of a node.
fn ground(nodes: &[NodeFacts], placed: &[(&Arc<PodShape>, &str)]) -> Engine {
    let mut engine = Engine::new();
    let mut facts = vec![namespace()];
    facts.extend(nodes.iter().cloned().map(|it| Input::Node(it.into())));
    let pods = placed.iter().enumerate();
    facts.extend(pods.map(|(at, (shape, on))| Input::Pod(there(&format!("t{at}"), shape, on))));
    engine.step(NOW, facts);
    engine
}

/// The values of a term for a pod of a shape, by node; it is looked at and goes nowhere.
fn values(engine: &mut Engine, shape: &Arc<PodShape>, term: &str) -> BTreeMap<Text, u32> {
    let mut asking = pod("asking", shape, &in_queue(None));
    asking.gated = true;
    engine.step(NOW, vec![Input::Pod(asking)]);
    let explained = engine.explain_pod(TEAM, "asking").expect("it is there");
    engine.recount();
    let value = |verdict: &capstan_core::explain::view::NodeVerdict| {
        let found = verdict.score.as_ref()?.terms.iter().find(|it| it.name == term)?.value;
        Some((verdict.node.clone(), found))
    };
    explained.nodes.iter().filter_map(value).collect()
}

fn list(values: &[(&str, u32)]) -> BTreeMap<Text, u32> {
    values.iter().map(|(name, value)| (text(name), *value)).collect()
}

/// Where pods go that come together, how many to each node.
fn counts(nodes: &[NodeFacts], pods: Vec<PodFacts>) -> BTreeMap<Text, u32> {
    let mut stage = Stage::new(NOW);
    stage.add([namespace()]);
    stage.add(nodes.iter().cloned().map(|it| Input::Node(it.into())));
    stage.add(pods.into_iter().map(Input::Pod));
    settled(&mut stage)
}

/// How many pods each node has in the end.
fn settled(stage: &mut Stage) -> BTreeMap<Text, u32> {
    stage.settle(|stage| stage.engine.recount());
    let mut counts = BTreeMap::new();
    for pod in stage.pods.values() {
        *counts.entry(pod.node.clone().expect("there is room")).or_default() += 1;
    }
    counts
}

fn singles(count: u32, shape: &Arc<PodShape>) -> Vec<PodFacts> {
    (0..count).map(|at| pod(&format!("p{at}"), shape, &in_queue(None))).collect()
}

#[test]
fn pods_that_are_spread_anyway_stay_even_beside_a_node_that_takes_none() {
    let nodes = [node("w1", &[("cpu", 10)]), node("w2", &[("cpu", 10)])];
    let nodes = [&nodes[..], &[tainted(node("w0", &[("cpu", 10)]))]].concat();
    let web = of_app("web", spreading(&[HOST], "web"));
    assert_eq!(counts(&nodes, singles(10, &web)), list(&[("w1", 5), ("w2", 5)]));
}

#[test]
fn members_of_one_gang_see_each_other() {
    let nodes = ["w1", "w2"].map(|name| node(name, &[("cpu", 10)]));
    let web = of_app("web", spreading(&[HOST], "web"));
    let members = gang("g", 10, None, &web, &in_queue(None));
    assert_eq!(counts(&nodes, members), list(&[("w1", 5), ("w2", 5)]));
    // Nor do they need a constraint for it, or be of one kind.
    let nodes = ["w1", "w2", "w3"].map(|name| node(name, &[("cpu", 10)]));
    let (one, other) = (of_app("a", preferring(-1, HOST, "b")), plain("b"));
    let mut members = gang("g", 2, None, &one, &in_queue(None));
    members[1].shape = other;
    assert_eq!(counts(&nodes, members).len(), 2);
    let alone = of_app("a", preferring(-1, HOST, "a"));
    let members = gang("g", 6, None, &alone, &in_queue(None));
    assert_eq!(counts(&nodes, members), list(&[("w1", 2), ("w2", 2), ("w3", 2)]));
}

#[test]
fn a_gang_that_is_spread_stays_in_the_domain_that_it_asks_for() {
    let nodes = [in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b"), in_zone("b2", "b")];
    let web = of_app("web", spreading(&[HOST], "web"));
    let mut stage = Stage::new(NOW);
    let policy = Policy { levels: Some(vec![text(ZONE), text(HOST)]), ..Policy::default() };
    stage.add([Input::Policy(Arc::new(policy)), namespace()]);
    stage.add(nodes.iter().cloned().map(|it| Input::Node(it.into())));
    let mut wishes = (*in_queue(None)).clone();
    wishes.topology.required = Some(text(ZONE));
    stage.add(gang("g", 8, None, &web, &Arc::new(wishes)).into_iter().map(Input::Pod));
    assert_eq!(settled(&mut stage), list(&[("a1", 4), ("a2", 4)]));
}

#[test]
fn the_fuller_a_domain_the_worse() {
    let nodes =
        [in_zone("a", "a"), in_zone("b", "b"), in_zone("c", "c"), node("d", &[("cpu", 10)])];
    let web = plain("web");
    let placed = [(&web, "a"), (&web, "a"), (&web, "a"), (&web, "a"), (&web, "b")];
    let mut engine = ground(&nodes, &placed);
    let asking = of_app("web", spreading(&[ZONE], "web"));
    let wanted = [("a", 0), ("b", 750), ("c", 1_000), ("d", 0)];
    assert_eq!(values(&mut engine, &asking, EVEN), list(&wanted));
    // One that leaves counts no more, and all are as good where all are as full.
    let mut leaving = there("t0", &web, "a");
    leaving.terminating = true;
    let more = ["b", "b", "c", "c", "c"].iter().zip(10..);
    let more = more.map(|(on, at)| Input::Pod(there(&format!("t{at}"), &web, on)));
    engine.step(NOW, more.chain([Input::Pod(leaving)]).collect());
    let wanted = [("a", 1_000), ("b", 1_000), ("c", 1_000), ("d", 0)];
    assert_eq!(values(&mut engine, &asking, EVEN), list(&wanted));
}

#[test]
fn of_two_constraints_the_one_with_more_domains_weighs_more() {
    // Two zones of three hosts: log2(4) = 2 for each pod of the zone, log2(8) = 3 of the host.
    let nodes = ["a1", "a2", "a3", "b1", "b2", "b3"].map(|name| in_zone(name, &name[..1]));
    let web = plain("web");
    let placed = [(&web, "a1"), (&web, "a2"), (&web, "a2"), (&web, "b3")];
    let mut engine = ground(&nodes, &placed);
    let asking = of_app("web", spreading(&[ZONE, HOST], "web"));
    // The fullest are 3 * 2 and 2 * 3, the emptiest 1 * 2 and none: of 12 + 2 less
    // 6 + 3, 6 + 6, 6, and 2, 2, 2 + 3.
    let part = |left: u32| left * 1_000 / 12;
    let a = [("a1", part(5)), ("a2", part(2)), ("a3", part(8))];
    let b = [("b1", part(12)), ("b2", part(12)), ("b3", part(9))];
    assert_eq!(values(&mut engine, &asking, EVEN), list(&[a, b].concat()));
}

#[test]
fn a_larger_skew_that_is_allowed_makes_a_constraint_matter_less() {
    let nodes = ["a", "b"].map(|name| node(name, &[("cpu", 10)]));
    let web = plain("web");
    let mut engine = ground(&nodes, &[(&web, "a")]);
    let mut wants = spreading(&[HOST], "web");
    wants.spread[0].max_skew = 5;
    // One pod is 2 of 2 + 4 * 1.4424.
    let found = values(&mut engine, &of_app("web", wants), EVEN);
    assert_eq!(found, list(&[("a", 742), ("b", 1_000)]));
}

#[test]
fn weights_of_all_pods_in_a_domain_add_up() {
    let nodes =
        [in_zone("a", "a"), in_zone("b", "b"), in_zone("c", "c"), node("d", &[("cpu", 10)])];
    let (cache, noise) = (plain("cache"), plain("noise"));
    let placed = [(&cache, "a"), (&cache, "b"), (&cache, "b"), (&cache, "b"), (&noise, "b")];
    let mut engine = ground(&nodes, &placed);
    let mut wants = preferring(10, ZONE, "cache");
    wants.preferred.extend(preferring(-25, HOST, "noise").preferred);
    // a: 10, b: 30 - 25, c and d: nothing.
    let wanted = [("a", 1_000), ("b", 500), ("c", 0), ("d", 0)];
    assert_eq!(values(&mut engine, &of_app("web", wants), NEAR), list(&wanted));
}

#[test]
fn near_in_the_zone_and_away_from_the_host_is_measured_by_what_nodes_have() {
    let nodes =
        [in_zone("a0", "a"), in_zone("a1", "a"), in_zone("b0", "b"), node("d", &[("cpu", 10)])];
    let db = plain("db");
    let mut engine = ground(&nodes, &[(&db, "a0")]);
    let mut wants = preferring(100, ZONE, "db");
    wants.preferred.extend(preferring(-100, HOST, "db").preferred);
    let asking = of_app("web", wants);
    // a0: 100 - 100; no node has as little as -100.
    let wanted = [("a0", 0), ("a1", 1_000), ("b0", 0), ("d", 0)];
    assert_eq!(values(&mut engine, &asking, NEAR), list(&wanted));
    // a0 and a1: 200 - 100.
    engine.step(NOW, vec![Input::Pod(there("t1", &db, "a1"))]);
    let wanted = [("a0", 1_000), ("a1", 1_000), ("b0", 0), ("d", 0)];
    assert_eq!(values(&mut engine, &asking, NEAR), list(&wanted));
    engine.step(NOW, vec![Input::PodGone(text("t0"))]);
    let wanted = [("a0", 1_000), ("a1", 0), ("b0", 0), ("d", 0)];
    assert_eq!(values(&mut engine, &asking, NEAR), list(&wanted));
    // A node that does not admit the pod is not compared: the others are as good as each other.
    engine.step(NOW, vec![Input::Node(tainted(in_zone("a0", "a")).into())]);
    let wanted = [("a1", 1_000), ("b0", 1_000), ("d", 1_000)];
    assert_eq!(values(&mut engine, &asking, NEAR), list(&wanted));
}

#[test]
fn constraints_are_measured_together_by_what_nodes_have() {
    // Two zones of three hosts: log2(4) = 2 for each pod of the zone, log2(8) = 3 of the host.
    let mut nodes =
        ["a1", "a2", "a3", "b1", "b2", "b3"].map(|name| in_zone(name, &name[..1])).to_vec();
    nodes.push(node("c", &[("cpu", 10)]));
    let web = plain("web");
    let placed = ["a1", "a1", "a2", "a2", "b1", "b1", "b1", "c"].map(|on| (&web, on));
    let mut engine = ground(&nodes, &placed);
    let asking = of_app("web", spreading(&[ZONE, HOST], "web"));
    // 8 + 6, 8 + 6, 8, and 6 + 9, 6, 6: from 6 to 15, though a zone has 8 and a host 9.
    let part = |sum: u32| (15 + 6 - sum) * 1_000 / 15;
    let a = [("a1", part(14)), ("a2", part(14)), ("a3", part(8))];
    let b = [("b1", part(15)), ("b2", part(6)), ("b3", part(6))];
    let wanted = [&a[..], &b[..], &[("c", 0)]].concat();
    assert_eq!(values(&mut engine, &asking, EVEN), list(&wanted));
    // One more on a3: 10 + 6, 10 + 6, 10 + 3.
    engine.step(NOW, vec![Input::Pod(there("t9", &web, "a3"))]);
    let part = |sum: u32| (16 + 6 - sum) * 1_000 / 16;
    let a = [("a1", part(16)), ("a2", part(16)), ("a3", part(13))];
    let b = [("b1", part(15)), ("b2", part(6)), ("b3", part(6))];
    let wanted = [&a[..], &b[..], &[("c", 0)]].concat();
    assert_eq!(values(&mut engine, &asking, EVEN), list(&wanted));
}

#[test]
fn those_that_are_there_have_a_say() {
    let nodes = ["a", "b", "c", "d"].map(|name| node(name, &[("cpu", 10)]));
    let shy = of_app("shy", preferring(-7, HOST, "web"));
    let keen = of_app("keen", preferring(2, HOST, "web"));
    let tied = of_app("tied", requiring(HOST, "web"));
    let placed = [(&shy, "a"), (&keen, "b"), (&tied, "c")];
    let mut engine = ground(&nodes, &placed);
    // -7, 2, 1 for one that requires it, and none.
    let wanted = [("a", 0), ("b", 1_000), ("c", 888), ("d", 777)];
    assert_eq!(values(&mut engine, &plain("web"), NEAR), list(&wanted));
    // Who nobody means has no such term, and who nobody means any more neither.
    assert_eq!(values(&mut engine, &plain("other"), NEAR), list(&[]));
    let gone = ["t0", "t1", "t2"].map(|uid| Input::PodGone(text(uid)));
    engine.step(NOW, gone.to_vec());
    assert_eq!(values(&mut engine, &plain("web"), NEAR), list(&[]));
}

#[test]
fn who_is_deleted_still_draws_and_who_is_nominated_does_not() {
    let nodes = ["a", "b"].map(|name| node(name, &[("cpu", 10)]));
    let mut engine = ground(&nodes, &[]);
    let cache = plain("cache");
    let mut leaving = there("l", &cache, "b");
    leaving.terminating = true;
    let mut nominated = there("n", &cache, "a");
    (nominated.nominated, nominated.ours) = (true, false);
    engine.step(NOW, vec![Input::Pod(leaving), Input::Pod(nominated)]);
    let found = values(&mut engine, &of_app("web", preferring(1, HOST, "cache")), NEAR);
    assert_eq!(found, list(&[("a", 0), ("b", 1_000)]));
}

/// A node of ten `cpu` that has images of so many MiB.
fn having(name: &str, images: &[(&str, i64)]) -> NodeFacts {
    let mut facts = node(name, &[("cpu", 10)]);
    facts.images = Arc::new(images.iter().map(|(name, mib)| (text(name), mib << 20)).collect());
    facts
}

/// A pod of containers of these images that asks for one `cpu`.
fn of_images(images: &[&str]) -> Arc<PodShape> {
    let images = images.iter().map(text).collect();
    Arc::new(PodShape { requests: amounts(&[("cpu", 1)]), images, ..PodShape::default() })
}

#[test]
fn an_image_counts_by_the_share_of_nodes_that_have_it() {
    let image = [("i", 1_000)];
    let nodes = [having("a", &image), having("b", &[]), having("c", &[]), having("d", &[])];
    let mut engine = ground(&nodes, &[]);
    let asking = of_images(&["i"]);
    // Between 23 and 1000 MiB bytes count: here the quarter of 1000.
    let found = values(&mut engine, &asking, PULLED);
    assert_eq!(found, list(&[("a", 232), ("b", 0), ("c", 0), ("d", 0)]));
    engine.step(NOW, vec![Input::Node(having("b", &image).into())]);
    let found = values(&mut engine, &asking, PULLED);
    assert_eq!(found, list(&[("a", 488), ("b", 488), ("c", 0), ("d", 0)]));
    engine.step(NOW, vec![Input::NodeGone(text("c")), Input::NodeGone(text("d"))]);
    assert_eq!(values(&mut engine, &asking, PULLED), list(&[("a", 1_000), ("b", 1_000)]));
    engine.step(NOW, vec![Input::Node(having("e", &[]).into())]);
    let found = values(&mut engine, &asking, PULLED);
    assert_eq!(found, list(&[("a", 658), ("b", 658), ("e", 0)]));
    let other = values(&mut engine, &of_images(&["of nobody"]), PULLED);
    assert_eq!(other, list(&[("a", 0), ("b", 0), ("e", 0)]));
}

/// What a node becomes: gone, or one with these images.
fn turn() -> impl Strategy<Value = (usize, Option<Vec<usize>>)> {
    (0..5_usize, option::weighted(0.8, vec(0..3_usize, 0..3)))
}

/// Nodes, who is there, who comes and goes then, and who asks.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<NodeFacts>,
    there: Vec<(Arc<PodShape>, usize, Tenancy)>,
    later: Vec<(Arc<PodShape>, usize, Tenancy)>,
    asking: Arc<PodShape>,
}

/// One who is there, of either sort.
fn placed() -> impl Strategy<Value = (Arc<PodShape>, usize, Tenancy)> {
    let either = (resident(), option::of(wishing()));
    either.prop_map(|((kind, node, tenancy), wishing)| (wishing.unwrap_or(kind), node, tenancy))
}

fn case(asking: impl Strategy<Value = Arc<PodShape>>) -> impl Strategy<Value = Case> {
    let zone = option::weighted(0.8, prop_oneof![Just("x"), Just("y"), Just("z")]);
    let rack = option::weighted(0.8, prop_oneof![Just("r"), Just("s")]);
    let nodes = vec((zone, rack, prop::bool::weighted(0.15)), 2..7);
    let later = vec(placed(), 0..3);
    (nodes, vec(placed(), 0..6), later, asking).prop_map(|(nodes, there, later, asking)| {
        let facts = |(at, (zone, rack, off)): (usize, &(Option<&str>, Option<&str>, bool))| {
            let mut facts = node(&format!("n{at}"), &[("cpu", 1_000)]);
            facts.labels.extend(zone.map(|zone| (text(ZONE), text(zone))));
            facts.labels.extend(rack.map(|rack| (text(RACK), text(rack))));
            if *off { tainted(facts) } else { facts }
        };
        let nodes = nodes.iter().enumerate().map(facts).collect();
        Case { nodes, there, later, asking }
    })
}

impl Case {
    fn place(&self, model: &mut Cluster, all: &[(Arc<PodShape>, usize, Tenancy)]) -> Vec<Input> {
        let mut facts = Vec::new();
        for (shape, node, tenancy) in all {
            let (shape, tenancy) = (shape.clone(), *tenancy);
            let placed = Placed { node: node % self.nodes.len(), shape, tenancy };
            let name = format!("there-{}", model.placed.len());
            let mut pod = pod(&name, &placed.shape, &in_queue(None));
            placed.describe(&mut pod, &self.nodes[placed.node].name);
            facts.push(Input::Pod(pod));
            model.placed.push(placed);
        }
        facts
    }

    /// The engine and the model with who is there.
    fn begun(&self) -> (Engine, Cluster) {
        let mut model = Cluster { nodes: self.nodes.clone(), ..Cluster::default() };
        let mut engine = ground(&self.nodes, &[]);
        engine.step(NOW, self.place(&mut model, &self.there));
        (engine, model)
    }

    /// Some come, and so many of those that were there go.
    fn goes_on(&self, engine: &mut Engine, model: &mut Cluster, gone: usize) {
        let mut news = self.place(model, &self.later);
        let gone = gone.min(self.there.len());
        news.extend((0..gone).map(|at| Input::PodGone(text(format!("there-{at}")))));
        engine.step(NOW, news);
        model.placed.drain(..gone);
    }

    /// The terms have the values that the model gives them.
    fn is_measured(
        &self,
        (near, even): (&BTreeMap<Text, u32>, &BTreeMap<Text, u32>),
        model: &Cluster,
    ) -> Result<(), TestCaseError> {
        let nodes = model.candidates(&self.asking);
        let attraction = model.attraction(&nodes, &self.asking);
        let full = model.fullness(&nodes, &self.asking);
        for (at, node) in nodes.iter().enumerate() {
            let name = &self.nodes[*node].name;
            if let Some(here) = near.get(name) {
                let wanted = attraction.as_ref().map_or(1_000, |all| all[at]);
                prop_assert_eq!(*here, wanted, "{} of {:?}", name, near);
            }
            if let (Some(here), Some((_, scaled))) = (even.get(name), full[at]) {
                // Logarithms are kept to a thousandth.
                let off = (f64::from(*here) - 10.0 * scaled).abs();
                prop_assert!(off < 4.0, "{name} of {even:?}: {full:?}");
            }
        }
        Ok(())
    }

    /// The terms order nodes as the model does.
    fn is_ordered(&self, engine: &mut Engine, model: &Cluster) -> Result<(), TestCaseError> {
        let nodes = model.candidates(&self.asking);
        let near = values(engine, &self.asking, NEAR);
        let even = values(engine, &self.asking, EVEN);
        self.is_measured((&near, &even), model)?;
        let name = |at: usize| &self.nodes[nodes[at]].name;
        let drawn: Vec<i64> = nodes.iter().map(|at| model.drawn(*at, &self.asking)).collect();
        let full = model.fullness(&nodes, &self.asking);
        let pairs = (0..nodes.len()).flat_map(|a| (0..nodes.len()).map(move |b| (a, b)));
        for (a, b) in pairs {
            if let (Some(here), Some(other)) = (near.get(name(a)), near.get(name(b))) {
                prop_assert_eq!(here.cmp(other), drawn[a].cmp(&drawn[b]), "{:?} {:?}", near, drawn);
            }
            let (Some(here), Some(other)) = (even.get(name(a)), even.get(name(b))) else {
                continue;
            };
            match (full[a], full[b]) {
                (None, _) => prop_assert_eq!(*here, 0, "{:?} {:?}", even, full),
                (_, None) => {}
                (Some((sum, scaled)), Some((others, others_scaled))) => {
                    // Logarithms are kept to a thousandth.
                    let as_good = sum > others - 0.02 || here >= other;
                    prop_assert!(as_good, "{even:?} {full:?}");
                    let better = scaled < others_scaled + 1.0 || here > other;
                    prop_assert!(better, "{even:?} {full:?}");
                }
            }
        }
        let explained = engine.explain_pod(TEAM, "asking").expect("it is there");
        let none = explained.nodes.iter().all(|verdict| verdict.score.is_none());
        let same = drawn.iter().all(|sum| *sum == drawn[0]);
        prop_assert!(!near.is_empty() || none || same, "no term, and {drawn:?}");
        Ok(())
    }
}

proptest! {
    #![proptest_config(Config {
        cases: 2_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    })]

    /// Nodes are ordered by kube-scheduler's definitions, at first and after some came and went,
    /// and what is kept is what is counted anew.
    #[test]
    fn nodes_are_ordered_by_definition(case in case(kind()), gone in 0..4_usize) {
        let (mut engine, mut model) = case.begun();
        case.is_ordered(&mut engine, &model)?;
        case.goes_on(&mut engine, &mut model, gone);
        case.is_ordered(&mut engine, &model)?;
    }

    /// So they are by several wishes of several keys together, also when a node is tainted or is no
    /// more.
    #[test]
    fn several_wishes_are_measured_together(
        case in case(wishing()),
        gone in 0..4_usize,
        turned in 0..8_usize,
    ) {
        let (mut engine, mut model) = case.begun();
        case.is_ordered(&mut engine, &model)?;
        case.goes_on(&mut engine, &mut model, gone);
        case.is_ordered(&mut engine, &model)?;
        let at = turned % case.nodes.len();
        let was = &case.nodes[at];
        let other = match was.taints.is_empty() {
            true => tainted(was.clone()),
            false => NodeFacts { taints: Vec::new(), ..was.clone() },
        };
        for facts in [&other, was] {
            engine.step(NOW, vec![Input::Node(facts.clone().into())]);
            model.nodes[at] = facts.clone();
            case.is_ordered(&mut engine, &model)?;
        }
    }

    /// What images are worth is what kube-scheduler makes of them, whatever came and went before,
    /// and what is kept is what is found out anew.
    #[test]
    fn images_are_worth_what_their_share_of_nodes_makes_of_them(turns in vec(turn(), 1..8)) {
        const SIZES: [(&str, i64); 3] = [("i", 90), ("j", 700), ("k", 5_000)];
        let mut engine = ground(&[having("stays", &[])], &[]);
        let mut there: BTreeMap<String, Vec<usize>> = [("stays".to_owned(), Vec::new())].into();
        for (at, turn) in turns {
            let name = format!("n{at}");
            let news = match turn {
                None => {
                    there.remove(&name);
                    Input::NodeGone(text(name))
                }
                Some(mut images) => {
                    images.sort_unstable();
                    images.dedup();
                    let sizes: Vec<(&str, i64)> = images.iter().map(|at| SIZES[*at]).collect();
                    let facts = having(&name, &sizes);
                    there.insert(name, images);
                    Input::Node(facts.into())
                }
            };
            engine.step(NOW, vec![news]);
            for asked in [&[1_usize][..], &[0, 2]] {
                let names: Vec<&str> = asked.iter().map(|at| SIZES[*at].0).collect();
                let found = values(&mut engine, &of_images(&names), PULLED);
                let part = |at: &usize| {
                    let having = there.values().filter(|images| images.contains(at)).count();
                    SIZES[*at].1 as f64 * having as f64 / there.len() as f64
                };
                for (node, images) in &there {
                    let mib: f64 = asked.iter().filter(|at| images.contains(at)).map(part).sum();
                    let most = 1_000.0 * asked.len() as f64;
                    let wanted = (mib.clamp(23.0, most) - 23.0) * 1_000.0 / (most - 23.0);
                    let off = (f64::from(found[&text(node)]) - wanted).abs();
                    // Shares are kept to a thousandth.
                    prop_assert!(off < 4.0, "{node} of {there:?}: {found:?}");
                }
            }
        }
    }
}
