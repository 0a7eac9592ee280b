//! Writing: answers to stdout, everything else to stderr, colours only where somebody sees them.
//!
//! `anstream` strips ANSI codes where the stream is no terminal or `NO_COLOR` is set. A reader
//! that went away (`| head`) is no error.

use std::fmt::Display;
use std::io::{self, Write};

use crate::render::table::Tone;

/// Writes an answer that may carry ANSI codes.
pub fn answer(text: &str) -> io::Result<()> {
    quietly(anstream::stdout().lock().write_all(text.as_bytes()))
}

/// Writes an answer for tools, byte for byte.
pub fn document(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    quietly(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes `error: ...` to stderr, a line for each, and in the end what was not done.
pub fn errors<E: Display>(errors: &[E], undone: &str) {
    for error in errors {
        line(&format!("{} {error}", Tone::Lost.paint("error:")));
    }
    let count = match errors.len() {
        1 => "1 error".to_owned(),
        many => format!("{many} errors"),
    };
    line(&format!("{count}, {undone}"));
}

/// Writes `warning: ...` to stderr.
pub fn warning(text: &str) {
    line(&format!("{} {text}", Tone::Waits.paint("warning:")));
}

/// Writes `note: ...` to stderr.
pub fn note(text: &str) {
    line(&format!("note: {text}"));
}

/// Whether stderr shows colours.
pub fn stderr_is_coloured() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Nobody is left to tell when stderr is closed.
fn line(text: &str) {
    let text: String = text.chars().map(|c| if c == '\n' { ' ' } else { c }).collect();
    drop(writeln!(anstream::stderr().lock(), "{text}"));
}

fn quietly(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
