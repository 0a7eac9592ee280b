//! When it is looked what queues spend of their budgets ([`crate::quota::spending`]), and what
//! follows: who waits until the next period, and who is woken by it.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::explain::reason::{Overspent, Reason};
use crate::model::claim::Places;
use crate::model::ids::{PodIdx, QueueIdx, WorkloadIdx};
use crate::model::input::{Enforcement, ResourceClaimKey};
use crate::model::pod::{Binding, Pod};
use crate::model::state::ClusterState;
use crate::model::workload::QueueRef;
use crate::money::MicroUsd;
use crate::plan::State;
use crate::quota::rate::{Cost, Rate};
use crate::quota::spending::Account;
use crate::time::Time;

/// What a queue with a hard budget will have spent of it, by what runs now: from each end of some
/// of that on, the first of them from now on.
#[derive(Debug)]
pub(crate) struct Ahead(Vec<(Time, Account)>);

impl Ahead {
    /// Of an account, and by how much more and less is spent from some times on, in order.
    fn of(account: Account, changes: impl Iterator<Item = (Time, Rate, Rate)>) -> Ahead {
        let mut accounts = vec![(Time::MIN, account)];
        for (at, more, less) in changes {
            let Some((_, before)) = accounts.last() else { break };
            let then = before.at_rate(before.rate().plus(more).minus(less), at);
            accounts.push((at, then));
        }
        Ahead(accounts)
    }

    /// The same with so much more spent from a time on, until another if that is known.
    pub(crate) fn with(&self, rate: Rate, from: Time, end: Option<Time>) -> Ahead {
        let none = Rate::default();
        let less = |two: &[(Time, Account)]| {
            let ((_, before), (at, after)) = (&two[0], &two[1]);
            (*at, none, before.rate().minus(after.rate()))
        };
        let mut changes: Vec<(Time, Rate, Rate)> = self.0.windows(2).map(less).collect();
        changes.push((from, rate, none));
        changes.extend(end.map(|end| (end, none, rate)));
        changes.sort_by_key(|(at, ..)| *at);
        Ahead::of(self.0[0].1.clone(), changes.into_iter())
    }

    /// Whether nothing begins in the queue at a time, in whichever period that is.
    pub(crate) fn is_over_at(&self, time: Time) -> bool {
        let before = self.0.partition_point(|(from, _)| *from <= time);
        let (_, account) = &self.0[before.saturating_sub(1)];
        account.on(time).over().is_some()
    }

    /// When the budget begins anew, if it is spent before.
    pub(super) fn begins_anew(&self) -> Option<Time> {
        let (_, account) = &self.0[0];
        let end = account.period().1;
        self.is_over_at(Time(end.0.saturating_sub(1))).then_some(end)
    }
}

impl Engine {
    /// Queues changed: accounts are opened anew when it is decided next.
    pub(super) fn open_accounts_anew(&mut self) {
        self.accounts_stale = true;
    }

    /// Brings accounts up to now: before anything is decided.
    pub(super) fn look_at_spending(&mut self, now: Time) {
        if std::mem::take(&mut self.accounts_stale) {
            self.open_accounts(now);
        }
        self.count_spending(now);
        let flipped = self.state.spending.pass(now);
        self.wake_flipped(flipped);
    }

    /// Opens the accounts of all queues with a budget, with all that runs in them since it was
    /// bound. Who waits is looked at again anyway, since queues changed.
    fn open_accounts(&mut self, now: Time) {
        let limited = |(queue, slot): (QueueIdx, &crate::quota::build::Queue)| {
            let limit = slot.facts.as_ref()?.spending?;
            Some((queue, slot.name.clone(), limit))
        };
        let queues: Vec<_> = self.state.quota.existing().filter_map(limited).collect();
        self.state.spending.reopen(now, &queues);
        if queues.is_empty() {
            return;
        }
        let pods: Vec<PodIdx> = self.state.pods.iter().map(|(index, _)| index).collect();
        pods.iter().for_each(|pod| self.state.pods[*pod].counted = false);
        for (queue, ..) in queues {
            for workload in self.state.quota.queue(queue).holding.clone() {
                self.count_workload(now, workload);
            }
        }
        // Who runs elsewhere counts from when it comes to one of these queues.
        for pod in pods {
            let counted = self.state.pods[pod].place.is_some() && costs(&self.state, pod);
            self.state.pods[pod].counted = counted;
        }
    }

    /// Counts what was touched since the last time.
    pub(super) fn count_spending(&mut self, now: Time) {
        for workload in self.state.spending.take_touched() {
            let flipped = self.count_workload(now, workload);
            self.wake_flipped(flipped);
        }
    }

    fn count_workload(&mut self, now: Time, workload: WorkloadIdx) -> Vec<QueueIdx> {
        let state = &mut self.state;
        let members = members_that_cost(state, workload);
        let entry = state.workloads.get(workload);
        let held = entry.and_then(|entry| entry.assignment.as_ref());
        let queue = held.and_then(|held| held.queue);
        let flipped = state.spending.count(now, workload, queue, &members);
        for pod in running(state, workload) {
            state.pods[pod].counted = true;
        }
        flipped
    }

    /// The budget of these queues ended, or a new one began: who waits there is told, or begins.
    fn wake_flipped(&mut self, flipped: Vec<QueueIdx>) {
        if flipped.is_empty() {
            return;
        }
        self.waiting.wake(|queue| queue.is_some_and(|queue| flipped.contains(&queue)), |_| true);
        self.growth.append(&mut self.growth_parked);
    }

    /// When a budget ends, or begins anew, that work waits for.
    pub(super) fn spending_due(&self) -> Option<Time> {
        if self.state.spending.is_empty() {
            return None;
        }
        let held = |workload: &WorkloadIdx| self.state.workloads[*workload].assignment.clone();
        let growing = self.growth.iter().chain(&self.growth_parked);
        let growing = growing.filter_map(|workload| held(workload)?.queue);
        let growing: BTreeSet<QueueIdx> = growing.collect();
        let mut dues = self.state.spending.dues();
        let waits = |queue: &QueueIdx| growing.contains(queue) || self.waiting.any(*queue);
        dues.find(|(_, queue)| waits(queue)).map(|(at, _)| at)
    }

    /// The account of a queue with a hard budget.
    pub(crate) fn hard_account(&self, queue: Option<QueueIdx>) -> Option<&Account> {
        let hard = |account: &&Account| account.limit().enforcement == Enforcement::Hard;
        self.state.spending.account(queue?).filter(hard)
    }

    /// What a queue will have spent, if it has a hard budget: what says when it ends costs nothing
    /// from then on, or from now if that has passed, and all else goes on; what is admitted and not
    /// bound yet costs from when it is asked for.
    pub(crate) fn spending_ahead(&self, queue: Option<QueueIdx>) -> Option<Ahead> {
        self.spending_beside(queue, None, &[])
    }

    /// The same without what somebody will cost once it is bound, and with these gone.
    pub(crate) fn spending_beside(
        &self,
        queue: Option<QueueIdx>,
        except: Option<WorkloadIdx>,
        gone: &[WorkloadIdx],
    ) -> Option<Ahead> {
        let account = self.hard_account(queue)?;
        let (queue, now, none) = (queue?, self.state.now, Rate::default());
        // A try may be for another time.
        let looked = self.state.spending.looked_at();
        let mut coming = self.coming(queue, except);
        coming.retain(|of, _| !gone.contains(of));
        let counted = |of: WorkloadIdx| self.state.spending.rate_of(queue, of);
        let leave = gone.iter().filter_map(|of| Some((now, none, counted(*of)?)));
        let less = |(end, of): (Time, WorkloadIdx)| {
            let runs = counted(of).filter(|_| !gone.contains(&of));
            let runs = runs.map(|rate| (end.max(looked), none, rate));
            let comes = coming.get(&of).map(|rate| (end.max(now), none, *rate));
            runs.into_iter().chain(comes)
        };
        let begins = coming.values().map(|rate| (now, *rate, none));
        let mut changes: Vec<(Time, Rate, Rate)> =
            begins.chain(leave).chain(self.ends.soonest_first().flat_map(less)).collect();
        changes.sort_by_key(|(at, ..)| *at);
        Some(Ahead::of(account.clone(), changes.into_iter()))
    }

    /// Work that is admitted in a queue, and what it will cost beyond what counts of it already:
    /// nothing counts before it is bound, nor before the step ends in which it is.
    fn coming(&self, queue: QueueIdx, except: Option<WorkloadIdx>) -> BTreeMap<WorkloadIdx, Rate> {
        let state = &self.state;
        let comes = |workload: &WorkloadIdx| match state.workloads[*workload].state {
            State::Resuming | State::Preparing | State::Binding => true,
            State::Running => state.spending.is_touched(*workload),
            _ => false,
        };
        let holding = state.quota.queue(queue).holding.iter().copied().filter(comes);
        let admitted = holding.map(|workload| (workload, self.not_counted_yet(queue, workload)));
        let claims = state.claims.of_queue(Some(queue)).filter_map(|workload| {
            let claim = state.claims.get(workload)?;
            Some((workload, self.rate_in(&claim.places)))
        });
        let mut coming: BTreeMap<WorkloadIdx, Rate> = BTreeMap::new();
        for (workload, rate) in admitted.chain(claims) {
            if Some(workload) != except && !rate.is_nothing() {
                let sum = coming.entry(workload).or_default();
                *sum = sum.plus(rate);
            }
        }
        coming
    }

    /// What members of a workload cost, or will once they are bound, that have a place, beyond what
    /// counts of it for a queue already.
    pub(crate) fn not_counted_yet(&self, queue: QueueIdx, workload: WorkloadIdx) -> Rate {
        let (state, mut shared) = (&self.state, BTreeSet::new());
        let bound = |pod: &PodIdx| state.pods[*pod].binding == Binding::Bound;
        let members = state.placed(workload).filter(|pod| !bound(pod) || costs(state, *pod));
        let all = members.map(|pod| rate_of_member(state, pod, &mut shared));
        let all = all.fold(Rate::default(), Rate::plus);
        all.beyond(state.spending.rate_of(queue, workload).unwrap_or_default())
    }

    /// What a workload costs with its members where they are placed.
    pub(crate) fn rate_in(&self, places: &Places) -> Rate {
        let (state, mut shared) = (&self.state, BTreeSet::new());
        let costs = places.members.iter().map(|(pod, node)| Rate {
            per_hour: state.price_on(*pod, *node).unwrap_or_default(),
            milli_gpus: state.milli_gpus(*pod, &mut shared),
            ..Rate::default()
        });
        costs.fold(Rate::default(), Rate::plus)
    }

    /// Why nothing new begins in a queue, if its budget is spent.
    pub(crate) fn overspent(&self, queue: QueueIdx) -> Option<Reason> {
        let stops = self.state.spending.stops(queue);
        stops.then(|| self.spent_budget(queue).map(Reason::BudgetExhausted)).flatten()
    }

    /// The budget of a queue, if it is spent now.
    pub(crate) fn spent_budget(&self, queue: QueueIdx) -> Option<Box<Overspent>> {
        let account = self.state.spending.account(queue)?.on(self.state.now);
        let over = account.reached().find(|over| over.for_ever()).or_else(|| account.over())?;
        Some(Box::new(Overspent {
            cluster_queue: self.state.quota.queue(queue).name.clone(),
            over,
            period: account.limit().period,
            until: account.period().1,
        }))
    }

    /// The same of work that would begin. What its owner was resumed for before began then.
    pub(crate) fn overspent_for(
        &self,
        queue: Option<QueueIdx>,
        workload: WorkloadIdx,
    ) -> Option<Reason> {
        self.overspent(queue?).filter(|_| !self.resumed_before.contains(&workload))
    }

    /// The budget that a waiting workload's queue has spent, if nothing begins there for it.
    pub(super) fn spent_budget_of(&self, workload: WorkloadIdx) -> Option<(QueueIdx, Overspent)> {
        let QueueRef::Queue(queue) = self.state.workloads[workload].queue else { return None };
        match self.overspent_for(Some(queue), workload)? {
            Reason::BudgetExhausted(over) => Some((queue, *over)),
            _ => None,
        }
    }

    /// What a queue spent in its period, if it has a budget.
    pub(super) fn account_of(&self, queue: QueueIdx) -> Option<Box<Account>> {
        self.state.spending.account(queue).cloned().map(Box::new)
    }

    /// Compares what accounts are made of with what work in queues with budgets costs, and looks
    /// for members of that which would count once more as other work.
    ///
    /// # Panics
    /// When they differ.
    pub(super) fn recount_spending(&self) {
        let state = &self.state;
        if self.accounts_stale {
            return;
        }
        state.spending.recount(|workload| {
            let queue = state.workloads.get(workload)?.assignment.as_ref()?.queue?;
            let members = members_that_cost(state, workload);
            let twice = members.iter().any(|cost| cost.uncounted_since.is_some());
            assert!(!twice || state.spending.is_touched(workload), "{workload:?} counts twice");
            let frozen =
                |pod: PodIdx| !costs(state, pod) || noted_price(&state.pods[pod]).is_some();
            let frozen = state.placed(workload).all(frozen);
            let rate = members.iter().fold(Rate::default(), |sum, cost| sum.plus(cost.rate));
            Some((queue, rate, frozen))
        });
    }
}

/// Whether a member runs, or is about to.
fn costs(state: &ClusterState, pod: PodIdx) -> bool {
    let pod = &state.pods[pod];
    matches!(pod.binding, Binding::InFlight(_) | Binding::Bound) && pod.bound_at.is_some()
}

/// The price that was written when a member was placed.
fn noted_price(pod: &Pod) -> Option<MicroUsd> {
    pod.note.as_ref()?.price
}

/// Members of a workload that have a place and were bound; none of one that is gone.
fn running(state: &ClusterState, workload: WorkloadIdx) -> Vec<PodIdx> {
    if state.workloads.get(workload).is_none() {
        return Vec::new();
    }
    state.placed(workload).filter(|pod| costs(state, *pod)).collect()
}

/// What members of a workload cost that have a place and were bound. The price is what was written
/// when it was placed, else that of where it is now.
fn members_that_cost(state: &ClusterState, workload: WorkloadIdx) -> Vec<Cost> {
    let mut shared = BTreeSet::new();
    running(state, workload)
        .into_iter()
        .map(|index| {
            let pod = &state.pods[index];
            let rate = rate_of_member(state, index, &mut shared);
            let follows = pod.place.filter(|_| noted_price(pod).is_none());
            Cost { rate, uncounted_since: pod.bound_at.filter(|_| !pod.counted), follows }
        })
        .collect()
}

/// What a member costs that has a place, beside others that share claims which were `seen`.
fn rate_of_member(
    state: &ClusterState,
    index: PodIdx,
    seen: &mut BTreeSet<ResourceClaimKey>,
) -> Rate {
    let noted = noted_price(&state.pods[index]);
    let price = noted.or_else(|| state.price(index));
    Rate {
        per_hour: price.unwrap_or_default(),
        milli_gpus: state.milli_gpus(index, seen),
        unpriced: u32::from(price.is_none()),
        assumed: u32::from(noted.is_none() && price.is_some()),
    }
}
