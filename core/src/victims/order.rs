//! In which order candidates are taken.
//!
//! Who leaves already goes first, then by kind, by what budgets allow, by priority, the latest
//! admitted first, where least is lost. Where LocalQueues of a ClusterQueue take turns by what they
//! used of late, work of those that used most goes before any priority. Of a kind those go last
//! whom the API refused to stop a moment ago: where others would do, nobody waits for what cannot
//! be had. A search mostly ends with the first few of many, so only those are put in order before
//! it is known that more are needed. Cost: a look at each, and what putting the first few in order
//! takes, or all of them where use counts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::budgets::Allowance;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::quota::history::{QueueName, Usage, name_of};
use crate::time::{Span, Time};
use crate::victims::candidates::{Candidate, Kind};
use crate::victims::{CANDIDATES_MAX, Need};

/// Candidates that are put in order before it is known that more are needed; then so many times
/// as many at a time.
const FIRST: usize = 32;
const MORE: usize = 4;

/// So long after its stop was refused others are stopped in its stead.
const REFUSED: Span = Span::minutes(10);

/// Everyone who may be taken. Mostly few are, of many: they are put in order as far as is asked.
#[derive(Debug)]
pub struct Candidates {
    all: Vec<Candidate>,
    /// So many come first, in the order in which they are taken; the others follow in any.
    in_order: usize,
    /// Those who hold what is short of quota, once somebody asked for them.
    of_quota: Option<Box<Candidates>>,
    /// So many are kept at most.
    most: usize,
    /// Some were not kept.
    cut: bool,
}

impl Candidates {
    /// These, in any order.
    pub fn new(all: Vec<Candidate>) -> Candidates {
        Candidates { all, in_order: 0, of_quota: None, most: CANDIDATES_MAX, cut: false }
    }

    /// All are kept: for a search that looks at those who stand together.
    pub fn keep_all(&mut self) {
        self.most = usize::MAX;
    }

    /// All of them, in any order.
    pub fn any_order(&self) -> &[Candidate] {
        &self.all
    }

    /// Those of them who hold what is short of quota: where quota alone counts, the others are
    /// passed over. Budgets are used up by whoever goes before: all are needed where they count.
    pub fn of_quota(&mut self, state: &ClusterState) -> &mut Candidates {
        if !state.budgets.is_empty() {
            return self;
        }
        let all = &self.all;
        self.of_quota.get_or_insert_with(|| {
            let holds = all.iter().filter(|candidate| candidate.quota);
            Box::new(Candidates::new(holds.cloned().collect()))
        })
    }

    /// Those who are in order.
    pub fn in_order(&self) -> &[Candidate] {
        &self.all[..self.in_order]
    }

    /// Puts more in order: the first [`FIRST`] or somewhat more, then [`MORE`] times as many; all,
    /// if others are few, or budgets or use count.
    pub fn more(&mut self, state: &ClusterState, need: &Need) {
        let by_rank = state.budgets.is_empty() && state.policy.usage_sharing.is_none();
        let next = FIRST.max(self.in_order * (MORE - 1));
        let left = self.all.len() - self.in_order;
        if left > next + next / 2 && self.in_order + next < self.most && by_rank {
            self.in_order += put_in_order(state, &mut self.all[self.in_order..], next);
        } else {
            self.ordered(state, need);
        }
    }

    /// All of them, in order.
    pub fn ordered(&mut self, state: &ClusterState, need: &Need) -> &[Candidate] {
        if self.in_order < self.all.len() {
            self.leave_out_helpless(state, need);
            put_in_order(state, &mut self.all[self.in_order..], usize::MAX);
            heed_usage(state, &mut self.all);
            heed_budgets(state, need, &mut self.all);
            self.all.truncate(self.most);
            self.in_order = self.all.len();
        }
        &self.all
    }

    /// Where there are more than are kept those stay out who could not help: those who could must
    /// not be cut off behind them.
    fn leave_out_helpless(&mut self, state: &ClusterState, need: &Need) {
        if self.all.len() > self.most {
            let own = |it: &Candidate| it.kind == Kind::WithinQueue;
            self.all.retain(|it| own(it) || could_help(state, need, it));
            self.in_order = 0;
            self.cut = self.all.len() > self.most;
        }
    }

    /// Whether some were cut off, being more than one search looks at.
    pub fn were_cut(&self) -> bool {
        self.cut
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
    (0..).zip(found.iter_mut()).for_each(|(turn, candidate)| candidate.turn = turn);
    if state.budgets.is_empty() {
        return;
    }
    charge_budgets(state, need, found.iter_mut());
    guarded_last(state, found);
}

/// The same candidates where what budgets allow is for those first who would go last, as with
/// kube-scheduler: many of those stay, and who goes before them may break a budget. `None`: that
/// makes no difference, or use tells who goes first, and not priority.
pub(super) fn for_the_last_first(
    state: &ClusterState,
    need: &Need,
    list: &[Candidate],
) -> Option<Vec<Candidate>> {
    let guarded = list.iter().any(|candidate| candidate.breaks > 0);
    if !guarded || state.policy.usage_sharing.is_some() {
        return None;
    }
    let mut other = in_turn(list);
    charge_budgets(state, need, other.iter_mut().rev());
    guarded_last(state, &mut other);
    unless_same(list, other)
}

/// The same candidates where those go last whose leaving breaks a budget though nobody else leaves.
/// `None`: that makes no difference.
pub(super) fn each_by_itself(
    state: &ClusterState,
    need: &Need,
    list: &[Candidate],
) -> Option<Vec<Candidate>> {
    let mut other = in_turn(list);
    let mut allowance = Allowance::new(state);
    for candidate in other.iter_mut().filter(|candidate| could_help(state, need, candidate)) {
        allowance.renew();
        candidate.breaks = allowance.breaks(candidate.workload);
    }
    guarded_last(state, &mut other);
    unless_same(list, other)
}

/// The same candidates in the order that there is without budgets; `None`: it is this one.
pub(super) fn whatever_budgets(list: &[Candidate]) -> Option<Vec<Candidate>> {
    unless_same(list, in_turn(list))
}

/// In the order that there is without budgets.
fn in_turn(list: &[Candidate]) -> Vec<Candidate> {
    let mut list = list.to_vec();
    list.sort_by_key(|candidate| candidate.turn);
    list
}

fn unless_same(list: &[Candidate], other: Vec<Candidate>) -> Option<Vec<Candidate>> {
    let same = list.iter().zip(&other).all(|(one, other)| one.workload == other.workload);
    (!same).then_some(other)
}

/// Says of each candidate how much it breaks of budgets once those before it have left.
fn charge_budgets<'c>(
    state: &ClusterState,
    need: &Need,
    in_order: impl Iterator<Item = &'c mut Candidate>,
) {
    let mut allowance = Allowance::new(state);
    for candidate in in_order.filter(|candidate| could_help(state, need, candidate)) {
        candidate.breaks = allowance.breaks(candidate.workload);
    }
}

/// Whether somebody holds what is short of quota, or something would come free with it.
fn could_help(state: &ClusterState, need: &Need, candidate: &Candidate) -> bool {
    candidate.quota || need.could_free(state, candidate.workload)
}

/// Of each kind those go last who break a budget.
fn guarded_last(state: &ClusterState, found: &mut [Candidate]) {
    found.sort_by_key(|candidate| {
        let leaving = state.leaving(candidate.workload);
        (!leaving, candidate.kind.rank(), candidate.breaks > 0)
    });
}

/// Of each kind and ClusterQueue those go first whose LocalQueue used most of late, where use
/// decides whose turn it is (spec/quota.md 8.3). So they stand where work of their ClusterQueue
/// stood among that of others: use tells nothing about those.
fn heed_usage(state: &ClusterState, found: &mut [Candidate]) {
    if state.policy.usage_sharing.is_none() {
        return;
    }
    let mut places: BTreeMap<(u128, QueueIdx), Vec<usize>> = BTreeMap::new();
    for (at, candidate) in found.iter().enumerate() {
        let assignment = state.workloads[candidate.workload].assignment.as_ref();
        let queue = assignment.and_then(|assignment| assignment.queue);
        if let Some(queue) = queue.filter(|queue| state.by_usage(*queue).is_some()) {
            let kind = rank(state, candidate) >> BELOW_KIND;
            places.entry((kind, queue)).or_default().push(at);
        }
    }
    let mut known: BTreeMap<QueueName, Usage> = BTreeMap::new();
    for ((_, queue), places) in places {
        let mut alike: Vec<Candidate> = places.iter().map(|at| found[*at].clone()).collect();
        let mut used = |candidate: &Candidate| {
            let entry = &state.workloads[candidate.workload];
            let named = entry.wishes.queue.as_ref();
            let local = state.facts.local_queue(&entry.id.namespace, named)?;
            let sharing = state.by_usage(queue)?;
            let used = || state.used_of_late((state.now, sharing), local);
            Some(*known.entry(name_of(local)).or_insert_with(used))
        };
        alike.sort_by_cached_key(|candidate| Reverse(used(candidate)));
        for (at, candidate) in places.into_iter().zip(alike) {
            found[at] = candidate;
        }
    }
}

/// Whether a candidate is in another queue, which has spent a soft budget.
fn overspends(state: &ClusterState, candidate: &Candidate) -> bool {
    let workload = &state.workloads[candidate.workload];
    let queue = workload.assignment.as_ref().and_then(|assignment| assignment.queue);
    candidate.kind.elsewhere() && queue.is_some_and(|queue| state.spending.goes_first(queue))
}

/// Why a candidate goes after others of its kind, whatever their priority: its stop was refused a
/// moment ago; no soft budget of its queue is spent.
pub(super) fn held_back(state: &ClusterState, candidate: &Candidate) -> (bool, bool) {
    (refused_of_late(state, candidate.workload), !overspends(state, candidate))
}

/// Whether the API refused to stop a workload a moment ago.
pub(crate) fn refused_of_late(state: &ClusterState, workload: WorkloadIdx) -> bool {
    let refused = state.workloads[workload].stop_refused;
    refused.is_some_and(|at| at.plus(REFUSED) > state.now)
}

/// Leaving first, and of those who leaves for the preemptor; then hierarchical, other cohort, own
/// queue; within budgets ([`heed_budgets`]); whose stop was not refused of late; of queues that
/// have spent a soft budget; lower priority; later admission; less loss; uid. At least the first so
/// many, whose number is returned; those after them in any order.
fn put_in_order(state: &ClusterState, found: &mut [Candidate], first: usize) -> usize {
    let mut order: Vec<(u128, u32)> =
        (0..).zip(&*found).map(|(at, candidate)| (rank(state, candidate), at)).collect();
    let first = match order.len() > first {
        true => first_by_rank(&mut order, first),
        false => order.len(),
    };
    order[..first].sort_unstable_by_key(|(rank, _)| *rank);
    // Most differ by that; what is lost, money, then run time, which is all there is where prices
    // are unknown, is reckoned for those who do not.
    let equal = order[..first].chunk_by_mut(|one, other| one.0 == other.0);
    for equal in equal.filter(|equal| equal.len() > 1) {
        equal.sort_by_cached_key(|(_, at)| {
            let of = found[*at as usize].workload;
            let lost = (state.spent(of, state.now), state.worked(of, state.now));
            (lost, state.workloads[of].uid.clone())
        });
    }
    let ordered: Vec<Candidate> = order.iter().map(|(_, at)| found[*at as usize].clone()).collect();
    found.clone_from_slice(&ordered);
    first
}

/// Bits of a rank that tell candidates of one kind apart: their priority, and since when they run.
const BELOW_KIND: u32 = 96;

/// All that tells candidates apart but what is lost and the uid, in one number.
fn rank(state: &ClusterState, candidate: &Candidate) -> u128 {
    let workload = &state.workloads[candidate.workload];
    let since = workload.assignment.as_ref().map_or(Time::MIN, |assignment| assignment.at);
    let stays = !state.leaving(candidate.workload);
    let (refused, kept) = held_back(state, candidate);
    let above_least = workload.priority.abs_diff(i32::MIN);
    let rank = u64::from(candidate.kind.rank()) << 34 | u64::from(refused) << 33;
    let rank = u64::from(stays) << 41 | rank | u64::from(kept) << 32 | u64::from(above_least);
    // The later, the less.
    let since = i64::MAX.abs_diff(since.0);
    u128::from(rank) << 64 | u128::from(since)
}

/// Puts at least the first so many of more before the others, with all of equal rank; how many.
fn first_by_rank(order: &mut [(u128, u32)], first: usize) -> usize {
    let (_, &mut (last, _), behind) =
        order.select_nth_unstable_by_key(first - 1, |(rank, _)| *rank);
    let mut equal = 0;
    for at in 0..behind.len() {
        if behind[at].0 == last {
            behind.swap(at, equal);
            equal += 1;
        }
    }
    first + equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_by_rank_have_all_of_equal_rank_with_them() {
        let ranks = |all: &[u128]| all.iter().copied().zip(0..).collect::<Vec<_>>();
        let mut order = ranks(&[9, 5, 7, 5, 1, 5, 8, 5]);
        let first = first_by_rank(&mut order, 2);
        assert_eq!(first, 5, "1 and all four that are 5");
        assert!(order[..first].iter().all(|(rank, _)| *rank <= 5));
        assert!(order[first..].iter().all(|(rank, _)| *rank > 5));
        let mut order = ranks(&[3, 2, 1]);
        assert_eq!((first_by_rank(&mut order, 2), order[2]), (2, (3, 0)));
    }
}
