//! Victims while fair sharing is on: who borrows more gives way to who would borrow less.
//!
//! Problem: all teams borrow, and reclaiming helps only one that uses less than it owns. Here
//! one that borrows may stop borrowers too, if it has the smaller share then (spec/quota.md 9.4,
//! Kueue's). `borrowWithinCohort` means nothing.
//!
//! Wanted: shares come closer with every victim, never apart, so that no two queues take turns.
//! Whoever stays within its own quota of what is short takes it back whatever the shares
//! (`InCohortReclamation`); who does not, takes by shares (`InCohortFairSharing`).
//!
//! Phases: the preemptor's usage is charged, because shares are compared as if it ran. Then the
//! queue with the largest share is asked (`targets`): its own queue gives its next candidate;
//! another one the first whose leaving the first strategy allows, while the others are set aside.
//! Compared are the preemptor's side and the victim's, below the lowest cohort that holds both.
//! The second strategy looks once at each queue of those set aside. Quota comes first, then room
//! on nodes in the same way, where work without a queue leaves before, and only borrowed holdings
//! leave. Add-back is that of any attempt. Who leaves already is gone before shares are compared,
//! whichever queue it leaves, and does not come back as long as they are.
//!
//! Kueue stops there. Add-back may return own work whose leaving made the preemptor's share small,
//! and the victim would take its place again: so in the end each victim by shares must have left a
//! share that, with it, is at least the preemptor's; and what it left must not be its queue's own;
//! unless its queue's policy lets it take nothing back from the preemptor. One for which that is
//! not so stays, and the search begins anew without it ([`PASSES_MAX`]).
//! Longer rounds than of two end because work that took too many turns takes only what it owns
//! (`turns`).
//!
//! Nor do shares stop work for whose start others were held, or that started later than it was
//! promised, until it should have ended ([`lasting`](super::lasting)): that is taken by who owns
//! what is short, and nobody else. Who would take it by its share is told until when it stays.
//!
//! Restart: reads usage only, which facts show. Cost: one removal for each candidate looked at,
//! none where the preemptor's share is larger as things are; a choice reads the shares on its way.

use std::borrow::Cow;

use super::targets::Targets;
use super::{Attempt, For, Removed, Search, Taken, Victim};
use crate::model::ids::{FrIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::{PreemptReclaim, Text};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::plan::PreemptionReason;
use crate::policy::FairSharing;
use crate::quota::share::Share;
use crate::time::Time;
use crate::victims::Need;
use crate::victims::candidates::{self, Candidate, Kind};

/// Searches at most: each leaves out one more that would come back. It bounds the work only.
const PASSES_MAX: u32 = 256;

/// What of its needs a preemptor asks within its queue's own quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owns {
    /// All of what is short.
    pub contested: bool,
    /// All of it.
    pub all: bool,
}

impl Owns {
    /// Of a preemptor in the queue at `own`, which is not charged for its needs yet.
    pub fn of(state: &ClusterState, own: QuotaIdx, need: &Need) -> Owns {
        let tree = &state.quota.tree;
        let within = |(fr, amount): &(FrIdx, i64)| !tree.borrows(own, *fr, *amount);
        let mut contested = need.usage.iter().filter(|(fr, _)| need.contested.contains(fr));
        let all = need.usage.iter().all(within);
        Owns { contested: contested.all(within), all }
    }
}

/// How shares decide for one preemptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Its queue.
    own: QuotaIdx,
    strategies: FairSharing,
    /// It stays within its own quota of what is short.
    owns_contested: bool,
    /// It stays within its own quota of all that it asks.
    owns_all: bool,
    /// It had so many turns of late that it stops others only within its own quota.
    stopped: Option<u32>,
}

impl Sharing {
    /// `None`: fair sharing is off, or its queue shares with nobody.
    pub(super) fn of(
        state: &ClusterState,
        queue: QueueIdx,
        need: &Need,
        stopped: Option<u32>,
    ) -> Option<Sharing> {
        let strategies = state.policy.fair_sharing?;
        let own = state.quota.queue(queue).node?;
        state.quota.tree.parent(own)?;
        let Owns { contested, all } = Owns::of(state, own, need);
        Some(Sharing { own, strategies, owns_contested: contested, owns_all: all, stopped })
    }

    /// Whether it may take back from a candidate whatever the shares are.
    fn owns(self, candidate: &Candidate, what: For) -> bool {
        self.owns_all || (what == For::Quota && candidate.quota && self.owns_contested)
    }

    /// Whether it may take a candidate at all: who rests takes what it owns.
    fn may_take(self, candidate: &Candidate, what: For) -> bool {
        self.stopped.is_none() || self.owns(candidate, what)
    }

    /// The two nodes whose shares are compared below a cohort: the preemptor's side and that of
    /// another queue.
    fn sides(
        self,
        state: &ClusterState,
        (common, other): (QuotaIdx, QuotaIdx),
    ) -> Option<(QuotaIdx, QuotaIdx)> {
        let tree = &state.quota.tree;
        let below = |node: QuotaIdx| {
            let mut up = std::iter::successors(Some(node), |node| tree.parent(*node));
            up.find(|node| tree.parent(*node) == Some(common))
        };
        Some((below(self.own)?, below(other)?))
    }

    /// Both shares as things are.
    fn shares(self, state: &ClusterState, candidate: &Candidate) -> Option<(Share, Share)> {
        let other = candidates::node_of(state, candidate.workload)?;
        self.shares_below(state, (candidate.common?, other))
    }

    fn shares_below(
        self,
        state: &ClusterState,
        below: (QuotaIdx, QuotaIdx),
    ) -> Option<(Share, Share)> {
        let (own, theirs) = self.sides(state, below)?;
        Some((state.quota.share(own), state.quota.share(theirs)))
    }
}

impl FairSharing {
    /// Whether the first strategy lets a candidate leave.
    fn allows(self, own: Share, before: Share, after: Share) -> bool {
        match self {
            FairSharing::InitialShare => own < before,
            FairSharing::FinalShare | FairSharing::FinalThenInitial => own <= after,
        }
    }

    /// Whether it may allow it, whatever the candidate's leaving makes of its side's share.
    fn may_allow(self, own: Share, before: Share) -> bool {
        match self {
            FairSharing::InitialShare => own < before,
            FairSharing::FinalShare | FairSharing::FinalThenInitial => own <= before,
        }
    }
}

impl Search<'_> {
    /// Charges the preemptor's queue for what it asks (or takes that back), where shares decide.
    pub(super) fn charge(&self, txn: &mut Txn<'_>, attempt: Attempt, runs: bool) {
        if attempt == Attempt::Sharing
            && let Some(queue) = self.queue
        {
            for (fr, amount) in self.need.usage.iter().filter(|(_, amount)| *amount > 0) {
                txn.propose(queue, *fr, *amount, runs);
            }
        }
    }

    /// Takes by shares, and gives back, until nobody leaves who would take its place again.
    pub(super) fn attempt_by_share(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
    ) -> Result<Vec<Victim>, For> {
        let start = txn.checkpoint();
        self.charge(txn, Attempt::Sharing, true);
        let charged = txn.checkpoint();
        let (mut list, mut lack) = (Cow::Borrowed(list), For::Quota);
        for _ in 0..PASSES_MAX {
            let mut removed = match self.attempt_as_charged(txn, &list, Attempt::Sharing) {
                Ok(removed) => removed,
                Err(short) => {
                    lack = short;
                    break;
                }
            };
            let Some(back) = self.comes_back(txn, &removed) else {
                self.count_on_fewer(txn, Attempt::Sharing, &mut removed);
                self.charge(txn, Attempt::Sharing, false);
                return Ok(self.victims(&removed));
            };
            txn.rollback_to(charged);
            list.to_mut().retain(|candidate| candidate.workload != back);
        }
        txn.rollback_to(start);
        Err(lack)
    }

    /// Whether quota covers all that is charged for the preemptor.
    pub(super) fn charged_fits(&self, state: &ClusterState, own: QuotaIdx) -> bool {
        let mut asked = self.need.usage.iter().filter(|(_, amount)| *amount > 0);
        asked.all(|(fr, _)| !state.quota.tree.overdrawn(own, *fr))
    }

    /// Why a victim was chosen.
    pub(super) fn reason(&self, candidate: &Candidate) -> PreemptionReason {
        match self.sharing {
            Some(sharing) if by_sharing(candidate.kind) => {
                match sharing.owns(candidate, For::Quota) {
                    true => PreemptionReason::InCohortReclamation,
                    false => PreemptionReason::InCohortFairSharing,
                }
            }
            _ => candidate.kind.reason(),
        }
    }

    /// Takes candidates in order of shares until it fits.
    pub(super) fn take_by_share<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        what: For,
        removed: &mut Removed<'c>,
    ) -> bool {
        let Some(sharing) = self.sharing else { return false };
        let shared = |candidate: &&Candidate| {
            let wanted = if what == For::Quota { candidate.quota } else { candidate.room };
            wanted && candidate.kind.by_share() && sharing.may_take(candidate, what)
        };
        let open = list.iter().filter(shared).filter(|it| !removed.passes_over(it));
        let mut targets = Targets::new(txn.state(), sharing.own, open);
        let mut aside = Vec::new();
        while let Some(queue) = targets.next(txn.state()) {
            let taken = self.next_of(txn, (&mut targets, queue), what, removed, &mut aside);
            targets.changed(txn.state(), queue);
            if taken && self.fits(txn, what, removed) {
                return true;
            }
        }
        if sharing.strategies != FairSharing::FinalThenInitial {
            return false;
        }
        // In the order in which they are taken, not in that in which they were set aside.
        aside.sort_unstable_by_key(|(at, _)| *at);
        let aside = aside.into_iter().map(|(_, candidate)| candidate);
        let mut targets = Targets::new(txn.state(), sharing.own, aside);
        while let Some(queue) = targets.next(txn.state()) {
            let (_, candidate) = targets.pop(queue).expect("a target has a candidate");
            targets.drop_queue(queue);
            let shares = sharing.shares(txn.state(), candidate);
            let allowed = shares.is_some_and(|(own, theirs)| own < theirs);
            if allowed && self.serves(txn, candidate, what) {
                removed.take(txn, candidate);
                targets.changed(txn.state(), queue);
                if self.fits(txn, what, removed) {
                    return true;
                }
            }
        }
        false
    }

    /// Takes the next candidate of a queue that the first strategy lets leave.
    fn next_of<'c>(
        &self,
        txn: &mut Txn<'_>,
        (targets, queue): (&mut Targets<'c>, QuotaIdx),
        what: For,
        removed: &mut Removed<'c>,
        aside: &mut Vec<(usize, &'c Candidate)>,
    ) -> bool {
        let Some(sharing) = self.sharing else { return false };
        let mut known = None;
        while let Some((at, candidate)) = targets.pop(queue) {
            if !self.serves(txn, candidate, what) {
                continue;
            }
            if candidate.kind == Kind::WithinQueue || sharing.owns(candidate, what) {
                removed.take(txn, candidate);
                return true;
            }
            let known = known.get_or_insert_with(|| sharing.shares(txn.state(), candidate));
            let Some((own, before)) = *known else { continue };
            if sharing.strategies.may_allow(own, before) {
                let point = txn.checkpoint();
                removed.take(txn, candidate);
                let (_, after) = sharing.shares(txn.state(), candidate).expect("as before");
                if sharing.strategies.allows(own, before, after) {
                    return true;
                }
                removed.truncate(removed.taken.len() - 1);
                txn.rollback_to(point);
            }
            aside.push((at, candidate));
        }
        false
    }

    /// Whether a candidate's leaving could help now.
    fn serves(&self, txn: &Txn<'_>, candidate: &Candidate, what: For) -> bool {
        what == For::Quota
            || (self.need.could_free(txn.state(), candidate.workload)
                && self.lends(txn.state(), candidate))
    }

    /// Whether what a candidate of another queue holds for room is borrowed.
    fn lends(&self, state: &ClusterState, candidate: &Candidate) -> bool {
        let Some(common) = candidate.common else { return true };
        let node = candidates::node_of(state, candidate.workload);
        node.is_none_or(|node| {
            candidates::is_borrowed(state, candidate.workload, node, common, &self.asked)
        })
    }

    /// Whether shares let a candidate leave for room now, whatever its turn.
    pub(super) fn may_leave_for_room(&self, txn: &mut Txn<'_>, candidate: &Candidate) -> bool {
        let Some(sharing) = self.sharing else { return false };
        if candidate.kind.by_share() && !sharing.may_take(candidate, For::Room) {
            return false;
        }
        if candidate.kind != Kind::Sharing || sharing.owns(candidate, For::Room) {
            return self.lends(txn.state(), candidate);
        }
        let shares = sharing.shares(txn.state(), candidate);
        let Some((own, before)) = shares.filter(|_| self.lends(txn.state(), candidate)) else {
            return false;
        };
        if sharing.strategies != FairSharing::FinalShare && own < before {
            return true;
        }
        let point = txn.checkpoint();
        txn.remove_workload(candidate.workload);
        let after = sharing.shares(txn.state(), candidate).map(|(_, theirs)| theirs);
        txn.rollback_to(point);
        after.is_some_and(|after| sharing.strategies.allows(own, before, after))
    }

    fn fits(&self, txn: &mut Txn<'_>, what: For, removed: &mut Removed<'_>) -> bool {
        match what {
            For::Quota => self.quota_fits(txn, Attempt::Sharing),
            For::Room => self.room_found(txn, Attempt::Sharing, &mut removed.trial),
        }
    }

    /// A victim by shares that would take its place again: its side's share with it is smaller
    /// than the preemptor's in the end.
    pub(super) fn comes_back(
        &self,
        txn: &mut Txn<'_>,
        removed: &Removed<'_>,
    ) -> Option<WorkloadIdx> {
        let sharing = self.sharing?;
        let back = |txn: &mut Txn<'_>, taken: &Taken<'_>| {
            let candidate = taken.candidate;
            if candidate.kind != Kind::Sharing || sharing.owns(candidate, For::Quota) {
                return false;
            }
            if !self.takes_back(txn.state(), candidate.workload) {
                return false;
            }
            let Some((own, without)) = sharing.shares(txn.state(), candidate) else { return false };
            if own <= without && self.need.contested.is_empty() {
                return false;
            }
            let point = txn.checkpoint();
            txn.return_workload(candidate.workload, &taken.held);
            let with = sharing.shares(txn.state(), candidate).map(|(_, theirs)| theirs);
            let reclaims = self.reclaims(txn.state(), sharing, candidate);
            txn.rollback_to(point);
            reclaims || with.is_none_or(|with| with < own)
        };
        let found = removed.taken.iter().find(|taken| back(txn, taken));
        found.map(|taken| taken.candidate.workload)
    }

    /// Whether a victim that is back in its queue may stop the preemptor at all.
    fn takes_back(&self, state: &ClusterState, victim: WorkloadIdx) -> bool {
        let victim = &state.workloads[victim];
        let queue = victim.assignment.as_ref().and_then(|assignment| assignment.queue);
        let facts = queue.and_then(|queue| state.quota.queue(queue).facts.as_ref());
        !victim.never_preempts
            && match facts.map(|facts| facts.preemption.reclaim) {
                Some(PreemptReclaim::Never) => false,
                Some(PreemptReclaim::LowerPriority) => self.priority < victim.priority,
                Some(PreemptReclaim::Any) | None => true,
            }
    }

    /// Whether a candidate that is back would own what is short, which the preemptor borrows: it
    /// could take it whatever the shares.
    fn reclaims(&self, state: &ClusterState, sharing: Sharing, candidate: &Candidate) -> bool {
        let assignment = state.workloads[candidate.workload].assignment.as_ref();
        let Some(queue) = assignment.and_then(|assignment| assignment.queue) else { return false };
        let (slot, tree) = (state.quota.queue(queue), &state.quota.tree);
        let borrows =
            |node: QuotaIdx| self.need.contested.iter().any(|fr| tree.borrows(node, *fr, 0));
        slot.facts.is_some() && slot.node.is_some_and(|node| !borrows(node)) && borrows(sharing.own)
    }

    /// Of queues that hold what is short, the one whose side has the largest share, if the
    /// preemptor's is no smaller: whose it is, and both shares.
    pub(super) fn largest_share(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
    ) -> Option<(QueueIdx, Share, Share)> {
        let decides = |it: &Sharing| !it.owns_contested && it.stopped.is_none();
        let sharing = self.sharing.filter(decides)?;
        let start = txn.checkpoint();
        self.charge(txn, Attempt::Sharing, true);
        let state = txn.state();
        let mut found: Option<(QueueIdx, Share, Share)> = None;
        for candidate in list.iter().filter(|c| c.quota && c.kind == Kind::Sharing) {
            let Some((own, theirs)) = sharing.shares(state, candidate) else { continue };
            let assignment = state.workloads[candidate.workload].assignment.as_ref();
            let Some(queue) = assignment.and_then(|assignment| assignment.queue) else { continue };
            if found.is_none_or(|(_, _, most)| most < theirs) {
                found = Some((queue, own, theirs));
            }
        }
        txn.rollback_to(start);
        found.filter(|(_, own, theirs)| own >= theirs)
    }

    /// Of work that holds what is short and might leave, its side's share being larger than the
    /// preemptor's, if any share stopped it: who has the largest, and until when none does.
    pub(super) fn lasting(&self, txn: &mut Txn<'_>) -> Option<(WorkloadIdx, Time)> {
        let decides = |it: &Sharing| !it.owns_contested && it.stopped.is_none();
        let (sharing, queue) = (self.sharing.filter(decides)?, self.queue?);
        txn.state().lasting.all(txn.state().now).next()?;
        let start = txn.checkpoint();
        self.charge(txn, Attempt::Sharing, true);
        let state = txn.state();
        let mut found: Option<(Share, &Text, (WorkloadIdx, Time))> = None;
        for (workload, until) in state.lasting.all(state.now) {
            let Some(node) = candidates::node_of(state, workload) else { continue };
            let around = common(state, sharing.own, node).filter(|_| {
                node != sharing.own
                    && candidates::may_take_back(state, (queue, self.priority), workload)
                    && candidates::holds_contested(state, workload, self.need)
                    && candidates::borrows_contested(state, node, self.need)
            });
            let Some(below) = around.map(|cohort| (cohort, node)) else { continue };
            let Some((own, theirs)) = sharing.shares_below(state, below) else { continue };
            let name = &state.workloads[workload].full_name;
            let first = found
                .is_none_or(|(most, other, _)| theirs > most || theirs == most && name < other);
            if own < theirs && first {
                found = Some((theirs, name, (workload, until)));
            }
        }
        let found = found.map(|(.., who)| who);
        txn.rollback_to(start);
        found
    }
}

/// The lowest cohort around both of two queues.
fn common(state: &ClusterState, own: QuotaIdx, other: QuotaIdx) -> Option<QuotaIdx> {
    let tree = &state.quota.tree;
    let around = |node: QuotaIdx| {
        let up = std::iter::successors(Some(node), move |node| tree.parent(*node));
        up.skip(1)
    };
    around(own).find(|cohort| around(other).any(|above| above == *cohort))
}

/// Whether one leaves, or left, by shares or because the preemptor owns what it takes.
fn by_sharing(kind: Kind) -> bool {
    matches!(kind, Kind::Sharing | Kind::Leaving(PreemptionReason::InCohortFairSharing))
}
