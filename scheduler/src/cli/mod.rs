//! The command line: what the user typed, what it does, what the process answers with.
//!
//! [`args`] is the shape of the commands, [`commands`] carries them out, [`output`] writes answers
//! to stdout and complaints to stderr. Exit codes: 0 an answer, 1 a negative answer, 2 bad usage
//! or input.

pub mod args;
pub mod commands;
pub mod output;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It answered.
    Answered,
    /// It answered no: nothing fits.
    Negative,
    /// Usage or input was bad; stderr says why.
    BadInput,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Answered => 0,
            Exit::Negative => 1,
            Exit::BadInput => 2,
        })
    }
}

/// Runs the command line with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = program_name(arguments.first());
    let command = Cli::command().bin_name(program);
    let parsed = command.try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Prints to stdout for --help and --version (0), to stderr for bad usage (2).
        Err(error) => error.exit(),
    };
    log_to_stderr(cli.verbose);
    match &cli.command {
        Command::Simulate(args) => commands::simulate(args),
        Command::Explain(args) => commands::explain(args, cli.namespace.as_deref()),
        Command::CheckConfig(args) => commands::check_config(args),
        Command::Completions(args) => commands::completions(args, program),
    }
    .into()
}

/// Installed as `kubectl-capstan` it is a kubectl plugin, and says so in its help.
fn program_name(first: Option<&OsString>) -> &'static str {
    let stem = first.and_then(|first| Path::new(first).file_stem());
    match stem.and_then(|stem| stem.to_str()) {
        Some("kubectl-capstan" | "kubectl_capstan") => "kubectl capstan",
        _ => "capstan",
    }
}

/// Logs go to stderr: warnings, more with `-v`; `RUST_LOG` overrides both.
fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A library user (a test) may have set a logger already; that one stays.
    drop(subscriber.with_ansi(output::stderr_is_coloured()).try_init());
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
