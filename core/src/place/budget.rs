//! How many placements the searches for one decision may try, all of them together.
//!
//! Problem: each search has a bound, and a gang is searched for in each domain of a required level,
//! for each choice of victims, for each combination of flavors, and again where it is placed. What
//! fits nowhere would cost the bound hundreds of times.
//!
//! Rule: a transaction has [`IN_ALL`] to spend. A search may take its own bound, at most half of
//! what is left, so that the first domains are looked through and something is left for the last
//! ones; [`LEAST`] once little is left; and when as much again is spent, one way down without
//! going back, which costs no more than the tries before it that take nothing back. Everybody gets
//! a look, and what all looks cost is bounded. Where members choose volumes or devices, or may be
//! left out, a try costs more, the more kinds of members and nodes there are to look at again after
//! it: nodes that the search looks at (where members choose, no other is looked at meanwhile,
//! [`Txn::focus`]). To find those of a large domain costs steps, too.
//!
//! Counted are tries, no time: the same state gets the same answer.

use crate::model::txn::Txn;

/// To spend in one transaction.
const IN_ALL: u32 = 65_536;

/// Tries that a search has once little is left: all of a gang of three on six nodes.
const LEAST: u32 = 256;

/// To spend for what is searched for apart, at least.
const FEW: u32 = 16 * LEAST;

/// Kinds of members times nodes that are looked at for what one try costs otherwise.
const LOOKS: usize = 32;

/// What one search may spend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Tries.
    pub most: u32,
    /// What each costs.
    each: u32,
}

/// What another search finds that spends nothing of what is left for others: it has `like` steps of
/// its own, or enough for a few small searches.
pub(crate) fn apart<R>(txn: &mut Txn<'_>, like: u32, search: impl FnOnce(&mut Txn<'_>) -> R) -> R {
    let own = like.clamp(FEW, 2 * IN_ALL);
    let before = txn.replace_steps(2 * IN_ALL - own);
    let found = search(txn);
    txn.replace_steps(before);
    found
}

/// What a search for so many members may spend, of its own bound. `looks`: kinds of members times
/// nodes that are looked at again after a try, if they choose anything.
pub(super) fn allow(txn: &mut Txn<'_>, bound: u32, members: usize, looks: usize) -> Allowance {
    let each = steps(looks).max(1);
    Allowance { most: most(txn.count_steps(0), each, bound, members), each }
}

/// Pays for so many looks at nodes before a search; `false`: that is more than half of what is
/// left.
pub(super) fn look(txn: &mut Txn<'_>, looks: usize) -> bool {
    let left = IN_ALL.saturating_sub(txn.count_steps(0));
    let pays = steps(looks) <= left / 2;
    if pays {
        txn.count_steps(steps(looks));
    }
    pays
}

/// Whether there is nothing left but one way down for each search.
pub(crate) fn is_spent(txn: &mut Txn<'_>) -> bool {
    txn.count_steps(0) >= 2 * IN_ALL
}

fn steps(looks: usize) -> u32 {
    u32::try_from(looks / LOOKS).unwrap_or(u32::MAX)
}

fn most(spent: u32, each: u32, bound: u32, members: usize) -> u32 {
    let down = u32::try_from(members).unwrap_or(u32::MAX).max(1);
    let share = IN_ALL.saturating_sub(spent) / 2 / each;
    let least = if spent < 2 * IN_ALL { LEAST } else { 0 };
    share.max(least).min(bound).max(down.min(bound))
}

impl Allowance {
    /// So many were tried.
    pub fn spend(self, txn: &mut Txn<'_>, tries: u32) {
        txn.count_steps(tries.saturating_mul(self.each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_searches_have_their_bound_and_later_ones_something() {
        assert_eq!(most(0, 1, 16_384, 6), 16_384);
        assert_eq!(most(49_152, 1, 16_384, 6), 8_192);
        assert_eq!(most(65_536, 1, 16_384, 6), LEAST);
        assert_eq!(most(2 * IN_ALL, 1, 16_384, 6), 6);
        assert_eq!(most(u32::MAX, 1, 16_384, 6), 6);
    }

    #[test]
    fn all_searches_together_cost_little_more_than_there_is() {
        for each in [1, 18, 137, 5_000] {
            let (mut spent, mut searches) = (0_u32, 0);
            while spent < 2 * IN_ALL {
                spent += most(spent, each, 4_096, 17) * each;
                searches += 1;
            }
            assert!(spent <= 2 * IN_ALL + LEAST * each, "{spent} at {each}");
            assert!(searches < 600, "{searches} at {each}");
        }
    }
}
