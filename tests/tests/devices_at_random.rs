//! Gangs whose members claim devices that differ, some of them together, on small clusters: against
//! every choice of nodes and devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Answer, Attribute, ClaimSpec, Constraint, DeviceAsk, DeviceCount, DeviceId, Input, Kin,
    Neighbours, Operator, PeerSelector, PeerTerm, PodClaim, PodFacts, PodShape, Reach, RequestSpec,
    Requirement,
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

/// A device by the number of its node, which for those that all nodes reach is one more than the
/// last, and its position there.
type At = (usize, usize);

/// The devices that a claim got.
type Given = Vec<At>;

/// What a member is given: its node, and its claims.
type Member = (usize, Vec<ClaimGrant>);

/// A claim.
#[derive(Clone, Debug)]
struct Claim {
    requests: Vec<Request>,
    /// All of its devices are of one NUMA node.
    together: bool,
    /// It is made for the pod from a template; else it exists, and whoever names it uses it.
    own: bool,
    /// For administration: it may have what others have, and keeps it from nobody.
    admin: bool,
}

#[derive(Clone, Debug)]
struct Case {
    /// Devices of each node, and how many members it has room for.
    nodes: Vec<(Vec<Device>, i64)>,
    /// Devices that all nodes reach.
    wide: Vec<Device>,
    claims: Vec<Claim>,
    /// Which claims each member has.
    members: Vec<Vec<usize>>,
    /// The last member wants the first on its node.
    near: bool,
}

fn node_of(most: usize) -> impl Strategy<Value = (Vec<Device>, i64)> {
    (vec((0..2_u8, 0..2_u8), 0..most), 1..4_i64)
}

fn claim() -> impl Strategy<Value = Claim> {
    let claim = (vec((0..3_u8, 1..3_usize), 1..3), any::<bool>(), any::<bool>());
    claim.prop_map(|(requests, together, own)| Claim { requests, together, own, admin: false })
}

/// A claim for each member, on devices of nodes.
fn case() -> impl Strategy<Value = Case> {
    let claims = vec(claim(), 1..4);
    (vec(node_of(6), 1..3), claims, any::<bool>()).prop_map(|(nodes, claims, near)| Case {
        members: (0..claims.len()).map(|at| vec![at]).collect(),
        wide: Vec::new(),
        nodes,
        claims,
        near,
    })
}

/// Members with one claim or two, which they may share, and devices that all nodes reach. Claims
/// for administration are of pods that have no other: what else such a pod may have depends on the
/// order in which its claims are looked at.
fn shared_case() -> impl Strategy<Value = Case> {
    let claims = vec((claim(), 0..4_u8), 1..4);
    let members = vec((0..4_usize, 0..8_usize), 1..4);
    let nodes = vec(node_of(4), 1..3);
    let wide = vec((0..2_u8, 0..2_u8), 0..3);
    (nodes, wide, claims, members, any::<bool>()).prop_map(|(nodes, wide, claims, wish, near)| {
        let count = claims.len();
        let named = |(first, second): &(usize, usize)| {
            let (first, second) = (first % count, *second);
            match second < count && second != first {
                true => vec![first, second],
                false => vec![first],
            }
        };
        let members: Vec<Vec<usize>> = wish.iter().map(named).collect();
        let users = |at: usize| members.iter().filter(move |claims| claims.contains(&at));
        let claims = claims.into_iter().enumerate().map(|(at, (claim, admin))| Claim {
            own: claim.own && users(at).count() == 1,
            admin: admin == 0 && users(at).all(|claims| claims.len() == 1),
            ..claim
        });
        Case { claims: claims.collect(), nodes, wide, members, near }
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
                admin: self.admin,
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
    fn takes(&self, given: &[Device]) -> bool {
        let wanted = self.wanted();
        given.iter().zip(&wanted).all(|(device, what)| suits(*what, *device))
            && given.iter().all(|device| !self.together || device.1 == given[0].1)
    }
}

impl Case {
    fn pods(&self) -> Vec<PodFacts> {
        let count = self.members.len() as u32;
        // Pods whose claims are alike are of one shape.
        let needs = |(slot, at): (usize, &usize)| match self.claims[*at].own {
            true => {
                let (name, spec) = (text(format!("d{slot}")), self.claims[*at].spec());
                PodClaim::Own { name, spec }
            }
            false => PodClaim::Named(key(&format!("c{at}"))),
        };
        let pod = |(at, claims): (usize, &Vec<usize>)| {
            let first = format!("c{}", claims[0]);
            let mut facts =
                devices::member(&format!("p{at}"), count, needs((0, &claims[0])), &first);
            let names = claims.iter().map(|at| text(format!("c{at}"))).collect();
            facts.claims = Some(Arc::new(names));
            let mut shape = PodShape::clone(&facts.shape);
            shape.claims = claims.iter().enumerate().map(needs).collect();
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

    /// What says which devices of a node, or of all, there are, and what queries say of them.
    fn slice(&self, name: &str, list: &[Device], reach: Option<Reach>) -> Vec<Input> {
        let names: Vec<String> = (0..list.len()).map(|at| format!("d{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Input::Slice(mut slice) = devices::slice(name, &names) else { unreachable!("a slice") };
        let facts = Arc::make_mut(&mut slice);
        facts.nodes = reach.unwrap_or(facts.nodes.clone());
        for (device, (model, numa)) in facts.devices.iter_mut().zip(list) {
            for (name, value) in [("d/model", *model), (NUMA, *numa)] {
                device.attributes.insert(text(name), Attribute::Int(value.into()));
            }
        }
        let mut all = vec![Input::Slice(slice)];
        for (what, query) in [(1, "model"), (2, "numa")] {
            let said = |device: &Device| match suits(what, *device) {
                true => Answer::Yes,
                false => Answer::No,
            };
            let answers = list.iter().map(said).collect();
            all.push(Input::Answers { query: text(query), slice: text(name), answers });
        }
        all
    }

    fn facts(&self) -> Vec<Input> {
        let mut all = vec![namespace()];
        for (at, (list, room)) in self.nodes.iter().enumerate() {
            let name = format!("n{at}");
            all.push(Input::Node(node(&name, &[("cpu", 1_000 * room)]).into()));
            all.extend(self.slice(&name, list, None));
        }
        if !self.wide.is_empty() {
            let name = format!("n{}", self.nodes.len());
            all.extend(self.slice(&name, &self.wide, Some(Reach::Everywhere)));
        }
        for (at, claim) in self.claims.iter().enumerate() {
            let facts = devices::claim(&format!("c{at}"), claim.own, claim.spec());
            all.push(Input::ResourceClaim(facts));
        }
        all.extend(self.pods().into_iter().map(Input::Pod));
        all
    }

    fn device(&self, (place, at): At) -> Device {
        self.nodes.get(place).map_or(&self.wide, |(list, _)| list)[at]
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

    /// Nodes on which a claim is used.
    fn used_on(&self, claim: usize, nodes: &[usize]) -> BTreeSet<usize> {
        let users = self.members.iter().zip(nodes);
        users.filter(|(claims, _)| claims.contains(&claim)).map(|(_, node)| *node).collect()
    }

    /// Devices for each claim in turn that somebody uses.
    fn give(&self, nodes: &[usize], given: &mut Vec<Given>) -> bool {
        let at = given.len();
        let Some(claim) = self.claims.get(at) else { return true };
        let used_on = self.used_on(at, nodes);
        let count = if used_on.is_empty() { 0 } else { claim.wanted().len() };
        // What one node alone reaches is of no use to a pod on another.
        let own = used_on.first().filter(|_| used_on.len() == 1);
        let of_node = own
            .into_iter()
            .flat_map(|node| (0..self.nodes[*node].0.len()).map(move |device| (*node, device)));
        let wide = (0..self.wide.len()).map(|device| (self.nodes.len(), device));
        let reached: Vec<At> = of_node.chain(wide).collect();
        given.push(Vec::new());
        let found = self.take((nodes, &reached[..]), given, count);
        given.pop();
        found
    }

    /// One more device for the last claim. Those of one request are taken in one order only.
    fn take(
        &self,
        (nodes, reached): (&[usize], &[At]),
        given: &mut Vec<Given>,
        count: usize,
    ) -> bool {
        let (last, claim) = (given.len() - 1, &self.claims[given.len() - 1]);
        let has: Vec<Device> = given[last].iter().map(|at| self.device(*at)).collect();
        if !claim.takes(&has) {
            return false;
        }
        if given[last].len() == count {
            return self.give(nodes, given);
        }
        let same = claim.requests.iter().scan(0, |sum, (_, count)| {
            *sum += count;
            Some(*sum)
        });
        let begins = same.chain([0]).any(|end| end == given[last].len());
        let before = given[last].last().copied().filter(|_| !begins);
        reached.iter().any(|device| {
            let others = given[..last].iter().zip(&self.claims);
            let mut had = others.filter(|(_, other)| !other.admin && !claim.admin);
            if before.is_some_and(|before| *device <= before)
                || given[last].contains(device)
                || had.any(|(list, _)| list.contains(device))
            {
                return false;
            }
            given[last].push(*device);
            let found = self.take((nodes, reached), given, count);
            given.truncate(last + 1);
            given[last].pop();
            found
        })
    }

    /// What the engine gives to members, by position.
    fn given(&self) -> BTreeMap<usize, Member> {
        let mut engine = Engine::new();
        let output = engine.step(Time(1_000), self.facts());
        engine.recount();
        let given = output.effects.iter().filter_map(|effect| match &effect.action {
            Action::AllocateClaims { pod, claims, node } => {
                Some((position(&pod.name), (position(node), claims.clone())))
            }
            _ => None,
        });
        given.collect()
    }

    /// What is wrong with what members are given.
    fn problem(&self, given: &BTreeMap<usize, Member>) -> Option<String> {
        let (mut had, mut known) = (BTreeSet::new(), BTreeMap::new());
        for (member, (node, grants)) in given {
            let named: Vec<usize> = grants.iter().map(|grant| position(&grant.key.1)).collect();
            if named != self.members[*member] {
                return Some(format!("claims {named:?} of member {member}"));
            }
            for (at, grant) in named.into_iter().zip(grants) {
                let chosen = grant.chosen.as_ref().expect("nothing was allocated before");
                let id = |(_, pool, name): &DeviceId| (position(pool), position(name));
                let devices: Given = chosen.devices.iter().map(|one| id(&one.device.id)).collect();
                if devices.iter().any(|(place, _)| place != node && *place < self.nodes.len()) {
                    return Some(format!("{devices:?} on node {node}"));
                }
                match known.insert(at, devices.clone()) {
                    Some(before) if before != devices => {
                        return Some(format!("claim {at} has {before:?} and {devices:?}"));
                    }
                    Some(_) => continue,
                    None => {}
                }
                let claim = &self.claims[at];
                let once: BTreeSet<&At> = devices.iter().collect();
                let of: Vec<Device> = devices.iter().map(|device| self.device(*device)).collect();
                let count = claim.wanted().len();
                if once.len() != count || of.len() != count || !claim.takes(&of) {
                    return Some(format!("{devices:?} do not suit {claim:?}"));
                }
                let twice = devices.iter().find(|it| !claim.admin && !had.insert(**it));
                if let Some(twice) = twice {
                    return Some(format!("{twice:?} is given twice"));
                }
            }
        }
        None
    }
}

/// The number in a name.
fn position(name: &str) -> usize {
    name[1..].parse().expect("a position")
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
    let requests = vec![(0, 1), (1, 1)];
    let claim = Claim { requests, together: false, own: true, admin: false };
    let nodes = vec![(vec![(0, 0), (0, 0), (1, 0), (1, 0)], 3)];
    let of = |count: usize| Case {
        nodes: nodes.clone(),
        wide: Vec::new(),
        claims: vec![claim.clone(); count],
        members: (0..count).map(|at| vec![at]).collect(),
        near: false,
    };
    assert!(of(2).possible());
    assert_eq!(of(2).given().len(), 2);
    assert!(!of(3).possible());
    assert_eq!(of(3).given().len(), 0);
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

    /// So it does where members share claims, have several, and where nodes share devices.
    #[test]
    fn members_that_share_claims_get_devices_if_there_are_some_for_all(case in shared_case()) {
        let given = case.given();
        prop_assert_eq!(case.problem(&given), None);
        prop_assert!([0, case.members.len()].contains(&given.len()), "all or none");
        prop_assert_eq!(!given.is_empty(), case.possible());
    }
}
