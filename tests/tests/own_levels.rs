//! Pod sets of one gang that ask for different levels and slices: each has its own, whichever comes
//! first. Fed by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{Input, PodFacts, PodShape, SetLevels, SliceWish};
use capstan_core::time::Time;
use capstan_tests::facts::{gang, in_queue, namespace, node, shape, text};
use capstan_tests::hand::{binds, view};

const NOW: Time = Time(1_000_000);
const RACK: &str = "topology.kubernetes.io/rack";

/// Racks of nodes and their cpus.
type Nodes<'a> = &'a [(&'a str, i64)];
/// Members of a set, and what is asked for it.
type Set = (u32, Option<SetLevels>);

fn required() -> Option<SetLevels> {
    Some(SetLevels { required: Some(text(RACK)), ..SetLevels::default() })
}

fn preferred(level: &str) -> Option<SetLevels> {
    Some(SetLevels { preferred: Some(text(level)), ..SetLevels::default() })
}

fn slices_of(size: u32) -> Option<SetLevels> {
    let slices = Some(SliceWish { level: text(RACK), size });
    Some(SetLevels { slices, ..SetLevels::default() })
}

/// A gang of sets whose members ask one cpu each.
fn members(sets: &[Set]) -> Vec<PodFacts> {
    let shape = shape(&[("cpu", 1)]);
    let shapes = sets.iter().flat_map(|(count, levels)| {
        let levels = levels.clone().map(Arc::new);
        let own = Arc::new(PodShape { levels, ..PodShape::clone(&shape) });
        vec![own; *count as usize]
    });
    let shapes: Vec<Arc<PodShape>> = shapes.collect();
    let count = shapes.len() as u32;
    let mut pods = gang("g", count, Some(count), &shape, &in_queue(None));
    pods.iter_mut().zip(shapes).for_each(|(pod, shape)| pod.shape = shape);
    pods
}

fn engine(nodes: Nodes<'_>, pods: &[PodFacts]) -> (Engine, Vec<(String, String)>) {
    let mut facts = vec![namespace()];
    for (at, (rack, cpus)) in nodes.iter().enumerate() {
        let mut node = node(&format!("n{at}"), &[("cpu", *cpus)]);
        node.labels.insert(text(RACK), text(rack));
        facts.push(Input::Node(node.into()));
    }
    facts.extend(pods.iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    engine.recount();
    (engine, binds(&output))
}

/// How many members of each set are in each rack.
fn racks(nodes: Nodes<'_>, sets: &[Set]) -> Vec<BTreeMap<String, u32>> {
    let pods = members(sets);
    let (_, bound) = engine(nodes, &pods);
    let mut racks = vec![BTreeMap::new(); sets.len()];
    let of: Vec<usize> = (0..).zip(sets).flat_map(|(at, set)| vec![at; set.0 as usize]).collect();
    for (name, node) in bound {
        let member = pods.iter().position(|pod| *pod.name == *name).expect("a member");
        let at: usize = node.strip_prefix('n').and_then(|at| at.parse().ok()).expect("a node");
        *racks[of[member]].entry(nodes[at].0.to_owned()).or_default() += 1;
    }
    racks
}

fn counts(list: &[(&str, u32)]) -> BTreeMap<String, u32> {
    list.iter().map(|(rack, count)| ((*rack).to_owned(), *count)).collect()
}

/// The sets in their order, and the other way round.
fn in_both_orders(nodes: Nodes<'_>, [one, other]: [Set; 2]) -> [[BTreeMap<String, u32>; 2]; 2] {
    let two = |sets: &[Set]| -> [BTreeMap<String, u32>; 2] {
        racks(nodes, sets).try_into().expect("one for each set")
    };
    let there = two(&[one.clone(), other.clone()]);
    let [second, first] = two(&[other, one]);
    [there, [first, second]]
}

#[test]
fn who_asks_for_no_rack_leaves_the_others_theirs() {
    // The node where a driver by itself fits best is one that the workers need.
    let nodes = [("a", 1), ("a", 3), ("b", 3)];
    for [driver, workers] in in_both_orders(&nodes, [(1, None), (4, required())]) {
        assert_eq!((driver, workers), (counts(&[("b", 1)]), counts(&[("a", 4)])));
    }
}

#[test]
fn who_asks_for_no_rack_is_not_held_to_one() {
    let nodes = [("a", 4), ("b", 2), ("c", 1)];
    for [spread, workers] in in_both_orders(&nodes, [(3, None), (4, required())]) {
        assert_eq!((spread, workers), (counts(&[("b", 2), ("c", 1)]), counts(&[("a", 4)])));
    }
}

#[test]
fn slices_of_one_set_are_no_slices_of_the_other() {
    // Seven cpus for seven members: the others have to go one to a rack.
    let nodes = [("a", 3), ("b", 3), ("c", 1)];
    for [others, sliced] in in_both_orders(&nodes, [(3, None), (4, slices_of(2))]) {
        assert_eq!(sliced, counts(&[("a", 2), ("b", 2)]));
        assert_eq!(others, counts(&[("a", 1), ("b", 1), ("c", 1)]));
    }
    // Slices of either set by itself.
    for [twos, threes] in in_both_orders(&nodes, [(2, slices_of(2)), (3, slices_of(3))]) {
        assert_eq!([twos.len(), threes.len()], [1, 1], "{twos:?} {threes:?}");
    }
}

#[test]
fn what_one_set_prefers_gives_way_and_what_the_other_needs_does_not() {
    let nodes = [("a", 3), ("b", 2)];
    for [close, needy] in in_both_orders(&nodes, [(2, preferred(RACK)), (3, required())]) {
        assert_eq!((close, needy), (counts(&[("b", 2)]), counts(&[("a", 3)])));
    }
    let nodes = [("a", 3), ("b", 1), ("c", 1)];
    for [close, needy] in in_both_orders(&nodes, [(2, preferred(RACK)), (3, required())]) {
        assert_eq!((close, needy), (counts(&[("b", 1), ("c", 1)]), counts(&[("a", 3)])));
    }
}

#[test]
fn the_set_that_finds_no_rack_is_told() {
    for sets in [[(1, None), (4, required())], [(4, required()), (1, None)]] {
        let (engine, bound) = engine(&[("a", 3), ("b", 3)], &members(&sets));
        assert!(bound.is_empty(), "all or none");
        let says = view(&engine, "g").reason.expect("it waits").to_string();
        let want = format!("no one {RACK} holds 4 pods; a holds most, 3");
        assert!(says.starts_with("pod set ") && says.ends_with(&want), "{says}");
    }
}

#[test]
fn a_level_that_nobody_knows_holds_up_only_who_needs_it() {
    let shelf = Some(SetLevels { required: Some(text("shelf")), ..SetLevels::default() });
    let (held, bound) = engine(&[("a", 9)], &members(&[(1, None), (2, shelf)]));
    let says = view(&held, "g").reason.expect("it waits").to_string();
    assert!(bound.is_empty() && says.starts_with("topology level shelf is unknown"), "{says}");
    let (_, bound) = engine(&[("a", 9)], &members(&[(1, None), (2, preferred("shelf"))]));
    assert_eq!(bound.len(), 3);
}
