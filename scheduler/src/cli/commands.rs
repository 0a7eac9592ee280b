//! What each command does, from its arguments to its exit code.
//!
//! The only file that ties the parts together: reading files, the virtual cluster, the engine's
//! explanations, printing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use capstan_core::explain::view::{QueueView, WorkloadExplanation};
use capstan_core::model::input::Text;
use capstan_core::plan::{Action, Unmet};
use capstan_core::{Engine, Input};
use clap::CommandFactory;

use super::Exit;
use super::args::{
    self, CheckConfig, Cli, Completions, Explain, Format, Migrate, Scheduler, Simulate, Target,
};
use super::output::Console;
use crate::api;
use crate::config::{self, Config};
use crate::gangs;
use crate::metrics::{Look, Metrics, Switches};
use crate::migrate;
use crate::prices;
use crate::progress::with_progress;
use crate::read::{self, Objects};
use crate::render::names::thousands;
use crate::render::result::{Happening, Moment, lost_view};
use crate::render::simulation::left_out;
use crate::render::state::Negative as _;
use crate::render::{Explained, SimulationResult, html, json, text};
use crate::world;

/// `simulate`: 0 whenever it ran.
pub fn simulate(args: &Simulate, console: &mut Console<'_>) -> Exit {
    let begun = Instant::now();
    let (config, objects) = match read_all(&args.files, args.config.as_deref()) {
        Ok(read) => read,
        Err(errors) => return refuse(console, &errors, "nothing simulated"),
    };
    let mode = args.length.mode();
    let (mut result, metrics) = play(&config, objects, mode);
    result.elapsed = begun.elapsed();
    result.files = names(&args.files);
    result.keep_lost();
    if let Some(path) = &args.metrics
        && let Err(error) = std::fs::write(path, metrics)
    {
        let errors = [format!("{}: {error}", path.display())];
        return refuse(console, &errors, "metrics not written");
    }
    for warning in &result.warnings {
        console.warning(warning);
    }
    if let Some(left_out) = left_out(&result) {
        console.note(&left_out);
    }
    let printers = [text::simulation, json::simulation, html::simulation];
    print(console, args.output, &result, printers)
}

/// `explain`: 1 when a pod fits nowhere or a workload waits.
pub fn explain(args: &Explain, namespace: Option<&str>, console: &mut Console<'_>) -> Exit {
    let (config, mut objects) = match read_all(&args.files, args.config.as_deref()) {
        Ok(read) => read,
        Err(errors) => return refuse(console, &errors, "nothing explained"),
    };
    let namespace = namespace.unwrap_or("default").to_owned();
    let files = names(&args.files);
    let mut warnings = warnings_of(&config, &objects);
    for warning in &warnings {
        console.warning(warning);
    }
    match &args.target {
        Target::Pod(name) => {
            let now = objects.latest.unwrap_or_default();
            let (mut engine, events) = look(&config, objects);
            let Some(explanation) = engine.explain_pod(&namespace, name) else {
                let errors = [missing("pod", &namespace, name, "these files")];
                return refuse(console, &errors, "nothing explained");
            };
            let events = explanation.workload.as_ref().map(|workload| events.about(workload));
            for warning in events.iter().flat_map(unmet) {
                console.warning(&warning);
                warnings.push(warning);
            }
            let no = explanation.negative();
            let explained = Explained { explanation, now, files, warnings };
            let printers = [text::pod, json::pod, html::pod];
            let printed = print(console, args.output, &explained, printers);
            if no { negative(printed) } else { printed }
        }
        Target::Workload(name) => {
            let theirs = std::mem::take(&mut objects.theirs);
            let mut run = settle(&config, objects, world::Mode::UntilStable);
            let events = run.world.events().about(&format!("{namespace}/{name}"));
            for warning in unmet(&events).chain(unfinished(&run)) {
                console.warning(&warning);
                warnings.push(warning);
            }
            let engine = &mut run.engine;
            let mut names = gangs::names_of(name);
            let found = names.find_map(|name| engine.explain_workload(run.now, &namespace, &name));
            let Some(explanation) = found.or_else(|| lost(&run, &namespace, name)) else {
                let named = (Text::from(namespace.as_str()), Text::from(name.as_str()));
                let other = theirs.get(&named);
                let errors = [match other {
                    Some(other) => other.told(&namespace, name, &config.scheduler_name),
                    None => missing("workload", &namespace, name, "these files"),
                }];
                return refuse(console, &errors, "nothing explained");
            };
            let no = explanation.negative();
            let explained = Explained { explanation, now: run.now, files, warnings };
            let printers = [text::workload, json::workload, html::workload];
            let printed = print(console, args.output, &explained, printers);
            if no { negative(printed) } else { printed }
        }
    }
}

/// `migrate`: 1 when something has no equal.
pub fn migrate(args: &Migrate, console: &mut Console<'_>) -> Exit {
    let migrated = match args.from {
        Scheduler::Kueue => migrate::kueue(&args.files),
    };
    let migrated = match migrated {
        Ok(migrated) => migrated,
        Err(errors) => return refuse(console, &errors, "nothing migrated"),
    };
    let configuration = migrated.configuration_file();
    if migrated.objects.is_empty() && configuration.is_none() && migrated.lost.is_empty() {
        return refuse(console, &["no object of Kueue in these files"], "nothing migrated");
    }
    for lost in &migrated.lost {
        console.warning(&lost.to_string());
    }
    match (&configuration, &args.config_out) {
        (Some(text), Some(path)) => {
            if let Err(error) = std::fs::write(path, text) {
                let errors = [format!("{}: {error}", path.display())];
                return refuse(console, &errors, "configuration not written");
            }
        }
        (Some(_), None) => console.note("a configuration was found; --config-out FILE writes it"),
        (None, _) => {}
    }
    for note in migrated.notes() {
        console.note(&note);
    }
    let written = console.answer(&migrated.manifests());
    let printed = answered(console, written);
    if migrated.lost.is_empty() { printed } else { negative(printed) }
}

/// `check-config`: 0 when nothing is wrong with the file.
pub fn check_config(args: &CheckConfig, console: &mut Console<'_>) -> Exit {
    match config::read_config(&args.file) {
        Ok(config) => {
            for warning in &config.warnings {
                console.warning(&warning.to_string());
            }
            let written = console.answer(&format!("{}: valid\n", args.file.display()));
            answered(console, written)
        }
        Err(errors) => refuse(console, &errors, "the configuration is not usable"),
    }
}

/// `crds`: one document for each kind.
pub fn crds(console: &mut Console<'_>) -> Exit {
    let documents: Vec<String> = api::crds::all().iter().map(api::crds::yaml).collect();
    let written = console.answer(&documents.join("---\n"));
    answered(console, written)
}

/// `completions`.
pub fn completions(args: &Completions, program: &str, console: &mut Console<'_>) -> Exit {
    let mut script = Vec::new();
    // A shell completes the file that it starts, which for the plugin is named with a dash.
    let name = program.replace(' ', "-");
    clap_complete::generate(args.shell, &mut Cli::command(), name, &mut script);
    let written = console.answer(&String::from_utf8_lossy(&script));
    answered(console, written)
}

/// Configuration and objects; every error of both at once.
fn read_all(files: &[PathBuf], config: Option<&Path>) -> Result<(Config, Objects), Vec<String>> {
    let shown = |errors: Vec<read::error::ReadError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let config = config.map_or_else(|| Ok(Config::default()), config::read_config);
    let fallback = Config::default();
    let objects = read::read_files(files, config.as_ref().unwrap_or(&fallback)).map_err(shown);
    match (config.map_err(shown), objects) {
        (Ok(config), Ok(objects)) => {
            tracing::info!(files = files.len(), facts = objects.inputs.len(), "read");
            Ok((config, objects))
        }
        (Err(mut errors), Err(more)) => {
            errors.extend(more);
            Err(errors)
        }
        (Err(errors), _) | (_, Err(errors)) => Err(errors),
    }
}

/// What reading warned of, ready to print.
fn warnings_of(config: &Config, objects: &Objects) -> Vec<String> {
    config.warnings.iter().chain(&objects.warnings).map(ToString::to_string).collect()
}

/// An engine that has been told everything, the pods that Jobs would make included, and has
/// decided nothing; with its events.
fn look(config: &Config, mut objects: Objects) -> (Engine, world::Events) {
    let now = objects.latest.unwrap_or_default();
    let world = world::World::still(objects.to_be_played(), config.policy.clone());
    let policy = capstan_core::policy::Policy { rounds_max: 0, ..config.policy.clone() };
    let mut inputs = world.facts();
    inputs.push(Input::Policy(Arc::new(policy)));
    let (mut engine, mut events) = (Engine::new(), world::Events::default());
    for effect in engine.step(now, inputs).effects {
        if let Action::Event { about, reason, message } = effect.action {
            events.add(about, reason, message);
        }
    }
    (engine, events)
}

/// Plays the objects on a virtual cluster.
fn settle(config: &Config, mut objects: Objects, mode: world::Mode) -> world::Run {
    let (policy, start) = (config.policy.clone(), start_of(&objects));
    let inputs = objects.to_be_played();
    with_progress(move |progress| world::run(inputs, policy, start, mode, progress))
}

fn start_of(objects: &Objects) -> world::StartTimes {
    world::StartTimes {
        latest: objects.latest.unwrap_or_default(),
        earliest: objects.earliest.unwrap_or_default(),
    }
}

/// Simulates, and gathers what is printed of it.
fn play(config: &Config, mut objects: Objects, mode: args::Mode) -> (SimulationResult, String) {
    let mut result = SimulationResult::default();
    for input in &objects.inputs {
        if let Input::Node(node) = input
            && let Some(model) = prices::gpu_model(&node.labels)
        {
            result.gpu_models.insert(node.name.clone(), model);
        }
    }
    let count = |(kind, count): (String, usize)| (kind, u32::try_from(count).unwrap_or(u32::MAX));
    result.ignored_kinds = objects.ignored.clone().into_iter().map(count).collect();
    result.warnings = warnings_of(config, &objects);
    (result.ours, result.scheduler) = (objects.ours, config.scheduler_name.to_string());
    let relative = matches!(mode, args::Mode::Until(args::Until::After(_)));
    result.timeless = relative && objects.earliest.is_none() && objects.latest.is_none();
    let scenario = world::Scenario {
        policy: config.policy.clone(),
        start: start_of(&objects),
        inputs: objects.to_be_played(),
        mode: world_mode(mode),
    };
    let switches = Switches::of(&config.file.metrics);
    let (run, metrics) = with_progress(move |progress| {
        let metrics = Metrics::new();
        metrics.configure(switches);
        let mut watch = |report: &_, took| metrics.step(report, took);
        let mut run = world::run_watched(scenario, progress, &mut watch);
        if run.settled {
            run.engine.renew_reasons();
        }
        let (queues, local_queues) = (queues_at_end(&run), run.engine.local_queues());
        let census = run.engine.census(metrics.shows_asked());
        let (queues, local_queues) = (&queues[..], &local_queues[..]);
        metrics.look(&Look { queues, local_queues, census: &census });
        (run, metrics.encode())
    });
    fill(&mut result, &run, mode);
    (result, metrics)
}

fn fill(result: &mut SimulationResult, run: &world::Run, mode: args::Mode) {
    result.warnings.extend(unmet(run.world.events()).chain(unfinished(run)));
    result.rounds = run.rounds;
    result.settled = run.settled;
    result.now = run.now;
    result.until = matches!(mode, args::Mode::Until(_)).then_some(run.now);
    result.workloads = run.engine.workloads();
    result.queues = queues_at_end(run);
    result.nodes = run.engine.nodes();
    result.admitted = run.admitted.iter().map(ToString::to_string).collect();
    result.preempted = run.preempted.clone();
    result.timeline = run.timeline.iter().map(moment).collect();
}

/// Queues as they are at the time that was asked for, which may be after the last step: periods of
/// budgets end though nothing happens.
fn queues_at_end(run: &world::Run) -> Vec<QueueView> {
    let end = run.deadline.filter(|_| run.settled).unwrap_or(run.now);
    let mut queues = run.engine.queues();
    queues.iter_mut().for_each(|queue| queue.advance(end));
    queues
}

/// What is known of a workload that was preempted for good: the last time, if it was more often.
fn lost(run: &world::Run, namespace: &str, name: &str) -> Option<WorkloadExplanation> {
    let victim = format!("{namespace}/{name}");
    let last = run.preempted.iter().rfind(|preemption| *preemption.victim == *victim)?;
    Some(WorkloadExplanation {
        workload: lost_view(last),
        ahead: None,
        position: None,
        forecast: None,
        beyond: None,
        in_the_way: Vec::new(),
        remedies: Vec::new(),
        nodes_of: None,
        nodes: Vec::new(),
        nodes_as: None,
    })
}

/// Wishes that came to nothing although the workloads went on. What could not be read was said of
/// the object that carries it.
fn unmet(events: &world::Events) -> impl Iterator<Item = String> + '_ {
    let read = Unmet::InvalidAnnotation.as_str();
    events.0.iter().filter(move |((reason, _), _)| **reason != *read).map(
        |((_, message), about)| {
            let first = about.first().expect("an event is about something");
            match about.len() - 1 {
                0 => format!("workload {first}: {message}"),
                1 => format!("workload {first}: {message} (and 1 more workload)"),
                more => format!("workload {first}: {message} (and {more} more workloads)"),
            }
        },
    )
}

/// A warning where the bound of rounds cut a run short: what is shown is no answer yet.
fn unfinished(run: &world::Run) -> Option<String> {
    (run.ending == world::Ending::RoundsSpent).then(|| {
        let rounds = thousands(i64::from(run.rounds));
        tracing::info!(rounds = run.rounds, "cut short");
        if let Some(stop) = &run.circle {
            let (victim, preemptor) = (&stop.victim, &stop.preemptor);
            let times = world::STOPS_AT_ONCE_MAX;
            return format!(
                "stopped after {rounds} rounds: {victim} made room for {preemptor} more than \
                 {times} times at one moment; the preemption policies of their queues let work \
                 displace each other without end, and this plan is not final"
            );
        }
        format!(
            "stopped after {rounds} rounds while things still changed: this plan is not final \
             (work without a queue takes a round each; two workloads may also displace each other)"
        )
    })
}

fn moment(moment: &world::Moment) -> Moment {
    let what = match &moment.what {
        world::What::Arrived => Happening::Arrived,
        world::What::Admitted => Happening::Admitted,
        world::What::Preempted { by } => Happening::Preempted(by.to_string()),
        world::What::Stopped { why } => Happening::Stopped(why.clone()),
        world::What::Resumed => Happening::Resumed,
        world::What::Finished => Happening::Finished,
    };
    Moment { at: moment.at, workload: moment.workload.to_string(), what }
}

fn world_mode(mode: args::Mode) -> world::Mode {
    match mode {
        args::Mode::Cycles(rounds) => world::Mode::Cycles(rounds),
        args::Mode::UntilStable => world::Mode::UntilStable,
        args::Mode::Until(args::Until::At(at)) => world::Mode::Until(world::Deadline::At(at)),
        args::Mode::Until(args::Until::After(span)) => {
            world::Mode::Until(world::Deadline::After(span))
        }
    }
}

/// Prints with the printer of the format: text, JSON, HTML.
pub fn print<T>(
    console: &mut Console<'_>,
    format: Format,
    answer: &T,
    [text, json, html]: [fn(&T) -> String; 3],
) -> Exit {
    let printed = match format {
        Format::Text => text(answer),
        Format::Json => json(answer),
        Format::Html => html(answer),
    };
    let written = console.answer(&printed);
    answered(console, written)
}

/// Exit code once an answer was written.
pub fn answered(console: &mut Console<'_>, result: std::io::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Answered,
        Err(error) => {
            let errors = [format!("standard output: {error}")];
            refuse(console, &errors, "the answer is incomplete")
        }
    }
}

/// A negative answer, unless printing it failed.
pub fn negative(printed: Exit) -> Exit {
    if printed == Exit::Answered { Exit::Negative } else { printed }
}

/// Every error, and what was not done.
pub fn refuse<E: std::fmt::Display>(console: &mut Console<'_>, errors: &[E], undone: &str) -> Exit {
    console.errors(errors, undone);
    Exit::BadInput
}

/// Nothing of that name.
pub fn missing(kind: &str, namespace: &str, name: &str, place: &str) -> String {
    format!("no {kind} {name} in namespace {namespace} of {place} (-n names another)")
}

fn names(files: &[PathBuf]) -> Vec<String> {
    files.iter().map(|file| file.display().to_string()).collect()
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
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console { out: &mut out, err: &mut err };
        assert_eq!(check_config(&args, &mut console), Exit::BadInput);
    }
}
