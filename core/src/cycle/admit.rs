//! Carrying a decision over into state and effects: admission and eviction.
//!
//! Everything fallible that must happen before a bind is settled for all members first
//! (`Preparing`); only then are the binds of the whole gang sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::engine::Engine;
use crate::model::ids::{PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{BindingNote, TaintEffect, Toleration};
use crate::model::pod::Binding;
use crate::plan::{Action, Outcome, Preemption, PreemptionReason, State};
use crate::rules::taints::tolerates;
use crate::time::Time;

/// What was written on a member, which depends on its shape and its node.
struct Written {
    shape: ShapeIdx,
    node: NodeIdx,
    note: Arc<BindingNote>,
}

impl Engine {
    /// A workload was placed and charged: send what makes it run.
    pub(crate) fn admit(&mut self, now: Time, workload: WorkloadIdx) {
        self.waiting.remove(workload);
        self.begin_reserved(now, workload);
        self.count_admission(now, workload);
        self.preemptions.remove(&self.state.workloads[workload].full_name);
        self.counts.admitted += 1;
        self.note_admission(now, workload);
        self.report_outcome(workload, Outcome::Admitted);
        self.clear_reason(workload);
        let before = self.admitted_before(workload).is_some();
        let entry = &mut self.state.workloads[workload];
        // It has left: an owner that somebody else suspended begins the same run anew.
        (entry.evicting, entry.stop_asked) = (None, false);
        // How often it failed is forgotten once it runs.
        (entry.requeue.scan, entry.requeue.not_before) = (None, None);
        entry.found_running = before;
        // Its other pods are there, and its owner runs, where places are for pods that come late.
        let late = entry.late;
        let kept = entry.members.iter().any(|pod| self.state.pods[*pod].kept());
        match kept && !late {
            true => {
                self.state.workloads[workload].state = State::Resuming;
                self.resume(now, workload);
                if !self.unsent(workload).is_empty() {
                    self.send(now, workload);
                }
            }
            false => self.send(now, workload),
        }
        self.refile(workload, now);
    }

    /// Unsuspends the owner; its pods will take the places kept for them. One that an engine before
    /// this one resumed has its time from then.
    fn resume(&mut self, now: Time, workload: WorkloadIdx) {
        if self.state.workloads[workload].kept_until.is_some() {
            return;
        }
        let note = self.state.note(workload, None);
        // Half of a price would be taken for all of it.
        let price = self.state.hourly(workload).filter(|_| self.state.unpriced(workload) == 0);
        let note = BindingNote { price, ..note };
        let Some(owner) = self.owner_ref(workload) else { return };
        let uid = owner.uid.clone();
        let effect = self.effect(now, workload, Some(uid), Action::ResumeOwner { owner, note });
        let until = now.plus(self.state.time_to_appear(workload));
        let entry = &mut self.state.workloads[workload];
        (entry.owner_effect, entry.kept_until) = (Some(effect), Some(until));
        self.deadlines.set(workload, Some(until));
    }

    /// Binds every placed member that is not bound yet, after its claims on volumes were bound,
    /// tolerations that only its flavor has were patched onto it, and devices were allocated.
    pub(crate) fn send(&mut self, now: Time, workload: WorkloadIdx) {
        let members = self.unsent(workload);
        if members.is_empty() {
            // Places for pods that are still to be made: no outcome will tell what it is now.
            self.mark(workload);
            self.state.keep_state(workload);
            return self.refile(workload, now);
        }
        let mut preparing = false;
        for &pod in &members {
            match self.select_volumes(now, workload, pod) {
                Ok(selects) => {
                    preparing |= selects
                        || self.add_tolerations(now, workload, pod)
                        || self.allocate_claims(now, workload, pod);
                }
                Err(failure) => return self.send_back_at_once(now, workload, failure),
            }
        }
        if preparing {
            self.state.workloads[workload].state = State::Preparing;
            self.preparing.insert(workload);
            return;
        }
        // Of none anything was sent yet.
        self.send_prepared(now, workload, members);
    }

    /// Patches tolerations onto a member that only its flavor has; `false`: it lacks none.
    fn add_tolerations(&mut self, now: Time, workload: WorkloadIdx, pod: PodIdx) -> bool {
        let missing = self.missing_tolerations(pod);
        if missing.is_empty() {
            return false;
        }
        let reference = self.state.pods[pod].reference();
        let uid = reference.uid.clone();
        let action = Action::AddTolerations { pod: reference, tolerations: missing };
        let effect = self.effect(now, workload, Some(uid), action);
        self.state.pods[pod].binding = Binding::InFlight(effect);
        true
    }

    /// Members whose claims are bound now get what tolerations they lack; those that lack none.
    pub(crate) fn tolerate_settled(&mut self, now: Time, settled: Vec<PodIdx>) -> Vec<PodIdx> {
        let mut prepared = settled;
        prepared.retain(|&pod| {
            let workload = self.state.pods[pod].workload;
            workload.is_some_and(|workload| !self.add_tolerations(now, workload, pod))
        });
        prepared
    }

    /// Binds members whose binds were not sent yet.
    pub(crate) fn send_prepared(&mut self, now: Time, workload: WorkloadIdx, members: Vec<PodIdx>) {
        self.state.workloads[workload].state = State::Binding;
        self.mark(workload);
        let mut last: Option<Written> = None;
        for pod in members {
            let written = self.written(workload, pod, last);
            self.bind(now, workload, pod, written.note.clone());
            last = Some(written);
        }
    }

    /// Members that have a place and that the API was not told of; not those that are leaving.
    pub(crate) fn unsent(&self, workload: WorkloadIdx) -> Vec<PodIdx> {
        let unsent = |pod: &PodIdx| {
            let pod = &self.state.pods[*pod];
            pod.binding == Binding::None && !pod.terminating
        };
        self.state.placed(workload).filter(unsent).collect()
    }

    /// What is written on a member: what was written on the last one, as far as it is the same.
    fn written(&self, workload: WorkloadIdx, pod: PodIdx, last: Option<Written>) -> Written {
        let price = self.state.price(pod);
        let pod = &self.state.pods[pod];
        let (shape, node) = (pod.shape, pod.place.expect("only placed pods are bound"));
        let same =
            |last: &Written| (last.shape, last.node, last.note.price) == (shape, node, price);
        let last = match last {
            Some(last) if same(&last) => return last,
            last => last.filter(|last| last.shape == shape).map(|last| last.note),
        };
        let note = match last {
            Some(last) if last.price == price => last,
            Some(last) => Arc::new(BindingNote { price, ..(*last).clone() }),
            None => Arc::new(BindingNote { price, ..self.state.note(workload, Some(shape)) }),
        };
        Written { shape, node, note }
    }

    fn bind(&mut self, now: Time, workload: WorkloadIdx, pod: PodIdx, note: Arc<BindingNote>) {
        let entry = &self.state.pods[pod];
        let node = entry.place.expect("only placed pods are bound");
        let reference = entry.reference();
        let uid = reference.uid.clone();
        let node = self.state.room.node(node).name.clone();
        let action = Action::Bind { pod: reference, node, note: (*note).clone() };
        let effect = self.effect(now, workload, Some(uid), action);
        self.note_bind(effect, pod);
        let entry = &mut self.state.pods[pod];
        entry.binding = Binding::InFlight(effect);
        entry.note = Some(note);
        entry.bound_at = Some(now);
        self.state.spending.touch(workload);
        self.counts.bound += 1;
    }

    /// Tolerations of the flavor for NoExecute taints of the node that the pod itself lacks.
    fn missing_tolerations(&self, pod: PodIdx) -> Vec<Toleration> {
        let state = &self.state;
        let pod = &state.pods[pod];
        let Some(assignment) = pod.workload.and_then(|w| state.workloads[w].assignment.as_ref())
        else {
            return Vec::new();
        };
        let Some(set) = assignment.set(pod.shape) else { return Vec::new() };
        let Some(facts) = pod.place.and_then(|node| state.room.facts(node)) else {
            return Vec::new();
        };
        let compare = state.room.args.toleration_comparison;
        let own = &state.room.shape(pod.shape).facts.tolerations;
        let mut missing: Vec<Toleration> = Vec::new();
        for taint in facts.taints.iter().filter(|t| t.effect == TaintEffect::NoExecute) {
            if tolerates(own, taint, compare) {
                continue;
            }
            let flavors = state.quota.facts_by_name(&set.nodes_of);
            let mut offered = flavors.iter().flat_map(|(_, flavor)| &flavor.tolerations);
            let found = offered.find(|t| tolerates(std::slice::from_ref(*t), taint, compare));
            if let Some(toleration) = found
                && !missing.contains(toleration)
            {
                missing.push(toleration.clone());
            }
        }
        missing
    }

    /// Stops a victim: its owner is suspended, or its pods are evicted. Done once.
    pub(crate) fn evict(&mut self, now: Time, victim: WorkloadIdx, preemption: Preemption) {
        if self.state.workloads[victim].state == State::Evicting {
            return;
        }
        self.counts.preempted += 1;
        if self.state.drop_claim(victim).is_some() {
            // Room was being made for members of it.
            self.claim_is_free();
        }
        let leaving = self.state.leaving(victim);
        self.ask_to_stop(now, victim, &preemption);
        let requeue = self.requeue_note(now, victim, &preemption);
        self.waiting.remove(victim);
        self.growth.remove(&victim);
        self.growth_parked.remove(&victim);
        self.reclaimers.forget();
        let name = self.state.workloads[victim].full_name.clone();
        let by_share = preemption.reason == PreemptionReason::InCohortFairSharing;
        self.state.lasting.stop((victim, &name), by_share, now);
        self.preemptions.insert(name, preemption.clone());
        let entry = &mut self.state.workloads[victim];
        if entry.owner.is_none() {
            entry.requeue.stops(requeue);
        }
        entry.state = State::Evicting;
        entry.evicting = Some(Box::new(preemption.clone()));
        (entry.stop_asked, entry.stop_refused) = (true, None);
        self.file_leaving(victim);
        let freed = self.state.drop_vacancies(victim);
        let freed: BTreeSet<QueueIdx> = freed.into_iter().map(|(queue, ..)| queue).collect();
        freed.iter().for_each(|queue| self.state.quota.advance(*queue));
        self.wake_queues(&freed);
        self.mark(victim);
        if leaving {
            self.stop_came_about(victim);
            return;
        }
        if let Some(owner) = self.owner_to_suspend(victim) {
            let uid = owner.uid.clone();
            let action = Action::SuspendOwner { owner, preemption, requeue: Box::new(requeue) };
            let effect = self.effect(now, victim, Some(uid), action);
            self.state.workloads[victim].owner_effect = Some(effect);
            return;
        }
        if !self.evict_members(now, victim, &preemption) {
            self.stop_came_about(victim);
        }
    }

    /// Evicts every member that is neither ended nor on its way out; whether there was one.
    pub(crate) fn evict_members(
        &mut self,
        now: Time,
        victim: WorkloadIdx,
        preemption: &Preemption,
    ) -> bool {
        let active: Vec<PodIdx> = self.state.workloads[victim]
            .members
            .iter()
            .copied()
            .filter(|pod| self.state.pods[*pod].active() && !self.state.pods[*pod].terminating)
            .collect();
        for &pod in &active {
            let entry = &self.state.pods[pod];
            let (pod, alone) = (entry.reference(), entry.apart);
            let (uid, preemption) = (pod.uid.clone(), preemption.clone());
            let action = Action::Evict { pod, preemption, alone };
            self.effect(now, victim, Some(uid), action);
        }
        !active.is_empty()
    }
}
