//! Prometheus metrics of decisions and quotas, named as Kueue names its own, with its labels.
//!
//! Steps are counted as they happen ([`Metrics::step`], from what the report says), what the
//! engine shows and keeps is set whenever somebody looks ([`Metrics::look`],
//! [`Metrics::footprint`]). Labels are names of queues, cohorts, flavors, resources and classes, or
//! words of an enum; never of pods or workloads. An empty `cluster_queue` is work without one. What
//! is gone leaves no series, be it one that was set or one that was counted.
//!
//! What of Kueue's is otherwise here, and why:
//!
//! - `admission_checks_wait_time_seconds` has no equal: nothing is checked between quota and
//!   admission. For the same reason `quota_reserved_*` says what `admitted_*` and `admission_*`
//!   say: quota and places are one decision.
//! - The label `replica_role` has none either: only who leads has these series, and `leader` says
//!   who does.
//! - `finished_*` and `execution_time_seconds` count work with an owner. A pod without one that
//!   ends is seen no more, as one that is deleted.
//! - `unadmitted_workloads` counts work that waits for its own pods as well, and what somebody
//!   holds; `pending_workloads` does not count what is held.
//! - A share without end is infinity, not the largest number.
//! - `evicted_workloads_once_total` counts the first stop for each reason, as far as owners bear
//!   which were: pods without an owner that are made again are new work.
//! - `cluster_queue_borrowed`, `cluster_queue_lent`, and what is about money, are our own.

use std::time::Duration;

use capstan_core::explain::census::Census;
use capstan_core::explain::view::{Footprint, LocalQueueView, QueueView};
use capstan_core::plan::Report;
use parking_lot::Mutex;
use prometheus::{
    Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

mod budgets;
mod gauges;
mod names;
mod passages;
mod register;
#[cfg(test)]
mod tests;

use self::gauges::Gauges;
use self::passages::Passages;
use self::register::{counter, counters, histogram, int_gauge, int_gauges};
use crate::config::file;

/// Which amounts by flavor and resource are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amounts {
    /// None.
    None,
    /// Own quota, what is used, borrowed and lent.
    #[default]
    Some,
    /// Limits, what is reserved, and what all work asks that waits, as well.
    All,
}

/// Which series there are, where there may be many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Amounts by flavor and resource.
    pub amounts: Amounts,
    /// Everything by LocalQueue, too.
    pub locals: bool,
}

impl Switches {
    /// As it is configured.
    pub fn of(options: &file::Metrics) -> Switches {
        let locals = options.local_queue_metrics.as_ref();
        Switches {
            amounts: match options.enable_cluster_queue_resources {
                Some(true) => Amounts::All,
                Some(false) => Amounts::None,
                None => Amounts::Some,
            },
            locals: locals.is_some_and(|locals| locals.enable.unwrap_or(true)),
        }
    }
}

/// What the engine shows now.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// ClusterQueues.
    pub queues: &'a [QueueView],
    /// LocalQueues.
    pub local_queues: &'a [LocalQueueView],
    /// Numbers of everything.
    pub census: &'a Census,
}

/// All metrics and their registry.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rounds: IntCounter,
    cut_short: IntCounter,
    considered: IntCounter,
    bound: IntCounter,
    step_seconds: Histogram,
    passages: Passages,
    gauges: Gauges,
    published: IntCounterVec,
    answered: IntCounterVec,
    reloads: IntCounterVec,
    entries: IntGaugeVec,
    sweeps: IntGauge,
    leader: IntGauge,
    unread: IntGauge,
    /// Held while gauges are set, so that nobody reads half of them.
    switches: Mutex<Switches>,
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
            passages: Passages::new(at),
            gauges: Gauges::new(at),
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
            switches: Mutex::default(),
            registry,
        }
    }

    /// Shows these series from now on.
    pub fn configure(&self, switches: Switches) {
        let mut known = self.switches.lock();
        if known.locals && !switches.locals {
            self.passages.forget_locals();
        }
        *known = switches;
    }

    /// Whether what work that waits asks is shown.
    pub fn shows_asked(&self) -> bool {
        self.switches.lock().amounts == Amounts::All
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
        let locals = self.switches.lock().locals;
        self.passages.step(report, took.as_secs_f64(), locals);
    }

    /// Sets what the engine shows now.
    pub fn look(&self, look: &Look<'_>) {
        let switches = self.switches.lock();
        self.gauges.show(look, *switches);
        self.passages.look(look);
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
        let gathered = {
            let _whole = self.switches.lock();
            self.registry.gather()
        };
        TextEncoder::new()
            .encode_to_string(&gathered)
            .expect("metrics of one registry have consistent names, and a string takes any text")
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

fn reloads(registry: &Registry) -> IntCounterVec {
    let help = "Changes of the configuration file, taken or refused.";
    counters(registry, ("config_reloads_total", help), &["result"])
}

fn entries(registry: &Registry) -> IntGaugeVec {
    let help = "Entries that the engine keeps in memory, by table.";
    int_gauges(registry, ("engine_entries", help), &["table"])
}

fn sweeps(registry: &Registry) -> IntGauge {
    let help = "How often the engine forgot what nothing uses, since it began.";
    int_gauge(registry, "engine_sweeps", help)
}

fn unread(registry: &Registry) -> IntGauge {
    let help = "Kinds that the configuration names and that could not be read so far.";
    int_gauge(registry, "kinds_unread", help)
}
