//! What the API shows of storage: claims, volumes, classes, and what drivers say of nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{LabelSelector, Labels, NodeSelector, Requirement, Text};

/// A fact about storage.
#[derive(Clone, Debug, PartialEq)]
pub enum StorageFact {
    /// A PersistentVolumeClaim exists, or changed.
    Claim(ClaimFacts),
    /// The PersistentVolumeClaim is gone.
    ClaimGone(ClaimKey),
    /// A PersistentVolume exists, or changed.
    Volume(VolumeFacts),
    /// The PersistentVolume of this name is gone.
    VolumeGone(Text),
    /// A StorageClass exists, or changed.
    Class(StorageClassFacts),
    /// The StorageClass of this name is gone.
    ClassGone(Text),
    /// A CSIDriver exists, or changed.
    Driver(DriverFacts),
    /// The CSIDriver of this name is gone.
    DriverGone(Text),
    /// A CSINode: what drivers do for the node of this name.
    Limits {
        /// The node.
        node: Text,
        /// Volumes at most, by driver; of one that says nothing, as many as a number can count.
        limits: BTreeMap<Text, i64>,
        /// Plugins whose kinds of volumes drivers have taken over there.
        migrated: BTreeSet<Text>,
    },
    /// The CSINode of this name is gone.
    LimitsGone(Text),
    /// A CSIStorageCapacity exists, or changed.
    Capacity(CapacityFacts),
    /// The CSIStorageCapacity is gone: its namespace and name.
    CapacityGone(Text, Text),
    /// A VolumeAttachment exists, or changed.
    Attachment(AttachmentFacts),
    /// The VolumeAttachment of this name is gone.
    AttachmentGone(Text),
}

/// A CSIDriver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFacts {
    /// Unique name.
    pub name: Text,
    /// What it can still make is to be looked at: `spec.storageCapacity`.
    pub counts_capacity: bool,
    /// Pods with its volumes stay away from nodes where it is not:
    /// `spec.preventPodSchedulingIfMissing`.
    pub required: bool,
}

/// Names a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimKey {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

/// Ways in which a volume may be used, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessModes(u8);

impl AccessModes {
    /// `ReadWriteOnce`: on one node.
    pub const ONE_NODE: AccessModes = AccessModes(1);
    /// `ReadOnlyMany`.
    pub const MANY_READ: AccessModes = AccessModes(2);
    /// `ReadWriteMany`.
    pub const MANY_WRITE: AccessModes = AccessModes(4);
    /// `ReadWriteOncePod`: in one pod.
    pub const ONE_POD: AccessModes = AccessModes(8);

    /// These and others.
    pub fn with(self, other: AccessModes) -> AccessModes {
        AccessModes(self.0 | other.0)
    }

    /// Whether all of the others are among these.
    pub fn contains(self, others: AccessModes) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether pods on several nodes may use it at once.
    pub fn many_nodes(self) -> bool {
        self.contains(AccessModes::MANY_READ) || self.contains(AccessModes::MANY_WRITE)
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// Namespace and name.
    pub key: ClaimKey,
    /// Unique id.
    pub uid: Text,
    /// Its StorageClass; empty: none.
    pub class: Text,
    /// Bytes asked; `None`: it does not say.
    pub size: Option<i64>,
    /// Ways in which it is to be used.
    pub modes: AccessModes,
    /// A block device, not a file system.
    pub block: bool,
    /// Its VolumeAttributesClass.
    pub attributes: Option<Text>,
    /// Labels that a volume must have.
    pub selector: Option<LabelSelector>,
    /// The volume that it names.
    pub volume: Option<Text>,
    /// Its binding is complete (`pv.kubernetes.io/bind-completed`).
    pub bound: bool,
    /// Its volume is lost.
    pub lost: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// The node that its volume is to be made for (`volume.kubernetes.io/selected-node`).
    pub selected_node: Option<Text>,
    /// Uid of the pod that it was made for.
    pub made_for: Option<Text>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeFacts {
    /// Unique name.
    pub name: Text,
    /// Its StorageClass; empty: none.
    pub class: Text,
    /// Bytes.
    pub capacity: i64,
    /// Ways in which it may be used.
    pub modes: AccessModes,
    /// A block device, not a file system.
    pub block: bool,
    /// Its VolumeAttributesClass.
    pub attributes: Option<Text>,
    /// Labels; selectors of claims and zones read them.
    pub labels: Labels,
    /// Nodes that can use it; `None`: all.
    pub nodes: Option<NodeSelector>,
    /// The claim that it is for, and that claim's uid, once somebody wrote it.
    pub claim: Option<(ClaimKey, Option<Text>)>,
    /// Nobody's, and ready.
    pub available: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// What attaches it, where volumes of that kind are counted.
    pub attach: Option<Attach>,
    /// What holds instead of `nodes` where a driver has taken its kind over, if that differs.
    pub taken_over: Option<Box<TakenOver>>,
}

/// A volume of a kind that was a part of Kubernetes before there was a driver for it, as that
/// driver has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenOver {
    /// The plugin that it was of, as CSINodes name it.
    pub plugin: Text,
    /// Nodes that can use it; `None`: all.
    pub nodes: Option<NodeSelector>,
}

/// A volume as its driver counts it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attach {
    /// CSI driver.
    pub driver: Text,
    /// The driver's name of the volume.
    pub handle: Text,
    /// Its kind was a part of Kubernetes before it had a driver.
    pub migrated: bool,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageClassFacts {
    /// Unique name.
    pub name: Text,
    /// Who makes its volumes; `None`: nobody does.
    pub provisioner: Option<Text>,
    /// The CSI driver that its volumes are counted under.
    pub driver: Option<Text>,
    /// `WaitForFirstConsumer`.
    pub waits: bool,
    /// Where its volumes can be made: any of these, each a list of requirements; none: anywhere.
    pub topologies: Vec<Vec<Requirement>>,
}

/// A CSIStorageCapacity: what can still be made somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// StorageClass.
    pub class: Text,
    /// Nodes that could use it; `None`: none could.
    pub nodes: Option<LabelSelector>,
    /// Bytes of the largest volume that could be made; `None`: not known, so none.
    pub largest: Option<i64>,
    /// Bytes that are left in all; `None`: nobody says.
    pub left: Option<i64>,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentFacts {
    /// Unique name.
    pub name: Text,
    /// Node.
    pub node: Text,
    /// CSI driver.
    pub driver: Text,
    /// PersistentVolume.
    pub volume: Text,
}

/// Volumes of a pod, as far as they decide where it may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodVolumes {
    /// Claims, each once, in the pod's order.
    pub claims: Vec<ClaimUse>,
    /// Volumes that the pod names without a claim.
    pub disks: Vec<Disk>,
    /// Of a template: claims that are made for each of its pods, by itself. A pod has claims.
    pub to_be_made: Vec<ClaimTemplate>,
}

/// A claim that is made for each pod of a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimTemplate {
    /// Namespace, and how it is spoken of: what it is called is known once its pod is there.
    pub key: ClaimKey,
    /// Its StorageClass.
    pub class: Text,
    /// Bytes asked; `None`: it does not say.
    pub size: Option<i64>,
    /// Ways in which it is to be used.
    pub modes: AccessModes,
    /// A block device, not a file system.
    pub block: bool,
    /// Its VolumeAttributesClass.
    pub attributes: Option<Text>,
    /// Labels that a volume must have.
    pub selector: Option<LabelSelector>,
}

impl ClaimTemplate {
    /// What a claim is that was just made from it.
    pub fn claim(&self) -> ClaimFacts {
        ClaimFacts {
            key: self.key.clone(),
            uid: "".into(),
            class: self.class.clone(),
            size: self.size,
            modes: self.modes,
            block: self.block,
            attributes: self.attributes.clone(),
            selector: self.selector.clone(),
            volume: None,
            bound: false,
            lost: false,
            deleting: false,
            selected_node: None,
            made_for: None,
        }
    }
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimUse {
    /// The claim.
    pub claim: ClaimKey,
    /// Set for a generic ephemeral volume: the pod that the claim must have been made for.
    pub made_for: Option<Text>,
}

/// A volume that a pod names without a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disk {
    /// What kind it is.
    pub kind: DiskKind,
    /// What makes it the same volume: name, id, IQN, or pool and image.
    pub id: Text,
    /// Ceph monitors; of others none.
    pub monitors: Vec<Text>,
    /// Mounted for reading only.
    pub read_only: bool,
    /// As its driver counts it.
    pub attach: Option<Attach>,
}

/// Kinds of volumes that pods name without a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskKind {
    /// `gcePersistentDisk`.
    GcePersistentDisk,
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore,
    /// `iscsi`.
    Iscsi,
    /// `rbd`.
    Rbd,
    /// One that is only counted.
    Counted,
}

/// What tells one storage object from another: its kind, namespace (empty where it has none) and
/// name.
pub type StorageId = (StorageKind, Text, Text);

/// Kinds of storage objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageKind {
    /// StorageClass.
    Class,
    /// CSIDriver.
    Driver,
    /// CSINode.
    Limits,
    /// CSIStorageCapacity.
    Capacity,
    /// PersistentVolume.
    Volume,
    /// PersistentVolumeClaim.
    Claim,
    /// VolumeAttachment.
    Attachment,
}

impl StorageFact {
    /// Which object it is about, and whether it says that this is gone.
    pub fn about(&self) -> (StorageId, bool) {
        let none = || Text::from("");
        match self {
            StorageFact::Claim(ClaimFacts { key, .. }) => {
                ((StorageKind::Claim, key.namespace.clone(), key.name.clone()), false)
            }
            StorageFact::ClaimGone(key) => {
                ((StorageKind::Claim, key.namespace.clone(), key.name.clone()), true)
            }
            StorageFact::Volume(it) => ((StorageKind::Volume, none(), it.name.clone()), false),
            StorageFact::VolumeGone(name) => ((StorageKind::Volume, none(), name.clone()), true),
            StorageFact::Class(it) => ((StorageKind::Class, none(), it.name.clone()), false),
            StorageFact::ClassGone(name) => ((StorageKind::Class, none(), name.clone()), true),
            StorageFact::Driver(it) => ((StorageKind::Driver, none(), it.name.clone()), false),
            StorageFact::DriverGone(name) => ((StorageKind::Driver, none(), name.clone()), true),
            StorageFact::Limits { node, .. } => {
                ((StorageKind::Limits, none(), node.clone()), false)
            }
            StorageFact::LimitsGone(node) => ((StorageKind::Limits, none(), node.clone()), true),
            StorageFact::Capacity(it) => {
                ((StorageKind::Capacity, it.namespace.clone(), it.name.clone()), false)
            }
            StorageFact::CapacityGone(namespace, name) => {
                ((StorageKind::Capacity, namespace.clone(), name.clone()), true)
            }
            StorageFact::Attachment(it) => {
                ((StorageKind::Attachment, none(), it.name.clone()), false)
            }
            StorageFact::AttachmentGone(name) => {
                ((StorageKind::Attachment, none(), name.clone()), true)
            }
        }
    }
}

impl ClaimFacts {
    /// Whether only one pod of the cluster may use it.
    pub fn one_pod(&self) -> bool {
        self.modes.contains(AccessModes::ONE_POD)
    }

    /// Whether its binding is complete.
    pub fn fully_bound(&self) -> bool {
        self.bound && self.volume.is_some()
    }
}

impl VolumeFacts {
    /// Whether it is kept for a claim: its reference names it, and no other of that name.
    pub fn is_for(&self, claim: &ClaimFacts) -> bool {
        self.claim.as_ref().is_some_and(|(key, uid)| {
            *key == claim.key && uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }
}
