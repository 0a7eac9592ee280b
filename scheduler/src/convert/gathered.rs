//! Everything that was read, before it is settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    ClusterQueueFacts, CohortFacts, FlavorFacts, Labels, LocalQueueFacts, NodeFacts, Text,
};

use super::job::JobDraft;
use super::marks::{Marks, OwnerName};
use super::pod::PodDraft;
use super::sharing::Shared;
use crate::read::error::Place;
use crate::read::kinds::Origin;

/// API group, kind, namespace and name.
pub type Identity = (Text, Text, Text, Text);

/// Drafts and finished facts, in the order they were read.
#[derive(Debug, Default)]
pub struct Gathered {
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
    /// PriorityClasses by name.
    pub priority_classes: BTreeMap<Text, PriorityClassDraft>,
    /// ClusterQueues with their origin.
    pub cluster_queues: Vec<(Origin, ClusterQueueFacts)>,
    /// LocalQueues with their origin.
    pub local_queues: Vec<(Origin, LocalQueueFacts)>,
    /// Cohorts with their origin.
    pub cohorts: Vec<(Origin, CohortFacts)>,
    /// Flavors with their origin.
    pub flavors: Vec<(Origin, FlavorFacts)>,
    /// WorkloadPriorityClasses with their origin: name and value.
    pub workload_priority_classes: Vec<(Origin, Text, i32)>,
    /// Topologies with their origin: name and levels.
    pub topologies: Vec<(Origin, Text, Vec<Text>)>,
}

/// An owner that only passes its labels on: ReplicaSet, StatefulSet, Deployment.
#[derive(Clone, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub struct PriorityClassDraft {
    /// Value.
    pub value: i32,
    /// It holds for pods that name none.
    pub global_default: bool,
    /// Its pods never preempt.
    pub never_preempts: bool,
}
