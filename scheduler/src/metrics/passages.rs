//! What work goes through, counted and timed: admissions, stops, ends.
//!
//! Everything is said by the milestones of a step's report, with the queues that the work was in
//! then. Only the cohorts above its queue are looked up later, with the next look at the quota
//! tree: who is admitted before the first look counts there as well. With that look goes what was
//! counted of queues and cohorts that are gone.

use std::collections::BTreeMap;

use capstan_core::explain::census::QueueShape;
use capstan_core::explain::milestone::{Passage, Stop, Whose};
use capstan_core::model::input::{StopKind, Text};
use capstan_core::plan::{Outcome, Report};
use parking_lot::Mutex;
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Registry};

use super::Look;
use super::names::Names;
use super::register::{Buckets, Counted, Timed, counters, histograms, int_gauges, keep};

/// What a cycle came to, as Kueue says it.
const SUCCESS: &str = "success";
const INADMISSIBLE: &str = "inadmissible";

/// Counters and histograms of passages.
#[derive(Debug)]
pub(super) struct Passages {
    cycles: Cycles,
    numbers: Numbers,
    times: Times,
    /// Admissions whose cohorts are still to be looked up, by ClusterQueue and class.
    above: Mutex<BTreeMap<(Text, Text), u64>>,
    /// Who there was at the last look.
    there: Mutex<Names>,
}

/// What rounds came to.
#[derive(Debug)]
struct Cycles {
    attempts: IntCounterVec,
    seconds: HistogramVec,
    skips: IntGaugeVec,
    recomputed: IntCounterVec,
}

/// How often.
#[derive(Debug)]
struct Numbers {
    reserved: Counted,
    admitted: Counted,
    finished: Counted,
    evicted: Counted,
    evicted_once: IntCounterVec,
    preempted: IntCounterVec,
    in_cohorts: IntCounterVec,
}

/// How long.
#[derive(Debug)]
struct Times {
    reserved: Timed,
    admitted: Timed,
    ready: Timed,
    ready_after: Timed,
    execution: Timed,
    eviction: Timed,
}

impl Cycles {
    fn new(at: &Registry) -> Cycles {
        Cycles {
            attempts: counters(
                at,
                ("admission_attempts_total", "Rounds with work to look at, by what came of them."),
                &["result"],
            ),
            seconds: histograms(
                at,
                (
                    "admission_attempt_duration_seconds",
                    "Time that the engine took for a step with work to look at.",
                ),
                &["result"],
            ),
            skips: int_gauges(
                at,
                (
                    "admission_cycle_preemption_skips",
                    "Workloads of the last step that would have stopped others, and were passed \
                     over for what others of their round took.",
                ),
                &["cluster_queue"],
            ),
            recomputed: counters(
                at,
                (
                    "preemption_target_recomputations_total",
                    "Preemptors whose victims were chosen anew, because another of the round had \
                     one, by what came of it.",
                ),
                &["cluster_queue", "result"],
            ),
        }
    }
}

impl Numbers {
    fn new(at: &Registry) -> Numbers {
        let class = &["priority_class"][..];
        let why = &["reason", "underlying_cause", "priority_class"][..];
        let counted = |name, help, rest| Counted::new(at, (name, help), rest);
        Numbers {
            reserved: counted(
                "quota_reserved_workloads_total",
                "Workloads that took quota.",
                class,
            ),
            admitted: counted("admitted_workloads_total", "Workloads admitted.", class),
            finished: counted("finished_workloads_total", "Workloads whose work is done.", class),
            evicted: counted("evicted_workloads_total", "Workloads stopped, by why.", why),
            evicted_once: counters(
                at,
                (
                    "evicted_workloads_once_total",
                    "Different workloads that were stopped at least once, by why.",
                ),
                &["cluster_queue", "reason", "underlying_cause", "priority_class"],
            ),
            preempted: counters(
                at,
                ("preempted_workloads_total", "Workloads stopped to make room for others."),
                &["preempting_cluster_queue", "reason"],
            ),
            in_cohorts: counters(
                at,
                (
                    "cohort_subtree_admitted_workloads_total",
                    "Workloads admitted in all queues below a cohort.",
                ),
                &["cohort", "priority_class"],
            ),
        }
    }
}

impl Times {
    fn new(at: &Registry) -> Times {
        let class = &["priority_class"][..];
        let timed = |name, help, rest| Timed::new(at, (name, help), Buckets::Waits, rest);
        Times {
            reserved: timed(
                "quota_reserved_wait_time_seconds",
                "Time from the creation of a workload, or its last stop, until it took quota.",
                class,
            ),
            admitted: timed(
                "admission_wait_time_seconds",
                "Time from the creation of a workload, or its last stop, until it was admitted.",
                class,
            ),
            ready: timed(
                "ready_wait_time_seconds",
                "Time from the creation of a workload, or its last stop, until its pods started.",
                class,
            ),
            ready_after: timed(
                "admitted_until_ready_wait_time_seconds",
                "Time from the admission of a workload until its pods started.",
                class,
            ),
            execution: Timed::new(
                at,
                (
                    "execution_time_seconds",
                    "Time that a workload held quota, all its runs together, when it is done.",
                ),
                Buckets::Runs,
                class,
            ),
            eviction: timed(
                "workload_eviction_latency_seconds",
                "Time from the decision to stop a workload until what it held is free.",
                &["reason"],
            ),
        }
    }
}

impl Passages {
    pub(super) fn new(at: &Registry) -> Passages {
        Passages {
            cycles: Cycles::new(at),
            numbers: Numbers::new(at),
            times: Times::new(at),
            above: Mutex::default(),
            there: Mutex::default(),
        }
    }

    /// Counts one step of the engine that took so many seconds.
    pub(super) fn step(&self, report: &Report, seconds: f64, locals: bool) {
        self.count_attempts(report, seconds);
        if report.counts.considered > 0 {
            self.cycles.skips.reset();
        }
        let mut known = self.there.lock();
        for milestone in &report.milestones {
            known.meet(milestone);
            self.pass(&milestone.of, &milestone.what, locals);
        }
    }

    /// Rounds with work to look at are Kueue's cycles.
    fn count_attempts(&self, report: &Report, seconds: f64) {
        let mut rounds: BTreeMap<u32, bool> = BTreeMap::new();
        for decided in &report.outcomes {
            *rounds.entry(decided.round).or_default() |= decided.outcome == Outcome::Admitted;
        }
        let word = |success| if success { SUCCESS } else { INADMISSIBLE };
        for success in rounds.values() {
            self.cycles.attempts.with_label_values(&[word(*success)]).inc();
        }
        if !rounds.is_empty() {
            let any = rounds.values().any(|success| *success);
            self.cycles.seconds.with_label_values(&[word(any)]).observe(seconds);
        }
    }

    fn pass(&self, of: &Whose, what: &Passage, locals: bool) {
        let class = of.priority_class.as_deref().unwrap_or_default();
        match what {
            Passage::Admitted { waited } => {
                // Quota and places are one decision: what reserves quota is admitted.
                for counter in [&self.numbers.reserved, &self.numbers.admitted] {
                    counter.count(of, locals, &[class]);
                }
                for timer in [&self.times.reserved, &self.times.admitted] {
                    timer.time(of, locals, *waited, &[class]);
                }
                if let Some(queue) = &of.cluster_queue {
                    let key = (queue.clone(), of.priority_class.clone().unwrap_or_default());
                    *self.above.lock().entry(key).or_default() += 1;
                }
            }
            Passage::Ready { waited, admitted } => {
                self.times.ready.time(of, locals, *waited, &[class]);
                self.times.ready_after.time(of, locals, *admitted, &[class]);
            }
            Passage::Evicted(stop) => {
                let Stop { reason, preempting, first } = &**stop;
                let (word, cause) = StopKind::of(*reason).words();
                self.numbers.evicted.count(of, locals, &[word, cause, class]);
                let queue = of.cluster_queue.as_deref().unwrap_or_default();
                if *first {
                    self.numbers.evicted_once.with_label_values(&[queue, word, cause, class]).inc();
                }
                if reason.for_another() {
                    let by = preempting.as_deref().unwrap_or_default();
                    self.numbers.preempted.with_label_values(&[by, reason.as_str()]).inc();
                }
            }
            Passage::Left { reason, took } => {
                self.times.eviction.time(of, locals, *took, &[StopKind::of(**reason).words().0]);
            }
            Passage::Skipped => {
                let queue = of.cluster_queue.as_deref().unwrap_or_default();
                self.cycles.skips.with_label_values(&[queue]).inc();
            }
            Passage::Recomputed(came) => {
                let queue = of.cluster_queue.as_deref().unwrap_or_default();
                self.cycles.recomputed.with_label_values(&[queue, came.as_str()]).inc();
            }
            Passage::Finished { ran } => {
                self.numbers.finished.count(of, locals, &[class]);
                self.times.execution.time(of, locals, *ran, &[class]);
            }
        }
    }

    /// Takes in who there is now.
    pub(super) fn look(&self, look: &Look<'_>) {
        self.place(&look.census.shapes);
        let there = Names::of(look);
        let mut known = self.there.lock();
        let gone = !there.include(&known);
        *known = there;
        if gone {
            self.keep(&known);
        }
    }

    /// Forgets everybody else.
    fn keep(&self, there: &Names) {
        let Numbers { reserved, admitted, finished, evicted, .. } = &self.numbers;
        [reserved, admitted, finished, evicted].into_iter().for_each(|it| it.keep(there));
        let Times { reserved, admitted, ready, ready_after, execution, eviction } = &self.times;
        let timers = [reserved, admitted, ready, ready_after, execution, eviction];
        timers.into_iter().for_each(|it| it.keep(there));
        for counters in [&self.numbers.evicted_once, &self.numbers.preempted] {
            keep(counters, |labels| there.has_queue(labels[0]));
        }
        keep(&self.cycles.skips, |labels| there.has_queue(labels[0]));
        keep(&self.cycles.recomputed, |labels| there.has_queue(labels[0]));
        keep(&self.numbers.in_cohorts, |labels| there.has_cohort(labels[0]));
    }

    /// Counts what was admitted for the cohorts above its queue.
    fn place(&self, shapes: &[QueueShape]) {
        let waiting = std::mem::take(&mut *self.above.lock());
        if waiting.is_empty() {
            return;
        }
        let cohorts: BTreeMap<&Text, &[Text]> =
            shapes.iter().map(|shape| (&shape.name, &shape.cohorts[..])).collect();
        for ((queue, class), count) in waiting {
            for cohort in cohorts.get(&queue).copied().unwrap_or_default() {
                self.numbers.in_cohorts.with_label_values(&[&**cohort, &*class]).inc_by(count);
            }
        }
    }

    /// Forgets what was counted by LocalQueue.
    pub(super) fn forget_locals(&self) {
        let Numbers { reserved, admitted, finished, evicted, .. } = &self.numbers;
        [reserved, admitted, finished, evicted].into_iter().for_each(Counted::forget_locals);
        let Times { reserved, admitted, ready, ready_after, execution, eviction } = &self.times;
        let timers = [reserved, admitted, ready, ready_after, execution, eviction];
        timers.into_iter().for_each(Timed::forget_locals);
    }
}
