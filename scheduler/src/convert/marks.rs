//! What an object says to schedulers: our labels and annotations, and who owns it.
//!
//! Decides which keys are kept at all, and which owner is looked at next.

use std::collections::BTreeMap;

use capstan_core::model::input::{Labels, Text};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::sharing::Shared;
use crate::api::keys;
use crate::gangs::kinds::TABLE;

/// Labels and annotations of ours (and of Kueue) on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marks {
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// The PodGroup of Kubernetes itself that the spec names.
    pub scheduling_group: Option<Text>,
}

/// An owner as an object names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerName {
    /// Kind.
    pub kind: Text,
    /// Name.
    pub name: Text,
    /// Unique id; empty where a manifest leaves it out.
    pub uid: Text,
}

impl Marks {
    /// A label, else an annotation, of this key.
    pub fn any(&self, key: &str) -> Option<&Text> {
        self.labels.get(key).or_else(|| self.annotations.get(key))
    }

    /// Keys of ours that nobody knows, and those of ours or of Kueue's that change nothing, each
    /// with what is wrong with it.
    pub fn odd_keys(&self) -> impl Iterator<Item = Text> + '_ {
        let annotations = self.annotations.iter();
        let annotations = annotations.filter(|(key, _)| !self.labels.contains_key(*key));
        let all = self.labels.iter().chain(annotations);
        all.filter_map(|(key, value)| Some(format!("{key}: {}", keys::problem(key, value)?).into()))
    }

    /// The marks of an object.
    pub fn of(meta: &ObjectMeta, shared: &mut Shared) -> Marks {
        let mut keep = |map: &Option<BTreeMap<String, String>>| -> Labels {
            map.iter()
                .flatten()
                .filter(|(key, _)| is_mark(key))
                .map(|(key, value)| (shared.texts.text(key), shared.texts.text(value)))
                .collect()
        };
        let (labels, annotations) = (keep(&meta.labels), keep(&meta.annotations));
        Marks { labels, annotations, scheduling_group: None }
    }
}

fn is_mark(key: &str) -> bool {
    key.starts_with(keys::PREFIX)
        // What tells one member from the other would cost memory for each.
        || key.starts_with("kueue.x-k8s.io/") && key != keys::KUEUE_GROUP_INDEX
        || keys::OF_GANGS.contains(&key)
}

/// The kinds of owners that every cluster has and that are read, with their API groups.
const PLAIN_OWNERS: [(&str, &str); 4] =
    [("Job", "batch"), ("ReplicaSet", "apps"), ("StatefulSet", "apps"), ("Deployment", "apps")];

/// The kind of owners that nobody reads and that all the same keep their pods where they are, with
/// its API group.
pub const DAEMON_SET: (&str, &str) = ("DaemonSet", "apps");

/// The API group of owners of this kind that are read.
pub fn owner_group(kind: &str) -> Option<&'static str> {
    let plain = PLAIN_OWNERS.iter().find(|(name, _)| *name == kind).map(|(_, group)| *group);
    let others = || TABLE.iter().find(|row| row.key == kind && !row.kind.is_group());
    plain.or_else(|| others().map(|row| row.group))
}

/// The owner that controls an object, else its first. A kind that another API group has too (a
/// `Job` of Volcano's) is told from ours by that group.
pub fn owner(meta: &ObjectMeta, shared: &mut Shared) -> Option<OwnerName> {
    let owners = meta.owner_references.as_deref()?;
    let owner =
        owners.iter().find(|owner| owner.controller == Some(true)).or_else(|| owners.first())?;
    let group = owner.api_version.rsplit_once('/').map_or("", |it| it.0);
    let daemons = (owner.kind == DAEMON_SET.0).then_some(DAEMON_SET.1);
    let ours = owner_group(&owner.kind).or(daemons);
    let foreign = !owner.api_version.is_empty() && ours.is_some_and(|ours| ours != group);
    let kind = match foreign {
        true => shared.texts.text(&format!("{}.{group}", owner.kind)),
        false => shared.texts.text(&owner.kind),
    };
    Some(OwnerName {
        kind,
        name: shared.texts.text(&owner.name),
        uid: shared.texts.text(&owner.uid),
    })
}

/// Whether a template leaves it to Kubernetes, or to a webhook, who schedules its pods.
pub fn names_nobody(scheduler: Option<&str>) -> bool {
    scheduler.is_none_or(|name| name.is_empty() || name == "default-scheduler")
}

/// The namespace of an object; absent: `default`.
pub fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or("default")
}

/// The unique id of an object; absent: `kind/namespace/name`.
pub fn uid(meta: &ObjectMeta, kind: &str) -> Text {
    match meta.uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => uid.into(),
        None => format!("{kind}/{}/{}", namespace(meta), name(meta)).into(),
    }
}

/// The name of an object.
pub fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// All labels of an object.
pub fn labels(map: &Option<BTreeMap<String, String>>, shared: &mut Shared) -> Labels {
    map.iter()
        .flatten()
        .map(|(key, value)| (shared.texts.text(key), shared.texts.text(value)))
        .collect()
}
