//! Gangs whose members depend on each other's places, on more nodes than are searched: whether the
//! cluster says no or the search ended is told apart.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodShape, Requirement,
};
use capstan_core::time::Time;
use capstan_tests::facts::{TEAM, amounts, gang, in_queue, labels, namespace, node, text};
use capstan_tests::kinds::ZONE;

const RACK: &str = "rack";

/// Zones of nodes with room for one each, in these racks of their zone.
struct Floor<'a> {
    zones: usize,
    racks: &'a [usize],
}

/// Zones of four nodes.
fn four(zones: usize) -> Floor<'static> {
    Floor { zones, racks: &[0, 1, 2, 3] }
}

/// Zones of five nodes, two of them in one rack.
fn five_in_four_racks(zones: usize) -> Floor<'static> {
    Floor { zones, racks: &[0, 1, 2, 3, 3] }
}

/// Pods of the gang, within a domain of this key.
fn own(key: &str) -> PeerTerm {
    let any = Requirement { key: text("app"), operator: Operator::Exists, values: vec![] };
    let (namespaces, labels) = (vec![text(TEAM)], Some(vec![any]));
    PeerTerm {
        key: text(key),
        peers: PeerSelector { namespaces, namespace_selector: None, labels },
    }
}

/// What is told to a gang of so many who want each other in one zone, and no two in one rack.
fn told(floor: &Floor<'_>, members: u32) -> String {
    let wants = Neighbours {
        affinity: vec![own(ZONE)],
        anti_affinity: vec![own(RACK)],
        ..Neighbours::default()
    };
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", "a")]) };
    let shape = Arc::new(PodShape {
        requests: amounts(&[("cpu", 1)]),
        kin: Some(Arc::new(kin)),
        neighbours: Some(Arc::new(wants)),
        ..PodShape::default()
    });
    let mut facts = vec![namespace()];
    for zone in 0..floor.zones {
        for (at, rack) in floor.racks.iter().enumerate() {
            let mut facts_of = node(&format!("n{zone:03}-{at}"), &[("cpu", 1)]);
            facts_of.labels.insert(text(ZONE), text(zone));
            facts_of.labels.insert(text(RACK), text(format!("{zone}-{rack}")));
            facts.push(Input::Node(facts_of.into()));
        }
    }
    let pods = gang("g", members, None, &shape, &in_queue(None));
    facts.extend(pods.into_iter().map(Input::Pod));
    let mut engine = Engine::new();
    engine.step(Time(1_000_000), facts);
    let views = engine.workloads();
    let reason = views.iter().find_map(|view| view.reason.as_ref());
    reason.expect("it waits").to_string()
}

/// No sum says no: a zone has five nodes for five members, and too few racks.
#[test]
fn the_bound_of_the_search_says_so() {
    let says = told(&five_in_four_racks(64), 5);
    assert!(says.contains("on up to 256 nodes"), "{says}");
}

/// Where everything was looked at, no zone has nodes for all, or more members came than there is
/// room for, the cluster says no.
#[test]
fn the_cluster_says_no_by_itself() {
    for (floor, members) in
        [(five_in_four_racks(2), 5), (four(2), 5), (four(80), 5), (four(80), 321)]
    {
        let says = told(&floor, members);
        assert!(!says.contains("earch"), "{says}");
    }
}
