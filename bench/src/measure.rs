//! One case, timed.
//!
//! The clock covers `Engine::step` from "pods pending in its inputs" to "all decisions made", in
//! two parts. *Apply*: the batch of pod facts is taken in (rounds held back by a configuration
//! that allows none), workloads are derived and filed. *Decide*: the ordinary configuration
//! arrives, and steps run until one is quiet; building the index of each pod class over all nodes
//! is in it, since no class was ever met before. Outside of the clock: nodes, queues, pods that
//! run already, and dropping what the engine gave back. Outcomes of effects are not fed back.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::explain::reason::{FlavorProblem, Reason};
use capstan_core::model::input::Input;
use capstan_core::plan::{Action, StepOutput};
use capstan_core::policy::Policy;
use capstan_core::time::Time;

use crate::cases::{Case, Flow, Outcome, Scene, Target};
use crate::clock::{Clock, Took};
use crate::{flows, lifetimes};

/// A measured case.
pub struct Measured {
    /// Name of the case.
    pub name: String,
    /// Its family.
    pub family: &'static str,
    /// Nodes.
    pub nodes: u32,
    /// Pods that waited.
    pub pods: u32,
    /// Gangs of these.
    pub gangs: u32,
    /// The figure to reach.
    pub target: Option<Target>,
    /// One per repeat, in order.
    pub samples: Vec<Sample>,
}

/// One run of a case.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    /// Taking the facts in.
    pub apply: Took,
    /// Deciding.
    pub decide: Took,
    /// Decisions: pods bound, or gangs refused where nothing is bound.
    pub decisions: u64,
    /// Nodes whose score was computed.
    pub evaluated: u64,
    /// Rounds.
    pub rounds: u64,
    /// Virtual milliseconds until all work had ended, where it ends.
    pub virtual_ms: i64,
    /// Pods that were stopped on the way, where that is counted.
    pub evicted: u64,
    /// The least virtual time that its work could take, in milliseconds; 0: it does not end.
    pub least_ms: i64,
    /// The same beside what was run in vain, because it was stopped.
    pub least_beside_ms: i64,
}

impl Measured {
    /// The fastest processor time per decision, in nanoseconds: what disturbs a run only makes
    /// it slower.
    pub fn fastest_ns(&self) -> f64 {
        let per = |s: &Sample| s.decide.thread.as_secs_f64() * 1e9 / s.decisions as f64;
        self.samples.iter().map(per).fold(f64::INFINITY, f64::min)
    }
}

/// Runs the cases of a family as often as asked, in turns, so that a noisy moment disturbs all
/// sizes alike.
pub fn measure(family: &[Case], repeats: usize) -> Vec<Measured> {
    let of = |case: &Case| {
        let scene = (case.build)();
        let measured = Measured {
            name: case.name(),
            family: case.family,
            nodes: case.nodes,
            pods: scene.work.len() as u32,
            gangs: scene.gangs,
            target: case.target,
            samples: Vec::with_capacity(repeats),
        };
        (case.flow, scene, measured)
    };
    let mut runs: Vec<(Flow, Scene, Measured)> = family.iter().map(of).collect();
    for _ in 0..repeats {
        for (flow, scene, measured) in &mut runs {
            measured.samples.push(match flow {
                Flow::Burst => burst(&measured.name, scene),
                Flow::Restart => flows::restart(scene),
                Flow::Echo => flows::echo(scene),
                Flow::Churn => flows::churn(scene),
                Flow::Idle => flows::idle(scene),
                Flow::Ends => flows::ends(scene),
                Flow::Lifetimes(shapes) => lifetimes::play(scene, shapes),
            });
        }
    }
    runs.into_iter().map(|(_, _, measured)| measured).collect()
}

/// Reads something else until nothing of the engine is left in the caches near the processor.
/// Facts arrive long before they are decided on, and a small case must not look cheaper than a
/// large one only because it was still warm.
fn forget_caches() {
    const BYTES: usize = 64 << 20;
    const LINE: usize = 64;
    let other = vec![1_u8; BYTES];
    let sum: u64 = other.iter().step_by(LINE).map(|byte| u64::from(*byte)).sum();
    assert_eq!(sum, (BYTES / LINE) as u64);
}

/// An engine that knows the ground of a scene and decides nothing yet.
pub fn engine_on(scene: &Scene) -> Engine {
    let mut engine = Engine::new();
    engine.step(NOW, [patient()].into_iter().chain(scene.ground.iter().cloned()).collect());
    engine
}

/// Steps with the ordinary configuration until one is quiet.
pub fn decide(engine: &mut Engine) -> Vec<StepOutput> {
    let mut outputs = Vec::new();
    let mut inputs = vec![ordinary()];
    while outputs.last().is_none_or(|output: &StepOutput| !output.report.quiet) {
        outputs.push(engine.step(NOW, std::mem::take(&mut inputs)));
    }
    outputs
}

/// An arbitrary moment after everything was created.
pub const NOW: Time = Time(3_600_000);

/// A configuration that decides nothing yet.
pub fn patient() -> Input {
    Input::Policy(Arc::new(Policy { rounds_max: 0, ..Policy::default() }))
}

/// The ordinary configuration.
pub fn ordinary() -> Input {
    Input::Policy(Arc::new(Policy::default()))
}

fn burst(name: &str, scene: &Scene) -> Sample {
    let mut engine = engine_on(scene);
    let work: Vec<Input> = scene.work.iter().cloned().map(Input::Pod).collect();

    let clock = Clock::start();
    let applied = engine.step(NOW, work);
    let apply = clock.took();

    forget_caches();
    let clock = Clock::start();
    let outputs = decide(&mut engine);
    let decide = clock.took();

    assert!(applied.report.outcomes.is_empty(), "{name} decided before it was asked to");
    let bound: u64 = outputs.iter().map(bound).sum();
    let decisions = expect(name, scene, bound, &outputs);
    let evaluated = outputs.iter().map(|output| output.report.counts.nodes_scored).sum();
    let rounds = outputs.iter().map(|output| u64::from(output.report.rounds)).sum();
    Sample { apply, decide, decisions, evaluated, rounds, ..Sample::default() }
}

fn bound(output: &StepOutput) -> u64 {
    let binds = output.effects.iter().filter(|e| matches!(e.action, Action::Bind { .. }));
    binds.count() as u64
}

/// Checks what came out; the number of decisions in it.
fn expect(name: &str, scene: &Scene, bound: u64, outputs: &[StepOutput]) -> u64 {
    match scene.outcome {
        Outcome::Bound(pods) => {
            assert_eq!(bound, pods, "{name} bound another number of pods");
            bound
        }
        Outcome::Some => {
            assert!(bound > 0 && bound < scene.work.len() as u64, "{name} bound {bound} pods");
            bound
        }
        Outcome::Evicted(pods) => {
            let effects = outputs.iter().flat_map(|output| &output.effects);
            let evicted = effects.filter(|e| matches!(e.action, Action::Evict { .. })).count();
            assert_eq!((bound, evicted as u64), (0, pods), "{name} evicted another number");
            pods
        }
        Outcome::Waits => {
            let effects = outputs.iter().flat_map(|output| &output.effects);
            let evicted = effects.filter(|e| matches!(e.action, Action::Evict { .. })).count();
            assert_eq!((bound, evicted), (0, 0), "{name} decided for somebody");
            1
        }
        Outcome::Short { asked, holds } => {
            assert_eq!(bound, 0, "{name} bound some of a gang that does not fit");
            let outcomes = outputs.iter().flat_map(|output| &output.report.outcomes);
            let short: Vec<(u32, u32)> = outcomes.filter_map(shortage).collect();
            assert_eq!(short, [(asked, holds)], "{name} gave another reason");
            1
        }
    }
}

fn shortage(outcome: &capstan_core::plan::WorkloadOutcome) -> Option<(u32, u32)> {
    let capstan_core::plan::Outcome::Waiting(reason) = &outcome.outcome else { return None };
    match reason {
        Reason::Nodes(short) => Some((short.asked, short.holds)),
        Reason::Flavors { tried, .. } => match &tried.first()?.why {
            FlavorProblem::Nodes(short) => Some((short.asked, short.holds)),
            _ => None,
        },
        _ => None,
    }
}
