//! Fake GPU nodes: what a cloud would have provisioned, by label and by capacity.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::plane::ControlPlane;
use super::trouble::{Result, Trouble};
use super::wait::eventually;

/// Nodes that are made at once.
const AT_ONCE: usize = 64;
/// How long nodes may take to be ready: a bound for thousands of them on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// A number of like nodes, named `<prefix>-0` and so on. The rack changes every `per_rack`
/// nodes.
#[derive(Clone, Debug)]
pub struct GpuNodes {
    /// Start of their names.
    pub prefix: String,
    /// How many.
    pub count: usize,
    /// `node.kubernetes.io/instance-type`; what prices go by.
    pub instance_type: String,
    /// `karpenter.sh/capacity-type`: spot, on-demand, reserved.
    pub capacity_type: String,
    /// `topology.kubernetes.io/region`.
    pub region: String,
    /// `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Nodes in a rack (`topology.kubernetes.io/rack`).
    pub per_rack: usize,
    /// `nvidia.com/gpu.product`.
    pub product: String,
    /// `nvidia.com/gpu` of each.
    pub gpus: u32,
    /// CPUs of each.
    pub cpus: u32,
    /// Memory of each, in GiB.
    pub memory_gib: u32,
    /// Further labels.
    pub labels: Vec<(String, String)>,
    /// Taint `nvidia.com/gpu=true:NoSchedule`, as clouds put on GPU nodes.
    pub tainted: bool,
}

impl GpuNodes {
    /// Plain nodes of 8 H100s on demand, in racks of 16.
    pub fn new(prefix: &str, count: usize) -> GpuNodes {
        GpuNodes {
            prefix: prefix.to_owned(),
            count,
            instance_type: "p5.48xlarge".to_owned(),
            capacity_type: "on-demand".to_owned(),
            region: "us-east-1".to_owned(),
            zone: "us-east-1a".to_owned(),
            per_rack: 16,
            product: "NVIDIA-H100-80GB-HBM3".to_owned(),
            gpus: 8,
            cpus: 192,
            memory_gib: 2048,
            labels: Vec::new(),
            tainted: false,
        }
    }

    /// The manifest of one.
    pub fn manifest(&self, at: usize, ready: bool) -> Value {
        let name = format!("{}-{at}", self.prefix);
        let mut labels = json!({
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": self.instance_type,
            "karpenter.sh/capacity-type": self.capacity_type,
            "topology.kubernetes.io/region": self.region,
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/rack": format!("{}-rack-{}", self.prefix, at / self.per_rack),
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.count": self.gpus.to_string(),
        });
        for (key, value) in &self.labels {
            labels[key] = json!(value);
        }
        let amounts = json!({
            "cpu": self.cpus.to_string(),
            "memory": format!("{}Gi", self.memory_gib),
            "pods": "110",
            "nvidia.com/gpu": self.gpus.to_string(),
        });
        let taint = json!({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"});
        let taints = if self.tainted { vec![taint] } else { Vec::new() };
        let condition = json!({"type": "Ready", "status": "True", "reason": "Played"});
        let conditions = if ready { vec![condition] } else { Vec::new() };
        // One image has lost its last name, as on many nodes; the API server shows that as null.
        let images =
            json!([{"names": ["driver:1"], "sizeBytes": 1}, {"names": [], "sizeBytes": 1}]);
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": conditions,
                "images": images,
            },
        })
    }
}

impl ControlPlane {
    /// Makes nodes and waits until all of them can take pods.
    pub fn create_nodes(&self, nodes: &GpuNodes) -> Result<()> {
        assert!(nodes.per_rack > 0, "a rack has nodes");
        // Without kwok nobody else would say that they are ready; benchmarks do not wait for it.
        let ready = !self.options().kwok || self.options().unbounded;
        let api: Api<Node> = Api::all(self.client()?);
        let all: Vec<usize> = (0..nodes.count).collect();
        for some in all.chunks(AT_ONCE) {
            self.block_on(async {
                let mut made = JoinSet::new();
                for at in some {
                    let node = serde_json::from_value(nodes.manifest(*at, ready));
                    let node: Node = node.map_err(|e| Trouble::new(format!("a node: {e}")))?;
                    let api = api.clone();
                    made.spawn(async move { api.create(&PostParams::default(), &node).await });
                }
                for one in made.join_all().await {
                    one?;
                }
                Ok::<(), Trouble>(())
            })?;
        }
        eventually("nodes that can take pods", READY_WITHIN, || {
            let listed = self.block_on(api.list(&ListParams::default()));
            let listed = listed.map_err(|e| Trouble::from(e).to_string())?;
            let ours = |node: &&Node| name(node).starts_with(&format!("{}-", nodes.prefix));
            let usable = listed.iter().filter(ours).filter(|node| is_usable(node)).count();
            if usable >= nodes.count {
                return Ok(());
            }
            Err(format!("{usable} of {}", nodes.count))
        })
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// Ready, and without the taints of a node that is not.
fn is_usable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut ready = conditions.filter(|c| c.type_ == "Ready" && c.status == "True");
    ready.next().is_some() && !taints.into_iter().any(|t| t.key.starts_with("node.kubernetes.io/"))
}
