//! What would start a waiting workload, each tried on the engine itself.
//!
//! Every change is made for real in an undone scope (a transaction that is set aside and rolled
//! back, or a field that is put back), the workload is nominated and planned as a round would do
//! it, and the change is kept only if it then starts. So a remedy says what the engine would do.
//! Heads of other queues have their turns (`rivals`): who of them would take what it needs is told
//! with the change, and such changes come last. Nor does a start count that would delay one that is
//! reserved for another, or will be once the change is made: it is held. Where nothing is admitted
//! until other work has started, it is told of a start that it comes once that has. Work that waits
//! for anything but room or quota gets none: no change of these kinds would help it. Costs a
//! bounded number of nominations, and where starts are reserved a few plays of their timetable for
//! each; on request only.

use std::collections::BTreeSet;

use crate::cycle::{Entry, Kept, Premise, Verdict};
use crate::engine::Engine;
use crate::explain::obstacles;
use crate::explain::reason::Reason;
use crate::explain::view::{Change, Remedy};
use crate::model::held::Held;
use crate::model::ids::{FlavorIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{QueueingStrategy, Text};
use crate::model::workload::QueueRef;
use crate::money::MicroUsd;
use crate::plan::{Preemption, State};
use crate::time::Time;
use crate::victims::Victim;

mod amounts;
mod budget;
mod changes;
mod ends;
mod flavors;
mod least;
mod limits;
mod rivals;
mod run_time;
mod together;

/// Remedies shown: as many as people compare before they decide.
const REMEDIES_MAX: usize = 6;

/// What somebody leaves alone who may start as far as reserved starts are concerned.
type Passes = fn(&mut Engine, &mut Entry, &[Victim], Time) -> Option<Kept>;

/// A start that the engine would make now.
#[derive(Debug)]
struct Start {
    /// Members that would be placed.
    members: u32,
    /// Members that wait.
    asked: u32,
    /// Price of all of them per hour; `None`: a node's price is unknown.
    per_hour: Option<MicroUsd>,
    /// Who has to leave first.
    victims: Vec<Preemption>,
    /// Admitted work that has to start before it.
    after: Vec<Text>,
    /// Who of another queue takes what it needs, if it has its turn as well.
    unless: Option<Text>,
    /// Flavors that its members get, by shape.
    flavors: BTreeSet<(ShapeIdx, FlavorIdx)>,
}

impl Start {
    /// The remedy that leads to this start.
    fn by(&self, change: Change) -> Remedy {
        // Of some of them it would be too little.
        let lost = self.victims.iter().map(|victim| victim.lost_cost);
        Remedy {
            change,
            first: (self.members < self.asked).then_some(self.members),
            per_hour: self.per_hour,
            preempts: self.victim_names(),
            loses: lost.reduce(|sum, lost| Some(sum?.plus(lost?))).flatten(),
            after: self.after.clone(),
            unless: self.unless.clone(),
        }
    }

    fn victim_names(&self) -> Vec<Text> {
        self.victims.iter().map(|victim| victim.victim.clone()).collect()
    }
}

/// Groups of equal work whose reasons are renewed: each costs a nomination.
const RENEWED_MAX: usize = 1_000;

impl Engine {
    /// Ways to start a waiting workload, soonest and cheapest first; none for one that runs, that
    /// only waits for its turn, or that waits for something else than room or quota.
    pub(super) fn remedies(&mut self, now: Time, index: WorkloadIdx) -> Vec<Remedy> {
        if !self.waits_for_room(index) || self.fits(now, index) {
            return Vec::new();
        }
        // What the last step played is its own.
        let plays = std::mem::take(&mut self.counts.forecasts);
        let mut found = match self.only_delays(now, index) {
            true => self.after_reserved(now, index),
            false => self.endings(now, index),
        };
        found.extend(self.more_budget(now, index));
        found.extend(self.fewer_pods(now, index));
        found.extend(self.more_capacity(now, index));
        found.extend(self.other_flavors(now, index));
        found.extend(self.more_quota(now, index));
        found.extend(self.higher_limits(now, index));
        found.extend(self.more_preemption(now, index));
        found.sort_by_cached_key(order);
        found.truncate(REMEDIES_MAX);
        self.counts.forecasts = plays;
        if cfg!(debug_assertions) && self.state.small() {
            self.state.recount();
        }
        found
    }

    /// Whether room or quota is all that a workload lacks: it is queued, and nobody blocks it.
    fn waits_for_room(&self, index: WorkloadIdx) -> bool {
        let entry = &self.state.workloads[index];
        let strict = |queue: QueueIdx| {
            let facts = self.state.quota.queue(queue).facts.as_ref();
            facts.is_some_and(|facts| facts.strategy == QueueingStrategy::StrictFifo)
        };
        let first = self.waiting.ahead(index) == Some(0);
        let open = match entry.queue {
            QueueRef::Broken(_) => false,
            QueueRef::Queue(queue) => {
                !strict(queue) || first && self.preemptor_before(Some(queue), index).is_none()
            }
            QueueRef::Unqueued => true,
        };
        entry.state == State::Queued && self.waiting.contains(index) && open
    }

    /// Says anew, with the numbers of now, why work waits that was refused: what took room since
    /// could not help it, so it was not looked at again. Of many different groups of equal work the
    /// first [`RENEWED_MAX`] are renewed, in order of their queues, and as many gangs that run and
    /// have members that find no place.
    pub fn renew_reasons(&mut self) {
        let heads = self.waiting.heads().into_iter().map(|head| vec![head]);
        for group in self.waiting.refused(RENEWED_MAX).into_iter().chain(heads) {
            let (first, others) = group.split_first().expect("groups that wait have members");
            if let Some(reason) = self.refused_afresh(*first) {
                self.waiting.say(*first, reason.clone());
                self.set_reason(*first, reason);
                others.iter().for_each(|other| self.state.workloads[*other].reason = None);
            }
        }
        let mut running: Vec<WorkloadIdx> = self.growth_parked.iter().copied().collect();
        self.state.in_queue_order(&mut running);
        for workload in running.into_iter().take(RENEWED_MAX) {
            if let Some(reason) = self.joins_not(workload) {
                self.set_reason(workload, reason);
            }
        }
    }

    /// With the numbers of now, why work waits that was refused for want of quota or room, and
    /// why members join no gang that runs.
    pub(super) fn reason_now(&mut self, index: WorkloadIdx) -> Option<Reason> {
        let entry = &self.state.workloads[index];
        if entry.state != State::Queued {
            return self.joins_not(index);
        }
        let known = entry.reason.as_ref().map(obstacles::told);
        let refused = matches!(
            known,
            Some(
                Reason::Flavors { .. }
                    | Reason::BudgetExhausted(_)
                    | Reason::Nodes(_)
                    | Reason::Topology(_)
                    | Reason::Together { .. }
                    | Reason::AwaitsOthers { .. }
            )
        );
        if !refused || !self.waiting.contains(index) {
            return None;
        }
        self.refused_afresh(index)
    }

    /// Why a nomination of now refuses a workload, if it does.
    fn refused_afresh(&mut self, index: WorkloadIdx) -> Option<Reason> {
        let found = self.nominate_afresh(index);
        let waits = matches!(found.verdict, Verdict::NoFit | Verdict::Blocked);
        found.choice.reason.filter(|_| waits)
    }

    /// What a nomination finds, all flavors tried anew.
    pub(crate) fn nominate_afresh(&mut self, index: WorkloadIdx) -> Entry {
        let queue = match self.state.workloads[index].queue {
            QueueRef::Queue(queue) => Some(queue),
            _ => None,
        };
        let scan = self.state.workloads[index].requeue.scan.take();
        let entry = self.nominate_as(queue, index, Premise::default());
        self.state.workloads[index].requeue.scan = scan;
        entry
    }

    /// Whether it would start as things are, if others leave that may be preempted: all that it
    /// waits for is its turn.
    fn fits(&mut self, now: Time, index: WorkloadIdx) -> bool {
        self.start_if(now, index, (now, Engine::would_pass)).is_some()
    }

    /// Whether one that does not fit would, if it might delay those whose start is reserved.
    fn only_delays(&mut self, now: Time, index: WorkloadIdx) -> bool {
        let passes: Passes = |_, _, _, _| Some(Kept::default());
        !self.reservations.is_empty() && self.start_if(now, index, (now, passes)).is_some()
    }

    /// Whether and how a workload would start as things are, and delay nobody whose start is
    /// reserved: beside heads of other queues, or else if none of them goes first.
    fn start(&mut self, now: Time, index: WorkloadIdx) -> Option<Start> {
        self.start_as(now, index, (now, false))
    }

    /// The same at that time, and perhaps only without anybody being stopped for it.
    fn start_as(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        (then, freely): (Time, bool),
    ) -> Option<Start> {
        let rival = match self.start_among(now, index, (then, freely)) {
            Ok(start) => return Some(start),
            Err(rival) => rival?,
        };
        let start = self.start_if(now, index, (then, Engine::would_pass));
        let start = start.filter(|start| !freely || start.victims.is_empty())?;
        Some(Start { unless: Some(self.state.workloads[rival].full_name.clone()), ..start })
    }

    /// Whether and how it would start at that time if it is let pass, whoever of other queues has a
    /// turn: beside what heads kept back in the last round.
    fn start_if(&mut self, now: Time, index: WorkloadIdx, at: (Time, Passes)) -> Option<Start> {
        let held = self.kept_by_others(index);
        self.start_beside(now, index, at, held)
    }

    /// The same beside what these keep back.
    fn start_beside(
        &mut self,
        now: Time,
        index: WorkloadIdx,
        (then, passes): (Time, Passes),
        held: Vec<Held>,
    ) -> Option<Start> {
        let after = self.names_of_unready(index);
        let mut entry = self.nominate_afresh(index);
        let found = match std::mem::replace(&mut entry.verdict, Verdict::NoFit) {
            Verdict::Fit => Vec::new(),
            Verdict::Preempt(victims) => victims,
            Verdict::Blocked | Verdict::NoFit => return None,
        };
        held.into_iter().for_each(|held| self.state.hold(held));
        // Who stops others is looked at once those are gone.
        let fits = !found.is_empty() || self.quota_still_fits(&entry);
        let passed = if fits { passes(self, &mut entry, &found, then) } else { None };
        let places = passed.and_then(|kept| {
            let assignment = self.assignment_for(&entry, now);
            let leave: Vec<WorkloadIdx> = found.iter().map(|victim| victim.workload).collect();
            match kept.is_empty() {
                true => self.plan_after(&entry, assignment, &leave),
                false => self.try_place(&entry, assignment, &kept, false).ok(),
            }
        });
        self.state.let_go();
        let places = places?.members;
        let hourly = |&(pod, node): &(_, _)| self.state.price_on(pod, node);
        let per_hour = places
            .iter()
            .map(hourly)
            .try_fold(MicroUsd(0), |sum, price| price.map(|price| sum.plus(price)));
        let victims = self.preemptions(now, index, &found, &entry.choice.usage);
        let asked = self.demands(index).iter().map(|set| set.count).sum();
        let members = places.len() as u32;
        let mut flavors = BTreeSet::new();
        for (set, chosen) in entry.sets.iter().zip(&entry.choice.sets) {
            flavors.extend(chosen.iter().map(|(_, flavor)| (set.shape, *flavor)));
        }
        Some(Start { members, asked, per_hour, victims, after, unless: None, flavors })
    }

    /// A start at that time, without anybody being stopped for it, if no head of another queue goes
    /// first.
    fn start_freely(&mut self, now: Time, index: WorkloadIdx, then: Time) -> Option<Start> {
        let start = self.start_if(now, index, (then, Engine::would_pass));
        start.filter(|start| start.victims.is_empty())
    }

    /// The same, and who of other queues goes first.
    fn start_freely_among(&mut self, now: Time, index: WorkloadIdx, then: Time) -> Option<Start> {
        self.start_as(now, index, (then, true))
    }
}

/// Place of a remedy among others.
type Order = (bool, u8, Time, (bool, MicroUsd), (bool, MicroUsd), u8, String);

/// What does whoever else waits before what does not; at once, then after preemption, then at a
/// known time, then some time, be it once others have started; then by what is lost and paid, what
/// is not known last; then by kind and words.
fn order(remedy: &Remedy) -> Order {
    let (rank, at) = match (&remedy.change, remedy.preempts.is_empty()) {
        _ if !remedy.after.is_empty() => (3, Time::MIN),
        (Change::WaitFor { at: Some(at), .. } | Change::WaitUntil { at, .. }, _) => (2, *at),
        (Change::WaitFor { at: None, .. }, _) => (3, Time::MIN),
        (_, true) => (0, Time::MIN),
        (_, false) => (1, Time::MIN),
    };
    let kind = match &remedy.change {
        Change::FewerPods { .. }
        | Change::LowerParallelism { .. }
        | Change::DeclareRunTime { .. } => 0,
        Change::AllowCapacity { .. } => 1,
        Change::AnotherFlavor { .. } => 2,
        Change::RaiseQuota { .. } => 3,
        Change::RaiseLimit { .. } => 4,
        Change::AllowPreemption { .. } => 5,
        Change::WaitFor { .. } => 6,
        Change::RaiseBudget { .. } => 7,
        Change::WaitUntil { .. } => 8,
    };
    let known = |amount: Option<MicroUsd>| (amount.is_none(), amount.unwrap_or(MicroUsd(0)));
    let lost = if remedy.preempts.is_empty() { Some(MicroUsd(0)) } else { remedy.loses };
    let (lost, price) = (known(lost), known(remedy.per_hour));
    (remedy.unless.is_some(), rank, at, lost, price, kind, remedy.change.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PreemptionReason;
    use crate::time::Span;

    fn victim(lost: Option<i64>) -> Preemption {
        Preemption {
            victim: "default/v".into(),
            preemptor: "default/p".into(),
            reason: PreemptionReason::Priority,
            victim_priority: 0,
            preemptor_priority: 9,
            frees: Vec::new(),
            lost: Span::minutes(1),
            lost_cost: lost.map(MicroUsd),
            cohort: None,
            overspent: None,
            bars: None,
        }
    }

    /// A remedy that stops those who lose so much.
    fn stops(lost: &[Option<i64>]) -> Remedy {
        let victims = lost.iter().map(|lost| victim(*lost)).collect();
        let per_hour = Some(MicroUsd(1));
        let (after, unless, flavors) = (Vec::new(), None, BTreeSet::new());
        let start = Start { members: 1, asked: 1, per_hour, victims, after, unless, flavors };
        start.by(Change::FewerPods { pods: 1 })
    }

    #[test]
    fn what_is_lost_is_told_where_all_of_it_is_known_and_goes_first_there() {
        let rows: [(&[Option<i64>], Option<i64>); 5] = [
            (&[None], None),
            (&[Some(5), None], None),
            (&[Some(5), Some(7)], Some(12)),
            (&[Some(5)], Some(5)),
            (&[], None),
        ];
        let mut remedies: Vec<Remedy> = rows.iter().map(|(lost, _)| stops(lost)).collect();
        for (remedy, (_, sum)) in remedies.iter().zip(&rows) {
            assert_eq!(remedy.loses, sum.map(MicroUsd));
        }
        remedies.sort_by_cached_key(order);
        let in_order = remedies.iter().map(|remedy| (remedy.preempts.len(), remedy.loses));
        let in_order: Vec<(usize, Option<MicroUsd>)> = in_order.collect();
        let known = [(0, None), (1, Some(MicroUsd(5))), (2, Some(MicroUsd(12)))];
        assert_eq!(in_order[..3], known);
        assert_eq!(in_order[3..], [(1, None), (2, None)]);
    }
}
