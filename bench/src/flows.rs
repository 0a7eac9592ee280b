//! Flows beside the burst: a restart, the echo of what was decided, steady change, and none.
//!
//! Each is timed whole, as one figure: there is nothing to apply apart from deciding.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{Input, PodFacts, PodPhase, PodShape, Text};
use capstan_core::plan::{Action, Effect, EffectResult, StepOutput};
use capstan_tests::large::{GPUS, floor_name};

use crate::cases::Scene;
use crate::clock::{Clock, Took};
use crate::measure::{NOW, Sample, decide, engine_on, ordinary};

/// A new engine is fed everything as it runs, in one step.
pub fn restart(scene: &Scene) -> Sample {
    let mut engine = engine_on(scene);
    let running = scene.work.iter().enumerate().map(|(at, pod)| {
        let node = floor_name(at as u32 / GPUS as u32);
        PodFacts { phase: PodPhase::Running, ..bound(pod, node) }
    });
    let facts = [ordinary()].into_iter().chain(running.map(Input::Pod)).collect();
    let clock = Clock::start();
    let output = engine.step(NOW, facts);
    let took = clock.took();
    assert!(decides_nothing(&output), "nothing is left to decide");
    timed(took, scene.work.len() as u64, &[output])
}

/// Everything is bound, then the API shows it.
pub fn echo(scene: &Scene) -> Sample {
    let (mut engine, outputs) = filled(scene);
    let (mut facts, mut outcomes) = (Vec::new(), Vec::new());
    let mut pods: BTreeMap<&Text, &PodFacts> = scene.work.iter().map(|p| (&p.uid, p)).collect();
    for effect in outputs.into_iter().flat_map(|output| output.effects) {
        let Action::Bind { pod, node, note } = effect.action else { continue };
        outcomes.push(Input::Outcome { effect: effect.id, result: EffectResult::Done });
        let pod = pods.remove(&pod.uid).expect("each pod is bound once");
        facts.push(Input::Pod(PodFacts { binding: Some(note.into()), ..bound(pod, node) }));
    }
    outcomes.extend(facts);
    let clock = Clock::start();
    let output = engine.step(NOW, outcomes);
    let took = clock.took();
    assert!(decides_nothing(&output), "nothing is left to decide");
    timed(took, scene.work.len() as u64, &[output])
}

/// Steps of steady change.
const CHANGES: usize = 200;

/// One gang goes and an equal one comes, a step each.
pub fn churn(scene: &Scene) -> Sample {
    let (mut engine, outputs) = filled(scene);
    drop(outputs);
    let size = scene.work.len() / scene.gangs as usize;
    // Every so many gangs, so that all racks are met.
    let stride = scene.gangs as usize / CHANGES;
    let batches: Vec<Vec<Input>> = (0..CHANGES)
        .map(|at| {
            let gone = &scene.work[at * stride * size..][..size];
            let left = gone.iter().map(|pod| Input::PodGone(pod.uid.clone()));
            let come = gone.iter().map(|pod| {
                let mut next = pod.clone();
                next.uid = format!("{}-again", pod.uid).into();
                Input::Pod(next)
            });
            left.chain(come).collect()
        })
        .collect();
    let mut outputs = Vec::with_capacity(CHANGES);
    let clock = Clock::start();
    for batch in batches {
        outputs.push(engine.step(NOW, batch));
    }
    let took = clock.took();
    let bound: u64 = outputs.iter().map(|output| output.report.counts.bound).sum();
    assert_eq!(bound, (CHANGES * size) as u64, "each gang that comes takes the room of one");
    timed(took, bound, &outputs)
}

/// All of it waits already; a node says once more what it said before.
pub fn idle(scene: &Scene) -> Sample {
    let (mut engine, outputs) = filled(scene);
    let bound: u64 = outputs.iter().map(|output| output.report.counts.bound).sum();
    assert_eq!(bound, 0, "nothing fits");
    drop(outputs);
    let mut nodes = scene.ground.iter().filter(|fact| matches!(fact, Input::Node(_)));
    let again = nodes.next().expect("a node").clone();
    let clock = Clock::start();
    let output = engine.step(NOW, vec![again]);
    let took = clock.took();
    assert!(decides_nothing(&output), "nothing is left to decide");
    timed(took, 1, &[output])
}

/// Ends that are timed.
const ENDS: usize = 50;

/// What runs ends long before it said, which helps nobody but the head whose start is reserved.
pub fn ends(scene: &Scene) -> Sample {
    let (mut engine, outputs) = filled(scene);
    let bound: u64 = outputs.iter().map(|output| output.report.counts.bound).sum();
    assert_eq!(bound, 0, "all of it is held");
    let mut running = scene.ground.iter().filter_map(|fact| match fact {
        Input::Pod(pod) => Some(pod.uid.clone()),
        _ => None,
    });
    // After the first it is known what was free when all were looked at.
    let mut end = |engine: &mut Engine| {
        let mut facts = vec![Input::PodGone(running.next().expect("some run"))];
        let mut outputs = Vec::new();
        while outputs.last().is_none_or(|output: &StepOutput| !output.report.quiet) {
            outputs.push(engine.step(NOW, std::mem::take(&mut facts)));
        }
        outputs
    };
    drop(end(&mut engine));
    let clock = Clock::start();
    let mut outputs = Vec::new();
    (0..ENDS).for_each(|_| outputs.extend(end(&mut engine)));
    let took = clock.took();
    assert!(outputs.iter().all(|it| it.report.counts.bound == 0), "they go on waiting");
    timed(took, ENDS as u64, &outputs)
}

/// A pod as the API shows it once it is bound: the node is in its spec, too.
fn bound(pod: &PodFacts, node: Text) -> PodFacts {
    let shape = PodShape { node_name: Some(node.clone()), ..PodShape::clone(&pod.shape) };
    PodFacts { shape: Arc::new(shape), node: Some(node), ..pod.clone() }
}

fn filled(scene: &Scene) -> (Engine, Vec<StepOutput>) {
    let mut engine = engine_on(scene);
    engine.step(NOW, scene.work.iter().cloned().map(Input::Pod).collect());
    let outputs = decide(&mut engine);
    (engine, outputs)
}

/// It may say how things stand, but does nothing about them.
fn decides_nothing(output: &StepOutput) -> bool {
    let says = |effect: &Effect| matches!(effect.action, Action::Status(_));
    output.report.quiet && output.effects.iter().all(says)
}

fn timed(decide: Took, decisions: u64, outputs: &[StepOutput]) -> Sample {
    let evaluated = outputs.iter().map(|output| output.report.counts.nodes_scored).sum();
    let rounds = outputs.iter().map(|output| u64::from(output.report.rounds)).sum();
    let apply = Took::default();
    Sample { apply, decide, decisions, evaluated, rounds, ..Sample::default() }
}
