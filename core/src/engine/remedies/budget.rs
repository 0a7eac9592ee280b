//! A budget that is spent: when it begins anew, and what more of it would do.
//!
//! Tried with the budget out of account and everything else as it is, so neither is offered to
//! work that would not start then. By the next period other things will have changed, too; what
//! is said is what the budget keeps from starting. Work that lacks room as well is told when it
//! has both, if that can be forecast.

use crate::engine::Engine;
use crate::explain::view::{Awaited, Change, Remedy};
use crate::model::ids::WorkloadIdx;
use crate::quota::spending::Amount;
use crate::time::Time;

impl Engine {
    /// Ways around a budget that is spent.
    pub(super) fn more_budget(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let Some((queue, over)) = self.spent_budget_of(index) else { return Vec::new() };
        self.state.spending.lift(Some(queue));
        let start = self.start(now, index);
        self.state.spending.lift(None);
        let (until, cluster_queue) = (over.until, over.cluster_queue);
        let Some(start) = start else {
            let awaits = |at: Time| match at > until {
                true => Awaited::RoomInPeriod { budget_of: cluster_queue },
                false => Awaited::Period { budget_of: cluster_queue },
            };
            return self.its_turn(now, index, awaits).into_iter().collect();
        };
        let field = match over.over.spent {
            Amount::Usd(_) => "usd",
            Amount::GpuSeconds(_) => "gpuHours",
        };
        let awaits = Awaited::Period { budget_of: cluster_queue.clone() };
        let wait = Change::WaitUntil { at: until, awaits };
        let raise = Change::RaiseBudget { cluster_queue, field, above: over.over.spent };
        let over_then = self.budget_is_out_by(Some(queue), until);
        let mut found = if over_then { Vec::new() } else { vec![start.by(wait)] };
        // One of two amounts is not enough.
        if self.account_of(queue).is_some_and(|account| account.on(now).reached().count() == 1) {
            found.push(start.by(raise));
        }
        found
    }
}
