//! The `capstan` program: everything is in the library, so that tests drive it in process.

use std::process::ExitCode;

/// Large inputs are many small objects: this allocator is faster there and gives memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // anstream strips ANSI codes where the stream is no terminal or NO_COLOR is set.
    let (mut out, mut err) = (anstream::stdout().lock(), anstream::stderr());
    let code = capstan::cli::run_styled(std::env::args_os(), &mut out, &mut err);
    ExitCode::from(code)
}
