//! Gangs that have to be searched for, amid nodes that say nothing to them: what is found on a few
//! nodes is found amid thousands of others, and no node is taken for another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    ClaimUse, HostPort, Input, Kin, Neighbours, NodeFacts, NodeSelectorTerm, Operator,
    PeerSelector, PeerTerm, PodFacts, PodPhase, PodShape, PodVolumes, PreferredNodes, Requirement,
    StorageFact, Taint, TaintEffect,
};
use capstan_core::plan::Action;
use capstan_core::time::Time;
use capstan_tests::disks::{claim, class, key};
use capstan_tests::facts::{
    TEAM, amounts, gang, in_queue, labels, namespace, node, pod, shape, text,
};
use capstan_tests::hand::{bound, evicted};
use capstan_tests::kinds::ZONE;

const HOSTNAME: &str = "kubernetes.io/hostname";
const POOL: &str = "pool";

/// Nodes that take none of any gang here: every second one is too small, the others are tainted.
fn others(count: usize) -> impl Iterator<Item = Input> {
    (0..count).map(|at| {
        let mut facts = node(&format!("other-{at:04}"), &[("cpu", [1, 1_000][at % 2])]);
        if at % 2 == 1 {
            let (key, value) = (text("for"), text("others"));
            facts.taints.push(Taint { key, value, effect: TaintEffect::NoSchedule });
        }
        Input::Node(facts.into())
    })
}

/// Where members go (no name: there is something to be written before it is told), and what is
/// said if they do not.
fn decided(facts: impl IntoIterator<Item = Input>) -> (BTreeMap<String, String>, String) {
    let mut engine = Engine::new();
    let inputs: Vec<Input> = [namespace()].into_iter().chain(facts).collect();
    let output = engine.step(Time(1_000), inputs);
    engine.recount();
    let mut nodes = BTreeMap::new();
    for effect in output.effects {
        let (pod, node) = match effect.action {
            Action::Bind { pod, node, .. } => (pod, node.to_string()),
            Action::SelectVolumes { pod, .. } => (pod, String::new()),
            _ => continue,
        };
        nodes.insert(pod.name.to_string(), node);
    }
    let views = engine.workloads();
    let reason = views.iter().find_map(|view| view.reason.as_ref());
    (nodes, reason.map(ToString::to_string).unwrap_or_default())
}

fn members(shapes: Vec<PodShape>) -> Vec<Input> {
    let count = shapes.len() as u32;
    let pods = gang("g", count, Some(count), &shape(&[]), &in_queue(None));
    let own = |(pod, shape): (PodFacts, PodShape)| PodFacts { shape: Arc::new(shape), ..pod };
    pods.into_iter().zip(shapes).map(own).map(Input::Pod).collect()
}

fn asking(cpu: i64) -> PodShape {
    PodShape { requests: amounts(&[("cpu", cpu)]), ..PodShape::default() }
}

/// Three nodes that fifteen members fill to the last bit, which is found after a thousand wrong
/// turns.
fn exact() -> (Vec<Input>, Vec<PodShape>) {
    let roomy = [120, 121, 122].into_iter().enumerate();
    let roomy = roomy.map(|(at, cpu)| Input::Node(node(&format!("n{at}"), &[("cpu", cpu)]).into()));
    let sizes = [39, 20, 11, 21, 29, 8, 9, 67, 13, 24, 30, 19, 7, 56, 10];
    (roomy.collect(), sizes.map(asking).into())
}

#[test]
fn members_that_fill_nodes_exactly_do_so_amid_many_others() {
    for count in [0, 10, 200, 5_000] {
        let (nodes, shapes) = exact();
        let facts = others(count).chain(nodes).chain(members(shapes));
        let (places, reason) = decided(facts);
        assert_eq!(places.len(), 15, "amid {count}: {reason}");
    }
}

/// The same members, each with a volume that is made where it goes: what others choose is looked at
/// again after each try.
#[test]
fn so_do_members_whose_volumes_are_still_to_be_made() {
    for count in [0, 10, 200, 5_000] {
        let (nodes, mut shapes) = exact();
        for (at, shape) in shapes.iter_mut().enumerate() {
            let claims = vec![ClaimUse { claim: key(&format!("c{at}")), made_for: None }];
            shape.volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
        }
        let claims = (0..shapes.len()).map(|at| StorageFact::Claim(claim(&format!("c{at}"))));
        let storage = claims.chain([class(Some("disks"))]).map(Input::Storage);
        let facts = others(count).chain(nodes).chain(storage).chain(members(shapes));
        let (places, reason) = decided(facts);
        assert_eq!(places.len(), 15, "amid {count}: {reason}");
    }
}

fn named(at: usize, cpu: i64) -> NodeFacts {
    let name = format!("n{at:04}");
    let mut facts = node(&name, &[("cpu", cpu)]);
    facts.labels = labels(&[(HOSTNAME, &name)]);
    facts
}

fn role(name: &str) -> Option<Arc<Kin>> {
    Some(Arc::new(Kin { namespace: text(TEAM), labels: labels(&[("role", name)]) }))
}

/// Pods of a role, within domains of a key.
fn within(key: &str, role: &str) -> Vec<PeerTerm> {
    let values = vec![text(role)];
    let role_is = Requirement { key: text("role"), operator: Operator::In, values };
    let namespaces = vec![text(TEAM)];
    let peers = PeerSelector { namespaces, namespace_selector: None, labels: Some(vec![role_is]) };
    vec![PeerTerm { key: text(key), peers }]
}

fn near(key: &str, role: &str) -> Option<Arc<Neighbours>> {
    let affinity = within(key, role);
    Some(Arc::new(Neighbours { affinity, ..Neighbours::default() }))
}

/// To be on the node of a name.
fn on_node(name: &str) -> Vec<PreferredNodes> {
    let (key, values) = (text("metadata.name"), vec![text(name)]);
    let fields = vec![Requirement { key, operator: Operator::In, values }];
    vec![PreferredNodes { weight: 100, term: NodeSelectorTerm { labels: Vec::new(), fields } }]
}

fn ports(numbers: &[u16]) -> Vec<HostPort> {
    let port = |port: &u16| HostPort { port: *port, protocol: text("TCP"), ip: text("0.0.0.0") };
    numbers.iter().map(port).collect()
}

/// Nodes that look the same to both members as things are, of which one alone will do for the
/// second: it is of the pool that it wants, and wants the first there.
#[test]
fn nodes_that_nobody_can_open_are_not_taken_for_others() {
    for count in [2, 40, 5_000] {
        let mut nodes: Vec<NodeFacts> = (0..count).map(|at| named(at, 2)).collect();
        nodes.last_mut().expect("some").labels.insert(text(POOL), text("fast"));
        let first = PodShape { kin: role("first"), ..asking(1) };
        let second = PodShape {
            kin: role("second"),
            neighbours: near(HOSTNAME, "first"),
            node_selector: labels(&[(POOL, "fast")]),
            ..asking(1)
        };
        let nodes = nodes.into_iter().map(|it| Input::Node(it.into()));
        let (places, reason) = decided(nodes.chain(members(vec![first, second])));
        let last = format!("n{:04}", count - 1);
        let at = places.into_values().collect::<Vec<_>>();
        assert_eq!(at, [last.clone(), last], "of {count}: {reason}");
    }
}

/// Two nodes have the same free, and a large member keeps small ones off the one that has the key
/// by which it does: on the other one all of them find room.
#[test]
fn nodes_without_a_key_are_not_taken_for_those_that_have_it() {
    let anti_affinity = within("cage", "small");
    let large = PodShape {
        kin: role("large"),
        neighbours: Some(Arc::new(Neighbours { anti_affinity, ..Neighbours::default() })),
        preferred_nodes: on_node("n0000"),
        ..asking(2)
    };
    let small = PodShape { kin: role("small"), preferred_nodes: on_node("n0001"), ..asking(1) };
    let mut nodes = [named(0, 4), named(1, 4)];
    nodes[0].labels.insert(text("cage"), text("c"));
    let nodes = nodes.into_iter().map(|it| Input::Node(it.into()));
    let shapes = [vec![large], vec![small; 6]].concat();
    let (places, reason) = decided(nodes.chain(members(shapes)));
    assert_eq!(places.len(), 7, "{reason}");
    assert_eq!(places["g-0"], "n0001");
}

/// Two nodes have the same free. A port of the one went to a member, which nobody minds yet who
/// would need it: who wants others near that are still to come.
#[test]
fn a_node_where_a_member_has_the_port_is_not_taken_for_another() {
    let first = PodShape { kin: role("first"), ports: ports(&[80, 81]), ..asking(1) };
    let second = PodShape {
        kin: role("second"),
        neighbours: near(ZONE, "first"),
        preferred_nodes: on_node("n0000"),
        ..asking(1)
    };
    let third = PodShape {
        kin: role("third"),
        neighbours: near(ZONE, "second"),
        ports: ports(&[80]),
        ..asking(2)
    };
    let mut nodes = [named(0, 3), named(1, 3)];
    for facts in &mut nodes {
        facts.labels.insert(text(ZONE), text("z"));
    }
    let nodes = nodes.into_iter().map(|it| Input::Node(it.into()));
    let other = Arc::new(PodShape { ports: ports(&[81]), ..asking(1) });
    let mut there = pod("there", &other, &in_queue(None));
    (there.ours, there.node, there.phase) = (false, Some(text("n0000")), PodPhase::Running);
    let facts = nodes.chain([Input::Pod(there)]).chain(members(vec![first, second, third]));
    let (places, reason) = decided(facts);
    let at: Vec<&str> = places.values().map(String::as_str).collect();
    assert_eq!(at, ["n0001", "n0001", "n0000"], "{reason}");
}

/// What a pod made of those around nodes is nothing once there are no nodes.
#[test]
fn who_wants_others_near_waits_where_no_node_is_left() {
    let wanting = PodShape { kin: role("second"), neighbours: near(ZONE, "first"), ..asking(1) };
    let wanting = Arc::new(wanting);
    let comes = |name: &str| Input::Pod(pod(name, &wanting, &in_queue(None)));
    let (node, gone) = (Input::Node(named(0, 3).into()), Input::NodeGone(text("n0000")));
    let mut engine = Engine::new();
    for facts in [vec![namespace(), node, comes("a")], vec![gone], vec![comes("b")]] {
        engine.step(Time(1_000), facts);
        engine.recount();
    }
    assert_eq!(engine.workloads().len(), 2);
}

/// More who run elsewhere, and could not help, than one search looks at, all of lower priority than
/// the one that could.
#[test]
fn who_makes_room_for_a_gang_is_found_amid_those_who_could_not() {
    let (idle, wishes) = (shape(&[]), in_queue(None));
    let idle = |at: usize| bound(&pod(&format!("idle-{at:05}"), &idle, &wishes), "other");
    let mut fast = named(0, 2);
    fast.labels.insert(text(POOL), text("fast"));
    let nodes = [node("other", &[("pods", 30_000)]), fast];
    let there = PodFacts { priority: 1, ..pod("there", &shape(&[("cpu", 2)]), &wishes) };
    let member = PodShape { node_selector: labels(&[(POOL, "fast")]), ..asking(1) };
    let pods = gang("g", 2, None, &Arc::new(member), &wishes).into_iter();
    let mut facts = vec![namespace(), bound(&there, "n0000")];
    facts.extend(nodes.into_iter().map(|it| Input::Node(it.into())));
    facts.extend((0..20_001).map(idle));
    facts.extend(pods.map(|pod| Input::Pod(PodFacts { priority: 9, ..pod })));
    let output = Engine::new().step(Time(1_000), facts);
    assert_eq!(evicted(&output), ["there"]);
}
