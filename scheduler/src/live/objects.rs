//! Who an object is: its kind, its name, its uid.

use capstan_core::model::input::Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::roster::Named;
use super::{Group, Kind, Object};
use crate::api::devices::DeviceObject;
use crate::convert::marks;
use crate::read::kinds::DeviceKind;

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Pod(_) => Kind::Pod,
            Object::Node(_) => Kind::Node,
            Object::Job(_) => Kind::Job,
            Object::Gang(kind, _) => Kind::Gang(*kind),
            Object::Meta(kind, _) | Object::Broken(kind, ..) => *kind,
            Object::PriorityClass(_) => Kind::PriorityClass,
            Object::RuntimeClass(_) => Kind::RuntimeClass,
            Object::LimitRange(_) => Kind::LimitRange,
            Object::Budget(_) => Kind::Budget,
            Object::Storage(kind, ..) => Kind::Storage(*kind),
            Object::Devices(object) => Kind::Devices(match **object {
                DeviceObject::Slice(_) => DeviceKind::Slice,
                DeviceObject::TaintRule(_) => DeviceKind::TaintRule,
                DeviceObject::Class(_) => DeviceKind::Class,
                DeviceObject::Claim(_) => DeviceKind::Claim,
                DeviceObject::Template(_) => DeviceKind::Template,
            }),
            Object::Queueing(kind, origin, _) => Kind::Queueing(*kind, Group::of(*origin)),
        }
    }

    pub(super) fn identity(&self) -> (Named, Text) {
        let meta = match self {
            Object::Pod(pod) => &pod.metadata,
            Object::Node(node) => &node.metadata,
            Object::Job(job) => &job.metadata,
            Object::Meta(_, object) | Object::Broken(_, object, ..) => &object.metadata,
            Object::Storage(_, object, _) => &object.metadata,
            Object::PriorityClass(class) => &class.metadata,
            Object::RuntimeClass(class) => &class.metadata,
            Object::LimitRange(range) => &range.metadata,
            Object::Budget(budget) => &budget.metadata,
            Object::Devices(object) => object.metadata(),
            Object::Queueing(_, _, value) | Object::Gang(_, value) => {
                return value_identity(self.kind(), value);
            }
        };
        identity(self.kind(), meta)
    }
}

/// The identity of an object of a kind.
pub(super) fn identity(kind: Kind, meta: &ObjectMeta) -> (Named, Text) {
    let namespace = if kind.namespaced() { marks::namespace(meta) } else { "" };
    let uid = marks::uid(meta, &kind.name().to_lowercase());
    ((namespace.into(), marks::name(meta).into()), uid)
}

/// The same of one that is not decoded.
pub(super) fn value_identity(kind: Kind, value: &Value) -> (Named, Text) {
    let text = |key: &str| value["metadata"][key].as_str().map(ToOwned::to_owned);
    let meta = ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        ..ObjectMeta::default()
    };
    identity(kind, &meta)
}
