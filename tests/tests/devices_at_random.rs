//! Gangs whose members claim devices that differ, on small clusters: against every choice of nodes
//! and devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Answer, Attribute, ClaimSpec, Constraint, DeviceAsk, DeviceCount, Input, Kin, Neighbours,
    Operator, PeerSelector, PeerTerm, PodClaim, PodFacts, PodShape, RequestSpec, Requirement,
};
use capstan_core::plan::{Action, ClaimGrant};
use capstan_core::time::Time;
use capstan_tests::devices::{self, key};
use capstan_tests::facts::{TEAM, labels, namespace, node, text};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const HOST: &str = "kubernetes.io/hostname";
const NUMA: &str = "d/numa";

/// Model and NUMA node of a device.
type Device = (u8, u8);

/// What a request takes: any device, those of a model, or those of a NUMA node; and how many.
type Request = (u8, usize);

/// The devices of each node that a claim got, by position.
type Given = Vec<usize>;

/// A member's claim.
#[derive(Clone, Debug)]
struct Claim {
    requests: Vec<Request>,
    /// All of its devices are of one NUMA node.
    together: bool,
    /// It is made for the pod from a template; else it exists, and only this pod uses it.
    own: bool,
}

#[derive(Clone, Debug)]
struct Case {
    /// Devices of each node, and how many members it has room for.
    nodes: Vec<(Vec<Device>, i64)>,
    members: Vec<Claim>,
    /// The last member wants the first on its node.
    near: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let node = (vec((0..2_u8, 0..2_u8), 0..6), 1..4_i64);
    let claim = (vec((0..3_u8, 1..3_usize), 1..3), any::<bool>(), any::<bool>());
    let claim = claim.prop_map(|(requests, together, own)| Claim { requests, together, own });
    (vec(node, 1..3), vec(claim, 1..4), any::<bool>()).prop_map(|(nodes, members, near)| Case {
        nodes,
        members,
        near,
    })
}

fn suits(what: u8, (model, numa): Device) -> bool {
    match what {
        0 => true,
        1 => model == 0,
        _ => numa == 0,
    }
}

impl Claim {
    fn spec(&self) -> Arc<ClaimSpec> {
        let request = |(at, (what, count)): (usize, &Request)| {
            let ask = DeviceAsk {
                name: text(format!("r{at}")),
                query: text(["", "model", "numa"][usize::from(*what)]),
                count: DeviceCount::Exactly(*count as u64),
                admin: false,
                tolerations: Vec::new(),
                capacity: BTreeMap::new(),
            };
            RequestSpec { name: ask.name.clone(), options: vec![ask] }
        };
        let requests = self.requests.iter().enumerate().map(request).collect();
        let numa = Constraint { requests: Vec::new(), attribute: text(NUMA), distinct: false };
        let constraints = self.together.then_some(numa).into_iter().collect();
        Arc::new(ClaimSpec { requests, constraints, fault: None })
    }

    /// What is wanted of each device, one after the other.
    fn wanted(&self) -> Vec<u8> {
        self.requests.iter().flat_map(|(what, count)| vec![*what; *count]).collect()
    }

    /// Whether these devices, in the order of what is wanted, do.
    fn takes(&self, of: &[Device], given: &[usize]) -> bool {
        let wanted = self.wanted();
        given.iter().zip(&wanted).all(|(at, what)| suits(*what, of[*at]))
            && given.iter().all(|at| !self.together || of[*at].1 == of[given[0]].1)
    }
}

impl Case {
    fn pods(&self) -> Vec<PodFacts> {
        let count = self.members.len() as u32;
        let pod = |(at, claim): (usize, &Claim)| {
            let (pod, name) = (format!("p{at}"), format!("c{at}"));
            let needs = match claim.own {
                true => PodClaim::Own { name: text("d"), spec: claim.spec() },
                false => PodClaim::Named(key(&name)),
            };
            let mut facts = devices::member(&pod, count, needs, &name);
            let mut shape = PodShape::clone(&facts.shape);
            if self.near {
                let role = if at == 0 { "first" } else { "other" };
                let kin = Kin { namespace: text(TEAM), labels: labels(&[("role", role)]) };
                shape.kin = Some(Arc::new(kin));
            }
            if self.near && at > 0 && at + 1 == self.members.len() {
                shape.neighbours = Some(Arc::new(near("first")));
            }
            facts.shape = Arc::new(shape);
            facts
        };
        self.members.iter().enumerate().map(pod).collect()
    }

    fn facts(&self) -> Vec<Input> {
        let mut all = vec![namespace()];
        for (at, (list, room)) in self.nodes.iter().enumerate() {
            let name = format!("n{at}");
            all.push(Input::Node(node(&name, &[("cpu", 1_000 * room)])));
            let names: Vec<String> = (0..list.len()).map(|at| format!("d{at}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let Input::Slice(mut slice) = devices::slice(&name, &names) else {
                unreachable!("a slice")
            };
            let facts = &mut Arc::make_mut(&mut slice).devices;
            for (device, (model, numa)) in facts.iter_mut().zip(list) {
                for (name, value) in [("d/model", *model), (NUMA, *numa)] {
                    device.attributes.insert(text(name), Attribute::Int(value.into()));
                }
            }
            all.push(Input::Slice(slice));
            for (what, query) in [(1, "model"), (2, "numa")] {
                let said = |device: &Device| match suits(what, *device) {
                    true => Answer::Yes,
                    false => Answer::No,
                };
                let answers = list.iter().map(said).collect();
                all.push(Input::Answers { query: text(query), slice: text(&name), answers });
            }
        }
        for (at, claim) in self.members.iter().enumerate() {
            let facts = devices::claim(&format!("c{at}"), claim.own, claim.spec());
            all.push(Input::ResourceClaim(facts));
        }
        all.extend(self.pods().into_iter().map(Input::Pod));
        all
    }

    /// Whether some node and some devices for each member do.
    fn possible(&self) -> bool {
        self.place(&mut Vec::new())
    }

    fn place(&self, nodes: &mut Vec<usize>) -> bool {
        if nodes.len() == self.members.len() {
            let apart = self.near && nodes.first() != nodes.last();
            return !apart && self.give(nodes, &mut Vec::new());
        }
        (0..self.nodes.len()).any(|node| {
            let there = nodes.iter().filter(|other| **other == node).count() as i64;
            nodes.push(node);
            let found = there < self.nodes[node].1 && self.place(nodes);
            nodes.pop();
            found
        })
    }

    /// Devices for each member in turn.
    fn give(&self, nodes: &[usize], given: &mut Vec<Given>) -> bool {
        let at = given.len();
        let Some(claim) = self.members.get(at) else { return true };
        given.push(Vec::new());
        let found = self.take(nodes, given, claim.wanted().len());
        given.pop();
        found
    }

    /// One more device for the last member.
    fn take(&self, nodes: &[usize], given: &mut Vec<Given>, count: usize) -> bool {
        let at = given.len() - 1;
        let (claim, of) = (&self.members[at], &self.nodes[nodes[at]].0);
        if !claim.takes(of, &given[at]) {
            return false;
        }
        if given[at].len() == count {
            return self.give(nodes, given);
        }
        (0..of.len()).any(|device| {
            let mut had = given.iter().zip(nodes);
            if had.any(|(list, node)| *node == nodes[at] && list.contains(&device)) {
                return false;
            }
            given[at].push(device);
            let found = self.take(nodes, given, count);
            given.truncate(at + 1);
            given[at].pop();
            found
        })
    }

    /// What the engine gives to members, by position.
    fn given(&self) -> Vec<(usize, Vec<ClaimGrant>)> {
        let mut engine = Engine::new();
        let output = engine.step(Time(1_000), self.facts());
        engine.recount();
        let given = output.effects.iter().filter_map(|effect| match &effect.action {
            Action::AllocateClaims { pod, claims, .. } => {
                let at = pod.name[1..].parse().expect("a position");
                Some((at, claims.clone()))
            }
            _ => None,
        });
        given.collect()
    }

    /// What is wrong with what members are given.
    fn problem(&self, given: &[(usize, Vec<ClaimGrant>)]) -> Option<String> {
        let mut had = BTreeSet::new();
        for (member, grants) in given {
            let claim = &self.members[*member];
            let chosen = grants[0].chosen.as_ref().expect("nothing was allocated before");
            let position = |name: &str| name[1..].parse::<usize>().expect("a position");
            let (mut nodes, mut devices) = (BTreeSet::new(), Vec::new());
            for one in &chosen.devices {
                let (_, pool, name) = &one.device.id;
                nodes.insert(position(pool));
                devices.push(position(name));
                if !had.insert(one.device.id.clone()) {
                    return Some(format!("{pool}/{name} is given twice"));
                }
            }
            let node = nodes.first().copied().expect("a node");
            if nodes.len() > 1 || devices.len() != claim.wanted().len() {
                return Some(format!("{devices:?} of nodes {nodes:?}"));
            }
            if !claim.takes(&self.nodes[node].0, &devices) {
                return Some(format!("{devices:?} of node {node} do not suit {claim:?}"));
            }
        }
        None
    }
}

fn near(role: &str) -> Neighbours {
    let role = Requirement { key: text("role"), operator: Operator::In, values: vec![text(role)] };
    let peers = PeerSelector {
        namespaces: vec![text(TEAM)],
        namespace_selector: None,
        labels: Some(vec![role]),
    };
    let term = PeerTerm { key: text(HOST), peers };
    Neighbours { affinity: vec![term], ..Neighbours::default() }
}

/// Two of one template, who each take any device and one of a model, of four devices: the first may
/// not take both of that model, though it would by itself.
#[test]
fn pods_of_one_template_leave_each_other_what_they_need() {
    let claim = Claim { requests: vec![(0, 1), (1, 1)], together: false, own: true };
    let nodes = vec![(vec![(0, 0), (0, 0), (1, 0), (1, 0)], 3)];
    let case = Case { nodes, members: vec![claim; 2], near: false };
    assert!(case.possible());
    assert_eq!(case.given().len(), 2);
    let three = Case { members: vec![case.members[0].clone(); 3], ..case };
    assert!(!three.possible());
    assert_eq!(three.given().len(), 0);
}

fn config() -> Config {
    let failure_persistence = Some(Box::new(FileFailurePersistence::Off) as _);
    Config { cases: 8_192, failure_persistence, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// A gang gets devices exactly if there are some for all of it, and then no device twice.
    #[test]
    fn a_gang_gets_devices_if_there_are_some_for_all(case in case()) {
        let given = case.given();
        prop_assert_eq!(case.problem(&given), None);
        prop_assert!([0, case.members.len()].contains(&given.len()), "all or none");
        prop_assert_eq!(!given.is_empty(), case.possible());
    }
}
