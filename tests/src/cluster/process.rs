//! A process of a test, kept by a warden: started, watched, paused, ended.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::trouble::{Result, Trouble};
use super::warden::{self, Order};

/// How often something is looked at again while somebody waits for it.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How much of a log is quoted.
const QUOTED_LINES: usize = 15;

/// A process that ends when this is dropped, and when the test that has it dies.
#[derive(Debug)]
pub struct Process {
    name: String,
    warden: Child,
    orders: Option<ChildStdin>,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts what `call` describes, by program, words, variables and folder. All its output is
    /// appended to `log`; it reads nothing. A program that is not there ends at once with 127,
    /// as in shells, and the log says why.
    pub fn start(name: &str, call: &Command, log: &Path) -> Result<Process> {
        let out = OpenOptions::new().create(true).append(true).open(log);
        let out: File = out.map_err(Trouble::at(log))?;
        let mut command = Command::new(warden::program()?);
        command.arg(warden::KEEP).arg(call.get_program()).args(call.get_args());
        for (key, value) in call.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if let Some(folder) = call.get_current_dir() {
            command.current_dir(folder);
        }
        // A group of its own: Ctrl-C is for the test, which then ends its processes in order.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(out);
        let mut warden =
            command.spawn().map_err(|e| Trouble::new(format!("a warden for {name}: {e}")))?;
        let orders = warden.stdin.take();
        let mut said = String::new();
        let answers = warden.stdout.take().expect("its output is a pipe");
        BufReader::new(answers).read_line(&mut said).map_err(Trouble::at(log))?;
        let pid = said.trim().parse();
        let mut process =
            Process { name: name.to_owned(), warden, orders, pid: 0, log: log.to_owned() };
        match pid {
            Ok(pid) => process.pid = pid,
            Err(_) => return Err(process.trouble("was not started")),
        }
        Ok(process)
    }

    /// Its pid: the process's own, not its warden's.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The pid of its warden.
    pub fn warden_pid(&self) -> u32 {
        self.warden.id()
    }

    /// Where its output is.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        matches!(self.warden.try_wait(), Ok(None))
    }

    /// Sends a signal; a process that has ended takes no notice.
    pub fn order(&mut self, order: Order) {
        if let Some(pipe) = &mut self.orders {
            let _ = writeln!(pipe, "{}", order.word());
        }
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        self.let_go();
        let _ = self.warden.wait();
    }

    /// Asks it to end (SIGTERM), waits, and kills it if it does not. Its exit code, or 128 and
    /// the signal that ended it.
    pub fn end(&mut self, within: Duration) -> Result<i32> {
        self.order(Order::End);
        if let Some(code) = self.wait(within)? {
            return Ok(code);
        }
        self.kill();
        Err(self.trouble(&format!("did not end within {} s and was killed", within.as_secs())))
    }

    /// Waits for its end; none if it still runs then.
    pub fn wait(&mut self, within: Duration) -> Result<Option<i32>> {
        let start = Instant::now();
        loop {
            let ended = self.warden.try_wait();
            match ended.map_err(|e| self.trouble(&e.to_string()))? {
                Some(status) => return Ok(Some(status.code().unwrap_or(-1))),
                None if start.elapsed() > within => return Ok(None),
                None => thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Closes the pipe, at which the warden kills the process; does not wait.
    pub(super) fn let_go(&mut self) {
        self.orders = None;
    }

    /// Trouble with this process, with the end of its log.
    pub fn trouble(&self, says: &str) -> Trouble {
        let log = self.log.display();
        Trouble::new(format!("{} {says}; end of {log}:\n{}", self.name, self.last_lines()))
    }

    fn last_lines(&self) -> String {
        last_lines(&self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end of a log.
pub(super) fn last_lines(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
}
