//! Prometheus metrics of decisions and quotas, named as Kueue names its own.
//!
//! Steps are counted as they happen ([`Metrics::step`]), what the engine keeps is set whenever
//! somebody looks ([`Metrics::footprint`]); what needs a name that a report does not
//! carry (the ClusterQueue of a workload) waits for the next look at the engine's views
//! ([`Metrics::views`]). Labels are names of queues, flavors and resources, or words of an enum;
//! never of pods or workloads. An empty `cluster_queue` is work without one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capstan_core::explain::view::{Footprint, QueueView, WorkloadView};
use capstan_core::model::input::Text;
use capstan_core::money::MicroUsd;
use capstan_core::plan::{Outcome, PreemptionReason, Report, State};
use parking_lot::Mutex;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder,
};

use self::budgets::BudgetGauges;

mod budgets;
#[cfg(test)]
mod tests;

/// Upper bounds of the step duration histogram in seconds: a quiet step takes microseconds, the
/// largest gang that is promised takes 150 ms.
const STEP_SECONDS: [f64; 12] =
    [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.15, 0.5, 1.0, 5.0];

/// Upper bounds of how long work waited, in seconds: those of Kueue.
const WAIT_SECONDS: [f64; 14] = [
    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_280.0, 2_560.0, 5_120.0, 10_240.0,
];

/// Why a victim is evicted, as its condition has it.
const PREEMPTED: &str = "Preempted";

/// Millionths in a dollar.
const MICRO: f64 = 1e6;

/// All metrics and their registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rounds: IntCounter,
    cut_short: IntCounter,
    considered: IntCounter,
    bound: IntCounter,
    step_seconds: Histogram,
    admitted: IntCounterVec,
    preempted: IntCounterVec,
    evicted: IntCounterVec,
    waited: HistogramVec,
    pending: IntGaugeVec,
    admitted_active: IntGaugeVec,
    unadmitted: IntGaugeVec,
    status: IntGaugeVec,
    share: GaugeVec,
    quota: QuotaGauges,
    usd_per_hour: GaugeVec,
    budgets: BudgetGauges,
    published: IntCounterVec,
    answered: IntCounterVec,
    reloads: IntCounterVec,
    entries: IntGaugeVec,
    sweeps: IntGauge,
    leader: IntGauge,
    unread: IntGauge,
    unnamed: Mutex<Unnamed>,
}

/// One gauge for each column of a queue's quota table.
#[derive(Debug)]
struct QuotaGauges {
    nominal: GaugeVec,
    used: GaugeVec,
    borrowed: GaugeVec,
    lent: GaugeVec,
}

/// Decisions whose ClusterQueue is looked up with the next views; bounded by what is decided
/// between two looks.
#[derive(Debug, Default)]
struct Unnamed {
    admitted: BTreeMap<Text, u64>,
    preempted: BTreeMap<(Text, PreemptionReason), u64>,
    /// Who was stopped, and why.
    evicted: Vec<(Text, &'static str)>,
    /// Victims whose stop was counted and that were not admitted since.
    stopped: BTreeSet<Text>,
}

impl QuotaGauges {
    fn new(at: &Registry) -> QuotaGauges {
        QuotaGauges {
            nominal: quota(at, "nominal_quota", "Own quota."),
            used: quota(at, "resource_usage", "Quota in use, borrowed quota included."),
            borrowed: quota(at, "borrowed", "Quota used beyond the own."),
            lent: quota(at, "lent", "Own quota that others of the cohort use."),
        }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// Everything at zero.
    pub fn new() -> Metrics {
        let registry = Registry::new();
        let at = &registry;
        let by_queue = &["cluster_queue"][..];
        Metrics {
            rounds: counter(at, "rounds_total", "Scheduling rounds."),
            cut_short: counter(
                at,
                "steps_cut_short_total",
                "Steps that ended at their bound of rounds while something still changed.",
            ),
            considered: counter(
                at,
                "workloads_considered_total",
                "Workloads looked at, once for each round in which they headed their queue.",
            ),
            bound: counter(at, "pods_bound_total", "Pods that were given a node."),
            step_seconds: histogram(
                at,
                "step_duration_seconds",
                "Time that the engine took for one step.",
            ),
            admitted: counters(at, ("admitted_workloads_total", "Workloads admitted."), by_queue),
            preempted: counters(
                at,
                ("preempted_workloads_total", "Workloads stopped to make room for others."),
                &["preempting_cluster_queue", "reason"],
            ),
            evicted: evicted(at),
            waited: waited(at),
            pending: int_gauges(at, "pending_workloads", "Workloads that wait."),
            admitted_active: int_gauges(
                at,
                "admitted_active_workloads",
                "Workloads that hold quota.",
            ),
            unadmitted: unadmitted(at),
            status: status(at),
            share: share(at),
            quota: QuotaGauges::new(at),
            usd_per_hour: gauges(
                at,
                ("cluster_queue_usd_per_hour", "Price of all that runs in the ClusterQueue."),
                by_queue,
            ),
            budgets: BudgetGauges::new(at),
            published: counters(
                at,
                (
                    "published_total",
                    "Requests for what people look at, and what was merged or dropped instead.",
                ),
                &["what"],
            ),
            answered: counters(
                at,
                ("effects_total", "What was done on the API server, and what became of it."),
                &["action", "result"],
            ),
            reloads: reloads(at),
            entries: entries(at),
            sweeps: sweeps(at),
            leader: int_gauge(at, "leader", "1 while this replica leads."),
            unread: unread(at),
            unnamed: Mutex::default(),
            registry,
        }
    }

    /// Counts one step of the engine that took this long.
    pub fn step(&self, report: &Report, took: Duration) {
        self.rounds.inc_by(u64::from(report.rounds));
        if report.cut_short() {
            self.cut_short.inc();
            tracing::warn!(rounds = report.rounds, "a step was cut short, the next one goes on");
        }
        self.considered.inc_by(report.counts.considered);
        self.bound.inc_by(report.counts.bound);
        self.step_seconds.observe(took.as_secs_f64());
        let mut unnamed = self.unnamed.lock();
        for decided in &report.outcomes {
            match &decided.outcome {
                Outcome::Admitted => {
                    unnamed.stopped.remove(&decided.workload);
                    *unnamed.admitted.entry(decided.workload.clone()).or_default() += 1;
                }
                Outcome::Preempting(victims) => {
                    for victim in victims {
                        // A plan that waits for its victims names them again.
                        if unnamed.stopped.insert(victim.victim.clone()) {
                            let key = (victim.preemptor.clone(), victim.reason);
                            *unnamed.preempted.entry(key).or_default() += 1;
                            unnamed.evicted.push((victim.victim.clone(), PREEMPTED));
                        }
                    }
                }
                Outcome::Waiting(_) => {}
            }
        }
        let stopped = report.stopped.iter();
        let stopped = stopped.map(|stop| (stop.victim.clone(), stop.reason.as_str()));
        unnamed.evicted.extend(stopped);
    }

    /// Sets what the engine shows now, and names the queues of what was counted since.
    pub fn views(&self, workloads: &[WorkloadView], queues: &[QueueView]) {
        self.name(workloads);
        self.show_workloads(workloads, queues);
        let quota = &self.quota;
        for vector in [&quota.nominal, &quota.used, &quota.borrowed, &quota.lent] {
            vector.reset();
        }
        self.usd_per_hour.reset();
        self.budgets.show(queues);
        self.share.reset();
        self.status.reset();
        for queue in queues {
            self.show_queue(queue);
            // What runs at unknown prices only has no sum; nothing would be a wrong one.
            let idle = (queue.admitted == 0).then(MicroUsd::default);
            if let Some(price) = queue.per_hour.or(idle) {
                let dollars = as_float(price.0) / MICRO;
                self.usd_per_hour.with_label_values(&[&*queue.name]).set(dollars);
            }
            for line in &queue.quotas {
                let labels = [&*queue.name, &*line.flavor, &*line.resource];
                let set = |vector: &GaugeVec, amount: i64| {
                    let gauge: Gauge = vector.with_label_values(&labels);
                    gauge.set(in_units(&line.resource, amount));
                };
                set(&quota.nominal, line.nominal);
                set(&quota.used, line.used);
                set(&quota.borrowed, line.borrowed);
                set(&quota.lent, line.lent);
            }
        }
    }

    /// Whether a queue admits, and its share.
    fn show_queue(&self, queue: &QueueView) {
        for (word, holds) in
            [("active", queue.inactive.is_none()), ("inactive", queue.inactive.is_some())]
        {
            self.status.with_label_values(&[&*queue.name, word]).set(i64::from(holds));
        }
        if let Some(share) = queue.share {
            // Whoever has no weight and borrows has more than anybody.
            let share = if share == i64::MAX { f64::INFINITY } else { as_float(share) };
            self.share.with_label_values(&[&*queue.name]).set(share);
        }
    }

    /// Sets how much the engine keeps of what.
    pub fn footprint(&self, footprint: &Footprint) {
        for (table, entries) in tables(footprint) {
            let entries = i64::try_from(entries).unwrap_or(i64::MAX);
            self.entries.with_label_values(&[table]).set(entries);
        }
        self.sweeps.set(i64::try_from(footprint.sweeps).unwrap_or(i64::MAX));
    }

    /// Counts what was published, merged and dropped.
    pub fn published(&self, counts: impl IntoIterator<Item = (&'static str, u64)>) {
        for (what, count) in counts {
            self.published.with_label_values(&[what]).inc_by(count);
        }
    }

    /// Counts what became of an effect.
    pub fn answered(&self, action: &str, result: &str) {
        self.answered.with_label_values(&[action, result]).inc();
    }

    /// Counts a change of the configuration file.
    pub fn reloaded(&self, taken: bool) {
        let result = if taken { "taken" } else { "refused" };
        self.reloads.with_label_values(&[result]).inc();
    }

    /// Whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Of how many kinds nobody knows yet what there is.
    pub fn unread(&self, kinds: usize) {
        self.unread.set(i64::try_from(kinds).unwrap_or(i64::MAX));
    }

    /// The text that Prometheus reads.
    pub fn encode(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("metrics of one registry have consistent names, and a string takes any text")
    }

    fn name(&self, workloads: &[WorkloadView]) {
        let mut unnamed = self.unnamed.lock();
        let Unnamed { admitted, preempted, evicted, stopped } = &mut *unnamed;
        let preemptors = preempted.keys().map(|(by, _)| by);
        let victims = evicted.iter().map(|(victim, _)| victim);
        let asked: BTreeSet<Text> =
            admitted.keys().chain(preemptors).chain(victims).cloned().collect();
        let (mut queue_of, mut waiting) = (BTreeMap::new(), BTreeSet::new());
        let mut waits = BTreeMap::new();
        for view in workloads {
            if asked.is_empty() && stopped.is_empty() {
                break;
            }
            let name = Text::from(format!("{}/{}", view.namespace, view.name));
            if stopped.contains(&name) && view.preempted.is_some() {
                waiting.insert(name.clone());
            }
            if asked.contains(&name) {
                let wait = view.admitted_at.map(|at| at.since(view.waits_since));
                waits.insert(name.clone(), wait);
                queue_of.insert(name, view.cluster_queue.clone());
            }
        }
        let queue = |workload: &Text| {
            queue_of.get(workload).cloned().flatten().unwrap_or_else(|| Text::from(""))
        };
        for (workload, count) in std::mem::take(admitted) {
            let queue = queue(&workload);
            self.admitted.with_label_values(&[&*queue]).inc_by(count);
            if let Some(wait) = waits.get(&workload).copied().flatten() {
                self.waited.with_label_values(&[&*queue]).observe(as_float(wait.0) / 1_000.0);
            }
        }
        for ((preemptor, reason), count) in std::mem::take(preempted) {
            let labels = [&*queue(&preemptor), reason.as_str()];
            self.preempted.with_label_values(&labels).inc_by(count);
        }
        for (victim, reason) in std::mem::take(evicted) {
            self.evicted.with_label_values(&[&*queue(&victim), reason]).inc();
        }
        *stopped = waiting;
    }

    fn show_workloads(&self, workloads: &[WorkloadView], queues: &[QueueView]) {
        self.pending.reset();
        self.admitted_active.reset();
        for queue in queues {
            let name = &*queue.name;
            self.pending.with_label_values(&[name]).set(i64::from(queue.pending));
            self.admitted_active.with_label_values(&[name]).set(i64::from(queue.admitted));
        }
        self.unadmitted.reset();
        for view in workloads {
            let waits = matches!(view.state, State::Gathering | State::Queued | State::Reserved);
            if let Some(reason) = view.reason.as_ref().filter(|_| waits) {
                let queue = view.cluster_queue.as_deref().unwrap_or_default();
                self.unadmitted.with_label_values(&[queue, reason.code()]).inc();
            }
        }
        // Work without a ClusterQueue is in no queue's numbers.
        for view in workloads.iter().filter(|view| view.cluster_queue.is_none()) {
            match view.state {
                State::Gathering | State::Queued | State::Reserved => {
                    self.pending.with_label_values(&[""]).inc();
                }
                State::Provisioning
                | State::Resuming
                | State::Preparing
                | State::Binding
                | State::Running
                | State::Evicting => self.admitted_active.with_label_values(&[""]).inc(),
                State::Finished => {}
            }
        }
    }
}

/// The tables of the engine, by the value of label `table`: the names of [`Footprint`]'s fields,
/// which say what each is.
fn tables(footprint: &Footprint) -> [(&'static str, usize); 16] {
    // Whole, so that a new table is not forgotten.
    let Footprint {
        pods,
        workloads,
        owners,
        nodes,
        node_slots,
        shapes,
        requests,
        resources,
        classes,
        indexes,
        groups,
        queues,
        flavors,
        flavor_resources,
        preemptions,
        effects_in_flight,
        sweeps: _,
    } = *footprint;
    [
        ("pods", pods),
        ("workloads", workloads),
        ("owners", owners),
        ("nodes", nodes),
        ("node_slots", node_slots),
        ("shapes", shapes),
        ("requests", requests),
        ("resources", resources),
        ("classes", classes),
        ("indexes", indexes),
        ("groups", groups),
        ("queues", queues),
        ("flavors", flavors),
        ("flavor_resources", flavor_resources),
        ("preemptions", preemptions),
        ("effects_in_flight", effects_in_flight),
    ]
}

/// Prometheus knows base units only: cores, not thousandths.
fn in_units(resource: &str, amount: i64) -> f64 {
    match resource {
        "cpu" => as_float(amount) / 1_000.0,
        _ => as_float(amount),
    }
}

/// Metrics are floats; nothing is decided by them.
#[expect(clippy::cast_precision_loss, reason = "a metric shows 53 bits")]
fn as_float(amount: i64) -> f64 {
    amount as f64
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("capstan")
}

/// Registers a metric; names are constants of this file, each used once.
fn register<M: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> M {
    let metric = metric.expect("the names and labels of this file are valid");
    registry.register(Box::new(metric.clone())).expect("each name of this file is used once");
    metric
}

fn reloads(registry: &Registry) -> IntCounterVec {
    let help = "Changes of the configuration file, taken or refused.";
    counters(registry, ("config_reloads_total", help), &["result"])
}

fn entries(registry: &Registry) -> IntGaugeVec {
    let help = "Entries that the engine keeps in memory, by table.";
    register(registry, IntGaugeVec::new(opts("engine_entries", help), &["table"]))
}

fn sweeps(registry: &Registry) -> IntGauge {
    let help = "How often the engine forgot what nothing uses, since it began.";
    register(registry, IntGauge::with_opts(opts("engine_sweeps", help)))
}

fn unread(registry: &Registry) -> IntGauge {
    let help = "Kinds that the configuration names and that could not be read so far.";
    int_gauge(registry, "kinds_unread", help)
}

fn evicted(registry: &Registry) -> IntCounterVec {
    let named = ("evicted_workloads_total", "Workloads stopped, by why.");
    counters(registry, named, &["cluster_queue", "reason"])
}

fn share(registry: &Registry) -> GaugeVec {
    let help = "What the ClusterQueue borrows of what is lent, by weight, in thousandths, while \
                shares are fair.";
    gauges(registry, ("cluster_queue_weighted_share", help), &["cluster_queue"])
}

fn waited(registry: &Registry) -> HistogramVec {
    let help = "Time from the creation of a workload until it was admitted.";
    let options = HistogramOpts::from(opts("admission_wait_time_seconds", help));
    let options = options.buckets(WAIT_SECONDS.to_vec());
    register(registry, HistogramVec::new(options, &["cluster_queue"]))
}

fn unadmitted(registry: &Registry) -> IntGaugeVec {
    let help = "Workloads that wait, by why.";
    let labels = ["cluster_queue", "reason"];
    register(registry, IntGaugeVec::new(opts("unadmitted_workloads", help), &labels))
}

fn status(registry: &Registry) -> IntGaugeVec {
    let help = "Whether the ClusterQueue admits: 1 for the status that it has.";
    let labels = ["cluster_queue", "status"];
    register(registry, IntGaugeVec::new(opts("cluster_queue_status", help), &labels))
}

fn counter(registry: &Registry, name: &str, help: &str) -> IntCounter {
    register(registry, IntCounter::with_opts(opts(name, help)))
}

fn counters(registry: &Registry, (name, help): (&str, &str), labels: &[&str]) -> IntCounterVec {
    register(registry, IntCounterVec::new(opts(name, help), labels))
}

fn int_gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    register(registry, IntGauge::with_opts(opts(name, help)))
}

fn int_gauges(registry: &Registry, name: &str, help: &str) -> IntGaugeVec {
    register(registry, IntGaugeVec::new(opts(name, help), &["cluster_queue"]))
}

fn gauges(registry: &Registry, (name, help): (&str, &str), labels: &[&str]) -> GaugeVec {
    register(registry, GaugeVec::new(opts(name, help), labels))
}

fn quota(registry: &Registry, name: &str, help: &str) -> GaugeVec {
    let name = format!("cluster_queue_{name}");
    gauges(registry, (&name, help), &["cluster_queue", "flavor", "resource"])
}

fn histogram(registry: &Registry, name: &str, help: &str) -> Histogram {
    let options = HistogramOpts::from(opts(name, help)).buckets(STEP_SECONDS.to_vec());
    register(registry, Histogram::with_opts(options))
}
