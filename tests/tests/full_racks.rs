//! Who leaves racks that are full for a gang whose members depend on each other's places: as many
//! as it needs, be there thousands who might, and at a cost that follows the cluster.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    Input, Kin, Neighbours, Operator, PeerSelector, PeerTerm, PodFacts, PodShape, Requirement,
    SliceWish, Spread, Text, Wishes,
};
use capstan_core::time::Time;
use capstan_tests::facts::{TEAM, amounts, gang, in_queue, labels, namespace, node, pod, text};
use capstan_tests::hand::{bound, evicted};

const NOW: Time = Time(1_000_000);
const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "topology.kubernetes.io/rack";
const BLOCK: &str = "topology.kubernetes.io/block";
const GPU: &str = "nvidia.com/gpu";
/// Nodes of a rack, and racks of a block.
const RACKED: usize = 8;
/// GPUs of a node, each held by a pod of its own.
const GPUS: usize = 8;
/// The priority of the gang: those who are there have less.
const BOSS: i32 = 1_000;
/// Members, and GPUs of each: half a rack's.
const MEMBERS: u32 = 8;
const EACH: i64 = 4;

/// How members of a gang depend on each other, and on other gangs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All in one rack, by affinity to each other.
    Near,
    /// The same, and no other gang there.
    Exclusive,
    /// The same as the first, in one block by topology.
    NearInBlock,
    /// One a node, by a spread constraint, in slices of four to a rack, in one block.
    SpreadInSlices,
}

fn label(name: &str, operator: Operator, value: &str) -> Requirement {
    let values = if operator == Operator::Exists { Vec::new() } else { vec![text(value)] };
    Requirement { key: text(name), operator, values }
}

impl Kind {
    fn shape(self) -> Arc<PodShape> {
        let namespaces = vec![text(TEAM)];
        let peers = |all: Vec<Requirement>| PeerSelector {
            namespaces: namespaces.clone(),
            namespace_selector: None,
            labels: Some(all),
        };
        let term = |all| PeerTerm { key: text(RACK), peers: peers(all) };
        let own = || label("job", Operator::In, "boss");
        let mut wants = Neighbours::default();
        match self {
            Kind::SpreadInSlices => wants.spread.push(Spread {
                key: text(HOST),
                labels: Some(vec![own()]),
                max_skew: 1,
                min_domains: 1,
                required: true,
                honors_taints: false,
                honors_affinity: true,
            }),
            Kind::Near | Kind::NearInBlock => wants.affinity.push(term(vec![own()])),
            Kind::Exclusive => {
                wants.affinity.push(term(vec![own()]));
                let others =
                    vec![label("job", Operator::Exists, ""), label("job", Operator::NotIn, "boss")];
                wants.anti_affinity.push(term(others));
            }
        }
        let kin = Kin { namespace: text(TEAM), labels: labels(&[("job", "boss")]) };
        Arc::new(PodShape {
            requests: amounts(&[(GPU, EACH)]),
            kin: Some(Arc::new(kin)),
            neighbours: Some(Arc::new(wants)),
            ..PodShape::default()
        })
    }

    fn wishes(self) -> Arc<Wishes> {
        let mut wishes = Wishes::clone(&in_queue(None));
        if matches!(self, Kind::NearInBlock | Kind::SpreadInSlices) {
            wishes.topology.required = Some(text(BLOCK));
        }
        if self == Kind::SpreadInSlices {
            wishes.topology.slices = Some(SliceWish { level: text(RACK), size: 4 });
        }
        Arc::new(wishes)
    }

    /// How many leave for it on so many nodes that are full, and how many nodes were looked at.
    fn leave(self, nodes: usize) -> (usize, u64) {
        let mut engine = Engine::new();
        engine.step(NOW, full(nodes));
        let members = gang("boss", MEMBERS, Some(MEMBERS), &self.shape(), &self.wishes());
        let members = members.into_iter().map(|pod| Input::Pod(PodFacts { priority: BOSS, ..pod }));
        let output = engine.step(NOW, members.collect());
        engine.recount();
        (evicted(&output).len(), output.report.counts.nodes_scored)
    }
}

/// So many nodes in racks and blocks, each with a pod of one GPU for each that it has, of fifty
/// priorities in turn.
fn full(nodes: usize) -> Vec<Input> {
    let levels: Vec<Text> = [BLOCK, RACK, HOST].map(text).to_vec();
    let mut facts = vec![namespace(), Input::Topology { name: text("dc"), levels }];
    let there = Arc::new(PodShape { requests: amounts(&[(GPU, 1)]), ..PodShape::default() });
    for at in 0..nodes {
        let name = format!("n{at:04}");
        let mut facts_of = node(&name, &[(GPU, GPUS as i64), ("pods", 110)]);
        let (rack, block) = (at / RACKED, at / RACKED / RACKED);
        facts_of.labels =
            labels(&[(HOST, &name), (RACK, &rack.to_string()), (BLOCK, &block.to_string())]);
        facts.push(Input::Node(facts_of.into()));
        for gpu in 0..GPUS {
            let lower = pod(&format!("there-{at:04}-{gpu}"), &there, &in_queue(None));
            let priority = ((at * GPUS + gpu) % 50) as i32;
            facts.push(bound(&PodFacts { priority, ..lower }, &name));
        }
    }
    facts
}

const KINDS: [Kind; 4] = [Kind::Near, Kind::Exclusive, Kind::NearInBlock, Kind::SpreadInSlices];

/// Two thousand may leave, and thirty-two have what the gang asks.
#[test]
fn no_more_leave_than_stand_where_it_goes() {
    for kind in KINDS {
        assert_eq!(kind.leave(256).0, MEMBERS as usize * EACH as usize, "{kind:?}");
    }
}

/// Who wants its own near is looked for where a rack may hold all of them, and where they went once
/// is not looked for again for each who goes back.
#[test]
fn it_costs_what_the_cluster_is_large() {
    for kind in [Kind::Near, Kind::Exclusive, Kind::NearInBlock] {
        let (few, many) = (kind.leave(64).1, kind.leave(256).1);
        assert!(many <= 8 * few, "{few} are looked at of 64, {many} of 256: {kind:?}");
        assert!(many <= 64 * 256, "{many} are looked at of 256: {kind:?}");
    }
}
