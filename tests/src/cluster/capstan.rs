//! Capstan itself on a control plane of a test: a process like any other part, several if wanted.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan::gangs::kinds::{Kind, Row, TABLE};
use serde_json::{Value, json};
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;

use super::plane::ControlPlane;
use super::ports::Port;
use super::process::Process;
use super::trouble::{Result, Trouble};
use super::wait::eventually;

/// How long a replica may take to read the cluster, on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The program, beside the test.
const PROGRAM: &str = "scheduler";

/// A replica of Capstan; it ends when this is dropped.
#[derive(Debug)]
pub struct Capstan {
    /// The process.
    pub process: Process,
    port: Port,
    config: PathBuf,
}

impl Capstan {
    /// Where it serves HTTP.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port.number())
    }

    /// Its configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// What it answers at a path.
    pub fn get(&self, plane: &ControlPlane, path: &str) -> Result<String> {
        let url = self.url().parse().map_err(|e| Trouble::new(format!("{}: {e}", self.url())))?;
        let request = Request::new(path).list(&ListParams::default());
        let request = request.map_err(|e| Trouble::new(format!("{path}: {e}")))?;
        plane.block_on(async {
            let mut config = kube::Config::new(url);
            // That it is not ready is an answer, and not to be asked for again behind our back.
            config.default_retry = false;
            let client = Client::try_from(config)?;
            Ok(client.request_text(request).await?)
        })
    }

    /// Waits until `/readyz` says this: `leading` or `standing by`.
    pub fn wait_until(&mut self, plane: &ControlPlane, says: &str) -> Result<()> {
        eventually(&format!("capstan is {says}"), READY_WITHIN, || {
            if !self.process.runs() {
                return Err(self.process.trouble("ended").to_string());
            }
            let said = self.get(plane, "/readyz").map_err(|e| e.to_string())?;
            if said.contains(says) { Ok(()) } else { Err(said) }
        })
        .map_err(|trouble| self.process.trouble(&trouble.to_string()))
    }
}

impl ControlPlane {
    /// Makes Capstan's kinds known, and waits until they are served.
    pub fn install_crds(&self) -> Result<()> {
        let all = capstan::api::crds::all();
        let documents: Vec<String> = all.iter().map(capstan::api::crds::yaml).collect();
        let words = ["apply", "--server-side", "-f", "-"];
        self.kubectl_with(&words, &documents.join("---\n"))?;
        let words = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.kubectl(&words).map(drop)
    }

    /// Installs the kinds of other projects that say which pods start together, as small as they
    /// can be: any spec and status, in every version that is read; the status apart where a kind is
    /// written to and has it so.
    pub fn install_crds_of_others(&self) -> Result<()> {
        let others = TABLE.iter().filter(|row| row.kind != Kind::UpstreamGroup);
        let items: Vec<Value> = others.map(crd_of_others).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.kubectl_with(&["create", "-f", "-"], &list.to_string())?;
        let words = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.kubectl(&words).map(drop)
    }

    /// Starts a replica of Capstan as the administrator; `config` is what its file says besides
    /// its head.
    pub fn capstan(&self, name: &str, config: &str) -> Result<Capstan> {
        self.capstan_as(name, config, &self.kubeconfig())
    }

    /// Starts a replica of Capstan with the rights of a kubeconfig.
    pub fn capstan_as(&self, name: &str, config: &str, kubeconfig: &Path) -> Result<Capstan> {
        let path = self.folder().join(format!("{name}.yaml"));
        std::fs::write(&path, capstan_config(config)).map_err(Trouble::at(&path))?;
        let mut call = Command::new(program()?);
        call.arg("run").arg("--config").arg(&path).arg("--kubeconfig").arg(kubeconfig);
        // Whatever the test runs in, this is no pod of the cluster.
        call.env_remove("POD_NAMESPACE");
        self.capstan_called(name, call, &path)
    }

    /// Starts a replica of Capstan by its command line, but for where it serves HTTP; `config`
    /// is the file that the command line names.
    pub fn capstan_called(&self, name: &str, mut call: Command, config: &Path) -> Result<Capstan> {
        let port = Port::reserve()?;
        call.arg("--listen").arg(format!("127.0.0.1:{}", port.number()));
        call.env_remove("RUST_LOG").env("HOSTNAME", name);
        Ok(Capstan { process: self.spawn(name, &call)?, port, config: config.to_owned() })
    }

    /// The program, for command lines.
    pub fn capstan_program(&self) -> Result<PathBuf> {
        program()
    }

    /// Runs another command of Capstan as the administrator; its exit code, what it answered and
    /// what else it said.
    pub fn capstan_says(&self, words: &[&str]) -> Result<(i32, String, String)> {
        let mut call = Command::new(program()?);
        call.args(words).env("KUBECONFIG", self.kubeconfig());
        let said = call.output().map_err(|e| Trouble::new(format!("capstan: {e}")))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((said.status.code().unwrap_or(-1), text(&said.stdout), text(&said.stderr)))
    }
}

/// The CRD of a kind of another project.
fn crd_of_others(row: &Row) -> Value {
    let version = |(at, name): (usize, &&str)| {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut version = json!({
            "name": name,
            "served": true,
            "storage": at == 0,
            "schema": {"openAPIV3Schema": anything},
        });
        if row.kind == Kind::PluginsGroup {
            version["subresources"] = json!({"status": {}});
        }
        version
    };
    let versions: Vec<Value> = row.versions.iter().enumerate().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", row.plural, row.group),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
        },
        "spec": {
            "group": row.group,
            "scope": "Namespaced",
            "names": {"kind": row.name, "plural": row.plural},
            "versions": versions,
        },
    })
}

/// A configuration file with this below its head.
pub fn capstan_config(rest: &str) -> String {
    format!("apiVersion: capstan.sh/v1alpha1\nkind: CapstanConfiguration\n{rest}")
}

fn program() -> Result<PathBuf> {
    let here = env::current_exe().map_err(|e| Trouble::new(format!("this program: {e}")))?;
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join(PROGRAM));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Trouble::new(format!("no program: cargo build -p capstan-tests --bin {PROGRAM}"))
    })
}
