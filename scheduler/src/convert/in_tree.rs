//! Volumes of kinds that Kubernetes once had inside, as the CSI drivers see them that took these
//! kinds over.
//!
//! Decides, as kube-scheduler's translation does, under which driver such a volume counts and what
//! that calls it, and which nodes can use it where the driver is: those that the driver labels with
//! the volume's zone. Other kinds that had been inside (azureFile, vsphereVolume) are left as they
//! are, and count under no driver.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{Attach, TakenOver};
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};

use super::selector;
use super::sharing::Shared;
use crate::api::storage::{AzureDisk, ById, GceDisk, PodVolume, VolumeSpec};

/// A kind of volume that a driver has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    /// The plugin that it was of, which is also the name of who made its volumes.
    plugin: &'static str,
    driver: &'static str,
    /// The label in which the driver says the zone of a node; none: zones are as they were.
    zone: Option<&'static str>,
}

const EBS: Kind = Kind {
    plugin: "kubernetes.io/aws-ebs",
    driver: "ebs.csi.aws.com",
    zone: Some("topology.ebs.csi.aws.com/zone"),
};

const GCE: Kind = Kind {
    plugin: "kubernetes.io/gce-pd",
    driver: "pd.csi.storage.gke.io",
    zone: Some("topology.gke.io/zone"),
};

const AZURE: Kind =
    Kind { plugin: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com", zone: None };

const CINDER: Kind = Kind {
    plugin: "kubernetes.io/cinder",
    driver: "cinder.csi.openstack.org",
    zone: Some("topology.cinder.csi.openstack.org/zone"),
};

const PORTWORX: Kind =
    Kind { plugin: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com", zone: None };

const KINDS: [Kind; 5] = [EBS, GCE, AZURE, CINDER, PORTWORX];

/// Plugins that are gone without a driver under which kube-scheduler would count their volumes.
const UNCOUNTED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// Labels of zone and region: those of today, and those before.
const PLACES: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"],
    ["failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"],
];

/// What separates the zones of a volume that is in several.
const SEPARATOR: &str = "__";

/// What a volume says of each kind, be it one of the cluster or of a pod.
struct Disks<'a> {
    gce: Option<&'a GceDisk>,
    ebs: Option<&'a ById>,
    azure: Option<&'a AzureDisk>,
    cinder: Option<&'a ById>,
    portworx: Option<&'a ById>,
}

impl Disks<'_> {
    /// The kind, the first that is said, and what its driver calls the volume, if that has a name
    /// for it; `zones`: those that the volume is labelled with.
    fn kind(&self, zones: &str) -> Option<(Kind, Option<String>)> {
        let by_id = |disk: &ById| Some(disk.volume_id.clone());
        let kinds = [
            self.gce.map(|disk| (GCE, gce_handle(&disk.pd_name, zones))),
            self.ebs.map(|disk| (EBS, ebs_handle(&disk.volume_id))),
            self.azure.map(|disk| (AZURE, azure_handle(disk))),
            self.cinder.map(|disk| (CINDER, by_id(disk))),
            self.portworx.map(|disk| (PORTWORX, by_id(disk))),
        ];
        kinds.into_iter().flatten().next()
    }
}

/// Labels of a volume.
type Labels = BTreeMap<String, String>;

/// The driver that counts what is made by a provisioner; `None`: nobody does.
pub fn driver_of(provisioner: &str) -> Option<&str> {
    let kind = KINDS.iter().find(|kind| kind.plugin == provisioner);
    let own = Some(provisioner).filter(|it| !it.is_empty() && !UNCOUNTED.contains(it));
    kind.map(|kind| kind.driver).or(own)
}

/// What is known of a volume of such a kind: how it counts, and what holds of nodes instead of its
/// own words where its driver is. `None`: it is of no such kind.
pub fn of_volume(
    spec: &VolumeSpec,
    labels: Option<&Labels>,
    shared: &mut Shared,
) -> Option<(Option<Attach>, Option<Box<TakenOver>>)> {
    let none = Labels::new();
    let labels = labels.unwrap_or(&none);
    let zones = PLACES.iter().rev().filter_map(|[zone, _]| labels.get(*zone));
    let zones = zones.map(String::as_str).find(|zones| !zones.is_empty());
    let disks = Disks {
        gce: spec.gce_persistent_disk.as_ref(),
        ebs: spec.aws_elastic_block_store.as_ref(),
        azure: spec.azure_disk.as_ref(),
        cinder: spec.cinder.as_ref(),
        portworx: spec.portworx_volume.as_ref(),
    };
    let (kind, handle) = disks.kind(zones.unwrap_or_default())?;
    let taken_over = taken_over(kind, handle.is_some(), spec, labels, shared);
    Some((handle.and_then(|handle| counted(kind, &handle, shared)), taken_over))
}

/// How a volume of such a kind counts that a pod names without a claim; `None`: not at all.
pub fn of_pod_volume(volume: &PodVolume, shared: &mut Shared) -> Option<Attach> {
    let disks = Disks {
        gce: volume.gce_persistent_disk.as_ref(),
        ebs: volume.aws_elastic_block_store.as_ref(),
        azure: volume.azure_disk.as_ref(),
        cinder: volume.cinder.as_ref(),
        portworx: volume.portworx_volume.as_ref(),
    };
    let (kind, handle) = disks.kind("")?;
    counted(kind, &handle?, shared)
}

fn counted(kind: Kind, handle: &str, shared: &mut Shared) -> Option<Attach> {
    let driver = shared.texts.text(kind.driver);
    (!handle.is_empty()).then(|| Attach { driver, handle: handle.into(), migrated: true })
}

/// What Google's driver calls a disk, by the zones that its volume is labelled with; `None`: by
/// these it is in no region.
fn gce_handle(name: &str, zones: &str) -> Option<String> {
    let zones: Vec<&str> = zones.split(SEPARATOR).collect();
    let place = match zones.as_slice() {
        [""] => "zones/UNSPECIFIED".to_owned(),
        [zone] => format!("zones/{zone}"),
        several => format!("regions/{}", region(several)?),
    };
    Some(format!("projects/UNSPECIFIED/{place}/disks/{name}"))
}

/// The region that all these zones are in.
fn region<'a>(zones: &[&'a str]) -> Option<&'a str> {
    let first = region_of(zones.first()?)?;
    zones.iter().all(|zone| region_of(zone) == Some(first)).then_some(first)
}

/// The region of a zone, which is named `europe-west1-b` or the like.
fn region_of(zone: &str) -> Option<&str> {
    let (region, _) = zone.rsplit_once('-')?;
    (region.split('-').count() == 2).then_some(region)
}

/// The id itself, also where it is written as an address, `aws://us-east-1a/vol-1`; `None`: that
/// address is none of a volume.
fn ebs_handle(id: &str) -> Option<String> {
    let Some(address) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let (_zone, path) = address.split_once('/')?;
    let name = path.trim_matches('/');
    (name.starts_with("vol-") && !name.contains('/')).then(|| name.to_owned())
}

/// Where a disk of Microsoft's is; `None`: it is of a kind that the driver has not.
fn azure_handle(disk: &AzureDisk) -> Option<String> {
    let managed = disk.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("managed"));
    managed.then(|| disk.disk_uri.clone())
}

/// What holds of nodes where the driver is; `None`: what the volume says. What the driver has no
/// name for can be used on none of them.
fn taken_over(
    kind: Kind,
    named: bool,
    spec: &VolumeSpec,
    labels: &Labels,
    shared: &mut Shared,
) -> Option<Box<TakenOver>> {
    let own = spec.node_affinity.required.as_ref();
    let nodes = match kind.zone {
        _ if !named => Some(NodeSelector::default()),
        Some(zone) => by_driver(own.cloned(), labels, zone),
        None => return None,
    };
    (nodes.as_ref() != own).then(|| {
        let plugin = shared.texts.text(kind.plugin);
        Box::new(TakenOver { plugin, nodes: nodes.as_ref().map(selector::node_selector) })
    })
}

/// Nodes that can use a volume, by the label in which its driver says their zones: what the volume
/// asks of zones it asks of that label; where it asks nothing, its own labels say its zones. With
/// the older label of a zone goes the older one of the region.
fn by_driver(nodes: Option<NodeSelector>, labels: &Labels, zone: &str) -> Option<NodeSelector> {
    let asked = |names: &&[&str; 2]| requirements(nodes.as_ref()).any(|it| it.key == names[0]);
    let labelled = |names: &&[&str; 2]| labels.contains_key(names[0]);
    let names = PLACES.iter().find(asked).or_else(|| PLACES.iter().find(labelled));
    let [own_zone, own_region] = *names.unwrap_or(&PLACES[0]);
    let has_values = |key: &str| {
        let values = requirements(nodes.as_ref()).filter(|it| it.key == key);
        values.flat_map(|it| &it.values).any(|values| !values.is_empty())
    };
    let (by_zone, by_region) = (has_values(own_zone), has_values(own_region));
    let mut nodes = nodes;
    if by_zone {
        rename(&mut nodes, own_zone, zone);
    } else if let Some(zones) = labels.get(own_zone) {
        add(&mut nodes, zone, zones);
    }
    if by_region {
        rename(&mut nodes, own_region, PLACES[0][1]);
    }
    nodes
}

fn requirements(nodes: Option<&NodeSelector>) -> impl Iterator<Item = &NodeSelectorRequirement> {
    let terms = nodes.into_iter().flat_map(|nodes| &nodes.node_selector_terms);
    terms.flat_map(|term| term.match_expressions.iter().flatten())
}

/// What was asked of one label is asked of another.
fn rename(nodes: &mut Option<NodeSelector>, old: &str, new: &str) {
    let terms = nodes.iter_mut().flat_map(|nodes| &mut nodes.node_selector_terms);
    let all = terms.flat_map(|term| term.match_expressions.iter_mut().flatten());
    all.filter(|it| it.key == old).for_each(|it| it.key = new.to_owned());
}

/// Each term asks for one of these zones, too.
fn add(nodes: &mut Option<NodeSelector>, label: &str, zones: &str) {
    let zones = zones.split(SEPARATOR).map(str::trim).filter(|zone| !zone.is_empty());
    let zones: BTreeSet<&str> = zones.collect();
    if zones.is_empty() {
        return;
    }
    let terms = &mut nodes.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        term.match_expressions.get_or_insert_default().push(NodeSelectorRequirement {
            key: label.to_owned(),
            operator: "In".to_owned(),
            values: Some(zones),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: &str = "topology.kubernetes.io/zone";
    const BEFORE: &str = "failure-domain.beta.kubernetes.io/zone";
    const OF_DRIVER: &str = "topology.ebs.csi.aws.com/zone";

    fn asks(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let values = Some(values).filter(|values| !values.is_empty());
        NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    /// Terms, each of these requirements.
    fn nodes(terms: &[&[NodeSelectorRequirement]]) -> Option<NodeSelector> {
        let term = |all: &&[NodeSelectorRequirement]| NodeSelectorTerm {
            match_expressions: Some(all.to_vec()),
            match_fields: None,
        };
        Some(NodeSelector { node_selector_terms: terms.iter().map(term).collect() })
    }

    fn labelled(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_a_volume_asks_of_zones_it_asks_of_its_drivers_label() {
        let region = asks("failure-domain.beta.kubernetes.io/region", "In", &["r"]);
        let newer = asks("topology.kubernetes.io/region", "In", &["r"]);
        let (other, labels) = (asks("disk", "Exists", &[]), labelled(&[(TODAY, "z9")]));
        let before =
            nodes(&[&[asks(BEFORE, "In", &["a"]), region.clone()], std::slice::from_ref(&other)]);
        let after = nodes(&[&[asks(OF_DRIVER, "In", &["a"]), newer], &[other]]);
        assert_eq!(by_driver(before, &labels, OF_DRIVER), after);
        // The zone of today goes first, and regions with it.
        let before = nodes(&[&[asks(TODAY, "In", &["a"]), asks(BEFORE, "In", &["b"])]]);
        let after = nodes(&[&[asks(OF_DRIVER, "In", &["a"]), asks(BEFORE, "In", &["b"])]]);
        assert_eq!(by_driver(before, &labels, OF_DRIVER), after);
        let before = nodes(&[&[asks(TODAY, "In", &["a"]), region.clone()]]);
        let after = nodes(&[&[asks(OF_DRIVER, "In", &["a"]), region]]);
        assert_eq!(by_driver(before, &labels, OF_DRIVER), after);
    }

    #[test]
    fn a_volume_that_asks_nothing_of_zones_is_in_those_of_its_labels() {
        let zones = || asks(OF_DRIVER, "In", &["a", "b"]);
        let labels = labelled(&[(BEFORE, "b__ a__")]);
        assert_eq!(by_driver(None, &labels, OF_DRIVER), nodes(&[&[zones()]]));
        assert_eq!(by_driver(nodes(&[]), &labels, OF_DRIVER), nodes(&[&[zones()]]));
        let other = || asks("disk", "Exists", &[]);
        let after = nodes(&[&[other(), zones()], &[other(), zones()]]);
        assert_eq!(by_driver(nodes(&[&[other()], &[other()]]), &labels, OF_DRIVER), after);
        let exists = || asks(BEFORE, "Exists", &[]);
        let after = nodes(&[&[exists(), zones()]]);
        assert_eq!(by_driver(nodes(&[&[exists()]]), &labels, OF_DRIVER), after);
        assert_eq!(by_driver(None, &labelled(&[(TODAY, "__")]), OF_DRIVER), None);
        assert_eq!(by_driver(None, &Labels::new(), OF_DRIVER), None);
    }

    #[test]
    fn drivers_have_names_for_volumes() {
        for id in ["vol-1", "aws://us-east-1a/vol-1", "aws:///vol-1"] {
            assert_eq!(ebs_handle(id).as_deref(), Some("vol-1"), "{id}");
        }
        assert_eq!(ebs_handle("aws://us-east-1a/disk"), None);
        let gce = |zones: &str| gce_handle("d", zones);
        let named = |place: &str| Some(format!("projects/UNSPECIFIED/{place}/disks/d"));
        assert_eq!(gce(""), named("zones/UNSPECIFIED"));
        assert_eq!(gce("europe-west1-b"), named("zones/europe-west1-b"));
        assert_eq!(gce("europe-west1-b__europe-west1-c"), named("regions/europe-west1"));
        assert_eq!(gce("europe-west1-b__us-east1-b"), None);
        let azure = |kind: Option<&str>| {
            let kind = kind.map(str::to_owned);
            azure_handle(&AzureDisk { disk_uri: "uri".to_owned(), kind })
        };
        assert_eq!(azure(Some("managed")).as_deref(), Some("uri"));
        assert_eq!(azure(Some("Dedicated")), None);
        assert_eq!(azure(None).as_deref(), Some("uri"));
    }

    #[test]
    fn made_volumes_count_under_the_driver_of_today() {
        assert_eq!(driver_of("kubernetes.io/aws-ebs"), Some("ebs.csi.aws.com"));
        assert_eq!(driver_of("kubernetes.io/vsphere-volume"), None);
        assert_eq!(driver_of("disks.example.com"), Some("disks.example.com"));
        assert_eq!(driver_of(""), None);
    }
}
