//! The warden as a program of its own: what it does is said in the testkit's `cluster::warden`.

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    capstan_tests::cluster::warden::serve_if_called();
    let says = "the testkit starts this program to keep a process of a test; alone it does nothing";
    let _ = writeln!(io::stderr(), "{says}");
    ExitCode::from(2)
}
