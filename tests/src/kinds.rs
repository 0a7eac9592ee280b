//! proptest strategies: kinds of pods that want each other near, away, or spread, with few labels
//! and keys, so that most of them mean each other.

use std::sync::Arc;

use capstan_core::model::input::{
    Kin, LabelSelector, Neighbours, Operator, PeerSelector, PeerTerm, PodShape, PreferredPeers,
    Requirement, Spread, Text,
};
use capstan_core::rules::neighbours::Tenancy;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::facts::{TEAM, amounts, labels, text};

/// The key of domains of several nodes.
pub const ZONE: &str = "zone";
/// Another such key: its domains lie across zones.
pub const RACK: &str = "rack";
const HOST: &str = "kubernetes.io/hostname";

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
    let tenancy = prop_oneof![
        13 => Just(Tenancy::Staying),
        4 => Just(Tenancy::Leaving),
        3 => Just(Tenancy::Nominated),
    ];
    (kind(), 0..8_usize, tenancy)
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
