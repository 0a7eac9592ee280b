//! The command line of every part.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::folder::Folder;
use super::options::Options;
use super::parts::{Part, Parts};
use super::ports::Port;
use super::trouble::Result;

/// The file of tokens.
pub(super) const TOKENS: &str = "tokens.csv";
/// The key that signs the tokens of service accounts.
pub(super) const SIGNING_KEY: &str = "service-accounts.pem";
/// The key that checks them.
pub(super) const CHECKING_KEY: &str = "service-accounts-public.pem";
/// Where the API server puts the certificate that it makes for itself.
const CERTIFICATES: &str = "certificates";
/// The gate of Kubernetes' own gangs.
const GANG_GATE: &str = "--feature-gates=GenericWorkload=true";
/// Who sent what, and what was answered; no bodies.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
";
/// The file of audited requests.
pub(super) const AUDIT_LOG: &str = "audit.jsonl";
/// What kwok plays.
const STAGES: &str = include_str!("../../controlplane/stages.yaml");

/// The ports of a cluster.
#[derive(Debug)]
pub(super) struct Ports {
    pub etcd: Port,
    pub etcd_peer: Port,
    pub api: Port,
    pub kwok: Port,
}

impl Ports {
    pub fn reserve() -> Result<Ports> {
        Ok(Ports {
            etcd: Port::reserve()?,
            etcd_peer: Port::reserve()?,
            api: Port::reserve()?,
            kwok: Port::reserve()?,
        })
    }

    /// Where etcd answers.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd.number())
    }

    /// Where the API server answers.
    pub fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api.number())
    }
}

/// What the certificate of the API server is checked with: it signs itself.
pub(super) fn authority(folder: &Folder) -> std::path::PathBuf {
    folder.path(CERTIFICATES).join("apiserver.crt")
}

/// The kubeconfig of a user.
pub(super) fn kubeconfig_path(folder: &Folder, user: &str) -> std::path::PathBuf {
    folder.path(&format!("{}.kubeconfig", user.replace(['/', ':'], "-")))
}

/// Everything that command lines are made from.
pub(super) struct Site<'a> {
    pub options: &'a Options,
    pub parts: &'a Parts,
    pub folder: &'a Folder,
    pub ports: &'a Ports,
}

impl Site<'_> {
    /// The command line of a part; writes the files that it names.
    pub fn call(&self, part: Part) -> Result<Command> {
        let mut command = Command::new(self.parts.path(part));
        // What a developer works with is none of the cluster's business.
        command.env_remove("KUBECONFIG").current_dir(self.folder.path(""));
        match part {
            Part::Etcd => self.etcd(&mut command),
            Part::ApiServer => self.api_server(&mut command)?,
            Part::ControllerManager => self.controller_manager(&mut command),
            Part::Scheduler => self.scheduler(&mut command)?,
            Part::Kwok => self.kwok(&mut command)?,
            Part::Kubectl => {
                let admin = kubeconfig_path(self.folder, super::access::ADMIN);
                command.env("KUBECONFIG", admin);
                command.env("KUBECACHEDIR", self.folder.path("kubectl-cache"));
                command.env("KUBERC", "off");
            }
        }
        Ok(command)
    }

    fn etcd(&self, command: &mut Command) {
        let client = self.ports.etcd_url();
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer.number());
        flag(command, "data-dir", self.folder.store().display());
        flag(command, "listen-client-urls", &client);
        flag(command, "advertise-client-urls", &client);
        flag(command, "listen-peer-urls", &peer);
        flag(command, "initial-advertise-peer-urls", &peer);
        flag(command, "initial-cluster", format!("default={peer}"));
        // A cluster of a test survives no power failure.
        command.arg("--unsafe-no-fsync");
    }

    fn api_server(&self, command: &mut Command) -> Result<()> {
        let key = self.folder.path(SIGNING_KEY);
        flag(command, "etcd-servers", self.ports.etcd_url());
        flag(command, "cert-dir", self.folder.path(CERTIFICATES).display());
        flag(command, "secure-port", self.ports.api.number());
        flag(command, "bind-address", "127.0.0.1");
        flag(command, "advertise-address", "127.0.0.1");
        flag(command, "service-cluster-ip-range", "10.0.0.0/24");
        flag(command, "service-account-issuer", "https://kubernetes.default.svc");
        flag(command, "service-account-key-file", self.folder.path(CHECKING_KEY).display());
        flag(command, "service-account-signing-key-file", key.display());
        flag(command, "token-auth-file", self.folder.path(TOKENS).display());
        flag(command, "authorization-mode", "RBAC");
        flag(command, "endpoint-reconciler-type", "none");
        // Else it ends only a minute after SIGTERM, for as long as somebody watches.
        flag(command, "shutdown-send-retry-after", true);
        let mut without = Vec::new();
        if !self.options.controller_manager {
            // Nobody would make service accounts.
            without.push("ServiceAccount");
        }
        if !self.options.controller_manager || self.options.unbounded {
            // Nobody would take the taint off a new node, or not fast enough for thousands.
            without.push("TaintNodesByCondition");
        }
        if self.options.decisions {
            // Nobody would take the finalizers off again.
            without.push("StorageObjectInUseProtection");
            // A rule that kube-scheduler has whatever the gate, on pods that need it to be made.
            flag(command, "feature-gates", "UserNamespacesHostNetworkSupport=true");
        }
        if !without.is_empty() {
            flag(command, "disable-admission-plugins", without.join(","));
        }
        if self.options.upstream_gangs {
            command.arg(GANG_GATE);
            flag(command, "runtime-config", "scheduling.k8s.io/v1beta1=true");
        }
        if self.options.unbounded {
            flag(command, "max-requests-inflight", 0);
            flag(command, "max-mutating-requests-inflight", 0);
            flag(command, "enable-priority-and-fairness", false);
        }
        if self.options.audit {
            let policy = self.folder.write("audit-policy.yaml", AUDIT_POLICY)?;
            flag(command, "audit-policy-file", policy.display());
            flag(command, "audit-log-path", self.folder.logs().join(AUDIT_LOG).display());
        }
        Ok(())
    }

    fn controller_manager(&self, command: &mut Command) {
        flag(command, "kubeconfig", self.kubeconfig(Part::ControllerManager));
        let key = self.folder.path(SIGNING_KEY);
        flag(command, "service-account-private-key-file", key.display());
        flag(command, "leader-elect", false);
        flag(command, "secure-port", 0);
        flag(command, "controllers", "*,-node-ipam-controller");
        flag(command, "kube-api-qps", 2000);
        flag(command, "kube-api-burst", 4000);
        // Nodes without kubelets would all be tainted after 50 s, and fake signs of life come
        // late on a busy machine.
        flag(command, "node-monitor-grace-period", "1h");
        if self.options.upstream_gangs {
            command.arg(GANG_GATE);
        }
    }

    fn scheduler(&self, command: &mut Command) -> Result<()> {
        let version = "kubescheduler.config.k8s.io/v1";
        let mut config = json!({
            "apiVersion": version,
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": self.options.elects},
            "clientConnection": {
                "kubeconfig": self.kubeconfig(Part::Scheduler),
                "qps": 10_000,
                "burst": 20_000,
            },
        });
        if self.options.decisions {
            let kind = "VolumeBindingArgs";
            let args = json!({"apiVersion": version, "kind": kind, "bindTimeoutSeconds": 0});
            let volumes = json!({"name": "VolumeBinding", "args": args});
            let name = "default-scheduler";
            config["profiles"] = json!([{"schedulerName": name, "pluginConfig": [volumes]}]);
            config["podInitialBackoffSeconds"] = json!(1);
            config["podMaxBackoffSeconds"] = json!(1);
        }
        let path = self.folder.write("kube-scheduler.yaml", &format!("{config:#}\n"))?;
        flag(command, "config", path.display());
        flag(command, "secure-port", 0);
        if self.options.upstream_gangs {
            command.arg(GANG_GATE);
        }
        Ok(())
    }

    fn kwok(&self, command: &mut Command) -> Result<()> {
        let stages = self.folder.write("stages.yaml", STAGES)?;
        let port = self.ports.kwok.number();
        flag(command, "kubeconfig", self.kubeconfig(Part::Kwok));
        flag(command, "manage-all-nodes", true);
        flag(command, "config", stages.display());
        flag(command, "server-address", format!("127.0.0.1:{port}"));
        flag(command, "node-port", port);
        Ok(())
    }

    fn kubeconfig(&self, part: Part) -> String {
        let path: &Path = &kubeconfig_path(self.folder, part.program());
        path.display().to_string()
    }
}

fn flag(command: &mut Command, name: &str, value: impl std::fmt::Display) {
    command.arg(format!("--{name}={value}"));
}
