//! Types that are watched as they are: metadata of owners, and queue objects undecoded.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lenient::Lenient;
use crate::api::devices::DeviceObject;
use crate::api::meta::{OnlyMeta, SlimMeta, slim};
use crate::gangs;
use crate::live::{Group, Kind, Object};
use crate::read::kinds::{DeviceKind, Origin, Queueing};

/// The metadata of a kind.
#[derive(Deserialize)]
#[serde(bound = "")]
pub struct MetaOf<K> {
    #[serde(default, deserialize_with = "slim")]
    metadata: ObjectMeta,
    #[serde(skip)]
    of: PhantomData<fn() -> K>,
}

impl<K> Clone for MetaOf<K> {
    fn clone(&self) -> MetaOf<K> {
        MetaOf { metadata: self.metadata.clone(), of: PhantomData }
    }
}

impl<K> std::fmt::Debug for MetaOf<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.metadata.fmt(f)
    }
}

impl<K> From<MetaOf<K>> for OnlyMeta {
    fn from(one: MetaOf<K>) -> OnlyMeta {
        OnlyMeta { metadata: one.metadata }
    }
}

impl<K: Resource<DynamicType = ()>> Resource for MetaOf<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A queue object, or one of another project, whole and undecoded: what is wrong in it is told
/// with its field.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Raw {
    #[serde(skip)]
    metadata: ObjectMeta,
    /// The object.
    pub value: Value,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        // Half of an object, and nothing that anybody reads.
        if let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.remove("managedFields");
        }
        let meta = value.get("metadata").cloned().unwrap_or_default();
        let meta: SlimMeta = serde_json::from_value(meta).map_err(D::Error::custom)?;
        Ok(Raw { metadata: meta.into(), value })
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.kind)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.group)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.version)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The versions in which a kind of queue object may be served, newest first.
pub fn versions(kind: Kind) -> Vec<(Origin, ApiResource)> {
    let Kind::Queueing(what, group) = kind else { return Vec::new() };
    let (name, plural) = match what {
        Queueing::ClusterQueue => ("ClusterQueue", "clusterqueues"),
        Queueing::LocalQueue => ("LocalQueue", "localqueues"),
        Queueing::Cohort => ("Cohort", "cohorts"),
        Queueing::ResourceFlavor => ("ResourceFlavor", "resourceflavors"),
        Queueing::WorkloadPriorityClass => ("WorkloadPriorityClass", "workloadpriorityclasses"),
        Queueing::Topology => ("Topology", "topologies"),
        Queueing::Workload => ("Workload", "workloads"),
    };
    let origins: &[(Origin, &str)] = match group {
        Group::Capstan => &[(Origin::Capstan, "v1alpha1")],
        Group::Kueue => &[(Origin::KueueV1Beta2, "v1beta2"), (Origin::KueueV1Beta1, "v1beta1")],
    };
    let resource = |(origin, version): &(Origin, &str)| {
        let named = GroupVersionKind::gvk(origin.group(), version, name);
        (*origin, ApiResource::from_gvk_with_plural(&named, plural))
    };
    origins.iter().map(resource).collect()
}

/// An owner or a PodGroup of another project as it was served. Items of a list do not say in which
/// version that is.
pub fn gang_object(kind: gangs::kinds::Kind, served: &str, mut value: Box<Value>) -> Object {
    if let Some(fields) = value.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| served.into());
    }
    Object::Gang(kind, value)
}

/// The versions in which an owner or a PodGroup of another project may be served, newest first.
pub fn of_gangs(kind: gangs::kinds::Kind) -> Vec<ApiResource> {
    let row = kind.row();
    let resource = |version: &&str| {
        let named = GroupVersionKind::gvk(row.group, version, row.name);
        ApiResource::from_gvk_with_plural(&named, row.plural)
    };
    row.versions.iter().map(resource).collect()
}

/// Fields by which rules of Kubernetes 1.34 and before selected devices, too; nobody else has them.
const SELECTED_BY: [&str; 2] = ["deviceClassName", "selectors"];

/// The versions in which DeviceTaintRules may be served, newest first: they came to `v1` three
/// releases after all else of their group.
pub fn of_taint_rules() -> Vec<ApiResource> {
    let resource = |version: &str| {
        let named = GroupVersionKind::gvk("resource.k8s.io", version, "DeviceTaintRule");
        ApiResource::from_gvk_with_plural(&named, "devicetaintrules")
    };
    ["v1", "v1beta2", "v1alpha3"].into_iter().map(resource).collect()
}

/// A DeviceTaintRule of any of those. One that selects by what no later version knows is for fewer
/// devices than the rest of it says.
pub fn taint_rule(value: Value) -> Object {
    let kind = Kind::Devices(DeviceKind::TaintRule);
    let selector = value.pointer("/spec/deviceSelector");
    let given = |field: &&str| {
        let said = selector.and_then(|selector| selector.get(*field));
        said.is_some_and(|said| !said.is_null())
    };
    let odd = SELECTED_BY.into_iter().find(given);
    let read = Lenient::of(value).unwrap_or_else(|error| {
        Lenient::Broken(Box::default(), "metadata".into(), format!("cannot be read: {error}"))
    });
    match (read, odd) {
        (Lenient::Read(rule), None) => Object::Devices(Box::new(DeviceObject::TaintRule(rule))),
        (Lenient::Read(rule), Some(field)) => {
            let path = format!("spec.deviceSelector.{field}");
            let problem = "is not known since Kubernetes 1.35: the rule has no effect; select by \
                driver, pool and device";
            let meta = OnlyMeta { metadata: rule.metadata };
            Object::Broken(kind, Box::new(meta), path, problem.into())
        }
        (Lenient::Broken(meta, path, problem), _) => Object::Broken(kind, meta, path, problem),
    }
}
