//! What heads keep back, and which starts are reserved for them, from one round to the next.
//!
//! Problem: what a blocked head keeps back is kept from others of its round. Where that changes,
//! whoever it was kept from is looked at again, and may keep back something else in turn: two heads
//! could take turns for ever, with nothing decided and nothing new.
//!
//! It is the same with reserved starts: one that is given up, or put off, wakes whoever was held
//! for it, for whom it may be reserved again and given up again.
//!
//! Wanted: everybody sees what is kept back last, and it ends. So the same may come up a few times,
//! for those who had no turn while it was there, and then wakes nobody until something is decided
//! or a fact comes in. Restart: begins with nothing. Cost: a copy of what is kept back for each
//! round in which it changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::held::Held;
use crate::model::ids::WorkloadIdx;
use crate::time::Time;

/// How often the same wakes those from whom it is kept.
const TIMES_MAX: u32 = 4;

/// What heads kept back in the last round, and before that since anything was new.
#[derive(Debug, Default)]
pub(crate) struct KeptBack {
    last: Vec<Held>,
    /// Who had a turn in this round, if anybody kept something back in the last one.
    turns: BTreeSet<WorkloadIdx>,
    times: BTreeMap<Vec<Held>, u32>,
    starts: BTreeMap<Starts, u32>,
}

/// Whose starts are reserved, and when they are.
pub(crate) type Starts = Vec<(WorkloadIdx, Time)>;

impl KeptBack {
    /// What was kept back in the last round.
    pub(crate) fn last(&self) -> &[Held] {
        &self.last
    }

    /// Somebody has its turn: what it kept back in the last round does not stand any more.
    pub(crate) fn has_turn(&mut self, workload: WorkloadIdx) {
        if !self.last.is_empty() {
            self.turns.insert(workload);
        }
    }

    /// What was kept back in the last round by those who had no turn in this one yet.
    pub(crate) fn standing(&self) -> impl Iterator<Item = Held> + '_ {
        self.last.iter().copied().filter(|held| !self.turns.contains(&held.by))
    }

    /// Takes what was kept back in a round; whether whoever it was kept from is to be looked at
    /// again for that.
    pub(crate) fn note(&mut self, held: Vec<Held>) -> bool {
        self.turns.clear();
        if self.last == held {
            return false;
        }
        let times = self.times.entry(held.clone()).or_default();
        *times += 1;
        self.last = held;
        *times <= TIMES_MAX
    }

    /// Whether whoever was held for starts that were given up, or put off, would be looked at again
    /// for these, which are reserved now.
    pub(crate) fn starts_are_new(&self, starts: &Starts) -> bool {
        self.starts.get(starts).is_none_or(|times| *times < TIMES_MAX)
    }

    /// The same, and it is noted that they are.
    pub(crate) fn note_starts(&mut self, starts: Starts) -> bool {
        let new = self.starts_are_new(&starts);
        *self.starts.entry(starts).or_default() += 1;
        new
    }

    /// Something was decided, or a fact came in: all may be otherwise now.
    pub(crate) fn all_is_new(&mut self) {
        self.times.clear();
        self.starts.clear();
    }

    /// Time went on: so may starts.
    pub(crate) fn time_passed(&mut self) {
        self.starts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{FrIdx, QueueIdx};

    fn held(amount: i64) -> Vec<Held> {
        let (queue, fr, by) = (QueueIdx(0), FrIdx(0), WorkloadIdx::FIRST);
        vec![Held { queue, fr, amount, by, asked: amount, borrowing: 0 }]
    }

    #[test]
    fn what_takes_turns_comes_to_rest() {
        let mut kept = KeptBack::default();
        assert!(!kept.note(Vec::new()), "nothing is kept back, as before");
        for round in 0..TIMES_MAX {
            assert!(kept.note(held(1)) && kept.note(held(2)), "round {round}");
            assert!(!kept.note(held(2)), "nothing changed");
        }
        assert!(!kept.note(held(1)) && !kept.note(held(2)), "they take turns");
        assert!(kept.note(held(3)), "what was not there before");
        kept.all_is_new();
        assert!(kept.note(held(2)));
        assert_eq!(kept.last(), held(2));
    }

    #[test]
    fn what_was_kept_back_stands_until_its_keeper_has_a_turn() {
        let mut kept = KeptBack::default();
        kept.note(held(2));
        assert_eq!(kept.standing().collect::<Vec<Held>>(), held(2));
        kept.has_turn(WorkloadIdx::FIRST);
        assert_eq!(kept.standing().count(), 0, "it may keep something else now");
        kept.note(held(2));
        assert_eq!(kept.standing().collect::<Vec<Held>>(), held(2), "the next round");
    }

    #[test]
    fn a_start_that_is_reserved_and_given_up_comes_to_rest() {
        let mut kept = KeptBack::default();
        let one = vec![(WorkloadIdx::FIRST, Time(1))];
        for round in 0..TIMES_MAX {
            assert!(kept.starts_are_new(&one), "round {round}");
            assert!(kept.note_starts(one.clone()) && kept.note_starts(Starts::new()));
        }
        assert!(!kept.starts_are_new(&one) && !kept.note_starts(one.clone()));
        assert!(!kept.note_starts(Starts::new()));
        assert!(kept.note_starts(vec![(WorkloadIdx::FIRST, Time(2))]), "another start");
        kept.time_passed();
        assert!(kept.note_starts(one.clone()));
    }
}
