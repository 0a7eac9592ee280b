//! CEL, as far as device selectors use it: the functions and types that Kubernetes 1.37 gives
//! them.
//!
//! Why our own: the evaluators that exist for Rust have no `cel.bind`, no optional syntax, no
//! check of types and no limit on cost, and Kubernetes' own documents recommend the first in
//! selectors.
//!
//! An expression is read and its types are checked, as far as literals and functions tell them,
//! before a device is looked at: what Kubernetes refuses then is refused by name. Left out: the
//! messages of protocol buffers (`google.protobuf.Struct{..}`), which no device has, and keys of
//! maps that are no bool, whole number or text. Otherwise than in Kubernetes, elements of empty
//! lists and maps fit every type; a sum of quantities is equal to another one on either side of
//! `==`; names of types can be bound; what a format says of a text that does not fit it has other
//! words; and costs are counted more coarsely.
//!
//! Steps cost about what they cost in Kubernetes ([`costs`]), and an expression ends at the cost at
//! which it ends there. Nothing here panics, whatever it is given.

use std::borrow::Cow;
use std::fmt;

mod amount;
mod costs;
mod eval;
mod format;
mod functions;
mod lex;
mod lists;
mod macros;
mod methods;
mod named;
mod net;
mod parse;
mod pattern;
mod reads;
mod regexes;
mod semver;
mod signatures;
#[cfg(test)]
mod tests;
mod texts;
mod time;
mod types;
mod url;
mod value;
#[cfg(test)]
mod verdicts;

pub use amount::Amount;
#[cfg(test)]
pub use eval::evaluate;
pub use eval::{COST_MAX, weigh};
pub use parse::{Program, parse};
pub use reads::Reads;
pub use semver::Semver;
pub use value::{Key, Map, Value};

/// What is wrong with an expression, or with what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Cow<'static, str>);

impl Fault {
    /// With these words.
    pub fn new(problem: impl Into<Cow<'static, str>>) -> Fault {
        Fault(problem.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
