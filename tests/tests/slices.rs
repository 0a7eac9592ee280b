//! Gangs in slices, on small clusters: against every choice of racks for each slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, PodFacts, PodPhase, PodShape, Rank, SliceWish, Wishes,
};
use capstan_core::time::Time;
use capstan_tests::facts::{TEAM, gang, in_queue, labels, namespace, node, shape, text};
use capstan_tests::hand::{binds, view};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "topology.kubernetes.io/rack";

/// Nodes by zone, rack (of its zone) and cpus; a gang of members that ask one cpu, and perhaps of
/// some that ask two.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<(u8, u8, i64)>,
    members: [u32; 2],
    size: u32,
    in_one_zone: bool,
    /// Each member has a label of its own that somebody reads: to the engine no two are alike.
    labelled: bool,
}

/// A zone and a rack of it.
type Rack = (u8, u8);

impl Case {
    fn wishes(&self) -> Arc<Wishes> {
        let mut wishes = Wishes::clone(&in_queue(None));
        wishes.topology.slices = Some(SliceWish { level: text(RACK), size: self.size });
        wishes.topology.required = self.in_one_zone.then(|| text(ZONE));
        Arc::new(wishes)
    }

    /// The cluster and these pods, as an engine is told of them.
    fn facts(&self, pods: impl IntoIterator<Item = PodFacts>) -> Vec<Input> {
        let nodes = self.nodes.iter().enumerate().map(|(at, (zone, rack, cpus))| {
            let mut facts = node(&format!("n{at}"), &[("cpu", *cpus)]);
            facts.labels.insert(text(ZONE), text(zone));
            facts.labels.insert(text(RACK), text(format!("{zone}-{rack}")));
            Input::Node(facts.into())
        });
        let pods = pods.into_iter().map(Input::Pod);
        [namespace()].into_iter().chain(nodes).chain(pods).collect()
    }

    fn gang(&self) -> Vec<PodFacts> {
        let shapes = [shape(&[("cpu", 1)]), shape(&[("cpu", 2)])];
        let count: u32 = self.members.iter().sum();
        let mut pods = gang("g", count, Some(count), &shapes[0], &self.wishes());
        pods[self.members[0] as usize..].iter_mut().for_each(|pod| pod.shape = shapes[1].clone());
        for (at, pod) in pods.iter_mut().enumerate().filter(|_| self.labelled) {
            let kin = Kin { namespace: text(TEAM), labels: labels(&[("index", &at.to_string())]) };
            let kin = Some(Arc::new(kin));
            pod.shape = Arc::new(PodShape { kin, ..PodShape::clone(&pod.shape) });
        }
        pods
    }

    /// Where members go, by what they ask.
    fn decided(&self) -> Vec<(Arc<PodShape>, usize)> {
        let (mut engine, pods) = (Engine::new(), self.gang());
        let output = engine.step(NOW, self.facts(pods.iter().cloned()));
        engine.recount();
        let placed = binds(&output).into_iter().map(|(name, node)| {
            let pod = pods.iter().find(|pod| *pod.name == *name).expect("a member");
            let at = node.strip_prefix('n').and_then(|at| at.parse().ok()).expect("a node");
            (Arc::new(PodShape { kin: None, ..PodShape::clone(&pod.shape) }), at)
        });
        placed.collect()
    }

    /// How many members of one cpu each rack has room for.
    fn racks(&self) -> BTreeMap<Rack, u32> {
        let mut racks = BTreeMap::new();
        for (zone, rack, cpus) in &self.nodes {
            *racks.entry((*zone, *rack)).or_default() += *cpus as u32;
        }
        racks
    }

    /// Whether slices of these sizes, of members that ask one cpu, find racks.
    fn takes(racks: &mut BTreeMap<Rack, u32>, slices: &[u32]) -> bool {
        let Some((slice, others)) = slices.split_first() else { return true };
        let names: Vec<Rack> = racks.keys().copied().collect();
        names.into_iter().any(|name| {
            let room = racks[&name];
            let takes = room >= *slice && {
                racks.insert(name, room - slice);
                Case::takes(racks, others)
            };
            racks.insert(name, room);
            takes
        })
    }

    /// Whether members of one cpu could go somewhere in slices.
    fn could_go(&self) -> bool {
        let (count, size) = (self.members[0], self.size);
        let mut slices = vec![size; (count / size) as usize];
        slices.extend((count % size > 0).then_some(count % size));
        let racks = self.racks();
        if !self.in_one_zone {
            return Case::takes(&mut racks.clone(), &slices);
        }
        (0..3).any(|zone| {
            let here = racks.iter().filter(|((of, _), _)| *of == zone);
            Case::takes(&mut here.map(|(name, room)| (*name, *room)).collect(), &slices)
        })
    }

    /// What is wrong with where members went.
    fn problem(&self, placed: &[(Arc<PodShape>, usize)]) -> Option<String> {
        if placed.len() as u32 != self.members.iter().sum::<u32>() {
            return Some(format!("{} members are placed", placed.len()));
        }
        let mut by_rack: BTreeMap<(&PodShape, Rack), u32> = BTreeMap::new();
        for (shape, node) in placed {
            let (zone, rack, _) = self.nodes[*node];
            *by_rack.entry((shape, (zone, rack))).or_default() += 1;
        }
        let mut zones: Vec<u8> = by_rack.keys().map(|(_, (zone, _))| *zone).collect();
        zones.dedup();
        zones.sort_unstable();
        zones.dedup();
        if self.in_one_zone && zones.len() > 1 {
            return Some(format!("zones {zones:?}"));
        }
        let mut parts: BTreeMap<&PodShape, Vec<u32>> = BTreeMap::new();
        for ((shape, _), count) in &by_rack {
            parts
                .entry(shape)
                .or_default()
                .extend([count % self.size].iter().filter(|it| **it > 0));
        }
        let more = parts.values().find(|parts| parts.len() > 1);
        more.map(|parts| format!("slices in part: {parts:?}"))
    }
}

fn case(two: bool) -> impl Strategy<Value = Case> {
    let node = (0..3_u8, 0..3_u8, 0..5_i64);
    let twos = if two { 1..7_u32 } else { 0..1_u32 };
    let labelled = prop::bool::weighted(0.3);
    (vec(node, 1..8), 2..9_u32, twos, 1..5_u32, any::<bool>(), labelled).prop_map(
        |(nodes, ones, twos, size, in_one_zone, labelled)| Case {
            nodes,
            members: [ones, twos],
            size,
            in_one_zone,
            labelled,
        },
    )
}

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

proptest! {
    #![proptest_config(config(4_096))]

    /// Members of one kind are placed if and only if each slice finds a rack, and then in slices.
    #[test]
    fn slices_that_find_racks_are_placed(case in case(false)) {
        let placed = case.decided();
        prop_assert_eq!(!placed.is_empty(), case.could_go());
        if !placed.is_empty() {
            prop_assert_eq!(case.problem(&placed), None);
        }
    }

    /// Of two kinds each is in slices of its own, all of it or nothing.
    #[test]
    fn each_kind_has_slices_of_its_own(case in case(true)) {
        let placed = case.decided();
        if !placed.is_empty() {
            prop_assert_eq!(case.problem(&placed), None);
        }
    }
}

/// Slices are cut by index, whenever their members were made; by number where names have one.
#[test]
fn members_with_neighbouring_indices_are_in_one_slice() {
    let nodes = vec![(0, 0, 4), (0, 1, 4), (0, 2, 4)];
    let case = Case { nodes, members: [12, 0], size: 4, in_one_zone: false, labelled: false };
    for indexed in [false, true] {
        let mut pods = case.gang();
        for (at, pod) in pods.iter_mut().enumerate().filter(|_| indexed) {
            (pod.rank, pod.created) = (Rank::Named, Time(1_000 * (at as i64 % 5)));
        }
        let mut engine = Engine::new();
        let output = engine.step(NOW, case.facts(pods.into_iter().rev()));
        engine.recount();
        let mut slices: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (name, node) in binds(&output) {
            let at = name.strip_prefix("g-").and_then(|at| at.parse().ok()).expect("a member");
            slices.entry(node).or_default().push(at);
        }
        slices.values_mut().for_each(|slice| slice.sort_unstable());
        let mut slices: Vec<Vec<usize>> = slices.into_values().collect();
        slices.sort_unstable();
        assert_eq!(slices, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], "{indexed}");
    }
}

/// What is left over is the last member, also where that goes beside a slice in the first rack.
#[test]
fn what_is_left_over_is_the_last_member() {
    let nodes = vec![(0, 0, 3), (0, 1, 2)];
    let case = Case { nodes, members: [5, 0], size: 2, in_one_zone: false, labelled: false };
    let placed = binds(&Engine::new().step(NOW, case.facts(case.gang())));
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n1", "n1", "n0", "n0", "n0"]);
}

/// Who comes for a member that was lost goes where the others of its slice are.
#[test]
fn a_slice_gets_its_member_back() {
    [false, true].into_iter().for_each(gets_its_member_back);
}

fn gets_its_member_back(labelled: bool) {
    let nodes = vec![(0, 0, 2), (0, 1, 4)];
    let case = Case { nodes, members: [4, 0], size: 2, in_one_zone: false, labelled };
    let (mut engine, mut pods) = (Engine::new(), case.gang());
    for (pod, node) in pods.iter_mut().zip(["n0", "", "n1", "n1"]) {
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let output = engine.step(NOW, case.facts(pods));
    let placed = binds(&output);
    assert_eq!(placed.len(), 1);
    assert_eq!(&*placed[0].1, "n0");
}

/// Of two slices one member each is lost: each goes back to its own, whichever rack is tighter.
#[test]
fn each_slice_gets_its_own_member_back() {
    for rooms in [(4, 2), (2, 4)] {
        [false, true].into_iter().for_each(|labelled| each_gets_its_own_back(rooms, labelled));
    }
}

fn each_gets_its_own_back(rooms: (i64, i64), labelled: bool) {
    let nodes = vec![(0, 0, rooms.0), (0, 1, rooms.1)];
    let case = Case { nodes, members: [4, 0], size: 2, in_one_zone: false, labelled };
    let mut pods = case.gang();
    for (pod, node) in pods.iter_mut().zip(["n0", "", "", "n1"]) {
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let placed = binds(&Engine::new().step(NOW, case.facts(pods)));
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n0", "n1"], "{rooms:?} {labelled}");
}

/// Two slices of a rack lost a member each: both go back there, though another rack is tighter, or
/// could take more of those that join.
#[test]
fn members_of_several_slices_go_back_to_their_rack() {
    for labelled in [false, true] {
        go_back_to_their_rack(&[(0, 0, 5), (0, 1, 2)], &["", "n0", "", "n0"], labelled);
        let places = ["", "n0", "", "n0", "", "n1", "", "n1"];
        go_back_to_their_rack(&[(0, 0, 8), (0, 1, 6)], &places, labelled);
    }
}

fn go_back_to_their_rack(nodes: &[(u8, u8, i64)], places: &[&str], labelled: bool) {
    let (nodes, members) = (nodes.to_vec(), [places.len() as u32, 0]);
    let case = Case { nodes, members, size: 2, in_one_zone: false, labelled };
    let mut pods = case.gang();
    for (pod, node) in pods.iter_mut().zip(places) {
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let placed = binds(&Engine::new().step(NOW, case.facts(pods)));
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    let others: Vec<&str> = places.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(nodes, others, "{labelled}");
}

/// A slice lacks a member and its rack is full: that is why it waits, though another rack has room.
#[test]
fn who_fits_into_no_slice_is_not_said_to_lack_quota() {
    for labelled in [false, true] {
        let nodes = vec![(0, 0, 1), (0, 1, 2), (0, 2, 2)];
        let case = Case { nodes, members: [4, 0], size: 2, in_one_zone: false, labelled };
        let (mut engine, mut pods) = (Engine::new(), case.gang());
        for (pod, node) in pods.iter_mut().zip(["n0", "", "n1", "n1"]) {
            pod.node = Some(text(node)).filter(|node| !node.is_empty());
        }
        assert!(binds(&engine.step(NOW, case.facts(pods))).is_empty());
        let why = view(&engine, "g").reason.map(|why| why.to_string()).unwrap_or_default();
        let says = "for the others 1 pod fits one by one, not in slices of 2 pods";
        assert!(why.contains(says), "{why} {labelled}");
        engine.recount();
    }
}

/// Who comes for a member that is being deleted waits for its place: those who leave are no part of
/// any slice.
#[test]
fn a_slice_waits_for_the_place_of_who_leaves() {
    let nodes = vec![(0, 0, 2), (0, 1, 4)];
    let case = Case { nodes, members: [5, 0], size: 2, in_one_zone: false, labelled: false };
    let (mut engine, mut pods) = (Engine::new(), case.gang());
    for (pod, node) in pods.iter_mut().zip(["n0", "n0", "n1", "n1", ""]) {
        pod.gang.min_member = Some(4);
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    (pods[1].phase, pods[1].terminating) = (PodPhase::Running, true);
    let left = pods[1].uid.clone();
    assert!(binds(&engine.step(NOW, case.facts(pods))).is_empty());
    let output = engine.step(NOW, vec![Input::PodGone(left)]);
    engine.recount();
    assert_eq!(binds(&output), [("g-4".to_owned(), "n0".to_owned())]);
}

/// A member that somebody else put into another zone keeps nobody from the others.
#[test]
fn who_strays_keeps_no_slice_from_its_zone() {
    let nodes = vec![(0, 0, 4), (1, 0, 1)];
    let case = Case { nodes, members: [4, 0], size: 2, in_one_zone: true, labelled: false };
    let mut pods = case.gang();
    for (pod, node) in pods.iter_mut().zip(["n0", "n0", "n1", ""]) {
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let placed = binds(&Engine::new().step(NOW, case.facts(pods)));
    assert_eq!(placed, [("g-3".to_owned(), "n0".to_owned())]);
}

/// A set that joins others goes into one domain of the required level, too, wherever those are.
#[test]
fn a_set_that_joins_keeps_to_one_zone() {
    let nodes = vec![(0, 0, 2), (1, 0, 4), (2, 0, 4), (2, 1, 4)];
    let case = Case { nodes, members: [2, 4], size: 2, in_one_zone: true, labelled: false };
    let mut wishes = Wishes::clone(&case.wishes());
    wishes.topology.per_pod_set = true;
    let wishes = Arc::new(wishes);
    let mut pods = case.gang();
    for (pod, node) in pods.iter_mut().zip(["n0", "n0", "", "", "", ""]) {
        pod.wishes = wishes.clone();
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let placed = binds(&Engine::new().step(NOW, case.facts(pods)));
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n2", "n2", "n3", "n3"]);
}

/// Of a slice of four and one of two three are lost: they go where there is room for all three.
#[test]
fn a_slice_in_part_is_completed_where_there_is_room() {
    [false, true].into_iter().for_each(is_completed_where_there_is_room);
}

fn is_completed_where_there_is_room(labelled: bool) {
    let nodes = vec![(0, 0, 4), (0, 1, 2)];
    let case = Case { nodes, members: [6, 0], size: 4, in_one_zone: false, labelled };
    let (mut engine, mut pods) = (Engine::new(), case.gang());
    for (pod, node) in pods.iter_mut().zip(["n0", "", "", "", "n1", "n1"]) {
        pod.node = Some(text(node)).filter(|node| !node.is_empty());
    }
    let placed = binds(&engine.step(NOW, case.facts(pods)));
    let nodes: Vec<&str> = placed.iter().map(|(_, node)| node.as_str()).collect();
    assert_eq!(nodes, ["n0"; 3]);
}
