//! Slim views of storage: claims, volumes and classes, and what CSI drivers say of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, TopologySelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_queue::LabelSelector;
use super::meta::{SlimMeta, empty_if_null, slim};
use super::resource_like;
use crate::quantity::Quantity;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Claim {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: ClaimSpec,
    /// Status.
    #[serde(default)]
    pub status: Phase,
}

resource_like!(Claim, k8s_openapi::api::core::v1::PersistentVolumeClaim);

/// What a claim asks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSpec {
    /// Name of its StorageClass.
    pub storage_class_name: Option<String>,
    /// Ways in which it is to be used.
    #[serde(default)]
    pub access_modes: Vec<String>,
    /// What it asks.
    #[serde(default)]
    pub resources: ClaimResources,
    /// `Block` or `Filesystem`.
    pub volume_mode: Option<String>,
    /// Labels that its volume must have.
    pub selector: Option<LabelSelector>,
    /// Its volume.
    pub volume_name: Option<String>,
    /// Its VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
}

/// What a claim asks of a volume.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimResources {
    /// `storage`.
    #[serde(default)]
    pub requests: BTreeMap<String, Quantity>,
}

/// The phase of a claim or volume.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Phase {
    /// `Pending`, `Available`, `Bound`, `Lost`, ...
    pub phase: Option<String>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Volume {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: VolumeSpec,
    /// Status.
    #[serde(default)]
    pub status: Phase,
}

resource_like!(Volume, k8s_openapi::api::core::v1::PersistentVolume);

/// What a volume is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// Name of its StorageClass.
    pub storage_class_name: Option<String>,
    /// Ways in which it may be used.
    #[serde(default)]
    pub access_modes: Vec<String>,
    /// `storage`.
    #[serde(default)]
    pub capacity: BTreeMap<String, Quantity>,
    /// `Block` or `Filesystem`.
    pub volume_mode: Option<String>,
    /// Its VolumeAttributesClass.
    pub volume_attributes_class_name: Option<String>,
    /// Nodes that can use it.
    #[serde(default)]
    pub node_affinity: VolumeAffinity,
    /// The claim that it is for.
    pub claim_ref: Option<ClaimRef>,
    /// A CSI volume.
    pub csi: Option<Csi>,
    /// A disk of Google's.
    pub gce_persistent_disk: Option<GceDisk>,
    /// A volume of Amazon's.
    pub aws_elastic_block_store: Option<ById>,
    /// A disk of Microsoft's.
    pub azure_disk: Option<AzureDisk>,
    /// A volume of OpenStack's.
    pub cinder: Option<ById>,
    /// A volume of Portworx'.
    pub portworx_volume: Option<ById>,
}

/// Nodes that can use a volume.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct VolumeAffinity {
    /// Which.
    pub required: Option<NodeSelector>,
}

/// Names a claim.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Unique id.
    pub uid: Option<String>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Csi {
    /// The driver.
    #[serde(default)]
    pub driver: String,
    /// The driver's name of the volume.
    #[serde(default)]
    pub volume_handle: String,
}

/// A disk of Google's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GceDisk {
    /// Its name.
    #[serde(default)]
    pub pd_name: String,
    /// For reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// A volume that has an id.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ById {
    /// The id.
    #[serde(default, rename = "volumeID")]
    pub volume_id: String,
    /// For reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// A disk of Microsoft's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct AzureDisk {
    /// Where it is.
    #[serde(default, rename = "diskURI")]
    pub disk_uri: String,
    /// `Managed`, or one of the kinds before that.
    pub kind: Option<String>,
}

/// A volume of a pod, as far as it has a say in where that runs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// Its name in the pod.
    #[serde(default)]
    pub name: String,
    /// A claim.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// A claim that is made for the pod.
    pub ephemeral: Option<EphemeralSource>,
    /// A disk of Google's.
    pub gce_persistent_disk: Option<GceDisk>,
    /// A volume of Amazon's.
    pub aws_elastic_block_store: Option<ById>,
    /// A disk of Microsoft's.
    pub azure_disk: Option<AzureDisk>,
    /// A volume of OpenStack's.
    pub cinder: Option<ById>,
    /// A volume of Portworx'.
    pub portworx_volume: Option<ById>,
    /// An iSCSI disk.
    pub iscsi: Option<Iscsi>,
    /// A Ceph image.
    pub rbd: Option<Rbd>,
    /// A container image.
    pub image: Option<ImageSource>,
}

/// A container image whose files a pod reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ImageSource {
    /// Its name.
    #[serde(default)]
    pub reference: String,
}

/// A claim that a pod names.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// Its name.
    #[serde(default)]
    pub claim_name: String,
}

/// A claim that is made for a pod. Once it is there, it says itself what it asks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EphemeralSource {
    /// What is made.
    pub volume_claim_template: Option<ClaimTemplate>,
}

/// A claim to be.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimTemplate {
    /// What it will ask.
    #[serde(default)]
    pub spec: ClaimSpec,
}

/// An iSCSI disk.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Iscsi {
    /// Its qualified name.
    #[serde(default)]
    pub iqn: String,
    /// For reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// A Ceph image.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rbd {
    /// Ceph monitors.
    #[serde(default)]
    pub monitors: Vec<String>,
    /// Its pool; absent: `rbd`.
    pub pool: Option<String>,
    /// Its name.
    #[serde(default)]
    pub image: String,
    /// For reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Who makes its volumes.
    #[serde(default)]
    pub provisioner: String,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// Where its volumes can be made.
    #[serde(default)]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

resource_like!(StorageClass, k8s_openapi::api::storage::v1::StorageClass);

/// A CSIDriver.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CsiDriver {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: CsiDriverSpec,
}

resource_like!(CsiDriver, k8s_openapi::api::storage::v1::CSIDriver);

/// What a driver does.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// It says what it can still make.
    pub storage_capacity: Option<bool>,
    /// Pods with its volumes stay away from nodes where it is not.
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}

/// A CSINode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CsiNode {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: CsiNodeSpec,
}

resource_like!(CsiNode, k8s_openapi::api::storage::v1::CSINode);

/// Drivers of a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct CsiNodeSpec {
    /// Drivers; most nodes have none.
    #[serde(default, deserialize_with = "empty_if_null")]
    pub drivers: Vec<NodeDriver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct NodeDriver {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// What it can attach.
    #[serde(default)]
    pub allocatable: Attachable,
}

/// What a driver can attach to a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Attachable {
    /// Volumes; absent: as many as one likes.
    pub count: Option<i32>,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageCapacity {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// StorageClass.
    #[serde(default)]
    pub storage_class_name: String,
    /// Nodes that could use what is made.
    pub node_topology: Option<LabelSelector>,
    /// What is left in all.
    pub capacity: Option<Quantity>,
    /// The largest volume that could be made.
    pub maximum_volume_size: Option<Quantity>,
}

resource_like!(StorageCapacity, k8s_openapi::api::storage::v1::CSIStorageCapacity);

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Attachment {
    /// Metadata.
    #[serde(default, deserialize_with = "slim")]
    #[schemars(with = "SlimMeta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: AttachmentSpec,
}

resource_like!(Attachment, k8s_openapi::api::storage::v1::VolumeAttachment);

/// What is attached where.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSpec {
    /// CSI driver.
    #[serde(default)]
    pub attacher: String,
    /// Node.
    #[serde(default)]
    pub node_name: String,
    /// What.
    #[serde(default)]
    pub source: AttachmentSource,
}

/// What is attached.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentSource {
    /// A PersistentVolume; absent: a volume that a pod names.
    pub persistent_volume_name: Option<String>,
}
