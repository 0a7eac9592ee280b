//! Queue objects of Kueue: the same fields in our group, and what has no equal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Migrated, named, our_version, rank};
use crate::convert::quota::Draft;
use crate::read::error::{Place, ReadError};
use crate::read::kinds::{Origin, Queueing};
use crate::read::kueue;
use crate::read::queueing;
use crate::read::schema::prune;

/// What of metadata is people's own.
const KEPT: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Where a queue names what gates it, in v1beta1 and since.
const CHECKS: [&str; 2] = ["spec.admissionChecks", "spec.admissionChecksStrategy"];

/// How many LocalQueues of one missing ClusterQueue are named.
const SHOWN: usize = 5;

/// Characters that the description of a class may have (`api/classes.rs`).
const DESCRIPTION_MAX: usize = 2_048;

/// What `kubectl apply` keeps of the object that was.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Migrated {
    pub(super) fn queueing(
        &mut self,
        place: Place,
        what: Queueing,
        origin: Origin,
        mut value: Value,
    ) {
        queueing::without_nulls(&mut value);
        queueing::upgrade(&mut value, origin);
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let object = named(&kind, &value);
        let text = |key: &str| value["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let wrong = |path: String, problem: String| ReadError {
            place: Some(place.clone()),
            object: Some(object.as_str().into()),
            path: Some(path),
            problem,
        };
        if name.is_empty() {
            return self.errors.push(wrong("metadata.name".to_owned(), "missing".to_owned()));
        }
        if what == Queueing::LocalQueue && namespace.is_empty() {
            let problem = "missing; a LocalQueue is in a namespace".to_owned();
            return self.errors.push(wrong("metadata.namespace".to_owned(), problem));
        }
        let decoded = match queueing::decode(what, origin, (&namespace, &name), &value) {
            Ok(decoded) => decoded,
            Err(findings) => {
                let findings = findings.into_iter().map(|one| wrong(one.path, one.problem));
                return self.errors.extend(findings);
            }
        };
        for (path, problem) in checks(&value).into_iter().chain(forgotten(what, &value)) {
            self.lose(&place, &object, Some(path), problem);
        }
        let unknown: Vec<&str> = decoded.unknown.iter().map(|one| one.path.as_str()).collect();
        for path in unknown.iter().filter(|path| !CHECKS.contains(path)) {
            let (path, problem) = match kueue::renamed(path, origin) {
                Some(of_another_version) => of_another_version,
                None => (*path, "has no equal in Capstan"),
            };
            self.lose(&place, &object, Some(path), problem.to_owned());
        }
        for rule in broken(decoded.draft.as_ref()) {
            let problem = format!("{rule}: Kueue's webhook would not take it, and it is inactive");
            self.lose(&place, &object, None, problem);
        }
        if what == Queueing::Topology {
            for (_, rule) in &decoded.remarks {
                self.lose(&place, &object, None, rule.clone());
            }
        }
        prune(&mut value, "", &unknown);
        if let Some(problem) = cut_description(what, &mut value) {
            self.lose(&place, &object, Some("description"), problem);
        }
        if what == Queueing::ClusterQueue && value["spec"]["namespaceSelector"].is_null() {
            value["spec"]["namespaceSelector"] = nobody();
            let problem = "absent, which for Kueue is no namespace at all: written as a selector \
                           that matches none";
            self.lose(&place, &object, Some("spec.namespaceSelector"), problem.to_owned());
        }
        let identity = (rank(what), namespace, name);
        if self.objects.insert(identity, ours(&kind, &value)).is_some() {
            let problem = "given twice; leave one out".to_owned();
            self.errors.push(wrong("metadata.name".to_owned(), problem));
        }
    }

    /// What is said of LocalQueues whose ClusterQueue is not there.
    pub(super) fn queues_of_none(&self) -> Vec<String> {
        let of =
            |what: Queueing| self.objects.iter().filter(move |((kind, ..), _)| *kind == rank(what));
        let there: BTreeSet<&str> =
            of(Queueing::ClusterQueue).map(|((.., name), _)| name.as_str()).collect();
        let mut without: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((_, namespace, name), object) in of(Queueing::LocalQueue) {
            let named = object["spec"]["clusterQueue"].as_str();
            let missing = |queue: &&str| !queue.is_empty() && !there.contains(queue);
            if let Some(queue) = named.filter(missing) {
                without.entry(queue).or_default().push(format!("{namespace}/{name}"));
            }
        }
        let said = |(queue, local): (&str, Vec<String>)| {
            let (kind, are) = if local.len() == 1 { ("", "is") } else { ("s", "are") };
            let shown = local.len().min(SHOWN);
            let more = match local.len() - shown {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "LocalQueue{kind} {}{more} {are} of ClusterQueue {queue}, which is not among these \
                 objects: work that names such a queue waits, as in Kueue, until it exists",
                local[..shown].join(", ")
            )
        };
        without.into_iter().map(said).collect()
    }

    /// A kind of Kueue that we have nothing for.
    pub(super) fn without_equal(&mut self, place: Place, version: &str, kind: &str, value: &Value) {
        // Its own bookkeeping; ours is made anew.
        if kind == "Workload" {
            return self.workload(place, value);
        }
        let problem = kueue::without_equal(kind, value).unwrap_or_else(|| {
            format!("is of {version}, which is not read; export it as v1beta1 or v1beta2")
        });
        let object = named(kind, value);
        self.lose(&place, &object, None, problem);
    }
}

/// Names of the checks that gate what a queue admits, and what becomes of that.
fn checks(value: &Value) -> Vec<(&'static str, String)> {
    let plain = value["spec"]["admissionChecks"].as_array();
    let plain = plain.into_iter().flatten().filter_map(Value::as_str);
    let strategy = value["spec"]["admissionChecksStrategy"]["admissionChecks"].as_array();
    let strategy = strategy.into_iter().flatten().filter_map(|check| check["name"].as_str());
    let said = |names: Vec<&str>| {
        let (checks, them) = if names.len() == 1 { ("check", "it") } else { ("checks", "them") };
        let names = names.join(", ");
        format!("admission {checks} {names}: no equal, work starts without waiting for {them}")
    };
    let both = CHECKS.into_iter().zip([plain.collect::<Vec<_>>(), strategy.collect()]);
    let given = both.filter(|(_, names)| !names.is_empty());
    given.map(|(path, names)| (path, said(names))).collect()
}

/// What a cluster knows of an object, and ours will not.
fn forgotten(what: Queueing, value: &Value) -> Vec<(&'static str, String)> {
    let mut forgotten = Vec::new();
    if value["metadata"]["deletionTimestamp"].is_string() {
        let problem = "it is being deleted, and is written as one that stays: leave it out, or \
                       delete it again once its work has ended";
        forgotten.push(("metadata.deletionTimestamp", problem.to_owned()));
    }
    let used = &value["status"]["fairSharing"]["admissionFairSharingStatus"]["consumedResources"];
    let any = used.as_object().is_some_and(|amounts| !amounts.is_empty());
    if what == Queueing::LocalQueue && any {
        let problem = "what it used of late for admission fair sharing is not carried over: it \
                       begins as one that used nothing";
        forgotten.push(("status.fairSharing", problem.to_owned()));
    }
    forgotten
}

/// Rules that an object breaks.
fn broken(draft: Option<&Draft>) -> Vec<String> {
    let rules = match draft {
        Some(Draft::ClusterQueue(queue, _)) => &queue.broken,
        Some(Draft::LocalQueue(queue, _)) => &queue.broken,
        Some(Draft::Cohort(cohort)) => &cohort.broken,
        Some(Draft::Flavor(flavor)) => &flavor.broken,
        _ => return Vec::new(),
    };
    rules.iter().map(ToString::to_string).collect()
}

/// Cuts a description that our API server would not take for its length, which Kueue's v1beta1 does
/// not bound; says so.
fn cut_description(what: Queueing, value: &mut Value) -> Option<String> {
    let text = value["description"].as_str().filter(|_| what == Queueing::WorkloadPriorityClass)?;
    let (end, _) = text.char_indices().nth(DESCRIPTION_MAX)?;
    let (all, cut) = (text.chars().count(), text[..end].to_owned());
    value["description"] = cut.into();
    Some(format!("has {all} characters, and is cut after {DESCRIPTION_MAX}: no more are taken"))
}

/// A selector that matches nothing: every namespace has this label, or none has it.
fn nobody() -> Value {
    let key = "kubernetes.io/metadata.name";
    json!({ "matchExpressions": [
        { "key": key, "operator": "Exists" },
        { "key": key, "operator": "DoesNotExist" },
    ]})
}

/// The object in our group, without what a cluster adds.
fn ours(kind: &str, value: &Value) -> Value {
    let mut meta = Map::new();
    for key in KEPT {
        let mut field = value["metadata"][key].clone();
        if let Some(fields) = field.as_object_mut() {
            fields.remove(LAST_APPLIED);
        }
        let empty = field.as_object().is_some_and(Map::is_empty) || field == "";
        if !field.is_null() && !empty {
            meta.insert(key.to_owned(), field);
        }
    }
    let fields = value.as_object().into_iter().flatten();
    let others = ["apiVersion", "kind", "metadata", "status"];
    let rest = fields.filter(|(key, _)| !others.contains(&key.as_str()));
    let mut object: Map<String, Value> =
        rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    object.insert("apiVersion".to_owned(), our_version().into());
    object.insert("kind".to_owned(), kind.into());
    object.insert("metadata".to_owned(), meta.into());
    object.into()
}
