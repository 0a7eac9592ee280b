//! Progress of long work on stderr, and Ctrl-C that stops it but keeps what it has found.
//!
//! The work runs on a blocking thread and writes a small snapshot now and then; the ticker here
//! reads it. It assumes that the work asks [`Progress::stopped`] between rounds, and leaves what
//! a stopped result means to the work.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capstan_core::time::Time;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};

/// Work that is done sooner than this shows nothing.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// How often the line on a terminal is refreshed.
const REFRESH: Duration = Duration::from_secs(1);
/// How often a line is added where stderr is a file or a pipe.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// What a shell says of a process that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// What work tells about itself, shared between it and the ticker.
#[derive(Debug, Default)]
pub struct Progress {
    snapshot: Mutex<Snapshot>,
    stop: AtomicBool,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Rounds run.
    pub rounds: u32,
    /// Workloads admitted.
    pub admitted: u32,
    /// Workloads that hold no node.
    pub pending: u32,
    /// The virtual time, where time is played.
    pub now: Option<Time>,
}

impl Progress {
    /// Replaces the snapshot.
    pub fn update(&self, snapshot: Snapshot) {
        *self.snapshot.lock() = snapshot;
    }

    /// The snapshot as it was written last.
    pub fn snapshot(&self) -> Snapshot {
        *self.snapshot.lock()
    }

    /// Asks the work to stop at its next round.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked the work to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Does `work` with a progress line on stderr once it takes long. The first Ctrl-C asks the work
/// to stop, so that its result so far can be shown; a second one ends the process. Not to be
/// called from async code: it brings its own runtime.
pub fn with_progress<T: Send + 'static>(work: impl FnOnce(&Progress) -> T + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Without a runtime there is no ticker, and the answer matters more.
    let Ok(runtime) = runtime else { return work(&Progress::default()) };
    // Not locked: the work may have something to say there as well.
    let mut stderr = std::io::stderr();
    let pace = Pace::of(stderr.is_terminal());
    runtime.block_on(async {
        let (interrupt, interrupts) = mpsc::channel(1);
        tokio::spawn(async move {
            // Without a signal handler the work just cannot be stopped early.
            while tokio::signal::ctrl_c().await.is_ok() && interrupt.send(()).await.is_ok() {}
        });
        watch(work, pace, &mut stderr, interrupts).await
    })
}

/// When a line is written, and whether it replaces the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    first: Duration,
    every: Duration,
    replaces: bool,
}

impl Pace {
    fn of(terminal: bool) -> Pace {
        match terminal {
            true => Pace { first: QUIET_FOR, every: REFRESH, replaces: true },
            false => Pace { first: LOG_EVERY, every: LOG_EVERY, replaces: false },
        }
    }
}

async fn watch<T: Send + 'static>(
    work: impl FnOnce(&Progress) -> T + Send + 'static,
    pace: Pace,
    out: &mut dyn Write,
    mut interrupts: mpsc::Receiver<()>,
) -> T {
    let progress = Arc::new(Progress::default());
    let shared = progress.clone();
    let mut job = tokio::task::spawn_blocking(move || work(&shared));
    let mut ticks = interval_at(Instant::now() + pace.first, pace.every);
    let mut shown = false;
    // A progress line that cannot be written is not worth failing for.
    let result = loop {
        tokio::select! {
            result = &mut job => break result,
            _ = ticks.tick() => {
                shown = true;
                let _ = show(out, pace, &line(&progress.snapshot()));
            }
            Some(()) = interrupts.recv() => {
                if progress.stopped() {
                    std::process::exit(EXIT_INTERRUPTED);
                }
                progress.stop();
                let words = "stopping after this round; Ctrl-C again to leave at once";
                let _ = writeln!(out, "{}{words}", if shown && pace.replaces { "\n" } else { "" });
                shown = false;
            }
        }
    };
    if shown && pace.replaces {
        let _ = out.write_all(CLEAR_LINE).and_then(|()| out.flush());
    }
    match result {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("nobody cancels the work: {error}"),
        },
    }
}

/// Back to the first column, and nothing left of the line.
const CLEAR_LINE: &[u8] = b"\r\x1b[2K";

fn show(out: &mut dyn Write, pace: Pace, line: &str) -> std::io::Result<()> {
    if pace.replaces {
        out.write_all(CLEAR_LINE)?;
        write!(out, "{line}")?;
    } else {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// One line for people.
fn line(snapshot: &Snapshot) -> String {
    let Snapshot { rounds, admitted, pending, now } = snapshot;
    let clock = now.and_then(|now| jiff::Timestamp::from_millisecond(now.0).ok());
    let clock = clock.map(|clock| format!(", at {clock:.0}")).unwrap_or_default();
    format!("simulating: round {rounds}, {admitted} admitted, {pending} pending{clock}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T: Send + 'static>(
        pace: Pace,
        out: &mut dyn Write,
        interrupts: mpsc::Receiver<()>,
        work: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(watch(work, pace, out, interrupts))
    }

    fn nobody() -> mpsc::Receiver<()> {
        mpsc::channel(1).1
    }

    #[test]
    fn the_line_names_rounds_workloads_and_virtual_time() {
        let still = Snapshot { rounds: 7, admitted: 3, pending: 12, now: None };
        assert_eq!(line(&still), "simulating: round 7, 3 admitted, 12 pending");
        let played = Snapshot { now: Some(Time(1_767_261_600_500)), ..still };
        assert_eq!(
            line(&played),
            "simulating: round 7, 3 admitted, 12 pending, at 2026-01-01T10:00:00Z"
        );
    }

    #[test]
    fn short_work_shows_nothing_and_gives_its_value() {
        let mut out = Vec::new();
        assert_eq!(run(Pace::of(true), &mut out, nobody(), |_| 42), 42);
        assert!(out.is_empty());
        assert!(!with_progress(Progress::stopped));
    }

    #[test]
    fn long_work_refreshes_one_line_on_a_terminal_and_adds_lines_elsewhere() {
        for replaces in [true, false] {
            let tick = Duration::from_millis(1);
            let pace = Pace { first: tick, every: tick, replaces };
            let (release, wait) = std::sync::mpsc::channel::<()>();
            let mut out = Signal { written: Vec::new(), release: Some(release) };
            run(pace, &mut out, nobody(), move |progress| {
                progress.update(Snapshot { rounds: 1, ..Snapshot::default() });
                // Ends once a line was written: the sender is dropped then.
                let _ = wait.recv();
            });
            let text = String::from_utf8(out.written).unwrap();
            let words = "0 admitted, 0 pending";
            assert!(text.contains(words), "{text}");
            assert_eq!(text.starts_with('\r') && text.ends_with("\x1b[2K"), replaces);
            assert_eq!(text.ends_with('\n'), !replaces);
        }
    }

    /// Keeps what is written, and lets the work end with the first flush.
    struct Signal {
        written: Vec<u8>,
        release: Option<std::sync::mpsc::Sender<()>>,
    }

    impl Write for Signal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.release = None;
            Ok(())
        }
    }

    #[test]
    fn a_terminal_is_refreshed_each_second_and_a_file_gets_a_line_every_ten() {
        let terminal = Pace::of(true);
        assert_eq!((terminal.first.as_secs(), terminal.every.as_secs()), (2, 1));
        let file = Pace::of(false);
        assert_eq!((file.first.as_secs(), file.every.as_secs()), (10, 10));
    }

    #[test]
    fn an_interrupt_asks_the_work_to_stop_and_keeps_its_value() {
        let (interrupt, interrupts) = mpsc::channel(1);
        interrupt.blocking_send(()).unwrap();
        let mut out = Vec::new();
        let rounds = run(Pace::of(true), &mut out, interrupts, |progress| {
            let mut rounds = 0_u64;
            while !progress.stopped() {
                rounds += 1;
                std::thread::yield_now();
            }
            rounds
        });
        assert!(rounds < u64::MAX);
        assert!(String::from_utf8(out).unwrap().starts_with("stopping after this round"));
    }

    #[test]
    fn a_panic_of_the_work_is_the_caller_s() {
        let caught = std::panic::catch_unwind(|| with_progress(|_| panic!("of the work")));
        let panic = caught.expect_err("the work panicked");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the work"));
    }
}
