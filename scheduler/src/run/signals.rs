//! The signals that end a replica: the first one in good order, the second one at once.
//!
//! tokio keeps a signal for good once somebody listened for it, so that a second one would end
//! nothing by itself. Whoever sends it waits for nothing more: what is under way is left as by a
//! kill, which every start expects, and the lease runs out by itself.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for both.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// One that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// By whoever runs the process.
    Terminate,
    /// From a terminal.
    Interrupt,
}

impl Asked {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Terminate => "SIGTERM",
            Asked::Interrupt => "SIGINT",
        }
    }

    /// The exit code of a process that it ends, as shells have it.
    fn code(self) -> i32 {
        match self {
            Asked::Terminate => 143,
            Asked::Interrupt => 130,
        }
    }
}

impl Signals {
    /// From now on none of them ends the process by itself.
    pub fn listen() -> io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Terminate,
            _ = self.interrupt.recv() => Asked::Interrupt,
        }
    }

    /// Ends the process when the next one comes, whatever else goes on.
    pub fn end_at_the_next(mut self) {
        tokio::spawn(async move {
            let asked = self.next().await;
            tracing::warn!("{} again: ended at once", asked.name());
            std::process::exit(asked.code());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// Set where this program runs itself to be ended.
    const ENDS: &str = "CAPSTAN_TEST_ENDS_BY_SIGNALS";

    #[test]
    fn a_second_signal_ends_the_process_at_once() {
        if std::env::var_os(ENDS).is_some() {
            return end_slowly();
        }
        let (_, here) = module_path!().split_once("::").expect("a module of the crate");
        let name = format!("{here}::a_second_signal_ends_the_process_at_once");
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let mut call = Command::new(std::env::current_exe().expect("this program"));
            call.args([name.as_str(), "--exact", "--nocapture"]).env(ENDS, "yes");
            let mut child = call.stdout(Stdio::piped()).spawn().expect("it runs");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            for word in ["it listens", "it ends slowly"] {
                let said = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(word)));
                assert!(said.is_some(), "{word}");
                let send = format!("kill -{signal} {}", child.id());
                let sent = Command::new("sh").args(["-c", &send]).status().expect("a shell");
                assert!(sent.success(), "{send}");
            }
            assert_eq!(child.wait().expect("it ends").code(), Some(code), "{signal}");
        }
    }

    /// As a replica does whose effects are not answered.
    fn end_slowly() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut signals = Signals::listen().expect("it listens");
            writeln!(io::stdout(), "it listens").expect("it is read");
            signals.next().await;
            signals.end_at_the_next();
            writeln!(io::stdout(), "it ends slowly").expect("it is read");
            tokio::time::sleep(Duration::from_secs(30)).await;
        });
    }
}
