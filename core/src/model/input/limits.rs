//! Requests that are more than their own limits allow.

use super::Text;

/// A request above its own limit; the first of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AboveLimit {
    /// Container; empty: the pod as a whole.
    pub container: Text,
    /// Resource.
    pub resource: Text,
    /// Requested, in the resource's unit.
    pub request: i64,
    /// Its limit.
    pub limit: i64,
}
