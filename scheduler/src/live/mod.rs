//! The cluster as the API shows it now: objects in, in any order between kinds; facts out.
//!
//! Problem: watches of different kinds are not ordered among each other, break, and list anew.
//! Facts of one object depend on others (a pod's queue label may stand on its Job, its priority on
//! a PriorityClass, an inactive queue on a namesake in the other API group).
//!
//! Wanted: after any history of events the facts told to the engine are those that a fresh list of
//! the same objects would give; an object is told when it, or something it depends on, changed, and
//! not otherwise; a list replaces what was there before it (what it does not name is gone); an
//! object under a name that had another uid before is another object; kinds that another
//! configuration adds count from when all of them were listed, and nothing waits for them.
//!
//! | File | Decides |
//! |---|---|
//! | [`roster`] | which object stands under a name, what a list leaves behind, what is awaited |
//! | [`below`] | whom a change of an owner concerns |
//! | [`claimants`] | which pods a change of a claim concerns |
//! | [`queues`] | what all queue objects say together |
//! | [`notes`] | that the same thing is said of an object once |
//! | [`storage`] | claims, volumes and what makes them, as facts |
//! | [`cluster`] | where each object goes, and what has to be told again because of it |
//! | [`gangs_seen`] | what owners and PodGroups of other projects change for others |
//! | [`pods`] | which pods that ended are there still |
//! | [`objects`] | who an object is |
//! | [`stopped`] | what an owner bears of its last stop |
//! | [`unscheduled`] | what pods that wait say of that themselves |
//! | [`drain`] | facts of what changed, in the order in which others refer to them |
//!
//! No rule of conversion is here: drafts, facts and remarks are those of [`crate::convert`], so
//! that a live cluster and a dump of it mean the same.
//!
//! Cost: for one event the objects that depend on it; per pod a draft of a few hundred bytes, its
//! parts shared with the engine; of pods that ended and count nowhere nothing is kept.

mod below;
mod budgets;
mod claimants;
mod cluster;
mod drain;
mod gangs_seen;
mod notes;
mod objects;
mod pods;
mod queues;
mod ranges;
mod roster;
mod stopped;
mod storage;
mod unscheduled;

#[cfg(test)]
mod manifests;
#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use capstan_core::Input;
use capstan_core::model::input::Text;

use crate::api::budget::PodDisruptionBudget;
use crate::api::classes::{PriorityClass, RuntimeClass};
use crate::api::devices::DeviceObject;
use crate::api::job::Job;
use crate::api::limits::LimitRange;
use crate::api::meta::OnlyMeta;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::config::{Config, QuotaApi};
use crate::gangs;
use crate::read::error::Notice;
use crate::read::kinds::{DeviceKind, Origin, Queueing, StorageKind};

pub use cluster::Live;
pub use stopped::Stopped;
pub use storage::Stored;
pub use unscheduled::Unscheduled;

/// One event of one watch.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A list of this kind begins; what it does not name is gone when it is complete.
    Listing(Kind),
    /// An object of the list.
    Listed(Object),
    /// The list is complete.
    Complete(Kind),
    /// An object was created or changed.
    Applied(Object),
    /// An object was deleted.
    Deleted(Object),
    /// The API group of this kind is not served (any more): there are no objects of it.
    Absent(Kind),
    /// We may not look at this kind; what was there of it stays. What the server says.
    Forbidden(Kind, String),
}

/// A watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Pods; of those that ended only members of gangs that nobody else says anything of.
    Pod,
    /// `v1` Nodes.
    Node,
    /// `v1` Namespaces.
    Namespace,
    /// `scheduling.k8s.io/v1` PriorityClasses.
    PriorityClass,
    /// `node.k8s.io/v1` RuntimeClasses.
    RuntimeClass,
    /// `v1` LimitRanges.
    LimitRange,
    /// `batch/v1` Jobs.
    Job,
    /// `apps/v1` ReplicaSets.
    ReplicaSet,
    /// `apps/v1` StatefulSets.
    StatefulSet,
    /// `apps/v1` Deployments.
    Deployment,
    /// `policy/v1` PodDisruptionBudgets.
    Budget,
    /// A kind that says what storage there is.
    Storage(StorageKind),
    /// A kind of dynamic resource allocation, `resource.k8s.io/v1`.
    Devices(DeviceKind),
    /// A kind of queue object of one API group.
    Queueing(Queueing, Group),
    /// An owner or a PodGroup of another project.
    Gang(gangs::kinds::Kind),
}

/// The API group of a queue object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// `capstan.sh`.
    Capstan,
    /// `kueue.x-k8s.io`, whichever version is served.
    Kueue,
}

/// Kinds that are watched whatever the configuration says.
const ALWAYS: [Kind; 24] = [
    Kind::Namespace,
    Kind::PriorityClass,
    Kind::RuntimeClass,
    Kind::LimitRange,
    Kind::Node,
    Kind::Devices(DeviceKind::Slice),
    Kind::Devices(DeviceKind::Class),
    Kind::Devices(DeviceKind::Claim),
    Kind::Devices(DeviceKind::Template),
    Kind::Devices(DeviceKind::TaintRule),
    Kind::Deployment,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::Job,
    Kind::Budget,
    Kind::Pod,
    Kind::Storage(StorageKind::Class),
    Kind::Storage(StorageKind::Driver),
    Kind::Storage(StorageKind::Node),
    Kind::Storage(StorageKind::Capacity),
    Kind::Storage(StorageKind::Volume),
    Kind::Storage(StorageKind::Claim),
    Kind::Storage(StorageKind::Attachment),
    // Whichever queues are read: Workloads are ours.
    Kind::Queueing(Queueing::Workload, Group::Capstan),
];

/// Kinds of queue objects that are watched. Of Workloads, which are written and not believed, only
/// those are watched that people deactivated.
const QUEUEING: [Queueing; 6] = [
    Queueing::ResourceFlavor,
    Queueing::Topology,
    Queueing::WorkloadPriorityClass,
    Queueing::Cohort,
    Queueing::ClusterQueue,
    Queueing::LocalQueue,
];

impl Kind {
    /// The kinds that are watched: queue objects of the groups that the configuration names.
    pub fn all(config: &Config) -> BTreeSet<Kind> {
        let groups = config.quota_apis.iter().map(|api| match api {
            QuotaApi::Capstan => Group::Capstan,
            QuotaApi::Kueue => Group::Kueue,
        });
        let queueing = groups.flat_map(|group| QUEUEING.map(|kind| Kind::Queueing(kind, group)));
        let gangs = gangs::kinds::Kind::all().map(Kind::Gang);
        ALWAYS.into_iter().chain(queueing).chain(gangs).collect()
    }

    /// What people call the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pod => "Pod",
            Kind::Node => "Node",
            Kind::Namespace => "Namespace",
            Kind::PriorityClass => "PriorityClass",
            Kind::RuntimeClass => "RuntimeClass",
            Kind::LimitRange => "LimitRange",
            Kind::Job => "Job",
            Kind::ReplicaSet => "ReplicaSet",
            Kind::StatefulSet => "StatefulSet",
            Kind::Deployment => "Deployment",
            Kind::Budget => "PodDisruptionBudget",
            Kind::Storage(kind) => kind.name(),
            Kind::Devices(kind) => kind.name(),
            Kind::Gang(kind) => kind.row().name,
            Kind::Queueing(kind, _) => match kind {
                Queueing::ClusterQueue => "ClusterQueue",
                Queueing::LocalQueue => "LocalQueue",
                Queueing::Cohort => "Cohort",
                Queueing::ResourceFlavor => "ResourceFlavor",
                Queueing::WorkloadPriorityClass => "WorkloadPriorityClass",
                Queueing::Topology => "Topology",
                Queueing::Workload => "Workload",
            },
        }
    }

    /// The API group of a kind that not every cluster serves.
    pub fn group(self) -> Option<&'static str> {
        match self {
            Kind::Queueing(_, Group::Capstan) => Some("capstan.sh"),
            Kind::Queueing(_, Group::Kueue) => Some("kueue.x-k8s.io"),
            Kind::Gang(kind) => Some(kind.row().group),
            _ => None,
        }
    }

    /// Whether every API server serves this kind, in the one version that is read.
    pub fn is_always_served(self) -> bool {
        !matches!(self, Kind::Storage(_) | Kind::Devices(_) | Kind::Gang(_) | Kind::Queueing(..))
    }

    /// Whether objects of this kind live in namespaces.
    pub fn namespaced(self) -> bool {
        match self {
            Kind::Node | Kind::Namespace | Kind::PriorityClass | Kind::RuntimeClass => false,
            Kind::Pod | Kind::Job | Kind::ReplicaSet | Kind::StatefulSet | Kind::Deployment => true,
            Kind::Storage(kind) => kind.namespaced(),
            Kind::Devices(kind) => kind.namespaced(),
            Kind::Gang(_) | Kind::Budget | Kind::LimitRange => true,
            Kind::Queueing(kind, _) => {
                matches!(kind, Queueing::LocalQueue | Queueing::Workload)
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group() {
            Some(group) => write!(f, "{} ({group})", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

impl Group {
    /// The group of an object of this origin.
    pub fn of(origin: Origin) -> Group {
        if origin.is_kueue() { Group::Kueue } else { Group::Capstan }
    }
}

/// What changed since the last time, for the engine and for people.
#[derive(Debug, Default)]
pub struct Drained {
    /// Facts: what is gone, then what others refer to first; each object once.
    pub inputs: Vec<Input>,
    /// What is worth knowing; each once.
    pub notices: Vec<Notice>,
    /// Queue objects that came or went; nobody has written on those that are there now.
    pub queues_anew: Vec<(Kind, (Text, Text))>,
}

/// An object as a watch shows it.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(Box<Pod>),
    /// A node.
    Node(Box<Node>),
    /// A Job.
    Job(Box<Job>),
    /// Namespaces, ReplicaSets, StatefulSets, Deployments: metadata is enough.
    Meta(Kind, Box<OnlyMeta>),
    /// A PriorityClass.
    PriorityClass(Box<PriorityClass>),
    /// A RuntimeClass.
    RuntimeClass(Box<RuntimeClass>),
    /// A LimitRange.
    LimitRange(Box<LimitRange>),
    /// A PodDisruptionBudget.
    Budget(Box<PodDisruptionBudget>),
    /// Something of storage: its kind, metadata and what it says.
    Storage(StorageKind, Box<OnlyMeta>, Box<dyn Stored>),
    /// A device, or what claims it.
    Devices(Box<DeviceObject>),
    /// A queue object, not decoded yet: its faults are ours to tell.
    Queueing(Queueing, Origin, Box<serde_json::Value>),
    /// An owner or a PodGroup of another project, not decoded yet.
    Gang(gangs::kinds::Kind, Box<serde_json::Value>),
    /// One that cannot be read: its kind and metadata, the field, what is wrong.
    Broken(Kind, Box<OnlyMeta>, String, String),
}
