//! How long work says that it runs, and when what runs is to end.
//!
//! A run time is declared (`capstan.sh/expected-runtime`), bounded (`capstan.sh/max-runtime`, at
//! which work is stopped), or learned from runs before it. An end is believed until some time after
//! it has passed; from then on the work counts as any other that says nothing, so what waits for it
//! is never misled twice. Kept for work that holds places; filed with the workload. Who goes member
//! by member, or after its owner, is to end when it was to.
//!
//! What is declared is how long each pod runs. A gang whose Job makes others in place of its pods
//! that end well goes on with them, whoever's start is due: it runs as long as all of them do in
//! turn. A Job that runs one pod at a time waits anew with each, and what is no gang with any.
//!
//! Who is being stopped leaves now, however long it was to run, and is believed to for a while, as
//! others are. Who was promised what its victims leave runs, as far as others can tell, from when
//! that was, in the places that it claims: once it runs its end is known anew. So a start that was
//! found behind both is not lost while they change places.
//!
//! Restart: declared ends are facts (when pods were bound, what they declare); who was being
//! stopped is believed to leave once somebody claims that. Cost: one entry for each workload that
//! holds places and says how long, or leaves; others cost a look at their first member.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::engine::reservations::timetable::Slot;
use crate::engine::waiting::RunTime;
use crate::model::claim::Claim;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, Text};
use crate::model::workload::{QueueRef, Workload};
use crate::plan::State;
use crate::time::{Span, Time};

/// Ends of a pool looked at, soonest first: as many as a forecast can take away a dozen times in a
/// moment.
const ENDS_MAX: usize = 2_048;

/// An end is believed for this part of the run time after it has passed.
const LATE_PART: i64 = 10;
/// At least so long: pods start later than they are bound, and are seen to end later than they do.
const LATE_LEAST: Span = Span::minutes(1);
/// At most so long.
const LATE_MOST: Span = Span::minutes(60);

/// When a workload is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    at: Time,
    /// Believed until then.
    until: Time,
    /// It is being stopped, and says nothing of how long it runs.
    leaves: bool,
}

impl End {
    /// Of work that runs for so long at most and is to end then.
    fn of_run(at: Time, longest: Span) -> End {
        let late = Span((longest.0 / LATE_PART).clamp(LATE_LEAST.0, LATE_MOST.0));
        End { at, until: at.plus(late), leaves: false }
    }

    /// Of work that is being stopped.
    fn of_stop(now: Time) -> End {
        End { at: now, until: now.plus(LATE_LEAST), leaves: true }
    }
}

/// Ends of all work that holds places and says how long it runs.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    of: BTreeMap<WorkloadIdx, (End, Text)>,
    /// By when it is to end, then uid.
    in_order: BTreeSet<(Time, Text, WorkloadIdx)>,
    /// By until when that is believed.
    by_doubt: BTreeSet<(Time, WorkloadIdx)>,
    /// How many of them are of work that is being stopped.
    leaving: usize,
}

impl Ends {
    /// Whether nobody says when it ends; who is being stopped says nothing.
    pub fn is_empty(&self) -> bool {
        self.of.len() == self.leaving
    }

    /// All of them, soonest first, those that have passed and did not come among them.
    pub fn soonest_first(&self) -> impl Iterator<Item = (Time, WorkloadIdx)> + '_ {
        self.in_order.iter().map(|(at, _, workload)| (*at, *workload))
    }

    /// When a workload is to end, if that is believed; not of who is being stopped.
    pub fn believed(&self, workload: WorkloadIdx) -> Option<Time> {
        let (end, _) = self.of.get(&workload)?;
        (!end.leaves).then_some(end.at)
    }

    /// Whether a workload is being stopped and believed to leave.
    fn leaves(&self, workload: WorkloadIdx) -> bool {
        self.of.get(&workload).is_some_and(|(end, _)| end.leaves)
    }

    /// Whether there are more than are looked at.
    pub fn are_many(&self) -> bool {
        self.of.len() > ENDS_MAX
    }

    /// The end of a workload, by its uid, is another, or none any more.
    fn set(&mut self, workload: WorkloadIdx, end: Option<(End, Text)>) {
        if let Some((before, uid)) = self.of.remove(&workload) {
            self.in_order.remove(&(before.at, uid, workload));
            self.by_doubt.remove(&(before.until, workload));
            self.leaving -= usize::from(before.leaves);
        }
        if let Some((end, uid)) = end {
            self.in_order.insert((end.at, uid.clone(), workload));
            self.by_doubt.insert((end.until, workload));
            self.leaving += usize::from(end.leaves);
            self.of.insert(workload, (end, uid));
        }
    }

    /// When the next end stops being believed.
    pub fn doubted(&self) -> Option<Time> {
        self.by_doubt.first().map(|(until, _)| *until)
    }

    /// Believes ends no longer that passed too long ago; the earliest of them.
    pub fn doubt(&mut self, now: Time) -> Option<Time> {
        let mut earliest: Option<Time> = None;
        while let Some((until, workload)) = self.by_doubt.first().copied()
            && until <= now
        {
            let at = self.of[&workload].0.at;
            earliest = Some(earliest.map_or(at, |known| known.min(at)));
            self.set(workload, None);
        }
        earliest
    }
}

impl Engine {
    /// Files when a workload is to end; one that is gone, or holds nothing, has no end.
    pub(crate) fn file_end(&mut self, workload: WorkloadIdx) {
        self.learn_from(workload);
        if self.ends.of.is_empty() && self.state.policy.reservations.is_none() {
            return;
        }
        let end = self.end_of(workload).or_else(|| self.end_as_before(workload));
        self.set_end(workload, end);
    }

    /// Files that a workload is being stopped, or that somebody counts on that.
    pub(crate) fn file_leaving(&mut self, workload: WorkloadIdx) {
        if self.state.policy.reservations.is_some() && !self.ends.leaves(workload) {
            self.set_end(workload, Some(End::of_stop(self.state.now)));
        }
    }

    fn set_end(&mut self, workload: WorkloadIdx, end: Option<End>) {
        let end = end.filter(|end| end.until > self.state.now);
        let end = end.map(|end| (end, self.state.workloads[workload].uid.clone()));
        self.ends.set(workload, end);
    }

    /// Work that goes, member by member, or whose owner went first, ends no later than it was to,
    /// and what is being stopped leaves now, or since it was seen to be: that is not said twice.
    /// Else a start that waits for it would be unknown for that moment, and others would take what
    /// it leaves.
    fn end_as_before(&self, workload: WorkloadIdx) -> Option<End> {
        let (end, _) = self.ends.of.get(&workload)?;
        let entry = self.state.workloads.get(workload)?;
        match (entry.state, end.leaves) {
            (State::Evicting, true) => return Some(*end),
            (State::Evicting, false) => return Some(End::of_stop(self.state.now)),
            // It stays after all.
            (_, true) | (State::Finished, false) => return None,
            (_, false) => {}
        }
        let placed = self.state.placed(workload).count();
        let owned = matches!(entry.id.key, GangKey::Owner(..));
        let ownerless = owned && self.state.owner_of(workload).is_none();
        let in_part = placed < entry.min_member as usize;
        (placed > 0 && (ownerless || in_part)).then_some(*end)
    }

    fn end_of(&self, workload: WorkloadIdx) -> Option<End> {
        self.state.policy.reservations?;
        let entry = self.state.workloads.get(workload)?;
        if matches!(entry.state, State::Evicting | State::Finished) {
            return None;
        }
        let held = entry.assignment.as_ref().map(|held| held.at);
        if let Some(claim) = self.state.claims.get(workload).filter(|_| held.is_none()) {
            return self.promised_end(entry, claim);
        }
        let learned = self.learned_run(workload);
        let (mut at, mut longest, mut members) = (Time::MIN, Span(0), 0);
        // What is learned of work that makes pods in turn is of all of them.
        let in_turn = || self.state.owner_of(workload).is_some_and(|owner| owner.replaces > 0);
        let first = learned.and_then(|_| self.learned.begun(workload)).filter(|_| in_turn());
        for pod in self.state.placed(workload) {
            let declared = self.member_runs(entry, pod);
            let runs = declared.or(learned)?;
            let begun = self.begun(workload, pod)?;
            let first = first.filter(|_| declared.is_none());
            let begun = first.map_or(begun, |first| first.min(begun));
            (at, longest) = (at.max(begun.plus(runs)), longest.max(runs));
            members += 1;
        }
        // One that waits for the rest has not begun.
        if members == 0 || members < entry.min_member {
            return None;
        }
        Some(End::of_run(self.last_end(workload, at), longest))
    }

    /// When a member with a place began, or begins: who follows others of its gang does now, and so
    /// does who joins those that are bound.
    fn begun(&self, workload: WorkloadIdx, pod: PodIdx) -> Option<Time> {
        let (entry, member) = (&self.state.workloads[workload], &self.state.pods[pod]);
        if member.bound_at.is_some() && !member.kept() {
            return member.bound_at;
        }
        let first = entry.members.first().map(|first| &self.state.pods[*first]);
        let joins = first.is_some_and(|first| first.place.is_some() && first.bound_at.is_some());
        let now = if member.kept() { entry.between } else { joins };
        let held = entry.assignment.as_ref().map(|held| held.at);
        now.then_some(self.state.now).or(member.bound_at).or(held)
    }

    /// When work ends whose members with places end by then: with the last of those that stand in
    /// for them, and no later than it may run.
    pub(in crate::engine) fn last_end(&self, workload: WorkloadIdx, at: Time) -> Time {
        let placed = self.state.placed(workload).count() as u32;
        let others = self.stand_ins(workload, placed);
        if others == 0 {
            return at;
        }
        let entry = &self.state.workloads[workload];
        let held = entry.assignment.as_ref().map(|held| held.at);
        let (mut ends, mut longest) = (Vec::new(), Span(0));
        for pod in self.state.placed(workload) {
            let begun = self.begun(workload, pod);
            let Some((begun, runs)) = begun.zip(self.member_runs(entry, pod)) else { return at };
            ends.push(begun.plus(runs));
            longest = longest.max(runs);
        }
        let last = end_of_all(ends, others, longest).map_or(at, |last| last.max(at));
        let over = held.zip(left_to_run(entry)).map(|(held, left)| held.plus(left));
        over.map_or(last, |over| last.min(over))
    }

    /// How many pods are made in place of members, of which so many run at once, with which their
    /// gang goes on without waiting anew; what is learned of a gang is of all of it.
    fn stand_ins(&self, workload: WorkloadIdx, at_once: u32) -> u32 {
        let entry = &self.state.workloads[workload];
        let queues = matches!(entry.queue, QueueRef::Queue(_));
        let goes_on = queues || entry.min_member > 1;
        let others = if goes_on { self.state.stand_ins(workload, at_once) } else { 0 };
        if others > 0 && self.is_learned(workload) { 0 } else { others }
    }

    /// How long a gang runs of which so many members do at once, each of them so long.
    fn with_stand_ins(&self, workload: WorkloadIdx, runs: Span, at_once: u32) -> Span {
        let others = self.stand_ins(workload, at_once);
        if others == 0 {
            return runs;
        }
        let turns = i64::from(others.div_ceil(at_once.max(1))) + 1;
        let all = Span(runs.0.saturating_mul(turns));
        left_to_run(&self.state.workloads[workload]).map_or(all, |left| all.min(left))
    }

    /// The end of work that waits for its victims, as if it ran since they were promised to it.
    fn promised_end(&self, entry: &Workload, claim: &Claim) -> Option<End> {
        let mut longest = Span(0);
        for (pod, _) in &claim.places.members {
            let workload = self.state.pods.get(*pod)?.workload?;
            let learned = || self.learned_run(workload);
            longest = longest.max(self.member_runs(entry, *pod).or_else(learned)?);
        }
        let members = &claim.places.members;
        let of = members.first().and_then(|(pod, _)| self.state.pods.get(*pod)?.workload);
        let runs = of.map_or(longest, |of| self.with_stand_ins(of, longest, members.len() as u32));
        Some(End::of_run(claim.assignment.at.plus(runs), longest))
    }

    /// How long a waiting workload will run once it starts; `None`: nobody says.
    pub(crate) fn run_time(&self, workload: WorkloadIdx) -> Option<Span> {
        let entry = &self.state.workloads[workload];
        let mut longest = None;
        for pod in &entry.members {
            match self.member_runs(entry, *pod) {
                Some(runs) => longest = longest.max(Some(runs)),
                None => return self.learned_run(workload),
            }
        }
        let at_once: u32 = entry.sets.iter().map(|set| set.count).sum();
        longest.map(|runs| self.with_stand_ins(workload, runs, at_once))
    }

    /// Whether how long a workload runs is known from others that ran before it.
    pub(super) fn is_learned(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.state.workloads[workload];
        let says_nothing = |pod: &PodIdx| self.member_runs(entry, *pod).is_none();
        entry.members.iter().any(says_nothing)
    }

    /// The same as it is filed with what waits; unknown while nothing is reserved for anybody.
    pub(crate) fn filed_run_time(&self, workload: WorkloadIdx) -> RunTime {
        let known = self.state.policy.reservations.and_then(|_| self.run_time(workload));
        known.map_or(RunTime::UNKNOWN, RunTime::of)
    }

    /// How long a member runs: as it is declared, and no longer than it may.
    pub(in crate::engine) fn member_runs(&self, entry: &Workload, pod: PodIdx) -> Option<Span> {
        let declared = self.state.pods[pod].wishes.expected_runtime;
        let declared = declared.or(entry.wishes.expected_runtime);
        declared.into_iter().chain(left_to_run(entry)).min()
    }

    /// Ends that are believed, soonest first, of what these starts and this workload could use. One
    /// that has passed may come any moment. Of more than [`ENDS_MAX`] the last are left out.
    pub(crate) fn believed_for(
        &mut self,
        slots: &[Slot],
        who: Option<WorkloadIdx>,
    ) -> Vec<(Time, WorkloadIdx)> {
        self.ends_for(slots.iter().map(|slot| slot.workload).chain(who)).0
    }

    /// The same for some workloads, and how many ends were left out.
    pub(super) fn ends_for(
        &mut self,
        workloads: impl Iterator<Item = WorkloadIdx>,
    ) -> (Vec<(Time, WorkloadIdx)>, u32) {
        let now = self.state.now;
        let many = self.ends.are_many();
        let pool = many.then(|| self.pool_of_all(workloads));
        let counts = |workload: &WorkloadIdx| {
            let entry = self.state.workloads.get(*workload);
            let known =
                |entry: &Workload| entry.state != State::Evicting || self.ends.leaves(*workload);
            entry.is_some_and(known)
                && pool.as_ref().is_none_or(|pool| self.leaves_some_of(pool, *workload))
        };
        let all = self.ends.in_order.iter().filter(|(.., workload)| counts(workload));
        let mut all = all.map(|(at, _, workload)| ((*at).max(now), *workload));
        let ends: Vec<(Time, WorkloadIdx)> = all.by_ref().take(ENDS_MAX).collect();
        let left_out = all.count() as u32;
        (ends, left_out)
    }

    /// Compares the ends that are kept with those that facts show.
    ///
    /// # Panics
    /// When an end is kept of work that is gone, or stands in one order only.
    pub(crate) fn recount_ends(&self) {
        let (of, in_order) = (&self.ends.of, &self.ends.in_order);
        let all = (in_order.len(), self.ends.by_doubt.len());
        assert_eq!(all, (of.len(), of.len()), "ends in both orders");
        for (workload, (end, uid)) in of {
            assert!(in_order.contains(&(end.at, uid.clone(), *workload)), "ends in order");
            assert!(self.ends.by_doubt.contains(&(end.until, *workload)), "ends by doubt");
            assert!(self.state.workloads.get(*workload).is_some(), "an end of what is gone");
        }
        let leaving = of.values().filter(|(end, _)| end.leaves).count();
        assert_eq!(self.ends.leaving, leaving, "ends of who is being stopped");
    }
}

/// Until when work is believed to run that begins then, and for so long.
pub(super) fn believed_until(begins: Time, runs: Span) -> Time {
    End::of_run(begins.plus(runs), runs).until
}

/// How long work may still run, if that is bounded.
fn left_to_run(entry: &Workload) -> Option<Span> {
    let left = |most: Span| Span(most.0.saturating_sub(entry.requeue.ran().0).max(0));
    entry.wishes.max_runtime.map(left)
}

/// When the last of so many others ends that stand in for members which end then, each of them for
/// whoever has ended first, and run so long; `None`: there are no members.
fn end_of_all(mut ends: Vec<Time>, others: u32, runs: Span) -> Option<Time> {
    ends.sort_unstable();
    let at_once = u32::try_from(ends.len()).ok().filter(|members| *members > 0)?;
    let after = |end: &Time, turns: u32| end.plus(Span(runs.0.saturating_mul(turns.into())));
    let (turns, more) = (others / at_once, others % at_once);
    let last = ends.last().map(|end| after(end, turns));
    // Some of those who end first are followed by one more.
    let late = more.checked_sub(1).and_then(|at| ends.get(at as usize));
    last.max(late.map(|end| after(end, turns + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_stand_in_for_whoever_ends_first() {
        let end = |ends: &[i64], others: u32| {
            let ends = ends.iter().map(|at| Time(*at)).collect();
            end_of_all(ends, others, Span(10)).map(|end| end.0)
        };
        assert_eq!([0, 1, 2, 3].map(|others| end(&[12, 10], others)), [12, 20, 22, 30].map(Some));
        assert_eq!(end(&[19, 10], 1), Some(20), "the other one ends just before");
        assert_eq!((end(&[30, 10], 1), end(&[5], 3), end(&[], 3)), (Some(30), Some(35), None));
    }

    fn end(at: i64, until: i64) -> Option<(End, Text)> {
        Some((End { at: Time(at), until: Time(until), leaves: false }, "uid".into()))
    }

    #[test]
    fn who_is_being_stopped_says_nothing_of_when_it_ends() {
        let (mut ends, workload) = (Ends::default(), WorkloadIdx::FIRST);
        let leaves = End::of_stop(Time(10));
        ends.set(workload, Some((leaves, "uid".into())));
        assert!(ends.is_empty() && ends.leaves(workload));
        assert_eq!(ends.doubted(), Some(Time(10).plus(LATE_LEAST)));
        ends.set(workload, end(30, 40));
        assert!(!ends.is_empty() && !ends.leaves(workload));
        ends.set(workload, Some((leaves, "uid".into())));
        ends.set(workload, None);
        assert_eq!((ends.of.len(), ends.leaving), (0, 0));
    }

    #[test]
    fn an_end_that_passed_too_long_ago_is_forgotten() {
        let mut ends = Ends::default();
        let workload = WorkloadIdx::FIRST;
        ends.set(workload, end(10, 20));
        assert_eq!((ends.doubted(), ends.doubt(Time(19))), (Some(Time(20)), None));
        ends.set(workload, end(30, 40));
        assert_eq!(ends.doubted(), Some(Time(40)), "the earlier one is replaced");
        assert_eq!(ends.doubt(Time(40)), Some(Time(30)));
        assert!(ends.is_empty() && ends.in_order.is_empty() && ends.by_doubt.is_empty());
    }
}
