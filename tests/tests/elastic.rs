//! Elastic gangs whose members exclude each other (by host ports, by a wish to be away from others
//! on a node, by volumes of a node): against every choice of whom to leave out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::view::WorkloadView;
use capstan_core::model::input::{
    ClaimUse, HostPort, Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts,
    PodPhase, PodShape, PodVolumes, Requirement, StorageFact,
};
use capstan_core::plan::Action;
use capstan_core::time::Time;
use capstan_tests::disks::{claim, class, key, volume};
use capstan_tests::facts::{
    TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue, namespace,
    node, nominal, pod, shape, text,
};
use capstan_tests::hand::{binds, evicted, view};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const HOST: &str = "kubernetes.io/hostname";
const POOL: &str = "pool";

/// A member by what it keeps from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    cpu: i64,
    /// Host ports.
    ports: BTreeSet<u16>,
    /// What it is called by those who keep away from it.
    app: Option<u8>,
    /// Whom it keeps away from on its node.
    away: Option<u8>,
    /// It has a claim of its own, for which there are volumes on nodes.
    claims: bool,
}

/// Nodes (cpus, pods, volumes), a gang, and how many of it must start.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<(i64, i64, usize)>,
    members: Vec<Member>,
    least: usize,
    /// Flavors of its queue, to which nodes belong in turn; 0: it is in no queue.
    flavors: usize,
}

impl Member {
    fn shape(&self, at: usize) -> Arc<PodShape> {
        let app = self.app.map(|app| labels(&[("app", &app.to_string())])).unwrap_or_default();
        let peers = |app: u8| PeerSelector {
            namespaces: vec![text(TEAM)],
            namespace_selector: None,
            labels: Some(vec![Requirement {
                key: text("app"),
                operator: Operator::In,
                values: vec![text(app)],
            }]),
        };
        let apart = |app: u8| PeerTerm { key: text(HOST), peers: peers(app) };
        let neighbours = self.away.map(|app| {
            let anti_affinity = vec![apart(app)];
            Arc::new(Neighbours { anti_affinity, ..Neighbours::default() })
        });
        let port =
            |port: &u16| HostPort { port: *port, protocol: text("TCP"), ip: text("0.0.0.0") };
        let volumes = self.claims.then(|| {
            let claims = vec![ClaimUse { claim: key(&format!("c{at}")), made_for: None }];
            Arc::new(PodVolumes { claims, ..PodVolumes::default() })
        });
        Arc::new(PodShape {
            requests: amounts(&[("cpu", self.cpu)]),
            ports: self.ports.iter().map(port).collect(),
            kin: Some(Arc::new(Kin { namespace: text(TEAM), labels: app })),
            neighbours,
            volumes,
            ..PodShape::default()
        })
    }

    fn excludes(&self, other: &Member) -> bool {
        let away = |one: &Member, other: &Member| one.away.is_some() && one.away == other.app;
        !self.ports.is_disjoint(&other.ports) || away(self, other) || away(other, self)
    }
}

impl Case {
    fn new(nodes: &[(i64, i64, usize)], members: Vec<Member>, least: usize) -> Case {
        Case { nodes: nodes.to_vec(), members, least, flavors: 0 }
    }

    /// Whether a member may go to a node beside those that are there.
    fn takes(&self, there: &[(usize, usize)], at: usize, node: usize) -> bool {
        let (cpus, pods, volumes) = self.nodes[node];
        let here = || there.iter().filter(|(_, on)| *on == node).map(|(at, _)| &self.members[*at]);
        let own = &self.members[at];
        let used: i64 = here().map(|other| other.cpu).sum();
        let claims = here().filter(|other| other.claims).count();
        used + own.cpu <= cpus
            && (here().count() as i64) < pods
            && (!own.claims || claims < volumes)
            && !here().any(|other| own.excludes(other))
            && self.one_flavor(there, at, node)
    }

    /// Members of a kind that are charged for something get one flavor.
    fn one_flavor(&self, there: &[(usize, usize)], at: usize, node: usize) -> bool {
        let flavors = self.flavors.max(1);
        let own = &self.members[at];
        let alike = |other: &&(usize, usize)| !own.claims && self.members[other.0] == *own;
        own.cpu == 0 || there.iter().filter(alike).all(|(_, on)| on % flavors == node % flavors)
    }

    /// The most members that go, by trying all.
    fn most(&self) -> usize {
        self.most_from(0, &mut Vec::new())
    }

    fn most_from(&self, at: usize, there: &mut Vec<(usize, usize)>) -> usize {
        if at == self.members.len() {
            return there.len();
        }
        let mut most = self.most_from(at + 1, there);
        for node in 0..self.nodes.len() {
            if most == there.len() + self.members.len() - at {
                return most;
            }
            if self.takes(there, at, node) {
                there.push((at, node));
                most = most.max(self.most_from(at + 1, there));
                there.pop();
            }
        }
        most
    }

    fn facts(&self) -> Vec<Input> {
        let mut all = vec![namespace()];
        let flavors = self.flavors.max(1);
        for (at, (cpus, pods, volumes)) in self.nodes.iter().enumerate() {
            let mut facts = node(&format!("n{at}"), &[("cpu", *cpus), ("pods", *pods)]);
            facts.labels.insert(text(POOL), text(at % flavors));
            all.push(Input::Node(facts.into()));
            let local = (0..*volumes).map(|number| {
                StorageFact::Volume(volume(&format!("v-{at}-{number}"), &format!("n{at}")))
            });
            all.extend(local.map(Input::Storage));
        }
        all.push(Input::Storage(class(None)));
        let claiming = self.members.iter().enumerate().filter(|(_, member)| member.claims);
        let claims = claiming.map(|(at, _)| StorageFact::Claim(claim(&format!("c{at}"))));
        all.extend(claims.map(Input::Storage));
        if self.flavors > 0 {
            all.extend(self.queue());
        }
        all
    }

    fn queue(&self) -> Vec<Input> {
        let names: Vec<String> = (0..self.flavors).map(|at| format!("f{at}")).collect();
        let of = |at: usize| vec![(POOL, ["0", "1"][at])];
        let mut all: Vec<Input> = names
            .iter()
            .enumerate()
            .map(|(at, name)| Input::Flavor(flavor(name, &of(at))))
            .collect();
        let quota = [("cpu", nominal(1_000))];
        let quotas: Vec<_> = names.iter().map(|name| (name.as_str(), &quota[..])).collect();
        all.push(Input::ClusterQueue(cluster_queue("q", None, group(&quotas))));
        all.push(Input::LocalQueue(local_queue("q")));
        all
    }

    fn gang(&self) -> Vec<PodFacts> {
        let wishes = in_queue((self.flavors > 0).then_some("q"));
        let (count, least) = (self.members.len() as u32, Some(self.least as u32));
        let mut pods = gang("g", count, least, &shape(&[]), &wishes);
        let members = pods.iter_mut().zip(&self.members).enumerate();
        members.for_each(|(at, (pod, member))| pod.shape = member.shape(at));
        pods
    }

    fn decided(&self) -> WorkloadView {
        let mut engine = Engine::new();
        let mut facts = self.facts();
        facts.extend(self.gang().into_iter().map(Input::Pod));
        engine.step(NOW, facts);
        engine.recount();
        view(&engine, "g")
    }
}

/// Which members have places, and where.
fn placed(view: &WorkloadView) -> Vec<(usize, usize)> {
    let number = |name: &str, prefix: &str| -> usize {
        name.strip_prefix(prefix).expect("its name").parse().expect("a number")
    };
    let places = view
        .pods
        .iter()
        .filter_map(|place| Some((number(&place.pod, "g-"), number(place.node.as_ref()?, "n"))));
    places.collect()
}

fn told(view: &WorkloadView) -> String {
    view.reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn on_port(port: u16) -> Member {
    Member { ports: [port].into(), ..Member::default() }
}

/// Two that each take the ports of two others come first in each order of the kinds.
fn two_that_block_two_each() -> Vec<Member> {
    let both = |ports: [u16; 2]| Member { ports: ports.into(), ..Member::default() };
    let mut members = vec![both([1, 2]), both([3, 4])];
    members.extend((1..=4).map(on_port));
    members
}

#[test]
fn a_minimum_leaves_out_those_who_block_the_others() {
    let mut members = two_that_block_two_each();
    for _ in 0..members.len() {
        let case = Case::new(&[(9, 9, 0)], members.clone(), 4);
        assert_eq!(case.most(), 4);
        let view = case.decided();
        assert_eq!(placed(&view).len(), 4, "{}", told(&view));
        members.rotate_left(1);
    }
}

/// With a minimum that those who block would make up, as many start as go.
#[test]
fn more_than_the_minimum_start_where_others_block_them() {
    let case = Case::new(&[(9, 9, 0)], two_that_block_two_each(), 2);
    assert_eq!(placed(&case.decided()).len(), 4);
}

/// Nobody can be found if one is missing, and then it is the cluster that says so.
#[test]
fn the_cluster_says_no_where_everything_was_looked_at() {
    let view = Case::new(&[(9, 9, 0)], two_that_block_two_each(), 5).decided();
    assert_eq!(placed(&view), []);
    let says = told(&view);
    assert!(says.contains("0/1 nodes") && !says.contains("earch"), "{says}");
}

/// Pairs of which each member blocks the other: one of each goes, and nobody sees at a glance that
/// no more do. Where the search ends, it says so.
#[test]
fn where_the_search_ends_it_says_so() {
    let pairs = (0..16_u16).flat_map(|pair| {
        let lone = |other: u16| Member { cpu: 1 + i64::from(other), ..on_port(pair + 1) };
        [lone(0), lone(1)]
    });
    let view = Case::new(&[(999, 999, 0)], pairs.collect(), 17).decided();
    assert_eq!(placed(&view), []);
    let says = told(&view);
    assert!(says.contains("The search for places ended after"), "{says}");
}

/// A queue of flavors with so many cpus each, to each of which one node of so many belongs.
fn in_flavors(flavors: &[(i64, i64)]) -> Vec<Input> {
    let names: Vec<String> = (0..flavors.len()).map(|at| format!("f{at}")).collect();
    let quotas: Vec<_> = flavors.iter().map(|(quota, _)| [("cpu", nominal(*quota))]).collect();
    let listed: Vec<_> =
        names.iter().zip(&quotas).map(|(name, quota)| (name.as_str(), &quota[..])).collect();
    let mut all = vec![namespace(), Input::ClusterQueue(cluster_queue("q", None, group(&listed)))];
    all.push(Input::LocalQueue(local_queue("q")));
    for (at, (_, cpus)) in flavors.iter().enumerate() {
        all.push(Input::Flavor(flavor(&names[at], &[(POOL, &at.to_string())])));
        let mut facts = node(&format!("n{at}"), &[("cpu", *cpus), ("pods", 99)]);
        facts.labels.insert(text(POOL), text(at));
        all.push(Input::Node(facts.into()));
    }
    all
}

/// Why a gang of so many kinds, of so many members of so many cpus each, does not start in a queue.
fn why_not(mut facts: Vec<Input>, (kinds, each, cpu): (u8, usize, i64), least: u32) -> String {
    let kind = |app| vec![Member { cpu, app: Some(app), ..Member::default() }; each];
    let members: Vec<Member> = (0..kinds).flat_map(kind).collect();
    let count = members.len() as u32;
    let mut pods = gang("g", count, Some(least), &shape(&[]), &in_queue(Some("q")));
    let shapes = members.iter().enumerate().map(|(at, member)| member.shape(at));
    pods.iter_mut().zip(shapes).for_each(|(pod, shape)| pod.shape = shape);
    facts.extend(pods.into_iter().map(Input::Pod));
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let view = view(&engine, "g");
    assert_eq!(placed(&view), []);
    told(&view)
}

/// Six of twelve are one too many for the quota of the flavor whose node holds them. Of three kinds
/// they are found in 10 ways, all of which are tried; of four kinds in 44.
#[test]
fn where_not_all_who_could_start_are_tried_it_says_so() {
    let ended = "The search ended after 29 choices of members and flavors";
    for (kinds, ends) in [(3, false), (4, true)] {
        let says = why_not(in_flavors(&[(5, 20), (100, 0)]), (kinds, 3, 1), 6);
        assert_eq!(says.contains(ended), ends, "{kinds} kinds: {says}");
        assert_eq!(says.contains("search"), ends, "{kinds} kinds: {says}");
    }
}

/// Two kinds have 64 choices of eight flavors, and 81 of nine.
#[test]
fn where_not_all_choices_of_flavors_are_looked_at_it_says_so() {
    let ended = "The search ended after 64 choices of members and flavors";
    for (flavors, ends) in [(8, false), (9, true)] {
        let says = why_not(in_flavors(&vec![(100, 1); flavors]), (2, 2, 2), 3);
        assert_eq!(says.contains(ended), ends, "{flavors} flavors: {says}");
        assert_eq!(says.contains("search"), ends, "{flavors} flavors: {says}");
    }
}

/// A host port that lower work has is what all but one of the gang need.
#[test]
fn lower_work_leaves_for_a_minimum_that_leaves_out_who_blocks_it() {
    let mut engine = Engine::new();
    let case = Case::new(&[(9, 9, 0)], two_that_block_two_each(), 4);
    let mut low = pod("low", &on_port(1).shape(0), &in_queue(None));
    (low.node, low.phase, low.priority) = (Some(text("n0")), PodPhase::Running, -1);
    let mut facts = case.facts();
    facts.push(Input::Pod(low));
    engine.step(NOW, facts);
    let output = engine.step(NOW, case.gang().into_iter().map(Input::Pod).collect());
    let left = output.effects.iter().filter(|it| matches!(it.action, Action::Evict { .. }));
    assert_eq!(left.count(), 1, "{:?}", view(&engine, "g").reason);
    engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(placed(&view(&engine, "g")).len(), 4);
}

/// Pods of other work on nodes, which leaves together for anybody.
fn low(name: &str, cpus: &[(i64, usize)]) -> Vec<PodFacts> {
    let count = cpus.len() as u32;
    let mut pods = gang(name, count, Some(count), &shape(&[]), &in_queue(None));
    for (pod, (cpu, node)) in pods.iter_mut().zip(cpus) {
        pod.shape = Member { cpu: *cpu, ..Member::default() }.shape(0);
        (pod.node, pod.phase) = (Some(text(format!("n{node}"))), PodPhase::Running);
        pod.priority = -1;
    }
    pods
}

/// Who is stopped for a gang, and where its members are once those have left.
fn once_left(case: &Case, others: &[PodFacts]) -> (Vec<String>, Vec<(usize, usize)>) {
    let mut engine = Engine::new();
    let mut facts = case.facts();
    facts.extend(others.iter().cloned().map(Input::Pod));
    engine.step(NOW, facts);
    let output = engine.step(NOW, case.gang().into_iter().map(Input::Pod).collect());
    engine.recount();
    let stopped = evicted(&output);
    let gone = others.iter().filter(|pod| stopped.iter().any(|name| **name == *pod.name));
    engine.step(NOW, gone.map(|pod| Input::PodGone(pod.uid.clone())).collect());
    engine.recount();
    (stopped, placed(&view(&engine, "g")))
}

/// One of two is the minimum, and the volume of the other is on one node: that is left to it.
#[test]
fn a_minimum_for_which_others_leave_leaves_the_rest_its_node() {
    for with_volume in 0..2 {
        let mut nodes = vec![(2, 9, 0); 2];
        nodes[with_volume].2 = 1;
        let members = vec![
            Member { cpu: 2, ..Member::default() },
            Member { cpu: 1, claims: true, ..Member::default() },
        ];
        let case = Case::new(&nodes, members, 1);
        let (stopped, places) = once_left(&case, &low("low", &[(2, 0), (2, 1)]));
        assert_eq!(stopped, ["low-0", "low-1"]);
        let places: BTreeSet<_> = places.into_iter().collect();
        assert_eq!(places, BTreeSet::from([(0, 1 - with_volume), (1, with_volume)]));
    }
}

/// One of three is the minimum. If that is the first, `a` leaves, and it stays alone; if it is one
/// of the others, `b` does, and both start.
#[test]
fn of_minimums_for_which_as_many_leave_that_beside_most_others() {
    let large = Member { cpu: 2, ..Member::default() };
    let first = Member { cpu: 1, claims: true, ..Member::default() };
    let case = Case::new(&[(1, 9, 1), (4, 9, 0)], vec![first, large.clone(), large], 1);
    let others = [low("a", &[(1, 0)]), low("b", &[(4, 1)])].concat();
    let (stopped, places) = once_left(&case, &others);
    assert_eq!(stopped, ["b-0"]);
    assert_eq!(places, [(1, 1), (2, 1)]);
}

/// Of a gang that runs one is lost: what is missing is made up by whoever goes beside the others.
#[test]
fn what_a_running_gang_lacks_leaves_out_those_who_block_it() {
    let mut engine = Engine::new();
    let mut members = two_that_block_two_each();
    members.insert(0, Member { cpu: 1, ..Member::default() });
    let case = Case::new(&[(9, 9, 0)], members, 5);
    let mut pods = case.gang();
    (pods[0].node, pods[0].phase) = (Some(text("n0")), PodPhase::Running);
    let mut facts = case.facts();
    facts.extend(pods.into_iter().map(Input::Pod));
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output).len(), 4, "{:?}", view(&engine, "g").reason);
    engine.recount();
}

/// The same where one is lacking and another waits, whose volume is on one node.
#[test]
fn what_a_running_gang_lacks_leaves_the_rest_its_node() {
    for with_volume in 0..2 {
        let mut nodes = vec![(2, 9, 0); 2];
        nodes[with_volume].2 = 1;
        let members = vec![
            Member::default(),
            Member { cpu: 2, ..Member::default() },
            Member { cpu: 1, claims: true, ..Member::default() },
        ];
        let case = Case::new(&nodes, members, 2);
        let mut pods = case.gang();
        (pods[0].node, pods[0].phase) = (Some(text("n0")), PodPhase::Running);
        let mut facts = case.facts();
        facts.extend(pods.into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        engine.step(NOW, facts);
        engine.recount();
        let places: BTreeSet<_> = placed(&view(&engine, "g")).into_iter().collect();
        assert_eq!(places, BTreeSet::from([(0, 0), (1, 1 - with_volume), (2, with_volume)]));
    }
}

fn member() -> impl Strategy<Value = Member> {
    let ports = prop_oneof![3 => btree_set(1..4_u16, 0..1), 2 => btree_set(1..4_u16, 1..3)];
    let app = option::weighted(0.5, 0..3_u8);
    let away = option::weighted(0.3, 0..3_u8);
    (0..3_i64, ports, app, away, prop::bool::weighted(0.25))
        .prop_map(|(cpu, ports, app, away, claims)| Member { cpu, ports, app, away, claims })
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = vec((0..6_i64, 1..5_i64, 0..3_usize), 1..4);
    let kinds = vec((member(), 1..3_usize), 2..6);
    (nodes, kinds, 1..7_usize, 0..3_usize).prop_map(|(nodes, kinds, least, flavors)| {
        let members = kinds.into_iter().flat_map(|(member, count)| vec![member; count]);
        let members: Vec<Member> = members.take(6).collect();
        let least = least.min(members.len());
        Case { nodes, members, least, flavors }
    })
}

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

proptest! {
    #![proptest_config(config(6_000))]

    /// An elastic gang starts if and only if so many of its members go, and so that it keeps all
    /// rules; without a queue with as many as go.
    #[test]
    fn a_minimum_that_can_be_placed_is_placed(case in case()) {
        let (view, most) = (case.decided(), case.most());
        let placed = placed(&view);
        prop_assert_eq!(placed.is_empty(), most < case.least, "of {}: {}", most, told(&view));
        let mut there = Vec::new();
        for &(at, node) in &placed {
            prop_assert!(case.takes(&there, at, node), "{} on {} of {:?}", at, node, placed);
            there.push((at, node));
        }
        if !placed.is_empty() {
            prop_assert!(placed.len() >= case.least);
            prop_assert!(case.flavors > 1 || placed.len() == most, "{placed:?} of {most}");
        }
    }
}

/// Kinds are as their members say: what the property takes for one kind is one to the engine.
#[test]
fn members_that_say_the_same_are_of_one_shape() {
    let member = Member { cpu: 1, away: Some(1), ..on_port(2) };
    assert_eq!(member.shape(0), member.shape(1));
    let claims = Member { claims: true, ..member };
    let mut shapes = BTreeMap::new();
    (0..2).for_each(|at| *shapes.entry(claims.shape(at)).or_insert(0) += 1);
    assert_eq!(shapes.len(), 2);
}
