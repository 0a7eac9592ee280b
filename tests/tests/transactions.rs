//! Properties of transactions: what is rolled back was never there, and every incremental number
//! equals one counted from scratch.
//!
//! A generated cluster is settled, half of its work left waiting; then random changes (sensible
//! or not) are made inside a transaction: victims leave and come back, members go anywhere,
//! claims grow and shrink, checkpoints are taken and returned to. Or work that waits claims what
//! victims leave, several of them what the same ones do, and claimants and victims end, come back
//! and begin again elsewhere, in any order.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use capstan_core::model::apply::Changes;
use capstan_core::model::claim::Places;
use capstan_core::model::ids::{FrIdx, PodIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use capstan_core::model::state::ClusterState;
use capstan_core::model::txn::{Checkpoint, Txn};
use capstan_core::model::vacancy::Holding;
use capstan_core::model::workload::{Assignment, SetAssignment};
use capstan_core::plan::State;
use capstan_core::time::Time;
use capstan_tests::play::Stage;
use capstan_tests::seed::Seed;
use capstan_tests::strategy::{Cluster, cluster};
use capstan_topology::{NodeIdx, ResourceIdx};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

fn config() -> Config {
    Config {
        cases: 256,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    }
}

/// A state in which some work runs and the rest waits.
fn state(cluster: &Cluster) -> ClusterState {
    let mut stage = Stage::new(Time(3_600_000));
    stage.add(cluster.ground.iter().cloned());
    let half = cluster.work.len() / 2;
    stage.add(cluster.work[..half].iter().flatten().cloned());
    stage.settle(|_| {});
    stage.add(cluster.work[half..].iter().flatten().cloned());
    let mut state = ClusterState::default();
    let mut changes = Changes::default();
    for fact in stage.shown() {
        state.apply(fact, &mut changes);
    }
    state.derive(&mut changes);
    state.recount();
    state
}

/// Every number that decisions read, as text.
fn numbers(state: &ClusterState) -> String {
    let mut text = String::new();
    for slot in 0..state.room.slots() {
        let node = NodeIdx(slot as u32);
        let free: Vec<i64> =
            (0..8).map(|at| state.room.ledger.free(node, ResourceIdx(at))).collect();
        let held: Vec<_> = state.room.ledger.held(node).entries().collect();
        let (pods, ports) = (state.room.ledger.pods(node), state.room.ports.used(node));
        writeln!(text, "{slot}: {free:?} {held:?} {pods} {ports:?}").expect("text");
    }
    for at in 0..state.quota.tree.len() {
        let node = QuotaIdx(at as u32);
        let used = state.quota.tree.covered(node).map(|fr| {
            let tree = &state.quota.tree;
            (fr, tree.usage(node, fr), tree.available(node, fr))
        });
        let used: Vec<_> = used.filter(|(_, usage, _)| *usage != 0).collect();
        writeln!(text, "quota {at}: {used:?}").expect("text");
    }
    for (index, pod) in state.pods.iter() {
        writeln!(text, "{index:?}: {:?}", pod.place).expect("text");
    }
    for (index, workload) in state.workloads.iter() {
        writeln!(text, "{index:?}: {:?}", workload.assignment).expect("text");
    }
    text
}

/// What the random changes act on, and what they did.
struct Player {
    seed: Seed,
    holders: Vec<WorkloadIdx>,
    waiting: Vec<PodIdx>,
    gone: Vec<(WorkloadIdx, Holding)>,
    placed: Vec<PodIdx>,
    marks: Vec<(Checkpoint, String)>,
    /// What running work charges.
    charges: Vec<(QueueIdx, FrIdx)>,
}

impl Player {
    fn new(seed: u64, state: &ClusterState) -> Player {
        let holds = |workload: &WorkloadIdx| state.placed(*workload).next().is_some();
        let all = state.workloads.iter().map(|(index, _)| index);
        let waits = state.workloads.iter().filter(|(_, w)| w.state == State::Queued);
        Player {
            seed: Seed::new(seed),
            holders: all.filter(holds).collect(),
            waiting: waits.flat_map(|(_, w)| w.members.clone()).collect(),
            gone: Vec::new(),
            placed: Vec::new(),
            marks: Vec::new(),
            charges: state
                .pods
                .iter()
                .filter(|(_, pod)| pod.place.is_some())
                .flat_map(|(index, _)| state.charges_of(index).map(|(queue, fr, _)| (queue, fr)))
                .collect(),
        }
    }

    /// The workload of a pod that waits gets what another holds, or nothing any more.
    fn assign(&mut self, txn: &mut Txn<'_>, pod: PodIdx) {
        let state = txn.state();
        let Some(workload) = state.pods[pod].workload else { return };
        if state.placed(workload).next().is_some() {
            return;
        }
        let held = match state.workloads[workload].assignment {
            Some(_) => None,
            None => {
                let holders = state.workloads.iter().filter_map(|(_, w)| w.assignment.clone());
                holders.last()
            }
        };
        txn.assign(workload, held);
    }

    fn pick<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        let count = from.len() as u64;
        (count > 0).then(|| from.swap_remove((self.seed.below(count)) as usize))
    }

    fn change(&mut self, txn: &mut Txn<'_>) {
        match self.seed.below(7) {
            0 => {
                let mut holders = std::mem::take(&mut self.holders);
                if let Some(victim) = self.pick(&mut holders) {
                    self.gone.push((victim, txn.remove_workload(victim)));
                }
                self.holders = holders;
            }
            1 => {
                if let Some((victim, places)) = self.gone.pop() {
                    txn.return_workload(victim, &places);
                    self.holders.push(victim);
                }
            }
            2 => {
                let mut waiting = std::mem::take(&mut self.waiting);
                if let Some(pod) = self.pick(&mut waiting) {
                    let nodes = txn.state().room.slots() as u64;
                    txn.place(pod, NodeIdx(self.seed.below(nodes) as u32));
                    self.placed.push(pod);
                }
                self.waiting = waiting;
            }
            3 => {
                if let Some(pod) = self.placed.pop() {
                    txn.remove(pod);
                    self.waiting.push(pod);
                }
            }
            4 => {
                let mut waiting = std::mem::take(&mut self.waiting);
                if let Some(pod) = self.pick(&mut waiting) {
                    self.assign(txn, pod);
                    waiting.push(pod);
                }
                self.waiting = waiting;
            }
            5 => {
                let charge = self.charges.get(self.seed.below(8) as usize).copied();
                if let Some((queue, fr)) = charge {
                    txn.claim_quota(queue, fr, 3);
                }
            }
            _ => {
                let node = NodeIdx(self.seed.below(txn.state().room.slots() as u64) as u32);
                txn.claim_room(node, ResourceIdx(0), 3);
            }
        }
    }
}

/// Who claims, who is claimed from, and what became of them.
struct Claimed {
    seed: Seed,
    holders: Vec<WorkloadIdx>,
    claimants: Vec<WorkloadIdx>,
    gone: Vec<(WorkloadIdx, Holding)>,
    /// Nodes of which room is kept for nobody.
    kept: Vec<NodeIdx>,
    marks: Vec<Mark>,
}

/// A point to go back to: what was gone and kept then, and every number.
type Mark = (Checkpoint, Vec<(WorkloadIdx, Holding)>, Vec<NodeIdx>, String);

impl Claimed {
    /// Everybody who waits claims what a few of those leave who hold something; so do some of those
    /// themselves, for more members.
    fn new(seed: u64, state: &mut ClusterState) -> Claimed {
        let mut seed = Seed::new(seed);
        let holds = |workload: &WorkloadIdx| state.placed(*workload).next().is_some();
        let all = state.workloads.iter().map(|(index, _)| index);
        let holders: Vec<WorkloadIdx> = all.filter(holds).collect();
        let waits = state.workloads.iter().filter(|(_, w)| w.state == State::Queued);
        let mut claimants: Vec<WorkloadIdx> = waits.map(|(index, _)| index).collect();
        claimants.extend(holders.iter().copied().filter(|_| seed.below(4) == 0));
        for &claimant in claimants.iter().filter(|_| !holders.is_empty()) {
            let count = seed.between(1, 3);
            let victims: BTreeSet<WorkloadIdx> = (0..count).map(|_| *seed.pick(&holders)).collect();
            let nodes = state.room.slots() as u64;
            let members = state.workloads[claimant].members.clone();
            let goes = |pod: PodIdx| (pod, NodeIdx(seed.below(nodes) as u32));
            let members: Vec<(PodIdx, NodeIdx)> = members.into_iter().map(goes).collect();
            let joins = state.workloads[claimant].assignment.is_some();
            let of = if joins { claimant } else { *seed.pick(&holders) };
            let assignment = assignment_like(state, of, claimant);
            let places = Places { members, ..Places::default() };
            let victims = victims.into_iter().filter(|victim| *victim != claimant);
            state.add_claim(claimant, assignment, places, victims.collect());
        }
        state.recount();
        let (gone, kept, marks) = (Vec::new(), Vec::new(), Vec::new());
        Claimed { seed, holders, claimants, gone, kept, marks }
    }

    fn change(&mut self, txn: &mut Txn<'_>) {
        match self.seed.below(9) {
            0 | 1 => {
                let victim = *self.seed.pick(&self.holders);
                let held = txn.remove_workload(victim);
                if !held.places.is_empty() {
                    self.gone.push((victim, held));
                }
            }
            2 => {
                if let Some((victim, held)) = self.gone.pop().filter(|it| is_nowhere(txn, it)) {
                    txn.return_workload(victim, &held);
                }
            }
            3 => self.begin_again(txn),
            4 => {
                let ends = *self.seed.pick(&self.holders);
                txn.end_workload(ends);
            }
            5 => {
                if let Some(claimant) = self.claimants.get(self.seed.below(4) as usize) {
                    txn.end_workload(*claimant);
                }
            }
            6 => {
                let node = NodeIdx(self.seed.below(txn.state().room.slots() as u64) as u32);
                match self.kept.pop() {
                    Some(node) => txn.propose_room(node, ResourceIdx(0), 3, false),
                    None => {
                        txn.propose_room(node, ResourceIdx(0), 3, true);
                        self.kept.push(node);
                    }
                }
            }
            7 => {
                let victim = *self.seed.pick(&self.holders);
                let before = numbers(txn.state());
                let held = txn.discharge_workload(victim);
                txn.recharge_workload(victim, &held);
                assert_eq!(before, numbers(txn.state()));
            }
            _ => self.go_back_and_forth(txn),
        }
        txn.state().recount_claimed();
    }

    /// Members of somebody who is gone begin again, wherever.
    fn begin_again(&mut self, txn: &mut Txn<'_>) {
        let Some(gone) = self.gone.last().filter(|it| is_nowhere(txn, it)) else { return };
        let nodes = txn.state().room.slots() as u64;
        for (pod, _) in &gone.1.places {
            txn.place(*pod, NodeIdx(self.seed.below(nodes) as u32));
        }
    }

    /// A point is marked, or the last one that was is returned to.
    fn go_back_and_forth(&mut self, txn: &mut Txn<'_>) {
        match self.marks.pop().filter(|_| self.seed.below(2) == 0) {
            Some((mark, gone, kept, then)) => {
                txn.rollback_to(mark);
                assert_eq!(then, numbers(txn.state()));
                (self.gone, self.kept) = (gone, kept);
            }
            None => {
                let (gone, kept) = (self.gone.clone(), self.kept.clone());
                self.marks.push((txn.checkpoint(), gone, kept, numbers(txn.state())));
            }
        }
    }
}

/// Whether nobody of those who are gone has begun again.
fn is_nowhere(txn: &Txn<'_>, (_, held): &(WorkloadIdx, Holding)) -> bool {
    held.places.iter().all(|(pod, _)| txn.state().pods[*pod].place.is_none())
}

/// What somebody holds quota with, for the members of another.
fn assignment_like(state: &ClusterState, of: WorkloadIdx, who: WorkloadIdx) -> Arc<Assignment> {
    let held = state.workloads[of].assignment.as_ref();
    let members = state.workloads[who].members.iter();
    let shapes: BTreeSet<_> = members.map(|pod| state.pods[*pod].shape).collect();
    let like = |shape| Some(SetAssignment { shape, ..held?.sets.first()?.clone() });
    let sets = shapes.into_iter().filter_map(like).collect();
    Arc::new(Assignment { queue: held.and_then(|held| held.queue), sets, at: Time(0) })
}

proptest! {
    #![proptest_config(config())]

    /// Set aside and taken up again between any two changes, as plays of a timetable are.
    #[test]
    fn claims_count_right_whoever_ends(cluster in cluster(), seed: u64, count in 1..60_usize) {
        let mut state = state(&cluster);
        let mut claimed = Claimed::new(seed, &mut state);
        if claimed.holders.is_empty() {
            return Ok(());
        }
        let before = numbers(&state);
        let mut aside = Txn::begin(&mut state).set_aside();
        for _ in 0..count {
            let mut txn = Txn::take_up(&mut state, aside);
            claimed.change(&mut txn);
            aside = txn.set_aside();
        }
        drop(Txn::take_up(&mut state, aside));
        prop_assert_eq!(before, numbers(&state));
        state.recount();
    }

    #[test]
    fn a_dropped_transaction_never_was(cluster in cluster(), seed: u64, count in 1..40_usize) {
        let mut state = state(&cluster);
        let before = numbers(&state);
        let mut player = Player::new(seed, &state);
        {
            let mut txn = Txn::begin(&mut state);
            (0..count).for_each(|_| player.change(&mut txn));
        }
        prop_assert_eq!(before, numbers(&state));
        state.recount();
    }

    #[test]
    fn a_checkpoint_is_returned_to_exactly(cluster in cluster(), seed: u64) {
        let mut state = state(&cluster);
        let mut player = Player::new(seed, &state);
        let mut txn = Txn::begin(&mut state);
        for _ in 0..6 {
            (0..4).for_each(|_| player.change(&mut txn));
            player.marks.push((txn.checkpoint(), numbers(txn.state())));
        }
        while let Some((mark, then)) = player.marks.pop() {
            txn.rollback_to(mark);
            prop_assert_eq!(then, numbers(txn.state()));
        }
    }

    #[test]
    fn what_is_committed_is_counted(cluster in cluster(), seed: u64, count in 1..20_usize) {
        let mut state = state(&cluster);
        let mut player = Player::new(seed, &state);
        let mut txn = Txn::begin(&mut state);
        for _ in 0..count {
            // Claims of nobody are no state that a commit may leave.
            let before = txn.checkpoint();
            let (gone, placed) = (player.gone.len(), player.placed.len());
            player.change(&mut txn);
            if (player.gone.len(), player.placed.len()) == (gone, placed) {
                txn.rollback_to(before);
            }
        }
        txn.commit();
        state.recount();
    }
}
