//! Digests by which controllers make names that are short and differ.
//!
//! Decides nothing: SHA-1 as FIPS 180-4 has it, of a short text. No secret hangs on it.

/// Bytes of a block.
const BLOCK: usize = 64;

/// What the five words begin as.
const BEGIN: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

/// The SHA-1 of a text, in hexadecimal digits.
pub fn sha1(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let bits = bytes.len() as u64 * 8;
    bytes.push(0x80);
    while bytes.len() % BLOCK != BLOCK - 8 {
        bytes.push(0);
    }
    bytes.extend(bits.to_be_bytes());
    let words = bytes.chunks_exact(BLOCK).fold(BEGIN, with_block);
    words.iter().map(|word| format!("{word:08x}")).collect()
}

/// The five words after one more block.
fn with_block(words: [u32; 5], block: &[u8]) -> [u32; 5] {
    let mut schedule = [0_u32; 80];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    }
    for at in 16..schedule.len() {
        let before = schedule[at - 3] ^ schedule[at - 8] ^ schedule[at - 14] ^ schedule[at - 16];
        schedule[at] = before.rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = words;
    for (at, word) in schedule.into_iter().enumerate() {
        let (mixed, constant) = match at {
            0..20 => ((b & c) | (!b & d), 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6),
        };
        let sum = [mixed, e, constant, word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
    }
    let mut after = words;
    for (word, more) in after.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(more);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_others_make() {
        let long = "a".repeat(200);
        for (text, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("s-0/1", "a3e11a3cb8463831c16f9a6a6fa6bec3444e5e66"),
            (&*long, "e61cfffe0d9195a525fc6cf06ca2d77119c24a40"),
        ] {
            assert_eq!(sha1(text), digest, "{text}");
        }
    }
}
