//! A seeded stream of numbers: splitmix64, so that large builders need no random crate and give
//! the same cluster on every machine.

/// The stream.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// A stream; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Seed {
        Seed(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above zero. The bias of the remainder is no matter here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "an empty range");
        low + self.below((high - low + 1) as u64) as i64
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at as u64 + 1) as usize;
            list.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        let mut seed = Seed::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| seed.number()).collect();
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(first[..2], published);
        assert_ne!(first[2], first[1]);
    }

    #[test]
    fn shuffling_keeps_everything() {
        let mut list: Vec<u32> = (0..50).collect();
        Seed::new(7).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<u32>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<u32>>());
    }
}
