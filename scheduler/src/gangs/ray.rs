//! RayClusters, and RayJobs, which make one.
//!
//! The head and all workers start together; with Ray's own autoscaler on, the least workers of
//! each group do. The pod that submits a RayJob is a Job of its own: it runs when the cluster is
//! up.

use super::fields::{Fields, Part};
use super::finished;
use super::kinds::Kind;
use crate::convert::Refusal;
use crate::convert::gang::{Role, Says};
use crate::convert::sharing::Shared;

/// What a RayCluster or RayJob says.
pub fn read(
    kind: Kind,
    part: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Says, Vec<Refusal>> {
    let (spec, status) = match kind {
        Kind::RayJob => ("spec.rayClusterSpec", "status.rayClusterStatus"),
        _ => ("spec", "status"),
    };
    let workers = fields.count(part, &format!("{status}.availableWorkerReplicas"));
    Ok(Says {
        roles: roles(Part { value: part.at(spec), path: spec }, fields, shared)?,
        suspended: fields.flag(part, "spec.suspend"),
        finished: finished(kind, part),
        active: workers.is_some_and(|count| count > 0),
        ..Says::default()
    })
}

/// Head and groups of workers; nothing where a RayJob uses a cluster that is there.
fn roles(
    cluster: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Vec<Role>, Vec<Refusal>> {
    if cluster.at("headGroupSpec").is_null() {
        return Ok(Vec::new());
    }
    let at = cluster.path_of("headGroupSpec.template");
    let head = Part { value: cluster.at("headGroupSpec.template"), path: &at };
    let mut roles = vec![Role::of("head", (head, &fields.namespace), 1, shared)?];
    let scales = fields.flag(cluster, "enableInTreeAutoscaling");
    for (value, path) in fields.list(cluster, "workerGroupSpecs") {
        let group = Part { value, path: &path };
        if fields.flag(group, "suspend") {
            continue;
        }
        let name = fields.text(group, "groupName").unwrap_or("workers");
        let least = fields.count(group, "minReplicas").unwrap_or(0);
        let replicas = fields.count(group, "replicas").unwrap_or(least);
        let hosts = fields.above_zero(group, "numOfHosts").unwrap_or(1);
        let at = group.path_of("template");
        let template = Part { value: group.at("template"), path: &at };
        let mut role = Role::of(name, (template, &fields.namespace), hosts, shared)?;
        role.jobs = replicas;
        role.least = if scales { least.min(replicas) } else { replicas }.saturating_mul(hosts);
        roles.push(role);
    }
    Ok(roles)
}
