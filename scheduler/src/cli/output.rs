//! Writing: answers to one stream, everything else to the other.
//!
//! Texts may carry ANSI codes; who opens the streams decides whether they arrive (see
//! [`super::run_styled`]). A reader that went away (`| head`) is no error.

use std::fmt::Display;
use std::io::{self, Write};

use crate::render::table::Tone;

/// Where a command writes.
pub struct Console<'a> {
    /// Answers.
    pub out: &'a mut dyn Write,
    /// Everything else.
    pub err: &'a mut dyn Write,
}

impl Console<'_> {
    /// Writes an answer.
    pub fn answer(&mut self, text: &str) -> io::Result<()> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Writes `error: ...`, a line for each, and in the end what was not done.
    pub fn errors<E: Display>(&mut self, errors: &[E], undone: &str) {
        for error in errors {
            self.line(&format!("{} {error}", Tone::Lost.paint("error:")));
        }
        let count = match errors.len() {
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        };
        self.line(&format!("{count}, {undone}"));
    }

    /// Writes `warning: ...`.
    pub fn warning(&mut self, text: &str) {
        self.line(&format!("{} {text}", Tone::Waits.paint("warning:")));
    }

    /// Writes `note: ...`.
    pub fn note(&mut self, text: &str) {
        self.line(&format!("note: {text}"));
    }

    /// Nobody is left to tell when this stream is closed.
    fn line(&mut self, text: &str) {
        let text: String = text.chars().map(|c| if c == '\n' { ' ' } else { c }).collect();
        drop(writeln!(self.err, "{text}"));
    }
}
