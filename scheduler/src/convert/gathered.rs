//! Everything that was read, before it is settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{Labels, NodeFacts, StorageFact, Text};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::budget::BudgetDraft;
use super::devices::DeviceDirectory;
use super::gang::GangDraft;
use super::group::GroupDraft;
use super::job::JobDraft;
use super::marks::{self, Marks, OwnerName};
use super::pod::PodDraft;
use super::quota;
use super::ranges::LimitRanges;
use super::runtime::RuntimeClassDraft;
use super::sharing::Shared;
use super::storage::DefaultClass;
use crate::api::classes::PriorityClass;
use crate::read::error::Place;

/// API group, kind, namespace and name.
pub type Identity = (Text, Text, Text, Text);

/// Drafts and finished facts, in the order they were read.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Pods of this `schedulerName` are ours.
    pub scheduler: Text,
    /// What equal parts share.
    pub shared: Shared,
    /// Where each object that has a name stands.
    pub places: BTreeMap<Identity, Place>,
    /// Nodes.
    pub nodes: Vec<NodeFacts>,
    /// Namespaces given, with their labels.
    pub namespaces: BTreeMap<Text, Labels>,
    /// Pods.
    pub pods: Vec<PodDraft>,
    /// Jobs.
    pub jobs: Vec<JobDraft>,
    /// Owners that only pass their labels on.
    pub owners: Vec<OwnerDraft>,
    /// Owners of other projects that are gangs.
    pub gangs: Vec<GangDraft>,
    /// PodGroups.
    pub groups: Vec<GroupDraft>,
    /// PriorityClasses by name.
    pub priority_classes: BTreeMap<Text, PriorityClassDraft>,
    /// RuntimeClasses by name.
    pub runtime_classes: BTreeMap<Text, RuntimeClassDraft>,
    /// LimitRanges.
    pub limit_ranges: LimitRanges,
    /// Devices, and claims on them.
    pub devices: DeviceDirectory,
    /// Queue objects.
    pub queueing: quota::Objects,
    /// Claims, volumes and what makes them.
    pub storage: Vec<StorageFact>,
    /// What claims get that name no class.
    pub default_class: DefaultClass,
    /// PodDisruptionBudgets.
    pub budgets: Vec<BudgetDraft>,
}

/// An owner that only passes its labels on: ReplicaSet, StatefulSet, Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerDraft {
    /// Kind.
    pub kind: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Unique id.
    pub uid: Text,
    /// Our labels and annotations on it.
    pub marks: Arc<Marks>,
    /// Our labels and annotations on its template.
    pub template: Arc<Marks>,
    /// Who owns it.
    pub owner: Option<OwnerName>,
}

/// A PriorityClass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityClassDraft {
    /// Value.
    pub value: i32,
    /// It holds for pods that name none.
    pub global_default: bool,
    /// Its pods never preempt.
    pub never_preempts: bool,
}

impl OwnerDraft {
    /// The draft of an owner of this kind.
    pub fn of(
        kind: &str,
        meta: &ObjectMeta,
        template: &ObjectMeta,
        shared: &mut Shared,
    ) -> OwnerDraft {
        OwnerDraft {
            kind: shared.texts.text(kind),
            namespace: shared.texts.text(marks::namespace(meta)),
            name: marks::name(meta).into(),
            uid: marks::uid(meta, &kind.to_lowercase()),
            marks: shared.marks_of(meta),
            template: shared.marks_of(template),
            owner: marks::owner(meta, shared),
        }
    }
}

impl PriorityClassDraft {
    /// The draft of a PriorityClass.
    pub fn of(class: &PriorityClass) -> PriorityClassDraft {
        PriorityClassDraft {
            value: class.value,
            global_default: class.global_default,
            never_preempts: class.preemption_policy.as_deref() == Some("Never"),
        }
    }
}
