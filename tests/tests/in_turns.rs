//! Gangs in slices, sets that have domains of their own, and sets each of which asks for something
//! else, whose members want each other near, away, or spread: against every order and every choice
//! of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts, PodShape, Requirement,
    SetLevels, SliceWish, Spread, Text, Wishes,
};
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed, sized};
use capstan_tests::facts::{TEAM, amounts, gang, in_queue, labels, namespace, node, text};
use capstan_tests::hand::binds;
use capstan_tests::kinds::{ZONE, kind, picky};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
/// Levels of the topology: the first is the key `zone` of other tests, too.
const LEVELS: [&str; 2] = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];

/// What is asked of the topology.
#[derive(Clone, Debug)]
enum Ask {
    /// Slices of so many in one domain of a level each; all of the gang in one zone.
    Slices { level: usize, size: u32, in_one_zone: bool },
    /// Each set in one domain of a level.
    Sets { level: usize },
    /// All of the gang in one domain of a level.
    Whole { level: usize },
    /// Each set as its shapes say.
    Own,
}

/// What is asked for one set: all of it in one domain of a level, and slices.
type OfSet = (Option<usize>, Option<(usize, u32)>);

#[derive(Clone, Debug)]
struct Case {
    /// Cpus, pods, and zone of each node.
    nodes: Vec<(i64, i64, Option<&'static str>)>,
    members: Vec<Arc<PodShape>>,
    ask: Ask,
}

/// A member: its shape, and its slice where it matters who is in which.
type Member = (Arc<PodShape>, usize);

/// Who is where.
type Places = Vec<(Member, usize)>;

fn case() -> impl Strategy<Value = Case> {
    let zone = option::weighted(0.9, prop_oneof![Just("x"), Just("y")]);
    let nodes = vec((0..4_i64, 1..5_i64, zone), 1..4);
    let kind = prop_oneof![kind(), picky()];
    let members = vec((kind, own(), 1..5_usize), 1..3).prop_map(|kinds| {
        let close = |shape: Arc<PodShape>, levels: Option<SetLevels>| {
            let levels = levels.map(Arc::new);
            Arc::new(PodShape { levels, ..PodShape::clone(&shape) })
        };
        let kinds = kinds.into_iter().map(|(kind, own, count)| (close(kind, own), count));
        let all = kinds.flat_map(|(kind, count)| vec![kind; count]);
        let bare = |shape: Arc<PodShape>| {
            let mut own = PodShape::clone(&shape);
            own.requests.remove("pods");
            Arc::new(own)
        };
        all.take(5).map(bare).collect::<Vec<_>>()
    });
    let slices = (0..LEVELS.len(), 1..4_u32, prop::bool::weighted(0.3))
        .prop_map(|(level, size, in_one_zone)| Ask::Slices { level, size, in_one_zone });
    let sets = (0..LEVELS.len()).prop_map(|level| Ask::Sets { level });
    let whole = (0..LEVELS.len()).prop_map(|level| Ask::Whole { level });
    let ask = prop_oneof![2 => slices, 1 => sets, 1 => whole, 2 => Just(Ask::Own)];
    (nodes, members.prop_shuffle(), ask).prop_map(|(nodes, mut members, ask)| {
        if !matches!(ask, Ask::Own) {
            let bare = |shape: &PodShape| Arc::new(PodShape { levels: None, ..shape.clone() });
            members.iter_mut().for_each(|shape| *shape = bare(shape));
        }
        Case { nodes, members, ask }
    })
}

/// What a set asks for by itself.
fn own() -> impl Strategy<Value = Option<SetLevels>> {
    let level = || 0..LEVELS.len();
    let slices = option::weighted(0.4, (level(), 1..4_u32));
    let levels = (option::weighted(0.6, level()), slices).prop_map(|(required, slices)| {
        let slices = slices.map(|(level, size)| SliceWish { level: text(LEVELS[level]), size });
        let required = required.map(|level| text(LEVELS[level]));
        SetLevels { required, slices, preferred: None }
    });
    option::weighted(0.7, levels)
}

/// What members of one set have in common.
fn set_of(shape: &PodShape) -> PodShape {
    PodShape { kin: None, ..shape.clone() }
}

impl Case {
    fn wishes(&self) -> Arc<Wishes> {
        let mut wishes = Wishes::clone(&in_queue(None));
        let topology = &mut wishes.topology;
        match &self.ask {
            Ask::Slices { level, size, in_one_zone } => {
                topology.slices = Some(SliceWish { level: text(LEVELS[*level]), size: *size });
                topology.required = in_one_zone.then(|| text(LEVELS[0]));
            }
            Ask::Sets { level } => {
                topology.required = Some(text(LEVELS[*level]));
                topology.per_pod_set = true;
            }
            Ask::Whole { level } => topology.required = Some(text(LEVELS[*level])),
            Ask::Own => {}
        }
        Arc::new(wishes)
    }

    /// What is asked for a set, of what is not asked of the whole gang.
    fn asked(&self, set: &PodShape) -> OfSet {
        let at = |name: &Text| LEVELS.iter().position(|level| *level == &**name).expect("known");
        match &self.ask {
            Ask::Sets { level } => (Some(*level), None),
            Ask::Slices { level, size, .. } => (None, Some((*level, *size))),
            Ask::Whole { .. } => (None, None),
            Ask::Own => {
                let own = set.levels.as_deref().cloned().unwrap_or_default();
                let slices = own.slices.map(|slices| (at(&slices.level), slices.size));
                (own.required.as_ref().map(at), slices)
            }
        }
    }

    fn model(&self) -> Cluster {
        let nodes = self.nodes.iter().enumerate().map(|(at, (cpu, pods, zone))| {
            let mut facts = node(&format!("n{at}"), &[("cpu", *cpu), ("pods", *pods)]);
            for key in [ZONE, LEVELS[0]] {
                facts.labels.extend(zone.map(|zone| (text(key), text(zone))));
            }
            facts
        });
        Cluster { nodes: nodes.collect(), ..Cluster::default() }
    }

    /// Members in their order. Of sets that have several shapes every so many make a slice.
    fn members(&self) -> Vec<Member> {
        let mut sets: BTreeMap<PodShape, Vec<usize>> = BTreeMap::new();
        for (at, shape) in self.members.iter().enumerate() {
            sets.entry(set_of(shape)).or_default().push(at);
        }
        let mut slices = vec![0; self.members.len()];
        let mixed = sets.iter().filter(|(_, set)| self.is_mixed(set));
        let all = mixed.flat_map(|(shape, set)| {
            let (_, slices) = self.asked(shape);
            slices.into_iter().flat_map(|(_, size)| set.chunks(size as usize))
        });
        for (number, slice) in (1..).zip(all) {
            slice.iter().for_each(|at| slices[*at] = number);
        }
        self.members.iter().map(sized).zip(slices).collect()
    }

    /// Whether a set has members of several shapes.
    fn is_mixed(&self, set: &[usize]) -> bool {
        set.iter().any(|at| self.members[*at] != self.members[set[0]])
    }

    /// Where members go, by the engine.
    fn decided(&self) -> Places {
        let mut engine = Engine::new();
        let count = self.members.len() as u32;
        let mut pods: Vec<PodFacts> =
            gang("g", count, Some(count), &self.members[0], &self.wishes());
        for (pod, shape) in pods.iter_mut().zip(&self.members) {
            pod.shape = shape.clone();
        }
        let model = self.model();
        let mut facts = vec![namespace()];
        facts.extend(model.nodes.iter().cloned().map(|it| Input::Node(it.into())));
        facts.extend(pods.iter().cloned().map(Input::Pod));
        let output = engine.step(NOW, facts);
        engine.recount();
        let members = self.members();
        let placed = binds(&output).into_iter().map(|(name, node)| {
            let member = pods.iter().position(|pod| *pod.name == *name).expect("a member");
            let at = model.nodes.iter().position(|it| *it.name == *node);
            (members[member].clone(), at.expect("a node"))
        });
        placed.collect()
    }

    /// Whether these places are what is asked of the topology.
    fn keeps(&self, places: &Places) -> bool {
        let model = self.model();
        let domain = |level: usize, at: usize| model.nodes[at].labels.get(LEVELS[level]);
        let mut sets: BTreeMap<PodShape, Vec<usize>> = BTreeMap::new();
        let mut counted = sets.clone();
        let mut told: BTreeMap<(PodShape, usize), Vec<usize>> = BTreeMap::new();
        for ((shape, slice), at) in places {
            let set = set_of(shape);
            sets.entry(set.clone()).or_default().push(*at);
            match slice {
                0 => counted.entry(set).or_default().push(*at),
                _ => told.entry((set, *slice)).or_default().push(*at),
            }
        }
        let counts = |level: usize, nodes: &[usize]| -> Option<BTreeMap<&Text, u32>> {
            let mut counts = BTreeMap::new();
            for at in nodes {
                *counts.entry(domain(level, *at)?).or_default() += 1;
            }
            Some(counts)
        };
        let one = |level: usize, nodes: &[usize]| {
            counts(level, nodes).is_some_and(|counts| counts.len() == 1)
        };
        let in_slices = |level: usize, size: u32, nodes: &[usize]| {
            let counts = counts(level, nodes);
            counts.is_some_and(|it| it.values().filter(|it| *it % size > 0).count() < 2)
        };
        let all: Vec<usize> = places.iter().map(|(_, at)| *at).collect();
        let whole = match self.ask {
            Ask::Slices { in_one_zone: true, .. } => Some(0),
            Ask::Whole { level } => Some(level),
            _ => None,
        };
        let is_known = |level: usize| (0..model.nodes.len()).any(|at| domain(level, at).is_some());
        whole.is_none_or(|level| one(level, &all))
            && sets.iter().all(|(set, nodes)| {
                let (required, slices) = self.asked(set);
                let sliced = |(level, size): (usize, u32)| {
                    // Within their level or an inner one they are no slices of their own.
                    if whole.max(required).is_some_and(|outer| outer >= level) {
                        return is_known(level);
                    }
                    let mut told = told.iter().filter(|((of, _), _)| of == set);
                    counted.get(set).is_none_or(|nodes| in_slices(level, size, nodes))
                        && told.all(|(_, nodes)| one(level, nodes))
                };
                required.is_none_or(|level| one(level, nodes)) && slices.is_none_or(sliced)
            })
    }

    /// Whether some order and some nodes get all in and keep to what is asked.
    fn can_be_placed(&self) -> bool {
        let mut model = self.model();
        let mut left: BTreeMap<Member, u32> = BTreeMap::new();
        self.members().into_iter().for_each(|member| *left.entry(member).or_default() += 1);
        self.search(&mut model, &mut left, &mut Vec::new(), &mut BTreeSet::new())
    }

    fn search(
        &self,
        model: &mut Cluster,
        left: &mut BTreeMap<Member, u32>,
        places: &mut Places,
        seen: &mut BTreeSet<Places>,
    ) -> bool {
        if places.len() == self.members.len() {
            return self.keeps(places);
        }
        let mut state = places.clone();
        state.sort();
        if !seen.insert(state) {
            return false;
        }
        let kinds = left.iter().filter(|(_, count)| **count > 0);
        let kinds: Vec<Member> = kinds.map(|(member, _)| member.clone()).collect();
        for member in kinds {
            let shape = &member.0;
            let takes = |at: &usize| model.takes(*at, shape);
            for node in (0..self.nodes.len()).filter(takes).collect::<Vec<_>>() {
                model.placed.push(Placed::new(node, shape.clone()));
                places.push((member.clone(), node));
                *left.get_mut(&member).expect("listed") -= 1;
                let found = self.search(model, left, places, seen);
                *left.get_mut(&member).expect("listed") += 1;
                places.pop();
                model.placed.pop();
                if found {
                    return true;
                }
            }
        }
        false
    }
}

/// Found by the property below: the large member keeps the others away from its node, and only the
/// one of which they make least use leaves enough for all of them.
#[test]
fn the_node_of_least_use_to_others_is_found() {
    let a = Requirement { key: text("app"), operator: Operator::In, values: vec![text("a")] };
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(vec![a]),
    };
    let apart = vec![PeerTerm { key: text(LEVELS[1]), peers }];
    let kin =
        |own: &[(&str, &str)]| Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(own) }));
    let small = Arc::new(PodShape {
        kin: kin(&[]),
        neighbours: Some(Arc::new(Neighbours { anti_affinity: apart, ..Neighbours::default() })),
        ..PodShape::default()
    });
    let requests = amounts(&[("cpu", 2)]);
    let large = Arc::new(PodShape { requests, kin: kin(&[("app", "a")]), ..PodShape::default() });
    let members = [vec![small; 4], vec![large]].concat();
    let nodes = vec![(3, 3, Some("x")), (2, 1, Some("x")), (1, 1, Some("x"))];
    let ask = Ask::Slices { level: 0, size: 1, in_one_zone: false };
    let case = Case { nodes, members, ask };
    let places = case.decided();
    let large = places.iter().find(|((shape, _), _)| shape.requests.contains_key("cpu"));
    assert_eq!(large.map(|(_, node)| *node), Some(1));
}

/// They are put down in turns, one in each zone, and are next to each other by their order all the
/// same.
#[test]
fn members_that_spread_are_beside_their_neighbours() {
    let a = Requirement { key: text("app"), operator: Operator::In, values: vec![text("a")] };
    let spread = Spread {
        key: text(ZONE),
        max_skew: 1,
        min_domains: 1,
        labels: Some(vec![a]),
        required: true,
        honors_affinity: true,
        honors_taints: false,
    };
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", "a")]) };
    let member = Arc::new(PodShape {
        requests: amounts(&[("cpu", 1)]),
        kin: Some(Arc::new(kin)),
        neighbours: Some(Arc::new(Neighbours { spread: vec![spread], ..Neighbours::default() })),
        ..PodShape::default()
    });
    let model = Case {
        nodes: vec![(9, 9, Some("x")), (9, 9, Some("y"))],
        members: Vec::new(),
        ask: Ask::Sets { level: 0 },
    }
    .model();
    let mut facts: Vec<Input> = model.nodes.into_iter().map(|it| Input::Node(it.into())).collect();
    facts.extend(gang("g", 6, None, &member, &in_queue(None)).into_iter().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    let nodes: Vec<String> = binds(&output).into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 6);
    assert!(nodes[..3].iter().all(|node| *node == nodes[0]), "{nodes:?}");
    assert!(nodes[3..].iter().all(|node| *node == nodes[5] && *node != nodes[0]), "{nodes:?}");
}

/// Two workers and their leader, each set in one zone; the first worker runs on the first node, the
/// others are lost. Workers want a leader in their zone. Who is bound, and where.
fn joined(nodes: Vec<(i64, i64, Option<&'static str>)>) -> Vec<(String, String)> {
    let worker = Arc::new(PodShape {
        requests: amounts(&[("cpu", 1)]),
        kin: kin(&[("app", "b")]),
        neighbours: near_a(),
        ..PodShape::default()
    });
    let (requests, kin) = (amounts(&[("cpu", 2)]), kin(&[("app", "a")]));
    let leader = Arc::new(PodShape { requests, kin, ..PodShape::default() });
    let members = vec![worker.clone(), worker, leader];
    join(&Case { nodes, members, ask: Ask::Sets { level: 0 } }, &[0])
}

fn kin(of: &[(&str, &str)]) -> Option<Arc<Kin>> {
    Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(of) }))
}

/// Somebody of an app in the same zone.
fn near_a() -> Option<Arc<Neighbours>> {
    let a = Requirement { key: text("app"), operator: Operator::In, values: vec![text("a")] };
    let namespaces = vec![text(TEAM)];
    let peers = PeerSelector { namespaces, namespace_selector: None, labels: Some(vec![a]) };
    let affinity = vec![PeerTerm { key: text(ZONE), peers }];
    Some(Arc::new(Neighbours { affinity, ..Neighbours::default() }))
}

/// Who is bound of a gang of which these run on the first node, and where.
fn join(case: &Case, run: &[usize]) -> Vec<(String, String)> {
    let count = case.members.len() as u32;
    let mut pods = gang("g", count, Some(count), &case.members[0], &case.wishes());
    for (pod, shape) in pods.iter_mut().zip(&case.members) {
        pod.shape = shape.clone();
    }
    run.iter().for_each(|at| pods[*at].node = Some(text("n0")));
    let nodes = case.model().nodes.into_iter().map(|it| Input::Node(it.into()));
    let facts = [namespace()].into_iter().chain(nodes).chain(pods.into_iter().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts.collect());
    engine.recount();
    binds(&output)
}

/// Each of two sets has a domain of its own, and both lost a member. The one that comes first wants
/// the other one near, and joins after it.
#[test]
fn who_waits_for_another_set_joins_after_it() {
    let names = joined(vec![(9, 9, Some("x"))]).into_iter().map(|(name, _)| name);
    assert_eq!(names.collect::<Vec<_>>(), ["g-1", "g-2"]);
}

/// Nothing of the leader's is anywhere, so that it might go to either zone; but in one of them its
/// workers are, whichever it would choose by itself.
#[test]
fn a_set_that_joins_chooses_the_domain_in_which_another_one_is() {
    for (here, there) in [(9, 2), (9, 90), (4, 9)] {
        let bound = joined(vec![(here, 9, Some("x")), (there, 9, Some("y"))]);
        let want =
            [("g-1", "n0"), ("g-2", "n0")].map(|(pod, node)| (pod.to_owned(), node.to_owned()));
        assert_eq!(bound, want, "{here} {there}");
    }
}

/// Each of two sets goes in slices of two, and one of them wants the other in its zone. A slice of
/// each runs, the others are lost: the tightest zone has room for those alone who are wanted.
#[test]
fn slices_that_join_go_where_another_set_needs_them() {
    for labelled in [false, true] {
        let member = |at: usize| {
            let (app, index) = (if at < 4 { "a" } else { "b" }, at.to_string());
            let own = [("app", app), ("index", index.as_str())];
            let slices = Some(SliceWish { level: text(LEVELS[0]), size: 2 });
            Arc::new(PodShape {
                requests: amounts(&[("cpu", 1)]),
                kin: kin(&own[..1 + usize::from(labelled)]),
                neighbours: near_a().filter(|_| app == "b"),
                levels: Some(Arc::new(SetLevels { slices, ..SetLevels::default() })),
                ..PodShape::default()
            })
        };
        let nodes = vec![(4, 9, Some("x")), (2, 9, Some("y")), (4, 9, Some("z"))];
        let case = Case { nodes, members: (0..8).map(member).collect(), ask: Ask::Own };
        let want = ["g-2", "g-3", "g-6", "g-7"].map(|pod| (pod.to_owned(), "n2".to_owned()));
        assert_eq!(join(&case, &[0, 1, 4, 5]), want, "{labelled}");
    }
}

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

proptest! {
    #![proptest_config(config(10_000))]

    /// A gang is placed if and only if some order and some nodes do, and then as was asked.
    #[test]
    fn a_gang_that_can_go_in_turns_is_placed(case in case()) {
        let decided = case.decided();
        if decided.is_empty() {
            prop_assert!(!case.can_be_placed(), "it could have been placed");
        } else {
            prop_assert_eq!(decided.len(), case.members.len(), "all or none");
            prop_assert!(case.keeps(&decided), "not as asked: {decided:?}");
            let places: Vec<_> = decided.into_iter().map(|((shape, _), at)| (shape, at)).collect();
            prop_assert!(case.model().comes_about(&places), "it breaks a rule: {places:?}");
        }
    }
}
