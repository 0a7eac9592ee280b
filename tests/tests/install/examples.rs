//! The manifests that people copy first, applied as they are: two teams that borrow from each
//! other, and a training Job.

use capstan_tests::cluster::{ControlPlane, GpuNodes, eventually};
use serde_json::Value;

use crate::scene::holds;
use crate::setup::{NAMESPACE, SOON, cluster, deployed, path, read, replica};

/// The nodes that the examples speak of.
fn nodes() -> [GpuNodes; 3] {
    let a100 = |prefix: &str, capacity_type: &str| GpuNodes {
        instance_type: "p4d.24xlarge".to_owned(),
        capacity_type: capacity_type.to_owned(),
        product: "NVIDIA-A100-SXM4-40GB".to_owned(),
        cpus: 96,
        memory_gib: 1152,
        ..GpuNodes::new(prefix, 2)
    };
    let t4 = GpuNodes {
        instance_type: "g4dn.12xlarge".to_owned(),
        product: "Tesla-T4".to_owned(),
        gpus: 4,
        cpus: 48,
        memory_gib: 192,
        ..GpuNodes::new("t4", 2)
    };
    [a100("spot", "spot"), a100("demand", "on-demand"), t4]
}

/// The other team wants what it owns: two pods of eight GPUs.
const CLAIM: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: claim
  namespace: language
  labels: {capstan.sh/priority-class: research}
spec:
  completionMode: Indexed
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: capstan
      restartPolicy: Never
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}
      containers:
      - name: main
        image: registry.example.com/language:1
        resources: {limits: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}
"#;

/// Waits until a workload is in a state; the whole of it.
fn workload(cluster: &ControlPlane, namespace: &str, name: &str, state: &str) -> Value {
    let found = eventually(&format!("{name} is {state}"), SOON, || {
        let said = cluster
            .kubectl(&["get", "wl", name, "--namespace", namespace, "--output", "json"])
            .map_err(|e| e.to_string())?;
        let found: Value = serde_json::from_str(&said).map_err(|e| e.to_string())?;
        if found["status"]["state"] == state { Ok(found) } else { Err(said) }
    });
    found.unwrap_or_else(|trouble| {
        let seen = cluster.kubectl(&["get", "wl,cq,lq,jobs,pods", "-A"]).unwrap_or_default();
        panic!("{trouble}\n{seen}")
    })
}

/// Names of all Workloads that were ever made in a namespace: one for a Job, whatever becomes of
/// it.
fn made(cluster: &ControlPlane, namespace: &str) -> Vec<String> {
    let mut all = cluster.audited().expect("the audit log");
    all.retain(|one| one.verb == "create" && one.resource == "workloads");
    all.retain(|one| one.namespace == namespace);
    all.into_iter().map(|one| one.name).collect()
}

/// GPUs used and owned, A100 and T4, as a ClusterQueue shows them.
fn gpus(cluster: &ControlPlane, queue: &str, shown: &str) {
    let waited = eventually(&format!("{queue}: {shown}"), SOON, || {
        let found = read(cluster, &["cq", queue]);
        let is = found["status"]["gpus"].as_str().unwrap_or_default().to_owned();
        if is == shown { Ok(()) } else { Err(is) }
    });
    waited.expect("it is shown");
}

#[test]
fn a_training_job_borrows_until_the_owner_wants_its_own() {
    let cluster = cluster(&nodes());
    // Twice, as people do; then nothing is left to change.
    for _ in 0..2 {
        let words = ["apply", "--server-side", "-k", &path("manifests")];
        cluster.kubectl(&words).expect("applied");
    }
    let words = ["diff", "--server-side", "-k", &path("manifests")];
    assert_eq!(cluster.kubectl(&words).expect("nothing differs"), "");
    let (deployment, pods) = deployed(&cluster, NAMESPACE);
    let mut capstan = replica(&cluster, &deployment, &pods[0]);
    capstan.wait_until(&cluster, "leading").expect("it leads");

    for file in ["two-teams", "training-job"] {
        let file = path(&format!("manifests/examples/{file}.yaml"));
        cluster.kubectl(&["apply", "-f", &file]).expect("applied");
    }
    let train = workload(&cluster, "vision", "train", "Running");
    assert_eq!(train["status"]["gpus"], 32, "{train}");
    assert_eq!(train["spec"]["queueName"], "default");
    // All four at once: 16 of its own and 16 borrowed.
    gpus(&cluster, "team-vision", "32/20");
    gpus(&cluster, "team-language", "0/20");

    cluster.apply(CLAIM).expect("applied");
    let claim = workload(&cluster, "language", "claim", "Running");
    assert_eq!(claim["status"]["gpus"], 16, "{claim}");
    // The gang leaves whole, and waits without having failed.
    let train = workload(&cluster, "vision", "train", "Queued");
    assert!(train["status"]["reason"].is_string(), "{train}");
    gpus(&cluster, "team-vision", "0/20");
    gpus(&cluster, "team-language", "16/20");
    let job = read(&cluster, &["job", "train", "--namespace", "vision"]);
    assert!(holds(&job, "Suspended") && !holds(&job, "Failed"), "{}", job["status"]);

    cluster.kubectl(&["delete", "job", "claim", "--namespace", "language"]).expect("deleted");
    workload(&cluster, "vision", "train", "Running");
    assert_eq!(made(&cluster, "vision"), ["train"]);
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
}
