//! Which kinds are read, by API group, version and name.

use crate::api::{GROUP, KUEUE_GROUP};
use crate::gangs;

/// Where a queue object comes from; the order is the one in which duplicates are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Our own group.
    Capstan,
    /// Kueue's v1beta2.
    KueueV1Beta2,
    /// Kueue's v1beta1.
    KueueV1Beta1,
}

impl Origin {
    /// Whether the object is Kueue's.
    pub fn is_kueue(self) -> bool {
        self != Origin::Capstan
    }

    /// API group.
    pub fn group(self) -> &'static str {
        if self.is_kueue() { KUEUE_GROUP } else { GROUP }
    }
}

/// A kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// A batch/v1 Job.
    Job,
    /// A namespace.
    Namespace,
    /// A PriorityClass.
    PriorityClass,
    /// A RuntimeClass.
    RuntimeClass,
    /// A LimitRange.
    LimitRange,
    /// A PodDisruptionBudget.
    Budget,
    /// One of the kinds of dynamic resource allocation.
    Devices(DeviceKind),
    /// An owner whose labels count for its pods.
    Owner,
    /// Something of storage.
    Storage(StorageKind),
    /// An owner or a PodGroup of another project.
    Gang(gangs::kinds::Kind),
    /// A queue object.
    Queueing(Queueing, Origin),
}

/// The kinds that say what storage there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageKind {
    /// PersistentVolumeClaim.
    Claim,
    /// PersistentVolume.
    Volume,
    /// StorageClass.
    Class,
    /// CSIDriver.
    Driver,
    /// CSINode.
    Node,
    /// CSIStorageCapacity.
    Capacity,
    /// VolumeAttachment.
    Attachment,
}

impl StorageKind {
    /// All of them.
    pub const ALL: [StorageKind; 7] = [
        StorageKind::Class,
        StorageKind::Driver,
        StorageKind::Node,
        StorageKind::Capacity,
        StorageKind::Volume,
        StorageKind::Claim,
        StorageKind::Attachment,
    ];

    /// What people call the kind.
    pub fn name(self) -> &'static str {
        match self {
            StorageKind::Claim => "PersistentVolumeClaim",
            StorageKind::Volume => "PersistentVolume",
            StorageKind::Class => "StorageClass",
            StorageKind::Driver => "CSIDriver",
            StorageKind::Node => "CSINode",
            StorageKind::Capacity => "CSIStorageCapacity",
            StorageKind::Attachment => "VolumeAttachment",
        }
    }

    /// The kind of this name, of the group `storage.k8s.io` or of none.
    fn of(grouped: bool, kind: &str) -> Option<StorageKind> {
        let found = StorageKind::ALL.into_iter().find(|known| known.name() == kind)?;
        let core = matches!(found, StorageKind::Claim | StorageKind::Volume);
        (core != grouped).then_some(found)
    }

    /// Whether objects of this kind live in namespaces.
    pub fn namespaced(self) -> bool {
        matches!(self, StorageKind::Claim | StorageKind::Capacity)
    }
}

/// The kinds of dynamic resource allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// ResourceSlice.
    Slice,
    /// DeviceClass.
    Class,
    /// ResourceClaim.
    Claim,
    /// ResourceClaimTemplate.
    Template,
    /// DeviceTaintRule.
    TaintRule,
}

impl DeviceKind {
    /// All of them.
    pub const ALL: [DeviceKind; 5] = [
        DeviceKind::Slice,
        DeviceKind::Class,
        DeviceKind::Claim,
        DeviceKind::Template,
        DeviceKind::TaintRule,
    ];

    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Slice => "ResourceSlice",
            DeviceKind::Class => "DeviceClass",
            DeviceKind::Claim => "ResourceClaim",
            DeviceKind::Template => "ResourceClaimTemplate",
            DeviceKind::TaintRule => "DeviceTaintRule",
        }
    }

    /// Whether objects of it live in namespaces.
    pub fn namespaced(self) -> bool {
        matches!(self, DeviceKind::Claim | DeviceKind::Template)
    }
}

/// The kinds of queue objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queueing {
    /// ClusterQueue.
    ClusterQueue,
    /// LocalQueue.
    LocalQueue,
    /// Cohort.
    Cohort,
    /// ResourceFlavor.
    ResourceFlavor,
    /// WorkloadPriorityClass.
    WorkloadPriorityClass,
    /// Topology.
    Topology,
    /// Workload: checked, never believed.
    Workload,
}

/// Kinds of our group, for suggestions.
pub const OUR_KINDS: [&str; 7] = [
    "ClusterQueue",
    "LocalQueue",
    "Cohort",
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "Topology",
    "Workload",
];

/// What is known of a kind; `None`: nothing, it is ignored and counted.
pub fn known(api_version: &str, kind: &str) -> Option<Known> {
    if let Some(kind) = gangs::kinds::Kind::of_object(api_version, kind) {
        return Some(Known::Gang(kind));
    }
    let origin = match api_version {
        "v1" => {
            return match kind {
                "Node" => Some(Known::Node),
                "Pod" => Some(Known::Pod),
                "Namespace" => Some(Known::Namespace),
                "LimitRange" => Some(Known::LimitRange),
                _ => StorageKind::of(false, kind).map(Known::Storage),
            };
        }
        "batch/v1" => return (kind == "Job").then_some(Known::Job),
        "apps/v1" => {
            let owner = matches!(kind, "ReplicaSet" | "StatefulSet" | "Deployment");
            return owner.then_some(Known::Owner);
        }
        "scheduling.k8s.io/v1" | "scheduling.k8s.io/v1beta1" => {
            return (kind == "PriorityClass").then_some(Known::PriorityClass);
        }
        "storage.k8s.io/v1" => return StorageKind::of(true, kind).map(Known::Storage),
        "resource.k8s.io/v1" | "resource.k8s.io/v1beta2" => {
            let of_name = |it: &DeviceKind| it.name() == kind;
            return DeviceKind::ALL.into_iter().find(of_name).map(Known::Devices);
        }
        "policy/v1" => return (kind == "PodDisruptionBudget").then_some(Known::Budget),
        "node.k8s.io/v1" => return (kind == "RuntimeClass").then_some(Known::RuntimeClass),
        "capstan.sh/v1alpha1" => Origin::Capstan,
        "kueue.x-k8s.io/v1beta1" => Origin::KueueV1Beta1,
        "kueue.x-k8s.io/v1beta2" => Origin::KueueV1Beta2,
        _ => return None,
    };
    let queueing = match kind {
        "ClusterQueue" => Queueing::ClusterQueue,
        "LocalQueue" => Queueing::LocalQueue,
        "Cohort" => Queueing::Cohort,
        "ResourceFlavor" => Queueing::ResourceFlavor,
        "WorkloadPriorityClass" => Queueing::WorkloadPriorityClass,
        "Topology" => Queueing::Topology,
        // Kueue's Workloads are its own bookkeeping.
        "Workload" if origin == Origin::Capstan => Queueing::Workload,
        _ => return None,
    };
    Some(Known::Queueing(queueing, origin))
}

/// Whether this is a List of anything, or of a kind that is read.
pub fn is_list(api_version: &str, kind: &str) -> bool {
    match kind.strip_suffix("List") {
        Some("") => true,
        Some(item) => known(api_version, item).is_some(),
        None => false,
    }
}

impl Known {
    /// Whether objects of this kind live in namespaces.
    pub fn namespaced(self) -> bool {
        match self {
            Known::Pod | Known::Job | Known::Owner | Known::Gang(_) => true,
            Known::Budget | Known::LimitRange => true,
            Known::Node | Known::Namespace | Known::PriorityClass | Known::RuntimeClass => false,
            Known::Storage(kind) => kind.namespaced(),
            Known::Devices(kind) => kind.namespaced(),
            Known::Queueing(kind, _) => {
                matches!(kind, Queueing::LocalQueue | Queueing::Workload)
            }
        }
    }
}
