//! Requests that are more than their own limits, or a LimitRange of their namespace, allow.

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

/// What a LimitRange does not allow; the first of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutOfRange {
    /// Name of the LimitRange, which is in the pod's namespace.
    pub range: Text,
    /// Container; empty: the pod as a whole.
    pub container: Text,
    /// Resource.
    pub resource: Text,
    /// Which bound, and by how much.
    pub breach: Breach,
}

/// A bound of a LimitRange that does not hold; amounts in the resource's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// A request is below `min`; one that is not given is zero.
    RequestBelowMin {
        /// Requested.
        request: i64,
        /// The least.
        min: i64,
    },
    /// A limit is below `min`.
    LimitBelowMin {
        /// Limit.
        limit: i64,
        /// The least.
        min: i64,
    },
    /// A request is above `max`.
    RequestAboveMax {
        /// Requested.
        request: i64,
        /// The most.
        max: i64,
    },
    /// A limit is above `max`.
    LimitAboveMax {
        /// Limit.
        limit: i64,
        /// The most.
        max: i64,
    },
    /// A limit is more than `maxLimitRequestRatio` times the request.
    Ratio {
        /// Requested.
        request: i64,
        /// Limit.
        limit: i64,
        /// The largest ratio, in thousandths.
        most_milli: i64,
    },
    /// A request is above the limit that `default` gives it.
    AboveDefault {
        /// Requested.
        request: i64,
        /// The limit that it gets.
        limit: i64,
    },
}
