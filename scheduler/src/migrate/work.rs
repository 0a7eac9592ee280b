//! Work: what its labels, annotations and `managedBy` ask of Kueue and nobody here gives.
//!
//! Looked for on the object and on every template in it, wherever its kind keeps those. Pods of a
//! Job repeat what its template says: of objects of one kind and namespace that lose the same, the
//! first is named and the others are counted. Work of a kind that is not read is named as well: a
//! queue label does nothing on it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Migrated, named};
use crate::api::{keys, no_equal};
use crate::gangs::kinds::TABLE;
use crate::read::error::{Notice, Place};
use crate::read::kinds::{self, Known};

/// What becomes of work of a kind that is not read.
const UNREAD: &str = "has no equal in Capstan: this kind is not read, so nothing starts it where \
    it is suspended, and of its pods only those are in a queue whose own labels, or those of an \
    owner that is read, name one";

/// What becomes of a StatefulSet, whose pods are one group of Kueue's.
const ONE_BY_ONE: &str = "its pods are admitted one by one, not all or none: where they are made \
    at once (podManagementPolicy: Parallel), capstan.sh/gang and capstan.sh/min-member on its \
    template make them start together";

/// Kind, namespace and field of what was lost, to where it is said and of how many more.
pub(super) type Said = BTreeMap<(String, String, String), (usize, usize)>;

impl Migrated {
    pub(super) fn work(&mut self, place: &Place, version: &str, kind: &str, value: &Value) {
        let mut lost = Vec::new();
        find(value, "", &mut lost);
        for (field, instead) in lost {
            let problem = format!("has no equal in Capstan: {instead}");
            self.lose_work(place, (kind, value), field, problem);
        }
        if value["metadata"]["labels"][keys::KUEUE_QUEUE].is_string() {
            self.in_queue(place, version, kind, value);
        }
    }

    /// Work that names a queue: it is counted if its kind is read, and named if not.
    fn in_queue(&mut self, place: &Place, version: &str, kind: &str, value: &Value) {
        let field = format!("metadata.labels[{}]", keys::KUEUE_QUEUE);
        match kinds::known(version, kind) {
            Some(Known::Job) => {
                let least = &value["metadata"]["annotations"][keys::KUEUE_JOB_MIN_PARALLELISM];
                self.with_least += usize::from(least.is_string());
            }
            Some(Known::Owner) if kind == "StatefulSet" && !is_gang(value) => {
                self.lose_work(place, (kind, value), field, ONE_BY_ONE.to_owned());
            }
            Some(Known::Pod | Known::Gang(_) | Known::Owner) => {}
            // A label that all objects of an application have: Kueue looks at it no more than we.
            _ if is_of_kubernetes(version) => return,
            _ => return self.lose_work(place, (kind, value), field, unread(version, kind)),
        }
        *self.work.entry(kind.to_owned()).or_default() += 1;
    }

    /// Notes what work of a kind loses: of those of one namespace the first is named.
    fn lose_work(
        &mut self,
        place: &Place,
        (kind, value): (&str, &Value),
        field: String,
        problem: String,
    ) {
        self.lost_work += 1;
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
        let said = (kind.to_owned(), namespace.to_owned(), field.clone());
        if let Some((_, more)) = self.said.get_mut(&said) {
            *more += 1;
            return;
        }
        self.said.insert(said, (self.lost.len(), 0));
        self.lose(place, &named(kind, value), Some(&field), problem);
    }

    /// Adds how many more there are of each loss that was said of the first only.
    pub(super) fn count_more(&mut self) {
        for ((kind, namespace, _), (at, more)) in std::mem::take(&mut self.said) {
            let Some(Notice { problem, .. }) = self.lost.get_mut(at).filter(|_| more > 0) else {
                continue;
            };
            let within =
                if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            *problem = format!("{problem} (so for {more} more of kind {kind}{within})");
        }
    }
}

/// Whether the pods of an owner name a gang: Kueue writes a group into templates.
fn is_gang(owner: &Value) -> bool {
    let meta = &owner["spec"]["template"]["metadata"];
    let named = [
        &meta["labels"][keys::KUEUE_GROUP_NAME],
        &meta["labels"][keys::GANG],
        &meta["annotations"][keys::GANG],
    ];
    named.iter().any(|name| name.is_string())
}

/// Whether a version is of one of Kubernetes' own API groups.
fn is_of_kubernetes(version: &str) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// What is said of work whose kind, or version of it, is not read.
fn unread(version: &str, kind: &str) -> String {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match TABLE.iter().find(|row| (row.group, row.name) == (group, kind)) {
        Some(row) => {
            format!("is of {version}, which is not read; export it as {}", row.api_version())
        }
        None => UNREAD.to_owned(),
    }
}

/// Fields under `metadata` anywhere in a value, and those that say who makes the pods of a job,
/// that ask for what nobody gives.
fn find(value: &Value, at: &str, lost: &mut Vec<(String, &'static str)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let within = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                match name.as_str() {
                    "metadata" => of_metadata(field, &within, lost),
                    "managedBy" if field == no_equal::MULTIKUEUE => {
                        lost.push((within, no_equal::MADE_ELSEWHERE));
                    }
                    _ => find(field, &within, lost),
                }
            }
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(n, item)| find(item, &format!("{at}[{n}]"), lost));
        }
        _ => {}
    }
}

fn of_metadata(metadata: &Value, at: &str, lost: &mut Vec<(String, &'static str)>) {
    for part in ["labels", "annotations"] {
        for (key, value) in metadata[part].as_object().into_iter().flatten() {
            let instead = no_equal::lost(key, value.as_str().unwrap_or_default());
            if let Some(instead) = instead.or_else(|| no_equal::lost_with_checks(key)) {
                lost.push((format!("{at}.{part}[{key}]"), instead));
            }
        }
    }
}
