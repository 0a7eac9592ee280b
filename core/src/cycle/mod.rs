//! One round of decisions.
//!
//! Problem: decide quota and placement of the first workload of every queue together, in an order
//! that does not favour borrowers, and change nothing that is not decided. A round is Kueue's
//! cycle: at most one head per ClusterQueue, all nominated against the same state, then settled
//! one by one, each checked again against what the ones before it took, and against the starts
//! that are reserved for heads that wait (`backfill`).
//!
//! Phases: finish what was promised (claims whose victims left, gangs with missing members, owners
//! that were resumed, work for which victims of an engine before this one leave) -> nominate a
//! head per queue (flavors, room, victims; all inside a transaction that is rolled back) -> order
//! (while fair sharing is on, a tournament by shares) -> settle each (admit, preempt and claim,
//! hold back, or wait) -> the head of work without a queue -> extra members of elastic gangs. A
//! gang with missing members that some head could stop comes after that head, unless it was
//! admitted a moment ago; where it finds no room for them others may be stopped (`joining`). Who
//! waits for its victims takes the turn of its queue's head where it would start without them. A
//! victim that needs not all of its members may lose some, and go on (`parts`); and such members
//! may leave in the stead of others (`instead`).
//!
//! Restart: a round reads facts and claims only; scan memory, parking and backoff speed it up and
//! are lost without harm. Cost: what changed, per head; a head that cannot fit is parked with all
//! that are equal to it until something it waits for changes.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::engine::waiting::in_turn::Stir;
use crate::model::ids::{PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::quota::flavors::{Choice, SetDemand};
use crate::time::Time;
use crate::victims::Victim;

mod admit;
mod anew;
mod asked;
mod backfill;
mod beside;
mod elastic;
mod extras;
mod heads;
mod idle_claims;
mod idle_of_others;
mod instead;
mod joiners;
mod joining;
mod kept_back;
mod lacking;
mod left_out;
mod needs;
mod nominate;
mod of_roles;
mod once_gone;
mod overlap;
mod parts;
mod preemptions;
mod promised;
mod reclaimers;
mod retried;
mod settle;
mod toll;
mod tournament;

pub(crate) use backfill::{Late, place_in};
pub(crate) use heads::Head;
pub(crate) use idle_of_others::IdleClaims;
pub(crate) use kept_back::KeptBack;
pub(crate) use lacking::Lacking;
pub(crate) use needs::Kept;
pub(crate) use nominate::Premise;
pub(crate) use reclaimers::Reclaimers;

/// A head with what was found for it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The workload.
    pub workload: WorkloadIdx,
    /// Its queue; `None`: work without one.
    pub queue: Option<QueueIdx>,
    /// Members of each shape that are to be placed (fewer than all for an elastic gang).
    pub sets: Vec<SetDemand>,
    /// Flavors.
    pub choice: Choice,
    /// What to do with it.
    pub verdict: Verdict,
    /// With more room on nodes something else might have been found.
    pub room: bool,
    /// Members that do not begin, where others do than those who stand first (`of_roles`).
    pub later: Option<BTreeSet<PodIdx>>,
}

/// What nomination found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It fits as things are.
    Fit,
    /// It fits once these have left.
    Preempt(Vec<Victim>),
    /// Preemption would be allowed, and nobody suitable is there.
    Blocked,
    /// It does not fit.
    NoFit,
}

impl Verdict {
    /// How many would have to leave.
    fn victims(&self) -> usize {
        match self {
            Verdict::Preempt(victims) => victims.len(),
            Verdict::Fit | Verdict::Blocked | Verdict::NoFit => 0,
        }
    }
}

/// What one round is doing.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Victims claimed in this round.
    pub claimed: BTreeSet<WorkloadIdx>,
    /// Queues that hold, or were promised, more than before it.
    pub gained: BTreeSet<QueueIdx>,
    /// Up to which priority nobody leaves for members of a shape beside gangs without a queue.
    pub in_vain: BTreeMap<ShapeIdx, i32>,
    /// Somebody was admitted, placed, or promised room.
    pub decided: bool,
    /// Nothing of that kind, and a further round looks at something new all the same: the next in
    /// a queue, or a head's next flavor.
    pub more: bool,
}

impl Engine {
    /// Runs one round; `false`: a further one would find nothing new.
    pub(crate) fn round(&mut self, now: Time) -> bool {
        self.round_number += 1;
        let mut round = Round::default();
        self.redeem_claims(now, &mut round);
        self.complete_gangs(now, &[], &mut round);

        let mut promised = self.settle_resumed(now, &mut round);
        promised.extend(self.settle_promised(now, &mut round));
        let mut heads: Vec<Head> = self.heads().collect();
        let retried = self.fit_without_victims((&heads, true), &mut round);
        let turn_taken = |queue| retried.iter().any(|entry| entry.queue == queue);
        let fresh = |head: &Head| !promised.contains(head) && !turn_taken(head.0);
        let fresh = heads.iter().copied().filter(fresh).collect();
        round.more |= !retried.is_empty();
        self.settle_all(now, fresh, retried, &mut round);
        self.verify_reservations();
        let woken = self.release_held();
        round.more |= woken;

        // What has no claim to anything comes last: not while a queue has a head that was not
        // looked at yet, or it would be bound now and preempted in the next round; nor while one
        // is to be looked at again because of what others kept back, or took before it.
        self.complete_gangs(now, &heads, &mut round);
        let further = round.decided || round.more;
        let again = woken || further && self.heads().next().is_some();
        if !again && self.still_ahead(&heads).all(|(queue, _)| queue.is_none()) {
            self.settle_stray(now, &promised, &mut heads, &mut round);
            self.verify_reservations();
        }
        self.wake_helped();
        self.note_gains(&round.gained);
        if round.decided {
            self.decided_round = self.round_number;
            self.kept_back.all_is_new();
            self.wake_those_whose_head_started();
        }
        let moved =
            self.reservations.moved && self.kept_back.starts_are_new(&self.reservations.starts());
        let settled = !round.decided && !round.more && !moved;
        !settled
            || self.wake_by_borrowers()
            || self.wake_out_of_quota()
            || self.wake_by_idle_claims()
    }

    /// The head of work without a queue, then members above the minimum.
    fn settle_stray(
        &mut self,
        now: Time,
        promised: &[Head],
        heads: &mut Vec<Head>,
        round: &mut Round,
    ) {
        let stray = self.waiting.head(None).map(|head| (None, head));
        let stray: Vec<Head> = stray.into_iter().collect();
        let retried = self.fit_without_victims((&stray, false), round);
        if !retried.is_empty() {
            round.more = true;
            return self.settle_all(now, Vec::new(), retried, round);
        }
        let fresh = stray.iter().copied().filter(|head| !promised.contains(head)).collect();
        self.settle_all(now, fresh, Vec::new(), round);
        heads.splice(0..0, stray);
        self.complete_gangs(now, heads, round);
        self.place_extras(now, round);
    }

    /// Nominates all against the same state, then settles them and those who are tried again one
    /// by one.
    fn settle_all(&mut self, now: Time, heads: Vec<Head>, retried: Vec<Entry>, round: &mut Round) {
        let nominate = |(queue, head)| self.nominate(queue, head);
        let mut entries: Vec<Entry> = heads.into_iter().map(nominate).collect();
        entries.extend(retried);
        // Something is told of each.
        self.outcomes.reserve(entries.len());
        match self.state.quota.shares_fairly() && entries.len() > 1 {
            true => self.settle_by_share(now, entries, round),
            false => self.settle_in_order(now, entries, round),
        }
    }

    fn settle_in_order(&mut self, now: Time, mut entries: Vec<Entry>, round: &mut Round) {
        entries.sort_by_cached_key(|entry| self.settling_order(entry));
        for entry in entries {
            self.settle(now, entry, round);
        }
    }

    /// What heads kept back is free again; whether somebody is to be looked at anew because they
    /// kept back something else than in the round before, or reserved starts were put off.
    fn release_held(&mut self) -> bool {
        let held = self.state.let_go();
        let moved = std::mem::take(&mut self.reservations.moved);
        let moved = moved && self.kept_back.note_starts(self.reservations.starts());
        let mut woken = false;
        if moved {
            // Heads of strict queues are never parked: nothing else has them looked at again.
            woken = self.reservations.turns.forget_known();
            self.growth.append(&mut self.growth_parked);
            for queue in std::mem::take(&mut self.reservations.open) {
                self.waiting.look_again(queue);
            }
        }
        if self.kept_back.note(held) || moved {
            let stir = if moved { Stir::Surely } else { Stir::Perhaps };
            woken |= self.waiting.wake_held(stir);
        }
        self.take_turns() || woken
    }
}
