//! A control plane of a test: its life from the first process to the last.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::access::{self, ADMIN, SERVICE_ACCOUNT, Tokens};
use super::flags::{self, Ports, Site};
use super::folder::Folder;
use super::options::Options;
use super::parts::{Part, Parts};
use super::process::Process;
use super::trouble::{Result, Trouble};
use super::wait::eventually;

/// How long a part may take to be ready: a bound for busy machines, it needs 2 to 3 s.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long a part may take to end in good order; the API server finishes requests first.
const END_WITHIN: Duration = Duration::from_secs(75);
/// How often a part is looked at while it gets ready.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// How often a start is tried with other ports, or a restart with the same.
const ATTEMPTS: u32 = 5;
/// What a part says when its port is taken.
const TAKEN: &str = "address already in use";
/// How long the token of a service account is good, in seconds.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// etcd and an API server, and what acts on it; all of it ends when this is dropped, and when
/// the test dies.
///
/// Methods block; they may be called from asynchronous code too, and then block its thread.
#[derive(Debug)]
pub struct ControlPlane {
    running: BTreeMap<Part, Process>,
    options: Options,
    parts: Parts,
    tokens: Tokens,
    ports: Ports,
    folder: Folder,
    runtime: Option<Runtime>,
}

impl ControlPlane {
    /// Starts one and waits until it is ready. Its parts are built first if they have to be.
    pub fn start(options: Options) -> Result<ControlPlane> {
        let parts = Parts::find(&options.parts())?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| Trouble::new(format!("a runtime: {e}")))?;
        let mut plane = ControlPlane {
            running: BTreeMap::new(),
            tokens: Tokens::new(&options.users)?,
            options,
            parts,
            ports: Ports::reserve()?,
            folder: Folder::new()?,
            runtime: Some(runtime),
        };
        for attempt in 1.. {
            let Err(trouble) = plane.begin() else { break };
            if attempt == ATTEMPTS || !trouble.to_string().contains(TAKEN) {
                plane.folder.keep();
                return Err(trouble);
            }
            plane.running.clear();
            plane.folder.clear()?;
            plane.ports = Ports::reserve()?;
        }
        Ok(plane)
    }

    fn begin(&mut self) -> Result<()> {
        self.folder.write(flags::TOKENS, &self.tokens.csv())?;
        let keys = access::signing_keys()?;
        self.folder.write(flags::SIGNING_KEY, &keys.private)?;
        self.folder.write(flags::CHECKING_KEY, &keys.public)?;
        let clients = self.options.clients();
        let users = self.options.users.iter().map(|user| user.name.clone());
        let users: Vec<String> =
            clients.iter().map(|p| p.program().to_owned()).chain(users).collect();
        for user in users.iter().map(String::as_str).chain([ADMIN]) {
            self.write_kubeconfig(user, self.tokens.of(user)?)?;
        }
        for part in [Part::Etcd, Part::ApiServer] {
            self.launch(part)?;
        }
        self.wait_until_ready(Part::ApiServer)?;
        for part in &clients {
            self.launch(*part)?;
        }
        for part in clients {
            self.wait_until_ready(part)?;
        }
        Ok(())
    }

    /// A kubeconfig of a user that the options name, for another address of the API server.
    pub(super) fn write_kubeconfig_to(&self, url: &str, user: &str) -> Result<PathBuf> {
        let authority = flags::authority(&self.folder);
        let config = access::kubeconfig(url, &authority, user, self.tokens.of(user)?);
        let path = flags::kubeconfig_path(&self.folder, &format!("{user}-elsewhere"));
        std::fs::write(&path, config).map_err(Trouble::at(&path))?;
        Ok(path)
    }

    pub(super) fn api_port(&self) -> u16 {
        self.ports.api.number()
    }

    fn write_kubeconfig(&self, user: &str, token: &str) -> Result<PathBuf> {
        let authority = flags::authority(&self.folder);
        let config = access::kubeconfig(&self.ports.server_url(), &authority, user, token);
        let path = flags::kubeconfig_path(&self.folder, user);
        std::fs::write(&path, config).map_err(Trouble::at(&path))?;
        Ok(path)
    }

    fn site(&self) -> Site<'_> {
        Site {
            options: &self.options,
            parts: &self.parts,
            folder: &self.folder,
            ports: &self.ports,
        }
    }

    fn launch(&mut self, part: Part) -> Result<()> {
        let call = self.site().call(part)?;
        let process = self.spawn(part.program(), &call)?;
        self.running.insert(part, process);
        Ok(())
    }

    /// Waits until a part does its work, or says why it does not.
    fn wait_until_ready(&mut self, part: Part) -> Result<()> {
        let start = Instant::now();
        loop {
            for process in self.running.values_mut() {
                if !process.runs() {
                    return Err(process.trouble("ended"));
                }
            }
            match self.works(part) {
                Ok(()) => return Ok(()),
                Err(trouble) if start.elapsed() > READY_WITHIN => {
                    let waited = READY_WITHIN.as_secs();
                    let says = format!("was not ready within {waited} s: {trouble}");
                    return Err(self.running[&part].trouble(&says));
                }
                Err(_) => thread::sleep(LOOK_AGAIN),
            }
        }
    }

    fn works(&self, part: Part) -> Result<()> {
        match part {
            Part::Etcd => connects(self.ports.etcd.number()),
            Part::ApiServer => self.readyz(),
            Part::ControllerManager => self.service_account_is_there("default", "default"),
            Part::Kwok => connects(self.ports.kwok.number()),
            // Neither listens; that they run is checked, and that is all they show.
            Part::Scheduler | Part::Kubectl => Ok(()),
        }
    }

    fn readyz(&self) -> Result<()> {
        let client = self.client()?;
        let request = Request::new("/readyz").list(&ListParams::default());
        let request = request.map_err(|e| Trouble::new(e.to_string()))?;
        Ok(self.block_on(client.request_text(request)).map(|_| ())?)
    }

    fn service_account_is_there(&self, namespace: &str, name: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        Ok(self.block_on(accounts.get(name)).map(|_| ())?)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        flags::kubeconfig_path(&self.folder, ADMIN)
    }

    /// The kubeconfig of a user that the options name.
    pub fn kubeconfig_of(&self, user: &str) -> Result<PathBuf> {
        self.tokens.of(user).map(|_| flags::kubeconfig_path(&self.folder, user))
    }

    /// A kubeconfig with a token of a service account, as its pods would have; good for a day.
    pub fn kubeconfig_of_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.token_of_service_account(namespace, name)?;
        self.write_kubeconfig(&format!("{SERVICE_ACCOUNT}{namespace}:{name}"), &token)
    }

    /// A token of a service account, as its pods would have; good for a day.
    pub fn token_of_service_account(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let ask = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let plain = PostParams::default();
        let given = self
            .block_on(accounts.create_token_request(name, &plain, &ask))?
            .status
            .and_then(|status| status.token);
        given.ok_or_else(|| Trouble::new("a token request without a token"))
    }

    /// A client with the rights of the administrator; it works for as long as this does.
    pub fn client(&self) -> Result<Client> {
        self.client_of(&self.kubeconfig())
    }

    /// A client with the rights of a kubeconfig of this cluster.
    pub fn client_of(&self, kubeconfig: &Path) -> Result<Client> {
        let trouble = |e: &dyn std::fmt::Display| Trouble::new(format!("kubeconfig: {e}"));
        let read = Kubeconfig::read_from(kubeconfig).map_err(|e| trouble(&e))?;
        self.block_on(async {
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            Ok(Client::try_from(config.map_err(|e| trouble(&e))?)?)
        })
    }

    /// Runs kubectl as the administrator; what it printed. Not for what runs until stopped:
    /// that is for [`ControlPlane::spawn`].
    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.kubectl_with(words, "")
    }

    /// Runs kubectl as the administrator with this input.
    pub fn kubectl_with(&self, words: &[&str], input: &str) -> Result<String> {
        let said = self.kubectl_output(words, input)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if said.status.success() {
            return Ok(text(&said.stdout));
        }
        let line = words.join(" ");
        Err(Trouble::new(format!("kubectl {line}: {}{}", text(&said.stdout), text(&said.stderr))))
    }

    /// kubectl as the administrator, for command lines.
    pub fn kubectl_program(&self) -> Result<Command> {
        self.site().call(Part::Kubectl)
    }

    fn kubectl_output(&self, words: &[&str], input: &str) -> Result<Output> {
        let mut call = self.kubectl_program()?;
        call.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let trouble = |e: io::Error| Trouble::new(format!("kubectl: {e}"));
        let mut child = call.spawn().map_err(trouble)?;
        let mut pipe = child.stdin.take().expect("its input is a pipe");
        thread::scope(|scope| {
            // What does not read its input closes it; that is no failure.
            scope.spawn(move || pipe.write_all(input.as_bytes()));
            child.wait_with_output().map_err(trouble)
        })
    }

    /// Applies manifests as the administrator.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], manifests)
    }

    /// Makes a namespace, and waits until pods can be made in it.
    pub fn create_namespace(&self, name: &str) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client()?);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        self.block_on(api.create(&PostParams::default(), &namespace))?;
        if !self.options.controller_manager {
            return Ok(());
        }
        let what = format!("the service account of namespace {name}");
        eventually(&what, READY_WITHIN, || self.service_account_is_there(name, "default"))
    }

    /// Starts another process that ends with this test at the latest; its log is with the
    /// others.
    pub fn spawn(&self, name: &str, call: &Command) -> Result<Process> {
        Process::start(name, call, &self.folder.logs().join(format!("{name}.log")))
    }

    /// The program of a part that this cluster has.
    pub fn program(&self, part: Part) -> &Path {
        self.parts.path(part)
    }

    /// A running part, to pause it, to look at its pid or its log.
    pub fn process(&mut self, part: Part) -> Result<&mut Process> {
        let process = self.running.get_mut(&part);
        process.ok_or_else(|| Trouble::new(format!("{} does not run", part.program())))
    }

    /// Ends a part in good order (SIGTERM) and waits until it is gone.
    pub fn stop(&mut self, part: Part) -> Result<()> {
        self.process(part)?.end(END_WITHIN)?;
        self.running.remove(&part);
        Ok(())
    }

    /// Kills a part (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self, part: Part) -> Result<()> {
        self.process(part)?.kill();
        self.running.remove(&part);
        Ok(())
    }

    /// Starts a stopped or killed part again, same port and same data, and waits until it is
    /// ready.
    pub fn start_again(&mut self, part: Part) -> Result<()> {
        for attempt in 1.. {
            self.launch(part)?;
            match self.wait_until_ready(part) {
                Err(trouble) if attempt < ATTEMPTS && trouble.to_string().contains(TAKEN) => {
                    self.running.remove(&part);
                }
                ready => return ready,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Stops a part and starts it again.
    pub fn restart(&mut self, part: Part) -> Result<()> {
        self.stop(part)?;
        self.start_again(part)
    }

    /// Forgets all history of the store up to now: who watches from before is told to list
    /// anew (410). Watches that the API server still remembers in memory go on, so tests of 410
    /// restart it as well. The revision up to which it was compacted.
    pub fn compact(&self) -> Result<i64> {
        let all = json!({"key": "AA==", "limit": 1});
        let now = self.ask_etcd("/v3/kv/range", &all)?;
        let revision = now.pointer("/header/revision").and_then(Value::as_str);
        let revision: i64 = revision
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Trouble::new(format!("etcd says no revision: {now}")))?;
        let up_to = json!({"revision": revision.to_string(), "physical": true});
        self.ask_etcd("/v3/kv/compaction", &up_to)?;
        Ok(revision)
    }

    fn ask_etcd(&self, path: &str, body: &Value) -> Result<Value> {
        let trouble = |e: &dyn std::fmt::Display| Trouble::new(format!("etcd {path}: {e}"));
        let url = self.ports.etcd_url().parse().expect("a port makes a URL");
        let request = Request::new(path)
            .create(&PostParams::default(), body.to_string().into_bytes())
            .map_err(|e| trouble(&e))?;
        self.block_on(async {
            let client = Client::try_from(Config::new(url))?;
            client.request(request).await.map_err(|e| trouble(&Trouble::from(e)))
        })
    }

    /// What the certificate of the API server is checked with.
    pub fn authority(&self) -> PathBuf {
        flags::authority(&self.folder)
    }

    /// The URL of the API server.
    pub fn server_url(&self) -> String {
        self.ports.server_url()
    }

    /// Where the logs are: one file for each part and each spawned process. They are left, and
    /// their place printed, if this is dropped by a failing test.
    pub fn logs(&self) -> PathBuf {
        self.folder.logs()
    }

    /// The folder of this cluster, gone with it: room for files of the test.
    pub fn folder(&self) -> PathBuf {
        self.folder.path("")
    }

    /// Leaves the logs when this is dropped, whatever becomes of the test.
    pub fn keep_logs(&mut self) {
        self.folder.keep();
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Runs something on the cluster's own runtime, beside everything else.
    pub(super) fn spawn_task(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        self.runtime.as_ref().expect("there until dropped").spawn(task)
    }

    /// Waits for a future on the cluster's own runtime, on a thread of its own: blocking is not
    /// allowed on a thread of another runtime.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send,
        F::Output: Send,
    {
        let runtime = self.runtime.as_ref().expect("there until dropped");
        let done = thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if thread::panicking() {
            self.folder.keep();
        }
        if self.folder.is_kept() {
            // Past the test harness, which would hold it back.
            let _ = writeln!(io::stderr(), "logs of the cluster: {}", self.logs().display());
        }
        // All at once; then dropping each waits for its end.
        for process in self.running.values_mut() {
            process.let_go();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn connects(port: u16) -> Result<()> {
    let connected = TcpStream::connect(("127.0.0.1", port));
    connected.map(|_| ()).map_err(|e| Trouble::new(format!("port {port}: {e}")))
}
