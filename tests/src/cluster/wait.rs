//! Waiting for what a real cluster does in its own time.
//!
//! Looking costs the machine that is waited for, so whoever looks slowly looks seldom.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

use super::trouble::{Result, Trouble};

/// How soon it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many times as long as a look took nobody looks again.
const REST: u32 = 4;

/// Looks until `look` finds what is waited for; else trouble with what it said last.
pub fn eventually<T, E: Display>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> std::result::Result<T, E>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        match look() {
            Ok(found) => return Ok(found),
            Err(last) if start.elapsed() > within => {
                let waited = within.as_secs_f64();
                return Err(Trouble::new(format!("{what}: not within {waited} s: {last}")));
            }
            Err(_) => thread::sleep(LOOK_AGAIN.max(looked.elapsed() * REST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_is_in_the_trouble() {
        let mut looks = 0;
        let found = eventually("three", Duration::from_secs(60), || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err("less") }
        });
        assert_eq!(found.expect("it is found"), 3);
        let never: Result<()> = eventually("a pod", Duration::ZERO, || Err("no node"));
        assert_eq!(never.unwrap_err().to_string(), "a pod: not within 0 s: no node");
    }
}
