//! Benchmarks of the engine: one JSON line a case, one for each bound, and a verdict.
//!
//! Every case builds a seeded cluster, feeds it untimed, and times the steps that decide; see
//! `measure.rs` for what the clock covers. What fails (exit 1) are slopes and ratios within one
//! run and numbers that do not depend on the machine (`bounds.rs`); absolute figures are printed
//! beside their targets. Run it on an idle machine:
//! `cargo run --release -p capstan-bench [-- --only TEXT] [--repeats N]`. With `--real` it measures
//! Capstan, a raw binder and kube-scheduler on a real control plane instead (`real`).

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

mod bounds;
mod cases;
mod clock;
mod flows;
mod lifetimes;
mod line;
mod measure;
mod memory;
mod real;

/// The allocator of the shipped binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What to run.
struct Arguments {
    /// Only cases whose name has this in it.
    only: String,
    /// Runs of each case.
    repeats: usize,
    /// On a real control plane.
    real: bool,
}

/// Repeats of a case: the fastest of five is steady even beside noisy neighbours.
const REPEATS: usize = 5;

fn main() -> ExitCode {
    capstan_tests::cluster::warden::serve_if_called();
    if let Some(code) = real::serve_if_called() {
        return code;
    }
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            let _ = writeln!(std::io::stderr(), "{wrong}");
            return ExitCode::from(2);
        }
    };
    let mut out = std::io::stdout().lock();
    if arguments.real {
        return match real::run(&arguments.only, arguments.repeats, &mut out) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(trouble) => {
                let _ = writeln!(std::io::stderr(), "error: {trouble}");
                ExitCode::from(1)
            }
        };
    }
    match run(&arguments, &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // Nobody reads any more.
        Err(_) => ExitCode::from(1),
    }
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { only: String::new(), repeats: REPEATS, real: false };
    while let Some(flag) = given.next() {
        if flag == "--real" {
            arguments.real = true;
            continue;
        }
        let value = given.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--only" => arguments.only = value?,
            "--repeats" => {
                let number = value?.parse().ok().filter(|n| *n > 0);
                arguments.repeats = number.ok_or("--repeats needs a number above zero")?;
            }
            _ => return Err(format!("unknown flag {flag}; there are --real, --only, --repeats")),
        }
    }
    Ok(arguments)
}

/// Runs what was asked for and says whether every bound holds.
fn run(arguments: &Arguments, out: &mut dyn Write) -> std::io::Result<bool> {
    let mut lines: Vec<Value> = Vec::new();
    // Memory goes first: it must not start from what other cases left behind.
    if "memory".contains(&arguments.only) {
        let line = memory::line();
        writeln!(out, "{line}")?;
        lines.push(line);
    }
    let mut results = Vec::new();
    let mut chosen = cases::all();
    chosen.retain(|case| case.name().contains(&arguments.only));
    for family in chosen.chunk_by(|a, b| a.family == b.family) {
        for result in measure::measure(family, arguments.repeats) {
            let line = line::of(&result);
            writeln!(out, "{line}")?;
            lines.push(line);
            results.push(result);
        }
        out.flush()?;
    }
    let checks = bounds::check(&results);
    for check in &checks {
        writeln!(out, "{}", check.line())?;
    }
    let missed = lines.iter().filter(|line| line["met"] == json!(false));
    let missed: Vec<&Value> = missed.map(|line| &line["case"]).collect();
    let failed = checks.iter().filter(|check| !check.holds());
    let failed: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
    let summary = json!({
        "summary": true,
        "cases": lines.len(),
        "bounds": checks.len(),
        "slopes": bounds::slopes(&checks),
        "failed": failed,
        "targets_missed": missed,
    });
    writeln!(out, "{summary}")?;
    Ok(failed.is_empty())
}
