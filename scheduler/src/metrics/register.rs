//! How metrics are made and registered: their prefix, their buckets, and pairs of which one counts
//! by ClusterQueue and its twin by LocalQueue.

use capstan_core::explain::milestone::Whose;
use capstan_core::explain::quantity::per_unit;
use capstan_core::time::Span;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::names::Names;

/// Upper bounds of the step duration histogram in seconds: a quiet step takes microseconds, the
/// largest gang that is promised takes 150 ms.
const STEP_SECONDS: [f64; 12] =
    [1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.15, 0.5, 1.0, 5.0];

/// Upper bounds of how long work waited, in seconds: those of Kueue.
const WAIT_SECONDS: [f64; 14] = [
    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1_280.0, 2_560.0, 5_120.0, 10_240.0,
];

/// Upper bounds of how long work ran, in seconds: from a minute to a month.
const RUN_SECONDS: [f64; 10] = [
    60.0,
    300.0,
    1_800.0,
    3_600.0,
    14_400.0,
    43_200.0,
    86_400.0,
    259_200.0,
    604_800.0,
    2_592_000.0,
];

/// Which buckets a histogram has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Buckets {
    /// For durations of steps.
    Steps,
    /// For waits.
    Waits,
    /// For runs.
    Runs,
}

impl Buckets {
    fn bounds(self) -> Vec<f64> {
        match self {
            Buckets::Steps => STEP_SECONDS.to_vec(),
            Buckets::Waits => WAIT_SECONDS.to_vec(),
            Buckets::Runs => RUN_SECONDS.to_vec(),
        }
    }
}

/// Labels of LocalQueues, as Kueue has them.
const LOCAL: [&str; 2] = ["name", "namespace"];

/// A counter by ClusterQueue, and its twin by LocalQueue.
#[derive(Debug)]
pub(super) struct Counted {
    queue: IntCounterVec,
    local: IntCounterVec,
}

impl Counted {
    /// Labels beside the queue are the `rest`.
    pub(super) fn new(at: &Registry, (name, help): (&str, &str), rest: &[&str]) -> Counted {
        let local = format!("local_queue_{name}");
        let help_of_local = format!("{help} By LocalQueue.");
        Counted {
            queue: counters(at, (name, help), &labels(&["cluster_queue"], rest)),
            local: counters(at, (&local, &help_of_local), &labels(&LOCAL, rest)),
        }
    }

    /// Counts one; the twin too where `locals` are counted.
    pub(super) fn count(&self, of: &Whose, locals: bool, rest: &[&str]) {
        self.queue.with_label_values(&labels(&[queue_of(of)], rest)).inc();
        if let Some(local) = of.local_queue.as_deref().filter(|_| locals) {
            self.local.with_label_values(&labels(&[local, &*of.namespace], rest)).inc();
        }
    }

    /// Forgets what was counted by LocalQueue.
    pub(super) fn forget_locals(&self) {
        self.local.reset();
    }

    /// Forgets what was counted of queues that are not there any more.
    pub(super) fn keep(&self, there: &Names) {
        keep(&self.queue, |labels| there.has_queue(labels[0]));
        keep(&self.local, |labels| there.has_local(labels[1], labels[0]));
    }
}

/// A histogram of times by ClusterQueue, and its twin by LocalQueue.
#[derive(Debug)]
pub(super) struct Timed {
    queue: HistogramVec,
    local: HistogramVec,
}

impl Timed {
    /// Labels beside the queue are the `rest`.
    pub(super) fn new(
        at: &Registry,
        (name, help): (&str, &str),
        buckets: Buckets,
        rest: &[&str],
    ) -> Timed {
        let of = |name: &str, help: &str, labels: Vec<&str>| {
            let options = HistogramOpts::from(opts(name, help)).buckets(buckets.bounds());
            register(at, HistogramVec::new(options, &labels))
        };
        let local = format!("local_queue_{name}");
        Timed {
            queue: of(name, help, labels(&["cluster_queue"], rest)),
            local: of(&local, &format!("{help} By LocalQueue."), labels(&LOCAL, rest)),
        }
    }

    /// Takes a time in; the twin too where `locals` are counted.
    pub(super) fn time(&self, of: &Whose, locals: bool, took: Span, rest: &[&str]) {
        let seconds = as_float(took.0) / 1_000.0;
        self.queue.with_label_values(&labels(&[queue_of(of)], rest)).observe(seconds);
        if let Some(local) = of.local_queue.as_deref().filter(|_| locals) {
            let labels = labels(&[local, &*of.namespace], rest);
            self.local.with_label_values(&labels).observe(seconds);
        }
    }

    /// Forgets what was timed by LocalQueue.
    pub(super) fn forget_locals(&self) {
        self.local.reset();
    }

    /// Forgets what was timed of queues that are not there any more.
    pub(super) fn keep(&self, there: &Names) {
        keep(&self.queue, |labels| there.has_queue(labels[0]));
        keep(&self.local, |labels| there.has_local(labels[1], labels[0]));
    }
}

/// Takes away the series that do not stay, by the values of their labels in order.
pub(super) fn keep<T: MetricVecBuilder>(vector: &MetricVec<T>, stays: impl Fn(&[&str]) -> bool) {
    let names: Vec<String> =
        vector.desc().into_iter().flat_map(|desc| desc.variable_labels.clone()).collect();
    for family in vector.collect() {
        for metric in family.get_metric() {
            let mut values: Vec<&str> = Vec::with_capacity(names.len());
            for name in &names {
                let pair = metric.get_label().iter().find(|pair| pair.name() == name.as_str());
                values.push(pair.map_or("", |pair| pair.value()));
            }
            if !stays(&values) {
                _ = vector.remove_label_values(&values);
            }
        }
    }
}

/// Names or values of labels, those of the queue first.
fn labels<'a>(of_queue: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [of_queue, rest].concat()
}

/// The ClusterQueue of a workload; empty: it has none.
fn queue_of(of: &Whose) -> &str {
    of.cluster_queue.as_deref().unwrap_or_default()
}

/// Prometheus knows base units only: cores and dollars, not parts of them.
pub(super) fn in_units(resource: &str, amount: i64) -> f64 {
    as_float(amount) / as_float(per_unit(resource))
}

/// Metrics are floats; nothing is decided by them.
#[expect(clippy::cast_precision_loss, reason = "a metric shows 53 bits")]
pub(super) fn as_float(amount: i64) -> f64 {
    amount as f64
}

pub(super) fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("capstan")
}

/// Registers a metric; names are constants, each used once.
pub(super) fn register<M: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> M {
    let metric = metric.expect("the names and labels are valid");
    registry.register(Box::new(metric.clone())).expect("each name is used once");
    metric
}

pub(super) fn counter(registry: &Registry, name: &str, help: &str) -> IntCounter {
    register(registry, IntCounter::with_opts(opts(name, help)))
}

pub(super) fn counters(
    registry: &Registry,
    (name, help): (&str, &str),
    labels: &[&str],
) -> IntCounterVec {
    register(registry, IntCounterVec::new(opts(name, help), labels))
}

pub(super) fn int_gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    register(registry, IntGauge::with_opts(opts(name, help)))
}

pub(super) fn int_gauges(
    registry: &Registry,
    (name, help): (&str, &str),
    labels: &[&str],
) -> IntGaugeVec {
    register(registry, IntGaugeVec::new(opts(name, help), labels))
}

pub(super) fn gauges(registry: &Registry, (name, help): (&str, &str), labels: &[&str]) -> GaugeVec {
    register(registry, GaugeVec::new(opts(name, help), labels))
}

pub(super) fn histogram(registry: &Registry, name: &str, help: &str) -> Histogram {
    let options = HistogramOpts::from(opts(name, help)).buckets(Buckets::Steps.bounds());
    register(registry, Histogram::with_opts(options))
}

pub(super) fn histograms(
    registry: &Registry,
    (name, help): (&str, &str),
    labels: &[&str],
) -> HistogramVec {
    let options = HistogramOpts::from(opts(name, help)).buckets(Buckets::Steps.bounds());
    register(registry, HistogramVec::new(options, labels))
}

/// Sets an amount in the unit of its resource.
pub(super) fn set(vector: &GaugeVec, labels: &[&str], (resource, amount): (&str, i64)) {
    let gauge: Gauge = vector.with_label_values(labels);
    gauge.set(in_units(resource, amount));
}
