//! Victims where PodDisruptionBudgets allow too little for all of them.
//!
//! Problem: whose leaving breaks a budget depends on who else leaves. Candidates are told before
//! anybody is taken, in the order in which they would go, and mostly somebody who was counted stays
//! in the end: then another one went last for nothing, and somebody of higher priority left, or a
//! budget was broken that allows who left.
//!
//! Wanted: fewest budgets broken, and of what breaks no more, what costs least. So whoever draws on
//! a broken budget goes back first. And where a budget made somebody go last, or is broken all the
//! same, victims are chosen once more with all that budgets allow spent on those who would go last,
//! as kube-scheduler spends it; where one is still broken, once more as if each left alone, which
//! spends nothing on who stays. The cheapest leave. Who clears one node for one pod compares that
//! on each node ([`stands`](super::stands)).
//!
//! A budget is a preference, and keeps nobody waiting. Who wants others near itself may find no
//! node once those have left, who go before the guarded ones: where that leads nowhere all are
//! taken in the order that there is without budgets.
//!
//! Not for victims of shares, of whom each changes whose turn is next. Cost: two more attempts at
//! most, only where a budget tells; where members look at each other it spends no more of what
//! searches may than the first one did, and nothing of what is left for others. Nothing survives a
//! restart.

use super::removed::{Removed, Taken};
use super::stands::{self, Cost, Stander};
use super::{Attempt, For, Search, Victim, order};
use crate::model::budgets::{Allowance, Draws};
use crate::model::ids::PodIdx;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::budget;
use crate::victims::candidates::Candidate;

/// What it costs that some are stopped; the lower, the better. Of which kind they are at most, how
/// many pods break a budget, what keeps one of them back whatever its priority, and the rest.
type Harm = (u8, u32, Option<(bool, bool)>, Cost);

impl Search<'_> {
    /// An attempt, and where budgets tell who goes another one, of which the better counts.
    pub(super) fn attempt_within_budgets(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
        attempt: Attempt,
    ) -> Result<Vec<Victim>, For> {
        let once = self.alone || attempt == Attempt::Sharing;
        if once || txn.state().budgets.is_empty() {
            return self.attempt(txn, list, attempt);
        }
        let (start, before) = (txn.checkpoint(), txn.count_steps(0));
        let removed = self.attempt_with_nodes(txn, list, attempt)?;
        let (mut least, mut victims) = (harm(txn.state(), &removed), self.victims(&removed));
        if least.1 == 0 && !passes_somebody(list, &removed) {
            return Ok(victims);
        }
        let spent = txn.count_steps(0) - before;
        for order in [order::for_the_last_first, order::each_by_itself] {
            txn.rollback_to(start);
            let Some(other) = order(txn.state(), self.need, list) else { continue };
            let found = budget::apart(txn, spent, |txn| {
                let removed = self.attempt_with_nodes(txn, &other, attempt).ok()?;
                Some((harm(txn.state(), &removed), self.victims(&removed)))
            });
            if let Some(found) = found.filter(|(harm, _)| *harm < least) {
                (least, victims) = found;
            }
            if least.1 == 0 {
                break;
            }
        }
        txn.rollback_to(start);
        txn.remove_workloads(victims.iter().map(|victim| victim.workload));
        Ok(victims)
    }

    /// Where all these attempts led nowhere: whether one does in the order that there is without
    /// budgets, for members who want others near.
    pub(super) fn attempt_whatever_budgets(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
        attempts: &[Attempt],
    ) -> Option<Vec<Victim>> {
        if !self.looks {
            return None;
        }
        let other = order::whatever_budgets(list)?;
        let mut attempt = |attempt: &Attempt| {
            budget::apart(txn, 0, |txn| self.attempt(txn, &other, *attempt).ok())
        };
        attempts.iter().find_map(&mut attempt)
    }
}

fn harm(state: &ClusterState, removed: &Removed<'_>) -> Harm {
    let stopped = || removed.taken.iter().filter(|it| !it.candidate.kind.leaves());
    let kind = stopped().map(|it| it.candidate.kind.rank()).max().unwrap_or(0);
    let breaks = broken_by(state, &removed.taken);
    let held_back = stopped().map(|it| order::held_back(state, it.candidate)).max();
    let standers = stopped().map(|it| {
        let pods = stands::stopped(state, stopped_of(state, it).into_iter());
        Stander { candidate: it.candidate, breaks: 0, pods }
    });
    (kind, breaks, held_back, Cost::of(state, standers))
}

/// Whether a budget lets somebody stay who would have gone before the last of those who go.
fn passes_somebody(list: &[Candidate], removed: &Removed<'_>) -> bool {
    let last = removed.taken.iter().map(|it| it.candidate.turn).max();
    list.iter()
        .any(|it| it.breaks > 0 && Some(it.turn) < last && !removed.names.contains(&it.workload))
}

/// How many pods of these break a budget, one after the other. Who leaves already was counted by
/// whoever wrote the budget.
pub(super) fn broken_by(state: &ClusterState, taken: &[Taken<'_>]) -> u32 {
    if state.budgets.is_empty() {
        return 0;
    }
    let mut allowance = Allowance::new(state);
    taken.iter().map(|it| allowance.take(stopped_of(state, it).into_iter())).sum()
}

/// What each of these takes out of budgets.
pub(super) fn draws(state: &ClusterState, taken: &[Taken<'_>]) -> Draws {
    Draws::new(state, taken.iter().map(|it| stopped_of(state, it)))
}

/// Pods that are stopped with a candidate. They have their places where only what it is charged is
/// gone.
fn stopped_of(state: &ClusterState, taken: &Taken<'_>) -> Vec<PodIdx> {
    if taken.candidate.kind.leaves() {
        return Vec::new();
    }
    let placed = state.placed(taken.candidate.workload);
    taken.held.places.iter().map(|(pod, _)| *pod).chain(placed).collect()
}
