//! Who leads: one of several replicas, by a Lease with optimistic concurrency.
//!
//! Problem: two replicas must never act at the same time, although clocks differ, processes are
//! paused and answers are lost.
//!
//! Wanted: a replica acts only while it is certain that no other may: until the time of its own
//! last confirmed renewal (its clock when it *sent* the request) plus `renewDeadline`, which is
//! shorter than the `leaseDuration` that others wait from when they *saw* the renewal. Every
//! write replaces the Lease as it was read (resourceVersion), so that of two candidates one gets
//! a conflict. Graceful shutdown gives the lease back (empty holder, `leaseDurationSeconds` of 1).
//! One that somebody else deletes or empties was not given back: who saw its holder waits as long
//! as if nothing had happened, and who holds one that was deleted makes it anew, and leads for
//! longer once it has renewed that.
//!
//! Phases: read or create -> given back, or unchanged for a whole `leaseDuration` of our own
//! clock: replace it -> renew every `retryPeriod` -> not renewed in time: deposed for good.
//!
//! `elector` plays these phases; executors see [`Leadership`] only. Clocks are monotonic: what
//! a process sleeps through counts, but a machine that is suspended as a whole stops its clock, so
//! that after such a pause writes are safe by their preconditions alone.
//!
//! Cost: one small request every `retryPeriod`, on a connection of its own.

mod elector;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

pub use elector::{Elector, LeaseEvent, RELEASE_MAX, Settings, idle_said};

/// Whether this process may act, as executors see it.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Leadership that ends at the times that are sent; `None`: not (or no longer) leading.
    pub fn new(until: watch::Receiver<Option<Instant>>) -> Leadership {
        Leadership { until }
    }

    /// Leads without a lease for as long as the process lives (leader election switched off).
    pub fn alone() -> Leadership {
        let far = Instant::now().checked_add(Duration::from_secs(1 << 32));
        let (sender, until) = watch::channel(far);
        // The last value outlives its sender.
        drop(sender);
        Leadership { until }
    }

    /// Whether a request may be sent now: no other replica can lead yet.
    pub fn holds(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until leadership no longer holds.
    pub async fn lost(&self) {
        let mut until = self.until.clone();
        let mut ended = false;
        loop {
            let Some(end) = *until.borrow_and_update() else { return };
            if Instant::now() >= end {
                return;
            }
            tokio::select! {
                () = sleep_until(end) => {}
                changed = until.changed(), if !ended => ended = changed.is_err(),
            }
        }
    }
}
