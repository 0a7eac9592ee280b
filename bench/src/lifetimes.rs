//! Work that arrives, runs and ends, in virtual time: the shapes that Kueue publishes figures for.
//!
//! Kueue's runner creates workloads at intervals and marks each as finished so long after it was
//! admitted; its bound is quota, not nodes (`test/performance/scheduler` there). The same is played
//! here without waiting: time jumps to the next arrival or end, effects are carried out at once,
//! and the clock runs while [`Engine::step`] does. What comes out is admissions in a second of
//! the engine's time, and how long the whole took in virtual time, which no machine changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use capstan_core::Engine;
use capstan_core::model::input::{Input, PodFacts, PodPhase, Text};
use capstan_core::plan::{Action, EffectResult, StepOutput};
use capstan_core::time::Time;

use crate::cases::{Lifetimes, Run, Scene};
use crate::clock::{Clock, Took};
use crate::measure::{Sample, engine_on, ordinary};

/// What happens next: when, in which order of those at one time, to which pod.
type Event = Reverse<(i64, u64, usize)>;

/// What is played.
struct Play<'a> {
    engine: Engine,
    shapes: &'a Lifetimes,
    /// Pods by number; one that was evicted comes back in its place.
    pods: Vec<PodFacts>,
    /// Numbers of those that wait or run, by uid.
    by_uid: BTreeMap<Text, usize>,
    /// Those that run or have still to come.
    events: BinaryHeap<Event>,
    ordered: u64,
    news: Vec<Input>,
    took: Took,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    admitted: u64,
    evicted: u64,
    /// Runs that were stopped.
    in_vain: Vec<Run>,
    evaluated: u64,
    rounds: u64,
    ended: usize,
    last: i64,
}

/// Plays all work of a scene to its end.
pub fn play(scene: &Scene, shapes: &Lifetimes) -> Sample {
    let mut engine = engine_on(scene);
    engine.step(Time(0), vec![ordinary()]);
    let pods = scene.work.clone();
    let arrivals = pods.iter().enumerate().map(|(at, pod)| Reverse((pod.created.0, 0, at)));
    let mut play = Play {
        engine,
        shapes,
        events: arrivals.collect(),
        pods,
        by_uid: BTreeMap::new(),
        ordered: 0,
        news: Vec::new(),
        took: Took::default(),
        sums: Sums::default(),
    };
    while let Some(Reverse((time, ..))) = play.events.peek() {
        let time = *time;
        play.happen(time);
        play.settle(time);
    }
    let sums = play.sums;
    assert_eq!(sums.ended, scene.work.len(), "all work comes to its end");
    Sample {
        apply: Took::default(),
        decide: play.took,
        decisions: sums.admitted,
        evaluated: sums.evaluated,
        rounds: sums.rounds,
        virtual_ms: sums.last,
        evicted: sums.evicted,
        least_ms: shapes.least(&[]),
        least_beside_ms: shapes.least(&sums.in_vain),
    }
}

impl Play<'_> {
    /// Everything that happens at one time.
    fn happen(&mut self, time: i64) {
        while let Some(Reverse((at, _, pod))) = self.events.peek().copied() {
            if at > time {
                break;
            }
            self.events.pop();
            let facts = &self.pods[pod];
            if facts.node.is_none() {
                self.by_uid.insert(facts.uid.clone(), pod);
                self.news.push(Input::Pod(facts.clone()));
            } else if facts.bound_at == Some(Time(time - self.shapes.runs(facts))) {
                // Not one that was evicted, and started again, since its end was set.
                self.by_uid.remove(&facts.uid);
                self.news.push(Input::PodGone(facts.uid.clone()));
                self.sums.ended += 1;
                self.sums.last = time;
            }
        }
    }

    /// Steps until nothing more is decided at this time.
    fn settle(&mut self, time: i64) {
        loop {
            let news = std::mem::take(&mut self.news);
            let clock = Clock::start();
            let output = self.engine.step(Time(time), news);
            let took = clock.took();
            self.took.wall += took.wall;
            self.took.thread += took.thread;
            self.sums.rounds += u64::from(output.report.rounds);
            self.sums.evaluated += output.report.counts.nodes_scored;
            self.carry_out(time, &output);
            if self.news.is_empty() && output.report.quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, time: i64, output: &StepOutput) {
        for effect in &output.effects {
            match &effect.action {
                Action::Bind { pod, node, note } => {
                    let number = self.by_uid[&pod.uid];
                    let facts = &mut self.pods[number];
                    facts.node = Some(node.clone());
                    facts.bound_at = Some(Time(time));
                    facts.phase = PodPhase::Running;
                    facts.binding = Some(note.clone().into());
                    self.news.push(Input::Pod(facts.clone()));
                    self.sums.admitted += 1;
                    self.ordered += 1;
                    let end = time + self.shapes.runs(&self.pods[number]);
                    self.events.push(Reverse((end, self.ordered, number)));
                }
                Action::Evict { pod, .. } => {
                    let number = self.by_uid.remove(&pod.uid).expect("a pod that runs");
                    self.news.push(Input::PodGone(pod.uid.clone()));
                    let facts = &mut self.pods[number];
                    facts.uid = format!("{}-again", facts.uid).into();
                    let from = facts.bound_at.map_or(time, |since| since.0);
                    let cpus = self.shapes.cpus(facts);
                    self.sums.in_vain.push(Run { from, to: time, cpus });
                    (facts.node, facts.bound_at, facts.binding) = (None, None, None);
                    facts.phase = PodPhase::Pending;
                    self.by_uid.insert(facts.uid.clone(), number);
                    self.news.push(Input::Pod(facts.clone()));
                    self.sums.evicted += 1;
                }
                _ => {}
            }
            let result = EffectResult::Done;
            self.news.push(Input::Outcome { effect: effect.id, result });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Size;

    #[test]
    fn what_comes_late_or_ran_in_vain_takes_its_time() {
        let whole = |count, every| Size { count, every, runs: 100, priority: 0, cpus: 20 };
        let none = whole(0, 1);
        let shapes = |size| Lifetimes { queues: 1, together: 1, sizes: [size, none, none] };
        // Three that arrive sooner than quota lets them run, and two that arrive later.
        assert_eq!(shapes(whole(3, 10)).least(&[]), 310);
        assert_eq!(shapes(whole(2, 500)).least(&[]), 1_100);
        let run = |from, to| Run { from, to, cpus: 20 };
        assert_eq!(shapes(whole(3, 10)).least(&[run(10, 60)]), 360);
        // While nobody else was there it was no loss.
        assert_eq!(shapes(whole(2, 500)).least(&[run(500, 550)]), 1_100);
    }
}
