//! Queues, cohorts and what waits in them, as they are now.
//!
//! Set anew with every look: what is gone leaves nothing behind. Amounts by flavor and resource,
//! and everything by LocalQueue, are as many series as a cluster has such pairs and queues: the
//! configuration says which of them are shown ([`Switches`]).

use std::collections::BTreeMap;

use capstan_core::explain::census::{Census, CohortTally, QueueShape, Tally};
use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::{LocalQueueView, QueueView};
use capstan_core::model::input::Text;
use capstan_core::money::MicroUsd;
use prometheus::{GaugeVec, IntGaugeVec, Registry};

use super::budgets::BudgetGauges;
use super::register::{as_float, gauges, int_gauges, set};
use super::{Amounts, Look, Switches};

/// Millionths in a dollar.
const MICRO: f64 = 1e6;
/// Thousandths in what is used of late.
const THOUSANDTHS: f64 = 1e3;
/// Why work is not admitted that holds no quota, and that holds quota and waits for nodes: the
/// reasons of its condition `Admitted`.
const NO_RESERVATION: &str = "NoReservation";
const NODES_ARE_BUILT: &str = "PendingDelayedTopologyRequests";
/// What the second of them comes with.
const PENDING_TOPOLOGY: &str = "PendingTopology";

/// All gauges that a look sets.
#[derive(Debug)]
pub(super) struct Gauges {
    queues: OfQueues,
    amounts: OfAmounts,
    cohorts: OfCohorts,
    locals: OfLocals,
    budgets: BudgetGauges,
}

/// By ClusterQueue.
#[derive(Debug)]
struct OfQueues {
    pending: IntGaugeVec,
    reserving: IntGaugeVec,
    admitted: IntGaugeVec,
    finished: IntGaugeVec,
    unadmitted: IntGaugeVec,
    status: IntGaugeVec,
    info: IntGaugeVec,
    share: GaugeVec,
    usd_per_hour: GaugeVec,
}

/// By ClusterQueue, flavor and resource.
#[derive(Debug)]
struct OfAmounts {
    nominal: GaugeVec,
    used: GaugeVec,
    borrowed: GaugeVec,
    lent: GaugeVec,
    borrowing_limit: GaugeVec,
    lending_limit: GaugeVec,
    reserved: GaugeVec,
    pending: GaugeVec,
}

/// By cohort.
#[derive(Debug)]
struct OfCohorts {
    info: IntGaugeVec,
    share: GaugeVec,
    admitted: IntGaugeVec,
    quota: GaugeVec,
    reserved: GaugeVec,
}

/// By LocalQueue.
#[derive(Debug)]
struct OfLocals {
    pending: IntGaugeVec,
    reserving: IntGaugeVec,
    admitted: IntGaugeVec,
    finished: IntGaugeVec,
    unadmitted: IntGaugeVec,
    status: IntGaugeVec,
    reserved: GaugeVec,
    used: GaugeVec,
    used_of_late: GaugeVec,
}

impl Gauges {
    pub(super) fn new(at: &Registry) -> Gauges {
        Gauges {
            queues: OfQueues::new(at),
            amounts: OfAmounts::new(at),
            cohorts: OfCohorts::new(at),
            locals: OfLocals::new(at),
            budgets: BudgetGauges::new(at),
        }
    }

    /// Sets what the engine shows now.
    pub(super) fn show(&self, look: &Look<'_>, switches: Switches) {
        let shapes: BTreeMap<&Text, &QueueShape> =
            look.census.shapes.iter().map(|shape| (&shape.name, shape)).collect();
        self.queues.show(look, &shapes);
        self.budgets.show(look.queues);
        self.amounts.show(look, &shapes, switches.amounts);
        self.cohorts.show(&look.census.cohorts, switches.amounts);
        self.locals.reset();
        if switches.locals {
            self.locals.show(look);
        }
    }
}

impl OfQueues {
    fn new(at: &Registry) -> OfQueues {
        let queue = &["cluster_queue"][..];
        let ints = |name, help, labels| int_gauges(at, (name, help), labels);
        OfQueues {
            pending: ints(
                "pending_workloads",
                "Workloads that wait: active ones are looked at, inadmissible ones are not until \
                 something changes.",
                &["cluster_queue", "status"],
            ),
            reserving: ints("reserving_active_workloads", "Workloads that hold quota.", queue),
            admitted: ints(
                "admitted_active_workloads",
                "Workloads that are admitted and not finished.",
                queue,
            ),
            finished: ints(
                "finished_workloads",
                "Workloads whose work is done and that are still there.",
                queue,
            ),
            unadmitted: ints(
                "unadmitted_workloads",
                "Workloads that are not admitted, by why.",
                &["cluster_queue", "reason", "underlying_cause"],
            ),
            status: ints(
                "cluster_queue_status",
                "Whether the ClusterQueue admits: 1 for the status that it has.",
                &["cluster_queue", "status"],
            ),
            info: ints(
                "cluster_queue_info",
                "1 for each ClusterQueue, with the cohorts that it is in.",
                &["cluster_queue", "parent_cohort", "root_cohort"],
            ),
            share: gauges(
                at,
                (
                    "cluster_queue_weighted_share",
                    "What the ClusterQueue borrows of what is lent, by weight, in thousandths, \
                     while shares are fair.",
                ),
                &["cluster_queue", "cohort"],
            ),
            usd_per_hour: gauges(
                at,
                ("cluster_queue_usd_per_hour", "Price of all that runs in the ClusterQueue."),
                queue,
            ),
        }
    }

    fn show(&self, look: &Look<'_>, shapes: &BTreeMap<&Text, &QueueShape>) {
        let all = [&self.pending, &self.reserving, &self.admitted, &self.finished];
        all.into_iter().for_each(IntGaugeVec::reset);
        [&self.unadmitted, &self.status, &self.info].into_iter().for_each(IntGaugeVec::reset);
        [&self.share, &self.usd_per_hour].into_iter().for_each(GaugeVec::reset);
        for (name, tally) in &look.census.queues {
            self.show_tally(name, tally);
        }
        for queue in look.queues {
            let shape = shapes.get(&queue.name).copied();
            self.show_queue(queue, shape);
        }
    }

    fn show_tally(&self, name: &str, tally: &Tally) {
        for (status, count) in pending(tally) {
            self.pending.with_label_values(&[name, status]).set(count);
        }
        self.finished.with_label_values(&[name]).set(i64::from(tally.finished));
        for (reason, cause, count) in unadmitted(tally) {
            self.unadmitted.with_label_values(&[name, reason, cause]).set(count);
        }
        // Of queues their own views say it; work without one is in no view.
        if name.is_empty() {
            for gauge in [&self.reserving, &self.admitted] {
                gauge.with_label_values(&[name]).set(i64::from(tally.admitted));
            }
        }
    }

    fn show_queue(&self, queue: &QueueView, shape: Option<&QueueShape>) {
        let name = &*queue.name;
        for gauge in [&self.reserving, &self.admitted] {
            gauge.with_label_values(&[name]).set(i64::from(queue.admitted));
        }
        let has = status(queue.inactive.as_ref());
        for word in ["pending", "active", "terminating"] {
            self.status.with_label_values(&[name, word]).set(i64::from(word == has));
        }
        let cohorts = shape.map_or(&[][..], |shape| &shape.cohorts[..]);
        // The parent of a queue is its own cohort.
        let own = cohorts.first().map_or("", |name| &**name);
        let root = cohorts.last().map_or("", |name| &**name);
        self.info.with_label_values(&[name, own, root]).set(1);
        if let Some(share) = queue.share {
            self.share.with_label_values(&[name, own]).set(weighted(share));
        }
        // What runs at unknown prices only has no sum; nothing would be a wrong one.
        let idle = (queue.admitted == 0).then(MicroUsd::default);
        if let Some(price) = queue.per_hour.or(idle) {
            self.usd_per_hour.with_label_values(&[name]).set(as_float(price.0) / MICRO);
        }
    }
}

impl OfAmounts {
    fn new(at: &Registry) -> OfAmounts {
        let of = |name: &str, help: &str| {
            let labels = ["cohort", "cluster_queue", "flavor", "resource"];
            gauges(at, (&format!("cluster_queue_{name}"), help), &labels)
        };
        OfAmounts {
            nominal: of("nominal_quota", "Own quota."),
            used: of("resource_usage", "Quota in use, borrowed quota included."),
            borrowed: of("borrowed", "Quota used beyond the own."),
            lent: of("lent", "Own quota that others of the cohort use."),
            borrowing_limit: of(
                "borrowing_limit",
                "How much may be borrowed; without a limit infinity.",
            ),
            lending_limit: of("lending_limit", "How much may be lent; without a limit infinity."),
            reserved: of(
                "resource_reservation",
                "Quota in use, and promised to work whose victims are leaving.",
            ),
            pending: gauges(
                at,
                ("cluster_queue_resource_pending", "What all work asks that waits."),
                &["cluster_queue", "resource"],
            ),
        }
    }

    fn show(&self, look: &Look<'_>, shapes: &BTreeMap<&Text, &QueueShape>, amounts: Amounts) {
        let all = [&self.nominal, &self.used, &self.borrowed, &self.lent, &self.pending];
        all.into_iter().for_each(GaugeVec::reset);
        let all = [&self.borrowing_limit, &self.lending_limit, &self.reserved];
        all.into_iter().for_each(GaugeVec::reset);
        for queue in look.queues.iter().filter(|_| amounts != Amounts::None) {
            let cohort = queue.cohort.as_deref().unwrap_or_default();
            for line in &queue.quotas {
                let labels = [cohort, &*queue.name, &*line.flavor, &*line.resource];
                let put = |vector, amount| set(vector, &labels, (&line.resource, amount));
                put(&self.nominal, line.nominal);
                put(&self.used, line.used);
                put(&self.borrowed, line.borrowed);
                put(&self.lent, line.lent);
            }
            let shape = shapes.get(&queue.name).filter(|_| amounts == Amounts::All);
            for limit in shape.iter().flat_map(|shape| &shape.limits) {
                let labels = [cohort, &*queue.name, &*limit.flavor, &*limit.resource];
                let put = |vector, amount| set(vector, &labels, (&limit.resource, amount));
                put(&self.reserved, limit.reserved);
                let borrowing = (&self.borrowing_limit, limit.borrowing);
                for (vector, most) in [borrowing, (&self.lending_limit, limit.lending)] {
                    match most {
                        Some(most) => put(vector, most),
                        None => vector.with_label_values(&labels).set(f64::INFINITY),
                    }
                }
            }
            let tally = look.census.queues.get(&queue.name);
            let tally = tally.filter(|_| amounts == Amounts::All);
            for (resource, amount) in tally.iter().flat_map(|tally| &tally.asked) {
                set(&self.pending, &[&*queue.name, &**resource], (resource, *amount));
            }
        }
    }
}

impl OfCohorts {
    fn new(at: &Registry) -> OfCohorts {
        let amounts = &["cohort", "flavor", "resource"][..];
        OfCohorts {
            info: int_gauges(
                at,
                ("cohort_info", "1 for each cohort, with those above it."),
                &["cohort", "parent_cohort", "root_cohort"],
            ),
            share: gauges(
                at,
                (
                    "cohort_weighted_share",
                    "What all below the cohort borrow of what is lent to it, by weight, in \
                     thousandths, while shares are fair.",
                ),
                &["cohort"],
            ),
            admitted: int_gauges(
                at,
                (
                    "cohort_subtree_admitted_active_workloads",
                    "Workloads that hold quota in all queues below the cohort.",
                ),
                &["cohort"],
            ),
            quota: gauges(
                at,
                (
                    "cohort_subtree_quota",
                    "Quota of the cohort, and of all below it as far as they lend it.",
                ),
                amounts,
            ),
            reserved: gauges(
                at,
                (
                    "cohort_subtree_resource_reservations",
                    "Quota in use, or promised, in all queues below the cohort.",
                ),
                amounts,
            ),
        }
    }

    fn show(&self, cohorts: &[CohortTally], amounts: Amounts) {
        [&self.info, &self.admitted].into_iter().for_each(IntGaugeVec::reset);
        [&self.share, &self.quota, &self.reserved].into_iter().for_each(GaugeVec::reset);
        for cohort in cohorts {
            let name = &*cohort.name;
            let parent = cohort.parent.as_deref().unwrap_or_default();
            self.info.with_label_values(&[name, parent, &*cohort.root]).set(1);
            self.admitted.with_label_values(&[name]).set(i64::from(cohort.admitted));
            if let Some(share) = cohort.share {
                self.share.with_label_values(&[name]).set(weighted(share));
            }
            for line in cohort.quotas.iter().filter(|_| amounts != Amounts::None) {
                let labels = [name, &*line.flavor, &*line.resource];
                set(&self.quota, &labels, (&line.resource, line.quota));
                set(&self.reserved, &labels, (&line.resource, line.reserved));
            }
        }
    }
}

impl OfLocals {
    fn new(at: &Registry) -> OfLocals {
        let queue = &["name", "namespace"][..];
        let ints = |name: &str, help, more: &[&str]| {
            int_gauges(at, (&format!("local_queue_{name}"), help), &[queue, more].concat())
        };
        let amounts = |name: &str, help| {
            let labels = [queue, &["flavor", "resource"]].concat();
            gauges(at, (&format!("local_queue_{name}"), help), &labels)
        };
        OfLocals {
            pending: ints("pending_workloads", "Workloads that wait.", &["status"]),
            reserving: ints("reserving_active_workloads", "Workloads that hold quota.", &[]),
            admitted: ints(
                "admitted_active_workloads",
                "Workloads that are admitted and not finished.",
                &[],
            ),
            finished: ints(
                "finished_workloads",
                "Workloads whose work is done and that are still there.",
                &[],
            ),
            unadmitted: ints(
                "unadmitted_workloads",
                "Workloads that are not admitted, by why.",
                &["cluster_queue", "reason", "underlying_cause"],
            ),
            status: ints(
                "status",
                "Whether work may be submitted to it: 1 for the answer that holds.",
                &["active"],
            ),
            reserved: amounts("resource_reservation", "Quota that its work holds."),
            used: amounts("resource_usage", "Quota that its work uses."),
            used_of_late: gauges(
                at,
                (
                    "local_queue_admission_fair_sharing_usage",
                    "What it used of late, over its weight, where LocalQueues take turns by it.",
                ),
                &["name", "namespace", "cluster_queue"],
            ),
        }
    }

    fn reset(&self) {
        let all = [&self.pending, &self.reserving, &self.admitted, &self.finished];
        all.into_iter().for_each(IntGaugeVec::reset);
        [&self.unadmitted, &self.status].into_iter().for_each(IntGaugeVec::reset);
        let amounts = [&self.reserved, &self.used, &self.used_of_late];
        amounts.into_iter().for_each(GaugeVec::reset);
    }

    fn show(&self, look: &Look<'_>) {
        for queue in look.local_queues {
            let key = (queue.namespace.clone(), queue.name.clone());
            self.show_queue(queue, look.census, &key);
        }
    }

    fn show_queue(&self, queue: &LocalQueueView, census: &Census, key: &(Text, Text)) {
        let (name, namespace) = (&*queue.name, &*queue.namespace);
        let none = Tally::default();
        let tally = census.local_queues.get(key).unwrap_or(&none);
        for (status, count) in pending(tally) {
            self.pending.with_label_values(&[name, namespace, status]).set(count);
        }
        self.finished.with_label_values(&[name, namespace]).set(i64::from(tally.finished));
        for (reason, cause, count) in unadmitted(tally) {
            let labels = [name, namespace, &*queue.cluster_queue, reason, cause];
            self.unadmitted.with_label_values(&labels).set(count);
        }
        for gauge in [&self.reserving, &self.admitted] {
            gauge.with_label_values(&[name, namespace]).set(i64::from(queue.admitted));
        }
        let active = if queue.inactive.is_none() { "True" } else { "False" };
        for word in ["True", "False", "Unknown"] {
            let holds = i64::from(word == active);
            self.status.with_label_values(&[name, namespace, word]).set(holds);
        }
        if let Some(usage) = queue.usage {
            let labels = [name, namespace, &*queue.cluster_queue];
            self.used_of_late.with_label_values(&labels).set(weighted(usage) / THOUSANDTHS);
        }
        for ((flavor, resource), amount) in &queue.used {
            let labels = [name, namespace, &**flavor, &**resource];
            for vector in [&self.reserved, &self.used] {
                set(vector, &labels, (resource, *amount));
            }
        }
    }
}

/// What waits, by Kueue's words for whether it is looked at.
fn pending(tally: &Tally) -> [(&'static str, i64); 2] {
    [("active", tally.active.into()), ("inadmissible", tally.inadmissible.into())]
}

/// What is not admitted: the reason of its condition `Admitted`, and of `QuotaReserved`.
fn unadmitted(tally: &Tally) -> impl Iterator<Item = (&'static str, &'static str, i64)> + '_ {
    tally.why.iter().map(|(cause, count)| {
        let built = *cause == PENDING_TOPOLOGY;
        let reason = if built { NODES_ARE_BUILT } else { NO_RESERVATION };
        (reason, *cause, i64::from(*count))
    })
}

/// Kueue's word for whether a ClusterQueue admits.
fn status(inactive: Option<&Reason>) -> &'static str {
    match inactive {
        None => "active",
        Some(Reason::Inactive { why: Inactive::Terminating, .. }) => "terminating",
        Some(_) => "pending",
    }
}

/// Whoever has no weight and borrows has more than anybody.
fn weighted(share: i64) -> f64 {
    if share == i64::MAX { f64::INFINITY } else { as_float(share) }
}
