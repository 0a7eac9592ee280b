//! Digests by which controllers make names that are short and differ.
//!
//! Decides nothing: SHA-1 of a short text, as they write it. No secret hangs on it.

use std::fmt::Write as _;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The SHA-1 of a text, in hexadecimal digits.
pub fn sha1(text: &str) -> String {
    let mut digits = String::new();
    for byte in digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref() {
        write!(digits, "{byte:02x}").expect("a string takes all that is written");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_others_make() {
        for (text, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("s-0/1", "a3e11a3cb8463831c16f9a6a6fa6bec3444e5e66"),
        ] {
            assert_eq!(sha1(text), digest, "{text}");
        }
    }
}
