//! Work: what its labels, annotations and `managedBy` ask of Kueue and nobody here gives.
//!
//! Looked for on the object and on every template in it, wherever its kind keeps those. Pods of a
//! Job repeat what its template says: of objects of one kind and namespace that lose the same, the
//! first is named and the others are counted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Migrated, named};
use crate::api::{keys, no_equal};
use crate::read::error::{Notice, Place};

/// Kind, namespace and field of what was lost, to where it is said and of how many more.
pub(super) type Said = BTreeMap<(String, String, String), (usize, usize)>;

impl Migrated {
    pub(super) fn work(&mut self, place: &Place, kind: String, value: &Value) {
        let mut lost = Vec::new();
        find(value, "", &mut lost);
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
        for (field, instead) in lost {
            self.lost_work += 1;
            let said = (kind.clone(), namespace.to_owned(), field.clone());
            if let Some((_, more)) = self.said.get_mut(&said) {
                *more += 1;
                continue;
            }
            self.said.insert(said, (self.lost.len(), 0));
            let problem = format!("has no equal in Capstan: {instead}");
            self.lose(place, &named(&kind, value), Some(&field), problem);
        }
        if value["metadata"]["labels"][keys::KUEUE_QUEUE].is_string() {
            *self.work.entry(kind).or_default() += 1;
        }
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
