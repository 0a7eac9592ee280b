//! Stops that were asked for, and what becomes of them.
//!
//! Problem: a stop is a request, and the API may refuse it (a policy, a webhook, a missing right).
//! A victim that stays was not stopped: nobody may count on its room, nothing may count it as
//! stopped, and who would choose it again in the next round would ask for ever.
//!
//! Wanted: whoever counted on it gives the claim up and waits, longer each time, as after a bind
//! that was refused, with the API's words as the reason; of those that would do, others are stopped
//! before it for a while (`victims::order`). A stop counts (for metrics, events, and how often work
//! was stopped) once it came about: the API answers that, or shows it. Where the stop of one member
//! is refused and the gang is to be stopped once more, late answers for the others, which are of
//! the first stop, say nothing of the second. A pod is marked before it is deleted, so its mark may
//! be seen after the refusal, until it is taken off again: by then marks mean nothing. Where what
//! an engine before this one marked loses its mark and stays, claims that name it are given up,
//! too. Who was to leave its gang by itself is a member again once facts name that gang for it:
//! until then, and where it bears the mark, it goes on as a pod of its own.
//!
//! Restart: refusals and pauses are forgotten. A mark that stayed behind is taken for a stop that
//! was begun, which is asked for once more ([`super::evictions`]).
//!
//! Cost: an entry for each stop until it is answered; one look at each workload that changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::Engine;
use crate::explain::milestone::{Stop, Whose};
use crate::model::apply::Changes;
use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
use crate::plan::{EffectId, EffectResult, OwnerRef, Preemption, State};
use crate::time::Time;

/// Stops that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Stops {
    asked: BTreeMap<WorkloadIdx, Asked>,
}

/// What is told of a stop once it came about.
#[derive(Debug)]
struct Asked {
    told: (Arc<Whose>, Stop),
    since: Time,
    /// Its name, if it is stopped for another.
    turn: Option<Text>,
    /// Its owner is suspended, no pod of it is deleted.
    owned: bool,
}

impl Stops {
    /// Whether the stop of a workload is not answered yet.
    pub fn awaits(&self, workload: WorkloadIdx) -> bool {
        self.asked.contains_key(&workload)
    }
}

impl Engine {
    /// Names the owner of a workload that can be suspended and resumed.
    pub(crate) fn owner_ref(&self, workload: WorkloadIdx) -> Option<OwnerRef> {
        let owner = self.state.owner_of(workload)?;
        Some(OwnerRef {
            kind: owner.kind.clone(),
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// The same, if it is what is stopped.
    pub(crate) fn owner_to_suspend(&self, workload: WorkloadIdx) -> Option<OwnerRef> {
        let owner = self.state.owner_of(workload)?;
        self.owner_ref(workload).filter(|_| owner.may_be_suspended())
    }

    /// The stop of a workload is about to be asked for.
    pub(crate) fn ask_to_stop(&mut self, now: Time, workload: WorkloadIdx, stop: &Preemption) {
        self.state.workloads[workload].stop_from = Some(EffectId(self.next_effect));
        let told = self.stop_to_tell(workload, stop);
        let name = &self.state.workloads[workload].full_name;
        let turn = stop.for_another().then(|| name.clone());
        let owned = self.owner_to_suspend(workload).is_some();
        self.stops.asked.insert(workload, Asked { told, since: now, turn, owned });
    }

    /// A stop that was asked for came about: it counts.
    pub(crate) fn stop_came_about(&mut self, workload: WorkloadIdx) {
        let Some(asked) = self.stops.asked.remove(&workload) else { return };
        self.pass_stop(workload, asked.since, asked.told);
        if let Some(name) = asked.turn {
            self.state.turns.note(&name, self.state.now);
        }
        if self.state.workloads.get(workload).is_some() {
            self.mark(workload);
        }
    }

    /// The API answered a stop, or the stop of one member.
    pub(super) fn stop_answered(
        &mut self,
        now: Time,
        (workload, effect): (WorkloadIdx, EffectId),
        result: &EffectResult,
        changes: &mut Changes,
    ) {
        changes.dirty.insert(workload);
        // One that was refused for another member, and asked for again, has answers of its own.
        if self.state.workloads[workload].stop_from.is_some_and(|from| effect < from) {
            return;
        }
        match result {
            EffectResult::Done | EffectResult::Gone => {
                self.stop_came_about(workload);
                // Its next run may be there already, filed by how often it had been stopped before.
                let entry = &self.state.workloads[workload];
                let key = (entry.id.namespace.clone(), entry.name.clone());
                changes.dirty.extend(self.state.workload_by_name.get(&key));
            }
            EffectResult::Refused(why) => {
                let name = self.state.workloads[workload].full_name.clone();
                let failure: Text = format!("could not stop {name}: {why}").into();
                let entry = &mut self.state.workloads[workload];
                if entry.evicting.is_some() {
                    (entry.stop_asked, entry.stop_refused) = (false, Some(now));
                }
                for claimant in self.stays(now, workload, changes) {
                    self.back_off(now, claimant, failure.clone(), changes);
                }
            }
            EffectResult::Conflict(_) => _ = self.stays(now, workload, changes),
            EffectResult::TimedOut => {}
        }
    }

    /// It was not stopped: what was noted of that is taken back, and who counted on it decides
    /// anew; those.
    fn stays(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        changes: &mut Changes,
    ) -> Vec<WorkloadIdx> {
        self.stops.asked.remove(&workload);
        let entry = &mut self.state.workloads[workload];
        entry.requeue.stays();
        if entry.evicting.take().is_some() {
            self.preemptions.remove(&entry.full_name);
            self.state.lasting.owes_no_more(&entry.full_name);
        }
        self.state.no_more_apart(workload);
        self.state.in_part.entry(workload).and_modify(|since| *since = Some(now));
        self.mark(workload);
        let claimants = self.give_up_claims_on(workload, changes);
        for claimant in &claimants {
            // What they waited for came to nothing: their time begins now.
            self.state.in_part.entry(*claimant).and_modify(|since| *since = Some(now));
        }
        claimants
    }

    /// Gives up the claims that name a victim; whose they were queue again, or run on in part.
    fn give_up_claims_on(
        &mut self,
        victim: WorkloadIdx,
        changes: &mut Changes,
    ) -> Vec<WorkloadIdx> {
        let claimants = self.state.claims.naming(victim);
        for &claimant in &claimants {
            let joins = self.state.claims_to_join(claimant);
            self.state.drop_claim(claimant);
            self.claim_freed = true;
            if !joins {
                self.state.workloads[claimant].state = State::Queued;
            }
            self.mark(claimant);
            changes.dirty.insert(claimant);
        }
        claimants
    }

    /// Looks at what facts show of victims that changed: stops that came about before they were
    /// answered, and victims that stay although claims count on them.
    pub(super) fn look_at_victims(&mut self, changes: &mut Changes) {
        let asked = self.stops.asked.iter().filter(|(asked, _)| changes.dirty.contains(asked));
        let shown = asked.filter(|(workload, asked)| self.shows_stop(**workload, asked.owned));
        let shown: Vec<WorkloadIdx> = shown.map(|(workload, _)| *workload).collect();
        shown.into_iter().for_each(|workload| self.stop_came_about(workload));
        if self.state.claims.is_empty() {
            return;
        }
        let stay = |workload: &&WorkloadIdx| self.stays_after_all(**workload);
        let staying: Vec<WorkloadIdx> = changes.dirty.iter().filter(stay).copied().collect();
        for victim in staying {
            for claimant in self.give_up_claims_on(victim, changes) {
                self.state.derive_roles(claimant);
                self.state.keep_state(claimant);
            }
        }
    }

    /// Whether the API shows that a workload was stopped, or that it holds nothing any more.
    fn shows_stop(&self, workload: WorkloadIdx, owned: bool) -> bool {
        if self.state.workloads.get(workload).is_none() {
            return false;
        }
        let next_run = owned && self.state.owner_of(workload).is_none();
        next_run || self.state.placed(workload).all(|pod| self.state.pods[pod].terminating)
    }

    /// Whether a workload runs that nobody stops, and nothing shows that it leaves.
    fn stays_after_all(&self, workload: WorkloadIdx) -> bool {
        let Some(entry) = self.state.workloads.get(workload) else { return false };
        let runs = matches!(
            entry.state,
            State::Resuming | State::Preparing | State::Binding | State::Running
        );
        runs && !self.state.leaving(workload) && self.state.placed(workload).next().is_some()
    }
}
