//! The least of an amount that does, where somebody has to leave for it: what those free depends on
//! whom the engine chooses, so amounts are tried on it.
//!
//! All that is compared with an amount (what is owned, lent, used, held and asked) is a multiple of
//! some unit, a core or a gibibyte mostly. So is the least that does, or it is one more than such.
//! Halves between what is too little and what does are tried in that unit.

use crate::engine::Engine;
use crate::model::ids::{FrIdx, QuotaIdx};

/// Halves that are tried: exact for a million units.
const HALVINGS_MAX: u32 = 20;

/// The least amount below `enough`, which does, and above what is `too_little`, that does, and what
/// comes of it; `None`: none of those tried.
pub(super) fn least<C, F>(
    context: &mut C,
    (mut too_little, mut enough): (i64, i64),
    unit: i64,
    mut tried: impl FnMut(&mut C, i64) -> Option<F>,
) -> Option<(i64, F)> {
    let mut found = None;
    for _ in 0..HALVINGS_MAX {
        let steps = enough.saturating_sub(too_little) / unit;
        if steps < 2 {
            break;
        }
        let amount = too_little + steps / 2 * unit;
        match tried(context, amount) {
            Some(does) => (found, enough) = (Some((amount, does)), amount),
            None => too_little = amount,
        }
    }
    let between = 2..=unit;
    if between.contains(&enough.saturating_sub(too_little)) {
        let more = too_little + 1;
        found = tried(context, more).map(|does| (more, does)).or(found);
    }
    found
}

impl Engine {
    /// What all that counts of a flavor and resource is a multiple of.
    pub(super) fn unit_of(&self, fr: FrIdx, asked: i64) -> i64 {
        let (quota, workloads) = (&self.state.quota, &self.state.workloads);
        // Prices are multiples of nothing.
        if quota.is_money(fr) {
            return 1;
        }
        let tree = &quota.tree;
        let nodes = (0..tree.len()).map(|at| QuotaIdx(at as u32));
        let limits = nodes.flat_map(|node| {
            let limits = [tree.borrowing_limit(node, fr), tree.lending_limit(node, fr)];
            let [borrowing, lending] = limits.map(|limit| limit.unwrap_or(0));
            [tree.nominal(node, fr), tree.usage(node, fr), borrowing, lending]
        });
        let held = workloads.iter().filter_map(|(_, entry)| entry.assignment.as_ref());
        let held = held.flat_map(|held| &held.sets).flat_map(|set| &set.charge);
        let held = held.filter(|(of, _)| *of == fr).map(|(_, amount)| *amount);
        limits.chain(held).fold(asked, common).max(1)
    }
}

/// What two amounts are both multiples of.
fn common(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one.saturating_abs(), other.saturating_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_does_is_found_in_units_and_one_beyond() {
        for (enough, unit, limit) in [
            (18_000, 1_000, 17_000),
            (18_000, 1_000, 1_000),
            (18_000, 1_000, 16_001),
            (40_000, 1_000, 1),
            (64 << 30, 1 << 30, 17 << 30),
            (900_000, 1, 123_457),
            (5, 1, 2),
        ] {
            let mut tries = 0;
            let found = least(&mut tries, (0, enough), unit, |tries, amount| {
                *tries += 1;
                (amount >= limit).then_some(amount)
            });
            assert_eq!(found, Some((limit, limit)), "{enough} {unit}");
            assert!(tries <= HALVINGS_MAX + 1, "{tries}");
        }
    }

    #[test]
    fn nothing_below_what_is_needed_does() {
        let none = |_: &mut (), amount: i64| (amount >= 8_000).then_some(());
        assert_eq!(least(&mut (), (0, 8_000), 1_000, none), None);
        assert_eq!(least(&mut (), (0, 1), 1, none), None);
        assert_eq!((common(12, 18), common(0, 5), common(5, 0), common(7, 3)), (6, 5, 5, 1));
    }
}
