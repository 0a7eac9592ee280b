//! A run: the engine and the world taking turns until a mode's end, and what came of it.
//!
//! It assumes nothing of the engine but `step`. Time stands still in [`Mode::Cycles`] and
//! [`Mode::UntilStable`], so backoffs and other wake-ups do not pass in them. In [`Mode::Until`]
//! the clock jumps to the next event or wake-up, and rounds repeat there until one is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use capstan_core::Engine;
use capstan_core::model::input::{Input, Text};
use capstan_core::plan::{Counts, Outcome, Preemption, Report, StepOutput};
use capstan_core::policy::Policy;
use capstan_core::time::{Span, Time};

use super::World;
use crate::progress::{Progress, Snapshot};

/// Rounds of [`Mode::UntilStable`] at most: what needs more is rather going in circles.
pub const ROUNDS_MAX: u32 = 10_000;

/// Rounds at one instant of [`Mode::Until`] at most. Work without queues is one head a round, so
/// a burst of this many pods still drains; beyond it two workloads keep displacing each other.
pub const ROUNDS_AT_ONCE_MAX: u32 = 1_000_000;

/// How often one may be stopped for the same other at one instant: more often they displace each
/// other for as long as anybody lets them.
pub const STOPS_AT_ONCE_MAX: u32 = 4;

/// Wake-ups in a row that change nothing with no event to come, after which nothing ever will.
/// Backoffs double up to a limit, so what a wake-up can bring comes within far fewer.
pub const WAKES_IDLE_MAX: u32 = 1_000;

/// How long a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This many rounds, time standing still.
    Cycles(u32),
    /// Until a round changes nothing, time standing still.
    UntilStable,
    /// Arrivals and ends are played up to a point in time.
    Until(Deadline),
}

/// Where [`Mode::Until`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// At this time.
    At(Time),
    /// This long after the earliest creation in the input.
    After(Span),
}

/// The times of the input that a clock can start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTimes {
    /// The latest timestamp of any kind.
    pub latest: Time,
    /// The earliest creation time.
    pub earliest: Time,
}

/// What a run starts from.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Facts of the cluster; a policy or outcome among them is ignored.
    pub inputs: Vec<Input>,
    /// The configuration; a step is one round whatever it says.
    pub policy: Policy,
    /// Where the clock starts.
    pub start: StartTimes,
    /// When it ends.
    pub mode: Mode,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The last round changed nothing, and nothing is to come.
    Settled,
    /// The rounds that were asked for are done; more would change something.
    Cycles,
    /// The deadline came first.
    Deadline,
    /// Cut by [`ROUNDS_MAX`], [`ROUNDS_AT_ONCE_MAX`], [`STOPS_AT_ONCE_MAX`] or
    /// [`WAKES_IDLE_MAX`].
    RoundsSpent,
    /// Somebody asked it to stop.
    Interrupted,
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// Rounds run, the last quiet one included.
    pub rounds: u32,
    /// Nothing is left to happen: `ending` is [`Ending::Settled`].
    pub settled: bool,
    /// Why it ended.
    pub ending: Ending,
    /// The clock at its end: the deadline if that was reached, else when something last happened.
    pub now: Time,
    /// Until when it was to be played, if time was; once it has settled all goes on until then as
    /// it does at its end.
    pub deadline: Option<Time>,
    /// Newly admitted workloads, `namespace/name`, each once, in order.
    pub admitted: Vec<Text>,
    /// Every stop of a victim that the plans counted on, in order, each once.
    pub preempted: Vec<Preemption>,
    /// One of those who displaced each other until they were cut off.
    pub circle: Option<Preemption>,
    /// What happened when.
    pub timeline: Vec<Moment>,
    /// The engine as it is now.
    pub engine: Engine,
    /// The cluster as it is now.
    pub world: World,
    /// Sums over all rounds.
    pub totals: Totals,
}

/// Something that happened to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// `namespace/name`.
    pub workload: Text,
    /// What.
    pub what: What,
}

/// The kinds of moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It appeared while time was played.
    Arrived,
    /// Quota taken, members placed.
    Admitted,
    /// It is being stopped for another.
    Preempted {
        /// `namespace/name` of that other.
        by: Text,
    },
    /// It is being stopped for nobody else's sake.
    Stopped {
        /// Why.
        why: String,
    },
    /// Its owner was unsuspended.
    Resumed,
    /// All its members have done their work.
    Finished,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The engine's own numbers.
    pub counts: Counts,
    /// Time spent inside the engine.
    pub engine_time: Duration,
}

/// Runs the engine on facts; [`run_watched`] with nobody watching.
pub fn run(
    inputs: Vec<Input>,
    policy: Policy,
    start: StartTimes,
    mode: Mode,
    progress: &Progress,
) -> Run {
    run_watched(Scenario { inputs, policy, start, mode }, progress, &mut |_, _| {})
}

/// Runs the engine on facts; `watch` sees each step's report and how long the step took.
pub fn run_watched(
    scenario: Scenario,
    progress: &Progress,
    watch: &mut dyn FnMut(&Report, Duration),
) -> Run {
    let deadline = match scenario.mode {
        Mode::Until(deadline) => Some(deadline.time(scenario.start)),
        Mode::Cycles(_) | Mode::UntilStable => None,
    };
    let mut engine = Engine::new();
    let mut engine_time = Duration::ZERO;
    let mut step = |now, inputs| {
        let begun = Instant::now();
        let output = engine.step(now, inputs);
        let took = begun.elapsed();
        engine_time += took;
        watch(&output.report, took);
        output
    };
    let played = play(scenario, progress, &mut step);
    let Played { world, ledger, rounds, ending, now } = played;
    Run {
        rounds,
        settled: ending == Ending::Settled,
        ending,
        now,
        deadline,
        admitted: ledger.admitted,
        preempted: ledger.preempted,
        circle: ledger.circle,
        timeline: ledger.timeline,
        engine,
        world,
        totals: Totals { counts: ledger.counts, engine_time },
    }
}

/// A run without its engine.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) world: World,
    pub(super) ledger: Ledger,
    pub(super) rounds: u32,
    pub(super) ending: Ending,
    pub(super) now: Time,
}

/// What the reports said, summed up.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) admitted: Vec<Text>,
    pub(super) preempted: Vec<Preemption>,
    pub(super) timeline: Vec<Moment>,
    pub(super) counts: Counts,
    admitted_once: BTreeSet<Text>,
    /// Admitted and not stopped since: growing, or binding after a resume, is no new moment.
    holding: BTreeSet<Text>,
    /// Victims whose stop is in `preempted` and that were not admitted since.
    stopped: BTreeSet<Text>,
    /// The instant, and how often each was stopped at it for whom.
    at_once: (Time, BTreeMap<(Text, Text), u32>),
    /// Who was stopped too often.
    circle: Option<Preemption>,
}

/// Plays a scenario against anything that steps.
pub(super) fn play(
    scenario: Scenario,
    progress: &Progress,
    step: &mut dyn FnMut(Time, Vec<Input>) -> StepOutput,
) -> Played {
    let Scenario { inputs, policy, start, mode } = scenario;
    let (world, now) = match mode {
        Mode::Cycles(_) | Mode::UntilStable => (World::still(inputs, policy), start.latest),
        Mode::Until(deadline) => {
            let begin = start.earliest.min(deadline.time(start));
            (World::playing(inputs, policy, begin), begin)
        }
    };
    let mut turns = Turns { world, ledger: Ledger::default(), rounds: 0, now, progress, step };
    let ending = match mode {
        Mode::Cycles(rounds) => turns.cycles(rounds),
        Mode::UntilStable => turns.until_quiet(ROUNDS_MAX).ending(),
        Mode::Until(deadline) => turns.until(deadline.time(start)),
    };
    let Turns { world, ledger, rounds, now, .. } = turns;
    Played { world, ledger, rounds, ending, now }
}

impl Deadline {
    fn time(self, start: StartTimes) -> Time {
        match self {
            Deadline::At(time) => time,
            Deadline::After(span) => start.earliest.plus(span),
        }
    }
}

/// The engine and the world taking turns.
struct Turns<'a> {
    world: World,
    ledger: Ledger,
    rounds: u32,
    now: Time,
    progress: &'a Progress,
    step: &'a mut dyn FnMut(Time, Vec<Input>) -> StepOutput,
}

/// What a round leaves to do.
struct Round {
    /// It changed nothing.
    quiet: bool,
    /// The engine wants to be called then.
    wake: Option<Time>,
}

/// How rounds at one instant ended.
enum Instants {
    /// A round was quiet; the engine wants to be called then.
    Quiet { wake: Option<Time>, rounds: u32 },
    /// Too many rounds.
    Spent,
    /// Asked to stop.
    Interrupted,
}

impl Instants {
    fn ending(&self) -> Ending {
        match self {
            Instants::Quiet { .. } => Ending::Settled,
            Instants::Spent => Ending::RoundsSpent,
            Instants::Interrupted => Ending::Interrupted,
        }
    }
}

impl Turns<'_> {
    /// One step of the engine, its effects, and what the cluster does about them.
    fn round(&mut self) -> Round {
        let _span = tracing::debug_span!("step", round = self.rounds, now = self.now.0).entered();
        let output = (self.step)(self.now, self.world.take_changes());
        self.rounds = self.rounds.saturating_add(1);
        let counts = &output.report.counts;
        tracing::debug!(
            admitted = counts.admitted,
            preempted = counts.preempted,
            effects = output.effects.len(),
            quiet = output.report.quiet,
            "decided"
        );
        self.ledger.enter(self.now, &output.report);
        for effect in output.effects {
            self.world.carry_out(self.now, effect);
        }
        self.world.settle(self.now);
        self.world.let_go(&output.report.unused);
        self.ledger.happened(&mut self.world.moments);
        self.progress.update(Snapshot {
            rounds: self.rounds,
            admitted: u32::try_from(self.ledger.admitted.len()).unwrap_or(u32::MAX),
            pending: self.world.pending(),
            now: self.world.agenda.is_some().then_some(self.now),
        });
        Round { quiet: output.report.quiet && !self.world.stirred(), wake: output.next_wake }
    }

    /// Exactly this many rounds.
    fn cycles(&mut self, rounds: u32) -> Ending {
        let mut ending = Ending::Cycles;
        for _ in 0..rounds {
            if self.progress.stopped() {
                return Ending::Interrupted;
            }
            ending = if self.round().quiet { Ending::Settled } else { Ending::Cycles };
        }
        ending
    }

    /// Rounds at this instant until one is quiet.
    fn until_quiet(&mut self, limit: u32) -> Instants {
        for rounds in 1..=limit {
            if self.progress.stopped() {
                return Instants::Interrupted;
            }
            let round = self.round();
            if round.quiet {
                return Instants::Quiet { wake: round.wake, rounds };
            }
            if self.ledger.circle.is_some() {
                break;
            }
        }
        Instants::Spent
    }

    /// From event to event up to the deadline.
    fn until(&mut self, deadline: Time) -> Ending {
        self.arrive();
        let mut idle = 0;
        loop {
            let (wake, rounds) = match self.until_quiet(ROUNDS_AT_ONCE_MAX) {
                Instants::Quiet { wake, rounds } => (wake, rounds),
                cut @ (Instants::Spent | Instants::Interrupted) => return cut.ending(),
            };
            // A wake-up that is not in the future was heard by the round that just ended.
            let wake = wake.filter(|wake| *wake > self.now);
            let event = self.world.next_event();
            idle = if rounds > 1 || event.is_some() { 0 } else { idle + 1 };
            let Some(next) = event.into_iter().chain(wake).min() else { return Ending::Settled };
            if next > deadline {
                self.now = self.now.max(deadline);
                return Ending::Deadline;
            }
            if idle > WAKES_IDLE_MAX {
                return Ending::RoundsSpent;
            }
            self.now = next;
            self.arrive();
        }
    }

    fn arrive(&mut self) {
        self.world.advance(self.now);
        self.ledger.happened(&mut self.world.moments);
    }
}

impl Ledger {
    /// Enters what the world tells. Who has finished may begin anew, with members that come later.
    fn happened(&mut self, moments: &mut Vec<Moment>) {
        for moment in moments.drain(..) {
            if moment.what == What::Finished {
                self.holding.remove(&moment.workload);
            }
            self.timeline.push(moment);
        }
    }

    /// Enters what a step decided.
    fn enter(&mut self, at: Time, report: &Report) {
        let (sum, step) = (&mut self.counts, &report.counts);
        sum.considered += step.considered;
        sum.admitted += step.admitted;
        sum.bound += step.bound;
        sum.preempted += step.preempted;
        sum.nodes_scored += step.nodes_scored;
        for decided in &report.outcomes {
            match &decided.outcome {
                Outcome::Admitted => self.admit(at, &decided.workload),
                Outcome::Preempting(victims) => {
                    for victim in victims {
                        self.stop(at, victim);
                    }
                }
                Outcome::Waiting(_) => {}
            }
        }
        report.stopped.iter().for_each(|stopped| self.stop(at, stopped));
    }

    fn admit(&mut self, at: Time, workload: &Text) {
        self.stopped.remove(workload);
        if self.admitted_once.insert(workload.clone()) {
            self.admitted.push(workload.clone());
        }
        if self.holding.insert(workload.clone()) {
            self.timeline.push(Moment { at, workload: workload.clone(), what: What::Admitted });
        }
    }

    fn stop(&mut self, at: Time, victim: &Preemption) {
        if !self.stopped.insert(victim.victim.clone()) {
            return;
        }
        self.holding.remove(&victim.victim);
        if self.at_once.0 != at {
            self.at_once = (at, BTreeMap::new());
        }
        let pair = (victim.victim.clone(), victim.preemptor.clone());
        let times = self.at_once.1.entry(pair).or_default();
        *times += 1;
        if *times > STOPS_AT_ONCE_MAX {
            self.circle.get_or_insert_with(|| victim.clone());
        }
        self.preempted.push(victim.clone());
        let what = match victim.for_another() {
            true => What::Preempted { by: victim.preemptor.clone() },
            false => What::Stopped { why: victim.because() },
        };
        self.timeline.push(Moment { at, workload: victim.victim.clone(), what });
    }
}
