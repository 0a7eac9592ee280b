//! The cluster of the playground: started, looked at, and ended when somebody asks.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::screen::Screen;
use super::{CAPSTAN, End, PLUGIN};
use crate::cluster::{Capstan, ControlPlane, Options, Part, Result, Trouble, capstan_config};

/// How often the cluster is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(120);

/// Everything that runs, and where it is printed.
pub struct Stage {
    /// Where it is printed.
    pub screen: Screen,
    stop: Stop,
    capstan: Capstan,
    cluster: ControlPlane,
}

impl Stage {
    /// Starts all of it, and says how to look on.
    pub fn set() -> std::result::Result<Stage, End> {
        let (stop, screen) = (Stop::listen()?, Screen::new());
        screen.line(
            "Capstan's playground: Kubernetes' own control plane, fake GPU nodes, Capstan.",
        )?;
        screen.line("Ctrl-C ends all of it and leaves nothing behind.")?;
        let cluster = ControlPlane::start(Options::full())?;
        cluster.install_crds()?;
        stop.check()?;
        let capstan = start_capstan(&cluster)?;
        let mut stage = Stage { screen, stop, capstan, cluster };
        stage.invite()?;
        let leads = stage.capstan.wait_until(&stage.cluster, "leading");
        stage.stop.check()?;
        leads?;
        Ok(stage)
    }

    /// How to look on from elsewhere.
    fn invite(&self) -> std::result::Result<(), End> {
        let bin = bin(&self.cluster);
        self.screen.heading("To look on from another terminal")?;
        self.screen.line("")?;
        let kubeconfig = self.cluster.kubeconfig();
        self.screen.line(&format!("export KUBECONFIG={}", kubeconfig.display()))?;
        self.screen.line(&format!("export PATH={}:$PATH", bin.display()))?;
        self.screen.line("kubectl get wl,cq,lq -A")?;
        self.screen.line("")?;
        self.screen.says(
            "That folder has kubectl and capstan. Capstan's log, and those of all others, are in",
        )?;
        self.screen.line(&self.cluster.logs().display().to_string())
    }

    /// Applies manifests.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        self.cluster.apply(manifests).map(drop)
    }

    /// Shows what kubectl prints.
    pub fn kubectl(&self, line: &str) -> std::result::Result<(), End> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let printed = self.cluster.kubectl(&words)?;
        self.screen.table(&format!("kubectl {line}"), &printed)
    }

    /// Shows what another command of Capstan prints.
    pub fn capstan(&self, line: &str) -> std::result::Result<(), End> {
        let mut call = Command::new(bin(&self.cluster).join(CAPSTAN));
        call.args(line.split_whitespace()).env("KUBECONFIG", self.cluster.kubeconfig());
        let said = call.output().map_err(|e| Trouble::new(format!("capstan: {e}")))?;
        let text = [said.stdout, said.stderr].concat();
        self.screen.command(&format!("capstan {line}"), &String::from_utf8_lossy(&text))
    }

    /// Waits until objects of a kind are as they should be; what was found there.
    pub fn until<T>(
        &mut self,
        kind: &str,
        what: &str,
        found: impl Fn(&[Value]) -> Option<T>,
    ) -> std::result::Result<T, End> {
        let start = Instant::now();
        loop {
            self.stop.check()?;
            if let Some(found) = found(&self.cluster.list(kind)?) {
                return Ok(found);
            }
            if !self.capstan.process.runs() {
                return Err(self.capstan.process.trouble("ended").into());
            }
            if start.elapsed() > SOON {
                let seen = self.cluster.kubectl(&["get", "wl,jobs,pods", "-A"])?;
                let waited = SOON.as_secs();
                return Err(Trouble::new(format!("{what}: not within {waited} s\n{seen}")).into());
            }
            self.stop.within(LOOK_AGAIN)?;
        }
    }

    /// Stays until it is asked to end.
    pub fn stay(&mut self) -> std::result::Result<(), End> {
        loop {
            if !self.capstan.process.runs() {
                return Err(self.capstan.process.trouble("ended").into());
            }
            self.stop.within(Duration::from_secs(1))?;
        }
    }
}

/// The folder of programs.
fn bin(cluster: &ControlPlane) -> PathBuf {
    cluster.folder().join("bin")
}

/// Lays out the programs and starts Capstan from there.
fn start_capstan(cluster: &ControlPlane) -> Result<Capstan> {
    let bin = bin(cluster);
    fs::create_dir(&bin).map_err(Trouble::at(&bin))?;
    let own = std::env::current_exe().map_err(Trouble::at(&bin))?;
    for name in [CAPSTAN, PLUGIN] {
        symlink(&own, bin.join(name)).map_err(Trouble::at(&bin))?;
    }
    let (kubectl, cache) = (bin.join("kubectl"), cluster.folder().join("kubectl-cache"));
    let script = format!(
        "#!/bin/sh\n# Its cache goes with the cluster.\nKUBECACHEDIR='{}' exec '{}' \"$@\"\n",
        cache.display(),
        cluster.program(Part::Kubectl).display()
    );
    fs::write(&kubectl, script).map_err(Trouble::at(&kubectl))?;
    let runs = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&kubectl, runs).map_err(Trouble::at(&kubectl))?;
    let config = cluster.folder().join("capstan.yaml");
    fs::write(&config, capstan_config("")).map_err(Trouble::at(&config))?;
    let mut call = Command::new(bin.join(CAPSTAN));
    call.arg("run").arg("--config").arg(&config);
    call.arg("--kubeconfig").arg(cluster.kubeconfig());
    cluster.capstan_called(CAPSTAN, call, &config)
}

/// Whether somebody asked to end: Ctrl-C, SIGTERM, or the terminal is gone.
struct Stop(Receiver<()>);

impl Stop {
    fn listen() -> Result<Stop> {
        let (asked, stop) = channel();
        let trouble = |e: std::io::Error| Trouble::new(format!("signals: {e}"));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(trouble)?;
        let entered = runtime.enter();
        let mut int = signal(SignalKind::interrupt()).map_err(trouble)?;
        let mut term = signal(SignalKind::terminate()).map_err(trouble)?;
        let mut hup = signal(SignalKind::hangup()).map_err(trouble)?;
        drop(entered);
        thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                    _ = hup.recv() => {}
                }
            });
            // Who waits is told by the end of the channel, now and ever after.
            drop(asked);
        });
        Ok(Stop(stop))
    }

    fn check(&self) -> std::result::Result<(), End> {
        self.within(Duration::ZERO)
    }

    /// Waits; an error as soon as somebody asks.
    fn within(&self, time: Duration) -> std::result::Result<(), End> {
        match self.0.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(End::Asked),
        }
    }
}
