//! Storage objects and the volumes of pods, as facts.
//!
//! Decides which volumes there are to take and what pods bring with them; what becomes of kinds of
//! volumes that Kubernetes once had inside is [`in_tree`]'s.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    AccessModes, Attach, AttachmentFacts, CapacityFacts, ClaimFacts, ClaimKey, ClaimTemplate,
    ClaimUse, Disk, DiskKind, DriverFacts, LabelSelector, Operator, PodVolumes, Requirement,
    StorageClassFacts, StorageFact, Text, VolumeFacts,
};
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::in_tree;
use super::marks;
use super::selector;
use super::sharing::Shared;
use super::time;
use crate::api::cluster_queue;
use crate::api::storage::{
    Attachment, Claim, ClaimSpec, Csi, CsiDriver, CsiNode, PodVolume, StorageCapacity,
    StorageClass, Volume,
};
use crate::quantity::Quantity;

/// Its binding is complete.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The node that a claim's volume is to be made for.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A volume was given to a claim by a controller, not by its author.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The older way to name a StorageClass; it goes first.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Mark the class of claims that name none, the second in older clusters.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Who makes no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Plugins whose kinds of volumes drivers of a node have taken over.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// Something that becomes a fact of storage.
pub trait Storage {
    /// What it says.
    fn fact(&self, shared: &mut Shared) -> StorageFact;

    /// Notes what it has to do with the default StorageClass.
    fn note_default(&self, _defaults: &mut DefaultClass) {}
}

/// The StorageClass that an API server gives to claims which name none: the newest that is marked
/// so, of equals the one of the lower name. A claim that has a uid went through an API server.
#[derive(Debug, Default)]
pub struct DefaultClass {
    class: Option<(Option<Time>, Reverse<Text>)>,
    /// Claims that get it.
    claims: BTreeSet<ClaimKey>,
}

impl DefaultClass {
    /// Facts with the class of claims that get one.
    pub fn complete(&self, facts: Vec<StorageFact>) -> impl Iterator<Item = StorageFact> {
        let usual = self.class.as_ref().map(|(_, Reverse(class))| class);
        facts.into_iter().map(move |mut fact| {
            if let (StorageFact::Claim(claim), Some(class)) = (&mut fact, usual)
                && self.claims.contains(&claim.key)
            {
                claim.class = class.clone();
            }
            fact
        })
    }
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn class_of(meta: &ObjectMeta, named: Option<&String>, shared: &mut Shared) -> Text {
    let named = named.map_or("", String::as_str);
    shared.texts.text(annotation(meta, OLD_CLASS).unwrap_or(named))
}

fn modes(list: &[String]) -> AccessModes {
    let one = |mode: &String| match mode.as_str() {
        "ReadWriteOnce" => AccessModes::ONE_NODE,
        "ReadOnlyMany" => AccessModes::MANY_READ,
        "ReadWriteMany" => AccessModes::MANY_WRITE,
        "ReadWriteOncePod" => AccessModes::ONE_POD,
        _ => AccessModes::default(),
    };
    list.iter().map(one).fold(AccessModes::default(), AccessModes::with)
}

fn is_block(mode: Option<&String>) -> bool {
    mode.is_some_and(|mode| mode == "Block")
}

fn given(text: Option<&String>, shared: &mut Shared) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(|text| shared.texts.text(text))
}

/// A selector whose faults match nothing.
fn label_selector(selector: &cluster_queue::LabelSelector) -> LabelSelector {
    selector::label_selector(selector, "").0
}

fn storage(amounts: &BTreeMap<String, Quantity>) -> Option<i64> {
    amounts.get("storage").map(|quantity| quantity.units())
}

impl Storage for Claim {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let (meta, spec) = (&self.metadata, &self.spec);
        let owners = meta.owner_references.iter().flatten();
        let mut owners = owners.filter(|owner| owner.controller == Some(true));
        let owner = owners.find(|owner| owner.kind == "Pod");
        StorageFact::Claim(ClaimFacts {
            key: ClaimKey {
                namespace: shared.texts.text(marks::namespace(meta)),
                name: shared.texts.text(marks::name(meta)),
            },
            uid: marks::uid(meta, "persistentvolumeclaim"),
            class: class_of(meta, spec.storage_class_name.as_ref(), shared),
            size: storage(&spec.resources.requests),
            modes: modes(&spec.access_modes),
            block: is_block(spec.volume_mode.as_ref()),
            attributes: given(spec.volume_attributes_class_name.as_ref(), shared),
            selector: spec.selector.as_ref().map(label_selector),
            volume: given(spec.volume_name.as_ref(), shared),
            bound: annotation(meta, BIND_COMPLETED).is_some(),
            lost: self.status.phase.as_deref() == Some("Lost"),
            deleting: meta.deletion_timestamp.is_some(),
            selected_node: annotation(meta, SELECTED_NODE).map(|node| shared.texts.text(node)),
            made_for: owner.map(|owner| shared.texts.text(&owner.uid)),
        })
    }

    fn note_default(&self, defaults: &mut DefaultClass) {
        let (meta, named) = (&self.metadata, self.spec.storage_class_name.is_some());
        if !named && annotation(meta, OLD_CLASS).is_none() && meta.uid.is_none() {
            let (namespace, name) = (marks::namespace(meta).into(), marks::name(meta).into());
            defaults.claims.insert(ClaimKey { namespace, name });
        }
    }
}

impl Storage for Volume {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let (meta, spec) = (&self.metadata, &self.spec);
        let claim = spec.claim_ref.as_ref().map(|claim| {
            let namespace = claim.namespace.as_deref().unwrap_or("default");
            let key = ClaimKey {
                namespace: shared.texts.text(namespace),
                name: shared.texts.text(&claim.name),
            };
            (key, given(claim.uid.as_ref(), shared))
        });
        // One that nobody has given a phase is as good as one that has just been made.
        let phase = self.status.phase.as_deref();
        let available = phase == Some("Available") || phase.is_none() && claim.is_none();
        let (attach, taken_over) = match &spec.csi {
            Some(csi) => (counted(csi, shared), None),
            None => in_tree::of_volume(spec, meta.labels.as_ref(), shared).unwrap_or_default(),
        };
        StorageFact::Volume(VolumeFacts {
            name: shared.texts.text(marks::name(meta)),
            class: class_of(meta, spec.storage_class_name.as_ref(), shared),
            capacity: storage(&spec.capacity).unwrap_or(0),
            modes: modes(&spec.access_modes),
            block: is_block(spec.volume_mode.as_ref()),
            attributes: given(spec.volume_attributes_class_name.as_ref(), shared),
            labels: marks::labels(&meta.labels, shared),
            nodes: spec.node_affinity.required.as_ref().map(selector::node_selector),
            claim,
            available,
            deleting: meta.deletion_timestamp.is_some(),
            attach,
            taken_over,
        })
    }
}

/// How a volume of a CSI driver counts.
fn counted(csi: &Csi, shared: &mut Shared) -> Option<Attach> {
    let driver = shared.texts.text(&csi.driver);
    let handle = csi.volume_handle.as_str().into();
    let named = !csi.driver.is_empty() && !csi.volume_handle.is_empty();
    named.then_some(Attach { driver, handle, migrated: false })
}

impl Storage for StorageClass {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let driver = in_tree::driver_of(&self.provisioner);
        let makes = !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER;
        let topologies = self.allowed_topologies.iter().map(|term| {
            let all = term.match_label_expressions.iter().flatten();
            let one =
                |expression: &k8s_openapi::api::core::v1::TopologySelectorLabelRequirement| {
                    let values = expression.values.iter().map(|value| value.as_str().into());
                    Requirement {
                        key: expression.key.as_str().into(),
                        operator: Operator::In,
                        values: values.collect(),
                    }
                };
            all.map(one).collect()
        });
        StorageFact::Class(StorageClassFacts {
            name: shared.texts.text(marks::name(&self.metadata)),
            provisioner: makes.then(|| shared.texts.text(&self.provisioner)),
            driver: driver.map(|driver| shared.texts.text(driver)),
            waits: self.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            topologies: topologies.collect(),
        })
    }

    fn note_default(&self, defaults: &mut DefaultClass) {
        let meta = &self.metadata;
        if IS_DEFAULT.iter().any(|mark| annotation(meta, mark) == Some("true")) {
            let name: Text = marks::name(meta).into();
            let this = (meta.creation_timestamp.as_ref().map(time), Reverse(name));
            defaults.class = defaults.class.take().max(Some(this));
        }
    }
}

impl Storage for CsiDriver {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        StorageFact::Driver(DriverFacts {
            name: shared.texts.text(marks::name(&self.metadata)),
            counts_capacity: self.spec.storage_capacity == Some(true),
            required: self.spec.prevent_pod_scheduling_if_missing == Some(true),
        })
    }
}

impl Storage for CsiNode {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let counts = self.spec.drivers.iter().map(|driver| {
            let most = driver.allocatable.count.map_or(i64::MAX, i64::from);
            (shared.texts.text(&driver.name), most)
        });
        let limits = counts.collect();
        let migrated = annotation(&self.metadata, MIGRATED).unwrap_or_default().split(',');
        let migrated = migrated.filter(|plugin| !plugin.is_empty());
        let migrated = migrated.map(|plugin| shared.texts.text(plugin)).collect();
        let node = shared.texts.text(marks::name(&self.metadata));
        StorageFact::Limits { node, limits, migrated }
    }
}

impl Storage for StorageCapacity {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let largest = self.maximum_volume_size.or(self.capacity);
        StorageFact::Capacity(CapacityFacts {
            namespace: shared.texts.text(marks::namespace(&self.metadata)),
            name: shared.texts.text(marks::name(&self.metadata)),
            class: shared.texts.text(&self.storage_class_name),
            nodes: self.node_topology.as_ref().map(label_selector),
            largest: largest.map(|quantity| quantity.units()),
            left: self.capacity.map(|quantity| quantity.units()),
        })
    }
}

impl Storage for Attachment {
    fn fact(&self, shared: &mut Shared) -> StorageFact {
        let volume = self.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
        StorageFact::Attachment(AttachmentFacts {
            name: shared.texts.text(marks::name(&self.metadata)),
            node: shared.texts.text(&self.spec.node_name),
            driver: shared.texts.text(&self.spec.attacher),
            volume: shared.texts.text(volume),
        })
    }
}

/// Who has volumes: a namespace, and of a pod its name and uid; templates have none of these yet.
pub struct Holder<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name and uid of the pod.
    pub pod: Option<(&'a str, &'a str)>,
}

/// Volumes of a pod that have a say in where it runs.
pub fn of_pod(
    volumes: &[PodVolume],
    holder: &Holder<'_>,
    shared: &mut Shared,
) -> Option<Arc<PodVolumes>> {
    let mut found = PodVolumes::default();
    let mut known = BTreeSet::new();
    for volume in volumes {
        let (name, made_for) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => (claim.claim_name.clone(), None),
            (None, Some(source)) => {
                let Some((pod, uid)) = holder.pod else {
                    let template = source.volume_claim_template.as_ref();
                    let made = template.and_then(|it| to_be_made(volume, &it.spec, holder, shared));
                    found.to_be_made.extend(made);
                    continue;
                };
                (format!("{pod}-{}", volume.name), Some(uid.into()))
            }
            (None, None) => {
                found.disks.extend(disk(volume, shared));
                continue;
            }
        };
        if known.insert(name.clone()) {
            let namespace = shared.texts.text(holder.namespace);
            let claim = ClaimKey { namespace, name: shared.texts.text(&name) };
            found.claims.push(ClaimUse { claim, made_for });
        }
    }
    (found != PodVolumes::default()).then(|| Arc::new(found))
}

/// The claim that is made for each pod of a template; `None`: its class is whichever is the default
/// one then, or its volume is named.
fn to_be_made(
    volume: &PodVolume,
    spec: &ClaimSpec,
    holder: &Holder<'_>,
    shared: &mut Shared,
) -> Option<ClaimTemplate> {
    let class = given(spec.storage_class_name.as_ref(), shared)?;
    if given(spec.volume_name.as_ref(), shared).is_some() {
        return None;
    }
    let key = ClaimKey {
        namespace: shared.texts.text(holder.namespace),
        name: shared.texts.text(&format!("<pod>-{}", volume.name)),
    };
    Some(ClaimTemplate {
        key,
        class,
        size: storage(&spec.resources.requests),
        modes: modes(&spec.access_modes),
        block: is_block(spec.volume_mode.as_ref()),
        attributes: given(spec.volume_attributes_class_name.as_ref(), shared),
        selector: spec.selector.as_ref().map(label_selector),
    })
}

/// A volume that a pod names without a claim.
fn disk(volume: &PodVolume, shared: &mut Shared) -> Option<Disk> {
    let plain = |kind, id: &str, read_only, attach| {
        Some(Disk { kind, id: id.into(), monitors: Vec::new(), read_only, attach })
    };
    let attach = in_tree::of_pod_volume(volume, shared);
    if let Some(disk) = &volume.gce_persistent_disk {
        return plain(DiskKind::GcePersistentDisk, &disk.pd_name, disk.read_only, attach);
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        return plain(DiskKind::AwsElasticBlockStore, &disk.volume_id, disk.read_only, attach);
    }
    if let Some(disk) = &volume.iscsi {
        return plain(DiskKind::Iscsi, &disk.iqn, disk.read_only, None);
    }
    if let Some(image) = &volume.rbd {
        let pool = image.pool.as_deref().filter(|pool| !pool.is_empty()).unwrap_or("rbd");
        let monitors = image.monitors.iter().map(|monitor| monitor.as_str().into());
        return Some(Disk {
            kind: DiskKind::Rbd,
            id: format!("{pool}/{}", image.image).into(),
            monitors: monitors.collect(),
            read_only: image.read_only,
            attach: None,
        });
    }
    let attach = attach?;
    plain(DiskKind::Counted, &attach.handle.clone(), false, Some(attach))
}
