//! What queues may spend in a period, and what they did.

use capstan_core::explain::view::QueueView;
use prometheus::{GaugeVec, IntGaugeVec, Registry};

use super::register::{as_float, gauges, int_gauges};

/// Millionths in a dollar.
const MICRO: f64 = 1e6;
const SECONDS_OF_AN_HOUR: f64 = 3_600.0;

/// A gauge for each amount of a budget; queues without one have none.
#[derive(Debug)]
pub struct BudgetGauges {
    usd: GaugeVec,
    spent_usd: GaugeVec,
    gpu_hours: GaugeVec,
    spent_gpu_hours: GaugeVec,
    exhausted: IntGaugeVec,
}

impl BudgetGauges {
    /// Registers them.
    pub fn new(at: &Registry) -> BudgetGauges {
        let of = |name: &str, help: &str| {
            let name = format!("cluster_queue_budget_{name}");
            gauges(at, (&name, help), &["cluster_queue"])
        };
        BudgetGauges {
            usd: of("usd", "US dollars that the ClusterQueue may spend in a period."),
            spent_usd: of("spent_usd", "US dollars that it spent in the current one."),
            gpu_hours: of("gpu_hours", "GPU-hours that the ClusterQueue may use in a period."),
            spent_gpu_hours: of("spent_gpu_hours", "GPU-hours that it used in the current one."),
            exhausted: int_gauges(
                at,
                (
                    "cluster_queue_budget_exhausted",
                    "1 while nothing is left of the budget of the ClusterQueue.",
                ),
                &["cluster_queue"],
            ),
        }
    }

    /// Sets them to what queues show now.
    pub fn show(&self, queues: &[QueueView]) {
        for gauges in [&self.usd, &self.spent_usd, &self.gpu_hours, &self.spent_gpu_hours] {
            gauges.reset();
        }
        self.exhausted.reset();
        for queue in queues {
            let Some(account) = &queue.spending else { continue };
            let name = &[&*queue.name];
            let set = |gauge: &GaugeVec, amount: f64| gauge.with_label_values(name).set(amount);
            if let Some(limit) = account.limit().usd {
                set(&self.usd, as_float(limit.0) / MICRO);
                set(&self.spent_usd, as_float(account.usd().0) / MICRO);
            }
            if let Some(limit) = account.limit().gpu_seconds {
                set(&self.gpu_hours, as_float(limit) / SECONDS_OF_AN_HOUR);
                set(&self.spent_gpu_hours, as_float(account.gpu_seconds()) / SECONDS_OF_AN_HOUR);
            }
            let spent = i64::from(account.over().is_some());
            self.exhausted.with_label_values(name).set(spent);
        }
    }
}
