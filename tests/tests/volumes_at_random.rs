//! Properties of volumes on small clusters: what is rolled back was never chosen, and a gang is
//! placed exactly if some way of giving each member a node and each claim a volume exists, whoever
//! shares a claim, whatever nodes a volume reaches, however many a node attaches and whichever it
//! has attached that nobody uses.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::apply::Changes;
use capstan_core::model::ids::PodIdx;
use capstan_core::model::input::{
    AccessModes, Attach, AttachmentFacts, ClaimFacts, ClaimKey, ClaimUse, Input, NodeSelector,
    NodeSelectorTerm, Operator, PodFacts, PodPhase, PodShape, PodVolumes, Requirement, StorageFact,
    VolumeFacts,
};
use capstan_core::model::state::ClusterState;
use capstan_core::model::txn::Txn;
use capstan_core::plan::Action;
use capstan_core::time::Time;
use capstan_tests::disks::{self, class};
use capstan_tests::facts::{GPU, gang, in_queue, pod, shape, text};
use capstan_tests::hand::gpu_node;
use capstan_tests::seed::Seed;
use capstan_topology::NodeIdx;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

const NOW: Time = Time(1_000_000);

fn config() -> Config {
    Config {
        cases: 4_096,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

/// A cluster of a few nodes with a few volumes, and one gang.
#[derive(Clone, Debug)]
struct Small {
    /// GPUs of each node.
    gpus: Vec<i64>,
    /// For each volume its size and the node that reaches it; beyond the last: every node, or the
    /// first two alone.
    volumes: Vec<(i64, usize)>,
    /// For each claim its size, and how it is used.
    claims: Vec<(i64, usize)>,
    /// For each member the claims that it uses; some may be the same.
    members: Vec<Vec<usize>>,
    /// Volumes are made where none is found.
    makes: bool,
}

const MODES: [AccessModes; 3] =
    [AccessModes::ONE_NODE, AccessModes::MANY_WRITE, AccessModes::ONE_POD];

fn small() -> impl Strategy<Value = Small> {
    let nodes = vec(0..3_i64, 1..4);
    let volumes = vec((1..4_i64, 0..5_usize), 0..6);
    let claims = vec((1..4_i64, 0..MODES.len()), 1..4);
    let members = vec(vec(0..4_usize, 0..3), 1..4);
    (nodes, volumes, claims, members, any::<bool>()).prop_map(
        |(gpus, volumes, claims, mut members, makes)| {
            for uses in &mut members {
                uses.iter_mut().for_each(|claim| *claim %= claims.len());
                uses.sort_unstable();
                uses.dedup();
            }
            Small { gpus, volumes, claims, members, makes }
        },
    )
}

fn key(claim: usize) -> ClaimKey {
    disks::key(&format!("c{claim}"))
}

impl Small {
    fn facts(&self) -> Vec<Input> {
        let nodes = self.gpus.iter().enumerate();
        let nodes = nodes.map(|(at, gpus)| gpu_node(&format!("n{at}"), *gpus));
        let volumes = self.volumes.iter().enumerate();
        let volumes =
            volumes.map(|(at, (size, node))| StorageFact::Volume(self.volume(at, *size, *node)));
        let claims = self.claims.iter().enumerate();
        let claims = claims.map(|(at, (size, mode))| StorageFact::Claim(claim(at, *size, *mode)));
        let class = class(self.makes.then_some("disks"));
        let storage = volumes.chain(claims).chain([class]).map(Input::Storage);
        nodes.chain(storage).chain(self.gang().into_iter().map(Input::Pod)).collect()
    }

    fn volume(&self, at: usize, size: i64, node: usize) -> VolumeFacts {
        let of = |node: usize| NodeSelectorTerm {
            labels: vec![Requirement {
                key: text("kubernetes.io/hostname"),
                operator: Operator::In,
                values: vec![text(format!("n{node}"))],
            }],
            fields: Vec::new(),
        };
        let reached = (0..self.gpus.len()).filter(|at| self.reaches(node, *at));
        let terms: Vec<_> = reached.map(of).collect();
        let nodes = (terms.len() < self.gpus.len()).then_some(NodeSelector { terms });
        VolumeFacts {
            capacity: size,
            modes: MODES.into_iter().fold(AccessModes::default(), AccessModes::with),
            nodes,
            ..disks::volume(&format!("v{at}"), "")
        }
    }

    /// Whether a volume that is of some node can be used on a node.
    fn reaches(&self, of: usize, node: usize) -> bool {
        let last = self.gpus.len();
        of == node || of == last || of > last && node < 2
    }

    fn gang(&self) -> Vec<PodFacts> {
        let count = self.members.len() as u32;
        let mut pods = gang("g", count, None, &shape(&[(GPU, 1)]), &in_queue(None));
        for (pod, uses) in pods.iter_mut().zip(&self.members) {
            let claims = uses.iter().map(|at| ClaimUse { claim: key(*at), made_for: None });
            let volumes = PodVolumes { claims: claims.collect(), ..PodVolumes::default() };
            let volumes = (!uses.is_empty()).then(|| Arc::new(volumes));
            pod.shape = Arc::new(PodShape { volumes, ..PodShape::clone(&pod.shape) });
        }
        pods
    }

    /// Whether some node for each member and some volume for each claim do, by trying all.
    fn possible(&self) -> bool {
        let users = |claim: usize| self.members.iter().filter(|uses| uses.contains(&claim)).count();
        let alone = |(at, (_, mode)): (usize, &(i64, usize))| *mode != 2 || users(at) <= 1;
        self.claims.iter().enumerate().all(alone) && self.place(&mut Vec::new())
    }

    fn place(&self, nodes: &mut Vec<usize>) -> bool {
        if nodes.len() == self.members.len() {
            return self.bind(nodes, &mut Vec::new());
        }
        for node in 0..self.gpus.len() {
            let held = nodes.iter().filter(|other| **other == node).count() as i64;
            if held >= self.gpus[node] {
                continue;
            }
            nodes.push(node);
            let found = self.place(nodes);
            nodes.pop();
            if found {
                return true;
            }
        }
        false
    }

    /// A volume, or none to be made, for each claim in turn.
    fn bind(&self, nodes: &[usize], given: &mut Vec<Option<usize>>) -> bool {
        let Some(&(size, mode)) = self.claims.get(given.len()) else { return true };
        let uses = |at: &usize| self.members[*at].contains(&given.len());
        let at: Vec<usize> = (0..nodes.len()).filter(uses).map(|at| nodes[at]).collect();
        if at.is_empty() {
            given.push(None);
            let found = self.bind(nodes, given);
            given.pop();
            return found;
        }
        let suits = |volume: usize| {
            let (capacity, node) = self.volumes[volume];
            let reached = at.iter().all(|user| self.reaches(node, *user));
            capacity >= size && reached && !given.contains(&Some(volume))
        };
        let found: Vec<usize> = (0..self.volumes.len()).filter(|volume| suits(*volume)).collect();
        // What is made for one node is used there, unless many nodes may.
        let together = mode == 1 || at.iter().all(|user| *user == at[0]);
        let made = (self.makes && together).then_some(None);
        for choice in found.into_iter().map(Some).chain(made) {
            given.push(choice);
            let done = self.bind(nodes, given);
            given.pop();
            if done {
                return true;
            }
        }
        false
    }
}

/// Nodes that attach few volumes, and a gang that brings some.
#[derive(Clone, Debug)]
struct Attached {
    /// GPUs of each node, and how many volumes it attaches.
    nodes: Vec<(i64, i64)>,
    /// For each member the claims that it uses, all bound; some may be the same.
    members: Vec<Vec<usize>>,
    /// Nodes and volumes that are attached to them, whoever uses them.
    attached: BTreeSet<(usize, usize)>,
    /// Nodes, and volumes that a pod there uses.
    used: BTreeSet<(usize, usize)>,
}

/// Claims that members of such a gang may use.
const BOUND: usize = 8;

/// Members that bring up to `most` of some claims. `there`: how many of them may be attached to
/// nodes before, or be in use there.
fn attached(claims: usize, most: usize, there: usize) -> impl Strategy<Value = Attached> {
    let nodes = vec((0..4_i64, 0..6_i64), 1..4);
    let members = vec(vec(0..claims, 0..=most), 1..5);
    let pairs = |count: usize| vec((0..3_usize, 0..claims), 0..=count);
    (nodes, members, pairs(there), pairs(there / 2)).prop_map(
        |(nodes, mut members, attached, used)| {
            for uses in &mut members {
                uses.sort_unstable();
                uses.dedup();
            }
            let known = |pair: &(usize, usize)| pair.0 < nodes.len();
            let attached = attached.into_iter().filter(known).collect();
            let used = used.into_iter().filter(known).collect();
            Attached { nodes, members, attached, used }
        },
    )
}

impl Attached {
    fn facts(&self) -> Vec<Input> {
        let (gpus, volumes, claims) = (Vec::new(), Vec::new(), Vec::new());
        let small = Small { gpus, volumes, claims, members: self.members.clone(), makes: false };
        let mut all = Vec::new();
        for (at, (gpus, limit)) in self.nodes.iter().enumerate() {
            let node = format!("n{at}");
            all.push(gpu_node(&node, *gpus));
            let limits = [(text("disks"), *limit)].into();
            let (node, migrated) = (text(node), Default::default());
            all.push(Input::Storage(StorageFact::Limits { node, limits, migrated }));
        }
        for at in 0..BOUND {
            let (driver, handle) = (text("disks"), text(format!("h{at}")));
            let attach = Some(Attach { driver, handle, migrated: false });
            let volume = VolumeFacts { attach, available: false, ..small.volume(at, 1, 0) };
            let name = Some(volume.name.clone());
            let claim = ClaimFacts { volume: name, bound: true, ..claim(at, 1, 1) };
            all.push(Input::Storage(StorageFact::Volume(volume)));
            all.push(Input::Storage(StorageFact::Claim(claim)));
        }
        for (node, volume) in &self.attached {
            let name = text(format!("a-{node}-{volume}"));
            let (node, volume) = (text(format!("n{node}")), text(format!("v{volume}")));
            let facts = AttachmentFacts { name, node, driver: text("disks"), volume };
            all.push(Input::Storage(StorageFact::Attachment(facts)));
        }
        for (node, volume) in &self.used {
            let claims = vec![ClaimUse { claim: key(*volume), made_for: None }];
            let volumes = Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() }));
            let shape = Arc::new(PodShape { volumes, ..PodShape::default() });
            let mut user = pod(&format!("user-{node}-{volume}"), &shape, &in_queue(None));
            (user.node, user.phase) = (Some(text(format!("n{node}"))), PodPhase::Running);
            all.push(Input::Pod(user));
        }
        all.extend(small.gang().into_iter().map(Input::Pod));
        all
    }

    /// Whether some node for each member does, in some order, by trying all.
    fn possible(&self) -> bool {
        let all = (0..self.members.len()).collect();
        self.place(&all, &mut vec![0; self.nodes.len()], &mut self.used.clone())
    }

    fn place(
        &self,
        left: &BTreeSet<usize>,
        held: &mut [i64],
        used: &mut BTreeSet<(usize, usize)>,
    ) -> bool {
        if left.is_empty() {
            return true;
        }
        for &member in left {
            let rest = left.iter().copied().filter(|other| *other != member).collect();
            for node in 0..self.nodes.len() {
                if held[node] >= self.nodes[node].0 || !self.takes(node, member, used) {
                    continue;
                }
                let before = used.clone();
                used.extend(self.members[member].iter().map(|volume| (node, *volume)));
                held[node] += 1;
                if self.place(&rest, held, used) {
                    return true;
                }
                held[node] -= 1;
                *used = before;
            }
        }
        false
    }

    /// Whether a node attaches what a member brings beside what is there: a volume that is attached
    /// and that nobody there uses is there, and is brought.
    fn takes(&self, node: usize, member: usize, used: &BTreeSet<(usize, usize)>) -> bool {
        let brings = self.members[member].iter().filter(|it| !used.contains(&(node, **it)));
        let brings = brings.count();
        let there = used.union(&self.attached).filter(|(at, _)| *at == node).count();
        brings == 0 || (brings + there) as i64 <= self.nodes[node].1
    }
}

fn claim(at: usize, size: i64, mode: usize) -> ClaimFacts {
    ClaimFacts { size: Some(size), modes: MODES[mode], ..disks::claim(&format!("c{at}")) }
}

fn state(small: &Small) -> ClusterState {
    let mut state = ClusterState::default();
    let mut changes = Changes::default();
    small.facts().into_iter().for_each(|fact| state.apply(fact, &mut changes));
    state.derive(&mut changes);
    state.recount();
    state
}

/// Places and choices, as text.
fn shown(state: &ClusterState, small: &Small) -> String {
    let mut text = String::new();
    for (index, pod) in state.pods.iter() {
        writeln!(text, "{index:?}: {:?}", pod.place).expect("text");
    }
    for at in 0..small.claims.len() {
        writeln!(text, "{at}: {:?}", state.room.volumes.choice(&key(at))).expect("text");
    }
    text
}

/// Places a member somewhere, sensible or not, or takes one away.
fn change(txn: &mut Txn<'_>, seed: &mut Seed) {
    let pods: Vec<PodIdx> = txn.state().pods.iter().map(|(index, _)| index).collect();
    let pod = pods[seed.below(pods.len() as u64) as usize];
    let nodes = txn.state().room.slots() as u64;
    match txn.state().pods[pod].place {
        Some(_) => txn.remove(pod),
        None => txn.place(pod, NodeIdx(seed.below(nodes) as u32)),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_rolled_back_was_never_chosen(small in small(), seed: u64, count in 1..20_usize) {
        let mut state = state(&small);
        let mut seed = Seed::new(seed);
        let before = shown(&state, &small);
        {
            let mut txn = Txn::begin(&mut state);
            let mut marks = Vec::new();
            for _ in 0..count {
                change(&mut txn, &mut seed);
                marks.push((txn.checkpoint(), shown(txn.state(), &small)));
            }
            while let Some((mark, then)) = marks.pop() {
                txn.rollback_to(mark);
                prop_assert_eq!(then, shown(txn.state(), &small));
            }
        }
        prop_assert_eq!(before, shown(&state, &small));
        state.recount();
        let mut txn = Txn::begin(&mut state);
        (0..count).for_each(|_| change(&mut txn, &mut seed));
        txn.commit();
        state.recount();
    }

    #[test]
    fn a_gang_is_placed_if_there_is_a_way(small in small()) {
        prop_assert_eq!(begins(small.facts().into_iter()), small.possible());
    }

    #[test]
    fn a_gang_is_placed_if_nodes_attach_its_volumes(small in attached(BOUND, 3, 0)) {
        prop_assert_eq!(begins(small.facts().into_iter()), small.possible());
    }

    #[test]
    fn a_gang_is_placed_if_nodes_attach_its_volumes_beside_those_that_nobody_uses(
        small in attached(4, 3, 6),
    ) {
        prop_assert_eq!(begins(small.facts().into_iter()), small.possible());
    }
}

proptest! {
    #![proptest_config(Config { cases: 256, ..config() })]

    /// Nodes that take nobody change nothing, however many they are.
    #[test]
    fn it_is_placed_amid_many_other_nodes(small in small(), attached in attached(4, 3, 6)) {
        let others = || (0..300).map(|at| gpu_node(&format!("other-{at}"), 0));
        prop_assert_eq!(begins(small.facts().into_iter().chain(others())), small.possible());
        let facts = attached.facts().into_iter().chain(others());
        prop_assert_eq!(begins(facts), attached.possible());
    }
}

fn begins(facts: impl Iterator<Item = Input>) -> bool {
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts.collect());
    engine.recount();
    output
        .effects
        .iter()
        .any(|effect| matches!(effect.action, Action::Bind { .. } | Action::SelectVolumes { .. }))
}

#[test]
fn a_member_that_brings_less_opens_a_node_for_one_that_brings_the_same_and_more() {
    // The node attaches two, has v0 attached, and nobody there uses it: it counts twice for who
    // comes first with it, so that only the member with v0 alone can be the first.
    let members = vec![vec![0, 1], vec![0]];
    let attached = [(0, 0)].into();
    let mut small = Attached { nodes: vec![(2, 2)], members, attached, used: BTreeSet::new() };
    assert!(small.possible());
    assert!(begins(small.facts().into_iter()));
    // Without such a member nobody can.
    small.members[1] = vec![0, 2];
    assert!(!small.possible());
    assert!(!begins(small.facts().into_iter()));
    // A pod that uses it there already opens it for all.
    small.members[1] = vec![1];
    small.used.insert((0, 0));
    assert!(small.possible());
    assert!(begins(small.facts().into_iter()));
}

#[test]
fn who_brings_what_nobody_uses_goes_before_others_where_not_all_fit() {
    // One node attaches three, has v1, and nobody there uses it: the member with v0 and v1 finds
    // room there before the one with v0 and v2, and not after it. Each of the three alone would
    // find room anywhere.
    let members = vec![vec![0, 2], vec![0, 1], vec![2, 3]];
    for wide in [0, 1] {
        let mut nodes = vec![(1, 2); 2];
        nodes[wide] = (3, 3);
        for turn in 0..members.len() {
            let mut members = members.clone();
            members.rotate_left(turn);
            let attached = [(wide, 1)].into();
            let small = Attached { nodes: nodes.clone(), members, attached, used: BTreeSet::new() };
            assert!(small.possible());
            assert!(begins(small.facts().into_iter()), "{small:?}");
        }
    }
}
