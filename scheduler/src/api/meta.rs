//! Object metadata without what schedulers never look at.
//!
//! Decides that `managedFields` (the larger half of many objects) is never decoded, and gives
//! every object with only metadata and a spec one shape.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// The part of `metadata` that is read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlimMeta {
    /// Name.
    pub name: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Unique id.
    pub uid: Option<String>,
    /// Version, for watches.
    pub resource_version: Option<String>,
    /// Version of the spec.
    pub generation: Option<i64>,
    /// Creation time.
    pub creation_timestamp: Option<Time>,
    /// Set once it is being deleted.
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(default)]
    pub owner_references: Vec<OwnerReference>,
}

impl From<SlimMeta> for ObjectMeta {
    fn from(slim: SlimMeta) -> ObjectMeta {
        ObjectMeta {
            name: slim.name,
            namespace: slim.namespace,
            uid: slim.uid,
            resource_version: slim.resource_version,
            generation: slim.generation,
            creation_timestamp: slim.creation_timestamp,
            deletion_timestamp: slim.deletion_timestamp,
            labels: Some(slim.labels).filter(|map| !map.is_empty()),
            annotations: Some(slim.annotations).filter(|map| !map.is_empty()),
            owner_references: Some(slim.owner_references).filter(|list| !list.is_empty()),
            ..ObjectMeta::default()
        }
    }
}

/// Decodes metadata through [`SlimMeta`].
pub fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::deserialize(deserializer).map(ObjectMeta::from)
}

/// Decodes what the API server writes as `null` on many objects where it is empty.
pub fn empty_if_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Nothing but metadata: namespaces and the owners between a pod and its workload.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct OnlyMeta {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
}

/// An object of metadata and spec; an absent spec is an empty one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Object<S: Default> {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: S,
}
