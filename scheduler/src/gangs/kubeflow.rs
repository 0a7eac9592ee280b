//! Jobs of Kubeflow's training operator (PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob), and
//! MPIJobs, which are written the same way.
//!
//! All replicas start together unless `schedulingPolicy.minAvailable` says that fewer do. The
//! launcher of an MPIJob that waits for its workers is made once those run: it joins them, and is
//! not waited for; its place is found with theirs, and kept for it. Without workers it is made at
//! once.

use super::fields::{Fields, Part};
use super::kinds::Kind;
use super::{finished, volcano};
use crate::api::keys;
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
    let mut roles: Vec<Role> = Vec::new();
    for (name, value, path) in fields.map(part, specs) {
        let replicas = Part { value, path: &path };
        let count = fields.count(replicas, "replicas").unwrap_or(1);
        let at = replicas.path_of("template");
        let template = Part { value: replicas.at("template"), path: &at };
        let name = name.to_lowercase();
        let added = labels(kind, part, &name);
        roles.push(Role::of(&name, (template, &fields.namespace, &added[..]), count, shared)?);
    }
    // Without workers there is nobody to wait for.
    let launches = |role: &Role| &*role.name == "launcher";
    if waits && roles.iter().any(|role| !launches(role) && role.count() > 0) {
        let launchers = roles.iter_mut().filter(|role| launches(role));
        launchers.for_each(|role| role.quorum = Quorum::Late);
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
    let suspended = fields.flag(part, "spec.runPolicy.suspend");
    Ok(Says {
        roles,
        min: fields.above_zero(part, &format!("{policy}.minAvailable")),
        queue: queue.map(|name| shared.texts.text(name)),
        class: class.map(|name| shared.texts.text(name)),
        suspended,
        finished: finished(kind, part),
        active,
        // Who is suspended loses all pods, what ended well among them, and makes all of them anew;
        // its status goes on counting those.
        ended: if suspended { 0 } else { done },
        ..Says::default()
    })
}

/// Labels that the controller of such a job gives to the pods of a role, their numbers apart.
fn labels<'a>(kind: Kind, job: Part<'a>, role: &'a str) -> Vec<(&'static str, &'a str)> {
    let name = job.at("metadata.name").as_str().unwrap_or_default();
    // The operator for MPIJobs alone knows no replica types, and that of all training has both.
    let mpi = kind == Kind::MpiJob;
    let alone = mpi && job.at("apiVersion") != "kubeflow.org/v1";
    let operator = match kind {
        Kind::PyTorchJob => "pytorchjob-controller",
        Kind::TfJob => "tfjob-controller",
        Kind::XgBoostJob => "xgboostjob-controller",
        Kind::PaddleJob => "paddlejob-controller",
        Kind::JaxJob => "jaxjob-controller",
        _ if alone => "mpi-operator",
        _ => "mpijob-controller",
    };
    let duty = match role {
        "master" | "chief" => "master",
        role if mpi => role,
        _ => "",
    };
    vec![
        (keys::KUBEFLOW_OPERATOR, operator),
        (keys::KUBEFLOW_JOB, name),
        (keys::KUBEFLOW_ROLE, if alone { "" } else { role }),
        (keys::KUBEFLOW_DUTY, duty),
    ]
}

/// When the launcher of an MPIJob is made.
const LAUNCHER: &str = "spec.launcherCreationPolicy";

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_core::model::input::Text;
    use serde_json::{Value, json};

    #[test]
    fn what_is_suspended_makes_all_of_its_pods_anew() {
        for (suspend, ended) in [(false, 1), (true, 0)] {
            let template = json!({ "spec": { "containers": [{ "name": "c" }] } });
            let workers = json!({ "Worker": { "replicas": 2, "template": template } });
            let job = json!({
                "spec": { "runPolicy": { "suspend": suspend }, "pytorchReplicaSpecs": workers },
                "status": { "replicaStatuses": { "Worker": { "succeeded": 1 } } },
            });
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let of = Kind::PyTorchJob;
            let says = read(of, Part::whole(&job), &mut fields, &mut Shared::default());
            assert_eq!(says.expect("read").ended, ended, "{suspend}");
        }
    }

    #[test]
    fn a_launcher_waits_for_workers_where_there_are_any() {
        let quorum = |specs: Value| {
            let spec = json!({ "launcherCreationPolicy": "WaitForWorkersReady",
                "mpiReplicaSpecs": specs });
            let job = json!({ "metadata": { "name": "j" }, "spec": spec });
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let says = read(Kind::MpiJob, Part::whole(&job), &mut fields, &mut Shared::default());
            let roles = says.expect("read").roles;
            roles.iter().find(|role| &*role.name == "launcher").expect("one").quorum
        };
        let replicas = |count: u32| {
            let template = json!({ "spec": { "containers": [{ "name": "c" }] } });
            json!({ "replicas": count, "template": template })
        };
        let with = |workers: u32| json!({ "Launcher": replicas(1), "Worker": replicas(workers) });
        assert_eq!(quorum(with(2)), Quorum::Late);
        assert_eq!(quorum(with(0)), Quorum::Together);
        assert_eq!(quorum(json!({ "Launcher": replicas(1) })), Quorum::Together);
    }

    #[test]
    fn roles_have_the_labels_that_their_pods_will_have() {
        let of = |kind: Kind, version: &str, specs: &str, role: &str| {
            let template = json!({ "spec": { "containers": [{ "name": "c" }] } });
            let roles = json!({ role: { "replicas": 1, "template": template } });
            let job = json!({ "apiVersion": version, "metadata": { "name": "j" },
                "spec": { specs: roles } });
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let says = read(kind, Part::whole(&job), &mut fields, &mut Shared::default());
            let role = says.expect("read").roles.swap_remove(0);
            let prefix = "training.kubeflow.org/";
            let short = |(key, value): &(Text, Text)| {
                format!("{}={value}", key.strip_prefix(prefix).unwrap_or(key))
            };
            role.labels.iter().map(short).collect::<Vec<String>>().join(" ")
        };
        let torch =
            |role: &str| of(Kind::PyTorchJob, "kubeflow.org/v1", "pytorchReplicaSpecs", role);
        let by = "operator-name=pytorchjob-controller";
        let master = format!("job-name=j job-role=master {by} replica-type=master");
        assert_eq!(torch("Master"), master);
        assert_eq!(torch("Worker"), format!("job-name=j {by} replica-type=worker"));
        let mpi = of(Kind::MpiJob, "kubeflow.org/v2beta1", "mpiReplicaSpecs", "Launcher");
        assert_eq!(mpi, "job-name=j job-role=launcher operator-name=mpi-operator");
    }
}
