//! Time of a piece of work: on the wall, and of this thread on a processor.
//!
//! Figures for people are wall time. Slopes and ratios compare processor time, because on a
//! machine with neighbours the wall also measures them.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A running clock.
pub struct Clock {
    wall: Instant,
    thread: Duration,
}

/// What a piece of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// On the wall.
    pub wall: Duration,
    /// Of this thread on a processor.
    pub thread: Duration,
}

impl Clock {
    /// Starts now.
    pub fn start() -> Clock {
        Clock { thread: thread_time(), wall: Instant::now() }
    }

    /// What passed since the start.
    pub fn took(&self) -> Took {
        let wall = self.wall.elapsed();
        Took { wall, thread: thread_time().saturating_sub(self.thread) }
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_takes_wall_time_only() {
        let clock = Clock::start();
        std::thread::sleep(Duration::from_millis(30));
        let took = clock.took();
        assert!(took.wall >= Duration::from_millis(30) && took.thread < took.wall / 2);
    }
}
