//! A cluster for one case: nodes that look like GPU nodes, who watches, and who writes what the
//! contenders work on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use capstan::client::call::{Fate, call};
use capstan::client::{Clients, Target};
use capstan::config::file::ClientConnection;
use capstan_tests::cluster::{ControlPlane, GpuNodes, Options, Part, Result, Trouble};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::Request;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::eye::Eye;
use super::writes::Writes;

/// Requests of ours in flight.
const AT_ONCE: usize = 64;
/// How often the watcher is asked.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long anything may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(300);

/// Something that is asked of the API server.
pub enum Ask {
    /// Make an object below this path.
    Make(String, Value),
    /// Remove a pod at once.
    Remove(String, String),
    /// Suspend the Job of this path.
    Suspend(String),
}

/// A cluster, its watcher, and a client for its work.
pub struct Scene {
    eye: Eye,
    writes: Client,
    runtime: Runtime,
    /// The cluster.
    pub plane: ControlPlane,
}

impl Scene {
    /// Starts a cluster with so many nodes. The stock scheduler is stopped until it is its turn.
    pub fn set(options: Options, nodes: usize) -> Result<Scene> {
        let options = Options { scheduler: true, unbounded: true, ..options };
        let mut plane = ControlPlane::start(options)?;
        plane.kill(Part::Scheduler)?;
        plane.create_nodes(&GpuNodes::new("h100", nodes))?;
        plane.install_crds()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| Trouble::new(format!("a runtime: {e}")))?;
        let target = Target { kubeconfig: Some(plane.kubeconfig()), context: None };
        let clients = runtime.block_on(Clients::connect(&target, &ClientConnection::default()));
        let clients = clients.map_err(Trouble::new)?;
        let eye = runtime.block_on(async { Eye::open(clients.watches.clone()) });
        Ok(Scene { eye, writes: clients.writes, runtime, plane })
    }

    /// The watcher.
    pub fn eye(&self) -> &Eye {
        &self.eye
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig()
    }

    /// Asks all of it, many at a time, in this order; every answer has to be good.
    pub fn ask(&self, asks: Vec<Ask>) -> Result<()> {
        let left = Arc::new(Mutex::new(asks.into_iter()));
        let answered = self.runtime.block_on(async {
            let mut workers = JoinSet::new();
            for _ in 0..AT_ONCE {
                workers.spawn(work(self.writes.clone(), Arc::clone(&left)));
            }
            workers.join_all().await
        });
        answered.into_iter().collect()
    }

    /// Removes all objects below a path, with what they own.
    pub fn remove_all(&self, path: &str) -> Result<()> {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = Request::new(path).delete_collection(&params, &ListParams::default());
        let request = request.map_err(|e| Trouble::new(e.to_string()))?;
        self.runtime.block_on(good(&self.writes, request, path))
    }

    /// What the API server was asked to write so far.
    pub fn writes(&self) -> Result<Writes> {
        let client = self.plane.client()?;
        let request = Request::new("/metrics").list(&ListParams::default());
        let request = request.map_err(|e| Trouble::new(e.to_string()))?;
        let text = self.runtime.block_on(client.request_text(request));
        Ok(Writes::read(&text.map_err(Trouble::from)?))
    }

    /// Has the API server collect its garbage. Left to itself it does so now and then, which takes
    /// as long as hundreds of binds: how often while one contender binds would be luck.
    pub fn collect_garbage(&self) -> Result<()> {
        let client = self.plane.client()?;
        let path = "/debug/pprof/heap?gc=1";
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|e| Trouble::new(e.to_string()))?;
        self.runtime.block_on(good(&client, request, path))
    }

    /// Waits until the watcher has seen what is waited for; when that was noticed.
    pub fn until(&self, what: &str, seen: impl Fn(&Eye) -> bool) -> Result<Instant> {
        self.until_or(what, || Ok(seen(&self.eye)))
    }

    /// The same for what can fail otherwise.
    pub fn until_or(&self, what: &str, mut seen: impl FnMut() -> Result<bool>) -> Result<Instant> {
        let begun = Instant::now();
        while begun.elapsed() < WITHIN {
            if seen()? {
                return Ok(Instant::now());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Err(Trouble::new(format!("{what}: not within {} s", WITHIN.as_secs())))
    }
}

/// Sends one request after the other while there are any.
async fn work(client: Client, left: Arc<Mutex<std::vec::IntoIter<Ask>>>) -> Result<()> {
    loop {
        let ask = left.lock().expect("nobody panics with it").next();
        let (request, path) = match ask {
            None => return Ok(()),
            Some(Ask::Make(path, object)) => {
                let body = object.to_string().into_bytes();
                (Request::new(&path).create(&PostParams::default(), body), path)
            }
            Some(Ask::Remove(path, name)) => {
                let at_once = DeleteParams::default().grace_period(0);
                (Request::new(&path).delete(&name, &at_once), path)
            }
            Some(Ask::Suspend(path)) => {
                let (of, name) = path.rsplit_once('/').expect("a name ends it");
                let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
                (Request::new(of).patch(name, &PatchParams::default(), &patch), path)
            }
        };
        good(&client, request.map_err(|e| Trouble::new(e.to_string()))?, &path).await?;
    }
}

async fn good(client: &Client, request: http::Request<Vec<u8>>, path: &str) -> Result<()> {
    match call(client, request).await {
        // What is gone already need not be removed.
        Fate::Answered(reply) if reply.is_success() || reply.code == 404 => Ok(()),
        Fate::Answered(reply) => Err(Trouble::new(format!("{path}: {}", reply.says()))),
        Fate::Unsent(why) | Fate::Unknown(why) => Err(Trouble::new(format!("{path}: {why}"))),
    }
}
