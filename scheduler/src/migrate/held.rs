//! Work that is deactivated in Kueue: it must not start because it moved.
//!
//! A Workload of Kueue that says `active: false` becomes one of ours that says so, where it is
//! certain how the work will be called here: it is that of one job, after which we name it, and no
//! other job of that name has a Workload. The owner's uid is left out, as everywhere: what is
//! applied to another cluster has to hold there, too; and it does not say whose it is, so that it
//! stays until work bears its name, whatever the scheduler is called. All others are named, each
//! with its object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Migrated, named, our_version, rank};
use crate::gangs::kinds::Kind;
use crate::read::error::Place;
use crate::read::kinds::Queueing;
use crate::read::kueue::is_deactivated;

/// What is said of work that nothing will hold.
const STARTS: &str = "false, and it is not certain what its work will be called here, where it \
    starts: stop it, or write a Workload of capstan.sh of the name that Capstan shows, with \
    spec.active: false";

/// Workloads of Kueue.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Kinds of the jobs of each namespace and name that have one.
    jobs: BTreeMap<(String, String), BTreeSet<String>>,
    /// Those that are deactivated: where each was read, what it is called there, its job.
    deactivated: Vec<(Place, String, Option<Job>)>,
}

/// A job after which we name its work.
#[derive(Debug)]
struct Job {
    namespace: String,
    name: String,
    kind: String,
}

impl Migrated {
    /// A Workload of Kueue.
    pub(super) fn workload(&mut self, place: Place, value: &Value) {
        self.saw_workloads = true;
        let job = job(value);
        if let Some(job) = &job {
            let name = (job.namespace.clone(), job.name.clone());
            self.seen.jobs.entry(name).or_default().insert(job.kind.clone());
        }
        match is_deactivated(value) {
            true => self.seen.deactivated.push((place, named("Workload", value), job)),
            false => *self.kept_back.entry("Workload".to_owned()).or_default() += 1,
        }
    }

    /// Makes ours of those that are deactivated, once all are known.
    pub(super) fn hold_deactivated(&mut self) {
        let Seen { jobs, deactivated } = std::mem::take(&mut self.seen);
        for (place, object, job) in deactivated {
            let only = |job: &Job| {
                let name = (job.namespace.clone(), job.name.clone());
                jobs.get(&name).is_some_and(|kinds| kinds.len() == 1)
            };
            let Some(Job { namespace, name, kind }) = job.filter(only) else {
                self.lose(&place, &object, Some("spec.active"), STARTS.to_owned());
                continue;
            };
            let ours = json!({
                "apiVersion": our_version(),
                "kind": "Workload",
                "metadata": { "name": name, "namespace": namespace },
                "spec": { "active": false },
            });
            self.held.push(format!("{namespace}/{name} ({kind})"));
            self.objects.insert((rank(Queueing::Workload), namespace, name), ours);
        }
    }
}

/// The one job that a Workload is of, if it is of a kind whose work bears its name.
fn job(value: &Value) -> Option<Job> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    text(&value["spec"]["queueName"])?;
    let [owner] = value["metadata"]["ownerReferences"].as_array()?.as_slice() else {
        return None;
    };
    let (version, kind) = (text(&owner["apiVersion"])?, text(&owner["kind"])?);
    let bears_its_name = match Kind::of_object(&version, &kind) {
        None => (&*version, &*kind) == ("batch/v1", "Job"),
        Some(kind) => matches!(
            kind,
            Kind::TrainJob
                | Kind::JobSet
                | Kind::PyTorchJob
                | Kind::TfJob
                | Kind::XgBoostJob
                | Kind::PaddleJob
                | Kind::JaxJob
                | Kind::MpiJob
                | Kind::RayJob
                | Kind::RayCluster
        ),
    };
    let (name, namespace) = (text(&owner["name"])?, text(&value["metadata"]["namespace"])?);
    bears_its_name.then_some(Job { namespace, name, kind })
}
