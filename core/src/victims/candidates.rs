//! Who may be preempted; in which order is told by [`order`](super::order).
//!
//! From the preemptor's queue up to the root, each cohort's subtree adds the workloads of its
//! borrowing queues. Where the preemptor's own subtree has the quota (an *advantage*), they may
//! be taken regardless of borrowing; else only if the preemptor ends within its nominal quota, or
//! while borrowing where policy allows it for lower priorities. Who leaves already, for others
//! that were promised all of it, has nothing to give; where they were promised all of its quota,
//! it has room on nodes at most. Who leaves for the preemptor since before a restart is taken
//! whatever the policy; so is, before somebody would be stopped, who leaves for others and leaves
//! more than they were promised. Work of mirror pods and of DaemonSets is never taken: the one
//! would go on, and the other come back at once.
//!
//! For quota that is Kueue's rule: who holds something that is short, in a queue that borrows
//! something that is short. For room on nodes it is narrower in one way and wider in another. In
//! other queues only what is borrowed goes: who holds a flavor and resource of which the queue
//! borrows, whichever flavor that is, because a node asks for none. So whoever ends within its own
//! quota holds nothing that could be taken back for room, and no two queues take turns. In the own
//! queue the policy alone decides, also about who is charged nothing.
//!
//! While fair sharing is on, whoever borrows may be asked, wherever it stands in the tree; who of
//! them leaves is decided by shares, as the search goes on. Where no share stops somebody for now
//! ([`lasting`](super::lasting)) it is asked for what the preemptor's queue owns, and nothing else.

use std::collections::BTreeSet;

use capstan_topology::ResourceIdx;

use crate::model::ids::{FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::{PreemptReclaim, PreemptWithin, PreemptionPolicy};
use crate::model::state::ClusterState;
use crate::plan::PreemptionReason;
use crate::resources;
use crate::time::Time;
use crate::victims::Need;
use crate::victims::fair::Owns;
use crate::victims::order::Candidates;
use crate::victims::within::Within;

/// Work that leaves more than it was stopped for and that one search looks at, at most.
const LEFT_OVER_MAX: usize = 256;

/// How a candidate may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No queue; for room only.
    Unqueued,
    /// Own queue, by priority.
    WithinQueue,
    /// The preemptor's subtree owns the quota.
    Hierarchical,
    /// Lower priority, while the preemptor borrows.
    WhileBorrowing,
    /// Only if the preemptor ends within its nominal quota.
    WithoutBorrowing,
    /// By shares, or because the preemptor owns what it takes: fair sharing is on.
    Sharing,
    /// It leaves for the preemptor already: an engine before this one saw to that, for this.
    Promised(PreemptionReason),
    /// It leaves already, whoever for, and might be taken for this: it counts as gone before
    /// anybody else is chosen, whatever is borrowed then.
    Leaving(PreemptionReason),
}

impl Kind {
    /// In another queue.
    pub fn elsewhere(self) -> bool {
        matches!(
            self,
            Kind::Hierarchical | Kind::WhileBorrowing | Kind::WithoutBorrowing | Kind::Sharing
        )
    }

    /// It leaves whatever is decided: to let it stay saves nothing.
    pub fn leaves(self) -> bool {
        matches!(self, Kind::Promised(_) | Kind::Leaving(_))
    }

    /// Shares decide when its turn is, if they decide at all.
    pub fn by_share(self) -> bool {
        matches!(self, Kind::Sharing | Kind::WithinQueue)
    }

    /// Reason in Kueue's words.
    pub fn reason(self) -> PreemptionReason {
        match self {
            Kind::Unqueued => PreemptionReason::Priority,
            Kind::WithinQueue => PreemptionReason::InClusterQueue,
            Kind::Hierarchical | Kind::WithoutBorrowing => PreemptionReason::InCohortReclamation,
            Kind::WhileBorrowing => PreemptionReason::InCohortReclaimWhileBorrowing,
            Kind::Sharing => PreemptionReason::InCohortFairSharing,
            Kind::Promised(reason) | Kind::Leaving(reason) => reason,
        }
    }

    pub(super) fn rank(self) -> u8 {
        match self {
            Kind::Promised(_) => 0,
            Kind::Unqueued | Kind::Hierarchical => 1,
            Kind::WhileBorrowing | Kind::WithoutBorrowing | Kind::Sharing => 2,
            Kind::WithinQueue => 3,
            Kind::Leaving(PreemptionReason::InCohortReclamation | PreemptionReason::Priority) => 1,
            Kind::Leaving(PreemptionReason::InClusterQueue) => 3,
            Kind::Leaving(_) => 2,
        }
    }
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The workload.
    pub workload: WorkloadIdx,
    /// How it may be taken.
    pub kind: Kind,
    /// It holds, and its queue borrows, what is short of quota.
    pub quota: bool,
    /// Its leaving is allowed for room on nodes.
    pub room: bool,
    /// Lowest cohort that it shares with the preemptor, when it is in another queue.
    pub common: Option<QuotaIdx>,
    /// So many of its pods, after those before it, go beyond what a PodDisruptionBudget allows.
    pub breaks: u32,
    /// Its place in the order of candidates, budgets apart.
    pub turn: u32,
}

/// Who wants room.
struct Preemptor<'a> {
    workload: WorkloadIdx,
    priority: i32,
    queued_at: Time,
    /// Resources that its members ask of nodes.
    asked: &'a [ResourceIdx],
}

impl Preemptor<'_> {
    /// Whether the policy of their common queue lets it stop another workload.
    fn goes_before(&self, state: &ClusterState, other: WorkloadIdx, policy: PreemptWithin) -> bool {
        let priority = state.workloads[other].priority;
        let lower = priority < self.priority;
        let newer = priority == self.priority && self.queued_at < state.queued_at(other);
        match policy {
            PreemptWithin::Never => false,
            PreemptWithin::LowerPriority => lower,
            PreemptWithin::LowerOrNewerEqual => lower || newer,
        }
    }

    /// Whether its queue's policy lets it take back from work of this priority elsewhere.
    fn may_reclaim(&self, priority: i32, policy: PreemptReclaim) -> bool {
        allows(policy, self.priority, priority)
    }
}

/// Whether a policy lets work of some priority take back from work of another one elsewhere.
fn allows(policy: PreemptReclaim, own: i32, theirs: i32) -> bool {
    match policy {
        PreemptReclaim::Never => false,
        PreemptReclaim::LowerPriority => theirs < own,
        PreemptReclaim::Any => true,
    }
}

/// Whether the policy of a queue lets work of some priority take back from other work elsewhere.
pub fn may_take_back(
    state: &ClusterState,
    (queue, priority): (QueueIdx, i32),
    other: WorkloadIdx,
) -> bool {
    let facts = state.quota.queue(queue).facts.as_ref();
    let theirs = state.workloads[other].priority;
    facts.is_some_and(|facts| allows(facts.preemption.reclaim, priority, theirs))
}

/// Whether a head, if it found no room, might stop this gang once it has the members that it lacks:
/// their queues' policies allow it, and the gang's queue borrows something then. Where the head
/// stands in no queue, priority decides about work without one.
pub fn could_take(
    state: &ClusterState,
    head: WorkloadIdx,
    queue: Option<QueueIdx>,
    workload: WorkloadIdx,
) -> bool {
    let (preemptor, other) = (&state.workloads[head], &state.workloads[workload]);
    if preemptor.never_preempts || other.stays.is_some() {
        return false;
    }
    let (priority, queued_at) = (preemptor.priority, state.queued_at(head));
    let who = Preemptor { workload: head, priority, queued_at, asked: &[] };
    let lower = other.priority < priority;
    let assignment = other.assignment.as_ref();
    let Some(its) = assignment.and_then(|assignment| assignment.queue) else { return lower };
    let Some(queue) = queue else { return false };
    let slot = state.quota.queue(queue);
    let policy = slot.facts.as_ref().expect("only existing queues have heads").preemption;
    if its == queue {
        return who.goes_before(state, workload, policy.within_cluster_queue);
    }
    let (Some(mine), Some(theirs)) = (slot.node, state.quota.queue(its).node) else {
        return false;
    };
    let tree = &state.quota.tree;
    let root = |node| std::iter::successors(Some(node), |node| tree.parent(*node)).last();
    // No share stops it for now, but who owns something of that does.
    let lasts = state.quota.shares_fairly() && state.lasting.until(workload, state.now).is_some();
    let owns = |fr: FrIdx| tree.usage(mine, fr) < tree.nominal(mine, fr);
    who.may_reclaim(other.priority, policy.reclaim)
        && root(mine) == root(theirs)
        && (!lasts || charges(state, workload).any(owns))
        && charges(state, workload).any(|fr| tree.borrows(theirs, fr, lacking(state, workload, fr)))
}

/// Whether work that waits in a queue might, once it owns what it asks, take back what another one
/// of its tree borrows: its policy allows that for somebody who holds quota there.
pub fn could_reclaim(
    state: &ClusterState,
    head: WorkloadIdx,
    queue: QueueIdx,
    from: QueueIdx,
) -> bool {
    let (slot, other) = (state.quota.queue(queue), state.quota.queue(from));
    let (preemptor, root) = (&state.workloads[head], state.quota.root(queue));
    let (priority, queued_at) = (preemptor.priority, state.queued_at(head));
    let who = Preemptor { workload: head, priority, queued_at, asked: &[] };
    let policy = slot.facts.as_ref().map(|facts| facts.preemption.reclaim);
    !preemptor.never_preempts
        && root.is_some()
        && root == state.quota.root(from)
        && policy.is_some_and(|policy| {
            let mut holders = other.holding.iter().map(|holder| state.workloads[*holder].priority);
            holders.any(|priority| who.may_reclaim(priority, policy))
        })
}

/// Whether it might do so while its own queue borrows; by shares anybody might.
pub fn could_reclaim_while_borrowing(
    state: &ClusterState,
    head: WorkloadIdx,
    queue: QueueIdx,
    from: QueueIdx,
) -> bool {
    if state.quota.shares_fairly() {
        return could_reclaim(state, head, queue, from);
    }
    let own = state.workloads[head].priority;
    state.quota.queue(queue).facts.as_ref().is_some_and(|facts| {
        let mut holders = state.quota.queue(from).holding.iter();
        holders.any(|holder| {
            while_borrowing(&facts.preemption, own, state.workloads[*holder].priority)
        })
    })
}

/// Whether who borrows may take back from work of this priority.
fn while_borrowing(policy: &PreemptionPolicy, own: i32, priority: i32) -> bool {
    policy.while_borrowing.is_some_and(|threshold| {
        priority < own && threshold.max_priority.is_none_or(|most| priority <= most)
    })
}

/// What members that a gang lacks for its minimum would charge, beyond what it keeps for them.
fn lacking(state: &ClusterState, workload: WorkloadIdx, of: FrIdx) -> i64 {
    let placed = state.placed(workload).count();
    let lacking = (state.workloads[workload].min_member as usize).saturating_sub(placed);
    let waiting = state.unplaced(workload).filter(|pod| state.pods[*pod].needs_place());
    let joining = waiting.take(lacking);
    let charges = joining.flat_map(|pod| state.charges_of(pod));
    let sum = |charges: &mut dyn Iterator<Item = (QueueIdx, FrIdx, i64)>| {
        resources::total(charges.filter(|(_, fr, _)| *fr == of).map(|(.., amount)| amount))
    };
    let (mut charges, mut kept) = (charges, state.kept_for(workload).iter().copied());
    sum(&mut charges).saturating_sub(sum(&mut kept)).max(0)
}

/// Everyone who may be taken for a need, whose members ask these resources of nodes; of those who
/// leave for others anyway who leaves quota, and if `room` is of use who leaves that.
pub fn collect(
    state: &ClusterState,
    preemptor: WorkloadIdx,
    queue: Option<QueueIdx>,
    (need, asked, room): (&Need, &[ResourceIdx], bool),
) -> Candidates {
    let (priority, queued_at) = (state.workloads[preemptor].priority, state.queued_at(preemptor));
    let who = Preemptor { workload: preemptor, priority, queued_at, asked };
    let mut found = Vec::new();
    for &workload in &state.unqueued_holding {
        if workload != preemptor && state.workloads[workload].priority < who.priority {
            let (kind, common) = (Kind::Unqueued, None);
            let quota = false;
            found.push(candidate(workload, kind, (quota, true), common));
        }
    }
    if let Some(queue) = queue {
        own_queue(state, &who, queue, need, &mut found);
        match state.quota.shares_fairly() {
            true => sharers(state, &who, queue, need, &mut found),
            false => cohorts(state, &who, queue, need, &mut found),
        }
    }
    found.retain(|candidate| state.workloads[candidate.workload].stays.is_none());
    promised(state, preemptor, need, &mut found);
    if !state.claims.is_empty() {
        found.retain_mut(|candidate| {
            candidate.quota &= !state.claims.quota_spent(candidate.workload);
            (candidate.quota || candidate.room) && !state.claims.spent(candidate.workload)
        });
    }
    for candidate in found.iter_mut().filter(|it| !it.kind.leaves()) {
        if state.leaving(candidate.workload) {
            (candidate.kind, candidate.common) = (Kind::Leaving(candidate.kind.reason()), None);
        }
    }
    left_over(state, queue, (need, room), &mut found);
    Candidates::new(found)
}

/// Who leaves for others, and leaves more than they were promised: nobody is stopped for what is
/// to come free anyway. Where nobody would be stopped, it is waited for as for all that comes free.
fn left_over(
    state: &ClusterState,
    queue: Option<QueueIdx>,
    (need, room): (&Need, bool),
    found: &mut Vec<Candidate>,
) {
    if state.claims.is_empty() || found.iter().all(|candidate| candidate.kind.leaves()) {
        return;
    }
    let root = |queue: Option<QueueIdx>| queue.and_then(|queue| state.quota.root(queue));
    let own = root(queue);
    let leaving = found.iter().filter(|candidate| candidate.kind.leaves());
    let known: BTreeSet<WorkloadIdx> = leaving.map(|candidate| candidate.workload).collect();
    let unspent = state.claims.unspent().take(LEFT_OVER_MAX);
    for workload in unspent.filter(|it| room || !state.claims.quota_spent(*it)) {
        let entry = &state.workloads[workload];
        let its = root(entry.assignment.as_ref().and_then(|assignment| assignment.queue));
        let near = own.is_some() && own == its && !state.claims.quota_spent(workload);
        let quota = near && holds_contested(state, workload, need);
        if (quota || room) && !known.contains(&workload) {
            let stop = entry.evicting.as_ref().map(|stop| stop.reason);
            let kind = Kind::Leaving(stop.unwrap_or(PreemptionReason::InCohortReclamation));
            found.push(candidate(workload, kind, (quota, true), None));
        }
    }
}

fn candidate(
    workload: WorkloadIdx,
    kind: Kind,
    (quota, room): (bool, bool),
    common: Option<QuotaIdx>,
) -> Candidate {
    Candidate { workload, kind, quota, room, common, breaks: 0, turn: 0 }
}

/// Who leaves for the preemptor already needs no policy's leave.
fn promised(state: &ClusterState, preemptor: WorkloadIdx, need: &Need, found: &mut Vec<Candidate>) {
    let name = &state.workloads[preemptor].full_name;
    for (&workload, note) in &state.inherited {
        if note.preemptor == *name && workload != preemptor {
            found.retain(|candidate| candidate.workload != workload);
            let (kind, quota) =
                (Kind::Promised(note.reason), holds_contested(state, workload, need));
            found.push(candidate(workload, kind, (quota, true), None));
        }
    }
}

/// The node of the queue in which a workload holds quota.
pub(super) fn node_of(state: &ClusterState, workload: WorkloadIdx) -> Option<QuotaIdx> {
    let assignment = state.workloads[workload].assignment.as_ref()?;
    state.quota.queue(assignment.queue?).node
}

/// What a workload holds of a flavor and resource of quota, and claims beside it.
pub(super) fn held(state: &ClusterState, workload: WorkloadIdx, of: FrIdx) -> i64 {
    let charges = state.placed(workload).flat_map(|pod| state.charges_of(pod));
    let charges = charges.chain(state.kept_for(workload).iter().copied());
    let claimed = state.claims.quota_of(workload).iter().copied();
    let charges = charges.chain(claimed.filter(|(.., amount)| *amount > 0));
    resources::total(charges.filter(|(_, fr, _)| *fr == of).map(|(.., amount)| amount))
}

/// What a workload charges.
pub(super) fn charges(
    state: &ClusterState,
    workload: WorkloadIdx,
) -> impl Iterator<Item = FrIdx> + '_ {
    let assignment = state.workloads[workload].assignment.as_ref();
    let sets = assignment.map_or(&[][..], |assignment| &assignment.sets);
    sets.iter().flat_map(|set| &set.charge).map(|(fr, _)| *fr)
}

/// Whether a workload holds what is short of quota.
pub(super) fn holds_contested(state: &ClusterState, workload: WorkloadIdx, need: &Need) -> bool {
    charges(state, workload).any(|fr| need.contested.contains(&fr))
}

/// Whether a queue or cohort borrows anything that is short of quota.
pub(super) fn borrows_contested(state: &ClusterState, node: QuotaIdx, need: &Need) -> bool {
    need.contested.iter().any(|fr| state.quota.tree.borrows(node, *fr, 0))
}

/// Whether a queue or cohort borrows of a resource that is asked, in any flavor.
pub(super) fn borrows_asked(state: &ClusterState, node: QuotaIdx, asked: &[ResourceIdx]) -> bool {
    let tree = &state.quota.tree;
    let mut covered = tree.covered(node).filter(|fr| asked.contains(&state.quota.fr(*fr).1));
    covered.any(|fr| tree.borrows(node, fr, 0))
}

/// Whether a workload of a queue holds something of a resource that is asked, of which the queue,
/// and every cohort between it and the common one, borrows.
pub(super) fn is_borrowed(
    state: &ClusterState,
    workload: WorkloadIdx,
    queue: QuotaIdx,
    common: QuotaIdx,
    asked: &[ResourceIdx],
) -> bool {
    let wanted = |fr: &FrIdx| asked.contains(&state.quota.fr(*fr).1);
    let mut held = charges(state, workload).filter(wanted);
    held.any(|fr| all_borrow(state, (queue, common), fr))
}

/// Of which of the resources that are asked a queue, and every cohort between it and the common
/// one, borrows, by flavor.
pub(super) fn borrowed_of(
    state: &ClusterState,
    queue: QuotaIdx,
    common: QuotaIdx,
    asked: &[ResourceIdx],
) -> Vec<FrIdx> {
    let covered = state.quota.tree.covered(queue);
    let wanted = covered.filter(|fr| asked.contains(&state.quota.fr(*fr).1));
    wanted.filter(|fr| all_borrow(state, (queue, common), *fr)).collect()
}

fn all_borrow(state: &ClusterState, (queue, common): (QuotaIdx, QuotaIdx), fr: FrIdx) -> bool {
    let tree = &state.quota.tree;
    let up = std::iter::successors(Some(queue), |node| tree.parent(*node));
    up.take_while(|node| *node != common).all(|node| tree.borrows(node, fr, 0))
}

fn own_queue(
    state: &ClusterState,
    who: &Preemptor<'_>,
    queue: QueueIdx,
    need: &Need,
    found: &mut Vec<Candidate>,
) {
    let facts = state.quota.queue(queue).facts.as_ref();
    let policy = facts.expect("only existing queues have heads").preemption.within_cluster_queue;
    for &workload in &state.quota.queue(queue).holding {
        if workload == who.workload || !who.goes_before(state, workload, policy) {
            continue;
        }
        let quota = holds_contested(state, workload, need);
        // What is in the way need not be anything that is charged: a port, whom it keeps away.
        found.push(candidate(workload, Kind::WithinQueue, (quota, true), None));
    }
}

fn cohorts(
    state: &ClusterState,
    who: &Preemptor<'_>,
    queue: QueueIdx,
    need: &Need,
    found: &mut Vec<Candidate>,
) {
    let queue_slot = state.quota.queue(queue);
    let facts = queue_slot.facts.as_ref().expect("only existing queues have heads");
    let own = queue_slot.node.expect("the queue exists");
    if facts.preemption.reclaim == PreemptReclaim::Never {
        return;
    }
    let tree = &state.quota.tree;
    let mut advantage = need.usage.iter().all(|(fr, amount)| !tree.borrows(own, *fr, *amount));
    let mut left: Vec<_> = need
        .usage
        .iter()
        .map(|(fr, amount)| (*fr, (amount - tree.local_available(own, *fr)).max(0)))
        .collect();
    let (mut from, mut at) = (own, tree.parent(own));
    while let Some(cohort) = at {
        let kind = |priority: i32| match advantage {
            true => Kind::Hierarchical,
            false if while_borrowing(&facts.preemption, who.priority, priority) => {
                Kind::WhileBorrowing
            }
            false => Kind::WithoutBorrowing,
        };
        let below = tree.children(cohort).iter().copied();
        for child in below.filter(|child| *child != from && tree.borrows_any(*child)) {
            let within = Within { common: cohort, asked: who.asked, need };
            within.holders(state, (child, true), &mut |workload, (quota, room)| {
                let priority = state.workloads[workload].priority;
                if who.may_reclaim(priority, facts.preemption.reclaim) {
                    let common = Some(cohort);
                    let kind = kind(priority);
                    found.push(candidate(workload, kind, (quota, room), common));
                }
            });
        }
        let mut all_fit = true;
        for (fr, amount) in &mut left {
            let (fits, rest) = tree.fits_subtree(cohort, *fr, *amount);
            all_fit &= fits;
            *amount = rest;
        }
        advantage |= all_fit;
        (from, at) = (cohort, tree.parent(cohort));
    }
}

/// Everyone in a borrowing queue of the whole tree (spec/quota.md 9.4). A cohort that borrows
/// nothing, and does not hold the preemptor's queue, is passed over with all below it.
fn sharers(
    state: &ClusterState,
    who: &Preemptor<'_>,
    queue: QueueIdx,
    need: &Need,
    found: &mut Vec<Candidate>,
) {
    let slot = state.quota.queue(queue);
    let policy = slot.facts.as_ref().expect("only existing queues have heads").preemption.reclaim;
    if policy == PreemptReclaim::Never {
        return;
    }
    let tree = &state.quota.tree;
    let own = slot.node.expect("the queue exists");
    let owns = Owns::of(state, own, need);
    let (mut from, mut at) = (own, slot.node);
    let mut open: Vec<QuotaIdx> = Vec::new();
    while let Some(common) = at.and_then(|node| tree.parent(node)) {
        open.extend(tree.children(common).iter().filter(|child| **child != from));
        while let Some(node) = open.pop() {
            if !tree.borrows_any(node) {
                continue;
            }
            open.extend(tree.children(node));
            let other = state.quota.queue_at(node).map(|other| state.quota.queue(other));
            let Some(other) = other.filter(|other| other.inactive.is_none()) else { continue };
            let for_quota = borrows_contested(state, node, need);
            let borrowed = borrowed_of(state, node, common, who.asked);
            for &workload in &other.holding {
                let shared = state.lasting.until(workload, state.now).is_none();
                let quota = for_quota
                    && (shared || owns.contested)
                    && holds_contested(state, workload, need);
                let room = (shared || owns.all)
                    && charges(state, workload).any(|fr| borrowed.contains(&fr));
                let allowed = who.may_reclaim(state.workloads[workload].priority, policy);
                if allowed && (quota || room) {
                    found.push(candidate(workload, Kind::Sharing, (quota, room), Some(common)));
                }
            }
        }
        (from, at) = (common, Some(common));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_already_waits_for_no_turn_and_goes_for_the_same_reason() {
        let kinds = [
            Kind::Unqueued,
            Kind::WithinQueue,
            Kind::Hierarchical,
            Kind::WhileBorrowing,
            Kind::WithoutBorrowing,
            Kind::Sharing,
        ];
        for kind in kinds {
            let leaving = Kind::Leaving(kind.reason());
            assert!(leaving.leaves() && !kind.leaves(), "{kind:?}");
            assert!(!leaving.elsewhere() && !leaving.by_share(), "{kind:?}");
            assert_eq!(leaving.reason(), kind.reason());
            let promised = Kind::Promised(kind.reason());
            assert!(promised.leaves() && promised.rank() < leaving.rank(), "{kind:?}");
            assert!(leaving.rank() <= kind.rank(), "{kind:?}");
        }
    }
}
