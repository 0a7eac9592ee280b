//! Jobs of Kubeflow's training operator (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob), and
//! MPIJobs, which are written the same way.
//!
//! All replicas start together unless `schedulingPolicy.minAvailable` says that fewer do. The
//! launcher of an MPIJob that waits for its workers is made once those run: it joins them, and is
//! not waited for; its place is found with theirs, and kept for it.

use super::fields::{Fields, Part};
use super::kinds::Kind;
use super::{finished, volcano};
use crate::convert::Refusal;
use crate::convert::gang::{Quorum, Role, Says};
use crate::convert::sharing::Shared;

/// What such a job says.
pub fn read(
    kind: Kind,
    part: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Says, Vec<Refusal>> {
    let specs = match kind {
        Kind::PyTorchJob => "spec.pytorchReplicaSpecs",
        Kind::TfJob => "spec.tfReplicaSpecs",
        Kind::XgBoostJob => "spec.xgbReplicaSpecs",
        Kind::PaddleJob => "spec.paddleReplicaSpecs",
        Kind::JaxJob => "spec.jaxReplicaSpecs",
        _ => "spec.mpiReplicaSpecs",
    };
    let waits = kind == Kind::MpiJob && part.at(LAUNCHER) == "WaitForWorkersReady";
    let mut roles = Vec::new();
    for (name, value, path) in fields.map(part, specs) {
        let replicas = Part { value, path: &path };
        let count = fields.count(replicas, "replicas").unwrap_or(1);
        let at = replicas.path_of("template");
        let template = Part { value: replicas.at("template"), path: &at };
        let mut role =
            Role::of(&name.to_lowercase(), (template, &fields.namespace), count, shared)?;
        if waits && &*role.name == "launcher" {
            role.quorum = Quorum::Late;
        }
        roles.push(role);
    }
    let (mut active, mut done) = (false, 0_u32);
    for (_, value, path) in fields.map(part, "status.replicaStatuses") {
        let status = Part { value, path: &path };
        active |= fields.count(status, "active").is_some_and(|count| count > 0);
        done = done.saturating_add(fields.count(status, "succeeded").unwrap_or(0));
    }
    let policy = "spec.runPolicy.schedulingPolicy";
    let queue = fields.text(part, &format!("{policy}.queue"));
    let queue = queue.filter(|queue| *queue != volcano::DEFAULT_QUEUE);
    let class = fields.text(part, &format!("{policy}.priorityClass"));
    Ok(Says {
        roles,
        min: fields.above_zero(part, &format!("{policy}.minAvailable")),
        queue: queue.map(|name| shared.texts.text(name)),
        class: class.map(|name| shared.texts.text(name)),
        suspended: fields.flag(part, "spec.runPolicy.suspend"),
        finished: finished(kind, part),
        active,
        ended: done,
        ..Says::default()
    })
}

/// When the launcher of an MPIJob is made.
const LAUNCHER: &str = "spec.launcherCreationPolicy";
