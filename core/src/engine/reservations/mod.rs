//! Reservations in time: big work does not starve behind small work that passes it.
//!
//! Problem: in a BestEffortFIFO queue, and between queues, whatever fits passes what does not fit
//! yet. A gang that needs half of the cluster may wait for ever while single pods take each GPU
//! that comes free.
//!
//! Wanted: the first of a queue that waits for quota or room, and of which it can be told when it
//! could start because all ends that it waits for are known, has that start reserved. Other work
//! passes it only if it has ended by then, or leaves the quota and the room that it will need
//! (backfill). Where run times are declared and kept it starts no later than was first reserved,
//! but for work that goes before it by rank. What no run time is known of changes nothing.
//!
//! Who is kept from delaying it: of its own queue whatever stands behind it; of other queues
//! whatever would not be settled before it ([`ranks`]), reserved starts among them: one order says
//! behind whom a start is found, and who is held for it. Members that a gang needs to go on are
//! not kept; those above its minimum are. Nor is a start lost while victims of others leave: it
//! was judged with them gone and their preemptor in its place, and so it is until that is so.
//!
//! Phases: a head is refused -> its earliest start is searched on the engine itself
//! ([`timetable`]) -> who is settled later is played against all reserved starts
//! (`cycle/backfill.rs`) -> when the head is looked at again its start is verified, and moved if
//! it could be sooner and borrow no further, or cannot be kept -> who came to stand before it while
//! it was held has its turn first ([`forward`]) -> an end that did not come is believed for a while
//! and then no longer ([`run_times`]): the start is found anew without it, at most [`BROKEN_MAX`]
//! times, so that nothing is held for ever for a start that does not come.
//!
//! What starts at last is not stopped for the sake of those who were held for it ([`begun`]).
//!
//! Restart: reservations are made anew from facts; how often one was broken, what was promised
//! first, and what was [`learned`], is forgotten. Cost: nothing while nobody says how long it runs.
//! Else a search of a start takes a dozen plays of the timetable, a look at one that is known two
//! or three, and work that is settled beside reservations that it could delay one to four, up to a
//! bound in each step ([`held`]). At most `reservations.most` are kept of heads that compete for
//! the same nodes or quota ([`pools`]), and at most [`FORECASTS_MAX`] plays of a step look for new
//! ones; nothing is kept for work that is no head. Whoever has none because of a bound says so
//! ([`Unreserved`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::cycle::Entry;
use crate::engine::Engine;
use crate::explain::obstacles;
use crate::explain::reason::{FlavorProblem, Reason};
use crate::explain::view::Unreserved;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::time::Time;
use timetable::Slot;

mod begun;
mod forecast;
mod forward;
mod held;
mod kept_out;
mod learned;
mod pools;
mod ranks;
mod run_times;
mod search;
pub(crate) mod timetable;
mod tried;

pub(crate) use forward::Stood;
pub(crate) use learned::Learned;
pub(crate) use ranks::{Asks, Starter};
pub(crate) use run_times::Ends;
use search::Found;

/// A reserved start that had to be put off so often because an end did not come is given up: the
/// queueing strategy alone decides from then on.
const BROKEN_MAX: u32 = 8;

/// Refused workloads of a queue whose start is searched in vain in one step: the first may fit
/// nowhere, and must not keep the second from a reservation.
const TRIED_MAX: usize = 4;

/// Plays of timetables in a step after which no further start is searched.
const FORECASTS_MAX: u64 = 512;

/// A start that is kept for a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// When it starts, who, and how far its queue borrows then.
    pub slot: Slot,
    /// It was verified in this step.
    looked_at: bool,
}

/// All reservations.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// In order of start, then uid.
    kept: Vec<Reservation>,
    /// What they ask of quota.
    asked: BTreeMap<WorkloadIdx, Asks>,
    /// Heads of strict queues that kept something back when they had their turn last.
    keepers: BTreeMap<WorkloadIdx, BTreeSet<WorkloadIdx>>,
    /// Searches in vain in this step, by queue.
    tried: BTreeMap<Option<QueueIdx>, Vec<WorkloadIdx>>,
    /// How often an end did not come that a start was reserved for.
    broken: BTreeMap<WorkloadIdx, u32>,
    /// The first start that a head was promised, while shares decide who goes before it.
    promised: BTreeMap<WorkloadIdx, Time>,
    /// Heads for which others are held that might take back from them.
    waited_for: BTreeSet<WorkloadIdx>,
    /// Somebody was settled who goes before some of them: whether they hold is to be found out.
    pub doubtful: bool,
    /// Some start was given up or put off: who was held for it is looked at again.
    pub moved: bool,
    /// Queues that lost one, or had none for it: who is first in them now may have one, and may be
    /// parked.
    pub open: Vec<Option<QueueIdx>>,
    /// Who is held for them, and looked at in turn.
    pub turns: held::Turns,
    /// Heads that let others have their turn first, and when.
    gave_way: forward::GaveWay,
    /// What heads compete for.
    pools: pools::Pools,
    /// Nodes, queues or the limit changed since it was looked whether they are too many.
    unchecked: bool,
    /// Heads without one because of a bound, with their queues.
    without: BTreeMap<WorkloadIdx, (Option<QueueIdx>, Unreserved)>,
}

impl Reservations {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Nodes or queues changed: heads may compete for something else.
    pub fn forget_pools(&mut self) {
        self.pools.clear();
        self.unchecked = true;
    }

    /// Why a head has none, if a bound is the reason.
    pub fn without(&self, workload: WorkloadIdx) -> Option<Unreserved> {
        self.without.get(&workload).map(|(_, why)| *why)
    }

    /// Whose starts are kept, and when.
    pub fn starts(&self) -> Vec<(WorkloadIdx, Time)> {
        self.kept.iter().map(|kept| (kept.slot.workload, kept.slot.start)).collect()
    }

    /// All of them, in order of start.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.kept.iter()
    }

    /// The start reserved for a workload.
    pub fn of(&self, workload: WorkloadIdx) -> Option<Time> {
        self.slot_of(workload).map(|slot| slot.start)
    }

    /// The same with how far its queue borrows then.
    pub(crate) fn slot_of(&self, workload: WorkloadIdx) -> Option<Slot> {
        let found = self.kept.iter().find(|kept| kept.slot.workload == workload);
        found.map(|kept| kept.slot)
    }

    /// What a workload with a reserved start asks of quota.
    fn asks(&self, workload: WorkloadIdx) -> Asks {
        self.asked.get(&workload).cloned().unwrap_or_default()
    }

    /// A workload may want other nodes or quota than it did.
    pub fn forget_pool(&mut self, workload: WorkloadIdx) {
        self.pools.forget(workload);
    }

    /// Gives up the reservation of a workload, if it has one.
    fn give_up(&mut self, workload: WorkloadIdx) {
        let of = |kept: &Reservation| kept.slot.workload == workload;
        if let Some(at) = self.kept.iter().position(of) {
            let gone = self.kept.remove(at);
            self.asked.remove(&workload);
            self.keepers.remove(&workload);
            self.waited_for.remove(&workload);
            self.open.push(gone.slot.queue);
            self.open.extend(self.without.values().map(|(queue, _)| *queue));
            self.moved = true;
        }
        self.pools.forget(workload);
    }
}

impl Engine {
    /// A workload starts, or is gone: nothing is kept for it any more.
    pub(crate) fn end_reservation(&mut self, workload: WorkloadIdx) {
        if !self.reservations.is_empty() {
            self.reservations.give_up(workload);
        }
        self.reservations.broken.remove(&workload);
        self.reservations.gave_way.forget(workload);
        self.reservations.promised.remove(&workload);
        self.reservations.without.remove(&workload);
    }

    /// Gives up what is not waited for any more, and what ends that did not come were waited for.
    pub(super) fn tend_reservations(&mut self, now: Time) {
        let doubted = self.ends.doubt(now);
        self.reservations.tried.clear();
        let waits = |workload: &WorkloadIdx| self.waiting.contains(*workload);
        self.reservations.without.retain(|workload, _| waits(workload));
        if self.reservations.is_empty() {
            return;
        }
        let most = self.state.policy.reservations.map_or(0, |args| args.most as usize);
        let kept = self.reservations.kept.iter().map(|kept| kept.slot);
        let (stay, gone): (Vec<Slot>, Vec<Slot>) = kept.partition(|slot| self.still_waits(*slot));
        for slot in gone {
            self.reservations.give_up(slot.workload);
        }
        if std::mem::take(&mut self.reservations.unchecked) {
            for workload in self.too_many(&stay, most) {
                self.reservations.give_up(workload);
            }
        }
        self.reservations.kept.iter_mut().for_each(|kept| kept.looked_at = false);
        let Some(doubted) = doubted else { return };
        let concerned = self.reservations.kept.iter().filter(|it| it.slot.start >= doubted);
        let concerned: Vec<Slot> = concerned.map(|it| it.slot).collect();
        // Most starts need none of the room of who runs late.
        if concerned.is_empty() || self.all_come_in_time() {
            return;
        }
        self.rebuild_reservations();
        for slot in concerned {
            let kept = self.reservations.of(slot.workload);
            if kept.is_some_and(|start| start <= slot.start) {
                continue;
            }
            let broken = self.reservations.broken.entry(slot.workload).or_default();
            *broken += 1;
            if *broken > BROKEN_MAX {
                self.reservations.give_up(slot.workload);
            }
        }
    }

    /// Whether all reserved starts hold.
    fn all_come_in_time(&mut self) -> bool {
        let slots = self.slots(None);
        let ends = self.believed_for(&slots, None);
        self.play(&ends, &slots).is_ok()
    }

    /// A workload that was filed anew keeps its reservation only if it waits where it did.
    pub(super) fn give_up_stale_reservation(&mut self, workload: WorkloadIdx) {
        self.reservations.pools.forget(workload);
        let kept = self.reservations.kept.iter().find(|kept| kept.slot.workload == workload);
        if kept.is_some_and(|kept| !self.still_waits(kept.slot)) {
            self.reservations.give_up(workload);
        }
    }

    /// When an end will have been believed for long enough.
    pub(super) fn reservations_due(&self) -> Option<Time> {
        self.ends.doubted().filter(|_| !self.reservations.is_empty())
    }

    /// A head is refused, or `held` because it would delay another: its start is reserved if it can
    /// be told, and verified if it was.
    pub(crate) fn reserve(&mut self, entry: &Entry, held: bool) {
        self.reserve_if_told(entry, held);
        self.give_up_behind(entry);
    }

    fn reserve_if_told(&mut self, entry: &Entry, held: bool) {
        let (queue, workload) = (entry.queue, entry.workload);
        let reserves = self.state.policy.reservations.is_some();
        if reserves && self.reservations.of(workload).is_some() {
            return self.look_at_reservation(workload);
        }
        // Where no end is known no start can be, and no bound is the reason.
        let Some(most) = self.most_reserved() else {
            return self.note_without(workload, queue, None);
        };
        if !self.may_be_reserved(entry, held) {
            return;
        }
        let tried = self.reservations.tried.get(&queue).map_or(0, Vec::len);
        if tried >= TRIED_MAX || self.counts.forecasts >= FORECASTS_MAX {
            return self.note_behind(workload, queue);
        }
        let who = Starter { in_turn: true, ..self.starter(entry) };
        let instead = match self.instead_of_whom(&who, most as usize) {
            Ok(instead) => instead,
            Err(full) => {
                let why = full.then_some(Unreserved::Limit { most });
                return self.note_without(workload, queue, why);
            }
        };
        let mine = self.slots_near(workload);
        let ends = self.believed_for(&mine, Some(workload));
        if self.play(&ends, &mine).is_err() {
            self.rebuild_reservations();
        }
        let Found { slot, asks, behind } = match self.find_start(&who, instead) {
            Ok(found) => found,
            Err(why) => {
                self.reservations.tried.entry(queue).or_default().push(workload);
                return self.note_without(workload, queue, why);
            }
        };
        self.reservations.without.remove(&workload);
        if let Some(instead) = instead {
            self.reservations.give_up(instead);
        }
        self.reservations.kept.push(Reservation { slot, looked_at: true });
        self.reservations.asked.insert(workload, asks);
        self.note_promised(workload, slot.start);
        self.note_keepers(workload);
        self.sort_reservations();
        self.mark(workload);
        if behind {
            self.rebuild_reservations();
        }
    }

    /// How many starts may be reserved of those who compete, if any can be told: some end is known.
    fn most_reserved(&self) -> Option<u32> {
        let args = self.state.policy.reservations.filter(|_| !self.ends.is_empty());
        args.map(|args| args.most)
    }

    /// Whether a head that is refused, or `held`, waits for the end of others, and its start was
    /// not put off too often.
    fn may_be_reserved(&self, entry: &Entry, held: bool) -> bool {
        let waits = held || entry.choice.reason.as_ref().is_some_and(waits_for_others);
        let broken = self.reservations.broken.get(&entry.workload).copied().unwrap_or(0);
        waits && broken <= BROKEN_MAX
    }

    /// Who loses its reserved start if somebody has one: the head of the same queue, as each queue
    /// has one, or where there are as many as there may be the last of those who compete with it.
    /// Nobody has one at the cost of who goes before it: whether there are too many.
    fn instead_of_whom(&mut self, who: &Starter, most: usize) -> Result<Option<WorkloadIdx>, bool> {
        let (queue, workload) = (who.queue, who.workload);
        let same = self.reservations.kept.iter().find(|kept| kept.slot.queue == queue);
        if let Some(same) = same.map(|kept| kept.slot.workload) {
            let order = |workload| self.head_order(queue, workload);
            return if order(same) <= order(workload) { Err(false) } else { Ok(Some(same)) };
        }
        if self.reservations.kept.len() < most {
            return Ok(None);
        }
        let rivals = self.rivals(workload);
        if rivals.len() < most {
            return Ok(None);
        }
        let reserved = self.reservations.kept.iter().map(|kept| kept.slot);
        let rivals = reserved.filter(|slot| rivals.contains(&slot.workload));
        let standing = |slot: &Slot| self.standing_of(&self.starter_at(slot));
        let last = rivals.max_by(|a, b| standing(a).cmp(&standing(b)));
        let last = last.filter(|last| self.standing_of(who) < standing(last));
        last.map(|last| Some(last.workload)).ok_or(true)
    }

    /// A head has no reservation, because of this bound, or of none.
    fn note_without(
        &mut self,
        workload: WorkloadIdx,
        queue: Option<QueueIdx>,
        why: Option<Unreserved>,
    ) {
        let before = match why {
            Some(why) => self.reservations.without.insert(workload, (queue, why)),
            None => self.reservations.without.remove(&workload),
        };
        if before.map(|(_, before)| before) != why {
            self.mark(workload);
        }
    }

    /// Reserved starts, but for one, of those whom somebody does not go before, and with whom it
    /// competes, and whether there are others: they give way, wherever they wait. Among equals
    /// whoever was promised a start keeps it.
    fn slots_before(&mut self, who: &Starter, except: Option<WorkloadIdx>) -> (Vec<Slot>, bool) {
        let mut slots = self.slots_near(who.workload);
        slots.retain(|slot| Some(slot.workload) != except);
        let before = self.may_not_delay(who, &slots);
        let behind = before.len() < slots.len();
        (before, behind)
    }

    /// Verifies the start of a head that is looked at again, and moves it to an earlier time if
    /// there is one.
    fn look_at_reservation(&mut self, workload: WorkloadIdx) {
        let mut kept = self.reservations.kept.iter_mut();
        let kept = kept.find(|kept| kept.slot.workload == workload).expect("it has one");
        let (slot, looked_at) = (kept.slot, std::mem::replace(&mut kept.looked_at, true));
        if !self.note_keepers(workload) && looked_at {
            return;
        }
        let start = slot.start.max(self.state.now);
        let who = Starter { in_turn: true, ..self.starter_at(&slot) };
        let (others, behind) = self.slots_before(&who, None);
        let ends = self.believed_for(&others, Some(workload));
        let Some(terms) = self.fits_at(&ends, &others, &who, start) else {
            return self.rebuild_reservations();
        };
        let sooner = self.sooner(&who, &others, start);
        let soonest = sooner.unwrap_or((start, terms.borrowing));
        self.put_at(workload, soonest);
        // It may have taken the room of one that stands behind it.
        self.reservations.doubtful |= behind && soonest.0 < start;
    }

    /// The first time before a start at which somebody fits into a timetable, and borrows no
    /// further than it may, if it does at the last of them, or at the last before others of it
    /// start, who take what is free until then. Where it borrows further more go before it, who
    /// might put it off beyond the start that it has: that is not given away.
    fn sooner(&mut self, who: &Starter, slots: &[Slot], start: Time) -> Option<(Time, u32)> {
        let ends = self.believed_for(slots, Some(who.workload));
        let times = self.times(&ends, slots, who.queue);
        let before = |bound: Time| &times[..times.partition_point(|time| *time < bound)];
        let others = slots.first().map_or(start, |first| first.start.min(start));
        let mut tries = vec![before(start), before(others)];
        tries.dedup_by_key(|tried| tried.len());
        tries.into_iter().find_map(|sooner| {
            let last = *sooner.last()?;
            let then = self.fits_at(&ends, slots, who, last)?;
            let first = self.earliest(&ends, slots, who, sooner);
            let (at, terms) = first.unwrap_or((last, then));
            Some((at, terms.borrowing))
        })
    }

    /// Finds every start anew that does not hold, in the order of heads. Who has to borrow further
    /// than it was to is looked at again in the place that it has then.
    pub(crate) fn rebuild_reservations(&mut self) {
        let now = self.state.now;
        let kept = self.reservations.kept.iter().map(|kept| kept.slot);
        let mut order: Vec<Slot> = kept.collect();
        let waits = |slot: &Slot| self.waiting.contains(slot.workload);
        order.retain(|slot| self.state.workloads.get(slot.workload).is_some() && waits(slot));
        order.iter_mut().for_each(|slot| slot.start = slot.start.max(now));
        self.sort_last_first(&mut order);
        let mut slots: Vec<Slot> = Vec::new();
        while let Some(slot) = order.pop() {
            let near = self.slots_near(slot.workload);
            let is_near = |slot: &&Slot| near.iter().any(|it| it.workload == slot.workload);
            let before: Vec<Slot> = slots.iter().filter(is_near).copied().collect();
            match self.start_behind(&before, slot) {
                Some((_, borrowing)) if borrowing > slot.borrowing => {
                    order.push(Slot { borrowing, ..slot });
                    self.sort_last_first(&mut order);
                }
                Some((start, borrowing)) => {
                    self.put_in(&mut slots, Slot { start, borrowing, ..slot });
                    self.put_at(slot.workload, (start, borrowing));
                }
                None => {
                    self.reservations.give_up(slot.workload);
                    self.mark(slot.workload);
                }
            }
        }
    }

    /// The last in the order of heads first.
    fn sort_last_first(&self, slots: &mut [Slot]) {
        slots.sort_by_cached_key(|slot| Reverse(self.standing_of(&self.starter_at(slot))));
    }

    /// When a head starts behind others: as it was to, or later. If only borrowing further than it
    /// was to, how far: then more go before it.
    fn start_behind(&mut self, before: &[Slot], slot: Slot) -> Option<(Time, u32)> {
        let (known, own) = (slot.start, self.starter_at(&slot));
        let anyhow = Starter { most: u32::MAX, ..own.clone() };
        let ends = self.believed_for(before, Some(slot.workload));
        for who in [&own, &anyhow] {
            if let Some(terms) = self.fits_at(&ends, before, who, known) {
                return Some((known, terms.borrowing));
            }
        }
        let times = self.times(&ends, before, slot.queue);
        let later = &times[times.partition_point(|time| *time <= known)..];
        let found = self.earliest(&ends, before, &anyhow, later)?;
        let found = match found.1.borrowing <= slot.borrowing {
            true => found,
            false => self.earliest(&ends, before, &own, later).unwrap_or(found),
        };
        Some((found.0, found.1.borrowing))
    }

    /// Finds starts anew that do not hold any more, if somebody was settled who went before them.
    pub(crate) fn verify_reservations(&mut self) {
        if !std::mem::take(&mut self.reservations.doubtful) || self.reservations.is_empty() {
            return;
        }
        self.counts.forecasts += 1;
        if !self.all_come_in_time() {
            self.rebuild_reservations();
        }
    }

    /// What holds a group of equals for a reserved start, told of one of them: they may run for
    /// different times.
    pub(super) fn of_itself(&self, index: WorkloadIdx, why: Reason) -> Reason {
        match why {
            Reason::Reserved { head, queue, start, .. } => {
                Reason::Reserved { head, queue, start, runs: self.run_time(index) }
            }
            other => other,
        }
    }

    /// A start is another, or its queue borrows further for it, or less far.
    fn put_at(&mut self, workload: WorkloadIdx, (start, borrowing): (Time, u32)) {
        let mut kept = self.reservations.kept.iter_mut();
        let Some(kept) = kept.find(|kept| kept.slot.workload == workload) else { return };
        kept.slot.borrowing = borrowing;
        if kept.slot.start == start {
            return;
        }
        // Who ends in between may pass now.
        self.reservations.moved |= kept.slot.start < start;
        kept.slot.start = start;
        self.note_promised(workload, start);
        self.sort_reservations();
        self.mark(workload);
        self.restate(workload, start);
    }

    /// Remembers the first start that a head was promised.
    fn note_promised(&mut self, workload: WorkloadIdx, start: Time) {
        if self.state.quota.shares_fairly() {
            let first = self.reservations.promised.entry(workload).or_insert(start);
            *first = start.min(*first);
        }
    }

    fn sort_reservations(&mut self) {
        let uid = |slot: &Slot| self.state.workloads.get(slot.workload).map(|it| &it.uid);
        self.reservations
            .kept
            .sort_by(|a, b| (a.slot.start, uid(&a.slot)).cmp(&(b.slot.start, uid(&b.slot))));
    }

    /// Reserved starts in order, but for one; those that have passed are due now.
    pub(crate) fn slots(&self, except: Option<WorkloadIdx>) -> Vec<Slot> {
        let kept = self.reservations.kept.iter().map(|kept| kept.slot);
        let others = kept.filter(|slot| Some(slot.workload) != except);
        let waits = others.filter(|slot| self.waiting.contains(slot.workload));
        waits.map(|slot| Slot { start: slot.start.max(self.state.now), ..slot }).collect()
    }
}

/// Whether the end of other work could help: it lacks quota or room, and not more than there is.
fn waits_for_others(reason: &Reason) -> bool {
    match obstacles::told(reason) {
        Reason::Nodes(_) | Reason::Topology(_) | Reason::Together { .. } => true,
        Reason::Flavors { tried, .. } => tried.iter().any(|refusal| {
            !matches!(
                refusal.why,
                FlavorProblem::ExceedsMax { .. }
                    | FlavorProblem::PriceUnknown { .. }
                    | FlavorProblem::Taint { .. }
                    | FlavorProblem::Affinity
                    | FlavorProblem::Level { .. }
            )
        }),
        _ => false,
    }
}
