//! The shape of the command line, and what its values mean.
//!
//! Every bad value is refused here, with an example of a good one, so that the commands see only
//! values that make sense.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use capstan_core::time::{Span, Time};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use crate::gangs;

/// A second Kubernetes scheduler for batch and GPU work: quota, gangs, price and preemption
/// decided at once, and explained.
#[derive(Clone, Debug, Parser)]
#[command(name = "capstan", version, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(after_help = "Exit codes: 0 an answer, 1 a negative answer, 2 bad usage or input.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Namespace of the workload or pod that is asked about [default: default, or that of the
    /// kubeconfig's context where a cluster is read]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Path of the kubeconfig file, for commands that talk to a cluster
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// More about what is being done, on stderr; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Schedule the pods of a cluster that name Capstan as their scheduler
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Show what would be admitted, placed and preempted, at what cost
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Simulate),
    /// Show why a workload or pod runs or waits, node by node, and what would start it
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Print the CustomResourceDefinitions of capstan.sh
    #[command(after_help = "Example:\n  capstan crds | kubectl apply --server-side -f -")]
    Crds,
    /// Turn the objects of another scheduler into Capstan's
    #[command(after_help = MIGRATE_EXAMPLES)]
    Migrate(Migrate),
    /// Check a configuration file and list everything that is wrong with it
    CheckConfig(CheckConfig),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  source <(capstan completions bash)")]
    Completions(Completions),
}

const RUN_HELP: &str = "Ends with SIGTERM or Ctrl-C; gives its lease back to the next replica.
The same once more ends it at once, and the lease runs out by itself.
Exit codes: 0 asked to end, 1 deposed by another replica, 2 bad usage or configuration,
130 (Ctrl-C) or 143 (SIGTERM) asked twice.

Examples:
  capstan run --config capstan.yaml
  capstan run --kubeconfig ~/.kube/config --listen 127.0.0.1:8080";

const SIMULATE_EXAMPLES: &str = "Examples:
  capstan simulate queues.yaml jobs.yaml
  kubectl get nodes,pods,jobs -A -o yaml | capstan simulate - queues.yaml
  capstan simulate cluster.yaml --until 2h
  capstan simulate cluster.yaml --output html > plan.html";

const EXPLAIN_EXAMPLES: &str = "Without -f the cluster is read and asked what it shows; with \
--server a running
scheduler is, which knows its pauses after failures too.

Examples:
  capstan explain workload/finetune -n language
  capstan explain wl/finetune -n language --server http://localhost:8080
  capstan explain workload/finetune -n language -f cluster.yaml
  capstan explain pod/notebook-0 -f nodes.yaml pods.yaml --output json";

const MIGRATE_EXAMPLES: &str =
    "Prints our objects; what has no equal is said on stderr, and the exit \
code is 1 then.
Nothing is changed in any cluster.

Examples:
  capstan migrate kueue queues.yaml > capstan.yaml
  kubectl get cq,lq,rf,cohorts,topologies,workloadpriorityclasses,admissionchecks -A -o yaml |
    capstan migrate kueue - > capstan.yaml
  kubectl get jobs,jobsets,pods,workloads.kueue.x-k8s.io -A -o yaml |
    capstan migrate kueue queues.yaml -
  capstan migrate kueue kueue-manager-config.yaml --config-out capstan-config.yaml";

/// `migrate`.
#[derive(Clone, Debug, Args)]
pub struct Migrate {
    /// Whose objects they are
    #[arg(value_enum, value_name = "SCHEDULER")]
    pub from: Scheduler,
    /// Manifests, dumps and configurations; - is standard input
    #[arg(required = true, value_name = "FILES", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Where the configuration is written, if one is found
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config_out: Option<PathBuf>,
}

/// Another scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// kueue.x-k8s.io, v1beta1 and v1beta2.
    Kueue,
}

/// `run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Configuration file; it is read again when it changes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Where metrics, health and explanations are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// How logs are written, on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line for each event, for people.
    Text,
    /// A JSON object a line, for tools.
    Json,
}

/// `simulate`.
#[derive(Clone, Debug, Args)]
pub struct Simulate {
    /// Manifests or cluster dumps: YAML with many documents, JSON, Lists; - is standard input
    #[arg(required = true, value_name = "FILES", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    /// How long to go on.
    pub length: Length,
    /// Configuration file of the scheduler
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub output: Format,
    /// Also write Prometheus metrics of the run to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub metrics: Option<PathBuf>,
}

/// How long a simulation goes on.
#[derive(Clone, Copy, Debug, Default, Args)]
#[group(multiple = false)]
pub struct Length {
    /// Run this many rounds, everything being there from the start
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cycles: Option<u32>,
    /// Run rounds until nothing changes, everything being there from the start (the default)
    #[arg(long)]
    until_stable: bool,
    /// Play arrivals and ends until then: a time (2026-08-01T12:00:00Z) or, from the earliest
    /// creationTimestamp, a duration (90s, 1h30m)
    #[arg(long, value_name = "TIME")]
    until: Option<Until>,
}

/// How long a simulation goes on, as one of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This many rounds.
    Cycles(u32),
    /// Until a round changes nothing.
    UntilStable,
    /// The clock is played until then.
    Until(Until),
}

impl Length {
    /// The one that was chosen; clap refuses two.
    pub fn mode(self) -> Mode {
        match (self.cycles, self.until) {
            (Some(rounds), _) => Mode::Cycles(rounds),
            (None, Some(until)) => Mode::Until(until),
            (None, None) => Mode::UntilStable,
        }
    }
}

/// The end of a played clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At this time.
    At(Time),
    /// This long after the earliest creation in the input.
    After(Span),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
            return Ok(Until::At(Time(stamp.as_millisecond())));
        }
        match text.parse::<jiff::SignedDuration>() {
            Ok(length) if !length.is_negative() => {
                let milliseconds = i64::try_from(length.as_millis());
                milliseconds.map(|ms| Until::After(Span(ms))).map_err(|_| "too long".to_owned())
            }
            Ok(_) => Err("a duration from the earliest creation cannot be negative".to_owned()),
            Err(_) => {
                Err("neither a time (2026-08-01T12:00:00Z) nor a duration (90s, 1h30m)".to_owned())
            }
        }
    }
}

/// `explain`.
#[derive(Clone, Debug, Args)]
pub struct Explain {
    /// pod/NAME or workload/NAME (short: po/, wl/)
    #[arg(value_name = "KIND/NAME")]
    pub target: Target,
    /// Manifests or cluster dumps instead of a cluster; - is standard input
    #[arg(short = 'f', long = "filename", num_args = 1.., value_name = "FILES")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Ask a running scheduler at this address
    #[arg(long, value_name = "URL", conflicts_with_all = ["files", "config"])]
    #[arg(value_parser = server)]
    pub server: Option<http::Uri>,
    /// Configuration file of the scheduler
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    pub output: Format,
}

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A pod by name.
    Pod(String),
    /// A workload by name.
    Workload(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        if name.is_empty() || name.contains('/') {
            return Err("write pod/NAME or workload/NAME (namespaces go to -n)".to_owned());
        }
        match kind.to_ascii_lowercase().as_str() {
            "pod" | "pods" | "po" => Ok(Target::Pod(name.to_owned())),
            "workload" | "workloads" | "wl" => Ok(Target::Workload(name.to_owned())),
            // An owner gives its workload its name.
            kind if is_owner(kind) => Ok(Target::Workload(name.to_owned())),
            _ => Err(format!("{kind} cannot be explained, pod/NAME and workload/NAME can")),
        }
    }
}

/// The address of a running scheduler; `localhost:8080` is one too.
fn server(text: &str) -> Result<http::Uri, String> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: http::Uri = text.parse().map_err(|error| format!("{error}"))?;
    let known = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    match known {
        true => Ok(uri),
        false => Err("write http://HOST:PORT".to_owned()),
    }
}

/// Whether workloads bear the names of objects of this kind, as `kubectl` may call it.
fn is_owner(kind: &str) -> bool {
    let names = gangs::kinds::Kind::all().map(|kind| kind.row().name);
    std::iter::once("Job").chain(names).any(|name| {
        let name = name.to_ascii_lowercase();
        kind == name || kind.strip_suffix('s') == Some(&name)
    })
}

/// `check-config`.
#[derive(Clone, Debug, Args)]
pub struct CheckConfig {
    /// The configuration file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `completions`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For tools: one object, whose fields only grow.
    Json,
    /// A page that needs nothing besides itself.
    Html,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    fn simulate(line: &str) -> Simulate {
        match parse(line).expect("it parses").command {
            Command::Simulate(args) => args,
            other => panic!("simulate was asked for, not {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn one_of_three_lengths() {
        let mode = |line: &str| simulate(line).length.mode();
        assert_eq!(mode("capstan simulate a.yaml"), Mode::UntilStable);
        assert_eq!(mode("capstan simulate a.yaml --until-stable"), Mode::UntilStable);
        assert_eq!(mode("capstan simulate a.yaml --cycles 1"), Mode::Cycles(1));
        let until = |text: &str| mode(&format!("capstan simulate a.yaml --until {text}"));
        assert_eq!(until("1h30m"), Mode::Until(Until::After(Span::minutes(90))));
        assert_eq!(until("600s"), Mode::Until(Until::After(Span::seconds(600))));
        let at = Until::At(Time(1_785_578_400_000));
        assert_eq!(until("2026-08-01T10:00:00Z"), Mode::Until(at));
        assert_eq!(until("2026-08-01T12:00:00+02:00"), Mode::Until(at));
    }

    #[test]
    fn an_owner_is_explained_as_the_workload_of_its_name() {
        for target in ["job/a", "Jobs/a", "jobset/a", "pytorchjobs/a", "wl/a", "workload/a"] {
            assert_eq!(target.parse(), Ok(Target::Workload("a".to_owned())), "{target}");
        }
        for target in ["node/a", "jobss/a", "s/a", "/a"] {
            assert!(target.parse::<Target>().is_err(), "{target}");
        }
    }

    #[test]
    fn a_server_needs_no_scheme() {
        for (text, whole) in [
            ("localhost:8080", "http://localhost:8080/"),
            ("127.0.0.1", "http://127.0.0.1/"),
            ("https://a.b:1/x", "https://a.b:1/x"),
        ] {
            assert_eq!(server(text).map(|uri| uri.to_string()), Ok(whole.to_owned()));
        }
        for text in ["", "ftp://a", "http://", "a b"] {
            assert!(server(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn bad_usage_exits_with_2() {
        let lines = [
            "capstan simulate",
            "capstan simulate a.yaml --cycles 0",
            "capstan simulate a.yaml --cycles 1 --until-stable",
            "capstan simulate a.yaml --until soon",
            "capstan simulate a.yaml --until=-5s",
            "capstan simulate a.yaml --output yaml",
            "capstan explain p -f a.yaml",
            "capstan explain pod/p -f a.yaml --server http://localhost",
            "capstan run --listen here",
            "capstan run --log-format html",
            "capstan explain node/n -f a.yaml",
            "capstan explain pod/ -f a.yaml",
            "capstan explain pod/ns/p -f a.yaml",
            "capstan check-config",
            "capstan completions tcsh",
            "capstan frobnicate",
            "capstan",
        ];
        for line in lines {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        assert_eq!(parse("capstan --help").expect_err("help is an error to clap").exit_code(), 0);
    }

    #[test]
    fn explain_takes_many_files_and_a_namespace_anywhere() {
        let lines = [
            "capstan explain wl/train -n vision -f a.yaml b.yaml",
            "capstan -n vision explain workload/train -f a.yaml -f b.yaml",
        ];
        for line in lines {
            let cli = parse(line).expect(line);
            assert_eq!(cli.namespace.as_deref(), Some("vision"));
            let Command::Explain(args) = cli.command else { panic!("{line}") };
            assert_eq!(args.target, Target::Workload("train".to_owned()));
            assert_eq!(args.files, [PathBuf::from("a.yaml"), PathBuf::from("b.yaml")]);
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        let mut command = Cli::command();
        let names: Vec<String> =
            command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        for name in names {
            let sub = command.find_subcommand_mut(&name).expect("it was listed");
            for help in [sub.render_help().to_string(), sub.render_long_help().to_string()] {
                assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
            }
        }
    }
}
