//! Capstan as a program, for tests that start, pause and kill it. It is the shipped program but
//! for its allocator; the test packages have no other way to name a program of another package.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = capstan::cli::run(
        std::env::args_os(),
        &mut std::io::stdout().lock(),
        &mut std::io::stderr(),
    );
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
