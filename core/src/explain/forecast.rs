//! When waiting work is to start, and what that takes for granted.

use crate::model::input::Text;
use crate::time::Time;

/// When a waiting workload is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// About then.
    pub start: Time,
    /// The start is kept for it: what comes later may not delay it.
    pub reserved: bool,
    /// What it takes for granted.
    pub assumes: Assumptions,
}

/// What a forecast takes for granted, beside that nothing comes which goes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// So many workloads end when they say, at the latest at its start.
    pub ends: u32,
    /// The last of them, `namespace/name`, a few by name; empty: none ends before.
    pub last: Vec<Text>,
    /// Some of them say nothing, and are taken to run as long as such work did before.
    pub learned: bool,
    /// So many of its queue start before it.
    pub ahead: u32,
}
