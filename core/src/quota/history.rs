//! What LocalQueues used of late, for the order in which a ClusterQueue that they share looks at
//! their work.
//!
//! Problem: within one ClusterQueue priority and age decide, so a LocalQueue whose users submit
//! much and early has all of it. Kueue's admission fair sharing (spec/quota.md section 10) lets
//! those go first that used least of late, by their weight, before any priority.
//!
//! Wanted: what was used decays, half of it in a half-life. After a time `d` with usage `u` what
//! was consumed is `(1 - a) c + a u`, with `a = 1 - 0.5^(d / half-life)`. Kueue takes the usage
//! that it finds every interval; here it is also reckoned when work is admitted and when it ends,
//! so that what comes and goes between two looks counts for as long as it ran. Until the next look
//! an admission counts at once, as if it had been there for one interval: many small jobs of one
//! queue do not pass in one go. In whole numbers: amounts in 2^-30, factors in 2^-32, powers of a
//! half by square roots. What rounding leaves decides nothing: who used the same but for that
//! stands together, and priority and age decide.
//!
//! Restart: what was consumed, and when that was reckoned, is in the status of each LocalQueue
//! and read back from there. What was used since then is not known: what is in use counts for an
//! interval at most. Kueue's own queues are not written to: with them, nothing is remembered.
//!
//! Cost: a look takes the work that these queues hold, once an interval; an admission, and an end,
//! a few entries for each LocalQueue of its queue. Nothing of this exists while it is off.

use std::collections::BTreeMap;

use capstan_topology::ResourceIdx;

use crate::explain::quantity::per_unit;
use crate::model::ids::QueueIdx;
use crate::model::input::{LocalQueueFacts, Text, Weight};
use crate::model::state::ClusterState;
use crate::policy::UsageSharing;
use crate::time::{Span, Time};

/// Namespace and name of a LocalQueue.
pub type QueueName = (Text, Text);

/// Amounts by resource.
pub type Amounts = BTreeMap<ResourceIdx, i64>;

/// Binary places of what is kept of an amount, and of a factor.
const PLACES: u32 = 30;
const FACTOR_PLACES: u32 = 32;
const ONE: u128 = 1 << FACTOR_PLACES;
/// In which what was consumed is shown.
const THOUSANDTHS: u128 = 1_000;
/// Binary places by which usages are compared, and those below them that round.
const COMPARED: u32 = 16;
const ROUNDED: u32 = 32;

/// What each LocalQueue used of late.
#[derive(Debug, Default)]
pub struct History {
    used: BTreeMap<QueueName, Used>,
}

/// What one LocalQueue used of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    consumed: BTreeMap<ResourceIdx, u128>,
    /// Asked by what was admitted since the last look.
    asked: Amounts,
    /// What it has used since `at`; `None`: a status says what it consumed, and no more.
    uses: Option<Amounts>,
    /// Until then its usage is reckoned.
    at: Time,
    /// The last look that was due.
    looked: Time,
}

impl Used {
    fn new(now: Time) -> Used {
        Used { at: now, looked: now, ..Used::default() }
    }

    /// Reckons what it used up to now; `found`: what it uses now.
    ///
    /// What it used before a status was read is not known: what it uses now counts for an interval
    /// at most.
    fn reckon(&mut self, now: Time, sharing: &UsageSharing, found: &Amounts) {
        let passed = now.since(self.at);
        let stays = kept(passed, sharing.half_life);
        let (uses, counts) = match self.uses.take() {
            Some(uses) => (uses, ONE - stays),
            None => {
                let some = Span(passed.0.min(sharing.interval.0));
                (found.clone(), ONE - kept(some, sharing.half_life))
            }
        };
        self.at = now.max(self.at);
        for resource in uses.keys() {
            self.consumed.entry(*resource).or_default();
        }
        for (resource, consumed) in &mut self.consumed {
            let uses = fixed(uses.get(resource).copied().unwrap_or(0));
            *consumed = match sharing.half_life.0 {
                0 => 0,
                _ => scaled(*consumed, stays).saturating_add(scaled(uses, counts)),
            };
        }
        self.consumed.retain(|_, consumed| *consumed > 0);
    }
}

/// What decides who goes first: used of late over weight, as far as it is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usage {
    /// Who has no weight comes last.
    weightless: bool,
    /// Binary places of the ratio, and the first of them.
    ratio: (u32, u128),
}

impl Usage {
    fn new(used: u128, weight: u64) -> Usage {
        if weight == 0 || used == 0 {
            return Usage { weightless: weight == 0, ratio: (0, 0) };
        }
        // All of 128 places are used before it is divided by one of 64.
        let up = used.leading_zeros();
        let ratio = (used << up) / u128::from(weight);
        let digits = u128::BITS - ratio.leading_zeros();
        // No amount of whole thousandths that was halved again and again lies where it is cut.
        let tenths = 3 * (1_u128 << ROUNDED) / 10;
        let first = ((ratio >> (digits - COMPARED - ROUNDED)) + tenths) >> ROUNDED;
        let places = u128::BITS + digits - up;
        match first >> COMPARED {
            0 => Usage { weightless: false, ratio: (places, first) },
            _ => Usage { weightless: false, ratio: (places + 1, first >> 1) },
        }
    }
}

impl History {
    /// What the status of a LocalQueue shows, in thousandths, if that is not older than what is
    /// known.
    pub fn restore(&mut self, name: &QueueName, consumed: &Amounts, at: Time) {
        if self.used.get(name).is_some_and(|known| known.at >= at) {
            return;
        }
        let given = consumed.iter();
        let given = given.map(|(resource, amount)| (*resource, fixed(*amount) / THOUSANDTHS));
        let known = self.used.entry(name.clone()).or_default();
        (known.consumed, known.uses) = (given.collect(), None);
        (known.at, known.looked) = (at, at);
    }

    /// A LocalQueue is gone.
    pub fn forget(&mut self, name: &QueueName) {
        self.used.remove(name);
    }

    /// Looks at what a LocalQueue uses now; `due`: an interval has passed, and what was admitted
    /// in it is in use by now.
    pub fn look(
        &mut self,
        now: Time,
        sharing: &UsageSharing,
        name: &QueueName,
        (uses, due): (&Amounts, bool),
    ) {
        let known = self.used.entry(name.clone()).or_insert_with(|| Used::new(now));
        known.reckon(now, sharing, uses);
        known.uses = Some(uses.clone());
        if due {
            known.asked.clear();
            known.looked = now;
        }
    }

    /// Work of a LocalQueue was admitted that asks so much.
    pub fn admitted(
        &mut self,
        now: Time,
        sharing: &UsageSharing,
        name: &QueueName,
        asks: &Amounts,
    ) {
        let known = self.used.entry(name.clone()).or_insert_with(|| Used::new(now));
        if let Some(uses) = known.uses.clone() {
            known.reckon(now, sharing, &uses);
            let mut more = uses;
            for (resource, amount) in asks {
                let sum = more.entry(*resource).or_default();
                *sum = sum.saturating_add(*amount);
            }
            known.uses = Some(more);
        }
        for (resource, amount) in asks {
            let sum = known.asked.entry(*resource).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Work of a LocalQueue has ended that used so much.
    pub fn ended(&mut self, now: Time, sharing: &UsageSharing, name: &QueueName, used: &Amounts) {
        let Some(known) = self.used.get_mut(name) else { return };
        let Some(mut uses) = known.uses.clone() else { return };
        known.reckon(now, sharing, &uses);
        for (resource, amount) in used {
            if let Some(sum) = uses.get_mut(resource) {
                *sum = sum.saturating_sub(*amount).max(0);
            }
        }
        uses.retain(|_, sum| *sum > 0);
        known.uses = Some(uses);
    }

    /// What a LocalQueue used of late, up to now; `rate`: of a resource, its weight in billionths.
    pub fn usage(
        &self,
        how: (Time, &UsageSharing),
        name: &QueueName,
        weight: Weight,
        rate: impl Fn(ResourceIdx) -> u64,
    ) -> Usage {
        Usage::new(self.rated(how, name, rate), weight.0)
    }

    /// The same as a number, in thousandths; `i64::MAX`: it has no weight.
    pub fn shown(
        &self,
        how: (Time, &UsageSharing),
        name: &QueueName,
        weight: Weight,
        rate: impl Fn(ResourceIdx) -> u64,
    ) -> i64 {
        let used = (self.rated(how, name, rate) >> PLACES) * THOUSANDTHS;
        let used = used.checked_div(weight.0.into());
        used.map_or(i64::MAX, |used| i64::try_from(used).unwrap_or(i64::MAX - 1))
    }

    /// What a LocalQueue used of late, up to now, its resources together.
    fn rated(
        &self,
        (now, sharing): (Time, &UsageSharing),
        name: &QueueName,
        rate: impl Fn(ResourceIdx) -> u64,
    ) -> u128 {
        let mut known = self.used.get(name).cloned();
        if let Some(known) = &mut known
            && let Some(uses) = known.uses.clone()
        {
            known.reckon(now, sharing, &uses);
        }
        let none = known.as_ref().is_none_or(|known| known.asked.is_empty());
        // Without memory there is nothing to count for.
        let counts = match sharing.half_life.0 == 0 || none {
            true => 0,
            false => ONE - kept(sharing.interval, sharing.half_life),
        };
        let consumed = known.iter().flat_map(|known| &known.consumed);
        let consumed = consumed.map(|(resource, amount)| (*resource, *amount));
        let asked = known.iter().flat_map(|known| &known.asked);
        let asked = asked.map(|(resource, amount)| (*resource, scaled(fixed(*amount), counts)));
        consumed.chain(asked).fold(0_u128, |sum, (resource, amount)| {
            sum.saturating_add(amount.saturating_mul(rate(resource).into()))
        })
    }

    /// Whether anything is kept of a LocalQueue that the next look would change.
    pub fn moves(&self, name: &QueueName) -> bool {
        let moves = |known: &Used| !known.consumed.is_empty() || !known.asked.is_empty();
        self.used.get(name).is_some_and(moves)
    }

    /// When a LocalQueue was looked at last.
    pub fn looked_at(&self, name: &QueueName) -> Option<Time> {
        self.used.get(name).map(|known| known.looked)
    }

    /// Whether it was looked what a LocalQueue uses since its status was read.
    pub fn seen(&self, name: &QueueName) -> bool {
        self.used.get(name).is_some_and(|known| known.uses.is_some())
    }

    /// Compares what a LocalQueue is said to use with what the work that counts for it holds.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, name: &QueueName, counted: &Amounts) {
        if let Some(uses) = self.used.get(name).and_then(|known| known.uses.as_ref()) {
            let some = |amounts: &Amounts| -> Amounts {
                let some = amounts.iter().filter(|(_, amount)| **amount > 0);
                some.map(|(resource, amount)| (*resource, *amount)).collect()
            };
            assert_eq!(some(uses), some(counted), "usage of LocalQueue {}/{}", name.0, name.1);
        }
    }

    /// What a LocalQueue consumed, in thousandths of amounts, and when that was.
    pub fn consumed(&self, name: &QueueName) -> Option<(Amounts, Time)> {
        let known = self.used.get(name)?;
        let shown = |amount: u128| (amount * THOUSANDTHS) >> PLACES;
        let shown = |amount| i64::try_from(shown(amount)).unwrap_or(i64::MAX);
        let amounts = known.consumed.iter().map(|(of, amount)| (*of, shown(*amount)));
        Some((amounts.collect(), known.at))
    }
}

impl ClusterState {
    /// How use counts in a ClusterQueue whose LocalQueues take turns by it; `None`: they do not.
    pub fn by_usage(&self, queue: QueueIdx) -> Option<&UsageSharing> {
        let sharing = self.policy.usage_sharing.as_ref()?;
        let facts = self.quota.queue(queue).facts.as_ref()?;
        facts.usage_based.then_some(sharing)
    }

    /// What a LocalQueue used of late, up to now.
    pub fn used_of_late(&self, how: (Time, &UsageSharing), facts: &LocalQueueFacts) -> Usage {
        let rate = |resource| self.rate_of(resource, how.1);
        self.history.usage(how, &name_of(facts), facts.weight, rate)
    }

    /// The same as a number, in thousandths; `i64::MAX`: it has no weight.
    pub fn shown_use(&self, how: (Time, &UsageSharing), facts: &LocalQueueFacts) -> i64 {
        let rate = |resource| self.rate_of(resource, how.1);
        self.history.shown(how, &name_of(facts), facts.weight, rate)
    }

    /// How much an amount of a resource counts, in billionths.
    fn rate_of(&self, resource: ResourceIdx, sharing: &UsageSharing) -> u64 {
        let name = self.room.resources.name(resource);
        let weight = sharing.weights.get(name).copied().unwrap_or(UsageSharing::UNIT);
        // Weights are of units, cores and dollars.
        weight / per_unit(name).unsigned_abs()
    }
}

/// Namespace and name of a LocalQueue.
pub fn name_of(facts: &LocalQueueFacts) -> QueueName {
    (facts.namespace.clone(), facts.name.clone())
}

fn fixed(amount: i64) -> u128 {
    u128::from(amount.max(0).unsigned_abs()) << PLACES
}

/// A part of an amount: below 2^93 times at most 2^32.
fn scaled(amount: u128, factor: u128) -> u128 {
    (amount * factor) >> FACTOR_PLACES
}

/// What is left of one after this time: `0.5^(time / half-life)`.
fn kept(time: Span, half_life: Span) -> u128 {
    let (time, half) = (time.0.max(0).unsigned_abs(), half_life.0.max(0).unsigned_abs());
    if half == 0 || time / half >= u64::from(FACTOR_PLACES) {
        return 0;
    }
    let part = (u128::from(time % half) << FACTOR_PLACES) / u128::from(half);
    // Powers of a half whose exponents are halved each time, in 2^-62.
    const FINE: u32 = 62;
    let (mut power, mut left) = (1_u128 << (FINE - 1), 1_u128 << FINE);
    for place in (0..FACTOR_PLACES).rev() {
        power = (power << FINE).isqrt();
        if part >> place & 1 == 1 {
            left = (left * power) >> FINE;
        }
    }
    (left >> (FINE - FACTOR_PLACES)) >> (time / half)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: ResourceIdx = ResourceIdx(0);
    const CPU: ResourceIdx = ResourceIdx(1);

    fn name(of: &str) -> QueueName {
        ("ns".into(), of.into())
    }

    fn sharing(half_life: i64) -> UsageSharing {
        let (half_life, interval) = (Span::minutes(half_life), Span::minutes(5));
        UsageSharing { half_life, interval, weights: BTreeMap::new() }
    }

    fn gpus(amount: i64) -> Amounts {
        Amounts::from([(GPU, amount)])
    }

    fn at(minutes: i64) -> Time {
        Time(minutes * 60_000)
    }

    #[test]
    fn powers_of_a_half_are_exact_to_nine_digits() {
        let half = Span::minutes(10);
        // In billionths, as a desk calculator has them.
        for (minutes, wanted) in [
            (0, 1_000_000_000),
            (5, 707_106_781),
            (10, 500_000_000),
            (20, 250_000_000),
            (7, 615_572_207),
            (1_000, 0),
        ] {
            let found = (kept(Span::minutes(minutes), half) * 1_000_000_000) >> FACTOR_PLACES;
            assert!(found.abs_diff(wanted) <= 1, "{minutes}: {found} {wanted}");
        }
        assert_eq!(kept(Span::minutes(1), Span(0)), 0);
        assert_eq!(kept(Span(i64::MAX), Span(1)), 0);
    }

    #[test]
    fn half_of_what_was_used_is_forgotten_in_a_half_life() {
        let (mut history, queue) = (History::default(), name("a"));
        let mut look = |minutes, half, uses: Amounts| {
            history.look(at(minutes), &sharing(half), &queue, (&uses, true));
            let (amounts, when) = history.consumed(&queue).expect("looked at");
            assert_eq!(when, at(minutes));
            (amounts.get(&GPU).copied().unwrap_or(0), history.moves(&queue))
        };
        assert_eq!(look(0, 10, gpus(8)), (0, false));
        assert_eq!(look(10, 10, gpus(8)), (4_000, true), "half of eight");
        assert_eq!(look(20, 10, gpus(0)), (6_000, true), "what it had used until then");
        assert_eq!(look(40, 10, gpus(8)), (1_500, true), "a quarter of six");
        assert_eq!(look(100_000, 10, gpus(0)), (8_000, true));
        assert_eq!(look(200_000, 10, gpus(0)), (0, false));
        assert_eq!(look(200_010, 0, gpus(8)), (0, false));
        assert_eq!(look(200_020, 0, gpus(8)), (0, false), "no memory");
    }

    /// Work that came and went between two looks counts for as long as it ran.
    #[test]
    fn what_is_reckoned_in_parts_is_reckoned_as_a_whole() {
        let (mut whole, mut parts, queue) = (History::default(), History::default(), name("a"));
        for history in [&mut whole, &mut parts] {
            history.look(at(0), &sharing(10), &queue, (&gpus(4), true));
        }
        for minute in [1, 2, 5] {
            parts.look(at(minute), &sharing(10), &queue, (&gpus(4), false));
        }
        for history in [&mut whole, &mut parts] {
            history.look(at(5), &sharing(10), &queue, (&gpus(4), true));
        }
        let of = |history: &History| history.consumed(&queue).expect("known").0[&GPU];
        assert!(of(&whole).abs_diff(of(&parts)) <= 1, "{} {}", of(&whole), of(&parts));
        // Admitted at minute 5, gone at minute 6: a minute of it counts.
        parts.admitted(at(5), &sharing(10), &queue, &gpus(4));
        parts.ended(at(6), &sharing(10), &queue, &gpus(4));
        whole.look(at(6), &sharing(10), &queue, (&gpus(4), false));
        let more = of(&parts) - of(&whole);
        let part = ONE - kept(Span::minutes(1), Span::minutes(10));
        let minute = (part * 4_000) >> FACTOR_PLACES;
        assert!(more.unsigned_abs().abs_diff(minute as u64) <= 1, "{more} {minute}");
    }

    #[test]
    fn who_used_least_by_weight_and_rate_is_first_and_admissions_count_at_once() {
        let (mut history, a, b) = (History::default(), name("a"), name("b"));
        let usage = |history: &History, of: &QueueName, weight: u64| {
            let rate = |resource| if resource == GPU { 1_000_000_000 } else { 1_000 };
            history.usage((at(0), &sharing(10)), of, Weight(weight), rate)
        };
        let one = Weight::ONE.0;
        assert_eq!(usage(&history, &a, one), usage(&history, &b, one));
        history.admitted(at(0), &sharing(10), &a, &gpus(1));
        assert!(usage(&history, &a, one) > usage(&history, &b, one));
        for _ in 0..2 {
            history.admitted(at(0), &sharing(10), &b, &gpus(1));
        }
        assert!(usage(&history, &a, one) < usage(&history, &b, one));
        assert_eq!(usage(&history, &a, one), usage(&history, &b, 2 * one), "twice the weight");
        assert!(usage(&history, &a, 0) > usage(&history, &b, 1), "no weight comes last");
        history.admitted(at(0), &sharing(10), &a, &Amounts::from([(CPU, 64_000)]));
        assert!(usage(&history, &a, one) < usage(&history, &b, one), "cpu counts little");
        // By the next look it is in use, and does not count twice.
        history.look(at(5), &sharing(10), &a, (&gpus(0), true));
        assert!(usage(&history, &a, one) < usage(&history, &b, one));
    }

    #[test]
    fn what_rounding_leaves_decides_nothing() {
        let (mut history, a, b) = (History::default(), name("a"), name("b"));
        let usage = |history: &History, of: &QueueName, minute| {
            history.usage((at(minute), &sharing(60)), of, Weight::ONE, |_| 1_000_000)
        };
        history.admitted(at(0), &sharing(60), &a, &gpus(3_000));
        for _ in 0..3 {
            history.admitted(at(0), &sharing(60), &b, &gpus(1_000));
        }
        assert_eq!(usage(&history, &a, 0), usage(&history, &b, 0), "in one part, and in three");
        for of in [&a, &b] {
            history.look(at(0), &sharing(60), of, (&gpus(3_000), true));
        }
        for minute in 1..=40 {
            history.look(at(minute), &sharing(60), &b, (&gpus(3_000), false));
        }
        assert_eq!(usage(&history, &a, 41), usage(&history, &b, 41), "as a whole, and in parts");
        history.admitted(at(41), &sharing(60), &b, &gpus(10));
        assert!(usage(&history, &a, 41) < usage(&history, &b, 41), "what was used decides");
    }

    #[test]
    fn usages_are_compared_by_their_first_places() {
        let of = |used: u128, weight: u64| Usage::new(used, weight);
        for large in [0, 20, 60, 100] {
            let one = 1_000_000_u128 << large;
            assert!(of(one, 1) < of(one + one / 10_000, 1), "{large}");
            assert!(of(one, 7) > of(one - one / 10_000, 7), "{large}");
            assert!(of(one, 8) < of(one, 7), "{large}");
            assert_eq!(of(one, 3), of(2 * one, 6), "{large}");
        }
        let power = 1_u128 << 80;
        assert_eq!(of(power, 1), of(power - 1, 1), "also where a place is added");
        assert!(of(power, 1) > of(power - (power >> 10), 1));
        assert!(of(0, 1) < of(1, u64::MAX) && of(u128::MAX, 1) < of(0, 0));
        assert_eq!(of(0, 0), of(5, 0));
    }

    #[test]
    fn what_a_status_shows_holds_unless_more_is_known() {
        let (mut history, queue) = (History::default(), name("a"));
        history.restore(&queue, &gpus(4_000), at(10));
        assert_eq!(history.consumed(&queue), Some((gpus(4_000), at(10))));
        history.restore(&queue, &gpus(9_000), at(9));
        history.restore(&queue, &gpus(9_000), at(10));
        assert_eq!(history.consumed(&queue), Some((gpus(4_000), at(10))));
        history.look(at(20), &sharing(10), &queue, (&Amounts::new(), true));
        assert_eq!(history.consumed(&queue), Some((gpus(2_000), at(20))));
        history.forget(&queue);
        assert_eq!(history.looked_at(&queue), None);
    }

    #[test]
    fn the_largest_amounts_neither_overflow_nor_wrap() {
        let (mut history, queue) = (History::default(), name("a"));
        history.look(at(0), &sharing(10), &queue, (&gpus(i64::MAX), true));
        history.admitted(at(0), &sharing(10), &queue, &gpus(i64::MAX));
        history.look(at(400), &sharing(10), &queue, (&gpus(i64::MAX), true));
        let (consumed, _) = history.consumed(&queue).expect("known");
        assert!(consumed[&GPU] > i64::MAX / 2);
        let of =
            |weight| history.usage((at(400), &sharing(10)), &queue, Weight(weight), |_| u64::MAX);
        assert!(of(u64::MAX) < of(1));
    }
}
