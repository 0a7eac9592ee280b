//! A cluster to look at: one command starts a real control plane with fake GPU nodes and Capstan,
//! plays the founding exercise with commentary, and stays until Ctrl-C.
//!
//! The same program is the warden of its processes and, called by the name `capstan`, Capstan
//! itself: so one build is enough.

use std::io::{self, Write};
use std::process::ExitCode;

use capstan_tests::cluster::warden;
use capstan_tests::playground;

fn main() -> ExitCode {
    warden::serve_if_called();
    if let Some(code) = playground::capstan_if_called() {
        return code;
    }
    match playground::play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            let _ = writeln!(io::stderr(), "error: {trouble}");
            ExitCode::FAILURE
        }
    }
}
