//! Objects of other schedulers, turned into ours.
//!
//! Problem: who moves from Kueue has queues, flavors and a configuration that are written down and
//! tuned. They mean the same here, but for what has no equal, and nobody must find that out from
//! work that starts when it should not.
//!
//! Wanted: what comes out is accepted by an API server with our CRDs and decides as what went in
//! does here; what has no equal is named, each with its object and field, and never left out in
//! silence; nothing of a cluster's own bookkeeping (uids, finalizers, status) is carried over. One
//! object's mistake hides no other.
//!
//! Phases: files are read object by object (dumps of any size; what is not Kueue's is dropped at
//! once) -> [`objects`] makes ours of queue objects, [`configuration`] of Kueue's configuration,
//! [`held`] of work that is deactivated, [`work`] finds what jobs and pods ask for in vain ->
//! printed in the order in which others refer to them. Nothing is written to a cluster: that is
//! `kubectl apply`, after a look at it.

mod configuration;
mod held;
mod objects;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use capstan_core::explain::quantity::counted;
use serde_json::{Map, Value};

use crate::api::{GROUP, KUEUE_GROUP};
use crate::read;
use crate::read::error::{Notice, Place, ReadError};
use crate::read::kinds::{self, Known, Queueing};

/// What is said of each queue's work that runs.
const RUNNING: &str = "quota that Kueue's own work holds is not counted by Capstan until that work \
    has ended: drain a queue in Kueue (stopPolicy: HoldAndDrain), or delete its work, before \
    Capstan admits work of it";

/// What is said of Jobs that may start with fewer pods.
const FEWER: &str = "with kueue.x-k8s.io/job-min-parallelism, which Capstan reads too: at least so \
    many pods start together; parallelism stays as it is, so that all are made, and the others \
    join them once there are quota and room";

/// What is said where no Workload was given.
const NONE_SEEN: &str = "no Workload of Kueue was given: work that is deactivated there \
    (spec.active: false) starts here, unless those are given too (kubectl get \
    workloads.kueue.x-k8s.io -A -o yaml)";

/// What came of it.
#[derive(Debug, Default)]
pub struct Migrated {
    /// Our objects, in the order in which others refer to them.
    pub objects: BTreeMap<Identity, Value>,
    /// Our configuration, if there was one.
    pub configuration: Option<Value>,
    /// What has no equal, or is not as it was.
    pub lost: Vec<Notice>,
    /// Work that names queues, by kind: it has to name our scheduler.
    pub work: BTreeMap<String, usize>,
    /// Jobs of these that may start with fewer pods.
    with_least: usize,
    /// The configuration says what Kueue's does not, and takes for granted.
    ready_written: bool,
    /// The configuration, of the older version, has pods waited for and does not say how long those
    /// of work that runs may be unready.
    recovery_unsaid: bool,
    /// The configuration says how many requests a second Kueue makes.
    rate_left_out: bool,
    /// Kueue's own bookkeeping, by kind: nobody needs it.
    pub kept_back: BTreeMap<String, usize>,
    /// Work that is deactivated, and held by a Workload of ours.
    held: Vec<String>,
    /// Workloads of Kueue, until all are known.
    seen: held::Seen,
    saw_workloads: bool,
    /// What work loses, however often.
    lost_work: usize,
    said: work::Said,
    errors: Vec<ReadError>,
}

/// What tells one object from another: its kind's place in the order, namespace and name.
pub type Identity = (u8, String, String);

/// Reads files, `-` is standard input, and makes ours of what is Kueue's.
pub fn kueue(paths: &[PathBuf]) -> Result<Migrated, Vec<ReadError>> {
    let mut migrated = Migrated::default();
    let wrong = read::each_object(paths, &mut |place, value| migrated.take(place, value));
    migrated.finish(wrong)
}

/// The same for a text.
pub fn kueue_text(name: &str, text: &str) -> Result<Migrated, Vec<ReadError>> {
    let mut migrated = Migrated::default();
    let wrong = read::each_object_of(name, text, &mut |place, value| migrated.take(place, value));
    migrated.finish(wrong)
}

impl Migrated {
    fn finish(mut self, mut wrong: Vec<ReadError>) -> Result<Migrated, Vec<ReadError>> {
        wrong.append(&mut self.errors);
        self.count_more();
        self.hold_deactivated();
        if wrong.is_empty() { Ok(self) } else { Err(wrong) }
    }

    fn take(&mut self, place: Place, value: Value) {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, _) = version.split_once('/').unwrap_or(("", &version));
        match (group, &*kind) {
            (KUEUE_GROUP, _) => match kinds::known(&version, &kind) {
                Some(Known::Queueing(what, origin)) => self.queueing(place, what, origin, value),
                _ => self.without_equal(place, &version, &kind, &value),
            },
            (configuration::GROUP, "Configuration") => self.configuration(place, value),
            ("", "ConfigMap") => self.configuration_in(&place, &value),
            _ => self.work(&place, &version, &kind, &value),
        }
    }

    /// Notes what an object loses.
    fn lose(&mut self, place: &Place, object: &str, path: Option<&str>, problem: String) {
        self.lost.push(Notice {
            place: Some(place.clone()),
            object: Some(object.into()),
            path: path.map(str::to_owned),
            problem,
        });
    }

    /// All of it as one file, or nothing.
    pub fn manifests(&self) -> String {
        let documents: Vec<String> = self.objects.values().map(yaml).collect();
        documents.join("---\n")
    }

    /// What is worth knowing that is no loss.
    pub fn notes(&self) -> Vec<String> {
        let list = |kinds: &BTreeMap<String, usize>| {
            let parts = kinds.iter().map(|(kind, count)| counted(*count as i64, kind));
            parts.collect::<Vec<_>>().join(", ")
        };
        let mut notes = Vec::new();
        if !self.work.is_empty() {
            let but = match self.lost_work {
                0 => "",
                _ => "; what has no equal of what it asks is said above",
            };
            notes.push(format!(
                "{} with Kueue's queue label, which Capstan reads too: schedulerName: capstan is \
                 to be added to the spec of the pods{but}",
                list(&self.work)
            ));
        }
        if self.with_least > 0 {
            notes.push(format!("{} {FEWER}", counted(self.with_least as i64, "Job")));
        }
        if self.work.contains_key("Deployment") {
            notes.push("pods of Deployments are admitted one by one, as in Kueue".to_owned());
        }
        if self.objects.keys().any(|(kind, ..)| *kind == rank(Queueing::ClusterQueue)) {
            notes.push(RUNNING.to_owned());
            if !self.saw_workloads {
                notes.push(NONE_SEEN.to_owned());
            }
        }
        notes.extend(self.queues_of_none());
        if !self.held.is_empty() {
            notes.push(format!(
                "deactivated in Kueue, and held here by a Workload of that name with \
                 spec.active: false: {}",
                self.held.join(", ")
            ));
        }
        if self.ready_written {
            notes.push(configuration::READY_WRITTEN.to_owned());
        }
        if self.recovery_unsaid {
            notes.push(configuration::RECOVERS_WITHIN.to_owned());
        }
        if self.rate_left_out {
            notes.push(configuration::RATE_LEFT_OUT.to_owned());
        }
        if !self.kept_back.is_empty() {
            let kept_back = list(&self.kept_back);
            notes.push(format!("{kept_back} left out: Capstan makes its own from pods and jobs"));
        }
        notes
    }

    /// The configuration as a file.
    pub fn configuration_file(&self) -> Option<String> {
        self.configuration.as_ref().map(yaml)
    }
}

/// Kind and full name.
fn named(kind: &str, value: &Value) -> String {
    let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default();
    match text("namespace") {
        "" => format!("{kind} {}", text("name")),
        namespace => format!("{kind} {namespace}/{}", text("name")),
    }
}

/// The place of a kind among those that refer to each other.
fn rank(what: Queueing) -> u8 {
    match what {
        Queueing::Topology => 0,
        Queueing::ResourceFlavor => 1,
        Queueing::WorkloadPriorityClass => 2,
        Queueing::Cohort => 3,
        Queueing::ClusterQueue => 4,
        Queueing::LocalQueue => 5,
        Queueing::Workload => 6,
    }
}

/// The version of our objects.
fn our_version() -> String {
    format!("{GROUP}/v1alpha1")
}

/// A document with what names an object first.
fn yaml(object: &Value) -> String {
    let none = Map::new();
    let fields = object.as_object().unwrap_or(&none);
    let first = ["apiVersion", "kind", "metadata"];
    let named = first.iter().filter_map(|key| Some((*key, fields.get(*key)?)));
    let rest = fields.iter().filter(|(key, _)| !first.contains(&key.as_str()));
    let all = named.chain(rest.map(|(key, value)| (key.as_str(), value)));
    let part = |(key, value): (&str, &Value)| {
        let one = BTreeMap::from([(key, value)]);
        serde_saphyr::to_string(&one).expect("an object is plain data")
    };
    all.map(part).collect()
}
