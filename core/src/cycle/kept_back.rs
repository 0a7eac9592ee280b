//! What heads keep back, from one round to the next.
//!
//! Problem: what a blocked head keeps back is kept from others of its round. Where that changes,
//! whoever it was kept from is looked at again, and may keep back something else in turn: two heads
//! could take turns for ever, with nothing decided and nothing new.
//!
//! Wanted: everybody sees what is kept back last, and it ends. So the same may come up a few times,
//! for those who had no turn while it was there, and then wakes nobody until something is decided
//! or a fact comes in. Restart: begins with nothing. Cost: a copy of what is kept back for each
//! round in which it changed.

use std::collections::BTreeMap;

use crate::model::state::Held;

/// How often the same wakes those from whom it is kept.
const TIMES_MAX: u32 = 4;

/// What heads kept back in the last round, and before that since anything was new.
#[derive(Debug, Default)]
pub(crate) struct KeptBack {
    last: Vec<Held>,
    times: BTreeMap<Vec<Held>, u32>,
}

impl KeptBack {
    /// What was kept back in the last round.
    pub(crate) fn last(&self) -> &[Held] {
        &self.last
    }

    /// Takes what was kept back in a round; whether whoever it was kept from is to be looked at
    /// again for that.
    pub(crate) fn note(&mut self, held: Vec<Held>) -> bool {
        if self.last == held {
            return false;
        }
        let times = self.times.entry(held.clone()).or_default();
        *times += 1;
        self.last = held;
        *times <= TIMES_MAX
    }

    /// Something was decided, or a fact came in: all may be otherwise now.
    pub(crate) fn all_is_new(&mut self) {
        self.times.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{FrIdx, QueueIdx, WorkloadIdx};

    fn held(amount: i64) -> Vec<Held> {
        vec![Held { queue: QueueIdx(0), fr: FrIdx(0), amount, by: WorkloadIdx::FIRST }]
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
}
