//! How Capstan is installed here, and run as it was installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use capstan_tests::cluster::{Capstan, ControlPlane, GpuNodes, Options};
use serde_json::Value;

/// Long enough for a busy machine, and no test waits for it that passes.
pub const SOON: Duration = Duration::from_secs(90);
/// Where the base puts everything.
pub const NAMESPACE: &str = "capstan-system";

/// The repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ is in the workspace").to_owned()
}

/// A path in the repository, as a word of a command line.
pub fn path(name: &str) -> String {
    root().join(name).to_str().expect("UTF-8").to_owned()
}

/// A whole control plane that writes down what it is asked, with these nodes.
pub fn cluster(nodes: &[GpuNodes]) -> ControlPlane {
    let options = Options { audit: true, upstream_gangs: true, ..Options::full() };
    let cluster = ControlPlane::start(options).expect("a control plane");
    for nodes in nodes {
        cluster.create_nodes(nodes).expect("nodes");
    }
    cluster
}

/// An object as the API shows it.
pub fn read(cluster: &ControlPlane, words: &[&str]) -> Value {
    let words = [&["get", "--output", "json"], words].concat();
    let said = cluster.kubectl(&words).expect("it is there");
    serde_json::from_str(&said).expect("JSON")
}

/// The Deployment in a namespace, once the API server has let all its pods in, and they are up.
pub fn deployed(cluster: &ControlPlane, namespace: &str) -> (Value, Vec<String>) {
    let status = ["rollout", "status", "deployment/capstan", "--timeout=90s", "-n", namespace];
    cluster.kubectl(&status).expect("its pods are let in and scheduled");
    let pods = read(cluster, &["pods", "-n", namespace, "-l", "app.kubernetes.io/name=capstan"]);
    let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let pods = pods["items"].as_array().expect("a list").iter().map(name).collect();
    (read(cluster, &["deployment", "capstan", "-n", namespace]), pods)
}

/// Writes what a pod of the Deployment has mounted below `folder`, at the same paths.
pub fn mount(cluster: &ControlPlane, deployment: &Value, folder: &Path) {
    let namespace = deployment["metadata"]["namespace"].as_str().expect("a namespace");
    let pod = &deployment["spec"]["template"]["spec"];
    for mount in pod["containers"][0]["volumeMounts"].as_array().expect("mounts") {
        let volumes = pod["volumes"].as_array().expect("volumes");
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]);
        let map = volume.expect("its volume")["configMap"]["name"].as_str().expect("a ConfigMap");
        let data = read(cluster, &["configmap", map, "-n", namespace])["data"].clone();
        let to = below(folder, mount["mountPath"].as_str().expect("a path"));
        fs::create_dir_all(&to).expect("a folder");
        for (file, text) in data.as_object().expect("files") {
            fs::write(to.join(file), text.as_str().expect("a text")).expect("written");
        }
    }
}

/// An absolute path, moved below a folder.
pub fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path.strip_prefix('/').expect("an absolute path"))
}

/// The arguments of the Deployment's container.
pub fn arguments(deployment: &Value) -> Vec<String> {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let word = |word: &Value| word.as_str().expect("a word").to_owned();
    args.expect("arguments").iter().map(word).collect()
}

/// Starts the program as a pod of the Deployment would: with the service account's token, the
/// ConfigMap's file and the container's arguments and variables. What is mounted is found below a
/// folder here, and each replica listens at a port of its own.
pub fn replica(cluster: &ControlPlane, deployment: &Value, pod: &str) -> Capstan {
    let namespace = deployment["metadata"]["namespace"].as_str().expect("a namespace");
    let account = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str();
    let kubeconfig = cluster.kubeconfig_of_service_account(namespace, account.expect("an account"));
    let folder = cluster.folder().join(pod);
    mount(cluster, deployment, &folder);
    let mut call = Command::new(cluster.capstan_program().expect("a program"));
    let mut config = None;
    for word in arguments(deployment) {
        match word.strip_prefix("--config=") {
            Some(path) => {
                let path = below(&folder, path);
                call.arg(format!("--config={}", path.display()));
                config = Some(path);
            }
            None => drop(call.arg(word)),
        }
    }
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for variable in container["env"].as_array().expect("variables") {
        let of = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        assert_eq!(of, "metadata.namespace", "a pod's");
        call.env(variable["name"].as_str().expect("a name"), namespace);
    }
    call.env("KUBECONFIG", kubeconfig.expect("a token"));
    let config = config.expect("the arguments name the configuration");
    cluster.capstan_called(pod, call, &config).expect("started")
}

/// The paths of the container's probes answer once a replica is up.
pub fn probed(cluster: &ControlPlane, deployment: &Value, capstan: &Capstan) {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        capstan.get(cluster, path).unwrap_or_else(|error| panic!("{probe}: {error:?}"));
    }
}
