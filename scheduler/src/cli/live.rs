//! Commands that talk to a cluster: `run`, and `explain` without files.
//!
//! `explain` needs no running scheduler: it reads the cluster as the scheduler does, lets an
//! engine of its own decide on it, and carries nothing out. A running one is asked on demand.

use std::time::Duration;

use capstan_core::Engine;
use capstan_core::explain::quantity::counted;
use capstan_core::model::input::{Input, Text};
use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::Exit;
use super::args::{Cli, Explain, Format, Run, Target};
use super::commands::{answered, missing, negative, print, refuse};
use super::output::Console;
use crate::client::{self, Clients};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::live::{Kind, Live, Seen};
use crate::read::error::Notice;
use crate::render::state::Negative as _;
use crate::render::{html, json, text};
use crate::{gangs, run, serve, watch};

/// Kinds that one line names.
const NAMED_MAX: usize = 8;
/// How long a cluster may take to be read.
const READ_MAX: Duration = Duration::from_secs(60);
/// How long it may take to answer at all.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Without these nothing can be said. What others say is left out where it may not be read.
const NEEDED: [Kind; 2] = [Kind::Node, Kind::Pod];
/// How to get an answer without the rights to read a cluster.
const ASK_INSTEAD: &str = "explain reads the whole cluster; without the right to, ask the running \
                           scheduler: kubectl -n capstan-system port-forward deploy/capstan 8080, \
                           then explain --server http://localhost:8080";
/// What was not done when explaining failed.
const UNDONE: &str = "nothing explained";

/// `run`: until it is asked to end.
pub fn run(args: &Run, cli: &Cli, console: &mut Console<'_>) -> Exit {
    let options =
        run::Options { target: target(cli), config: args.config.clone(), listen: args.listen };
    match run::run(&options) {
        Ok(()) => Exit::Answered,
        Err(run::Failure::Start(errors)) => refuse(console, &errors, "not started"),
        Err(run::Failure::Lost(why)) => {
            tracing::error!("{why}");
            Exit::Negative
        }
    }
}

fn target(cli: &Cli) -> client::Target {
    client::Target { kubeconfig: cli.kubeconfig.clone(), context: cli.context.clone() }
}

/// `explain` of a cluster: 1 when a pod fits nowhere or a workload waits.
pub fn explain(args: &Explain, cli: &Cli, console: &mut Console<'_>) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(console, &[error], UNDONE),
    };
    if let Some(server) = &args.server {
        let namespace = cli.namespace.as_deref().unwrap_or("default");
        return match runtime.block_on(ask(server, args, namespace)) {
            Ok((said, no)) => {
                let written = console.answer(&said);
                let printed = answered(console, written);
                if no { negative(printed) } else { printed }
            }
            Err(error) => refuse(console, &[error], UNDONE),
        };
    }
    let config = match args.config.as_deref().map(config::read_config).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(errors) => return refuse(console, &errors, UNDONE),
    };
    match runtime.block_on(read(&config, &target(cli))) {
        Ok((live, own)) => {
            let namespace = cli.namespace.as_deref().unwrap_or(&own);
            let all = cli.verbose > 0;
            explain_read((args, namespace, all), &config, live, console)
        }
        Err(error) => refuse(console, &[error], UNDONE),
    }
}

/// Asks a running scheduler: what it says, and whether that is a no.
async fn ask(
    server: &http::Uri,
    args: &Explain,
    namespace: &str,
) -> Result<(String, bool), String> {
    let (kind, name) = match &args.target {
        Target::Pod(name) => ("pod", name),
        Target::Workload(name) => ("workload", name),
    };
    let output = match args.output {
        Format::Text => "text",
        Format::Json => "json",
        Format::Html => return Err("a running scheduler answers as text or json".to_owned()),
    };
    let path = format!("/debug/explain/{kind}/{namespace}/{name}?output={output}");
    let shown = |error: &dyn std::fmt::Display| format!("{server}: {error}");
    let request = http::Request::get(path).body(Body::empty()).map_err(|e| shown(&e))?;
    let client = Client::try_from(kube::Config::new(server.clone())).map_err(|e| shown(&e))?;
    let reply = client.send(request).await.map_err(|error| shown(&client::explain(&error)))?;
    let (status, no) = (reply.status(), serve::is_no(reply.headers()));
    let said = reply.into_body().collect_bytes().await.map_err(|e| shown(&e))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match status.is_success() {
        true => Ok((said, no)),
        false if said.trim().is_empty() => Err(shown(&status)),
        false => Err(shown(&said.trim_end())),
    }
}

/// A cluster as it was read once.
struct Cluster {
    live: Live,
    /// Kinds that may not be read.
    forbidden: Vec<Kind>,
}

/// Reads a cluster once, and which namespace its kubeconfig names.
async fn read(config: &Config, target: &client::Target) -> Result<(Cluster, String), String> {
    let clients = Clients::connect(target, &config.file.client_connection).await?;
    reach(&clients).await?;
    let kinds: Vec<Kind> = Kind::all(config).into_iter().collect();
    let (to, mut from) = mpsc::channel(1_024);
    let _watches = watch::start(&clients.watches, &kinds, &to);
    let (mut live, end) = (Live::new(config), Instant::now() + READ_MAX);
    let mut forbidden = Vec::new();
    while !live.synced() {
        match timeout_at(end, from.recv()).await {
            Ok(Some(Seen::Forbidden(kind, says))) if NEEDED.contains(&kind) => {
                return Err(format!("{says}; {ASK_INSTEAD}"));
            }
            Ok(Some(Seen::Forbidden(kind, _))) => {
                forbidden.push(kind);
                live.take(Seen::Absent(kind));
            }
            Ok(Some(seen)) => live.take(seen),
            Ok(None) | Err(_) => {
                let (names, seconds) = (list(&live.waiting_for()), READ_MAX.as_secs());
                return Err(format!("not read within {seconds} s: {names}"));
            }
        }
    }
    Ok((Cluster { live, forbidden }, clients.namespace))
}

/// Whether the cluster answers us at all: who asks must not wait for what will not come.
async fn reach(clients: &Clients) -> Result<(), String> {
    let answer = timeout_at(Instant::now() + CONNECT_MAX, clients.watches.apiserver_version());
    let says = match answer.await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => client::explain(&error),
        Err(_) => format!("no answer within {} s", CONNECT_MAX.as_secs()),
    };
    Err(format!("{}: {says}", clients.server))
}

/// Kinds by name, the first few of many.
fn list(kinds: &[Kind]) -> String {
    let names: Vec<String> = kinds.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    match kinds.len().saturating_sub(NAMED_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn explain_read(
    (args, namespace, all): (&Explain, &str, bool),
    config: &Config,
    Cluster { mut live, forbidden }: Cluster,
    console: &mut Console<'_>,
) -> Exit {
    let now = Clock::start().now();
    let mut drained = live.drain(now);
    while live.owes() {
        drained.inputs.extend(live.drain(now).inputs);
    }
    if !forbidden.is_empty() {
        console.warning(&format!("may not be read, and is left out: {}", list(&forbidden)));
    }
    let (Target::Pod(name) | Target::Workload(name)) = &args.target;
    let (told, others): (Vec<&Notice>, Vec<&Notice>) =
        drained.notices.iter().partition(|notice| all || notice.is_about(namespace, name));
    for notice in told {
        console.warning(&notice.to_string());
    }
    if !others.is_empty() {
        let others = counted(others.len() as i64, "warning");
        console.warning(&format!("{others} about other objects (-v shows all)"));
    }
    let mut inputs = vec![Input::Policy(config.policy.clone().into())];
    inputs.extend(drained.inputs);
    let mut engine = Engine::new();
    match &args.target {
        Target::Pod(name) => {
            engine.observe(now, inputs);
            let Some(explanation) = engine.explain_pod(namespace, name) else {
                let none = || unseen("pod", namespace, name, &forbidden);
                let error = live.says_whose(true, namespace, name).unwrap_or_else(none);
                return refuse(console, &[error], UNDONE);
            };
            let no = explanation.negative();
            let explained = run::explained(explanation, now);
            let printers = [text::pod, json::pod, html::pod];
            let printed = print(console, args.output, &explained, printers);
            if no { negative(printed) } else { printed }
        }
        Target::Workload(name) => {
            // What is decided here is carried out by nobody.
            engine.step(now, inputs);
            let find = |name: Text| engine.explain_workload(now, namespace, &name);
            let Some(explanation) = gangs::names_of(name).find_map(find) else {
                let none = || unseen("workload", namespace, name, &forbidden);
                let error = live.says_whose(false, namespace, name).unwrap_or_else(none);
                return refuse(console, &[error], UNDONE);
            };
            let no = explanation.negative();
            let explained = run::explained(explanation, now);
            let printers = [text::workload, json::workload, html::workload];
            let printed = print(console, args.output, &explained, printers);
            if no { negative(printed) } else { printed }
        }
    }
}

/// Where something is missing.
const PLACE: &str = "this cluster";

/// What is said of something that is not there, or that may not be read.
fn unseen(kind: &str, namespace: &str, name: &str, forbidden: &[Kind]) -> String {
    let missing = missing(kind, namespace, name, PLACE);
    match forbidden.is_empty() {
        true => missing,
        false => format!("{missing}, unless it is of what may not be read; {ASK_INSTEAD}"),
    }
}
