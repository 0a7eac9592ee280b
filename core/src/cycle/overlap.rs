//! Preemptors of one round whose victims overlap.
//!
//! Problem: heads are nominated against one state, so several may choose the same victims, and what
//! those leave is for the first of them. The next one needs others, or nobody: what the first one's
//! victims leave over may be enough for it.
//!
//! Wanted: nobody leaves for what comes free anyway. Who chose a victim that was claimed before it
//! in this round is nominated anew, with the flavors that it had, as if all who were claimed had
//! left and those for whom they leave ran (Kueue's rule). If it fits then it waits for them with a
//! claim and stops nobody; if it needs more, it stops those; else it waits for the next round, at
//! the head of its queue, and is looked at against the state then. Who chose only victims that
//! nobody claimed stops them, but for those without whom it fits beside what is left over: work of
//! other queues, and of its own where no other is stopped for it, or it would borrow what it takes
//! back.
//!
//! Nothing survives a round. Cost: a nomination more for each head of the first kind, two where it
//! is short of more than quota, a look for places for each victim of one of the second
//! ([`SPARED_MAX`]), beside at most [`LEAVING_MAX`] of those who were claimed.

use std::sync::Arc;

use crate::cycle::elastic::has_all;
use crate::cycle::joining::places_of;
use crate::cycle::nominate::asks;
use crate::cycle::promised::place_as_planned;
use crate::cycle::settle::place_all;
use crate::cycle::{Entry, Round};
use crate::engine::Engine;
use crate::explain::milestone::Recomputation;
use crate::explain::reason::Reason;
use crate::model::claim::Places;
use crate::model::ids::{PodIdx, QueueIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::model::workload::Assignment;
use crate::plan::{Outcome, PreemptionReason, State};
use crate::quota::money::Purse;
use crate::time::Time;
use crate::victims::Victim;

/// Others that leave in a round and that one preemptor looks at, at most.
const LEAVING_MAX: usize = 64;

/// Victims of one preemptor of which it is tried whether it fits without them, at most.
const SPARED_MAX: usize = 16;

/// Where all members of a preemptor go, and once who has left.
pub(super) type Planned = (Places, Vec<WorkloadIdx>);

impl Engine {
    pub(super) fn settle_preempt(
        &mut self,
        now: Time,
        mut entry: Entry,
        mut found: Vec<Victim>,
        round: &mut Round,
    ) {
        let overlaps = found.iter().any(|victim| round.claimed.contains(&victim.workload));
        let mut beside = self.left_over(&found, round);
        let chosen = found.len();
        if overlaps {
            let Some((again, victims)) = self.nominate_beside(&entry, &mut beside) else {
                self.note_recomputed(entry.workload, Recomputation::Skipped);
                self.note_skip(entry.workload);
                return self.lost_race(entry, None, round);
            };
            (entry, found) = (again, victims);
        } else if !beside.is_empty() {
            self.spare(now, &entry, &mut found, &beside);
        }
        // It counts on others' victims, too.
        let shares = overlaps || found.len() < chosen;
        if shares {
            let leave: Vec<Victim> =
                found.iter().cloned().chain(self.victims_of(&beside)).collect();
            if let Err(late) = self.passage(&mut entry, &leave) {
                if overlaps {
                    self.note_recomputed(entry.workload, Recomputation::Skipped);
                }
                return self.hold_for_others(entry, *late, round);
            }
        }
        let assignment = self.assignment_for(&entry, now);
        let planned = self.plan_beside(&entry, &assignment, &found, &beside);
        let Some((places, names)) = planned.filter(|(_, names)| !names.is_empty()) else {
            let why = self.held_back(&entry, &found);
            entry.choice.reason = Some(self.quota_reason(&entry));
            if overlaps {
                self.note_recomputed(entry.workload, Recomputation::Skipped);
            }
            self.note_skip(entry.workload);
            return self.lost_race(entry, why, round);
        };
        if overlaps {
            let came = match found.is_empty() {
                true => Recomputation::DeferredFit,
                false => Recomputation::NewTargets,
            };
            self.note_recomputed(entry.workload, came);
        }
        let (places, names) = self.part(now, &entry, &assignment, &mut found, (places, names));
        let places = self.places_beside_most(&entry, &assignment, &names).unwrap_or(places);
        if shares {
            found.extend(self.victims_of(&names[found.len()..]));
        }
        let plan = ((places, names), assignment);
        self.promise(now, entry, &found, plan, round);
    }

    /// Stops victims, and keeps what they leave for their preemptor.
    fn promise(
        &mut self,
        now: Time,
        entry: Entry,
        found: &[Victim],
        ((places, names), assignment): (Planned, Arc<Assignment>),
        round: &mut Round,
    ) {
        let workload = entry.workload;
        let needs = (&entry.choice.usage[..], &places.members[..]);
        let preemptions = self.preemptions_for(now, workload, found, needs);
        self.note_taking(now, workload, found, &entry.choice.usage);
        for (victim, preemption) in found.iter().zip(&preemptions) {
            round.claimed.insert(victim.workload);
            self.evict(now, victim.workload, preemption.clone());
        }
        let left = names.len() as u32;
        names.iter().for_each(|victim| self.file_leaving(*victim));
        self.state.add_claim(workload, assignment, places, names);
        self.waiting.remove(workload);
        self.tried.insert(workload);
        round.gained.extend(entry.queue);
        let entry = &mut self.state.workloads[workload];
        entry.state = State::Reserved;
        entry.requeue.scan = None;
        round.decided = true;
        self.file_end(workload);
        self.set_reason(workload, Reason::WaitingForVictims { victims: left });
        self.report_outcome(workload, Outcome::Preempting(preemptions));
    }

    /// Victims of heads before it in this round that leave more than those want, its own choice
    /// among them first.
    fn left_over(&self, found: &[Victim], round: &Round) -> Vec<WorkloadIdx> {
        let leaves_more = |name: &WorkloadIdx| !self.state.claims.spent(*name);
        let own = found.iter().map(|victim| victim.workload);
        let own = own.filter(|name| round.claimed.contains(name) && leaves_more(name));
        let mut all: Vec<WorkloadIdx> = own.collect();
        all.sort_unstable();
        all.dedup();
        let is_other = |name: &WorkloadIdx| leaves_more(name) && all.binary_search(name).is_err();
        let others = round.claimed.iter().copied().filter(is_other);
        let others: Vec<WorkloadIdx> = others.take(LEAVING_MAX).collect();
        all.extend(others);
        all.truncate(LEAVING_MAX);
        all
    }

    /// Whom to stop as if those who leave `beside` them had left: only those who leave over what
    /// it is short of, if that will do; all of them, where it needs the room of others, too.
    fn nominate_beside(
        &mut self,
        entry: &Entry,
        beside: &mut Vec<WorkloadIdx>,
    ) -> Option<(Entry, Vec<Victim>)> {
        let of_use = self.of_use(entry, beside);
        if of_use.len() < beside.len()
            && let Some(found) = self.nominate_again(entry, &of_use)
        {
            *beside = of_use;
            return Some(found);
        }
        self.nominate_again(entry, beside)
    }

    /// Who leaves already, each with why.
    fn victims_of(&self, leaving: &[WorkloadIdx]) -> Vec<Victim> {
        let victim = |&workload: &WorkloadIdx| {
            let stop = self.state.workloads[workload].evicting.as_ref();
            let reason = stop.map_or(PreemptionReason::InCohortReclamation, |stop| stop.reason);
            Victim { workload, reason }
        };
        leaving.iter().map(victim).collect()
    }

    /// Takes those off a preemptor's victims without whom it fits beside what others leave over.
    fn spare(&mut self, now: Time, entry: &Entry, found: &mut Vec<Victim>, beside: &[WorkloadIdx]) {
        let beside = self.of_use(entry, beside);
        if beside.is_empty() || found.len() > SPARED_MAX {
            return;
        }
        let assignment = self.assignment_for(entry, now);
        for own in [false, true] {
            let is_own = |victim: &Victim| victim.reason == PreemptionReason::InClusterQueue;
            if own && !found.iter().all(is_own) {
                return;
            }
            for at in (0..found.len()).rev() {
                if is_own(&found[at]) != own {
                    continue;
                }
                let victim = found.remove(at);
                let names = found.iter().map(|victim| victim.workload);
                let names: Vec<WorkloadIdx> = names.chain(beside.iter().copied()).collect();
                if self.plan_after(entry, assignment.clone(), &names).is_none() {
                    found.insert(at, victim);
                }
            }
        }
    }

    /// Who of them leaves over what a preemptor is short of: quota of its tree, if it is quota.
    fn of_use(&self, entry: &Entry, leaving: &[WorkloadIdx]) -> Vec<WorkloadIdx> {
        let root = |queue: Option<QueueIdx>| self.state.quota.root(queue?);
        let of_use = |name: &&WorkloadIdx| {
            let held = || self.state.workloads[**name].assignment.as_ref();
            let near = || root(held().and_then(|held| held.queue)) == root(entry.queue);
            entry.choice.contested.is_empty() || !self.state.claims.quota_spent(**name) && near()
        };
        leaving.iter().filter(of_use).copied().collect()
    }

    /// Where everyone goes once the victims have left, and who those are: where it does not fit
    /// without, also of those who leave `beside` them. `None`: it does not fit then either.
    fn plan_beside(
        &mut self,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        victims: &[Victim],
        beside: &[WorkloadIdx],
    ) -> Option<Planned> {
        let mut names: Vec<WorkloadIdx> = victims.iter().map(|victim| victim.workload).collect();
        if let Some(places) = self.plan_after(entry, assignment.clone(), &names) {
            return Some((places, names));
        }
        let others = beside.iter().filter(|name| !names.contains(name));
        let others: Vec<WorkloadIdx> = others.copied().collect();
        if others.is_empty() {
            return None;
        }
        names.extend(others);
        let mut places = self.plan_after(entry, assignment.clone(), &names)?;
        for at in (victims.len()..names.len()).rev() {
            let name = names.remove(at);
            match self.plan_after(entry, assignment.clone(), &names) {
                Some(fewer) => places = fewer,
                None => names.insert(at, name),
            }
        }
        Some((places, names))
    }

    /// Where the members of an entry go once these have left, if more of its workload would find
    /// places beside them then: so that they do. Nobody whose start is reserved may be delayed by
    /// that; and slices stay as they are without the others.
    fn places_beside_most(
        &mut self,
        entry: &Entry,
        assignment: &Arc<Assignment>,
        leave: &[WorkloadIdx],
    ) -> Option<Places> {
        let most = self.most_once_gone(entry, leave).filter(|most| has_all(most, entry))?;
        let topology = self.topology_ask(entry.queue, entry.workload).ok()?;
        let sliced = self.state.workloads[entry.workload].in_slices(&self.state.room);
        if sliced || self.could_delay_any(entry) {
            return None;
        }
        let profile = self.profile(entry.queue);
        let of_all = self.assignment_for(&most, assignment.at);
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(leave.iter().copied());
        let all = asks(&mut txn, &most, profile);
        let own = asks(&mut txn, entry, profile);
        let pays = !Purse::of(txn.state(), entry.queue, &own).is_empty();
        let start = txn.checkpoint();
        let together = place_all(&mut txn, entry.workload, of_all, &all, topology).ok()?;
        txn.rollback_to(start);
        txn.assign(entry.workload, Some(assignment.clone()));
        let members: Vec<PodIdx> = own.iter().flat_map(|ask| ask.pods.iter().copied()).collect();
        let goes = place_as_planned(&mut txn, &own, &together.members);
        goes.then(|| places_of(txn.state(), &members, pays))
    }
}
