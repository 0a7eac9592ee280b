//! Commands that talk to a cluster: `run`, and `explain` without files.
//!
//! `explain` needs no running scheduler: it reads the cluster as the scheduler does, lets an
//! engine of its own decide on it, and carries nothing out. A running one is asked on demand.

use std::time::Duration;

use capstan_core::Engine;
use capstan_core::model::input::Input;
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
use crate::live::{Kind, Live};
use crate::render::state::Negative as _;
use crate::render::{html, json, text};
use crate::{run, serve, watch};

/// How long a cluster may take to be read.
const READ_MAX: Duration = Duration::from_secs(60);
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
            explain_read(args, namespace, &config, live, console)
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
        false => Err(shown(&said.trim_end())),
    }
}

/// Reads a cluster once, and which namespace its kubeconfig names.
async fn read(config: &Config, target: &client::Target) -> Result<(Live, String), String> {
    let clients = Clients::connect(target, &config.file.client_connection).await?;
    let kinds: Vec<Kind> = Kind::all(config).into_iter().collect();
    let (to, mut from) = mpsc::channel(1_024);
    let _watches = watch::start(&clients.watches, &kinds, &to);
    let (mut live, end) = (Live::new(config), Instant::now() + READ_MAX);
    while !live.synced() {
        match timeout_at(end, from.recv()).await {
            Ok(Some(seen)) => live.take(seen),
            Ok(None) | Err(_) => {
                let names: Vec<&str> = live.waiting_for().iter().map(|kind| kind.name()).collect();
                let seconds = READ_MAX.as_secs();
                return Err(format!("not read within {seconds} s: {}", names.join(", ")));
            }
        }
    }
    Ok((live, clients.namespace))
}

fn explain_read(
    args: &Explain,
    namespace: &str,
    config: &Config,
    mut live: Live,
    console: &mut Console<'_>,
) -> Exit {
    let now = Clock::start().now();
    let drained = live.drain(now);
    for notice in &drained.notices {
        console.warning(&notice.to_string());
    }
    let mut inputs = vec![Input::Policy(config.policy.clone().into())];
    inputs.extend(drained.inputs);
    let mut engine = Engine::new();
    match &args.target {
        Target::Pod(name) => {
            engine.observe(now, inputs);
            let Some(explanation) = engine.explain_pod(namespace, name) else {
                return refuse(console, &[missing("pod", namespace, name, PLACE)], UNDONE);
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
            let Some(explanation) = engine.explain_workload(now, namespace, name) else {
                return refuse(console, &[missing("workload", namespace, name, PLACE)], UNDONE);
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
