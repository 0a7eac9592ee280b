//! Carries effects out on the API server; every effect gets exactly one answer.
//!
//! Problem: thousands of small writes a second, of which any may be refused, answered twice,
//! answered late or not at all.
//!
//! Wanted: nothing is sent without leadership ([`crate::lease::Leadership::holds`], asked right
//! before each request); nothing is sent twice blindly (after a timeout or 5xx the object is read
//! back before anything is concluded); uid preconditions on every write; one slow object does not
//! hold up others; binds go before everything else; what is answered is the truth or
//! [`TimedOut`](capstan_core::plan::EffectResult::TimedOut), never a guess.
//!
//! Phases of one effect: permit (bounded) -> leadership -> request -> classify the answer -> retry
//! with its own policy, read back, or answer.
//!
//! `Status` and `Event` effects are not for here: [`crate::publish`] takes them.

use capstan_core::plan::{EffectId, EffectResult};

/// The answer to one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The effect.
    pub effect: EffectId,
    /// What became of it.
    pub result: EffectResult,
}

/// Where answers go; it never blocks, and the receiver outlives all executors.
pub type Answers = std::sync::Arc<dyn Fn(Answer) + Send + Sync>;
