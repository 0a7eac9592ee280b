//! The warden: one small process above each part, so that no part outlives its test.
//!
//! A test that is killed cannot clean up, and a part would be left behind, writing to whatever
//! cluster gets its port next. So a test never starts a part itself. It starts a warden with a
//! pipe to it; the warden starts the part, says its pid, passes orders on, and ends with it.
//! Three things end the part: the order to end; the end of the pipe, which the kernel closes
//! however the test dies; and, on Linux, the end of the warden, since the kernel then kills the
//! part (`PR_SET_PDEATHSIG`). The workspace forbids unsafe code, so nothing can be run between
//! fork and exec; instead the warden starts itself once more, sets the signal, and becomes the
//! part. The signal is tied to the thread that started the part: here the main thread, which
//! ends last, whereas a test runs on a thread of its own that ends with the test.
//!
//! [`super::process`] is the other end of the pipe.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio, exit};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::trouble::{Result, Trouble};

/// First argument of a warden.
pub(super) const KEEP: &str = "warden-keep";
/// First argument of what becomes the part.
const BECOME: &str = "warden-become";
/// Exit code when the part cannot be started, as in shells.
const NOT_STARTED: i32 = 127;

/// A program whose own `main` serves: it needs no `warden` beside it.
static SERVING: OnceLock<PathBuf> = OnceLock::new();

/// What the other end of the pipe may ask for; a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// SIGTERM: end in good order.
    End,
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
}

impl Order {
    const ALL: [(Order, &str, Signal); 4] = [
        (Order::End, "end", Signal::TERM),
        (Order::Kill, "kill", Signal::KILL),
        (Order::Pause, "pause", Signal::STOP),
        (Order::Resume, "resume", Signal::CONT),
    ];

    /// Its line.
    pub(super) fn word(self) -> &'static str {
        let row = Order::ALL.iter().find(|row| row.0 == self);
        row.expect("the table has all orders").1
    }

    fn signal(word: &str) -> Option<Signal> {
        Order::ALL.iter().find(|row| row.1 == word).map(|row| row.2)
    }
}

/// Serves as a warden and never returns if the program was called as one; else returns, and
/// remembers that this program can be called as one.
///
/// The first line of `main` in every program that starts clusters and is not a test target.
pub fn serve_if_called() {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        Some(KEEP) => keep(&words[1..]),
        Some(BECOME) => become_part(&words[1..]),
        _ => {}
    }
    if let Ok(program) = env::current_exe() {
        let _ = SERVING.set(program);
    }
}

/// The program to call as a warden.
pub(super) fn program() -> Result<PathBuf> {
    if let Some(program) = SERVING.get() {
        return Ok(program.clone());
    }
    let here = env::current_exe().map_err(|e| Trouble::new(format!("this program: {e}")))?;
    // Test targets are in `target/debug/deps`, programs one folder above.
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join("warden"));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let looked = here.parent().unwrap_or(Path::new("")).display();
        Trouble::new(format!(
            "no program `warden` beside {looked}: cargo build -p capstan-tests --bin warden"
        ))
    })
}

/// The warden's life: start the part, say its pid, follow orders, end with it or kill it.
fn keep(call: &[OsString]) -> ! {
    let child = match start(call) {
        Ok(child) => child,
        Err(error) => fail(call, &error),
    };
    let pid = Pid::from_child(&child);
    let _ = writeln!(io::stdout(), "{pid}").and_then(|()| io::stdout().flush());
    let gone = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&gone);
    thread::spawn(move || watch(child, &seen));
    let send = |signal| {
        // Once it is reaped its pid may be somebody else's.
        let gone = gone.lock().expect("nobody panics with it");
        if !*gone {
            let _ = kill_process(pid, signal);
        }
    };
    for line in io::stdin().lock().lines() {
        match line.as_deref().map(Order::signal) {
            Ok(Some(signal)) => send(signal),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    send(Signal::KILL);
    loop {
        thread::park();
    }
}

/// Starts what becomes the part; its output goes where the warden's errors go.
fn start(call: &[OsString]) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg(BECOME)
        .arg(std::process::id().to_string())
        .args(call)
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()
}

/// Waits for the part's end, then ends the warden with the part's code (128 + signal).
fn watch(mut child: Child, gone: &Mutex<bool>) -> ! {
    let pid = Pid::from_child(&child);
    // First without reaping, so that an order never meets a stranger under this pid.
    while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_err() {}
    *gone.lock().expect("nobody panics with it") = true;
    exit(child.wait().map_or(NOT_STARTED, code))
}

fn code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(NOT_STARTED)
}

/// Asks the kernel to be killed with the warden, and becomes the part.
fn become_part(words: &[OsString]) -> ! {
    let (warden, call) = words.split_first().expect("the warden passes its pid");
    #[cfg(target_os = "linux")]
    {
        let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        let parent = rustix::process::getppid().map(|pid| pid.to_string());
        // The warden may have died before the kernel was asked.
        if asked.is_err() || parent.as_deref() != warden.to_str() {
            exit(NOT_STARTED);
        }
    }
    let _ = warden;
    let error = match call.split_first() {
        Some((program, words)) => Command::new(program).args(words).exec(),
        None => io::Error::other("no program named"),
    };
    fail(call, &error)
}

fn fail(call: &[OsString], error: &io::Error) -> ! {
    let program = call.first().map(|program| program.display().to_string()).unwrap_or_default();
    let _ = writeln!(io::stderr(), "{program} cannot be started: {error}");
    exit(NOT_STARTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_a_line_and_a_signal() {
        for (order, word, signal) in Order::ALL {
            assert_eq!(order.word(), word);
            assert_eq!(Order::signal(word), Some(signal));
        }
        assert_eq!(Order::signal("terminate"), None);
    }
}
