//! A budget that is spent: when it begins anew, and what more of it would do.
//!
//! Tried with the budget out of account and everything else as it is, so neither is offered to
//! work that would not start then. By the next period other things will have changed, too: who
//! declares that it ends before is not stopped then, and others may have what it leaves, or what is
//! free now. As far as that can be forecast it is the forecast that is told. Work that lacks room
//! as well is told when it has both, if that can be forecast.

use super::Start;
use super::ends::Ending;
use crate::engine::Engine;
use crate::explain::view::{Awaited, Change, Remedy};
use crate::model::ids::WorkloadIdx;
use crate::model::input::Text;
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
            let awaits = |at| awaited(at, until, &cluster_queue);
            return self.its_turn(now, index, awaits).into_iter().collect();
        };
        let field = match over.over.spent {
            Amount::Usd(_) => "usd",
            Amount::GpuSeconds(_) => "gpuHours",
        };
        let awaits = Awaited::Period { budget_of: cluster_queue.clone() };
        let wait = Change::WaitUntil { at: until, awaits };
        let above = over.over.spent;
        let raise = Change::RaiseBudget { cluster_queue: cluster_queue.clone(), field, above };
        let mut found = Vec::new();
        if !self.budget_is_out_by(Some(queue), until) {
            let turn = self.its_turn(now, index, |at| awaited(at, until, &cluster_queue));
            found.extend(self.by_then(until, turn, &start, wait));
        }
        // One of two amounts is not enough.
        if self.account_of(queue).is_some_and(|account| account.on(now).reached().count() == 1) {
            found.push(start.by(raise));
        }
        found
    }

    /// Waiting for the next period: the start of now, unless somebody who would be stopped for it
    /// ends before, or others are forecast to have what is free now.
    fn by_then(
        &self,
        until: Time,
        turn: Option<Remedy>,
        start: &Start,
        wait: Change,
    ) -> Option<Remedy> {
        let stopped = |ending: &Ending| {
            let name = &self.state.workloads[ending.workload].full_name;
            start.victims.iter().any(|victim| victim.victim == *name)
        };
        let ends = |ending: &Ending| ending.at.is_some_and(|at| at <= until);
        let ends = self.declared().iter().any(|ending| ends(ending) && stopped(ending));
        let late =
            |turn: &Remedy| matches!(turn.change, Change::WaitUntil { at, .. } if at > until);
        let taken = start.victims.is_empty() && turn.as_ref().is_some_and(late);
        if ends || taken { turn } else { Some(start.by(wait)) }
    }
}

/// What is waited for until a moment: the period, or room in it.
fn awaited(at: Time, until: Time, cluster_queue: &Text) -> Awaited {
    let budget_of = cluster_queue.clone();
    match at > until {
        true => Awaited::RoomInPeriod { budget_of },
        false => Awaited::Period { budget_of },
    }
}
