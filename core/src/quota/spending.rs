//! What ClusterQueues spend of their budgets: money or GPU-hours in a day, a week or a month.
//!
//! Problem: quota bounds what runs at one time and not for how long, so a queue that uses what is
//! its own day and night costs a multiple of one that uses it by day. A budget bounds the sum.
//!
//! Wanted: what is spent is the sum over all members of work in the queue, from their bind to their
//! end, of the hourly price that was fixed when they were placed, and of their GPUs, parts of which
//! count as such ([`crate::gpus`]). Who leaves holds its node until it is gone, so it counts until
//! then. Who bears no price (somebody else bound it, or its annotations are lost) is charged what
//! it would cost where it is, by what the node costs at the time, and that this is taken for
//! granted is shown. Where that is not known nothing is counted in dollars, GPUs all the same, and
//! how many members that are is shown: a budget in dollars says what is known to be spent and stops
//! nobody for what is not. A queue where that must not be has quota for money, too. Both amounts
//! may be set; the one that is reached first counts.
//!
//! Hard: once it is spent, nothing new begins in the queue, nor do gangs that run get members
//! beyond their minimum, until the next period. What runs goes on, and what was promised the room
//! of victims begins: work is not lost for a sum that it was admitted under, and what it costs from
//! then on is shown, as more than all of it. Members that a gang lacks for its minimum are made up
//! for.
//! Before it is spent nobody is held for what is left of it, unless a reserved start of the queue
//! needs that (`cycle/backfill.rs`).
//!
//! Soft: the queue admits as before, and its work is the first that others of the cohort take back,
//! among those whom the rules let leave at all.
//!
//! Time is counted in whole seconds, as the API writes it: GPU-seconds are whole numbers then, and
//! what is written is what is known. Less than a millionth of a dollar and a second of one GPU is
//! lost with each restart.
//!
//! Phases: facts, also of nodes by which it is charged, and admissions touch work -> at the begin
//! and at the end of a step it is looked what touched work costs an hour, and accounts are brought
//! up to then first -> what is due (the end of a budget, or of its period) flips who may begin, and
//! wakes who waits.
//!
//! Members may become other work while they run. Each counts on then, where it is from now on.
//!
//! Restart: what was spent, in which period and until when stands in the status of the
//! ClusterQueue; what runs counts from then, or from its bind if that was later. What ended since
//! the status was written is lost from then on. A queue without such a status counts what runs from
//! the begin of the period. An edit is the same as a restart, without that loss: what was spent in
//! a day counts for the week that the day is in, not the other way round.
//!
//! Cost: a few entries for each workload of a queue with a budget, looked at when it changes;
//! nothing where no queue has one.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::gpus::MILLI;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::{Enforcement, SpendingLimit, SpentFacts, Text};
use crate::money::MicroUsd;
use crate::quota::rate::{Cost, Followed, Rate};
use crate::time::Time;

const SECOND_MS: i64 = 1_000;
const SECONDS_OF_AN_HOUR: i128 = 3_600;
const MILLI_GPUS: i128 = MILLI as i128;

/// What was spent: an hourly price for so many seconds, summed up, and thousandths of GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    micro_usd_hours: i128,
    milli_gpu_seconds: i128,
}

impl Sums {
    fn add(&mut self, rate: Rate, seconds: i64) {
        let (seconds, sums) = (i128::from(seconds.max(0)), self);
        let price = i128::from(rate.per_hour.0.max(0));
        sums.micro_usd_hours = sums.micro_usd_hours.saturating_add(price * seconds);
        let gpus = i128::from(rate.milli_gpus.max(0));
        sums.milli_gpu_seconds = sums.milli_gpu_seconds.saturating_add(gpus * seconds);
    }
}

/// An amount that a budget is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Money.
    Usd(MicroUsd),
    /// GPU-seconds.
    GpuSeconds(i64),
}

/// A budget that is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// What may be spent.
    pub limit: Amount,
    /// What was.
    pub spent: Amount,
}

/// What a queue spent in the current period, and what it spends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    limit: SpendingLimit,
    start: Time,
    end: Time,
    sums: Sums,
    /// Until then all is in the sums; a whole second.
    at: Time,
    /// Work that is found running counts from then on, if it began before.
    base: Time,
    rate: Rate,
}

/// What was known when an account was closed, or is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    start: Time,
    sums: Sums,
    as_of: Time,
}

/// The begin of the second that a time is in.
fn second(at: Time) -> Time {
    Time(at.0.div_euclid(SECOND_MS).saturating_mul(SECOND_MS))
}

fn seconds_between(from: Time, to: Time) -> i64 {
    to.since(from).0 / SECOND_MS
}

impl Over {
    /// Whether nothing may be spent: no period admits anything.
    pub fn for_ever(self) -> bool {
        matches!(self.limit, Amount::Usd(MicroUsd(..=0)) | Amount::GpuSeconds(..=0))
    }
}

impl Account {
    /// With what was spent before, as far as that belongs to the period of now.
    fn open(limit: SpendingLimit, now: Time, stored: Option<&Stored>) -> Account {
        let (start, end) = limit.period.around(now);
        let within = |stored: &&Stored| stored.start >= start && stored.as_of < end;
        let stored = stored.filter(within);
        let base = stored.map_or(start, |stored| second(stored.as_of).max(start));
        Account {
            limit,
            start,
            end,
            sums: stored.map_or_else(Sums::default, |stored| stored.sums),
            at: second(now).max(base),
            base,
            rate: Rate::default(),
        }
    }

    /// Of work that runs at this rate from now on, with nothing spent before.
    pub fn begun(limit: SpendingLimit, now: Time, rate: Rate) -> Account {
        Account { rate, ..Account::open(limit, now, None) }
    }

    /// Counts up to a time; in another period from its begin. Time does not run back.
    fn advance(&mut self, now: Time) {
        if now >= self.end {
            (self.start, self.end) = self.limit.period.around(now);
            (self.sums, self.at, self.base) = (Sums::default(), self.start, self.start);
        }
        let now = second(now);
        if now > self.at {
            self.sums.add(self.rate, seconds_between(self.at, now));
            self.at = now;
        }
    }

    /// Counts what one that runs at this rate since then has spent before it was known.
    fn found(&mut self, rate: Rate, since: Time) {
        self.sums.add(rate, seconds_between(second(since).max(self.base), self.at));
    }

    /// As it is at a time, everything going on as it does.
    pub fn on(&self, now: Time) -> Account {
        let mut then = self.clone();
        then.advance(now);
        then
    }

    /// The same, with so much spent from then on.
    pub fn at_rate(&self, rate: Rate, now: Time) -> Account {
        Account { rate, ..self.on(now) }
    }

    /// The budget.
    pub fn limit(&self) -> SpendingLimit {
        self.limit
    }

    /// When the period began, and when the next one does.
    pub fn period(&self) -> (Time, Time) {
        (self.start, self.end)
    }

    /// Until when all is counted.
    pub fn as_of(&self) -> Time {
        self.at
    }

    /// What it spends now.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Money spent, rounded down.
    pub fn usd(&self) -> MicroUsd {
        let spent = self.sums.micro_usd_hours / SECONDS_OF_AN_HOUR;
        MicroUsd(i64::try_from(spent).unwrap_or(i64::MAX))
    }

    /// GPU-seconds used, rounded down.
    pub fn gpu_seconds(&self) -> i64 {
        i64::try_from(self.sums.milli_gpu_seconds / MILLI_GPUS).unwrap_or(i64::MAX)
    }

    /// What of the budget is spent: neither amount, one, or both; money first.
    pub fn reached(&self) -> impl Iterator<Item = Over> {
        let (usd, gpu_seconds) = (self.usd(), self.gpu_seconds());
        let money = self.limit.usd.filter(|limit| usd >= *limit);
        let gpus = self.limit.gpu_seconds.filter(|limit| gpu_seconds >= *limit);
        let money = money.map(|limit| Over { limit: Amount::Usd(limit), spent: Amount::Usd(usd) });
        let spent = Amount::GpuSeconds(gpu_seconds);
        let gpus = gpus.map(|limit| Over { limit: Amount::GpuSeconds(limit), spent });
        money.into_iter().chain(gpus)
    }

    /// What of the budget is spent, if it is.
    pub fn over(&self) -> Option<Over> {
        self.reached().next()
    }

    /// When the budget ends if all goes on as it does and the period lasts; `None`: it has ended,
    /// or never does.
    pub fn runs_out(&self) -> Option<Time> {
        if self.over().is_some() {
            return None;
        }
        let money = self.limit.usd.map(|limit| {
            let limit = i128::from(limit.0).saturating_mul(SECONDS_OF_AN_HOUR);
            (limit - self.sums.micro_usd_hours, i128::from(self.rate.per_hour.0))
        });
        let gpus = self.limit.gpu_seconds.map(|limit| {
            let limit = i128::from(limit) * MILLI_GPUS;
            (limit - self.sums.milli_gpu_seconds, i128::from(self.rate.milli_gpus))
        });
        let running = money.into_iter().chain(gpus).filter(|(_, each)| *each > 0);
        let lasts = running.map(|(left, each)| left / each + i128::from(left % each > 0)).min()?;
        let lasts_ms = i64::try_from(lasts.saturating_mul(SECOND_MS.into())).ok()?;
        self.at.0.checked_add(lasts_ms).map(Time)
    }

    /// When it must be looked at again: the budget ends, or the period does.
    fn due(&self) -> Time {
        self.runs_out().map_or(self.end, |at| at.min(self.end))
    }

    fn stored(&self) -> Stored {
        Stored { start: self.start, sums: self.sums, as_of: self.at }
    }
}

/// What all queues with budgets spend.
#[derive(Debug, Default)]
pub struct Spending {
    accounts: BTreeMap<QueueIdx, Account>,
    /// By queue: when its account is due, and whether its budget is spent.
    filed: BTreeMap<QueueIdx, (Time, bool)>,
    dues: BTreeSet<(Time, QueueIdx)>,
    /// Work that counts: for which queue, and at which rate.
    counted: BTreeMap<WorkloadIdx, (QueueIdx, Rate)>,
    /// Work that may cost something else than it did.
    touched: BTreeSet<WorkloadIdx>,
    /// Nodes by whose prices work that counts is charged.
    followed: Followed,
    /// What statuses say, or closed accounts said, by ClusterQueue.
    stored: BTreeMap<Text, Stored>,
    /// This queue's budget does not matter, for a try.
    lifted: Option<QueueIdx>,
    /// When it was looked last who has spent what.
    looked: Time,
}

impl Spending {
    /// What the status of a ClusterQueue shows, if that is not older than what is known.
    pub fn restore(&mut self, facts: &SpentFacts) {
        let sums = Sums {
            micro_usd_hours: i128::from(facts.usd.0.max(0)) * SECONDS_OF_AN_HOUR,
            milli_gpu_seconds: i128::from(facts.gpu_seconds.max(0)) * MILLI_GPUS,
        };
        let given = Stored { start: facts.period_start, sums, as_of: facts.as_of };
        let known = self.stored.entry(facts.cluster_queue.clone()).or_insert(given);
        if known.as_of <= given.as_of {
            *known = given;
        }
    }

    /// A ClusterQueue is gone.
    pub fn forget(&mut self, cluster_queue: &Text) {
        self.stored.remove(cluster_queue);
    }

    /// When it was looked last who has spent what.
    pub fn looked_at(&self) -> Time {
        self.looked
    }

    /// Whether any queue has a budget, as far as it was looked at.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// The account of a queue, if it has a budget.
    pub fn account(&self, queue: QueueIdx) -> Option<&Account> {
        self.accounts.get(&queue)
    }

    /// Closes all accounts and opens those of these queues, with nothing counted yet.
    pub fn reopen(&mut self, now: Time, queues: &[(QueueIdx, Text, SpendingLimit)]) {
        self.dues.clear();
        self.filed.clear();
        self.counted.clear();
        self.touched.clear();
        self.followed = Followed::default();
        let closed = std::mem::take(&mut self.accounts);
        let mut stored = std::mem::take(&mut self.stored);
        for (queue, name, limit) in queues {
            let carried = closed.get(queue).map(|account| account.on(now).stored());
            let carried = carried.or_else(|| stored.remove(name));
            self.accounts.insert(*queue, Account::open(*limit, now, carried.as_ref()));
            self.refile(*queue);
        }
    }

    /// Work may cost something else than it did; nobody asks while no queue has a budget.
    pub fn touch(&mut self, workload: WorkloadIdx) {
        if !self.accounts.is_empty() {
            self.touched.insert(workload);
        }
    }

    /// What a node costs may have changed, or all of them: whatever is charged by that is touched.
    pub fn reprice(&mut self, node: Option<NodeIdx>) {
        self.touched.extend(self.followed.by(node));
    }

    /// The same of all work that counts.
    pub fn touch_counted(&mut self) {
        self.touched.extend(self.counted.keys());
    }

    /// Whether what work costs may differ from what is counted.
    pub fn is_touched(&self, workload: WorkloadIdx) -> bool {
        self.touched.contains(&workload)
    }

    /// Takes out what was touched.
    pub fn take_touched(&mut self) -> BTreeSet<WorkloadIdx> {
        std::mem::take(&mut self.touched)
    }

    /// What a workload counts for its queue from now on, by what its members cost. Those of its
    /// queues of which whether the budget is spent changed.
    pub fn count(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        queue: Option<QueueIdx>,
        members: &[Cost],
    ) -> Vec<QueueIdx> {
        let rate = members.iter().fold(Rate::default(), |sum, cost| sum.plus(cost.rate));
        let queue = queue.filter(|queue| self.accounts.contains_key(queue));
        self.followed.put(workload, if queue.is_some() { members } else { &[] });
        let new = queue.filter(|_| !rate.is_nothing()).map(|queue| (queue, rate));
        let old = self.counted.get(&workload).copied();
        if old == new {
            return Vec::new();
        }
        match new {
            Some(new) => self.counted.insert(workload, new),
            None => self.counted.remove(&workload),
        };
        let mut changed: Vec<QueueIdx> = old.into_iter().chain(new).map(|(of, _)| of).collect();
        changed.dedup();
        for queue in &changed {
            let account = self.accounts.get_mut(queue).expect("only queues with budgets count");
            account.advance(now);
            let of_it = |counts: Option<(QueueIdx, Rate)>| {
                counts.filter(|(of, _)| of == queue).map_or_else(Rate::default, |(_, rate)| rate)
            };
            account.rate = account.rate.minus(of_it(old)).plus(of_it(new));
            if old.is_none() {
                let ran = |cost: &Cost| Some((cost.rate, cost.uncounted_since?));
                let ran = members.iter().filter_map(ran);
                ran.for_each(|(rate, since)| account.found(rate, since));
            }
        }
        changed.retain(|queue| self.refile(*queue));
        changed
    }

    /// Brings up to now what is due; those of which whether the budget is spent changed.
    pub fn pass(&mut self, now: Time) -> Vec<QueueIdx> {
        self.looked = now;
        let due = self.dues.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<QueueIdx> = due.map(|(_, queue)| *queue).collect();
        due.retain(|queue| {
            let account = self.accounts.get_mut(queue).expect("what is due has an account");
            account.advance(now);
            self.refile(*queue)
        });
        due
    }

    /// Files when an account is due; whether it changed whether its budget is spent.
    fn refile(&mut self, queue: QueueIdx) -> bool {
        let account = &self.accounts[&queue];
        let new = (account.due(), account.over().is_some());
        let old = self.filed.insert(queue, new);
        if let Some((due, _)) = old {
            self.dues.remove(&(due, queue));
        }
        self.dues.insert((new.0, queue));
        old.is_some_and(|(_, over)| over != new.1)
    }

    /// Queues with a hard budget in the order in which they are due.
    pub fn dues(&self) -> impl Iterator<Item = (Time, QueueIdx)> + '_ {
        let hard = move |(_, queue): &(Time, QueueIdx)| self.enforced(*queue, Enforcement::Hard);
        self.dues.iter().copied().filter(hard)
    }

    /// What work costs that counts for a queue.
    pub fn rate_of(&self, queue: QueueIdx, workload: WorkloadIdx) -> Option<Rate> {
        let counts = self.counted.get(&workload).filter(|(of, _)| *of == queue);
        counts.map(|(_, rate)| *rate)
    }

    fn enforced(&self, queue: QueueIdx, how: Enforcement) -> bool {
        self.accounts.get(&queue).is_some_and(|account| account.limit.enforcement == how)
    }

    /// Whether a queue admits nothing because its budget is spent.
    pub fn stops(&self, queue: QueueIdx) -> bool {
        let spent = self.filed.get(&queue).is_some_and(|(_, over)| *over);
        spent && self.lifted != Some(queue) && self.enforced(queue, Enforcement::Hard)
    }

    /// Whether others take back from a queue first because its budget is spent.
    pub fn goes_first(&self, queue: QueueIdx) -> bool {
        let spent = self.filed.get(&queue).is_some_and(|(_, over)| *over);
        spent && self.enforced(queue, Enforcement::Soft)
    }

    /// Leaves the budget of a queue out of account for a try, or no longer; whose was before.
    pub fn lift(&mut self, queue: Option<QueueIdx>) -> Option<QueueIdx> {
        std::mem::replace(&mut self.lifted, queue)
    }

    /// Compares rates of queues with those of the work that they are made of, and that with what
    /// is `found` of each: its queue, its rate, and whether its prices stand fast.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, found: impl Fn(WorkloadIdx) -> Option<(QueueIdx, Rate, bool)>) {
        let mut rates: BTreeMap<QueueIdx, Rate> = BTreeMap::new();
        for (workload, (queue, rate)) in &self.counted {
            let sum = rates.entry(*queue).or_default();
            *sum = sum.plus(*rate);
            // What members cost that bear no price changes with their nodes.
            let found = found(*workload).filter(|(.., frozen)| *frozen);
            if let Some((of, now, _)) = found.filter(|_| !self.touched.contains(workload)) {
                assert_eq!((of, now), (*queue, *rate), "what {workload:?} costs");
            }
        }
        for (queue, account) in &self.accounts {
            let rate = rates.remove(queue).unwrap_or_default();
            assert_eq!(account.rate, rate, "what work in {queue:?} costs");
            let (due, over) = self.filed[queue];
            assert_eq!((due, over), (account.due(), account.over().is_some()), "{queue:?}");
            assert!(self.dues.contains(&(due, *queue)), "{queue:?} is due and not filed");
        }
        assert!(rates.is_empty(), "work counts for a queue without a budget");
        assert_eq!(self.dues.len(), self.accounts.len(), "queues are due once");
        let fast = |workload| found(workload).is_some_and(|(.., frozen)| frozen);
        self.followed.recount(|workload| !self.touched.contains(&workload) && fast(workload));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::Period;

    /// 26 November 2026, a Thursday.
    const MIDNIGHT: i64 = 1_795_651_200_000;

    fn at(seconds: i64) -> Time {
        Time(MIDNIGHT + seconds * SECOND_MS)
    }

    fn limit(usd: Option<i64>, gpu_seconds: Option<i64>) -> SpendingLimit {
        let (period, enforcement) = (Period::Day, Enforcement::Hard);
        SpendingLimit { usd: usd.map(MicroUsd), gpu_seconds, period, enforcement }
    }

    fn rate(per_hour: i64, gpus: i64) -> Rate {
        let milli_gpus = gpus.saturating_mul(MILLI);
        Rate { per_hour: MicroUsd(per_hour), milli_gpus, ..Rate::default() }
    }

    #[test]
    fn price_and_gpus_count_by_the_second_and_end_when_they_say() {
        // 7 millionths an hour: what is spent is no whole number most of the time.
        let account = Account::begun(limit(Some(10), None), at(0), rate(7, 3));
        for (seconds, usd) in [(0, 0), (514, 0), (515, 1), (3_600, 7), (5_143, 10)] {
            let then = account.on(at(seconds));
            assert_eq!((then.usd(), then.gpu_seconds()), (MicroUsd(usd), 3 * seconds));
        }
        let end = account.runs_out().expect("it ends");
        assert_eq!(end, at(5_143), "and not a second before");
        assert!(account.on(end).over().is_some() && account.on(at(5_142)).over().is_none());
        assert_eq!(account.on(end).runs_out(), None);
        // In parts as in one, and within a second nothing.
        let mut parts = account.clone();
        for millis in [1, 999, 1_000, 77_345, 5_000_000, 5_143_000] {
            parts.advance(Time(MIDNIGHT + millis));
        }
        assert_eq!(parts, account.on(end));
    }

    #[test]
    fn the_amount_that_is_reached_first_counts() {
        let both = |usd, gpu_seconds| limit(Some(usd), Some(gpu_seconds));
        let gpus = Account::begun(both(1_000_000, 36), at(0), rate(3_600, 2));
        assert_eq!(gpus.runs_out(), Some(at(18)));
        let over = gpus.on(at(20)).over().expect("spent");
        assert_eq!((over.limit, over.spent), (Amount::GpuSeconds(36), Amount::GpuSeconds(40)));
        let money = Account::begun(both(18, 1_000), at(0), rate(3_600, 2));
        let over = money.on(at(20)).over().expect("spent");
        let usd = |micro| Amount::Usd(MicroUsd(micro));
        assert_eq!((over.limit, over.spent), (usd(18), usd(20)));
        assert_eq!(money.on(at(500)).reached().count(), 2);
        // Nothing may be spent; nothing ever is.
        assert!(Account::begun(limit(Some(0), None), at(5), rate(0, 0)).over().is_some());
        assert_eq!(Account::begun(limit(Some(1), None), at(5), rate(0, 8)).runs_out(), None);
    }

    #[test]
    fn a_period_begins_with_what_runs_then() {
        let account = Account::begun(limit(Some(100_000), None), at(86_400 - 10), rate(3_600, 1));
        let next = account.on(at(86_400 + 25));
        assert_eq!(next.period(), (at(86_400), at(2 * 86_400)));
        assert_eq!((next.usd(), next.gpu_seconds()), (MicroUsd(25), 25));
        let later = account.on(at(40 * 86_400 + 25));
        assert_eq!((later.usd(), later.gpu_seconds()), (MicroUsd(25), 25), "days are left out");
        // A clock that is set back takes nothing away and counts nothing twice.
        assert_eq!(next.on(at(86_400 + 5)), next);
    }

    #[test]
    fn what_is_stored_counts_if_it_is_of_this_period() {
        let (micro_usd_hours, milli_gpu_seconds) = (50 * SECONDS_OF_AN_HOUR, 70_000);
        let sums = Sums { micro_usd_hours, milli_gpu_seconds };
        let stored = |start, as_of| Stored { start: at(start), sums, as_of: at(as_of) };
        let open = |period, stored: Stored| {
            let limit = SpendingLimit { period, ..limit(Some(100), None) };
            let mut account = Account::open(limit, at(100), Some(&stored));
            // Ran since a minute before midnight.
            account.found(rate(3_600, 1), at(-60));
            (account.usd().0, account.gpu_seconds())
        };
        assert_eq!(open(Period::Day, stored(0, 40)), (50 + 60, 70 + 60), "and what ran since");
        assert_eq!(open(Period::Day, stored(-86_400, -10)), (100, 100), "yesterday's");
        assert_eq!(open(Period::Week, stored(0, 40)), (110, 130), "a day of this week");
        let week = -3 * 86_400;
        assert_eq!(open(Period::Week, stored(week, 40)), (110, 130));
        assert_eq!(open(Period::Day, stored(week, 40)), (100, 100), "more than this day");
        // Written by a clock that is ahead: it waits until then.
        assert_eq!(open(Period::Day, stored(0, 500)), (50, 70));
    }

    #[test]
    fn amounts_beyond_all_numbers_are_no_trouble() {
        let most = rate(i64::MAX, i64::MAX);
        let account = Account::begun(limit(Some(i64::MAX), Some(i64::MAX)), Time::MIN, most);
        assert!(account.runs_out().is_some());
        let last = account.on(Time(i64::MAX));
        assert_eq!(last.limit(), account.limit());
        let stored = Stored { start: at(0), sums: Sums::default(), as_of: Time(i64::MAX) };
        Account::open(limit(None, Some(1)), at(0), Some(&stored));
        let slow = Account::begun(limit(Some(i64::MAX), None), at(0), rate(1, 0));
        assert_eq!(slow.runs_out(), None, "after all time");
    }
}
