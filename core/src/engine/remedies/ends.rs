//! Waiting: whose end would start a workload.
//!
//! Running work is taken away in the order in which it is declared to end, or such work did before,
//! cumulatively, until the workload fits; who turns out not to be needed stays. Work of which no
//! end is known is tried by itself, and together with everybody only where nothing less would do.
//! Work that is being stopped already is not counted on: its room is claimed. Where a budget is
//! spent for a while it is tried what ends before that, then all that ends before or after.

use crate::engine::Engine;
use crate::engine::remedies::Start;
use crate::engine::spending::Ahead;
use crate::explain::view::{Change, Remedy};
use crate::model::ids::WorkloadIdx;
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;
use crate::plan::State;
use crate::time::Time;

/// Running workloads looked at: enough for every team of a large cluster, and few enough that
/// removing all of them a dozen times takes a moment.
const RUNNING_MAX: usize = 2_048;

/// Workloads without a declared end that are tried by themselves, each one nomination.
const ALONE_TRIED_MAX: usize = 64;

/// Of those, how many are shown.
const ALONE_SHOWN_MAX: usize = 2;

/// Ways to wait that are found where heads of other queues would take what most of them leave.
const ALONE_FOUND_MAX: usize = 8;

/// Workloads found to be needed one by one; beyond, all that end before are taken as needed.
const NEEDED_MAX: usize = 16;

/// How a start at some time is tried.
type Try = fn(&mut Engine, Time, WorkloadIdx, Time) -> Option<Start>;

/// Now, and what the queue will have spent of its budget.
type When<'a> = (Time, Option<&'a Ahead>);

/// A running workload and when it is due.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Ending {
    pub(in crate::engine) workload: WorkloadIdx,
    /// `None`: it declares none, and none is known.
    pub(in crate::engine) at: Option<Time>,
    /// It declares none: that is how long such work ran before.
    pub(in crate::engine) learned: bool,
}

impl Engine {
    /// Whose end would start a workload.
    pub(super) fn endings(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        let queue = match self.state.workloads[index].queue {
            QueueRef::Queue(queue) => Some(queue),
            _ => None,
        };
        let mut running = self.running(index);
        let declared = running.iter().take_while(|ending| ending.at.is_some()).count();
        // Nothing begins while a budget is spent; another begins with the next period.
        let budget = self.spending_ahead(queue);
        let budget = budget.as_ref();
        let opens = |ending: &Ending| !is_over(budget, ending.at.unwrap_or(now).max(now));
        let last = running[..declared].iter().rposition(opens).map_or(0, |at| at + 1);
        running.drain(last..declared);
        let (dated, undated) = running.split_at(last);
        let spent = dated.iter().position(|ending| !opens(ending));
        let mut found = Vec::new();
        // What ends before it is spent may do.
        let before = spent.and_then(|spent| self.wait_for((now, budget), index, &dated[..spent]));
        found.extend(before.or_else(|| self.wait_for((now, budget), index, dated)));
        let sure = |found: &[Remedy]| found.iter().filter(|it| it.unless.is_none()).count();
        for ending in undated.iter().take(ALONE_TRIED_MAX) {
            if sure(&found) > ALONE_SHOWN_MAX || found.len() > ALONE_FOUND_MAX {
                break;
            }
            let alone = std::slice::from_ref(ending);
            found.extend(self.wait_for((now, budget), index, alone));
        }
        found.sort_by_key(|remedy| remedy.unless.is_some());
        found.truncate(ALONE_SHOWN_MAX + 1);
        if found.is_empty() {
            found.extend(self.wait_for((now, budget), index, &running));
        }
        found
    }

    /// Everything that runs, by declared end and name, then what declares none, by name.
    fn running(&self, index: WorkloadIdx) -> Vec<Ending> {
        let others = self.state.workloads.iter().filter(|(other, _)| *other != index);
        let mut running: Vec<Ending> = others.filter_map(|(other, _)| self.ending(other)).collect();
        self.order_by_end(&mut running);
        running
    }

    /// What runs and declares an end, in that order.
    pub(in crate::engine) fn declared(&self) -> Vec<Ending> {
        let all = self.state.workloads.iter().filter_map(|(other, _)| self.ending(other));
        let says = |ending: &Ending| ending.at.is_some() && !ending.learned;
        let mut declared: Vec<Ending> = all.filter(says).collect();
        self.order_by_end(&mut declared);
        declared
    }

    /// When a workload ends, if it runs and its end leaves room: work that always comes back leaves
    /// none.
    fn ending(&self, workload: WorkloadIdx) -> Option<Ending> {
        let (state, entry) = (&self.state, &self.state.workloads[workload]);
        let settled = matches!(entry.state, State::Running | State::Binding);
        let leaves = settled && entry.stays.is_none();
        if !leaves || state.placed(workload).next().is_none() {
            return None;
        }
        // The last of its members ends it; one that waits for the rest has not begun.
        let (mut count, mut last) = (0, None);
        for pod in state.placed(workload) {
            let says = self.member_runs(entry, pod);
            let Some((began, runs)) = state.pods[pod].bound_at.zip(says) else {
                let at = self.ends.believed(workload).filter(|_| says.is_none());
                return Some(Ending { workload, at, learned: at.is_some() });
            };
            (count, last) = (count + 1, last.max(Some(began.plus(runs))));
        }
        let at = last.filter(|_| count >= entry.min_member);
        let at = at.map(|last| self.last_end(workload, last));
        Some(Ending { workload, at, learned: false })
    }

    fn order_by_end(&self, endings: &mut Vec<Ending>) {
        endings.sort_by_cached_key(|ending| {
            let name = self.state.workloads[ending.workload].full_name.clone();
            (ending.at.is_none(), ending.at, name)
        });
        endings.truncate(RUNNING_MAX);
    }

    /// The remedy of waiting for as few of a list as its order allows; `None`: not even all of
    /// them would do.
    fn wait_for(&mut self, when: When<'_>, index: WorkloadIdx, list: &[Ending]) -> Option<Remedy> {
        let alone: Try = Engine::start_freely;
        let mut start = self.start_without(when, index, (&[][..], list), alone)?;
        let mut needed: Vec<Ending> = Vec::new();
        let mut rest = list;
        loop {
            // The shortest front of the rest that does, with those known to be needed.
            let (mut low, mut high) = (0, rest.len());
            while low < high {
                let middle = low + (high - low) / 2;
                match self.start_without(when, index, (&needed[..], &rest[..middle]), alone) {
                    Some(found) => (high, start) = (middle, found),
                    None => low = middle + 1,
                }
            }
            if high == 0 {
                break;
            }
            if needed.len() == NEEDED_MAX {
                needed.extend(rest[..high].iter().rev());
                break;
            }
            needed.push(rest[high - 1]);
            rest = &rest[..high - 1];
        }
        let among =
            self.start_without(when, index, (&needed[..], &[][..]), Engine::start_freely_among);
        let start = among.unwrap_or(start);
        let (last, before) = needed.split_first()?;
        let name = |ending: &Ending| self.state.workloads[ending.workload].full_name.clone();
        let change = Change::WaitFor {
            workload: name(last),
            with: before.iter().rev().map(name).collect(),
            at: last.at,
            learned: needed.iter().any(|ending| ending.learned),
        };
        Some(start.by(change))
    }

    /// How a workload would start with some others gone, when the last of them is due, if it is
    /// tried like this; all is as before afterwards.
    fn start_without(
        &mut self,
        (now, budget): When<'_>,
        index: WorkloadIdx,
        (needed, more): (&[Ending], &[Ending]),
        tried: Try,
    ) -> Option<Start> {
        let last = needed.iter().chain(more).filter_map(|ending| ending.at).max();
        let then = last.unwrap_or(now).max(now);
        if is_over(budget, then) {
            return None;
        }
        let mut txn = Txn::begin(&mut self.state);
        for ending in needed.iter().chain(more) {
            txn.remove_workload(ending.workload);
        }
        let aside = txn.set_aside();
        let start = tried(self, now, index, then);
        drop(Txn::take_up(&mut self.state, aside));
        start
    }
}

/// Whether nothing begins at a time because a budget is spent.
fn is_over(budget: Option<&Ahead>, time: Time) -> bool {
    budget.is_some_and(|budget| budget.is_over_at(time))
}
