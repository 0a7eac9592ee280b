//! The `capstan` program: everything is in the library, so that tests drive it in process.

use std::process::ExitCode;

/// Large inputs are many small objects: this allocator is faster there and gives memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    capstan::cli::run(std::env::args_os())
}
