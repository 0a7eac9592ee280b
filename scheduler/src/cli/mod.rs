//! The command line: what the user typed, what it does, what the process answers with.
//!
//! [`args`] is the shape of the commands, [`commands`] carries them out (`live`
//! those that need a cluster), [`output`] writes answers
//! to one stream and complaints to the other. Exit codes: 0 an answer, 1 a negative answer, 2 bad
//! usage or input.

pub mod args;
pub mod commands;
mod live;
mod log;
pub mod output;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use output::Console;

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It answered.
    Answered = 0,
    /// It answered no: nothing fits.
    Negative = 1,
    /// Usage or input was bad; stderr says why.
    BadInput = 2,
}

/// Runs the command line with these arguments, the program's name first, and returns the exit
/// code. Plain text, whatever the streams are.
pub fn run<A: Into<OsString>>(
    arguments: impl IntoIterator<Item = A>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> i32 {
    let (mut answer, mut rest) = (Vec::new(), Vec::new());
    let code = run_styled(arguments, &mut answer, &mut rest);
    anstream::adapter::strip_bytes(&answer).for_each(|plain| drop(out.write_all(plain)));
    anstream::adapter::strip_bytes(&rest).for_each(|plain| drop(err.write_all(plain)));
    code.into()
}

/// Like [`run`], with ANSI codes in the texts.
pub fn run_styled<A: Into<OsString>>(
    arguments: impl IntoIterator<Item = A>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let program = program_name(arguments.first());
    let mut console = Console { out, err };
    let command = Cli::command().bin_name(program);
    let parsed = command.try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &mut console),
    };
    log::to_stderr(&cli);
    let exit = match &cli.command {
        Command::Run(args) => live::run(args, &cli, &mut console),
        Command::Simulate(args) => commands::simulate(args, &mut console),
        Command::Explain(args) if args.files.is_empty() => live::explain(args, &cli, &mut console),
        Command::Explain(args) => commands::explain(args, cli.namespace.as_deref(), &mut console),
        Command::Crds => commands::crds(&mut console),
        Command::Migrate(args) => commands::migrate(args, &mut console),
        Command::CheckConfig(args) => commands::check_config(args, &mut console),
        Command::Completions(args) => commands::completions(args, program, &mut console),
    };
    exit as u8
}

/// Help and version are answers (0); bad usage is not (2).
fn usage(error: &clap::Error, console: &mut Console<'_>) -> u8 {
    let text = error.render().ansi().to_string();
    match error.use_stderr() {
        false => drop(console.answer(&text)),
        true => drop(console.err.write_all(text.as_bytes())),
    }
    u8::try_from(error.exit_code()).unwrap_or(Exit::BadInput as u8)
}

/// Installed as `kubectl-capstan` it is a kubectl plugin, and says so in its help.
fn program_name(first: Option<&OsString>) -> &'static str {
    let stem = first.and_then(|first| Path::new(first).file_stem());
    match stem.and_then(|stem| stem.to_str()) {
        Some("kubectl-capstan" | "kubectl_capstan") => "kubectl capstan",
        _ => "capstan",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_goes_by_its_kubectl_name() {
        let name = |first: &str| program_name(Some(&OsString::from(first)));
        assert_eq!(name("/usr/local/bin/kubectl-capstan"), "kubectl capstan");
        assert_eq!(name("./kubectl_capstan.exe"), "kubectl capstan");
        assert_eq!(name("target/debug/capstan"), "capstan");
        assert_eq!(program_name(None), "capstan");
    }
}
