//! Gangs whose members want each other near, away, or spread: against every order and every choice
//! of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Amounts, Input, Kin, Neighbours, NodeFacts, NodeSelector, NodeSelectorTerm, Operator,
    PeerSelector, PeerTerm, PodClaim, PodFacts, PodShape, PreemptWithin, Reach, Requirement, Text,
    Wishes,
};
use capstan_core::plan::{Action, Effect, EffectResult};
use capstan_core::rules::neighbours::Tenancy;
use capstan_core::time::Time;
use capstan_tests::around::{Cluster, Placed, sized};
use capstan_tests::devices;
use capstan_tests::facts::{
    TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue, namespace,
    node, nominal, pod, text,
};
use capstan_tests::hand::{answer, binds};
use capstan_tests::kinds::{
    OTHER, ZONE, kind, labels_of_other, nodes, odd_nodes, picky, picky_resident, resident,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);
const POOL: &str = "pool";
const LINK: &str = "link";

/// Gangs that are compared with brute force in one run.
const INSTANCES: u32 = 12_000;

fn config(cases: u32) -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases, failure_persistence, ..Config::default() }
}

/// Who is there, on which node, and how.
type Resident = (Arc<PodShape>, usize, Tenancy);

/// A cluster, who is there, and a gang that comes.
#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<NodeFacts>,
    there: Vec<Resident>,
    members: Vec<Arc<PodShape>>,
    /// What members ask of `cpu` they claim as devices, of which a node has what is left of it.
    devices: bool,
    /// Members that must start together; more than there are: all.
    least: usize,
    /// Flavors of their queue, to which nodes belong in turn; 0: they are in no queue.
    flavors: usize,
    /// Nodes that reach a device for the claim that members share whose `cpu` is odd: which one, by
    /// the first of those nodes.
    linked: BTreeMap<usize, usize>,
}

impl Case {
    fn of(nodes: Vec<NodeFacts>, there: Vec<Resident>, members: Vec<Arc<PodShape>>) -> Case {
        let (least, linked) = (usize::MAX, BTreeMap::new());
        Case { nodes, there, members, devices: false, least, flavors: 0, linked }
    }

    fn model(&self) -> Cluster {
        let placed = self.there.iter().map(|(shape, node, tenancy)| Placed {
            node: node % self.nodes.len(),
            shape: shape.clone(),
            tenancy: *tenancy,
        });
        let (nodes, placed) = (self.nodes.clone(), placed.collect());
        let namespaces = BTreeMap::from([(text(OTHER), labels_of_other())]);
        Cluster { nodes, namespaces, placed, linked: self.linked.clone() }
    }

    fn least(&self) -> usize {
        self.least.min(self.members.len())
    }

    /// Whether the model places enough members, all of a kind in one flavor.
    fn can_be_placed(&self) -> bool {
        let mut kinds = self.members.clone();
        kinds.sort();
        kinds.dedup();
        let ways = self.flavors.max(1).pow(kinds.len() as u32);
        (0..ways).any(|way| {
            let flavored = |shape: &Arc<PodShape>| {
                let kind = kinds.binary_search(shape).expect("listed") as u32;
                self.flavored(shape, way / self.flavors.max(1).pow(kind) % self.flavors.max(1))
            };
            let members: Vec<_> = self.members.iter().map(flavored).collect();
            let mut model = self.model();
            let members = with_slots(&mut model, &members);
            model.takes_some(&members, self.least())
        })
    }

    /// Whether members can have come to these nodes, all of a kind to those of one flavor.
    fn comes_about(&self, decided: &[(Arc<PodShape>, usize)]) -> bool {
        let mut of: BTreeMap<&Arc<PodShape>, usize> = BTreeMap::new();
        let flavors = self.flavors.max(1);
        let mut charged = decided.iter().filter(|(shape, _)| self.is_charged(shape));
        let one = charged
            .all(|(shape, node)| *of.entry(shape).or_insert(node % flavors) == node % flavors);
        let mut model = self.model();
        let shapes: Vec<_> =
            decided.iter().map(|(shape, node)| self.flavored(shape, node % flavors)).collect();
        let sized = with_slots(&mut model, &shapes);
        let places: Vec<_> = sized.into_iter().zip(decided.iter().map(|(_, at)| *at)).collect();
        one && model.comes_about(&places)
    }

    /// Whether members of a shape get a flavor: who asks for nothing gets none.
    fn is_charged(&self, shape: &PodShape) -> bool {
        self.flavors > 1 && shape.requests.contains_key("cpu")
    }

    /// What a member is once it has a flavor.
    fn flavored(&self, shape: &Arc<PodShape>, flavor: usize) -> Arc<PodShape> {
        let mut own = PodShape::clone(shape);
        if self.is_charged(shape) {
            own.node_selector.insert(text(POOL), text(flavor));
        }
        Arc::new(own)
    }

    fn wishes(&self) -> Arc<Wishes> {
        in_queue((self.flavors > 0).then_some("q"))
    }

    /// The queue, with more quota than anybody asks.
    fn queue(&self) -> Vec<Input> {
        let names: Vec<String> = (0..self.flavors).map(|at| format!("f{at}")).collect();
        let labels = |at: usize| match self.flavors {
            1 => Vec::new(),
            _ => vec![(POOL, ["0", "1"][at])],
        };
        let flavors = names.iter().enumerate();
        let mut all: Vec<Input> =
            flavors.map(|(at, name)| Input::Flavor(flavor(name, &labels(at)))).collect();
        let quota = [("cpu", nominal(1_000))];
        let quotas: Vec<_> = names.iter().map(|name| (name.as_str(), &quota[..])).collect();
        let mut queue = cluster_queue("q", None, group(&quotas));
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        all.push(Input::ClusterQueue(queue));
        all.push(Input::LocalQueue(local_queue("q")));
        all
    }

    /// The same with members that share a claim: those whose `cpu` is odd. Its devices are those of
    /// nodes, or of their zones.
    fn sharing(mut self, linked: &BTreeSet<usize>, zones: bool) -> Case {
        let shares = |shape: &Arc<PodShape>| {
            let mut own = PodShape::clone(shape);
            if own.requests.get("cpu").is_some_and(|cpu| cpu % 2 == 1) {
                own.claims = vec![PodClaim::Named(devices::key(LINK))];
            }
            Arc::new(own)
        };
        self.members = self.members.iter().map(shares).collect();
        let device = |node: usize| match self.zone(node) {
            zone if zones => {
                let mut of_zone = linked.iter().filter(|at| **at < self.nodes.len());
                of_zone.find(|at| zone.is_some() && self.zone(**at) == zone).copied()
            }
            _ => linked.contains(&node).then_some(node),
        };
        let found = (0..self.nodes.len()).filter_map(|node| Some((node, device(node)?)));
        self.linked = found.collect();
        self
    }

    fn zone(&self, node: usize) -> Option<&Text> {
        self.nodes[node].labels.get(ZONE)
    }

    /// The device of a node, or of its zone.
    fn link(&self, node: usize, zones: bool) -> Input {
        let slice = devices::slice(&self.nodes[node].name, &["link"]);
        let Input::Slice(mut slice) = slice else { unreachable!("a slice") };
        if zones {
            let values = self.zone(node).into_iter().cloned().collect();
            let labels = vec![Requirement { key: text(ZONE), operator: Operator::In, values }];
            let terms = vec![NodeSelectorTerm { labels, fields: Vec::new() }];
            Arc::make_mut(&mut slice).nodes = Reach::Selected(NodeSelector { terms });
        }
        Input::Slice(slice)
    }

    fn ground(&self) -> Vec<Input> {
        let (name, labels) = (text(OTHER), labels_of_other());
        let mut all = vec![namespace(), Input::Namespace { name, labels }];
        all.extend(self.nodes.iter().cloned().map(|it| Input::Node(it.into())));
        all.extend((0..self.nodes.len()).filter(|_| self.devices).map(|at| self.slice(at)));
        let zones = self.linked.iter().any(|(node, device)| node != device);
        let devices: BTreeSet<usize> = self.linked.values().copied().collect();
        all.extend(devices.into_iter().map(|at| self.link(at, zones)));
        if !self.linked.is_empty() {
            all.push(Input::ResourceClaim(devices::claim(LINK, false, devices::spec(1))));
        }
        if self.flavors > 0 {
            all.extend(self.queue());
        }
        for (at, placed) in self.model().placed.iter().enumerate() {
            let mut facts = pod(&format!("there-{at}"), &placed.shape, &in_queue(None));
            placed.describe(&mut facts, &self.nodes[placed.node].name);
            all.push(Input::Pod(facts));
        }
        all
    }

    fn gang(&self) -> Vec<PodFacts> {
        let count = self.members.len() as u32;
        let least = Some(self.least() as u32);
        let mut pods = gang("g", count, least, &self.members[0], &self.wishes());
        for (pod, shape) in pods.iter_mut().zip(&self.members) {
            pod.shape = shape.clone();
            pod.claims = (!shape.claims.is_empty()).then(|| Arc::new(vec![text(LINK)]));
        }
        pods
    }

    /// A device for each `cpu` that a node has left.
    fn slice(&self, at: usize) -> Input {
        let cpu = |amounts: &Amounts| amounts.get("cpu").copied().unwrap_or(0);
        let here = self.there.iter().filter(|(_, on, _)| on % self.nodes.len() == at);
        let used: i64 = here.map(|(shape, ..)| cpu(&shape.requests)).sum();
        let free = cpu(&self.nodes[at].allocatable) - used;
        let names: Vec<String> = (0..free).map(|device| format!("d{device}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        devices::slice(&self.nodes[at].name, &names)
    }

    /// What a member asks of `cpu` as a claim of its own, and that claim.
    fn claiming(&self, pod: &mut PodFacts) -> Option<Input> {
        let mut shape = PodShape::clone(&pod.shape);
        let asked = shape.requests.remove("cpu").filter(|asked| *asked > 0 && self.devices)?;
        let (name, spec) = (format!("{}-claim", pod.name), devices::spec(asked as u64));
        shape.claims = vec![PodClaim::Own { name: text("d"), spec: spec.clone() }];
        (pod.shape, pod.claims) = (Arc::new(shape), Some(Arc::new(vec![text(&name)])));
        Some(Input::ResourceClaim(devices::claim(&name, true, spec)))
    }

    /// Where the gang's members go, by the engine.
    fn decided(&self) -> Vec<(Arc<PodShape>, usize)> {
        let mut engine = Engine::new();
        let pods = self.gang();
        let mut facts = self.ground();
        for mut pod in pods.iter().cloned() {
            facts.extend(self.claiming(&mut pod));
            facts.push(Input::Pod(pod));
        }
        let mut output = engine.step(NOW, facts);
        engine.recount();
        let gives = |effect: &&Effect| matches!(effect.action, Action::AllocateClaims { .. });
        let given: Vec<Input> = output.effects.iter().filter(gives).map(done).collect();
        if !given.is_empty() {
            output.effects.extend(engine.step(NOW, given).effects);
            engine.recount();
        }
        let placed = binds(&output).into_iter().map(|(name, node)| {
            let shape = pods.iter().find(|pod| *pod.name == *name).map(|pod| pod.shape.clone());
            let at = self.nodes.iter().position(|it| *it.name == *node);
            (shape.expect("a member"), at.expect("a node"))
        });
        placed.collect()
    }
}

fn done(effect: &Effect) -> Input {
    answer(effect, EffectResult::Done)
}

fn case() -> impl Strategy<Value = Case> {
    case_of(nodes(), resident(), kind())
}

fn case_of(
    nodes: impl Strategy<Value = Vec<NodeFacts>>,
    resident: impl Strategy<Value = Resident>,
    kind: impl Strategy<Value = Arc<PodShape>>,
) -> impl Strategy<Value = Case> {
    let (there, kinds) = (vec(resident, 0..4), vec((kind, 1..4_usize), 1..4));
    (nodes, there, kinds).prop_map(|(mut nodes, there, kinds)| {
        for (at, facts) in nodes.iter_mut().enumerate() {
            facts.labels.insert(text(POOL), text(at % 2));
        }
        let all = kinds.into_iter().flat_map(|(kind, count)| vec![kind; count]);
        Case::of(nodes, there, all.take(5).collect())
    })
}

/// The model counts pods of a node as one more resource.
fn with_slots(model: &mut Cluster, members: &[Arc<PodShape>]) -> Vec<Arc<PodShape>> {
    for placed in &mut model.placed {
        placed.shape = sized(&placed.shape);
    }
    members.iter().map(sized).collect()
}

fn kin(own: &[(&str, &str)]) -> Option<Arc<Kin>> {
    Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(own) }))
}

/// Found by the property below: nodes that lack the key keep nobody away, and hold as many as have
/// room.
#[test]
fn nodes_without_the_key_keep_nobody_away() {
    let own = [Requirement { key: text("app"), operator: Operator::In, values: vec![text("a")] }];
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(own.to_vec()),
    };
    let apart = PeerTerm { key: text(ZONE), peers };
    let member = Arc::new(PodShape {
        kin: kin(&[("app", "a")]),
        neighbours: Some(Arc::new(Neighbours {
            anti_affinity: vec![apart],
            ..Neighbours::default()
        })),
        ..PodShape::default()
    });
    let nodes = vec![node("n0", &[("pods", 1)]), node("n1", &[("pods", 4)])];
    let members = vec![member; 5];
    let case = Case::of(nodes, Vec::new(), members);
    assert_eq!(case.decided().len(), 5);
}

/// Found by the property below: of three shapes only the sixth choice of flavors holds a minimum.
#[test]
fn a_minimum_is_found_in_the_sixth_choice_of_flavors() {
    let on = |name: &str, cpu: i64, pool: &str, zone: Option<&str>| {
        let mut facts = node(name, &[("cpu", cpu), ("pods", 1)]);
        facts.labels.insert(text("pool"), text(pool));
        facts.labels.extend(zone.map(|zone| (text(ZONE), text(zone))));
        facts
    };
    let nodes = vec![
        on("n0", 2, "0", Some("z")),
        on("n1", 2, "1", None),
        on("n2", 0, "0", None),
        on("n3", 1, "1", Some("z")),
    ];
    let member = |cpu: i64, own: &[(&str, &str)]| {
        let requests = amounts(&[("cpu", cpu)]);
        Arc::new(PodShape { requests, kin: kin(own), ..PodShape::default() })
    };
    let a = [("app", "a")];
    let members = vec![member(1, &a), member(2, &a), member(2, &[]), member(2, &[])];
    let case = Case::of(nodes, Vec::new(), members).sharing(&[0].into(), true);
    let case = Case { flavors: 2, least: 3, ..case };
    assert!(case.can_be_placed());
    assert_eq!(case.decided().len(), 3);
}

/// A gang is placed if and only if some order and some nodes get it in, and then so that it could
/// have come about pod by pod.
fn placed_if_it_can_be(case: &Case) -> Result<(), TestCaseError> {
    let decided = case.decided();
    if decided.is_empty() {
        prop_assert!(!case.can_be_placed(), "it could have been placed");
    } else {
        prop_assert!(decided.len() >= case.least(), "all or none");
        prop_assert!(case.comes_about(&decided), "it breaks a rule: {decided:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(INSTANCES))]

    /// Members that want each other near, away, or spread.
    #[test]
    fn a_gang_that_can_be_placed_is_placed(case in case()) {
        placed_if_it_can_be(&case)?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// The same where what is scarce are devices.
    #[test]
    fn a_gang_that_finds_its_devices_is_placed(case in case()) {
        placed_if_it_can_be(&Case { devices: true, ..case })?;
    }

    /// The same with host ports, taints, nodes without their name's label and such that a member
    /// prefers, and pods of another namespace; and where not all members need start.
    #[test]
    fn a_picky_gang_that_can_be_placed_is_placed(
        case in case_of(odd_nodes(), picky_resident(), picky()),
        least in 1..9_usize,
    ) {
        placed_if_it_can_be(&Case { least, ..case })?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// The same in a queue that has quota for all, with flavors for some nodes each; and where not
    /// all members need start.
    #[test]
    fn a_gang_in_a_queue_is_placed(case in case(), flavors in 0..3_usize, least in 1..7_usize) {
        placed_if_it_can_be(&Case { flavors, least, ..case })?;
    }
}

proptest! {
    #![proptest_config(config(4_000))]

    /// The same where some members share a claim, which has its device on one node.
    #[test]
    fn members_that_share_a_claim_are_placed(
        case in case(),
        linked in prop::collection::btree_set(0..5_usize, 1..4),
        zones in any::<bool>(),
        flavors in 0..3_usize,
        least in 1..9_usize,
    ) {
        let case = case.sharing(&linked, zones);
        placed_if_it_can_be(&Case { flavors, least, ..case })?;
    }
}

/// Lower work leaves for a gang that finds places without it: nobody whom it could do beside, and
/// it waits only where it could not go if all of that left (if nobody wants any of it near).
fn leaves_if_it_must(case: &Case, low: &[bool]) -> Result<(), TestCaseError> {
    let is_low = |at: usize| low[at] && case.there[at].2 == Tenancy::Staying;
    let mut engine = Engine::new();
    let mut facts = case.ground();
    for (at, fact) in facts.iter_mut().filter(|fact| matches!(fact, Input::Pod(_))).enumerate() {
        let Input::Pod(pod) = fact else { continue };
        (pod.ours, pod.wishes) = (is_low(at), case.wishes());
        pod.priority = i32::from(case.there[at].2 == Tenancy::Nominated);
    }
    let members = case.gang().into_iter().map(|pod| Input::Pod(PodFacts { priority: 1, ..pod }));
    engine.step(NOW, facts);
    let output = engine.step(NOW, members.collect());
    engine.recount();
    let left = |effect: &Effect| match &effect.action {
        Action::Evict { pod, .. } => pod.name.strip_prefix("there-")?.parse().ok(),
        _ => None,
    };
    let gone: Vec<usize> = output.effects.iter().filter_map(left).collect();
    let fits = |gone: &dyn Fn(usize) -> bool| {
        let there = case.there.iter().enumerate().filter(|(at, _)| !gone(*at));
        let there = there.map(|(_, one)| one.clone()).collect();
        Case { there, ..case.clone() }.can_be_placed()
    };
    // Nobody leaves to make a member the first of those it wants near (an empty selector: all).
    let wants = case.members.iter().filter_map(|shape| shape.neighbours.as_ref());
    let wants = wants.flat_map(|it| &it.affinity).map(|term| &term.peers.labels);
    let wants: Vec<bool> = wants.map(|it| it.as_ref().is_some_and(|all| all.is_empty())).collect();
    let labelled =
        |at: usize| case.there[at].0.kin.as_ref().is_some_and(|kin| !kin.labels.is_empty());
    let wanted =
        (0..case.there.len()).any(|at| is_low(at) && wants.iter().any(|all| *all || labelled(at)));
    let starts = |effect: &Effect| {
        matches!(effect.action, Action::AllocateClaims { .. } | Action::Bind { .. })
    };
    if output.effects.iter().any(starts) {
        prop_assert!(gone.is_empty(), "it starts at once, and {gone:?} leave");
    } else if gone.is_empty() {
        prop_assert!(wanted || !fits(&is_low), "it could have been placed once all had left");
    } else {
        prop_assert!(fits(&|at| gone.contains(&at)), "{gone:?} leave in vain");
        for one in &gone {
            let others = |at| at != *one && gone.contains(&at);
            // Which flavors the gang gets is not chosen for whom they cost.
            let needed = case.flavors > 1 || !fits(&others);
            prop_assert!(needed, "{one} of {gone:?} leaves for nothing");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(4_000))]

    /// Lower work makes room for members that want each other near, away, or spread.
    #[test]
    fn lower_work_leaves_where_it_must(
        case in case(),
        low in vec(prop::bool::weighted(0.8), 4),
        flavors in 0..3_usize,
        linked in option::of(prop::collection::btree_set(0..5_usize, 1..4)),
        zones in any::<bool>(),
    ) {
        let case = match linked {
            Some(linked) => case.sharing(&linked, zones),
            None => case,
        };
        // In a queue, work leaves for what is charged.
        let charged = case.members.iter().all(|shape| shape.requests.contains_key("cpu"));
        let flavors = if charged { flavors } else { 0 };
        leaves_if_it_must(&Case { flavors, ..case }, &low)?;
    }
}

proptest! {
    #![proptest_config(config(512))]

    /// Pods that come one after the other, and go again, go where they may, and wait only where
    /// they may nowhere; what is counted stays right.
    #[test]
    fn pods_that_come_and_go_are_where_they_may_be(
        case in case(),
        gone in vec(0..8_usize, 0..4),
    ) {
        let mut engine = Engine::new();
        let mut model = case.model();
        let members = with_slots(&mut model, &case.members);
        engine.step(NOW, case.ground());
        for (at, (shape, sized)) in case.members.iter().zip(&members).enumerate() {
            let lone = pod(&format!("p{at}"), shape, &in_queue(None));
            let output = engine.step(NOW, vec![Input::Pod(lone.clone())]);
            engine.recount();
            // One that waited may go with it, then.
            let Some((_, node)) = binds(&output).into_iter().find(|(name, _)| **name == *lone.name)
            else {
                let anywhere = (0..case.nodes.len()).any(|node| model.takes(node, sized));
                prop_assert!(!anywhere, "{} waits and may go somewhere", lone.name);
                break;
            };
            let node = case.nodes.iter().position(|it| *it.name == *node).expect("a node");
            prop_assert!(model.takes(node, sized), "{} may not be there", lone.name);
            model.placed.push(Placed::new(node, sized.clone()));
        }
        for at in gone {
            engine.step(NOW, vec![Input::PodGone(text(format!("there-{at}")))]);
            engine.recount();
        }
    }
}
