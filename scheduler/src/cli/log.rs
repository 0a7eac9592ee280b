//! Logs, on stderr.

use tracing_subscriber::EnvFilter;

use super::args::{Cli, Command, LogFormat};

/// Libraries that say at `info` what is nobody's business, and warn at each try of a request of
/// what we say once.
const QUIET: &str = "kube_client=off,kube_runtime=error,hyper_util=warn,tower=warn";

/// Warnings, and what a scheduler does; more with `-v`; `RUST_LOG` overrides both.
pub fn to_stderr(cli: &Cli) {
    let (runs, format) = match &cli.command {
        Command::Run(args) => (1, args.log_format),
        _ => (0, LogFormat::Text),
    };
    let filter = match cli.verbose.saturating_add(runs) {
        // What cannot be read is said with the answer.
        0 => format!("warn,{QUIET},capstan::watch=off"),
        1 => format!("info,{QUIET}"),
        2 => format!("debug,{QUIET}"),
        3 => "debug".to_owned(),
        _ => "trace".to_owned(),
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let plain = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A library user (a test) may have set a logger already; that one stays.
    drop(match format {
        LogFormat::Text => plain.with_ansi(false).try_init(),
        LogFormat::Json => plain.json().flatten_event(true).try_init(),
    });
}
