//! Backfill: what is settled while starts are reserved for others must not delay them.
//!
//! Whoever would start now, and could still run when somebody is to start, is tried in its place,
//! and all reserved starts are played with it there, of heads that compete for what it could use.
//! So is who ends before, if its queue has a hard budget: it may spend what a head there needs,
//! beside what was admitted and is not bound yet.
//! If some head would come late it is tried once more beside the room and quota that those heads
//! will need and that nobody leaves by then; else it is held, together with those of its equals
//! that run too long as well. A step tries so many at most; the rest are held as they were, and
//! looked at in turn (`engine/reservations/held.rs`).

use std::sync::Arc;

use crate::cycle::needs::Kept;
use crate::cycle::nominate::asks;
use crate::cycle::settle::place_all;
use crate::cycle::{Entry, Round, Verdict};
use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::engine::reservations::{Asks, Starter};
use crate::engine::waiting::in_turn::Turn;
use crate::engine::waiting::{RunTime, Wake};
use crate::explain::reason::Reason;
use crate::model::claim::Places;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::txn::Txn;
use crate::model::workload::Assignment;
use crate::place::classes::Scoring;
use crate::place::gang::TopologyAsk;
use crate::plan::Outcome;
use crate::quota::money::Unplaced;
use crate::quota::rate::Rate;
use crate::time::{Span, Time};
use crate::victims::Victim;

/// How reserved starts stand to somebody who would start now.
#[derive(Debug)]
enum Way {
    /// It may, if it leaves this alone.
    Free(Kept),
    /// This one does not hold without it.
    Unsound(Slot),
    /// It would delay this one.
    Delays(Slot),
}

/// Whom somebody would delay.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    /// In words.
    reason: Reason,
    /// Equals that run no longer are looked at all the same.
    most: RunTime,
    /// It was found out; else too much was played in this step, and it has its turn later.
    found: bool,
    /// Whom it is held for.
    head: WorkloadIdx,
}

/// Gives a workload its flavors and every member a node, in a transaction; where they went.
pub(crate) fn place_in(
    txn: &mut Txn<'_>,
    entry: &Entry,
    assignment: Arc<Assignment>,
    profile: Scoring,
    topology: TopologyAsk,
) -> Result<Places, Unplaced> {
    let asks = asks(txn, entry, profile);
    place_all(txn, entry.workload, assignment, &asks, topology)
}

impl Engine {
    /// Whether an entry may start as far as others' reserved starts are concerned, once these
    /// victims have left, and what it leaves alone; it may get other flavors than it had. One whose
    /// own start is due leaves alone what it can, and else lets only others go first who are due,
    /// or go before it.
    pub(super) fn passage(
        &mut self,
        entry: &mut Entry,
        victims: &[Victim],
    ) -> Result<Kept, Box<Late>> {
        if self.reservations.is_empty() {
            return Ok(Kept::default());
        }
        let all = self.slots(Some(entry.workload));
        let respected = self.may_not_delay(&self.starter(entry), &all);
        self.reservations.doubtful |= respected.len() < all.len();
        let (mut rebuilt, mut unsound) = (false, Vec::new());
        loop {
            let mut near = match self.may_play(entry.workload) {
                true => self.slots_near(entry.workload),
                false => self.slots(Some(entry.workload)),
            };
            near.retain(|slot| !unsound.contains(&slot.workload));
            let delayed = self.could_delay(entry, &near);
            if delayed.is_empty() {
                return Ok(Kept::default());
            }
            if let Some(late) = self.passed_over(entry, &delayed) {
                return Err(Box::new(late));
            }
            match self.weigh(entry, victims, &near, &delayed) {
                Way::Free(kept) => return Ok(kept),
                // Somebody is late without it: that is put right first.
                Way::Unsound(_) if !rebuilt => {
                    self.rebuild_reservations();
                    rebuilt = true;
                }
                // What does not come anyway is nobody's to delay; others are.
                Way::Unsound(slot) => unsound.push(slot.workload),
                Way::Delays(late) => {
                    let late = self.late(entry.workload, (late, true), &delayed);
                    if self.strict(entry.queue) {
                        let decided = self.decided_round;
                        self.reservations.turns.keep(entry.workload, decided, late.clone());
                    }
                    return Err(Box::new(late));
                }
            }
        }
    }

    /// What an entry that is only tried would leave alone if it were let through as in
    /// [`Engine::passage`], starting `then`; `None`: it would be held. However much was played
    /// before, and nothing is noted: starts that do not hold without it are nobody's to delay, nor
    /// are those of who has ended by then, or has begun in what is tried.
    pub(crate) fn would_pass(
        &mut self,
        entry: &mut Entry,
        victims: &[Victim],
        then: Time,
    ) -> Option<Kept> {
        if self.reservations.is_empty() {
            return Some(Kept::default());
        }
        let workload = entry.workload;
        // What is tried may want other nodes than it did, or will.
        self.reservations.forget_pool(workload);
        let mut slots = self.slots(Some(workload));
        slots.retain(|slot| {
            let runs = self.run_time(slot.workload);
            let placed = self.state.placed(slot.workload).count() as u32;
            let waits = placed < self.state.workloads[slot.workload].min_member;
            waits && (slot.start >= then || runs.is_none_or(|runs| slot.start.plus(runs) > then))
        });
        slots.iter_mut().for_each(|slot| slot.start = slot.start.max(then));
        let now = std::mem::replace(&mut self.state.now, then);
        let found = loop {
            let delayed = self.could_delay(entry, &slots);
            if delayed.is_empty() {
                break Some(Kept::default());
            }
            match self.weigh(entry, victims, &slots, &delayed) {
                Way::Free(kept) => break Some(kept),
                Way::Delays(_) => break None,
                Way::Unsound(late) => slots.retain(|slot| *slot != late),
            }
        };
        self.state.now = now;
        self.reservations.forget_pool(workload);
        found
    }

    /// Plays reserved starts, of which an entry could delay some, with it and beside it. It may get
    /// other flavors than it had.
    fn weigh(
        &mut self,
        entry: &mut Entry,
        victims: &[Victim],
        near: &[Slot],
        delayed: &[Slot],
    ) -> Way {
        let free = Kept::default();
        let slots = self.may_not_delay(&self.starter(entry), near);
        let ends = self.believed_for(&slots, Some(entry.workload));
        let Some(late) = self.first_late(entry, (victims, &free), &ends, &slots) else {
            return Way::Free(free);
        };
        self.reservations.turns.count_play();
        match self.play(&ends, &slots) {
            // They may have been found beside its own start.
            Err(at) if !self.come_beside(entry.workload, &ends, &slots) => {
                return Way::Unsound(slots[at]);
            }
            Ok(started) if victims.is_empty() => {
                let kept = self.kept_for(&ends, &slots, &started);
                if let Some(beside) = self.beside(entry, &kept)
                    && self.may_not_delay(&self.starter(&beside), near).len() <= slots.len()
                    && self.first_late(&beside, (&[][..], &kept), &ends, &slots).is_none()
                {
                    *entry = beside;
                    return Way::Free(kept);
                }
            }
            _ => {}
        }
        let due = |start: Time| start <= self.state.now;
        let who = self.starter(entry);
        let first = |slot: &Slot| due(slot.start) || self.ranks_before(slot, &who);
        let own = self.reservations.of(entry.workload);
        if own.is_some_and(due) && !delayed.iter().any(first) {
            return Way::Free(free);
        }
        Way::Delays(late)
    }

    /// Whether starts come in time where a head has its own when it is reserved.
    fn come_beside(
        &mut self,
        head: WorkloadIdx,
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
    ) -> bool {
        let Some(own) = self.reservations.slot_of(head) else { return false };
        let mut all = slots.to_vec();
        self.put_in(&mut all, Slot { start: own.start.max(self.state.now), ..own });
        self.reservations.turns.count_play();
        self.play(ends, &all).is_ok()
    }

    /// How an entry is held that nobody looks at in this step any more, or that is the head of a
    /// strict queue, which is never parked, and was looked at since anything was decided.
    fn passed_over(&mut self, entry: &Entry, delayed: &[Slot]) -> Option<Late> {
        let (workload, decided) = (entry.workload, self.decided_round);
        if let Some(known) = self.reservations.turns.known(workload, decided) {
            return Some(known);
        }
        if self.may_play(workload) {
            return None;
        }
        let told = self.state.workloads[workload].reason.clone();
        let mut late = self.late(workload, (delayed[0], false), delayed);
        if let Some(told @ Reason::Reserved { .. }) = told {
            late.reason = told;
        }
        Some(late)
    }

    /// It would delay a reserved start: it waits, and so do its equals that run too long.
    pub(super) fn hold_for_others(&mut self, mut entry: Entry, late: Late, round: &mut Round) {
        self.note_waits_for(&entry, late.head);
        // Nor may others come before it again and again.
        if late.found {
            self.reserve(&entry, true);
        }
        entry.choice.next.clear();
        self.remember_scan(&mut entry, round);
        let parks = !self.strict(entry.queue);
        if parks {
            let wake = Wake { room: true, quota: true, held: true };
            let turn = match late.found {
                // Its own start may be due soon.
                _ if self.reservations.of(entry.workload).is_some() => Turn::None,
                true => Turn::Waits,
                false => Turn::InLine,
            };
            let how = (wake, turn);
            self.waiting.park_longer(entry.workload, late.most, how, late.reason.clone());
            self.note_stood(&entry);
            round.more = true;
        } else if !late.found {
            self.reservations.turns.pass_over(entry.workload);
        }
        self.reservations.turns.note_held(late.found || !parks);
        self.report_outcome(entry.workload, Outcome::Waiting(late.reason.clone()));
        self.set_reason(entry.workload, late.reason);
    }

    /// For whom a member that joins a gang that runs would have to wait longer; it has its place
    /// already, in a transaction that is set aside.
    pub(super) fn delayed_by_member(&mut self, gang: WorkloadIdx) -> Option<Reason> {
        let slots = self.not_to_delay(gang, false);
        self.late_beside_extra((gang, &[][..]), &slots)
    }

    /// Which of these starts comes late beside members that join a gang and that it does not lack,
    /// with those `gone` who leave for them: nor may they spend what the budget of their queue
    /// leaves for one.
    pub(super) fn late_beside_extra(
        &mut self,
        (gang, gone): (WorkloadIdx, &[WorkloadIdx]),
        slots: &[Slot],
    ) -> Option<Reason> {
        let late = self.late_beside_member(gang, slots);
        late.or_else(|| {
            let queue = self.state.workloads[gang].assignment.as_ref()?.queue?;
            let rate = self.not_counted_yet(queue, gang);
            let slot = self.spent_away((gang, Some(queue)), (rate, gone), slots)?;
            Some(self.reserved(slot, self.run_time(gang)))
        })
    }

    /// Reserved starts that members may not delay that have places beside a gang that runs: what it
    /// `lacks` goes before whom a head would of its queue and priority, and others as extras do.
    pub(super) fn not_to_delay(&mut self, gang: WorkloadIdx, lacks: bool) -> Vec<Slot> {
        if self.reservations.is_empty() {
            return Vec::new();
        }
        let near = self.slots_near(gang);
        match lacks {
            true => self.may_not_delay(&self.grown(gang), &near),
            false => self.extras_may_not_delay(&self.grown(gang), &near),
        }
    }

    /// Whether these starts do not hold without the members that would join a gang: then it is not
    /// for their sake that somebody is late.
    pub(super) fn are_late_anyway(&mut self, gang: WorkloadIdx, slots: &[Slot]) -> bool {
        if !self.may_play(gang) {
            return false;
        }
        let ends = self.believed_for(slots, Some(gang));
        self.reservations.turns.count_play();
        self.play(&ends, slots).is_err()
    }

    /// Which of these starts comes late beside members that join a gang, told as why they wait.
    pub(super) fn late_beside_member(
        &mut self,
        gang: WorkloadIdx,
        slots: &[Slot],
    ) -> Option<Reason> {
        let first = *slots.first()?;
        if !self.may_play(gang) {
            self.reservations.turns.pass_over(gang);
            return Some(self.reserved(first, self.run_time(gang)));
        }
        let ends = self.believed_for(slots, Some(gang));
        let ends = self.with_end_of(ends, gang);
        self.reservations.turns.count_play();
        let late = self.play(&ends, slots).err()?;
        let slot = slots[late];
        Some(self.reserved(slot, self.run_time(gang)))
    }

    /// A gang that runs, with how far its queue borrows of what it is charged.
    fn grown(&self, gang: WorkloadIdx) -> Starter {
        let held = self.state.workloads[gang].assignment.as_ref();
        let queue = held.and_then(|held| held.queue);
        let quota = &self.state.quota;
        let node = queue.and_then(|queue| quota.queue(queue).node);
        let charges = held.into_iter().flat_map(|held| &held.sets).flat_map(|set| &set.charge);
        let heights = charges.filter_map(|(fr, _)| Some(quota.tree.borrow_height(node?, *fr, 0).0));
        let borrowing = heights.max().unwrap_or(0);
        // What it runs with counts already.
        Starter::of(queue, gang, borrowing, Asks::default())
    }

    /// Reservations of others that an entry could delay: it does not go before them, and may still
    /// run when they start, or spend what the budget of their queue leaves.
    fn could_delay(&self, entry: &Entry, near: &[Slot]) -> Vec<Slot> {
        let spends = self.hard_account(entry.queue).is_some();
        let mut slots = self.may_not_delay(&self.starter(entry), near);
        slots.retain(|slot| {
            spends && slot.queue == entry.queue || self.runs_then(entry.workload, slot)
        });
        slots
    }

    /// Whether work that starts now may still run at a reserved start.
    fn runs_then(&self, workload: WorkloadIdx, slot: &Slot) -> bool {
        let runs = self.run_time(workload);
        runs.is_none_or(|runs| self.state.now.plus(runs) > slot.start)
    }

    /// Whose reserved start would find the budget of its queue spent because of an entry in the
    /// same queue that goes to these places once its victims have left, who spend no more then.
    fn spends_away(
        &self,
        entry: &Entry,
        (victims, places): (&[Victim], &Places),
        slots: &[Slot],
    ) -> Option<Slot> {
        self.hard_account(entry.queue)?;
        let gone: Vec<WorkloadIdx> = victims.iter().map(|victim| victim.workload).collect();
        let costs = (self.rate_in(places), &gone[..]);
        self.spent_away((entry.workload, entry.queue), costs, slots)
    }

    /// The same of somebody who costs so much more from now on, when those are gone who leave.
    fn spent_away(
        &self,
        (who, queue): (WorkloadIdx, Option<QueueIdx>),
        (rate, gone): (Rate, &[WorkloadIdx]),
        slots: &[Slot],
    ) -> Option<Slot> {
        let mut own = slots.iter().filter(|slot| slot.queue == queue).peekable();
        own.peek()?;
        let before = self.spending_beside(queue, Some(who), &[])?;
        let then = self.spending_beside(queue, Some(who), gone)?;
        let end = self.run_time(who).map(|runs| self.state.now.plus(runs));
        let after = then.with(rate, self.state.now, end);
        let late = |slot: &&Slot| after.is_over_at(slot.start) && !before.is_over_at(slot.start);
        own.find(late).copied()
    }

    /// Whether some reserved start of others might come late because of an entry, wherever it goes.
    pub(super) fn could_delay_any(&self, entry: &Entry) -> bool {
        !self.reservations.is_empty()
            && !self.could_delay(entry, &self.slots(Some(entry.workload))).is_empty()
    }

    /// Whose reserved start does not come in time if an entry starts now, once victims have left,
    /// and beside what is kept; `None`: all do. One that finds no place now is settled as if it
    /// did: that is told elsewhere.
    fn first_late(
        &mut self,
        entry: &Entry,
        (victims, kept): (&[Victim], &Kept),
        ends: &[(Time, WorkloadIdx)],
        slots: &[Slot],
    ) -> Option<Slot> {
        let assignment = self.assignment_for(entry, self.state.now);
        let topology = self.topology_ask(entry.queue, entry.workload).ok()?;
        let profile = self.profile(entry.queue);
        let mut txn = Txn::begin(&mut self.state);
        txn.remove_workloads(victims.iter().map(|victim| victim.workload));
        kept.count(&mut txn, true);
        let placed = place_in(&mut txn, entry, assignment, profile, topology);
        kept.count(&mut txn, false);
        let places = placed.ok()?;
        let aside = txn.set_aside();
        let ends = self.with_end_of(ends.to_vec(), entry.workload);
        self.reservations.turns.count_play();
        let late = self.play(&ends, slots).err().map(|at| slots[at]);
        let late = late.or_else(|| self.spends_away(entry, (victims, &places), slots));
        drop(Txn::take_up(&mut self.state, aside));
        late
    }

    /// Ends with that of a workload as if it, or what joins it, started now.
    fn with_end_of(
        &self,
        mut ends: Vec<(Time, WorkloadIdx)>,
        workload: WorkloadIdx,
    ) -> Vec<(Time, WorkloadIdx)> {
        ends.retain(|(_, other)| *other != workload);
        if let Some(runs) = self.run_time(workload) {
            let end = self.state.now.plus(runs);
            ends.insert(ends.partition_point(|(other, _)| *other <= end), (end, workload));
        }
        ends
    }

    /// What an entry could have beside what is kept; `None`: nothing now.
    fn beside(&mut self, entry: &Entry, kept: &Kept) -> Option<Entry> {
        let mut txn = Txn::begin(&mut self.state);
        kept.count(&mut txn, true);
        let aside = txn.set_aside();
        let found = self.nominate_afresh(entry.workload);
        drop(Txn::take_up(&mut self.state, aside));
        (found.verdict == Verdict::Fit).then_some(found)
    }

    /// What is told of work that would delay some reserved starts, and of which it makes late.
    fn late(&self, workload: WorkloadIdx, (first, found): (Slot, bool), delayed: &[Slot]) -> Late {
        let now = self.state.now;
        let runs = self.run_time(workload);
        let reason = self.reserved(first, runs);
        // Part of a second is not enough. Who has ended by then spends too much: who runs for less
        // may not.
        let most = match delayed.iter().rfind(|slot| self.runs_then(workload, slot)) {
            Some(last) => last.start.since(now).0 / 1_000 * 1_000,
            None => runs.map_or(0, |runs| runs.0.saturating_sub(1_000)),
        };
        Late { reason, most: RunTime::of(Span(most)), found, head: first.workload }
    }

    fn reserved(&self, slot: Slot, runs: Option<Span>) -> Reason {
        let state = &self.state;
        Reason::Reserved {
            head: state.workloads[slot.workload].full_name.clone(),
            queue: slot.queue.map(|queue| state.quota.queue(queue).name.clone()),
            start: slot.start,
            runs,
        }
    }
}
