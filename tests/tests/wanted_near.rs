//! Who leaves a queue for quota where those who hold it are wanted near: whoever stands where there
//! is no room, in whatever order they would leave. And who leaves a node for the sake of a device,
//! where others stay who are wanted near.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AllocatedDevice, Allocation, BudgetFacts, Input, Kin, Neighbours, Operator, PeerSelector,
    PeerTerm, PodClaim, PodFacts, PodShape, PreemptWithin, Requirement, ResourceClaimFacts,
};
use capstan_core::time::Time;
use capstan_tests::devices;
use capstan_tests::facts::{
    DEFAULT, TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue,
    namespace, node, nominal, pod, text,
};
use capstan_tests::hand::{bound, evicted};
use capstan_tests::kinds::ZONE;

const NOW: Time = Time(1_000_000);
const HOST: &str = "kubernetes.io/hostname";
/// The priority of who comes.
const BOSS: i32 = 1_000;

/// A pod of the database.
struct There {
    /// Its node, from 0 on.
    node: usize,
    cpu: i64,
    priority: i32,
    /// It may not be disturbed.
    guarded: bool,
}

fn there(node: usize, cpu: i64, priority: i32) -> There {
    There { node, cpu, priority, guarded: false }
}

/// A shape of so much CPU, and whom it wants near by this key.
fn asking(cpu: i64, near: Option<&str>) -> PodShape {
    let own = Requirement { key: text("app"), operator: Operator::In, values: vec![text("db")] };
    let namespaces = vec![text(TEAM)];
    let peers = PeerSelector { namespaces, namespace_selector: None, labels: Some(vec![own]) };
    let neighbours = near.map(|key| {
        let affinity = vec![PeerTerm { key: text(key), peers }];
        Arc::new(Neighbours { affinity, ..Neighbours::default() })
    });
    // Who looks at others is seen by them.
    let seen = || Arc::new(Kin { namespace: text(TEAM), labels: labels(&[]) });
    let (kin, requests) = (near.map(|_| seen()), amounts(&[("cpu", cpu)]));
    PodShape { requests, neighbours, kin, ..PodShape::default() }
}

/// Nodes of so much CPU, each a zone of its own, and a queue that owns as much as those hold who
/// are there.
fn ground(nodes: &[i64], all: &[There]) -> Vec<Input> {
    let owns = all.iter().map(|it| it.cpu).sum();
    let mut queue = cluster_queue("q", None, group(&[(DEFAULT, &[("cpu", nominal(owns))])]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let (disturbed, name) = (BTreeSet::new(), text("guard"));
    let guard = BudgetFacts { namespace: text(TEAM), name, allowed: 0, disturbed };
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    facts.extend([Input::ClusterQueue(queue), Input::LocalQueue(local_queue("q"))]);
    facts.push(Input::Budget(Arc::new(guard)));
    for (at, cpu) in nodes.iter().enumerate() {
        let name = format!("n{at}");
        let mut facts_of = node(&name, &[("cpu", *cpu)]);
        facts_of.labels = labels(&[(HOST, &name), (ZONE, &name)]);
        facts.push(Input::Node(facts_of.into()));
    }
    for (at, it) in all.iter().enumerate() {
        let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", "db")]) };
        let budgets = it.guarded.then(|| text("guard")).into_iter().collect();
        let shape = PodShape { kin: Some(Arc::new(kin)), budgets, ..asking(it.cpu, None) };
        let db = pod(&format!("db-{at}"), &Arc::new(shape), &in_queue(Some("q")));
        facts.push(bound(&PodFacts { priority: it.priority, ..db }, &format!("n{}", it.node)));
    }
    facts
}

/// Who leaves for so many members of two CPUs that want the database near.
fn left_for(members: u32, key: &str, nodes: &[i64], all: &[There]) -> Vec<String> {
    let mut engine = Engine::new();
    engine.step(NOW, ground(nodes, all));
    let shape = Arc::new(asking(2, Some(key)));
    let boss = gang("boss", members, Some(members), &shape, &in_queue(Some("q")));
    let boss = boss.into_iter().map(|pod| Input::Pod(PodFacts { priority: BOSS, ..pod }));
    let output = engine.step(NOW, boss.collect());
    engine.recount();
    let mut gone = evicted(&output);
    gone.sort_unstable();
    gone
}

#[test]
fn who_stands_where_there_is_no_room_leaves_whatever_its_priority() {
    for key in [HOST, ZONE] {
        for (far, near, guarded) in [(0, 2, false), (2, 0, false), (0, 2, true), (2, 0, true)] {
            let far = There { guarded, ..there(0, 3, far) };
            let gone = left_for(1, key, &[3, 4], &[far, there(1, 2, near)]);
            assert_eq!(gone, ["db-0"], "by {key}, guarded: {guarded}");
        }
    }
}

/// The lowest stands where there is room, behind others that would leave before those who are on
/// full nodes; and where more are wanted than are tried in turn.
#[test]
fn of_many_those_leave_who_are_not_where_there_is_room() {
    for others in [3, 12, 40] {
        let mut all: Vec<There> = (0..others).map(|at| there(at, 2, 1 + at as i32)).collect();
        all.push(there(others, 2, 0));
        let mut nodes = vec![2; others];
        nodes.push(6);
        assert_eq!(left_for(1, HOST, &nodes, &all), ["db-0"], "of {others}");
        assert_eq!(left_for(2, HOST, &nodes, &all), ["db-0", "db-1"], "of {others}");
    }
}

/// Two stand where there is room, and one of them has to leave.
#[test]
fn one_of_those_who_are_where_there_is_room_leaves_if_it_must() {
    let all = [there(0, 1, 2), there(1, 1, 0), there(1, 1, 1)];
    assert_eq!(left_for(1, HOST, &[1, 4], &all), ["db-0", "db-1"]);
}

/// A pod in no queue that may have the only device, by a claim of its own.
fn unqueued(name: &str, priority: i32, shape: PodShape, device: bool) -> PodFacts {
    let needs = || PodClaim::Own { name: text("gpu"), spec: devices::spec(1) };
    let shape = PodShape { claims: device.then(needs).into_iter().collect(), ..shape };
    let claims = device.then(|| Arc::new(vec![text(format!("{name}-claim"))]));
    let facts = pod(name, &Arc::new(shape), &in_queue(None));
    PodFacts { priority, claims: claims.or_else(|| facts.claims.clone()), ..facts }
}

/// Two of the database stand on the node, and the one of higher priority has its device: that one
/// leaves for who wants the device, and the database near.
#[test]
fn who_has_the_device_leaves_and_another_stays() {
    let mut engine = Engine::new();
    let mut only = node("n0", &[("cpu", 8)]);
    only.labels = labels(&[(HOST, "n0")]);
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", "db")]) };
    let db = || PodShape { kin: Some(Arc::new(kin.clone())), ..asking(1, None) };
    let id = (text("d"), text("n0"), text("x"));
    let has = vec![AllocatedDevice { id, share: false, consumed: BTreeMap::new() }];
    let allocation = Some(Arc::new(Allocation { devices: has, ..Allocation::default() }));
    let claim = |name: &str| devices::claim(name, true, devices::spec(1));
    let inputs = vec![
        namespace(),
        Input::Node(only.into()),
        devices::slice("n0", &["x"]),
        Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim("db-0-claim") }),
        bound(&unqueued("db-0", 1, db(), true), "n0"),
        bound(&unqueued("db-1", 0, db(), false), "n0"),
    ];
    engine.observe(NOW, inputs);
    let boss = unqueued("boss", BOSS, asking(1, Some(HOST)), true);
    let comes = vec![Input::ResourceClaim(claim("boss-claim")), Input::Pod(boss)];
    assert_eq!(evicted(&engine.step(NOW, comes)), ["db-0"]);
    engine.recount();
}
