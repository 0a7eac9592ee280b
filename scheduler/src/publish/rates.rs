//! How much may be written, and what is counted of it.
//!
//! While effects are carried out (binds, suspensions, evictions) objects wait for [`HOLD`], and go
//! at a [`BESIDE`]th of the rate then: the API server, and who else acts on what it shows, are left
//! to what matters (a Workload costs it several times what a bind does). What is late is not lost:
//! newest wins, so a gang that starts and runs meanwhile is written once. Nothing waits for longer
//! than [`LATE`] on that account: under a load without end the rates are whole again, and half of
//! them is for what waited that long, whatever its rank.

use capstan_core::time::{Span, Time};

/// How long after an effect began or ended others are taken to follow.
pub const CALM: Span = Span(250);
/// How long objects wait beside effects: most bursts are over by then.
pub const HOLD: Span = Span::seconds(3);
/// Which part of the rates is left beside effects.
pub const BESIDE: u32 = 50;
/// What has been due for this long is written at the whole rate.
pub const LATE: Span = Span::minutes(1);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Workloads created.
    Created,
    /// Statuses of workloads that have not run yet: the budget up to the bind.
    StatusUntilBound,
    /// Later statuses of workloads.
    StatusLater,
    /// Statuses of workloads that say no more than where they stand in their queue.
    StatusPlace,
    /// Workloads patched themselves.
    Object,
    /// Finalizers of ClusterQueues, put on or taken off.
    QueueFinalizer,
    /// Statuses of queues.
    QueueStatus,
    /// Statuses of PodGroups.
    GroupStatus,
    /// Conditions of pods.
    PodCondition,
    /// Workloads deleted.
    Deleted,
    /// Statuses read.
    Read,
    /// Wishes that a newer one overtook before they were written.
    Merged,
    /// Requests that failed.
    Failed,
    /// Events sent.
    Event,
    /// Events that were sent already.
    EventRepeated,
    /// Events dropped.
    EventDropped,
}

impl What {
    /// The label of a metric.
    pub fn word(self) -> &'static str {
        match self {
            What::Created => "workload_create",
            What::StatusUntilBound => "workload_status_until_bound",
            What::StatusLater => "workload_status_later",
            What::StatusPlace => "workload_position",
            What::Object => "workload_object",
            What::QueueFinalizer => "queue_finalizer",
            What::QueueStatus => "queue_status",
            What::GroupStatus => "group_status",
            What::PodCondition => "pod_condition",
            What::Deleted => "workload_delete",
            What::Read => "status_read",
            What::Merged => "merged",
            What::Failed => "failed",
            What::Event => "event",
            What::EventRepeated => "event_repeated",
            What::EventDropped => "event_dropped",
        }
    }
}

/// How much may be written while nothing else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in a second.
    pub writes: u32,
    /// Events in a second.
    pub events: u32,
}

impl Default for Limits {
    /// A quarter of what a small API server takes in bindings, and few events.
    fn default() -> Limits {
        Limits { writes: 500, events: 50 }
    }
}

/// A bucket of permits that fills with time; it holds those of one second.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    per_second: u32,
    thousandths: i64,
    at: Time,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(per_second: u32) -> Bucket {
        let per_second = per_second.max(1);
        Bucket { per_second, thousandths: i64::from(per_second) * 1_000, at: Time::MIN }
    }

    /// Whether there is a permit; `beside` effects that are carried out there are few.
    pub(super) fn has(&mut self, now: Time, beside: bool) -> bool {
        let share = if beside { BESIDE } else { 1 };
        let rate = i64::from((self.per_second / share).max(1));
        let gained = now.since(self.at).0.min(1_000) * rate;
        self.thousandths = (self.thousandths + gained).min(rate * 1_000);
        self.at = self.at.max(now);
        self.thousandths >= 1_000
    }

    /// Takes a permit, if there is one.
    pub(super) fn take(&mut self, now: Time, beside: bool) -> bool {
        let some = self.has(now, beside);
        if some {
            self.thousandths -= 1_000;
        }
        some
    }
}
