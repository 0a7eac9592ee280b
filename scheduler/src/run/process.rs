//! One replica, from its first connection to its exit code.
//!
//! Decides who starts when, and in which order all of it ends. A deposed leader is gone at once:
//! nothing is handed over, the API has everything. One that is asked to end stops deciding, lets
//! what is under way finish, and gives the lease back last; asked again it is gone at once.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::ENGINE_STACK;
use super::barrier;
use super::desk::{Desk, Tools};
use super::follow::Watches;
use super::home::{Home, POD_NAMESPACE};
use super::message::{Asker, Message, gather};
use super::panics;
use super::reload::ConfigFile;
use super::signals::Signals;
use crate::act::{Executor, Limits, Means};
use crate::client::{Clients, Target};
use crate::clock::Clock;
use crate::config::{Config, file};
use crate::lease::{Elector, Leadership, LeaseEvent, Settings};
use crate::live::{Kind, Seen};
use crate::metrics::{Metrics, Switches};
use crate::publish::{self, Publisher, Reporter};
use crate::serve::{self, Health, Served};

/// How long effects that are under way may take when we are asked to end: one that was sent is
/// answered by then. A pod has 30 s for all of it, and the lease is to be given back in those.
const DRAIN_MAX: Duration = Duration::from_secs(14);
/// How long what people look at may take then: nobody decides until it is over. The next leader
/// writes what a status still lacks; only events are lost.
const SHOW_MAX: Duration = Duration::from_secs(2);
/// How long requests that are served then may take.
const SERVED_MAX: Duration = Duration::from_secs(1);
/// Without an election nobody waits for a lease to run out, and writes of a replica that was killed
/// may still arrive for a while (0.4 s were seen): they are waited for before anything is decided.
const SETTLE: Duration = Duration::from_secs(2);
/// Events of watches on their way to the thread that gathers them.
const SEEN_MAX: usize = 1_024;

/// What the command line says.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub target: Target,
    /// The configuration file; absent: defaults.
    pub config: Option<PathBuf>,
    /// Where HTTP is served.
    pub listen: SocketAddr,
}

/// Why a replica did not end in good order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It could not start: each error.
    Start(Vec<String>),
    /// It led, and may not any more, or cannot go on.
    Lost(String),
}

/// Everything that a replica consists of.
struct Replica {
    clients: Clients,
    config: Config,
    file: Option<ConfigFile>,
    inbox: Sender<Message>,
    publisher: Publisher,
    executor: Arc<Executor>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    leadership: Leadership,
    elector: Option<Elector>,
    /// Where the lease is.
    home: Home,
    identity: String,
    synced: watch::Receiver<bool>,
    /// Ready when the engine's thread is gone.
    broken: oneshot::Receiver<()>,
}

/// Runs until it is asked to end.
pub fn run(options: &Options) -> Result<(), Failure> {
    panics::end_the_process();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Start(vec![error.to_string()]))?;
    let ended = runtime.block_on(async {
        let listener = listen(options.listen).await?;
        let replica = Replica::new(options).await?;
        replica.live(listener).await
    });
    // Whatever still hangs must not keep a deposed leader alive.
    runtime.shutdown_background();
    ended
}

/// Starts the engine's thread; what comes back is ready when that is gone.
fn begin(desk: Desk, messages: mpsc::Receiver<Message>) -> Result<oneshot::Receiver<()>, Failure> {
    let (gone, broken) = oneshot::channel();
    let thread = std::thread::Builder::new().name("engine".to_owned());
    let thread = thread.stack_size(ENGINE_STACK).spawn(move || {
        // Dropped however the thread ends.
        let _gone: oneshot::Sender<()> = gone;
        desk.run(&messages);
    });
    thread.map_err(|error| Failure::Start(vec![format!("the engine's thread: {error}")]))?;
    Ok(broken)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::Start(vec![format!("--listen {address}: {error}")]))
}

impl Replica {
    async fn new(options: &Options) -> Result<Replica, Failure> {
        let (file, config) = match options.config.clone().map(ConfigFile::open).transpose() {
            Ok(Some((file, config))) => (Some(file), config),
            Ok(None) => (None, Config::default()),
            Err(errors) => return Err(Failure::Start(errors)),
        };
        warn(&config);
        let connected = Clients::connect(&options.target, &config.file.client_connection).await;
        let clients = connected.map_err(|error| Failure::Start(vec![error]))?;
        let identity = identity();
        let pod = std::env::var(POD_NAMESPACE).ok();
        let given = config.file.leader_election.resource_namespace.as_deref();
        let home = Home::of(given, pod.as_deref(), (&clients.namespace, clients.in_pod));
        let (elector, leadership) = match election(&config, &home, &identity) {
            Some(settings) => {
                let (elector, leadership) = Elector::new(clients.lease.clone(), settings);
                (Some(elector), leadership)
            }
            None => (None, Leadership::alone()),
        };
        let leads = leadership.clone();
        clients.fence.guard(move || leads.holds());
        let clock = Clock::start();
        let (inbox, messages) = mpsc::channel();
        let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
        metrics.configure(Switches::of(&config.file.metrics));
        let (answers, counted) = (inbox.clone(), metrics.clone());
        let means = Means {
            writes: clients.writes.clone(),
            rate: clients.rate.clone(),
            leadership: leadership.clone(),
            answers: Arc::new(move |answer| {
                counted.answered(answer.action, answer.word());
                // A thread that is gone needs no answers.
                drop(answers.send(Message::Answer(answer)));
            }),
            clock,
        };
        let executor = Arc::new(Executor::new(means, Limits::default()));
        let publisher =
            Publisher::new(publish::Limits::default(), clock, config.scheduler_name.clone());
        let (synced, when_synced) = watch::channel(false);
        let tools = Tools {
            clock,
            executor: executor.clone(),
            publisher: publisher.clone(),
            metrics: metrics.clone(),
            health: health.clone(),
            synced,
        };
        let broken = begin(Desk::new(&config, tools), messages)?;
        Ok(Replica {
            clients,
            config,
            file,
            inbox,
            publisher,
            executor,
            metrics,
            health,
            leadership,
            elector,
            home,
            identity,
            synced: when_synced,
            broken,
        })
    }

    /// Starts everything, and ends it in order.
    async fn live(mut self, listener: TcpListener) -> Result<(), Failure> {
        let signals = Signals::listen();
        let mut signals = signals.map_err(|error| Failure::Start(vec![error.to_string()]))?;
        let address = listener.local_addr().map(|it| it.to_string()).unwrap_or_default();
        tracing::info!(identity = self.identity, address, "capstan runs");
        let (stop_serving, served) = self.serve(listener);
        self.watch();
        tokio::spawn(publish::run(
            self.publisher.clone(),
            (self.clients.low.clone(), self.clients.events.clone()),
            self.leadership.clone(),
            self.metrics.clone(),
            Reporter {
                controller: self.config.scheduler_name.to_string(),
                instance: self.identity.clone(),
            },
        ));
        tokio::spawn(publish::follow(
            self.publisher.clone(),
            self.clients.watches.clone(),
            self.leadership.clone(),
        ));
        let mut elector = self.elector.take();
        let lead = Lead { client: self.clients.watches.clone(), inbox: self.inbox.clone() };
        let candidate = elector.as_mut().map(|elector| (elector, self.home.clone()));
        let campaign = campaign(candidate, self.synced.clone(), lead);
        let mut campaign: Pin<Box<dyn Future<Output = String> + Send + '_>> = Box::pin(campaign);
        tokio::select! {
            asked = signals.next() => tracing::info!("{}: ending", asked.name()),
            why = &mut campaign => return Err(Failure::Lost(why)),
            _ = &mut self.broken => return Err(Failure::Lost("the engine ended".to_owned())),
        }
        signals.end_at_the_next();
        drop(self.inbox.send(Message::Stop));
        let left = tokio::select! {
            left = self.executor.drain(DRAIN_MAX) => left,
            why = &mut campaign => return Err(Failure::Lost(why)),
        };
        if left > 0 {
            tracing::warn!(left, "effects were not answered in time");
        }
        // What was given up may still come about.
        let idle = if left > 0 { Duration::ZERO } else { self.executor.idle() };
        self.show_the_rest().await;
        drop(campaign);
        if let Some(elector) = elector
            && let Err(error) = elector.release(idle).await
        {
            tracing::warn!(%error, "the lease was not given back; it runs out by itself");
        }
        drop(stop_serving);
        drop(tokio::time::timeout(SERVED_MAX, served).await);
        drop(self.inbox.send(Message::End));
        tracing::info!("ended");
        Ok(())
    }

    /// Watches all kinds, and those of another configuration when there is one.
    fn watch(&mut self) {
        let (seen, from) = tokio::sync::mpsc::channel::<Seen>(SEEN_MAX);
        tokio::spawn(gather(from, self.inbox.clone()));
        let mut watches = Watches::new(self.clients.watches.clone(), seen);
        watches.follow(&Kind::all(&self.config));
        let Some(file) = self.file.take() else {
            // The watches live as long as somebody holds them.
            tokio::spawn(async move {
                let _watches = watches;
                std::future::pending::<()>().await;
            });
            return;
        };
        let (inbox, mut before) = (self.inbox.clone(), self.config.file.clone());
        let name = self.config.scheduler_name.clone();
        let metrics = self.metrics.clone();
        tokio::spawn(file.follow(move |config| {
            metrics.reloaded(config.is_some());
            let Some(mut config) = config else { return };
            tracing::info!("another configuration holds from now on");
            // The lease is that of this name: under another, two might lead at once.
            if config.scheduler_name != name {
                tracing::warn!("schedulerName has changed: that holds after a restart");
                config.scheduler_name = name.clone();
            }
            warn(&config);
            warn_of_restart(&before, &config.file);
            before = config.file.clone();
            let kinds = Kind::all(&config);
            // First what is to be read, then what is read.
            drop(inbox.send(Message::Config(Box::new(config))));
            watches.follow(&kinds);
        }));
    }

    fn serve(&self, listener: TcpListener) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
        let served = Served {
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            leadership: self.leadership.clone(),
            ask: Arc::new(Asker::new(self.inbox.clone())),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = serve::serve(listener, served, async move { drop(stopped.await) });
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "HTTP is not served any more");
            }
        });
        (stop, task)
    }

    /// Waits a little for what people look at; the last answers may still be on their way to it.
    async fn show_the_rest(&self) {
        let end = Instant::now() + SHOW_MAX;
        let (tell, told) = oneshot::channel::<()>();
        drop(self.inbox.send(Message::Settled(tell)));
        drop(timeout_at(end, told).await);
        let left = || end.saturating_duration_since(Instant::now());
        // What is put off for longer than that (new words on pods that wait) is no reason to wait.
        let owes = || !left().is_zero() && self.publisher.owes_within(left()) > 0;
        while self.leadership.holds() && owes() {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Campaigns once everything was read, for the lease at home; returns why we lead no more.
async fn campaign(
    candidate: Option<(&mut Elector, Home)>,
    mut synced: watch::Receiver<bool>,
    lead: Lead,
) -> String {
    if synced.wait_for(|synced| *synced).await.is_err() {
        return std::future::pending().await;
    }
    let Some((elector, home)) = candidate else {
        sleep(SETTLE).await;
        lead.begin(Duration::ZERO).await;
        return std::future::pending().await;
    };
    let namespace = home.find(&lead.client).await;
    tracing::info!(namespace, name = elector.lease(), "campaigns for the lease");
    elector.look_in(&namespace);
    let mut ended = "the election ended".to_owned();
    let told = |event| match event {
        LeaseEvent::Waiting { holder } => tracing::info!(holder, "another replica leads"),
        LeaseEvent::Leading { idle } => {
            tracing::info!("this replica leads");
            let lead = lead.clone();
            tokio::spawn(async move { lead.begin(idle).await });
        }
        LeaseEvent::Failed(error) => tracing::warn!(error, "the lease"),
        LeaseEvent::Deposed(why) => ended = why,
    };
    elector.run(told).await;
    format!("deposed: {ended}")
}

/// What it takes to tell the engine's thread that we lead.
#[derive(Clone)]
struct Lead {
    client: Client,
    inbox: Sender<Message>,
}

impl Lead {
    /// Says so, and what has to be seen before anything is decided, after a leader that had changed
    /// nothing for so long.
    async fn begin(&self, idle: Duration) {
        let (marks, idle) = barrier::asked(&self.client, idle).await;
        drop(self.inbox.send(Message::Lead(marks, idle)));
    }
}

/// The election that the configuration describes, unless it is switched off.
fn election(config: &Config, home: &Home, identity: &str) -> Option<Settings> {
    let given = &config.file.leader_election;
    if given.leader_elect == Some(false) {
        return None;
    }
    let span = |given: Option<crate::api::GoDuration>, default: u64| {
        let given = given.and_then(|it| u64::try_from(it.0.0).ok());
        given.map_or(Duration::from_secs(default), Duration::from_millis)
    };
    let own = |given: &Option<String>, own: &str| given.clone().unwrap_or_else(|| own.to_owned());
    Some(Settings {
        namespace: home.namespace().to_owned(),
        name: own(&given.resource_name, &config.scheduler_name),
        identity: identity.to_owned(),
        lease_duration: span(given.lease_duration, 15),
        renew_deadline: span(given.renew_deadline, 10),
        retry_period: span(given.retry_period, 2),
    })
}

/// A name that no other process has: the machine's (a pod's is its own), and a random number.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = std::env::var("HOSTNAME").ok().or(host).unwrap_or_default();
    let host = if host.trim().is_empty() { "capstan" } else { host.trim() };
    // Seeded by the system anew for every process.
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    format!("{host}_{:016x}", random.finish())
}

fn warn(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// Parts of the file that are read at the start only.
fn warn_of_restart(before: &file::CapstanConfiguration, after: &file::CapstanConfiguration) {
    let parts = [
        ("leaderElection", before.leader_election != after.leader_election),
        ("clientConnection", before.client_connection != after.client_connection),
    ];
    for (part, _) in parts.iter().filter(|(_, differs)| *differs) {
        tracing::warn!("{part} has changed: that holds after a restart");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::RELEASE_MAX;

    /// Whatever hangs: what is killed gives nothing back.
    #[test]
    fn the_lease_is_given_back_well_within_the_grace_period_of_a_pod() {
        let manifests = [
            include_str!("../../../manifests/base/deployment.yaml"),
            include_str!("../../../manifests/chart/templates/deployment.yaml"),
        ];
        for manifest in manifests {
            let key = "terminationGracePeriodSeconds: ";
            let given = manifest.lines().find_map(|line| line.trim().strip_prefix(key));
            let given: u64 = given.expect("a grace period").parse().expect("seconds");
            let given = Duration::from_secs(given);
            let released = DRAIN_MAX + SHOW_MAX + RELEASE_MAX;
            assert!(released + Duration::from_secs(5) <= given, "{released:?} of {given:?}");
            assert!(released + SERVED_MAX < given);
        }
    }
}
