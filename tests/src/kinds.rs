//! proptest strategies: kinds of pods that want each other near, away, or spread, with few labels
//! and keys, so that most of them mean each other.

use std::sync::Arc;

use capstan_core::model::input::{
    HostPort, Kin, LabelSelector, Labels, Neighbours, NodeFacts, NodeSelectorTerm, Operator,
    PeerSelector, PeerTerm, PodShape, PreferredNodes, PreferredPeers, Requirement, Spread, Taint,
    TaintEffect, Text, Toleration, TolerationOperator,
};
use capstan_core::rules::neighbours::Tenancy;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::facts::{TEAM, amounts, labels, node, text};

/// The key of domains of several nodes.
pub const ZONE: &str = "zone";
/// Another such key: its domains lie across zones.
pub const RACK: &str = "rack";
/// Another namespace, where others may be: it has a label that the team's own lacks.
pub const OTHER: &str = "other";
const HOST: &str = "kubernetes.io/hostname";
const TIER: &str = "tier";
const OFF: &str = "off";

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
    let (required, honors) = (prop::bool::weighted(0.7), any::<[bool; 2]>());
    (key(), selector(), 1..3_u32, 1..4_u32, honors, required).prop_map(
        |(key, labels, max_skew, min_domains, [honors_affinity, honors_taints], required)| Spread {
            key,
            max_skew,
            min_domains,
            labels,
            required,
            honors_affinity,
            honors_taints,
        },
    )
}

fn preferred() -> impl Strategy<Value = PreferredPeers> {
    let weight = prop_oneof![Just(1), Just(2), Just(5), Just(-1), Just(-2), Just(-5)];
    (weight, term()).prop_map(|(weight, term)| PreferredPeers { weight, term })
}

fn wants() -> impl Strategy<Value = Neighbours> {
    let affinity = prop_oneof![2 => vec(term(), 0..1), 2 => vec(term(), 1..2), 1 => vec(term(), 2)];
    let anti_affinity = prop_oneof![2 => vec(term(), 0..1), 1 => vec(term(), 1..2)];
    let spread = prop_oneof![2 => vec(spread(), 0..1), 1 => vec(spread(), 1..3)];
    let preferred = prop_oneof![2 => vec(preferred(), 0..1), 1 => vec(preferred(), 1..3)];
    (affinity, anti_affinity, preferred, spread).prop_map(
        |(affinity, anti_affinity, preferred, spread)| Neighbours {
            affinity,
            anti_affinity,
            preferred,
            spread,
        },
    )
}

/// A pod of such a kind that is there, and on which node; or one of another scheduler that is only
/// nominated for it.
pub fn resident() -> impl Strategy<Value = (Arc<PodShape>, usize, Tenancy)> {
    (kind(), 0..8_usize, tenancy())
}

fn tenancy() -> impl Strategy<Value = Tenancy> {
    prop_oneof![
        13 => Just(Tenancy::Staying),
        4 => Just(Tenancy::Leaving),
        3 => Just(Tenancy::Nominated),
    ]
}

/// The same of a [`picky`] kind, of the team's namespace or the other one.
pub fn picky_resident() -> impl Strategy<Value = (Arc<PodShape>, usize, Tenancy)> {
    let other = prop::bool::weighted(0.3);
    (picky(), other, 0..8_usize, tenancy()).prop_map(|(kind, other, node, tenancy)| {
        let mut own = PodShape::clone(&kind);
        if let Some(kin) = own.kin.as_mut().filter(|_| other) {
            Arc::make_mut(kin).namespace = text(OTHER);
        }
        (Arc::new(own), node, tenancy)
    })
}

/// Labels of the other namespace.
pub fn labels_of_other() -> Labels {
    labels(&[(TIER, "gold")])
}

/// A kind of pods that asks for a little `cpu`, or for none.
pub fn kind() -> impl Strategy<Value = Arc<PodShape>> {
    let app = option::of(prop_oneof![Just("a"), Just("b")]);
    let zone = option::weighted(0.15, prop_oneof![Just("x"), Just("y")]);
    (app, 0..3_i64, option::weighted(0.8, wants()), zone).prop_map(|(app, cpu, wants, zone)| {
        let app = app.map(|app| labels(&[("app", app)])).unwrap_or_default();
        let kin = Kin { namespace: text(TEAM), labels: app };
        let wants = wants.filter(|wants| *wants != Neighbours::default());
        Arc::new(PodShape {
            requests: amounts(&[("cpu", cpu)]),
            node_selector: zone.map(|zone| labels(&[(ZONE, zone)])).unwrap_or_default(),
            kin: Some(Arc::new(kin)),
            neighbours: wants.map(Arc::new),
            ..PodShape::default()
        })
    })
}

/// Which namespaces the terms of a kind mean.
fn scope() -> impl Strategy<Value = PeerSelector> {
    let of = |names: &[&str], namespace_selector: Option<LabelSelector>| {
        let namespaces = names.iter().map(|name| text(*name)).collect();
        Just(PeerSelector { namespaces, namespace_selector, labels: None })
    };
    let tiers = Requirement { key: text(TIER), operator: Operator::Exists, values: vec![] };
    prop_oneof![
        4 => of(&[TEAM], None),
        1 => of(&[OTHER], None),
        1 => of(&[OTHER, TEAM], None),
        1 => of(&[TEAM], Some(vec![tiers])),
        1 => of(&[], Some(vec![])),
    ]
}

/// All terms of a kind, for the namespaces that they mean.
fn terms_of(wants: &mut Neighbours) -> impl Iterator<Item = &mut PeerTerm> {
    let required = wants.affinity.iter_mut().chain(&mut wants.anti_affinity);
    required.chain(wants.preferred.iter_mut().map(|preferred| &mut preferred.term))
}

/// A kind of pods that may also want host ports, tolerate what keeps pods off some nodes, prefer a
/// node by its name, and mean pods of another namespace.
pub fn picky() -> impl Strategy<Value = Arc<PodShape>> {
    let ports = prop_oneof![
        6 => Just(Vec::<u16>::new()),
        1 => Just(vec![80]),
        1 => Just(vec![81]),
        1 => Just(vec![80, 81]),
    ];
    let prefers = option::weighted(0.6, 0..4_usize);
    let tolerates = prop::bool::weighted(0.6);
    (kind(), ports, prefers, tolerates, scope()).prop_map(
        |(kind, ports, prefers, tolerates, scope)| {
            let mut own = PodShape::clone(&kind);
            let port = |port| HostPort { port, protocol: text("TCP"), ip: text("0.0.0.0") };
            own.ports = ports.into_iter().map(port).collect();
            own.preferred_nodes = prefers.map(on_node).into_iter().collect();
            own.tolerations = tolerates.then(tolerating).into_iter().collect();
            for term in own.neighbours.as_mut().map(Arc::make_mut).into_iter().flat_map(terms_of) {
                let labels = term.peers.labels.take();
                term.peers = PeerSelector { labels, ..scope.clone() };
            }
            Arc::new(own)
        },
    )
}

fn on_node(at: usize) -> PreferredNodes {
    let (key, values) = (text("metadata.name"), vec![text(format!("n{at}"))]);
    let fields = vec![Requirement { key, operator: Operator::In, values }];
    PreferredNodes { weight: 10, term: NodeSelectorTerm { labels: Vec::new(), fields } }
}

/// What keeps pods off a node, unless they tolerate it.
pub fn taint() -> Taint {
    Taint { key: text(OFF), value: text(""), effect: TaintEffect::NoSchedule }
}

fn tolerating() -> Toleration {
    let operator = TolerationOperator::Exists;
    Toleration { key: text(OFF), operator, value: text(""), effect: None }
}

/// A small node: cpus, pods, and its zone.
type Small = (i64, i64, Option<&'static str>);

fn small() -> impl Strategy<Value = Small> {
    let zone = option::weighted(0.9, prop_oneof![Just("x"), Just("y"), Just("z")]);
    (0..4_i64, 1..5_i64, zone)
}

fn small_node(at: usize, (cpu, pods, zone): Small) -> NodeFacts {
    let mut facts = node(&format!("n{at}"), &[("cpu", cpu), ("pods", pods)]);
    facts.labels.extend(zone.map(|zone| (text(ZONE), text(zone))));
    facts
}

/// Small nodes `n0` and so on, in zones or in none.
pub fn nodes() -> impl Strategy<Value = Vec<NodeFacts>> {
    let facts = |(at, of): (usize, Small)| small_node(at, of);
    vec(small(), 1..5).prop_map(move |nodes| nodes.into_iter().enumerate().map(facts).collect())
}

/// The same, some of which keep pods off, or lack the label that has their name.
pub fn odd_nodes() -> impl Strategy<Value = Vec<NodeFacts>> {
    let odd = (small(), prop::bool::weighted(0.15), prop::bool::weighted(0.2));
    vec(odd, 1..5).prop_map(|nodes| {
        let facts = |(at, (of, nameless, off)): (usize, (Small, bool, bool))| {
            let mut facts = small_node(at, of);
            if nameless {
                facts.labels.remove(HOST);
            }
            facts.taints.extend(off.then(taint));
            facts
        };
        nodes.into_iter().enumerate().map(facts).collect()
    })
}

/// A kind of pods that may have several wishes of the pods around them, by three keys, and that
/// requires nothing.
pub fn wishing() -> impl Strategy<Value = Arc<PodShape>> {
    let key = || prop_oneof![Just(text(ZONE)), Just(text(RACK)), Just(text(HOST))];
    let near = (preferred(), key()).prop_map(|(mut preferred, key)| {
        preferred.term.key = key;
        preferred
    });
    let spread = (spread(), key());
    let even = spread.prop_map(|(spread, key)| Spread { key, required: false, ..spread });
    let app = prop_oneof![Just("a"), Just("b")];
    (app, vec(near, 0..4), vec(even, 0..4)).prop_map(|(app, preferred, spread)| {
        let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", app)]) };
        let wants = Neighbours { preferred, spread, ..Neighbours::default() };
        Arc::new(PodShape {
            requests: amounts(&[("cpu", 1)]),
            kin: Some(Arc::new(kin)),
            neighbours: (wants != Neighbours::default()).then(|| Arc::new(wants)),
            ..PodShape::default()
        })
    })
}
