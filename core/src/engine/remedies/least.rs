//! The least of an amount that does, where somebody has to leave for it: what those free depends on
//! whom the engine chooses, so amounts are tried on it.
//!
//! All that is compared with an amount (what is owned, lent, used, held and asked) is a multiple of
//! some unit, a core or a gibibyte mostly. So is the least that does, or it is one more than such:
//! where shares tie at a multiple, the least bit more decides. Nobody writes `9.001` cores: there
//! the next whole amount is told, if that does too. Halves between what is too little and what does
//! are tried in the unit.

use crate::engine::Engine;
use crate::explain::quantity;
use crate::model::ids::{FrIdx, QuotaIdx};

/// Halves that are tried: exact for a million units.
const HALVINGS_MAX: u32 = 20;

/// The least amount below the `most`, which does, and above what is `too_little`, that does, and
/// what comes of it; `None`: none of those tried. Below a `unit` only whole amounts, unless none of
/// them does.
pub(super) fn least<C, F>(
    context: &mut C,
    (mut too_little, most): (i64, i64),
    (unit, whole): (i64, i64),
    mut tried: impl FnMut(&mut C, i64) -> Option<F>,
) -> Option<(i64, F)> {
    let (mut enough, mut found) = (most, None);
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
    let more = too_little.saturating_add(1);
    let up = too_little.div_euclid(whole).saturating_add(1).saturating_mul(whole);
    let apart = enough.saturating_sub(too_little);
    let tries = match apart {
        // What lies between was not tried yet.
        2.. if apart <= unit && up < enough => [Some(up), (more < up).then_some(more)],
        // No more than too little by the least bit.
        1 if too_little % whole == 0 && enough < up && up < most => [Some(up), None],
        _ => [None; 2],
    };
    let mut tries = tries.into_iter().flatten();
    let does = tries.find_map(|amount| tried(context, amount).map(|does| (amount, does)));
    does.or(found)
}

impl Engine {
    /// What all that counts of a flavor and resource is a multiple of, and what is a whole one.
    pub(super) fn units_of(&self, fr: FrIdx, asked: i64) -> (i64, i64) {
        let (_, resource) = self.state.quota.fr(fr);
        let whole = quantity::whole(self.state.room.resources.name(resource));
        (self.unit_of(fr, asked), whole)
    }

    fn unit_of(&self, fr: FrIdx, asked: i64) -> i64 {
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

    const GI: i64 = 1 << 30;

    #[test]
    fn the_least_that_does_is_found_in_units_and_whole_ones_beyond() {
        for (enough, unit, whole, limit, want) in [
            (18_000, 1_000, 1_000, 17_000, 17_000),
            (18_000, 1_000, 1_000, 1_000, 1_000),
            (18_000, 1_000, 1_000, 16_001, 17_000),
            (40_000, 1_000, 1_000, 1, 1_000),
            (24_000, 3_000, 1_000, 9_001, 10_000),
            (24_000, 3_000, 1_000, 12_000, 12_000),
            // Somebody counts in halves: what is a multiple of them is good enough.
            (18_000, 500, 1_000, 16_001, 16_500),
            (18_000, 500, 1_000, 16_500, 16_500),
            // Somebody counts in thousandths: only what ties is rounded up.
            (18_000, 1, 1_000, 16_001, 17_000),
            (18_000, 1, 1_000, 16_337, 16_337),
            (16_500, 1, 1_000, 16_001, 16_001),
            (64 * GI, GI, GI, 17 * GI, 17 * GI),
            (128 * GI, 64 * GI, GI, 64 * GI + 1, 65 * GI),
            (900_000, 1, 10_000, 123_457, 123_457),
            (5, 1, 1, 2, 2),
            (8, 4, 1, 5, 5),
        ] {
            let mut tries = 0;
            let found = least(&mut tries, (0, enough), (unit, whole), |tries, amount| {
                *tries += 1;
                (amount >= limit).then_some(amount)
            });
            assert_eq!(found, Some((want, want)), "{enough} {unit} {limit}");
            assert!(tries <= HALVINGS_MAX + 2, "{tries}");
        }
    }

    #[test]
    fn where_no_whole_amount_does_the_least_bit_is_told() {
        // More than so much would let another go first.
        let does = |_: &mut (), amount: i64| {
            ((9_001..9_500).contains(&amount) || amount >= 12_000).then_some(())
        };
        assert_eq!(least(&mut (), (0, 24_000), (3_000, 1_000), does), Some((9_001, ())));
    }

    #[test]
    fn nothing_below_what_is_needed_does() {
        let none = |_: &mut (), amount: i64| (amount >= 8_000).then_some(());
        assert_eq!(least(&mut (), (0, 8_000), (1_000, 1_000), none), None);
        assert_eq!(least(&mut (), (0, 1), (1, 1_000), none), None);
        assert_eq!((common(12, 18), common(0, 5), common(5, 0), common(7, 3)), (6, 5, 5, 1));
    }
}
