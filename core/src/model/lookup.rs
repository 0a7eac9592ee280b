//! A map that is asked by key and never walked.
//!
//! Keys are compared by a hash first and by themselves only where hashes are equal, so that a
//! look-up among a hundred thousand names reads two of them instead of seventeen. The hash has a
//! fixed seed and nothing depends on the order that it makes; names chosen to collide cost what
//! an ordinary ordered map costs.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

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
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish(), key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

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
