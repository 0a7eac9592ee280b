//! CEL, as far as device selectors use it.
//!
//! Why our own: the evaluators that exist for Rust have no `cel.bind`, no optional syntax and no
//! limit on cost, and Kubernetes' own documents recommend the first in selectors. What is left out
//! (bytes, times, URLs, named formats, two-variable macros, protocol buffers) is said by name.
//! There is no check of types before evaluation: what Kubernetes would refuse then fails on each
//! device instead, and is matched by none.
//!
//! Every step costs one, and texts and lists what they are long; an expression ends at the cost at
//! which Kubernetes ends it. Nothing here panics, whatever it is given.

use std::borrow::Cow;
use std::fmt;

mod eval;
mod functions;
mod lex;
mod methods;
mod net;
mod parse;
mod semver;
#[cfg(test)]
mod tests;
mod value;

pub use eval::{COST_MAX, evaluate};
pub use parse::{Expr, parse};
pub use semver::Semver;
pub use value::{Key, Map, Value};

/// What is wrong with an expression, or with what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Cow<'static, str>);

impl Fault {
    fn new(problem: impl Into<Cow<'static, str>>) -> Fault {
        Fault(problem.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
