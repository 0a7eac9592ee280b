//! Selectors that cannot be read.

use super::Text;

/// A selector that cannot be read; the first of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Malformed {
    /// The path of the field, from the pod's own spec on.
    pub field: Text,
    /// What is wrong with it.
    pub problem: Text,
}
