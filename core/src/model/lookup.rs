//! A map that is asked by key and never walked.
//!
//! Keys are compared by a hash first and by themselves only where hashes are equal, so that a
//! look-up among a hundred thousand names reads two of them instead of seventeen. The hash has a
//! fixed seed and nothing depends on the order that it makes; names chosen to collide cost what
//! an ordinary ordered map costs.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Values by key.
#[derive(Debug)]
pub struct Lookup<K, V> {
    entries: BTreeMap<(u64, K), V>,
}

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Lookup<K, V> {
        Lookup { entries: BTreeMap::new() }
    }
}

impl<K: Ord + Hash + Clone, V> Lookup<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(&hashed(key))
    }

    /// Whether a key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.entries.insert(hashed(&key), value)
    }

    /// Takes the value of a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(&hashed(key))
    }
}

fn hashed<K: Hash + Clone>(key: &K) -> (u64, K) {
    let mut hasher = Mixer::default();
    key.hash(&mut hasher);
    (hasher.finish(), key.clone())
}

/// Eight bytes at a time, each mixed with those before by a multiplication whose halves are folded.
/// It need not withstand anybody: see above.
struct Mixer(u64);

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

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_like_names_differ() {
        let name = |number: u32| hashed(&format!("team-{number}/train-{number}")).0;
        let mut hashes: Vec<u64> = (0..100_000).map(name).collect();
        hashes.extend((0..100_000_u32).map(|number| hashed(&number).0));
        hashes.push(hashed(&String::new()).0);
        hashes.push(hashed(&"\0".to_owned()).0);
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
        assert_eq!((lookup.remove(&Same(1)), lookup.contains_key(&Same(1))), (Some('a'), false));
    }
}
