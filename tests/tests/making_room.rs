//! Property: one pod starts wherever some of the pods of one node may leave for it.
//!
//! On small random clusters every set of lower pods of every node is tried by the slow model, with
//! a PodDisruptionBudget or without. And by hand: whom a preemptor wants near stays, who stays uses
//! up no budget, how the bound of the search is told, and that an attempt costs what the cluster is
//! large.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    BudgetFacts, HostPort, Input, Kin, Neighbours, NodeFacts, Operator, PeerSelector, PeerTerm,
    PodClaim, PodFacts, PodPhase, PodShape, PreemptWithin, Requirement, Stays, Text, Wishes,
};
use capstan_core::plan::{Action, StepOutput};
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed};
use capstan_tests::devices;
use capstan_tests::facts::{
    DEFAULT, TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue,
    namespace, node, nominal, pod, text,
};
use capstan_tests::hand::view;
use capstan_tests::kinds::{ZONE, kind};
use capstan_tests::play::{Stage, deeds};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const HOST: &str = "kubernetes.io/hostname";
/// The priority of who comes.
const BOSS: i32 = 3;

/// Clusters that are compared with brute force in one run.
const INSTANCES: u32 = 8_000;

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

/// A cluster, who is there on which node with which priority, and who comes.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<NodeFacts>,
    there: Vec<(Arc<PodShape>, usize, i32)>,
    boss: Arc<PodShape>,
    /// All of them are in one queue that has quota for all.
    queued: bool,
    /// So many of app `a` may be disturbed; `None`: all.
    allowed: Option<u32>,
}

/// What came of it: who left, and where the one that came is.
struct Played {
    gone: Vec<usize>,
    node: Option<usize>,
}

impl Case {
    fn wishes(&self) -> Arc<Wishes> {
        in_queue(self.queued.then_some("q"))
    }

    /// Everything but who comes.
    fn ground(&self) -> Vec<Input> {
        let mut all = vec![namespace()];
        all.extend(self.nodes.iter().cloned().map(|it| Input::Node(it.into())));
        if self.queued {
            let quota = [("cpu", nominal(1_000))];
            let mut queue = cluster_queue("q", None, group(&[(DEFAULT, &quota)]));
            queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
            all.push(Input::Flavor(flavor(DEFAULT, &[])));
            all.push(Input::ClusterQueue(queue));
            all.push(Input::LocalQueue(local_queue("q")));
        }
        all.extend(self.allowed.map(|allowed| Input::Budget(Arc::new(budget(allowed)))));
        all.extend((0..self.there.len()).map(|at| Input::Pod(self.resident(at))));
        all
    }

    fn resident(&self, at: usize) -> PodFacts {
        let (shape, _, priority) = &self.there[at];
        let node = Some(self.nodes[self.node_of(at)].name.clone());
        let mut shape = shape.clone();
        if self.is_guarded(at) {
            Arc::make_mut(&mut shape).budgets = vec![text("a")];
        }
        let facts = pod(&format!("there-{at}"), &shape, &self.wishes());
        PodFacts { node, phase: PodPhase::Running, priority: *priority, ..facts }
    }

    fn node_of(&self, at: usize) -> usize {
        self.there[at].1 % self.nodes.len()
    }

    fn played(&self) -> Played {
        let mut stage = Stage::new(NOW);
        stage.add(self.ground());
        stage.settle(|_| {});
        let boss = pod("boss", &self.boss, &self.wishes());
        stage.add([Input::Pod(PodFacts { priority: BOSS, ..boss })]);
        let gone = gone(&stage.settle(|stage| stage.engine.recount()));
        let node = stage.pods[&text("boss")].node.as_ref();
        let node = node.and_then(|node| self.nodes.iter().position(|it| it.name == *node));
        Played { gone, node }
    }

    /// Who leaves for a gang of such members, all of which start.
    fn left_for(&self, members: &[Arc<PodShape>]) -> Vec<usize> {
        let mut stage = Stage::new(NOW);
        stage.add(self.ground());
        stage.settle(|_| {});
        let count = members.len() as u32;
        let all = gang("g", count, Some(count), &self.boss, &self.wishes());
        stage.add(all.into_iter().zip(members).map(|(member, shape)| {
            Input::Pod(PodFacts { priority: BOSS, shape: shape.clone(), ..member })
        }));
        let gone = gone(&stage.settle(|stage| stage.engine.recount()));
        let mut placed = stage.pods.values().filter(|pod| pod.name.starts_with("g-"));
        assert!(placed.all(|pod| pod.node.is_some()), "{gone:?} left, and some wait: {self:?}");
        gone
    }

    /// How many more leave than the budget allows.
    fn breaks(&self, gone: &[usize]) -> usize {
        let guarded = gone.iter().filter(|at| self.is_guarded(**at)).count();
        self.allowed.map_or(0, |allowed| guarded.saturating_sub(allowed as usize))
    }

    fn is_guarded(&self, at: usize) -> bool {
        let kin = self.there[at].0.kin.as_deref();
        kin.is_some_and(|kin| kin.labels.get(&text("app")) == Some(&text("a")))
    }

    /// Lower pods of a node, in the order in which one goes before the other.
    fn lower(&self, node: usize) -> Vec<usize> {
        let of = |at: &usize| self.there[*at].2 < BOSS && self.node_of(*at) == node;
        let mut lower: Vec<usize> = (0..self.there.len()).filter(of).collect();
        lower.sort_by_key(|at| (self.there[*at].2, *at));
        lower
    }

    /// Whether a node takes who comes once these have left.
    fn takes(&self, node: usize, gone: &[usize]) -> bool {
        // With what a node slot counts for, as one more resource.
        let sized = |shape: &PodShape| {
            let mut own = shape.clone();
            own.requests.insert(text("pods"), 1);
            Arc::new(own)
        };
        let stay = (0..self.there.len()).filter(|at| !gone.contains(at));
        let placed = stay.map(|at| Placed::new(self.node_of(at), sized(&self.there[at].0)));
        let (nodes, placed) = (self.nodes.clone(), placed.collect());
        Cluster { nodes, placed, ..Cluster::default() }.takes(node, &sized(&self.boss))
    }

    fn takes_anywhere(&self, gone: &[usize]) -> bool {
        (0..self.nodes.len()).any(|node| self.takes(node, gone))
    }

    /// Whether some of the lower pods of one node could leave for it.
    fn some_could_leave(&self) -> bool {
        (0..self.nodes.len()).any(|node| {
            let lower = self.lower(node);
            (0..1_usize << lower.len()).any(|set| {
                let some = lower.iter().zip(0..).filter(|(_, at)| set >> *at & 1 == 1);
                self.takes(node, &some.map(|(one, _)| *one).collect::<Vec<_>>())
            })
        })
    }

    /// Whom kube-scheduler would stop on a node: all lower pods leave, and then as many come back
    /// as can, the highest first; before all others those who are more than a budget allows, told
    /// from the highest on.
    fn by_kube(&self, node: usize) -> Option<Vec<usize>> {
        let mut gone = self.lower(node);
        if !self.takes(node, &gone) {
            return None;
        }
        let mut left = self.allowed;
        let (breaking, others): (Vec<usize>, Vec<usize>) = gone.iter().rev().partition(|at| {
            let Some(left) = left.as_mut().filter(|_| self.is_guarded(**at)) else { return false };
            let breaks = *left == 0;
            *left = left.saturating_sub(1);
            breaks
        });
        for one in breaking.into_iter().chain(others) {
            let others: Vec<usize> = gone.iter().copied().filter(|at| *at != one).collect();
            if self.takes(node, &others) {
                gone = others;
            }
        }
        Some(gone)
    }

    /// How kube-scheduler compares nodes: how many break a budget, the highest priority that
    /// leaves, then all of them.
    fn cost(&self, gone: &[usize]) -> (usize, Option<i32>, u64) {
        let priorities = || gone.iter().map(|at| self.there[*at].2);
        let sum = priorities().map(|it| u64::from(it.abs_diff(i32::MIN))).sum();
        (self.breaks(gone), priorities().max(), sum)
    }
}

/// So many pods of app `a` may be disturbed.
fn budget(allowed: u32) -> BudgetFacts {
    BudgetFacts { namespace: text(TEAM), name: text("a"), allowed, disturbed: BTreeSet::new() }
}

/// Which of those who were there first are stopped.
fn gone(outputs: &[StepOutput]) -> Vec<usize> {
    let left = |action: Action| match action {
        Action::Evict { pod, .. } => pod.name.strip_prefix("there-")?.parse().ok(),
        _ => None,
    };
    deeds(outputs).into_iter().filter_map(|(_, action)| left(action)).collect()
}

fn makes_room(case: &Case) -> Result<(), TestCaseError> {
    let Played { gone, node } = case.played();
    let lower = |at: &usize| case.there[*at].2 < BOSS;
    prop_assert!(gone.iter().all(lower), "{gone:?} leave, and not all of them are lower");
    if case.takes_anywhere(&[]) {
        prop_assert!(gone.is_empty() && node.is_some(), "{gone:?} leave for who fits anyway");
        return Ok(());
    }
    let Some(node) = node else {
        prop_assert!(gone.is_empty(), "{gone:?} leave in vain");
        prop_assert!(!case.some_could_leave(), "it waits, and some could leave");
        return Ok(());
    };
    prop_assert!(case.takes(node, &gone), "it is where it may not be once {gone:?} left");
    for one in &gone {
        let others: Vec<usize> = gone.iter().copied().filter(|at| at != one).collect();
        prop_assert!(!case.takes_anywhere(&others), "{one} of {gone:?} leaves for nothing");
    }
    // Whom it wants near may come to be elsewhere; else the node is cleared that costs least.
    let near = case.boss.neighbours.as_ref().is_some_and(|wants| !wants.affinity.is_empty());
    if !case.queued && !near {
        let all = (0..case.nodes.len()).filter_map(|node| case.by_kube(node));
        let least = all.map(|gone| case.cost(&gone)).min();
        let cost = case.cost(&gone);
        prop_assert!(least.is_none_or(|least| cost <= least), "{gone:?} cost more than {least:?}");
    }
    Ok(())
}

fn port(number: u16) -> HostPort {
    HostPort { port: number, protocol: text("TCP"), ip: text("0.0.0.0") }
}

/// A kind of pods that may want a host port.
fn porter() -> impl Strategy<Value = Arc<PodShape>> {
    (kind(), option::weighted(0.25, 80..82_u16)).prop_map(|(kind, number)| {
        let ports = number.map(port).into_iter().collect();
        Arc::new(PodShape { ports, ..PodShape::clone(&kind) })
    })
}

fn some_node() -> impl Strategy<Value = (i64, i64, Option<&'static str>)> {
    let zone = option::weighted(0.9, prop_oneof![Just("x"), Just("y")]);
    (1..5_i64, prop_oneof![1 => 1..4_i64, 1 => Just(9)], zone)
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = vec(some_node(), 2..5);
    let there = vec((porter(), 0..8_usize, 0..BOSS + 2), 2..6);
    (nodes, there, porter()).prop_map(|(nodes, there, boss)| {
        let node = |(at, (cpu, pods, zone)): (usize, &(i64, i64, Option<&str>))| {
            let mut facts = node(&format!("n{at}"), &[("cpu", *cpu), ("pods", *pods)]);
            facts.labels.extend(zone.map(|zone| (text(ZONE), text(zone))));
            facts
        };
        let nodes = nodes.iter().enumerate().map(node).collect();
        Case { nodes, there, boss, queued: false, allowed: None }
    })
}

/// The same in a queue, which charges who comes for something, and maybe nobody else.
fn in_a_queue(case: Case) -> Case {
    let mut boss = PodShape::clone(&case.boss);
    boss.requests.entry(text("cpu")).or_insert(1);
    Case { boss: Arc::new(boss), queued: true, ..case }
}

/// The same with a budget. No two who may leave are of equal priority.
fn guarded(case: Case, allowed: u32) -> Case {
    let ranked = |(at, (shape, node, priority)): (usize, &(Arc<PodShape>, usize, i32))| {
        let lower = (*priority - BOSS) * 8 + at as i32;
        (shape.clone(), *node, if *priority < BOSS { lower } else { *priority })
    };
    let there = case.there.iter().enumerate().map(ranked).collect();
    Case { there, allowed: Some(allowed), ..case }
}

proptest! {
    #![proptest_config(config(INSTANCES))]

    /// A pod in no queue, as with kube-scheduler; and also where kube-scheduler finds nobody,
    /// because one of those whom it takes away must stay.
    #[test]
    fn a_pod_for_which_some_could_leave_starts(case in case()) {
        makes_room(&case)?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// The same in a queue.
    #[test]
    fn a_pod_in_a_queue_for_which_some_could_leave_starts(case in case()) {
        makes_room(&in_a_queue(case))?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// With a budget no more of it is broken, and nobody more important leaves, than with
    /// kube-scheduler.
    #[test]
    fn a_pod_breaks_no_more_of_a_budget_than_it_must(case in case(), allowed in 0..3_u32) {
        makes_room(&guarded(case, allowed))?;
    }
}

fn kin(app: &str) -> Option<Arc<Kin>> {
    Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("app", app)]) }))
}

fn near(key: &str, app: &str) -> Option<Arc<Neighbours>> {
    let values = vec![text(app)];
    let own = Requirement { key: text("app"), operator: Operator::In, values };
    let namespaces = vec![text(TEAM)];
    let peers = PeerSelector { namespaces, namespace_selector: None, labels: Some(vec![own]) };
    let affinity = vec![PeerTerm { key: text(key), peers }];
    Some(Arc::new(Neighbours { affinity, ..Neighbours::default() }))
}

fn kind_of(cpu: i64, app: &str, neighbours: Option<Arc<Neighbours>>) -> Arc<PodShape> {
    let requests = amounts(&[("cpu", cpu)]);
    Arc::new(PodShape { requests, kin: kin(app), neighbours, ..PodShape::default() })
}

/// Nodes of one zone.
fn zoned(cpu: &[i64]) -> Vec<NodeFacts> {
    let node = |(at, cpu): (usize, &i64)| {
        let mut facts = node(&format!("n{at}"), &[("cpu", *cpu)]);
        facts.labels.insert(text(ZONE), text("x"));
        facts
    };
    cpu.iter().enumerate().map(node).collect()
}

/// A node full with the database, and one with somebody of higher priority; who comes wants the
/// database near.
fn beside_the_database() -> Case {
    let there = vec![(kind_of(2, "db", None), 0, 0), (kind_of(2, "web", None), 1, 1)];
    let boss = kind_of(2, "boss", near(ZONE, "db"));
    Case { nodes: zoned(&[2, 2]), there, boss, queued: false, allowed: None }
}

#[test]
fn whom_the_preemptor_wants_near_stays() {
    for queued in [false, true] {
        let played = Case { queued, ..beside_the_database() }.played();
        assert_eq!((played.gone, played.node), (vec![1], Some(1)), "in a queue: {queued}");
    }
}

/// Pods of DaemonSets and of kubelets would be there again at once: others leave, else nobody.
#[test]
fn who_would_be_there_again_at_once_stays() {
    for queued in [false, true] {
        let there = vec![(kind_of(2, "a", None), 0, 0), (kind_of(2, "b", None), 1, 1)];
        let (nodes, boss) = (zoned(&[2, 2]), kind_of(2, "boss", None));
        let case = Case { nodes, there, boss, queued, allowed: None };
        let mut stage = Stage::new(NOW);
        stage.add(case.ground());
        stage.add([Input::Pod(PodFacts { stays: Some(Stays::Daemon), ..case.resident(0) })]);
        stage.settle(|_| {});
        for (name, gone_for_it) in [("first", vec![1]), ("second", vec![])] {
            let boss = pod(name, &case.boss, &case.wishes());
            stage.add([Input::Pod(PodFacts { priority: BOSS, ..boss })]);
            let outputs = stage.settle(|stage| stage.engine.recount());
            assert_eq!(gone(&outputs), gone_for_it, "{name}, in a queue: {queued}");
        }
    }
}

/// The database is of two pods on one node: the larger one leaves, though it is of higher priority.
#[test]
fn of_those_who_are_wanted_near_one_stays() {
    let there = vec![(kind_of(1, "db", None), 0, 0), (kind_of(2, "db", None), 0, 1)];
    let boss = kind_of(2, "boss", near(HOST, "db"));
    let case = Case { nodes: zoned(&[3]), there, boss, queued: false, allowed: None };
    for queued in [false, true] {
        let played = Case { queued, ..case.clone() }.played();
        assert_eq!((played.gone, played.node), (vec![1], Some(0)), "in a queue: {queued}");
    }
}

/// Members of a gang want the database near: it stays, and makes room on no node.
#[test]
fn whom_a_gang_wants_near_stays() {
    for queue in [None, Some("q")] {
        let mut case = Case { queued: queue.is_some(), ..beside_the_database() };
        case.nodes = zoned(&[2, 2, 2]);
        case.there.push((kind_of(2, "web", None), 2, 1));
        let mut stage = Stage::new(NOW);
        stage.add(case.ground());
        stage.settle(|_| {});
        let members = gang("g", 2, Some(2), &case.boss, &in_queue(queue));
        stage.add(members.into_iter().map(|it| Input::Pod(PodFacts { priority: BOSS, ..it })));
        stage.settle(|stage| stage.engine.recount());
        let place = |name: &str| stage.pods.get(&text(name)).and_then(|pod| pod.node.clone());
        let members = [place("g-0"), place("g-1")];
        assert!(members.iter().all(Option::is_some), "{members:?} in {queue:?}");
        assert_eq!(place("there-0"), Some(text("n0")));
    }
}

/// Members that open nodes for each other, and want one host port: of two that one wants near the
/// one leaves that has the port, whichever is of higher priority.
#[test]
fn of_those_whom_a_gang_wants_near_one_stays() {
    let with_port = |kind: Arc<PodShape>| {
        Arc::new(PodShape { ports: vec![port(81)], ..PodShape::clone(&kind) })
    };
    let members =
        [with_port(kind_of(1, "a", None)), with_port(kind_of(1, "boss", near(HOST, "a")))];
    for (beside, taker) in [(0, 1), (1, 0)] {
        let taker = (with_port(kind_of(1, "a", None)), 1, taker);
        let there = vec![(kind_of(1, "a", None), 1, beside), taker];
        let (nodes, boss) = (zoned(&[1, 4]), members[0].clone());
        let case = Case { nodes, there, boss, queued: false, allowed: None };
        for queued in [false, true] {
            let gone = Case { queued, ..case.clone() }.left_for(&members);
            assert_eq!(gone, [1], "{case:?}, in a queue: {queued}");
        }
    }
}

/// The small one of two that are guarded stays anyway: the other one may leave, and nobody of
/// higher priority has to.
#[test]
fn who_stays_uses_up_no_budget() {
    let guarded = |cpu: i64, priority: i32| (kind_of(cpu, "a", None), 0, priority);
    let there = vec![guarded(1, 0), guarded(4, 1), (kind_of(4, "z", None), 0, 2)];
    let boss = kind_of(4, "boss", None);
    let case = Case { nodes: zoned(&[9]), there, boss, queued: false, allowed: Some(1) };
    let played = case.played();
    assert_eq!((played.gone, played.node), (vec![1], Some(0)));
}

/// The same for a gang: one member lacks a node, and who is guarded and of lower priority leaves
/// one; another one that is guarded could give nothing.
#[test]
fn who_stays_uses_up_no_budget_of_a_gang() {
    let there = vec![
        (kind_of(1, "a", None), 0, 0),
        (kind_of(2, "b", None), 1, 2),
        (kind_of(2, "a", None), 2, 1),
    ];
    let boss = kind_of(2, "boss", None);
    let (nodes, members) = (zoned(&[3, 2, 2]), [boss.clone(), boss.clone()]);
    let case = Case { nodes, there, boss, queued: false, allowed: Some(1) };
    for queued in [false, true] {
        let gone = Case { queued, ..case.clone() }.left_for(&members);
        assert_eq!(gone, [2], "in a queue: {queued}");
    }
}

/// Two of three that a gang could take are guarded, and one of these may leave: who is not goes
/// with the larger of them, and the smaller one comes back.
#[test]
fn who_draws_on_a_broken_budget_comes_back_first() {
    let there = vec![
        (kind_of(1, "a", None), 0, 0),
        (kind_of(1, "z", None), 0, 1),
        (kind_of(2, "a", None), 0, 2),
    ];
    let boss = kind_of(1, "boss", None);
    let (nodes, members) = (zoned(&[4]), [boss.clone(), boss.clone(), boss.clone()]);
    let case = Case { nodes, there, boss, queued: false, allowed: Some(1) };
    for queued in [false, true] {
        let mut gone = Case { queued, ..case.clone() }.left_for(&members);
        gone.sort_unstable();
        assert_eq!(gone, [1, 2], "in a queue: {queued}");
    }
}

/// Of nodes where the same highest priority leaves that one is cleared where fewest do.
#[test]
fn the_node_is_cleared_that_fewest_leave() {
    let small = |node: usize| (kind_of(1, "web", None), node, 1);
    let there = vec![small(0), small(0), (kind_of(2, "web", None), 1, 1), small(2), small(2)];
    let boss = kind_of(2, "boss", None);
    let played =
        Case { nodes: zoned(&[2, 2, 2]), there, boss, queued: false, allowed: None }.played();
    assert_eq!((played.gone, played.node), (vec![2], Some(1)));
}

/// The node is cleared that holds one who keeps others of the zone away. Once that one has left the
/// other node will do, and who stood beside it stays, whichever of the two is taken first.
#[test]
fn who_stands_beside_one_that_keeps_others_away_stays() {
    let Some(wants) = near(ZONE, "boss") else { unreachable!("it wants somebody near") };
    let away = Neighbours { anti_affinity: wants.affinity.clone(), ..Neighbours::default() };
    for (guard, web) in [(0, 1), (1, 0), (1, 1)] {
        let guard = (kind_of(1, "guard", Some(Arc::new(away.clone()))), 0, guard);
        let there = vec![guard, (kind_of(1, "web", None), 0, web)];
        let boss = kind_of(2, "boss", None);
        let case = Case { nodes: zoned(&[2, 2]), there, boss, queued: false, allowed: None };
        for queued in [false, true] {
            let played = Case { queued, ..case.clone() }.played();
            let told = format!("{case:?}, in a queue: {queued}");
            assert_eq!((played.gone, played.node), (vec![0], Some(1)), "{told}");
        }
    }
}

/// What an engine makes of many nodes, each full with four lower pods of the database, once a pod
/// comes: how many nodes it looks at, and what it says if that waits.
fn among_many(nodes: usize, boss: &PodShape, claim: Option<&str>) -> (u64, Option<Text>) {
    let mut engine = Engine::new();
    let mut facts = vec![namespace()];
    facts.extend(zoned(&vec![4; nodes]).into_iter().map(|it| Input::Node(it.into())));
    let lower = kind_of(1, "db", None);
    for at in 0..4 * nodes {
        let mut there = pod(&format!("there-{at:05}"), &lower, &in_queue(None));
        (there.node, there.phase) = (Some(text(format!("n{}", at / 4))), PodPhase::Running);
        facts.push(Input::Pod(there));
    }
    if let Some(claim) = claim {
        facts.push(Input::ResourceClaim(devices::claim(claim, false, devices::spec(1))));
    }
    engine.step(NOW, facts);
    let mut comes = pod("boss", &Arc::new(boss.clone()), &in_queue(None));
    comes.priority = BOSS;
    comes.claims = claim.map(|claim| Arc::new(vec![text(claim)]));
    let output = engine.step(NOW, vec![Input::Pod(comes)]);
    engine.recount();
    let reason = view(&engine, "boss").reason.map(text);
    (output.report.counts.nodes_scored, reason)
}

/// An attempt looks at no more nodes than there are, a few times over: whether each might do as
/// well, some must stay, or none will do.
#[test]
fn an_attempt_costs_what_the_cluster_is_large() {
    let kinds = [
        kind_of(2, "boss", None),
        kind_of(2, "boss", near(ZONE, "db")),
        kind_of(2, "boss", near(HOST, "db")),
        kind_of(5, "boss", near(ZONE, "db")),
    ];
    for kind in &kinds {
        let (few, many) = (among_many(150, kind, None).0, among_many(600, kind, None).0);
        assert!(many <= 6 * few, "{few} are looked at of 150, {many} of 600: {kind:?}");
        assert!(many <= 20 * 600, "{many} are looked at of 600: {kind:?}");
    }
}

/// Where the bound of the search, not the cluster, says no, it is told so; where nobody is wanted
/// near, all had left, and the cluster says no.
#[test]
fn the_bound_of_the_search_says_so() {
    let told = |neighbours, nodes| {
        let claims = vec![PodClaim::Named(devices::key("gpu"))];
        let boss = PodShape { claims, ..PodShape::clone(&kind_of(1, "boss", neighbours)) };
        among_many(nodes, &boss, Some("gpu")).1.expect("it waits")
    };
    let says = told(near(ZONE, "db"), 120);
    let ended = "The search for whom to preempt ended after 4096 tries: there may be some";
    assert!(says.contains(ended), "{says}");
    for (neighbours, nodes) in [(near(ZONE, "db"), 8), (None, 120)] {
        let says = told(neighbours, nodes);
        assert!(!says.contains("search"), "{says}");
    }
}
