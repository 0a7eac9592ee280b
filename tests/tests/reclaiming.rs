//! Property: an owner within its quota gets back what it lent, wherever it can be taken back.
//!
//! Every set of borrowers is tried by hand: some set may leave (each while its queue still
//! borrows), and then one node holds the owner. Exactly then the owner is promised its place, and
//! nobody leaves whom it does not need.

use std::collections::BTreeSet;

use capstan_core::Engine;
use capstan_core::model::input::{Input, PreemptReclaim, PreemptionPolicy};
use capstan_core::plan::{Action, State, StepOutput};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, nominal, pod,
    shape,
};
use capstan_tests::hand::{bound, gpu_node, view};
use proptest::prelude::*;

const NOW: Time = Time(1_000_000);
/// GPUs of a node.
const NODE: i64 = 8;
const NODES: usize = 3;

/// What borrows: node and GPUs, in order of admission.
type Borrowers = Vec<(usize, i64)>;

fn borrowers() -> impl Strategy<Value = Borrowers> {
    proptest::collection::vec((0..NODES, 1..5i64), 1..11).prop_map(|all| {
        let mut free = [NODE; NODES];
        let fits = |(node, gpus): &(usize, i64)| {
            let fits = free[*node] >= *gpus;
            if fits {
                free[*node] -= gpus;
            }
            fits
        };
        all.into_iter().filter(fits).collect()
    })
}

fn sum(set: &[(usize, i64)]) -> i64 {
    set.iter().map(|(_, gpus)| gpus).sum()
}

/// Whether all quota fits and one node holds the owner once these have left.
fn does(all: &Borrowers, gone: &[usize], asked: i64, quota: i64) -> bool {
    let stays: Borrowers =
        all.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, one)| *one).collect();
    let free = |node: usize| {
        NODE - stays.iter().filter(|(on, _)| *on == node).map(|(_, gpus)| gpus).sum::<i64>()
    };
    sum(&stays) + asked <= quota && (0..NODES).any(|node| free(node) >= asked)
}

/// Whether they may leave in some order: each while more is used than the borrowers own.
fn may_leave(all: &Borrowers, gone: &[usize], own: i64) -> bool {
    let held = gone.iter().map(|at| all[*at].1);
    let last = held.clone().max().unwrap_or(0);
    gone.is_empty() || sum(all) - (held.sum::<i64>() - last) > own
}

fn possible(all: &Borrowers, asked: i64, (owner, own): (i64, i64)) -> bool {
    let mut sets = (0..1_u32 << all.len())
        .map(|set| (0..all.len()).filter(|at| set >> at & 1 == 1).collect::<Vec<usize>>());
    // Who would borrow itself takes nobody's place.
    sets.any(|gone| {
        (gone.is_empty() || asked <= owner)
            && may_leave(all, &gone, own)
            && does(all, &gone, asked, owner + own)
    })
}

fn world(nodes: usize, all: &Borrowers, (owner, own): (i64, i64)) -> Engine {
    let queue = |name: &str, quota: i64| {
        cluster_queue(name, Some("all"), group(&[(DEFAULT, &[(GPU, nominal(quota))])]))
    };
    let mut first = queue("owner", owner);
    first.preemption = PreemptionPolicy { reclaim: PreemptReclaim::Any, ..first.preemption };
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    for queue in [first, queue("guest", own)] {
        facts.push(Input::LocalQueue(local_queue(&queue.name)));
        facts.push(Input::ClusterQueue(queue));
    }
    facts.extend((0..nodes).map(|node| gpu_node(&format!("n{node:02}"), NODE)));
    for (at, (node, gpus)) in all.iter().enumerate() {
        let guest = pod(&format!("g{at}"), &shape(&[(GPU, *gpus)]), &in_queue(Some("guest")));
        facts.push(bound(&guest, &format!("n{node:02}")));
    }
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    engine
}

/// Borrowers that are stopped, in order.
fn evicted(output: &StepOutput) -> Vec<usize> {
    let evicted = |action: &Action| match action {
        Action::Evict { pod, .. } => pod.name.strip_prefix('g').map(|at| at.parse().unwrap()),
        _ => None,
    };
    let gone: BTreeSet<usize> =
        output.effects.iter().filter_map(|effect| evicted(&effect.action)).collect();
    gone.into_iter().collect()
}

/// Sixteen nodes with two borrowers of four GPUs each, of whom one may leave, since four GPUs are
/// borrowed, and then these on the seventeenth. Who leaves, and what the owner of eight is told.
fn beside_sixteen(last: &[i64]) -> (Vec<usize>, Option<String>) {
    let others = (0..16).flat_map(|node| [(node, 4), (node, 4)]);
    let all: Borrowers = others.chain(last.iter().map(|gpus| (16, *gpus))).collect();
    let mut engine = world(17, &all, (NODE, sum(&all) - 4));
    let owner = pod("owner", &shape(&[(GPU, NODE)]), &in_queue(Some("owner")));
    let output = engine.step(NOW, vec![Input::Pod(owner)]);
    (evicted(&output), view(&engine, "owner").reason.map(|reason| reason.to_string()))
}

#[test]
fn the_one_node_that_can_be_cleared_is_found_beside_many_that_cannot() {
    assert_eq!(beside_sixteen(&[8]).0, [32]);
}

/// Whoever has one GPU may leave before whoever has seven: which is found where nodes are looked at
/// that come after sixteen in vain.
#[test]
fn where_nodes_are_left_alone_since_others_came_to_nothing_it_is_told() {
    let (gone, told) = beside_sixteen(&[7, 1]);
    assert!(gone.is_empty(), "{gone:?}");
    let told = told.expect("it waits");
    assert!(told.contains("The search for whom to preempt ended after"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_global_rejects: u32::MAX,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_owner_gets_back_what_one_node_can_give(
        all in borrowers(),
        asked in 1..=NODE,
        quota in (0..=24i64, 0..=24i64),
    ) {
        // What is used is covered by the quota of both.
        prop_assume!(sum(&all) <= quota.0 + quota.1);
        let mut engine = world(NODES, &all, quota);
        let owner = pod("owner", &shape(&[(GPU, asked)]), &in_queue(Some("owner")));
        let output = engine.step(NOW, vec![Input::Pod(owner)]);
        engine.recount();
        let gone = evicted(&output);
        let started = view(&engine, "owner").state != State::Queued;
        let free = |gone: &[usize]| does(&all, gone, asked, quota.0 + quota.1);
        prop_assert_eq!(started, possible(&all, asked, quota), "{:?} leave", gone);
        prop_assert!(gone.is_empty() || started, "{:?} leave for nobody", gone);
        prop_assert!(may_leave(&all, &gone, quota.1), "{:?} leave within their own", gone);
        for at in &gone {
            let others: Vec<usize> = gone.iter().copied().filter(|it| it != at).collect();
            prop_assert!(!free(&others), "{at} of {:?} leaves for nothing", gone);
        }
    }
}
