//! Preemptors that are tried without their victims.
//!
//! Problem: who was promised what victims leave waits until they have. A victim may take long to
//! go, or hang: a finalizer that nobody removes, a node that does not answer. Meanwhile room comes
//! free elsewhere, and work that goes after the preemptor takes it.
//!
//! Wanted, as in Kueue, where a preemptor is a head in every cycle until it runs: once anything
//! came free it is looked at again as things are, among the heads and in their order. Who goes
//! before it chooses first; then, if as many of its members fit as were planned, they start where
//! they fit, and who goes after it finds what they leave. Nothing is kept for it any more. A stop
//! that was asked for is not taken back (a pod that is being deleted cannot stay): what its victims
//! leave is for whoever is next. Where it does not fit all stays as it was promised.
//!
//! Phases: something came free -> each who waits for victims is nominated as if it claimed nothing
//! and nobody may leave; of a queue the first that fits takes the turn of the queue's head ->
//! settled among the heads -> those that found nothing are not tried again until more comes free.
//!
//! Restart: who was tried is forgotten, and each is tried once. Cost: a nomination without a search
//! for victims for each who waits for some, when anything came free; of many, [`TRIES_MAX`] in a
//! round.

use crate::cycle::heads::Head;
use crate::cycle::{Entry, Kept, Premise, Round, Verdict};
use crate::engine::Engine;
use crate::model::claim::Claim;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::workload::QueueRef;
use crate::plan::{Outcome, WorkloadOutcome};
use crate::time::Time;

/// Preemptors that are tried in one round, at most: the rest are in the rounds that follow.
const TRIES_MAX: usize = 256;

impl Engine {
    /// Who waits for victims and would start without, of each queue the first, or of work without
    /// one; nobody whose queue has a head that stands before it. `heads` stand in order of queues,
    /// of each one.
    pub(super) fn fit_without_victims(
        &mut self,
        (heads, queued): (&[Head], bool),
        round: &mut Round,
    ) -> Vec<Entry> {
        let mut open: Vec<Head> = self.to_try().filter(|(of, _)| of.is_some() == queued).collect();
        let (mut found, mut tries): (Vec<Entry>, _) = (Vec::new(), 0);
        let order = |(queue, workload): &Head| self.head_order(*queue, *workload);
        open.sort_by(|a, b| order(a).cmp(&order(b)));
        for (queue, workload) in open {
            let order = |workload| self.head_order(queue, workload);
            let before = |(of, head): &Head| *of == queue && order(*head) < order(workload);
            let has_turn = found.iter().any(|entry| entry.queue == queue);
            let head = heads.get(heads.partition_point(|(of, _)| *of < queue));
            if has_turn || head.is_some_and(before) {
                continue;
            }
            if tries == TRIES_MAX {
                round.more = true;
                break;
            }
            tries += 1;
            self.tried.insert(workload);
            found.extend(self.without_victims(queue, workload));
        }
        found
    }

    /// Who waits for victims, each with its queue, and was not tried without since anything came
    /// free.
    pub(super) fn to_try(&self) -> impl Iterator<Item = Head> + '_ {
        let claims = &self.state.claims;
        let untried = claims.workloads().filter(|workload| !self.tried.contains(workload));
        untried.filter_map(|workload| {
            let claim = claims.get(workload).expect("just listed");
            let queue = match self.state.workloads[workload].queue {
                QueueRef::Queue(queue) => Some(queue),
                QueueRef::Unqueued => None,
                QueueRef::Broken(_) => return None,
            };
            let same = claim.assignment.queue == queue && !claim.victims.is_empty();
            let same = same && !self.state.claims_to_join(workload);
            same.then_some((queue, workload))
        })
    }

    /// Something came free: whoever waits for victims may start without.
    pub(crate) fn try_anew(&mut self) {
        self.tried.clear();
    }

    /// How a preemptor would start as things are, if it would with all members that were planned.
    fn without_victims(&mut self, queue: Option<QueueIdx>, workload: WorkloadIdx) -> Option<Entry> {
        let claim = self.state.drop_claim(workload).expect("just listed");
        let entry = self.nominate_as(queue, workload, Premise { nobody_leaves: true, gone: &[] });
        let starts = starts(&entry, &claim);
        self.claim_again(workload, claim);
        starts.then_some(entry)
    }

    /// Starts a preemptor without its victims, if nobody before it in this round took what it needs
    /// and it delays nobody whose start is reserved.
    pub(super) fn settle_retried(&mut self, now: Time, mut entry: Entry, round: &mut Round) {
        let workload = entry.workload;
        let claim = self.state.drop_claim(workload).expect("a preemptor claims");
        let free = self.quota_still_fits(&entry) && self.kept_out(entry.queue, workload).is_none();
        let kept = if free { self.would_pass(&mut entry, &[], now) } else { None };
        let kept = kept.filter(|_| starts(&entry, &claim) && self.still_held(&entry).is_none());
        let placed = kept.is_some_and(|kept| self.starts_at_once(now, &entry, &kept));
        if !placed {
            return self.claim_again(workload, claim);
        }
        // An engine after a restart may have claimed for it in this very round: whom it stopped is
        // told all the same.
        let (number, name) = (self.rounds, &self.state.workloads[workload].full_name);
        let claimed = |it: &mut WorkloadOutcome| it.round == number && it.workload == *name;
        for claimed in self.outcomes.extract_if(.., claimed) {
            if let Outcome::Preempting(victims) = claimed.outcome {
                self.stopped.extend(victims);
            }
        }
        round.decided = true;
        round.gained.extend(entry.queue);
        self.reservations.doubtful |= !self.reservations.is_empty();
        self.admit(now, workload);
        self.claim_is_free();
    }

    fn starts_at_once(&mut self, now: Time, entry: &Entry, beside: &Kept) -> bool {
        let assignment = self.assignment_for(entry, now);
        self.try_place(entry, assignment, beside, true).is_ok()
    }

    fn claim_again(&mut self, workload: WorkloadIdx, claim: Claim) {
        self.state.add_claim(workload, claim.assignment, claim.places, claim.victims);
    }
}

/// Whether an entry fits as things are with all members that a claim is for.
fn starts(entry: &Entry, claim: &Claim) -> bool {
    let members: u32 = entry.sets.iter().map(|set| set.count).sum();
    entry.verdict == Verdict::Fit && members as usize >= claim.places.members.len()
}
