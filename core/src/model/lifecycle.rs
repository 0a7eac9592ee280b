//! What state a workload is in, from what its members and its owner show.
//!
//! The engine is in the middle of some states (`Reserved`, `Resuming`, `Preparing`); those stay
//! until facts say otherwise. Everything else is derived, so that a new engine finds the same.
//!
//! | state | derived from |
//! |---|---|
//! | Gathering, Queued | no placed member |
//! | Resuming | an owner resumed a moment ago that has no pods yet: places are kept for them |
//! | Binding | some members placed, fewer than must run together, or places kept for some that a |
//! | | resumed owner has still to make at once; quota is kept for the others |
//! | Running | at least the minimum placed |
//! | Evicting | marked members (of no stop that was refused) or a marked owner, while anything |
//! | | is placed |
//! | Finished | the owner is done, or every member ended |

use crate::explain::reason::Reason;
use crate::model::ids::WorkloadIdx;
use crate::model::input::{GangKey, PodPhase};
use crate::model::pod::Binding;
use crate::model::state::ClusterState;
use crate::model::workload::Run;
use crate::plan::State;
use crate::time::Time;

/// What members show.
#[derive(Default)]
struct Seen {
    /// How many can still be part of their gang.
    active: u32,
    /// How many have a place.
    placed: u32,
    /// How many of those exist: the other places are kept for pods that are still to be made.
    made: u32,
    /// Some are being bound.
    flying: bool,
    /// Some that exist wait for a place.
    waits: bool,
    /// How many have none, and gates.
    gated: u32,
    /// How many have started and not ended.
    started: u32,
    /// How many of those are ready.
    ready: u32,
}

impl ClusterState {
    /// Derives the state of one workload again after the engine changed what it holds.
    pub fn keep_state(&mut self, workload: WorkloadIdx) {
        self.derive_state(workload);
        self.note_began(workload);
    }

    /// State from facts, unless the engine is in the middle of something.
    pub(super) fn derive_state(&mut self, workload: WorkloadIdx) {
        let entry = &self.workloads[workload];
        let Seen { active, placed, made, flying, waits, started, ready, .. } = self.seen(workload);
        let finished = self.owner_of(workload).is_some_and(|owner| owner.finished.is_some());
        let marked = self.eviction_of(workload);
        let was = entry.state;
        let need = entry.min_member;
        // What comes late is waited for by nobody who looks whether the others run.
        let (kept, later) = if entry.late { (false, placed - made) } else { (placed > made, 0) };
        let over = if placed >= need { self.too_many_told(workload) } else { None };
        let in_part = placed > 0 && placed < need;
        let lacking = if in_part { self.members_lacking(workload) } else { 0 };
        let lacks = in_part && !flying && !waits && lacking > 0;
        let gathers = || {
            let (exist, gated) = self.there(workload);
            exist - gated < need || self.lacking_role(workload).is_some()
        };
        let state = match () {
            () if finished || active == 0 => State::Finished,
            () if marked && placed > 0 => State::Evicting,
            () if was == State::Resuming && placed > 0 => State::Resuming,
            () if was == State::Preparing && placed > 0 && flying => State::Preparing,
            () if placed > 0 && (flying || in_part || kept) => State::Binding,
            () if placed > 0 => State::Running,
            () if was == State::Reserved => State::Reserved,
            () if gathers() => State::Gathering,
            () => State::Queued,
        };
        if placed == 0 {
            self.give_up_quota(workload, (marked, state == State::Finished));
        }
        let whole = need.min(placed.saturating_add(lacking)).saturating_sub(later);
        let followed = self.followed(workload);
        let gathers = (state == State::Gathering).then(|| self.gathering(workload));
        let there = lacks.then(|| self.made(workload));
        let entry = &mut self.workloads[workload];
        // All have left: members that are made again are not on their way out. An owner's next run
        // is another workload.
        if placed == 0 && entry.owner.is_none() {
            (entry.evicting, entry.stop_asked, entry.stop_refused) = (None, false, None);
        }
        entry.state = match state {
            State::Resuming if !kept => State::Binding,
            state => state,
        };
        if entry.state == State::Running {
            entry.requeue.failures = 0;
        }
        entry.started = entry.state == State::Running && started >= need.saturating_sub(later);
        entry.note_whether_up(placed, ready.saturating_add(followed) >= whole, self.now);
        let extras = matches!(entry.reason, Some(Reason::Extras { .. }));
        match entry.state {
            State::Running | State::Binding if extras && waits && placed >= need => {}
            State::Running | State::Binding if over.is_some() => entry.reason = over,
            State::Gathering => entry.reason = gathers,
            _ if extras => entry.reason = None,
            State::Queued if entry.reason.as_ref().is_some_and(Reason::gathers) => {
                entry.reason = None;
            }
            State::Running | State::Finished => entry.reason = None,
            State::Binding if placed >= need => entry.reason = None,
            State::Binding if lacks => {
                let (exist, gated) = there.unwrap_or_default();
                let then = Some(Box::new(missing(exist, gated, need)));
                entry.reason = Some(Reason::Incomplete { have: made, need, then });
            }
            _ => {}
        }
        self.note_in_part(workload, in_part.then_some(waits && state != State::Evicting));
    }

    /// Notes work that has ended, of which it is known what it was before. Where we stopped it no
    /// member is active in the end, too; that is no end.
    pub(super) fn note_end(&mut self, workload: WorkloadIdx, was: State) {
        let entry = &self.workloads[workload];
        if entry.state != State::Finished || was == State::Finished {
            return;
        }
        let finished = self.owner_of(workload).is_some_and(|owner| owner.finished.is_some());
        let stopped = was == State::Evicting && !finished;
        if !stopped && !self.goes_on(&entry.id.key) {
            self.turns.ended(&entry.full_name);
        }
    }

    /// Whether work has an owner that makes pods of it again, whatever happens to those of a run.
    pub(crate) fn goes_on(&self, key: &GangKey) -> bool {
        let GangKey::Owner(uid, _) = key else { return false };
        self.owners.get(uid).is_some_and(|owner| owner.finished.is_none())
    }

    /// Members of a Job that ended well and that others follow: they came up, and those may take
    /// their time, as Kueue has it.
    fn followed(&self, workload: WorkloadIdx) -> u32 {
        let owner = self.owner_of(workload).filter(|owner| owner.replaces > 0);
        owner.map_or(0, |owner| owner.replaces.min(self.ended_of(workload, owner).0))
    }

    /// What the members of a workload show: one look at each.
    fn seen(&self, workload: WorkloadIdx) -> Seen {
        let mut seen = Seen::default();
        for pod in self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]) {
            let (placed, kept) = (pod.place.is_some(), pod.kept());
            seen.active += u32::from(pod.counts());
            seen.placed += u32::from(placed);
            seen.made += u32::from(placed && !kept);
            seen.flying |= matches!(pod.binding, Binding::InFlight(_));
            seen.waits |= !kept && pod.needs_place();
            seen.gated += u32::from(!placed && pod.gated && pod.counts());
            seen.started += u32::from(pod.phase.runs());
            seen.ready += u32::from(pod.phase == PodPhase::Running);
        }
        seen
    }

    /// A workload has no place any more. How long it held quota is counted, unless it was stopped:
    /// then it was counted when that began. It is noted when that was if it had started, or ended.
    fn give_up_quota(&mut self, workload: WorkloadIdx, (stopped, ended): (bool, bool)) {
        if self.workloads[workload].assignment.is_none() {
            return;
        }
        let held = self.set_assignment(workload, None).filter(|_| !stopped);
        if let Some(held) = held {
            let (now, entry) = (self.now, &mut self.workloads[workload]);
            let started = ended || entry.run == Run::Ready;
            entry.requeue.held_for(now.since(held.at), started.then_some(now));
        }
    }

    /// Since when a workload has been in part, if it is, and whether members of it wait; those that
    /// come after all was done count from now on, and so do those whose gates were taken away.
    fn note_in_part(&mut self, workload: WorkloadIdx, in_part: Option<bool>) {
        let gates = in_part.is_some() && self.lacks_only_gated(workload);
        let had_gates = std::mem::replace(&mut self.workloads[workload].gates, gates);
        let Some(waits) = in_part else {
            self.in_part.remove(&workload);
            return;
        };
        let since = self.in_part.entry(workload).or_insert(Some(self.now));
        if gates || had_gates || since.is_none() && waits {
            *since = Some(self.now);
        }
    }

    /// Whether all that a workload in part lacks for its minimum are members that have gates: those
    /// apart for which places are kept on nodes.
    fn lacks_only_gated(&self, workload: WorkloadIdx) -> bool {
        let (seen, lacking) = (self.seen(workload), self.members_lacking(workload));
        let gated = seen.gated.saturating_sub(seen.placed - seen.made);
        lacking > 0 && !seen.waits && gated >= lacking
    }

    /// Since when a workload has been in part, as far as that counts: not while all that it lacks
    /// has gates.
    pub(crate) fn in_part_since(&self, workload: WorkloadIdx) -> Option<Time> {
        let since = self.in_part.get(&workload).copied().flatten();
        since.filter(|_| !self.workloads[workload].gates)
    }

    /// Why fewer members than the minimum could run: some have gates, or do not exist.
    pub(crate) fn gathering(&self, workload: WorkloadIdx) -> Reason {
        if let Some(why) = self.all_surplus(workload) {
            return why;
        }
        let (exist, gated) = self.there(workload);
        let entry = &self.workloads[workload];
        let need = entry.min_member;
        match exist - gated < need {
            // A place is no pod: those that come late are not there.
            true if entry.late => missing(self.made(workload).0, gated, need),
            true => missing(exist, gated, need),
            false => self.lacking_role(workload).unwrap_or(missing(exist, gated, need)),
        }
    }

    /// Whether the API shows that a workload is being stopped by us.
    pub(super) fn eviction_of(&self, workload: WorkloadIdx) -> bool {
        self.workloads[workload].evicting.is_some()
            || self.marked_pod(workload)
            || self.owner_mark(workload).is_some()
    }

    /// Whether a member bears a mark of a stop that was not refused since.
    pub(crate) fn marked_pod(&self, workload: WorkloadIdx) -> bool {
        let entry = &self.workloads[workload];
        let mut members = entry.members.iter().map(|pod| &self.pods[*pod]);
        entry.stop_refused.is_none() && members.any(|pod| pod.eviction.is_some())
    }
}

/// Why fewer than the minimum could run, of so many members that exist, some of them with gates.
fn missing(exist: u32, gated: u32, need: u32) -> Reason {
    match gated {
        0 => Reason::Gathering { have: exist, need },
        pods => Reason::Gated { pods },
    }
}
