//! In which order candidates are taken.
//!
//! Who leaves already goes first, then by kind, by what budgets allow, by priority, the latest
//! admitted first, where least is lost. A search mostly ends with the first few of many, so only
//! those are put in order before it is known that more are needed. Cost: a look at each, and what
//! putting the first few in order takes.

use std::cell::OnceCell;
use std::cmp::Reverse;

use crate::model::budgets::Allowance;
use crate::model::state::ClusterState;
use crate::money::MicroUsd;
use crate::time::{Span, Time};
use crate::victims::candidates::Candidate;
use crate::victims::{CANDIDATES_MAX, Need};

/// Candidates that are put in order before it is known that more are needed.
const FIRST: usize = 64;

/// Everyone who may be taken. Mostly few are, of many: they are put in order as far as is asked.
#[derive(Debug)]
pub struct Candidates {
    all: Vec<Candidate>,
    /// So many come first, in the order in which they are taken; the others follow in any.
    in_order: usize,
}

impl Candidates {
    /// These, in any order.
    pub fn new(all: Vec<Candidate>) -> Candidates {
        Candidates { all, in_order: 0 }
    }

    /// All of them, in any order.
    pub fn any_order(&self) -> &[Candidate] {
        &self.all
    }

    /// The first [`FIRST`], in order; all, if there are not many more or budgets count.
    pub fn first(&mut self, state: &ClusterState, need: &Need) -> &[Candidate] {
        let many = self.all.len() > FIRST + FIRST / 2 && state.budgets.is_empty();
        if self.in_order == 0 && many {
            put_in_order(state, &mut self.all, FIRST);
            self.in_order = FIRST;
        } else if self.in_order == 0 {
            self.ordered(state, need);
        }
        &self.all[..self.in_order]
    }

    /// All of them, in order.
    pub fn ordered(&mut self, state: &ClusterState, need: &Need) -> &[Candidate] {
        if self.in_order < self.all.len() {
            put_in_order(state, &mut self.all[self.in_order..], usize::MAX);
            heed_budgets(state, need, &mut self.all);
            self.all.truncate(CANDIDATES_MAX);
            self.in_order = self.all.len();
        }
        &self.all
    }

    /// Whether some are not in order.
    pub fn partly(&self) -> bool {
        self.in_order < self.all.len()
    }
}

/// Of each kind those go last whose leaving breaks a PodDisruptionBudget, whatever their priority,
/// as with kube-scheduler. Budgets move nobody from one kind to another: what was lent comes back
/// before own work leaves, however well its borrower guards it.
///
/// Who could not help, because it holds nothing that is short and stands where nobody wants to go,
/// does not leave, and uses up nothing that budgets allow.
fn heed_budgets(state: &ClusterState, need: &Need, found: &mut [Candidate]) {
    if state.budgets.is_empty() {
        return;
    }
    let mut allowance = Allowance::new(state);
    let could_help =
        |candidate: &Candidate| candidate.quota || need.could_free(state, candidate.workload);
    for candidate in found.iter_mut().filter(|candidate| could_help(candidate)) {
        candidate.breaks_budget = allowance.breaks(candidate.workload);
    }
    found.sort_by_key(|candidate| {
        let leaving = state.leaving(candidate.workload);
        (!leaving, candidate.kind.rank(), candidate.breaks_budget)
    });
}

/// What stopping somebody loses: money, then run time, which is all there is where prices are
/// unknown.
type Loss = (Option<MicroUsd>, Span);

/// Whether a candidate is in another queue, which has spent a soft budget.
fn overspends(state: &ClusterState, candidate: &Candidate) -> bool {
    let workload = &state.workloads[candidate.workload];
    let queue = workload.assignment.as_ref().and_then(|assignment| assignment.queue);
    candidate.kind.elsewhere() && queue.is_some_and(|queue| state.spending.goes_first(queue))
}

/// Leaving first, and of those who leaves for the preemptor; then hierarchical, other cohort, own
/// queue; within budgets ([`heed_budgets`]); of queues that have spent a soft budget; lower
/// priority; later admission; less loss; uid. The first so many; those after them in any order.
fn put_in_order(state: &ClusterState, found: &mut [Candidate], first: usize) {
    let key = |at: usize| {
        let candidate = &found[at];
        let workload = &state.workloads[candidate.workload];
        let since = workload.assignment.as_ref().map_or(Time::MIN, |assignment| assignment.at);
        let (stays, kept) = (!state.leaving(candidate.workload), !overspends(state, candidate));
        // What is compared most often, in one number.
        let above_least = workload.priority.abs_diff(i32::MIN);
        let rank = u64::from(candidate.kind.rank()) << 33;
        let rank = u64::from(stays) << 41 | rank | u64::from(kept) << 32 | u64::from(above_least);
        (rank, Reverse(since), at)
    };
    let mut order: Vec<_> = (0..found.len()).map(key).collect();
    // Most differ by that; what is lost is reckoned once for each who does not.
    let lost: Vec<OnceCell<Loss>> = vec![OnceCell::new(); found.len()];
    let loss = |at: usize| {
        let of = found[at].workload;
        lost[at].get_or_init(|| (state.spent(of, state.now), state.worked(of, state.now)))
    };
    let uid = |at: usize| &state.workloads[found[at].workload].uid;
    let goes_before = |(rank, since, one): &(_, _, usize), (other_rank, other_since, other): &_| {
        (rank, since)
            .cmp(&(other_rank, other_since))
            .then_with(|| loss(*one).cmp(loss(*other)).then_with(|| uid(*one).cmp(uid(*other))))
    };
    if first < order.len() {
        order.select_nth_unstable_by(first, goes_before);
        order[..first].sort_unstable_by(goes_before);
    } else {
        order.sort_unstable_by(goes_before);
    }
    let ordered: Vec<Candidate> = order.iter().map(|(.., at)| found[*at].clone()).collect();
    found.clone_from_slice(&ordered);
}
