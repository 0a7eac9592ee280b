//! The engine's thread: it owns the cluster as seen and the engine, and waits for nothing else
//! than messages.
//!
//! Decides when facts are observed, when they are stepped on, and where each effect goes. One
//! turn: take all messages that are there -> drain the facts -> step once (or observe) -> hand
//! out the effects -> answer one question (`answers`) -> say what people look at, as far as there
//! is time.
//!
//! Cost: what a turn costs depends on the gangs that it touches, not on how much of them changed.
//! While a large gang is bound, each pod's news would be a turn of its own, so turns begin
//! [`PACE`] apart, and [`PART`] times as long as the last one took (the processor is wanted by what
//! it asked for), unless the engine itself has more to do: what comes after a quiet time is acted
//! on at once, a burst a few times for each hundred of its facts.
//!
//! A turn walks over megabytes, and on a small machine the servers beside it then find theirs gone
//! from its caches: measured on two processors, a walk over 8 MB forty times a second cost the API
//! server 15 % more time for each bind. So while binds wait for a slot, and what would be decided
//! now would wait behind them, the thread rests on, up to [`REST_MOST`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use capstan_core::Engine;
use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::{Input, Text};
use capstan_core::plan::{Action, Effect, EffectId, EffectResult, PodRef, StepOutput};
use capstan_core::policy::Policy;
use capstan_core::time::Time;
use tokio::sync::{oneshot, watch};

use super::answers::Questions;
use super::barrier::{Barrier, Passage, Progress};
use super::looks::Looks;
use super::message::Message;
use crate::act::{Answer, Executor};
use crate::clock::Clock;
use crate::config::Config;
use crate::live::{Group, Kind, Live, Seen};
use crate::metrics::{Metrics, Switches};
use crate::publish::{self, Publisher};
use crate::serve::Health;

/// Messages in one turn at most, so that a step is never put off for long.
const MESSAGES_MAX: usize = 4_096;
/// Time from the beginning of one turn to that of the next, at least.
const PACE: Duration = Duration::from_millis(5);
/// The same in lengths of the turn before: while news comes without end, turns take at most so
/// small a part of one processor.
const PART: u32 = 24;
/// But no more than that: however long a turn took, nobody notices the time to the next.
const PACE_MOST: Duration = Duration::from_millis(40);
/// How often a thread that rests looks whether the executor still has plenty of binds...
const GLANCE: Duration = Duration::from_millis(10);
/// ...and for how long it does so.
const REST_MOST: Duration = Duration::from_millis(200);
/// Longest sleep; the thread shows that it lives.
const NAP: Duration = Duration::from_secs(1);

/// What the thread works with.
pub struct Tools {
    /// The one clock.
    pub clock: Clock,
    /// Carries effects out.
    pub executor: Arc<Executor>,
    /// Shows what people look at.
    pub publisher: Publisher,
    /// Numbers.
    pub metrics: Arc<Metrics>,
    /// Signs of life.
    pub health: Arc<Health>,
    /// Becomes true once everything was listed.
    pub synced: watch::Sender<bool>,
}

/// How far this replica got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It observes.
    Standby,
    /// It decides.
    Leading,
    /// It decides nothing any more.
    Stopped,
}

/// The cluster, the engine, and what is owed.
pub struct Desk {
    tools: Tools,
    live: Live,
    engine: Engine,
    looks: Looks,
    phase: Phase,
    /// How far the watches are, for who does not lead yet.
    progress: Progress,
    /// We lead, once this is passed.
    barrier: Option<Barrier>,
    /// Kinds that were not read yet.
    unread: Vec<Kind>,
    /// Facts that are no objects: the configuration, answers to effects.
    told: Vec<Input>,
    /// What is configured, for an engine of its own that answers a question.
    policy: Arc<Policy>,
    questions: Questions,
    /// Who waits for the end of this turn.
    settled: Vec<oneshot::Sender<()>>,
    /// Binds under way, for the events that say that they are done.
    binds: BTreeMap<EffectId, (PodRef, Text)>,
    /// Pods that were bound since the last turn, and where.
    bound: Vec<(PodRef, Text)>,
    /// Effects began or ended since the last turn.
    acts: bool,
    /// When to step even if nothing happens.
    wake: Option<Time>,
    cycle: u64,
    ended: bool,
}

impl Desk {
    /// Nothing seen, nothing decided.
    pub fn new(config: &Config, tools: Tools) -> Desk {
        Desk {
            live: Live::new(config),
            engine: Engine::new(),
            looks: Looks::new(),
            phase: Phase::Standby,
            progress: Progress::default(),
            barrier: None,
            unread: Vec::new(),
            told: vec![Input::Policy(Arc::new(config.policy.clone()))],
            policy: Arc::new(config.policy.clone()),
            questions: Questions::default(),
            settled: Vec::new(),
            binds: BTreeMap::new(),
            bound: Vec::new(),
            acts: false,
            wake: None,
            cycle: 0,
            ended: false,
            tools,
        }
    }

    /// Works until it is told to end.
    pub fn run(mut self, inbox: &Receiver<Message>) {
        let mut pace = Pace::default();
        while !self.ended {
            let first = match inbox.recv_timeout(self.patience()) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let due = self.wake.is_some_and(|wake| wake <= self.tools.clock.now());
            let due = due || self.owes();
            thread::sleep(pace.rest(Instant::now(), due));
            if !due {
                rest_while(|| self.tools.executor.has_plenty());
            }
            self.tools.health.beat();
            let begun = Instant::now();
            let more = inbox.try_iter().take(MESSAGES_MAX);
            first.into_iter().chain(more).for_each(|message| self.take(message));
            self.turn();
            pace.took(begun, begun.elapsed());
        }
    }

    /// How long there is nothing to do unless something happens.
    fn patience(&self) -> Duration {
        if let Some(barrier) = &self.barrier {
            let now = Instant::now();
            return match barrier.passage(&self.progress, now) {
                Passage::Until(until) => until.saturating_duration_since(now).min(NAP),
                Passage::Free | Passage::Late(_) => Duration::ZERO,
            };
        }
        if self.owes() {
            return Duration::ZERO;
        }
        let leads = self.phase == Phase::Leading;
        let asked = self.questions.patience(leads, Instant::now()).unwrap_or(NAP).min(NAP);
        if !leads {
            return asked;
        }
        let wake = self.wake.map_or(NAP, |wake| self.tools.clock.until(wake));
        wake.min(self.looks.patience()).min(asked)
    }

    /// Whether facts come though nothing happens: they are made in turns.
    fn owes(&self) -> bool {
        self.phase != Phase::Stopped && self.live.owes()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Seen(batch) => batch.seen.into_iter().for_each(|seen| self.see(seen)),
            Message::Answer(answer) => self.take_answer(answer),
            Message::Ask(asked) => self.questions.push(asked),
            Message::Lead(marks, idle) if self.phase == Phase::Standby => {
                self.barrier = Some(Barrier::new(marks, idle, Instant::now()));
            }
            Message::Lead(..) => {}
            Message::Config(config) => {
                self.live.reconfigure(&config);
                self.tools.metrics.configure(Switches::of(&config.file.metrics));
                self.policy = Arc::new(config.policy);
                self.told.push(Input::Policy(self.policy.clone()));
            }
            Message::Stop => {
                self.phase = Phase::Stopped;
                self.barrier = None;
            }
            Message::Settled(tell) => self.settled.push(tell),
            Message::End => self.ended = true,
        }
    }

    fn see(&mut self, seen: Seen) {
        if matches!(seen, Seen::Complete(Kind::Queueing(_, Group::Capstan))) {
            self.tools.publisher.doubt();
        }
        if self.phase == Phase::Standby {
            self.progress.note(&seen, Instant::now());
        }
        self.live.take(seen);
    }

    /// Leads, if everything was seen that the leader before us did; else the barrier stays.
    fn lead(&mut self, barrier: Barrier) -> Option<Barrier> {
        match barrier.passage(&self.progress, Instant::now()) {
            Passage::Until(_) => return Some(barrier),
            Passage::Free => {}
            Passage::Late(kinds) => {
                let kinds = names(&kinds).join(", ");
                tracing::warn!(kinds, "watches are behind; what is decided may be refused");
            }
        }
        self.phase = Phase::Leading;
        // What was observed is decided on now, whether or not anything changes.
        self.wake = Some(self.tools.clock.now());
        self.tools.metrics.leads(true);
        None
    }

    /// Before everything was read once we are not ready. Kinds that another configuration names
    /// later stop nothing: until they are read, what was known is decided on.
    fn say_what_is_unread(&mut self) {
        let ready = *self.tools.synced.borrow();
        let unread = self.live.unread();
        if unread != self.unread {
            if ready && self.unread.is_empty() {
                let kinds = names(&unread).join(", ");
                tracing::info!(kinds, "not read yet: they count once all of them are");
            } else if ready && unread.is_empty() {
                tracing::info!("all kinds that the configuration names were read");
            }
            self.tools.health.unread(names(&unread));
            self.tools.metrics.unread(unread.len());
            self.unread = unread;
        }
        if !ready && self.live.synced() {
            tracing::info!("the cluster was read");
            self.tools.health.synced();
            self.tools.synced.send_replace(true);
        }
    }

    fn take_answer(&mut self, answer: Answer) {
        let Answer { effect, result, .. } = answer;
        self.acts = true;
        let bind = self.binds.remove(&effect);
        match &result {
            EffectResult::Done => self.bound.extend(bind),
            EffectResult::Conflict(why) | EffectResult::Refused(why) => {
                tracing::warn!(effect = effect.0, pod = pod_name(&bind), %why, "effect refused");
            }
            EffectResult::Gone | EffectResult::TimedOut => {
                tracing::debug!(effect = effect.0, pod = pod_name(&bind), ?result, "effect ended");
            }
        }
        self.told.push(Input::Outcome { effect, result });
    }

    fn turn(&mut self) {
        self.say_what_is_unread();
        if let Some(barrier) = self.barrier.take() {
            self.barrier = self.lead(barrier);
        }
        let now = self.tools.clock.now();
        match self.phase {
            // What comes now is the first that this leader acts on, and says something of.
            Phase::Standby if self.barrier.is_some() => {}
            Phase::Standby => self.observe(now),
            Phase::Leading => self.decide(now),
            Phase::Stopped => {}
        }
        if std::mem::take(&mut self.acts) {
            self.tools.publisher.acts(std::mem::take(&mut self.bound));
        }
        self.answer_questions(now);
        if self.phase == Phase::Leading {
            self.looks.tell(&self.tools.publisher, &self.live, &self.engine);
            self.looks.look(&self.tools, &self.live, &mut self.engine);
        }
        self.settled.drain(..).for_each(|tell| _ = tell.send(()));
    }

    /// What changed in the cluster, and what else is told.
    fn facts(&mut self, now: Time) -> Vec<Input> {
        let drained = self.live.drain(now);
        for notice in &drained.notices {
            tracing::warn!("{notice}");
        }
        for input in &drained.inputs {
            if let Input::NodeGone(node) = input {
                tracing::info!(%node, "a node is gone");
            }
            self.tools.executor.learns(now, input);
        }
        let ours = |(kind, named)| match kind {
            Kind::Queueing(of, Group::Capstan) => Some((of, named)),
            _ => None,
        };
        let gone: Vec<_> = drained.queues_anew.into_iter().filter_map(ours).collect();
        if !gone.is_empty() {
            self.tools.publisher.queues_anew(gone);
        }
        let mut inputs = std::mem::take(&mut self.told);
        inputs.extend(drained.inputs);
        inputs
    }

    fn observe(&mut self, now: Time) {
        let inputs = self.facts(now);
        if !inputs.is_empty() {
            self.engine.observe(now, inputs);
        }
    }

    /// One cycle, if anything asks for one.
    fn decide(&mut self, now: Time) {
        let inputs = self.facts(now);
        if inputs.is_empty() && self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.cycle += 1;
        let span = tracing::info_span!("cycle", number = self.cycle, facts = inputs.len());
        let _entered = span.enter();
        let begun = Instant::now();
        let output = self.engine.step(now, inputs);
        let took = begun.elapsed();
        self.tools.metrics.step(&output.report, took);
        log(&output, took);
        let again = (!output.report.quiet).then_some(now);
        self.wake = again.or(output.next_wake);
        self.hand_out(output.effects);
        if !output.report.gone.is_empty() {
            self.tools.publisher.gone(&output.report.gone);
        }
        if !output.report.podless.is_empty() {
            self.tools.publisher.podless(&output.report.podless);
        }
    }

    /// Whether an effect would be written on what another scheduler shows.
    fn is_of_another(&self, effect: &Effect) -> bool {
        match &effect.action {
            Action::Deactivate { namespace, name } => {
                self.tools.publisher.is_anothers(namespace, name)
            }
            _ => false,
        }
    }

    /// Work whose Workload is to outlive the pods that these effects stop, or stop soon.
    fn outliving(&self, acts: &[Effect]) -> BTreeSet<Text> {
        let mut asked: BTreeMap<&Text, bool> = BTreeMap::new();
        for effect in acts {
            let is_so: fn(&WorkloadDetails) -> bool = match effect.action {
                Action::Evict { alone: false, .. } => publish::lets_go,
                Action::Deactivate { .. } => publish::is_bare,
                _ => continue,
            };
            asked.entry(&effect.workload).or_insert_with(|| {
                let Some((namespace, name)) = effect.workload.split_once('/') else { return false };
                let (namespace, name): (Text, Text) = (namespace.into(), name.into());
                let details = self.engine.details(&namespace, &name);
                details.is_some_and(|details| is_so(&details))
                    && !self.tools.publisher.is_anothers(&namespace, &name)
            });
        }
        asked.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name.clone()).collect()
    }

    /// What acts goes first; what is told waits for a free moment.
    fn hand_out(&mut self, effects: Vec<Effect>) {
        let says =
            |effect: &Effect| matches!(effect.action, Action::Status(_) | Action::Event { .. });
        let (says, acts): (Vec<Effect>, Vec<Effect>) = effects.into_iter().partition(says);
        let (others, acts): (Vec<Effect>, Vec<Effect>) =
            acts.into_iter().partition(|effect| self.is_of_another(effect));
        for effect in others {
            let result = EffectResult::Refused("its Workload is another scheduler's".into());
            self.told.push(Input::Outcome { effect: effect.id, result });
        }
        for effect in &acts {
            if let Action::Bind { pod, node, .. } = &effect.action {
                self.binds.insert(effect.id, (pod.clone(), node.clone()));
            }
        }
        self.acts |= !acts.is_empty();
        let outliving = self.outliving(&acts);
        self.tools.executor.dispatch_outlived(acts, &outliving);
        self.looks.news(says);
    }

    /// Who stands by has an engine of its own answer; who is about to lead does so itself then.
    fn answer_questions(&mut self, now: Time) {
        if !self.questions.any() {
            return;
        }
        let at = Instant::now();
        match self.phase {
            Phase::Leading => self.questions.answer_one(&mut self.engine, &self.live, now),
            Phase::Standby if self.barrier.is_some() || !self.questions.may_go_apart(at) => {}
            Phase::Standby => {
                self.questions.learn(&self.live);
                let told = (now, self.everything(now));
                self.questions.go_apart(at, at.elapsed(), told);
            }
            Phase::Stopped => self.questions.clear(),
        }
    }

    fn everything(&mut self, now: Time) -> Vec<Input> {
        let mut inputs = vec![Input::Policy(self.policy.clone())];
        inputs.extend(self.live.everything(now));
        inputs
    }
}

/// When the next turn may begin.
#[derive(Debug, Default)]
struct Pace {
    next: Option<Instant>,
}

impl Pace {
    /// How long a turn that is asked for now has to wait; not at all if it is `due` anyway.
    fn rest(&mut self, now: Instant, due: bool) -> Duration {
        let rest = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        let rest = if due { Duration::ZERO } else { rest };
        self.next = Some(now + rest + PACE);
        rest
    }

    /// How long a turn took, and since when.
    fn took(&mut self, begun: Instant, took: Duration) {
        let next = begun + (took * PART).min(PACE_MOST);
        self.next = self.next.max(Some(next));
    }
}

/// Rests while there is plenty to do that was decided before, as long as that may last.
fn rest_while(plenty: impl Fn() -> bool) {
    let begun = Instant::now();
    while plenty() && begun.elapsed() < REST_MOST {
        thread::sleep(GLANCE);
    }
}

fn names(kinds: &[Kind]) -> Vec<String> {
    kinds.iter().map(Kind::to_string).collect()
}

fn pod_name(bind: &Option<(PodRef, Text)>) -> Option<String> {
    bind.as_ref().map(|(pod, _)| format!("{}/{}", pod.namespace, pod.name))
}

/// A cycle that decided something is worth a line; others are for who looks closely.
fn log(output: &StepOutput, took: Duration) {
    let counts = output.report.counts;
    let (rounds, effects) = (output.report.rounds, output.effects.len());
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let (admitted, bound, preempted) = (counts.admitted, counts.bound, counts.preempted);
    if admitted + bound + preempted > 0 {
        tracing::info!(admitted, bound, preempted, rounds, effects, took_us, "decided");
    } else {
        tracing::debug!(considered = counts.considered, rounds, effects, took_us, "nothing new");
    }
}

#[cfg(test)]
mod tests;
