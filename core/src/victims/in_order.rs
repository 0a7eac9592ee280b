//! Victims taken in the usual order, wherever they stand.
//!
//! One after the other is taken until quota fits, then until nodes do. Near some of them a member
//! may want to be, or it spreads among them: no node may do any more once they have left. Where the
//! order leads nowhere it is gone through again without those; where some of them must leave after
//! all, and some not, victims are chosen by where they stand ([`focus`](super::focus)), and in
//! order while some of them stay in turn ([`near`](super::near)). Who is alone asks by place first.
//!
//! Cost: one look for places for each who is taken; what is tried again costs as much again, only
//! where somebody is wanted near.

use std::collections::BTreeSet;

use super::candidates::{self, Candidate, Kind};
use super::{Attempt, CANDIDATES_MAX, For, Removed, Search};
use crate::explain::reason::SearchBound;
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::plan::PreemptionReason;
use crate::rules::neighbours::Outlook;

/// Own work that leaves already.
const OWN_LEAVES: Kind = Kind::Leaving(PreemptionReason::InClusterQueue);

/// Candidates that are taken one by one where each look for places is a search, as for members that
/// depend on each other; after that many, an eighth more at a time. Who leaves in vain goes back.
const ONE_BY_ONE: usize = 64;

impl Search<'_> {
    /// Takes victims for quota and for room, and gives back who is not needed.
    pub(super) fn attempt_with_nodes<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        let start = txn.checkpoint();
        let mut removed = self.make_way(txn, list, attempt)?;
        self.give_back(txn, attempt, &mut removed);
        if self.overreaches(txn, attempt, &removed) {
            txn.rollback_to(start);
            return Err(For::Quota);
        }
        Ok(removed)
    }

    /// Takes victims until quota and nodes fit, in the ways that there are; else nobody.
    fn make_way<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
    ) -> Result<Removed<'c>, For> {
        let mut bound = None;
        if self.alone && !self.room_fits(txn, attempt) {
            match self.attempt_by_place(txn, list, attempt) {
                Ok(found) => return Ok(found),
                Err(at) => bound = at,
            }
        }
        match self.take_in_order(txn, list, attempt, Removed::default()) {
            Err(For::Room) => {}
            done => return done,
        }
        let (near, all) = self.wanted(txn, list);
        let wanted = !all.is_empty();
        let more = if all == near { BTreeSet::new() } else { all };
        for stay in [near.clone(), more].into_iter().filter(|stay| !stay.is_empty()) {
            let sparing = Removed::sparing(stay);
            if let Ok(found) = self.take_in_order(txn, list, attempt, sparing) {
                return Ok(found);
            }
        }
        // Where nothing is a budget and nobody is wanted near, all that are allowed were gone
        // before it failed.
        let budget = || list.iter().any(|candidate| candidate.room && candidate.kind.elsewhere());
        if !self.alone && (wanted || budget()) {
            match self.attempt_by_place(txn, list, attempt) {
                Ok(found) => return Ok(found),
                Err(at) => bound = at,
            }
        }
        match self.attempt_beside_some(txn, list, attempt, &near) {
            Ok(found) => return Ok(found),
            Err(at) => bound = bound.or(at),
        }
        if let Some(bound) = bound.filter(|_| wanted || !self.alone) {
            txn.note_end(&self.need.asks, bound);
        }
        Err(For::Room)
    }

    /// Takes one after the other until quota fits, and then until nodes do; else nobody.
    pub(super) fn take_in_order<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        mut removed: Removed<'c>,
    ) -> Result<Removed<'c>, For> {
        let start = txn.checkpoint();
        self.free_quota(txn, list, attempt, &mut removed)?;
        if self.room_found(txn, attempt, &mut removed.trial)
            || self.make_room(txn, list, attempt, &mut removed)
            || self.free_money(txn, list, attempt, &mut removed)
        {
            return Ok(removed);
        }
        txn.rollback_to(start);
        Err(For::Room)
    }

    /// Candidates near whom some member wants to be, and the same with those among whom one
    /// spreads. Who leaves whatever is decided is not counted on.
    fn wanted(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
    ) -> (BTreeSet<WorkloadIdx>, BTreeSet<WorkloadIdx>) {
        if !self.looks {
            return (BTreeSet::new(), BTreeSet::new());
        }
        self.need.asks.iter().for_each(|(class, _)| txn.fresh(*class));
        let state = txn.state();
        let those = |means: fn(&Outlook, ShapeIdx) -> bool| {
            let classes = || self.need.asks.iter().map(|(class, _)| state.classes.class(*class));
            let wanted =
                |pod: PodIdx| classes().any(|class| means(class.outlook(), state.pods[pod].shape));
            let stay = list.iter().filter(|candidate| !candidate.kind.leaves());
            let stay = stay.map(|candidate| candidate.workload);
            stay.filter(|workload| state.placed(*workload).any(wanted)).collect()
        };
        (those(|it, shape| it.wants_near(shape).is_some()), those(Outlook::is_opened_by))
    }

    /// Takes one after the other until quota fits; nobody, if all of them would not do.
    pub(super) fn free_quota<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        removed: &mut Removed<'c>,
    ) -> Result<(), For> {
        let start = txn.checkpoint();
        if self.take_for_quota(txn, list, attempt, removed) {
            return Ok(());
        }
        txn.rollback_to(start);
        Err(For::Quota)
    }

    /// Takes one after the other until quota fits.
    pub(super) fn take_for_quota<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        removed: &mut Removed<'c>,
    ) -> bool {
        let of_queue = |kind| kind == Kind::WithinQueue || kind == OWN_LEAVES;
        let own = |c: &Candidate| self.own_too && of_queue(c.kind);
        for candidate in list.iter().filter(|c| (c.quota || own(c)) && attempt.goes_by_order(c)) {
            if self.quota_fits(txn, attempt) {
                return true;
            }
            if !removed.passes_over(candidate) && self.usable(txn, candidate, attempt, For::Quota) {
                removed.take(txn, candidate);
            }
        }
        self.quota_fits(txn, attempt)
            || (attempt == Attempt::Sharing && self.take_by_share(txn, list, For::Quota, removed))
    }

    /// Takes more until nodes fit: work without a queue first, then the others in order.
    pub(super) fn make_room<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        removed: &mut Removed<'c>,
    ) -> bool {
        self.need.look_around(txn);
        // Who is leaving anyway, then work without a queue, then the others in order.
        let in_turn = list.iter().filter(|c| c.room && attempt.goes_by_order(c));
        let mut order: Vec<&'c Candidate> = in_turn.collect();
        order.sort_by_key(|candidate| {
            let leaving = txn.state().leaving(candidate.workload);
            (!leaving, candidate.kind != Kind::Unqueued)
        });
        if order.len() > CANDIDATES_MAX {
            order.retain(|it| self.need.could_free(txn.state(), it.workload));
        }
        if order.len() > CANDIDATES_MAX {
            order.truncate(CANDIDATES_MAX);
            txn.note_end(&self.need.asks, SearchBound::Victims(CANDIDATES_MAX as u32));
        }
        let mut unseen = 0;
        for candidate in order {
            if removed.passes_over(candidate)
                || !self.usable(txn, candidate, attempt, For::Room)
                || !self.need.could_free(txn.state(), candidate.workload)
            {
                continue;
            }
            removed.take(txn, candidate);
            unseen += 1;
            let taken = removed.taken.len();
            if self.coupled && taken > ONE_BY_ONE && unseen < taken / 8 {
                continue;
            }
            if self.room_found(txn, attempt, &mut removed.trial) {
                return true;
            }
            unseen = 0;
        }
        if unseen > 0 && self.room_found(txn, attempt, &mut removed.trial) {
            return true;
        }
        attempt == Attempt::Sharing && self.take_by_share(txn, list, For::Room, removed)
    }

    /// Whether a candidate may be taken now: borrowers only while they, and every cohort between
    /// them and the common one, still borrow something contested; for room, what it holds.
    pub(super) fn usable(
        &self,
        txn: &mut Txn<'_>,
        candidate: &Candidate,
        attempt: Attempt,
        what: For,
    ) -> bool {
        if !attempt.takes(candidate.kind, what) {
            return false;
        }
        if attempt == Attempt::Sharing {
            return self.may_leave_for_room(txn, candidate);
        }
        let Some(common) = candidate.common else { return true };
        let state = txn.state();
        let assignment = state.workloads[candidate.workload].assignment.as_ref();
        let queue = assignment.and_then(|assignment| assignment.queue);
        let Some(node) = queue.and_then(|queue| state.quota.queue(queue).node) else {
            return true;
        };
        if what == For::Room {
            return candidates::is_borrowed(state, candidate.workload, node, common, &self.asked);
        }
        let up = std::iter::successors(Some(node), |node| state.quota.tree.parent(*node));
        let mut below = up.take_while(|node| *node != common);
        below.all(|node| candidates::borrows_contested(state, node, self.need))
    }
}
