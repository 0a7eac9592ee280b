//! The cluster as the API shows it now: objects in, in any order between kinds; facts out.
//!
//! Problem: watches of different kinds are not ordered among each other, break, and list anew.
//! Facts of one object depend on others (a pod's queue label may stand on its Job, its priority on
//! a PriorityClass, an inactive queue on a namesake in the other API group).
//!
//! Wanted: after any history of events the facts told to the engine are those that a fresh list of
//! the same objects would give; an object is told when it, or something it depends on, changed, and
//! not otherwise; a list replaces what was there before it (what it does not name is gone); an
//! object under a name that had another uid before is another object.
//!
//! Cost: for one event the objects that depend on it; per pod a draft of a few hundred bytes, its
//! parts shared with the engine.

use crate::api::classes::PriorityClass;
use crate::api::job::Job;
use crate::api::meta::OnlyMeta;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::read::kinds::{Origin, Queueing};

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
}

/// A watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Pods that are not terminal.
    Pod,
    /// `v1` Nodes.
    Node,
    /// `v1` Namespaces.
    Namespace,
    /// `scheduling.k8s.io/v1` PriorityClasses.
    PriorityClass,
    /// `batch/v1` Jobs.
    Job,
    /// `apps/v1` ReplicaSets.
    ReplicaSet,
    /// `apps/v1` StatefulSets.
    StatefulSet,
    /// `apps/v1` Deployments.
    Deployment,
    /// A kind of queue object of one API group.
    Queueing(Queueing, Group),
}

/// The API group of a queue object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// `capstan.sh`.
    Capstan,
    /// `kueue.x-k8s.io`, whichever version is served.
    Kueue,
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
    /// A queue object, not decoded yet: its faults are ours to tell.
    Queueing(Queueing, Origin, Box<serde_json::Value>),
}
