//! Claims with devices that nobody uses, and that keep their pods from where those fit.
//!
//! Problem: a claim stays allocated when its pod is not bound after all: an engine before this one
//! ended in between, somebody else took the node, or the last pod that used it was of another
//! scheduler. It says itself which nodes can use its devices, and where its pod does not fit on any
//! of them it waits for ever, though other nodes have such devices.
//!
//! Wanted: where nobody but pods of ours that wait has reserved such a claim, its devices go back
//! and it gets others, as with kube-scheduler where that is its pod alone. But only if that helps,
//! its pod or others (`idle_of_others`): kube-scheduler gives back what was among the reasons of a
//! refusal, and may find that nothing is won. Nobody is stopped for a place that idle claims stand
//! in the way of, nor are more where with other devices fewer would do. The same holds of what a
//! preemptor itself has reserved of a claim that others use, who could leave it: that goes back
//! before anybody is stopped.
//!
//! Phases: work was looked at in vain (or with victims) -> all idle claims of its members are taken
//! to have no devices, in a transaction that is set aside, and it is looked at again -> those
//! without which the same is found stay as they are -> the others are given back
//! (`engine/giving_back.rs`) -> once claims show that, it is looked at as any work.
//!
//! A claim that waits for devices to be made ready has its time for that (`engine/readiness.rs`).
//! There is no circle: what is given back has no devices until some pod that has a place gets them.
//!
//! Restart: claims show all of it. Cost: members' claims, for work that is looked at in vain; one
//! more look while some are idle, and up to [`TRIES_MAX`] more when something is given back.

use crate::cycle::{Entry, Verdict};
use crate::engine::Engine;
use crate::engine::giving_back::Due;
use crate::model::ids::{PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::{Readiness, ResourceClaimKey};
use crate::model::txn::Txn;
use crate::plan::Seen;
use crate::time::Time;

/// Claims of which it is tried whether they can keep what they have.
const TRIES_MAX: usize = 16;

impl Engine {
    /// Whether a head that does not fit as things are waits for claims of its members: some are on
    /// their way back, or go back now because without their devices it would fit, or for fewer
    /// victims.
    pub(super) fn waits_for_idle_claims(&mut self, now: Time, entry: &Entry) -> bool {
        let (queue, workload) = (entry.queue, entry.workload);
        let stops = match &entry.verdict {
            Verdict::Preempt(victims) => Some(victims.len()),
            Verdict::Fit | Verdict::Blocked | Verdict::NoFit => None,
        };
        if stops.is_some() {
            self.give_back_beside_users(now, workload);
            if self.gives_back(workload) {
                return true;
            }
        }
        if !self.asks_for_devices(workload) || self.kept_out(queue, workload).is_some() {
            return false;
        }
        let idle = self.idle_claims(workload);
        let helps = |engine: &mut Engine| engine.would_do(queue, workload, stops);
        if !idle.is_empty() && self.give_back_idle(now, workload, idle, helps) {
            return true;
        }
        let helps = |engine: &mut Engine| engine.would_start(queue, workload, stops);
        self.take_from_who_waits(now, workload, helps)
    }

    /// Members beside others of their gang find no place: claims of theirs go back if some would
    /// find one without, or those of others who wait.
    pub(super) fn give_back_of_members(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        missing: u32,
    ) {
        self.give_back_beside_users(now, workload);
        if groups.is_empty() || !self.asks_for_devices(workload) {
            return;
        }
        let helps = |engine: &mut Engine| match missing {
            0 => engine.would_join(workload, groups),
            missing => {
                engine.queueless(workload).is_none()
                    && engine.place_missing(workload, groups, missing, false)
            }
        };
        let idle = self.idle_claims(workload);
        if idle.is_empty() || !self.give_back_idle(now, workload, idle, helps) {
            self.take_from_who_waits(now, workload, helps);
        }
    }

    /// Whether members of work claim devices.
    pub(super) fn asks_for_devices(&self, workload: WorkloadIdx) -> bool {
        let room = &self.state.room;
        let claims = |shape| !room.shape(shape).facts.claims.is_empty();
        let sets = &self.state.workloads[workload].sets;
        room.devices.any_claims() && sets.iter().any(|set| claims(set.shape))
    }

    /// Whether work would find a place, for which fewer leave than so many, if anybody has to.
    fn would_do(
        &mut self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        stops: Option<usize>,
    ) -> bool {
        match self.nominate(queue, workload).verdict {
            Verdict::Fit => true,
            Verdict::Preempt(victims) => stops.is_none_or(|most| victims.len() < most),
            Verdict::Blocked | Verdict::NoFit => false,
        }
    }

    /// The same, if it would not be held for others whose start is reserved.
    fn would_start(
        &mut self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
        stops: Option<usize>,
    ) -> bool {
        let mut entry = self.nominate(queue, workload);
        let victims = match std::mem::replace(&mut entry.verdict, Verdict::NoFit) {
            Verdict::Fit => Vec::new(),
            Verdict::Preempt(victims) if stops.is_none_or(|most| victims.len() < most) => victims,
            _ => return false,
        };
        self.would_pass(&mut entry, &victims, self.state.now).is_some()
    }

    /// Claims of members that have devices for certain nodes only, and that nobody uses.
    pub(super) fn idle_claims(&self, workload: WorkloadIdx) -> Vec<Due> {
        self.to_give_back(workload, |_, has| {
            has.nodes.is_some() && has.readiness == Readiness::Ready
        })
    }

    /// Gives back those of these claims that have to have no devices for `helps` to hold; whether
    /// that are any.
    fn give_back_idle(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        mut due: Vec<Due>,
        mut helps: impl FnMut(&mut Engine) -> bool,
    ) -> bool {
        let all = due.iter().flat_map(|(_, claims)| claims).map(|claim| claim.key.clone());
        let mut freed: Vec<ResourceClaimKey> = all.collect();
        freed.sort();
        freed.dedup();
        if !self.holds_without(&freed, &mut helps) {
            return false;
        }
        let mut at = 0;
        for _ in 0..TRIES_MAX {
            if at >= freed.len() || freed.len() == 1 {
                break;
            }
            let kept = freed.remove(at);
            if !self.holds_without(&freed, &mut helps) {
                freed.insert(at, kept);
                at += 1;
            }
        }
        for (_, claims) in &mut due {
            claims.retain(|claim| freed.binary_search(&claim.key).is_ok());
        }
        due.retain(|(_, claims)| !claims.is_empty());
        self.give_claims_back(now, workload, due, |has| Seen::Idle(has.clone()));
        true
    }

    /// Whether something holds while these claims have no devices.
    pub(super) fn holds_without(
        &mut self,
        freed: &[ResourceClaimKey],
        holds: &mut impl FnMut(&mut Engine) -> bool,
    ) -> bool {
        let mut txn = Txn::begin(&mut self.state);
        freed.iter().for_each(|key| txn.free_claim(key));
        let aside = txn.set_aside();
        let found = holds(self);
        drop(Txn::take_up(&mut self.state, aside));
        found
    }
}
