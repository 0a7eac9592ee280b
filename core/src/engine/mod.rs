//! `Engine::step`: the only way in and out.
//!
//! A step applies facts, takes outcomes of effects in, files what waits, and runs rounds until
//! one changes nothing (or [`Policy::rounds_max`](crate::policy::Policy) is reached). It reads no
//! clock and keeps no history beyond what facts show, except what makes it faster or gentler:
//! binds in flight, claims, parking, backoff and scan memory. A new engine that is fed only what
//! the API shows decides the same, those apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::{IdleClaims, KeptBack, Reclaimers};
use crate::engine::waiting::Waiting;
use crate::explain::reason::Reason;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{Input, Text};
use crate::model::pod::Binding;
use crate::model::state::ClusterState;
use crate::model::workload::QueueRef;
use crate::plan::{
    Action, Counts, Effect, EffectId, EffectResult, Outcome, Precondition, Preemption, Report,
    State, StepOutput, Unmet, WorkloadOutcome,
};
use crate::time::Time;

mod binding;
mod census;
mod coming_up;
mod crossings;
mod details;
mod device_claims;
mod evictions;
pub(crate) mod giving_back;
mod holds;
mod inflight;
mod milestones;
mod news;
mod overdue;
mod positions;
mod readiness;
mod refused;
mod remedies;
pub(crate) mod reservations;
mod spending;
mod stops;
mod sweep;
mod unmet;
mod unprepared;
mod usage;
mod verdicts;
mod views;
mod volumes;
pub(crate) mod waiting;
mod wakes;

/// The engine: owns the whole state, decides in `step`.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) state: ClusterState,
    pub(crate) waiting: Waiting,
    /// Holders with members without a place, to be looked at.
    pub(crate) growth: BTreeSet<WorkloadIdx>,
    /// Those that were looked at in vain.
    pub(crate) growth_parked: BTreeSet<WorkloadIdx>,
    pub(crate) reclaimers: Reclaimers,
    /// Work that waits out a failure.
    pub(crate) delayed: overdue::Deadlines,
    /// Resumed owners and when their pods must be there.
    pub(crate) deadlines: overdue::Deadlines,
    arrivals: overdue::Arrivals,
    /// Owners that an engine before this one resumed, without places for their pods yet.
    pub(crate) resumed_before: BTreeSet<WorkloadIdx>,
    /// Work with members to bind that was being stopped then: they are bound if that comes to
    /// nothing. Also work whose pods took kept places over outside of a batch of facts.
    unsent_while_stopped: BTreeSet<WorkloadIdx>,
    /// Work with members that are prepared before any of them is bound, until all are.
    pub(crate) preparing: BTreeSet<WorkloadIdx>,
    /// Those of them that were begun before, and are below their minimum.
    completing: BTreeSet<WorkloadIdx>,
    /// Members whose claims on devices are allocated, and that are not bound yet.
    allocated: BTreeSet<PodIdx>,
    /// Members whose devices are being made ready.
    readying: BTreeMap<PodIdx, readiness::Readying>,
    /// Members whose claim for extended resources is being deleted, until that is seen.
    releasing: BTreeSet<PodIdx>,
    /// What is owed of claims before their pods are tried again.
    owed: device_claims::Owed,
    /// Claims that are being given back because they are of no use as they are.
    giving_back: giving_back::GivingBack,
    /// Claims with devices that work which waits names.
    pub(crate) idle: IdleClaims,
    /// Victims that bear marks of an engine before this one, and were perhaps never deleted.
    pub(crate) half_evicted: BTreeSet<WorkloadIdx>,
    /// Why a workload was preempted last, by name, until it is admitted again. Shown only.
    pub(crate) preemptions: BTreeMap<Text, Preemption>,
    pub(crate) inflight: BTreeMap<EffectId, inflight::InFlight>,
    /// Members whose claims are being bound.
    settling: BTreeMap<PodIdx, volumes::Settling>,
    /// A claim was given up outside of a round: what it kept is free for others.
    claim_freed: bool,
    /// Who waits for victims and was tried without them since anything came free.
    pub(crate) tried: BTreeSet<WorkloadIdx>,
    /// When work that holds places is to end.
    pub(crate) ends: reservations::Ends,
    pub(crate) reservations: reservations::Reservations,
    learned: reservations::Learned,
    crossings: crossings::Crossings,
    holds: holds::Holds,
    coming_up: coming_up::ComingUp,
    looks: usage::Looks,
    milestones: milestones::Milestones,
    stops: stops::Stops,
    /// Queues, or their budgets, changed since accounts were opened.
    accounts_stale: bool,
    /// What heads kept back: where that changes, who it was kept from is looked at again.
    pub(crate) kept_back: KeptBack,
    sweeps: sweep::Sweeps,
    /// What was told of wishes that come to nothing, by workload.
    told: BTreeMap<WorkloadIdx, BTreeSet<(Unmet, Text)>>,
    pub(crate) round_number: u64,
    /// The last round that decided something, or the last before facts woke what waits.
    pub(crate) decided_round: u64,
    pub(crate) counts: Counts,
    next_effect: u64,
    pub(crate) rounds: u32,
    effects: Vec<Effect>,
    pub(crate) outcomes: Vec<WorkloadOutcome>,
    /// Workloads to tell of when this step ends.
    news: Vec<WorkloadIdx>,
    /// Who was stopped in this step because time passed, or that no outcome tells of.
    pub(crate) stopped: Vec<Preemption>,
    /// Namespaces and names of workloads that this step found gone.
    gone: Vec<(Text, Text)>,
}

/// Whether what comes in may change what is decided: that an effect was carried out was counted on.
fn is_news(input: &Input) -> bool {
    !matches!(input, Input::Outcome { result: EffectResult::Done, .. })
}

/// All of a list; the next one has room for as many from the start.
fn hand_over<T>(list: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(list.len());
    std::mem::replace(list, next)
}

impl Engine {
    /// An empty engine.
    pub fn new() -> Engine {
        Engine::default()
    }

    /// Applies facts and decides nothing: who does not lead keeps its engine warm with this.
    ///
    /// What a step would say of these facts alone (an annotation that cannot be read) is the
    /// leader's to say, and is dropped.
    pub fn observe(&mut self, now: Time, inputs: Vec<Input>) {
        self.state.decides = false;
        self.take_in(now, inputs);
        self.tell_news();
        self.nameless();
        let acts = |e: &Effect| !matches!(e.action, Action::Status(_) | Action::Event { .. });
        debug_assert!(!self.effects.iter().any(acts), "facts alone decide nothing");
        self.effects.clear();
        self.take_milestones();
        self.sweep_if_due();
    }

    /// Applies facts, runs rounds, and returns what to do.
    pub fn step(&mut self, now: Time, inputs: Vec<Input>) -> StepOutput {
        self.state.decides = true;
        if inputs.iter().any(is_news) {
            self.kept_back.all_is_new();
        }
        if now > self.state.now {
            self.kept_back.time_passed();
        }
        self.take_in(now, inputs);
        self.release_left(now);
        self.finish_evictions(now);
        self.stop_what_may_not_run(now);
        self.look_at_usage(now);
        self.look_at_spending(now);
        self.wake_in_time(now);
        self.counts = Counts::default();
        self.tend_reservations(now);
        self.begin_turns();
        let evaluated = self.state.classes.evaluations();
        let mut quiet = false;
        self.rounds = 0;
        if self.waiting.take_woken() {
            self.decided_round = self.round_number;
            self.try_anew();
        }
        while !quiet && self.rounds < self.state.policy.rounds_max {
            self.rounds += 1;
            quiet = !self.round(now);
        }
        quiet &= !self.end_turns();
        self.counts.nodes_scored = self.state.classes.evaluations() - evaluated;
        self.counts.considered = self.outcomes.len() as u64;
        self.count_spending(now);
        self.tell_news();
        let [gone, podless] = self.nameless();
        self.sweep_if_due();
        StepOutput {
            effects: hand_over(&mut self.effects),
            report: Report {
                rounds: self.rounds,
                quiet,
                outcomes: hand_over(&mut self.outcomes),
                stopped: std::mem::take(&mut self.stopped),
                milestones: self.take_milestones(),
                counts: self.counts,
                gone,
                podless,
                unused: self.state.quota.unused(),
            },
            // Cut short, it goes on at once, but for what comes in between.
            next_wake: if quiet { self.next_wake() } else { Some(now) },
        }
    }

    fn take_in(&mut self, now: Time, inputs: Vec<Input>) {
        self.state.now = now;
        self.idle.forget_named();
        let mut changes = Changes::default();
        let mut outcomes = Vec::new();
        for input in inputs {
            match input {
                Input::Outcome { effect, result } => outcomes.push((effect, result)),
                fact => self.state.apply(fact, &mut changes),
            }
        }
        self.state.let_claims_lapse(&mut changes);
        let mut prepared = Vec::new();
        for (effect, result) in outcomes {
            prepared.extend(self.take_outcome(now, effect, result, &mut changes));
        }
        self.state.derive(&mut changes);
        let settled = self.look_at_volumes(now, &mut changes);
        prepared.extend(self.tolerate_settled(now, settled));
        prepared.extend(self.look_at_devices(now, &mut changes));
        self.forget_given_back(&mut changes);
        self.bind_prepared(now, &prepared, &changes.arrived);
        self.absorb(now, changes);
    }

    /// Files what changed and wakes what may now fit.
    fn absorb(&mut self, now: Time, mut changes: Changes) {
        self.look_at_victims(&mut changes);
        self.reclaimers.forget();
        let waits = |engine: &Engine, workload: &_| engine.waits(*workload);
        let mut heads_changed = changes.gone.iter().any(|(gone, ..)| waits(self, gone));
        heads_changed |= changes.dirty.iter().any(|dirty| waits(self, dirty));
        for gone in std::mem::take(&mut changes.gone) {
            self.forget(gone);
        }
        let mut tells = Vec::new();
        self.mark_changed(&changes.dirty);
        for &workload in &changes.dirty {
            self.file_eviction(workload);
            self.file_hold(workload);
            let Some(entry) = self.state.workloads.get(workload) else { continue };
            self.deadlines.set(workload, entry.kept_until);
            let broken = matches!(entry.queue, QueueRef::Broken(_));
            match broken || self.asks_in_vain(workload) {
                true => tells.push(workload),
                false => self.refile(workload, now),
            }
        }
        // What is told goes by identity, whatever the facts' order was.
        tells.sort_by(|a, b| self.state.workloads[*a].id.cmp(&self.state.workloads[*b].id));
        for workload in tells {
            self.refile(workload, now);
            self.tell_unmet(now, workload);
        }
        if changes.everything {
            self.looks.anew();
            self.open_accounts_anew();
            self.forget_crossings();
        }
        if changes.everything || changes.facts {
            self.reservations.forget_pools();
        }
        self.wake_for(&changes, heads_changed);
        changes.came.iter().for_each(|admitted| self.arrivals.note(*admitted, now));
        self.send_arrived(now, &changes.arrived);
    }

    /// Binds pods that came for places kept for them, where their nodes take them.
    fn send_arrived(&mut self, now: Time, pods: &[PodIdx]) {
        let of = pods.iter().filter_map(|pod| self.state.pods.get(*pod)?.workload);
        let mut arrived: Vec<WorkloadIdx> = of.collect();
        let waited = std::mem::take(&mut self.unsent_while_stopped);
        arrived.extend(&waited);
        arrived.sort_unstable();
        arrived.dedup();
        arrived.sort_by_cached_key(|workload| self.state.workloads[*workload].id.clone());
        for workload in arrived {
            if self.state.leaving(workload) {
                self.unsent_while_stopped.insert(workload);
                continue;
            }
            // Some members were deleted before the stop of the others was refused.
            if waited.contains(&workload) && self.fell_apart(workload) {
                self.send_back_at_once(now, workload, "members are gone".into());
                continue;
            }
            if self.let_refused_go(now, workload) {
                self.send(now, workload);
            }
            self.state.keep_state(workload);
        }
    }

    /// Forgets a workload that is gone.
    pub(crate) fn forget(&mut self, (workload, namespace, name): (WorkloadIdx, Text, Text)) {
        self.forget_owed(&namespace, &name);
        self.gone.push((namespace, name));
        self.forget_told(workload);
        self.waiting.remove(workload);
        self.growth.remove(&workload);
        self.growth_parked.remove(&workload);
        self.half_evicted.remove(&workload);
        self.unsent_while_stopped.remove(&workload);
        self.preparing.remove(&workload);
        self.completing.remove(&workload);
        self.tried.remove(&workload);
        self.state.inherited.remove(&workload);
        self.delayed.set(workload, None);
        self.deadlines.set(workload, None);
        self.resumed_before.remove(&workload);
        self.holds.forget(workload);
        self.end_reservation(workload);
        self.state.lasting.forget(workload);
        self.file_end(workload);
        self.gave_up_coming(workload);
        self.note_gone(workload);
        self.count_end(self.state.now, workload);
        self.state.spending.touch(workload);
    }

    /// Puts a workload where it belongs: its queue, the growing ones, or nowhere.
    pub(crate) fn refile(&mut self, workload: WorkloadIdx, now: Time) {
        self.give_up_stale_claim(workload);
        let entry = &self.state.workloads[workload];
        let (state, delay) = (entry.state, entry.requeue.not_before);
        let (comes, keeps) = (entry.kept_until.is_some(), entry.keeps());
        let queue = match &entry.queue {
            QueueRef::Unqueued => Some(None),
            QueueRef::Queue(queue) => Some(Some(*queue)),
            QueueRef::Broken(_) => None,
        };
        let delayed = delay.filter(|until| *until > now);
        let unready = entry.requeue.unready();
        if let Some(until) = delayed.filter(|_| state == State::Queued) {
            self.delayed.set(workload, Some(until));
            if unready > 0 && entry.reason.is_none() {
                self.set_reason(workload, Reason::not_ready(until, unready));
            }
        }
        let delayed = delayed.is_some() || self.owes_claims(workload);
        let entry = &self.state.workloads[workload];
        if let QueueRef::Broken(reason) = &entry.queue
            && state == State::Queued
        {
            let reason = reason.clone();
            self.set_reason(workload, reason);
        }
        match (state, queue) {
            (State::Queued, Some(queue)) if !delayed => {
                let at = self.state.queued_at(workload);
                let local = self.ranked_by(queue, workload);
                let runs = self.filed_run_time(workload);
                let entry = &self.state.workloads[workload];
                let rests = queue.and_then(|_| self.state.turns.rests(&entry.full_name, now));
                let roles = self.state.role_kinds(workload);
                self.waiting.insert(queue, workload, (entry, at, runs), (local, rests, roles));
            }
            _ => self.waiting.remove(workload),
        }
        match state == State::Queued && comes {
            true => self.resumed_before.insert(workload),
            false => self.resumed_before.remove(&workload),
        };
        let holds = matches!(state, State::Running | State::Binding);
        let needy = |pod| {
            let pod: &crate::model::pod::Pod = &self.state.pods[pod];
            let unbound = pod.binding == Binding::None || keeps && pod.kept();
            pod.active() && !pod.gated && !pod.terminating && unbound
        };
        let grows = holds && self.state.unplaced(workload).any(needy);
        self.growth_parked.remove(&workload);
        match grows && !delayed {
            true => self.growth.insert(workload),
            false => self.growth.remove(&workload),
        };
        self.file_coming_up(now, workload);
        if matches!(state, State::Queued | State::Finished) {
            self.state.lasting.forget(workload);
        }
        self.file_end(workload);
        self.give_up_stale_reservation(workload);
        self.note_passage(now, workload);
        self.count_end(now, workload);
        self.state.spending.touch(workload);
    }

    /// A claim whose members changed says nothing any more, nor does one on what its queue lists no
    /// more, or on quota of a queue that it is in no more.
    fn give_up_stale_claim(&mut self, workload: WorkloadIdx) {
        let Some(claim) = self.state.claims.get(workload) else { return };
        let entry = &self.state.workloads[workload];
        let needs = |pod: &PodIdx| self.state.pods[*pod].needs_place();
        let stands = |pod: &PodIdx| entry.members.contains(pod) && needs(pod);
        let members = claim.places.members.len();
        let queue = match &entry.queue {
            QueueRef::Unqueued => Some(None),
            QueueRef::Queue(queue) => Some(Some(*queue)),
            QueueRef::Broken(_) => None,
        };
        let waits = match &entry.assignment {
            // More may have to run together by now.
            None => {
                entry.state == State::Reserved
                    && members >= entry.min_member as usize
                    && queue == Some(claim.assignment.queue)
            }
            // It joins others that run.
            Some(held) => {
                let ends = matches!(entry.state, State::Evicting | State::Finished);
                !ends && held.queue == claim.assignment.queue
            }
        };
        let same = waits
            && claim.places.members.iter().all(|(pod, _)| stands(pod))
            && queue.is_some()
            && !self.charges_unlisted(&claim.assignment);
        if !same {
            self.state.drop_claim(workload);
            self.claim_freed = true;
            self.mark(workload);
            if self.state.workloads[workload].state == State::Reserved {
                self.state.workloads[workload].state = State::Queued;
            }
            // Others may begin than had places in it, and too few may be left to queue.
            self.state.derive_roles(workload);
            self.state.keep_state(workload);
        }
    }

    /// Adds an effect to the plan.
    pub(crate) fn effect(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        uid: Option<Text>,
        action: Action,
    ) -> EffectId {
        let id = self.effect_id();
        self.note_inflight(id, workload, &action);
        self.effects.push(Effect {
            id,
            workload: self.state.workloads[workload].full_name.clone(),
            decided: now,
            patience: self.state.policy.effect_timeout,
            precondition: uid.map_or(Precondition::None, Precondition::Uid),
            completes: false,
            action,
        });
        id
    }

    fn effect_id(&mut self) -> EffectId {
        let id = EffectId(self.next_effect);
        self.next_effect += 1;
        id
    }

    /// Binds members that a gang with bound ones lacks: before others begin. Those that are
    /// prepared first, once they are.
    pub(crate) fn complete(&mut self, now: Time, workload: WorkloadIdx) {
        let before = self.effects.len();
        self.send(now, workload);
        self.complete_a_gang(before);
        if self.preparing.contains(&workload) {
            self.completing.insert(workload);
        }
        // It ends with those who joined it.
        self.file_end(workload);
    }

    /// What was decided after so many effects completes a gang.
    fn complete_a_gang(&mut self, before: usize) {
        self.effects[before..].iter_mut().for_each(|effect| effect.completes = true);
    }

    pub(crate) fn report_outcome(&mut self, workload: WorkloadIdx, outcome: Outcome) {
        self.outcomes.push(WorkloadOutcome {
            round: self.rounds,
            workload: self.state.workloads[workload].full_name.clone(),
            outcome,
        });
    }

    /// A workload was looked at and waits on: that is reported, and why it does is kept.
    pub(crate) fn waits_on(&mut self, workload: WorkloadIdx, reason: Reason) {
        if self.state.workloads[workload].reason.as_ref() != Some(&reason) {
            self.set_reason(workload, reason.clone());
        }
        self.report_outcome(workload, Outcome::Waiting(reason));
    }

    /// Keeps why a workload waits; a change is news.
    pub(crate) fn set_reason(&mut self, workload: WorkloadIdx, reason: Reason) {
        if self.state.workloads[workload].reason.as_ref() != Some(&reason) {
            self.state.workloads[workload].reason = Some(reason);
            self.mark(workload);
        }
    }

    /// It waits no more.
    pub(crate) fn clear_reason(&mut self, workload: WorkloadIdx) {
        self.state.workloads[workload].reason = None;
        self.mark(workload);
    }

    /// The configuration in force.
    pub fn policy(&self) -> &Arc<crate::policy::Policy> {
        &self.state.policy
    }

    /// Compares every incremental number with one counted from scratch.
    ///
    /// # Panics
    /// When any differs.
    pub fn recount(&self) {
        self.state.turns.recount();
        self.state.lasting.recount(|workload| self.state.workloads.get(workload).is_some());
        self.state.recount();
        self.waiting.recount();
        self.recount_usage();
        self.recount_ends();
        self.recount_spending();
    }
}
