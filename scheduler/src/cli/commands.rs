//! What each command does, from its arguments to its exit code.
//!
//! The only file that ties the parts together: reading files, the virtual cluster, the engine's
//! explanations, printing. What it expects of the first three stands in [`parts`].

use std::path::PathBuf;
use std::time::Instant;

use clap::CommandFactory;

use super::args::{CheckConfig, Cli, Completions, Explain, Format, Mode, Simulate, Target};
use super::{Exit, output};
use crate::render::simulation::notices;
use crate::render::state::is_pending;
use crate::render::{Explained, html, json, text};

/// `simulate`: 0 whenever it ran.
pub fn simulate(args: &Simulate) -> Exit {
    let begun = Instant::now();
    let cluster = match parts::read(&args.files, args.config.as_deref()) {
        Ok(cluster) => cluster,
        Err(errors) => return refuse(&errors, "nothing simulated"),
    };
    let (mut result, metrics) = parts::simulate(cluster, args.length.mode());
    result.elapsed = begun.elapsed();
    result.files = names(&args.files);
    result.keep_lost();
    if let Some(path) = &args.metrics
        && let Err(error) = std::fs::write(path, metrics)
    {
        return refuse(&[format!("{}: {error}", path.display())], "metrics not written");
    }
    for notice in notices(&result) {
        output::note(&notice);
    }
    print(args.output, &result, [text::simulation, json::simulation, html::simulation])
}

/// `explain`: 1 when a pod fits nowhere or a workload waits.
pub fn explain(args: &Explain, namespace: Option<&str>) -> Exit {
    let cluster = match parts::read(&args.files, args.config.as_deref()) {
        Ok(cluster) => cluster,
        Err(errors) => return refuse(&errors, "nothing explained"),
    };
    let mut settled = parts::settle(cluster);
    let namespace = namespace.unwrap_or("default");
    let (files, now) = (names(&args.files), settled.now);
    match &args.target {
        Target::Pod(name) => {
            let Some(explanation) = settled.engine.explain_pod(namespace, name) else {
                return refuse(&[missing("pod", namespace, name)], "nothing explained");
            };
            let fits = explanation.nodes.iter().any(|verdict| verdict.refusals.is_empty());
            let explained = Explained { explanation, now, files };
            let printed = print(args.output, &explained, [text::pod, json::pod, html::pod]);
            if fits { printed } else { negative(printed) }
        }
        Target::Workload(name) => {
            let found = settled.engine.explain_workload(now, namespace, name);
            let Some(explanation) = found else {
                return refuse(&[missing("workload", namespace, name)], "nothing explained");
            };
            let waits = is_pending(&explanation.workload);
            let explained = Explained { explanation, now, files };
            let printers = [text::workload, json::workload, html::workload];
            let printed = print(args.output, &explained, printers);
            if waits { negative(printed) } else { printed }
        }
    }
}

/// `check-config`: 0 when nothing is wrong with the file.
pub fn check_config(args: &CheckConfig) -> Exit {
    match parts::check_config(&args.file) {
        Ok(()) => written(output::answer(&format!("{}: valid\n", args.file.display()))),
        Err(errors) => refuse(&errors, "the configuration is not usable"),
    }
}

/// `completions`.
pub fn completions(args: &Completions, program: &str) -> Exit {
    let mut script = Vec::new();
    // A shell completes the file that it starts, which for the plugin is named with a dash.
    let name = program.replace(' ', "-");
    clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    written(output::document(&String::from_utf8_lossy(&script)))
}

/// Prints with the printer of the format: text, JSON, HTML.
fn print<T>(format: Format, answer: &T, printers: [fn(&T) -> String; 3]) -> Exit {
    let [text, json, html] = printers;
    written(match format {
        Format::Text => output::answer(&text(answer)),
        Format::Json => output::document(&json(answer)),
        Format::Html => output::document(&html(answer)),
    })
}

fn written(result: std::io::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Answered,
        Err(error) => refuse(&[format!("standard output: {error}")], "the answer is incomplete"),
    }
}

/// A negative answer, unless printing it failed.
fn negative(printed: Exit) -> Exit {
    if printed == Exit::Answered { Exit::Negative } else { printed }
}

fn refuse(errors: &[String], undone: &str) -> Exit {
    output::errors(errors, undone);
    Exit::BadInput
}

fn missing(kind: &str, namespace: &str, name: &str) -> String {
    format!("no {kind} {name} in namespace {namespace} of these files (-n names another)")
}

fn names(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| file.display().to_string()).collect()
}

/// What the commands expect of the parts that others write. These stand-ins let the command line
/// be built and tested before them; each says what replaces it.
mod parts {
    use std::path::{Path, PathBuf};

    use capstan_core::Engine;
    use capstan_core::time::Time;

    use super::Mode;
    use crate::render::SimulationResult;

    /// What was read: facts, validated policy, start times, GPU models by node, ignored kinds and
    /// warnings.
    #[derive(Debug, Default)]
    pub struct Cluster {}

    /// The engine after the last round, for explanations.
    #[derive(Debug)]
    pub struct Settled {
        /// Knows the cluster.
        pub engine: Engine,
        /// The virtual clock.
        pub now: Time,
    }

    /// Expects `crate::read::read_files(files, &Configuration)` and the configuration's own
    /// reader: every error of both at once, one line each (`file, document 3, Job x: path: ...`).
    pub fn read(_files: &[PathBuf], _config: Option<&Path>) -> Result<Cluster, Vec<String>> {
        Err(vec!["this build cannot read files yet".to_owned()])
    }

    /// Expects the virtual cluster's driver: the result without `elapsed` and `files`, and the
    /// metrics as Prometheus text. Progress on stderr after two seconds is the driver's.
    pub fn simulate(_cluster: Cluster, mode: Mode) -> (SimulationResult, String) {
        let rounds = if let Mode::Cycles(rounds) = mode { rounds } else { 0 };
        (SimulationResult { rounds, ..SimulationResult::default() }, String::new())
    }

    /// Expects the same driver in mode `UntilStable`: `explain` speaks of the state that
    /// `simulate` ends in, so that its suggested command explains what it showed.
    pub fn settle(_cluster: Cluster) -> Settled {
        Settled { engine: Engine::new(), now: Time::default() }
    }

    /// Expects the configuration's reader.
    pub fn check_config(_file: &Path) -> Result<(), Vec<String>> {
        Err(vec!["this build cannot read configurations yet".to_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_made_for_both_names() {
        use clap_complete::Shell;
        let generated = |name: &str| {
            let mut script = Vec::new();
            clap_complete::generate(Shell::Bash, &mut Cli::command(), name, &mut script);
            String::from_utf8(script).expect("scripts are text")
        };
        assert!(generated("capstan").contains("_capstan()"));
        assert!(generated("kubectl-capstan").contains("kubectl-capstan"));
    }

    #[test]
    fn unreadable_input_exits_with_2() {
        let args = CheckConfig { file: PathBuf::from("/nonexistent/capstan.yaml") };
        assert_eq!(check_config(&args), Exit::BadInput);
    }
}
