//! Numbers for values: equal values share one, and what nothing uses any more gives it back.
//!
//! Whoever owns an [`Interner`] keeps what belongs to a number in a vector beside it. Nothing is
//! counted while numbers are used; now and then the owner marks those in use and calls
//! [`Interner::sweep`], which forgets the rest. A number stays the same for as long as its value
//! stays. The lowest free number is given next, so that vectors stay short; which number a value
//! has depends on what was there before, so no order that matters may end at it.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values and their numbers.
#[derive(Clone, Debug)]
pub struct Interner<K> {
    known: BTreeMap<K, u32>,
    /// Numbers below `slots` that no value has, highest first.
    free: Vec<u32>,
    slots: u32,
}

/// A vector beside an interner gives memory back when it uses less than one part in this many.
const SPARSE: usize = 4;

impl<K> Default for Interner<K> {
    fn default() -> Interner<K> {
        Interner { known: BTreeMap::new(), free: Vec::new(), slots: 0 }
    }
}

impl<K: Ord> Interner<K> {
    /// The number of a value.
    pub fn find<Q: Ord + ?Sized>(&self, value: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        self.known.get(value).copied()
    }

    /// Numbers a value that has none yet.
    pub fn add(&mut self, value: K) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let old = self.known.insert(value, number);
        assert!(old.is_none(), "a value is numbered once");
        number
    }

    /// Values and their numbers, in order of values.
    pub fn iter(&self) -> impl Iterator<Item = (&K, u32)> {
        self.known.iter().map(|(value, number)| (value, *number))
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The number after the highest in use: how long a vector beside this one must be.
    pub fn slots(&self) -> usize {
        self.slots as usize
    }

    /// For each number whether a value has it.
    pub fn given(&self) -> Vec<bool> {
        let mut given = vec![false; self.slots()];
        for (_, number) in self.iter() {
            given[number as usize] = true;
        }
        given
    }

    /// Forgets every value whose number is not marked, and clears what `beside` has for it.
    pub fn sweep<V>(&mut self, used: &[bool], beside: &mut Vec<V>, mut clear: impl FnMut(&mut V)) {
        assert_eq!((used.len(), beside.len()), (self.slots(), self.slots()), "one of each");
        let mut given = vec![false; self.slots()];
        self.known.retain(|_, number| {
            let at = *number as usize;
            match used[at] {
                true => given[at] = true,
                false => clear(&mut beside[at]),
            }
            used[at]
        });
        self.slots = given.iter().rposition(|given| *given).map_or(0, |last| last as u32 + 1);
        let numbers = (0..self.slots).rev();
        self.free = numbers.filter(|number| !given[*number as usize]).collect();
        beside.truncate(self.slots());
        if beside.capacity() / SPARSE > beside.len() {
            beside.shrink_to_fit();
        }
    }

    /// Compares what is free with what no value has.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self) {
        let mut given = vec![false; self.slots()];
        for (_, number) in self.iter() {
            let twice = std::mem::replace(&mut given[number as usize], true);
            assert!(!twice, "number {number} is given twice");
        }
        let counted: Vec<u32> =
            (0..self.slots).rev().filter(|number| !given[*number as usize]).collect();
        let mut free = self.free.clone();
        free.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(free, counted, "free numbers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interns each word and keeps it in the vector.
    fn number(interner: &mut Interner<&'static str>, beside: &mut Vec<&'static str>) {
        for word in ["a", "b", "c", "d", "e"] {
            if interner.find(word).is_none() {
                let number = interner.add(word) as usize;
                beside.resize(interner.slots(), "");
                beside[number] = word;
            }
        }
    }

    fn sweep(interner: &mut Interner<&'static str>, beside: &mut Vec<&'static str>, keep: &[&str]) {
        let used: Vec<bool> = beside.iter().map(|word| keep.contains(word)).collect();
        interner.sweep(&used, beside, |word| *word = "");
        interner.recount();
    }

    #[test]
    fn what_stays_keeps_its_number_and_the_lowest_free_one_is_given_next() {
        let (mut interner, mut beside) = (Interner::default(), Vec::new());
        number(&mut interner, &mut beside);
        sweep(&mut interner, &mut beside, &["b", "d"]);
        assert_eq!((interner.find("b"), interner.find("d")), (Some(1), Some(3)));
        assert_eq!((interner.len(), interner.slots()), (2, 4), "the end is cut off");
        assert_eq!(beside, ["", "b", "", "d"]);
        assert_eq!([interner.add("x"), interner.add("y"), interner.add("z")], [0, 2, 4]);
        interner.recount();
    }

    #[test]
    fn ever_new_values_take_no_more_than_what_is_in_use() {
        let (mut interner, mut beside) = (Interner::<u32>::default(), Vec::new());
        for value in 0..10_000 {
            let number = interner.add(value) as usize;
            beside.resize(interner.slots(), 0);
            beside[number] = value;
            if value % 10 == 9 {
                let used: Vec<bool> = beside.iter().map(|of| *of == value).collect();
                interner.sweep(&used, &mut beside, |of| *of = 0);
            }
        }
        assert_eq!(interner.len(), 1);
        assert!(interner.slots() <= 11 && beside.capacity() <= 64, "{}", beside.capacity());
        sweep_all(&mut interner, &mut beside);
        assert!(interner.is_empty() && beside.is_empty() && beside.capacity() == 0);
    }

    fn sweep_all(interner: &mut Interner<u32>, beside: &mut Vec<u32>) {
        interner.sweep(&vec![false; beside.len()], beside, |of| *of = 0);
        interner.recount();
    }

    #[test]
    #[should_panic(expected = "free numbers")]
    fn recount_notices_a_number_that_is_lost() {
        let (mut interner, mut beside) = (Interner::default(), Vec::new());
        number(&mut interner, &mut beside);
        interner.known.remove("c");
        interner.recount();
    }
}
