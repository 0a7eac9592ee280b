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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// So many workloads end when they say, at the latest at its start.
    pub ends: u32,
    /// The last of them, `namespace/name`, a few by name; empty: none ends before.
    pub last: Vec<Text>,
    /// Some of them say nothing, and are taken to run as long as such work did before.
    pub learned: bool,
    /// Work, `namespace/name`, that was admitted, does not end by then, and has to have started
    /// before anything else is admitted (`waitForPodsReady.blockAdmission`).
    pub after: Vec<Text>,
    /// ClusterQueue whose budget is spent before its start, and begins anew by then.
    pub budget_of: Option<Text>,
    /// So many of its queue start before it.
    pub ahead: u32,
    /// Its queue lets who fits pass who does not: it may start sooner, before them.
    pub passes: bool,
}

/// What comes at the time until which work is to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// It delays nobody any more whose start is reserved.
    Turn,
    /// The next period of a budget.
    Period {
        /// Of this ClusterQueue.
        budget_of: Text,
    },
    /// Room or quota that it lacks as well, in that period.
    RoomInPeriod {
        /// Of this ClusterQueue.
        budget_of: Text,
    },
}

/// Why no start is reserved for a head: a bound of what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserved {
    /// So many are kept for others that wait for the same nodes or quota, who go before it:
    /// `reservations.maxReserved`.
    Limit {
        /// So many.
        most: u32,
    },
    /// No start was found for those before it in its queue, and it was not looked for more.
    Behind {
        /// So many.
        others: u32,
    },
    /// So many timetables were played in a step to find when others could start, and no more are.
    Plays {
        /// So many.
        most: u32,
    },
    /// It does not fit once the first of those that may leave something to it have ended, and of
    /// more it is not looked at.
    Ends {
        /// So many ends were looked at.
        looked_at: u32,
        /// So many more are known.
        left_out: u32,
    },
}
