//! A map that is asked by key and never walked.
//!
//! Values stand in a table by a hash of their key: a look-up among a hundred thousand names reads
//! one line of the table and one name, where an ordered map reads seventeen of them. The hash has a
//! fixed seed, and nothing depends on the order that it makes: it is not to be seen. Names chosen
//! to collide are walked over, sixteen at a step.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Values by key.
#[derive(Debug)]
pub struct Lookup<K, V> {
    /// Each with the hash of its key, so that keys are not read when the table grows.
    table: HashTable<(u64, K, V)>,
}

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Lookup<K, V> {
        Lookup { table: HashTable::new() }
    }
}

impl<K, V> Lookup<K, V> {
    /// How many keys have a value.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl<K: Eq + Hash, V> Lookup<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let hash = hash_of(key);
        let found = self.table.find(hash, |(known, held, _)| *known == hash && held == key);
        found.map(|(.., value)| value)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = hash_of(key);
        let found = self.table.find_mut(hash, |(known, held, _)| *known == hash && held == key);
        found.map(|(.., value)| value)
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = hash_of(&key);
        let same = |(known, held, _): &(u64, K, V)| *known == hash && *held == key;
        match self.table.entry(hash, same, |(known, ..)| *known) {
            Entry::Occupied(mut held) => Some(std::mem::replace(&mut held.get_mut().2, value)),
            Entry::Vacant(free) => {
                free.insert((hash, key, value));
                None
            }
        }
    }

    /// Takes the value of a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Takes the value of a key out if it is such a one.
    pub fn remove_if(&mut self, key: &K, such: impl FnOnce(&V) -> bool) -> Option<V> {
        let hash = hash_of(key);
        let same = |(known, held, _): &(u64, K, V)| *known == hash && held == key;
        let held = self.table.find_entry(hash, same).ok()?;
        such(&held.get().2).then(|| held.remove().0.2)
    }
}

impl<A: Eq + Hash, B: Eq + Hash, V> Lookup<(A, B), V> {
    /// The value of a key by its halves: whoever has them by themselves need not put them together.
    pub fn get_pair(&self, one: &A, other: &B) -> Option<&V> {
        let hash = hash_of(&(one, other));
        let same = |(known, (a, b), _): &(u64, (A, B), V)| (*known, a, b) == (hash, one, other);
        self.table.find(hash, same).map(|(.., value)| value)
    }
}

fn hash_of<K: Hash>(key: &K) -> u64 {
    let mut hasher = Mixer::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// The hash of names: eight bytes at a time, each mixed with those before by a multiplication whose
/// halves are folded. It withstands nobody: see above.
pub(crate) struct Mixer(u64);

impl Default for Mixer {
    /// Some number whose bits follow no rule: the fraction of pi.
    fn default() -> Mixer {
        Mixer(0x243f_6a88_85a3_08d3)
    }
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        // Odd, with half of its bits set: the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let wide = u128::from(self.0.rotate_left(29) ^ word) * u128::from(FACTOR);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let rest = chunks.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_like_names_differ() {
        let name = |number: u32| hash_of(&format!("team-{number}/train-{number}"));
        let mut hashes: Vec<u64> = (0..100_000).map(name).collect();
        hashes.extend((0..100_000_u32).map(|number| hash_of(&number)));
        hashes.push(hash_of(&String::new()));
        hashes.push(hash_of(&"\0".to_owned()));
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
    }

    #[test]
    fn keys_of_equal_hash_stay_apart() {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        struct Same(u32);
        impl Hash for Same {
            fn hash<H: Hasher>(&self, hasher: &mut H) {
                hasher.write_u8(0);
            }
        }
        let mut lookup = Lookup::default();
        assert_eq!((lookup.insert(Same(1), 'a'), lookup.insert(Same(2), 'b')), (None, None));
        assert_eq!(lookup.insert(Same(2), 'c'), Some('b'));
        assert_eq!((lookup.get(&Same(1)), lookup.get(&Same(2))), (Some(&'a'), Some(&'c')));
        assert_eq!(lookup.get_mut(&Same(2)), Some(&mut 'c'));
        assert_eq!(lookup.get_mut(&Same(3)), None);
        assert_eq!((lookup.len(), lookup.is_empty()), (2, false));
        assert_eq!((lookup.remove(&Same(1)), lookup.contains_key(&Same(1))), (Some('a'), false));
        // The one that stays is found wherever it stands, and is there once.
        assert_eq!((lookup.insert(Same(2), 'd'), lookup.insert(Same(3), 'e')), (Some('c'), None));
        assert_eq!((lookup.get(&Same(2)), lookup.get(&Same(3))), (Some(&'d'), Some(&'e')));
        assert_eq!(lookup.remove_if(&Same(2), |value| *value == 'c'), None);
        assert_eq!(lookup.remove_if(&Same(2), |value| *value == 'd'), Some('d'));
        assert_eq!((lookup.remove(&Same(2)), lookup.remove(&Same(3))), (None, Some('e')));
    }

    #[test]
    fn a_pair_is_found_by_its_halves() {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        struct Half(u32);
        impl Hash for Half {
            fn hash<H: Hasher>(&self, hasher: &mut H) {
                hasher.write_u32(self.0 / 2);
            }
        }
        let mut lookup = Lookup::default();
        for number in 0..4 {
            assert_eq!(lookup.insert((Half(number), Half(8)), number), None);
        }
        // Two of one hash each: the second of them does not stand by it.
        for number in 0..4 {
            assert_eq!(lookup.get_pair(&Half(number), &Half(8)), Some(&number));
            assert_eq!(lookup.get(&(Half(number), Half(8))), Some(&number));
        }
        assert_eq!(lookup.get_pair(&Half(4), &Half(8)), None);
        assert_eq!(lookup.get_pair(&Half(0), &Half(9)), None);
    }
}
